"""What stands beside the language model: vision and audio towers with their projectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shardlint.models import keys
from shardlint.models.params.own import whisper_encoder
from shardlint.models.params.size import NotCounted, linear, sure
from shardlint.models.view import View, is_count
from shardlint.plan import ModelFacts


def towers(config: View, outer: View, facts: ModelFacts) -> int | None:
    """All of them; None when one is there that no formula is known for."""
    try:
        return _vision(config, outer, facts) + _audio(config, outer, facts)
    except (NotCounted, ZeroDivisionError):
        return None


def _vision(config: View, outer: View, facts: ModelFacts) -> int:
    model_type = config.word("model_type") or ""
    tower = outer.part(*keys.VISION) or keys.by_type(model_type, NOT_STATED)
    if tower is None and facts.vision_tower is False:
        return 0
    formula = keys.by_type(model_type, VISION)
    if tower is None or formula is None:
        raise NotCounted
    return formula(tower, sure(facts.hidden_size))


def _audio(config: View, outer: View, facts: ModelFacts) -> int:
    tower = outer.part("audio_config")
    if tower is None:
        return 0
    formula = keys.by_type(config.word("model_type") or "", AUDIO)
    if formula is None:
        raise NotCounted
    return formula(tower, sure(facts.hidden_size))


# -------------------------------------------------------------------------------------- shared


def _attention(e: int, bias: bool = True) -> int:
    return 4 * linear(e, e, bias)


def _mlp(e: int, width: int, bias: bool = True) -> int:
    return linear(e, width, bias) + linear(width, e, bias)


def _two_layers(inputs: int, between: int, outputs: int, bias: bool = True) -> int:
    return linear(inputs, between, bias) + linear(between, outputs, bias)


def _patches(v: View) -> int:
    """Colours of the pixels of one patch, in one frame."""
    patch = v.count("patch_size", "spatial_patch_size") or 14
    return 3 * patch * patch


def _positions(v: View) -> int:
    """Patches of one image of the size that the tower was trained on."""
    return (sure(v.count("image_size")) // (v.count("patch_size") or 14)) ** 2


# ------------------------------------------------------------------------------ Qwen and cousins


def qwen2_vl(v: View, hidden: int) -> int:
    e, depth = sure(v.count("embed_dim")), sure(v.count("depth"))
    width = e * (v.count("mlp_ratio") or 4)
    merged = e * (v.count("spatial_merge_size") or 2) ** 2
    frames = v.count("temporal_patch_size") or 2
    each = _attention(e) + _mlp(e, width) + 4 * e
    merger = 2 * e + _two_layers(merged, merged, hidden)
    return _patches(v) * frames * e + depth * each + merger


def qwen2_5_vl(v: View, hidden: int) -> int:
    """RMS norms, a gated FFN; EXAONE-4.5 shares KV heads in it."""
    e, depth, width = (sure(v.count(key)) for key in ("hidden_size", "depth", "intermediate_size"))
    merged = e * (v.count("spatial_merge_size") or 2) ** 2
    frames = v.count("temporal_patch_size") or 2
    heads = sure(v.count("num_heads"))
    kv = v.count("num_key_value_heads") or heads
    attended = linear(e, e + 2 * kv * (e // heads), True) + linear(e, e, True)
    each = attended + 2 * linear(e, width, True) + linear(width, e, True) + 2 * e
    merger = e + _two_layers(merged, merged, v.count("out_hidden_size") or hidden)
    return _patches(v) * frames * e + depth * each + merger


def qwen3_vl(v: View, hidden: int) -> int:
    e, depth, width = (sure(v.count(key)) for key in ("hidden_size", "depth", "intermediate_size"))
    merged = e * (v.count("spatial_merge_size") or 2) ** 2
    out = v.count("out_hidden_size") or hidden
    patches = linear(_patches(v) * (v.count("temporal_patch_size") or 2), e, True)
    positions = sure(v.count("num_position_embeddings")) * e
    each = _attention(e) + _mlp(e, width) + 4 * e
    merger = _two_layers(merged, merged, out)
    levels = len(v.items("deepstack_visual_indexes"))
    return patches + positions + depth * each + merger + 2 * e + levels * (merger + 2 * merged)


def glm4v(v: View, hidden: int) -> int:
    """RMS norms, gated FFNs; the patches are joined by a convolution."""
    e, depth, inner = (sure(v.count(key)) for key in ("hidden_size", "depth", "intermediate_size"))
    out, side = v.count("out_hidden_size") or hidden, v.count("spatial_merge_size") or 2
    frames = v.count("temporal_patch_size") or 2
    each = linear(e, 3 * e, bool(v.flag("attention_bias"))) + e * e + 3 * e * out + 2 * e
    joined = e * out * side**2 + out
    merger = out * out + 2 * out + 3 * out * inner
    embedded = linear(_patches(v) * frames, e, True) + _positions(v) * e
    return embedded + depth * each + 2 * e + joined + merger


# ---------------------------------------------------------------------------- CLIP and cousins


def clip(v: View) -> int:
    """The whole CLIP vision model."""
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    embedded = _patches(v) * e + e + (_positions(v) + 1) * e
    return embedded + 4 * e + layers * (_attention(e) + _mlp(e, width) + 4 * e)


CLIP_L: Final = View(
    {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "intermediate_size": 4096,
        "patch_size": 14,
        "image_size": 336,
    }
)
"""openai/clip-vit-large-patch14-336, which Phi-3-vision names and does not describe."""


def llava(v: View, hidden: int) -> int:
    return clip(v) + _two_layers(sure(v.count("hidden_size")), hidden, hidden)


def phi3_v(v: View, hidden: int) -> int:
    """Four patches are joined; two separators are learned."""
    e = v.count("image_dim_out") or 1024
    return clip(CLIP_L) + _two_layers(4 * e, hidden, hidden) + 2 * 4 * e


def siglip(v: View, hidden: int) -> int:
    """SigLIP with the projector of Gemma 3."""
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    embedded = linear(_patches(v), e, True) + _positions(v) * e
    return embedded + layers * (_attention(e) + _mlp(e, width) + 4 * e) + 2 * e + e * hidden + e


def intern_vit(v: View, hidden: int) -> int:
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    normed = bool(v.flag("qk_normalization"))
    norm = e if v.word("norm_type") == "rms_norm" or normed else 2 * e
    qkv = linear(e, 3 * e, v.flag("qkv_bias") is not False) + linear(e, e, True)
    each = qkv + _mlp(e, width) + 2 * norm + 2 * e + (2 * e if normed else 0)
    embedded = linear(_patches(v), e, True) + e + (_positions(v) + 1) * e
    projector = 8 * e + _two_layers(4 * e, hidden, hidden)
    return embedded + layers * each + projector


def pixtral(v: View, hidden: int) -> int:
    """Pixtral with the projector of Mistral 3."""
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    each = 4 * e * e + 3 * e * width + 2 * e
    merged = 4 * e * e
    projector = e + merged + _two_layers(e, hidden, hidden, False)
    return _patches(v) * e + e + layers * each + projector


def moonvit(v: View, hidden: int) -> int:
    e, layers, width = (
        sure(v.count(key))
        for key in ("vt_hidden_size", "vt_num_hidden_layers", "vt_intermediate_size")
    )
    bias = v.flag("linear_bias") is not False
    attends = v.flag("attn_bias") is not False
    norm = e if v.word("norm_type") == "rmsnorm" else 2 * e
    inner = v.count("qkv_hidden_size") or e
    patches = linear(_patches(v), e, v.flag("patch_embed_proj_bias") is not False)
    grid = sure(v.count("init_pos_emb_height")) * sure(v.count("init_pos_emb_width"))
    each = linear(e, 3 * inner, attends) + linear(inner, e, attends) + _mlp(e, width, bias)
    total = patches + grid * e + layers * (each + 2 * norm) + norm
    merged = 4 * e
    return total + 2 * e + _two_layers(merged, merged, hidden)


def llama4(v: View, hidden: int) -> int:
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    embedded = _patches(v) * e + e + (_positions(v) + 1) * e + 4 * e
    each = _attention(e) + _mlp(e, width) + 4 * e
    inner, out = v.count("projector_input_dim") or 4096, v.count("projector_output_dim") or 4096
    adapter = width * inner + out * out
    return embedded + layers * each + adapter + (v.count("vision_output_dim") or 4096) * hidden


def mllama(v: View, hidden: int) -> int:
    e, local, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    gated, tiles = v.count("num_global_layers") or 8, v.count("max_num_tiles") or 4
    ratios = len(v.items("supported_aspect_ratios")) + 1
    patches = _positions(v) + 1
    embedded = _patches(v) * e + e + 4 * e
    positions = patches * e + 1 + ratios * tiles * patches * e
    tile_tables = 2 * (ratios * tiles * e + 1)
    each = 4 * e * e + _mlp(e, width) + 4 * e
    layers = (local + gated) * each + 2 * gated
    out = v.count("vision_output_dim") or 7680
    return embedded + positions + tile_tables + layers + linear(out, hidden, True)


def gemma4(v: View, hidden: int) -> int:
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    heads, d = sure(v.count("num_attention_heads")), sure(v.count("head_dim"))
    table = 2 * (v.count("position_embedding_size") or 10240) * e
    each = 4 * e * heads * d + 2 * d + 3 * e * width + 4 * e
    standard = 2 * e if v.flag("standardize") else 0
    return _patches(v) * e + table + layers * each + standard + e * hidden


def gemma3n(_v: View, _hidden: int) -> int:
    """MobileNet-V5 and the audio encoder, which all sizes share."""
    return 983_281_504


def gemma4_audio(v: View, hidden: int) -> int:
    """Layers of two FFNs, attention with relative positions, and a convolution."""
    e, layers = v.count("hidden_size") or 1024, v.count("num_hidden_layers") or 12
    head, conv = e // (v.count("num_attention_heads") or 8), v.count("conv_kernel_size") or 5
    each = (16 + 5 + 3) * e * e + head + conv * e + 9 * e
    stated = [n for n in v.items("subsampling_conv_channels") if is_count(n)]
    first, second = (int(n) for n in (stated if len(stated) == 2 else (128, 32)))
    sampled = 9 * first + first + 9 * first * second + second + (first // 4) * second * e
    out = v.count("output_proj_dims") or 1536
    return layers * each + sampled + linear(e, out, True) + out * hidden


def no_more(_v: View, _hidden: int) -> int:
    """The tower is counted with the other one."""
    return 0


def voxtral(v: View, hidden: int) -> int:
    """The encoder of Whisper; four frames are joined."""
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    return whisper_encoder(v, e, layers, width) + _two_layers(width, hidden, hidden, False)


def minimax_m3(v: View, hidden: int) -> int:
    e, layers, width = (
        sure(v.count(key)) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    merge = v.part("img_token_compression_config") or View({})
    frames, side = merge.count("temporal_patch_size") or 2, merge.count("spatial_merge_size") or 2
    each = _attention(e) + _mlp(e, width) + 4 * e
    between = v.count("projection_dim") or hidden
    projector = _two_layers(e, between, hidden) + _two_layers(hidden * side**2, between, hidden)
    return _patches(v) * frames * e + 2 * e + layers * each + projector


NOT_STATED: Final = {
    "gemma3n": View({"hidden_size": 2048}),
    "llama4": View(
        {
            "hidden_size": 1408,
            "num_hidden_layers": 34,
            "intermediate_size": 5632,
            "patch_size": 14,
            "image_size": 336,
        }
    ),
}
"""Towers of types that exist with one tower only, where an abridged config leaves it out."""
VISION: Final[dict[str, Callable[[View, int], int]]] = {
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl*": qwen3_vl,
    "qwen3_5*": qwen3_vl,
    "glm4v*": glm4v,
    "glm46v*": glm4v,
    "exaone4_5": qwen2_5_vl,
    "llava": llava,
    "phi3_v": phi3_v,
    "gemma3": siglip,
    "internvl_chat": intern_vit,
    "mistral3": pixtral,
    "ministral3": pixtral,
    "minimax_m3_vl": minimax_m3,
    "kimi_k25": moonvit,
    "kimi_k3": moonvit,
    "llama4": llama4,
    "mllama": mllama,
    "gemma4": gemma4,
    "gemma3n": gemma3n,
}
AUDIO: Final[dict[str, Callable[[View, int], int]]] = {
    "voxtral": voxtral,
    "gemma3n": no_more,
    "gemma4": gemma4_audio,
}
