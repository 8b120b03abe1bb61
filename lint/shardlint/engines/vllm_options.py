"""What vLLM refuses of options beside the layout: load balancing, memory, drafts, adapters, types.

Texts and releases were read in the packages from 0.6.0 to 0.33.0. A constraint on an option whose
value is not certain is not stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from shardlint.engines.vllm_models import OLDEST_READ, REFUSAL, shape
from shardlint.plan import Constraint, Device, Layout, ModelFacts, Options, at_most, version

FOUND: TypeAlias = Iterator[Constraint]

CONFLICT, MODE, LOCAL = "flag-conflict", "dp-mode-invalid", "dp-local-mismatch"
LENGTH, TYPES = "context-len-exceeds-model", "dtype-unsupported-gpu"
DEATH = "dies while it starts"

NO_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4")
"""config/model.py: model types that overflow in 16-bit floats, in every release from 0.11.2 on."""

LEAST_CAPABILITY = {
    "awq": 75, "fp8": 75, "modelopt_fp4": 75, "mxfp4": 80, "gpt_oss_mxfp4": 80, "modelopt": 75,
    "compressed-tensors": 70, "gptq": 60,
}  # fmt: skip
"""quantization/*.py: the lowest value of any release, times ten."""

SAME = (
    ("awq", "awq_marlin", "auto_awq"),
    ("gptq", "gptq_marlin", "gptq_bitblas", "gptq_marlin_24", "auto_gptq"),
    ("mxfp4", "gpt_oss_mxfp4"),
    ("fp8", "deepseek_v4_fp8"),
    ("compressed-tensors",),
    ("bitsandbytes",),
    ("gguf",),
)
"""Names of one way to store weights, as a checkpoint and as an option give them."""
LEFT = {"bitsandbytes": "0.28.0", "gguf": "0.24.0"}
"""Methods that the engine itself no longer has, and since when; a plugin may bring them back."""


def _refuse(
    rule: str, sentence: str, text: str, place: str, since: str | None = None, **more: Any
) -> Constraint:
    """A combination that is there and must not be."""
    made: dict[str, Any] = {
        "subject": "options", "left": 1, "right": 0, "test": at_most, "consequence": REFUSAL,
        "cures": (), "refusal_since": since,
    }  # fmt: skip
    return Constraint(
        rule=rule, sentence=sentence, refusal=text, places=(place,), since=since, **made | more
    )


def of_layout(model: ModelFacts | None, layout: Layout, options: Options) -> FOUND:
    """Options that contradict the layout or one another."""
    yield from _balancing(layout, options)
    yield from _experts(layout, options)
    if not options.values:
        return
    yield from _modes(model, layout, options)
    yield from _nodes(layout, options)
    yield from _batches(options)
    yield from _needing(options)
    yield from _half_alone(options)
    yield from _drafts(layout, options)
    yield from _adapters(layout, options)


# ------------------------------------------------------------------------------ data parallel


def _balancing(layout: Layout, options: Options) -> FOUND:
    dp, local, rank = layout.dp, layout.dp_local, layout.dp_rank
    if local is not None and local > dp:
        yield Constraint(
            rule=LOCAL, subject="local data parallel size", left=local, right=dp, test=at_most,
            refusal="must be <= data_parallel_size", since="0.9.0", consequence=REFUSAL,
            cures=("dp_local",), places=("layout.dp_local",),
            sentence="local data parallel size {left} exceeds data parallel size {right}",
        )  # fmt: skip
    if rank is not None and dp > 1 and rank >= dp:
        yield Constraint(
            rule=MODE, subject="rank", left=rank + 1, right=dp, test=at_most,
            refusal="must be in the range", since="0.10.2", consequence=REFUSAL, cures=(),
            places=("layout.dp_rank",),
            sentence=f"data parallel rank {rank} is not below data parallel size {dp}",
        )  # fmt: skip
    if options.get("data_parallel_external_lb") and dp == 1 and options.sure("data_parallel_size"):
        yield _refuse(
            MODE, "external load balancing is asked for one data parallel rank",
            "data_parallel_external_lb can only be set when data_parallel_size > 1",
            "options.data_parallel_external_lb", OLDEST_READ,
        )  # fmt: skip


def _modes(model: ModelFacts | None, layout: Layout, options: Options) -> FOUND:
    """entrypoints/cli/serve.py, engine/arg_utils.py: one way of balancing, and what it needs."""
    external = bool(options.get("data_parallel_external_lb")) or layout.dp_rank is not None
    hybrid = bool(options.get("data_parallel_hybrid_lb"))
    many = bool(options.get("data_parallel_multi_port_external_lb"))
    start = options.get("data_parallel_start_rank") is not None
    ways = external + (hybrid or (start and not many)) + many
    if ways > 1 and not options.get("headless"):
        yield _refuse(
            MODE, "more than one way of data parallel load balancing is asked for",
            "Cannot use more than one data parallel load balancing mode",
            _first(options, "data_parallel_hybrid_lb", "data_parallel_multi_port_external_lb",
                   "data_parallel_external_lb", "data_parallel_start_rank"), "0.22.0",
        )  # fmt: skip
    if hybrid and not external and layout.dp_local is None and layout.nnodes == 1:
        yield _refuse(
            MODE, "hybrid load balancing needs the number of ranks on this node", "",
            "options.data_parallel_hybrid_lb", OLDEST_READ,
        )  # fmt: skip
    if external and ways == 1:
        yield from _external(layout, options)
    if external and layout.dp > 1 and model is not None and shape(model).dense:
        place = _first(options, "data_parallel_external_lb")
        yield _refuse(
            MODE, "external load balancing of data parallel ranks is for mixtures of experts, and"
            f" {model.id} is dense", "Non-MoE models do not support external data parallel mode",
            place if options.get("data_parallel_external_lb") else "layout.dp_rank", "0.21.0",
            facts=("num_experts", "dense_ffn"),
            remedy="start independent servers without `--data-parallel-*` options",
        )  # fmt: skip
    count = options.get("api_server_count")
    if options.get("headless") and isinstance(count, int) and count > 0:  # before: more than 1
        yield _refuse(
            MODE, "a headless node has no API servers to count", "cannot be used with --headless",
            "options.api_server_count", "0.15.0",
        )  # fmt: skip


def _external(layout: Layout, options: Options) -> FOUND:
    """One rank in each process, which must know which one it is."""
    rankless = layout.dp_rank is None and options.sure("data_parallel_rank", "nnodes")
    if rankless and layout.dp > 1 and layout.nnodes == 1:
        yield _refuse(
            MODE, "external load balancing needs the data parallel rank of this process", "",
            "options.data_parallel_external_lb", OLDEST_READ,
            remedy="`--data-parallel-rank`, or `--nnodes` with `--node-rank`",
        )  # fmt: skip
    if layout.dp_local not in (None, 1):
        yield _refuse(
            MODE, f"external load balancing has one rank in each process, and {layout.dp_local} are"
            " asked for", "", "layout.dp_local", OLDEST_READ,
        )  # fmt: skip


def _first(options: Options, *names: str) -> str:
    """The first of these options that is stated, as a place."""
    return "options." + next((name for name in names if name in options.values), names[0])


def _nodes(layout: Layout, options: Options) -> FOUND:
    rank = options.get("node_rank")
    if isinstance(rank, int) and layout.nnodes > 1 and rank >= layout.nnodes:
        yield Constraint(
            rule=CONFLICT, subject="rank", left=rank + 1, right=layout.nnodes, test=at_most,
            refusal="must be between 0 and", since=OLDEST_READ, consequence=REFUSAL, cures=(),
            refusal_since="0.27.0",
            places=("options.node_rank",),
            sentence=f"node rank {rank} is not below the number of nodes, {layout.nnodes}",
        )  # fmt: skip
    executor = options.get("distributed_executor_backend")
    if layout.pp > 1 and executor == "uni":
        yield _refuse(
            CONFLICT, "the executor `uni` is one process, which has no pipeline stages", "",
            "options.distributed_executor_backend", OLDEST_READ,
        )  # fmt: skip
    if layout.nnodes > 1 and options.get("data_parallel_backend") == "ray":
        yield _refuse(
            CONFLICT, "several nodes by `--nnodes` are not for data parallel ranks in Ray",
            "--data-parallel-backend mp", "options.data_parallel_backend", OLDEST_READ,
            refusal_since="0.27.0",
        )  # fmt: skip
    if layout.nnodes > 1 and executor == "ray":
        yield _refuse(
            CONFLICT, "several nodes by `--nnodes` are not for the Ray executor",
            "nnodes > 1 can only be set when distributed", "options.distributed_executor_backend",
            OLDEST_READ, drop="executor",
        )  # fmt: skip


# ------------------------------------------------------------------------------------- experts


def _experts(layout: Layout, options: Options) -> FOUND:
    """config/parallel.py: load balancing of experts needs experts on different ranks."""
    balanced = options.get("enable_eplb") is True
    if not balanced:
        redundant = options.get("eplb_config")
        count = redundant.get("num_redundant_experts") if isinstance(redundant, dict) else None
        if isinstance(count, int) and count > 0 and options.sure("enable_eplb"):
            yield _refuse(
                CONFLICT, f"{count} redundant experts are asked for without expert load balancing",
                "Either enable EPLB or unset num_redundant_experts", "options.eplb_config",
                "0.10.2",
            )  # fmt: skip
        return
    place = "options.enable_eplb"
    if not layout.ep:
        yield _refuse(
            CONFLICT, "expert load balancing needs expert parallelism, which is off",
            "enable_expert_parallel must be True to use EPLB", place, "0.10.0",
            remedy="add `--enable-expert-parallel`", sets=(("ep", True),),
        )  # fmt: skip
    elif layout.tp * layout.pcp * layout.dp == 1:
        yield _refuse(
            CONFLICT, "expert load balancing has one rank only", "EPLB requires tensor", place,
            "0.10.0",
        )  # fmt: skip
    if options.get("enable_elastic_ep") and layout.pp > 1:
        yield _refuse(
            CONFLICT, "elastic expert parallelism does not go with pipeline stages", "",
            "options.enable_elastic_ep", "0.24.0",
        )  # fmt: skip


# ------------------------------------------------------------------------- batches and lengths


def _whole(options: Options, name: str) -> int | None:
    value = options.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _batches(options: Options) -> FOUND:
    tokens, seqs = _whole(options, "max_num_batched_tokens"), _whole(options, "max_num_seqs")
    if tokens is not None and seqs is not None:
        yield Constraint(
            rule=CONFLICT, subject="tokens", left=seqs, right=tokens, test=at_most,
            refusal="must be greater than or equal to max_num_seqs", consequence=REFUSAL, cures=(),
            places=("options.max_num_batched_tokens",),
            sentence="a batch of {right} tokens is smaller than the {left} sequences in it",
            sets=(("max_num_seqs", tokens),),
        )  # fmt: skip
    length = _whole(options, "max_model_len")
    if tokens is not None and length is not None and options.get("enable_chunked_prefill") is False:
        yield Constraint(
            rule=CONFLICT, subject="tokens", left=length, right=tokens, test=at_most,
            refusal="is smaller than max_model_len", consequence=REFUSAL, cures=(),
            since=OLDEST_READ,
            places=("options.max_num_batched_tokens",),
            sentence="without chunked prefill a batch of {right} tokens does not hold one context"
            " of {left}", sets=(("max_num_batched_tokens", length),),
        )  # fmt: skip
    active = _whole(options, "max_num_active_seqs")
    if active is not None and seqs is not None:
        yield Constraint(
            rule=CONFLICT, subject="sequences", left=active, right=seqs, test=at_most,
            refusal="cannot be greater than max_num_seqs", consequence=REFUSAL, cures=(),
            places=("options.max_num_active_seqs",), since="0.31.0",
            sentence="{left} active sequences exceed the {right} sequences of a batch",
        )  # fmt: skip
    share = options.get("gpu_memory_utilization")
    if isinstance(share, float) and not 0 < share <= 1:
        yield _refuse(
            CONFLICT, f"a share of {share:g} of the GPU's memory is not between 0 and 1", "",
            "options.gpu_memory_utilization",
        )  # fmt: skip


NEEDS = (
    ("enable_auto_tool_choice", "tool_call_parser", None, None),
    ("enable_reasoning", "reasoning_parser", None, "0.7.3"),
    ("enable_log_outputs", "enable_log_requests", False, "0.11.2"),
)
"""entrypoints/openai: an option, what it needs, how that is not there, since when."""


HALF_ALONE = {"awq": "0.24.0", "gptq": "0.22.0"}
"""quantization/*.py: methods whose kernels take 16-bit floats alone, and until when."""


def _half_alone(options: Options) -> FOUND:
    """model_loader, config/vllm.py: a method that is asked for by name is not replaced."""
    method, dtype = options.get("quantization"), options.get("dtype")
    if method in HALF_ALONE and dtype in ("bfloat16", "float32", "float"):
        yield _refuse(
            CONFLICT, f"`--quantization {method}` computes in 16-bit floats alone, and"
            f" `--dtype {dtype}` asks for others", "is not supported for quantization method",
            "options.dtype", until=HALF_ALONE[method],
            remedy="`--dtype half`; or no `--quantization`, so that a kernel that takes it is"
            " chosen",
        )  # fmt: skip


def _needing(options: Options) -> FOUND:
    """Options that nothing comes of without another one; the text is the same for all of them."""
    for name, other, unset, since in NEEDS:
        if options.get(name) is not True or options.get(other, unset) != unset:
            continue
        if not options.sure(other):
            continue
        asked, lacking = (f"--{word.replace('_', '-')}" for word in (name, other))
        yield _refuse(
            CONFLICT, f"`{asked}` needs `{lacking}`, which is not given",
            f"{asked} requires {lacking}", f"options.{name}", since, remedy=f"add `{lacking}`",
        )  # fmt: skip


# --------------------------------------------------------------------------- drafts, adapters


NO_DRAFT = ("ngram", "ngram_gpu", "suffix", "custom_class", "extract_hidden_states", "[ngram]")
"""Methods that guess without a model: what is said of its ranks is not looked at."""


def _has_draft(config: dict[str, Any]) -> bool:
    method, model = config.get("method"), config.get("model")
    return method not in NO_DRAFT and model not in NO_DRAFT and (method or model) is not None


def _drafts(layout: Layout, options: Options) -> FOUND:
    """config/speculative.py: the draft runs on one rank or on all of them."""
    config = options.get("speculative_config")
    if not isinstance(config, dict):
        return
    place = "options.speculative_config"
    draft = config.get("draft_tensor_parallel_size")
    if isinstance(draft, int) and draft not in (1, layout.tp) and _has_draft(config):
        yield _refuse(
            CONFLICT, f"a draft over {draft} ranks is neither on one rank nor on all {layout.tp}",
            "cannot be other value than 1 or target model tensor_parallel_size", place,
        )  # fmt: skip
    if "tensor_parallel_size" in config:
        yield _refuse(
            CONFLICT, "the draft's own size is given as `tensor_parallel_size`",
            "Please pass 'draft_tensor_parallel_size' instead", place, "0.15.0",
        )  # fmt: skip
    for option, key in (("spec_tokens", "num_speculative_tokens"), ("spec_model", "model"),
                        ("spec_method", "method")):  # fmt: skip
        if option in options.values and key in config:
            yield _refuse(
                CONFLICT, f"`{key}` of the speculative configuration is given twice",
                "are mutually exclusive", f"options.{option}", "0.22.0",
            )  # fmt: skip


def _adapters(layout: Layout, options: Options) -> FOUND:
    if not options.get("enable_lora"):
        return
    cached, loaded = _whole(options, "max_cpu_loras"), _whole(options, "max_loras")
    if cached is not None and (loaded is not None or options.sure("max_loras")):
        yield Constraint(
            rule=CONFLICT, subject="adapters", left=loaded or 1, right=cached, test=at_most,
            refusal="must be >= max_loras", consequence=REFUSAL, cures=(),
            places=("options.max_cpu_loras",),
            sentence="{right} adapters in host memory are fewer than the {left} of a batch",
        )  # fmt: skip
    if options.get("fully_sharded_loras") and layout.ep:
        yield _refuse(
            CONFLICT, "fully sharded adapters do not go with expert parallelism",
            "does not support enable_expert_parallel=True together with fully_sharded_loras=True",
            "options.fully_sharded_loras", "0.21.0", advisory=True,
        )  # fmt: skip


# --------------------------------------------------------------------------- length and types

RESHAPING = ("hf_overrides", "rope_scaling", "rope_theta", "rope_parameters", "hf_config_path",
             "config_format", "tokenizer")  # fmt: skip
ALLOWED = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def of_model(model: ModelFacts, layout: Layout, options: Options, device: Device | None) -> FOUND:
    """Options, and the card, that the model does not go with."""
    if options.values:
        yield from _length(model, options)
        yield from _dtype(model, options)
        yield from _methods(model, options)
        yield from _scaled_cache(model, options)
        if layout.dp == 1:
            yield from _offline(model, options)
    if device is not None and device.compute_capability:
        yield from _capability(model, options, device)


def _length(model: ModelFacts, options: Options) -> FOUND:
    allowed = str(options.get(ALLOWED, "0")).lower() in ("1", "true")
    asked, most = _whole(options, "max_model_len"), model.longest_context
    fact = "longest_context"
    if most is None and allowed:  # who sets the variable means to go beyond what the config says
        most, fact = model.max_position_embeddings, "max_position_embeddings"
    if asked is None or most is None or any(name in options.values for name in RESHAPING):
        return
    if not options.sure(ALLOWED, *RESHAPING):
        return
    yield Constraint(
        rule=LENGTH, subject="tokens", left=asked, right=most, test=at_most,
        severity="warning" if allowed else "error", cures=(), places=("options.max_model_len",),
        refusal="" if allowed else "is greater than the derived max_model_len",
        facts=(fact,), consequence=f"goes on because `{ALLOWED}` is set, and positions"
        " beyond give garbage or a crash" if allowed else REFUSAL,
        sentence="a context of {left:,} tokens exceeds the {right:,} of the model",
        remedy=f"at most {most:,}, or a RoPE scaling that the model was made for",
    )  # fmt: skip


def _dtype(model: ModelFacts, options: Options) -> FOUND:
    if options.get("dtype") in ("half", "float16") and model.model_type in NO_FLOAT16:
        yield _refuse(
            CONFLICT, f"models of type {model.model_type} overflow in 16-bit floats",
            "does not support float16", "options.dtype", OLDEST_READ, facts=("model_type",),
            remedy="`--dtype bfloat16`", sets=(("dtype", "bfloat16"),),
        )  # fmt: skip


def _scaled_cache(model: ModelFacts, options: Options) -> FOUND:
    """Attention of a checkpoint in FP8 reads its scales for the cache, which E5M2 has none of."""
    method = (model.quantization or {}).get("method")
    if options.get("kv_cache_dtype") == "fp8_e5m2" and method == "fp8":
        yield _refuse(
            CONFLICT, "a checkpoint that is stored in FP8 does not go with a cache in E5M2",
            "fp8_e5m2 kv-cache is not supported with fp8 checkpoints", "options.kv_cache_dtype",
            facts=("quantization",), remedy="`--kv-cache-dtype fp8`", consequence=DEATH,
        )  # fmt: skip


def _family(name: str) -> tuple[str, ...] | None:
    return next((family for family in SAME if name in family), None)


def _methods(model: ModelFacts, options: Options) -> FOUND:
    """config/model.py: the option must name the way in which the checkpoint is stored."""
    asked = options.get("quantization")
    if not isinstance(asked, str) or (family := _family(asked)) is None:
        return
    stored = (model.quantization or {}).get("method")
    other = _family(stored) if isinstance(stored, str) else None
    place = "options.quantization"
    if other is not None and other != family:
        yield _refuse(
            CONFLICT, f"`--quantization {asked}` contradicts the checkpoint, which is stored as"
            f" {stored}", "does not match the quantization method specified in the `quantization`"
            " argument", place, facts=("quantization",), refusal_since="0.6.0",
            remedy="leave `--quantization` out", drop="quantization",
        )  # fmt: skip
    elif model.quantization == {} and asked in ("awq", "gptq"):
        yield _refuse(
            CONFLICT, f"`--quantization {asked}` is for a checkpoint that is stored so, and this"
            " one is not quantized", "Cannot find the config file for", place,
            facts=("quantization",), remedy="leave `--quantization` out", drop="quantization",
        )  # fmt: skip
    if asked in LEFT:
        yield _refuse(
            CONFLICT, f"vLLM itself no longer has the quantization method {asked}",
            "Unknown quantization method", place, LEFT[asked], severity="warning",
            consequence="refuses to start unless a plugin brings it",
        )  # fmt: skip


def _offline(model: ModelFacts, options: Options) -> FOUND:
    """Read only while --data-parallel-size is 1."""
    size = options.get("VLLM_DP_SIZE")
    if isinstance(size, str) and size.strip().isdecimal() and int(size) > 1 and shape(model).dense:
        yield _refuse(
            MODE, f"`VLLM_DP_SIZE` {size.strip()} splits a dense model into data parallel ranks",
            "Offline data parallel mode is not supported/useful for dense models",
            "options.VLLM_DP_SIZE", "0.14.0", facts=("num_experts", "dense_ffn"),
        )  # fmt: skip


def _capability(model: ModelFacts, options: Options, device: Device) -> FOUND:
    if device.vendor != "nvidia":
        return
    number = version(device.compute_capability or "")
    if number is None:
        return
    has = number.major * 10 + number.minor
    if options.get("dtype") == "bfloat16":
        yield Constraint(
            rule=TYPES, subject="compute capability", left=80, right=has, test=at_most, cures=(),
            refusal="Bfloat16 is only supported on GPUs with compute capability of at least 8.0",
            consequence=DEATH, places=("options.dtype",), remedy="`--dtype half`",
            sets=(("dtype", "half"),),
            sentence=f"{device.name} has compute capability {device.compute_capability}, and"
            " bfloat16 needs 8.0",
        )  # fmt: skip
    stated = options.get("quantization")
    method = stated if isinstance(stated, str) else (model.quantization or {}).get("method")
    least = LEAST_CAPABILITY.get(str(method))
    if least is not None and options.sure("quantization"):
        yield Constraint(
            rule=TYPES, subject="compute capability", left=least, right=has, test=at_most,
            refusal="is not supported for the current GPU", consequence=DEATH, cures=(),
            places=("options.quantization", "model"), since=OLDEST_READ,
            facts=() if isinstance(stated, str) else ("quantization",),
            sentence=f"{device.name} has compute capability {device.compute_capability}, and"
            f" quantization method {method} needs {least / 10:g}",
        )  # fmt: skip
