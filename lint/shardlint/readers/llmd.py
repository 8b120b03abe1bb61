"""Values of the llm-d modelservice chart: `modelArtifacts` with `decode` and `prefill`.

The chart is read in llm-d-incubation/llm-d-modelservice at 3051935; see platforms/llmd.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Fleet, Releases, Remark, ServingPlan, Site, by_release
from shardlint.platforms import llmd as chart
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._pod import UNITS, Pod, ShmSite
from shardlint.readers._vllm_options import OPTIONS
from shardlint.readers.chart_files import chart_release
from shardlint.readers.edits import RefusedSite, SizeSite
from shardlint.readers.keyed import KeySite
from shardlint.readers.kubernetes import surge
from shardlint.readers.plans import VISIBLE, finished, numbered
from shardlint.readers.pods import RESOURCES, Owner, container_plans
from shardlint.readers.rendered import (
    MapSite,
    OptionKeySite,
    added,
    items,
    key_of,
    mapping,
    option,
    truthy,
    with_sites,
    without,
)
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Mapped, Source

KIND = "llm-d-modelservice"
ROLES = ("decode", "prefill")
_KEY = re.compile(r"""^[ \t{]*["']?modelArtifacts["']?[ \t]*:""", re.MULTILINE)
_NAME = re.compile(r"\{\{-? *\.Values\.modelArtifacts\.name *-?\}\}")

OPEN = "it depends on what the chart's own values say of `parallelism`"


class LlmdReader:
    """`modelArtifacts`, `decode`, `prefill`."""

    name = "llm-d"
    kinds = ("values",)
    look: bytes | None = b"modelArtifacts"

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
        return ReadResult(plans=finished(plan for result in found for plan in result.plans))


def is_ours(root: Node) -> bool:
    """The map is values of this chart."""
    has = [root.get(key) for key in ("modelArtifacts", *ROLES)]
    maps = [node is not None and node.kind == "map" for node in has]
    return maps[0] and any(maps[1:]) and root.get("kind") is None


def values(
    root: Node, path: str, context: ReadContext, release: Known[str] | None = None
) -> ReadResult:
    """The engines of one installation of the chart; `release` is that of the chart."""
    plans: list[ServingPlan] = []
    releases = context.platform(KIND, release)
    for role in ROLES:
        node = root.get(role)
        create = node.get("create") if node is not None else None
        if node is None or node.kind != "map" or (create is not None and not truthy(create)):
            continue
        for at, container in enumerate(items(node.get("containers"))):
            if container.kind == "map":
                where = f"{path}/{role}/containers/{at}"
                part = _Part(root, node, container, role, where, releases)
                plans.extend(
                    replace(plan, platform_releases=releases) for plan in part.plans(context)
                )
    return ReadResult(plans=tuple(numbered(plans)))


@record
class _Part:
    """One container of the prefill or decode pods."""

    root: Node
    node: Node
    container: Node
    role: str
    path: str
    releases: Known[Releases] = Known.unset()

    @property
    def command(self) -> str:
        return self.container.string("modelCommand") or chart.COMMANDS[0]

    @property
    def is_custom(self) -> bool:
        return self.command == chart.COMMANDS[0]

    def plans(self, context: ReadContext) -> Iterator[ServingPlan]:
        for plan in container_plans(self._owner(), self._pod(), self._own(), self.path, context):
            yield with_sites(self._labelled(plan), self._sites(plan))

    def _owner(self) -> Owner:
        custom = self.is_custom
        serve = self.command == "vllmServe"
        like = key_of(self.container, "modelCommand")
        return Owner(
            node=self.root,
            kind=KIND,
            path=self.path,
            title=self.role,
            role=self.role,
            fleet=self._fleet(),
            nodes=self._nodes(),
            devices=self._devices(),
            command=(added("vllm", like), added("serve", like)) if serve else (),
            arguments=() if custom else tuple(self._arguments()),
            env=MappingProxyType(dict(self._environment())),
            placement=self._overridden(),
            remarks=tuple(self._remarks()),
            platform=KIND,
        )

    def _labelled(self, plan: ServingPlan) -> ServingPlan:
        """With the name of the card that `acceleratorTypes` gives, whatever it means."""
        names = items(self.node.get("acceleratorTypes", "labelValues"))
        if len(names) != 1 or not plan.placement.gpu_label.is_unset:
            return plan
        label = names[0].text().known()
        return replace(plan, placement=replace(plan.placement, gpu_label=label))

    # -------------------------------------------------------------------------------- sizes

    def _size(self, key: str) -> Node | None:
        return self.node.get("parallelism", key)

    def _asked(self, key: str) -> Known[int]:
        return integer(self._size(key))

    def _sizes(self) -> chart.Parallelism | None:
        """What the sizes come to; None if one that is stated is not known."""
        asked = [self._asked(key) for key in ("tensor", "data", "dataLocal", "workers")]
        if not all(one.is_unset or (one.only or 0) > 0 for one in asked):
            return None
        return chart.parallelism(*(one.only for one in asked))

    def _accelerator(self, key: str) -> Node | None:
        return self.node.get("accelerator", key) or self.root.get("accelerator", key)

    def _devices(self) -> Known[int]:
        """The GPUs that the chart asks for where the container does not."""
        kind = self._accelerator("type")
        if kind is not None and (kind.value == chart.NO_DEVICE or placeholder(kind.value)):
            return Known.unset()
        origin = key_of(self.node, "parallelism").origin
        if truthy(self._accelerator("dra")):
            name = kind.value if kind is not None else "nvidia"
            count = integer(self.root.get("accelerator", "resourceClaimTemplates", name, "count"))
            if not count.is_unset:
                return count
        sizes = self._sizes()
        if sizes is None or sizes.gpus is None:
            return Known.unknown(OPEN, origin)
        return Known.of(sizes.gpus, origin, how="derived")

    def _overridden(self) -> Mapping[str, Any]:
        """The GPUs of a pod, where an older chart puts its own number in place of a stated one."""
        found = self._stated()
        if not found or self._is_shared() or truthy(self._accelerator("dra")):
            return {}
        stated = integer(found[0])
        asked = by_release(chart.CHART, self.releases, chart.KEPT_SINCE, stated, self._worked_out())
        return {} if asked is stated else {"gpus_per_pod": asked}

    def _stated(self) -> list[Node]:
        """The GPUs that the container asks for itself."""
        kind = self._accelerator("type")
        resource = chart.RESOURCES.get(kind.value if kind is not None else "", chart.GPU)
        parts = (self.container.get("resources", part, resource) for part in ("limits", "requests"))
        return [node for node in parts if node is not None]

    def _worked_out(self) -> Known[int]:
        """The number of the chart before 0.3.17; for one rank it has always been the same."""
        sizes = self._sizes()
        if sizes is None or sizes.gpus is None:
            return Known.unknown(OPEN, key_of(self.node, "parallelism").origin)
        by_rank = by_release(
            chart.CHART, self.releases, chart.PER_RANK_SINCE,
            Known.of(sizes.gpus), Known.of(sizes.tensor),
        )  # fmt: skip
        return replace(by_rank, origin=key_of(self.node, "parallelism").origin, how="derived")

    def _is_shared(self) -> bool:
        """Units of a resource that others share out: for the chart, one stands for one rank."""
        kind = self._accelerator("type")
        resource = chart.RESOURCES.get(kind.value if kind is not None else "", chart.GPU)
        return not RESOURCES.match(resource)

    def _nodes(self) -> Known[int]:
        """`workers` pods make up one replica of a LeaderWorkerSet; a Deployment has one pod."""
        stated = self.root.get("multinode")
        if not truthy(stated):
            return Known.unset()
        sizes, workers = self._sizes(), self._asked("workers")
        if not workers.is_unset:
            return workers
        if sizes is None or sizes.workers is None or stated is None:
            return Known.unknown(OPEN, stated.origin if stated is not None else None)
        return Known.of(sizes.workers, stated.origin, how="derived")

    def _fleet(self) -> Fleet:
        scaled = self.node.get("autoscaling", "enabled")
        if scaled is not None and truthy(scaled):
            return Fleet(replicas=Known.unknown("an autoscaler decides", scaled.origin))
        replicas = integer(self.node.get("replicas"))
        if self.role == "prefill":
            replicas = replicas.or_default(Known.of(0, how="defaulted"))
        if _open(self.root.get("multinode")):
            return Fleet(replicas=replicas)
        started = surge(self.node.get("strategy"), replicas)
        return Fleet(replicas=replicas, surge=started, at_once=chart.AT_ONCE)

    # ------------------------------------------------------------------------ the command line

    def _arguments(self) -> Iterator[Text]:
        """What the chart puts before the arguments of the container."""
        model = self._model()
        if self.command == "imageDefault":
            yield added("--model", key_of(self.root, "modelArtifacts"))
        if model is not None:
            yield model
        sizes, like = self._sizes(), key_of(self.node, "parallelism")
        rows = (
            ("tensor", "--tensor-parallel-size", sizes.tensor if sizes else None),
            ("data", "--data-parallel-size", sizes.data if sizes else None),
            ("dataLocal", "--data-parallel-size-local", sizes.local if sizes else None),
        )
        for key, name, size in rows:
            stated = self._size(key)
            if stated is not None and self._asked(key).only != 1:
                yield from option(name, stated)
            elif stated is None and size is None:
                yield Text.unknown(like.origin, OPEN, many=True)
            elif stated is None and size is not None and size > 1:
                yield added(name, like)
                yield added(str(size), like)
        if (served := self.root.get("modelArtifacts", "name")) is not None:
            yield from option("--served-model-name", served)

    def _model(self) -> Text | None:
        """The model of `modelArtifacts.uri`, which is `hf://` with its name unless it is stated."""
        name, uri = self.root.get("modelArtifacts", "name"), self.root.get("modelArtifacts", "uri")
        if uri is None or uri.kind != "scalar":
            return name.text() if name is not None and uri is None else None
        text = uri.text()
        told = name.value if name is not None and name.kind == "scalar" else ""
        written = _NAME.sub(lambda _: told, uri.value) if told else uri.value
        mount = self.root.string("modelArtifacts", "mountPath") or chart.MOUNT
        model = chart.model_of(written, mount)
        if model is None or placeholder(written):
            why = placeholder(written) or f"{written!r} names no model that the chart can pass on"
            return Text.unknown(uri.origin, why)
        if text.mapped is not None and written == uri.value and written.endswith(model):
            return text.part(len(written) - len(model))
        return Text(Mapped.all_at(model, uri.span), uri.origin)

    def _environment(self) -> Iterator[tuple[str, Text]]:
        """Variables that hold the sizes; they win over those of the container."""
        sizes, like = self._sizes(), key_of(self.node, "parallelism")
        rows = (
            ("TP_SIZE", "tensor", sizes.tensor if sizes else None),
            ("DP_SIZE", "data", sizes.data if sizes else None),
            ("DP_SIZE_LOCAL", "dataLocal", sizes.local if sizes else None),
        )
        for name, key, size in rows:
            stated = self._size(key)
            if stated is not None and stated.kind == "scalar":
                yield name, stated.text()
            elif size is None:
                yield name, Text.unknown(like.origin, OPEN)
            else:
                yield name, added(str(size), like)

    # ------------------------------------------------------------------------------- the pod

    def _own(self) -> Node:
        """The container with its `extraConfig`; the chart writes its command, if it does."""
        extra = self.container.get("extraConfig")
        more = list(extra.entries()) if extra is not None else []
        dropped: tuple[str, ...] = () if self.is_custom else ("command",)
        own = without(self.container, *dropped, "resources")
        return mapping(self.container, [*more, *own.pairs, ("resources", self._resources())])

    def _resources(self) -> Node | None:
        """What the container asks for; the chart fills in a limit that is not there."""
        node = self.container.get("resources")
        requests = node.get("requests") if node is not None else None
        limits = node.get("limits") if node is not None else None
        if node is None or requests is None:
            return node
        stated = list(limits.entries()) if limits is not None else []
        names = {key.value for key, _ in stated}
        more = [pair for pair in requests.entries() if "/" in pair[0].value]
        filled = [*stated, *(pair for pair in more if pair[0].value not in names)]
        rest = without(node, "limits")
        return mapping(node, [("limits", mapping(node, filled)), *rest.pairs])

    def _pod(self) -> Node:
        """Its part of the values has keys of a pod, and others."""
        extra = self.node.get("extraConfig")
        more = list(extra.entries()) if extra is not None else []
        pairs = [*more, *self.node.entries()]
        return mapping(self.node, [*pairs, ("affinity", self._affinity())])

    def _affinity(self) -> Node | None:
        types = self.node.get("acceleratorTypes")
        key = types.get("labelKey") if types is not None else None
        names = types.get("labelValues") if types is not None else None
        if types is None or key is None or names is None or not truthy(key):
            return None
        like = types
        operator = Node("scalar", key.span, key.source, "In")
        row = mapping(like, (("key", key), ("operator", operator), ("values", names)))
        rows = Node("list", like.span, like.source, items=[row])
        term = mapping(like, (("matchExpressions", rows),))
        terms = Node("list", like.span, like.source, items=[term])
        required = mapping(like, (("nodeSelectorTerms", terms),))
        inner = mapping(like, (("requiredDuringSchedulingIgnoredDuringExecution", required),))
        return mapping(like, (("nodeAffinity", inner),))

    # ------------------------------------------------------------------------ what is passed over

    def _remarks(self) -> Iterator[Remark]:
        workers = self.node.get("parallelism", "workers")
        count = integer(workers).only or 1
        if workers is not None and count > 1 and not _open(self.root.get("multinode")):
            yield Remark(
                kind="ignored", at=workers.origin, severity="warning",
                message=f"{count} workers have no effect without `multinode: true`: there is one"
                " pod, and the ranks of the others are waited for",
                help="`multinode: true` makes a LeaderWorkerSet of as many pods",
            )  # fmt: skip
        command = self.container.pair("command")
        if command is not None and not self.is_custom and truthy(command[1]):
            yield Remark(
                kind="ignored", at=command[0].origin, severity="warning",
                message=f"`command` has no effect with `modelCommand: {self.command}`",
                help="`modelCommand: custom` runs it",
            )  # fmt: skip
        if self._overridden():
            yield from self._replaced()
        else:
            yield from self._unequal()

    def _replaced(self) -> Iterator[Remark]:
        """The container asks for GPUs, and an older chart asks for its own number."""
        node, worked_out = self._stated()[0], self._worked_out()
        if worked_out.is_known and integer(node).only not in worked_out.values:
            count = " or ".join(str(value) for value in worked_out.values)
            yield Remark(
                kind="ignored", at=node.origin, severity="warning",
                message=f"the chart before {chart.KEPT_SINCE} asks for {count} GPUs (tensor ×"
                " dataLocal), whatever stands here",
                help="the number that `parallelism` comes to, or a newer chart",
            )  # fmt: skip

    def _unequal(self) -> Iterator[Remark]:
        """The chart fills in the limit and the request apart, each where it is not there."""
        sizes = self._sizes()
        if sizes is None or sizes.gpus is None or truthy(self._accelerator("dra")):
            return
        kind = self._accelerator("type")
        resource = chart.RESOURCES.get(kind.value if kind is not None else "", chart.GPU)
        found = {
            part: self.container.get("resources", part, resource) for part in ("limits", "requests")
        }
        given = [(part, node) for part, node in found.items() if node is not None]
        if len(given) != 1:
            return
        part, node = given[0]
        count = integer(node).only
        if count is not None and count != sizes.gpus:
            other = "requests" if part == "limits" else "limits"
            yield Remark(
                kind="conflict", at=node.origin, severity="warning",
                message=f"{part} say {count}, and the chart fills {other} with {sizes.gpus}"
                " (tensor × dataLocal): Kubernetes takes no pod whose GPUs differ there",
                help="state both, or none",
            )  # fmt: skip

    # ------------------------------------------------------------------------------ the sites

    def _sites(self, plan: ServingPlan) -> Mapping[str, Site]:
        sites: dict[str, Site] = {"replicas": KeySite(self.node, "replicas")}
        names = OPTIONS
        written = {field for field, name in names.items() if self._in_args(plan, name)}
        if not self.is_custom:
            for field in names.keys() - written - {"tp", "dp"}:
                sites[field] = OptionKeySite(names[field], self.container, "args")
            if "tp" not in written:
                node = self.node.get("parallelism")
                sites["tp"] = (
                    KeySite(node, "tensor")
                    if node is not None and node.pairs
                    else MapSite(self.node, "parallelism", "tensor")
                )
            if "dp" not in written:
                why = "data, dataLocal and workers depend on each other"
                sites["dp"] = RefusedSite(why)
        variables = {row.string("name") for row in items(self.container.get("env"))}
        if narrowing := variables & set(VISIBLE):
            why = f"{min(str(name) for name in narrowing)} chooses among the devices"
            sites["gpus_per_pod"] = RefusedSite(why)
        elif "gpus_per_pod" not in plan.sites:
            sites["gpus_per_pod"] = RefusedSite("the chart works it out: tensor × dataLocal")
        if plan.placement.shm_bytes.how == "defaulted" and "shm_bytes" in plan.sites:
            sites["shm_bytes"] = SizeSite(ShmSite(Pod(spec=self.node), self.container), UNITS)
        return sites

    def _in_args(self, plan: ServingPlan, name: str) -> bool:
        """The option that counts stands among the arguments of the container."""
        args = self.container.get("args")
        found = [flag for flag in plan.flags if flag.flag == name]
        if not found or args is None:
            return False
        return args.span.covers(found[-1].written.origin.span)


def _open(node: Node | None) -> bool:
    """It is true, or filled in elsewhere."""
    return node is not None and (truthy(node) or placeholder(node.value) is not None)
