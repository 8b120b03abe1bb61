"""What vLLM needs of a GPU beside weights and KV cache, and the settings that it fills in.

Before it sizes the KV cache, vLLM runs one batch of `max_num_batched_tokens` dummy tokens, the
largest items of a tower and the sampler with `max_num_seqs` rows, and takes the peak of what
PyTorch then holds (v1/worker/gpu_worker.py, determine_available_memory). The peak is built here
from the tensors that are alive at the fullest point of each of these phases. Which releases do what
is data (data/vllm_memory.json); what no source tells is fitted to printed logs and marked there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isqrt
from typing import Final

from shardlint.engines import vllm_experts, vllm_sparse
from shardlint.engines.cuts import rounded_up
from shardlint.engines.vllm_run import (
    ELEMENT,
    GIB,
    INTERVALS,
    MIB,
    MOST_SEEN,
    Run,
    Runner,
    Span,
    alike,
    constant,
    rules,
    table,
)  # fmt: skip
from shardlint.footprint import Beside, Settings
from shardlint.matrices import StateGroup
from shardlint.plan import Device, Layout, ModelFacts, Ranks

__all__ = ["INTERVALS", "alike", "beside", "constant", "defaults", "rules", "table"]

LONG_CONTEXT: Final = 32768
"""V0 takes prompts in chunks above this length (arg_utils.py of 0.6.0 to 0.10.0)."""
PAGE: Final = 16
FLOAT32: Final = 4


# ---------------------------------------------------------------------------------- settings


def defaults(
    asked: Settings,
    model: ModelFacts,
    layout: Layout,  # noqa: ARG001 (no default hangs on it in a release that was read)
    device: Device | None,
    release: str,
) -> Settings:
    """The settings as `vllm serve` completes them; what stays None hangs on what is not known."""
    told = rules(release)
    runner = _runner(told, model, asked, device)
    length = asked.max_model_len or model.default_context or model.least_context
    seqs, tokens = asked.max_num_seqs, asked.max_num_batched_tokens
    pooling = asked.pooling if asked.pooling is not None else _pools(model)
    chunked = asked.chunked_prefill
    if runner == "v0":
        seqs = seqs or 256
        chunked = _chunks(told["v0"], asked, model, length, pooling) if chunked is None else chunked
        tokens = tokens or _v0_tokens(told["v0"], asked, model, length, chunked, pooling)
    else:
        chunked = True if chunked is None else chunked
        given = _batch(told["batch"], device)
        tokens_open, seqs_open = tokens is None, seqs is None
        if given is not None:
            seqs, tokens = seqs or given["seqs"], tokens or given["tokens"]
        if tokens_open and tokens and length and not chunked:
            tokens = max(tokens, length)
        if tokens_open and tokens and seqs and length:
            tokens = min(tokens, seqs * length)
        if seqs_open and tokens and seqs:
            seqs = min(seqs, tokens)
    settled = replace(
        asked,
        share=asked.share if asked.share is not None else told["share"]["value"],
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        dtype=asked.dtype or model.torch_dtype,
        kv_cache_dtype=asked.kv_cache_dtype or "auto",
        enforce_eager=bool(asked.enforce_eager),
        prefix_caching=asked.prefix_caching if asked.prefix_caching is not None else runner != "v0",
        chunked_prefill=chunked,
        pooling=pooling,
    )
    if asked.capture_sizes is not None or not seqs:
        return settled
    sizes = _captured(told["capture"], settled, model, device, runner)
    return replace(settled, capture_sizes=sizes)


def _pools(model: ModelFacts) -> bool:
    return (model.architecture or "").endswith(tuple(table()["pooling_suffixes"]))


def _runner(
    told: Mapping[str, Span], model: ModelFacts, settings: Settings, device: Device | None
) -> Runner:
    """Which of vLLM's three generations of model runners serves (arg_utils.py, config/vllm.py)."""
    span = told["generation"]
    switch = settings.extra.get(span.get("switch", ""))
    if switch in ("0", "1"):
        return "v1" if switch == "1" else "v0"
    capability = _capability(device)
    old = span.get("v0_below_capability")
    if old and capability and _number(capability) < _number(old):
        return "v0"
    if span["value"] == "v0":
        return "v0"
    return _v1_or_v2(told["v2_runner"], model, settings)


def _v1_or_v2(span: Span, model: ModelFacts, settings: Settings) -> Runner:
    switch = settings.extra.get("VLLM_USE_V2_MODEL_RUNNER")
    if switch in ("0", "1") and len(span) > 1:
        return "v2" if switch == "1" else "v1"
    if span.get("all"):
        return "v2"
    listed = span.get("listed")
    if listed is None:
        return "v1"
    if model.architecture in listed["architectures"]:
        return "v2" if listed["quantized"] or not _quantized(model, settings) else "v1"
    return "v2" if span.get("dense") and not (model.moe or model.states) else "v1"


def _quantized(model: ModelFacts, settings: Settings) -> bool:
    return bool(settings.quantization or model.quantization)


def _chunks(
    span: Span, asked: Settings, model: ModelFacts, length: int | None, pooling: bool
) -> bool:
    windows = any(group.window for group in model.kv_groups)
    barred = windows or asked.draft or asked.max_loras or pooling
    if model.vision_tower and not span["multimodal_chunks"]:
        return False
    return bool(length and length > LONG_CONTEXT and not barred)


def _v0_tokens(
    span: Span,
    asked: Settings,
    model: ModelFacts,
    length: int | None,
    chunked: bool,
    pooling: bool,
) -> int | None:
    """SchedulerConfig of 0.6.0 and 0.7.3: a whole prompt, or a chunk of one."""
    if not chunked and length is None:
        return None
    tokens: int = span["chunk"] if chunked else max(length or 0, 2048)
    if pooling:
        tokens = max(tokens, span["pooling"])
    if model.vision_tower and not asked.text_only:
        tokens = max(tokens, span["multimodal"])
    return tokens


def _batch(span: Span, device: Device | None) -> Span | None:
    """arg_utils.py, get_batch_defaults: by the card's memory and name; server, not library."""
    sizes = span["sizes"]
    if len(sizes) == 1:
        return dict(sizes[0])
    if device is None:
        return None
    return next((row for row in sizes if _meets(row, device)), None)


def _meets(row: Span, device: Device) -> bool:
    name = f"{device.name} {' '.join(device.aliases)}".lower()
    if any(word in name for word in row.get("but_names", ())):
        return False
    barred = row.get("but_capability")
    if barred is not None and barred == device.compute_capability:
        return False
    if "names" in row:
        return any(word in name for word in row["names"])
    least: int = row.get("least_gib", 0)
    return (device.memory_mib or 0) * MIB >= least * GIB


V0_MOST_CAPTURED: Final = 8 * 1024
"""worker/model_runner.py of 0.6, config.py of 0.7: 1, 2, 4, and 8 × 1 to 8 × 1024."""


def _captured(
    span: Span, settings: Settings, model: ModelFacts, device: Device | None, runner: Runner
) -> tuple[int, ...]:
    """Batch sizes of CUDA graphs (config/vllm.py, _set_cudagraph_sizes)."""
    if settings.enforce_eager:
        return ()
    seqs = settings.max_num_seqs or 0
    if runner == "v0":
        return (1, 2, 4, *range(8, min(-(-seqs // 8) * 8, V0_MOST_CAPTURED) + 1, 8))
    most: int = span["most"]
    family = (_capability(device) or "").partition(".")[0]
    most = span.get("families", {}).get(family, most)
    if span["per_seq"]:
        step = 1 + (settings.draft_tokens if span.get("drafts") else 0)
        most = min(seqs * step * span["per_seq"], most)
    most = max(most, span.get("classes", {}).get(model.architecture, 0))
    if settings.max_num_batched_tokens:
        most = min(most, settings.max_num_batched_tokens)
    small = [size for size in (1, 2, 4) if size <= most]
    return (*small, *range(8, min(most + 1, 256), 8), *range(256, most + 1, span["step_from_256"]))


# -------------------------------------------------------------------------------- the memory


def beside(
    model: ModelFacts,
    ranks: Ranks,
    layout: Layout,
    settings: Settings,
    device: Device | None,
    release: str,
) -> Beside:
    """What the fullest rank needs beside weights and KV cache, in bytes."""
    told = rules(release)
    run = Run(
        model=model, ranks=ranks, layout=layout, settings=settings, told=told,
        runner=_runner(told, model, settings, device),
        capability=_capability(device),
        tokens=settings.max_num_batched_tokens or 0,
        seqs=min(settings.max_num_seqs or 0, settings.max_num_batched_tokens or 1 << 31),
        element=ELEMENT.get(settings.dtype or model.torch_dtype or "", 2),
    )  # fmt: skip
    activations = _activations(run)
    return Beside(
        context=_context(run),
        collectives=_collectives(run, device),
        activations=activations,
        graphs=_graphs(run),
        loaded=_loaded(run),
        rest=_kept_states(run),
        graphs_outside=not _graphs_estimated(run),
        doubtful=activations - _activations(run, least=True),
        counts_others=bool(told["context_whole"]["value"]) and run.runner == "v1",
        checks_free=bool(told["free_checked"]["value"]) and run.runner != "v0",
        assumes=vllm_experts.assumed(run) + _assumed_sampler(run),
    )


def _activations(run: Run, *, least: bool = False) -> int:
    """The fullest of three phases: the tower, the layers, the sampler.

    `least`: what is surely needed, where one cannot know which of several ways is taken.
    """
    experts = vllm_experts.least(run) if least else vllm_experts.buffers(run)
    shared = vllm_sparse.workspace(run)
    if run.told["experts"]["kept"] and not vllm_experts.in_triton(run):
        # They share a room with others, which is never given back.
        experts, shared = 0, max(experts, shared)
    encoded, encoding = _tower(run)
    layers = encoded + shared + _layers(run, experts)
    sampled = encoded + shared + _sampler(run, least)
    blas = int(constant("blas_mib", run.capability) * MIB)
    return max(encoding, layers, sampled) + blas


def _layers(run: Run, experts: int) -> int:
    """The fullest point of one layer for all tokens of the batch: its MLP or its attention."""
    model, tp, hidden = run.model, run.tp, run.hidden
    queries = -(-(model.attention_heads or 0) // tp) * _head(model)
    width = max(_dense_width(model), model.shared_expert_intermediate_size or 0)
    streams = vllm_sparse.streams(model)
    # Written out, names of callers keep tensors: the layer's input, the residual, the outputs of
    # attention and of the MLP, the latter once more when it was summed over ranks. A compiled piece
    # holds its arguments (attention's output, the residual) and the new residual.
    carried = (4 + (tp > 1)) * hidden if run.eager else 2 * hidden + queries
    if model.moe and not run.eager:
        carried += 2 * hidden
    if streams:
        carried = vllm_sparse.carried(run)
    each = run.tokens * run.element
    mlp = (carried + 3 * width // tp) * each + experts
    if model.moe:
        mlp += run.tokens * (model.num_experts or 0) * (run.element + 4)
    if streams:
        attention = carried * each + vllm_sparse.pressed_attention(run)
    else:
        attention = (4 * hidden + _attention(model, tp, queries)) * each
        attention += vllm_sparse.index_queries(run) + max(_latent(run), vllm_sparse.scores(run))
    received = max(2, streams) * hidden * each if run.layout.pp > 1 else 0
    return max(mlp, attention) + received


def _head(model: ModelFacts) -> int:
    if model.mla:
        return model.v_head_dim or 128
    return model.head_dim or (model.hidden_size or 0) // max(1, model.attention_heads or 1)


def _dense_width(model: ModelFacts) -> int:
    """The width of layers without experts; 0 where there are none."""
    dense = model.dense_ffn if model.dense_ffn is not None else not model.moe
    return (model.intermediate_size or 0) if dense else 0


def _attention(model: ModelFacts, tp: int, queries: int) -> int:
    """Elements of one token while attention or its recurrence is prepared: the projection, its
    parts, the output. In the profile run kernels of a recurrence get no tokens."""
    if model.mla:
        heads = -(-(model.attention_heads or 0) // tp)
        query = (model.qk_nope_head_dim or 0) + (model.qk_rope_head_dim or 0)
        low = (model.q_lora_rank or 0) + (model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0)
        return heads * (query + (model.v_head_dim or 0)) + 2 * low
    kv = max(1, (model.kv_heads or 0) // tp) * _head(model)
    recurrent = [_recurrent(group, model.model_type) for group in model.states]
    return max([3 * queries + 3 * kv, *(-(-size // tp) for size in recurrent)])


def _recurrent(group: StateGroup, model_type: str | None) -> int:
    """Elements of one token in a layer with a state of fixed size, before tensor parallelism.

    Mamba 2: the projection, two turned copies of what goes into the convolution, the output and
    its gated norm (mamba_mixer2.py). Delta rule: queries, keys, values and gates of one projection,
    the output, its norm; Qwen3-Next takes the projection apart into copies (qwen3_next.py).
    """
    mixed = group.channels + group.groups * group.group_channels
    if group.kind == "mamba2":
        inner = group.channels
        return inner + mixed + group.heads + 2 * mixed + 2 * inner
    values = group.heads * isqrt(group.state)
    copies = 2 * mixed if model_type == "qwen3_next" else 0
    return mixed + 3 * values + copies


def _latent(run: Run) -> int:
    """MLA: room for keys and values of cached context (mla_attention.py), in the profile run."""
    span = run.told["latent"]
    most: int = span["tokens"]
    if not run.model.mla or not most or run.runner == "v0":
        return 0
    model, settings = run.model, run.settings
    if vllm_sparse.chooser(model) is not None and not span["sparse"]:
        return 0
    page = (settings.block_size or PAGE) * (settings.max_num_seqs or 0)
    wanted = max(min(max(8 * (settings.max_model_len or most), 4 * page), most), page)
    heads = -(-(model.attention_heads or 0) // run.tp)
    size: int = (model.qk_nope_head_dim or 0) + (model.v_head_dim or 0)
    return wanted * heads * size * run.element


def _sampler(run: Run, least: bool) -> int:
    """Logits of all sequences, and what sorts and draws from them; whole on every rank."""
    states = run.tokens * run.hidden * run.element
    if run.settings.pooling:
        return states
    vocabulary, seqs = run.model.vocab_size or 0, run.seqs
    span = run.told[f"sampler {run.runner}"]
    each: float = span["few" if seqs < span.get("few_below", 0) else "many"]
    if _by_flashinfer(run, span, least):
        each = min(each, span["flashinfer"])
    if run.runner == "v0":
        seqs = _v0_prompts(run)
    if run.tp > 1:
        # Gathered logits are put in order in a copy while the rank's own part is alive.
        each = max(each, 4 + 2 / run.tp)
    if run.element == 4:
        each += 2
    buffer: int = 4 * vocabulary * min(span.get("buffer_rows", 0), seqs)
    return states + 2 * seqs * run.hidden * run.element + int(each * seqs * vocabulary) + buffer


SAMPLER: Final = "VLLM_USE_FLASHINFER_SAMPLER"


def _by_flashinfer(run: Run, span: Span, least: bool) -> bool:
    """FlashInfer draws without sorting (topk_topp_sampler.py, forward_cuda). Where it is only used
    if it is installed, as in the official images, nobody knows: it may be."""
    switch, use = run.settings.extra.get(SAMPLER), span.get("flashinfer_used", "never")
    if "flashinfer" not in span or switch == "0":
        return False
    if use == "installed":
        return least or switch == "1"
    return switch == "1" and (least or use == "asked")


def _assumed_sampler(run: Run) -> tuple[str, ...]:
    span = run.told[f"sampler {run.runner}"]
    spared = _sampler(run, least=False) - _sampler(run, least=True)
    if spared < GIB // 4 or not _by_flashinfer(run, span, least=True):
        return ()
    return (f"tokens are drawn by PyTorch: FlashInfer's sampler takes {spared / GIB:.1f} GiB less",)


def _tower(run: Run) -> tuple[int, int]:
    """Bytes of the tower's outputs, which are kept through the run, and of its own peak."""
    model, settings = run.model, run.settings
    item = _item(run)
    if item is None or settings.skip_tower:
        return 0, 0
    if run.runner == "v2" and not run.told["v2_profiles"]["tower"]:
        return 0, 0
    tokens: int = item["tokens"]
    budget = max(run.tokens, tokens)
    prompts = max(1, run.seqs) * max(1, run.length // tokens)
    items = min(max(1, budget // tokens), prompts)
    rows = budget if run.told["encoder_cache_expanded"]["value"] else tokens
    levels = 1 + (model.deepstack_levels or 0)
    outputs = items * rows * run.hidden * levels * run.element
    parts = 1 if settings.whole_tower else run.tp
    alive = run.told["tower"]["whole"]
    alive += run.told["tower"]["turned" if item.get("turned") else "plain"] / parts
    peak = items * item["patches"] * _tower_width(model) * run.element * alive
    return outputs, outputs + int(peak)


def _item(run: Run) -> Span | None:
    """The largest image of the model, as its processor makes it; None: it takes none."""
    own: Span | None = table()["encoders"].get(run.model.model_type)
    if own is None or not run.model.vision_tower or run.settings.text_only:
        return None
    pixels, each = run.settings.max_pixels, own.get("pixels")
    if not pixels or not each:
        return own
    tokens = max(1, pixels // each)
    return {**own, "tokens": tokens, "patches": tokens * own["patches"] // own["tokens"]}


def _v0_prompts(run: Run) -> int:
    """V0 gives each of its prompts one largest item (worker/model_runner.py, profile_run)."""
    item = _item(run)
    if item is None:
        return run.seqs
    return max(1, min(run.seqs, run.tokens // int(item["tokens"])))


def _tower_width(model: ModelFacts) -> int:
    """The hidden size of the tower: the commonest number of inputs of its matrices."""
    counts: dict[int, int] = {}
    for block in model.weights:
        if block.place == "tower":
            for weight in block.weights:
                if weight.inputs > 1 and weight.part != "norm":
                    counts[weight.inputs] = counts.get(weight.inputs, 0) + weight.count
    if counts:
        return max(counts, key=lambda size: (counts[size], size))
    return (model.vision_heads or 16) * 80


def _loaded(run: Run) -> int:
    """Buffers that are made with the model: tables of positions, tokens that a sparse attention
    chose, streams for a draft."""
    return _positions(run) + _scales(run) + vllm_sparse.kept(run)


def _scales(run: Run) -> int:
    """Scales of experts in MXFP4: Triton gets a copy of its own, and until the release in the table
    the loaded ones are kept beside it (quantization/mxfp4.py)."""
    model = run.model
    if not run.told["scales_twice"]["value"] or not vllm_experts.in_triton(run):
        return 0
    parts = [
        (run.expert(weight), len(block.layers))
        for block in model.weights
        for weight in block.weights
        if weight.part == "expert" and weight.inputs > 1
    ]
    cells = sum(
        part.count * rounded_up(part.outputs, 256) * (part.inputs // 32) * n for part, n in parts
    )
    return cells // run.layout.pp


def _positions(run: Run) -> int:
    """Cosines and sines of all positions (rotary_embedding/base.py): once, whatever the layers.

    By type: the part of a head that is turned; times as many positions (MRotaryEmbedding), or as
    many tables. DeepSeek-V4 has two of them, in float32 (DeepseekV4ScalingRotaryEmbedding).
    """
    model = run.model
    own: Span = table()["positions"].get(model.model_type, {})
    width = model.qk_rope_head_dim or int(_head(model) * own.get("part", 1))
    cells = (model.max_position_embeddings or 0) * width * int(own.get("times", 1))
    return 2 * cells * FLOAT32 if vllm_sparse.streams(model) else cells * run.element


def _kept_states(run: Run) -> int:
    """What is kept beside the weights, where the profile counts all that is used: the allocator's
    gaps, and the V2 runner's counts of tokens for penalties (gpu/sample/penalties.py)."""
    if not run.told["persistent_counted"]["value"]:
        return 0
    kept = constant("gaps_mib") * MIB
    if run.runner == "v2" and not run.settings.pooling:
        seqs, vocabulary = run.settings.max_num_seqs or 0, run.model.vocab_size or 0
        kept += constant("penalty_bytes") * seqs * vocabulary
    return int(kept)


def _context(run: Run) -> int:
    name = "context_mib"
    if run.told["context_whole"]["value"] and run.runner == "v1":
        name = "context_whole_mib"
    return int(constant(name, run.capability) * MIB)


def _collectives(run: Run, device: Device | None) -> int:
    """NCCL, custom all-reduce, symmetric memory and the fused all-reduce of FlashInfer."""
    world = run.tp + (run.layout.pp > 1)  # a stage speaks with one rank of the next
    if run.model.moe:  # experts are shared out over all of them
        world = max(world, run.tp * run.ranks.attention_dp)
    if world == 1:
        return 0
    world = min(world, MOST_SEEN)  # with more ranks it is not supposed to take more
    direct = device is not None and device.link not in (None, "pcie", "none")
    hopper = _number(run.capability or "0") >= _number("9.0")
    if not (direct and hopper):
        return int(constant("nccl_mib") * MIB * max(world, 2))
    total = constant("nvls_mib") * max(world - 1, 1) + constant("custom_all_reduce_mib")
    if run.runner != "v0":
        total += _by_world(run.told["symmetric"], run)
    fused = run.told["fused_all_reduce"]
    lonely = run.layout.pp == 1 and run.ranks.attention_dp == 1
    if not run.eager and (lonely or not fused.get("alone")):
        room = min(_by_world(fused, run), run.tokens * run.hidden * run.element / MIB)
        total += room * constant("fused_copies") * run.tp
    return int(total * MIB)


def _by_world(span: Span, run: Run) -> float:
    found = span.get("mib", {}).get(run.capability, {}).get(str(run.tp), 0)
    return float(found)


def _graphs_estimated(run: Run) -> bool:
    """Graphs come out of the share; the first V2 runners said that they take nothing."""
    if run.runner == "v2" and not run.told["v2_profiles"]["graphs"]:
        return False
    span = run.told["graphs"]
    switch = run.settings.extra.get(span.get("switch", ""))
    return bool(span["estimated"] if switch not in ("0", "1") else switch == "1")


def _graphs(run: Run) -> int:
    """CUDA graphs: one for each size, once more where whole decode batches are captured."""
    sizes = run.settings.capture_sizes
    if not sizes or run.settings.enforce_eager:
        return 0
    count = len(sizes)
    if run.told["full_graphs"]["value"] and not run.settings.pooling:
        most = run.seqs * (1 + run.settings.draft_tokens)
        count += sum(size <= most for size in sizes)
    layers = -(-(run.model.num_layers or 0) // run.layout.pp)
    mib = constant("graph_first_mib") + constant("graph_layer_mib") * layers * count
    return int(mib * MIB)


def _capability(device: Device | None) -> str | None:
    return device.compute_capability if device is not None else None


def _number(capability: str) -> float:
    try:
        return float(capability)
    except ValueError:
        return 0.0
