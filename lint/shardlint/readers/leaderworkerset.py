"""LeaderWorkerSet: groups of pods, each of which is one replica.

The leader's containers are read, or where there is no template for it those of the workers; the
workers' too, as parts of the same engine. `spec.replicas` are the groups, `size` the pods of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from shardlint.known import Known, Text
from shardlint.plan import Fleet, Remark, ServingPlan, Site
from shardlint.platforms import lws
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.groups import Template, dropped, group_plans, key_of, number
from shardlint.readers.keyed import KeySite
from shardlint.readers.kubernetes import AT_ONCE, surge
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner, added
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Source

_KIND = re.compile(r"leaderworkerset\.x-k8s\.io/")
KEYS = ("spec", "leaderWorkerTemplate")


class LeaderWorkerSetReader:
    """Objects of kind LeaderWorkerSet."""

    name = "leaderworkerset"
    kinds = ("LeaderWorkerSet",)
    look: bytes | None = b"leaderworkerset.x-k8s.io"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        if kind_of(node) != (lws.GROUP, lws.KIND):
            return ReadResult()
        return ReadResult(plans=set_plans(GroupSet(node=node, path=path, keys=KEYS), context))


@record(kw_only=True)
class GroupSet:
    """An object that holds the template of a set: which it is, and where the template stands."""

    node: Node
    path: str
    keys: tuple[str, ...]
    kind: str = lws.KIND
    platform: str = "lws"
    remarks: tuple[Remark, ...] = ()


TEMPLATES = ("leaderTemplate", "workerTemplate")


def set_plans(of: GroupSet, context: ReadContext) -> tuple[ServingPlan, ...]:
    """The plans of a set: those of its leader, together with its workers."""
    template = of.node.get(*of.keys)
    if template is None or template.kind != "map":
        return ()
    size = group_size(template)
    made: list[Template] = []
    for key in TEMPLATES:
        spec = template.get(key, "spec")
        if spec is not None and spec.kind == "map":
            where = (*of.keys, key)
            path = of.path + "".join(f"/{step}" for step in (*where, "spec"))
            owner = _owner(of, where, template, size, len(made))
            owner = replace(owner, remarks=(*of.remarks, *dropped(spec, lws.VARIABLES, lws.KIND)))
            made.append(Template(owner=owner, spec=spec, path=path))
    if not made:
        return ()
    return group_plans(made[0], made[1] if len(made) > 1 else None, size, context)


def group_size(template: Node) -> Known[int]:
    """The pods of a group; a part of an object need not say it."""
    stated = integer(template.get("size"))
    if stated.is_unset:
        if not all(_whole(template.get(key, "spec")) for key in TEMPLATES):
            return Known.unknown("the size of the groups is not in this file", template.origin)
        return Known.of(lws.DEFAULT_SIZE, how="derived")
    if stated.only is not None and stated.only < 1:
        return Known.unknown(f"{stated.only} is no size of a group", stated.origin)
    return stated


def _whole(spec: Node | None) -> bool:
    """The pod spec is no fragment of one: its containers have images."""
    containers = spec.get("containers") if spec is not None else None
    items = containers.items if containers is not None else []
    return spec is None or (bool(items) and all(item.get("image") is not None for item in items))


def _owner(
    of: GroupSet, pod: tuple[str, ...], template: Node, size: Known[int], index: int
) -> Owner:
    """What the set decides for its leader, or for its first worker."""
    node = of.node
    name, space = node.string("metadata", "name") or "", node.string("metadata", "namespace")
    return Owner(
        node=node,
        kind=of.kind,
        path=of.path,
        pod=pod,
        fleet=_fleet(node),
        nodes=size,
        env=variables(name, space, size, index, template),
        labels=lws.labels("" if placeholder(name) else name, index),
        sites=_sites(node, template),
        platform=of.platform,
    )


def _fleet(node: Node) -> Fleet:
    """Groups, of which one may be missing while a set is updated, unless it says otherwise."""
    replicas = integer(node.get("spec", "replicas"))
    strategy = node.get("spec", "rolloutStrategy")
    started = surge(strategy, replicas, lws.ROLLING, lws.ROLLOUT)
    return Fleet(replicas=replicas, surge=started, at_once=AT_ONCE)


def _sites(node: Node, template: Node) -> Mapping[str, Site]:
    found: dict[str, Site] = {"nodes": KeySite(template, "size")}
    if (spec := node.get("spec")) is not None:
        found["replicas"] = KeySite(spec, "replicas")
    return MappingProxyType(found)


def variables(
    name: str, namespace: str | None, size: Known[int], index: int, template: Node
) -> Mapping[str, Text]:
    """Variables of the containers of the first group: of its leader, or of its first worker."""
    origin = key_of(template)
    address = added(lws.leader_address(name, namespace), origin)
    if not name or placeholder(f"{name}{namespace or ''}"):
        address = Text.unknown(origin, "the name of the set is not in this file")
    return MappingProxyType(
        {
            lws.LEADER_ADDRESS: address,
            lws.GROUP_SIZE: number(size, origin),
            lws.WORKER_INDEX: added(str(index), origin),
        }
    )
