"""The reading of a command line, held against SGLang's own parser in three releases.

The tables are written by scripts/check_sglang_parser.py.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from engines.commands import FILE, NOWHERE
from shardlint.engines.sglang import SGLang
from shardlint.known import Known, Text
from shardlint.plan import Launch, Reading
from shardlint.source import Mapped, Origin, Span

TABLES = sorted((Path(__file__).parent / "data").glob("sglang_parser_*.json"))
LAUNCHER = "python3 -m sglang.launch_server"
ENGINE = SGLang()

EXCUSED = {
    r"M --$": "what becomes of a bare `--` hangs on the Python",
    r"--(reasoning-parser|sampling-backend)[ =]": "more choices are registered while it runs",
    r"--config c\.yaml": "the file is opened before the parser sees a word",
}
"""Where we accept what the parser refuses, or the other way round, and why."""
FIELDS = {"max_model_len": "memory"}


@cache
def _table(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


def _launch(argv: list[str]) -> Launch:
    """Every word with a place of its own, so that blanks and empty words stay what they are."""
    found, at = [], 0
    for word in [*LAUNCHER.split(), *argv]:
        span = Span(at, at + max(1, len(word)))
        found.append(Text(Mapped.all_at(word, span), Origin(FILE, span)))
        at = span.end + 1
    return Launch(origin=NOWHERE, argv=tuple(found))


def _reading(release: str, argv: list[str]) -> Reading:
    reading = ENGINE.read(_launch(argv), ENGINE.versions(Known.of(release)))
    assert reading is not None
    return reading


def _differs(release: str, row: dict[str, Any]) -> str | None:
    """What is not as the parser has it."""
    reading = _reading(release, row["argv"])
    if row["exit"] != 0:
        return None if reading.refused else f"accepted, but {row['error']}"
    always = [item for item in reading.refused if item.when is None]
    if always:  # post-releases, which the release stands for too, may refuse more
        return f"refused: {[f'{item.written.value}: {item.problem}' for item in always]}"
    if reading.model.only != row["model"]:
        return f"the model is {reading.model.only}, not {row['model']}"
    for name, told in row["sizes"].items():
        part = getattr(reading, FIELDS.get(name, "layout"))
        fact: Known[Any] = getattr(part, name)
        ours = 1 if fact.is_unset else fact.only
        if ours != told and not (told < 1 and not fact.is_known) and fact.how != "derived":
            return f"{name} is {ours}, not {told}"
    return None


@cache
def _differing(path: Path) -> dict[str, str]:
    table, found = _table(path), {}
    for row in table["rows"]:
        if row["exit"] == 0 and "error" in row:
            continue  # help was asked for
        if (what := _differs(table["release"], row)) is not None:
            found[" ".join(row["argv"])] = what
    return found


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem.rpartition("_")[2])
def test_command_lines_are_read_as_the_parser_reads_them(path: Path) -> None:
    excused = re.compile("|".join(EXCUSED) or "$^")
    assert {} == {line: what for line, what in _differing(path).items() if not excused.search(line)}
    assert len(_table(path)["rows"]) > 300


def test_three_releases_are_held_against() -> None:
    assert ["0.4.6", "0.5.23", "0.5.5"] == [_table(path)["release"] for path in TABLES]


def test_every_excuse_is_needed() -> None:
    lines = [line for path in TABLES for line in _differing(path)]
    assert [] == [text for text in EXCUSED if not any(re.search(text, line) for line in lines)]
