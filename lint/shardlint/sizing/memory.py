"""What one GPU holds: weights of the fullest rank, what is needed beside them, the KV cache.

Everything here follows from shapes and from the rules that the engine gives; no engine is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from shardlint.footprint import Footprint, MemoryRules, Part, Settings, Weights
from shardlint.matrices import Block, Weight
from shardlint.plan import Device, Layout, ModelFacts, Ranks
from shardlint.record import record
from shardlint.sizing.storage import Storage

__all__ = ["GIB", "MIB", "Footprint", "Weights", "capacity", "footprint", "most", "weights"]

GIB: Final = 2**30
MIB: Final = 2**20
CHECKPOINT_ALONE: Final = "checkpoint"
"""Weights that no engine loads."""
COUNTED_DRAFTS: Final = (None, "mtp", "ngram", "suffix")
"""Ways of drafting whose weights stand in the model's own checkpoint, or that have none."""
DRIVER_KEEPS_MIB: Final = 530
"""What engines see of a card less than its driver prints: 430 to 730 MiB on twelve cards."""


# ------------------------------------------------------------------------------------- the card


def capacity(device: Device) -> int | None:
    """Bytes of a card as engines see them; the label's GB where no figure is known."""
    if device.memory_mib is not None:
        return device.memory_mib * MIB
    return None if device.mem_gb is None else int(device.mem_gb * GIB) - DRIVER_KEEPS_MIB * MIB


def most(device: Device) -> int | None:
    """No card of this name was seen to have more bytes."""
    known = device.memory_mib * MIB if device.memory_mib is not None else 0
    label = int(device.mem_gb * GIB) if device.mem_gb is not None else 0
    return max(known, label) or None if known or label else None


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
    of = _layers_of(model.weights)
    sized = [
        _Sized(
            block,
            tuple(
                (weight, rules.part(weight, model, ranks, settings))
                for weight in block.weights
                if weight.where != CHECKPOINT_ALONE
            ),
        )
        for block in model.weights
    ]
    stages = rules.stages(model.num_layers, layout)
    found = [_stage(sized, model, at, stages, settings, stored, of) for at in range(len(stages))]
    return max(found, key=lambda item: item.bytes)


@record
class _Sized:
    block: Block
    parts: tuple[tuple[Weight, Part], ...]


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
    at: int,
    stages: tuple[range, ...],
    settings: Settings,
    stored: Storage,
    of: Mapping[str, int],
) -> Weights:
    parts: dict[str, int] = {}
    unknown: set[str] = set()
    last = at == len(stages) - 1
    for item in sized:
        block = item.block
        layers = tuple(layer for layer in block.layers if layer in stages[at])
        if not _stands_here(block, layers, at, last, model, settings):
            continue
        for weight, part in item.parts:
            if block.place == "first" and at > 0 and weight.part != "embedding":
                continue
            bytes = stored.bytes(weight, part, layers, of.get(weight.part, 0))
            if bytes is None:
                unknown.add(weight.part)
            else:
                name = "draft" if block.place == "draft" else weight.part
                parts[name] = parts.get(name, 0) + bytes
    return Weights(parts=MappingProxyType(parts), unknown=frozenset(unknown), stage=at)


def _stands_here(
    block: Block,
    layers: tuple[int, ...],
    at: int,
    last: bool,
    model: ModelFacts,
    settings: Settings,
) -> bool:
    """Whether a stage holds something of a block."""
    if block.place == "layers":
        return bool(layers)
    if block.place == "first":  # a tied head needs the embedding behind the last stage, too
        return at == 0 or (last and bool(model.tie_word_embeddings))
    if block.place == "last":
        return last
    if block.place == "tower":
        return at == 0 and not settings.text_only
    return last and settings.draft == "mtp"


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
) -> Footprint | None:
    """The memory of the fullest GPU; None where the matrices of the model are not known."""
    settings = rules.settled(asked, model, layout, replace(device, memory_mib=total // MIB))
    held = weights(model, ranks, layout, settings, rules, stored)
    if held is None or settings.share is None:
        return None
    beside = rules.beside(model, ranks, layout, settings, device)
    offloaded = min(settings.offload, held.bytes)
    made = Footprint(
        total=total,
        budget=int(total * settings.share),
        weights=held,
        beside=beside,
        kv=0,
        cache=rules.cache(model, ranks, layout, settings, device),
        settings=settings,
        offloaded=offloaded,
        assumes=_left_out(settings),
    )
    return replace(made, kv=_left(made, rules))


def _left_out(settings: Settings) -> tuple[str, ...]:
    """What is not counted: with it, more memory is needed, never less."""
    if settings.draft in COUNTED_DRAFTS:
        return ()
    return (f"weights and cache of the draft ({settings.draft}) are left out",)


def _left(made: Footprint, rules: MemoryRules) -> int:
    """What is left for the KV cache, in the terms of the engine's share."""
    settings = made.settings
    if settings.kv_bytes is not None:
        return settings.kv_bytes
    if rules.share_of == "free_after_load":
        return int((made.total - made.needed) * (settings.share or 0))
    return made.budget - made.needed
