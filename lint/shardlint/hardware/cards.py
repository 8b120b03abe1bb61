"""The tables: names to cards, instance types to nodes.

What a name means is decided by the data alone: a name or alias of one card, a name that several
cards go by, or one of these behind a vendor's word ("NVIDIA", "Tesla") that goes with its cards.
Cards of plugins replace those of the table under the same name, cards of the config replace both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

from shardlint.hardware.choices import choice, cut, either, memory_gib, with_memory
from shardlint.hardware.errors import HardwareError, did_you_mean
from shardlint.hardware.names import UNKNOWN_VENDOR, Part, normal, split
from shardlint.known import Known
from shardlint.plan import Device
from shardlint.record import record

Record: TypeAlias = Mapping[str, Any]

_DATA = Path(__file__).with_name("data")
_FIELDS = tuple(item.name for item in fields(Device))


@cache
def load(table: str) -> Record:
    """One of the tables, read once: "devices", "instances", "labels", "peers"."""
    loaded: Record = json.loads((_DATA / f"{table}.json").read_text(encoding="utf-8"))
    return loaded


@record
class Node:
    """What one instance type holds. `count` is None where the type comes in several sizes."""

    type: str
    provider: str
    gpu: str
    count: int | None
    fabric: str
    seen: bool
    fabric_seen: bool


class Cards:
    """Cards by name and nodes by instance type; raises HardwareError on a wrong `custom` table."""

    def __init__(
        self, extra: Iterable[Device] = (), custom: Mapping[str, Record] | None = None
    ) -> None:
        self._extra = tuple(extra)
        self._custom = dict(custom or {})
        if self._custom:
            _ = self.devices  # a wrong table of the config is an error before anything is read

    # ------------------------------------------------------------------------------- contents

    @cached_property
    def devices(self) -> dict[str, Device]:
        """Every card under its own normalised name."""
        made = {normal(row["name"]): _device(row) for row in load("devices")["devices"]}
        made |= {normal(device.name): device for device in self._extra}
        for name, table in self._custom.items():
            made[normal(name)] = self._customised(name, table, made)
        return made

    @cached_property
    def _index(self) -> dict[str, tuple[str, ...]]:
        """The keys of `devices` for every name that means something."""
        index: dict[str, tuple[str, ...]] = {}
        for row in load("devices")["devices"]:
            index |= dict.fromkeys(_names(row), (normal(row["name"]),))
        for row in load("devices")["ambiguous"]:
            if not row.get("device_id"):
                index[normal(row["name"])] = tuple(map(normal, row["candidates"]))
        for device in self._extra:
            names = map(normal, (device.name, *device.aliases))
            index |= dict.fromkeys(names, (normal(device.name),))
        return index | {normal(name): (normal(name),) for name in self._custom}

    @cached_property
    def _device_ids(self) -> dict[str, tuple[str, ...]]:
        """PCI device ids, as labels of their own kind carry them."""
        found: dict[str, tuple[str, ...]] = {}
        for row in load("devices")["devices"]:
            found |= dict.fromkeys(row.get("device_ids", ()), (normal(row["name"]),))
        for row in load("devices")["ambiguous"]:
            if row.get("device_id"):
                found[row["name"]] = tuple(map(normal, row["candidates"]))
        return found

    @cached_property
    def _recalled(self) -> frozenset[str]:
        """Aliases that were never seen in a file."""
        records = load("devices")["devices"]
        return frozenset(
            normal(name) for row in records for name in row.get("recalled_aliases", ())
        )

    @cached_property
    def nodes(self) -> dict[str, Node]:
        return {normal(row["type"]): _node(row) for row in load("instances")["instances"]}

    def _customised(self, name: str, table: Record, made: Mapping[str, Device]) -> Device:
        """A card of the config: the facts of its base, the memory that is stated."""
        mem_gb, mem_gib, base = (table.get(key) for key in ("mem_gb", "mem_gib", "base"))
        if mem_gb is None and mem_gib is None and base is None:
            raise HardwareError(f'[gpus."{name}"] needs mem_gb, mem_gib or base')
        card = Device(name=name, vendor=UNKNOWN_VENDOR)
        if base is not None:
            card = replace(self._base(name, base, made), name=name, aliases=())
        return with_memory(card, mem_gb=mem_gb, mem_gib=mem_gib)

    def _base(self, name: str, base: str, made: Mapping[str, Device]) -> Device:
        """The one card that a base names, among those made so far."""
        key = normal(base)
        keys = (key,) if key in made else self._index.get(key, ())
        cards = [made[key] for key in keys if key in made]
        if len(cards) == 1:
            return cards[0]
        meanings = " or ".join(card.name for card in cards)
        guess = did_you_mean(base, (card.name for card in made.values()))
        what = f"can be {meanings}" if cards else f"is not in the hardware table{guess}"
        raise HardwareError(f'[gpus."{name}"]: base {base!r} {what}')

    # ------------------------------------------------------------------------------- look-ups

    def _keys(self, key: str) -> tuple[str, ...]:
        """Keys of the cards that a normalised name means; a vendor's word may stand before it."""
        if key in self._index:
            return self._index[key]
        word, _, rest = key.partition("-")
        vendor = load("devices")["prefixes"].get(word)
        if not vendor or not rest:
            return ()
        keys = self._keys(rest)
        fits = all(self.devices[name].vendor in (vendor, UNKNOWN_VENDOR) for name in keys)
        return keys if fits else ()

    def _choice(self, keys: Iterable[str], key: str, name: str) -> Known[Device]:
        found = choice(self.devices[each] for each in keys)
        if key not in self._recalled:
            return found
        return found.assuming(f"{name} names {found.values[0].name}")

    def exact(self, name: str) -> Known[Device] | None:
        """The card whose name or alias this is, letter by letter after normalisation."""
        key = normal(name)
        return self._choice(self._index[key], key, name) if key in self._index else None

    def card(self, name: str) -> tuple[Known[Device], Part]:
        """The card that a name means and which part of it."""
        key = normal(name)
        whole, part = (key, Part()) if key in self._index else split(key)
        if whole is None:
            return Known.unset(), part
        if keys := self._keys(whole):
            return self._choice(keys, whole, name), part
        if node := self.nodes.get(whole):
            return self.on(node), part
        return Known.unknown(f"{name} is not in the hardware table"), part

    def find(self, name: str) -> Known[Device]:
        """The device that a name means, or the devices that it can mean."""
        card, part = self.card(name)
        return self.handed_out(card, part)

    def handed_out(self, card: Known[Device], part: Part) -> Known[Device]:
        """The device behind a card, known or not, and a part of it."""
        if card.is_known:
            return cut(card, part)
        bare = part.of(None)
        return Known.of(bare) if bare else card

    def by_device_id(self, text: str) -> Known[Device]:
        if keys := self._device_ids.get(text.strip().lower()):
            return choice(self.devices[key] for key in keys)
        return Known.unknown(f"device id {text} is not in the hardware table")

    # ---------------------------------------------------------------------------------- nodes

    def on(self, node: Node) -> Known[Device]:
        """The card of an instance type; an assumption where the row was not read in a source."""
        card = Known.of(self.devices[normal(node.gpu)])
        return card if node.seen else card.assuming(f"{node.type} has {node.gpu} cards")

    def node(self, name: str) -> Node | None:
        return self.nodes.get(normal(name))

    def family(self, name: str, provider: str | None) -> Known[Device]:
        """The cards of the instance types of one family, such as "p5" of "p5.48xlarge"."""
        start = normal(name) + "."
        nodes = [node for key, node in self.nodes.items() if key.startswith(start)]
        cards = [self.on(node) for node in nodes if provider in (None, node.provider)]
        if not cards:
            return Known.unknown(f"instance family {name} is not in the hardware table")
        return either(cards)

    def offered(self, provider: str) -> frozenset[str]:
        """Names of the cards that the instance types of a provider hold."""
        return frozenset(node.gpu for node in self.nodes.values() if node.provider == provider)

    # ---------------------------------------------------------------------------------- names

    def names(self) -> list[str]:
        """Everything that a card may be called, as it is written."""
        table = load("devices")
        records = [name for r in table["devices"] for name in (r["name"], *r["aliases"])]
        shared = [r["name"] for r in table["ambiguous"] if not r.get("device_id")]
        extra = [name for device in self._extra for name in (device.name, *device.aliases)]
        return [*records, *shared, *extra, *self._custom]

    def usual(self, name: str) -> Device | None:
        """What an ambiguous name mostly means, else the smallest card that it can mean."""
        found = self.find(name)
        for row in load("devices")["ambiguous"]:
            likely = self.devices.get(normal(row.get("likely", "")))
            if normal(row["name"]) == normal(name) and likely in found.values:
                return likely
        return min(found.values, key=memory_gib, default=None)


def _device(row: Record) -> Device:
    facts = {key: row[key] for key in _FIELDS if key in row}
    facts |= {
        "aliases": tuple(row["aliases"]),
        "link_gbps": row.get("link_gbps_per_dir"),
        "peer_report": _peer_reports().get(row["name"]),
    }
    return Device(**facts)


@cache
def _peer_reports() -> Mapping[str, str]:
    return {row["device"]: row["source"] for row in load("peers")["reports"]}


def _node(row: Record) -> Node:
    facts: dict[str, Any] = {item.name: row.get(item.name) for item in fields(Node)}
    return Node(**facts)


def _names(row: Record) -> Iterable[str]:
    return map(normal, (row["name"], *row["aliases"]))
