"""Inventories of weights as lines of a data file, in both directions.

A line is a list of blocks, each with its place, its layers as ranges, and its weights. A weight is
a list of its fields in order, without those at the end that have their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from shardlint.matrices import Block, Weight
from shardlint.models.ranges import numbers, ranges

DATA: Final = Path(__file__).parent / "data" / "weights.jsonl"


def packed(blocks: Iterable[Block]) -> str:
    """One line, without its end."""
    whole = [
        [block.place, ranges(block.layers), [_packed(weight) for weight in block.weights]]
        for block in blocks
    ]
    return json.dumps(whole, separators=(",", ":"))


def _packed(weight: Weight) -> list[Any]:
    known = fields(Weight)
    values = [getattr(weight, field.name) for field in known]
    while values[-1] == known[len(values) - 1].default:
        values.pop()
    return values


def unpacked(line: bytes | str) -> tuple[Block, ...]:
    return tuple(
        Block(place, tuple([Weight(*values) for values in weights]), numbers(layers))
        for place, layers, weights in json.loads(line)
    )


def read(offset: int, length: int) -> tuple[Block, ...]:
    """The inventory at a place of the data file, of which nothing else is read."""
    with DATA.open("rb") as file:
        file.seek(offset)
        return unpacked(file.read(length))


def written(lines: Iterable[str]) -> tuple[str, dict[str, tuple[int, int]]]:
    """The text of the data file with each line once, and where each one stands, in bytes."""
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    for line in lines:
        if line not in places:
            places[line] = (offset, len(line.encode()))
            offset += places[line][1] + 1
    return "".join(f"{line}\n" for line in places), places
