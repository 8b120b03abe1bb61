"""The one face of the hardware tables: names, labels, instance types, the `--gpu` option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from shardlint.hardware import labels as node_labels
from shardlint.hardware import option as gpu_option
from shardlint.hardware.cards import Cards, load
from shardlint.hardware.choices import choice, memory_gib, with_memory
from shardlint.hardware.errors import HardwareError, did_you_mean
from shardlint.hardware.labels import Labels
from shardlint.hardware.names import UNKNOWN_VENDOR, normal
from shardlint.hardware.option import GpuOption
from shardlint.known import Known
from shardlint.plan import Device
from shardlint.record import record

VENDORS: Final = frozenset({"nvidia", "amd", "geforce", "tesla", "instinct", "quadro", "gpu"})
"""Words that stand before a card's name or not."""


def _words_of(name: str) -> frozenset[str]:
    plain = re.sub(r"\(.*?\)", " ", normal(name))
    return frozenset(re.split(r"[^a-z0-9]+", plain)) - VENDORS - {""}


SIZE: Final = re.compile(r"-\d+GB$", re.IGNORECASE)
"""The memory at the end of a card's name."""


@record
class Row:
    """One line of `shardlint gpus`, ready to print; `domain` counts GPUs at the link's speed."""

    name: str
    vendor: str
    memory: str
    link: str
    domain: str
    aliases: tuple[str, ...]


class Devices:
    """What is known of accelerators. Nothing is read before the first question.

    `extra` are devices of plugins; `custom` are the config's `[gpus."NAME"]` tables, with `mem_gb`
    or `mem_gib`, and `base`: a known card whose other facts are copied. A wrong table there raises
    HardwareError.
    """

    def __init__(
        self,
        extra: Iterable[Device] = (),
        custom: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._cards = Cards(extra, custom)

    # ---------------------------------------------------------------------------------- names

    def find(self, name: str) -> Known[Device]:
        """The device that a name, label value, resource or instance type means.

        An ambiguous name gives one case per card, each given by ("gpu", name of the card).
        """
        return self._cards.find(name)

    def alike(self, text: str) -> str | None:
        """The name with the same words in another order, vendors and brackets left out."""
        wanted = _words_of(text)
        names = [name for name in self._cards.names() if wanted and _words_of(name) == wanted]
        return min(names, default=None)

    def usual(self, name: str) -> Device | None:
        """One device for a question that needs one: the likely meaning, else the smallest."""
        return self._cards.usual(name)

    def facts(self, name: str) -> Mapping[str, Any] | None:
        """The table's whole record of a card: more than `Device` has fields for, and sources."""
        for row in load("devices")["devices"]:
            if normal(row["name"]) == normal(name):
                found: Mapping[str, Any] = row
                return found
        return None

    # --------------------------------------------------------------------------------- labels

    def from_labels(self, labels: Labels) -> Known[Device]:
        """The device that node labels name; unset when none does, unknown when it is unclear."""
        return node_labels.device(labels, self._cards)

    def count_from_labels(self, labels: Labels) -> Known[int]:
        """Devices of one node, as labels or its instance type state it."""
        return node_labels.count(labels, self._cards)

    def naming_label(self, labels: Labels) -> str | None:
        """The key of the label that names the card, or tries to."""
        return node_labels.naming(labels, self._cards)

    def label_keys(self) -> tuple[str, ...]:
        """Keys of node labels that name a card, the ones that speak most plainly first."""
        naming = node_labels.NAMING
        return tuple(label.key for label in node_labels.table() if label.value in naming)

    # -------------------------------------------------------------------------- instance types

    def instance(self, name: str) -> tuple[Known[Device], int | None] | None:
        """The cards of an instance type and their number; None: not in the table."""
        node = self._cards.node(name)
        return (self._cards.on(node), node.count) if node else None

    def fabric(self, name: str) -> Known[str]:
        """The network that an instance type offers between nodes; a pod must still ask for it."""
        node = self._cards.node(name)
        if node is None:
            return Known.unknown(f"instance type {name} is not in the hardware table")
        fabric = Known.of(node.fabric)
        return fabric if node.fabric_seen else fabric.assuming(f"{name} offers {node.fabric}")

    # ----------------------------------------------------------------------------- the option

    def parse_gpu_option(self, text: str) -> GpuOption:
        """The value of `--gpu`; raises HardwareError, also for an unknown card without memory."""
        option = gpu_option.parse(text)
        if not option.has_memory and not self.find(option.name).is_known:
            guess = did_you_mean(option.name, self._cards.names())
            raise HardwareError(
                f"--gpu: unknown card {option.name!r}{guess or '.'} "
                f"A card that is not in the table needs its memory: {option.name},mem=32GiB"
            )
        return option

    def device(self, option: GpuOption) -> Known[Device]:
        """The device that the user describes, with the memory that the user states."""
        found = self.find(option.name)
        if not found.is_known and option.has_memory:
            found = self._of_another_size(option.name)
        if not option.has_memory:
            return found
        memory = {"mem_gb": option.mem_gb, "mem_gib": option.mem_gib}
        return choice((with_memory(card, **memory) for card in found.values), found.assumes)

    def _of_another_size(self, name: str) -> Known[Device]:
        """A card that the table has with another memory, under its own name; else a bare one."""
        bare = Device(name=name, vendor=UNKNOWN_VENDOR)
        sized = SIZE.search(name)
        if sized is None:
            return Known.of(bare)
        like = SIZE.sub("", name)
        same = [card for card in self._cards.devices.values() if SIZE.sub("", card.name) == like]
        return Known.of(replace(same[0], name=name, aliases=()) if same else bare)

    # ---------------------------------------------------------------------------------- output

    def show(self) -> list[Row]:
        """All cards for people, in the order of the table."""
        return [_row(device) for device in self._cards.devices.values()]


def _row(device: Device) -> Row:
    domain = "unknown" if device.link_domain is None else str(device.link_domain)
    return Row(
        device.name,
        device.vendor,
        _memory(device),
        device.link or "unknown",
        domain,
        device.aliases,
    )


def _memory(device: Device) -> str:
    """GiB as engines see them, else the GB of the vendor's label."""
    if device.memory_mib is not None:
        return f"{memory_gib(device):.1f} GiB"
    return "unknown" if device.mem_gb is None else f"{device.mem_gb:g} GB"
