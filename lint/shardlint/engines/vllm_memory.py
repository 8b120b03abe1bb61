"""How vLLM uses memory: what a rank holds of each matrix, and where the rest of it is told.

Read in vllm 0.33.0 (linear.py, vocab_parallel_embedding.py, fused_moe/layer.py, models/*.py); sums
are checked against its own classes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from math import gcd
from typing import Any, Final

from shardlint.engines import vllm_beside, vllm_cache, vllm_cache_rules
from shardlint.engines.vllm_run import cut, is_mxfp4, up
from shardlint.engines.vllm_stages import stage_layers
from shardlint.footprint import Beside, Cache, Part, Settings, ShareOf
from shardlint.matrices import Weight
from shardlint.plan import Device, Layout, ModelFacts, Ranks

EXPERTS: Final = ("expert",)
MXFP4_UNITS: Final = {"": (64, 1), "9": (64, 1)}
"""What expert width and hidden size are rounded up to, by family of cards: for Triton."""
MXFP4_USUAL: Final = (128, 256)
"""The same for Marlin and FlashInfer (fused_moe/oracle/mxfp4.py)."""


class VLLMMemory:
    """The memory rules of one release."""

    share_of: ShareOf = "total"

    def __init__(self, release: str) -> None:
        self.release = release
        self.key: Hashable = (vllm_beside.alike(release), vllm_cache_rules.rules(release))

    # ---------------------------------------------------------------------------------- weights

    def stages(self, layers: int, layout: Layout) -> tuple[range, ...]:
        found, start = [], 0
        for size in stage_layers(layers, layout.pp):
            found.append(range(start, start + size))
            start += size
        return tuple(found)

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        if weight.part in EXPERTS:
            return _expert(weight, model, ranks, settings)
        tp = ranks.dense_tp
        if weight.part == "shared_expert" and ranks.ep > 1 and tp > 1 and ranks.attention_dp > 1:
            tp = 1
        if weight.part == "vision" and settings.whole_tower:
            tp = 1
        return cut(weight, tp)

    # ------------------------------------------------------------------- the cache, and the rest

    def settled(
        self, asked: Settings, model: ModelFacts, layout: Layout, device: Device | None
    ) -> Settings:
        settled = vllm_beside.defaults(asked, model, layout, device, self.release)
        capability = device.compute_capability if device is not None else None
        return replace(settled, compute_capability=capability)

    def cache(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Cache | None:
        return vllm_cache.cache(model, ranks, layout, settings, self.release, device)

    def beside(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Beside:
        return vllm_beside.beside(model, ranks, layout, settings, device, self.release)


def _expert(weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
    """Whole experts with expert parallelism, else a cut of each; as wide as the kernels want it."""
    part = cut(weight, 1 if ranks.ep > 1 else ranks.moe_tp)
    if ranks.ep > 1:
        part = Part(part.outputs, part.inputs, -(-weight.count // ranks.ep))
    down = weight.split == "columns"
    quantization: Any = model.quantization or {}
    if is_mxfp4(quantization) and settings.quantization is None:
        family = (settings.compute_capability or "").partition(".")[0]
        unit, hidden = MXFP4_UNITS.get(family, MXFP4_USUAL)
        units = (hidden, unit) if down else (unit, hidden)
        return Part(up(part.outputs, units[0]), up(part.inputs, units[1]), part.count)
    block = quantization.get("weight_block_size")
    if isinstance(block, list | tuple) and len(block) == 2:
        width = part.inputs if down else part.outputs
        if width % block[0]:
            side = gcd(block[0], width)
            return Part(part.outputs, part.inputs, part.count, (side, side))
    return part
