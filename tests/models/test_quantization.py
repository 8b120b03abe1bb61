"""Quantization configs of all tools come out in one vocabulary."""

from __future__ import annotations

from typing import Any

import pytest
from shardlint.models.quantization import CLASSES, normalised


def test_nothing_stated_is_nothing_known() -> None:
    assert normalised(None) is None


@pytest.mark.parametrize("stated", [{}, "fp8", [1], {"quant_method": 3}])
def test_malformed_config_is_nothing_known(stated: Any) -> None:
    assert normalised(stated) is None


def test_blocks_of_fp8() -> None:
    stated = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    assert {"method": "fp8", "bits": 8, "weight_block_size": [128, 128]} == normalised(stated)


@pytest.mark.parametrize("block", [None, 128, [128], [128, -1], [128, "128"]])
def test_no_block_size_is_made_up(block: Any) -> None:
    assert {"method": "fp8", "bits": 8} == normalised(
        {"quant_method": "fp8", "weight_block_size": block}
    )


def test_groups_of_awq() -> None:
    stated = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    assert {"method": "awq", "bits": 4, "group_size": 128} == normalised(stated)


def test_one_group_over_the_whole_input() -> None:
    stated = {"quant_method": "gptq", "bits": 4, "group_size": -1}
    assert {"method": "gptq", "bits": 4, "group_size": -1} == normalised(stated)


def test_bitsandbytes_says_its_bits_in_flags() -> None:
    stated = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    assert {"method": "bitsandbytes", "bits": 4} == normalised(stated)


def test_mxfp4_implies_its_groups() -> None:
    assert {"method": "mxfp4", "bits": 4, "group_size": 32} == normalised({"quant_method": "mxfp4"})


def int4(**weights: Any) -> dict[str, Any]:
    return {"weights": {"num_bits": 4, "type": "int", "group_size": 128, **weights}}


def test_compressed_tensors_keeps_its_scheme_in_groups() -> None:
    stated = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {**int4(), "input_activations": None}},
    }
    assert {
        "method": "compressed-tensors",
        "format": "pack-quantized",
        "type": "int",
        "bits": 4,
        "group_size": 128,
    } == normalised(stated)


def test_quantized_activations_are_told_apart() -> None:
    group = {"weights": {"num_bits": 8}, "input_activations": {"num_bits": 8}}
    found = normalised({"quant_method": "compressed-tensors", "config_groups": {"g": group}})
    assert found is not None
    assert (8, 8) == (found["bits"], found["activation_bits"])


def test_groups_that_differ_have_no_bits_in_common() -> None:
    stated = {
        "quant_method": "modelopt",
        "config_groups": {"group_0": int4(), "group_1": int4(num_bits=8)},
    }
    assert {"method": "modelopt", "quant_algo": "MIXED_PRECISION"} == normalised(stated)


def test_mixed_precision_has_no_block_size() -> None:
    stated = {
        "quant_method": "fp8",
        "quant_algo": "MIXED_PRECISION",
        "group_size": 16,
        "weight_block_size": [128, 128],
    }
    assert {"method": "fp8", "quant_algo": "MIXED_PRECISION"} == normalised(stated)


def test_file_beside_the_config_speaks_where_the_config_is_silent() -> None:
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}
    assert {
        "method": "modelopt",
        "quant_algo": "NVFP4",
        "bits": 4,
        "group_size": 16,
        "beside": "modelopt",
    } == normalised(None, beside)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({}, "unnamed"),
        ({"producer": {"name": "other"}}, "unnamed"),
        ({"producer": "modelopt"}, "unnamed"),
        ({"quantization": {"quant_algo": "FP8", "modelopt_quant_config": {}}}, "modelopt"),
    ],
)
def test_file_beside_the_config_may_not_say_who_wrote_it(more: dict[str, Any], named: str) -> None:
    found = normalised(None, {"quantization": {"quant_algo": "FP8"}, **more})
    assert found is not None
    assert named == found["beside"]


def test_config_wins_over_the_file_beside_it() -> None:
    beside = {"quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    found = normalised({"quant_method": "modelopt", "group_size": 32}, beside)
    assert found is not None
    assert ("NVFP4", 32) == (found["quant_algo"], found["group_size"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_cache_quant_algo", "FP8"),
        ("kv_cache_scheme", "FP8"),
        ("kv_cache_scheme", {"num_bits": 8, "type": "float"}),
    ],
)
def test_type_of_the_kv_cache(key: str, value: Any) -> None:
    found = normalised({"quant_method": "modelopt", key: value})
    assert {"method": "modelopt", "kv_cache_quant_algo": "FP8"} == found


def test_experts_of_another_type() -> None:
    found = normalised({"quant_method": "fp8"}, expert_dtype="fp4")
    assert {"method": "fp8", "bits": 8, "expert_dtype": "fp4"} == found


# --------------------------------------------------------------------------- what is left alone


def ignored(*names: str, layers: int | None = None) -> Any:
    stated = {"quant_method": "modelopt", "ignore": list(names)}
    return (normalised(stated, layers=layers) or {}).get("ignore")


@pytest.mark.parametrize(
    ("name", "matrices"),
    [
        ("lm_head", "lm_head"),
        ("head", "lm_head"),
        ("re:.*lm_head.*", "lm_head"),
        ("model.embed_tokens", "embedding"),
        ("backbone.embeddings", "embedding"),
        ("model.layers.3.self_attn.q_proj", "attention"),
        ("model.layers.3.self_attn*", "attention"),
        ("re:.*self_attn.*", "attention"),
        ("*.attn.*", "attention"),
        ("backbone.layers.5.mixer.q_proj", "attention"),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa", "attention"),
        ("model.layers.3.self_attn.indexer*", "indexer"),
        ("model.layers.3.linear_attn*", "linear_attention"),
        ("backbone.layers.4.mixer.in_proj", "linear_attention"),
        ("model.layers.3.mlp.gate", "router"),
        ("gate", "router"),
        ("model.layers.*.mlp.router", "router"),
        ("model.layers.3.block_sparse_moe.gate", "router"),
        ("model.layers.3.mlp.shared_expert_gate", "router"),
        ("model.layers.3.mlp.shared_experts*", "shared_expert"),
        ("*.mlp.shared_expert.*", "shared_expert"),
        (r"re:.*mlp\.(gate|up|gate_up|down)_proj.*", "dense_ffn"),
        ("model.layers.3.mlp*", "dense_ffn"),
        ("model.layers.3.mlp.experts*", "expert"),
        ("model.vision_tower", "vision"),
        ("vision_model.model.layers.3.self_attn.q_proj", "vision"),
        ("multi_modal_projector.linear_1", "vision"),
        ("mtp.layers.0*", "mtp"),
        ("model.layers.3*", "layer"),
        ("model.layers.3.*", "layer"),
    ],
)
def test_class_of_a_skipped_matrix(name: str, matrices: str) -> None:
    assert [matrices] == ignored(name)


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.3.self_attn.q_a_layernorm",
        "model.norm",
        "model.layers.3.input_layernorm",
        "model.layers.3.mlp.gate.e_score_correction_bias",
        "something else",
    ],
)
def test_what_is_no_matrix_has_no_class(name: str) -> None:
    assert ignored(name) is None


def test_layer_after_the_last_is_a_draft_layer() -> None:
    assert ["mtp"] == ignored("model.layers.61*", layers=61)


def test_classes_are_named_once() -> None:
    assert ["attention", "lm_head"] == ignored(
        "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.o_proj", "lm_head"
    )


def test_class_that_is_skipped_in_some_layers_is_counted() -> None:
    names = ["model.layers.0.self_attn*", "model.layers.1.self_attn*", "lm_head"]
    found = normalised({"quant_method": "modelopt", "ignore": names}, layers=4)
    assert found is not None
    assert {"attention": 2} == found["ignore_layers"]


def test_class_that_is_skipped_in_all_layers_is_not_counted() -> None:
    names = ["model.layers.0.self_attn*", "model.layers.1.self_attn*"]
    assert "ignore_layers" not in (
        normalised({"quant_method": "modelopt", "ignore": names}, layers=2) or {}
    )


def test_lists_of_other_tools_are_not_read_beside_fp8() -> None:
    stated = {"quant_method": "fp8", "ignore": ["*.attn.*"], "modules_to_not_convert": ["gate"]}
    found = normalised(stated, {"quantization": {"exclude_modules": ["lm_head"]}})
    assert found is not None
    assert ["router"] == found["ignore"]


def test_single_matrices_of_a_class_are_named() -> None:
    names = ["model.layers.0.self_attn.q_a_proj", "model.layers.0.self_attn.kv_a_proj_with_mqa"]
    found = normalised({"quant_method": "modelopt", "ignore": names})
    assert found is not None
    assert {"attention": ["kv_a_proj", "q_a_proj"]} == found["ignore_only"]
    found = normalised({"quant_method": "modelopt", "ignore": [*names, "re:.*self_attn.*"]})
    assert found is not None
    assert "ignore_only" not in found


def test_schemes_by_class() -> None:
    listed = {
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.layers.0.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        "model.layers.1.mlp.gate_proj": {"quant_algo": "FP8"},
        "model.layers.2.mlp.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "model.layers.2.input_layernorm": {"quant_algo": "NVFP4"},
    }
    found = normalised({"quant_algo": "MIXED_PRECISION", "quantized_layers": listed})
    assert found is not None
    assert {
        "attention": {"quant_algo": "FP8"},
        "dense_ffn": {"quant_algo": ""},
        "expert": {"quant_algo": "NVFP4", "group_size": 16},
    } == found["parts"]


def test_names_that_are_no_texts_are_passed_over() -> None:
    assert {"method": "fp8", "bits": 8} == normalised(
        {"quant_method": "fp8", "modules_to_not_convert": [None, 3, ["lm_head"]]}
    )


def test_every_class_has_one_pattern() -> None:
    assert len(CLASSES) == len(dict(CLASSES))
