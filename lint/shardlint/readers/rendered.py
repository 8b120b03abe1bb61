"""What a chart makes of its values, as nodes that stand where the values stand.

A chart writes objects that are in no file. A reader of its values builds the part that matters, a
container and its pod, out of the nodes of the values: what is read from it points into the values,
and is edited there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from shardlint.known import Text
from shardlint.plan import Refusal, ServingPlan, Site
from shardlint.readers.edits import PLAIN, add_entry, insert_items, one_word
from shardlint.readers.keyed import FALSE
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Edit, Mapped


def scalar(value: str, like: Node) -> Node:
    """A word that a chart writes because of what stands there."""
    return Node("scalar", like.span, like.source, value)


def mapping(like: Node, entries: Iterable[tuple[Node | str, Node | None]]) -> Node:
    """A map of these entries, without those that have no value."""
    pairs = [
        (scalar(key, value) if isinstance(key, str) else key, value)
        for key, value in entries
        if value is not None
    ]
    return Node("map", like.span, like.source, pairs=pairs)


def listing(like: Node, items: Iterable[Node]) -> Node:
    return Node("list", like.span, like.source, items=list(items))


def without(node: Node, *keys: str) -> Node:
    """A map without some of its keys."""
    return mapping(node, ((key, value) for key, value in node.entries() if key.value not in keys))


def items(node: Node | None) -> list[Node]:
    return node.items if node is not None and node.kind == "list" else []


def on_nodes(terms: Node) -> Node:
    """The affinity of a pod that must be on nodes of one of these terms."""
    required = mapping(terms, (("nodeSelectorTerms", terms),))
    inner = mapping(terms, (("requiredDuringSchedulingIgnoredDuringExecution", required),))
    return mapping(terms, (("nodeAffinity", inner),))


def memory_volume(name: str, size: Node, path: str) -> tuple[Node, Node]:
    """The mount of a memory volume of that size, and the volume."""
    mount = (("name", scalar(name, size)), ("mountPath", scalar(path, size)))
    memory = mapping(size, (("medium", scalar("Memory", size)), ("sizeLimit", size)))
    volume = (("name", scalar(name, size)), ("emptyDir", memory))
    return mapping(size, mount), mapping(size, volume)


_ZERO = re.compile(r"[+-]?(0+\.?0*|\.0+)")


def truthy(node: Node | None) -> bool:
    """Whether a Go template takes a value for true: anything but nothing, zero and false."""
    if node is None or node.is_null:
        return False
    if node.kind != "scalar":
        return bool(node.pairs or node.items)
    if node.style is not None:
        return node.value != ""
    return node.value.lower() not in FALSE and _ZERO.fullmatch(node.value) is None


def added(word: str, like: Node) -> Text:
    """A word of a command line that a chart adds because of what stands there."""
    return Text(Mapped.all_at(word, like.span), like.origin)


def key_of(node: Node, *names: str) -> Node:
    """The key that stands for a map: the first of these that is there, else its first one.

    A word that is added there takes little room: nothing else is read from the same place.
    """
    found = next((pair[0] for name in names if (pair := node.pair(name)) is not None), None)
    return found or (node.pairs[0][0] if node.pairs else node)


def option(name: str, value: Node) -> Iterator[Text]:
    """An option whose value stands in the values."""
    yield added(name, value)
    yield from settled((value.text(),))


# ------------------------------------------------------------------------------------- sites


@record
class OptionKeySite:
    """An option that a list of further options can hold, one item for each word.

    `node` is the map that has, or would have, the list under `key`.
    """

    name: str
    node: Node
    key: str

    def set(self, value: str) -> list[Edit] | Refusal:
        word = one_word(self.name, value)
        if isinstance(word, Refusal):
            return word
        if any(key.value == self.key and value.is_null for key, value in self.node.pairs):
            return Refusal(f"{self.key} is written without a value")
        found = self.node.pair(self.key)
        if found is None:
            return add_entry(self.node, self.key, [word])
        last = items(found[1])[-1:]
        if not last or found[1].alias or last[0].alias:
            return Refusal(f"{self.key} is no list with items of its own")
        return insert_items(found[1], last[0], [word])


@record
class MapSite:
    """A key of a map that is not there."""

    outer: Node
    path: str
    key: str

    def set(self, value: str) -> list[Edit] | Refusal:
        if any(key.value == self.path for key, _ in self.outer.pairs):
            return Refusal(f"{self.path} is no map with entries")
        if not PLAIN.fullmatch(value):
            return Refusal(f"{value!r} cannot be written without quoting")
        return add_entry(self.outer, self.path, {self.key: value})


def settled(words: Iterable[Text]) -> Iterator[Text]:
    """Words of the values; one that is filled in elsewhere is not known."""
    for word in words:
        reason = placeholder(word.value or "")
        yield word if reason is None else Text.unknown(word.origin, reason)


def with_sites(plan: ServingPlan, sites: Mapping[str, Site | None]) -> ServingPlan:
    """The plan with these sites; None takes away one that writes what the chart does not read."""
    found = {**plan.sites, **sites}
    kept = {name: site for name, site in found.items() if site is not None}
    return replace(plan, sites=MappingProxyType(kept))
