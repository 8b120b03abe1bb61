"""Fields that one object takes from another: `replacements` of a kustomization."""

from __future__ import annotations

import re
from collections.abc import Callable

from shardlint.readers.layers import Work, made, put, with_items, with_pairs
from shardlint.readers.yaml_tree import Node

WHY = "a replacement of the kustomization fills it in"


def filled_in(at: Node) -> Node:
    """What stands where a value is put together from parts."""
    node = made("${replacement}", at)
    node.unknown = WHY
    return node


_STEP = re.compile(r"\[([^\]=]+)=([^\]]*)\]|((?:\\\.|[^.\[])+)")


def steps_of(path: str) -> tuple[str, ...]:
    """The steps of a path such as `spec.containers.[name=vllm].args.0`."""
    found = (match.group() for match in _STEP.finditer(path))
    return tuple(step.replace("\\.", ".") for step in found)


def field(node: Node, path: str) -> Node | None:
    """The value at a path, if it leads to just one."""
    found: list[Node] = []

    def note(value: Node) -> Node:
        found.append(value)
        return value

    changed(node, steps_of(path), note, Work(node.origin))
    return found[0] if len(found) == 1 else None


def changed(node: Node, steps: tuple[str, ...], change: Callable[[Node], Node], work: Work) -> Node:
    """The tree with every value at a path changed; where nothing is there, nothing happens."""
    work.spend()
    if not steps:
        return change(node)
    step, rest = steps[0], steps[1:]
    if node.kind == "map":
        pairs = [
            (key, changed(value, rest, change, work) if step in (key.value, "*") else value)
            for key, value in node.entries()
        ]
        return with_pairs(node, pairs)
    if node.kind == "list":
        items = [
            changed(item, rest, change, work) if _chosen(step, at, item) else item
            for at, item in enumerate(node.items)
        ]
        return with_items(node, items)
    return node


def _chosen(step: str, at: int, item: Node) -> bool:
    match = re.fullmatch(r"\[([^\]=]+)=([^\]]*)\]", step)
    if match is None:
        return step in ("*", str(at))
    return item.string(*match[1].split(".")) == match[2]


def replacing(value: Node | None, partly: bool, at: Node) -> Callable[[Node], Node]:
    """What becomes of a field: the value of the source where it is known, and taken whole."""

    def change(old: Node) -> Node:
        if value is None or partly:
            return filled_in(old if old.kind == "scalar" else at)
        return value

    return change


def created(node: Node, steps: tuple[str, ...], value: Node | None, at: Node) -> Node:
    """The tree with a value at a path of plain keys that need not be there."""
    plain = all(re.fullmatch(r"[^\[\]*]+", step) and not step.isdecimal() for step in steps)
    return put(node, steps, value or filled_in(at)) if plain else node
