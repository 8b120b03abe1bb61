"""Sites: the edits that give a field another value, in the style of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TypeAlias

from shardlint.known import Text
from shardlint.plan import Flag, Refusal, Site
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Edit, Origin, Source, Span

PLAIN = re.compile(r"[A-Za-z0-9_./=-]+(?::[A-Za-z0-9_./=-]+)*")
"""Values that need no quotes anywhere; others are not written."""


ON, OFF = "True", "False"
"""What a switch is set to."""


def one_word(option: str, value: str) -> str | Refusal:
    """The word that gives an option its value; a switch is turned on by its name."""
    if value == OFF:
        return Refusal(f"{option} is not there")
    if not PLAIN.fullmatch(value):
        return Refusal(f"{value!r} cannot be written without quoting")
    return option if value == ON else f"{option}={value}"


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
                return Refusal(f"{text.value or text.reason or 'it'} is put together elsewhere")
            edits.append(Edit(place.file, place.span, value))
        return edits


@record
class RefusedSite:
    """A field that is there and cannot be edited, with the reason."""

    reason: str

    def set(self, value: str) -> list[Edit] | Refusal:
        return Refusal(self.reason)


@record
class MadeSite:
    """Edits that a function makes."""

    made: Callable[[str], list[Edit] | Refusal]

    def set(self, value: str) -> list[Edit] | Refusal:
        return self.made(value)


@record
class JointSite:
    """The same field in several branches of a script: all are set, or none."""

    sites: tuple[Site, ...]

    def set(self, value: str) -> list[Edit] | Refusal:
        edits: dict[Edit, None] = {}
        for site in self.sites:
            made = site.set(value)
            if isinstance(made, Refusal):
                return made
            edits |= dict.fromkeys(made)
        return list(edits)


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


# ------------------------------------------------------------------------------ command lines

BLANK = re.compile(r"(?:[ \t\r\n]|\\\r?\n)+")
"""What may stand between two words of one command, over continued lines."""


@record
class OptionSite:
    """One option with its values: removed, or written as other words.

    `before` and `behind` are the words around it; `nodes` as in a Slot.
    """

    source: Source
    flag: Flag
    before: Text | None
    behind: Text | None
    nodes: tuple[Node, ...] = ()

    @property
    def words(self) -> tuple[Text, ...]:
        """The words of the command line that make up the option."""
        flag = self.flag
        values = [text for text in (flag.value, *flag.more) if text is not None]
        own = [text for text in values if not _inside(text, flag.written)]
        return (flag.written, *own)

    def set(self, value: str) -> list[Edit] | Refusal:
        """`value` are the new words; without any, the option is removed."""
        for word in self.words:
            if word.mapped is None or not word.mapped.literal:
                return Refusal("the option is put together elsewhere")
        return self._replaced(value) if value else self._removed()

    def _replaced(self, value: str) -> list[Edit] | Refusal:
        name, _, given = value.partition(" ")
        renamed = SpellingSite(self.flag).set(name)
        if self.flag.problem == "ignored explicit argument":
            return TextSite((self.flag.written,)).set(value)
        if not given or isinstance(renamed, Refusal):
            return renamed
        if self.flag.value is not None or not PLAIN.fullmatch(given):
            return Refusal("the option has a value of its own")
        found = self._item(self.flag.written)
        if found is not None:
            node, item = found
            more = insert_items(node, item, [_quote(given, item)])
            return more if isinstance(more, Refusal) else [*renamed, *more]
        return [replace(renamed[0], text=value)]

    def _removed(self) -> list[Edit] | Refusal:
        found = [self._item(word) for word in self.words]
        items = [each for each in found if each is not None]
        if not items:
            return self._cut()
        if len(items) < len(found) or any(node is not items[0][0] for node, _ in items):
            return Refusal("the option and its value stand in different places")
        return remove_items(items[0][0], [item for _, item in items])

    def _item(self, word: Text) -> tuple[Node, Node] | None:
        """The list and the item that is this word."""
        for node in self.nodes:
            for item in node.items:
                if item.origin == word.origin and _is_word(item, word):
                    return (node, item)
        return None

    def _cut(self) -> list[Edit] | Refusal:
        """Out of a script or a command string, with the blanks on one side."""
        words = self.words
        if self.nodes and not any(_holds(node, words[0]) for node in self.nodes):
            return Refusal("no place was found for the option")
        start, end = words[0].origin.span.start, words[-1].origin.span.end
        if not all(self._adjacent(one, two) for one, two in pairwise(words)):
            return Refusal("the option and its value stand in different places")
        if self.before is not None and self._adjacent(self.before, words[0]):
            start = self.before.origin.span.end
        elif self.behind is not None and self._adjacent(words[-1], self.behind):
            end = self.behind.origin.span.start
        else:
            return Refusal("nothing would be left in its place")
        return [Edit(self.source.name, Span(start, end), "")]

    def _adjacent(self, one: Text, two: Text) -> bool:
        between = self.source.text[one.origin.span.end : two.origin.span.start]
        same = one.origin.file == two.origin.file == self.source.name
        return same and bool(BLANK.fullmatch(between))


def _inside(text: Text, word: Text) -> bool:
    return text.origin.file == word.origin.file and word.origin.span.covers(text.origin.span)


def remove_items(node: Node, items: Sequence[Node]) -> list[Edit] | Refusal:
    """Take items out of a list, with their lines or their commas."""
    if any(item.source.name != items[0].source.name for item in node.items):
        return Refusal("the list is put together from several files")
    source, at = (
        items[0].source,
        [index for index, item in enumerate(node.items) if any(item is one for one in items)],
    )
    if len(at) == len(node.items):
        return Refusal("nothing would be left in the list")
    if node.alias or any(item.alias for item in items):
        return Refusal("an anchor holds the option")
    if not node.flow:
        return _remove_lines(source, items)
    if at != list(range(at[0], at[-1] + 1)):
        return Refusal("the option and its value stand in different places")
    if at[-1] + 1 < len(node.items):
        span = Span(items[0].span.start, node.items[at[-1] + 1].span.start)
    else:
        span = Span(node.items[at[0] - 1].span.end, items[-1].span.end)
    return [Edit(source.name, span, "")]


def _remove_lines(source: Source, items: Sequence[Node]) -> list[Edit] | Refusal:
    text, edits = source.text, []
    for item in items:
        first = source.line_span(source.position(item.span.start).line)
        last = source.line_span(source.position(item.span.end).line)
        alone = re.fullmatch(r"[ \t]*-[ \t]+", text[first.start : item.span.start])
        rest = re.fullmatch(r"[ \t]*(?:#.*)?\r?", text[item.span.end : last.end])
        if alone is None or rest is None:
            return Refusal("the list is not written with one item on each line")
        end = text.find("\n", last.end)
        start = first.start
        if end < 0:  # the last line of a text without an end of line
            start, end = max(0, start - 1), len(text) - 1
        edits.append(Edit(source.name, Span(start, end + 1), ""))
    return edits


@record
class Slot:
    """A place for one more option: after a word, written like the option that ends there.

    `nodes` are the command and its arguments in a YAML file, none in a script of its own; `file` is
    the one in which an option may be written.
    """

    after: Text
    file: str
    like: Flag | None = None
    nodes: tuple[Node, ...] = ()

    def insert(self, name: str, value: str) -> list[Edit] | Refusal:
        word = one_word(name, value)
        if isinstance(word, Refusal):
            return word
        if self.after.origin.file != self.file:
            return Refusal(f"{name} would stand in {self.after.origin.file}")
        words = [word] if self._is_joined or value == ON else [name, value]
        for node in self.nodes:
            for item in node.items:
                if item.origin == self.after.origin and _is_word(item, self.after):
                    return insert_items(node, item, self._quoted(item, words))
        if self.nodes and not any(_holds(node, self.after) for node in self.nodes):
            return Refusal(f"no place was found for {name}")
        at, file = self.after.origin.span.end, self.after.origin.file
        return [Edit(file, Span(at, at), "".join(f" {word}" for word in words))]

    @property
    def _is_joined(self) -> bool:
        """The option there and its value are one word, such as --a=b."""
        like = self.like
        return like is not None and like.value is not None and like.written is self.after

    def _quoted(self, item: Node, words: list[str]) -> list[str]:
        """Each word in the quotes of its counterpart; one that would be no string gets some."""
        written = self.like.written.origin if self.like is not None else item.origin
        items = [other for node in self.nodes for other in node.items]
        first = next((other for other in items if other.origin == written), item)
        return [_quote(word, like) for word, like in zip(words, (first, item), strict=False)]


@record
class FlagSite:
    """Where one option stands in a command line, or would stand."""

    name: str
    flag: Flag | None
    slot: Slot | None
    whole: OptionSite | None = None
    """The option that is there, to be taken out where it is a switch."""

    def set(self, value: str) -> list[Edit] | Refusal:
        if self.flag is not None:
            if self.flag.value is not None and value not in (ON, OFF):
                return TextSite((self.flag.value,)).set(value)
            if value == OFF and self.whole is not None and self.flag.value is None:
                return self.whole.set("")
            there = "no value" if self.flag.value is None else "a value"
            return Refusal(f"{self.name} has {there}")
        if self.slot is None:
            return Refusal(f"{self.name} has no literal neighbour to stand beside")
        return self.slot.insert(self.name, value)


@record
class NewOptionSite:
    """One more option, given as words: "--name value"."""

    slot: Slot

    def set(self, value: str) -> list[Edit] | Refusal:
        name, _, given = value.partition(" ")
        return self.slot.insert(name, given or ON)


@record
class ArgumentSite:
    """An option in the list of arguments that a container does not have."""

    node: Node
    key: str
    option: str

    def set(self, value: str) -> list[Edit] | Refusal:
        quoted = self.node.pairs and self.node.pairs[0][0].style is not None
        word = one_word(self.option, value)
        if isinstance(word, Refusal) or (self.node.flow and quoted):
            return Refusal(f"{self.option} cannot be written here")
        return add_entry(self.node, self.key, f'["{word}"]')


def stands_in(nodes: Iterable[Node], word: Text) -> bool:
    """The word stands in one of these lists, scripts or command strings."""
    for node in nodes:
        if any(item.origin == word.origin and _is_word(item, word) for item in node.items):
            return True
        if word.origin.file == node.source.name and _holds(node, word):
            return True
    return False


def _is_word(item: Node, word: Text) -> bool:
    """The item is this word, not a script that holds it."""
    return item.value == word.value or not re.search(r"\s", item.value)


def _holds(node: Node, word: Text) -> bool:
    """The word stands, with its own place, in the script or command string of this node."""
    for scalar in node.items or [node]:
        exact = scalar.style is None or scalar.span != word.origin.span
        same = scalar.source.name == word.origin.file
        if same and scalar.kind == "scalar" and scalar.span.covers(word.origin.span):
            return exact and not scalar.alias
    return False


def _quote(word: str, like: Node) -> str:
    quote = like.style if like.style in ("'", '"') else ""
    if not quote and not re.match(r"--?[A-Za-z]", word):
        quote = '"'  # a bare number would be no string
    return f"{quote}{word}{quote}"


def _in_one_piece(node: Node, source: Source) -> bool:
    """The items of a list that stand in one file follow each other, and nobody counts them."""
    if node.parts and any(item.source.name != source.name for item in node.items):
        return False
    own = [at for at, item in enumerate(node.items) if item.source.name == source.name]
    return own == list(range(own[0], own[0] + len(own))) if own else False


def insert_items(node: Node, item: Node, words: Sequence[str]) -> list[Edit] | Refusal:
    """Write words as items of a list, after one of its items."""
    source = item.source
    if not _in_one_piece(node, source):
        return Refusal("the list is put together from several files")
    if node.flow and item.source is node.source:
        at = item.span.end
        return [Edit(source.name, Span(at, at), "".join(f", {word}" for word in words))]
    text = source.text
    line = source.line_span(source.position(item.span.start).line)
    head = re.sub(r"(?:[&!]\S*[ \t]+)+$", "", text[line.start : item.span.start])
    dash = re.fullmatch(r"[ \t-]*?(-[ \t]+)", head)
    if dash is None:
        return Refusal("the list is not written with one item on each line")
    lead = head[: dash.start(1)].replace("-", " ") + dash.group(1)
    last = item.span.start + len(text[item.span.start : item.span.end].rstrip())
    end = source.line_span(source.position(last).line).end
    written = "".join(f"{_newline(text, end)}{lead}{word}" for word in words)
    return [Edit(source.name, Span(end, end), written)]


def _newline(text: str, at: int) -> str:
    """The line end that stands here, at the end of the text the one before."""
    end = text.find("\n", at)
    end = text.rfind("\n") if end < 0 else end
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


# --------------------------------------------------------------------------- maps and lists

Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"
"""What is written into a YAML file: words that need no quotes, in lists and maps."""


def add_entry(node: Node, key: str, value: Tree, like: Node | None = None) -> list[Edit] | Refusal:
    """Edits that add a key to a map, in the style of the map, or of another where it shows none."""
    node, like = node.written, like and like.written
    if node.alias or not node.pairs:
        return Refusal(f"there is no map to write {key} into")
    if any(name.value == key for name, _ in node.pairs):
        return Refusal(f"{key} stands there already, with nothing in it that could be added to")
    if _scattered(node):
        return Refusal(f"the map that would hold {key} is put together from several files")
    if node.flow:
        return [_first_in(node, {key: value})]
    indent = _list_indent(node, like)
    column = len(_lead(node, node.pairs[0][0])[1])
    if (end := _last_line(node)) is not None:
        written = _lines_of({key: value}, column, indent)
        line_end = _newline(node.source.text, end)
        text = "".join(f"{line_end}{row}" for row in written)
        return [Edit(node.source.name, Span(end, end), text)]
    for before, _ in reversed(node.pairs):
        line, lead = _lead(node, before)
        if not lead.strip(" "):
            return [_above(node, line, _lines_of({key: value}, len(lead), indent))]
    return Refusal(f"there is no line of its own to write {key} on")


def _scattered(node: Node) -> bool:
    """Some of a map or list stands in another file than the whole of it is said to."""
    inside = (*node.items, *(each for pair in node.pairs for each in pair))
    return any(each.source.name != node.source.name for each in inside)


def _last_line(node: Node) -> int | None:
    """The end of the last line of a map; None after a script, whose end may count, or nothing."""
    last = node
    while not (last.kind == "scalar" or last.flow or last.alias):
        key, value = last.pairs[-1] if last.pairs else (last.items[-1], last.items[-1])
        last = key if value.is_null else value
    source = node.source
    if last.style in ("|", ">") or last.is_null or last.source.name != source.name:
        return None
    end = max(last.span.start, last.span.end - 1)
    return source.line_span(source.position(end).line).end


def add_item(node: Node, value: Tree) -> list[Edit] | Refusal:
    """Edits that put an item at the head of a list, in the style of the list."""
    node = node.written
    if node.kind != "list" or node.alias or not node.items:
        return Refusal("there is no list to write into")
    if _scattered(node):
        return Refusal("the list is put together from several files")
    if node.flow:
        return [_first_in(node, value)]
    line, lead = _lead(node, node.items[0])
    if not re.fullmatch(r" *- +", lead):
        return Refusal("the list is not written with one item on each line")
    written = _lines_of(value, len(lead), 0)
    dash = lead.index("-")
    written[0] = " " * dash + "-" + written[0][dash + 1 :]
    return [_above(node, line, written)]


def _first_in(node: Node, value: Tree) -> Edit:
    """An entry or item behind the opening bracket."""
    quote = '"' if (node.items or [key for key, _ in node.pairs])[0].style == '"' else ""
    if node.kind == "list" and node.items[0].pairs:
        quote = '"' if node.items[0].pairs[0][0].style == '"' else ""
    text = _flow(value, quote)
    text = text[1:-1] if isinstance(value, dict) and node.kind == "map" else text
    at = node.source.text.index("{" if node.kind == "map" else "[", node.span.start) + 1
    return Edit(node.source.name, Span(at, at), f"{text}, ")


def _flow(value: Tree, quote: str) -> str:
    if isinstance(value, dict):
        inner = (f"{quote}{key}{quote}: {_flow(item, quote)}" for key, item in value.items())
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item, quote) for item in value) + "]"
    return f"{quote}{value}{quote}"


def _lines_of(value: Tree, column: int, list_indent: int) -> list[str]:
    """A map in lines that start at a column; lists in it are indented by so many blanks."""
    assert isinstance(value, Mapping)
    pad, lines = " " * column, list[str]()
    for key, item in value.items():
        if isinstance(item, str):
            lines.append(f"{pad}{key}: {item}")
            continue
        lines.append(f"{pad}{key}:")
        inside = item if isinstance(item, list) else [item]
        dash = "- " if isinstance(item, list) else ""
        start = column + (list_indent if dash else 2)
        for each in inside:
            if isinstance(each, str):
                lines.append(" " * start + dash + each)
                continue
            made = _lines_of(each, start + len(dash), list_indent)
            made[0] = " " * start + dash + made[0][start + len(dash) :]
            lines += made
    return lines


def _lead(node: Node, inner: Node) -> tuple[int, str]:
    """The line on which something starts, as an offset, and the characters before it."""
    source = node.source
    start = source.line_span(source.position(inner.span.start).line).start
    return start, source.text[start : inner.span.start]


def _above(node: Node, line: int, written: Sequence[str]) -> Edit:
    """Lines above a line and the comments that stand right above it."""
    text = node.source.text
    while (start := text.rfind("\n", 0, max(0, line - 1)) + 1) > node.span.start:
        if not text[start:line].lstrip(" ").startswith("#"):
            break
        line = start
    end = _newline(text, line)
    return Edit(node.source.name, Span(line, line), "".join(f"{row}{end}" for row in written))


def _list_indent(*nodes: Node | None) -> int:
    """By how much lists are indented below their keys in the first of these maps that has one."""
    for key, value in (pair for node in nodes if node is not None for pair in node.pairs):
        own = value.kind == "list" and value.items and not _scattered(value)
        if own and not value.flow and not value.alias and key.source is value.source:
            lead = _lead(value, value.items[0])[1]
            before = _lead(value, key)[1]
            if re.fullmatch(r" *- +", lead):
                return max(0, lead.index("-") - len(before))
    return 2


def remove_item(owner: Node, key: str, item: Node) -> list[Edit] | Refusal:
    """Edits that take an item out of the list under a key, and the key with the last item."""
    pair = next((pair for pair in owner.pairs if pair[0].value == key), None)
    if pair is None or owner.alias or not any(item is one for one in pair[1].items):
        return Refusal(f"{key} does not stand here")
    if _scattered(owner) or _scattered(pair[1]):
        return Refusal(f"{key} is put together from several files")
    if len(pair[1].items) > 1:
        return remove_items(pair[1], [item])
    text, line = owner.source.text, _lead(owner, pair[0])
    end = _last_line(pair[1])
    if owner.flow or line[1].strip(" ") or end is None or len(owner.pairs) < 2:
        return Refusal(f"{key} has no lines of its own")
    if not re.fullmatch(r"[ \t]*(?:#.*)?", text[_behind(pair[1]) : end]):
        return Refusal(f"something else stands behind {key}")
    return [Edit(owner.source.name, Span(line[0], min(len(text), end + 1)), "")]


def _behind(node: Node) -> int:
    """The end of the last scalar or bracket of a node."""
    last = node
    while not (last.kind == "scalar" or last.flow or last.alias):
        last = last.pairs[-1][1] if last.pairs else last.items[-1]
    return last.span.end


@record
class EntrySite:
    """A key that a map does not have."""

    node: Node
    key: str

    def set(self, value: str) -> list[Edit] | Refusal:
        return add_entry(self.node, self.key, value)


SIZES = (2**30, 2**20, 2**10, 1)


@record
class SizeSite:
    """A number of bytes that is written with a unit: "16Gi", "16gb", "16g"."""

    site: Site
    units: tuple[str, str, str, str]
    """The units of GiB, MiB, KiB and bytes."""

    def set(self, value: str) -> list[Edit] | Refusal:
        count = int(value)
        for size, unit in zip(SIZES, self.units, strict=True):
            if count % size == 0:
                return self.site.set(f"{count // size}{unit}")
        raise AssertionError("every number is a multiple of 1")


@record
class WordSite:
    """A word that can be put behind another one: `{word}{value}`."""

    after: Text
    word: str

    def set(self, value: str) -> list[Edit] | Refusal:
        if self.after.mapped is None or not self.after.mapped.literal:
            return Refusal("the command is put together elsewhere")
        at = self.after.origin.span.end
        return [Edit(self.after.origin.file, Span(at, at), f" {self.word}{value}")]


# --------------------------------------------------------------------- what else a text decides


@record
class Use:
    """Where a plan reads something: a word of its command line, or a setting of this name."""

    plan: int
    of: Text | str
    origin: Origin
    part: bool = False
    """What is read is only a part of this text, or made from it."""


class Uses:
    """What the plans of a file are read from, to be asked by place."""

    def __init__(self, uses: Iterable[Use]) -> None:
        self._uses = uses

    @cached_property
    def _near(self) -> dict[tuple[str, int], list[Use]]:
        near: dict[tuple[str, int], list[Use]] = {}
        for use in self._uses:
            for at in _squares(use.origin):
                near.setdefault(at, []).append(use)
        return near

    def at(self, origin: Origin) -> Iterator[Use]:
        """Uses that share a character with a place; one may come twice."""
        span = origin.span
        for at in _squares(origin):
            for use in self._near.get(at, ()):
                if use.origin.span.start < span.end and span.start < use.origin.span.end:
                    yield use


def _squares(origin: Origin) -> Iterator[tuple[str, int]]:
    span = origin.span
    return ((origin.file, at) for at in range(span.start >> 9, (span.end >> 9) + 1))


@record
class GuardedSite:
    """A site that refuses to edit a text from which something else is read too.

    `own` is what it may change, `beside` the words that it may write another option behind.
    """

    site: Site
    plan: int
    own: tuple[Text | str, ...]
    beside: tuple[Text, ...]
    uses: Uses

    def set(self, value: str) -> list[Edit] | Refusal:
        edits = self.site.set(value)
        if isinstance(edits, Refusal):
            return edits
        changed = [Origin(e.file, e.span) for e in edits if e.span.start < e.span.end]
        others = chain.from_iterable(self._others(place) for place in changed)
        if len(changed) < len(edits):
            others = chain(others, self._grown())
        for other in others:
            what = other if isinstance(other, str) else f"`{other.value}`"
            return Refusal(f"{what} is read there too")
        return edits

    def _others(self, place: Origin) -> Iterator[Text | str]:
        """What else is read from a text; that both are parts of a larger one does not count."""
        around = {origin for word in self.own if isinstance(word, Text)
                  for origin in word.related}  # fmt: skip
        quoted = Span(place.span.start - 1, place.span.end + 1)
        for use in self.uses.at(place):
            apart = use.part and use.origin in around and not quoted.covers(use.origin.span)
            if not apart and not self._owns(use):
                yield use.of

    def _grown(self) -> Iterator[Text | str]:
        """What of another plan stands in the command line that would grow."""
        for word in self.beside:
            for use in self.uses.at(word.origin):
                if use.plan != self.plan and not use.part:
                    yield use.of

    def _owns(self, use: Use) -> bool:
        if isinstance(use.of, str):
            return use.plan == self.plan and use.of in self.own
        return any(use.of is word for word in self.own)


def uses_of(plan: int, word: Text) -> Iterator[Use]:
    """What a word is read from; one that is not known is not read at all."""
    if word.mapped is None:
        return
    yield Use(plan, word, word.origin)
    if word.definition is not None:
        yield Use(plan, word, word.definition)
        return
    for origin in word.related:
        yield Use(plan, word, origin, part=True)
