"""The weights of a model of which only facts are known, no config."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from shardlint.matrices import Block
from shardlint.models.params.count import of_facts
from shardlint.models.params.traits import PLAIN, Traits, traits_of
from shardlint.models.view import View
from shardlint.plan import ModelFacts

NEED_A_CONFIG: Final = ("own", "state", "beside", "indexer", "block_indexer", "window_heads",
                        "window_sinks")  # fmt: skip
"""Traits of types whose formulas read numbers that no fact holds."""
NOT_PLAIN: Final = ("other_attention_heads", "other_kv_heads", "linear_num_value_heads",
                    "mamba_heads", "mamba_width")  # fmt: skip
"""Facts of models whose layers differ."""
KEYS: Final = {
    "attention_heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "kv_lora_rank": "kv_lora_rank",
    "q_lora_rank": "q_lora_rank",
    "qk_nope_head_dim": "qk_nope_head_dim",
    "qk_rope_head_dim": "qk_rope_head_dim",
    "v_head_dim": "v_head_dim",
    "intermediate_size": "intermediate_size",
}
"""Facts under the keys by which a config states them."""


def inventory(facts: ModelFacts) -> tuple[Block, ...]:
    """The language model, as a plain decoder of its type; empty where a number is missing."""
    traits = traits_of(facts.model_type) or PLAIN
    if any(getattr(traits, name) for name in NEED_A_CONFIG):
        return ()
    if any(getattr(facts, name) for name in NOT_PLAIN):
        return ()
    if facts.moe and facts.moe_layers is None and facts.dense_ffn:
        return ()
    return of_facts(facts, _attending(traits, facts), View(_config(facts)))


def _attending(traits: Traits, facts: ModelFacts) -> Traits:
    return replace(traits, mla=True) if facts.mla else traits


def _config(facts: ModelFacts) -> dict[str, Any]:
    config = {key: getattr(facts, name) for name, key in KEYS.items()}
    if facts.moe and facts.moe_layers is not None:
        layers = range(facts.num_layers or 0)
        config["moe_layer_freq"] = [int(index in facts.moe_layers) for index in layers]
    return config
