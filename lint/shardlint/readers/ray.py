"""Ray: RayService, RayCluster and RayJob of KubeRay, and configurations of Ray Serve by themselves.

A RayService holds the configuration of Ray Serve as YAML in a string. Applications of Ray Serve LLM
say what they ask of the engine; those of somebody's own are told it by variables, so that what is
read there rests on an assumption.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from shardlint.plan import Fleet, Launch, Router, ServingPlan
from shardlint.platforms import kuberay
from shardlint.plugins import Problem, ReadContext, ReadResult
from shardlint.readers._ray_llm import Config
from shardlint.readers._ray_own import Own
from shardlint.readers._ray_place import Place, image_of
from shardlint.readers.inner_yaml import inner_yaml
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.plans import numbered, plan_of, processes
from shardlint.readers.pods import Owner, added, host_of
from shardlint.readers.ray_cluster import Cluster
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, YamlError, placeholder
from shardlint.source import Origin, Source

CLUSTERS: Mapping[str, tuple[str, ...]] = {
    "RayService": ("spec", "rayClusterConfig"),
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
}
GROUP = "ray.io"
ROLES = MappingProxyType({"prefill_config": "prefill", "decode_config": "decode"})
"""Arguments of an application whose prefill and decode run apart."""

_SERVE = re.compile(
    r"""["']?apiVersion["']?[ \t]*:[ \t]*["']?ray\.io/|["']?applications["']?[ \t]*:"""
)


class RayReader:
    """RayService, RayCluster, RayJob; `applications:` of Ray Serve."""

    name = "ray"
    kinds = ("RayService", "RayCluster", "RayJob", "Serve config")
    look: bytes | None = b"llm_configs"

    def accepts(self, source: Source) -> bool:
        return _SERVE.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        found = _Found()
        found.add(node, path, context)
        return found.result()


class _Found:
    """What an object holds: plans, with the routers in front of them."""

    def __init__(self) -> None:
        self.plans: list[tuple[ServingPlan, Router | None]] = []
        self.problems: list[Problem] = []

    def add(self, node: Node, path: str, context: ReadContext) -> None:
        group, kind = kind_of(node)
        if group == GROUP and kind in CLUSTERS:
            self._object(node, kind, path, context)
        elif not kind and not group and _is_list(node.get("applications")):
            self.plans += _serve_plans(Place(node, path, (node.span,)), context)

    def _object(self, node: Node, kind: str, path: str, context: ReadContext) -> None:
        keys = CLUSTERS[kind]
        below = "".join(f"/{key}" for key in keys)
        spec = node.get(*keys)
        cluster = None
        if spec is not None and spec.kind == "map":
            cluster = Cluster(spec, path + below, keys)
        owner = Owner(node=node, kind=kind, path=path, platform="kuberay", fleet=Fleet(whole=True))
        if cluster is not None:
            self.plans += [(plan, None) for plan in cluster.plans(owner, context)]
        if kind == "RayJob":
            self.plans += [(plan, None) for plan in _job(owner, cluster, context)]
        serve = node.get("spec", "serveConfigV2") if kind == "RayService" else None
        if serve is not None:
            self._serve(owner, serve, cluster, context)

    def _serve(
        self, owner: Owner, serve: Node, cluster: Cluster | None, context: ReadContext
    ) -> None:
        """The configuration is text; a map in its place is read too."""
        roots = [serve]
        if serve.kind == "scalar":
            try:
                roots = inner_yaml(serve)
            except YamlError as error:
                if placeholder(serve.value) is None:
                    origin = Origin(serve.source.name, error.span)
                    self.problems.append(Problem(origin, f"serveConfigV2: {error}"))
                return
        path = f"{owner.path}/spec/serveConfigV2"
        anchors = (owner.node.span, serve.span)
        for inner in roots[:1]:
            self.plans += _serve_plans(Place(inner, path, anchors, owner, cluster), context)

    def result(self) -> ReadResult:
        plans = tuple(numbered(plan for plan, _ in self.plans))
        routers = [
            replace(router, id=f"{plan.id}/router", backends=(plan.id,))
            for plan, (_, router) in zip(plans, self.plans, strict=True)
            if router is not None
        ]
        return ReadResult(plans=plans, routers=tuple(routers), problems=tuple(self.problems))


def _job(owner: Owner, cluster: Cluster | None, context: ReadContext) -> Iterator[ServingPlan]:
    """What a RayJob runs on its cluster."""
    entry = owner.node.get("spec", "entrypoint")
    head = cluster.head if cluster is not None else None
    if entry is None or entry.kind != "scalar" or cluster is None or head is None:
        return
    container = head.container
    if container is None:
        return
    shell = tuple(added(word, entry.origin) for word in ("sh", "-c"))
    placed = replace(
        owner,
        nodes=cluster.nodes(),
        devices=cluster.each(),
        placement={
            **head.shm(),
            **(cluster.card(context) if head.gpus.only == 0 else {}),
            "driver_devices": head.gpus,
            "capacity": cluster.capacity(),
        },
    )
    host = host_of(placed, head.spec, container, f"{owner.path}/spec/entrypoint", context)
    host = replace(host, origin=entry.origin, nodes=(entry,), name=owner.name)
    for process in processes((*shell, entry.text()), {}, entry.origin):
        launch = Launch(
            origin=process.origin,
            argv=process.argv,
            image=image_of(container),
            env=process.env,
        )
        plan = plan_of(launch, host, context)
        if plan is not None:
            yield plan


# ------------------------------------------------------------------------------- Ray Serve


def _is_list(node: Node | None) -> bool:
    return (
        node is not None and node.kind == "list" and any(i.pair("import_path") for i in node.items)
    )


def _serve_plans(place: Place, context: ReadContext) -> Iterator[tuple[ServingPlan, Router | None]]:
    found = place.root.get("applications")
    for index, app in enumerate(found.items if found is not None else ()):
        if app.kind != "map":
            continue
        path = f"{place.path}/applications/{index}"
        configs = list(_configs(place, app, path, context))
        for config in configs:
            if (plan := config.plan(context)) is not None:
                yield plan, config.router(plan)
        if not configs:
            own = Own(place, app, path)
            if (plan := own.plan(context)) is not None:
                yield plan, None


def _configs(place: Place, app: Node, path: str, context: ReadContext) -> Iterator[Config]:
    """The engines of an application of Ray Serve LLM."""
    args = app.get("args")
    listed = args.get("llm_configs") if args is not None else None
    for index, item in enumerate(listed.items if listed is not None else ()):
        config = _config(place, item, context)
        if config is not None:
            yield Config(place, app, config, item, f"{path}/args/llm_configs/{index}")
    built = kuberay.BUILDERS.fullmatch(app.string("import_path") or "")
    for key, role in ROLES.items() if built else ():
        part = args.get(key) if args is not None else None
        config = _config(place, part, context) if part is not None else None
        if part is not None and config is not None:
            yield Config(place, app, config, part, f"{path}/args/{key}", role)


def _config(place: Place, item: Node, context: ReadContext) -> Node | None:
    """The configuration of an engine, or that in the file whose path stands in its place.

    In a cluster that path is one of its image, so that it is looked for beside a file only.
    """
    if item.kind == "map":
        return item
    if item.kind != "scalar" or place.owner is not None or placeholder(item.value):
        return None
    other = context.files.beside(item.source, item.value)
    if other is None:
        return None
    roots, failed = read_yaml(other)
    return roots[0] if failed is None and roots and roots[0].kind == "map" else None
