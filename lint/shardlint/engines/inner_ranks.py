"""Ranks of engines whose attention data parallelism and expert parallelism lie inside of TP."""

from __future__ import annotations

from shardlint.plan import Layout, ModelFacts, Ranks


def ranks(layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
    """Only TP, PP and DP multiply GPUs; what EP leaves of TP cuts each expert.

    `Layout.tp` are all ranks of a stage; no more of them can share experts.
    """
    attention = max(1, layout.tp // layout.attention_dp)
    experts = layout.tp if layout.ep is True else min(max(1, int(layout.ep)), layout.tp)
    world = layout.tp * layout.pp
    return Ranks(
        gpus=world * layout.dp,
        gpus_per_pod=None,
        world_size=world,
        engines=layout.dp * layout.attention_dp,
        attention_tp=attention,
        attention_dp=layout.attention_dp,
        dense_tp=layout.tp,
        moe_tp=max(1, layout.tp // experts),
        ep=experts,
        pp=layout.pp,
        kv_copies=kv_copies(attention, layout.dcp, model),
        coupled=layout.attention_dp,
        visible_devices=devices,
    )


def kv_copies(attention_tp: int, dcp: int, model: ModelFacts | None) -> int | None:
    """Ranks that hold the same KV entry: a latent one is one head, whatever the model says."""
    if model is None or (model.kv_heads is None and not model.mla):
        return None
    heads = 1 if model.mla else model.kv_heads or 1
    return max(1, attention_tp // max(1, heads * dcp))
