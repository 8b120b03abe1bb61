"""Services of Knative: one pod template, scaled between two annotations of its pods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from shardlint.known import Known
from shardlint.plan import Fleet, Refusal, Site
from shardlint.platforms import knative
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import EntrySite, RefusedSite, TextSite
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner, pod_plans
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Edit, Source

_KIND = re.compile(r"serving\.knative\.dev/")
POD = ("spec", "template")
NOTES = (*POD, "metadata", "annotations")


class KnativeReader:
    """Services of serving.knative.dev; those of the core have no pods."""

    name = "knative"
    kinds = ("Service",)
    look: bytes | None = b"serving.knative.dev"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        spec = node.get(*POD, "spec")
        ours = kind_of(node) == (knative.GROUP, knative.KIND)
        if not ours or spec is None or spec.kind != "map":
            return ReadResult()
        return ReadResult(
            plans=tuple(pod_plans(_owner(node, path), spec, f"{path}/{PATH}", context))
        )


PATH = "/".join((*POD, "spec"))


def _owner(node: Node, path: str) -> Owner:
    notes = node.get(*NOTES)
    return Owner(
        node=node,
        kind="KnativeService",
        path=path,
        pod=POD,
        nodes=Known.of(1, how="derived"),
        fleet=Fleet(
            replicas=_scale(notes, knative.LEAST), max_replicas=_scale(notes, knative.MOST)
        ),
        sites=_sites(notes),
        platform="knative",
    )


def _stated(notes: Node | None, names: tuple[str, ...]) -> Node | None:
    found = (notes.get(name) for name in names) if notes is not None else ()
    return next((node for node in found if node is not None), None)


def _scale(notes: Node | None, names: tuple[str, ...]) -> Known[int]:
    """The number in an annotation; a most of 0 is none."""
    count = integer(_stated(notes, names))
    if names is knative.MOST and count.only == 0:
        return Known.unknown("0 is no limit", count.origin)
    return count


def _sites(notes: Node | None) -> Mapping[str, Site]:
    fields = {"replicas": knative.LEAST, "max_replicas": knative.MOST}
    return MappingProxyType({name: _site(notes, keys) for name, keys in fields.items()})


def _site(notes: Node | None, names: tuple[str, ...]) -> Site:
    if notes is None:
        return RefusedSite("the pods have no annotations")
    stated = _stated(notes, names)
    return NoteSite(notes, names[0]) if stated is None else TextSite((stated.text(),))


@record
class NoteSite:
    """An annotation that is not there: its value is a string, also where it is a number."""

    notes: Node
    name: str

    def set(self, value: str) -> list[Edit] | Refusal:
        if self.notes.written.flow:
            return Refusal("the annotations are written in braces")
        return EntrySite(self.notes, self.name).set(f'"{value}"')
