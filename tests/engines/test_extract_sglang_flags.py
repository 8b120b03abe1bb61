"""The script that reads options in packages of SGLang, on small ones of two times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import extract_sglang_flags as script
import pytest
from flag_table import UnsupportedSourceError
from jsonschema import Draft202012Validator
from shardlint_schemas import schema

OLD = {
    "srt/server_args.py": """
import argparse
import dataclasses
KINDS = ["a", "b"]

@dataclasses.dataclass
class ServerArgs:
    tp_size: int = 1
    kind: str = "a"

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int,
                            default=ServerArgs.tp_size)
        parser.add_argument("--kind", choices=KINDS + ["c"], default=ServerArgs.kind)
        parser.add_argument("--names", type=str, nargs="*")
        parser.add_argument("--gone", action=DeprecatedAction, help="'--gone' is deprecated.")
        parser.add_argument("--old-name", type=int)

class DeprecatedAction(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        raise ValueError(self.help)
""",
}
NEW = {
    "srt/server_args.py": """
from sglang.srt.arg_groups.actions import DeprecatedAliasStoreAction

class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--old-name", type=int, action=DeprecatedAliasStoreAction,
                            new_flag="--new-name", help="Deprecated.")
""",
    "srt/arg_groups/actions.py": "class DeprecatedAliasStoreAction:\n    pass\n",
    "srt/server_args_config_parser.py": 'TEXT = "Unsupported config option"\n',
    **{f"srt/arg_groups/fields/{name}.py": "" for name in ("__init__", *script.NAMESPACES)},
    "srt/arg_groups/fields/parallel.py": """
from typing import List, Literal, Optional

class Parallel:
    tp_size: A[int, Arg(help="ranks", aliases=["--tensor-parallel-size"])] = 1
    new_name: A[Optional[int], Arg(help="n", type_parser=human_readable_int)] = None
    kind: A[Literal["a", "b"], "one of them"] = "a"
    names: A[Optional[List[str]], "names"] = None
    fast: A[bool, Arg(help="fast", action=argparse.BooleanOptionalAction)] = False
    inner: A[int, Arg(no_cli=True)] = 0
    plain: int = 0
""",
}


def package(root: Path, release: str, files: dict[str, str]) -> Path:
    path = root / release
    for name, text in files.items():
        file = path / "sglang" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    info = path / f"sglang-{release}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: sglang\nVersion: {release}\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    paths = [package(tmp_path, "0.5.22", NEW), package(tmp_path, "0.4.0.post1", OLD)]
    releases = {script.release_of(path): script.read(path) for path in paths}
    return script.table(releases, {"replaced_by": {}, "known_elsewhere": []})


def shape(table: dict[str, Any], flag: str) -> list[tuple[Any, ...]]:
    rows = [row for row in table["flags"] if row["flag"] == flag]
    return [(row["takes"], row["type"], row.get("choices"), row["first_seen"]) for row in rows]


def test_table_is_valid(table: dict[str, Any]) -> None:
    assert [] == list(Draft202012Validator(schema("engine_flags")).iter_errors(table))
    assert ["0.4.0.post1", "0.5.22"] == table["releases"]


@pytest.mark.parametrize(
    ("flag", "wanted"),
    [
        ("--tp-size", [("value", "int", None, "0.4.0.post1")]),
        ("--kind", [("value", "choice", ["a", "b"], "0.4.0.post1")]),
        ("--names", [("any", "str", None, "0.4.0.post1"), ("many", "str", None, "0.5.22")]),
        ("--new-name", [("value", "si_int", None, "0.5.22")]),
        ("--fast", [("none", "bool", None, "0.5.22")]),
        ("--inner", []),
        ("--plain", []),
    ],
)
def test_options(table: dict[str, Any], flag: str, wanted: list[tuple[Any, ...]]) -> None:
    assert wanted == shape(table, flag)


def test_what_a_release_says_of_an_option(table: dict[str, Any]) -> None:
    rows = {row["flag"]: row for row in table["flags"]}
    assert "'--gone' is deprecated." == rows["--gone"]["refused"]
    assert ("--new-name", True) == (
        rows["--old-name"]["successor"],
        rows["--old-name"]["deprecated"],
    )
    assert {"--fast", "--old-name"} == {name for name, row in rows.items() if "file" in row}
    assert ["--gone"] == [row["flag"] for row in table["removed"]]


def test_source_that_cannot_be_followed_is_an_error(tmp_path: Path) -> None:
    text = "class ServerArgs:\n    def add_cli_args(parser):\n        other(parser)\n"
    path = package(tmp_path, "0.4.0", {"srt/server_args.py": text})
    with pytest.raises(UnsupportedSourceError, match="cannot follow"):
        script.read(path)
