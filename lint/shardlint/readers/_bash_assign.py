"""What assignments do to the scope: `A=b`, `A+=b`, `A=(b c)`, `export A=b` and its kin."""

from __future__ import annotations

import re
from dataclasses import replace

from shardlint.known import Text
from shardlint.readers._bash_expand import Expander
from shardlint.readers._bash_scan import RawWord
from shardlint.readers._bash_scope import Variable, assumed, defined, joined, related
from shardlint.source import Mapped

LOCALS = frozenset({"local", "declare", "typeset"})
DECLARERS = LOCALS | {"export", "readonly"}

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Setter:
    """Sets variables in the scope of an expander.

    `local` are the names that the function being read has for itself, None outside of functions.
    """

    def __init__(self, shell: Expander) -> None:
        self.shell = shell
        self.local: set[str] | None = None

    def written(self, raw: RawWord) -> str:
        return self.shell.text[raw.start : raw.end]

    def assignment(self, raw: RawWord) -> re.Match[str] | None:
        return _ASSIGNMENT.match(self.shell.text, raw.start, raw.end)

    def declare(self, words: list[RawWord]) -> None:
        """`export`, `declare` and the like: assignments, options and names."""
        kind = self.written(words[0])
        exported = kind == "export"
        for raw in words[1:]:
            if found := self.assignment(raw):
                self._localize(kind, found[1])
                self.assign(raw, exported)
                continue
            for text in self.shell.texts(raw):
                value = text.value or ""
                if value.startswith(("-", "+")):
                    exported = exported or (value[0] == "-" and "x" in value)
                else:
                    self._declare_text(kind, text, value, exported)

    def _declare_text(self, kind: str, text: Text, value: str, exported: bool) -> None:
        """A word such as `"A=b"`, or a name alone."""
        scope, name = self.shell.scope, value.partition("=")[0]
        if not _NAME.fullmatch(name):
            return
        local = self._localize(kind, name)
        if "=" in value:
            scope.assign(name, text.part(len(name) + 1), exported)
        elif local:
            scope.assign(name, Text(Mapped("", [], []), text.origin))
        elif name in scope.variables:
            scope.assign(name, scope.variables[name].value, exported)

    def _localize(self, kind: str, name: str) -> bool:
        if self.local is None or kind not in LOCALS:
            return False
        self.local.add(name)
        return True

    def assign(self, raw: RawWord, exported: bool) -> None:
        found = self.assignment(raw)
        assert found is not None
        name, index, plus = found.groups()
        scope, origin = self.shell.scope, self.shell.origin(found.end(), raw.end)
        old = scope.variables.get(name) if plus else None
        if index:
            scope.forget(name, "one element at a time", origin)
        elif raw.items is None:
            value = self.shell.value(found.end(), raw.end)
            scope.assign(name, self._appended(name, old, value) if plus else value, exported)
        elif any(self.shell.text[item.start] == "[" for item in raw.items):
            scope.forget(name, "by keys", origin)
        else:
            items = [text for item in raw.items for text in self.shell.texts(item)]
            scope.assign(name, (*_elements(old), *items), exported)

    def _appended(self, name: str, old: Variable | None, added: Text) -> Text:
        """The value after `name+=...`."""
        if old is None:
            unset = f"{name} is not set in the environment"
            return replace(added, assumes=added.assumes | {unset})
        before = old.value
        if not isinstance(before, Text):
            return Text.unknown(added.origin, f"{name} is set one element at a time")
        used = [defined(before), added]
        if before.mapped is None or added.mapped is None:
            reason = before.reason or added.reason or f"{name} is not known"
            return Text.unknown(added.origin, reason, related=related(used))
        self.shell.work.spend(len(before.mapped) + len(added.mapped))
        first = before.mapped
        if before.origin.file != self.shell.file:
            first = Mapped.all_at(first.text, added.origin.span)
        mapped = replace(joined([first, added.mapped]), literal=False)
        return Text(mapped, added.origin, None, related(used), None, assumed(used))


def _elements(old: Variable | None) -> tuple[Text, ...]:
    """The elements that `name+=(...)` adds to."""
    if old is None:
        return ()
    if not isinstance(old.value, Text):
        return old.value
    return (old.value if old.value.mapped else replace(old.value, many=True),)
