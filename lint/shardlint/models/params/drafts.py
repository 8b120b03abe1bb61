"""Blocks that draft further tokens (MTP): in the checkpoint, loaded only for speculation.

They are numbered on from the layers of the model.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.matrices import Block
from shardlint.models.params.own import (
    blocks_of,
    deepseek_v4_layer,
    joined_streams,
    nemotron_block,
)
from shardlint.models.params.shape import Shape
from shardlint.models.params.text import embedding, head, layer
from shardlint.models.params.weights import Weights, matrix, vector

LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "_num_mtp_layers")


def drafts(s: Shape) -> list[Block]:
    """All blocks that draft tokens."""
    if s.traits.own == "nemotron_h":
        return _drafting(s, 1, _nemotron(s))
    count = s.text.count(*LAYERS, most=64) or int(s.traits.always_drafts)
    if not count:
        return []
    if s.traits.own == "deepseek_v4":
        return _drafting(s, count, _deepseek_v4(s))
    return [] if s.traits.draft is None else _drafting(s, count, _block(s))


def _drafting(s: Shape, count: int, weights: Weights) -> list[Block]:
    layers = tuple(range(s.layers, s.layers + count))
    return [Block("draft", tuple(weights), layers)] if weights else []


def _block(s: Shape) -> Weights:
    """One more layer like the last, with two norms, a matrix that joins two inputs, a last norm.

    Some types ship a copy of the embedding and the head with it, or of the head alone.
    """
    weights = _last_layer(s) + _joined(s, s.traits.cut_draft)
    if s.traits.draft == "copies":
        weights += embedding(s.vocab, s.hidden)
    return weights + (head(s.vocab, s.hidden) if s.traits.draft in ("copies", "heads") else [])


def _joined(s: Shape, cut: bool) -> Weights:
    """vLLM keeps the matrix as a plain layer of the framework, whole, or cuts it by its outputs."""
    h = s.hidden
    norms = vector("layernorm", h, count=3)
    if cut:
        return [*matrix("eh_proj", h, 2 * h, "dense_ffn", "rows"), *norms]
    return [*matrix("eh_proj", h, 2 * h, "norm"), *norms]


def _last_layer(s: Shape) -> Weights:
    heads = s.traits.draft == "heads"
    kinds = (*s.kinds, "window" if heads else "full") if s.kinds else ()
    sparse = (*s.sparse, s.sparse[-1] and not heads)
    return layer(replace(s, kinds=kinds, sparse=sparse), s.layers)


def _deepseek_v4(s: Shape) -> Weights:
    h = s.hidden
    return [
        *deepseek_v4_layer(s, s.layers),
        *matrix("eh_proj", h, h, "dense_ffn", count=2),
        *vector("layernorm", h, count=3),
        *joined_streams(s),
    ]


def _nemotron(s: Shape) -> Weights:
    if not s.text.stated("mtp_layers_block_type", "mtp_hybrid_override_pattern"):
        return []
    weights: Weights = []
    for letter in blocks_of(s.text, "mtp_hybrid_override_pattern", "mtp_layers_block_type"):
        weights += nemotron_block(s, letter)
    return weights + _joined(s, cut=True)
