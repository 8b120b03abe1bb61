"""Texts and places in them.

The text is the only truth. A place is a pair of offsets into it, counted in code points; lines and
columns are computed from offsets when somebody wants to read them.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter

from shardlint.record import record


@record(order=True)
class Span:
    """Half-open range of code point offsets."""

    start: int
    end: int

    def covers(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


@record(order=True)
class Origin:
    """Where something was read: a file and a span in its text."""

    file: str
    span: Span


@record(order=True)
class Position:
    """A place as people read it: line and column from 1, column in code points; offset from 0."""

    line: int
    column: int
    offset: int


@record
class Edit:
    """Replace `span` of `file` by `text`; an empty span inserts."""

    file: str
    span: Span
    text: str


class EditConflict(Exception):
    """Two edits touch the same text."""

    def __init__(self, edit: Edit) -> None:
        super().__init__(f"{edit.file}: two edits meet at offset {edit.span.start}")
        self.edit = edit


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Apply all edits or raise EditConflict; what lies outside the spans stays as it is."""
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=attrgetter("span")):
        if edit.span.start < at:
            raise EditConflict(edit)
        parts += text[at : edit.span.start], edit.text
        at = edit.span.end
    return "".join(parts) + text[at:]


class DecodeError(Exception):
    """The bytes are not UTF-8; `line` and `column` (from 1) tell where that shows first."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line, self.column = line, column


@record
class Source:
    """One text under its display name; `bom`: the bytes start with a UTF-8 byte order mark."""

    name: str
    text: str
    bom: bool = False

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> Source:
        """Decode as UTF-8, keeping line ends; raises DecodeError."""
        bom = data.startswith(codecs.BOM_UTF8)
        body = data[len(codecs.BOM_UTF8) :] if bom else data
        try:
            return cls(name, body.decode("utf-8"), bom)
        except UnicodeDecodeError as error:
            before = body[: error.start]
            line = before.count(b"\n") + 1
            last = before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")
            what = f"byte 0x{body[error.start]:02x} is not UTF-8"
            raise DecodeError(what, line, len(last) + 1) from None

    def to_bytes(self) -> bytes:
        return (codecs.BOM_UTF8 if self.bom else b"") + self.text.encode("utf-8")

    @cached_property
    def _line_starts(self) -> list[int]:
        # "\n" alone ends a line here: str.splitlines would also break at U+0085 and U+2028.
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    @property
    def line_count(self) -> int:
        return len(self._line_starts)

    def position(self, offset: int) -> Position:
        """The position of an offset; one past the end is clamped to the end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1, offset)

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column (from 1), clamped to the text."""
        start = self._line_starts[min(line, self.line_count) - 1]
        return min(start + column - 1, len(self.text))

    def line_span(self, line: int) -> Span:
        """The span of a line (from 1) without its line end."""
        start = self._line_starts[line - 1]
        last = line == self.line_count
        end = len(self.text) if last else self._line_starts[line] - 1
        if end > start and self.text[end - 1] == "\r":
            end -= 1
        return Span(start, end)

    def line_text(self, line: int) -> str:
        span = self.line_span(line)
        return self.text[span.start : span.end]

    def utf16_column(self, offset: int) -> int:
        """Zero-based column in UTF-16 code units, as the Language Server Protocol counts."""
        position = self.position(offset)
        start = self._line_starts[position.line - 1]
        return len(self.text[start : position.offset].encode("utf-16-le")) // 2


@record
class Mapped:
    """A text that was decoded from a source, and where each of its characters came from.

    `starts[i]` and `ends[i]` are the source offsets around character i. A slice of the source has
    ranges there, so it costs no memory. `literal` says that the text can be edited by editing the
    source: its characters stand there as they are, without escapes or variables.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    literal: bool = True

    @classmethod
    def slice_of(cls, source: str, span: Span) -> Mapped:
        return cls(
            source[span.start : span.end],
            range(span.start, span.end),
            range(span.start + 1, span.end + 1),
        )

    @classmethod
    def all_at(cls, text: str, span: Span) -> Mapped:
        """Every character comes from the whole span: an expansion, an escape not to be split."""
        return cls(text, [span.start] * len(text), [span.end] * len(text), literal=False)

    def __len__(self) -> int:
        return len(self.text)

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """The source span of characters start to end; of an empty range, an empty span."""
        end = len(self.text) if end is None else end
        if start < end:
            return Span(self.starts[start], self.ends[end - 1])
        if start < len(self.text):
            return Span(self.starts[start], self.starts[start])
        at = self.ends[-1] if self.text else 0
        return Span(at, at)

    def cut(self, start: int, end: int | None = None) -> Mapped:
        end = len(self.text) if end is None else end
        return Mapped(
            self.text[start:end], self.starts[start:end], self.ends[start:end], self.literal
        )

    def __add__(self, other: Mapped) -> Mapped:
        if not self.text:
            return other
        if not other.text:
            return self
        adjacent = isinstance(self.starts, range) and isinstance(other.starts, range)
        if adjacent and self.ends[-1] == other.starts[0]:
            span = Span(self.starts[0], other.ends[-1])
            return Mapped(
                self.text + other.text,
                range(span.start, span.end),
                range(span.start + 1, span.end + 1),
                self.literal and other.literal,
            )
        return Mapped(
            self.text + other.text,
            [*self.starts, *other.starts],
            [*self.ends, *other.ends],
            self.literal and other.literal,
        )
