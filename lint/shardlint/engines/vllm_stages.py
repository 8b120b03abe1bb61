"""Layers over pipeline stages, and sequences over decode context parallel ranks.

Read in vllm 0.33.0 (config/parallel.py, config/model.py, distributed/utils.py) and in the packages
from 0.6.0 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from shardlint.engines.vllm_models import DEATH, OLDEST_READ, REFUSAL, Shape, no_stages, of, shape
from shardlint.plan import Constraint, Layout, ModelFacts, Options, at_most, divides

FOUND: TypeAlias = Iterator[Constraint]

STAGES, UNEVEN, NO_STAGES = "pp-exceeds-layers", "pp-uneven-stages", "pp-unsupported"
LAYERS = "pp-layers-indivisible"
MOST_STAGES = 1024
"""Beyond it nobody needs to be told what each stage holds."""
CONTEXT, CONFLICT = "dcp-invalid", "flag-conflict"


def stage_layers(layers: int, pp: int) -> list[int]:
    """Layers of each stage, first stage first.

    distributed/utils.py: what is left over goes to the last stages but one, never to the last.
    """
    base, rest = divmod(layers, pp)
    return [base + (1 if pp - 1 - rest <= stage < pp - 1 else 0) for stage in range(pp)]


def stages(model: ModelFacts, built: Shape, layout: Layout, options: Options) -> FOUND:
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
            **of(special, REFUSAL),
        )  # fmt: skip
    yield from _drafting(model, pp, options)
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
    if pp > MOST_STAGES:
        return
    sizes = stage_layers(layers, pp)
    yield Constraint(
        rule=LAYERS, subject="layers", left=layers, right=pp, test=divides, refusal="",
        severity="info", cures=(), places=("layout.pp",), facts=("num_layers",),
        consequence="lets the longest stage set the pace",
        sentence=f"{{left}} layers do not divide over {{right}} stages: {_listed(sizes)}",
    )  # fmt: skip
    yield from _first_stages(model, built, sizes)


OWN_DRAFTS = {
    "deepseek_v3": "DeepSeekMTPModel", "deepseek_v32": "DeepSeekMTPModel",
    "glm_moe_dsa": "DeepSeekMTPModel", "deepseek_v4": "DeepSeekV4MTPModel",
    "mimo": "MiMoMTPModel", "glm4_moe": "Glm4MoeMTPModel", "ernie4_5_moe": "ErnieMTPModel",
    "qwen3_next": "Qwen3NextMTP", "qwen3_5": "Qwen3_5MTP", "qwen3_5_moe": "Qwen3_5MoeMTP",
    "longcat_flash": "LongCatFlashMTPModel", "step3p5": "Step3p5MTP",
}  # fmt: skip
"""config/speculative.py, hf_config_override: the class of the layers of a model that draft."""
DRAFT_ALONE_SINCE = "0.30.0"
"""The draft was split over the stages of its target before, and had to be written for that."""
V0_DRAFTS = ("speculative_config", "speculative_model", "num_speculative_tokens")


def _drafting(model: ModelFacts, pp: int, options: Options) -> FOUND:
    """What drafts must be able to have stages too."""
    common: dict[str, Any] = {
        "rule": NO_STAGES, "subject": "stages", "left": pp, "right": 1, "test": at_most,
        "cures": ("pp",),
    }  # fmt: skip
    asked = next((name for name in V0_DRAFTS if options.get(name)), None)
    if asked is not None and options.get("VLLM_USE_V1") != "1":
        yield Constraint(
            since="0.6.6", until="0.8.0", consequence=DEATH,
            refusal="incompatible with pipeline parallelism",
            sentence="speculative decoding does not go with pipeline stages", **common,
        )  # fmt: skip
    config = options.get("speculative_config")
    told = config if isinstance(config, dict) else {}
    method = str(told.get("method") or options.get("spec_method") or "")
    draft = OWN_DRAFTS.get(model.model_type or "")
    if draft is None or not method.endswith("mtp") or told.get("model") is not None:
        return
    for since, until in no_stages(draft):
        yield Constraint(
            since=since, until=until or DRAFT_ALONE_SINCE, consequence=REFUSAL,
            facts=("model_type",), refusal="Pipeline parallelism is not supported for this model",
            sentence=f"the layers of {model.architecture} that draft cannot be split over pipeline"
            " stages", remedy="no `--speculative-config`", **common,
        )  # fmt: skip


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
                **of(special, DEATH),
            )  # fmt: skip
    levels = model.deepstack_levels
    if levels and len(sizes) > 1:
        for special in built.special.get("pp_first_stage_min_layers", ()):
            yield Constraint(
                rule=UNEVEN, subject="layers", left=levels, right=sizes[0], test=at_most,
                cures=("pp",), facts=("deepstack_levels", "num_layers", "architecture"),
                sentence="the first stage has {right} layers, and the vision tower feeds the first"
                " {left}",
                **of(special, DEATH),
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


def context(model: ModelFacts | None, layout: Layout) -> FOUND:
    """config/parallel.py and config/model.py: decode ranks are taken out of the tensor ranks."""
    tp, pcp, dcp = layout.tp, layout.pcp, layout.dcp
    common: dict[str, Any] = {"rule": CONTEXT, "consequence": REFUSAL, "places": ("layout.dcp",)}
    if pcp == 1:
        yield Constraint(
            subject="tensor parallel size", left=tp, right=dcp, test=divides,
            refusal="must be divisible by dcp_size", refusal_since="0.26.0",
            since=OLDEST_READ, cures=("dcp",),
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
            **common | of(special, DEATH),
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
