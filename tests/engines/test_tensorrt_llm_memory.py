"""TensorRT-LLM: how a layout becomes ranks, and what it has left for the KV cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from shardlint.engines import tensorrt_llm_cache
from shardlint.engines.tensorrt_llm import TensorRTLLM
from shardlint.engines.tensorrt_llm_memory import TensorRTLLMMemory
from shardlint.footprint import Settings
from shardlint.matrices import Block, Weight
from shardlint.plan import Device, KvGroup, Layout, ModelFacts
from shardlint.sizing.memory import footprint
from shardlint.sizing.storage import storage

GIB = 1 << 30
CARD = Device(name="c", vendor="nvidia", memory_mib=80 * 1024)
MODEL = ModelFacts(
    id="m", num_layers=1, hidden_size=1 << 12, vocab_size=1000, default_context=64,
    weights=(Block("layers", (Weight("w", "attention", 1 << 15, 1 << 15),), (0,)),),
    kv_groups=(KvGroup(1, 1, 1 << 20),),
)  # fmt: skip


def test_attention_dp_is_a_switch_for_all_ranks() -> None:
    engine = TensorRTLLM()
    layout = engine.spread(tp=2, pp=2, dp=3, attention_dp=4, ep=4, dcp=2)
    assert (8, 8, 1) == (layout.tp, layout.attention_dp, layout.dcp)
    found = engine.ranks(layout, MODEL, None)
    assert (48, 16, 24) == (found.gpus, found.world_size, found.engines)
    assert (1, 8, 4, 2) == (found.attention_tp, found.dense_tp, found.ep, found.moe_tp)


def test_the_share_is_one_of_what_weights_and_a_batch_leave() -> None:
    engine, rule = TensorRTLLM(), TensorRTLLMMemory()
    layout = engine.spread(tp=1, pp=1, dp=1, attention_dp=1, ep=1, dcp=1)
    made = footprint(
        MODEL, engine.ranks(layout, MODEL, None), layout, Settings(), rule, storage({}), CARD,
        80 * GIB,
    )  # fmt: skip
    assert made is not None
    assert (0.9, 8192, 2048) == (
        made.settings.share, made.settings.max_num_batched_tokens, made.settings.max_num_seqs,
    )  # fmt: skip
    assert made.beside.activations == 8192 * 5 * 4096 * 2
    left = 80 * GIB - 2 * GIB - made.beside.context - made.beside.activations
    assert made.kv == pytest.approx(0.9 * left, abs=4)
    assert made.breakdown["unused"] == pytest.approx(0.1 * left, abs=4)
    assert made.budget - made.needed == made.kv


def test_the_first_stages_have_one_layer_more() -> None:
    found = TensorRTLLMMemory().stages(10, Layout(pp=4))
    assert [range(3), range(3, 6), range(6, 8), range(8, 10)] == list(found)


def test_parts() -> None:
    engine, rule = TensorRTLLM(), TensorRTLLMMemory()
    layout = engine.spread(tp=1, pp=1, dp=1, attention_dp=4, ep=2, dcp=1)
    ranks = engine.ranks(layout, MODEL, None)
    sizes = {
        weight.name: (made.outputs, made.inputs, made.count)
        for weight in (
            Weight("q", "attention", 64, 8, "rows"), Weight("up", "dense_ffn", 64, 8, "rows"),
            Weight("gate", "expert", 64, 8, "rows", count=5),
        )
        for made in [rule.part(weight, MODEL, ranks, Settings())]
    }  # fmt: skip
    assert sizes == {"q": (64, 8, 1), "up": (16, 8, 1), "gate": (32, 8, 3)}


@pytest.mark.parametrize(
    ("record", "stated", "kept", "assumed"),
    [
        ({}, None, "auto", False),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, None, "fp8", False),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "bfloat16", "bfloat16", False),
        ({"quant_algo": "FP8"}, "auto", "fp8", True),
        ({"method": "fp8", "bits": 8}, None, "fp8", True),
        ({"method": "fp8", "bits": 8, "weight_block_size": [128, 128]}, None, "auto", False),
        ({"method": "awq", "bits": 4}, None, "auto", False),
    ],
)
def test_cache_is_stored_as_the_checkpoint_asks_for(
    record: dict[str, Any], stated: str | None, kept: str, assumed: bool
) -> None:
    model, asked = replace(MODEL, quantization=record), Settings(kv_cache_dtype=stated)
    asked = replace(asked, quantization="some words")
    found, said = tensorrt_llm_cache.kind(asked, model)
    assert (kept, assumed) == (found, bool(said))
    ranks, layout = TensorRTLLM().ranks(Layout(), model, None), Layout()
    one = tensorrt_llm_cache.cache(model, ranks, layout, asked, "")
    assert one is not None
    whole = MODEL.kv_groups[0].bytes_per_token(1)
    assert one.bytes_per_token == (whole / 2 if kept == "fp8" else whole)


def test_checkpoint_that_asks_for_no_type_of_cache_has_the_usual_one() -> None:
    model = replace(MODEL, quantization={"quant_algo": "FP8"})
    assert ("auto", ()) == tensorrt_llm_cache.kind(Settings(), model)
