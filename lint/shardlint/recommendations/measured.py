"""What was measured: it counts for more than the model of speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from shardlint.record import record

NUMBERS: Final = ("output_tok_s", "tpot_ms", "ttft_ms")
SIZES: Final = ("tp", "pp", "dp", "ep", "concurrency", "replicas")
KEYS: Final = (*SIZES, *NUMBERS, "hit_rate")


class MeasuredError(Exception):
    """A file of measurements that cannot be used, as one line for people."""


@record(kw_only=True)
class Measured:
    """One layout under the workload that is asked for; `output_tok_s` is that of one replica.

    `hit_rate` is the share of prompt tokens that were in the prefix cache, `replicas` how many
    served the requests.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int | None = None
    output_tok_s: float | None = None
    tpot_ms: float | None = None
    ttft_ms: float | None = None
    concurrency: int | None = None
    hit_rate: float | None = None
    replicas: int | None = None

    @property
    def one_warm_worker(self) -> bool:
        """Its prefix cache may be warm only because every request met the same one."""
        return bool(self.hit_rate) and (self.replicas or 1) == 1


def measured_of(rows: Any) -> tuple[Measured, ...]:
    """The rows of a file, a list of maps. Raises MeasuredError."""
    if not isinstance(rows, list):
        raise MeasuredError("a list of measurements is needed")
    return tuple(_row(row, at) for at, row in enumerate(rows, 1))


def _row(row: Any, at: int) -> Measured:
    if not isinstance(row, Mapping):
        raise MeasuredError(f"row {at} is no map")
    unknown = [key for key in row if key not in KEYS]
    if unknown:
        raise MeasuredError(f"row {at}: {unknown[0]!r} is not known; known are {', '.join(KEYS)}")
    given = {key: value for key, value in row.items() if value is not None}
    for key, value in given.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise MeasuredError(f"row {at}: {key} is no number")
        least = 0 if key == "hit_rate" else 1e-9
        if value < least or (key == "hit_rate" and value > 1):
            raise MeasuredError(f"row {at}: {key} cannot be {value}")
        if key in SIZES and value != int(value):
            raise MeasuredError(f"row {at}: {key} is no whole number")
    if "output_tok_s" not in given:
        raise MeasuredError(f"row {at}: output_tok_s is missing")
    sizes = {key: int(given[key]) for key in SIZES if key in given}
    return Measured(**{**given, **sizes})


def scale(rows: Sequence[Measured], told: Callable[[Measured], float | None]) -> float | None:
    """By how much the measured rates exceed those that are told of the same layouts; their
    geometric mean. None: nothing is told of any of them."""
    ratios = [
        math.log(row.output_tok_s / rate)
        for row in rows
        if row.output_tok_s and (rate := told(row)) is not None and rate > 0
    ]
    return math.exp(sum(ratios) / len(ratios)) if ratios else None
