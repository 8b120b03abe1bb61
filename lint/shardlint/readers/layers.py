"""Trees of several files laid over each other, in which every node keeps its own file and place.

Nothing is changed in place: what is laid over another gives a new map or list, which names the ones
that it was put together from in `parts`. Scalars are those of the file that has the last say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from shardlint.platforms.kustomize import MERGE_KEYS
from shardlint.readers.yaml_tree import MAX_DEPTH, Node, YamlError, documents
from shardlint.source import Origin, Source, Span

MOST_WORK = 1_000_000
"""Nodes that are looked at for one file: more is an anchor that multiplies itself, or a mistake."""


class LayerError(Exception):
    """Layers that cannot be put together; `origin` is where that shows."""

    def __init__(self, message: str, origin: Origin) -> None:
        super().__init__(message)
        self.origin = origin


class Work:
    """How much has been done for one file."""

    def __init__(self, origin: Origin) -> None:
        self.left, self.origin = MOST_WORK, origin

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise LayerError(f"it takes more than {MOST_WORK:,} steps to build", self.origin)


# ------------------------------------------------------------------------------------- nodes


def made(value: str, at: Node) -> Node:
    """A scalar that is not written anywhere, because of what stands at another node."""
    return Node("scalar", at.span, at.source, value, alias=True)


def made_map(entries: Iterable[tuple[str, Node]], at: Node) -> Node:
    """A map that is not written anywhere, so that nothing can be written into it."""
    pairs = [(made(key, value), value) for key, value in entries]
    return Node("map", at.span, at.source, alias=True, pairs=pairs)


def with_pairs(node: Node, pairs: Iterable[tuple[Node, Node]]) -> Node:
    return Node(
        "map", node.span, node.source, pairs=list(pairs), flow=node.flow, parts=_parts(node)
    )


def with_items(node: Node, items: Iterable[Node]) -> Node:
    return Node(
        "list", node.span, node.source, items=list(items), flow=node.flow, parts=_parts(node)
    )


def _parts(node: Node) -> tuple[Node, ...]:
    return node.parts or (node,)


def without(node: Node, keys: Iterable[str]) -> Node:
    """A map without some of its keys."""
    left = [(key, value) for key, value in node.entries() if key.value not in keys]
    return with_pairs(node, left)


def put(node: Node, path: Sequence[str], value: Node) -> Node:
    """The map with a value at a path of keys; maps on the way are made. No map: left as it is."""
    if not path:
        return value
    if node.kind != "map":
        return node
    pairs, step = list(node.entries()), path[0]
    for at, (key, child) in enumerate(pairs):
        if key.value == step:
            below = made_map((), value) if child.is_null and len(path) > 1 else child
            pairs[at] = (key, put(below, path[1:], value))
            return with_pairs(node, pairs)
    for missing in reversed(path[1:]):
        value = made_map([(missing, value)], value)
    return with_pairs(node, [*pairs, (made(step, value), value)])


def everywhere(
    node: Node, change: Callable[[Node, str], Node], work: Work, key: str = "", depth: int = 0
) -> Node:
    """The tree with every map changed; `key` is that of the map, or of the list that holds it."""
    work.spend()
    if depth > MAX_DEPTH:
        return node
    if node.kind == "list":
        items = [everywhere(item, change, work, key, depth + 1) for item in node.items]
        same = all(one is other for one, other in zip(items, node.items, strict=True))
        return node if same else with_items(node, items)
    if node.kind != "map":
        return node
    own = list(node.entries())
    pairs = [(name, everywhere(value, change, work, name.value, depth + 1)) for name, value in own]
    same = all(one is other for (_, one), (_, other) in zip(pairs, own, strict=True))
    return change(node if same else with_pairs(node, pairs), key)


def places(root: Node, pointer: str) -> Iterator[Origin]:
    """Where an object and a part of it start, in each file that has a share in them."""
    node: Node | None = root
    for step in pointer.split("/")[1:]:
        if node is not None:
            node = (
                node.get(int(step)) if node.kind == "list" and step.isdecimal() else node.get(step)
            )
    for each in (root, node) if node is not None and node is not root else (root,):
        yield from (part.origin for part in each.parts or (each,))
    for key in ("command", "args"):
        found = node.get(key) if node is not None else None
        for item in (found.items or [found]) if found is not None else []:
            if item.style in ("|", ">"):
                yield item.origin


# --------------------------------------------------------------------------- strategic merge


def laid_over(base: Node, patch: Node, lists: bool, work: Work, depth: int = 0) -> Node | None:
    """The base with a strategic merge patch on it; None if the patch takes it away.

    With `lists`, items of the lists that are known by a key are merged one by one.
    """
    work.spend()
    if patch.kind == "map" and patch.string("$patch") == "delete":
        return None
    if base.kind != "map" or patch.kind != "map" or depth > MAX_DEPTH:
        return _plain(patch)
    if patch.string("$patch") == "replace":
        return _plain(patch)
    theirs: dict[str, tuple[Node, Node]] = {}
    for each in _plain(patch).entries():
        theirs[each[0].value] = each
    for key, value in reversed(patch.pairs):  # of a key that is written twice, the first counts
        if key.value in theirs and not key.is_merge:
            theirs[key.value] = (key, value)
    pairs: list[tuple[Node, Node]] = []
    for key, value in base.entries():
        work.spend()
        pair = theirs.pop(key.value, None)
        if pair is None:
            pairs.append((key, value))
        elif (new := _together(key.value, value, pair[1], lists, work, depth)) is not None:
            pairs.append((key if new.kind != "scalar" else pair[0], new))
    pairs += ((key, value) for key, value in theirs.values() if not value.is_null)
    return Node("map", base.span, base.source, pairs=pairs, parts=(*_parts(patch), *_parts(base)))


def _together(
    key: str, value: Node, patch: Node, lists: bool, work: Work, depth: int
) -> Node | None:
    """What becomes of one entry that both have."""
    if patch.is_null:
        return None
    keyed = lists and key in MERGE_KEYS and value.kind == patch.kind == "list"
    if keyed and patch.items and depth <= MAX_DEPTH:
        return _lists(value, patch, MERGE_KEYS[key], work, depth)
    return laid_over(value, patch, lists, work, depth + 1)


def _lists(base: Node, patch: Node, keys: Sequence[str], work: Work, depth: int) -> Node:
    """Items of the patch come first, each with what the base has of it; then those of the base."""
    if any(item.string("$patch") == "replace" for item in patch.items):
        return with_items(patch, [item for item in patch.items if item.get("$patch") is None])
    rest = by_name(base, keys)
    front: list[Node] = []
    for item in patch.items:
        name = name_in(item, keys)
        own = rest.pop(name, None) if name is not None else None
        if own is not None:
            new = laid_over(own, item, True, work, depth + 1)
        else:
            new = None if item.string("$patch") == "delete" else _plain(item)
        front += [new] if new is not None else []
    work.spend(len(base.items) + len(patch.items))
    parts = (*_parts(patch), *_parts(base))
    return Node("list", base.span, base.source, items=[*front, *rest.values()], parts=parts)


def by_name(base: Node, keys: Sequence[str]) -> dict[tuple[str, str], Node]:
    """The items of a list by what they are known by; one without that is known by its place."""
    return {name_in(item, keys) or (str(at), ""): item for at, item in enumerate(base.items)}


def name_in(item: Node, keys: Sequence[str]) -> tuple[str, str] | None:
    """The key by which an item is known, and its value there."""
    for key in keys:
        if (value := item.string(key)) is not None:
            return key, value
    return None


def _plain(node: Node) -> Node:
    """A map without the directives of a patch."""
    if node.kind == "map" and any(key.value.startswith("$") for key, _ in node.pairs):
        return with_pairs(
            node, [pair for pair in node.entries() if not pair[0].value.startswith("$")]
        )
    return node


# --------------------------------------------------------------------------------- JSON 6902


def operated(root: Node, operations: Node, work: Work) -> Node:
    """The tree after the operations of a JSON patch; raises LayerError for one that cannot be."""
    for operation in operations.items:
        work.spend()
        root = _operation(root, operation, work)
    return root


def _operation(root: Node, operation: Node, work: Work) -> Node:
    name, path = operation.string("op"), operation.get("path")
    if name is None or path is None:
        raise LayerError("an operation of a JSON patch needs `op` and `path`", operation.origin)
    if name == "move":
        start = operation.get("from")
        if start is None:
            raise LayerError("`move` needs `from`", operation.origin)
        value = _found(root, start)
        return _changed(_changed(root, start, "remove", None, work), path, "add", value, work)
    if name == "test":
        return root
    if name not in ("add", "replace", "remove"):
        raise LayerError(f"{name!r} is not read", operation.origin)
    given = next((value for key, value in operation.pairs if key.value == "value"), None)
    if given is None and name != "remove":
        raise LayerError(f"`{name}` needs a value", operation.origin)
    return _changed(root, path, name, given, work)


def _steps(path: Node) -> list[str]:
    text = path.value
    if not text.startswith("/"):
        raise LayerError(f"{text!r} is no path into the object", path.origin)
    return [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]


def _found(root: Node, path: Node) -> Node:
    node: Node | None = root
    for step in _steps(path):
        if node is not None:
            at = int(step) if node.kind == "list" and step.isdecimal() else step
            node = node.get(at) if isinstance(at, str) or at < len(node.items) else None
    if node is None:
        raise LayerError(f"{path.value} is not in the object that is patched", path.origin)
    return node


def _changed(root: Node, path: Node, how: str, value: Node | None, work: Work) -> Node:
    return _below(root, _steps(path), path, how, value, work)


def _below(
    node: Node, steps: list[str], path: Node, how: str, value: Node | None, work: Work
) -> Node:
    """The tree with the entry or item at the end of the steps changed."""
    step, rest = steps[0], steps[1:]
    work.spend()
    if node.kind == "map":
        pairs = list(node.entries())
        at = next((at for at, (key, _) in enumerate(pairs) if key.value == step), None)
        if at is None and (rest or how == "remove"):
            raise LayerError(f"{path.value} is not in the object that is patched", path.origin)
        if at is None:
            assert value is not None
            return with_pairs(node, [*pairs, (made(step, path), value)])
        key, old = pairs[at]
        if rest:
            pairs[at] = (key, _below(old, rest, path, how, value, work))
        else:
            pairs[at : at + 1] = [(key, value)] if value is not None else []
        return with_pairs(node, pairs)
    if node.kind == "list":
        return _in_list(node, steps, path, how, value, work)
    raise LayerError(f"{path.value} leads into a value", path.origin)


def _in_list(
    node: Node, steps: list[str], path: Node, how: str, value: Node | None, work: Work
) -> Node:
    items, step, rest = list(node.items), steps[0], steps[1:]
    work.spend(len(items))
    end = len(items) if how == "add" and not rest else len(items) - 1
    at = end if step == "-" else int(step) if re.fullmatch(r"\d{1,6}", step) else -1
    if not 0 <= at <= end:
        raise LayerError(f"{path.value} is not in the object that is patched", path.origin)
    if rest:
        items[at] = _below(items[at], rest, path, how, value, work)
    else:
        new = [value] if value is not None else []
        items[at : at + (how != "add")] = new
    return with_items(node, items)


# ------------------------------------------------------------------- YAML inside of a scalar


def embedded(node: Node) -> list[Node]:
    """The documents of the YAML text that a scalar holds; raises YamlError.

    In a literal block every node has its own place. Where the text is folded or quoted, they all
    have that of the scalar, and cannot be edited.
    """
    if node.style == "|" and not node.alias:
        text = node.source.text
        start = text.find("\n", node.span.start, node.span.end) + 1
        if start:
            exact = _placed(Source(node.source.name, text[start : node.span.end]), node, start)
            if exact is not None:
                return exact
    roots = documents(Source(node.source.name, node.value))
    for each in _all(roots):
        each.span, each.source, each.alias = node.span, node.source, True
    return roots


def _placed(block: Source, node: Node, start: int) -> list[Node] | None:
    """The documents of a block with their places in the whole text; None if they differ there."""
    try:
        roots = documents(block)
        wanted = documents(Source(block.name, node.value))
    except YamlError:
        return None
    if [_says(root) for root in roots] != [_says(root) for root in wanted]:
        return None
    for each in _all(roots):
        each.span = Span(each.span.start + start, each.span.end + start)
        each.source = node.source
    return roots


def _says(root: Node) -> list[tuple[str, str, int, int]]:
    return [(n.kind, n.value, len(n.pairs), len(n.items)) for n in _all([root])]


def _all(roots: Iterable[Node]) -> list[Node]:
    """Every node once, keys too; what an alias shares is seen at its anchor."""
    found: list[Node] = []
    todo = list(roots)
    while todo:
        node = todo.pop()
        found.append(node)
        if not node.alias:
            todo += node.items
            todo += (each for pair in node.pairs for each in pair)
    return found
