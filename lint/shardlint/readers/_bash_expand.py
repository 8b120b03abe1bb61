"""Words of a shell script after expansion and splitting, each character with its place."""

from __future__ import annotations

import ast
import operator
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from shardlint.known import Text
from shardlint.readers._bash_scan import Atom, Broken, RawWord, Simple, atoms, simple_command
from shardlint.source import Mapped, Origin, Span

MAX_RELATED = 16

_SPLIT = re.compile(r"[^ \t\n]+")
_PARAMETER = re.compile(
    r"([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^\]]*)\])?(?:(:?[-=?+])(.*)|:(\d+))?", re.ASCII | re.DOTALL
)
_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}|\{[\w+-]+\.\.[\w+-]+(\.\.[\w+-]+)?\}", re.ASCII)
_ARITHMETIC = re.compile(r"(?:\s|[A-Za-z_]\w*|\d+(?!\w)|[-+*/%()])+", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_PATH_COMMAND = re.compile(r"\s*(basename|dirname)\s")
_OTHER = "\0"


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,  # towards zero, as C does
    ast.Mod: lambda left, right: left - right * _divide(left, right),
}


class _NoNumber(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no value: it is unset, if `reason` is None or `assumption` holds, else unknown."""

    reason: str | None = None
    assumption: str | None = None
    related: tuple[Origin, ...] = ()


class Exhausted(Exception):
    """The script asks for more work than any real one."""


@dataclass(slots=True)
class Work:
    """What may still be done, in characters read or written."""

    left: int

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise Exhausted


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in force; an array has the texts of its elements."""

    value: Text | tuple[Text, ...]
    exported: bool = False

    @property
    def text(self) -> Text | None:
        """The value of `$name`; None for an empty array."""
        if isinstance(self.value, Text):
            return self.value
        return self.value[0] if self.value else None


@dataclass(slots=True)
class Arguments:
    """The positional parameters; `words` is None where the caller is not known."""

    words: tuple[Text, ...] | None = None
    shifted: int = 0
    lost: str | None = None
    """Why nothing is known of them any more."""

    def shift(self, count: int) -> Arguments:
        if self.words is None:
            return replace(self, shifted=self.shifted + count)
        if any(word.many for word in self.words[:count]):
            return replace(self, lost="the arguments before it are not known")
        return replace(self, words=self.words[count:], shifted=self.shifted + count)


@dataclass(slots=True)
class Scope:
    """What a command sees: variables, arguments, `$0`, and a file that was sourced before it."""

    variables: dict[str, Variable] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=Arguments)
    name: Text | None = None
    sourced: str | None = None
    holes: tuple[str, ...] = ()
    """Variables that stand for unknown parts of the text itself."""

    def copy(self) -> Scope:
        return replace(self, variables=dict(self.variables))

    def assign(self, name: str, value: Text | tuple[Text, ...], exported: bool = False) -> None:
        """Set a variable; one that was exported stays so."""
        old = self.variables.get(name)
        self.variables[name] = Variable(value, exported or (old is not None and old.exported))

    def forget(self, name: str, why: str, origin: Origin) -> None:
        """From here on the variable has a value that is not known."""
        self.assign(name, Text.unknown(origin, f"{name} is set {why}"))


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters of one word from one place: written there, or from one expansion.

    `home` is the one place to edit if the piece is the whole word; `whole` a text that stands for
    the word as it is; `many` says that an unknown piece may be several words when it stands alone,
    `listed` that it may be so in any company.
    """

    mapped: Mapped | None
    quoted: bool
    start: int
    end: int
    literal: bool = False
    reason: str = ""
    related: tuple[Origin, ...] = ()
    assumes: frozenset[str] = frozenset()
    home: Origin | None = None
    whole: Text | None = None
    many: bool = False
    listed: bool = False


Word: TypeAlias = tuple[Piece, ...]
_Items: TypeAlias = Iterator[Piece | None]  # None parts two words


def piece_of(text: Text) -> Piece:
    """A known or unknown word from elsewhere."""
    return Piece(
        text.mapped, True, 0, 0, False, text.reason or "", text.related, text.assumes, None, text
    )


def joined(parts: Sequence[Mapped]) -> Mapped:
    if len(parts) == 1:
        return parts[0]
    return Mapped(
        "".join(part.text for part in parts),
        [start for part in parts for start in part.starts],
        [end for part in parts for end in part.ends],
        all(part.literal for part in parts),
    )


def _one_run(mapped: Mapped, start: int, end: int) -> Span | None:
    """The source span of some characters that stand there next to each other, each as itself."""
    if start >= end:
        return None
    begins, stops = mapped.starts[start:end], mapped.ends[start:end]
    if not isinstance(begins, range):
        chained = all(stop == begin for stop, begin in zip(stops, begins[1:], strict=False))
        if not chained or any(e - b != 1 for b, e in zip(begins, stops, strict=True)):
            return None
    return Span(begins[0], stops[-1])


def home(given: Text, start: int, end: int) -> Origin | None:
    """The one place to edit so that these characters of a variable's value change."""
    assert given.mapped is not None
    if run := _one_run(given.mapped, start, end):
        return Origin(given.origin.file, run)
    return given.definition if (start, end) == (0, len(given.mapped)) else None


def _defined(value: Text) -> Text:
    """A variable's value as seen from where the variable is used."""
    return replace(value, related=(value.origin, *value.related))


class Expander:
    """Expands the words of one script text in a scope that changes while the script is read."""

    def __init__(self, script: Mapped, file: str, scope: Scope, work: Work) -> None:
        self.script, self.text, self.file = script, script.text, file
        self.scope, self.work = scope, work

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
        except Broken:
            self.work.spend(len(self.text) - at)
            raise
        self.work.spend(simple.stop - at + 1)
        return simple

    def words(self, raw: RawWord) -> list[Word]:
        """The words that one written word becomes: none, one or several."""
        words: list[list[Piece]] = [[]]
        for item in self._items(raw.start, raw.end, False, True):
            if item is None:
                words.append([])
            else:
                words[-1].append(item)
        found = [tuple(word) for word in words if word]
        if any(self._has_braces(word) for word in found):
            reason = "its braces stand for several words"
            return [(Piece(None, False, raw.start, raw.end, reason=reason, many=True),)]
        return found

    def texts(self, raw: RawWord) -> list[Text]:
        return [self.text_of(word, raw.start, raw.end) for word in self.words(raw)]

    def value(self, start: int, end: int, quoted: bool = False) -> Text:
        """The value of characters that are not split: an assignment, a default."""
        pieces = tuple(p for p in self._items(start, end, quoted, False) if p is not None)
        return self.text_of(pieces, start, end)

    def text_of(self, word: Word, start: int, end: int) -> Text:
        """One word as a text; `start` and `end` enclose the token in the script."""
        if len(word) == 1 and word[0].whole is not None:
            return word[0].whole
        origin = self.origin(start, end)
        related = tuple(dict.fromkeys(o for piece in word for o in piece.related))[:MAX_RELATED]
        for piece in word:
            if piece.mapped is None:
                many = piece.listed or (piece.many and len(word) == 1)
                return Text.unknown(origin, piece.reason, related=related, many=many)
        mapped = joined([p.mapped for p in word if p.mapped is not None] or [Mapped("", [], [])])
        for hole in self.scope.holes:
            if hole in mapped.text:
                return Text.unknown(origin, self._why(hole), related=related)
        literal = all(piece.literal for piece in word) and not _torn(word, mapped.text)
        definition = word[0].home if len(word) == 1 and not literal else None
        assumes = frozenset[str]().union(*(piece.assumes for piece in word))
        mapped = replace(mapped, literal=literal)
        return Text(mapped, origin, None, related, definition, assumes)

    def _has_braces(self, word: Word) -> bool:
        bare = [p for p in word if not p.quoted and p.literal]
        if not any("{" in self.text[p.start : p.end] for p in bare):
            return False
        shape = "".join(self.text[p.start : p.end] if p in bare else _OTHER for p in word)
        return _BRACES.search(shape) is not None

    def _why(self, hole: str) -> str:
        text = self.scope.variables[hole].text
        return (text and text.reason) or "unresolved"

    def _items(
        self, start: int, end: int, quoted: bool, split: bool, inner: bool = False
    ) -> _Items:
        """The pieces of a word; `inner` text, a default, is itself split at its blanks."""
        for atom in atoms(self.text, start, end, quoted):
            self.work.spend(1)
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
        run = None if mapped.literal else _one_run(mapped, 0, len(mapped))
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
                listed = re.match(r"\$\{(?:[@*]|\w+\[[@*]\])", text) is not None
                single = text.startswith("${#")
                yield self._unknown(atom, f"{_shown(text)} is not computed", listed, not single)

    def _parameter(self, inner: re.Match[str], atom: Atom, split: bool) -> _Items:
        name, index, test, _, offset = inner.groups()
        listed = name in ("@", "*") or index in ("@", "*")
        found = self._look_up(name, index, offset)
        if test and test[-1] != "?":
            choice = _choose(found, test)
            if choice == "word":
                yield from self._word(inner, atom, split, found)
                return
            if choice == "nothing":
                yield from self._nothing(atom)
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
            given = found[0] if name in self.scope.holes else _defined(found[0])
            yield from self._scalar(given, atom, split)

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
        if piece.literal and (run := _one_run(piece.mapped, 0, len(piece.mapped))):
            place = Origin(self.file, run)
        span = self.origin(atom.start, atom.end).span
        mapped = Mapped.all_at(piece.mapped.text, span)
        return replace(piece, mapped=mapped, literal=False, assumes=assumes, home=place)

    def _nothing(self, atom: Atom, assumes: frozenset[str] = frozenset()) -> _Items:
        """No characters: no word either, unless quotes make it an empty one."""
        if atom.quoted:
            yield Piece(Mapped("", [], []), True, atom.start, atom.end, assumes=assumes)

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
            reason = given.reason or "unresolved"
            yield self._unknown(atom, reason, False, split and not single, given.related)
            return
        value = given.mapped.text
        self.work.spend(len(value) + 1)
        cut = _fields(value) if split and not atom.quoted else [(0, len(value))]
        span = self.origin(atom.start, atom.end).span
        for start, end in cut:
            if start == end and len(cut) > 1:
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
            value = element.value
            self.work.spend(1 + len(value or ""))
            if i and apart:
                yield None
            elif i:
                yield Piece(Mapped.all_at(" ", span), True, atom.start, atom.end)
            if not apart or (
                value is not None and not atom.quoted and _fields(value) != [(0, len(value))]
            ):
                yield from self._scalar(_defined(element), atom, split)
            else:
                yield replace(
                    piece_of(_defined(element)), start=atom.start, end=atom.end, whole=element,
                    mapped=None if value is None else Mapped.all_at(value, span),
                    many=element.many, listed=element.many,
                )  # fmt: skip

    def _look_up(
        self, name: str, index: str | None, offset: str | None
    ) -> tuple[Text, ...] | Missing:
        """One value, or all elements of a list; or why there is none."""
        if name in ("@", "*") or name.isdecimal() or name in "#?$!-":
            return self._argument(name, offset)
        variable = self.scope.variables.get(name)
        if variable is None:
            unread = f", and {self.scope.sourced} is not read" if self.scope.sourced else ""
            return Missing(
                f"{name} is not set in this file{unread}", f"{name} is not set in the environment"
            )
        value = variable.value
        if offset is not None and index not in ("@", "*"):
            return Missing(f"{name}:{offset} is not computed")
        if isinstance(value, Text):
            if value.mapped is None and index is not None:
                return Missing(value.reason or "unresolved", related=(value.origin, *value.related))
            return (value,) if index in (None, "0", "@", "*") else Missing()
        if index in ("@", "*"):
            return value[int(offset or 0) :]
        return _nth(value, index or "0")

    def _argument(self, name: str, offset: str | None) -> tuple[Text, ...] | Missing:
        arguments = self.scope.arguments
        if name in ("?", "$", "!", "-"):
            return Missing(f"${name} is known only when it runs")
        if name == "0":
            return (self.scope.name,) if self.scope.name else Missing("$0 is not known")
        if arguments.lost:
            return Missing(arguments.lost)
        if arguments.words is None:
            if name in ("@", "*", "#"):
                return Missing(f"the script's arguments, ${name}, are not known")
            number = int(name) + arguments.shifted
            return Missing(
                f"the script's argument {number} is not known",
                f"the script's argument {number} is not given",
            )
        if name == "#":
            return Missing("the number of arguments is not known")
        if name in ("@", "*"):
            return arguments.words[max(0, int(offset or 1) - 1) :]
        return _nth(arguments.words, str(int(name) - 1))

    def _arithmetic(self, atom: Atom) -> Text:
        origin = self.origin(atom.start, atom.end)
        expression = self.value(atom.start + 3, atom.end - 2, quoted=True)
        text = expression.value
        used = [expression]
        try:
            if text is None:
                raise _NoNumber(expression.reason or "unresolved")
            if len(text) > 200 or not _ARITHMETIC.fullmatch(text):
                raise _NoNumber(f"$(({_shown(text)})) is not computed")
            number = self._number(ast.parse(text.strip(), mode="eval").body, used)
        except _NoNumber as unknown:
            return Text.unknown(origin, str(unknown), related=_related(used))
        except (SyntaxError, ZeroDivisionError):
            return Text.unknown(origin, f"$(({_shown(text or '')})) is not computed")
        return self._made(str(number), origin, used)

    def _number(self, node: ast.expr, used: list[Text]) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return self._number_of(node.id, used)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self._number(node.left, used), self._number(node.right, used)
            result = _OPERATORS[type(node.op)](left, right)
            if abs(result) < 2**63:
                return result
        raise _NoNumber("its arithmetic is not computed")

    def _number_of(self, name: str, used: list[Text]) -> int:
        found = self._look_up(name, None, None)
        if isinstance(found, Missing):
            raise _NoNumber(found.reason or f"{name} is empty")
        used.append(_defined(found[0]))
        value = found[0].value
        if value is None or not _NUMBER.fullmatch(value):
            raise _NoNumber(found[0].reason or f"{name} is no number")
        return int(value)

    def _substitution(self, atom: Atom) -> Text:
        """`$(basename ...)` and `$(dirname ...)`; the output of other commands is not known."""
        origin = self.origin(atom.start, atom.end)
        text = self.text[atom.start : atom.end]
        shown = f"{_shown(text)} is known only when it runs"
        body = self.script.cut(atom.start + (1 if text[0] == "`" else 2), atom.end - 1)
        if not _PATH_COMMAND.match(body.text):
            return Text.unknown(origin, shown)
        inside = Expander(body, self.file, self.scope, self.work)
        try:
            simple = inside.command(0)
        except Broken:
            return Text.unknown(origin, shown)
        used = [text for raw in simple.words for text in inside.texts(raw)]
        words = [text.value for text in used if text.value != "--"]
        whole = not body.text[simple.stop :].strip()
        if not whole or None in words or len(words) not in (2, 3):
            why = next((text.reason for text in used if text.reason), shown)
            return Text.unknown(origin, why, related=_related(used))
        return self._made(_path(*(word or "" for word in words)), origin, used)

    def _made(self, value: str, origin: Origin, used: list[Text]) -> Text:
        """A value that was computed from others."""
        assumes = frozenset[str]().union(*(text.assumes for text in used))
        mapped = Mapped.all_at(value, origin.span)
        return Text(mapped, origin, None, _related(used), None, assumes)


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


def _nth(words: tuple[Text, ...], index: str) -> tuple[Text, ...] | Missing:
    """One element, unless an unknown number of others stands before it."""
    if not re.fullmatch(r"-?\d{1,6}", index):
        return Missing(f"the element {_shown(index)} is not known")
    at = int(index)
    if any(word.many for word in (words[: at + 1] if at >= 0 else words[at:])):
        return Missing("the words before it are not known")
    return words[at:][:1] or Missing()


def _path(command: str, path: str, suffix: str = "") -> str:
    stripped = path.rstrip("/") or path[:1]
    if command == "dirname":
        return posixpath.dirname(stripped).rstrip("/") or ("/" if path.startswith("/") else ".")
    name = posixpath.basename(stripped) or stripped
    return name.removesuffix(suffix) or name


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


def _torn(word: Word, value: str) -> bool:
    """Quotes begin or end inside the word, or inside what follows its `=`.

    An edit of these characters would leave a quote behind without its partner.
    """
    cut, at = value.find("=") + 1, 0
    for piece, following in pairwise(word):
        at += len(piece.mapped or ())
        if piece.end != following.start and cut < at < len(value):
            return True
    return False


def _related(used: Iterable[Text]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(o for text in used for o in text.related))[:MAX_RELATED]


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:39] + "…"
