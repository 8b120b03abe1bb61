"""Values of the production stack's chart: engines, router, and what the chart drops."""

from __future__ import annotations

from typing import Any

import pytest
from readers import reading
from readers.reading import edited, names, refused, routers, stated, token, why
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plan import Router, ServingPlan
from shardlint.platforms import production_stack as chart

FILE = "values.yaml"
ENTRY = """
  - name: qwen
    repository: vllm/vllm-openai
    tag: "v0.10.0"
    modelURL: Qwen/Qwen3-8B
    replicaCount: 2
    requestGPU: 4
    vllmConfig:
      tensorParallelSize: 4
      maxModelLen: 8192
      extraArgs: ["--kv-cache-dtype", "fp8"]
"""


def text(entry: str = ENTRY, more: str = "") -> str:
    return f"servingEngineSpec:\n  modelSpec:\n{entry.strip(chr(10))}\n{more}"


def entry(*lines: str) -> str:
    """One entry with only a model, and more lines."""
    first = ("- name: m", "  repository: vllm/vllm-openai", "  tag: v0.20.0", "  modelURL: org/m")
    return "".join(f"  {line}\n" for line in (*first, *(f"  {line}" for line in lines)))


def read(source: str) -> ServingPlan:
    return reading.plan(source, FILE)


def router(source: str) -> Router:
    (found,) = routers(source, FILE)
    return found


def findings(source: str) -> Any:
    return fixes.with_fixes(lint(reading.project(source, FILE))).findings


# ------------------------------------------------------------------------------------- facts


def test_an_entry_is_an_engine() -> None:
    plan = read(text())
    assert ("vllm", "production-stack", "production-stack") == (
        plan.engine, plan.kind, plan.platform,
    )  # fmt: skip
    facts = {"model": "Qwen/Qwen3-8B", "tp": 4, "gpus_per_pod": 4, "replicas": 2}
    facts |= {"max_model_len": 8192, "kv_cache_dtype": "fp8"}
    assert facts == {name: stated(plan, name) for name in facts}
    assert "v0.10.0" == plan.tag.only
    assert "0:/servingEngineSpec/modelSpec/0" == plan.path
    assert 20 * 2**30 == stated(plan, "shm_bytes")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("model", "Qwen/Qwen3-8B"), ("tp", "4"), ("gpus_per_pod", "4"), ("replicas", "2"),
        ("max_model_len", "8192"), ("kv_cache_dtype", "fp8"),
    ],
)  # fmt: skip
def test_a_fact_points_to_its_token(field: str, expected: str) -> None:
    assert expected == token(text(), read(text()), field)


def test_null_is_as_good_as_nothing() -> None:
    plan = read(text(entry("requestGPU: null", "vllmConfig: {maxModelLen: null}")))
    assert plan.layout.tp.is_unset
    assert plan.memory.max_model_len.is_unset
    assert plan.placement.gpus_per_pod.is_unset


@pytest.mark.parametrize(
    ("lines", "on"),
    [
        ((), None),
        (("vllmConfig: {}",), None),
        (("vllmConfig: {dtype: half}",), False),
        (("vllmConfig: {enablePrefixCaching: false}",), False),
        (("vllmConfig: {enablePrefixCaching: true}",), True),
        (("vllmConfig: {dtype: half}", "raySpec: {enabled: true}"), None),
        (('vllmConfig: {enablePrefixCaching: "${CACHE}"}',), None),
    ],
)
def test_prefix_caching_is_off_unless_it_is_asked_for(
    lines: tuple[str, ...], on: bool | None
) -> None:
    assert on == read(text(entry(*lines))).memory.prefix_caching.only


@pytest.mark.parametrize(
    ("lines", "size"),
    [
        ((), 64 * 2**20),
        (("shmSize: 4Gi",), 64 * 2**20),
        (("shmSize: 4Gi", "vllmConfig: {tensorParallelSize: 2}"), 4 * 2**30),
        (("vllmConfig: {tensorParallelSize: 2}",), 20 * 2**30),
    ],
)
def test_shared_memory_comes_with_the_key_of_tensor_parallelism(
    lines: tuple[str, ...], size: int
) -> None:
    assert size == stated(read(text(entry(*lines))), "shm_bytes")


def test_an_entry_that_is_switched_off_is_none() -> None:
    assert () == reading.plans(text(entry("enabled: false")), FILE)
    off = text(entry()).replace("  modelSpec", "  enableEngine: false\n  modelSpec")
    assert () == reading.plans(off, FILE)


def test_a_card_and_a_kind_of_device() -> None:
    lines = (
        "requestGPU: 1",
        "requestGPUType: amd.com/gpu",
        "nodeSelectorTerms:",
        "- matchExpressions:",
        "  - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-H200]}",
    )
    plan = read(text(entry(*lines)))
    assert ("NVIDIA-H200", 1) == (stated(plan, "gpu_type"), stated(plan, "gpus_per_pod"))


def test_a_visible_device_is_no_request() -> None:
    plan = read(text(entry('lmcacheConfig: {cudaVisibleDevices: "0"}')))
    assert (1, "derived") == (plan.placement.gpus_per_pod.only, plan.placement.gpus_per_pod.how)


def test_roles_of_prefill_and_decode() -> None:
    roles = ("kv_producer", "kv_consumer", "kv_both")
    plans = reading.plans(
        text("".join(entry(f"lmcacheConfig: {{enabled: true, kvRole: {role}}}") for role in roles)),
        FILE,
    )
    assert ["prefill", "decode", None] == [plan.role for plan in plans]


def test_a_scaler_decides_how_many_there_are() -> None:
    plan = read(text(entry("replicaCount: 3", "keda: {enabled: true, maxReplicaCount: 5}")))
    assert why(plan, "replicas") == "KEDA decides how many replicas there are"
    assert 5 == stated(plan, "max_replicas")


def test_what_is_filled_in_elsewhere_is_unknown() -> None:
    plan = read(text(entry('requestGPU: "${GPUS}"', 'vllmConfig: {tensorParallelSize: "${TP}"}')))
    assert "filled in elsewhere" in (why(plan, "tp") or "")
    assert "filled in elsewhere" in (why(plan, "gpus_per_pod") or "")


def test_braces_of_a_chat_template_make_no_template() -> None:
    lines = ("chatTemplateConfigMap: |-", "  {% for m in messages %}{{ m }}{% endfor %}")
    assert "org/m" == stated(read(text(entry(*lines))), "model")


# --------------------------------------------------------------------------------------- Ray


def ray(workers: int, pp: int, spec: str = "enabled: true, ") -> str:
    return text(
        entry(
            f"replicaCount: {workers}",
            "requestGPU: 1",
            f"vllmConfig: {{tensorParallelSize: 1, pipelineParallelSize: {pp}}}",
            f"raySpec: {{{spec}headNode: {{requestGPU: 1}}}}",
        )
    )


def test_workers_and_head_are_the_nodes_of_one_engine() -> None:
    plan = read(ray(2, 3))
    facts = {"nodes": 3, "replicas": 1, "gpus_per_pod": 1, "pp": 3}
    assert facts == {name: stated(plan, name) for name in facts}
    assert 3 == plan.placement.group_devices.only
    assert "depends" not in refused(plan, "replicas")


def test_a_ray_cluster_with_too_few_gpus() -> None:
    assert [("node-group-size-mismatch", "error")] == [
        (finding.name, finding.severity) for finding in findings(ray(1, 3))
        if finding.name == "node-group-size-mismatch"
    ]  # fmt: skip
    assert "node-group-size-mismatch" not in names(findings(ray(2, 3)))


def test_a_ray_cluster_that_newer_charts_do_not_make() -> None:
    found = {finding.name: finding.severity for finding in findings(ray(1, 3, ""))}
    assert "warning" == found["node-group-size-mismatch"]
    assert "warning" == found["config-ignored"]


def test_head_and_workers_with_other_gpus_are_no_one_number() -> None:
    plan = read(ray(1, 2).replace("headNode: {requestGPU: 1}", "headNode: {requestGPU: 2}"))
    assert "as many" in (why(plan, "gpus_per_pod") or "")
    assert 3 == plan.placement.group_devices.only


# ------------------------------------------------------------------------- what is passed over


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (('extraArgs: ["--max-model-len=1"]',), "extraArgs"),
        (("tensorParallelSize: 8",), "tensorParallelSize"),
        (("vllmConfig: {pipelineParallelSize: 2}",), "pipelineParallelSize"),
        (("vllmConfig: {dataParallelSize: 2}",), "dataParallelSize"),
        (("shmSize: 4Gi",), "shmSize"),
        (("nodeSelector: {app: gpu}",), "nodeSelector"),
    ],
)
def test_a_key_without_effect_is_told_of(lines: tuple[str, ...], key: str) -> None:
    source = text(entry(*lines))
    (remark,) = read(source).remarks
    assert ("ignored", "warning", key) == (
        remark.kind, remark.severity, reading.at(source, remark.at),
    )  # fmt: skip


def test_keys_that_count_are_not_told_of() -> None:
    assert () == read(text()).remarks
    assert () == read(ray(1, 2)).remarks


@pytest.mark.parametrize(
    ("asked", "quoted", "dropped"),
    [("1", False, False), ("0", False, False), ("0.5", False, True), ("0.5", True, True),
     ("1.5", False, False), ("1.5", True, True), ("2.0", False, False), ("x", False, False)],
)  # fmt: skip
def test_a_share_of_a_gpu_is_cut(asked: str, quoted: bool, dropped: bool) -> None:
    assert dropped is chart.is_dropped(asked, quoted)


def test_a_dropped_request_is_found_and_mended() -> None:
    source = text(entry("requestGPU: 0.5", "replicaCount: 2"))
    (finding,) = [item for item in findings(source) if item.name == "gpu-request-ignored"]
    assert "requestGPU" == source[finding.span.start : finding.span.end]
    assert [{"gpus_per_pod": 1}] == [fix.delta for fix in finding.fixes]
    assert read(source).placement.gpus_per_pod.is_unset
    assert source.replace("0.5", "1") == edited(source, read(source), "gpus_per_pod", "1")


def test_resources_replace_the_request() -> None:
    source = text(entry("requestGPU: 2", "resources: {limits: {cpu: 4}}"))
    assert "gpu-request-ignored" in names(findings(source))
    source = text(entry("requestGPU: 2", "resources: {limits: {nvidia.com/gpu: 4}}"))
    assert "gpu-request-ignored" not in names(findings(source))
    assert 4 == stated(read(source), "gpus_per_pod")


# ------------------------------------------------------------------------------------- sites


@pytest.mark.parametrize(
    ("field", "value", "old", "new"),
    [
        ("tp", "2", "tensorParallelSize: 4", "tensorParallelSize: 2"),
        ("gpus_per_pod", "2", "requestGPU: 4", "requestGPU: 2"),
        ("replicas", "3", "replicaCount: 2", "replicaCount: 3"),
        ("max_model_len", "4096", "maxModelLen: 8192", "maxModelLen: 4096"),
        ("kv_cache_dtype", "auto", '"fp8"', '"auto"'),
        ("dp", "2", '"fp8"]', '"fp8", --data-parallel-size=2]'),
        ("shm_bytes", str(2**33), 'dtype", "fp8"]\n', 'dtype", "fp8"]\n    shmSize: 8Gi\n'),
    ],
)
def test_a_field_is_written_where_it_stands(field: str, value: str, old: str, new: str) -> None:
    assert text().replace(old, new) == edited(text(), read(text()), field, value)


def test_a_field_that_is_not_there_gets_a_key() -> None:
    source = text(entry("vllmConfig:", "  dtype: half"))
    plan = read(source)
    assert source + "      maxModelLen: 8\n" == edited(source, plan, "max_model_len", "8")
    assert source + "      extraArgs:\n        - --kv-cache-dtype=fp8\n" == edited(
        source, plan, "kv_cache_dtype", "fp8"
    )
    assert source + "    requestGPU: 2\n" == edited(source, plan, "gpus_per_pod", "2")


def test_a_key_that_does_more_is_not_written() -> None:
    plan = read(text(entry("vllmConfig: {dtype: half}")))
    assert "/dev/shm" in refused(plan, "tp")
    assert "shm_bytes" not in plan.sites
    assert "prefix cache" in refused(read(text(entry())), "pp")


def test_an_option_among_the_extra_ones_is_edited_there() -> None:
    source = text(entry("vllmConfig:", '  extraArgs: ["--tensor-parallel-size", "8"]'))
    assert source.replace('"8"', '"4"') == edited(source, read(source), "tp", "4")


# ------------------------------------------------------------------------------------- router


@pytest.mark.parametrize(
    ("spec", "policy", "explicit", "awareness"),
    [
        ("", "roundrobin", False, set()),
        ("routerSpec: {}\n", "roundrobin", False, set()),
        ("routerSpec: {routingLogic: session, sessionKey: x}\n", "session", True, {"session"}),
        ("routerSpec: {routingLogic: prefixaware}\n", "prefixaware", True, {"prefix"}),
        ("routerSpec: {routingLogic: kvaware}\n", "kvaware", True, {"kv", "prefix"}),
    ],
)
def test_the_router(spec: str, policy: str, explicit: bool, awareness: set[str]) -> None:
    found = router(text(more=spec))
    assert (policy, explicit, awareness) == (found.policy.only, found.explicit, found.awareness)
    assert found.backends == (read(text(more=spec)).id,)


@pytest.mark.parametrize("word", ["disaggregated_prefill", '"${LOGIC}"', "[a]"])
def test_a_router_of_which_nothing_is_known_has_no_backends(word: str) -> None:
    assert () == router(text(more=f"routerSpec: {{routingLogic: {word}}}\n")).backends


def test_without_a_router_there_is_none() -> None:
    assert () == routers(text(more="routerSpec: {enableRouter: false}\n"), FILE)


def test_replicas_are_counted_for_each_model() -> None:
    two = text(entry("replicaCount: 1") + ENTRY.replace("replicaCount: 2", "replicaCount: 1"))
    assert "routing-blind" not in names(findings(two))
    more = text(entry("replicaCount: 3"))
    assert ["routing-blind"] == [name for name in names(findings(more)) if name == "routing-blind"]


# --------------------------------------------------------------------------------- odd values


@pytest.mark.parametrize(
    "odd",
    [
        "servingEngineSpec: []\n", "servingEngineSpec: {modelSpec: {}}\n",
        "servingEngineSpec: {modelSpec: [x, [], null]}\n", "routerSpec: x\n",
        "servingEngineSpec: {modelSpec: [{raySpec: {enabled: true}}]}\n",
        "servingEngineSpec: {modelSpec: [{vllmConfig: [a], modelURL: [b], requestGPU: {}}]}\n",
    ],
)  # fmt: skip
def test_odd_values_are_survived(odd: str) -> None:
    assert () == reading.project(odd, FILE).broken
