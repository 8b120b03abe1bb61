"""KServe's InferenceService with the runtime that it names, and runtimes on their own.

Formats: manifests, section 3; what KServe does with them: `platforms.kserve`. A runtime is joined
by its name, from the same file or another one of the run; then it is seen through the services that
use it. Where it is not among the files, its options are not known, and its engine only if its name
or the format of the model tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text, combine
from shardlint.plan import Fleet, Refusal, Refused, Remark, ServingPlan, Site, by_release
from shardlint.platforms import kserve
from shardlint.plugins import Absorbed, ReadContext, ReadResult
from shardlint.readers.edits import MadeSite, remove_item
from shardlint.readers.keyed import KeySite
from shardlint.readers.merged import joined, merged, with_entry, without
from shardlint.readers.objects import Object, elsewhere, kind_of, read_objects, siblings
from shardlint.readers.plans import ray_in
from shardlint.readers.pods import Owner, added, container_plans, devices, pod_plans
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Origin, Source

GROUP = "serving.kserve.io"
RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")

_LOOK = re.compile(r"serving\.kserve\.io/")

CONTAINER = "kserve-container"
WORKER = "worker-container"

NOT_OF_CONTAINER = (
    "name", "modelFormat", "runtime", "storageUri", "storage", "protocolVersion",
)  # fmt: skip
"""Keys of `predictor.model` beside those of a container."""

OF_POD = (
    "nodeSelector", "affinity", "tolerations", "volumes", "schedulerName", "resourceClaims",
)  # fmt: skip
"""Keys of a runtime that go into the pod."""

LATER = "an InferenceService may add options"


class KServeReader:
    """InferenceService, ServingRuntime, ClusterServingRuntime."""

    name = "kserve"
    kinds = ("InferenceService", "ServingRuntime", "ClusterServingRuntime")
    look: bytes | None = b"serving.kserve.io/"

    def accepts(self, source: Source) -> bool:
        return _LOOK.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        group, kind = kind_of(node)
        if group == GROUP and kind == "InferenceService":
            service = _Service(node, path, context)
            plans = tuple(service.plans())
            used = service.runtime if plans else None
            return ReadResult(plans=plans, absorbs=(used.absorbed,) if used is not None else ())
        if group == GROUP and kind in RUNTIMES:
            return ReadResult(plans=tuple(_runtime_plans(_Runtime(node, path), context)))
        return ReadResult()


# ------------------------------------------------------------------------------------ runtimes


@record
class _Runtime:
    """A runtime that is among the files."""

    node: Node
    path: str
    absorbed: Absorbed = Absorbed("")

    @property
    def spec(self) -> Node | None:
        return _map(self.node.get("spec"))

    @property
    def container(self) -> Node | None:
        return _container(self.spec, CONTAINER)

    @property
    def worker(self) -> Node | None:
        return _map(self.node.get("spec", "workerSpec"))

    @property
    def release(self) -> Known[str]:
        note = self.node.get("metadata", "annotations", kserve.RUNTIME_VERSION)
        if note is None or not note.is_string or placeholder(note.value):
            return Known.unset()
        return Known.of(note.value, note.text().place).assuming(
            f"the image has the release in annotation {kserve.RUNTIME_VERSION}"
        )


def _map(node: Node | None) -> Node | None:
    return node if node is not None and node.kind == "map" else None


def _container(spec: Node | None, name: str) -> Node | None:
    """The container of a name, else the first."""
    found = spec.get("containers") if spec is not None else None
    items = [item for item in found.items if item.kind == "map"] if found is not None else []
    named = [item for item in items if item.string("name") == name]
    return next(iter(named or items), None)


def _runtime_plans(runtime: _Runtime, context: ReadContext) -> Iterator[ServingPlan]:
    """A runtime of which no service is seen: what it says is a part of what will run."""
    spec, node = runtime.spec, runtime.container
    if spec is None or node is None:
        return
    worker = runtime.worker
    sizes = _Sizes.of(None, worker)
    owner = Owner(
        node=runtime.node,
        kind=kind_of(runtime.node)[1],
        path=runtime.path,
        role="head" if worker is not None else None,
        platform=kserve.NAME,
        release=runtime.release,
        env=MappingProxyType(dict(sizes.variables()) if worker is not None else {}),
        more=(Text.unknown(runtime.node.origin, LATER, many=True),),
    )
    path = f"{runtime.path}/spec/containers/{_index(spec, node)}"
    plans = list(container_plans(owner, spec, node, path, context))
    if not plans:  # its command is to be replaced: the image tells the engine
        bare = without(node, "command", "args")
        plans = list(container_plans(owner, spec, bare, path, context))
    for plan in plans:
        plan = _placed(plan, runtime.node.source)
        yield plan if worker is None else _grouped(plan, _LATER_NODES, None)


_LATER_NODES: Known[int] = Known.unknown("the InferenceService decides how many nodes there are")


def _index(spec: Node, node: Node) -> int:
    found = spec.get("containers")
    items = found.items if found is not None else []
    return next((at for at, item in enumerate(items) if item is node), 0)


def _grouped(plan: ServingPlan, nodes: Known[int], gpus: Known[int] | None) -> ServingPlan:
    """With the pods of one engine, which KServe knows and no script has to tell."""
    placement = replace(plan.placement, pods_per_group=nodes)
    if gpus is not None:
        placement = replace(placement, group_devices=gpus)
    return replace(plan, placement=placement)


def _found_runtime(
    name: str, service: Node, context: ReadContext
) -> tuple[_Runtime | None, str | None]:
    """The runtime of a name, nearest first; else why it is not known which one is meant."""
    space = service.string("metadata", "namespace")
    own = list(_named(siblings(context, *RUNTIMES), name, space))
    if own:
        return own[-1], None
    others: dict[str, _Runtime] = {}
    for found in _named(elsewhere(context, *RUNTIMES, name=name), name, space):
        others.setdefault(found.node.source.name, found)
    folder = _folder(service.source.name)
    near = [item for file, item in others.items() if _folder(file) == folder]
    for chosen in (near, list(others.values())):
        if len(chosen) == 1:
            return chosen[0], None
        if len(chosen) > 1:
            return None, f"several files hold a runtime {name}"
    return None, f"runtime {name} is not among the files"


def _named(found: Iterable[Object], name: str, namespace: str | None) -> Iterator[_Runtime]:
    for item in found:
        group, kind = kind_of(item.node)
        theirs = item.node.string("metadata", "namespace") if kind == "ServingRuntime" else None
        same = theirs is None or namespace is None or theirs == namespace
        if group == GROUP and item.node.string("metadata", "name") == name and same:
            yield _Runtime(item.node, item.path, item.absorbed)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


# ------------------------------------------------------------------------------------ services


class _Service:
    """One InferenceService."""

    def __init__(self, node: Node, path: str, context: ReadContext) -> None:
        self.node, self.path, self.context = node, path, context
        self.releases = context.platform(kserve.NAME)
        self.source = node.source
        self.predictor = _map(node.get("spec", "predictor"))
        self.runtime: _Runtime | None = None
        self.why: str | None = None

    def plans(self) -> Iterator[ServingPlan]:
        if self.predictor is None:
            return
        model = _map(self.predictor.get("model"))
        if model is not None:
            name = model.get("runtime")
            yield from self._of_model(model, "model", model.string("modelFormat", "name"), name)
        elif (older := _map(self.predictor.get("huggingface"))) is not None:
            yield from self._of_model(older, "huggingface", "huggingface", None)
        else:
            yield from self._of_containers(self.predictor)

    def _owner(self, **more: Any) -> Owner:
        assert self.predictor is not None
        return Owner(
            node=self.node,
            kind="InferenceService",
            path=self.path,
            platform=kserve.NAME,
            **{"fleet": self.fleet(self.predictor), "sites": self._count_site(), **more},
        )

    def _count_site(self) -> Mapping[str, Site]:
        """KServe refuses more replicas than `maxReplicas`, which goes up with them."""
        predictor = self.predictor
        assert predictor is not None

        def made(value: str) -> list[Edit] | Refusal:
            least = KeySite(predictor, "minReplicas").set(value)
            most = predictor.get("maxReplicas")
            if isinstance(least, Refusal) or most is None:
                return least
            known = integer(most).only
            if known is None:
                return Refusal("maxReplicas is not known")
            more = KeySite(predictor, "maxReplicas").set(value) if int(value) > known else []
            return more if isinstance(more, Refusal) else [*least, *more]

        return {"replicas": MadeSite(made)}

    def fleet(self, predictor: Node) -> Fleet:
        """`minReplicas`, else what the autoscaler is told in an annotation."""
        places = (predictor.get("annotations"), self.node.get("metadata", "annotations"))
        notes = [item for item in places if item is not None]
        return Fleet(
            replicas=_first(predictor, "minReplicas", notes, kserve.REPLICAS),
            max_replicas=_first(predictor, "maxReplicas", notes, kserve.MAX_REPLICAS),
            groups=True,
        )

    # -------------------------------------------------------------------- containers of its own

    def _of_containers(self, predictor: Node) -> Iterator[ServingPlan]:
        first = _container(predictor, CONTAINER)
        uri = _variable(first, "STORAGE_URI") if first is not None else None
        owner = self._owner(mounted=_mounted(uri))
        yield from pod_plans(owner, predictor, f"{self.path}/spec/predictor", self.context)

    # ------------------------------------------------------------------------ a model to serve

    def _of_model(
        self, model: Node, key: str, model_format: str | None, name: Node | None
    ) -> Iterator[ServingPlan]:
        assert self.predictor is not None
        wanted = name.value if name is not None and name.is_string else None
        if wanted is not None and not placeholder(wanted):
            self.runtime, self.why = _found_runtime(wanted, self.node, self.context)
        container = without(model, *NOT_OF_CONTAINER)
        told: dict[str, Any] = {"mounted": _mounted(model.get("storageUri"))}
        pod = self.predictor
        elsewhere = None
        shown: kserve.Runtime | None = None
        if self.runtime is not None:
            container, pod, elsewhere = self._joined(container, pod, told)
        else:
            shown = kserve.runtime(wanted, model_format)
            if shown is None:
                return
            told |= self._shown(shown, model, wanted)
            container = model
        worker = _map(self.predictor.get("workerSpec"))
        group = None
        if worker is not None:
            group = _Group(self, model, worker, container)
            told |= group.told(shown)
        told["extend"] = self._extend(model)
        owner = self._owner(**told)
        path = f"{self.path}/spec/predictor/{key}"
        for plan in container_plans(owner, pod, container, path, self.context, elsewhere):
            plan = _placed(plan, self.source)
            if shown is not None and shown.nim is not None:
                plan = _nim(plan, shown, owner)
            yield plan if group is None else group.grouped(plan)

    def _extend(self, model: Node) -> Node | None:
        """The model, where it has no arguments and they would reach the engine."""
        command = self.runtime.container if self.runtime is not None else None
        words = command.get("command") if command is not None else None
        scripted = words is not None and any(re.search(r"\s", word.value) for word in words.items)
        taken = model.get("args") is not None or model.get("command") is not None
        return None if taken or scripted or model.alias else model

    def _joined(
        self, container: Node, pod: Node, told: dict[str, Any]
    ) -> tuple[Node, Node, str | None]:
        """The container and the pod of the runtime with what the service says laid over them."""
        assert self.runtime is not None
        base, spec = self.runtime.container, self.runtime.spec
        own_args = container.get("args")
        places = [node for node in (container.get("command"), own_args) if node is not None]
        if base is not None:
            args = joined(base.get("args"), own_args)
            container = with_entry(merged(base, container), "args", args)
            theirs = (base.get("command"), base.get("args"))
            places += [node for node in theirs if node is not None]
        if spec is not None:
            kept = [pair[0].value for pair in spec.entries() if pair[0].value not in OF_POD]
            pod = merged(without(spec, *kept), pod)
        told["words"] = tuple(places)
        told["release"] = self.runtime.release
        return container, pod, ray_in(spec) if spec is not None else None

    def _shown(self, shown: kserve.Runtime, model: Node, wanted: str | None) -> dict[str, Any]:
        """What is known of a runtime that is not among the files."""
        name = model.get("runtime") or model.get("modelFormat", "name") or model
        command = tuple(added(word, name.origin) for word in shown.command)
        arguments = tuple(added(word, name.origin) for word in shown.arguments)
        if shown.nim is not None:
            image = f"nvcr.io/nim/{shown.nim}"
            return {"image": Known.of(image, name.origin, how="derived")}
        if not shown.whole:
            why = self.why or "which runtime serves it is not stated"
            arguments = (*arguments, Text.unknown(name.origin, why, many=True))
            arguments = (*arguments, *_handed_on(model, wanted))
        return {"command": command, "arguments": arguments, "whole": shown.whole}


def _first(node: Node, key: str, notes: Iterable[Node], names: Iterable[str]) -> Known[int]:
    found = integer(node.get(key))
    for name in names:
        for note in notes:
            found = found.or_default(integer(note.get(name)))
    return found


def _variable(container: Node, name: str) -> Node | None:
    """The value of a variable of a container, as it is written."""
    found = container.get("env")
    for item in found.items if found is not None else ():
        if item.string("name") == name:
            return item.get("value")
    return None


def _mounted(uri: Node | None) -> Mapping[str, Known[str]]:
    """The model at the path where KServe mounts it."""
    if uri is None or not uri.is_string:
        return MappingProxyType({})
    reason = placeholder(uri.value)
    text = uri.text()
    known: Known[str] = Known.unknown(reason, uri.origin) if reason else text.known()
    return MappingProxyType({kserve.MOUNT: known.map(kserve.model_of)})


def _handed_on(model: Node, runtime: str | None) -> tuple[Text, ...]:
    """Options in a variable, which such runtimes put behind their own."""
    from shardlint.readers.bash import split_words

    value = _variable(model, "VLLM_ARGS") or _variable(model, kserve.ADDITIONAL)
    text = value.text() if value is not None else None
    if text is None or text.mapped is None:
        return ()
    said = f"runtime {runtime} hands the variable's words to the engine"
    words = split_words(text.mapped, text.origin.file)
    return tuple(replace(word, assumes=word.assumes | {said}) for word in words)


def _placed(plan: ServingPlan, source: Source) -> ServingPlan:
    """With a place in the service's own file; KServe's own runtimes have a tag to be replaced."""
    if plan.tag.only == "replace":
        plan = replace(plan, tag=Known.unset())
    if plan.origin.file == source.name:
        return plan
    return replace(plan, origin=Origin(source.name, plan.anchors[0]))


def _nim(plan: ServingPlan, shown: kserve.Runtime, owner: Owner) -> ServingPlan:
    """The image was made up to say which engine it is."""
    origin = plan.image.origin
    tag: Known[str] = Known.of(shown.release, origin) if shown.release else Known.unset()
    model = owner.mounted.get(kserve.MOUNT, Known.unset())
    return replace(plan, image=Known.unset(), tag=tag, model=model)


# ------------------------------------------------------------------------------- several nodes


@record(kw_only=True)
class _Sizes:
    """The sizes of `workerSpec`: the service's, else the runtime's, else 1."""

    tp: Node | None
    pp: Node | None

    @classmethod
    def of(cls, own: Node | None, runtime: Node | None) -> _Sizes:
        def size(key: str) -> Node | None:
            found = own.get(key) if own is not None else None
            if found is None and runtime is not None:
                found = runtime.get(key)
            return found

        return cls(tp=size("tensorParallelSize"), pp=size("pipelineParallelSize"))

    def variables(self) -> Iterator[tuple[str, Text]]:
        """What KServe sets in the containers, from where it is written."""
        for name, node in ((kserve.TP_VARIABLE, self.tp), (kserve.PP_VARIABLE, self.pp)):
            if node is not None:
                yield name, node.text()

    def known(self, name: str) -> Known[int]:
        node = self.tp if name == "tp" else self.pp
        if node is None:
            return Known.of(1, how="defaulted")
        found = integer(node)
        wrong = found.only is not None and found.only < 1
        return Known.unknown(f"{found.only} is no size", found.origin) if wrong else found


class _Group:
    """The head and the workers of a service on several nodes."""

    def __init__(self, service: _Service, model: Node, worker: Node, head: Node) -> None:
        self.service, self.model, self.worker, self.head = service, model, worker, head
        runtime = service.runtime
        self.base = runtime.worker if runtime is not None else None
        self.sizes = _Sizes.of(worker, self.base)
        own, theirs = _container(worker, WORKER), _container(self.base, WORKER)
        self.container = merged(theirs, own) if own is not None else theirs
        self.mp = runtime is not None and _mp(runtime)
        self.why = None if runtime is not None or worker is None else service.why
        self.group = self._group()

    def _group(self) -> Known[kserve.Group]:
        tp, pp = self.sizes.known("tp"), self.sizes.known("pp")
        if self.mp:
            return combine(kserve.mp_group, tp, pp)
        found = self._grouped_by_release(tp, pp)
        if found.only is None or (found.only.nodes > 0 and found.only.head > 0):
            return found
        return Known.unknown("the sizes are no numbers of GPUs", found.origin)

    def _grouped_by_release(self, tp: Known[int], pp: Known[int]) -> Known[kserve.Group]:
        """How KServe counts the pods, which it has done in another way in older releases."""
        head, worker = _requested(self.head), _requested(self.container)
        none: Known[kserve.Group] = Known.unknown(
            f"{kserve.LABEL} knows `workerSpec` from {kserve.GROUPS_SINCE} on"
        )
        releases = self.service.releases
        stages = by_release(
            kserve.LABEL, releases, kserve.GROUPS_SINCE, combine(kserve.mp_group, tp, pp), none
        )
        counted = combine(_ray, tp, pp, head, worker)
        return by_release(kserve.LABEL, releases, kserve.COUNTED_SINCE, counted, stages)

    def _when_counted(self) -> str | None:
        """When the requests of GPUs decide how many pods there are, as a clause; None: never."""
        spans = self.service.releases.values
        if self.mp or (spans and not any(s.meets(kserve.COUNTED_SINCE, None) for s in spans)):
            return None
        always = all(span.within(kserve.COUNTED_SINCE, None) for span in spans)
        return "" if always else f"from {kserve.COUNTED_SINCE} on "

    # ------------------------------------------------------------------------------- what it says

    def told(self, shown: kserve.Runtime | None) -> dict[str, Any]:
        made: dict[str, Any] = {
            "role": "head",
            "fleet": self._fleet(),
            "remarks": tuple(self._remarks()),
            "refused": tuple(self._refused()),
            "effective": MappingProxyType(dict(self._effective())),
            "env": MappingProxyType({**dict(self.sizes.variables()), **self._folder()}),
            "written": MappingProxyType(self._sites() | self._moves()),
        }
        if shown is not None and shown.whole:
            made["arguments"] = tuple(self._options())
        head = self.group.map(lambda group: group.head, "derived")
        stated = devices(self.head)[0]
        if stated.is_unset or (head.only is not None and head.only != stated.only):
            made["placement"] = MappingProxyType({"gpus_per_pod": head})
        return made

    def _fleet(self) -> Fleet:
        """The workers are started once more before old ones stop, unless they are recreated."""
        predictor = self.service.predictor
        assert predictor is not None
        fleet = self.service.fleet(predictor)
        kind = predictor.string("deploymentStrategy", "type")
        if kind not in (None, kserve.ROLLING):
            return fleet
        more = fleet.replicas.or_default(Known.of(1, how="defaulted")).at(self.worker.origin)
        return replace(fleet, surge=more, at_once="`deploymentStrategy: {type: Recreate}`")

    def grouped(self, plan: ServingPlan) -> ServingPlan:
        nodes: Known[int] = self.group.map(lambda group: group.nodes, "derived")
        return _grouped(plan, nodes, self.group.map(lambda group: group.gpus, "derived"))

    def _options(self) -> Iterator[Text]:
        """The options of the runtime that KServe ships for several nodes."""
        names = (("--tensor-parallel-size", self.sizes.tp),
                 ("--pipeline-parallel-size", self.sizes.pp))  # fmt: skip
        for name, node in names:
            if node is not None:
                yield added(name, node.origin)
                yield node.text()

    def _folder(self) -> dict[str, Text]:
        uri = self.model.get("storageUri")
        if uri is None or uri.value.partition("://")[0] not in kserve.SHARED_PROTOCOLS:
            return {}
        return {"MODEL_DIR": added(kserve.MOUNT, uri.origin)}

    def _effective(self) -> Iterator[tuple[str, Known[Any]]]:
        """Ray or the engine's own processes carry it over the nodes; the server counts GPUs."""
        executor = "mp" if self.mp else "ray"
        yield "executor", Known.of(executor, self.worker.origin, how="derived")
        tp, pp = self.sizes.known("tp"), self.sizes.known("pp")
        if self.mp:
            yield "nnodes", replace(pp, how="derived")
        group = self.group.only
        if group is not None and tp.only is not None and group.head != tp.only:
            tp = tp.assuming(
                "the server does not set the tensor parallel size to the GPUs of one node"
            )
        yield "tp", replace(tp, how="derived")

    def _sites(self) -> dict[str, Site]:
        """Where sizes that are not stated would be written."""
        found: dict[str, Site] = {}
        if self.worker.source is not self.service.source or not self.worker.pairs:
            return found
        for field, key, node in (("tp", "tensorParallelSize", self.sizes.tp),
                                 ("pp", "pipelineParallelSize", self.sizes.pp)):  # fmt: skip
            if node is None or self.worker.get(key) is None:
                found[field] = KeySite(self.worker, key)
        return found

    # --------------------------------------------------------------------------------- remarks

    def _remarks(self) -> Iterator[Remark]:
        group = self.group.only
        if self.group.is_known:  # the first is that of the newest releases
            yield from self._counted(self.group.values[0])
        if group is None:
            return
        replicas = self.service.predictor and integer(self.service.predictor.get("minReplicas"))
        if replicas and (replicas.only or 0) > 1 and group.nodes > 1 and replicas.origin:
            yield Remark(
                kind="ignored",
                at=replicas.origin,
                message=(
                    f"{kserve.LABEL} starts {replicas.only} heads and the workers of one:"
                    f" {group.nodes - 1} for all of them"
                ),
                severity="warning",
                help="one InferenceService for each replica",
            )

    def _counted(self, group: kserve.Group) -> Iterator[Remark]:
        """GPUs that are written and not counted, or not those that the pods get."""
        when = self._when_counted()
        if when is None or group.nodes < 2:
            return
        requested = [_requested(node).only for node in (self.head, self.container)]
        limits = [stated for node in (self.head, self.container)
                  if node is not None and (stated := devices(node)[0]).only]  # fmt: skip
        if any(requested):
            return
        tp = self.sizes.tp
        pods = f"{group.nodes} pods of one GPU each"
        if limits and limits[0].origin is not None:
            yield Remark(
                kind="ignored",
                at=limits[0].origin,
                message=(
                    f"{when}{kserve.LABEL} counts the GPUs of `requests` alone: without them it"
                    f" makes {pods}, whatever the limits are"
                ),
                severity="warning",
                help="the same number under `requests` of the model and of the worker",
            )
        elif tp is not None and (self.sizes.known("tp").only or 1) > 1:
            yield Remark(
                kind="ignored",
                at=tp.origin,
                message=f"no GPU is requested: {when}{kserve.LABEL} makes {pods}, not one of"
                f" {tp.value}",
                severity="warning",
                help="`resources.requests` of the model and of the worker",
            )

    # -------------------------------------------------------------------------------- refusals

    def _refused(self) -> Iterator[Refused]:
        """What admission does not let pass; the first that it meets."""
        name = self.service.node.string("metadata", "name") or ""
        start = f'the InferenceService "{name}" is invalid: '
        found = self.model.get("env")
        for variable in kserve.SIZE_VARIABLES:
            for item in found.items if found is not None else ():
                if item.string("name") == variable:
                    yield self._variable(item, variable, start)
                    return
        uri = self.model.get("storageUri")
        if uri is None or not uri.is_string or placeholder(uri.value):
            return
        if uri.value.partition("://")[0] not in kserve.SHARED_PROTOCOLS:
            yield Refused(
                kind="value", written=uri.text(), at=uri.text().place, by=kserve.LABEL,
                problem="Multinode only supports 'pvc' and 'oci' Storage Protocol",
                remedy="a URI of pvc:// or oci://",
            )  # fmt: skip

    def _variable(self, item: Node, name: str, start: str) -> Refused:
        key, field = _SIZE_OF[name]
        node, value = item.get("name"), integer(item.get("value"))
        assert node is not None
        movable = f"move:{field}" in self._moves() and (value.only or 0) > 0
        return Refused(
            kind="misplaced", written=node.text(), at=node.text().place, by=kserve.LABEL,
            problem=f"{start}setting {name} in environment variables is not allowed",
            remedy=f"`workerSpec.{key}`",
            move=(f"move:{field}", field, value.only or 0) if movable else None,
        )  # fmt: skip

    def _moves(self) -> dict[str, Site]:
        """Sites that write a size under `workerSpec` and take its variable away."""
        found: dict[str, Site] = {}
        env = self.model.get("env")
        for item in env.items if env is not None else ():
            if (names := _SIZE_OF.get(item.string("name") or "")) is not None:
                key, field = names
                if self.worker.get(key) is None and self.worker.pairs:
                    found[f"move:{field}"] = _MoveSite(self.model, item, KeySite(self.worker, key))
        return found


_SIZE_OF = {
    kserve.TP_VARIABLE: ("tensorParallelSize", "tp"),
    kserve.PP_VARIABLE: ("pipelineParallelSize", "pp"),
}
"""The keys of `workerSpec` that stand for the variables, and the fields that they set."""


@record
class _MoveSite:
    """A variable of a container that is taken away, and the site that is written for it."""

    container: Node
    item: Node
    site: KeySite

    def set(self, value: str) -> list[Edit] | Refusal:
        parts = (self.site.set(value), remove_item(self.container, "env", self.item))
        edits: list[Edit] = []
        for part in parts:
            if isinstance(part, Refusal):
                return part
            edits += part
        return edits


def _ray(tp: int, pp: int, head: int, worker: int) -> kserve.Group:
    sizes = (tp, pp, head, worker)
    if min(tp, pp) < 1 or min(sizes) < 0:
        return kserve.Group(0, 0, 0)
    return kserve.ray_group(*sizes)


def _mp(runtime: _Runtime) -> bool:
    return runtime.node.string("spec", "annotations", kserve.EXECUTOR) == "mp"


def _requested(container: Node | None) -> Known[int]:
    """The GPUs that a container requests; its limits do not count."""
    requests = container.get("resources", "requests") if container is not None else None
    for key, value in requests.entries() if requests is not None else ():
        if key.value.strip() in kserve.GPUS:
            return integer(value)
    return Known.of(0, how="defaulted")
