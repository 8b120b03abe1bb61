"""SkyPilot tasks: what runs on their nodes, how many of them, with which accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from shardlint.known import Case, Known, Text
from shardlint.plan import RAY_JOINS, RAY_UNASKED, Device, Fleet, ServingPlan, Site
from shardlint.platforms import skypilot
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import TextSite
from shardlint.readers.named_files import on_host, scripts_in, written
from shardlint.readers.plans import Host, absorbed, around, during, finished, process_of
from shardlint.readers.shell import engines_of, on_machine
from shardlint.readers.slurm import variable
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Origin, Source, Span

_RUNS = re.compile(r"^run[ \t]*:", re.MULTILINE)
_ASKS = re.compile(r"\b(?:accelerators|gpus)[ \t]*:")


class SkyPilotReader:
    """`run:` with `resources.accelerators`, alone or as a service of replicas."""

    name = "skypilot"
    kinds = ("task",)
    look: bytes | None = b"accelerators:"

    def accepts(self, source: Source) -> bool:
        found = _RUNS.search(source.text) and _ASKS.search(source.text)
        return bool(found) and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, failed = read_yaml(source)
        if failed is not None:
            return failed
        tasks = (Task(root, f"{at}:", context) for at, root in enumerate(roots) if is_task(root))
        plans = finished(plan for task in tasks for plan in task.plans())
        return ReadResult(plans=plans, absorbs=absorbed(plans))


def is_task(root: Node) -> bool:
    run, resources = root.get("run"), root.get("resources")
    if run is None or resources is None or root.get("apiVersion") is not None:
        return False
    keys = ("accelerators", "gpus", "any_of", "ordered")
    return run.is_string and any(resources.get(key) is not None for key in keys)


@record
class Option:
    """One of the accelerators that will do."""

    name: Text
    count: Known[int]


@record
class Task:
    root: Node
    path: str
    context: ReadContext

    def plans(self) -> Iterator[ServingPlan]:
        from shardlint.readers.bash import read_script

        run = self.root.get("run")
        mapped = run.text().mapped if run is not None else None
        if run is None or mapped is None:
            return
        source = self.root.source
        commands = read_script(mapped, source.name, self.variables())
        started = [process_of(command, of_script=True) for command in commands]
        whole = self.host(run)
        joins = not around(whole, started).placement.pods_per_group.is_unset
        host = replace(around(whole, started), placement=whole.placement)
        for process, during_it in during(host, started):
            for plan in engines_of(process, during_it, self.image(), self.context):
                yield self._grouped(plan, joins)

    def _grouped(self, plan: ServingPlan, joins: bool) -> ServingPlan:
        """The nodes of a task, where the engine is on all of them."""
        asked, nodes = plan.layout.nnodes, self.nodes
        group: Known[int] = nodes
        if (asked.only or 1) > 1:
            group = asked
        elif (nodes.only or 1) > 1:
            group = nodes.assuming(RAY_JOINS)
        elif joins and nodes.only is None and not nodes.is_unset:
            group = Known.unknown(nodes.reason or "how many nodes there are is not known")
        plan = replace(plan, placement=replace(plan.placement, pods_per_group=group))
        if RAY_JOINS not in group.assumes or not plan.layout.executor.is_unset:
            return plan
        ray: Known[Any] = Known.of("ray", how="derived", assumes=(RAY_UNASKED,))
        return replace(plan, effective=replace(plan.effective, executor=ray))

    # what it asks for ----------------------------------------------------------------------

    @cached_property
    def nodes(self) -> Known[int]:
        return integer(self.root.get("num_nodes"))

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """The accelerators of each of the possible resources."""
        resources = self.root.get("resources")
        found: list[Option] = []
        if resources is None:
            return ()
        for key in ("any_of", "ordered"):
            rows = resources.get(key)
            for row in rows.items if rows is not None else ():
                found += _options(row)
        return tuple(found) or tuple(_options(resources))

    @cached_property
    def gpus(self) -> Known[Any]:
        """Of each node; several numbers where the accelerators that will do come in several."""
        counts = [option.count for option in self.options]
        if not counts:
            return Known.unset()
        for option, count in zip(self.options, counts, strict=True):
            if count.only is None:
                return Known.unknown(count.reason or "unresolved", count.origin)
            if (option.name.value or "").lower().startswith("tpu"):
                return Known.unknown("the chips of a TPU are not counted here", count.origin)
        if len({count.only for count in counts}) == 1:
            return counts[0]
        cases = tuple(Case(count.only, _given(option)) for option, count in
                      zip(self.options, counts, strict=True))  # fmt: skip
        return Known(cases, None, counts[0].origin)

    def card(self) -> tuple[Known[str], Known[Device]]:
        if not self.options:
            return Known.unset(), Known.unset()
        found = [self.context.device(option.name.value or "") for option in self.options]
        if len(found) == 1:
            return self.options[0].name.known(), found[0]
        if not all(device.is_known for device in found):
            return Known.unset(), Known.unknown("one of several accelerators is not known")
        cases = tuple(
            Case(case.value, (*case.given, *_given(option)))
            for option, device in zip(self.options, found, strict=True)
            for case in device.cases
        )
        return Known.unset(), Known(cases, None, self.options[0].name.origin)

    def image(self) -> Known[str]:
        node = self.root.get("resources", "image_id")
        if node is None or not node.is_string:
            return Known.unset()
        name = skypilot.docker_image(node.value)
        if name is None:
            return Known.unset()
        reason = placeholder(name)
        text = node.text()
        return Known.unknown(reason, text.place) if reason else text.known().map(lambda _: name)

    # what surrounds it ---------------------------------------------------------------------

    def variables(self) -> Mapping[str, Text]:
        """`envs` as the file sets them, and what SkyPilot adds."""
        env: dict[str, Text] = {}
        for key in ("envs", "secrets"):
            found = self.root.get(key)
            for name, value in found.entries() if found is not None else ():
                text = value.text() if value.is_string else None
                unset = Text.unknown(name.origin, f"{name.value} is given when it is started")
                env[name.value] = text or unset
        start = Origin(self.root.source.name, Span(self.root.span.start, self.root.span.start))
        nodes = self.nodes.or_default(Known.of(1, start, how="defaulted"))
        env[skypilot.NODES] = variable(skypilot.NODES, nodes, start, "SkyPilot")
        env[skypilot.PER_NODE] = variable(skypilot.PER_NODE, self.gpus, start, "SkyPilot")
        for each in skypilot.EACH:
            env[each] = Text.unknown(start, f"{each} differs between nodes")
        return env

    def host(self, run: Node) -> Host:
        source, gpus = self.root.source, self.gpus
        label, device = self.card()
        placement = replace(
            on_machine(source), gpus_per_pod=gpus, gpu_label=label, gpu=device,
            scope=f"{source.name}{self.path}", scheduled=True,
        )  # fmt: skip
        key, _ = self.root.pair("run") or (run, run)
        return Host(
            source=source,
            kind="skypilot",
            name=self.root.string("name") or "task",
            path=f"{self.path}/run",
            origin=key.origin,
            anchors=(self.root.span, key.span),
            placement=placement,
            fleet=self.fleet(),
            sites=self.sites(),
            nodes=(run,),
            find=written(scripts_in(run), on_host(source, self.context.files)),
            pins=self.pins(),
        )

    def fleet(self) -> Fleet:
        fixed = integer(self.root.get("service", "replicas"))
        policy = self.root.get("service", "replica_policy")
        if policy is None:
            return Fleet(replicas=fixed)
        least, most = integer(policy.get("min_replicas")), integer(policy.get("max_replicas"))
        return Fleet(replicas=least.or_default(fixed), max_replicas=most)

    def sites(self) -> Mapping[str, Site]:
        """The number of accelerators, where there is one kind of them."""
        options = self.options
        origin = options[0].count.origin if len(options) == 1 else None
        if origin is None or options[0].count.how != "stated":
            return MappingProxyType({})
        span, node = origin.span, self.root
        for found in node.walk():
            if found.kind == "scalar" and found.span.covers(span) and found.is_string:
                text = found.text()
                at = text.value.rfind(":") + 1 if text.value else 0
                return MappingProxyType({"gpus_per_pod": TextSite((text.part(at),))})
        return MappingProxyType({})

    def pins(self) -> Mapping[str, Known[str]]:
        """Releases that `setup` installs; of an engine that is named twice, none is certain."""
        found: dict[str, Known[str]] = {}
        for key in ("setup", "run"):
            node = self.root.get(key)
            text = node.text() if node is not None and node.is_string else None
            for match in skypilot.PINNED.finditer(text.value or "") if text is not None else ():
                assert text is not None
                name, release = match.group(1), text.part(match.start(2), match.end(2)).known()
                again = name in found and found[name].values != release.values
                several: Known[str] = Known.unknown("it is installed in several releases")
                found[name] = several if again else release
        return MappingProxyType(found)


def _given(option: Option) -> tuple[tuple[str, str], ...]:
    return (("accelerators", f"{option.name.value}:{option.count.only}"),)


def _options(resources: Node) -> Iterator[Option]:
    """`H100:8`, `{H100: 8, A100: 8}` (numbers may stand in the key), or a list of the first."""
    found = resources.get("accelerators") or resources.get("gpus")
    if found is None:
        return
    for item in found.items if found.kind == "list" else [found]:
        if item.kind == "scalar":
            yield _option(item.text())
    for key, value in found.entries():
        if value.is_null or ":" in key.value:
            yield _option(key.text())
        else:
            yield Option(key.text(), integer(value))


def _option(text: Text) -> Option:
    match = skypilot.ACCELERATOR.fullmatch(text.value or "")
    if match is None or text.mapped is None:
        reason = placeholder(text.value or "") or f"{text.value!r} names no accelerator"
        return Option(text, Known.unknown(text.reason or reason, text.place))
    name = text.part(*match.span(1))
    if match[2] is None:
        return Option(name, Known.of(1, text.place, how="derived"))
    count = int(match[2])
    return Option(name, text.part(*match.span(2)).known().map(lambda _: count))
