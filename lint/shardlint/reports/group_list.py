"""Groups of plans that serve one name together, and how many GPUs each takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shardlint.plan import Group
from shardlint.project import Project
from shardlint.relations import groups
from shardlint.reports.gpu_table import asked_of


def as_records(project: Project) -> list[Mapping[str, Any]]:
    return [_record(group, project) for group in groups(project.plans)]


def _record(group: Group, project: Project) -> Mapping[str, Any]:
    known, open_ = _gpus(group)
    own = {plan.id for plan in group.plans}
    return {
        "id": group.id,
        "name": group.name,
        "plans": [plan.id for plan in group.plans],
        "roles": sorted({plan.role for plan in group.plans if plan.role is not None}),
        "routers": [router.id for router in project.routers if own & set(router.backends)],
        "gpus": {
            "least": sum(least for least, _ in known),
            "most": sum(most for _, most in known),
            "undecided": open_,
        },
    }


def _gpus(group: Group) -> tuple[list[tuple[int, int]], int]:
    """The least and the most of each plan of which that is known, and how many others there are."""
    asked = [asked_of(plan) for plan in group.plans if plan.placement.wants_gpu]
    known = [pair for pair in asked if pair is not None]
    return known, len(asked) - len(known)


def lines(project: Project) -> Iterator[str]:
    """One line for each group: its parts, and their GPUs added up."""
    for group in groups(project.plans):
        known, open_ = _gpus(group)
        least, most = (sum(pair[at] for pair in known) for at in (0, 1))
        parts = " + ".join(_part(plan.role or "", asked_of(plan)) for plan in group.plans)
        total = f"{least:,}" if least == most else f"{least:,}–{most:,}"
        more = f" and those of {open_}, which are not known" if open_ else ""
        yield f"group {group.name}: {parts} = {total} GPUs{more}"


def _part(role: str, asked: tuple[int, int] | None) -> str:
    if asked is None:
        return f"{role} ?"
    least, most = asked
    return f"{role} {least:,}" if least == most else f"{role} {least:,}–{most:,}"
