"""All layouts of one replica that some nodes have room for, smallest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shardlint.plan import Device, ModelFacts
from shardlint.recommendations.question import Wanted
from shardlint.record import record

MOST_STAGES: Final = 16
"""Pipeline stages beyond which nothing is gained that is worth a look."""
WIDE_DOMAIN: Final = 64
"""Ranks of tensor parallelism beyond which no model has heads."""


@record(kw_only=True)
class Shape:
    """One replica: `experts` is whether experts are shared out to the ranks of a stage."""

    tp: int
    pp: int = 1
    attention_dp: int = 1
    experts: bool = False
    dcp: int = 1

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.attention_dp

    @property
    def ep(self) -> int:
        return self.tp * self.attention_dp if self.experts else 1


def domain(device: Device, per_node: int) -> int:
    """GPUs that exchange activations without leaving their link domain."""
    wide = device.link_domain or 1
    return max(per_node, wide if (device.link or "").startswith("nvlink") else 1)


def shapes(model: ModelFacts, device: Device, wanted: Wanted) -> Iterator[Shape]:
    """Ranks of a stage stay in one link domain; stages may stand on several nodes."""
    reach = min(domain(device, wanted.per_node), wanted.gpus, WIDE_DOMAIN)
    stages = min(MOST_STAGES, model.num_layers or 1, wanted.gpus)
    found: list[Shape] = []
    for width in range(1, reach + 1):
        for pp in range(1, stages + 1):
            if not _places(width, pp, wanted):
                continue
            found.extend(_of_stage(model, width, pp, wanted))
    yield from sorted(found, key=lambda item: (item.gpus, item.pp, -item.tp, item.ep, item.dcp))


def _places(width: int, pp: int, wanted: Wanted) -> bool:
    """There are as many nodes, and no GPU of a node is left over but by a power of two."""
    node, gpus = wanted.per_node, width * pp
    if gpus > wanted.gpus:
        return False
    if gpus <= node:
        return node % gpus == 0 or gpus.bit_count() == 1
    whole = width % node == 0 or node % width == 0
    return gpus % node == 0 and whole


def _of_stage(model: ModelFacts, width: int, pp: int, wanted: Wanted) -> Iterator[Shape]:
    yield Shape(tp=width, pp=pp)
    if wanted.objective == "context":
        for dcp in range(2, width + 1):
            if width % dcp == 0:
                yield Shape(tp=width, pp=pp, dcp=dcp)
    if not model.moe or pp > 1:
        return
    for tp in range(1, width + 1):
        if width % tp == 0 and width > 1:
            yield Shape(tp=tp, pp=pp, attention_dp=width // tp, experts=True)
