"""Throughput: what adds up, what more of something does, how sure it is, what is not told."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from estimating import estimator, question
from hypothesis import given
from hypothesis import strategies as st
from shardlint.engines import builtin as engines
from shardlint.estimates import Estimate, Estimator, asked_of, estimate_record
from shardlint.plugins import Plugins
from shardlint.project import Setup
from shardlint.readers import builtin as readers
from shardlint.reports import builtin as reports
from shardlint.sizing.loads import Load, NotModelled
from shardlint.sizing.parameters import parameters, parameters_of, table
from shardlint.sizing.throughput import Throughput, Workload, requests, throughput
from shardlint_schemas import schema

WORKLOAD = {"isl": 1000, "osl": 500, "concurrency": 32}
SMALL = estimator()


@pytest.fixture(scope="module")
def real() -> Estimator:
    return Estimator(Setup(Plugins([engines, readers, reports])))


def ask(**changed: Any) -> Estimate:
    return SMALL.estimate(asked_of(question(**{**WORKLOAD, **changed})))


def told(found: Estimate) -> Throughput:
    assert isinstance(found.speed, Throughput), found.speed.why
    return found.speed


def load_of(**changed: Any) -> Load:
    found = ask(**changed)
    assert isinstance(found.load, Load)
    return found.load


def at(load: Load, isl: int, osl: int, concurrency: int | None) -> Throughput:
    found = throughput(load, Workload(isl, osl, concurrency))
    assert isinstance(found, Throughput)
    return found


# ---------------------------------------------------------------------------------- what adds up


@given(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 200_000))
def test_parts_are_the_time_of_a_request(isl: int, osl: int, concurrency: int) -> None:
    found = at(load_of(tp=2), isl, osl, concurrency)
    whole = found.batch * osl / found.tok_s
    assert math.isclose(whole, sum(found.parts.values()))
    assert math.isclose(1e3 * whole / osl, found.tpot_ms)
    assert 1 <= found.batch <= concurrency


def test_more_replicas_are_as_fast_each() -> None:
    one, many = (estimate_record(ask(replicas=replicas)) for replicas in (1, 10))
    same = ("tpot_ms", "ttft_ms", "output_tok_s_per_gpu", "batch", "bound_by", "class")
    assert [one[name] for name in same] == [many[name] for name in same]
    assert math.isclose(10 * one["output_tok_s"], many["output_tok_s"], rel_tol=1e-4)


def test_gpus_are_those_of_all_ranks(real: Estimator) -> None:
    asked = {"model": "meta-llama/Llama-3.1-70B-Instruct", "gpu": "H100", **WORKLOAD}
    found = real.estimate(asked_of({**asked, "tp": 8, "pp": 2, "dp": 4}))
    assert found.gpus == 64
    assert math.isclose(told(found).tok_s, 64 * told(found).tok_s_per_gpu)


def test_data_parallel_ranks_of_a_dense_model_are_replicas() -> None:
    one, four = told(ask()), told(ask(dp=4, concurrency=4 * 32))
    assert math.isclose(4 * one.tok_s, four.tok_s)
    assert math.isclose(one.tpot_ms, four.tpot_ms)


# ------------------------------------------------------------------------------ more of something


@given(st.integers(1, 4000), st.integers(2, 4000), st.integers(1, 2000))
def test_more_requests_give_more_tokens_more_slowly(isl: int, osl: int, many: int) -> None:
    load = load_of()
    few, more = at(load, isl, osl, many), at(load, isl, osl, 2 * many)
    assert few.tok_s <= more.tok_s * 1.000001
    assert few.tpot_ms <= more.tpot_ms * 1.000001


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 100))
def test_longer_prompts_cost(isl: int, osl: int, many: int) -> None:
    load = load_of()
    assert at(load, isl, osl, many).tok_s > at(load, 2 * isl, osl, many).tok_s


def test_requests_beyond_the_cache_wait() -> None:
    load = load_of()
    held = requests(load, 1500)
    full, over = at(load, 1000, 500, held), at(load, 1000, 500, 2 * held)
    assert (held, held) == (int(full.batch), int(over.batch))
    assert "kv_cache" == over.bound_by != full.bound_by
    assert full.tpot_ms == over.tpot_ms
    assert over.ttft_ms > 0.99 * (full.ttft_ms + 500 * full.tpot_ms)
    assert at(load, 1000, 500, None).batch == held


def test_engine_may_take_fewer_than_the_cache_holds() -> None:
    found = told(ask(max_num_seqs=8))
    assert (8, "max_num_seqs") == (found.batch, found.bound_by)


def test_low_traffic_leaves_stages_idle() -> None:
    """One request in two stages: each token passes both, and nobody uses the other one."""
    one, two = told(ask(concurrency=1)), told(ask(concurrency=1, pp=2))
    assert two.tok_s < 1.1 * one.tok_s
    assert two.tok_s_per_gpu < 0.6 * one.tok_s_per_gpu


def test_messages_are_dear_over_pcie(real: Estimator) -> None:
    shares = []
    for gpu in ("H100-SXM-80GB", "H100-PCIE-80GB"):
        asked = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": gpu, "tp": 4, **WORKLOAD}
        parts = told(real.estimate(asked_of(asked))).parts
        shares.append(parts["communication"] / sum(parts.values()))
    assert 0 < 3 * shares[0] < shares[1]


def test_cache_that_is_copied_holds_no_more(real: Estimator) -> None:
    """Eight KV heads: sixteen ranks would keep them twice; two links of eight are not modelled."""
    asked = {"model": "meta-llama/Llama-3.1-70B-Instruct", "gpu": "H100", **WORKLOAD}
    found = real.estimate(asked_of({**asked, "tp": 16}))
    assert isinstance(found.speed, NotModelled)
    assert "more than one link domain" in found.speed.why


def test_two_cards_as_one_replica_or_two(real: Estimator) -> None:
    """A model of 12B on two cards of 32 GB: sharded, the cache holds more than twice as many."""
    asked = {
        "model": "google/gemma-3-12b-it", "gpu": "RTX-5090", "max_model_len": 2048,
        "isl": 1024, "osl": 1024, "concurrency": 64,
    }  # fmt: skip
    whole = real.estimate(asked_of({**asked, "concurrency": 32, "replicas": 2}))
    halved = real.estimate(asked_of({**asked, "tp": 2}))
    one, two = estimate_record(whole), estimate_record(halved)
    assert 2 * two["kv_bytes_per_token_per_gpu"] == one["kv_bytes_per_token_per_gpu"]
    assert two["kv_cache_tokens"] > 2 * one["kv_cache_tokens"] > 0
    assert "kv_cache" == one["bound_by"]
    assert one["batch"] < 32
    assert {"weak"} == {one["class"], two["class"]}


# -------------------------------------------------------------------------------- how sure it is


@pytest.mark.parametrize(
    ("changed", "grade"),
    [
        ({}, "measured"),
        ({"tp": 8}, "measured"),
        ({"quantization": "fp8"}, "measured"),
        ({"quantization": "awq"}, "weak"),
        ({"pp": 2}, "weak"),
        ({"gpu": "A10G"}, "weak"),
        ({"gpu": "L40S", "tp": 2}, "weak"),
        ({"isl": 100_000, "max_model_len": 200_000}, "weak"),
        ({"osl": 10}, "weak"),
    ],
)
def test_class_is_that_of_what_was_measured(changed: dict[str, Any], grade: str) -> None:
    found = ask(**changed)
    record = estimate_record(found)
    assert grade == record["class"]
    assert (grade == "weak") == any("throughput is weak" in text for text in record["assumptions"])
    low, high = record["output_tok_s_range"]
    assert low < record["output_tok_s"] < high


def test_mixtures_are_weak(real: Estimator) -> None:
    asked = {"model": "Qwen/Qwen3-235B-A22B-FP8", "gpu": "H200", **WORKLOAD}
    for tp, ep in ((4, 1), (8, 8)):
        assert "weak" == told(real.estimate(asked_of({**asked, "tp": tp, "ep": ep}))).grade


def test_range_of_a_weak_number_is_wider() -> None:
    measured, weak = (table()["error"][grade]["range"] for grade in ("measured", "weak"))
    assert weak[0] < measured[0] < 1 < measured[1] < weak[1]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"isl": None}, "isl and osl are not stated"),
        ({"osl": None}, "isl and osl are not stated"),
        ({"enforce_eager": True}, "CUDA graphs"),
        ({"dcp": 2, "tp": 16}, "context parallelism"),
        ({"tp": 16}, "more than one link domain"),
        ({"gpu": "L40S", "tp": 16}, "more than one link domain"),
        ({"gpu": None, "gpu_mem_gib": 80}, "the rates of a card are not known"),
        ({"gpu": "TPU-v5e"}, "are not known"),
        ({"isl": 50_000}, "longer than the longest"),
        ({"tp": 3}, "the engine does not take this layout"),
        ({"gpu_mem_gib": 2}, "does not fit"),
    ],
)
def test_what_is_not_modelled_has_no_number(changed: dict[str, Any], why: str) -> None:
    found = ask(**changed)
    assert isinstance(found.speed, NotModelled)
    assert why in found.speed.why
    record = estimate_record(found)
    numbers = ("ttft_ms", "tpot_ms", "output_tok_s", "output_tok_s_range", "output_tok_s_per_gpu",
               "batch", "bound_by")  # fmt: skip
    assert {None} == {record[name] for name in numbers}
    assert "not_modelled" == record["class"]
    jsonschema.validate(record, schema("estimate"))


def test_question_without_a_workload_is_not_told_why() -> None:
    record = estimate_record(ask(isl=None, osl=None, concurrency=None))
    assert not any("throughput" in text for text in record["assumptions"])


def test_longest_request_that_is_not_stated_is_that_of_the_workload(real: Estimator) -> None:
    """A default that does not fit says nothing of a server that is asked for less."""
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "H100", "quantization": "fp8", "gpu_mem_gib": 40,
             **WORKLOAD}  # fmt: skip
    open_ = real.estimate(asked_of(asked))
    assert "does_not_fit" == open_.verdict
    assert told(open_).batch >= 1
    assert any("the longest request is taken" in text for text in open_.assumptions)
    stated = real.estimate(asked_of({**asked, "max_model_len": 40_960}))
    assert isinstance(stated.speed, NotModelled)
    assert "does_not_fit" == stated.verdict


# --------------------------------------------------------------------------------- the parameters


def test_file_is_as_its_schema_says() -> None:
    jsonschema.Draft202012Validator(schema("throughput")).validate(table())
    jsonschema.Draft202012Validator.check_schema(schema("throughput"))


def test_parameters_are_within_their_bounds() -> None:
    for name, item in table()["parameters"].items():
        low, high = item.get("range", (0, math.inf))
        assert low <= item["value"] <= high, name


def test_parameters_are_read_by_name() -> None:
    flat = {name: item["value"] for name, item in table()["parameters"].items()}
    assert parameters_of(flat) == parameters()
    slow = replace(parameters(), weights_rate=parameters().weights_rate / 2)
    load = load_of()
    workload = Workload(100, 100, 1)
    fast, found = throughput(load, workload), throughput(load, workload, slow)
    assert isinstance(fast, Throughput)
    assert isinstance(found, Throughput)
    assert found.tok_s < fast.tok_s


def test_one_call_takes_microseconds() -> None:
    load, workload, values = load_of(), Workload(1000, 500, 32), parameters()
    least = math.inf
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(20):
            throughput(load, workload, values)
        least = min(least, (time.perf_counter() - start) / 20)
    assert least < 200e-6
