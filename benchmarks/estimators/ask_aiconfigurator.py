"""aiconfigurator-core: sdk.memory.estimate_kv_cache, with its fallback for what it has no data of.

The fallback keeps a share of what the weights leave for the KV cache, and prints no weights.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiconfigurator_core.sdk.memory import estimate_kv_cache
from asked import GIB, Answer, Question, answer_all, budget_known

SYSTEMS = {
    "A100": "a100_sxm",
    "A100 40GB": "a100_sxm",
    "A100 80GB": "a100_sxm",
    "A100 80GB PCIe": "a100_pcie",
    "B200": "b200_sxm",
    "H200": "h200_sxm",
    "L4": "l4",
}
"""Its data of a system; any other GPU is told as an H100 with a memory of its own."""

LARGE = 2**40
"""A memory that any model fits in, for the weights alone."""


def answer(question: Question) -> Iterator[Answer]:
    known, tp = budget_known(question), question["tp"]
    found = estimate_kv_cache(
        question["folder"],
        SYSTEMS.get(question["gpu"], "h100_sxm"),
        "vllm",
        "current",
        max_num_tokens=question["max_num_batched_tokens"],
        max_batch_size=question["max_num_seqs"],
        memory_fraction_kind="of_total",
        memory_fraction_value=question["utilization"] if known else 1.0,
        tp_size=tp,
        moe_tp_size=1 if question["ep"] else tp,
        moe_ep_size=tp if question["ep"] else 1,
        kvcache_quant_mode="fp8" if question["kv_dtype"] == "fp8" else None,
        gpu_memory_capacity_bytes_override=int(question["gpu_gib"] * GIB) if known else LARGE,
        allow_naive_fallback=known,
    )
    if parts := found["memory_breakdown"]:
        yield {"weights_gib": parts["weights_bytes"] / GIB}
    if not known:
        return
    tokens, length = found["total_kv_size_tokens"], question["max_model_len"]
    yield {
        "way": found["source"],
        "kv_gib": found["total_kv_size_bytes"] / GIB,
        "kv_tokens": tokens,
        "concurrency": tokens / length if length else None,
    }


answer_all(answer)
