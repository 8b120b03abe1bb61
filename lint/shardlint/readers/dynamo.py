"""NVIDIA Dynamo: the components of a DynamoGraphDeployment, and DynamoComponentDeployment.

Both shapes: `spec.services` of v1alpha1, with `extraPodSpec.mainContainer` and the plain resource
`gpu`, and `spec.components` of v1beta1, with a `podTemplate`. One component that runs an engine is
one plan. A replica of it is `multinode.nodeCount` pods.

Sources: manifests, section 5; platforms, section 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Fleet, LayoutFacts, Releases, Remark, Router, ServingPlan, Site
from shardlint.platforms import dynamo
from shardlint.platforms.dynamo import Asked
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._dynamo_router import Frontend
from shardlint.readers._pod import SHM, UNITS, quantity
from shardlint.readers.edits import SizeSite, TextSite
from shardlint.readers.keyed import KeySite, PathSite
from shardlint.readers.mounted import extra_words
from shardlint.readers.objects import kind_of, read_objects, siblings
from shardlint.readers.plans import numbered, processes
from shardlint.readers.pods import (
    RESOURCES,
    Owner,
    added,
    container_plans,
    devices,
    environment,
    holes_of,
    of_units,
)
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Origin, Source

_KIND = re.compile(r"Dynamo(?:Graph|Component)Deployment\b")

NAME = "dynamo"
MAIN = "main"
"""The name of the container that the operator takes for the component's own."""

FILES = ("--extra-engine-args", "--engine-configs", "--engine_configs")
"""Options of `dynamo.trtllm` that name a file of options."""

MODE = "--disaggregation-mode"
ROLES = ("prefill", "decode", "encode")


class DynamoReader:
    """Objects of the kinds DynamoGraphDeployment and DynamoComponentDeployment."""

    name = "dynamo"
    kinds = (
        "DynamoGraphDeployment v1alpha1",
        "DynamoGraphDeployment v1beta1",
        "DynamoComponentDeployment",
    )
    look: bytes | None = b"Dynamo"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        found = list(components(node, path))
        plans = tuple(numbered(plan for each in found for plan in _plans(each, context)))
        return ReadResult(plans=plans, routers=tuple(_routers(found, plans)))


# --------------------------------------------------------------------------------- components


@record(kw_only=True)
class Component:
    """One component of a graph: its map, where it stands, and the object around it.

    `older` tells the shape of v1alpha1. `metadata` are the keys from the object to what holds the
    metadata of the pods. `shared` are lists of variables that all components get,
    those that count less first.
    """

    object: Node
    kind: str
    name: str
    node: Node
    path: str
    older: bool
    metadata: tuple[str | int, ...] = ()
    shared: tuple[Node, ...] = ()
    framework: str | None = None

    @property
    def type(self) -> str:
        return (self.node.string("componentType" if self.older else "type") or "").lower()

    @property
    def pod(self) -> Node | None:
        """The pod spec, as far as it is given."""
        path = ("extraPodSpec",) if self.older else ("podTemplate", "spec")
        return self.node.get(*path)

    @property
    def place(self) -> Origin:
        """Its name, or what stands first in it."""
        named = self.node.get("name")
        if named is not None:
            return named.origin
        return self.node.pairs[0][0].origin if self.node.pairs else self.node.origin

    def main(self) -> tuple[Node, str] | None:
        """The component's own container, and its path below the component."""
        if self.older:
            found = self.node.get("extraPodSpec", "mainContainer")
            return (found, "/extraPodSpec/mainContainer") if _is_map(found) and found else None
        listed = self.node.get("podTemplate", "spec", "containers")
        for index, item in enumerate(listed.items if listed is not None else ()):
            if item.kind == "map" and item.string("name") == MAIN:
                return item, f"/podTemplate/spec/containers/{index}"
        return None


def _is_map(node: Node | None) -> bool:
    return node is not None and node.kind == "map"


def components(node: Node, path: str) -> Iterator[Component]:
    """The components of an object of one of the two kinds."""
    group, kind = kind_of(node)
    spec = node.get("spec")
    if group != dynamo.GROUP or spec is None or spec.kind != "map":
        return
    older = (node.string("apiVersion") or "").endswith("v1alpha1")
    framework = _framework(spec)
    if kind == dynamo.COMPONENT:
        name = node.string("metadata", "name") or ""
        yield Component(
            object=node, kind=kind, name=name, node=spec, path=f"{path}/spec", older=older,
            metadata=() if older else ("spec", "podTemplate"), framework=framework,
        )  # fmt: skip
    if kind != dynamo.GRAPH:
        return
    common = spec.get("envs" if older else "env")
    for name, part, where in _parts(spec):
        below = "".join(f"/{step}" for step in where)
        yield Component(
            object=node, kind=kind, name=name, node=part, path=f"{path}/spec{below}", older=older,
            metadata=() if older else ("spec", *where, "podTemplate"),
            shared=(common,) if common is not None else (),
            framework=framework or dynamo.named_after(name),
        )  # fmt: skip


def _parts(spec: Node) -> Iterator[tuple[str, Node, tuple[str | int, ...]]]:
    services, listed = spec.get("services"), spec.get("components")
    if services is not None:
        for key, value in services.entries():
            if value.kind == "map":
                yield key.value, value, ("services", key.value)
    for index, item in enumerate(listed.items if listed is not None else ()):
        if item.kind == "map":
            yield item.string("name") or str(index), item, ("components", index)


def _framework(spec: Node) -> str | None:
    name = (spec.string("backendFramework") or "").lower()
    return name if name in dynamo.FRAMEWORKS else None


# --------------------------------------------------------------------------------------- plans


def _plans(of: Component, context: ReadContext) -> Iterator[ServingPlan]:
    found = of.main()
    if found is None or of.type in dynamo.SUPPORTING:
        return
    main, where = found
    maps = [item.node for item in siblings(context, "ConfigMap")]
    owner = _owner(of, main, maps)
    releases = context.platform(NAME)
    told = releases.how != "defaulted" and releases.only is not None
    as_read = told and str(releases.only) == dynamo.RELEASE
    for plan in container_plans(owner, of.pod, main, f"{of.path}{where}", context):
        plan = _joined(replace(plan, role=_role(of, plan)), of, main, releases)
        yield _without(plan, dynamo.AS_READ) if as_read else plan


def _without(plan: ServingPlan, sentence: str) -> ServingPlan:
    """The plan with what rests on a sentence no longer resting on it."""

    def settled(fact: Known[Any]) -> Known[Any]:
        return replace(fact, assumes=fact.assumes - {sentence})

    facts = {item.name: settled(getattr(plan.effective, item.name)) for item in fields(LayoutFacts)}
    shm = settled(plan.placement.shm_bytes)
    return replace(
        plan, effective=LayoutFacts(**facts), placement=replace(plan.placement, shm_bytes=shm)
    )


def _owner(of: Component, main: Node, maps: Sequence[Node]) -> Owner:
    shm, sites, remarks = _shared_memory(of, main)
    count, counting = _devices(of)
    fields: dict[str, Any] = dict(shm)
    if counting is not None:
        fields["device_kind"] = Known.of("gpu", counting)
    if (why := _env_from(of, main)) is not None:
        fields["env_open"] = why
    return Owner(
        node=of.object,
        kind=of.kind,
        path=of.path,
        title="/".join(part for part in (of.object.string("metadata", "name"), of.name) if part),
        pod=of.metadata,
        fleet=Fleet(replicas=integer(of.node.get("replicas"))),
        nodes=_nodes(of),
        devices=count,
        placement=fields,
        command=_command(of, main),
        more=extra_words(of.pod, main, maps, FILES),
        env=_environment(of, main),
        image=Known.unknown("no image is stated", main.origin),
        remarks=(*remarks, *_autoscaling(of)),
        sites=MappingProxyType({**_sites(of, main), **sites}),
        platform=NAME,
    )


def _role(of: Component, plan: ServingPlan) -> str | None:
    """What the component says, else the option of the engine, else its type."""
    stated = (of.node.string("subComponentType") or "").lower() if of.older else of.type
    if stated in ROLES:
        return stated
    words = [word.value or "" for word in plan.argv]
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        mode = value if equals else words[at + 1] if at + 1 < len(words) else ""
        if name == MODE and mode in ROLES:
            return mode
        if word in ("--is-prefill-worker", "--is-decode-worker"):
            return word.split("-")[3]
    return of.type or None


def _nodes(of: Component) -> Known[int]:
    stated = integer(of.node.get("multinode", "nodeCount"))
    if stated.only is not None and stated.only < 1:
        return Known.unknown(f"{stated.only} is no number of nodes", stated.origin)
    return stated


def _command(of: Component, main: Node) -> tuple[Text, ...]:
    """The engine of the graph, where a container has options and nothing that they belong to."""
    arguments = main.get("args")
    if of.framework is None or arguments is None or main.get("command") is not None:
        return ()
    first = arguments.items[0].value if arguments.items else arguments.value
    if not first.startswith("-"):
        return ()
    words = ("python3", "-m", dynamo.MODULES[of.framework])
    return tuple(added(word, arguments.origin) for word in words)


# ------------------------------------------------------------------------------------- routers


def _routers(found: Sequence[Component], plans: Sequence[ServingPlan]) -> Iterator[Router]:
    """The frontends of graphs; prefill workers get their requests from elsewhere."""
    for of in found:
        if of.kind != dynamo.GRAPH or of.type != dynamo.FRONTEND:
            continue
        graph = of.path.split("/spec/", 1)[0]
        behind = [plan for plan in plans if plan.path.startswith(f"{graph}/spec/")]
        stated, words = _stated_mode(of)
        policy = _mode(stated) if stated is not None else None
        yield Frontend(
            of=of,
            policy=policy or Known.of(dynamo.DEFAULT_ROUTING, how="defaulted"),
            stated=stated,
            words=words,
            plans=behind,
            workers=_containers(found, behind),
        ).router()


def _containers(found: Sequence[Component], plans: Sequence[ServingPlan]) -> dict[str, Node]:
    """The container of each plan."""
    places = {f"{of.path}{main[1]}": main[0] for of in found if (main := of.main()) is not None}
    return {plan.id: places[plan.path] for plan in plans if plan.path in places}


def _stated_mode(of: Component) -> tuple[Text | None, frozenset[str]]:
    """The option of the frontend, else the variable; and all words and variables that it has."""
    found = of.main()
    main = found[0] if found is not None else of.node
    env = dict(_environment(of, main))
    words: list[Text] = []
    if found is not None:
        env = environment(main, holes_of(main), env)
        rows = [row for key in ("command", "args") if (row := main.get(key)) is not None]
        words = [item.text() for row in rows for item in row.items or [row]]
    said: set[str] = set()
    for process in processes(words, env, main.origin):
        env = {**env, **process.env}
        texts = [word.value or "" for word in process.argv]
        said.update(text.partition("=")[0] for text in texts)
        for at, word in enumerate(texts):
            name, equals, _ = word.partition("=")
            if name == dynamo.ROUTER_VARIABLE and equals:
                env[name] = process.argv[at].part(len(name) + 1)
            elif name == dynamo.ROUTER_OPTION and (equals or at + 1 < len(texts)):
                value = process.argv[at]
                mode = value.part(len(name) + 1) if equals else process.argv[at + 1]
                return mode, frozenset({*texts, *env, *said})
    on = {name for name, text in env.items() if (text.value or "true").lower() not in OFF}
    return env.get(dynamo.ROUTER_VARIABLE), frozenset({*said, *on})


OFF = ("false", "0", "no", "off")


def _mode(text: Text) -> Known[str]:
    word = text.value
    if word is None:
        return text.known()
    if not re.fullmatch(r"[a-z-]+", word):
        return Known.unknown("the router mode is filled in elsewhere", text.place)
    return text.known()


# --------------------------------------------------------------------------------- environment


def _environment(of: Component, main: Node) -> Mapping[str, Text]:
    """Variables that the graph and the component give; the container's own win over them."""
    own = main.get("env")
    names = {item.string("name") for item in own.items} if own is not None else set()
    lists = [*of.shared, *((of.node.get("envs"),) if of.older else ())]
    found: dict[str, Text] = {}
    for listed in lists:
        for item in listed.items if listed is not None else ():
            if (name := item.string("name")) is not None and name not in names:
                found[name] = _value(item, name)
    return MappingProxyType(found)


def _value(item: Node, name: str) -> Text:
    value = item.get("value")
    if value is None:
        return Text.unknown(item.origin, f"{name} comes from another object")
    if "$(" in value.value:
        return Text.unknown(value.origin, f"{name} is put together of other variables")
    return value.text()


def _env_from(of: Component, main: Node) -> str | None:
    if of.older and of.node.get("envFromSecret") is not None:
        return "envFromSecret adds more"
    return "envFrom adds more" if main.get("envFrom") is not None else None


# ------------------------------------------------------------------------------------- devices


def _devices(of: Component) -> tuple[Known[Any], Origin | None]:
    """GPUs of a pod by the plain resource `gpu` of v1alpha1, and the place that counts cards."""
    if not of.older:
        return Known.unset(), None
    rows = [of.node.get("resources", part) for part in ("limits", "requests")]
    kind = next(
        (row.get("gpuType") for row in rows if row is not None and row.get("gpuType")), None
    )
    found = next((row.get("gpu") for row in rows if row is not None and row.get("gpu")), None)
    if found is not None:
        if kind is not None and not RESOURCES.match(kind.value):
            return Known.unknown(f"{kind.value} does not count devices", kind.origin), None
        count = integer(found)
        if kind is not None:
            return of_units(count, kind.value), None
        return count, found.origin
    for row in rows:
        custom = row.get("custom") if row is not None else None
        for key, value in custom.entries() if custom is not None else ():
            if RESOURCES.match(key.value):
                return of_units(integer(value), key.value), None
    claims = of.node.get("resources", "claims")
    if claims is not None:
        return Known.unknown("the devices come from a resource claim", claims.origin), None
    return Known.unset(), None


def _first(rows: Sequence[Node | None], key: str) -> Node | None:
    found = [row.get(key) for row in rows if row is not None]
    return next((node for node in found if node is not None), None)


def _sites(of: Component, main: Node) -> Mapping[str, Site]:
    sites: dict[str, Site] = {
        "replicas": KeySite(of.node, "replicas"),
        "nodes": PathSite(of.node, ("multinode", "nodeCount")),
    }
    if of.older and devices(main)[0].is_unset:
        stated = [of.node.get("resources", part, "gpu") for part in ("limits", "requests")]
        texts = tuple(node.text() for node in stated if node is not None)
        place = PathSite(of.node, ("resources", "limits", "gpu"))
        sites["gpus_per_pod"] = TextSite(texts) if texts else place
    return sites


# ------------------------------------------------------------------------------- shared memory


def _shared_memory(
    of: Component, main: Node
) -> tuple[Mapping[str, Any], Mapping[str, Site], tuple[Remark, ...]]:
    """The volume that the operator mounts on /dev/shm, the site of its size, what it replaces."""
    pod = of.pod
    if pod is not None and (pod.string("hostIPC") or "").lower() == "true":
        return {}, {}, ()
    path = ("sharedMemory", "size") if of.older else ("sharedMemorySize",)
    size = of.node.get(*path)
    if _switched_off(of, size):
        return {}, {}, ()
    if size is not None:
        asked, site = quantity(size), SizeSite(TextSite((size.text(),)), UNITS)
    else:
        default: Known[int] = Known.of(dynamo.SHM_BYTES, how="defaulted")
        asked, site = default.assuming(dynamo.AS_READ), SizeSite(PathSite(of.node, path), UNITS)
    return {"shm_bytes": asked, "shm_ample": False}, {"shm_bytes": site}, _replaced(of, main, size)


def _switched_off(of: Component, size: Node | None) -> bool:
    if of.older:
        return (of.node.string("sharedMemory", "disabled") or "").lower() == "true"
    return size is not None and quantity(size).only == 0


def _replaced(of: Component, main: Node, size: Node | None) -> tuple[Remark, ...]:
    mounts = main.get("volumeMounts")
    key = "sharedMemory.size" if of.older else "sharedMemorySize"
    what = f"a memory volume of {size.value if size is not None else '8Gi'}"
    for row in mounts.items if mounts is not None else ():
        path = row.get("mountPath")
        if path is not None and path.value.rstrip("/") == SHM:
            remark = Remark(
                kind="ignored", severity="warning", at=path.origin,
                message=f"the Dynamo operator drops this mount: it puts {what} on {SHM}",
                help=f"set the size with `{key}`",
            )  # fmt: skip
            return (remark,)
    return ()


def _autoscaling(of: Component) -> Iterator[Remark]:
    found = of.node.pair("autoscaling") if of.older else None
    if found is not None and found[1].kind == "map" and found[1].pairs:
        yield Remark(
            kind="ignored", severity="warning", at=found[0].origin,
            message="the Dynamo operator takes no notice of `autoscaling`",
            help="`scalingAdapter` lets an autoscaler change the replicas",
        )  # fmt: skip


# ---------------------------------------------------------------------------- several pods each


def _joined(plan: ServingPlan, of: Component, main: Node, releases: Known[Releases]) -> ServingPlan:
    """With what the operator does to make one engine of the pods of a replica."""
    nodes = plan.placement.pods_per_group
    if nodes.is_unset or nodes.only == 1:
        return plan
    if plan.engine == "sglang" and plan.layout.nnodes.is_unset:
        told = nodes.map(lambda count: count, "derived")
        return replace(plan, effective=replace(plan.effective, nnodes=told))
    if plan.engine == "trtllm":
        told = nodes.map(lambda count: count, "derived")
        return _effective(plan, nnodes=told, executor=Known.of(dynamo.MPI, how="derived"))
    if plan.engine != "vllm" or _by_itself(plan):
        return plan
    return _spread(plan, of, main, releases)


def _by_itself(plan: ServingPlan) -> bool:
    """The command line says itself how the pods are joined.

    The executor that the operator adds for several nodes says nothing of them by itself.
    """
    layout = plan.layout
    stated = (layout.nnodes, layout.dp_local, layout.dp_rank)
    joined = any(flag.flag in dynamo.JOINING for flag in plan.flags)
    added = layout.executor.is_unset or layout.executor.only == dynamo.EXECUTOR
    return joined or not added or not all(fact.is_unset for fact in stated)


def _reaches(releases: Known[Releases], since: str) -> bool:
    return not releases.is_known or any(span.meets(since, None) for span in releases.values)


def _spread(plan: ServingPlan, of: Component, main: Node, releases: Known[Releases]) -> ServingPlan:
    nodes, gpus = plan.placement.pods_per_group, plan.placement.gpus_per_pod
    read = _read_by_operator(main)
    if nodes.only is None or not isinstance(gpus.only, int) or read is None:
        why = gpus.reason if not gpus.is_known else nodes.reason
        return _effective(plan, nnodes=Known.unknown(why or "the arguments are not all known"))
    how = dynamo.spread(read, gpus.only)
    remark = _not_joined(plan, read, how, nodes, gpus.only)
    if remark is not None:
        plan = replace(plan, remarks=(*plan.remarks, remark))
    if how == "nodes":
        return _over_nodes(plan, of, releases)
    if how == "elastic":
        return _effective(plan, executor=_derived("ray"))
    if how == "hybrid":
        local = dynamo.local_ranks(read, gpus.only)
        return _effective(plan, dp_local=_derived(local), nnodes=_derived(1))
    return _effective(plan, nnodes=_derived(1))


def _over_nodes(plan: ServingPlan, of: Component, releases: Known[Releases]) -> ServingPlan:
    """One engine over all pods: by its own processes, or by Ray, as older operators do."""
    asked = _note(of, dynamo.EXECUTOR_NOTE)
    if asked == "ray" or (asked != "mp" and not _reaches(releases, dynamo.PROCESSES_SINCE)):
        return _effective(plan, executor=_derived("ray"))
    count = plan.placement.pods_per_group.map(lambda value: value, "derived")
    if asked != dynamo.EXECUTOR:
        count = count.assuming(dynamo.MULTIPROCESSING)
    executor = _derived(dynamo.EXECUTOR, count.assumes)
    return _effective(plan, nnodes=count.assuming(dynamo.AS_READ), executor=executor)


def _derived(value: Any, assumes: frozenset[str] = frozenset()) -> Known[Any]:
    return Known.of(value, how="derived", assumes=(dynamo.AS_READ, *assumes))


def _effective(plan: ServingPlan, **fields: Known[Any]) -> ServingPlan:
    return replace(plan, effective=replace(plan.effective, **fields))


def _note(of: Component, name: str) -> str:
    """An annotation of the object, or of the component's pods."""
    own = of.object.string("metadata", "annotations", name)
    inner = ("extraPodMetadata",) if of.older else ("podTemplate", "metadata")
    return (of.node.string(*inner, "annotations", name) or own or "").lower()


def _read_by_operator(main: Node) -> Asked | None:
    """What the operator reads in the arguments as they are written, None with a template there."""
    arguments = main.get("args")
    items = (arguments.items or [arguments]) if arguments is not None else []
    if any(item.kind != "scalar" or "{{" in item.value for item in items):
        return None
    return dynamo.seen([item.value for item in items])


def _not_joined(
    plan: ServingPlan, read: Asked, how: str, nodes: Known[int], gpus: int
) -> Remark | None:
    """Pods that are asked for as one replica and that nothing makes one engine of."""
    if how != "apart" or gpus < 1:
        return None
    layout = plan.layout
    sizes = {name: _size(layout, name) for name in dynamo.OPTIONS}
    if None in sizes.values():
        return None
    wanted = Asked(elastic=read.elastic, **{k: v for k, v in sizes.items() if v is not None})
    apart = f"each of the {nodes.only} pods starts an engine of its own"
    unread = next((name for name, size in sizes.items() if size != getattr(read, name)), None)
    if unread is not None and dynamo.spread(wanted, gpus) != "apart":
        option = dynamo.OPTIONS[unread]
        at = getattr(layout, unread).origin or plan.origin
        return Remark(
            kind="ignored", severity="warning", at=at,
            message=f"the Dynamo operator reads {unread.upper()} {getattr(read, unread)} here, so"
            f" that {apart}: it looks for `{option}` and a number, as two words in `args`",
            help=f"write `{option} {sizes[unread]}` in `args`",
            related=((nodes.origin, "pods of a replica"),) if nodes.origin else (),
        )  # fmt: skip
    if unread is None and nodes.origin is not None:
        return Remark(
            kind="ignored", severity="warning", at=nodes.origin,
            message=f"the {nodes.only} pods of a replica are not joined: {_product(wanted)} fits"
            f" into one pod of {gpus} GPUs, so that {apart}",
            help="more replicas instead of more nodes",
        )  # fmt: skip
    return None


def _size(layout: LayoutFacts, name: str) -> int | None:
    fact: Known[Any] = getattr(layout, name)
    return 1 if fact.is_unset else fact.only


def _product(asked: Asked) -> str:
    sizes = (("TP", asked.tp), ("PP", asked.pp), ("DP", asked.dp))
    return " × ".join(f"{name} {size}" for name, size in sizes if size > 1) or "TP 1"
