"""How TensorRT-LLM's PyTorch backend uses memory, as far as it is known.

Read in tensorrt_llm (2026): llmapi/llm_args.py (defaults), _torch/pyexecutor/_util.py
(_cal_max_memory), mapping.py. The share is one of what weights and a warm-up run leave free.
The peak of that run is built from the widest tensors of a batch; it was not checked against logs.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from shardlint.engines import tensorrt_llm_cache
from shardlint.engines.cuts import cut
from shardlint.footprint import Beside, Cache, Part, Settings, ShareOf
from shardlint.matrices import Place, Weight
from shardlint.plan import Device, Layout, ModelFacts, Ranks

MIB: Final = 1 << 20
SHARE: Final = 0.9
BATCH: Final = 2048
TOKENS: Final = 8192
"""llm_args.py: free_gpu_memory_fraction, max_batch_size, max_num_tokens."""
WHOLE_GROUP: Final = frozenset({"dense_ffn", "shared_expert"})
CONTEXT_MIB, COLLECTIVES_RANK_MIB = 500, 150
"""As SGLang's, which start the same libraries."""
ELEMENT: Final = 2
BESIDE: Final = ("activations of TensorRT-LLM are estimated from shapes, its CUDA graphs left out",)


class TensorRTLLMMemory:
    """The memory rules of every release from 1.0.0 on."""

    share_of: ShareOf = "free_after_load"
    key: Hashable = "1.0.0"
    cuts: Hashable = "1.0.0"
    adapted: frozenset[str] = frozenset()
    loads_whole = False

    def serves(self, model: ModelFacts) -> bool:
        return True

    def settled(
        self,
        asked: Settings,
        model: ModelFacts,
        layout: Layout,
        device: Device | None,
    ) -> Settings:
        capability = device.compute_capability if device is not None else None
        return replace(
            asked,
            share=SHARE if asked.share is None else asked.share,
            max_model_len=asked.max_model_len or model.default_context,
            max_num_seqs=asked.max_num_seqs or BATCH,
            max_num_batched_tokens=asked.max_num_batched_tokens or TOKENS,
            dtype=asked.dtype or model.torch_dtype,
            kv_cache_dtype=asked.kv_cache_dtype or "auto",
            compute_capability=capability,
        )

    def everywhere(self, model: ModelFacts) -> frozenset[Place]:
        return frozenset()  # not read: each part on the stage that needs it

    def stages(self, layers: int, layout: Layout) -> tuple[range, ...]:
        """mapping.py: the first stages have one layer more where they do not divide."""
        base, rest = divmod(layers, layout.pp)
        ends = [base * (at + 1) + min(at + 1, rest) for at in range(layout.pp)]
        return tuple(range(0 if at == 0 else ends[at - 1], end) for at, end in enumerate(ends))

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        if weight.part == "expert":
            part = cut(weight, ranks.moe_tp)
            return Part(part.outputs, part.inputs, -(-weight.count // ranks.ep))
        whole = weight.part == "vision" and settings.whole_tower
        parts = ranks.dense_tp if weight.part in WHOLE_GROUP else ranks.attention_tp
        return cut(weight, 1 if whole else parts)

    def cache(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Cache | None:
        return tensorrt_llm_cache.cache(model, ranks, layout, settings, "")

    def beside(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Beside:
        several = ranks.world_size > 1
        return Beside(
            context=CONTEXT_MIB * MIB,
            collectives=COLLECTIVES_RANK_MIB * MIB * ranks.dense_tp if several else 0,
            activations=_activations(model, ranks, settings),
            graphs_outside=True,
            assumes=BESIDE + tensorrt_llm_cache.kind(settings, model)[1],
        )


def _activations(model: ModelFacts, ranks: Ranks, settings: Settings) -> int:
    """The widest tensors of one batch in 16 bits: five as wide as the model, and the MLP or the
    experts of a token, which see the batches of all attention groups; then the logits of all
    requests, in 32 bits."""
    tokens, hidden = settings.max_num_batched_tokens or 0, model.hidden_size or 0
    wide = 3 * (model.intermediate_size or 0) // ranks.dense_tp
    if model.moe:
        each = 3 * (model.moe_intermediate_size or 0) // ranks.moe_tp + hidden
        wide = (model.experts_per_token or 1) * each * ranks.attention_dp
    layers = tokens * (5 * hidden + wide) * ELEMENT
    rows = min(settings.max_num_seqs or 0, tokens)
    return max(layers, rows * (model.vocab_size or 0) * 4)
