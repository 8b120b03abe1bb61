"""How tensor parallelism cuts a matrix: alike in engines that took over vLLM's layers."""

from __future__ import annotations

from typing import Final

from shardlint.footprint import Part
from shardlint.matrices import Weight

VOCABULARY_PADDING: Final = 64
"""vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE of vLLM and SGLang:
rows are padded to this, whatever the TP size."""


def rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def cut(weight: Weight, parts: int, vocabulary: int = VOCABULARY_PADDING) -> Part:
    """A weight cut into so many parts; rows of the vocabulary are padded first."""
    outputs, inputs = weight.outputs, weight.inputs
    if weight.split == "rows":
        outputs = -(-outputs // parts)
    elif weight.split == "columns":
        inputs = -(-inputs // parts)
    elif weight.split == "vocabulary":
        outputs = -(-rounded_up(outputs, vocabulary) // parts)
    elif weight.split == "heads":
        heads = weight.heads or 1
        outputs = outputs // heads * max(1, -(-heads // parts))
    return Part(outputs, inputs, weight.count)
