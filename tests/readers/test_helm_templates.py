"""Templates of Helm charts: literal words, and nothing certain."""

from __future__ import annotations

import pytest
from readers import reading
from readers.reading import stated, token, why
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.project import Project

FILE = "chart/templates/deployment.yaml"
TEXT = """{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "x.fullname" . }}
  labels:
    {{- include "x.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas | default 3 }}
  template:
    spec:
      containers:
      - name: vllm
        image: "vllm/vllm-openai:{{ .Values.image.tag | default "v0.9.0" }}"
        args:
        - --model={{ .Values.model }}
        - --tensor-parallel-size={{ .Values.tp }}
        - --max-model-len=4096
        {{- if .Values.pp }}
        - --pipeline-parallel-size=2
        {{- else }}
        - --pipeline-parallel-size=4
        {{- end }}
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        resources:
          limits:
            nvidia.com/gpu: {{ .Values.gpus }}
{{- end }}
"""
VALUES = """image: {tag: v0.10.0}
model: Qwen/Qwen3-8B
tp: 3
gpus: 2
pp: true
"""


def read(text: str = TEXT, values: str | None = None) -> ServingPlan:
    texts = {FILE: text} | ({"chart/values.yaml": values} if values is not None else {})
    (plan,) = Project.of_texts(reading.a_setup(), texts).plans
    return plan


def test_literal_words_are_read() -> None:
    plan = read()
    assert ("vllm", 4096) == (plan.engine, stated(plan, "max_model_len"))
    assert "4096" == token(TEXT, plan, "max_model_len")
    assert "{{...}}/vllm" == plan.name


@pytest.mark.parametrize("field", ["tp", "gpus_per_pod", "replicas", "model"])
def test_an_expression_is_unknown(field: str) -> None:
    assert why(read(), field) == "the template fills it in"


def test_what_stands_in_a_branch_is_not_read() -> None:
    plan = read()
    assert plan.layout.pp.only is None
    assert plan.open_ended


def test_values_of_the_chart_fill_it_in() -> None:
    plan = read(values=VALUES)
    facts = {"model": "Qwen/Qwen3-8B", "tp": 3, "gpus_per_pod": 2, "replicas": 3}
    assert facts == {name: stated(plan, name) for name in facts}
    assert "v0.10.0" == plan.tag.only


@pytest.mark.parametrize(
    ("values", "tp"),
    [("tp: 2\n", 2), ("tp: '{{ x }}'\n", None), ("tp: [2]\n", None), ("other: 1\n", None),
     ("tp: [\n", None)],
)  # fmt: skip
def test_only_a_plain_value_fills_in(values: str, tp: int | None) -> None:
    assert tp == stated(read(values=values), "tp")


def test_nothing_that_is_read_is_an_error() -> None:
    texts = {FILE: TEXT, "chart/values.yaml": VALUES}
    found = lint(Project.of_texts(reading.a_setup(), texts)).result.findings
    assert "tp-heads-indivisible" in {finding.name for finding in found}
    assert "error" not in {finding.severity for finding in found}


def test_options_that_are_refused_are_no_errors_either() -> None:
    text = TEXT.replace("--max-model-len=4096", "--no-such-option=4096")
    found = lint(Project.of_texts(reading.a_setup(), {FILE: text})).result.findings
    assert "error" not in {finding.severity for finding in found}


def test_nothing_is_edited_in_a_template() -> None:
    assert {} == dict(read().sites)


@pytest.mark.parametrize(
    "text",
    [
        "{{ define \"x\" }}\ncontainers:\n{{ end }}\n", "containers: {{ x }}\n",
        "{{\ncontainers:\n",
        "{{- end }}\n{{- end }}\nkind: Pod\nspec:\n  containers:\n  - args: [{{ x }}, {{y}}]\n",
        "kind: Pod\nspec:\n  containers: [{{/* a\n b */}}]\n---\n{{ if }}\n---\ncontainers:\n",
    ],
)  # fmt: skip
def test_odd_templates_are_survived(text: str) -> None:
    assert () == Project.of_texts(reading.a_setup(), {FILE: text}).broken
