"""A span of a source as rows: its lines with their numbers, and marks under the span."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from shardlint.record import record
from shardlint.reports.words import printable
from shardlint.source import Source, Span

TAB = " " * 4
WIDTH = 100
"""Characters of a line that are shown; a longer line is cut around the span."""
LEAD = 40
"""Characters kept before the span when its line is cut."""
HEAD, TAIL = 3, 2
"""Lines shown at either end of a span over many lines."""


@record
class Row:
    """A line of the snippet: source text under its number, or marks without one."""

    text: str
    number: int | None = None
    gap: bool = False


@record
class _Place:
    """A span as zero-based columns of its first and last line, line ends left out."""

    first: int
    last: int
    start: int
    end: int


def snippet(source: Source, span: Span, label: str = "") -> list[Row]:
    """The lines of a span, with marks and a label below; without a label also the line before."""
    place = _place(source, span)
    draw = _one_line if place.first == place.last else _many_lines
    before = [] if label else _context(source, place)
    return [*before, *draw(source, place, f" {printable(label)}".rstrip())]


def _place(source: Source, span: Span) -> _Place:
    end = span.end
    while end > span.start and source.text[end - 1 : end] in ("\r", "\n"):
        end -= 1
    first, last = source.position(span.start), source.position(end)
    return _Place(first.line, last.line, first.column - 1, last.column - 1)


def _context(source: Source, place: _Place) -> Iterator[Row]:
    """The line before: a list item says little without the option above it."""
    if place.first > 1 and (text := source.line_text(place.first - 1)).strip():
        indent = "" if place.first == place.last else "  "
        yield Row(indent + _clipped(text), place.first - 1)


def _one_line(source: Source, place: _Place, label: str) -> Iterator[Row]:
    before, inside, after = (
        _shown(part) for part in _cut(source.line_text(place.first), place.start, place.end)
    )
    yield Row(before + inside + after, place.first)
    yield Row(" " * columns(before) + "^" * max(1, columns(inside)) + label)


def _many_lines(source: Source, place: _Place, label: str) -> Iterator[Row]:
    """A bar on the left from the first character to the last."""
    first, last = source.line_text(place.first), source.line_text(place.last)
    flush = not first[: place.start].strip()
    yield Row(("/ " if flush else "  ") + _clipped(first), place.first)
    if not flush:
        yield Row(" _" + _reach(first, place.start) + "^")
    yield from _middle(source, place)
    yield Row("| " + _clipped(last), place.last)
    yield Row("|_" + _reach(last, place.end - 1) + "^" + label)


def _middle(source: Source, place: _Place) -> Iterator[Row]:
    many = place.last - place.first >= HEAD + TAIL + 1
    for line in range(place.first + 1, place.last):
        if many and line == place.first + HEAD:
            yield Row("|", gap=True)
        if not many or line < place.first + HEAD or line > place.last - TAIL:
            yield Row(("| " + _clipped(source.line_text(line))).rstrip(), line)


def _reach(line: str, column: int) -> str:
    return "_" * columns(_shown(line[: min(column, WIDTH)]))


def _cut(line: str, start: int, end: int) -> tuple[str, str, str]:
    """What stands before, inside and after the span, cut to WIDTH around it."""
    if len(line) <= WIDTH:
        return line[:start], line[start:end], line[end:]
    first = max(0, min(start - LEAD, len(line) - WIDTH))
    last = first + WIDTH
    before = ("..." if first else "") + line[first:start]
    after = line[min(end, last) : last] + ("..." if last < len(line) else "")
    return before, line[start : min(end, last)], after


def _clipped(line: str) -> str:
    return _shown(line if len(line) <= WIDTH else f"{line[:WIDTH]}...")


def _shown(text: str) -> str:
    """Tabs as four columns, and nothing that a terminal would obey."""
    return printable(text.replace("\t", TAB))


def columns(text: str) -> int:
    """Terminal columns of a text."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
