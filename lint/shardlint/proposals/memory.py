"""Changes after which one GPU holds its part of a plan, by the estimate less its band.

Smallest first: what keeps the GPUs as they are, then more ranks for one copy of the model. Weights
of fewer bits come last, since they change what is answered. More replicas are never among them:
each of those holds the whole model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from shardlint.footprint import Sized
from shardlint.memory_rule import fits
from shardlint.plan import Layout
from shardlint.plugins import World
from shardlint.proposals.asked import Asked

FP8_SINCE: Final = (8, 9)
"""Compute capability from which kernels compute in FP8, and read a KV cache in it as it is."""
LEAST_CONTEXT: Final = 1024
"""A shorter one is no use to anybody."""
MOST_TP: Final = 64


def settings_that_fit(world: World, load: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A shorter context, a KV cache in FP8.

    `load` are the requests that should find room at the same time, and the tokens of each; without
    it, one of the longest.
    """
    for length in _contexts(world) if not load else ():
        if fits(world.sized(max_model_len=length)):
            yield {"max_model_len": length}
            break
    if _plain_cache(world) and _holds(world.sized(**CACHE), load):
        yield dict(CACHE)


def weights_that_fit(world: World, load: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Weights in FP8, with the cache in it where only both are small enough."""
    if not _wide_weights(world):
        return
    if _holds(world.sized(**WEIGHTS), load):
        yield dict(WEIGHTS)
        return
    alone = not _plain_cache(world) or _holds(world.sized(**CACHE), load)
    if not alone and _holds(world.sized(**CACHE, **WEIGHTS), load):
        yield {**CACHE, **WEIGHTS}


CACHE: Final[Mapping[str, Any]] = {"kv_cache_dtype": "fp8"}
WEIGHTS: Final[Mapping[str, Any]] = {"quantization": "fp8"}


def _plain_cache(world: World) -> bool:
    """The cache is in the type of the model, and the card computes in FP8."""
    asked = {item.made.settings.kv_cache_dtype or "auto" for item in world.sized()}
    return asked == {"auto"} and _knows_fp8(world)


def _wide_weights(world: World) -> bool:
    """The checkpoint is known to have 16 bits, the engine is not asked for fewer, and the card
    computes in FP8."""
    model = world.model
    asked = {item.made.settings.quantization for item in world.sized()}
    wide = model is not None and model.quantization == {}
    return wide and asked == {None} and _knows_fp8(world)


def _holds(found: tuple[Sized, ...], load: Mapping[str, Any]) -> bool:
    """Room for the load by the estimate, or for one of the longest requests less the band."""
    if not load:
        unknown = bool(found) and all(sized.made.need is None for sized in found)
        return all(_loads(sized) for sized in found) if unknown else fits(found)
    return bool(found) and all(_takes(sized, load["requests"], load["tokens"]) for sized in found)


def _loads(sized: Sized) -> bool:
    """Where the longest request is not known: some room for the cache is left, less the band."""
    made = sized.made
    return made.at_load + made.beside.context < made.total and made.kv > sized.band.below


def _takes(sized: Sized, requests: int, tokens: int) -> bool:
    made = sized.made
    return made.cache is not None and made.cache.concurrency(max(0, made.kv), tokens) >= requests


def _knows_fp8(world: World) -> bool:
    found = re.fullmatch(r"(\d+)\.(\d+)", (world.device and world.device.compute_capability) or "")
    return found is not None and (int(found[1]), int(found[2])) >= FP8_SINCE


def _contexts(world: World) -> Iterator[int]:
    """Powers of two that every possible release holds, less the band, the largest first.

    A batch that holds one context is as long as that: a shorter one may leave less room.
    """
    lengths = [
        sized.made.cache.longest(max(0, sized.made.kv - sized.band.below))
        for sized in world.sized()
        if sized.made.cache is not None
    ]
    length = 1 << (min(lengths, default=0) | 1).bit_length() - 1
    while length >= LEAST_CONTEXT:
        yield length
        length //= 2


def layouts_that_fit(
    world: World, asked: Asked, load: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The smallest tensor parallel size that fits, on the GPUs of other copies, then on GPUs that a
    pod or host can have; with more stages where no size does."""
    layout = asked.layout
    wider = [tp for tp in range(layout.tp + 1, MOST_TP + 1) if asked.knows_shape]
    for tp in wider if layout.one_group else ():
        copies, rest = divmod(layout.dp * layout.tp, tp)
        after = replace(layout, tp=tp, dp=copies)
        if copies and not rest and asked.accepts(after) and _holds(world.sized(after), load):
            yield {"tp": tp, "dp": copies}
            break
    for after in (
        *(replace(layout, tp=tp) for tp in wider),
        *(replace(layout, pp=layout.pp * stages) for stages in (2, 4, 8)),
    ):
        count = asked.count(after)
        if count is None or not asked.accepts(after):
            continue
        if _holds(world.sized(after), load):
            yield ({"tp": after.tp} if after.tp > layout.tp else {"pp": after.pp}) | count
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
