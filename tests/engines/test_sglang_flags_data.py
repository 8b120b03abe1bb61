"""The table of SGLang's options: its shape, and what single releases are known to take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from shardlint.engines.flags import FlagTable, FlagView
from shardlint_schemas import schema

PATH = Path(__file__).parents[2] / "lint/shardlint/engines/data/sglang_flags.json"
TABLE = FlagTable("sglang")


def view(release: str) -> FlagView:
    found = TABLE.of(release)
    assert found is not None
    return found


def test_it_is_valid() -> None:
    table: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
    errors = Draft202012Validator(schema("engine_flags")).iter_errors(table)
    assert [] == [f"{error.json_path}: {error.message[:100]}" for error in errors]
    assert len(table["releases"]) > 90


def test_the_newest_release_has_as_many_options_as_were_counted() -> None:
    """522 generated ones and those that are registered by hand; 548 spellings."""
    options = {id(option): option for option, _ in view("0.5.23").by_name.values()}
    assert 532 == len({option.name for option in options.values()})
    written = {name for name, (_, negated) in view("0.5.23").by_name.items() if not negated}
    assert 548 == len(written - {"-h"})


@pytest.mark.parametrize(
    ("release", "name", "wanted"),
    [
        ("0.5.23", "--tp", "--tp-size"),
        ("0.5.23", "--dp", "--dp-size"),
        ("0.5.23", "--attn-dp", "--attn-dp-size"),
        ("0.5.23", "--attn-cp", "--attn-cp-size"),
        ("0.5.23", "--moe-dp", "--moe-dp-size"),
        ("0.5.23", "--mem-fraction", "--mem-fraction-static"),
        ("0.5.23", "--ep", "--ep-size"),
        ("0.5.23", "--pp", None),
        ("0.5.23", "--dcp", None),
        ("0.5.23", "--context", None),
        ("0.5.23", "--quant", None),
        ("0.5.23", "--page", None),
        ("0.5.23", "--enable-dp", None),
        ("0.5.23", "--cuda-graph-max-bs", None),
        ("0.5.10", "--cuda-graph-max-bs", "--cuda-graph-max-bs"),
        ("0.4.0", "--tensor-parallel-size", "--tp-size"),
    ],
)
def test_prefixes(release: str, name: str, wanted: str | None) -> None:
    found = view(release).resolve(name)
    assert found is not None
    option = found[0]
    assert wanted == (None if isinstance(option, str) else option.name)


@pytest.mark.parametrize(
    ("name", "first", "gone"),
    [
        ("--attn-dp-size", "0.5.22", None),
        ("--enable-dp-attention", "0.4.0", None),
        ("--enable-ep-moe", "0.4.0.post1", "0.5.4.post1"),
        ("--config", "0.5.3", None),
    ],
)
def test_history(name: str, first: str, gone: str | None) -> None:
    history = TABLE.history(name)
    assert history is not None
    assert (first, gone) == (history.first_seen, history.first_gone)


def test_names_are_taken_as_they_are_written() -> None:
    assert view("0.5.23").resolve("--tp_size") is None
    assert TABLE.history("--tp_size") is None


def test_what_a_release_says_of_its_successors() -> None:
    assert "--cuda-graph-bs-decode" == TABLE.replaced_by("--cuda-graph-bs")
    assert "--moe-a2a-backend deepep" == TABLE.replaced_by("--enable-deepep-moe")


def test_a_retired_option_is_known_and_refused() -> None:
    option = view("0.5.4").named("--enable-deepep-moe")
    assert option is not None
    assert option.refused is not None
    assert view("0.4.6").named("--enable-deepep-moe").refused is None  # type: ignore[union-attr]
