"""Parts of a text whose value is filled in elsewhere, carried through word splitting.

A hole is one private-use character in the text. After splitting, a word with a hole is unknown, and
a bare word that is nothing but holes can be any number of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from shardlint.known import Text
from shardlint.source import Mapped, Span

FIRST, LAST = 0xE000, 0xF8FF
_HOLE = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")


class Holes:
    """The holes of one text, and why each is one."""

    def __init__(self, text: str = "") -> None:
        self.enabled = not _HOLE.search(text)  # a text with such characters of its own has no holes
        self.reasons: list[str] = []

    def make(self, reason: str, span: Span) -> Mapped:
        self.reasons.append(reason)
        mark = chr(min(LAST, FIRST + len(self.reasons) - 1))
        return Mapped.all_at(mark, span)

    def restore(self, words: Iterable[Text]) -> tuple[Text, ...]:
        return tuple(self.restored(word) for word in words)

    def restored(self, word: Text) -> Text:
        match = _HOLE.search(word.value or "") if self.enabled else None
        if match is None or not self.reasons:
            return word
        reason = self.reasons[min(ord(match.group()) - FIRST, len(self.reasons) - 1)]
        bare = word.value == match.group() and word.mapped is not None
        whole = word.mapped.span() if word.mapped is not None else None
        many = bare and whole == word.origin.span
        return Text.unknown(word.origin, reason, related=word.related, many=many)


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
