"""The weights and the counts of one model, or None where a formula or a number is missing."""

from __future__ import annotations

from typing import Final

from shardlint.matrices import Block, StateGroup
from shardlint.models.params.drafts import drafts
from shardlint.models.params.own import STACKS, nemotron_letters
from shardlint.models.params.shape import Shape, shape_of
from shardlint.models.params.state import STATES
from shardlint.models.params.text import decoder
from shardlint.models.params.towers import towers
from shardlint.models.params.traits import Traits, traits_of
from shardlint.models.params.weights import NotCounted, elements, idle, sure
from shardlint.models.view import View
from shardlint.plan import ModelFacts
from shardlint.record import record


@record(kw_only=True)
class Parameters:
    """Weights and numbers of weights; None where a number is not known.

    `text` is the language model with its embedding and head, `active` what one token of it passes
    through. `total` adds the towers beside it and the blocks that draft tokens. A head that is tied
    to the embedding counts once. `weights` leaves out towers and drafts that are not known; without
    the text it is empty.
    """

    text: int | None = None
    active: int | None = None
    towers: int | None = None
    drafts: int | None = None
    weights: tuple[Block, ...] = ()
    states: tuple[StateGroup, ...] = ()

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
        blocks = _stack(shape)
        states = _states(shape)
        total = elements(blocks)
        active = total - idle(blocks, sure(facts.experts_per_token)) if facts.moe else total
    except (NotCounted, ZeroDivisionError):
        return UNKNOWN
    if not 0 < active <= total <= MOST:
        return UNKNOWN
    beside, drafting = towers(config, outer, facts), _drafts(shape)
    return Parameters(
        text=total,
        active=active,
        towers=None if beside is None else elements(beside),
        drafts=None if drafting is None else elements(drafting),
        weights=(*blocks, *(beside or ()), *(drafting or ())),
        states=states,
    )


def of_facts(facts: ModelFacts, traits: Traits, text: View) -> tuple[Block, ...]:
    """The blocks of a plain decoder; empty where a number is missing."""
    try:
        shape = shape_of(text, facts, facts.model_type or "", traits)
        blocks = decoder(shape)
    except (NotCounted, ZeroDivisionError):
        return ()
    return tuple(blocks) if 0 < elements(blocks) <= MOST else ()


def _stack(shape: Shape) -> list[Block]:
    own = shape.traits.own
    return STACKS[own](shape) if own else decoder(shape)


def _drafts(shape: Shape) -> list[Block] | None:
    try:
        return drafts(shape)
    except NotCounted:
        return None


STATE_OF_STACK: Final = {"mamba": "mamba", "mamba2": "mamba2", "nemotron_h": "mamba2"}


def _states(shape: Shape) -> tuple[StateGroup, ...]:
    """What the layers without attention keep, and the blocks beside attention."""
    traits, layers = shape.traits, shape.layers
    kind = traits.beside or traits.state or STATE_OF_STACK.get(traits.own or "")
    if kind is None:
        return ()
    if traits.state:
        layers = shape.kinds.count("none")
    elif traits.own == "nemotron_h":
        layers = nemotron_letters(shape.text).count("M")
    return (STATES[kind](shape, layers),) if layers else ()
