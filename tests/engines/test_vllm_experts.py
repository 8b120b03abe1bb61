"""Whose tokens meet in routed experts, by release, option and variable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shardlint.engines.vllm import VLLM
from shardlint.engines.vllm_beside import beside, defaults
from shardlint.footprint import Beside, Settings
from shardlint.plan import Device, Layout, ModelFacts

GIB, MIB = 1 << 30, 1 << 20
OPTION, VARIABLE = "all2all_backend", "VLLM_ALL2ALL_BACKEND"

H100 = Device(
    name="H100-SXM", vendor="nvidia", memory_mib=81080, compute_capability="9.0", link="nvlink"
)
T4 = Device(name="T4", vendor="nvidia", memory_mib=14910, compute_capability="7.5", link="pcie")
MIXTURE = ModelFacts(
    id="mixture", architecture="Qwen3MoeForCausalLM", num_layers=48, hidden_size=4096,
    attention_heads=32, kv_heads=4, head_dim=128, vocab_size=32000, num_experts=128,
    experts_per_token=8, moe_intermediate_size=2048, dense_ffn=False, default_context=40960,
    torch_dtype="bfloat16",
)  # fmt: skip
SPREAD = Layout(dp=32, ep=True)
TOKENS = 8192


def needed(release: str, layout: Layout = SPREAD, **stated: str) -> Beside:
    asked = Settings(max_num_seqs=8, max_num_batched_tokens=TOKENS, extra=stated)
    settings = defaults(asked, MIXTURE, layout, H100, release)
    ranks = VLLM().ranks(layout, MIXTURE, None)
    return beside(MIXTURE, ranks, layout, settings, H100, release)


@pytest.mark.parametrize(
    ("release", "stated", "gathers"),
    [
        ("0.8.5", {VARIABLE: "pplx"}, True),  # not read yet
        ("0.9.0", {}, True),
        ("0.9.0", {VARIABLE: "pplx"}, False),
        ("0.10.2", {VARIABLE: "deepep_low_latency"}, False),
        ("0.11.0", {VARIABLE: "allgather_reducescatter"}, True),
        ("0.11.2", {OPTION: "flashinfer_all2allv"}, False),
        ("0.12.0", {OPTION: "naive", VARIABLE: "deepep_low_latency"}, True),
        ("0.12.0", {VARIABLE: "deepep_low_latency"}, False),
        ("0.15.0", {OPTION: "naive", VARIABLE: "deepep_low_latency"}, False),
        ("0.16.0", {OPTION: "naive", VARIABLE: "deepep_low_latency"}, True),
        ("0.16.0", {OPTION: "pplx"}, False),
        ("0.17.0", {OPTION: "pplx"}, True),  # falls back to the usual one
        ("0.33.0", {OPTION: "deepep_v2"}, False),
        ("0.33.0", {OPTION: "of a later release"}, False),
        ("0.33.0", {}, True),
    ],
)
def test_tokens_of_all_ranks_are_gathered(
    release: str, stated: dict[str, str], gathers: bool
) -> None:
    made = needed(release, **stated)
    alone = needed(release, Layout(tp=32, ep=True))
    assert gathers is (made.activations > alone.activations + GIB)
    assert gathers is not bool(made.assumes)


def test_what_is_sent_to_a_rank_is_doubtful() -> None:
    made = needed("0.33.0", **{OPTION: "deepep_high_throughput"})
    experts = TOKENS * 8 * (4096 + 4096) * 2
    assert made.doubtful == pytest.approx(experts, rel=0.5)
    assert "deepep_high_throughput" in made.assumes[0]


def test_gathered_tokens_are_surely_held_once() -> None:
    made = needed("0.33.0")
    held = made.activations - made.doubtful
    assert TOKENS * 32 * 4096 * 2 < held < made.activations / 4


def test_logs_show_gathered_tokens_of_eight_ranks() -> None:
    assert needed("0.10.2", Layout(dp=8, ep=True)).doubtful == 0
    assert needed("0.10.2", Layout(dp=16, ep=True)).doubtful > 0
    assert needed("0.18.0", Layout(dp=8, ep=True)).doubtful > 0  # no longer in chunks


# ---------------------------------------------------------------------------------- the sampler

SAMPLER = "VLLM_USE_FLASHINFER_SAMPLER"
WORDY = replace(MIXTURE, num_experts=None, vocab_size=151936, intermediate_size=4096)


@pytest.mark.parametrize(
    ("release", "stated", "each", "least"),
    [
        ("0.7.3", {}, 38, 38),
        ("0.7.3", {SAMPLER: "1"}, 38, 14),
        ("0.8.0", {}, 38, 14),
        ("0.8.0", {SAMPLER: "0"}, 38, 38),
        ("0.9.2", {SAMPLER: "1"}, 14, 14),
        ("0.11.0", {}, 38, 14),
        ("0.11.1", {}, 38, 14),
        ("0.11.2", {}, 38, 38),
        ("0.11.2", {SAMPLER: "1"}, 14, 14),
        ("0.17.0", {}, 14.5, 14.5),
    ],
)
def test_flashinfer_draws_without_sorting(
    release: str, stated: dict[str, str], each: float, least: float
) -> None:
    """The official images have it, a plain installation does not, up to 0.11."""
    asked = Settings(max_num_seqs=1024, max_num_batched_tokens=1024, extra=stated)
    ranks = VLLM().ranks(Layout(), WORDY, None)
    settings = defaults(asked, WORDY, Layout(), H100, release)
    made = beside(WORDY, ranks, Layout(), settings, H100, release)
    beneath = 3 * 1024 * 4096 * 2 + 32 * MIB
    cells = 1024 * 151936
    assert (made.activations - beneath) / cells == pytest.approx(each, rel=0.01)
    assert (made.activations - made.doubtful - beneath) / cells == pytest.approx(least, rel=0.01)


# ------------------------------------------------------------------------------- collectives


@pytest.mark.parametrize("device", [H100, T4], ids=["nvlink", "pcie"])
def test_collectives_take_no_more_than_logs_show(device: Device) -> None:
    def taken(layout: Layout, model: ModelFacts = MIXTURE) -> int:
        settings = defaults(Settings(enforce_eager=True), model, layout, device, "0.10.2")
        ranks = VLLM().ranks(layout, model, None)
        return beside(model, ranks, layout, settings, device, "0.10.2").collectives

    assert taken(Layout(tp=4)) < taken(Layout(tp=8)) < 3 * GIB
    assert taken(Layout(tp=1 << 20)) == taken(Layout(tp=8))
    assert taken(Layout(dp=128, ep=True)) == taken(Layout(dp=8, ep=True))


@pytest.mark.parametrize(
    ("release", "switch", "checks"),
    [("0.9.0", "1", False), ("0.9.1", "1", True), ("0.9.2", "0", False), ("0.33.0", "0", True)],
)
def test_a_v1_worker_looks_whether_its_share_is_free(
    release: str, switch: str, checks: bool
) -> None:
    assert needed(release, Layout(), VLLM_USE_V1=switch).checks_free is checks
