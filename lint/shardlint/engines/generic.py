"""Engines that are only recognised: what is stated of them is read, nothing is judged.

The options of their layout and memory are data, `data/engine_options.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.engine import by_options
from shardlint.engines import launchers
from shardlint.engines.stated_options import Stated, stated
from shardlint.footprint import MemoryRules
from shardlint.known import Known
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    KvBudget,
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
)


class RecognisedEngine:
    """One engine of `data/launchers.json` that has no module of its own."""

    checked = False
    latent_since: str | None = None

    def __init__(self, name: str, label: str, aliases: tuple[str, ...] = ()) -> None:
        self.name, self.label, self.aliases = name, label, aliases

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        after = self._start(launch)
        if after is None:
            return None
        return self._reading(launch, after, stated(self.name, launch, launch.argv[after:]))

    def _reading(self, launch: Launch, after: int, found: Stated) -> Reading:
        """What is stated by the words behind the launcher."""
        return Reading(
            engine=self.name,
            command=launch.argv[:after],
            flags=(),
            model=found.get("model"),
            served_name=found.get("served_name"),
            layout=_layout(found),
            memory=Memory(
                budget=KvBudget(share=found.get("share"), of=found.share_of),
                max_model_len=found.get("max_model_len"),
                quantization=found.get("quantization"),
                kv_cache_dtype=found.get("kv_cache_dtype"),
            ),
            open_ended=found.open_ended or f"not all options of {self.label} are read",
        )

    def _start(self, launch: Launch) -> int | None:
        """Index of the first option; None where this is another process."""
        if launch.engine is not None and launch.engine != self.name:
            return None
        after = launchers.after_launcher(self.name, launch.argv)
        if after is not None:
            return after
        own = launch.argv_complete or launchers.is_command(launch.argv)
        told = launch.engine or launchers.image_matches(self.name, launch.image.only)
        return None if own or not told else 0

    def versions(self, tag: Known[str]) -> Known[Releases]:
        return Known.unknown("releases of this engine are not known", tag.origin)

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        """What is stated; ranks that attention splits among them are no further ones."""
        inside = layout.attention_dp
        if inside.how != "derived" or layout.dp.is_unset:
            return layout
        return replace(layout, dp=Known.of(1, inside.origin, how="derived"))

    def reads(self, rule: str) -> tuple[str, ...] | None:
        return None

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        raise LookupError(f"the ranks of {self.label} are not known")

    def releases(self) -> tuple[str, ...]:
        return ()

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        return Layout(tp=tp, pp=pp, dp=dp, attention_dp=attention_dp, ep=ep, dcp=dcp)

    def memory(self, release: str) -> MemoryRules | None:
        return None

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        yield from ()

    def flag_name(
        self, field: str, like: str = "", releases: Known[Releases] | None = None
    ) -> str | None:
        return None

    def arguments(self, layout: Layout, release: str) -> tuple[str, ...] | None:
        return by_options(self, layout, release)

    def joins_hosts(self, plan: ServingPlan) -> str | None:
        return None

    def unasked_ray(self, plan: ServingPlan) -> bool | None:
        return None

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        return None

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        return None

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        return None

    def peer_option(self, plan: ServingPlan) -> str | None:
        return None


def _layout(found: Stated) -> LayoutFacts:
    """The stated layout; with the switch for it, the data parallel ranks are those of attention."""
    names = ("tp", "pp", "dp", "ep", "moe_tp", "attention_dp", "nnodes")
    layout = LayoutFacts(**{name: found.get(name) for name in names}, pcp=found.get("cp"))
    if found.switches and layout.attention_dp.is_unset:
        return replace(layout, attention_dp=replace(layout.dp, how="derived"))
    return layout
