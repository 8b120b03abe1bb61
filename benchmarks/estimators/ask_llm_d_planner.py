"""llm-d-planner: planner.capacity_planner, memory formulas with constants measured on vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import planner.capacity_planner as capacity_planner
from asked import Answer, Question, answer_all, budget_known, capacity
from planner.capacity_planner import (
    allocatable_kv_cache_memory,
    get_model_config_from_hf,
    kv_cache_req,
    per_gpu_model_memory_required,
)

GIB = 2**30


def answer(question: Question) -> Iterator[Answer]:
    storage = question["storage"]
    if storage is None:
        yield {"refused": "no count of the checkpoint's tensors"}
        return
    # It reads the tensors' headers from the Hub; the same counts stand in for the Hub.
    headers = SimpleNamespace(parameter_count=storage)
    capacity_planner.get_safetensors_metadata_from_hf = lambda *_: headers
    name, tp = question["folder"], question["tp"]
    config = get_model_config_from_hf(name)
    yield {"weights_gib": per_gpu_model_memory_required(name, config, tp)}
    if not budget_known(question):
        return
    # Its pool is that of all GPUs together, its need of a token too: their quotient is the count.
    pool = allocatable_kv_cache_memory(
        name, config, question["gpu_gib"], question["utilization"], tp
    )
    yield {"kv_gib": pool / tp}
    if question["kv_dtype"] == "fp8":
        return  # it can not be told a KV cache dtype
    per_token = kv_cache_req(name, config, 1) * GIB / tp
    yield capacity(pool / tp, per_token, question)


answer_all(answer)
