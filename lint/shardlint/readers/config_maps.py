"""ConfigMaps of the run: variables of containers, and files that are mounted in them."""

from __future__ import annotations

from functools import cached_property
from posixpath import join, normpath

from shardlint.known import Text
from shardlint.plugins import ReadContext
from shardlint.readers.named_files import NamedFile
from shardlint.readers.named_objects import NamedObjects
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Source


@record
class ConfigMaps:
    """The ConfigMaps that the objects of a file can name."""

    source: Source
    namespace: str | None
    context: ReadContext

    @cached_property
    def _objects(self) -> NamedObjects:
        return NamedObjects("ConfigMap", self.source, self.namespace, self.context)

    def get(self, name: str) -> Node | None:
        """The `data` of a ConfigMap; None where it is not among the files, or not certain."""
        found = self._objects.get(name)
        return found.get("data") if found is not None else None

    def entry(self, name: str, key: str) -> Node | None:
        data = self.get(name)
        found = data.get(key) if data is not None else None
        return found if found is not None and found.is_string else None

    def is_open(self, name: str) -> bool:
        """Whether it has more entries than could be read."""
        return any(item.open for item in self._objects.near(name))


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
