"""How many GPUs all plans of a run ask for, by card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shardlint.plan import ServingPlan
from shardlint.project import Project
from shardlint.record import record

NOT_STATED = "card not stated"


@record
class Row:
    """GPUs of one card: `least` to `most` where replicas are a range, without those of `open`
    plans, whose number is not known."""

    card: str
    plans: int = 0
    least: int = 0
    most: int = 0
    open: int = 0


def rows(project: Project) -> tuple[Row, ...]:
    """By card, in the order of their names; plans without devices are left out."""
    found: dict[str, list[tuple[int, int] | None]] = {}
    for plan in project.plans:
        if plan.placement.wants_gpu:
            found.setdefault(_card(plan), []).append(asked_of(plan))
    return tuple(_row(card, found[card]) for card in sorted(found, key=_place))


def _place(card: str) -> tuple[bool, str]:
    return card.startswith(NOT_STATED), card


def _card(plan: ServingPlan) -> str:
    """What is asked for: parts of cards are no cards."""
    placement = plan.placement
    name = placement.gpu_label.only or NOT_STATED
    if placement.gpu.is_known:
        name = " or ".join(device.name for device in placement.gpu.values)
    return f"{name}, shares" if placement.device_kind.only == "shared" else name


def asked_of(plan: ServingPlan) -> tuple[int, int] | None:
    """The least and the most that a plan takes; None if that is not known."""
    each, pods = plan.placement.gpus_per_pod.only, plan.placement.pods_per_group.only
    replicas = 1 if plan.fleet.replicas.is_unset else plan.fleet.replicas.only
    if not isinstance(each, int) or pods is None or replicas is None:
        return None
    one, most = each * pods, plan.fleet.max_replicas.only
    return one * replicas, one * max(replicas, most or 0)


def _row(card: str, asked: Iterable[tuple[int, int] | None]) -> Row:
    listed = list(asked)
    known = [pair for pair in listed if pair is not None]
    return Row(
        card=card,
        plans=len(listed),
        least=sum(least for least, _ in known),
        most=sum(most for _, most in known),
        open=len(listed) - len(known),
    )


def as_records(found: Iterable[Row]) -> list[Mapping[str, Any]]:
    return [
        {"card": row.card, "plans": row.plans, "least": row.least, "most": row.most,
         "undecided": row.open}
        for row in found
    ]  # fmt: skip


def lines(found: tuple[Row, ...]) -> Iterator[str]:
    """A table; nothing for a single plan, which says it itself."""
    if sum(row.plans for row in found) < 2:
        return
    width = max(len(row.card) for row in found)
    yield f"{'card':<{width}}  {'plans':>5}  {'GPUs':>9}"
    for row in found:
        count = f"{row.least:,}" if row.least == row.most else f"{row.least:,}–{row.most:,}"
        open_ = f"  and those of {row.open}, which are not known" if row.open else ""
        yield f"{row.card:<{width}}  {row.plans:>5}  {count:>9}{open_}"
