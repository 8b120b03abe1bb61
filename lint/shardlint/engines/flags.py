"""Command lines read by a table of options, the way Python's argparse reads them.

Unique prefixes are accepted, `_` equals `-` in names, the last of a repeated option wins. What the
table does not have is kept as an option with a problem: judging it is a rule's business.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from shardlint.known import Known, Text
from shardlint.plan import Flag
from shardlint.record import record
from shardlint.source import Origin, Span

T = TypeVar("T")
Takes: TypeAlias = Literal["value", "optional_value", "many", "none"]

NEGATIVE_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")
HUMAN = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30,
         "T": 2**40}  # fmt: skip


@record
class Option:
    """One row of the table. `name` is the canonical spelling, `negated` that of its inverse."""

    name: str
    aliases: tuple[str, ...]
    takes: Takes
    type: str
    default: Any
    field: str | None
    negatable: bool
    inverse: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Option:
        return cls(
            row["flag"], tuple(row.get("aliases", ())), row["takes"], row.get("type", "str"),
            row.get("default"), row.get("field"), row.get("negatable", False), row.get("inverse"),
        )  # fmt: skip


class FlagTable:
    """The options of one engine, from `engines/data/<name>_flags.json`."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def _data(self) -> dict[str, Any]:
        path = Path(__file__).parent / "data" / f"{self.name}_flags.json"
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return data

    @property
    def first_release(self) -> str:
        return str(self._data["supported"]["first"])

    @property
    def last_release(self) -> str:
        return str(self._data["supported"]["last"])

    @cached_property
    def by_name(self) -> dict[str, tuple[Option, bool]]:
        """Every spelling, with the option and whether the spelling switches it off."""
        names: dict[str, tuple[Option, bool]] = {}
        for row in self._data["flags"]:
            option = Option.from_row(row)
            for name in (option.name, *option.aliases):
                names[name] = (option, False)
            if option.negatable:
                names["--no-" + option.name.removeprefix("--")] = (option, True)
            if option.inverse:
                names[option.inverse] = (option, True)
        return names

    @cached_property
    def by_field(self) -> dict[str, Option]:
        return {option.field: option for option, _ in self.by_name.values() if option.field}

    @cached_property
    def listed_elsewhere(self) -> frozenset[str]:
        """Options that other releases had, or that are known without being in this table."""
        rows = [*self._data["removed"], *self._data.get("known_elsewhere", [])]
        return frozenset(row["flag"] if isinstance(row, dict) else row for row in rows)

    def default(self, field: str) -> Any:
        option = self.by_field.get(field)
        return option.default if option else None

    def spelling(self, field: str, like: str = "") -> str:
        """The option that sets a field: a short one beside a short one."""
        option = self.by_field[field]
        if like.startswith("-") and not like.startswith("--"):
            return next((name for name in option.aliases if not name.startswith("--")), option.name)
        return option.name

    def parse(self, words: Sequence[Text]) -> ParsedWords:
        return _Parser(self, words).run()

    def resolve(self, name: str) -> tuple[Option, bool] | tuple[str, ...] | None:
        """Option and negation of a spelling; several names if ambiguous; None if there is none."""
        if name in self.by_name:
            return self.by_name[name]
        if not name.startswith("--") or len(name) < 4:
            return None
        matches = tuple(sorted(known for known in self.by_name if known.startswith(name)))
        if len(matches) == 1:
            return self.by_name[matches[0]]
        return matches or None

    def guesses(self, name: str) -> tuple[str, ...]:
        """Spellings that were probably meant, best first."""
        short = "-" + name.lstrip("-")
        if short in self.by_name:
            return (short,)
        visible = [known for known in self.by_name if not known.startswith("--no-")]
        return tuple(difflib.get_close_matches(name, visible, n=3, cutoff=0.8))


@record
class ParsedWords:
    """Options and positional words; `open_ended` says where further ones may stand."""

    flags: tuple[Flag, ...]
    positionals: tuple[Text, ...]
    open_ended: str | None

    def last(self, *names: str) -> Flag | None:
        """The option that counts: the last one of these names."""
        found = [flag for flag in self.flags if flag.flag in names and flag.dotted is None]
        return found[-1] if found else None


class _Parser:
    def __init__(self, table: FlagTable, words: Sequence[Text]) -> None:
        self.table, self.words = table, words
        self.at = 0
        self.flags: list[Flag] = []
        self.positionals: list[Text] = []
        self.open_ended: str | None = None

    def run(self) -> ParsedWords:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word.many:
                self.open_ended = word.reason or "more arguments follow"
            elif word.value is not None and self.is_option(word.value):
                self.flags.append(self.option(word, word.value))
            else:
                self.positionals.append(word)
        return ParsedWords(tuple(self.flags), tuple(self.positionals), self.open_ended)

    def is_option(self, value: str) -> bool:
        dashed = value.startswith("-") and len(value) > 1 and not NEGATIVE_NUMBER.match(value)
        return dashed and " " not in value.split("=", 1)[0]

    def option(self, word: Text, value: str) -> Flag:
        written, equals, _ = value.partition("=")
        name, dot, rest = written.partition(".") if written.startswith("--") else (written, "", "")
        if name.startswith("--"):
            name = name.replace("_", "-")
        inline = word.part(len(written) + 1) if equals else None
        found = self.table.resolve(name)
        if found is None and not written.startswith("--") and written[:2] in self.table.by_name:
            found, inline = self.table.by_name[written[:2]], word.part(2)
        if not isinstance(found, tuple) or not isinstance(found[0], Option):
            return self.refused(word, name, inline, found)
        option, negated = found[0], bool(found[1])
        return self.accepted(word, option, negated, inline, rest if dot else None)

    def accepted(
        self, word: Text, option: Option, negated: bool, inline: Text | None, dotted: str | None
    ) -> Flag:
        takes = "value" if dotted else "none" if negated else option.takes
        problem = None
        value = inline
        if takes == "none" and inline is not None:
            problem = "ignored explicit argument"
        elif takes == "value" and inline is None:
            value = self.next_value()
            problem = None if value is not None else "expected one argument"
        elif takes == "optional_value" and inline is None:
            value = self.next_value()
        elif takes == "many":
            value = self.all_values() if inline is None else inline
        return self.flag(word, option.name, value, negated, dotted, problem)

    def refused(
        self, word: Text, name: str, inline: Text | None, found: tuple[Any, ...] | None
    ) -> Flag:
        value = inline if inline is not None else self.next_value()
        problem = "ambiguous option" if found else "unrecognized arguments"
        guesses = tuple(str(item) for item in found) if found else self.table.guesses(name)
        return self.flag(word, None, value, False, None, problem, guesses)

    def flag(
        self,
        word: Text,
        name: str | None,
        value: Text | None,
        negated: bool,
        dotted: str | None,
        problem: str | None,
        guesses: tuple[str, ...] = (),
    ) -> Flag:
        start, end = word.origin.span.start, word.origin.span.end
        if value is not None:
            end = max(end, value.origin.span.end)
        return Flag(
            written=word, flag=name, value=value, span=Span(start, max(start, end)),
            negated=negated, dotted=dotted, problem=problem, candidates=guesses,
        )  # fmt: skip

    def next_value(self) -> Text | None:
        """The next word if it can be a value; a place of many words may hold the value too."""
        if self.at >= len(self.words):
            return None
        word = self.words[self.at]
        if word.value is not None and self.is_option(word.value):
            return None
        if word.many:
            self.open_ended = word.reason or "more arguments follow"
        self.at += 1
        return word

    def all_values(self) -> Text | None:
        first = self.next_value()
        while first is not None and self.next_value() is not None:
            pass
        return first


# ------------------------------------------------------------------------- values of options


def converted(flag: Flag | None, convert: Callable[[str], T]) -> Known[T]:
    """The value of an option; unset without the option, unknown if it is not of the type."""
    if flag is None:
        return Known.unset()
    if flag.value is None:
        return Known.unknown(f"{flag.written.value} has no value", flag.written.place)
    known = flag.value.known()
    if known.only is None:
        return Known.unknown(known.reason or "unresolved", known.origin, known.related)
    try:
        return known.map(convert)
    except ValueError as error:
        return Known.unknown(str(error), known.origin, known.related)


def whole(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def human(text: str) -> int:
    """32k is 32,000 and 32K is 32,768; decimals only before the small letters."""
    match = re.fullmatch(r"(\d{1,12})(\.\d{1,9})?([kmgtKMGT]?)", text.strip())
    if not match or (match[2] and (not match[3] or match[3].isupper())):
        return whole(text)
    return int(float(match[1] + (match[2] or "")) * HUMAN.get(match[3], 1))


def fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def switch(flag: Flag | None) -> Known[bool]:
    """An on/off option."""
    if flag is None:
        return Known.unset()
    if flag.problem:
        return Known.unknown(flag.problem, flag.written.place)
    return Known.of(not flag.negated, flag.written.place, related=flag.written.related)


def origin_of(flag: Flag) -> Origin:
    """The token that carries the option's value, or the option itself."""
    return flag.value.place if flag.value is not None else flag.written.place


def names(flags: Iterable[Flag]) -> frozenset[str]:
    return frozenset(flag.flag for flag in flags if flag.flag)
