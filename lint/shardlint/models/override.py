"""Facts in somebody's own words: tables of the user's config, entries of a plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

from shardlint.models.errors import ModelError
from shardlint.models.view import is_count
from shardlint.plan import KvGroup, ModelFacts

NOT_STATED_BY_HAND: Final = (
    "id",
    "provenance",
    "assumed",
    "confirmed",
    "weights",
    "states",
    "least_context",
)
COUNTS, GROUPS, TABLE = "tuple[int, ...]", "tuple[KvGroup, ...]", "Mapping[str, Any] | None"
LAYERS = "tuple[int, ...] | None"
COUNT, FLAG, TEXT = "int | None", "bool | None", "str | None"
FIELDS: Final = {
    field.name: str(field.type)
    for field in fields(ModelFacts)
    if field.name not in NOT_STATED_BY_HAND
}
"""Names that may be given, and the types of their values."""
GROUP_FIELDS: Final = {
    "layers": COUNT,
    "heads": COUNT,
    "bytes_per_head": COUNT,
    "window": COUNT,
    "shared": FLAG,
    "chunk": COUNT,
    "common_window": COUNT,
    "ratio": COUNT,
    "index": COUNT,
    "indexers": LAYERS,
    "at": LAYERS,
}
QUANTIZATION_FIELDS: Final = {
    "method": TEXT,
    "bits": COUNT,
    "group_size": "group",
    "weight_block_size": "block",
    "quant_algo": TEXT,
}
"""Keys with a meaning here; further keys of a quantization are kept as they are."""
CACHE_FIELDS: Final = ("num_layers", "kv_heads", "head_dim", "kv_lora_rank", "qk_rope_head_dim")
"""Fields that decide the KV cache."""
STATE_FIELDS: Final = (
    "model_type", "num_layers", "hidden_size", "linear_num_key_heads", "linear_num_value_heads",
    "linear_key_head_dim", "linear_value_head_dim", "mamba_heads", "mamba_groups", "mamba_width",
)  # fmt: skip
"""Fields that decide what layers with a fixed state keep."""
TOWER_FIELDS: Final = ("model_type", "hidden_size", "vision_heads", "vision_intermediate_size",
                       "vision_tower")  # fmt: skip
WEIGHT_FIELDS: Final = (
    *STATE_FIELDS, *TOWER_FIELDS, *CACHE_FIELDS, "attention_heads", "intermediate_size",
    "vocab_size", "num_experts", "moe_intermediate_size", "shared_expert_intermediate_size",
    "moe_layers", "q_lora_rank", "qk_nope_head_dim", "v_head_dim", "tie_word_embeddings",
    "other_attention_heads", "other_kv_heads", "dense_ffn",
)  # fmt: skip
"""Fields that decide which weights there are."""


def _is_list(value: object, fits: Callable[[object], bool], length: int | None = None) -> bool:
    if not isinstance(value, list | tuple) or not all(fits(item) for item in value):
        return False
    return length is None or len(value) == length


def _is_index(value: object) -> bool:
    return value == 0 or is_count(value)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


KINDS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    COUNT: (is_count, "a positive integer"),
    FLAG: (lambda value: isinstance(value, bool), "true or false"),
    TEXT: (lambda value: isinstance(value, str) and value != "", "a text"),
    COUNTS: (lambda value: _is_list(value, is_count), "a list of positive integers"),
    LAYERS: (lambda value: _is_list(value, _is_index), "a list of layers, counted from 0"),
    GROUPS: (lambda value: _is_list(value, _is_table), "a list of tables"),
    TABLE: (_is_table, "a table"),
    "block": (lambda value: _is_list(value, is_count, 2), "a list of two positive integers"),
    "group": (lambda value: is_count(value) or value == -1, "a positive integer or -1"),
}


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A clause with the closest candidate, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(candidates), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _checked(table: Mapping[str, Any], allowed: Mapping[str, str], where: str) -> dict[str, Any]:
    """The table, when all of its keys are known and their values have the right type."""
    for key, value in table.items():
        if key not in allowed:
            raise ModelError(f"unknown key {key!r} in {where}{did_you_mean(key, allowed)}")
        fits, wanted = KINDS[allowed[key]]
        if not fits(value):
            raise ModelError(f"{key} in {where} must be {wanted}")
    return dict(table)


def _quantization(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = {key: value for key, value in table.items() if key in QUANTIZATION_FIELDS}
    _checked(known, QUANTIZATION_FIELDS, where)
    return {k: list(v) if isinstance(v, tuple) else v for k, v in table.items()}


def _group(table: Mapping[str, Any], where: str) -> KvGroup:
    values = _checked(table, GROUP_FIELDS, where)
    for key in ("layers", "heads", "bytes_per_head"):
        if key not in values:
            raise ModelError(f"{key} is missing in {where}")
    values.update({key: tuple(values[key]) for key in ("indexers", "at") if key in values})
    return KvGroup(**values)


def _values(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values of the fields that a table gives."""
    values = _checked(table, FIELDS, where)
    for key, kind in FIELDS.items():
        if key not in values:
            continue
        inner = f"{key} of {where}"
        if kind == TABLE:
            values[key] = _quantization(values[key], inner)
        elif kind == GROUPS:
            values[key] = tuple(_group(group, inner) for group in values[key])
        elif kind in (COUNTS, LAYERS):
            values[key] = tuple(values[key])
    return values


def stated_facts(
    id: str,
    table: Mapping[str, Any],
    where: str,
    provenance: str,
    base: ModelFacts | None = None,
) -> ModelFacts:
    """The facts that a table gives, on top of those of a base; without one, nothing else is known.

    Unless it gives `kv_groups`, its layers are taken to be alike and to keep every token.
    """
    before = base or ModelFacts(id=id, provenance=provenance)
    values = _values(table, where)
    facts = replace(before, id=id, **_lengths(values), **values)
    if "kv_groups" not in values and any(key in values for key in CACHE_FIELDS):
        facts = replace(facts, kv_groups=_groups_on_top(before, facts))
    if facts.dense_ffn is None and facts.intermediate_size and _is_dense(facts):
        facts = replace(facts, dense_ffn=True)
    return _with_weights(facts, before)


def _lengths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Contexts that follow from a length in somebody's own words: that is the longest one."""
    length = values.get("max_position_embeddings")
    if length is None:
        return {}
    longest = values.get("longest_context", length)
    default = values.get("default_context", min(length, longest))
    found = {"longest_context": longest, "default_context": default, "least_context": default}
    return {name: value for name, value in found.items() if name not in values}


def _with_weights(facts: ModelFacts, before: ModelFacts) -> ModelFacts:
    """The facts with weights that follow from them, where they are not those of the base.

    Its blocks that draft are left out then; so is a tower that may differ.
    """
    if not _differ(facts, before, WEIGHT_FIELDS):
        return facts
    from shardlint.models.params.stated import inventory

    weights = inventory(facts)
    if weights and not _differ(facts, before, TOWER_FIELDS):
        weights += tuple(block for block in before.weights if block.place == "tower")
    states = () if _differ(facts, before, STATE_FIELDS) else before.states
    return replace(facts, weights=weights, states=states)


def _differ(facts: ModelFacts, before: ModelFacts, names: tuple[str, ...]) -> bool:
    return any(getattr(facts, name) != getattr(before, name) for name in names)


def _is_dense(facts: ModelFacts) -> bool:
    return facts.num_experts is None and facts.moe_intermediate_size is None


BESIDE_THE_SHAPE: Final = ("common_window", "index", "indexers")
"""What a group keeps when heads and widths are given anew."""


def _groups_on_top(before: ModelFacts, facts: ModelFacts) -> tuple[KvGroup, ...]:
    """The groups with new numbers, where all layers were alike before."""
    if not before.kv_groups:
        return plain_groups(facts)
    kept = {name: getattr(before.kv_groups[0], name) for name in BESIDE_THE_SHAPE}
    if before.kv_groups != tuple(replace(group, **kept) for group in plain_groups(before)):
        return ()
    return tuple(replace(group, **kept) for group in plain_groups(facts))


def plain_groups(facts: ModelFacts) -> tuple[KvGroup, ...]:
    """The KV cache of a model whose layers are all alike, as far as its numbers are known."""
    if not facts.num_layers or facts.linear_num_value_heads or facts.other_kv_heads:
        return ()
    if facts.kv_lora_rank:
        if not facts.qk_rope_head_dim:
            return ()
        width = facts.kv_lora_rank + facts.qk_rope_head_dim
        return (KvGroup(facts.num_layers, 1, 2 * width, shared=True),)
    if not facts.kv_heads or not facts.head_dim:
        return ()
    return (KvGroup(facts.num_layers, facts.kv_heads, 4 * facts.head_dim),)
