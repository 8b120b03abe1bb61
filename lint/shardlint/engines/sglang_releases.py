"""Which release of SGLang does what with memory: data/sglang_memory.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from shardlint.plan import Releases

Span: TypeAlias = Mapping[str, Any]

INTERVALS: Final = (
    "share", "batch", "prefill_graphs", "tower", "tower_kept", "sparse", "states", "windows",
    "vocabulary", "stages",
)  # fmt: skip


@cache
def table() -> Mapping[str, Any]:
    path = Path(__file__).parent / "data" / "sglang_memory.json"
    loaded: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@cache
def constant(name: str) -> float:
    """A constant in the unit of its name."""
    return float(table()["constants"][name]["value"])


@lru_cache(maxsize=256)
def rules(release: str) -> Mapping[str, Span]:
    """The row of each interval that holds for one release."""
    at = Releases(release, release)

    def holds(spans: list[Span]) -> Span:
        return next(span for span in spans if at.within(span.get("since"), span.get("until")))

    return {name: holds(table()[name]) for name in INTERVALS}


def alike(release: str) -> tuple[int, ...]:
    """Equal for releases that use memory in the same way."""
    return tuple(id(span) for span in rules(release).values())


def is_blackwell(capability: str | None) -> bool:
    """By NVIDIA's compute capability; what is no number is another maker's."""
    try:
        return float(capability or 0) >= 10
    except ValueError:
        return False
