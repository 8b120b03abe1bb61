"""Where the keys and values of a TOML text stand: tomllib reads them and tells no place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

MAX_DEPTH = 32
"""Keys below one another. What goes deeper is refused, and not located either."""

Where: TypeAlias = tuple[str | int, ...]
"""A place in the configuration: keys, and indices from 0 in arrays."""


class Place(NamedTuple):
    """Offsets of a key and of its value; the value of a table is its header."""

    key: int
    value: int


_TOKEN = r'''
    (?P<word>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'
    |[^\s\[\]{}=,\#"']+)
    |(?P<mark>[\[\]{}=,\n])
    |\#[^\n]*'''


def tokens(text: str) -> Iterator[re.Match[str]]:
    return re.finditer(_TOKEN, text, re.DOTALL | re.VERBOSE)


@dataclass(slots=True)
class _Open:
    """An array or inline table that is not closed yet."""

    where: Where
    array: bool
    index: int = 0


class _Locator:
    """Notes what stands where in a TOML text that is known to parse."""

    def __init__(self) -> None:
        self.keys: dict[Where, int] = {(): 0}
        self.values: dict[Where, int] = {(): 0}
        self._table: Where = ()
        self._last: dict[Where, int] = {}  # index of the newest table of each [[array]]
        self._open: list[_Open] = []
        self._target: Where | None = None  # what the next value belongs to
        self._words: list[tuple[str, int]] = []  # segments of the key that is being read
        self._header: int | None = None
        self._double = False

    def read(self, text: str) -> None:
        for token in tokens(text):
            if token["word"]:
                self._word(token.start(), token["word"])
            elif token["mark"]:
                self._mark(token.start(), token["mark"])

    def _mark(self, at: int, mark: str) -> None:
        match mark:
            case "[":
                self._bracket(at)
            case "]":
                self._close_bracket()
            case "{":
                self._nest(at, array=False)
            case "}":
                self._close()
            case "=":
                self._equals()
            case ",":
                self._comma()
            case _:
                self._newline()

    def _word(self, at: int, text: str) -> None:
        target = self._value(at)
        if target is None and len(self._words) <= MAX_DEPTH:
            self._words += islice(_segments(at, text), MAX_DEPTH + 1)
        self._target = target

    def _value(self, at: int) -> Where | None:
        """What a value that starts here belongs to; None where a key is expected."""
        if self._target is None and self._open and self._open[-1].array:
            self._target = (*self._open[-1].where, self._open[-1].index)
            self.keys.setdefault(self._target, at)
        if self._target is not None:
            self.values.setdefault(self._target, at)
        return self._target

    def _bracket(self, at: int) -> None:
        if self._open or self._target is not None:
            self._nest(at, array=True)
        elif self._header is None:
            self._header = at
        else:
            self._double = True

    def _nest(self, at: int, *, array: bool) -> None:
        where = self._value(at)
        if where is not None:
            self._open.append(_Open(where, array))
        self._target = None

    def _close_bracket(self) -> None:
        if self._open:
            self._close()
        elif self._header is not None:
            self._end_header(self._header)

    def _close(self) -> None:
        if self._open:
            self._open.pop()
        self._target, self._words = None, []

    def _end_header(self, at: int) -> None:
        where: Where = ()
        for number, (name, start) in enumerate(self._words, 1):
            where = (*where, name)
            self._note(where, start, at)
            if self._double and number == len(self._words):
                self._last[where] = self._last.get(where, -1) + 1
            if where in self._last:
                where = (*where, self._last[where])
                self._note(where, at, at)
        self._table, self._words, self._header, self._double = where, [], None, False

    def _note(self, where: Where, key: int, value: int) -> None:
        self.keys.setdefault(where, key)
        self.values.setdefault(where, value)

    def _equals(self) -> None:
        where = self._open[-1].where if self._open else self._table
        for name, start in self._words:
            if self._target is not None:
                self.values.setdefault(self._target, start)
            where = self._target = (*where, name)
            self.keys.setdefault(where, start)
        self._words = []

    def _comma(self) -> None:
        if self._open:
            self._open[-1].index += 1
        self._target = None

    def _newline(self) -> None:
        if not self._open:
            self._target, self._words, self._header = None, [], None


def _segments(at: int, text: str) -> Iterator[tuple[str, int]]:
    """The parts of a key, with their offsets."""
    import tomllib

    if text[0] in "\"'":
        yield next(iter(tomllib.loads(f"{text} = 0"))), at
        return
    for part in re.finditer(r"[^.]+", text):
        yield part[0], at + part.start()


def locate(text: str) -> dict[Where, Place]:
    """Where every key and value of a TOML text stands; the text must parse."""
    locator = _Locator()
    locator.read(text)
    values = locator.values
    return {where: Place(at, values.get(where, at)) for where, at in locator.keys.items()}
