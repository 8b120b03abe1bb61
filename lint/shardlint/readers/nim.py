"""NVIDIA NIM: NIMService, the services of a NIMPipeline, and the NIMCache that a service uses.

The image of a service names its model, unless it is one that loads any model: then a variable does,
or the cache. The cache is looked for in the file, and then in the files of the run.

Sources: manifests, section 9; platforms, section 12.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known
from shardlint.plan import Device, Fleet, Remark, ServingPlan, Site
from shardlint.platforms import nim
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._pod import UNITS, quantity
from shardlint.readers.claims import is_gpu
from shardlint.readers.edits import RefusedSite, SizeSite
from shardlint.readers.keyed import PathSite
from shardlint.readers.layers import without
from shardlint.readers.objects import Object, elsewhere, kind_of, read_objects, siblings
from shardlint.readers.pods import Owner, container_plans, devices
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Source

_KIND = re.compile(r"NIM(?:Service|Pipeline)\b")

SHM_LIMIT = ("storage", "sharedMemorySizeLimit")


class NimReader:
    """Objects of the kinds NIMService and NIMPipeline."""

    name = "nim"
    kinds = ("NIMService", "NIMPipeline")
    look: bytes | None = b"apps.nvidia.com"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        found = services(node, path)
        plans = (plan for one in found for plan in _plans(one, _cache(one, context), context))
        return ReadResult(plans=tuple(plans))


@record(kw_only=True)
class Service:
    """A service: its spec and where it stands, and the object around it."""

    object: Node
    kind: str
    name: str
    spec: Node
    path: str

    @property
    def image(self) -> tuple[Node, Node | None] | None:
        """Repository and tag."""
        repository = self.spec.get("image", "repository")
        return None if repository is None else (repository, self.spec.get("image", "tag"))


def services(node: Node, path: str) -> Iterator[Service]:
    group, kind = kind_of(node)
    spec = node.get("spec")
    if group != nim.GROUP or spec is None or spec.kind != "map":
        return
    if kind == nim.SERVICE:
        name = node.string("metadata", "name") or ""
        yield Service(object=node, kind=kind, name=name, spec=spec, path=f"{path}/spec")
    listed = spec.get("services") if kind == nim.PIPELINE else None
    for index, item in enumerate(listed.items if listed is not None else ()):
        inner = item.get("spec")
        off = (item.string("enabled") or "true").lower() == "false"
        if inner is not None and inner.kind == "map" and not off:
            where = f"{path}/spec/services/{index}/spec"
            name = item.string("name") or ""
            yield Service(object=node, kind=kind, name=name, spec=inner, path=where)


# ---------------------------------------------------------------------------------- the cache


def _cache(of: Service, context: ReadContext) -> Node | None:
    """The source of the one NIMCache of this name: in the file, else among those of the run."""
    name = of.spec.string("storage", "nimCache", "name")
    name = name.strip() if name is not None else ""
    if not name or placeholder(name):
        return None
    near = list(_named(siblings(context, nim.CACHE), name))
    found = near or list(_named(elsewhere(context, nim.CACHE), name))
    return found[0] if len(found) == 1 else None


def _named(found: Iterable[Object], name: str) -> Iterator[Node]:
    for item in found:
        source = item.node.get("spec", "source")
        same = item.node.string("metadata", "name") == name
        if kind_of(item.node) == (nim.GROUP, nim.CACHE) and same and source is not None:
            yield source


def _of_cache(cache: Node | None) -> Known[str]:
    """The model that a cache takes from Hugging Face."""
    found = cache.get("hf") if cache is not None else None
    space = found.get("namespace") if found is not None else None
    name = found.get("modelName") if found is not None else None
    if space is None or name is None:
        return Known.unset()
    full = f"{space.value}/{name.value}"
    reason = placeholder(full)
    if reason is not None:
        return Known.unknown(reason, name.origin)
    return Known.of(full, name.origin, related=(space.origin,))


# --------------------------------------------------------------------------------------- plans


def _plans(of: Service, cache: Node | None, context: ReadContext) -> Iterator[ServingPlan]:
    container = without(of.spec, ("image",))
    owner = _owner(of, container, cache)
    for plan in container_plans(owner, of.spec, container, of.path, context):
        if plan.engine == "nim":
            yield _placed(_filled(plan, of, cache), of.spec, context)


def _owner(of: Service, container: Node, cache: Node | None) -> Owner:
    shm, sites = _shared_memory(of.spec)
    return Owner(
        node=of.object,
        kind=of.kind,
        path=of.path,
        title=of.name if of.kind == nim.SERVICE else _below(of),
        engine="nim",
        fleet=_fleet(of.spec),
        nodes=integer(of.spec.get("multiNode", "parallelism", "pipeline")).map(nim.nodes),
        devices=_devices(of.spec, cache),
        placement=shm,
        image=_image(of),
        remarks=tuple(_refused(of.spec)),
        sites=MappingProxyType({**_sites(of.spec, container), **sites}),
        platform="nim",
    )


def _below(of: Service) -> str:
    return "/".join(part for part in (of.object.string("metadata", "name"), of.name) if part)


def _image(of: Service) -> Known[str]:
    found = of.image
    if found is None:
        return Known.unknown("no image is stated", of.spec.origin)
    repository, tag = found
    full = repository.value if tag is None else f"{repository.value}:{tag.value}"
    if reason := placeholder(full):
        return Known.unknown(reason, repository.origin)
    place = repository.text().place
    return Known.of(full, place, related=(tag.origin,) if tag is not None else ())


def _filled(plan: ServingPlan, of: Service, cache: Node | None) -> ServingPlan:
    """With what the service and its cache say of the engine."""
    stated = _parallelism(of.spec, cache)
    given: dict[str, Any] = {name: fact for name, fact in stated.items() if not fact.is_unset}
    model = _of_cache(cache)
    named = plan.model.is_unset or plan.model.values == plan.image.values
    if not model.is_unset and named:
        plan = replace(plan, model=model)
    found = of.image
    return replace(
        plan,
        origin=found[0].origin if found is not None else plan.origin,
        layout=replace(plan.layout, **given),
        effective=replace(plan.effective, **given),
    )


def _placed(plan: ServingPlan, spec: Node, context: ReadContext) -> ServingPlan:
    """With the card that a claim selects, where no label of nodes names one."""
    label, device = _card(spec, context)
    if label.is_unset or not plan.placement.gpu_label.is_unset:
        return plan
    placement = replace(plan.placement, gpu_label=label, gpu=plan.placement.gpu.or_default(device))
    return replace(plan, placement=placement)


def _parallelism(spec: Node, cache: Node | None) -> Mapping[str, Known[int]]:
    """Sizes of a group of pods; else the tensor parallelism of the profile in the cache."""
    sizes = spec.get("multiNode", "parallelism")
    if sizes is not None:
        return {"tp": integer(sizes.get("tensor")), "pp": integer(sizes.get("pipeline"))}
    return {"tp": _profile(cache)}


def _profile(cache: Node | None) -> Known[int]:
    if cache is None:
        return Known.unset()
    return integer(cache.get("ngc", "model", "tensorParallelism"))


# ------------------------------------------------------------------------------------- devices


def _devices(spec: Node, cache: Node | None) -> Known[Any]:
    """GPUs of a pod that asks for none in its resources."""
    claims = spec.get("draResources")
    if claims is not None and claims.items:
        return _claimed(claims)
    tensor = integer(spec.get("multiNode", "parallelism", "tensor"))
    if not tensor.is_unset:
        return _derived(tensor)
    profile = _profile(cache)
    if not profile.is_unset:
        return _derived(profile).assuming(nim.ONE_PROFILE, nim.AS_READ)
    if spec.get("storage", "nimCache") is not None:
        return Known.unknown("the profile in the cache decides how many GPUs there are")
    return Known.unset()


def _derived(count: Known[int]) -> Known[int]:
    return count.map(lambda value: value, "derived")


def _claimed(claims: Node) -> Known[int]:
    """The devices of claims that the operator makes itself."""
    total = 0
    for claim in claims.items:
        made = claim.get("claimCreationSpec", "devices")
        if made is None:
            return Known.unknown("the devices come from a resource claim", claim.origin)
        for item in made.items:
            count = integer(item.get("count")).or_default(Known.of(nim.DEFAULT_DEVICES))
            if count.only is None:
                return count
            name = item.string("deviceClassName") or "gpu.nvidia.com"
            if not is_gpu(name):
                return Known.unknown(f"{name} does not count GPUs", item.origin)
            total += count.only
    return Known.of(total, claims.origin)


def _card(spec: Node, context: ReadContext) -> tuple[Known[str], Known[Device]]:
    """The card that a claim selects by its product or its architecture."""
    found: dict[str, Node] = {}
    claims = spec.get("draResources")
    for claim in claims.items if claims is not None else ():
        made = claim.get("claimCreationSpec", "devices")
        for item in made.items if made is not None else ():
            rows = item.get("attributeSelectors")
            for row in rows.items if rows is not None else ():
                key = (row.string("key") or "").rpartition("/")[2]
                value = row.get("value", "stringValue")
                if row.string("op") in ("Equal", None) and value is not None:
                    found.setdefault(key, value)
    for key in ("productName", "architecture"):
        if (value := found.get(key)) is not None and not placeholder(value.value):
            device: Known[Device] = Known.unset()
            if key == "productName":
                device = context.device(value.value)
            return Known.of(value.value, value.origin), device
    return Known.unset(), Known.unset()


# --------------------------------------------------------------------------- what is around it


def _fleet(spec: Node) -> Fleet:
    replicas, scale = integer(spec.get("replicas")), spec.get("scale", "hpa")
    if (spec.string("scale", "enabled") or "").lower() != "true" or scale is None:
        return Fleet(replicas=replicas)
    least = integer(scale.get("minReplicas"))
    return Fleet(
        replicas=least.or_default(replicas), max_replicas=integer(scale.get("maxReplicas"))
    )


def _refused(spec: Node) -> Iterator[Remark]:
    """What the operator does not accept beside its own scaling."""
    enabled = spec.get("scale", "enabled")
    if enabled is None or enabled.value.lower() != "true":
        return
    for key in ("replicas", "multiNode"):
        if (pair := spec.pair(key)) is not None:
            yield Remark(
                kind="conflict", severity="warning", at=pair[0].origin,
                message=f"the NIM operator refuses `{key}` beside `scale.enabled`",
                help=f"remove `{key}`, or switch the scaling off",
                related=((enabled.origin, "switched on here"),),
            )  # fmt: skip


def _shared_memory(spec: Node) -> tuple[Mapping[str, Any], Mapping[str, Site]]:
    limit = spec.get(*SHM_LIMIT)
    site = {"shm_bytes": SizeSite(PathSite(spec, SHM_LIMIT), UNITS)}
    if limit is not None:
        return {"shm_bytes": quantity(limit), "shm_ample": False}, site
    why = "the volume on /dev/shm has no limit: the memory of the pod is the limit"
    return {"shm_bytes": Known.unknown(why), "shm_ample": True}, site


def _sites(spec: Node, container: Node) -> Mapping[str, Site]:
    sites: dict[str, Site] = {"replicas": PathSite(spec, ("replicas",))}
    if spec.get("multiNode", "parallelism") is not None:
        for field, key in (("nodes", "pipeline"), ("tp", "tensor")):
            sites[field] = PathSite(spec, ("multiNode", "parallelism", key))
        sites["pp"] = RefusedSite("the stages are the pods of a replica too")
    count, _, _ = devices(container)
    if count.is_unset and spec.get("draResources") is None:
        place = ("resources", "limits", "nvidia.com/gpu")
        sites["gpus_per_pod"] = PathSite(spec, place)
    return sites
