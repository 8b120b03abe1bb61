"""One card of several: what is known of it, a part of it, its memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardlint.hardware.names import Part
from shardlint.known import Case, Known
from shardlint.plan import Device

MIB_PER_GIB = 1024


def choice(devices: Iterable[Device], assumes: Iterable[str] = ()) -> Known[Device]:
    """One device, or one case for each of several; no device at all is unknown."""
    found = tuple(dict.fromkeys(devices))
    if len(found) == 1:
        return Known.of(found[0], assumes=assumes)
    cases = tuple(Case(device, (("gpu", device.name),)) for device in found)
    return Known(cases, None if cases else "no card", assumes=frozenset(assumes))


def cut(card: Known[Device], part: Part) -> Known[Device]:
    """The same part of every card that is possible."""
    made = [device for value in card.values if (device := part.of(value))]
    return replace(choice(made, card.assumes), origin=card.origin)


def either(facts: Sequence[Known[Device]]) -> Known[Device]:
    """Any of several cards; unknown as soon as one is."""
    for fact in facts:
        if not fact.is_known:
            return fact
    assumes = frozenset().union(*(fact.assumes for fact in facts))
    return choice((value for fact in facts for value in fact.values), assumes)


def with_memory(
    card: Device, *, mem_gb: float | None = None, mem_gib: float | None = None
) -> Device:
    """A card with another memory; the memory of the card it was made from is forgotten."""
    if mem_gb is None and mem_gib is None:
        return card
    mib = None if mem_gib is None else round(mem_gib * MIB_PER_GIB)
    return replace(card, mem_gb=mem_gb, memory_mib=mib, memory_kind=None, driver_mib=None)


def memory_gib(card: Device) -> float:
    """Memory for comparing cards and for people; a label's GB where no engine's figure is known."""
    if card.memory_mib is not None:
        return card.memory_mib / MIB_PER_GIB
    return card.mem_gb or 0.0
