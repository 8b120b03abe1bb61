"""From what would clear a finding to fixes: changes that can be written, best first.

A change of layout is one that no constraint of the engine refuses and that fits by the memory
model: on the same GPUs first, then on fewer, then on more. Its edits come from the plan's Sites,
all or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from shardlint.demands import Sizer, demand_of
from shardlint.linter import Cure
from shardlint.plan import Layout, Offer, Refusal, ServingPlan
from shardlint.plugins import Applicability, Finding, Fix, Repair, World
from shardlint.proposals.asked import Asked
from shardlint.proposals.edits import edits_of
from shardlint.proposals.layouts import layout_fix, other_counts, other_layouts
from shardlint.proposals.memory import (
    layouts_that_fit,
    settings_that_fit,
    sizes_after,
    weights_that_fit,
)
from shardlint.record import record

MOST: Final = 4
"""Fixes of one finding: what is worse than three others is no help."""
PLAIN: Final = ("gpus_per_pod", "nodes", "shm_bytes")
"""Fields beside the layout that change with it."""


def proposed(cure: Cure, finding: Finding, sizer: Sizer) -> Iterator[Fix]:
    """Fixes by the repairs of a finding in their order, without repeats."""
    seen: list[Mapping[str, Any]] = []
    found = (
        fix
        for repair in (cure.repair, *cure.repair.also)
        if repair.kind in MAKERS
        for fix in MAKERS[repair.kind](Wanted(repair, cure.world, finding, sizer))
    )
    for fix in found:
        if fix.delta not in seen:
            seen.append(fix.delta)
            yield fix
        if len(seen) == MOST:
            return


def offered(offers: Iterable[Offer]) -> Iterator[Fix]:
    """What the router's reader can write: none is safe, requests go elsewhere afterwards."""
    for offer in offers:
        try:
            edits = offer.site.set(offer.value)
        except Exception:  # fence: an offer that cannot be written is none
            continue
        if not isinstance(edits, Refusal):
            yield Fix(offer.title, "unsafe", dict(offer.delta), tuple(edits))


@record
class Wanted:
    """One repair of a finding, in the world where that was found."""

    repair: Repair
    found_in: World
    finding: Finding
    sizer: Sizer

    @property
    def plan(self) -> ServingPlan:
        return self.found_in.plan

    @property
    def world(self) -> World:
        """With what its GPUs hold, where a plan has one demand on them, whatever the rule."""
        world, whole = self.found_in, self.found_in.whole
        if world.sizes is not None or whole is None or not world.plan.placement.wants_gpu:
            return world
        demand = demand_of(world.plan).only
        if demand is None or demand.layout != whole:
            return world
        return replace(
            world, layout=whole, model=world.model or demand.model, device=demand.device,
            sizes=partial(self.sizer.sized, demand), paces=partial(self.sizer.speeds, demand),
        )  # fmt: skip


def _layout(wanted: Wanted) -> Iterator[Fix]:
    """Another number of GPUs for a layout that the engine takes, else another layout."""
    asked = Asked.of(wanted.world)
    if asked is not None:
        runs = asked.accepts(asked.layout)
        yield from other_counts(asked) if runs else other_layouts(asked)


# ------------------------------------------------------------------------------- one option


def _option(wanted: Wanted) -> Iterator[Fix]:
    """Another spelling, other words, or none in place of an option.

    Safe only where it is sure what was meant, and the engine refuses the other or reads the same.
    """
    repair, plan = wanted.repair, wanted.plan
    site = plan.sites.get(repair.field)
    edits = site.set(repair.value) if site is not None else Refusal("no site")
    if isinstance(edits, Refusal):
        return
    flag = plan.flags[_place(repair.field)]
    written = flag.written.value or ""
    if flag.problem is None or "explicit" not in flag.problem:
        written = written.split("=", 1)[0]
    safe = repair.value and repair.certain and wanted.finding.severity != "warning"
    applicability: Applicability = "safe" if safe else "unsafe"
    if not repair.value:
        delta: dict[str, Any] = {"remove_flag": written, **dict(repair.values)}
        yield Fix(f"remove `{written}`", applicability, delta, tuple(edits))
        return
    delta = {"replace_flag": [written, repair.value]}
    yield Fix(f"`{written}` → `{repair.value}`", applicability, delta, tuple(edits))


def _added(wanted: Wanted) -> Iterator[Fix]:
    repair, plan = wanted.repair, wanted.plan
    site = plan.sites.get("option")
    edits = site.set(repair.value) if site is not None else Refusal("no site")
    if not isinstance(edits, Refusal):
        delta = {"add_flag": repair.value}
        yield Fix(f"add `{repair.value}`", "unsafe", delta, tuple(edits))


def _move(wanted: Wanted) -> Iterator[Fix]:
    """A setting written where it counts, and not where it stood."""
    repair, plan = wanted.repair, wanted.plan
    site = plan.sites.get(repair.field)
    edits = site.set(repair.value) if site is not None else Refusal("no site")
    if not isinstance(edits, Refusal):
        said = ", ".join(f"{name.upper()} {value}" for name, value in repair.values)
        yield Fix(f"{said}, where it is read", "unsafe", dict(repair.values), tuple(edits))


def _place(field: str) -> int:
    """Where the option of a site stands among those of its plan: "flag:3" is 3."""
    return int(field.partition(":")[2])


# ------------------------------------------------------------------------------- stated fields


def _fields(wanted: Wanted) -> Iterator[Fix]:
    """Fields set to the values that the rule names."""
    world, fits = wanted.world, wanted.repair.fits
    delta: dict[str, Any] = dict(wanted.repair.values)
    layout = {name: value for name, value in delta.items() if name in Layout.__dataclass_fields__}
    if not layout:
        if (edits := edits_of(world.plan, delta)) is not None:
            said = ", ".join(_setting(name, value) for name, value in delta.items())
            yield Fix(said, "unsafe", dict(delta), edits)
        return
    asked = Asked.of(world)
    after = None if asked is None else replace(asked.layout, **layout)
    if asked is None or after is None or not asked.accepts(after):
        return
    holds = asked.holds(after)
    if holds is False or (fits and not holds):
        return
    if (fix := layout_fix(asked, delta)) is not None:
        yield fix


def _setting(name: str, value: Any) -> str:
    return f"{_bytes(value)} for /dev/shm" if name == "shm_bytes" else f"{name} {value}"


def _bytes(value: int) -> str:
    """GiB where it comes out even."""
    return f"{value // 2**30} GiB" if value % 2**30 == 0 else f"{value:,} bytes"


# -------------------------------------------------------------------------------- memory

WORDS: Final = {
    "max_model_len": "a context of", "kv_cache_dtype": "a KV cache in",
    "quantization": "weights quantized as they are loaded, in",
}  # fmt: skip


def _memory(wanted: Wanted) -> Iterator[Fix]:
    """A shorter context or a smaller cache, then more ranks for one copy of the model, then smaller
    weights."""
    world, load = wanted.world, dict(wanted.repair.values)
    yield from _changed(world, settings_that_fit(world, load))
    asked = Asked.of(world)
    for delta in layouts_that_fit(world, asked, load) if asked is not None else ():
        assert asked is not None
        fix = layout_fix(asked, delta)
        if fix is not None:
            layout = {name: value for name, value in delta.items() if name not in PLAIN}
            after = replace(asked.layout, **layout)
            sizes = sizes_after(world, after, {})
            yield replace(fix, estimate={**fix.estimate, **sizes})
    yield from _changed(world, weights_that_fit(world, load))


def _changed(world: World, changes: Iterable[Mapping[str, Any]]) -> Iterator[Fix]:
    for change in changes:
        edits = edits_of(world.plan, change)
        if edits is not None:
            said = " and ".join(f"{WORDS[name]} {_number(value)}" for name, value in change.items())
            yield Fix(said, "unsafe", dict(change), edits, sizes_after(world, None, change))


def _number(value: Any) -> str:
    return f"{value:,} tokens" if isinstance(value, int) else str(value)


MAKERS: Final[Mapping[str, Callable[[Wanted], Iterator[Fix]]]] = {
    "layout": _layout, "flag": _option, "option": _option, "add": _added, "fields": _fields,
    "memory": _memory, "move": _move,
}  # fmt: skip
"""What makes fixes of each kind of repair; those of routers are offered by their readers."""
