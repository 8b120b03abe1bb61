"""A decoder, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.matrices import Block, Split
from shardlint.models import attention as heads_of
from shardlint.models import keys
from shardlint.models.params.shape import Shape
from shardlint.models.params.state import BLOCKS
from shardlint.models.params.weights import (
    FLOAT32,
    NotCounted,
    Weights,
    layers_of,
    matrix,
    only,
    sure,
    vector,
)

# ----------------------------------------------------------------------------------- attention


def attention(s: Shape, index: int) -> Weights:
    """The block of one layer that mixes tokens."""
    kind = s.kinds[index] if s.kinds else "full"
    if kind == "none" and s.traits.state:
        return BLOCKS[s.traits.state](s)
    if not s.kinds and s.traits.state:
        raise NotCounted  # the pattern of the layers was not understood
    beside = BLOCKS[s.traits.beside](s) if s.traits.beside else []
    if s.traits.mla:
        return latent(s, index) + beside
    return grouped(_at(s, index), kind) + _block_indexer(s, index) + beside


def _at(s: Shape, index: int) -> Shape:
    """The shape with the KV heads of one layer, where each has its own."""
    listed = heads_of.kv_heads_per_layer(s.text, s.heads)
    return replace(s, kv=listed[index]) if index < len(listed) else s


def grouped(s: Shape, kind: str) -> Weights:
    """Grouped attention with what the type adds to it."""
    heads, kv, width, v = _widths(s, kind)
    if not heads or not width or not v:
        raise NotCounted
    traits, h = s.traits, s.hidden
    gated = 2 if s.says(traits.query_gate) else 1
    weights = projections(h, heads, kv, width, v, s.says(traits.qkv_bias), gated)
    weights += matrix("o_proj", h, heads * v, "attention", "columns", bias=s.says(traits.out_bias))
    if traits.qk_norm and s.says(traits.qk_norm_said):
        weights += _qk_norm(s, heads, kv, width)
    if traits.head_gate:
        weights += matrix("g_proj", heads, h, "attention", "rows")
    sinks = traits.window_sinks if kind == "window" and traits.window_sinks else traits.sinks
    return weights + (vector("sinks", heads, "rows") if s.says(sinks) else [])


def projections(
    h: int, heads: int, kv: int, width: int, v: int, bias: bool = False, gated: int = 1
) -> Weights:
    """Queries, keys and values; `gated` is 2 where the queries come with a gate as wide."""
    return [
        *matrix("q_proj", gated * heads * width, h, "attention", "rows", bias=bias),
        *matrix("k_proj", kv * width, h, "attention", "heads", bias=bias, heads=kv),
        *matrix("v_proj", kv * v, h, "attention", "heads", bias=bias, heads=kv),
    ]


def _qk_norm(s: Shape, heads: int, kv: int, width: int) -> Weights:
    if s.traits.qk_norm == "head":
        return vector("qk_norm", width, count=2)
    if s.traits.qk_norm == "full":
        return [*vector("q_norm", heads * width), *vector("k_norm", kv * width)]
    return [
        *vector("q_norm", heads * width, "rows"),
        *vector("k_norm", kv * width, "heads", heads=kv),
    ]


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


def latent(s: Shape, index: int) -> Weights:
    """Multi-head latent attention, with the indexer where the layer has its own."""
    h, heads = s.hidden, s.heads
    nope, rope = s.count("qk_nope_head_dim"), s.count("qk_rope_head_dim")
    rank, v, low = s.count("kv_lora_rank"), s.count("v_head_dim"), s.text.count("q_lora_rank")
    biased, q = s.says(s.traits.qkv_bias), heads * (nope + rope)
    weights: Weights = []
    if low:
        weights += matrix("q_a_proj", low, h, "attention", bias=biased)
        weights += vector("q_a_layernorm", low)
        weights += matrix("q_b_proj", q, low, "attention", "rows")
    else:
        weights += matrix("q_proj", q, h, "attention", "rows")
    weights += matrix("kv_a_proj", rank + rope, h, "attention", bias=biased)
    weights += vector("kv_a_layernorm", rank)
    weights += matrix("kv_b_proj", heads * (nope + v), rank, "attention", "rows")
    weights += matrix("o_proj", h, heads * v, "attention", "columns", bias=biased)
    if s.text.flag("mla_use_output_gate"):
        weights += matrix("g_proj", heads * v, h, "attention", "rows")
    return weights + _indexer(s, index, low)


def _indexer(s: Shape, index: int, low: int | None) -> Weights:
    """vLLM 0.33.0 keeps the keys and the weights of the heads as one matrix in 16 bits."""
    if not s.traits.indexer:
        return []
    types = s.text.items("indexer_types")
    if index < len(types) and types[index] == "shared":
        return []
    heads, width = s.count("index_n_heads"), s.count("index_head_dim")
    return [
        *matrix("indexer.wq_b", heads * width, sure(low), "indexer"),
        *matrix("indexer.wk", width, s.hidden, "norm"),
        *matrix("indexer.weights_proj", heads, s.hidden, "norm"),
        *vector("indexer.k_norm", width, bias=True, element=FLOAT32),
    ]


def _block_indexer(s: Shape, index: int) -> Weights:
    """The small attention that chooses blocks (MiniMax-M3): cut as keys and values are."""
    if not s.traits.block_indexer:
        return []
    config = s.text.part("sparse_attention_config")
    if config is None:
        return []
    sparse = config.items("sparse_attention_freq")
    if index < len(sparse) and sparse[index] != 1:
        return []
    heads, width = config.count("sparse_num_index_heads"), config.count("sparse_index_dim")
    q = sure(heads) * sure(width)
    return [
        *matrix("index_q_proj", q, s.hidden, "indexer", "heads", heads=sure(heads)),
        *matrix("index_k_proj", sure(width), s.hidden, "indexer"),
        *vector("index_qk_norm", sure(width), count=2),
    ]


# ------------------------------------------------------------------------------------------ FFN


def mlp(
    s: Shape,
    width: int,
    biased: bool | None = None,
    inputs: int | None = None,
    part: str = "dense_ffn",
    count: int = 1,
) -> Weights:
    """A dense FFN, or `count` alike."""
    bias = s.says(s.traits.mlp_bias) if biased is None else biased
    first = ("gate_proj", "up_proj") if s.traits.gated else ("up_proj",)
    weights = ffn(inputs or s.hidden, width, first, bias, part, count)
    if s.traits.whole_ffn:
        return [replace(weight, split="whole") for weight in weights]
    return weights


def ffn(
    h: int,
    width: int,
    first: tuple[str, ...],
    bias: bool = False,
    part: str = "dense_ffn",
    count: int = 1,
) -> Weights:
    """The matrices named first widen, the last one comes back."""
    weights: Weights = []
    for name in first:
        weights += matrix(name, width, h, part, "rows", bias=bias, count=count)
    return weights + matrix("down_proj", h, width, part, "columns", bias=bias, count=count)


def mixture(s: Shape) -> Weights:
    """Experts, router and shared experts of one layer."""
    facts, h = s.facts, s.hidden
    experts, shared = sure(facts.num_experts), facts.shared_expert_intermediate_size
    inner = s.text.count("moe_latent_size", "routed_expert_hidden_size")
    width, biased = sure(facts.moe_intermediate_size), s.traits.expert_bias
    weights = mlp(s, width, biased, inner, "expert", experts)
    weights += router(s, experts, s.says(s.traits.router_bias))
    if inner:
        weights += latent_experts(h, inner)
        weights += vector("latent_norm", inner) if s.text.flag("latent_moe_use_norm") else []
    if shared:
        weights += mlp(s, shared, False, part="shared_expert")
        gated = s.traits.shared_gate
        weights += matrix("shared_expert_gate", 1, h, "router") if gated else []
    return weights


def router(s: Shape, experts: int, corrected: bool) -> Weights:
    """The router; what corrects its choice is kept in float32."""
    wide = s.traits.router_element or s.text.word("router_dtype") == "fp32"
    element = FLOAT32 if wide else 0
    biased = s.traits.expert_bias
    weights = matrix("router", experts, s.hidden, "router", bias=biased, element=element)
    corrected = corrected and not biased
    return weights + (vector("correction_bias", experts, element=FLOAT32) if corrected else [])


def latent_experts(h: int, inner: int) -> Weights:
    """What leads to the narrow experts and back; copied on every rank."""
    return [
        *matrix("latent_down_proj", inner, h, "dense_ffn"),
        *matrix("latent_up_proj", h, inner, "dense_ffn"),
    ]


def feed_forward(s: Shape, index: int) -> Weights:
    return mixture(s) if s.sparse[index] else mlp(s, dense_width(s, index))


def dense_width(s: Shape, index: int) -> int:
    widths = s.text.items(*keys.FFN)
    if index < len(widths) and isinstance(widths[index], int):
        return int(widths[index])
    return sure(s.facts.intermediate_size)


# ---------------------------------------------------------------------------------------- whole


def layer(s: Shape, index: int) -> Weights:
    traits = s.traits
    weights = attention(s, index) + feed_forward(s, index)
    if traits.norms:
        weights += vector("layernorm", s.hidden, bias=traits.norm_bias, count=traits.norms)
    return weights + (vector("scalars", traits.per_layer) if traits.per_layer else [])


def per_layer(s: Shape) -> list[Sequence[object]]:
    """What `layer` reads layer by layer."""
    chosen = s.text.part("sparse_attention_config") if s.traits.block_indexer else None
    return [
        s.kinds,
        s.sparse,
        s.text.items(*keys.FFN),
        [] if s.traits.mla else heads_of.kv_heads_per_layer(s.text, s.heads),
        s.text.items("indexer_types") if s.traits.indexer else [],
        chosen.items("sparse_attention_freq") if chosen else [],
    ]


def embedding(rows: int, width: int, name: str = "embed_tokens") -> Weights:
    return matrix(name, rows, width, "embedding", "vocabulary")


def head(rows: int, width: int) -> Weights:
    return matrix("lm_head", rows, width, "lm_head", "vocabulary")


def first(s: Shape) -> Weights:
    """What stands before the layers."""
    weights = embedding(s.vocab, s.hidden)
    if s.traits.embedded_twice:
        weights += only("engine", weights)
    if s.traits.positions:
        weights += positions(sure(s.facts.max_position_embeddings), s.hidden)
    return weights


def positions(rows: int, width: int, split: Split = "whole", element: int = 0) -> Weights:
    return matrix("positions", rows, width, "norm", split, element=element)


def last(s: Shape) -> Weights:
    """What stands behind them; a tied head is the embedding."""
    weights = vector("norm", s.hidden, bias=s.traits.norm_bias) if s.traits.final_norm else []
    weights += [] if s.tied else head(s.vocab, s.hidden)
    if s.traits.head_bias:
        weights += only(s.traits.head_bias, vector("lm_head.bias", s.vocab, "vocabulary"))
    return weights


def stack(first: Weights, layers: list[Block], last: Weights) -> list[Block]:
    return [Block("first", tuple(first)), *layers, Block("last", tuple(last))]


def decoder(s: Shape) -> list[Block]:
    layers = layers_of(s.layers, per_layer(s), lambda index: layer(s, index))
    return stack(first(s), layers, last(s))
