"""The memory model against what real engines printed, by class, release and card.

    python benchmarks/memory_accuracy.py --evidence memory.jsonl --models FOLDER
        [--predictions FILE]  (what public_estimators.py wrote: on the same rows)
        [--rows]              (each row with its error)

A cell is median / 90th percentile of |predicted ÷ printed − 1| / share within 12 % (rows). "Strict"
rows state enough: the card's memory, the share, the config of that checkpoint, the ranks. Machines
whose GPU shares the memory of the host stand apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from memory_logs import (
    Checkpoints,
    Row,
    cell,
    error,
    is_unified,
    memory_gib,
    predicted,
    release,
    rows,
    strict,
    utilization,
)
from shardlint.engines import builtin as engines
from shardlint.estimates.asked import EstimateError, asked_of
from shardlint.estimates.estimator import Estimate, Estimator
from shardlint.hardware.table import Devices
from shardlint.platforms import builtin as platforms
from shardlint.plugins import Plugins
from shardlint.project import Setup
from shardlint.readers import builtin as readers
from shardlint.record import record
from shardlint.reports import builtin as reports

GIB: Final = 2**30
BITS: Final = {"weights": "weights_gib_per_gpu", "KV GiB": "available_kv_gib",
               "KV tokens": "kv_cache_tokens", "concurrency": "max_concurrency"}  # fmt: skip
"""Quantities, and the fields of a row that print them."""


@record(kw_only=True)
class Judged:
    """One row with our estimate of it, or why there is none."""

    row: Row
    strict: bool
    unified: bool
    estimate: Estimate | None = None
    why: str = ""

    def predicted(self, quantity: str) -> float | None:
        found = self.estimate
        if found is None:
            return None
        made = found.made
        values: Mapping[str, Callable[[], float | None]] = {
            "weights": lambda: (made.held + made.beside.loaded) / GIB,
            "KV GiB": lambda: max(0, made.kv) / GIB,
            "KV tokens": lambda: made.tokens,
            "concurrency": lambda: made.concurrency,
        }
        return values[quantity]()

    def printed(self, quantity: str) -> float | None:
        value = getattr(self.row, BITS[quantity])
        return float(value) if value is not None and value > 0 else None

    def error(self, quantity: str) -> float | None:
        ours, theirs = self.predicted(quantity), self.printed(quantity)
        return None if ours is None or theirs is None else error(ours, theirs)

    @property
    def outcome(self) -> str | None:
        """What we say of the start, in the words of the evidence."""
        if self.estimate is None:
            return None
        made = self.estimate.made
        if made.kv <= 0:
            return "oom"
        return "ok" if self.estimate.fits or made.need is None else "max_len_error"


def question(row: Row, devices: Devices) -> dict[str, Any]:
    """A row as a line of a batch: what it states, and nothing that it printed."""
    memory = memory_gib(row, devices)
    return {
        "model": row.model,
        "gpu": row.gpu if row.gpu and devices.find(row.gpu).is_known else None,
        "gpu_mem_gib": memory,
        "engine": row.engine,
        "engine_version": row.version,
        "tp": row.tp, "pp": row.pp, "dp": row.dp, "dcp": row.dcp,
        "ep": row.ep if isinstance(row.ep, bool) else None,
        "dtype": row.dtype,
        "quantization": row.quantization,
        "kv_cache_dtype": row.kv_cache_dtype,
        "gpu_memory_utilization": row.gpu_memory_utilization,
        "mem_fraction_static": row.mem_fraction_static,
        "max_model_len": row.max_model_len,
        "max_num_seqs": row.max_num_seqs,
        "max_num_batched_tokens": row.max_num_batched_tokens,
        "enforce_eager": row.enforce_eager,
    }  # fmt: skip


def judged(evidence: Iterable[Row], models: Path) -> list[Judged]:
    setup = Setup(Plugins([engines, platforms, readers, reports]))
    estimator, checkpoints = Estimator(setup), Checkpoints(models)
    devices, found = setup.devices, []
    for row in evidence:
        memory = memory_gib(row, devices)
        enough = strict(row, checkpoints.find(row), memory)
        common: dict[str, Any] = {"row": row, "strict": enough, "unified": is_unified(row)}
        try:
            made = estimator.estimate(asked_of(question(row, devices)))
            found.append(Judged(estimate=made, **common))
        except EstimateError as problem:
            found.append(Judged(why=str(problem), **common))
    return found


# ---------------------------------------------------------------------------------- the tables


def kind(one: Judged) -> str:
    return one.estimate.band.kind if one.estimate else "none"


def generation(one: Judged) -> str:
    built = release(one.row)
    if built is None:
        return f"{one.row.engine} ?"
    minor = built.minor
    if one.row.engine != "vllm" or built.major:
        return f"{one.row.engine} {built.major}.{minor}"
    cuts = ((8, "before 0.8"), (17, "0.8 to 0.16"), (20, "0.17 to 0.19"), (99, "0.20 on"))
    return "vllm " + next(name for below, name in cuts if minor < below)


def card(one: Judged) -> str:
    return (one.row.gpu or "not named").split(" (")[0]


def text(errors: list[float]) -> str:
    if not errors:
        return "-"
    found = cell(errors)
    return f"{found.median:.3f} / {found.p90:.3f} / {found.within:.2f} ({len(errors)})"


def table(title: str, groups: Mapping[str, list[Judged]]) -> Iterator[str]:
    yield f"\n{title}"
    yield f"{'':28}" + "".join(f"{name:30}" for name in BITS)
    for name, members in groups.items():
        cells = [text([e for one in members if (e := one.error(q)) is not None]) for q in BITS]
        yield f"{name[:27]:28}" + "".join(f"{item:30}" for item in cells)


def grouped(found: Iterable[Judged], key: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return dict(sorted(groups.items()))


def outcomes(found: Iterable[Judged]) -> Iterator[str]:
    """What we say against what happened; an error is what we call beyond the band."""
    words = ("ok", "oom", "max_len_error")
    told = [one for one in found if one.row.outcome in words and one.outcome]
    yield "\noutcomes (happened: said)"
    for happened in words:
        said = [one.outcome for one in told if one.row.outcome == happened]
        yield f"{happened:16}" + "  ".join(f"{word} {said.count(word)}" for word in words)
    failed = [one for one in told if one.row.outcome != "ok"]
    caught = [one for one in failed if one.outcome != "ok"]
    wrong = [
        one.row.id
        for one in told
        if one.row.outcome == "ok" and one.estimate and one.estimate.verdict == "does_not_fit"
    ]
    yield f"failures caught {len(caught)} of {len(failed)}; `ok` rows called an error: {wrong}"


def side_by_side(found: list[Judged], path: Path) -> Iterator[str]:
    """Ours and the public estimators on the strict rows that all of them answer."""
    others = predicted(path)
    names = {"weights": "weights_gib", "KV GiB": "kv_gib", "KV tokens": "kv_tokens",
             "concurrency": "concurrency"}  # fmt: skip
    yield "\nside by side, strict rows that the estimator answers, ours on the same rows"
    for estimator, answers in sorted(others.items()):
        parts = []
        for quantity, key in names.items():
            pairs = [
                (error(answers[one.row.id][key], printed), ours)
                for one in found
                if one.strict
                and (printed := one.printed(quantity)) is not None
                and (ours := one.error(quantity)) is not None
                and answers.get(one.row.id, {}).get(key) is not None
            ]
            theirs, own = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            parts.append(f"{quantity}: {text(theirs)} | ours {text(own)}")
        yield f"{estimator}"
        yield from (f"    {part}" for part in parts)


def lines(found: list[Judged]) -> Iterator[str]:
    """Every row with its errors, the worst KV estimates first."""
    ordered = sorted(found, key=lambda one: -(one.error("KV GiB") or 0))
    for one in ordered:
        row = one.row
        head = (
            f"{row.id} {'strict' if one.strict else '':6} {row.engine} {row.version or '?':12.12}"
            f" {row.model or '?':40.40} {card(one):14.14} tp {row.tp} share {utilization(row)}"
        )
        if one.estimate is None:
            yield f"{head} -- {one.why}"
            continue
        cells = [
            f"{q} {_number(one.predicted(q))}/{_number(one.printed(q))}"
            + (f" {one.error(q):+.3f}" if one.error(q) is not None else "")
            for q in BITS
        ]
        beside = one.estimate.made.beside
        yield f"{head} | {' | '.join(cells)} | {row.outcome}: {one.outcome} {one.estimate.verdict}"
        yield (
            f"        context {beside.context / GIB:.2f} collectives {beside.collectives / GIB:.2f}"
            f" loaded {beside.loaded / GIB:.2f} rest {beside.rest / GIB:.2f}"
            f" activations {beside.activations / GIB:.2f} (printed {row.activation_gib})"
            f" graphs {beside.graphs / GIB:.2f}{' outside' if beside.graphs_outside else ''}"
            f" ({row.cudagraph_gib}) need {_number((one.estimate.made.need or 0) / GIB)}"
            f" ({row.needed_kv_gib}) {one.estimate.made.settings.max_num_batched_tokens}"
            f" {one.estimate.made.settings.max_num_seqs}"
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 10000 else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--evidence", type=Path, required=True, help="memory.jsonl")
    parser.add_argument("--models", type=Path, required=True, help="folder of configs")
    parser.add_argument("--predictions", type=Path, help="what public_estimators.py wrote")
    parser.add_argument("--rows", action="store_true", help="each row with its error")
    given = parser.parse_args()
    found = judged(rows(given.evidence), given.models)
    usual = [one for one in found if not one.unified]
    tight = [one for one in usual if one.strict]
    parts = [
        table("all", {
            "strict": tight, "every row with a model": [one for one in usual if one.estimate],
            "shared with the host": [one for one in found if one.unified],
        }),
        table("strict, by class of models", grouped(tight, kind)),
        table("strict, by release", grouped(tight, generation)),
        table("strict, by card", grouped(tight, card)),
        table("every row, by class of models", grouped(usual, kind)),
        outcomes(tight),
        outcomes(usual),
    ]  # fmt: skip
    if given.predictions:
        parts.append(side_by_side(tight, given.predictions))
    if given.rows:
        parts.append(lines(usual))
    for part in parts:
        for line in part:
            print(line)


if __name__ == "__main__":
    main()
