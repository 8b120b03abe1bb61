"""Tables of single engines: they have their schema, and say what releases have."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from harness import check, places, plugins
from shardlint.engines.tabled import Table, TabledEngine
from shardlint.known import Known
from shardlint.plan import Releases
from shardlint_schemas import schema

ENGINES = [engine for engine in plugins().engines() if isinstance(engine, TabledEngine)]
IMAGE = "ghcr.io/huggingface/text-generation-inference"


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_the_table_has_its_schema(engine: TabledEngine) -> None:
    jsonschema.validate(engine.table.data, schema("engine_table"))
    assert engine.name == engine.table.data["engine"]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_options_of_a_table_are_of_its_releases(engine: TabledEngine) -> None:
    known = set(engine.table.releases)
    for row in engine.table.data.get("options", ()):
        named = {row["first_seen"], row["last_seen"], row.get("first_gone", row["last_seen"])}
        assert named <= known
    stated = {name for names in engine.table.row["options"].values() for name in names}
    options = {row["flag"] for row in engine.table.data.get("options", ())}
    assert not options or stated <= options


@pytest.mark.parametrize(
    ("table", "tag", "wanted"),
    [
        ("tgi", "2.0.4", Releases("2.0.4", "2.0.4")),
        ("tgi", "3.3.5-rocm", Releases("3.3.5", "3.3.5")),
        ("tgi", "1.3", Releases("1.3.0", "1.3.4")),
        ("tgi", "2-1", Releases("2.1.0", "2.1.1")),
        ("tgi", "latest", None),
        ("tgi", "sha-1234567", None),
        ("tgi", "9.9", None),
        ("lmdeploy", "v0.7.0-cu12", Releases("0.7.0", "0.7.0")),
        ("lmdeploy", "v0.9.2.post1-cu12", Releases("0.9.2.post1", "0.9.2.post1")),
        ("tensorrt_llm", "1.2.0rc3", Releases("1.2.0rc3", "1.2.0rc3")),
        ("tensorrt_llm", "25.06-trtllm-python-py3", None),
    ],
)
def test_release_of_a_tag(table: str, tag: str, wanted: Releases | None) -> None:
    assert wanted == Table(table).release(tag)


def test_a_tag_that_names_no_release_is_any_of_them() -> None:
    found = ENGINES[0].versions(Known.of("latest"))
    opened = ENGINES[0].table.releases
    assert "defaulted" == found.how
    assert Releases(opened[0], opened[-1]) == found.only


def told(command: str, name: str, **more: Any) -> list[tuple[str, str, str]]:
    """Rule, severity and token of the findings of one rule."""
    found = [item for item in check(command, **more).findings if item.name == name]
    return places(found, command)


@pytest.mark.parametrize(
    ("command", "severity"),
    [
        (f"docker run {IMAGE}:3.3.5 --model-id org/m --num-shards 4", "error"),
        (f"docker run {IMAGE}:latest --model-id org/m --num-shards 4", "error"),
        (f"docker run {IMAGE}:1.1.0 --model-id org/m --cuda-graphs 1", "error"),
        ("lmdeploy serve api_server org/m --tensor-parallel 2", "warning"),
        ("docker run openmmlab/lmdeploy:v0.13.0 lmdeploy serve api_server org/m --tpp 2", "error"),
        (
            "docker run openmmlab/lmdeploy:v0.13.1 lmdeploy serve api_server org/m --tpp 2",
            "warning",
        ),
    ],
)
def test_an_option_that_no_release_has_is_refused(command: str, severity: str) -> None:
    (found,) = told(command, "flag-unknown")
    assert severity == found[1]


@pytest.mark.parametrize(
    "command",
    [
        f"docker run {IMAGE}:latest --model-id org/m --cuda-graphs 1 --enable-cuda-graphs",
        f"docker run {IMAGE}:3.3.5 --model-id org/m -p 3000 --port 80",
        f"docker run {IMAGE}:3.3.5 --model-id org/m --trust-remote-code --sharded true",
        "text-generation-launcher --help",
        "lmdeploy serve api_server org/m --cache-max 0.5",
        "trtllm-serve org/m --some_option_of_tomorrow 3",
    ],
)
def test_an_option_that_some_release_may_have_is_not(command: str) -> None:
    assert [] == [row for row in told(command, "flag-unknown") if row[1] == "error"]


def test_a_misspelt_option_is_mended() -> None:
    command = f"docker run {IMAGE}:3.3.5 --model-id org/m --num-shards 4"
    (finding,) = [f for f in check(command).findings if f.name == "flag-unknown"]
    assert "did you mean `--num-shard`?" == finding.help
    (fix,) = finding.fixes
    assert ("safe", "--num-shard") == (fix.applicability, fix.edits[0].text)
