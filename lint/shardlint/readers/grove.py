"""Grove: the cliques of a PodCliqueSet, which are pods that are started and scaled together.

A clique is one plan for each engine in its pods. Where cliques of one scaling group belong
together, or one clique has several pods of one engine, the command line says how many nodes there
are; otherwise it is not known which pods make up one engine.

Sources: platforms, section 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from shardlint.known import Known, Text, combine
from shardlint.plan import Fleet, ServingPlan
from shardlint.platforms import grove
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.keyed import KeySite
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner, added, pod_plans
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Source

_KIND = re.compile(r"Pod(?:Clique|Gang)Set\b")

TOGETHER = "which pods of the scaling group make up one engine is not in this file"


class GroveReader:
    """Objects of the kind PodCliqueSet."""

    name = "grove"
    kinds = ("PodCliqueSet",)
    look: bytes | None = b"grove.io"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        found = cliques(node, path)
        return ReadResult(plans=tuple(plan for one in found for plan in _plans(one, context)))


@record(kw_only=True)
class Clique:
    """One clique of a set, with the scaling group that it is in."""

    object: Node
    node: Node
    path: str
    group: Node | None

    @property
    def name(self) -> str:
        return self.node.string("name") or ""

    def alone(self) -> bool:
        """No other clique is scaled along with it."""
        names = self.group.get("cliqueNames") if self.group is not None else None
        return names is None or len(names.items) == 1


def cliques(node: Node, path: str) -> Iterator[Clique]:
    group, kind = kind_of(node)
    if group != grove.GROUP or kind not in (grove.KIND, grove.OLDER_KIND):
        return
    listed = node.get("spec", "template", "cliques")
    for index, item in enumerate(listed.items if listed is not None else ()):
        if item.kind == "map":
            yield Clique(
                object=node, node=item, path=f"{path}/spec/template/cliques/{index}",
                group=_group(node, item.string("name")),
            )  # fmt: skip


def _group(node: Node, name: str | None) -> Node | None:
    """The scaling group that a clique is in."""
    for keys in (("podCliqueScalingGroups",), ("podCliqueScalingGroupConfigs",)):
        found = node.get("spec", "template", *keys)
        for row in found.items if found is not None else ():
            names = row.get("cliqueNames")
            if names is not None and name in [item.value for item in names.items]:
                return row
    return None


def _plans(of: Clique, context: ReadContext) -> Iterator[ServingPlan]:
    spec = of.node.get("spec", "podSpec")
    if spec is None or spec.kind != "map":
        return
    title = "/".join(part for part in (of.object.string("metadata", "name"), of.name) if part)
    owner = Owner(
        node=of.object,
        kind=grove.KIND,
        path=of.path,
        title=title,
        env=_environment(of),
        sites=MappingProxyType({"replicas": KeySite(of.node.get("spec") or of.node, "replicas")}),
        platform="grove",
    )
    for plan in pod_plans(owner, spec, f"{of.path}/spec/podSpec", context):
        yield _counted(plan, of)


def _environment(of: Clique) -> Mapping[str, Text]:
    name = of.object.get("metadata", "name")
    found = {
        variable: Text.unknown(of.node.origin, f"Grove sets {variable} for each pod")
        for variable in grove.PLACES
    }
    if name is not None and name.is_string:
        found[grove.SET_NAME] = added(name.value, name.origin)
    return MappingProxyType(found)


# -------------------------------------------------------------------------------------- copies


def _counted(plan: ServingPlan, of: Clique) -> ServingPlan:
    """With the pods of one engine, and how many engines there are."""
    pods, nodes = _pods(of), plan.layout.nnodes
    if not nodes.is_unset and nodes.only != 1:
        engines = _engines(pods, nodes) if of.alone() else _one_each(of)
        placement = replace(plan.placement, pods_per_group=nodes)
        return replace(plan, placement=placement, fleet=Fleet(replicas=engines))
    if of.alone():
        return replace(plan, fleet=Fleet(replicas=pods))
    together: Known[int] = Known.unknown(TOGETHER, of.node.origin)
    placement = replace(plan.placement, pods_per_group=together)
    return replace(plan, placement=placement, fleet=Fleet(replicas=together))


def _pods(of: Clique) -> Known[int]:
    """Pods of the clique in all copies of the set."""
    own = _or(integer(of.node.get("spec", "replicas")), grove.DEFAULT_COPIES)
    return _multiplied(combine(grove.copies, _sets(of), _groups(of), own), of)


def _multiplied(count: Known[int], of: Clique) -> Known[int]:
    """At the clique's own number; stated only where every factor that is not 1 is."""
    stated = not _sets(of).is_known or _sets(of).how == "stated"
    own = of.node.get("spec", "replicas")
    place = own.origin if own is not None else count.origin
    return replace(count, origin=place, how="stated" if stated else "derived")


def _one_each(of: Clique) -> Known[int]:
    """One engine for each copy of the scaling group."""
    return combine(lambda sets, groups: sets * groups, _sets(of), _groups(of), how="stated")


def _sets(of: Clique) -> Known[int]:
    return _or(integer(of.object.get("spec", "replicas")), grove.DEFAULT_SETS)


def _groups(of: Clique) -> Known[int]:
    stated = integer(of.group.get("replicas")) if of.group is not None else Known.unset()
    return _or(stated, grove.DEFAULT_COPIES)


def _or(stated: Known[int], default: int) -> Known[int]:
    return stated.or_default(Known.of(default, how="derived"))


def _engines(pods: Known[int], nodes: Known[int]) -> Known[int]:
    if pods.only is None or nodes.only is None:
        return pods if pods.only is None else Known.unknown(nodes.reason or "", nodes.origin)
    if nodes.only < 1 or pods.only % nodes.only:
        return Known.unknown(f"{pods.only} pods are no groups of {nodes.only}", pods.origin)
    return replace(pods.map(lambda count: count // (nodes.only or 1)), how=pods.how)
