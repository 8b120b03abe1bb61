"""How TGI uses memory, as far as it is known: above all what its shards hold of the weights.

Facts: tgi, sections 2 and 4. Read in huggingface/text-generation-inference (2026-01, 3.3.6):
server/text_generation_server/utils/import_utils.py (`get_cuda_free_memory`), models/globals.py,
models/causal_lm.py, layers/attention/cuda.py. Models without a class of their own, and cards
without flash attention, run on classes of transformers, which spread a model over all GPUs that
they see (`device_map`); there nothing is added up. What a warm-up with the longest batch takes is
left out: with it less is free.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from shardlint.engines.cuts import cut
from shardlint.footprint import Beside, Cache, CacheGroup, Part, Settings, ShareOf
from shardlint.matrices import Place, Weight
from shardlint.plan import Device, KvGroup, Layout, ModelFacts, Ranks

MIB: Final = 1 << 20
WIGGLE: Final = 0.9
"""TGI_WIGGLE_ROOM: the part of its share that is filled."""
CONTEXT_MIB: Final = 500
"""As other engines', which start the same libraries."""
FLASH: Final = (7, 5)
"""The least capability with flash attention."""
EIGHT_BITS: Final = "bitsandbytes"
"""What is 4 bits to other engines is 8 to this one; what they take was not read."""
SIXTEEN_BITS: Final = 2
BESIDE: Final = ("TGI's warm-up, which takes memory for its longest batch, is left out",)


class TGIMemory:
    """The memory rules of every release, which are taken to be alike."""

    share_of: ShareOf = "total"
    key: Hashable = "1"
    cuts: Hashable = "1"
    adapted: frozenset[str] = frozenset()
    loads_whole = False

    def __init__(self, own: frozenset[str]) -> None:
        self.own = own

    def serves(self, model: ModelFacts) -> bool:
        return model.model_type in self.own

    def settled(
        self, asked: Settings, model: ModelFacts, layout: Layout, device: Device | None
    ) -> Settings:
        """Without a share, nothing is added up."""
        capability = device.compute_capability if device is not None else None
        told = _flash(capability) and asked.quantization != EIGHT_BITS
        share = WIGGLE * (1.0 if asked.share is None else asked.share)
        return replace(
            asked,
            share=share if told else None,
            max_num_seqs=asked.max_num_seqs or 1,
            dtype=asked.dtype or model.torch_dtype,
            kv_cache_dtype=asked.kv_cache_dtype or "auto",
            compute_capability=capability,
        )

    def everywhere(self, model: ModelFacts) -> frozenset[Place]:
        return frozenset()

    def stages(self, layers: int, layout: Layout) -> tuple[range, ...]:
        return (range(layers),)

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        """Vision towers are taken to be whole, which some of them are."""
        return cut(weight, 1 if weight.part == "vision" else ranks.dense_tp)

    def cache(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Cache | None:
        """Blocks of one token; None for models with pools of several kinds."""
        groups = model.kv_groups
        if not groups or model.states or any(each.chunk or each.index for each in groups):
            return None
        narrow = (settings.kv_cache_dtype or "auto").startswith("fp8")
        token = sum(_bytes(each, ranks.dense_tp) for each in groups) // (1 + narrow)
        return Cache(
            bytes_per_block=token,
            bytes_per_token=float(token),
            groups=(CacheGroup(kind="full", layers=sum(each.layers for each in groups), block=1),),
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
        """Releases leave more or less of the share free, so that none of it is sure to be."""
        card = (device.memory_mib or 0) * MIB if device is not None else 0
        kept = int(card * (settings.share or 0) / WIGGLE * (1 - WIGGLE))
        return Beside(context=CONTEXT_MIB * MIB, doubtful=kept, assumes=BESIDE)


def _flash(capability: str | None) -> bool:
    parts = (capability or "0.0").split(".")
    return len(parts) == len(FLASH) and tuple(map(int, parts)) >= FLASH


def _bytes(group: KvGroup, tp: int) -> int:
    heads = 1 if group.shared else max(1, group.heads // tp)
    return group.layers * heads * group.bytes_per_head
