"""Objects on their way through a kustomization: which are selected, and what is set in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from shardlint.platforms.kustomize import (
    CLUSTER_WIDE,
    NAMED_IN,
    REFERENCES,
    REPLICATED,
    SELECTORS,
    TEMPLATES,
    UNPREFIXED,
    image_name,
    renamed,
    selected,
)
from shardlint.plugins import Absorbed
from shardlint.readers.layers import (
    Work,
    everywhere,
    made,
    made_map,
    put,
    with_items,
    with_pairs,
    without,
)
from shardlint.readers.objects import kind_of
from shardlint.readers.pods import string_map
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Source, Span

SELECTION = 5
"""Steps of work of asking whether one object is selected."""


class Unsure(Exception):
    """Something that can change the objects is not in the run."""


@record
class Item:
    """An object on its way, the names that it has had, and the parts of files that it is made of.

    `type` is group, version and kind. Names are pairs of namespace and name, the last one counts.
    `open`: it has more entries than could be read.
    """

    node: Node
    type: tuple[str, str, str]
    names: tuple[tuple[str, str], ...]
    uses: tuple[Absorbed, ...] = ()
    open: bool = False

    @classmethod
    def of(cls, node: Node, *uses: Absorbed, open: bool = False) -> Item:
        return cls(node, type_of(node), (name_of(node),), uses, open)

    @property
    def kind(self) -> str:
        return self.type[2]

    def changed(self, node: Node, *uses: Absorbed) -> Item:
        names = self.names
        if (now := name_of(node)) != names[-1]:
            names = (*names, now)
        return Item(node, type_of(node), names, (*self.uses, *uses), self.open)


def type_of(node: Node) -> tuple[str, str, str]:
    """Group, version and kind."""
    group, _, version = (node.string("apiVersion") or "").rpartition("/")
    return group, version, node.string("kind") or ""


def name_of(node: Node) -> tuple[str, str]:
    namespace = node.string("metadata", "namespace") or "default"
    return namespace, node.string("metadata", "name") or ""


def nameless(patch: Node) -> Node:
    """A patch without what it is known by, which it does not change."""
    metadata = patch.get("metadata")
    body = without(patch, ("apiVersion", "kind"))
    if metadata is None or metadata.kind != "map":
        return body
    return put(body, ("metadata",), without(metadata, ("name", "namespace")))


class Named:
    """The object that a patch names: of its kind, by any name that it has had."""

    def __init__(self, patch: Node) -> None:
        group, _, kind = type_of(patch)
        self._type, self._name = (group, kind), name_of(patch)

    def selects(self, item: Item) -> bool:
        group, _, kind = item.type
        return (group, kind) == self._type and self._name in item.names


class Target:
    """What selects objects by kind, by their first or their present name, by labels and
    annotations; with `every`, by any name that they have had."""

    def __init__(self, node: Node, every: bool = False) -> None:
        self._every = every
        self._type = tuple(node.string(key) or "" for key in ("group", "version", "kind"))
        self._name = node.string("name") or ""
        self._namespace = node.string("namespace") or ""
        self._rows = [
            (node.string(key) or "", field)
            for key, field in (("labelSelector", "labels"), ("annotationSelector", "annotations"))
        ]

    def selects(self, item: Item) -> bool:
        names = item.names if self._every else (item.names[0], item.names[-1])
        return (
            all(not want or selected(want, had)
                for want, had in zip(self._type, item.type, strict=True))
            and any(selected(self._name, name) for _, name in names)
            and any(selected(self._namespace, space) for space, _ in names)
            and all(not row or _carries(row, string_map(item.node.get("metadata", field)))
                    for row, field in self._rows)
        )  # fmt: skip


_REQUIREMENT = re.compile(r"(!?)([^\s=!,()]+)\s*(?:(==?|!=)\s*([^\s=!,()]*))?")


def _carries(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a selector such as `app=chat,tier!=test`."""
    for part in filter(None, (part.strip() for part in selector.split(","))):
        match = _REQUIREMENT.fullmatch(part)
        if match is None:
            raise Unsure
        absent, key, sign, value = match.groups()
        if sign is None:
            met = (key in labels) != bool(absent)
        else:
            met = (labels.get(key) == value) != (sign == "!=")
        if not met:
            return False
    return True


def in_namespace(item: Item, namespace: Node | None) -> Item:
    if namespace is None or namespace.kind != "scalar" or item.kind in CLUSTER_WIDE:
        return item
    return item.changed(put(item.node, ("metadata", "namespace"), namespace))


def named_anew(item: Item, root: Node) -> Item:
    prefix, suffix = root.string("namePrefix") or "", root.string("nameSuffix") or ""
    name = item.node.get("metadata", "name")
    if name is None or not (prefix or suffix) or item.kind in UNPREFIXED:
        return item
    new = made(f"{prefix}{name.value}{suffix}", name)
    return item.changed(put(item.node, ("metadata", "name"), new))


def labelled(item: Item, entry: Node, root: Node) -> Item:
    """With the labels of one entry of `labels`, or of `commonLabels`, which go everywhere."""
    pairs = entry.get("commonLabels") if entry is root else entry.get("pairs")
    if pairs is None or pairs.kind != "map":
        return item
    chosen = entry is root or entry.string("includeSelectors") == "true"
    template = TEMPLATES.get(item.kind)
    fields = [field for field in items_of(entry, "fields") if field.string("path")]
    # A field of this path for some kinds stands in for the one of all kinds.
    own = any(field.string("path") == "metadata/labels" for field in fields)
    paths: list[tuple[str, ...]] = [] if own and entry is not root else [("metadata", "labels")]
    paths += (path for field in fields if (path := _field(field, item)))
    if template and (chosen or entry.string("includeTemplates") == "true"):
        paths.append((*template, "labels"))
    if chosen and item.kind in SELECTORS and kind_of(item.node)[0] in ("apps", ""):
        paths.append(SELECTORS[item.kind])
    return item.changed(_with_all(item.node, paths, pairs))


def items_of(node: Node, key: str) -> list[Node]:
    found = node.get(key)
    return found.items if found is not None and found.kind == "list" else []


def _field(field: Node, item: Item) -> tuple[str, ...] | None:
    """The path of a field that is named for some kinds, where it is for this object."""
    wanted = (field.string(key) or "" for key in ("group", "version", "kind"))
    path = tuple((field.string("path") or "").strip("/").split("/"))
    there = field.string("create") == "true" or item.node.get(*path) is not None
    fits = all(want in ("", had) for want, had in zip(wanted, item.type, strict=True))
    return path if fits and there and not any("[" in step for step in path) else None


def annotated(item: Item, pairs: Node | None) -> Item:
    if pairs is None or pairs.kind != "map":
        return item
    template = TEMPLATES.get(item.kind)
    paths = [("metadata", "annotations"), *([(*template, "annotations")] if template else [])]
    return item.changed(_with_all(item.node, paths, pairs))


def _with_all(node: Node, paths: list[tuple[str, ...]], pairs: Node) -> Node:
    for path in paths:
        for key, value in pairs.entries():
            node = put(node, (*path, key.value), value)
    return node


def replicated(item: Item, entry: Node) -> Item:
    name, count = entry.string("name"), entry.get("count")
    known = any(name == had for _, had in item.names)
    if count is None or not known or item.kind not in REPLICATED:
        return item
    return item.changed(put(item.node, ("spec", "replicas"), count))


def imaged(image: Node, entry: Node) -> Node:
    """The image as an entry of `images` makes it; the part that is new tells the place."""
    if image_name(image.value) != entry.string("name"):
        return image
    parts = {key: entry.get(key) for key in ("newTag", "digest", "newName")}
    at = next((node for node in parts.values() if node is not None), None)
    if at is None or any(node is not None and node.kind != "scalar" for node in parts.values()):
        return image
    name, tag, digest = (entry.string(key) for key in ("newName", "newTag", "digest"))
    return made(renamed(image.value, name, tag, digest), at)


# ----------------------------------------------------------------------------------- variables


def entries_of(node: Node | None) -> dict[str, Node]:
    """Entries of a map whose values are words."""
    if node is None or node.kind != "map":
        return {}
    return {key.value: value for key, value in node.entries() if value.kind == "scalar"}


def env_file(source: Source) -> dict[str, Node]:
    """The variables of a file with a NAME=value on each line."""
    found: dict[str, Node] = {}
    for number in range(1, min(source.line_count, 10_000) + 1):
        span = source.line_span(number)
        line = source.text[span.start : span.end]
        key, equals, value = line.lstrip(" \t\ufeff").partition("=")
        if equals and not key.startswith("#"):
            found[key] = Node("scalar", Span(span.end - len(value), span.end), source, value)
    return found


def literal(node: Node, start: int, value: str) -> Node:
    """The value of NAME=value, at its own place where that is written as it is."""
    mapped = node.text().mapped
    bare = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    if mapped is None or not mapped.literal or bare != value or not value:
        return made(bare, node)
    return Node("scalar", mapped.span(start), node.source, value)


def with_variables(items: list[Item], work: Work) -> list[Item]:
    """The objects with the variables that ConfigMaps among them give their containers."""
    maps = [item for item in items if item.kind == "ConfigMap"]
    if not maps:
        return items
    return [_with_env(item, maps, work) if item.kind != "ConfigMap" else item for item in items]


def _with_env(item: Item, maps: list[Item], work: Work) -> Item:
    space = item.names[-1][0]

    def named(name: str | None) -> Item | None:
        found = [each for each in maps if each.names[-1][0] == space
                 and any(had == name for _, had in each.names)]  # fmt: skip
        return found[0] if len(found) == 1 else None

    def change(node: Node, key: str) -> Node:
        del key
        env, sources = node.get("env"), node.get("envFrom")
        if sources is not None and sources.kind == "list":
            node = _from_all(node, sources, named)
            env = node.get("env")
        if env is not None and env.kind == "list":
            items = [_from_one(each, named) for each in env.items]
            if any(one is not other for one, other in zip(items, env.items, strict=True)):
                node = put(node, ("env",), with_items(env, items))
        return node

    node = everywhere(item.node, change, work)
    return item if node is item.node else replace(item, node=node)


def with_references(items: list[Item], work: Work) -> list[Item]:
    """The objects with the new names of the others that they name."""
    new: dict[tuple[str, str, str], str] = {}
    for item in items:
        space, name = item.names[-1]
        new |= {(item.kind, space, had): name for _, had in item.names if had != name}
    return [_referring(item, new, work) for item in items] if new else items


def _referring(item: Item, new: Mapping[tuple[str, str, str], str], work: Work) -> Item:
    space = item.names[-1][0]

    def change(node: Node, key: str) -> Node:
        kind = REFERENCES.get(key)
        if key == "scaleTargetRef":
            kind = node.string("kind") or "Deployment"
        fields = {"name": kind} if kind else NAMED_IN
        for name, of in fields.items():
            old = node.get(name)
            now = new.get((of, space, old.value)) if old is not None else None
            if old is not None and now is not None:
                node = put(node, (name,), made(now, old))
        return node

    node = everywhere(item.node, change, work)
    return item if node is item.node else replace(item, node=node)


def _from_one(variable: Node, named: Callable[[str | None], Item | None]) -> Node:
    """A variable of `env` with the value that it has in a ConfigMap."""
    reference = variable.get("valueFrom", "configMapKeyRef")
    found = named(reference.string("name")) if reference is not None else None
    if reference is None or found is None:
        return variable
    value = entries_of(found.node.get("data")).get(reference.string("key") or "")
    if value is None or "$(" in value.value:
        return variable
    return put(without(variable, ("valueFrom",)), ("value",), value)


def _from_all(node: Node, sources: Node, named: Callable[[str | None], Item | None]) -> Node:
    """A container with the variables of the ConfigMaps in `envFrom`, which those of `env` beat."""
    given: dict[str, Node] = {}
    left: list[Node] = []
    for entry in sources.items:
        found = named(entry.string("configMapRef", "name"))
        data = entries_of(found.node.get("data")) if found is not None else {}
        if found is None or found.open or any("$(" in value.value for value in data.values()):
            left.append(entry)
        prefix = entry.string("prefix") or ""
        given |= {f"{prefix}{k}": v for k, v in data.items() if "$(" not in v.value}
    if not given:
        return node
    own = node.get("env")
    rows = [made_map([("name", made(k, v)), ("value", v)], v) for k, v in given.items()]
    env = with_items(own, [*rows, *own.items]) if own is not None and own.kind == "list" else None
    if env is None:
        env = Node("list", sources.span, sources.source, alias=True, items=rows)
    node = put(node, ("env",), env)
    pairs = [(k, with_items(v, left) if v is sources else v) for k, v in node.entries()]
    return with_pairs(node, [(k, v) for k, v in pairs if left or k.value != "envFrom"])
