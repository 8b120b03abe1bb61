"""What there is to say about a command line that the parser of some release accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardlint.engines.command_lines import Command, Version, option_name, successor
from shardlint.engines.flags import FlagTable, FlagView, ParsedWords
from shardlint.known import Known
from shardlint.plan import Flag, Releases, Remark


def of_table(
    table: FlagTable,
    label: str,
    found: Sequence[Version],
    command: Command,
    releases: Known[Releases],
) -> list[Remark]:
    """Remarks that follow from the table of options alone."""
    made = [*_abbreviated(found[-1].view, found[-1].parsed), *_redundant(found[-1].parsed)]
    if releases.how != "defaulted":
        made += _leaving(table, label, found, command)
    return made


def _abbreviated(view: FlagView, parsed: ParsedWords) -> Iterator[Remark]:
    """A prefix that only one option has: another release may have two."""
    for index, flag in enumerate(parsed.flags):
        name = option_name(view, flag.written)
        spellings = view.whole(name)
        if flag.flag is None or name in spellings or len(spellings) != 1 or name == flag.flag:
            continue
        yield Remark(
            kind="abbreviated", at=flag.written.place, flag=index, replaced_by=spellings[0],
            message=f"`{name}` is short for `{spellings[0]}` as long as no other option begins so",
            help=f"write `{spellings[0]}`",
        )  # fmt: skip


ADDING_UP = frozenset({"--middleware"})
"""Options of which every mention counts (vllm/entrypoints, cli_args.py: the action "append")."""


def _redundant(parsed: ParsedWords) -> Iterator[Remark]:
    """An option that is given again further on: the last one counts."""
    for name in dict.fromkeys(flag.flag for flag in parsed.flags if flag.flag):
        if name in ADDING_UP:
            continue
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


def _leaving(
    table: FlagTable, label: str, found: Sequence[Version], command: Command
) -> Iterator[Remark]:
    """Options that every stated release warns of, or that a later release does not have."""
    views = [view for one in found for view in one.views]
    chosen = found[-1]
    for index, flag in enumerate(chosen.parsed.flags):
        name = option_name(table, flag.written)
        if flag.flag is None or flag.dotted or name not in chosen.view.whole(name):
            continue
        if flag.flag == "--model" and (not command.serve or command.in_file(flag.written)):
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
            message=_farewell(label, name, warned, gone),
            help=f"write `{replacement}`" if usable else None,
        )  # fmt: skip


def _everywhere(views: Sequence[FlagView], replacement: str) -> bool:
    name = option_name_of(replacement)
    return all(view.named(name) is not None for view in views)


def option_name_of(text: str) -> str:
    """The option in a replacement such as "--eplb-config.step_interval" or "--a b"."""
    return text.partition(" ")[0].partition(".")[0]


def _farewell(label: str, name: str, warned: bool, gone: str | None) -> str:
    if warned and gone is not None:
        return f"`{name}` is deprecated, and {label} {gone} does not have it"
    if warned:
        return f"`{name}` is deprecated"
    return f"`{name}` works here, and {label} {gone} does not have it"


def unread_file(parsed: ParsedWords) -> Iterator[Remark]:
    """`--config=FILE`: only `--config` as a word of its own is looked for."""
    for flag in parsed.flags:
        if flag.flag == "--config" and flag.written.value != "--config":
            file = flag.value.value if flag.value is not None else None
            yield Remark(
                kind="ignored", at=flag.written.place, severity="warning",
                message=f"{file or 'the file'} is not read: `--config` is not a word of its own",
                help=f"write `--config {file or 'FILE'}`, in two words",
            )  # fmt: skip
