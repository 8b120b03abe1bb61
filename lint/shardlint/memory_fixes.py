"""Changes after which one GPU holds its part of a plan, by the estimate less its band.

Smallest first: what keeps the GPUs as they are, then more ranks for one copy of the model. More
replicas or data-parallel ranks are never among them: each of those holds the whole model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from shardlint.asked_layout import Asked
from shardlint.memory_rule import fits
from shardlint.plan import Layout
from shardlint.plugins import World

FP8_SINCE: Final = (8, 9)
"""Compute capability from which kernels read a KV cache in FP8 without converting it first."""
LEAST_CONTEXT: Final = 1024
"""A shorter one is no use to anybody."""
MOST_TP: Final = 64


def settings_that_fit(world: World) -> Iterator[dict[str, Any]]:
    """A shorter context, and a KV cache in FP8."""
    length = _context(world)
    if length is not None and fits(world.sized(max_model_len=length)):
        yield {"max_model_len": length}
    plain = all((item.made.settings.kv_cache_dtype or "auto") == "auto" for item in world.sized())
    if _reads_fp8(world) and plain and fits(world.sized(kv_cache_dtype="fp8")):
        yield {"kv_cache_dtype": "fp8"}


def _reads_fp8(world: World) -> bool:
    found = re.fullmatch(r"(\d+)\.(\d+)", (world.device and world.device.compute_capability) or "")
    return found is not None and (int(found[1]), int(found[2])) >= FP8_SINCE


def _context(world: World) -> int | None:
    """The largest power of two that every possible release holds, less the band."""
    lengths = [
        sized.made.cache.longest(max(0, sized.made.kv - sized.band.below))
        for sized in world.sized()
        if sized.made.cache is not None
    ]
    longest = min(lengths, default=0)
    return 1 << (longest.bit_length() - 1) if longest >= LEAST_CONTEXT else None


def layouts_that_fit(world: World, asked: Asked) -> Iterator[dict[str, int]]:
    """The smallest tensor parallel size that fits, on GPUs that a pod or host can have."""
    layout = asked.layout
    for tp in range(layout.tp + 1, MOST_TP + 1):
        wider = replace(layout, tp=tp)
        count = asked.count(wider)
        if count is None or not asked.accepts(wider):
            continue
        if fits(world.sized(wider)):
            yield {"tp": tp, **count}
            return


def sizes_after(
    world: World, layout: Layout | None, changes: Mapping[str, Any]
) -> dict[str, dict[str, int]]:
    """Bytes of weights and KV cache on one GPU before and after, for the newest release."""
    before, after = world.sized()[-1:], world.sized(layout, **changes)[-1:]
    if not before or not after:
        return {}
    one, other = before[0].made, after[0].made
    found = {
        "weights_bytes": {"before": one.weights.bytes, "after": other.weights.bytes},
        "kv_cache_bytes": {"before": max(0, one.kv), "after": max(0, other.kv)},
    }
    return {name: pair for name, pair in found.items() if pair["before"] != pair["after"]}
