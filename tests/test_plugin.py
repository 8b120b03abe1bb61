"""Third parties: a real package, installed by pip, that knows the public API alone."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import plugins

TOY = Path(__file__).with_name("toy_plugin")
PATHS = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
"""Where this interpreter looks, too."""

BROKEN = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "shardlint-broken"
version = "0.3.1"

[project.entry-points.shardlint]
broken = "shardlint_broken"
""",
    "shardlint_broken.py": 'raise RuntimeError("out of order")\n',
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the plugin of this repository and one that is broken."""
    broken = tmp_path_factory.mktemp("broken")
    for name, text in BROKEN.items():
        (broken / name).write_text(text, encoding="utf-8")
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    if importlib.util.find_spec("hatchling"):
        pip.append("--no-build-isolation")
    subprocess.run([*pip, "--target", target, TOY, broken], check=True)
    return target


def shardlint(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardlint.cli", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), *PATHS])},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy = "model = Qwen/Qwen2.5-7B-Instruct\ntp = 8\ngpus = 8\n"
    (tmp_path / "shardlint.toml").touch()
    (tmp_path / "serve.toy").write_text(toy, encoding="utf-8")
    script = "vllm serve google/gemma-2b-it\n"
    (tmp_path / "serve.sh").write_text(script, encoding="utf-8")
    return tmp_path


def test_rule_of_a_plugin_runs_and_has_its_page(installed: Path, folder: Path) -> None:
    run = shardlint(installed, folder, "check", "serve.sh", "--select", "TOY", "--format", "places")
    assert "serve.sh:1:12 model-not-ours\n" == run.stdout
    assert 0 == run.returncode
    page = shardlint(installed, folder, "explain", "model-not-ours").stdout
    assert page.startswith("TOY001 model-not-ours (warning)\n\nThe model is not one that")


def test_a_folder_is_searched_for_the_files_of_a_plugins_reader(
    installed: Path, folder: Path
) -> None:
    run = shardlint(installed, folder, "check", ".", "--ignore", "SL904", "--format", "places")
    assert "serve.toy:2:6 tp-heads-indivisible\n" in run.stdout


def test_rule_of_a_plugin_is_silent_where_it_holds(installed: Path, folder: Path) -> None:
    (folder / "serve.sh").write_text("vllm serve Qwen/Qwen2.5-7B-Instruct\n", encoding="utf-8")
    run = shardlint(installed, folder, "check", "serve.sh", "--select", "TOY", "--format", "places")
    assert "" == run.stdout


def test_plan_of_a_plugins_reader_is_linted_by_built_in_rules(
    installed: Path, folder: Path
) -> None:
    run = shardlint(installed, folder, "check", "serve.toy", "--format", "json")
    (finding,) = (item for item in json.loads(run.stdout)["findings"] if item["rule"] != "SL904")
    assert "tp-heads-indivisible" == finding["name"]
    assert "error" == finding["severity"]
    assert (2, 6) == (finding["start"]["line"], finding["start"]["column"])
    assert 1 == run.returncode


def test_fix_is_written_through_the_sites_of_a_plugin(installed: Path, folder: Path) -> None:
    shardlint(installed, folder, "check", "serve.toy", "--unsafe-fixes")
    text = (folder / "serve.toy").read_text(encoding="utf-8")
    assert "model = Qwen/Qwen2.5-7B-Instruct\ntp = 4\ngpus = 4\n" == text


def test_plan_of_a_plugins_engine_is_linted_by_built_in_rules(
    installed: Path, folder: Path
) -> None:
    (folder / "serve.sh").write_text(
        "toyserve Qwen/Qwen2.5-7B-Instruct --shards 8\n", encoding="utf-8"
    )
    run = shardlint(installed, folder, "check", "serve.sh", "--ignore", "SL904")
    assert "28 attention heads do not divide over tensor parallel size 8" in run.stdout
    assert "Toyserve refuses to start ('heads left over')" in run.stdout
    assert 1 == run.returncode


@pytest.mark.parametrize(
    ("options", "gpus", "version"),
    [
        ((), 8, "2.0.0 to 2.4.0"),
        (("--engine-version", "box=1.9.0"), 1, "1.9.0"),
        (("--engine-version", "toybox=2.1"), 8, "2.1.x"),
    ],
)
def test_release_of_a_plugins_platform_can_be_told(
    installed: Path, folder: Path, options: tuple[str, ...], gpus: int, version: str
) -> None:
    run = shardlint(installed, folder, "inspect", "serve.toy", "--format", "json", *options)
    (plan,) = json.loads(run.stdout)["plans"]
    assert (gpus, version) == (plan["effective"]["gpus_per_pod"], plan["platform_version"])


ENGINE = "toyserve"
"""The engine of the plugin, by its command."""


def of_engine(installed: Path, folder: Path, command: str) -> dict[str, dict[str, object]]:
    """The findings of a script that starts the plugin's engine, by the name of their rule."""
    (folder / "serve.sh").write_text(f"{command}\n", encoding="utf-8")
    run = shardlint(installed, folder, "check", "serve.sh", "--format", "json")
    return {item["name"]: item for item in json.loads(run.stdout)["findings"]}


def test_engine_of_a_plugin_is_judged_by_built_in_rules_alone(
    installed: Path, folder: Path
) -> None:
    """Its options, what became of them and of the engine itself are in its table."""
    found = of_engine(installed, folder, f"{ENGINE} Qwen/Qwen2.5-7B-Instruct --shard 4")
    assert "did you mean `--shards`?" == found["flag-unknown"]["help"]
    told = "Toyserve has no maintainer any more since 2026-01-31"
    assert (told, "info") == (found["engine-eol"]["message"], found["engine-eol"]["severity"])
    old = of_engine(installed, folder, f"{ENGINE} Qwen/Qwen2.5-7B-Instruct --parts 4")
    assert "`--parts` is an older name" == old["flag-deprecated"]["message"]


def test_options_of_a_plugins_engine_are_mended(installed: Path, folder: Path) -> None:
    command = f"{ENGINE} Qwen/Qwen2.5-7B-Instruct --parts 8\n"
    (folder / "serve.sh").write_text(command, encoding="utf-8")
    shardlint(installed, folder, "check", "serve.sh", "--unsafe-fixes")
    mended = f"{ENGINE} Qwen/Qwen2.5-7B-Instruct --shards 7\n"
    assert mended == (folder / "serve.sh").read_text(encoding="utf-8")


def test_engine_of_a_plugin_is_one_module_and_one_table() -> None:
    """Nothing else had to change for it: its name stands nowhere else in the house."""
    root = TOY.parent.parent
    places = [root / "lint", root / "rules", root / "schemas", TOY]
    named = {
        path.relative_to(root).as_posix()
        for place in places
        for pattern in ("*.py", "*.json")
        for path in place.rglob(pattern)
        if ENGINE in path.read_text(encoding="utf-8").lower()
    }
    package = "tests/toy_plugin/shardlint_toy"
    assert {f"{package}/engine.py", f"{package}/toyserve.json"} == named


def test_no_rule_names_an_engine() -> None:
    """Messages and tests of built-in rules hold for every engine; pages may tell of one."""
    rules = TOY.parent.parent / "rules" / "shardlint_rules"
    engines = plugins().engines()
    names = {name.lower() for engine in engines for name in (engine.name, engine.label)}
    assert {"vllm", "tensorrt-llm", "tgi"} <= names
    word = re.compile(rf"\b({'|'.join(sorted(map(re.escape, names)))})\b", re.IGNORECASE)
    found = [
        f"{path.name}:{line}: {text}"
        for path in sorted(rules.glob("*.py"))
        for line, text in _words_of(ast.parse(path.read_text(encoding="utf-8")))
        if word.search(text)
    ]
    assert [] == found


def _words_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names and texts of a module, without docstrings."""
    pages = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in pages:
                yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr


def test_report_of_a_plugin_is_a_format(installed: Path, folder: Path) -> None:
    run = shardlint(
        installed, folder, "check", "serve.toy", "--ignore", "SL904", "--format", "places"
    )
    assert "serve.toy:2:6 tp-heads-indivisible\n" == run.stdout


def test_broken_plugin_is_a_finding_and_the_rest_works(installed: Path, folder: Path) -> None:
    run = shardlint(installed, folder, "check", "serve.toy", "--format", "json")
    found = {item["name"]: item for item in json.loads(run.stdout)["findings"]}
    expected = "shardlint_broken broken 0.3.1 failed and was left out: RuntimeError: out of order"
    assert expected == found["plugin-failed"]["message"]
    assert "warning" == found["plugin-failed"]["severity"]
    assert "tp-heads-indivisible" in found
    assert "Traceback" not in run.stderr


def test_plugin_of_this_repository_imports_the_public_api_alone() -> None:
    imported = {
        module
        for path in (TOY / "shardlint_toy").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for module in _modules(node)
        if module.partition(".")[0] == "shardlint"
    }
    assert {"shardlint.api"} == imported


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
