"""Kubernetes objects that lead requests to Services: Ingress, HTTPRoute, DestinationRule, and the
router of Kthena.

Facts of routing, section 1. ingress-nginx sends to the pods of a Service by itself, unless it is
told to send to the Service (`service-upstream`); so does Istio where a DestinationRule says how.
Other controllers mostly do so too: where the class of an Ingress names one, a route keeps sessions,
or a policy is attached to it, nobody knows who chooses, and the router is not `sure`; of Envoy
Gateway's policy the type is read. An HTTPRoute of no such words is taken to leave the choice to the
Service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from shardlint.known import Known
from shardlint.links import GATEWAY, POLICY, ROUTE
from shardlint.plan import Offer, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import MadeSite
from shardlint.readers.inner_yaml import inner
from shardlint.readers.keyed import PathSite
from shardlint.readers.named_objects import NamedObjects
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.source import Edit, Source, Span

_KIND = re.compile(
    r"kind\W{1,4}(?:Ingress|HTTPRoute|DestinationRule|ModelRoute|IngressRoute|"
    r"\w*Policy)\b|routerConfiguration"
)
BALANCING: Final = re.compile(r"\w*(?:Backend|LB|Upstream|LoadBalanc|(?<!Client)Traffic)\w*Policy")
"""Policies that may say how the pods of a Service are chosen: BackendTrafficPolicy and its like."""

CLASS: Final = "kubernetes.io/ingress.class"
NGINX: Final = "nginx.ingress.kubernetes.io"
ISTIO: Final[dict[str, frozenset[str]]] = {
    "LEAST_REQUEST": frozenset({"load"}), "LEAST_CONN": frozenset({"load"}),
    "ROUND_ROBIN": frozenset(), "RANDOM": frozenset(), "UNSPECIFIED": frozenset({"load"}),
}  # fmt: skip
LOAD: Final = frozenset({"load"})
ENVOY_GATEWAY: Final = "gateway.envoyproxy.io"
HASH: Final = "ConsistentHash"
ENVOY_TYPES: Final[dict[str, frozenset[str]]] = {
    "RoundRobin": frozenset(), "Random": frozenset(), "LeastRequest": LOAD,
    HASH: frozenset({"session"}),
}  # fmt: skip
"""Types of BackendTrafficPolicy (gateway.envoyproxy.io, tasks/traffic/load-balancing)."""

KTHENA: Final[dict[str, frozenset[str]]] = {
    "least-request": frozenset({"load"}), "gpu-usage": frozenset({"load"}),
    "least-latency": frozenset({"load"}), "prefix-cache": frozenset({"prefix"}),
    "kvcache-aware": frozenset({"prefix", "kv"}), "random": frozenset(),
    "lora-affinity": frozenset(),
}  # fmt: skip
HEADER: Final = "x-session-id"
VARIABLE: Final = "$http_x_session_id"
"""The header as nginx names it."""


class RoutesReader:
    """Ingress, HTTPRoute, DestinationRule; ModelRoute and the scheduler of Kthena's router."""

    name = "routes"
    kinds = ()
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        return ReadResult(routers=tuple(_routers(node, path, context)))


def _routers(node: Node, path: str, context: ReadContext) -> Iterator[Router]:
    group, kind = kind_of(node)
    spec = node.get("spec")
    if kind == "ConfigMap":
        yield from _kthena(node, path)
    if spec is None or spec.kind != "map":
        return
    if kind == "Ingress" and group == "networking.k8s.io":
        yield _ingress(node, spec, path)
    elif kind == "HTTPRoute" and group == "gateway.networking.k8s.io":
        yield _route(node, spec, path)
    elif kind == "DestinationRule" and group == "networking.istio.io":
        yield from _destination(node, spec, path, context)
    elif kind == "IngressRoute" and group in ("traefik.io", "traefik.containo.us"):
        named = [name for route in _rows(spec, "routes") for item in _rows(route, "services")
                 if (name := item.string("name")) is not None]  # fmt: skip
        yield _open(node, path, "ingress", tuple(dict.fromkeys(named)))
    elif BALANCING.fullmatch(kind) and (targets := tuple(_attached(spec))):
        found = spec.get("loadBalancer") if group == ENVOY_GATEWAY else None
        if found is not None and found.kind == "map" and found.get("type") is not None:
            yield _envoy_gateway(node, found, path, targets)
        else:
            yield _open(node, path, POLICY, targets)
    elif kind == "ModelRoute" and group == "networking.serving.volcano.sh":
        policy = Known.of("none", node.origin, how="defaulted")
        yield _router(node, path, "kthena-modelroute", policy, chooses="elsewhere")


def _router(node: Node, path: str, kind: str, policy: Known[str], **more: Any) -> Router:
    owner = Owner(node=node, kind=kind, path=path)
    name = node.get("metadata", "name")
    return Router(
        id=f"{node.source.name}#{path}",
        name="/".join(part for part in (owner.namespace, owner.name) if part) or kind,
        kind=kind,
        file=node.source.name,
        path=path,
        origin=name.origin if name is not None else node.origin,
        namespace=owner.namespace,
        policy=policy,
        anchors=(node.span,),
        suppressed=owner.suppressed(),
        **more,
    )


def _open(node: Node, path: str, kind: str, targets: tuple[str, ...]) -> Router:
    """What may choose among pods by itself, in a way that is not read."""
    policy = Known.of("none", node.origin, how="defaulted")
    return _router(node, path, kind, policy, chooses="elsewhere", sure=False, targets=targets)


def _envoy_gateway(node: Node, found: Node, path: str, targets: tuple[str, ...]) -> Router:
    """Envoy Gateway sends to the pods of a Service, in the way that the policy says."""
    stated = found.pair("type")
    assert stated is not None
    word = stated[1].value
    by_address = word == HASH and found.string("consistentHash", "type") == "SourceIP"
    looks = ENVOY_TYPES.get(word)
    return _router(
        node, path, POLICY,
        Known.of("useSourceIp" if by_address else word, stated[1].origin),
        explicit=True, awareness=looks or frozenset(), sure=looks is not None, targets=targets,
        offers=tuple(_hashed_header(node, found, stated)) if looks == frozenset() or looks == LOAD
        else (),
    )  # fmt: skip


def _hashed_header(node: Node, found: Node, stated: tuple[Node, Node]) -> Iterator[Offer]:
    """A hash of a header in place of the type."""
    key, value = stated
    if len(found.pairs) != 1 or key.alias or value.alias or key.style is not None:
        return
    line = node.source.text.rfind("\n", 0, key.span.start) + 1
    between = ", " if found.flow else f"\n{' ' * (key.span.start - line)}"
    words = f"type: {HASH}{between}consistentHash: {{type: Header, header: {{name: {HEADER}}}}}"
    span = Span(key.span.start, value.span.end)
    yield Offer(
        cures="routing", site=MadeSite(lambda _: [Edit(node.source.name, span, words)]),
        title=f"`{HASH}` of the header {HEADER}, which your clients send",
        delta={"routing": "session-hash", "session_key": HEADER},
    )  # fmt: skip


def _attached(spec: Node) -> Iterator[str]:
    """What a policy is for: a route, all routes of a gateway, or a Service."""
    for ref in (spec.get("targetRef"), *_rows(spec, "targetRefs")):
        name = ref.string("name") if ref is not None else None
        kind = (ref.string("kind") or "").lower() if ref is not None else ""
        if name is not None and f".{kind}" in (ROUTE, GATEWAY):
            yield f"{name}.{kind}"
        elif name is not None and kind == "service":
            yield name


# ------------------------------------------------------------------------------------- ingress


def _ingress(node: Node, spec: Node, path: str) -> Router:
    notes = node.get("metadata", "annotations")
    said = {key.value.partition("/")[2]: value for key, value in (notes.entries() if notes else ())
            if key.value.startswith(f"{NGINX}/")}  # fmt: skip
    targets = tuple(dict.fromkeys(_services(spec)))
    passes = "service-upstream" in said and said["service-upstream"].value == "true"
    stated = spec.string("ingressClassName") or node.string("metadata", "annotations", CLASS)
    named = stated == "nginx"
    if passes or not (said or named):
        policy = Known.of("none", node.origin, how="defaulted")
        offers = tuple(_to_pods(node, notes)) if passes else ()
        return _router(node, path, "ingress", policy, chooses="elsewhere", targets=targets,
                       explicit=passes, sure=passes or not stated, offers=offers)  # fmt: skip
    policy, awareness, explicit = _nginx(said)
    return _router(
        node, path, "ingress-nginx", policy, targets=targets, awareness=awareness,
        explicit=explicit, offers=() if awareness & {"session"} else (_by_header(node),),
    )  # fmt: skip


def _services(spec: Node) -> Iterator[str]:
    """The Services that an Ingress names."""
    for item in spec.walk():
        name = item.string("service", "name") if item.kind == "map" else None
        if name is not None:
            yield name


def _nginx(said: dict[str, Node]) -> tuple[Known[str], frozenset[str], bool]:
    for note, word in (("upstream-hash-by", "hash"), ("affinity", "cookie")):
        if note in said and said[note].value:
            key = said[note].value
            if note == "upstream-hash-by" and "remote_addr" in key:
                word = "client-ip"
            sticky = "request_uri" not in key
            return Known.of(word, said[note].origin), frozenset({"session"} if sticky else ()), True
    if "load-balance" in said:
        word = said["load-balance"].value
        aware = frozenset({"load"}) if word == "ewma" else frozenset[str]()
        return Known.of(word, said["load-balance"].origin), aware, True
    return Known.of("round_robin", how="defaulted"), frozenset(), False


def _to_pods(node: Node, notes: Node | None) -> Iterator[Offer]:
    """A hash of a header among the pods in place of the word that sends to the Service."""
    pair = notes.pair(f"{NGINX}/service-upstream") if notes is not None else None
    if pair is None or pair[0].alias or pair[1].alias:
        return
    span = Span(pair[0].span.start, pair[1].span.end)
    words = f'{NGINX}/upstream-hash-by: "{VARIABLE}"'
    quoted = pair[0].style is not None
    if quoted or node.source.text[span.start] in "\"'":
        words = f'"{NGINX}/upstream-hash-by": "{VARIABLE}"'
    yield Offer(
        cures="skew", site=MadeSite(lambda _: [Edit(node.source.name, span, words)]),
        title=f"`upstream-hash-by: {VARIABLE}` in place of `service-upstream`: the Ingress chooses"
        " a pod by the header that your clients send",
        delta={"routing": "session-hash", "session_key": HEADER},
    )  # fmt: skip


def _by_header(node: Node) -> Offer:
    note = f"{NGINX}/upstream-hash-by"
    return Offer(
        cures="routing", value=f'"{VARIABLE}"',
        title=f"`{note}: {VARIABLE}`, of the header that your clients send",
        delta={"routing": "session-hash", "session_key": HEADER},
        site=PathSite(node, ("metadata", "annotations", note)),
    )  # fmt: skip


# --------------------------------------------------------------------------------------- routes


def _route(node: Node, spec: Node, path: str) -> Router:
    """A route with its Services and pools; who carries it out decides how they are chosen."""
    targets = [
        f"{name}.inferencepool" if backend.string("kind") == "InferencePool" else name
        for rule in _rows(spec, "rules")
        for backend in _rows(rule, "backendRefs")
        if (name := backend.string("name")) is not None
    ]
    policy = Known.of("none", node.origin, how="defaulted")
    own = node.string("metadata", "name")
    parents = [item.string("name") for item in _rows(spec, "parentRefs")]
    names = [f"{own}{ROUTE}"] * bool(own) + [f"{name}{GATEWAY}" for name in parents if name]
    keeps = any(item.kind == "map" and item.get("sessionPersistence") for item in spec.walk())
    return _router(node, path, "gateway", policy, chooses="elsewhere", names=tuple(names),
                   targets=tuple(dict.fromkeys(targets)), sure=not keeps)  # fmt: skip


def _rows(node: Node, key: str) -> list[Node]:
    found = node.get(key)
    return found.items if found is not None else []


def _destination(node: Node, spec: Node, path: str, context: ReadContext) -> Iterator[Router]:
    """What Istio does for a host, else for the first port or subset that has its own."""
    host = spec.string("host")
    targets = (host,) if host is not None and placeholder(host) is None else ()
    apart = _by_port(node, spec, host or "", context)
    found = apart[0] if apart else spec.get("trafficPolicy", "loadBalancer")
    found = found or (next(_of_subsets(spec), None) if not apart else None)
    if len(apart) > 1:
        policy: Known[str] = Known.unknown("its ports have balancers of their own", spec.origin)
        yield _router(node, path, "istio", policy, sure=False, targets=targets)
    elif found is None or found.kind != "map":
        policy = Known.of("none", node.origin, how="defaulted")
        yield _router(node, path, "istio", policy, chooses="elsewhere", targets=targets)
    else:
        policy, awareness, sure = _istio(found)
        chooses = "elsewhere" if policy.only == "PASSTHROUGH" else "replicas"
        yield _router(
            node, path, "istio", policy, explicit=True, awareness=awareness, sure=sure,
            chooses=chooses, targets=targets, offers=tuple(_consistent(node, found, awareness)),
        )  # fmt: skip


def _by_port(node: Node, spec: Node, host: str, context: ReadContext) -> list[Node | None]:
    """The balancers that the port of the host may have, where ports have their own.

    A port with settings of its own inherits none, also where it does not say how to balance.
    """
    rows = {item.string("port", "number"): item.get("loadBalancer")
            for item in _rows(spec.get("trafficPolicy") or spec, "portLevelSettings")}  # fmt: skip
    whole = spec.get("trafficPolicy", "loadBalancer")
    if not any(row is not None for row in rows.values()) and whole is None:
        return []
    namespace = node.string("metadata", "namespace")
    service = NamedObjects("Service", node.source, namespace, context).get(host.split(".")[0])
    ports = _rows(service.get("spec") or service, "ports") if service is not None else []
    numbers = [item.string("port") for item in ports]
    if numbers:
        found = [rows.get(number, whole) for number in numbers]
    else:
        found = [*rows.values(), *([whole] if whole is not None else ())]
    return [item for at, item in enumerate(found) if item not in found[:at]] if rows else []


def _of_subsets(spec: Node) -> Iterator[Node]:
    """What is stated for subsets, and for single ports of them."""
    for item in _rows(spec, "subsets"):
        policy = item.get("trafficPolicy")
        if policy is None or policy.kind != "map":
            continue
        for part in (policy, *_rows(policy, "portLevelSettings")):
            if (found := part.get("loadBalancer")) is not None:
                yield found


def _istio(found: Node) -> tuple[Known[str], frozenset[str], bool]:
    hashed, simple = found.get("consistentHash"), found.get("simple")
    if hashed is not None and hashed.kind == "map":
        keys = {key.value for key, _ in hashed.entries()}
        word = "useSourceIp" if "useSourceIp" in keys else "consistentHash"
        named = keys & {"httpHeaderName", "httpCookie", "useSourceIp", "httpQueryParameterName"}
        return Known.of(word, hashed.origin), frozenset({"session"} if named else ()), bool(named)
    if simple is None:
        return Known.of("LEAST_REQUEST", found.origin, how="defaulted"), frozenset({"load"}), True
    looks = ISTIO.get(simple.value)
    return Known.of(simple.value, simple.origin), looks or frozenset(), looks is not None


def _consistent(node: Node, found: Node, awareness: frozenset[str]) -> Iterator[Offer]:
    """A hash of a header in place of the word."""
    pair = found.pair("simple")
    if "session" in awareness or pair is None or len(found.pairs) != 1:
        return
    key, value = pair
    if key.alias or value.alias or key.style is not None:
        return

    def made(_value: str) -> list[Edit]:
        span = Span(key.span.start, value.span.end)
        return [Edit(node.source.name, span, f"consistentHash: {{httpHeaderName: {HEADER}}}")]

    yield Offer(
        cures="routing", site=MadeSite(made),
        title=f"`consistentHash` of the header {HEADER}, which your clients send",
        delta={"routing": "session-hash", "session_key": HEADER},
    )  # fmt: skip


# --------------------------------------------------------------------------------------- kthena


def _kthena(node: Node, path: str) -> Iterator[Router]:
    """The scheduler of the router: plugins that score, with their weights."""
    text = node.get("data", "routerConfiguration")
    config = inner(text) if text is not None else None
    listed = config.get("scheduler", "plugins", "Score", "enabled") if config is not None else None
    if listed is None or listed.kind != "list":
        return
    names = [item.string("name") or item.value for item in listed.items]
    weights = [item.string("weight") for item in listed.items]
    counted = [name for name, weight in zip(names, weights, strict=True) if weight != "0"]
    looks = [KTHENA.get(name) for name in counted]
    yield _router(
        node, f"{path}/data/routerConfiguration", "kthena-router",
        Known.of("+".join(counted), listed.origin), explicit=True,
        awareness=frozenset().union(*(item for item in looks if item is not None)),
        sure=None not in looks, engines=True,
    )  # fmt: skip
