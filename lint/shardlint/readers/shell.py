"""Shell scripts: engines started directly, in containers, or by scripts in scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Protocol

from shardlint.known import Known, Text
from shardlint.plan import Launch, Placement, ServingPlan
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.docker import Container, container
from shardlint.readers.named_files import bound, on_host, written
from shardlint.readers.plans import (
    Host,
    Process,
    absorbed,
    around,
    during,
    finished,
    plan_of,
    process_of,
    processes,
)
from shardlint.source import Mapped, Origin, Source, Span

NAMES = (".sh", ".bash", ".zsh", ".ksh")
SHEBANG = re.compile(r"#!.*\b(ba|da|z|k|a)?sh\b")
COMMAND = re.compile(
    r"^[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+)*(?:exec |nohup |sudo |uv run )*(?:\S*/)?"
    r"(?:vllm serve|python[\d.]* -m |(?:docker|podman|nerdctl) run|trtllm-(?:serve|build)|"
    r"sglang serve|lmdeploy serve|text-generation-launcher|llama-server|ollama serve)",
    re.MULTILINE,
)
OTHER_TEXTS = (".py", ".md", ".rst", ".yaml", ".yml", ".json", ".toml", ".ipynb", ".html")


class ShellReader:
    """Commands with `vllm serve`, `docker run` and the like."""

    name = "shell"
    kinds = ("command", "docker run")
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        name = source.name.lower()
        if UNIT.search(source.text):
            return False  # read by the reader of systemd units
        if name.endswith(NAMES) or SHEBANG.match(source.text):
            return True
        return not name.endswith(OTHER_TEXTS) and bool(COMMAND.search(source.text))

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        if SBATCH.search(source.text):
            return ReadResult()  # read by the reader of Slurm scripts
        plans = finished(script_plans(source, context, on_machine(source)))
        return ReadResult(plans=plans, absorbs=absorbed(plans))


UNIT = re.compile(r"^\[Service\][ \t]*\r?$", re.MULTILINE)
SBATCH = re.compile(r"^#SBATCH\b", re.MULTILINE)


def on_machine(source: Source) -> Placement:
    """A process that is started on a machine has what the machine has."""
    return Placement(
        on_host=True,
        scope=source.name,
        host_ipc=Known.of(True, how="derived"),
        host_network=Known.of(True, how="derived"),
        rdma=Known.of("the host's own", how="derived"),
    )


class Job(Protocol):
    """What a batch system decides for the processes of a script."""

    @property
    def variables(self) -> Mapping[str, Text]:
        """What is in the environment of the script."""
        ...

    def placed(self, host: Host, process: Process, started: Sequence[Process]) -> Host:
        """The host of one of the processes that the script starts."""
        ...

    def image(self, process: Process) -> Known[str]:
        """The container image that the batch system runs it in."""
        ...


def script_plans(
    source: Source, context: ReadContext, placement: Placement, job: Job | None = None
) -> Iterator[ServingPlan]:
    """The engines that a script starts."""
    from shardlint.readers.bash import read_script

    script = Mapped.slice_of(source.text, Span(0, len(source.text)))
    variables = job.variables if job is not None else {}
    commands = read_script(script, source.name, variables)
    started = [process_of(command, of_script=False) for command in commands]
    whole = _host(source, _whole(source), 0, placement)
    around_all = around(whole, started)
    find = written([(script, source, None)], on_host(source, context.files))
    for index, (process, during_it) in enumerate(during(around_all, started)):
        host = _host(source, process.origin, index, during_it.placement)
        host = replace(host, reinstalled=during_it.reinstalled, find=find)
        image: Known[str] = Known.unset()
        if job is not None:
            host, image = job.placed(host, process, started), job.image(process)
        yield from engines_of(process, host, image, context)


def _whole(source: Source) -> Origin:
    return Origin(source.name, Span(0, len(source.text)))


def engines_of(
    process: Process, host: Host, image: Known[str], context: ReadContext
) -> Iterator[ServingPlan]:
    """Plans of one command: of the container that it runs, or of the command itself."""
    if (inside := container(process.argv, host.source, process.env)) is not None:
        yield from _contained(inside, process, host, context)
        return
    launch = Launch(
        origin=process.origin, argv=process.argv, image=image,
        env=MappingProxyType(dict(process.env)),
    )  # fmt: skip
    plan = plan_of(launch, host, context)
    if plan is not None:
        yield plan


def _contained(
    inside: Container, process: Process, host: Host, context: ReadContext
) -> Iterator[ServingPlan]:
    find = bound(inside.mounts, host.find)
    started = processes(inside.argv, inside.env, process.origin, find)
    outside, own = host.placement, inside.placement
    placement = replace(
        own,
        pods_per_group=outside.pods_per_group,
        scope=outside.scope,
        certain=outside.certain,
        detached=outside.detached or own.detached,
    )
    host = around(replace(host, placement=placement, sites=inside.sites, find=find), started)
    for inner, during_it in during(host, started):
        launch = Launch(
            origin=process.origin,
            argv=inner.argv,
            image=inside.image.known(),
            env=MappingProxyType(dict(inner.env)),
            argv_complete=inside.entrypoint is not None or inner.of_script,
        )
        plan = plan_of(launch, during_it, context)
        if plan is not None:
            yield plan


def _host(source: Source, origin: Origin, index: int, placement: Placement) -> Host:
    first = Origin(source.name, Span(origin.span.start, origin.span.start))
    return Host(
        source=source,
        kind="shell",
        name=PurePosixPath(source.name.replace("\\", "/")).name,
        path=f"0:/commands/{index}",
        origin=replace(first, span=_first_line(source, origin.span)),
        placement=placement,
    )


def _first_line(source: Source, span: Span) -> Span:
    end = source.text.find("\n", span.start, span.end)
    end = span.end if end < 0 else end
    return Span(span.start, max(span.start, min(end, span.end)))
