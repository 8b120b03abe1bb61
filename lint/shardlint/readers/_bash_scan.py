"""Shell text cut into words by its quoting rules alone; nothing is expanded here.

tree-sitter knows where a command starts and what encloses it, but its word nodes lose characters
(`\\ ` between words, blanks before `${`), so the words of a command are cut here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from shardlint.record import record
from shardlint.source import Mapped

MAX_NESTING = 40
"""Quotes and brackets inside each other; deeper text is refused instead of recursed into."""

BLANKS = " \t\n"
OPERATORS = ";&|()<>"

_EXPANSIONS = ("`", "$(", "${", "$'", "$[")

_SEPARATOR = re.compile(r"(?:[ \t]|\\\n)+")
_ARRAY_SPACE = re.compile(r"(?:[ \t\n]|\\\n|#[^\n]*)+")
_PLAIN = re.compile(r"""[^ \t\n;&|()<>\\'"`$]+""")
_REDIRECT = re.compile(
    r"(?:\d+|\{[A-Za-z_]\w*\})?(?:<<<|<<-?|<>|<&|>&|>>|>\||<(?!\()|>(?!\())|&>>?", re.ASCII
)
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\(", re.ASCII)
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1", re.ASCII)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])", re.ASCII)
_INSIDE = {
    '"': re.compile(r'["\\`]|\$[({]'),
    "}": re.compile(r"[}\\`'\"]|\$[({']"),
    '"}': re.compile(r'[}\\`"]|\$[({]'),
    ")": re.compile(r"[)\\`'\"(]|\$[({']|(?<![^\s;(|&])#|(?<!<)<<(?!<)"),
    "`": re.compile(r"[`\\]"),
    "]": re.compile(r"\]"),
}
_LITERAL = {False: re.compile(r"""[^'"\\`$]+"""), True: re.compile(r'[^"\\`$]+')}
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})"
    r"|([0-7]{1,3}))"
)
_ANSI_LETTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


class ScanError(Exception):
    """A quote or bracket does not close, or the text is no simple command."""


@record
class RawWord:
    """A word as written; `items` are the words of an array, when it is `name=(...)`."""

    start: int
    end: int
    items: tuple[RawWord, ...] | None = None


@record
class Simple:
    """A simple command: its words, its first and last token, and where reading stopped."""

    words: tuple[RawWord, ...]
    start: int
    end: int
    stop: int


class Atom(NamedTuple):
    """A part of a word: characters that stand as they are, one escape, or an expansion."""

    kind: Literal["plain", "escape", "expansion", "nothing"]
    start: int
    end: int
    quoted: bool
    value: str = ""


def unix(script: Mapped) -> Mapped:
    """The same text with LF line ends; such a line end has the place of both characters."""
    text = script.text
    if "\r\n" not in text:
        return script
    keep = [i for i, char in enumerate(text) if char != "\r" or text[i + 1 : i + 2] != "\n"]
    starts = [script.starts[i - (text[i] == "\n" and text[i - 1 : i] == "\r")] for i in keep]
    ends = [script.ends[i] for i in keep]
    return Mapped("".join(text[i] for i in keep), starts, ends, script.literal)


_INNER = r"[^\s<>()'\"`;&](?:[^<>()'\"`;&|\n]|(?<! )\|(?! ))*?"
HOLE = re.compile(
    rf"(?<![<>&\d])<{_INNER}(?<!\s)(?<!\s\d)>(?=[\s'\"`,;)\]}}\w]|$)|(?<!\S)\.\.\.(?!\S)"
)
"""`<your-model>` or `...` in a text for people: something to fill in, not two redirections.

Two redirections have a blank, or a digit after one, before the second sign, or a name behind it.
"""
FILLED_IN = "_"


def with_holes(text: str) -> str:
    """The same text, as long, with a variable that nobody sets in place of every hole."""
    return HOLE.sub(_hole, text)


def _hole(found: re.Match[str]) -> str:
    """An expansion that ends by itself, whatever stands behind it."""
    size = len(found[0])
    return "$_*" if size == 3 else "${" + FILLED_IN * (size - 3) + "}"


def closed(text: str, at: int, depth: int = 0, quoted: bool = False) -> int:
    """The offset behind the quote, bracket or expansion that opens at `at`."""
    if depth > MAX_NESTING:
        raise ScanError
    if text[at] == "'":
        return _after(text, "'", at + 1)
    if text[at] == '"':
        return _until(text, at + 1, '"', depth, True)
    if text[at] == "`":
        return _until(text, at + 1, "`", depth, quoted)
    if text[at] == "(":
        return _until(text, at + 1, ")", depth, False)
    if text.startswith("$'", at):
        return _until_ansi(text, at + 2)
    if text.startswith("${", at):
        return _until(text, at + 2, "}", depth, quoted)
    if text.startswith("$[", at):
        return _until(text, at + 2, "]", depth, quoted)
    return _until(text, at + 2, ")", depth, False)  # $( <( >(


def _after(text: str, what: str, at: int) -> int:
    found = text.find(what, at)
    if found < 0:
        raise ScanError
    return found + len(what)


def _until_ansi(text: str, at: int) -> int:
    while at < len(text) and text[at] != "'":
        at += 2 if text[at] == "\\" else 1
    return _after(text, "'", at)


def _until(text: str, at: int, close: str, depth: int, quoted: bool) -> int:
    special = _INSIDE['"}' if close == "}" and quoted else close]
    while found := special.search(text, at):
        at = found.start()
        if found[0] == close:
            return at + 1
        if found[0] == "\\":
            at += 2
        elif found[0] == "#":
            at = _line_end(text, at)
        elif found[0] == "<<":
            at = _behind_heredoc(text, at)
        else:
            at = closed(text, at, depth + 1, quoted)
    raise ScanError


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _behind_heredoc(text: str, at: int) -> int:
    """Behind the body of a heredoc inside `$(...)`: quotes in it mean nothing."""
    opened = _HEREDOC.match(text, at)
    if not opened:
        return at + 2
    closing = re.compile(rf"\n\t*{re.escape(opened[2])}(?=\n|\)|$)")
    found = closing.search(text, _line_end(text, at))
    return found.end() if found else at + 2


def word_end(text: str, at: int, breaks: str = OPERATORS, expand: bool = True) -> int:
    """The offset behind the word that starts at `at`; the same offset where none starts."""
    if breaks == OPERATORS and text.startswith(("<(", ">("), at):
        at = closed(text, at)
    while at < len(text):
        if plain := _PLAIN.match(text, at):
            at = plain.end()
        elif text[at] in BLANKS or text[at] in breaks:
            break
        elif text[at] == "\\":
            at = min(at + 2, len(text))
        elif text[at] in "'\"" or (expand and text.startswith(_EXPANSIONS, at)):
            at = closed(text, at)
        else:
            at += 1
    return at


def simple_command(text: str, at: int) -> Simple:
    """The simple command that starts at `at`, up to its end of line or operator."""
    words: list[RawWord] = []
    at = start = end = _skip(_SEPARATOR, text, at)
    while at < len(text) and text[at] not in "\n;|)#" and not _is_control(text, at):
        if redirect := _REDIRECT.match(text, at):
            target = _skip(_SEPARATOR, text, redirect.end())
            end = word_end(text, target)
            if end == target:
                raise ScanError
        else:
            word = _raw_word(text, at)
            words.append(word)
            end = word.end
        at = _skip(_SEPARATOR, text, end)
    return Simple(tuple(words), start, end, at)


def _is_control(text: str, at: int) -> bool:
    return text[at] == "&" and not text.startswith("&>", at)


def _raw_word(text: str, at: int) -> RawWord:
    if array := _ARRAY.match(text, at):
        return _array(text, at, array.end())
    end = word_end(text, at)
    if end == at or text.startswith("(", end):
        raise ScanError  # a function, a pattern, or a syntax error
    return RawWord(at, end)


def _array(text: str, start: int, at: int) -> RawWord:
    items: list[RawWord] = []
    at = _skip(_ARRAY_SPACE, text, at)
    while not text.startswith(")", at):
        end = word_end(text, at)
        if end == at:
            raise ScanError
        items.append(RawWord(at, end))
        at = _skip(_ARRAY_SPACE, text, end)
    return RawWord(start, at + 1, tuple(items))


def _skip(what: re.Pattern[str], text: str, at: int) -> int:
    found = what.match(text, at)
    return found.end() if found else at


def atoms(
    text: str, start: int, end: int, quoted: bool = False, expand: bool = True
) -> Iterator[Atom]:
    """The parts of a word in order, its quotes taken off. An empty quote is an empty part.

    Unless asked to `expand`, a dollar is a character like others.
    """
    at = start
    while at < end:
        ansi = expand and text.startswith("$'", at)
        if text[at] == '"' or (not quoted and (text[at] == "'" or ansi)):
            stop = min(closed(text, at), end)
            yield from _inside_quotes(text, at, stop, expand)
            at = stop
            continue
        atom = _atom(text, at, end, quoted, expand)
        if atom.kind != "nothing":
            yield atom
        at = atom.end


def _inside_quotes(text: str, at: int, stop: int, expand: bool) -> Iterator[Atom]:
    start = at + 2 if text[at] == "$" else at + 1
    inside: list[Atom] = []
    if text[at] == '"':
        inside += atoms(text, start, stop - 1, True, expand)
    elif text[at] == "$":
        inside += _ansi(text, start, stop - 1)
    elif start < stop - 1:
        inside.append(Atom("plain", start, stop - 1, True))
    yield from inside or [Atom("plain", start, start, True)]


def _atom(text: str, at: int, end: int, quoted: bool, expand: bool) -> Atom:
    """One part that no quote opens; `nothing` where characters leave no trace."""
    if text[at] == "\\":
        return _escape(text, at, end, quoted)
    if expand and text.startswith(("`", "$(", "${", "$["), at):
        return Atom("expansion", at, min(closed(text, at, quoted=quoted), end), quoted)
    if expand and (found := _VARIABLE.match(text, at, end)):
        return Atom("expansion", at, found.end(), quoted)
    if expand and text[at] == "$":
        translated = not quoted and text.startswith('$"', at)
        return Atom("nothing" if translated else "plain", at, at + 1, quoted)
    plain = _LITERAL[quoted].match(text, at, end)
    return Atom("plain", at, plain.end() if plain else at + 1, quoted)


def _escape(text: str, at: int, end: int, quoted: bool) -> Atom:
    if at + 1 >= end:
        return Atom("plain", at, at + 1, quoted)
    escaped = text[at + 1]
    if escaped == "\n":
        return Atom("nothing", at, at + 2, quoted)
    if quoted and escaped not in '$`"\\':
        return Atom("plain", at, at + 1, True)
    return Atom("escape", at, at + 2, quoted, escaped)


def _ansi(text: str, at: int, end: int) -> Iterator[Atom]:
    while at < end:
        escape = _ANSI.match(text, at, end)
        value = _ansi_value(escape) if escape else None
        if escape and value is not None:
            yield Atom("escape", at, escape.end(), True, value)
            at = escape.end()
        else:
            stop = text.find("\\", at + 1, end)
            stop = end if stop < 0 else stop
            yield Atom("plain", at, stop, True)
            at = stop


def _ansi_value(escape: re.Match[str]) -> str | None:
    letter, *codes = escape.groups()
    if letter:
        return _ANSI_LETTERS.get(letter, letter)
    code = next(int(c, 8 if i == 3 else 16) for i, c in enumerate(codes) if c)
    wide = escape[2] is None and escape[5] is None
    valid = 0 < code < 128 or (wide and 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF)
    return chr(code) if valid else None
