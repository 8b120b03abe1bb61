"""What SGLang asks of a command line beyond its table, and what there is to say of it.

sglang, server_args.py and server_args_config_parser.py (since 0.5.3; in utils/ since 0.5.10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardlint.engines import command_remarks, sglang_settings
from shardlint.engines.command_lines import Command, Dialect, Version, given, surplus
from shardlint.engines.flags import FlagTable, FlagView, ParsedWords
from shardlint.known import Known, Text
from shardlint.plan import Refused, Releases, Remark

USUAL_SHORT = ("--tp", "--dp")
"""Prefixes that SGLang's own pages write; to each remark on them there would be thousands."""
ATTENTION_DP = "--attn-dp-size"
SWITCH_PREFIX = "--enable-dp"
FILE_TYPES = (".yaml", ".yml")


class SGLangDialect(Dialect):
    """No word is positional, and a file of options sets only some of them."""

    def alike(self, view: FlagView, words: Sequence[Text]) -> object:
        given = any((word.value or "").startswith(SWITCH_PREFIX) for word in words)
        return given and sglang_settings.splits_by_dp(view)

    def refused(self, view: FlagView, parsed: ParsedWords, command: Command) -> Iterator[Refused]:
        yield from surplus(view, parsed, command, 0)
        yield from _file(parsed)
        for index, flag in enumerate(parsed.flags):
            option = view.named(flag.flag) if flag.flag else None
            if option is None or option.file is not False or not command.in_file(flag.written):
                continue
            key = option.name.removeprefix("--").replace("-", "_")
            yield given(flag, flag.written, f"Unsupported config option '{key}' with action", index,
                        "it on the command line")  # fmt: skip


def _file(parsed: ParsedWords) -> Iterator[Refused]:
    """`--config` as a word of its own: one file, of YAML."""
    found = [(index, flag) for index, flag in enumerate(parsed.flags)
             if flag.flag == "--config" and flag.written.value == "--config"]  # fmt: skip
    for index, flag in found[1:]:
        yield given(flag, flag.written, "Multiple config files specified! Only one allowed.", index)
    for index, flag in found[:1]:
        name = flag.value.value if flag.value is not None else None
        if flag.value is not None and name and not name.lower().endswith(FILE_TYPES):
            yield given(flag, flag.value, "Config file must be YAML format", index)


def remarks(
    table: FlagTable, found: Sequence[Version], command: Command, releases: Known[Releases]
) -> tuple[Remark, ...]:
    """Remarks on a reading that some release accepts, in order of their places."""
    chosen = found[-1]
    of_table = [
        remark
        for remark in command_remarks.of_table(table, "SGLang", found, command, releases)
        if not _said_otherwise(remark, chosen.parsed, table)
    ]
    made = [
        *of_table,
        *command_remarks.unread_file(chosen.parsed),
        *_overridden(chosen.parsed),
    ]
    if releases.how != "defaulted":
        made += _attention_dp(found)
        made += _one_group(found)
    return tuple(sorted(made, key=lambda remark: remark.at.span))


def _said_otherwise(remark: Remark, parsed: ParsedWords, table: FlagTable) -> bool:
    flag = parsed.flags[remark.flag] if remark.flag is not None else None
    if flag is None:
        return False
    if remark.kind == "abbreviated":
        name = (flag.written.value or "").partition("=")[0]
        return name in USUAL_SHORT or table.ever(name)  # later releases have it as it is written
    return flag.flag == sglang_settings.DP_SWITCH


def _overridden(parsed: ParsedWords) -> Iterator[Remark]:
    """moe_hook.py: the way of exchange decides the size of expert parallelism."""
    size, exchange = parsed.last("--ep-size"), parsed.last(sglang_settings.EXCHANGE)
    if size is None or exchange is None or parsed.open_ended:
        return
    asked = parsed.read("--ep-size", int).only
    tp = parsed.read("--tp-size", int).or_default(Known.of(1)).only
    if sglang_settings.spans_group(parsed).only is not True or None in (asked, tp) or asked == tp:
        return
    word = exchange.value.value if exchange.value is not None else ""
    yield Remark(
        kind="ignored", at=size.written.place, severity="warning",
        message=f"`{size.written.value}` {asked} is overridden:"
        f" `{sglang_settings.EXCHANGE} {word}` spreads experts over all {tp} ranks of TP",
        help=f"`--ep-size {tp}`, or leave it out",
        related=((exchange.written.place, "decides the size"),),
    )  # fmt: skip


def _one_group(found: Sequence[Version]) -> Iterator[Remark]:
    """Attention is not split where nothing says into how many groups."""
    parsed = found[-1].parsed
    switch = parsed.last(sglang_settings.DP_SWITCH)
    views = [view for one in found for view in one.views]
    if switch is None or parsed.incomplete or parsed.last("--dp-size") is not None:
        return
    if parsed.last(ATTENTION_DP) is not None or not all(map(sglang_settings.splits_by_dp, views)):
        return
    yield Remark(
        kind="ignored", at=switch.written.place, severity="warning",
        message=f"`{sglang_settings.DP_SWITCH}` has no effect: the number of groups is"
        " `--dp-size`, which is 1 unless it is given",
        help="`--dp-size` with the number of groups",
    )  # fmt: skip


def _attention_dp(found: Sequence[Version]) -> Iterator[Remark]:
    """The switch is deprecated since 0.5.22, where the number of groups has an option of its own.

    The option takes the place of `--dp-size`; beside it, the switch adds nothing.
    """
    parsed = found[-1].parsed
    views = [view for one in found for view in one.views]
    switch = parsed.last(sglang_settings.DP_SWITCH)
    if switch is None or not all(view.named(ATTENTION_DP) for view in views):
        return
    size, own = parsed.last("--dp-size"), parsed.last(ATTENTION_DP)
    if own is None and size is None:
        return  # it has no effect, which is said elsewhere
    yield Remark(
        kind="deprecated", at=switch.written.place, flag=parsed.flags.index(switch),
        replaced_by="" if own is not None else None,
        message=f"`{sglang_settings.DP_SWITCH}` is deprecated: `{ATTENTION_DP}` says how many"
        " groups of attention there are",
        help="leave it out" if own is not None else f"`{ATTENTION_DP}` in place of `--dp-size`",
    )  # fmt: skip
    if own is None and size is not None:
        yield Remark(
            kind="deprecated", at=size.written.place, flag=parsed.flags.index(size),
            replaced_by=ATTENTION_DP,
            message=f"as a number of groups of attention, `--dp-size` is deprecated:"
            f" `{ATTENTION_DP}` is that number, and `--dp-size` one of replicas",
            help=f"write `{ATTENTION_DP}`, and leave `{sglang_settings.DP_SWITCH}` out",
            related=((switch.written.place, "gives it that meaning"),),
        )  # fmt: skip
