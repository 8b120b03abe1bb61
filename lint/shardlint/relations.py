"""What plans of one run are to each other: parts of one service, users of one value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from shardlint.plan import Partner, ServingPlan
from shardlint.source import Origin

PARTS = ("prefill", "decode")
"""Roles that hand requests on to each other, with their KV cache."""


def related(plans: tuple[ServingPlan, ...]) -> tuple[ServingPlan, ...]:
    """The plans with their partners, and with those that have their TP from the same place."""
    return tuple(_sharing(tuple(_partnered(plans))))


# ------------------------------------------------------------------------- prefill and decode


def _partnered(plans: Iterable[ServingPlan]) -> Iterator[ServingPlan]:
    listed = tuple(plans)
    groups: dict[tuple[str, str], list[ServingPlan]] = {}
    for plan in listed:
        if plan.role in PARTS:
            groups.setdefault(_object(plan), []).append(plan)
    for plan in listed:
        others = groups.get(_object(plan), ()) if plan.role in PARTS else ()
        found = tuple(_partner(other) for other in others if other.role != plan.role)
        yield replace(plan, partners=found) if found else plan


def _object(plan: ServingPlan) -> tuple[str, str]:
    """The object that a plan belongs to: one document of one file."""
    return plan.id.partition("#")[0], plan.path.partition("/")[0]


def _partner(plan: ServingPlan) -> Partner:
    return Partner(
        plan=plan.id,
        name=plan.name,
        role=plan.role or "",
        origin=plan.origin,
        model=plan.model,
        kv_cache_dtype=plan.memory.kv_cache_dtype,
        rdma=plan.placement.rdma,
    )


# ------------------------------------------------------------------------------- one value


def _sharing(plans: tuple[ServingPlan, ...]) -> Iterator[ServingPlan]:
    users: dict[Origin, list[ServingPlan]] = {}
    for plan in plans:
        for origin in _places(plan):
            users.setdefault(origin, []).append(plan)
    for plan in plans:
        names = dict.fromkeys(
            other.name
            for origin in _places(plan)
            for other in users[origin]
            if other.id != plan.id and _differs(plan, other)
        )
        yield replace(plan, tp_shared=tuple(names)) if names else plan


def _places(plan: ServingPlan) -> tuple[Origin, ...]:
    """Where the tensor parallel size stands, and what it is made from."""
    fact = plan.layout.tp
    if not fact.is_known:
        return ()
    own = (fact.origin,) if fact.origin is not None else ()
    return tuple(dict.fromkeys((*own, *fact.related)))


def _differs(one: ServingPlan, other: ServingPlan) -> bool:
    return None not in (one.model.only, other.model.only) and one.model.only != other.model.only
