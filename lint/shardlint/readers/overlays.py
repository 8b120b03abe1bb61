"""Files of values that are deployed as one: the tables [[overlay]] of the configuration.

Each file is laid over those before it as Helm does with `-f` (helm/helm, pkg/chartutil, coalescing
and merging of values): maps are merged, lists and single values replaced, and null takes a key
away. Every value keeps the file and the place where it stands. The reading is that of the last
file, and the others are seen through it, unless they are the last file of another overlay.
An overlay is read where all of its files are among those of the run; else each file is read alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from posixpath import dirname, relpath

from shardlint.known import Known
from shardlint.plan import Router, ServingPlan
from shardlint.platforms import llmd, production_stack
from shardlint.plugins import Absorbed, Problem, ReadContext, ReadResult
from shardlint.readers.chart_files import chart_release
from shardlint.readers.chart_values import chart_values
from shardlint.readers.layers import LayerError, Work, places
from shardlint.readers.objects import together
from shardlint.readers.plans import finished
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node
from shardlint.source import Source, Span

PATH = "0:"


class OverlayReader:
    """Files of values in layers."""

    name = "overlay"
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        ours = [files for files in context.overlays if files[-1] == source.name]
        found = [_read(source, files, context) for files in ours]
        whole = [result for result in found if result is not None]
        if not whole:
            return ReadResult()
        made = together(whole)
        plans = finished(made.plans)
        ids = {old.id: new.id for old, new in zip(made.plans, plans, strict=True)}
        routers = tuple(_with_backends(router, ids) for router in made.routers)
        return replace(made, plans=plans, routers=routers, instead=True)


def _read(source: Source, files: tuple[str, ...], context: ReadContext) -> ReadResult | None:
    """One overlay; None where its files are not all there, or are no values."""
    root = _root(source)
    layers: list[Node] = []
    for name in files[:-1]:
        other = context.files.beside(source, relpath(name, dirname(source.name) or "."))
        below = _root(other) if other is not None else None
        if below is None:
            return None
        layers.append(below)
    if root is None:
        return None
    try:
        values = _laid([*layers, root])
    except LayerError as error:
        return ReadResult(problems=(Problem(error.origin, str(error), "warning"),))
    found = chart_values(values, PATH, context, _release(source, files, context))
    last = {names[-1] for names in context.overlays}
    absorbs = tuple(Absorbed(name) for name in dict.fromkeys(files[:-1]) if name not in last)
    return ReadResult(
        plans=tuple(_plan_here(plan, values, source) for plan in found.plans),
        routers=tuple(_router_here(router, values, source) for router in found.routers),
        absorbs=absorbs,
    )


def _root(source: Source) -> Node | None:
    """The one map of a file of values, which may be empty; None where it is something else."""
    roots, failed = read_yaml(source)
    if failed is not None or len(roots) > 1:
        return None
    if not roots or roots[0].is_null:
        return Node("map", Span(0, 0), source)
    return roots[0] if roots[0].kind == "map" and roots[0].get("apiVersion") is None else None


def _laid(layers: list[Node]) -> Node:
    work = Work(layers[-1].origin)
    values = layers[0]
    for layer in layers[1:]:
        values = _over(values, layer, work)
    return values


def _over(base: Node, late: Node, work: Work) -> Node:
    """The later value; of two maps, the entries of both."""
    work.spend()
    if base.kind != "map" or late.kind != "map":
        return late
    if not late.pairs:
        return base
    theirs = {key.value: (key, value) for key, value in late.entries()}
    pairs: list[tuple[Node, Node]] = []
    for key, value in base.entries():
        work.spend()
        pair = theirs.pop(key.value, None)
        if pair is None:
            pairs.append((key, value))
        elif not pair[1].is_null:
            new = _over(value, pair[1], work)
            pairs.append((key if new.parts else pair[0], new))
    parts = (*(late.parts or (late,)), *(base.parts or (base,)))
    return Node(
        "map", late.span, late.source, flow=late.flow, pairs=[*pairs, *theirs.values()],
        parts=parts,
    )  # fmt: skip


def _release(source: Source, files: tuple[str, ...], context: ReadContext) -> Known[str]:
    """The version of the chart that one of the files lies in."""
    texts = [context.files.beside(source, relpath(n, dirname(source.name) or ".")) for n in files]
    for text in texts:
        for chart in (production_stack.CHART, llmd.CHART):
            found = chart_release(text, context, chart) if text is not None else Known[str].unset()
            if found.is_known:
                return found
    return Known.unset()


# ------------------------------------------------------------------------------ seen from the last


def _plan_here(plan: ServingPlan, values: Node, source: Source) -> ServingPlan:
    """The plan as one of the last file, with the places in other files that have a share in it."""
    shared = tuple(places(values, plan.path.removeprefix(PATH)))
    return replace(plan, id=f"{source.name}#{plan.path}", file=source.name, elsewhere=shared)


def _router_here(router: Router, values: Node, source: Source) -> Router:
    def here(name: str) -> str:
        return f"{source.name}#{name.partition('#')[2]}"

    return replace(
        router,
        id=here(router.id),
        file=source.name,
        elsewhere=tuple(places(values, router.path.removeprefix(PATH))),
        backends=tuple(here(name) for name in router.backends),
    )


def _with_backends(router: Router, ids: Mapping[str, str]) -> Router:
    return replace(router, backends=tuple(ids.get(name, name) for name in router.backends))
