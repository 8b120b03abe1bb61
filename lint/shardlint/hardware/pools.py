"""Pools of nodes, as the configuration tells of them, and the one that a plan runs on.

A plan takes the pools whose labels its pod asks for. Which of several it gets is open: every fact
of them is then a set of possible values, one for each pool. A pool without a match takes the plans
that no other pool takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from shardlint.config import Settings
from shardlint.hardware.errors import HardwareError
from shardlint.known import Case, Known
from shardlint.plan import Device, Placement
from shardlint.record import record

if TYPE_CHECKING:
    from shardlint.hardware.table import Devices

RESOURCE: Final = "resource"
"""The key of `match` that names a resource of the container instead of a label of the node."""
CHOICE: Final = "pool"
MOST_COMBINATIONS: Final = 1000


@record(kw_only=True)
class Pool:
    """Nodes of one kind; what is None or unset is not told of them."""

    name: str
    match: Mapping[str, str]
    gpu: Known[Device] = Known.unset()
    per_node: int | None = None
    nodes: int | None = None
    network: str | None = None
    link: str | None = None
    price: float | None = None


def pools(settings: Settings, devices: Devices) -> tuple[Pool, ...]:
    """The tables [[pool]]; raises ConfigError for a card that is not known."""
    made: list[Pool] = []
    for at, table in enumerate(settings.pools):
        facts: dict[str, Any] = {key: table.get(key) for key in ("nodes", "network", "price")}
        option = None
        if "gpu" in table:
            try:
                option = devices.parse_gpu_option(table["gpu"])
            except HardwareError as error:
                message = str(error).removeprefix("--gpu: ")
                raise settings.error(("pool", at, "gpu"), message) from None
            facts["gpu"] = devices.device(option)
        facts["per_node"] = table.get("per_node") or (option.per_node if option else None)
        facts["link"] = table.get("link") or (option.link if option else None)
        name = _name(table, at)
        if any(name == other.name for other in made):
            name = f"{name} (number {at + 1})"
        made.append(Pool(name=name, match=table.get("match", {}), **facts))
    return tuple(made)


def _name(table: Mapping[str, Any], at: int) -> str:
    """A pool as people know it: by its labels, else by its card."""
    labels = ", ".join(f"{key}={value}" for key, value in table.get("match", {}).items())
    return labels or table.get("gpu") or f"number {at + 1}"


# ------------------------------------------------------------------------------------- choosing


@record
class Taken:
    """The pools that a plan can run on, and the cards of pools that it asks for in vain.

    Those have its labels and other cards than the file names.
    """

    pools: Known[Pool] = Known.unset()
    denied: tuple[Device, ...] = ()

    def fact(self, name: str) -> Known[Any]:
        """What the pools say of something; unset where none says anything."""
        told = [getattr(case.value, name) for case in self.pools.cases]
        if all(value is None for value in told):
            return Known.unset()
        if None in told:
            silent = next(c.value.name for c in self.pools.cases if getattr(c.value, name) is None)
            return Known.unknown(f"the pool {silent} does not say it")
        return self.pools.map(lambda pool: getattr(pool, name), "derived")

    @property
    def gpu(self) -> Known[Device]:
        """The card of every pool that is possible, and of each the cards that its name can mean."""
        told = [case.value.gpu for case in self.pools.cases]
        if all(card.is_unset for card in told):
            return Known.unset()
        for case in self.pools.cases:
            if not case.value.gpu.is_known:
                return Known.unknown(f"the pool {case.value.name} does not say its card")
        cases = tuple(
            Case(card.value, (*case.given, *card.given))
            for case in self.pools.cases
            for card in case.value.gpu.cases
        )
        assumes = self.pools.assumes.union(*(card.assumes for card in told))
        return Known(cases, None, assumes=assumes, how="derived")


def taken(every: tuple[Pool, ...], placement: Placement, told: Known[Device]) -> Taken:
    """The pools that a plan with this placement can run on; `told` is the card of the user's word.

    A card that the file names counts, unless it only seems to name one.
    """
    stated = Known.unset() if placement.gpu.assumes else placement.gpu
    found: dict[str, Pool] = {}
    sure = True
    for labels in placement.node_labels or ({},):
        wanted = {**labels, RESOURCE: tuple(placement.asked)}
        fitting = tuple(_fitting(every, wanted))
        sure = sure and _covered(fitting, wanted)
        found |= {pool.name: pool for pool in fitting}
    ours = [pool for pool in found.values() if _has(pool, stated, placement)]
    able = [pool for pool in ours if _has(pool, told, placement)]
    if not able:
        denied = (card for pool in found.values() for card in pool.gpu.values)
        return Taken(denied=() if ours else tuple(dict.fromkeys(denied)))
    cases = tuple(
        Case(pool, ((CHOICE, pool.name),) if len(able) > 1 else ())
        for pool in able
    )  # fmt: skip
    chosen = Known(cases, None, how="derived")
    return Taken(chosen if sure else chosen.assuming(_says(able)))


def _says(able: list[Pool]) -> str:
    return f"it runs in the pool {' or '.join(pool.name for pool in able)}"


def _fitting(every: tuple[Pool, ...], wanted: Mapping[str, tuple[str, ...]]) -> Iterator[Pool]:
    """The pools that share a label with what is asked for, and contradict none; else the others."""
    labelled = [pool for pool in every if pool.match and _agrees(pool, wanted)]
    yield from labelled or (pool for pool in every if not pool.match)


def _agrees(pool: Pool, wanted: Mapping[str, tuple[str, ...]]) -> bool:
    """A label whose value is not known, an empty tuple, can be the pool's."""
    named = [key for key in pool.match if wanted.get(key) is not None and _is_asked(key, wanted)]
    return bool(named) and all(
        not wanted[key] or pool.match[key] in wanted[key] for key in named
    )  # fmt: skip


def _is_asked(key: str, wanted: Mapping[str, tuple[str, ...]]) -> bool:
    return key != RESOURCE or bool(wanted[key])


def _covered(fitting: tuple[Pool, ...], wanted: Mapping[str, tuple[str, ...]]) -> bool:
    """Whatever node the pod gets, it is one of these pools: each value asked for is that of one."""
    if any(not pool.match for pool in fitting):
        return True
    every = [key for pool in fitting for key in pool.match if key != RESOURCE]
    keys = list(dict.fromkeys(every))
    values: list[tuple[str | None, ...]] = [wanted.get(key) or (None,) for key in keys]
    if prod(map(len, values)) > MOST_COMBINATIONS:
        return False
    return all(
        any(_of(pool, dict(zip(keys, one, strict=True))) for pool in fitting)
        for one in product(*values)
    )


def _of(pool: Pool, labels: Mapping[str, str | None]) -> bool:
    return all(labels.get(key) == value for key, value in pool.match.items() if key != RESOURCE)


def _has(pool: Pool, card: Known[Device], placement: Placement) -> bool:
    """The pool can have the card that is stated, or one of the vendor whose resource is asked."""
    if not pool.gpu.is_known:
        return True
    if card.is_known:
        return bool({one.name for one in card.values} & {one.name for one in pool.gpu.values})
    vendors = {name.partition(".")[0] for name in placement.asked if name.endswith(".com/gpu")}
    theirs = {device.vendor for device in pool.gpu.values}
    return not vendors or bool(vendors & theirs) or "unknown" in theirs


def narrowed(card: Known[Device], told: Known[Device]) -> Known[Device]:
    """What a file says of the card, as far as the pool agrees: its name may mean several cards."""
    if len(card.values) < 2 or not told.is_known:
        return card
    theirs = {device.name for device in told.values}
    left = tuple(case for case in card.cases if case.value.name in theirs)
    if not left:
        return card
    if len({case.value.name for case in left}) == 1:
        left = (Case(left[0].value),)
    return replace(card, cases=left, assumes=card.assumes | told.assumes)
