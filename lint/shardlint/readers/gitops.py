"""Releases of charts in a GitOps repository: Argo CD's Application(Set), Flux' HelmRelease.

Their values stand in the object itself, as a map or as YAML in a string. They are read as the
values of the chart that they fit, with every place in this file. Argo CD: `parameters` win over
`valuesObject`, which makes `values` be dropped (argoproj/argo-cd, docs/user-guide/helm.md). Flux:
`valuesFrom` comes before the values of the object, unless it names a path of its own
(fluxcd/helm-controller, docs/spec/v2). An ApplicationSet with a plain list has an installation for
each of its elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from shardlint.known import Known
from shardlint.plan import Remark, Router, ServingPlan, series
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.application_sets import elements, filled
from shardlint.readers.chart_values import chart_values
from shardlint.readers.inner_yaml import inner
from shardlint.readers.layers import Work
from shardlint.readers.objects import kind_of, read_objects, together
from shardlint.readers.pods import Owner
from shardlint.readers.rendered import items
from shardlint.readers.resting import resting
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Source, Span

_KEY = re.compile(
    r"""^[ \t-]*["']?kind["']?[ \t]*:[ \t]*["']?(?:Application|ApplicationSet|HelmRelease)\b""",
    re.MULTILINE,
)
ARGO, FLUX = "argoproj.io", "helm.toolkit.fluxcd.io"

ELSEWHERE = "no other file of values sets more"


class GitopsReader:
    """Application, ApplicationSet, HelmRelease."""

    name = "gitops"
    kinds = ("Application", "ApplicationSet", "HelmRelease")
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return _KEY.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        found = read_objects(self, source, context)
        return found if found.skipped is None else ReadResult()

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        return together(_read(release, context) for release in _releases(node, path))


@record(kw_only=True)
class _Release:
    """The values of one chart; `layered`: others come before them. `dropped` has no effect."""

    node: Node
    path: str
    values: Node
    namespace: str | None
    layered: bool
    dropped: Node | None = None
    chart: Known[str] = Known.unset()
    """The version of the chart, where one is pinned."""


def _read(release: _Release, context: ReadContext) -> ReadResult:
    """The values as those of the chart that they fit."""
    found = chart_values(release.values, release.path, context, release.chart)
    return ReadResult(
        plans=tuple(_of_plan(plan, release) for plan in found.plans),
        routers=tuple(_of_router(router, release) for router in found.routers),
    )


def _of_plan(plan: ServingPlan, release: _Release) -> ServingPlan:
    suppressed = _owner(release).suppressed()
    found = replace(
        plan,
        namespace=release.namespace,
        anchors=(*plan.anchors, release.node.span),
        suppressed=MappingProxyType({**plan.suppressed, **suppressed}),
        remarks=(*plan.remarks, *_dropped(release)),
    )
    return resting(found, ELSEWHERE) if release.layered else found


def _of_router(router: Router, release: _Release) -> Router:
    suppressed = {**router.suppressed, **_owner(release).suppressed()}
    return replace(
        router,
        namespace=release.namespace,
        anchors=(*router.anchors, release.node.span),
        suppressed=MappingProxyType(suppressed),
    )


def _owner(release: _Release) -> Owner:
    return Owner(node=release.node, kind="", path=release.path)


def _dropped(release: _Release) -> Iterator[Remark]:
    if release.dropped is not None:
        yield Remark(
            kind="ignored", at=release.dropped.origin, severity="warning",
            message="`values` has no effect beside `valuesObject`",
            help="write everything into one of them",
        )  # fmt: skip


# --------------------------------------------------------------------------------- where they are


def _releases(node: Node, path: str) -> Iterator[_Release]:
    group, kind = kind_of(node)
    if group == ARGO and kind == "Application":
        yield from _argo(node, node.get("spec"), f"{path}/spec")
    elif group == ARGO and kind == "ApplicationSet":
        template, where = node.get("spec", "template", "spec"), f"{path}/spec/template/spec"
        listed, work = elements(node), Work(node.origin)
        if template is None or not listed:
            yield from _argo(node, template, where)
            return
        for element in listed:
            yield from _argo(node, filled(template, element, work), where)
    elif group == FLUX and kind == "HelmRelease":
        yield from _flux(node, path)


def _argo(node: Node, spec: Node | None, path: str) -> Iterator[_Release]:
    if spec is None:
        return
    sources = [(spec.get("source"), f"{path}/source")]
    sources += [
        (item, f"{path}/sources/{at}") for at, item in enumerate(items(spec.get("sources")))
    ]
    for source, where in sources:
        helm = source.get("helm") if source is not None else None
        if source is None or helm is None:
            continue
        if (found := _of_helm(node, spec, helm, f"{where}/helm")) is not None:
            revision = source.get("targetRevision")  # of a repository of git it is a branch
            yield replace(found, chart=_pinned(revision if source.get("chart") else None))


def _of_helm(node: Node, spec: Node, helm: Node, path: str) -> _Release | None:
    whole, text = helm.pair("valuesObject"), helm.pair("values")
    key = "valuesObject" if whole is not None else "values"
    values = whole[1] if whole is not None else inner(text[1]) if text is not None else None
    parameters = items(helm.get("parameters"))
    if values is None and parameters:
        values = Node("map", parameters[0].span, helm.source, alias=True)
    if values is None or values.kind != "map":
        return None
    for row in parameters:
        name, value = row.string("name"), row.get("value")
        if name is not None and value is not None and value.kind == "scalar":
            forced = row.string("forceString") == "true"
            values = overridden(values, name, value if forced else unquoted(value))
    layers = ("valueFiles", "fileParameters")
    return _Release(
        node=node,
        path=f"{path}/{key}",
        values=values,
        namespace=spec.string("destination", "namespace"),
        layered=any(items(helm.get(name)) for name in layers),
        dropped=text[0] if whole is not None and text is not None else None,
    )


def _pinned(version: Node | None) -> Known[str]:
    """One version; a range of them says as much as nothing."""
    if version is None or version.kind != "scalar" or series(version.value) is None:
        return Known.unset()
    return version.text().known()


def _flux(node: Node, path: str) -> Iterator[_Release]:
    values = node.get("spec", "values")
    if values is None or values.kind != "map":
        return
    others = items(node.get("spec", "valuesFrom"))
    for row in others:
        target = row.get("targetPath")
        if target is not None and target.kind == "scalar":
            unknown = Node("scalar", target.span, target.source, f"${{{target.value}}}", "'")
            values = overridden(values, target.value, unknown)
    files = node.get("spec", "chart", "spec", "valuesFiles")
    yield _Release(
        node=node,
        path=f"{path}/spec/values",
        values=values,
        namespace=node.string("spec", "targetNamespace") or node.string("metadata", "namespace"),
        layered=bool(others or items(files) or node.get("spec", "postRenderers")),
        chart=_pinned(node.get("spec", "chart", "spec", "version")),
    )


# ----------------------------------------------------------------------------- single values

_STEP = re.compile(r"\[(\d{1,4})\]|((?:\\.|[^.\[\]\\])+)\.?")


def overridden(root: Node, name: str, value: Node) -> Node:
    """The values with one of them set by its name, such as `a.b[0].c`, as `--set` does."""
    steps: list[str | int] = [
        int(match[1]) if match[1] else re.sub(r"\\(.)", r"\1", match[2])
        for match in _STEP.finditer(name)
    ]
    return _set(root, steps, value)


def _set(node: Node | None, steps: Sequence[str | int], value: Node) -> Node:
    """A copy with the value at a path. It takes no further entries: it stands in two places."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    like = node or value
    made = Node("map", like.span, like.source, alias=True, flow=like.flow)
    if isinstance(step, int):
        made.kind = "list"
        made.items = list(items(node))
        if step < len(made.items):
            made.items[step] = _set(made.items[step], rest, value)
        elif step == len(made.items):
            made.items.append(_set(None, rest, value))
        return made
    own = list(node.entries()) if node is not None else []
    if not any(key.value == step for key, _ in own):
        own.append((Node("scalar", value.span, value.source, step), Node("scalar", value.span,
                                                                      value.source)))  # fmt: skip
    made.pairs = [
        (key, _set(old if not old.is_null else None, rest, value) if key.value == step else old)
        for key, old in own
    ]
    return made


def unquoted(node: Node) -> Node:
    """A quoted word as the bare word that `--set` takes it for."""
    span = node.span
    inside = Span(span.start + 1, span.end - 1)
    text = node.source.text
    if node.style in ("'", '"') and text[inside.start : inside.end] == node.value:
        span = inside
    return Node("scalar", span, node.source, node.value)
