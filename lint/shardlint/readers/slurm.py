"""Slurm batch scripts: shell scripts whose `#SBATCH` lines say which nodes and GPUs they get."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from posixpath import basename
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import RAY_JOINS, RAY_UNASKED, Device, Placement, ServingPlan, Site
from shardlint.platforms import slurm
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import RefusedSite
from shardlint.readers.plans import Host, Process, absorbed, finished
from shardlint.readers.shell import SBATCH, on_machine, script_plans
from shardlint.readers.yaml_tree import placeholder
from shardlint.record import record
from shardlint.source import Mapped, Origin, Source, Span

NODES = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")
PER_NODE = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
TASKS = ("SLURM_NTASKS", "SLURM_NPROCS")


class SlurmReader:
    """Shell scripts with `#SBATCH` lines."""

    name = "slurm"
    kinds = ("batch script",)
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return SBATCH.search(source.text) is not None and not source.name.endswith(".md")

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        job = SlurmJob(Asked(tuple(directives(source))), context)
        placement = job.placement(on_machine(source))
        found = script_plans(source, context, placement, job)
        plans = finished(_grouped(plan) for plan in found)
        return ReadResult(plans=plans, absorbs=absorbed(plans))


def _grouped(plan: ServingPlan) -> ServingPlan:
    """With --nnodes, or a Ray cluster of the job, its nodes are those of one engine."""
    asked, group = plan.layout.nnodes, plan.placement.pods_per_group
    if (asked.only or 1) > 1:
        return replace(plan, placement=replace(plan.placement, pods_per_group=asked))
    if RAY_JOINS in group.assumes and plan.layout.executor.is_unset:
        ray: Known[Any] = Known.of("ray", how="derived", assumes=(RAY_UNASKED,))
        return replace(plan, effective=replace(plan.effective, executor=ray))
    return plan


# --------------------------------------------------------------------------------- directives

_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")
_BEFORE = re.compile(r"[ \t]*(?:#.*)?\r?")


def directives(source: Source) -> Iterator[Text]:
    """The words of the `#SBATCH` lines; those behind the first command are not looked at."""
    for line in range(1, source.line_count + 1):
        span = source.line_span(line)
        text = source.text[span.start : span.end]
        if not _BEFORE.fullmatch(text):
            return
        if text.startswith("#SBATCH"):
            yield from _words(source, span.start + len("#SBATCH"), span.end)


def _words(source: Source, start: int, end: int) -> Iterator[Text]:
    """The words of one line up to a comment."""
    for found in _WORD.finditer(source.text, start, end):
        if found.group().startswith("#"):
            return
        span = Span(*found.span())
        mapped = Mapped.slice_of(source.text, span)
        if quotes := re.fullmatch(r"""(.*?)(["'])(.*)\2""", found.group()):
            kept = mapped.cut(0, len(quotes[1])), mapped.cut(quotes.start(3), quotes.end(3))
            mapped = kept[0] + kept[1]
        yield Text(mapped, Origin(source.name, span))


@record
class Asked:
    """Options of `sbatch` or `srun`: the last of each counts."""

    words: tuple[Text, ...]

    @cached_property
    def options(self) -> Mapping[str, Text]:
        return dict(_options(self.words))

    @cached_property
    def parted(self) -> bool:
        """A job of several parts, each with options of its own."""
        return any((word.value or "") in ("hetjob", "packjob", ":") for word in self.words)

    def number(self, name: str) -> Known[int]:
        """The whole number that an option gives."""
        return _counted(self.options.get(name), slurm.count)

    def per_node(self) -> tuple[Known[int], Known[str]]:
        """The GPUs of each node, and the name of their type."""
        for name, read in (("gpus-per-node", slurm.gpus), ("gres", slurm.gres)):
            found = self.options.get(name)
            if found is None or (name == "gres" and "gpu" not in (found.value or "gpu")):
                continue
            return _counted(found, lambda value, read=read: _of(read(value))), _type(found, read)
        return self._spread()

    def _spread(self) -> tuple[Known[int], Known[str]]:
        """GPUs that are asked for by task, or for the whole job."""
        task, whole = self.options.get("gpus-per-task"), self.options.get("gpus")
        if task is not None:
            each = _counted(task, lambda value: _of(slurm.gpus(value)))
            tasks = self.number("ntasks-per-node")
            if tasks.only is None or each.only is None:
                why = "how many tasks a node gets is not stated"
                return Known.unknown(each.reason or why, task.place), _type(task, slurm.gpus)
            total, count = tasks.only, each.only
            made = Known.of(total * count, task.place, how="derived")
            return made, _type(task, slurm.gpus)
        if whole is None:
            return Known.unset(), Known.unset()
        count_of_all = _counted(whole, lambda value: _of(slurm.gpus(value)))
        if self.number("nodes").only == 1 or count_of_all.only is None:
            return count_of_all, _type(whole, slurm.gpus)
        why = "the GPUs of the job are spread freely over its nodes"
        return Known.unknown(why, whole.place), _type(whole, slurm.gpus)


def _of(found: slurm.Gpus | None) -> int | None:
    return found.number if found is not None else None


def _counted(text: Text | None, read: Any) -> Known[int]:
    if text is None:
        return Known.unset()
    value = text.value
    number = read(value) if value is not None else None
    if number is None:
        reason = placeholder(value or "") or f"{value!r} is no number"
        return Known.unknown(text.reason or reason, text.place, text.related)
    return replace(text.known().map(lambda _: int(number)), origin=text.place)


def _type(text: Text, read: Any) -> Known[str]:
    """The name of the card in `gpu:h100:4`, at its own place."""
    found = read(text.value) if text.value is not None else None
    if found is None or found.type is None or text.mapped is None:
        return Known.unset()
    at = text.mapped.text.find(found.type)
    return text.part(at, at + len(found.type)).known()


def _options(words: Sequence[Text]) -> Iterator[tuple[str, Text]]:
    at = 0
    while at < len(words):
        word, value = words[at], words[at].value
        following = words[at + 1] if at + 1 < len(words) else None
        at += 1
        if value is None or len(value) < 2 or value[0] != "-":
            continue
        name, equals, _ = value.partition("=")
        if not value.startswith("--"):
            letter = value[1]
            if letter in slurm.SHORT_SWITCHES:
                continue
            own = word.part(2 + value.startswith("=", 2)) if len(value) > 2 else following
            at += len(value) == 2
            if own is not None:
                yield slurm.LONG.get(letter, letter), own
        elif equals:
            yield name[2:], word.part(len(name) + 1)
        elif following is not None and name[2:] not in slurm.SWITCHES:
            at += 1
            yield name[2:], following


# ----------------------------------------------------------------------------------- the job


@record
class SlurmJob:
    """What the job of a script gets, and what `srun` changes for one of its steps."""

    asked: Asked
    context: ReadContext

    @cached_property
    def nodes(self) -> Known[int]:
        if self.asked.parted:
            return Known.unknown("the job has several parts")
        return self.asked.number("nodes")

    @cached_property
    def gpus(self) -> Known[Any]:
        if self.asked.parted:
            return Known.unknown("the job has several parts")
        return self.asked.per_node()[0]

    def placement(self, placement: Placement) -> Placement:
        """What every process of the script finds."""
        label, device = self._card()
        return replace(
            placement,
            gpus_per_pod=self.gpus,
            gpu_label=label,
            gpu=device,
            nodes=self.nodes,
            env_open="the environment of the job is not in this file",
        )

    def _card(self) -> tuple[Known[str], Known[Device]]:
        """The type that is asked for; else a feature or partition that is named like a card."""
        stated = self.asked.per_node()[1]
        if stated.only is not None:
            return stated, self.context.device(stated.only)
        for name in ("constraint", "partition"):
            text = self.asked.options.get(name)
            for word in slurm.features(text.value or "") if text is not None else ():
                device = self.context.device(word)
                if device.is_known and text is not None:
                    at = (text.value or "").find(word)
                    return text.part(at, at + len(word)).known(), device
        return Known.unset(), Known.unset()

    # variables -----------------------------------------------------------------------------

    @cached_property
    def variables(self) -> Mapping[str, Text]:
        """Variables of the job; those that cannot be told are there with the reason."""
        tasks = self.asked.number("ntasks")
        each = self.asked.number("ntasks-per-node")
        if tasks.is_unset and self.nodes.only is not None and each.only is not None:
            tasks = Known.of(self.nodes.only * each.only, each.origin)
        facts: dict[str, Known[int]] = dict.fromkeys(NODES, self.nodes)
        facts |= dict.fromkeys(PER_NODE, self.gpus) | dict.fromkeys(TASKS, tasks)
        facts["SLURM_NTASKS_PER_NODE"] = each
        facts["SLURM_CPUS_PER_TASK"] = self.asked.number("cpus-per-task")
        return {name: variable(name, fact, self._start) for name, fact in facts.items()}

    @cached_property
    def _start(self) -> Origin:
        first = self.asked.words[0].origin if self.asked.words else Origin("", Span(0, 0))
        return Origin(first.file, Span(first.span.start, first.span.start))

    # steps ---------------------------------------------------------------------------------

    def placed(self, host: Host, process: Process, started: Sequence[Process]) -> Host:
        """What one process of the script gets: on one node, on all that Ray joins, in a step."""
        placement = host.placement
        joins = not placement.pods_per_group.is_unset
        if joins and self.nodes.only is not None:
            placement = replace(placement, pods_per_group=self.nodes.assuming(RAY_JOINS))
        step = step_of(process)
        if step is not None:
            placement = self._step(placement, step)
        sites: dict[str, Site] = dict(host.sites)
        if placement.gpus_per_pod.is_known:
            sites["gpus_per_pod"] = RefusedSite("other options of the job depend on it")
        return replace(host, placement=placement, sites=sites)

    def _step(self, placement: Placement, step: Asked) -> Placement:
        """A step may ask for less than the job has, and runs beside others."""
        gpus: Known[Any] = step.per_node()[0]
        nodes = step.number("nodes")
        if not gpus.is_unset:
            placement = replace(placement, gpus_per_pod=gpus)
        if not nodes.is_unset:
            placement = replace(placement, nodes=nodes)
        return replace(placement, certain=False)

    def image(self, process: Process) -> Known[str]:
        step = step_of(process)
        found = step.options.get("container-image") if step is not None else None
        text = found or self.asked.options.get("container-image")
        if text is None:
            return Known.unset()
        name = slurm.image(text.value) if text.value is not None else None
        if name is None or placeholder(name):
            reason = text.reason or placeholder(text.value or "") or "it is a file"
            return Known.unknown(reason, text.place)
        return text.known().map(lambda _: name)


def variable(name: str, fact: Known[int], start: Origin, who: str = "Slurm") -> Text:
    """What a batch system sets a variable to, because of what stands at a place."""
    origin = fact.origin or start
    if fact.only is None:
        why = fact.reason if not fact.is_unset else None
        return Text.unknown(origin, why or f"{who} sets {name} by what is not in this file")
    span = Span(max(0, origin.span.start - 1), origin.span.end)  # not the value, to be edited
    return Text(Mapped.all_at(str(fact.only), span), Origin(origin.file, span))


def step_of(process: Process) -> Asked | None:
    """The options of the `srun` that starts a process."""
    words = [basename(word.value or "") for word in process.argv[:6]]
    if "srun" not in words:
        return None
    at = words.index("srun") + 1
    return Asked(_until_command(process.argv[at:]))


def _until_command(words: Sequence[Text]) -> tuple[Text, ...]:
    """The words of `srun` itself: options, and the values of those that have one."""
    at = 0
    while at < len(words):
        value = words[at].value
        if value is not None and not value.startswith("-"):
            break
        bare = value is not None and (
            "=" in value
            or (value[2:] in slurm.SWITCHES if value.startswith("--") else
                len(value) > 2 or value[1:2] in slurm.SHORT_SWITCHES)
        )  # fmt: skip
        at += 1 if bare or value is None else 2
    return tuple(words[:at])
