"""`--diff-base`: what is told of a project beside what it was at a git revision."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from shardlint.cli import main

POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.2
          args: [Qwen/Qwen2.5-7B-Instruct, --tensor-parallel-size, "8"]
          resources: {limits: {nvidia.com/gpu: 8}}
"""


def git(folder: Path, *words: str) -> str:
    names = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    done = subprocess.run(["git", *words], cwd=folder, env={**os.environ, **names},
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two manifests with an error each, committed."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(POD % name, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "both")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["check", "--format", "json", "--diff-base", "HEAD", *words])
    assert done.exit_code in (0, 1), done.output
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_nothing_is_told_where_nothing_changed(repository: Path) -> None:
    assert found() == []


def test_what_moved_did_not_change(repository: Path) -> None:
    change(repository / "one.yaml", "apiVersion", "# a comment\n\napiVersion")
    assert found() == []


def test_only_changed_plans_are_told_of(repository: Path) -> None:
    change(repository / "one.yaml", "replicas: 2", "replicas: 4")
    rows = found()
    assert {row["file"] for row in rows} == {"one.yaml"}
    assert "tp-heads-indivisible" in {row["name"] for row in rows}
    (count,) = [row for row in rows if row["name"] == "gpu-count-changed"]
    assert count["message"] == "16 → 32 GPUs (replicas 2 → 4)"
    assert (count["start"]["line"], count["severity"]) == (5, "info")


def test_new_files_are_told_of(repository: Path) -> None:
    (repository / "three.yaml").write_text(POD % "three", encoding="utf-8")
    assert {row["file"] for row in found()} == {"three.yaml"}


def test_a_change_of_a_base_is_one_of_its_overlays(repository: Path) -> None:
    (repository / "one").mkdir()
    overlay = "resources: [../one.yaml]\npatches: [{path: p.yaml}]\n"
    (repository / "one" / "kustomization.yaml").write_text(overlay, encoding="utf-8")
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: one}\nspec: {replicas: 3}\n"
    (repository / "one" / "p.yaml").write_text(patch, encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "overlay")
    assert found() == []
    change(repository / "one" / "p.yaml", "3", "5")
    (count,) = [row for row in found() if row["name"] == "gpu-count-changed"]
    assert count["message"] == "24 → 40 GPUs (replicas 3 → 5)"
    (repository / "one" / "p.yaml").unlink()
    change(repository / "one" / "kustomization.yaml", "patches: [{path: p.yaml}]", "")
    (count,) = [row for row in found() if row["name"] == "gpu-count-changed"]
    assert count["message"] == "24 → 16 GPUs (replicas 3 → 2)"


def test_a_subfolder_is_enough(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "sub").mkdir()
    monkeypatch.chdir(repository / "sub")
    change(repository / "one.yaml", "replicas: 2", "replicas: 4")
    assert {row["file"] for row in found("..")} == {"../one.yaml"}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_git_is_not_written_to(repository: Path) -> None:
    change(repository / "one.yaml", "replicas: 2", "replicas: 4")
    before = {
        path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()
    }
    found()
    after = {path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()}
    assert before == after


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--diff-base", "nothing"], "there is no such revision"),
        (["--diff-base", "--output=x"], "there is no such revision"),
        (["--diff-base", "HEAD", "--fix"], "only tells"),
        (["--diff-base", "HEAD", "-"], "standard input"),
    ],
)
def test_what_cannot_be_compared_is_said(repository: Path, words: list[str], why: str) -> None:
    done = CliRunner().invoke(main, ["check", *words])
    assert done.exit_code == 2
    assert why in done.stderr


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    done = CliRunner().invoke(main, ["check", "--diff-base", "HEAD"])
    assert done.exit_code == 2
    assert "not a git repository" in done.stderr
