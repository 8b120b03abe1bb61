"""docker-compose files: one plan for each engine that a service starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Fleet, Launch, Placement, ServingPlan, Site
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.docker import device_option, listed_devices, size, variable
from shardlint.readers.edits import RefusedSite, TextSite
from shardlint.readers.holes import Holes, concat
from shardlint.readers.kubernetes import read_yaml, yaml_like
from shardlint.readers.plans import Host, distinct, joins_hosts, plan_of, processes
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Mapped, Origin, Source


class ComposeReader:
    """`services:` with their images, commands, environments and device reservations."""

    name = "compose"

    def accepts(self, source: Source) -> bool:
        return "services:" in source.text and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, failed = read_yaml(source)
        if failed is not None:
            return failed
        plans: list[ServingPlan] = []
        for index, root in enumerate(roots):
            services = root.get("services")
            if services is None or services.kind != "map" or root.get("apiVersion") is not None:
                continue
            for key, node in services.entries():
                if node.kind == "map":
                    service = _Service(key, node, f"{index}:/services/{key.value}")
                    plans.extend(service.plans(context))
        return ReadResult(plans=tuple(plans))


@record
class _Service:
    key: Node
    node: Node
    path: str

    def plans(self, context: ReadContext) -> Iterator[ServingPlan]:
        holes = Holes(self.node.source.text)
        env = self.environment(holes)
        entrypoint = self.words("entrypoint", holes)
        argv = (*(entrypoint or ()), *(self.words("command", holes) or ()))
        host = self.host(env, holes)
        started = processes(argv, env, self.argv_origin())
        if reason := joins_hosts(started):
            host = replace(
                host, placement=replace(host.placement, pods_per_group=Known.unknown(reason))
            )
        plans: list[ServingPlan] = []
        for process in started:
            launch = Launch(
                origin=process.origin,
                argv=holes.restore(process.argv),
                image=self.image(holes),
                env=MappingProxyType({k: holes.restored(v) for k, v in process.env.items()}),
                argv_complete=bool(entrypoint) or process.of_script,
            )
            plan = plan_of(launch, host, context)
            if plan is not None:
                plans.append(plan)
        yield from distinct(plans)

    def argv_origin(self) -> Origin:
        found = self.node.get("command") or self.node.get("entrypoint")
        return found.origin if found is not None else self.key.origin

    def image(self, holes: Holes) -> Known[str]:
        node = self.node.get("image")
        if node is None:
            return Known.unset()
        return holes.restored(interpolated(node.text(), holes)).known()

    def words(self, key: str, holes: Holes) -> tuple[Text, ...] | None:
        """The words of `command` or `entrypoint`: a list as it is, a string split like a shell."""
        node = self.node.get(key)
        if node is None:
            return None
        if node.kind == "list":
            return tuple(interpolated(item.text(), holes) for item in node.items)
        text = interpolated(node.text(), holes)
        if text.mapped is None:
            return (text,)
        from shardlint.readers.bash import split_words

        words = split_words(text.mapped, text.origin.file)
        return tuple(replace(word, assumes=word.assumes | text.assumes) for word in words)

    def environment(self, holes: Holes) -> dict[str, Text]:
        """Variables with a value here; a bare name hands on one that is mostly not set."""
        node = self.node.get("environment")
        env: dict[str, Text] = {}
        if node is None:
            return env
        if node.kind == "map":
            for key, value in node.entries():
                if not value.is_null:
                    env[key.value] = interpolated(value.text(), holes)
            return env
        for item in node.items:
            if item.is_string and "=" in item.value:
                name, text = variable(interpolated(item.text(), holes))
                env[name] = text
        return env

    # --------------------------------------------------------------------------- devices

    def host(self, env: Mapping[str, Text], holes: Holes) -> Host:
        placement, sites = self.placement(env, holes)
        lists = tuple(
            item for key in ("command", "entrypoint")
            if (item := self.node.get(key)) is not None and item.kind == "list"
        )  # fmt: skip
        scripts = (item for node in lists for item in node.items if item.style in ("|", ">"))
        command = self.node.get("command")
        blocks = [command] if command is not None and command.style in ("|", ">") else []
        return Host(
            source=self.node.source,
            kind="compose",
            name=self.key.value,
            path=self.path,
            origin=self.key.origin,
            anchors=(self.key.span, *(item.span for item in (*scripts, *blocks))),
            placement=placement,
            fleet=Fleet(replicas=self.replicas(holes)),
            sites=sites,
            lists=lists,
        )

    def replicas(self, holes: Holes) -> Known[int]:
        for path in (("deploy", "replicas"), ("scale",)):
            if (node := self.node.get(*path)) is not None:
                return _integer(node, holes)
        return Known.unset()

    def placement(
        self, env: Mapping[str, Text], holes: Holes
    ) -> tuple[Placement, Mapping[str, Site]]:
        count, sites = self.reserved(holes)
        if count.is_unset:
            count, sites = self.gpus(holes)
        if count.is_unset:
            count = self.mapped_devices(holes)
        if count.is_unset and (seen := self.seen(env, holes)):
            count = listed_devices(seen)
        shm = self.node.get("shm_size")
        cpu = re.search(r"[-_:/]cpu\b", (self.node.string("image") or "").lower())
        placement = Placement(
            gpus_per_pod=count,
            shm_bytes=size(interpolated(shm.text(), holes)) if shm is not None else Known.unset(),
            wants_gpu=cpu is None and "VLLM_CPU_KVCACHE_SPACE" not in env,
        )
        return placement, sites

    def seen(self, env: Mapping[str, Text], holes: Holes) -> Text | None:
        """Devices that the container runtime of the vendor hands in by a variable."""
        runtime = self.node.string("runtime")
        names = {"nvidia": "NVIDIA_VISIBLE_DEVICES", "habana": "HABANA_VISIBLE_DEVICES"}
        found = env.get(names.get(runtime or "", ""))
        return holes.restored(found) if found is not None else None

    def reserved(self, holes: Holes) -> tuple[Known[Any], Mapping[str, Site]]:
        """`deploy.resources.reservations.devices`: a count, a list of ids, or all."""
        devices = self.node.get("deploy", "resources", "reservations", "devices")
        for device in devices.items if devices is not None else []:
            if not _is_gpu(device):
                continue
            if (ids := device.get("device_ids")) is not None:
                return _ids(ids, holes), {"gpus_per_pod": RefusedSite("device_ids names the GPUs")}
            if (node := device.get("count")) is not None:
                return _count(node, holes), {"gpus_per_pod": TextSite((node.text(),))}
            return Known.of("all", device.origin), {}
        return Known.unset(), {}

    def gpus(self, holes: Holes) -> tuple[Known[Any], Mapping[str, Site]]:
        """`gpus:` as in the newer Compose specification."""
        node = self.node.get("gpus")
        if node is None:
            return Known.unset(), {}
        if node.kind == "list":
            first = node.items[0] if node.items else node
            counted = first.get("count")
            ids = first.get("device_ids")
            if ids is not None:
                return _ids(ids, holes), {}
            return (
                _count(counted, holes) if counted is not None else Known.of("all", node.origin)
            ), {}
        return _count(node, holes), {"gpus_per_pod": TextSite((node.text(),))}

    def mapped_devices(self, holes: Holes) -> Known[Any]:
        node = self.node.get("devices")
        for item in node.items if node is not None else []:
            found = device_option(interpolated(item.text(), holes)) if item.is_string else None
            if found is not None and found.is_known:
                return found
        return Known.unset()


def _is_gpu(device: Node) -> bool:
    """A reservation for GPUs, not for another kind of device."""
    capabilities = device.get("capabilities")
    names = {item.value for node in (capabilities.items if capabilities is not None else [])
             for item in (node.items or [node])}  # fmt: skip
    return "gpu" in names or device.string("driver") in ("nvidia", "amd", "cdi")


def _ids(node: Node, holes: Holes) -> Known[Any]:
    """A list of ids, or one string that holds a list."""
    texts = [interpolated(item.text(), holes) for item in (node.items or [node])]
    texts = [holes.restored(text) for text in texts]
    if any(text.value is None for text in texts):
        return Known.unknown("device_ids are filled in elsewhere", node.origin)
    ids = [part for text in texts for part in (text.value or "").split(",") if part.strip()]
    if ids == ["all"] or any("=all" in part for part in ids):
        return Known.of("all", node.origin)
    return Known.of(len(ids), node.origin)


def _count(node: Node, holes: Holes) -> Known[Any]:
    text = holes.restored(interpolated(node.text(), holes))
    if text.value == "all" or text.value == "-1":
        return text.known().map(lambda _: "all")
    return _integer(node, holes)


def _integer(node: Node, holes: Holes) -> Known[int]:
    if "$" not in node.value:
        return integer(node)
    text = holes.restored(interpolated(node.text(), holes))
    if text.value is not None and re.fullmatch(r"\d{1,9}", text.value):
        return text.known().map(int)
    return Known.unknown(text.reason or f"{text.value!r} is not a whole number", text.place)


# ------------------------------------------------------------------------------ interpolation

_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{)")
_BRACED = re.compile(r"([A-Za-z_]\w*)(?:(:?[-?+])(.*))?$", re.DOTALL)


def interpolated(text: Text, holes: Holes) -> Text:
    """`${NAME:-default}` replaced by its default, on the assumption that NAME is not set.

    A variable without a default becomes a hole: its value is not in this file.
    """
    mapped = text.mapped
    if mapped is None or "$" not in mapped.text:
        return text
    assumes: set[str] = set()
    joined = _interpolate(mapped, holes, assumes, depth=5)
    return Text(joined, text.origin, None, (), None, text.assumes | assumes)


def _interpolate(mapped: Mapped, holes: Holes, assumes: set[str], depth: int) -> Mapped:
    parts: list[Mapped] = []
    at = 0
    while match := _VARIABLE.search(mapped.text, at):
        parts.append(mapped.cut(at, match.start()))
        if match.group(1):
            parts.append(replace(mapped.cut(match.start(), match.start() + 1), literal=False))
            at = match.end()
            continue
        end = match.end() if match.group(2) else _closing(mapped.text, match.end())
        inner = (
            mapped.cut(match.start(2), end) if match.group(2) else mapped.cut(match.end(), end - 1)
        )
        use = mapped.cut(match.start(), end)
        parts.append(_value(inner, use, holes, assumes, depth))
        at = end
    joined = concat([*parts, mapped.cut(at)])
    return joined if at == 0 else replace(joined, literal=False)


def _closing(text: str, at: int) -> int:
    """Index after the brace that closes one opened before `at`."""
    depth = 1
    while at < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _value(inner: Mapped, use: Mapped, holes: Holes, assumes: set[str], depth: int) -> Mapped:
    match = _BRACED.match(inner.text)
    name, operator = (match.group(1), match.group(2)) if match else (inner.text, None)
    if match is None or operator not in (":-", "-") or depth == 0:
        return holes.make(f"{name} is set outside this file", use.span())
    assumes.add(f"{name} is not set")
    default = _interpolate(inner.cut(match.start(3)), holes, assumes, depth - 1)
    return Mapped.all_at(default.text, use.span()) if default.text else default
