"""Extract the options of every release of TGI or LMDeploy into the engine's own table.

    python scripts/extract_engine_options.py tgi CLONE
    python scripts/extract_engine_options.py lmdeploy UNPACKED_WHEEL...

CLONE is a clone of huggingface/text-generation-inference with its tags: the options are the fields
of `Args` in launcher/src/main.rs. A wheel of LMDeploy is unpacked into a folder of its own, with
`lmdeploy/version.py` in it: the options are the arguments of `serve api_server` in cli/serve.py.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

DATA = Path(__file__).parent.parent / "lint" / "shardlint" / "engines" / "data"
OLDEST_TGI = (0, 8, 2)
WIDTH = 110
SWITCHES = ("store_true", "store_false")

Options = dict[str, str]
"""Whether an option takes a value, by its name."""


def tgi(clone: Path) -> Iterator[tuple[str, Options]]:
    """The fields of `Args`: a field of type bool is a switch, all others take a value."""
    tags = _git(clone, "tag").split()
    released = sorted(tag for tag in tags if re.fullmatch(r"v\d+\.\d+\.\d+", tag))
    for tag in sorted(released, key=_numbers):
        if _numbers(tag) >= OLDEST_TGI:
            text = _git(clone, "show", f"{tag}:launcher/src/main.rs")
            body = re.search(r"struct Args \{(.*?)\n\}", text, re.DOTALL)
            assert body is not None, tag
            fields = re.findall(r"^ {4}(\w+): ([\w<>]+),", body[1], re.MULTILINE)
            yield (
                tag[1:],
                {
                    f"--{name.replace('_', '-')}": "switch" if kind == "bool" else "value"
                    for name, kind in fields
                },
            )


def lmdeploy(folders: Iterable[Path]) -> Iterator[tuple[str, Options]]:
    found = {}
    for folder in folders:
        package = folder / "lmdeploy"
        told = (package / "version.py").read_text(encoding="utf-8")
        release = re.search(r"__version__ = '([\d.]+)'", told)
        assert release is not None, folder
        found[release[1]] = dict(_api_server(package / "cli"))
    yield from sorted(found.items(), key=lambda item: _numbers(item[0]))


def _api_server(folder: Path) -> Iterator[tuple[str, str]]:
    """Arguments that are added in place, and those of the helper's methods that are called."""
    helper = _function(folder / "utils.py", "ArgumentHelper")
    methods = {node.name: node for node in helper.body if isinstance(node, ast.FunctionDef)}
    server = _function(folder / "serve.py", "add_parser_api_server")
    for node in ast.walk(server):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if _adds(node):
            yield from _argument(node)
        elif isinstance(node.func.value, ast.Name) and node.func.value.id == "ArgumentHelper":
            for inner in ast.walk(methods[node.func.attr]):
                if isinstance(inner, ast.Call) and _adds(inner):
                    yield from _argument(inner)


def _adds(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"


def _function(path: Path, name: str) -> ast.FunctionDef | ast.ClassDef:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    raise LookupError(f"{path}: {name}")


def _argument(call: ast.Call) -> Iterator[tuple[str, str]]:
    words = {item.arg: item.value for item in call.keywords}
    action = words.get("action")
    switch = isinstance(action, ast.Constant) and action.value in SWITCHES
    for name in call.args:
        if isinstance(name, ast.Constant) and str(name.value).startswith("-"):
            yield str(name.value), "switch" if switch else "value"


def rows(releases: Mapping[str, Options]) -> list[dict[str, str]]:
    """One row for each option: the first and the last release that has it, and the next one."""
    names = list(releases)
    found = []
    for flag in sorted({flag for options in releases.values() for flag in options}):
        has = [at for at, name in enumerate(names) if flag in releases[name]]
        row = {"flag": flag, "first_seen": names[has[0]], "last_seen": names[has[-1]]}
        if has[-1] + 1 < len(names):
            row["first_gone"] = names[has[-1] + 1]
        row["takes"] = releases[names[has[-1]]][flag]
        found.append(row)
    return found


def _git(clone: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", clone, *words], check=True, capture_output=True, encoding="utf-8"
    ).stdout


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", name)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=("tgi", "lmdeploy"))
    parser.add_argument("places", nargs="+", type=Path)
    told = parser.parse_args()
    found = dict(tgi(told.places[0]) if told.engine == "tgi" else lmdeploy(told.places))
    path = DATA / f"{told.engine}.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    table["releases"], table["options"] = list(found), rows(found)
    path.write_text(written(table), encoding="utf-8")
    print(f"{len(table['options'])} options of {len(found)} releases")


def written(table: Mapping[str, object]) -> str:
    """The table as JSON: lists of words in lines that are not too long, a row of options each."""
    text = json.dumps(table, indent=2, ensure_ascii=False)
    text = re.sub(r"\[\s*(?:\"[^\"]*\",?\s*)+\]", _wrapped, text)
    return re.sub(r"\{\s*(\"flag\"[^{}]*)\}", _row, text) + "\n"


def _row(match: re.Match[str]) -> str:
    return "{" + " ".join(match[1].split()) + "}"


def _wrapped(match: re.Match[str]) -> str:
    """A list of words, in one line or in several."""
    words: list[str] = json.loads(match[0])
    whole = json.dumps(words, ensure_ascii=False)
    start = match.string.rfind("\n", 0, match.start()) + 1
    if match.start() - start + len(whole) <= WIDTH:
        return whole
    indent = " " * (len(match.string[start:]) - len(match.string[start:].lstrip(" ")))
    lines = textwrap.wrap(whole[1:-1], WIDTH - len(indent), break_on_hyphens=False)
    return "[\n" + "".join(f"{indent}  {line}\n" for line in lines) + f"{indent}]"


if __name__ == "__main__":
    main()
