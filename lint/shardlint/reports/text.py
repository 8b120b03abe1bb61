"""For people: each finding with the lines it is about, then what was left open and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TextIO

from shardlint.plugins import Finding, Related, Result
from shardlint.reports.colour import Paint, Style, painter
from shardlint.reports.snippet import Row, snippet
from shardlint.reports.summary import skipped, summary, undecided
from shardlint.reports.words import estimated, printable
from shardlint.source import Position, Span

name = "text"


def write(result: Result, out: TextIO) -> None:
    paint = painter(out)
    for finding in result.findings:
        for line in _finding(finding, result, paint):
            out.write(line.rstrip() + "\n")
        out.write("\n")
    for line in [*undecided(result), *skipped(result), paint(summary(result), "bold")]:
        out.write(line + "\n")


class _Piece(NamedTuple):
    """A place of a finding with its lines."""

    arrow: str
    place: str
    rows: list[Row]
    style: Style


def _finding(finding: Finding, result: Result, paint: Paint) -> Iterator[str]:
    pieces = [_primary(finding, result), *(_related(item, result) for item in finding.related)]
    widest = max((row.number or 0 for piece in pieces for row in piece.rows), default=0)
    margin = " " * len(str(widest))
    yield (
        paint(f"{finding.severity}[{finding.rule}] {finding.name}", finding.severity)
        + paint(f": {printable(finding.message)}", "bold")
    )
    notes = list(_notes(finding))
    for piece in pieces:
        yield margin + paint(piece.arrow, "gutter") + f" {printable(piece.place)}"
        yield from _snippet(piece, margin, paint)
        if piece.rows and (notes or piece is not pieces[-1]):
            yield f"{margin} {paint('|', 'gutter')}"
    for note in notes:
        yield f"{margin} {paint('=', 'gutter')} {printable(note)}"


def _primary(finding: Finding, result: Result) -> _Piece:
    rows = _rows(result, finding.file, finding.span)
    return _Piece("-->", _place(finding.file, finding.start), rows, finding.severity)


def _related(related: Related, result: Result) -> _Piece:
    span = Span(related.start.offset, related.end.offset)
    rows = _rows(result, related.file, span, related.message)
    note = "" if rows else f": {related.message}"
    return _Piece(":::", _place(related.file, related.start) + note, rows, "info")


def _place(file: str, start: Position) -> str:
    return f"{file}:{start.line}:{start.column}"


def _rows(result: Result, file: str, span: Span, label: str = "") -> list[Row]:
    """No rows where there is no text: the file could not be decoded."""
    source = result.sources.get(file)
    return snippet(source, span, label) if source else []


def _snippet(piece: _Piece, margin: str, paint: Paint) -> Iterator[str]:
    bar = paint("|", "gutter")
    if piece.rows:
        yield f"{margin} {bar}"
    for row in piece.rows:
        number = paint(str(row.number or "").rjust(len(margin)), "gutter")
        text = row.text if row.number else paint(row.text, piece.style)
        yield f"...{margin}{text}" if row.gap else f"{number} {bar} {text}"


def _notes(finding: Finding) -> Iterator[str]:
    if finding.help:
        yield f"help: {finding.help}"
    yield from (f"assumes: {sentence}" for sentence in finding.assumes)
    for fix in finding.fixes:
        numbers = estimated(fix.estimate)
        yield f"fix ({fix.applicability}): {fix.title}" + (f" ({numbers})" if numbers else "")
    if finding.url:
        yield f"see: {finding.url}"
