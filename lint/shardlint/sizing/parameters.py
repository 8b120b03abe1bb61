"""The parameters of the throughput model, as they stand in data/throughput.json with what they rest
on: rows, errors, what the rows cover. scripts/fit_throughput.py writes the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from shardlint.record import record

DATA: Final = Path(__file__).parent / "data" / "throughput.json"


@record(kw_only=True)
class Pace:
    """What an engine's software costs against the common value of it."""

    layer: float = 1.0
    request: float = 1.0
    message: float = 1.0


@record(kw_only=True)
class Link:
    """A message takes `latency_us` and goes at `share` of the link's rate."""

    latency_us: float
    share: float


@record(kw_only=True)
class Parameters:
    """The parameters of the model; shares are of the card's peak."""

    weights_rate: float
    experts_rate: float
    cache_rate: float
    decode_rate: float
    prefill_rate: float
    experts_compute: float
    fp4_compute: float
    amd_bandwidth: float
    overlap: float
    layer_us: float
    expert_layer_us: float
    step_ms: float
    request_us: float
    message_growth: float
    all_to_all: float
    skew: float
    imbalance: float
    first_ms: float
    first_prefill: float
    first_steps: float
    first_batch: float
    first_bound: float
    engines: Mapping[str, Pace]
    links: Mapping[str, Link]


COMMON: Final = Pace()


def parameters_of(values: Mapping[str, float]) -> Parameters:
    """Parameters from flat names: "layer_us", "engine.NAME.layer", "link.KIND.share"."""
    plain: dict[str, float] = {}
    groups: dict[str, dict[str, dict[str, float]]] = {"engine": {}, "link": {}}
    for name, value in values.items():
        match name.split("."):
            case [group, of, what]:
                groups[group].setdefault(of, {})[what] = value
            case _:
                plain[name] = value
    engines = {name: Pace(**own) for name, own in groups["engine"].items()}
    links = {kind: Link(**own) for kind, own in groups["link"].items()}
    return Parameters(engines=engines, links=links, **plain)


@cache
def table() -> Mapping[str, Any]:
    """The file of parameters, with what they rest on."""
    loaded: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


@cache
def parameters() -> Parameters:
    found = table()["parameters"]
    return parameters_of({name: item["value"] for name, item in found.items()})
