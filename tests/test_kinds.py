"""Every kind that a reader names has an example that is read, and the page shows what comes out."""

from __future__ import annotations

from pathlib import Path

import kinds_page
import pytest
from harness import plugins
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plugins import Reader
from shardlint.project import Project, Setup

BUILT_IN = plugins()
KINDS = [
    pytest.param(reader, kind, id=f"{reader.name}-{kind}".replace(" ", "-"))
    for reader in BUILT_IN.readers()
    for kind in kinds_page.kinds(reader)
]


def read(path: Path) -> Project:
    return Project.of_texts(Setup(BUILT_IN), kinds_page.texts(path))


@pytest.mark.parametrize(("reader", "kind"), KINDS)
def test_an_example_of_a_kind_is_a_plan_without_errors(reader: Reader, kind: str) -> None:
    paths = list(kinds_page.examples(reader, kind))
    assert paths
    for path in paths:
        found = read(path)
        assert found.plans
        assert [] == [
            item for item in fixes.with_fixes(lint(found)).findings if item.severity == "error"
        ]


@pytest.mark.parametrize("path", kinds_page.unread(), ids=lambda path: path.name)
def test_an_example_of_what_is_not_read_gives_nothing(path: Path) -> None:
    found = read(path)
    assert () == tuple(found.plans)
    assert [] == list(fixes.with_fixes(lint(found)).findings)


def test_all_readers_name_their_kinds() -> None:
    named = {reader.name for reader in BUILT_IN.readers() if kinds_page.kinds(reader)}
    folders = {path.name for path in (kinds_page.ROOT / kinds_page.EXAMPLES).iterdir()}
    assert folders - {"unread"} == named


def test_no_example_is_of_a_kind_that_no_reader_names() -> None:
    shown = {
        path
        for reader in BUILT_IN.readers()
        for kind in kinds_page.kinds(reader)
        for path in kinds_page.examples(reader, kind)
    }
    folders = (kinds_page.ROOT / kinds_page.EXAMPLES).iterdir()
    there = {path for folder in folders if folder.name != "unread" for path in folder.iterdir()}
    assert there == shown


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.2
          args: [--model, Qwen/Qwen3-8B, --tensor-parallel-size, "2"]
          resources: {limits: {nvidia.com/gpu: 2}}
"""


def test_cells_tell_what_is_written_edited_and_absent() -> None:
    cells = kinds_page.cells(Setup(BUILT_IN), {"d.yaml": DEPLOYMENT})
    assert cells["engine_version"] == kinds_page.READ
    assert cells["tp"] == kinds_page.EDITED
    assert cells["pp"] == kinds_page.WRITTEN
    assert cells["max_replicas"] == kinds_page.NOTHING
