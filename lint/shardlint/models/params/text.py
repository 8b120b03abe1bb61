"""A decoder, layer by layer."""

from __future__ import annotations

from dataclasses import replace

from shardlint.models import attention as heads_of
from shardlint.models import keys
from shardlint.models.params.shape import Shape
from shardlint.models.params.size import NotCounted, Size, linear, sure
from shardlint.models.params.state import BLOCKS

# ----------------------------------------------------------------------------------- attention


def attention(s: Shape, index: int) -> int:
    """The block of one layer that mixes tokens."""
    kind = s.kinds[index] if s.kinds else "full"
    if kind == "none" and s.traits.state:
        return BLOCKS[s.traits.state](s)
    if not s.kinds and s.traits.state:
        raise NotCounted  # the pattern of the layers was not understood
    beside = BLOCKS[s.traits.beside](s) if s.traits.beside else 0
    if s.traits.mla:
        return latent(s, index) + beside
    return grouped(_at(s, index), kind) + _block_indexer(s, index) + beside


def _at(s: Shape, index: int) -> Shape:
    """The shape with the KV heads of one layer, where each has its own."""
    listed = heads_of.kv_heads_per_layer(s.text, s.heads)
    return replace(s, kv=listed[index]) if index < len(listed) else s


def grouped(s: Shape, kind: str) -> int:
    """Grouped attention with what the type adds to it."""
    heads, kv, width, v = _widths(s, kind)
    if not heads or not width or not v:
        raise NotCounted
    traits, h = s.traits, s.hidden
    q = heads * width * (2 if s.says(traits.query_gate) else 1)
    total = linear(h, q + kv * (width + v), s.says(traits.qkv_bias))
    total += linear(heads * v, h, s.says(traits.out_bias))
    if traits.qk_norm and s.says(traits.qk_norm_said):
        total += 2 * width if traits.qk_norm == "head" else (heads + kv) * width
    if traits.head_gate:
        total += h * heads
    sinks = traits.window_sinks if kind == "window" and traits.window_sinks else traits.sinks
    return total + (heads if s.says(sinks) else 0)


def _widths(s: Shape, kind: str) -> tuple[int, int, int, int]:
    """Query heads, KV heads, and the widths of their keys and values."""
    text = s.text
    if kind != "window":
        return s.heads, s.kv, s.width, s.v_width
    heads = text.count("swa_num_attention_heads", "attention_other_setting.num_attention_heads")
    kv = text.count(*keys.SLIDING_KV_HEADS)
    width = text.count(*keys.SLIDING_HEAD_DIM)
    v = text.count(*keys.SLIDING_V_HEAD_DIM) or width
    return heads or s.traits.window_heads or s.heads, kv or s.kv, width or s.width, v or s.v_width


def latent(s: Shape, index: int) -> int:
    """Multi-head latent attention, with the indexer where the layer has its own."""
    h, heads = s.hidden, s.heads
    nope, rope = s.count("qk_nope_head_dim"), s.count("qk_rope_head_dim")
    rank, v, low = s.count("kv_lora_rank"), s.count("v_head_dim"), s.text.count("q_lora_rank")
    biased = s.says(s.traits.qkv_bias)
    q = heads * (nope + rope)
    queries = linear(h, low, biased) + low + low * q if low else h * q
    keys_values = linear(h, rank + rope, biased) + rank + rank * heads * (nope + v)
    gate = h * heads * v if s.text.flag("mla_use_output_gate") else 0
    return queries + keys_values + linear(heads * v, h, biased) + gate + _indexer(s, index, low)


def _indexer(s: Shape, index: int, low: int | None) -> int:
    if not s.traits.indexer:
        return 0
    types = s.text.items("indexer_types")
    if index < len(types) and types[index] == "shared":
        return 0
    heads, width = s.count("index_n_heads"), s.count("index_head_dim")
    return sure(low) * heads * width + s.hidden * width + 2 * width + s.hidden * heads


def _block_indexer(s: Shape, index: int) -> int:
    """The small attention that chooses blocks (MiniMax-M3)."""
    if not s.traits.block_indexer:
        return 0
    config = s.text.part("sparse_attention_config")
    if config is None:
        return 0
    sparse = config.items("sparse_attention_freq")
    if index < len(sparse) and sparse[index] != 1:
        return 0
    heads, width = config.count("sparse_num_index_heads"), config.count("sparse_index_dim")
    return s.hidden * sure(heads) * sure(width) + s.hidden * sure(width) + 2 * sure(width)


# ------------------------------------------------------------------------------------------ FFN


def mlp(s: Shape, width: int, biased: bool | None = None, inputs: int | None = None) -> int:
    """A dense FFN."""
    h = inputs or s.hidden
    bias = s.says(s.traits.mlp_bias) if biased is None else biased
    first = linear(h, width, bias) * (2 if s.traits.gated else 1)
    return first + linear(width, h, bias)


def mixture(s: Shape) -> Size:
    """Experts, router and shared experts of one layer."""
    facts, h = s.facts, s.hidden
    experts, chosen = sure(facts.num_experts), sure(facts.experts_per_token)
    inner = s.text.count("moe_latent_size", "routed_expert_hidden_size")
    one = mlp(s, sure(facts.moe_intermediate_size), s.traits.expert_bias, inner)
    always = h * experts
    if s.says(s.traits.router_bias) or s.traits.expert_bias:
        always += experts
    if inner:
        always += 2 * h * inner + (inner if s.text.flag("latent_moe_use_norm") else 0)
    if facts.shared_expert_intermediate_size:
        always += mlp(s, facts.shared_expert_intermediate_size, False)
        always += h if s.traits.shared_gate else 0
    return Size(experts * one, min(experts, chosen) * one) + Size.of(always)


def feed_forward(s: Shape, index: int) -> Size:
    if s.sparse[index]:
        return mixture(s)
    return Size.of(mlp(s, dense_width(s, index)))


def dense_width(s: Shape, index: int) -> int:
    widths = s.text.items(*keys.FFN)
    if index < len(widths) and isinstance(widths[index], int):
        return int(widths[index])
    return sure(s.facts.intermediate_size)


# ---------------------------------------------------------------------------------------- whole


def layer(s: Shape, index: int) -> Size:
    norms = s.traits.norms * s.norm()
    return feed_forward(s, index) + Size.of(attention(s, index) + norms + s.traits.per_layer)


def ends(s: Shape) -> int:
    """What stands before and after the layers."""
    head = 0 if s.tied else s.vocab * s.hidden
    if s.traits.head_bias:
        head += s.vocab
    positions = s.hidden * sure(s.facts.max_position_embeddings) if s.traits.positions else 0
    return s.vocab * s.hidden + head + positions + (s.norm() if s.traits.final_norm else 0)


def decoder(s: Shape) -> Size:
    total = Size.of(ends(s))
    for index in range(s.layers):
        total = total + layer(s, index)
    return total
