"""What one GPU holds: weights of the fullest rank, what is needed beside them, the KV cache.

Everything here follows from shapes and from the rules that the engine gives; no engine is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from shardlint.footprint import Footprint, MemoryRules, Part, Settings, ShareOf, Weights
from shardlint.matrices import Block, Place, Weight
from shardlint.plan import Device, Layout, ModelFacts, Ranks
from shardlint.record import record
from shardlint.sizing.storage import SIXTEEN, Storage

__all__ = [
    "GIB",
    "MIB",
    "Footprint",
    "Weights",
    "capacity",
    "footprint",
    "most",
    "on_more",
    "weights",
]

GIB: Final = 2**30
MIB: Final = 2**20
CHECKPOINT_ALONE: Final = "checkpoint"
"""Weights that no engine loads."""
DRIVERS_DIFFER: Final = 1.005
"""One card under two drivers: 23.58 and 23.68 GiB of an RTX 3090, 139.8 and 140.4 of an H200."""
COUNTED_DRAFTS: Final = (None, "mtp", "ngram", "suffix")
"""Ways of drafting whose weights stand in the model's own checkpoint, or that have none."""
DRIVER_KEEPS_MIB: Final = 530
"""What engines see of a card less than its driver prints: 430 to 730 MiB on twelve cards."""


# ------------------------------------------------------------------------------------- the card


def capacity(device: Device) -> int | None:
    """Bytes of a card as engines see them; the label's GB where no figure is known."""
    if device.memory_mib is not None:
        kept = DRIVER_KEEPS_MIB if device.memory_kind == "driver" else 0
        return (device.memory_mib - kept) * MIB
    return None if device.mem_gb is None else int(device.mem_gb * GIB) - DRIVER_KEEPS_MIB * MIB


def most(device: Device) -> int | None:
    """No card of this name was seen to have more bytes: drivers differ, and labels are generous."""
    if device.memory_mib is not None:
        return int(device.memory_mib * MIB * DRIVERS_DIFFER)
    return None if device.mem_gb is None else int(device.mem_gb * GIB)


# ---------------------------------------------------------------------------------- the weights


def weights(
    model: ModelFacts,
    ranks: Ranks,
    layout: Layout,
    settings: Settings,
    rules: MemoryRules,
    stored: Storage,
) -> Weights | None:
    """The weights of the fullest stage; None where the matrices of the model are not known."""
    if not model.weights or not model.num_layers:
        return None
    found = stage_weights(model, ranks, layout, settings, rules, stored)
    return max(found, key=lambda item: item.bytes)


def stage_weights(
    model: ModelFacts,
    ranks: Ranks,
    layout: Layout,
    settings: Settings,
    rules: MemoryRules,
    stored: Storage,
) -> tuple[Weights, ...]:
    """The weights of each pipeline stage, of the rank that holds most of them."""
    of = _layers_of(model.weights)
    sized = [_sized(block, model, ranks, settings, rules) for block in model.weights]
    every = rules.everywhere(model)
    stages = rules.stages(model.num_layers or 0, layout)
    return tuple(
        _stage(sized, model, _Stage(at, stages, every), settings, stored, of)
        for at in range(len(stages))
    )


@record
class _Stage:
    """One stage; `every`: what stands in each of them."""

    at: int
    ranges: tuple[range, ...]
    every: frozenset[Place]

    @property
    def last(self) -> bool:
        return self.at == len(self.ranges) - 1


@record
class _Sized:
    block: Block
    parts: tuple[tuple[Weight, Part, int], ...]
    """With the bytes of its adapters on one layer."""


def _sized(
    block: Block, model: ModelFacts, ranks: Ranks, settings: Settings, rules: MemoryRules
) -> _Sized:
    adapted = rules.adapted if settings.max_loras and block.place == "layers" else frozenset()
    parts = []
    for weight in block.weights:
        if weight.where != CHECKPOINT_ALONE:
            part = rules.part(weight, model, ranks, settings)
            beside = (
                _adapters(part, settings) if weight.part in adapted and weight.inputs > 1 else 0
            )
            parts.append((weight, part, beside))
    return _Sized(block, tuple(parts))


def _layers_of(blocks: tuple[Block, ...]) -> Mapping[str, int]:
    """How many layers have each part."""
    found: dict[str, set[int]] = {}
    for block in blocks:
        for weight in block.weights:
            found.setdefault(weight.part, set()).update(block.layers)
    return {part: len(layers) for part, layers in found.items()}


def _stage(
    sized: list[_Sized],
    model: ModelFacts,
    stage: _Stage,
    settings: Settings,
    stored: Storage,
    of: Mapping[str, int],
) -> Weights:
    parts: dict[str, int] = {}
    unknown: set[str] = set()
    for item in sized:
        block = item.block
        layers = tuple(layer for layer in block.layers if layer in stage.ranges[stage.at])
        held = _held(block, layers, stage, model, settings)
        for weight, part, adapters in item.parts:
            if not held or (held == "embedding" and weight.part != held):
                continue
            if block.place == "first" and stage.at > 0 and weight.where == "engine":
                continue  # of two copies, one stands on every stage
            bytes = stored.bytes(weight, part, layers, of.get(weight.part, 0))
            if bytes is None:
                unknown.add(weight.part)
            else:
                name = "draft" if block.place == "draft" else weight.part
                parts[name] = parts.get(name, 0) + bytes
            if adapters:
                parts["adapters"] = parts.get("adapters", 0) + adapters * len(layers)
    return Weights(parts=MappingProxyType(parts), unknown=frozenset(unknown), stage=stage.at)


def _adapters(part: Part, settings: Settings) -> int:
    """Bytes of the room for adapters beside a weight of one layer: one matrix in, one out."""
    rank = settings.max_loras * settings.max_lora_rank
    return rank * (part.outputs + part.inputs) * part.count * SIXTEEN


def _held(
    block: Block,
    layers: tuple[int, ...],
    stage: _Stage,
    model: ModelFacts,
    settings: Settings,
) -> Literal["", "embedding", "all"]:
    """What a stage holds of a block."""
    last = stage.last
    if block.place == "layers":
        return "all" if layers else ""
    if block.place == "tower" and settings.text_only:
        return ""
    if block.place in stage.every:
        return "all"
    if block.place == "first":  # a tied head needs the embedding behind the last stage, too
        tied = last and bool(model.tie_word_embeddings)
        return "all" if stage.at == 0 else "embedding" if tied else ""
    if block.place == "last":
        return "all" if last else ""
    if block.place == "tower":
        return "all" if stage.at == 0 else ""
    return "all" if last and settings.draft == "mtp" else ""


# -------------------------------------------------------------------------------------- the sum


def footprint(
    model: ModelFacts,
    ranks: Ranks,
    layout: Layout,
    asked: Settings,
    rules: MemoryRules,
    stored: Storage,
    device: Device,
    total: int,
    held: Weights | None = None,
    raw: Storage | None = None,
) -> Footprint | None:
    """The memory of the fullest GPU; None where the matrices of the model are not known.

    `held` are its weights, where a release with the same cuts gave them already. `raw` is how the
    checkpoint stores them, where the engine is to quantize them itself.
    """
    device = replace(device, memory_mib=total // MIB)
    settings = rules.settled(asked, model, layout, device)
    held = held or weights(model, ranks, layout, settings, rules, stored)
    if held is None or settings.share is None:
        return None
    beside = rules.beside(model, ranks, layout, settings, device)
    offloaded = min(settings.offload, held.bytes)
    made = Footprint(
        total=total,
        budget=total,
        weights=held,
        beside=beside,
        kv=0,
        cache=rules.cache(model, ranks, layout, settings, device),
        settings=settings,
        offloaded=offloaded,
        loading=_loading(model, ranks, layout, settings, rules, raw) or held.bytes,
        assumes=beside.assumes + _left_out(settings),
    )
    budget = _budget(made, rules.share_of, settings.share)
    stated = settings.kv_bytes
    return replace(made, budget=budget, kv=budget - made.needed if stated is None else stated)


def _loading(
    model: ModelFacts,
    ranks: Ranks,
    layout: Layout,
    settings: Settings,
    rules: MemoryRules,
    raw: Storage | None,
) -> int:
    """Bytes of the weights as the checkpoint has them, where all of them are loaded so."""
    if raw is None or not rules.loads_whole:
        return 0
    plain = replace(model, quantization=MappingProxyType({}))
    whole = weights(plain, ranks, layout, settings, rules, raw)
    return 0 if whole is None or whole.unknown else whole.bytes


def _left_out(settings: Settings) -> tuple[str, ...]:
    """What is not counted: with it, more memory is needed, never less."""
    if settings.draft in COUNTED_DRAFTS:
        return ()
    return (f"weights and cache of the draft ({settings.draft}) are left out",)


def on_more(made: Footprint, total: int) -> Footprint:
    """The same on a card with another memory and without what is doubtful: the gain is cache."""
    share = made.settings.share or 0
    gained = int((total - made.total) * share)
    fixed = made.settings.kv_bytes is not None
    cache = 0 if fixed else gained + made.beside.doubtful
    return replace(made, total=total, budget=made.budget + gained, kv=made.kv + cache)


def _budget(made: Footprint, share_of: ShareOf, share: float) -> int:
    """What the engine may use of the card, in the terms of its share."""
    taken = {
        "total": 0,
        "free_before_load": made.beside.before_load,
        "free_after_load": made.needed,
    }[share_of]
    return taken + int((made.total - taken) * share)
