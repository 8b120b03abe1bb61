"""The weights of a block as a list, and what is raised when a number that they rest on is missing.

Names are those of the published checkpoints, as far as classes agree on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from shardlint.matrices import Block, Split, Weight, Where

Weights: TypeAlias = list[Weight]

FLOAT32: Final = 4
"""Bytes of one element."""


class NotCounted(Exception):
    """The config does not state everything that the count needs."""


def sure(number: int | None) -> int:
    """The number, which must be known."""
    if number is None:
        raise NotCounted
    return number


def matrix(
    name: str,
    outputs: int,
    inputs: int,
    part: str,
    split: Split = "whole",
    *,
    bias: bool = False,
    heads: int = 0,
    count: int = 1,
    element: int = 0,
) -> Weights:
    """A matrix and its bias, which is cut as the outputs are.

    A bias is never quantized; that of an expert goes where its expert goes.
    """
    one = Weight(name, part, outputs, inputs, split, count, heads, element)
    if not bias:
        return [one]
    cut: Split = "whole" if split == "columns" else split
    kind = part if part == "expert" else "norm"
    return [one, Weight(f"{name}.bias", kind, outputs, 1, cut, count, heads, element)]


def only(where: Where, weights: Weights) -> Weights:
    """The same weights, which the checkpoint or the engine alone has."""
    return [replace(weight, where=where) for weight in weights]


def vector(
    name: str,
    width: int,
    split: Split = "whole",
    *,
    bias: bool = False,
    heads: int = 0,
    count: int = 1,
    element: int = 0,
) -> Weights:
    """A norm, or another vector, and its bias."""
    return matrix(name, width, 1, "norm", split, bias=bias, heads=heads, count=count,
                  element=element)  # fmt: skip


def layers_of(
    count: int, lists: Iterable[Sequence[object]], weights: Callable[[int], Weights]
) -> list[Block]:
    """The layers of a stack, those that are alike as one block.

    `lists` are all that `weights` reads of the config layer by layer: layers with the same entries
    are alike.
    """
    listed = [items for items in lists if items]
    alike: dict[tuple[object, ...], list[int]] = {}
    for index in range(count):
        alike.setdefault(_entries(listed, index), []).append(index)
    return [
        Block("layers", tuple(weights(indexes[0])), tuple(indexes)) for indexes in alike.values()
    ]


def _entries(lists: list[Sequence[object]], index: int) -> tuple[object, ...]:
    found = [items[index] if index < len(items) else None for items in lists]
    return tuple([repr(item) if isinstance(item, list | dict) else item for item in found])


def elements(blocks: Iterable[Block]) -> int:
    """Weights of a checkpoint in all of these blocks."""
    return sum(block.elements for block in blocks)


def idle(blocks: Iterable[Block], chosen: int) -> int:
    """Weights of the experts that one token does not pass through."""
    total = 0
    for block in blocks:
        for weight in block.weights:
            if weight.part == "expert":
                left_out = max(0, weight.count - chosen)
                total += weight.outputs * weight.inputs * left_out * max(1, len(block.layers))
    return total
