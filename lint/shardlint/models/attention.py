"""Heads, and what each layer keeps per token, as a config states them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from shardlint.models import keys
from shardlint.models.view import View, is_count
from shardlint.plan import KvGroup

MOST_LAYERS = 4096
BYTES = 2
"""Of one 16-bit element."""

Kinds: TypeAlias = list[str]
"""One of "full", "window", "chunked", "none" for each layer; empty when that is not clear."""


def layer_count(text: View) -> int | None:
    """Stated, or the length of the list that names every layer."""
    stated = text.count(*keys.LAYERS, most=MOST_LAYERS)
    if stated:
        return stated
    named = text.word("hybrid_override_pattern") or text.items("layers_block_type")
    return len(named) if 0 < len(named) <= MOST_LAYERS else None


# ------------------------------------------------------------------------------------- heads


def attention_heads(text: View) -> tuple[int, ...]:
    """Query head counts of all kinds of layers, the largest first."""
    counts = {text.count(*keys.HEADS), *(text.count(key) for key in keys.OTHER_HEADS)}
    return tuple(sorted((n for n in counts if n), reverse=True))


def kv_heads(text: View, model_type: str | None, heads: int | None) -> tuple[int, ...]:
    """KV head counts of all kinds of layers, the one that the config calls by that name first."""
    per_layer = [n for n in kv_heads_per_layer(text, heads) if n]
    if per_layer:
        return tuple(dict.fromkeys(per_layer))
    main = _main_kv_heads(text, model_type, heads)
    others = [text.count(*keys.GLOBAL_KV_HEADS)]
    others += [text.count(key) for key in keys.SLIDING_KV_HEADS]
    others += [layer.count(*keys.KV_HEADS) for layer in exceptions(text).values()]
    return tuple(dict.fromkeys(n for n in (main, *others) if n)) if main else ()


def _main_kv_heads(text: View, model_type: str | None, heads: int | None) -> int | None:
    if _multi_query(text, model_type):
        return 1
    if text.stated("multi_query_group_num") and text.flag("multi_query_attention") is not False:
        grouped = text.flag("multi_query_attention")
        return text.count("multi_query_group_num") if grouped else None
    if text.stated(*keys.KV_HEADS):
        return text.count(*keys.KV_HEADS)
    return None if text.stated("block_configs", keys.KV_HEADS_PER_LAYER) else heads


def _multi_query(text: View, model_type: str | None) -> bool:
    """One KV head; the older decoder of Falcon has that unless it says otherwise."""
    if text.flag("new_decoder_architecture"):
        return False
    stated = text.flag("multi_query")
    return keys.is_one_of(model_type, keys.FALCON) if stated is None else stated


def kv_heads_per_layer(text: View, heads: int | None) -> list[int]:
    """KV heads layer by layer, 0 for a layer without attention; empty if not stated so."""
    listed = text.items(keys.KV_HEADS_PER_LAYER)
    if listed and all(is_count(n) for n in listed):
        return listed
    counts = [_kv_heads_of_block(block, heads) for block in text.items("block_configs")]
    return [n for n in counts if n is not None] if None not in counts else []


def _kv_heads_of_block(block: Any, heads: int | None) -> int | None:
    attention = View(block).part("attention") if isinstance(block, dict) else None
    if attention is None or heads is None:
        return None
    if attention.flag("no_op") or attention.flag("replace_with_linear"):
        return 0
    group = attention.count("n_heads_in_group")
    return heads // group if group and heads % group == 0 else None


def exceptions(text: View) -> dict[int, View]:
    """Layers with entries of their own."""
    own = text.get(keys.PER_LAYER)
    if not isinstance(own, dict):
        return {}
    return {
        int(index): View(entry)
        for index, entry in own.items()
        if isinstance(entry, dict) and re.fullmatch("[0-9]{1,4}", str(index))
    }


def thinned_width(ffn: View, hidden: int) -> int:
    """The FFN width of one block of Nemotron-NAS or DeciLM, rounded up to 256."""
    multiple = ffn.get("ffn_mult")
    if not isinstance(multiple, int | float) or not 0 < multiple < 1024:
        return ffn.count("intermediate_size") or 0
    return -(-int(2 * multiple * hidden / 3) // 256) * 256


def head_dim(text: View, model_type: str | None) -> int | None:
    """Stated, else hidden / heads where the class computes it so."""
    if text.stated(*keys.HEAD_DIM):
        return text.count(*keys.HEAD_DIM)
    if text.stated("kv_lora_rank") or keys.is_one_of(model_type, keys.OWN_HEAD_DIM):
        return None
    hidden, heads = text.count(*keys.HIDDEN), text.count(*keys.HEADS)
    return hidden // heads if hidden and heads and hidden % heads == 0 else None


# ------------------------------------------------------------------------------ kinds of layers


def _no_cache(_text: View, model_type: str | None, layers: int) -> Kinds | None:
    return ["none"] * layers if keys.is_one_of(model_type, keys.NO_CACHE) else None


def _words(text: View, _type: str | None, layers: int) -> Kinds | None:
    """`layer_types` and `layers_block_type` name every layer, sometimes the draft layers too."""
    if not text.stated("layer_types", "layers_block_type"):
        return None
    words = text.items("layer_types", "layers_block_type")[:layers]
    kinds = [keys.LAYER_WORDS.get(word) for word in words if isinstance(word, str)]
    return [kind for kind in kinds if kind] if None not in kinds else []


def _letters(text: View, _type: str | None, _layers: int) -> Kinds | None:
    letters = text.word("hybrid_override_pattern")
    if letters is None:
        return None
    return ["full" if letter == "*" else "none" for letter in letters]


def _numbers(text: View, _type: str | None, _layers: int) -> Kinds | None:
    """Lists of 0 and 1: sliding layers in one, softmax layers in another."""
    for key, kinds in (
        ("hybrid_layer_pattern", {0: "full", 1: "window"}),
        ("attn_type_list", {0: "none", 1: "full"}),
    ):
        if text.stated(key):
            numbers = text.items(key)
            known = all(isinstance(n, int) and n in kinds for n in numbers)
            return [kinds[n] for n in numbers] if known else []
    return None


def _chosen(text: View, _type: str | None, layers: int) -> Kinds | None:
    """Lists of layers: full attention ones counted from 1, cross attention ones from 0."""
    for key, first, inside, outside in (
        ("linear_attn_config.full_attn_layers", 1, "full", "none"),
        ("cross_attention_layers", 0, "none", "full"),
    ):
        if text.stated(key):
            chosen = [n - first for n in text.items(key) if isinstance(n, int)]
            if not all(0 <= n < layers for n in chosen):
                return []
            return [inside if index in chosen else outside for index in range(layers)]
    return None


def _period(text: View, _type: str | None, layers: int) -> Kinds | None:
    if not text.stated("attn_layer_period"):
        return None
    period, offset = text.count("attn_layer_period"), text.get("attn_layer_offset")
    if not period or not isinstance(offset, int) or not 0 <= offset < period:
        return []
    return ["full" if index % period == offset else "none" for index in range(layers)]


def _interval(text: View, model_type: str | None, layers: int) -> Kinds | None:
    every = text.count("full_attention_interval") or keys.by_type(model_type, keys.FULL_EVERY)
    if not every:
        return None
    return ["none" if (index + 1) % every else "full" for index in range(layers)]


def _sliding(text: View, model_type: str | None, layers: int) -> Kinds | None:
    """A pattern of sliding layers; one window for all layers alike is not counted as sliding.

    A class that slides by default leaves it open when the config does not name the window.
    """
    default = keys.by_type(model_type, keys.SLIDING_EVERY)
    if not _window_size(text, model_type):
        named = any(key in text.raw for key in keys.WINDOW)
        return [] if default and not named else None
    if pattern := text.word(*keys.PATTERN):
        kinds = {"L": "window", "G": "full"}
        known = all(letter in kinds for letter in pattern)
        return [kinds[pattern[i % len(pattern)]] for i in range(layers)] if known else []
    every = text.count(*keys.PATTERN) or default
    if not every:
        return None
    return ["window" if (index + 1) % every else "full" for index in range(layers)]


def _window_size(text: View, model_type: str | None) -> int | None:
    if any(key in text.raw for key in keys.WINDOW):
        return text.count(*keys.WINDOW)
    return keys.by_type(model_type, keys.WINDOW_OF)


def _chunked(text: View, model_type: str | None, layers: int) -> Kinds | None:
    """Llama 4: layers with positions attend inside of chunks, those without to everything."""
    if not keys.is_one_of(model_type, keys.LLAMA4) or not _chunk_size(text, model_type):
        return None
    positions = text.items("no_rope_layers")
    if not positions:
        every = text.count("no_rope_layer_interval") or keys.NO_ROPE_EVERY
        positions = [(index + 1) % every for index in range(layers)]
    return ["chunked" if position else "full" for position in positions]


def _chunk_size(text: View, model_type: str | None) -> int | None:
    if "attention_chunk_size" in text.raw:
        return text.count("attention_chunk_size")
    return keys.by_type(model_type, keys.CHUNK_OF)


def _hybrid(text: View, model_type: str | None, layers: int) -> Kinds | None:
    """Signs of layers with a fixed state, without a pattern that was understood."""
    if keys.is_one_of(model_type, keys.ATTENTION_BESIDE_STATE):
        return ["full"] * layers
    stated = [str(key) for key, value in text.raw.items() if value is not None]
    return [] if any(mark in key for key in stated for mark in keys.HYBRID_MARKS) else None


READERS: tuple[Callable[[View, str | None, int], Kinds | None], ...] = (
    _no_cache,
    _words,
    _letters,
    _numbers,
    _chosen,
    _period,
    _interval,
    _sliding,
    _chunked,
    _hybrid,
)


def layer_kinds(text: View, model_type: str | None, layers: int) -> Kinds:
    """What every layer keeps: the first way of saying it that the config uses."""
    for reader in READERS:
        kinds = reader(text, model_type, layers)
        if kinds is not None:
            break
    else:
        kinds = ["full"] * layers
    if len(kinds) != layers:
        return []
    if text.flag("use_sliding_window") is False:
        kinds = ["full" if kind == "window" else kind for kind in kinds]
    return _without_shared(text, kinds)


def _without_shared(text: View, kinds: Kinds) -> Kinds:
    """The last layers of some models read the cache of earlier ones."""
    shared = text.count("num_kv_shared_layers") or 0
    own = len(kinds) - shared
    return kinds[:own] + ["none"] * shared if own > 0 else []


# ----------------------------------------------------------------------------------- KV cache


class _Entry(NamedTuple):
    """What one layer keeps of a token."""

    heads: int | None
    k: int | None
    v: int | None


def kv_groups(text: View, model_type: str | None) -> tuple[KvGroup, ...]:
    """Layers by what they keep of one token; empty when that is not clear."""
    layers = layer_count(text)
    if not layers:
        return ()
    if text.stated("compress_ratios"):
        return _compressed(text, model_type, layers)
    kinds = layer_kinds(text, model_type, layers)
    if text.stated("kv_lora_rank"):
        return _latent(text, model_type, kinds)
    return _grouped(text, model_type, kinds)


def _places(chosen: list[int], layers: int) -> tuple[int, ...]:
    """The layers of a group; empty for all of them."""
    return () if len(chosen) == layers else tuple(chosen)


def _indexed(text: View, layers: int) -> tuple[int, tuple[int, ...]]:
    """The width of the keys that choose tokens, and the layers that keep one."""
    if width := text.count("index_head_dim"):
        kinds = text.items("indexer_types")[:layers] or ["full"] * layers
        return width, tuple(i for i, kind in enumerate(kinds) if kind != "shared")
    width = text.count("sparse_attention_config.sparse_index_dim")
    if width and text.flag("sparse_attention_config.use_sparse_attention") is not False:
        flags = text.items("sparse_attention_config.sparse_attention_freq")[:layers]
        return width, tuple(i for i, flag in enumerate(flags) if flag)
    return 0, ()


def _compressed(text: View, model_type: str | None, layers: int) -> tuple[KvGroup, ...]:
    """DeepSeek-V4: one vector for so many tokens, and a window of single ones in every layer."""
    ratios = text.items("compress_ratios")[:layers]
    width, window = head_dim(text, model_type), _window_size(text, model_type)
    known = len(ratios) == layers and all(ratio == 0 or is_count(ratio) for ratio in ratios)
    if not width or not window or not known:
        return ()
    groups = []
    for ratio in sorted({ratio for ratio in ratios if ratio > 1}):
        at = tuple(index for index, found in enumerate(ratios) if found == ratio)
        index = (text.count("index_head_dim") or 0) if ratio == keys.INDEXED_RATIO else 0
        groups.append(
            KvGroup(
                len(at),
                1,
                width * BYTES,
                shared=True,
                ratio=ratio,
                index=index,
                indexers=at if index else (),
                at=at,
            )
        )
    return (*groups, KvGroup(layers, 1, width * BYTES, window=window, shared=True))


def _latent(text: View, model_type: str | None, kinds: Kinds) -> tuple[KvGroup, ...]:
    rank, rope = text.count("kv_lora_rank"), text.count("qk_rope_head_dim")
    at = [index for index, kind in enumerate(kinds) if kind == "full"]
    if not rank or not rope or not at:
        return ()
    caches = len(at) * (2 if keys.is_one_of(model_type, keys.TWO_ATTENTIONS) else 1)
    index, indexers = _indexed(text, len(kinds))
    return (
        KvGroup(
            caches, 1, (rank + rope) * BYTES, shared=True, index=index, indexers=indexers,
            at=_places(at, len(kinds)),
        ),
    )  # fmt: skip


def _grouped(text: View, model_type: str | None, kinds: Kinds) -> tuple[KvGroup, ...]:
    window, chunk = _window_size(text, model_type), _chunk_size(text, model_type)
    common = _common_window(text, model_type, kinds)
    places: dict[tuple[int, int, int | None, int | None], list[int]] = {}
    entries = _entries(text, model_type, len(kinds))
    for layer, kind in enumerate(kinds):
        if kind == "none":
            continue
        heads, k, v = entries(layer, kind)
        if heads == 0:
            continue
        if not heads or not k or not v or (kind == "window" and not window):
            return ()
        kept = window if kind == "window" else None
        shape = heads, (k + v) * BYTES, kept, chunk if kind == "chunked" else None
        places.setdefault(shape, []).append(layer)
    index, indexers = _indexed(text, len(kinds))
    groups = []
    for (heads, size, kept, chunk), at in places.items():
        chosen = tuple(layer for layer in indexers if layer in at)
        groups.append(
            KvGroup(
                len(at),
                heads,
                size,
                kept,
                chunk=chunk,
                common_window=common,
                index=index if chosen else 0,
                indexers=chosen,
                at=_places(at, len(kinds)),
            )
        )
    return tuple(sorted(groups, key=lambda group: group.window is not None))


def _common_window(text: View, model_type: str | None, kinds: Kinds) -> int | None:
    """One window for all layers; what is as long as the context is none."""
    if not keys.is_one_of(model_type, keys.ALL_SLIDE) or set(kinds) != {"full"}:
        return None
    if text.stated("layer_types") or text.flag("use_sliding_window") is False:
        return None
    return text.count(*keys.WINDOW)


def _entries(text: View, model_type: str | None, layers: int) -> Callable[[int, str], _Entry]:
    """A function from layer and kind to what is kept there."""
    heads = text.count(*keys.HEADS)
    per_layer = kv_heads_per_layer(text, heads)
    main = _main_kv_heads(text, model_type, heads)
    k = head_dim(text, model_type)
    v = text.count("v_head_dim") or k
    entry_of = _Entry(main, k, v)
    full = _full(text, entry_of)
    by_kind = {"full": full, "chunked": full, "window": _window(text, entry_of)}
    own = exceptions(text)

    def entry(index: int, kind: str) -> _Entry:
        if len(per_layer) == layers:
            return _Entry(per_layer[index], k, v)
        shape = by_kind[kind]
        return _own(own[index], shape) if index in own else shape

    return entry


def _full(text: View, main: _Entry) -> _Entry:
    heads = text.count(*keys.GLOBAL_KV_HEADS) or main.heads
    own = text.count(*keys.GLOBAL_HEAD_DIM)
    return _Entry(heads, own, own) if own else main._replace(heads=heads)


def _window(text: View, main: _Entry) -> _Entry:
    heads = text.count(*keys.SLIDING_KV_HEADS) or main.heads
    k = text.count(*keys.SLIDING_HEAD_DIM)
    v = text.count(*keys.SLIDING_V_HEAD_DIM)
    return _Entry(heads, k or main.k, v or k or main.v)


def _own(layer: View, shape: _Entry) -> _Entry:
    """A layer's own numbers in place of those of its kind."""
    heads = layer.count(*keys.KV_HEADS) or shape.heads
    width = layer.count(*keys.HEAD_DIM)
    return _Entry(heads, width, width) if width else shape._replace(heads=heads)
