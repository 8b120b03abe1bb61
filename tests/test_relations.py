"""Plans that belong together: prefill and decode, users of one value."""

from __future__ import annotations

from typing import Any

import pytest
from harness import setup
from shardlint.linter import lint
from shardlint.project import Project
from shardlint.reports import group_list, inspection

SERVICE = """apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: llm}
spec:
  model: {uri: hf://Qwen/Qwen3-8B, name: Qwen/Qwen3-8B}
  template:
    containers:
    - {name: main, args: [DECODE], resources: {limits: {nvidia.com/gpu: 1}}}
  prefill:
    template:
      containers:
      - {name: main, args: [PREFILL], resources: {limits: {nvidia.com/gpu: 1, MORE}}}
"""


def service(decode: str = "", prefill: str = "", more: str = "") -> str:
    return SERVICE.replace("DECODE", decode).replace("PREFILL", prefill).replace("MORE", more)


def found(texts: dict[str, str], rule: str) -> list[str]:
    result = lint(Project.of_texts(setup(), texts)).result
    return [item.message for item in result.findings if item.name == rule]


def test_partners_are_of_one_object() -> None:
    two = f"{service()}---\n{service().replace('name: llm', 'name: other')}"
    for plan in Project.of_texts(setup(), {"s.yaml": two}).plans:
        (other,) = plan.partners
        assert {plan.role, other.role} == {"prefill", "decode"}
        assert other.name.split("/")[0] == plan.name.split("/")[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (service('"--kv-cache-dtype=fp8"', '"--kv-cache-dtype=bfloat16"'), "as fp8 and prefill"),
        (service('"--kv-cache-dtype=fp8"'), None),
        (service('"--kv-cache-dtype=fp8"', '"--kv-cache-dtype=fp8"'), None),
        (service(more="rdma/ib: 1"), "prefill has an RDMA device (rdma/ib)"),
    ],
)
def test_prefill_and_decode_go_together(text: str, words: str | None) -> None:
    messages = found({"s.yaml": text}, "pd-mismatch")
    assert len(messages) == (words is not None)
    assert all((words or "") in message for message in messages)


COMPOSE = """x-tp: &tp "--tensor-parallel-size=8"
services:
  large:
    {image: "vllm/vllm-openai:v0.27.0", command: [--model, Qwen/Qwen3-32B, *tp], gpus: all}
  small:
    {image: "vllm/vllm-openai:v0.27.0", command: [--model, MODEL, *tp], gpus: all}
"""


@pytest.mark.parametrize(
    ("model", "count"), [("Qwen/Qwen2.5-7B-Instruct", 1), ("Qwen/Qwen3-8B", 0)]
)
def test_one_value_for_several_models(model: str, count: int) -> None:
    texts = {"compose.yaml": COMPOSE.replace("MODEL", model)}
    messages = found(texts, "tp-default-shared")
    assert len(messages) == count
    assert all("also that of large" in message for message in messages)


# ---------------------------------------------------------------------------------- groups


def inspected(texts: dict[str, str]) -> dict[str, Any]:
    return inspection.as_json(Project.of_texts(setup(), texts))


def test_prefill_and_decode_of_one_object_are_a_group() -> None:
    text = service().replace("spec:\n  model", "spec:\n  replicas: 3\n  model")
    found = inspected({"s.yaml": text})
    (group,) = found["groups"]
    assert ("s.yaml#0:", "llm", ["decode", "prefill"]) == (
        group["id"], group["name"], group["roles"],
    )  # fmt: skip
    assert {"least": 4, "most": 4, "undecided": 0} == group["gpus"]
    assert ["s.yaml#0:"] * 2 == [plan["group"] for plan in found["plans"]]
    assert [plan["id"] for plan in found["plans"]] == group["plans"]


def test_a_group_with_a_part_of_unknown_size() -> None:
    text = service().replace("{nvidia.com/gpu: 1}", "{nvidia.com/gpu: '${N}'}", 1)
    project = Project.of_texts(setup(), {"s.yaml": text})
    (group,) = inspection.as_json(project)["groups"]
    assert {"least": 1, "most": 1, "undecided": 1} == group["gpus"]
    said = "group llm: decode ? + prefill 1 = 1 GPUs and those of 1, which are not known"
    assert [said] == list(group_list.lines(project))


def test_one_part_alone_is_no_group() -> None:
    text = service()
    alone = text[: text.index("  prefill:")]
    two = f"{alone}---\n{alone.replace('name: llm', 'name: other')}"
    found = inspected({"s.yaml": two})
    assert ([], [None, None]) == (found["groups"], [plan["group"] for plan in found["plans"]])


def test_two_objects_are_two_groups() -> None:
    two = f"{service()}---\n{service().replace('name: llm', 'name: other')}"
    found = inspected({"s.yaml": two})
    assert ["s.yaml#0:", "s.yaml#1:"] == [group["id"] for group in found["groups"]]
