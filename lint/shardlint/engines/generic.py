"""Engines that are only recognised: their image, GPUs and replicas are read, nothing is judged."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.engines import launchers
from shardlint.footprint import MemoryRules
from shardlint.known import Known
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
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

    def __init__(self, name: str, label: str, aliases: tuple[str, ...] = ()) -> None:
        self.name, self.label, self.aliases = name, label, aliases

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        after = launchers.after_launcher(self.name, launch.argv)
        own = launch.argv_complete or launchers.is_command(launch.argv)
        if after is None and (own or not launchers.image_matches(self.name, launch.image.only)):
            return None
        reason = f"options of {self.label} are not read"
        return Reading(
            engine=self.name,
            command=launch.argv[: after or 0],
            flags=(),
            model=Known.unknown(reason),
            served_name=Known.unset(),
            layout=LayoutFacts(),
            memory=Memory(),
            open_ended=reason,
        )

    def versions(self, tag: Known[str]) -> Known[Releases]:
        return Known.unknown("releases of this engine are not known", tag.origin)

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        return layout

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

    def joins_hosts(self, plan: ServingPlan) -> str | None:
        return None

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        return None

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        return None

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        return None

    def peer_option(self, plan: ServingPlan) -> str | None:
        return None
