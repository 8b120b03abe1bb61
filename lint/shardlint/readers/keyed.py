"""Maps whose keys are options of an engine: config files, `engine_kwargs`, values of a chart.

They become the words of a command line, so that the engine reads them as it reads options; a value
is edited where it stands, and an option that is not there is written as one more key of the map.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardlint.known import Text
from shardlint.plan import Offer, Refusal, Site
from shardlint.readers.edits import EntrySite, Tree, add_entry
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Edit, Mapped

TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")


def dashed(key: str) -> str:
    """The option of a key that is named like it."""
    return "--" + key.replace("_", "-")


@record(kw_only=True)
class Keyed:
    """How the keys of a map become options.

    `option` names the option of a key, None where it is none; `off` tells what false stands for:
    nothing ("drop") or the negated option ("negate"); `lists` whether the items of a list are
    values of one option ("words") or JSON ("json").
    """

    option: Callable[[str], str | None] = dashed
    off: str = "drop"
    lists: str = "words"

    def words(self, node: Node | None) -> tuple[Text, ...]:
        """The options of a map, in its order, each with the values that stand beside its key."""
        if node is None or node.kind != "map":
            return ()
        return tuple(word for pair in node.entries() for word in self._words(*pair))

    def _words(self, key: Node, value: Node) -> Iterator[Text]:
        name = self.option(key.value)
        if name is None or value.is_null:
            return
        written = Text(Mapped.all_at(name, key.span), key.origin)
        plain = value.kind == "scalar" and value.style is None
        if plain and value.value.lower() in TRUE:
            yield written
        elif plain and value.value.lower() in FALSE:
            if self.off == "negate":
                negated = "--no-" + name.removeprefix("--")
                mapped = Mapped.all_at(negated, key.span)
                yield replace(written, mapped=mapped, related=(value.origin,))
        elif value.kind == "list" and self.lists == "words" and _scalars(value):
            if value.items:
                yield written
            yield from (item.text() for item in value.items)
        elif value.kind == "scalar":
            yield written
            yield _number(value) if plain else value.text()
        else:
            yield written
            yield _as_json(value)


INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0b(?P<two>[01_]+)|0x(?P<sixteen>[0-9a-fA-F_]+)|0(?P<eight>[0-7_]+)"
    r"|(?P<ten>[1-9][0-9_]*)(?P<sixty>(?::[0-5]?[0-9])*))"
)
"""Whole numbers of YAML 1.1, as PyYAML's resolver has them."""
BASES = {"two": 2, "eight": 8, "ten": 10, "sixteen": 16}


def _number(node: Node) -> Text:
    """A plain scalar as the program gets it: a whole number of another base in decimals."""
    found, text = INTEGER.fullmatch(node.value), node.text()
    if found is None or (node.value.isdecimal() and not found["eight"]):
        return text
    base, digits = next((BASES[name], found[name]) for name in BASES if found[name] is not None)
    digits = digits.replace("_", "")
    if not digits or len(digits) > MOST_DIGITS:
        return text
    number = int(digits, base)
    for part in (found["sixty"] or "").split(":")[1:]:
        number = number * 60 + int(part)
    sign = "-" if found["sign"] == "-" else ""
    return replace(text, mapped=Mapped.all_at(f"{sign}{number}", node.span))


MOST_DIGITS = 64


def _scalars(node: Node) -> bool:
    return all(item.kind == "scalar" for item in node.items)


def _as_json(node: Node) -> Text:
    written = node.source.text[node.span.start : node.span.end]
    if "{{" in written and (reason := placeholder(written)) is not None:
        return Text.unknown(node.origin, reason)
    try:
        return Text(Mapped.all_at(json.dumps(plain_value(node)), node.span), node.origin)
    except OverflowError as error:
        return Text.unknown(node.origin, str(error))


MOST_VALUES = 10_000
DEEPEST = 50


def plain_value(node: Node) -> Any:
    """The value of a node, as YAML means it; OverflowError where aliases make it grow too large."""
    return _plain(node, [MOST_VALUES], DEEPEST)


def _plain(node: Node, left: list[int], deeper: int) -> Any:
    left[0] -= 1
    if left[0] < 0 or deeper < 0:
        raise OverflowError("its value is too large")
    if node.kind == "map":
        return {key.value: _plain(value, left, deeper - 1) for key, value in node.entries()}
    if node.kind == "list":
        return [_plain(item, left, deeper - 1) for item in node.items]
    if node.is_null:
        return None
    if node.style is not None:
        return node.value
    if node.value.lower() in ("true", "false"):
        return node.value.lower() == "true"
    for number in (int, float):
        try:
            return number(node.value)
        except ValueError:
            continue
    return node.value


@record
class KeySite:
    """A key of a map: its value is replaced where it stands, else the key is written."""

    node: Node
    key: str

    @property
    def value(self) -> Node | None:
        return self.node.get(self.key)

    def set(self, value: str) -> list[Edit] | Refusal:
        found = self.value
        if found is None:
            return _empty(self.node, self.key) or EntrySite(self.node, self.key).set(value)
        place = found.text().editable if found.kind == "scalar" else None
        if place is None:
            return Refusal(f"{self.key} is not written as one word")
        return [Edit(place.file, place.span, value)]


@record
class PathSite:
    """A key below a map: its value is replaced where it stands, else all keys are written."""

    node: Node
    path: tuple[str, ...]

    def set(self, value: str) -> list[Edit] | Refusal:
        node, rest = self.node, list(self.path)
        while rest and (found := node.get(rest[0])) is not None:
            if not any(found is own for _, own in node.pairs):
                return Refusal(f"{rest[0]} is merged from elsewhere")
            if len(rest) == 1:
                return KeySite(node, rest[0]).set(value)
            node, rest = found, rest[1:]
        if (refusal := _empty(node, rest[0])) is not None:
            return refusal
        tree: Tree = value
        for key in reversed(rest[1:]):
            tree = {key: tree}
        return add_entry(node, rest[0], tree, self.node)


def _empty(node: Node, key: str) -> Refusal | None:
    """Why a key without a value is not written once more."""
    there = any(own.value == key for own, _ in node.pairs)
    return Refusal(f"{key} is written without a value") if there else None


def key_sites(node: Node, keys: Mapping[str, str]) -> dict[str, Site]:
    """Sites of fields that stand, or would stand, under these keys of a map, by field."""
    return {field: KeySite(node, key) for field, key in keys.items()}


def one_process(holder: Node, key: str) -> Iterator[Offer]:
    """One process of a router in place of several, where their number is written."""
    if holder.get(key) is not None:
        yield Offer(cures="state", title="1 router process", delta={"router_replicas": 1},
                    site=KeySite(holder, key), value="1")  # fmt: skip
