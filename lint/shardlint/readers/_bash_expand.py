"""Words of a shell script after expansion and splitting, each character with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from shardlint.known import Text
from shardlint.readers._bash_compute import NumberError, evaluate, part_of_path
from shardlint.readers._bash_scan import (
    Atom,
    RawWord,
    ScanError,
    Simple,
    atoms,
    simple_command,
    with_holes,
)
from shardlint.readers._bash_scope import (
    Missing,
    Piece,
    Scope,
    Word,
    Work,
    assumed,
    defined,
    home,
    joined,
    one_run,
    related,
    shown,
    word_of,
)
from shardlint.readers.holes import options_of
from shardlint.source import Mapped, Origin, Span

_Items: TypeAlias = Iterator[Piece | None]
"""The pieces of words; None parts two words."""

_SPLIT = re.compile(r"[^ \t\n]+")
_PARAMETER = re.compile(
    r"([A-Za-z_]\w*|\d{1,6}|[@*#?$!-])(?:\[([^\]]*)\])?(?:(:?[-=?+])(.*)|:(\d{1,6}))?",
    re.ASCII | re.DOTALL,
)
_LIST = re.compile(r"\$\{(?:[@*]|\w+\[[@*]\])", re.ASCII)
_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}|\{[\w+-]+\.\.[\w+-]+(\.\.[\w+-]+)?\}", re.ASCII)
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*(?==)", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_PATH_COMMAND = re.compile(r"\s*(basename|dirname)\s")
_UNNAMED = "unresolved"
_UNCLOSED = "a quote or bracket in it does not close"
_STEP = 10
"""Work of one piece of a word, in characters."""


class Expander:
    """Expands the words of one script text in a scope that changes while the script is read."""

    def __init__(
        self, script: Mapped, file: str, scope: Scope, work: Work, expand: bool = True
    ) -> None:
        self.script, self.text, self.file = script, with_holes(script.text), file
        self.scope, self.work, self.expand = scope, work, expand

    def origin(self, start: int, end: int) -> Origin:
        span = self.script.span(start, end)
        if span.start <= span.end:
            return Origin(self.file, span)
        # the text was put together from values that stand in another order
        return Origin(
            self.file, Span(min(self.script.starts[start:end]), max(self.script.ends[start:end]))
        )

    def command(self, at: int) -> Simple:
        try:
            simple = simple_command(self.text, at)
        except ScanError:
            self.work.spend(len(self.text) - at)
            raise
        self.work.spend(simple.stop - at + 1)
        return simple

    def words(self, raw: RawWord) -> list[Word]:
        """The words that one written word becomes: none, one or several."""
        words: list[list[Piece]] = [[]]
        try:
            for item in self._items(raw.start, raw.end, False, True):
                if item is None:
                    words.append([])
                else:
                    words[-1].append(item)
        except ScanError:
            return self._several(raw, _UNCLOSED)
        found = [
            Word(tuple(pieces), raw.start, raw.end)
            for pieces in words
            if any(piece.quoted or piece.mapped is None or piece.mapped.text for piece in pieces)
        ]
        if any(self._has_braces(word) for word in found):
            return self._several(raw, "its braces stand for several words")
        return [part for word in found for part in self._named(word)]

    def _several(self, raw: RawWord, reason: str) -> list[Word]:
        several = Piece(None, False, raw.start, raw.end, reason=reason, many=True)
        return [Word((several,), raw.start, raw.end)]

    def _named(self, word: Word) -> tuple[Word, ...]:
        """`--name=` before an unknown value gives two words, so that the name is not lost."""
        first, *others = word.pieces
        if first.mapped is None or all(piece.mapped is not None for piece in others):
            return (word,)
        option = _OPTION.match(first.mapped.text) if first.literal else None
        if option is None:
            return (word,)
        cut = first.start + option.end()
        name = replace(first, mapped=first.mapped.cut(0, option.end()), end=cut)
        rest = replace(first, mapped=first.mapped.cut(option.end() + 1), start=cut + 1)
        value = [replace(piece, many=False) for piece in others]
        if rest.mapped:
            value.insert(0, rest)
        return Word((name,), word.start, cut), Word(tuple(value), cut + 1, word.end)

    def texts(self, raw: RawWord) -> list[Text]:
        return [self.text_of(word) for word in self.words(raw)]

    def value(self, start: int, end: int, quoted: bool = False) -> Text:
        """The value of characters that are not split: an assignment, a default."""
        try:
            pieces = tuple(p for p in self._items(start, end, quoted, False) if p is not None)
        except ScanError:
            return Text.unknown(self.origin(start, end), _UNCLOSED)
        return replace(self.text_of(Word(pieces, start, end)), many=False)

    def text_of(self, word: Word) -> Text:
        pieces = word.pieces
        if len(pieces) == 1 and pieces[0].whole is not None:
            return pieces[0].whole
        origin, places = self.origin(word.start, word.end), related(pieces)
        solid = [piece for piece in pieces if piece.mapped is None or piece.mapped.text]
        for piece in solid:
            if piece.mapped is None:
                many = piece.listed or (piece.many and len(solid) == 1)
                unknown = Text.unknown(origin, piece.reason, related=places, many=many)
                alone = many and len(solid) == 1
                return replace(unknown, perhaps=piece.perhaps) if alone else unknown
        mapped = joined([p.mapped for p in pieces if p.mapped is not None] or [Mapped("", [], [])])
        if why := self._hole_in(mapped.text):
            return Text.unknown(origin, why, related=places)
        literal = all(piece.literal for piece in pieces) and not _torn(pieces, mapped.text)
        definition = solid[0].home if len(solid) == 1 and not literal else None
        mapped = replace(mapped, literal=literal)
        return Text(mapped, origin, None, places, definition, assumed(pieces))

    def _hole_in(self, value: str) -> str | None:
        """Why characters are unknown that single quotes kept from being expanded."""
        for hole in self.scope.holes:
            if hole in value:
                text = self.scope.variables[hole].value
                return (isinstance(text, Text) and text.reason) or _UNNAMED
        return None

    def _has_braces(self, word: Word) -> bool:
        shape = "".join(
            self.text[piece.start : piece.end] if piece.literal and not piece.quoted else "\0"
            for piece in word.pieces
        )
        return "{" in shape and _BRACES.search(shape) is not None

    def _items(
        self, start: int, end: int, quoted: bool, split: bool, inner: bool = False
    ) -> _Items:
        """The pieces of a word; `inner` text, a default, is itself split at its blanks."""
        for atom in atoms(self.text, start, end, quoted, self.expand):
            self.work.spend(_STEP)
            if atom.kind == "expansion":
                yield from self._expansion(atom, split)
            elif atom.kind == "escape":
                mapped = Mapped.all_at(atom.value, self.origin(atom.start, atom.end).span)
                yield Piece(mapped, True, atom.start, atom.end)
            elif inner and split and not atom.quoted:
                yield from self._split_plain(atom)
            else:
                yield self._plain(atom.start, atom.end, atom.quoted)

    def _plain(self, start: int, end: int, quoted: bool) -> Piece:
        mapped = self.script.cut(start, end)
        run = None if mapped.literal else one_run(mapped, 0, len(mapped))
        return Piece(mapped, quoted, start, end, mapped.literal or run is not None)

    def _split_plain(self, atom: Atom) -> _Items:
        for start, end in _fields(self.text[atom.start : atom.end]):
            if start < end:
                yield self._plain(atom.start + start, atom.start + end, False)
            else:
                yield None

    def _expansion(self, atom: Atom, split: bool) -> _Items:
        text = self.text[atom.start : atom.end]
        if text.startswith("$(("):
            yield from self._scalar(self._arithmetic(atom), atom, split, single=True)
        elif text[0] == "`" or text.startswith("$("):
            yield from self._scalar(self._substitution(atom), atom, split)
        else:
            braced = text.startswith("${")
            inner = _PARAMETER.fullmatch(text[2:-1] if braced else text[1:])
            if inner and not text.startswith("$["):
                yield from self._parameter(inner, atom, split)
            else:
                listed = _LIST.match(text) is not None
                single = text.startswith("${#")
                yield self._unknown(atom, f"{shown(text)} is not computed", listed, not single)

    def _parameter(self, inner: re.Match[str], atom: Atom, split: bool) -> _Items:
        name, index, test, _, offset = inner.groups()
        listed = name in ("@", "*") or index in ("@", "*")
        found = self.scope.look_up(name, index, offset)
        if test and test[-1] != "?":
            choice = _choose(found, test)
            if choice == "word":
                yield from self._word(inner, atom, split, found)
                return
            if choice == "nothing":
                yield from self._nothing(atom)
                return
            if test.endswith("+") and not listed:
                yield self._perhaps(inner, atom, found)
                return
        if isinstance(found, Missing):
            if found.reason is None:
                yield from self._nothing(atom)
            else:
                single = name in ("#", "?", "$", "!", "-", "0")
                yield self._unknown(atom, found.reason, listed, not single, found.related)
        elif listed:
            yield from self._list(found, "*" in (name, index), atom, split)
        else:
            given = found[0] if name in self.scope.holes else defined(found[0])
            yield from self._scalar(given, atom, split)

    def _perhaps(
        self, inner: re.Match[str], atom: Atom, found: tuple[Text, ...] | Missing
    ) -> Piece:
        """The word of `:+` where it is not known whether the variable is set."""
        if isinstance(found, Missing):
            reason, related = found.reason, found.related
        else:
            reason, related = found[0].reason, found[0].related
        unknown = self._unknown(atom, reason or _UNNAMED, related=related)
        return replace(unknown, perhaps=options_of(inner[4] or ""))

    def _word(
        self, inner: re.Match[str], atom: Atom, split: bool, found: tuple[Text, ...] | Missing
    ) -> _Items:
        """The word behind `:-`, `:=` or `:+`, which rests on the variable being unset."""
        start = atom.start + 2 + inner.start(4)
        sentence = found.assumption if isinstance(found, Missing) else None
        assumes = frozenset((sentence,) if sentence else ())
        if inner[3].endswith("="):
            value = self.value(start, atom.end - 1, atom.quoted)
            value = replace(value, assumes=value.assumes | assumes)
            self.scope.assign(inner[1], value)
            yield from self._scalar(value, atom, split)
            return
        empty = True
        for item in self._items(start, atom.end - 1, atom.quoted, split, inner=True):
            empty = False
            yield item and self._moved(item, atom, assumes)
        if empty:
            yield from self._nothing(atom, assumes)

    def _moved(self, piece: Piece, atom: Atom, assumes: frozenset[str]) -> Piece:
        """A piece of a default as a piece of the expansion that it stands in."""
        assumes |= piece.assumes
        if piece.mapped is None or piece.whole is not None:
            whole = piece.whole and replace(piece.whole, assumes=piece.whole.assumes | assumes)
            return replace(piece, assumes=assumes, whole=whole)
        place = piece.home
        if piece.literal and (run := one_run(piece.mapped, 0, len(piece.mapped))):
            place = Origin(self.file, run)
        span = self.origin(atom.start, atom.end).span
        mapped = Mapped.all_at(piece.mapped.text, span)
        return replace(piece, mapped=mapped, literal=False, assumes=assumes, home=place)

    def _nothing(self, atom: Atom, assumes: frozenset[str] = frozenset()) -> _Items:
        """No characters: no word either, unless quotes make it an empty one."""
        empty = Mapped("", [], [])
        yield Piece(empty, atom.quoted, atom.start, atom.end, assumes=assumes)

    def _unknown(
        self,
        atom: Atom,
        reason: str,
        listed: bool = False,
        many: bool = True,
        related: tuple[Origin, ...] = (),
    ) -> Piece:
        listed = listed and not (atom.quoted and "*" in self.text[atom.start : atom.end])
        return Piece(
            None, atom.quoted, atom.start, atom.end, reason=reason, related=related,
            many=many and not atom.quoted, listed=listed,
        )  # fmt: skip

    def _scalar(self, given: Text, atom: Atom, split: bool, single: bool = False) -> _Items:
        """The characters of one value, split into words unless the expansion is quoted."""
        if given.mapped is None:
            reason = given.reason or _UNNAMED
            yield self._unknown(atom, reason, False, split and not single, given.related)
            return
        value = given.mapped.text
        self.work.spend(len(value) + _STEP)
        splits = split and not atom.quoted
        cut = _fields(value) if splits else [(0, len(value))]
        span = self.origin(atom.start, atom.end).span
        for start, end in cut:
            if start == end and splits:
                yield None
                continue
            yield Piece(
                Mapped.all_at(value[start:end], span), True, atom.start, atom.end,
                related=given.related, assumes=given.assumes, home=home(given, start, end),
            )  # fmt: skip

    def _list(self, elements: tuple[Text, ...], star: bool, atom: Atom, split: bool) -> _Items:
        """Arguments or array elements: words of their own, or joined where nothing is split."""
        apart = split and not (star and atom.quoted)
        span = self.origin(atom.start, atom.end).span
        for i, element in enumerate(elements):
            if i and apart:
                yield None
            elif i:
                yield Piece(Mapped.all_at(" ", span), True, atom.start, atom.end)
            value = element.value
            splits = not atom.quoted and value is not None and _fields(value) != [(0, len(value))]
            if splits or not apart:
                yield from self._scalar(defined(element), atom, split)
            else:
                yield self._element(element, atom)

    def _element(self, element: Text, atom: Atom) -> Piece:
        """One element that is a word as it stands, or a part of one."""
        self.work.spend(_STEP + len(element.value or ""))
        span = self.origin(atom.start, atom.end).span
        mapped = None if element.value is None else Mapped.all_at(element.value, span)
        (piece,) = word_of(defined(element)).pieces
        return replace(piece, mapped=mapped, start=atom.start, end=atom.end, whole=element)

    def _arithmetic(self, atom: Atom) -> Text:
        origin = self.origin(atom.start, atom.end)
        expression = self.value(atom.start + 3, atom.end - 2, quoted=True)
        used = [expression]
        try:
            if expression.value is None:
                raise NumberError(expression.reason or _UNNAMED)
            number = evaluate(expression.value, lambda name: self._number_of(name, used))
        except NumberError as unknown:
            return Text.unknown(origin, str(unknown), related=related(used))
        return self._made(str(number), origin, used)

    def _number_of(self, name: str, used: list[Text]) -> int:
        found = self.scope.look_up(name, None, None)
        if isinstance(found, Missing):
            raise NumberError(found.reason or f"{name} is empty")
        used.append(defined(found[0]))
        value = found[0].value
        if value is None or not _NUMBER.fullmatch(value):
            raise NumberError(found[0].reason or f"{name} is no number")
        return int(value)

    def _substitution(self, atom: Atom) -> Text:
        """`$(basename ...)` and `$(dirname ...)`; the output of other commands is not known."""
        origin = self.origin(atom.start, atom.end)
        text = self.text[atom.start : atom.end]
        running = f"{shown(text)} is known only when it runs"
        body = self.script.cut(atom.start + (1 if text[0] == "`" else 2), atom.end - 1)
        if not _PATH_COMMAND.match(body.text):
            return Text.unknown(origin, running)
        inside = Expander(body, self.file, self.scope, self.work)
        try:
            simple = inside.command(0)
        except ScanError:
            return Text.unknown(origin, running)
        used = [text for raw in simple.words for text in inside.texts(raw)]
        words = [text.value for text in used if text.value != "--"]
        options = any(value and value.startswith("-") for value in words)
        rest = body.text[simple.stop :].strip()
        if rest or options or None in words or len(words) not in (2, 3):
            why = next((text.reason for text in used if text.reason), running)
            return Text.unknown(origin, why, related=related(used))
        output = part_of_path(*(word or "" for word in words)).rstrip("\n")
        return self._made(output, origin, used)

    def _made(self, value: str, origin: Origin, used: list[Text]) -> Text:
        """A value that was computed from others."""
        mapped = Mapped.all_at(value, origin.span)
        return Text(mapped, origin, None, related(used), None, assumed(used))


def _choose(found: tuple[Text, ...] | Missing, test: str) -> str:
    """What `${x:-w}` and its kin stand for: the value, the word, or nothing."""
    if isinstance(found, Missing):
        unset = found.reason is None or found.assumption is not None
        if not unset:
            return "value"
        return "nothing" if test.endswith("+") else "word"
    if any(text.mapped is None for text in found):
        several = len(found) > 1
        return "word" if several and test.endswith("+") else "value"
    empty = test.startswith(":") and not any(text.value for text in found)
    if test.endswith("+"):
        return "nothing" if empty or not found else "word"
    return "word" if empty or not found else "value"


def _fields(value: str) -> list[tuple[int, int]]:
    """The words in a value, with an empty range where blanks part two of them."""
    cut: list[tuple[int, int]] = []
    at = 0
    for found in _SPLIT.finditer(value):
        if found.start() > at or cut:
            cut.append((found.start(), found.start()))
        cut.append(found.span())
        at = found.end()
    if at < len(value):
        cut.append((at, at))
    return cut


def _torn(pieces: tuple[Piece, ...], value: str) -> bool:
    """Quotes begin or end inside the word, or inside what follows its `=`.

    An edit of these characters would leave a quote behind without its partner.
    """
    cut, at = value.find("=") + 1, 0
    for piece, following in pairwise(pieces):
        at += len(piece.mapped or ())
        if piece.end != following.start and cut < at < len(value):
            return True
    return False
