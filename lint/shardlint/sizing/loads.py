"""One layout of a model on one card, as numbers for one GPU: bytes, operations, messages.

What a model computes is put together once (`work`), what a layout means for one GPU once for each
(`load`); sizing/throughput.py makes times of it. Here is decided, too, what nothing can be said of,
and what is outside of the plain cases that were measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from shardlint.footprint import Footprint
from shardlint.plan import Device, KvGroup, Layout, ModelFacts, Ranks
from shardlint.record import record
from shardlint.sizing.parameters import table
from shardlint.sizing.storage import Scheme, storage

Grade: TypeAlias = Literal["measured", "weak", "not_modelled"]

UNREAD: Final = frozenset({"embedding", "vision", "draft", "adapters"})
"""Parts of the weights that a decode step does not read."""
UNCOUNTED: Final = frozenset({"embedding", "vision", "norm", "draft"})
"""Parts of the model that cost few operations for each token."""
SLOTS: Final = 1 << 20
"""Requests at the same time where nothing but the cache limits them."""
CARDS_IN_A_NODE: Final = 8
"""PCIe has no link domain of its own: more cards than this are not in one host."""


# --------------------------------------------------------------------------- what a model computes


@record(kw_only=True)
class Work:
    """What one token of a model computes: elements of weights by the bits they are computed in.

    `experts` are those of all experts together. `known`: the fit has seen all of the formats.
    """

    dense: Mapping[int, int]
    experts: Mapping[int, int]
    known: bool


def work(model: ModelFacts) -> Work:
    """The work of a model as it is stored; once for a model, many layouts."""
    stored = storage(model.quantization)
    dense: dict[int, int] = {}
    experts: dict[int, int] = {}
    known, head = True, False
    for block in model.weights:
        if block.place not in ("layers", "last"):
            continue
        for weight in block.weights:
            if weight.inputs == 1 or weight.part in UNCOUNTED:
                continue
            scheme = stored.plain if stored.skips(weight) else stored.scheme(weight)
            bits, seen = _computed_in(scheme)
            known = known and seen
            into = experts if weight.part == "expert" else dense
            elements = weight.outputs * weight.inputs * weight.count * max(1, len(block.layers))
            into[bits] = into.get(bits, 0) + elements
            head = head or weight.part == "lm_head"
    if not head:  # tied: the embedding is the head, too
        dense[16] = dense.get(16, 0) + (model.vocab_size or 0) * (model.hidden_size or 0)
    return Work(dense=dense, experts=experts, known=known)


def _computed_in(scheme: Scheme | None) -> tuple[int, bool]:
    """Bits that a format is multiplied in, and whether the fit has seen it.

    Integers of few bits are unpacked to 16.
    """
    name = "" if scheme is None else scheme.name.upper()
    if name in ("NVFP4", "MXFP4"):
        return 4, True
    if name.startswith(("FP8", "MXFP8")):
        return 8, True
    return 16, name in ("16 BIT", "32 BIT")


# ---------------------------------------------------------------------------- one GPU of a layout


@record(kw_only=True)
class Load:
    """One layout of a model on one card, as numbers for one GPU of its fullest stage.

    Times are seconds, for one token or request: `dense` and `experts` of computation at the card's
    peak, `prefill` of a prompt's token in one group. Bytes: `fixed` are read by each step,
    `routed` by those that reach all experts; `kept` are those of the cache by token, up to a limit.
    """

    engine: str
    link: str
    amd: bool
    gpus: int
    tp: int
    pp: int
    groups: int
    expert_ranks: int
    layers: float
    expert_layers: float
    hidden: int
    chosen: int
    experts_there: int
    bandwidth: float
    link_rate: float
    fixed: int
    routed: int
    kept: tuple[tuple[float, float], ...]
    state: float
    latent: float
    dense: tuple[float, float]
    experts: tuple[float, float]
    prefill_span: tuple[tuple[float, float], ...]
    free: int
    footprint: Footprint
    per_token: float
    slots: int
    grade: Grade
    why: str


@record(kw_only=True)
class NotModelled:
    """Nothing is said of the speed of a layout."""

    why: str


def load(
    model: ModelFacts,
    own: Work,
    ranks: Ranks,
    layout: Layout,
    made: Footprint,
    device: Device,
    engine: str,
    free: int | None = None,
) -> Load | NotModelled:
    """What one GPU of a layout does; `made` is what it holds, `free` what is left for the cache if
    that is doubtful."""
    room = made.kv if free is None else free
    if missing := _missing(model, ranks, layout, made, device):
        return NotModelled(why=missing)
    if room <= 0:
        return NotModelled(why="nothing is left for the KV cache")
    tp, pp = ranks.attention_tp, ranks.pp
    groups = layout.dp * layout.attention_dp
    bandwidth, link_rate = device.mem_gbps or 0.0, device.link_gbps or 0.0
    parts = made.weights.parts
    routed = parts.get("expert", 0)
    fixed = sum(bytes for name, bytes in parts.items() if name not in UNREAD) - routed
    if model.tie_word_embeddings and "lm_head" not in parts:
        fixed += parts.get("embedding", 0)  # the head reads it
    layers = (model.num_layers or 0) / pp
    mixtures = len(model.moe_layers or ()) if model.moe_layers is not None else layers * pp
    dense, experts = _at_peak(own.dense, device), _at_peak(own.experts, device)
    chosen = (model.experts_per_token or 0) / (model.num_experts or 1)
    cards = tp * pp
    kept, per_token = _kept(model, made, tp, pp)
    grade, why = _grade(model, own, ranks, made, device, engine)
    if free is not None and not why:
        grade, why = "weak", "it is doubtful how much the KV cache holds"
    return Load(
        engine=engine,
        link=_link(device),
        amd=device.vendor == "amd",
        gpus=ranks.gpus,
        tp=tp,
        pp=pp,
        groups=groups,
        expert_ranks=ranks.ep,
        layers=layers,
        expert_layers=mixtures / pp if model.moe else 0.0,
        hidden=model.hidden_size or 0,
        chosen=model.experts_per_token or 0,
        experts_there=model.num_experts or 0,
        bandwidth=bandwidth * 1e9,
        link_rate=link_rate * 1e9,
        fixed=fixed,
        routed=routed,
        kept=kept,
        state=2.0 * _state(model) / cards,
        latent=_latent(model) / cards / ((device.bf16_tflops or 0) * 1e12),
        dense=(2 * dense[0] / cards, 2 * dense[1] / cards),
        experts=(
            2 * experts[0] * chosen / (cards * groups),
            2 * experts[1] * chosen / (cards * groups),
        ),
        prefill_span=_spans(model, device),
        free=room,
        footprint=made,
        per_token=per_token,
        slots=made.settings.max_num_seqs or SLOTS,
        grade=grade,
        why=why,
    )


def _missing(
    model: ModelFacts, ranks: Ranks, layout: Layout, made: Footprint, device: Device
) -> str:
    """Why nothing can be said; empty where something can."""
    settings = made.settings
    widest = max(ranks.attention_tp, ranks.moe_tp * ranks.ep if model.moe else 1)
    domain = device.link_domain or 1
    if device.kind not in ("gpu", "gcd") or not device.mem_gbps or not device.bf16_tflops:
        return f"the rates of {device.name} are not known"
    if device.vendor not in ("nvidia", "amd"):
        return f"no card by the maker of {device.name} was measured"
    if settings.pooling:
        return "the model samples no tokens"
    if settings.draft is not None:
        return "speculative decoding is not modelled"
    if layout.dcp > 1 or layout.pcp > 1:
        return "context parallelism is not modelled"
    if settings.enforce_eager:
        return "a start without CUDA graphs is not modelled"
    if made.offloaded:
        return "weights in host memory are not modelled"
    if made.weights.unknown or not model.num_layers or not model.hidden_size:
        return "the shape of the model is not fully known"
    if not model.kv_groups and not model.states:
        return "the layout of the KV cache is not known"
    if model.attention_heads is None or (model.head_dim is None and not model.mla):
        return "the attention of the model is not known"
    if ranks.gpus > 1 and not _link(device):
        return f"the link between cards of {device.name} is not known"
    if widest > (CARDS_IN_A_NODE if _link(device) == "pcie" else domain):
        return f"{widest} ranks exchange activations over more than one link domain"
    return ""


def _link(device: Device) -> str:
    """The kind of link between two cards; empty where there is none that is modelled."""
    kind = "nvlink" if (device.link or "").startswith("nvlink") else device.link
    return kind if kind in ("nvlink", "pcie", "xgmi") and device.link_gbps else ""


def _at_peak(elements: Mapping[int, int], device: Device) -> tuple[float, float]:
    """Seconds for one multiplication each at the card's peak: in FP4, and in other formats."""
    wide = (device.bf16_tflops or 0) * 1e12
    eight = (device.fp8_tflops or 0) * 1e12 or wide
    small = (device.fp4_tflops or 0) * 1e12
    rest = elements.get(16, 0) / wide + elements.get(8, 0) / eight
    four = elements.get(4, 0)
    return (four / small, rest) if small else (0.0, rest + four / wide)


def _kept(
    model: ModelFacts, made: Footprint, tp: int, pp: int
) -> tuple[tuple[tuple[float, float], ...], float]:
    """Bytes of the cache by token, up to how many tokens; and all of one token, where the engine's
    own layout of the cache is not known."""
    sized = [(group.bytes_per_token(tp) / pp, _limit(group)) for group in model.kv_groups]
    whole = sum(bytes for bytes, limit in sized if limit == math.inf)
    eight = (made.settings.kv_cache_dtype or "").startswith("fp8")
    scale = 0.5 if eight else 1.0
    if made.cache is not None and whole:
        scale = made.cache.bytes_per_token / whole
    kept = tuple((bytes * scale, limit) for bytes, limit in sized)
    return kept, sum(bytes for bytes, _ in kept)


def _limit(group: KvGroup) -> float:
    return float(group.window or group.chunk or math.inf)


def _state(model: ModelFacts) -> float:
    """Bytes of recurrent states of one request."""
    total = 0.0
    for item in model.states:
        columns = (item.channels + item.groups * item.group_channels) * item.conv * 2
        total += item.layers * (item.heads * item.state * (item.state_element or 2) + columns)
    return total


def _latent(model: ModelFacts) -> float:
    """Operations of latent attention for each token that is kept: all heads read all of it."""
    if not model.mla:
        return 0.0
    width = 2 * (model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0)
    return 2.0 * (model.attention_heads or 0) * width * (model.num_layers or 0)


def _spans(model: ModelFacts, device: Device) -> tuple[tuple[float, float], ...]:
    """Seconds at the peak by pair of prompt tokens that attention compares, up to how far back."""
    if model.mla:
        keys = (model.qk_nope_head_dim or 0) + (model.qk_rope_head_dim or 0)
        width = (keys + (model.v_head_dim or 0)) / 2
    else:
        width = model.head_dim or 0
    each = 2.0 * (model.attention_heads or 0) * width / ((device.bf16_tflops or 0) * 1e12)
    spans: dict[float, float] = {}
    for group in model.kv_groups:
        limit = _limit(group)
        spans[limit] = spans.get(limit, 0.0) + each * group.layers
    return tuple((seconds, limit) for limit, seconds in spans.items())


# --------------------------------------------------------------------------------- how sure it is


def _grade(
    model: ModelFacts,
    own: Work,
    ranks: Ranks,
    made: Footprint,
    device: Device,
    engine: str,
) -> tuple[Grade, str]:
    """Measured: a plain dense model on one link domain of a card and engine of the fit."""
    seen = table()["seen"]
    plain = all(group.window is None and group.chunk is None for group in model.kv_groups)
    doubts = (
        (model.moe, "mixtures of experts: the order of two layouts is often wrong"),
        (model.mla or bool(model.states) or not plain, "models of this kind were hardly measured"),
        (not own.known, "this way of storing weights was not measured"),
        (ranks.pp > 1, "pipeline stages were hardly measured"),
        (ranks.attention_tp > 1 and _link(device) == "pcie", "ranks over PCIe: few were measured"),
        (device.name not in seen["cards"], f"{device.name} was not measured"),
        (engine not in seen["engines"], "this engine was not measured"),
        (made.settings.max_loras > 0, "adapters were not measured"),
    )
    why = next((text for doubtful, text in doubts if doubtful), "")
    return ("weak", why) if why else ("measured", "")
