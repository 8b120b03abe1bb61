"""A file of measurements: what is read, and what is refused with a reason."""

from __future__ import annotations

import math
from typing import Any

import pytest
from shardlint.recommendations import Measured, MeasuredError, measured_of
from shardlint.recommendations.measured import scale


def test_rows_are_read_and_null_is_not_stated() -> None:
    (row,) = measured_of([{"tp": 2.0, "output_tok_s": 400, "tpot_ms": None, "hit_rate": 0}])
    assert Measured(tp=2, output_tok_s=400, hit_rate=0) == row


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "a list of measurements is needed"),
        ({"tp": 2}, "a list of measurements is needed"),
        (["x"], "row 1 is no map"),
        ([{"tp": 2}], "row 1: output_tok_s is missing"),
        ([{"output_tok_s": None}], "row 1: output_tok_s is missing"),
        ([{"output_tok_s": 1, "tok": 2}], "row 1: 'tok' is not known; known are tp, pp"),
        ([{"output_tok_s": 1}, {"output_tok_s": "x"}], "row 2: output_tok_s is no number"),
        ([{"output_tok_s": True}], "row 1: output_tok_s is no number"),
        ([{"output_tok_s": math.inf}], "row 1: output_tok_s is no number"),
        ([{"output_tok_s": 0}], "row 1: output_tok_s cannot be 0"),
        ([{"output_tok_s": 1, "tp": 1.5}], "row 1: tp is no whole number"),
        ([{"output_tok_s": 1, "tp": -1}], "row 1: tp cannot be -1"),
        ([{"output_tok_s": 1, "hit_rate": 2}], "row 1: hit_rate cannot be 2"),
    ],
)
def test_mistakes_are_named(rows: Any, message: str) -> None:
    with pytest.raises(MeasuredError) as caught:
        measured_of(rows)
    assert str(caught.value).startswith(message)


def test_factor_is_the_geometric_mean() -> None:
    rows = measured_of([{"output_tok_s": 200}, {"output_tok_s": 50, "tp": 2}, {"output_tok_s": 1}])
    told = {1: 100.0, 2: 100.0}
    factor = scale(rows[:2], lambda row: told.get(row.tp))
    assert factor is not None
    assert math.isclose(1, factor)
    assert scale(rows, lambda _row: None) is None
