"""Memory that real server starts printed: the rows, the configs they started from, error cells.

A row is one start of an engine with the numbers its log or its author printed; what was not
printed is None. All sizes are GiB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version
from ruamel.yaml import YAML
from shardlint.hardware.choices import memory_gib as size_of
from shardlint.hardware.table import Devices
from shardlint.record import record

WITHIN = 0.12
"""The error that still counts as right."""

UNIFIED: Mapping[str, float | None] = {"DGX Spark GB10": 121.69, "AMD Strix Halo": None}
"""GPUs that share the host's memory, with the total that engines print of it: what they measure
hangs on what else runs there."""

TWO_SIZES = frozenset({"H20"})
"""Sold with more memory than the table has under that name: 96 and 141 GB."""

NEW_UTILIZATION = Version("0.20.0")
"""The first vLLM release whose default is 0.92; 0.9 before (vllm/config/cache.py)."""


@record(kw_only=True)
class Row:
    """One start; the fields are those of the file."""

    id: str
    source: str
    engine: str
    version: str | None = None
    model: str | None = None
    family: str | None = None
    quantization: str | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | bool | None = None
    dcp: int | None = None
    gpu: str | None = None
    gpu_memory_gib: float | None = None
    gpu_count: int | None = None
    platform: str | None = None
    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    enforce_eager: bool | None = None
    spec_decode: str | None = None
    multimodal: Any = None
    block_size: int | None = None
    attention_block_size: int | None = None
    weights_gib_per_gpu: float | None = None
    spec_weights_gib: float | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None
    peak_torch_gib: float | None = None
    cudagraph_gib: float | None = None
    available_kv_gib: float | None = None
    needed_kv_gib: float | None = None
    kv_cache_tokens: int | None = None
    swa_kv_tokens: int | None = None
    gpu_blocks: int | None = None
    max_concurrency: float | None = None
    estimated_max_model_len: int | None = None
    outcome: str | None = None
    load_format: str | None = None
    engine_detail: str | None = None
    defaulted: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


SETS = ("defaulted", "flags")


def rows(path: Path) -> list[Row]:
    """Every row of a file, in its order; keys that Row does not know are left out."""
    return [
        _row(json.loads(line))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]


def _row(stated: Mapping[str, Any]) -> Row:
    known = {name: stated[name] for name in Row.__annotations__ if stated.get(name) is not None}
    return Row(**known | {name: frozenset(known[name]) for name in SETS if name in known})


# ------------------------------------------------------------------------------ what a row says


def release(row: Row) -> Version | None:
    """The release of a build; a build without a tag (0.1.dev) or a bare commit has none."""
    try:
        version = Version(row.version or "")
    except InvalidVersion:
        return None
    return None if version.base_version == "0.1" else version


def utilization(row: Row) -> float | None:
    """The share of the GPU that vLLM may take: stated, or the default of a known release."""
    if row.gpu_memory_utilization is not None:
        return row.gpu_memory_utilization
    built = release(row)
    if row.engine != "vllm" or built is None or "gpu_memory_utilization" not in row.defaulted:
        return None
    return 0.9 if built < NEW_UTILIZATION else 0.92


def is_unified(row: Row) -> bool:
    return "unified_memory" in row.flags or row.gpu in UNIFIED


def memory_gib(row: Row, devices: Devices) -> float | None:
    """Memory of one GPU: as stated, else as the table has it for a name that means one size.

    NVL boards and superchips are named as such, so a plain name does not mean them; what an engine
    saw goes before a label's figure.
    """
    if row.gpu_memory_gib is not None:
        return row.gpu_memory_gib
    if row.gpu is None or row.gpu in TWO_SIZES:
        return None
    if row.gpu in UNIFIED:
        return UNIFIED[row.gpu]
    cards = [
        card
        for card in devices.find(row.gpu).values
        if "NVL" in row.gpu.upper() or "-NVL-" not in card.name
    ]
    sizes = [size_of(card) for card in cards]
    if not sizes or max(sizes) > min(sizes) * 1.03:
        return None
    seen = [size_of(card) for card in cards if card.memory_mib is not None]
    return min(seen or sizes)


# -------------------------------------------------------------------------------------- configs


@record
class Checkpoint:
    """A config of the models folder for the name in a row.

    `exact` says that it is the config of that checkpoint: the same id, or the same last part where
    the row names no publisher and all namesakes have one shape. `entry` is its line of the index.
    """

    id: str
    path: Path
    entry: Mapping[str, Any]
    exact: bool

    @cached_property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return found

    @property
    def text(self) -> Mapping[str, Any]:
        """The part of the config that describes the language model."""
        inner = self.config.get("text_config")
        return inner if isinstance(inner, Mapping) else self.config

    @property
    def parameters(self) -> int | None:
        """Logical weights: as published where that is a count of them, else as computed."""
        published, computed = self.entry.get("published") or {}, self.entry.get("computed") or {}
        found = published.get("total") if published.get("exact") else computed.get("total")
        return found if isinstance(found, int) else None

    @property
    def quantization(self) -> Mapping[str, Any] | None:
        found = self.config.get("quantization_config") or self.entry.get("quantization")
        return found if isinstance(found, Mapping) else None


SHAPE = ("model_type", "num_layers", "hidden_size", "vocab_size", "num_experts", "quantization")


class Checkpoints:
    """A folder of configs with an index.yaml that names the file of each id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index = YAML(typ="safe").load(folder / "index.yaml")
        self._ids: dict[str, Mapping[str, Any]] = {}
        self._names: dict[str, list[Mapping[str, Any]]] = {}
        for entry in sorted(index["models"], key=lambda entry: str(entry["id"])):
            for name in (entry["id"], *entry.get("aliases", ())):
                self._ids.setdefault(name.lower(), entry)
            self._names.setdefault(_last(entry["id"]), []).append(entry)

    def find(self, row: Row) -> Checkpoint | None:
        """By id, else by the last part of the name: the first of the namesakes, sorted by id."""
        if row.model is None:
            return None
        entry = self._ids.get(row.model.lower())
        exact = entry is not None
        if entry is None:
            namesakes = self._names.get(_last(row.model), [])
            if not namesakes:
                return None
            entry = namesakes[0]
            shapes = [[namesake.get(key) for key in SHAPE] for namesake in namesakes]
            exact = "/" not in row.model and all(shape == shapes[0] for shape in shapes)
        found = Checkpoint(entry["id"], self._folder / entry["file"], entry, exact)
        if exact and row.quantization and found.quantization is None:
            return Checkpoint(found.id, found.path, entry, exact=False)  # quantized while loading
        return found


def _last(name: str) -> str:
    return name.rpartition("/")[2].lower()


def strict(row: Row, checkpoint: Checkpoint | None, memory: float | None) -> bool:
    """Whether a prediction of vLLM's budget needs no guess of what was started, and on what."""
    return (
        row.engine == "vllm"
        and not is_unified(row)
        and checkpoint is not None
        and checkpoint.exact
        and memory is not None
        and utilization(row) is not None
        and row.tp is not None
    )


# --------------------------------------------------------------------------------------- errors


class Cell(NamedTuple):
    median: float
    p90: float
    within: float


def error(predicted: float, printed: float) -> float:
    return abs(predicted / printed - 1)


def cell(errors: Iterable[float]) -> Cell:
    """Median, 90th percentile and the share within 12 %, of one error or more."""
    found = sorted(errors)
    tenth = quantiles(found, n=10, method="inclusive")[-1] if len(found) > 1 else found[0]
    return Cell(median(found), tenth, sum(one <= WITHIN for one in found) / len(found))


def predicted(path: Path) -> dict[str, dict[str, Mapping[str, Any]]]:
    """What public_estimators.py wrote: by estimator, then by row."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        found.setdefault(one["estimator"], {})[one["id"]] = one
    return found
