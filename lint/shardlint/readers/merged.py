"""Two objects that an operator puts together, as one tree whose nodes keep their places.

Strategic merging, as Kubernetes does it with objects of its own types, which is not what kustomize
does with patches (`layers`): nothing and null are the same, there are no directives, and what only
the later of the two has comes last. The tree stands where the later one stands. No text is written
into it as a whole: where a map or list is made of two, there is no one place for a new entry.
"""

from __future__ import annotations

from shardlint.platforms.kustomize import MERGE_KEYS
from shardlint.readers.layers import Work, by_name, name_in
from shardlint.readers.yaml_tree import Node


def merged(base: Node | None, over: Node) -> Node:
    """`over` laid over `base`; what only one of them has is taken from it. Raises LayerError."""
    return _merged(base, over, "", Work(over.origin))


def _merged(base: Node | None, over: Node, key: str, work: Work) -> Node:
    work.spend()
    if base is None or base.kind != over.kind or over.kind == "scalar":
        return over
    if over.kind == "map":
        return _maps(base, over, work)
    return _lists(base, over, MERGE_KEYS[key], work) if key in MERGE_KEYS else over


def _maps(base: Node, over: Node, work: Work) -> Node:
    theirs = {key.value: (key, value) for key, value in base.entries() if not value.is_null}
    pairs = []
    work.spend(len(theirs))
    for key, value in over.entries():
        if value.is_null:
            continue
        found = theirs.pop(key.value, None)
        pairs.append((key, _merged(found[1] if found else None, value, key.value, work)))
    return _like(over, base, pairs=[*pairs, *theirs.values()])


def _lists(base: Node, over: Node, names: tuple[str, ...], work: Work) -> Node:
    theirs = by_name(base, names)
    work.spend(len(theirs))
    items = []
    for item in over.items:
        name = name_in(item, names)
        items.append(_merged(theirs.pop(name, None) if name is not None else None, item, "", work))
    return _like(over, base, items=[*theirs.values(), *items])


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
    return Node(
        node.kind, place.span, place.source, flow=place.flow, alias=True,
        pairs=list(node.entries()), parts=node.parts,
    )  # fmt: skip


def _like(
    node: Node,
    *others: Node,
    pairs: list[tuple[Node, Node]] | None = None,
    items: list[Node] | None = None,
) -> Node:
    """A node in the place of another; if one of them has parts, it is made of those of all."""
    built = any(one.parts for one in (node, *others))
    parts = tuple(part for one in (node, *others) for part in one.parts or (one,))
    return Node(
        node.kind, node.span, node.source, flow=node.flow, alias=True,
        pairs=pairs or [], items=items or [], parts=parts if built else (),
    )  # fmt: skip
