"""VLLMRuntime and VLLMRouter: objects of the vLLM production stack's operator.

The operator makes a Deployment of a VLLMRuntime; its container is put together here out of the
object's nodes. See platforms/production_stack.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

from shardlint.known import Known, Text
from shardlint.plan import Fleet, Refusal, Remark, ServingPlan, Site
from shardlint.platforms import production_stack as stack
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers import _stack_router
from shardlint.readers._pod import SHM, UNITS
from shardlint.readers._vllm_options import OPTIONS
from shardlint.readers.edits import PLAIN, SizeSite, add_entry
from shardlint.readers.keyed import KeySite, PathSite
from shardlint.readers.kubernetes import surge
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner, container_plans
from shardlint.readers.rendered import (
    OptionKeySite,
    added,
    items,
    key_of,
    listing,
    mapping,
    memory_volume,
    on_nodes,
    option,
    scalar,
    truthy,
    with_sites,
)
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Source

KIND = stack.RUNTIME
PLATFORM = "production-stack"
_API = re.compile(r"production-stack\.vllm\.ai/")

KEYS = {
    "tp": ("vllmConfig", "tensorParallelSize", "--tensor-parallel-size"),
    "max_model_len": ("model", "maxModelLen", "--max-model-len"),
    "max_num_seqs": ("model", "maxNumSeqs", "--max-num-seqs"),
    "dtype": ("model", "dtype", "--dtype"),
    "gpu_memory_utilization": ("vllmConfig", "gpuMemoryUtilization", "--gpu-memory-utilization"),
}
EXTRA = {field: name for field, name in OPTIONS.items() if field not in KEYS}
"""Fields that have no key of their own, and the options that they are."""


class VLLMRuntimeReader:
    """`VLLMRuntime` and `VLLMRouter` of the group production-stack.vllm.ai."""

    name = "vllmruntime"
    kinds = (KIND,)
    look: bytes | None = b"production-stack.vllm.ai/"

    def accepts(self, source: Source) -> bool:
        return _API.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        spec = node.get("spec")
        if kind_of(node)[0] != stack.GROUP or spec is None or spec.kind != "map":
            return ReadResult()
        if node.string("kind") == KIND:
            return ReadResult(plans=tuple(_Runtime(node, spec, path).plans(context)))
        if node.string("kind") == stack.ROUTER:
            return ReadResult(routers=tuple(_stack_router.of_object(node, path)))
        return ReadResult()


# ---------------------------------------------------------------------------------- the engine


@record
class _Runtime:
    """One VLLMRuntime: of its sections, only `model` is one in objects of the first operators."""

    node: Node
    spec: Node
    path: str

    @cached_property
    def flat(self) -> bool:
        return self.spec.get("vllmConfig") is None and self.spec.get("deploymentConfig") is None

    def section(self, name: str) -> Node | None:
        if self.flat and name != "model":
            return self.spec
        found = self.spec.get(name)
        return found if found is not None and found.kind == "map" else None

    def value(self, section: str, key: str) -> Node | None:
        found = self.section(section)
        return found.get(key) if found is not None else None

    def plans(self, context: ReadContext) -> Iterator[ServingPlan]:
        url = self.value("model", "modelURL")
        if url is None or url.kind != "scalar":
            return
        owner = self._owner(url)
        for plan in container_plans(owner, self._pod(), self._container(), self.path, context):
            yield self._completed(plan)

    def _owner(self, url: Node) -> Owner:
        node = self.node
        name = node.string("metadata", "name") or ""
        labels = node.get("metadata", "labels")
        own = {k.value: v.value for k, v in labels.entries()} if labels is not None else {}
        return Owner(
            node=node,
            kind=KIND,
            path=self.path,
            fleet=self._fleet(),
            nodes=Known.of(1, how="derived"),
            labels=MappingProxyType({"app": name, **own}),
            command=(*(added(word, url) for word in ("vllm", "serve")), _settled(url)),
            arguments=tuple(self._arguments(url)),
            more=tuple(self._more(url)),
            remarks=tuple(self._remarks()),
            platform=PLATFORM,
        )

    def _arguments(self, url: Node) -> Iterator[Text]:
        if (adapters := self.value("model", "enableLoRA")) is not None and truthy(adapters):
            yield added("--enable-lora", adapters)
        if (tools := self.value("model", "enableTool")) is not None and truthy(tools):
            yield added("--enable-auto-tool-choice", tools)
        if (parser := self.value("model", "toolCallParser")) is not None and truthy(parser):
            yield from option("--tool-call-parser", parser)
        config = self.section("vllmConfig")
        like = key_of(self.spec, "vllmConfig") if config is not None and not self.flat else url
        for key, name in stack.SWITCHES.items():
            asked = config.get(key) if config is not None else None
            if asked is not None and (reason := placeholder(asked.value)) is not None:
                yield Text.unknown(asked.origin, reason)
            else:
                yield added(f"--{name}" if truthy(asked) else f"--no-{name}", asked or like)
        for section, key, name in stack.RUNTIME_OPTIONS:
            value = self.value(section, key)
            if value is not None and value.kind == "scalar" and truthy(value):
                yield from option(name, value)

    def _more(self, url: Node) -> Iterator[Text]:
        """What stands behind `extraArgs`."""
        if (template := self.value("model", "chatTemplate")) is not None and truthy(template):
            yield added("--chat-template", template)
            yield added("/etc/chat-template.json", template)
        cache = self.spec.get("lmCacheConfig")
        enabled = cache.get("enabled") if cache is not None else None
        if enabled is not None and truthy(enabled):
            connector = stack.CONNECTORS[truthy(self.value("vllmConfig", "v1"))]
            yield added("--kv-transfer-config", enabled)
            yield added(f'{{"kv_connector":"{connector}","kv_role":"kv_both"}}', enabled)

    # ------------------------------------------------------------------------------- the pod

    def _container(self) -> Node:
        extra = self.value("vllmConfig", "extraArgs")
        return mapping(
            self.node,
            (
                ("image", self._image()),
                ("args", extra if extra is not None and extra.kind == "list" else None),
                ("env", listing(self.node, self._environment())),
                ("resources", self._resources()),
                ("volumeMounts", listing(self.node, self._shm_parts()[0])),
                *((name, self._probe(rows)) for name, rows in stack.RUNTIME_PROBES.items()),
            ),
        )

    def _probe(self, numbers: Mapping[str, int]) -> Node:
        like = key_of(self.spec, "model")
        return mapping(like, ((key, scalar(str(value), like)) for key, value in numbers.items()))

    def _image(self) -> Node | None:
        image = self.value("deploymentConfig", "image")
        name = image.get("name") if image is not None else None
        registry = image.string("registry") if image is not None else None
        if name is None or name.kind != "scalar":
            return None
        return scalar(f"{registry}/{name.value}", name) if registry else name

    def _environment(self) -> Iterator[Node]:
        """Variables in the order in which they are set: the last of a name counts."""
        asked = self.value("vllmConfig", "v1")
        like = asked or key_of(self.spec, "vllmConfig", "model")
        word = scalar("1" if truthy(asked) else "0", like)
        if asked is not None and placeholder(asked.value):
            word = asked
        yield mapping(like, (("name", scalar("VLLM_USE_V1", like)), ("value", word)))
        yield from items(self.value("vllmConfig", "env"))

    def _resources(self) -> Node | None:
        found = self.value("deploymentConfig", "resources")
        if found is None or found.kind != "map":
            return None
        limits: list[tuple[Node | str, Node | None]] = []
        if (count := found.get("gpu")) is not None and count.value != "":
            kind = found.get("gpuType")
            name = kind.value if kind is not None and kind.value else stack.GPU
            limits.append((scalar(name, count), count))
        limits.append(("memory", found.get("memory")))
        return mapping(found, (("limits", mapping(found, limits)),))

    def _shm_parts(self) -> tuple[list[Node], list[Node]]:
        """The mount on /dev/shm and its volume, which are there where a size is stated."""
        size = self.value("deploymentConfig", "shmSize")
        if size is None or not truthy(size):
            return [], []
        mount, volume = memory_volume("dshm", size, SHM)
        return [mount], [volume]

    def _pod(self) -> Node:
        runtime = self.value("deploymentConfig", "runtimeClass")
        like = key_of(self.spec, "deploymentConfig", "model")
        return mapping(
            self.node,
            (
                ("affinity", self._affinity()),
                ("volumes", listing(self.node, self._shm_parts()[1])),
                ("runtimeClassName", runtime or scalar(stack.DEFAULT_RUNTIME_CLASS, like)),
            ),
        )

    def _affinity(self) -> Node | None:
        terms = self.value("deploymentConfig", "nodeSelectorTerms")
        return on_nodes(terms) if terms is not None else None

    # ----------------------------------------------------------------------------- its copies

    def _fleet(self) -> Fleet:
        replicas = integer(self.value("deploymentConfig", "replicas"))
        scaled = self.spec.get("autoscalingConfig")
        if scaled is not None and truthy(scaled.get("enabled")):
            least = integer(scaled.get("minReplicas"))
            return Fleet(
                replicas=least.or_default(Known.of(1, how="defaulted")),
                max_replicas=integer(scaled.get("maxReplicas")),
            )
        started = surge(self._strategy(), replicas)
        return Fleet(replicas=replicas, surge=started, at_once=stack.RECREATE)

    def _strategy(self) -> Node | None:
        found = self.value("deploymentConfig", "deploymentStrategy")
        return mapping(found, (("type", found),)) if found is not None else None

    # ------------------------------------------------------------------------ what is passed over

    def _remarks(self) -> Iterator[Remark]:
        """Keys that stand in a section that does not have them."""
        for name, keys in stack.SECTIONS.items() if not self.flat else ():
            found = self.section(name)
            for key, _ in found.entries() if found is not None else ():
                if key.value not in keys:
                    yield from _misplaced(key, name)
        for key, _ in self.spec.entries() if not self.flat else ():
            if key.value not in stack.SECTIONS:
                yield from _misplaced(key, "spec")
        config = self.section("vllmConfig") if self.flat else None
        for key, _ in config.entries() if config is not None else ():
            if key.value in stack.ELSEWHERE:
                yield from _misplaced(key, "spec")
        yield from self._bounds()

    def _bounds(self) -> Iterator[Remark]:
        """What the operator refuses to scale."""
        scaled = self.spec.get("autoscalingConfig")
        if scaled is None or not truthy(scaled.get("enabled")):
            return
        most = scaled.get("maxReplicas")
        least = integer(scaled.get("minReplicas")).or_default(Known.of(1, how="defaulted"))
        start = integer(self.value("deploymentConfig", "replicas"))
        start = start.or_default(Known.of(1, how="defaulted"))
        for name, count in (("minReplicas", least), ("deploymentConfig.replicas", start)):
            bound, own = integer(most).only, count.only
            if most is not None and bound is not None and own is not None and own > bound:
                yield Remark(
                    kind="conflict",
                    severity="warning",
                    at=most.origin,
                    message=f"maxReplicas {bound} is below {name} {own}: the operator refuses to"
                    " scale",
                    related=((count.origin, name),) if count.origin is not None else (),
                )

    # ------------------------------------------------------------------------------ the sites

    def _completed(self, plan: ServingPlan) -> ServingPlan:
        placement = plan.placement
        if self.value("deploymentConfig", "shmSize") is not None and not self.flat:
            size = placement.shm_bytes.assuming(stack.SHM_SINCE)
            plan = replace(plan, placement=replace(placement, shm_bytes=size))
        return with_sites(plan, self._sites(plan))

    def _sites(self, plan: ServingPlan) -> Mapping[str, Site | None]:
        sites: dict[str, Site | None] = {}
        sites["replicas"] = self._key("deploymentConfig", "replicas")
        scaled = self.spec.get("autoscalingConfig")
        if scaled is not None and truthy(scaled.get("enabled")):
            sites["replicas"] = KeySite(scaled, "minReplicas")
            sites["max_replicas"] = KeySite(scaled, "maxReplicas")
        resources = self.value("deploymentConfig", "resources")
        if "gpus_per_pod" not in plan.sites and resources is not None:
            sites["gpus_per_pod"] = _WordSite(resources, "gpu")
        shm = self._key("deploymentConfig", "shmSize")
        sites["shm_bytes"] = None if self.flat else SizeSite(shm, UNITS)
        for field, (section, key, name) in KEYS.items():
            if not self._in_extra(plan, name):
                sites[field] = self._key(section, key)
        config = self.section("vllmConfig")
        for field, name in EXTRA.items():
            if config is not None and not self._in_extra(plan, name):
                sites[field] = OptionKeySite(name, config, "extraArgs")
        return sites

    def _key(self, section: str, key: str) -> Site:
        found = self.section(section)
        return PathSite(self.spec, (section, key)) if found is None else KeySite(found, key)

    def _in_extra(self, plan: ServingPlan, name: str) -> bool:
        """The option that counts stands in `extraArgs`."""
        extra = self.value("vllmConfig", "extraArgs")
        found = [flag for flag in plan.flags if flag.flag == name]
        return bool(found) and extra is not None and any(
            item.origin == found[-1].written.origin for item in items(extra)
        )  # fmt: skip


@record
class _WordSite:
    """A key whose value the object takes as a word: a number is written in quotes."""

    node: Node
    key: str

    def set(self, value: str) -> list[Edit] | Refusal:
        if self.node.get(self.key) is not None:
            return KeySite(self.node, self.key).set(value)
        quoted = self.node.pairs and self.node.pairs[0][0].style is not None
        if not PLAIN.fullmatch(value) or (self.node.flow and quoted):
            return Refusal(f"{self.key} cannot be written here")
        return add_entry(self.node, self.key, f'"{value}"')


def _settled(node: Node) -> Text:
    reason = placeholder(node.value)
    return node.text() if reason is None else Text.unknown(node.origin, reason)


def _misplaced(key: Node, where: str) -> Iterator[Remark]:
    """A key that another section has, or that is none and has an option instead."""
    own = next((name for name, keys in stack.SECTIONS.items() if key.value in keys), None)
    name = stack.ELSEWHERE.get(key.value)
    if own is None and name is None:
        return
    more = f"write it into `{own}`" if own else f"write `{name}` into `extraArgs`"
    yield Remark(
        kind="ignored",
        severity="warning",
        at=key.origin,
        message=f"`{where}` of a VLLMRuntime has no `{key.value}`: it never reaches the engine",
        help=more,
    )
