"""Options in a ConfigMap of the same file that is mounted at the path which a command names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from posixpath import join, normpath

from shardlint.known import Text
from shardlint.readers.inner_yaml import inner
from shardlint.readers.yaml_tree import Node
from shardlint.source import Mapped


def extra_words(
    pod: Node | None, container: Node, maps: Sequence[Node], options: Sequence[str]
) -> tuple[Text, ...]:
    """The options in the file that one of these options names in the arguments, as words.

    Keys become options as they are written; those of a map are joined with a dot. A key that is
    true is a switch, one that is false is none.
    """
    text = named_entry(pod, container, maps, options)
    tree = inner(text) if text is not None else None
    return tuple(_words(tree, "--")) if tree is not None and tree.kind == "map" else ()


def named_entry(
    pod: Node | None, container: Node, maps: Sequence[Node], options: Sequence[str]
) -> Node | None:
    """The entry of a ConfigMap that is mounted at the path which one of the options names."""
    path = _named(container, options)
    return _entry(pod, container, maps, path) if path is not None and pod is not None else None


def _named(container: Node, options: Sequence[str]) -> str | None:
    listed = [container.get(key) for key in ("command", "args")]
    words = [item.value for part in listed if part is not None for item in part.items]
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in options:
            return value if equals else words[at + 1] if at + 1 < len(words) else None
    return None


def _entry(pod: Node, container: Node, maps: Sequence[Node], path: str) -> Node | None:
    """The scalar of a ConfigMap that the container finds at a path."""
    full = normpath(join(container.string("workingDir") or "/", path))
    mounts = container.get("volumeMounts")
    for row in mounts.items if mounts is not None else ():
        at = (row.string("mountPath") or "").rstrip("/")
        if at and (full == at or full.startswith(f"{at}/")):
            rest = join(row.string("subPath") or "", full[len(at) :].lstrip("/")).strip("/")
            return _of_volume(pod, row.string("name") or "", rest, maps)
    return None


def _of_volume(pod: Node, volume: str, file: str, maps: Sequence[Node]) -> Node | None:
    listed = pod.get("volumes")
    for row in listed.items if listed is not None else ():
        if row.string("name") == volume and (found := row.get("configMap")) is not None:
            key = _key(found, file)
            named = [node for node in maps if _is_map_of(node, found.string("name") or "")]
            node = named[0].get("data", key) if len(named) == 1 and key else None
            return node if node is not None and node.kind == "scalar" else None
    return None


def _key(volume: Node, file: str) -> str | None:
    """The key that becomes a file of the volume."""
    items = volume.get("items")
    if items is None:
        return file or None
    return next((row.string("key") for row in items.items if row.string("path") == file), None)


def _is_map_of(node: Node, name: str) -> bool:
    return node.string("kind") == "ConfigMap" and node.string("metadata", "name") == name


def _words(node: Node, prefix: str) -> Iterator[Text]:
    for key, value in node.entries():
        name = f"{prefix}{key.value}"
        if value.kind == "map":
            yield from _words(value, f"{name}.")
        elif value.kind == "scalar" and not value.is_null:
            switch = value.value.lower() if value.style is None else ""
            if switch != "false":
                yield Text(Mapped.all_at(name, key.span), key.origin)
            if switch not in ("true", "false"):
                yield value.text()
        elif value.kind == "list":
            yield Text(Mapped.all_at(name, key.span), key.origin)
            items = [item.value for item in value.items]
            yield Text(Mapped.all_at(json.dumps(items), value.span), value.origin)
