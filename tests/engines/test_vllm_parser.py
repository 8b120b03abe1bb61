"""The reading of a command line, held against vLLM's own parser in four releases.

The tables are written by scripts/check_vllm_parser.py.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from engines.commands import ENGINE, FILE, NOWHERE
from shardlint.known import Known, Text
from shardlint.plan import Launch, Reading
from shardlint.source import Mapped, Origin, Span

TABLES = sorted((Path(__file__).parent / "data").glob("vllm_parser_*.json"))
LAUNCHERS = {"serve": "vllm serve", "module": "python3 -m vllm.entrypoints.openai.api_server"}

EXCUSED = {
    r"--lora-m\S*[ =](text|no such thing|1\.5K)": "its own action looks for NAME=PATH or JSON",
    r"--prompt-adapters[ =](text|no such thing)": "its own action looks for NAME=PATH",
    r"--reasoning-parser[ =]": "plugins may register more parsers",
    r"-backend no such thing|--mm-processor-device[ =]": "rewritten before it is looked up",
    r"-cc\.a 1|--kv-transfer-config\.some_key": "the configuration judges keys",
    r"--compilation-config 3": "the configuration judges what JSON holds",
    r"--tensor-parallel-size 0": "the parser takes it, the configuration does not",
}
"""Where we accept what the parser refuses, or the other way round, and why."""

SIZES = {
    "tensor_parallel_size": "layout.tp",
    "pipeline_parallel_size": "layout.pp",
    "data_parallel_size": "layout.dp",
    "max_model_len": "memory.max_model_len",
}


@cache
def _table(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


def _launch(mode: str, argv: list[str]) -> Launch:
    """Every word with a place of its own, so that blanks and empty words stay what they are."""
    found, at = [], 0
    for word in [*LAUNCHERS[mode].split(), *argv]:
        span = Span(at, at + max(1, len(word)))
        found.append(Text(Mapped.all_at(word, span), Origin(FILE, span)))
        at = span.end + 1
    return Launch(origin=NOWHERE, argv=tuple(found))


def _reading(release: str, row: dict[str, Any]) -> Reading:
    reading = ENGINE.read(_launch(row["mode"], row["argv"]), ENGINE.versions(Known.of(release)))
    assert reading is not None
    return reading


def _differs(row: dict[str, Any], reading: Reading) -> str | None:
    """What is not as the parser has it."""
    refused = [f"{item.written.value}: {item.problem}" for item in reading.refused]
    if row["exit"] != 0:
        return None if refused else f"accepted, but {row['error']}"
    if refused:
        return f"refused: {refused}"
    for name, path in SIZES.items():
        part, _, field = path.partition(".")
        fact: Known[Any] = getattr(getattr(reading, part), field)
        told = row["sizes"][name]
        default = None if name == "max_model_len" else 1
        ours = default if fact.is_unset else fact.only
        if ours != told and not (told == -1 and not fact.is_known):
            return f"{name} is {ours}, not {told}"
    return None


@cache
def _differing(path: Path) -> dict[str, str]:
    table = _table(path)
    found = {}
    for row in table["rows"]:
        if row["exit"] == 0 and "error" in row:
            continue  # help was asked for
        if (what := _differs(row, _reading(table["release"], row))) is not None:
            found[f"{row['mode']} {' '.join(row['argv'])}"] = what
    return found


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem.rpartition("_")[2])
def test_command_lines_are_read_as_the_parser_reads_them(path: Path) -> None:
    excused = re.compile("|".join(EXCUSED))
    assert {} == {line: what for line, what in _differing(path).items() if not excused.search(line)}
    assert len(_table(path)["rows"]) > 1000


def test_every_excuse_is_needed() -> None:
    lines = [line for path in TABLES for line in _differing(path)]
    assert [] == [text for text in EXCUSED if not any(re.search(text, line) for line in lines)]


def test_nothing_but_a_size_of_zero_is_refused_that_the_parser_takes() -> None:
    """The other excuses are of what we do not say."""
    found = {line for path in TABLES for line, what in _differing(path).items()
             if what.startswith("refused")}  # fmt: skip
    assert found == {f"{mode} M --tensor-parallel-size 0" for mode in LAUNCHERS}
