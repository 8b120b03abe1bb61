"""The numbers that the formulas share, taken once from a config."""

from __future__ import annotations

from shardlint.models import attention, keys
from shardlint.models.params.traits import Say, Traits
from shardlint.models.params.weights import NotCounted, sure
from shardlint.models.view import View
from shardlint.plan import ModelFacts
from shardlint.record import record


@record(kw_only=True)
class Shape:
    """One stack of layers.

    `kinds` holds "full", "window" or "none" for each layer; `sparse` says which layers are a
    mixture of experts.
    """

    text: View
    facts: ModelFacts
    traits: Traits
    model_type: str
    layers: int
    hidden: int
    vocab: int
    heads: int
    kv: int
    width: int
    v_width: int
    tied: bool
    kinds: tuple[str, ...]
    sparse: tuple[bool, ...]

    def says(self, say: Say) -> bool:
        names, default = say
        stated = self.text.flag(*names) if names else None
        return default if stated is None else stated

    def count(self, *names: str) -> int:
        """A number that the config must state."""
        return sure(self.text.count(*names))

    def norm(self, width: int | None = None) -> int:
        """One norm over this width, else over that of the model."""
        return (width or self.hidden) * (2 if self.traits.norm_bias else 1)


def shape_of(text: View, facts: ModelFacts, model_type: str, traits: Traits) -> Shape:
    """The shape of a text part; raises NotCounted if a number is missing."""
    layers, hidden = sure(facts.num_layers), sure(facts.hidden_size)
    heads = text.count(*keys.HEADS) or 0
    width = attention.head_dim(text, model_type) or _own_head_dim(text, model_type)
    v_width = text.count("v_head_dim") or width
    return Shape(
        text=text, facts=facts, traits=traits, model_type=model_type, layers=layers, hidden=hidden,
        vocab=sure(facts.vocab_size), heads=heads, kv=facts.kv_heads or heads,
        width=width, v_width=v_width, tied=bool(facts.tie_word_embeddings),
        kinds=_kinds(text, model_type, layers), sparse=_sparse(text, facts, layers),
    )  # fmt: skip


OWN_HEAD_DIMS = {"gemma*": 256, "qwen3_next": 256, "qwen3_5*": 256, "qwen3*": 128, "gpt_oss": 64}
"""Defaults of classes."""


def _own_head_dim(text: View, model_type: str) -> int:
    if text.stated(*keys.HEAD_DIM):
        return 0
    return keys.by_type(model_type, OWN_HEAD_DIMS) or 0


def _kinds(text: View, model_type: str, layers: int) -> tuple[str, ...]:
    """Kinds of the layers, without regard to caches that layers share."""
    plain = View({k: v for k, v in text.raw.items() if k != "num_kv_shared_layers"})
    return tuple(attention.layer_kinds(plain, model_type, layers))


# -------------------------------------------------------------------- which layers are mixtures


def _sparse(text: View, facts: ModelFacts, layers: int) -> tuple[bool, ...]:
    if not facts.num_experts:
        return (False,) * layers
    return tuple(_is_sparse(text, layers))


def _is_sparse(text: View, layers: int) -> list[bool]:
    """The first way of saying it that the config uses; every layer if it says nothing."""
    if listed := text.items("moe_layer_freq"):
        return _exactly([item == 1 for item in listed], layers)
    if words := text.items("mlp_layer_types"):
        return _exactly([word != "dense" for word in words], layers)
    named = text.items(*keys.MOE_LAYERS) or _numbers(text.word(*keys.MOE_LAYERS))
    if named:
        return [index in named for index in range(layers)]
    if text.stated("expert_layer_period"):
        period, offset = text.count("expert_layer_period"), text.get("expert_layer_offset")
        if not period or not isinstance(offset, int):
            raise NotCounted
        return [index % period == offset for index in range(layers)]
    first, dense = text.count(*keys.FIRST_DENSE) or 0, text.items("mlp_only_layers")
    return [
        index >= first and index not in dense and _falls_on(text, index) for index in range(layers)
    ]


def _falls_on(text: View, index: int) -> bool:
    """Whether it is the turn of a layer where every n-th is a mixture."""
    if every := text.count("moe_layer_freq"):
        return index % every == 0
    every = text.count("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval")
    return every is None or (index + 1) % every == 0


def _numbers(text: str | None) -> list[int]:
    return [int(part) for part in (text or "").split(",") if part.strip().isdecimal()]


def _exactly(flags: list[bool], layers: int) -> list[bool]:
    """One flag for every layer; layers that draft may follow."""
    if len(flags) < layers:
        raise NotCounted
    return flags[:layers]
