"""The KV cache of TensorRT-LLM's PyTorch backend, where one pool holds all layers.

Read in tensorrt_llm (2026), _torch/pyexecutor/resource_manager.py, get_cache_size_per_token. That
divides heads exactly, also where there are fewer than ranks: the pool then is larger than the
engine says. What a rank really keeps is counted here. With dtype "auto" the cache is stored as the
checkpoint's record says (llmapi/llm_args.py, sync_quant_config_with_kv_cache_config_dtype).
"""

from __future__ import annotations

from typing import Final

from shardlint.footprint import Cache, CacheGroup, Settings
from shardlint.plan import KvGroup, Layout, ModelFacts, Ranks

BLOCK: Final = 32
SIXTEEN_BITS: Final = 2
EIGHT_BITS: Final = (
    "the KV cache is taken to be FP8, as checkpoints of NVIDIA's ModelOpt in FP8 and NVFP4 ask for",
)
"""All 21 records of these two in the catalogue do."""


def kind(settings: Settings, model: ModelFacts) -> tuple[str, tuple[str, ...]]:
    """How the cache is stored, and what had to be assumed for it."""
    stated = settings.kv_cache_dtype
    if stated and stated.lower() != "auto":
        return stated, ()
    record = model.quantization or {}
    if named := record.get("kv_cache_quant_algo"):
        return str(named).lower(), ()
    if not settings.quantization:  # the checkpoint is known, and asks for nothing
        return "auto", ()
    # per-tensor FP8 and NVFP4 reach this engine through ModelOpt alone
    plain_fp8 = record.get("method") == "fp8" and not record.get("weight_block_size")
    if plain_fp8 or record.get("quant_algo") in ("FP8", "NVFP4"):
        return "fp8", EIGHT_BITS
    return "auto", ()


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
    kept = kind(settings, model)[0].lower()
    size = block * sum(_bytes(group, ranks.attention_tp, layout.pp, kept) for group in groups)
    layers = sum(group.layers for group in groups)
    return Cache(
        bytes_per_block=size,
        bytes_per_token=size / block,
        groups=(CacheGroup(kind="full", layers=layers, block=block),),
        line="blocks",
    )


def _bytes(group: KvGroup, tp: int, pp: int, kept: str) -> int:
    """Bytes of one token in the layers of one stage; FP4 has a byte of scale for 16 elements."""
    heads = 1 if group.shared else max(1, group.heads // tp)
    elements = -(-group.layers // pp) * heads * (group.bytes_per_head // SIXTEEN_BITS)
    if kept.startswith("nvfp4"):
        return -(-elements // 2) - (-elements // 16)
    return elements if kept.startswith("fp8") else elements * SIXTEEN_BITS
