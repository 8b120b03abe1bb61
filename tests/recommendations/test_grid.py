"""What is recommended reads back from a manifest, lints without an error, and runs in vLLM.

A part of benchmarks/recommend_grid.py, which does the same for every model and card.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shardlint.models.catalogue import Catalogue

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SEED = 8
MODELS = {"vllm": 300, "sglang": 60, "trtllm": 60, "lmdeploy": 60}
"""How many models of each engine are tried on one card each, in turns."""


@pytest.fixture(scope="module")
def module() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import recommend_grid as found
    finally:
        sys.path.remove(str(BENCHMARKS))
    return found


@pytest.fixture(scope="module")
def grid(module: Any) -> Any:
    return module.Grid()


def cells(module: Any, engine: str) -> Iterator[tuple[str, str]]:
    """Each model with one card, so that all cards have as many."""
    for at, model in enumerate(module.sample(MODELS[engine], SEED)):
        yield model, module.CARDS[at % len(module.CARDS)]


@pytest.mark.parametrize("engine", list(MODELS))
def test_first_layouts_read_back_and_lint_without_an_error(
    engine: str, module: Any, grid: Any
) -> None:
    wrong, answered = [], 0
    for model, card in cells(module, engine):
        found = grid.found(engine, model, card)
        answered += bool(found)
        wrong += [
            (model, card, item.arguments, fault)
            for item in found
            for fault in grid.faults(item, engine, model, card)
        ]
    assert [] == wrong
    assert answered > 0.8 * MODELS[engine]


def test_first_layouts_run_in_vllm_where_that_was_tried(
    shared: Path, module: Any, grid: Any
) -> None:
    verdicts = module.judged(shared / "evidence" / "vllm_oracle.jsonl")
    models = sorted({key[0] for key in verdicts} & set(Catalogue().ids()))
    tried = {
        module.key(item, model): verdicts.get(module.key(item, model))
        for model in models
        for card in module.CARDS
        for item in grid.found("vllm", model, card)
    }
    judged = {key: verdict for key, verdict in tried.items() if verdict is not None}
    assert {} == {key: verdict for key, verdict in judged.items() if verdict != "ok"}
    assert len(judged) > 60
