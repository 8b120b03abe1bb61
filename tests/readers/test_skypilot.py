"""SkyPilot tasks: nodes, accelerators, releases, replicas."""

from __future__ import annotations

import pytest
from readers import reading
from readers.reading import names, plan, plans, stated, token
from shardlint.linter import lint
from shardlint.plan import Refusal, ServingPlan

TASK = """name: big
envs:
  MODEL: org/m
  SECRET: null
resources:
  ACCELERATORS
num_nodes: NODES
setup: |
  uv pip install "vllm[audio]==0.8.5" sglang
service:
  replicas: 2
run: |
  COMMAND
"""


def task(accelerators: str = "accelerators: H100:8", command: str = "", nodes: str = "1") -> str:
    text = TASK.replace("ACCELERATORS", accelerators).replace("NODES", nodes)
    return text.replace("COMMAND", command or "vllm serve $MODEL -tp $SKYPILOT_NUM_GPUS_PER_NODE")


def read(*parts: str) -> ServingPlan:
    return plan(task(*parts), "task.yaml")


def test_a_task_is_read() -> None:
    text, found = task(), read()
    assert (found.kind, found.path, found.name) == ("skypilot", "0:/run", "big")
    assert (stated(found, "model"), stated(found, "tp")) == ("org/m", 8)
    assert (stated(found, "gpus_per_pod"), stated(found, "replicas")) == (8, 2)
    assert (stated(found, "nodes"), stated(found, "gpu_type")) == (1, "H100")
    assert (found.tag.only, found.engine) == ("0.8.5", "vllm")
    assert [item.first for item in found.versions.values] == ["0.8.5"]
    assert token(text, found, "gpus_per_pod") == "8"
    assert token(text, found, "gpu_type") == "H100"
    assert "gpu-shared" not in names(lint(reading.project(text, "task.yaml")).result.findings)


@pytest.mark.parametrize(
    ("accelerators", "gpus", "card", "tp"),
    [
        ("accelerators: L4", 1, "L4", 1),
        ("accelerators: {H100: 8}", 8, "H100", 8),
        ("accelerators: {H100:8, A100-80GB:8}", 8, None, 8),
        ("accelerators: {A100: 8, H100: 4}", None, None, None),
        ("accelerators: [H100:8, A100:8]", 8, None, 8),
        ("gpus: 'H200:4'", 4, "H200", 4),
        ("any_of: [{accelerators: H100:8}, {accelerators: H200:8}]", 8, None, 8),
        ("accelerators: tpu-v6e-8:1", None, "tpu-v6e-8", None),
        ("accelerators: ${GPU}:8", None, None, None),
        ("accelerators: H100:all", None, None, None),
    ],
)
def test_accelerators(
    accelerators: str, gpus: int | None, card: str | None, tp: int | None
) -> None:
    found = read(accelerators)
    assert stated(found, "gpus_per_pod") == gpus
    assert stated(found, "tp") == tp
    if card is not None:
        assert stated(found, "gpu_type") == card


def test_each_of_several_accelerators_is_possible() -> None:
    found = read("accelerators: {A100-80GB:8, H100:4}")
    assert set(found.placement.gpus_per_pod.values) == {8, 4}
    assert len(found.placement.gpu.values) > 1


@pytest.mark.parametrize(
    ("command", "nodes", "group"),
    [
        ("vllm serve $MODEL -tp 8 --nnodes $SKYPILOT_NUM_NODES --node-rank 0", "2", 2),
        ("vllm serve $MODEL -tp 8 -pp $SKYPILOT_NUM_NODES", "2", 2),
        ("vllm serve $MODEL -tp 8", "1", 1),
        ("vllm serve $MODEL -tp 8", "<n>", None),
    ],
)
def test_nodes(command: str, nodes: str, group: int | None) -> None:
    found = read("accelerators: H100:8", command, nodes)
    assert stated(found, "nodes") == group
    assert "gpu-count-short" not in names(
        lint(
            reading.project(task("accelerators: H100:8", command, nodes), "a.yaml")
        ).result.findings
    )


def test_replicas_of_a_service_are_whole_tasks() -> None:
    found = read("accelerators: H100:8", "vllm serve $MODEL -tp 16", "2")
    assert stated(found, "replicas") == 2


def test_a_policy_gives_the_least_and_the_most() -> None:
    text = task().replace("replicas: 2", "replica_policy: {min_replicas: 1, max_replicas: 3}")
    found = plan(text, "task.yaml")
    assert (found.fleet.replicas.only, found.fleet.max_replicas.only) == (1, 3)


def test_the_image_of_the_task() -> None:
    text = task("image_id: docker:vllm/vllm-openai:v0.11.0\n  accelerators: H100:8")
    found = plan(text.replace("==0.8.5", ""), "task.yaml")
    assert found.tag.only == "v0.11.0"


@pytest.mark.parametrize("command", ["docker run vllm/vllm-openai:v0.11.0 --model $MODEL -tp 2"])
def test_a_container_in_the_task(command: str) -> None:
    found = read("accelerators: H100:8", command)
    assert (stated(found, "model"), stated(found, "tp")) == ("org/m", 2)


def test_edits() -> None:
    text = task(command="vllm serve $MODEL -tp 8")
    found = plan(text, "task.yaml")
    assert reading.edited(text, found, "tp", "4") == text.replace("-tp 8", "-tp 4")
    assert reading.edited(text, found, "pp", "2") == text.replace("-tp 8", "-tp 8 -pp 2")
    assert reading.edited(text, found, "gpus_per_pod", "4") == text.replace("H100:8", "H100:4")
    assert isinstance(read().sites["tp"].set("4"), Refusal)  # the count is read there too


def test_what_is_given_when_it_starts_is_unknown() -> None:
    found = read("accelerators: H100:8", "vllm serve $SECRET -tp $SKYPILOT_NODE_RANK")
    assert "given when it is started" in (reading.why(found, "model") or "")
    assert "differs between nodes" in (reading.why(found, "tp") or "")


@pytest.mark.parametrize(
    "change",
    [
        ("run: |", "apiVersion: v1\nrun: |"),
        ("resources:", "others:"),
        ("run: |", "run: [a]\nruns: |"),
        ("vllm serve", "python train.py"),
    ],
)
def test_other_files_are_no_tasks(change: tuple[str, str]) -> None:
    assert plans(task().replace(*change), "task.yaml") == ()


@pytest.mark.parametrize(
    "change",
    [
        ("H100:8", "[[H100:8]]"),
        ("H100:8", "{}"),
        ("H100:8", "&a [*a]"),
        ("replicas: 2", "5"),
        ("num_nodes: 1", "num_nodes: [1]"),
        ("envs:\n  MODEL: org/m", "envs: 5\nx:\n  a: b"),
        ('"vllm[audio]==0.8.5"', "vllm==0.8.5 vllm==0.9.0"),
    ],
)
def test_odd_input_is_survived(change: tuple[str, str]) -> None:
    assert reading.project(task().replace(*change), "task.yaml").broken == ()
