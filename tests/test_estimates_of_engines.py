"""Estimates of SGLang and TensorRT-LLM, from the command line and against printed logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from shardlint import cli
from shardlint.engines import builtin as engines
from shardlint.estimates.asked import asked_of
from shardlint.estimates.estimator import Estimate, Estimator
from shardlint.platforms import builtin as platforms
from shardlint.plugins import Plugins
from shardlint.project import Setup
from shardlint.readers import builtin as readers
from shardlint.reports import builtin as reports
from shardlint_schemas import schema

GIB = 1 << 30


def estimated(**asked: Any) -> Estimate:
    setup = Setup(Plugins([engines, platforms, readers, reports], discover=False))
    return Estimator(setup).estimate(asked_of(asked))


@pytest.mark.parametrize("engine", ["sglang", "trtllm", "tensorrt-llm"])
def test_the_command_line_answers(engine: str) -> None:
    arguments = (
        "estimate", "--engine", engine, "--model", "Qwen/Qwen3-32B", "--gpu", "H100-SXM-80GB",
        "--tp", "2", "--format", "json",
    )  # fmt: skip
    result = CliRunner().invoke(cli.main, arguments)
    document = json.loads(result.stdout)
    jsonschema.validate(document, schema("estimate"))
    card = estimated(model="Qwen/Qwen3-32B", gpu="H100-SXM-80GB", engine=engine).made.total / GIB
    assert sum(document["breakdown"].values()) == pytest.approx(card, abs=0.1)
    assert "fits" == document["verdict"]


def test_shares_go_by_the_name_that_the_engine_has() -> None:
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "H100-SXM-80GB", "tp": 2, "engine": "sglang"}
    both = estimated(**asked, mem_fraction_static=0.7, gpu_memory_utilization=0.9)
    assert 0.7 == both.made.settings.share
    assert 0.9 == estimated(**asked, gpu_memory_utilization=0.9).made.settings.share


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_attention_dp_keeps_whole_heads_and_cuts_experts(engine: str) -> None:
    asked = {"model": "deepseek-ai/DeepSeek-R1", "gpu": "H200-SXM-141GB", "engine": engine}
    cut = estimated(**asked, tp=8)
    whole = estimated(**asked, tp=1, attention_dp=8)
    assert (8, 8) == (cut.gpus, whole.gpus)
    assert (1, 8) == (cut.dp_ranks, whole.dp_ranks)
    parts = [one.made.weights.parts for one in (cut, whole)]
    assert parts[0]["expert"] == parts[1]["expert"]
    assert parts[1]["attention"] > 3 * parts[0]["attention"]
    assert cut.made.cache and whole.made.cache
    assert cut.made.cache.bytes_per_token == whole.made.cache.bytes_per_token == 70272


def test_what_an_engine_cannot_have_is_said() -> None:
    asked = {"model": "deepseek-ai/DeepSeek-R1", "gpu": "B200", "engine": "trtllm"}
    said = estimated(**asked, tp=2, attention_dp=4, ep=16, dcp=2).assumptions
    assert "attention is cut over 1 ranks, not 2" in said
    assert "EP reaches 8 ranks, not EP 16" in said
    assert "decode context parallelism is left out" in said


def printed(shared: Path, name: str) -> dict[str, Any]:
    lines = (shared / "evidence" / "memory.jsonl").read_text(encoding="utf-8").splitlines()
    return next(row for row in map(json.loads, lines) if row["id"] == name)


@pytest.mark.parametrize(
    ("name", "asked", "off"),
    [
        ("mem-014", {"gpu": "MI355X", "model": "moonshotai/Kimi-K2.5"}, 0.02),
        ("mem-015", {"gpu": "H100-SXM-80GB", "model": "Qwen/Qwen3-235B-A22B-FP8"}, 0.07),
        ("mem-011", {"gpu": "RTX-PRO-6000-Blackwell-SE", "model": "nvidia/GLM-5-NVFP4"}, 0.08),
    ],
)
def test_printed_pools(name: str, asked: dict[str, Any], off: float, shared: Path) -> None:
    """The checkpoint of the last is another publisher's, with some 2 GiB more weights."""
    row = printed(shared, name)
    share = None if name == "mem-014" else row["mem_fraction_static"]
    made = estimated(
        **asked, engine="sglang", engine_version=(row["version"] or "").split(" ")[0] or None,
        tp=row["tp"], kv_cache_dtype=row["kv_cache_dtype"], mem_fraction_static=share,
    ).made  # fmt: skip
    assert made.settings.share == pytest.approx(row["mem_fraction_static"], abs=1e-9)
    assert made.kv / GIB == pytest.approx(row["available_kv_gib"], rel=off)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [("mem-011", "RTX-PRO-6000-Blackwell-SE"), ("mem-012", "H200-SXM-141GB"),
     ("mem-014", "MI355X")],
)  # fmt: skip
def test_printed_memory_before_the_load(name: str, gpu: str, shared: Path) -> None:
    row = printed(shared, name)
    made = estimated(model="Qwen/Qwen3-32B", gpu=gpu, engine="sglang", tp=row["tp"]).made
    free = row["weights_gib_per_gpu"] + row["avail_mem_after_load_gib"]
    ours = (made.total - made.beside.before_load) / GIB
    assert ours == pytest.approx(free, abs=0.3)
    if row["outcome"] == "oom":
        assert row["weights_gib_per_gpu"] > ours * row["mem_fraction_static"]
        assert row["weights_gib_per_gpu"] / ours == pytest.approx(0.9113, abs=0.003)
