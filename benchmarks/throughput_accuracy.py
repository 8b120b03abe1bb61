"""How well estimates of throughput meet what was measured, and how fast they are made.

    python benchmarks/throughput_accuracy.py --evidence throughput.jsonl [--tiers A] [--rows]

Errors are |predicted ÷ measured − 1| of output tokens a second and GPU. Order is the share of pairs
of layouts, at the same number of requests per GPU, that are put in the right order; beside it "the
fewest GPUs win". Regret is what the chosen layout loses against the best measured one. A slice in
which the model does not beat the simple rule is marked weak. Below stands the cross-validation that
scripts/fit_throughput.py wrote beside the parameters.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from shardlint.sizing.loads import Load
from shardlint.sizing.parameters import parameters, table
from shardlint.sizing.throughput import Throughput, throughput
from throughput_rows import Case, Score, rows, scores
from throughput_rows import cases as cases_of

HEAD: Final = (
    f"{'':26}{'rows':>6}{'median':>8}{'p90':>7}{'pairs':>7}{'order':>7}{'fewest':>8}{'regret':>8}"
    f"{'fewest':>8}"
)
Told = Sequence[tuple[Case, Throughput]]


def told(cases: Sequence[Case]) -> tuple[list[tuple[Case, Throughput]], Counter[str]]:
    """Estimates of the rows that have one, and why others have none."""
    found, missing = [], Counter[str]()
    for case in cases:
        speed = throughput(case.load, case.workload) if isinstance(case.load, Load) else case.load
        if isinstance(speed, Throughput):
            found.append((case, speed))
        else:
            missing[speed.why] += 1
    return found, missing


def by_slice(found: Told) -> dict[str, Score]:
    return scores([(case, speed.tok_s_per_gpu) for case, speed in found])


def line(name: str, one: Score | Mapping[str, Any]) -> str:
    seen = one if isinstance(one, Mapping) else vars(one)
    weak = "  weak" if seen["pairs"] and seen["order"] <= seen["naive"] else ""
    return (
        f"{name[:25]:26}{seen['rows']:6}{seen['median']:8.3f}{seen['p90']:7.3f}{seen['pairs']:7}"
        f"{seen['order']:7.3f}{seen['naive']:8.3f}{seen['regret']:8.3f}{seen['naive_regret']:8.3f}"
        f"{weak}"
    )


def grouped(found: Told, key: Callable[[Case], str]) -> Iterator[str]:
    groups: dict[str, list[tuple[Case, Throughput]]] = {}
    for case, speed in found:
        groups.setdefault(key(case), []).append((case, speed))
    for name, members in sorted(groups.items()):
        yield line(name, by_slice(members)["all"])


def latencies(found: Told) -> Iterator[str]:
    """Of the times of a token, how far off; of the bound on the first, how often it holds."""
    pace = [abs(speed.tpot_ms / case.row.tpot_ms - 1) for case, speed in found if case.row.tpot_ms]
    first = [speed.ttft_ms / case.row.ttft_ms for case, speed in found if case.row.ttft_ms]
    if pace:
        yield f"time of a token: median error {statistics.median(pace):.3f} on {len(pace)} rows"
    if first:
        holds = sum(ratio >= 1 for ratio in first) / len(first)
        usual = f"{statistics.median(first):.2f} × what is usual"
        yield f"first token: the bound holds for {holds:.3f} of {len(first)}, {usual}"


def cost(found: Told, turns: int = 5) -> float:
    """Microseconds of one call, the least of some turns."""
    calls = [(case.load, case.workload) for case, _ in found if isinstance(case.load, Load)]
    values, least = parameters(), float("inf")
    for _ in range(turns):
        start = time.perf_counter()
        for load, workload in calls:
            throughput(load, workload, values)
        least = min(least, (time.perf_counter() - start) / len(calls))
    return 1e6 * least


def worst(found: Told) -> Iterator[str]:
    for case, speed in sorted(
        found, key=lambda item: -abs(item[1].tok_s_per_gpu / item[0].row.tok_s - 1)
    ):
        row = case.row
        load = "all" if row.concurrency is None else row.concurrency
        yield (
            f"{speed.tok_s_per_gpu / row.tok_s:6.2f} {row.id} {row.family} {row.precision}"
            f" tp {row.tp} pp {row.pp} adp {row.attention_dp} ep {row.ep} {row.isl}/{row.osl}"
            f" × {load}: {speed.tok_s_per_gpu:.0f} for {row.tok_s:.0f}, {speed.bound_by},"
            f" {speed.grade}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--evidence", type=Path, required=True, help="throughput.jsonl")
    parser.add_argument("--tiers", default="A", help="tiers of rows (default: A)")
    parser.add_argument("--rows", action="store_true", help="each row, the worst first")
    given = parser.parse_args()
    found, missing = told(cases_of(rows(given.evidence, given.tiers)))
    print(HEAD)
    for name, one in by_slice(found).items():
        print(line(name, one))
    print("\nby card")
    print(*grouped(found, lambda case: case.row.gpu), sep="\n")
    print("\nby engine")
    print(*grouped(found, lambda case: case.row.engine), sep="\n")
    print("\ncross-validation, by family and card")
    kept = table()["cross_validation"]
    print(*(line(name, one) for name, one in kept.items() if name != "folds"), sep="\n")
    print()
    print(*latencies(found), sep="\n")
    print(f"one call: {cost(found):.1f} microseconds")
    for why, many in missing.most_common():
        print(f"not told, {many} rows: {why}")
    if given.rows:
        print(*worst(found), sep="\n")


if __name__ == "__main__":
    main()
