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
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import (
    Device,
    Fleet,
    Launch,
    Placement,
    Refusal,
    Refused,
    Remark,
    Router,
    ServingPlan,
    Site,
)
from shardlint.platforms import kuberay
from shardlint.plugins import Problem, ReadContext, ReadResult
from shardlint.readers.edits import RefusedSite, add_entry
from shardlint.readers.inner_yaml import inner_yaml
from shardlint.readers.keyed import Keyed, KeySite, dashed
from shardlint.readers.plans import EDITABLE, Host, finished, plan_of, processes
from shardlint.readers.pods import Owner, added, host_of, kind_of, objects
from shardlint.readers.ray_cluster import Cluster, Group
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, YamlError, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Mapped, Origin, Source, Span

CLUSTERS: Mapping[str, tuple[str, ...]] = {
    "RayService": ("spec", "rayClusterConfig"),
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
}
GROUP = "ray.io"
ROLES = MappingProxyType({"prefill_config": "prefill", "decode_config": "decode"})
"""Arguments of an application whose prefill and decode run apart."""

KEYS = MappingProxyType(
    {
        "tp": "tensor_parallel_size",
        "pp": "pipeline_parallel_size",
        "dp": "data_parallel_size",
        "max_model_len": "max_model_len",
        "kv_cache_dtype": "kv_cache_dtype",
    }
)

_SERVE = re.compile(
    r"""["']?apiVersion["']?[ \t]*:[ \t]*["']?ray\.io/|["']?applications["']?[ \t]*:"""
)


class RayReader:
    """RayService, RayCluster, RayJob; `applications:` of Ray Serve."""

    name = "ray"
    look: bytes | None = b"llm_configs"

    def accepts(self, source: Source) -> bool:
        return _SERVE.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, failed = read_yaml(source)
        if failed is not None:
            return failed
        found = _Found()
        for index, root in enumerate(roots):
            for node, path in objects(root, f"{index}:"):
                found.add(node, path, context)
        return found.result()


class _Found:
    """What a file holds: plans, with the routers in front of them."""

    def __init__(self) -> None:
        self.plans: list[tuple[ServingPlan, Router | None]] = []
        self.problems: list[Problem] = []

    def add(self, node: Node, path: str, context: ReadContext) -> None:
        group, kind = kind_of(node)
        if group == GROUP and kind in CLUSTERS:
            self._object(node, kind, path, context)
        elif not kind and not group and _is_list(node.get("applications")):
            self.plans += _Serve(node, path, (node.span,)).plans(context)

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
            self.plans += _Serve(inner, path, anchors, owner, cluster).plans(context)

    def result(self) -> ReadResult:
        plans = finished(plan for plan, _ in self.plans)
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
        placement={**head.shm(), "driver_devices": head.gpus},
    )
    host = host_of(placed, head.spec, container, f"{owner.path}/spec/entrypoint", context)
    host = replace(host, origin=entry.origin, nodes=(entry,), name=owner.name)
    for process in processes((*shell, entry.text()), {}, entry.origin):
        launch = Launch(
            origin=process.origin,
            argv=process.argv,
            image=_image(container),
            env=process.env,
        )
        plan = plan_of(launch, host, context)
        if plan is not None:
            yield plan


# ------------------------------------------------------------------------------- Ray Serve


@record
class _Serve:
    """One configuration of Ray Serve, and the cluster that it runs on where that is known."""

    root: Node
    path: str
    anchors: tuple[Span, ...]
    owner: Owner | None = None
    cluster: Cluster | None = None

    def plans(self, context: ReadContext) -> Iterator[tuple[ServingPlan, Router | None]]:
        found = self.root.get("applications")
        for index, app in enumerate(found.items if found is not None else ()):
            if app.kind != "map":
                continue
            path = f"{self.path}/applications/{index}"
            configs = list(self._configs(app, path, context))
            for config in configs:
                if (plan := config.plan(context)) is not None:
                    yield plan, config.router(plan)
            if not configs:
                own = _Own(self, app, path)
                if (plan := own.plan(context)) is not None:
                    yield plan, None

    def _configs(self, app: Node, path: str, context: ReadContext) -> Iterator[_Config]:
        """The engines of an application of Ray Serve LLM."""
        args = app.get("args")
        listed = args.get("llm_configs") if args is not None else None
        for index, item in enumerate(listed.items if listed is not None else ()):
            config = self._config(item, context)
            if config is not None:
                yield _Config(self, app, config, item, f"{path}/args/llm_configs/{index}")
        built = kuberay.BUILDERS.fullmatch(app.string("import_path") or "")
        for key, role in ROLES.items() if built else ():
            part = args.get(key) if args is not None else None
            config = self._config(part, context) if part is not None else None
            if part is not None and config is not None:
                yield _Config(self, app, config, part, f"{path}/args/{key}", role)

    def _config(self, item: Node, context: ReadContext) -> Node | None:
        """The configuration of an engine, or that in the file whose path stands in its place.

        In a cluster that path is one of its image, so that it is looked for beside a file only.
        """
        if item.kind == "map":
            return item
        if item.kind != "scalar" or self.owner is not None or placeholder(item.value):
            return None
        other = context.files.beside(item.source, item.value)
        if other is None:
            return None
        roots, failed = read_yaml(other)
        return roots[0] if failed is None and roots and roots[0].kind == "map" else None

    def host(
        self, app: Node, at: Node, path: str, group: Group | None, context: ReadContext
    ) -> Host:
        """What surrounds an engine that Ray Serve starts in the pods of a group."""
        title = app.string("name") or "application"
        owner = self.owner
        parts = (owner.namespace, owner.name) if owner is not None else (None, None)
        name = "/".join(part for part in (*parts, title) if part)
        if owner is None or group is None or group.container is None:
            host = Host(
                source=self.root.source, kind="ray-serve", name=name, path=path, origin=at.origin
            )
        else:
            placed = replace(owner, placement=group.shm(), remarks=tuple(group.remarks()))
            host = host_of(placed, group.spec, group.container, path, context)
        return replace(
            host,
            kind=owner.kind if owner is not None else "ray-serve",
            name=name,
            origin=at.origin,
            anchors=(*self.anchors, app.span),
            nodes=(),
            labels=MappingProxyType({}),
            namespace=owner.namespace if owner is not None else None,
            suppressed=owner.suppressed() if owner is not None else host.suppressed,
            platform="kuberay" if owner is not None else "ray-serve",
        )

    def placement(self, placement: Placement, groups: tuple[Group, ...]) -> Placement:
        """Ray, and not the scheduler of the pods, finds places for the ranks."""
        cluster = self.cluster
        if cluster is None:
            return placement
        kinds = {group.gpus.origin for group in groups}
        return replace(
            placement,
            pods_per_group=cluster.nodes(),
            gpus_per_pod=cluster.each(groups),
            capacity=cluster.capacity() if kinds else Known.unset(),
            device_ids=Known.unset(),
            scheduled=False,
        )

    def groups(self, wanted: Known[Device], context: ReadContext) -> tuple[Group, ...]:
        """Groups with devices; of several, those whose card can be the one that is asked for."""
        found = self.cluster.with_gpus if self.cluster is not None else ()
        names = {device.name for device in wanted.values}
        if len(found) < 2 or not names or self.owner is None:
            return found
        fit = []
        for group in found:
            if group.container is None:
                return found
            host = host_of(self.owner, group.spec, group.container, "", context)
            cards = {device.name for device in host.placement.gpu.values}
            if not cards or cards & names:
                fit.append(group)
        return tuple(fit) or found


def _image(container: Node | None) -> Known[str]:
    node = container.get("image") if container is not None else None
    if node is None:
        return Known.unset()
    reason = placeholder(node.value)
    return Known.unknown(reason, node.origin) if reason else node.text().known()


def _is_list(node: Node | None) -> bool:
    return (
        node is not None and node.kind == "list" and any(i.pair("import_path") for i in node.items)
    )


def _fleet(deployment: Node | None) -> tuple[Fleet, dict[str, Site]]:
    """Replicas of a deployment: stated, or the bounds between which Serve scales."""
    if deployment is None:
        return Fleet(whole=True), {}
    sites: dict[str, Site] = {}
    scaling = deployment.get("autoscaling_config")
    if (stated := deployment.get("num_replicas")) is not None:
        sites["replicas"] = KeySite(deployment, "num_replicas")
        if scaling is None:
            return Fleet(replicas=integer(stated), whole=True), sites
    if scaling is None or scaling.kind != "map":
        return Fleet(whole=True), sites
    low, high = (integer(scaling.get(key)) for key in ("min_replicas", "max_replicas"))
    sites |= {
        "replicas": KeySite(scaling, "min_replicas"),
        "max_replicas": KeySite(scaling, "max_replicas"),
    }
    return Fleet(replicas=low, max_replicas=high, whole=True), sites


# --------------------------------------------------------------------------- Ray Serve LLM


@record
class _Config:
    """One `LLMConfig`; `item` is what stands for it in the list of the application."""

    serve: _Serve
    app: Node
    node: Node
    item: Node
    path: str
    role: str | None = None

    @property
    def kwargs(self) -> Node | None:
        found = self.node.get("engine_kwargs")
        return found if found is not None and found.kind == "map" else None

    @property
    def model(self) -> Node | None:
        """Where the model comes from: its source, the mirror of it, else its id."""
        source = self.node.get("model_loading_config", "model_source")
        if source is not None and source.kind == "map":
            source = source.get("bucket_uri")
        found = source or self.node.get("model_loading_config", "model_id")
        return found if found is not None and found.kind == "scalar" else None

    def plan(self, context: ReadContext) -> ServingPlan | None:
        model = self.model
        engine = (self.node.string("llm_engine") or "vLLM").lower()
        if model is None or engine != "vllm" or self.node.get("server_cls") is not None:
            return None
        label, card = self._card(context)
        groups = self.serve.groups(card, context)
        group = groups[0] if groups else None
        host = self.serve.host(self.app, model, self.path, group, context)
        fleet, more = _fleet(self.node.get("deployment_config"))
        placement = self.serve.placement(host.placement, groups)
        if label.is_known:
            placement = replace(placement, gpu_label=label, gpu=_narrowed(card, placement.gpu))
        if self.node.get("placement_group_config") is not None:
            placement = replace(placement, capacity=Known.unset())
        if (self.node.string("use_cpu") or "").lower() == "true":
            placement = replace(placement, wants_gpu=False)
        devices = self.serve.cluster.sites(groups) if self.serve.cluster is not None else {}
        host = replace(
            host,
            placement=placement,
            fleet=fleet,
            role=self.role,
            anchors=(*host.anchors, self.item.span),
            effective={"executor": self._executor()},
            name=self._name(host.name),
            remarks=(*host.remarks, *self.remarks(), *self._packed(group)),
            sites={**host.sites, **more, **devices},
            written={name: _site(self.node, key) for name, key in KEYS.items()},
        )
        launch = Launch(
            origin=model.origin,
            argv=(*self._start(model), *Keyed(option=_option, off="negate").words(self.kwargs)),
            image=_image(group.container) if group is not None else Known.unset(),
        )
        plan = plan_of(launch, host, context)
        return _as_arguments(plan, self.node) if plan is not None else None

    def _name(self, name: str) -> str:
        """The name by which the model is asked for, in place of the application's."""
        served = self.node.string("model_loading_config", "model_id")
        above = name.rpartition("/")[0]
        return "/".join(part for part in (above, served or name.rpartition("/")[2]) if part)

    def _start(self, model: Node) -> tuple[Text, ...]:
        words = tuple(added(word, model.origin) for word in ("vllm", "serve"))
        return (*words, model.text())

    def _executor(self) -> Known[Any]:
        """Ray places the ranks in bundles; another executor is refused."""
        stated = self.kwargs.get(kuberay.EXECUTOR) if self.kwargs is not None else None
        if stated is not None and stated.value != "ray":
            return Known.unknown("Ray Serve LLM takes no other executor than ray", stated.origin)
        return Known.of("ray", stated.origin if stated is not None else None, how="derived")

    def _card(self, context: ReadContext) -> tuple[Known[str], Known[Device]]:
        node = self.node.get("accelerator_type")
        if node is None or node.kind != "scalar":
            return Known.unset(), Known.unset()
        if (reason := placeholder(node.value)) is not None:
            return Known.unknown(reason, node.origin), Known.unset()
        return node.text().known(), context.device(kuberay.card(node.value))

    # -------------------------------------------------------------------------------- remarks

    def remarks(self) -> Iterator[Remark]:
        yield from self._forbidden()
        yield from self._bundles()

    def _forbidden(self) -> Iterator[Remark]:
        """Keys that Ray Serve LLM refuses where they stand."""
        kwargs, deployment = self.kwargs, self.node.get("deployment_config")
        for key in kuberay.NAMED_APART if kwargs is not None else ():
            if (found := kwargs.pair(key) if kwargs is not None else None) is not None:
                yield _conflict(
                    found[0].origin, f"Ray Serve LLM refuses {key} in engine_kwargs",
                    "name the model in model_loading_config",
                )  # fmt: skip
        stated = kwargs.pair(kuberay.EXECUTOR) if kwargs is not None else None
        if stated is not None and stated[1].value != "ray" and not placeholder(stated[1].value):
            yield _conflict(
                stated[1].origin,
                f"Ray Serve LLM refuses {kuberay.EXECUTOR} {stated[1].value} on GPUs",
                "leave it out: Ray places the ranks",
            )
        for key in ("placement_group_bundles", "placement_group_strategy"):
            if deployment is not None and (found := deployment.pair(key)) is not None:
                yield _conflict(
                    found[0].origin, f"Ray Serve LLM refuses {key} in deployment_config",
                    "write it as placement_group_config",
                )  # fmt: skip

    def _bundles(self) -> Iterator[Remark]:
        placed = self.node.get("placement_group_config")
        if placed is None or placed.kind != "map":
            return
        bundles, each = placed.pair("bundles"), placed.pair("bundle_per_worker")
        if bundles is not None and each is not None:
            yield _conflict(
                each[0].origin, "bundles and bundle_per_worker exclude one another", "leave one out"
            )
        elif bundles is None and each is None and placed.pairs:
            yield _conflict(
                placed.pairs[0][0].origin,
                "placement_group_config without bundles is refused",
                "bundle_per_worker, or bundles",
            )
        elif bundles is not None:
            yield from self._counted(bundles[1])

    def _counted(self, bundles: Node) -> Iterator[Remark]:
        """Nothing compares the bundles with the ranks that are to run in them."""
        counts = [integer(bundle.get("GPU")).only for bundle in bundles.items]
        sizes = [self._size(key) for key in (KEYS["tp"], KEYS["pp"])]
        if None in counts or None in sizes or not counts or self._size(KEYS["dp"]) != 1:
            return
        offered, asked = sum(filter(None, counts)), (sizes[0] or 1) * (sizes[1] or 1)
        if offered != asked:
            yield _conflict(
                bundles.items[0].origin,
                f"the bundles hold {offered} GPUs, TP {sizes[0]} × PP {sizes[1]} is {asked}",
                f"{asked} bundles of one GPU",
            )

    def _packed(self, group: Group | None) -> Iterator[Remark]:
        """STRICT_PACK keeps all ranks on one node, which must have a GPU for each."""
        placed = self.node.get("placement_group_config")
        node = kuberay.strategy_key(tuple(k.value for k, _ in placed.pairs)) if placed else None
        value = placed.get(node) if placed is not None and node is not None else None
        sizes = [self._size(key) for key in (KEYS["tp"], KEYS["pp"])]
        if value is None or value.value != kuberay.ONE_NODE or group is None or None in sizes:
            return
        asked, each = (sizes[0] or 1) * (sizes[1] or 1), group.gpus.only
        alike = self.serve.cluster is not None and len(self.serve.cluster.with_gpus) == 1
        if alike and isinstance(each, int) and each < asked:
            yield _conflict(
                value.origin,
                f"{kuberay.ONE_NODE} keeps {asked} GPUs on one node, a pod has {each}: it never"
                " finds one",
                "PACK, or pods with more GPUs",
            )

    def _size(self, key: str) -> int | None:
        node = self.kwargs.get(key) if self.kwargs is not None else None
        return 1 if node is None else integer(node).only

    def router(self, plan: ServingPlan) -> Router:
        """Serve chooses among the replicas of a deployment."""
        key = ("deployment_config", "request_router_config", "request_router_class")
        named = self.node.get(*key)
        word = named.value if named is not None and named.is_string else None
        unknown = placeholder(word) if word is not None else None
        policy, awareness = kuberay.policy(None if unknown else word)
        origin = named.origin if named is not None else plan.fleet.replicas.origin or plan.origin
        return Router(
            id="",
            name=plan.name,
            kind="ray-serve",
            file=plan.file,
            path=plan.path,
            origin=origin,
            namespace=plan.namespace,
            policy=Known.unknown(unknown, origin)
            if unknown
            else Known.of(policy, origin, how="defaulted" if word is None else "stated"),
            explicit=word is not None,
            awareness=awareness,
            anchors=plan.anchors,
            suppressed=plan.suppressed,
        )


def _conflict(origin: Origin, message: str, help: str) -> Remark:
    return Remark(kind="conflict", at=origin, message=message, severity="warning", help=help)


def _option(key: str) -> str | None:
    return None if key in kuberay.NAMED_APART else dashed(key)


def _narrowed(asked: Known[Device], labelled: Known[Device]) -> Known[Device]:
    """The card that the nodes' labels name, where it is one of those that are asked for."""
    names = {device.name for device in asked.values}
    same = labelled.is_known and all(device.name in names for device in labelled.values)
    return labelled if same else asked


@record
class _Nested:
    """A key in `engine_kwargs` that is not there at all."""

    node: Node
    key: str

    def set(self, value: str) -> list[Edit] | Refusal:
        return add_entry(self.node, "engine_kwargs", {self.key: value})


def _site(config: Node, key: str) -> Site:
    found = config.pair("engine_kwargs")
    if found is not None:
        return KeySite(found[1], key)
    if any(own.value == "engine_kwargs" for own, _ in config.pairs):
        return RefusedSite("engine_kwargs is written without a value")
    return _Nested(config, key)


def _as_arguments(plan: ServingPlan, config: Node) -> ServingPlan:
    """Keys are no words of a command line: they are names of fields, in full.

    Which release of the engine the image holds is not known, so that only names which no release
    has are told of.
    """
    refused = [
        replace(item, certain=False, problem="Unknown engine argument", flag=None)
        for item in plan.refused
        if item.kind == "unknown" and item.when is None and not item.known
    ]
    short = [remark for remark in plan.remarks if remark.kind == "abbreviated"]
    for remark in short:
        flag = plan.flags[remark.flag] if remark.flag is not None else None
        if flag is not None and flag.flag is not None:
            refused.append(
                Refused(
                    kind="unknown", written=flag.written, at=remark.at, certain=False,
                    problem="Unknown engine argument", candidates=(flag.flag,),
                )
            )  # fmt: skip
    kept = tuple(item for item in plan.remarks if item.kind not in ("abbreviated", "redundant"))
    name = config.get("model_loading_config", "model_id")
    served = name.text().known() if name is not None and name.kind == "scalar" else Known.unset()
    return replace(plan, refused=tuple(refused), remarks=kept, served_name=served)


# ------------------------------------------------------------- applications of somebody's own


@record
class _Own:
    """An application that starts vLLM by its own code, told by variables what to ask for."""

    serve: _Serve
    app: Node
    path: str

    @property
    def env(self) -> Node | None:
        found = self.app.get("runtime_env", "env_vars")
        return found if found is not None and found.kind == "map" else None

    def plan(self, context: ReadContext) -> ServingPlan | None:
        model = self.env.get("MODEL_ID") if self.env is not None else None
        if model is None or model.kind != "scalar" or not self._is_vllm():
            return None
        groups = self.serve.groups(Known.unset(), context)
        group = groups[0] if groups else None
        host = self.serve.host(self.app, model, self.path, group, context)
        fleet, more = _fleet(self._deployment())
        placement = self.serve.placement(host.placement, groups)
        devices = self.serve.cluster.sites(groups) if self.serve.cluster is not None else {}
        why = "the application's own code places the ranks"
        host = replace(
            host,
            placement=replace(placement, capacity=Known.unset()),
            fleet=fleet,
            effective={"executor": Known.unknown(why)},
            release=self._release(),
            sites={**host.sites, **more, **devices},
            written=self._written(),
        )
        launch = Launch(
            origin=model.origin,
            argv=tuple(self._words(model)),
            image=_image(group.container) if group is not None else Known.unset(),
        )
        plan = plan_of(launch, host, context)
        return replace(plan, refused=(), remarks=host.remarks) if plan is not None else None

    def _is_vllm(self) -> bool:
        """Its packages, its module, the name of its deployment, or the image name the engine."""
        found = self.app.get("deployments")
        names = [node.string("name") for node in (found.items if found is not None else ())]
        cluster = self.serve.cluster
        images = [_image(group.container).only for group in (cluster.groups if cluster else ())]
        words = [self.app.string("import_path"), self.app.string("name"), *names, *images]
        packaged = any(re.match(r"vllm\b", item.value) for item in self._packages())
        return packaged or any("vllm" in (word or "").lower() for word in words)

    def _packages(self) -> list[Node]:
        pip = self.app.get("runtime_env", "pip")
        if pip is not None and pip.kind == "map":
            pip = pip.get("packages")
        return [item for item in (pip.items if pip is not None else ()) if item.kind == "scalar"]

    def _release(self) -> Known[str]:
        for item in self._packages():
            if match := re.fullmatch(r"vllm(?:\[[^\]]*\])?==([\w.]+)", item.value.strip()):
                return item.text().part(match.start(1), match.end(1)).known()
        return Known.unset()

    def _deployment(self) -> Node | None:
        """The deployment with the engine: the only one, or the only one with a GPU."""
        found = self.app.get("deployments")
        items = [item for item in (found.items if found is not None else ()) if item.pairs]
        if len(items) > 1:
            items = [item for item in items if item.get("ray_actor_options", "num_gpus")]
        return items[0] if len(items) == 1 else None

    def _words(self, model: Node) -> Iterator[Text]:
        yield from (added(word, model.origin) for word in ("vllm", "serve"))
        yield _assumed(model.text(), "MODEL_ID", "--model")
        for key, value in self.env.entries() if self.env is not None else ():
            option = kuberay.OWN_VARIABLES.get(key.value)
            if option is None or value is model or value.kind != "scalar" or value.is_null:
                continue
            yield Text(Mapped.all_at(option, key.span), key.origin)
            yield _assumed(value.text(), key.value, option)

    def _written(self) -> Mapping[str, Site]:
        """Options are edited in their variables; what has none is the application's own matter."""
        assert self.env is not None
        sites: dict[str, Site] = {}
        for name in EDITABLE:
            keys = [
                key for key, option in kuberay.OWN_VARIABLES.items()
                if option == dashed(KEYS[name]) and self.env.get(key) is not None
            ]  # fmt: skip
            refused = RefusedSite("the application decides what to ask of the engine")
            sites[name] = KeySite(self.env, keys[0]) if len(keys) == 1 else refused
        return sites


def _assumed(text: Text, name: str, option: str) -> Text:
    if (reason := placeholder(text.value or "")) is not None:
        return Text.unknown(text.origin, reason)
    sentence = f"the application gives {name} to the engine as {option}"
    return replace(text, assumes=text.assumes | {sentence})
