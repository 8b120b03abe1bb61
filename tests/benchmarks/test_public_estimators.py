"""What the public estimators are told, and the baseline beside them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def estimators() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import public_estimators
    finally:
        sys.path.remove(str(BENCHMARKS))
    return public_estimators


TEXT = {
    "hidden_size": 64,
    "vocab_size": 100,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
EMBEDDINGS = 2 * 64 * 100
ATTENTION = 2 * 64 * 16 * 2 * (4 + 2)


def checkpoint(quantization: Any = None, **text: Any) -> Any:
    config = TEXT | text
    return SimpleNamespace(
        parameters=100_000, quantization=quantization, text=config, config=config
    )


@pytest.mark.parametrize(
    ("quantization", "bits", "expected"),
    [
        (None, 16, {"BF16": 100_000}),
        ({"quant_method": "fp8"}, 8, {"BF16": EMBEDDINGS, "F8_E4M3": 100_000 - EMBEDDINGS}),
        (
            {"quant_method": "awq", "bits": 4},
            4,
            {"BF16": EMBEDDINGS + 87_200 // 128, "I32": 87_200 // 8},
        ),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
            4,
            {
                "BF16": EMBEDDINGS + ATTENTION,
                "U8": (87_200 - ATTENTION) // 2 + (87_200 - ATTENTION) // 32,
            },
        ),
        (
            {"method": "modelopt", "quant_algo": "NVFP4"},
            4,
            {"BF16": EMBEDDINGS, "U8": 87_200 // 2, "F8_E4M3": 87_200 // 16},
        ),
    ],
)
def test_a_checkpoint_is_split_by_its_scheme(
    estimators: Any, quantization: Any, bits: int, expected: dict[str, int]
) -> None:
    told = checkpoint(quantization)
    assert (estimators.bits(told), estimators.storage(told)) == (bits, expected)


def test_two_schemes_in_one_checkpoint_are_not_guessed(estimators: Any) -> None:
    assert estimators.storage(checkpoint({"quant_method": "fp8"}, expert_dtype="fp4")) is None


def test_the_baseline_is_plain_arithmetic(estimators: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TEXT), encoding="utf-8")
    asked = {
        "folder": str(tmp_path),
        "parameters": 2**30,
        "bits": 16,
        "tp": 2,
        "gpu_gib": 10.0,
        "utilization": 0.5,
        "kv_dtype": "auto",
        "max_model_len": 1024,
    }
    found = estimators.baseline(asked)
    tokens = 3.5 * 2**30 / (2 * 1 * 16 * 2 * 2)
    assert found == pytest.approx(
        {"weights_gib": 1.0, "kv_gib": 3.5, "kv_tokens": tokens, "concurrency": tokens / 1024}
    )
    assert estimators.baseline(asked | {"gpu_gib": None}) == {"weights_gib": 1.0}
