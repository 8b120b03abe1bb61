"""The router of the vLLM production stack: `routerSpec` of the chart, and objects VLLMRouter.

Read in vllm-project/production-stack at a6c01db: `helm/values.yaml`, `src/vllm_router/parsers` and
`routers/routing_logic.py`; facts of routing, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from shardlint.known import Known, Text
from shardlint.plan import Offer, Refusal, Refused, Remark, Router, ServingPlan
from shardlint.platforms import production_stack as chart
from shardlint.readers.edits import JointSite, MadeSite, Tree, add_entry
from shardlint.readers.keyed import KeySite, one_process
from shardlint.readers.pods import Owner
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.source import Edit, Origin, Span

LOGIC, LEAST, KEY = "routingLogic", "prefixMinMatchLength", "sessionKey"
ENOUGH = "128"
"""Characters of a match below which the load decides: one of the chunks that are compared, the
least that counts (`chunk_size` of `prefix/hashtrie.py`)."""

TITLE = (
    f"`{LOGIC}: prefixaware` with `{LEAST}: {ENOUGH}`, better more than the prompt that all"
    " requests share"
)
HEADER = "x-user-id"
"""The header of the project's own examples (`tutorials/assets`)."""

NO_KEY = "Session key must be provided when using session routing logic."


def of_values(root: Node, path: str, plans: list[ServingPlan]) -> Iterator[Router]:
    """The router of a release, which there is unless it is switched off."""
    spec = root.get("routerSpec")
    place = spec.pair(LOGIC) if spec is not None else None
    off = _is_false(spec.get("enableRouter") if spec is not None else None)
    if off or not (plans or place is not None):
        return
    key, engines = root.pair("servingEngineSpec") or (root, root)
    origin = place[0].origin if place is not None else (spec or key).origin
    known = _policy(place).only in chart.ROUTING
    yield _router(
        root, spec, f"{path}/routerSpec", "production-stack-router", "router", origin,
        backends=tuple(plan.id for plan in plans) if known else (),
        anchors=((spec or engines).span,),
        engines=bool(plans),
        more=tuple(_caching(engines)),
    )  # fmt: skip


def of_object(node: Node, path: str) -> Iterator[Router]:
    """An object VLLMRouter, with the pods that its label selector finds."""
    spec = node.get("spec")
    if spec is None or spec.kind != "map" or _is_false(spec.get("enableRouter")):
        return
    owner = Owner(node=node, kind="VLLMRouter", path=path)
    place = spec.pair(LOGIC)
    name = node.get("metadata", "name")
    origin = place[1].origin if place is not None else (name or node).origin
    found = spec.string("serviceDiscovery") in (None, "k8s")
    labels = chart.selector(spec.string("k8sLabelSelector") or "") if found else None
    router = _router(
        node, spec, f"{path}/spec", "production-stack-router",
        "/".join(part for part in (owner.namespace, owner.name) if part) or "router", origin,
        selector=labels if _policy(place).only in chart.ROUTING else None,
        namespace=owner.namespace, suppressed=owner.suppressed(), anchors=(node.span,),
    )  # fmt: skip
    yield replace(router, remarks=tuple(_unkeyed(spec)))


def _router(
    root: Node,
    spec: Node | None,
    path: str,
    kind: str,
    name: str,
    origin: Origin,
    *,
    backends: tuple[str, ...] = (),
    selector: Mapping[str, str] | None = None,
    namespace: str | None = None,
    suppressed: Mapping[str, Origin] | None = None,
    anchors: tuple[Span, ...] = (),
    engines: bool = True,
    more: tuple[Offer, ...] = (),
) -> Router:
    place = spec.pair(LOGIC) if spec is not None else None
    policy = _policy(place)
    awareness = chart.ROUTING.get(policy.only or "", frozenset())
    least = integer(spec.get(LEAST)).only if spec is not None else None
    if policy.only == "prefixaware" and least:
        awareness |= {"load"}
    return Router(
        id=f"{root.source.name}#{path}",
        name=name,
        kind=kind,
        file=root.source.name,
        path=path,
        origin=origin,
        namespace=namespace,
        policy=policy,
        explicit=place is not None,
        awareness=awareness,
        sure=policy.only in chart.ROUTING,
        engines=engines and policy.only != chart.FIRST,
        backends=backends if policy.only != chart.FIRST else (),
        selector=(selector if policy.only != chart.FIRST else None) or {},
        spills=policy.only in chart.SPILLS,
        state="process" if policy.only == "prefixaware" else None,
        replicas=integer(spec.get("replicaCount") or spec.get("replicas"))
        if spec is not None else Known.unset(),
        anchors=anchors,
        suppressed=suppressed or {},
        offers=(*_offers(root, spec, awareness), *_alone(spec), *more)
        if policy.only not in chart.PARTED else (),
    )  # fmt: skip


def _policy(place: tuple[Node, Node] | None) -> Known[str]:
    if place is None:
        return Known.of(chart.DEFAULT_ROUTING, how="defaulted")
    node = place[1]
    reason = placeholder(node.value) if node.kind == "scalar" else "it is no word"
    if reason is not None:
        return Known.unknown(reason, node.origin)
    return Known.of(node.value, node.origin)


def _is_false(node: Node | None) -> bool:
    return node is not None and node.style is None and node.value.lower() == "false"


# -------------------------------------------------------------------------------------- offers


def _offers(root: Node, spec: Node | None, awareness: frozenset[str]) -> Iterator[Offer]:
    """Prefixes with a bound from which the load decides, else sessions by a header."""
    if spec is not None and _keyless(spec) is not None:
        yield Offer(
            cures="session_key", title=f"`{KEY}: {HEADER}`, the header that your clients send",
            delta={"session_key": HEADER}, site=_Keys(root, spec, {KEY: HEADER}).site,
        )  # fmt: skip
        instead = {LOGIC: "prefixaware", LEAST: ENOUGH}
        yield Offer(cures="session_key", title=TITLE, delta={"routing": "prefix-aware"},
                    site=_Keys(root, spec, instead).site)  # fmt: skip
    if "prefix" in awareness and awareness & {"load", "kv"}:
        return
    bounded = {LOGIC: "prefixaware", LEAST: ENOUGH}
    yield Offer(cures="routing", title=TITLE, delta={"routing": "prefix-aware"},
                site=_Keys(root, spec, bounded).site)  # fmt: skip
    if "prefix" not in awareness and "session" not in awareness:
        sticky = {LOGIC: "session", KEY: HEADER}
        yield Offer(
            cures="routing", title=f"`{LOGIC}: session` with `{KEY}: {HEADER}`, the header that"
            " your clients send", site=_Keys(root, spec, sticky).site,
            delta={"routing": "session-hash", "session_key": HEADER},
        )  # fmt: skip


def _alone(spec: Node | None) -> Iterator[Offer]:
    for key in ("replicaCount", "replicas") if spec is not None else ():
        assert spec is not None
        yield from one_process(spec, key)


class _Keys:
    """Several keys of the router's map, all or none; without a map, a new one."""

    def __init__(self, root: Node, spec: Node | None, keys: dict[str, str]) -> None:
        self.root, self.spec, self.keys = root, spec, keys
        self.site = MadeSite(self._made)

    def _made(self, _value: str) -> list[Edit] | Refusal:
        if self.spec is None or self.spec.kind != "map" or not self.spec.pairs:
            if self.root.get("servingEngineSpec") is None or self.spec is not None:
                return Refusal("there is no map of the router to write into")
            tree: dict[str, Tree] = dict(self.keys)
            return add_entry(self.root, "routerSpec", tree)
        edits: list[Edit] = []
        absent = {key for key in self.keys if self.spec.get(key) is None}
        if len(absent) > 1 and not self.spec.flow:
            return Refusal("more than one key would be written at one place")
        for key, value in self.keys.items():
            node = self.spec.get(key)
            if node is not None and node.style in ("'", '"') and not (node.value or node.alias):
                edits.append(Edit(node.source.name, node.span, value))  # in place of the quotes
                continue
            made = KeySite(self.spec, key).set(value)
            if isinstance(made, Refusal):
                return made
            edits += made
        return _joined(edits)


def _joined(edits: list[Edit]) -> list[Edit]:
    """Insertions at one place as one."""
    found: dict[tuple[str, Span], Edit] = {}
    for edit in edits:
        key = (edit.file, edit.span)
        before = found[key].text if key in found else ""
        found[key] = Edit(edit.file, edit.span, before + edit.text)
    return list(found.values())


def _caching(engines: Node) -> Iterator[Offer]:
    """Prefix caching in the engines that the chart starts without."""
    rows = engines.get("modelSpec")
    configs = [item.get("vllmConfig") for item in (rows.items if rows is not None else ())]
    off = [
        KeySite(config, "enablePrefixCaching")
        for config in configs
        if config is not None and config.kind == "map" and config.pairs
        and (config.get("enablePrefixCaching") is None
             or _is_false(config.get("enablePrefixCaching")))
    ]  # fmt: skip
    if off:
        yield Offer(cures="prefix_caching", title="`enablePrefixCaching: true`", value="true",
                    delta={"prefix_caching": True}, site=JointSite(tuple(off)))  # fmt: skip


# ------------------------------------------------------------------------------------ refusals


def _keyless(spec: Node) -> tuple[Node, Node] | None:
    """The policy `session` as it is written, where nothing names the header of a session."""
    place = spec.pair(LOGIC)
    if place is None or place[1].value != "session" or (spec.string(KEY) or ""):
        return None
    extra = spec.get("extraArgs")
    if extra is not None and "session-key" in extra.source.text[extra.span.start : extra.span.end]:
        return None
    return place


def refused(root: Node) -> Iterator[Refused]:
    """The router does not start with `session` and no key to tell sessions by."""
    spec = root.get("routerSpec")
    place = _keyless(spec) if spec is not None else None
    if spec is None or place is None or _is_false(spec.get("enableRouter")):
        return
    empty = any(key.value == KEY for key, _ in spec.pairs)
    yield Refused(
        kind="value",
        written=Text(place[0].text().mapped, place[0].origin),
        at=place[0].origin,
        problem=NO_KEY,
        certain=empty,
        by="the production stack's router",
        remedy=f"{KEY}: the header that carries the session",
        cures="session_key",
    )


def _unkeyed(spec: Node) -> Iterator[Remark]:
    """The same of an object VLLMRouter, whose operator hands on what it says and nothing else."""
    if (place := _keyless(spec)) is not None:
        yield Remark(
            kind="session-key", at=place[1].origin, severity="error",
            message=f"`{LOGIC}: session` without `{KEY}`: the router stops at its start"
            f" ('{NO_KEY}')",
            help=f"`{KEY}` with the header that carries the session",
        )  # fmt: skip
