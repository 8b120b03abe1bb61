"""The edits of a change: from the sites of a plan, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardlint.plan import Refusal, ServingPlan
from shardlint.source import Edit


def edits_of(plan: ServingPlan, delta: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """None if a site refuses one of the fields, or there is none for it."""
    edits: list[Edit] = []
    for name, value in delta.items():
        site = plan.sites.get(name)
        made = site.set(str(value)) if site is not None else Refusal("no site")
        if isinstance(made, Refusal):
            return None
        edits.extend(made)
    return tuple(edits)
