"""Free words for a quantization, against what checkpoints say of themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shardlint.sizing.storage import WORDS, family, record_of, scheme_of

BLOCKS = {"method": "fp8", "bits": 8, "weight_block_size": [128, 128]}
NVFP4 = {"method": "modelopt", "quant_algo": "NVFP4", "bits": 4, "group_size": 16,
         "ignore": ["lm_head"]}  # fmt: skip
MXFP4 = {"method": "mxfp4", "bits": 4, "group_size": 32, "ignore": ["attention"]}
MIXED = {"method": "modelopt", "quant_algo": "MIXED_PRECISION",
         "parts": {"expert": {"quant_algo": "NVFP4", "group_size": 16}}}  # fmt: skip
EXPERTS = {**BLOCKS, "expert_dtype": "fp4"}
AWQ = {"method": "awq", "bits": 4, "group_size": 64}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("fp8", "fp8"), ("FP8", "fp8"), ("fp8_e4m3", "fp8"), ("modelopt_fp8", "fp8"),
        ("fp8 block", "fp8"), ("ptpc_fp8", "fp8"), ("w8a8-fp8", "fp8"), ("fbgemm_fp8", "fp8"),
        ("fp4", "nvfp4"), ("nvfp4", "nvfp4"), ("modelopt nvfp4", "nvfp4"),
        ("modelopt_fp4", "nvfp4"), ("nvfp4 mixed", "nvfp4"), ("mxfp4", "mxfp4"),
        ("mxfp4 (marlin)", "mxfp4"), ("mxfp4 (triton)", "mxfp4"), ("mxfp8", "mxfp8"),
        ("bf16", "plain"), ("fp16", "plain"), ("bfloat16", "plain"),
        ("int4", "int4"), ("awq", "int4"), ("awq_marlin", "int4"), ("awq 4bit", "int4"),
        ("gptq", "int4"), ("gptq_marlin", "int4"), ("w4a16", "int4"), ("auto_round", "int4"),
        ("gptq-int8", "int8"), ("int8", "int8"), ("w8a8", "int8"), ("w8a8 int8", "int8"),
        ("torchao int8dq", "int8"), ("experts_int8", "int8"), ("bitsandbytes", "nf4"),
        ("bnb 8bit", "int8bnb"),
    ],
)  # fmt: skip
def test_word_makes_a_record_of_its_family(word: str, expected: str) -> None:
    record, said = record_of(word, {})
    assert expected == family(record)
    assert scheme_of(record) is not None
    assert (said is None) == (expected == "plain")


def test_blocks_are_made_only_where_they_are_named() -> None:
    assert (128, 128) == record_of("fp8 block", {})[0]["weight_block_size"]
    assert "weight_block_size" not in record_of("fp8", {})[0]


@pytest.mark.parametrize(
    ("word", "own"),
    [
        (None, BLOCKS), ("auto", NVFP4), ("none", {}),
        ("fp8", BLOCKS), ("fp8 block", {"method": "fp8", "bits": 8}),
        ("fp4", NVFP4), ("modelopt nvfp4", NVFP4), ("fp4", MXFP4), ("mxfp4", MXFP4),
        ("nvfp4", MIXED), ("nvfp4 mixed", MIXED), ("modelopt_mixed", MIXED), ("fp4", MIXED),
        ("fp8", EXPERTS), ("fp4", EXPERTS), ("mxfp4", EXPERTS),
        ("awq_marlin", AWQ), ("int4", AWQ), ("bf16", {}),
    ],
)  # fmt: skip
def test_word_of_the_checkpoints_own_family_keeps_its_record(
    word: str | None, own: dict[str, Any]
) -> None:
    record, said = record_of(word, own)
    assert record is own
    assert said is None


@pytest.mark.parametrize(
    "word", ["modelopt", "compressed-tensors", "exl3", "gguf", "frob", "marlin"]
)
def test_word_that_names_no_storage_means_the_checkpoints_own(word: str) -> None:
    record, said = record_of(word, NVFP4)
    assert record is NVFP4
    assert said is not None
    assert word in said


def test_another_family_than_the_checkpoints_wins() -> None:
    assert "int4" == family(record_of("awq", BLOCKS)[0])
    record, said = record_of("bf16", BLOCKS)
    assert {} == record
    assert said is not None


def test_storage_that_nobody_tells_of_is_taken_as_16_bits_and_said() -> None:
    for word in (None, "modelopt", "modelopt_mixed"):
        record, said = record_of(word, None)
        assert {} == record
        assert "16 bits are taken" in (said or "")


def test_rows_mean_what_they_make() -> None:
    for pattern, families, made in WORDS:
        assert family(made) in families or not made, pattern


@given(st.text(max_size=40) | st.none(), st.sampled_from([None, {}, BLOCKS, MIXED]))
def test_any_text_has_a_record(word: str | None, own: dict[str, Any] | None) -> None:
    record, said = record_of(word, own)
    assert isinstance(record, dict)
    assert said is None or "\n" not in said
