"""The statements of a shell script, from tree-sitter, which is imported when a script is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_OPERATORS = 5_000
"""The parser takes quadratic time on long runs of these; no real script has as many."""

SIMPLE = frozenset({
    "command", "declaration_command", "unset_command", "variable_assignment",
    "variable_assignments",
})  # fmt: skip
GROUPS = frozenset({
    "program", "redirected_statement", "heredoc_redirect", "compound_statement", "do_group",
    "negated_command", "elif_clause", "else_clause", "case_item",
})  # fmt: skip
LOOPS = frozenset({"while_statement", "for_statement", "c_style_for_statement"})
_ASSIGNS = re.compile(r"(?:[-+*/%&|^]|<<|>>)?=")
SETTERS = frozenset({"read", "getopts", "mapfile", "readarray"})


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class Tree:
    """A parsed script; offsets are in characters."""

    def __init__(self, text: str) -> None:
        self.root: Node | None = None
        self._characters: list[int] | None = None
        if sum(text.count(sign) for sign in ("|", "(", "<<", "&&")) > MAX_OPERATORS:
            return
        if not text.isascii():
            self._characters = _characters(text)
        if text.endswith("\\"):
            text = text[:-1]  # a word of its own to the shell, an error to the parser
        self.root = _parser().parse(text.encode("utf-8", "replace")).root_node

    def start(self, node: Node) -> int:
        return self._offset(node.start_byte)

    def end(self, node: Node) -> int:
        return self._offset(node.end_byte)

    def _offset(self, byte: int) -> int:
        return byte if self._characters is None else self._characters[byte]


def _characters(text: str) -> list[int]:
    """For each byte of the UTF-8 text, and its end, the offset of the character it is in."""
    characters: list[int] = []
    for offset, char in enumerate(text):
        characters.extend([offset] * len(char.encode("utf-8", "replace")))
    characters.append(len(text))
    return characters


def chain(node: Node) -> tuple[Node, list[tuple[str, Node]]]:
    """`a && b || c` as its first part and the others, each with the operator before it.

    The tree leans left, one level a part, so this walks instead of recursing.
    """
    parts: list[tuple[str, Node]] = []
    while node.type == "list":
        named = [child for child in node.named_children if child.type != "comment"]
        if len(named) < 2:
            break
        test = next((child.type for child in node.children if child.type in ("&&", "||")), "&&")
        parts.append((test, named[-1]))
        node = named[0]
    return node, parts[::-1]


def arms(node: Node) -> list[list[Node]]:
    """The alternatives of an `if` or `case`: of each, the statements."""
    first: list[Node] = []
    others: list[list[Node]] = []
    for child in node.named_children:
        if child.type in ("elif_clause", "else_clause", "case_item"):
            others.append([child])
        else:
            first.append(child)
    return [first, *others]


def assigned(loop: Node) -> Iterator[tuple[str, Node]]:
    """Variables that one turn of a loop sets for the next; `@` where it shifts the arguments."""
    waiting = [loop]
    while waiting:
        node = waiting.pop()
        if node.type == "test_command":
            continue
        waiting.extend(node.named_children)
        if node.type == "variable_assignment":
            yield from _names(node.child_by_field_name("name"))
        elif node.type == "for_statement":
            yield from _names(node.child_by_field_name("variable"))
        elif node.type in ("postfix_expression", "unary_expression", "binary_expression"):
            yield from _names(_changed(node))
        elif node.type == "command":
            yield from _set_by(node)


def _changed(expression: Node) -> Node | None:
    """The variable that arithmetic changes: `i++`, `i = 2`, `i += 2`."""
    signs = {child.type for child in expression.children if not child.is_named}
    changes = any(sign in ("++", "--") or _ASSIGNS.fullmatch(sign) for sign in signs)
    return expression.named_children[0] if changes and expression.named_children else None


def _names(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None:
        yield text_of(node).split("[", 1)[0], node


def _set_by(command: Node) -> Iterator[tuple[str, Node]]:
    words = [text_of(child) for child in command.named_children]
    if words and words[0] in SETTERS:
        yield from ((word, command) for word in words[1:] if word.isidentifier())
    elif (words and words[0] == "shift") or words[:2] == ["set", "--"]:
        yield "@", command


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
