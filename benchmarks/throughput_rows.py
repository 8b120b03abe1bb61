"""Measured throughput: reading the rows, asking for an estimate of each, and judging the order.

A row is one measurement of one replica: a model on a layout of cards under a workload. Layouts are
compared at the same number of requests per GPU, which is the question of who has a fixed number of
GPUs; two measurements within NEAR of each other are no pair.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shardlint.engines import builtin as engines
from shardlint.estimates.asked import EstimateError, asked_of
from shardlint.estimates.estimator import Estimate, Estimator
from shardlint.plugins import Plugins
from shardlint.project import Setup
from shardlint.readers import builtin as readers
from shardlint.reports import builtin as reports
from shardlint.sizing.loads import Load, NotModelled
from shardlint.sizing.throughput import Workload

NEAR: Final = 0.03
OWN_TABLES: Final = "NVIDIA/TensorRT-LLM"
"""Tables by release: one release's numbers are not compared with another's."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The fields of a row that are used; `tok_s` are those of one GPU."""

    id: str
    tier: str
    family: str
    repo: str
    engine: str
    version: str | None
    model: str
    precision: str
    kv: str | None
    gpu: str
    gpus: int
    tp: int
    pp: int
    attention_dp: int
    ep: int | None
    isl: int
    osl: int
    concurrency: int | None
    tok_s: float
    ttft_ms: float | None
    tpot_ms: float | None

    @property
    def layout(self) -> tuple[int, ...]:
        return (self.gpus, self.tp, self.pp, self.attention_dp, self.ep or 0)

    @property
    def question(self) -> dict[str, Any]:
        """As a line of a batch; the longest request is the one that was measured."""
        return {
            "model": self.model, "gpu": self.gpu,
            "engine": self.engine, "engine_version": self.version,
            "tp": self.tp, "pp": self.pp, "attention_dp": self.attention_dp, "ep": self.ep,
            "quantization": self.precision, "kv_cache_dtype": self.kv,
            "max_model_len": self.isl + self.osl + 16,
            "isl": self.isl, "osl": self.osl, "concurrency": self.concurrency,
        }  # fmt: skip

    @property
    def group(self) -> tuple[Any, ...]:
        """Rows of one group differ in their layout alone."""
        release = self.version if self.repo == OWN_TABLES else None
        load = None if self.concurrency is None else self.concurrency / self.gpus
        return (self.family, release, self.precision, self.isl, self.osl, load)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row with our estimate of its layout, or why there is none."""

    row: Row
    found: Estimate | None
    load: Load | NotModelled

    @property
    def workload(self) -> Workload:
        row = self.row
        return Workload(row.isl, row.osl, row.concurrency)

    @property
    def slices(self) -> tuple[str, ...]:
        moe = self.found is not None and self.found.model.moe
        pcie = self.found is not None and self.found.device.link == "pcie"
        return ("all", "MoE" if moe else "dense", *(("PCIe",) if pcie else ()))


def rows(path: Path, tiers: str) -> Iterator[Row]:
    """Rows of these tiers that state layout and workload."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            raw = json.loads(line)
            if raw["tier"] in tiers and raw["tp"] and raw["isl"] and raw["osl"]:
                yield _row(raw)


def _row(raw: Mapping[str, Any]) -> Row:
    return Row(
        repo=raw["source"].get("repo") or "",
        version=raw["engine_version"],
        attention_dp=raw["attn_dp"] or 1,
        tok_s=raw["output_tok_s_total"] / raw["gpus"],
        **{
            name: raw[name]
            for name in (
                "id", "tier", "family", "engine", "model", "precision", "kv", "gpu", "gpus", "tp",
                "pp", "ep", "isl", "osl", "concurrency", "ttft_ms", "tpot_ms",
            )
        },
    )  # fmt: skip


def cases(measured: Iterable[Row]) -> list[Case]:
    """Each row with what its layout does."""
    estimator = Estimator(Setup(Plugins([engines, readers, reports])))
    found = []
    for row in measured:
        try:
            made = estimator.estimate(asked_of(row.question))
        except EstimateError as problem:
            found.append(Case(row=row, found=None, load=NotModelled(why=str(problem))))
        else:
            found.append(Case(row=row, found=made, load=made.load))
    return found


# ------------------------------------------------------------------------------------- judging


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well predictions of tokens a second and GPU met what was measured.

    `order` is the share of pairs of layouts put in the right order, `naive` that of "the fewest
    GPUs win"; `regret` is what the layout that was chosen lost against the best, on average.
    """

    rows: int
    median: float
    p90: float
    pairs: int
    order: float
    naive: float
    regret: float
    naive_regret: float


def score(measured: Sequence[Row], predicted: Sequence[float]) -> Score:
    errors = sorted(
        abs(ours / row.tok_s - 1) for row, ours in zip(measured, predicted, strict=True)
    )
    groups: dict[Any, list[tuple[Row, float]]] = {}
    for row, ours in zip(measured, predicted, strict=True):
        groups.setdefault(row.group, []).append((row, ours))
    pairs = right = naive = 0
    lost: list[float] = []
    naive_lost: list[float] = []
    for members in groups.values():
        for (one, ours), (other, theirs) in itertools.combinations(members, 2):
            if abs(one.tok_s / other.tok_s - 1) <= NEAR:
                continue
            better = one.tok_s > other.tok_s
            pairs += 1
            right += (ours > theirs) == better and ours != theirs
            naive += one.gpus == other.gpus or (one.gpus < other.gpus) == better
        if len({row.layout for row, _ in members}) > 1:
            best = max(row.tok_s for row, _ in members)
            lost.append(1 - max(members, key=lambda item: item[1])[0].tok_s / best)
            fewest = min(row.gpus for row, _ in members)
            plain = [row.tok_s for row, _ in members if row.gpus == fewest]
            naive_lost.append(1 - statistics.mean(plain) / best)
    return Score(
        rows=len(errors),
        median=statistics.median(errors),
        p90=errors[int(0.9 * (len(errors) - 1))],
        pairs=pairs,
        order=right / max(1, pairs),
        naive=naive / max(1, pairs),
        regret=statistics.mean(lost) if lost else 0.0,
        naive_regret=statistics.mean(naive_lost) if naive_lost else 0.0,
    )


def scores(judged: Sequence[tuple[Case, float]]) -> dict[str, Score]:
    """By slice."""
    found = {}
    for name in ("all", "dense", "MoE", "PCIe"):
        members = [(case.row, ours) for case, ours in judged if name in case.slices]
        if members:
            found[name] = score([row for row, _ in members], [ours for _, ours in members])
    return found
