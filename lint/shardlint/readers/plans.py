"""From a started process and what surrounds it to a serving plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from posixpath import basename
from types import MappingProxyType
from typing import Any

from shardlint.engines.launchers import image_tells_version, tag_of
from shardlint.known import Known, Text, combine
from shardlint.plan import (
    Engine,
    Flag,
    Fleet,
    GpuCount,
    Launch,
    LayoutFacts,
    Placement,
    Reading,
    ServingPlan,
    Site,
    Unknown,
)
from shardlint.plugins import ReadContext
from shardlint.readers.edits import FlagSite, SpellingSite
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Origin, Source, Span

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})

VISIBLE = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "HABANA_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
)
"""Variables that narrow the devices a process sees, whatever the container was given."""

EDITABLE = ("tp", "pp", "dp")


@record(kw_only=True)
class Host:
    """What surrounds a process in its file: the object, its devices, its copies, its sites."""

    source: Source
    kind: str
    name: str
    path: str
    origin: Origin
    anchors: tuple[Span, ...] = ()
    role: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    placement: Placement = Placement()
    fleet: Fleet = Fleet()
    suppressed: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    sites: Mapping[str, Site] = field(default_factory=lambda: MappingProxyType({}))
    lists: tuple[Node, ...] = ()


def plan_of(launch: Launch, host: Host, context: ReadContext) -> ServingPlan | None:
    """The plan of a process, None if no engine recognises it."""
    for engine in context.engines:
        reading = engine.read(launch)
        if reading is not None:
            return _plan(engine, reading, launch, host)
    return None


def _plan(engine: Engine, reading: Reading, launch: Launch, host: Host) -> ServingPlan:
    model = _model(reading)
    plan = ServingPlan(
        id=f"{host.source.name}#{host.path}",
        name=host.name,
        kind=host.kind,
        file=host.source.name,
        path=host.path,
        origin=host.origin,
        engine=engine.name,
        image=launch.image,
        tag=_tag(launch),
        versions=engine.versions(_version_tag(launch, engine)),
        model=model,
        served_name=reading.served_name,
        role=host.role,
        namespace=host.namespace,
        labels=host.labels,
        layout=reading.layout,
        effective=engine.effective(reading.layout),
        placement=_narrowed(host.placement, launch.env),
        fleet=host.fleet,
        memory=reading.memory,
        flags=reading.flags,
        argv=(*reading.command, *launch.argv[len(reading.command) :]),
        open_ended=reading.open_ended,
        sites=_sites(engine, reading, host),
        anchors=(*host.anchors, launch.origin.span),
        suppressed=host.suppressed,
    )
    return replace(plan, unknowns=tuple(_unknowns(plan)))


def _model(reading: Reading) -> Known[str]:
    name = reading.model.only
    reason = placeholder(name) if name else None
    if reason:
        return Known.unknown(reason, reading.model.origin, reading.model.related)
    return reading.model.map(lambda value: value.removeprefix("hf://"))


def _tag(launch: Launch) -> Known[str]:
    image = launch.image.only
    tag = tag_of(image) if image else None
    return launch.image.map(lambda _: tag or "") if tag else Known.unset()


def _version_tag(launch: Launch, engine: Engine) -> Known[str]:
    """The tag, where tags of this image are releases of the engine."""
    return _tag(launch) if image_tells_version(engine.name, launch.image.only) else Known.unset()


def _narrowed(placement: Placement, env: Mapping[str, Text]) -> Placement:
    """Devices left after variables that hide some of them."""
    for name in VISIBLE:
        if (text := env.get(name)) is None or text.value in ("all", "void", "none"):
            continue
        seen = text.known().map(lambda value: len([d for d in value.split(",") if d.strip()]))
        given = placement.gpus_per_pod
        if given.is_unset:
            count: Known[Any] = seen
        else:
            count = replace(combine(_fewer, given, seen, how="stated"), origin=given.origin)
        placement = replace(placement, gpus_per_pod=count)
    return placement


def _fewer(given: GpuCount, seen: int) -> GpuCount:
    return seen if given == "all" else min(given, seen)


def _sites(engine: Engine, reading: Reading, host: Host) -> Mapping[str, Site]:
    """Sites of the layout and of every option's spelling, beside those of the host."""
    sites: dict[str, Site] = dict(host.sites)
    for index, flag in enumerate(reading.flags):
        sites[f"flag:{index}"] = SpellingSite(flag)
    if not engine.checked:
        return MappingProxyType(sites)
    stated = {name: _flag_of(engine, reading, name) for name in EDITABLE}
    neighbour = next((flag for flag in stated.values() if flag), None)
    neighbour = neighbour or (reading.flags[-1] if reading.flags else None)
    like = (neighbour.written.value or "") if neighbour else ""
    for name, found in stated.items():
        spelling = engine.flag_name(name, like)
        sites[name] = FlagSite(host.source, spelling, found, neighbour, host.lists)
    return MappingProxyType(sites)


def _flag_of(engine: Engine, reading: Reading, field: str) -> Flag | None:
    name = engine.flag_name(field)
    found = [flag for flag in reading.flags if flag.flag == name]
    return found[-1] if found else None


def _unknowns(plan: ServingPlan) -> Iterator[Unknown]:
    """Facts that are there and could not be read."""
    facts: dict[str, Known[Any]] = {"model": plan.model, "image": plan.image}
    names = LayoutFacts.__dataclass_fields__
    facts |= {name: getattr(plan.layout, name) for name in names}
    facts |= {
        "gpus_per_pod": plan.placement.gpus_per_pod,
        "gpu_type": plan.placement.gpu_label,
        "nodes": plan.placement.pods_per_group,
        "replicas": plan.fleet.replicas,
        "max_model_len": plan.memory.max_model_len,
        "quantization": plan.memory.quantization,
        "kv_cache_dtype": plan.memory.kv_cache_dtype,
        "gpu_memory_utilization": plan.memory.budget.share,
        "max_num_seqs": plan.memory.max_num_seqs,
        "max_num_batched_tokens": plan.memory.max_num_batched_tokens,
    }
    for name, fact in facts.items():
        if not fact.is_known and not fact.is_unset:
            yield Unknown(name, fact.reason or "unresolved", fact.origin)


# ------------------------------------------------------------------------------- processes


@record
class Process:
    """A command that runs: its words, its environment, its place."""

    argv: tuple[Text, ...]
    env: Mapping[str, Text]
    origin: Origin
    of_script: bool = False


def processes(argv: Sequence[Text], env: Mapping[str, Text], origin: Origin) -> tuple[Process, ...]:
    """The process that these words start, or those of the script that they give to a shell."""
    script = _script(argv)
    if script is None:
        return (Process(tuple(argv), env, origin),)
    text, arguments = script
    if text.mapped is None:
        return ()
    from shardlint.readers.bash import read_script

    commands = read_script(text.mapped, text.origin.file, env, arguments)
    return tuple(
        Process(command.argv, {**env, **command.env}, command.origin, True) for command in commands
    )


def _script(argv: Sequence[Text]) -> tuple[Text, tuple[Text, ...]] | None:
    """The script in `bash -c script name args...`, with the words after its name."""
    words = list(argv)
    while words and basename(words[0].value or "") in ("exec", "tini", "dumb-init", "--", "-g"):
        del words[0]
    if not words or basename(words[0].value or "") not in SHELLS:
        return None
    for at, word in enumerate(words[1:], start=1):
        value = word.value or ""
        if value.startswith("-") and not value.startswith("--") and "c" in value:
            after = words[at + 1 :]
            return (after[0], tuple(after[2:])) if after else None
        if not value.startswith(("-", "+")) and value not in ("pipefail", "errexit", "nounset"):
            return None
    return None


def joins_hosts(processes: Sequence[Process]) -> str | None:
    """A reason why one host's devices may not be all there is: the script starts a Ray cluster."""
    for process in processes:
        words = [word.value or "" for word in process.argv]
        for first, second in pairwise([*words, ""]):
            if basename(first) == "ray" and second == "start":
                return "`ray start` joins several hosts"
            if "multi-node-serving" in first or "ray_cluster" in first or "ray-cluster" in first:
                return f"{basename(first)} joins several hosts"
    return None


def distinct(plans: Sequence[ServingPlan]) -> tuple[ServingPlan, ...]:
    """Plans of one host without those that say the same: branches of one start script."""
    kept: list[ServingPlan] = []
    for plan in plans:
        if not any(_says_the_same(plan, other) for other in kept):
            kept.append(plan)
    return tuple(kept)


def _says_the_same(plan: ServingPlan, other: ServingPlan) -> bool:
    facts = [(name, getattr(plan.layout, name), getattr(other.layout, name))
             for name in LayoutFacts.__dataclass_fields__]  # fmt: skip
    same = plan.engine == other.engine and plan.model.values == other.model.values
    return same and all(one.values == two.values for _, one, two in facts)
