"""Blocks that draft further tokens (MTP): in the checkpoint, loaded only for speculation."""

from __future__ import annotations

from dataclasses import replace

from shardlint.models.params.own import blocks_of, deepseek_v4_layer, nemotron_block
from shardlint.models.params.shape import Shape
from shardlint.models.params.text import layer

LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "_num_mtp_layers")


def drafts(s: Shape) -> int:
    """Weights of all blocks that draft tokens."""
    if s.traits.own == "nemotron_h":
        return _nemotron(s)
    count = s.text.count(*LAYERS, most=64) or int(s.traits.always_drafts)
    if s.traits.own == "deepseek_v4":
        return count * _deepseek_v4(s)
    if s.traits.draft is None or not count:
        return 0
    return count * _block(s)


def _block(s: Shape) -> int:
    """One more layer like the last, with two norms, a matrix that joins two inputs, a last norm.

    Some types ship a copy of the embedding and the head with it, or of the head alone.
    """
    h = s.hidden
    copies = {"copies": 2, "heads": 1}.get(s.traits.draft or "", 0) * s.vocab * h
    return _last_layer(s) + 2 * h * h + 3 * h + copies


def _last_layer(s: Shape) -> int:
    heads = s.traits.draft == "heads"
    kinds = (*s.kinds, "window" if heads else "full") if s.kinds else ()
    sparse = (*s.sparse, s.sparse[-1] and not heads)
    return layer(replace(s, kinds=kinds, sparse=sparse), s.layers).total


def _deepseek_v4(s: Shape) -> int:
    h, streams = s.hidden, s.count("hc_mult")
    block = deepseek_v4_layer(s, s.layers).total
    return block + 2 * h * h + 3 * h + streams * streams * h + streams + 1


def _nemotron(s: Shape) -> int:
    if not s.text.stated("mtp_layers_block_type", "mtp_hybrid_override_pattern"):
        return 0
    letters = blocks_of(s.text, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    h, total = s.hidden, 0
    for letter in letters:
        total += nemotron_block(s, letter).total
    return total + 2 * h * h + 3 * h
