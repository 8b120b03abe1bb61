"""Objects of the run that others name: ConfigMaps, resource claims and their templates.

The object is the one of the same file, else of the same folder, else the only one of its name among
the files that are linted together. Where several could be meant, none is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from posixpath import dirname

from shardlint.plugins import ReadContext
from shardlint.readers.objects import Object, elsewhere, objects, siblings
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Source


@record
class NamedObjects:
    """The objects of one kind that the objects of a file can name."""

    kind: str
    source: Source
    namespace: str | None
    context: ReadContext

    @cached_property
    def _found(self) -> dict[str, Node | None]:
        return {}

    def get(self, name: str) -> Node | None:
        """The object; None where it is not among the files, or not certain."""
        if not name or placeholder(name):
            return None
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def near(self, name: str) -> list[Object]:
        """Those of the name that belong to the object that is read."""
        found = siblings(self.context, self.kind)
        return [item for item in found if self._is(item.node, name)]

    def _look_up(self, name: str) -> Node | None:
        own = [item.node for item in self.near(name)] or list(self._in(self.source, name))
        if own:
            return own[0] if len(own) == 1 else None
        found = elsewhere(self.context, self.kind, name=name)
        others = [item.node for item in found if self._is(item.node, name)]
        folder = dirname(self.source.name)
        near = [node for node in others if dirname(node.source.name) == folder] or others
        return near[0] if len(near) == 1 else None

    def _in(self, source: Source, name: str) -> Iterator[Node]:
        """Those of the file itself, where it is no file of objects."""
        if self.context.siblings or name not in source.text or self.kind not in source.text:
            return
        for root in read_yaml(source)[0]:
            yield from (node for node, _ in objects(root, "") if self._is(node, name))

    def _is(self, node: Node, name: str) -> bool:
        if node.string("kind") != self.kind or node.string("metadata", "name") != name:
            return False
        theirs = node.string("metadata", "namespace")
        return None in (theirs, self.namespace) or theirs == self.namespace
