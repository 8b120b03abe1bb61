"""KServe's LLMInferenceService, and its configs on their own.

Formats: manifests, section 3; what KServe does with them: `platforms.kserve`. The engine is vLLM in
a preset, whose command takes its options from `parallelism`, from a variable, and from the
container's arguments. What `baseRefs` name is laid under the object where it is among the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text, combine
from shardlint.plan import (
    Device,
    Fleet,
    Offer,
    Refusal,
    Refused,
    Remark,
    Router,
    ServingPlan,
    Site,
)
from shardlint.platforms import kserve
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._picker import picker
from shardlint.readers._pod import SHM, UNITS, Pod, ShmSite, quantity
from shardlint.readers.edits import MadeSite, RefusedSite, SizeSite, TextSite, add_entry
from shardlint.readers.inner_yaml import inner
from shardlint.readers.keyed import KeySite
from shardlint.readers.merged import merged, seen_from, without
from shardlint.readers.objects import Object, elsewhere, kind_of, read_objects, siblings
from shardlint.readers.pods import (
    Owner,
    added,
    container_plans,
    devices,
    environment,
    holes_of,
    string_map,
)
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Origin, Source

GROUP = "serving.kserve.io"
SERVICE, CONFIG = "LLMInferenceService", "LLMInferenceServiceConfig"

_LOOK = re.compile(r"\bLLMInferenceService(Config)?\b")

LATER = "an LLMInferenceService may add options"

SIZES: Mapping[str, str] = {
    "tensor": "--tensor-parallel-size", "data": "--data-parallel-size",
    "dataLocal": "--data-parallel-size-local",
}  # fmt: skip
"""Keys of `parallelism` and the options that the presets make of them."""

DATA = ("data", "dataLocal")
"""Keys that the presets take for 1 where only the other is there."""

LOCAL = frozenset({"--data-parallel-size-local", "-dpl"})


class KServeLLMReader:
    """LLMInferenceService and LLMInferenceServiceConfig."""

    name = "kserve-llm"
    kinds = ("LLMInferenceService", "LLMInferenceServiceConfig")
    look: bytes | None = b"LLMInferenceService"

    def accepts(self, source: Source) -> bool:
        return _LOOK.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        group, kind = kind_of(node)
        if group == GROUP and kind == SERVICE:
            bases = _Bases(node, context)
            found = _Service(node, path, bases, context)
            return ReadResult(
                plans=tuple(found.plans()),
                routers=tuple(found.routers()),
                absorbs=tuple(item.absorbed for item in bases.found),
            )
        if group == GROUP and kind == CONFIG:
            config = _Service(node, path, None, context)
            return ReadResult(plans=tuple(config.plans()), routers=tuple(config.routers()))
        return ReadResult()


def _map(node: Node | None) -> Node | None:
    return node if node is not None and node.kind == "map" else None


# --------------------------------------------------------------------------------------- bases


class _Bases:
    """The configs that an object names, in its order, and those that are not among the files."""

    def __init__(self, node: Node, context: ReadContext) -> None:
        self.source, self.context = node.source, context
        self.namespace = node.string("metadata", "namespace")
        self.found: list[Object] = []
        self.missing: list[str] = []
        refs = node.get("spec", "baseRefs")
        for ref in refs.items if refs is not None else ():
            name = ref.string("name") or ref.value
            found = self._config(name)
            if found is None:
                self.missing.append(name)
            else:
                self.found.append(found)

    def under(self, spec: Node) -> Node:
        """The spec laid over those of the bases."""
        base: Node | None = None
        for item in self.found:
            if (theirs := _map(item.node.get("spec"))) is not None:
                base = merged(base, theirs)
        return merged(base, spec)

    @property
    def why(self) -> str | None:
        if not self.missing:
            return None
        names = " and ".join(self.missing)
        return f"{names} {'is' if len(self.missing) == 1 else 'are'} not among the files"

    def holds(self, name: str) -> bool:
        """Whether some config of the run has this name, with any prefix."""
        return any(
            (item.node.string("metadata", "name") or "").endswith(name)
            for item in (*self._near(), *self._far())
        )

    def _config(self, name: str) -> Object | None:
        """The nearest config of a name: of the same file, the same folder, the only one."""
        own = [item for item in self._near() if self._is(item.node, name)]
        far = [item for item in self._far(name) if self._is(item.node, name)]
        near = [item for item in far if _folder(item.node.source) == _folder(self.source)]
        for chosen in (own[-1:], near, far):
            if len(chosen) == 1:
                return chosen[0]
            if chosen:
                return None
        return None

    def _is(self, node: Node, name: str) -> bool:
        space = node.string("metadata", "namespace")
        return node.string("metadata", "name") == name and space in (None, self.namespace)

    def _near(self) -> Iterator[Object]:
        found = siblings(self.context, CONFIG)
        return (item for item in found if kind_of(item.node)[0] == GROUP)

    def _far(self, name: str = "") -> Iterator[Object]:
        found = elsewhere(self.context, CONFIG, name=name)
        return (item for item in found if kind_of(item.node)[0] == GROUP)


def _folder(source: Source) -> str:
    return source.name.rpartition("/")[0]


# ------------------------------------------------------------------------------------- services


class _Service:
    """One object: what it says with its bases, and a workload for each role."""

    def __init__(self, node: Node, path: str, bases: _Bases | None, context: ReadContext) -> None:
        self.node, self.path, self.bases, self.context = node, path, bases, context
        own = _map(node.get("spec"))
        self.spec = bases.under(own) if own is not None and bases is not None else own
        self.open = LATER if bases is None else bases.why
        self.name = node.string("metadata", "name") or ""

    def plans(self) -> Iterator[ServingPlan]:
        spec = self.spec
        if spec is None:
            return
        if self.bases is None and not _is_workload(spec):
            return  # it configures routers alone
        prefill = _map(spec.get("prefill"))
        if self.bases is not None or spec.get("template") is not None:
            role = None if prefill is None else "decode"
            yield from _Workload(self, spec, role, f"{self.path}/spec").plans()
        if prefill is not None:
            yield from _Workload(self, prefill, "prefill", f"{self.path}/spec/prefill").plans()

    def model(self) -> Node | None:
        return self.spec.get("model", "uri") if self.spec is not None else None

    # ------------------------------------------------------------------------------- routers

    def routers(self) -> Iterator[Router]:
        """The scheduler, or the Service that is there without one."""
        spec = self.spec
        if spec is None:
            return
        scheduler = _map(spec.get("router", "scheduler"))
        if scheduler is None:
            if self.open is None:
                yield self._router("service", "kubernetes-service", False, frozenset(), self.node)
            return
        kind = "kserve-scheduler"
        inline = scheduler.get("config", "inline")
        if inline is None and scheduler.get("config") is None and scheduler.get("template") is None:
            policy: str | None = kserve.DEFAULT_ROUTING
            yield self._router(kind, policy, False, kserve.DEFAULT_AWARENESS, scheduler)
            return
        written = _inline(inline)
        if written is None:
            # A config that is not read here is taken to look at what the default looks at.
            yield self._router(kind, None, True, kserve.DEFAULT_AWARENESS, scheduler)
            return
        found = picker(written)
        router = self._router(kind, found.policy.only, True, found.awareness, scheduler)
        yield replace(
            router, policy=found.policy, explicit=found.explicit, sure=found.sure,
            offers=found.offers,
        )  # fmt: skip

    def _router(
        self, kind: str, policy: str | None, explicit: bool, aware: frozenset[str], at: Node
    ) -> Router:
        owner = Owner(node=self.node, kind=kind, path=self.path)
        name = self.node.get("metadata", "name")
        own = at.source is self.node.source and at is not self.node
        origin = at.origin if own else name.origin if name is not None else self.node.origin
        known: Known[str] = (
            Known.of(policy, origin, how="stated" if explicit else "defaulted")
            if policy is not None
            else Known.unknown("the scheduler's configuration is not read", origin)
        )
        path = f"{self.path}/spec/router"
        return Router(
            id=f"{self.node.source.name}#{path}",
            name="/".join(part for part in (owner.namespace, self.name) if part) or kind,
            kind=kind,
            file=self.node.source.name,
            path=path,
            origin=origin,
            namespace=owner.namespace,
            policy=known,
            explicit=explicit,
            awareness=aware,
            selector=MappingProxyType(dict(kserve.labels(self.name)) | self.labels()),
            engines=True,
            offers=tuple(self._scheduled()) if kind == "service" else (),
            anchors=(self.node.span,),
            suppressed=owner.suppressed(),
        )

    def _scheduled(self) -> Iterator[Offer]:
        """The scheduler of the controller, with its default profile."""
        router = self.node.get("spec", "router")

        def made(_value: str) -> list[Edit] | Refusal:
            if router is None or router.kind != "map":
                return Refusal("there is no router of its own to write into")
            return add_entry(router, "scheduler", "{}")

        yield Offer(
            cures="routing", title="`scheduler: {}`, the controller's endpoint picker",
            delta={"routing": "prefix-aware"}, site=MadeSite(made),
        )  # fmt: skip

    def labels(self) -> dict[str, str]:
        """Labels that the object gives its pods."""
        return dict(string_map(self.spec.get("labels"))) if self.spec is not None else {}


def _is_workload(spec: Node) -> bool:
    found = (spec.get(key) for key in ("template", "prefill"))
    return any(_map(item) is not None for item in found)


def _inline(node: Node | None) -> Node | None:
    """The scheduler's configuration as a map, which may be written as text."""
    if node is not None and node.kind == "scalar":
        return inner(node)
    return _map(node)


# ------------------------------------------------------------------------------------- workloads


class _Workload:
    """The pods of one role: `spec` holds template, worker, parallelism, replicas."""

    def __init__(self, service: _Service, spec: Node, role: str | None, path: str) -> None:
        self.service, self.spec, self.role, self.path = service, spec, role, path
        self.template = _map(spec.get("template"))
        self.worker = _map(spec.get("worker"))
        self.parallelism = _map(spec.get("parallelism"))
        self.main = _main(self.template)
        self.own_command = self.main is not None and self.main.get("command") is not None

    def plans(self) -> Iterator[ServingPlan]:
        node, at = self._container()
        arguments = self.main.get("args") if self.main is not None else None
        owner = self._owner(arguments)
        bare = node if self.own_command else without(node, "args")
        for plan in container_plans(owner, self.template, bare, at, self.service.context):
            yield self._settled(plan)

    def _container(self) -> tuple[Node, str]:
        """The engine's container; the preset has it where the object does not name it."""
        if self.main is None:
            empty = without(self.spec, *(key.value for key, _ in self.spec.entries()))
            return empty, self.path
        found = self.template.get("containers") if self.template is not None else None
        items = found.items if found is not None else []
        index = next((at for at, item in enumerate(items) if item is self.main), 0)
        own = self.service.node
        node = self.main if self.main.source is own.source else seen_from(self.main, own)
        return node, f"{self.path}/template/containers/{index}"

    def _owner(self, arguments: Node | None) -> Owner:
        service = self.service
        ignored, refused = tuple(self._remarks()), tuple(self._refused())
        told: dict[str, Any] = {}
        if not self.own_command:
            written = tuple(self._words(arguments))
            told["command"] = (added("vllm", self._at), added("serve", self._at))
            told["arguments"] = (*self._preset(), *written)
            told["written"] = MappingProxyType(self._sites(written))
            local = self._size("dataLocal")
            if self.worker is not None and local.is_known and not _names(written) & LOCAL:
                # A release that lacks the option is none that a preset starts.
                told["effective"] = MappingProxyType({"dp_local": local})
        config = service.bases is None
        return Owner(
            node=service.node,
            kind=kind_of(service.node)[1],
            path=service.path,
            whole=not config and service.open is None,
            role=self.role,
            platform=kserve.NAME,
            fleet=self._fleet(),
            nodes=self._nodes(),
            devices=self._claimed(),
            placement=MappingProxyType(self._placement()),
            image=Known.unknown("the preset chooses the image"),
            mounted=self._mounted(),
            remarks=ignored,
            refused=refused,
            sites=MappingProxyType({**self._count_site(), **self._device_sites()}),
            words=tuple(self._places(arguments)),
            extend=self._extend(arguments),
            **told,
        )

    @property
    def _at(self) -> Origin:
        uri = self.service.model()
        return uri.origin if uri is not None else self.spec.origin

    # ------------------------------------------------------------------------------ the command

    def _preset(self) -> Iterator[Text]:
        """The words of the preset in front of those that the object writes."""
        model = self.service.spec.get("model", "name") if self.service.spec is not None else None
        yield added(kserve.MOUNT, self._at)
        yield added("--served-model-name", self._at)
        yield model.text() if model is not None else added(self.service.name, self._at)
        yield added("--port", self._at)
        yield added("8000", self._at)
        if self.service.open is not None:
            yield Text.unknown(self.spec.origin, self.service.open, many=True)
        yield from self._sized()

    def _sized(self) -> Iterator[Text]:
        sizes = self.parallelism
        grouped = self.worker is not None
        expert = sizes.get("expert") if sizes is not None else None
        if grouped and expert is not None and expert.value.lower() == "true":
            yield added("--enable-expert-parallel", expert.origin)
        data = [sizes.get(key) for key in DATA] if sizes is not None and grouped else []
        for key in SIZES if grouped else ("tensor",):
            node = sizes.get(key) if sizes is not None else None
            other = next((item for item in data if item is not None), None)
            if node is not None:
                yield added(SIZES[key], node.origin)
                yield node.text()
            elif key in DATA and other is not None:
                yield added(SIZES[key], other.origin)
                yield added("1", other.origin)

    def _words(self, arguments: Node | None) -> Iterator[Text]:
        """The variable's words and the arguments, which the preset's shell reads once more."""
        from shardlint.readers.bash import split_words

        if self.main is None:
            return
        holes = holes_of(self.main)
        env = {name: holes.restored(text)
               for name, text in environment(self.main, holes).items()}  # fmt: skip
        more = env.get(kserve.ADDITIONAL)
        texts = [more] if more is not None else []
        texts += [item.text() for item in arguments.items] if arguments is not None else []
        for text in texts:
            if text.mapped is None:
                yield Text.unknown(text.origin, text.reason or "unresolved", many=True)
            elif not re.search(r"[\s'\"\\$`]", text.mapped.text):
                if text.mapped.text:
                    yield text
            else:
                yield from split_words(text.mapped, text.origin.file, env, expand=True)

    def _places(self, arguments: Node | None) -> Iterator[Node]:
        """Where further options can be written."""
        if self.main is None or self.own_command:
            return
        value = _variable(self.main, kserve.ADDITIONAL)
        if value is not None:
            yield value
        if arguments is not None:
            yield arguments

    def _extend(self, arguments: Node | None) -> Node | None:
        """The container, where it has no place for an option yet."""
        main = self.main
        if main is None or main.alias or main.source is not self.service.node.source:
            return None
        taken = arguments is not None or self.own_command
        return None if taken or _variable(main, kserve.ADDITIONAL) is not None else main

    def _sites(self, written: tuple[Text, ...]) -> dict[str, Site]:
        """Sizes that are not stated are written under `parallelism`."""
        names = _names(written)
        found: dict[str, Site] = {}
        own = self.spec.source is self.service.node.source
        if self.worker is not None:
            found["dp"] = RefusedSite("the number of pods follows from it")
        for field, key in (("tp", "tensor"),):
            short = {SIZES[key], "-tp"}
            stated = self.parallelism is not None and self.parallelism.get(key) is not None
            if stated or short & names or not own:
                continue
            found[field] = (
                KeySite(self.parallelism, key)
                if self.parallelism is not None and self.parallelism.pairs
                else _MapSite(self.spec, "parallelism", key)
            )
        return found

    def _count_site(self) -> Mapping[str, Site]:
        if self.spec.source is not self.service.node.source:
            return {}
        scaling = _map(self.spec.get("scaling"))
        stated = self.spec.get("replicas") is not None
        if scaling is not None and not stated:
            return {"replicas": KeySite(scaling, "minReplicas")}
        return {"replicas": KeySite(self.spec, "replicas")}

    # --------------------------------------------------------------------------- what it gets

    def _fleet(self) -> Fleet:
        scaling = _map(self.spec.get("scaling"))
        least = integer(scaling.get("minReplicas")) if scaling is not None else Known.unset()
        most = integer(scaling.get("maxReplicas")) if scaling is not None else Known.unset()
        return Fleet(replicas=integer(self.spec.get("replicas")).or_default(least),
                     max_replicas=most, groups=True)  # fmt: skip

    def _size(self, key: str) -> Known[int]:
        node = self.parallelism.get(key) if self.parallelism is not None else None
        return integer(node)

    def _nodes(self) -> Known[int]:
        """The size of the group of pods; unset for a Deployment."""
        if self.worker is None:
            open_ended = self.service.open
            return Known.unknown(open_ended) if open_ended is not None else Known.unset()
        if self._size("data").is_unset and self._size("dataLocal").is_unset:
            return self._size("pipeline")
        one: Known[int] = Known.of(1, how="defaulted")
        data, local = self._size("data").or_default(one), self._size("dataLocal").or_default(one)
        return combine(lambda d, n: kserve.group_size(d, n, None) or 1, data, local, how="stated")

    def _placement(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        nodes = self._nodes()
        if self.worker is not None:
            found["group_devices"] = self._all_devices(nodes)
        if self.main is not None and _mount(self.main, SHM) is None:
            found |= self._shm()
        roce = _variable(self.main, kserve.INFER_ROCE) if self.main is not None else None
        if roce is not None and roce.value == "true":
            found["env_open"] = f"{kserve.INFER_ROCE} lets the preset choose the RDMA devices"
        if self._claim("device-class") is not None:
            label, device = self._card()
            if label.is_known:
                found |= {"gpu_label": label, "gpu": device}
        return found

    def _all_devices(self, nodes: Known[int]) -> Known[int]:
        head, worker = (self._devices(_main(spec)) for spec in (self.template, self.worker))
        if worker.is_unset:
            worker = head  # it may have been left to the preset, which asks for none
        return combine(lambda n, first, each: first + (n - 1) * each, nodes, head, worker)

    def _devices(self, main: Node | None) -> Known[Any]:
        count: Known[Any] = devices(main)[0] if main is not None else Known.unset()
        return count.or_default(self._claimed())

    def _shm(self) -> dict[str, Any]:
        """The preset's volume, whose size the object can set by its name."""
        if (row := self._shm_volume()) is not None:
            size = row.get("emptyDir", "sizeLimit")
            why = f"volume {kserve.SHM_VOLUME} has no sizeLimit here"
            known = quantity(size) if size is not None else Known.unknown(why, row.origin)
            return {"shm_bytes": known, "shm_ample": size is None}
        preset = kserve.SHM_SINGLE if self.worker is None else kserve.SHM_GROUP
        if self.service.open is not None:
            return {"shm_bytes": Known.unknown(self.service.open), "shm_ample": False}
        return {"shm_bytes": Known.of(preset, how="derived"), "shm_ample": False}

    def _shm_volume(self) -> Node | None:
        volumes = self.template.get("volumes") if self.template is not None else None
        rows = volumes.items if volumes is not None else []
        return next((row for row in rows if row.string("name") == kserve.SHM_VOLUME), None)

    def _device_sites(self) -> dict[str, Site]:
        sites = self._shm_sites()
        count = self._claim("device-count")
        asks = self.main is not None and not devices(self.main)[0].is_unset
        if count is not None and not asks and self._claimed().is_known:
            sites["gpus_per_pod"] = TextSite((count.text(),))
        return sites

    def _shm_sites(self) -> dict[str, Site]:
        """A volume by the preset's name takes the place of the preset's."""
        main, template = self.main, self.template
        if main is None or template is None or _mount(main, SHM) is not None:
            return {}
        if main.alias or template.alias or template.source is not self.service.node.source:
            return {}
        row = self._shm_volume()
        if row is None:
            return {"shm_bytes": SizeSite(ShmSite(Pod(spec=template), main), UNITS)}
        size = row.get("emptyDir", "sizeLimit")
        return {"shm_bytes": SizeSite(TextSite((size.text(),)), UNITS)} if size is not None else {}

    # --------------------------------------------------------------------------------- claims

    def _claim(self, key: str) -> Node | None:
        return self.service.node.get("metadata", "annotations", f"{kserve.DRA}{key}")

    def _claimed(self) -> Known[Any]:
        """Devices that an annotation claims for the engine's container."""
        asked = self._claim("device-class")
        if asked is None:
            return Known.unset()
        target, count = self._claim("container-name"), self._claim("device-count")
        containers = self.template.get("containers") if self.template is not None else None
        alone = containers is None or len(containers.items) < 2
        if target is not None and target.value != kserve.MAIN:
            return Known.unknown(f"the devices are for container {target.value}", target.origin)
        if target is None and not alone:
            return Known.unknown("which container gets the devices is not stated", asked.origin)
        if count is None:
            return Known.of(1, asked.origin, how="derived")
        return integer(count)

    def _card(self) -> tuple[Known[str], Known[Device]]:
        """The card that the selector names."""
        node = self._claim("cel-selector")
        text = node.text() if node is not None else None
        match = _CEL.search(text.value or "") if text is not None else None
        if node is None or text is None or match is None:
            return Known.unset(), Known.unset()
        label = text.part(*match.span(1))
        return Known.of(match[1], label.origin), self.service.context.device(match[1])

    # --------------------------------------------------------------------------------- remarks

    def _remarks(self) -> Iterator[Remark]:
        sizes = self.parallelism
        if sizes is not None and self.own_command:
            yield from self._unread_beside_command(sizes)
        elif sizes is not None and self.worker is None and self.service.open is None:
            yield from _unread_alone(sizes)
        pipeline = sizes.get("pipeline") if sizes is not None else None
        grouped = self.worker is not None and (self._size("pipeline").only or 0) > 0
        bases = self.service.bases
        if pipeline is None or not grouped or bases is None or bases.missing:
            return
        preset = kserve.PIPELINE_PRESETS[self.role]
        if not bases.holds(preset):
            yield Remark(
                kind="ignored",
                at=pipeline.origin,
                message=(
                    f"{kserve.LABEL} ships no preset for workers with `pipeline`: nothing is"
                    f" started unless the cluster has an LLMInferenceServiceConfig {preset}"
                ),
                severity="warning",
                help="`data` and `dataLocal`, or such a config of your own",
            )

    def _unread_beside_command(self, sizes: Node) -> Iterator[Remark]:
        assert self.main is not None
        for name in ("command", "args"):
            node = self.main.get(name)
            words = [item.value for item in node.items] if node is not None else []
            if any("Parallelism" in word for word in words):
                return
        for key, value in sizes.entries():
            if key.value in SIZES or key.value == "expert":
                yield _ignored(key, value, "the container has a command of its own")

    def _refused(self) -> Iterator[Refused]:
        """What admission does not let pass, of an object that says all itself."""
        bases = self.service.bases
        if bases is None or bases.missing or bases.found:
            return
        sizes: dict[str, int] = {}
        for key in ("pipeline", "data", "dataLocal"):
            fact = self._size(key)
            if fact.only is not None:
                sizes[key] = fact.only
            elif not fact.is_unset:
                return
        stated = None if self.parallelism is None else sizes
        for problem in kserve.refusals(self.worker is not None, stated):
            place = self.spec if problem.key == "worker" else self.parallelism
            pair = place.pair(problem.key) if place is not None else None
            if pair is not None:
                yield Refused(
                    kind="value", written=pair[0].text(), at=pair[0].origin, by=kserve.LABEL,
                    problem=problem.says,
                )  # fmt: skip
                return

    # --------------------------------------------------------------------------------- results

    def _mounted(self) -> Mapping[str, Known[str]]:
        uri = self.service.model()
        if uri is None or not uri.is_string:
            why = self.service.open or "the model is not stated"
            return MappingProxyType({kserve.MOUNT: Known.unknown(why)})
        reason = placeholder(uri.value)
        known: Known[str] = Known.unknown(reason, uri.origin) if reason else uri.text().known()
        return MappingProxyType({kserve.MOUNT: known.map(kserve.model_of)})

    def _settled(self, plan: ServingPlan) -> ServingPlan:
        labels = {**plan.labels, **kserve.labels(self.service.name), **self.service.labels()}
        remarks = (*plan.remarks, *self._overridden(plan))
        return replace(plan, labels=MappingProxyType(labels), remarks=remarks)

    def _overridden(self, plan: ServingPlan) -> Iterator[Remark]:
        """A size under `parallelism` that an option behind it takes back."""
        for key, option in SIZES.items():
            node = self.parallelism.get(key) if self.parallelism is not None else None
            values = [flag.value for flag in plan.flags if flag.flag == option and flag.value]
            if node is None or len(values) < 2 or values[-1].value in (None, node.value):
                continue
            yield Remark(
                kind="conflict",
                at=node.origin,
                message=(
                    f"`{key}: {node.value}` does not count: `{option} {values[-1].value}` stands"
                    " behind the options of the preset"
                ),
                severity="warning",
                help="state it once",
                related=((values[-1].place, "this counts"),),
            )


_CEL = re.compile(r"\[['\"](?:type|productName)['\"]\]\s*==\s*['\"]([^'\"]+)['\"]")


def _main(spec: Node | None) -> Node | None:
    found = spec.get("containers") if spec is not None else None
    named = [item for item in (found.items if found is not None else [])
             if item.string("name") == kserve.MAIN]  # fmt: skip
    return named[0] if named else None


def _names(words: Iterable[Text]) -> set[str]:
    """The options among some words."""
    return {(word.value or "").partition("=")[0].replace("_", "-") for word in words}


def _variable(container: Node | None, name: str) -> Node | None:
    found = container.get("env") if container is not None else None
    for item in found.items if found is not None else ():
        if item.string("name") == name:
            return item.get("value")
    return None


def _mount(container: Node, path: str) -> Node | None:
    found = container.get("volumeMounts")
    for row in found.items if found is not None else ():
        if (row.string("mountPath") or "").rstrip("/") == path:
            return row
    return None


def _unread_alone(sizes: Node) -> Iterator[Remark]:
    """Keys that the presets for one node drop."""
    for key, value in sizes.entries():
        if key.value in kserve.UNREAD_ALONE and value.value not in ("1", "false"):
            yield _ignored(key, value, "there is no `worker`")


def _ignored(key: Node, value: Node, why: str) -> Remark:
    return Remark(
        kind="ignored",
        at=key.origin,
        message=f"{kserve.LABEL} does not read `{key.value}: {value.value}`, because {why}",
        severity="warning",
        help=f"the option of vLLM in {kserve.ADDITIONAL}" if "worker" in why else None,
    )


@record
class _MapSite:
    """A map with one entry that the object does not have."""

    node: Node
    key: str
    inner: str

    def set(self, value: str) -> list[Edit] | Refusal:
        return add_entry(self.node, self.key, {self.inner: value})
