"""Which layouts are looked at, and what of them an engine can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from recommendations.asking import CARD, DENSE, EXPERTS, real, wanted
from shardlint.engine import Engine
from shardlint.engines import builtin
from shardlint.models.catalogue import Catalogue
from shardlint.plan import Device, Layout, ModelFacts
from shardlint.recommendations.layouts import Shape, shapes

ENGINES: dict[str, Engine] = {engine.name: engine for engine in builtin.shardlint_engines()}


def model(name: str) -> ModelFacts:
    facts = Catalogue().lookup(name)
    assert facts is not None
    return facts


def device(name: str = CARD) -> Device:
    found = real().setup.devices.find(name).only
    assert found is not None
    return found


def tried(name: str = DENSE, card: str = CARD, **given: Any) -> list[Shape]:
    return list(shapes(model(name), device(card), wanted(name, **given)))


def sizes(found: list[Shape]) -> set[tuple[int, int]]:
    return {(shape.tp, shape.pp) for shape in found}


def test_gpus_of_a_replica_divide_a_node_or_are_a_power_of_two() -> None:
    assert {1, 2, 4, 8} == {shape.gpus for shape in tried()}
    assert {1, 2, 3, 4, 6} == {shape.gpus for shape in tried(gpus=6)}
    assert {1, 2, 4, 5} == {shape.gpus for shape in tried(gpus=5)}


def test_ranks_of_a_stage_stay_in_one_node_where_links_end_there() -> None:
    found = tried(nodes=4)
    assert 8 == max(shape.tp for shape in found)
    assert (8, 4) in sizes(found)
    assert all(shape.gpus in (1, 2, 4, 8, 16, 24, 32) for shape in found)


def test_ranks_of_a_stage_may_reach_over_nodes_of_one_link_domain() -> None:
    assert 16 == max(shape.tp for shape in tried(card="GB200-NVL72", gpus=4, nodes=4))


def test_experts_are_shared_out_where_there_are_some() -> None:
    assert not any(shape.experts for shape in tried())
    spread = [shape for shape in tried(EXPERTS) if shape.experts]
    assert {(8, 1), (4, 2), (2, 4), (1, 8)} <= {(item.tp, item.attention_dp) for item in spread}
    assert all(shape.ep == shape.gpus and shape.pp == 1 for shape in spread)


def test_decode_context_parallelism_is_looked_at_for_context_alone() -> None:
    assert {1} == {shape.dcp for shape in tried()}
    found = tried(objective="context")
    assert {1, 2, 4, 8} == {shape.dcp for shape in found}
    assert all(shape.tp % shape.dcp == 0 for shape in found)


def test_stages_are_no_more_than_layers() -> None:
    layers = model(DENSE).num_layers or 0
    assert all(shape.pp <= layers for shape in tried(nodes=16))


def test_small_replicas_come_first() -> None:
    found = [shape.gpus for shape in tried(nodes=2)]
    assert found == sorted(found)


# ------------------------------------------------------------------------------------- arguments


def arguments(engine: str, release: str | None = None, **sizes: Any) -> str | None:
    made = ENGINES[engine]
    found = made.arguments(Layout(**sizes), release or made.releases()[-1])
    return None if found is None else " ".join(found)


@pytest.mark.parametrize(
    ("engine", "sizes", "expected"),
    [
        ("vllm", {"tp": 1}, "--tensor-parallel-size 1"),
        ("vllm", {"tp": 4, "pp": 2}, "--tensor-parallel-size 4 --pipeline-parallel-size 2"),
        ("vllm", {"tp": 2, "dp": 4, "ep": True},
         "--tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel"),
        ("vllm", {"tp": 2, "dcp": 2},
         "--tensor-parallel-size 2 --decode-context-parallel-size 2"),
        ("vllm", {"tp": 4, "attention_dp": 2}, None),
        ("sglang", {"tp": 8, "attention_dp": 4, "ep": 8},
         "--tp-size 8 --attn-dp-size 4 --ep-size 8"),
        ("trtllm", {"tp": 8, "attention_dp": 8, "ep": 8},
         "--tensor_parallel_size 8 --moe_expert_parallel_size 8 --enable_attention_dp"),
        ("trtllm", {"tp": 8, "attention_dp": 4}, None),
        ("trtllm", {"tp": 4, "dcp": 2}, None),
        ("lmdeploy", {"tp": 4}, "--tp 4"),
        ("lmdeploy", {"tp": 4, "ep": 4}, None),
        ("lmdeploy", {"tp": 4, "pp": 2}, None),
    ],
)  # fmt: skip
def test_options_of_a_layout(engine: str, sizes: dict[str, Any], expected: str | None) -> None:
    assert expected == arguments(engine, **sizes)


def test_switch_of_attention_dp_counts_groups_by_another_option() -> None:
    """SGLang: an option of its own came late, and at first the switch left no choice."""
    asked = {"tp": 8, "attention_dp": 4}
    assert "--tp-size 8 --dp-size 4 --enable-dp-attention" == arguments("sglang", "0.5.7", **asked)
    assert arguments("sglang", "0.4.0", **asked) is None


def test_option_that_a_release_lacks_is_not_offered() -> None:
    assert arguments("vllm", "0.6.0", tp=2, dp=2) is None
    assert arguments("sglang", "0.5.7", tp=4, dcp=2) is None


def engines_with_memory() -> Iterator[str]:
    for name, engine in ENGINES.items():
        if engine.releases() and engine.memory(engine.releases()[-1]) is not None:
            yield name


@pytest.mark.parametrize("name", list(engines_with_memory()))
def test_plain_tensor_parallelism_can_be_asked_of_every_engine_that_is_sized(name: str) -> None:
    assert arguments(name, tp=2) is not None
