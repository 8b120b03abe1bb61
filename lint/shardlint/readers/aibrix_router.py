"""AIBrix's gateway as far as a manifest says how it routes: the annotation of a model's pods.

Facts of routing, section 4 (vllm-project/aibrix, gateway-plugins.rst and pkg/plugins/gateway at
e3e10f9). `lockedRoutingStrategy` counts before the profile's `routingStrategy`; a request may name
another profile or strategy in a header. `pd` chooses among servers of prompts by their prefixes and
what they have to do, unless `prefillScorePolicy` says otherwise (algorithms/pd/prefill_scorer.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import TextSite
from shardlint.readers.inner_yaml import inner
from shardlint.readers.objects import read_objects
from shardlint.readers.pods import Owner, string_map
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node
from shardlint.source import Source

ANNOTATION: Final = "model.aibrix.ai/config"
PREFIX: Final = "prefix-cache"
AWARE: Final[dict[str, frozenset[str]]] = {
    "random": frozenset(), PREFIX: frozenset({"prefix", "load"}),
    "prefix-cache-preble": frozenset({"prefix", "load"}),
    "session-affinity": frozenset({"session"}),
    "pd": frozenset({"prefix", "load"}),
    **dict.fromkeys(
        ("least-request", "least-busy-time", "least-latency", "least-kv-cache", "least-gpu-cache",
         "least-utilization", "throughput", "power-of-two", "vtc-basic", "slo", "slo-pack-load",
         "slo-least-load", "slo-least-load-pulling"), frozenset({"load"}),
    ),
}  # fmt: skip
MAX_DEPTH: Final = 16
VARIABLE: Final = "ROUTING_ALGORITHM"
_WORDS = re.compile(rf"{re.escape(ANNOTATION)}|\b{VARIABLE}\b")


class AibrixRouterReader:
    """The annotation `model.aibrix.ai/config`, and the gateway's variable `ROUTING_ALGORITHM`."""

    name = "aibrix-router"
    kinds = ()
    look: bytes | None = b"model.aibrix.ai/config"

    def accepts(self, source: Source) -> bool:
        return _WORDS.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        found = [_router(node, *each) for each in _annotated(node, path, 0)]
        found += [_made(node, node, value, value, where) for value, where in _variables(node, path)]
        return ReadResult(routers=tuple(router for router in found if router is not None))


def _annotated(node: Node, path: str, depth: int) -> Iterator[tuple[Node, Node, str]]:
    """Each map of metadata with the annotation, and the annotation's value."""
    if node.alias or depth > MAX_DEPTH:
        return
    notes = node.get("annotations")
    found = notes.get(ANNOTATION) if notes is not None and notes.kind == "map" else None
    if found is not None:
        yield node, found, f"{path}/annotations"
    for key, value in node.entries():
        yield from _annotated(value, f"{path}/{key.value}", depth + 1)
    for at, item in enumerate(node.items):
        yield from _annotated(item, f"{path}/{at}", depth + 1)


def _router(node: Node, metadata: Node, value: Node, path: str) -> Router | None:
    config = inner(value)
    if config is None or config.kind != "map":
        return None
    profile = config.string("defaultProfile") or "default"
    stated = config.get("lockedRoutingStrategy") or config.get(
        "profiles", profile, "routingStrategy"
    )
    if stated is None:
        return None
    made = _made(node, metadata, stated, value, path)
    scores = config.string("profiles", profile, "routingConfig", "prefillScorePolicy")
    if stated.value == "pd" and scores == "least_request":
        made = replace(made, awareness=frozenset({"load"}), offers=())
    return made


def _variables(node: Node, path: str) -> Iterator[tuple[Node, str]]:
    """The variable of the gateway's container, whose image is one of AIBrix."""
    containers = node.get("spec", "template", "spec", "containers")
    for at, container in enumerate(containers.items if containers is not None else ()):
        env = container.get("env")
        for item in env.items if env is not None else ():
            value = item.get("value")
            ours = "aibrix" in (container.string("image") or "")
            if ours and item.string("name") == VARIABLE and value is not None:
                yield value, f"{path}/spec/template/spec/containers/{at}"


def _made(node: Node, metadata: Node, stated: Node, value: Node, path: str) -> Router:
    awareness = AWARE.get(stated.value)
    owner = Owner(node=node, kind="aibrix", path=path)
    labels = string_map(metadata.get("labels")) if metadata is not node else {}
    looks = awareness or frozenset[str]()
    return Router(
        id=f"{node.source.name}#{path}",
        name=owner.name or ANNOTATION,
        kind="aibrix-annotation",
        file=node.source.name,
        path=path,
        origin=stated.origin,
        namespace=owner.namespace,
        policy=Known.of(stated.value, stated.origin),
        explicit=True,
        awareness=looks,
        sure=awareness is not None,
        selector=MappingProxyType(dict(labels)),
        engines=True,
        anchors=(node.span, value.span),
        suppressed=owner.suppressed(),
        offers=() if looks & {"prefix"} else (
            Offer(cures="routing", title=f"`routingStrategy` {PREFIX}", value=PREFIX,
                  delta={"routing": "prefix-aware"}, site=TextSite((stated.text(),))),
        ),
    )  # fmt: skip
