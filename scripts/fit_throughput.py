"""Fit the parameters of the throughput model to measured rows, and say how well they foretell.

    python scripts/fit_throughput.py --evidence throughput.jsonl [--check]

Rows of tier A are fitted. The residual is log(predicted ÷ measured), and once more its distance
from the mean of its group, in which layouts alone differ: that is what ranks them. Large residuals
count as their size, not its square; a family on one card weighs as the root of its rows. Each
parameter is held near where it starts, a round number of the size that hardware and software
suggest, and within bounds that still have a meaning.

What is written beside the parameters is from a cross-validation: families and cards are dealt out
to FOLDS, and each part is foretold by parameters fitted to the others. Rows whose layout the source
does not state (no EP size) are foretold and not fitted.

Pure Python: Gauss-Newton with damping and one-sided differences, five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import patch

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "benchmarks")]

from shardlint.sizing import loads  # noqa: E402
from shardlint.sizing import throughput as model  # noqa: E402
from shardlint.sizing.loads import Load  # noqa: E402
from shardlint.sizing.parameters import DATA, parameters_of, table  # noqa: E402
from shardlint.sizing.throughput import Throughput, throughput  # noqa: E402
from throughput_rows import Case, cases, rows, scores  # noqa: E402

Line: TypeAlias = tuple[float, float, float, str, str]

FOLDS: Final = 8
STEPS: Final = 14
MOST_STEP: Final = 0.7
ENOUGH: Final = 30
"""Rows of plain models from which on a card or an engine counts as measured."""
WIDTH: Final = 0.15
"""Residuals above this count as their size."""
PULL: Final = 0.4
"""How strongly a parameter is held where it starts, in units of its logarithm."""
PARAMETERS: Final[dict[str, Line]] = {
    "weights_rate": (0.85, 0.5, 1, "share", "of the memory's rate, reading weights"),
    "experts_rate": (0.8, 0.3, 1, "share", "of the memory's rate, reading experts"),
    "cache_rate": (0.8, 0.3, 1, "share", "of the memory's rate, reading the KV cache"),
    "decode_rate": (0.75, 0.3, 1, "share", "of the peak, decoding"),
    "prefill_rate": (0.65, 0.3, 1, "share", "of the peak, in prefill"),
    "experts_compute": (0.75, 0.3, 1, "share", "of those, multiplying experts"),
    "fp4_compute": (0.65, 0.3, 1, "share", "of the FP4 peak against other formats"),
    "amd_bandwidth": (0.9, 0.5, 1, "share", "of the memory's rate on AMD against NVIDIA"),
    "layer_us": (30, 5, 100, "us", "launch and tail of one layer"),
    "expert_layer_us": (22, 1, 100, "us", "more in a layer of experts"),
    "step_ms": (1.3, 0.05, 5, "ms", "scheduling and sampling of a step"),
    "request_us": (10, 0.5, 40, "us", "scheduling and sampling of one request"),
    "message_growth": (0.33, 0.01, 1, "share", "more latency for each doubling of ranks"),
    "all_to_all": (1, 0.05, 5, "share", "latency of an all-to-all against an all-reduce"),
    "skew": (0.8, 0.2, 1, "share", "of the tokens choose experts as if at random"),
    "imbalance": (0.1, 0.001, 0.35, "share", "more on the fullest of twice as many expert ranks"),
    "engine.vllm.layer": (1.5, 0.5, 3, "factor", "on layer_us"),
    "engine.sglang.layer": (1.5, 0.5, 3, "factor", "on layer_us"),
    "engine.vllm.request": (2, 0.5, 5, "factor", "on request_us"),
    "engine.sglang.request": (2, 0.5, 5, "factor", "on request_us"),
    "engine.vllm.message": (1, 0.2, 5, "factor", "on latency_us"),
    "engine.sglang.message": (2, 0.2, 5, "factor", "on latency_us"),
    "link.nvlink.latency_us": (6, 1, 20, "us", "of an all-reduce of two ranks"),
    "link.nvlink.share": (0.45, 0.1, 0.9, "share", "of the link's rate"),
    "link.pcie.latency_us": (250, 20, 600, "us", "of an all-reduce of two ranks, through the host"),
    "link.pcie.share": (0.5, 0.1, 0.9, "share", "of the link's rate"),
    "link.xgmi.latency_us": (25, 5, 80, "us", "of an all-reduce of two ranks"),
    "link.xgmi.share": (0.3, 0.1, 0.9, "share", "of the link's rate"),
}
"""Start, least, most, unit, meaning."""
FIXED: Final = {
    "overlap": (1.2, "exponent", "of reading and computing: 1 one after the other, more: beside"),
}
FIRST: Final[dict[str, Line]] = {
    "first_ms": (60, 1, 500, "ms", "to the first token beside the work"),
    "first_prefill": (1.0, 0.2, 3, "factor", "on the prefill of the request itself"),
    "first_steps": (4.0, 0.2, 20, "steps", "that a new request waits"),
    "first_batch": (0.1, 0.001, 1, "share", "of the others' prefill that it waits for"),
}
"""Fitted behind the rest, on the times to the first token."""
SHARE_BELOW: Final = 0.9
"""The bound on the time to the first token holds for so many rows."""
FIRST_START: Final = {name: item[0] for name, item in FIRST.items()} | {"first_bound": 1.0}

Values = dict[str, float]


def start() -> Values:
    plain = {name: item[0] for name, item in PARAMETERS.items()}
    return plain | {name: item[0] for name, item in FIXED.items()} | FIRST_START


def speeds(measured: Sequence[Case], values: Values) -> list[Throughput]:
    made = parameters_of(values)
    found = []
    for case in measured:
        assert isinstance(case.load, Load)
        speed = throughput(case.load, case.workload, made)
        assert isinstance(speed, Throughput)
        found.append(speed)
    return found


def usable(case: Case) -> bool:
    return isinstance(case.load, Load) and isinstance(
        throughput(case.load, case.workload, parameters_of(start())), Throughput
    )


class Problem:
    """Residuals of rows, and their weights."""

    def __init__(self, measured: Sequence[Case], first: bool = False) -> None:
        self.measured, self.first = measured, first
        self.names = tuple(FIRST if first else PARAMETERS)
        self.limits = {**PARAMETERS, **FIRST}
        goal = [c.row.ttft_ms if first else c.row.tok_s for c in measured]
        self.goal = [math.log(value or 1.0) for value in goal]
        many = Counter(self._family(case) for case in measured)
        weights = [many[self._family(case)] ** -0.5 for case in measured]
        mean = sum(weights) / len(weights)
        self.weights = [math.sqrt(weight / mean) for weight in weights]
        groups: dict[Any, list[int]] = {}
        for at, case in enumerate(measured):
            groups.setdefault(case.row.group, []).append(at)
        self.groups = [] if first else [members for members in groups.values() if len(members) > 1]

    @staticmethod
    def _family(case: Case) -> str:
        return f"{case.row.family.split('|')[0]}|{case.row.gpu}"

    def residuals(self, values: Values) -> list[float]:
        found = speeds(self.measured, values)
        seen = [one.ttft_ms if self.first else one.tok_s_per_gpu for one in found]
        apart = [
            max(-3.0, min(3.0, math.log(value) - goal))
            for value, goal in zip(seen, self.goal, strict=True)
        ]
        out = [a * w for a, w in zip(apart, self.weights, strict=True)]
        for members in self.groups:
            mean = sum(apart[at] for at in members) / len(members)
            out += [(apart[at] - mean) * self.weights[at] for at in members]
        return out

    def cost(self, residuals: Sequence[float], logs: Sequence[float]) -> float:
        large = sum(2 * WIDTH**2 * (math.sqrt(1 + (r / WIDTH) ** 2) - 1) for r in residuals)
        return large + sum((PULL * away) ** 2 for away in self._away(logs))

    def _away(self, logs: Sequence[float]) -> list[float]:
        starts = [math.log(self.limits[name][0]) for name in self.names]
        return [log - at for log, at in zip(logs, starts, strict=True)]

    def solved(self, values: Values) -> Values:
        """The values that fit best, from these on."""
        logs = [math.log(values[name]) for name in self.names]
        at = self.residuals(values)
        best, damping = self.cost(at, logs), 0.01
        for _ in range(STEPS):
            columns = [self._slope(values, name, at) for name in self.names]
            bend = [1 / math.sqrt(1 + (r / WIDTH) ** 2) for r in at]
            away = self._away(logs)
            size = len(self.names)
            normal = [[0.0] * size for _ in range(size)]
            right = [0.0] * size
            for i, one in enumerate(columns):
                bent = [a * b for a, b in zip(one, bend, strict=True)]
                for j in range(i, size):
                    normal[i][j] = normal[j][i] = _dot(bent, columns[j])
                normal[i][i] += PULL**2
                right[i] = -_dot(bent, at) - PULL**2 * away[i]
            for _ in range(6):
                move = _solve(normal, right, damping)
                moves = zip(self.names, logs, move, strict=True)
                tried = [self._moved(name, log, step) for name, log, step in moves]
                new = values | {n: math.exp(log) for n, log in zip(self.names, tried, strict=True)}
                then = self.residuals(new)
                cost = self.cost(then, tried)
                if cost < best:
                    break
                damping *= 5
            else:
                return values
            gained, best = (best - cost) / best, cost
            values, logs, at, damping = new, tried, then, max(1e-4, damping / 5)
            if gained < 1e-4:
                break
        return values

    def _slope(self, values: Values, name: str, at: Sequence[float]) -> list[float]:
        small = 1e-3
        moved = self.residuals(values | {name: values[name] * math.exp(small)})
        return [(after - before) / small for after, before in zip(moved, at, strict=True)]

    def _moved(self, name: str, log: float, step: float) -> float:
        """No parameter doubles at once, none leaves its bounds."""
        _, least, most, *_ = self.limits[name]
        moved = log + max(-MOST_STEP, min(MOST_STEP, step))
        return max(math.log(least), min(math.log(most), moved))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(map(operator.mul, one, other))


def _solve(
    normal: Sequence[Sequence[float]], right: Sequence[float], damping: float
) -> list[float]:
    """The damped step: elimination with pivots."""
    size = len(right)
    rows = [
        [value * (1 + damping) if i == j else value for j, value in enumerate(line)] + [right[i]]
        for i, line in enumerate(normal)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda row: abs(rows[row][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(i + 1, size):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (rows[i][size] - _dot(rows[i][i + 1 : size], found[i + 1 :])) / rows[i][i]
    return found


# ------------------------------------------------------------------------------------- the fit


def fitted(measured: Sequence[Case]) -> Values:
    """Parameters of these rows."""
    stated = [case for case in measured if case.row.ep is not None]
    values = Problem(stated).solved(start())
    timed = [case for case in stated if case.row.ttft_ms]
    if timed:
        values = Problem(timed, first=True).solved(values)
        found = sorted(
            (case.row.ttft_ms or 0) / one.ttft_ms
            for case, one in zip(timed, speeds(timed, values), strict=True)
        )
        values = values | {"first_bound": found[int(SHARE_BELOW * len(found))]}
    return values


def folds(measured: Sequence[Case]) -> list[int]:
    """The fold of each row; what a family has on one card stays together."""
    names = sorted({Problem._family(case) for case in measured}, key=_spread)
    dealt = {name: at % FOLDS for at, name in enumerate(names)}
    return [dealt[Problem._family(case)] for case in measured]


_PARTS: Final[list[list[Case]]] = []


def _fitted(fold: int) -> Values:
    return fitted(_PARTS[fold])


def _spread(name: str) -> int:
    return zlib.crc32(name.encode())


def foretold(measured: Sequence[Case]) -> list[Throughput]:
    """Each row by parameters that did not see its family on its card."""
    of = folds(measured)
    others = [
        [c for c, at in zip(measured, of, strict=True) if at != fold] for fold in range(FOLDS)
    ]
    forked = get_context("fork")  # parts are handed over as they are: they cannot be pickled
    with ProcessPoolExecutor(2, forked, _PARTS.extend, (others,)) as pool:
        values = list(pool.map(_fitted, range(FOLDS)))
    found = []
    for case, fold in zip(measured, of, strict=True):
        found += speeds([case], values[fold])
    return found


def seen(measured: Sequence[Case]) -> dict[str, Any]:
    """What the rows cover."""
    batches = [speed.batch / case.row.gpus for case, speed in zip(
        measured, speeds(measured, start()), strict=True)]  # fmt: skip
    dense = [case for case in measured if case.found and not case.found.model.moe]
    return {
        "cards": _enough(dense, lambda case: case.row.gpu),
        "engines": _enough(dense, _engine, models=2),
        "isl": [min(c.row.isl for c in measured), max(c.row.isl for c in measured)],
        "osl": [min(c.row.osl for c in measured), max(c.row.osl for c in measured)],
        "batch_per_gpu": [math.floor(10 * min(batches)) / 10, math.ceil(max(batches))],
    }


def _enough(dense: Sequence[Case], key: Callable[[Case], str], models: int = 1) -> list[str]:
    """Those of which enough was measured, on more than one layout and so many models."""
    groups: dict[str, list[Case]] = {}
    for case in dense:
        groups.setdefault(key(case), []).append(case)
    return sorted(
        name
        for name, members in groups.items()
        if len(members) >= ENOUGH
        and len({case.row.layout for case in members}) > 1
        and len({case.row.family.split("|")[0] for case in members}) >= models
    )


def _engine(case: Case) -> str:
    assert isinstance(case.load, Load)
    return case.load.engine


def errors(measured: Sequence[Case], told: Sequence[Throughput]) -> dict[str, Any]:
    """Measured ÷ foretold by how sure an estimate says it is; nine of ten lie in the range."""
    found = {}
    for grade in ("measured", "weak"):
        ratios = sorted(
            case.row.tok_s / one.tok_s_per_gpu
            for case, one in zip(measured, told, strict=True)
            if one.grade == grade
        )
        ends = [ratios[int(share * (len(ratios) - 1))] for share in (0.05, 0.95)]
        apart = sorted(abs(1 / ratio - 1) for ratio in ratios)
        found[grade] = {
            "rows": len(ratios),
            "median": round(apart[len(apart) // 2], 3),
            "range": [round(end, 2) for end in ends],
        }
    return found


def result(measured: Sequence[Case]) -> dict[str, Any]:
    values = fitted(measured)
    told = foretold(measured)
    lines = {name: (unit, text) for name, (*_, unit, text) in (PARAMETERS | FIRST).items()}
    lines |= {name: (unit, text) for name, (_, unit, text) in FIXED.items()}
    lines["first_bound"] = ("factor", "above which one time of ten to the first token lies")
    kept = {
        name: {"value": _short(values[name]), "unit": unit, "of": text}
        | ({"range": list(PARAMETERS[name][1:3])} if name in PARAMETERS else {})
        for name, (unit, text) in lines.items()
    }
    final = speeds(measured, {name: item["value"] for name, item in kept.items()})
    return {
        "schema_version": 1,
        "generated_by": "scripts/fit_throughput.py",
        "rows": len(measured),
        "seen": seen(measured),
        "parameters": kept,
        "error": errors(measured, told),
        "fit": _table(measured, final),
        "cross_validation": {"folds": FOLDS, **_table(measured, told)},
    }


def _table(measured: Sequence[Case], told: Sequence[Throughput]) -> dict[str, Any]:
    judged = [(c, one.tok_s_per_gpu) for c, one in zip(measured, told, strict=True)]
    return {
        name: {key: round(value, 3) for key, value in asdict(found).items()}
        for name, found in scores(judged).items()
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--evidence", type=Path, required=True, help="throughput.jsonl")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    given = parser.parse_args(argv)
    measured = [case for case in cases(rows(given.evidence, "A")) if usable(case)]
    known = {**table(), "seen": seen(measured)}  # how sure an estimate is hangs on it
    with patch.object(loads, "table", lambda: known), patch.object(model, "table", lambda: known):
        measured = [case for case in cases(rows(given.evidence, "A")) if usable(case)]
        made = result(measured)
    text = json.dumps(made, indent=1) + "\n"
    if given.check:
        return int(DATA.read_text(encoding="utf-8") != text)
    DATA.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
