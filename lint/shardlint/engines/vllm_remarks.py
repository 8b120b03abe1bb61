"""What there is to say about a vLLM command line that its parser accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardlint.engines.flags import HOLE, FlagTable, FlagView, ParsedWords
from shardlint.engines.vllm_command import (
    Command,
    Version,
    option_name,
    successor,
    two_words,
)
from shardlint.known import Known
from shardlint.plan import Flag, Releases, Remark


def remarks(
    table: FlagTable, found: Sequence[Version], command: Command, releases: Known[Releases]
) -> tuple[Remark, ...]:
    """Remarks on a reading that some release accepts, in order of their places."""
    chosen = found[-1]
    made = [
        *_abbreviated(chosen.view, chosen.parsed),
        *_redundant(chosen.parsed),
        *_replaced(chosen.parsed),
        *_not_read(chosen.parsed),
        *_two_models(chosen, command),
        *_no_model(chosen, command),
        *_one_word(chosen),
    ]
    if releases.how != "defaulted":
        made += _leaving(table, found, command)
    return tuple(sorted(made, key=lambda remark: remark.at.span))


def _abbreviated(view: FlagView, parsed: ParsedWords) -> Iterator[Remark]:
    """A prefix that only one option has: another release may have two."""
    for index, flag in enumerate(parsed.flags):
        name = option_name(flag.written)
        spellings = view.whole(name)
        if flag.flag is None or name in spellings or len(spellings) != 1 or name == flag.flag:
            continue
        yield Remark(
            kind="abbreviated", at=flag.written.place, flag=index, replaced_by=spellings[0],
            message=f"`{name}` is short for `{spellings[0]}` as long as no other option begins so",
            help=f"write `{spellings[0]}`",
        )  # fmt: skip


def _redundant(parsed: ParsedWords) -> Iterator[Remark]:
    """An option that is given again further on: the last one counts."""
    for name in dict.fromkeys(flag.flag for flag in parsed.flags if flag.flag):
        same = [flag for flag in parsed.flags if flag.flag == name and flag.dotted is None]
        for flag in same[:-1]:
            last = same[-1]
            if not (_literal(flag) and _literal(last)):
                continue  # a variable may be meant to be overridden
            equal = _said(flag) == _said(last)
            yield Remark(
                kind="redundant", at=flag.written.place, severity="info" if equal else "warning",
                message=(
                    f"`{flag.written.value}` is given again with the same value"
                    if equal
                    else f"`{flag.written.value}` has no effect: the last one counts"
                ),
                help="keep one of them", related=((last.written.place, "this one counts"),),
            )  # fmt: skip


def _literal(flag: Flag) -> bool:
    words = [text for text in (flag.written, flag.value, *flag.more) if text is not None]
    return all(word.mapped is not None and word.mapped.literal for word in words)


def _said(flag: Flag) -> object:
    values = [text.value for text in (flag.value, *flag.more) if text is not None]
    return flag.negated, values


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


def _not_read(parsed: ParsedWords) -> Iterator[Remark]:
    """`--config=FILE`: only `--config` as a word of its own is looked for."""
    for flag in parsed.flags:
        if flag.flag == "--config" and flag.written.value != "--config":
            file = flag.value.value if flag.value is not None else None
            yield Remark(
                kind="ignored", at=flag.written.place, severity="warning",
                message=f"{file or 'the file'} is not read: `--config` is not a word of its own",
                help=f"write `--config {file or 'FILE'}`, in two words",
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


def _leaving(table: FlagTable, found: Sequence[Version], command: Command) -> Iterator[Remark]:
    """Options that every stated release warns of, or that a later release does not have."""
    views = [view for one in found for view in one.views]
    chosen = found[-1]
    for index, flag in enumerate(chosen.parsed.flags):
        name = option_name(flag.written)
        if flag.flag is None or flag.dotted or name not in chosen.view.whole(name):
            continue
        if flag.flag == "--model" and not command.serve:
            continue
        options = [view.named(flag.flag) for view in views]
        warned = all(option is not None and option.deprecated for option in options)
        history = table.history(name)
        gone = history.first_gone if history is not None else None
        if not warned and gone is None:
            continue
        replacement = successor(table, name, command.words)
        usable = replacement is not None and _everywhere(views, replacement)
        yield Remark(
            kind="deprecated", at=flag.written.place, flag=index,
            replaced_by=replacement if usable else None,
            message=_farewell(name, warned, gone),
            help=f"write `{replacement}`" if usable else None,
        )  # fmt: skip


def _everywhere(views: Sequence[FlagView], replacement: str) -> bool:
    name = option_name_of(replacement)
    return all(view.named(name) is not None for view in views)


def option_name_of(text: str) -> str:
    """The option in a replacement such as "--eplb-config.step_interval" or "--a b"."""
    return text.partition(" ")[0].partition(".")[0]


def _farewell(name: str, warned: bool, gone: str | None) -> str:
    if warned and gone is not None:
        return f"`{name}` is deprecated, and vLLM {gone} does not have it"
    if warned:
        return f"`{name}` is deprecated"
    return f"`{name}` works here, and vLLM {gone} does not have it"
