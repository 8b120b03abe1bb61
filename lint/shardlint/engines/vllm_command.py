"""What vLLM asks of the words of a command line beyond its table of options.

vllm, utils/argparse_utils.py (utils.py before 0.11.2), entrypoints/cli/serve.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from shardlint.engines.command_lines import Command, Dialect, given, surplus
from shardlint.engines.flags import FlagView, ParsedWords
from shardlint.known import Text
from shardlint.plan import Flag, Refused, version

LEAST = {
    "--tensor-parallel-size": 1,
    "--pipeline-parallel-size": 1,
    "--prefill-context-parallel-size": 1,
    "--decode-context-parallel-size": 1,
    "--data-parallel-size": 1,
    "--data-parallel-size-local": 0,
    "--nnodes": 1,
}
"""config/parallel.py: the least value of an option; smaller ones pass the parser and die later."""
LEAST_SINCE = "0.23.0"

TWICE = "`--model` takes the place of the model behind `serve`: name one"

NAME = re.compile(r"--served[-_]model[-_]name(=.+|$)")


class VLLMDialect(Dialect):
    """Sizes have a least value, and `serve` looks for the model before anything is parsed."""

    def alike(self, view: FlagView, words: Sequence[Text]) -> object:
        small = any(re.search(r"(^|=)(-\d+|0+)$", word.value or "") for word in words)
        return small and _has_least(view)

    def least(self, view: FlagView, name: str) -> int | None:
        return LEAST.get(name) if _has_least(view) else None

    def drops(self, flag: Flag, command: Command) -> bool:
        """`key: false` in a file is left out where there is no option that says so."""
        written = flag.written
        negated = (written.value or "").startswith("--no-") and written.related
        return bool(negated) and command.in_file(written)

    def refused(self, view: FlagView, parsed: ParsedWords, command: Command) -> Iterator[Refused]:
        moved = _moved(view, parsed, command)
        most = 1 if command.serve is not False or view.grammar.module_model else 0
        yield from surplus(view, parsed, command, 0 if moved else most, TWICE if moved else None)
        yield from _model(view, parsed, command)
        yield from _file(parsed)


def _has_least(view: FlagView) -> bool:
    ours, theirs = version(view.release), version(LEAST_SINCE)
    return ours is not None and theirs is not None and ours >= theirs


def _model_word(flag: Flag) -> bool:
    """The word that `serve` looks for: `--model`, or `--model=` with a name."""
    return bool(re.match(r"--model(=.+|$)", flag.written.value or ""))


def _moved(view: FlagView, parsed: ParsedWords, command: Command) -> bool:
    """`serve` puts the name that `--model` has in the place of the positional one."""
    found = any(flag.flag == "--model" and _model_word(flag) for flag in parsed.flags)
    return bool(command.serve and view.grammar.model_option and found)


def _model(view: FlagView, parsed: ParsedWords, command: Command) -> Iterator[Refused]:
    """What `serve` asks of the model before the words are parsed, and before a file is read."""
    if not command.serve:
        return
    grammar = view.grammar
    for index, flag in enumerate(parsed.flags):
        if command.in_file(flag.written):
            continue
        asked = flag.flag == "--model" and flag.written.value == "--model"
        if asked and not grammar.model_option and not grammar.model_required:
            text = "you should provide the model as a positional argument"
            yield given(flag, flag.written, text, index, "`vllm serve MODEL`")
        elif asked and grammar.model_required and not parsed.positionals:
            if parsed.open_ended is None:
                text = "the following arguments are required: model_tag"
                yield given(flag, flag.written, text, index, "`vllm serve MODEL`")
        elif flag.flag == "--served-model-name" and grammar.name_behind_model:
            first = command.first
            behind = first is not None and not first.startswith("-")
            named = NAME.match(flag.written.value or "")
            if named and first is not None and not behind and not _excused(view, parsed, command):
                text = "`model` should be provided as the first positional argument"
                yield given(flag, flag.written, text, index, "the model directly after `serve`")


def _excused(view: FlagView, parsed: ParsedWords, command: Command) -> bool:
    config = any(re.match(r"--config(=.+|$)", word.value or "") for word in command.words)
    return config or command.file is not None or _moved(view, parsed, command)


def _file(parsed: ParsedWords) -> Iterator[Refused]:
    """`--config` as a word of its own: one file, of YAML."""
    found = [(index, flag) for index, flag in enumerate(parsed.flags)
             if flag.flag == "--config" and flag.written.value == "--config"]  # fmt: skip
    for index, flag in found[1:]:
        yield given(flag, flag.written, "More than one config file specified!", index)
    for index, flag in found[:1]:
        name = flag.value.value if flag.value is not None else None
        if flag.value is None or name is None:
            continue
        if name.split(".")[-1] not in ("yaml", "yml"):
            yield given(flag, flag.value, "Config file must be of a yaml/yml type", index)
