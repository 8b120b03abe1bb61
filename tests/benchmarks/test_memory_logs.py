"""What the memory benchmark takes from a row, and which rows it counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from shardlint.hardware.table import Devices

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def memory_logs() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import memory_logs as module
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


def row(memory_logs: Any, **stated: Any) -> Any:
    return memory_logs.Row(id="one", source="here", **{"engine": "vllm", **stated})


def test_rows_keep_what_is_stated(memory_logs: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    told = {"id": "a", "source": "s", "engine": "vllm", "tp": 2, "flags": ["x"], "notes": "n"}
    path.write_text(json.dumps(told | {"defaulted": None}) + "\n\n", encoding="utf-8")
    (found,) = memory_logs.rows(path)
    assert (found.tp, found.flags, found.defaulted) == (2, {"x"}, frozenset())


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.19.1", 0.9),
        ("0.19.2rc1.dev134+gfe9c3d6c5", 0.9),
        ("0.20.0", 0.92),
        ("v0.10.1.dev101+gbda9d0535", 0.9),
        ("0.1.dev19754+g3a0914114", None),
        ("commit 3f3b6b21", None),
        (None, None),
    ],
)
def test_default_utilization_is_that_of_the_release(
    memory_logs: Any, version: str | None, expected: float | None
) -> None:
    defaulted = frozenset({"gpu_memory_utilization"})
    assert (
        memory_logs.utilization(row(memory_logs, version=version, defaulted=defaulted)) == expected
    )
    assert memory_logs.utilization(row(memory_logs, version=version)) is None
    stated = row(memory_logs, version=version, gpu_memory_utilization=0.5)
    assert memory_logs.utilization(stated) == 0.5


@pytest.mark.parametrize(
    ("gpu", "stated", "expected"),
    [
        ("A100", None, None),
        ("A100", 39.38, 39.38),
        ("H20", None, None),
        ("H100", None, 79.18),
        ("H100 NVL", None, 93.0),
        ("DGX Spark GB10", None, 121.69),
        ("AMD Strix Halo", None, None),
        ("no such card", None, None),
        (None, None, None),
    ],
)
def test_memory_of_a_name_that_means_one_size(
    memory_logs: Any, gpu: str | None, stated: float | None, expected: float | None
) -> None:
    found = memory_logs.memory_gib(row(memory_logs, gpu=gpu, gpu_memory_gib=stated), Devices())
    assert found == (expected and pytest.approx(expected, abs=0.01))


@pytest.fixture
def checkpoints(memory_logs: Any, tmp_path: Path) -> Any:
    entries = [
        "{id: z/Same, file: z.json, num_layers: 2}",
        "{id: a/Same, file: a.json, num_layers: 2}",
        "{id: z/Other, file: z.json, num_layers: 3}",
        "{id: a/Other, file: a.json, num_layers: 2, aliases: [m/Other]}",
    ]
    text = "models:\n" + "".join(f"- {entry}\n" for entry in entries)
    (tmp_path / "index.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    quantized = json.dumps({"quantization_config": {"quant_method": "fp8"}})
    (tmp_path / "z.json").write_text(quantized, encoding="utf-8")
    return memory_logs.Checkpoints(tmp_path)


@pytest.mark.parametrize(
    ("model", "quantization", "expected"),
    [
        ("z/Same", None, ("z/Same", True)),
        ("same", None, ("a/Same", True)),
        ("b/Same", None, ("a/Same", False)),
        ("Other", None, ("a/Other", False)),
        ("m/Other", None, ("a/Other", True)),
        ("a/Other", "bitsandbytes", ("a/Other", False)),
        ("z/Other", "fp8", ("z/Other", True)),
        ("unknown", None, None),
    ],
)
def test_the_config_of_a_name(
    memory_logs: Any, checkpoints: Any, model: str, quantization: str | None, expected: Any
) -> None:
    found = checkpoints.find(row(memory_logs, model=model, quantization=quantization))
    assert (found and (found.id, found.exact)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"model": "b/Same"}, False),
        ({"tp": None}, False),
        ({"gpu_memory_utilization": None}, False),
        ({"engine": "sglang"}, False),
        ({"flags": frozenset({"unified_memory"})}, False),
        ({"gpu": "AMD Strix Halo"}, False),
    ],
)
def test_a_strict_row_needs_no_guess(
    memory_logs: Any, checkpoints: Any, change: dict[str, Any], expected: bool
) -> None:
    whole = {"model": "a/Same", "tp": 1, "gpu": "T4", "gpu_memory_utilization": 0.9}
    one = row(memory_logs, **whole | change)
    assert memory_logs.strict(one, checkpoints.find(one), 14.56) is expected
    assert not memory_logs.strict(one, checkpoints.find(one), None)


def test_a_cell_is_median_tail_and_share(memory_logs: Any) -> None:
    found = memory_logs.cell([0.0, 0.1, 0.12, 0.2, 0.3, 0.0, 0.1, 0.1, 0.1, 0.1, 1.0])
    assert found == pytest.approx((0.1, 0.3, 8 / 11))
    assert memory_logs.cell([0.5]) == (0.5, 0.5, 0.0)
    assert memory_logs.error(9.0, 10.0) == pytest.approx(0.1)
