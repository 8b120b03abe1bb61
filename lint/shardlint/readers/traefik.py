"""Traefik's dynamic configuration: each `loadBalancer` of a service is a router.

Facts of routing, section 1 (traefik/traefik, routing-configuration/http/load-balancing/service.md
at fd5a576): `wrr` where no strategy is stated; `sticky.cookie` keeps a client at one server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Refusal, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import MadeSite, add_entry, insert_items
from shardlint.readers.nginx import serve_models
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node
from shardlint.source import Edit, Source

_KEYS = (
    re.compile(r"^http:", re.MULTILINE),
    re.compile(r"^[ \t]+loadBalancer:", re.MULTILINE | re.IGNORECASE),
)
AWARE: Final[dict[str, frozenset[str]]] = {
    "wrr": frozenset(), "p2c": frozenset({"load"}), "leasttime": frozenset({"load"}),
    "hrw": frozenset({"session"}),
}  # fmt: skip
DEFAULT: Final = "wrr"
COOKIE: Final = "llm_session"


LABEL = re.compile(r"traefik\.http\.services\.([\w@-]+)\.loadbalancer\.([\w.]+)", re.IGNORECASE)
MAX_LABELS: Final = 1000


class TraefikReader:
    """`http.services.*.loadBalancer` of Traefik's file provider, and labels of compose services."""

    name = "traefik"
    kinds = ()
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        written = all(key.search(source.text) for key in _KEYS) or LABEL.search(source.text)
        return bool(written) and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, _ = read_yaml(source)
        return ReadResult(
            routers=tuple(router for at, root in enumerate(roots)
                          for found in (_routers, _labelled)
                          for router in found(root, f"{at}:"))
        )  # fmt: skip


def _routers(root: Node, path: str) -> Iterator[Router]:
    services = root.get("http", "services")
    rows = [] if services is None or services.kind != "map" else list(services.entries())
    found = []
    for key, service in rows:
        node = service.get("loadBalancer") or service.get("loadbalancer")
        if node is not None and node.kind == "map" and node.get("servers") is not None:
            found.append((key, node))
    for key, node in found:
        urls = list(_urls(node))
        engines = serve_models((key.value, *urls))
        yield _router(root, key, node, f"{path}/http/services/{key.value}", urls, engines)


def _urls(node: Node) -> Iterator[str]:
    servers = node.get("servers")
    for item in servers.items if servers is not None else ():
        if (url := item.string("url")) is not None:
            yield url


def _router(root: Node, key: Node, node: Node, path: str, urls: list[str], engines: bool) -> Router:
    stated = node.get("strategy")
    word = stated.value.lower() if stated is not None else DEFAULT
    sticky = node.pair("sticky") is not None
    looks = AWARE.get(word)
    origin = stated.origin if stated is not None else key.origin
    count = len(urls)
    return Router(
        id=f"{root.source.name}#{path}",
        name=key.value,
        kind="traefik",
        file=root.source.name,
        path=path,
        origin=key.origin,
        policy=Known.of(word, origin, how="stated" if stated is not None else "defaulted"),
        explicit=stated is not None,
        awareness=(looks or frozenset()) | ({"session"} if sticky else frozenset()),
        sure=looks is not None or sticky,
        chooses="one" if count == 1 else "replicas",
        targets=tuple(urls),
        choices=Known.of(count, how="derived"),
        engines=engines,
        anchors=(key.span,),
        offers=() if sticky or word == "hrw" else (
            Offer(
                cures="routing", title="`sticky.cookie`, for clients that keep cookies",
                delta={"routing": "session-hash", "session_key": COOKIE},
                site=MadeSite(lambda _: add_entry(node, "sticky", {"cookie": {"name": COOKIE}})),
            ),
        ),
    )  # fmt: skip


# -------------------------------------------------------------------------------------- labels


def _labelled(root: Node, path: str) -> Iterator[Router]:
    """Services of a compose file that Traefik is told of by their labels.

    Several that name one service of Traefik's are its servers.
    """
    services = root.get("services")
    found: dict[str, list[tuple[Node, Node, dict[str, Node], str]]] = {}
    for key, service in services.entries() if services is not None else ():
        labels = service.get("labels") if service.kind == "map" else None
        if labels is None:
            continue
        said: dict[str, Node] = {}
        name, strategy = "", ""
        for word, value, node in list(_labels(labels))[:MAX_LABELS]:
            if (match := LABEL.fullmatch(word)) is not None:
                name = match[1]
                said[match[2].lower()] = node
                strategy = value.lower() if match[2].lower() == "strategy" else strategy
        if name:
            found.setdefault(name, []).append((key, labels, said, strategy))
    for name, servers in found.items():
        first = servers[0][0].value
        yield _of_labels(root, name, servers, f"{path}/services/{first}")


def _labels(labels: Node) -> Iterator[tuple[str, str, Node]]:
    for key, value in labels.entries():
        yield key.value, value.value, key
    for item in labels.items:
        word, _, text = item.value.partition("=")
        yield word, text, item


def _of_labels(
    root: Node, name: str, servers: list[tuple[Node, Node, dict[str, Node], str]], path: str
) -> Router:
    key = servers[0][0]
    said = {part: node for each in reversed(servers) for part, node in each[2].items()}
    sticky = any(part.startswith("sticky") for part in said)
    word = next((each[3] for each in servers if each[3]), DEFAULT)
    looks = AWARE.get(word)
    stated = said.get("strategy")
    origin = stated.origin if stated is not None else key.origin
    label = f"traefik.http.services.{name}.loadbalancer.sticky.cookie"

    def made(_value: str) -> list[Edit] | Refusal:
        edits: list[Edit] = []
        for _, labels, _, _ in servers:  # all of them have to say the same
            written = (
                insert_items(labels, labels.items[-1], [f"{label}=true"])
                if labels.kind == "list"
                else add_entry(labels, label, '"true"')
            )
            if isinstance(written, Refusal):
                return written
            edits += written
        return edits

    offer = Offer(
        cures="routing", title="`sticky.cookie`, for clients that keep cookies",
        delta={"routing": "session-hash"}, site=MadeSite(made),
    )  # fmt: skip
    count: Known[int] = Known.of(len(servers), how="derived")
    return Router(
        id=f"{root.source.name}#{path}/labels",
        name=name,
        kind="traefik",
        file=root.source.name,
        path=f"{path}/labels",
        origin=key.origin,
        policy=Known.of(word, origin, how="stated" if stated is not None else "defaulted"),
        explicit=stated is not None,
        awareness=(looks or frozenset()) | ({"session"} if sticky else frozenset()),
        sure=looks is not None or sticky,
        targets=tuple(each[0].value for each in servers),
        choices=count if len(servers) > 1 else Known.unset(),
        anchors=(key.span,),
        offers=() if sticky or word == "hrw" else (offer,),
    )
