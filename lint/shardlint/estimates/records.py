"""Estimates as JSON: the result of `shardlint estimate`, and `memory` in `shardlint inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shardlint.estimates.estimator import Estimate
from shardlint.sizing.loads import NotModelled
from shardlint.sizing.memory import GIB

DIGITS: Final = 4
"""Decimals of GiB: 0.1 MiB."""
SPEED: Final = (
    "ttft_ms", "tpot_ms", "output_tok_s", "output_tok_s_range", "output_tok_s_per_gpu", "batch",
    "bound_by",
)  # fmt: skip
"""What is null where throughput is not modelled."""


def apportioned(parts: Mapping[str, int], unit: int, per: int = 1) -> dict[str, int]:
    """Parts in whole numbers of `unit` ÷ `per`, which add up to their rounded sum.

    Each is rounded down, and those with the largest remainders get one more.
    """
    exact = {name: divmod(value * per, unit) for name, value in parts.items()}
    whole = {name: number for name, (number, _) in exact.items()}
    total = (2 * sum(parts.values()) * per + unit) // (2 * unit)
    largest = sorted(exact, key=lambda name: -exact[name][1])
    for name in largest[: total - sum(whole.values())]:
        whole[name] += 1
    return whole


def memory_record(found: Estimate) -> dict[str, Any]:
    """What is said of memory."""
    made, cache = found.made, found.made.cache
    tokens, per = made.tokens, 10**DIGITS
    concurrency = made.concurrency
    return {
        "fits": found.fits,
        "verdict": found.verdict,
        "weights_gib_per_gpu": gib(made.held),
        "kv_bytes_per_token_per_gpu": None if cache is None else _plain(cache.bytes_per_token),
        "kv_cache_gib_per_gpu": gib(max(0, made.kv)),
        "kv_cache_tokens": tokens,
        "kv_cache_tokens_replica": None if tokens is None else tokens * found.dp_ranks,
        "max_concurrency": None if concurrency is None else round(concurrency, 2),
        "max_context": found.max_context,
        "breakdown": {
            name: number / per for name, number in apportioned(made.breakdown, GIB, per).items()
        },
        "band": {
            "models": found.band.kind,
            "logs": found.band.rows,
            "few": found.band.few,
            "weights_share": found.band.weights,
            "kv_cache_gib_below": gib(found.band.below),
            "kv_cache_gib_above": gib(found.band.above),
        },
    }


def estimate_record(found: Estimate, id: Any = None) -> dict[str, Any]:
    """One result."""
    return {
        "schema_version": 1,
        "id": id,
        **memory_record(found),
        **throughput_record(found),
        "assumptions": [*found.assumptions, *doubts(found)],
    }


def throughput_record(found: Estimate) -> dict[str, Any]:
    """What is said of speed: of all replicas together, and of each request."""
    speed = found.speed
    if isinstance(speed, NotModelled):
        return {**dict.fromkeys(SPEED), "class": "not_modelled"}
    low, high = speed.range
    return {
        "ttft_ms": _digits(speed.ttft_ms),
        "tpot_ms": _digits(speed.tpot_ms),
        "output_tok_s": _digits(speed.tok_s * found.replicas),
        "output_tok_s_range": [_digits(end * found.replicas) for end in (low, high)],
        "output_tok_s_per_gpu": _digits(speed.tok_s_per_gpu),
        "batch": int(speed.batch),
        "bound_by": speed.bound_by,
        "class": speed.grade,
    }


def doubts(found: Estimate) -> tuple[str, ...]:
    """Why throughput is weak or not told, where it was asked for."""
    speed, asked = found.speed, found.asked
    if asked is None or not (asked.isl or asked.osl) or not speed.why:
        return ()
    weak = "not told" if isinstance(speed, NotModelled) else "weak"
    return (f"throughput is {weak}: {speed.why}",)


def plan_record(found: Estimate) -> dict[str, Any]:
    """The memory of a plan."""
    return {**memory_record(found), "assumptions": list(found.assumptions)}


def error_record(message: str, id: Any = None) -> dict[str, Any]:
    return {"schema_version": 1, "id": id, "error": message}


def gib(bytes: int) -> float:
    return round(bytes / GIB, DIGITS)


def _digits(number: float) -> float:
    """Five digits: more than anyone knows, enough for sums."""
    return float(f"{number:.5g}")


def _plain(number: float) -> float:
    """A whole number without a decimal point."""
    return int(number) if number == int(number) else round(number, DIGITS)
