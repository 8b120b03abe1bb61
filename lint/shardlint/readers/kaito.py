"""KAITO: Workspace and InferenceSet, with the options of the engine in a ConfigMap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Fleet, Launch, Placement, Remark, ServingPlan, Site
from shardlint.platforms import kaito
from shardlint.plugins import Problem, ReadContext, ReadResult
from shardlint.readers._vllm_options import OPTIONS
from shardlint.readers.edits import RefusedSite
from shardlint.readers.inner_yaml import inner_yaml
from shardlint.readers.keyed import Keyed, KeySite
from shardlint.readers.objects import elsewhere, kind_of, read_objects, siblings
from shardlint.readers.plans import Host, plan_of
from shardlint.readers.pods import Owner, added, pod_plans, string_map
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, YamlError, integer, placeholder
from shardlint.record import record
from shardlint.source import Origin, Source

GROUP = "kaito.sh"
BODIES: Mapping[str, tuple[str, ...]] = {"Workspace": (), "InferenceSet": ("spec", "template")}
"""Where `resource` and `inference` stand in an object."""

INSTANCE = "node.kubernetes.io/instance-type"
KEYS = MappingProxyType({field: name.removeprefix("--") for field, name in OPTIONS.items()})
ONE_NODE = "KAITO finds that one node holds the model"
STATED_NODES = "KAITO keeps the number of nodes that is stated"

_API = re.compile(r"kaito\.sh/")


class KaitoReader:
    """`Workspace` and `InferenceSet` of the group kaito.sh."""

    name = "kaito"
    kinds = ("Workspace", "InferenceSet")
    look: bytes | None = b"kaito.sh/"

    def accepts(self, source: Source) -> bool:
        return _API.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        group, kind = kind_of(node)
        body = node.get(*BODIES[kind]) if group == GROUP and kind in BODIES else None
        if body is None or body.get("inference") is None:
            return ReadResult()
        service = _Service(Owner(node=node, kind=kind, path=path), body)
        settings = service.settings(context)
        return ReadResult(plans=tuple(service.plans(settings, context)), problems=settings.problems)


@record(kw_only=True)
class _Settings:
    """The options in a ConfigMap: a map of them, or why there may be some that are not here."""

    options: Node | None = None
    elsewhere: Text | None = None
    problems: tuple[Problem, ...] = ()


@record
class _Service:
    owner: Owner
    body: Node

    @property
    def inference(self) -> Node:
        found = self.body.get("inference")
        assert found is not None
        return found

    def plans(self, settings: _Settings, context: ReadContext) -> Iterator[ServingPlan]:
        template = self.inference.get("template")
        if template is not None:
            yield from self._own(template, context)
        preset = self.inference.get("preset", "name")
        notes = string_map(self.owner.node.get("metadata", "annotations"))
        if preset is not None and preset.kind == "scalar" and kaito.runs_vllm(notes):
            plan = plan_of(
                self._launch(preset, settings), self._host(preset, settings, context), context
            )
            if plan is not None:
                yield _with_defaults(plan)

    def _own(self, template: Node, context: ReadContext) -> Iterator[ServingPlan]:
        """A pod of the user's own, which KAITO puts on its nodes."""
        spec = template.get("spec")
        if spec is None or spec.kind != "map":
            return
        body = BODIES[self.owner.kind]
        pod = (*body, "inference", "template")
        count = integer(self.body.get("resource", "count"))
        why = "how KAITO spreads such a pod over its nodes is not known"
        fleet = Fleet() if count.only in (None, 1) else Fleet(replicas=Known.unknown(why))
        owner = replace(self.owner, pod=pod, platform="kaito", fleet=fleet)
        path = self.owner.path + "".join(f"/{key}" for key in (*pod, "spec"))
        yield from pod_plans(owner, spec, path, context)

    # ------------------------------------------------------------------------------ settings

    def settings(self, context: ReadContext) -> _Settings:
        """The options of the ConfigMap that is named, in this file or in another."""
        named = self.inference.get("config")
        if named is None or named.kind != "scalar":
            return _Settings()
        found = next(self._named(named.value, context), None)
        text = found.get("data", kaito.CONFIG_KEY) if found is not None else None
        if text is None or text.kind != "scalar":
            why = f"ConfigMap {named.value} with {kaito.CONFIG_KEY} is not among the files"
            return _Settings(elsewhere=Text.unknown(named.origin, why, many=True))
        try:
            roots = inner_yaml(text)
        except YamlError as error:
            why = f"{kaito.CONFIG_KEY} of ConfigMap {named.value} is not YAML"
            origin = Origin(text.source.name, error.span)
            problem = Problem(origin, f"{kaito.CONFIG_KEY}: {error}")
            broken = () if placeholder(text.value) else (problem,)
            return _Settings(elsewhere=Text.unknown(named.origin, why, many=True), problems=broken)
        options = roots[0].get(kaito.ENGINE_KEY) if roots else None
        return _Settings(options=options if options is not None and options.pairs else None)

    def _named(self, name: str, context: ReadContext) -> Iterator[Node]:
        near, far = siblings(context, "ConfigMap"), elsewhere(context, "ConfigMap", name=name)
        for item in chain(near, far):
            if self._is(item.node, name):
                yield item.node

    def _is(self, node: Node, name: str) -> bool:
        same = node.string("metadata", "name") == name and node.string("kind") == "ConfigMap"
        space = node.string("metadata", "namespace") or "default"
        return same and space == (self.owner.namespace or "default")

    # --------------------------------------------------------------------------------- plans

    def _launch(self, preset: Node, settings: _Settings) -> Launch:
        words = [added(word, preset.origin) for word in ("vllm", "serve")]
        words += [preset.text(), *Keyed(off="negate").words(settings.options)]
        words += [settings.elsewhere] if settings.elsewhere is not None else []
        image: Known[str] = Known.unknown("KAITO chooses the image")
        return Launch(origin=preset.origin, argv=tuple(words), image=image)

    def _host(self, preset: Node, settings: _Settings, context: ReadContext) -> Host:
        owner = self.owner
        placement = self._placement(context)
        options = settings.options
        own = options is not None and options.source.name == self.body.source.name
        anchors = [owner.node.span, *([options.span] if options is not None and own else [])]
        replicas = integer(owner.node.get("spec", "replicas"))
        full = "/".join(part for part in (owner.namespace, owner.name) if part)
        return Host(
            source=preset.source,
            kind=owner.kind,
            name=full or "workspace",
            path=owner.path,
            origin=preset.origin,
            anchors=tuple(anchors),
            namespace=owner.namespace,
            placement=placement,
            fleet=Fleet(replicas=replicas, whole=True),
            platform="kaito",
            effective=self._effective(placement, settings),
            remarks=tuple(self._remarks()),
            suppressed=owner.suppressed(),
            written=_sites(options),
        )

    def _placement(self, context: ReadContext) -> Placement:
        """Nodes of one instance type, as many as KAITO finds to be enough."""
        resource = self.body.get("resource")
        node = resource.get("instanceType") if resource is not None else None
        count = integer(resource.get("count")) if resource is not None else Known[int].unset()
        one: Known[int] = Known.of(1, how="derived", assumes=(ONE_NODE,))
        nodes = count.assuming(STATED_NODES) if count.is_known else count.or_default(one)
        placed = Placement(
            pods_per_group=nodes, shm_ample=True, scope=self.owner.path, scheduled=True,
            node_labels=(MappingProxyType(dict(self._labels())),),
        )  # fmt: skip
        if node is None or node.kind != "scalar":
            return replace(placed, gpus_per_pod=self._partition(Known.unset()))
        if (reason := placeholder(node.value)) is not None:
            unknown: Known[Any] = Known.unknown(reason, node.origin)
            return replace(placed, gpus_per_pod=unknown, gpu_label=unknown)
        labels = {INSTANCE: (node.value,)}
        size = replace(context.node_size(labels), origin=node.origin, how="derived")
        size = size if size.is_known else Known.unset()
        return replace(
            placed,
            gpus_per_pod=self._partition(size),
            gpus_per_node=size,
            gpu_label=node.text().known(),
            gpu=context.labels(labels)[1],
            device_kind=Known.of("gpu", node.origin, how="derived"),
        )

    def _labels(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What the nodes must be labelled with: their type, and what the selector asks for."""
        wanted = string_map(self.body.get("resource", "labelSelector", "matchLabels"))
        if (kind := self.body.string("resource", "instanceType")) is not None:
            wanted = {**wanted, INSTANCE: kind}
        for key, value in wanted.items():
            yield key, (value,) if placeholder(value) is None else ()

    def _partition(self, size: Known[Any]) -> Known[Any]:
        part = self.body.get("resource", "partition")
        if part is None:
            return size
        if part.string("mode") == kaito.ACCELERATOR:
            return integer(part.get("count")).or_default(size)
        return Known.unknown("the pod gets a part of a card", part.origin)

    def _effective(self, placement: Placement, settings: _Settings) -> Mapping[str, Known[Any]]:
        """What KAITO asks for where the ConfigMap says nothing."""
        gpus, nodes = placement.gpus_per_pod, placement.pods_per_group
        given = settings.options
        stated = {
            name for name, key in KEYS.items()
            if given is not None and given.get(_spelled(given, key)) is not None
        }  # fmt: skip
        if gpus.only is None or nodes.only is None or settings.elsewhere is not None:
            why = "KAITO chooses it by the size of the model and the node"
            chosen: dict[str, Known[Any]] = dict.fromkeys(
                ("tp", "pp", "dp"), Known[Any].unknown(why)
            )
            chosen["executor"] = Known.unknown(why)
        else:
            split = kaito.split(int(gpus.only), nodes.only)
            assumes = gpus.assumes | nodes.assumes
            chosen = {name: _derived(getattr(split, name), assumes) for name in ("tp", "pp", "dp")}
            chosen["executor"] = Known.of(split.executor, how="derived", assumes=assumes)
        return {name: fact for name, fact in chosen.items() if name not in stated}

    def _remarks(self) -> Iterator[Remark]:
        """Nodes are counted by KAITO: a number that is stated is what it replaces."""
        found = self.body.get("resource")
        pair = found.pair("count") if found is not None else None
        if pair is not None and self.inference.get("preset") is not None:
            yield Remark(
                kind="ignored",
                at=pair[0].origin,
                message="KAITO computes itself how many nodes a preset needs; count is deprecated",
            )


def _derived(value: int | None, assumes: frozenset[str]) -> Known[Any]:
    if value is None:
        return Known.unknown("KAITO chooses it by the size of the weights")
    return Known.of(value, how="derived", assumes=assumes)


def _sites(options: Node | None) -> Mapping[str, Site]:
    if options is None:
        refused = RefusedSite("the settings of the engine are not in these files")
        return dict.fromkeys(KEYS, refused)
    return {name: KeySite(options, _spelled(options, key)) for name, key in KEYS.items()}


def _spelled(options: Node, key: str) -> str:
    """The key as it stands, with dashes or underscores."""
    other = key.replace("-", "_")
    return other if options.get(key) is None and options.get(other) is not None else key


def _with_defaults(plan: ServingPlan) -> ServingPlan:
    """What KAITO gives beside the user's options, as facts that are not stated."""
    card = plan.placement.gpu.only
    memory = plan.memory
    given = Known.of(kaito.share(card.name if card is not None else None), how="derived")
    why = "KAITO leaves the context to vLLM, which takes what fits"
    unset = plan.open_ended is None
    return replace(
        plan,
        memory=replace(
            memory,
            budget=replace(
                memory.budget,
                share=memory.budget.share.or_default(given) if unset else memory.budget.share,
            ),
            max_model_len=memory.max_model_len.or_default(Known.unknown(why)),
        ),
    )
