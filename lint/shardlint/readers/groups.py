"""Groups of pods that make up one engine: a leader and its workers.

The plan of a group is that of its leader. What the workers run of the same engine is edited along
with it, and what is wrong with their command lines is reported with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text, combine
from shardlint.plan import Remark, ServingPlan, Site
from shardlint.plugins import ReadContext
from shardlint.readers.claims import Claims
from shardlint.readers.edits import JointSite
from shardlint.readers.plans import EDITABLE, STARTS
from shardlint.readers.pods import Owner, added, container_plans, devices, pod_plans
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Origin

SHARED_SITES = (*EDITABLE, "gpus_per_pod", "shm_bytes")
"""Fields that are the same in all pods of a group."""

DIFFERENT = "the pods of a group run different engines"
NO_LEADER = "the leader of a group runs no engine that is read"

SAME = ("layout.tp", "layout.pp", "layout.dp", "layout.ep", "memory.max_model_len")
"""Facts that all processes of one engine have to be told alike."""


@record(kw_only=True)
class Template:
    """The pods of one kind in a group: who owns them, their spec, and its path.

    `container` is the only one that is looked at, where it stands beside the others.
    """

    owner: Owner
    spec: Node
    path: str
    container: tuple[Node, str] | None = None

    def plans(self, context: ReadContext) -> tuple[ServingPlan, ...]:
        if self.container is None:
            return tuple(pod_plans(self.owner, self.spec, self.path, context))
        node, path = self.container
        return tuple(container_plans(self.owner, self.spec, node, path, context))

    def devices(self, context: ReadContext) -> Known[int]:
        """Devices of all containers of a pod together, where each number is known."""
        claims = Claims(self.spec, self.spec.source, self.owner.namespace, context)
        counts = [devices(item, claims)[0] for item in self._containers()]
        asked = [count for count in counts if not count.is_unset]
        if not asked:
            return Known.unknown("the pod asks for no devices")
        return combine(lambda *each: sum(int(count) for count in each), *asked)

    def device_sites(self) -> tuple[Site, ...]:
        """Where the numbers of devices are written."""
        found = (devices(item)[1].get("gpus_per_pod") for item in self._containers())
        return tuple(site for site in found if site is not None)

    def _containers(self) -> tuple[Node, ...]:
        found = self.spec.get("containers")
        own = () if self.container is None else (self.container[0],)
        return (*(found.items if found is not None else ()), *own)


def group_plans(
    leader: Template, worker: Template | None, size: Known[int], context: ReadContext
) -> tuple[ServingPlan, ...]:
    """The plans of a group; without a template of their own, workers are like the leader."""
    leaders = leader.plans(context)
    workers = worker.plans(context) if worker is not None and size.only != 1 else ()
    if len(leaders) == 1 and all(_part_of(leaders[0], other) for other in workers):
        total = _devices(leader, worker or leader, size, context)
        joined = _joined(leaders[0], workers)
        if worker is not None and not workers and size.only != 1:
            joined = _with_others(joined, worker)
        return (_in_group(joined, total),)
    if not workers and len(leaders) < 2:
        return leaders
    reason = DIFFERENT if leaders else NO_LEADER
    return tuple(_apart(plan, reason) for plan in (*leaders, *workers))


def _part_of(leader: ServingPlan, worker: ServingPlan) -> bool:
    """The worker runs a part of the leader's engine: nothing says that its model is another one."""
    ours, theirs = leader.model, worker.model
    same = not (ours.is_known and theirs.is_known) or ours.values == theirs.values
    return leader.engine == worker.engine and same


def _apart(plan: ServingPlan, reason: str) -> ServingPlan:
    pods = plan.placement.pods_per_group
    if pods.only == 1:
        return plan
    unknown: Known[int] = Known.unknown(reason, pods.origin)
    return replace(plan, placement=replace(plan.placement, pods_per_group=unknown))


# --------------------------------------------------------------------------- one plan of several


def _joined(leader: ServingPlan, workers: Sequence[ServingPlan]) -> ServingPlan:
    """The leader's plan, with what there is to say of the workers', and edits of all of them."""
    if not workers:
        return leader
    return replace(
        leader,
        sites=MappingProxyType({**leader.sites, **_sites(leader, workers)}),
        refused=(*leader.refused, *(replace(item, flag=None) for plan in workers
                                    for item in plan.refused)),
        remarks=(*leader.remarks, *_remarks(leader, workers)),
        anchors=tuple(dict.fromkeys(span for plan in (leader, *workers) for span in plan.anchors)),
        placement=replace(leader.placement, env=_variables((leader, *workers))),
    )  # fmt: skip


def _with_others(plan: ServingPlan, worker: Template) -> ServingPlan:
    """Workers that run no engine of their own have the devices of their leader."""
    site = plan.sites.get("gpus_per_pod")
    theirs = worker.device_sites()
    if site is None or len(theirs) != 1:
        return plan
    joint = JointSite((site, *theirs))
    return replace(plan, sites=MappingProxyType({**plan.sites, "gpus_per_pod": joint}))


def _sites(leader: ServingPlan, workers: Sequence[ServingPlan]) -> Mapping[str, Site]:
    plans = (leader, *workers)
    return {
        name: JointSite(tuple(plan.sites[name] for plan in plans))
        for name in SHARED_SITES
        if all(name in plan.sites for plan in plans)
    }


def _remarks(leader: ServingPlan, workers: Sequence[ServingPlan]) -> Iterator[Remark]:
    """Those of the workers' own lines, and where they are told something else than the leader."""
    for worker in workers:
        own = (item for item in worker.remarks if item not in leader.remarks)
        yield from (replace(item, flag=None) for item in own)
        for name in SAME:
            ours, theirs = leader.fact(name), worker.fact(name)
            if _differ(ours, theirs) and theirs.origin is not None:
                word = name.rpartition(".")[2]
                yield Remark(
                    kind="conflict",
                    severity="warning",
                    at=theirs.origin,
                    message=f"{word} is {theirs.only} for the workers and {ours.only} for their"
                    " leader: they are one engine",
                    related=((ours.origin, "the leader's"),) if ours.origin else (),
                )


def _differ(ours: Known[Any], theirs: Known[Any]) -> bool:
    return ours.only is not None and theirs.only is not None and ours.only != theirs.only


def _variables(plans: Sequence[ServingPlan]) -> Mapping[str, Known[str]]:
    """Variables that all pods have alike; one that differs is not known."""
    names = dict.fromkeys(name for plan in plans for name in plan.placement.env)
    differs: Known[str] = Known.unknown("it differs between the pods of a group")
    found: dict[str, Known[str]] = {}
    for name in names:
        values = [plan.placement.variable(name) for plan in plans]
        alike = len({fact.values for fact in values}) == 1
        found[name] = plans[0].placement.env.get(name, differs) if alike else differs
    return MappingProxyType(found)


# --------------------------------------------------------------------------------- what they have


def _in_group(plan: ServingPlan, total: Known[int]) -> ServingPlan:
    placement = plan.placement
    if placement.joined is not None and not placement.joined.endswith(STARTS):
        total = total.assuming("no pod outside of the group is in its Ray cluster")
    if placement.env_open is not None:
        total = total.assuming(f"RAY_ADDRESS names no other cluster ({placement.env_open})")
    return replace(plan, placement=replace(placement, group_devices=total))


def _devices(
    leader: Template, worker: Template, size: Known[int], context: ReadContext
) -> Known[int]:
    """Devices of all pods of a group."""
    own = leader.devices(context)
    if size.only == 1:
        return own if not own.is_known else replace(own, origin=size.origin, how="derived")
    return combine(_together, size, own, worker.devices(context))


def _together(size: int, leader: int, worker: int) -> int:
    return leader + (size - 1) * worker


# -------------------------------------------------------------------------------------- variables


def key_of(node: Node) -> Origin:
    """The first key of a map: a place for what an operator adds, which nothing is read from."""
    return node.pairs[0][0].origin if node.pairs else node.origin


def number(value: Known[int], otherwise: Origin) -> Text:
    """A number as the value of a variable that an operator sets."""
    place = value.origin or otherwise
    if value.only is None:
        return Text.unknown(place, value.reason or "it is not decided")
    return replace(added(str(value.only), place), assumes=value.assumes)


def dropped(spec: Node, names: Sequence[str], platform: str) -> Iterator[Remark]:
    """Variables of containers whose values an operator replaces by its own."""
    containers = spec.get("containers")
    for container in containers.items if containers is not None else ():
        env = container.get("env")
        for item in env.items if env is not None else ():
            name, value = item.string("name"), item.get("value")
            if name in names and value is not None:
                yield Remark(
                    kind="ignored",
                    severity="warning",
                    at=value.origin,
                    message=f"{platform} sets {name} itself: this value is dropped",
                    help="remove it",
                )


# --------------------------------------------------------------------------------------- replicas


def product(first: Node | None, second: Node | None) -> Known[int]:
    """Replicas that are told in two factors; one that is missing is 1."""
    one, other = integer(first), integer(second)
    if one.is_unset or other.is_unset:
        return one.or_default(other)
    return combine(lambda a, b: a * b, other, one, how="stated")
