"""What a start costs, as a list of modules: no clock, so that it holds on any machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen2.5-7B-Instruct", "--tensor-parallel-size", "4"]
    resources: {limits: {nvidia.com/gpu: 4}}
  hostIPC: true
"""

SCRIPT = "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 4\n"

NEVER = frozenset(
    {
        "asyncio",
        "attrs",
        "http",
        "httpx",
        "huggingface_hub",
        "hypothesis",
        "importlib.metadata",
        "jsonschema",
        "lsprotocol",
        "multiprocessing",
        "numpy",
        "pygls",
        "pytest",
        "requests",
        "rich",
        "ssl",
        "unittest",
        "urllib.request",
        "yaml",
    }
)
"""No command that reads one file needs these."""

UNASKED = frozenset({"pathspec", "tomllib", "tree_sitter", "tree_sitter_bash"})
"""For folders, a configuration and shell."""

PARTS = frozenset(
    {
        "packaging",
        "pluggy",
        "ruamel",
        "shardlint.engines",
        "shardlint.linter",
        "shardlint.models",
        "shardlint.plugins",
        "shardlint.readers",
        "shardlint_rules",
        "shardlint_schemas",
    }
)
"""What `--help` and `--version` do without."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Outside of pytest's own folders, so that no configuration is above it."""
    with TemporaryDirectory() as name:
        yield Path(name)


def imported(folder: Path, code: str) -> set[str]:
    """All modules that are loaded after some code ran in a fresh interpreter."""
    whole = f"try:\n    {code}\nfinally:\n    import sys; print('\\n' + '\\n'.join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", whole],
        cwd=folder,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    return set(run.stdout.split("\n"))


def of_check(folder: Path, path: str) -> set[str]:
    """The modules that `shardlint check PATH` leaves loaded."""
    return imported(folder, f"import shardlint.cli; shardlint.cli.main(['check', '{path}'])")


def heavy(modules: set[str], forbidden: frozenset[str]) -> set[str]:
    """The forbidden packages among these modules, whole or in part."""
    return {
        name
        for name in forbidden
        if any(module == name or module.startswith(f"{name}.") for module in modules)
    }


def test_importing_the_command_line_imports_nothing_heavy(folder: Path) -> None:
    modules = imported(folder, "import shardlint.cli")
    assert "shardlint.cli" in modules
    assert set() == heavy(modules, NEVER | UNASKED | PARTS)


def test_checking_one_manifest_imports_what_it_needs(folder: Path) -> None:
    (folder / "pod.yaml").write_text(POD, encoding="utf-8")
    modules = of_check(folder, "pod.yaml")
    assert {"shardlint.linter", "shardlint_rules.tp_heads_indivisible"} <= modules
    assert set() == heavy(modules, NEVER | UNASKED | {"shardlint_schemas"})


def test_shell_is_parsed_only_where_there_is_shell(folder: Path) -> None:
    (folder / "serve.sh").write_text(SCRIPT, encoding="utf-8")
    modules = of_check(folder, "serve.sh")
    assert {"tree_sitter", "tree_sitter_bash"} <= modules
    assert set() == heavy(modules, NEVER | (UNASKED - {"tree_sitter", "tree_sitter_bash"}))


def test_ignore_files_are_understood_only_where_folders_are_walked(folder: Path) -> None:
    (folder / ".gitignore").write_text("old/\n", encoding="utf-8")
    (folder / "pod.yaml").write_text(POD, encoding="utf-8")
    assert "pathspec" in of_check(folder, ".")
