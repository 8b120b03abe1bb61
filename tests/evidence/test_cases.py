"""Real misconfigurations: what must be found, on which line, and what must not be said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from evidence import scoring
from harness import plugins
from ruamel.yaml import YAML

FORMS = ("k8s", "k8s-fragment", "compose", "shell", "rayservice", "kubeai", "dynamo",
         "engine-yaml", "slurm", "kserve", "helm-values",
         "haproxy")  # fmt: skip
LAUNCHED = (
    "vllm",
    "ray-serve-llm + vllm",
    "vllm (KubeAI)",
    "dynamo + vllm",
    "kserve + vllm",
    "kserve llmisvc + vllm",
    "vllm (production-stack)",
    "vllm (llm-d modelservice)",
    "sglang",
    "sglang router",
)
"""vLLM, by whatever starts it, and SGLang."""
OTHERS = (
    "tgi",
    "lmdeploy",
    "tensorrt-llm",
    "tensorrt-llm (AutoDeploy backend)",
    "dynamo + tensorrt-llm",
)
"""Engines with rules of their own."""
CLASSES = (
    "heads", "kv-heads", "gpu-product", "dims-quant", "experts", "flags", "orchestration",
    "topology", "memory", "recommendation",
)  # fmt: skip

OWED = {
    "mem-deepseek-v3-8x80g": "an exception: 79.3 GiB of weights on a card of 79.5 GiB is a warning,"
    " since sums of this kind of model were never held against logs closely enough for an error",
    "mem-distill-70b-lmdeploy-2xh100": "an exception: what TurboMind takes while it loads, of which"
    " no figure was read; by weights and cache alone it fits",
    "net-trtllm-13b-pp-vs-tp": "a reader: of trtllm-build, which makes an engine and starts none",
    "rec-llama70b-fp8-8xh100-tp8-vs-2xtp4": "an exception: the memory of vLLM 0.5 was not read, and"
    " without it nothing is said of the speed of two layouts",
    "orch-prodstack-ray-pp3-one-worker": "an exception: from chart 0.1.11 on, a raySpec that is not"
    " enabled makes a Deployment, which runs; the mismatch is a warning for older charts",
    "mem-gptoss120b-bf16-tp2-h100": "an exception: only the name says how the weights are stored,"
    " and no error may rest on that",
}
"""Cases that need a rule or a fact that is not built; what is built must hold on them too."""

NO_RULE = ("an exception", "a reader")
"""What is missing is no rule: nothing of such a case can be met."""


@cache
def _cases() -> tuple[Mapping[str, Any], ...]:
    path = SHARED / "cases" / "cases.yaml"
    if not path.is_file():
        return ()
    return tuple(YAML(typ="safe").load(path.read_text(encoding="utf-8"))["cases"])


def _chosen() -> list[Mapping[str, Any]]:
    """Cases of the forms and engines that are built."""
    return [
        case
        for case in _cases()
        if case["engine"] in (*LAUNCHED, *OTHERS)
        and case["input"]["kind"] in FORMS
        and not case.get("optional")
    ]


@cache
def _rule_names() -> frozenset[str]:
    return frozenset(rule.name for rule in plugins().rules())


@pytest.mark.parametrize("case", _chosen(), ids=lambda case: case["id"])
def test_nothing_forbidden_is_said_of_a_case(case: Mapping[str, Any], shared: Path) -> None:
    """Every class: what is not built yet must at least be silent."""
    assert shared.is_dir()
    assert scoring.forbidden(case, scoring.result_of(case)) == []


def _positives() -> list[Mapping[str, Any]]:
    """Positive cases, but for those of which nothing can be met."""
    return [
        case
        for case in _chosen()
        if case["class"] in CLASSES
        and case["polarity"] == "positive"
        and not OWED.get(case["id"], "").startswith(NO_RULE)
    ]


@pytest.mark.parametrize("case", _positives(), ids=lambda case: case["id"])
def test_a_positive_case_is_met(case: Mapping[str, Any], shared: Path) -> None:
    assert shared.is_dir()
    result = scoring.result_of(case)
    missing = scoring.missed(case, result, _rule_names())
    assert missing == []


@pytest.mark.parametrize(
    "case",
    [case for case in _positives() if case["class"] == "flags" and case["expect"].get("accept")],
    ids=lambda case: case["id"],
)
def test_a_fix_that_a_case_accepts_is_offered(case: Mapping[str, Any], shared: Path) -> None:
    assert shared.is_dir()
    fixes = [fix for finding in scoring.result_of(case).findings for fix in finding.fixes]
    accepted = case["expect"]["accept"]
    assert any(scoring.fits(fix.delta, entry) for fix in fixes for entry in accepted)


@pytest.mark.parametrize("case", _chosen(), ids=lambda case: case["id"])
def test_no_fix_that_a_case_rejects_is_offered(case: Mapping[str, Any], shared: Path) -> None:
    assert shared.is_dir()
    assert scoring.rejected(case, scoring.result_of(case)) == []


def test_every_case_that_is_owed_still_needs_what_is_missing(shared: Path) -> None:
    """The list shrinks: a case whose rules are all there has to leave it."""
    assert shared.is_dir()
    names = _rule_names()
    for case in _cases():
        if case["id"] in OWED and not OWED[case["id"]].startswith(NO_RULE):
            assert any(row["finding"] not in names for row in case["expect"]["findings"])
