"""Plans of which nothing is certain, because what they were read from can be overruled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from shardlint.known import Known
from shardlint.plan import ServingPlan

T = TypeVar("T")


def same(reason: str) -> str:
    return reason


def resting(plan: ServingPlan, sentence: str, reworded: Callable[[str], str] = same) -> ServingPlan:
    """The plan with every fact resting on a sentence: none of them can carry an error.

    `reworded` says why a fact is not known, of the reason that was given.
    """
    rested = _rested(plan, sentence, reworded)
    return replace(
        rested,
        placement=replace(rested.placement, scheduled=False, certain=False),
        unknowns=tuple(replace(row, reason=reworded(row.reason)) for row in plan.unknowns),
        refused=tuple(replace(item, certain=False) for item in plan.refused),
        remarks=tuple(
            replace(item, severity="warning") if item.severity == "error" else item
            for item in plan.remarks
        ),
    )


def _fact(fact: Known[Any], sentence: str, reworded: Callable[[str], str]) -> Known[Any]:
    reason = fact.reason if fact.reason is None else reworded(fact.reason)
    return replace(fact.assuming(sentence), reason=reason)


def _rested(part: T, sentence: str, reworded: Callable[[str], str]) -> T:
    """A record whose facts rest on the sentence, and those of the records in it."""
    changed: dict[str, Any] = {}
    for item in fields(part):  # type: ignore[arg-type]
        value = getattr(part, item.name)
        if isinstance(value, Known):
            changed[item.name] = _fact(value, sentence, reworded)
        elif item.name in ("layout", "effective", "placement", "fleet", "memory", "budget"):
            assert is_dataclass(value)
            changed[item.name] = _rested(value, sentence, reworded)
        elif item.name in ("options", "env", "variables"):
            facts = {name: _fact(fact, sentence, reworded) for name, fact in value.items()}
            changed[item.name] = MappingProxyType(facts)
    return replace(part, **changed)  # type: ignore[type-var]
