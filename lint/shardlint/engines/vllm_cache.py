"""The KV cache of vLLM: blocks, groups of layers, and what a request takes of them.

Read in vllm 0.33.0, v1/core/kv_cache_planning.py and v1/kv_cache_interface.py; what differs in
other releases is in vllm_cache_rules.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import lcm
from typing import Final

from shardlint.engines.vllm_cache_rules import (
    EVERY_BLOCK,
    GDN_CHECKPOINT,
    SIXTEEN_BITS,
    Element,
    Rules,
    bytes_of_key,
    bytes_of_token,
    element,
    exports_checkpoints,
    first_block,
    kernel_block,
    rules,
    sixteen_bits,
)
from shardlint.engines.vllm_stages import stage_layers
from shardlint.footprint import Cache, CacheGroup, CacheKind, Settings
from shardlint.matrices import StateGroup
from shardlint.plan import Device, KvGroup, Layout, ModelFacts, Ranks
from shardlint.record import record

MOST_MODELS: Final = 512
CHUNKED_VARIABLE: Final = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"
PARTITION_VARIABLE: Final = "VLLM_PP_LAYER_PARTITION"
STATE_CHUNK: Final = 256
"""Tokens that Mamba-2's kernel takes at once in most configs."""


@record(kw_only=True)
class Layers:
    """Alike layers: what one token of one of them costs, or its whole state, in bytes.

    `keep` is the window or chunk, in tokens. Of a state, `blocks` are those of one request (None:
    one for each block of tokens, and `extra`), `tokens` those that a block stands for, if they are
    not those of attention.
    """

    kind: CacheKind
    unit: int
    at: tuple[int, ...]
    keep: int | None = None
    blocks: int | None = None
    extra: int = 0
    tokens: int | None = None


def cache(
    model: ModelFacts,
    ranks: Ranks,
    layout: Layout,
    settings: Settings,
    release: str,
    device: Device | None = None,
    *,
    kernel: int | None = None,
) -> Cache | None:
    """The KV cache of the fullest rank; None where the layers of the model are not known.

    `kernel` is the smallest block of the attention kernel, in tokens, where it is not what the
    engine takes by itself. Of drafts only MTP is counted, as one layer like those that keep every
    token: what another draft model keeps is not known here.
    """
    found = rules(release)
    places = _places(model)
    stored = element(model, settings, release, device)
    if places is None or stored is None or (model.states and not places.groups and not found.v1):
        return None
    if any(group.ratio > 1 for group in model.kv_groups):
        return _compressed(model, places, layout, settings, release)
    plain = sixteen_bits(settings)
    attention = _attention(model, places, ranks, found, stored, plain)
    states = _states(model, places, ranks, settings, found, device, plain) if found.v1 else []
    states = states if found.state_pages else []
    block = first_block(model.kv_groups, settings.block_size, release, device, stored)
    if states and attention:
        kernel = kernel or kernel_block(model, release, device)
        block = _hybrid_block(model, attention[0], states, settings, release, device, block, kernel)
    elif states:
        block = settings.max_model_len or block
    stages = _stages(model, layout, settings)
    attention = [*attention, *_draft(model, attention, settings)]
    if not _managed(model, settings, found):
        attention = _as_full(attention)
    parts = [*attention, *_padded(states, attention, block)]
    flights = _in_flight(settings, layout, found)
    groups = _grouped(parts, block, found)
    return _cache(groups, stages, layout, flights, found)


# --------------------------------------------------------------------------- layers of a model


@record(kw_only=True)
class Places:
    """The layers of each group and of the states, as far as they follow from the model alone."""

    groups: tuple[tuple[KvGroup, tuple[int, ...]], ...]
    states: tuple[tuple[StateGroup, tuple[int, ...]], ...]


_known: dict[int, tuple[ModelFacts, Places | None]] = {}


def _places(model: ModelFacts) -> Places | None:
    """Worked out once for each object."""
    found = _known.get(id(model))
    if found is None:
        if len(_known) >= MOST_MODELS:
            _known.clear()
        found = _known[id(model)] = (model, _all_places(model))
    return found[1]


def _all_places(model: ModelFacts) -> Places | None:
    if not model.kv_groups and not model.states:
        return None
    stateful = model.mamba_heads or model.mamba_width or model.linear_num_value_heads
    if stateful and not model.states:
        return None
    total = model.num_layers or sum(group.layers for group in model.kv_groups)
    groups = []
    for group in model.kv_groups:
        at = group.at or tuple(range(total))
        times = group.layers // len(at) if at and group.layers % len(at) == 0 else 0
        at = at * times if times else _spread(range(total), group.layers)
        groups.append((group, at))
    taken = {layer for _, at in groups for layer in at}
    counted = sum(state.layers for state in model.states)
    free = [layer for layer in range(total) if layer not in taken]
    free = free if len(free) >= counted else list(range(total))
    states, first = [], 0
    spread = _spread(free, counted)
    for state in model.states:
        states.append((state, spread[first : first + state.layers]))
        first += state.layers
    return Places(groups=tuple(groups), states=tuple(states))


def _spread(layers: Iterable[int], count: int) -> tuple[int, ...]:
    """So many of the layers, evenly."""
    among = list(layers)
    return tuple(among[index * len(among) // count] for index in range(count)) if among else ()


# -------------------------------------------------------------------------------------- parts


def _attention(
    model: ModelFacts, places: Places, ranks: Ranks, found: Rules, stored: Element, plain: int,
) -> list[Layers]:  # fmt: skip
    """Layers that keep tokens, those that keep all of them first."""
    parts = []
    for group, at in places.groups:
        heads = group if found.latent or not group.shared else _unfolded(model, group)
        unit = bytes_of_token(heads, ranks.attention_tp, stored, plain, found.aligned_rows)
        kind, keep = _kept(group)
        parts.append(Layers(kind=kind, unit=unit, at=at, keep=keep))
        if group.index:
            parts.append(Layers(kind="full", unit=bytes_of_key(group), at=group.indexers))
    return sorted(parts, key=lambda part: part.kind != "full")


def _kept(group: KvGroup) -> tuple[CacheKind, int | None]:
    if group.window:
        return "window", group.window
    if group.common_window:
        return "window", group.common_window
    return ("chunked", group.chunk) if group.chunk else ("full", None)


def _unfolded(model: ModelFacts, group: KvGroup) -> KvGroup:
    """Before 0.7.0 latent attention was kept as heads, 256 wide for the kernel's sake."""
    return KvGroup(group.layers, model.attention_heads or 1, 2 * 256 * SIXTEEN_BITS)


def _managed(model: ModelFacts, settings: Settings, found: Rules) -> bool:
    """config/vllm.py: when each kind of layers has blocks of its own."""
    if not any(group.chunk for group in model.kv_groups):
        return found.managed
    if settings.draft and any(name in settings.draft for name in ("eagle", "mtp")):
        return False
    asked = settings.extra.get(CHUNKED_VARIABLE)
    return found.managed and (found.chunked if asked is None else asked == "1")


def _as_full(attention: list[Layers]) -> list[Layers]:
    """Layers that keep less than every token count as if they kept all, if any of them does."""
    if not any(part.kind == "full" for part in attention):
        return attention
    return [Layers(kind="full", unit=part.unit, at=part.at) for part in attention]


def _draft(model: ModelFacts, attention: list[Layers], settings: Settings) -> list[Layers]:
    """One more layer behind the last for multi-token prediction."""
    if not attention or not _draft_layers(model, settings):
        return []
    last = model.num_layers or 0
    like = [part for part in attention if part.kind == attention[0].kind]
    return [Layers(kind=part.kind, unit=part.unit, at=(last,), keep=part.keep) for part in like[:2]]


def _draft_layers(model: ModelFacts, settings: Settings) -> tuple[int, ...]:
    drafts = settings.draft_tokens and "mtp" in (settings.draft or "")
    return (model.num_layers or 0,) if drafts else ()


def _states(
    model: ModelFacts, places: Places, ranks: Ranks, settings: Settings, found: Rules,
    device: Device | None, plain: int,
) -> list[Layers]:  # fmt: skip
    caching = _caches_prefixes(settings, found)
    return [
        Layers(
            kind="state", unit=_state_bytes(state, ranks.attention_tp, settings, found, plain),
            at=at, blocks=_state_blocks(state, model, settings, found, caching, device),
            extra=settings.draft_tokens if found.every_block_and_drafts else 0,
            tokens=None if caching else settings.max_model_len,
        )
        for state, at in places.states
    ]  # fmt: skip


def _caches_prefixes(settings: Settings, found: Rules) -> bool:
    return found.prefix_caching if settings.prefix_caching is None else settings.prefix_caching


def _state_bytes(state: StateGroup, tp: int, settings: Settings, found: Rules, plain: int) -> int:
    """layers/mamba/mamba_utils.py: groups are copied where they do not divide."""
    groups = state.groups if state.groups % tp == 0 else max(tp, state.groups)
    channels = (state.channels + groups * state.group_channels) // tp
    columns = state.conv + (settings.draft_tokens if state.kind in found.draft_columns else 0)
    recurrence = state.heads // tp * state.state * (state.state_element or plain)
    return channels * columns * plain + recurrence


def _state_blocks(
    state: StateGroup, model: ModelFacts, settings: Settings, found: Rules, caching: bool,
    device: Device | None,
) -> int | None:  # fmt: skip
    """Blocks that a request takes in a group of states; None: one for each block of tokens."""
    drafts = settings.draft_tokens if found.state_modes else 0
    if not caching:
        return 1 + drafts
    if found.every_block and state.kind in EVERY_BLOCK and not (
        drafts and not found.every_block_and_drafts
    ):  # fmt: skip
        return None
    if not found.state_modes:
        return 1
    checkpoint = state.kind in found.checkpoints and exports_checkpoints(state.kind, model, device)
    return 2 + drafts + checkpoint


# -------------------------------------------------------------------------- blocks and pages


def _hybrid_block(
    model: ModelFacts, attention: Layers, states: list[Layers], settings: Settings, release: str,
    device: Device | None, block: int, kernel: int,
) -> int:  # fmt: skip
    """Tokens of a block of attention whose page is as large as a state.

    platforms/interface.py, _align_hybrid_block_size; models/config.py before.
    """
    found = rules(release)
    step = max(kernel, block) if found.block_from_backend else kernel
    if model.mla:
        step = max(step, found.latent_alignment)
    state = max(part.unit for part in states)
    if any(part.blocks is None for part in states):
        step = lcm(step, STATE_CHUNK)
    elif _checkpoints_aligned(model, settings, found, device):
        step = lcm(step, GDN_CHECKPOINT)
    return max(block, step * -(-state // (step * attention.unit)))


def _checkpoints_aligned(
    model: ModelFacts, settings: Settings, found: Rules, device: Device | None
) -> bool:
    """Checkpoints of gated delta nets stand on the borders of blocks."""
    kinds = {state.kind for state in model.states}
    return (
        _caches_prefixes(settings, found) and kinds == {"delta"} and "delta" in found.checkpoints
        and exports_checkpoints("delta", model, device)
    )  # fmt: skip


def _padded(states: list[Layers], attention: list[Layers], block: int) -> list[Layers]:
    """States as large as the page of the model's own attention."""
    if not attention:
        return states
    page = attention[0].unit * block
    return [
        Layers(
            kind="state", unit=max(page, part.unit), at=part.at, blocks=part.blocks,
            extra=part.extra, tokens=part.tokens,
        )
        for part in states
    ]  # fmt: skip


def _in_flight(settings: Settings, layout: Layout, found: Rules) -> int | None:
    """Tokens that are scheduled and not settled yet; None: not known."""
    batch = settings.max_num_batched_tokens
    if batch is None:
        return None
    if not found.in_flight:
        return batch
    if layout.pp > 1 and not found.v2_runner:
        return batch * layout.pp
    return batch * (layout.pp + 1)


# -------------------------------------------------------------------------------------- groups


@record(kw_only=True)
class Group:
    """Layers whose blocks are handed out together, and the page of each of them, in bytes."""

    part: Layers
    block: int
    pages: tuple[tuple[int, tuple[int, ...]], ...]


def _grouped(parts: list[Layers], block: int, found: Rules) -> list[Group]:
    """kv_cache_planning.py, get_kv_cache_groups."""
    first = parts[0]
    alike = all((part.kind, part.keep, part.blocks) == (first.kind, first.keep, first.blocks)
                for part in parts)  # fmt: skip
    if alike:
        pages = tuple((_page(part, block), part.at) for part in parts)
        return [Group(part=first, block=block, pages=pages)]
    largest = max(_page(part, block) for part in parts)
    buckets: dict[tuple[object, ...], tuple[Layers, int, list[int]]] = {}
    for part in parts:
        tokens = _unified(part, block, largest)
        key = (part.kind, part.keep, part.blocks, part.unit)
        buckets.setdefault(key, (part, tokens, []))[2].extend(part.at)
    counts = [len(layers) for _, _, layers in buckets.values()]
    size = max(counts) if max(counts) < min(counts) * found.evened else min(counts)
    groups = []
    for part, tokens, layers in buckets.values():
        count = -(-len(layers) // size)
        groups += [
            Group(part=part, block=tokens, pages=((largest, tuple(layers[i::count])),))
            for i in range(count)
        ]
    return groups


def _page(part: Layers, block: int) -> int:
    return part.unit if part.kind == "state" else part.unit * block


def _unified(part: Layers, block: int, largest: int) -> int:
    """Tokens of a block whose page is as large as the largest: more of them, or a page filled up.

    unify_kv_cache_spec_page_size; releases before 0.24 did not fill up and stopped.
    """
    if part.kind == "state":
        return part.tokens or block
    page = _page(part, block)
    return block if largest % page else block * (largest // page)


def _stages(model: ModelFacts, layout: Layout, settings: Settings) -> list[range] | None:
    """The layers of each pipeline stage; a draft stands in the last one."""
    if layout.pp <= 1 or not model.num_layers:
        return None
    counts = stage_layers(model.num_layers, layout.pp)
    stated = [int(n) for n in settings.extra.get(PARTITION_VARIABLE, "").split(",") if n.isdigit()]
    if len(stated) == layout.pp and sum(stated) == model.num_layers:
        counts = stated
    firsts = [sum(counts[:stage]) for stage in range(layout.pp)]
    spans = [range(first, first + n) for first, n in zip(firsts, counts, strict=True)]
    return [*spans[:-1], range(spans[-1].start, model.num_layers + 1)]


def _cache(
    groups: list[Group], stages: list[range] | None, layout: Layout, flights: int | None,
    found: Rules,
) -> Cache:  # fmt: skip
    size = max(_bytes(groups, stages))
    context = max(1, layout.dcp)
    shown = tuple(_cache_group(group, context, flights) for group in groups)
    grown = sum(size / (group.block * group.context) for group in shown if group.kind == "full")
    return Cache(
        bytes_per_block=size, bytes_per_token=grown, groups=shown,
        spare=1 if found.spare_block else 0,
        line="concurrency" if found.concurrency_line else "blocks",
    )  # fmt: skip


def _bytes(groups: list[Group], stages: list[range] | None) -> Iterator[int]:
    """Bytes of a block of each group, on each stage."""
    for group in groups:
        if stages is None:
            yield sum(page * len(at) for page, at in group.pages)
            continue
        for stage in stages:
            yield sum(page * sum(layer in stage for layer in at) for page, at in group.pages)


def _cache_group(group: Group, context: int, flights: int | None) -> CacheGroup:
    part = group.part
    layers = sum(len(at) for _, at in group.pages)
    if part.kind == "state":
        if part.blocks is None:
            return CacheGroup(kind="state", layers=layers, block=group.block, extra=part.extra)
        return CacheGroup(kind="state", layers=layers, block=group.block, fixed=part.blocks)
    if part.kind == "full":
        return CacheGroup(kind="full", layers=layers, block=group.block, context=context)
    sliding = part.kind == "window"
    limit = None
    if flights is not None and part.keep is not None:
        limit = part.keep - (1 if sliding else 0) + flights
    return CacheGroup(
        kind=part.kind, layers=layers, block=group.block, limit=limit, extra=1 if sliding else 0
    )


# --------------------------------------------------------------------------------- DeepSeek-V4

ENTRY, KEY, ALIGNED = 584, 132, 576
"""models/deepseek_v4/attention.py: bytes of an entry, of a key, and what pages are rounded to."""
ENTRY_BLOCK, WINDOW_BLOCK = 256, 64
COMPRESSORS: Final = {4: (4, 8, 2), 128: (8, 128, 1)}
"""models/deepseek_v4/compressor.py, by ratio: tokens of a block, window, copies of K and score."""


def _compressed(
    model: ModelFacts, places: Places, layout: Layout, settings: Settings, release: str
) -> Cache | None:
    """Entries for several tokens, single ones in a window, and what is being compressed."""
    found = rules(release)
    full: dict[int, list[int]] = {}
    sliding: dict[tuple[int, int], dict[int, list[int]]] = {}
    for group, at in places.groups:
        width = group.bytes_per_head // SIXTEEN_BITS
        if group.window:
            page = _rounded(WINDOW_BLOCK * ENTRY)
            at = (*at, *_draft_layers(model, settings))
            sliding.setdefault((WINDOW_BLOCK, group.window), {}).setdefault(page, []).extend(at)
            continue
        if group.ratio not in COMPRESSORS:
            return None
        states = ENTRY_BLOCK // group.ratio
        full.setdefault(_rounded(states * ENTRY), []).extend(at)
        tokens, window, copies = COMPRESSORS[group.ratio]
        kept = sliding.setdefault((tokens, window), {})
        kept.setdefault(_rounded(tokens * 8 * copies * width), []).extend(at)
        if group.index:
            full.setdefault(_rounded(states * KEY), []).extend(group.indexers)
            kept.setdefault(_rounded(tokens * 8 * copies * group.index), []).extend(group.indexers)
    counts = [max(map(len, pages.values())) for pages in (full, *sliding.values())]
    repeats = _least_padding(counts, counts[0])
    groups = [
        Group(
            part=Layers(kind="full", unit=0, at=()), block=ENTRY_BLOCK,
            pages=tuple((page, tuple(at)) for page, at in full.items()),
        )
    ]  # fmt: skip
    for (block, window), pages in sliding.items():
        count = -(-max(map(len, pages.values())) // repeats)
        part = Layers(kind="window", unit=0, at=(), keep=window)
        groups += [
            Group(part=part, block=block,
                  pages=tuple((page, tuple(at[i::count])) for page, at in pages.items()))
            for i in range(count)
        ]  # fmt: skip
    stages = _stages(model, layout, settings)
    flights = _in_flight(settings, layout, found)
    built = _cache(groups, stages, layout, flights, found)
    if found.packed:
        return built
    # Before, every group was as large as so many layers of each kind in the first one.
    size = repeats * sum(full)
    grown = size / (ENTRY_BLOCK * max(1, layout.dcp))
    return Cache(
        bytes_per_block=size, bytes_per_token=grown, groups=built.groups, spare=built.spare,
        line=built.line,
    )  # fmt: skip


def _rounded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _least_padding(counts: list[int], least: int) -> int:
    """kv_cache_planning.py, _approximate_gcd: the size of groups that leaves the least empty."""

    def padding(size: int) -> int:
        return sum(-count % size for count in counts)

    return min(range(least, max(counts) + 1), key=lambda size: (padding(size), -size))
