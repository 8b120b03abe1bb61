"""Files of options: the words that name them, the order of words, whose keys they have."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import shardlint
from shardlint.engines.config_files import FORMATS, knows, named, with_file
from shardlint.known import Text
from shardlint.source import Mapped, Origin, Span
from shardlint_schemas import schema


def words(line: str) -> tuple[Text, ...]:
    span = Span(0, 1)
    return tuple(Text(Mapped.all_at(word, span), Origin("a", span)) for word in line.split())


def test_data_follows_its_schema() -> None:
    path = Path(shardlint.__file__).parent / "engines" / "data" / "config_keys.json"
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), schema("config_keys"))


@pytest.mark.parametrize(
    ("engine", "line", "file"),
    [
        ("vllm", "m --config a.yaml -tp 2", "a.yaml"),
        ("vllm", "m --config=a.yaml", None),
        ("vllm", "m --config a.yaml --config b.yaml", None),
        ("vllm", "m --config", None),
        ("sglang", "--config a.yaml", "a.yaml"),
        ("trtllm", "m --extra_llm_api_options a.yaml", "a.yaml"),
        ("trtllm", "m --config=a.yaml", "a.yaml"),
    ],
)
def test_the_word_that_names_a_file(engine: str, line: str, file: str | None) -> None:
    found = named(FORMATS[engine], words(line))
    assert (found.value if found else None) == file


@pytest.mark.parametrize(
    ("line", "whole"),
    [("m -tp 2", "m A -tp 2"), ("-tp 2", "A -tp 2"), ("", "A")],
)
def test_the_words_of_the_file_stand_before_options(line: str, whole: str) -> None:
    assert " ".join(word.value or "" for word in with_file(words(line), words("A"))) == whole


@pytest.mark.parametrize(
    ("engine", "key", "known"),
    [
        ("vllm", "tensor_parallel-size", True),
        ("vllm", "disable-log-requests", True),  # of older releases
        ("vllm", "tensor_parallel", False),
        ("vllm", "tp", False),
        ("sglang", "mem-fraction-static", True),
        ("sglang", "max_model_len", False),
        ("trtllm", "kv_cache_config", True),
    ],
)
def test_keys_that_an_engine_knows(engine: str, key: str, known: bool) -> None:
    assert knows(engine, key) is known
