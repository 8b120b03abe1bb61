"""Sites: the edits that give a field another value, in the style of the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shardlint.known import Text
from shardlint.plan import Flag, Refusal
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Edit, Source, Span

PLAIN = re.compile(r"[A-Za-z0-9_./:=-]+")
"""Values that need no quotes anywhere; others are not written."""


@record
class TextSite:
    """One or more tokens that carry the same value, such as limits and requests."""

    texts: tuple[Text, ...]

    def set(self, value: str) -> list[Edit] | Refusal:
        if not PLAIN.fullmatch(value):
            return Refusal(f"{value!r} cannot be written without quoting")
        edits = []
        for text in self.texts:
            place = text.editable
            if place is None:
                return Refusal(f"{text.value or text.reason} is put together elsewhere")
            edits.append(Edit(place.file, place.span, value))
        return edits


@record
class RefusedSite:
    """A field that is there and cannot be edited, with the reason."""

    reason: str

    def set(self, value: str) -> list[Edit] | Refusal:
        return Refusal(self.reason)


@record
class FlagSite:
    """Where one option stands in a command line, or would stand: after the words of `neighbour`."""

    source: Source
    name: str
    flag: Flag | None
    neighbour: Flag | None
    lists: tuple[Node, ...] = ()

    def set(self, value: str) -> list[Edit] | Refusal:
        if self.flag is not None:
            return self._replace(self.flag, value)
        if self.neighbour is None:
            return Refusal(f"no place was found for {self.name}")
        return self._insert(self.neighbour, value)

    def _replace(self, flag: Flag, value: str) -> list[Edit] | Refusal:
        if flag.value is None:
            return Refusal(f"{self.name} has no value")
        return TextSite((flag.value,)).set(value)

    def _insert(self, neighbour: Flag, value: str) -> list[Edit] | Refusal:
        after = neighbour.value or neighbour.written
        inline = neighbour.value is not None and neighbour.written.origin.span.covers(
            neighbour.value.origin.span
        )
        words = [f"{self.name}={value}"] if inline else [self.name, value]
        last = neighbour.written if inline else after
        if last.mapped is None or last.related:
            return Refusal(f"{self.name} has no literal neighbour to stand beside")
        return [insert_words(self.source, self.lists, last, words)]


@record
class SpellingSite:
    """The name of one option, without its value."""

    flag: Flag

    def set(self, value: str) -> list[Edit] | Refusal:
        written = self.flag.written
        if written.mapped is None or not written.mapped.literal:
            return Refusal("the option is put together elsewhere")
        name = written.mapped.text.split("=", 1)[0].split(".", 1)[0]
        return [Edit(written.origin.file, written.mapped.span(0, len(name)), value)]


def insert_words(source: Source, lists: Sequence[Node], after: Text, words: Sequence[str]) -> Edit:
    """Write words after a word: as items of its list, or beside it in a command line."""
    for node in lists:
        for item in node.items:
            if item.span.covers(after.origin.span) and item.value == after.value:
                return _insert_items(source, node, item, words)
    at = after.origin.span.end
    return Edit(source.name, Span(at, at), "".join(f" {word}" for word in words))


def _insert_items(source: Source, node: Node, item: Node, words: Sequence[str]) -> Edit:
    quote = item.style if item.style in ("'", '"') else ""
    if not quote and any(re.fullmatch(r"[\d.]+", word) for word in words):
        quote = '"'  # a bare number would be no string
    written = [f"{quote}{word}{quote}" for word in words]
    if source.text.startswith("[", node.span.start):
        at = item.span.end
        return Edit(source.name, Span(at, at), "".join(f", {word}" for word in written))
    line = source.position(item.span.start).line
    span = source.line_span(line)
    head = source.text[span.start : item.span.start]
    end = source.line_span(source.position(item.span.end).line).end
    newline = "\r\n" if source.text.startswith("\r\n", end) else "\n"
    lead = head if head.strip() == "-" else " " * (len(head) - 2) + "- "
    return Edit(source.name, Span(end, end), "".join(f"{newline}{lead}{word}" for word in written))
