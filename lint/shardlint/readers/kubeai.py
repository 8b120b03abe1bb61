"""KubeAI: a Model, which says the engine, its options and a profile of resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import (
    Device,
    Fleet,
    Launch,
    Offer,
    Placement,
    Refusal,
    Remark,
    Router,
    ServingPlan,
    Site,
)
from shardlint.platforms import kubeai
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._vllm_options import OPTIONS
from shardlint.readers.edits import RefusedSite, TextSite, add_entry, one_word
from shardlint.readers.keyed import KeySite, PathSite
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.plans import Host, plan_of
from shardlint.readers.pods import Owner, added
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Source

GROUP = "kubeai.org"
IMAGES = MappingProxyType({"OLlama": "ollama/ollama"})
"""Engines beside vLLM that are known by their image."""

_API = re.compile(r"kubeai\.org/|^[ \t]+strategy:[ \t]*(?:PrefixHash|LeastLoad)\b", re.MULTILINE)
"""Its group, or its word for a policy in a fragment of an object."""


class KubeAIReader:
    """`Model` of the group kubeai.org."""

    name = "kubeai"
    kinds = ("Model",)
    look: bytes | None = b"kubeai.org/"

    def accepts(self, source: Source) -> bool:
        return _API.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        spec = node.get("spec")
        if kind_of(node) not in ((GROUP, "Model"), ("", "Model")):
            return ReadResult()
        if spec is None or spec.kind != "map":
            return ReadResult()
        model = _Model(Owner(node=node, kind="Model", path=path), spec)
        if not kind_of(node)[0]:  # a fragment: that it balances shows whose it is
            known = spec.string("loadBalancing", "strategy") in kubeai.POLICIES
            return ReadResult(routers=(model.router(None),) if known else ())
        plan = model.plan(context)
        if plan is None:
            return ReadResult()
        return ReadResult(plans=(plan,), routers=(model.router(plan),))


@record
class _Model:
    owner: Owner
    spec: Node

    def plan(self, context: ReadContext) -> ServingPlan | None:
        url, engine = self.spec.get("url"), self.spec.string("engine")
        if url is None or url.kind != "scalar":
            return None
        if engine == "VLLM":
            return plan_of(self._vllm(url), self._host(url, context), context)
        if engine is not None and engine in IMAGES:
            image = Known.of(IMAGES[engine], how="derived")
            launch = Launch(origin=url.origin, image=image, argv_complete=False)
            host = replace(self._host(url, context), written={})
            plan = plan_of(launch, host, context)
            model = re.sub(r"^ollama://", "", url.value)
            named = url.text().part(len(url.value) - len(model)).known()
            return replace(plan, model=named) if plan is not None else None
        return None

    # --------------------------------------------------------------------------- the command

    def _vllm(self, url: Node) -> Launch:
        text = url.text()
        if (reason := placeholder(url.value)) is not None:
            text = Text.unknown(text.origin, reason)
        else:
            text = text.part(*kubeai.reference(url.value))
        words = [added(word, url.origin) for word in (*kubeai.COMMAND, "--model")]
        words.append(text)
        if (name := self.owner.node.get("metadata", "name")) is not None:
            words += [added("--served-model-name", name.origin), added(name.value, name.origin)]
        if (adapters := self.spec.pair("adapters")) is not None:
            words.append(added(kubeai.WITH_ADAPTERS, adapters[0].origin))
        args = self._args
        words += [_word(item) for item in (args.items if args is not None else ())]
        image = self.spec.get("image")
        chosen = Known[str].unknown("KubeAI's chart chooses the image")
        return Launch(
            origin=(args or url).origin,
            argv=tuple(words),
            image=image.text().known() if image is not None else chosen,
            env=self._env(),
        )

    @property
    def _args(self) -> Node | None:
        found = self.spec.get("args")
        return found if found is not None and found.kind == "list" else None

    def _env(self) -> Mapping[str, Text]:
        """`env` is a map of words."""
        found = self.spec.get("env")
        pairs = found.entries() if found is not None else ()
        env = {key.value: value.text() for key, value in pairs if value.kind == "scalar"}
        if (adapters := self.spec.pair("adapters")) is not None:
            env.setdefault(kubeai.ADAPTER_VARIABLE, added("True", adapters[0].origin))
        return MappingProxyType(env)

    # ---------------------------------------------------------------------------- the devices

    def _host(self, url: Node, context: ReadContext) -> Host:
        owner, args = self.owner, self._args
        sites = self._replicas()
        placement, more, remarks = self._placement(context)
        full = "/".join(part for part in (owner.namespace, owner.name) if part)
        low = integer(self.spec.get("minReplicas"))
        return Host(
            source=url.source,
            kind="Model",
            name=full or "model",
            path=owner.path,
            origin=url.origin,
            anchors=(owner.node.span,),
            namespace=owner.namespace,
            placement=placement,
            fleet=Fleet(
                replicas=low.or_default(integer(self.spec.get("replicas"))),
                max_replicas=integer(self.spec.get("maxReplicas")),
                surge=Known.of(kubeai.SURGE, low.origin or url.origin, how="derived").assuming(
                    kubeai.ROLLOUT
                ),
                at_once="`modelRollouts.surge: 0` in the values of KubeAI",
                whole=True,
            ),
            platform="kubeai",
            remarks=remarks,
            suppressed=owner.suppressed(),
            sites={**sites, **more},
            written=self._new_options() if args is None or not args.items else {},
            nodes=(args,) if args is not None else (),
        )

    def _replicas(self) -> Mapping[str, Site]:
        names = {"replicas": "minReplicas", "max_replicas": "maxReplicas"}
        return {field: KeySite(self.spec, key) for field, key in names.items()}

    def _new_options(self) -> Mapping[str, Site]:
        """Options where there are no arguments yet."""
        if self.spec.pair("args") is not None or any(k.value == "args" for k, _ in self.spec.pairs):
            refused = RefusedSite("the arguments are no list of words")
            return dict.fromkeys(OPTIONS, refused)
        return {field: _FirstArgument(self.spec, option) for field, option in OPTIONS.items()}

    def _placement(
        self, context: ReadContext
    ) -> tuple[Placement, Mapping[str, Site], tuple[Remark, ...]]:
        """The profile names the card and is multiplied by the count behind it."""
        alone = Placement(
            pods_per_group=Known.of(1, how="derived"),
            shm_ample=True,
            scope=self.owner.path,
            scheduled=True,
        )
        node = self.spec.get("resourceProfile")
        if node is None or node.kind != "scalar":
            return alone, {}, ()
        text = node.text()
        if (reason := placeholder(node.value)) is not None:
            return replace(alone, gpus_per_pod=Known.unknown(reason, node.origin)), {}, ()
        match = kubeai.PROFILE.fullmatch(node.value)
        if match is None:
            why = "KubeAI refuses a resource profile without a count"
            remark = Remark(
                kind="conflict", at=node.origin, message=f"{why}: {node.value}",
                severity="warning", help=f"{node.value}:1",
            )  # fmt: skip
            return replace(alone, gpus_per_pod=Known.unknown(why, node.origin)), {}, (remark,)
        profile, count = text.part(0, match.end(1)), text.part(match.start(2))
        if kubeai.on_cpu(match.group(1)):
            return replace(alone, wants_gpu=False), {}, ()
        said = f"the resource profile {match.group(1)} asks for one device"
        devices: Known[Any] = count.known().map(_whole)
        placed = replace(
            alone,
            gpus_per_pod=devices.assuming(said),
            gpu_label=profile.known(),
            gpu=self._card(match.group(1), context),
            device_kind=Known.of("gpu", profile.origin, how="derived")
            if kubeai.card(match.group(1))
            else Known.unset(),
        )
        return placed, {"gpus_per_pod": TextSite((count,))}, ()

    def _card(self, profile: str, context: ReadContext) -> Known[Device]:
        name = kubeai.card(profile)
        device = context.device(name) if name is not None else Known.unset()
        said = f"the resource profile {profile} is of the card in its name"
        return device.assuming(said) if device.is_known else Known.unset()

    # ----------------------------------------------------------------------------- the router

    def router(self, plan: ServingPlan | None) -> Router:
        """KubeAI's own balancer stands in front of the pods of each model."""
        owner, node = self.owner, self.owner.node
        stated = self.spec.get("loadBalancing", "strategy")
        word = stated.value if stated is not None else kubeai.DEFAULT_POLICY
        count = plan.fleet.replicas.origin or plan.origin if plan is not None else node.origin
        origin = stated.origin if stated is not None else count
        policy: Known[Any] = Known.of(word, origin, how="stated" if stated else "defaulted")
        if (reason := placeholder(word)) is not None:
            policy = Known.unknown(reason, origin)
        awareness = kubeai.POLICIES.get(word, frozenset())
        return Router(
            id=f"{plan.id if plan is not None else f'{node.source.name}#{owner.path}'}/router",
            name=plan.name if plan is not None else owner.name or "Model",
            kind="kubeai",
            file=node.source.name if plan is None else plan.file,
            path=owner.path if plan is None else plan.path,
            origin=origin,
            namespace=owner.namespace,
            policy=policy,
            explicit=stated is not None,
            awareness=awareness,
            sure=word in kubeai.POLICIES and self._generates(),
            backends=(plan.id,) if plan is not None else (),
            engines=plan is not None,
            anchors=(node.span,) if plan is None else plan.anchors,
            suppressed=owner.suppressed() if plan is None else plan.suppressed,
            offers=() if "prefix" in awareness else (self._hashed(),),
        )

    def _generates(self) -> bool:
        """Other features are of vectors, scores and speech, where nobody looks for prefixes."""
        listed = self.spec.get("features")
        named = [item.value for item in listed.items] if listed is not None else []
        return not named or "TextGeneration" in named

    def _hashed(self) -> Offer:
        site = PathSite(self.spec, ("loadBalancing", "strategy"))
        return Offer(
            cures="routing", title="`strategy: PrefixHash`, with a bound on the load",
            delta={"routing": "prefix-aware"}, site=site, value="PrefixHash",
        )  # fmt: skip


def _word(item: Node) -> Text:
    """An argument, which nobody expands; one that is filled in elsewhere is not known."""
    text = item.text()
    reason = placeholder(item.value) if item.kind == "scalar" else None
    return Text.unknown(text.origin, reason) if reason else text


def _whole(value: str) -> int:
    return int(value[:18])


@record
class _FirstArgument:
    """An option in a list of arguments that is not there."""

    spec: Node
    option: str

    def set(self, value: str) -> list[Edit] | Refusal:
        word = one_word(self.option, value)
        return word if isinstance(word, Refusal) else add_entry(self.spec, "args", [word])
