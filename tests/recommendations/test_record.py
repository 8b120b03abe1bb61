"""Any question is answered as its schema says, in numbers that go together."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from recommendations.asking import DENSE, EXPERTS, ask, real, wanted
from shardlint.estimates import EstimateError
from shardlint.models.catalogue import Catalogue
from shardlint.recommendations import Recommendation, recommend
from shardlint.reports import recommendation
from shardlint_schemas import schema

CARDS = ("H100-SXM-80GB", "A100-PCIE-40GB", "L4", "B200-SXM-180GB", "GB200-NVL72", "MI300X", "T4")
SCHEMA = jsonschema.Draft202012Validator(schema("recommend"))
CHOICES: dict[str, tuple[Any, ...]] = {
    "isl": (None, 1, 4000, 100_000), "osl": (None, 1, 3000),
    "concurrency": (None, 1, 64, 10**6), "target_tok_s": (None, 1, 1000.0, 1e7),
    "tpot_ms": (None, 0.1, 20, 500), "ttft_ms": (None, 1, 1e5), "session": (None, 1, 10**7),
    "prefix_share": (None, 0.0, 0.6, 1.0), "price": (None, 0, 2.5),
    "max_model_len": (None, 1, 2048, 10**6), "headroom": (0, 0.2, 3),
    "objective": ("throughput", "latency", "context"), "engine": ("vllm", "sglang", "trtllm"),
    "gpu": CARDS, "gpus": (1, 2, 3, 6, 8, 16), "nodes": (1, 2, 5, 40), "engine_version": (None,),
    "measured": ((), ({"tp": 2, "output_tok_s": 1},), ({"tp": 3, "output_tok_s": 1e5},)),
}  # fmt: skip


def questions(count: int) -> Iterator[dict[str, Any]]:
    chosen = random.Random(8)
    models = sorted(Catalogue().ids())
    for _ in range(count):
        told = {name: chosen.choice(values) for name, values in CHOICES.items()}
        yield {"model": chosen.choice(models), **told}


def record(found: Recommendation) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(recommendation.record(found)))
    SCHEMA.validate(document)
    return document


def text(found: Recommendation) -> str:
    out = io.StringIO()
    recommendation.write(found, out)
    return out.getvalue()


def test_any_question_has_a_document_and_a_text() -> None:
    answered = 0
    for told in questions(150):
        try:
            found = recommend(real(), wanted(**told))
        except EstimateError:
            continue
        answered += bool(found.found)
        for item in record(found)["candidates"]:
            assert item["replicas"] >= item["needed"], told
            assert item["gpus"] + item["unused_gpus"] >= found.wanted.gpus, told
            if not told["target_tok_s"]:
                assert item["gpus"] <= found.wanted.gpus, told
            assert (item["output_tok_s"] is None) == (item["class"] == "not_modelled"), told
        assert text(found).startswith(told["model"])
    assert answered > 60


@pytest.mark.parametrize("model", [DENSE, EXPERTS])
def test_product_is_written_out(model: str) -> None:
    found = ask(model, nodes=2, target_tok_s=4000)
    first = record(found)["candidates"][0]
    spare = first["replicas"] - first["needed"]
    line = next(line for line in text(found).splitlines() if line.startswith("fleet"))
    assert f"{first['replicas']} replicas × ({recommendation.written(first['layout'])})" in line
    assert f"= {first['gpus']} GPUs" in line
    assert f"{first['needed']} for the target and {spare} to spare" in " ".join(text(found).split())


def test_rough_speeds_are_shown_as_ranges_alone() -> None:
    found = ask(EXPERTS)
    first = record(found)["candidates"][0]
    assert "weak" == first["class"]
    low, high = first["range"]
    row = next(line for line in text(found).splitlines() if line.startswith("1  "))
    assert f"{low:,.0f}–{high:,.0f}" in row
    assert f"{first['output_tok_s']:,.0f}" not in row


def test_columns_of_which_nothing_is_known_are_left_out() -> None:
    head = text(ask(isl=None, osl=None)).splitlines()[2].split()
    assert "replicas" in head
    assert not {"TPOT", "TTFT", "tok/s"} & set(head)
