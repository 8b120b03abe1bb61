"""Names of cards as they are compared, and the part of a card that a name can mean.

GPU feature discovery writes a product with a suffix: `-MIG-<profile>` for a slice of the card,
`-SHARED` for one that several pods are given at the same time.
"""

from __future__ import annotations

import re
from dataclasses import replace

from shardlint.plan import Device
from shardlint.record import record

UNKNOWN_VENDOR = "unknown"

_SEPARATORS = re.compile(r"[\s_-]+")
_SHARED = "-shared"
_MIG = re.compile(
    r"(?:(?P<card>.+)-|nvidia\.com/)?mig-"
    r"(?P<profile>(?:\d+c\.)?\d+g\.(?P<gb>\d+)gb(?:[.+-][a-z.]+)?)"
)


def normal(name: str) -> str:
    """A name as it is compared: lower case; space, underscore and dash are one."""
    return _SEPARATORS.sub("-", name.strip().lower())


@record
class Part:
    """What a name means of a card: a MIG slice, a turn on it, or all of it."""

    profile: str | None = None
    mem_gb: float | None = None
    shared: bool = False

    def of(self, card: Device | None) -> Device | None:
        """The device that is handed out; a slice exists even where nobody says of which card."""
        if self.profile:
            return self._slice(card)
        return replace(card, kind="shared") if card and self.shared else card

    def _slice(self, card: Device | None) -> Device:
        name = f"mig-{self.profile}"
        return Device(
            name=f"{card.name} {name}" if card else name,
            vendor=card.vendor if card else "nvidia",
            kind="mig",
            mem_gb=self.mem_gb,
            compute_capability=card.compute_capability if card else None,
        )


def split(key: str) -> tuple[str | None, Part]:
    """A normalised name as the name of its card, if it has one, and the part that is meant."""
    bare = key.removesuffix(_SHARED)
    shared = bare != key
    if found := _MIG.fullmatch(bare):
        return found["card"], Part(found["profile"], float(found["gb"]), shared)
    return bare, Part(shared=shared)
