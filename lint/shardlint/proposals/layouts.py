"""Other layouts and other numbers of GPUs: what the engine takes and a GPU holds, best first.

The same GPUs come first, then fewer, then more. Among those of one kind that hold the model the
faster ones come first, by the model of speed and where such layouts were measured; what differs by
less than that can tell, or was not measured, is ordered by how little changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from math import log2
from typing import Any, Final, TypeAlias

from shardlint.plan import KvGroup, Layout
from shardlint.plugins import Fix
from shardlint.proposals.asked import Asked
from shardlint.proposals.edits import edits_of
from shardlint.record import record

COMPARED: Final = 6
"""Layouts of one kind whose memory and speed are looked at."""
WIDEST: Final = 64
"""Ranks of one group, and stages, that are proposed."""
NOISE: Final = 0.97
"""A share of the best rate that is as good: the model of speed is not that sharp."""

Delta: TypeAlias = dict[str, Any]


@record
class Way:
    """Another layout, with what changes for it."""

    delta: Delta
    layout: Layout

    def size(self, before: Layout) -> tuple[int, float, int]:
        """How much changes: fields of the layout, then how far the tensor parallel size goes."""
        fields = sum(name in Layout.__dataclass_fields__ for name in self.delta)
        return fields, abs(log2(self.layout.tp / before.tp)), -self.layout.tp


def other_layouts(asked: Asked) -> Iterator[Fix]:
    """Fixes for a layout that the engine refuses."""
    found = list(_ways(asked, asked.layout.pp))
    if not found:
        lower = range(min(asked.layout.pp, WIDEST) - 1, 0, -1)
        found = [way for pp in lower for way in _ways(asked, pp)]
    now = asked.there
    same = [way for way in found if asked.size(way.layout) == now]
    for kind in ([way for way in same if "ep" in way.delta],
                 [way for way in same if "ep" not in way.delta]):  # fmt: skip
        fixes = _first(asked, kind)
        yield from fixes
        if fixes and fixes[0].delta.keys() == {"tp"}:
            return  # nothing else has to change for it
    other = [way for way in found if asked.holds(way.layout) is not False]
    sizes = {asked.size(way.layout) for way in other}
    fewer = max((size for size in sizes if size < now), default=0)
    more = min((size for size in sizes if size > now and asked.stated is not None), default=0)
    for size in (fewer, more):
        yield from _first(asked, [way for way in other if asked.size(way.layout) == size])


def _first(asked: Asked, ways: Iterable[Way]) -> list[Fix]:
    """The best of these that can be written, if there is one.

    Where the number of GPUs cannot be, fewer of them are used.
    """
    for way in _best_first(asked, ways):
        fix = layout_fix(asked, way.delta)
        if fix is None and asked.size(way.layout) < asked.there:
            fix = layout_fix(asked, _changes(asked.layout, way.layout))
        if fix is not None:
            return [fix]
    return []


def _ways(asked: Asked, pp: int) -> Iterator[Way]:
    """With so many stages: every size that the engine takes, with fewer or more copies."""
    layout, now = asked.layout, asked.there
    wide = layout.tp * layout.pp // pp if pp < layout.pp else 2 * layout.tp
    for tp in _sizes(asked, wide):
        each = replace(layout, tp=tp, pp=pp)
        copies = [layout.dp]
        one = asked.size(replace(each, dp=1))
        alone = layout.one_group and asked.ranks(layout).gpus_per_pod is not None
        if alone and one and now % one == 0 and now // one != layout.dp:
            copies.append(now // one)
        for dp in copies:
            for after in _with_experts(asked, replace(each, dp=dp)):
                count = asked.count(after)
                if after != layout and count is not None and asked.accepts(after):
                    yield Way(_changes(layout, after) | count, after)


def _with_experts(asked: Asked, after: Layout) -> Iterator[Layout]:
    """The layout, and the same with whole experts on each rank."""
    yield after
    model, layout = asked.model, asked.layout
    if model is not None and model.moe and after.ep is False and after == layout:
        yield replace(after, ep=True)


def _sizes(asked: Asked, most: int) -> Iterable[int]:
    """Tensor parallel sizes to try; where the shape is not known, what divides the present one."""
    layout = asked.layout
    if not asked.knows_shape:
        return [tp for tp in range(1, min(layout.tp, WIDEST) + 1) if layout.tp % tp == 0]
    return range(1, min(max(most, layout.tp), WIDEST) + 1)


def _changes(before: Layout, after: Layout) -> Delta:
    names = ("tp", "pp", "dp", "ep", "attention_dp")
    return {name: getattr(after, name) for name in names
            if getattr(after, name) != getattr(before, name)}  # fmt: skip


def _best_first(asked: Asked, ways: Iterable[Way]) -> list[Way]:
    """Those that fit, or of which that is not known; of measured kinds the fastest alone."""
    layout = asked.layout
    near = sorted(ways, key=lambda way: way.size(layout))
    fit = list(islice((way for way in near if asked.holds(way.layout) is not False), COMPARED))
    found = [asked.rate(way.layout) for way in fit]
    known = [rate for rate in found if rate is not None]
    if len(known) < len(fit) or not known:
        return fit
    return [way for way, rate in zip(fit, known, strict=True) if rate >= NOISE * max(known)]


# ------------------------------------------------------------------------------------- counts


def other_counts(asked: Asked) -> Iterator[Fix]:
    """For a layout that the engine takes, on GPUs or nodes that are not as many as it needs."""
    seen: list[Delta] = []
    found = False
    for delta in _deltas(asked):
        fix = layout_fix(asked, delta) if delta and delta not in seen else None
        seen.append(delta)
        if fix is not None:
            yield fix
            found = True
    if not found and asked.layout.one_group and asked.devices:
        yield from _first(asked, _narrower(asked, asked.devices))


def _deltas(asked: Asked) -> Iterator[Delta]:
    """Fewer data-parallel ranks on the GPUs there are, then as many GPUs as are needed, then
    another layout of those there are."""
    layout, there = asked.layout, asked.devices or 0
    ranks = asked.ranks(layout)
    if ranks.gpus_per_pod is None or len(asked.plan.placement.devices.values) > 1:
        return
    if (pods := asked.enough_pods) is not None:
        yield {"nodes": pods}
        return
    copies = there // ranks.world_size
    if asked.holds(layout) is not False:
        fewer = replace(layout, dp=copies)
        if layout.one_group and 0 < copies < layout.dp and asked.accepts(fewer):
            yield {"dp": copies}
        yield asked.count(layout) or {}
        if layout.one_group and 0 < copies < layout.dp:
            return
    if layout.one_group and there:
        ways = [way for way in _on(asked, there) if asked.size(way.layout) == there]
        yield from (way.delta for way in _best_first(asked, ways)[:2])


def _narrower(asked: Asked, there: int) -> Iterator[Way]:
    """Fewer ranks for one copy, on all GPUs there are; whether they hold it may not be known."""
    layout = asked.layout
    for tp in _sizes(asked, layout.tp):
        after = replace(layout, tp=tp, dp=1)
        if tp < layout.tp and asked.size(after) == there and asked.accepts(after):
            yield Way(_changes(layout, after), after)


def _on(asked: Asked, there: int) -> Iterator[Way]:
    """Layouts of all GPUs there are: more of them for one copy, or more copies; fewer ranks for
    one copy only where they are known to hold it."""
    layout = asked.layout
    one = layout.pp * layout.pcp
    for tp in _sizes(asked, there):
        dp, rest = divmod(there, tp * one)
        after = replace(layout, tp=tp, dp=dp)
        if rest or not dp or (dp > 1 and tp > layout.tp) or not asked.accepts(after):
            continue
        if tp < layout.tp and not asked.holds(after):
            continue
        yield Way(_changes(layout, after), after)


# -------------------------------------------------------------------------------------- a fix


def layout_fix(asked: Asked, delta: Mapping[str, Any]) -> Fix | None:
    """The fix with its edits, or None if a Site refuses one of them."""
    change = {name: value for name, value in delta.items() if name in Layout.__dataclass_fields__}
    after = replace(asked.layout, **change)
    title, room = _title(asked, delta, after), _room(asked, after)
    edits = edits_of(asked.plan, {**delta, **room})
    if edits is None and room:
        edits, room = edits_of(asked.plan, delta), {}
    if edits is None:
        return None
    if room:
        title += f", with {room['shm_bytes'] // 2**30} GiB for /dev/shm"
    estimate = {**_estimate(asked, after), **_rates(asked, after)}
    return Fix(title, "unsafe", {**delta, **room}, edits, estimate)


def _room(asked: Asked, after: Layout) -> Delta:
    """Shared memory that the new ranks ask for, where what there is was enough before."""
    placement = asked.plan.placement
    have = placement.shm_bytes.only
    if have is None or placement.on_host or placement.shm_ample:
        return {}
    engine = asked.engine
    now, then = (engine.shared_memory(of, asked.ranks(of)) for of in (asked.layout, after))
    if then is None or then.only_without_peers or have >= then.least:
        return {}
    if now is not None and have < now.least:
        return {}  # a finding of its own
    enough = then.enough(placement.memory_bytes.only)
    return {"shm_bytes": enough} if enough else {}


def _title(asked: Asked, delta: Mapping[str, Any], after: Layout) -> str:
    if set(delta) == {"gpus_per_pod"}:
        return f"{asked.stated} → {delta['gpus_per_pod']} GPUs for the same layout"
    if set(delta) == {"nodes"}:
        return f"{delta['nodes']} {'pod' if delta['nodes'] == 1 else 'pods'} for the same layout"
    title = f"{_written(asked.layout)} → {_written(after)}"
    need = asked.ranks(after).gpus_per_pod
    if need is None or after.nnodes > 1:
        return title
    if "gpus_per_pod" in delta:
        return f"{title} on {need} GPUs instead of {asked.stated}"
    if need > asked.gpus:
        return f"{title} on {need} GPUs"
    if need != asked.gpus:
        return f"{title} on {need} of {asked.gpus} GPUs"
    return f"{title} on the same GPU" if need == 1 else f"{title} on the same {need} GPUs"


def _written(layout: Layout) -> str:
    """The degrees above 1: "TP 4 × DP 2"."""
    degrees = (("TP", layout.tp), ("PP", layout.pp), ("PCP", layout.pcp), ("DP", layout.dp),
               ("DCP", layout.dcp), ("attention DP", layout.attention_dp))  # fmt: skip
    found = [f"{name} {value}" for name, value in degrees if value > 1]
    if layout.ep is True:
        found.append("EP")
    elif layout.ep > 1:
        found.append(f"EP {layout.ep}")
    return " × ".join(found) or "TP 1"


def _estimate(asked: Asked, after: Layout) -> dict[str, dict[str, int]]:
    """KV cache bytes of one token on one GPU, which the shape gives exactly."""
    model, before = asked.model, asked.layout
    if model is None or after.tp == before.tp or before.dcp > 1:
        return {}
    size = asked.engine.dtype_bytes(asked.plan, model)
    full = [group for group in model.kv_groups if group.window is None]
    if size is None or not full or any(not group.fits(before.tp) for group in model.kv_groups):
        return {}  # nothing is stored by a layout that cannot share the heads out
    return {
        "kv_bytes_per_token_per_gpu": {
            "before": _kv_bytes(full, before.tp, size),
            "after": _kv_bytes(full, after.tp, size),
        }
    }


def _kv_bytes(groups: Iterable[KvGroup], tp: int, size: int) -> int:
    """Of the layers without a window: a full window takes no further bytes."""
    return sum(group.bytes_per_token(tp) for group in groups) * size // 2


def _rates(asked: Asked, after: Layout) -> dict[str, dict[str, int]]:
    """Tokens a second for each GPU where both layouts are of a kind that was measured."""
    if not asked.accepts(asked.layout) or not asked.holds(asked.layout):
        return {}  # it does not run now
    found = [asked.rate(layout) for layout in (asked.layout, after)]
    known = [round(rate) for rate in found if rate is not None]
    if len(known) < len(found) or known[0] == known[1]:
        return {}
    return {"output_tok_s_per_gpu": {"before": known[0], "after": known[1]}}
