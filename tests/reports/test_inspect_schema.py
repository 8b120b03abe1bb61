from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from shardlint_schemas import schema

INSPECT = jsonschema.Draft202012Validator(schema("inspect"))
FIELDS = [
    "engine", "engine_version", "model", "tp", "pp", "dp", "ep", "gpus_per_pod", "nodes",
    "replicas", "gpu_type", "max_model_len", "quantization", "kv_cache_dtype",
    "gpu_memory_utilization", "dp_local", "dcp", "pcp", "attention_dp", "nnodes", "moe_tp",
    "max_replicas", "max_num_seqs", "max_num_batched_tokens", "enforce_eager", "block_size",
    "shm_bytes", "kv_budget",
]  # fmt: skip


def fields(**known: Any) -> dict[str, Any]:
    return dict.fromkeys(FIELDS) | known


def plan(**changed: Any) -> dict[str, Any]:
    return {
        "id": "llm.yaml:0:/spec:default/llm:vllm",
        "name": "llm",
        "kind": "Deployment",
        "file": "llm.yaml",
        "role": None,
        "group": None,
        "stated": fields(engine="vllm", tp=8, ep=True, gpus_per_pod="all"),
        "effective": fields(engine="vllm", tp=8, pp=1, max_num_seqs={"any_of": [256, 1024]}),
        "gpus_per_replica": 8,
        "gpus_total": None,
        "ranks": {
            "world_size": 8,
            "engines": 1,
            "attention_tp": 8,
            "attention_dp": 1,
            "moe_tp": 1,
            "ep": 8,
            "pp": 1,
            "kv_copies": None,
            "coupled_ranks": 1,
        },
        "routing": {
            "policy": "round-robin",
            "explicit": True,
            "awareness": ["blind"],
            "router": "nginx.conf:upstream",
        },
        "unknown": [{"field": "model", "reason": "not stated"}],
    } | changed


def document(**changed: Any) -> dict[str, Any]:
    router = {"file": "n.conf", "kind": "nginx", "policy": None, "explicit": False, "awareness": []}
    return {"schema_version": 1, "plans": [plan(**changed)], "routers": [router]}


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema("inspect"))


def test_plan_of_the_contract_is_valid() -> None:
    INSPECT.validate(document())


def test_plan_without_ranks_and_routing_is_valid() -> None:
    INSPECT.validate(document(ranks=None, routing=None))


def test_origins_may_be_given() -> None:
    origin = {"file": "llm.yaml", "line": 9, "column": 13, "how": "stated"}
    nowhere = {"file": None, "line": None, "column": None, "how": "defaulted"}
    INSPECT.validate(document(origins={"tp": origin, "pp": nowhere, "dp": None}))


@pytest.mark.parametrize(
    "changed",
    [
        {"stated": fields(tensor_parallel=8)},
        {"stated": {"tp": 8}},
        {"stated": fields(tp={"any_of": [4, 8]})},
        {"effective": fields(tp={"any_of": [4]})},
        {"effective": fields(tp=[4, 8])},
        {"ranks": {"world_size": 8}},
        {"routing": {"policy": "x", "explicit": True, "awareness": ["sticky"], "router": None}},
        {"unknown": [{"field": "model"}]},
        {"origins": {"tp": {"file": "a", "line": 0, "column": 1, "how": "stated"}}},
        {"read_at": "today"},
    ],
    ids=[
        "unknown field",
        "field left out",
        "stated alternatives",
        "one alternative",
        "bare list",
        "ranks left out",
        "unknown awareness",
        "unknown without reason",
        "line zero",
        "extra key",
    ],
)
def test_plan_off_the_contract_is_refused(changed: dict[str, Any]) -> None:
    assert not INSPECT.is_valid(document(**changed))
