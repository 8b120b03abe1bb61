"""Ids, references and the user's own tables become facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from shardlint.models.catalogue import DATA, Catalogue, ModelError, hub_id
from shardlint.models.entries import packed, unpacked
from shardlint.plan import KvGroup, ModelFacts
from shardlint_schemas import schema

KNOWN = Catalogue()


def of(id: str) -> ModelFacts:
    found = KNOWN.lookup(id)
    assert found is not None
    return found


def full_bytes(id: str) -> int:
    return sum(group.bytes_per_token(1) for group in of(id).kv_groups if group.window is None)


# ------------------------------------------------------------------------------- known models


@pytest.mark.parametrize(
    ("id", "heads", "kv", "layers", "bytes_per_token"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 28, 4, 28, 57_344),
        ("Qwen/Qwen2.5-72B-Instruct", 64, 8, 80, 327_680),
        ("meta-llama/Llama-3.1-8B-Instruct", 32, 8, 32, 131_072),
        ("meta-llama/Llama-3.1-70B-Instruct", 64, 8, 80, 327_680),
        ("meta-llama/Llama-3.1-405B-Instruct", 128, 8, 126, 516_096),
        ("google/gemma-2b", 8, 1, 18, 18_432),
        ("openai/gpt-oss-120b", 64, 8, 36, 36_864),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 32, 8, 32, 131_072),
        ("tiiuae/falcon-7b", 71, 1, 32, 8_192),
        ("tiiuae/falcon-40b", 128, 8, 60, 122_880),
        ("microsoft/phi-4", 40, 10, 40, 204_800),
        ("Qwen/Qwen3-235B-A22B", 64, 4, 94, 192_512),
        ("deepseek-ai/DeepSeek-V3", 128, 128, 61, 70_272),
        ("moonshotai/Kimi-K2-Instruct", 64, 64, 61, 70_272),
        ("XiaomiMiMo/MiMo-V2-Flash", 64, 4, 48, 23_040),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 64, 8, 80, 200_704),
        ("openai-community/gpt2-xl", 25, 25, 48, 307_200),
    ],
)
def test_heads_layers_and_cache(
    id: str, heads: int, kv: int, layers: int, bytes_per_token: int
) -> None:
    read = of(id)
    assert (heads, kv, layers) == (read.attention_heads, read.kv_heads, read.num_layers)
    assert bytes_per_token == full_bytes(id)


@pytest.mark.parametrize(
    ("id", "experts", "width", "dense"),
    [
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 8, 14336, False),
        ("openai/gpt-oss-120b", 128, 2880, False),
        ("Qwen/Qwen3-235B-A22B", 128, 1536, False),
        ("deepseek-ai/DeepSeek-V3", 256, 2048, True),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 128, 8192, True),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 16, 8192, False),
        ("meta-llama/Llama-3.1-70B-Instruct", None, None, True),
    ],
)
def test_experts_and_dense_layers(
    id: str, experts: int | None, width: int | None, dense: bool
) -> None:
    read = of(id)
    assert (experts, width, dense) == (
        read.num_experts,
        read.moe_intermediate_size,
        read.dense_ffn,
    )


def test_deepseek_keeps_one_latent_entry() -> None:
    read = of("deepseek-ai/DeepSeek-V3")
    assert read.mla
    assert (KvGroup(61, 1, 1152, shared=True),) == read.kv_groups


def test_mimo_has_more_kv_heads_on_its_sliding_layers() -> None:
    assert (8,) == of("XiaomiMiMo/MiMo-V2-Flash").other_kv_heads


def test_step_divides_its_larger_number_of_heads() -> None:
    read = of("stepfun-ai/Step-3.5-Flash")
    assert (96, (64,)) == (read.attention_heads, read.other_attention_heads)


def test_parameters_come_with_the_shape() -> None:
    read = of("meta-llama/Llama-3.1-70B-Instruct")
    assert 70_553_706_496 == read.params_total


def test_shape_that_nobody_published_is_assumed() -> None:
    assert ("shape inferred",) == of("openai-community/gpt2-xl").assumed


def test_shape_that_contradicts_the_published_count_is_assumed() -> None:
    assumed = of("stepfun-ai/Step-3.7-Flash").assumed
    assert ("parameter count differs from the published one",) == assumed


def test_published_shape_is_certain() -> None:
    assert () == of("Qwen/Qwen3-8B").assumed


def test_stated_quantization_is_a_fact() -> None:
    assert {
        "method": "fp8",
        "bits": 8,
        "weight_block_size": [128, 128],
    } == of("deepseek-ai/DeepSeek-V3").quantization


def test_quantization_by_name_is_no_fact() -> None:
    id = "Qwen/Qwen1.5-32B-Chat-GPTQ-Int4"
    assert of(id).quantization is None
    known = KNOWN.assumed_quantization(id)
    assert known == {"method": "gptq", "bits": 4, "group_size": 128, "symmetric": True}


def test_nothing_is_assumed_of_a_stated_quantization() -> None:
    assert KNOWN.assumed_quantization("deepseek-ai/DeepSeek-V3") is None


def test_architecture_that_follows_from_the_type_is_given() -> None:
    assert "LlamaForCausalLM" == of("deepseek-ai/DeepSeek-R1-Distill-Llama-70B").architecture


def test_architecture_that_nobody_stated_is_left_out() -> None:
    assert of("allenai/OLMo-7B-hf").architecture is None


# ---------------------------------------------------------------------------------- references


@pytest.mark.parametrize(
    ("reference", "id"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("qwen/qwen3-8b", "Qwen/Qwen3-8B"),
        ("hf://Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("hf://Qwen/Qwen3-8B:main", "Qwen/Qwen3-8B"),
        ("/root/hub/models--Qwen--Qwen3-8B/snapshots/0123abc", "Qwen/Qwen3-8B"),
        ("models--Qwen--Qwen3-8B/snapshots/0123abc/", "Qwen/Qwen3-8B"),
        ("CohereForAI/c4ai-command-r-v01", "CohereLabs/c4ai-command-r-v01"),
        ("gpt2", "openai-community/gpt2"),
    ],
)
def test_reference_means_a_model(reference: str, id: str) -> None:
    assert id == of(reference).id


@pytest.mark.parametrize("reference", ["", "Qwen3-8B", "/models/Qwen/Qwen3-8B", "Qwen/Qwen3-9B"])
def test_reference_that_means_no_known_model(reference: str) -> None:
    assert KNOWN.lookup(reference) is None


def test_name_with_two_dashes_keeps_them() -> None:
    assert "org/a--b" == hub_id("/hub/models--org--a--b/snapshots/1")


def test_alias_says_nothing_of_the_storage() -> None:
    assert (None, "fp8") == (
        of("THUDM/GLM-5-FP8").quantization,
        (KNOWN.assumed_quantization("THUDM/GLM-5-FP8") or {}).get("method"),
    )


def test_ids_are_sorted_and_without_aliases() -> None:
    ids = Catalogue({"/models/mine": {"kv_heads": 8}}).ids()
    assert ids == tuple(sorted(ids, key=str.lower))
    assert ("/models/mine" in ids, "gpt2" in ids) == (True, False)


# ----------------------------------------------------------------------------------- overrides


def stated(table: dict[str, Any], folder: Path | None = None) -> ModelFacts:
    found = Catalogue({"/models/mine": table}, folder=folder).lookup("/models/mine")
    assert found is not None
    return found


def test_table_states_facts_and_nothing_else_is_known() -> None:
    table: dict[str, Any] = {
        "attention_heads": 52,
        "kv_heads": 52,
        "intermediate_size": 17920,
        "vocab_size": 32000,
    }
    assert stated(table) == ModelFacts(
        id="/models/mine", dense_ffn=True, provenance="override", **table
    )


def test_table_with_experts_leaves_dense_layers_open() -> None:
    assert stated({"intermediate_size": 18432, "num_experts": 256}).dense_ffn is None


def test_table_that_tells_the_cache() -> None:
    table = {"num_layers": 80, "kv_heads": 8, "head_dim": 128}
    assert (KvGroup(80, 8, 512),) == stated(table).kv_groups


def test_table_that_tells_a_latent_cache() -> None:
    table = {"num_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert (KvGroup(61, 1, 1152, shared=True),) == stated(table).kv_groups


def test_table_that_tells_groups() -> None:
    groups = (
        {"layers": 5, "heads": 2, "bytes_per_head": 2048},
        {"layers": 25, "heads": 8, "bytes_per_head": 1024, "window": 1024},
    )
    read = stated({"num_layers": 30, "kv_groups": groups})
    assert (KvGroup(5, 2, 2048), KvGroup(25, 8, 1024, 1024)) == read.kv_groups


def test_table_with_linear_attention_leaves_the_cache_open() -> None:
    table = {"num_layers": 64, "kv_heads": 4, "head_dim": 256, "linear_num_value_heads": 48}
    assert () == stated(table).kv_groups


def test_table_states_a_quantization() -> None:
    table = {"method": "fp8", "weight_block_size": (128, 128)}
    assert {"method": "fp8", "weight_block_size": [128, 128]} == stated(
        {"quantization": table}
    ).quantization


def test_table_wins_over_the_catalogue() -> None:
    changed = Catalogue({"Qwen/Qwen3-8B": {"attention_heads": 16}})
    assert ModelFacts(id="Qwen/Qwen3-8B", attention_heads=16, provenance="override") == (
        changed.lookup("Qwen/Qwen3-8B")
    )


def test_table_is_met_by_the_id_that_a_reference_means() -> None:
    found = Catalogue({"org/mine": {"kv_heads": 3}}).lookup("hf://org/mine")
    assert found is not None
    assert 3 == found.kv_heads


def test_table_is_not_met_by_another_case() -> None:
    assert Catalogue({"org/mine": {"kv_heads": 3}}).lookup("org/Mine") is None


def test_table_on_a_base_keeps_the_rest() -> None:
    read = stated({"base": "Qwen/Qwen3-8B", "vocab_size": 32000})
    assert ("/models/mine", 32000, 32, of("Qwen/Qwen3-8B").kv_groups) == (
        read.id,
        read.vocab_size,
        read.attention_heads,
        read.kv_groups,
    )


def test_other_kv_heads_change_the_cache_of_the_base() -> None:
    read = stated({"base": "Qwen/Qwen3-8B", "kv_heads": 4})
    assert (KvGroup(36, 4, 512),) == read.kv_groups


def test_cache_of_a_base_with_unlike_layers_is_left_open() -> None:
    assert () == stated({"base": "openai/gpt-oss-120b", "kv_heads": 4}).kv_groups


def test_base_with_an_assumed_shape_stays_assumed() -> None:
    assert ("shape inferred",) == stated({"base": "openai-community/gpt2-xl"}).assumed


CONFIG = {"num_hidden_layers": 4, "num_attention_heads": 12, "hidden_size": 768}


def test_table_names_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    read = stated({"config": "config.json", "kv_heads": 3}, tmp_path)
    assert (12, 3, "config.json") == (read.attention_heads, read.kv_heads, read.provenance)


def test_table_names_the_folder_of_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert 12 == stated({"config": tmp_path}).attention_heads


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"atention_heads": 8},
            r"unknown key 'atention_heads' in \[models\.\"/models/mine\"\]; "
            r"did you mean 'attention_heads'\?",
        ),
        ({"xyz": 8}, r"unknown key 'xyz' in \[models\.\"/models/mine\"\]$"),
        ({"id": "a/b"}, "unknown key 'id'"),
        ({"kv_heads": 0}, "kv_heads in .* must be a positive integer"),
        ({"kv_heads": True}, "kv_heads in .* must be a positive integer"),
        ({"vision_tower": "yes"}, "vision_tower in .* must be true or false"),
        ({"model_type": ""}, "model_type in .* must be a text"),
        ({"other_kv_heads": [4, -1]}, "other_kv_heads in .* must be a list of positive integers"),
        ({"kv_groups": [{"layers": 5, "heads": 2}]}, "bytes_per_head is missing in kv_groups of"),
        ({"quantization": {"bits": "four"}}, "bits in quantization of .* must be a positive"),
        ({"quantization": "fp8"}, "quantization in .* must be a table"),
        ({"base": "a/b", "config": "c"}, "has both config and base"),
        ({"base": "Qwen/Qwen3-8"}, "not in the catalogue; did you mean 'Qwen/Qwen3-8B'"),
        ({"base": 8}, "base 8 in .* is not in the catalogue"),
        ({"config": 8}, "config in .* must be a path"),
        ({"config": "missing.json"}, "missing.json: not a file"),
    ],
)
def test_table_with_a_mistake_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Catalogue({"/models/mine": table}).lookup("/models/mine")


def test_mistake_in_one_table_does_not_concern_another_model() -> None:
    assert Catalogue({"/models/mine": {"xyz": 8}}).lookup("Qwen/Qwen3-8B") is not None


def test_own_facts_need_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardlint.models.catalogue.DATA", Path("missing"))
    assert 8 == stated({"kv_heads": 8}).kv_heads


def test_look_up_builds_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def counting(id: str, record: dict[str, Any], *weights: Any) -> ModelFacts:
        built.append(id)
        return unpacked(id, record, *weights)

    monkeypatch.setattr("shardlint.models.catalogue.unpacked", counting)
    Catalogue().lookup("qwen/qwen3-8b")
    assert ["Qwen/Qwen3-8B"] == built


# ------------------------------------------------------------------------------------- plugins


def test_plugin_adds_a_model() -> None:
    found = Catalogue(entries=[{"id": "org/mine", "attention_heads": 12}]).lookup("org/mine")
    assert ModelFacts(id="org/mine", attention_heads=12, provenance="plugin") == found


def test_table_wins_over_a_plugin() -> None:
    both = Catalogue({"org/mine": {"kv_heads": 3}}, [{"id": "org/mine", "kv_heads": 4}])
    found = both.lookup("org/mine")
    assert found is not None
    assert 3 == found.kv_heads


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"kv_heads": 4}, "a model of a plugin has no id"),
        ("org/mine", "a model of a plugin has no id"),
        (
            {"id": "org/mine", "kv_head": 4},
            "unknown key 'kv_head' in the facts of 'org/mine'; did you mean 'kv_heads'?",
        ),
    ],
)
def test_entry_that_cannot_be_read_is_told(entry: Any, problem: str) -> None:
    added = Catalogue(entries=[entry])
    assert ((problem,), None) == (added.problems, added.lookup("org/mine"))


# -------------------------------------------------------------------------------------- the file


def test_file_is_as_its_schema_says() -> None:
    validator = Draft202012Validator(schema("catalogue"))
    assert [] == [error.message for error in validator.iter_errors(json.loads(DATA.read_bytes()))]


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema("catalogue"))


def test_schema_refuses_what_is_no_fact() -> None:
    data = json.loads(DATA.read_bytes())
    data["models"]["org/mine"] = {"provenance": "config.json", "rope_theta": 10000}
    assert not Draft202012Validator(schema("catalogue")).is_valid(data)


def test_file_is_small() -> None:
    assert DATA.stat().st_size < 1_200_000


def test_every_record_is_readable() -> None:
    records = json.loads(DATA.read_bytes())["models"]
    assert records == {
        id: packed(unpacked(id, record), record.get("assumed_quantization"), record.get("weights"))
        for id, record in records.items()
    }


def test_alias_is_no_id_of_its_own() -> None:
    data = json.loads(DATA.read_bytes())
    assert set() == set(data["aliases"]) & set(data["models"])
    assert set() == set(data["aliases"].values()) - set(data["models"])


def test_tower_may_be_unknown() -> None:
    facts = ModelFacts(id="org/mine", vision_tower=None)
    record = packed(facts)
    assert ("unknown", None) == (record["vision_tower"], unpacked("org/mine", record).vision_tower)


def test_a_table_that_is_silent_on_storage_leaves_it_to_the_name() -> None:
    shape = {"num_layers": 2, "hidden_size": 64}
    tables = {
        "a/m-bf16": shape,
        "a/m-AWQ": {**shape, "quantization": {"method": "gptq", "bits": 4}},
        "a/m-FP8": {**shape, "base": "Qwen/Qwen3-8B"},
    }
    known = Catalogue(tables)
    found = [known.assumed_quantization(name) for name in (*tables, "a/n-bf16")]
    assert [{}, None, None, {}] == found
