"""The KV cache of TensorRT-LLM's PyTorch backend, where one pool holds all layers.

Read in tensorrt_llm (2026), _torch/pyexecutor/resource_manager.py, get_cache_size_per_token. That
divides heads exactly, also where there are fewer than ranks: the pool then is larger than the
engine says. What a rank really keeps is counted here.
"""

from __future__ import annotations

from typing import Final

from shardlint.footprint import Cache, CacheGroup, Settings
from shardlint.plan import KvGroup, Layout, ModelFacts, Ranks

BLOCK: Final = 32
SIXTEEN_BITS: Final = 2


def cache(
    model: ModelFacts, ranks: Ranks, layout: Layout, settings: Settings, _release: str
) -> Cache | None:
    """The pool of the fullest rank; None for models with pools of several kinds."""
    groups = model.kv_groups
    if not groups or model.states:
        return None
    if any(group.window or group.chunk or group.index or group.ratio > 1 for group in groups):
        return None
    block = settings.block_size or BLOCK
    kind = (settings.kv_cache_dtype or "auto").lower()
    size = block * sum(_bytes(group, ranks.attention_tp, layout.pp, kind) for group in groups)
    layers = sum(group.layers for group in groups)
    return Cache(
        bytes_per_block=size,
        bytes_per_token=size / block,
        groups=(CacheGroup(kind="full", layers=layers, block=block),),
        line="blocks",
    )


def _bytes(group: KvGroup, tp: int, pp: int, kind: str) -> int:
    """Bytes of one token in the layers of one stage; FP4 has a byte of scale for 16 elements."""
    heads = 1 if group.shared else max(1, group.heads // tp)
    elements = -(-group.layers // pp) * heads * (group.bytes_per_head // SIXTEEN_BITS)
    if kind.startswith("nvfp4"):
        return -(-elements // 2) - (-elements // 16)
    return elements if kind.startswith("fp8") else elements * SIXTEEN_BITS
