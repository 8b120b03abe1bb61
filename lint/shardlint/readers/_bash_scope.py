"""What shell text is read with: variables, arguments, pieces of words, and a bound on the work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from shardlint.known import Text
from shardlint.readers._bash_scan import FILLED_IN
from shardlint.record import record
from shardlint.source import Mapped, Origin, Span

MAX_RELATED = 16
"""Places of definitions that one word keeps."""


class WorkError(Exception):
    """The script asks for more work than any real one."""


@dataclass(slots=True)
class Work:
    """What may still be done, in characters read or written."""

    left: int

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise WorkError


@record
class Variable:
    """A variable in force; an array has the texts of its elements."""

    value: Text | tuple[Text, ...]
    exported: bool = False


@record
class Arguments:
    """The positional parameters: `words` is None where nobody knows the caller.

    `lost` says why nothing is known of them any more.
    """

    words: tuple[Text, ...] | None = None
    shifted: int = 0
    lost: str | None = None

    def shift(self, count: int) -> Arguments:
        if self.words is None:
            return replace(self, shifted=self.shifted + count)
        if uncertain(self.words[:count]):
            return replace(self, lost="the arguments are not known after shift")
        return replace(self, words=self.words[count:], shifted=self.shifted + count)


@record
class Missing:
    """There is no value: it is unset if `reason` is None or `assumption` holds, else unknown."""

    reason: str | None = None
    assumption: str | None = None
    related: tuple[Origin, ...] = ()


@dataclass(slots=True)
class Scope:
    """What a command sees: variables, arguments, `$0`, and the file that was sourced before it.

    `holes` are variables that stand for unknown parts of the text itself. `doubted` are variables
    that were set before a file was sourced, which can set them again.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    arguments: Arguments = Arguments()
    name: Text | None = None
    sourced: str | None = None
    holes: frozenset[str] = frozenset()
    doubted: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Scope:
        return replace(self, variables=dict(self.variables), doubted=dict(self.doubted))

    def source(self, file: str) -> None:
        """A file is read whose text is not here; one that activates an environment sets no size."""
        if file.endswith("activate"):
            self.sourced = self.sourced or file
            return
        self.sourced = file
        self.doubted |= dict.fromkeys(self.variables, file)

    def setting(self) -> str | None:
        """The file that was sourced, if it can have set a variable that an engine looks at."""
        return None if self.sourced is None or self.sourced.endswith("activate") else self.sourced

    def _doubted(self, name: str, value: Text) -> Text:
        file = self.doubted.get(name)
        if file is None or value.mapped is None:
            return value
        return replace(value, assumes=value.assumes | {f"{file} does not set {name}"})

    def assign(self, name: str, value: Text | tuple[Text, ...], exported: bool = False) -> None:
        """Set a variable; one that was exported stays so."""
        old = self.variables.get(name)
        self.doubted.pop(name, None)
        self.variables[name] = Variable(value, exported or (old is not None and old.exported))

    def forget(self, name: str, how: str, origin: Origin) -> None:
        """From here on the variable has a value that is not known."""
        self.assign(name, Text.unknown(origin, f"{name} is set {how}"))

    def texts(self) -> dict[str, Text]:
        """The variables that can be in an environment: no arrays."""
        return {
            name: self._doubted(name, variable.value)
            for name, variable in self.variables.items()
            if isinstance(variable.value, Text) and name not in self.holes
        }

    def exported(self) -> frozenset[str]:
        return frozenset(name for name, variable in self.variables.items() if variable.exported)

    def look_up(
        self, name: str, index: str | None, offset: str | None
    ) -> tuple[Text, ...] | Missing:
        """One value, or all elements of a list; or why there is none."""
        if name in ("@", "*") or name.isdecimal() or name in "#?$!-":
            return self._argument(name, offset)
        variable = self.variables.get(name)
        if not name.strip(FILLED_IN):
            return Missing("it is to be filled in")
        if variable is None:
            unread = f", and {self.sourced} is not read" if self.sourced else ""
            return Missing(
                f"{name} is not set in this file{unread}", f"{name} is not set in the environment"
            )
        value = variable.value
        if offset is not None and index not in ("@", "*"):
            return Missing(f"${{{name}:{offset}}} is not computed")
        if isinstance(value, Text):
            if value.mapped is None and index is not None:
                return Missing(value.reason or "unresolved", related=(value.origin, *value.related))
            doubted = self._doubted(name, value)
            return (doubted,) if index in (None, "0", "@", "*") else Missing()
        if index in ("@", "*"):
            return _behind(value, int(offset or 0))
        return _nth(value, index or "0")

    def _argument(self, name: str, offset: str | None) -> tuple[Text, ...] | Missing:
        arguments = self.arguments
        if name in ("?", "$", "!", "-"):
            return Missing(f"${name} is known only when it runs")
        if name == "0":
            return (self.name,) if self.name else Missing("$0 is not known")
        if arguments.lost:
            return Missing(arguments.lost)
        if arguments.words is None:
            if name in ("@", "*", "#"):
                return Missing(f"the script's arguments, ${name}, are not known")
            number = int(name) + arguments.shifted
            return Missing(
                f"the script's argument {number} is not known",
                f"the script's argument {number} is not given",
            )
        if name == "#":
            return Missing("the number of arguments is not known")
        if name in ("@", "*"):
            return _behind(arguments.words, max(0, int(offset or 1) - 1))
        return _nth(arguments.words, str(int(name) - 1))


@record
class Piece:
    """Characters of one word from one place: written there, or from one expansion.

    `home` is the one place to edit if the piece is the whole word; `whole` a text that stands for
    the word as it is; `many` says that an unknown piece may be several words when it stands alone,
    `listed` that it may be so in any company; `perhaps` are the options that it can only be then.
    """

    mapped: Mapped | None
    quoted: bool
    start: int
    end: int
    literal: bool = False
    reason: str = ""
    related: tuple[Origin, ...] = ()
    assumes: frozenset[str] = frozenset()
    home: Origin | None = None
    whole: Text | None = None
    many: bool = False
    listed: bool = False
    perhaps: tuple[str, ...] = ()


class Word(NamedTuple):
    """One word after splitting, and the offsets of its token."""

    pieces: tuple[Piece, ...]
    start: int
    end: int


def word_of(text: Text) -> Word:
    """A word that was read elsewhere."""
    piece = Piece(
        text.mapped, True, 0, 0, reason=text.reason or "unresolved", related=text.related,
        assumes=text.assumes, whole=text, many=text.many, listed=text.many,
    )  # fmt: skip
    return Word((piece,), 0, 0)


def joined(parts: Sequence[Mapped]) -> Mapped:
    if len(parts) == 1:
        return parts[0]
    return Mapped(
        "".join(part.text for part in parts),
        [start for part in parts for start in part.starts],
        [end for part in parts for end in part.ends],
        all(part.literal for part in parts),
    )


def one_run(mapped: Mapped, start: int, end: int) -> Span | None:
    """The source span of some characters that stand there next to each other, each as itself."""
    if start >= end:
        return None
    begins, stops = mapped.starts[start:end], mapped.ends[start:end]
    if not isinstance(begins, range):
        chained = all(stop == begin for stop, begin in zip(stops, begins[1:], strict=False))
        if not chained or any(e - b != 1 for b, e in zip(begins, stops, strict=True)):
            return None
    return Span(begins[0], stops[-1])


def home(given: Text, start: int, end: int) -> Origin | None:
    """The one place to edit so that these characters of a variable's value change."""
    assert given.mapped is not None
    if run := one_run(given.mapped, start, end):
        return Origin(given.origin.file, run)
    return given.definition if (start, end) == (0, len(given.mapped)) else None


def defined(value: Text) -> Text:
    """A variable's value as seen from where the variable is used."""
    return replace(value, related=(value.origin, *value.related))


def related(used: Iterable[Text | Piece]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(o for item in used for o in item.related))[:MAX_RELATED]


def assumed(used: Iterable[Text | Piece]) -> frozenset[str]:
    return frozenset[str]().union(*(item.assumes for item in used))


def uncertain(words: Sequence[Text]) -> bool:
    """It is not known how many words these are: some may be several, or halves of `--name=...`."""
    halves = any(
        (word.value or "").startswith("-")
        and following.mapped is None
        and word.origin.span.end + 1 == following.origin.span.start
        for word, following in pairwise(words)
    )
    return halves or any(word.many for word in words)


def _behind(words: tuple[Text, ...], skipped: int) -> tuple[Text, ...] | Missing:
    if uncertain(words[:skipped]):
        return Missing("the words before it are not known")
    return words[skipped:]


def _nth(words: tuple[Text, ...], index: str) -> tuple[Text, ...] | Missing:
    """One element, unless an unknown number of others stands before it."""
    if not re.fullmatch(r"-?\d{1,6}", index):
        return Missing(f"the element {shown(index)} is not known")
    at = int(index)
    if uncertain(words[: at + 1] if at >= 0 else words[at:]):
        return Missing("the words before it are not known")
    return (words[at],) if -len(words) <= at < len(words) else Missing()


def shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:39] + "…"
