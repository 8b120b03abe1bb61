"""Tensor parallelism exceeds the KV heads, so that every KV entry is stored several times.

A rank cannot hold less than one KV head. With more ranks than KV heads the engine copies each head
to several ranks: the weights of a GPU still shrink with every step of tensor parallelism, the KV
cache does not, and the memory bought for longer contexts holds copies. vLLM does this without a
warning (`linear.py`: `num_kv_head_replicas`). Two copies are reported as info, four or more as a
warning.

```sh fails --gpu A100-SXM-80GB:8
vllm serve google/gemma-2b-it --tensor-parallel-size 8  # kv-replication
```

```sh passes
vllm serve google/gemma-2b-it --data-parallel-size 8
```

Fix: a tensor parallel size up to the number of KV heads, and data-parallel copies for the rest of
the GPUs; or decode context parallelism (`--decode-context-parallel-size`), which spreads the copies
over the sequence, where the engine supports it for the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.api import Found, Layout, LayoutRule, ModelFacts, Repair, World, refuses


class KvReplication(LayoutRule):
    id, name = "SL103", "kv-replication"
    severity = "warning"
    model = ("kv_heads",)
    fix = "unsafe"

    def lacks(self, model: ModelFacts) -> str | None:
        return None if model.mla else super().lacks(model)

    def check(self, world: World) -> Iterator[Found]:
        model, ranks = world.model, world.ranks
        if model is None or ranks is None or model.mla or not model.kv_heads:
            return
        copies, degree = ranks.kv_copies, ranks.attention_tp
        if copies is None or copies < 2 or not _cut_evenly(world):
            return
        other = _on_the_same(world, model.kv_heads)
        heads = f"{model.kv_heads} KV head{'' if model.kv_heads == 1 else 's'}"
        yield Found(
            message=(
                f"TP {degree} over {heads} keeps every KV entry on {copies} GPUs:"
                f" {copies - 1}/{copies} of the KV memory holds copies"
            ),
            at=world.origin("layout.tp"),
            severity="info" if copies < 4 else "warning",
            help=_help(other) if other is not None else None,
            repair=_repair(other) if other is not None else None,
        )


CUT = ("tp-heads-indivisible", "tp-kv-heads-indivisible", "shard-dim-indivisible")


def _cut_evenly(world: World) -> bool:
    """A size that no checkpoint of the model can be cut into has no copies to speak of."""
    return not any(item.refuses and item.rule in CUT for item in world.all_constraints())


def _on_the_same(world: World, heads: int) -> Layout | None:
    """The same GPUs with as many ranks as KV heads, if the engine takes that layout."""
    layout = world.whole
    if layout is None or layout.dp > 1 or layout.nnodes > 1 or layout.tp % heads:
        return None
    if world.engine.flag_name("dp") is None:  # replicas are processes of their own
        return None
    other = replace(layout, tp=heads, dp=layout.tp // heads)
    return other if refuses(world.engine, other, world.model) is None else None


def _repair(other: Layout) -> Repair:
    return Repair("fields", values=(("tp", other.tp), ("dp", other.dp)), fits=True)


def _help(other: Layout) -> str:
    stages = f" × PP {other.pp}" if other.pp > 1 else ""
    gpus = other.tp * other.pp * other.pcp * other.dp
    return f"TP {other.tp}{stages} × DP {other.dp} on the same {gpus} GPUs stores it once"
