"""Which releases of vLLM use memory how (data/vllm_memory.json), and one profile run in numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from shardlint.engines.cuts import cut
from shardlint.footprint import Part, Settings
from shardlint.matrices import Weight
from shardlint.plan import Layout, ModelFacts, Ranks, Releases
from shardlint.record import record

GIB: Final = 1 << 30
MIB: Final = 1 << 20
ELEMENT: Final = {"float32": 4, "float": 4}
"""Bytes of an activation by type; 2 for all others."""

Runner: TypeAlias = Literal["v0", "v1", "v2"]
Span: TypeAlias = Mapping[str, Any]

MOST_SEEN: Final = 8
"""Ranks up to which logs show what collectives take, and the tokens that experts gather."""

INTERVALS: Final = (
    "share", "generation", "v0", "batch", "capture", "full_graphs", "graphs", "v2_runner",
    "v2_profiles", "persistent_counted", "experts", "latent", "sparse", "lora_experts",
    "scales_twice", "encoder_cache_expanded", "tower", "symmetric", "fused_all_reduce",
    "context_whole", "all2all", "online_whole", "free_checked",
)  # fmt: skip
RUNNERS: Final[tuple[Runner, ...]] = ("v0", "v1", "v2")


@cache
def table() -> Mapping[str, Any]:
    path = Path(__file__).parent / "data" / "vllm_memory.json"
    loaded: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@cache
def constant(name: str, capability: str | None = None) -> float:
    """A constant in the unit of its name; by compute capability where it depends on that."""
    value = table()["constants"][name]["value"]
    if isinstance(value, Mapping):
        value = value.get(capability or "", value[""])
    return float(value)


@lru_cache(maxsize=256)
def rules(release: str) -> Mapping[str, Span]:
    """The row of each interval that holds for one release."""
    at = Releases(release, release)

    def holds(spans: list[Span]) -> Span:
        return next(span for span in spans if at.within(span.get("since"), span.get("until")))

    known = table()
    found = {name: holds(known[name]) for name in INTERVALS}
    return found | {f"sampler {name}": holds(known["sampler"][name]) for name in RUNNERS}


def alike(release: str) -> tuple[int, ...]:
    """Equal for releases that need and fill in the same."""
    return tuple(id(span) for span in rules(release).values())


@record(kw_only=True)
class Run:
    """One profile run: what is asked, in numbers."""

    model: ModelFacts
    ranks: Ranks
    layout: Layout
    settings: Settings
    told: Mapping[str, Span]
    runner: Runner
    capability: str | None
    tokens: int
    seqs: int
    element: int

    @property
    def tp(self) -> int:
        return self.ranks.dense_tp

    @property
    def hidden(self) -> int:
        return self.model.hidden_size or 0

    @property
    def length(self) -> int:
        """Tokens of the longest request."""
        return self.settings.max_model_len or self.model.default_context or 0

    def expert(self, weight: Weight) -> Part:
        """A rank's part of routed experts: whole ones, or a cut of each."""
        if self.ranks.ep > 1:
            return Part(weight.outputs, weight.inputs, -(-weight.count // self.ranks.ep))
        return cut(weight, self.ranks.moe_tp)

    @property
    def eager(self) -> bool:
        """Layers run as they are written; V0 never profiles a compiled model."""
        return bool(self.settings.enforce_eager) or self.runner == "v0"
