"""Questions for recommendations, over the real tables and over a small model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from estimating import estimator as small_estimator
from harness import setup
from shardlint.estimates import Estimator, asked_of
from shardlint.recommendations import Candidate, Recommendation, Wanted, measured_of, recommend

DENSE = "Qwen/Qwen3-32B"
EXPERTS = "Qwen/Qwen3-30B-A3B"
LARGE = "meta-llama/Llama-3.1-70B-Instruct"
HUGE = "meta-llama/Llama-3.1-405B-Instruct"
CARD = "H100-SXM-80GB"
ASKED = ("target_tok_s", "request_rate", "ttft_ms", "tpot_ms", "headroom", "objective", "price",
         "session", "prefix_share")  # fmt: skip


@cache
def real() -> Estimator:
    return Estimator(setup())


@cache
def small() -> Estimator:
    """vLLM and one tiny model with simple rules of memory."""
    return small_estimator()


def wanted(
    model: str = DENSE, gpus: int = 8, nodes: int = 1, measured: Sequence[Any] = (), **given: Any
) -> Wanted:
    goals = {name: given.pop(name) for name in ASKED if name in given}
    words = {"model": model, "gpu": CARD, "engine_version": "0.33.0", "isl": 1024, "osl": 256}
    return Wanted(
        asked=asked_of({**words, **given}),
        per_node=gpus,
        nodes=nodes,
        measured=measured_of(list(measured)),
        **goals,
    )


def ask(model: str = DENSE, gpus: int = 8, nodes: int = 1, **given: Any) -> Recommendation:
    return recommend(real(), wanted(model, gpus, nodes, **given))


def by_size(found: Recommendation, **sizes: int) -> Candidate:
    """The candidate with these sizes, all others at 1."""
    (item,) = [item for item in found.found if _sizes(item) == sizes]
    return item


def _sizes(item: Candidate) -> dict[str, int]:
    return {name: size for name, size in item.layout.items() if size > 1}


def layouts(found: Recommendation) -> list[dict[str, int]]:
    return [_sizes(item) for item in found.found]
