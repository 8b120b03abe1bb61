"""What vLLM refuses: every constraint between a layout, a model and what else is asked.

Read in vllm 0.33.0 (config/parallel.py, config/model.py, linear.py, vocab_parallel_embedding.py,
fused_moe/config.py) and in the sdists from 0.11.2 on. The constraints without `since` held in every
release that was opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    Layout,
    ModelFacts,
    Options,
    Ranks,
    at_most,
    divides,
    divides_either,
)

VOCABULARY_PADDING = 64
"""vllm 0.33.0, vocab_parallel_embedding.py: rows are padded to this, whatever the TP size."""

BLOCKS = "quant-block-misaligned"
LEAST_BLOCK = 32
"""vllm 0.33.0, fused_moe/oracle/fp8.py: scales of experts are refined to blocks of this size."""

_EXPERTS = ("tp", "pcp", "dp", "ep")
_PARALLEL = ("tp", "pp", "pcp", "dp", "dp_local", "dp_rank", "nnodes", "executor")

READS: dict[str, tuple[str, ...]] = {
    "tp-heads-indivisible": ("tp",),
    "tp-kv-heads-indivisible": ("tp",),
    "kv-replication": ("tp", "dcp"),
    "mla-kv-duplication": ("tp", "dcp"),
    "shard-dim-indivisible": ("tp",),
    "quant-group-misaligned": ("tp",),
    BLOCKS: _EXPERTS,
    "experts-indivisible": _EXPERTS,
    "node-group-size-mismatch": ("tp", "pp", "pcp", "dp", "nnodes"),
    "gpu-count-short": _PARALLEL,
    "gpu-count-surplus": _PARALLEL,
    "gpu-count-unknown": _PARALLEL,
}

DEATH = "stops while it builds the model"


def constraints(
    model: ModelFacts | None,
    ranks: Ranks,
    layout: Layout,
    options: Options = NO_OPTIONS,
    device: Device | None = None,
) -> Iterator[Constraint]:
    """Every constraint that the known facts allow to state, held or not."""
    if model is not None:
        yield from _heads(model, ranks)
        yield from _kv_heads(model, ranks)
        yield from _widths(model, ranks)
        yield from _advice(model, ranks)
    if layout.nnodes > 1:
        yield _nodes(ranks, layout)
    if ranks.visible_devices is not None and ranks.gpus_per_pod is not None:
        yield _gpus(ranks, layout)


def _heads(model: ModelFacts, ranks: Ranks) -> Iterator[Constraint]:
    """config/model.py, for MLA too: the largest count of all layers, in every release opened."""
    if model.attention_heads:
        yield Constraint(
            rule="tp-heads-indivisible", subject="attention heads",
            left=model.attention_heads, right=ranks.attention_tp, test=divides,
            refusal="must be divisible by tensor parallel size", consequence="refuses to start",
            cures=("tp",), facts=("attention_heads",),
        )  # fmt: skip
    for count in dict.fromkeys(model.other_attention_heads):
        yield Constraint(
            rule="tp-heads-indivisible", subject="attention heads", left=count,
            right=ranks.attention_tp, test=divides, refusal="is not divisible by",
            consequence=DEATH, cures=("tp",), facts=("other_attention_heads",),
        )  # fmt: skip


def _kv_heads(model: ModelFacts, ranks: Ranks) -> Iterator[Constraint]:
    """linear.py, QKVParallelLinear: heads are split or copied evenly. Most classes ask before, with
    an assertion that has no text."""
    if model.mla:
        return
    for count in dict.fromkeys(v for v in (model.kv_heads, *model.other_kv_heads) if v):
        general = Constraint(
            rule="tp-kv-heads-indivisible", subject="KV heads",
            left=count, right=ranks.attention_tp, test=divides_either, refusal="",
            consequence=DEATH, cures=("tp",),
            facts=("kv_heads",) if count == model.kv_heads else ("other_kv_heads",),
        )  # fmt: skip
        yield general
        if _copies_no_heads(model):
            yield replace(general, test=divides, advisory=True)


@cache
def _exceptions() -> dict[str, Any]:
    path = Path(__file__).parent / "data" / "vllm_exceptions.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _copies_no_heads(model: ModelFacts) -> bool:
    """A model class that fails where there are more ranks than KV heads."""
    rows = _exceptions()["kv_heads_not_copied"]
    if model.architecture is not None:
        return model.architecture in rows["architectures"]
    return model.model_type in rows["model_types"]


def _widths(model: ModelFacts, ranks: Ranks) -> Iterator[Constraint]:
    """linear.py and vocab_parallel_embedding.py: what is split must divide."""
    if model.dense_ffn and model.intermediate_size:
        facts = ("dense_ffn", "intermediate_size")
        yield _width("FFN width", model.intermediate_size, ranks.dense_tp, facts)
    if model.vocab_size:
        padded = -(-model.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
        yield _width(
            "padded vocabulary", padded, ranks.dense_tp, ("vocab_size",),
            refusal="is not divisible by",
        )  # fmt: skip


def _width(subject: str, left: int, right: int, facts: tuple[str, ...], **more: Any) -> Constraint:
    more = {"rule": "shard-dim-indivisible", "refusal": ""} | more
    return Constraint(
        subject=subject, left=left, right=right, test=divides, consequence=DEATH, cures=("tp",),
        facts=facts, **more,
    )  # fmt: skip


def _advice(model: ModelFacts, ranks: Ranks) -> Iterator[Constraint]:
    """What an option, another kernel or the class of the model may take otherwise.

    `--mm-encoder-tp-mode data` keeps the vision tower whole, some classes pad an expert's width,
    and a scale that straddles two ranks is refined by some kernels.
    """
    tp, shared = ranks.dense_tp, model.shared_expert_intermediate_size
    for subject, width in (
        ("vision heads", model.vision_heads),
        ("linear attention value heads", model.linear_num_value_heads),
        ("shared expert width", shared),
    ):
        if width:
            yield _width(subject, width, tp, (), advisory=True)
    rule, group = _group(model)
    for width in (model.intermediate_size if model.dense_ffn else None, shared):
        if width and group:
            yield _width("FFN width in scales", width, tp * group, (), rule=rule, advisory=True)
    width = model.moe_intermediate_size
    if model.moe and width and ranks.ep == 1:
        yield _width(
            "expert width", width, ranks.moe_tp, (), rule="experts-indivisible", advisory=True
        )
        if group and rule == BLOCKS:
            yield _width(
                "expert width in scales", width, ranks.moe_tp * LEAST_BLOCK, (), rule=rule,
                advisory=True,
            )  # fmt: skip


def _group(model: ModelFacts) -> tuple[str, int | None]:
    """The rule about input columns that share a scale, and their number."""
    quantization = model.quantization or {}
    block = quantization.get("weight_block_size")
    if isinstance(block, list | tuple) and block:
        rule, size = BLOCKS, block[-1]
    else:
        rule, size = "quant-group-misaligned", quantization.get("group_size")
    return rule, size if isinstance(size, int) and size > 1 else None


def _nodes(ranks: Ranks, layout: Layout) -> Constraint:
    """config/parallel.py: every node takes the same number of ranks."""
    return Constraint(
        rule="node-group-size-mismatch", subject="GPUs", left=ranks.gpus, right=layout.nnodes,
        test=divides, refusal="must evenly divide the total world size",
        consequence="refuses to start", cures=("nnodes", "dp", "pp", "tp"), advisory=True,
    )  # fmt: skip


def _gpus(ranks: Ranks, layout: Layout) -> Constraint:
    """config/parallel.py checks the world size, v1/worker/gpu_worker.py each rank of DP."""
    assert ranks.gpus_per_pod is not None and ranks.visible_devices is not None
    checked = layout.executor is None and layout.nnodes == 1  # before any process is started
    world_fits = ranks.world_size <= ranks.visible_devices or not checked
    return Constraint(
        rule="gpu-count-short", subject="GPUs",
        left=ranks.gpus_per_pod, right=ranks.visible_devices, test=at_most,
        refusal="out of bounds" if world_fits else "larger than the number of available GPUs",
        refusal_since="0.16.0",
        consequence="dies while it starts" if world_fits else "refuses to start",
        cures=("dp", "pp", "tp", "pcp"),
    )  # fmt: skip
