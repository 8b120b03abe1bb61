"""AIBrix: RayClusterFleet, StormService with its roles, PodSet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from shardlint.known import Known, Text, combine
from shardlint.plan import Fleet, Remark, ServingPlan, Site
from shardlint.platforms import aibrix
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.keyed import KeySite
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner, pod_plans
from shardlint.readers.ray_cluster import Cluster
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.source import Source

GROUP = "orchestration.aibrix.ai"
TEMPLATE = ("spec", "template", "spec")
ROLES = re.compile(r"prefill|decode|encode")

_API = re.compile(r"orchestration\.aibrix\.ai/")


class AibrixReader:
    """Objects of the group orchestration.aibrix.ai; its Deployments are read as such."""

    name = "aibrix"
    kinds = ("RayClusterFleet", "StormService", "PodSet")
    look: bytes | None = b"orchestration.aibrix.ai/"

    def accepts(self, source: Source) -> bool:
        return _API.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        return ReadResult(plans=tuple(_plans(node, path, context)))


def _plans(node: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    group, kind = kind_of(node)
    if group != GROUP:
        return
    if kind == "RayClusterFleet":
        yield from _fleet(node, path, context)
    elif kind == "StormService":
        roles = node.get(*TEMPLATE, "roles")
        for index, role in enumerate(roles.items if roles is not None else ()):
            if role.kind == "map":
                yield from _role(node, role, path, index, context)
    elif kind == "PodSet":
        yield from _set(node, path, context)


def _fleet(node: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    """Clusters of KubeRay that are kept like the pods of a Deployment."""
    spec = node.get(*TEMPLATE)
    if spec is None or spec.kind != "map":
        return
    owner = Owner(
        node=node,
        kind="RayClusterFleet",
        path=path,
        platform="aibrix",
        fleet=Fleet(replicas=integer(node.get("spec", "replicas")), whole=True),
        sites=_replicas(node.get("spec")),
    )
    below = "".join(f"/{key}" for key in TEMPLATE)
    yield from Cluster(spec, path + below, TEMPLATE).plans(owner, context)


def _replicas(node: Node | None) -> Mapping[str, Site]:
    return {"replicas": KeySite(node, "replicas")} if node is not None and node.pairs else {}


def _role(
    node: Node, role: Node, path: str, index: int, context: ReadContext
) -> Iterator[ServingPlan]:
    """The pods of one role; with a group size, several of them make up one engine."""
    spec = role.get("template", "spec")
    if spec is None or spec.kind != "map":
        return
    services = integer(node.get("spec", "replicas"))
    roles = integer(role.get("replicas"))
    size = integer(role.get("podGroupSize"))
    name = role.string("name") or ""
    pod = (*TEMPLATE, "roles", index, "template")
    owner = Owner(
        node=node,
        kind="StormService",
        path=path,
        pod=pod,
        role=name if ROLES.search(name) else None,
        platform="aibrix",
        fleet=Fleet(replicas=_product(services, roles), whole=True),
        nodes=size,
        env=_variables(role, roles=True, size=role.get("podGroupSize")),
        remarks=tuple(_dropped(spec, roles=True, groups=_several(size))),
        sites=_replicas(role) if services.only in (None, 1) else {},
    )
    below = "".join(f"/{step}" for step in (*pod, "spec"))
    yield from pod_plans(owner, spec, path + below, context)


def _set(node: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    spec = node.get(*TEMPLATE)
    if spec is None or spec.kind != "map":
        return
    size = node.get("spec", "podGroupSize")
    owner = Owner(
        node=node,
        kind="PodSet",
        path=path,
        pod=TEMPLATE[:-1],
        platform="aibrix",
        fleet=Fleet(whole=True),
        nodes=integer(size),
        env=_variables(node, roles=False, size=size),
        remarks=tuple(_dropped(spec, roles=False, groups=True)),
    )
    below = "".join(f"/{step}" for step in TEMPLATE)
    yield from pod_plans(owner, spec, path + below, context)


def _product(services: Known[int], roles: Known[int]) -> Known[int]:
    if services.is_unset or roles.is_unset:
        return services if roles.is_unset else roles
    return combine(aibrix.replicas, services, roles, how="stated")


def _several(size: Known[int]) -> bool:
    return not size.is_unset and size.only != 1


def _variables(owner: Node, *, roles: bool, size: Node | None) -> Mapping[str, Text]:
    """What the controllers set; the size of a group is the only value that the file tells."""
    groups = _several(integer(size))
    why = "AIBrix sets it for each pod"
    found = {
        name: Text.unknown(owner.origin, f"{name}: {why}")
        for name in aibrix.variables(roles, groups)
    }
    if groups and size is not None:
        found[aibrix.GROUP_SIZE] = size.text()
    return MappingProxyType(found)


def _dropped(spec: Node, *, roles: bool, groups: bool) -> Iterator[Remark]:
    names = aibrix.variables(roles, groups)
    containers = spec.get("containers")
    for container in containers.items if containers is not None else ():
        env = container.get("env")
        for item in env.items if env is not None else ():
            if (name := item.string("name")) in names:
                yield Remark(
                    kind="ignored",
                    at=item.origin,
                    message=f"AIBrix sets {name} itself and drops this value",
                    severity="warning",
                )
