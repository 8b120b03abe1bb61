"""Objects of the production stack's operator: what a VLLMRuntime asks for, and its router."""

from __future__ import annotations

from typing import Any

import pytest
from readers import reading
from readers.reading import edited, fact, refused, stated, token
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.platforms import production_stack as stack
from shardlint.project import Project

FILE = "runtime.yaml"
RUNTIME = """\
apiVersion: production-stack.vllm.ai/v1alpha1
kind: VLLMRuntime
metadata:
  name: chat
  namespace: llm
  labels: {model: qwen}
spec:
  model:
    modelURL: "Qwen/Qwen3-8B"
    maxModelLen: 8192
    dtype: bfloat16
  vllmConfig:
    v1: true
    enablePrefixCaching: true
    tensorParallelSize: 4
    gpuMemoryUtilization: "0.8"
    extraArgs: ["--kv-cache-dtype", "fp8"]
    env:
    - name: HF_HOME
      value: /data
  deploymentConfig:
    replicas: 2
    shmSize: 24Gi
    resources:
      cpu: "5"
      memory: 32Gi
      gpu: "4"
    image:
      registry: docker.io
      name: vllm/vllm-openai:v0.10.0
"""
ROUTER = """\
---
apiVersion: production-stack.vllm.ai/v1alpha1
kind: VLLMRouter
metadata: {name: front, namespace: llm}
spec:
  k8sLabelSelector: "app=chat"
  routingLogic: prefixaware
"""
FLAT = """\
apiVersion: production-stack.vllm.ai/v1alpha1
kind: VLLMRuntime
metadata: {name: chat}
spec:
  tensorParallelSize: 2
  extraArgs: ["--max-num-seqs", "64"]
  model: {modelURL: Qwen/Qwen3-8B, maxModelLen: 4096}
  image: {registry: docker.io, name: "vllm/vllm-openai:v0.10.0"}
  resources: {gpu: "2"}
  replicas: 3
"""


def read(text: str = RUNTIME) -> ServingPlan:
    return reading.plan(text, FILE)


def findings(text: str) -> Any:
    return fixes.with_fixes(lint(reading.project(text, FILE))).findings


def messages(text: str) -> list[str]:
    return [found.message for found in findings(text)]


def test_facts_of_a_runtime() -> None:
    plan = read()
    wanted = {
        "model": "Qwen/Qwen3-8B", "tp": 4, "gpus_per_pod": 4, "replicas": 2,
        "max_model_len": 8192, "kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.8,
        "shm_bytes": 24 * 2**30,
    }  # fmt: skip
    assert wanted == {name: stated(plan, name) for name in wanted}
    assert ("llm/chat", "VLLMRuntime", "production-stack") == (plan.name, plan.kind, plan.platform)
    assert "v0.10.0" == plan.tag.only
    assert {"app": "chat", "model": "qwen"} == dict(plan.labels)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("model", "Qwen/Qwen3-8B"), ("tp", "4"), ("gpus_per_pod", "4"), ("replicas", "2"),
        ("max_model_len", "8192"), ("kv_cache_dtype", "fp8"), ("gpu_memory_utilization", "0.8"),
    ],
)  # fmt: skip
def test_a_fact_points_to_its_token(field: str, expected: str) -> None:
    assert expected == token(RUNTIME, read(), field)


@pytest.mark.parametrize(
    ("field", "value", "before", "after"),
    [
        ("tp", "2", "tensorParallelSize: 4", "tensorParallelSize: 2"),
        ("gpus_per_pod", "8", 'gpu: "4"', 'gpu: "8"'),
        ("replicas", "3", "replicas: 2", "replicas: 3"),
        ("max_model_len", "4096", "maxModelLen: 8192", "maxModelLen: 4096"),
        ("kv_cache_dtype", "auto", '"fp8"', '"auto"'),
        ("shm_bytes", str(2**30), "shmSize: 24Gi", "shmSize: 1Gi"),
        ("pp", "2", '"fp8"]', '"fp8", --pipeline-parallel-size=2]'),
    ],
)
def test_a_value_is_edited_where_it_stands(field: str, value: str, before: str, after: str) -> None:
    changed = edited(RUNTIME, read(), field, value)
    assert RUNTIME.replace(before, after) == changed
    assert value == str(stated(read(changed), field))


def test_a_number_of_gpus_is_written_as_a_word() -> None:
    text = RUNTIME.replace('      gpu: "4"\n', "")
    changed = edited(text, read(text), "gpus_per_pod", "4")
    assert '      gpu: "4"\n' in changed
    assert 4 == stated(read(changed), "gpus_per_pod")
    quoted = text.replace(
        '      cpu: "5"\n      memory: 32Gi\n', ""
    ).replace("resources:", 'resources: {"cpu": "5"}')  # fmt: skip
    assert "gpu cannot be written here" == refused(read(quoted), "gpus_per_pod")


def test_what_is_not_stated_gets_a_key_of_its_section() -> None:
    text = RUNTIME.replace("    tensorParallelSize: 4\n", "").replace("    shmSize: 24Gi\n", "")
    assert 2 == stated(read(edited(text, read(text), "tp", "2")), "tp")
    changed = edited(text, read(text), "shm_bytes", str(8 * 2**30))
    assert 8 * 2**30 == stated(read(changed), "shm_bytes")


def test_an_option_in_the_extra_arguments_is_edited_there() -> None:
    text = RUNTIME.replace('["--kv-cache-dtype", "fp8"]', '["--tensor-parallel-size", "2"]')
    assert 2 == stated(read(text), "tp")
    assert text.replace('"2"]', '"1"]') == edited(text, read(text), "tp", "1")


@pytest.mark.parametrize(("lines", "on"), [("", False), ("    enableChunkedPrefill: true\n", True)])
def test_switches_that_are_not_on_are_turned_off(lines: str, on: bool) -> None:
    plan = read(RUNTIME.replace("    v1: true\n", f"    v1: true\n{lines}"))
    assert on == plan.memory.chunked_prefill.only
    assert plan.memory.prefix_caching.only is True


def test_a_switch_that_is_filled_in_elsewhere_is_not_known() -> None:
    text = RUNTIME.replace("enablePrefixCaching: true", 'enablePrefixCaching: "${CACHE}"')
    assert not read(text).memory.prefix_caching.is_known


def test_without_a_size_nothing_is_mounted_on_dev_shm() -> None:
    text = RUNTIME.replace("    shmSize: 24Gi\n", "")
    assert 64 * 2**20 == stated(read(text), "shm_bytes")
    assert "shm-missing" in [found.name for found in findings(text)]


def test_the_size_of_dev_shm_counts_for_operators_that_read_it() -> None:
    assert {stack.SHM_SINCE} == set(fact(read(), "shm_bytes").assumes)


def test_the_extension_resource_can_be_another_one() -> None:
    text = RUNTIME.replace('      gpu: "4"\n', '      gpu: "4"\n      gpuType: amd.com/gpu\n')
    assert ["amd.com/gpu"] == list(read(text).placement.asked)


def test_an_update_starts_new_pods_unless_they_are_recreated() -> None:
    assert 1 == read().fleet.surge.only
    text = RUNTIME.replace(
        "    replicas: 2\n", "    replicas: 2\n    deploymentStrategy: Recreate\n"
    )
    assert 0 == read(text).fleet.surge.only


SCALED = RUNTIME + "  autoscalingConfig: {enabled: true, minReplicas: 1, maxReplicas: 3}\n"


def test_bounds_of_an_autoscaler_are_the_replicas() -> None:
    plan = read(SCALED)
    assert (1, 3) == (stated(plan, "replicas"), stated(plan, "max_replicas"))
    assert SCALED.replace("maxReplicas: 3", "maxReplicas: 5") == edited(
        SCALED, plan, "max_replicas", "5"
    )


def test_bounds_below_the_replicas_are_refused() -> None:
    said = "maxReplicas 1 is below deploymentConfig.replicas 2: the operator refuses to scale"
    assert said in messages(SCALED.replace("maxReplicas: 3", "maxReplicas: 1"))
    assert not any("refuses to scale" in message for message in messages(SCALED))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "    tensorParallelSize: 4\n", "    pipelineParallelSize: 2\n",
            "`vllmConfig` of a VLLMRuntime has no `pipelineParallelSize`",
        ),
        (
            "    v1: true\n", "    v1: true\n    maxModelLen: 4096\n",
            "`vllmConfig` of a VLLMRuntime has no `maxModelLen`",
        ),
        ("spec:\n", "spec:\n  replicas: 2\n", "`spec` of a VLLMRuntime has no `replicas`"),
    ],
)  # fmt: skip
def test_a_key_in_the_wrong_section_never_arrives(before: str, after: str, said: str) -> None:
    assert f"{said}: it never reaches the engine" in messages(RUNTIME.replace(before, after))


def test_a_runtime_of_the_first_operators_has_no_sections() -> None:
    plan = read(FLAT)
    wanted = {"tp": 2, "gpus_per_pod": 2, "replicas": 3, "max_model_len": 4096, "max_num_seqs": 64}
    assert wanted == {name: stated(plan, name) for name in wanted}
    assert FLAT.replace("Size: 2", "Size: 4") == edited(FLAT, plan, "tp", "4")
    assert "shm_bytes" not in plan.sites


def test_a_runtime_without_a_model_is_none() -> None:
    assert () == reading.plans(RUNTIME.replace('    modelURL: "Qwen/Qwen3-8B"\n', ""), FILE)


def routed(router: str) -> tuple[Any, ...]:
    project: Project = reading.project(RUNTIME + router, FILE)
    return (*project.routers,)


def test_a_router_finds_pods_by_their_labels() -> None:
    (found,) = routed(ROUTER)
    assert ("prefixaware", True, {"prefix"}) == (
        found.policy.only, found.explicit, set(found.awareness),
    )  # fmt: skip
    assert (f"{FILE}#0:",) == found.backends


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("app=chat", "app=other"),
        ("namespace: llm", "namespace: other"),
        ("  routingLogic", "  serviceDiscovery: static\n  routingLogic"),
        ('"app=chat"', '"app in (chat)"'),
    ],
)
def test_a_router_before_something_else_has_no_backend(before: str, after: str) -> None:
    assert [()] == [found.backends for found in routed(ROUTER.replace(before, after))]


def test_a_router_that_is_switched_off_is_none() -> None:
    assert () == routed(ROUTER.replace("spec:\n", "spec:\n  enableRouter: false\n"))


def test_a_router_without_a_policy_takes_turns() -> None:
    (found,) = routed(ROUTER.replace("  routingLogic: prefixaware\n", ""))
    assert ("roundrobin", False, set()) == (
        found.policy.only, found.explicit, set(found.awareness),
    )  # fmt: skip


def test_selectors_are_equalities() -> None:
    assert {"a": "b", "c": "d"} == stack.selector("a=b, c==d")
    assert [None, None, None] == [stack.selector(text) for text in ("", "a!=b", "a in (b)")]
