"""YAML that stands as text in a scalar of another YAML file.

Its nodes have their places in the outer file, so that what was read can be shown and edited there.
Where the characters of the inner text do not stand in the file as they are (folded lines, escapes,
an alias), the nodes only point to what they were made from, and refuse to be edited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from shardlint.readers.yaml_tree import Node, YamlError, documents
from shardlint.source import Mapped, Source, Span


def inner_yaml(node: Node) -> list[Node]:
    """The documents in the text of a scalar, placed in the outer file; raises YamlError."""
    mapped = node.text().mapped
    return [] if mapped is None else _documents(mapped, node.source, is_literal(node, mapped))


def _documents(mapped: Mapped, source: Source, literal: bool) -> list[Node]:
    try:
        roots = _read(Source(source.name, mapped.text))
    except YamlError as error:
        raise YamlError(str(error), _placed(mapped, error.span)) from None
    for inner in list(nodes_of(roots)):
        inner.span = _placed(mapped, inner.span)
        inner.source = source
        # A node of an alias is one that shows its place and is not edited there.
        inner.alias = inner.alias or not literal
    return roots


_BLANK = re.compile(r"\{\{[^{}\n]*\}\}")


def _read(text: Source) -> list[Node]:
    """The documents; where blanks to fill in break the YAML, with a word in place of each."""
    try:
        return documents(text)
    except YamlError:
        filled = _BLANK.sub(lambda found: f"__{'T' * (len(found[0]) - 4)}__", text.text)
        if filled == text.text:
            raise
        return documents(Source(text.name, filled))


def part_of(mapped: Mapped, source: Source, literal: bool) -> Node | None:
    """The map or list that a part of a text holds as YAML; None where it holds none."""
    try:
        roots = _documents(mapped, source, literal)
    except YamlError:
        return None
    return roots[0] if len(roots) == 1 and roots[0].kind != "scalar" else None


def inner(node: Node) -> Node | None:
    """The map or list that a scalar holds as YAML; None where it holds none."""
    if node.kind != "scalar" or (":" not in node.value and "-" not in node.value):
        return None
    try:
        roots = inner_yaml(node)
    except YamlError:
        return None
    return roots[0] if len(roots) == 1 and roots[0].kind != "scalar" else None


def is_literal(node: Node, mapped: Mapped) -> bool:
    """The lines of the inner text are lines of the file, each character where it stands."""
    one_line = node.style != ">" and "\n" not in node.source.text[node.span.start : node.span.end]
    return mapped.literal and not node.alias and (node.style == "|" or one_line)


def _placed(mapped: Mapped, span: Span) -> Span:
    """The place in the outer file of a range of the inner text."""
    last = len(mapped.text)
    return mapped.span(min(span.start, last), min(span.end, last))


def nodes_of(roots: list[Node]) -> Iterator[Node]:
    """Every node with its keys, each once; what an alias repeats is met at its anchor."""
    todo = list(roots)
    while todo:
        node = todo.pop()
        yield node
        if not node.alias:
            todo.extend(node.items)
            todo.extend(part for pair in node.pairs for part in pair)
