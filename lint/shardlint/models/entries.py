"""`ModelFacts` as records of the catalogue file, in both directions.

A record leaves out what is not known, what is empty, and `DEFAULTS`. Its `weights` are where the
inventory stands in a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from shardlint.matrices import Block, StateGroup
from shardlint.models.ranges import numbers, ranges
from shardlint.plan import KvGroup, ModelFacts

SCHEMA_VERSION: Final = 1
DEFAULTS: Final[dict[str, Any]] = {"vision_tower": False}
"""What a record means that leaves the key out; None is written as "unknown" there."""
LAYERS_OF_GROUP: Final = ("indexers", "at")
UNKNOWN: Final = "unknown"
ASSUMED_QUANTIZATION: Final = "assumed_quantization"


def packed(
    facts: ModelFacts,
    guess: Mapping[str, Any] | None = None,
    weights: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """The record of a model.

    `guess` is a quantization that nobody stated; `weights` the place of the inventory, in bytes.
    """
    record: dict[str, Any] = {}
    for field in fields(ModelFacts):
        value = getattr(facts, field.name)
        if field.name in DEFAULTS:
            value = _against_default(value, DEFAULTS[field.name])
        if field.name == "moe_layers" and value is not None:
            record[field.name] = ranges(value)
        elif field.name not in ("id", "weights") and value is not None and value != ():
            record[field.name] = list(value) if isinstance(value, tuple) else value
    for name in ("kv_groups", "states"):
        if groups := getattr(facts, name):
            record[name] = [_packed_group(group) for group in groups]
    if weights:
        record["weights"] = list(weights)
    if guess:
        record[ASSUMED_QUANTIZATION] = dict(guess)
    return record


def _against_default(value: Any, default: Any) -> Any:
    if value == default:
        return None
    return UNKNOWN if value is None else value


def _packed_group(group: KvGroup | StateGroup) -> dict[str, Any]:
    """Without what has its default; layers as ranges."""
    whole = {field: getattr(group, field.name) for field in fields(group)}
    kept = {field.name: value for field, value in whole.items() if value != field.default}
    return {k: ranges(v) if k in LAYERS_OF_GROUP else v for k, v in kept.items() if v != ()}


def unpacked(id: str, record: Mapping[str, Any], weights: tuple[Block, ...] = ()) -> ModelFacts:
    """The facts of a record, with the inventory that it points to."""
    values = {**DEFAULTS, **record}
    values.pop(ASSUMED_QUANTIZATION, None)
    for key in DEFAULTS:
        if values[key] == UNKNOWN:
            values[key] = None
    if "moe_layers" in record:
        values["moe_layers"] = numbers(record["moe_layers"])
    values["kv_groups"] = [_unpacked_group(group) for group in record.get("kv_groups", ())]
    values["states"] = [StateGroup(**group) for group in record.get("states", ())]
    values["weights"] = weights
    tuples = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return ModelFacts(id=id, **{**values, **tuples})


def _unpacked_group(group: Mapping[str, Any]) -> KvGroup:
    layers = {key: numbers(group[key]) for key in LAYERS_OF_GROUP if key in group}
    return KvGroup(**{**group, **layers})
