"""Command lines read by a table of options, the way Python's argparse reads them.

Unique prefixes are accepted, `_` equals `-` in names where the grammar says so, the last of a
repeated option wins. What the table does not have is kept as an option with a problem: judging it
is a rule's business.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from shardlint.known import Case, Known, Text
from shardlint.plan import Flag, Releases, version
from shardlint.record import record
from shardlint.source import Span

T = TypeVar("T")
Takes: TypeAlias = Literal["value", "optional_value", "many", "any", "none"]

NEGATIVE_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")
GLUED = re.compile(r"(-[a-z]+)(\d+)")
SENSES = ("--no-", "--disable-", "--enable-")
SEVERAL = ("many", "any")
"""One word or more, and any number of them."""
END = "--"
"""Behind it every word is positional."""

RELEASE_PARTS = 3
"""Numbers in a release; a tag such as 25.09 is a date of an image."""

HOLE = re.compile(r"\$[({A-Za-z_]|\{\{|\}\}|<[^<>]+>|^\{[A-Za-z_]\w*\}$|__[A-Z_]+__")
"""A word that something else fills in before the parser sees it."""

HUMAN = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30,
         "T": 2**40}  # fmt: skip


Row: TypeAlias = dict[str, Any]


@record
class Option:
    """One option of one release. `name` is the canonical spelling, `negated` its inverses.

    `choices` are binding if the type is "choice", and else only what the help names.
    """

    name: str
    aliases: tuple[str, ...]
    takes: Takes
    type: str
    default: Any
    field: str | None
    negatable: bool
    inverse: str | None
    choices: tuple[str | int | None, ...] | None = None
    deprecated: bool = False
    nullable: bool = False
    """The words None and the empty one are accepted whatever the type."""
    refused: str | None = None
    """The parser knows the option and ends at it, with this text."""
    file: bool | None = None
    """False: a file of options may not set it."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Option:
        get = row.get
        choices = get("choices")
        return cls(
            row["flag"], tuple(row["aliases"]), row["takes"], row["type"], get("default"),
            get("field"), row["negatable"], get("inverse"),
            None if choices is None else tuple(choices), get("deprecated", False),
            get("nullable", False), get("refused"), get("file"),
        )  # fmt: skip

    @property
    def negated(self) -> tuple[str, ...]:
        """The spellings that switch it off."""
        no = ("--no-" + self.name.removeprefix("--"),) if self.negatable else ()
        return (*no, self.inverse) if self.inverse else no


class Traits(NamedTuple):
    """What in the words of a command line is read by rules that changed between releases."""

    keyed: bool
    listed: bool
    named: bool

    @classmethod
    def of(cls, words: Sequence[Text]) -> Traits:
        texts = [word.value or "" for word in words]
        return cls(
            keyed=any(text.startswith("-") and "." in text.partition("=")[0] for text in texts),
            listed=any(text.count("=") > text.startswith("-") for text in texts),
            named=any(text.startswith(("--model", "--served")) for text in texts),
        )


@record
class Grammar:
    """What a release's parser reads in a way that others do not."""

    dotted: bool
    """--flag.key and a value, for one key of a JSON option."""
    pairs: bool
    """key=value,key=value where a JSON option stands."""
    model_option: bool
    """--model after `serve` is moved to the front; else the model is positional."""
    model_required: bool
    """`serve` demands the positional model."""
    module_model: bool
    """The module that `serve` wraps takes a positional model too."""
    name_behind_model: bool
    """--served-model-name is refused where `serve` is followed by an option."""
    dashes_only: bool = False
    """`_` does not equal `-` in the names of options."""
    options_only: bool = False
    """No word but an option is taken; elsewhere the model is one."""

    def about(self, traits: Traits) -> tuple[bool, ...]:
        """As much of it as can matter for these words."""
        named = traits.named
        return (
            self.dotted and traits.keyed, self.pairs and traits.listed, self.model_option and named,
            self.model_required and named, self.name_behind_model and named, self.module_model,
        )  # fmt: skip


class History(NamedTuple):
    """When a spelling was accepted, by releases that were opened; between two of them, who knows.

    It may have been gone for a while in between. Without `first_gone`, the newest release has it.
    """

    first_seen: str
    last_seen: str
    first_gone: str | None
    replaced_by: str | None


class _Data:
    """The file `engines/data/<name>_flags.json`, read once. Releases are counted from the oldest.

    Of a row, the state in a release is the row itself, but for what its `earlier` says.
    """

    def __init__(self, name: str) -> None:
        self.path = Path(__file__).parent / "data" / f"{name}_flags.json"
        self._exact: dict[tuple[str, int], tuple[Option, bool] | None] = {}
        self._seen: dict[str, list[int]] = {}

    @cached_property
    def raw(self) -> Row:
        data: Row = json.loads(self.path.read_text(encoding="utf-8"))
        return data

    @cached_property
    def releases(self) -> list[str]:
        return list(self.raw["releases"])

    @cached_property
    def order(self) -> dict[str, int]:
        return {release: index for index, release in enumerate(self.releases)}

    @cached_property
    def versions(self) -> list[Any]:
        return [version(release) for release in self.releases]

    def holds(self, span: Row, index: int) -> bool:
        """Whether a release lies between the first_seen and the last_seen of a row or a span."""
        return self.order[span["first_seen"]] <= index <= self.order[span["last_seen"]]

    def state(self, row: Row, index: int) -> Row:
        found = dict(row)
        for key, spans in row.get("earlier", {}).items():
            for span in spans:
                if self.holds(span, index):
                    found.pop(key, None)
                    found.update({key: span["value"]} if "value" in span else {})
        return found

    def option(self, row: Row, index: int) -> Option:
        return Option.from_row(self.state(row, index) if "earlier" in row else row)

    def options(self, index: int) -> list[Option]:
        return [self.option(row, index) for row in self.raw["flags"] if self.holds(row, index)]

    def grammar(self, index: int) -> Grammar:
        row = next(row for row in self.raw["grammars"] if self.holds(row, index))
        names = Grammar.__dataclass_fields__
        return Grammar(**{name: row[name] for name in names if name in row})

    @cached_property
    def spellings(self) -> dict[str, list[Row]]:
        """Every spelling of every release, with the rows that had it at some time."""
        found: dict[str, list[Row]] = {}
        for row in self.raw["flags"]:
            for name in _ever(row):
                found.setdefault(name, []).append(row)
        return found

    @cached_property
    def sorted_spellings(self) -> list[str]:
        return sorted(self.spellings)

    def beginning(self, prefix: str) -> list[str]:
        """The spellings of any release that begin so, in order."""
        names, found = self.sorted_spellings, []
        for at in range(bisect_left(names, prefix), len(names)):
            if not names[at].startswith(prefix):
                break
            found.append(names[at])
        return found

    def exact(self, name: str, index: int) -> tuple[Option, bool] | None:
        """The option that a spelling names in a release, and whether it switches it off."""
        key = (name, index)
        if key not in self._exact:
            self._exact[key] = self._find(name, index)
        return self._exact[key]

    def _find(self, name: str, index: int) -> tuple[Option, bool] | None:
        for row in self.spellings.get(name, ()):
            if self.holds(row, index):
                option = self.option(row, index)
                if name in _spellings(option):
                    return option, name in option.negated
        return None

    def takes(self, name: str) -> Takes | None:
        """What an option takes in the newest release that has it."""
        seen = self.seen(name)
        found = self.exact(name, seen[-1]) if seen else None
        return None if found is None else "none" if found[1] else found[0].takes

    def seen(self, name: str) -> list[int]:
        """The releases that accept a spelling."""
        if name not in self._seen:
            self._seen[name] = self._find_seen(name)
        return self._seen[name]

    def _find_seen(self, name: str) -> list[int]:
        return sorted(
            index
            for row in self.spellings.get(name, ())
            for index in range(self.order[row["first_seen"]], self.order[row["last_seen"]] + 1)
            if name in _spellings(Option.from_row(self.state(row, index)))
        )

    def newest_name(self, spelling: str) -> str:
        """The full name of the option that the newest release has under a spelling."""
        found = self.exact(spelling, len(self.releases) - 1)
        return found[0].name if found is not None and not found[1] else spelling

    @cached_property
    def replaced_by(self) -> dict[str, str | None]:
        """What to write for an option that leaves, and for one that the newest release lacks."""
        leaving = {row["flag"]: row["successor"] for row in self.raw["flags"] if "successor" in row}
        return leaving | {row["flag"]: row["replaced_by"] for row in self.raw["removed"]}

    @cached_property
    def dashes_only(self) -> bool:
        return any(row.get("dashes_only", False) for row in self.raw["grammars"])

    @cached_property
    def instead(self) -> dict[str, str]:
        rows = self.raw["removed"]
        return {row["flag"]: row["instead"] for row in rows if "instead" in row}


def _spellings(option: Option) -> tuple[str, ...]:
    return (option.name, *option.aliases, *option.negated)


def _kind(option: Option, negated: bool, word: str, behind: str | None) -> tuple[object, ...]:
    """What a parser does with an option as it is given: its default and its help do not count."""
    value = word.partition("=")[2] if "=" in word else behind
    chosen: object = None
    if option.type == "choice" and option.choices is not None:
        known = {str(choice) for choice in option.choices}
        chosen = option.choices if option.takes in SEVERAL else value in known
    unset = value in ("", "None") and option.nullable
    gone = option.refused is not None, option.file
    return option.name, negated, option.takes, option.type, chosen, unset, gone


def _shape(option: Option) -> tuple[str, str]:
    return option.takes, option.type


def _ever(row: Row) -> set[str]:
    """The spellings of a row in any of its releases."""
    earlier = row.get("earlier", {})
    aliases = [row["aliases"], *(span["value"] for span in earlier.get("aliases", ()))]
    inverses = [span.get("value") for span in earlier.get("inverse", ())]
    negatable = row["negatable"] or any(span["value"] for span in earlier.get("negatable", ()))
    found = {row["flag"], row.get("inverse"), *inverses, *(one for some in aliases for one in some)}
    found |= {"--no-" + row["flag"].removeprefix("--")} if negatable else set()
    return {name for name in found if name}


class FlagView:
    """The options of one release of an engine: the newest, unless it says which."""

    def __init__(self, data: _Data, index: int | None = None, exact: bool = True) -> None:
        self._data, self._given, self.exact = data, index, exact
        self._resolved: dict[str, tuple[Option, bool] | tuple[str, ...] | None] = {}

    @property
    def index(self) -> int:
        """The place of the release among those that were opened."""
        return self._index

    @cached_property
    def _index(self) -> int:
        return len(self._data.releases) - 1 if self._given is None else self._given

    @property
    def release(self) -> str:
        """The release whose options these are; an older one than asked for unless `exact`."""
        return self._data.releases[self._index]

    @cached_property
    def grammar(self) -> Grammar:
        return self._data.grammar(self._index)

    def name_of(self, word: str) -> str:
        """An option's name as the parser looks it up: without value and key."""
        return _name(word, self.grammar.dotted, self.grammar.dashes_only)

    @cached_property
    def by_name(self) -> dict[str, tuple[Option, bool]]:
        """Every spelling, with the option and whether the spelling switches it off."""
        names: dict[str, tuple[Option, bool]] = {}
        for option in self._data.options(self._index):
            on, off = (option, False), (option, True)
            names[option.name] = on
            for name in option.aliases:
                names[name] = on
            for name in option.negated:
                names[name] = off
        return names

    @cached_property
    def later(self) -> FlagView | None:
        """The next opened release, if the one asked for lies in between."""
        return None if self.exact else FlagView(self._data, self._index + 1)

    @cached_property
    def undecided(self) -> frozenset[str]:
        """Spellings that the releases around the one asked for do not both read alike."""
        if self.later is None:
            return frozenset()
        ours, theirs = self.by_name, self.later.by_name
        changed = (name for name in ours.keys() & theirs.keys()
                   if _shape(ours[name][0]) != _shape(theirs[name][0]))  # fmt: skip
        return frozenset(ours.keys() ^ theirs.keys()) | frozenset(changed)

    @cached_property
    def by_field(self) -> dict[str, Option]:
        return {option.field: option for option, _ in self.by_name.values() if option.field}

    @cached_property
    def listed_elsewhere(self) -> frozenset[str]:
        """Options that other releases have, or that are known without being in this table."""
        plugins = {row["flag"] for row in self._data.raw["known_elsewhere"]}
        return frozenset((self._data.spellings.keys() | plugins) - self.by_name.keys())

    def default(self, field: str) -> Any:
        option = self.by_field.get(field)
        return option.default if option else None

    def spelling(self, field: str, like: str = "") -> str:
        """The option that sets a field: a short one beside a short one."""
        option = self.by_field[field]
        if like.startswith("-") and not like.startswith("--"):
            return next((name for name in option.aliases if not name.startswith("--")), option.name)
        return option.name

    def parse(self, words: Sequence[Text]) -> ParsedWords:
        return _Parser(self, words).run()

    def resolve(self, name: str) -> tuple[Option, bool] | tuple[str, ...] | None:
        """Option and negation of a spelling; several names if ambiguous; None if there is none."""
        if name not in self._resolved:
            self._resolved[name] = self._resolve(name)
        return self._resolved[name]

    def _resolve(self, name: str) -> tuple[Option, bool] | tuple[str, ...] | None:
        exact = self._data.exact(name, self._index)
        if exact is not None or not name.strip("-"):
            return exact
        matches = {known: found for known in self._data.beginning(name)
                   if (found := self._data.exact(known, self._index)) is not None}  # fmt: skip
        return next(iter(matches.values())) if len(matches) == 1 else tuple(matches) or None

    def named(self, name: str) -> Option | None:
        """The option that a whole spelling names."""
        found = self._data.exact(name, self._index)
        return found[0] if found else None

    def whole(self, name: str) -> tuple[str, ...]:
        """The spellings that a prefix can stand for; the one that it is."""
        if self.named(name) is not None:
            return (name,)
        return tuple(known for known in self._data.beginning(name) if self.named(known))

    def glued(self, word: str) -> tuple[Option, bool] | None:
        """The option of one letter whose value stands without a blank: `-O3`, but not `-tp4`."""
        return None if word.startswith("--") else self._data.exact(word[:2], self._index)

    def takes_elsewhere(self, name: str) -> Takes | None:
        """What an option takes in the newest of the releases that have it."""
        return self._data.takes(name)

    def signature(self, words: Sequence[Text], traits: Traits) -> tuple[object, ...]:
        """What is alike for two releases that read these words alike."""
        found: list[object] = [self.grammar.about(traits)]
        for at, word in enumerate(words):
            text = word.value
            if not text or text[0] != "-" or len(text) < 2:
                continue
            what = self.resolve(self.name_of(text)) or self.glued(text)
            if isinstance(what, tuple) and isinstance(what[0], Option):
                behind = words[at + 1].value if at + 1 < len(words) else None
                found.append(_kind(what[0], bool(what[1]), text, behind))
            else:
                found.append(what)
        return tuple(found)

    def guesses(self, name: str) -> tuple[str, ...]:
        """Spellings that were probably meant, best first; none of them says the opposite.

        An option of another release is no slip of the pen: what replaced it means something else.
        """
        import difflib

        if name in self.listed_elsewhere:
            long = self._data.newest_name(name)
            return (long,) if long != name and long in self.by_name else ()
        dashed = name.replace("_", "-")
        if dashed != name and dashed in self.by_name:
            return (dashed,)
        short = "-" + name.lstrip("-")
        if short in self.by_name:
            return (short,)
        if not name.startswith("--") and len(whole := self.whole("-" + dashed)) == 1:
            return whole
        if (found := GLUED.fullmatch(short)) and found[1] in self.by_name:
            return (f"{found[1]}={found[2]}",)
        sense = _sense(name)
        alike = [known for known in self.by_name if _sense(known) == sense]
        return tuple(difflib.get_close_matches(name, alike, n=3, cutoff=0.8))

    def option_of(self, spelling: str) -> Option:
        """The option that a guess spells, which may have a value behind `=`."""
        return self.by_name[spelling.partition("=")[0]][0]

    def option_takes(self, spelling: str) -> Takes:
        option, negated = self.by_name[spelling]
        return "none" if negated else option.takes


class FlagTable(FlagView):
    """The options of one engine through its releases. It is itself the view of the newest one."""

    def __init__(self, name: str) -> None:
        super().__init__(_Data(name))
        self.name = name
        self._views: dict[tuple[int, bool], FlagView] = {}

    def views(self, releases: Known[Releases]) -> tuple[FlagView, ...]:
        """The opened releases that stand for these ones, oldest first.

        A release between two opened ones is what both of them are; of a final release and its
        post-releases, one stands for the others.
        """
        known, found = self._data.versions, set[int]()
        for item in releases.values:
            first, last = version(item.first), version(item.last)
            if first is None or last is None:
                continue
            found |= {at for at, one in enumerate(known) if first <= one <= last}
            for end in (first, last):
                if same := [at for at, one in enumerate(known) if one.release == end.release
                            and not end.pre]:  # fmt: skip
                    found |= set(same)
                    continue
                at = bisect_right(known, end)
                if at and known[at - 1] != end and at < len(known):
                    found |= {at - 1, at}
        return tuple(self._view(index) for index in sorted(found))

    def stated(self, tag: Known[str]) -> Known[Releases]:
        """The release in a tag such as "v0.11.0-x86_64"; else every supported release."""
        if tag.is_known and all(_release(value) for value in tag.values):
            return tag.map(lambda value: Releases(_release(value), _release(value)))
        span = Releases(self.first_release, self.last_release)
        return Known((Case(span),), "the release is not stated", tag.origin, how="defaulted")

    def precedes(self, releases: Known[Releases]) -> bool:
        """Whether all of these releases are older than the first opened one."""
        known = self._data.versions[0]
        lasts = [version(item.last) for item in releases.values]
        return bool(lasts) and all(last is not None and last < known for last in lasts)

    def unopened(self, releases: Known[Releases]) -> str | None:
        """The one release that this is, if no opened one stands for it."""
        only = releases.only
        if only is None or only.first != only.last or (asked := version(only.first)) is None:
            return None
        opened = any(one.release == asked.release and not asked.pre for one in self._data.versions)
        return None if opened else only.first

    def _view(self, index: int) -> FlagView:
        key = (index, True)
        if key not in self._views:
            self._views[key] = FlagView(self._data, index)
        return self._views[key]

    def ever(self, name: str) -> bool:
        """Whether some opened release accepts a spelling."""
        return name in self._data.spellings

    def instead(self, name: str) -> str | None:
        """What does now what the option did, in words; leaving it out would lose that."""
        return self._data.instead.get(name)

    def replaced_by(self, name: str) -> str | None:
        """What the newest release has instead of an option that it does not have."""
        return self._data.replaced_by.get(name)

    @property
    def releases(self) -> tuple[str, ...]:
        """Those that were opened, oldest first."""
        return tuple(self._data.releases)

    @property
    def first_release(self) -> str:
        return str(self._data.raw["supported"]["first"])

    @property
    def last_release(self) -> str:
        return str(self._data.raw["supported"]["last"])

    def of(self, release: str) -> FlagView | None:
        """The options of a release, by the nearest opened one that is not newer.

        None before the first opened release, after the last, and for what is no release. Of a
        release that was not opened, `undecided` and `later` say what may be otherwise.
        """
        asked = version(release.partition("+")[0])
        known = self._data.versions
        if asked is None or not known[0] <= asked <= known[-1]:
            return None
        index = bisect_right(known, asked) - 1
        key = (index, known[index] == asked)
        if key not in self._views:
            self._views[key] = FlagView(self._data, *key)
        return self._views[key]

    def option_for(self, field: str, like: str, releases: Known[Releases] | None) -> str | None:
        """The option that sets a field in the style of `like`, None if no possible release has one.

        A short spelling only where all of them have it.
        """
        if field not in self.by_field:
            return None
        spans = releases.values if releases is not None else ()
        plain, name = self.by_field[field].name, self.spelling(field, like)
        there, short = self.history(plain), self.history(name)
        if there and spans and not any(s.meets(there.first_seen, there.first_gone) for s in spans):
            return None
        if short and not all(span.within(short.first_seen, short.first_gone) for span in spans):
            return plain
        return name

    def history(self, name: str) -> History | None:
        """When an option was accepted, by any of its spellings; None if it never was."""
        spelling = _name(name, dashes_only=self._data.dashes_only)
        seen = self._data.seen(spelling)
        if not seen:
            return None
        first, last, releases = seen[0], seen[-1], self._data.releases
        gone = releases[last + 1] if last + 1 < len(releases) else None
        return History(releases[first], releases[last], gone, self._data.replaced_by.get(spelling))


def _release(tag: str) -> str:
    """The release that a tag names, empty if it names none."""
    name = re.split("[-+_]", tag.removeprefix("v"), maxsplit=1)[0]
    found = version(name)
    return name if found and len(found.release) >= RELEASE_PARTS else ""


def _sense(name: str) -> str:
    """What a spelling begins with where that decides between on and off."""
    return next((word for word in SENSES if name.startswith(word)), "")


@record
class ParsedWords:
    """Options and positional words.

    `open_ended` says why any number of further words may stand behind the first `open_at` options:
    those may be overridden. `elsewhere` says why an option that is absent here may yet be set,
    `perhaps` why those of these names may be.
    """

    flags: tuple[Flag, ...]
    positionals: tuple[Text, ...]
    open_ended: str | None = None
    open_at: int = 0
    elsewhere: str | None = None
    perhaps: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def last(self, *names: str) -> Flag | None:
        """The option that counts: the last one of these names."""
        found = [flag for flag in self.flags if flag.flag in names and flag.dotted is None]
        return found[-1] if found else None

    @property
    def incomplete(self) -> str | None:
        """Why these words may not be all the options."""
        return self.open_ended or self.elsewhere

    def read(self, name: str, convert: Callable[[str], T]) -> Known[T]:
        """The value of an option; unset without it, unknown if it is not of the type."""
        if name in self.perhaps:
            return Known.unknown(self.perhaps[name])
        flag = self.last(name)
        return self._sealed(converted(flag, convert), flag)

    def switched(self, name: str) -> Known[bool]:
        """Whether an on/off option is on; unset without it."""
        if name in self.perhaps:
            return Known.unknown(self.perhaps[name])
        flag = self.last(name)
        return self._sealed(switch(flag), flag)

    def _sealed(self, fact: Known[T], flag: Flag | None) -> Known[T]:
        """With an open end, an absent option may yet come, and one before it be overridden."""
        if flag is None:
            return Known.unknown(self.incomplete) if self.incomplete else fact
        if self.open_ended and self.flags.index(flag) < self.open_at:
            return fact.assuming(f"nothing overrides it ({self.open_ended})")
        return fact


class _Parser:
    def __init__(self, table: FlagView, words: Sequence[Text]) -> None:
        self.table, self.words = table, words
        self.at = 0
        self.flags: list[Flag] = []
        self.positionals: list[Text] = []
        self.open_ended: str | None = None
        self.open_at = 0
        self.perhaps: dict[str, str] = {}

    def run(self) -> ParsedWords:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word.value == END:
                self.positionals += self.words[self.at :]
                break
            if word.value is not None and self.is_option(word.value):
                self.flags.append(self.option(word, word.value))
            elif word.perhaps and (names := self.named(word.perhaps)):
                self.perhaps |= dict.fromkeys(names, word.reason or "it is not known")
            elif word.many or (word.value is None and self.has_model()):
                self.open_ended = word.reason or "more arguments follow"
                self.open_at = len(self.flags)
            else:
                self.positionals.append(word)
        return ParsedWords(
            tuple(self.flags), tuple(self.positionals), self.open_ended, self.open_at,
            perhaps=MappingProxyType(self.perhaps),
        )  # fmt: skip

    def named(self, written: Sequence[str]) -> tuple[str, ...]:
        """Options by their names; nothing where one of them is none, or one key of several."""
        found = [self.table.resolve(_name(word)) for word in written]
        options = [item[0] for item in found if isinstance(item, tuple)]
        known = all(isinstance(option, Option) for option in options)
        if not known or len(options) != len(written) or any("." in word for word in written):
            return ()
        return tuple(str(option.name) for option in options if isinstance(option, Option))

    def has_model(self) -> bool:
        """Whether the one positional word is there: a further unknown word may be an option."""
        if self.positionals or self.table.grammar.options_only:
            return True
        return any(flag.flag == "--model" for flag in self.flags)

    def is_option(self, value: str) -> bool:
        """In the order of argparse: what it can resolve, no number, nothing with a blank."""
        if not value.startswith("-") or len(value) == 1:
            return False
        name = self.table.name_of(value)
        if value == END or self.table.resolve(name) or self.table.glued(value):
            return True
        return not NEGATIVE_NUMBER.match(value) and " " not in value.split("=", 1)[0]

    def option(self, word: Text, value: str) -> Flag:
        written, equals, _ = value.partition("=")
        has_keys = self.table.grammar.dotted
        name, dotted = self.table.name_of(value), written.partition(".")[2] if has_keys else ""
        inline = word.part(len(written) + 1) if equals else None
        found = self.table.resolve(name)
        if found is None and (found := self.table.glued(value)):
            inline, dotted = word.part(2), ""
        if not isinstance(found, tuple) or not isinstance(found[0], Option):
            return self.refused(word, name, inline, found)
        return self.accepted(word, found[0], bool(found[1]), inline, dotted or None)

    def accepted(
        self, word: Text, option: Option, negated: bool, inline: Text | None, dotted: str | None
    ) -> Flag:
        takes = "anything" if dotted else "none" if negated else option.takes
        values = (inline,) if inline is not None else self.values(takes)
        problem = None
        if takes == "none" and values:
            problem = "ignored explicit argument"
        elif takes in ("value", "anything") and not values:
            problem = "expected one argument"
        elif takes == "many" and not values:
            problem = "expected at least one argument"
        return self.flag(word, option.name, values, problem, negated=negated, dotted=dotted)

    def refused(
        self, word: Text, name: str, inline: Text | None, found: tuple[Any, ...] | None
    ) -> Flag:
        """An option that the parser does not have, with the value that it was probably given."""
        problem = "ambiguous option" if found else "unrecognized arguments"
        guesses = tuple(str(item) for item in found) if found else self.table.guesses(name)
        if found and (short := self.table.named("-" + name.lstrip("-"))) is not None:
            guesses = (next(item for item in short.aliases if not item.startswith("--")),)
        takes = self.table.takes_elsewhere(name)
        if takes is None:
            shapes = {self.table.option_takes(guess) for guess in guesses if "=" not in guess}
            takes = shapes.pop() if len(shapes) == 1 else "value"
        values = (inline,) if inline is not None else self.values(takes)
        return self.flag(word, None, values, problem, candidates=guesses)

    def flag(
        self,
        word: Text,
        name: str | None,
        values: tuple[Text, ...],
        problem: str | None,
        **more: Any,
    ) -> Flag:
        ends = [text.origin.span.end for text in (word, *values)]
        start = word.origin.span.start
        return Flag(
            written=word, flag=name, value=values[0] if values else None, more=values[1:],
            span=Span(start, max(start, *ends)), problem=problem, **more,
        )  # fmt: skip

    def values(self, takes: str) -> tuple[Text, ...]:
        """The words after an option that belong to it."""
        if takes == "none":
            return ()
        found: list[Text] = []
        while (word := self.next_value(takes == "anything")) is not None:
            found.append(word)
            if takes not in SEVERAL:
                break
        return tuple(found)

    def next_value(self, anything: bool) -> Text | None:
        """The next word if it can be a value. An unknown variable in this place is one word."""
        if self.at >= len(self.words):
            return None
        word = self.words[self.at]
        if word.value is not None and not anything and self.is_option(word.value):
            return None
        self.at += 1
        return word


def _name(word: str, dotted: bool = True, dashes_only: bool = False) -> str:
    """An option's name as the parser looks it up: without value and key."""
    name = word.partition("=")[0]
    name = name.partition(".")[0] if dotted else name
    return name.replace("_", "-") if name.startswith("--") and not dashes_only else name


# ------------------------------------------------------------------------- values of options


def converted(flag: Flag | None, convert: Callable[[str], T]) -> Known[T]:
    """The value of an option; unset without the option, unknown if it is not of the type."""
    if flag is None:
        return Known.unset()
    if flag.value is None:
        return Known.unknown(f"{flag.written.value} has no value", flag.written.place)
    known = flag.value.known()
    if known.only is None:
        return Known.unknown(known.reason or "unresolved", known.origin, known.related)
    try:
        return known.map(convert).assuming(*flag.written.assumes)
    except ValueError as error:
        return Known.unknown(str(error), known.origin, known.related)


def whole(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def size(text: str) -> int:
    """A degree of parallelism; no engine starts with less than one rank."""
    if (number := whole(text)) < 1:
        raise ValueError(f"{text!r} is no size of a group")
    return number


def count(text: str) -> int:
    if (number := whole(text)) < 0:
        raise ValueError(f"{text!r} is less than nothing")
    return number


def human(text: str) -> int:
    """32k is 32,000 and 32K is 32,768; decimals only before the small letters."""
    match = re.fullmatch(r"(\d{1,12})(\.\d{1,9})?([kmgtKMGT]?)", text.strip())
    if not match or (match[2] and (not match[3] or match[3].isupper())):
        return whole(text)
    return int(float(match[1] + (match[2] or "")) * HUMAN.get(match[3], 1))


SI = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
      "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}  # fmt: skip
SI_NUMBER = re.compile(r"(\d{1,12})(\.\d{1,9})?(Ki|Mi|Gi|Ti|k|M|G|T)")


def si(text: str) -> int:
    """32k is 32,000 and 32Ki is 32,768; decimals only before the first kind."""
    match = SI_NUMBER.fullmatch(text.strip())
    if not match or (match[2] and match[3].endswith("i")):
        return whole(text)
    return int(Fraction(match[1] + (match[2] or "")) * SI[match[3]])


def fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def truth(text: str) -> bool:
    if (word := text.lower()) not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return word == "true"


def switch(flag: Flag | None) -> Known[bool]:
    """An on/off option; releases before 0.9 let some of them have a value."""
    if flag is None:
        return Known.unset()
    if flag.problem:
        return Known.unknown(flag.problem, flag.written.place)
    if flag.value is not None:
        return converted(flag, truth)
    written = flag.written
    return Known.of(
        not flag.negated, written.place, related=written.related, assumes=written.assumes
    )


def options(parsed: ParsedWords, table: FlagView) -> dict[str, Known[Any]]:
    """Every option that is there, by its name with underscores, as a value of its type.

    An on/off option is a bool, a JSON option what it holds (its dotted keys take the place of the
    object, as in the parser), an option of many values a list. What cannot be read is unknown.
    """
    found: dict[str, Known[Any]] = {}
    for name in dict.fromkeys(flag.flag for flag in parsed.flags if flag.flag):
        option = table.by_name[name][0]
        key = name.removeprefix("--").replace("-", "_")
        dotted = [flag for flag in parsed.flags if flag.flag == name and flag.dotted]
        if dotted:
            found[key] = _keyed(dotted, parsed)
        elif option.takes == "none":
            found[key] = parsed.switched(name)
        elif option.takes not in SEVERAL:
            found[key] = parsed.read(name, CONVERT.get(option.type, str))
    for name, reason in parsed.perhaps.items():
        found[name.removeprefix("--").replace("-", "_")] = Known.unknown(reason)
    return found


def _keyed(dotted: Sequence[Flag], parsed: ParsedWords) -> Known[Any]:
    """One object from the options that each give one of its keys."""
    whole: dict[str, Any] = {}
    for flag in dotted:
        value = converted(flag, _loose)
        if value.only is None or parsed.open_ended or "+" in (flag.dotted or ""):
            return Known.unknown(value.reason or "given key by key", flag.written.place)
        *path, last = (flag.dotted or "").split(".")
        inner = whole
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                return Known.unknown("one key is given two ways", flag.written.place)
        inner[last] = value.only
    place, assumes = dotted[0].written.place, {a for f in dotted for a in f.written.assumes}
    return Known.of(whole, place, assumes=assumes)


def _loose(text: str) -> Any:
    """The value of a dotted option: JSON, else a number as people write it, else text."""
    for convert in (json.loads, human):
        try:
            return convert(text)
        except (ValueError, RecursionError):
            continue
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:40]!r} is not JSON") from None


def _json_or_text(text: str) -> Any:
    return _json(text) if re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL) else text


CONVERT: dict[str, Callable[[str], Any]] = {
    "int": whole,
    "float": fraction,
    "human_int": human,
    "human_int_auto": human,
    "si_int": si,
    "json": _json,
    "json_or_text": _json_or_text,
    "bool": truth,
}


WHOLE = ("int", "human_int", "human_int_auto", "si_int")


def conversion(option: Option | None, flag: Flag) -> object:
    """Equal for two options that make the same of the words that one is given."""
    if option is None:
        return None
    word = flag.value.value if flag.value is not None else None
    plain = (
        option.type in ("int", "human_int", "human_int_auto", "si_int") and (word or "").isdecimal()
    )
    return "number" if plain else CONVERT.get(option.type, str), option.takes in ("none", *SEVERAL)


def names(flags: Iterable[Flag]) -> frozenset[str]:
    return frozenset(flag.flag for flag in flags if flag.flag)
