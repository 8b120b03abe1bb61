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
    *_, sized = Sizer(ENGINE).sized(demand)  # TurboMind, whatever the release
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


# ----------------------------------------------------------------------- scales and whole matrices

AWQ = {
    "attention_heads": 40, "kv_heads": 40, "head_dim": 128, "num_layers": 2, "hidden_size": 5120,
    "intermediate_size": 13696, "vocab_size": 1024,
    "quantization": {"method": "awq", "bits": 4, "group_size": 128},
}  # fmt: skip
GROUPS, BLOCKS = "quant-group-misaligned", "quant-block-misaligned"
FP8 = "Qwen/Qwen3-30B-A3B-FP8"


@pytest.mark.parametrize(
    ("options", "release", "found"),
    [
        ("--tp 2", "0.5.3", [(GROUPS, "error")]),
        ("--tp 2 --backend turbomind", "0.4.2", [(GROUPS, "error")]),
        ("--tp 1", "0.5.3", []),
        ("--tp 2 --backend pytorch", "0.5.3", []),
        ("--tp 2", "0.6.0", []),  # padded
    ],
)
def test_groups_of_an_input_stay_on_one_rank_in_old_releases(
    options: str, release: str, found: list[tuple[str, str]]
) -> None:
    told = {"models": {"my/awq": AWQ}, "engine_version": {"lmdeploy": release}}
    assert found == findings(f"{SERVE} my/awq {options}", GROUPS, **told)


@pytest.mark.parametrize(
    ("options", "release", "found"),
    [
        ("--tp 4 --backend pytorch", "0.7.0", [(BLOCKS, "error")]),
        ("--tp 2 --backend pytorch", "0.7.0", []),
        ("--tp 4 --ep 4 --backend pytorch", "0.10.0", []),
        ("--tp 4 --backend pytorch", "0.11.1", []),  # ranks get whole blocks
        ("--tp 4", "0.7.0", []),
    ],
)
def test_blocks_of_experts_are_cut_like_their_rows(
    options: str, release: str, found: list[tuple[str, str]]
) -> None:
    told = {"engine_version": {"lmdeploy": release}}
    assert found == findings(f"{SERVE} {FP8} {options}", BLOCKS, **told)


def test_a_release_before_those_that_were_read_may_have_other_options() -> None:
    def of(release: str) -> list[tuple[str, str]]:
        told = {"engine_version": {"lmdeploy": release}}
        return findings(f"{SERVE} {QWEN} --tp 2 --no-such-thing 1", "flag-unknown", **told)

    assert [("flag-unknown", "error")] == of("0.7.0")
    assert [] == of("0.4.2")


def test_the_vocabulary_is_whole_on_each_rank_of_the_older_pytorch_backend() -> None:
    def weights(backend: str, release: str) -> int:
        built = project(f"{SERVE} {QWEN} --tp 4 {backend}", gpu="H100-SXM-80GB", gpus_per_node=8,
                        engine_version={"lmdeploy": release})  # fmt: skip
        demand = demand_of(built.plans[0]).only
        assert demand is not None
        (sized,) = Sizer(ENGINE).sized(demand)
        return int(sized.made.weights.bytes)

    pytorch, turbomind = "--backend pytorch", "--backend turbomind"
    cut = weights(turbomind, "0.10.2")
    assert cut == weights("", "0.10.2") == weights(pytorch, "0.12.3")
    assert 2 * 152064 * 3584 * 2 * 3 // 4 == weights(pytorch, "0.10.2") - cut


def test_gpus_of_the_default_backend_are_those_that_it_would_take() -> None:
    assert 8 == ENGINE.ranks(Layout(dp=2, tp=4), None, 8).gpus
    assert 4 == ENGINE.ranks(Layout(dp=2, tp=4), None, 4).gpus
    assert 8 == ENGINE.ranks(Layout(dp=2, tp=4), None, None).gpus
