"""The settings that SGLang fills in: chunks, graphs, and the share of memory that follows.

Read in sglang 0.4.0 to 0.5.23, server_args.py and arg_groups/memory_hook.py: what is to be left
free for activations and graphs is guessed from their sizes, in MiB; the rest is the share. The
size of the card is what the driver prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from shardlint.engines.sglang_releases import Span, constant, is_blackwell, rules, table
from shardlint.footprint import Settings
from shardlint.plan import Device, Layout, ModelFacts
from shardlint.record import record

FEW_RANKS: Final = 4
"""Below so many ranks of a tensor-parallel group fewer batch sizes are captured."""
SMALL_BATCHES: Final = (1, 2, 4, 8, 12)
TOWER_LAYERS, TOWER_WIDTH = 24, 1024
"""The vision tower that the shrinking of the share is measured by: ViT-L/14."""


def defaults(
    asked: Settings, model: ModelFacts, layout: Layout, device: Device | None, release: str
) -> Settings:
    """The settings as the server completes them; what stays None hangs on what is not known."""
    told = rules(release)
    size = _driver_mib(device)
    batch = _batch(told["batch"], size)
    chunk, graphs = asked.max_num_batched_tokens, 0
    if batch is not None:
        chunk = chunk or batch["chunk"]
        graphs = batch["graphs_few" if layout.tp < FEW_RANKS else "graphs"]
    if told["batch"].get("to_requests") and asked.max_num_seqs:
        graphs = min(graphs, asked.max_num_seqs)
    if asked.capture_sizes is not None:
        graphs = max(asked.capture_sizes, default=0)
    share = asked.share
    if share is None and size is not None and chunk is not None:
        start = _Start(asked, model, layout, device, told, size, chunk, graphs)
        share = _share(start)
    eager = bool(asked.enforce_eager)
    sizes = asked.capture_sizes if asked.capture_sizes is not None else captured(graphs)
    return replace(
        asked,
        share=share,
        max_model_len=asked.max_model_len or model.default_context,
        max_num_batched_tokens=_chunk_of_rank(chunk, layout, told["batch"]),
        dtype=asked.dtype or model.torch_dtype,
        kv_cache_dtype=_kv_type(asked, model, device),
        enforce_eager=eager,
        capture_sizes=() if eager else sizes,
        compute_capability=device.compute_capability if device is not None else None,
    )


@record
class _Start:
    """One start of a server: what is asked, on which card, by which release."""

    asked: Settings
    model: ModelFacts
    layout: Layout
    device: Device | None
    told: Mapping[str, Span]
    size: int
    chunk: int
    graphs: int

    @property
    def ranks(self) -> int:
        return self.layout.tp * self.layout.pp


def _driver_mib(device: Device | None) -> int | None:
    if device is None:
        return None
    return device.driver_mib or device.memory_mib


def _batch(span: Span, size: int | None) -> Span | None:
    """Sizes by the card's memory."""
    if size is None:
        return None
    rows: list[Span] = span["sizes"]
    return next(row for row in rows if row["below_mib"] is None or size < row["below_mib"])


def _chunk_of_rank(chunk: int | None, layout: Layout, span: Span) -> int | None:
    """With attention DP each rank takes a part of a chunk, which the share does not know of."""
    if chunk is None or layout.attention_dp == 1:
        return chunk
    return chunk // (2 if span["attention_dp"] == "halved" else layout.attention_dp)


def captured(most: int) -> tuple[int, ...]:
    """Batch sizes of CUDA graphs (server_args.py, _generate_cuda_graph_batch_sizes)."""
    sizes = (*SMALL_BATCHES, *range(16, 257, 8), *range(272, 512, 16), *range(512, most + 1, 32))
    return tuple(size for size in sizes if size <= most)


def _kv_type(asked: Settings, model: ModelFacts, device: Device | None) -> str:
    """Sparse attention stores 8 bits on Blackwell."""
    if asked.kv_cache_dtype not in (None, "auto"):
        return str(asked.kv_cache_dtype)
    if is_sparse(model):
        capability = device.compute_capability if device is not None else None
        return "fp8_e4m3" if is_blackwell(capability) else "bfloat16"
    return "auto"


def is_sparse(model: ModelFacts) -> bool:
    """DeepSeek's sparse attention: a latent cache with keys of an indexer beside it."""
    return any(group.shared and group.index for group in model.kv_groups)


# ----------------------------------------------------------------------------------- the share


def _share(start: _Start) -> float:
    """The default of --mem-fraction-static."""
    fixed: float | None = start.told["sparse"].get("share") if is_sparse(start.model) else None
    if fixed is not None:
        return fixed
    span = start.told["share"]
    return _with_tower(start, SHARES[span["kind"]](start, span))


def _by_ranks(start: _Start, span: Span) -> float:
    if "to_mib" in span and start.size > span["to_mib"]:
        return (start.size - float(span["beyond_mib"])) / start.size
    ranks = start.ranks if span["stages"] else start.layout.tp
    return _of_ranks(ranks, span)


def _of_ranks(ranks: int, span: Span) -> float:
    return float(next(share for least, share in span["by_ranks"] if ranks >= least))


def _grown(start: _Start, span: Span) -> float:
    """0.4.7: by ranks, more on large cards, a fixed share on the largest of NVIDIA."""
    size, drafts = start.size, bool(start.asked.draft)
    share = float(span["beyond"])
    if size <= span["to_mib"]:
        share = _of_ranks(start.ranks, span)
    if size > span["huge_over_mib"] and not _is_amd(start.device):
        return float(span["huge"])
    if size > span["large_over_mib"]:
        kept = span["kept_mib"] + (span["draft_mib"] if drafts else 0)
        return float(min(share + span["grown_mib"] * (1 - share) / size, (size - kept) / size))
    return share * float(span["draft_factor"]) if drafts else share


def _bands(start: _Start, span: Span) -> float:
    bands: list[Span] = span["bands"]
    band = next(b for b in bands if b["below_mib"] is None or start.size < b["below_mib"])
    kept = band["mib"] + start.ranks * band["rank_mib"]
    if start.asked.draft:
        kept += span["draft_mib"]
    if start.layout.attention_dp > 1:
        kept += span["attention_dp_mib"]
    return _rest(start.size, kept)


def _summed(start: _Start, span: Span) -> float:
    """From 0.5.3 on: activations, ranks and graphs, and no less than a floor on large cards."""
    kept = constant("base_mib") + activation_mib(start.chunk) + constant("rank_mib") * start.ranks
    if span["eager_graphs"] or not start.asked.enforce_eager:
        kept += graphs_mib(start.graphs, start.layout)
    elif start.layout.attention_dp > 1:
        kept += graphs_mib(start.graphs, start.layout) - constant("graph_mib") * start.graphs
    kept += _prefill_graphs_mib(start)
    if start.size > constant("floor_over_mib"):
        kept = max(kept, constant("floor_mib"))
    if start.asked.draft not in (None, "ngram"):
        kept += span["standalone_mib" if start.asked.draft == "standalone" else "draft_mib"]
    return _rest(start.size, kept)


SHARES: Final[Mapping[str, Callable[[_Start, Span], float]]] = {
    "ranks": _by_ranks, "grown": _grown, "bands": _bands, "sum": _summed,
}  # fmt: skip


def _rest(size: int, kept: float) -> float:
    return round((size - kept) / size, 3)


def activation_mib(chunk: int) -> float:
    """What the server takes for the activations of a chunk."""
    return constant("activation_mib_per_token") * max(chunk, constant("least_tokens"))


def graphs_mib(most: int, layout: Layout) -> float:
    """What the server takes for graphs of batches of up to `most` requests."""
    kept = constant("graph_mib") * most
    if layout.attention_dp > 1:
        each = constant("attention_dp_graph_mib")
        if most > constant("many_graphs"):
            each += constant("attention_dp_many_graph_mib")
        kept += each * most * layout.attention_dp
    return kept


# ------------------------------------------------------------------------------ prefill graphs


def _prefill_graphs_mib(start: _Start) -> float:
    span = start.told["prefill_graphs"]
    if not span["on"] or start.model.architecture in span["not_classes"]:
        return 0
    if any(BARS[name](start, span) for name in span["not_with"]):
        return 0
    if start.model.mla:
        return constant("latent_prefill_graphs_mib")
    most = start.chunk
    if span.get("to_length") and start.asked.max_model_len:
        most = min(most, start.asked.max_model_len)
    if "stages_most" in span and start.layout.pp > 1:
        most = min(most, span["stages_most"])
    return constant("prefill_graph_mib") * prefill_sizes(most)


def prefill_sizes(most: int) -> int:
    """The number of prompts' sizes that are captured (generate_prefill_cuda_graph_batch_sizes)."""
    sizes = (
        *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64),
        *range(1280, 4097, 256), *range(4608, most + 1, 512),
    )  # fmt: skip
    return sum(size <= most for size in sizes)


def _shows_pictures(start: _Start, span: Span) -> bool:
    shows = has_tower(start.model, start.asked)
    return shows and start.model.architecture not in span.get("vision_classes", ())


BARS: Final[Mapping[str, Callable[[_Start, Span], bool]]] = {
    "attention_dp": lambda start, _: start.layout.attention_dp > 1,
    "pp": lambda start, _: start.layout.pp > 1,
    "dcp": lambda start, _: start.layout.dcp > 1,
    "amd": lambda start, _: _is_amd(start.device),
    "loras": lambda start, _: start.asked.max_loras > 0,
    "offload": lambda start, _: start.asked.offload > 0,
    "draft": lambda start, _: bool(start.asked.draft),
    "eager": lambda start, _: bool(start.asked.enforce_eager),
    "latent": lambda start, _: start.model.mla,
    "plain_latent": lambda start, _: start.model.mla and not is_sparse(start.model),
    "sparse": lambda start, _: is_sparse(start.model),
    "vision": _shows_pictures,
}
"""What keeps prompts from being captured."""


def _is_amd(device: Device | None) -> bool:
    return device is not None and device.vendor == "amd"


# ----------------------------------------------------------------------------------- the tower


def has_tower(model: ModelFacts, settings: Settings) -> bool:
    """Whether the server serves pictures; some classes need a switch for it."""
    serves: bool = model.architecture not in table()["text_only_classes"]
    return bool(model.vision_tower) and serves and not settings.text_only


def _with_tower(start: _Start, share: float) -> float:
    """adjust_mem_fraction_for_vlm: less the larger the vision tower is."""
    span = start.told["tower"]
    if span["kind"] == "none" or not has_tower(start.model, start.asked):
        return share
    factor: float = span["factor"]
    if span["kind"] == "size":
        layers, width = _tower(start.model)
        larger = layers * width**2 / (TOWER_LAYERS * TOWER_WIDTH**2) - 1
        factor *= max(0.8, min(1.05, 1 - 0.1 * larger))
    return share * factor


def _tower(model: ModelFacts) -> tuple[int, int]:
    """Layers and width as they are read: `num_hidden_layers`, which not every config has."""
    counts: dict[int, int] = {}
    layers = 0
    for weight in [w for block in model.weights if block.place == "tower" for w in block.weights]:
        if weight.part == "vision" and weight.inputs > 1:
            counts[weight.inputs] = counts.get(weight.inputs, 0) + weight.count
        if weight.part == "vision" and weight.split == "columns":
            layers = max(layers, weight.count)
    width = max(counts, key=lambda size: (counts[size], size)) if counts else TOWER_WIDTH
    known: Mapping[str, Any] = table()
    if model.model_type in known["tower_width_of_text"]:
        width = model.hidden_size or width
    unread = model.model_type in known["tower_layers_unread"]
    return TOWER_LAYERS if unread or not layers else layers, width
