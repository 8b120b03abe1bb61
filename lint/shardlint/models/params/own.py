"""Types with a stack of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shardlint.models import attention as heads_of
from shardlint.models import keys
from shardlint.models.params.shape import Shape
from shardlint.models.params.size import NotCounted, Size, linear, sure
from shardlint.models.params.state import mamba, mamba2
from shardlint.models.params.text import (
    decoder,
    dense_width,
    ends,
    grouped,
    latent,
    mlp,
)
from shardlint.models.view import View, is_count

# ------------------------------------------------------------------------------------- Gemma


def _per_layer_inputs(s: Shape) -> tuple[int, int]:
    """Weights of the per-layer embeddings: once, and in each layer."""
    width = s.text.count("hidden_size_per_layer_input")
    if not width:
        return 0, 0
    rows = s.text.count("vocab_size_per_layer_input") or s.vocab
    once = rows * width * s.layers + s.hidden * width * s.layers + width
    return once, 2 * s.hidden * width + s.hidden


def gemma3n(s: Shape) -> Size:
    h, width = s.hidden, s.width
    once, each = _per_layer_inputs(s)
    inputs, rank = s.text.count("altup_num_inputs") or 4, s.text.count("laurel_rank") or 64
    total = ends(s) + once + 2 * (inputs - 1) * h * h
    for index in range(s.layers):
        total += h * width * (2 * s.heads + 2 * s.kv) + 2 * width
        total += mlp(s, dense_width(s, index)) + 4 * h + each
        total += inputs**3 + inputs**2 + inputs * h + 2 * h
        total += 2 * h * rank + h
    return Size.of(total)


def gemma4(s: Shape) -> Size:
    once, each = _per_layer_inputs(s)
    shared = s.text.count("num_kv_shared_layers") or 0
    total = Size.of(ends(s) + once)
    for index in range(s.layers):
        reads_another = index >= s.layers - shared > 0
        attended = _gemma4_attention(s, index)
        doubled = reads_another and s.text.flag("use_double_wide_mlp")
        dense = mlp(s, dense_width(s, index) * (2 if doubled else 1))
        total = total + Size.of(attended + dense + 4 * s.hidden + 1 + each) + _gemma4_experts(s)
    return total


def _gemma4_attention(s: Shape, index: int) -> int:
    """Global layers have heads of their own, and may use their keys as values.

    Layers that read the cache of another one have keys and values in the checkpoint all the same.
    """
    wide = bool(s.kinds) and s.kinds[index] == "full"
    own = heads_of.exceptions(s.text).get(index)
    kv, width = s.kv, s.width
    if wide:
        kv = s.text.count(*keys.GLOBAL_KV_HEADS) or kv
        width = s.text.count(*keys.GLOBAL_HEAD_DIM) or width
    if own is not None:
        kv, width = own.count(*keys.KV_HEADS) or kv, own.count(*keys.HEAD_DIM) or width
    queries = 2 * s.hidden * s.heads * width + width
    one = bool(wide and s.text.flag("attention_k_eq_v"))
    return queries + s.hidden * kv * width * (1 if one else 2) + width


def _gemma4_experts(s: Shape) -> Size:
    experts, h = s.facts.num_experts, s.hidden
    if not experts:
        return Size()
    one = mlp(s, sure(s.facts.moe_intermediate_size))
    chosen = min(experts, sure(s.facts.experts_per_token))
    return Size(experts * one, chosen * one) + Size.of(h * experts + 3 * h + h + experts)


# ------------------------------------------------------------------------------ older decoders


def opt(s: Shape) -> Size:
    h, inner = s.hidden, s.text.count("word_embed_proj_dim") or s.hidden
    projections = 2 * inner * h if inner != h else 0
    last = 2 * h if s.text.flag("do_layer_norm_before") is not False else 0
    positions = (sure(s.facts.max_position_embeddings or 2048) + 2) * h
    each = 4 * linear(h, h, True) + _plain_ffn(h, sure(s.facts.intermediate_size)) + 4 * h
    head = 0 if s.tied else s.vocab * inner
    return Size.of(s.vocab * inner + head + projections + positions + last + s.layers * each)


def bloom(s: Shape) -> Size:
    h = s.hidden
    each = 4 * linear(h, h, True) + _plain_ffn(h, 4 * h) + 4 * h
    head = 0 if s.tied else s.vocab * h
    return Size.of(s.vocab * h + head + 2 * h + 2 * h + s.layers * each)


def _plain_ffn(hidden: int, width: int) -> int:
    return linear(hidden, width, True) + linear(width, hidden, True)


def falcon(s: Shape) -> Size:
    h, biased = s.hidden, bool(s.text.flag("bias"))
    width = s.text.count(*keys.FFN) or 4 * h
    attended = linear(h, (s.heads + 2 * s.kv) * s.width, biased)
    attended += linear(s.heads * s.width, h, biased)
    ffn = linear(h, width, biased) + linear(width, h, biased)
    head = 0 if s.tied else s.vocab * h
    each = attended + ffn + _falcon_norms(s.text) * 2 * h
    return Size.of(s.vocab * h + head + 2 * h + s.layers * each)


def _falcon_norms(text: View) -> int:
    if text.flag("new_decoder_architecture"):
        return text.count("num_ln_in_parallel_attn") or 2
    return 1 if text.flag("parallel_attn") is not False else 2


def bitnet(s: Shape) -> Size:
    """A plain decoder with norms before its two output matrices."""
    extra = s.heads * s.width + sure(s.facts.intermediate_size)
    return decoder(s) + Size.of(s.layers * extra)


# -------------------------------------------------------------------- one block for each layer


def nemotron_nas(s: Shape) -> Size:
    """Layers that a search has thinned out, each with its own widths."""
    blocks = s.text.items("block_configs")
    if len(blocks) != s.layers:
        raise NotCounted
    total = ends(s)
    for block in blocks:
        view = View(block if isinstance(block, dict) else {})
        total += _thinned_attention(s, view.part("attention")) + _thinned_ffn(s, view.part("ffn"))
    return Size.of(total)


def _thinned_attention(s: Shape, block: View | None) -> int:
    if block is None or block.flag("no_op"):
        return 0
    if block.flag("replace_with_linear"):
        return s.hidden * s.hidden + s.hidden
    kv = s.heads // sure(block.count("n_heads_in_group"))
    return 2 * s.hidden * s.width * (s.heads + kv) + s.hidden


def _thinned_ffn(s: Shape, block: View | None) -> int:
    if block is None or block.flag("no_op"):
        return 0
    if block.flag("replace_with_linear"):
        return s.hidden * s.hidden + s.hidden
    return mlp(s, heads_of.thinned_width(block, s.hidden)) + s.hidden


def nemotron_h(s: Shape) -> Size:
    total = Size.of(ends(s))
    for letter in blocks_of(s.text, "hybrid_override_pattern", "layers_block_type"):
        total = total + nemotron_block(s, letter)
    return total


WORDS: Final = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}


def blocks_of(text: View, letters: str, words: str) -> list[str]:
    """One letter for each block."""
    listed = text.items(words)
    found = [WORDS.get(word, "") for word in listed if isinstance(word, str)]
    found = found or list(text.word(letters) or "")
    if not found or any(letter not in WORDS.values() for letter in found):
        raise NotCounted
    return found


def nemotron_block(s: Shape, letter: str) -> Size:
    norm = Size.of(s.hidden)
    if letter == "E":
        return _nemotron_experts(s) + norm
    if letter == "-":
        return Size.of(_ungated(s.hidden, sure(s.facts.intermediate_size))) + norm
    return Size.of(mamba2(s) if letter == "M" else grouped(s, "full")) + norm


def _ungated(hidden: int, width: int) -> int:
    return 2 * hidden * width


def _nemotron_experts(s: Shape) -> Size:
    """Experts without a gate, in some models on a width of their own."""
    facts, h = s.facts, s.hidden
    experts, chosen = sure(facts.num_experts), sure(facts.experts_per_token)
    inner = s.text.count("moe_latent_size")
    one = _ungated(inner or h, sure(facts.moe_intermediate_size))
    always = h * experts + experts + (2 * h * inner if inner else 0)
    always += _ungated(h, facts.shared_expert_intermediate_size or 0)
    return Size(experts * one, min(experts, chosen) * one) + Size.of(always)


def mamba_only(s: Shape) -> Size:
    return Size.of(ends(s) + s.layers * (mamba(s) + s.hidden))


def mamba2_only(s: Shape) -> Size:
    return Size.of(ends(s) + s.layers * (mamba2(s) + s.hidden))


# --------------------------------------------------------------------------- decoders of today


def mllama(s: Shape) -> Size:
    """Cross-attention layers have head norms and two gates; eight more rows are embedded."""
    crossed = set(s.text.items("cross_attention_layers"))
    own = decoder(s)
    extra = 8 * s.hidden + sum(2 * s.width + 2 for index in range(s.layers) if index in crossed)
    return own + Size.of(extra)


def longcat(s: Shape) -> Size:
    """Two attentions and two dense FFNs in each layer, and experts of which some do nothing."""
    facts, h = s.facts, s.hidden
    experts, chosen = sure(facts.num_experts), sure(facts.experts_per_token)
    rows = experts + (s.text.count("zero_expert_num") or 0)
    one = mlp(s, sure(facts.moe_intermediate_size))
    router = h * rows + rows + (rows if s.text.flag("router_bias") else 0)
    width = sure(s.text.count("ffn_hidden_size", "intermediate_size"))
    always = 2 * latent(s, 0) + 2 * mlp(s, width) + 4 * h + router
    layers = Size(experts * one, min(experts, chosen) * one) + Size.of(always)
    total = Size.of(ends(s))
    for _ in range(s.layers):
        total = total + layers
    return total


# ---------------------------------------------------------------------------------- DeepSeek-V4


def deepseek_v4(s: Shape) -> Size:
    streams = s.count("hc_mult")
    total = Size.of(ends(s) + streams * streams * s.hidden + streams + 1)
    for index in range(s.layers):
        total = total + deepseek_v4_layer(s, index)
    return total


def deepseek_v4_layer(s: Shape, index: int) -> Size:
    h, streams = s.hidden, s.count("hc_mult")
    rows = 2 * streams + streams * streams
    mixers = 2 * (rows * streams * h + rows + 3)
    return Size.of(_compressed(s, index) + 2 * h + mixers) + _routed(s, index)


def _compressed(s: Shape, index: int) -> int:
    """Attention over a window and over what earlier tokens were pressed into."""
    h, d, low = s.hidden, s.width, s.count("q_lora_rank")
    out, groups = s.count("o_lora_rank"), s.count("o_groups")
    total = h * low + low + low * s.heads * d + h * d + d
    total += out * s.heads * d + groups * out * h + s.heads
    ratios = s.text.items("compress_ratios")
    ratio = ratios[index] if index < len(ratios) else 0
    if not is_count(ratio):
        return total
    if ratio > 4:
        return total + 2 * h * d + ratio * d + d
    keys_of, heads = s.count("index_head_dim"), s.count("index_n_heads")
    indexer = 4 * h * keys_of + 2 * ratio * keys_of + keys_of
    indexer += low * heads * keys_of + h * heads
    return total + 4 * h * d + 2 * ratio * d + d + indexer


def _routed(s: Shape, index: int) -> Size:
    """The first layers look the experts of a token up in a table."""
    facts, h = s.facts, s.hidden
    experts, chosen = sure(facts.num_experts), sure(facts.experts_per_token)
    one = mlp(s, sure(facts.moe_intermediate_size))
    hashed = index < (s.text.count("num_hash_layers") or 0)
    always = h * experts + (s.vocab * chosen if hashed else experts)
    always += mlp(s, sure(facts.shared_expert_intermediate_size))
    return Size(experts * one, min(experts, chosen) * one) + Size.of(always)


# ------------------------------------------------------------------------------------- encoders


def bert(s: Shape) -> Size:
    h = s.hidden
    positions, types = sure(s.facts.max_position_embeddings), s.text.count("type_vocab_size") or 2
    tables = s.vocab + positions + types
    each = 4 * linear(h, h, True) + _plain_ffn(h, sure(s.facts.intermediate_size)) + 4 * h
    return Size.of(tables * h + 2 * h + s.layers * each + linear(h, h, True))


def whisper(s: Shape) -> Size:
    text, h = s.text, s.hidden
    decoder_layers, width = s.count("decoder_layers"), s.count("decoder_ffn_dim")
    layers = decoder_layers * (2 * _whisper_attention(h) + _plain_ffn(h, width) + 6 * h)
    tables = s.vocab * h + (text.count("max_target_positions") or 448) * h
    encoder = whisper_encoder(text, h, s.count("encoder_layers"), s.count("encoder_ffn_dim"))
    return Size.of(encoder + layers + tables + 2 * h + (0 if s.tied else s.vocab * h))


def _whisper_attention(h: int) -> int:
    """The keys have no bias."""
    return 4 * h * h + 3 * h


def whisper_encoder(text: View, h: int, layers: int, width: int) -> int:
    bins = text.count("num_mel_bins") or 80
    convolutions = bins * h * 3 + h + h * h * 3 + h
    positions = (text.count("max_source_positions") or 1500) * h
    each = _whisper_attention(h) + _plain_ffn(h, width) + 4 * h
    return convolutions + positions + layers * each + 2 * h


STACKS: Final[dict[str, Callable[[Shape], Size]]] = {
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
