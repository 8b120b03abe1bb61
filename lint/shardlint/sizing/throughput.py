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

import math
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from shardlint.record import record
from shardlint.sizing.loads import Grade, Load, NotModelled
from shardlint.sizing.parameters import COMMON, Parameters, parameters, table

Bound: TypeAlias = Literal[
    "weights", "attention", "compute", "communication", "overhead", "prefill", "kv_cache",
    "max_num_seqs",
]  # fmt: skip

CERTAIN: Final = 0.999999
"""A share of experts that is as good as all of them."""


@record
class Workload:
    """Requests of `isl` tokens that get `osl`; `concurrency` of them at the same time in one
    replica, None: as many as fit."""

    isl: int
    osl: int
    concurrency: int | None = None


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
    parts: Mapping[Bound, float]

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


def _bound(asked: int | None, batch: float, held: int, parts: Mapping[Bound, float]) -> Bound:
    """What holds a replica back: too little room for what is asked, else what takes most time."""
    if asked is not None and batch < asked:
        return "kv_cache" if held <= batch else "max_num_seqs"
    return max(parts, key=lambda name: parts[name])


def seconds(
    of: Load, batch: float, isl: int, osl: int, values: Parameters
) -> tuple[float, float, dict[Bound, float]]:
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
        expert_token *= 1.0 + values.imbalance * math.log2(of.expert_ranks)
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

    fixed = (
        1e-6
        * (
            values.layer_us * pace.layer * of.layers
            + values.expert_layer_us * of.expert_layers
            + values.request_us * pace.request * own
        )
        + 1e-3 * values.step_ms
    )

    pairs = sum(each * min(isl, 2 * limit) for each, limit in of.prefill_span)
    alone = isl * (dense_token + expert_token * groups) + isl * pairs / (tp * of.pp)
    prefill = (alone / values.prefill_rate + isl * spread / of.pp) / groups

    main = weights >= compute
    parts: dict[Bound, float] = {
        "weights": multiply if main else 0.0,
        "compute": 0.0 if main else multiply,
        "attention": attention,
        "communication": exchange,
        "overhead": fixed,
    }
    return multiply + attention + exchange + fixed, prefill, parts


def _reached(of: Load, rows: float, values: Parameters) -> float:
    """The share of the experts that the tokens of one step choose."""
    each = min(CERTAIN, of.chosen / of.experts_there)
    return float(1.0 - (1.0 - each) ** max(1.0, rows * values.skew))
