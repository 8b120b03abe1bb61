"""Write how far estimates of memory are off from what engines printed, by class of models.

    python scripts/fit_memory_bands.py --evidence memory.jsonl --models FOLDER [--check]

A band is the largest residual of its class on rows that state enough (see benchmarks/evidence.py),
half as much again, and never below LEAST: residuals of a dozen logs say little about the next one.
Residuals are shares of the card's memory, so that they can be compared between cards. A class with
few logs is not used by its own band: `sizing.bands` takes the widest then.
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

from evidence import rows  # noqa: E402
from memory_accuracy import GIB, Judged, judged, kind  # noqa: E402
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
        found["weights"] = abs(made.weights.bytes / GIB / weights - 1)
    if left is not None:
        apart = (left * GIB - made.kv) / made.total
        found["below"], found["above"] = max(0.0, -apart), max(0.0, apart)
    return found


def bands(found: list[Judged]) -> dict[str, Any]:
    classes: dict[str, Any] = {}
    for name in WORDS:
        seen = [residuals(one) for one in found if one.strict and kind(one) == name]
        own: dict[str, Any] = {"rows": sum("below" in item for item in seen)}
        for key, least in LEAST.items():
            largest = max((item[key] for item in seen if key in item), default=0.0)
            own[key] = round(math.ceil(max(least, MARGIN * largest) / STEP) * STEP, 4)
        classes[name] = own
    return classes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--evidence", type=Path, required=True, help="memory.jsonl")
    parser.add_argument("--models", type=Path, required=True, help="folder of configs")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    given = parser.parse_args()
    made = {
        "schema_version": 1,
        "generated_by": "scripts/fit_memory_bands.py",
        "classes": bands(judged(rows(given.evidence), given.models)),
    }
    text = json.dumps(made, indent=1) + "\n"
    if given.check:
        return int(DATA.read_text(encoding="utf-8") != text)
    DATA.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
