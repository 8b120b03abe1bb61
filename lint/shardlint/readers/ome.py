"""Objects of OME: the engines and decoders of runtimes, and services that use them.

A service of one file with its runtime is read through it; a runtime without one for itself, with
the model left open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text, combine
from shardlint.plan import Fleet, LayoutFacts, ServingPlan, Site
from shardlint.platforms import ome
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._pod import RDMA_NOTES
from shardlint.readers.groups import Template, group_plans
from shardlint.readers.keyed import KeySite
from shardlint.readers.leaderworkerset import variables
from shardlint.readers.objects import Object, kind_of, read_objects, siblings
from shardlint.readers.pods import Owner, added, devices
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Source

_KIND = re.compile(r"\bome\.io/v")


class OmeReader:
    """Runtimes and services of ome.io."""

    name = "ome"
    kinds = ("InferenceService", "ServingRuntime", "ClusterServingRuntime")
    look: bytes | None = b"ome.io/"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        group, kind = kind_of(node)
        if group != ome.GROUP:
            return ReadResult()
        found: Iterable[Part] = ()
        if kind == ome.SERVICE:
            found = _of_service(node, path, context)
        elif kind in ome.RUNTIMES and not _is_used(node, context):
            found = (
                Part(of=node, path=path, keys=("spec", key), name=name)
                for key, name in ome.COMPONENTS.items()
            )
        return ReadResult(plans=tuple(plan for part in found for plan in part.plans(context)))


def _ours(context: ReadContext, *kinds: str) -> Iterator[Object]:
    return (item for item in siblings(context, *kinds) if kind_of(item.node)[0] == ome.GROUP)


def _is_used(runtime: Node, context: ReadContext) -> bool:
    """A service beside it uses the runtime, and is read with it."""
    names = (item.node.string("spec", "runtime", "name") for item in _ours(context, ome.SERVICE))
    found = (_runtime(name, context) for name in names)
    return any(one is not None and one.node is runtime for one in found)


def _runtime(name: str | None, context: ReadContext) -> Object | None:
    """The runtime of a name, beside the service."""
    every = _ours(context, *ome.RUNTIMES)
    same = (item for item in every if item.node.string("metadata", "name") == name)
    return next(same, None) if name is not None else None


def _of_service(node: Node, path: str, context: ReadContext) -> Iterator[Part]:
    """The parts of a service: its own, else those of its runtime."""
    runtime = _runtime(node.string("spec", "runtime", "name"), context)
    wanted = node.string("spec", "model", "name")
    model = next(
        (item.node for item in _ours(context, *ome.MODELS)
         if item.node.string("metadata", "name") == wanted), None,
    )  # fmt: skip
    for key, name in ome.COMPONENTS.items():
        part = Part(of=node, path=path, keys=("spec", name), name=name, service=node, model=model)
        if part.component is not None and part.runs:
            yield part
        elif runtime is not None:
            there = replace(part, of=runtime.node, path=runtime.path, keys=("spec", key))
            yield there


@record(kw_only=True)
class Part:
    """An engine or decoder: the object that holds it, and the service that uses it, if any."""

    of: Node
    path: str
    keys: tuple[str, ...]
    name: str
    service: Node | None = None
    model: Node | None = None

    @property
    def component(self) -> Node | None:
        found = self.of.get(*self.keys)
        return found if found is not None and found.kind == "map" else None

    @property
    def runs(self) -> bool:
        """It says what is run."""
        return any(
            self.of.get(*self.keys, *more, "runner") is not None for more in ((), ("leader",))
        )

    def plans(self, context: ReadContext) -> Iterator[ServingPlan]:
        component = self.component
        if component is None:
            return
        size = _size(component)
        leader = self._template(("leader",) if component.get("leader") else (), size, 0)
        worker = self._template(("worker",), size, 1) if component.get("worker") else None
        if leader is not None:
            for plan in group_plans(leader, worker, size, context):
                yield self._finished(plan)

    def _template(self, more: tuple[str, ...], size: Known[int], index: int) -> Template | None:
        keys = (*self.keys, *more)
        spec, runner = self.of.get(*keys), self.of.get(*keys, "runner")
        if spec is None or runner is None or runner.kind != "map":
            return None
        path = self.path + "".join(f"/{key}" for key in keys)
        owner = self._owner(spec, runner, size, index)
        return Template(owner=owner, spec=spec, path=path, container=(runner, f"{path}/runner"))

    def _owner(self, spec: Node, runner: Node, size: Known[int], index: int) -> Owner:
        named = self.service if self.service is not None else self.of
        asked = named.get("spec", self.name) if self.service is not None else None
        both = self.of.get("spec", "decoderConfig") is not None or (
            self.service is not None and self.service.get("spec", "decoder") is not None
        )
        roles = {"engine": "prefill" if both else None, "decoder": "decode"}
        env = dict(self._variables(runner, size, index))
        folder, model = self._model()
        if folder is not None and not _sets(runner, ome.MODEL_PATH):
            env[ome.MODEL_PATH] = folder.text()
        return Owner(
            node=self.of,
            kind=self.of.string("kind") or "",
            path=self.path,
            title=named.string("metadata", "name") or "",
            role=roles[self.name],
            fleet=Fleet(
                replicas=integer(asked.get("minReplicas") if asked else None),
                max_replicas=integer(asked.get("maxReplicas") if asked else None),
            ),
            nodes=size,
            env=MappingProxyType(env),
            mounted={folder.value.rstrip("/"): model} if folder is not None else {},
            placement=_surroundings(spec),
            sites=self._sites(asked),
            platform="ome",
        )

    def _variables(self, runner: Node, size: Known[int], index: int) -> Iterator[tuple[str, Text]]:
        component = self.component
        assert component is not None
        if component.get("worker") is not None:
            yield from variables("", None, size, index, component).items()
        chosen = self.service.get("spec", "acceleratorSelector") if self.service else None
        count = runner.get("resources", "limits", ome.COUNTED)
        if chosen is None and count is not None and not component.get("acceleratorOverride"):
            total = combine(ome.parallelism, devices(runner)[0], size)
            if total.only is None:
                yield ome.PARALLELISM, Text.unknown(count.origin, total.reason or "not decided")
            else:
                word = added(str(total.only), count.origin)
                yield ome.PARALLELISM, replace(word, assumes=total.assumes | {ome.NO_CLASS})

    def _model(self) -> tuple[Node | None, Known[str]]:
        """The folder of the model in the container, and what is found there."""
        storage = self.model.get("spec", "storage") if self.model is not None else None
        folder = storage.get("path") if storage is not None else None
        uri = storage.get("storageUri") if storage is not None else None
        if folder is None or not folder.is_string or placeholder(folder.value):
            return None, Known.unset()
        if uri is None or not uri.is_string:
            return folder, Known.of(folder.value, folder.origin)
        reason = placeholder(uri.value)
        known: Known[str] = uri.text().known().map(lambda value: value.removeprefix("hf://"))
        return folder, Known.unknown(reason, uri.origin) if reason else known

    def _sites(self, asked: Node | None) -> Mapping[str, Site]:
        found: dict[str, Site] = {}
        if asked is not None and asked.pairs:
            found |= {"replicas": KeySite(asked, "minReplicas")}
            found |= {"max_replicas": KeySite(asked, "maxReplicas")}
        return MappingProxyType(found)

    def _finished(self, plan: ServingPlan) -> ServingPlan:
        """With sizes that follow from the group, and a model that a service has yet to name."""
        layout = _derived(plan.layout)
        effective = _derived(plan.effective)
        if _overridden(self.of):
            effective = replace(
                effective,
                tp=effective.tp.assuming(ome.NO_OVERRIDE),
                pp=effective.pp.assuming(ome.NO_OVERRIDE),
            )
        return _unnamed(replace(plan, layout=layout, effective=effective))


def _size(component: Node) -> Known[int]:
    """The pods of a group: a leader and its workers."""
    if component.get("leader") is None and component.get("worker") is None:
        return Known.of(1, how="derived")
    workers = component.get("worker")
    if workers is None:
        return Known.of(1, how="derived")
    count = integer(workers.get("size"))
    if count.is_unset:
        return Known.unknown("how many workers there are is not in this file", workers.origin)
    if count.only is not None and count.only < 0:
        return Known.unknown(f"{count.only} is no number of workers", count.origin)
    return count.map(lambda number: number + 1)


def _sets(container: Node, name: str) -> bool:
    env = container.get("env")
    return any(item.string("name") == name for item in (env.items if env is not None else ()))


def _surroundings(spec: Node) -> Mapping[str, Any]:
    """An annotation of a part that gives its pods RDMA devices."""
    notes = spec.get("annotations")
    for key, value in notes.entries() if notes is not None else ():
        if RDMA_NOTES.fullmatch(key.value):
            return {"rdma": Known.of(f"annotation {key.value}", value.origin, how="derived")}
    return MappingProxyType({})


def _derived(facts: LayoutFacts) -> LayoutFacts:
    """Sizes that come from the number of GPUs are not stated."""
    changed: dict[str, Known[Any]] = {}
    for item in fields(LayoutFacts):
        fact: Known[Any] = getattr(facts, item.name)
        if ome.NO_CLASS in fact.assumes:
            changed[item.name] = replace(fact, how="derived")
    return replace(facts, **changed) if changed else facts


def _overridden(node: Node) -> bool:
    formats = node.get("spec", "supportedModelFormats")
    return any(
        row.get("acceleratorConfig") is not None
        for row in (formats.items if formats is not None else ())
    )


_PATH = f"$({ome.MODEL_PATH})"


def _unnamed(plan: ServingPlan) -> ServingPlan:
    """The word for the model's folder is what the file says; which model that is, it does not."""
    words = (word for word in plan.argv if word.value == _PATH)
    word = next(words, None)
    if word is None or plan.model.is_known or plan.model.origin != word.place:
        return plan
    reason = "the model is the one that a service names"
    unknowns = tuple(item for item in plan.unknowns if item.field != "model")
    return replace(
        plan,
        model=Known.of(_PATH, word.place),
        shape_of=Known.unknown(reason, word.place),
        unknowns=unknowns,
    )
