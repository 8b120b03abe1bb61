"""What stands beside the language model: vision and audio towers with their projectors.

Matrices are cut as vllm 0.33.0 cuts them, unless it is asked to keep towers whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shardlint.matrices import Block
from shardlint.models import keys
from shardlint.models.params.own import whisper_encoder
from shardlint.models.params.weights import FLOAT32, NotCounted, Weights, matrix, only, sure, vector
from shardlint.models.view import View, is_count
from shardlint.plan import ModelFacts

PART: Final = "vision"


def towers(config: View, outer: View, facts: ModelFacts) -> list[Block] | None:
    """All of them; None when one is there that no formula is known for."""
    try:
        found = [_vision(config, outer, facts), _audio(config, outer, facts)]
    except (NotCounted, ZeroDivisionError):
        return None
    return [Block("tower", tuple(weights)) for weights in found if weights]


def _vision(config: View, outer: View, facts: ModelFacts) -> Weights:
    model_type = config.word("model_type") or ""
    tower = outer.part(*keys.VISION) or keys.by_type(model_type, NOT_STATED)
    if tower is None and facts.vision_tower is False:
        return []
    formula = keys.by_type(model_type, VISION)
    if tower is None or formula is None:
        raise NotCounted
    return formula(tower, sure(facts.hidden_size))


def _audio(config: View, outer: View, facts: ModelFacts) -> Weights:
    tower = outer.part("audio_config")
    if tower is None:
        return []
    formula = keys.by_type(config.word("model_type") or "", AUDIO)
    if formula is None:
        raise NotCounted
    return formula(tower, sure(facts.hidden_size))


# -------------------------------------------------------------------------------------- shared


def _cut(name: str, outputs: int, inputs: int, bias: bool = True, count: int = 1) -> Weights:
    return matrix(name, outputs, inputs, PART, "rows", bias=bias, count=count)


def _back(name: str, outputs: int, inputs: int, bias: bool = True, count: int = 1) -> Weights:
    return matrix(name, outputs, inputs, PART, "columns", bias=bias, count=count)


def _whole(name: str, outputs: int, inputs: int, bias: bool = True, count: int = 1) -> Weights:
    return matrix(name, outputs, inputs, PART, bias=bias, count=count)


def _attention(e: int, layers: int, bias: bool = True) -> Weights:
    return _cut("qkv", e, e, bias, 3 * layers) + _back("proj", e, e, bias, layers)


def _mlp(e: int, width: int, layers: int, bias: bool = True) -> Weights:
    return _cut("fc1", width, e, bias, layers) + _back("fc2", e, width, bias, layers)


def _gated_mlp(e: int, width: int, layers: int = 1, bias: bool = False) -> Weights:
    gate = _cut("gate_up_proj", width, e, bias, 2 * layers)
    return gate + _back("down_proj", e, width, bias, layers)


def _norms(e: int, count: int, bias: bool = True) -> Weights:
    return vector("layernorm", e, bias=bias, count=count)


def _two_layers(inputs: int, between: int, outputs: int, bias: bool = True) -> Weights:
    first = _cut("linear_1", between, inputs, bias)
    return first + _back("linear_2", outputs, between, bias)


def _two_copied(inputs: int, between: int, outputs: int, bias: bool = True) -> Weights:
    first = _whole("linear_1", between, inputs, bias)
    return first + _whole("linear_2", outputs, between, bias)


def _embedded(v: View, e: int, bias: bool = False, frames: int = 1) -> Weights:
    """Colours of the pixels of one patch, in so many frames."""
    patch = v.count("patch_size", "spatial_patch_size") or 14
    return matrix("patch_embed", e, 3 * patch * patch * frames, "norm", bias=bias)


def _table(rows: int, e: int) -> Weights:
    return matrix("positions", rows, e, "norm")


def _positions(v: View) -> int:
    """Patches of one image of the size that the tower was trained on."""
    return (sure(v.count("image_size")) // (v.count("patch_size") or 14)) ** 2


def _sizes(v: View, *names: str) -> tuple[int, int, int]:
    """Width, layers and width of the FFN."""
    width, layers, inner = (sure(v.count(name)) for name in names or SIZES)
    return width, layers, inner


SIZES: Final = ("hidden_size", "num_hidden_layers", "intermediate_size")
DEPTH: Final = ("hidden_size", "depth", "intermediate_size")


# ------------------------------------------------------------------------------ Qwen and cousins


def qwen2_vl(v: View, hidden: int) -> Weights:
    e, depth = sure(v.count("embed_dim")), sure(v.count("depth"))
    width = e * (v.count("mlp_ratio") or 4)
    merged = e * (v.count("spatial_merge_size") or 2) ** 2
    return [
        *_embedded(v, e, frames=v.count("temporal_patch_size") or 2),
        *_attention(e, depth),
        *_mlp(e, width, depth),
        *_norms(e, 2 * depth + 1),
        *_two_layers(merged, merged, hidden),
    ]


def qwen2_5_vl(v: View, hidden: int) -> Weights:
    """RMS norms, a gated FFN; EXAONE-4.5 shares KV heads in it."""
    e, depth, width = _sizes(v, *DEPTH)
    merged = e * (v.count("spatial_merge_size") or 2) ** 2
    heads = sure(v.count("num_heads"))
    kv = v.count("num_key_value_heads") or heads
    shared = matrix("kv", kv * (e // heads), e, PART, "heads", bias=True, heads=kv,
                    count=2 * depth)  # fmt: skip
    return [
        *_embedded(v, e, frames=v.count("temporal_patch_size") or 2),
        *_cut("q", e, e, True, depth),
        *shared,
        *_back("proj", e, e, True, depth),
        *_gated_mlp(e, width, depth, True),
        *_norms(e, 2 * depth + 1, False),
        *_two_layers(merged, merged, v.count("out_hidden_size") or hidden),
    ]


def qwen3_vl(v: View, hidden: int) -> Weights:
    e, depth, width = _sizes(v, *DEPTH)
    merged = e * (v.count("spatial_merge_size") or 2) ** 2
    out = v.count("out_hidden_size") or hidden
    levels = len(v.items("deepstack_visual_indexes"))
    return [
        *_embedded(v, e, True, v.count("temporal_patch_size") or 2),
        *_table(sure(v.count("num_position_embeddings")), e),
        *_attention(e, depth),
        *_mlp(e, width, depth),
        *_norms(e, 2 * depth + 1),
        *_cut("merger.fc1", merged, merged, True, levels + 1),
        *_back("merger.fc2", out, merged, True, levels + 1),
        *(_norms(merged, levels) if levels else []),
    ]


def glm4v(v: View, hidden: int) -> Weights:
    """RMS norms, gated FFNs; the patches are joined by a convolution."""
    e, depth, inner = _sizes(v, *DEPTH)
    out, side = v.count("out_hidden_size") or hidden, v.count("spatial_merge_size") or 2
    return [
        *_embedded(v, e, True, v.count("temporal_patch_size") or 2),
        *_table(_positions(v), e),
        *_cut("qkv", e, e, bool(v.flag("attention_bias")), 3 * depth),
        *_back("proj", e, e, False, depth),
        *_gated_mlp(e, out, depth),
        *_norms(e, 2 * depth + 2, False),
        *matrix("downsample", out, e * side**2, "norm", bias=True),
        *_cut("merger.proj", out, out, False),
        *_norms(out, 1),
        *_gated_mlp(out, inner),
    ]


# ---------------------------------------------------------------------------- CLIP and cousins


def clip(v: View) -> Weights:
    """The whole CLIP vision model, of which the output of the last layer but one is used."""
    e, layers, width = _sizes(v)
    used = layers - 1
    return [
        *_embedded(v, e),
        *vector("class_embedding", e),
        *_table(_positions(v) + 1, e),
        *_attention(e, used),
        *_mlp(e, width, used),
        *_norms(e, 2 * used + 1),
        *only("checkpoint", [*_attention(e, 1), *_mlp(e, width, 1), *_norms(e, 3)]),
    ]


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


def llava(v: View, hidden: int) -> Weights:
    return clip(v) + _two_layers(sure(v.count("hidden_size")), hidden, hidden)


def phi3_v(v: View, hidden: int) -> Weights:
    """Four patches are joined; two separators are learned."""
    e = v.count("image_dim_out") or 1024
    return clip(CLIP_L) + _two_copied(4 * e, hidden, hidden) + vector("separators", 4 * e, count=2)


def siglip(v: View, hidden: int) -> Weights:
    """SigLIP with the projector of Gemma 3."""
    e, layers, width = _sizes(v)
    return [
        *_embedded(v, e, True),
        *_table(_positions(v), e),
        *_attention(e, layers),
        *_mlp(e, width, layers),
        *_norms(e, 2 * layers + 1),
        *matrix("mm_input_projection", hidden, e, "norm"),
        *_norms(e, 1, False),
    ]


def intern_vit(v: View, hidden: int) -> Weights:
    e, layers, width = _sizes(v)
    normed = bool(v.flag("qk_normalization"))
    plain = v.word("norm_type") == "rms_norm" or normed
    return [
        *_embedded(v, e, True),
        *vector("class_embedding", e),
        *_table(_positions(v) + 1, e),
        *_cut("qkv", e, e, v.flag("qkv_bias") is not False, 3 * layers),
        *_back("proj", e, e, True, layers),
        *_mlp(e, width, layers),
        *_norms(e, 2 * layers, not plain),
        *vector("scales", e, count=2 * layers),
        *(vector("qk_norm", e, count=2 * layers) if normed else []),
        *_norms(4 * e, 1),
        *_two_copied(4 * e, hidden, hidden),
    ]


def pixtral(v: View, hidden: int) -> Weights:
    """Pixtral with the projector of Mistral 3."""
    e, layers, width = _sizes(v)
    return [
        *_embedded(v, e),
        *_attention(e, layers, False),
        *_gated_mlp(e, width, layers),
        *_norms(e, 2 * layers + 2, False),
        *_whole("merging_layer", e, 4 * e, False),
        *_two_layers(e, hidden, hidden, False),
    ]


def moonvit(v: View, hidden: int) -> Weights:
    e, layers, width = _sizes(v, "vt_hidden_size", "vt_num_hidden_layers", "vt_intermediate_size")
    bias = v.flag("linear_bias") is not False
    attends = v.flag("attn_bias") is not False
    plain = v.word("norm_type") == "rmsnorm"
    inner = v.count("qkv_hidden_size") or e
    grid = sure(v.count("init_pos_emb_height")) * sure(v.count("init_pos_emb_width"))
    merged = 4 * e
    return [
        *_embedded(v, e, v.flag("patch_embed_proj_bias") is not False),
        *_table(grid, e),
        *_cut("qkv", inner, e, attends, 3 * layers),
        *_back("proj", e, inner, attends, layers),
        *_mlp(e, width, layers, bias),
        *_norms(e, 2 * layers + 1, not plain),
        *_norms(e, 1),
        *_two_copied(merged, merged, hidden),
    ]


def llama4(v: View, hidden: int) -> Weights:
    e, layers, width = _sizes(v)
    inner, out = v.count("projector_input_dim") or 4096, v.count("projector_output_dim") or 4096
    return [
        *_embedded(v, e),
        *vector("class_embedding", e),
        *_table(_positions(v) + 1, e),
        *_attention(e, layers),
        *_mlp(e, width, layers),
        *_norms(e, 2 * layers + 2),
        *_cut("adapter.fc1", inner, width, False),
        *_back("adapter.fc2", out, out, False),
        *_cut("projector", hidden, v.count("vision_output_dim") or 4096, False),
    ]


def mllama(v: View, hidden: int) -> Weights:
    e, local, width = _sizes(v)
    gated, tiles = v.count("num_global_layers") or 8, v.count("max_num_tiles") or 4
    ratios = len(v.items("supported_aspect_ratios")) + 1
    patches, layers = _positions(v) + 1, local + gated
    return [
        *_embedded(v, e),
        *vector("class_embedding", e),
        *_table(patches, e),
        *_table(ratios, tiles * patches * e),
        *matrix("tile_embeddings", ratios, tiles * e, "norm", count=2),
        *_attention(e, layers, False),
        *_mlp(e, width, layers),
        *_norms(e, 2 * layers + 2),
        *vector("gates", 1, count=2 * gated + 3),
        *_whole("projector", hidden, v.count("vision_output_dim") or 7680),
    ]


def gemma4(v: View, hidden: int) -> Weights:
    """A tower of the framework: whole on every rank."""
    e, layers, width = _sizes(v)
    heads, d = sure(v.count("num_attention_heads")), sure(v.count("head_dim"))
    return [
        *_embedded(v, e),
        *_table(2 * (v.count("position_embedding_size") or 10240), e),
        *_whole("qkv", heads * d, e, False, 3 * layers),
        *_whole("proj", e, heads * d, False, layers),
        *vector("qk_norm", d, count=2 * layers),
        *_whole("gate_up_proj", width, e, False, 2 * layers),
        *_whole("down_proj", e, width, False, layers),
        *_norms(e, 4 * layers, False),
        *(vector("standardize", e, count=2) if v.flag("standardize") else []),
        *_whole("projector", hidden, e, False),
    ]


def gemma3n(_v: View, _hidden: int) -> Weights:
    """MobileNet-V5 and the audio encoder, which all sizes share; of the framework, whole."""
    return vector("towers", 983_281_504)


def gemma4_audio(v: View, hidden: int) -> Weights:
    """Layers of two FFNs, attention with relative positions, and a convolution.

    A tower of the framework: whole on every rank.
    """
    e, layers = v.count("hidden_size") or 1024, v.count("num_hidden_layers") or 12
    head, conv = e // (v.count("num_attention_heads") or 8), v.count("conv_kernel_size") or 5
    stated = [n for n in v.items("subsampling_conv_channels") if is_count(n)]
    first, second = (int(n) for n in (stated if len(stated) == 2 else (128, 32)))
    out = v.count("output_proj_dims") or 1536
    return [
        *_whole("layers", e, e, False, (16 + 5 + 3) * layers),
        *vector("per_dim_scale", head, count=layers),
        *matrix("conv1d", e, conv, "norm", count=layers),
        *_norms(e, 9 * layers, False),
        *matrix("subsample_conv1", first, 9, "norm"),
        *vector("subsample_norm", first),
        *matrix("subsample_conv2", second, 9 * first, "norm"),
        *vector("subsample_norm", second),
        *_whole("subsample_proj", e, (first // 4) * second, False),
        *_whole("output_proj", out, e),
        *_whole("projector", hidden, out, False),
    ]


def no_more(_v: View, _hidden: int) -> Weights:
    """The tower is counted with the other one."""
    return []


def voxtral(v: View, hidden: int) -> Weights:
    """The encoder of Whisper; four frames are joined."""
    e, layers, width = _sizes(v)
    encoder = whisper_encoder(v, e, layers, width, (PART, PART), FLOAT32)
    return encoder + _two_copied(width, hidden, hidden, False)


def minimax_m3(v: View, hidden: int) -> Weights:
    e, layers, width = _sizes(v)
    merge = v.part("img_token_compression_config") or View({})
    frames, side = merge.count("temporal_patch_size") or 2, merge.count("spatial_merge_size") or 2
    between = v.count("projection_dim") or hidden
    return [
        *_embedded(v, e, frames=frames),
        *_attention(e, layers),
        *_mlp(e, width, layers),
        *_norms(e, 2 * layers + 1),
        *_two_layers(e, between, hidden),
        *_two_layers(hidden * side**2, between, hidden),
    ]


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
VISION: Final[dict[str, Callable[[View, int], Weights]]] = {
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
AUDIO: Final[dict[str, Callable[[View, int], Weights]]] = {
    "voxtral": voxtral,
    "gemma3n": no_more,
    "gemma4": gemma4_audio,
}
