"""Fields that a fix may change, by vLLM's own options: for platforms that hand options on to it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

SIZES: Final = MappingProxyType(
    {
        "tp": "--tensor-parallel-size",
        "pp": "--pipeline-parallel-size",
        "dp": "--data-parallel-size",
        "max_model_len": "--max-model-len",
        "kv_cache_dtype": "--kv-cache-dtype",
        "max_num_seqs": "--max-num-seqs",
        "max_num_batched_tokens": "--max-num-batched-tokens",
        "gpu_memory_utilization": "--gpu-memory-utilization",
        "quantization": "--quantization",
        "dtype": "--dtype",
    }
)
"""Options with a value."""

OPTIONS: Final = MappingProxyType({**SIZES, "ep": "--enable-expert-parallel"})
"""With the switches, where a list of words is handed on."""
