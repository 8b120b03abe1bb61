"""The text of an estimate: the bar, the legend, streams of any kind."""

from __future__ import annotations

import io
import json
import re

import pytest
from estimating import GIB, estimator, question
from hypothesis import given
from hypothesis import strategies as st
from shardlint.estimates import Estimate, asked_of
from shardlint.reports import estimation
from shardlint_schemas import schema


def estimate(**changed: object) -> Estimate:
    return estimator().estimate(asked_of(question(**changed)))


def text_of(found: Estimate, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    estimation.write(found, out)
    out.flush()
    return raw.getvalue().decode(encoding)


SIZES = st.integers(0, 200 * GIB)


@given(st.lists(SIZES, min_size=7, max_size=7), SIZES, st.integers(1, 200), st.booleans())
def test_bar_is_as_wide_as_it_may_be(sizes: list[int], card: int, width: int, plain: bool) -> None:
    names = list(estimation.PARTS)
    breakdown = dict(zip(names, [*sizes, card - sum(sizes)], strict=True))
    drawn = estimation.bar(breakdown, width, not plain)
    assert len(drawn) == (width if any(value > 0 for value in breakdown.values()) else 0)
    assert drawn.isascii() or not plain


@given(st.lists(SIZES, min_size=7, max_size=7), SIZES)
def test_legend_adds_up_to_the_last_digit(sizes: list[int], card: int) -> None:
    breakdown = dict(zip(estimation.PARTS, [*sizes, card - sum(sizes)], strict=True))
    total = 0
    for line in estimation.legend(breakdown, True):
        (number,) = re.findall(r"([\d.]+) GiB", line)
        total += round(100 * float(number)) * (-1 if line.startswith("!") else 1)
    assert (200 * card + GIB) // (2 * GIB) == total


def test_marks_of_parts_differ() -> None:
    for marks in zip(*estimation.PARTS.values(), strict=True):
        assert len(set(marks)) == len(marks)


def test_stream_without_unicode_gets_a_plain_bar() -> None:
    bars = {name: text_of(estimate(), name).splitlines() for name in ("utf-8", "cp1252")}
    assert any(line.startswith("██") for line in bars["utf-8"])
    assert any(line.startswith("##") for line in bars["cp1252"])


@pytest.mark.parametrize("gib", [1, 3, 5, 80])
def test_every_line_of_a_file_fits(gib: float) -> None:
    written = text_of(estimate(gpu_mem_gib=gib, engine_version="nightly", gpu="A100")).splitlines()
    assert any("██" in line for line in written)
    assert all(len(line) <= estimation.WIDTH for line in written)


def test_card_that_is_too_small_lacks_the_rest() -> None:
    found = estimate(gpu_mem_gib=1)
    text = text_of(found)
    lacking = -found.made.breakdown["unused"] / GIB
    assert f"! not there    {lacking:8.2f} GiB" in text
    assert "before the first token" in text


def test_few_logs_are_said() -> None:
    found = estimate()
    assert ("the widest band" in estimation.band_words(found)) == found.band.few
    assert "models whose layers all keep every token" in estimation.band_words(found)


def test_workload_is_set_against_what_a_replica_holds() -> None:
    enough = text_of(estimate(isl=1000, osl=24, concurrency=1, dp=2))
    assert "workload  1 × 1,024 = 1,024 tokens; a replica holds " in enough
    assert enough.count(": enough") == 1
    assert ": not enough" in text_of(estimate(isl=8000, osl=0, concurrency=10**6))
    assert "workload" not in text_of(estimate(concurrency=5))


def test_words_of_the_user_move_no_cursor() -> None:
    text = text_of(estimate(gpu="\x1b[31mFrob", gpu_mem_gib=40))
    assert "\x1b" not in text


def test_schema_is_a_schema() -> None:
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema("estimate"))
    both = json.loads(json.dumps(schema("inspect")["$defs"]["memory"]["properties"]))
    result = schema("estimate")["$defs"]["result"]["properties"]
    assert both == {name: result[name] for name in both}
