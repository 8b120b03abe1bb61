"""SGLang: how a layout becomes ranks, and how releases use memory. Nothing is judged yet.

Read in sglang 0.5.23 (server_args.py, runtime_context.py, distributed/parallel_state.py).
"""

from __future__ import annotations

from shardlint.engines import balancing, inner_ranks
from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.sglang_memory import SGLangMemory
from shardlint.engines.sglang_releases import table
from shardlint.footprint import MemoryRules
from shardlint.plan import Layout, ModelFacts, Ranks, Router, ServingPlan


class SGLang(RecognisedEngine):
    """The engine as shardlint asks it; `Layout.tp` are all ranks of a stage, `--tp-size`."""

    def __init__(self) -> None:
        super().__init__("sglang", "SGLang")

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        return inner_ranks.ranks(layout, model, devices)

    def releases(self) -> tuple[str, ...]:
        return tuple(table()["releases"])

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        return Layout(
            tp=tp * attention_dp, pp=pp, dp=dp, attention_dp=attention_dp, ep=ep, dcp=dcp
        )  # fmt: skip

    def balancing(self, plan: ServingPlan) -> Router | None:
        return balancing.of_sglang(plan)

    def publishes(self, plan: ServingPlan) -> bool | None:
        return balancing.publishes(plan)

    def memory(self, release: str) -> MemoryRules | None:
        return SGLangMemory(release)
