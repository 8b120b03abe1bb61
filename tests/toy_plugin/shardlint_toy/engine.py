"""Toyserve: `toyserve MODEL --shards N`. It splits whole attention heads and nothing else.

An engine is this module and the table beside it, `toyserve.json`; nothing else names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

from shardlint.api import (
    NO_OPTIONS,
    Constraint,
    Device,
    Flag,
    Known,
    Launch,
    Layout,
    LayoutFacts,
    Memory,
    ModelFacts,
    Options,
    Ranks,
    Reading,
    Refused,
    Releases,
    Remark,
    ServingPlan,
    SharedMemory,
    Span,
    Text,
    divides,
)

TABLE: dict[str, Any] = json.loads(
    files(__package__).joinpath("toyserve.json").read_text(encoding="utf-8")
)
RELEASES = Releases(TABLE["releases"][0], TABLE["releases"][-1])


class ToyEngine:
    name = TABLE["command"]
    label = TABLE["label"]
    aliases: tuple[str, ...] = ()
    checked = True
    latent_since: str | None = None

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        """Two words, then options in pairs."""
        if len(launch.argv) < 2 or launch.argv[0].value != TABLE["command"]:
            return None
        command, model, *words = launch.argv
        flags = tuple(_flags(words))
        return Reading(
            engine=self.name,
            command=(command,),
            flags=flags,
            model=model.known(),
            served_name=Known.unset(),
            layout=LayoutFacts(tp=_number(flags, "tp")),
            memory=Memory(max_model_len=_number(flags, "max_model_len")),
            refused=tuple(_refused(flags)),
            remarks=(*_renamed(flags), _upkeep(command)),
        )

    def versions(self, tag: Known[str]) -> Known[Releases]:
        return Known.of(RELEASES, how="defaulted")

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
        return tuple(TABLE["releases"])

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
        name: str | None = TABLE["options"].get(field)
        return name

    def arguments(self, layout: Layout, release: str) -> tuple[str, ...] | None:
        return ("--shards", str(layout.tp))

    def joins_hosts(self, plan: ServingPlan) -> str | None:
        return None

    def unasked_ray(self, plan: ServingPlan) -> bool | None:
        return None

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        return 2

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        return None

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        return None

    def peer_option(self, plan: ServingPlan) -> str | None:
        return None


# ----------------------------------------------------------------------------- what the table says


def _flags(words: list[Text]) -> Iterator[Flag]:
    """Options by their names of today; each has a value."""
    known = [*TABLE["options"].values(), *TABLE["renamed"]]
    for written, value in zip(words[::2], words[1::2], strict=False):
        name = written.value or ""
        flag = TABLE["renamed"].get(name, name if name in known else None)
        yield Flag(
            written=written,
            flag=flag,
            value=value,
            span=Span(written.origin.span.start, value.origin.span.end),
            problem=None if flag else TABLE["says_of_unknown"],
            candidates=() if flag else tuple(get_close_matches(name, known, n=1)),
        )


def _number(flags: tuple[Flag, ...], field: str) -> Known[int]:
    found = [flag.value for flag in flags if flag.flag == TABLE["options"][field] and flag.value]
    return found[-1].known().map(int) if found else Known.unset()


def _refused(flags: tuple[Flag, ...]) -> Iterator[Refused]:
    for at, flag in enumerate(flags):
        if flag.flag is None:
            yield Refused(
                kind="unknown",
                written=flag.written,
                at=flag.written.origin,
                flag=at,
                problem=TABLE["says_of_unknown"],
                candidates=flag.candidates,
            )


def _renamed(flags: tuple[Flag, ...]) -> Iterator[Remark]:
    for at, flag in enumerate(flags):
        if (name := flag.written.value) in TABLE["renamed"]:
            yield Remark(
                kind="deprecated",
                at=flag.written.origin,
                message=f"`{name}` is an older name",
                flag=at,
                replaced_by=TABLE["renamed"][name],
            )


def _upkeep(command: Text) -> Remark:
    row = TABLE["upkeep"]
    said = f"{TABLE['label']} {row['state']} since {row['since']}"
    return Remark(kind="upkeep", at=command.origin, message=said, help=row["instead"])
