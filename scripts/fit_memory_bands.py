"""Write how far estimates of memory are off from what engines printed, by class of models.

    python scripts/fit_memory_bands.py --evidence memory.jsonl --models FOLDER [--check]

A band is the largest residual of its class on rows that state enough (benchmarks/memory_logs.py)
and whose settings are known (a whole command, or the sequences at once), half as much again, and
never below LEAST: residuals of a dozen logs say little about the next one.
Residuals are shares of the card's memory, so that they can be compared between cards. For a class
with few logs stands the band of all rows of all classes that state enough, whatever is known of
their settings.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "benchmarks")]

from memory_accuracy import GIB, Judged, judged, kind  # noqa: E402
from memory_logs import release, rows  # noqa: E402
from shardlint.sizing.bands import DATA, WORDS  # noqa: E402

MARGIN = 1.5
LEAST = {"weights": 0.01, "below": 0.02, "above": 0.02}
"""Of the weights, and of the card's memory."""
STEP = 0.005
"""Bands are rounded up to this, so that one more log does not change the file."""


def residuals(one: Judged) -> dict[str, float]:
    """What was printed against the estimate; of KV memory as a share of the card."""
    found: dict[str, float] = {}
    if one.estimate is None:
        return found
    made = one.estimate.made
    weights, left = one.printed("weights"), one.row.available_kv_gib
    if weights is not None:
        counted = (made.weights.bytes + made.beside.loaded) / GIB
        found["weights"] = abs(counted / weights - 1)
    if left is not None:
        apart = (left * GIB - made.kv) / made.total
        found["below"], found["above"] = max(0.0, -apart), max(0.0, apart)
    return found


def usable(one: Judged) -> bool:
    """A release is needed, too: what is beside weights and cache hangs on it."""
    row = one.row
    settled = row.max_num_seqs is not None or bool(row.defaulted)
    return one.strict and settled and release(row) is not None


def widths(seen: list[dict[str, float]]) -> dict[str, float]:
    found = {}
    for key, least in LEAST.items():
        largest = max((item[key] for item in seen if key in item), default=0.0)
        found[key] = round(math.ceil(max(least, MARGIN * largest) / STEP) * STEP, 4)
    return found


def bands(found: list[Judged]) -> dict[str, Any]:
    seen = {name: [one for one in found if usable(one) and kind(one) == name] for name in WORDS}
    classes = {
        name: {
            "rows": sum(one.row.available_kv_gib is not None for one in members),
            **widths([residuals(one) for one in members]),
        }
        for name, members in seen.items()
    }
    return {"few": widths([residuals(one) for one in found if one.strict]), "classes": classes}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--evidence", type=Path, required=True, help="memory.jsonl")
    parser.add_argument("--models", type=Path, required=True, help="folder of configs")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    given = parser.parse_args(argv)
    made = {
        "schema_version": 1,
        "generated_by": "scripts/fit_memory_bands.py",
        **bands(judged(rows(given.evidence), given.models)),
    }
    text = json.dumps(made, indent=1) + "\n"
    if given.check:
        return int(DATA.read_text(encoding="utf-8") != text)
    DATA.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
