"""The catalogue file is made from the shared facts, and how far it agrees with them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shardlint.models import inventories
from shardlint.models.catalogue import DATA, Catalogue
from shardlint.models.config_json import from_folder

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_catalogue.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_catalogue", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILD = script()


@pytest.fixture(scope="module")
def built(shared: Path) -> tuple[dict[str, Any], Any, str]:
    catalogue, agreement, weights = BUILD.built(shared / "models")
    return catalogue, agreement, weights


def test_every_config_is_read(built: tuple[dict[str, Any], Any, str]) -> None:
    assert (904, 0) == (
        len(built[0]["models"]),
        built[0]["generated_from"]["left_out"],
    )


def test_file_is_up_to_date(built: tuple[dict[str, Any], Any, str]) -> None:
    assert DATA.read_text(encoding="utf-8") == BUILD.written(built[0])
    assert inventories.DATA.read_text(encoding="utf-8") == built[2]


def test_no_difference_is_left_unexplained(built: tuple[dict[str, Any], Any, str]) -> None:
    assert {} == built[1].unexplained


@pytest.mark.parametrize(
    ("field", "same", "total"),
    [
        ("model_type", 904, 904),
        ("num_layers", 904, 904),
        ("hidden_size", 904, 904),
        ("vocab_size", 904, 904),
        ("attention_heads", 902, 903),
        ("kv_heads", 898, 903),
        ("head_dim", 865, 903),
        ("intermediate_size", 833, 843),
        ("num_experts", 210, 210),
        ("experts_per_token", 210, 210),
        ("moe_intermediate_size", 210, 210),
        ("kv_lora_rank", 54, 54),
        ("full_bytes_per_token", 873, 897),
        ("sliding_bytes_per_token", 880, 897),
        ("max_position_embeddings", 820, 820),
        ("tie_word_embeddings", 896, 904),
        ("torch_dtype", 325, 325),
        ("vision_tower", 898, 904),
        ("quantization.method", 308, 308),
    ],
)
def test_fields_agree_with_the_index(
    built: tuple[dict[str, Any], Any, str], field: str, same: int, total: int
) -> None:
    agreement = built[1]
    assert (same, total) == (agreement.same[field], agreement.total[field])
    assert same >= 0.95 * total


def test_reasons_are_counted(built: tuple[dict[str, Any], Any, str]) -> None:
    reasons = [
        reason for record in built[0]["models"].values() for reason in record.get("assumed", ())
    ]
    assert (21, 10) == (
        reasons.count("shape inferred"),
        reasons.count("parameter count differs from the published one"),
    )


def entry(**keys: Any) -> dict[str, Any]:
    return {"provenance": {"kind": "config.json"}, **keys}


SMALL = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 8,
    "num_key_value_heads": 8, "intermediate_size": 1024, "vocab_size": 1000,
    "tie_word_embeddings": True,
}  # fmt: skip
SMALL_COUNT = 1000 * 256 + 4 * (4 * 256 * 256 + 3 * 256 * 1024 + 2 * 256) + 256


def reasons(published: dict[str, Any] | None, **keys: Any) -> tuple[str, ...]:
    config = {**SMALL, **keys.pop("config", {})}
    facts = BUILD.config_facts(config, "org/name")
    stated = {} if published is None else {"published": published}
    found: tuple[str, ...] = BUILD.assumptions(facts, entry(**stated, **keys), config)
    return found


def count(error: float, exact: bool = True) -> dict[str, Any]:
    """A published count that ours differs from by this error."""
    return {"exact": exact, "total": round(SMALL_COUNT / (1 + error))}


def test_count_that_is_far_off_is_a_reason() -> None:
    assert ("parameter count differs from the published one",) == reasons(count(-0.0098))


@pytest.mark.parametrize(
    ("published", "keys"),
    [
        (None, {}),
        (count(0.5, exact=False), {}),
        (count(1e-5), {}),
        (count(-6e-5), {"quantization": {"method": "fp8"}}),
        (count(-0.03), {"quantization": {"method": "modelopt", "group_size": 16}}),
        ({"exact": True, "total": SMALL_COUNT + 256_000}, {}),
        (count(0.5), {"config": {"model_type": "no-such-type"}}),
    ],
    ids=[
        "no count", "not exact", "buffers", "scales of blocks", "scales of groups",
        "copy of the tied embedding", "no formula",
    ],
)  # fmt: skip
def test_count_that_is_explained_is_no_reason(
    published: dict[str, Any] | None, keys: dict[str, Any]
) -> None:
    assert () == reasons(published, **keys)


def test_difference_that_nothing_explains_leaves_an_entry_out() -> None:
    agreement = BUILD.Agreement()
    facts = BUILD.config_facts({"num_hidden_layers": 4}, "org/name")
    assert not agreement.add(facts, entry(num_layers=5), {})
    assert {"org/name": ["num_layers: 4, index 5"]} == agreement.unexplained


# ------------------------------------------------------------------- what the engine itself read


def verdicts(shared: Path) -> dict[str, dict[str, Any]]:
    lines = (shared / "evidence" / "vllm_oracle.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {row["model"]: row for row in rows if row.get("heads")}


def test_configs_are_read_as_the_engine_reads_them(shared: Path) -> None:
    differing = []
    for model, row in verdicts(shared).items():
        name = model.replace("/", "--") if ":" not in model else "ipex--" + model.rsplit("/")[-1]
        read = from_folder(shared / "evidence" / "oracle_models" / name)
        assert read is not None
        ours = (read.attention_heads, read.kv_heads, read.num_experts, read.architecture)
        if ours != (row["heads"], row["kv_heads"], row["experts"] or None, row["arch"]):
            differing.append(model)
    assert [] == differing


def test_catalogue_has_the_heads_that_the_engine_read(shared: Path) -> None:
    known = Catalogue()
    differing = [
        model
        for model, row in verdicts(shared).items()
        if (read := known.lookup(model)) is not None
        and (read.attention_heads, read.kv_heads) != (row["heads"], row["kv_heads"])
    ]
    assert [] == differing
