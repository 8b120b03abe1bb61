"""Quantization scales that a layout would cut through: FP8 blocks, NVFP4 and int4 groups, tiles.

Read in vllm 0.33.0 (fp8_utils.py, modelopt.py, marlin_utils.py, moe_wna16.py, distributed/utils.py)
and in the packages from 0.6.0 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, TypeAlias

from shardlint.engines.vllm_models import (
    DEATH,
    KEEP_WHOLE,
    OLDEST_READ,
    Shape,
    may_be_whole,
)
from shardlint.engines.widths import (
    INT4,
    Scaled,
    in_full_precision,
    rest,
    weights_only,
    whole_if_cut,
    with_scales,
)
from shardlint.plan import Constraint, Device, Layout, ModelFacts, Ranks, at_most, divides

FOUND: TypeAlias = Iterator[Constraint]

BLOCKS, GROUPS = "quant-block-misaligned", "quant-group-misaligned"

LEAST_BLOCK = 32
"""vllm 0.29.0, fused_moe/oracle/fp8.py: scales of experts are refined to blocks of this size."""
REFINED_SINCE = "0.29.0"
PADDED_TILES_SINCE = "0.24.0"
"""marlin_utils.py: what is no multiple of a tile is filled with zeros."""

TILE_N, TILE_K = 64, 128


def scales(
    model: ModelFacts, built: Shape, ranks: Ranks, layout: Layout, device: Device | None
) -> FOUND:
    quantization = model.quantization or {}
    if quantization.get("targets") is not None:
        return
    block, group = quantization.get("weight_block_size"), quantization.get("group_size")
    if isinstance(block, list | tuple) and len(block) == 2:
        yield from _blocks(model, built, ranks, layout, (block[0], block[1]))
    elif quantization.get("quant_algo") in ("NVFP4", "MXFP8"):
        yield from _small_blocks(model, built, ranks, str(quantization["quant_algo"]))
    elif quantization.get("method") in INT4 and isinstance(group, int) and weights_only(model):
        yield from _groups(model, built, ranks, group, device)


def _blocks(
    model: ModelFacts, built: Shape, ranks: Ranks, layout: Layout, block: tuple[int, int]
) -> FOUND:
    """fp8_utils.py: rows that a rank gets must be whole blocks; so must the output of a matrix that
    is not fused with others."""
    tp = ranks.dense_tp
    for item in built.scaled:
        if in_full_precision(model, item.part):
            continue
        if item.split == "experts":
            if ranks.ep == 1:
                yield from _expert_blocks(model, item.size, ranks, layout, block)
            continue
        yield Constraint(
            rule=BLOCKS, subject=item.subject, left=item.size, right=tp * block[1],
            test=whole_if_cut(tp), refusal="is not divisible by weight quantization block_k",
            consequence=DEATH, cures=("tp",), facts=with_scales(item.facts),
            advisory=item.part == "shared_expert" and may_be_whole(ranks),
            sentence=rest(item, tp, block[1], f"quantization blocks of {block[1]}"),
        )  # fmt: skip
    if in_full_precision(model, "attention"):
        return
    for item in built.latent:
        yield Constraint(
            rule=BLOCKS, subject=item.subject, left=item.size, right=tp * block[0],
            test=whole_if_cut(tp), refusal="is not divisible by weight quantization block_n",
            consequence=DEATH, cures=("tp",), facts=with_scales(item.facts),
            sentence=rest(item, tp, block[0], f"quantization blocks of {block[0]}"),
        )  # fmt: skip


def _expert_blocks(
    model: ModelFacts, width: int, ranks: Ranks, layout: Layout, block: tuple[int, int]
) -> FOUND:
    """fused_moe: whole blocks before 0.29; since then scales are refined down to blocks of 32."""
    parts = ranks.moe_tp
    if width % parts:
        return  # the width itself does not divide, which another constraint says
    part, cut = width // parts, f"TP × DP = {parts}" if layout.dp > 1 else f"TP {parts}"
    common: dict[str, Any] = {
        "rule": BLOCKS, "subject": "expert width", "facts": with_scales(("moe_intermediate_size",)),
        "cures": ("tp", "dp") if layout.dp > 1 else ("tp",), "remedy": KEEP_WHOLE,
    }  # fmt: skip
    before = max(block[0], block[1]) if parts > 1 else block[0]
    sentence = (
        f"experts of width {width:,} over {cut} leave {part} columns a rank, no whole quantization"
        f" blocks of {before}"
    )
    yield Constraint(
        left=part, right=before, test=divides, until=REFINED_SINCE, consequence=DEATH,
        refusal="is not divisible by weight quantization block", sentence=sentence, **common,
    )  # fmt: skip
    refined = gcd(block[0], block[1], part, model.hidden_size or 0)
    yield Constraint(
        left=LEAST_BLOCK, right=refined, test=at_most, since=REFINED_SINCE, consequence=DEATH,
        refusal="is not divisible by weight quantization block",
        sentence=f"{sentence}, and blocks of {refined} are smaller than the {LEAST_BLOCK} that"
        " kernels can be given", **common,
    )  # fmt: skip
    if refined >= LEAST_BLOCK:
        yield Constraint(
            left=part, right=before, test=divides, since=REFINED_SINCE, refusal="",
            severity="warning", consequence=f"splits the scales into blocks of {refined}, which"
            " only slower Triton kernels take", sentence=sentence, **common,
        )  # fmt: skip


def _small_blocks(model: ModelFacts, built: Shape, ranks: Ranks, algorithm: str) -> FOUND:
    """modelopt.py: the input of each rank in whole groups of 16 (NVFP4) or 32 (MXFP8)."""
    size = 16 if algorithm == "NVFP4" else 32
    text = "size is not multiple of 16" if algorithm == "NVFP4" else ""
    for item in built.scaled:
        parts = ranks.dense_tp if item.split == "tp" else ranks.moe_tp
        whole = item.split == "experts" and ranks.ep > 1
        if in_full_precision(model, item.part) or whole:
            continue
        yield Constraint(
            rule=BLOCKS, subject=item.subject, left=item.size, right=parts * size,
            test=whole_if_cut(parts), refusal=text, consequence=DEATH, cures=("tp",),
            facts=with_scales(item.facts), since=OLDEST_READ,
            advisory=item.split == "experts"
            or (item.part == "shared_expert" and may_be_whole(ranks)),
            sentence=rest(item, parts, size, f"{algorithm} groups of {size}"),
        )  # fmt: skip


def _groups(
    model: ModelFacts, built: Shape, ranks: Ranks, group: int, device: Device | None
) -> FOUND:
    """AWQ, GPTQ and the like: a group of inputs that share a scale stays on one rank."""
    bits = (model.quantization or {}).get("bits")
    for item in built.scaled:
        if in_full_precision(model, item.part):
            continue
        if item.split == "experts":
            if ranks.ep == 1 and group > 0:
                yield _expert_groups(item.size, ranks.moe_tp, group, device, item.facts)
        elif group > 0:
            yield _group(item, ranks.dense_tp, group, may_be_whole(ranks))
        elif group == -1 and bits == 8:
            yield _tiles(item, ranks.dense_tp)
    columns = model.linear_num_value_heads
    if columns and not in_full_precision(model, "linear_attention") and ranks.dense_tp > 1:
        yield _gates(columns, ranks.dense_tp)


def _group(item: Scaled, tp: int, group: int, whole: bool) -> Constraint:
    return Constraint(
        rule=GROUPS, subject=item.subject, left=item.size, right=tp * group,
        test=whole_if_cut(tp), refusal="", consequence=DEATH, cures=("tp",),
        facts=with_scales(item.facts), advisory=item.part == "shared_expert" and whole,
        sentence=rest(item, tp, group, f"quantization groups of {group}"),
    )  # fmt: skip


def _expert_groups(
    width: int, parts: int, group: int, device: Device | None, facts: tuple[str, ...]
) -> Constraint:
    """Marlin refuses the shape; the kernel that takes its place fails on small batches."""
    return Constraint(
        rule=GROUPS, subject="expert width", left=width, right=parts * group,
        test=whole_if_cut(parts), refusal="", cures=("tp",), facts=with_scales(facts),
        consequence="has no kernel for that and dies while it starts or at the first request",
        advisory=device is not None and device.vendor not in ("nvidia", "unknown"),
        sentence=f"experts of width {{left:,}} over {parts} ranks leave {width / parts:g} inputs"
        f" each, no whole number of quantization groups of {group}",
        remedy=KEEP_WHOLE,
    )  # fmt: skip


def _tiles(item: Scaled, tp: int) -> Constraint:
    """Marlin before 0.24 took whole tiles only; before 0.8 no other kernel took 8-bit channels."""
    return Constraint(
        rule=GROUPS, subject=item.subject, left=item.size, right=tp * TILE_K, test=divides,
        refusal="is not divisible by min_thread_k", consequence=DEATH, cures=("tp",),
        facts=with_scales(item.facts), until="0.8.0",
        sentence=f"{item.subject} {{left:,}} over TP {tp} leaves {item.size / tp:g} inputs a rank,"
        f" no multiple of the {TILE_K} that a tile of the Marlin kernel takes",
    )  # fmt: skip


def _gates(heads: int, tp: int) -> Constraint:
    """The two gates of a gated delta net have one column for each value head."""
    return Constraint(
        rule=GROUPS, subject="linear attention gates", left=heads, right=tp * TILE_N, test=divides,
        refusal="", consequence=DEATH, cures=("tp",), until=PADDED_TILES_SINCE,
        facts=with_scales(("linear_num_value_heads",)), since=OLDEST_READ,
        sentence=f"the gates of linear attention have {{left}} columns, {heads / tp:g} a rank at TP"
        f" {tp}, fewer than the {TILE_N} that a tile of the Marlin kernel takes",
    )  # fmt: skip
