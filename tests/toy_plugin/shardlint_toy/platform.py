"""The platform that runs .toy files. Before 2.0.0 it gave each server one GPU."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.api import Releases


@dataclass(frozen=True)
class ToyBox:
    name: str = "toybox"
    label: str = "Toy Box"
    aliases: tuple[str, ...] = ("box",)
    releases: Releases | None = Releases("2.0.0", "2.4.0")
