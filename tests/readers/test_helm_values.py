"""Command lines in values of charts that nobody knows."""

from __future__ import annotations

import pytest
from readers import reading
from readers.reading import edited, stated, token, why
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.project import Project

FILE = "values.yaml"
CLI = """cli: "vllm serve Qwen/Qwen3-8B
  --tensor-parallel-size 3"
resources:
  nvidia.com/gpu: "2"
replicaCount: 2
"""
PARTS = """server:
  image: {repository: vllm/vllm-openai, tag: v0.10.0}
  args: ["--model", "org/m", "--tensor-parallel-size", "2"]
  env: {CUDA_VISIBLE_DEVICES: "0,1"}
  resources: {limits: {nvidia.com/gpu: 4}}
"""


def read(source: str, name: str = FILE) -> ServingPlan:
    return reading.plan(source, name)


def test_a_string_that_is_a_command_line() -> None:
    plan = read(CLI)
    facts = {"model": "Qwen/Qwen3-8B", "tp": 3, "gpus_per_pod": 2, "replicas": 2}
    assert facts == {name: stated(plan, name) for name in facts}
    assert ("3", '"2"'.strip('"')) == (token(CLI, plan, "tp"), token(CLI, plan, "gpus_per_pod"))
    assert "templates are not read" in (why(plan, "shm_bytes") or "")


def test_arguments_with_an_image_in_parts() -> None:
    plan = read(PARTS)
    assert ("org/m", 2, 2) == tuple(stated(plan, n) for n in ("model", "tp", "gpus_per_pod"))
    assert "v0.10.0" == plan.tag.only
    assert "0:/server" == plan.path


def test_a_list_that_starts_an_engine() -> None:
    plan = read("run_it:\n- vllm\n- serve\n- org/m\n- -tp\n- '4'\n")
    assert ("org/m", 4) == (stated(plan, "model"), stated(plan, "tp"))


def test_the_arguments_of_a_chart_that_are_no_fragment_of_a_pod() -> None:
    source = PARTS.replace("server:\n", "").replace("\n  ", "\n").lstrip()
    assert ["helm-values"] == [plan.kind for plan in reading.plans(source, FILE)]


@pytest.mark.parametrize(
    "other",
    [
        "jobs:\n  x: {script: vllm serve org/m}\n", "services:\n  x: {y: vllm serve org/m}\n",
        "description: Runs vllm serve with our models\n", "a: [vllm, bench, serve]\n",
        "apiVersion: x/v1\nkind: Thing\nspec: {cli: vllm serve org/m}\n",
        "extra:\n- apiVersion: v1\n  kind: Pod\n  spec: {cli: vllm serve org/m}\n",
    ],
)  # fmt: skip
def test_what_is_no_command_line_in_values(other: str) -> None:
    assert [] == [plan for plan in reading.plans(other, FILE) if plan.kind == "helm-values"]


def test_without_a_telling_name_gpus_must_stand_beside() -> None:
    assert [] == list(reading.plans("cli: vllm serve org/m\n", "other.yaml"))
    assert 2 == stated(read(CLI, "other.yaml"), "gpus_per_pod")


def test_beside_a_chart_every_file_is_values() -> None:
    texts = {"c/prod.yaml": "cli: vllm serve org/m\n", "c/Chart.yaml": "name: c\n"}
    assert 1 == len(Project.of_texts(reading.a_setup(), texts).plans)


def test_a_count_of_gpus_that_a_chart_may_spread_is_no_error() -> None:
    found = {f.name: f.severity for f in lint(reading.project(CLI, FILE)).result.findings}
    assert ("error", "warning") == (found["tp-heads-indivisible"], found["gpu-count-short"])


def test_sites() -> None:
    plan = read(CLI)
    assert CLI.replace("size 3", "size 2") == edited(CLI, plan, "tp", "2")
    assert CLI.replace('"2"', '"4"') == edited(CLI, plan, "gpus_per_pod", "4")
    assert CLI.replace("Count: 2", "Count: 3") == edited(CLI, plan, "replicas", "3")
    assert "shm_bytes" not in plan.sites


def test_a_scaler_decides() -> None:
    assert "autoscaler" in (why(read(CLI + "autoscaling: {enabled: true}\n"), "replicas") or "")


@pytest.mark.parametrize(
    "odd",
    [
        "cli: vllm serve\nresources: []\n", "cli: vllm serve m\nenv: x\nimage: [a]\n",
        "a: &a {cli: vllm serve m, b: *a}\n", "args: [vllm]\nimage: {repository: {}, tag: []}\n",
    ],
)  # fmt: skip
def test_odd_values_are_survived(odd: str) -> None:
    assert () == reading.project(odd, FILE).broken


def test_a_fragment_of_a_pod_is_read_once() -> None:
    container = "- {image: vllm/vllm-openai, args: [--model, org/m], resources: RESOURCES}\n"
    text = "containers:\n" + container.replace("RESOURCES", "{limits: {nvidia.com/gpu: 1}}")
    for name in (FILE, "pod.yaml"):
        assert ["k8s-fragment"] == [plan.kind for plan in reading.plans(text, name)]


def test_copies_of_a_chart_have_devices_of_their_own() -> None:
    text = PARTS.replace('  env: {CUDA_VISIBLE_DEVICES: "0,1"}\n', "  replicaCount: 2\n")
    assert 2 == stated(read(text), "replicas")
    names = [found.name for found in lint(reading.project(text, FILE)).result.findings]
    share = text.replace('"2"]', '"2", --gpu-memory-utilization, "0.9"]')
    names += [found.name for found in lint(reading.project(share, FILE)).result.findings]
    assert "memory-oversubscribed" not in names


def test_replicas_may_be_told_around_the_container() -> None:
    text = """\
controllers:
  vllm:
    replicas: 2
    containers:
      app:
        image: {repository: vllm/vllm-openai, tag: v0.11.0}
        args: [--model, Qwen/Qwen3-8B, --tensor-parallel-size, "2"]
        resources: {limits: {nvidia.com/gpu: 2}}
"""
    (found,) = Project.of_texts(reading.a_setup(), {"values.yaml": text}).plans
    assert 2 == found.fleet.replicas.only
    assert found.fleet.replicas.assumes
