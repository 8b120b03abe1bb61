"""One Kubernetes object at a time, for objects that are put together from several files.

A reader of Kubernetes objects that also has `read_object` is asked for every object that somebody
makes in memory, such as what an overlay makes of its base: the nodes of such a tree keep the file
and the place in which each of them stands, so that facts and edits land there.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.yaml_tree import Node


@runtime_checkable
class ObjectReader(Protocol):
    """A reader that can be asked for one object.

    `path` is the object's place: a document's index and a JSON Pointer, "0:" or "0:/items/1". The
    plans are not yet `finished`, and their ids and files are those of the nodes; whoever asks
    gives them others. An object of another kind has nothing: the result is empty then.
    """

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult: ...


def read_object(node: Node, path: str, context: ReadContext) -> ReadResult:
    """What all readers find in one object."""
    found = [
        reader.read_object(node, path, context)
        for reader in context.readers
        if isinstance(reader, ObjectReader)
    ]
    return ReadResult(
        plans=tuple(plan for each in found for plan in each.plans),
        routers=tuple(router for each in found for router in each.routers),
        scalers=tuple(scaler for each in found for scaler in each.scalers),
        problems=tuple(problem for each in found for problem in each.problems),
    )
