"""The weights of a model, matrix by matrix, and what its layers keep: whole, before any layout.

How a rank's part of them comes about is the engine's affair; what a part costs, that of `sizing`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from shardlint.record import record

Split: TypeAlias = Literal["rows", "columns", "heads", "vocabulary", "whole"]
"""How tensor parallelism cuts a matrix: by its outputs ("rows"), by its inputs ("columns"), by
heads of which each rank has at least one ("heads"), by padded rows of the vocabulary, or not."""

Where: TypeAlias = Literal["both", "checkpoint", "engine"]

Place: TypeAlias = Literal["first", "layers", "last", "tower", "draft"]
"""Where a block stands: before the layers, in some of them, behind them, beside the text, or in
front of the output for drafting tokens (loaded only when the engine is asked to speculate)."""


@record
class Weight:
    """Alike matrices of one block; `outputs` × `inputs` elements each, `count` of them.

    A vector (a bias, a norm) has one input. `part` is the class that quantization records name:
    "attention", "linear_attention", "dense_ffn", "expert", "shared_expert", "router", "indexer",
    "embedding", "lm_head", "vision", or "norm" for what is never quantized (vectors, norms,
    biases, convolutions, matrices that the class keeps in the type of the model). `heads` are the
    equal groups of outputs that a "heads" split counts (KV heads, groups of Mamba). `element` is
    the number of bytes of one element where the class keeps a type of its own; 0: the type of the
    model. Routed experts and their biases have part "expert" and are counted by `count`.
    `where` is "checkpoint" for what is not loaded, "engine" for a second copy that the class holds.
    """

    name: str
    part: str
    outputs: int
    inputs: int
    split: Split = "whole"
    count: int = 1
    heads: int = 0
    element: int = 0
    where: Where = "both"

    @property
    def elements(self) -> int:
        """In the checkpoint."""
        return 0 if self.where == "engine" else self.outputs * self.inputs * self.count


@record
class Block:
    """Weights that stand together, once in each of `layers`, counted from 0.

    Blocks that draft are numbered on from the layers; elsewhere there are none.
    """

    place: Place
    weights: tuple[Weight, ...]
    layers: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Of all layers of the block, in the checkpoint."""
        each = sum([weight.elements for weight in self.weights])
        return each * max(1, len(self.layers))


@record(kw_only=True)
class StateGroup:
    """Layers that keep a state of fixed size for each request instead of a cache that grows.

    Of one layer and request: a convolution keeps `conv` columns (kernel − 1) of `channels` and, for
    each of `groups`, of `group_channels`; the recurrence keeps `state` elements for each of
    `heads`. Channels, groups and heads are cut by tensor parallelism; groups are copied where there
    are fewer than ranks. `state_element` is the number of bytes of one element of the recurrence
    where the class keeps a type of its own (4: float32); 0: the type of the model.
    """

    layers: int
    kind: str
    channels: int = 0
    groups: int = 0
    group_channels: int = 0
    conv: int = 0
    heads: int = 0
    state: int = 0
    state_element: int = 0
