"""Kubernetes objects: those of a file, those of a build, and the others that one of them names.

A reader of objects has `read_object`, and is asked for each object of a file, or of all that an
overlay makes of its base in memory. The nodes of such an object keep the file and the place in
which each of them stands, so that facts and edits land there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

from shardlint.plugins import Absorbed, Problem, ReadContext, ReadResult
from shardlint.readers.layers import LayerError
from shardlint.readers.plans import absorbed, finished
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Source


def objects(root: Node, path: str) -> Iterator[tuple[Node, str]]:
    """The object itself, or the items of a List or the objects of an OpenShift Template."""
    kind = root.string("kind") or ""
    key = "objects" if kind == "Template" else "items" if kind.endswith("List") else None
    items = root.get(key) if key else None
    if items is not None and items.kind == "list":
        for index, item in enumerate(items.items):
            yield item, f"{path}/{key}/{index}"
    elif root.kind == "map":
        yield root, path


def kind_of(node: Node) -> tuple[str, str]:
    """The API group, empty for the core, and the kind of an object."""
    return (node.string("apiVersion") or "").rpartition("/")[0], node.string("kind") or ""


# ------------------------------------------------------------------------------ one by one


@runtime_checkable
class ObjectReader(Protocol):
    """A reader that can be asked for one object.

    `path` is the object's place: a document's index and a JSON Pointer, "0:" or "0:/items/1". The
    plans are not yet `finished`, and their ids and files are those of the nodes; whoever asks
    gives them others. What is absorbed without a file is one of `context.siblings`. An object of
    another kind has nothing: the result is empty then.
    """

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult: ...


def read_object(node: Node, path: str, context: ReadContext) -> ReadResult:
    """What all readers find in one object."""
    return together(
        _asked(reader, node, path, context)
        for reader in context.readers
        if isinstance(reader, ObjectReader)
    )


def _asked(reader: ObjectReader, node: Node, path: str, context: ReadContext) -> ReadResult:
    """What one reader finds, or why it could not put the object together with others."""
    try:
        return reader.read_object(node, path, context)
    except LayerError as error:
        return ReadResult(problems=(Problem(error.origin, str(error), "warning"),))


def read_objects(reader: ObjectReader, source: Source, context: ReadContext) -> ReadResult:
    """What one reader finds in the objects of a file."""
    roots, failed = read_yaml(source)
    if failed is not None:
        return failed
    found = [item for index, root in enumerate(roots) for item in objects(root, f"{index}:")]
    beside = (Object(node, path, (Absorbed(source.name, f"{path}/"),)) for node, path in found)
    context = replace(context, siblings=tuple(beside))
    result = together(_asked(reader, node, path, context) for node, path in found)
    absorbs = (replace(item, file=item.file or source.name) for item in result.absorbs)
    return replace(
        result,
        plans=finished(result.plans),
        absorbs=tuple(dict.fromkeys((*absorbs, *absorbed(result.plans)))),
    )


def together(found: Iterable[ReadResult]) -> ReadResult:
    """Several results as one."""
    every = tuple(found)
    return ReadResult(
        plans=tuple(plan for each in every for plan in each.plans),
        routers=tuple(router for each in every for router in each.routers),
        scalers=tuple(scaler for each in every for scaler in each.scalers),
        problems=tuple(problem for each in every for problem in each.problems),
        absorbs=tuple(item for each in every for item in each.absorbs),
    )


# ------------------------------------------------------------------------------ the others


@record
class Object:
    """An object beside the one that is read, and its place.

    `parts` are what it is made of, `file` is another file that it is in. `open`: it has more
    entries than could be read.
    """

    node: Node
    path: str
    parts: tuple[Absorbed, ...] = ()
    open: bool = False
    file: str = ""

    @property
    def absorbed(self) -> Absorbed:
        return Absorbed(self.file, f"{self.path}/")


def siblings(context: ReadContext, *kinds: str) -> Iterator[Object]:
    """The objects of some kinds that belong to the one that is read."""
    for item in context.siblings:
        if item.node.string("kind") in kinds:
            yield item


def elsewhere(context: ReadContext, *kinds: str, name: str = "") -> Iterator[Object]:
    """The objects of some kinds in other files, as far as something there has the name.

    What a sibling is made of is none of them: the object is that sibling now.
    """
    used = {part for item in context.siblings for part in item.parts}
    seen: set[str] = set()
    named = re.compile(
        rf"""name["']?[ \t]*:[ \t]*["']?{re.escape(name)}["']?[ \t]*([,}}#]|$)""", re.M
    )
    for kind in kinds:
        for source in context.files.holding(kind):
            if source.name in seen or name not in source.text:
                continue
            if name and not named.search(source.text):
                continue
            seen.add(source.name)
            for index, root in enumerate(read_yaml(source)[0]):
                for node, path in objects(root, f"{index}:"):
                    known = Absorbed(source.name, f"{path}/") in used
                    if node.string("kind") in kinds and not known:
                        yield Object(node, path, file=source.name)
