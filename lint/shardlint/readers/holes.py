"""Parts of a text whose value is filled in elsewhere, carried through word splitting.

A hole is one private-use character in the text. After splitting, a word with a hole is unknown, and
in a script a bare word that is nothing but a hole can be any number of words.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from shardlint.known import Text
from shardlint.source import Mapped, Span

FIRST, LAST = 0xE000, 0xF8FF
_HOLE = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")
_OWN = "it holds a private-use character"


@lru_cache(maxsize=4)
def _has_own(text: str) -> bool:
    """In a text with such characters of its own nobody can tell them from holes."""
    return _HOLE.search(text) is not None


class Holes:
    """The holes of one text, why each is one, and the places filled on an assumption."""

    def __init__(self, text: str = "") -> None:
        self.reasons: list[str] = []
        self.perhaps: dict[str, tuple[str, ...]] = {}
        self.assumed: list[tuple[Span, str]] = []
        self._text = text

    def make(self, reason: str, span: Span, perhaps: tuple[str, ...] = ()) -> Mapped:
        """A hole; `perhaps` are the options that alone may fill it."""
        self.reasons.append(reason)
        mark = chr(min(LAST, FIRST + len(self.reasons) - 1))
        self.perhaps[mark] = perhaps if mark not in self.perhaps else ()
        return Mapped.all_at(mark, span)

    def assume(self, sentence: str, span: Span) -> None:
        """What is read at this place rests on the sentence; two such places never overlap."""
        insort(self.assumed, (span, sentence))

    def restore(self, words: Iterable[Text]) -> tuple[Text, ...]:
        return tuple(self.restored(word) for word in words)

    def restored(self, word: Text) -> Text:
        """The word of a script or command string, unknown if there is a hole in it."""
        match = _HOLE.search(word.value or "")
        if match is None or word.mapped is None:
            return self._resting(word)
        bare = word.value == match.group() and word.mapped.span() == word.origin.span
        reason, mark = self._reason(match.group()), match.group()
        unknown = Text.unknown(word.origin, reason, related=word.related, many=bare)
        told = self.perhaps.get(mark, ()) if bare and not _has_own(self._text) else ()
        return replace(unknown, perhaps=told) if told else unknown

    def _resting(self, word: Text) -> Text:
        """The word with the assumptions of the places that it was read from."""
        places = (word.origin.span, *(origin.span for origin in word.related))
        found = frozenset(sentence for place in places for sentence in self._at(place))
        return replace(word, assumes=word.assumes | found) if found else word

    def _at(self, place: Span) -> Iterator[str]:
        first = bisect_right(self.assumed, place.start, key=lambda row: row[0].end)
        for at in range(first, len(self.assumed)):
            span, sentence = self.assumed[at]
            if span.start >= place.end:
                return
            yield sentence

    def item(self, text: Text) -> Text:
        """An item of a list, which stays one word: unknown at once if it is nothing but a hole."""
        whole = _HOLE.fullmatch(text.value or "")
        return replace(self.restored(text), many=False, perhaps=()) if whole else text

    def _reason(self, mark: str) -> str:
        index = ord(mark) - FIRST
        known = index < len(self.reasons) and not _has_own(self._text)
        return self.reasons[index] if known else _OWN


OPTION = re.compile(r"--[a-zA-Z][\w.-]*")
VALUE = re.compile(r"""=?(?:[\w./:,+-]+|\$\{?\w+\}?|"[^"$]*"|'[^']*')""")


def options_of(word: str) -> tuple[str, ...]:
    """The options that `${x:+--option value}` stands for where the variable is set.

    Empty where the word may be anything else.
    """
    found: list[str] = []
    for part in word.split():
        name = OPTION.match(part)
        if name is not None and (name.end() == len(part) or VALUE.fullmatch(part, name.end())):
            found.append(name[0])
        elif not found or not VALUE.fullmatch(part):
            return ()
    return tuple(found)


def concat(parts: Iterable[Mapped]) -> Mapped:
    """Join decoded pieces into one text."""
    joined = Mapped("", range(0), range(0))
    pieces = [part for part in parts if part.text]
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return joined
    starts: list[int] = []
    ends: list[int] = []
    for piece in pieces:
        starts.extend(piece.starts)
        ends.extend(piece.ends)
    text = "".join(piece.text for piece in pieces)
    return Mapped(text, starts, ends, all(piece.literal for piece in pieces))
