"""Objects of kthena: roles of a ModelServing, and workers of a ModelBooster.

An entry pod of a role with its workers is one replica of an engine; so is a worker of a backend
with all of its pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text, combine
from shardlint.plan import Fleet, Refusal, Remark, ServingPlan, Site
from shardlint.platforms import kthena
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._vllm_options import SIZES
from shardlint.readers.edits import FlagSite, RefusedSite
from shardlint.readers.groups import Template, dropped, group_plans, key_of, number, product
from shardlint.readers.keyed import FALSE, TRUE, KeySite
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.pods import Owner, added, container_plans, devices
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Mapped, Source

_KIND = re.compile(r"workload\.serving\.volcano\.sh/")


class KthenaReader:
    """Objects of kind ModelServing and ModelBooster."""

    name = "kthena"
    kinds = ("ModelServing", "ModelBooster")
    look: bytes | None = b"workload.serving.volcano.sh"

    def accepts(self, source: Source) -> bool:
        return _KIND.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        group, kind = kind_of(node)
        if group != kthena.GROUP or kind not in (kthena.SERVING, kthena.BOOSTER):
            return ReadResult()
        made = _serving if kind == kthena.SERVING else _booster
        return ReadResult(plans=tuple(made(node, path, context)))


# ------------------------------------------------------------------------------- ModelServing


def _serving(node: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    roles = node.get("spec", "template", "roles")
    for index, role in enumerate(roles.items if roles is not None else ()):
        keys = ("spec", "template", "roles", index)
        workers = integer(role.get("workerReplicas")).or_default(Known.of(0, how="derived"))
        size = _size(workers)
        made = [
            _template(node, path, role, (*keys, key), size, at)
            for at, key in enumerate(("entryTemplate", "workerTemplate"))
        ]
        entry, worker = made
        if entry is not None:
            for plan in group_plans(entry, worker, size, context):
                yield _downloaded(plan, entry.spec)


def _downloaded(plan: ServingPlan, spec: Node) -> ServingPlan:
    """With the model that an init container of kthena's downloads into the engine's folder."""
    starts = spec.get("initContainers")
    for container in starts.items if starts is not None else ():
        if not kthena.DOWNLOADER.search(container.string("image") or ""):
            continue
        words = container.get("args")
        items = list(words.items) if words is not None else []
        told = {one.value: other for one, other in pairwise(items)}
        folder, uri = told.get("--output-dir"), told.get("--source")
        same = folder is not None and folder.value.rstrip("/") == (plan.model.only or "").rstrip(
            "/"
        )
        if same and uri is not None and plan.shape_of.is_unset:
            return replace(plan, shape_of=_model(uri))
    return plan


def _size(workers: Known[int]) -> Known[int]:
    if workers.only is not None and workers.only < 0:
        return Known.unknown(f"{workers.only} is no number of workers", workers.origin)
    return workers.map(lambda count: count + 1)


def _template(
    node: Node, path: str, role: Node, keys: tuple[str | int, ...], size: Known[int], index: int
) -> Template | None:
    """The pods of an entry or of its workers."""
    spec = node.get(*keys, "spec")
    if spec is None or spec.kind != "map":
        return None
    name, title = node.string("metadata", "name") or "", role.string("name") or ""
    own = {} if placeholder(name + title) else kthena.labels(name, title)
    owner = Owner(
        node=node,
        kind=kthena.SERVING,
        path=path,
        pod=keys,
        role=title if title in ("prefill", "decode") else None,
        fleet=Fleet(replicas=product(node.get("spec", "replicas"), role.get("replicas"))),
        nodes=size,
        env=_variables(node, title, size, index),
        labels=MappingProxyType(own),
        placement=_packed(node),
        sites=_role_sites(node, role),
        remarks=tuple(dropped(spec, kthena.VARIABLES, "kthena")),
        platform="kthena",
    )
    return Template(owner=owner, spec=spec, path=path + "".join(f"/{k}" for k in (*keys, "spec")))


def _packed(node: Node) -> Mapping[str, Any]:
    """The scheduler that all pods of the object have may keep a group together."""
    name = node.string("spec", "schedulerName") or kthena.SCHEDULER
    if name == "default-scheduler":
        return MappingProxyType({})
    return MappingProxyType({"packed": Known.unknown(f"{name} may keep the pods together")})


def _variables(node: Node, role: str, size: Known[int], index: int) -> Mapping[str, Text]:
    """Variables of the first entry, or of its first worker."""
    name, space = node.string("metadata", "name") or "", node.string("metadata", "namespace")
    origin = key_of(node)
    address = added(kthena.entry_address(name, role, space), origin)
    if not (name and role) or placeholder(f"{name}{role}{space or ''}"):
        address = Text.unknown(origin, "the name of the entry pod is not in this file")
    return MappingProxyType(
        {
            kthena.GROUP_SIZE: number(size, origin),
            kthena.ENTRY_ADDRESS: address,
            kthena.WORKER_INDEX: added(str(index), origin),
        }
    )


def _role_sites(node: Node, role: Node) -> Mapping[str, Site]:
    found: dict[str, Site] = {"nodes": OneLessSite(KeySite(role, "workerReplicas"))}
    spec = node.get("spec")
    if spec is not None:
        found["replicas"] = factor_site((spec, "replicas"), (role, "replicas"))
    return MappingProxyType(found)


def factor_site(first: tuple[Node, str], second: tuple[Node, str]) -> Site:
    """The one of two numbers that is their product: the other is 1."""
    one, other = (integer(node.get(key)) for node, key in (first, second))
    if other.is_unset or other.only == 1:
        return KeySite(*first)
    if one.is_unset or one.only == 1:
        return KeySite(*second)
    return RefusedSite("the replicas are a product of two numbers")


@record
class OneLessSite:
    """A number of pods that is written without the first of them."""

    site: Site

    def set(self, value: str) -> list[Edit] | Refusal:
        return self.site.set(str(int(value) - 1))


# ------------------------------------------------------------------------------- ModelBooster


def _booster(node: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    backend = node.get("spec", "backend")
    workers = backend.get("workers") if backend is not None else None
    if backend is None or workers is None:
        return
    kind = backend.string("type") or ""
    for index, worker in enumerate(workers.items):
        used = worker.string("type") or "server"
        if kind not in kthena.ROLES or used not in kthena.ROLES[kind] or worker.kind != "map":
            continue
        owner = _worker(node, path, backend, worker, kind, used)
        where = f"{path}/spec/backend/workers/{index}"
        for plan in container_plans(owner, worker, worker, where, context):
            yield _edited(plan, worker, _ignored(worker, workers, kind, used))


def _worker(node: Node, path: str, backend: Node, worker: Node, kind: str, used: str) -> Owner:
    uri, cache = backend.get("modelURI"), backend.string("cacheURI") or ""
    folder = kthena.folder(cache, uri.value if uri is not None else "")
    origin = uri.origin if uri is not None else key_of(backend)
    nodes, placement = _nodes(worker, kind)
    joined = nodes.only is None or nodes.only > 1
    replicas = backend.get("replicas") or backend.get("minReplicas")
    return Owner(
        node=node,
        kind=kthena.BOOSTER,
        path=path,
        title="/".join(part for part in (node.string("metadata", "name"), used) if part),
        role=used if used in ("prefill", "decode") else None,
        fleet=Fleet(
            replicas=product(replicas, worker.get("replicas")),
            max_replicas=integer(backend.get("maxReplicas")),
        ),
        nodes=nodes,
        placement=placement,
        command=tuple(added(word, origin) for word in (*kthena.COMMAND, folder)),
        more=(*_options(worker.get("config")), *(_by_ray(worker) if joined else ())),
        mounted={folder: _model(uri)},
        env=_environment(backend, used),
        sites=_worker_sites(backend, worker, kind),
        platform="kthena",
    )


def _model(uri: Node | None) -> Known[str]:
    if uri is None:
        return Known.unknown("the backend names no model")
    reason = placeholder(uri.value)
    if reason or not uri.is_string:
        return Known.unknown(reason or "the model is no text", uri.origin)
    return uri.text().known().map(lambda value: value.removeprefix("hf://"))


def _nodes(worker: Node, kind: str) -> tuple[Known[int], Mapping[str, Any]]:
    """The pods of one replica, and what the template gives them."""
    stated = integer(worker.get("pods"))
    one: Known[int] = Known.of(1, how="derived")
    counted = stated.or_default(one) if kind == kthena.VLLM else one
    nodes = counted.map(kthena.pods)
    given: dict[str, Any] = {"packed": Known.of(None, how="derived")}
    if kind in kthena.AMPLE_SHM:
        given |= {"shm_bytes": Known.unknown("kthena mounts a memory volume"), "shm_ample": True}
    if (nodes.only or 1) > 1:
        count = devices(worker)[0]
        total = combine(lambda pods, each: pods * int(each), nodes, count)
        given |= {"joined": kthena.JOINED, "group_devices": total}
    return nodes, MappingProxyType(given)


def _by_ray(worker: Node) -> Iterator[Text]:
    """Of several pods, the operator asks for Ray itself."""
    count = worker.get("pods")
    assert count is not None
    known = integer(count).only is not None
    for word in kthena.BY_RAY:
        made = added(word, count.origin)
        yield made if known else Text.unknown(count.origin, "how many pods there are is not known")


def _options(config: Node | None) -> Iterator[Text]:
    """Every key with its value; a value of its own stands behind a switch too, an empty one not."""
    for key, value in config.entries() if config is not None else ():
        yield Text(Mapped.all_at(kthena.option(key.value), key.span), key.origin)
        if value.kind != "scalar" or value.is_null:
            yield Text.unknown(value.origin, f"{key.value} is handed on in Go's own notation")
        elif value.style is None and value.value.lower() in (*TRUE, *FALSE):
            word = "true" if value.value.lower() in TRUE else "false"
            yield Text(Mapped.all_at(word, value.span), value.origin)
        elif value.style is None and not kthena.plain_number(value.value):
            yield Text.unknown(value.origin, "large numbers are handed on with an exponent")
        elif value.value:
            yield value.text()


def _environment(backend: Node, used: str) -> Mapping[str, Text]:
    env = {name: added(word, key_of(backend)) for name, word in kthena.ENV[used].items()}
    own = backend.get("env")
    for item in own.items if own is not None else ():
        name, value = item.string("name"), item.get("value")
        if name is None or name in env:
            continue
        why = f"{name} comes from another object"
        env[name] = value.text() if value is not None else Text.unknown(item.origin, why)
    return MappingProxyType(env)


def _worker_sites(backend: Node, worker: Node, kind: str) -> Mapping[str, Site]:
    found: dict[str, Site] = {
        "replicas": factor_site((backend, "replicas"), (worker, "replicas")),
        "nodes": KeySite(worker, "pods"),
    }
    if kind != kthena.VLLM:
        found["nodes"] = RefusedSite("a role of this backend has one pod")
    return MappingProxyType(found)


KEYS = {field: name.removeprefix("--") for field, name in SIZES.items()}
"""Fields of the layout by the keys of `config` that set them."""


def _edited(plan: ServingPlan, worker: Node, remarks: tuple[Remark, ...]) -> ServingPlan:
    """With sites that write keys of `config`: there is no command line to write options into."""
    config = worker.get("config")
    sites: dict[str, Site] = dict(plan.sites)
    sites.pop("shm_bytes", None)  # the volumes are those of kthena's own template
    for field, key in KEYS.items():
        if isinstance(site := sites.get(field), FlagSite) and site.flag is None:
            sites[field] = _config_site(config, key)
    for name in sites:
        if name.startswith("option:"):
            sites[name] = RefusedSite("the option is a key of a map")
    return replace(plan, sites=MappingProxyType(sites), remarks=(*plan.remarks, *remarks))


def _config_site(config: Node | None, key: str) -> Site:
    return RefusedSite("the worker has no config") if config is None else KeySite(config, key)


def _ignored(worker: Node, workers: Node, kind: str, used: str) -> tuple[Remark, ...]:
    return (*_other_workers(worker, workers, kind), *_no_pods(worker, kind, used))


def _other_workers(worker: Node, workers: Node, kind: str) -> Iterator[Remark]:
    """Workers that a backend of this type makes no pods of; told with the first that is used."""
    roles = kthena.ROLES[kind]
    used = [item for item in workers.items if (item.string("type") or "server") in roles]
    for item in workers.items if used[0] is worker else ():
        found = item.get("type")
        if found is None or found.value in roles or placeholder(found.value):
            continue
        yield Remark(
            kind="ignored",
            severity="warning",
            at=found.origin,
            message=f"a backend of type {kind} makes no pods of a {found.value} worker",
            help=f"workers of type {' and '.join(roles)}",
        )


def _no_pods(worker: Node, kind: str, used: str) -> Iterator[Remark]:
    stated = worker.get("pods")
    if stated is None or kind == kthena.VLLM or (integer(stated).only or 1) < 2:
        return
    yield Remark(
        kind="ignored",
        severity="warning",
        at=stated.origin,
        message=f"a {used} worker of a disaggregated backend has one pod: `pods` is not looked at",
        help="more replicas, or a ModelServing with workers of its own",
    )
