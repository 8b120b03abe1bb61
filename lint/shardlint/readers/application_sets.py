"""ApplicationSet: the applications that a plain list makes of its template.

Each element of a list generator fills the names in braces of the template: `{{name}}`, with
`goTemplate` `{{.name}}`, also of a map in the element (argoproj/argo-cd, docs/operator-manual/
applicationset/Generators-List.md, GoTemplate.md). What is more than a name is left as it stands,
and so are the templates of other generators: their values are not known.
"""

from __future__ import annotations

import re
from dataclasses import replace

from shardlint.readers.holes import concat
from shardlint.readers.layers import Work, with_items, with_pairs
from shardlint.readers.rendered import items
from shardlint.readers.yaml_tree import MAX_DEPTH, Node
from shardlint.source import Mapped

MOST_ELEMENTS = 200
NAME = re.compile(r"\{\{-?[ \t]*\.?([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)[ \t]*-?\}\}")


def elements(node: Node) -> list[Node]:
    """The elements of the only generator of an object; none where it is no plain list."""
    generators = items(node.get("spec", "generators"))
    if len(generators) != 1 or node.get("spec", "templatePatch") is not None:
        return []
    listed = generators[0].get("list")
    if listed is None or _keys(generators[0]) != ["list"] or _keys(listed) != ["elements"]:
        return []
    found = items(listed.get("elements"))
    plain = len(found) <= MOST_ELEMENTS and all(item.kind == "map" for item in found)
    return found if plain else []


def _keys(node: Node) -> list[str]:
    return [key.value for key, _ in node.entries()]


def filled(node: Node, element: Node, work: Work, depth: int = 0) -> Node:
    """The template with the names of one element filled in. Raises LayerError for too much."""
    work.spend()
    if depth > MAX_DEPTH:
        return node
    if node.kind == "scalar":
        return _scalar(node, element) if "{{" in node.value else node
    if node.kind == "list":
        return with_items(node, [filled(item, element, work, depth + 1) for item in node.items])
    pairs = [(key, filled(value, element, work, depth + 1)) for key, value in node.entries()]
    return with_pairs(node, pairs)


def _scalar(node: Node, element: Node) -> Node:
    """A word that is nothing but a name is the value itself, which can be edited there."""
    whole = NAME.fullmatch(node.value.strip())
    if whole is not None:
        return _value(element, whole[1]) or node
    mapped = node.text().mapped
    if mapped is None:
        return node
    parts: list[Mapped] = []
    last = 0
    for match in NAME.finditer(mapped.text):
        if (found := _value(element, match[1])) is not None:
            place = mapped.span(match.start(), match.end())
            parts += (mapped.cut(last, match.start()), Mapped.all_at(found.value, place))
            last = match.end()
    if not last:
        return node
    made = concat((*parts, mapped.cut(last)))
    return replace(node, value=made.text, mapped=replace(made, literal=False), alias=True)


def _value(element: Node, name: str) -> Node | None:
    found = element.get(*name.split("."))
    return found if found is not None and found.kind == "scalar" else None
