"""What rules about memory share: when a shortfall is sure, and words for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Final

from shardlint.engine import Engine
from shardlint.footprint import Footprint, Sized
from shardlint.plan import SHAPE_KEPT, Device, Layout, ModelFacts, ServingPlan
from shardlint.plugins import Found, Rule, Severity, World

LARGE: Final = 2**28
"""Bytes below which a part is not named by itself."""
MOST_NAMED: Final = 3


DEFAULT_SHARE: Final = 0.88
"""The least share of a card that an engine takes where nothing is stated."""
BESIDE: Final = 0.15
USUAL: Final = 8192


class MemoryRule(Rule):
    """A rule about what one GPU holds, by the estimate and by how far that may be off.

    A subclass gives `short`: bytes that are missing by the estimate, and bytes that are missing
    even at the far end of the band on the largest card that the name can mean; and `said`.
    """

    severity: ClassVar[Severity] = "error"
    needs: ClassVar[tuple[str, ...]] = ("demand",)
    gate: ClassVar[bool] = True
    anywhere: ClassVar[bool] = False

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        whole = plan.placement.device_kind.only in (None, "gpu", "gcd", "mig")
        return engine.checked and plan.placement.wants_gpu and whole

    def lacks(self, model: ModelFacts) -> str | None:
        return None if model.weights else "weights"

    def short(self, sized: Sized) -> tuple[int, int] | None:
        """None where the rule has nothing to say of this release."""
        raise NotImplementedError

    def said(self, world: World, sized: Sized, sure: bool) -> Found:
        raise NotImplementedError

    def check(self, world: World) -> Iterator[Found]:
        """An error where every possible release is short beyond the band.

        A warning where all of them are short by the estimate, or where the first or the last ones
        are short beyond the band.
        """
        found = world.sized()
        gaps = [self.short(sized) or (0, 0) for sized in found]
        sure = [beyond > 0 for _, beyond in gaps]
        if found and all(sure):
            yield self.said(world, found[-1], sure=True)
        elif found and all(missing > 0 for missing, _ in gaps):
            yield replace(self.said(world, found[-1], sure=False), severity="warning")
        elif any(sure):
            first, last = sure.index(True), len(sure) - sure[::-1].index(True)
            if not all(sure[first:last]) or (first > 0 and last < len(sure)):
                return
            several = any(span.first != span.last for span in world.plan.versions.values)
            yield replace(
                self.said(world, found[last - 1], sure=True),
                severity="warning",
                repair=None,
                since=found[first].release if several and first > 0 else None,
                until=found[last].release if several and last < len(found) else None,
            )


def fits(found: tuple[Sized, ...], requests: int = 1) -> bool:
    """Whatever the release is, less the band: the weights load, and the cache holds so many of the
    longest requests."""
    return bool(found) and all(_fits(sized, requests) for sized in found)


def _fits(sized: Sized, requests: int) -> bool:
    made, need = sized.made, sized.made.need
    loads = made.at_load + made.beside.context < made.total
    if not loads or need is None:
        return False
    if made.settings.kv_bytes is not None:
        return requests * need <= made.kv <= made.total - made.needed
    return made.kv - sized.band.below >= requests * need


def fits_roughly(sized: Sized) -> bool:
    """By the estimate alone: the weights load, and the cache holds one of the longest requests."""
    made, need = sized.made, sized.made.need
    if made.at_load + made.beside.context >= made.total or made.kv <= 0:
        return False
    return need is None or made.beside.cuts_requests or made.kv >= need


def roomy(
    plan: ServingPlan, model: ModelFacts, device: Device, layout: Layout, requests: int = 1
) -> bool:
    """Whatever the release, and however the weights are stored: there is room to spare.

    For plans whose memory cannot be added up. Weights take 16 bits at most (engines cast wider
    ones), and so does the cache. What an engine needs beside them is less than `BESIDE` of a card.
    """
    if device.mem_gb is None or not model.weights or model.mla or model.states:
        return False
    memory, wide = plan.memory, (plan.memory.dtype.only or "auto").lower()
    changed = any(said.endswith(SHAPE_KEPT) for said in plan.model.assumes)
    whole = plan.placement.device_kind.only in (None, "gpu", "gcd")
    share = DEFAULT_SHARE if memory.budget.share.is_unset else memory.budget.share.only
    length = _longest(plan, model)
    if changed or plan.foreign or not whole or not share or length is None:
        return False
    if not memory.budget.bytes.is_unset or wide in ("float", "float32", "fp32"):
        return False
    elements = sum(
        weight.outputs * weight.inputs * weight.count * max(1, len(block.layers))
        for block in model.weights
        for weight in block.weights
    )
    kept = sum(group.bytes_per_token(layout.tp) for group in model.kv_groups) * length * requests
    room = (share - BESIDE) * device.mem_gb * 1e9 * layout.pp
    return bool(model.kv_groups) and 2 * elements / layout.tp + kept <= room


def _longest(plan: ServingPlan, model: ModelFacts) -> int | None:
    """Tokens of the longest request; the usual ones where nothing says it."""
    stated = plan.memory.max_model_len
    if not stated.is_unset:
        return stated.only
    return model.default_context or model.least_context or model.max_position_embeddings or USUAL


def gib(bytes: int) -> str:
    """For people: "13.4 GiB"."""
    return f"{bytes / 2**30:.1f} GiB"


def ranks_of(world: World) -> str:
    """Over how many ranks one copy of the model is spread: " at TP 4 × PP 2"; nothing for one."""
    layout = world.layout
    factors = (("TP", layout.tp), ("PP", layout.pp), ("DP", layout.dp))
    named = " × ".join(f"{name} {size}" for name, size in factors if size > 1)
    return f" at {named}" if named else ""


def parts_of(made: Footprint) -> str:
    """What needs memory before the KV cache, largest first: "weights 13.1 GiB, activations ..."."""
    parts = sorted(made.parts.items(), key=lambda item: -item[1])
    large = [(name, size) for name, size in parts if name != "rest" and size >= LARGE][:MOST_NAMED]
    tenths = [round(size * 10 / 2**30) for _, size in large]
    rest = round(made.needed * 10 / 2**30) - sum(tenths)
    shown = [f"{name} ({size / 10:.1f} GiB)" for (name, _), size in zip(large, tenths, strict=True)]
    if rest > 0 or not shown:
        shown.append(f"the rest ({rest / 10:.1f} GiB)")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
