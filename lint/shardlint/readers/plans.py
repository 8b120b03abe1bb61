"""From a started process and what surrounds it to a serving plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from posixpath import basename
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from shardlint.engine import Engine
from shardlint.engines.launchers import (
    accelerator,
    bundled,
    cpu_build,
    image_matches,
    image_tells_version,
    release_in_name,
    tag_of,
)
from shardlint.known import Known, Text, combine
from shardlint.plan import (
    RAY_UNASKED,
    Flag,
    Fleet,
    GpuCount,
    Launch,
    LayoutFacts,
    Placement,
    Reading,
    Refused,
    Releases,
    Remark,
    ServingPlan,
    Site,
    Unknown,
)
from shardlint.plugins import Absorbed, ReadContext
from shardlint.readers._bash_nested import nested, script_word
from shardlint.readers.edits import (
    ArgumentSite,
    FlagSite,
    GuardedSite,
    JointSite,
    NewOptionSite,
    OptionSite,
    RefusedSite,
    Slot,
    SpellingSite,
    TextSite,
    Use,
    Uses,
    stands_in,
    uses_of,
)
from shardlint.readers.keyed import KeySite
from shardlint.readers.named_files import (
    EntryOfSite,
    Find,
    NamedFile,
    NameSite,
    OptionKeySite,
    Options,
    joined,
    key_site,
    nothing,
)
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Origin, Source, Span

if TYPE_CHECKING:
    from shardlint.readers.bash import Command

VISIBLE = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "HABANA_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
)
"""Variables that narrow the devices a process sees, whatever the container was given."""

NONE_VISIBLE = re.compile(r"\s*(-.*)?|NoDevFiles")
"""Values of such a variable that hide every device."""

COLLECTIVES = re.compile(
    r"(NCCL|RCCL|GLOO|UCX|NVSHMEM|FI)_\w+|TP_SOCKET_IFNAME|VLLM_(HOST_IP|LOOPBACK_IP|"
    r"DP_MASTER_(IP|PORT)|NIXL_SIDE_CHANNEL_(HOST|PORT)|SKIP_P2P_CHECK|MQ_MAX_CHUNK_BYTES_MB)"
)
"""Variables that decide how ranks find and reach each other."""

EDITABLE = (
    "tp", "pp", "dp", "ep", "attention_dp", "dcp", "max_model_len", "kv_cache_dtype",
    "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "quantization", "dtype",
)  # fmt: skip
"""Fields that an option of the engine sets and a fix may change."""

BESIDE = {"gpus_per_pod": "placement.gpus_per_pod", "replicas": "fleet.replicas",
          "shm_bytes": "placement.shm_bytes"}  # fmt: skip
"""Facts that are read from other places than the command line."""


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
    owner: tuple[str, str] | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    placement: Placement = Placement()
    fleet: Fleet = Fleet()
    suppressed: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    reinstalled: bool = False
    platform: str | None = None
    effective: Mapping[str, Known[Any]] = field(default_factory=lambda: MappingProxyType({}))
    """Fields of the layout as the platform makes them, whatever the command line says."""
    remarks: tuple[Remark, ...] = ()
    refused: tuple[Refused, ...] = ()
    """What the platform refuses."""
    release: Known[str] = Known.unset()
    """The engine's release, where something else than the tag of its image states it."""
    sites: Mapping[str, Site] = field(default_factory=lambda: MappingProxyType({}))
    written: Mapping[str, Site] = field(default_factory=lambda: MappingProxyType({}))
    """Sites of options that are written elsewhere than on a command line; they win."""
    nodes: tuple[Node, ...] = ()
    """Command and arguments in a YAML file."""
    text: Source | None = None
    """The file in which the command stands, where it is another one."""
    find: Find = nothing
    """Files that the command may name."""
    options: Options | None = None
    """The file of options that starts the engine, where that is all there is."""
    pins: Mapping[str, Known[str]] = field(default_factory=lambda: MappingProxyType({}))
    """Releases of engines that are installed before, by the name of the engine."""
    extend: Node | None = None
    """A container without arguments, whose arguments would stand behind what runs in it."""

    @property
    def keyed(self) -> bool:
        """Options are keys of a map, or the object has none yet: `written` has all that can be."""
        return "max_model_len" in self.written


def plan_of(launch: Launch, host: Host, context: ReadContext) -> ServingPlan | None:
    """The plan of a process, None if no engine recognises it."""
    for engine in context.engines:
        tag = Known.unset() if host.reinstalled else _version_tag(launch, engine)
        tag = host.pins.get(engine.name, tag.or_default(host.release))
        releases = context.releases(engine, tag)
        reading = engine.read(launch, releases)
        if reading is None:
            continue
        options = host.options
        if (found := joined(launch, reading, host.find)) is not None:
            launch, options = found
            reading = engine.read(launch, releases) or reading
        reading = replace(reading, layout=_of_sizes(reading.layout))
        return _plan(engine, reading, launch, host, releases, options)
    return None


SIZES = ("tp", "pp", "dp", "dp_local", "pcp", "dcp", "nnodes")


def _of_sizes(layout: LayoutFacts) -> LayoutFacts:
    """The layout without numbers that are no sizes: what an engine makes of them is not known."""
    changed: dict[str, Known[Any]] = {}
    for name in SIZES:
        fact: Known[Any] = getattr(layout, name)
        wrong = [value for value in fact.values if isinstance(value, int) and value < 1]
        if wrong:
            changed[name] = Known.unknown(f"{wrong[0]} is no number of ranks", fact.origin)
    return replace(layout, **changed) if changed else layout


def absorbed(plans: Iterable[ServingPlan]) -> tuple[Absorbed, ...]:
    """The files of options that are linted through these plans."""
    return tuple(Absorbed(name) for name in dict.fromkeys(n for plan in plans for n in plan.joined))


def _plan(
    engine: Engine,
    reading: Reading,
    launch: Launch,
    host: Host,
    versions: Known[Releases],
    options: Options | None,
) -> ServingPlan:
    model = _model(reading)
    env = _environment(launch, reading.command)
    narrowing = [name for name in VISIBLE if _narrows(env.get(name))]
    placement = _placement(host.placement, launch, env, narrowing)
    if reading.builds:
        placement = replace(placement, wants_gpu=False)
    given = host.effective
    counted: dict[str, Known[Any]] = {
        name: _seen(placement) for name in reading.counted if name not in given
    }
    plan = ServingPlan(
        id=f"{host.source.name}#{host.path}",
        name=host.name,
        kind=host.kind,
        file=host.source.name,
        path=host.path,
        origin=host.origin,
        engine=engine.name,
        image=launch.image,
        tag=host.pins.get(engine.name, host.release.or_default(_tag(launch))),
        versions=versions,
        model=model,
        shape_of=reading.shape_of,
        served_name=reading.served_name,
        owner=host.owner,
        role=host.role,
        platform=host.platform,
        namespace=host.namespace,
        labels=host.labels,
        layout=reading.layout,
        effective=replace(
            _effective(engine, reading.layout, host.placement), **counted, **host.effective
        ),
        placement=placement,
        fleet=host.fleet,
        memory=reading.memory,
        flags=reading.flags,
        options=reading.options,
        refused=(*reading.refused, *host.refused),
        remarks=(*reading.remarks, *host.remarks, *_passed_over(engine, reading.layout, counted)),
        argv=launch.argv,
        joined=_joined(options, host),
        open_ended=reading.open_ended,
        builds=reading.builds,
        sites=_sites(engine, reading, launch.argv, host, narrowing, versions, options),
        anchors=(*host.anchors, *_anchored(launch.origin, host)),
        suppressed=host.suppressed,
    )
    return replace(plan, unknowns=tuple(_unknowns(plan)))


BY_RAY = "ray"
"""The executor that lets a Ray cluster place the ranks."""


def _effective(engine: Engine, layout: LayoutFacts, placement: Placement) -> LayoutFacts:
    """The layout with defaults; pods of a group that are joined by Ray are there to be used by it.

    Releases differ in whether they take Ray without being asked, so that this is assumed; where
    the release is known it is decided with the rest of the project.
    """
    filled = engine.effective(layout)
    asked = not (layout.executor.is_unset and layout.nnodes.is_unset)
    alone = not engine.checked or placement.joined is None or not placement.pods_per_group.is_known
    if asked or alone:
        return filled
    return replace(filled, executor=Known.of(BY_RAY, how="derived", assumes=(RAY_UNASKED,)))


def _joined(options: Options | None, host: Host) -> tuple[str, ...]:
    name = options.outside if options is not None else None
    return () if name is None or name == host.source.name else (name,)


def _anchored(origin: Origin, host: Host) -> tuple[Span, ...]:
    return (origin.span,) if origin.file == host.source.name else ()


def _seen(placement: Placement) -> Known[int]:
    """How many devices the process sees, as a field of the layout."""
    count = placement.gpus_per_pod
    if count.is_unset or "all" in count.values:
        return Known.unknown("how many GPUs the engine sees is not in this file", count.origin)
    return count.map(lambda value: max(1, int(value)), "derived")


def _passed_over(
    engine: Engine, layout: LayoutFacts, counted: Mapping[str, Known[Any]]
) -> Iterator[Remark]:
    """Options whose place the number of devices takes."""
    for name, seen in counted.items():
        stated: Known[Any] = getattr(layout, name)
        if stated.only is None or seen.only is None or stated.only == seen.only:
            continue
        if stated.origin is not None:
            yield Remark(
                kind="ignored",
                at=stated.origin,
                message=(
                    f"{engine.label} does not take {name.upper()} {stated.only} from here: it sets"
                    f" it to the number of GPUs that it sees, {seen.only}"
                ),
                severity="warning",
                help=f"{stated.only} GPUs for TP {stated.only}" if name == "tp" else None,
                related=((seen.origin, f"{seen.only} GPUs"),) if seen.origin is not None else (),
            )


def _placement(
    placement: Placement, launch: Launch, env: Mapping[str, Text], narrowing: Sequence[str]
) -> Placement:
    variables = {name: env[name] for name in narrowing}
    narrowed = _narrowed(placement, variables)
    shown = {name: text.known() for name, text in env.items() if COLLECTIVES.fullmatch(name)}
    ids = _visible(placement, variables)
    slices = any(MIG.match(item) for value in ids.values for item in value)
    return replace(
        narrowed,
        env=MappingProxyType({**placement.env, **shown}),
        device_ids=ids,
        device_kind=Known.of("mig", ids.origin) if slices else narrowed.device_kind,
        wants_gpu=placement.wants_gpu and not cpu_build(launch.image.only, env, launch.argv),
        foreign=placement.foreign
        or accelerator(launch.image.only, env, placement.asked, launch.argv),
    )


MIG = re.compile(r"MIG-|\d+:\d+$")
"""Names of slices of a card: a UUID of their own, or card and slice by number."""

ALL = ("all",)
"""Every device of the machine, by index."""


def _visible(placement: Placement, variables: Mapping[str, Text]) -> Known[tuple[str, ...]]:
    """The devices that are left, named as their machine names them."""
    ids = placement.device_ids
    if ids.is_unset and placement.on_host:
        ids = Known.of(ALL, how="defaulted")
    for text in variables.values():
        chosen: Known[tuple[str, ...]] = text.known().map(_items)
        ids = combine(_chosen, ids, chosen) if ids.is_known else ids
    return ids if all(NO_DEVICE not in value for value in ids.values) else Known.unknown(NO_DEVICE)


NO_DEVICE = "a device is chosen that is not there"


def _chosen(ids: tuple[str, ...], chosen: tuple[str, ...]) -> tuple[str, ...]:
    """Devices by their numbers among those that are visible; UUIDs stay what they are."""
    if ids == ALL or not all(item.isdigit() for item in chosen):
        return chosen
    return tuple(ids[int(at)] if int(at) < len(ids) else NO_DEVICE for at in chosen)


def _items(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _model(reading: Reading) -> Known[str]:
    name = reading.model.only
    reason = placeholder(name) if name else None
    if reason:
        return Known.unknown(reason, reading.model.origin, reading.model.related)
    return reading.model.map(lambda value: value.removeprefix("hf://"))


def _tag(launch: Launch) -> Known[str]:
    """The tag; the whole image where a tag alone would be taken for a release of the engine."""
    image = launch.image.only
    tag = (tag_of(image) or release_in_name(image)) if image else None
    if image and tag and bundled(image) and re.search(r"\d", tag):
        return launch.image
    return launch.image.map(lambda _: tag or "") if tag else Known.unset()


def _version_tag(launch: Launch, engine: Engine) -> Known[str]:
    """The tag, where tags of this image are releases of the engine; else a release in its name."""
    if image_tells_version(engine.name, launch.image.only):
        return _tag(launch)
    return _in_name(launch, engine)


def _in_name(launch: Launch, engine: Engine) -> Known[str]:
    image = launch.image.only
    found = release_in_name(image) if image_matches(engine.name, image) and image else None
    return Known.unset() if found is None else launch.image.map(lambda _: found)


def _assigned(command: Sequence[Text]) -> Iterator[tuple[str, Text]]:
    """Variables set by words before the program, as in `env A=b vllm serve`."""
    for word in command:
        if match := re.match(r"([A-Za-z_]\w*)=", word.value or ""):
            yield match.group(1), word.part(match.end())


def _environment(launch: Launch, command: Sequence[Text]) -> dict[str, Text]:
    """What reaches the process: `env -i` hands nothing on, `env -u NAME` takes one away."""
    words = [word.value or "" for word in command]
    env = dict(launch.env)
    if any(basename(word) == "env" for word in words):
        if {"-i", "-", "--ignore-environment"} & set(words):
            env.clear()
        for first, second in pairwise([*words, ""]):
            name = second if first in ("-u", "--unset") else first.removeprefix("--unset=")
            env.pop(name, None)
    return env | dict(_assigned(command))


def _narrows(text: Text | None) -> bool:
    return text is not None and text.value not in ("all", "void", "none")


def _narrowed(placement: Placement, variables: Mapping[str, Text]) -> Placement:
    """Devices left after variables that hide some of them."""
    for name, text in variables.items():
        given = placement.gpus_per_pod
        count = _left(given, name, text)
        hides = count.is_known and count.values != given.values
        origin = text.place if hides else given.origin or text.place
        placement = replace(placement, gpus_per_pod=replace(count, origin=origin))
    return placement


def _left(given: Known[GpuCount], name: str, text: Text) -> Known[GpuCount]:
    if NONE_VISIBLE.fullmatch(text.value or "-"):
        return Known.unknown(text.reason or f"{name} hides every device")
    seen: Known[Any] = text.known().map(_listed)
    return seen if given.is_unset else combine(_fewer, given, seen, how="stated")


def _listed(value: str) -> int:
    return len(_items(value))


def _fewer(given: GpuCount, seen: int) -> GpuCount:
    return seen if given == "all" else min(given, seen)


def _module(argv: Sequence[Text]) -> Text | None:
    """The module that Python starts, as it is written."""
    return next((word for before, word in pairwise(argv) if before.value == "-m"), None)


def _sites(
    engine: Engine,
    reading: Reading,
    argv: Sequence[Text],
    host: Host,
    narrowing: Sequence[str],
    versions: Known[Releases],
    options: Options | None,
) -> Mapping[str, Site]:
    """Sites of the layout and of every option's spelling, beside those of the host."""
    sites: dict[str, Site] = dict(host.sites)
    if narrowing and "gpus_per_pod" in sites:
        sites["gpus_per_pod"] = RefusedSite(f"{narrowing[0]} chooses among the devices")
    places = {id(word): at for at, word in enumerate(argv)}
    for index, flag in enumerate(reading.flags):
        entry = options.entry(flag.written) if options is not None else None
        if options is not None and entry is not None:
            sites[f"flag:{index}"] = NameSite(entry[0])
            sites[f"option:{index}"] = EntryOfSite(options.node, *entry)
            continue
        sites[f"flag:{index}"] = SpellingSite(flag)
        sites[f"option:{index}"] = _option_site(flag, argv, places, host)
    if (module := _module(argv)) is not None:
        sites["module"] = TextSite((module,))
    if not engine.checked:
        return MappingProxyType(sites | dict(host.written))
    takes = reading.releases.or_default(versions)
    named = [name for name in EDITABLE if engine.flag_name(name) is not None]
    stated = {name: _flag_of(engine, reading, name) for name in named}
    new = {name for name in named if engine.flag_name(name, releases=takes) is not None}
    if host.keyed:
        new &= host.written.keys()
    stated = {name: flag for name, flag in stated.items() if flag is not None or name in new}
    given = [flag for flag in stated.values() if flag is not None]
    if options is not None:
        given = [flag for flag in given if options.entry(flag.written) is None]
    slot = _slot(given, reading, argv, host, options)
    like = (slot.like.written.value or "") if slot and slot.like else ""
    if slot is not None and not host.keyed:
        sites["option"] = NewOptionSite(slot)
    for name, found in stated.items():
        spelling = engine.flag_name(name, like, takes) or engine.flag_name(name, like)
        assert spelling is not None
        bare = host.extend if found is None and slot is None else None
        whole = None if found is None else _option_site(found, argv, places, host)
        site = FlagSite(spelling, found, slot, whole)
        sites[name] = site if bare is None else ArgumentSite(bare, "args", spelling)
        if found is None and (text := reading.variables.get(name)) is not None:
            sites[name] = TextSite((text,))
    for name in reading.counted:
        if name in host.effective:
            continue
        sites[name] = RefusedSite(f"{engine.label} takes the number of its GPUs for it")
    if options is not None:
        sites |= dict(_in_file(engine, stated, options, slot))
    sites |= {name: RefusedSite(reason) for name, reason in reading.tied.items()}
    return MappingProxyType(sites | dict(host.written))


def _in_file(
    engine: Engine, stated: Mapping[str, Flag | None], options: Options, slot: Slot | None
) -> Iterator[tuple[str, Site]]:
    """Sites of options in a file: those that stand there, and absent ones beside them."""
    entries = {name: options.entry(flag.written) for name, flag in stated.items() if flag}
    there = any(entry is not None for entry in entries.values())
    for name, flag in stated.items():
        if (entry := entries.get(name)) is not None:
            key = entry[0].value
            yield name, OptionKeySite(KeySite(options.node, key), options.of(key))
        elif flag is None and (there or slot is None):
            yield name, key_site(options, engine.flag_name(name) or name)


def _option_site(
    flag: Flag, argv: Sequence[Text], places: Mapping[int, int], host: Host
) -> OptionSite:
    """The option with its values, between the words before and behind it."""
    words = [flag.written, flag.value, *flag.more]
    own = [places[id(word)] for word in words if id(word) in places]
    first, last = (min(own), max(own)) if own else (0, len(argv))
    before = argv[first - 1] if first else None
    behind = argv[last + 1] if last + 1 < len(argv) else None
    return OptionSite(host.text or host.source, flag, before, behind, host.nodes)


def _slot(
    stated: Sequence[Flag],
    reading: Reading,
    argv: Sequence[Text],
    host: Host,
    options: Options | None,
) -> Slot | None:
    """Where another option can stand: behind a related one, else behind the last that fits."""
    source = host.text or host.source
    if host.options is not None:
        return None
    if options is not None:
        argv = [word for word in argv if not any(word is one for one in options.words)]
    places = {id(word): at for at, word in enumerate(argv)}
    elsewhere: Slot | None = None
    for flag in (*stated, *reversed(reading.flags)):
        if id(flag.written) not in places:
            continue  # a key of a file that the options name
        last = flag.written
        if flag.value is not None and id(flag.value) in places:
            last = flag.value
        at = places.get(id(last), len(argv))
        fits = last.mapped is not None and (flag.problem is None or flag.value is not None)
        if fits and _ends(argv[at + 1 : at + 2]):
            slot = Slot(last, source.name, flag, host.nodes)
            if _here(last, host):
                return slot
            elsewhere = elsewhere or slot
    if argv and argv[-1].mapped is not None and not reading.open_ended and not stated:
        slot = Slot(argv[-1], source.name, None, host.nodes)
        if _here(argv[-1], host):
            return slot
        elsewhere = elsewhere or slot
    return elsewhere if host.extend is None else None


def _here(word: Text, host: Host) -> bool:
    """The word is written in this file, at a place of options."""
    if not host.nodes:
        return True
    return word.origin.file == host.source.name and stands_in(host.nodes, word)


def _ends(following: Sequence[Text]) -> bool:
    """The values of an option end before these words."""
    return all(word.many or (word.value or "").startswith("-") for word in following)


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
    conditional: bool = False
    sourced: str | None = None
    branch: bool = False
    file: NamedFile | None = None
    """The script in which it stands, where that is a file by itself."""


DEEPEST = 3
"""Script files that start script files."""


def processes(
    argv: Sequence[Text],
    env: Mapping[str, Text],
    origin: Origin,
    find: Find = nothing,
) -> tuple[Process, ...]:
    """The process that these words start, or those of the script that they give to a shell.

    A script file that can be found is read instead of the command that starts it.
    """
    first = Process(tuple(argv), env, origin)
    inside = nested(argv)
    if inside is None:
        return tuple(_of_files(first, find, DEEPEST))
    from shardlint.readers.bash import read_argv

    file = argv[inside.script].origin.file
    started = (process_of(item, of_script=True) for item in read_argv(argv, file, env))
    return tuple(process for each in started for process in _of_files(each, find, DEEPEST))


def _of_files(process: Process, find: Find, deepest: int) -> Iterator[Process]:
    """The process, or those of the script file that it is."""
    at = script_word(process.argv) if find is not nothing and deepest else None
    name = process.argv[at].value if at is not None else None
    file = find(name) if name is not None else None
    script = file.script() if file is not None else None
    if at is None or file is None or script is None or not _is_script(name or "", script.text):
        yield process
        return
    from shardlint.readers.bash import read_script

    commands = read_script(
        script, file.source.name, process.env, process.argv[at + 1 :], name=process.argv[at]
    )
    for command in commands:
        inside = process_of(command, of_script=True)
        inside = replace(
            inside, file=file, conditional=inside.conditional or process.conditional,
            sourced=inside.sourced or process.sourced, branch=inside.branch or process.branch,
        )  # fmt: skip
        yield from _of_files(inside, find, deepest - 1)


def _is_script(name: str, text: str) -> bool:
    return name.endswith((".sh", ".bash")) or bool(re.match(r"\s*#!.*\b(ba|da|z|k|a)?sh\b", text))


def process_of(command: Command, of_script: bool) -> Process:
    env = exported(command)
    return Process(
        command.argv, env, command.origin, of_script, command.conditional, command.sourced,
        command.branch,
    )  # fmt: skip


def exported(command: Command) -> dict[str, Text]:
    """The variables of a script that reach the process."""
    return {name: command.env[name] for name in command.exported if name in command.env}


RAY = re.compile(r"(^|/)(multi-node-serving|[\w.-]*\bray[-_][\w.-]*)$|\bray\s+start\b")
JOINS = "joins several hosts"
STARTS = "starts a cluster that joins several hosts"
"""End of the reason where the cluster is the process's own, not one that is there already."""
LEADS = frozenset({"leader", "--head"})


def joins_hosts(processes: Sequence[Process]) -> str | None:
    """A reason why one host's devices may not be all there is: something starts a Ray cluster."""
    for process in processes:
        words = [word.value or "" for word in process.argv]
        if process.env.get("RAY_ADDRESS") is not None:
            return "RAY_ADDRESS names a cluster of several hosts"
        does = STARTS if LEADS & set(words) else JOINS
        for first, second in pairwise([*words, ""]):
            if basename(first) == "ray" and second == "start":
                return f"`ray start` {does}"
            if RAY.search(first.removesuffix(".sh")):
                return f"{basename(first)} {does}"
    return None


def ray_in(node: Node) -> str | None:
    """The same of a pod or of a compose file: another container of it may start the cluster."""
    if not node.parts and "ray" not in node.source.text:
        return None
    for item in node.walk():
        words = [child.value for child in item.items]
        started = any(a == "ray" and b == "start" for a, b in pairwise(words))
        if started or (item.kind == "scalar" and re.search(r"\bray\s+start\b", item.value)):
            return f"`ray start` {JOINS}"
    return None


def around(host: Host, started: Sequence[Process], elsewhere: str | None = None) -> Host:
    """The host with what its processes say of it: that others join in, that releases change.

    An object that says how many pods belong together is believed.
    """
    placement = host.placement
    reason = joins_hosts(started) or elsewhere
    if reason is None and (placement.pods_per_group.only or 1) > 1:
        reason = _script_in(started)
    if reason:
        pods = placement.pods_per_group.or_default(Known.unknown(reason))
        placement = replace(placement, pods_per_group=pods, joined=reason)
    return replace(host, placement=placement, reinstalled=reinstalls(started))


def _script_in(started: Sequence[Process]) -> str | None:
    """A script that is not read: in pods that belong together it may start a cluster."""
    for process in started:
        for word in process.argv[:3]:
            if re.search(r"\.(sh|bash|py)$", word.value or ""):
                return f"{basename(word.value or '')} may start a cluster"
    return None


def during(host: Host, started: Sequence[Process]) -> Iterator[tuple[Process, Host]]:
    """Each process with when it runs: whether it surely does, and what starts beside it.

    What was started before a command that stops or waits for something may be gone after it.
    """
    placement, stops = host.placement, 0
    for process in started:
        stops += _stops(process)
        yield (
            process,
            replace(
                _where(host, process),
                placement=replace(
                    placement,
                    scope=f"{placement.scope}/{stops}",
                    certain=placement.certain and not process.conditional,
                    branch=placement.branch or process.branch,
                    detached=placement.detached or _in_background(host.source, process.origin),
                    env_open=placement.env_open
                    or (f"{process.sourced} is not read" if process.sourced else None),
                ),
            ),
        )


def _where(host: Host, process: Process) -> Host:
    """The host, with the file in which the command stands."""
    if process.file is None:
        return host
    node = process.file.node
    return replace(host, text=process.file.source, nodes=(node,) if node is not None else ())


STOPS = frozenset({"kill", "pkill", "killall", "wait", "fuser"})
_CONTAINERS_STOP = frozenset({"stop", "kill", "rm", "down", "wait", "restart", "prune"})


def _stops(process: Process) -> bool:
    """A command after which an engine that was started before may not run any more."""
    words = [basename(word.value or "") for word in process.argv[:4]]
    first = next((word for word in words if word not in ("sudo", "nohup", "time")), "")
    container = first in ("docker", "podman", "nerdctl", "docker-compose")
    return first in STOPS or (container and not _CONTAINERS_STOP.isdisjoint(words))


_BACKGROUND = re.compile(r"[ \t]*&(?![&>])")


def _in_background(source: Source, origin: Origin) -> bool:
    same = origin.file == source.name
    return same and _BACKGROUND.match(source.text, origin.span.end) is not None


def reinstalls(processes: Sequence[Process]) -> bool:
    """A script that installs packages: the release in the image's tag need not be what runs."""
    for process in processes:
        words = [basename(word.value or "") for word in process.argv[:6]]
        if "install" in words and any(re.match(r"pip\d?$|uv$|python", word) for word in words):
            return True
    return False


def distinct(plans: Sequence[ServingPlan]) -> tuple[ServingPlan, ...]:
    """Plans of one host without those that say the same: branches of one start script."""
    groups: dict[object, list[ServingPlan]] = {}
    for plan in plans:
        groups.setdefault(_says(plan), []).append(plan)
    kept = [plan for group in groups.values() for plan in _at_once(group)]
    if len(kept) > 1:
        kept = [replace(plan, placement=replace(plan.placement, shared=True)) for plan in kept]
    return tuple(kept)


def _says(plan: ServingPlan) -> object:
    layout = [getattr(plan.layout, name) for name in LayoutFacts.__dataclass_fields__]
    facts = tuple((fact.values, fact.is_unset) for fact in (plan.model, *layout))
    return plan.engine, facts


def _at_once(group: Sequence[ServingPlan]) -> Sequence[ServingPlan]:
    """Plans that say the same: all of them where they run beside each other, else one."""
    sure = not any(plan.placement.branch for plan in group)
    if sure and all(plan.placement.detached for plan in group[:-1]):
        return group
    return (_of_branches(group),)


def _of_branches(group: Sequence[ServingPlan]) -> ServingPlan:
    """The first of several plans that say the same; its sites edit all of them."""
    first = group[0]
    if len(group) == 1:
        return first
    joint = {name: JointSite(tuple(plan.sites[name] for plan in group)) for name in EDITABLE
             if all(name in plan.sites for plan in group)}  # fmt: skip
    return replace(
        first,
        sites=MappingProxyType({**first.sites, **joint}),
        placement=replace(first.placement, env=_common(group), varied=_vary(group)),
    )


def _vary(group: Sequence[ServingPlan]) -> bool:
    """Some of the branches give options that others do not."""
    return len({frozenset(flag.flag for flag in plan.flags) for plan in group}) > 1


def _common(group: Sequence[ServingPlan]) -> Mapping[str, Known[str]]:
    """The variables of several branches; one that differs between them is not known."""
    envs = [plan.placement.env for plan in group]
    names = dict.fromkeys(name for env in envs for name in env)
    unset: Known[str] = Known.unset()
    values = {name: {env.get(name, unset).values for env in envs} for name in names}
    differs: Known[str] = Known.unknown("it differs between branches of the script")
    return MappingProxyType(
        {name: envs[0].get(name, differs) if len(values[name]) == 1 else differs for name in names}
    )


# ------------------------------------------------------------------------- the plans of a file


def finished(plans: Iterable[ServingPlan]) -> tuple[ServingPlan, ...]:
    """The plans of one file: with ids of their own, and sites that change nothing beside."""
    found = tuple(numbered(plans))
    uses = Uses(use for at, plan in enumerate(found) for use in _uses(at, plan))
    return tuple(_guarded(at, plan, uses) for at, plan in enumerate(found))


def numbered(plans: Iterable[ServingPlan]) -> Iterator[ServingPlan]:
    """Plans that have ids of their own, where several have the same."""
    count: dict[str, int] = {}
    for plan in plans:
        count[plan.id] = count.get(plan.id, 0) + 1
        again = count[plan.id] > 1
        yield replace(plan, id=f"{plan.id}#{count[plan.id]}") if again else plan


def _uses(at: int, plan: ServingPlan) -> Iterator[Use]:
    for word in plan.argv:
        yield from uses_of(at, word)
    for name, path in BESIDE.items():
        fact = plan.fact(path)
        for origin in (fact.origin, *fact.related) if fact.is_known else ():
            if origin is not None:
                yield Use(at, name, origin)


def _guarded(at: int, plan: ServingPlan, uses: Uses) -> ServingPlan:
    sites = dict(plan.sites)
    options = [name for name in sites if name.startswith(("flag:", "option:"))]
    for name in (*EDITABLE, "gpus_per_pod", "shm_bytes", "option", *options):
        if (site := sites.get(name)) is not None and not isinstance(site, (NameSite, EntryOfSite)):
            sites[name] = GuardedSite(site, at, _own(name, site, plan.argv), _beside(site), uses)
    return replace(plan, sites=MappingProxyType(sites))


def _beside(site: Site) -> tuple[Text, ...]:
    """The words behind which a site would write another option."""
    if isinstance(site, JointSite):
        return tuple(word for each in site.sites for word in _beside(each))
    if isinstance(site, FlagSite) and site.flag is None and site.slot is not None:
        return (site.slot.after,)
    if isinstance(site, NewOptionSite):
        return (site.slot.after,)
    return site.beside if isinstance(site, OptionKeySite) else ()


def _own(name: str, site: Site, argv: Sequence[Text]) -> tuple[Text | str, ...]:
    """What a site may change: the words of its option, or its setting."""
    if isinstance(site, JointSite):
        return _own(name, site.sites[0], argv)
    if isinstance(site, KeySite):
        value = site.value
        words = [word for word in argv if value is not None and word.origin == value.origin]
        return (name, *words)
    if isinstance(site, FlagSite) and site.flag is not None:
        return tuple(word for word in (site.flag.written, site.flag.value) if word is not None)
    if isinstance(site, (OptionSite, OptionKeySite)):
        return site.words
    if isinstance(site, SpellingSite):
        return (site.flag.written,)
    return (name,)
