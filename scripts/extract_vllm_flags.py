"""Write the table of `vllm serve` flags from published vLLM packages.

The packages' source is read with `ast` and followed like a small interpreter would, from the
`serve` subcommand on: what argparse would be told is written down, and nothing of vLLM is
imported or run. Source that this script cannot follow is an error, never a flag left out.

    python scripts/extract_vllm_flags.py DIR...           write the table
    python scripts/extract_vllm_flags.py --check DIR...   exit 1 if the table on disk differs
                                                          (2: the source cannot be followed)

DIR is an unpacked sdist or wheel: it holds `vllm/` next to PKG-INFO or a *.dist-info. One flag has
one record for each run of releases in which it takes the same words; what else changed within the
run is in the record's `earlier`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import flag_table
from flag_table import Record, Release, UnsupportedSourceError, no_spelling_twice

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "lint/shardlint/engines/data/vllm_flags.json"
REVIEWED = ROOT / "scripts/vllm_replaced_flags.json"
SUPPORTED = {"first": "0.6.0", "last": "0.33.0"}
SOURCE = (
    "vLLM packages on PyPI, read by scripts/extract_vllm_flags.py; "
    "what replaces a removed flag: scripts/vllm_replaced_flags.json"
)

FIELDS = {  # what shardlint calls the flags that it reads
    "--tensor-parallel-size": "tp",
    "--pipeline-parallel-size": "pp",
    "--data-parallel-size": "dp",
    "--data-parallel-size-local": "dp_local",
    "--data-parallel-rank": "dp_rank",
    "--data-parallel-start-rank": "dp_start_rank",
    "--enable-expert-parallel": "ep",
    "--prefill-context-parallel-size": "pcp",
    "--decode-context-parallel-size": "dcp",
    "--distributed-executor-backend": "executor",
    "--data-parallel-hybrid-lb": "hybrid_lb",
    "--data-parallel-external-lb": "external_lb",
    "--nnodes": "nnodes",
    "--node-rank": "node_rank",
    "--headless": "headless",
    "--max-model-len": "max_model_len",
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--kv-cache-memory-bytes": "kv_cache_memory_bytes",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--block-size": "block_size",
    "--enforce-eager": "enforce_eager",
    "--quantization": "quantization",
    "--dtype": "dtype",
    "--model": "model",
    "--served-model-name": "served_model_name",
    "--enable-prefix-caching": "enable_prefix_caching",
    "--config": "config",
    "--cpu-offload-gb": "cpu_offload_gb",
    "--enable-lora": "enable_lora",
    "--mm-encoder-tp-mode": "mm_encoder_tp_mode",
    "--language-model-only": "language_model_only",
    "--speculative-config": "speculative_config",
    "--device-ids": "device_ids",
    "--trust-remote-code": "trust_remote_code",
    "--hf-overrides": "hf_overrides",
    "--load-format": "load_format",
}
AUTO = "human_readable_int_or_auto"
NO_MODEL_OPTION = "instead of via the `--model` option"
MODEL_FIRST = "should be provided as the first positional argument"
HELP = {"flag": "--help", "aliases": ["-h"], "takes": "none", "type": "bool", "negatable": False}


class Unknown:
    """A value that the source alone does not tell."""


UNKNOWN = Unknown()


# ---------------------------------------------------------------- modules and names


@dataclass(frozen=True, eq=False)
class Module:
    """One source file: what its top-level names are bound to."""

    name: str
    is_package: bool
    tree: ast.Module
    names: dict[str, ast.AST]
    imports: dict[str, tuple[str, str]]

    def origin(self, node: ast.ImportFrom) -> str:
        """The module that `from … import` names, dots resolved."""
        keep = len(parts := self.name.split(".")) - node.level + self.is_package
        base = parts[:keep] if node.level else []
        return ".".join(base + ([node.module] if node.module else []))


@dataclass(frozen=True, eq=False)
class Definition:
    """A class or function of the package, with the module that it stands in."""

    module: Module
    node: ast.ClassDef | ast.FunctionDef

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class Symbol:
    """A name that is not followed: a builtin, or something from another package."""

    name: str


@dataclass(frozen=True)
class OptionalType:
    """An argparse type that also turns the word None into None."""

    inner: Any


@dataclass(frozen=True)
class Super:
    """`super()` inside a method of `owner`."""

    owner: Definition


class Package:
    """The modules of one unpacked vLLM."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.module = cache(self._read)

    def _read(self, name: str) -> Module | None:
        path = self.root.joinpath(*name.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                tree = ast.parse(file.read_text(encoding="utf-8"))
                module = Module(name, file.stem == "__init__", tree, {}, {})
                _collect(tree.body, module)
                return module
        return None

    def require(self, name: str) -> Module:
        if module := self.module(name):
            return module
        raise UnsupportedSourceError(f"no module {name} under {self.root.name}")

    def find(self, module: Module, name: str) -> tuple[Module, ast.AST] | None:
        """Follow imports to what a name stands for; None outside of the package."""
        if name in module.names:
            return module, module.names[name]
        if name in module.imports:
            origin, original = module.imports[name]
            target = self.module(origin)
            return self.find(target, original) if target else None
        return self._find_starred(module, name)

    def _find_starred(self, module: Module, name: str) -> tuple[Module, ast.AST] | None:
        for star in (key for key in module.imports if key.startswith("*")):
            target = self.module(star[1:])
            if target and (found := self.find(target, name)):
                return found
        return None


def _collect(body: Iterable[ast.stmt], module: Module) -> None:
    for node in body:
        if isinstance(node, ast.If):  # `if TYPE_CHECKING`: what runs is the else
            _collect([*node.body, *node.orelse], module)
        elif isinstance(node, ast.ImportFrom):
            _collect_import(node, module)
        else:
            module.names.update(_bound(node))


def _collect_import(node: ast.ImportFrom, module: Module) -> None:
    origin = module.origin(node)
    for alias in node.names:
        name = f"*{origin}" if alias.name == "*" else alias.asname or alias.name
        module.names.pop(name, None)
        module.imports[name] = (origin, alias.name)


def _bound(node: ast.stmt) -> dict[str, ast.AST]:
    """The names that a statement binds, and to what."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return {name: node}
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return {name: value}
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return {name: value}
    return {}


def _dotted(node: ast.AST) -> str:
    """`a.b.c` as text, empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr) if base := _dotted(value):
            return f"{base}.{attr}"
    return ""


# ---------------------------------------------------------------- annotations

BUILTINS = {"bool", "str", "int", "float", "object", "type", "dict", "list", "tuple", "set"}


@dataclass(frozen=True, eq=False)
class Hint:
    """One member of an annotation's union."""

    kind: str  # a builtin's name, or: none, literal, dataclass, other
    values: tuple[Any, ...] = ()  # of a literal
    items: tuple[tuple[Hint, ...], ...] = ()  # of a list, tuple or set
    ellipsis: bool = False


class Annotations:
    """What vLLM's `get_type_hints` sees: unions and aliases flattened."""

    def __init__(self, package: Package) -> None:
        self.package = package

    def hints(self, node: ast.AST, module: Module) -> tuple[Hint, ...]:
        match node:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.hints(left, module) + self.hints(right, module)
            case ast.Constant(value=None):
                return (Hint("none"),)
            case ast.Constant(value=str() as text):
                return self.hints(ast.parse(text, mode="eval").body, module)
            case ast.Subscript(value=value, slice=inner):
                return self._generic(_dotted(value).rpartition(".")[2], _elements(inner), module)
        return self._named(node, module)

    def _generic(self, base: str, args: list[ast.expr], module: Module) -> tuple[Hint, ...]:
        match base:
            case "Annotated" | "SkipValidation":
                return self.hints(args[0], module)
            case "Union" | "Optional":
                none = (Hint("none"),) if base == "Optional" else ()
                return tuple(hint for arg in args for hint in self._member(arg, module)) + none
            case "Literal":
                return (Hint("literal", values=tuple(self.literals(args, module))),)
        return (self._container(base.lower(), args, module),)

    def _member(self, node: ast.expr, module: Module) -> tuple[Hint, ...]:
        """A name in quotes inside of a union is never looked up: it is no class, and no builtin."""
        quoted = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return (Hint("other"),) if quoted else self.hints(node, module)

    def _container(self, base: str, args: list[ast.expr], module: Module) -> Hint:
        if base not in {"list", "tuple", "set"}:
            return Hint(base if base in BUILTINS else "other")
        plain = [arg for arg in args if not _is_ellipsis(arg)]
        items = tuple(self.hints(arg, module) for arg in plain)
        return Hint(base, items=items, ellipsis=len(plain) < len(args))

    def literals(self, args: Iterable[ast.expr], module: Module) -> Iterator[Any]:
        for arg in args:
            if isinstance(arg, ast.Constant):
                yield arg.value
            else:
                yield from (value for hint in self.hints(arg, module) for value in hint.values)

    def _named(self, node: ast.AST, module: Module) -> tuple[Hint, ...]:
        name = _dotted(node)
        if name in BUILTINS:
            return (Hint(name),)
        match self.package.find(module, name):
            case (Module() as home, ast.ClassDef() as node):
                kind = _class_kind(Definition(home, node))
                return (Hint("other" if kind == "enum" else kind),)
            case (Module() as home, ast.expr() as alias):
                return self.hints(alias, home)
        return (Hint("other"),)


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _class_kind(definition: Definition) -> str:
    decorators = (d.func if isinstance(d, ast.Call) else d for d in definition.node.decorator_list)
    if {"config", "dataclass"} & {_dotted(d).rpartition(".")[2] for d in decorators}:
        return "dataclass"
    given = _bases(definition)
    bases = {_dotted(base.value if isinstance(base, ast.Subscript) else base) for base in given}
    if bases & {"Enum", "enum.Enum", "StrEnum", "enum.StrEnum"}:
        return "enum"
    return "dict" if "dict" in bases else "other"


def _bases(definition: Definition) -> list[ast.expr]:
    return definition.node.bases if isinstance(definition.node, ast.ClassDef) else []


# ---------------------------------------------------------------- fields → argparse keywords


@dataclass(frozen=True)
class Rules:
    """What a release's `get_kwargs` does its own way."""

    human_ints: frozenset[str]
    auto_ints: frozenset[str]  # a human integer, or the word auto
    optional_value: bool  # bool | str | None is a flag with an optional value
    open_literals: bool  # Literal | str names its values and takes any other
    none_is_a_choice: bool  # an optional Literal takes the word None
    dataclasses: bool  # a config class is read as JSON
    dict_or_text: bool  # dict | str takes any word

    @classmethod
    def of(cls, module: Module) -> Rules:
        helpers = [node for node in module.names.values() if isinstance(node, ast.FunctionDef)]
        nodes = [node for helper in helpers for node in ast.walk(helper)]
        words = {node.value for node in nodes if isinstance(node, ast.Constant)}
        called = {_dotted(node.func) for node in nodes if isinstance(node, ast.Call)}
        return cls(
            human_ints=_human_ints(module),
            auto_ints=_auto_ints(module),
            optional_value="?" in words,
            open_literals="metavar" in words,
            none_is_a_choice=any(map(_appends_none, nodes)),
            dataclasses="is_dataclass" in called,
            dict_or_text="union_dict_and_str" in module.names,
        )


def _human_ints(module: Module) -> frozenset[str]:
    """The names that `get_kwargs` compares to, and those in the sets that it looks into."""
    function = module.names.get("_compute_kwargs") or module.names.get("get_kwargs")
    nodes = list(ast.walk(function)) if function else []
    items = [item for node in nodes if isinstance(node, ast.Set) for item in node.elts]
    items += [item for node in nodes for item in _compared_to_name(node)]
    return frozenset(str(item.value) for item in items if isinstance(item, ast.Constant))


def _auto_ints(module: Module) -> frozenset[str]:
    """The names for which `get_kwargs` takes the converter that knows the word auto."""
    function = module.names.get("_compute_kwargs") or module.names.get("get_kwargs")
    tests = [node for node in ast.walk(function) if isinstance(node, ast.If)] if function else []
    return frozenset(
        str(item.value)
        for node in tests
        if AUTO in {name.id for part in node.body for name in ast.walk(part)
                    if isinstance(name, ast.Name)}
        for item in _compared_to_name(node.test)
        if isinstance(item, ast.Constant)
    )  # fmt: skip


def _compared_to_name(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Compare(left=ast.Name(id="name"), ops=[ast.Eq()], comparators=[right]):
            return [right]
        case ast.Compare(
            left=ast.Name(id="name"), ops=[ast.In()], comparators=[ast.Tuple(elts=items)]
        ):
            return items
    return []


def _appends_none(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="append"), args=[ast.Constant(value=None)]):
            return True
    return False


def type_keywords(name: str, hints: tuple[Hint, ...], rules: Rules) -> dict[str, Any]:
    """The type, nargs, action and choices that `get_kwargs` derives from an annotation."""
    kinds = {hint.kind for hint in hints}
    keywords = _from_kinds(name, kinds, hints, rules)
    if "none" in kinds and "bool" not in kinds:
        keywords["type"] = OptionalType(keywords["type"])
        if "choices" in keywords and rules.none_is_a_choice:
            keywords["choices"].append(None)
    return keywords


def _from_kinds(
    name: str, kinds: set[str], hints: tuple[Hint, ...], rules: Rules
) -> dict[str, Any]:
    if "dataclass" in kinds and rules.dataclasses:
        return {"type": Symbol("json.loads")}
    if kinds == {"bool", "str", "none"} and rules.optional_value:
        return {"type": Symbol("str"), "nargs": "?"}
    if "bool" in kinds:
        return {"action": Symbol("BooleanOptionalAction")}
    if "literal" in kinds:
        is_open = rules.open_literals and "str" in kinds
        return _literal_keywords(hints, "metavar" if is_open else "choices")
    for kind in ("tuple", "list", "set"):
        if kind in kinds:
            return _collection_keywords(next(hint for hint in hints if hint.kind == kind))
    return {"type": Symbol(_scalar(name, kinds, rules))}


def _literal_keywords(hints: Iterable[Hint], key: str) -> dict[str, Any]:
    """All values of a union of literals: releases before 0.9 picked one of them by its hash."""
    values = {value for hint in hints if hint.kind == "literal" for value in hint.values}
    return {"type": Symbol(type(min(values)).__name__), key: sorted(values)}


def _collection_keywords(hint: Hint) -> dict[str, Any]:
    element = hint.items[0] if hint.items else (Hint("str"),)
    many = "+" if hint.kind != "tuple" or hint.ellipsis else len(hint.items)
    if element[0].kind == "literal" and len(element) == 1:
        return _literal_keywords(element, "choices") | {"nargs": many}
    kind = element[0].kind if len(element) == 1 and element[0].kind in BUILTINS else "str"
    return {"type": Symbol(kind), "nargs": many}


def _scalar(name: str, kinds: set[str], rules: Rules) -> str:
    if "int" in kinds and name in rules.auto_ints:
        return AUTO
    if "int" in kinds:
        return "human_readable_int" if name in rules.human_ints else "int"
    if "float" in kinds:
        return "float"
    if "dict" in kinds:  # what may stand beside the dict is passed on as it stands
        either = kinds & {"str", "other", "dataclass"} and rules.dict_or_text
        return "union_dict_and_str" if either else "json.loads"
    return "str" if kinds & {"str", "other", "dataclass"} else "unsupported"


# ---------------------------------------------------------------- the interpreter


@dataclass
class Parser:
    """Stands in for argparse: every group of a parser is the same list of calls."""

    calls: list[tuple[list[str], dict[str, Any]]] = field(default_factory=list)
    subparsers: dict[str, Parser] = field(default_factory=dict)


@dataclass
class Scope:
    """Where an expression is evaluated."""

    module: Module
    names: dict[str, Any] = field(default_factory=dict)
    owner: Definition | None = None


METHODS = frozenset(
    {(str, "replace"), (dict, "pop"), (dict, "items"), (list, "remove"), (list, "append")}
)


PLATFORM_HOOK = "pre_register_and_update"  # where a hardware plugin may add flags of its own


class Interpreter:
    """Evaluates what decides the flags; all else is UNKNOWN."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.annotations = Annotations(package)
        self.arg_utils = package.require("vllm.engine.arg_utils")
        self.rules = Rules.of(self.arg_utils)
        self.root = Parser()

    # expressions

    def value(self, node: ast.AST, scope: Scope) -> Any:
        handler = getattr(self, f"eval_{type(node).__name__.lower()}", None)
        return handler(node, scope) if handler else UNKNOWN

    def eval_constant(self, node: ast.Constant, _: Scope) -> Any:
        return node.value

    def eval_lambda(self, _: ast.Lambda, __: Scope) -> Any:
        return Symbol("lambda")

    def eval_name(self, node: ast.Name, scope: Scope) -> Any:
        if node.id in scope.names:
            return scope.names[node.id]
        if scope.owner and (bound := _class_names(scope.owner).get(node.id)):
            return self.value(bound, scope)
        return self.global_value(scope.module, node.id)

    def global_value(self, module: Module, name: str) -> Any:
        match self.package.find(module, name):
            case (Module() as home, (ast.ClassDef() | ast.FunctionDef()) as node):
                return Definition(home, node)
            case (Module() as home, node):
                return self.value(node, Scope(home))
        return Symbol(name)

    def eval_attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        base = self.value(node.value, scope)
        if isinstance(base, Definition):
            return self.class_value(base, node.attr)
        if isinstance(base, str) and node.attr == "value":
            return base  # a member of an enum stands for its value
        return Symbol(f"{base.name}.{node.attr}") if isinstance(base, Symbol) else UNKNOWN

    def eval_subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base, key = self.value(node.value, scope), self.value(node.slice, scope)
        return base[key] if isinstance(base, dict) and isinstance(key, str) else UNKNOWN

    def eval_list(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Any:
        items: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                items += self._items(item.value, scope)
            else:
                items.append(self.value(item, scope))
        return UNKNOWN if UNKNOWN in items else items

    eval_tuple = eval_set = eval_list

    def eval_listcomp(self, node: ast.ListComp, scope: Scope) -> Any:
        match node.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=source, ifs=[])]:
                inner = [replace(scope, names={**scope.names, name: item})
                         for item in self._items(source, scope)]  # fmt: skip
                items = [self.value(node.elt, one) for one in inner]
                return UNKNOWN if UNKNOWN in items else items
        return UNKNOWN

    def _items(self, node: ast.expr, scope: Scope) -> list[Any]:
        """What iterating gives; one unknown item if the source does not tell."""
        match self.value(node, scope):
            case list() as items:
                return items
            case dict() as items:
                return list(items)
            case Definition() as made if _class_kind(made) == "enum":
                return [self.class_value(made, name) for name in _class_names(made)]
        return [UNKNOWN]

    def eval_dict(self, node: ast.Dict, scope: Scope) -> Any:
        made: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item, scope)
            if key is not None:
                made[self.value(key, scope)] = value
            elif isinstance(value, dict):
                made |= value
            else:
                raise _unsupported(item, scope.module)
        return made

    def eval_unaryop(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        if isinstance(value, Unknown | Symbol):
            return UNKNOWN
        return not value if isinstance(node.op, ast.Not) else -value

    def eval_binop(self, node: ast.BinOp, scope: Scope) -> Any:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            return UNKNOWN
        match node.op:
            case ast.Mult():
                return left * right
            case ast.Pow():
                return left**right
            case ast.LShift() if isinstance(left, int) and isinstance(right, int):
                return left << right
        return UNKNOWN

    def eval_compare(self, node: ast.Compare, scope: Scope) -> Any:
        left, right = self.value(node.left, scope), self.value(node.comparators[0], scope)
        if isinstance(node.ops[0], ast.In) and isinstance(right, dict):
            return left in right
        return UNKNOWN

    def eval_joinedstr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        texts = [self.value(part, scope) for part in node.values]
        return "".join(texts) if all(isinstance(text, str) for text in texts) else UNKNOWN

    def eval_formattedvalue(self, node: ast.FormattedValue, scope: Scope) -> Any:
        return self.value(node.value, scope)

    # calls

    def eval_call(self, node: ast.Call, scope: Scope) -> Any:
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, scope)
            return self._method(base, node.func.attr, node, scope)
        if _dotted(node.func) == "super" and scope.owner:
            return Super(scope.owner)
        if _dotted(node.func) == "get_args":
            return list(self.annotations.literals(node.args, scope.module))
        return self._function(self.value(node.func, scope), node, scope)

    def _function(self, function: Any, node: ast.Call, scope: Scope) -> Any:
        name = getattr(function, "name", "").rpartition(".")[2]
        if name == "FlexibleArgumentParser":
            return self.root
        if name == "get_kwargs":
            return self.keywords(self.value(node.args[0], scope))
        if name in {"optional_type", "parse_type"}:
            return OptionalType(self.value(node.args[0], scope))
        if name == "get_field":
            return self.class_value(
                self.value(node.args[0], scope), self.value(node.args[1], scope)
            )
        if name in {"Field", "field"}:
            return self._field_default(node, scope)
        if name == "list" and node.args:
            items = self._items(node.args[0], scope)
            return items if items and UNKNOWN not in items else UNKNOWN  # empty: filled later
        args = [self.value(arg, scope) for arg in node.args]
        if isinstance(function, Definition) and _has_parser(args):
            return self.run(function, args)
        return self._unfollowed(name, args, node, scope)

    def _method(self, base: Any, name: str, node: ast.Call, scope: Scope) -> Any:
        if isinstance(base, Parser):
            return self._parser_method(base, name, node, scope)
        args = [self.value(arg, scope) for arg in node.args]
        if isinstance(base, Super | Definition):
            return self.call_class(base, name, args)
        if (type(base), name) in METHODS:
            return getattr(base, name)(*args)
        return self._unfollowed(name, args, node, scope)

    def _unfollowed(self, name: str, args: list[Any], node: ast.Call, scope: Scope) -> Unknown:
        """A call with an unknown value is fine, unless it can register flags."""
        if _has_parser(args) and name != PLATFORM_HOOK:
            raise _unsupported(node, scope.module)
        return UNKNOWN

    def call_class(self, base: Super | Definition, name: str, args: list[Any]) -> Any:
        """Call a method as the class that it is looked up in."""
        start = base.owner if isinstance(base, Super) else base
        for owner in self.lineage(start)[isinstance(base, Super) :]:
            match _class_names(owner).get(name):
                case ast.FunctionDef() as node:
                    return self.run(Definition(owner.module, node), args, owner, start)
        if _has_parser(args):
            raise UnsupportedSourceError(f"no {name} in {start.name}")
        return UNKNOWN

    def _parser_method(self, parser: Parser, name: str, node: ast.Call, scope: Scope) -> Any:
        if name == "add_argument":
            parser.calls.append((self._names(node, scope), self._keywords(node, scope)))
        if name == "add_parser":
            return parser.subparsers.setdefault(self.value(node.args[0], scope), Parser())
        return parser if name.startswith("add_") else UNKNOWN

    def _names(self, node: ast.Call, scope: Scope) -> list[str]:
        names: list[Any] = []
        for arg in node.args:
            starred = isinstance(arg, ast.Starred)
            value = self.value(arg.value if isinstance(arg, ast.Starred) else arg, scope)
            names += value if starred and isinstance(value, list) else [value]
        if not all(isinstance(name, str) for name in names):
            raise _unsupported(node, scope.module)
        return names

    def _keywords(self, node: ast.Call, scope: Scope) -> dict[str, Any]:
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords |= value
            else:
                raise _unsupported(node, scope.module)
        return keywords

    # classes

    def lineage(self, definition: Definition) -> list[Definition]:
        """The class and its bases inside the package, nearest first."""
        found = [definition]
        for base in _bases(definition):
            value = self.value(base, Scope(definition.module))
            found += self.lineage(value) if isinstance(value, Definition) else []
        return found

    def class_value(self, definition: Any, name: str) -> Any:
        """A field's default, an enum member's value or a constant of a class."""
        for owner in self.lineage(definition) if isinstance(definition, Definition) else []:
            match _class_names(owner).get(name):
                case ast.FunctionDef():
                    return Symbol(name)
                case ast.expr() as node:
                    return self.value(node, Scope(owner.module, owner=owner))
        return UNKNOWN

    def _field_default(self, node: ast.Call, scope: Scope) -> Any:
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if default := given.get("default") or next(iter(node.args), None):
            return self.value(default, scope)
        match given.get("default_factory"):
            case ast.Lambda(body=body):
                return self.value(body, scope)
            case ast.Name(id=("list" | "set" | "tuple")):
                return []
            case ast.Name(id="dict"):
                return {}
            case ast.Name() as name if isinstance(made := self.value(name, scope), Definition):
                return {} if _class_kind(made) == "dict" else UNKNOWN
        return UNKNOWN

    def keywords(self, definition: Any) -> dict[str, dict[str, Any]]:
        """vLLM's `get_kwargs`: argparse keywords for each field of a config class."""
        made: dict[str, dict[str, Any]] = {}
        for owner in reversed(self.lineage(definition)):
            docs = _docstrings(owner)
            for name, annotation in _annotated(owner):
                hints = self.annotations.hints(annotation, owner.module)
                default = self.class_value(owner, name)
                made[name] = {"default": default, "help": docs.get(name, "")}
                made[name] |= type_keywords(name, hints, self.rules)
        return made

    def unsuppress(self, names: list[str], keywords: dict[str, Any]) -> dict[str, Any]:
        """What argparse is told to leave out gets its default from EngineArgs."""
        if _name_of(keywords.get("default")) != "SUPPRESS":
            return keywords
        engine_args = self.global_value(self.arg_utils, "EngineArgs")
        dest = names[0].removeprefix("--").replace("-", "_")
        return keywords | {"default": self.class_value(engine_args, dest)}

    # statements

    def run_serve(self, module: Module) -> Parser:
        """Build the parser of `vllm serve`: by its own class, or by the script of the old days."""
        match self.global_value(module, "ServeSubcommand"), self.global_value(module, "main"):
            case Definition() as command, _:
                self.call_class(command, "subparser_init", [self.root])
            case _, Definition() as script:
                self.run(script, [])
        if parser := self.root.subparsers.get("serve"):
            return parser
        raise UnsupportedSourceError(f"no serve command in {module.name}")

    def run(
        self,
        function: Definition,
        args: Sequence[Any],
        owner: Definition | None = None,
        bound: Definition | None = None,
    ) -> Any:
        """Follow a function, with `bound` as the class of a class method."""
        node = function.node
        if not isinstance(node, ast.FunctionDef):
            return UNKNOWN
        scope = Scope(function.module, owner=owner)
        names = [arg.arg for arg in node.args.args]
        defaults = node.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            scope.names[name] = self.value(default, scope)
        static = "staticmethod" in map(_dotted, node.decorator_list)
        given = args if bound is None or static else [bound, *args]
        scope.names |= dict(zip(names, given, strict=False))
        return self.body(node.body, scope)

    def body(self, body: Iterable[ast.stmt], scope: Scope) -> Any:
        """Follow statements; the value that the function returns, if any."""
        for node in body:
            if isinstance(node, ast.Return) and node.value:
                return self.value(node.value, scope)
            self._statement(node, scope)
        return UNKNOWN

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.Expr(value=value):
                self.value(value, scope)
            case ast.If():
                self._if(node, scope)
            case ast.For():
                self._for(node, scope)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self.value(value, scope), scope)
            case ast.ImportFrom():
                self._import(node, scope)
            case ast.Delete(targets=[ast.Subscript(value=base, slice=key)]):
                self.value(base, scope).pop(self.value(key, scope))
            case ast.AugAssign():
                pass  # only help texts grow
            case _ if _registers(node):
                raise _unsupported(node, scope.module)

    def _assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope.names[name] = value
            case ast.Subscript(value=base, slice=key) if isinstance(
                made := self.value(base, scope), dict
            ):
                made[self.value(key, scope)] = value
            case ast.Tuple(elts=targets) if isinstance(value, list | tuple):
                for one, item in zip(targets, value, strict=True):
                    self._assign(one, item, scope)

    def _import(self, node: ast.ImportFrom, scope: Scope) -> None:
        target = self.package.module(scope.module.origin(node))
        for alias in node.names:
            found = self.global_value(target, alias.name) if target else Symbol(alias.name)
            scope.names[alias.asname or alias.name] = found

    def _if(self, node: ast.If, scope: Scope) -> None:
        test = self.value(node.test, scope)
        unknown = isinstance(test, Unknown | Symbol)
        self.body(node.body if unknown or test else [], scope)
        self.body(node.orelse if unknown or not test else [], scope)

    def _for(self, node: ast.For, scope: Scope) -> None:
        items = self.value(node.iter, scope)
        if isinstance(items, Unknown | Symbol):
            if _registers(node):
                raise _unsupported(node, scope.module)
            return
        for item in items:
            self._assign(node.target, item, scope)
            self.body(node.body, scope)


def _registers(node: ast.AST) -> bool:
    """Whether something in here calls `add_argument`."""
    attributes = (item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute))
    return "add_argument" in attributes


def _has_parser(args: Iterable[Any]) -> bool:
    return any(isinstance(arg, Parser) for arg in args)


def _class_names(definition: Definition) -> dict[str, ast.AST]:
    names: dict[str, ast.AST] = {}
    for node in definition.node.body:
        names |= _bound(node)
    return names


def _annotated(definition: Definition) -> Iterator[tuple[str, ast.expr]]:
    """The dataclass fields of a class body."""
    for node in definition.node.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                base = _dotted(getattr(annotation, "value", annotation))
                if base.rpartition(".")[2] not in {"ClassVar", "InitVar"}:
                    yield name, annotation


def _docstrings(definition: Definition) -> dict[str, str]:
    docs: dict[str, str] = {}
    for node, after in pairwise(definition.node.body):
        match node, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str() as text)
            ):
                docs[name] = text
    return docs


def _unsupported(node: ast.AST, module: Module) -> UnsupportedSourceError:
    return UnsupportedSourceError(
        f"{module.name}:{getattr(node, 'lineno', '?')}: cannot follow this"
    )


# ---------------------------------------------------------------- calls → records


@dataclass(frozen=True)
class Dialect:
    """What a release's own argument parser adds to argparse."""

    inverses: dict[str, str]
    level_flag: bool  # -O3 is --optimization-level 3
    leaving: frozenset[str]  # accepted with a warning that the flag will go

    @classmethod
    def of(cls, module: Module) -> Dialect:
        text = "\n".join(_texts(module.tree))
        level = "-O" in text.splitlines() and "--optimization-level" in text.splitlines()
        leaving = re.findall(r"`(--[\w-]+)` option will be removed", text)
        return cls(_inverse_prefixes(module), level, frozenset(leaving))


def _texts(node: ast.AST) -> list[str]:
    """The string literals inside of a node."""
    constants = (item.value for item in ast.walk(node) if isinstance(item, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def grammar(
    parser: Module,
    serve: Module,
    arg_utils: Module,
    positionals: list[tuple[list[str], dict[str, Any]]],
) -> Record:
    """Which words the release's parser reads in a way that others do not."""
    functions = [node for node in ast.walk(parser.tree) if isinstance(node, ast.FunctionDef)]
    raised = [node for module in (parser, serve) for node in ast.walk(module.tree)
              if isinstance(node, ast.Raise)]  # fmt: skip
    readers = [arg_utils.names.get(name) for name in ("parse_type", "optional_type")]
    called = {_dotted(node) for reader in readers if reader for node in ast.walk(reader)}
    texts = [text for node in raised for text in _texts(node)]
    tag = next(keywords for names, keywords in positionals if names == ["model_tag"])
    return {
        "dotted": any(function.name == "create_nested_dict" for function in functions),
        "pairs": "nullable_kvs" in called,
        "model_option": not any(NO_MODEL_OPTION in text for text in texts),
        "model_required": "nargs" not in tag,
        "module_model": not _adds_argument(serve, "model_tag"),
        "name_behind_model": any(MODEL_FIRST in text for text in texts),
    }


def _adds_argument(module: Module, name: str) -> bool:
    """Whether a module itself registers an argument, beside those of every entry point."""
    calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    return any(
        isinstance(arg, ast.Constant) and arg.value == name
        for call in calls
        if _dotted(call.func).endswith("add_argument")
        for arg in call.args
    )


def _inverse_prefixes(module: Module) -> dict[str, str]:
    match module.names.get("EnableDisableAction"):
        case ast.ClassDef() as node:
            return dict(
                ast.literal_eval(_class_names(Definition(module, node))["_inverse_prefixes"])
            )
    return {}


def record(names: list[str], keywords: dict[str, Any], dialect: Dialect) -> Record:
    flag = next(name for name in names if name.startswith("--"))
    aliases = [name for name in names if name != flag]
    if dialect.level_flag and flag == "--optimization-level":
        aliases.append("-O")
    action = _name_of(keywords.get("action", "store"))
    keywords |= {"type": Symbol(action)} if action == "StoreBoolean" else {}
    boolean = action in {"store_true", "store_false", "BooleanOptionalAction"}
    made: Record = {
        "flag": flag,
        "aliases": aliases,
        "takes": "none" if boolean else _takes(keywords),
    }
    made |= {"type": "bool"} if boolean else _typed(keywords)
    made["negatable"] = action == "BooleanOptionalAction"
    made |= _inverse(flag, dialect) if made["negatable"] else {}
    made |= _default(keywords.get("default", _default_of(action)))
    made |= {"field": FIELDS[flag]} if flag in FIELDS else {}
    made |= {"deprecated": True} if _deprecated(flag, keywords, dialect) else {}
    return made


def _name_of(value: Any) -> str:
    name = value if isinstance(value, str) else getattr(value, "name", "")
    return name.rpartition(".")[2]


def _takes(keywords: dict[str, Any]) -> str:
    match keywords.get("nargs"):
        case None | 1:
            return "value"
        case "?":
            return "optional_value"
    return "many"


TYPES = {
    "int": "int",
    "float": "float",
    "StoreBoolean": "bool",
    "loads": "json",
    "union_dict_and_str": "json_or_text",
    "from_cli": "json",
    "from_json": "json",
    "human_readable_int": "human_int",
    "human_readable_int_or_auto": "human_int_auto",
}
NULLABLE = frozenset({"nullable_str", "nullable_kvs"})


def _typed(keywords: dict[str, Any]) -> Record:
    given = keywords.get("type", Symbol("str"))
    nullable = isinstance(given, OptionalType) or _name_of(given) in NULLABLE
    while isinstance(given, OptionalType):
        given = given.inner
    return _converted(_name_of(given), keywords) | ({"nullable": True} if nullable else {})


def _converted(name: str, keywords: dict[str, Any]) -> Record:
    if name == "unsupported":
        raise UnsupportedSourceError(f"no argparse type for {keywords}")
    choices, metavar = keywords.get("choices"), keywords.get("metavar")
    if isinstance(choices, list):  # a function first rewrites the word: not the parser's own check
        exact = name in {"str", "int", "nullable_str"}
        return {"type": "choice" if exact else "str", "choices": choices}
    listed = {"choices": metavar} if isinstance(metavar, list) else {}
    return {"type": TYPES.get(name, "str")} | listed


def _inverse(flag: str, dialect: Dialect) -> Record:
    for prefix, other in dialect.inverses.items():
        if flag.startswith(prefix):
            return {"inverse": other + flag.removeprefix(prefix)}
    return {}


def _default_of(action: str) -> bool | None:
    return {"store_true": False, "store_false": True}.get(action)


def _default(value: Any) -> Record:
    try:
        json.dumps(value)
    except TypeError:
        return {}
    return {"default": value}


LEAVES = re.compile(
    r"(?:^|\n\s*\n)\s*[\[(]?deprecated|\(deprecated\b|this parameter is deprecated", re.I
)


def _deprecated(flag: str, keywords: dict[str, Any], dialect: Dialect) -> bool:
    text = str(keywords.get("help"))
    said = LEAVES.search(text) or re.search(rf"{flag}\)? is deprecated", text)
    return bool(said) or keywords.get("deprecated") is True or flag in dialect.leaving


# ---------------------------------------------------------------- releases → table


def release_of(path: Path) -> str:
    for file in (path / "PKG-INFO", *sorted(path.glob("vllm-*.dist-info/METADATA"))):
        if file.is_file() and (
            found := re.search(r"^Version: (\S+)$", file.read_text("utf-8"), re.M)
        ):
            return found[1]
    raise UnsupportedSourceError(f"no PKG-INFO or METADATA in {path}")


def read(path: Path) -> Release:
    package = Package(path)
    serve = package.module("vllm.entrypoints.cli.serve") or package.require("vllm.scripts")
    interpreter = Interpreter(package)
    calls = interpreter.run_serve(serve).calls
    parser = _parser_module(package, serve)
    dialect = Dialect.of(parser)
    options = [(names, keywords) for names, keywords in calls if names[0].startswith("-")]
    made = [dict(HELP)]
    made += [record(names, interpreter.unsuppress(names, kw), dialect) for names, kw in options]
    no_spelling_twice(made)
    flags = sorted(made, key=lambda row: str(row["flag"]))
    positionals = [(names, keywords) for names, keywords in calls if not names[0].startswith("-")]
    return Release(flags, grammar(parser, serve, interpreter.arg_utils, positionals))


def _parser_module(package: Package, serve: Module) -> Module:
    if found := package.find(serve, "FlexibleArgumentParser"):
        return found[0]
    raise UnsupportedSourceError("no FlexibleArgumentParser")


def table(releases: dict[str, Release], reviewed: Record) -> Record:
    return flag_table.table("vllm", SOURCE, SUPPORTED, releases, reviewed)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the table of vllm serve flags.")
    parser.add_argument("packages", nargs="+", type=Path, help="unpacked sdists or wheels")
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
