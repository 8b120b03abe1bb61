"""What vLLM refuses: every constraint between a layout, a model and what else is asked.

Read in vllm 0.33.0 and in the packages from 0.6.0 on; `since` and `until` are the releases that
have the check. Constraints without them held in every release that was opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from shardlint.engines import vllm_options, vllm_scales, vllm_stages
from shardlint.engines.vllm_models import (
    DEATH,
    KEEP_WHOLE,
    OLDEST_READ,
    REFUSAL,
    Shape,
    Special,
    may_be_whole,
    of,
    shape,
)
from shardlint.engines.widths import Width
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
CONFLICT = "flag-conflict"
DENSE = "ep-on-dense-model"

_EXPERTS = ("tp", "pcp", "dp", "ep")
_CONTEXT = ("tp", "pcp", "dcp")
_PARALLEL = ("tp", "pp", "pcp", "dp", "dp_local", "dp_rank", "nnodes", "executor")

READS: dict[str, tuple[str, ...]] = {
    HEADS: ("tp",),
    KV_HEADS: ("tp",),
    "kv-replication": ("tp", "dcp"),
    "mla-kv-duplication": ("tp", "dcp"),
    WIDTHS: _EXPERTS,
    "quant-group-misaligned": _EXPERTS,
    "quant-block-misaligned": _EXPERTS,
    EXPERTS: _EXPERTS,
    DENSE: ("ep",),
    "dcp-invalid": _CONTEXT,
    "pp-unsupported": ("pp",),
    "pp-exceeds-layers": ("pp",),
    "pp-uneven-stages": ("pp",),
    "pp-layers-indivisible": ("pp",),
    "node-group-size-mismatch": ("tp", "pp", "pcp", "dp", "nnodes"),
    "dp-local-mismatch": ("dp", "dp_local", "nnodes"),
    "dp-mode-invalid": ("dp", "dp_local", "dp_rank", "nnodes"),
    "dp-coupled": ("dp",),
    CONFLICT: ("tp", "pp", "pcp", "dp", "ep", "nnodes"),
    "context-len-exceeds-model": (),
    "dtype-unsupported-gpu": (),
    "gpu-count-short": _PARALLEL,
    "gpu-count-surplus": _PARALLEL,
    "gpu-count-unknown": _PARALLEL,
}


def constraints(
    model: ModelFacts | None,
    ranks: Ranks,
    layout: Layout,
    options: Options = NO_OPTIONS,
    device: Device | None = None,
) -> FOUND:
    """Every constraint that the known facts allow to state, held or not."""
    if model is not None:
        built = shape(model)
        yield from _heads(model, ranks)
        yield from _kv_heads(model, built, ranks)
        yield from _widths(model, built, ranks, layout, options)
        if model.quantization:
            yield from vllm_scales.scales(model, built, ranks, layout, device)
        if model.moe or layout.ep:
            yield from _experts(model, built, ranks, layout, options, device)
        if layout.pp > 1:
            yield from vllm_stages.stages(model, built, layout, options)
        yield from vllm_options.of_model(model, layout, options, device)
    if layout.dcp > 1 or layout.pcp > 1:
        yield from vllm_stages.context(model, layout)
    yield from vllm_options.of_layout(model, layout, options)
    if layout.nnodes > 1:
        yield _nodes(ranks, layout)
    if ranks.visible_devices is not None and ranks.gpus_per_pod is not None:
        yield _gpus(ranks, layout)


# -------------------------------------------------------------------------------------- heads


def _heads(model: ModelFacts, ranks: Ranks) -> FOUND:
    """config/model.py, for MLA too: the largest count of all layers, in every release opened."""
    if model.attention_heads:
        yield Constraint(
            rule=HEADS, subject="attention heads",
            left=model.attention_heads, right=ranks.attention_tp, test=divides,
            refusal="must be divisible by tensor parallel size", consequence=REFUSAL,
            cures=("tp",), facts=("attention_heads",),
        )  # fmt: skip
    for count in dict.fromkeys(model.other_attention_heads):
        yield Constraint(
            rule=HEADS, subject="attention heads", left=count,
            right=ranks.attention_tp, test=divides, refusal="is not divisible by",
            consequence=DEATH, cures=("tp",), facts=("other_attention_heads",),
        )  # fmt: skip


def _kv_heads(model: ModelFacts, built: Shape, ranks: Ranks) -> FOUND:
    """linear.py, QKVParallelLinear: heads are split or copied evenly. Most classes ask before, with
    an assertion that has no text."""
    if model.mla:
        return
    for count in dict.fromkeys(v for v in (model.kv_heads, *model.other_kv_heads) if v):
        facts = ("kv_heads",) if count == model.kv_heads else ("other_kv_heads",)
        yield Constraint(
            rule=KV_HEADS, subject="KV heads", left=count, right=ranks.attention_tp,
            test=divides_either, refusal="", consequence=DEATH, cures=("tp",), facts=facts,
        )  # fmt: skip
        for special in built.special.get("replicates_kv", ()):
            yield Constraint(
                rule=KV_HEADS, subject="KV heads", left=count, right=ranks.attention_tp,
                test=divides, cures=("tp",), facts=(*facts, "architecture"),
                sentence="{left} KV heads do not divide over tensor parallel size {right}, and"
                " this class of model does not copy them",
                **of(special, DEATH),
            )  # fmt: skip


# ------------------------------------------------------------------------------------- widths


def _widths(
    model: ModelFacts, built: Shape, ranks: Ranks, layout: Layout, options: Options
) -> FOUND:
    """linear.py and vocab_parallel_embedding.py: what is cut must divide."""
    tp = ranks.dense_tp
    for width in built.widths:
        refusal = "is not divisible by" if width.subject == "padded vocabulary" else ""
        yield _cut(width, tp, refusal)
    if model.mamba_groups and model.mamba_groups > 1:
        yield Constraint(
            rule=WIDTHS, subject="Mamba groups", left=model.mamba_groups, right=tp, test=divides,
            refusal="If tensor parallel world size does not divide num_groups, then num_groups"
            " must equal 1", refusal_since="0.11.0", since=OLDEST_READ,
            consequence=DEATH, cures=("tp",), facts=("mamba_groups",),
            sentence=_counted("Mamba groups"),
        )  # fmt: skip
    if built.shared is not None:
        yield _cut(built.shared, tp, advisory=may_be_whole(ranks))
    if built.experts is not None and ranks.ep == 1:
        yield _cut(
            built.experts, ranks.moe_tp, since="0.7.0", by_experts=layout.dp > 1, experts=True
        )
    if built.vision:
        yield from _vision(built, tp, options)


def _cut(
    width: Width,
    right: int,
    refusal: str = "",
    *,
    since: str | None = None,
    advisory: bool = False,
    by_experts: bool = False,
    experts: bool = False,
) -> Constraint:
    sentence = None
    if by_experts:
        sentence = (
            "experts of width {left:,} do not divide over TP × DP = {right}, into which they are"
            " cut without expert parallelism"
        )
    elif width.counted:
        sentence = _counted(width.subject)
    return Constraint(
        rule=WIDTHS, subject=width.subject, left=width.size, right=right, test=divides,
        refusal=refusal, consequence=DEATH, cures=("tp", "dp") if by_experts else ("tp",),
        facts=width.facts, advisory=advisory or not width.certain, since=since,
        sentence=sentence, remedy=KEEP_WHOLE if experts else None,
    )  # fmt: skip


def _counted(things: str) -> str:
    return f"{{left}} {things} do not divide over tensor parallel size {{right}}"


ENCODER_OPTIONS = ("mm_encoder_tp_mode", "language_model_only", "limit_mm_per_prompt",
                   "mm_encoder_only", "skip_mm_profiling")  # fmt: skip


WHOLE_TOWER_SINCE = "0.10.2"


def _vision(built: Shape, tp: int, options: Options) -> FOUND:
    """The tower is cut too, unless it is kept whole, falls back to that, or is left out."""
    whole = options.get("mm_encoder_tp_mode") == "data" and built.encoder_whole
    if built.encoder in ("fallback", "whole") or whole or options.get("language_model_only"):
        return
    limited = "limit_mm_per_prompt" in options.values
    certain = built.encoder == "error" and options.sure(*ENCODER_OPTIONS) and not limited
    for width in built.vision:
        yield Constraint(
            rule=WIDTHS, subject=width.subject, left=width.size, right=tp, test=divides,
            refusal="is not divisible by", consequence=DEATH, cures=("tp",),
            facts=(*width.facts, "architecture"), since=OLDEST_READ,
            advisory=not certain or not width.certain,
            sentence=_counted(width.subject) if width.counted else None,
            remedy="`--mm-encoder-tp-mode data`, which keeps the vision tower whole on every rank"
            if built.encoder_whole else None,
            add="--mm-encoder-tp-mode data" if built.encoder_whole else None,
            add_since=WHOLE_TOWER_SINCE,
        )  # fmt: skip


# ------------------------------------------------------------------------------------- experts


def _experts(
    model: ModelFacts,
    built: Shape,
    ranks: Ranks,
    layout: Layout,
    options: Options,
    device: Device | None,
) -> FOUND:
    experts = model.num_experts
    if layout.ep and not model.moe and (model.dense_ffn or built.dense):
        yield Constraint(
            rule=DENSE, subject="experts", left=1, right=0, test=at_most,
            refusal="Number of experts in the model must be greater than 0", since="0.8.0",
            consequence=REFUSAL, cures=("ep",), facts=("num_experts", "dense_ffn"),
            advisory=not built.dense,
            sentence="expert parallelism is on and the model has no experts",
            remedy="leave `--enable-expert-parallel` out",
        )  # fmt: skip
    if not experts:
        return
    yield from _class_experts(experts, built, ranks, options, device)
    if ranks.ep > 1:
        yield from _expert_balance(experts, ranks.ep, options)


def _class_experts(
    experts: int, built: Shape, ranks: Ranks, options: Options, device: Device | None
) -> FOUND:
    """Classes that ask more than the general rules."""
    for special in built.special.get("tp_le_experts", ()):
        yield Constraint(
            rule=EXPERTS, subject="experts", left=ranks.dense_tp, right=experts, test=at_most,
            cures=("tp",), facts=("num_experts", "architecture"),
            sentence="tensor parallel size {left} exceeds the {right} experts",
            **of(special, DEATH),
        )  # fmt: skip
    for special in built.special.get("experts_must_divide_tp", ()):
        if not _on(special, device):
            continue
        yield Constraint(
            rule=EXPERTS, subject="experts", left=experts, right=ranks.dense_tp, test=divides,
            cures=("tp",), facts=("num_experts", "architecture"),
            sentence="{left} experts do not divide over tensor parallel size {right}, which this"
            " class of model asks for",
            **of(special, DEATH) | {"advisory": not _certainly_on(special, device)
                                     or not options.sure("moe_backend")},
        )  # fmt: skip
    yield from _tail(built, ranks, device)
    if options.get("moe_backend") != MEGA:
        return
    for special in built.special.get("megamoe_needs_ep", ()):
        if _on(special, device):
            yield Constraint(
                rule=CONFLICT, subject="expert parallelism", left=1, right=int(ranks.ep > 1),
                test=at_most, cures=(), places=("options.moe_backend",),
                facts=("architecture",), sentence=f"`--moe-backend {MEGA}` needs expert"
                " parallelism, which is off",
                **of(special, DEATH) | {"advisory": not _certainly_on(special, device)},
            )  # fmt: skip
    for special in built.special.get("experts_must_divide_ep", ()):
        if _on(special, device) and ranks.ep > 1:
            yield Constraint(
                rule=EXPERTS, subject="experts", left=experts + _redundant(options),
                right=ranks.ep, test=divides, cures=("tp", "dp"), places=("layout.ep",),
                facts=("num_experts", "architecture"), sentence="{left} experts do not divide over"
                f" {ranks.ep} ranks of expert parallelism, which `{MEGA}` asks for",
                **of(special, DEATH) | {"advisory": not _certainly_on(special, device)},
            )  # fmt: skip


def _tail(built: Shape, ranks: Ranks, device: Device | None) -> FOUND:
    """A kernel that is chosen by the ranks that share an expert, and built for those of TP."""
    for special in built.special.get("latent_moe_tail", ()):
        sizes, tp = tuple(special.value), ranks.dense_tp
        if ranks.ep > 1 or ranks.moe_tp not in sizes or not _on(special, device):
            continue
        sure = device is not None and (device.compute_capability or "").startswith("10.")
        yield Constraint(
            rule=EXPERTS, subject="experts", left=int(tp not in sizes), right=0, test=at_most,
            cures=("tp",), facts=("num_experts", "architecture", "hidden_size"),
            sentence=f"experts are cut over {ranks.moe_tp} ranks, for which this class of model has"
            f" a kernel that takes tensor parallel sizes {' and '.join(map(str, sizes))}, not {tp}",
            remedy=KEEP_WHOLE, **of(special, DEATH) | {"advisory": not sure},
        )  # fmt: skip


MEGA = "deep_gemm_mega_moe"
VENDORS = {"cuda": "nvidia", "rocm": "amd"}


def _on(special: Special, device: Device | None) -> bool:
    """Whether an exception can concern this card."""
    vendor = VENDORS.get(special.platform or "")
    return special.platform is None or device is None or device.vendor in (vendor, "unknown")


def _certainly_on(special: Special, device: Device | None) -> bool:
    """CUDA is what the releases are built for; another platform must be seen."""
    return special.certain and (device is not None or special.platform in (None, "cuda"))


def _redundant(options: Options) -> int:
    config = options.get("eplb_config")
    inner = config.get("num_redundant_experts") if isinstance(config, dict) else None
    value = inner if inner is not None else options.get("num_redundant_experts", 0)
    return value if isinstance(value, int) else 0


def _expert_balance(experts: int, ep: int, options: Options) -> FOUND:
    """fused_moe/layer.py: balancing wants equal parts; without it some ranks get one more."""
    balanced = bool(options.get("enable_eplb"))
    total = experts + (_redundant(options) if balanced else 0)
    sure = options.sure("enable_eplb", "eplb_config", "num_redundant_experts")
    if balanced:
        yield Constraint(
            rule=EXPERTS, subject="experts", left=total, right=ep, test=divides,
            refusal="EPLB currently only supports even distribution of experts across ranks",
            since="0.9.2", consequence=DEATH, cures=("tp", "dp"), facts=("num_experts",),
            places=("layout.ep",), advisory=not sure,
            sentence="{left} experts, redundant ones included, do not divide over {right} ranks of"
            " expert parallelism, which load balancing asks for",
            remedy=f"{-total % ep} more redundant experts (`num_redundant_experts` in"
            " `--eplb-config`)" if total % ep else None,
        )  # fmt: skip
    elif sure:
        yield Constraint(
            rule=EXPERTS, subject="experts", left=total, right=ep, test=divides, refusal="",
            severity="info", consequence="gives some ranks one expert more than others",
            cures=(), places=("layout.ep",), facts=("num_experts",),
            sentence="{left} experts do not divide evenly over {right} ranks of expert"
            " parallelism",
        )  # fmt: skip


# ---------------------------------------------------------------------------------------- GPUs


def _nodes(ranks: Ranks, layout: Layout) -> Constraint:
    """config/parallel.py: every node takes the same number of ranks."""
    return Constraint(
        rule="node-group-size-mismatch", subject="GPUs", left=ranks.gpus, right=layout.nnodes,
        test=divides, refusal="must evenly divide the total world size", refusal_since="0.27.0",
        consequence=REFUSAL, cures=("nnodes", "dp", "pp", "tp"), since=OLDEST_READ,
        sentence="{left} ranks do not divide over {right} nodes",
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
        consequence="dies while it starts" if world_fits else REFUSAL,
        cures=("dp", "pp", "tp", "pcp"),
    )  # fmt: skip
