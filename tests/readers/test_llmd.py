"""Values of the llm-d modelservice chart: sizes, what the chart adds, sites."""

from __future__ import annotations

from typing import Any

import pytest
from readers import reading
from readers.reading import edited, names, refused, stated, token, why
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.platforms.llmd import Parallelism, model_of, parallelism

FILE = "values.yaml"
IMAGE = "ghcr.io/llm-d/llm-d-cuda:v0.4.0"


def text(*lines: str, container: tuple[str, ...] = (), top: tuple[str, ...] = ()) -> str:
    rows = [
        "modelArtifacts:",
        "  name: Qwen/Qwen3-8B",
        '  uri: "hf://Qwen/Qwen3-8B"',
        *top,
        "decode:",
        "  replicas: 2",
        *(f"  {line}" for line in lines),
        "  containers:",
        "  - name: vllm",
        f"    image: {IMAGE}",
        *(f"    {line}" for line in container or ("modelCommand: vllmServe",)),
    ]
    return "\n".join(rows) + "\n"


def read(source: str) -> ServingPlan:
    return reading.plan(source, FILE)


def findings(source: str) -> Any:
    return fixes.with_fixes(lint(reading.project(source, FILE))).findings


# ------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((None, None, None, None), (1, 1, 1, 1)),
        ((4, None, None, None), (4, 1, 1, 1)),
        ((2, 16, 8, 2), (2, 16, 8, 2)),
        ((2, 16, 8, None), (2, 16, 8, None)),
        ((2, 8, None, None), (2, 8, None, 1)),
        ((2, None, 8, None), (2, None, 8, 1)),
        ((1, None, None, 2), (1, 1, 1, 2)),
        ((1, 6, 4, None), (1, 6, 4, None)),
        ((1, 6, None, 4), (1, 6, None, 4)),
    ],
)
def test_sizes_are_known_where_the_charts_values_do_not_matter(
    asked: tuple[Any, ...], expected: tuple[Any, ...]
) -> None:
    tensor, data, local, workers = expected
    sizes = Parallelism(tensor=tensor, data=data, local=local, workers=workers)
    assert sizes == parallelism(*asked)


@pytest.mark.parametrize(
    ("uri", "model"),
    [
        ("hf://org/m", "org/m"), ('hf://"org/m"', "org/m"), ("pvc://claim/a/b", "/mnt/a/b"),
        ("pvc+hf://claim/cache/org/m", "org/m"), ("oci://x/y", None), ("org/m", None),
        ("pvc+hf://claim", None),
    ],
)  # fmt: skip
def test_the_model_of_a_uri(uri: str, model: str | None) -> None:
    assert model == model_of(uri, "/mnt")


# ------------------------------------------------------------------------------------- facts


def test_a_container_is_an_engine() -> None:
    source = text("parallelism: {tensor: 4}", container=("modelCommand: vllmServe",
                  'args: ["--max-model-len", "8192"]'))  # fmt: skip
    plan = read(source)
    facts = {"model": "Qwen/Qwen3-8B", "tp": 4, "replicas": 2, "max_model_len": 8192}
    assert facts == {name: stated(plan, name) for name in facts}
    assert ("decode", "llm-d-modelservice", "vllm") == (plan.role, plan.kind, plan.engine)
    assert (4, "derived") == (plan.placement.gpus_per_pod.only, plan.placement.gpus_per_pod.how)
    assert "4" == token(source, plan, "tp")
    assert "Qwen/Qwen3-8B" == token(source, plan, "model")


def test_the_count_that_a_container_states_stays() -> None:
    own = ("modelCommand: vllmServe", "resources: {limits: {nvidia.com/gpu: 8}}")
    plan = read(text("parallelism: {tensor: 4}", container=own))
    assert (8, "stated") == (plan.placement.gpus_per_pod.only, plan.placement.gpus_per_pod.how)


def test_a_request_alone_gets_a_limit() -> None:
    own = ("modelCommand: vllmServe", "resources: {requests: {nvidia.com/gpu: 1, cpu: 2}}")
    source = text(container=own)
    assert 1 == stated(read(source), "gpus_per_pod")
    assert "gpu-limit-invalid" not in names(findings(source))


def test_a_count_that_is_open_is_unknown() -> None:
    plan = read(text("parallelism: {tensor: 2, data: 8}"))
    assert "chart's own values" in (why(plan, "gpus_per_pod") or "")
    assert plan.effective.dp.only is None or plan.open_ended


@pytest.mark.parametrize(
    ("command", "runs", "model"),
    [
        (("modelCommand: imageDefault",), "vllm", "Qwen/Qwen3-8B"),
        (("modelCommand: custom", "command: [vllm, serve, org/n]"), "vllm", "org/n"),
        (("command: [vllm, serve, org/n]",), "vllm", "org/n"),
    ],
)
def test_the_command(command: tuple[str, ...], runs: str, model: str) -> None:
    plan = read(text(container=command))
    assert (runs, model) == (plan.engine, stated(plan, "model"))


def test_variables_hold_the_sizes() -> None:
    own = (
        "command: [/bin/sh, -c]",
        'args: ["vllm serve org/m --tensor-parallel-size $TP_SIZE -dp $(DP_SIZE)"]',
    )
    plan = read(text("parallelism: {tensor: 4, data: 2, dataLocal: 2}", container=own))
    assert (4, 2) == (plan.layout.tp.only, plan.layout.dp.only)


def test_the_uri_may_be_the_name() -> None:
    source = text().replace('hf://Qwen/Qwen3-8B"', 'hf://{{ .Values.modelArtifacts.name }}"')
    assert "Qwen/Qwen3-8B" == read(source).model.only
    source = text().replace('"hf://Qwen/Qwen3-8B"', '"hf://{{ .Values.other }}"')
    assert "filled in elsewhere" in (why(read(source), "model") or "")


def test_a_part_that_is_not_made_is_none() -> None:
    assert () == reading.plans(text("create: false"), FILE)


def test_workers_are_the_nodes_of_one_engine() -> None:
    sizes = "parallelism: {tensor: 8, data: 2, dataLocal: 1, workers: 2}"
    several = read(text(sizes, top=("multinode: true",)))
    assert 2 == stated(several, "nodes")
    assert () == several.remarks


def test_workers_of_a_deployment_have_no_effect() -> None:
    source = text("parallelism: {tensor: 8, data: 2, dataLocal: 1, workers: 2}")
    (remark,) = read(source).remarks
    assert ("ignored", "2") == (remark.kind, reading.at(source, remark.at))
    open_ = text("parallelism: {workers: 2}", top=('multinode: "${MULTI}"',))
    assert () == read(open_).remarks


def test_a_command_that_the_chart_replaces() -> None:
    own = ("modelCommand: vllmServe", "command: [sh]")
    (remark,) = read(text(container=own)).remarks
    assert "modelCommand: vllmServe" in remark.message


def test_one_number_of_two_is_filled_in() -> None:
    own = ("modelCommand: vllmServe", "resources: {limits: {nvidia.com/gpu: 4}}")
    (remark,) = read(text("parallelism: {tensor: 2}", container=own)).remarks
    assert ("conflict", "warning") == (remark.kind, remark.severity)
    equal = ("modelCommand: vllmServe", "resources: {limits: {nvidia.com/gpu: 2}}")
    assert () == read(text("parallelism: {tensor: 2}", container=equal)).remarks


def test_the_card_and_shared_cards() -> None:
    lines = (
        "acceleratorTypes: {labelKey: accelerator, labelValues: [intel-xpu]}",
        "accelerator: {type: intel-i915}",
    )
    own = ("modelCommand: vllmServe", 'resources: {limits: {gpu.intel.com/i915: "2"}}')
    source = text(*lines, container=own)
    plan = read(source)
    assert ("intel-xpu", 2) == (stated(plan, "gpu_type"), stated(plan, "gpus_per_pod"))
    assert plan.placement.gpus_per_pod.assumes
    assert source.replace('"2"', '"4"') == edited(source, plan, "gpus_per_pod", "4")


# ------------------------------------------------------------------------------------- sites


def test_sites() -> None:
    source = text("parallelism: {tensor: 4}")
    plan = read(source)
    assert source.replace("tensor: 4", "tensor: 2") == edited(source, plan, "tp", "2")
    assert source.replace("replicas: 2", "replicas: 3") == edited(source, plan, "replicas", "3")
    more = source + "    args:\n      - --max-model-len=4096\n"
    assert more == edited(source, plan, "max_model_len", "4096")
    assert "tensor" in refused(plan, "gpus_per_pod")
    assert "depend" in refused(plan, "dp")


def test_sites_of_what_is_not_there() -> None:
    source = text()
    after = edited(source, read(source), "tp", "2")
    assert 2 == stated(read(after), "tp")
    assert [line for line in after.splitlines() if line not in source.splitlines()] == [
        "  parallelism:", "    tensor: 2",
    ]  # fmt: skip


def test_shared_memory_is_mounted_into_the_container() -> None:
    source = text("parallelism: {tensor: 2}", "volumes: [{name: x, emptyDir: {}}]")
    after = edited(source, read(source), "shm_bytes", str(2**34))
    assert 2**34 == stated(read(after), "shm_bytes")


@pytest.mark.parametrize(
    "odd",
    [
        "modelArtifacts: []\ndecode: {}\n", "modelArtifacts: {}\ndecode: {containers: x}\n",
        "modelArtifacts: {uri: [], name: {}}\ndecode: {parallelism: x, containers: [{image: vllm,"
        " modelCommand: imageDefault}]}\n",
        "modelArtifacts: {}\nprefill: {containers: [{image: a/vllm-openai, modelCommand: [],"
        " args: {}}]}\n",
    ],
)  # fmt: skip
def test_odd_values_are_survived(odd: str) -> None:
    assert () == reading.project(odd, FILE).broken
