"""The hooks as a user gets them: pre-commit installs this checkout and runs it on a repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRE_COMMIT = Path(sys.executable).with_name("pre-commit")
GOOD = ROOT / "examples/good/deployment.yaml"
BAD = ROOT / "examples/bad/deployment.yaml"

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.skipif(not PRE_COMMIT.is_file(), reason="pre-commit is not installed here"),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment without git's variables, with a cache of its own; PIP_* goes through."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[user]\nname = Test\nemail = test@example.org\n[init]\ndefaultBranch = main\n",
        encoding="utf-8",
    )
    return kept | {
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "PRE_COMMIT_HOME": str(home / "pre-commit"),
        "PRE_COMMIT_COLOR": "never",
    }


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A repository with one commit: this checkout as it lies here, committed or not."""
    copy = tmp_path_factory.mktemp("hooks")
    listed = git(ROOT, environment, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    commit(copy, environment)
    return copy


def git(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    run = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    return run.stdout


def commit(folder: Path, environment: dict[str, str]) -> str:
    """Make the folder a repository with everything committed; the commit."""
    git(folder, environment, "init", "--quiet")
    git(folder, environment, "add", "--all", "--force")
    git(folder, environment, "commit", "--quiet", "--message", "all")
    return git(folder, environment, "rev-parse", "HEAD").strip()


def pre_commit(
    folder: Path, environment: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PRE_COMMIT, *arguments],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        encoding="utf-8",
    )


def outputs(text: str) -> dict[str, str]:
    """What each hook printed, by its id; a passed hook has its status line alone."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("- hook id: "):
            name = line.removeprefix("- hook id: ")
            found[name] = ""
        elif name:
            found[name] += f"{line}\n"
    return found


def test_both_hooks_find_what_is_bad(
    hooks: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """`pre-commit try-repo` on a repository with a bad and a good manifest."""
    (tmp_path / "shardlint.toml").touch()
    shutil.copy(GOOD, tmp_path / "good.yaml")
    shutil.copy(BAD, tmp_path / "bad.yaml")
    commit(tmp_path, environment)
    run = pre_commit(tmp_path, environment, "try-repo", str(hooks), "--all-files", "--verbose")
    found = outputs(run.stdout)
    assert 1 == run.returncode, run.stdout + run.stderr
    assert ["shardlint", "shardlint-project"] == list(found)
    for text in found.values():
        assert "- exit code: 1" in text
        assert "error[SL101] tp-heads-indivisible: 28 attention heads do not divide" in text
        assert " --> bad.yaml:23:16" in text
        assert "good.yaml" not in text
        assert "2 files, 2 plans" in text


@pytest.fixture(scope="module")
def consumer(
    hooks: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A repository that has both hooks in its configuration, and a good manifest."""
    folder = tmp_path_factory.mktemp("consumer")
    revision = git(hooks, environment, "rev-parse", "HEAD").strip()
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: '{hooks.as_uri()}', rev: {revision},"
        " hooks: [{id: shardlint}, {id: shardlint-project}]}]\n",
        encoding="utf-8",
    )
    (folder / "shardlint.toml").touch()
    shutil.copy(GOOD, folder / "good.yaml")
    commit(folder, environment)
    return folder


def test_both_hooks_pass_where_nothing_is_bad(consumer: Path, environment: dict[str, str]) -> None:
    run = pre_commit(consumer, environment, "run", "--all-files")
    assert 0 == run.returncode, run.stdout + run.stderr
    assert 2 == run.stdout.count("Passed")


def test_one_hook_sees_the_commit_and_the_other_the_project(
    consumer: Path, environment: dict[str, str]
) -> None:
    """The bad manifest is in the project, and not among the files of the commit."""
    shutil.copy(BAD, consumer / "bad.yaml")
    run = pre_commit(consumer, environment, "run", "--files", "good.yaml")
    found = outputs(run.stdout)
    assert 1 == run.returncode, run.stdout + run.stderr
    assert ["shardlint-project"] == list(found)
    assert "bad.yaml:23:16" in found["shardlint-project"]
    assert 1 == run.stdout.count("Passed")
