"""Third parties: a real package, installed by pip, that knows the public API alone."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOY = Path(__file__).with_name("toy_plugin")

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
        env=os.environ | {"PYTHONPATH": str(installed)},
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
