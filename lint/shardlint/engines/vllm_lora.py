"""The room that vLLM holds for LoRA adapters, from the start (vllm/lora/layers/).

Every linear layer of the text gets, for each adapter that may be in use at a time, a matrix of
`rank` × inputs and one of outputs × `rank` in the type of the model. Of a layer that is cut by its
outputs the first is whole on every rank, of one that is cut by its inputs the second. Matrices that
are fused have a pair each. Routed experts have theirs since the release in data/vllm_memory.json.
Not counted: embeddings and heads (few classes), towers (with an option), sharding by rank.
"""

from __future__ import annotations

from typing import Final

from shardlint.engines.vllm_run import Run, cut
from shardlint.matrices import Block, Weight

LINEAR: Final = ("attention", "linear_attention", "dense_ffn", "shared_expert")


def adapters(run: Run) -> int:
    """Bytes of all adapters on the fullest rank, its stage taken as large as any other."""
    settings = run.settings
    if not settings.max_loras or not settings.max_lora_rank:
        return 0
    sums = [_block(run, block) * max(1, len(block.layers)) for block in _blocks(run)]
    each = settings.max_loras * settings.max_lora_rank * run.element
    return sum(sums) * each // run.layout.pp


def _blocks(run: Run) -> list[Block]:
    return [block for block in run.model.weights if block.place == "layers"]


def _block(run: Run, block: Block) -> int:
    return sum(_sides(run, weight) for weight in block.weights if weight.where != "checkpoint")


def _sides(run: Run, weight: Weight) -> int:
    """Inputs and outputs of a matrix on one rank, as often as it is there."""
    if weight.inputs == 1:
        return 0
    if weight.part == "expert":
        held = run.expert(weight) if run.told["lora_experts"]["value"] else None
    else:
        held = cut(weight, run.tp) if weight.part in LINEAR else None
    return held.count * (held.inputs + held.outputs) if held is not None else 0
