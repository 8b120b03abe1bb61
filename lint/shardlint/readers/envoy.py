"""Envoy: each cluster that a route leads to is a router among its endpoints.

Facts of routing, sections 1 and 3 (envoyproxy/envoy, load_balancers.rst at 040783c). A cluster that
takes its address from the request (ORIGINAL_DST, CLUSTER_PROVIDED) behind an ext_proc filter leaves
the choice to an endpoint picker; the cluster of the picker itself is none of models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Refusal, Remark, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import MadeSite, Tree, add_entry
from shardlint.readers.inner_yaml import inner, nodes_of
from shardlint.readers.keyed import KeySite
from shardlint.readers.nginx import serve_models
from shardlint.readers.objects import read_objects
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node
from shardlint.source import Edit, Source

_KEY = re.compile(r"""^[ \t{]*"?static_resources"?[ \t]*:""", re.MULTILINE)
AWARE: Final[dict[str, frozenset[str]]] = {
    "ROUND_ROBIN": frozenset(), "RANDOM": frozenset(), "LEAST_REQUEST": frozenset({"load"}),
    "RING_HASH": frozenset({"session"}), "MAGLEV": frozenset({"session"}),
}  # fmt: skip
HASHES: Final = ("RING_HASH", "MAGLEV")
DEFAULT: Final = "ROUND_ROBIN"
HEADER: Final = "x-session-id"


class EnvoyReader:
    """`static_resources` of Envoy."""

    name = "envoy"
    kinds = ()
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return _KEY.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        if "ConfigMap" in source.text:
            return read_objects(self, source, context)
        roots, _ = read_yaml(source)
        found = [_Envoy(root, f"{at}:") for at, root in enumerate(roots)]
        return ReadResult(routers=tuple(router for each in found for router in each.routers()))

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        """A configuration by itself, or entries of a ConfigMap."""
        data = node.get("data") if node.string("kind") == "ConfigMap" else None
        parts = [_Envoy(node, path)] if data is None else [
            _Envoy(root, f"{path}/data/{key.value}")
            for key, value in data.entries()
            if "static_resources" in value.value and (root := inner(value)) is not None
        ]  # fmt: skip
        return ReadResult(routers=tuple(router for each in parts for router in each.routers()))


class _Envoy:
    def __init__(self, root: Node, path: str) -> None:
        self.root, self.path = root, path
        listed = root.get("static_resources", "clusters")
        self.clusters = listed.items if listed is not None and listed.kind == "list" else []
        self.routes = list(self._routes())
        self.picked = any(
            node.string("name") == "envoy.filters.http.ext_proc" for node in nodes_of([root])
        )

    def _routes(self) -> Iterator[Node]:
        for node in nodes_of([self.root]):
            route = node.get("route") if node.kind == "map" else None
            if route is not None and route.kind == "map":
                yield route

    def routers(self) -> Iterator[Router]:
        named = {route.string("cluster") for route in self.routes}
        named |= {
            row.string("name")
            for route in self.routes
            if (rows := route.get("weighted_clusters", "clusters")) is not None
            for row in rows.items
        }
        used = [item for item in self.clusters if item.string("name") in named]
        for at, cluster in enumerate(self.clusters):
            if any(cluster is item for item in used):
                yield self._router(cluster, at, self._serves(cluster))

    def _serves(self, cluster: Node) -> bool:
        names = [cluster.string("name") or "", *_addresses(cluster)]
        return serve_models(names)

    def _router(self, cluster: Node, at: int, engines: bool) -> Router:
        stated = cluster.get("lb_policy")
        word = stated.value if stated is not None else DEFAULT
        handed_on = word == "CLUSTER_PROVIDED" or cluster.string("type") == "ORIGINAL_DST"
        other = cluster.get("load_balancing_policy") is not None
        origin = stated.origin if stated is not None else cluster.origin
        policy = Known.of(word, origin, how="stated" if stated is not None else "defaulted")
        if handed_on:
            policy = Known.of("ext_proc" if self.picked else "none", origin)
        elif other:
            policy = Known.unknown("load_balancing_policy is not read", origin)
        awareness = AWARE.get(word, frozenset()) if not (handed_on or other) else frozenset()
        factor = cluster.string("common_lb_config", "consistent_hashing_lb_config",
                                "hash_balance_factor")  # fmt: skip
        if word in HASHES and awareness and factor not in (None, "0"):
            awareness |= {"load"}
        routes = [route for route in self.routes if route.string("cluster") == cluster.string(
            "name")]  # fmt: skip
        keyless = word in HASHES and bool(routes) and not any(
            route.get("hash_policy") is not None for route in routes
        )  # fmt: skip
        addresses = tuple(_addresses(cluster))
        name = cluster.pair("name")
        count: Known[int] = Known.of(len(addresses), how="derived")
        if not addresses or cluster.string("type") in ("EDS", "STRICT_DNS", "LOGICAL_DNS"):
            count = count if len(addresses) > 1 else Known.unknown("its name stands for many")
        path = f"{self.path}/static_resources/clusters/{at}"
        return Router(
            id=f"{cluster.source.name}#{path}",
            name=cluster.string("name") or "cluster",
            kind="envoy",
            file=cluster.source.name,
            path=path,
            origin=name[1].origin if name is not None else cluster.origin,
            policy=policy,
            explicit=stated is not None or (handed_on and self.picked),
            awareness=frozenset() if keyless else awareness,
            sure=word in AWARE and not other,
            chooses="elsewhere" if handed_on else "one" if count.only == 1 else "replicas",
            targets=addresses,
            choices=count,
            engines=engines,
            remarks=(_keyless(word, policy),) if keyless else (),
            anchors=(cluster.span,),
            offers=tuple(self._offers(cluster, routes, word, keyless)),
        )

    def _offers(
        self, cluster: Node, routes: list[Node], word: str, keyless: bool
    ) -> Iterator[Offer]:
        """A hash of a header: the algorithm in the cluster, the header in its routes."""

        def made(_value: str) -> list[Edit] | Refusal:
            edits: list[Edit] = []
            if word not in HASHES:
                edit = KeySite(cluster, "lb_policy").set("MAGLEV")
                if isinstance(edit, Refusal):
                    return edit
                edits += edit
            for route in routes:
                if route.get("hash_policy") is not None:
                    continue
                header: dict[str, Tree] = {"header": {"header_name": HEADER}}
                added = add_entry(route, "hash_policy", [header])
                if isinstance(added, Refusal):
                    return added
                edits += added
            return edits

        if routes and (keyless or word not in HASHES):
            title = f"a hash of the header {HEADER}, which your clients send"
            delta = {"routing": "session-hash", "session_key": HEADER}
            for cures in ("session_key",) if keyless else ("routing",):
                yield Offer(cures=cures, title=title, delta=delta, site=MadeSite(made))


def _keyless(word: str, policy: Known[str]) -> Remark:
    assert policy.origin is not None
    return Remark(
        kind="session-key", at=policy.origin, severity="warning",
        message=f"{word} has no `hash_policy` in the routes that lead to it: a host is chosen at"
        " random",
        help="`hash_policy` with the header that carries the session",
    )  # fmt: skip


def _addresses(cluster: Node) -> Iterator[str]:
    """The endpoints of a cluster, also where they are those of another one by an alias."""
    todo = [part for key in ("load_assignment", "hosts") if (part := cluster.get(key)) is not None]
    seen: set[int] = set()
    while todo:
        node = todo.pop(0)
        if id(node.pairs or node.items) in seen:
            continue
        seen.add(id(node.pairs or node.items))
        address = node.string("address") if node.kind == "map" else None
        if address is not None:
            port = node.string("port_value")
            yield f"{address}:{port}" if port else address
        todo += [value for _, value in node.entries() if value.kind != "scalar"]
        todo += [item for item in node.items if item.kind != "scalar"]
