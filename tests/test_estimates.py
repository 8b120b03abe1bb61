"""Estimates: what a question means, what the answer holds together, and lines of any kind."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import pytest
from estimating import ALIKE, BESIDE, GIB, LENGTH, MIB, MODEL, SHARE, estimator, question
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlint.estimates import (
    Estimate,
    EstimateError,
    Estimator,
    apportioned,
    asked_of,
    estimate_record,
)
from shardlint.estimates.asked import KEYS, READERS
from shardlint.estimates.batch import answers
from shardlint.estimates.lookups import release_of, release_within
from shardlint.plan import Releases
from shardlint_schemas import schema

SCHEMA = jsonschema.Draft202012Validator(schema("estimate"))
CARD = 81080 * MIB
"""An H100-SXM-80GB as engines see it."""


@pytest.fixture(scope="module")
def shared_estimator() -> Estimator:
    return estimator()


@pytest.fixture
def ask(shared_estimator: Estimator) -> Any:
    def ask(**changed: Any) -> Estimate:
        return shared_estimator.estimate(asked_of(question(**changed)))

    return ask


def refused(shared_estimator: Estimator, **changed: Any) -> str:
    with pytest.raises(EstimateError) as error:
        shared_estimator.estimate(asked_of(question(**changed)))
    return str(error.value)


# ------------------------------------------------------------------------------------- the answer


@pytest.mark.parametrize(
    "changed",
    [{}, {"tp": 8}, {"tp": 2, "pp": 2}, {"dp": 4}, {"quantization": "fp8"}, {"gpu_mem_gib": 3}],
)
def test_parts_add_up_to_the_card(ask: Any, changed: dict[str, Any]) -> None:
    found = ask(**changed)
    total = int(changed["gpu_mem_gib"] * GIB) if "gpu_mem_gib" in changed else CARD
    assert total == found.made.total == sum(found.made.breakdown.values())
    printed = estimate_record(found)["breakdown"]
    assert math.isclose(round(total / GIB, 4), sum(printed.values()), abs_tol=1e-9)


def test_every_byte_is_where_the_facts_put_it(ask: Any) -> None:
    """Weights by their elements, the rest by the rules, and the cache what the share leaves."""
    found = ask()
    elements = sum(block.elements for block in MODEL.weights)
    assert abs(found.made.weights.bytes - 2 * elements) < 0.01 * elements  # the vocabulary's pad
    used = BESIDE.context + BESIDE.collectives + BESIDE.activations + BESIDE.graphs + BESIDE.rest
    assert int(CARD * SHARE) - found.made.weights.bytes - used == found.made.kv
    assert found.made.kv < ask(enforce_eager=True).made.kv


def test_tokens_are_those_of_the_bytes(ask: Any) -> None:
    found = ask(tp=2)
    record = estimate_record(found)
    per_token = record["kv_bytes_per_token_per_gpu"]
    assert MODEL.kv_groups[0].bytes_per_token(2) == per_token
    assert abs(record["kv_cache_tokens"] * per_token - found.made.kv) < 20 * per_token
    concurrency = record["kv_cache_tokens"] / LENGTH
    assert math.isclose(concurrency, record["max_concurrency"], abs_tol=0.01)


def test_replica_has_a_cache_for_each_data_parallel_rank(ask: Any) -> None:
    one, many = ask(), ask(dp=2, attention_dp=4)
    tokens = one.made.tokens
    record = estimate_record(many)
    assert (8, 8) == (many.gpus, many.dp_ranks)
    assert (tokens, 8 * tokens) == (record["kv_cache_tokens"], record["kv_cache_tokens_replica"])
    assert math.isclose(8 * one.requests(1024), many.requests(1024))


@pytest.mark.parametrize(
    ("sizes", "gpus"),
    [
        ({"tp": 8}, 8),
        ({"tp": 2, "pp": 2}, 4),
        ({"tp": 2, "dp": 4}, 8),
        ({"tp": 2, "pp": 2, "dp": 2, "attention_dp": 2}, 16),
        ({"tp": 4, "ep": 4, "dcp": 2}, 4),
    ],
)
def test_gpus_are_the_product(ask: Any, sizes: dict[str, int], gpus: int) -> None:
    assert gpus == ask(**sizes).gpus


def test_longest_context_is_bounded_by_cache_and_model(ask: Any) -> None:
    assert MODEL.longest_context == ask().max_context
    small = ask(gpu_mem_gib=5.0)
    need, kv = small.made.cache.need(small.max_context), small.made.kv
    assert need <= kv < small.made.cache.need(small.max_context + 16)


def test_verdict_leaves_room_for_the_band(ask: Any) -> None:
    """From too small to large enough, by the definition of each word, and each once."""
    seen = []
    for tenths in range(20, 150):
        found = ask(gpu_mem_gib=tenths / 10)
        slack = found.made.kv - found.made.need
        sure = "fits" if slack >= found.band.below else "does_not_fit"
        unsure = -found.band.above <= slack < found.band.below
        assert ("tight" if unsure else sure) == found.verdict
        assert (slack >= 0) == found.fits
        if found.verdict not in seen[-1:]:
            seen.append(found.verdict)
    assert ["does_not_fit", "tight", "fits"] == seen


def test_record_is_as_its_schema_says(ask: Any) -> None:
    for changed in ({}, {"gpu_mem_gib": 1}, {"kv_cache_dtype": "mystery"}, {"dp": 2}):
        SCHEMA.validate(estimate_record(ask(**changed), "an id"))


def test_cache_that_is_not_known_has_no_tokens(ask: Any) -> None:
    record = estimate_record(ask(kv_cache_dtype="mystery"))
    unknown = ["kv_bytes_per_token_per_gpu", "kv_cache_tokens", "kv_cache_tokens_replica",
               "max_concurrency", "max_context"]  # fmt: skip
    assert {None} == {record[name] for name in unknown}
    assert record["kv_cache_gib_per_gpu"] > 0
    assert any("the layout of the KV cache is not known" in text for text in record["assumptions"])
    assert "other" == record["band"]["models"]


# ---------------------------------------------------------------------------------- what it takes


def test_what_is_stated_is_not_assumed(ask: Any) -> None:
    assert () == ask().assumptions


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"engine_version": None}, "the release of vLLM is not stated: 0.18.0 is taken"),
        ({"engine_version": "nightly"}, "vLLM 'nightly' is not known: 0.18.0 is taken"),
        ({"gpu": "A100"}, "A100 is read as A100-SXM-40GB"),
        ({"gpu": "A100", "gpu_mem_gib": 79}, "A100 is read as A100-SXM-80GB"),
        ({"gpu": "Frob 9", "gpu_mem_gib": 40}, "nothing but its memory is known of the card"),
        ({"model": "TINY-1B"}, "TINY-1B is read as acme/tiny-1b"),
        ({"model": "Tiny 1B (from the title)"}, "Tiny-1B is read as acme/tiny-1b"),
        ({"model": "acme/endless-1b"}, "the longest request is not known: 8,192 tokens are taken"),
        ({"model": "acme/endless-1b", "isl": 9000}, "not known: 9,000 tokens are taken"),
        ({"model": "acme/positions-1b"}, "to have the model's 4,096 positions"),
        ({"model": "acme/guessed-1b"}, "its width is a guess"),
        ({"quantization": "exl3"}, "quantization 'exl3' is not known: the checkpoint's own"),
        ({"quantization": "fp8"}, "all matrices that can be are taken to be stored as 'fp8' says"),
        ({"dtype": "int9"}, "dtype 'int9' is not known: 16 bits are taken"),
        ({"mem_fraction_static": 0.8}, "mem_fraction_static means nothing to this engine"),
        ({"tp": 3}, "not take this layout (tp-heads-indivisible: attention heads, 32 and 3)"),
        ({"tp": 4, "ep": 2}, "EP reaches 4 ranks, not EP 2"),
    ],
)
def test_what_is_assumed_is_said(ask: Any, changed: dict[str, Any], sentence: str) -> None:
    assert any(sentence in text for text in ask(**changed).assumptions), ask(**changed).assumptions


def test_words_that_say_what_the_checkpoint_says_change_nothing(ask: Any) -> None:
    own = ask(model="acme/tiny-1b-FP8")
    for words in ("fp8", "compressed-tensors", "modelopt fp8"):
        found = ask(model="acme/tiny-1b-FP8", quantization=words)
        assert own.made == found.made
        assert found.made.settings.quantization is None


def test_bare_name_prefers_a_model_whose_facts_are_certain(ask: Any) -> None:
    assert ALIKE.id < MODEL.id
    assert MODEL.id == ask(model="tiny-1b").model.id


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("DGX Spark GB10", "GB10-DGX-Spark"),
        ("NVIDIA L40S (a remark)", "L40S"),
        ("l40s", "L40S"),
        ("H100-SXM-80GB:8", "H100-SXM-80GB"),
    ],
)
def test_card_may_be_written_in_other_ways(ask: Any, written: str, name: str) -> None:
    assert name == ask(gpu=written).device.name


def test_folder_is_a_model(ask: Any, tmp_path: Any, shared_estimator: Estimator) -> None:
    """Its matrices may not be known yet: then that is what is said."""
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for path in (tmp_path, tmp_path / "config.json"):
        try:
            assert 2 == ask(model=str(path)).model.num_layers
        except EstimateError as error:
            assert "matrix by matrix" in str(error)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": None}, "model is not stated"),
        ({"gpu": None}, "gpu is not stated"),
        ({"model": "acme/nobody-has-this"}, "neither in the catalogue nor a path"),
        ({"model": "\0"}, "neither in the catalogue nor a path"),
        ({"model": "m" * 5000}, "neither in the catalogue nor a path"),
        ({"model": "acme/bare-1b"}, "the weights of acme/bare-1b are not known"),
        ({"gpu": "Frob 9"}, "gpu: 'Frob 9' is not in the hardware table"),
        ({"gpu": "H100:x"}, "gpu: "),
        ({"engine": "nope"}, "engine: 'nope' is not known"),
        ({"engine": "tgi"}, "memory of TGI is not modelled"),
        ({"pp": 5}, "pp: 5 stages for 4 layers"),
        ({"tp": "many"}, "tp: 'many' is not a whole number from 1"),
        ({"tp": 0}, "tp: 0 is not a whole number from 1"),
        ({"tp": 1.5}, "tp: 1.5 is not a whole number"),
        ({"tp": True}, "tp: True is not a whole number"),
        ({"tp": [8]}, "tp: [8] is not a whole number"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization: 1.5 is not a share"),
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization: 0 is not a share"),
        ({"gpu_mem_gib": -1}, "gpu_mem_gib: -1 is not a size in GiB"),
        ({"gpu_mem_gib": float("inf")}, "gpu_mem_gib: inf is not a size in GiB"),
        ({"enforce_eager": "maybe"}, "enforce_eager: 'maybe' is not true or false"),
        ({"model": 7}, "model: 7 is not text"),
        ({"quantization": {"bits": 8}}, "quantization: {'bits': 8} is not text"),
    ],
)
def test_what_cannot_be_meant_is_an_error(
    shared_estimator: Estimator, changed: dict[str, Any], message: str
) -> None:
    assert message in refused(shared_estimator, **changed)


def test_values_may_be_written_in_other_types() -> None:
    plain = asked_of(question(tp=8, max_model_len=32768, enforce_eager=True, gpu_mem_gib=80.0))
    other = asked_of(
        question(tp="8", max_model_len="32,768", enforce_eager="true", gpu_mem_gib="80")
    )
    assert plain == other == asked_of(question(
        tp=8.0, max_model_len=32768.0, enforce_eager=1, gpu_mem_gib=80, frobnicate=[1]
    ))  # fmt: skip
    assert "0.11" == asked_of(question(engine_version=0.11)).engine_version
    for nothing in (None, "", "null", "None", float("nan")):
        assert asked_of(question(tp=nothing)).tp is None
    assert (True, True, 4) == tuple(asked_of(question(ep=ep)).ep for ep in (True, "yes", "4"))


def test_every_key_has_a_reader() -> None:
    assert set(KEYS) == set(READERS)


# --------------------------------------------------------------------------------------- releases

KNOWN = ("0.6.0", "0.8.5.post1", "0.10.2", "0.11.0", "0.11.2", "0.33.0")


@pytest.mark.parametrize(
    ("text", "release", "silent"),
    [
        ("0.11.2", "0.11.2", True),
        ("v0.11.0", "0.11.0", True),
        ("0.8.5.post1", "0.8.5.post1", True),
        ("0.11.0+rocm700", "0.11.0", True),
        ("0.11.0 (ROCm 6.4.1)", "0.11.0", True),
        ("v0.11.2-x86_64", "0.11.2", True),
        ("0.11.0rc1.dev2+g1234567", "0.11.0", False),
        ("0.11.2.dev278+gdbc3d9991.rocm700", "0.11.2", False),
        ("0.11.1", "0.11.1", False),
        ("0.10", "0.10", False),
        ("0.8.5", "0.8.5", False),
        ("0.5.4", "0.6.0", False),
        ("0.40.1", "0.33.0", False),
        ("25.09", "0.11.0", False),
        ("latest", "0.11.0", False),
        ("main-2024", "0.11.0", False),
        ("0.1.dev1+gabc", "0.11.0", False),
        ("", "0.11.0", False),
        (None, "0.11.0", False),
    ],
)
def test_version_is_a_release_or_the_nearest_before_it(
    text: str | None, release: str, silent: bool
) -> None:
    found, said = release_of(KNOWN, text, "vLLM")
    assert (release, silent) == (found, not said)


def test_span_of_releases_is_its_middle() -> None:
    assert ("0.11.2", ()) == release_within(KNOWN, [Releases("0.11.2", "0.11.2")], "vLLM")
    found, said = release_within(KNOWN, [Releases("0.6.0", "0.11.0")], "vLLM")
    assert ("0.10.2", ("vLLM 0.10.2 is taken for 0.6.0 to 0.11.0",)) == (found, said)


# --------------------------------------------------------------------------------------- rounding


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=9), st.sampled_from([1, 100, 10**4]))
def test_rounded_parts_add_up(sizes: list[int], per: int) -> None:
    parts = {str(at): size for at, size in enumerate(sizes)}
    found = apportioned(parts, GIB, per)
    assert sum(found.values()) == math.floor(sum(sizes) * per / GIB + 0.5)
    assert all(abs(found[name] - parts[name] * per / GIB) <= 1 for name in parts)


def test_part_below_zero_is_rounded_with_the_others() -> None:
    parts = {"weights": 3 * GIB + 7, "unused": -GIB - 3}
    assert {"weights": 300, "unused": -100} == apportioned(parts, GIB, 100)


# ------------------------------------------------------------------------------------------ lines


def batch(shared_estimator: Estimator, *lines: bytes, **stated: Any) -> list[dict[str, Any]]:
    found = list(answers(lines, shared_estimator, stated))
    for answer in found:
        SCHEMA.validate(json.loads(json.dumps(answer, allow_nan=False)))
    return found


def test_line_by_line_with_its_id(shared_estimator: Estimator) -> None:
    lines = [json.dumps(question(id=id)).encode() + b"\n" for id in (7, "a", None, [1, {"b": 2}])]
    found = batch(shared_estimator, *lines)
    assert [7, "a", None, [1, {"b": 2}]] == [answer["id"] for answer in found]
    assert len({json.dumps({**answer, "id": None}) for answer in found}) == 1


@pytest.mark.parametrize(
    ("line", "id", "message"),
    [
        (b"{", None, "the line is not JSON"),
        (b"\xff\xfe", None, "the line is not JSON"),
        (b"[" * 100_000, None, "the line is nested too deep"),
        (b"[1]", None, "the line is not a JSON object"),
        (b'"x"', None, "the line is not a JSON object"),
        (b"{}", None, "model is not stated"),
        (b'{"id": 5, "model": "acme/tiny-1b"}', 5, "gpu is not stated"),
        (b'{"id": 5, "model": "acme/tiny-1b", "gpu": "H100", "tp": {}}', 5, "tp: {} is not a"),
        (b'{"id": 1e999, "model": 1}', None, "model: 1 is not text"),
        (b'{"a": "' + b"x" * 2**20 + b'"}', None, "the line is longer than 1 MiB"),
    ],
)
def test_broken_line_is_an_error_line(
    shared_estimator: Estimator, line: bytes, id: Any, message: str
) -> None:
    good = json.dumps(question()).encode()
    broken, whole = batch(shared_estimator, line, b"\n", good)
    assert id == broken["id"]
    assert broken["error"].startswith(message)
    assert "error" not in whole


def test_nan_and_null_are_not_stated(shared_estimator: Estimator) -> None:
    line = b'{"model": "acme/tiny-1b", "gpu": "H100-SXM-80GB", "tp": NaN, "pp": null, "id": NaN}'
    (found,) = batch(shared_estimator, line)
    assert found["fits"]
    assert found["id"] is None


def test_options_stand_in_where_a_line_says_nothing(shared_estimator: Estimator) -> None:
    line = json.dumps({"model": "acme/tiny-1b", "tp": 2}).encode()
    (found,) = batch(shared_estimator, line, gpu="H100-SXM-80GB", tp=4, engine_version="0.11.2")
    whole = shared_estimator.estimate(asked_of(question(tp=2)))
    assert estimate_record(whole) == found


def test_line_that_breaks_something_is_an_error_line(
    shared_estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_estimator, "estimate", lambda _asked: 1 / 0)
    (found,) = batch(shared_estimator, json.dumps(question(id=3)).encode())
    assert {"schema_version": 1, "id": 3, "error": "ZeroDivisionError: division by zero"} == found


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["8", "fp8", "H100", "true", "0.9", "1e400", "-1", "0.11.2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=5))
def test_any_values_lead_to_an_answer(shared_estimator: Estimator, changed: dict[str, Any]) -> None:
    """A result or a reason; the fence around a line is for what nobody thought of, and not used."""
    try:
        found = shared_estimator.estimate(asked_of(question(**changed)))
    except EstimateError as error:
        assert str(error)
        assert "\n" not in str(error)
        return
    SCHEMA.validate(json.loads(json.dumps(estimate_record(found), allow_nan=False)))
