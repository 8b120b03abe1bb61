"""An estimate for people: a bar of one GPU's memory, what its cache holds, how sure that is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from textwrap import TextWrapper
from typing import Final, TextIO

from shardlint.estimates import Estimate, apportioned, doubts
from shardlint.reports.colour import Paint, Style, painter
from shardlint.reports.words import counted, printable
from shardlint.sizing.bands import WORDS
from shardlint.sizing.loads import NotModelled
from shardlint.sizing.memory import GIB

WIDTH: Final = 80
WIDEST: Final = 120

PARTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "weights": ("weights", "█", "#"),
    "context": ("context", "▚", "c"),
    "collectives": ("collectives", "▞", "n"),
    "activations": ("activations", "▓", "a"),
    "graphs": ("CUDA graphs", "▒", "g"),
    "rest": ("rest", "▤", "r"),
    "kv_cache": ("KV cache", "░", "="),
    "unused": ("unused", "·", "."),
}
"""Parts of the card: their names, and their marks with and without Unicode."""
OVER: Final = "not there"
"""What `unused` is called where the parts exceed the card."""

BOUNDS: Final[Mapping[str, str]] = {
    "weights": "most of the time goes to reading weights",
    "attention": "most of the time goes to reading the KV cache",
    "compute": "most of the time goes to computing",
    "communication": "most of the time goes to exchange between GPUs",
    "overhead": "most of the time goes to launching kernels and scheduling",
    "prefill": "most of the time goes to prefill",
    "kv_cache": "the KV cache holds no more",
    "max_num_seqs": "the engine takes no more at the same time",
}

VERDICTS: Final = {
    "fits": "fits",
    "tight": "tight: within the band, it may fit or not",
    "does_not_fit": "does not fit",
}


def write(found: Estimate, out: TextIO) -> None:
    out.write("\n".join(lines(found, _width(out), _unicode(out), painter(out))) + "\n")


def _width(out: TextIO) -> int:
    """Of the terminal; a file has one that does not depend on where it is written."""
    return min(WIDEST, shutil.get_terminal_size((WIDTH, 24)).columns) if out.isatty() else WIDTH


def _unicode(out: TextIO) -> bool:
    """The stream can write all marks."""
    try:
        "".join(mark for _, mark, _ in PARTS.values()).encode(out.encoding or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True


def lines(found: Estimate, width: int, unicode: bool, paint: Paint) -> Iterator[str]:
    made = found.made
    model, card = printable(found.model.id), printable(found.device.name)
    yield f"{paint(model, 'bold')} on {card}, {found.engine} {found.release}"
    yield layout_line(found)
    yield from _fleet(found)
    yield ""
    yield f"One GPU, {made.total / GIB:.2f} GiB as the engine sees it"
    yield bar(made.breakdown, width, unicode)
    yield from legend(made.breakdown, unicode)
    yield ""
    for label, sentence in _sentences(found):
        fill = TextWrapper(width, initial_indent=f"{label:<10}", subsequent_indent=" " * 10)
        (first, *rest) = fill.wrap(printable(sentence))
        if label == "verdict":
            style: Style = "info" if found.verdict == "fits" else "warning"
            first = first.replace(VERDICTS[found.verdict], paint(VERDICTS[found.verdict], style), 1)
        yield from (first, *rest)


def _sentences(found: Estimate) -> Iterator[tuple[str, str]]:
    yield from _cache(found)
    yield from _workload(found)
    yield from _speed(found)
    yield "band", band_words(found)
    yield "verdict", VERDICTS[found.verdict] + _short_of(found)
    for sentence in (*found.assumptions, *doubts(found)):
        yield "assumes", sentence


def layout_line(found: Estimate) -> str:
    """The GPU product written out, without what is 1."""
    layout, ranks = found.layout, found.ranks
    sizes = {"TP": layout.tp, "PP": layout.pp, "DP": layout.dp * layout.attention_dp}
    product = " × ".join(
        f"{name} {size}" for name, size in sizes.items() if size > 1 or name == "TP"
    )
    beside = [f"EP {ranks.ep}"] if ranks.ep > 1 else []
    beside += [f"DCP {layout.dcp}"] if layout.dcp > 1 else []
    return f"{product} = {counted(found.gpus, 'GPU')}" + "".join(f", {word}" for word in beside)


def _fleet(found: Estimate) -> Iterator[str]:
    replicas = found.asked.replicas if found.asked is not None else None
    if replicas is None:
        return
    tokens = found.made.tokens
    held = "" if tokens is None else f", {tokens * found.dp_ranks * replicas:,} KV cache tokens"
    yield f"{counted(replicas, 'replica')} = {counted(found.gpus * replicas, 'GPU')}{held}"


# ---------------------------------------------------------------------------------------- the bar


def bar(breakdown: Mapping[str, int], width: int, unicode: bool) -> str:
    """The parts side by side; where they exceed the card, the bar is all of them."""
    shown = {name: max(0, value) for name, value in breakdown.items()}
    total = sum(shown.values())
    if not total:
        return ""
    cells = apportioned(shown, total, max(1, width))
    return "".join(PARTS[name][1 if unicode else 2] * count for name, count in cells.items())


def legend(breakdown: Mapping[str, int], unicode: bool) -> Iterator[str]:
    """Every part in GiB; they add up to the card to the last digit."""
    for name, hundredths in apportioned(breakdown, GIB, 100).items():
        if not breakdown[name]:
            continue
        label, *marks = PARTS[name]
        if hundredths < 0:
            yield f"! {OVER:<12} {-hundredths / 100:>8.2f} GiB"
        else:
            yield f"{marks[0] if unicode else marks[1]} {label:<12} {hundredths / 100:>8.2f} GiB"


# -------------------------------------------------------------------------------------- the cache


def _cache(found: Estimate) -> Iterator[tuple[str, str]]:
    made = found.made
    tokens, longest, concurrency = made.tokens, made.settings.max_model_len, made.concurrency
    if made.kv <= 0:
        yield "KV cache", "nothing is left for it"
        return
    size = f"{made.kv / GIB:.2f} GiB"
    if made.cache is None:
        yield "KV cache", f"{size}; its tokens are not known"
        return
    each = " in each DP rank" if found.dp_ranks > 1 else ""
    if tokens is None or concurrency is None or longest is None:
        yield "KV cache", size
    else:
        groups = len(made.cache.groups)
        counted_so = (
            f", as the log counts them: divided among {groups} groups of layers"
            if made.cache.line == "blocks" and groups > 1
            else ""
        )
        yield "KV cache", f"{tokens:,} tokens{each}{counted_so}"
        yield "requests", f"{concurrency:,.2f} of {longest:,} tokens at the same time{each}"
    yield "context", f"{found.max_context or 0:,} tokens at most"


def _workload(found: Estimate) -> Iterator[tuple[str, str]]:
    """What the workload needs against what a replica holds of such requests."""
    asked = found.asked
    length = ((asked.isl or 0) + (asked.osl or 0)) if asked is not None else 0
    held = found.requests(length)
    if asked is None or held is None:
        return
    longest = found.made.settings.max_model_len
    if longest is not None and length > longest:
        yield (
            "workload",
            f"requests of {length:,} tokens are longer than the longest of {longest:,}",
        )
        return
    has = f"a replica holds {held:,.1f} of them, {int(held * length):,} tokens"
    if asked.concurrency is None:
        yield "workload", f"requests of {length:,} tokens: {has}"
        return
    enough = "enough" if held >= asked.concurrency else "not enough"
    asks = f"{asked.concurrency:,} × {length:,} = {asked.concurrency * length:,} tokens"
    yield "workload", f"{asks}; {has}: {enough}"


def _speed(found: Estimate) -> Iterator[tuple[str, str]]:
    """What one replica makes of the workload, then all of them; a weak number as its range."""
    speed = found.speed
    if isinstance(speed, NotModelled):
        return
    low, high = (_three(end) for end in speed.range)
    if speed.grade == "weak":
        size = f"{low} to {high} tok/s (weak)"
        slow, fast = (1e3 * speed.batch / end for end in speed.range)
        pace = f"a token every {fast:,.1f} to {slow:,.1f} ms"
    else:
        size = f"{_three(speed.tok_s)} tok/s ({low} to {high})"
        size += f", {_three(speed.tok_s_per_gpu)} a GPU"
        pace = f"a token every {speed.tpot_ms:,.1f} ms"
    at = counted(int(speed.batch), "request")
    yield "speed", f"{size} with {at} at the same time; {pace}; {BOUNDS[speed.bound_by]}"
    if found.replicas > 1:
        low, high = (_three(end * found.replicas) for end in speed.range)
        yield "fleet", f"{low} to {high} tok/s, {found.replicas:,} times a replica"
    bound = f"{_three(speed.ttft_ms)} ms"
    yield "first", f"the first token within {bound}: nine of ten that were measured took less"


def _three(number: float) -> str:
    """Three digits."""
    return f"{float(f'{number:.3g}'):,.0f}" if number >= 100 else f"{number:.3g}"


def band_words(found: Estimate) -> str:
    """How far the cache may be off, and what that rests on."""
    band = found.band
    below, above = (f"{size / GIB:.1f}" for size in (band.below, band.above))
    size = f"± {below} GiB" if below == above else f"− {below} GiB to + {above} GiB"
    logs = f"{counted(band.rows, 'log')} of {WORDS[band.kind]}"
    if band.few:
        return f"KV cache {size}: the widest band, since there are few ({logs})"
    return f"KV cache {size}, from {logs}"


def _short_of(found: Estimate) -> str:
    made = found.made
    if found.fits:
        return ""
    if made.at_load + made.beside.context > made.total and made.at_load > made.held:
        return f": {made.at_load / GIB:.1f} GiB of weights are held while they are loaded"
    if made.kv <= 0:
        over = f"{made.needed / GIB:.1f} GiB are needed before the first token"
        return f": {over}, {made.budget / GIB:.1f} GiB may be used"
    need = (made.need or 0) / GIB
    return f": one request takes {need:.1f} GiB of cache, {made.kv / GIB:.1f} GiB are left"


def short(found: Estimate) -> Iterator[str]:
    """Two lines for `inspect`."""
    made = found.made
    weights = made.held / GIB
    total, kv = made.total / GIB, max(0, made.kv) / GIB
    yield f"weights {weights:.1f} GiB and KV cache {kv:.1f} GiB of {total:.1f} GiB a GPU"
    tokens, longest, many = made.tokens, made.settings.max_model_len, made.concurrency
    if tokens is None or many is None or longest is None:
        yield VERDICTS[found.verdict]
    else:
        requests = f"{many:,.1f} requests of {longest:,}"
        yield f"{tokens:,} tokens, {requests}; {VERDICTS[found.verdict]}"
