"""How SGLang uses memory: what a rank holds of each matrix, and what the share leaves out.

Read in sglang 0.4.0 to 0.5.23 (layers/linear.py, layers/vocab_parallel_embedding.py, models/*.py,
model_executor/model_runner.py, mem_cache/kv_cache_configurator.py). The share is one of the memory
that is free before weights are loaded; weights and KV cache come out of it, activations and graphs
lie outside of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from shardlint.engines import sglang_cache, sglang_defaults
from shardlint.engines.cuts import VOCABULARY_PADDING, cut, rounded_up
from shardlint.engines.sglang_releases import alike, constant, rules
from shardlint.footprint import Beside, Cache, Part, Settings, ShareOf
from shardlint.matrices import Place, Weight
from shardlint.plan import Device, Layout, ModelFacts, Ranks

MIB: Final = 1 << 20
WHOLE_GROUP: Final = frozenset({"dense_ffn", "shared_expert", "lm_head"})
"""Cut over all ranks of a stage, also where attention is data parallel."""
ABSORBED: Final = "kv_b_proj"
"""deepseek_v2.py, post_load_weights: its halves are kept a second time, to be multiplied apart."""
MXFP4_UNITS: Final = {"10.0": 256, "10.3": 256}
"""quantization/mxfp4.py: what the width of an expert is rounded up to, by card."""
MXFP4_USUAL: Final = 64
ADAPTED: Final = frozenset({"attention", "linear_attention", "dense_ffn", "shared_expert"})
"""lora/layers.py: linear layers; those of routed experts are not counted."""
BESIDE: Final = (
    "activations and CUDA graphs are taken to fit into the memory that the share leaves free",
)


class SGLangMemory:
    """The memory rules of one release."""

    share_of: ShareOf = "free_before_load"
    adapted = ADAPTED
    loads_whole = False

    def __init__(self, release: str) -> None:
        self.release = release
        self.told = rules(release)
        self.key: Hashable = alike(release)
        self.cuts: Hashable = self.key

    def serves(self, model: ModelFacts) -> bool:
        return True

    def settled(
        self, asked: Settings, model: ModelFacts, layout: Layout, device: Device | None
    ) -> Settings:
        return sglang_defaults.defaults(asked, model, layout, device, self.release)

    # ---------------------------------------------------------------------------------- weights

    def everywhere(self, model: ModelFacts) -> frozenset[Place]:
        return frozenset()  # not read: each part on the stage that needs it

    def stages(self, layers: int, layout: Layout) -> tuple[range, ...]:
        """distributed/utils.py, get_pp_indices."""
        base, rest = divmod(layers, layout.pp)
        spread = self.told["stages"]["rest"] == "each_of_the_last"
        found, start = [], 0
        for at in range(layout.pp):
            more = at >= layout.pp - rest if spread else rest * (at == layout.pp - 1)
            found.append(range(start, start + base + more))
            start += base + more
        return tuple(found)

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        if weight.part == "expert":
            return _expert(weight, model, ranks, settings)
        parts = ranks.dense_tp if weight.part in WHOLE_GROUP else ranks.attention_tp
        if weight.part == "vision" and settings.whole_tower:
            parts = 1
        unit = VOCABULARY_PADDING
        if self.told["vocabulary"]["per_rank"] and rounded_up(weight.outputs, unit) % parts:
            unit *= parts
        part = cut(weight, parts, unit)
        if weight.name == ABSORBED and model.mla:
            return Part(part.outputs, part.inputs, part.count * 2)
        return part

    # ------------------------------------------------------------------- the cache, and the rest

    def cache(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Cache | None:
        amd = device is not None and device.vendor == "amd"
        return sglang_cache.cache(model, ranks, layout, settings, self.release, amd=amd)

    def beside(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Beside:
        """Activations and graphs as large as the server takes them to be, where there is room."""
        context = int(constant("context_mib") * MIB)
        collectives = _collectives(ranks, device)
        free = (device.memory_mib or 0) * MIB if device is not None else 0
        left = max(0, int((free - context - collectives) * (1 - (settings.share or 0))))
        most = max(settings.capture_sizes or (0,))
        graphs = min(left, int(sglang_defaults.graphs_mib(most, layout) * MIB))
        chunk = (settings.max_num_batched_tokens or 0) * layout.attention_dp
        activations = min(left - graphs, int(sglang_defaults.activation_mib(chunk) * MIB))
        shows = sglang_defaults.has_tower(model, settings)
        return Beside(
            context=context,
            collectives=collectives,
            activations=activations,
            graphs=graphs,
            rest=self.told["tower_kept"]["mib"] * MIB if shows else 0,
            graphs_outside=True,
            activations_outside=True,
            cuts_requests=True,
            assumes=BESIDE,
        )


def _collectives(ranks: Ranks, device: Device | None) -> int:
    """Buffers of NCCL or RCCL and of the all-reduce, made before the weights are loaded."""
    if ranks.world_size == 1:
        return 0
    amd = device is not None and device.vendor == "amd"
    each = constant("collectives_rank_mib_amd" if amd else "collectives_rank_mib")
    return int(each * MIB) * ranks.dense_tp


def _expert(weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
    """fused_moe_triton/layer.py: whole experts over EP, each of them cut over what EP leaves."""
    part = cut(weight, ranks.moe_tp)
    part = Part(part.outputs, part.inputs, -(-weight.count // ranks.ep))
    if not _is_mxfp4(model.quantization or {}) or settings.quantization is not None:
        return part
    unit = MXFP4_UNITS.get(settings.compute_capability or "", MXFP4_USUAL)
    if weight.split == "columns":
        return Part(part.outputs, rounded_up(part.inputs, unit), part.count)
    return Part(rounded_up(part.outputs, unit), part.inputs, part.count)


def _is_mxfp4(quantization: Mapping[str, Any]) -> bool:
    return "mxfp4" in str(quantization.get("method"))
