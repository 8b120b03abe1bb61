"""The counts of one model, or None where a formula or a number is missing."""

from __future__ import annotations

from typing import Final

from shardlint.models.params.drafts import drafts
from shardlint.models.params.own import STACKS
from shardlint.models.params.shape import Shape, shape_of
from shardlint.models.params.size import NotCounted, Size
from shardlint.models.params.text import decoder
from shardlint.models.params.towers import towers
from shardlint.models.params.traits import traits_of
from shardlint.models.view import View
from shardlint.plan import ModelFacts
from shardlint.record import record


@record(kw_only=True)
class Parameters:
    """Numbers of weights; None where one is not known.

    `text` is the language model with its embedding and head, `active` what one token of it passes
    through. `total` adds the towers beside it and the blocks that draft tokens. A head that is tied
    to the embedding counts once.
    """

    text: int | None = None
    active: int | None = None
    towers: int | None = None
    drafts: int | None = None

    @property
    def total(self) -> int | None:
        if self.text is None or self.towers is None or self.drafts is None:
            return None
        total = self.text + self.towers + self.drafts
        return total if total <= MOST else None


UNKNOWN: Final = Parameters()
MOST: Final = 10**14
"""No model has more parameters; a larger count comes of a config that is no config."""


def parameters(
    config: View, outer: View, text: View, model_type: str | None, facts: ModelFacts
) -> Parameters:
    """Count the weights of the model that a config describes."""
    traits = traits_of(model_type)
    if traits is None or model_type is None:
        return UNKNOWN
    try:
        shape = shape_of(text, facts, model_type, traits)
        size = _stack(shape)
    except (NotCounted, ZeroDivisionError):
        return UNKNOWN
    if not 0 < size.active <= size.total <= MOST:
        return UNKNOWN
    return Parameters(
        text=size.total,
        active=size.active,
        towers=towers(config, outer, facts),
        drafts=_drafts(shape),
    )


def _stack(shape: Shape) -> Size:
    own = shape.traits.own
    return STACKS[own](shape) if own else decoder(shape)


def _drafts(shape: Shape) -> int | None:
    try:
        return drafts(shape)
    except NotCounted:
        return None
