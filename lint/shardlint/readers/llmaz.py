"""Objects of llmaz: a Playground with the model that it claims, a Service with its template.

Models are objects of their own, OpenModel, in the same file or in another one of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Device, Fleet, Placement, Remark, ServingPlan, Site
from shardlint.platforms import llmaz
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._pod import indexed, quantity
from shardlint.readers.edits import RefusedSite, TextSite
from shardlint.readers.keyed import KeySite
from shardlint.readers.leaderworkerset import GroupSet, set_plans
from shardlint.readers.objects import elsewhere, kind_of, read_objects, siblings
from shardlint.readers.plans import EDITABLE
from shardlint.readers.pods import RESOURCES, Owner, added, container_plans
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Source

_KIND = re.compile(r"\binference\.llmaz\.io/")
TEMPLATE = ("spec", "workloadTemplate")


class LlmazReader:
    """Playgrounds and Services of inference.llmaz.io."""

    name = "llmaz"
    kinds = ("Playground", "Service")
    look: bytes | None = b"llmaz.io/"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        group, kind = kind_of(node)
        if group != llmaz.INFERENCE or kind not in (llmaz.PLAYGROUND, llmaz.SERVICE):
            return ReadResult()
        made = _playground if kind == llmaz.PLAYGROUND else _service
        return ReadResult(plans=tuple(made(node, path, _claim(node, context), context)))


# ------------------------------------------------------------------------------------- models


@record(kw_only=True)
class Claim:
    """The models that an object asks for: the main one's name, its folder and flavor, and all."""

    named: Node | None = None
    main: str | None = None
    flavor: Node | None = None
    folders: Mapping[str, Known[str]] = field(default_factory=lambda: MappingProxyType({}))
    drafts: bool = False
    complete: bool = True
    """Every model that is claimed was found."""


def _claim(node: Node, context: ReadContext) -> Claim:
    single, several = node.get("spec", "modelClaim"), node.get("spec", "modelClaims")
    rows = several.get("models") if several is not None else None
    entries = list(rows.items) if rows is not None else []
    main = [row for row in entries if row.string("role") in (None, "main")]
    first = single.get("modelName") if single is not None else None
    if single is None and main:
        first = main[0].get("name")
    names = [first, *(row.get("name") for row in entries)]
    found = {name.value: _model(name, context) for name in names if name is not None}
    model = found.get(first.value) if first is not None else None
    skips = node.string("metadata", "annotations", llmaz.SKIPS_LOADER) == "true"
    return Claim(
        named=first,
        main=next((name for name, _ in _folders([model], skips)), None),
        flavor=_flavor(model, single if single is not None else several),
        folders=MappingProxyType(dict(_folders(found.values(), skips))),
        drafts=any(row.string("role") == "draft" for row in entries),
        complete=bool(found) and None not in found.values(),
    )


def _model(name: Node, context: ReadContext) -> Node | None:
    """The model of a name: of this file, else the only one of the run."""
    near = [item.node for item in siblings(context, llmaz.MODEL)]
    near = [node for node in near if _is_model(node, name.value)]
    if near:
        return near[0]
    found = [item.node for item in elsewhere(context, llmaz.MODEL)]
    found = [node for node in found if _is_model(node, name.value)]
    return found[0] if len(found) == 1 else None


def _is_model(node: Node, name: str) -> bool:
    same = node.string("metadata", "name") == name
    return same and kind_of(node) == (llmaz.MODELS, llmaz.MODEL)


def _folders(models: Iterable[Node | None], skips: bool) -> Iterator[tuple[str, Known[str]]]:
    """Where the models are in the container, and which they are."""
    for model in models:
        source = model.get("spec", "source") if model is not None else None
        hub = source.get("modelHub", "modelID") if source is not None else None
        uri = source.get("uri") if source is not None else None
        if source is not None and hub is not None and hub.is_string:
            file = source.string("modelHub", "filename")
            yield llmaz.folder(hub.value, file, skips), _word(hub)
        elif uri is not None and uri.is_string:
            yield llmaz.folder_of_uri(uri.value, skips), _word(uri)


def _word(node: Node) -> Known[str]:
    reason = placeholder(node.value)
    return Known.unknown(reason, node.origin) if reason else node.text().known()


def _flavor(model: Node | None, claim: Node | None) -> Node | None:
    """The flavor that counts: the first of the claim, else the first of the model."""
    rows = model.get("spec", "inferenceConfig", "flavors") if model is not None else None
    asked = claim.get("inferenceFlavors", 0) if claim is not None else None
    for row in rows.items if rows is not None else ():
        if asked is None or row.string("name") == asked.value:
            return row
    return None


# ------------------------------------------------------------------------------------- devices


def _with_flavor(plan: ServingPlan, claim: Claim, context: ReadContext) -> ServingPlan:
    """With the devices of the flavor, which take the place of those of the container."""
    flavor = claim.flavor
    if flavor is None:
        return plan
    limits = flavor.get("limits")
    found = [value for key, value in (limits.entries() if limits is not None else ())
             if RESOURCES.match(key.value.strip())]  # fmt: skip
    placement, sites = _named(plan.placement, flavor, context), dict(plan.sites)
    if len(found) == 1:
        count: Known[Any] = integer(found[0])
        placement = replace(placement, gpus_per_pod=count, device_ids=indexed(count))
        placement = replace(placement, device_kind=Known.of("gpu", count.origin))
        sites["gpus_per_pod"] = TextSite((found[0].text(),))
        if found[0].source.name != plan.file:
            sites["gpus_per_pod"] = RefusedSite("the devices are those of a model in another file")
    return replace(plan, placement=placement, sites=MappingProxyType(sites))


def _named(placement: Placement, flavor: Node, context: ReadContext) -> Placement:
    """The card by the labels that the flavor asks of its node, else by the flavor's name."""
    name = flavor.get("name")
    selector = flavor.get("nodeSelector")
    labels = {key.value: (value.value,) for key, value in selector.entries()} if selector else {}
    key, device = context.labels(labels)
    if key is not None and selector is not None and (value := selector.get(key)) is not None:
        label: Known[str] = Known.of(value.value, value.origin)
        return replace(placement, gpu_label=label, gpu=device)
    if name is None or not name.is_string or placeholder(name.value):
        return placement
    card: Known[Device] = context.device(name.value)
    return replace(placement, gpu_label=Known.of(name.value, name.origin), gpu=card)


# ---------------------------------------------------------------------------------- Playground


def _playground(node: Node, path: str, claim: Claim, context: ReadContext) -> Iterator[ServingPlan]:
    spec = node.get("spec")
    if spec is None or spec.kind != "map" or claim.named is None:
        return
    config = spec.get("backendRuntimeConfig")
    own = config if config is not None and config.kind == "map" else None
    name = own.get("backendName") if own is not None else None
    backend = name.value if name is not None else llmaz.DEFAULT_BACKEND
    if backend not in llmaz.COMMANDS:
        return
    owner = _owner(node, path, spec, own, backend, claim)
    where = f"{path}/spec" + ("/backendRuntimeConfig" if own is not None else "")
    for plan in container_plans(owner, None, own or spec, where, context):
        yield _finished(plan, own, claim, context)


def _owner(
    node: Node, path: str, spec: Node, config: Node | None, backend: str, claim: Claim
) -> Owner:
    assert claim.named is not None
    place = claim.named.origin
    word = Text.unknown(place, "the model is not in this run")
    if claim.main is not None:
        word = added(claim.main, place)
    asked = config.string("configName") if config is not None else None
    usual = llmaz.SPECULATIVE if claim.drafts else llmaz.DEFAULT_CONFIG
    arguments = [added(llmaz.MODEL_OPTIONS[backend], place), word]
    if (asked or usual) != llmaz.DEFAULT_CONFIG:
        reason = f"more arguments come from the configuration {asked or usual} of the backend"
        arguments.append(Text.unknown(place, reason, many=True))
    elastic = spec.get("elasticConfig")
    least = elastic.get("minReplicas") if elastic is not None else None
    return Owner(
        node=node,
        kind=llmaz.PLAYGROUND,
        path=path,
        fleet=Fleet(
            replicas=integer(spec.get("replicas")).or_default(integer(least)),
            max_replicas=integer(elastic.get("maxReplicas") if elastic is not None else None),
        ),
        nodes=Known.of(1, how="derived"),
        command=tuple(added(part, place) for part in llmaz.COMMANDS[backend]),
        arguments=tuple(arguments),
        env=_environment(config),
        image=_image(config, backend),
        placement=_memory(config, backend),
        sites=_sites(spec, config),
        platform="llmaz",
    )


def _image(config: Node | None, backend: str) -> Known[str]:
    """The backend's image; its release is stated, or left to the chart."""
    version = config.get("version") if config is not None else None
    if version is None:
        return Known.of(llmaz.IMAGES[backend], how="derived")
    reason = placeholder(version.value)
    if reason or not version.is_string:
        return Known.unknown(reason or "the version is no text", version.origin)
    return version.text().known().map(lambda tag: f"{llmaz.IMAGES[backend]}:{tag}")


def _memory(config: Node | None, backend: str) -> Mapping[str, Any]:
    size = config.get("sharedMemorySize") if config is not None else None
    if size is not None:
        return MappingProxyType({"shm_bytes": quantity(size)})
    usual = llmaz.SHM.get(backend)
    if usual is None:
        return MappingProxyType({"shm_bytes": Known.unknown("the backend's own size")})
    known: Known[int] = Known.of(usual, how="derived", assumes=(llmaz.SHM_ASSUMED,))
    return MappingProxyType({"shm_bytes": known})


def _environment(config: Node | None) -> Mapping[str, Text]:
    items = config.get("envs") if config is not None else None
    env: dict[str, Text] = {}
    for item in items.items if items is not None else ():
        name, value = item.string("name"), item.get("value")
        if name is not None:
            why = f"{name} comes from another object"
            env[name] = value.text() if value is not None else Text.unknown(item.origin, why)
    return MappingProxyType(env)


def _sites(spec: Node, config: Node | None) -> Mapping[str, Site]:
    found: dict[str, Site] = {"replicas": KeySite(spec, "replicas")}
    found["shm_bytes"] = RefusedSite("the size of /dev/shm is that of the backend")
    if config is not None:
        found["shm_bytes"] = KeySite(config, "sharedMemorySize")
    return MappingProxyType(found)


def _finished(
    plan: ServingPlan, config: Node | None, claim: Claim, context: ReadContext
) -> ServingPlan:
    """With the claimed model, whatever of the command line its engine reads, and its flavor."""
    assert claim.named is not None
    reason = f"the model {claim.named.value} is not in this run"
    missing: Known[str] = Known.unknown(reason, claim.named.origin)
    model = claim.folders.get(claim.main or "", missing)
    unknowns = plan.unknowns
    if model.is_known:
        unknowns = tuple(item for item in unknowns if item.field != "model")
    sites = dict(plan.sites)
    if config is None or config.get("args") is None:
        refused = RefusedSite("the playground has no arguments of its own")
        sites |= {name: refused for name in EDITABLE if name in sites}
    plan = replace(plan, model=model, unknowns=unknowns, sites=MappingProxyType(sites))
    return _with_flavor(plan, claim, context)


# ------------------------------------------------------------------------------------ Service


def _service(node: Node, path: str, claim: Claim, context: ReadContext) -> Iterator[ServingPlan]:
    """The template is that of a LeaderWorkerSet of the same name."""
    of = GroupSet(node=node, path=path, keys=TEMPLATE, kind="llmaz Service", platform="llmaz")
    for plan in set_plans(of, context):
        known = claim.folders.get((plan.model.only or "").rstrip("/"))
        plan = replace(plan, model=known) if known is not None else plan
        plan = replace(plan, remarks=(*plan.remarks, *_elsewhere(plan, claim)))
        runs = plan.name.rpartition("/")[2] == llmaz.RUNNER
        yield _with_flavor(plan, claim, context) if runs else plan


def _elsewhere(plan: ServingPlan, claim: Claim) -> Iterator[Remark]:
    """A folder of a model that nobody claims: nothing loads it."""
    for word in plan.argv if claim.complete else ():
        value = (word.value or "").rstrip("/")
        if value.startswith(llmaz.FOLDER) and value not in claim.folders:
            named = ", ".join(str(model.only) for model in claim.folders.values())
            yield Remark(
                kind="conflict",
                severity="warning",
                at=word.place,
                message=f"{value} is none of the claimed models ({named}), which are all that is"
                " loaded",
                help=" or ".join(claim.folders),
            )
