"""Write the table of SGLang's server options from published sglang packages.

The packages' source is read with `ast`: `ServerArgs.add_cli_args` tells argparse's options, from
0.5.13 on most of them as annotations of fields. Nothing of SGLang is imported or run. Source that
this script cannot follow is an error, never an option left out; choices that only a running
program knows (registered parsers) are left open.

    python scripts/extract_sglang_flags.py DIR...           write the table
    python scripts/extract_sglang_flags.py --check DIR...   exit 1 if the table on disk differs

DIR is an unpacked wheel: it holds `sglang/` next to a *.dist-info.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flag_table
from extract_vllm_flags import UNKNOWN, Definition, Module, Package, Symbol
from flag_table import Record, Release, UnsupportedSourceError, no_spelling_twice

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "lint/shardlint/engines/data/sglang_flags.json"
REVIEWED = ROOT / "scripts/sglang_replaced_flags.json"
SUPPORTED = {"first": "0.4.0", "last": "0.5.23"}
SOURCE = (
    "sglang packages on PyPI, read by scripts/extract_sglang_flags.py; "
    "what replaces a removed flag: what the packages say, scripts/sglang_replaced_flags.json"
)
SERVER_ARGS = "sglang.srt.server_args"
FIELDS_OF = "sglang.srt.arg_groups.fields"
NAMESPACES = ("device", "disagg", "exec_", "lora", "memory", "mm", "model", "observability",
              "parallel", "schedule", "serving", "spec")  # fmt: skip
HELP = {"flag": "--help", "aliases": ["-h"], "takes": "none", "type": "bool", "negatable": False}
GRAMMAR = {
    "dotted": False, "pairs": False, "model_option": False, "model_required": False,
    "module_model": False, "name_behind_model": False, "dashes_only": True, "options_only": True,
}  # fmt: skip
"""Python's own argparse: unique prefixes, and nothing else."""

FIELDS = {  # what shardlint calls the options that it reads
    "--tp-size": "tp",
    "--pp-size": "pp",
    "--dp-size": "dp",
    "--ep-size": "ep",
    "--attn-dp-size": "attention_dp",
    "--dcp-size": "dcp",
    "--nnodes": "nnodes",
    "--context-length": "max_model_len",
    "--max-running-requests": "max_num_seqs",
    "--chunked-prefill-size": "max_num_batched_tokens",
    "--mem-fraction-static": "share",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--page-size": "block_size",
    "--quantization": "quantization",
    "--dtype": "dtype",
    "--model-path": "model",
    "--served-model-name": "served_model_name",
    "--config": "config",
    "--cpu-offload-gb": "cpu_offload_gb",
    "--trust-remote-code": "trust_remote_code",
    "--load-format": "load_format",
}
TYPES = {
    "int": "int",
    "float": "float",
    "loads": "json",
    "json_list_type": "json",
    "human_readable_int": "si_int",
}
ADDED = re.compile(r"--[a-z0-9-]+(=[a-z0-9_]+)?")
DEPRECATED = re.compile(
    r"^\W*(note: )?['\"]?(--[a-z-]+['\"]? is )?\W*deprecated|\(deprecated", re.I
)


@dataclass
class Reader:
    """The options of one package."""

    package: Package
    module: Module
    calls: list[tuple[list[str], Record, Module]] = field(default_factory=list)

    def run(self) -> None:
        function = self.method("add_cli_args")
        names: dict[str, Any] = {}
        for statement in function.body:
            self.statement(statement, names)

    def server_args(self) -> ast.ClassDef:
        for node in self.module.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == "ServerArgs":
                return node
        raise UnsupportedSourceError("no class ServerArgs")

    def method(self, name: str) -> ast.FunctionDef:
        for node in self.server_args().body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        raise UnsupportedSourceError(f"ServerArgs has no {name}")

    def statement(self, node: ast.stmt, names: dict[str, Any]) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = self.value(value, self.module, names)
            case ast.If(test=test) if self.value(test, self.module, names) is not UNKNOWN:
                taken = node.body if self.value(test, self.module, names) else node.orelse
                for inner in taken:
                    self.statement(inner, names)
            case ast.If(body=body) if not any(_registers(inner) for inner in body):
                for inner in ast.walk(node):  # what it changes is not known any more
                    if isinstance(inner, ast.Name) and inner.id in names:
                        names[inner.id] = UNKNOWN
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_argument")) as call):
                self.calls.append((*self.call(call, self.module, names), self.module))
            case ast.Expr(value=ast.Call(func=ast.Name(id="add_cli_args_from_dataclass"))):
                self.annotated()
            case ast.Expr(value=ast.Constant()) | ast.ImportFrom() | ast.Import():
                return
            case _:
                raise UnsupportedSourceError(f"cannot follow: {ast.unparse(node)[:80]}")

    def call(
        self, call: ast.Call, module: Module, names: dict[str, Any]
    ) -> tuple[list[str], Record]:
        words = [self.value(arg, module, names) for arg in call.args]
        if not words or not all(isinstance(word, str) for word in words):
            raise UnsupportedSourceError(f"cannot follow: {ast.unparse(call)[:80]}")
        return words, {
            str(item.arg): self.value(item.value, module, names) for item in call.keywords
        }

    # ---------------------------------------------------------------- fields with annotations

    def records(self) -> Iterator[tuple[ast.ClassDef, Module]]:
        """The classes whose fields are options."""
        if self.package.module(FIELDS_OF) is None:
            yield self.server_args(), self.module
            return
        for name in NAMESPACES:
            module = self.package.require(f"{FIELDS_OF}.{name}")
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    yield node, module

    def fields(self) -> Iterator[tuple[ast.AnnAssign, Module]]:
        for node, module in self.records():
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    yield item, module

    def annotated(self) -> None:
        last = {_last(item.target): (item, module) for item, module in self.fields()}
        for item, module in last.values():  # a field that stands twice in its class is one field
            if (made := self.option(item, module)) is not None:
                self.calls.append((*made, module))

    def option(self, item: ast.AnnAssign, module: Module) -> tuple[list[str], Record] | None:
        """arg_groups/arg_utils.py, add_cli_args_from_dataclass."""
        given = item.annotation
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            given = ast.parse(given.value, mode="eval").body
        if not isinstance(given, ast.Subscript) or _last(given.value) not in ("A", "Annotated"):
            return None
        assert isinstance(given.slice, ast.Tuple)
        kind, *rest = given.slice.elts
        meta = self.meta(rest, module)
        if meta is None or meta.get("no_cli"):
            return None
        assert isinstance(item.target, ast.Name)
        name = item.target.id
        words = [
            meta.get("cli_name") or "--" + name.replace("_", "-"),
            *(meta.get("aliases") or []),
        ]
        keywords = {"help": meta.get("help", ""), "dest": name}
        if item.value is not None:
            keywords["default"] = self.value(item.value, module, {})
        return words, keywords | self.shape(kind, meta, module)

    def meta(self, nodes: Sequence[ast.expr], module: Module) -> Record | None:
        for node in nodes:
            if isinstance(node, ast.Call) and _last(node.func) == "Arg":
                found = {str(k.arg): self.value(k.value, module, {}) for k in node.keywords}
                if node.args:
                    found["help"] = self.value(node.args[0], module, {})
                return found
            if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
                return {"help": self.value(node, module, {})}
        return None

    def shape(self, kind: ast.expr, meta: Record, module: Module) -> Record:
        if meta.get("action") is not None:
            return {"action": meta["action"], **(meta.get("action_kwargs") or {})}
        inner = _plain(kind)
        base = _last(inner.value) if isinstance(inner, ast.Subscript) else _last(inner)
        choices = {"choices": meta["choices"]} if meta.get("choices") else {}
        given = {"type": meta["type_parser"]} if meta.get("type_parser") is not None else {}
        if base == "Literal" and isinstance(inner, ast.Subscript):
            values = [self.value(node, module, {}) for node in _elements(inner.slice)]
            return {"type": Symbol(type(values[0]).__name__), "choices": values} | choices | given
        if base in ("List", "list") and not given:
            of = _last(inner.slice) if isinstance(inner, ast.Subscript) else "str"
            return {"type": Symbol(of), "nargs": meta.get("nargs") or "+"} | choices
        if base == "bool":
            return {"action": "store_true"}
        nargs = {"nargs": meta["nargs"]} if meta.get("nargs") else {}
        plain = {"type": Symbol(base if base in ("int", "float") else "str")}
        return plain | given | choices | nargs

    # ---------------------------------------------------------------------------- expressions

    def value(self, node: ast.AST, module: Module, names: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item, module, names) for item in items]
            case ast.Set(elts=items):
                return sorted(self.value(item, module, names) for item in items)
            case ast.Dict(keys=keys, values=values):
                return {
                    self.value(key, module, names): self.value(value, module, names)
                    for key, value in zip(keys, values, strict=True)
                    if key is not None
                }
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = self.value(operand, module, names)
                return -found if isinstance(found, int | float) else UNKNOWN
            case ast.JoinedStr(values=values):
                parts = (part.value for part in values if isinstance(part, ast.Constant))
                return "".join(map(str, parts))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, two = self.value(left, module, names), self.value(right, module, names)
                return one + two if type(one) is type(two) and one is not UNKNOWN else UNKNOWN
            case ast.Name(id=name):
                return names[name] if name in names else self.named(name, module)
            case ast.Attribute(value=base, attr=attr):
                return self.attribute(base, attr, module, names)
            case ast.Call(func=ast.Name(id="list" | "sorted" | "set"), args=[inner]):
                found = self.value(inner, module, names)
                return list(found) if isinstance(found, list | dict) else UNKNOWN
            case ast.Call(func=ast.Attribute(value=inner, attr="keys"), args=[]):
                return self.value(inner, module, names)
            case ast.Call(func=ast.Name(id="_declared_default"), args=[ast.Constant(value=name)]):
                return self.default(str(name))
        return UNKNOWN

    def named(self, name: str, module: Module) -> Any:
        if name in ("int", "str", "float", "bool"):
            return Symbol(name)
        match self.package.find(module, name):
            case (Module() as home, ast.ClassDef() | ast.FunctionDef() as node):
                return Definition(home, node)
            case (Module() as home, node):
                return self.value(node, home, {})
        return Symbol(name)

    def attribute(self, base: ast.expr, attr: str, module: Module, names: dict[str, Any]) -> Any:
        if isinstance(base, ast.Name) and base.id == "ServerArgs":
            return self.default(attr)
        owner = self.value(base, module, names)
        if isinstance(owner, Symbol):
            return Symbol(attr)
        if isinstance(owner, Definition):
            for item in owner.node.body:
                match item:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == attr:
                        return self.value(value, owner.module, {})
                    case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if (
                        name == attr
                    ):
                        return self.value(value, owner.module, {})
        return UNKNOWN

    def default(self, name: str) -> Any:
        for item, module in self.fields():
            assert isinstance(item.target, ast.Name)
            if item.target.id == name and item.value is not None:
                return self.value(item.value, module, {})
        return UNKNOWN


def _registers(node: ast.stmt) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "add_argument"
               for one in ast.walk(node))  # fmt: skip


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _plain(node: ast.expr) -> ast.expr:
    """The type without its None."""
    match node:
        case ast.Subscript(value=base, slice=inner) if _last(base) == "Optional":
            return inner
        case ast.Subscript(value=base, slice=inner) if _last(base) == "Union":
            members = [item for item in _elements(inner) if not _is_none(item)]
            return members[0] if len(members) == 1 else ast.Name("str")
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            members = [item for item in (left, right) if not _is_none(item)]
            return _plain(members[0]) if len(members) == 1 else ast.Name("str")
    return node


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# ------------------------------------------------------------------------- calls → records


def record(names: list[str], keywords: Record) -> Record:
    """What one call of add_argument registers."""
    flag = next((name for name in names if name in FIELDS), names[0])
    made: Record = {"flag": flag, "aliases": [name for name in names if name != flag]}
    action = keywords.get("action", "store")
    kind = action if isinstance(action, str) else _action(action)
    made |= ACTIONS[kind](keywords) if kind in ACTIONS else _unsupported(kind)
    if isinstance(keywords.get("default"), str | int | float | bool) and _dumps(keywords):
        made["default"] = keywords["default"]
    if flag in FIELDS:
        made["field"] = FIELDS[flag]
    text = str(keywords.get("help") or "")
    if kind.startswith("Deprecated") or DEPRECATED.search(text):
        made["deprecated"] = True
    new = keywords.get("new_flag")
    if isinstance(new, str) and ADDED.fullmatch(new):
        made["successor"] = new.replace("=", " ")
    if kind == "DeprecatedAction" and (why := _raised(action, keywords)):
        made["refused"] = why
    return made


def _action(action: Any) -> str:
    if isinstance(action, Definition | Symbol):
        return action.name
    raise UnsupportedSourceError(f"cannot follow the action {action!r}")


def _unsupported(kind: str) -> Record:
    raise UnsupportedSourceError(f"an action that is not known: {kind}")


def _dumps(keywords: Record) -> bool:
    return keywords["default"] == keywords["default"]


def _switch(keywords: Record) -> Record:
    del keywords
    return {"takes": "none", "type": "bool", "negatable": False}


def _pair(keywords: Record) -> Record:
    del keywords
    return {"takes": "none", "type": "bool", "negatable": True}


def _retired(keywords: Record) -> Record:
    """Actions whose nargs is 0 unless the call says otherwise."""
    if "nargs" not in keywords or keywords["nargs"] == 0:
        return _switch(keywords)
    return _store(keywords)


def _store(keywords: Record) -> Record:
    takes = {None: "value", "?": "optional_value", "*": "any"}.get(keywords.get("nargs"), "many")
    if isinstance(keywords.get("nargs"), int) and keywords["nargs"] != 1:
        raise UnsupportedSourceError(f"nargs {keywords['nargs']}")
    made: Record = {"takes": takes, "negatable": False}
    given = keywords.get("type", Symbol("str"))
    name = given.name if isinstance(given, Symbol | Definition) else ""
    choices = keywords.get("choices")
    if isinstance(choices, list) and all(isinstance(one, str | int | None) for one in choices):
        return made | {"type": "choice", "choices": choices}
    made["type"] = TYPES.get(name, "str")
    if name == "nullable_str":
        made["nullable"] = True
    return made


ACTIONS = {
    "store": _store,
    "store_true": _switch,
    "LoRAPathAction": _store,
    "DeprecatedAction": _retired,
    "DeprecatedStoreTrueAction": _retired,
    "DeprecatedStoreConstAction": _retired,
    "DeprecatedAliasStoreAction": _store,
    "BooleanOptionalAction": _pair,
}


def _raised(action: Any, keywords: Record) -> str | None:
    """The text with which the parser ends at a retired option; None if it only warns."""
    if keywords.get("error_message") is not None:
        return str(keywords["error_message"])
    assert isinstance(action, Definition)
    raises = [node for node in ast.walk(action.node) if isinstance(node, ast.Raise)]
    return str(keywords.get("help") or "deprecated") if raises else None


# ------------------------------------------------------------------------ packages → table


def _barred(package: Package) -> Callable[[Any, Record], bool]:
    """Which options a file may not set: the merger takes plain actions only, since 0.5.8."""
    names = (f"sglang.srt.{where}server_args_config_parser" for where in ("utils.", ""))
    merger = next((found for name in names if (found := package.module(name))), None)
    text = ast.unparse(merger.tree) if merger is not None else ""
    checks = "Unsupported config option" in text
    one_value = "_takes_one_value" in text

    def barred(kind: Any, words: Record) -> bool:
        name = kind if isinstance(kind, str) else _action(kind)
        if not checks or name in ("store", "store_true"):
            return False
        none = words.get("nargs", 0 if "Deprecated" in name else None)
        valued = name == "DeprecatedAliasStoreAction" or (none is None and "Deprecated" in name)
        return not (one_value and valued and words.get("nargs") is None)

    return barred


def release_of(path: Path) -> str:
    for file in sorted(path.glob("sglang-*.dist-info/METADATA")):
        if found := re.search(r"^Version: (\S+)$", file.read_text("utf-8"), re.M):
            return found[1]
    raise UnsupportedSourceError(f"no METADATA in {path}")


def read(path: Path) -> Release:
    package = Package(path)
    reader = Reader(package, package.require(SERVER_ARGS))
    try:
        reader.run()
        made = [dict(HELP)]
        barred = _barred(package)
        for names, words, _ in reader.calls:
            row = record(names, words)
            kind = words.get("action", "store")
            unset = {"file": False} if barred(kind, words) else {}
            made.append(row | unset)
        no_spelling_twice(made)
    except UnsupportedSourceError as error:
        raise UnsupportedSourceError(f"{path.name}: {error}") from None
    return Release(sorted(made, key=lambda row: str(row["flag"])), dict(GRAMMAR))


def table(releases: dict[str, Release], reviewed: Record) -> Record:
    """The packages say themselves what replaces most options."""
    ordered = sorted(releases, key=flag_table.version_key)
    newest = {name for row in releases[ordered[-1]].flags for name in flag_table.spellings(row)}
    said = {
        name: row["successor"]
        for release in ordered
        for row in releases[release].flags
        if "successor" in row
        for name in flag_table.spellings(row)
        if name not in newest and row["successor"].partition(" ")[0] in newest
    }
    merged = reviewed | {"replaced_by": said | reviewed["replaced_by"]}
    return flag_table.table("sglang", SOURCE, SUPPORTED, releases, merged)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the table of SGLang's server options.")
    parser.add_argument("packages", nargs="+", type=Path, help="unpacked wheels")
    parser.add_argument("--check", action="store_true", help="exit 1 if the table on disk differs")
    args = parser.parse_args(argv)
    try:
        releases = {release_of(path): read(path) for path in args.packages}
        made = table(releases, json.loads(REVIEWED.read_text("utf-8")))
    except UnsupportedSourceError as error:
        parser.error(str(error))
    return flag_table.write(TABLE, ROOT, made, args.check)


if __name__ == "__main__":
    sys.exit(main())
