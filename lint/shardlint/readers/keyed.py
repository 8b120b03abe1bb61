"""Maps whose keys are options of an engine: config files, `engine_kwargs`, values of a chart.

They become the words of a command line, so that the engine reads them as it reads options; a value
is edited where it stands, and an option that is not there is written as one more key of the map.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardlint.known import Text
from shardlint.plan import Refusal, Site
from shardlint.readers.edits import EntrySite, Tree, add_entry
from shardlint.readers.yaml_tree import MAX_DEPTH, Node
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
                yield replace(written, mapped=Mapped.all_at(negated, key.span))
        elif value.kind == "list" and self.lists == "words" and _scalars(value):
            yield written
            yield from (item.text() for item in value.items)
        elif value.kind == "scalar":
            yield written
            yield value.text()
        else:
            yield written
            yield Text(Mapped.all_at(json.dumps(plain_value(value)), value.span), value.origin)


def _scalars(node: Node) -> bool:
    return all(item.kind == "scalar" for item in node.items)


MOST_PARTS = 10_000
"""Anchors that repeat each other would fill the memory: what is beyond is left out."""


def plain_value(node: Node) -> Any:
    """The value of a node, as YAML means it."""
    return _plain(node, 0, [MOST_PARTS])


def _plain(node: Node, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0 or depth > MAX_DEPTH:
        return None
    if node.kind == "map":
        return {key.value: _plain(value, depth + 1, left) for key, value in node.entries()}
    if node.kind == "list":
        return [_plain(item, depth + 1, left) for item in node.items]
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
