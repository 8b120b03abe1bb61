"""Attention that chooses its tokens, and residual streams: what they need in a profile run.

DeepSeek-V3.2, GLM-5: an indexer in front of latent attention (v1/attention/backends/mla/indexer.py,
flashmla_sparse.py, layers/sparse_attn_indexer.py). DeepSeek-V4: a window and pressed tokens, with
several residual streams (models/deepseek_v4/attention.py, nvidia/flashmla.py, nvidia/model.py).
Without metadata the kernels do not run; what they would need is asked for all the same.
"""

from __future__ import annotations

from typing import Final

from shardlint.engines.vllm_run import MIB, Run, table
from shardlint.plan import KvGroup, ModelFacts

FLOAT32: Final = 4
PADDED_HEADS: Final = {"12": (16, 32, 64, 128)}
"""Numbers of heads that the kernels know, by family of cards (get_padded_num_q_heads)."""
USUAL_HEADS: Final = (64, 128)
GATHERED: Final = 4
"""Prompts whose keys are gathered at a time (PREFILL_CHUNK_SIZE)."""
TOP_K_ROOM: Final = 1 << 20
"""Bytes for the radix sort of scores (RADIX_TOPK_WORKSPACE_SIZE)."""
OVERLAP: Final = 2
"""Where few tokens are pressed into one, neighbours overlap: twice as many keys and gates."""


def chooser(model: ModelFacts) -> KvGroup | None:
    """The layers that keep a key by which tokens are chosen; None: the model has none."""
    return next((group for group in model.kv_groups if group.index), None)


def streams(model: ModelFacts) -> int:
    """Residual streams beside one another; 0 for a model with a single one."""
    return _rows(model, "hc_head_fn")


def _rows(model: ModelFacts, name: str) -> int:
    found = (w.outputs for block in model.weights for w in block.weights if w.name == name)
    return next(found, 0)


# ------------------------------------------------------------------------------ kept for good


def workspace(run: Run) -> int:
    """Bytes of the room that kernels share (v1/worker/workspace.py): the largest that is asked.

    The keys that the indexer gathers, the prompts' keys in 16 bits.
    """
    group, span = chooser(run.model), run.told["sparse"]
    if group is None or not span["workspace"] or run.runner == "v0":
        return 0
    length, factor = run.length, _factor(run)
    indexed = length * factor * 8 // group.ratio * (group.index + FLOAT32)
    indexed += TOP_K_ROOM if span["logits"] else 0
    return max(indexed, _gathered(run, group, length, factor))


def _factor(run: Run) -> int:
    """Times the longest request; less for long ones in releases that have the option for it."""
    long = run.told["sparse"].get("long_above")
    return 2 if long and run.length > long else 5


def _gathered(run: Run, group: KvGroup, length: int, factor: int) -> int:
    """V3.2 gathers where the cache is in 8 bits and set out for this kernel."""
    model = run.model
    if model.mla:
        if not (run.settings.kv_cache_dtype or "").startswith("fp8"):
            return 0
        return factor * length * ((model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0)) * 2
    window = max([one.window or 0 for one in model.kv_groups])
    pressed = -(-length // group.ratio)
    return GATHERED * (pressed + window + run.tokens) * (model.head_dim or 0) * 2


def kept(run: Run) -> int:
    """Bytes of buffers that are made with the model: chosen tokens, streams for the draft."""
    found = 0
    if chooser(run.model) is not None and run.runner != "v0":
        chosen: int = table()["chosen_tokens"].get(run.model.model_type, 2048)
        found += run.tokens * chosen * 4
    wide = streams(run.model)
    if wide and (run.told["sparse"]["streams_kept"] or run.settings.draft):
        found += run.tokens * wide * run.hidden * run.element
    return found


# --------------------------------------------------------------------------- while layers run


def scores(run: Run) -> int:
    """Bytes that stand for the scores of an indexer (VLLM_SPARSE_INDEXER_MAX_LOGITS_MB)."""
    if chooser(run.model) is None or not run.told["sparse"]["logits"]:
        return 0
    return 512 * MIB


def index_queries(run: Run) -> int:
    """Bytes of the indexer's queries of all tokens, in 8 bits, when it scores."""
    return run.tokens * _rows(run.model, "indexer.wq_b")


def carried(run: Run) -> int:
    """Elements of one token that a layer of streams holds while its parts run.

    The caller's output and streams, the layer's own streams and its joined input.
    """
    return (2 * streams(run.model) + 2) * run.hidden


def pressed_attention(run: Run) -> int:
    """Bytes while a layer of DeepSeek-V4 attends, without what the layer carries.

    Queries and outputs have as many heads as the kernel knows; keys and gates that are pressed are
    in float32. The fullest point is where the queries are padded, or where the indexer scores.
    """
    model, group = run.model, chooser(run.model)
    width, heads = model.head_dim or 0, -(-(model.attention_heads or 0) // run.tp)
    padded = padded_heads(heads, run.capability)
    low = 2 * ((model.q_lora_rank or 0) + width) * run.element
    gates = 2 * OVERLAP * (width + (group.index if group else 0)) * FLOAT32
    all_heads = padded * width * run.element
    own = heads * width * run.element if heads < padded else 0
    padding = run.tokens * own
    scoring = index_queries(run) + scores(run)
    return run.tokens * (2 * all_heads + low + gates) + max(padding, scoring)


def padded_heads(heads: int, capability: str | None) -> int:
    known = PADDED_HEADS.get((capability or "").partition(".")[0], USUAL_HEADS)
    return next((number for number in known if heads <= number), heads)
