"""Blocks that keep a state of fixed size instead of a cache that grows: weights and states.

Element types are those of vllm 0.33.0, model_executor/layers/mamba.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from shardlint.matrices import StateGroup
from shardlint.models import keys
from shardlint.models.params.shape import Shape
from shardlint.models.params.weights import FLOAT32, Weights, matrix, sure, vector
from shardlint.record import record

PART: Final = "linear_attention"


def _in(name: str, outputs: int, inputs: int, bias: bool = False, count: int = 1) -> Weights:
    return matrix(name, outputs, inputs, PART, "rows", bias=bias, count=count)


def _out(h: int, inputs: int, bias: bool = False) -> Weights:
    return matrix("out_proj", h, inputs, PART, "columns", bias=bias)


def _conv(name: str, channels: int, kernel: int, bias: bool = False, element: int = 0) -> Weights:
    return matrix(name, channels, kernel, "norm", "rows", bias=bias, element=element)


# ----------------------------------------------------------------------------- linear attention


@record
class _Delta:
    """Widths of all keys, of all values; heads of the values; of one key and one value."""

    k: int
    v: int
    heads: int
    key: int
    value: int
    conv: int


def _delta(s: Shape) -> _Delta:
    nk, nv = s.count("linear_num_key_heads"), s.count("linear_num_value_heads")
    key, value = s.count("linear_key_head_dim"), s.count("linear_value_head_dim")
    conv = s.text.count("linear_conv_kernel_dim") or 4
    return _Delta(nk * key, nv * value, nv, key, value, conv)


def delta(s: Shape) -> Weights:
    """Gated DeltaNet (Qwen3-Next, Qwen3.5)."""
    d, h = _delta(s), s.hidden
    return [
        *_in("in_proj_qk", d.k, h, count=2),
        *_in("in_proj_vz", d.v, h, count=2),
        *_in("in_proj_ba", d.heads, h, count=2),
        *_conv("conv1d", 2 * d.k + d.v, d.conv),
        *vector("A_log", d.heads, "rows", element=FLOAT32),
        *vector("dt_bias", d.heads, "rows"),
        *vector("norm", d.value),
        *_out(h, d.v),
    ]


def delta_state(s: Shape, layers: int) -> StateGroup:
    d = _delta(s)
    return StateGroup(
        layers=layers, kind="delta", channels=2 * d.k + d.v, conv=d.conv - 1,
        heads=d.heads, state=d.key * d.value, state_element=_state_element(s),
    )  # fmt: skip


def _kda(s: Shape) -> tuple[int, int, int]:
    """Heads, their width, the kernel of the convolutions."""
    heads, width = s.count("linear_attn_config.num_heads"), s.count("linear_attn_config.head_dim")
    return heads, width, s.text.count("linear_attn_config.short_conv_kernel_size") or 4


def kda(s: Shape) -> Weights:
    """Kimi Delta Attention, which checkpoints call by the name of an attention."""
    heads, width, conv = _kda(s)
    q, h = heads * width, s.hidden
    if s.text.flag("linear_attn_config.use_full_rank_gate"):
        gate = _in("g_proj", q, h)
    else:
        gate = [*matrix("g_a_proj", width, h, PART), *_in("g_b_proj", q, width)]
    weights = [
        *_in("qkv_proj", q, h, count=3),
        *_conv("qkv_conv1d", 3 * q, conv, element=FLOAT32),
        *matrix("f_a_proj", width, h, PART),
        *_in("f_b_proj", q, width),
        *vector("dt_bias", q, "rows", element=FLOAT32),
        *vector("A_log", heads, "rows", element=FLOAT32),
        *_in("b_proj", heads, h),
        *vector("o_norm", width),
        *gate,
        *_out(h, q),
    ]
    return [replace(weight, part="attention") if weight.part == PART else weight
            for weight in weights]  # fmt: skip


def kda_state(s: Shape, layers: int) -> StateGroup:
    heads, width, conv = _kda(s)
    return StateGroup(
        layers=layers, kind="kda", channels=3 * heads * width, conv=conv - 1,
        heads=heads, state=width * width, state_element=FLOAT32,
    )  # fmt: skip


def lightning(s: Shape) -> Weights:
    """Linear attention of MiniMax-01."""
    wide, h = s.heads * s.width, s.hidden
    return [
        *_in("qkv_proj", wide, h, count=3),
        *_in("output_gate", wide, h),
        *_out(h, wide),
        *vector("norm", wide, "rows"),
    ]


def lightning_state(s: Shape, layers: int) -> StateGroup:
    return StateGroup(layers=layers, kind="lightning", heads=s.heads, state=s.width * s.width)


def short_conv(s: Shape) -> Weights:
    """The gated convolution of LFM2."""
    h, bias = s.hidden, bool(s.text.flag("conv_bias"))
    return [
        *_in("in_proj", h, h, bias, count=3),
        *_conv("conv", h, s.text.count("conv_L_cache") or 3, bias),
        *_out(h, h, bias),
    ]


def short_conv_state(s: Shape, layers: int) -> StateGroup:
    kernel = s.text.count("conv_L_cache") or 3
    return StateGroup(layers=layers, kind="conv", channels=s.hidden, conv=kernel - 1)


# ----------------------------------------------------------------------------------------- Mamba


def _mamba(s: Shape) -> tuple[int, int, int]:
    """Inner width, state of one channel, kernel of the convolution."""
    text = s.text
    wide = (text.count("mamba_expand", "expand") or 2) * s.hidden
    state = text.count("mamba_d_state", "state_size") or 16
    return wide, state, text.count("mamba_d_conv", "conv_kernel") or 4


def mamba(s: Shape) -> Weights:
    """Mamba-1; Jamba has norms on its three inner projections."""
    text, h = s.text, s.hidden
    wide, state, conv = _mamba(s)
    step = text.count("mamba_dt_rank", "time_step_rank") or -(-h // 16)
    biased = bool(text.flag("mamba_proj_bias", "use_bias"))
    conv_bias = text.flag("mamba_conv_bias", "use_conv_bias") is not False
    weights = [
        *_in("in_proj", wide, h, biased, count=2),
        *_conv("conv1d", wide, conv, conv_bias),
        *matrix("x_proj", step + 2 * state, wide, PART, "columns"),
        *_in("dt_proj", wide, step, True),
        *matrix("A", wide, state, "norm", "rows", element=FLOAT32),
        *vector("D", wide, "rows"),
        *_out(h, wide, biased),
    ]
    if s.model_type == "jamba":
        weights += [*vector("dt_layernorm", step), *vector("bc_layernorm", state, count=2)]
    return weights


def mamba_state(s: Shape, layers: int) -> StateGroup:
    wide, state, conv = _mamba(s)
    return StateGroup(
        layers=layers, kind="mamba", channels=wide, conv=conv - 1, heads=wide, state=state
    )


GATED_NORM: Final = ("granitemoehybrid", "nemotron_h", "mamba2")
"""Types whose Mamba-2 block always ends with a gated norm."""


@record
class _Mamba2:
    heads: int
    width: int
    groups: int
    state: int
    conv: int

    @property
    def inner(self) -> int:
        return self.heads * self.width


def _mamba2(s: Shape) -> _Mamba2:
    text = s.text
    heads = sure(text.count("mamba_n_heads", "mamba_num_heads", "num_heads"))
    return _Mamba2(
        heads,
        text.count("mamba_d_head", "mamba_head_dim") or _head_width(s, heads),
        text.count("mamba_n_groups", "n_groups") or 1,
        sure(text.count("mamba_d_state", "ssm_state_size", "state_size")),
        text.count("mamba_d_conv", "conv_kernel") or 4,
    )


def mamba2(s: Shape) -> Weights:
    text, h, m = s.text, s.hidden, _mamba2(s)
    inner, mixed, groups = m.inner, m.groups * m.state, m.groups
    bias = bool(text.flag("mamba_proj_bias"))
    conv_bias = text.flag("mamba_conv_bias", "use_conv_bias") is not False
    normed = s.model_type in GATED_NORM or text.flag("mamba_rms_norm")
    return [
        *_in("in_proj_zx", inner, h, bias, count=2),
        *matrix("in_proj_bc", mixed, h, PART, "heads", bias=bias, heads=groups, count=2),
        *_in("in_proj_dt", m.heads, h, bias),
        *_conv("conv1d_x", inner, m.conv, conv_bias),
        *matrix("conv1d_bc", mixed, m.conv, "norm", "heads", bias=conv_bias, heads=groups,
                count=2),
        *vector("A", m.heads, "rows", element=FLOAT32),
        *vector("D", m.heads, "rows"),
        *vector("dt_bias", m.heads, "rows"),
        *(vector("norm", inner, "rows") if normed else []),
        *_out(h, inner, bias),
    ]  # fmt: skip


def _head_width(s: Shape, heads: int) -> int:
    inner = s.text.count("mamba_d_ssm") or s.hidden * (s.text.count("mamba_expand") or 2)
    return inner // heads


def mamba2_state(s: Shape, layers: int) -> StateGroup:
    m = _mamba2(s)
    return StateGroup(
        layers=layers, kind="mamba2", channels=m.inner, groups=m.groups,
        group_channels=2 * m.state, conv=m.conv - 1, heads=m.heads, state=m.width * m.state,
        state_element=_state_element(s),
    )  # fmt: skip


# --------------------------------------------------------------------------------------- states

ELEMENTS: Final = {"float32": 4, "float16": 2, "bfloat16": 2}
ELEMENT_KEYS: Final = {"nemotron_h": "mamba_ssm_cache_dtype", "qwen3_5*": "mamba_ssm_dtype"}
"""Types whose config decides the type of the recurrence; float32 where it does not say."""


def _state_element(s: Shape) -> int:
    """vllm 0.33.0, models/config.py; elsewhere the type of the model."""
    key = keys.by_type(s.model_type, ELEMENT_KEYS)
    return ELEMENTS.get(s.text.word(key) or "", FLOAT32) if key else 0


BLOCKS: Final[dict[str, Callable[[Shape], Weights]]] = {
    "delta": delta,
    "kda": kda,
    "lightning": lightning,
    "mamba": mamba,
    "mamba2": mamba2,
    "conv": short_conv,
}
STATES: Final[dict[str, Callable[[Shape, int], StateGroup]]] = {
    "delta": delta_state,
    "kda": kda_state,
    "lightning": lightning_state,
    "mamba": mamba_state,
    "mamba2": mamba2_state,
    "conv": short_conv_state,
}
