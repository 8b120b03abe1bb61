"""TGI: the number of shards, what it is refused for, and how it is told by variables."""

from __future__ import annotations

from typing import Any

import pytest
from harness import check, places, project

IMAGE = "ghcr.io/huggingface/text-generation-inference"
LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct"


def findings(text: str, *names: str, file: str = "script.sh", **told: Any) -> list[Any]:
    found = check(text, file, **told).findings
    return [(f.name, f.severity) for f in found if not names or f.name in names]


def launcher(options: str, tag: str = "3.3.5") -> str:
    return f"docker run --gpus all {IMAGE}:{tag} {options}\n"


MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: tgi}}
spec:
  template:
    spec:
      containers:
      - name: tgi
        image: {image}
        env:
        - name: MODEL_ID
          value: {model}
        {env}
        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
"""


def manifest(gpus: int = 4, image: str = f"{IMAGE}:3.3.5", model: str = LLAMA, **env: str) -> str:
    rows = "\n        ".join(f'- {{name: {name}, value: "{value}"}}' for name, value in env.items())
    return MANIFEST.format(gpus=gpus, image=image, model=model, env=rows or "- {name: A, value: b}")


# ---------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    ("model", "shards", "rule"),
    [
        ("tiiuae/falcon-7b-instruct", 2, "tp-heads-indivisible"),
        (QWEN, 8, "tp-heads-indivisible"),
        (LLAMA, 16, "tp-kv-heads-indivisible"),
        (QWEN, 7, "tp-kv-heads-indivisible"),
    ],
)
def test_heads_that_do_not_divide_over_shards_are_an_error(
    model: str, shards: int, rule: str
) -> None:
    text = launcher(f"--model-id {model} --num-shard {shards}")
    assert (rule, "error") in findings(text, rule)


def test_kv_heads_are_copied_by_nobody() -> None:
    """Where vLLM copies them, TGI is left with a shape that does not fit."""
    text = launcher(f"--model-id {LLAMA} --num-shard 16")
    (finding,) = [f for f in check(text).findings if f.name == "tp-kv-heads-indivisible"]
    assert "8 KV heads do not divide over 16 shards, and none of them is copied" in finding.message
    assert [] == findings(launcher(f"--model-id {LLAMA} --num-shard 8"), "tp-kv-heads-indivisible")


def test_a_single_kv_head_is_whole_on_every_shard() -> None:
    text = launcher("--model-id google/gemma-2b-it --num-shard 8")
    assert [("kv-replication", "warning")] == findings(
        text, "kv-replication", "tp-kv-heads-indivisible"
    )


def test_types_of_models_without_a_class_of_its_own_are_not_judged() -> None:
    text = launcher("--model-id Qwen/Qwen3-30B-A3B --num-shard 8")
    assert [] == findings(text, "tp-heads-indivisible", "tp-kv-heads-indivisible")


def test_the_vocabulary_was_cut_evenly_in_old_releases() -> None:
    models = {"org/odd": {"attention_heads": 40, "kv_heads": 40, "vocab_size": 30003}}
    for tag, wanted in (("0.9.1", 1), ("0.9.2", 0), ("3.3.5", 0), ("latest", 1)):
        text = launcher("--model-id org/odd --num-shard 2", tag)
        found = findings(text, "shard-dim-indivisible", models=models)
        assert wanted == len(found), tag
    assert [("shard-dim-indivisible", "warning")] == found


@pytest.mark.parametrize(
    "options",
    [
        "--max-input-tokens 4096 --max-total-tokens 4096",
        "--max-input-length 5000 --max-total-tokens 4096",
        "--max-input-tokens 100 --max-input-length 100",
        "--max-total-tokens 8192 --max-batch-total-tokens 4096",
        "--sharded true --num-shard 1",
        "--quantize exl2 --num-shard 2",
        "--quantize awq --dtype float16",
    ],
)
def test_options_that_contradict_each_other_are_an_error(options: str) -> None:
    text = launcher(f"--model-id {LLAMA} {options}")
    assert [("flag-conflict", "error")] == findings(text, "flag-conflict")


@pytest.mark.parametrize(
    "options",
    [
        "--max-input-tokens 4095 --max-total-tokens 4096",
        "--max-total-tokens 4096 --max-batch-total-tokens 4096",
        "--sharded true --num-shard 2",
        "--quantize bitsandbytes-nf4 --dtype float16 --num-shard 2",
        "--max-input-tokens $LONGEST --max-total-tokens 10",
    ],
)
def test_options_that_agree_are_no_finding(options: str) -> None:
    assert [] == findings(launcher(f"--model-id {LLAMA} {options}"), "flag-conflict")


def test_two_names_of_one_length_are_refused_since_there_are_two() -> None:
    text = launcher(f"--model-id {LLAMA} --max-input-length 100", "1.4.5")
    assert [] == findings(text, "flag-conflict", "flag-deprecated")


def test_more_shards_than_gpus() -> None:
    assert [("gpu-count-short", "error")] == findings(
        manifest(2, NUM_SHARD="4"), "gpu-count-short", file="m.yaml"
    )


# --------------------------------------------------------------------------------- how it is told


def test_variables_state_what_options_do() -> None:
    plan = project(
        manifest(4, NUM_SHARD="2", MAX_TOTAL_TOKENS="4096", QUANTIZE="awq"), "m.yaml"
    ).plans[0]
    assert (LLAMA, 2, 4096, "awq") == (
        plan.model.only, plan.layout.tp.only, plan.memory.max_model_len.only,
        plan.memory.quantization.only,
    )  # fmt: skip


def test_lengths_in_variables_are_held_against_each_other() -> None:
    text = manifest(1, MAX_INPUT_LENGTH="4096", MAX_TOTAL_TOKENS="4096")
    assert [("flag-conflict", "error")] == findings(text, "flag-conflict", file="m.yaml")


def test_a_variable_is_edited_where_it_stands() -> None:
    text = manifest(4, NUM_SHARD="3")
    result = check(text, "m.yaml")
    (finding,) = [f for f in result.findings if f.name == "tp-heads-indivisible"]
    shards = text.index('"3"') + 1
    changed = {
        edit.text for fix in finding.fixes for edit in fix.edits if edit.span.start == shards
    }
    assert changed
    assert changed <= {"1", "2", "4"}


def test_without_a_number_it_takes_every_gpu() -> None:
    plan = project(manifest(4), "m.yaml").plans[0]
    assert (4, "derived") == (plan.effective.tp.only, plan.effective.tp.how)
    alone = project(manifest(4, SHARDED="false"), "m.yaml").plans[0]
    assert 1 == alone.effective.tp.only
    assert [("gpu-count-surplus", "warning")] == findings(
        manifest(4, SHARDED="false"), "gpu-count-surplus", file="m.yaml"
    )


def test_all_gpus_can_be_too_many_shards() -> None:
    text = manifest(8, model=QWEN)
    found = findings(text, "tp-heads-indivisible", file="m.yaml")
    assert [("tp-heads-indivisible", "error")] == found


def test_a_number_counts_although_sharding_is_off() -> None:
    command = launcher(f"--model-id {LLAMA} --sharded false --num-shard 4")
    found = [f for f in check(command).findings if f.name == "value-conflict"]
    assert [("value-conflict", "warning", "false")] == [
        (name, severity, token.split()[-1]) for name, severity, token in places(found, command)
    ]


def test_the_release_can_stand_in_the_name_of_the_image() -> None:
    image = (
        "us-docker.pkg.dev/deeplearning-platform-release/gcr.io/"
        "huggingface-text-generation-inference-cu121.2-1.ubuntu2204.py310"
    )
    plan = project(manifest(2, image), "m.yaml").plans[0]
    assert "2-1" == plan.tag.only
    assert "2.1.0 to 2.1.1" == str(plan.versions.only)


# ------------------------------------------------------------------------------ what became of it


def test_that_it_is_not_kept_up_is_told_once_and_quietly() -> None:
    command = launcher(f"--model-id {LLAMA}")
    found = [f for f in check(command).findings if f.name == "engine-eol"]
    assert ["TGI is in maintenance mode since 2025-12-11"] == [f.message for f in found]
    assert [("info", IMAGE)] == [
        (f.severity, command[f.span.start : f.span.end].partition(":")[0]) for f in found
    ]


def test_an_old_name_is_replaced_safely() -> None:
    command = launcher(f"--model-id {LLAMA} --max-input-length 100 --max-total-tokens 200")
    (finding,) = [f for f in check(command).findings if f.name == "flag-deprecated"]
    (fix,) = finding.fixes
    assert ("safe", "--max-input-tokens") == (fix.applicability, fix.edits[0].text)
    assert "--max-input-length" == command[fix.edits[0].span.start : fix.edits[0].span.end]


def test_a_name_that_is_not_old_yet_is_left_alone() -> None:
    for tag in ("1.4.5", "latest"):
        command = launcher(f"--model-id {LLAMA} --max-input-length 100", tag)
        assert [] == findings(command, "flag-deprecated", "flag-unknown")
