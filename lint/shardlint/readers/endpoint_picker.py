"""Endpoint pickers of llm-d and the Gateway API's inference extension.

An `EndpointPickerConfig` is a file of its own, an entry of a ConfigMap, or text in the values of a
chart (`pluginsCustomConfig`), where `pluginsConfigFile` names the one of several that counts. Of a
ConfigMap those entries count that the `--config-file` of a Deployment names which mounts it; where
no such Deployment is known, all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

from shardlint.known import Known
from shardlint.plan import Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._picker import KIND, picker
from shardlint.readers.inner_yaml import inner
from shardlint.readers.mounted import named_entry
from shardlint.readers.objects import elsewhere, read_objects, siblings
from shardlint.readers.pods import Owner, string_map
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.source import Source

_KIND = re.compile(rf"kind\W{{1,6}}{KIND}\b|\beppConfig\W")
CUSTOM, CHOSEN = "pluginsCustomConfig", "pluginsConfigFile"
OPTIONS = ("--config-file", "--configFile", "-config-file", "-configFile")
ELECTION = re.compile(r"leader-election|LEADER_ELECTION", re.IGNORECASE)
MAX_DEPTH = 12


class EndpointPickerReader:
    """`EndpointPickerConfig`: objects, ConfigMaps with one, values of charts."""

    name = "endpoint-picker"
    kinds = ()
    look: bytes | None = b"EndpointPickerConfig"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        kind = node.string("kind")
        if kind == KIND:
            return ReadResult(routers=(_router(node, node, path, "epp-config"),))
        if kind == "ConfigMap":
            return ReadResult(routers=tuple(_mapped(node, path, context)))
        if kind is None:
            return ReadResult(routers=tuple(_in_values(node, path)))
        return ReadResult(routers=tuple(_in_graph(node, path)))


def _mapped(node: Node, path: str, context: ReadContext) -> Iterator[Router]:
    """Entries of a ConfigMap: those that a picker starts with, as far as one is known."""
    data = node.get("data")
    found = [
        (key.value, value, config)
        for key, value in (data.entries() if data is not None else ())
        if (config := _config(value)) is not None
    ]
    starts = list(_starts(node, context)) if found else []
    for key, value, config in found:
        at = f"{path}/data/{key}"
        mine = [item for item in starts if item[0].span == value.span]
        for count, (_, start) in enumerate(mine):
            router = _router(node, config, at, "epp-config")
            number = f"/{count}" if count else ""
            yield _started(replace(router, id=f"{router.id}{number}"), start)
        if not starts:
            yield _router(node, config, at, "epp-config")


def _started(router: Router, start: Node) -> Router:
    """The picker in the pods of a Deployment.

    Each process has an index of its own of what it has sent where; with an election of a leader
    only one of them chooses, and events of the caches reach them all.
    """
    labels = start.get("spec", "template", "metadata", "labels")
    span = start.span
    alone = ELECTION.search(start.source.text[span.start : span.end]) is not None
    learns = "prefix" in router.awareness and "kv" not in router.awareness and not alone
    stated = start.get("spec", "replicas")
    return replace(
        router,
        labels=string_map(labels),
        state="process" if learns else None,
        replicas=integer(stated) if stated is not None else Known.unset(),
    )


def _starts(node: Node, context: ReadContext) -> Iterator[tuple[Node, Node]]:
    """The entries that Deployments name to start a picker with, and these Deployments."""
    name = node.string("metadata", "name") or ""
    beside = [item.node for item in siblings(context, "Deployment")]
    space = node.string("metadata", "namespace")
    for item in beside or [far.node for far in elsewhere(context, "Deployment", name=name)]:
        pod = item.get("spec", "template", "spec")
        containers = pod.get("containers") if pod is not None else None
        theirs = item.string("metadata", "namespace")
        if None not in (space, theirs) and space != theirs:
            continue
        for container in containers.items if containers is not None else ():
            entry = named_entry(pod, container, (node,), OPTIONS)
            if entry is not None:
                yield entry, item


def _in_values(node: Node, path: str) -> Iterator[Router]:
    """Configurations in the values of a chart."""
    for holder, where in _maps(node, path, 0):
        custom = holder.get(CUSTOM)
        chosen = holder.string(CHOSEN)
        for key, value in custom.entries() if custom is not None else ():
            config = _config(value)
            if config is not None and chosen in (None, key.value):
                at = f"{where}/{CUSTOM}/{key.value}"
                yield _router(node, config, at, "llm-d-router-values", _labels(node))


def _in_graph(node: Node, path: str) -> Iterator[Router]:
    """The picker of a Dynamo graph, whose configuration is written without its kind."""
    for holder, where in _maps(node, path, 0):
        config = holder.get("eppConfig", "config")
        if config is not None and config.kind == "map" and config.get("plugins") is not None:
            yield _router(node, config, f"{where}/eppConfig/config", "epp-config")


def _maps(node: Node, path: str, depth: int) -> Iterator[tuple[Node, str]]:
    if node.kind == "map" and depth < MAX_DEPTH and not node.alias:
        yield node, path
        for key, value in node.entries():
            yield from _maps(value, f"{path}/{key.value}", depth + 1)
    for at, item in enumerate(node.items if depth < MAX_DEPTH and not node.alias else ()):
        yield from _maps(item, f"{path}/{at}", depth + 1)


def _config(value: Node) -> Node | None:
    """A map of the kind, written as such or as text."""
    found = value if value.kind == "map" else inner(value) if KIND in value.value else None
    return found if found is not None and found.string("kind") == KIND else None


def _labels(values: Node) -> Node | None:
    """The labels of the pods that a chart's release chooses among."""
    for path in (("router", "modelServers"), ("inferencePool", "modelServers"), ("modelServers",)):
        if (found := values.get(*path, "matchLabels")) is not None:
            return found
    return None


def _router(node: Node, config: Node, path: str, kind: str, labels: Node | None = None) -> Router:
    owner = Owner(node=node, kind=kind, path=path)
    found = picker(config)
    name = node.string("metadata", "name")
    return Router(
        id=f"{node.source.name}#{path}",
        name="/".join(part for part in (owner.namespace, name) if part) or kind,
        kind=kind,
        file=node.source.name,
        path=path,
        origin=found.policy.origin or config.origin,
        namespace=owner.namespace,
        policy=found.policy,
        explicit=found.explicit,
        awareness=found.awareness,
        sure=found.sure,
        selector=MappingProxyType(dict(string_map(labels))) if labels is not None else {},
        picks=name or "",
        engines=True,
        anchors=(node.span, config.span),
        suppressed=owner.suppressed(),
        offers=found.offers,
    )
