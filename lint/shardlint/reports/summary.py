"""What a run looked at and what it left open, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.plugins import Result
from shardlint.reports.words import counted, listed, printable

MAX_LINES = 5
MAX_NAMES = 3


def summary(result: Result) -> str:
    """What was found, left open and looked at: "1 error, 3 rules undecided in 1 plan; 4 files"."""
    found = [
        counted(count, noun)
        for noun in ("error", "warning", "info")
        if (count := result.summary()[f"{noun}s"])
    ]
    parts = [*(found or ["no findings"]), *_left_open(result)]
    text = f"{', '.join(parts)}; {counted(result.files, 'file')}, {counted(result.plans, 'plan')}"
    return text[0].upper() + text[1:]


def _left_open(result: Result) -> Iterator[str]:
    if result.undecided:
        rules = counted(len(result.undecided), "rule")
        plans = counted(len({item.plan for item in result.undecided}), "plan")
        yield f"{rules} undecided in {plans} (use inspect to see why)"
    if result.suppressed:
        yield f"{result.suppressed:,} suppressed"
    if result.skipped:
        yield f"{counted(len(result.skipped), 'file')} skipped"


def undecided(result: Result) -> list[str]:
    """One line per plan and missing fact, with the rules that wait for it."""
    groups: dict[tuple[str, str], tuple[set[str], dict[str, None]]] = {}
    for item in result.undecided:
        needs, rules = groups.setdefault((item.plan, item.reason), (set(), {}))
        needs.add(item.needs)
        rules[item.name] = None
    return _capped(
        [
            f"undecided in {plan}: {listed(list(rules), MAX_NAMES)} "
            f"({', '.join(sorted(needs))}: {reason})"
            for (plan, reason), (needs, rules) in groups.items()
        ]
    )


def skipped(result: Result) -> list[str]:
    """One line per file that was not read."""
    return _capped([f"skipped {file}: {reason}" for file, reason in result.skipped])


def _capped(lines: list[str]) -> list[str]:
    shown = [printable(line) for line in lines[:MAX_LINES]]
    rest = len(lines) - len(shown)
    return [*shown, f"and {rest:,} more"] if rest else shown
