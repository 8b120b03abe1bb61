"""Types with a stack of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from shardlint.matrices import Block
from shardlint.models import attention as heads_of
from shardlint.models import keys
from shardlint.models.params.shape import Shape
from shardlint.models.params.state import mamba, mamba2
from shardlint.models.params.text import (
    decoder,
    dense_width,
    embedding,
    ffn,
    first,
    grouped,
    head,
    last,
    latent,
    latent_experts,
    layer,
    mlp,
    per_layer,
    positions,
    projections,
    router,
    stack,
)
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
from shardlint.models.view import View, is_count

# ------------------------------------------------------------------------------------- Gemma


def _per_layer_inputs(s: Shape) -> tuple[Weights, Weights]:
    """Weights of the per-layer embeddings: once, and in each layer."""
    width, h = s.text.count("hidden_size_per_layer_input"), s.hidden
    if not width:
        return [], []
    rows = s.text.count("vocab_size_per_layer_input") or s.vocab
    wide = width * s.layers
    once = [
        *embedding(rows, wide, "embed_tokens_per_layer"),
        *matrix("per_layer_model_projection", wide, h, "dense_ffn", "rows"),
        *vector("per_layer_projection_norm", width),
    ]
    each = [
        *matrix("per_layer_input_gate", width, h, "dense_ffn"),
        *matrix("per_layer_projection", h, width, "dense_ffn"),
        *vector("post_per_layer_input_norm", h),
    ]
    return once, each


def _shared_caches(s: Shape) -> list[bool]:
    """Whether each layer reads the cache of another one."""
    own = s.layers - (s.text.count("num_kv_shared_layers") or 0)
    return [index >= own > 0 for index in range(s.layers)]


def _unused(weights: Weights, names: tuple[str, ...]) -> Weights:
    """Keys and values that the checkpoint has, and that layers which read other caches leave."""
    return [
        replace(weight, where="checkpoint") if weight.name in names else weight
        for weight in weights
    ]


KEYS_AND_VALUES: Final = ("k_proj", "v_proj", "k_norm")


def gemma3n(s: Shape) -> list[Block]:
    h, width = s.hidden, s.width
    once, each = _per_layer_inputs(s)
    inputs, rank = s.text.count("altup_num_inputs") or 4, s.text.count("laurel_rank") or 64
    shared = _shared_caches(s)
    attends = [
        *projections(h, s.heads, s.kv, width, width),
        *matrix("o_proj", h, s.heads * width, "attention", "columns"),
        *vector("q_norm", width),
        *vector("k_norm", width),
    ]
    altup = [
        *matrix("altup.prediction_coefs", inputs * inputs, inputs, "dense_ffn"),
        *matrix("altup.correction_coefs", inputs, inputs, "dense_ffn"),
        *matrix("altup.modality_router", inputs, h, "dense_ffn"),
        *vector("altup.router_norm", h),
        *vector("altup.correct_output_scale", h, element=FLOAT32),
        *matrix("laurel.linear_left", rank, h, "dense_ffn", "rows"),
        *matrix("laurel.linear_right", h, rank, "dense_ffn", "columns"),
        *vector("post_laurel_norm", h),
    ]

    def weights(index: int) -> Weights:
        attention = _unused(attends, KEYS_AND_VALUES) if shared[index] else attends
        dense = mlp(s, dense_width(s, index))
        return [*attention, *dense, *vector("layernorm", h, count=4), *each, *altup]

    layers = layers_of(s.layers, [s.text.items(*keys.FFN), shared], weights)
    joined = matrix("altup_projections", h, h, "dense_ffn", "rows", count=inputs - 1)
    split = matrix("altup_unembed_projections", h, h, "dense_ffn", "rows", count=inputs - 1)
    return stack(first(s) + once + joined, layers, split + last(s))


def gemma4(s: Shape) -> list[Block]:
    once, each = _per_layer_inputs(s)
    shared = _shared_caches(s)
    exceptions = heads_of.exceptions(s.text)

    def weights(index: int) -> Weights:
        attention = _gemma4_attention(s, index, exceptions.get(index))
        if shared[index]:
            attention = _unused(attention, KEYS_AND_VALUES)
        doubled = shared[index] and s.text.flag("use_double_wide_mlp")
        dense = mlp(s, dense_width(s, index) * (2 if doubled else 1))
        norms = vector("layernorm", s.hidden, count=4) + vector("layer_scalar", 1)
        return [*attention, *dense, *norms, *each, *_gemma4_experts(s)]

    own = [repr(exceptions[i].raw) if i in exceptions else None for i in range(s.layers)]
    lists: list[Sequence[object]] = [s.kinds, shared, own, s.text.items(*keys.FFN)]
    return stack(first(s) + once, layers_of(s.layers, lists, weights), last(s))


def _gemma4_attention(s: Shape, index: int, own: View | None) -> Weights:
    """Global layers have heads of their own, and may use their keys as values.

    Layers that read the cache of another one have keys and values in the checkpoint all the same.
    vLLM loads keys that are used as values twice.
    """
    wide, h = bool(s.kinds) and s.kinds[index] == "full", s.hidden
    kv, width = s.kv, s.width
    if wide:
        kv = s.text.count(*keys.GLOBAL_KV_HEADS) or kv
        width = s.text.count(*keys.GLOBAL_HEAD_DIM) or width
    if own is not None:
        kv, width = own.count(*keys.KV_HEADS) or kv, own.count(*keys.HEAD_DIM) or width
    one = bool(wide and s.text.flag("attention_k_eq_v"))
    values = matrix("v_proj", kv * width, h, "attention", "heads", heads=kv)
    return [
        *matrix("q_proj", s.heads * width, h, "attention", "rows"),
        *matrix("k_proj", kv * width, h, "attention", "heads", heads=kv),
        *(only("engine", values) if one else values),
        *matrix("o_proj", h, s.heads * width, "attention", "columns"),
        *vector("q_norm", width),
        *vector("k_norm", width),
    ]


def _gemma4_experts(s: Shape) -> Weights:
    experts, h = s.facts.num_experts, s.hidden
    if not experts:
        return []
    return [
        *mlp(s, sure(s.facts.moe_intermediate_size), part="expert", count=experts),
        *router(s, experts, False),
        *vector("experts_layernorm", h, count=3),
        *vector("router.scale", h),
        *vector("router.per_expert_scale", experts),
    ]


# ------------------------------------------------------------------------------ older decoders


def _old_layer(s: Shape, width: int, norms: int = 2) -> Weights:
    """Attention and a plain FFN with biases everywhere."""
    h, head_width = s.hidden, s.hidden // sure(s.heads or None)
    return [
        *projections(h, s.heads, s.heads, head_width, head_width, True),
        *matrix("o_proj", h, h, "attention", "columns", bias=True),
        *ffn(h, width, ("up_proj",), True),
        *vector("layernorm", h, bias=True, count=norms),
    ]


def _alike(s: Shape, weights: Weights) -> list[Block]:
    return layers_of(s.layers, [], lambda _: weights)


def opt(s: Shape) -> list[Block]:
    h, inner = s.hidden, s.text.count("word_embed_proj_dim") or s.hidden
    before = embedding(s.vocab, inner)
    before += positions(sure(s.facts.max_position_embeddings or 2048) + 2, h)
    behind: Weights = []
    if inner != h:
        before += matrix("project_in", h, inner, "dense_ffn")
        behind += matrix("project_out", inner, h, "dense_ffn")
    if s.text.flag("do_layer_norm_before") is not False:
        behind += vector("norm", h, bias=True)
    behind += [] if s.tied else head(s.vocab, inner)
    layers = _alike(s, _old_layer(s, sure(s.facts.intermediate_size)))
    return stack(before, layers, behind)


def bloom(s: Shape) -> list[Block]:
    h = s.hidden
    before = embedding(s.vocab, h) + vector("embed_layernorm", h, bias=True)
    behind = vector("norm", h, bias=True) + ([] if s.tied else head(s.vocab, h))
    return stack(before, _alike(s, _old_layer(s, 4 * h)), behind)


def falcon(s: Shape) -> list[Block]:
    h, biased = s.hidden, bool(s.text.flag("bias"))
    width = s.text.count(*keys.FFN) or 4 * h
    weights = [
        *projections(h, s.heads, s.kv, s.width, s.width, biased),
        *matrix("o_proj", h, s.heads * s.width, "attention", "columns", bias=biased),
        *ffn(h, width, ("up_proj",), biased),
        *vector("layernorm", h, bias=True, count=_falcon_norms(s.text)),
    ]
    behind = vector("norm", h, bias=True) + ([] if s.tied else head(s.vocab, h))
    return stack(embedding(s.vocab, h), _alike(s, weights), behind)


def _falcon_norms(text: View) -> int:
    if text.flag("new_decoder_architecture"):
        return text.count("num_ln_in_parallel_attn") or 2
    return 1 if text.flag("parallel_attn") is not False else 2


def bitnet(s: Shape) -> list[Block]:
    """A plain decoder with norms before its two output matrices."""
    width = sure(s.facts.intermediate_size)
    extra = vector("attn_sub_norm", s.heads * s.width) + vector("ffn_sub_norm", width)
    return _with_more(decoder(s), lambda _: extra)


def _with_more(blocks: list[Block], more: Callable[[int], Weights]) -> list[Block]:
    """The blocks with further weights in their layers, by the first layer of each block."""
    return [
        replace(block, weights=(*block.weights, *more(block.layers[0]))) if block.layers else block
        for block in blocks
    ]


# -------------------------------------------------------------------- one block for each layer


def nemotron_nas(s: Shape) -> list[Block]:
    """Layers that a search has thinned out, each with its own widths."""
    blocks = s.text.items("block_configs")
    if len(blocks) != s.layers:
        raise NotCounted

    def weights(index: int) -> Weights:
        view = View(blocks[index] if isinstance(blocks[index], dict) else {})
        return _thinned_attention(s, view.part("attention")) + _thinned_ffn(s, view.part("ffn"))

    return stack(first(s), layers_of(s.layers, [blocks], weights), last(s))


def _thinned_attention(s: Shape, block: View | None) -> Weights:
    if block is None or block.flag("no_op"):
        return []
    if block.flag("replace_with_linear"):
        return _one_matrix(s)
    kv, h = s.heads // sure(block.count("n_heads_in_group")), s.hidden
    return [
        *projections(h, s.heads, kv, s.width, s.width),
        *matrix("o_proj", h, s.heads * s.width, "attention", "columns"),
        *vector("layernorm", h),
    ]


def _thinned_ffn(s: Shape, block: View | None) -> Weights:
    if block is None or block.flag("no_op"):
        return []
    if block.flag("replace_with_linear"):
        return _one_matrix(s)
    return mlp(s, heads_of.thinned_width(block, s.hidden)) + vector("layernorm", s.hidden)


def _one_matrix(s: Shape) -> Weights:
    return matrix("linear", s.hidden, s.hidden, "dense_ffn") + vector("layernorm", s.hidden)


def nemotron_h(s: Shape) -> list[Block]:
    letters = nemotron_letters(s.text)
    layers = layers_of(len(letters), [letters], lambda index: nemotron_block(s, letters[index]))
    return stack(first(s), layers, last(s))


WORDS: Final = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}


def nemotron_letters(text: View) -> list[str]:
    return blocks_of(text, "hybrid_override_pattern", "layers_block_type")


def blocks_of(text: View, letters: str, words: str) -> list[str]:
    """One letter for each block."""
    listed = text.items(words)
    found = [WORDS.get(word, "") for word in listed if isinstance(word, str)]
    found = found or list(text.word(letters) or "")
    if not found or any(letter not in WORDS.values() for letter in found):
        raise NotCounted
    return found


def nemotron_block(s: Shape, letter: str) -> Weights:
    norm = vector("norm", s.hidden)
    if letter == "E":
        return _nemotron_experts(s) + norm
    if letter == "-":
        return ffn(s.hidden, sure(s.facts.intermediate_size), ("up_proj",)) + norm
    return (mamba2(s) if letter == "M" else grouped(s, "full")) + norm


def _nemotron_experts(s: Shape) -> Weights:
    """Experts without a gate, in some models on a width of their own."""
    facts, h = s.facts, s.hidden
    experts, shared = sure(facts.num_experts), facts.shared_expert_intermediate_size
    inner, width = s.text.count("moe_latent_size"), sure(facts.moe_intermediate_size)
    weights = ffn(inner or h, width, ("up_proj",), part="expert", count=experts)
    weights += router(s, experts, True)
    weights += latent_experts(h, inner) if inner else []
    return weights + (ffn(h, shared, ("up_proj",), part="shared_expert") if shared else [])


def mamba_only(s: Shape) -> list[Block]:
    return stack(first(s), _alike(s, mamba(s) + vector("norm", s.hidden)), last(s))


def mamba2_only(s: Shape) -> list[Block]:
    return stack(first(s), _alike(s, mamba2(s) + vector("norm", s.hidden)), last(s))


# --------------------------------------------------------------------------- decoders of today


def mllama(s: Shape) -> list[Block]:
    """Cross-attention layers have head norms and two gates; eight more rows are embedded."""
    listed = s.text.items("cross_attention_layers")
    crossed = [index in listed for index in range(s.layers)]

    def weights(index: int) -> Weights:
        more = vector("qk_norm", s.width, count=2) + vector("gates", 2)
        return layer(s, index) + (more if crossed[index] else [])

    layers = layers_of(s.layers, [*per_layer(s), crossed], weights)
    before = embedding(s.vocab + 8, s.hidden)
    return stack(before, layers, last(s))


def longcat(s: Shape) -> list[Block]:
    """Two attentions and two dense FFNs in each layer, and experts of which some do nothing."""
    experts = sure(s.facts.num_experts)
    rows = experts + (s.text.count("zero_expert_num") or 0)
    width = sure(s.text.count("ffn_hidden_size", "intermediate_size"))
    routed = matrix("router", rows, s.hidden, "router", element=FLOAT32,
                    bias=bool(s.text.flag("router_bias")))  # fmt: skip
    weights = [
        *_twice(latent(s, 0) + mlp(s, width)),
        *vector("layernorm", s.hidden, count=4),
        *mlp(s, sure(s.facts.moe_intermediate_size), part="expert", count=experts),
        *routed,
        *vector("correction_bias", rows, element=FLOAT32),
    ]
    return stack(first(s), _alike(s, weights), last(s))


def _twice(weights: Weights) -> Weights:
    return [replace(weight, count=2 * weight.count) for weight in weights]


# ---------------------------------------------------------------------------------- DeepSeek-V4


def deepseek_v4(s: Shape) -> list[Block]:
    ratios = s.text.items("compress_ratios")
    hashed = [index < (s.text.count("num_hash_layers") or 0) for index in range(s.layers)]
    lists = [ratios, hashed]
    layers = layers_of(s.layers, lists, lambda index: deepseek_v4_layer(s, index))
    return stack(first(s), layers, joined_streams(s) + last(s))


def joined_streams(s: Shape) -> Weights:
    """What makes one stream of the residual streams."""
    streams = s.count("hc_mult")
    return _wide("hc_head_fn", streams, streams * s.hidden) + vector(
        "hc_head_base_scale", streams + 1, element=FLOAT32
    )


def _wide(name: str, outputs: int, inputs: int, count: int = 1) -> Weights:
    """A matrix that the class keeps in float32."""
    return matrix(name, outputs, inputs, "norm", count=count, element=FLOAT32)


def deepseek_v4_layer(s: Shape, index: int) -> Weights:
    h, streams = s.hidden, s.count("hc_mult")
    rows = 2 * streams + streams * streams
    return [
        *_compressed(s, index),
        *vector("layernorm", h, count=2),
        *_wide("hc_fn", rows, streams * h, count=2),
        *vector("hc_base_scale", rows + 3, count=2, element=FLOAT32),
        *_routed(s, index),
    ]


def _compressed(s: Shape, index: int) -> Weights:
    """Attention over a window and over what earlier tokens were pressed into."""
    h, d, low = s.hidden, s.width, s.count("q_lora_rank")
    out, groups = s.count("o_lora_rank"), s.count("o_groups")
    weights = [
        *matrix("wq_a", low, h, "attention"),
        *vector("q_norm", low),
        *matrix("wq_b", s.heads * d, low, "attention", "rows"),
        *matrix("wkv", d, h, "attention"),
        *vector("kv_norm", d),
        *matrix("wo_a", groups * out, s.heads * d // groups, "attention", "rows"),
        *matrix("wo_b", h, groups * out, "attention", "columns"),
        *vector("attn_sink", s.heads, "rows", element=FLOAT32),
    ]
    ratios = s.text.items("compress_ratios")
    ratio = ratios[index] if index < len(ratios) else 0
    if not is_count(ratio):
        return weights
    if ratio > 4:
        return weights + _compressor("compressor", h, d, ratio)
    width, heads = s.count("index_head_dim"), s.count("index_n_heads")
    return [
        *weights,
        *_compressor("compressor", h, d, ratio, 2),
        *_compressor("indexer.compressor", h, width, ratio, 2),
        *matrix("indexer.wq_b", heads * width, low, "indexer"),
        *matrix("indexer.weights_proj", heads, h, "norm"),
    ]


def _compressor(name: str, h: int, width: int, ratio: int, overlap: int = 1) -> Weights:
    """Keys and gates, never quantized; a place for each token that is pressed into one."""
    return [
        *matrix(f"{name}.wkv_wgate", overlap * width, h, "norm", count=2),
        *_wide(f"{name}.ape", overlap * width, ratio),
        *vector(f"{name}.norm", width),
    ]


def _routed(s: Shape, index: int) -> Weights:
    """The first layers look the experts of a token up in a table of int32."""
    facts = s.facts
    experts, chosen = sure(facts.num_experts), sure(facts.experts_per_token)
    hashed = index < (s.text.count("num_hash_layers") or 0)
    table = matrix("tid2eid", s.vocab, chosen, "norm", element=4) if hashed else []
    shared = sure(facts.shared_expert_intermediate_size)
    return [
        *mlp(s, sure(facts.moe_intermediate_size), part="expert", count=experts),
        *router(s, experts, not hashed),
        *table,
        *mlp(s, shared, part="shared_expert"),
    ]


# ------------------------------------------------------------------------------------- encoders


def bert(s: Shape) -> list[Block]:
    """The pooler and its bias are for classification: a server of embeddings leaves them."""
    h, types = s.hidden, s.text.count("type_vocab_size") or 2
    before = [
        *embedding(s.vocab, h, "word_embeddings"),
        *positions(sure(s.facts.max_position_embeddings), h, "vocabulary"),
        *embedding(types, h, "token_type_embeddings"),
        *vector("layernorm", h, bias=True),
    ]
    pooler = matrix("pooler", h, h, "norm", bias=True)
    layers = _alike(s, _old_layer(s, sure(s.facts.intermediate_size)))
    return stack(before, layers, only("checkpoint", pooler))


def whisper(s: Shape) -> list[Block]:
    """The encoder stands before the layers of the decoder."""
    text, h = s.text, s.hidden
    encoder = whisper_encoder(text, h, s.count("encoder_layers"), s.count("encoder_ffn_dim"))
    tables = [
        *matrix("embed_tokens", s.vocab, h, "embedding"),
        *positions(text.count("max_target_positions") or 448, h),
    ]
    weights = [
        *_whisper_attention(h, count=2),
        *ffn(h, s.count("decoder_ffn_dim"), ("fc1",), True),
        *vector("layernorm", h, bias=True, count=3),
    ]
    layers = layers_of(s.count("decoder_layers"), [], lambda _: weights)
    behind = vector("norm", h, bias=True) + ([] if s.tied else head(s.vocab, h))
    return stack(encoder + tables, layers, behind)


def _whisper_attention(h: int, part: str = "attention", count: int = 1) -> Weights:
    """The keys have no bias; vLLM keeps one of zeros."""
    return [
        *matrix("qv_proj", h, h, part, "rows", bias=True, count=2 * count),
        *matrix("k_proj", h, h, part, "rows", count=count),
        *only("engine", vector("k_proj.bias", h, "rows", count=count)),
        *matrix("out_proj", h, h, part, "columns", bias=True, count=count),
    ]


def whisper_encoder(
    text: View,
    h: int,
    layers: int,
    width: int,
    parts: tuple[str, str] = ("attention", "dense_ffn"),
    element: int = 0,
) -> Weights:
    """`element` is that of the positions."""
    bins = text.count("num_mel_bins") or 80
    dense = [
        *matrix("fc1", width, h, parts[1], "rows", bias=True, count=layers),
        *matrix("fc2", h, width, parts[1], "columns", bias=True, count=layers),
    ]
    return [
        *matrix("conv1", h, 3 * bins, "norm", bias=True),
        *matrix("conv2", h, 3 * h, "norm", bias=True),
        *positions(text.count("max_source_positions") or 1500, h, element=element),
        *_whisper_attention(h, parts[0], layers),
        *dense,
        *vector("layernorm", h, bias=True, count=2 * layers + 1),
    ]


STACKS: Final[dict[str, Callable[[Shape], list[Block]]]] = {
    "gemma3n": gemma3n,
    "gemma4": gemma4,
    "opt": opt,
    "bloom": bloom,
    "falcon": falcon,
    "bitnet": bitnet,
    "nemotron_nas": nemotron_nas,
    "nemotron_h": nemotron_h,
    "mamba": mamba_only,
    "mamba2": mamba2_only,
    "mllama": mllama,
    "longcat": longcat,
    "deepseek_v4": deepseek_v4,
    "bert": bert,
    "whisper": whisper,
}
