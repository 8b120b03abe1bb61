"""TGI: what its shards hold, and what it leaves open."""

from __future__ import annotations

from typing import Any

import pytest
from harness import check, project
from shardlint.demands import Sizer, demand_of
from shardlint.engines.tgi import TGI

SERVE = "text-generation-launcher --model-id"
LLAMA, MISTRAL = "meta-llama/Llama-2-70b-chat-hf", "mistralai/Mistral-7B-Instruct-v0.2"


NO = "weights-do-not-fit"


def findings(command: str, gpu: str, **told: Any) -> dict[str, str]:
    found = check(command, gpu=gpu, gpus_per_node=8, **told).findings
    return {f.name: f.severity for f in found if f.rule.startswith("SL60")}


@pytest.mark.parametrize(
    ("command", "gpu", "found"),
    [
        (f"{LLAMA} --num-shard 4", "A10G", {"weights-do-not-fit": "error"}),
        (f"{LLAMA} --num-shard 8", "A10G", {}),
        (f"{LLAMA} --num-shard 4 --quantize bitsandbytes-nf4", "A10G", {}),
        # 8 bits for each weight, or 4 with scales that are stored in 8 bits themselves
        (f"{LLAMA} --num-shard 1 --quantize bitsandbytes", "A10G", {}),
        (f"{LLAMA} --num-shard 1 --quantize eetq", "A10G", {}),
        (f"{LLAMA} --num-shard 1 --quantize bitsandbytes-nf4", "A10G", {NO: "warning"}),
        (f"{LLAMA} --num-shard 1 --quantize bitsandbytes-nf4", "L40S", {}),
        # flash attention is not there: transformers may spread the model over all GPUs
        (f"{LLAMA} --num-shard 2", "V100-SXM2-32GB", {}),
        (f"{MISTRAL} --num-shard 1", "A10G", {}),
    ],
)
def test_weights_that_do_not_fit(command: str, gpu: str, found: dict[str, str]) -> None:
    assert found == findings(f"{SERVE} {command}", gpu)


def test_models_of_other_classes_are_not_added_up() -> None:
    model = {
        "model_type": "own", "attention_heads": 64, "kv_heads": 8, "head_dim": 128,
        "num_layers": 80, "hidden_size": 8192, "intermediate_size": 28672, "vocab_size": 32000,
        "quantization": {}, "dense_ffn": True,
    }  # fmt: skip
    other, llama = ({"my/m": {**model, "model_type": name}} for name in ("own", "llama"))
    assert {} == findings(f"{SERVE} my/m --num-shard 2", "A10G", models=other)
    assert {"weights-do-not-fit": "error"} == findings(
        f"{SERVE} my/m --num-shard 2", "A10G", models=llama
    )


def test_what_the_share_leaves_free_is_never_certain() -> None:
    """Weights of 13.5 GiB, and 13.1 of the card's 14.6 that are filled by newer releases."""
    assert {"no-kv-space": "warning"} == findings(f"{SERVE} {MISTRAL} --num-shard 1", "T4")


def test_a_token_takes_what_its_heads_take() -> None:
    """32 layers, 8 KV heads of 128 over 2 shards, K and V in 16 bits; half of it in FP8."""

    def token(options: str) -> float:
        built = project(f"{SERVE} {MISTRAL} --num-shard 2 {options}", gpu="A10G", gpus_per_node=2)
        demand = demand_of(built.plans[0]).only
        assert demand is not None
        (sized,) = Sizer(TGI()).sized(demand)
        assert sized.made.cache is not None
        return sized.made.cache.bytes_per_token

    assert (65536, 32768) == (token(""), token("--kv-cache-dtype fp8_e5m2"))


def test_scales_of_four_bits_are_stored_in_eight() -> None:
    """4 bits and an eighth for each of the 68.5 billion weights in layers, 16 for the others."""
    built = project(f"{SERVE} {LLAMA} --num-shard 2 --quantize bitsandbytes-nf4", gpu="A10G")
    demand = demand_of(built.plans[0]).only
    assert demand is not None
    (sized,) = Sizer(TGI()).sized(demand)
    layers, rest = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672), 2 * 32000 * 8192
    whole = layers * 4.125 / 8 + rest * 2
    assert sized.made.weights.bytes == pytest.approx(whole / 2, rel=0.001)
