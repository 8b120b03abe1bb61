"""Values of the vLLM production stack's chart, and its objects VLLMRuntime.

Every entry of `servingEngineSpec.modelSpec` is one engine, `routerSpec` the router before them. The
chart is read in vllm-project/production-stack at a6c01db; see platforms/production_stack.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardlint.known import Known, Text, combine
from shardlint.plan import Fleet, Releases, Remark, ServingPlan, Site
from shardlint.platforms import production_stack as chart
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers import _stack_router
from shardlint.readers._pod import SHM, UNITS
from shardlint.readers._vllm_options import OPTIONS
from shardlint.readers.chart_files import chart_release
from shardlint.readers.edits import RefusedSite, SizeSite
from shardlint.readers.keyed import Keyed, KeySite, key_sites
from shardlint.readers.kubernetes import surge
from shardlint.readers.plans import finished, numbered
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
    settled,
    truthy,
    with_sites,
)
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Source

KIND = "production-stack"
_KEY = re.compile(
    r"""^[ \t{]*["']?(?:servingEngineSpec|routerSpec)["']?[ \t]*:""",
    re.MULTILINE,
)

PREFIX_ON, PREFIX_OFF = "--enable-prefix-caching", "--no-enable-prefix-caching"


class ProductionStackReader:
    """`servingEngineSpec` and `routerSpec`."""

    name = "production-stack"
    kinds = ("values",)
    look: bytes | None = b"servingEngineSpec"

    def accepts(self, source: Source) -> bool:
        return _KEY.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, failed = read_yaml(source)
        if failed is not None:
            return failed
        release = chart_release(source, context, chart.CHART)
        found = [
            values(root, f"{at}:", context, release)
            for at, root in enumerate(roots)
            if is_ours(root)
        ]
        return ReadResult(
            plans=finished(plan for result in found for plan in result.plans),
            routers=tuple(router for result in found for router in result.routers),
        )


def is_ours(root: Node) -> bool:
    """The map is values of this chart."""
    engines = root.get("servingEngineSpec")
    return engines is not None and engines.kind == "map" and root.get("kind") is None


def values(
    root: Node, path: str, context: ReadContext, release: Known[str] | None = None
) -> ReadResult:
    """The engines and the router of one installation; `release` is that of the chart."""
    engines = root.get("servingEngineSpec")
    if engines is None or _is_false(engines.get("enableEngine")):
        return ReadResult()
    plans: list[ServingPlan] = []
    releases = context.platform(KIND, release)
    for at, node in enumerate(items(engines.get("modelSpec"))):
        if node.kind == "map" and not _is_false(node.get("enabled")):
            spec = _Spec(node, engines, f"{path}/servingEngineSpec/modelSpec/{at}", releases)
            plans.extend(replace(plan, platform_releases=releases) for plan in spec.plans(context))
    plans = list(numbered(plans))
    if plans and (said := tuple(_stack_router.refused(root))):
        plans[0] = replace(plans[0], refused=(*plans[0].refused, *said))
    return ReadResult(plans=tuple(plans), routers=tuple(_stack_router.of_values(root, path, plans)))


def _is_false(node: Node | None) -> bool:
    return node is not None and node.style is None and node.value.lower() == "false"


# --------------------------------------------------------------------------------- one model


@record
class _Spec:
    """One entry of `modelSpec`."""

    node: Node
    engines: Node
    path: str
    releases: Known[Releases] = Known.unset()

    @property
    def config(self) -> Node | None:
        """`vllmConfig`, which the chart passes over where it is empty."""
        found = self.node.get("vllmConfig")
        return found if found is not None and found.kind == "map" and truthy(found) else None

    @property
    def ray(self) -> Node | None:
        """The `raySpec` of a RayCluster."""
        found = self.node.get("raySpec")
        if found is None or found.kind != "map":
            return None
        if self._is(None, chart.RAY_SINCE):
            return None
        if self._is(None, chart.RAY_ALWAYS_UNTIL):
            return found
        stated = found.get("enabled")
        if stated is None and self._is(chart.RAY_ALWAYS_UNTIL, None):
            return None
        return found if stated is None or truthy(stated) else None

    def _is(self, since: str | None, until: str | None) -> bool:
        """Every release of the chart that is possible is one of these."""
        spans = self.releases.values
        return bool(spans) and all(span.within(since, until) for span in spans)

    def plans(self, context: ReadContext) -> Iterator[ServingPlan]:
        owner = self._owner()
        for plan in container_plans(owner, self._pod(), self._container(), self.path, context):
            yield self._completed(plan)

    def _owner(self) -> Owner:
        node = self.node
        return Owner(
            node=node,
            kind=KIND,
            path=self.path,
            title=node.string("name"),
            role=self._role(),
            fleet=self._fleet(),
            nodes=self._nodes(),
            command=tuple(self._command()),
            arguments=tuple(self._arguments()),
            more=tuple(self._more()),
            placement=self._group(),
            remarks=tuple(self._remarks()),
            platform=KIND,
        )

    def _role(self) -> str | None:
        role = self.node.string("lmcacheConfig", "kvRole")
        return {"kv_producer": "prefill", "kv_consumer": "decode"}.get(role or "")

    # ------------------------------------------------------------------------ the command line

    def _command(self) -> Iterator[Text]:
        like = key_of(self.node, "modelURL")
        yield added("vllm", like)
        yield added("serve", like)
        if (model := self.node.get("modelURL")) is not None:
            yield model.text()

    def _arguments(self) -> Iterator[Text]:
        node, config = self.node, self.config
        if self.ray is not None:
            like = key_of(node, "raySpec")
            yield from (added(w, like) for w in ("--distributed-executor-backend", "ray"))
        if truthy(node.get("enableLoRA")):
            yield added("--enable-lora", key_of(node, "enableLoRA"))
        if truthy(node.get("enableTool")):
            yield added("--enable-auto-tool-choice", key_of(node, "enableTool"))
        if (parser := node.get("toolCallParser")) is not None and truthy(parser):
            yield from option("--tool-call-parser", parser)
        if config is not None:
            yield from self._prefix_caching(config)
            table = chart.RAY_OPTIONS if self.ray is not None else chart.OPTIONS
            yield from settled(Keyed(option=table.get, off="negate").words(config))
            extra = config.get("extraArgs")
            if extra is not None and extra.kind != "list" and truthy(extra):
                yield Text.unknown(extra.origin, "extraArgs is no list", many=True)

    def _prefix_caching(self, config: Node) -> Iterator[Text]:
        """Without `enablePrefixCaching: true` a Deployment is told to do without."""
        asked = config.get("enablePrefixCaching")
        if asked is not None and (reason := placeholder(asked.value)):
            yield Text.unknown(asked.origin, reason)
        elif truthy(asked):
            yield added(PREFIX_ON, asked or config)
        elif self.ray is None:
            yield added(PREFIX_OFF, asked or key_of(self.node, "vllmConfig"))

    def _more(self) -> Iterator[Text]:
        """What stands behind `extraArgs`."""
        node, cache = self.node, self.node.get("lmcacheConfig")
        if (revision := node.get("modelRevision")) is not None and truthy(revision):
            yield from option("--revision", revision)
        if cache is not None and truthy(cache.get("enabled")):
            role = cache.string("kvRole") if self.ray is None else None
            told = f'{{"kv_connector":"LMCacheConnectorV1","kv_role":"{role or "kv_both"}"}}'
            like = key_of(node, "lmcacheConfig")
            yield added("--kv-transfer-config", like)
            yield added(told, like)

    # ------------------------------------------------------------------------------- the pod

    def _container(self) -> Node:
        config = self.config
        extra = config.get("extraArgs") if config is not None else None
        return mapping(
            self.node,
            (
                ("image", self._image()),
                ("args", extra if extra is not None and extra.kind == "list" else None),
                ("env", listing(self.node, self._environment())),
                ("envFrom", self.engines.get("configs") or self.node.get("envFromSecret")),
                ("resources", self._resources()),
                ("volumeMounts", listing(self.node, self._mounts())),
                *(self._probes() if self.ray is None else ()),
            ),
        )

    def _probes(self) -> Iterator[tuple[str, Node | None]]:
        """Probes of the engines; the chart has numbers for what is not stated."""
        for name, numbers in chart.PROBES.items():
            written = [pair for pair in self.engines.pairs if pair[0].value == name]
            if written and not truthy(written[-1][1]):
                continue
            like = written[-1][0] if written else self.node.get("modelURL") or self.node
            own = written[-1][1] if written else None
            rows = [
                (key, (own.get(key) if own is not None else None) or scalar(str(number), like))
                for key, number in numbers.items()
            ]
            yield name, mapping(like, rows)

    def _image(self) -> Node | None:
        name, tag = self.node.get("repository"), self.node.get("tag")
        if name is None or name.kind != "scalar":
            return None
        told = tag is not None and tag.kind == "scalar"
        return scalar(f"{name.value}:{tag.value}", name) if told and tag is not None else name

    def _environment(self) -> Iterator[Node]:
        """Variables in the order in which they are set: the last of a name counts."""
        node = self.node
        if self.ray is not None:
            v1 = self.config.get("v1") if self.config is not None else None
            if self.config is not None:
                yield self._variable("VLLM_USE_V1", v1 or scalar("0", self.ray))
        elif self.config is not None and self.config.string("v0") == "1":
            yield self._variable("VLLM_USE_V1", scalar("0", self.config))
        else:
            yield from items(self.engines.get("env"))
        yield from items(node.get("env"))
        devices = node.get("lmcacheConfig", "cudaVisibleDevices")
        if devices is not None and self.ray is None:
            yield self._variable("CUDA_VISIBLE_DEVICES", devices)

    def _variable(self, name: str, value: Node) -> Node:
        return mapping(value, (("name", scalar(name, value)), ("value", value)))

    def _resources(self) -> Node | None:
        own = self.node.get("resources")
        if own is not None and truthy(own):
            return own
        requests: list[tuple[Node | str, Node | None]] = []
        limits: list[tuple[Node | str, Node | None]] = []
        count, head = self._requested(), self._head_request()
        if count is not None and (self.ray is None or self._alike()):
            resource = self.node.string("requestGPUType") or chart.GPU
            limits.append((scalar(resource, count), count))
            requests.append((scalar(resource, count), head))
        for key, name in SHARES.items():
            if (
                share := self.node.get(f"limit{key}") or self.node.get(f"request{key}")
            ) is not None:
                limits.append((name, share))
        if (memory := self.node.get("limitMemory")) is not None:
            limits.append(("memory", memory))
        entries = (
            ("limits", mapping(self.node, limits)),
            ("requests", mapping(self.node, requests)),
        )
        return mapping(self.node, entries)

    def _requested(self) -> Node | None:
        """The GPUs that the pod asks for; None where the chart writes none."""
        return _rendered(self.node.get("requestGPU"))

    def _head_request(self) -> Node | None:
        return _rendered(self.ray.get("headNode", "requestGPU")) if self.ray is not None else None

    def _alike(self) -> bool:
        """Head and workers have as many GPUs; the engine process runs in the head's pod."""
        head, worker = self._head_request(), self._requested()
        return head is not None and worker is not None and head.value == worker.value

    def _mounts(self) -> Iterator[Node]:
        if (size := self._shm()) is not None:
            yield memory_volume("shm", size, SHM)[0]
        yield from items(self.node.get("extraVolumeMounts"))

    def _volumes(self) -> Iterator[Node]:
        if (size := self._shm()) is not None:
            yield memory_volume("shm", size, SHM)[1]
        yield from items(self.node.get("extraVolumes"))

    def _shm(self) -> Node | None:
        """The size of the volume on /dev/shm; None where the chart mounts none."""
        tp = self.config.get("tensorParallelSize") if self.config is not None else None
        if tp is None:
            return None
        size = self.node.get("shmSize")
        return (
            size
            if size is not None and truthy(size)
            else scalar(chart.SHM, key_of(self.node, "vllmConfig"))
        )

    def _pod(self) -> Node:
        node = self.node
        shared = truthy(node.get("lmcacheConfig", "enablePD")) and self.ray is None
        like = node.get("lmcacheConfig", "enablePD") or node
        runtime = node.pair("runtimeClassName") or self.engines.pair("runtimeClassName")
        return mapping(
            node,
            (
                ("hostIPC", scalar("true", like) if shared else None),
                ("affinity", self._affinity()),
                ("volumes", listing(node, self._volumes())),
                ("runtimeClassName", runtime[1] if runtime and truthy(runtime[1]) else None),
                ("schedulerName", self.engines.get("schedulerName")),
            ),
        )

    def _affinity(self) -> Node | None:
        node = self.node
        own = node.get("affinity")
        if own is not None and truthy(own) and self.ray is None:
            return own
        terms = node.get("nodeSelectorTerms")
        if terms is None or truthy(node.get("nodeName")):
            return None
        return on_nodes(terms)

    # ----------------------------------------------------------------------------- its copies

    def _fleet(self) -> Fleet:
        node, keda = self.node, self.node.get("keda")
        if self.ray is not None:
            return Fleet(replicas=Known.of(1, (self.ray.get("enabled") or self.ray).origin))
        if keda is not None and truthy(keda.get("enabled")):
            least = integer(keda.get("minReplicaCount"))
            unset: Known[int] = Known.unknown("KEDA decides how many replicas there are")
            return Fleet(
                replicas=least.or_default(unset), max_replicas=integer(keda.get("maxReplicaCount"))
            )
        replicas = integer(node.get("replicaCount"))
        return Fleet(replicas=replicas, surge=self._surge(replicas), at_once=chart.AT_ONCE)

    def _surge(self, replicas: Known[int]) -> Known[int]:
        """Unless a strategy is stated, as many new pods as there are, before an old one stops."""
        strategy = self.engines.get("strategy")
        if strategy is not None and truthy(strategy):
            return surge(strategy, replicas)
        return replicas.or_default(Known.of(1, how="defaulted"))

    def _nodes(self) -> Known[int]:
        """The pods of one engine: with Ray, the workers and the head."""
        workers = integer(self.node.get("replicaCount"))
        if self.ray is None:
            return Known.unset()
        if workers.is_unset:
            return Known.unknown("replicaCount, the number of workers, is not stated")
        return self._perhaps(workers.map(chart.ray_nodes))

    def _perhaps(self, fact: Known[int]) -> Known[int]:
        """Newer charts make a RayCluster only of a `raySpec` that is enabled."""
        if self.ray is None or self.ray.get("enabled") is not None:
            return fact
        if self._is(None, chart.RAY_ALWAYS_UNTIL):
            return fact
        before = f"the chart is older than {chart.RAY_ALWAYS_UNTIL}"
        return fact.assuming(f"raySpec makes a RayCluster without `enabled: true`: {before}")

    def _group(self) -> Mapping[str, Any]:
        """The GPUs of the whole RayCluster."""
        if self.ray is None or truthy(self.node.get("resources")):
            return {}
        if truthy(self.ray.get("headNode", "resources")):
            return {}
        workers = integer(self.node.get("replicaCount"))
        counts = [
            _count(self.ray.get("headNode", "requestGPU")),
            _count(self.node.get("requestGPU")),
        ]
        if any(count.is_unset for count in (*counts, workers)):
            return {}
        return {"group_devices": self._perhaps(combine(chart.ray_gpus, *counts, workers))}

    # ------------------------------------------------------------------------ what is passed over

    def _remarks(self) -> Iterator[Remark]:
        yield from self._gpu_remarks()
        for key, _ in self.node.entries():
            if key.value in chart.INSIDE:
                where = "the chart reads it inside `vllmConfig` only"
                yield _ignored(key, f"`{key.value}` has no effect beside `vllmConfig`", where)
        if (selector := self.node.pair("nodeSelector")) is not None:
            message = "the chart does not read `nodeSelector`"
            yield _ignored(selector[0], message, "write it as `nodeSelectorTerms`")
        config = self.config
        pp = config.pair("pipelineParallelSize") if config is not None else None
        if pp is not None and self.ray is None and pp[1].value != "1":
            message = "`pipelineParallelSize` has no effect without `raySpec.enabled: true`"
            yield _ignored(pp[0], message, "a Deployment of the chart gets no such option")
        dp = config.pair("dataParallelSize") if config is not None else None
        if dp is not None and dp[1].value != "1":
            message = "the chart does not read `dataParallelSize`"
            yield _ignored(dp[0], message, "write `--data-parallel-size` into `extraArgs`")
        size = self.node.pair("shmSize")
        if size is not None and self._shm() is None:
            message = "`shmSize` has no effect without `vllmConfig.tensorParallelSize`"
            yield _ignored(size[0], message, "the chart mounts no /dev/shm then")
        yield from self._ray_remarks()

    def _ray_remarks(self) -> Iterator[Remark]:
        """What becomes of a `raySpec` that is not enabled, by the release of the chart."""
        found = self.node.get("raySpec")
        stated = found.get("enabled") if found is not None else None
        if found is None or found.kind != "map" or truthy(stated):
            return
        if self._is(None, chart.RAY_ALWAYS_UNTIL):
            if stated is not None and self.ray is not None:
                message = (
                    f"the chart before {chart.RAY_ALWAYS_UNTIL} does not read `enabled`: any"
                    " `raySpec` makes a RayCluster"
                )
                yield _ignored(stated, message, "leave `raySpec` out")
        elif stated is None:
            key = key_of(self.node, "raySpec")
            message = (
                "`raySpec` without `enabled: true` has no effect from chart"
                f" {chart.RAY_ALWAYS_UNTIL} on: it makes a Deployment, no RayCluster"
            )
            yield _ignored(key, message, "write `enabled: true` into it")

    def _gpu_remarks(self) -> Iterator[Remark]:
        pair = self.node.pair("requestGPU")
        if pair is None or pair[1].kind != "scalar":
            return
        key, value = pair
        own = self.node.pair("resources")
        if own is not None and truthy(own[1]):
            if (_asked(value) or 0) > 0 and not _has_gpu(own[1]):
                message = f"`resources` replaces requestGPU {value.value}: no GPU is asked for"
                yield Remark(
                    kind="gpu-request", at=key.origin, message=message, severity="warning",
                    help="write the GPUs into `resources.limits`",
                )  # fmt: skip
        elif chart.is_dropped(value.value, value.style is not None):
            message = (
                f"requestGPU {value.value} is cut to 0: the pod asks for no GPU, and can see every"
                " GPU of its node or none"
            )
            yield Remark(
                kind="gpu-request", at=key.origin, message=message, severity="warning",
                help="requestGPU 1, or a resource for shares of a GPU as `requestGPUType`",
            )  # fmt: skip

    # ------------------------------------------------------------------------------ the sites

    def _completed(self, plan: ServingPlan) -> ServingPlan:
        placement = plan.placement
        if self._requested() is None and not truthy(self.node.get("resources")):
            # Only `cudaVisibleDevices` tells how many there are; nobody asks for them.
            count = replace(placement.gpus_per_pod, how="derived")
            plan = replace(plan, placement=replace(placement, gpus_per_pod=count))
        elif self.ray is not None and not self._alike():
            why = "the head and the workers do not state as many GPUs"
            unknown: Known[Any] = Known.unknown(why, self.ray.origin)
            plan = replace(plan, placement=replace(placement, gpus_per_pod=unknown))
        return with_sites(plan, self._sites(plan))

    def _sites(self, plan: ServingPlan) -> Mapping[str, Site | None]:
        sites: dict[str, Site | None] = {**key_sites(self.node, {"replicas": "replicaCount"})}
        if self.ray is not None:
            sites["replicas"] = RefusedSite("replicaCount counts the workers of a RayCluster")
        if self.node.get("lmcacheConfig", "cudaVisibleDevices") is not None:
            sites["gpus_per_pod"] = RefusedSite("cudaVisibleDevices chooses among the devices")
        elif self.ray is not None and not self._alike():
            sites["gpus_per_pod"] = RefusedSite(
                "the head and the workers have requests of their own"
            )
        elif "gpus_per_pod" not in plan.sites and not truthy(self.node.get("resources")):
            sites["gpus_per_pod"] = KeySite(self.node, "requestGPU")
        shm = self._shm()
        sites["shm_bytes"] = (
            SizeSite(KeySite(self.node, "shmSize"), UNITS) if shm is not None else None
        )
        for field, name in OPTIONS.items():
            if not self._in_extra(plan, name):
                sites[field] = self._site(field, name)
        return sites

    def _site(self, field: str, name: str) -> Site:
        """Where the chart reads the field: a key of its own, else one more of `extraArgs`."""
        config = self.config
        if config is None:
            return RefusedSite("a `vllmConfig` that was not there turns off the prefix cache")
        table = chart.RAY_OPTIONS if self.ray is not None else chart.OPTIONS
        key = next((key for key, option in table.items() if option == name), None)
        if field == "tp" and config.get("tensorParallelSize") is None:
            return RefusedSite("with `tensorParallelSize` the chart mounts /dev/shm as well")
        return OptionKeySite(name, config, "extraArgs") if key is None else KeySite(config, key)

    def _in_extra(self, plan: ServingPlan, name: str) -> bool:
        """The option that counts stands in `extraArgs`."""
        extra = self.config.get("extraArgs") if self.config is not None else None
        found = [flag for flag in plan.flags if flag.flag == name]
        return (
            bool(found) and extra is not None and extra.span.covers(found[-1].written.origin.span)
        )


SHARES = {
    "GPUMem": "nvidia.com/gpumem",
    "GPUMemPercentage": "nvidia.com/gpumem-percentage",
    "GPUCores": "nvidia.com/gpucores",
}
"""Ends of keys that ask for a share of a GPU, and the resource that each becomes."""


def _asked(node: Node) -> int | None:
    return chart.asked_gpus(node.value, node.style is not None)


def _rendered(node: Node | None) -> Node | None:
    """A request that reaches the pod, or of which that is not known."""
    if node is None or node.kind != "scalar" or _asked(node) == 0:
        return None
    return node


def _count(node: Node | None) -> Known[int]:
    """The GPUs that a request comes to; none is asked for without one."""
    if node is not None and node.kind == "scalar" and _asked(node) == 0:
        return Known.of(0, node.origin)
    return integer(node).or_default(Known.of(0, how="defaulted"))


def _has_gpu(resources: Node) -> bool:
    names = [key.value for part in ("limits", "requests")
             for key, _ in (resources.get(part) or resources).entries()]  # fmt: skip
    return any("/" in name for name in names) or resources.get("claims") is not None


def _ignored(node: Node, message: str, more: str) -> Remark:
    return Remark(kind="ignored", at=node.origin, message=message, severity="warning", help=more)
