"""LMDeploy: ranks of its two backends, what they are refused for, and their memory."""

from __future__ import annotations

from typing import Any

import pytest
from harness import check, project
from shardlint.demands import Sizer, demand_of
from shardlint.engines.lmdeploy import LMDeploy, solved, world_of
from shardlint.plan import Layout

ENGINE = LMDeploy()
QWEN, MOE = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-30B-A3B"
SERVE = "lmdeploy serve api_server"


def findings(command: str, *names: str, **told: Any) -> list[tuple[str, str]]:
    return [(f.name, f.severity) for f in check(command, **told).findings if f.name in names]


# ---------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("dp", "tp", "ep", "cp", "visible", "wanted"),
    [
        (1, 8, 1, 1, 8, 8),
        (2, 4, 1, 1, 8, 8),
        (2, 4, 1, 1, 4, 4),
        (2, 8, 1, 1, 16, 16),
        (2, 8, 1, 1, 8, 8),
        (1, 8, 8, 1, 8, 8),
        (8, 1, 8, 1, 8, 8),
        (1, 8, 1, 2, 8, 8),
        (1, 4, 4, 2, 8, 8),
        (8, 8, 8, 1, 8, None),
        (2, 8, 8, 1, 8, None),
        (1, 1, 8, 1, 8, None),
    ],
)
def test_turbomind_takes_what_it_sees(
    dp: int, tp: int, ep: int, cp: int, visible: int, wanted: int | None
) -> None:
    """The table of the facts, which was made by running its own function."""
    layout = Layout(dp=dp, tp=tp, ep=ep, pcp=cp, executor="turbomind")
    assert wanted == solved(layout, visible)


def test_data_parallelism_lies_inside_of_the_pytorch_backend() -> None:
    layout = Layout(dp=8, tp=8, executor="pytorch")
    ranks = ENGINE.ranks(layout, None, 8)
    assert (8, 1) == (ranks.gpus, ranks.attention_tp)
    assert 16 == ENGINE.ranks(Layout(ep=16, dp=16, executor="pytorch"), None, 8).gpus


def test_what_the_backends_do_not_do_alike_is_not_said() -> None:
    either = Layout(dp=2, tp=4)
    assert None is world_of(either, 8)
    ranks = ENGINE.ranks(either, None, 8)
    assert (None, None) == (ranks.gpus_per_pod, ranks.kv_copies)


# ---------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        (f"{SERVE} {QWEN} --tp 8", "tp-heads-indivisible"),
        (f"python3 -m {SERVE} {QWEN} --tp 8", "tp-heads-indivisible"),
        (f"{SERVE} microsoft/phi-4 --tp 4", "tp-kv-heads-indivisible"),
        (f"{SERVE} {MOE} --ep 3 --dp 3 --backend pytorch", "experts-indivisible"),
        (f"{SERVE} {MOE} --ep 6 --dp 4 --tp 2 --backend pytorch", "flag-conflict"),
        (f"{SERVE} {MOE} --tp 1 --ep 8 --backend turbomind", "flag-conflict"),
        (f"{SERVE} {QWEN} --backend turbomind --quant-policy 16", "flag-conflict"),
        (f"{SERVE} {QWEN} --backend turbomind --tp 4 --nnodes 2", "flag-conflict"),
        (f"{SERVE} {MOE} --backend pytorch --enable-eplb", "flag-conflict"),
        (f"{SERVE} {QWEN} --backend pytorch --cache-max-entry-count 1", "flag-conflict"),
        (f"{SERVE} {QWEN} --cache-max-entry-count 1.5", "flag-conflict"),
    ],
)
def test_what_is_refused_is_an_error(command: str, rule: str) -> None:
    found = findings(command, rule, gpus_per_node=8, engine_version={"lmdeploy": "0.16.0"})
    assert (rule, "error") in found


@pytest.mark.parametrize(
    "command",
    [
        f"{SERVE} {QWEN} --tp 4",
        f"{SERVE} {QWEN} --tp 4 --dp 2",
        f"{SERVE} {MOE} --tp 8 --ep 8",
        f"{SERVE} {MOE} --tp 8 --ep 8 --backend turbomind",
        f"{SERVE} {MOE} --ep 8 --dp 8 --backend pytorch",
        f"{SERVE} {QWEN} --tp 2 --cache-max-entry-count 0.5 --quant-policy 8",
    ],
)
def test_what_runs_is_no_error(command: str) -> None:
    result = check(command, gpus_per_node=8)
    assert [] == [f.message for f in result.findings if f.severity == "error"]


def test_a_number_of_blocks_may_have_been_taken_once() -> None:
    command = f"{SERVE} {QWEN} --cache-max-entry-count 200"
    told: dict[str, Any] = {"engine_version": {"lmdeploy": "0.7.0"}}
    assert [] == findings(command, "flag-conflict", **told)
    python = f"{command} --backend pytorch"
    assert [("flag-conflict", "error")] == findings(python, "flag-conflict", **told)


def test_kv_heads_are_copied_in_silence() -> None:
    found = findings(f"{SERVE} google/gemma-2b-it --tp 8", "kv-replication")
    assert [("kv-replication", "warning")] == found


def test_more_ranks_than_gpus() -> None:
    assert [("gpu-count-short", "error")] == findings(
        f"{SERVE} {QWEN} --tp 4", "gpu-count-short", gpus_per_node=2
    )


def test_no_fix_changes_what_hangs_on_the_machine() -> None:
    assert None is ENGINE.flag_name("dp")
    assert "--tp" == ENGINE.flag_name("tp")


# --------------------------------------------------------------------------------------- memory


def made(options: str, gpu: str = "H100-SXM-80GB") -> Any:
    built = project(f"{SERVE} {QWEN} {options}", gpu=gpu, gpus_per_node=8)
    demand = demand_of(built.plans[0]).only
    assert demand is not None
    (sized,) = Sizer(ENGINE).sized(demand)
    return sized.made


def test_the_share_is_one_of_what_the_weights_leave() -> None:
    plain, half = made(""), made("--cache-max-entry-count 0.4")
    assert 0.8 == plain.settings.share
    free = plain.total - plain.needed
    assert plain.kv == pytest.approx(0.8 * free, rel=1e-6)
    assert half.kv == pytest.approx(0.4 * free, rel=1e-6)


def test_a_token_takes_what_its_heads_take() -> None:
    """28 layers, 4 KV heads of 128, K and V: 57,344 bytes in 16 bits."""
    assert 57344 == made("").cache.bytes_per_token
    assert 57344 // 2 == made("--quant-policy 8").cache.bytes_per_token
    assert 57344 // 4 == made("--quant-policy 4").cache.bytes_per_token
    assert 57344 // 2 == made("--tp 2").cache.bytes_per_token


def test_a_share_near_one_leaves_nothing_for_a_batch() -> None:
    for share, wanted in (("0.99", 1), ("0.8", 0)):
        command = f"{SERVE} {QWEN} --cache-max-entry-count {share}"
        found = findings(command, "memory-oversubscribed", gpu="H100-SXM-80GB")
        assert wanted * [("memory-oversubscribed", "warning")] == found


def test_two_servers_share_a_card_one_after_the_other() -> None:
    """Each takes a share of what it finds free: shares do not add up."""
    command = f"{SERVE} {QWEN} &\n{SERVE} Qwen/Qwen2.5-1.5B-Instruct --server-port 8001\n"
    told: dict[str, Any] = {"gpu": "H100-SXM-80GB", "gpus_per_node": 1}
    assert [] == findings(command, "memory-oversubscribed", **told)
