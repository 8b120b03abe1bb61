"""Which layers there are, and the widths in them beside heads and FFN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shardlint.models import attention, keys
from shardlint.models.view import View, is_count

STATE_HEADS: Final = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
STATE_GROUPS: Final = ("n_groups", "mamba_n_groups", "mamba_ngroups")

NOT_MULTIPLIED: Final = ("su", "longrope", "llama3", "yarn", "deepseek_yarn",
                         "deepseek_llama_scaling", "default", "mrope", "proportional")  # fmt: skip
"""RoPE types whose factor the length in the config already holds."""
LENGTHS: Final = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
"""vllm 0.33.0, config/model.py: the smallest of these is the longest context."""

MoeLayers = tuple[int, ...] | None


def widths(text: View, model_type: str | None) -> dict[str, Any]:
    """State space, linear attention and latent attention: what is stated of each."""
    mamba1 = keys.is_one_of(model_type, ("jamba",))
    hidden, expand = text.count(*keys.HIDDEN), text.count("mamba_expand")
    inner = hidden * expand if mamba1 and hidden and expand else None
    if keys.is_one_of(model_type, ("mamba", "falcon_mamba")):
        inner = text.count("intermediate_size", "d_inner")
    return {
        "mamba_heads": text.count(*STATE_HEADS),
        "mamba_groups": text.count(*STATE_GROUPS) if text.count(*STATE_HEADS) else None,
        "mamba_width": inner,
        "linear_num_key_heads": text.count("linear_num_key_heads"),
        "linear_key_head_dim": text.count("linear_key_head_dim"),
        "linear_value_head_dim": text.count("linear_value_head_dim"),
        "q_lora_rank": text.count("q_lora_rank"),
        "qk_nope_head_dim": text.count("qk_nope_head_dim"),
        "v_head_dim": text.count("v_head_dim"),
    }


# -------------------------------------------------------------------------- mixtures of experts


def moe_layers(text: View, model_type: str | None) -> MoeLayers:
    """The layers that are mixtures of experts, counted from 0; None where that is not clear."""
    layers = attention.layer_count(text)
    if not layers:
        return None
    if text.width(*keys.EXPERTS) is None:
        return None if tells_of_experts(text) else ()
    for reader in READERS:
        found = reader(text, layers)
        if found is not None:
            return tuple(index for index in found if index < layers)
    return tuple(range(layers)) if keys.is_one_of(model_type, keys.ALL_MOE) else None


def tells_of_experts(text: View) -> bool:
    """A key that seems to count experts and is not understood."""
    if text.flag("enable_moe_block") is False:
        return False
    return any(
        "expert" in str(key) and (isinstance(value, list) or (is_count(value) and value > 1))
        for key, value in text.raw.items()
    )


def _letters(text: View, _layers: int) -> list[int] | None:
    letters = text.word("hybrid_override_pattern")
    return None if letters is None else [i for i, letter in enumerate(letters) if letter == "E"]


def _words(text: View, _layers: int) -> list[int] | None:
    words = text.items("mlp_layer_types", "layers_block_type")
    return [i for i, word in enumerate(words) if word in ("sparse", "moe")] if words else None


def _listed(text: View, _layers: int) -> list[int] | None:
    listed = text.items(*keys.MOE_LAYERS) or (text.word(*keys.MOE_LAYERS) or "").split(",")
    numbers = [str(item).strip() for item in listed if item != ""]
    return [int(n) for n in numbers if n.isdecimal()] or None


def _flags(text: View, _layers: int) -> list[int] | None:
    """One 0 or 1 for every layer."""
    numbers = text.items("moe_layer_freq")
    return [i for i, number in enumerate(numbers) if number == 1] if numbers else None


def _after_dense(text: View, layers: int) -> list[int] | None:
    """Dense layers first, then mixtures, all or every n-th."""
    named = [text.get(key) for key in (*keys.FIRST_DENSE, "num_dense_layers")]
    first = next((n for n in named if isinstance(n, int) and not isinstance(n, bool)), None)
    if first is None or first < 0:
        return None
    every = text.count("moe_layer_freq") or 1
    return [i for i in range(first, layers) if i % every == 0]


def _steps(text: View, layers: int) -> list[int] | None:
    """Qwen: every n-th layer but those that are named as dense. Llama 4: every n-th."""
    step = text.count("decoder_sparse_step", "interleave_moe_layer_step")
    dense = text.items("mlp_only_layers")
    if step is None and not dense:
        return None
    return [i for i in range(layers) if (i + 1) % (step or 1) == 0 and i not in dense]


def _period(text: View, layers: int) -> list[int] | None:
    period, offset = text.count("expert_layer_period"), text.get("expert_layer_offset")
    if not period or not isinstance(offset, int):
        return None
    return [i for i in range(layers) if i % period == offset]


READERS: Final[tuple[Callable[[View, int], list[int] | None], ...]] = (
    _letters, _words, _listed, _flags, _after_dense, _steps, _period,
)  # fmt: skip


# -------------------------------------------------------------------------------- vision, length


def vision_width(tower: View) -> int | None:
    """The width of the FFN in the vision tower."""
    stated = tower.count("intermediate_size")
    ratio, hidden = tower.get("mlp_ratio"), tower.count("hidden_size", "embed_dim")
    if stated or not hidden or not isinstance(ratio, int | float) or isinstance(ratio, bool):
        return stated
    width = hidden * ratio
    return int(width) if width == int(width) and width > 0 else None


def contexts(text: View, model_type: str | None) -> dict[str, Any]:
    """The context that an engine derives from the config, and the longest that it may be asked for.

    vllm 0.33.0, config/model.py: the smallest length that is stated, times the factor of its RoPE
    scaling unless the length holds it already; a longer `model_max_length` may be asked for.
    Releases differ over YaRN, so that the longer reading counts. None: not understood.
    """
    lengths = [n for n in (text.count(key) for key in LENGTHS) if n]
    if not lengths:
        return {}
    rope = text.part("rope_scaling", "rope_parameters") or View({})
    kind, factor = rope.word("rope_type", "type"), _factor(rope)
    scaled = min(lengths) if factor is None else int(min(lengths) * factor)
    default: int | None = min(lengths)
    if factor is not None and not (kind in NOT_MULTIPLIED or "gemma3" in (model_type or "")):
        default = scaled
    if any(isinstance(value, dict) for value in rope.raw.values()) and rope.stated("factor"):
        default = None
    before = rope.count("original_max_position_embeddings")
    longer = [default or 0, text.count("model_max_length") or 0]
    if kind == "yarn" and factor is not None:
        longer.append(int((before or min(lengths)) * factor))
    return {
        "default_context": default,
        "least_context": default,
        "longest_context": max(longer) if default else None,
    }


def _factor(rope: View) -> float | None:
    factor = rope.get("factor")
    number = isinstance(factor, int | float) and not isinstance(factor, bool)
    return factor if number and 1 <= factor <= 1 << 20 else None
