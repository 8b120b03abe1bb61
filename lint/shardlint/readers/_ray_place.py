"""Where Ray Serve starts an engine: the pods of a cluster, and how many replicas there are."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from shardlint.known import Known
from shardlint.plan import Device, Fleet, Placement, Site
from shardlint.platforms import kuberay
from shardlint.plugins import ReadContext
from shardlint.readers._vllm_options import OPTIONS
from shardlint.readers.keyed import KeySite
from shardlint.readers.plans import Host
from shardlint.readers.pods import Owner, host_of
from shardlint.readers.ray_cluster import Cluster, Group
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Span

KEYS = MappingProxyType(
    {field: name.removeprefix("--").replace("-", "_") for field, name in OPTIONS.items()}
)
"""Fields of a plan by the names of vLLM's own arguments."""


@record
class Place:
    """One configuration of Ray Serve, and the cluster that it runs on where that is known."""

    root: Node
    path: str
    anchors: tuple[Span, ...]
    owner: Owner | None = None
    cluster: Cluster | None = None

    def host(
        self, app: Node, at: Node, path: str, group: Group | None, context: ReadContext
    ) -> Host:
        """What surrounds an engine that Ray Serve starts in the pods of a group."""
        title = app.string("name") or "application"
        owner = self.owner
        parts = (owner.namespace, owner.name) if owner is not None else (None, None)
        name = "/".join(part for part in (*parts, title) if part)
        if owner is None or group is None or group.container is None:
            host = Host(
                source=self.root.source, kind="ray-serve", name=name, path=path, origin=at.origin
            )
        else:
            placed = replace(owner, placement=group.shm(), remarks=tuple(group.remarks()))
            host = host_of(placed, group.spec, group.container, path, context)
        return replace(
            host,
            kind=owner.kind if owner is not None else "ray-serve",
            name=name,
            origin=at.origin,
            anchors=(*self.anchors, app.span),
            nodes=(),
            labels=MappingProxyType({}),
            namespace=owner.namespace if owner is not None else None,
            suppressed=owner.suppressed() if owner is not None else host.suppressed,
            platform="kuberay" if owner is not None else "ray-serve",
        )

    def placement(self, placement: Placement, groups: tuple[Group, ...]) -> Placement:
        """Ray, and not the scheduler of the pods, finds places for the ranks."""
        cluster = self.cluster
        if cluster is None:
            return placement
        kinds = {group.gpus.origin for group in groups}
        return replace(
            placement,
            pods_per_group=cluster.nodes(),
            gpus_per_pod=cluster.each(groups),
            capacity=cluster.capacity() if kinds else Known.unset(),
            device_ids=Known.unset(),
            scheduled=False,
        )

    def renewed(self, fleet: Fleet) -> Fleet:
        """A RayService is updated by a second cluster, unless it says otherwise."""
        owner = self.owner
        if owner is None or self.cluster is None or owner.kind != "RayService":
            return fleet
        strategy = owner.node.get("spec", "upgradeStrategy")
        kind = strategy.get("type") if strategy is not None else None
        if kind is not None and kind.value != kuberay.NEW_CLUSTER:
            return fleet
        at = kind if kind is not None else (owner.node.get("kind") or owner.node)
        second = Known.of(1, at.origin, how="derived")
        return replace(fleet, surge=second, renewed=True, at_once="`upgradeStrategy: {type: None}`")

    def groups(self, wanted: Known[Device], context: ReadContext) -> tuple[Group, ...]:
        """Groups with devices; of several, those whose card can be the one that is asked for."""
        found = self.cluster.with_gpus if self.cluster is not None else ()
        names = {device.name for device in wanted.values}
        if len(found) < 2 or not names or self.owner is None:
            return found
        fit = []
        for group in found:
            if group.container is None:
                return found
            host = host_of(self.owner, group.spec, group.container, "", context)
            cards = {device.name for device in host.placement.gpu.values}
            if not cards or cards & names:
                fit.append(group)
        return tuple(fit) or found


def image_of(container: Node | None) -> Known[str]:
    node = container.get("image") if container is not None else None
    if node is None:
        return Known.unset()
    reason = placeholder(node.value)
    return Known.unknown(reason, node.origin) if reason else node.text().known()


def fleet_of(deployment: Node | None) -> tuple[Fleet, dict[str, Site]]:
    """Replicas of a deployment: stated, or the bounds between which Serve scales."""
    if deployment is None:
        return Fleet(whole=True), {}
    sites: dict[str, Site] = {}
    scaling = deployment.get("autoscaling_config")
    if (stated := deployment.get("num_replicas")) is not None:
        sites["replicas"] = KeySite(deployment, "num_replicas")
        if scaling is None:
            return Fleet(replicas=integer(stated), whole=True), sites
    if scaling is None or scaling.kind != "map":
        return Fleet(whole=True), sites
    low, high = (integer(scaling.get(key)) for key in ("min_replicas", "max_replicas"))
    sites |= {
        "replicas": KeySite(scaling, "min_replicas"),
        "max_replicas": KeySite(scaling, "max_replicas"),
    }
    return Fleet(replicas=low, max_replicas=high, whole=True), sites
