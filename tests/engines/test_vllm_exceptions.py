"""Exceptions of model classes: data that its schema describes, and what follows from it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from harness import check
from shardlint.engines import vllm
from shardlint_schemas import schema

DATA = Path(vllm.__file__).parent / "data" / "vllm_exceptions.json"


def test_data_follows_its_schema() -> None:
    jsonschema.validate(json.loads(DATA.read_text(encoding="utf-8")), schema("vllm_exceptions"))


def test_a_class_that_copies_no_heads_is_not_said_to_store_copies() -> None:
    result = check("vllm serve openai/gpt-oss-120b -tp 16\n", gpus_per_node=16)
    assert "kv-replication" not in [finding.name for finding in result.findings]


def test_a_class_that_copies_heads_is_said_to_store_copies() -> None:
    result = check("vllm serve Qwen/Qwen3-235B-A22B -tp 8\n", gpus_per_node=8)
    assert ["kv-replication"] == [finding.name for finding in result.findings]
