"""One command line through the releases of an engine that it can be meant for.

Releases that read every word alike are read once. What each of them refuses is put together; what
an engine asks of words beyond its table of options is its `Dialect`.
"""

from __future__ import annotations

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
from shardlint.plan import Flag, Refused, Releases
from shardlint.record import record

LATE = "no option is read behind `--`"
TRUTHS = {"true": True, "1": True, "false": False, "0": False}


@record(kw_only=True)
class Command:
    """The words of a command line behind the launcher.

    `serve`: it is the command `serve`; False: the module that starts the engine; None: the image
    decides. `before` stand in front of `serve`. `wrapped`: another program takes options of its own
    out before the engine reads the rest. `own`: no other image may add options; `plugins`:
    a variable names some that may; `floating`: an image without a release in its tag is newer some
    day than every release in the table. `file` are the words that come from a file of options.
    """

    words: tuple[Text, ...]
    serve: bool | None = None
    before: tuple[Text, ...] = ()
    wrapped: bool = False
    own: bool = True
    floating: bool = False
    plugins: bool = False
    file: tuple[Text, ...] | None = None

    @property
    def first(self) -> str | None:
        return self.words[0].value if self.words else None

    def in_file(self, word: Text) -> bool:
        return any(word is one for one in self.file or ())


@record
class Version:
    """What some releases, oldest first, make of a command line."""

    views: tuple[FlagView, ...]
    parsed: ParsedWords
    refused: tuple[Refused, ...]
    own: object = None
    """What the dialect tells releases apart by."""

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
        return tuple(rows), positionals, self.view.grammar.model_option, self.own


class Dialect:
    """What an engine asks of words beyond its table of options."""

    def alike(self, view: FlagView, words: Sequence[Text]) -> object:
        """Equal for two releases that ask the same of these words."""
        return None

    def least(self, view: FlagView, name: str) -> int | None:
        """The least value of an option, where a smaller one passes the parser and dies later."""
        return None

    def drops(self, flag: Flag, command: Command) -> bool:
        """Whether a word of a file never reaches the parser."""
        return False

    def refused(self, view: FlagView, parsed: ParsedWords, command: Command) -> Iterator[Refused]:
        """Words that are refused although the table has nothing against them."""
        yield from surplus(view, parsed, command, 0)


PLAIN = Dialect()


def versions_of(
    table: FlagTable, command: Command, releases: Known[Releases], dialect: Dialect = PLAIN
) -> list[Version]:
    """The readings of a command line, by the newest release of each; at least one."""
    views = table.views(releases) or (table,)
    traits = Traits.of(command.words)
    groups: dict[object, list[FlagView]] = {}
    for view in views:
        key = view.signature(command.words, traits), dialect.alike(view, command.words)
        groups.setdefault(key, []).append(view)
    found = []
    for group in sorted(groups.values(), key=lambda group: views.index(group[-1])):
        parsed = group[-1].parse(command.words)
        refused = tuple(_refused(group[-1], parsed, command, dialect))
        own = dialect.alike(group[-1], command.words)
        found.append(Version(tuple(group), parsed, refused, own))
    return found


def chosen(found: Sequence[Version], releases: Known[Releases]) -> list[Version]:
    """Those that start; if none does, those that refuse the fewest words.

    Where no release is stated, the newest is among them: nobody can tell that an old one is meant.
    """
    unstated = releases.how == "defaulted"
    last = found[-1:] if unstated and any(not one.refused for one in found) else []
    fewest = min(len(one.refused) for one in found)
    return [one for one in found if len(one.refused) == fewest or one in last]


# ------------------------------------------------------------------------- what one refuses


def _refused(
    view: FlagView, parsed: ParsedWords, command: Command, dialect: Dialect
) -> Iterator[Refused]:
    for index, flag in enumerate(parsed.flags):
        if HOLE.search((flag.written.value or "").partition("=")[0]):
            continue
        if flag.flag is None:
            if not dialect.drops(flag, command):
                yield _unknown(flag, index)
        elif flag.problem is not None:
            yield replace(given(flag, flag.written, _problem(flag), index), **_switched(flag))
        elif (text := _retired(view, flag)) is not None:
            yield replace(_unknown(flag, index), problem=text)
        else:
            yield from _values(view, flag, index, dialect)
    yield from dialect.refused(view, parsed, command)
    for word in command.before:
        if not (word.value or "").startswith("-"):
            continue
        yield Refused(
            kind="misplaced", written=word, at=word.place, problem="invalid choice",
            remedy="options stand behind `serve`",
        )  # fmt: skip


def _retired(view: FlagView, flag: Flag) -> str | None:
    """The text with which the parser ends at an option that it knows."""
    option = view.named(flag.flag) if flag.flag is not None else None
    return option.refused if option is not None else None


def _unknown(flag: Flag, index: int) -> Refused:
    written = flag.written
    return Refused(
        kind="unknown", written=written, at=written.place, problem=flag.problem or "",
        flag=index, candidates=flag.candidates, certain=not written.assumes,
    )  # fmt: skip


def given(flag: Flag, word: Text, problem: str, index: int, remedy: str | None = None) -> Refused:
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


def _values(view: FlagView, flag: Flag, index: int, dialect: Dialect) -> Iterator[Refused]:
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
        least = dialect.least(view, flag.flag)
        if problem is None and least is not None:
            problem = _too_small(least, text.value, option.nullable)
        if problem is not None:
            yield given(flag, text, problem, index)


def _too_small(least: int, word: str, nullable: bool) -> str | None:
    if nullable and word in ("", "None"):
        return None
    return None if int(word) >= least else f"Input should be greater than or equal to {least}"


def surplus(
    view: FlagView, parsed: ParsedWords, command: Command, most: int, remedy: str | None = None
) -> Iterator[Refused]:
    """Words that are neither an option nor a value, beyond the `most` that may be there."""
    words = parsed.positionals
    if (
        command.wrapped
        or parsed.open_ended
        or any(word.value is None or HOLE.search(word.value) for word in words)
    ):
        return
    at = _end(command)
    for word in words[most:]:
        late = at is not None and word.origin.span.start > at
        option = (word.value or "").startswith("-") and late
        yield Refused(
            kind="misplaced" if option else "unknown", written=word, at=word.place,
            problem="unrecognized arguments", certain=not word.assumes, known=True,
            remedy=LATE if option else two_words(view, word) or remedy,
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
        if before and item.kind == "unknown" and table.history(option_name(table, item.written)):
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
    name = option_name(table, item.written)
    history = table.history(name) if name.startswith("-") else None
    known = item.known or history is not None or item.problem == "ambiguous option"
    guessed = known or bool(item.candidates)
    if not (known if command.wrapped else command.own or guessed):
        return None
    sure = item.certain and command.own and not command.plugins
    stated = releases.how != "defaulted" or (guessed and not command.floating)
    new = successor(table, name, command.words) if item.flag is not None else None
    remedy = item.remedy or table.instead(name) or _beside(table, name, command.words)
    if new is not None and not _everywhere(table.views(releases), new):
        new, remedy = None, remedy or f"other releases have `{new}` in its place"
    meant = item.candidates
    if new is not None and (new in meant or item.problem == "ambiguous option"):
        meant = (new,) if new in meant else ()
    return replace(
        item, certain=sure and stated, known=known, replaced_by=new, remedy=remedy,
        candidates=meant,
    )  # fmt: skip


def _everywhere(views: Sequence[FlagView], new: str) -> bool:
    """Whether each possible release has the option that a successor begins with."""
    option = new.partition(" ")[0].partition(".")[0]
    return bool(views) and all(view.named(option) is not None for view in views)


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
    found = table.resolve(option_name(table, word))
    return found is not None and isinstance(found[0], Option) and found[0].name == name


def _beside(table: FlagTable, name: str, words: Sequence[Text]) -> str | None:
    found = table.replaced_by(name)
    if found is None or successor(table, name, words) is not None:
        return None
    whole, _, key = found.partition(".")
    return f"give `{key.partition(' ')[0]}` in the object of `{whole}`"


def option_name(view: FlagView, written: Text) -> str:
    """The name in a word, as the parser looks it up."""
    return view.name_of(written.value or "")


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


def with_file(parsed: ParsedWords) -> ParsedWords:
    """With `--config FILE`, the file may set what is absent; in one word the file is not read."""
    config = parsed.last("--config")
    if config is None or config.written.value != "--config":
        return parsed
    name = config.value.value if config.value else None
    return replace(parsed, elsewhere=f"{name or '--config'} holds more options")
