"""What vLLM refuses: every constraint between a layout, a model and what else is asked.

Read in vllm 0.33.0 and in the packages from 0.6.0 on; `since` and `until` are the releases that
have the check. Constraints without them held in every release that was opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, TypeAlias

from shardlint.engines import vllm_models, vllm_options
from shardlint.engines.vllm_models import Shape, Special, Width, in_full_precision, shape
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

OLDEST_READ = "0.11.2"
"""What is known of classes and defaults was read from this release on."""

HEADS, KV_HEADS = "tp-heads-indivisible", "tp-kv-heads-indivisible"
WIDTHS, EXPERTS = "shard-dim-indivisible", "experts-indivisible"
BLOCKS, GROUPS = "quant-block-misaligned", "quant-group-misaligned"
STAGES, UNEVEN, NO_STAGES = "pp-exceeds-layers", "pp-uneven-stages", "pp-unsupported"
LAYERS = "pp-layers-indivisible"
CONTEXT = "dcp-invalid"
CONFLICT = "flag-conflict"
DENSE = "ep-on-dense-model"

LEAST_BLOCK = 32
"""vllm 0.29.0, fused_moe/oracle/fp8.py: scales of experts are refined to blocks of this size."""
REFINED_SINCE = "0.29.0"
PADDED_TILES_SINCE = "0.24.0"
"""marlin_utils.py: what is no multiple of a tile is filled with zeros."""

INT4 = ("awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "compressed-tensors")
"""Methods that store weights in groups along the input."""
TILE_N, TILE_K = 64, 128

DEATH = "stops while it builds the model"
KEEP_WHOLE = "expert parallelism (`--enable-expert-parallel`), which keeps experts whole"
REFUSAL = "refuses to start"

_EXPERTS = ("tp", "pcp", "dp", "ep")
_STAGES = ("pp",)
_CONTEXT = ("tp", "pcp", "dcp")
_PARALLEL = ("tp", "pp", "pcp", "dp", "dp_local", "dp_rank", "nnodes", "executor")

READS: dict[str, tuple[str, ...]] = {
    HEADS: ("tp",),
    KV_HEADS: ("tp",),
    "kv-replication": ("tp", "dcp"),
    "mla-kv-duplication": ("tp", "dcp"),
    WIDTHS: _EXPERTS,
    GROUPS: _EXPERTS,
    BLOCKS: _EXPERTS,
    EXPERTS: _EXPERTS,
    DENSE: ("ep",),
    CONTEXT: _CONTEXT,
    NO_STAGES: ("pp",),
    STAGES: ("pp",),
    UNEVEN: ("pp",),
    LAYERS: ("pp",),
    "node-group-size-mismatch": ("tp", "pp", "pcp", "dp", "nnodes"),
    "dp-local-mismatch": ("dp", "dp_local", "nnodes"),
    "dp-mode-invalid": ("dp", "dp_local", "dp_rank", "nnodes"),
    "dp-coupled": ("dp",),
    CONFLICT: ("tp", "pp", "pcp", "dp", "ep"),
    "context-len-exceeds-model": ("tp",),
    "dtype-unsupported-gpu": ("tp",),
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
            yield from _scales(model, built, ranks, layout, device)
        if model.moe or layout.ep:
            yield from _experts(model, built, ranks, layout, options, device)
        if layout.pp > 1:
            yield from _stages(model, built, layout, options)
        yield from vllm_options.of_model(model, layout, options, device)
    if layout.dcp > 1 or layout.pcp > 1:
        yield from _context(model, layout)
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
                **_of(special, DEATH),
            )  # fmt: skip


def _of(special: Special, consequence: str) -> dict[str, Any]:
    """The part of a constraint that an exception of a class gives."""
    return {
        "since": special.since, "until": special.until, "refusal": _plain(special.text),
        "refusal_since": special.since, "consequence": consequence,
        "advisory": not special.certain,
    }  # fmt: skip


def _plain(text: str) -> str:
    """The longest piece of an engine's text without its numbers."""
    pieces = [piece.strip() for part in text.split("{") for piece in part.split("}")[-1:]]
    return max(pieces, key=len, default="").rstrip(".,:= ")


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
        yield _cut(built.shared, tp, advisory=ranks.ep > 1)
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
        )  # fmt: skip


# -------------------------------------------------------------------------------------- scales


def _scales(
    model: ModelFacts, built: Shape, ranks: Ranks, layout: Layout, device: Device | None
) -> FOUND:
    quantization = model.quantization or {}
    if quantization.get("targets") is not None:
        return
    block, group = quantization.get("weight_block_size"), quantization.get("group_size")
    if isinstance(block, list | tuple) and len(block) == 2:
        yield from _blocks(model, built, ranks, layout, (block[0], block[1]))
    elif quantization.get("quant_algo") in ("NVFP4", "MXFP8"):
        yield from _small_blocks(model, built, ranks, str(quantization["quant_algo"]))
    elif quantization.get("method") in INT4 and isinstance(group, int) and _weights_only(model):
        yield from _groups(model, built, ranks, group, device)


def _weights_only(model: ModelFacts) -> bool:
    """Whole numbers of few bits, multiplied by 16-bit activations."""
    quantization = model.quantization or {}
    return "activation_bits" not in quantization and quantization.get("type", "int") == "int"


def _facts(facts: tuple[str, ...]) -> tuple[str, ...]:
    return (*facts, "quantization")


def _blocks(
    model: ModelFacts, built: Shape, ranks: Ranks, layout: Layout, block: tuple[int, int]
) -> FOUND:
    """fp8_utils.py: rows that a rank gets must be whole blocks; so must the output of a matrix that
    is not fused with others."""
    tp = ranks.dense_tp
    for item in built.scaled:
        if in_full_precision(model, item.part):
            continue
        if item.split == "experts":
            if ranks.ep == 1:
                yield from _expert_blocks(model, item.size, ranks, layout, block)
            continue
        yield Constraint(
            rule=BLOCKS, subject=item.subject, left=item.size, right=tp * block[1],
            test=_whole_if_cut(tp), refusal="is not divisible by weight quantization block_k",
            consequence=DEATH, cures=("tp",), facts=_facts(item.facts),
            advisory=item.part == "shared_expert" and ranks.ep > 1,
            sentence=_rest(item, tp, block[1], f"quantization blocks of {block[1]}"),
        )  # fmt: skip
    if in_full_precision(model, "attention"):
        return
    for item in built.latent:
        yield Constraint(
            rule=BLOCKS, subject=item.subject, left=item.size, right=tp * block[0],
            test=_whole_if_cut(tp), refusal="is not divisible by weight quantization block_n",
            consequence=DEATH, cures=("tp",), facts=_facts(item.facts),
            sentence=_rest(item, tp, block[0], f"quantization blocks of {block[0]}"),
        )  # fmt: skip


def _rest(item: vllm_models.Scaled, parts: int, unit: int, units: str) -> str | None:
    """What is left to each rank, where it is no whole number of units."""
    if item.size % (parts * unit) == 0:
        return None
    each = item.size / parts
    over = f"TP {parts}" if item.split == "tp" else f"{parts} ranks"
    return f"{item.subject} {item.size:,} over {over} leaves {each:g} a rank, no whole {units}"


def _whole_if_cut(parts: int) -> Any:
    """With one part nothing is cut, and a last block may be shorter."""
    return divides if parts > 1 else _always


def _always(_left: int, _right: int) -> bool:
    return True


def _expert_blocks(
    model: ModelFacts, width: int, ranks: Ranks, layout: Layout, block: tuple[int, int]
) -> FOUND:
    """fused_moe: whole blocks before 0.29; since then scales are refined down to blocks of 32."""
    parts = ranks.moe_tp
    if width % parts:
        return  # the width itself does not divide, which another constraint says
    part, cut = width // parts, f"TP × DP = {parts}" if layout.dp > 1 else f"TP {parts}"
    common: dict[str, Any] = {
        "rule": BLOCKS, "subject": "expert width", "facts": _facts(("moe_intermediate_size",)),
        "cures": ("tp", "dp") if layout.dp > 1 else ("tp",), "remedy": KEEP_WHOLE,
    }  # fmt: skip
    before = max(block[0], block[1]) if parts > 1 else block[0]
    sentence = (
        f"experts of width {width:,} over {cut} leave {part} columns a rank, no whole quantization"
        f" blocks of {before}"
    )
    yield Constraint(
        left=part, right=before, test=divides, until=REFINED_SINCE, consequence=DEATH,
        refusal="is not divisible by weight quantization block", sentence=sentence, **common,
    )  # fmt: skip
    refined = gcd(block[0], block[1], part, model.hidden_size or 0)
    yield Constraint(
        left=LEAST_BLOCK, right=refined, test=at_most, since=REFINED_SINCE, consequence=DEATH,
        refusal="is not divisible by weight quantization block",
        sentence=f"{sentence}, and blocks of {refined} are smaller than the {LEAST_BLOCK} that"
        " kernels can be given", **common,
    )  # fmt: skip
    if refined >= LEAST_BLOCK:
        yield Constraint(
            left=part, right=before, test=divides, since=REFINED_SINCE, refusal="",
            severity="warning", consequence=f"splits the scales into blocks of {refined}, which"
            " only slower Triton kernels take", sentence=sentence, **common,
        )  # fmt: skip


def _small_blocks(model: ModelFacts, built: Shape, ranks: Ranks, algorithm: str) -> FOUND:
    """modelopt.py: the input of each rank in whole groups of 16 (NVFP4) or 32 (MXFP8)."""
    size = 16 if algorithm == "NVFP4" else 32
    text = "size is not multiple of 16" if algorithm == "NVFP4" else ""
    for item in built.scaled:
        parts = ranks.dense_tp if item.split == "tp" else ranks.moe_tp
        whole = item.split == "experts" and ranks.ep > 1
        if in_full_precision(model, item.part) or whole:
            continue
        yield Constraint(
            rule=BLOCKS, subject=item.subject, left=item.size, right=parts * size,
            test=_whole_if_cut(parts), refusal=text, consequence=DEATH, cures=("tp",),
            facts=_facts(item.facts), since=OLDEST_READ,
            advisory=item.split == "experts" or (item.part == "shared_expert" and ranks.ep > 1),
            sentence=_rest(item, parts, size, f"{algorithm} groups of {size}"),
        )  # fmt: skip


def _groups(
    model: ModelFacts, built: Shape, ranks: Ranks, group: int, device: Device | None
) -> FOUND:
    """AWQ, GPTQ and the like: a group of inputs that share a scale stays on one rank."""
    bits = (model.quantization or {}).get("bits")
    for item in built.scaled:
        if in_full_precision(model, item.part):
            continue
        if item.split == "experts":
            if ranks.ep == 1 and group > 0:
                yield _expert_groups(item.size, ranks.moe_tp, group, device, item.facts)
        elif group > 0:
            yield _group(item, ranks.dense_tp, group, ranks.ep > 1)
        elif group == -1 and bits == 8:
            yield _tiles(item, ranks.dense_tp)
    columns = model.linear_num_value_heads
    if columns and not in_full_precision(model, "linear_attention") and ranks.dense_tp > 1:
        yield _gates(columns, ranks.dense_tp)


def _group(item: vllm_models.Scaled, tp: int, group: int, ep: bool) -> Constraint:
    return Constraint(
        rule=GROUPS, subject=item.subject, left=item.size, right=tp * group,
        test=_whole_if_cut(tp), refusal="", consequence=DEATH, cures=("tp",),
        facts=_facts(item.facts), advisory=item.part == "shared_expert" and ep,
        sentence=_rest(item, tp, group, f"quantization groups of {group}"),
    )  # fmt: skip


def _expert_groups(
    width: int, parts: int, group: int, device: Device | None, facts: tuple[str, ...]
) -> Constraint:
    """Marlin refuses the shape; the kernel that takes its place fails on small batches."""
    return Constraint(
        rule=GROUPS, subject="expert width", left=width, right=parts * group,
        test=_whole_if_cut(parts), refusal="", cures=("tp",), facts=_facts(facts),
        consequence="has no kernel for that and dies while it starts or at the first request",
        advisory=device is not None and device.vendor != "nvidia",
        sentence=f"experts of width {{left:,}} over {parts} ranks leave {width / parts:g} inputs"
        f" each, no whole number of quantization groups of {group}",
        remedy=KEEP_WHOLE,
    )  # fmt: skip


def _tiles(item: vllm_models.Scaled, tp: int) -> Constraint:
    """Marlin before 0.24 took whole tiles only; before 0.8 no other kernel took 8-bit channels."""
    return Constraint(
        rule=GROUPS, subject=item.subject, left=item.size, right=tp * TILE_K, test=divides,
        refusal="is not divisible by min_thread_k", consequence=DEATH, cures=("tp",),
        facts=_facts(item.facts), until="0.8.0",
        sentence=f"{item.subject} {{left:,}} over TP {tp} leaves {item.size / tp:g} inputs a rank,"
        f" no multiple of the {TILE_K} that a tile of the Marlin kernel takes",
    )  # fmt: skip


def _gates(heads: int, tp: int) -> Constraint:
    """The two gates of a gated delta net have one column for each value head."""
    return Constraint(
        rule=GROUPS, subject="linear attention gates", left=heads, right=tp * TILE_N, test=divides,
        refusal="", consequence=DEATH, cures=("tp",), until=PADDED_TILES_SINCE,
        facts=_facts(("linear_num_value_heads",)), since=OLDEST_READ,
        sentence=f"the gates of linear attention have {{left}} columns, {heads / tp:g} a rank at TP"
        f" {tp}, fewer than the {TILE_N} that a tile of the Marlin kernel takes",
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
    if layout.ep and not model.moe and model.dense_ffn:
        yield Constraint(
            rule=DENSE, subject="experts", left=1, right=0, test=at_most,
            refusal="Number of experts in the model must be greater than 0", since="0.8.0",
            consequence=REFUSAL, cures=("ep",), facts=("num_experts", "dense_ffn"),
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
            **_of(special, DEATH),
        )  # fmt: skip
    for special in built.special.get("experts_must_divide_tp", ()):
        if not _on(special, device):
            continue
        yield Constraint(
            rule=EXPERTS, subject="experts", left=experts, right=ranks.dense_tp, test=divides,
            cures=("tp",), facts=("num_experts", "architecture"),
            sentence="{left} experts do not divide over tensor parallel size {right}, which this"
            " class of model asks for",
            **_of(special, DEATH) | {"advisory": not _certainly_on(special, device)
                                     or not options.sure("moe_backend")},
        )  # fmt: skip
    if options.get("moe_backend") != MEGA:
        return
    for special in built.special.get("megamoe_needs_ep", ()):
        if _on(special, device):
            yield Constraint(
                rule=CONFLICT, subject="expert parallelism", left=1, right=int(ranks.ep > 1),
                test=at_most, cures=(), places=("options.moe_backend",),
                facts=("architecture",), sentence=f"`--moe-backend {MEGA}` needs expert"
                " parallelism, which is off",
                **_of(special, DEATH) | {"advisory": not _certainly_on(special, device)},
            )  # fmt: skip
    for special in built.special.get("experts_must_divide_ep", ()):
        if _on(special, device) and ranks.ep > 1:
            yield Constraint(
                rule=EXPERTS, subject="experts", left=experts + _redundant(options),
                right=ranks.ep, test=divides, cures=("tp", "dp"), places=("layout.ep",),
                facts=("num_experts", "architecture"), sentence="{left} experts do not divide over"
                f" {ranks.ep} ranks of expert parallelism, which `{MEGA}` asks for",
                **_of(special, DEATH) | {"advisory": not _certainly_on(special, device)},
            )  # fmt: skip


MEGA = "deep_gemm_mega_moe"
VENDORS = {"cuda": "nvidia", "rocm": "amd"}


def _on(special: Special, device: Device | None) -> bool:
    """Whether an exception can concern this card."""
    vendor = VENDORS.get(special.platform or "")
    return special.platform is None or device is None or device.vendor == vendor


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


# -------------------------------------------------------------------------------------- stages


def stage_layers(layers: int, pp: int) -> list[int]:
    """Layers of each stage, first stage first.

    distributed/utils.py: what is left over goes to the last stages but one, never to the last.
    """
    base, rest = divmod(layers, pp)
    return [base + (1 if pp - 1 - rest <= stage < pp - 1 else 0) for stage in range(pp)]


def _stages(model: ModelFacts, built: Shape, layout: Layout, options: Options) -> FOUND:
    pp = layout.pp
    for since, until in built.no_pipeline:
        yield Constraint(
            rule=NO_STAGES, subject="stages", left=pp, right=1, test=at_most,
            refusal="Pipeline parallelism is not supported for this model", refusal_since="0.6.6",
            since=since, until=until, consequence=REFUSAL, cures=("pp",), facts=("architecture",),
            sentence=f"{model.architecture} cannot be split over pipeline stages",
        )  # fmt: skip
    for special in built.special.get("max_pp", ()):
        yield Constraint(
            rule=NO_STAGES, subject="stages", left=pp, right=int(special.value), test=at_most,
            cures=("pp",), facts=("architecture",),
            sentence=f"{model.architecture} cannot be split over pipeline stages",
            **_of(special, REFUSAL),
        )  # fmt: skip
    layers = model.num_layers
    if not layers:
        return
    yield from _partition(layers, pp, options)
    if "VLLM_PP_LAYER_PARTITION" in options.values or not options.sure("VLLM_PP_LAYER_PARTITION"):
        return
    yield Constraint(
        rule=STAGES, subject="layers", left=pp, right=layers, test=at_most, refusal="",
        severity="warning", consequence="starts stages that hold nothing", cures=("pp",),
        facts=("num_layers",), sentence="{left} pipeline stages for {right} layers",
    )  # fmt: skip
    sizes = stage_layers(layers, pp)
    yield Constraint(
        rule=LAYERS, subject="layers", left=layers, right=pp, test=divides, refusal="",
        severity="info", cures=(), places=("layout.pp",), facts=("num_layers",),
        consequence="lets the longest stage set the pace",
        sentence=f"{{left}} layers do not divide over {{right}} stages: {_listed(sizes)}",
    )  # fmt: skip
    yield from _first_stages(model, built, sizes)


def _listed(sizes: list[int]) -> str:
    shown = [str(size) for size in sizes[:8]]
    return ", ".join(shown) + (", …" if len(sizes) > len(shown) else "")


def _first_stages(model: ModelFacts, built: Shape, sizes: list[int]) -> FOUND:
    """Stages that some classes cannot build."""
    if model.moe and model.moe_layers is not None:
        without = _stages_without(model.moe_layers, sizes)
        for special in built.special.get("pp_stage_needs_moe_layer", ()):
            yield Constraint(
                rule=UNEVEN, subject="stages", left=without, right=0, test=at_most, cures=("pp",),
                facts=("moe_layers", "num_layers", "architecture"),
                sentence="{left} of the pipeline stages hold no mixture-of-experts layer, which"
                " this class of model needs in each",
                **_of(special, DEATH),
            )  # fmt: skip
    levels = model.deepstack_levels
    if levels and len(sizes) > 1:
        for special in built.special.get("pp_first_stage_min_layers", ()):
            yield Constraint(
                rule=UNEVEN, subject="layers", left=levels, right=sizes[0], test=at_most,
                cures=("pp",), facts=("deepstack_levels", "num_layers", "architecture"),
                sentence="the first stage has {right} layers, and the vision tower feeds the first"
                " {left}",
                **_of(special, DEATH),
            )  # fmt: skip


def _stages_without(moe_layers: tuple[int, ...], sizes: list[int]) -> int:
    """How many stages hold no mixture layer."""
    mixtures, start, count = set(moe_layers), 0, 0
    for size in sizes:
        count += not any(layer in mixtures for layer in range(start, start + size))
        start += size
    return count


def _partition(layers: int, pp: int, options: Options) -> FOUND:
    """distributed/utils.py: the variable lists the layers of every stage."""
    name = "VLLM_PP_LAYER_PARTITION"
    text = options.get(name)
    if not isinstance(text, str):
        return
    common: dict[str, Any] = {
        "rule": CONFLICT, "consequence": DEATH, "cures": (), "places": (f"options.{name}",),
        "facts": ("num_layers",),
    }  # fmt: skip
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        yield Constraint(
            subject="stages", left=1, right=0, test=at_most, refusal="Invalid partition string",
            sentence=f"`{name}` is no list of numbers", **common,
        )  # fmt: skip
        return
    yield Constraint(
        subject="stages", left=len(sizes), right=pp, test=_same, refusal="does not match pp_size",
        sentence=f"`{name}` lists {{left}} stages and there are {{right}}", **common,
    )  # fmt: skip
    yield Constraint(
        subject="layers", left=sum(sizes), right=layers, test=_same,
        refusal="does not match num_hidden_layers",
        sentence=f"`{name}` adds up to {{left}} layers and the model has {{right}}", **common,
    )  # fmt: skip
    if sizes and sum(sizes) == layers:
        yield Constraint(
            subject="layers", left=4 * max(sizes) * len(sizes), right=5 * layers, test=at_most,
            refusal="", severity="info", sentence=f"`{name}` gives one stage {max(sizes)} of"
            f" {layers} layers, over a quarter more than an equal part",
            **common | {"rule": UNEVEN, "consequence": "lets the longest stage set the pace"},
        )  # fmt: skip


def _same(left: int, right: int) -> bool:
    return left == right


# ------------------------------------------------------------------------------------- context


def _context(model: ModelFacts | None, layout: Layout) -> FOUND:
    """config/parallel.py and config/model.py: decode ranks are taken out of the tensor ranks."""
    tp, pcp, dcp = layout.tp, layout.pcp, layout.dcp
    common: dict[str, Any] = {"rule": CONTEXT, "consequence": REFUSAL, "places": ("layout.dcp",)}
    if pcp == 1:
        yield Constraint(
            subject="tensor parallel size", left=tp, right=dcp, test=divides,
            refusal="must be divisible by dcp_size", since=OLDEST_READ, cures=("dcp",),
            sentence="tensor parallel size {left} is no multiple of decode context parallel size"
            " {right}", **common,
        )  # fmt: skip
    else:
        yield Constraint(
            subject="decode context parallel size", left=int(dcp in (1, pcp, tp * pcp)), right=1,
            test=_same, refusal="When PCP is enabled, DCP must be disabled, span the PCP axis",
            since="0.26.0", cures=("dcp",), sentence=f"decode context parallel size {dcp} is"
            f" neither 1, {pcp} nor {tp * pcp} beside prefill context parallel size {pcp}",
            **common,
        )  # fmt: skip
    if model is None or dcp == 1:
        return
    yield from _context_of_model(model, layout, common)


def _context_of_model(model: ModelFacts, layout: Layout, common: dict[str, Any]) -> FOUND:
    tp, dcp, kv = layout.tp, layout.dcp, model.kv_heads
    for special in shape(model).special.get("dcp", ()):
        yield Constraint(
            subject="decode context parallel size", left=dcp, right=1, test=at_most,
            cures=("dcp",), facts=("architecture",),
            sentence=f"{model.architecture} does not take decode context parallelism",
            **common | _of(special, DEATH),
        )  # fmt: skip
    if model.mla:
        return
    if kv and not model.other_kv_heads:
        facts = ("kv_heads", "attention_heads")
        yield Constraint(
            subject="KV heads", left=kv + 1, right=tp, test=at_most, facts=facts, cures=("dcp",),
            refusal="Decode context parallelism for GQA/MQA requires", refusal_since="0.27.0",
            since=OLDEST_READ, sentence=f"decode context parallel size {dcp} spreads copies of KV"
            f" heads, and tensor parallel size {tp} makes none of {kv} KV heads", **common,
        )  # fmt: skip
        if tp > kv:
            yield Constraint(
                subject="copies", left=dcp, right=max(1, tp // kv), test=at_most, facts=facts,
                refusal="exceeds the maximum supported value", refusal_since="0.27.0",
                since=OLDEST_READ, cures=("dcp",), sentence="decode context parallel size {left}"
                f" exceeds the {{right}} copies of each KV head at tensor parallel size {tp}",
                **common,
            )  # fmt: skip
        if model.attention_heads:
            yield Constraint(
                subject="query heads per KV head", left=model.attention_heads // kv, right=dcp,
                test=divides, facts=facts, refusal="number of query heads per KV head",
                refusal_since="0.27.0", since=OLDEST_READ, cures=("dcp",),
                sentence="{left} query heads per KV head do not divide over decode context parallel"
                " size {right}", **common,
            )  # fmt: skip
    windows = sum(group.layers for group in model.kv_groups if group.window is not None)
    if windows:
        yield Constraint(
            subject="sliding layers", left=windows, right=0, test=at_most, since=OLDEST_READ,
            refusal="DCP not support sliding window", cures=("dcp",), facts=("kv_groups",),
            sentence="{left} layers have a sliding window, which decode context parallelism does"
            " not take", **common,
        )  # fmt: skip


# ---------------------------------------------------------------------------------------- GPUs


def _nodes(ranks: Ranks, layout: Layout) -> Constraint:
    """config/parallel.py: every node takes the same number of ranks."""
    return Constraint(
        rule="node-group-size-mismatch", subject="GPUs", left=ranks.gpus, right=layout.nnodes,
        test=divides, refusal="must evenly divide the total world size", refusal_since="0.27.0",
        consequence=REFUSAL, cures=("nnodes", "dp", "pp", "tp"), since="0.27.0",
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
