"""systemd units: the engine that `ExecStart=` starts, itself or in a container.

Facts: manifests §11; systemd.service(5), systemd.exec(5) and systemd.syntax(7) for the forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from shardlint.known import Known, Text
from shardlint.plan import ServingPlan
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.holes import concat
from shardlint.readers.named_files import on_host
from shardlint.readers.plans import Host, absorbed, around, during, finished, processes
from shardlint.readers.shell import UNIT, engines_of, on_machine
from shardlint.record import record
from shardlint.source import Mapped, Origin, Source, Span

_LINE = re.compile(
    r"^([A-Za-z]+)[ \t]*=[ \t]*((?:[^\n]*\\\r?\n(?:[ \t]*[#;][^\n]*\n)*)*[^\n]*)", re.MULTILINE
)
_COMMENT = re.compile(r"(?<=\n)[ \t]*[#;][^\n]*\n")
"""A line between two that are one line."""
_SECTION = re.compile(r"^\[([^\]\n]+)\]", re.MULTILINE)
_SPECIAL = re.compile(r"[-@:+!|]+")
_FILLED_IN = re.compile(r"%[a-zA-Z]|\$\{?[A-Za-z_]\w*\}?")


class SystemdReader:
    """`[Service]` with `ExecStart=`."""

    name = "systemd"
    kinds = ("unit",)
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return UNIT.search(source.text) is not None and "ExecStart" in source.text

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        plans = finished(_plans(source, context))
        return ReadResult(plans=plans, absorbs=absorbed(plans))


@record
class Setting:
    """One `Name=value` of the section, continued lines included."""

    name: str
    value: Mapped
    span: Span


def settings(source: Source) -> Iterator[Setting]:
    """The settings of `[Service]`, in order."""
    starts = list(_SECTION.finditer(source.text))
    for at, section in enumerate(starts):
        if section.group(1) != "Service":
            continue
        end = starts[at + 1].start() if at + 1 < len(starts) else len(source.text)
        for line in _LINE.finditer(source.text, section.end(), end):
            span = Span(*line.span(2))
            yield Setting(line.group(1), _without_comments(source.text, span), span)


def _without_comments(text: str, span: Span) -> Mapped:
    parts, at = list[Mapped](), span.start
    for comment in _COMMENT.finditer(text, span.start, span.end):
        parts.append(Mapped.slice_of(text, Span(at, comment.start())))
        at = comment.end()
    return concat([*parts, Mapped.slice_of(text, Span(at, span.end))])


def _plans(source: Source, context: ReadContext) -> Iterator[ServingPlan]:
    found = list(settings(source))
    env = dict(_environment(found, source))
    files = [one for one in found if one.name == "EnvironmentFile"]
    find = on_host(source, context.files)
    for index, one in enumerate(item for item in found if item.name == "ExecStart"):
        words = _words(one, source, env)
        started = processes(words, env, Origin(source.name, one.span))
        placement = replace(
            on_machine(source), detached=True,
            env_open=f"{files[0].value.text} adds more" if files else None,
        )  # fmt: skip
        host = Host(
            source=source,
            kind="systemd",
            name=PurePosixPath(source.name.replace("\\", "/")).name,
            path=f"0:/Service/ExecStart/{index}",
            origin=Origin(source.name, _first_line(source, one.span)),
            anchors=(one.span,),
            placement=placement,
            find=find,
        )
        for process, during_it in during(around(host, started), started):
            yield from engines_of(process, during_it, Known.unset(), context)


def _first_line(source: Source, span: Span) -> Span:
    end = source.text.find("\n", span.start, span.end)
    return Span(span.start, span.end if end < 0 else end)


def _environment(found: list[Setting], source: Source) -> Iterator[tuple[str, Text]]:
    """`Environment="A=b" C=d`; a value with a specifier is filled in when the unit starts."""
    from shardlint.readers.bash import split_words

    for one in found:
        if one.name != "Environment":
            continue
        for word in split_words(one.value, source.name):
            name, equals, _ = (word.value or "").partition("=")
            if equals and name:
                yield name, _sure(word.part(len(name) + 1))


def _words(one: Setting, source: Source, env: Mapping[str, Text]) -> tuple[Text, ...]:
    """The words of a command, split by systemd, which knows quotes and `$NAME` but no operators."""
    from shardlint.readers.bash import split_words

    special = _SPECIAL.match(one.value.text)
    value = one.value.cut(special.end()) if special else one.value
    words = split_words(value, source.name)
    script = any(re.fullmatch(r"-\w*c", word.value or "") for word in words[:6])
    return tuple(_expanded(word, env, script) for word in words)


def _expanded(word: Text, env: Mapping[str, Text], script: bool) -> Text:
    """A variable of the unit alone in a word is its value; in scripts the shell does the rest."""
    alone = re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", word.value or "")
    if alone and (value := env.get(alone.group(1))) is not None and value.mapped is not None:
        return value if " " not in (value.value or "") else Text.unknown(word.origin, "split words")
    return word if script else _sure(word)


def _sure(word: Text) -> Text:
    found = _FILLED_IN.search(word.value or "")
    if found is None:
        return word
    return Text.unknown(word.origin, f"{found.group()} is filled in when the unit starts")
