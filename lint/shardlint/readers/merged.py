"""Two objects that an operator puts together, as one tree whose nodes keep their places.

Strategic merging, as Kubernetes does it: maps by their keys, some lists by the names of their
items, all else by the later of the two. No text is written into such a tree as a whole: where a map
or list is made of two, there is no one place for a new entry.
"""

from __future__ import annotations

from collections.abc import Mapping

from shardlint.readers.yaml_tree import Node

BY_NAME: Mapping[str, str] = {
    "containers": "name", "initContainers": "name", "volumes": "name", "env": "name",
    "volumeMounts": "mountPath", "resourceClaims": "name", "claims": "name",
}  # fmt: skip
"""Lists whose items are merged, and the key that tells which belong together."""


def merged(base: Node | None, over: Node, key: str = "") -> Node:
    """`over` laid over `base`; what only one of them has is taken from it."""
    if base is None or base.kind != over.kind or over.kind == "scalar":
        return over
    if over.kind == "map":
        return _maps(base, over)
    return _lists(base, over, BY_NAME[key]) if key in BY_NAME else over


def _maps(base: Node, over: Node) -> Node:
    theirs = {key.value: (key, value) for key, value in base.entries() if not value.is_null}
    pairs = []
    for key, value in over.entries():
        if value.is_null:
            continue
        found = theirs.pop(key.value, None)
        pairs.append((key, merged(found[1] if found else None, value, key.value)))
    return _like(over, pairs=[*pairs, *theirs.values()])


def _lists(base: Node, over: Node, name: str) -> Node:
    theirs = {item.string(name): item for item in base.items}
    items = [merged(theirs.pop(item.string(name), None), item) for item in over.items]
    return _like(over, items=[*theirs.values(), *items])


def joined(base: Node | None, over: Node | None) -> Node | None:
    """Both lists, one behind the other."""
    if base is None or over is None or base.kind != "list" or over.kind != "list":
        return over if over is not None else base
    return _like(over, items=[*base.items, *over.items])


def without(node: Node, *keys: str) -> Node:
    """The map without some keys."""
    return _like(node, pairs=[pair for pair in node.entries() if pair[0].value not in keys])


def with_entry(node: Node, key: str, value: Node | None) -> Node:
    """The map with another value of a key, which has a place of its own or none."""
    kept = [pair for pair in node.entries() if pair[0].value != key]
    if value is None:
        return _like(node, pairs=kept)
    name = Node("scalar", value.span, value.source, key)
    return _like(node, pairs=[*kept, (name, value)])


def seen_from(node: Node, place: Node) -> Node:
    """The entries of a map of another file, as part of this one."""
    return _like(place, pairs=list(node.entries()))


def _like(
    node: Node,
    *,
    pairs: list[tuple[Node, Node]] | None = None,
    items: list[Node] | None = None,
) -> Node:
    return Node(
        node.kind, node.span, node.source, flow=node.flow, alias=True,
        pairs=pairs or [], items=items or [],
    )  # fmt: skip
