"""ConfigMaps of the run: variables of containers, and files that are mounted in them.

A ConfigMap is the one of the same file, else of the same folder, else the only one of its name
among the files that are linted together. Where several could be meant, none is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from posixpath import dirname, join, normpath

from shardlint.known import Text
from shardlint.plugins import ReadContext
from shardlint.readers.named_files import NamedFile
from shardlint.readers.objects import Object, elsewhere, objects, siblings
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Source


@record
class ConfigMaps:
    """The ConfigMaps that the objects of a file can name."""

    source: Source
    namespace: str | None
    context: ReadContext

    @cached_property
    def _found(self) -> dict[str, Node | None]:
        return {}

    def get(self, name: str) -> Node | None:
        """The `data` of a ConfigMap; None where it is not among the files, or not certain."""
        if not name or placeholder(name):
            return None
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def entry(self, name: str, key: str) -> Node | None:
        data = self.get(name)
        found = data.get(key) if data is not None else None
        return found if found is not None and found.is_string else None

    def is_open(self, name: str) -> bool:
        """Whether it has more entries than could be read."""
        return any(item.open for item in self._near(name))

    def _near(self, name: str) -> list[Object]:
        found = siblings(self.context, "ConfigMap")
        return [item for item in found if self._is(item.node, name)]

    def _look_up(self, name: str) -> Node | None:
        own = [item.node for item in self._near(name)] or list(self._in(self.source, name))
        if own:
            return own[0].get("data") if len(own) == 1 else None
        found = elsewhere(self.context, "ConfigMap", word=name)
        others = [item.node for item in found if self._is(item.node, name)]
        folder = dirname(self.source.name)
        near = [node for node in others if dirname(node.source.name) == folder] or others
        return near[0].get("data") if len(near) == 1 else None

    def _in(self, source: Source, name: str) -> Iterator[Node]:
        """Those of the file itself, where it is no file of objects."""
        if self.context.siblings or name not in source.text or "ConfigMap" not in source.text:
            return
        for root in read_yaml(source)[0]:
            yield from (node for node, _ in objects(root, "") if self._is(node, name))

    def _is(self, node: Node, name: str) -> bool:
        if node.string("kind") != "ConfigMap" or node.string("metadata", "name") != name:
            return False
        theirs = node.string("metadata", "namespace")
        return None in (theirs, self.namespace) or theirs == self.namespace


# ---------------------------------------------------------------------------------- variables


def referred(item: Node, maps: ConfigMaps) -> Text | None:
    """The value of a variable that `valueFrom.configMapKeyRef` names."""
    found = item.get("valueFrom", "configMapKeyRef")
    if found is None:
        return None
    node = maps.entry(found.string("name") or "", found.string("key") or "")
    return node.text() if node is not None else None


def listed(container: Node, maps: ConfigMaps) -> tuple[dict[str, Text], bool]:
    """The variables that `envFrom` takes from ConfigMaps, and whether that is all of them."""
    env: dict[str, Text] = {}
    whole = True
    rows = container.get("envFrom")
    for row in rows.items if rows is not None else ():
        name = row.string("configMapRef", "name") or ""
        data = maps.get(name)
        prefix = row.string("prefix") or ""
        whole = whole and data is not None and not maps.is_open(name)
        for key, value in data.entries() if data is not None else ():
            if value.is_string:
                env[prefix + key.value] = value.text()
    return env, whole


# ------------------------------------------------------------------------------------- mounts


@record
class Mounts:
    """What a container finds at its paths, as far as that comes from ConfigMaps."""

    spec: Node | None
    container: Node
    maps: ConfigMaps

    def find(self, path: str) -> NamedFile | None:
        """The entry of a ConfigMap that is mounted at a path."""
        full = normpath(join(self.container.string("workingDir") or "/", path))
        best: tuple[str, Node] | None = None
        mounts = self.container.get("volumeMounts")
        for row in mounts.items if mounts is not None else ():
            at = (row.string("mountPath") or "").rstrip("/")
            inside = full == at or full.startswith(f"{at}/")
            if at and inside and (best is None or len(at) > len(best[0])):
                best = at, row
        if best is None:
            return None
        at, row = best
        rest = join(row.string("subPath") or "", full[len(at) :].lstrip("/")).strip("/")
        return self._entry(self._volume(row.string("name") or ""), rest)

    def _volume(self, name: str) -> Node | None:
        rows = self.spec.get("volumes") if self.spec is not None else None
        for row in rows.items if rows is not None else ():
            if row.string("name") == name:
                return row
        return None

    def _entry(self, volume: Node | None, file: str) -> NamedFile | None:
        if volume is None or not file:
            return None
        sources = [volume.get("configMap")]
        if (projected := volume.get("projected", "sources")) is not None:
            sources = [row.get("configMap") for row in projected.items]
        for found in sources:
            if found is not None and (key := _key(found, file)) is not None:
                name = found.string("name") or ""
                if (node := self.maps.entry(name, key)) is not None:
                    return NamedFile(node.source, node)
        return None


def _key(volume: Node, file: str) -> str | None:
    """The key of a ConfigMap that becomes a file of the volume."""
    items = volume.get("items")
    if items is None:
        return file if "/" not in file else None
    for row in items.items:
        if row.string("path") == file:
            return row.string("key")
    return None
