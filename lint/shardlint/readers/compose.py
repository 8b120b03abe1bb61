"""docker-compose files: one plan for each engine that a service starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Fleet, Launch, Placement, Refusal, ServingPlan, Site
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.docker import (
    SHM,
    default_shm,
    given_devices,
    identified,
    items,
    listed_devices,
    size,
    variable,
)
from shardlint.readers.edits import EntrySite, MadeSite, SizeSite, TextSite, remove_items
from shardlint.readers.holes import Holes, concat, options_of
from shardlint.readers.named_files import bound, on_host, scripts_in, written
from shardlint.readers.plans import (
    Host,
    absorbed,
    around,
    distinct,
    during,
    finished,
    plan_of,
    processes,
    ray_in,
)
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Edit, Mapped, Origin, Source, Span

_SERVICES = re.compile(r"services[\"']?[ \t]*:")


class ComposeReader:
    """`services:` with their images, commands, environments and device reservations."""

    name = "compose"
    kinds = ("compose",)
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return _SERVICES.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, failed = read_yaml(source)
        if failed is not None:
            return failed
        plans: list[ServingPlan] = []
        for index, root in enumerate(roots):
            services = root.get("services")
            if services is None or services.kind != "map" or root.get("apiVersion") is not None:
                continue
            elsewhere = ray_in(services)
            for key, node in services.entries():
                if node.kind == "map":
                    service = _Service(key, node, f"{index}:/services/{key.value}")
                    plans.extend(service.plans(context, elsewhere))
        return ReadResult(plans=finished(plans), absorbs=absorbed(plans))


@record
class _Service:
    key: Node
    node: Node
    path: str

    def plans(self, context: ReadContext, elsewhere: str | None) -> Iterator[ServingPlan]:
        holes = Holes(self.node.source.text)
        env = self.environment(holes)
        entrypoint = self.words("entrypoint", holes)
        argv = (*(entrypoint or ()), *(self.command(holes) or ()))
        scripts = scripts_in(self.node.get("entrypoint"), self.node.get("command"))
        outside = bound(tuple(self.mounts()), on_host(self.node.source, context.files))
        find = written(scripts, outside)
        started = processes(argv, env, self.argv_origin(), find)
        host = around(replace(self.host(env, holes), find=find), started, elsewhere)
        plans: list[ServingPlan] = []
        for process, during_it in during(host, started):
            launch = Launch(
                origin=process.origin,
                argv=holes.restore(process.argv),
                image=self.image(holes),
                env=MappingProxyType({k: holes.restored(v) for k, v in process.env.items()}),
                argv_complete=entrypoint is not None or process.of_script,
            )
            plan = plan_of(launch, during_it, context)
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
        return _read(node, holes).known()

    def command(self, holes: Holes) -> tuple[Text, ...] | None:
        """The command; that of another service that this one extends is not read."""
        words, extends = self.words("command", holes), self.node.get("extends")
        if words is None and extends is not None:
            return (Text.unknown(extends.origin, EXTENDS, many=True),)
        return words

    def words(self, key: str, holes: Holes) -> tuple[Text, ...] | None:
        """The words of `command` or `entrypoint`: a list as it is, a string split like a shell."""
        node = self.node.get(key)
        if node is None:
            return None
        if node.kind == "list":
            return tuple(holes.item(interpolated(item.text(), holes)) for item in node.items)
        text = interpolated(node.text(), holes)
        if text.mapped is None:
            return (text,)
        from shardlint.readers.bash import split_words

        return split_words(text.mapped, text.origin.file, until=";&|<>")

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
                text = interpolated(item.text(), holes)
                name, env[name] = variable(text, self.node.source, {})
        return env

    def mounts(self) -> Iterator[tuple[str, str]]:
        """Paths beside the file, and where they are in the container."""
        volumes = self.node.get("volumes")
        for item in volumes.items if volumes is not None else ():
            parts = item.value.split(":") if item.is_string else []
            if len(parts) > 1:
                yield parts[0], parts[1]
            elif (inside := item.string("target")) and (outside := item.string("source")):
                yield outside, inside

    # --------------------------------------------------------------------------- devices

    def host(self, env: Mapping[str, Text], holes: Holes) -> Host:
        placement, sites = self.placement(env, holes)
        nodes = tuple(
            node for key in ("command", "entrypoint") if (node := self.node.get(key)) is not None
        )
        written = (item for node in nodes for item in (node.items or [node]))
        blocks = [item.span for item in written if item.style in ("|", ">")]
        return Host(
            source=self.node.source,
            kind="compose",
            name=self.key.value,
            path=self.path,
            origin=self.key.origin,
            anchors=(self.key.span, *blocks),
            placement=placement,
            fleet=Fleet(replicas=self.replicas(holes)),
            sites=sites,
            nodes=nodes,
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
        listed = self.named(holes)
        if count.is_unset:
            count, sites = self.gpus(holes)
        if count.is_unset:
            count = self.mapped_devices(holes)
        if count.is_unset and (seen := self.seen(env, holes)):
            count, listed = listed_devices(seen), items(seen.value or "")
        if count.is_unset and self.node.get("extends") is not None:
            count = Known.unknown(EXTENDS)
        shm, ample, more = self.shm(holes)
        network = self.node.get("network_mode")
        host_network = self.is_host(network, holes)
        placement = Placement(
            gpus_per_pod=count,
            device_ids=identified(count, listed),
            scope=self.node.source.name,
            certain=self.replicas(holes).only != 0 and self.node.get("profiles") is None,
            detached=True,
            shm_bytes=shm,
            shm_ample=ample,
            memory_bytes=self.limit(holes),
            host_ipc=self.is_host(self.node.get("ipc"), holes),
            host_network=host_network,
            interfaces=self.interfaces(network, host_network),
            rdma=self.rdma(holes),
            env=MappingProxyType(dict(self.handed_on())),
            env_open=self.env_open(),
        )
        return placement, {**sites, **more}

    # ------------------------------------------------------------------------ surroundings

    def shm(self, holes: Holes) -> tuple[Known[int], bool, dict[str, Site]]:
        """The size of /dev/shm, whether it is as good as unlimited, and its site."""
        stated, ipc = self.node.get("shm_size"), self.node.string("ipc")
        if ipc == "host":
            return Known.unknown("/dev/shm is the host's"), True, {}
        if stated is not None:
            text = _read(stated, holes)
            return size(text), False, {"shm_bytes": SizeSite(TextSite((text,)), UNITS)}
        if ipc is not None and ipc not in ("private", "shareable"):
            return Known.unknown(f"ipc is {ipc}"), False, {}
        for key in ("tmpfs", "volumes"):
            node = self.node.get(key)
            for item in (node.items or [node]) if node is not None else ():
                if SHM in (item.value, item.string("target")) or f"{SHM}:" in f"{item.value}:":
                    return Known.unknown(f"{SHM} is mounted", item.origin), True, {}
        if (reason := self.partial()) is not None:
            return Known.unknown(reason), False, {}
        return (
            default_shm(),
            False,
            {"shm_bytes": SizeSite(EntrySite(self.node, "shm_size"), UNITS)},
        )

    def partial(self) -> str | None:
        """Why what is not here may stand elsewhere."""
        if self.node.get("extends") is not None:
            return EXTENDS
        if self.node.get("image") is None and self.node.get("build") is None:
            return "the service has no image here: it is a part of one"
        return None

    def limit(self, holes: Holes) -> Known[int]:
        for path in (("mem_limit",), ("deploy", "resources", "limits", "memory")):
            if (node := self.node.get(*path)) is not None:
                return size(_read(node, holes))
        return Known.unset()

    def is_host(self, node: Node | None, holes: Holes) -> Known[bool]:
        if node is not None:
            return _read(node, holes).known().map(lambda value: value == "host")
        reason = self.partial()
        return Known.unknown(reason) if reason else Known.of(False, how="defaulted")

    def interfaces(self, network: Node | None, host: Known[bool]) -> Known[str | None]:
        """The host's network, or several networks: more interfaces than one."""
        if host.only is True and network is not None:
            return Known.of("the host's network", network.origin)
        networks = self.node.get("networks")
        if networks is not None and len(networks.items or networks.pairs) > 1:
            return Known.of("several networks", networks.origin)
        return host.map(lambda _: None)

    def rdma(self, holes: Holes) -> Known[str | None]:
        privileged = self.node.get("privileged")
        if privileged is not None and privileged.value.lower() != "false":
            return Known.of("privileged", privileged.origin, how="derived")
        for key in ("devices", "volumes"):
            node = self.node.get(key)
            for item in node.items if node is not None else ():
                if "/dev/infiniband" in item.value:
                    return Known.of("/dev/infiniband", item.origin)
        reason = self.partial()
        return Known.unknown(reason) if reason else Known.of(None, how="defaulted")

    def handed_on(self) -> Iterator[tuple[str, Known[str]]]:
        """Variables that are handed on from the shell that runs Compose."""
        node = self.node.get("environment")
        bare = [item for item in node.items if "=" not in item.value] if node is not None else []
        bare += [key for key, value in node.pairs if value.is_null] if node is not None else []
        for item in bare:
            yield item.value, Known.unknown(f"{item.value} is set outside this file", item.origin)

    def env_open(self) -> str | None:
        if self.node.get("env_file") is not None:
            return "env_file adds more"
        return self.partial()

    def named(self, holes: Holes) -> tuple[str, ...] | None:
        """The devices that `device_ids` names."""
        devices = self.node.get("deploy", "resources", "reservations", "devices")
        found = [*(devices.items if devices else ()), *self._gpu_requests()]
        for device in found:
            ids = device.get("device_ids")
            if ids is not None and _is_gpu(device):
                texts = [_read(item, holes).value or "" for item in (ids.items or [ids])]
                return tuple(part for text in texts for part in items(text))
        return None

    def _gpu_requests(self) -> Sequence[Node]:
        node = self.node.get("gpus")
        return node.items if node is not None else ()

    def seen(self, env: Mapping[str, Text], holes: Holes) -> Text | None:
        """Devices that the container runtime of the vendor hands in by a variable."""
        runtime = self.node.string("runtime")
        names = {"nvidia": "NVIDIA_VISIBLE_DEVICES", "habana": "HABANA_VISIBLE_DEVICES"}
        found = env.get(names.get(runtime or "", ""))
        return holes.restored(found) if found is not None else None

    def reserved(self, holes: Holes) -> tuple[Known[Any], Mapping[str, Site]]:
        """`deploy.resources.reservations.devices`: a count, a list of ids, or all."""
        devices = self.node.get("deploy", "resources", "reservations", "devices")
        gpus = [device for device in (devices.items if devices else ()) if _is_gpu(device)]
        return _requested(gpus, holes)

    def gpus(self, holes: Holes) -> tuple[Known[Any], Mapping[str, Site]]:
        """`gpus:` as in the newer Compose specification."""
        node = self.node.get("gpus")
        if node is None or node.kind == "scalar":
            return _counted(node, holes) if node is not None else (Known.unset(), {})
        return _requested(node.items, holes)

    def mapped_devices(self, holes: Holes) -> Known[Any]:
        node = self.node.get("devices")
        items = node.items if node is not None else []
        return given_devices([_read(item, holes) for item in items if item.is_string])


UNITS = ("gb", "mb", "kb", "b")
EXTENDS = "the service extends another one, which is not read"


def _is_gpu(device: Node) -> bool:
    """A reservation for GPUs, not for another kind of device."""
    capabilities = device.get("capabilities")
    names = {item.value for node in (capabilities.items if capabilities is not None else [])
             for item in (node.items or [node])}  # fmt: skip
    return "gpu" in names or device.string("driver") in ("nvidia", "amd", "cdi")


def _requested(gpus: Sequence[Node], holes: Holes) -> tuple[Known[Any], Mapping[str, Site]]:
    """One request for GPUs: a count, a list of ids, or all of them."""
    if len(gpus) > 1:
        return Known.unknown("several requests for GPUs", gpus[0].origin), {}
    for device in gpus:
        if (ids := device.get("device_ids")) is not None:
            return _ids(ids, holes), {"gpus_per_pod": MadeSite(partial(_fewer, ids))}
        if (count := device.get("count")) is not None:
            return _counted(count, holes)
        return Known.of("all", device.origin), {}
    return Known.unset(), {}


def _fewer(ids: Node, value: str) -> list[Edit] | Refusal:
    """The first of the devices that are named; which others there are is not known."""
    count, several = int(value), any(item.items or "," in item.value for item in ids.items)
    if not ids.items or several or not 0 < count < len(ids.items):
        return Refusal("device_ids names the GPUs")
    if ids.alias or ids.source.text.startswith("&", ids.span.start):
        return Refusal("an anchor holds the list, which others may use")
    return remove_items(ids, ids.items[count:])


def _counted(node: Node, holes: Holes) -> tuple[Known[Any], Mapping[str, Site]]:
    return _count(node, holes), {"gpus_per_pod": TextSite((_read(node, holes),))}


def _ids(node: Node, holes: Holes) -> Known[Any]:
    """A list of ids, or one string that holds a list."""
    texts = [_read(item, holes) for item in (node.items or [node])]
    if any(text.value is None for text in texts):
        return Known.unknown("device_ids are filled in elsewhere", node.origin)
    ids = [part for text in texts for part in (text.value or "").split(",") if part.strip()]
    assumes = frozenset[str]().union(*(text.assumes for text in texts))
    everything = ids == ["all"] or any("=all" in part for part in ids)
    return Known.of("all" if everything else len(ids), node.origin, assumes=assumes)


def _count(node: Node, holes: Holes) -> Known[Any]:
    text = _read(node, holes)
    if text.value == "all" or text.value == "-1":
        return text.known().map(lambda _: "all")
    number = _integer(node, holes)
    negative = number.only is not None and number.only < 0
    return Known.unknown("less than nothing", number.origin) if negative else number


def _integer(node: Node, holes: Holes) -> Known[int]:
    if "$" not in node.value:
        return integer(node)
    text = _read(node, holes)
    if text.value is not None and re.fullmatch(r"\d{1,9}", text.value):
        return text.known().map(int)
    return Known.unknown(text.reason or f"{text.value!r} is not a whole number", text.place)


def _read(node: Node, holes: Holes) -> Text:
    """The value of a scalar after interpolation."""
    return holes.restored(interpolated(node.text(), holes))


# ------------------------------------------------------------------------------ interpolation

_VARIABLE = re.compile(r"\$(?:\$|([A-Za-z_]\w*)|\{)")
_ALONE = re.compile(r"\$\{[A-Za-z_]\w*:?-([^${}]+)\}")
_BRACED = re.compile(r"([A-Za-z_]\w*)(?:(:?[-?+])(.*))?", re.DOTALL)

DEEPEST = 5
"""Defaults inside defaults that are read."""


def interpolated(text: Text, holes: Holes) -> Text:
    """`${NAME:-default}` replaced by its default, on the assumption that NAME is not set.

    A variable without a default becomes a hole: its value is not in this file.
    """
    mapped = text.mapped
    if mapped is None or "$" not in mapped.text:
        return text
    parts: list[Mapped] = []
    at = 0
    for start, end, inner in _variables(mapped.text):
        parts.append(mapped.cut(at, start))
        if inner is None:
            parts.append(mapped.cut(start, start + 1))
        else:
            use = mapped.span(start, end)
            parts.append(Mapped.all_at(_value(inner, use, holes, DEEPEST), use))
        at = end
    joined = concat([*parts, mapped.cut(at)])
    mapped = replace(joined, literal=False) if at else joined
    return Text(mapped, text.origin, None, (), _default(text))


def _default(text: Text) -> Origin | None:
    """The place to edit in a text that is nothing but `${NAME:-default}`."""
    mapped = text.mapped
    match = _ALONE.fullmatch(mapped.text) if mapped is not None else None
    if mapped is None or match is None or not mapped.literal:
        return None
    return Origin(text.origin.file, mapped.span(*match.span(1)))


def _variables(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Start, end and inside of every use of a variable; two dollars have no inside."""
    at = 0
    while match := _VARIABLE.search(text, at):
        at = match.end()
        inner = match.group(1)
        if match.group() == "${":
            at = _closing(text, at)
            inner = text[match.end() : at - 1] if text[at - 1] == "}" else ""
        yield match.start(), at, inner


def _closing(text: str, at: int) -> int:
    """Index behind the brace that closes one opened before `at`, else the end."""
    depth = 1
    while at < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _value(inner: str, use: Span, holes: Holes, depth: int) -> str:
    """What stands for a variable that is used at a place."""
    match = _BRACED.fullmatch(inner)
    if match is None or match.group(2) not in (":-", "-") or depth == 0:
        name = match.group(1) if match else inner or "a variable"
        added = match is not None and match.group(2) in (":+", "+")
        perhaps = options_of(match.group(3) or "") if match is not None and added else ()
        return holes.make(f"{name} is set outside this file", use, perhaps).text
    holes.assume(f"{match.group(1)} is not set", use)
    default, parts, at = match.group(3), list[str](), 0
    for start, end, nested in _variables(default):
        parts += default[at:start], "$" if nested is None else _value(nested, use, holes, depth - 1)
        at = end
    return "".join([*parts, default[at:]])
