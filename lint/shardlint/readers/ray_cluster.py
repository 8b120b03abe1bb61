"""A Ray cluster of KubeRay: its groups of pods, what Ray finds in them, engines they start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from shardlint.known import Known, combine
from shardlint.plan import Device, Fleet, Remark, ServingPlan, Site
from shardlint.platforms import kuberay
from shardlint.plugins import ReadContext
from shardlint.readers._pod import mounts_shm, quantity
from shardlint.readers.edits import JointSite, RefusedSite, TextSite
from shardlint.readers.pods import Owner, added, card, devices, pod_plans
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record

POD = ("template", "spec")


@record
class Group:
    """The head, or one group of workers; `path` are its keys below the cluster's."""

    node: Node
    path: tuple[str | int, ...]
    autoscaled: bool = False

    @property
    def is_head(self) -> bool:
        return self.path[0] == "headGroupSpec"

    @property
    def name(self) -> str:
        return "the head" if self.is_head else self.node.string("groupName") or "a group"

    @property
    def spec(self) -> Node | None:
        found = self.node.get(*POD)
        return found if found is not None and found.kind == "map" else None

    @property
    def container(self) -> Node | None:
        """The first container, which is the one that runs Ray."""
        found = self.node.get(*POD, "containers", 0)
        return found if found is not None and found.kind == "map" else None

    @property
    def place(self) -> kuberay.Place:
        return kuberay.gpus_from(_names(self.node.get("resources")), _names(self._start))

    @property
    def _start(self) -> Node | None:
        return self.node.get("rayStartParams")

    @cached_property
    def gpus(self) -> Known[Any]:
        """Devices that Ray finds in one pod of the group; 0 where the pod asks for none."""
        if self.place == "resources":
            return integer(self._named_gpus())
        if self.place == "rayStartParams":
            return integer(self.node.get("rayStartParams", kuberay.START_GPUS))
        if self.container is None:
            return Known.unknown(f"the pod of {self.name} is not in this file")
        count, _, key = devices(self.container)
        if key is not None and kuberay.PASSED_OVER.fullmatch(key.value.strip()):
            return Known.of(0, key.origin, how="derived")
        nothing = Known.of(0, self.container.origin, how="derived")
        return count.or_default(nothing)

    def card(self, context: ReadContext) -> tuple[Known[str], Known[Device]]:
        """The label by which its pods ask for a card, and the card."""
        if self.container is None:
            return Known.unset(), Known.unset()
        return card(self.spec, devices(self.container)[2], context)

    def _named_gpus(self) -> Node | None:
        found = self.node.get("resources")
        for key, value in found.entries() if found is not None else ():
            if kuberay.OFFERED.fullmatch(key.value):
                return value
        return None

    @cached_property
    def pods(self) -> Known[int]:
        if self.is_head:
            return Known.of(1, self.node.origin)
        return self._times(integer(self.node.get("replicas")))

    @cached_property
    def most(self) -> Known[int]:
        """The pods that there can be: of an autoscaled group those of its upper bound."""
        if self.is_head:
            return self.pods
        bound, replicas = (integer(self.node.get(key)) for key in ("maxReplicas", "replicas"))
        if bound.is_unset and self.autoscaled:
            return Known.unknown(f"how far {self.name} grows is not stated")
        if bound.is_unset or replicas.is_unset:
            return self._times(bound.or_default(replicas))
        return self._times(combine(max, bound, replicas))

    def _times(self, replicas: Known[int]) -> Known[int]:
        """Pods: each replica has as many as it has hosts."""
        hosts = integer(self.node.get("numOfHosts"))
        if replicas.is_unset:
            return Known.unknown(f"the replicas of {self.name} are not stated")
        if hosts.is_unset or hosts.only == 1:
            return replicas
        return combine(lambda one, two: one * two, replicas, hosts, how="stated")

    def sites(self) -> Mapping[str, Site]:
        """The number of devices wherever it stands: limits, requests, what Ray is told."""
        texts: list[Node] = []
        for key in ("limits", "requests"):
            found = self.container.get("resources", key) if self.container is not None else None
            texts += [v for k, v in _entries(found) if kuberay.OFFERED.fullmatch(k.value.strip())]
        told = self._named_gpus() if self.place == "resources" else None
        if self.place == "rayStartParams":
            told = self.node.get("rayStartParams", kuberay.START_GPUS)
        texts += [told] if told is not None else []
        return {"gpus_per_pod": TextSite(tuple(node.text() for node in texts))} if texts else {}

    def shm(self) -> Mapping[str, Any]:
        """Fields of Placement: KubeRay mounts a memory volume where nothing is mounted."""
        if self.container is None or mounts_shm(self.container):
            return {}
        if self.node.get("rayStartParams", "plasma-directory") is not None:
            return {}
        sizes = [self.container.get("resources", key, "memory") for key in ("limits", "requests")]
        found = [quantity(node) if node is not None else Known.unset() for node in sizes]
        if any(not size.is_known and not size.is_unset for size in found):
            return {"shm_bytes": Known.unknown("it follows a memory limit that is not known")}
        size = kuberay.shm_bytes(found[0].only, found[1].only)
        if size is None:
            return {"shm_bytes": Known.unset(), "shm_ample": True}
        origin = (found[0] if found[0].is_known else found[1]).origin
        return {"shm_bytes": Known.of(size, origin, how="derived")}

    def remarks(self) -> Iterator[Remark]:
        yield from self._told_twice()
        if self.container is None or self.place != "limits":
            return
        for key, value in _entries(self.container.get("resources", "limits")):
            if kuberay.PASSED_OVER.fullmatch(key.value.strip()) and value.value.strip() != "0":
                what = f"KubeRay does not hand {key.value.strip()} to Ray, which then sees no GPU"
                yield Remark(
                    kind="ignored",
                    at=key.origin,
                    message=what,
                    severity="warning",
                    help=f"state `{kuberay.START_GPUS}` in rayStartParams",
                )

    def _told_twice(self) -> Iterator[Remark]:
        """What Ray is told of a pod, in two places or otherwise than the pod has it."""
        named = kuberay.told_twice(_names(self.node.get("resources")), _names(self._start))
        for key, _ in _entries(self._start):
            if key.value == named:
                yield Remark(
                    kind="conflict",
                    at=key.origin,
                    message=f"KubeRay refuses {named} in rayStartParams beside resources",
                    severity="warning",
                    help="keep one of them",
                )
        told = self.node.get("rayStartParams", kuberay.START_GPUS)
        if told is None or self.container is None or self.place != "rayStartParams":
            return
        stated, given = integer(told).only, devices(self.container)[0].only
        if stated and given is not None and stated != given:
            yield Remark(
                kind="conflict",
                at=told.origin,
                message=f"Ray is told of {stated} GPUs, the container gets {given}",
                severity="warning",
                help=f"leave {kuberay.START_GPUS} out: it follows the limits",
            )


@record
class Cluster:
    """The spec of a RayCluster, its JSON Pointer, and the keys to it from the object."""

    node: Node
    path: str
    keys: tuple[str, ...]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The head, then the workers."""
        found: list[Group] = []
        autoscaled = (self.node.string("enableInTreeAutoscaling") or "").lower() == "true"
        head = self.node.get("headGroupSpec")
        if head is not None and head.kind == "map":
            found.append(Group(head, ("headGroupSpec",)))
        workers = self.node.get("workerGroupSpecs")
        for index, node in enumerate(workers.items if workers is not None else ()):
            if node.kind == "map":
                found.append(Group(node, ("workerGroupSpecs", index), autoscaled))
        return tuple(found)

    @property
    def head(self) -> Group | None:
        return self.groups[0] if self.groups and self.groups[0].is_head else None

    @cached_property
    def with_gpus(self) -> tuple[Group, ...]:
        """Groups in which Ray may find a device."""
        return tuple(group for group in self.groups if group.gpus.only != 0)

    def nodes(self) -> Known[int]:
        """Pods with devices."""
        return self._sum([group.pods for group in self.with_gpus])

    def capacity(self) -> Known[int]:
        """Devices of the cluster at its largest; a part of a cluster does not tell."""
        if self.head is None:
            return Known.unknown("the head of the Ray cluster is not in this file")
        each = (combine(_product, group.gpus, group.most) for group in self.with_gpus)
        return self._sum(list(each))

    def _sum(self, parts: list[Known[int]]) -> Known[int]:
        if not parts:
            return Known.unset()
        return parts[0] if len(parts) == 1 else combine(_total, *parts, how="stated")

    def each(self, groups: tuple[Group, ...] | None = None) -> Known[Any]:
        """Devices of one pod, where those of all groups are alike."""
        counts = [group.gpus for group in (self.with_gpus if groups is None else groups)]
        if not counts:
            return Known.unset()
        unlike = {count.values for count in counts}
        if len(unlike) == 1:
            return counts[0]
        return Known.unknown("the groups of the Ray cluster have different devices")

    def sites(self, groups: tuple[Group, ...]) -> Mapping[str, Site]:
        """One site for the devices of a pod, whatever group it is of."""
        found = [group.sites().get("gpus_per_pod") for group in groups]
        known = tuple(site for site in found if site is not None)
        if not known:
            return {}
        if len(known) < len(found):
            return {"gpus_per_pod": RefusedSite("a group does not state its devices")}
        return {"gpus_per_pod": known[0] if len(known) == 1 else JointSite(known)}

    # ------------------------------------------------------------------------------- engines

    def plans(self, owner: Owner, context: ReadContext) -> Iterator[ServingPlan]:
        """Engines that the containers of the cluster start themselves, mostly that of the head."""
        for group in self.groups:
            path = self.path + "".join(f"/{step}" for step in (*group.path, *POD))
            if (spec := group.spec) is not None:
                placed = self._owner(owner, group, context)
                yield from pod_plans(placed, spec, path, context)

    def card(self, context: ReadContext) -> Mapping[str, Any]:
        """Fields of Placement: the card of the pods with devices, where they are all alike."""
        found = [group.card(context) for group in self.with_gpus]
        same = len({(label.only, card.values) for label, card in found}) == 1
        return {"gpu_label": found[0][0], "gpu": found[0][1]} if same else {}

    def _owner(self, owner: Owner, group: Group, context: ReadContext) -> Owner:
        """A container without a command runs `ray start`, which the operator writes."""
        origin = group.node.origin
        fleet = owner.fleet if group.is_head else Fleet(replicas=group.pods)
        devices_of = self.each() if group.is_head and group.gpus.only == 0 else Known.unset()
        placement = {**owner.placement, **group.shm()}
        if group.is_head and group.gpus.only == 0:
            placement |= self.card(context)
        if group.is_head:
            placement |= {"driver_devices": group.gpus, "capacity": self.capacity()}
        return replace(
            owner,
            pod=(*self.keys, *group.path, "template"),
            command=(added("ray", origin), added("start", origin)),
            nodes=self.nodes() if group.is_head else Known.unset(),
            devices=devices_of,
            fleet=fleet,
            placement=placement,
            remarks=(*owner.remarks, *group.remarks()),
        )


def _product(one: int, two: int) -> int:
    return one * two


def _total(*parts: int) -> int:
    return sum(parts)


def _names(node: Node | None) -> tuple[str, ...]:
    return tuple(key.value for key, _ in _entries(node))


def _entries(node: Node | None) -> list[tuple[Node, Node]]:
    return list(node.entries()) if node is not None else []
