"""What plans of one run are to each other: parts of one service, users of one value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from shardlint.plan import Group, Partner, ServingPlan
from shardlint.source import Origin

PARTS = ("prefill", "decode")
"""Roles that hand requests on to each other, with their KV cache."""

GROUPED = (*PARTS, "encode")
"""Roles of which each does a part of every request."""


def related(plans: tuple[ServingPlan, ...]) -> tuple[ServingPlan, ...]:
    """The plans with their group and partners, and with those that have their TP from one place."""
    return tuple(_sharing(tuple(_grouped(tuple(_partnered(plans))))))


# ---------------------------------------------------------------------------------- groups


def groups(plans: Iterable[ServingPlan]) -> tuple[Group, ...]:
    """The groups of plans, in the order of their first ones."""
    found: dict[str, list[ServingPlan]] = {}
    for plan in plans:
        if plan.group is not None:
            found.setdefault(plan.group, []).append(plan)
    return tuple(Group(key, _common(parts), tuple(parts)) for key, parts in found.items())


def _grouped(plans: tuple[ServingPlan, ...]) -> Iterator[ServingPlan]:
    roles: dict[tuple[str, str], set[str]] = {}
    for plan in plans:
        if plan.role in GROUPED:
            roles.setdefault(_object(plan), set()).add(plan.role)
    for plan in plans:
        file, document = _object(plan)
        several = plan.role in GROUPED and len(roles[file, document]) > 1
        yield replace(plan, group=f"{file}#{document}") if several else plan


def _common(parts: Sequence[ServingPlan]) -> str:
    """The name of the object, or the beginning of the names of all parts, or all their names."""
    owners = {(plan.namespace, plan.owner[1] if plan.owner else "") for plan in parts}
    if len(owners) == 1 and all(plan.owner for plan in parts):
        return "/".join(filter(None, owners.pop()))
    names = [plan.name.split("/") for plan in parts]
    alike = takewhile(lambda words: len(set(words)) == 1, zip(*names, strict=False))
    return "/".join(words[0] for words in alike) or " + ".join(plan.name for plan in parts)


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
