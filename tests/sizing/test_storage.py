"""What a matrix costs in each scheme, and which matrices are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from shardlint.footprint import Part
from shardlint.matrices import Weight
from shardlint.models.quantization import normalised
from shardlint.sizing.storage import NVFP4, PLAIN, Scheme, scheme_of, storage

GPTQ = {"method": "gptq", "bits": 4, "group_size": 128}
AWQ = {"method": "awq", "bits": 4, "group_size": 128}
TENSORS = {"method": "compressed-tensors"}
MATRIX = 256 * 512
"""Elements of the matrix below."""


@pytest.mark.parametrize(
    ("record", "bytes"),
    [
        ({}, 2 * MATRIX),
        ({"method": "fp8", "bits": 8}, MATRIX + 8),
        ({"method": "fp8", "bits": 8, "weight_block_size": [128, 128]}, MATRIX + 2 * 4 * 4),
        ({**TENSORS, "type": "float", "bits": 8}, MATRIX + 256 * 4),
        ({**TENSORS, "type": "float", "bits": 8, "strategy": "tensor"}, MATRIX + 8),
        ({**TENSORS, "type": "int", "bits": 8, "activation_bits": 8}, MATRIX + 256 * 4),
        (
            {**TENSORS, "type": "int", "bits": 8, "activation_bits": 8, "strategy": "tensor"},
            MATRIX + 8,
        ),
        ({**TENSORS, "type": "int", "bits": 4, "group_size": 128}, MATRIX // 2 + 256 * 4 * 2),
        (
            {**TENSORS, "type": "int", "bits": 4, "group_size": 128, "symmetric": False},
            MATRIX // 2 + 256 * 4 * 2.5,
        ),
        (AWQ, MATRIX // 2 + 256 * 4 * 2.5),
        (GPTQ, MATRIX // 2 + 256 * 4 * 2.5),
        ({**GPTQ, "symmetric": True}, MATRIX // 2 + 256 * 4 * 2),
        ({**GPTQ, "symmetric": True, "act_order": True}, MATRIX // 2 + 256 * 4 * 2 + 512 * 4),
        ({**GPTQ, "bits": 8, "group_size": -1}, MATRIX + 256 * 3),
        ({"method": "modelopt", "quant_algo": "NVFP4", "bits": 4}, MATRIX // 2 + MATRIX // 16),
        ({"method": "mxfp4", "bits": 4, "group_size": 32}, MATRIX // 2 + MATRIX // 32),
        ({"method": "modelopt", "quant_algo": "MXFP8", "bits": 8}, MATRIX + MATRIX // 32),
        ({"method": "bitsandbytes", "bits": 4}, MATRIX // 2 + MATRIX // 64 * 4),
        ({"method": "bitsandbytes", "bits": 8}, MATRIX + 256 * 4),
    ],
)
def test_bytes_of_a_matrix(record: dict[str, Any], bytes: float) -> None:
    scheme = scheme_of(record)
    assert scheme is not None
    assert scheme.bytes(Part(256, 512)) == bytes
    assert scheme.bytes(Part(256, 512, 3)) == 3 * bytes


@pytest.mark.parametrize("record", [None, {"method": "gguf", "bits": 4}, {"method": "unknown"}])
def test_what_is_not_known_costs_nothing_known(record: dict[str, Any] | None) -> None:
    assert scheme_of(record) is None


def test_scales_are_refined_where_the_engine_says_so() -> None:
    fp8 = scheme_of({"method": "fp8", "bits": 8, "weight_block_size": [128, 128]})
    assert fp8 is not None
    assert fp8.bytes(Part(192, 128, 1, (64, 64))) == 192 * 128 + 3 * 2 * 4
    assert NVFP4.bytes(Part(192, 128, 1, (64, 64))) == NVFP4.bytes(Part(192, 128))


def test_zero_points_of_a_symmetric_scheme_go_with_refined_groups() -> None:
    scheme = storage({**GPTQ, "symmetric": True}).scheme(Weight("up_proj", "expert", 8, 256))
    assert scheme is not None
    assert scheme.bytes(Part(8, 256)) == 8 * 256 // 2 + 8 * 2 * 2.5
    assert scheme.bytes(Part(8, 96, 1, (1, 32))) == 8 * 96 // 2 + 8 * 3 * 2


def test_what_is_unpacked_counts_where_it_was_packed() -> None:
    part = Part(64, 64, unpacked=64 * 64)
    matrix = Weight("kv_b_proj", "attention", 64, 64)
    fp8 = {"method": "fp8", "bits": 8}
    assert storage(fp8).bytes(matrix, part, (0,), 1) == 64 * 64 + 8 + 64 * 64 * 2
    assert storage({**fp8, "ignore": ["attention"]}).bytes(matrix, part, (0,), 1) == 64 * 64 * 2
    assert storage({}).bytes(matrix, part, (0,), 1) == 64 * 64 * 2


# ------------------------------------------------------------------------------ what is left alone

UP = Weight("up_proj", "dense_ffn", 64, 64)
Q = Weight("q_proj", "attention", 64, 64)
WQ = Weight("indexer.wq_b", "indexer", 64, 64)
EIGHT, SIXTEEN = 64 * 64 + 8, 64 * 64 * 2
FP8 = {"method": "fp8", "bits": 8}


def cost(record: dict[str, Any], weight: Weight, layers: int = 4, of: int = 4) -> int | None:
    part = Part(weight.outputs, weight.inputs, weight.count)
    return storage(record).bytes(weight, part, tuple(range(layers)), of)


def test_classes_that_are_skipped_stay_in_sixteen_bits() -> None:
    record = {**FP8, "ignore": ["attention"]}
    assert cost(record, UP) == 4 * EIGHT
    assert cost(record, Q) == 4 * SIXTEEN


def test_a_class_may_be_skipped_in_some_layers() -> None:
    record = {**FP8, "ignore": ["attention"], "ignore_layers": {"attention": 1}}
    assert cost(record, Q) == SIXTEEN + 3 * EIGHT
    assert cost(record, Q, layers=2, of=2) == SIXTEEN + EIGHT


def test_of_a_class_single_matrices_may_be_skipped() -> None:
    record = {**FP8, "ignore": ["attention"], "ignore_only": {"attention": ["q_proj"]}}
    assert cost(record, Q) == 4 * SIXTEEN
    assert cost(record, Weight("o_proj", "attention", 64, 64)) == 4 * EIGHT


def test_the_first_layers_may_be_left_alone_whole() -> None:
    record = {**FP8, "ignore": ["layer"], "ignore_layers": {"layer": 1}}
    assert cost(record, UP) == SIXTEEN + 3 * EIGHT
    with_attention = {
        **FP8,
        "ignore": ["attention", "layer"],
        "ignore_layers": {"layer": 1, "attention": 3},
    }
    assert cost(with_attention, Q) == 4 * SIXTEEN


def test_the_indexer_is_part_of_the_attention() -> None:
    assert cost({**FP8, "ignore": ["attention"]}, WQ) == 4 * SIXTEEN
    only = {**FP8, "ignore": ["attention"], "ignore_only": {"attention": ["q_proj"]}}
    assert cost(only, WQ) == 4 * EIGHT


def test_classes_may_have_schemes_of_their_own() -> None:
    record = {
        "method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "parts": {"attention": {"quant_algo": "FP8"}},
    }
    assert cost(record, Q) == 4 * EIGHT
    assert cost(record, UP) == 4 * SIXTEEN


def test_vectors_are_never_quantized() -> None:
    bias = Weight("down_proj.bias", "expert", 64, 1, count=8)
    assert cost({"method": "mxfp4", "bits": 4}, bias, layers=1) == 64 * 8 * 2
    own = {**FP8, "parts": {"expert": {"quant_algo": "NVFP4"}}}
    assert cost(own, bias, layers=1) == 64 * 8 * 2


@pytest.mark.parametrize("part", ["norm", "embedding", "lm_head", "router", "vision"])
def test_some_classes_stay_as_they_are(part: str) -> None:
    assert storage(FP8).scheme(Weight("any", part, 64, 64)) == PLAIN


def test_a_type_of_its_own_is_kept() -> None:
    assert cost(FP8, Weight("gate", "router", 64, 64, element=4)) == 4 * 64 * 64 * 4
    assert cost(FP8, Weight("table", "norm", 64, 64, element=8)) == 4 * 64 * 64 * 8


def test_a_checkpoint_that_nothing_is_known_of() -> None:
    assert storage(None).main is None
    assert storage({"method": "gguf", "bits": 4}).bytes(UP, Part(64, 64), (0,), 1) is None


# ----------------------------------------------------------------------------------- the record


def test_the_record_keeps_what_decides_zero_points_and_scales() -> None:
    gptq = normalised({"quant_method": "gptq", "bits": 4, "sym": True, "desc_act": True})
    assert gptq is not None
    assert (gptq["symmetric"], gptq["act_order"]) == (True, True)
    weights = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
    config = {"quant_method": "compressed-tensors", "config_groups": {"0": {"weights": weights}}}
    tensors = normalised(config)
    assert tensors is not None
    assert tensors["strategy"] == "tensor"
    assert "symmetric" not in tensors


def test_schemes_have_names() -> None:
    assert Scheme(name="any", bits=8).bytes(Part(4, 4)) == 16
