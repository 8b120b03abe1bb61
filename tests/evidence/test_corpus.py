"""Real public manifests: what is read of them is right, and nothing certain is said wrongly."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from harness import plugins, setup
from ruamel.yaml import YAML
from shardlint.linter import lint
from shardlint.project import Project

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    import corpus_facts
finally:
    del sys.path[0]

KINDS = (
    "k8s-deployment",
    "k8s-statefulset",
    "k8s-job",
    "dynamo-dgd",
    "nimservice",
    "docker-compose",
    "shell",
    "production-stack-values",
    "llmd-modelservice-values",
    "helm-values",
    "helm-template",
    "leaderworkerset",
    "knative-service",
    "kthena",
    "llmaz",
    "ome",
    "rayservice",
    "aibrix",
    "kubeai-model",
    "kaito-workspace",
    "vllm-config-yaml",
    "sglang-config-yaml",
    "trtllm-config-yaml",
    "slurm",
    "skypilot",
    "systemd",
    "kserve-isvc",
    "kserve-servingruntime",
    "kserve-llmisvc",
    "kustomize-patch",
    "llmd-kustomize-patch",
)
"""Kinds of files that are read."""

DOUBTED = frozenset({
    ("docker-compose/fpolica91__triton-example__docker-compose.yml", "model"),
    ("docker-compose/fpolica91__triton-example__docker-compose.yml", "tp"),
    ("docker-compose/fpolica91__triton-example__docker-compose.yml", "gpu_memory_utilization"),
})  # fmt: skip
"""Facts that the file does not state: a folded scalar keeps the line ends of lines that are
indented further, so that these options are commands of their own to the shell."""

REVIEWED = Path(__file__).with_name("reviewed_errors.yaml")


@cache
def _index() -> tuple[Any, ...]:
    corpus = SHARED / "corpus"
    return corpus_facts.entries(corpus) if (corpus / "index.yaml").is_file() else ()


def compared(entry: Mapping[str, Any], corpus: Path) -> list[Any]:
    """Each fact of the workloads of one file, with what is expected and what was read."""
    return list(corpus_facts.facts(entry, corpus, setup()))


def _entries() -> list[Mapping[str, Any]]:
    return [entry for entry in _index() if entry["kind"] in KINDS]


@pytest.mark.parametrize("entry", _entries(), ids=lambda entry: entry["file"])
def test_no_fact_is_read_wrongly(entry: Mapping[str, Any], shared: Path) -> None:
    """A value that the file does not state, or another value than it states."""
    found = compared(entry, shared / "corpus")
    assert [fact for fact in found if fact.verdict in ("wrong", "extra")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_every_stated_fact_is_read(kind: str, shared: Path) -> None:
    stated = [
        fact
        for entry in _entries()
        if entry["kind"] == kind
        for fact in compared(entry, shared / "corpus")
        if fact.wanted is not None and fact.engine and (fact.file, fact.name) not in DOUBTED
    ]  # without an engine in the file there is no plan
    missed = [str(fact) for fact in stated if fact.verdict == "missed"]
    assert len(missed) <= 0.05 * len(stated), missed


def test_every_error_on_real_manifests_is_argued(shared: Path) -> None:
    """All kinds, negatives and routers included."""
    reviewed = {
        (row["file"], row["rule"], row["line"]) for row in YAML(typ="safe").load(REVIEWED) or []
    }
    corpus = shared / "corpus"
    result = lint(Project.discover(setup(), [str(corpus)], corpus)).result
    errors = {
        (finding.file, finding.name, finding.start.line)
        for finding in result.findings
        if finding.severity == "error"
    }
    assert errors - reviewed == set()
    assert reviewed - errors == set()
    assert result.files > 100


LEAVE_IT_TO_RAY = {
    "kthena/volcano-sh__kthena__multi-node.yaml",
    "slurm/KempnerInstitute__distributed-inference-vllm__deepseek_r1_h100_slurm.sh",
    "slurm/KempnerInstitute__distributed-inference-vllm__llama_3.1_405b_slurm.sh",
}
"""They start a Ray cluster and do not tell the engine of it: refused since vLLM 0.11.2
("larger than the number of available GPUs", NVIDIA-NeMo/Skills#1059, vllm-project/vllm#29447)."""


@pytest.mark.parametrize("version", ["0.33.0", "0.8.5"])
def test_a_stated_release_adds_no_unreviewed_error(version: str, shared: Path) -> None:
    """With a release given for all files, only refused options may be new errors."""
    corpus = shared / "corpus"
    told = setup(engine_version={"vllm": version})
    result = lint(Project.discover(told, [str(corpus)], corpus)).result
    allowed = {
        "flag-unknown",
        "flag-conflict",
        *(row["rule"] for row in YAML(typ="safe").load(REVIEWED) or []),
    }
    errors = [f for f in result.findings if f.severity == "error" and f.name not in allowed]
    refused = {f.file for f in errors if f.name == "gpu-count-short"}
    assert refused == (LEAVE_IT_TO_RAY if version == "0.33.0" else set())
    assert [f for f in errors if f.name != "gpu-count-short"] == []


def test_nothing_certain_is_said_of_files_that_are_no_manifest(shared: Path) -> None:
    negative = shared / "corpus" / "negative"
    result = lint(Project.discover(setup(), [str(negative)], negative)).result
    assert [f for f in result.findings if f.severity == "error"] == []


def test_every_file_of_the_corpus_is_read_without_a_failure(shared: Path) -> None:
    corpus = shared / "corpus"
    files = sorted(str(path) for path in corpus.rglob("*") if path.is_file())
    project = Project.discover(setup(), files, corpus)
    lint(project)
    assert project.broken == ()
    assert plugins().broken == []
