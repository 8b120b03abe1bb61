"""Real public manifests: what is read of them is right, and nothing certain is said wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from harness import plugins, setup
from ruamel.yaml import YAML
from shardlint.linter import lint
from shardlint.project import Project
from shardlint.reports.inspection import as_json

KINDS = (
    "k8s-deployment",
    "k8s-statefulset",
    "k8s-job",
    "dynamo-dgd",
    "nimservice",
    "docker-compose",
    "shell",
    "production-stack-values",
    "llmd-modelservice-values",
    "helm-values",
    "helm-template",
    "leaderworkerset",
    "knative-service",
    "kthena",
    "llmaz",
    "ome",
    "rayservice",
    "aibrix",
    "kubeai-model",
    "kaito-workspace",
    "vllm-config-yaml",
    "sglang-config-yaml",
    "trtllm-config-yaml",
    "slurm",
    "skypilot",
    "systemd",
    "kserve-isvc",
    "kserve-servingruntime",
    "kserve-llmisvc",
    "kustomize-patch",
    "llmd-kustomize-patch",
)
"""Kinds of files that are read."""

ENGINES = (
    "vllm", "sglang", "trtllm", "tgi", "lmdeploy", "nim", "ollama", "llamacpp",
    "huggingfaceserver",
)  # fmt: skip
"""Engines whose options are read."""

FACTS = (
    "engine", "engine_version", "model", "tp", "pp", "dp", "ep", "gpus_per_pod", "nodes",
    "replicas", "gpu_type", "max_model_len", "quantization", "kv_cache_dtype",
    "gpu_memory_utilization",
)  # fmt: skip

DOUBTED = frozenset({
    ("docker-compose/fpolica91__triton-example__docker-compose.yml", "model"),
    ("docker-compose/fpolica91__triton-example__docker-compose.yml", "tp"),
    ("docker-compose/fpolica91__triton-example__docker-compose.yml", "gpu_memory_utilization"),
})  # fmt: skip
"""Facts that the file does not state: a folded scalar keeps the line ends of lines that are
indented further, so that these options are commands of their own to the shell."""

REVIEWED = Path(__file__).with_name("reviewed_errors.yaml")


@cache
def _index() -> tuple[Mapping[str, Any], ...]:
    path = SHARED / "corpus" / "index.yaml"
    if not path.is_file():
        return ()
    return tuple(YAML(typ="safe").load(path.read_text(encoding="utf-8"))["files"])


def compared(entry: Mapping[str, Any], corpus: Path) -> Iterator[tuple[str, Any, Any]]:
    """Field, expected and read value of each fact of the workloads of one file."""
    project = Project.discover(setup(), [str(corpus / entry["file"])], corpus)
    found = [plan["stated"] for plan in as_json(project)["plans"]]
    for engine in ENGINES:
        plans = [plan for plan in found if plan["engine"] == engine]
        wanted = [row for row in entry["expect"]["workloads"] if row["engine"] == engine]
        yield from _beside(wanted, plans)


def _beside(
    wanted: list[Mapping[str, Any]], plans: list[Mapping[str, Any]]
) -> Iterator[tuple[str, Any, Any]]:
    for index, workload in enumerate(wanted):
        read = plans[index] if index < len(plans) else {}
        for name in FACTS:
            yield name, workload[name], read.get(name)
    for extra in plans[len(wanted) :]:
        yield "plan", None, extra["model"]


def _same(wanted: Any, read: Any) -> bool:
    if isinstance(wanted, str) and isinstance(read, str) and wanted.startswith("/home/"):
        # User names were replaced in the files after some of the facts had been written down.
        wanted, read = (re.sub(r"^/home/[^/]+/", "/home/user/", path) for path in (wanted, read))
    if isinstance(wanted, str) and "/" in wanted and wanted.rpartition(":")[2] == read:
        return True  # an image whose tag is no release of its engine is given in full
    if isinstance(wanted, str) and wanted.startswith("*"):
        return isinstance(read, str) and read.endswith(wanted[1:])
    return bool(wanted == read)


def _entries() -> list[Mapping[str, Any]]:
    return [entry for entry in _index() if entry["kind"] in KINDS]


@pytest.mark.parametrize("entry", _entries(), ids=lambda entry: entry["file"])
def test_no_fact_is_read_wrongly(entry: Mapping[str, Any], shared: Path) -> None:
    """A value that the file does not state, or another value than it states."""
    wrong = [
        (name, wanted, read)
        for name, wanted, read in compared(entry, shared / "corpus")
        if read is not None and not _same(wanted, read)
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_every_stated_fact_is_read(kind: str, shared: Path) -> None:
    facts = [
        (entry["file"], name, wanted, read)
        for entry in _entries()
        if entry["kind"] == kind
        for name, wanted, read in compared(entry, shared / "corpus")
        if wanted is not None and (entry["file"], name) not in DOUBTED
    ]
    missed = [row for row in facts if row[3] is None]
    assert len(missed) <= 0.05 * len(facts), missed


def test_every_error_on_real_manifests_is_argued(shared: Path) -> None:
    """All kinds, negatives and routers included."""
    reviewed = {
        (row["file"], row["rule"], row["line"]) for row in YAML(typ="safe").load(REVIEWED) or []
    }
    corpus = shared / "corpus"
    result = lint(Project.discover(setup(), [str(corpus)], corpus)).result
    errors = {
        (finding.file, finding.name, finding.start.line)
        for finding in result.findings
        if finding.severity == "error"
    }
    assert errors - reviewed == set()
    assert reviewed - errors == set()
    assert result.files > 100


@pytest.mark.parametrize("version", ["0.33.0", "0.8.5"])
def test_a_stated_release_adds_no_unreviewed_error(version: str, shared: Path) -> None:
    """With a release given for all files, only refused options may be new errors."""
    corpus = shared / "corpus"
    told = setup(engine_version={"vllm": version})
    result = lint(Project.discover(told, [str(corpus)], corpus)).result
    allowed = {
        "flag-unknown",
        "flag-conflict",
        *(row["rule"] for row in YAML(typ="safe").load(REVIEWED) or []),
    }
    new = {f.name for f in result.findings if f.severity == "error"} - allowed
    assert new == set()


def test_nothing_certain_is_said_of_files_that_are_no_manifest(shared: Path) -> None:
    negative = shared / "corpus" / "negative"
    result = lint(Project.discover(setup(), [str(negative)], negative)).result
    assert [f for f in result.findings if f.severity == "error"] == []


def test_every_file_of_the_corpus_is_read_without_a_failure(shared: Path) -> None:
    corpus = shared / "corpus"
    files = sorted(str(path) for path in corpus.rglob("*") if path.is_file())
    project = Project.discover(setup(), files, corpus)
    lint(project)
    assert project.broken == ()
    assert plugins().broken == []
