"""What a command line states for an engine whose options are a table.

The table is a row of `data/engine_options.json`, or comes from the engine's own data. Nothing is
judged here: an option that the table does not have is passed over, and a word that is
not certain to be what it seems gives no fact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from shardlint.engines.flags import HOLE, HUMAN
from shardlint.engines.launchers import repository
from shardlint.known import Known, Text
from shardlint.plan import Launch
from shardlint.record import record

Row: TypeAlias = Mapping[str, Any]
ShareOf: TypeAlias = Literal["total", "free_before_load", "free_after_load"]

NUMBERS = ("tp", "pp", "dp", "ep", "cp", "moe_tp", "attention_dp", "nnodes")
LENGTHS = ("max_model_len",)
SHARES = ("share",)
FACTS = (*NUMBERS, *LENGTHS, *SHARES, "model", "served_name", "quantization", "kv_cache_dtype")

MORE = "more options may follow"
FILLED_IN = "it is filled in before the engine sees it"


@cache
def _data() -> Row:
    path = Path(__file__).parent / "data" / "engine_options.json"
    data: Row = json.loads(path.read_text(encoding="utf-8"))
    return data


@record
class Stated:
    """The facts of one launch by their short names; those that are not there are not stated.

    `switches` are the options without a value that were given; `given` all words of the command
    line; `variables` the facts that a variable gives, with its text.
    """

    facts: Mapping[str, Known[Any]]
    switches: frozenset[str]
    open_ended: str | None
    share_of: ShareOf | None = None
    given: tuple[Given, ...] = ()
    variables: Mapping[str, Text] = field(default_factory=lambda: MappingProxyType({}))

    def get(self, name: str) -> Known[Any]:
        return self.facts.get(name, Known.unset())


def stated(engine: str, launch: Launch, words: Sequence[Text], row: Row | None = None) -> Stated:
    """What an engine is asked by these words, and by variables where no word says it."""
    table = _Table(row or _data()["engines"].get(engine, {"options": {}}))
    found = list(table.options(words))
    facts = {name: table.fact(name, found) for name in FACTS}
    told: dict[str, Text] = {}
    for name, variables in table.row.get("variables", {}).items():
        if facts[name].is_unset and (text := _variable(variables, launch)) is not None:
            facts[name], told[name] = _fact(name, text), text
    if facts["model"].is_unset and table.row.get("positional_model"):
        facts["model"] = table.positional(found)
    if facts["model"].is_unset and table.row.get("image_is_model"):
        facts["model"] = table.image_model(launch)
    given = frozenset(one.name for one in found)
    switches = given & {table.spelling(name) for name in table.row.get("attention_dp_switches", ())}
    return Stated(
        facts, switches, table.open_ended(found), table.row.get("share_of"), tuple(found),
        MappingProxyType(told),
    )  # fmt: skip


@record
class Given:
    """An option with its value, or a word of its own where `name` is empty.

    `sure`: the word is no value of the option before it. `word` is the one that names the option,
    None for a key inside of an option's value.
    """

    name: str
    value: Text | None
    sure: bool = True
    word: Text | None = None


class _Table:
    """One engine of the data."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.named = {
            self.spelling(option): name
            for name, options in row["options"].items()
            for option in options
        }
        self.objects = {name.partition(".")[0] for name in self.named if "." in name}
        listed = (*row.get("values", ()), *row.get("files", ()))
        self.valued = {*self.named, *self.objects, *map(self.spelling, listed)}
        self.bare = set(map(self.spelling, row.get("switches", ())))

    def spelling(self, option: str) -> str:
        """The name of an option as the engine compares it."""
        return option.replace("_", "-") if self.row.get("dashes_alike") else option

    def options(self, words: Sequence[Text]) -> Iterator[Given]:
        at, sure = 0, True
        if words and words[0].value in self.row.get("command_words", ()):
            at = 1
        while at < len(words):
            word = words[at]
            at += 1
            name, equals, _ = (word.value or "").partition("=")
            if not name.startswith("-") or word.value is None:
                yield Given("", word, sure)
                sure = True
                continue
            name, sure = self.spelling(name), True
            following = words[at] if at < len(words) else None
            if equals:
                yield from self._given(name, word.part(len(name) + 1), word)
            elif name in self.valued and following is not None and _is_value(following):
                at += 1
                yield from self._given(name, following, word)
            else:
                yield Given(name, None, word=word)
                sure = name in self.bare

    def _given(self, name: str, value: Text, word: Text) -> Iterator[Given]:
        """The option, and what an object that is its value says of its keys."""
        yield Given(name, value, word=word)
        if name in self.objects and (value.value or "").lstrip().startswith("{"):
            for key, item in _keys(value.value or ""):
                yield Given(self.spelling(f"{name}.{key}"), _part_of(value, item))

    def fact(self, name: str, found: Sequence[Given]) -> Known[Any]:
        """What the last option of a fact says; options that differ where no rule is certain."""
        given = [one.value for one in found if one.value and self.named.get(one.name) == name]
        if not given:
            return Known.unset()
        facts = [_fact(name, value) for value in given]
        values = {fact.values for fact in facts}
        if len(values) > 1 and self.row.get("twice_differs"):
            related = tuple(value.place for value in given[:-1])
            return Known.unknown("it is given twice, with different values", related[0], related)
        return facts[-1]

    def positional(self, found: Sequence[Given]) -> Known[str]:
        """The model as a word of its own, if it cannot be the value of an option."""
        words = [one for one in found if not one.name and one.value is not None]
        if not words:
            return Known.unset()
        first = words[0]
        assert first.value is not None
        if not first.sure or (len(words) > 1 and not _leads(found)):
            return Known.unknown("it is not certain which word names it", first.value.origin)
        return _fact("model", first.value)

    def image_model(self, launch: Launch) -> Known[str]:
        """The image, of which there is one for each model."""
        image = launch.image
        if any(_matches(self.row.get("images_of_any_model", ()), name) for name in image.values):
            return Known.unset()
        return image

    def open_ended(self, found: Sequence[Given]) -> str | None:
        files = set(map(self.spelling, self.row.get("files", ())))
        for one in found:
            if one.name in files:
                return f"options may stand in {one.value.value if one.value else 'a file'}"
            if not one.name and one.value is not None and one.value.value is None:
                return MORE if one.value.many else one.value.reason
        return None


def _leads(found: Sequence[Given]) -> bool:
    """The first word behind the command is no option."""
    return bool(found) and not found[0].name


def _is_value(word: Text) -> bool:
    return not word.many and not (word.value or "").startswith("--")


def _matches(patterns: Sequence[str], image: str) -> bool:
    return any(re.search(pattern, repository(image)) for pattern in patterns)


def _variable(variables: Sequence[str], launch: Launch) -> Text | None:
    for variable in variables:
        if (text := launch.env.get(variable)) is not None and text.value != "":
            return text
    return None


# ------------------------------------------------------------------------------------- values


def _fact(name: str, text: Text) -> Known[Any]:
    """A word as the value of a fact."""
    value = text.known()
    if not value.is_known:
        return value
    word = text.value or ""
    if HOLE.search(word):
        return Known.unknown(FILLED_IN, text.place)
    if not word:
        return Known.unset()
    made = _converter(name)(word)
    return value if made == word else _as(value, made, word)


def _as(value: Known[str], made: Any, word: str) -> Known[Any]:
    if made is None:
        return Known.unknown(f"`{word}` is no number", value.origin, value.related)
    return value.map(lambda _: made)


def _converter(name: str) -> Callable[[str], Any]:
    if name in NUMBERS:
        return lambda word: int(word) if re.fullmatch(r"\d{1,9}", word) else None
    if name in LENGTHS:
        return _length
    if name in SHARES:
        return lambda word: float(word) if re.fullmatch(r"\d*\.?\d+|\d+\.", word) else None
    if name == "model":
        return lambda word: word.removeprefix("hf://")
    return lambda word: word


def _length(word: str) -> int | None:
    """A count of tokens, with a suffix of people such as 32K."""
    match = re.fullmatch(r"(\d{1,12})([kmgtKMGT]?)", word)
    return None if match is None else int(match[1]) * HUMAN.get(match[2], 1)


def _keys(text: str) -> Iterator[tuple[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict):
        for key, value in found.items():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield key, str(value)


def _part_of(whole: Text, value: str) -> Text:
    """A value of an object that is one word; its place is the word."""
    assert whole.mapped is not None
    made = whole.mapped.all_at(value, whole.mapped.span())
    return Text(made, whole.origin, None, whole.related, None, whole.assumes)
