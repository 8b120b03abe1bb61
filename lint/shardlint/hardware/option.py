"""`--gpu NAME[:PER_NODE][,mem=32GiB][,link=nvlink|pcie]`: what the user says of the cards."""

from __future__ import annotations

import re
from typing import Any

from shardlint.hardware.errors import HardwareError, did_you_mean
from shardlint.record import record

LINKS = ("nvlink", "pcie")

_MEM = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+)?", re.IGNORECASE)
_UNITS = {"gib": ("mem_gib", 1.0), "gb": ("mem_gb", 1.0), "mib": ("mem_gib", 1 / 1024)}


@record
class GpuOption:
    """The value of `--gpu`.

    `mem_gib` is what an engine sees; `mem_gb` is what a vendor's label says, for which engines see
    a little less, as in the config's `[gpus]` tables.
    """

    name: str
    per_node: int | None = None
    mem_gib: float | None = None
    link: str | None = None
    mem_gb: float | None = None

    @property
    def has_memory(self) -> bool:
        return self.mem_gib is not None or self.mem_gb is not None


def parse(text: str) -> GpuOption:
    """The parts of the value; raises HardwareError. Whether the name is known is not asked here."""
    head, *settings = (part.strip() for part in text.split(","))
    name, _, count = head.partition(":")
    if not name.strip():
        raise HardwareError("--gpu needs the name of a card, such as --gpu H100:8")
    facts: dict[str, Any] = {}
    for setting in settings:
        facts |= _setting(setting)
    return GpuOption(name.strip(), _per_node(count.strip()) if count else None, **facts)


def _per_node(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise HardwareError(f"--gpu: {text!r} is not a number of GPUs per node")
    return int(text)


def _setting(text: str) -> dict[str, Any]:
    key, _, value = (part.strip() for part in text.partition("="))
    if key == "mem":
        return _memory(value)
    if key != "link":
        raise HardwareError(f"--gpu: unknown setting {key!r}" + did_you_mean(key, ("mem", "link")))
    if value.lower() not in LINKS:
        raise HardwareError(f"--gpu: link {value!r} is none of {', '.join(LINKS)}")
    return {"link": value.lower()}


def _memory(text: str) -> dict[str, Any]:
    found = _MEM.fullmatch(text)
    unit = (found["unit"] or "").lower() if found else ""
    if not found or unit not in _UNITS or not float(found["number"]):
        raise HardwareError(f"--gpu: mem={text} is not a size such as 32GiB, 32GB or 32768MiB")
    field, factor = _UNITS[unit]
    return {field: float(found["number"]) * factor}
