"""Memory as users met it: what must be said, and what must not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from harness import setup
from shardlint.demands import demand_of
from shardlint.fixes import apply_fixes, with_fixes
from shardlint.linter import lint
from shardlint.plugins import Result
from shardlint.project import Project

POD = """apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  hostIPC: true
  nodeSelector: {SELECTOR}
  containers:
  - name: vllm
    image: vllm/vllm-openai:TAG
    args: [ARGS]
    resources: {limits: {RESOURCE: 1}}
"""


def pod(
    args: str, selector: str = "", tag: str = "v0.27.0", resource: str = "nvidia.com/gpu"
) -> str:
    made = POD.replace("SELECTOR", selector).replace("TAG", tag).replace("ARGS", args)
    return made.replace("RESOURCE", resource)


def check(text: str, name: str = "pod.yaml", **told: Any) -> Result:
    return with_fixes(lint(Project.of_texts(setup(**told), {name: text})))


def names(result: Result) -> dict[str, str]:
    return {item.name: item.severity for item in result.findings}


@pytest.mark.parametrize(
    "selector",
    [
        "node.kubernetes.io/instance-type: g5.xlarge",
        "node.kubernetes.io/instance-type: Standard_NC40ads_H100_v5",
        "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    ],
)
def test_no_fix_asks_a_machine_for_more_than_it_has(selector: str) -> None:
    text = pod("meta-llama/Llama-3.1-70B-Instruct, --max-model-len=4096", selector)
    project = Project.of_texts(setup(), {"pod.yaml": text})
    before = with_fixes(lint(project))
    assert names(before)["weights-do-not-fit"] == "error"
    offered = [fix.delta for item in before.findings for fix in item.fixes]
    assert all(delta.get("gpus_per_pod", 1) == 1 for delta in offered)
    after = apply_fixes(project, unsafe=True).project.sources["pod.yaml"].text
    assert after.replace(", --quantization=fp8", "") == text


def test_memory_of_shares_is_not_judged() -> None:
    text = pod("meta-llama/Llama-3.1-70B-Instruct", "nvidia.com/gpu.product: NVIDIA-L4-SHARED")
    assert "weights-do-not-fit" not in names(check(text))


def test_memory_of_shares_is_not_shown() -> None:
    text = pod("Qwen/Qwen2.5-7B-Instruct", "nvidia.com/gpu.product: NVIDIA-L4")
    text = text.replace("{limits: {nvidia.com/gpu: 1}}",
                        "{limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 20000}}")  # fmt: skip
    (plan,) = Project.of_texts(setup(), {"pod.yaml": text}).plans
    assert demand_of(plan).reason == "how much of the card a share has is not known"


def test_a_slice_is_judged_by_its_own_memory() -> None:
    text = pod("meta-llama/Llama-3.1-8B-Instruct", resource="nvidia.com/mig-1g.10gb")
    assert names(check(text))["weights-do-not-fit"] == "error"


def test_a_fix_is_held_to_rules_that_are_not_shown() -> None:
    text = pod("meta-llama/Llama-3.1-70B-Instruct, --max-model-len=4096",
               "nvidia.com/gpu.product: NVIDIA-L4").replace("  hostIPC: true\n", "")  # fmt: skip
    chosen = {"select": ("weights-do-not-fit", "no-kv-space", "kv-too-small")}
    outcome = apply_fixes(Project.of_texts(setup(**chosen), {"pod.yaml": text}), unsafe=True)
    after = Project.of_texts(setup(), {"pod.yaml": outcome.project.sources["pod.yaml"].text})
    assert "shm-missing" not in names(lint(after).result)


@pytest.mark.parametrize("tag", ["latest", "v0.8.5.post1", "v0.33.0"])
def test_a_context_that_no_release_holds_is_an_error_whatever_the_release(tag: str) -> None:
    text = pod("meta-llama/Llama-3.1-8B-Instruct", "nvidia.com/gpu.product: NVIDIA-L4", tag)
    found = names(check(text))
    assert "error" in (found.get("kv-too-small"), found.get("no-kv-space"))


def test_releases_that_do_not_know_the_model_say_nothing_of_it() -> None:
    line = "pip install vllm\nvllm serve deepseek-ai/DeepSeek-R1 -tp 8 --max-model-len 16384\n"
    found = check(line, "s.sh", gpu="H200-SXM-141GB", gpus_per_node=8)
    memory = ("weights-do-not-fit", "no-kv-space", "kv-too-small")
    assert not set(memory) & set(names(found))


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ("--revision w4a16", "warning"),
        ("--revision main", "error"),
        ("--hf-overrides '{\"num_hidden_layers\": 4}'", None),
    ],
)
def test_weights_of_another_shape_or_branch(more: str, severity: str | None) -> None:
    line = f"vllm serve meta-llama/Llama-3.1-70B-Instruct --max-model-len 4096 {more}\n"
    found = names(check(line, "s.sh", gpu="L4", gpus_per_node=1))
    assert found.get("weights-do-not-fit") == severity


@pytest.mark.parametrize(
    ("workload", "args", "words"),
    [
        ({"isl": 40_000, "osl": 100}, "--max-model-len=8192", "longer than the longest of 8,192"),
        ({"isl": 4000, "osl": 96}, "--max-model-len=8192", None),
    ],
)
def test_requests_longer_than_the_longest(
    workload: Mapping[str, int], args: str, words: str | None
) -> None:
    text = pod(f"Qwen/Qwen3-8B, {args}", "nvidia.com/gpu.product: NVIDIA-L4")
    said = [item.message for item in check(text, workload=workload).findings]
    assert any((words or "longer than") in message for message in said) is (words is not None)


RUN = "from shardlint.cli import main; main()"


@pytest.mark.parametrize(
    "command",
    [
        "estimate --model Qwen/Qwen3-8B --gpu H100 >&-",
        "estimate --batch - <&-",
        "check - <&-",
        "rules >&-",
    ],
)
def test_a_closed_stream_is_no_accident(command: str) -> None:
    line = f'exec "{sys.executable}" -c "{RUN}" {command}'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
