"""The KV cache of SGLang, where one pool holds all layers.

Read in sglang (2026), mem_cache/kv_cache_configurator.py and model_executor/pool_configurator.py:
bytes of one token on one rank ("cell size"), rounded down to pages.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from shardlint.footprint import Cache, CacheGroup, Settings
from shardlint.plan import KvGroup, Layout, ModelFacts, Ranks

PAGE: Final = 1
SPARSE_PAGE: Final = 64
ELEMENTS: Final[tuple[tuple[str, Fraction], ...]] = (
    ("mxfp8", Fraction(33, 32)),
    ("fp8", Fraction(1)),
    ("fp4", Fraction(9, 16)),
    ("nvfp4", Fraction(9, 16)),
    ("auto", Fraction(2)),
    ("bf16", Fraction(2)),
    ("bfloat16", Fraction(2)),
)
"""Bytes of one element with its scales, by what the name of the type begins with."""
SIXTEEN_BITS: Final = 2
ROPE: Final = 64
QUANTIZED: Final = 128
"""Elements that share a float32 scale in the packed latent entry and in the keys beside it."""


def cache(
    model: ModelFacts, ranks: Ranks, layout: Layout, settings: Settings, _release: str
) -> Cache | None:
    """The pool of the fullest rank; None for models with pools of several kinds."""
    groups = model.kv_groups
    element = _element(settings)
    if not groups or model.states or element is None:
        return None
    if any(group.window or group.chunk or group.ratio > 1 for group in groups):
        return None
    context = max(1, layout.dcp)
    sparse = any(group.index for group in groups)
    page = settings.block_size or (SPARSE_PAGE if sparse else PAGE)
    cell = sum((_cell(group, ranks, layout.pp, context, element) for group in groups), Fraction(0))
    size = int(cell * page)
    return Cache(
        bytes_per_block=size,
        bytes_per_token=size / (page * context),
        groups=(
            CacheGroup(
                kind="full",
                layers=sum(group.layers for group in groups),
                block=page,
                context=context,
            ),
        ),
        line="blocks",
    )


def _element(settings: Settings) -> Fraction | None:
    name = (settings.kv_cache_dtype or "auto").lower()
    return next((size for start, size in ELEMENTS if name.startswith(start)), None)


def _cell(group: KvGroup, ranks: Ranks, pp: int, context: int, element: Fraction) -> Fraction:
    """Bytes of one token in the layers of one stage."""
    width = group.bytes_per_head // SIXTEEN_BITS
    layers = -(-group.layers // pp)
    if not group.shared:
        heads = max(1, group.heads * context // ranks.attention_tp)
        return heads * width * layers * element
    if not group.index:
        return width * layers * element
    entry = width * element
    if element == 1:
        latent = width - ROPE
        entry = Fraction(latent + latent // QUANTIZED * 4 + ROPE * SIXTEEN_BITS)
    key = group.index + group.index // QUANTIZED * 4
    return entry * layers + key * -(-len(group.indexers) // pp) * context
