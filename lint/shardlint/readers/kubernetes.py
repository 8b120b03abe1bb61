"""Kubernetes workloads and Services, and fragments of pod specs; YAML or JSON, many documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from shardlint.known import Known, combine
from shardlint.plan import Fleet, Router, ServingPlan, Site
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._scalers import scalers_of
from shardlint.readers.keyed import KeySite
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner, container_plans, pod_plans, string_map
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.source import Source

POD_SPECS: Mapping[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
GROUPS = ("apps", "batch", "")
REPLICATED = ("Deployment", "StatefulSet", "ReplicaSet")

_KEYS = re.compile(r"""^[ \t-]*["']?(?:kind|containers|command|args)["']?[ \t]*:""", re.MULTILINE)
_KEYS_INLINE = re.compile(r"""["'{,][ \t]*["']?(?:kind|containers|command|args)["']?[ \t]*:""")


class KubernetesReader:
    """Pod, Deployment, StatefulSet, Job, CronJob, Service, InferencePool, List; fragments."""

    name = "kubernetes"
    kinds = (
        "Pod",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
        "fragment of a pod",
    )
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        found = _KEYS.search(source.text) or _KEYS_INLINE.search(source.text)
        return found is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        return ReadResult(
            plans=tuple(_plans(node, path, context)),
            routers=tuple(_routers(node, path)),
            scalers=tuple(scalers_of(node, path)),
        )


# -------------------------------------------------------------------------------------- plans


def _plans(node: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    group, kind = kind_of(node)
    if not kind:
        yield from _fragment(node, path, context)
    elif kind in POD_SPECS and group in GROUPS:
        spec = node.get(*POD_SPECS[kind])
        if spec is not None and spec.kind == "map":
            spec_path = path + "".join(f"/{step}" for step in POD_SPECS[kind])
            for plan in pod_plans(owner_of(node, kind, path), spec, spec_path, context):
                yield _grouped(plan, kind)


def owner_of(node: Node, kind: str, path: str) -> Owner:
    replicas = integer(node.get("spec", "replicas"))
    return Owner(
        node=node,
        kind=kind,
        path=path,
        pod=POD_SPECS[kind][:-1],
        fleet=Fleet(replicas=replicas, surge=_surge(node, kind, replicas), at_once=AT_ONCE)
        if kind in REPLICATED
        else Fleet(),
        placement={"ordered": _ordered(node)} if kind == "StatefulSet" else {},
        sites=_count_site(node, kind),
    )


def _count_site(node: Node, kind: str) -> Mapping[str, Site]:
    """The replicas of a Deployment; the pods of a StatefulSet may be parts of one engine."""
    spec = node.get("spec")
    if kind == "StatefulSet" or spec is None or spec.get("replicas") is None:
        return {}
    return {"replicas": KeySite(spec, "replicas")}


def _ordered(node: Node) -> Known[bool]:
    """A pod starts when the one before it is ready, unless all may start at once."""
    policy = node.get("spec", "podManagementPolicy")
    if policy is None:
        kind = node.get("kind")
        return Known.of(True, kind.origin if kind is not None else None, how="defaulted")
    return policy.text().known().map(lambda value: value == "OrderedReady")


def _surge(node: Node, kind: str, replicas: Known[int]) -> Known[int]:
    """25 % each where nothing is stated."""
    if kind != "Deployment":
        return Known.unset()
    return surge(node.get("spec", "strategy"), replicas)


QUARTER = "25%"
AT_ONCE = "maxSurge: 0 and maxUnavailable: 1"


def surge(
    strategy: Node | None,
    replicas: Known[int],
    key: str = "rollingUpdate",
    defaults: tuple[str, str] = (QUARTER, QUARTER),
) -> Known[int]:
    """Pods, or groups of pods, that an update starts while no old one may stop.

    `defaults` are maxSurge and maxUnavailable where they are not stated below `key`: those of a
    Deployment.
    """
    if strategy is not None and strategy.string("type") == "Recreate":
        return Known.of(0, strategy.origin)
    count = replicas.or_default(Known.of(1, how="defaulted"))
    part = strategy.get(key) if strategy is not None else None
    more = part.get("maxSurge") if part is not None else None
    fewer = part.get("maxUnavailable") if part is not None else None
    shares = _share(more, defaults[0]), _share(fewer, defaults[1])
    started = combine(lambda share, of: _rounded(share, of, up=True), shares[0], count)
    spare = combine(lambda share, of: _rounded(share, of, up=False), shares[1], count)
    found = combine(lambda extra, gone: extra if not gone else 0, started, spare)
    return found.at(more.origin if more is not None else replicas.origin)


def _share(node: Node | None, default: str) -> Known[str]:
    if node is None:
        return Known.of(default, how="defaulted")
    if not PODS.fullmatch(node.value):
        why = placeholder(node.value) or f"{node.value!r} is no number of pods"
        return Known.unknown(why, node.origin)
    return node.text().known()


PODS = re.compile(r"(\d{1,9})(%?)")
"""A number of pods, or a percentage of them."""


def _rounded(share: str, count: int, *, up: bool) -> int:
    """So many pods, as Kubernetes rounds a percentage of them."""
    match = PODS.fullmatch(share)
    assert match is not None
    number = int(match[1])
    if not match[2]:
        return number
    return -(-number * count // 100) if up else number * count // 100


def _fragment(node: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    """A map with the keys of a container or of a pod spec and no kind."""
    if node.get("services") is not None or node.get("apiVersion") is not None:
        return
    owner = Owner(node=node, kind="k8s-fragment", path=path, whole=False)
    containers = node.get("containers")
    if containers is not None and containers.kind == "list":
        yield from pod_plans(owner, node, path, context)
    elif _is_container(node):
        yield from container_plans(owner, None, node, path, context)


def _is_container(node: Node) -> bool:
    """An image that is put together from parts belongs to the values of a chart."""
    image = node.get("image")
    if image is not None and image.kind == "map":
        return False
    lists = [node.get(key) for key in ("command", "args")]
    return any(item is not None and item.kind == "list" for item in lists)


def _grouped(plan: ServingPlan, kind: str) -> ServingPlan:
    """With --nnodes, the pods of one StatefulSet are the nodes of one engine."""
    asked, fleet = plan.layout.nnodes, plan.fleet
    if kind == "StatefulSet":
        plan = replace(plan, placement=replace(plan.placement, pods=fleet.replicas))
        fleet = replace(fleet, replicas=_groups(fleet.replicas, asked))
    if (asked.only or 1) < 2:
        return replace(plan, fleet=fleet)
    return replace(plan, fleet=fleet, placement=replace(plan.placement, pods_per_group=asked))


def _groups(pods: Known[int], size: Known[int]) -> Known[int]:
    """How many engines of `size` pods there are, if that comes out even."""
    if size.is_unset or pods.only is None:
        return pods
    count, nodes = pods.only, size.only
    if nodes is None:
        why = f"how many pods one engine has is not decided: {size.reason}"
        return Known.unknown(why, pods.origin)
    if nodes < 2:
        return pods
    even = pods.map(lambda count: count // nodes)
    return (
        Known.unknown(f"{count} pods are no groups of {nodes}", pods.origin)
        if count % nodes
        else even
    )


# ------------------------------------------------------------------------------------ routers


def _routers(node: Node, path: str) -> Iterator[Router]:
    kind, version = node.string("kind"), node.string("apiVersion") or ""
    selector = string_map(node.get("spec", "selector"))
    headless = node.string("spec", "clusterIP") == "None"  # its clients choose a pod themselves
    served = selector and not headless and not _is_of_metrics(node)
    if kind == "Service" and version == "v1" and served:
        yield _service(node, path, selector)
    elif kind == "InferencePool" and version.startswith("inference.networking."):
        labels = node.get("spec", "selector", "matchLabels")
        selector = string_map(labels) if labels is not None else selector
        if selector:
            pool = _router(node, path, "inferencepool", "ext_proc", {"prefix", "load"}, selector)
            names = [node.string("spec", key, "name") for key in ("endpointPickerRef",
                                                                  "extensionRef")]  # fmt: skip
            yield replace(
                pool,
                picker=next(filter(None, names), ""),
                engines=True,
                names=(f"{node.string('metadata', 'name')}.{kind.lower()}",),
            )


AIBRIX: Final = "model.aibrix.ai/name"
"""The label by which AIBrix's gateway finds the pods of a model, among which it chooses itself."""

METRICS: Final = frozenset({"metrics", "http-metrics", "https-metrics", "prometheus"})
"""Names of ports at which nobody asks a model."""


def _is_of_metrics(node: Node) -> bool:
    ports = node.get("spec", "ports")
    names = {port.string("name") for port in ports.items} if ports is not None else set()
    return bool(names) and names <= METRICS


def _service(node: Node, path: str, selector: Mapping[str, str]) -> Router:
    stated = node.pair("spec")
    affinity = stated[1].pair("sessionAffinity") if stated is not None else None
    sticky = affinity is not None and affinity[1].value == "ClientIP"
    router = _router(
        node, path, "service", "kubernetes-service", {"session"} if sticky else set(), selector
    )
    if AIBRIX in selector or node.get("metadata", "labels", AIBRIX) is not None:
        router = replace(router, sure=False)
    if sticky and affinity is not None:
        policy = Known.of("kubernetes-service", affinity[0].origin)
        router = replace(router, policy=policy, explicit=True)
    return router


def _router(
    node: Node,
    path: str,
    kind: str,
    policy: str,
    awareness: set[str],
    selector: Mapping[str, str],
) -> Router:
    owner = Owner(node=node, kind=kind, path=path)
    name = node.get("metadata", "name")
    origin = name.origin if name is not None else node.origin
    return Router(
        id=f"{node.source.name}#{path}",
        name="/".join(part for part in (owner.namespace, owner.name) if part) or kind,
        kind=kind,
        file=node.source.name,
        path=path,
        origin=origin,
        namespace=owner.namespace,
        policy=Known.of(policy, origin, how="defaulted"),
        awareness=frozenset(awareness),
        selector=selector,
        names=_hosts(owner.name, owner.namespace),
        anchors=(node.span,),
        suppressed=owner.suppressed(),
    )


def _hosts(name: str, namespace: str | None) -> tuple[str, ...]:
    """The names of a Service in the cluster's own DNS."""
    if not name:
        return ()
    inside = f"{name}.{namespace or 'default'}"
    return (name, inside, f"{inside}.svc", f"{inside}.svc.cluster.local")
