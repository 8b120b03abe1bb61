"""What there is to say about a vLLM command line that its parser accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardlint.engines import command_remarks
from shardlint.engines.command_lines import Command, Version, two_words
from shardlint.engines.flags import HOLE, FlagTable, ParsedWords
from shardlint.known import Known
from shardlint.plan import Releases, Remark


def remarks(
    table: FlagTable, found: Sequence[Version], command: Command, releases: Known[Releases]
) -> tuple[Remark, ...]:
    """Remarks on a reading that some release accepts, in order of their places."""
    chosen = found[-1]
    made = [
        *command_remarks.of_table(table, "vLLM", found, command, releases),
        *_replaced(chosen.parsed),
        *command_remarks.unread_file(chosen.parsed),
        *_two_models(chosen, command),
        *_no_model(chosen, command),
        *_one_word(chosen),
    ]
    return tuple(sorted(made, key=lambda remark: remark.at.span))


def _replaced(parsed: ParsedWords) -> Iterator[Remark]:
    """A JSON object beside keys of the same option: the keys replace the whole object."""
    keyed = {flag.flag: flag for flag in parsed.flags if flag.dotted and "+" not in flag.dotted}
    for flag in parsed.flags:
        other = keyed.get(flag.flag)
        if flag.dotted is None and other is not None and flag.flag is not None:
            yield Remark(
                kind="ignored", at=flag.written.place, severity="warning",
                message=(
                    f"the object of `{flag.flag}` is ignored:"
                    f" `{(other.written.value or '').partition('=')[0]}` replaces all of it"
                ),
                help="give every key in one way",
                related=((other.written.place, "replaces the object"),),
            )  # fmt: skip


def _two_models(chosen: Version, command: Command) -> Iterator[Remark]:
    """Where the parser takes both, the positional one replaces the other."""
    option, positional = chosen.parsed.last("--model"), chosen.parsed.positionals[:1]
    if option is None or option.value is None or not positional or chosen.refused:
        return
    names = option.value.value, positional[0].value
    if None in names or names[0] == names[1] or two_words(chosen.view, positional[0]):
        return
    if any(HOLE.search(name or "") for name in names):
        return
    wins = {True: f"{names[1]} is served", False: f"{names[0]} is served"}.get(
        bool(command.serve), ""
    )
    if command.serve is None:
        wins = "which one is served depends on what the image starts"
    yield Remark(
        kind="conflict", at=option.written.place, severity="warning",
        message=f"the model is given twice, as {names[1]} and as {names[0]}: {wins}",
        help="name one model", related=((positional[0].place, "the other model"),),
    )  # fmt: skip


def _no_model(chosen: Version, command: Command) -> Iterator[Remark]:
    """The module accepts a positional word since 0.10 and does nothing with it."""
    words = chosen.parsed.positionals[:1]
    if command.serve is not False or chosen.refused or chosen.parsed.last("--model") is not None:
        return
    for word in words:
        if word.value is not None:
            yield Remark(
                kind="ignored", at=word.place, severity="warning",
                message=f"{word.value} is ignored: this module reads the model from `--model`",
                help=f"write `--model {word.value}`, or start it with `vllm serve`",
            )  # fmt: skip


def _one_word(chosen: Version) -> Iterator[Remark]:
    """An option with its value in one word is taken for the model."""
    for word in chosen.parsed.positionals[:1]:
        help_ = two_words(chosen.view, word)
        if help_ is not None and not chosen.refused:
            yield Remark(
                kind="ignored", at=word.place, severity="warning", help=help_,
                message=f"`{word.value}` is one word with a blank in it, and read as no option",
            )  # fmt: skip
