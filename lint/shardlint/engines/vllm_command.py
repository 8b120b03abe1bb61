"""One vLLM command line through the releases that it can be meant for.

Releases that read every word alike are read once. What each of them refuses is put together:
vllm, utils/argparse_utils.py (utils.py before 0.11.2), entrypoints/cli/serve.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from shardlint.engines.argument_values import refusal
from shardlint.engines.flags import (
    END,
    HOLE,
    FlagTable,
    FlagView,
    Option,
    ParsedWords,
    Traits,
    conversion,
)
from shardlint.known import Known, Text
from shardlint.plan import Flag, Refused, Releases, version
from shardlint.record import record

LEAST = {
    "--tensor-parallel-size": 1,
    "--pipeline-parallel-size": 1,
    "--prefill-context-parallel-size": 1,
    "--decode-context-parallel-size": 1,
    "--data-parallel-size": 1,
    "--data-parallel-size-local": 0,
    "--nnodes": 1,
}
"""config/parallel.py: the least value of an option; smaller ones pass the parser and die later."""
LEAST_SINCE = "0.23.0"

LATE = "no option is read behind `--`"
TWICE = "`--model` takes the place of the model behind `serve`: name one"

TRUTHS = {"true": True, "1": True, "false": False, "0": False}

NAME = re.compile(r"--served[-_]model[-_]name(=.+|$)")


@record(kw_only=True)
class Command:
    """The words of a command line behind the launcher.

    `serve`: it is `vllm serve`; False: the module that `serve` wraps; None: the image decides.
    `before` stand between `vllm` and `serve`. `wrapped`: another program takes options of its own
    out before vLLM reads the rest. `own`: no other image may add options; `plugins`:
    a variable names some that may; `floating`: an image without a release in its tag is newer some
    day than every release in the table.
    """

    words: tuple[Text, ...]
    serve: bool | None = None
    before: tuple[Text, ...] = ()
    wrapped: bool = False
    own: bool = True
    floating: bool = False
    plugins: bool = False

    @property
    def first(self) -> str | None:
        return self.words[0].value if self.words else None


@record
class Version:
    """What some releases, oldest first, make of a command line."""

    views: tuple[FlagView, ...]
    parsed: ParsedWords
    refused: tuple[Refused, ...]

    @property
    def view(self) -> FlagView:
        return self.views[-1]

    @cached_property
    def says(self) -> object:
        """Equal for readings that give every fact alike."""
        rows = []
        for flag in self.parsed.flags:
            option = self.view.named(flag.flag) if flag.flag else None
            values = tuple(id(text) for text in (flag.value, *flag.more))
            kind = conversion(option, flag)
            rows.append((flag.flag, flag.negated, flag.dotted, flag.problem, values, kind))
        positionals = tuple(id(word) for word in self.parsed.positionals)
        return tuple(rows), positionals, self.view.grammar.model_option


def versions_of(table: FlagTable, command: Command, releases: Known[Releases]) -> list[Version]:
    """The readings of a command line, by the newest release of each; at least one."""
    views = table.views(releases) or (table,)
    small = any(re.search(r"(^|=)(-\d+|0+)$", word.value or "") for word in command.words)
    traits = Traits.of(command.words)
    groups: dict[object, list[FlagView]] = {}
    for view in views:
        key = (view.signature(command.words, traits), _has_least(view) and small)
        groups.setdefault(key, []).append(view)
    found = []
    for group in sorted(groups.values(), key=lambda group: views.index(group[-1])):
        parsed = group[-1].parse(command.words)
        found.append(Version(tuple(group), parsed, tuple(_refused(group[-1], parsed, command))))
    return found


def chosen(found: Sequence[Version], releases: Known[Releases]) -> list[Version]:
    """Those that start; all of them, if none does.

    Where no release is stated, the newest is among them: nobody can tell that an old one is meant.
    """
    unstated = releases.how == "defaulted"
    last = [] if not unstated else found[-1:]
    kept = [one for one in found if not one.refused or one in last]
    return kept if any(not one.refused for one in found) else list(found)


# ------------------------------------------------------------------------- what one refuses


def _has_least(view: FlagView) -> bool:
    ours, theirs = version(view.release), version(LEAST_SINCE)
    return ours is not None and theirs is not None and ours >= theirs


def _refused(view: FlagView, parsed: ParsedWords, command: Command) -> Iterator[Refused]:
    for index, flag in enumerate(parsed.flags):
        if HOLE.search((flag.written.value or "").partition("=")[0]):
            continue
        if flag.flag is None:
            yield _unknown(flag, index)
        elif flag.problem is not None:
            yield replace(_given(flag, flag.written, _problem(flag), index), **_switched(flag))
        else:
            yield from _values(view, flag, index)
    yield from _words(view, parsed, command)
    yield from _model(view, parsed, command)
    yield from _file(parsed)
    for word in command.before:
        if not (word.value or "").startswith("-"):
            continue
        yield Refused(
            kind="misplaced", written=word, at=word.place, problem="invalid choice",
            remedy="options stand behind `serve`",
        )  # fmt: skip


def _unknown(flag: Flag, index: int) -> Refused:
    written = flag.written
    return Refused(
        kind="unknown", written=written, at=written.place, problem=flag.problem or "",
        flag=index, candidates=flag.candidates, certain=not written.assumes,
    )  # fmt: skip


def _given(flag: Flag, word: Text, problem: str, index: int, remedy: str | None = None) -> Refused:
    return Refused(
        kind="value", written=flag.written, at=word.place, problem=problem, flag=index,
        remedy=remedy, certain=not (flag.written.assumes or word.assumes), known=True,
    )  # fmt: skip


def _problem(flag: Flag) -> str:
    if flag.problem == "ignored explicit argument" and flag.value is not None:
        return f"{flag.problem} {flag.value.value!r}"
    return flag.problem or ""


def _switched(flag: Flag) -> dict[str, Any]:
    """What was meant by `--enable-x=true`."""
    if flag.problem != "ignored explicit argument" or flag.value is None:
        return {}
    name = (flag.written.value or "").partition("=")[0]
    on = TRUTHS.get((flag.value.value or "").lower())
    if on is None or not name.startswith("--"):
        return {"remedy": f"`{name}` without a value"}
    if not on:
        name = flag.flag or name if flag.negated else f"--no-{name.removeprefix('--')}"
    return {"remedy": f"`{name}`", "replaced_by": name}


def _values(view: FlagView, flag: Flag, index: int) -> Iterator[Refused]:
    """Words that are not of the option's type, or less than the engine takes."""
    assert flag.flag is not None
    option = view.named(flag.flag)
    if option is None or flag.negated:
        return
    texts = [text for text in (flag.value, *flag.more) if text is not None]
    for text in texts:
        if text.value is None or HOLE.search(text.value):
            continue
        word = "{}" if flag.dotted else text.value
        problem = refusal(option, word, view.grammar)
        if problem is None and flag.flag in LEAST and _has_least(view):
            problem = _too_small(LEAST[flag.flag], text.value, option.nullable)
        if problem is not None:
            yield _given(flag, text, problem, index)


def _too_small(least: int, word: str, nullable: bool) -> str | None:
    if nullable and word in ("", "None"):
        return None
    return None if int(word) >= least else f"Input should be greater than or equal to {least}"


def _words(view: FlagView, parsed: ParsedWords, command: Command) -> Iterator[Refused]:
    """Words that are neither an option nor a value: all but the model."""
    words = parsed.positionals
    if (
        command.wrapped
        or parsed.open_ended
        or any(word.value is None or HOLE.search(word.value) for word in words)
    ):
        return
    moved = _moved(view, parsed, command)
    most = 1 if command.serve is not False or view.grammar.module_model else 0
    if moved:
        most = 0
    at = _end(command)
    for word in words[most:]:
        late = at is not None and word.origin.span.start > at
        option = (word.value or "").startswith("-") and late
        yield Refused(
            kind="misplaced" if option else "unknown", written=word, at=word.place,
            problem="unrecognized arguments", certain=not word.assumes, known=True,
            remedy=LATE if option else two_words(view, word) or (TWICE if moved else None),
        )  # fmt: skip


def two_words(view: FlagView, word: Text) -> str | None:
    """What to do with an option and its value that are one word with a blank in it."""
    name, blank, value = (word.value or "").partition(" ")
    if not blank or not isinstance(view.resolve(name), tuple) or not name.startswith("-"):
        return None
    return f"write `{name}` and `{value.strip()}` as two words"


def _end(command: Command) -> int | None:
    ends = [word.origin.span.start for word in command.words if word.value == END]
    return ends[0] if ends else None


def _model_word(flag: Flag) -> bool:
    """The word that `serve` looks for: `--model`, or `--model=` with a name."""
    return bool(re.match(r"--model(=.+|$)", flag.written.value or ""))


def _moved(view: FlagView, parsed: ParsedWords, command: Command) -> bool:
    """`serve` puts the name that `--model` has in the place of the positional one."""
    found = any(flag.flag == "--model" and _model_word(flag) for flag in parsed.flags)
    return bool(command.serve and view.grammar.model_option and found)


def _model(view: FlagView, parsed: ParsedWords, command: Command) -> Iterator[Refused]:
    """What `serve` asks of the model before the words are parsed."""
    if not command.serve:
        return
    grammar = view.grammar
    for index, flag in enumerate(parsed.flags):
        asked = flag.flag == "--model" and flag.written.value == "--model"
        if asked and not grammar.model_option and not grammar.model_required:
            text = "you should provide the model as a positional argument"
            yield _given(flag, flag.written, text, index, "`vllm serve MODEL`")
        elif asked and grammar.model_required and not parsed.positionals:
            if parsed.open_ended is None:
                text = "the following arguments are required: model_tag"
                yield _given(flag, flag.written, text, index, "`vllm serve MODEL`")
        elif flag.flag == "--served-model-name" and grammar.name_behind_model:
            first = command.first
            behind = first is not None and not first.startswith("-")
            named = NAME.match(flag.written.value or "")
            if named and first is not None and not behind and not _excused(view, parsed, command):
                text = "`model` should be provided as the first positional argument"
                yield _given(flag, flag.written, text, index, "the model directly after `serve`")


def _excused(view: FlagView, parsed: ParsedWords, command: Command) -> bool:
    config = any(re.match(r"--config(=.+|$)", word.value or "") for word in command.words)
    return config or _moved(view, parsed, command)


def _file(parsed: ParsedWords) -> Iterator[Refused]:
    """`--config` as a word of its own: one file, of YAML."""
    found = [(index, flag) for index, flag in enumerate(parsed.flags)
             if flag.flag == "--config" and flag.written.value == "--config"]  # fmt: skip
    for index, flag in found[1:]:
        yield _given(flag, flag.written, "More than one config file specified!", index)
    for index, flag in found[:1]:
        name = flag.value.value if flag.value is not None else None
        if flag.value is None or name is None:
            continue
        if name.split(".")[-1] not in ("yaml", "yml"):
            yield _given(flag, flag.value, "Config file must be of a yaml/yml type", index)


# ------------------------------------------------------------------- what all of them refuse


def refused(
    table: FlagTable, found: Sequence[Version], command: Command, releases: Known[Releases]
) -> tuple[Refused, ...]:
    """What the possible releases refuse, each word once.

    Where no release is stated, an option that the newest one takes is no finding: whoever uses it
    has a release that has it.
    """
    views = sorted((view for one in found for view in one.views), key=lambda view: view.index)
    flags = chosen(found, releases)[-1].parsed.flags
    rows: dict[object, tuple[Refused, set[int]]] = {}
    for one in found:
        for item in one.refused:
            key = (item.kind, item.at)
            _, seen = rows.get(key, (item, set[int]()))
            rows[key] = (item, seen | {view.index for view in one.views})
    unstated = releases.how == "defaulted"
    if not table.views(releases):  # of a release that is not in the table nothing is certain
        command = replace(command, own=False)
    before = table.precedes(releases)
    kept = []
    for item, seen in rows.values():
        if unstated and views[-1].index not in seen:
            continue
        if before and item.kind == "unknown" and table.history(option_name(item.written)):
            continue
        judged = _judged(table, item, command, releases)
        if judged is not None:
            when = _when(views, seen, table.unopened(releases))
            kept.append(replace(judged, when=when, flag=_index(item, flags)))
    return tuple(sorted(kept, key=lambda item: item.at.span))


def _index(item: Refused, flags: Sequence[Flag]) -> int | None:
    """Where the option stands in the reading that the plan has."""
    return next((at for at, flag in enumerate(flags) if flag.written is item.written), None)


def _judged(
    table: FlagTable, item: Refused, command: Command, releases: Known[Releases]
) -> Refused | None:
    """How certain it is; None where the option may well be one of a plugin."""
    if item.kind != "unknown":
        return replace(item, certain=item.certain and command.own)
    name = option_name(item.written)
    history = table.history(name) if name.startswith("-") else None
    known = item.known or history is not None or item.problem == "ambiguous option"
    guessed = known or bool(item.candidates)
    if not (known if command.wrapped else command.own or guessed):
        return None
    sure = item.certain and command.own and not command.plugins
    stated = releases.how != "defaulted" or (guessed and not command.floating)
    return replace(
        item, certain=sure and stated, known=known,
        replaced_by=successor(table, name, command.words) if item.flag is not None else None,
        remedy=item.remedy or table.instead(name) or _beside(table, name, command.words),
    )  # fmt: skip


def successor(table: FlagTable, name: str, words: Sequence[Text]) -> str | None:
    """What to write for an option now; nothing beside an object that one key would take away."""
    found = table.replaced_by(name)
    whole, dot, _ = (found or "").partition(".")
    if not dot:
        return found
    unknown = any(word.value is None or word.value == "--config" for word in words)
    return None if unknown or any(_means(table, word, whole) for word in words) else found


def _means(table: FlagTable, word: Text, name: str) -> bool:
    """Whether a word is an option, however it is spelled."""
    if not (word.value or "").startswith("-"):
        return False
    found = table.resolve(option_name(word))
    return found is not None and isinstance(found[0], Option) and found[0].name == name


def _beside(table: FlagTable, name: str, words: Sequence[Text]) -> str | None:
    found = table.replaced_by(name)
    if found is None or successor(table, name, words) is not None:
        return None
    whole, _, key = found.partition(".")
    return f"give `{key.partition(' ')[0]}` in the object of `{whole}`"


def option_name(written: Text) -> str:
    """The name in a word, as the parser looks it up."""
    name = (written.value or "").partition("=")[0].partition(".")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def _when(views: Sequence[FlagView], seen: set[int], unopened: str | None) -> str | None:
    """The releases that refuse: "since 0.18.0", "before 0.12.0"; None for all.

    Of a release that was not opened, the opened ones around it tell what they do.
    """
    marks = [view.index in seen for view in views]
    if all(marks):
        return None
    if unopened is not None and len(views) == 2:
        side = "before" if marks[0] else "after"
        return f"in {views[marks.index(True)].release} (the one checked {side} {unopened})"
    first, last = marks.index(True), len(marks) - 1 - marks[::-1].index(True)
    if all(marks[first:]):
        return f"since {views[first].release}"
    if all(marks[: last + 1]):
        return f"before {views[last + 1].release}"
    return f"in some releases from {views[first].release} to {views[last].release}"
