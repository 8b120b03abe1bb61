"""The memory model against what real engines printed: the bars, and no start called an error.

`pytest -rP tests/evidence/test_memory.py` prints the tables of benchmarks/memory_accuracy.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def accuracy() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import memory_accuracy

    yield memory_accuracy
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def found(accuracy: Any, shared: Path) -> list[Any]:
    rows = accuracy.rows(shared / "evidence" / "memory.jsonl")
    judged: list[Any] = accuracy.judged(rows, shared / "models")
    return judged


def errors(found: list[Any], quantity: str) -> list[float]:
    tight = [one for one in found if one.strict and not one.unified]
    return [error for one in tight if (error := one.error(quantity)) is not None]


@pytest.mark.parametrize(
    ("quantity", "middle", "most", "within"),
    [
        ("weights", 0.003, 0.02, 0.95),
        ("KV GiB", 0.03, None, 0.78),
        ("KV tokens", 0.03, None, 0.88),
        ("concurrency", 0.03, None, 0.88),
    ],
)
def test_rows_that_state_enough_are_met(
    accuracy: Any, found: list[Any], quantity: str, middle: float, most: float | None, within: float
) -> None:
    cell = accuracy.cell(errors(found, quantity))
    assert cell.median <= middle
    assert most is None or cell.p90 <= most
    assert cell.within >= within


def test_models_whose_layers_are_alike_are_met_closely(accuracy: Any, found: list[Any]) -> None:
    plain = [one for one in found if accuracy.kind(one) == "plain"]
    cell = accuracy.cell(errors(plain, "KV GiB"))
    assert (cell.median <= 0.015, cell.within) == (True, 1.0)


def test_no_start_that_went_well_is_called_an_error(found: list[Any]) -> None:
    fine = [one for one in found if one.estimate is not None and one.row.outcome == "ok"]
    assert len(fine) > 50
    assert [] == [one.row.id for one in fine if one.estimate.verdict == "does_not_fit"]


def test_failures_are_caught(accuracy: Any, found: list[Any]) -> None:
    usual = [one for one in found if one.outcome is not None and not one.unified]
    failed = [one for one in usual if one.row.outcome in ("oom", "max_len_error")]
    caught = [one for one in failed if one.outcome != "ok"]
    assert len(caught) >= 0.8 * len(failed) > 8


def test_bands_are_those_of_the_logs(shared: Path) -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import fit_memory_bands
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    folder = shared / "evidence" / "memory.jsonl"
    given = ["--evidence", str(folder), "--models", str(shared / "models"), "--check"]
    assert 0 == fit_memory_bands.main(given)


def test_printed_memory_lies_in_the_band(found: list[Any]) -> None:
    """Of rows that state enough; a class with few logs has the band of all."""
    outside = []
    for one in found:
        if not one.strict or one.estimate is None or one.row.available_kv_gib is None:
            continue
        made, band = one.estimate.made, one.estimate.band
        apart = one.row.available_kv_gib * 2**30 - made.kv
        if not -band.below <= apart <= band.above + made.beside.doubtful:
            outside.append(one.row.id)
    assert [] == outside
