"""How many GPUs all plans of a run ask for: by the pool that they run in, and by card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardlint.hardware.pools import Pool
from shardlint.plan import ServingPlan
from shardlint.project import Project
from shardlint.record import record

NOT_STATED = "card not stated"
NO_POOL = "none"
WIDEST = 40


@record
class Row:
    """GPUs of one card in one pool: `least` to `most` where replicas are a range, without those of
    `open` plans, whose number is not known. `capacity` is what the pool has, `price` what one GPU
    of it costs in an hour."""

    card: str
    plans: int = 0
    least: int = 0
    most: int = 0
    open: int = 0
    pool: str | None = None
    capacity: int | None = None
    price: float | None = None


def rows(project: Project) -> tuple[Row, ...]:
    """In order of pools and cards; plans without devices are left out."""
    found: dict[tuple[str | None, str], list[tuple[int, int] | None]] = {}
    seen: set[tuple[str, str]] = set()
    for plan in project.plans:
        if plan.placement.wants_gpu:
            asked = (0, 0) if (plan.file, plan.path) in seen else asked_of(plan)
            found.setdefault((_pool(plan), _card(plan)), []).append(asked)
            if _is_alternative(plan):
                seen.add((plan.file, plan.path))
    pools = {pool.name: pool for pool in project.setup.pools}
    return tuple(
        _in_pool(_row(card, found[name, card]), name, pools.get(name or ""))
        for name, card in sorted(found, key=_place)
    )


def _is_alternative(plan: ServingPlan) -> bool:
    """A test in a script decides which of several engines a container runs."""
    return plan.placement.branch and plan.placement.shared


def _place(key: tuple[str | None, str]) -> tuple[bool, str, bool, str]:
    pool, card = key
    return pool is None, pool or "", card.startswith(NOT_STATED), card


def _in_pool(row: Row, name: str | None, pool: Pool | None) -> Row:
    if pool is None:
        return replace(row, pool=name)
    whole = pool.nodes * pool.per_node if pool.nodes and pool.per_node else None
    return replace(row, pool=name, capacity=whole, price=pool.price)


def _pool(plan: ServingPlan) -> str | None:
    """The pools that it can run in, None where the configuration has none for it."""
    return " or ".join(plan.placement.pool.values) or None


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
        {"card": row.card, "pool": row.pool, "plans": row.plans, "least": row.least,
         "most": row.most, "undecided": row.open, "capacity": row.capacity, "price": row.price}
        for row in found
    ]  # fmt: skip


def lines(found: tuple[Row, ...]) -> Iterator[str]:
    """A table; nothing for a single plan, which says it itself."""
    if sum(row.plans for row in found) < 2:
        return
    pooled = any(row.pool is not None for row in found)
    names = [_short(row.pool or NO_POOL) for row in found]
    first = max(map(len, [*names, "pool"])) if pooled else 0
    width = max(len(row.card) for row in found)
    head = f"{'pool':<{first}}  " if pooled else ""
    yield f"{head}{'card':<{width}}  {'plans':>5}  {'GPUs':>9}"
    for row, name in zip(found, names, strict=True):
        start = f"{name:<{first}}  " if pooled else ""
        count = _range(row.least, row.most)
        yield f"{start}{row.card:<{width}}  {row.plans:>5}  {count:>9}{_more(row)}"


def _short(name: str) -> str:
    return name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"


def _range(least: float, most: float, form: str = ",") -> str:
    low, high = format(least, form), format(most, form)
    return low if low == high else f"{low}–{high}"


def _more(row: Row) -> str:
    """What there is beside the number: the size of the pool, the price, what is not known."""
    said = f" of {row.capacity:,}" if row.capacity is not None else ""
    if row.price is not None:
        hour = _range(row.least * row.price, row.most * row.price, ",.2f")
        said += f", {hour} per hour"
    return said + (f"  and those of {row.open}, which are not known" if row.open else "")
