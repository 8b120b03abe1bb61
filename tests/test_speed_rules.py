"""What rules about speed say, at which severity, and when they are silent."""

from __future__ import annotations

from typing import Any

import pytest
from harness import check, project
from shardlint.demands import Sizer, demand_of
from shardlint.engines.vllm import VLLM
from shardlint.memory_rule import roomy
from shardlint.plan import Layout
from shardlint.plugins import Finding

H100: dict[str, Any] = {"gpu": "H100-SXM-80GB", "gpus_per_node": 8}
A100: dict[str, Any] = {"gpu": "A100-SXM-80GB", "gpus_per_node": 8}
L40S: dict[str, Any] = {"gpu": "L40S", "gpus_per_node": 8}
SPEED = ("SL111", "SL203", "SL404", "SL405", "SL517", "SL518")
SMALL = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
LARGE = "vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192"
SPARK: dict[str, Any] = {
    "gpu": "GB10-DGX-Spark",
    "gpus_per_node": 1,
    "nodes": 2,
    "engine_version": {"sglang": "0.5.12"},
}
RAY = "--distributed-executor-backend ray"
SPARKS = (
    "python3 -m sglang.launch_server --tp 2 --nnodes 2 --node-rank 0 --dist-init-addr a:1"
    " --model-path"
)


def found(text: str, **told: Any) -> list[Finding]:
    told.setdefault("engine_version", {"vllm": "0.33.0"})
    result = check(f"{text}\n", **told)
    return [finding for finding in result.findings if finding.rule in SPEED]


def named(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.name, finding.severity) for finding in findings]


# ------------------------------------------------------------------------------ tp-oversharded


@pytest.mark.parametrize(
    ("text", "told", "severity"),
    [
        (f"{SMALL} -tp 8", H100, "info"),
        (f"{SMALL} -tp 8", {**H100, "workload": {"tpot_ms": 10}}, None),
        (f"{SMALL} -tp 8", {**H100, "workload": {"ttft_ms": 100}}, None),
        (f"{SMALL} -tp 8", {**H100, "workload": {"concurrency": 1}}, None),
        (f"{SMALL} -tp 8", {**H100, "workload": {"concurrency": 512}}, "info"),
        (f"{SMALL} -tp 8", {"gpus_per_node": 8}, None),  # the card is not known
        (f"{SMALL} -tp $SIZE", H100, None),
        ("vllm serve someone/model -tp 8", H100, None),
        (f"{LARGE} -tp 4", H100, None),  # two do not hold it with room
        (f"{SMALL} -tp 8", A100, None),  # that card was not measured
        (f"{SMALL} -tp 8", {**A100, "workload": {"kind": "batch"}}, "info"),
        (f"{SMALL} -tp 8", {**A100, "workload": {"kind": "chat"}}, None),
        ("vllm serve google/gemma-2b-it -tp 4", {**A100, "workload": {"kind": "batch"}}, "warning"),
        (f"{SMALL} -tp 2", L40S, "info"),
        (f"{SMALL} -tp 4", L40S, "warning"),
        (f"{SMALL} -tp 4", {**L40S, "workload": {"concurrency": 1}}, None),
        (f"{SMALL} -tp 4", {**L40S, "workload": {"concurrency": 2}}, "info"),  # two groups
        (f"{LARGE} -tp 8", L40S, "info"),  # two groups of four hold it
        (f"{LARGE} -tp 4", L40S, None),
        (f"{SMALL} -tp 16 {RAY}", {**A100, "nodes": 2}, "warning"),
        (f"{SMALL} -tp 16 {RAY}", {**A100, "nodes": 2, "network": "rdma"}, "info"),
        (f"{SMALL} -tp 4 --decode-context-parallel-size 2", L40S, None),
        # all positions of the model once, where nobody states a length
        ("vllm serve Qwen/Qwen3-8B -tp 4", {"gpu": "RTX-4090", "gpus_per_node": 4}, "info"),
        (f"{SPARKS} Qwen/Qwen3.6-27B-FP8", SPARK, "warning"),
        (f"{SPARKS} Qwen/Qwen3-32B", SPARK, "warning"),
        (f"{SPARKS} Qwen/Qwen3-32B --mem-fraction-static 0.5", SPARK, None),
    ],
)
def test_a_group_is_wider_than_needed(
    text: str, told: dict[str, Any], severity: str | None
) -> None:
    rows = [item.severity for item in found(text, **told) if item.name == "tp-oversharded"]
    assert ([severity] if severity else []) == rows


def test_the_smaller_group_is_on_the_same_gpus_and_says_how_fast_it_is() -> None:
    (finding,) = found(f"{SMALL} -tp 8", **H100)
    (fix,) = finding.fixes
    assert fix.delta["tp"] * fix.delta["dp"] == 8
    rates = fix.estimate["output_tok_s_per_gpu"]
    assert rates["after"] > 1.1 * rates["before"]
    assert f"about {rates['after']:,} instead of {rates['before']:,} tokens" in finding.message


def test_no_rate_is_told_that_was_not_measured() -> None:
    (finding,) = found(f"{SMALL} -tp 4", **L40S)
    assert "tokens a second" not in finding.message
    assert "output_tok_s_per_gpu" not in finding.fixes[0].estimate


def test_a_variable_is_pointed_at_where_it_gets_its_value() -> None:
    (finding,) = found(f"SIZE=4\n{SMALL} -tp $SIZE", **L40S)
    assert 1 == finding.start.line
    assert {"tp": 1, "dp": 4} == finding.fixes[0].delta


def test_smaller_groups_must_hold_the_stated_requests() -> None:
    many = {"concurrency": 256, "isl": 4096, "osl": 4096}
    (finding,) = found(f"{SMALL} -tp 8", **L40S, workload={"concurrency": 256})
    assert 1 == finding.fixes[0].delta["tp"]
    assert all(
        item.fixes[0].delta["tp"] > 1 for item in found(f"{SMALL} -tp 8", **L40S, workload=many)
    )


# ------------------------------------------------------------------------ what crosses a link


@pytest.mark.parametrize(
    ("options", "said"),
    [
        # 2 sums × 36 layers × 2 × 3/4 × 4,096 × 2 bytes; 32 GB/s
        ("-tp 4", "0.9 MB from each rank for every token, at least 0.03 ms at its 32 GB/s"),
        ("-tp 4 -pp 2", "0.4 MB from each rank for every token, at least 0.01 ms at its 32 GB/s"),
    ],
)
def test_bytes_over_pcie(options: str, said: str) -> None:
    result = check(f"{SMALL} {options}\n", **L40S)
    (finding,) = (item for item in result.findings if item.name == "tp-slow-link")
    assert finding.message.endswith(said)


def test_bytes_between_nodes_have_no_rate() -> None:
    result = check(f"{SMALL} -tp 16 {RAY}\n", **A100, nodes=2)
    (finding,) = (item for item in result.findings if item.name == "tp-cross-node")
    # 2 × 36 × 2 × 15/16 × 4,096 × 2 bytes
    assert finding.message.endswith(
        "the network between them, 1.1 MB from each rank for every token"
    )


# ------------------------------------------------------------------- pp-latency and pp-starved

STAGES = f"{SMALL} -tp 2 -pp 2"
NODES = (
    "vllm serve meta-llama/Llama-3.1-405B-Instruct-FP8 --max-model-len 8192 --nnodes 2"
    " --node-rank 0 --master-addr a -tp 8 -pp 2"
)


@pytest.mark.parametrize(
    ("text", "told", "rows"),
    [
        (STAGES, H100, [("pp-latency", "info")]),
        (STAGES, L40S, [("pp-latency", "info")]),
        (STAGES, {"gpu": "L40S"}, []),  # it is not known that one node has them
        (STAGES, {**H100, "workload": {"concurrency": 64}}, [("pp-latency", "info")]),
        (STAGES, {**H100, "workload": {"tpot_ms": 20}}, [("pp-latency", "warning")]),
        (
            STAGES,
            {**H100, "workload": {"concurrency": 1}},
            [("pp-latency", "warning"), ("pp-starved", "info")],
        ),
        (STAGES, {**L40S, "workload": {"kind": "batch"}}, []),
        (NODES, {**H100, "nodes": 2}, []),
        (NODES, {**H100, "nodes": 2, "workload": {"concurrency": 2}}, []),
        (
            NODES,
            {**H100, "nodes": 2, "workload": {"concurrency": 1}},
            [("pp-starved", "warning")],
        ),
    ],
)
def test_stages_wait(text: str, told: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    assert rows == [row for row in named(found(text, **told)) if row[0].startswith("pp-")]


def test_stages_become_ranks_of_the_same_gpus() -> None:
    (finding,) = found(STAGES, **H100)
    assert [{"tp": 4, "pp": 1}] == [fix.delta for fix in finding.fixes]


def test_the_share_of_idle_stages_is_worked_out() -> None:
    told = {**H100, "nodes": 2, "workload": {"concurrency": 1}}
    (finding,) = found(NODES, **told)
    assert "1 of 2 always wait (a pass fills and drains for 1 ÷ 2 = 50% of" in finding.message


# ------------------------------------------------------------------------------ ep-unbalanced

EXPERTS = "vllm serve Qwen/Qwen3-30B-A3B --max-model-len 8192 -tp 4 -dp 2 --enable-expert-parallel"


@pytest.mark.parametrize(("concurrency", "rows"), [(1, 1), (8, 0), (None, 0)])
def test_ranks_of_experts_have_nothing_to_do(concurrency: int | None, rows: int) -> None:
    workload = {} if concurrency is None else {"concurrency": concurrency}
    findings = [item for item in found(EXPERTS, **H100, workload=workload)
                if item.name == "ep-unbalanced"]  # fmt: skip
    assert ["info"] * rows == [item.severity for item in findings]
    # 8 of 128 experts are chosen: 112/128 × 111/127 × ... × 105/121 for one rank of 16 of them
    assert all("on average 2.7 ranks" in item.message for item in findings)


# ------------------------------------------------------------------ goals of the user's workload

GOAL = {"isl": 1024, "osl": 256}


def test_a_goal_that_no_number_of_replicas_reaches() -> None:
    told = {**H100, "workload": {**GOAL, "tpot_ms": 2}}
    assert [("slo-latency-unmet", "warning")] == named(found(SMALL, **told))
    assert [] == found(SMALL, **{**told, "workload": {**GOAL, "tpot_ms": 50}})
    assert [] == found(SMALL, **{**told, "workload": {"tpot_ms": 2}})


def test_what_was_not_measured_fails_no_goal() -> None:
    hard = {**GOAL, "tpot_ms": 0.1, "target_tok_s": 1e9, "concurrency": 64}
    assert [] == found(SMALL, **A100, workload=hard)
    assert [] == found("vllm serve Qwen/Qwen3-30B-A3B --max-model-len 8192", **H100, workload=hard)


def test_replicas_are_multiplied_out() -> None:
    told = {**H100, "workload": {**GOAL, "target_tok_s": 200_000}}
    (finding,) = found(SMALL, **told)
    assert ("fleet-undersized", "warning") == (finding.name, finding.severity)
    assert finding.message.startswith("1 replica × about ")
    assert "200,000 ÷ " in (finding.help or "")


def test_requests_that_others_may_serve_are_not_held_against_one() -> None:
    told = {**H100, "workload": {**GOAL, "target_tok_s": 200_000}}
    other = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --port 8001"
    assert 1 == len(found(SMALL, **told))
    assert [] == found(f"{SMALL} &\n{SMALL} --port 8001", **told)
    assert 2 == len(
        found(f"CUDA_VISIBLE_DEVICES=0 {SMALL} &\nCUDA_VISIBLE_DEVICES=1 {other}", **told)
    )


def test_a_goal_that_more_replicas_reach() -> None:
    told = {**H100, "workload": {"isl": 4096, "osl": 256, "concurrency": 256, "tpot_ms": 12}}
    (finding,) = found(SMALL, **told)
    assert "fleet-undersized" == finding.name
    assert "256 requests over 1 replica" in finding.message


# -------------------------------------------------------------------------------- what instead


@pytest.mark.parametrize(("text", "told", "expected"), [
    (f"{SMALL} -tp 1", {**GOAL, "tpot_ms": 5}, [{"tp": 4}]),
    (f"{SMALL} -dp 4", {**GOAL, "tpot_ms": 5}, [{"tp": 4, "dp": 1}]),  # of the same GPUs
    (f"{SMALL} -tp 8", {**GOAL, "tpot_ms": 2}, []),
    (f"CUDA_VISIBLE_DEVICES=0,1 {SMALL}", {**GOAL, "tpot_ms": 5}, []),
])  # fmt: skip
def test_more_ranks_reach_a_goal(
    text: str, told: dict[str, Any], expected: list[dict[str, int]]
) -> None:
    (finding,) = found(text, **H100, workload=told)
    assert "slo-latency-unmet" == finding.name
    assert expected == [dict(fix.delta) for fix in finding.fixes]


DEPLOYED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B", "--max-model-len=8192"]
        resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.mark.parametrize(
    ("told", "nodes", "least"),
    [
        ({"target_tok_s": 30_000}, 1, 4),
        ({"isl": 4096, "concurrency": 256, "tpot_ms": 20}, 4, 9),
        ({"isl": 4096, "concurrency": 256, "tpot_ms": 20}, 1, None),  # more than there are GPUs
        ({"target_tok_s": 500_000}, 1, None),
    ],
)
def test_replicas_are_proposed_where_there_are_gpus(
    told: dict[str, Any], nodes: int, least: int | None
) -> None:
    result = check(DEPLOYED, "d.yaml", **H100, nodes=nodes, workload={**GOAL, **told})
    (finding,) = (item for item in result.findings if item.name == "fleet-undersized")
    counts = [dict(fix.delta)["replicas"] for fix in finding.fixes]
    assert counts == [] if least is None else least <= counts[0] <= 8 * nodes


def test_stages_that_wait_become_fewer() -> None:
    text = f"{LARGE} -tp 8 -pp 8 {RAY}"
    told = {**A100, "nodes": 8, "workload": {"concurrency": 4}}
    (finding,) = (item for item in found(text, **told) if item.name == "pp-starved")
    assert [{"pp": 4}, {"pp": 2}, {"pp": 1}] == [dict(fix.delta) for fix in finding.fixes]
    (finding,) = found(NODES, **{**H100, "nodes": 2, "workload": {"concurrency": 1}})
    assert () == finding.fixes  # the pods are counted elsewhere


@pytest.mark.parametrize(("text", "delta"), [
    (EXPERTS, {"ep": False}),
    ("python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --tp 8 --ep-size 8",
     {"ep": 1}),
])  # fmt: skip
def test_experts_are_cut_over_all_ranks(text: str, delta: dict[str, Any]) -> None:
    (finding,) = (item for item in found(text, **H100, workload={"concurrency": 1})
                  if item.name == "ep-unbalanced")  # fmt: skip
    assert [delta] == [dict(fix.delta) for fix in finding.fixes]


@pytest.mark.parametrize(("model", "told", "expected"), [
    ("Qwen/Qwen2.5-72B-Instruct", {}, [{"tp": 2, "pp": 4}]),
    ("Qwen/Qwen2.5-72B-Instruct", {"concurrency": 2}, []),  # stages would wait
    ("Qwen/Qwen2.5-72B-Instruct", {"tpot_ms": 50}, []),
    ("Qwen/Qwen3-32B", {}, [{"tp": 2, "dp": 4}]),  # copies hold it
])  # fmt: skip
def test_stages_take_the_place_of_wide_groups_over_pcie(
    model: str, told: dict[str, Any], expected: list[dict[str, int]]
) -> None:
    text = f"vllm serve {model} -tp 8 --max-model-len 8192\n"
    result = check(text, **L40S, workload=told, engine_version={"vllm": "0.33.0"})
    (finding,) = (item for item in result.findings if item.name == "tp-slow-link")
    assert expected == [dict(fix.delta) for fix in finding.fixes]


def test_the_option_that_was_left_out_is_added() -> None:
    text = "NCCL_P2P_DISABLE=1 vllm serve Qwen/Qwen3-14B --tensor-parallel-size 2\n"
    result = check(text, gpu="RTX-4090", gpus_per_node=2)
    (finding,) = (item for item in result.findings if item.name == "p2p-risk")
    assert [{"add_flag": "--disable-custom-all-reduce"}] == [
        dict(fix.delta) for fix in finding.fixes
    ]


# -------------------------------------------------------------------------------- the facts


def test_speeds_are_those_of_the_estimate() -> None:
    from shardlint.estimates import Asked, estimate

    made = project(f"{SMALL} -tp 2\n", **H100, engine_version={"vllm": "0.33.0"})
    demand = demand_of(made.plans[0]).only
    assert demand is not None
    (speed,) = Sizer(VLLM()).speeds(demand, demand.layout, 1024, 256, 64)
    asked = Asked(
        model="Qwen/Qwen3-8B", gpu="H100-SXM-80GB", engine="vllm", engine_version="0.33.0", tp=2,
        max_model_len=8192, isl=1024, osl=256, concurrency=64,
    )  # fmt: skip
    told = estimate(made.setup, asked).speed
    assert told.why == ""
    assert (speed.tok_s, speed.tpot_ms, speed.gpus) == (told.tok_s, told.tpot_ms, 2)  # type: ignore[union-attr]
    assert speed.measured
    assert speed.step_ms < speed.tpot_ms


def test_requests_longer_than_the_longest_have_no_speed() -> None:
    made = project(f"{SMALL}\n", **H100, engine_version={"vllm": "0.33.0"})
    demand = demand_of(made.plans[0]).only
    assert demand is not None
    assert () == Sizer(VLLM()).speeds(demand, demand.layout, 8000, 1000, 1)


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ("", True),
        ("--dtype float32", False),
        ("--gpu-memory-utilization 0.3", False),
        ("--max-model-len $LENGTH", False),
        ("--max-model-len 4000000", False),
    ],
)
def test_room_to_spare_needs_no_release(options: str, holds: bool) -> None:
    (plan,) = project(f"vllm serve Qwen/Qwen3-8B {options}\n", **A100).plans
    model, device = plan.model_facts.only, plan.placement.gpu.only
    assert model is not None
    assert device is not None
    assert holds == roomy(plan, model, device, Layout())
