"""Values of charts that nobody knows: a command line of an engine, and what stands beside it.

What the chart's templates add is not seen. A string or a list is read where it is the command line
of an engine as it stands; `resources`, `image`, `env`, `replicaCount` and `nodeSelector` are taken
from the same map, and nothing from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from shardlint.known import Known
from shardlint.plan import Fleet, ServingPlan, Site
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers import llmd, production_stack
from shardlint.readers.keyed import key_sites
from shardlint.readers.plans import finished, numbered
from shardlint.readers.pods import RESOURCES, UNCOUNTED, Owner, container_plans
from shardlint.readers.rendered import added, key_of, listing, mapping, scalar, truthy, with_sites
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.source import Source

KIND = "helm-values"
UNREAD = "the chart's templates are not read"

_LAUNCH = re.compile(
    r"vllm\W+serve|vllm\.entrypoints|vllm/entrypoints|sglang\.launch_server|sglang\W+serve|"
    r"trtllm-serve|text-generation-launcher|lmdeploy\W+serve|llama-server|huggingfaceserver"
)
"""Words that start an engine, also as items of a list."""

_IMAGE = re.compile(r"vllm|sglang|tensorrt|text-generation|lmdeploy|llama\.cpp")
_OTHERS = re.compile(
    r"""^["']?(?:apiVersion|kind|services|jobs|stages|steps|run|commands|model_list)["']?[ \t]*:""",
    re.MULTILINE,
)
"""Keys at the start of a line that make a file something else."""

MAX_DEPTH = 12


class HelmValuesReader:
    """Maps with an engine's command line, in files that are values of a chart."""

    name = "helm-values"
    kinds = ("values",)
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        text = source.text
        engine = _LAUNCH.search(text) or (_IMAGE.search(text) and "args" in text)
        return engine is not None and _OTHERS.search(text) is None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, failed = read_yaml(source)
        if failed is not None:
            return failed if failed.skipped is None else ReadResult()
        named = _is_named(source, context)
        found = [values(root, f"{at}:", context, named) for at, root in enumerate(roots)]
        return ReadResult(plans=finished(plan for result in found for plan in result.plans))


def _is_named(source: Source, context: ReadContext) -> bool:
    """The file is called values, or lies beside the Chart.yaml of a chart."""
    name = PurePosixPath(source.name.replace("\\", "/")).name.lower()
    return "values" in name or context.files.beside(source, "Chart.yaml") is not None


def values(root: Node, path: str, context: ReadContext, named: bool = True) -> ReadResult:
    """Engines in the values of a chart; without a telling name, only those with GPUs beside."""
    if root.kind != "map" or production_stack.is_ours(root) or llmd.is_ours(root):
        return ReadResult()
    pods = root.get("containers")  # a fragment of a pod, and read as one
    plans = [
        plan
        for node, where, counted in _maps(root, path, 0, None)
        if pods is None or not any(node is item for item in pods.items)
        if named or _has_gpus(node.get("resources"))
        for plan in _plans(node, where, context, node is root, counted)
    ]
    return ReadResult(plans=tuple(numbered(plans)))


def _maps(
    node: Node, path: str, depth: int, counted: Node | None
) -> Iterator[tuple[Node, str, Node | None]]:
    """The map and all maps below it, but for Kubernetes objects.

    With each the nearest map that says how many replicas there are: itself, or one around it.
    """
    repeated = node.alias and node.source.text.startswith("*", node.span.start)
    if repeated or depth > MAX_DEPTH:
        return
    if node.kind == "map":
        if node.get("kind") is not None and node.get("apiVersion") is not None:
            return
        counted = node if _replicas(node) else counted
        yield node, path, counted
    for key, value in node.entries():
        yield from _maps(value, f"{path}/{key.value}", depth + 1, counted)
    for at, item in enumerate(node.items):
        yield from _maps(item, f"{path}/{at}", depth + 1, counted)


def _plans(
    node: Node, path: str, context: ReadContext, top: bool, counted: Node | None
) -> Iterator[ServingPlan]:
    """Its command and arguments as those of a container, else each command line in it."""
    image = node.get("image")
    parts = [node.get(key) for key in ("command", "args")]
    lists = [part for part in parts if part is not None and part.kind == "list"]
    if lists and top and (image is None or image.kind == "scalar"):
        return  # a fragment of a pod looks the same, and is read as one
    if lists:
        words = (("command", parts[0]), ("args", parts[1]))
        yield from _container(node, path, context, words, counted)
    for key, value in node.entries():
        written = any(value is part for part in lists)
        if written or not _LAUNCH.search(_text(value)):
            continue
        what = "args" if value.kind == "scalar" else "command"
        yield from _container(node, f"{path}/{key.value}", context, ((what, value),), counted)


def _text(node: Node) -> str:
    """The words of a string, or of a list of words."""
    if node.kind == "list":
        return " ".join(item.value for item in node.items if item.kind == "scalar")
    return node.value


def _container(
    node: Node,
    path: str,
    context: ReadContext,
    words: tuple[tuple[str, Node | None], ...],
    counted: Node | None,
) -> Iterator[ServingPlan]:
    script = len(words) == 1 and words[0][0] == "args"
    like = key_of(node, path.rpartition("/")[2])
    own = mapping(
        node,
        (
            ("image", _image(node.get("image"))),
            *((name, value) for name, value in words if value is None or value.kind != "map"),
            ("env", _environment(node.get("env"))),
            ("resources", _resources(node.get("resources"))),
        ),
    )
    one: Known[int] = Known.of(1, how="defaulted")
    owner = Owner(
        node=node,
        kind=KIND,
        path=path,
        title=path.rpartition("/")[2] if script else node.string("name") or "values",
        whole=False,
        fleet=_fleet(node, counted or node),
        nodes=one.assuming("the chart runs the engine in one pod"),
        command=(added("bash", like), added("-c", like)) if script else (),
        placement=_UNSEEN,
        sites=_counted_sites(counted or node),
    )
    pod = mapping(node, ((key, node.get(key)) for key in ("nodeSelector", "affinity")))
    for plan in container_plans(owner, pod, own, path, context):
        yield with_sites(plan, {"shm_bytes": None})


_UNSEEN: Mapping[str, Any] = MappingProxyType({
    name: Known.unknown(UNREAD)
    for name in ("shm_bytes", "host_ipc", "host_network", "rdma", "interfaces", "packed")
} | {"env_open": "the chart may set more", "shm_ample": False})  # fmt: skip


def _image(node: Node | None) -> Node | None:
    """An image as one word; of a map, its parts put together."""
    if node is None or node.kind == "scalar":
        return node
    name = node.get("repository") or node.get("name")
    if name is None or name.kind != "scalar":
        return None
    registry, tag = node.string("registry"), node.string("tag")
    text = f"{registry}/{name.value}" if registry else name.value
    return scalar(f"{text}:{tag}" if tag else text, name)


def _environment(node: Node | None) -> Node | None:
    """A list of variables; of a map, as such a list."""
    if node is None or node.kind != "map":
        return node
    rows = (
        mapping(value, (("name", scalar(key.value, key)), ("value", value)))
        for key, value in node.entries()
        if value.kind == "scalar"
    )
    return listing(node, rows)


def _is_gpu(key: Node) -> bool:
    return bool(RESOURCES.match(key.value.strip()) or UNCOUNTED.match(key.value.strip()))


def _has_gpus(node: Node | None) -> bool:
    if node is None or node.kind != "map":
        return False
    parts = (node, node.get("limits"), node.get("requests"))
    return any(_is_gpu(key) for part in parts if part is not None for key, _ in part.entries())


def _resources(node: Node | None) -> Node | None:
    """Limits and requests; a flat map stands for both."""
    if node is None or node.kind != "map":
        return None
    flat = any(_is_gpu(key) for key, _ in node.entries())
    return mapping(node, (("limits", node),)) if flat else node


def _replicas(node: Node) -> str | None:
    return next((key for key in ("replicaCount", "replicas") if node.get(key) is not None), None)


def _counted_sites(node: Node) -> Mapping[str, Site]:
    key = _replicas(node)
    return key_sites(node, {"replicas": key}) if key is not None else {}


def _fleet(node: Node, counted: Node) -> Fleet:
    """The replicas that are told in the same map as the engine, or in one around it."""
    for scaled in (node.get("autoscaling", "enabled"), counted.get("autoscaling", "enabled")):
        if scaled is not None and truthy(scaled):
            return Fleet(replicas=Known.unknown("an autoscaler decides", scaled.origin))
    found = integer(counted.get(_replicas(counted) or "replicaCount"))
    if counted is node:
        return Fleet(replicas=found)
    return Fleet(replicas=found.assuming("the replicas around the container are its own"))
