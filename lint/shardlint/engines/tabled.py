"""Engines with a module and a table of their own: `data/<engine>.json`.

The table says which options and variables state the layout and the memory, which options each
release has, what takes the place of an old one, and whether the engine is still kept up. What the
options mean together, and what the engine refuses, is the module's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.stated_options import MORE, Given, Row, Stated, stated
from shardlint.known import Case, Known
from shardlint.plan import (
    Flag,
    Launch,
    Layout,
    LayoutFacts,
    Reading,
    Refused,
    Releases,
    Remark,
    version,
)
from shardlint.source import Origin, Span

RELEASE = re.compile(
    r"v?(\d+)[.-](\d+)(?:[.-](\d+))?((?:rc|\.?post|a|b)\d+(?:\.post\d+)?)?(?![\d.])"
)
"""The release at the start of a tag such as "2.0.4-rocm", "v0.7.0-cu12" or "2-1"."""

EDITABLE = (
    "tp", "pp", "dp", "ep", "max_model_len", "kv_cache_dtype", "gpu_memory_utilization",
    "quantization",
)  # fmt: skip
"""Facts that a fix may change, if the engine has an option for them."""


ALWAYS = ("--help", "--version")
"""Options that the parsers bring along."""


class Table:
    """The data of one engine, read when it is first asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def data(self) -> Mapping[str, Any]:
        path = Path(__file__).parent / "data" / f"{self.name}.json"
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    @cached_property
    def row(self) -> Row:
        """What states a fact, and which options take a value."""
        own: dict[str, Any] = dict(self.data["states"])
        listed = self.data.get("options", ())
        values = [item["flag"] for item in listed if item["takes"] == "value"]
        own["values"] = [*own.get("values", ()), *values]
        own["switches"] = [
            *own.get("switches", ()),
            *(item["flag"] for item in listed if item["takes"] == "switch"),
        ]
        return own

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(self.data["releases"])

    def spelling(self, option: str) -> str:
        return option.replace("_", "-") if self.row.get("dashes_alike") else option

    @cached_property
    def canonical(self) -> Mapping[str, str]:
        """The first name of a fact's option, by all of its names."""
        return {
            self.spelling(option): names[0]
            for names in self.row["options"].values()
            for option in names
        }

    @cached_property
    def history(self) -> Mapping[str, Mapping[str, Any]]:
        """The options of all releases by their names; empty where that was not read."""
        return {self.spelling(item["flag"]): item for item in self.data.get("options", ())}

    def has(self, option: str, span: Releases) -> bool:
        """Whether some release of a span can have an option."""
        found = self.history.get(option)
        return found is not None and span.meets(found["first_seen"], found.get("first_gone"))

    def abbreviates(self, name: str) -> bool:
        """Whether a word is the beginning of an option, which the parser takes for it."""
        return any(option.startswith(name) for option in (*self.canonical, *self.history))

    def release(self, tag: str) -> Releases | None:
        """The releases that a tag can mean; one of two numbers is any of its series."""
        found = RELEASE.match(tag)
        if found is None:
            return None
        major, minor, patch, pre = found.groups()
        if patch is not None:
            name = f"{major}.{minor}.{patch}{pre or ''}"
            return Releases(name, name) if version(name) is not None else None
        series = [one for one in self.releases if one.startswith(f"{major}.{minor}.")]
        return Releases(series[0], series[-1]) if series else None


class TabledEngine(RecognisedEngine):
    """An engine that is judged, by what its table and its module say."""

    checked = True
    latent_since: str | None = None
    judged: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Fields of the layout that the constraints of a rule depend on."""

    def __init__(self, name: str, label: str, table: str, aliases: tuple[str, ...] = ()) -> None:
        super().__init__(name, label, aliases)
        self.table = Table(table)

    # ------------------------------------------------------------------------------- reading

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        after = self._start(launch)
        if after is None:
            return None
        words = launch.argv[after:]
        found = stated(self.name, launch, words, self.table.row)
        flags = tuple(_flags(found.given, self.table))
        reading = self._reading(launch, after, found)
        why = self._open(found, launch)
        return replace(
            reading if why is None else _doubted(reading, why),
            flags=flags,
            open_ended=why,
            options=_options(found.given),
            refused=tuple(self._refused(flags, releases)),
            remarks=(*self._replaced(flags, releases), *self._upkeep(launch, after)),
            variables=found.variables,
        )

    def _open(self, found: Stated, launch: Launch) -> str | None:
        """Why there may be more options; a file that was read holds no further ones."""
        return None if launch.config is not None and found.open_ended != MORE else found.open_ended

    def _refused(self, flags: Sequence[Flag], releases: Known[Releases]) -> Iterator[Refused]:
        """Options that no possible release has, where the options of releases were read."""
        if not self.table.history or self._before(releases):
            return
        for at, flag in enumerate(flags):
            name = self.table.spelling(_name(flag))
            if not name.startswith("--") or name in ALWAYS:
                continue  # short options were not read
            if flag.flag is None:
                if self.table.data.get("abbreviates") and self.table.abbreviates(name):
                    continue
            elif (
                name not in self.table.history
                or releases.how == "defaulted"
                or any(self.table.has(name, span) for span in releases.values)
            ):
                continue
            yield Refused(
                kind="unknown", written=flag.written, at=flag.written.origin, flag=at,
                problem=self.table.data["unknown_option"], candidates=flag.candidates,
                known=flag.flag is not None, certain=self._opened(releases),
            )  # fmt: skip

    def _before(self, releases: Known[Releases]) -> bool:
        """Whether a possible release is older than those whose options were read."""
        oldest = version(self.table.releases[0])
        firsts = [version(span.first) for span in releases.values]
        return oldest is not None and any(first is None or first < oldest for first in firsts)

    def _opened(self, releases: Known[Releases]) -> bool:
        """Whether the options of every possible release were read."""
        if releases.how == "defaulted":
            return bool(self.table.data.get("every_release"))
        opened = self.table.releases
        return bool(releases.values) and all(
            {span.first, span.last} <= set(opened) for span in releases.values
        )

    def _replaced(self, flags: Sequence[Flag], releases: Known[Releases]) -> Iterator[Remark]:
        """Old names of options, where every possible release has the new one."""
        if releases.how == "defaulted":
            return
        for row in self.table.data.get("replaced", ()):
            since, until = row.get("since"), row.get("until")
            sure = releases.values and all(each.within(since, until) for each in releases.values)
            for at, flag in enumerate(flags):
                if sure and flag.flag is not None and _name(flag) == row["flag"]:
                    yield Remark(
                        kind="deprecated", at=flag.written.origin, message=row["says"],
                        severity=row.get("severity", "info"), flag=at, replaced_by=row.get("by"),
                        help=f"`{row['by']}`" if row.get("by") else row.get("help"),
                    )  # fmt: skip

    def _upkeep(self, launch: Launch, after: int) -> Iterator[Remark]:
        """What the project says of its own future."""
        row = self.table.data.get("upkeep")
        if row is None:
            return
        at = launch.argv[after - 1].origin if after else launch.image.origin or launch.origin
        yield Remark(
            kind="upkeep", at=at, severity=row["severity"],
            message=f"{self.label} {row['state']} since {row['since']}", help=row["instead"],
        )  # fmt: skip

    def flags_of(self, fact: str) -> tuple[str, ...]:
        """The names of options that state a fact."""
        return tuple(self.table.row["options"].get(fact, ()))

    # ------------------------------------------------------------------------------ versions

    def versions(self, tag: Known[str]) -> Known[Releases]:
        """The release in a tag; else every release that was read."""
        spans = [self.table.release(value) for value in tag.values]
        if spans and None not in spans:
            return tag.map(lambda value: self.table.release(value) or Releases("0", "0"))
        opened = self.table.releases
        reason = "the release is not stated"
        return Known((Case(Releases(opened[0], opened[-1])),), reason, tag.origin, how="defaulted")

    # -------------------------------------------------------------------------------- layout

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        """What is stated, with the defaults of the layout."""
        filled: dict[str, Known[Any]] = {}
        defaults = Layout()
        for item in fields(LayoutFacts):
            default = Known.of(getattr(defaults, item.name), how="defaulted")
            fact: Known[Any] = getattr(layout, item.name)
            filled[item.name] = fact.or_default(default)
        return LayoutFacts(**filled)

    def reads(self, rule: str) -> tuple[str, ...] | None:
        return self.judged.get(rule)

    def flag_name(
        self, field: str, like: str = "", releases: Known[Releases] | None = None
    ) -> str | None:
        """In the style of the option `like`, where the engine takes both."""
        key = "share" if field == "gpu_memory_utilization" else field
        names = self.table.row["options"].get(key) if field in EDITABLE else None
        if not names:
            return None
        if self.table.row.get("dashes_alike") and "-" in like.strip("-") and "_" not in like:
            return str(names[0]).replace("_", "-")
        return str(names[0])


def _doubted(reading: Reading, why: str) -> Reading:
    """What is not stated may be stated where the options go on."""
    unknown: Known[Any] = Known.unknown(why)

    def filled(part: Any) -> Any:
        names = [item.name for item in fields(part)]
        unset = [n for n in names if isinstance(f := getattr(part, n), Known) and f.is_unset]
        return replace(part, **dict.fromkeys(unset, unknown))

    budget = filled(reading.memory.budget)
    return replace(
        reading,
        model=reading.model.or_default(unknown),
        layout=filled(reading.layout),
        memory=replace(filled(reading.memory), budget=budget),
    )


def _name(flag: Flag) -> str:
    return (flag.written.value or "").partition("=")[0]


def _flags(given: Sequence[Given], table: Table) -> Iterator[Flag]:
    """The options of a command line, each with its value."""
    known = {*table.canonical, *table.history}
    known |= {table.spelling(name) for name in table.row["values"]}
    known |= {
        table.spelling(name) for key in ("switches", "files") for name in table.row.get(key, ())
    }
    for one in given:
        if not one.name or one.word is None:
            continue
        end = one.value.origin if one.value is not None else one.word.origin
        start = one.word.origin
        span = Span(start.span.start, max(start.span.end, end.span.end if _near(start, end) else 0))
        flag = table.canonical.get(one.name, one.name if one.name in known else None)
        guesses = () if flag is not None else _meant(one.name, known)
        yield Flag(
            written=one.word, flag=flag, value=one.value, span=span, candidates=guesses,
            problem=None if flag is not None else "unknown option",
        )  # fmt: skip


def _near(one: Origin, two: Origin) -> bool:
    return one.file == two.file and two.span.start >= one.span.start


def _meant(name: str, known: set[str]) -> tuple[str, ...]:
    from difflib import get_close_matches

    return tuple(get_close_matches(name, sorted(known), n=1, cutoff=0.85))


def _options(given: Sequence[Given]) -> dict[str, Known[Any]]:
    """Options by their names; a switch is true."""
    found: dict[str, Known[Any]] = {}
    for one in given:
        if one.name:
            key = one.name.lstrip("-").replace("-", "_")
            origin = one.word.origin if one.word is not None else None
            found[key] = Known.of(True, origin) if one.value is None else one.value.known()
    return found


def shares(
    flags: Sequence[Flag],
    names: Sequence[str],
    *,
    most: float,
    says: str,
    below: bool = False,
    certain: bool = True,
) -> Iterator[Refused]:
    """Shares of memory that the engine refuses; with `below`, the largest one is refused, too."""
    for at, flag in enumerate(flags):
        text = flag.value.value if flag.value is not None else None
        if flag.value is None or text is None or flag.flag not in names:
            continue
        found = _number(text)
        if found is not None and (found > most or (below and found == most)):
            yield Refused(
                kind="value", written=flag.written, at=flag.value.place, flag=at, certain=certain,
                problem=says, remedy=f"a share between 0 and {most:g}",
            )  # fmt: skip


def equal(left: int, right: int) -> bool:
    return left == right


def number(fact: Known[Any]) -> Known[Any]:
    """The fact as a number, unknown where it is none."""
    if not fact.is_known:
        return fact
    made = fact.map(_number)
    return made if None not in made.values else Known.unknown("it is no number", fact.origin)


def _number(value: object) -> int | float | None:
    text = str(value)
    if re.fullmatch(r"\d{1,12}", text):
        return int(text)
    return float(text) if re.fullmatch(r"\d*\.\d+|\d+\.", text) else None
