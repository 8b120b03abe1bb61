"""The configuration: where it is found, what it says, and where a mistake in it stands.

`shardlint.toml`, or `[tool.shardlint]` in `pyproject.toml`. One JSON Schema says what may stand
there. A key that is left out is not known: nothing here fills in a default that poses as a fact.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from shardlint.plugins import Rule, Severity
from shardlint.record import record
from shardlint.source import DecodeError, Source
from shardlint.toml_places import MAX_DEPTH, Place, Where, locate, tokens

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILE = "shardlint.toml"
PYPROJECT = "pyproject.toml"
MAX_SHOWN = 60


class ConfigError(Exception):
    """The configuration cannot be used; `line` and `column` from 1, None without a place."""

    def __init__(
        self, message: str, file: str, line: int | None = None, column: int | None = None
    ) -> None:
        place = file if line is None else f"{file}:{line}:{column}"
        super().__init__(f"{place}: {message}")
        self.message, self.file, self.line, self.column = message, file, line, column


# ------------------------------------------------------------------------------------ document


@record
class Document:
    """The text of a configuration; `root` leads to the table that is ours."""

    source: Source
    root: tuple[str, ...] = ()

    @cached_property
    def _places(self) -> dict[Where, Place]:
        return locate(self.source.text)

    def offset(self, where: Where, *, key: bool = False) -> int:
        """Where a value, or its key, stands; if it cannot be found, the header of its table."""
        where = (*self.root, *where)
        found = self._places.get(where)
        if found is not None and key:
            return found.key
        while found is None:
            where = where[:-1]
            found = self._places.get(where)
        return found.value

    def error(self, where: Where, message: str, *, key: bool = False) -> ConfigError:
        return self.error_at(self.offset(where, key=key), message)

    def error_at(self, offset: int, message: str) -> ConfigError:
        at = self.source.position(offset)
        return ConfigError(message, self.source.name, at.line, at.column)

    def header(self, where: Where) -> str:
        """A table as its header is written: [hardware], [[pool]], [models."org/name"]."""
        names = ".".join(_bare(name) for name in (*self.root, *where) if isinstance(name, str))
        return f"[[{names}]]" if where and isinstance(where[-1], int) else f"[{names}]"


def _bare(name: str) -> str:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    return name if bare else json.dumps(_printable(name), ensure_ascii=False)


# ----------------------------------------------------------------------------------- settings


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@record(kw_only=True)
class Machines:
    """What [hardware] says; None where it says nothing."""

    gpu: str | None = None
    gpus_per_node: int | None = None
    nodes: int | None = None
    network: str | None = None
    link: str | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user says; empty and None where nothing is said. Nothing in it can be changed.

    `models` hold fields of ModelFacts, or `config` (a Path, joined to the folder of the file) or
    `base`.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity | None = None
    exclude: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)
    online: bool = False
    engines: Mapping[str, str] = field(default_factory=_nothing)
    platforms: Mapping[str, str] = field(default_factory=_nothing)
    hardware: Machines = Machines()
    gpus: Mapping[str, Mapping[str, Any]] = field(default_factory=_nothing)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=_nothing)
    workload: Mapping[str, Any] = field(default_factory=_nothing)
    pools: tuple[Mapping[str, Any], ...] = ()
    overlays: tuple[Mapping[str, Any], ...] = ()
    path: Path | None = None
    document: Document | None = field(default=None, repr=False, compare=False)

    @property
    def folder(self) -> Path:
        """What paths and patterns are relative to: the working directory if there is no file."""
        return Path() if self.path is None else self.path.parent

    def error(self, where: Where, message: str, *, key: bool = False) -> ConfigError:
        """An error for somebody who knows more than the schema: at a value, or at its key."""
        if self.document is None:
            return ConfigError(message, FILE)
        return self.document.error(where, message, key=key)


def find(start: Path) -> Path | None:
    """The nearest configuration upward from `start`; shardlint.toml first within one folder."""
    start = Path(os.path.normpath(start.absolute()))
    for folder in (start, *start.parents):
        if _is_file(folder / FILE):
            return folder / FILE
        if _is_ours(folder / PYPROJECT):
            return folder / PYPROJECT
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _is_ours(path: Path) -> bool:
    """A pyproject.toml with our table; one that does not parse counts if it has our header."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace") if path.is_file() else ""
    except OSError:
        return False
    if "shardlint" not in text:
        return False
    import tomllib

    try:
        tool = tomllib.loads(text).get("tool")
    except (ValueError, RecursionError):
        return bool(re.search(r"^\s*\[\s*tool\s*\.\s*[\"']?shardlint\b", text, re.MULTILINE))
    return isinstance(tool, dict) and "shardlint" in tool


def load(path: Path, display: str) -> Settings:
    """Read a configuration, or raise ConfigError; `display` is its name in messages."""
    try:
        source = Source.from_bytes(display, path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", display) from None
    except DecodeError as error:
        raise ConfigError(str(error), display, error.line, error.column) from None
    root = ("tool", "shardlint") if path.name == PYPROJECT else ()
    document = Document(source, root)
    data = _parse(document)
    _check(data, document)
    return _settings(data, path, document)


def _parse(document: Document) -> dict[str, Any]:
    """Our table of the text."""
    import tomllib

    text = document.source.text
    try:
        data: Any = tomllib.loads(text)
    except RecursionError:
        raise document.error_at(_too_deep(text), "nested too deeply") from None
    except ValueError as error:
        raise _syntax_error(error, document) from None
    for name in document.root:
        data = data.get(name) if isinstance(data, dict) else None
    if not isinstance(data, dict):
        raise ConfigError(f"there is no table {document.header(())} here", document.source.name)
    return data


def _too_deep(text: str) -> int:
    """Offset of the bracket that goes deeper than anybody needs."""
    depth = 0
    for token in tokens(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token["mark"] or "", 0)
        if depth > MAX_DEPTH:
            return token.start()
    return len(text)


def _syntax_error(error: ValueError, document: Document) -> ConfigError:
    """What tomllib says, at the place that it names: "... (at line 3, column 5)"."""
    text, name = document.source.text, document.source.name
    said = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|.*)\)", str(error), re.DOTALL)
    if said is None:  # not about syntax: a number with more digits than Python converts
        digits = re.search(r"[0-9][0-9_]{999,}", text)
        return document.error_at(digits.start() if digits else len(text), "number out of range")
    message = f"not TOML: {said[1][:1].lower()}{said[1][1:]}"
    if said[2] is None:
        return document.error_at(len(text), message)
    return ConfigError(message, name, int(said[2]), int(said[3]))


def _settings(data: dict[str, Any], path: Path, document: Document) -> Settings:
    frozen = _frozen(data)
    return Settings(
        select=frozen.get("select", ()),
        ignore=frozen.get("ignore", ()),
        fail_on=frozen.get("fail-on"),
        exclude=frozen.get("exclude", ()),
        per_file_ignores=frozen.get("per-file-ignores", _nothing()),
        online=frozen.get("online", False),
        engines=frozen.get("engines", _nothing()),
        platforms=frozen.get("platforms", _nothing()),
        hardware=Machines(**frozen.get("hardware", {})),
        gpus=frozen.get("gpus", _nothing()),
        models=_models(frozen.get("models", {}), path.parent),
        workload=frozen.get("workload", _nothing()),
        pools=frozen.get("pool", ()),
        overlays=frozen.get("overlay", ()),
        path=path,
        document=document,
    )


def _models(models: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The same, with `config` as a path from the folder of the file."""
    placed = {}
    for name, facts in models.items():
        config = {"config": folder / facts["config"]} if "config" in facts else {}
        placed[name] = MappingProxyType({**facts, **config})
    return MappingProxyType(placed)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


# --------------------------------------------------------------------------------- validation


class _Problem(NamedTuple):
    where: Where
    message: str
    key: bool = False


def _check(data: dict[str, Any], document: Document) -> None:
    """Raise ConfigError for the first problem in the text."""
    problems = list(_unusable(data, document))
    problems = problems or [*_against_schema(data, document), *_bad_patterns(data)]
    if problems:
        first = min(problems, key=lambda it: document.offset(it.where, key=it.key))
        raise document.error(first.where, first.message, key=first.key)


def _unusable(data: dict[str, Any], document: Document) -> Iterator[_Problem]:
    """Values that TOML allows and nobody can work with."""
    todo: list[tuple[Where, Any]] = [((), data)]
    while todo:
        where, value = todo.pop()
        if len(where) > MAX_DEPTH:
            yield _Problem(where, "nested too deeply", key=True)
        elif isinstance(value, float) and not math.isfinite(value):
            yield _Problem(where, f"{_subject(where, document)} must be a finite number")
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield _Problem(where, "number out of range")
        elif isinstance(value, dict):
            todo += (((*where, name), item) for name, item in value.items())
        elif isinstance(value, list):
            todo += (((*where, index), item) for index, item in enumerate(value))


def _against_schema(data: dict[str, Any], document: Document) -> Iterator[_Problem]:
    for error in _validator().iter_errors(data):
        where = tuple(error.absolute_path)
        if error.validator == "additionalProperties":
            yield from _unknown_keys(where, error.instance, error.schema["properties"], document)
        elif error.validator == "required":
            yield _missing_key(where, error.instance, error.validator_value, document)
        elif error.validator == "not":
            yield _not_both(where, error.validator_value["required"], document)
        else:
            says = _says(error.validator, error.validator_value, error.instance)
            yield _Problem(where, f"{_subject(where, document)} {says}")


def _validator() -> Any:
    """The schema's validator. 8.0 is no whole number here: it would stay a float."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from shardlint_schemas import schema

    def whole(_: object, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", whole)
    strict = extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]
    return strict(schema("config"))


def _unknown_keys(
    where: Where, table: Mapping[str, Any], known: Mapping[str, Any], document: Document
) -> Iterator[_Problem]:
    place = f" in {document.header(where)}" if where or document.root else ""
    for name in table:
        if name not in known:
            hint = _guess(name, known) or _all_of(known)
            message = f"unknown key {_quoted(name)}{place}{hint}"
            yield _Problem((*where, name), message, key=True)


def _missing_key(
    where: Where, table: Mapping[str, Any], required: list[str], document: Document
) -> _Problem:
    missing = next(name for name in required if name not in table)
    return _Problem(where, f"missing key '{missing}' in {document.header(where)}")


def _not_both(where: Where, names: list[str], document: Document) -> _Problem:
    message = f"'{names[0]}' and '{names[1]}' in {document.header(where)} exclude each other"
    return _Problem((*where, names[1]), message, key=True)


def _bad_patterns(data: dict[str, Any]) -> Iterator[_Problem]:
    """Patterns that .gitignore would not take; what is no list of strings is the schema's."""
    exclude, ignores = data.get("exclude"), data.get("per-file-ignores")
    places: list[tuple[Where, Any, bool]] = []
    if isinstance(exclude, list):
        places += ((("exclude", index), text, False) for index, text in enumerate(exclude))
    if isinstance(ignores, dict):
        places += ((("per-file-ignores", text), text, True) for text in ignores)
    for where, text, key in places:
        if isinstance(text, str) and not _is_pattern(text):
            yield _Problem(where, f"{_quoted(text)} is no pattern of .gitignore", key)


def _is_pattern(text: str) -> bool:
    try:
        _spec(text)
    except (ValueError, re.error):
        return False
    return True


def _subject(where: Where, document: Document) -> str:
    """A value in words: 'gpu' in [hardware]; item 2 of 'select'."""
    last = where[-1]
    if isinstance(last, int):
        return f"item {last + 1} of {_subject(where[:-1], document)}"
    table = where[:-1]
    return _quoted(last) + (f" in {document.header(table)}" if table else "")


_WORDS = {
    "object": "a table",
    "array": "an array",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_KINDS = {
    dict: "a table",
    list: "an array",
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
}


def _says(keyword: str, wanted: Any, value: object) -> str:
    """What is wrong with a value, by the keyword of the schema that it breaks."""
    match keyword:
        case "type":
            return f"must be {_WORDS[wanted]}, not {_kind(value)}"
        case "enum":
            return f"must be {_either(wanted)}, not {_shown(value)}"
        case "minimum":
            return f"must be at least {wanted}, not {value}"
        case "exclusiveMinimum":
            return f"must be more than {wanted}, not {value}"
        case "maximum":
            return f"must be at most {wanted}, not {value}"
        case _:
            assert keyword in ("minLength", "minItems", "minProperties"), keyword
            return "must not be empty"


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date or time")


def _shown(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else _kind(value)


def _printable(text: str) -> str:
    """On one line, without control characters, and not longer than people read."""
    text = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _quoted(text: str) -> str:
    return f"'{_printable(text)}'"


def _either(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _guess(word: str, known: Iterable[str]) -> str:
    """The question after an unknown word, or nothing."""
    import difflib

    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), folded, n=1)
    return f"; did you mean '{folded[close[0]]}'?" if close else ""


def _all_of(known: Iterable[str]) -> str:
    names = sorted(known)
    return f"; known: {', '.join(names)}" if len(names) <= 8 else ""


# ------------------------------------------------------------------------------- command line


def overridden(
    settings: Settings,
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    fail_on: Severity | None = None,
    exclude: Iterable[str] = (),
    online: bool | None = None,
    gpu: str | None = None,
    gpus_per_node: int | None = None,
    nodes: int | None = None,
    network: str | None = None,
    link: str | None = None,
    engines: Mapping[str, str] | None = None,
    platforms: Mapping[str, str] | None = None,
    gpus: Mapping[str, Mapping[str, Any]] | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    workload: Mapping[str, Any] | None = None,
) -> Settings:
    """The command line over the file; what is None or empty leaves the file's word.

    `select` starts afresh: the file's select and ignore no longer count. `ignore` and `exclude`
    add to the file's. Tables are joined key by key.
    """
    asked: dict[str, Any] = {"gpu": gpu, "gpus_per_node": gpus_per_node, "nodes": nodes}
    asked |= {"network": network, "link": link}
    return replace(
        settings,
        **_selection(settings, tuple(select), tuple(ignore)),
        fail_on=fail_on or settings.fail_on,
        exclude=(*settings.exclude, *exclude),
        online=settings.online if online is None else online,
        hardware=replace(settings.hardware, **{k: v for k, v in asked.items() if v is not None}),
        engines=_joined(settings.engines, engines),
        platforms=_joined(settings.platforms, platforms),
        gpus=_joined(settings.gpus, gpus),
        models=_joined(settings.models, models),
        workload=_joined(settings.workload, workload),
    )


def _selection(
    settings: Settings, select: tuple[str, ...], ignore: tuple[str, ...]
) -> dict[str, Any]:
    if select:
        return {"select": select, "ignore": ignore}
    return {"ignore": (*settings.ignore, *ignore)}


def _joined(file: Mapping[str, Any], line: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return MappingProxyType({**file, **line}) if line else file


# ---------------------------------------------------------------------------------- selection

_EXACT = 1_000_000  # more than any prefix is long


def _weight(selector: str, rule_id: str, rule_name: str) -> int:
    """How closely a selector names a rule; 0: not at all."""
    if selector in (rule_id, rule_name):
        return _EXACT
    return len(selector) if rule_id.startswith(selector) else 0


def _closest(selectors: Iterable[str], rule_id: str, rule_name: str) -> int:
    return max((_weight(selector, rule_id, rule_name) for selector in selectors), default=0)


def selected(
    rule_id: str,
    rule_name: str,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    *,
    enabled: bool = True,
) -> bool:
    """Whether a rule runs: the more specific selector wins, and ignore wins a tie.

    Nothing selected means every rule that is on by default (`enabled`); a rule that is off by
    default runs once a selector matches it.
    """
    select = tuple(select)
    dropped = _closest(ignore, rule_id, rule_name)
    if not select:
        return enabled and not dropped
    return _closest(select, rule_id, rule_name) > dropped


def check_selectors(selectors: Iterable[str], rules: Iterable[type[Rule]]) -> dict[str, str]:
    """Selectors that match no rule, each with a message that has a guess."""
    rules = tuple(rules)
    known = [word for rule in rules for word in (rule.id, rule.name)]
    return {
        selector: f"unknown rule {_quoted(selector)}{_guess(selector, known)}"
        for selector in selectors
        if not any(_weight(selector, rule.id, rule.name) for rule in rules)
    }


def check_rules(settings: Settings, rules: Iterable[type[Rule]]) -> None:
    """Raise ConfigError for the first selector of a file that matches no rule.

    For settings as they were loaded, before `overridden`: the place is one in the file.
    """
    rules = tuple(rules)
    lists: list[tuple[Where, tuple[str, ...]]] = [
        (("select",), settings.select),
        (("ignore",), settings.ignore),
    ]
    lists += ((("per-file-ignores", key), it) for key, it in settings.per_file_ignores.items())
    for where, selectors in lists:
        for selector, message in check_selectors(selectors, rules).items():
            raise settings.error((*where, selectors.index(selector)), message)


# -------------------------------------------------------------------------------------- files


@lru_cache(maxsize=512)
def _spec(*patterns: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


def _inside(settings: Settings, path: Path) -> str | None:
    """A path relative to the folder of the configuration; None outside of it."""
    folder = os.path.normpath(settings.folder.absolute())
    try:
        return Path(os.path.normpath(path.absolute())).relative_to(folder).as_posix()
    except ValueError:
        return None


def excluded(settings: Settings, path: Path) -> bool:
    """Whether `exclude` names a file, or a folder above it."""
    if not settings.exclude:
        return False
    inside = _inside(settings, path)
    return inside is not None and _spec(*settings.exclude).match_file(inside)


def ignored_in(settings: Settings, path: Path) -> tuple[str, ...]:
    """The selectors that `per-file-ignores` adds to `ignore` for one file."""
    if not settings.per_file_ignores:
        return ()
    inside = _inside(settings, path)
    if inside is None:
        return ()
    lists = settings.per_file_ignores.items()
    return tuple(
        it for pattern, rules in lists if _spec(pattern).match_file(inside) for it in rules
    )
