"""The flat record of one model that `models show` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shardlint.models.keys import WITHOUT_CACHE, is_one_of
from shardlint.plan import ModelFacts

SHOWN: Final = (
    "id",
    "model_type",
    "architecture",
    "num_layers",
    "hidden_size",
    "attention_heads",
    "other_attention_heads",
    "kv_heads",
    "other_kv_heads",
    "head_dim",
    "intermediate_size",
    "dense_ffn",
    "num_experts",
    "experts_per_token",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "vocab_size",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "linear_num_value_heads",
    "vision_heads",
    "vision_tower",
    "tie_word_embeddings",
    "max_position_embeddings",
    "torch_dtype",
    "quantization",
)


def show(facts: ModelFacts) -> dict[str, Any]:
    """Every fact by its name, null where it is not known; the KV cache in 16 bits at TP 1."""
    return {
        **{name: _plain(getattr(facts, name)) for name in SHOWN},
        "params": {
            "total": facts.params_total,
            "text": facts.params_text,
            "active": facts.params_active,
        },
        "kv_cache_bf16": _kv_cache(facts),
        "provenance": facts.provenance,
        "confidence": "assumed" if facts.assumed else "certain",
        "assumes": list(facts.assumed),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _kv_cache(facts: ModelFacts) -> dict[str, int | None]:
    """Layers that keep every token; null where the layers are not known."""
    if is_one_of(facts.model_type, WITHOUT_CACHE):
        return {"full_bytes_per_token": 0, "full_layers": 0}
    if not facts.kv_groups:
        return {"full_bytes_per_token": None, "full_layers": None}
    full = [group for group in facts.kv_groups if group.window is None]
    return {
        "full_bytes_per_token": sum(group.bytes_per_token(1) for group in full),
        "full_layers": sum(group.layers for group in full),
    }
