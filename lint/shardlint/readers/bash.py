"""Shell text as commands: words after expansion, variables in force, and exact places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from shardlint.known import Text
from shardlint.readers._bash_expand import Expander
from shardlint.readers._bash_read import Command, Reader, Run
from shardlint.readers._bash_scan import BLANKS, RawWord, ScanError, unix, word_end
from shardlint.readers._bash_scope import Arguments, Scope, Variable, Work, WorkError, word_of
from shardlint.source import Mapped, Origin, Span

__all__ = ["Command", "read_argv", "read_script", "split_words"]

NOTHING: Mapping[str, Text] = MappingProxyType({})

MAX_WORK = 4_000_000
"""Characters read and written for one script, scripts inside it and expansions included."""


def read_script(
    script: Mapped,
    file: str,
    variables: Mapping[str, Text] = NOTHING,
    arguments: Sequence[Text] | None = None,
    *,
    name: Text | None = None,
) -> tuple[Command, ...]:
    """The commands of a script, those of scripts inside it included; never raises.

    `variables` are the environment that it starts with, `arguments` its `$1`, `$2` and so on,
    `name` is `$0`.
    """
    words = None if arguments is None else tuple(arguments)
    scope = Scope(_environment(variables), Arguments(words), name)
    run = Run(Work(MAX_WORK))
    with suppress(WorkError):
        Reader(run, script, file, scope).read()
    return tuple(run.found)


def read_argv(
    argv: Sequence[Text], file: str, variables: Mapping[str, Text] = NOTHING
) -> tuple[Command, ...]:
    """The command that these words are, or those of the script that they give to a shell."""
    if not argv:
        return ()
    run = Run(Work(MAX_WORK))
    reader = Reader(run, Mapped("", range(0), range(0)), file, Scope(_environment(variables)))
    with suppress(WorkError):
        words = [word_of(text) for text in argv]
        reader.start(words, _whole(argv), False, 0, reader.shell.scope)
    return tuple(run.found)


def split_words(
    line: Mapped,
    file: str,
    variables: Mapping[str, Text] = NOTHING,
    *,
    expand: bool = False,
    until: str = "",
) -> tuple[Text, ...]:
    """The words of one command string by the shell's quoting rules.

    Dollars and operators mean nothing here, unless asked to `expand` variables, or `until` names
    characters that end the line where no quote protects them.
    """
    work = Work(MAX_WORK)
    shell = Expander(unix(line), file, Scope(_environment(variables)), work, expand)
    found: list[Text] = []
    with suppress(WorkError):
        _split(shell, until, expand, found)
    return tuple(found)


def _split(shell: Expander, until: str, expand: bool, found: list[Text]) -> None:
    text, at = shell.text, 0
    while at < len(text) and text[at] not in until:
        if text[at] in BLANKS or text[at] == "\r":
            at += 1
            continue
        if text.startswith("\\\n", at):
            at += 2
            continue
        try:
            end = word_end(text, at, until + "\r", expand)
        except ScanError:
            rest = shell.origin(at, len(text))
            found.append(Text.unknown(rest, "a quote does not close", many=True))
            return
        found += shell.texts(RawWord(at, end))
        at = end


def _environment(variables: Mapping[str, Text]) -> dict[str, Variable]:
    return {name: Variable(text, True) for name, text in variables.items()}


def _whole(argv: Sequence[Text]) -> Origin:
    """From the first word to the last, as far as they stand in one file."""
    first = argv[0].origin
    spans = [text.origin.span for text in argv if text.origin.file == first.file]
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    return Origin(first.file, Span(start, end))
