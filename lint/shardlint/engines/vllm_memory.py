"""How vLLM uses memory: what a rank holds of each matrix, and where the rest of it is told.

Read in vllm 0.33.0 (linear.py, vocab_parallel_embedding.py, fused_moe/layer.py, models/*.py); sums
are checked against its own classes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import gcd
from typing import Any, Final

from shardlint.engines import vllm_beside, vllm_cache, vllm_cache_rules, vllm_kernels, vllm_run
from shardlint.engines.cuts import cut, rounded_up
from shardlint.engines.vllm_models import PADDED, may_be_whole, shape
from shardlint.engines.vllm_stages import stage_layers
from shardlint.footprint import Beside, Cache, Part, Settings, ShareOf
from shardlint.matrices import Place, Weight
from shardlint.plan import Device, Layout, ModelFacts, Ranks, Releases

EXPERTS: Final = ("expert",)
ADAPTED: Final = frozenset({"attention", "linear_attention", "dense_ffn", "shared_expert"})
"""Linear layers that have room for adapters (vllm/lora/layers/base_linear.py); experts later. Not
counted: embeddings and heads (few classes), towers (with an option), adapters cut by their rank."""
ABSORBED: Final = "kv_b_proj"
"""Latent attention multiplies by the halves of this matrix: views of it, or of what it is unpacked
to (attention/backends/mla/common.py, later layers/attention/mla_attention.py)."""


class VLLMMemory:
    """The memory rules of one release."""

    share_of: ShareOf = "total"

    def __init__(self, release: str) -> None:
        self.release = release
        adapted = vllm_run.rules(release)["lora_experts"]["value"]
        self.adapted = ADAPTED | {"expert"} if adapted else ADAPTED
        self.loads_whole: bool = vllm_run.rules(release)["online_whole"]["value"]
        self.cuts: Hashable = (vllm_kernels.alike(release), adapted)
        self.key: Hashable = (
            vllm_beside.alike(release), vllm_cache_rules.rules(release), vllm_kernels.alike(release)
        )  # fmt: skip

    def serves(self, model: ModelFacts) -> bool:
        first = shape(model).first
        return first is None or not Releases(self.release, self.release).within(None, first)

    # ---------------------------------------------------------------------------------- weights

    def stages(self, layers: int, layout: Layout) -> tuple[range, ...]:
        found, start = [], 0
        for size in stage_layers(layers, layout.pp):
            found.append(range(start, start + size))
            start += size
        return tuple(found)

    def everywhere(self, model: ModelFacts) -> frozenset[Place]:
        return shape(model).every_stage

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        if weight.part in EXPERTS:
            return _expert(weight, model, ranks, settings, self.release)
        tp = ranks.dense_tp
        if weight.part in shape(model).whole_for_sequences and may_be_whole(ranks):
            tp = 1
        if weight.part == "vision" and _whole_tower(model, settings, tp):
            tp = 1
        part = cut(_filled(weight, model, tp), tp)
        if model.mla and weight.name == ABSORBED:
            return replace(part, unpacked=part.outputs * part.inputs * part.count)
        return part

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


def _filled(weight: Weight, model: ModelFacts, tp: int) -> Weight:
    """A class that pads its FFNs gives each rank a whole number of FP8 blocks."""
    block = _block(model.quantization or {})
    padded = weight.part in PADDED and "pads_mlp" in shape(model).special
    if block is None or tp == 1 or not padded:
        return weight
    if weight.split == "rows":
        return replace(weight, outputs=rounded_up(weight.outputs, block * tp))
    if weight.split == "columns":
        return replace(weight, inputs=rounded_up(weight.inputs, block * tp))
    return weight


def _block(quantization: Mapping[str, Any]) -> int | None:
    """The side of the blocks that share a scale; DeepSeek-V4 does not state it."""
    block = quantization.get("weight_block_size")
    if isinstance(block, list | tuple) and len(block) == 2:
        return int(block[0])
    return FP8_BLOCK if quantization.get("expert_dtype") == "fp4" else None


FP8_BLOCK: Final = 128


def _whole_tower(model: ModelFacts, settings: Settings, tp: int) -> bool:
    """vision.py, is_vit_use_data_parallel: also where the heads do not divide."""
    return bool(settings.whole_tower or (model.vision_heads and model.vision_heads % tp))


def _expert(
    weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings, release: str
) -> Part:
    """Whole experts with expert parallelism, else a cut of each; as wide as the kernels want it."""
    part = cut(weight, 1 if ranks.ep > 1 else ranks.moe_tp)
    if ranks.ep > 1:
        part = Part(part.outputs, part.inputs, -(-weight.count // ranks.ep))
    down = weight.split == "columns"
    quantization: Any = model.quantization or {}
    if vllm_kernels.is_mxfp4(quantization) and settings.quantization is None:
        gpt_oss = str(model.model_type) == "gpt_oss"
        kernel = vllm_kernels.mxfp4(release, settings.compute_capability, gpt_oss)
        units = (kernel.hidden, kernel.width) if down else (kernel.width, kernel.hidden)
        inputs = part.inputs if part.inputs == 1 else rounded_up(part.inputs, units[1])  # a bias: 1
        return Part(rounded_up(part.outputs, units[0]), inputs, part.count)
    width = part.inputs if down else part.outputs
    block = _block(quantization)
    if block is not None and width % block:
        side = gcd(block, width)
        return replace(part, block=(side, side))
    group = quantization.get("group_size")
    if quantization.get("bits") in (4, 8) and isinstance(group, int) and group > LEAST_GROUP:
        return replace(part, block=(1, _group(group, width)))
    return part


def _group(group: int, width: int) -> int:
    """moe_wna16.py: groups are halved until they divide the width of an expert's part."""
    while width % group and group > LEAST_GROUP:
        group //= 2
    return group


LEAST_GROUP: Final = 32
