"""Plans of which nothing is certain, because what they were read from can be overruled."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from shardlint.known import Known
from shardlint.plan import ServingPlan

T = TypeVar("T")


def resting(plan: ServingPlan, sentence: str) -> ServingPlan:
    """The plan with every fact resting on a sentence: none of them can carry an error."""
    rested = _rested(plan, sentence)
    return replace(
        rested,
        placement=replace(rested.placement, scheduled=False, certain=False),
        refused=tuple(replace(item, certain=False) for item in plan.refused),
        remarks=tuple(
            replace(item, severity="warning") if item.severity == "error" else item
            for item in plan.remarks
        ),
    )


def _rested(part: T, sentence: str) -> T:
    """A record whose facts rest on the sentence, and those of the records in it."""
    changed: dict[str, Any] = {}
    for item in fields(part):  # type: ignore[arg-type]
        value = getattr(part, item.name)
        if isinstance(value, Known):
            changed[item.name] = value.assuming(sentence)
        elif item.name in ("layout", "effective", "placement", "fleet", "memory", "budget"):
            assert is_dataclass(value)
            changed[item.name] = _rested(value, sentence)
        elif item.name in ("options", "env", "variables"):
            facts = {name: fact.assuming(sentence) for name, fact in value.items()}
            changed[item.name] = MappingProxyType(facts)
    return replace(part, **changed)  # type: ignore[type-var]
