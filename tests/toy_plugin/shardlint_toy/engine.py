"""Toyserve: `toyserve MODEL --shards N`. It splits whole attention heads and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from shardlint.api import (
    NO_OPTIONS,
    Constraint,
    Device,
    Known,
    Launch,
    Layout,
    LayoutFacts,
    Memory,
    ModelFacts,
    Options,
    Ranks,
    Reading,
    Releases,
    ServingPlan,
    SharedMemory,
    divides,
)


class ToyEngine:
    name = "toyserve"
    label = "Toyserve"
    aliases: tuple[str, ...] = ()
    checked = True

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        """Two words, then options in pairs."""
        if len(launch.argv) < 2 or launch.argv[0].value != "toyserve":
            return None
        command, model, *words = launch.argv
        shards: Known[int] = Known.unset()
        for option, value in pairwise(words):
            if option.value == "--shards":
                shards = value.known().map(int)
        return Reading(
            engine=self.name,
            command=(command,),
            flags=(),
            model=model.known(),
            served_name=Known.unset(),
            layout=LayoutFacts(tp=shards),
            memory=Memory(),
        )

    def versions(self, tag: Known[str]) -> Known[Releases]:
        return Known.of(Releases("1.0", "1.0"), how="defaulted")

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        """One shard unless it says more; what the engine does not have stays at its default."""
        return LayoutFacts(tp=layout.tp.or_default(Known.of(1, how="defaulted")))

    def reads(self, rule: str) -> tuple[str, ...] | None:
        return {"tp-heads-indivisible": ("tp",)}.get(rule)

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        heads = model.kv_heads if model is not None else None
        return Ranks(
            gpus=layout.tp,
            gpus_per_pod=layout.tp,
            world_size=layout.tp,
            engines=1,
            attention_tp=layout.tp,
            attention_dp=1,
            dense_tp=layout.tp,
            moe_tp=layout.tp,
            ep=1,
            pp=1,
            kv_copies=max(1, layout.tp // heads) if heads else None,
            coupled=1,
            visible_devices=devices,
        )

    def releases(self) -> tuple[str, ...]:
        return ("1.0",)

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        return Layout(tp=tp, pp=pp, dp=dp, attention_dp=attention_dp, ep=ep, dcp=dcp)

    def memory(self, release: str) -> None:
        return None

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        if model is not None and model.attention_heads is not None:
            yield Constraint(
                rule="tp-heads-indivisible",
                subject="attention heads",
                left=model.attention_heads,
                right=ranks.attention_tp,
                test=divides,
                refusal="heads left over",
                consequence="refuses to start",
                cures=("tp",),
            )

    def flag_name(
        self, field: str, like: str = "", releases: Known[Releases] | None = None
    ) -> str | None:
        return {"tp": "--shards"}.get(field)

    def joins_hosts(self, plan: ServingPlan) -> str | None:
        return None

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        return 2

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        return None

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        return None

    def peer_option(self, plan: ServingPlan) -> str | None:
        return None
