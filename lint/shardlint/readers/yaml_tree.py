"""YAML as a tree of nodes with exact spans, also for the characters inside a scalar.

libyaml gives events with marks (through ruamel.yaml.clib); the tree is built here without
recursion, so that nesting and aliases cost only what is written in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from shardlint.known import Known, Text
from shardlint.source import Mapped, Origin, Source, Span

MAX_DEPTH = 200
"""Deeper nesting is refused: no manifest has it, and readers walk the tree recursively."""

MAX_NODES = 1_000_000

PURE_LIMIT = 300_000
"""Characters up to which a text that libyaml refuses is read again by the slower parser."""

Kind: TypeAlias = Literal["map", "list", "scalar"]


class YamlError(Exception):
    """The text is not YAML; `span` is where that shows."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.span = span


@dataclass(slots=True, eq=False)
class Node:
    """A map, list or scalar. An alias is a node of its own place with the anchor's content."""

    kind: Kind
    span: Span
    source: Source = field(repr=False)
    value: str = ""
    style: str | None = None
    tag: str | None = None
    alias: bool = False
    flow: bool = False
    """A map or list in brackets."""
    pairs: list[tuple[Node, Node]] = field(default_factory=list, repr=False)
    items: list[Node] = field(default_factory=list, repr=False)
    parts: tuple[Node, ...] = field(default=(), repr=False)
    """The maps or lists of one file each that this one was put together from, the last first."""

    unknown: str | None = None
    """Why the value of a scalar is not known, where it is put together from others."""

    anchored: Span | None = None
    """Of an alias, where its content stands."""

    mapped: Mapped | None = field(default=None, repr=False)
    """The characters of a scalar that has been filled in, each with its place."""

    @property
    def written(self) -> Node:
        """The map or list as it stands in a file: of several, the one that was laid on last."""
        node = self
        while node.parts:
            node = node.parts[0]
        return node

    @property
    def origin(self) -> Origin:
        return Origin(self.source.name, self.span)

    @property
    def is_null(self) -> bool:
        plain = self.kind == "scalar" and self.style is None and self.tag is None
        return plain and self.value in ("", "~", "null", "Null", "NULL")

    @property
    def is_merge(self) -> bool:
        """The key `<<`, which adds the entries of other maps."""
        return self.kind == "scalar" and self.style is None and self.value == "<<"

    @property
    def is_string(self) -> bool:
        return self.kind == "scalar" and not self.is_null

    def entries(self) -> Iterator[tuple[Node, Node]]:
        """Pairs of a map, those merged with `<<` after its own; a repeated key counts once."""
        if self.kind != "map":
            return
        own = {key.value: (key, value) for key, value in self.pairs if not key.is_merge}
        yield from own.values()
        for base in _merged(self):
            for key, value in base.pairs:
                if key.value not in own and not key.is_merge:
                    own[key.value] = (key, value)
                    yield key, value

    def pair(self, name: str) -> tuple[Node, Node] | None:
        """Key node and value node of one entry; an entry without a value counts as missing."""
        merges = False
        for key, value in reversed(self.pairs):
            if key.value == name and key.kind == "scalar" and not key.is_merge:
                return None if value.is_null else (key, value)
            merges = merges or key.is_merge
        for key, value in self.entries() if merges else ():
            if key.value == name and key.kind == "scalar":
                return None if value.is_null else (key, value)
        return None

    def get(self, *path: str | int) -> Node | None:
        """The node at a path of keys and indices, or None."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            if isinstance(step, int):
                node = node.items[step] if node.kind == "list" and step < len(node.items) else None
            else:
                found = node.pair(step)
                node = found[1] if found else None
        return node

    def string(self, *path: str | int) -> str | None:
        """The value of a scalar at a path."""
        node = self.get(*path)
        return node.value if node is not None and node.is_string else None

    def text(self) -> Text:
        """The scalar with the place of every character."""
        if self.kind != "scalar":
            written = self.source.text[self.span.start : self.span.end]
            filled = placeholder(written) if written.startswith("{{") else None
            reason = filled or f"a {self.kind} where a scalar is expected"
            return Text.unknown(self.origin, reason)
        if self.unknown is not None:
            return Text.unknown(self.origin, self.unknown)
        if self.mapped is not None:
            return Text(self.mapped, self.origin)
        if not self.alias:
            return Text(characters(self), self.origin)
        there = (Origin(self.source.name, self.anchored),) if self.anchored is not None else ()
        return Text(Mapped.all_at(self.value, self.span), self.origin, None, there)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, without following aliases."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            if node.alias:
                continue
            todo.extend(reversed(node.items))
            todo.extend(value for _, value in reversed(node.pairs))


def _merged(node: Node) -> Iterator[Node]:
    """Maps that are merged into one, also by way of others; each once, so that a cycle ends."""
    seen = {id(node.pairs)}
    todo = _bases(node)
    while todo:
        base = todo.pop()
        if base.kind == "map" and id(base.pairs) not in seen:
            seen.add(id(base.pairs))
            yield base
            todo += _bases(base)


def _bases(node: Node) -> list[Node]:
    """What the merge keys of a map name, the last first."""
    named = [value for key, value in node.pairs if key.is_merge]
    bases = [base for value in named for base in (value.items or [value])]
    return bases[::-1]


# ---------------------------------------------------------------------------------- documents


BOM = "\ufeff"
"""At the start of a text it is no character of the document, and libyaml does not count it."""


def documents(source: Source) -> list[Node]:
    """The documents of a YAML or JSON text; raises YamlError."""
    try:
        return _parse(source, _fast_events)
    except YamlError:
        # libyaml refuses some plain scalars with a colon in flow lists, such as [8000:8000].
        if len(source.text) > PURE_LIMIT:
            raise
        return _parse(source, _pure_events)


def _fast_events(text: str) -> Iterator[Any]:
    from _ruamel_yaml import CParser

    parser = CParser(text)
    while (event := parser.get_event()) is not None:
        yield event


def _pure_events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    yield from YAML(typ="safe", pure=True).parse(text)


def _parse(source: Source, events: Callable[[str], Iterator[Any]]) -> list[Node]:
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    builder = _Builder(source)
    text, shift = _without_schemas(source.text)[builder.shift :], builder.shift
    try:
        return builder.build(events(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = min(mark.index + shift if mark else 0, len(source.text))
        what = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise YamlError(what or "not YAML", Span(at, min(at + 1, len(source.text)))) from None
    except ReaderError:
        raise _forbidden(source.text, shift) from None
    except (ValueError, IndexError, AssertionError, RecursionError) as error:
        # The parsers fail in these ways on texts that are not YAML, and then know no place.
        raise YamlError(f"not YAML ({error})", Span(0, 0)) from None


LONG = 1 << 17
"""Characters from which it takes longer to read a text than to look for what need not be read."""
_BREAK = re.compile(r"^---(?=[ \t\r\n]|$)", re.MULTILINE)
_SCHEMA = re.compile(r"^kind:[ \t]*CustomResourceDefinition\b", re.MULTILINE)
_VISIBLE = re.compile(r"[^\r\n]+")


def _without_schemas(text: str) -> str:
    """A long text whose definitions of custom resources are blank: every place stays where it is.

    They are most of what installs an operator, and nothing is served by them.
    """
    if len(text) < LONG or not _SCHEMA.search(text):
        return text
    starts = [0, *(found.end() for found in _BREAK.finditer(text))]
    ends = [*(found.start() for found in _BREAK.finditer(text)), len(text)]
    parts = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    kept = [
        _VISIBLE.sub(lambda found: " " * len(found[0]), part) if _SCHEMA.search(part) else part
        for part in parts
    ]
    return "---".join(kept)


_FORBIDDEN = "[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
"""Compiled only when a text is refused: it takes longer than reading a file."""


def _forbidden(text: str, start: int) -> YamlError:
    """The first character that YAML does not allow; libyaml counts bytes, so look for it here."""
    found = re.search(_FORBIDDEN, text, start)
    if found is None:
        return YamlError("a character is not allowed", Span(0, 0))
    return YamlError(f"U+{ord(found.group()):04X} is not allowed in YAML", Span(*found.span()))


_BLANK = r" \t\r\n\x85\u2028\u2029"
_PROPERTIES = re.compile(rf"(?:[&!][^{_BLANK}]*(?:[{_BLANK}]|#.*)*)+")
"""Anchor and tag before a value, which libyaml counts as part of it. No-break spaces are no
blanks."""


class _Builder:
    """Builds trees from a stream of libyaml events."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.shift = len(BOM) if source.text.startswith(BOM) else 0
        self.roots: list[Node] = []
        self.open: list[Node] = []
        self.keys: list[Node | None] = []
        self.anchors: dict[str, Node] = {}
        self.count = 0

    def build(self, stream: Iterator[Any]) -> list[Node]:
        from ruamel.yaml import events

        handlers: dict[type, Callable[[Any], None]] = {
            events.ScalarEvent: self._scalar,
            events.AliasEvent: self._alias,
            events.SequenceStartEvent: self._list,
            events.MappingStartEvent: self._map,
            events.SequenceEndEvent: self._end,
            events.MappingEndEvent: self._end,
            events.DocumentStartEvent: self._document,
        }
        for event in stream:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
        return self.roots

    def _document(self, _event: Any) -> None:
        self.anchors = {}

    def _span(self, event: Any) -> Span:
        return Span(event.start_mark.index + self.shift, event.end_mark.index + self.shift)

    def _scalar(self, event: Any) -> None:
        style, span = event.style or None, self._span(event)
        if event.anchor or event.tag:
            found = _PROPERTIES.match(self.source.text, span.start, span.end)
            span = Span(found.end(), span.end) if found else span
        value = _paired(event.value) if style == '"' else event.value
        node = Node("scalar", span, self.source, value, style)
        node.tag = None if any(event.implicit) else _tag(event)
        self._add(node, event.anchor)

    def _alias(self, event: Any) -> None:
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            raise YamlError(f"alias *{event.anchor} has no anchor", self._span(event))
        node = Node(
            anchored.kind, self._span(event), self.source, anchored.value, anchored.style,
            anchored.tag, True, anchored.flow, anchored.pairs, anchored.items,
            anchored=anchored.anchored or anchored.span,
        )  # fmt: skip
        self._add(node, None)

    def _list(self, event: Any) -> None:
        self._start(self._collection("list", event), event.anchor)

    def _map(self, event: Any) -> None:
        self._start(self._collection("map", event), event.anchor)

    def _collection(self, kind: Kind, event: Any) -> Node:
        flow = bool(event.flow_style)
        return Node(kind, self._span(event), self.source, tag=_tag(event), flow=flow)

    def _start(self, node: Node, anchor: str | None) -> None:
        self._add(node, anchor)
        self.open.append(node)
        self.keys.append(None)
        if len(self.open) > MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH} levels", node.span)

    def _end(self, event: Any) -> None:
        node = self.open.pop()
        self.keys.pop()
        node.span = Span(node.span.start, event.end_mark.index + self.shift)

    def _add(self, node: Node, anchor: str | None) -> None:
        self.count += 1
        if self.count > MAX_NODES:
            raise YamlError(f"more than {MAX_NODES:,} nodes", node.span)
        if anchor:
            self.anchors[anchor] = node
        if not self.open:
            self.roots.append(node)
        elif self.open[-1].kind == "list":
            self.open[-1].items.append(node)
        elif (key := self.keys[-1]) is None:
            self.keys[-1] = node
        else:
            self.open[-1].pairs.append((key, node))
            self.keys[-1] = None


_SURROGATE = re.compile("[\ud800-\udfff]")


def _paired(value: str) -> str:
    """JSON writes a character beyond U+FFFF as two escapes, which are no characters alone."""
    if _SURROGATE.search(value) is None:
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _tag(event: Any) -> str | None:
    return str(event.tag) if getattr(event, "tag", None) else None


# ------------------------------------------------------------------- characters of a scalar


def characters(node: Node) -> Mapped:
    """The value of a scalar with the place of each character.

    What this decoding does not reproduce exactly is mapped to the whole scalar, which can be shown
    but not edited.
    """
    text = node.source.text
    raw = text[node.span.start : node.span.end]
    if node.style in ("|", ">"):
        candidates: Iterator[Mapped] = _block(raw, node.span.start, folded=node.style == ">")
    else:
        candidates = iter((_flow(raw, node.span.start, node.style),))
    for mapped in candidates:
        if mapped.text == node.value:
            return mapped
    return Mapped.all_at(node.value, node.span)


class _Chars:
    """Collects characters with their places."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, char: str, start: int, end: int) -> None:
        for one in char:
            self.text.append(one)
            self.starts.append(start)
            self.ends.append(end)

    def copy(self, raw: str, base: int) -> None:
        self.text.extend(raw)
        self.starts.extend(range(base, base + len(raw)))
        self.ends.extend(range(base + 1, base + len(raw) + 1))

    def strip_blanks(self) -> None:
        while self.text and self.text[-1] in " \t" and self.ends[-1] - self.starts[-1] == 1:
            del self.text[-1], self.starts[-1], self.ends[-1]

    def mapped(self, literal: bool = True) -> Mapped:
        return Mapped("".join(self.text), self.starts, self.ends, literal)


def _flow(raw: str, base: int, style: str | None) -> Mapped:
    quoted = style in ("'", '"')
    if quoted:
        raw, base = raw[1:-1], base + 1
    special = "'" in raw if style == "'" else style == '"' and "\\" in raw
    if "\n" not in raw and "\r" not in raw and not special:
        return Mapped(raw, range(base, base + len(raw)), range(base + 1, base + len(raw) + 1))
    chars, at = _Chars(), 0
    while at < len(raw):
        at = _flow_step(raw, at, base, style, chars)
    return chars.mapped(literal=not special)


def _flow_step(raw: str, at: int, base: int, style: str | None, chars: _Chars) -> int:
    """Decode one character, escape or run of line breaks; returns the next index."""
    char = raw[at]
    if char in "\r\n":
        return _fold(raw, at, base, chars)
    if style == "'" and raw.startswith("''", at):
        chars.add("'", base + at, base + at + 2)
        return at + 2
    if style == '"' and char == "\\":
        return _escape(raw, at, base, chars)
    chars.copy(char, base + at)
    return at + 1


def _fold(raw: str, at: int, base: int, chars: _Chars) -> int:
    """Line breaks in a flow scalar: one is a space, n are n-1 newlines; blanks around vanish."""
    chars.strip_blanks()
    match = re.compile(r"(?:\r\n|\r|\n)[ \t]*(?:(?:\r\n|\r|\n)[ \t]*)*").match(raw, at)
    assert match is not None
    breaks = len(re.findall(r"\r\n|\r|\n", match.group()))
    chars.add(" " if breaks == 1 else "\n" * (breaks - 1), base + at, base + match.end())
    return match.end()


_SIMPLE = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_HEX = {"x": 2, "u": 4, "U": 8}


def _escape(raw: str, at: int, base: int, chars: _Chars) -> int:
    code = raw[at + 1 : at + 2]
    if code in ("\r", "\n"):  # an escaped line break joins the lines
        match = re.compile(r"\\(?:\r\n|\r|\n)[ \t]*").match(raw, at)
        assert match is not None
        return match.end()
    size = _HEX.get(code)
    if size:
        digits = raw[at + 2 : at + 2 + size]
        value = int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]+", digits) else 0xFFFD
        chars.add(chr(value) if value <= 0x10FFFF else "", base + at, base + at + 2 + size)
        return at + 2 + size
    chars.add(_SIMPLE.get(code, code), base + at, base + at + 2)
    return at + 2


_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")


def _block(raw: str, base: int, *, folded: bool) -> Iterator[Mapped]:
    """Decodings of a block scalar: with the indentation found, else with each smaller one."""
    header = _LINE.match(raw)
    assert header is not None
    indicators = header.group(1).split("#")[0]
    keep, strip = "+" in indicators, "-" in indicators
    lines = list(_lines(raw, header.end()))
    leading = [len(text) - len(text.lstrip(" ")) for _, text, _ in lines]
    first = next((at for at, (_, text, _) in enumerate(lines) if text.strip(" ")), None)
    found = leading[first] if first is not None else max(leading, default=0)
    explicit = re.search(r"\d", indicators)
    for indent in range(found, -1, -1) if explicit else (found,):
        yield _block_lines(lines, base, indent, folded, keep, strip)


def _lines(raw: str, at: int) -> Iterator[tuple[int, str, int]]:
    """Offset, text and length of the line end of each line."""
    while at < len(raw):
        match = _LINE.match(raw, at)
        assert match is not None
        yield at, match.group(1), len(match.group(2))
        at = match.end() if match.end() > at else len(raw)


def _block_lines(
    lines: list[tuple[int, str, int]], base: int, indent: int, folded: bool, keep: bool, strip: bool
) -> Mapped:
    chars = _Chars()
    breaks: list[tuple[int, int]] = []  # line ends that are not written yet
    previous: str | None = None
    for at, text, end in lines:
        content = text[indent:]
        if not text.strip(" ") and len(text) <= indent:  # an empty line
            breaks.append((base + at + len(text), base + at + len(text) + end))
            continue
        if len(text) - len(text.lstrip(" ")) < indent:
            break  # the block is over
        _write_breaks(chars, breaks, previous, content, folded)
        chars.copy(content, base + at + indent)
        breaks = [(base + at + len(text), base + at + len(text) + end)]
        previous = content
    written = breaks if previous is not None else breaks if keep else []
    if strip:
        written = []
    elif not keep:
        written = written[:1]
    for start, end in written:
        if end > start:
            chars.add("\n", start, end)
    return chars.mapped()


def _write_breaks(
    chars: _Chars, breaks: list[tuple[int, int]], previous: str | None, text: str, folded: bool
) -> None:
    """Line ends before a line of content: kept, or folded between two lines of plain text."""
    foldable = folded and previous is not None and previous[:1] not in (" ", "\t")
    if foldable and text[:1] not in (" ", "\t") and breaks:
        if len(breaks) == 1:
            chars.add(" ", *breaks[0])
        for start, end in breaks[1:]:
            chars.add("\n", start, end)
        return
    for start, end in breaks:
        chars.add("\n", start, end)


# ----------------------------------------------------------------------------------- values

_PLACEHOLDER = re.compile(
    r"\{\{|\$\{|\$\(|\$[A-Za-z_]|<[^\W_][^<>]*>|__[A-Z][A-Z0-9_]*__|^\{[A-Za-z_]\w*\}$"
)


def placeholder(value: str) -> str | None:
    """Why a value is no value yet: it carries a template, a variable or a blank to fill in."""
    match = _PLACEHOLDER.search(value)
    return f"{value.strip()!r} is filled in elsewhere" if match else None


def integer(node: Node | None) -> Known[int]:
    """A whole number, quoted or not; unset if there is no node."""
    if node is None:
        return Known.unset()
    text = node.text()
    value = (text.value or "").strip()
    plain = node.style is None and node.tag is None
    if re.fullmatch(r"[+-]?(0|[1-9][0-9]{0,17})" if plain else r"[+-]?[0-9]{1,18}", value):
        return Known.of(int(value), text.place)
    reason = text.reason or placeholder(value) or f"{value!r} is not a whole number"
    return Known.unknown(reason, text.place)
