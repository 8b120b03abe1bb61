"""The text of an nginx configuration as directives with their places.

nginx/nginx, `src/core/ngx_conf_file.c`: words end at blanks, `;`, `{` or `}`; quotes hold blanks,
a backslash takes the next character as it is, `#` at the start of a word begins a comment, and
`${name}` is part of a word. What a template puts around it is seen and not read: the words of
`{% ... %}` are passed over, what stands inside of a branch is marked, `{{ ... }}` is a word that is
filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from shardlint.record import record
from shardlint.source import Mapped, Span

MOST_WORDS = 20_000
MOST_DEEP = 50

_BLOCK = re.compile(r"\{%-?\s*(\w+).*?%\}", re.DOTALL)
_HOLE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]+")
_COMMENT = re.compile(r"#[^\n]*|\{#.*?#\}", re.DOTALL)
_WORD = re.compile(r"(?:\$\{[^}\n]*\}|\\.|[^\s;{}\\])+", re.DOTALL)
_QUOTED = {
    '"': re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL),
    "'": re.compile(r"'((?:\\.|[^'\\])*)'", re.DOTALL),
}


@record
class Word:
    """One word, its place, and whether something fills it in."""

    text: str
    span: Span
    filled: bool = False


@record
class Directive:
    """A directive with its words, and those of its block.

    `span` reaches to the `;` or over the block; `maybe`: it stands in a branch of a template;
    `repeated`: in a loop. `inside` is where the block begins, after its brace.
    """

    words: tuple[Word, ...]
    span: Span
    block: tuple[Directive, ...] = ()
    inside: int | None = None
    maybe: bool = False
    repeated: bool = False

    @property
    def name(self) -> str:
        return self.words[0].text

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]


class NginxError(Exception):
    """The text is no configuration."""


def directives(text: Mapped) -> tuple[Directive, ...]:
    """The directives of a text, placed where their characters come from; raises NginxError."""
    return tuple(_Reader(text).block(0))


class _Reader:
    def __init__(self, text: Mapped) -> None:
        self.mapped, self.text, self.at = text, text.text, 0
        self.branches: list[str] = []
        self.count = 0

    def block(self, depth: int) -> Iterator[Directive]:
        """The directives up to the brace that ends the block, or the end of the text."""
        if depth > MOST_DEEP:
            raise NginxError("nested too deep")
        words: list[Word] = []
        begin = self.at
        while (token := self._token()) is not None:
            kind, start, word = token
            if not words:
                begin = start
            if kind == "word" and word is not None:
                words.append(word)
                if word.filled and len(words) == 1:
                    yield self._made(words, begin)
                    words = []
            elif kind == ";":
                if words:
                    yield self._made(words, begin)
                words = []
            elif kind == "{":
                if not words:
                    raise NginxError("a block without a name")
                head, inside = list(words), self.mapped.span(self.at).start
                state = self._state()
                inner = tuple(self.block(depth + 1))
                span = self.mapped.span(begin, self.at)
                yield Directive(tuple(head), span, inner, inside, *state)
                words = []
            else:
                if words or depth == 0:
                    raise NginxError("a brace where a `;` is expected")
                return
        if words or depth:
            raise NginxError("the text ends in the middle of a directive")

    def _made(self, words: list[Word], begin: int) -> Directive:
        return Directive(tuple(words), self.mapped.span(begin, self.at), (), None, *self._state())

    def _state(self) -> tuple[bool, bool]:
        return "if" in self.branches, "for" in self.branches

    def _token(self) -> tuple[str, int, Word | None] | None:
        self._skip()
        if self.at >= len(self.text):
            return None
        self.count += 1
        if self.count > MOST_WORDS:
            raise NginxError("too many words")
        start, first = self.at, self.text[self.at]
        hole = _HOLE.match(self.text, start)
        if hole is not None:
            self.at = hole.end()
            self._rest()
            return "word", start, self._word(start, self.text[start : self.at], True)
        if first in ";{}":
            self.at += 1
            return first, start, None
        if first in _QUOTED:
            quoted = _QUOTED[first].match(self.text, start)
            if quoted is None:
                raise NginxError("a quote without an end")
            self.at = quoted.end()
            return "word", start, self._word(start, quoted[1], False)
        self._rest()
        if self.at == start:
            raise NginxError("a character that begins no word")
        written = self.text[start : self.at]
        return "word", start, self._word(start, written, "{{" in written)

    def _rest(self) -> None:
        """To the end of a word, of which parts may be filled in."""
        while (found := _HOLE.match(self.text, self.at) or _WORD.match(self.text, self.at)) and (
            found.end() > self.at
        ):
            self.at = found.end()

    def _word(self, start: int, text: str, filled: bool) -> Word:
        return Word(text, self.mapped.span(start, self.at), filled)

    def _skip(self) -> None:
        """Over blanks, comments and the words of a template."""
        while self.at < len(self.text):
            block = _BLOCK.match(self.text, self.at)
            if block is not None:
                self._branch(block[1])
            found = block or _BLANK.match(self.text, self.at) or _COMMENT.match(self.text, self.at)
            if found is None:
                return
            self.at = found.end()

    def _branch(self, word: str) -> None:
        if word in ("if", "for"):
            self.branches.append(word)
        elif word in ("endif", "endfor") and self.branches:
            self.branches.pop()
