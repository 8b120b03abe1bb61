"""YAML in a string of a YAML file: a ConfigMap's `config.yaml: |`, values that hold values."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.readers.yaml_tree import Node, YamlError, documents
from shardlint.source import Mapped, Source


def inner(node: Node) -> Node | None:
    """The map or list that a scalar holds as YAML; None where it holds none.

    The places of its nodes are in the outer text. Only what stands in a literal block can be edited
    there: in a quoted or folded scalar, lines and escapes mean something else, so that its nodes
    are shown and not edited.
    """
    mapped = node.text().mapped if node.kind == "scalar" else None
    if mapped is None or (":" not in mapped.text and "-" not in mapped.text):
        return None
    try:
        roots = documents(Source(node.source.name, mapped.text))
    except YamlError:
        return None
    if len(roots) != 1 or roots[0].kind == "scalar":
        return None
    literal = mapped.literal and node.style == "|" and not node.alias
    return _moved(roots[0], mapped, node.source, literal)


def _moved(root: Node, mapped: Mapped, source: Source, literal: bool) -> Node:
    """The tree with its places in another text; what an anchor holds is moved once."""
    moved: dict[int, Node] = {}
    for node in (nodes := list(_all(root))):
        span = mapped.span(node.span.start, node.span.end)
        alias = node.alias or not literal
        moved[id(node)] = Node(
            node.kind, span, source, node.value, node.style, node.tag, alias, node.flow
        )
    for node in nodes:
        new = moved[id(node)]
        new.pairs.extend((moved[id(key)], moved[id(value)]) for key, value in node.pairs)
        new.items.extend(moved[id(item)] for item in node.items)
    return moved[id(root)]


def _all(root: Node) -> Iterator[Node]:
    """Every node once, those behind aliases included."""
    seen, todo = {id(root)}, [root]
    while todo:
        node = todo.pop()
        yield node
        for child in (*node.items, *(part for pair in node.pairs for part in pair)):
            if id(child) not in seen:
                seen.add(id(child))
                todo.append(child)
