"""What SGLang refuses of options beside the sizes of groups, and of sizes beside one another.

Read in sglang 0.4.0 to 0.5.23: check_server_args of server_args.py, arg_groups/validation_hook.py,
arg_groups/parallel_hook.py, arg_groups/moe_hook.py, configs/model_config.py. A constraint on an
option whose value is not certain is not stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from shardlint.plan import (
    Constraint,
    Layout,
    ModelFacts,
    Options,
    Ranks,
    at_most,
    divides,
)

FOUND: TypeAlias = Iterator[Constraint]

CONFLICT, MODE, DCP = "flag-conflict", "dp-mode-invalid", "dcp-invalid"
LENGTH: Final = "context-len-exceeds-model"
DEATH: Final = "stops while it builds the model"
REFUSAL: Final = "refuses to start"

OWN_DP: Final = "0.5.22"
"""parallel.py: --attn-dp-size, beside --dp-size."""
CONTEXT_PARALLEL: Final = "0.5.9"
STAGES_SINCE: Final = "0.4.6.post2"
STAGED_DRAFTS: Final = "0.5.21"
"""validation_hook.py: since then stages may draft, on prefill workers or where a variable asks."""
MIXED_CHUNKS_UNTIL: Final = "0.5.11"
PP_SPEC: Final = "SGLANG_ENABLE_PP_SPEC"
ALLOWED: Final = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
RESHAPING: Final = ("json_model_override_args", "model_config_parser")
"""Options that may give the model another length."""
WHOLE_OR_NONE: Final = ("flashinfer_cutlass", "flashinfer_cutedsl")
SAME: Final = (
    ("awq", "awq_marlin"),
    ("gptq", "gptq_marlin"),
    ("bitsandbytes",),
    ("gguf",),
    ("fp8",),
)
"""Names of one way to store weights, as a checkpoint and as an option give them."""


def _refuse(
    rule: str, sentence: str, text: str, places: tuple[str, ...], since: str | None = None,
    **more: Any,
) -> Constraint:  # fmt: skip
    """A combination that is there and must not be."""
    made: dict[str, Any] = {
        "subject": "options", "left": 1, "right": 0, "test": at_most, "consequence": REFUSAL,
        "cures": (), "refusal_since": since,
    }  # fmt: skip
    return Constraint(
        rule=rule, sentence=sentence, refusal=text, places=places, since=since, **made | more
    )


def of_layout(ranks: Ranks, layout: Layout, options: Options) -> FOUND:
    """Options that contradict the layout or one another."""
    yield from _data_parallel(layout)
    yield from _contexts(layout, options)
    if not options.values:
        return
    yield from _stages(layout, options)
    yield from _expert_groups(layout, options)
    yield from _expert_options(ranks, options)
    yield from _batches(options)


# ------------------------------------------------------------------------------ data parallel


def _data_parallel(layout: Layout) -> FOUND:
    dp, groups = layout.dp, layout.attention_dp
    if dp > 1 and layout.nnodes > 1 and groups == 1:
        yield _refuse(
            CONFLICT, f"{dp} data-parallel replicas over {layout.nnodes} nodes: each replica has"
            " a node of its own, and no engine starts them together",
            "multi-node data-parallel replicas are not supported", ("layout.dp",),
            refusal_since=OWN_DP,
            remedy="one server on each node behind a router, or `--attn-dp-size`, which makes the"
            " ranks of one server groups of attention",
            sets=(("attention_dp", dp), ("dp", 1)),
        )  # fmt: skip
    if dp > 1 and groups > 1:
        yield _refuse(
            CONFLICT, f"{dp} data-parallel replicas with {groups} groups of attention each",
            "data-parallel replicas combined with attention data parallelism are not supported",
            ("layout.attention_dp", "layout.dp"), OWN_DP,
        )  # fmt: skip
    if groups > 1:
        yield Constraint(
            rule=MODE, subject="ranks", left=layout.tp, right=groups, test=divides, refusal="",
            consequence=REFUSAL, cures=("tp",), places=("layout.attention_dp", "layout.tp"),
            sentence="{left} ranks of TP do not divide into {right} groups of attention",
        )  # fmt: skip


def _contexts(layout: Layout, options: Options) -> FOUND:
    """Ranks that share prompts (attn-cp) or the tokens of one request (dcp)."""
    shared = layout.pcp * layout.attention_dp
    if layout.pcp > 1:
        yield Constraint(
            rule=CONFLICT, subject="ranks", left=layout.tp, right=shared, test=divides,
            refusal="tp_size must be divisible by attn_", consequence=REFUSAL, cures=("tp",),
            since=CONTEXT_PARALLEL, places=("layout.pcp", "layout.tp"),
            sentence="{left} ranks of TP do not divide over attention CP × attention DP ="
            " {right}",
        )  # fmt: skip
    if layout.dcp > 1:
        yield Constraint(
            rule=DCP, subject="ranks", left=layout.tp, right=layout.dcp, test=divides,
            refusal="must be divisible by decode_context_parallel_size", since="0.5.15",
            consequence=REFUSAL, cures=("tp",), places=("layout.dcp", "layout.tp"),
            sentence="{left} ranks of TP do not divide over decode context parallel size {right}",
        )  # fmt: skip
    asked = options.get("enable_prefill_cp") is True
    if asked and "cp_strategy" not in options.values and options.sure("cp_strategy"):
        yield _refuse(
            CONFLICT, "context parallelism of prompts is on, and nothing says how it cuts them",
            "--cp-strategy must be set when --enable-prefill-cp is enabled",
            ("options.enable_prefill_cp",), "0.5.14", remedy="add `--cp-strategy zigzag`",
        )  # fmt: skip
    if asked and layout.dcp > 1:
        yield _refuse(
            CONFLICT, "decode context parallelism does not go with that of prompts",
            "--dcp-size > 1 does not support --enable-prefill-cp", ("layout.dcp",), "0.5.22",
        )  # fmt: skip


# -------------------------------------------------------------------------------------- stages


def _stages(layout: Layout, options: Options) -> FOUND:
    """check_server_args: what does not go with pipeline stages."""
    drafts = options.get("speculative_algorithm")
    if layout.pp == 1 or options.get("device") == "npu":
        return
    text = "Pipeline parallelism is not compatible with overlap schedule, speculative decoding"
    if isinstance(drafts, str) and drafts.lower() != "none":
        place = ("options.speculative_algorithm", "layout.pp")
        told = f"`--speculative-algorithm {drafts}` does not go with {layout.pp} pipeline stages"
        yield _refuse(
            CONFLICT, told, text, place, STAGES_SINCE, until=STAGED_DRAFTS,
            remedy="stages or drafts, not both",
        )  # fmt: skip
        sure = options.sure("disaggregation_mode", PP_SPEC)
        here = options.get("disaggregation_mode") != "prefill" and PP_SPEC not in options.values
        if sure and here and drafts.upper() in ("EAGLE", "NEXTN"):
            yield _refuse(
                CONFLICT, f"{told} but on prefill workers", "only supported on prefill nodes",
                place, STAGED_DRAFTS, remedy=f"stages or drafts, or `{PP_SPEC}=1`",
            )  # fmt: skip
    if options.get("enable_mixed_chunk") is True:
        yield _refuse(
            CONFLICT, f"`--enable-mixed-chunk` does not go with {layout.pp} pipeline stages", text,
            ("options.enable_mixed_chunk", "layout.pp"), STAGES_SINCE, until=MIXED_CHUNKS_UNTIL,
        )  # fmt: skip


# ------------------------------------------------------------------------------------- experts


def _whole(options: Options, name: str) -> int | None:
    value = options.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _expert_groups(layout: Layout, options: Options) -> FOUND:
    """check_server_args: copies of the experts inside of the ranks of TP."""
    copies = _whole(options, "moe_dp_size") or 1
    place = ("options.moe_dp_size",)
    if copies > 1:
        ep = layout.tp if layout.ep is True else max(1, int(layout.ep))
        yield Constraint(
            rule=CONFLICT, subject="ranks", left=layout.tp, right=copies, test=divides,
            refusal="tp_size must be divisible by moe_dp_size", consequence=REFUSAL, cures=(),
            since=CONTEXT_PARALLEL, places=place,
            sentence="{left} ranks of TP do not divide over {right} copies of the experts",
        )  # fmt: skip
        if ep > 1 and ep * copies != layout.tp:
            yield _refuse(
                CONFLICT, f"{copies} copies of experts over {ep} ranks each are not the"
                f" {layout.tp} ranks of TP", "ep_size * moe_dp_size must be", place,
                CONTEXT_PARALLEL,
            )  # fmt: skip
        if layout.pp > 1:
            yield _refuse(
                CONFLICT, "copies of the experts do not go with pipeline stages",
                "PP is not supported with context parallelism", place, CONTEXT_PARALLEL,
            )  # fmt: skip
    dense = _whole(options, "moe_dense_tp_size")
    if dense is not None and dense not in (1, layout.tp):
        yield _refuse(
            CONFLICT, f"dense layers over {dense} ranks are neither whole nor on all {layout.tp}",
            "moe_dense_tp_size only support", ("options.moe_dense_tp_size",), "0.4.5.post2",
        )  # fmt: skip


def _expert_options(ranks: Ranks, options: Options) -> FOUND:
    runner = options.get("moe_runner_backend")
    if runner in WHOLE_OR_NONE and ranks.ep not in (1, ranks.dense_tp):
        yield _refuse(
            CONFLICT, f"`--moe-runner-backend {runner}` takes experts over one rank or all"
            f" {ranks.dense_tp}, and {ranks.ep} are asked for",
            "The expert parallel size must be 1 or the same as the tensor parallel size",
            ("options.ep_size", "options.moe_runner_backend"),
            "0.5.8" if runner == WHOLE_OR_NONE[0] else OWN_DP,
        )  # fmt: skip
    sure = options.sure("ep_size", "moe_a2a_backend", "elastic_ep_backend")
    if options.get("enable_eplb") is True and ranks.ep == 1 and sure:
        yield _refuse(
            CONFLICT, "experts are to be balanced over the ranks of expert parallelism, and there"
            " is one", "", ("options.enable_eplb",), "0.5.3",
            remedy="`--ep-size` with the size of `--tp-size`",
        )  # fmt: skip


# ------------------------------------------------------------------------- batches and lengths


def _batches(options: Options) -> FOUND:
    chunk, page = _whole(options, "chunked_prefill_size"), _whole(options, "page_size")
    decodes = options.get("disaggregation_mode") == "decode"
    if chunk is not None and page and chunk > 0 and not decodes:
        yield Constraint(
            rule=CONFLICT, subject="tokens", left=chunk, right=page, test=divides,
            refusal="chunked_prefill_size must be divisible by page_size", consequence=REFUSAL,
            cures=(), places=("options.chunked_prefill_size",), since="0.4.9.post4",
            sentence="a chunk of {left} tokens is no whole number of pages of {right}",
        )  # fmt: skip


def of_model(model: ModelFacts, options: Options) -> FOUND:
    """Options that the model does not go with."""
    if not options.values:
        return
    yield from _length(model, options)
    yield from _methods(model, options)


def _length(model: ModelFacts, options: Options) -> FOUND:
    """model_config.py: no more than the config says, unless a variable allows it."""
    asked, most = _whole(options, "context_length"), model.longest_context
    allowed = str(options.get(ALLOWED, "0")).lower() in ("1", "true", "yes", "y", "t", "on")
    if asked is None or most is None or any(name in options.values for name in RESHAPING):
        return
    if not options.sure(ALLOWED, "SGLANG_IS_IN_CI", *RESHAPING):
        return
    yield Constraint(
        rule=LENGTH, subject="tokens", left=asked, right=most, test=at_most,
        severity="warning" if allowed else "error", cures=(), places=("options.context_length",),
        refusal="" if allowed else "is greater than the derived context_length",
        facts=("longest_context",), consequence=f"goes on because `{ALLOWED}` is set, and positions"
        " beyond give garbage or a crash" if allowed else REFUSAL,
        sentence="a context of {left:,} tokens exceeds the {right:,} of the model",
        remedy=f"at most {most:,}, or a RoPE scaling that the model was made for",
    )  # fmt: skip


def _family(name: str) -> tuple[str, ...] | None:
    return next((family for family in SAME if name in family), None)


def _methods(model: ModelFacts, options: Options) -> FOUND:
    """model_config.py: the option must name the way in which the checkpoint is stored."""
    asked = options.get("quantization")
    if not isinstance(asked, str) or (family := _family(asked)) is None:
        return
    stored = (model.quantization or {}).get("method")
    other = _family(stored) if isinstance(stored, str) else None
    if other is not None and other != family:
        yield _refuse(
            CONFLICT, f"`--quantization {asked}` contradicts the checkpoint, which is stored as"
            f" {stored}", "does not match the quantization method specified in the `quantization`"
            " argument", ("options.quantization",), facts=("quantization",),
            remedy="leave `--quantization` out", drop="quantization",
        )  # fmt: skip
