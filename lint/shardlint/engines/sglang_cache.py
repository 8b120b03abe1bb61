"""The KV cache of SGLang, where one pool holds all layers.

Read in sglang (2026), mem_cache/kv_cache_configurator.py and model_executor/pool_configurator.py:
bytes of one token on one rank ("cell size"), rounded down to pages.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from shardlint.engines.sglang_releases import Span, constant, is_blackwell, rules
from shardlint.footprint import Cache, CacheGroup, Settings
from shardlint.plan import KvGroup, Layout, ModelFacts, Ranks
from shardlint.record import record

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
    model: ModelFacts,
    ranks: Ranks,
    layout: Layout,
    settings: Settings,
    release: str,
    *,
    amd: bool = False,
) -> Cache | None:
    """The pool of the fullest rank; None for models with pools of several kinds.

    Of layers that slide, known classes keep fewer tokens, by a fixed ratio; all others keep all.
    States of recurrent layers have a pool of their own, in a fixed ratio to that of tokens.
    """
    groups = model.kv_groups
    element = _element(settings)
    if not groups or element is None:
        return None
    if any(group.ratio > 1 or (group.index and not group.shared) for group in groups):
        return None
    told = rules(release)
    states = _states(model, settings, told["states"])
    if states is None:
        return None
    context = max(1, layout.dcp)
    sparse = any(group.index for group in groups)
    page = settings.block_size or (SPARSE_PAGE if sparse and not amd else PAGE)
    slides = model.architecture in told["windows"]["classes"]
    fewer = Fraction(str(constant("window_tokens"))) if slides else Fraction(1)
    # The kernels that Blackwell and AMD use want entries without scales.
    packed = told["sparse"]["packed"] and not amd and not is_blackwell(settings.compute_capability)
    entry = _Entry(ranks.attention_tp, layout.pp, context, element, packed, told["sparse"]["index"])
    kept = {group: fewer if group.window or group.chunk else Fraction(1) for group in groups}
    cell = sum((_cell(group, entry) * kept[group] for group in groups), Fraction(0))
    size = int(cell * (1 + states) * page)
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


def _states(model: ModelFacts, settings: Settings, span: Span) -> Fraction | None:
    """Bytes of states for each byte of tokens; None: they hang on the requests that may run."""
    if not model.states:
        return Fraction(0)
    barred = settings.draft or settings.prefix_caching is False
    if barred or span["ratio"] is None or model.architecture in span["not_classes"]:
        return None
    return Fraction(str(span["ratio"]))


@record
class _Entry:
    """What decides the size of an entry, beside its layers."""

    tp: int
    pp: int
    context: int
    element: Fraction
    packed: bool
    index: bool


def _element(settings: Settings) -> Fraction | None:
    name = (settings.kv_cache_dtype or "auto").lower()
    return next((size for start, size in ELEMENTS if name.startswith(start)), None)


def _cell(group: KvGroup, entry: _Entry) -> Fraction:
    """Bytes of one token in the layers of one stage."""
    width = group.bytes_per_head // SIXTEEN_BITS
    layers = -(-group.layers // entry.pp)
    if not group.shared:
        heads = max(1, group.heads * entry.context // entry.tp)
        return heads * width * layers * entry.element
    size = width * entry.element
    if not group.index:
        return size * layers
    if entry.packed and entry.element == 1:
        latent = width - ROPE
        size = Fraction(latent + latent // QUANTIZED * 4 + ROPE * SIXTEEN_BITS)
    key = group.index + group.index // QUANTIZED * 4 if entry.index else 0
    return size * layers + key * -(-len(group.indexers) // entry.pp) * entry.context
