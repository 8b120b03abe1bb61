"""SGLang: how a layout becomes ranks, and how releases use memory. Its options are not read yet.

Read in sglang 0.5.23 (server_args.py, runtime_context.py, distributed/parallel_state.py).
"""

from __future__ import annotations

from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.sglang_memory import SGLangMemory
from shardlint.engines.sglang_releases import table
from shardlint.footprint import MemoryRules
from shardlint.plan import Layout, ModelFacts, Ranks


class SGLang(RecognisedEngine):
    """The engine as shardlint asks it; `Layout.tp` are all ranks of a stage, `--tp-size`."""

    def __init__(self) -> None:
        super().__init__("sglang", "SGLang")

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        """Attention DP and EP lie inside of TP; only TP, PP and DP multiply GPUs."""
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

    def releases(self) -> tuple[str, ...]:
        return tuple(table()["releases"])

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        return Layout(
            tp=tp * attention_dp, pp=pp, dp=dp, attention_dp=attention_dp, ep=ep, dcp=dcp
        )  # fmt: skip

    def memory(self, release: str) -> MemoryRules | None:
        return SGLangMemory(release)


def kv_copies(attention_tp: int, dcp: int, model: ModelFacts | None) -> int | None:
    """Ranks that hold the same KV entry: a latent one is one head, whatever the model says."""
    if model is None or (model.kv_heads is None and not model.mla):
        return None
    heads = 1 if model.mla else model.kv_heads or 1
    return max(1, attention_tp // max(1, heads * dcp))
