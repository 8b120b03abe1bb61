"""A Hugging Face config.json as `ModelFacts`.

A fact that the config does not state stays None; the default of a class stands in for it only where
`keys` lists it. What has the wrong type or cannot be a count is treated as not stated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shardlint.models import attention, keys, layers, quantization
from shardlint.models.errors import ModelError
from shardlint.models.view import View, is_count
from shardlint.plan import ModelFacts

if TYPE_CHECKING:
    from shardlint.models.params.count import Parameters

MOST_BYTES: Final = 5 * 2**20
"""A larger file is not read: it is no config."""
PROVENANCE: Final = "config.json"


class _Parts(NamedTuple):
    """The part that describes the language model, and what stands around it."""

    text: View
    outer: View
    model_type: str | None
    """Of the text part."""


def facts_from_config(
    config: Mapping[str, Any], id: str, quant_config: Mapping[str, Any] | None = None
) -> ModelFacts:
    """The facts of a config; `quant_config` is the hf_quant_config.json beside it."""
    if not isinstance(config, Mapping):
        raise ModelError(f"{id}: config.json is not a mapping")
    parts = _parts(View(config))
    text = parts.text
    count = attention.layer_count(text)
    facts = ModelFacts(
        id=id,
        model_type=View(config).word("model_type"),
        architecture=_architecture(View(config)),
        num_layers=count,
        hidden_size=text.count(*keys.HIDDEN),
        vocab_size=text.count(*keys.VOCAB) or parts.outer.count(*keys.VOCAB),
        max_position_embeddings=_max_length(parts),
        tie_word_embeddings=_tied(parts),
        torch_dtype=_dtype(parts),
        linear_num_value_heads=text.count("linear_num_value_heads"),
        quantization=_quantization(parts, quant_config, count),
        moe_layers=layers.moe_layers(text, parts.model_type),
        provenance=PROVENANCE,
        **layers.widths(text, parts.model_type),
        **layers.contexts(text, parts.model_type),
        **_attention(parts),
        **_ffn(parts),
        **_vision(parts.outer, View(config)),
    )
    return _counted(config, facts)


def parameters_of(config: Mapping[str, Any], facts: ModelFacts) -> Parameters:
    """The numbers of parameters of the model that a config describes."""
    from shardlint.models.params.count import parameters

    parts = _parts(View(config))
    return parameters(View(config), parts.outer, parts.text, parts.model_type, facts)


def _counted(config: Mapping[str, Any], facts: ModelFacts) -> ModelFacts:
    counts = parameters_of(config, facts)
    return replace(
        facts,
        params_total=counts.total,
        params_text=counts.text,
        params_active=counts.active,
        weights=counts.weights,
        states=counts.states,
    )


def _parts(config: View) -> _Parts:
    outer = config.part(*keys.OUTER) or config
    nested = outer.part(*keys.TEXT)
    text = nested or outer
    model_type = text.word("model_type") or config.word("model_type")
    model_type = model_type or keys.by_type(_architecture(config), keys.TYPE_OF)
    if nested is not None and (defaults := keys.NESTED_DEFAULTS.get(model_type or "")):
        stated = {key: value for key, value in text.raw.items() if value is not None}
        text = View({**defaults, **stated})
    return _Parts(text, outer, model_type)


def _architecture(config: View) -> str | None:
    names = config.items("architectures")
    return names[0] if names and isinstance(names[0], str) and names[0] else None


def _max_length(parts: _Parts) -> int | None:
    if keys.is_one_of(parts.model_type, keys.LENGTH_IN_TOKENIZER_KEY):
        length = parts.text.count("model_max_length")
        if length:
            return length
    return parts.text.count(*keys.MAX_LENGTH)


def _tied(parts: _Parts) -> bool | None:
    stated = [view.flag("tie_word_embeddings") for view in (parts.text, parts.outer)]
    found = next((flag for flag in stated if flag is not None), None)
    if found is not None:
        return found
    if keys.is_one_of(parts.model_type, keys.TIED):
        return True
    return False if keys.is_one_of(parts.model_type, keys.UNTIED) else None


def _dtype(parts: _Parts) -> str | None:
    name = parts.text.word(*keys.DTYPE) or parts.outer.word(*keys.DTYPE)
    return name.removeprefix("torch.") if name else None


def _quantization(
    parts: _Parts, beside: Mapping[str, Any] | None, layers: int | None
) -> Mapping[str, Any] | None:
    names = ("quantization_config", "compression_config")
    stated = parts.outer.part(*names) or parts.text.part(*names)
    expert_dtype = parts.text.word("expert_dtype")
    raw = stated.raw if stated else None
    return quantization.normalised(raw, beside, expert_dtype, layers)


def _vision(outer: View, config: View) -> dict[str, Any]:
    """Whether there is a tower; open when the architecture takes more than text says."""
    tower = outer.part(*keys.VISION)
    if tower is not None:
        return {
            "vision_tower": True,
            "vision_heads": tower.count(*keys.VISION_HEADS),
            "vision_intermediate_size": layers.vision_width(tower),
            "deepstack_levels": len(tower.items("deepstack_visual_indexes")) or None,
        }
    takes_more = (_architecture(config) or "").endswith(keys.TAKES_MORE_THAN_TEXT)
    return {"vision_tower": None if takes_more and not outer.stated(*keys.AUDIO) else False}


# --------------------------------------------------------------------------------- attention


def _attention(parts: _Parts) -> dict[str, Any]:
    text, model_type = parts.text, parts.model_type
    heads = attention.attention_heads(text)
    kv = attention.kv_heads(text, model_type, text.count(*keys.HEADS))
    return {
        "attention_heads": heads[0] if heads else None,
        "other_attention_heads": heads[1:],
        "kv_heads": kv[0] if kv else None,
        "other_kv_heads": kv[1:],
        "head_dim": attention.head_dim(text, model_type),
        "kv_lora_rank": text.count("kv_lora_rank"),
        "qk_rope_head_dim": text.count("qk_rope_head_dim"),
        "kv_groups": attention.kv_groups(text, model_type),
    }


# ----------------------------------------------------------------------- FFN and experts


def _ffn(parts: _Parts) -> dict[str, Any]:
    text, model_type = parts.text, parts.model_type
    experts = _experts(text)
    if experts is None:
        width = _dense_width(text, model_type)
        unclear = layers.tells_of_experts(text)
        unclear = unclear or keys.is_one_of(model_type, keys.STATE_SPACE)
        return {
            "intermediate_size": width,
            "dense_ffn": True if width and not unclear else None,
        }
    width = text.width(*keys.DENSE_FFN) or _dense_width(text, model_type)
    return {
        "num_experts": experts,
        "experts_per_token": text.width(*keys.TOP_K),
        "intermediate_size": width,
        "moe_intermediate_size": text.width(*keys.EXPERT_FFN, *keys.FFN),
        "shared_expert_intermediate_size": _shared_width(text, model_type),
        "dense_ffn": _has_dense_layer(text, model_type),
    }


def _experts(text: View) -> int | None:
    """More than one expert, and the block switched on."""
    if text.flag("enable_moe_block") is False:
        return None
    experts = text.width(*keys.EXPERTS)
    return experts if experts and experts > 1 else None


def _dense_width(text: View, model_type: str | None) -> int | None:
    width, hidden = text.width(*keys.FFN), text.count(*keys.HIDDEN)
    if width and text.flag("block_auto_adjust_ff_dim"):
        return _adjusted(text, width)
    if width:
        halved = keys.is_one_of(model_type, keys.TWICE_THE_FFN) and width % 2 == 0
        return width // 2 if halved else width
    if hidden is None or text.stated(*keys.FFN):
        return None
    ratio = text.count("expansion_ratio")
    if ratio is None and keys.is_one_of(model_type, keys.FOUR_TIMES_HIDDEN):
        ratio = 4
    return _count_or_none(hidden * ratio) if ratio else None


def _adjusted(text: View, width: int) -> int | None:
    """Two thirds of the stated width, rounded up: the widths of LFM2."""
    multiple = text.count("block_multiple_of") or 256
    factor = text.get("block_ffn_dim_multiplier")
    exact = int(2 * width / 3) * (factor if isinstance(factor, int | float) else 1)
    return _count_or_none(-(-int(exact) // multiple) * multiple) if 0 < exact < 2**31 else None


def _count_or_none(number: int) -> int | None:
    return number if is_count(number) else None


def _shared_width(text: View, model_type: str | None) -> int | None:
    stated = text.count(*keys.SHARED_FFN)
    if stated:
        return stated
    width = text.width(*keys.EXPERT_FFN, *keys.FFN)
    if keys.is_one_of(model_type, keys.LLAMA4):
        return width
    shared = text.width(*keys.SHARED_EXPERTS)
    return _count_or_none(shared * width) if shared and width else None


def _has_dense_layer(text: View, model_type: str | None) -> bool | None:
    """Whether a layer with a plain FFN stands beside the mixture layers; None if unclear."""
    if keys.is_one_of(model_type, keys.DENSE_BESIDE_MOE) or _names_dense_layers(text):
        return True
    if _names_no_dense_layers(text) or keys.is_one_of(model_type, keys.ALL_MOE):
        return False
    return None if text.stated(*keys.EXPERT_FFN) else False


def _moe_layers(text: View) -> int | None:
    """How many layers are named as mixtures, in a list or in a text with commas."""
    listed = text.items(*keys.MOE_LAYERS) or (text.word(*keys.MOE_LAYERS) or "").split(",")
    named = [item for item in listed if item != ""]
    return len(named) or None


def _names_dense_layers(text: View) -> bool:
    layers, moe_layers = attention.layer_count(text) or 0, _moe_layers(text)
    return (
        text.count(*keys.FIRST_DENSE) is not None
        or bool(text.items("mlp_only_layers"))
        or any((text.count(key) or 1) > 1 for key in keys.EVERY_NTH_IS_MOE)
        or 0 in text.items("moe_layer_freq")
        or "dense" in text.items("mlp_layer_types")
        or "mlp" in text.items("layers_block_type")
        or "-" in (text.word("hybrid_override_pattern") or "")
        or (moe_layers is not None and moe_layers < layers)
    )


def _names_no_dense_layers(text: View) -> bool:
    """A key that could name dense layers is there and names none."""
    return (
        any(text.get(key) == 0 for key in keys.FIRST_DENSE)
        or text.get("mlp_only_layers") == []
        or text.get("interleave_moe_layer_step") == 1
        or bool(text.items("moe_layer_freq", "mlp_layer_types", "layers_block_type"))
        or text.stated("hybrid_override_pattern")
        or _moe_layers(text) is not None
    )


# --------------------------------------------------------------------------------- files


def _is_file(path: Path) -> bool:
    """False for what cannot be a file too, such as a name that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file of reasonable size."""
    if not _is_file(path):
        raise ModelError(f"{path}: not a file")
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or 'cannot be read'}") from error
    if len(content) > MOST_BYTES:
        raise ModelError(f"{path}: larger than {MOST_BYTES // 2**20} MiB, so not read")
    return _parsed(content, path)


def _parsed(content: bytes, path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON") from error
    if not isinstance(loaded, dict):
        raise ModelError(f"{path}: not a JSON object")
    return loaded


def from_config_file(path: Path, id: str | None = None) -> ModelFacts:
    """The facts of one config.json, with what lies beside it if that is its name."""
    if path.name == "config.json" and (beside := from_folder(path.parent, id or str(path))):
        return beside
    return facts_from_config(read_json(path), id or str(path))


def from_folder(path: Path, id: str | None = None) -> ModelFacts | None:
    """The facts of a model folder, None if there is no config.json in it.

    Only config.json and hf_quant_config.json are opened. With neither of them telling of a
    quantization, there is none.
    """
    config, beside = path / "config.json", path / "hf_quant_config.json"
    if not _is_file(config):
        return None
    quant_config = read_json(beside) if _is_file(beside) else None
    facts = facts_from_config(read_json(config), id or str(path), quant_config)
    return facts if facts.quantization is not None else replace(facts, quantization={})
