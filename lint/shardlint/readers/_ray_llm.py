"""An engine of Ray Serve LLM: one `LLMConfig`, whose `engine_kwargs` are arguments of vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import (
    Device,
    Launch,
    Offer,
    Refusal,
    Refused,
    Remark,
    Router,
    ServingPlan,
    Site,
    version,
)
from shardlint.platforms import kuberay
from shardlint.plugins import ReadContext
from shardlint.readers._ray_place import KEYS, Place, fleet_of, image_of
from shardlint.readers.edits import MadeSite, RefusedSite, Tree, add_entry
from shardlint.readers.keyed import Keyed, KeySite, PathSite, dashed
from shardlint.readers.plans import plan_of
from shardlint.readers.pods import added
from shardlint.readers.ray_cluster import Group
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Origin


def _of_whole_devices(placed: Node | None) -> bool:
    """Each rank is placed on a device of its own: as it is without bundles, or in those."""
    if placed is None:
        return True
    bundles, each = placed.get("bundles"), placed.get("bundle_per_worker")
    found = bundles.items if bundles is not None else (each,) if each is not None else ()
    return bool(found) and all(integer(bundle.get("GPU")).only == 1 for bundle in found)


@record
class Config:
    """One `LLMConfig`; `item` is what stands for it in the list of the application."""

    place: Place
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
        groups = self.place.groups(card, context)
        group = groups[0] if groups else None
        host = self.place.host(self.app, model, self.path, group, context)
        fleet, more = fleet_of(self.node.get("deployment_config"))
        placement = self.place.placement(host.placement, groups)
        if label.is_known:
            placement = replace(placement, gpu_label=label, gpu=_narrowed(card, placement.gpu))
        near = (part.source.text for part in self.node.parts or (self.node,))
        parts = any(kuberay.FRACTION in text for text in near)
        if parts or not _of_whole_devices(self.node.get("placement_group_config")):
            placement = replace(placement, capacity=Known.unset())
        if (self.node.string("use_cpu") or "").lower() == "true":
            placement = replace(placement, wants_gpu=False)
        devices = self.place.cluster.sites(groups) if self.place.cluster is not None else {}
        host = replace(
            host,
            placement=placement,
            fleet=self.place.renewed(fleet),
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
            image=image_of(group.container) if group is not None else Known.unset(),
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
        yield from self._renamed()
        yield from self._bundles()
        yield from self._spread()
        yield from self._gang()
        yield from self._idle()

    def _idle(self) -> Iterator[Remark]:
        """Ray Serve LLM sets the target that Serve scales by to a thousand million requests."""
        scaling = self.node.get("deployment_config", "autoscaling_config")
        if scaling is None or scaling.get("target_ongoing_requests") is not None:
            return
        low, high = (integer(scaling.get(key)).only for key in ("min_replicas", "max_replicas"))
        pair = scaling.pair("max_replicas")
        if pair is not None and high is not None and high > (low if low is not None else 1):
            yield Remark(
                kind="autoscale",
                at=pair[1].origin,
                message=f"never more than {low if low is not None else 1} of {high} replicas:"
                " Ray Serve LLM scales up at 1e9 ongoing requests unless a target is stated",
                severity="warning",
                help="target_ongoing_requests, such as 32",
            )

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

    def _renamed(self) -> Iterator[Remark]:
        """What Ray Serve LLM refuses beside the arguments of the engine."""
        old, new = kuberay.RENAMED
        experimental = self.node.get("experimental_configs")
        if experimental is not None and (found := experimental.pair(old)) is not None:
            yield _conflict(
                found[0].origin, f"Ray Serve LLM refuses {old}: it is called {new} now", new
            )
        silent = self.kwargs.get("disable_log_stats") if self.kwargs is not None else None
        metrics = (self.node.string("log_engine_metrics") or "true").lower()
        if silent is not None and silent.value.lower() == "true" and metrics == "true":
            yield _conflict(
                silent.origin,
                "Ray Serve LLM refuses disable_log_stats while it logs the metrics of the engine",
                "log_engine_metrics: false, or leave it out",
            )

    def _spread(self) -> Iterator[Remark]:
        """Bundles that are asked to stand on different nodes, with tensor parallelism in them."""
        placed = self.node.get("placement_group_config")
        key = kuberay.strategy_key(tuple(k.value for k, _ in placed.pairs)) if placed else None
        value = placed.get(key) if placed is not None and key is not None else None
        tp = self._size(KEYS["tp"])
        if value is not None and value.value in kuberay.APART and tp is not None and tp > 1:
            yield _conflict(
                value.origin,
                f"{value.value} asks for the {tp} ranks of tensor parallelism on different nodes:"
                " every layer then waits for the network",
                "PACK, or STRICT_PACK",
            )

    def _gang(self) -> Iterator[Remark]:
        """The data parallel ranks of one group are placed together."""
        builder = self.app.string("import_path") or ""
        sizes = [self._size(KEYS[name]) for name in ("dp", "tp", "pp")]
        cluster = self.place.cluster
        if kuberay.RANKS_APART.fullmatch(builder) is None or None in sizes or cluster is None:
            return
        room, pair = cluster.capacity().only, self.kwargs.pair(KEYS["dp"]) if self.kwargs else None
        dp, tp, pp = (size or 1 for size in sizes)
        if room is not None and pair is not None and dp * tp * pp > room:
            yield _conflict(
                pair[1].origin,
                f"one group of {dp} data parallel ranks takes {dp * tp * pp} GPUs, the Ray cluster"
                f" has {room} at most: it is never placed",
                "more GPUs in the groups of workers, or fewer ranks",
            )

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
        found = bundles[1].items if bundles is not None else [each[1]] if each is not None else []
        bare = [item for item in found if item.kind == "map" and item.get("GPU") is None]
        if bare and len(bare) == len(found) and (self.node.string("use_cpu") or "") != "true":
            yield _conflict(
                bare[0].origin,
                "no bundle asks for a GPU: older releases of Ray Serve LLM give each of them one,"
                " newer ones none, and the engine then looks for CPUs",
                "GPU: 1 in each bundle",
            )

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
        alike = self.place.cluster is not None and len(self.place.cluster.with_gpus) == 1
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
        policy, looks = kuberay.policy(None if unknown else word)
        awareness = looks or frozenset()
        bounded = self._bounded() if awareness == {"prefix"} else True
        if awareness == {"prefix"} and bounded:
            awareness |= {"load"}
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
            sure=looks is not None and unknown is None,
            engines=True,
            assumes=() if bounded is not None else (kuberay.UNBOUNDED_NOTE,),
            anchors=plan.anchors,
            suppressed=plan.suppressed,
            offers=tuple(self._offers(awareness)),
        )

    def _bounded(self) -> bool | None:
        """A difference of queues from which load counts more than affinity is stated, or set by
        the release; None: that is not known."""
        key = ("deployment_config", "request_router_config", "request_router_kwargs")
        found = self.node.string(*key, "imbalanced_threshold")
        if found is not None:
            return "inf" not in found.lower()
        cluster = self.place.cluster
        head = cluster.head if cluster is not None else None
        image = image_of(head.container).only if head is not None else None
        tag = re.search(r":v?(\d+\.\d+)", image or "")
        release, since = version(tag[1]) if tag else None, version(kuberay.UNBOUNDED_SINCE)
        return release < since if release is not None and since is not None else None

    def _offers(self, awareness: frozenset[str]) -> Iterator[Offer]:
        """Affinity to prefixes that gives way to load."""
        bound, limit = "imbalanced_threshold", kuberay.BOUND
        key = ("deployment_config", "request_router_config")
        if awareness == {"prefix"}:
            site: Site = PathSite(self.node, (*key, "request_router_kwargs", bound))
            delta = {"routing": "prefix-aware", bound: int(limit)}
            yield Offer(cures="routing", title=f"`{bound}: {limit}`", value=limit, delta=delta,
                        site=site)  # fmt: skip
        elif not awareness & {"prefix", "kv"}:
            yield Offer(
                cures="routing", title=f"PrefixCacheAffinityRouter with `{bound}: {limit}`",
                delta={"routing": "prefix-aware"}, site=MadeSite(self._affinity),
            )  # fmt: skip

    def _affinity(self, _value: str) -> list[Edit] | Refusal:
        found = self.node.get("deployment_config")
        stated = found.get("request_router_config") if found is not None else None
        tree: Tree = {
            "request_router_class": kuberay.AFFINITY,
            "request_router_kwargs": {"imbalanced_threshold": kuberay.BOUND},
        }
        if stated is not None:
            return Refusal("request_router_config is written already")
        if found is None:
            tree = {"request_router_config": tree}
            return add_entry(self.node, "deployment_config", tree)
        return add_entry(found, "request_router_config", tree, self.node)


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
