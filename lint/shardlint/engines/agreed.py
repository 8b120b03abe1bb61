"""Facts of a command line that the possible releases do not read alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from shardlint.engines.command_lines import Version
from shardlint.engines.flags import FlagView, ParsedWords
from shardlint.known import Case, Known
from shardlint.plan import KvBudget, LayoutFacts, Memory, Releases

Read = TypeVar("Read", LayoutFacts, Memory, KvBudget)
T = TypeVar("T")


def taking(found: Sequence[Version]) -> Known[Releases]:
    """The releases that refuse no word, where others do."""
    taking = [view.release for one in found if not one.refused for view in one.views]
    if all(not one.refused for one in found) or not taking:
        return Known.unset()
    return Known(tuple(Case(Releases(each, each)) for each in taking), how="derived")


def fact(facts: Sequence[Known[T]]) -> Known[T]:
    """What all releases read; unknown if they do not read the same."""
    newest = facts[-1]
    if all((one.values, one.is_unset) == (newest.values, newest.is_unset) for one in facts):
        return newest
    if not newest.is_known and not newest.is_unset:
        return newest
    origin = next((one.origin for one in reversed(facts) if one.origin), None)
    return Known.unknown("releases that are possible here read it differently", origin)


def of_fields(parts: Sequence[Read]) -> Read:
    newest = parts[-1]
    names = [item.name for item in fields(newest) if isinstance(getattr(newest, item.name), Known)]
    changed: dict[str, Any] = {
        name: fact([getattr(part, name) for part in parts]) for name in names
    }
    return replace(newest, **changed)


def of_memory(parts: Sequence[Memory]) -> Memory:
    budget = of_fields([part.budget for part in parts])
    return replace(of_fields(parts), budget=budget)


def of_options(parts: Sequence[Mapping[str, Known[Any]]]) -> dict[str, Known[Any]]:
    names = dict.fromkeys(name for part in reversed(parts) for name in part)
    return {name: fact([part.get(name, Known.unset()) for part in parts]) for name in names}


def doubted(facts: Read, parsed: ParsedWords, view: FlagView) -> Read:
    """A field is not at its default while a refused option was probably meant to set it."""
    changed: dict[str, Any] = {}
    for flag in parsed.flags:
        for guess in flag.candidates if flag.flag is None else ():
            name = view.option_of(guess).field or ""
            fact = getattr(facts, name, None)
            if isinstance(fact, Known) and fact.is_unset:
                reason = f"`{flag.written.value}` was probably meant to set it"
                changed[name] = Known.unknown(reason, flag.written.place)
    return replace(facts, **changed)
