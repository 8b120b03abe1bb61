"""Labels of nodes, as a pod selects them: which card they name.

Labels that say what a node is made of are facts. Any other label whose key speaks of GPUs can name
a card too, if its value is a card's name: that is an assumption, and it is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

from shardlint.hardware.cards import Cards, load
from shardlint.hardware.choices import choice, either
from shardlint.hardware.names import Part
from shardlint.known import Known
from shardlint.plan import Device
from shardlint.record import record

Labels: TypeAlias = Mapping[str, str | Sequence[str]]
"""A value, or the values of which a node must have one."""

MACHINE = ("instance", "family")
NAMING = ("name", "device_id", *MACHINE)
NOT_SHARED = "none"
WHOLE = Part()


@record
class Label:
    """A key that says something of a node's cards; `value` says what."""

    key: str
    value: str
    source: str
    provider: str | None = None


@record
class Fact:
    """What one label says: a card, or a part of whatever the card is.

    `part` is None where the label allows different parts: no one device is meant then.
    """

    label: Label
    text: str
    card: Known[Device]
    part: Part | None = WHOLE


@cache
def table() -> tuple[Label, ...]:
    """The keys, the ones that speak most plainly first."""
    return tuple(Label(**record) for record in load("labels")["labels"])


@cache
def _keys() -> frozenset[str]:
    return frozenset(label.key for label in table())


def values(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


# ------------------------------------------------------------------------- one label at a time


def facts(labels: Labels, cards: Cards) -> Iterator[Fact]:
    """What the labels of the table say of the card, in the table's order."""
    for label in table():
        if label.value != "count" and (texts := values(labels.get(label.key, ()))):
            yield _any([_fact(label, text, cards) for text in texts])


def _fact(label: Label, text: str, cards: Cards) -> Fact:
    if label.value == "profile":
        return Fact(label, text, *cards.card(f"mig-{text}"))
    if label.value == "sharing":
        return Fact(label, text, Known.unset(), Part(shared=text != NOT_SHARED))
    if label.value == "device_id":
        return Fact(label, text, cards.by_device_id(text))
    if label.value == "family":
        return Fact(label, text, cards.family(text, label.provider))
    if label.value == "instance":
        return Fact(label, text, _instance(text, cards))
    card, part = cards.card(text)
    return Fact(label, text, _offered(card, label.provider, cards), part)


def _instance(text: str, cards: Cards) -> Known[Device]:
    node = cards.node(text)
    unknown = f"instance type {text} is not in the hardware table"
    return cards.on(node) if node else Known.unknown(unknown)


def _offered(card: Known[Device], provider: str | None, cards: Cards) -> Known[Device]:
    """The cards of a name that a provider's instance types hold, if there are any."""
    names = cards.offered(provider) if provider else frozenset()
    kept = [device for device in card.values if device.name in names]
    return choice(kept, card.assumes) if kept else card


def _any(found: Sequence[Fact]) -> Fact:
    """One fact of several allowed values."""
    if len(found) == 1:
        return found[0]
    label, text = found[0].label, ", ".join(fact.text for fact in found)
    if len({fact.part for fact in found}) > 1:
        reason = f"{label.key} allows different parts of cards"
        return Fact(label, text, Known.unknown(reason), None)
    return Fact(label, text, either([fact.card for fact in found]), found[0].part)


# ------------------------------------------------------------------------------ all of them


def device(labels: Labels, cards: Cards) -> Known[Device]:
    """The device that the labels name together; unset when none of them names one."""
    found = list(facts(labels, cards))
    if mixed := [fact.card for fact in found if fact.part is None]:
        return mixed[0]
    card = _together([fact for fact in found if fact.card.is_known])
    if card.is_unset:
        card = _common(list(private(labels, cards)))
    if card.is_unset:
        card = next((fact.card for fact in found if not fact.card.is_unset), card)
    return cards.handed_out(card, _part(fact.part for fact in found))


def _together(found: Sequence[Fact]) -> Known[Device]:
    """The cards that all labels allow; where they contradict, the instance type decides."""
    card = _common(found)
    machine = [fact for fact in found if fact.label.value in MACHINE]
    if card.is_known or not machine:
        return card
    types = ", ".join(fact.text for fact in machine)
    sentence = f"instance type {types} names the card, not the labels beside it"
    return _common(machine).assuming(sentence)


def _common(found: Sequence[Fact]) -> Known[Device]:
    """The cards that every fact allows; unset where there is no fact."""
    if not found:
        return Known.unset()
    common = [d for d in found[0].card.values if all(d in fact.card.values for fact in found)]
    if not common:
        labels = " and ".join(f"{fact.label.key}={fact.text}" for fact in found)
        return Known.unknown(f"{labels} name different cards")
    return choice(common, frozenset().union(*(fact.card.assumes for fact in found)))


def _part(parts: Iterable[Part | None]) -> Part:
    """What all labels together leave of the card."""
    made = WHOLE
    for part in filter(None, parts):
        made = replace(part if part.profile else made, shared=made.shared or part.shared)
    return made


# --------------------------------------------------------------------------- private labels


def private(labels: Labels, cards: Cards) -> Iterator[Fact]:
    """Cards named by labels of somebody's own, with the assumption that they do."""
    for key in filter(_speaks_of_gpus, labels):
        texts = values(labels[key])
        found = [card for text in texts if (card := cards.exact(text))]
        if found and len(found) == len(texts):
            text = ", ".join(texts)
            card = either(found).assuming(f"label {key}={text} names the card")
            yield Fact(Label(key, "name", "private"), text, card)


def _speaks_of_gpus(key: str) -> bool:
    words = load("labels")["words"]
    return key not in _keys() and any(word in key.lower() for word in words)


def naming(labels: Labels, cards: Cards) -> str | None:
    """The key of the label that names the card, for pointing at it."""
    found = [fact for fact in facts(labels, cards) if fact.label.value in (*NAMING, "profile")]
    known = [fact for fact in found if fact.card.is_known]
    ordered = [*known, *private(labels, cards), *found]
    return ordered[0].label.key if ordered else None


# ------------------------------------------------------------------------------------ counts


def count(labels: Labels, cards: Cards) -> Known[int]:
    """How many devices a node has: stated by a label, or by its instance type."""
    found: set[int] = set()
    for label in table():
        numbers = {_count(label, text, cards) for text in values(labels.get(label.key, ()))}
        if None not in numbers:
            found |= {number for number in numbers if number}
    return _one(sorted(found))


def _count(label: Label, text: str, cards: Cards) -> int | None:
    if label.value == "instance":
        node = cards.node(text)
        return node.count if node else None
    return int(text) if label.value == "count" and re.fullmatch(r"[1-9]\d*", text) else None


def _one(numbers: Sequence[int]) -> Known[int]:
    if not numbers:
        return Known.unset()
    if len(numbers) > 1:
        listed = " or ".join(map(str, numbers))
        return Known.unknown(f"labels allow nodes of {listed} GPUs")
    return Known.of(numbers[0])
