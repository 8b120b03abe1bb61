"""How fast a layout serves a workload: one decode step added up from bytes, operations, messages.

A step reads the weights and the KV cache, computes, exchanges activations, and pays a fixed price
for each layer and request; prefill of new requests takes its time from the steps (performance
model, sections 3 to 5). What a layout means for one GPU is put together once (`load`), then each
workload costs microseconds (`throughput`). Parameters have a physical meaning and stand with what
they rest on in data/throughput.json; scripts/fit_throughput.py fits them.

How sure a number is: "measured" inside of what the fit saw of plain models, "weak" where layouts of
its kind were measured and the order of two of them is often wrong, "not_modelled" elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from shardlint.footprint import Footprint
from shardlint.plan import Device, KvGroup, Layout, ModelFacts, Ranks
from shardlint.record import record
from shardlint.sizing.storage import Scheme, storage

Grade: TypeAlias = Literal["measured", "weak", "not_modelled"]
Bound: TypeAlias = Literal[
    "weights", "attention", "compute", "communication", "overhead", "prefill", "kv_cache",
    "max_num_seqs",
]  # fmt: skip

DATA: Final = Path(__file__).parent / "data" / "throughput.json"
UNREAD: Final = frozenset({"embedding", "vision", "draft", "adapters"})
"""Parts of the weights that a decode step does not read."""
UNCOUNTED: Final = frozenset({"embedding", "vision", "norm", "draft"})
"""Parts of the model that cost few operations for each token."""
CERTAIN: Final = 0.999999
"""A share of experts that is as good as all of them."""
SLOTS: Final = 1 << 20
"""Requests at the same time where nothing but the cache limits them."""
CARDS_IN_A_NODE: Final = 8
"""PCIe has no link domain of its own: more cards than this are not in one host."""


# ------------------------------------------------------------------------------------ parameters


@record(kw_only=True)
class Pace:
    """What an engine's software costs against the common value of it."""

    layer: float = 1.0
    request: float = 1.0
    message: float = 1.0


@record(kw_only=True)
class Link:
    """A message takes `latency_us` and goes at `share` of the link's rate."""

    latency_us: float
    share: float


@record(kw_only=True)
class Parameters:
    """The parameters of the model; shares are of the card's peak."""

    weights_rate: float
    experts_rate: float
    cache_rate: float
    decode_rate: float
    prefill_rate: float
    experts_compute: float
    fp4_compute: float
    amd_bandwidth: float
    overlap: float
    layer_us: float
    expert_layer_us: float
    expert_ranks_us: float
    step_ms: float
    request_us: float
    message_growth: float
    all_to_all: float
    skew: float
    imbalance: float
    first_ms: float
    first_prefill: float
    first_steps: float
    first_batch: float
    first_bound: float
    engines: Mapping[str, Pace]
    links: Mapping[str, Link]


COMMON: Final = Pace()


def parameters_of(values: Mapping[str, float]) -> Parameters:
    """Parameters from flat names: "layer_us", "engine.NAME.layer", "link.KIND.share"."""
    plain: dict[str, float] = {}
    groups: dict[str, dict[str, dict[str, float]]] = {"engine": {}, "link": {}}
    for name, value in values.items():
        match name.split("."):
            case [group, of, what]:
                groups[group].setdefault(of, {})[what] = value
            case _:
                plain[name] = value
    engines = {name: Pace(**own) for name, own in groups["engine"].items()}
    links = {kind: Link(**own) for kind, own in groups["link"].items()}
    return Parameters(engines=engines, links=links, **plain)


@cache
def table() -> Mapping[str, Any]:
    """The file of parameters, with what they rest on."""
    loaded: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


@cache
def parameters() -> Parameters:
    found = table()["parameters"]
    return parameters_of({name: item["value"] for name, item in found.items()})


# --------------------------------------------------------------------------- what a model computes


@record(kw_only=True)
class Work:
    """What one token of a model computes: elements of weights by the bits they are computed in.

    `experts` are those of all experts together. `known`: all formats are ones that the fit has seen.
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


@record
class Workload:
    """Requests of `isl` tokens that get `osl`; `concurrency` of them at the same time in one
    replica, None: as many as fit."""

    isl: int
    osl: int
    concurrency: int | None = None


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
    kind = device.link or ""
    if kind.startswith("nvlink"):
        return "nvlink"
    return kind if kind in ("pcie", "xgmi") and device.link_gbps else ""


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


def _within(given: Workload, batch: float, of: Load) -> str:
    """What of a workload lies outside of what was measured."""
    seen = table()["seen"]
    for name, value in (("isl", given.isl), ("osl", given.osl)):
        low, high = seen[name]
        if not low <= value <= high:
            return f"{name} {value:,} is outside of what was measured ({low:,} to {high:,})"
    low, high = seen["batch_per_gpu"]
    if not low <= batch / of.gpus <= high:
        return f"{batch / of.gpus:,.1f} requests a GPU are outside of what was measured"
    return ""


# ------------------------------------------------------------------------------------ the answer


@record(kw_only=True)
class Throughput:
    """One replica under one workload.

    `batch` requests run at the same time. `tpot_ms` is the time between two tokens of one request,
    with what prefill of others takes of it. `ttft_ms` is a bound: nine of ten measured were below.
    `parts` are the seconds of one request by what they go to.
    """

    batch: float
    tpot_ms: float
    ttft_ms: float
    tok_s: float
    tok_s_per_gpu: float
    bound_by: Bound
    grade: Grade
    why: str
    parts: Mapping[str, float]

    @property
    def range(self) -> tuple[float, float]:
        """Tokens a second that nine of ten measured replicas with such an estimate had."""
        low, high = table()["error"][self.grade]["range"]
        return self.tok_s * low, self.tok_s * high


def throughput(
    of: Load, given: Workload, values: Parameters | None = None
) -> Throughput | NotModelled:
    """The speed of one replica."""
    if given.osl < 1 or given.isl < 1:
        return NotModelled(why="requests have an input and an output")
    values = values or parameters()
    held = requests(of, given.isl + given.osl)
    if held < of.groups:
        return NotModelled(why="the KV cache does not hold one such request")
    room = min(held, of.slots * of.groups)
    batch = float(room if given.concurrency is None else min(given.concurrency, room))
    step, first, parts = seconds(of, batch, given.isl, given.osl, values)
    osl, pp = given.osl, of.pp
    total = osl * step * pp + batch * first
    waves = 0.0 if given.concurrency is None else max(0.0, given.concurrency / batch - 1)
    ttft = _first(of, batch, first, step, values) + waves * total
    parts = {name: value * osl * pp for name, value in parts.items()}
    parts["prefill"] = batch * first
    doubt = of.why or _within(given, batch, of)
    tok_s = batch * osl / total
    return Throughput(
        batch=batch,
        tpot_ms=1e3 * total / osl,
        ttft_ms=1e3 * ttft,
        tok_s=tok_s,
        tok_s_per_gpu=tok_s / of.gpus,
        bound_by=_bound(given.concurrency, batch, held, parts),
        grade="weak" if doubt else of.grade,
        why=doubt,
        parts=parts,
    )


def requests(of: Load, tokens: int) -> int:
    """Requests of so many tokens that one replica holds at the same time."""
    kept = of.footprint.cache
    if kept is not None:
        blocks = max(1, kept.blocks(tokens))
        return kept.pool(of.free) // blocks * of.groups
    return int(of.free / max(1.0, of.per_token * tokens)) * of.groups


def _first(of: Load, batch: float, prefill: float, step: float, values: Parameters) -> float:
    """Seconds to the first token that nine of ten requests do not exceed."""
    alone = prefill * of.pp * of.groups
    usual = (
        values.first_ms * 1e-3
        + values.first_prefill * alone
        + values.first_steps * step
        + values.first_batch * batch * alone
    )
    return usual * values.first_bound


def _bound(
    asked: int | None, batch: float, held: int, parts: Mapping[str, float]
) -> Bound:
    """What holds a replica back: too little room for what is asked, else what takes most time."""
    if asked is not None and batch < asked:
        return "kv_cache" if held <= batch else "max_num_seqs"
    found: Bound = max(parts, key=lambda name: parts[name])  # type: ignore[assignment]
    return found


def seconds(
    of: Load, batch: float, isl: int, osl: int, values: Parameters
) -> tuple[float, float, dict[str, float]]:
    """Of one decode step, of the prefill of one request, and the parts of the step."""
    pace = values.engines.get(of.engine, COMMON)
    tp, groups = of.tp, of.groups
    rows = max(1.0, batch / of.pp)  # in one micro-batch
    own = max(1.0, rows / groups)
    bandwidth = of.bandwidth * (values.amd_bandwidth if of.amd else 1.0)

    weights = of.fixed / (bandwidth * values.weights_rate)
    four, rest = of.dense
    compute = own * (four / values.fp4_compute + rest) / values.decode_rate
    dense_token = four / values.fp4_compute + rest
    expert_token = 0.0
    if of.experts_there:
        four, rest = of.experts
        expert_token = (four / values.fp4_compute + rest) / values.experts_compute
        compute += rows * expert_token / values.decode_rate
        weights += of.routed * _reached(of, rows, values) / (bandwidth * values.experts_rate)
    overlap = values.overlap
    multiply = (weights**overlap + compute**overlap) ** (1 / overlap)

    context = isl + osl / 2
    read = of.state
    for bytes, limit in of.kept:
        read += bytes * min(context, limit)
    attention = max(read / bandwidth, context * of.latent) * own / values.cache_rate

    message = own * of.hidden * 2
    share, latency = 1.0, 0.0
    exchange = spread = 0.0
    if of.gpus > 1:
        link = values.links[of.link]
        share, latency = of.link_rate * link.share, link.latency_us * 1e-6 * pace.message
    if tp > 1:
        latency_now = latency * (1 + values.message_growth * (math.log2(tp) - 1))
        ring = 2 * (tp - 1) / tp
        exchange = 2 * of.layers * (latency_now + ring * message / share)
        spread = 2 * of.layers * of.pp * ring * of.hidden * 2 / share
    if groups > 1 and of.experts_there:
        ranks = tp * groups
        sent = message * min(of.chosen, ranks) * 0.75 * (ranks - 1) / ranks
        exchange += 2 * of.expert_layers * (latency * values.all_to_all + sent / share)

    fixed = 1e-6 * (
        values.layer_us * pace.layer * of.layers
        + values.expert_layer_us * of.expert_layers
        + (values.expert_ranks_us * of.expert_layers if of.expert_ranks > 1 else 0.0)
        + values.request_us * pace.request * own
    ) + 1e-3 * values.step_ms

    pairs = sum(each * min(isl, 2 * limit) for each, limit in of.prefill_span)
    alone = isl * (dense_token + expert_token * groups) + isl * pairs / (tp * of.pp)
    prefill = (alone / values.prefill_rate + isl * spread / of.pp) / groups

    main = weights >= compute
    parts = {
        "weights": multiply if main else 0.0,
        "compute": 0.0 if main else multiply,
        "attention": attention,
        "communication": exchange,
        "overhead": fixed,
    }
    return multiply + attention + exchange + fixed, prefill, parts


def _reached(of: Load, rows: float, values: Parameters) -> float:
    """The share of its experts that the fullest rank reads in one step."""
    each = min(CERTAIN, of.chosen / of.experts_there)
    share = 1.0 - (1.0 - each) ** max(1.0, rows * values.skew)
    if of.expert_ranks > 1:
        reached = max(1.0, share * of.experts_there)
        share *= 1.0 + values.imbalance * math.sqrt(of.expert_ranks / reached)
    return min(1.0, share)
