"""Blocks that keep a state of fixed size instead of a cache that grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shardlint.models.params.shape import Shape
from shardlint.models.params.size import linear, sure


def delta(s: Shape) -> int:
    """Gated DeltaNet (Qwen3-Next, Qwen3.5)."""
    nk, nv = s.count("linear_num_key_heads"), s.count("linear_num_value_heads")
    dk, dv = s.count("linear_key_head_dim"), s.count("linear_value_head_dim")
    k, v, conv = nk * dk, nv * dv, s.text.count("linear_conv_kernel_dim") or 4
    projections = s.hidden * (2 * k + 2 * v) + 2 * s.hidden * nv + v * s.hidden
    return projections + (2 * k + v) * conv + 2 * nv + dv


def kda(s: Shape) -> int:
    """Kimi Delta Attention."""
    heads, width = s.count("linear_attn_config.num_heads"), s.count("linear_attn_config.head_dim")
    conv = s.text.count("linear_attn_config.short_conv_kernel_size") or 4
    q, h = heads * width, s.hidden
    full_rank = s.text.flag("linear_attn_config.use_full_rank_gate")
    gate = h * q if full_rank else h * width + width * q
    return 4 * h * q + 3 * q * conv + h * width + width * q + q + heads + h * heads + width + gate


def lightning(s: Shape) -> int:
    """Linear attention of MiniMax-01."""
    wide, h = s.heads * s.width, s.hidden
    return h * 3 * wide + h * wide + wide * h + wide


def short_conv(s: Shape) -> int:
    """The gated convolution of LFM2."""
    conv, h = s.text.count("conv_L_cache") or 3, s.hidden
    bias = bool(s.text.flag("conv_bias"))
    return linear(h, 3 * h, bias) + linear(h, h, bias) + h * conv + (h if bias else 0)


def mamba(s: Shape) -> int:
    """Mamba-1; Jamba has norms on its three inner projections."""
    text, h = s.text, s.hidden
    inner = text.count("mamba_expand", "expand")
    wide = (inner or 2) * h
    state = text.count("mamba_d_state", "state_size") or 16
    conv = text.count("mamba_d_conv", "conv_kernel") or 4
    step = text.count("mamba_dt_rank", "time_step_rank") or -(-h // 16)
    biased = bool(text.flag("mamba_proj_bias", "use_bias"))
    conv_bias = text.flag("mamba_conv_bias", "use_conv_bias") is not False
    norms = step + 2 * state if s.model_type == "jamba" else 0
    return (
        linear(h, 2 * wide, biased) + wide * conv + (wide if conv_bias else 0)
        + wide * (step + 2 * state) + linear(step, wide, True) + wide * state + wide
        + linear(wide, h, biased) + norms
    )  # fmt: skip


GATED_NORM: Final = ("granitemoehybrid", "nemotron_h", "mamba2")
"""Types whose Mamba-2 block always ends with a gated norm."""


def mamba2(s: Shape) -> int:
    text, h = s.text, s.hidden
    heads = text.count("mamba_n_heads", "mamba_num_heads", "num_heads")
    width = text.count("mamba_d_head", "mamba_head_dim") or _head_width(s, heads)
    groups = text.count("mamba_n_groups", "n_groups") or 1
    state = sure(text.count("mamba_d_state", "ssm_state_size", "state_size"))
    conv = text.count("mamba_d_conv", "conv_kernel") or 4
    inner = sure(heads) * width
    mixed = inner + 2 * groups * state
    bias = bool(text.flag("mamba_proj_bias"))
    conv_bias = text.flag("mamba_conv_bias", "use_conv_bias") is not False
    norm = inner if s.model_type in GATED_NORM or text.flag("mamba_rms_norm") else 0
    return (
        linear(h, inner + mixed + sure(heads), bias) + mixed * conv + (mixed if conv_bias else 0)
        + 3 * sure(heads) + norm + linear(inner, h, bias)
    )  # fmt: skip


def _head_width(s: Shape, heads: int | None) -> int:
    inner = s.text.count("mamba_d_ssm") or s.hidden * (s.text.count("mamba_expand") or 2)
    return inner // sure(heads)


BLOCKS: Final[dict[str, Callable[[Shape], int]]] = {
    "delta": delta,
    "kda": kda,
    "lightning": lightning,
    "mamba": mamba,
    "mamba2": mamba2,
    "conv": short_conv,
}
