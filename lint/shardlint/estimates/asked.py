"""What an estimate is asked for: flags of the command line, or one object of a batch.

Forgiving with types, since people write numbers as text and tables write them as floats; what
cannot be meant is an EstimateError that names the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from shardlint.record import record

MOST_RANKS: Final = 1 << 20
"""Of ranks, replicas and requests in one step."""
MOST_TOKENS: Final = 1 << 40
MOST_GIB: Final = 1 << 20
EMPTY: Final = ("", "null", "none", "nan")
"""Texts that tables write where nothing is stated."""


class EstimateError(Exception):
    """Something that cannot be estimated, as one line for people."""


@record(kw_only=True)
class Asked:
    """One question; None: not stated.

    `tp` is the tensor parallelism of attention: GPUs = tp × pp × dp × attention_dp. `ep` is the
    number of ranks that experts are shared out to (1: off; True: on, to as many as there are).
    """

    model: str
    gpu: str | None = None
    gpu_mem_gib: float | None = None
    engine: str | None = None
    engine_version: str | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    attention_dp: int | None = None
    ep: int | bool | None = None
    dcp: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool | None = None
    isl: int | None = None
    osl: int | None = None
    concurrency: int | None = None
    replicas: int | None = None


def asked_of(given: Mapping[str, Any]) -> Asked:
    """A question from keys and values; keys that mean nothing here are passed over."""
    stated = {name: _read(name, given.get(name)) for name in KEYS}
    if stated["model"] is None:
        raise EstimateError("model is not stated")
    if stated["gpu"] is None and stated["gpu_mem_gib"] is None:
        raise EstimateError("gpu is not stated")
    return Asked(**stated)


def _read(name: str, value: Any) -> Any:
    if value is None or (isinstance(value, str) and value.strip().lower() in EMPTY):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    try:
        return READERS[name](value)
    except (ValueError, OverflowError, TypeError) as error:
        raise EstimateError(f"{name}: {shown(value)} is not {error}") from None


def shown(value: object) -> str:
    """A value on one line of reasonable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# --------------------------------------------------------------------------------- kinds of values


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text")
    return value.strip()


def _version(value: Any) -> str:
    """0.11 may have been written without quotes."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a version")
    return str(value).strip()


UNITS: Final = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
"""As vLLM reads lengths: 128k, 32K."""


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number")
    if not isinstance(value, str):
        return value
    text = value.strip().replace(",", "").replace("_", "")
    if (unit := UNITS.get(text[-1:])) is not None and text[:-1].isdecimal():
        return int(text[:-1]) * unit
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise ValueError("a number") from None


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        problem = f"a whole number from {least:,} to {most:,}"
        try:
            number = _number(value)
        except ValueError:
            raise ValueError(problem) from None
        if not least <= number <= most or number != int(number):
            raise ValueError(problem)
        return int(number)

    return read


def _share(value: Any) -> float:
    number = _number(value)
    if not 0 < number <= 1:
        raise ValueError("a share above 0 and not above 1")
    return float(number)


def _gib(value: Any) -> float:
    number = _number(value)
    if not 0 < number <= MOST_GIB:
        raise ValueError("a size in GiB")
    return float(number)


TRUTH: Final[dict[object, bool]] = {
    "true": True, "yes": True, "on": True, "1": True, 1: True,
    "false": False, "no": False, "off": False, "0": False, 0: False,
}  # fmt: skip


def _truth(value: Any) -> bool:
    """True and 1 are one key, and so are 1.0 and 1."""
    word = value.strip().lower() if isinstance(value, str) else value
    if not isinstance(word, str | int | float) or word not in TRUTH:
        raise ValueError("true or false")
    return TRUTH[word]


def _experts(value: Any) -> int | bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and not value.strip().isdecimal() and "." not in value:
        return _truth(value)
    return _whole(0, MOST_RANKS)(value)


_ranks: Final = _whole(1, MOST_RANKS)
_tokens: Final = _whole(1, MOST_TOKENS)
_maybe: Final = _whole(0, MOST_TOKENS)

READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "model": _text, "gpu": _text, "gpu_mem_gib": _gib, "engine": _text,
    "engine_version": _version, "tp": _ranks, "pp": _ranks, "dp": _ranks, "attention_dp": _ranks,
    "ep": _experts, "dcp": _ranks, "dtype": _text, "quantization": _text, "kv_cache_dtype": _text,
    "gpu_memory_utilization": _share, "mem_fraction_static": _share, "max_model_len": _tokens,
    "max_num_seqs": _ranks, "max_num_batched_tokens": _tokens, "enforce_eager": _truth,
    "isl": _maybe, "osl": _maybe, "concurrency": _tokens, "replicas": _ranks,
}  # fmt: skip
"""How the value of each key is read."""
KEYS: Final = tuple(field.name for field in fields(Asked))
