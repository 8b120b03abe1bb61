"""How LMDeploy uses memory, as far as it is known.

Facts: lmdeploy, section 4. The share (`--cache-max-entry-count`) is one of what weights leave free,
for the KV cache alone: the peak of a batch and the vision tower have to do with the rest. That peak
is built from the widest tensors of a batch; it was not checked against logs.

Read in the wheels 0.7.0, 0.10.0, 0.11.1 and 0.12.3, pytorch/models: up to 0.11 each rank of the
PyTorch backend holds the whole embedding (`nn.Embedding`) and the whole head (a linear layer
without `is_tp`). TurboMind cuts both.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from shardlint.engines.cuts import cut
from shardlint.footprint import Beside, Cache, CacheGroup, Part, Settings, ShareOf
from shardlint.matrices import Place, Weight
from shardlint.plan import Device, KvGroup, Layout, ModelFacts, Ranks, version

MIB: Final = 1 << 20
SHARE: Final = 0.8
BLOCK: Final = 64
TOKENS: Final = 8192
"""messages.py: cache_max_entry_count, cache_block_seq_len, max_prefill_token_num."""
CONTEXT_MIB, COLLECTIVES_RANK_MIB = 500, 150
"""As SGLang's, which start the same libraries."""
SIXTEEN_BITS: Final = 2
BACKEND: Final = "backend"
"""The entry of `Settings.extra` with the backend that is asked for."""
PYTORCH: Final = "pytorch"
WHOLE_VOCABULARY_UNTIL: Final = "0.12.0"
LEAST_BATCH: Final = 128
"""utils.py, get_max_batch_size: what no CUDA card is below."""
BESIDE: Final = ("the peak of a batch is estimated from shapes, and has to fit beside the share",)


class LMDeployMemory:
    """The memory rules of every release, which are taken to be alike."""

    share_of: ShareOf = "free_after_load"
    adapted: frozenset[str] = frozenset()
    loads_whole = False

    def __init__(self, release: str) -> None:
        self.release = release
        found, until = version(release), version(WHOLE_VOCABULARY_UNTIL)
        self.whole_vocabulary = found is not None and until is not None and found < until
        self.key: Hashable = self.whole_vocabulary
        self.cuts: Hashable = self.whole_vocabulary

    def serves(self, model: ModelFacts) -> bool:
        return True

    def settled(
        self, asked: Settings, model: ModelFacts, layout: Layout, device: Device | None
    ) -> Settings:
        return replace(
            asked,
            share=SHARE if asked.share is None else asked.share,
            max_model_len=asked.max_model_len or model.default_context,
            max_num_seqs=asked.max_num_seqs or LEAST_BATCH,
            max_num_batched_tokens=asked.max_num_batched_tokens or TOKENS,
            dtype=asked.dtype or model.torch_dtype,
            kv_cache_dtype=asked.kv_cache_dtype or "auto",
            compute_capability=device.compute_capability if device is not None else None,
            extra=MappingProxyType({**asked.extra, BACKEND: layout.executor or ""}),
        )

    def everywhere(self, model: ModelFacts) -> frozenset[Place]:
        return frozenset()

    def stages(self, layers: int, layout: Layout) -> tuple[range, ...]:
        return (range(layers),)

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        """The vision tower is taken to be whole on every rank."""
        if weight.part == "expert":
            part = cut(weight, ranks.moe_tp)
            return Part(part.outputs, part.inputs, -(-weight.count // ranks.ep))
        whole = weight.part == "vision" or (
            weight.split == "vocabulary"
            and self.whole_vocabulary
            and settings.extra.get(BACKEND) == PYTORCH
        )
        return cut(weight, 1 if whole else ranks.attention_tp)

    def cache(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Cache | None:
        """The pool of one rank; None for models with pools of several kinds."""
        groups = model.kv_groups
        if not groups or model.states:
            return None
        if any(each.window or each.chunk or each.index or each.ratio > 1 for each in groups):
            return None
        kind = (settings.kv_cache_dtype or "auto").lower()
        token = sum(_bytes(each, ranks.attention_tp, kind) for each in groups)
        layers = sum(each.layers for each in groups)
        return Cache(
            bytes_per_block=token * BLOCK,
            bytes_per_token=float(token),
            groups=(CacheGroup(kind="full", layers=layers, block=BLOCK),),
            line="blocks",
        )

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
            activations_outside=True,
            assumes=BESIDE,
        )


def _bytes(group: KvGroup, tp: int, kind: str) -> int:
    """Bytes of one token; the scales of quantized ones are left out."""
    heads = 1 if group.shared else max(1, group.heads // tp)
    elements = group.layers * heads * (group.bytes_per_head // SIXTEEN_BITS)
    if kind.startswith("int4"):
        return -(-elements // 2)
    return elements if kind.startswith(("int8", "fp8")) else elements * SIXTEEN_BITS


def _activations(model: ModelFacts, ranks: Ranks, settings: Settings) -> int:
    """The widest tensors of one batch in 16 bits, then the logits of all requests, in 32."""
    tokens, hidden = settings.max_num_batched_tokens or 0, model.hidden_size or 0
    wide = 3 * (model.intermediate_size or 0) // ranks.dense_tp
    if model.moe:
        each = 3 * (model.moe_intermediate_size or 0) // ranks.moe_tp + hidden
        wide = (model.experts_per_token or 1) * each
    rows = min(settings.max_num_seqs or 0, tokens)
    layers = tokens * (5 * hidden + wide) * SIXTEEN_BITS
    return max(layers, rows * (model.vocab_size or 0) * 4)
