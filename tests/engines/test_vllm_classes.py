"""Exceptions of model classes: data that its schema describes, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from engines.commands import ENGINE
from harness import check
from shardlint.engines import vllm
from shardlint.engines.vllm_stages import stage_layers
from shardlint.plan import Device, Layout, ModelFacts, Options, Releases
from shardlint_schemas import schema

DATA = Path(vllm.__file__).parent / "data" / "vllm_architectures.json"


def table() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


def test_data_follows_its_schema() -> None:
    jsonschema.validate(table(), schema("vllm_architectures"))


def test_every_exception_is_known_and_used() -> None:
    named = {
        name for row in table()["architectures"].values() for name in row.get("exceptions", ())
    }
    assert named == set(table()["exceptions"])


def test_a_class_that_copies_no_heads_is_refused_and_not_said_to_store_copies() -> None:
    result = check("vllm serve openai/gpt-oss-120b -tp 16\n", gpus_per_node=16,
                   engine_version={"vllm": "0.33.0"})  # fmt: skip
    assert [("tp-kv-heads-indivisible", "error")] == [(f.name, f.severity) for f in result.findings]


def test_a_class_that_copies_heads_is_said_to_store_copies() -> None:
    result = check("vllm serve Qwen/Qwen3-235B-A22B -tp 8\n", gpus_per_node=8)
    assert ["kv-replication"] == [finding.name for finding in result.findings]


def refused(model: ModelFacts, layout: Layout, release: str, **options: Any) -> list[str]:
    """Rules of the certain refusals at one release."""
    told = Options(values=options, releases=(Releases(release, release),))
    ranks = ENGINE.ranks(layout, model, None)
    found = ENGINE.constraints(model, ranks, layout, told)
    return [item.rule for item in found if item.refuses and not item.advisory]


MOE = ModelFacts(id="moe", num_layers=12, attention_heads=32, kv_heads=8, num_experts=8,
                 moe_intermediate_size=4096, quantization={},
                 moe_layers=tuple(range(4, 12)))  # fmt: skip


PLAIN: Mapping[str, Any] = {"num_experts": None, "dense_ffn": True, "intermediate_size": 1024}


def moe(architecture: str, **more: Any) -> ModelFacts:
    return replace(MOE, architecture=architecture, **more)


@pytest.mark.parametrize(
    ("model", "layout", "release", "rules"),
    [
        # more ranks than experts: a check of some classes, from the release that has it
        (moe("Qwen3MoeForCausalLM", attention_heads=64), {"tp": 16}, "0.33.0",
         ["experts-indivisible"]),
        (moe("Qwen3MoeForCausalLM", attention_heads=64), {"tp": 8}, "0.33.0", []),
        (moe("MixtralForCausalLM"), {"tp": 16}, "0.33.0", []),
        (moe("HYV3ForCausalLM"), {"tp": 16}, "0.33.0", ["experts-indivisible"]),
        (moe("HYV3ForCausalLM"), {"tp": 16}, "0.19.0", []),
        # a stage of dense layers alone
        (moe("Glm4MoeForCausalLM"), {"pp": 3}, "0.33.0", ["pp-uneven-stages"]),
        (moe("Glm4MoeForCausalLM"), {"pp": 2}, "0.33.0", []),
        (moe("DeepseekV3ForCausalLM"), {"pp": 3}, "0.33.0", []),
        # pipelines by release
        (moe("MiniMaxM3SparseForConditionalGeneration"), {"pp": 2}, "0.24.0", ["pp-unsupported"]),
        (moe("LlamaForCausalLM", num_experts=None), {"pp": 2}, "0.6.0", []),
        # experts that the config class adds to a dense checkpoint
        (moe("NemotronHForCausalLM", model_type="nemotron_h", **PLAIN), {"ep": True}, "0.33.0", []),
        (moe("LlamaForCausalLM", model_type="llama", **PLAIN), {"ep": True}, "0.33.0",
         ["ep-on-dense-model"]),
    ],
)  # fmt: skip
def test_exceptions_of_classes(
    model: ModelFacts, layout: Mapping[str, Any], release: str, rules: list[str]
) -> None:
    assert rules == refused(model, Layout(**layout), release)


@pytest.mark.parametrize(
    ("layout", "capability", "refused_here"),
    [
        ({"dp": 8}, "10.0", True),
        ({"tp": 4, "dp": 2}, "10.0", True),
        ({"tp": 8}, "10.0", False),
        ({"dp": 8, "ep": True}, "10.0", False),
        ({"tp": 2, "dp": 2}, "10.0", False),
        ({"dp": 8}, "9.0", False),
        ({"dp": 8}, None, False),
    ],
)
def test_a_kernel_of_one_card_is_chosen_by_the_ranks_that_share_an_expert(
    layout: Mapping[str, Any], capability: str | None, refused_here: bool
) -> None:
    model = moe("KimiLinearForCausalLM", hidden_size=7168, moe_intermediate_size=3072)
    device = Device(name="card", vendor="nvidia", compute_capability=capability)
    told = Options(releases=(Releases("0.33.0", "0.33.0"),))
    asked = Layout(**layout)
    found = ENGINE.constraints(model, ENGINE.ranks(asked, model, None), asked, told, device)
    certain = [item for item in found if item.refuses and not item.advisory]
    assert refused_here is ("experts-indivisible" in [item.rule for item in certain])


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [
        (80, 3, [27, 27, 26]),
        (62, 4, [15, 16, 16, 15]),
        (61, 8, [7, 7, 8, 8, 8, 8, 8, 7]),
        (7, 4, [2, 2, 2, 1]),
        (32, 4, [8, 8, 8, 8]),
        (2, 3, [1, 1, 0]),
    ],
)
def test_layers_left_over_go_to_the_stages_before_the_last(
    layers: int, pp: int, sizes: list[int]
) -> None:
    assert sizes == stage_layers(layers, pp)
