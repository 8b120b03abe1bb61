"""`ModelFacts` as records of the catalogue file, in both directions.

A record leaves out what is not known, what is empty, and `DEFAULTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from shardlint.plan import KvGroup, ModelFacts

SCHEMA_VERSION: Final = 1
DEFAULTS: Final[dict[str, Any]] = {"vision_tower": False}
"""What a record means that leaves the key out; None is written as "unknown" there."""
LAYERS_OF_GROUP: Final = ("indexers", "at")
UNKNOWN: Final = "unknown"
ASSUMED_QUANTIZATION: Final = "assumed_quantization"


def packed(facts: ModelFacts, guess: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The record of a model; `guess` is a quantization that nobody stated."""
    record: dict[str, Any] = {}
    for field in fields(ModelFacts):
        value = getattr(facts, field.name)
        if field.name in DEFAULTS:
            value = _against_default(value, DEFAULTS[field.name])
        if field.name == "moe_layers" and value is not None:
            record[field.name] = _ranges(value)
        elif field.name != "id" and value is not None and value != ():
            record[field.name] = list(value) if isinstance(value, tuple) else value
    if facts.kv_groups:
        record["kv_groups"] = [_packed_group(group) for group in facts.kv_groups]
    if guess:
        record[ASSUMED_QUANTIZATION] = dict(guess)
    return record


def _against_default(value: Any, default: Any) -> Any:
    if value == default:
        return None
    return UNKNOWN if value is None else value


def _packed_group(group: KvGroup) -> dict[str, Any]:
    whole = {field.name: getattr(group, field.name) for field in fields(KvGroup)}
    for key in LAYERS_OF_GROUP:
        whole[key] = _ranges(whole[key])
    return {
        field.name: whole[field.name]
        for field in fields(KvGroup)
        if whole[field.name] not in (field.default, "")
    }


def _ranges(numbers: Iterable[int]) -> str:
    """0, 1, 2, 5 as "0-2,5"; every second one up to 9 as "1-9:2"."""
    parts: list[str] = []
    rest = list(numbers)
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 1
        end = 1
        while end < len(rest) and rest[end] - rest[end - 1] == step:
            end += 1
        if end < 3:
            step, end = 1, 1
        tail = f"-{rest[end - 1]}" + (f":{step}" if step > 1 else "")
        parts.append(f"{rest[0]}" + (tail if end > 1 else ""))
        rest = rest[end:]
    return ",".join(parts)


def _numbers(ranges: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in filter(None, ranges.split(",")):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return tuple(found)


def unpacked(id: str, record: Mapping[str, Any]) -> ModelFacts:
    """The facts of a record."""
    values = {**DEFAULTS, **record}
    values.pop(ASSUMED_QUANTIZATION, None)
    for key in DEFAULTS:
        if values[key] == UNKNOWN:
            values[key] = None
    if "moe_layers" in record:
        values["moe_layers"] = _numbers(record["moe_layers"])
    values["kv_groups"] = [_unpacked_group(group) for group in record.get("kv_groups", ())]
    tuples = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return ModelFacts(id=id, **{**values, **tuples})


def _unpacked_group(group: Mapping[str, Any]) -> KvGroup:
    layers = {key: _numbers(group[key]) for key in LAYERS_OF_GROUP if key in group}
    return KvGroup(**{**group, **layers})
