"""What SGLang refuses: every constraint between a layout, a model and what else is asked.

Read in sglang 0.5.23 and in the packages from 0.4.0 on (server_args.py, from 0.5.20 on
arg_groups/validation_hook.py and parallel_hook.py; layers/linear.py, fused_moe_triton/layer.py,
quantization/fp8_utils.py, configs/model_config.py). `since` and `until` are the releases that have
the check. Heads are cut over the ranks that share an attention; most classes ask by an assertion
that has no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from shardlint.engines import sglang_options
from shardlint.engines.cuts import VOCABULARY_PADDING, rounded_up
from shardlint.engines.sglang_options import DEATH, REFUSAL
from shardlint.engines.widths import (
    INT4,
    Scaled,
    Width,
    in_full_precision,
    known,
    latent_outputs,
    rest,
    scaled,
    weights_only,
    whole_if_cut,
    with_scales,
)
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

FOUND: TypeAlias = Iterator[Constraint]

HEADS, KV_HEADS = "tp-heads-indivisible", "tp-kv-heads-indivisible"
WIDTHS, EXPERTS = "shard-dim-indivisible", "experts-indivisible"
BLOCKS, GROUPS = "quant-block-misaligned", "quant-group-misaligned"

_ATTENTION = ("tp", "attention_dp", "pcp")
_CUT = (*_ATTENTION, "ep", "moe_tp")
_RANKS = ("tp", "pp", "dp", "attention_dp", "nnodes", "executor")
READS: Final[dict[str, tuple[str, ...]]] = {
    HEADS: _ATTENTION,
    KV_HEADS: _ATTENTION,
    "kv-replication": (*_ATTENTION, "dcp"),
    "mla-kv-duplication": (*_ATTENTION, "dcp"),
    WIDTHS: _CUT,
    BLOCKS: _CUT,
    GROUPS: _CUT,
    EXPERTS: _CUT,
    "dcp-invalid": ("tp", "dcp"),
    "node-group-size-mismatch": ("tp", "pp", "dp", "nnodes"),
    "dp-mode-invalid": _ATTENTION,
    "flag-conflict": ("tp", "pp", "dp", "attention_dp", "pcp", "ep", "nnodes"),
    "context-len-exceeds-model": (),
    **dict.fromkeys(
        ("gpu-count-short", "gpu-count-surplus", "gpu-count-unknown", "tp-cross-node",
         "tp-slow-link", "group-spread-unpinned", "shm-missing", "p2p-risk", "net-iface-unset",
         "rdma-not-exposed", "gpu-shared", "replicas-exceed-capacity"),
        _RANKS,
    ),
}  # fmt: skip

REFUSES_VOCABULARY_UNTIL: Final = "0.5.22"
"""vocab_parallel_embedding.py: since then it is padded to what all ranks share evenly."""
MXFP4: Final = ("mxfp4", "gpt_oss_mxfp4")
"""The width of an expert is rounded up for the kernel."""
EP_CHECKED_SINCE: Final = "0.4.8"
BLOCKS_SINCE: Final = "0.4.1"
TOWERS: Final[dict[str, tuple[str, str | None]]] = {
    "qwen2_vl": ("0.4.4", None),
    "qwen2_5_vl": ("0.4.4", "0.5.1"),
    "internvl_chat": ("0.4.7.post1", "0.4.9.post5"),
    "qwen3_vl": ("0.5.3", None),
    "qwen3_vl_moe": ("0.5.3", None),
    "qwen3_5": ("0.5.9", None),
    "qwen3_5_moe": ("0.5.9", None),
}
"""layers/attention/vision.py: types of models whose towers are cut by heads, and the releases that
add no heads to those that do not divide."""
WHOLE_TOWER: Final = "mm_enable_dp_encoder"


def constraints(
    model: ModelFacts | None,
    ranks: Ranks,
    layout: Layout,
    options: Options = NO_OPTIONS,
    device: Device | None = None,
) -> FOUND:
    """Every constraint that the known facts allow to state, held or not."""
    if model is not None and options.get("device") != "cpu":  # there, heads are padded
        yield from _heads(model, ranks)
        yield from _tower(model, ranks, options)
        yield from _widths(model, ranks, options)
        yield from _experts(model, ranks, options)
        yield from _scales(model, ranks, options, device)
    if model is not None:
        yield from sglang_options.of_model(model, options)
    yield from sglang_options.of_layout(ranks, layout, options)
    if layout.nnodes > 1:
        yield _nodes(ranks, layout)
    if ranks.visible_devices is not None and ranks.gpus_per_pod is not None:
        yield _gpus(ranks)


# -------------------------------------------------------------------------------------- heads


def _heads(model: ModelFacts, ranks: Ranks) -> FOUND:
    """models/*.py and linear.py, QKVParallelLinear; KV heads are split or copied evenly."""
    over = _over(ranks)
    counts = (model.attention_heads, *model.other_attention_heads)
    for at, count in enumerate(dict.fromkeys(counts)):
        if count:
            yield Constraint(
                rule=HEADS, subject="attention heads", left=count, right=ranks.attention_tp,
                test=divides, refusal="", consequence=DEATH, cures=("tp",),
                facts=("attention_heads",) if at == 0 else ("other_attention_heads",),
                sentence=f"{{left}} attention heads do not divide over {over}",
            )  # fmt: skip
    if model.mla:
        return
    for at, count in enumerate(dict.fromkeys((model.kv_heads, *model.other_kv_heads))):
        if count:
            yield Constraint(
                rule=KV_HEADS, subject="KV heads", left=count, right=ranks.attention_tp,
                test=divides_either, refusal="", consequence=DEATH, cures=("tp",),
                facts=("kv_heads",) if at == 0 else ("other_kv_heads",),
                sentence=f"{{left}} KV heads can neither be split nor copied evenly over {over}",
            )  # fmt: skip


def _tower(model: ModelFacts, ranks: Ranks, options: Options) -> FOUND:
    """VisionAttention: its heads are cut over the ranks of an attention, too."""
    since, until = TOWERS.get(model.model_type or "", ("", None))
    if since and model.vision_heads and WHOLE_TOWER not in options.values:
        yield Constraint(
            rule=WIDTHS, subject="vision heads", left=model.vision_heads,
            right=ranks.attention_tp, test=divides, refusal="is not divisible by",
            consequence=DEATH, cures=("tp",), facts=("vision_heads",), since=since, until=until,
            advisory=not options.sure(WHOLE_TOWER),
            sentence=f"{{left}} heads of the vision tower do not divide over {_over(ranks)}",
            remedy="`--mm-enable-dp-encoder` in releases that have it",
        )  # fmt: skip


def _over(ranks: Ranks) -> str:
    if ranks.attention_tp == ranks.dense_tp:
        return f"tensor parallel size {ranks.dense_tp}"
    return f"the {ranks.attention_tp} of {ranks.dense_tp} ranks that share an attention"


# ------------------------------------------------------------------------------------- widths


def _widths(model: ModelFacts, ranks: Ranks, options: Options) -> FOUND:
    """linear.py, fused_moe_triton/layer.py: what is cut must divide."""
    plain = ranks.attention_tp == ranks.dense_tp  # else some layers are cut by fewer ranks
    tp = ranks.dense_tp
    if model.dense_ffn and (width := known("FFN width", model, "intermediate_size")):
        kept = not options.sure("moe_dense_tp_size") or "moe_dense_tp_size" in options.values
        yield _cut(
            Width(width.subject, width.size, ("dense_ffn", *width.facts)), tp,
            advisory=not plain or (model.moe and kept),
        )  # fmt: skip
    if model.vocab_size:
        padded = rounded_up(model.vocab_size, VOCABULARY_PADDING)
        yield _cut(
            Width("padded vocabulary", padded, ("vocab_size",)), tp, advisory=not plain,
            until=REFUSES_VOCABULARY_UNTIL,
        )  # fmt: skip
    for width in (
        known("Mamba heads", model, "mamba_heads"),
        known("linear attention value heads", model, "linear_num_value_heads"),
        known("shared expert width", model, "shared_expert_intermediate_size"),
    ):
        if width is not None:
            yield _cut(width, ranks.attention_tp, advisory=True)
    if model.moe and (width := known("expert width", model, "moe_intermediate_size")):
        rounds = (model.quantization or {}).get("method") in MXFP4 or model.quantization is None
        yield _cut(width, ranks.moe_tp, advisory=rounds)


def _cut(width: Width, right: int, *, advisory: bool, until: str | None = None) -> Constraint:
    counted = f"{{left}} {width.subject} do not divide over {right} ranks"
    return Constraint(
        rule=WIDTHS, subject=width.subject, left=width.size, right=right, test=divides,
        refusal="is not divisible by" if width.subject == "padded vocabulary" else "",
        consequence=DEATH, cures=("tp",), facts=width.facts, advisory=advisory, until=until,
        sentence=counted if width.counted else None,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ experts


def _experts(model: ModelFacts, ranks: Ranks, options: Options) -> FOUND:
    """fused_moe_triton/layer.py: every rank of EP holds as many experts."""
    if not model.num_experts or ranks.ep == 1:
        return
    more = options.get("ep_num_redundant_experts", 0)
    sure = options.sure("ep_num_redundant_experts", "elastic_ep_backend")
    total = model.num_experts + (more if isinstance(more, int) else 0)
    yield Constraint(
        rule=EXPERTS, subject="experts", left=total, right=ranks.ep, test=divides, refusal="",
        since=EP_CHECKED_SINCE, consequence=DEATH, cures=("ep", "tp"), facts=("num_experts",),
        advisory=not sure or "elastic_ep_backend" in options.values, places=("layout.ep",),
        sentence="{left} experts, redundant ones included, do not divide over {right} ranks of"
        " expert parallelism",
        remedy=f"`--ep-num-redundant-experts {-model.num_experts % ranks.ep}`",
    )  # fmt: skip


# ------------------------------------------------------------------------------------- scales


def _scales(model: ModelFacts, ranks: Ranks, options: Options, device: Device | None) -> FOUND:
    quantization = model.quantization or {}
    if quantization.get("targets") is not None or not _as_stored(model, options):
        return
    block, group = quantization.get("weight_block_size"), quantization.get("group_size")
    if isinstance(block, list | tuple) and len(block) == 2:
        yield from _blocks(model, ranks, options, (block[0], block[1]), device)
    elif quantization.get("method") in INT4 and isinstance(group, int) and weights_only(model):
        yield from _groups(model, ranks, options, group)


def _as_stored(model: ModelFacts, options: Options) -> bool:
    """No option asks for another way to store the weights."""
    asked = options.get("quantization")
    return asked is None or asked == (model.quantization or {}).get("method")


def _parts(item: Scaled, ranks: Ranks) -> int:
    if item.part in ("attention", "linear_attention"):
        return ranks.attention_tp
    return ranks.moe_tp if item.split == "experts" else ranks.dense_tp


def _doubtful(item: Scaled, ranks: Ranks, options: Options) -> bool:
    """Some ways of exchange keep shared experts whole, and options dense layers."""
    if item.part == "shared_expert":
        return ranks.ep > 1 or ranks.attention_tp != ranks.dense_tp
    if item.part != "dense_ffn":
        return False
    asked = "moe_dense_tp_size"
    cut = ranks.attention_tp == ranks.dense_tp and asked not in options.values
    return not (cut and options.sure(asked))


def _blocks(
    model: ModelFacts, ranks: Ranks, options: Options, block: tuple[int, int],
    device: Device | None,
) -> FOUND:  # fmt: skip
    """fp8_utils.py, fp8.py: rows that a rank gets must be whole blocks."""
    other = device is not None and device.vendor == "amd"  # AITER pads
    for item in scaled(model):
        if in_full_precision(model, item.part):
            continue
        parts = _parts(item, ranks)
        expert, shared = item.split == "experts", item.part == "shared_expert"
        if (expert or shared) and item.size % parts:
            continue  # the width itself does not divide, which another constraint says
        yield _block(
            item, parts, block[1], other or _doubtful(item, ranks, options),
            "The output_size of gate's and up's weight" if expert else
            "is not divisible by weight quantization block", ("ep", "tp") if expert else ("tp",),
        )  # fmt: skip
    if not in_full_precision(model, "attention"):
        for item in latent_outputs(model):
            yield _block(item, ranks.attention_tp, block[0], other,
                         "is not divisible by weight quantization block_n", ("tp",))  # fmt: skip


def _block(
    item: Scaled, parts: int, size: int, advisory: bool, refusal: str, cures: tuple[str, ...]
) -> Constraint:
    return Constraint(
        rule=BLOCKS, subject=item.subject, left=item.size, right=parts * size,
        test=whole_if_cut(parts), refusal=refusal, consequence=DEATH, cures=cures,
        facts=with_scales(item.facts), advisory=advisory, since=BLOCKS_SINCE,
        sentence=rest(item, parts, size, f"quantization blocks of {size}"),
    )  # fmt: skip


def _groups(model: ModelFacts, ranks: Ranks, options: Options, group: int) -> FOUND:
    """awq.py, gptq.py, marlin_utils.py: a group of inputs that share a scale stays on one rank.

    Up to 0.4.4.post2 the layers were those of vLLM, which asked the same (issue 3571).
    """
    for item in scaled(model):
        if in_full_precision(model, item.part) or group < 1:
            continue
        parts = _parts(item, ranks)
        yield Constraint(
            rule=GROUPS, subject=item.subject, left=item.size, right=parts * group,
            test=whole_if_cut(parts), consequence=DEATH, cures=("tp",),
            refusal="The input size is not aligned with the quantized weight shape",
            facts=with_scales(item.facts),
            advisory=item.split == "experts" or _doubtful(item, ranks, options),
            sentence=rest(item, parts, group, f"quantization groups of {group}"),
        )  # fmt: skip


# ---------------------------------------------------------------------------------------- GPUs


def _nodes(ranks: Ranks, layout: Layout) -> Constraint:
    """check_server_args: every node takes the same number of ranks."""
    return Constraint(
        rule="node-group-size-mismatch", subject="GPUs", left=ranks.world_size,
        right=layout.nnodes, test=divides, refusal="tp_size must be divisible by number of nodes",
        consequence=REFUSAL, cures=("nnodes", "pp", "tp"),
        sentence="{left} ranks (TP × PP) do not divide over {right} nodes",
    )  # fmt: skip


def _gpus(ranks: Ranks) -> Constraint:
    """entrypoints/engine.py: a process for each rank takes the GPU of its number."""
    assert ranks.gpus_per_pod is not None and ranks.visible_devices is not None
    made: dict[str, Any] = {"consequence": "dies while it starts", "refusal": ""}
    return Constraint(
        rule="gpu-count-short", subject="GPUs", left=ranks.gpus_per_pod,
        right=ranks.visible_devices, test=at_most, cures=("dp", "pp", "tp"), **made,
    )  # fmt: skip
