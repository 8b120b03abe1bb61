"""SGLang: what it fills in by release, how a layout becomes ranks, what a rank holds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import jsonschema
import pytest
from shardlint.engines.sglang import SGLang
from shardlint.engines.sglang_memory import SGLangMemory
from shardlint.engines.sglang_releases import INTERVALS, rules, table
from shardlint.footprint import Settings
from shardlint.matrices import Block, Weight
from shardlint.plan import Device, KvGroup, Layout, ModelFacts, Releases
from shardlint.sizing.memory import footprint
from shardlint.sizing.storage import storage
from shardlint_schemas import schema

GIB, MIB = 1 << 30, 1 << 20
DENSE = ModelFacts(
    id="d", architecture="LlamaForCausalLM", kv_heads=8, kv_groups=(KvGroup(32, 8, 512),)
)
LATENT = ModelFacts(
    id="l", architecture="DeepseekV3ForCausalLM", kv_lora_rank=512, kv_heads=128,
    kv_groups=(KvGroup(61, 1, 1152, shared=True),),
)  # fmt: skip
SPARSE = ModelFacts(
    id="s", architecture="DeepseekV32ForCausalLM", kv_lora_rank=512,
    kv_groups=(KvGroup(61, 1, 1152, shared=True, index=128, indexers=tuple(range(61))),),
)  # fmt: skip


def card(mib: int, capability: str = "9.0", vendor: str = "nvidia") -> Device:
    return Device(
        name="c", vendor=vendor, memory_mib=mib - 500, driver_mib=mib,
        compute_capability=capability,
    )  # fmt: skip


def settled(
    release: str, mib: int, model: ModelFacts = DENSE, asked: Settings | None = None,
    vendor: str = "nvidia", **layout: int,
) -> Settings:  # fmt: skip
    device = card(mib, vendor=vendor)
    return SGLangMemory(release).settled(asked or Settings(), model, Layout(**layout), device)


# ------------------------------------------------------------------------------------- defaults

# Shares of 0.5.23, worked out by hand from memory_hook.py: TP 1 dense; TP 8 dense, latent, latent
# with attention DP 8.
SHARES = {
    23034: (0.684, 0.635, 0.586, 0.419),
    40960: (0.823, 0.795, 0.767, 0.673),
    46068: (0.843, 0.818, 0.793, 0.710),
    81559: (0.830, 0.812, 0.799, 0.573),
    143771: (0.903, 0.893, 0.886, 0.758),
    183359: (0.854, 0.849, 0.844, 0.743),
}
CASES: tuple[tuple[ModelFacts, Mapping[str, int]], ...] = (
    (DENSE, {"tp": 1}), (DENSE, {"tp": 8}), (LATENT, {"tp": 8}),
    (LATENT, {"tp": 8, "attention_dp": 8}),
)  # fmt: skip


@pytest.mark.parametrize("mib", SHARES)
@pytest.mark.parametrize("at", range(len(CASES)))
def test_the_newest_default_leaves_room_for_activations_ranks_and_graphs(mib: int, at: int) -> None:
    model, layout = CASES[at]
    assert SHARES[mib][at] == settled("0.5.23", mib, model, **layout).share


@pytest.mark.parametrize(
    ("release", "mib", "layout", "share"),
    [
        ("0.4.0", 81559, {"tp": 1}, 0.88),
        ("0.4.5", 143771, {"tp": 8}, 0.81),
        ("0.4.6", 81559, {"tp": 2}, 0.87),
        ("0.4.6", 143771, {"tp": 8}, (143771 - 13312) / 143771),
        ("0.4.7", 81559, {"tp": 4, "pp": 4}, 0.79),
        ("0.4.7", 143771, {"tp": 8}, (143771 - 18432) / 143771),
        ("0.4.7", 183359, {"tp": 8}, 0.79),
        ("0.4.8", 23034, {"tp": 1}, 0.871),
        ("0.4.8", 81559, {"tp": 8}, 0.831),
        ("0.5.2", 143771, {"tp": 8, "attention_dp": 8}, 0.858),
        ("0.5.2", 183359, {"tp": 8}, 0.821),
        ("0.5.3", 23034, {"tp": 1}, 0.837),
        ("0.5.9", 294896, {"tp": 8}, 0.908),
    ],
)
def test_older_defaults(release: str, mib: int, layout: Mapping[str, int], share: float) -> None:
    assert share == pytest.approx(settled(release, mib, **layout).share, abs=1e-9)


def test_graphs_of_prompts_are_counted_from_the_release_that_captures_them() -> None:
    assert 0.851 == settled("0.5.9", 46068, tp=1).share
    assert 0.843 == settled("0.5.10", 46068, tp=1).share
    assert settled("0.5.9", 46068, tp=1).share == settled("0.5.10", 46068, tp=1, vendor="amd").share
    assert settled("0.5.20", 46068, tp=1, pp=2).share > settled("0.5.18", 46068, tp=1, pp=2).share  # type: ignore[operator]
    assert (0.843, 0.844) == tuple(
        settled(release, 183359, tp=8, pp=2).share for release in ("0.5.18", "0.5.19")
    )


def test_without_graphs_nothing_is_kept_for_them_in_new_releases() -> None:
    eager = Settings(enforce_eager=True)
    assert settled("0.5.3", 46068, asked=eager).share == settled("0.5.3", 46068).share
    assert settled("0.5.23", 46068, asked=eager).share > settled("0.5.23", 46068).share  # type: ignore[operator]
    assert () == settled("0.5.23", 46068, asked=eager).capture_sizes


def test_a_draft_costs_share_until_its_weights_are_counted() -> None:
    drafts = Settings(draft="eagle")
    for release, less in (("0.5.3", 2048), ("0.5.10", 4096), ("0.5.14", 0)):
        plain, drafting = (
            settled(release, 81559, asked=asked).share for asked in (Settings(), drafts)
        )
        assert round(less / 81559, 2) == pytest.approx(plain - drafting, abs=0.006)  # type: ignore[operator]


def test_a_vision_tower_shrinks_the_share() -> None:
    """An mi35x log of 0.5.8 prints 0.8260405859375 for a tower of 27 layers, 1152 wide."""
    tower = Block("tower", (
        Weight("qkv", "vision", 1152, 1152, "rows", count=81),
        Weight("proj", "vision", 1152, 1152, "columns", count=27),
    ))  # fmt: skip
    sees = ModelFacts(
        id="k", architecture="KimiK25ForConditionalGeneration", kv_lora_rank=512,
        vision_tower=True, weights=(tower,), kv_groups=LATENT.kv_groups,
    )  # fmt: skip
    assert 0.8260405859375 == settled("0.5.8", 294896, sees, tp=8).share
    assert 0.908 == settled("0.5.8", 294896, sees, Settings(text_only=True), tp=8).share


def test_a_stated_share_stays() -> None:
    assert 0.93 == settled("0.5.23", 81559, asked=Settings(share=0.93)).share


@pytest.mark.parametrize(
    ("release", "mib", "layout", "chunk", "most"),
    [
        ("0.4.0", 23034, {"tp": 4}, 2048, 8),
        ("0.4.5", 23034, {"tp": 4}, 2048, 80),
        ("0.5.3", 23034, {"tp": 1}, 2048, 16),
        ("0.5.19", 23034, {"tp": 1}, 2048, 24),
        ("0.5.20", 23034, {"tp": 1}, 4096, 48),
        ("0.5.23", 81559, {"tp": 4}, 8192, 512),
        ("0.5.23", 183359, {"tp": 1}, 16384, 512),
        ("0.5.23", 81559, {"tp": 8, "attention_dp": 4}, 2048, 512),
        ("0.4.3", 81559, {"tp": 8, "attention_dp": 8}, 4096, 160),
    ],
)
def test_chunks_and_captured_batches(
    release: str, mib: int, layout: Mapping[str, int], chunk: int, most: int
) -> None:
    found = settled(release, mib, **layout)
    assert (chunk, most) == (found.max_num_batched_tokens, max(found.capture_sizes or ()))


def test_sparse_attention_has_8_bits_on_blackwell() -> None:
    rule, asked, layout = SGLangMemory("0.5.23"), Settings(), Layout(tp=8)
    for capability, kind in (("10.0", "fp8_e4m3"), ("9.0", "bfloat16"), ("gfx950", "bfloat16")):
        found = rule.settled(asked, SPARSE, layout, card(183359, capability))
        assert kind == found.kv_cache_dtype
    assert 0.8 == settled("0.5.3", 143771, SPARSE, tp=8).share


# ---------------------------------------------------------------------------------------- ranks


def test_attention_dp_and_ep_lie_inside_of_tp() -> None:
    engine = SGLang()
    layout = engine.spread(tp=2, pp=2, dp=3, attention_dp=4, ep=4, dcp=1)
    assert (8, 4) == (layout.tp, layout.attention_dp)
    found = engine.ranks(layout, LATENT, None)
    assert (2 * 2 * 3 * 4, 16, 12) == (found.gpus, found.world_size, found.engines)
    assert (2, 8, 4, 2) == (found.attention_tp, found.dense_tp, found.ep, found.moe_tp)
    assert 2 == found.kv_copies
    wide = engine.ranks(engine.spread(tp=8, pp=1, dp=1, attention_dp=1, ep=True, dcp=1), None, None)
    assert (8, 1) == (wide.ep, wide.moe_tp)
    beyond = engine.ranks(engine.spread(tp=4, pp=1, dp=1, attention_dp=1, ep=9, dcp=1), DENSE, None)
    assert (4, 1, 1) == (beyond.ep, beyond.moe_tp, beyond.kv_copies)


def test_the_newest_release_that_was_opened() -> None:
    assert SGLang().releases()[-1] == "0.5.23"


# -------------------------------------------------------------------------------------- weights


def part(weight: Weight, release: str = "0.5.23", model: ModelFacts = DENSE, **layout: int) -> Any:
    engine = SGLang()
    asked = {"tp": 1, "pp": 1, "dp": 1, "attention_dp": 1, "ep": 1, "dcp": 1, **layout}
    ranks = engine.ranks(engine.spread(**asked), model, None)  # type: ignore[arg-type]
    made = SGLangMemory(release).part(weight, model, ranks, Settings())
    return made.outputs, made.inputs, made.count


def test_attention_is_cut_over_its_own_ranks_all_else_over_all() -> None:
    layout = {"tp": 2, "attention_dp": 4}
    assert (50, 10, 1) == part(Weight("q", "attention", 100, 10, "rows"), **layout)
    assert (100, 2, 1) == part(Weight("d", "dense_ffn", 100, 16, "columns"), **layout)
    assert (13, 10, 1) == part(Weight("s", "shared_expert", 100, 10, "rows"), **layout)
    assert (1000, 10, 1) == part(Weight("q_a", "attention", 1000, 10), **layout)


def test_experts_are_shared_out_first_and_then_cut() -> None:
    expert = Weight("up", "expert", 64, 10, "rows", count=18)
    assert (8, 10, 18) == part(expert, tp=8)
    assert (32, 10, 5) == part(expert, tp=8, ep=4)
    assert (64, 10, 3) == part(expert, tp=2, attention_dp=4, ep=8)


def test_wide_experts_in_4_bits_are_padded() -> None:
    model = ModelFacts(id="g", quantization={"method": "mxfp4"})
    assert (384, 10, 2) == part(Weight("up", "expert", 720, 10, "rows", count=2), model=model, tp=2)


def test_the_vocabulary_is_padded_to_the_ranks_since_0_5_22() -> None:
    rows = Weight("e", "embedding", 1000, 10, "vocabulary")
    assert (205, 10, 1) == part(rows, "0.5.21", tp=5)
    assert (256, 10, 1) == part(rows, "0.5.22", tp=5)


def test_what_latent_attention_absorbs_is_kept_twice() -> None:
    both = Weight("kv_b_proj", "attention", 256, 512, "rows")
    assert (32, 512, 2) == part(both, model=LATENT, tp=8)
    assert (32, 512, 1) == part(both, model=DENSE, tp=8)


def test_stages_with_one_layer_more() -> None:
    layout = Layout(pp=4)
    assert [2, 2, 2, 4] == [len(s) for s in SGLangMemory("0.5.5").stages(10, layout)]
    assert [2, 2, 3, 3] == [len(s) for s in SGLangMemory("0.5.6").stages(10, layout)]


# ---------------------------------------------------------------------------------------- the sum


def test_the_share_is_one_of_what_is_free_before_the_load() -> None:
    """Activations and graphs lie outside of it, and never take more than it leaves."""
    weights = (Block("layers", (Weight("w", "attention", 1 << 15, 1 << 15),), (0,)),)
    model = ModelFacts(
        id="m", num_layers=1, weights=weights, kv_groups=(KvGroup(1, 1, 1 << 20),),
        default_context=64,
    )  # fmt: skip
    engine = SGLang()
    layout = engine.spread(tp=1, pp=1, dp=1, attention_dp=1, ep=1, dcp=1)
    ranks, rule = engine.ranks(layout, model, None), SGLangMemory("0.5.23")
    for share in (0.5, 0.99):
        made = footprint(
            model, ranks, layout, Settings(share=share), rule, storage({}), card(81559), 80 * GIB
        )
        assert made is not None
        free = 80 * GIB - 500 * MIB
        assert made.kv == pytest.approx(free * share - 2 * GIB, abs=4)
        assert made.breakdown["unused"] >= 0
        assert made.tokens == made.kv // (1 << 20)
        assert any("activations" in said for said in made.assumes)


# -------------------------------------------------------------------------------------- the table


def test_data_follows_its_schema() -> None:
    jsonschema.validate(table(), schema("sglang_memory"))


@pytest.mark.parametrize("name", INTERVALS)
def test_every_release_has_one_row(name: str) -> None:
    rows: list[Mapping[str, Any]] = table()[name]
    for before, after in pairwise(rows):
        assert before["until"] == after["since"], name
    for release in table()["releases"]:
        at = Releases(release, release)
        held = [row for row in rows if at.within(row.get("since"), row.get("until"))]
        assert held == [rules(release)[name]]


def test_releases_that_are_alike_have_one_key() -> None:
    assert SGLangMemory("0.5.20").key == SGLangMemory("0.5.21").key
    assert SGLangMemory("0.5.21").key != SGLangMemory("0.5.22").key
