"""What every adapter shares: questions on standard input, answers on standard output, one a line.

Adapters run in an environment of their own that has one public estimator and nothing of shardlint.
An answer comes in parts; where the estimator refuses a further part, its reason stands beside the
parts before it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

GIB = 2**30

Question = dict[str, Any]
Answer = dict[str, Any]


def answer_all(answer: Callable[[Question], Iterator[Answer]]) -> None:
    for line in sys.stdin:
        question = json.loads(line)
        found: Answer = {"id": question["id"]}
        try:
            with contextlib.redirect_stdout(sys.stderr):
                for part in answer(question):
                    found |= part
        except Exception as reason:  # whatever an estimator raises is its answer
            text = f"{type(reason).__name__}: {reason}"
            found["refused"] = text.replace(question["folder"], question["model"])[:300]
        print(json.dumps(found), flush=True)


def kv_bytes(question: Question) -> float:
    """Bytes of one element of the KV cache."""
    return 1.0 if question["kv_dtype"] == "fp8" else 2.0


def budget_known(question: Question) -> bool:
    return question["gpu_gib"] is not None and question["utilization"] is not None


def capacity(kv_gib: float, bytes_per_token: float, question: Question) -> Answer:
    """A pool, and what it holds where every token costs the same."""
    tokens = max(0.0, kv_gib) * GIB / bytes_per_token
    length = question["max_model_len"]
    return {
        "kv_gib": kv_gib,
        "kv_tokens": tokens,
        "concurrency": tokens / length if length else None,
    }
