"""The script that reads flags in packages of vLLM, on small ones in the layouts of 0.6 and 0.9."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from shardlint_schemas import schema

SCRIPT = Path(__file__).parents[2] / "scripts/extract_vllm_flags.py"

OLD = {
    "scripts.py": """
from vllm.cli_args import make_arg_parser
from vllm.utils import FlexibleArgumentParser

def serve(args):
    if args.model:
        raise ValueError("with serve, do so " "instead of via the `--model` option.")

def main():
    parser = FlexibleArgumentParser(description="vLLM CLI")
    parser.add_argument("--version", action="store_true")
    subparsers = parser.add_subparsers(required=True)
    serve_parser = subparsers.add_parser("serve", help="Start it")
    serve_parser.add_argument("model_tag", type=str)
    make_arg_parser(serve_parser)
    chat = subparsers.add_parser("chat")
    chat.add_argument("--url", type=str)
""",
    "cli_args.py": """
from vllm.engine.arg_utils import EngineArgs

def make_arg_parser(parser):
    parser = EngineArgs.add_cli_args(parser)
    return parser
""",
    "engine/arg_utils.py": """
import enum
from dataclasses import dataclass
from vllm.utils import StoreBoolean

METHODS = {"awq": object, "fp8": object}

class Format(str, enum.Enum):
    AUTO = "auto"
    DUMMY = "dummy"

def nullable_str(val):
    return val or None

@dataclass
class EngineArgs:
    share: float = 0.9

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--share", type=float, default=EngineArgs.share)
        parser.add_argument("--method", "-q", type=nullable_str, choices=[*METHODS, None])
        parser.add_argument("--format", type=str, choices=[f.value for f in Format])
        parser.add_argument("--chunks", action=StoreBoolean, nargs="?", const="True")
        parser.add_argument("--use-ray", action="store_true", help="Deprecated, use --executor.")
        return parser
""",
    "utils.py": """
import argparse

class StoreBoolean(argparse.Action):
    pass

class FlexibleArgumentParser(argparse.ArgumentParser):
    pass
""",
}

NEW = {
    "entrypoints/cli/serve.py": """
from vllm.engine.arg_utils import EngineArgs
from vllm.utils import FlexibleArgumentParser

class ServeSubcommand:
    name = "serve"

    def subparser_init(self, subparsers):
        parser = subparsers.add_parser(self.name, help="Start it")
        parser.add_argument("model_tag", type=str, nargs="?")
        return EngineArgs.add_cli_args(parser)
""",
    "engine/arg_utils.py": '''
from dataclasses import dataclass
from typing import Literal

def get_kwargs(cls):
    for name in cls:
        if name in ("window",):
            kwargs = "human_readable_int"
    kwargs["choices"].append("None")

@dataclass
class Config:
    share: float = 0.92
    """How much."""
    chunks: bool | None = None
    """Whether."""
    kind: Literal["b", "a"] | None = None
    """Which."""
    window: int = 1
    """Tokens."""

class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        group = parser.add_argument_group("All")
        kwargs = get_kwargs(Config)
        group.add_argument("--share", "-s", **kwargs["share"])
        group.add_argument("--chunks", **kwargs["chunks"])
        group.add_argument("--kind", **kwargs["kind"])
        group.add_argument("--window", **kwargs["window"])
        return parser
''',
    "utils.py": """
import argparse

class FlexibleArgumentParser(argparse.ArgumentParser):
    def parse_args(self, args):
        def create_nested_dict(keys, value):
            pass
""",
}
REVIEWED: dict[str, Any] = {"replaced_by": {"--use-ray": "--executor ray"}, "known_elsewhere": []}


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("extract_vllm_flags", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


script = loaded()


def package(root: Path, release: str, files: dict[str, str]) -> Path:
    path = root / release
    for name, text in files.items():
        file = path / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (path / "PKG-INFO").write_text(f"Name: vllm\nVersion: {release}\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    paths = [package(tmp_path, "0.9.0", NEW), package(tmp_path, "0.6.0", OLD)]
    releases = {script.release_of(path): script.read(path) for path in paths}
    made: dict[str, Any] = script.table(releases, REVIEWED)
    return made


def records(table: dict[str, Any], flag: str) -> list[dict[str, Any]]:
    return [row for row in table["flags"] if row["flag"] == flag]


def test_table_is_valid(table: dict[str, Any]) -> None:
    assert [] == list(Draft202012Validator(schema("engine_flags")).iter_errors(table))


def test_flags_of_serve_alone_are_read(table: dict[str, Any]) -> None:
    names = ["--chunks", "--format", "--help", "--kind", "--method", "--share", "--use-ray"]
    assert [*names, "--window"] == sorted({row["flag"] for row in table["flags"]})


def test_one_shape_is_one_record(table: dict[str, Any]) -> None:
    span = {"first_seen": "0.6.0", "last_seen": "0.6.0"}
    assert [
        {
            "flag": "--share", "aliases": ["-s"], "takes": "value", "type": "float",
            "negatable": False, "default": 0.92, "first_seen": "0.6.0", "last_seen": "0.9.0",
            "earlier": {"aliases": [span | {"value": []}], "default": [span | {"value": 0.9}]},
        }
    ] == records(table, "--share")  # fmt: skip


def test_another_shape_is_another_record(table: dict[str, Any]) -> None:
    shapes = [(row["takes"], row["type"]) for row in records(table, "--chunks")]
    assert [("optional_value", "bool"), ("none", "bool")] == shapes


@pytest.mark.parametrize(
    ("flag", "kind", "choices"),
    [
        ("--method", "choice", ["awq", "fp8", None]),
        ("--format", "choice", ["auto", "dummy"]),
        ("--kind", "choice", ["a", "b"]),
        ("--window", "human_int", None),
    ],
)
def test_words(table: dict[str, Any], flag: str, kind: str, choices: list[Any] | None) -> None:
    (row,) = records(table, flag)
    assert (kind, choices) == (row["type"], row.get("choices"))


def test_nullable_types_are_marked(table: dict[str, Any]) -> None:
    (row,) = records(table, "--method")
    assert row["nullable"] is True
    assert "nullable" not in records(table, "--format")[0]


def test_removed_flags_are_those_that_the_newest_release_lacks(table: dict[str, Any]) -> None:
    ends = {"last_seen": "0.6.0", "first_gone": "0.9.0"}
    names, replaced = ("--format", "--method", "--use-ray", "-q"), REVIEWED["replaced_by"]
    rows = [{"flag": name} | ends | {"replaced_by": replaced.get(name)} for name in names]
    assert rows == table["removed"]


def test_grammars(table: dict[str, Any]) -> None:
    names = ("dotted", "model_option", "model_required", "module_model", "name_behind_model")
    assert [(False, False, True, False, False), (True, True, False, False, False)] == [
        tuple(row[name] for name in names) for row in table["grammars"]
    ]


def test_what_is_replaced_must_be_gone(tmp_path: Path) -> None:
    releases = {"0.6.0": script.read(package(tmp_path, "0.6.0", OLD))}
    with pytest.raises(script.UnsupportedSourceError, match=r"accepted by 0\.6\.0"):
        script.table(releases, REVIEWED)


def test_source_that_cannot_be_followed_is_an_error(tmp_path: Path) -> None:
    text = "def make_arg_parser(parser):\n    other(parser)\n"
    with pytest.raises(script.UnsupportedSourceError, match="cannot follow"):
        script.read(package(tmp_path, "0.6.0", OLD | {"cli_args.py": text}))
