"""ApplicationSets with a list: an installation of the chart for each element."""

from __future__ import annotations

import pytest
from readers import reading
from readers.reading import edited, stated, token
from shardlint.linter import lint
from shardlint.plan import Refusal, ServingPlan

FILE = "set.yaml"
ELEMENTS = """\
      - {name: small, model: Qwen3-8B, tp: "1", settings: {count: 2}}
      - {name: large, model: Qwen3-32B, tp: "3", settings: {count: 4}}
"""
VALUES = """\
servingEngineSpec:
  modelSpec:
  - name: '{{name}}'
    repository: vllm/vllm-openai
    tag: v0.20.0
    modelURL: Qwen/{{model}}
    replicaCount: '{{settings.count}}'
    requestGPU: '{{tp}}'
    vllmConfig: {tensorParallelSize: '{{ tp }}'}
"""
GO = VALUES.replace("{{", "{{.").replace("{{. ", "{{ .")
STRING, MAP = "values: |", "valuesObject:"


def block(text: str, indent: int) -> str:
    return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def application_set(
    held: str = VALUES,
    key: str = MAP,
    elements: str = ELEMENTS,
    generator: str = "list",
    more: str = "",
) -> str:
    return f"""\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: models}}
spec:
  generators:
  - {generator}:
      elements:
{elements}{more}\
  template:
    spec:
      source:
        chart: vllm-stack
        targetRevision: 0.1.12
        helm:
          {key}
{block(held, 12)}"""


def read(text: str) -> tuple[ServingPlan, ...]:
    return reading.plans(text, FILE)


@pytest.mark.parametrize("held", [VALUES, GO])
@pytest.mark.parametrize("key", [STRING, MAP])
def test_each_element_is_an_installation(held: str, key: str) -> None:
    small, large = read(application_set(held, key))
    facts = [(stated(p, "model"), stated(p, "tp"), stated(p, "replicas"), stated(p, "gpus_per_pod"))
             for p in (small, large)]  # fmt: skip
    assert [("Qwen/Qwen3-8B", 1, 2, 1), ("Qwen/Qwen3-32B", 3, 4, 3)] == facts
    assert small.id != large.id
    assert {FILE} == {plan.file for plan in (small, large)}


def test_a_value_of_an_element_is_told_and_edited_there() -> None:
    text = application_set()
    _, large = read(text)
    assert "3" == token(text, large, "tp")
    assert edited(text, large, "replicas", "5") == text.replace("count: 4", "count: 5")
    found = lint(reading.project(text, FILE)).result.findings
    assert ("tp-heads-indivisible", 9) in {(item.name, item.start.line) for item in found}


def test_inside_a_string_the_place_is_that_of_the_name_and_nothing_is_edited() -> None:
    text = application_set(key=STRING)
    _, large = read(text)
    assert "{{ tp }}" in token(text, large, "tp")
    assert isinstance(large.sites["tp"].set("4"), Refusal)


def test_a_name_that_the_element_lacks_is_unknown() -> None:
    lacking = ELEMENTS.replace(', tp: "3"', "")
    assert [1, None] == [stated(plan, "tp") for plan in read(application_set(elements=lacking))]


@pytest.mark.parametrize(
    "text",
    [
        application_set(generator="clusters"),
        application_set(more="  - git: {}\n"),
        application_set(more="    selector: {}\n"),
        application_set(more="  templatePatch: 'a: 1'\n"),
        application_set(more="      elementsYaml: 'x'\n"),
        application_set(elements="      - one\n"),
    ],
)
def test_other_generators_leave_the_template_unknown(text: str) -> None:
    (plan,) = read(text)
    assert stated(plan, "tp") is None


@pytest.mark.parametrize(
    "odd", ["      - {}\n", "      - {tp: {a: 1}}\n", "      - &a {tp: *a}\n", ""]
)
def test_odd_elements_are_survived(odd: str) -> None:
    made = reading.project(application_set(elements=odd), FILE)
    assert not made.broken
    lint(made)
