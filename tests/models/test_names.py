"""The name of a derivative leads to the shape of its base, or to nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shardlint.models.catalogue import DATA, Catalogue, shape
from shardlint.models.names import is_fine_tune, quantization_of, stripped
from shardlint.plan import ModelFacts

CATALOGUE = Catalogue()
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


def guess(name: str) -> ModelFacts:
    facts = CATALOGUE.guess(name)
    assert facts is not None
    return facts


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (f"org/Llama-3.1-70B-Instruct{suffix}", LLAMA_70B)
        for suffix in (
            "-AWQ", "-GPTQ-Int4", "-FP8", "-FP8-dynamic", "-FP8-KV", "-NVFP4", "-W4A16",
            "-W4A16-G128", "-bnb-4bit", "-unsloth-bnb-4bit", "-GGUF", "-Q4_K_M-GGUF", "-AWQ-INT4",
            "-quantized.w8a8", "-4bit", "-mlx-8bit", "-BF16", "-autoround-int4", "-MXFP4", "",
        )
    ]
    + [
        ("unsloth/Qwen3-8B-bnb-4bit", "Qwen/Qwen3-8B"),
        ("nvidia/Qwen3-8B-FP4", "Qwen/Qwen3-8B"),
        ("acme/qwen3-8b-awq", "Qwen/Qwen3-8B"),
        ("Qwen3-8B", "Qwen/Qwen3-8B"),
        ("acme/DeepSeek-R1-AWQ", "deepseek-ai/DeepSeek-R1"),
        ("acme/Qwen3-8B-finance-v2", "Qwen/Qwen3-8B"),
        ("acme/Qwen2.5-7B-Instruct-abliterated-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct"),
        ("hf://acme/Qwen3-8B-AWQ:main", "Qwen/Qwen3-8B"),
        ("/models/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("pvc://models/Qwen3-8B-FP8-KV", "Qwen/Qwen3-8B"),
        ("./weights/qwen3-8b-awq/", "Qwen/Qwen3-8B"),
        ("/models/Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B"),
    ],
)  # fmt: skip
def test_name_leads_to_its_base(name: str, base: str) -> None:
    known = CATALOGUE.lookup(base)
    assert known is not None
    assert CATALOGUE.lookup(name) is None
    facts = guess(name)
    assert shape(known) == shape(facts)
    assert facts.assumed[0].startswith("the shape of ")
    assert facts.assumed[0].endswith(", guessed from the name")


def test_guess_is_never_certain() -> None:
    facts = guess("acme/Qwen3-8B-AWQ")
    assert ("acme/Qwen3-8B-AWQ", "name", None, ()) == (
        facts.id,
        facts.provenance,
        facts.quantization,
        facts.confirmed,
    )
    assert facts.doubts(("attention_heads",))


def test_guess_on_an_assumed_base_keeps_its_reasons() -> None:
    assert "shape inferred" in guess("acme/gpt2-xl-GPTQ").assumed


@pytest.mark.parametrize(
    "name",
    [
        "acme/DeepSeek-R1-Distill-Foo-9B",  # a distillation has the shape of the student
        "acme/DeepSeek-R1-finetune",  # a name without a size may be that of a family
        "acme/Qwen3-8B-VL",
        "acme/Qwen3-8B-distill-llama",
        "acme/Qwen3-8B-2x8B",
        "acme/Qwen3-8B-eagle3",
        "acme/Qwen3-8B-draft-AWQ",
        "acme/Qwen3-8B-pruned-6B",
        "acme/Qwen3-8B-lora",
        "acme/Qwen3-8Bit",
        "acme/Qwen3-18B",
        "acme/Qwen3",
        "acme/Qwen3-8B-one-two-three-four-five",
        "acme/llama",
        "acme/private-model",
        "acme/AWQ",
        "/models/Qwen3-8B-finance",
        "/models/Qwen3-8B/checkpoint-100",
        "/models",
        "/",
        "s3://Qwen3-8B/model",
        "",
    ],
)
def test_name_that_says_something_else_leads_nowhere(name: str) -> None:
    assert CATALOGUE.guess(name) is None


def test_bases_of_different_shapes_lead_nowhere() -> None:
    records = json.loads(DATA.read_bytes())["models"]
    two = [{"id": "a/twin-7B", "base": next(iter(records))}]
    ambiguous = Catalogue(entries=two)
    ambiguous._data["models"] |= {
        "a/same-7B": {"provenance": "config.json", "num_layers": 4},
        "b/same-7B": {"provenance": "config.json", "num_layers": 5},
        "a/alike-7B": {"provenance": "inferred", "num_layers": 4, "assumed": ["shape inferred"]},
        "b/alike-7B": {"provenance": "config.json", "num_layers": 4},
    }
    assert ambiguous.guess("c/same-7B-AWQ") is None
    found = ambiguous.guess("c/alike-7B-AWQ")
    assert found is not None
    assert ("the shape of b/alike-7B, guessed from the name",) == found.assumed


@pytest.mark.parametrize("id", sorted(json.loads(DATA.read_bytes())["models"])[::7])
def test_packing_a_known_model_keeps_its_shape_or_leads_nowhere(id: str) -> None:
    """What is guessed for a repacked checkpoint is what is known of the plain one."""
    known = CATALOGUE.lookup(id)
    assert known is not None
    found = CATALOGUE.guess(f"acme/{id.rsplit('/')[-1]}-GGUF")
    assert found is None or shape(found) == shape(known)


def test_guesses_agree_with_what_was_found_out(shared: Path) -> None:
    """Models of the cases that are not in the catalogue: their facts were read somewhere else."""
    from ruamel.yaml import YAML

    cases = YAML(typ="safe").load(shared / "cases" / "cases.yaml")["cases"]
    runs = [case["run"] for case in cases if case.get("run")]
    stated = [run["model_facts"] for run in runs if run.get("model_facts")]
    compared, differing = 0, []
    for told in stated:
        facts = CATALOGUE.lookup(told["id"]) or CATALOGUE.guess(told["id"])
        for name in SHAPE_OF_CASES if facts is not None else ():
            ours = getattr(facts, name)
            if name in told and ours is not None:
                compared += 1
                differing += [(told["id"], name)] if ours != told[name] else []
    assert compared >= 40
    assert [] == differing


SHAPE_OF_CASES = (
    "attention_heads",
    "kv_heads",
    "head_dim",
    "num_layers",
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "num_experts",
)


# ---------------------------------------------------------------------------------- quantization


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("a/Qwen3-8B-AWQ", {"method": "awq", "bits": 4, "group_size": 128}),
        ("a/Qwen3-8B-GPTQ-Int4", {"method": "gptq", "bits": 4}),
        ("a/Qwen3-8B-GPTQ-Int8", {"method": "gptq", "bits": 8}),
        ("a/Qwen3-8B-FP8", {"method": "fp8", "bits": 8}),
        ("a/Qwen3-8B-FP8-dynamic", {"method": "fp8", "bits": 8}),
        (
            "a/Qwen3-8B-NVFP4",
            {"method": "modelopt", "quant_algo": "NVFP4", "bits": 4, "group_size": 16},
        ),
        ("a/Qwen3-8B-W4A16", {"method": "compressed-tensors", "type": "int", "bits": 4}),
        ("a/Qwen3-8B-bnb-4bit", {"method": "bitsandbytes", "bits": 4}),
        ("a/Qwen3-8B-GGUF", {"method": "gguf"}),
        ("a/Qwen3-8B-Q6_K-GGUF", {"method": "gguf", "bits": 6}),
        ("a/Qwen3-8B-MXFP4", {"method": "mxfp4", "bits": 4, "group_size": 32}),
        ("a/Qwen3-8B-int8", {"method": "unknown", "bits": 8}),
        ("a/Qwen3-8B-BF16", {}),
        ("a/Qwen3-8B-FP8-bf16", {"method": "fp8", "bits": 8}),
        ("a/Qwen3-8B-bf16-GGUF", {"method": "gguf"}),
        ("a/Qwen3-8B", None),
        ("a/awq-chat-8B", None),
    ],
)
def test_name_says_how_weights_are_stored(name: str, scheme: dict[str, object] | None) -> None:
    assert scheme == quantization_of(name)


def test_guess_of_the_catalogue_knows_names_that_are_not_in_it() -> None:
    assert {"method": "gptq", "bits": 4} == CATALOGUE.assumed_quantization("acme/x-GPTQ-Int4")
    assert CATALOGUE.assumed_quantization("acme/x") is None


# ---------------------------------------------------------------------------------------- junk


@given(st.text(max_size=120))
def test_any_text_is_no_more_than_a_guess(name: str) -> None:
    facts = CATALOGUE.guess(name)
    assert facts is None or facts.assumed
    quantization_of(name)


@given(st.text("abcQ348.-_wafpint", max_size=60))
def test_words_are_taken_off_the_end_only(name: str) -> None:
    names = list(stripped(name))
    assert all(name.startswith(shorter) for shorter in names)
    assert sorted(names, key=len, reverse=True) == names


@given(st.text("abc8b-_ 7", max_size=40), st.text("abc8b-_ 7", max_size=20))
def test_a_fine_tune_has_the_name_of_its_base_in_front(name: str, base: str) -> None:
    assert not is_fine_tune(name, base) or name.startswith(base)
