"""KubeAI: what a Model says, what the operator makes of it, what can be written."""

from __future__ import annotations

import pytest
from harness import check, places
from readers.reading import (
    edited,
    fact,
    names,
    plan,
    plans,
    project,
    refused,
    routers,
    stated,
    token,
    why,
)

MODEL = """\
apiVersion: kubeai.org/v1
kind: Model
metadata: {name: qwen}
spec:
  url: hf://Qwen/Qwen3-8B
  engine: VLLM
  args:
  - --max-model-len=8192
  - --tensor-parallel-size=2
  env: {VLLM_USE_V1: "1"}
  minReplicas: 1
  maxReplicas: 3
  resourceProfile: nvidia-gpu-l4:2
"""


def test_facts_of_a_model() -> None:
    found = plan(MODEL, "m.yaml")
    wanted = {
        "model": "Qwen/Qwen3-8B", "tp": 2, "gpus_per_pod": 2, "replicas": 1, "max_replicas": 3,
        "max_model_len": 8192, "gpu_type": "nvidia-gpu-l4",
    }  # fmt: skip
    assert wanted == {name: stated(found, name) for name in wanted}
    assert ("Model", "kubeai", "qwen") == (found.kind, found.platform, found.served_name.only)
    assert "1" == found.options["VLLM_USE_V1"].only


def test_places() -> None:
    found = plan(MODEL, "m.yaml")
    assert "Qwen/Qwen3-8B" == token(MODEL, found, "model")
    assert "nvidia-gpu-l4" == token(MODEL, found, "gpu_type")
    assert MODEL.index(":2\n") + 1 == fact(found, "gpus_per_pod").origin.span.start  # type: ignore[union-attr]


def test_the_profile_is_taken_for_one_card_of_its_name() -> None:
    found = plan(MODEL, "m.yaml")
    assert ["L4"] == [device.name for device in found.placement.gpu.values]
    said = {"the resource profile nvidia-gpu-l4 asks for one device"}
    assert said == set(fact(found, "gpus_per_pod").assumes)


def test_a_count_above_the_parallel_size_leaves_cards_idle() -> None:
    text = MODEL.replace("l4:2", "l4:4")
    assert ("gpu-count-surplus", "warning", "4") in places(check(text, "m.yaml").findings, text)


def test_a_count_below_the_parallel_size_is_too_small() -> None:
    text = MODEL.replace("l4:2", "l4:1")
    found = [f for f in check(text, "m.yaml").findings if f.name == "gpu-count-short"]
    assert ["warning"] == [f.severity for f in found]  # the profile itself is not in the file


def test_a_profile_without_a_count_is_refused() -> None:
    text = MODEL.replace("l4:2", "l4")
    (found,) = [f for f in check(text, "m.yaml").findings if f.name == "value-conflict"]
    assert "KubeAI refuses a resource profile without a count: nvidia-gpu-l4" == found.message
    assert "KubeAI refuses a resource profile without a count" == why(
        plan(text, "m.yaml"), "gpus_per_pod"
    )


def test_a_profile_of_cpus_has_no_device() -> None:
    found = plan(MODEL.replace("nvidia-gpu-l4:2", "cpu:2"), "m.yaml")
    assert not found.placement.wants_gpu
    assert stated(found, "gpus_per_pod") is None


def test_options_and_counts_are_written_where_they_stand() -> None:
    found = plan(MODEL, "m.yaml")
    assert MODEL.replace("size=2", "size=4") == edited(MODEL, found, "tp", "4")
    assert MODEL.replace("l4:2", "l4:4") == edited(MODEL, found, "gpus_per_pod", "4")
    assert "  - --tensor-parallel-size=2\n  - --pipeline-parallel-size=2\n" in edited(
        MODEL, found, "pp", "2"
    )
    assert "maxReplicas: 5" in edited(MODEL, found, "max_replicas", "5")


def test_arguments_are_made_where_there_are_none() -> None:
    text = MODEL.replace("  args:\n  - --max-model-len=8192\n  - --tensor-parallel-size=2\n", "")
    after = edited(text, plan(text, "m.yaml"), "tp", "2")
    assert (
        MODEL.replace("  args:\n  - --max-model-len=8192\n  - --tensor-parallel-size=2\n", "")
        + ("  args:\n    - --tensor-parallel-size=2\n")
        == after
    )
    assert 2 == stated(plan(after, "m.yaml"), "tp")


def test_arguments_of_another_kind_are_left_alone() -> None:
    text = MODEL.replace(
        "  args:\n  - --max-model-len=8192\n  - --tensor-parallel-size=2\n", "  args: x\n"
    )
    assert "the arguments are no list of words" == refused(plan(text, "m.yaml"), "tp")


@pytest.mark.parametrize(
    ("url", "model"),
    [("pvc://store/m", "pvc://store/m"), ("s3://b/m", "s3://b/m"), ("hf://a/b?x=y", "a/b")],
)
def test_where_the_model_lies(url: str, model: str) -> None:
    assert model == stated(plan(MODEL.replace("hf://Qwen/Qwen3-8B", url), "m.yaml"), "model")


def test_another_engine_is_only_recognised() -> None:
    text = MODEL.replace("VLLM\n", "OLlama\n").replace("hf://Qwen/Qwen3-8B", "ollama://gemma2:9b")
    found = plan(text, "m.yaml")
    assert ("ollama", "gemma2:9b", 2) == (
        found.engine, stated(found, "model"), stated(found, "gpus_per_pod"),
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["Infinity", "FasterWhisper", "x"])
def test_engines_without_facts_are_not_read(engine: str) -> None:
    assert () == plans(MODEL.replace("VLLM\n", f"{engine}\n"), "m.yaml")


@pytest.mark.parametrize(
    ("line", "policy", "explicit", "awareness"),
    [
        ("", "LeastLoad", False, {"load"}),
        ("  loadBalancing: {strategy: PrefixHash}\n", "PrefixHash", True, {"prefix", "load"}),
    ],
)
def test_the_balancer(line: str, policy: str, explicit: bool, awareness: set[str]) -> None:
    (router,) = routers(MODEL + line, "m.yaml")
    assert (policy, explicit) == (router.policy.only, router.explicit)
    assert awareness == set(router.awareness)


def test_no_release_is_certain_and_no_option_an_error() -> None:
    text = MODEL.replace("--max-model-len", "--max-model-lenn")
    found = [f for f in check(text, "m.yaml").findings if f.name == "flag-unknown"]
    assert ["warning"] == [f.severity for f in found]


def test_values_that_are_filled_in_elsewhere_are_unknown() -> None:
    found = plan(MODEL.replace("l4:2", "${PROFILE}").replace("size=2", "size=${TP}"), "m.yaml")
    assert stated(found, "gpus_per_pod") is None
    assert stated(found, "tp") is None
    assert "flag-conflict" not in names(check(MODEL, "m.yaml").findings)


@pytest.mark.parametrize(
    "spec",
    [
        "[]", "{}", "{url: [], engine: VLLM}", "{url: x, engine: []}",
        "{url: hf://a/b, engine: VLLM, args: {a: b}, env: [1], resourceProfile: []}",
        "{url: '', engine: VLLM, minReplicas: {}, resourceProfile: ':1', args: [[x]]}",
    ],
)  # fmt: skip
def test_odd_input_is_survived(spec: str) -> None:
    text = f"apiVersion: kubeai.org/v1\nkind: Model\nmetadata: {{name: [1]}}\nspec: {spec}\n"
    assert () == project(text, "a.yaml").broken
