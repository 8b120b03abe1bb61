"""Questions line by line: one JSON object in, one JSON object out, whatever stands in the line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from shardlint.estimates.asked import EstimateError, asked_of
from shardlint.estimates.estimator import Estimator
from shardlint.estimates.records import error_record, estimate_record

MOST_BYTES: Final = 1 << 20
"""A longer line is no question."""


def answers(
    lines: Iterable[bytes], estimator: Estimator, given: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """One answer for each line that is not empty; `given` stands in where a line states nothing."""
    for line in lines:
        if line.strip():
            yield _answer(line, estimator, given)


def _answer(line: bytes, estimator: Estimator, given: Mapping[str, Any]) -> dict[str, Any]:
    id = None
    try:
        question = _object(line)
        id = _id(question.get("id"))
        stated = {key: value for key, value in question.items() if value is not None}
        return estimate_record(estimator.estimate(asked_of({**given, **stated})), id)
    except EstimateError as error:
        return error_record(str(error), id)
    except Exception as error:  # fence: one line
        return error_record(f"{type(error).__name__}: {error}", id)


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MOST_BYTES:
        raise EstimateError(f"the line is longer than {MOST_BYTES // 2**20} MiB")
    try:
        loaded = json.loads(line.removeprefix(b"\xef\xbb\xbf"), parse_constant=lambda _name: None)
    except RecursionError:
        raise EstimateError("the line is nested too deep") from None
    except ValueError as error:
        raise EstimateError(f"the line is not JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise EstimateError("the line is not a JSON object")
    return loaded


def _id(value: Any) -> Any:
    """What can be written again as it was read."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value
