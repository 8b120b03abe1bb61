"""A recommendation: a table for people, one document for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import TextWrapper
from typing import Any, Final, TextIO

from shardlint.recommendations import Candidate, Recommendation, Rejected, Session
from shardlint.reports.colour import painter
from shardlint.reports.words import counted, printable
from shardlint.sizing.parameters import table

WIDTH: Final = 100
WALLS: Final = {
    "fit": "memory: a smaller or other layout does not hold the model, or its requests",
    "latency": "the goal for latency: without it, fewer or smaller replicas would do",
    "throughput": "speed: all layouts near the first one fit and reach the goals",
}
UNKNOWN: Final = "none that is known: every layout here fits, and nothing is said of speed"
NAMES: Final = (("tp", "TP"), ("pp", "PP"), ("dp", "DP"), ("attention_dp", "DP"), ("ep", "EP"),
                ("dcp", "DCP"))  # fmt: skip
HEAD: Final = ("", "layout", "replicas", "GPUs", "KV tokens", "requests", "TPOT", "TTFT <", "tok/s",
               "tok/s/GPU", "one GPU stops")  # fmt: skip
MOST_REJECTED: Final = 8


def record(found: Recommendation, diff: str | None = None) -> dict[str, Any]:
    """The document of `recommend --format json`."""
    return {
        "schema_version": 1,
        "wall": found.wall,
        "gpus": found.wanted.gpus,
        "candidates": [_candidate(item, at, found) for at, item in enumerate(found.found, 1)],
        "rejected": [_rejected(item) for item in found.rejected],
        "notes": list(found.notes),
        "diff": diff,
    }


def _candidate(item: Candidate, at: int, found: Recommendation) -> dict[str, Any]:
    made, fleet, speed = item.estimate, item.fleet, item.fleet.speed
    tokens = made.made.tokens
    concurrency = made.made.concurrency
    known, prices = speed is not None, _prices(item, found)
    return {
        "rank": at,
        "layout": dict(item.layout),
        "replicas": fleet.replicas,
        "needed": fleet.needed,
        "gpus": item.gpus,
        "unused_gpus": max(0, found.wanted.gpus - item.gpus),
        "fits": made.fits,
        "verdict": made.verdict,
        "reaches_goals": fleet.reaches and fleet.affordable,
        "kv_cache_tokens": None if tokens is None else tokens * made.dp_ranks,
        "max_concurrency": None if concurrency is None else round(concurrency * made.dp_ranks, 2),
        "max_context": made.max_context,
        "ttft_ms": _rounded(speed.ttft_ms) if speed else None,
        "tpot_ms": _rounded(speed.tpot_ms) if speed else None,
        "output_tok_s": _rounded(fleet.tok_s) if known else None,
        "output_tok_s_per_gpu": _rounded(fleet.tok_s / item.gpus) if known else None,
        "class": speed.grade if speed else "not_modelled",
        "range": _range(item),
        "blast_radius": round(item.blast_radius, 4),
        "usd_per_million_tokens": prices[0] if prices else None,
        "usd_per_million_tokens_range": list(prices[1:]) or None,
        "arguments": list(item.arguments),
        "session": _session(item),
        "pipeline": _pipeline(item),
        "prefix_hits": _prefix_hits(item),
        "why": item.why,
    }


def _session(item: Candidate) -> dict[str, Any] | None:
    if (found := item.session) is None:
        return None
    return {
        "tokens": found.tokens, "fits": found.fits, "cache_share": round(found.share, 4),
        "requests_beside": found.left if found.fits else None, "longest": found.most,
    }  # fmt: skip


def _pipeline(item: Candidate) -> dict[str, Any] | None:
    if (found := item.pipeline) is None:
        return None
    return {
        "stages": found.stages, "requests": found.requests, "idle_stages": found.idle,
        "bubble": round(found.bubble, 4),
    }  # fmt: skip


def _prefix_hits(item: Candidate) -> dict[str, Any] | None:
    if (found := item.prefixes) is None:
        return None
    return {
        "caches": found.caches, "aware": round(found.aware, 4), "blind": round(found.blind, 4),
    }  # fmt: skip


def _rejected(item: Rejected) -> dict[str, Any]:
    return {"layout": dict(item.layout), "rule": item.rule, "message": item.message}


def _ends(item: Candidate) -> tuple[float, float] | None:
    """Tokens a second of the fleet between which nine of ten are."""
    speed = item.fleet.speed
    if speed is None or speed.yours:
        return None
    low, high = table()["error"][speed.grade]["range"]
    return item.fleet.tok_s * low, item.fleet.tok_s * high


def _range(item: Candidate) -> list[float] | None:
    ends = _ends(item)
    return None if ends is None else [round(end, 1) for end in ends]


def _prices(item: Candidate, found: Recommendation) -> tuple[float, ...]:
    """USD for a million output tokens with all replicas at work: by the rate, and where that is
    not measured by the ends of its range; empty where price or rate are not known."""
    price, rate = found.wanted.price, item.fleet.tok_s
    if price is None or not rate:
        return ()
    rates = (rate, *reversed(_ends(item) or ()))
    return tuple(round(price * item.gpus / 3600 / each * 1e6, 4) for each in rates)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


# ---------------------------------------------------------------------------------------- text


def write(found: Recommendation, out: TextIO) -> None:
    paint = painter(out)
    asked = found.wanted.asked
    goal = f", for {found.wanted.objective}"
    nodes = counted(found.wanted.nodes, "node")
    there = f"{nodes} of {counted(found.wanted.per_node, 'GPU')}"
    out.write(paint(printable(asked.model), "bold") + f" on {there}{goal}\n\n")
    if found.found:
        for line in _table([_row(item, at) for at, item in enumerate(found.found, 1)]):
            out.write(line + "\n")
        out.write("\n")
    else:
        out.write("No layout holds the model.\n\n")
    for label, sentence in _sentences(found):
        fill = TextWrapper(WIDTH, initial_indent=f"{label:<10}", subsequent_indent=" " * 10)
        out.write("\n".join(fill.wrap(printable(sentence))) + "\n")


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns that say nothing of any layout are left out."""
    kept = [at for at in range(len(HEAD)) if at == 0 or any(row[at] for row in rows)]
    lines = [[HEAD[at] for at in kept], *([row[at] for at in kept] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(kept))]
    for line in lines:
        cells = [
            text.ljust(width) if kept[at] == 1 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _row(item: Candidate, at: int) -> list[str]:
    made, speed = item.estimate, item.fleet.speed
    tokens = made.made.tokens
    requests = made.made.concurrency
    rate = "" if speed is None else f"{item.fleet.tok_s:,.0f}"
    each = "" if speed is None else f"{item.fleet.tok_s / item.gpus:,.1f}"
    if speed is not None and speed.grade == "weak" and (between := _ends(item)) is not None:
        rate = _between(*between)
        each = _between(*(end / item.gpus for end in between))
    replicas = f"{item.fleet.replicas}"
    if item.fleet.replicas != item.fleet.needed:
        replicas = f"{item.fleet.needed} + {item.fleet.replicas - item.fleet.needed}"
    return [
        str(at),
        written(item.layout),
        replicas,
        f"{item.gpus:,}",
        "" if tokens is None else f"{tokens * made.dp_ranks:,}",
        "" if requests is None else f"{requests * made.dp_ranks:,.1f}{_shorter(item)}",
        _ms(speed.tpot_ms if speed else None),
        _ms(speed.ttft_ms if speed else None),
        rate,
        each,
        f"{item.blast_radius:.0%}",
    ]


def _shorter(item: Candidate) -> str:
    """The length of the requests that are counted, where it is not that of the other layouts."""
    length = item.settings.get("max_model_len")
    return f" of {length:,}" if length else ""


def _between(low: float, high: float) -> str:
    places = 0 if low >= 10 else 1
    return f"{low:,.{places}f}–{high:,.{places}f}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f} ms" if value < 100 else f"{value:,.0f} ms"


def written(layout: Mapping[str, int]) -> str:
    """The sizes above 1: "TP 4 × DP 2, EP 8"."""
    sizes = [(name, layout[key]) for key, name in NAMES if layout[key] > 1]
    product = " × ".join(f"{name} {size}" for name, size in sizes if name not in ("EP", "DCP"))
    beside = "".join(f", {name} {size}" for name, size in sizes if name in ("EP", "DCP"))
    return (product or "TP 1") + beside


def _sentences(found: Recommendation) -> Iterator[tuple[str, str]]:
    if found.found:
        known = any(item.fleet.speed is not None for item in found.found)
        yield "wall", WALLS[found.wall] if known or found.wall == "fit" else UNKNOWN
        first = found.found[0]
        yield "fleet", _product(first, found)
        yield "options", " ".join(first.arguments)
        yield from _traffic(first)
    for at, item in enumerate(found.found, 1):
        if item.why:
            yield f"{at}", item.why
        speed = item.fleet.speed
        if at == 1 and speed is not None and speed.grade == "weak":
            yield "", f"speeds are a rough range: {speed.why}"
    for rejected in found.rejected[:MOST_REJECTED]:
        yield "rejected", f"{written(rejected.layout)}: {rejected.message} ({rejected.rule})"
    if (more := len(found.rejected) - MOST_REJECTED) > 0:
        yield "", f"and {more} more"
    for note in found.notes:
        yield "assumes", note


def _traffic(item: Candidate) -> Iterator[tuple[str, str]]:
    """What the traffic does to the first layout."""
    if (long := item.session) is not None:
        yield "session", _said_of_session(long)
    if (stages := item.pipeline) is not None:
        said = f"{counted(stages.requests, 'request')} at a time in each replica: {stages.idle} of"
        said += f" {stages.stages} stages are always idle, and one pass of the requests wastes"
        yield "stages", f"{said} {stages.bubble:.0%} of the stages' time"
    if (shared := item.prefixes) is not None:
        said = f"{shared.aware:.0%} of the input was there before: a router that looks at prefixes"
        said += f" finds up to {shared.aware:.0%} of it in a cache"
        if shared.caches > 1:
            said += (
                f", a blind one over {shared.caches} caches about {shared.blind:.0%} where each"
                " conversation has a prefix of its own, and more where all have the same"
            )
        yield "prefixes", f"{said}; the speeds above count none of it"


def _said_of_session(long: Session) -> str:
    said = f"one of {long.tokens:,} tokens"
    if not long.fits:
        return f"{said} does not run: model and KV cache take {long.most:,} at most"
    said += f" takes {long.share:.0%} of a KV cache"
    if long.left is not None:
        said += f" and leaves room for {counted(long.left, 'request')} of the workload beside it"
    return f"{said}; cap the longest request where others must not wait for it"


def _product(item: Candidate, found: Recommendation) -> str:
    """The GPUs written out: "6 replicas × (TP 2) = 12 GPUs, 5 for the target and 1 to spare"."""
    fleet = item.fleet
    product = f"{counted(fleet.replicas, 'replica')} × ({written(item.layout)}) = "
    product += counted(item.gpus, "GPU")
    if item.gpus < found.wanted.gpus:
        product += f" of {found.wanted.gpus:,}, and {found.wanted.gpus - item.gpus:,} are not used"
    if fleet.replicas != fleet.needed:
        product += f": {fleet.needed} for the target and {fleet.replicas - fleet.needed} to spare"
    if found.wanted.price is not None:
        product += f"; {found.wanted.price * item.gpus:,.2f} USD an hour"
        product += _cost(item, _prices(item, found))
    return product


def _cost(item: Candidate, prices: Sequence[float]) -> str:
    if not prices:
        return ""
    weak = item.fleet.speed is not None and item.fleet.speed.grade == "weak"
    shown = f"{prices[1]:,.2f} to {prices[2]:,.2f}" if weak else f"{prices[0]:,.2f}"
    return f", {shown} USD for a million output tokens"
