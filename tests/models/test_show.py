"""The record of one model names every fact."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from shardlint.models.catalogue import Catalogue
from shardlint.models.show import SHOWN, show
from shardlint.plan import KvGroup, ModelFacts
from shardlint_schemas import schema

GPT_OSS = ModelFacts(
    id="org/name",
    attention_heads=64,
    other_kv_heads=(4,),
    quantization={"method": "mxfp4"},
    kv_groups=(KvGroup(18, 8, 256), KvGroup(18, 8, 256, 128)),
    params_total=7,
    provenance="config.json",
)


def test_record_has_the_documented_names() -> None:
    assert {
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
        "params",
        "kv_cache_bf16",
        "provenance",
        "confidence",
        "assumes",
    } == set(show(GPT_OSS))


def test_unknown_fact_is_null() -> None:
    assert show(GPT_OSS)["kv_heads"] is None


def test_record_is_json() -> None:
    record = show(GPT_OSS)
    assert record == json.loads(json.dumps(record))


def test_parameters_are_together() -> None:
    assert {"total": 7, "text": None, "active": None} == show(GPT_OSS)["params"]


def test_cache_counts_the_layers_that_keep_every_token() -> None:
    cache = show(GPT_OSS)["kv_cache_bf16"]
    assert {"full_bytes_per_token": 36_864, "full_layers": 18} == cache


def test_unknown_cache_is_null() -> None:
    cache = show(ModelFacts(id="org/name"))["kv_cache_bf16"]
    assert {"full_bytes_per_token": None, "full_layers": None} == cache


def test_certain_facts() -> None:
    assert ("certain", []) == (show(GPT_OSS)["confidence"], show(GPT_OSS)["assumes"])


def test_assumed_facts() -> None:
    record = show(ModelFacts(id="org/name", assumed=("shape inferred",)))
    assert ("assumed", ["shape inferred"]) == (record["confidence"], record["assumes"])


@pytest.mark.parametrize("model_type", ["bert", "roberta", "falcon_mamba"])
def test_model_that_keeps_nothing_per_token(model_type: str) -> None:
    cache = show(ModelFacts(id="org/name", model_type=model_type))["kv_cache_bf16"]
    assert {"full_bytes_per_token": 0, "full_layers": 0} == cache


def test_cache_beside_an_encoder_is_not_nothing() -> None:
    cache = show(ModelFacts(id="org/name", model_type="whisper"))["kv_cache_bf16"]
    assert {"full_bytes_per_token": None, "full_layers": None} == cache


# -------------------------------------------------------------------------------------- schema


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema("models_show"))


def test_schema_has_every_fact_that_is_shown() -> None:
    described = schema("models_show")
    assert described["required"] == list(described["properties"])
    assert set(SHOWN) <= set(described["properties"])


def test_every_model_is_shown_as_the_schema_says() -> None:
    validator = Draft202012Validator(schema("models_show"))
    known = Catalogue()
    shown = [known.lookup(id) for id in known.ids()]
    around = {"schema_version": 1, "valid_tp": {"vllm": [1, 2]}, "unknown": []}
    for facts in shown:
        assert facts is not None
        assert validator.is_valid({**show(facts), **around}), facts.id
