"""vllm-wizard: its planning functions, on a local config with the true count of parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from asked import GIB, Answer, Question, answer_all, budget_known, capacity
from vllm_wizard.models.metadata import load_model_metadata
from vllm_wizard.planning.memory import (
    compute_kv_cache_memory,
    compute_overhead,
    compute_weights_memory,
)
from vllm_wizard.schemas.inputs import KVCacheDType, Quantization

KNOWN = {16: Quantization.NONE, 8: Quantization.FP8, 4: Quantization.AWQ}


def answer(question: Question) -> Iterator[Answer]:
    if question["parameters"] is None:
        yield {"refused": "no count of parameters"}
        return
    tp = question["tp"]
    metadata = dataclasses.replace(
        load_model_metadata(question["folder"]), num_params=question["parameters"]
    )
    weights = compute_weights_memory(
        metadata.num_params / 1e9, quantization=KNOWN[question["bits"]]
    )
    yield {"weights_gib": weights / tp / GIB}
    if not budget_known(question):
        return
    group = int(question["gpu_gib"] * GIB) * tp
    pool = group * question["utilization"] - weights - compute_overhead(group, tp)
    fp8 = question["kv_dtype"] == "fp8"
    per_token = compute_kv_cache_memory(
        metadata, 1, 1, KVCacheDType.FP8_E4M3FN if fp8 else KVCacheDType.BF16
    )
    yield capacity(pool / tp / GIB, per_token / tp, question)


answer_all(answer)
