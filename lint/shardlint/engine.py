"""What an inference engine is asked: its own command line, ranks, constraints, memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, runtime_checkable

from shardlint.footprint import MemoryRules
from shardlint.known import Known
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    Launch,
    Layout,
    LayoutFacts,
    ModelFacts,
    Options,
    Ranks,
    Reading,
    Releases,
    Router,
    ServingPlan,
    SharedMemory,
)


class Engine(Protocol):
    """An inference engine: turns options into ranks, and knows what it refuses."""

    name: str
    label: str
    aliases: tuple[str, ...]
    checked: bool
    """False: only recognised. What is stated of it is read, and nothing is judged."""
    latent_since: str | None
    """The first release that keeps latent attention as such; None: all that are known."""

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        """The engine's reading of a launch, or None when this is not its launch.

        What its possible releases do not read alike is unknown, and what they refuse is noted.
        """
        ...

    def versions(self, tag: Known[str]) -> Known[Releases]:
        """Releases that an image tag or a stated version can mean; all supported ones if unset."""
        ...

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        """Stated values, with the engine's defaults where nothing is stated."""
        ...

    def reads(self, rule: str) -> tuple[str, ...] | None:
        """Fields of `Layout` that the constraints of a rule depend on; None: not judged here."""
        ...

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks: ...

    def releases(self) -> tuple[str, ...]:
        """Releases that were opened, oldest first; empty: none of this engine."""
        ...

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        """What the engine is asked for so many ranks: `tp` ranks share one layer's attention.

        `dp` and `attention_dp` multiply the ranks; `ep` is a size, or whether there is any.
        """
        ...

    def memory(self, release: str) -> MemoryRules | None:
        """How one release uses memory; None: not known for this engine."""
        ...

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        """Every constraint that the known facts allow to state, held or not."""
        ...

    def flag_name(
        self, field: str, like: str = "", releases: Known[Releases] | None = None
    ) -> str | None:
        """The option that sets a layout field, None if the engine has none in these releases.

        Short beside the short option `like`.
        """
        ...

    def arguments(self, layout: Layout, release: str) -> tuple[str, ...] | None:
        """Options that ask one release for a layout on one node; None: it cannot be asked."""
        ...

    def joins_hosts(self, plan: ServingPlan) -> str | None:
        """Why one host's devices need not be all that there is, as a condition; else None."""
        ...

    def unasked_ray(self, plan: ServingPlan) -> bool | None:
        """Whether ranks that its host has no devices for go to a Ray cluster without being told to;
        None: it is told, or releases that it can be differ."""
        ...

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        """Bytes of one KV cache element, None if that is not certain."""
        ...

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        """Nodes that the widest tensor parallel group touches; None: that is not decided.

        `per_node` are the GPUs of a node, for layouts that leave it to the cluster.
        """
        ...

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        """What the processes of one pod ask of /dev/shm; None: nothing that is known."""
        ...

    def peer_option(self, plan: ServingPlan) -> str | None:
        """The option that keeps the engine's own kernels off peer access; None: given, or none."""
        ...


@runtime_checkable
class Balancer(Protocol):
    """An engine that chooses among data-parallel ranks of its own."""

    def balancing(self, plan: ServingPlan) -> Router | None:
        """How it does that; None where there is nothing to choose and nothing is stated."""
        ...

    def publishes(self, plan: ServingPlan) -> bool | None:
        """Whether it tells a router what its cache holds; None: that is not certain."""
        ...


def refuses(
    engine: Engine,
    layout: Layout,
    model: ModelFacts | None,
    devices: int | None = None,
    options: Options = NO_OPTIONS,
    device: Device | None = None,
) -> Constraint | None:
    """The first constraint that refuses a layout."""
    ranks = engine.ranks(layout, model, devices)
    for constraint in engine.constraints(model, ranks, layout, options, device):
        if constraint.refuses:
            return constraint
    return None


DEGREES: Final = ("tp", "pp", "dp", "attention_dp", "ep", "dcp")
"""Sizes of a layout, in the order in which options state them."""


def by_options(engine: Engine, layout: Layout, release: str) -> tuple[str, ...] | None:
    """The tensor parallel size, and what is not 1 or off, each by an option of its own."""
    told = Known.of(Releases(release, release))
    words: list[str] = []
    for name in DEGREES:
        value = getattr(layout, name)
        on = value is True or (value is not False and value > 1)
        if not on and name != "tp":
            continue
        flag = engine.flag_name(name, releases=told)
        if flag is None:
            return None
        words += (flag,) if value is True else (flag, str(value))
    return tuple(words)
