"""The commands of a script, read once from top to bottom.

What runs only sometimes is read where it stands, and what it sets is unknown afterwards. A function
is read where it is called, with the arguments of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from shardlint.known import Text
from shardlint.readers._bash_assign import DECLARERS, Setter
from shardlint.readers._bash_expand import Expander
from shardlint.readers._bash_nested import nested
from shardlint.readers._bash_scan import RawWord, ScanError, Simple, unix
from shardlint.readers._bash_scope import (
    Arguments,
    Piece,
    Scope,
    Variable,
    Word,
    Work,
    WorkError,
    joined,
)
from shardlint.readers._bash_tree import GROUPS, LOOPS, SETTERS, SIMPLE, Tree, arms, assigned, chain
from shardlint.record import record
from shardlint.source import Mapped, Origin

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SCRIPT = 200_000
MAX_COMMANDS = 2_000
MAX_BLOCKS = 60
"""Blocks inside each other, over all scripts in scripts; what is nested deeper is left out."""

MAX_CALLS = 5
"""Scripts inside scripts, and functions that call functions."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BETWEEN = re.compile(r"(?:[ \t\n;&]|#[^\n]*)*")
_KEYWORDS = frozenset({"{", "!", "then", "do", "else"})


SURE, AFTER, PERHAPS = 0, 1, 2
"""A command runs; it does where what stands before it succeeds; it hangs on a test."""

TESTS = frozenset(
    {"[", "[[", "test", "false", "grep", "egrep", "pgrep", "command", "which", "type", "nvidia-smi"}
)
"""Commands that are run for their answer."""

ENDLESS = ("true", ":", "[ 1 ]", "[ true ]", "[[ true ]]", "((1))", "false")
"""Conditions of loops that run until they are left: `while true`, `until false`."""


@record
class Command:
    """A simple command; several stand in the order in which they run.

    `argv` are its words, the name first, redirections left out; before a value that is not known
    `--name=` is a word of its own, without `=`. `env` are the variables in force, those before the
    command included; only the `exported` ones reach the process. `origin` is all of it, from the
    first character to the last. `conditional`: it stands in a branch, loop or function, or behind
    `&&` or `||`; `branch`: whether it runs hangs on a test, or nothing that is seen leads to it.
    `sourced`: a file that was read before it, and that can set more variables.
    """

    argv: tuple[Text, ...]
    env: Mapping[str, Text]
    exported: frozenset[str]
    origin: Origin
    conditional: bool
    sourced: str | None = None
    branch: bool = False


@dataclass(slots=True)
class Run:
    """What all scripts inside one script share."""

    work: Work
    found: list[Command] = field(default_factory=list)
    holes: int = 0


class Reader:
    """Reads one script text in a scope that changes on the way."""

    def __init__(self, run: Run, script: Mapped, file: str, scope: Scope, calls: int = 0) -> None:
        self.run, self.calls = run, calls
        self.shell = Expander(unix(script), file, scope, run.work)
        self.functions: dict[str, list[Node]] = {}
        self.called: set[str] = set()
        self.setter = Setter(self.shell)
        self.done = 0
        self.apart, self.ended = 0, False

    def read(self, doubt: int = SURE, depth: int = 0) -> None:
        text = self.shell.text
        if len(text) > MAX_SCRIPT:
            return
        self.run.work.spend(len(text))
        self.tree = Tree(text)
        if self.tree.root is not None:
            self._walk(self.tree.root, doubt, depth)
        while pending := [name for name in self.functions if name not in self.called]:
            lost = f"the arguments of {pending[0]} are not known"
            self._enter(pending[0], Arguments(lost=lost), self.shell.scope, PERHAPS, depth)

    # statements --------------------------------------------------------------------------------

    def _walk(self, node: Node, doubt: int, depth: int) -> None:
        if depth > MAX_BLOCKS:
            return
        kind, depth = node.type, depth + 1
        if kind in SIMPLE:
            self._simple(node, doubt, depth)
        elif kind in GROUPS:
            self._group(node, doubt, depth)
        elif kind == "list":
            self._chain(node, doubt, depth)
        elif kind == "subshell":
            self._apart([node.named_children], doubt, depth)
        elif kind == "pipeline":
            self._apart([[child] for child in node.named_children], doubt, depth)
        elif kind in ("if_statement", "case_statement"):
            self._branches(arms(node), "in a branch", depth)
        elif kind == "ERROR":
            self._branches([node.named_children], "near a syntax error", depth)
        elif kind in LOOPS:
            self._loop(node, depth)
        elif kind == "function_definition":
            self._define(node)

    def _group(self, node: Node, doubt: int, depth: int) -> None:
        if node.children and node.children[0].type == "((":
            self._forget_assigned(node, "by arithmetic")
            return
        if node.child_by_field_name("operator") is not None:
            doubt = max(doubt, AFTER)
        for child in node.named_children:
            self._walk(child, doubt, depth)

    def _chain(self, node: Node, doubt: int, depth: int) -> None:
        first, others = chain(node)
        caught = any(test == "||" and not self._gives_up(part) for test, part in others)
        self._walk(first, PERHAPS if caught else doubt, depth)
        before = self.shell.scope.copy()
        for test, part in others:
            if test == "||":  # what an `&&` before it sets may not have happened
                self._settle(before, [self.shell.scope.copy()], "in a branch")
            hangs = PERHAPS if test == "||" or self._tests(first) else AFTER
            doubt = max(doubt, hangs)
            self._walk(part, doubt, depth)
            first = part
        self._settle(before, [self.shell.scope.copy()], "in a branch")

    def _tests(self, node: Node) -> bool:
        """A command that is run for its answer, and not for what it does."""
        words = self._text(node).split(None, 1)
        return not words or words[0] in TESTS or words[0].startswith(("!", "((", "[["))

    def _gives_up(self, node: Node) -> bool:
        """What runs after a failure starts nothing in its place."""
        text = self._text(node)
        return bool(re.match(r"(true|:|echo|printf|exit|return|sleep|kill)\b|:", text)) or bool(
            re.search(r"\b(exit|return)\b", text)
        )

    def _text(self, node: Node) -> str:
        return self.shell.text[self.tree.start(node) : self.tree.end(node)]

    def _apart(self, groups: Iterable[Iterable[Node]], doubt: int, depth: int) -> None:
        """Statements of subshells: what they set is gone afterwards."""
        scope = self.shell.scope
        self.apart += 1
        for group in groups:
            self.shell.scope = scope.copy()
            for node in group:
                self._walk(node, doubt, depth)
        self.apart -= 1
        self.shell.scope = scope

    def _branches(
        self, groups: Iterable[Iterable[Node]], how: str, depth: int, doubt: int = PERHAPS
    ) -> None:
        """Alternatives, of which each starts from the same scope."""
        scope = self.shell.scope
        ends: list[Scope] = []
        for group in groups:
            self.shell.scope = scope.copy()
            for node in group:
                self._walk(node, doubt, depth)
            ends.append(self.shell.scope)
        self.shell.scope = scope
        self._settle(scope.copy(), ends, how)

    def _loop(self, node: Node, depth: int) -> None:
        """A loop: what one turn sets, the next turn finds."""
        self._forget_assigned(node, "in a loop")
        body = node.child_by_field_name("body")
        one_turn = node.named_children if node.type == "while_statement" else [body]
        once = node.type != "while_statement" or self._endless(node)
        turn = [child for child in one_turn if child]
        self._branches([turn], "in a loop", depth, AFTER if once else PERHAPS)

    def _endless(self, node: Node) -> bool:
        condition = node.child_by_field_name("condition")
        return condition is not None and self._text(condition).strip(" ;") in ENDLESS

    def _forget_assigned(self, node: Node, how: str) -> None:
        scope = self.shell.scope
        for name, where in assigned(node):
            if name == "@":
                scope.arguments = replace(scope.arguments, lost=f"the arguments are set {how}")
            else:
                origin = self.shell.origin(self.tree.start(where), self.tree.end(where))
                scope.forget(name, how, origin)

    def _settle(self, start: Scope, ends: Iterable[Scope], how: str) -> None:
        """Forget what differs between the start of a branch and any of its ends."""
        scope = self.shell.scope
        for end in ends:
            scope.sourced = scope.sourced or end.sourced
            scope.doubted |= end.doubted
            if end.arguments != start.arguments:
                scope.arguments = replace(start.arguments, lost=f"the arguments are set {how}")
            for name in sorted(start.variables.keys() | end.variables.keys()):
                old, new = start.variables.get(name), end.variables.get(name)
                changed = new or old
                if changed and (old and old.value) is not (new and new.value):
                    exported = changed.exported
                    scope.forget(name, how, _place(changed) or self.shell.origin(0, 0))
                    scope.assign(name, scope.variables[name].value, exported)

    def _define(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions.setdefault(self._text(name), []).append(body)

    def _enter(self, name: str, arguments: Arguments, scope: Scope, doubt: int, depth: int) -> None:
        """Read the body of a function as it is called."""
        self.called.add(name)
        if self.calls >= MAX_CALLS:
            return
        outer, done, local = self.shell.scope, self.done, self.setter.local
        start = replace(scope.copy(), arguments=arguments)
        doubt = max(doubt, AFTER)
        ends = [self._body(body, start, doubt, depth) for body in self.functions[name]]
        self.shell.scope, self.done, self.setter.local = outer, done, local
        self._settle(start, ends, "in a function")

    def _body(self, body: Node, start: Scope, doubt: int, depth: int) -> Scope:
        self.shell.scope, self.done, self.setter.local = start.copy(), 0, set()
        self.calls += 1
        self._walk(body, doubt, depth)
        self.calls -= 1
        end = replace(self.shell.scope, arguments=start.arguments)
        for name in self.setter.local:
            end.variables.pop(name, None)
            if name in start.variables:
                end.variables[name] = start.variables[name]
        return end

    # simple commands ---------------------------------------------------------------------------

    def _simple(self, node: Node, doubt: int, depth: int) -> None:
        """One command, or several lines that the tree takes for one."""
        at, end = self.tree.start(node), self.tree.end(node)
        while self.done <= at < end:
            try:
                simple = self.shell.command(at)
            except ScanError:
                return
            self.done = max(simple.stop, at + 1)
            self._read(simple, doubt, depth)
            between = _BETWEEN.match(self.shell.text, self.done)
            at = between.end() if between else end
            if self.shell.text.startswith((")", "|"), at):
                return

    def _read(self, simple: Simple, doubt: int, depth: int) -> None:
        words = list(simple.words)
        while words and self.setter.written(words[0]) in _KEYWORDS:
            del words[0]
        before = list(takewhile(self.setter.assignment, words))
        words = words[len(before) :]
        if not words:
            for raw in before:
                self.setter.assign(raw, False)
        elif self.setter.written(words[0]) in DECLARERS:
            self.setter.declare(words)
        else:
            expanded = [word for raw in words for word in self.shell.words(raw)]
            scope = self._with(before)
            origin = self.shell.origin(simple.start, simple.end)
            if expanded:
                self.start(expanded, origin, doubt, depth, scope)

    def _with(self, assignments: list[RawWord]) -> Scope:
        """The scope of one command with assignments before it."""
        scope = self.shell.scope
        if not assignments:
            return scope
        self.shell.scope = scope.copy()
        for raw in assignments:
            self.setter.assign(raw, True)
        inner, self.shell.scope = self.shell.scope, scope
        return inner

    def start(
        self, words: list[Word], origin: Origin, doubt: int, depth: int, scope: Scope
    ) -> None:
        """A command with its words: a script in it is read instead of it."""
        argv = tuple(self.shell.text_of(word) for word in words)
        name = argv[0].value or ""
        doubt = PERHAPS if self.ended else doubt
        if not (doubt or self.apart) and (name == "exit" or (name == "exec" and argv[1:])):
            self.ended = True
        if self.calls < MAX_CALLS and (
            self._eval(name, words, doubt, depth, scope)
            or self._nested(words, argv, doubt, depth, scope)
        ):
            return
        variables, exported, sourced = scope.texts(), scope.exported(), scope.setting()
        self._found(
            Command(argv, variables, exported, origin, doubt > SURE, sourced, doubt > AFTER)
        )
        if name in self.functions:
            self._enter(name, Arguments(argv[1:]), scope, doubt, depth)
        else:
            self._take_effect(name, argv)

    def _found(self, command: Command) -> None:
        if len(self.run.found) >= MAX_COMMANDS:
            raise WorkError
        self.run.work.spend(len(command.env))
        self.run.found.append(command)

    def _take_effect(self, name: str, argv: tuple[Text, ...]) -> None:
        """What a builtin does to variables and arguments."""
        scope = self.shell.scope
        values = [text.value or "" for text in argv]
        if name in SETTERS or (name == "printf" and values[1:2] == ["-v"]):
            for text, value in zip(
                argv[1:3] if name == "printf" else argv[1:], values[1:], strict=False
            ):
                if _NAME.fullmatch(value):
                    scope.forget(value, f"by {name}", text.origin)
        elif name == "let":
            for text, value in zip(argv[1:], values[1:], strict=True):
                if assigned := re.match(r"([A-Za-z_]\w*)[-+*/%]?=", value):
                    scope.forget(assigned.group(1), "by let", text.origin)
        elif name == "unset":
            for value in values[1:]:
                scope.variables.pop(value, None)
        elif name == "shift":
            count = values[1] if len(values) > 1 else "1"
            known = re.fullmatch(r"[0-9]{1,4}", count)
            lost = replace(scope.arguments, lost="the arguments are not known after shift")
            scope.arguments = scope.arguments.shift(int(count)) if known else lost
        elif name == "set" and "--" in values:
            scope.arguments = Arguments(argv[values.index("--") + 1 :])
        elif name in ("source", ".") and len(argv) > 1:
            scope.source(argv[1].value or "a sourced file")

    # scripts in commands -----------------------------------------------------------------------

    def _eval(self, name: str, words: list[Word], doubt: int, depth: int, scope: Scope) -> bool:
        """Read the words of `eval` as a script in the same scope."""
        if name != "eval" or not _any_known(words[1:]):
            return False
        script, holes = self._script(words[1:])
        scope.variables.update(holes)
        scope.holes |= holes.keys()
        reader = Reader(self.run, script, self.shell.file, scope, self.calls + 1)
        reader.read(doubt, depth)
        scope.holes -= holes.keys()
        for hole in holes:
            scope.variables.pop(hole, None)
        return True

    def _nested(
        self,
        words: list[Word],
        argv: tuple[Text, ...],
        doubt: int,
        depth: int,
        scope: Scope,
    ) -> bool:
        """Read the script of `bash -c script name args` in a scope of its own."""
        found = nested(argv)
        if found is None or not _any_known([words[found.script]]):
            return False
        file, script, variables = self.shell.file, *self._script([words[found.script]])
        text = argv[found.script]
        if text.mapped is not None and text.origin.file != file:  # it stands in another file
            file, script = text.origin.file, text.mapped
        environment = {n: v for n, v in scope.variables.items() if v.exported}
        added = {name: Variable(text, True) for name, text in found.env.items()}
        rest = argv[found.script + 1 :]
        name = rest[0] if rest and not rest[0].many else None
        arguments = Arguments(rest[1:] if name else rest)
        holes = frozenset(variables)
        sourced = self.shell.scope.sourced
        inner = Scope({**environment, **added, **variables}, arguments, name, sourced, holes)
        Reader(self.run, script, file, inner, self.calls + 1).read(doubt, depth)
        return True

    def _script(self, words: Sequence[Word]) -> tuple[Mapped, dict[str, Variable]]:
        """Words as one text; what is not known becomes a variable in it."""
        parts: list[Mapped] = []
        holes: dict[str, Variable] = {}
        for word in words:
            if parts:
                end = parts[-1].ends[-1] if parts[-1].text else 0
                parts.append(Mapped(" ", [end], [end], literal=False))
            for piece in word.pieces:
                mapped = self._characters(piece)
                if mapped is None:
                    name = f"__unknown_{self.run.holes}__"
                    self.run.holes += 1
                    origin = self._origin(piece)
                    text = Text.unknown(origin, piece.reason, related=piece.related)
                    holes[name] = Variable(text)
                    mapped = Mapped.all_at(f"${{{name}}}", origin.span)
                parts.append(mapped)
        return joined(parts), holes

    def _characters(self, piece: Piece) -> Mapped | None:
        whole = piece.whole
        if whole is not None and whole.origin.file == self.shell.file:
            return whole.mapped
        return piece.mapped

    def _origin(self, piece: Piece) -> Origin:
        return piece.whole.origin if piece.whole else self.shell.origin(piece.start, piece.end)


def _any_known(words: Sequence[Word]) -> bool:
    return any(piece.mapped is not None for word in words for piece in word.pieces)


def _place(variable: Variable) -> Origin | None:
    if isinstance(variable.value, Text):
        return variable.value.origin
    return variable.value[0].origin if variable.value else None
