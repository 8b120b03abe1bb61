"""A config.json becomes facts, family by family; the numbers are those of published models."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shardlint.models.config_json import (
    MOST_BYTES,
    ModelError,
    facts_from_config,
    from_config_file,
    from_folder,
)
from shardlint.plan import KvGroup, ModelFacts

DENSE: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "sliding_window": 131072,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
MIXTRAL: dict[str, Any] = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": None,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
}
GEMMA_4: dict[str, Any] = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size": 2816,
        "num_hidden_layers": 30,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "num_global_key_value_heads": 2,
        "head_dim": 256,
        "global_head_dim": 512,
        "intermediate_size": 2112,
        "moe_intermediate_size": 704,
        "enable_moe_block": True,
        "num_experts": 128,
        "top_k_experts": 8,
        "sliding_window": 1024,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
        "vocab_size": 262144,
    },
    "vision_config": {"num_attention_heads": 16},
}
MIMO: dict[str, Any] = {
    "model_type": "mimo_v2_flash",
    "num_hidden_layers": 6,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "swa_num_key_value_heads": 8,
    "head_dim": 192,
    "v_head_dim": 128,
    "swa_head_dim": 192,
    "swa_v_head_dim": 128,
    "sliding_window": 128,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0],
    "moe_layer_freq": [0, 1, 1, 1, 1, 1],
    "intermediate_size": 16384,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": None,
}


def facts(*parts: Mapping[str, Any], **keys: Any) -> ModelFacts:
    merged: dict[str, Any] = {}
    for part in (*parts, keys):
        merged |= part
    return facts_from_config(merged, "org/name")


def simple(**keys: Any) -> ModelFacts:
    """A model of 8 layers, 32 heads of 128, and the given keys."""
    shape = {"num_hidden_layers": 8, "hidden_size": 4096, "num_attention_heads": 32}
    return facts(shape, keys)


# ------------------------------------------------------------------------------- where keys are


def test_dense_model_states_its_shape_in_plain_keys() -> None:
    read = facts(DENSE)
    assert (28, 3584, 28, 4, 128) == (
        read.num_layers,
        read.hidden_size,
        read.attention_heads,
        read.kv_heads,
        read.head_dim,
    )


def test_dense_model_has_a_dense_ffn() -> None:
    assert (18944, True, None) == (
        facts(DENSE).intermediate_size,
        facts(DENSE).dense_ffn,
        facts(DENSE).num_experts,
    )


def test_architecture_type_and_dtype_are_kept_as_written() -> None:
    read = facts(DENSE)
    assert ("Qwen2ForCausalLM", "qwen2", "bfloat16") == (
        read.architecture,
        read.model_type,
        read.torch_dtype,
    )


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_nested_text_part_carries_the_shape(key: str) -> None:
    assert 28 == facts_from_config({"model_type": "x", key: DENSE}, "x").attention_heads


def test_thinker_carries_text_and_tower() -> None:
    read = facts(thinker_config={"text_config": DENSE, "vision_config": {"num_heads": 16}})
    assert (28, 16) == (read.attention_heads, read.vision_heads)


def test_nested_llama_leaves_out_what_equals_its_defaults() -> None:
    read = facts(model_type="llava", text_config={"model_type": "llama", "vocab_size": 32064})
    assert (32, 32, 32, 11008, 32064) == (
        read.num_layers,
        read.attention_heads,
        read.kv_heads,
        read.intermediate_size,
        read.vocab_size,
    )


def test_top_level_llama_has_no_defaults() -> None:
    assert facts(model_type="llama") == ModelFacts(
        id="org/name",
        model_type="llama",
        vision_tower=False,
        tie_word_embeddings=False,
        provenance="config.json",
    )


def test_gpt2_keys() -> None:
    read = facts(model_type="gpt2", n_embd=1600, n_head=25, n_layer=48, n_positions=1024)
    assert (1600, 25, 25, 48, 6400, 1024) == (
        read.hidden_size,
        read.attention_heads,
        read.kv_heads,
        read.num_layers,
        read.intermediate_size,
        read.max_position_embeddings,
    )


def test_opt_names_its_ffn_otherwise() -> None:
    assert 3072 == simple(model_type="opt", ffn_dim=3072).intermediate_size


def test_mpt_gives_its_ffn_as_a_ratio() -> None:
    read = facts(model_type="mpt", d_model=4096, n_heads=32, n_layers=32, expansion_ratio=4)
    assert (16384, 32) == (read.intermediate_size, read.kv_heads)


def test_bloom_does_not_state_its_ffn() -> None:
    read = facts(model_type="bloom", hidden_size=14336, n_layer=70, n_head=112)
    assert (None, None) == (read.intermediate_size, read.dense_ffn)


def test_dbrx_nests_attention_and_experts() -> None:
    read = facts(
        model_type="dbrx",
        d_model=6144,
        n_heads=48,
        n_layers=40,
        attn_config={"kv_n_heads": 8},
        ffn_config={"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    )
    assert (48, 8, 16, 4, 10752, False) == (
        read.attention_heads,
        read.kv_heads,
        read.num_experts,
        read.experts_per_token,
        read.moe_intermediate_size,
        read.dense_ffn,
    )


def test_chatglm_keys() -> None:
    read = facts(
        model_type="chatglm",
        num_layers=28,
        hidden_size=4096,
        num_attention_heads=32,
        kv_channels=128,
        multi_query_attention=True,
        multi_query_group_num=2,
        ffn_hidden_size=13696,
        padded_vocab_size=65024,
        seq_length=8192,
    )
    assert (2, 128, 13696, 65024, 8192) == (
        read.kv_heads,
        read.head_dim,
        read.intermediate_size,
        read.vocab_size,
        read.max_position_embeddings,
    )


def test_group_count_without_its_switch_leaves_kv_heads_open() -> None:
    assert simple(model_type="chatglm", multi_query_group_num=2).kv_heads is None


def test_group_count_that_is_switched_off() -> None:
    read = simple(model_type="chatglm", multi_query_group_num=2, multi_query_attention=False)
    assert 32 == read.kv_heads


def test_first_qwen_stores_twice_its_ffn() -> None:
    assert 5504 == simple(model_type="qwen", intermediate_size=11008).intermediate_size


def test_command_r_keeps_its_true_length_in_another_key() -> None:
    read = simple(model_type="cohere", max_position_embeddings=8192, model_max_length=131072)
    assert 131072 == read.max_position_embeddings


def test_dtype_may_stand_at_the_top_alone() -> None:
    assert "float16" == facts(text_config={"hidden_size": 8}, dtype="torch.float16").torch_dtype


@pytest.mark.parametrize(("kind", "tied"), [("gemma2", True), ("qwen3", False), ("unheard", None)])
def test_tie_follows_the_class_where_it_is_not_stated(kind: str, tied: bool | None) -> None:
    assert tied is simple(model_type=kind).tie_word_embeddings


# ------------------------------------------------------------------------------------- heads


def test_missing_kv_heads_mean_one_per_query_head() -> None:
    assert 32 == simple(model_type="llama").kv_heads


def test_old_falcon_has_one_kv_head_by_default() -> None:
    read = facts(model_type="falcon", num_attention_heads=71, hidden_size=4544, num_kv_heads=71)
    assert (71, 1, 64) == (read.attention_heads, read.kv_heads, read.head_dim)


def test_new_falcon_states_its_kv_heads() -> None:
    read = facts(
        model_type="falcon",
        num_attention_heads=128,
        num_kv_heads=8,
        multi_query=True,
        new_decoder_architecture=True,
    )
    assert 8 == read.kv_heads


def test_multi_query_is_one_kv_head() -> None:
    assert 1 == simple(model_type="gpt_bigcode", multi_query=True).kv_heads


def test_stated_head_dim_wins_over_the_quotient() -> None:
    assert 128 == facts(hidden_size=1024, num_attention_heads=16, head_dim=128).head_dim


def test_family_with_its_own_default_leaves_head_dim_open() -> None:
    assert simple(model_type="gemma").head_dim is None


def test_indivisible_hidden_size_leaves_head_dim_open() -> None:
    assert facts(hidden_size=1000, num_attention_heads=7).head_dim is None


def test_malformed_kv_heads_are_not_taken_as_missing() -> None:
    assert simple(num_key_value_heads="eight").kv_heads is None


def test_second_kv_head_count_is_kept() -> None:
    assert (4, (8,)) == (facts(MIMO).kv_heads, facts(MIMO).other_kv_heads)


def test_global_layers_have_their_own_kv_heads() -> None:
    assert (8, (2,)) == (facts(GEMMA_4).kv_heads, facts(GEMMA_4).other_kv_heads)


def test_larger_of_two_head_counts_comes_first() -> None:
    read = simple(
        model_type="step3p5",
        num_attention_groups=8,
        attention_other_setting={"num_attention_heads": 48, "num_attention_groups": 8},
    )
    assert (48, (32,), 8, ()) == (
        read.attention_heads,
        read.other_attention_heads,
        read.kv_heads,
        read.other_kv_heads,
    )


def block(group: int | None, **attention: Any) -> dict[str, Any]:
    return {"attention": {"n_heads_in_group": group, "no_op": group is None, **attention}}


def test_blocks_state_kv_heads_layer_by_layer() -> None:
    blocks = [block(8), block(None), block(16), block(8, replace_with_linear=True)]
    read = facts(
        model_type="nemotron-nas",
        hidden_size=8192,
        num_attention_heads=64,
        num_hidden_layers=4,
        num_key_value_heads=None,
        block_configs=blocks,
    )
    assert (8, (4,)) == (read.kv_heads, read.other_kv_heads)
    assert (KvGroup(1, 8, 512), KvGroup(1, 4, 512)) == read.kv_groups


def test_unreadable_block_leaves_kv_heads_open() -> None:
    read = simple(model_type="nemotron-nas", block_configs=[block(8), {"attention": 3}])
    assert (None, ()) == (read.kv_heads, read.kv_groups)


def test_kv_heads_listed_per_layer() -> None:
    read = facts(
        model_type="deci",
        hidden_size=4096,
        num_hidden_layers=3,
        num_attention_heads=32,
        num_key_value_heads_per_layer=[4, 4, 1],
    )
    assert (4, (1,), (KvGroup(2, 4, 512), KvGroup(1, 1, 512))) == (
        read.kv_heads,
        read.other_kv_heads,
        read.kv_groups,
    )


# ------------------------------------------------------------------------------------ experts


def test_mixtral_experts_have_the_plain_width() -> None:
    read = facts(MIXTRAL)
    assert (8, 2, 14336, False, None) == (
        read.num_experts,
        read.experts_per_token,
        read.moe_intermediate_size,
        read.dense_ffn,
        read.shared_expert_intermediate_size,
    )


def test_deepseek_has_dense_layers_first() -> None:
    read = facts(DEEPSEEK_V3)
    assert (256, 8, 18432, 2048, 2048, True) == (
        read.num_experts,
        read.experts_per_token,
        read.intermediate_size,
        read.moe_intermediate_size,
        read.shared_expert_intermediate_size,
        read.dense_ffn,
    )


def test_no_dense_layer_where_the_first_mixture_is_layer_zero() -> None:
    assert False is facts(DEEPSEEK_V3, first_k_dense_replace=0).dense_ffn


def test_dense_layers_are_open_where_nothing_names_them() -> None:
    assert facts(DEEPSEEK_V3, first_k_dense_replace=None).dense_ffn is None


def test_all_layers_of_qwen3_moe_are_mixtures() -> None:
    keys = {"num_experts": 128, "moe_intermediate_size": 1536, "intermediate_size": 12288}
    assert False is simple(model_type="qwen3_moe", **keys).dense_ffn


def test_layers_named_as_plain_are_dense() -> None:
    keys = {"num_experts": 128, "moe_intermediate_size": 1536, "intermediate_size": 12288}
    assert True is simple(model_type="qwen3_moe", mlp_only_layers=[0], **keys).dense_ffn


@pytest.mark.parametrize(("step", "dense"), [(1, False), (2, True)])
def test_llama4_dense_layers_have_a_width_of_their_own(step: int, dense: bool) -> None:
    read = simple(
        model_type="llama4_text",
        intermediate_size=8192,
        intermediate_size_mlp=16384,
        interleave_moe_layer_step=step,
        num_local_experts=128,
    )
    assert (16384, 8192, 8192, dense) == (
        read.intermediate_size,
        read.moe_intermediate_size,
        read.shared_expert_intermediate_size,
        read.dense_ffn,
    )


def test_period_of_experts_leaves_dense_layers_between() -> None:
    read = simple(
        model_type="jamba", intermediate_size=14336, num_experts=16, expert_layer_period=2
    )
    assert (14336, 14336, True) == (
        read.intermediate_size,
        read.moe_intermediate_size,
        read.dense_ffn,
    )


def test_list_of_mixture_layers_with_a_zero_names_a_dense_one() -> None:
    assert (True, None) == (
        facts(MIMO).dense_ffn,
        facts(MIMO).shared_expert_intermediate_size,
    )


@pytest.mark.parametrize(
    ("layers", "dense"),
    [("3,4,5,6,7", True), ([3, 4, 5, 6, 7], True), ("0,1,2,3,4,5,6,7", False)],
)
def test_mixture_layers_are_listed(layers: Any, dense: bool) -> None:
    read = simple(
        model_type="step3p5",
        intermediate_size=11264,
        moe_num_experts=288,
        moe_top_k=8,
        moe_intermediate_size=1280,
        share_expert_dim=1280,
        moe_layers_enum=layers,
    )
    assert (288, 8, 1280, dense) == (
        read.num_experts,
        read.experts_per_token,
        read.shared_expert_intermediate_size,
        read.dense_ffn,
    )


def test_one_expert_is_no_mixture() -> None:
    read = simple(model_type="hunyuan_v1_dense", num_experts=1, intermediate_size=6144)
    assert (None, None, True) == (
        read.num_experts,
        read.moe_intermediate_size,
        read.dense_ffn,
    )


def test_experts_that_are_switched_off_do_not_count() -> None:
    text = {**GEMMA_4["text_config"], "enable_moe_block": False, "num_experts": None}
    read = facts(GEMMA_4, text_config=text)
    assert (None, None, True) == (
        read.num_experts,
        read.moe_intermediate_size,
        read.dense_ffn,
    )


def test_gemma4_has_a_dense_block_beside_its_experts() -> None:
    assert (128, True) == (facts(GEMMA_4).num_experts, facts(GEMMA_4).dense_ffn)


def test_number_repeated_for_every_layer_is_one_number() -> None:
    read = simple(
        model_type="hunyuan_v1_moe",
        num_experts=64,
        moe_topk=[8] * 8,
        moe_intermediate_size=[3072] * 8,
        num_shared_expert=[1] * 8,
    )
    assert (8, 3072, 3072) == (
        read.experts_per_token,
        read.moe_intermediate_size,
        read.shared_expert_intermediate_size,
    )


def test_widths_that_differ_by_layer_are_left_open() -> None:
    assert (
        simple(model_type="gemma3n_text", intermediate_size=[8192, 16384]).intermediate_size is None
    )


# ----------------------------------------------------------------------------------- KV cache


def test_alike_layers_are_one_group() -> None:
    assert (KvGroup(28, 4, 512),) == facts(DENSE).kv_groups


def test_latent_cache_is_one_shared_entry() -> None:
    read = facts(DEEPSEEK_V3)
    assert (512, 64, (KvGroup(61, 1, 1152, shared=True),)) == (
        read.kv_lora_rank,
        read.qk_rope_head_dim,
        read.kv_groups,
    )


def test_head_dim_means_nothing_beside_a_latent_cache() -> None:
    assert facts(DEEPSEEK_V3).head_dim is None


def test_two_attentions_per_layer_keep_two_entries() -> None:
    read = facts(DEEPSEEK_V3, model_type="longcat_flash", num_hidden_layers=None, num_layers=28)
    assert (KvGroup(56, 1, 1152, shared=True),) == read.kv_groups


def test_architecture_stands_in_for_a_missing_type() -> None:
    read = facts(
        DEEPSEEK_V3,
        architectures=["LongcatFlashForCausalLM"],
        model_type=None,
        num_hidden_layers=28,
    )
    assert (None, 56) == (read.model_type, read.kv_groups[0].layers)


def test_compressed_cache_is_left_open() -> None:
    read = simple(
        model_type="deepseek_v4",
        num_key_value_heads=1,
        head_dim=512,
        compress_ratios=[0, 4, 128, 4, 128, 4, 128, 0],
    )
    assert (1, 512, None, ()) == (read.kv_heads, read.head_dim, read.kv_lora_rank, read.kv_groups)


def test_narrow_values_and_second_heads_make_two_groups() -> None:
    assert (KvGroup(2, 4, 640), KvGroup(4, 8, 640, 128)) == facts(MIMO).kv_groups


def test_global_layers_have_wider_heads() -> None:
    assert (KvGroup(5, 2, 2048), KvGroup(25, 8, 1024, 1024)) == facts(GEMMA_4).kv_groups


def test_layers_with_entries_of_their_own() -> None:
    text = {key: value for key, value in GEMMA_4["text_config"].items() if "global" not in key}
    text["per_layer_config"] = {
        f"{layer:02}": {"head_dim": 512, "num_key_value_heads": 2} for layer in range(5, 30, 6)
    }
    read = facts(GEMMA_4, text_config=text)
    assert (KvGroup(5, 2, 2048), KvGroup(25, 8, 1024, 1024)) == read.kv_groups


def test_last_layers_that_share_a_cache_do_not_count() -> None:
    read = simple(model_type="gemma3n_text", head_dim=256, num_key_value_heads=2,
                  sliding_window=512, num_kv_shared_layers=3)  # fmt: skip
    assert (KvGroup(1, 2, 1024), KvGroup(4, 2, 1024, 512)) == read.kv_groups


@pytest.mark.parametrize(
    ("kind", "keys", "full"),
    [
        ("gemma2", {"head_dim": 128}, 4),
        ("gemma3_text", {"head_dim": 128}, 1),
        ("cohere2", {"sliding_window_pattern": 4}, 2),
        ("exaone4", {"sliding_window_pattern": "LLLG"}, 2),
    ],
)
def test_sliding_pattern(kind: str, keys: dict[str, Any], full: int) -> None:
    read = simple(model_type=kind, sliding_window=1024, **keys)
    assert (KvGroup(full, 32, 512), KvGroup(8 - full, 32, 512, 1024)) == read.kv_groups


def test_pattern_without_its_window_is_left_open() -> None:
    assert () == simple(model_type="exaone4").kv_groups


def test_window_that_is_the_default_of_a_class_is_known() -> None:
    assert (KvGroup(2, 32, 512), KvGroup(6, 32, 512, 4096)) == simple(model_type="olmo3").kv_groups


def test_window_that_is_null_slides_nowhere() -> None:
    assert (KvGroup(8, 32, 512),) == simple(model_type="exaone4", sliding_window=None).kv_groups


def test_sliding_layers_without_a_window_are_left_open() -> None:
    words = ["full_attention", "sliding_attention"] * 4
    assert () == simple(layer_types=words, sliding_window=None).kv_groups


def test_one_window_for_all_layers_counts_as_full() -> None:
    read = simple(model_type="mistral", sliding_window=4096).kv_groups
    assert (KvGroup(8, 32, 512, common_window=4096),) == read


def test_gpt_oss_has_its_window_by_default() -> None:
    read = simple(model_type="gpt_oss", head_dim=64, num_key_value_heads=8)
    assert (KvGroup(4, 8, 256), KvGroup(4, 8, 256, 128)) == read.kv_groups


@pytest.mark.parametrize(
    ("kind", "keys", "full"),
    [
        ("qwen3_next", {"head_dim": 128}, 2),
        ("qwen3_5_text", {"head_dim": 128, "full_attention_interval": 8}, 1),
        ("jamba", {"attn_layer_period": 8, "attn_layer_offset": 4}, 1),
        ("minimax_text_01", {"attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1]}, 1),
        ("granitemoehybrid", {"layer_types": ["mamba"] * 6 + ["attention"] * 2}, 2),
        ("nemotron_h", {"hybrid_override_pattern": "MEM*EM-*"}, 2),
        ("nemotron_h", {"layers_block_type": ["mamba", "moe"] * 3 + ["attention", "mlp"]}, 1),
        ("mllama_text_model", {"cross_attention_layers": [3, 7]}, 6),
        ("falcon_h1", {"mamba_n_heads": 32}, 8),
        ("bert", {}, 0),
    ],
)
def test_only_attention_layers_keep_tokens(kind: str, keys: dict[str, Any], full: int) -> None:
    read = simple(model_type=kind, **keys)
    assert full == sum(group.layers for group in read.kv_groups)


def test_layers_of_linear_attention_are_counted_from_one() -> None:
    read = facts(
        model_type="kimi_linear",
        num_hidden_layers=27,
        num_attention_heads=32,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        linear_attn_config={"full_attn_layers": [4, 8, 12, 16, 20, 24, 27]},
    )
    assert (KvGroup(7, 1, 1152, shared=True),) == read.kv_groups


def test_unknown_hybrid_is_left_open() -> None:
    assert () == simple(model_type="unheard", mamba_d_state=128).kv_groups


def test_unknown_kind_of_layer_is_left_open() -> None:
    assert () == simple(layer_types=["full_attention", "unheard_attention"] * 4).kv_groups


def test_layers_are_counted_where_only_their_kinds_are_listed() -> None:
    read = facts(hybrid_override_pattern="M*M-")
    assert 4 == read.num_layers


def test_pure_state_space_model_has_neither_heads_nor_cache() -> None:
    read = facts(model_type="falcon_mamba", hidden_size=4096, num_hidden_layers=64)
    assert (None, None, ()) == (read.attention_heads, read.kv_heads, read.kv_groups)


# -------------------------------------------------------------------------------------- vision


def test_text_model_has_no_tower() -> None:
    assert (False, None) == (facts(DENSE).vision_tower, facts(DENSE).vision_heads)


@pytest.mark.parametrize(
    "key", ["num_heads", "num_attention_heads", "attention_heads", "vt_num_attention_heads"]
)
def test_tower_states_its_heads(key: str) -> None:
    read = facts(DENSE, vision_config={key: 16})
    assert (True, 16) == (read.vision_tower, read.vision_heads)


def test_tower_without_a_head_count() -> None:
    assert (True, None) == (
        facts(DENSE, img_processor={"name": "clip_vision_model"}).vision_tower,
        facts(DENSE, img_processor={"name": "clip_vision_model"}).vision_heads,
    )


def test_tower_is_open_where_an_abridged_config_leaves_it_out() -> None:
    assert facts(DENSE, architectures=["Llama4ForConditionalGeneration"]).vision_tower is None


# ----------------------------------------------------------------------------------- malformed

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**30, 2**31, 2**31 + 1]),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.lists(st.one_of(st.integers(), st.text(max_size=3), st.none()), max_size=9),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)
SEEDS = (DENSE, MIXTRAL, DEEPSEEK_V3, GEMMA_4, MIMO)
KEYS = sorted(
    {key for seed in SEEDS for key in (*seed, *seed.get("text_config", {}))}
    | {
        "architectures",
        "attn_layer_period",
        "attn_type_list",
        "block_configs",
        "cross_attention_layers",
        "full_attention_interval",
        "hybrid_override_pattern",
        "layers_block_type",
        "linear_attn_config",
        "num_kv_shared_layers",
        "per_layer_config",
        "quantization_config",
        "sliding_window_pattern",
    }
)


def is_sound(read: ModelFacts) -> bool:
    """No number that cannot be a count."""
    parameters = [read.params_total, read.params_text, read.params_active]
    if not all(n is None or 0 < n <= 10**14 for n in parameters):
        return False
    numbers = [
        getattr(read, field.name) for field in fields(read) if not field.name.startswith("params")
    ]
    numbers += [*read.other_attention_heads, *read.other_kv_heads]
    for group in read.kv_groups:
        numbers += [group.layers, group.heads, group.bytes_per_head, group.window]
    counts = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool)]
    return all(0 < n < 2**40 for n in counts)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(SEEDS), st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=4))
def test_malformed_config_yields_no_nonsense(seed: dict[str, Any], junk: dict[str, Any]) -> None:
    config = copy.deepcopy(seed)
    config.update(junk)
    if isinstance(config.get("text_config"), dict):
        config["text_config"].update(junk)
    assert is_sound(facts_from_config(config, "x"))


@given(st.dictionaries(st.sampled_from(KEYS), JUNK))
def test_nothing_but_junk_yields_no_nonsense(config: dict[str, Any]) -> None:
    assert is_sound(facts_from_config(config, "x"))


@pytest.mark.parametrize("value", [0, -8, True, "32", 32.0, [32, 16], {"a": 1}, 10**30])
def test_what_is_no_count_is_not_stated(value: object) -> None:
    assert facts(DENSE, num_attention_heads=value).attention_heads is None


def test_list_of_facts_is_refused() -> None:
    with pytest.raises(ModelError, match="not a mapping"):
        facts_from_config([DENSE], "x")  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------- files


def test_folder_without_a_config_has_no_facts(tmp_path: Path) -> None:
    assert from_folder(tmp_path) is None


def test_folder_that_cannot_exist_has_no_facts() -> None:
    assert from_folder(Path("x" * 5000)) is None


def test_folder_with_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    read = from_folder(tmp_path, "org/name")
    assert replace(facts(DENSE), quantization={}) == read


def test_quantization_beside_the_config_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    read = from_folder(tmp_path)
    assert read is not None
    expected = {"method": "modelopt", "quant_algo": "FP8", "bits": 8, "beside": "unnamed"}
    assert expected == read.quantization


def test_file_is_its_own_id(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DENSE))
    assert str(path) == from_config_file(path).id


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe{", "not JSON"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b" " * (MOST_BYTES + 1), "larger than 5 MiB"),
    ],
    ids=["empty", "deep", "bytes", "digits", "list", "large"],
)
def test_file_that_is_no_config_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=message):
        from_folder(tmp_path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a file"):
        from_config_file(tmp_path / "config.json")
