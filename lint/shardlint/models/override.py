"""Facts in somebody's own words: tables of the user's config, entries of a plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

from shardlint.models.config_json import ModelError
from shardlint.models.view import is_count
from shardlint.plan import KvGroup, ModelFacts

NOT_STATED_BY_HAND: Final = ("id", "kv_groups", "provenance", "assumed")
FIELDS: Final = {
    field.name: str(field.type)
    for field in fields(ModelFacts)
    if field.name not in NOT_STATED_BY_HAND
}
"""Names that may be given, and the types of their values."""
QUANTIZATION_FIELDS: Final = {
    "method": "str | None",
    "bits": "int | None",
    "group_size": "group",
    "weight_block_size": "block",
    "quant_algo": "str | None",
    "format": "str | None",
    "type": "str | None",
    "activation_bits": "int | None",
    "expert_dtype": "str | None",
    "kv_cache_quant_algo": "str | None",
}
CACHE_FIELDS: Final = ("num_layers", "kv_heads", "head_dim", "kv_lora_rank", "qk_rope_head_dim")
"""Fields that decide the KV cache."""


def _is_counts(value: object, length: int | None = None) -> bool:
    if not isinstance(value, list | tuple) or not all(is_count(n) for n in value):
        return False
    return len(value) == length if length else bool(value)


KINDS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "int | None": (is_count, "a positive integer"),
    "bool | None": (lambda value: isinstance(value, bool), "true or false"),
    "str | None": (lambda value: isinstance(value, str) and value != "", "a text"),
    "tuple[int, ...]": (_is_counts, "a list of positive integers"),
    "group": (lambda value: is_count(value) or value == -1, "a positive integer or -1"),
    "block": (lambda value: _is_counts(value, 2), "a list of two positive integers"),
    "Mapping[str, Any] | None": (lambda value: isinstance(value, Mapping), "a table"),
}


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A clause with the closest candidate, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _checked(table: Mapping[str, Any], allowed: Mapping[str, str], where: str) -> dict[str, Any]:
    """The values of a table, all of them of known name and right type."""
    for key, value in table.items():
        if key not in allowed:
            raise ModelError(f"unknown key {key!r} in {where}{did_you_mean(key, allowed)}")
        fits, wanted = KINDS[allowed[key]]
        if not fits(value):
            raise ModelError(f"{key} in {where} must be {wanted}")
    return {
        key: tuple(value) if allowed[key] == "tuple[int, ...]" else value
        for key, value in table.items()
    }


def stated_facts(
    id: str,
    table: Mapping[str, Any],
    where: str,
    provenance: str,
    base: ModelFacts | None = None,
) -> ModelFacts:
    """The facts that a table gives, on top of those of a base; without one, nothing else is known.

    Layers are taken to keep every token, which is what the numbers of a table say.
    """
    values = _checked(table, FIELDS, where)
    if "quantization" in values:
        inner = f"quantization in {where}"
        values["quantization"] = _checked(values["quantization"], QUANTIZATION_FIELDS, inner)
    before = base or ModelFacts(id=id, provenance=provenance)
    facts = replace(before, id=id, **values)
    if any(key in values for key in CACHE_FIELDS):
        plain = before.kv_groups in ((), plain_groups(before))
        facts = replace(facts, kv_groups=plain_groups(facts) if plain else ())
    if facts.dense_ffn is None and facts.intermediate_size and _is_dense(facts):
        facts = replace(facts, dense_ffn=True)
    return facts


def _is_dense(facts: ModelFacts) -> bool:
    return facts.num_experts is None and facts.moe_intermediate_size is None


def plain_groups(facts: ModelFacts) -> tuple[KvGroup, ...]:
    """The KV cache of a model whose layers are all alike, as far as its numbers are known."""
    if not facts.num_layers or facts.linear_num_value_heads or facts.other_kv_heads:
        return ()
    if facts.kv_lora_rank:
        width = facts.kv_lora_rank + facts.qk_rope_head_dim if facts.qk_rope_head_dim else 0
        return (KvGroup(facts.num_layers, 1, 2 * width, shared=True),) if width else ()
    if not facts.kv_heads or not facts.head_dim:
        return ()
    return (KvGroup(facts.num_layers, facts.kv_heads, 4 * facts.head_dim),)
