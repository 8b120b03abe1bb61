"""How far an estimate of memory may be off, from what real logs printed.

A class of models pools all logs of its kind. A class with few logs takes the widest band and says
so. `below` and `above` bound what engines had left for the KV cache against the estimate, as a
share of the card's memory.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from shardlint.footprint import Band, Footprint
from shardlint.plan import ModelFacts

DATA: Final = Path(__file__).parent / "data" / "bands.json"
WORDS: Final = {
    "plain": "models whose layers all keep every token",
    "latent": "models with a latent KV cache",
    "mixed": "models with sliding or recurrent layers",
    "other": "models whose storage or layers are not fully known",
}


@cache
def _table() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


def kind_of(model: ModelFacts, made: Footprint) -> str:
    """The class of models that an estimate belongs to."""
    if made.weights.unknown or made.cache is None:
        return "other"
    if model.states or any(group.window for group in model.kv_groups):
        return "mixed"
    return "latent" if model.mla else "plain"


def band(model: ModelFacts, made: Footprint) -> Band:
    """The band of an estimate."""
    table, kind = _table(), kind_of(model, made)
    rows = table["classes"][kind]["rows"]
    own = table["classes"][kind] if rows >= Band.FEW else table["few"]
    return Band(
        kind=kind,
        rows=rows,
        weights=own["weights"],
        below=int(own["below"] * made.total),
        above=int(own["above"] * made.total),
    )
