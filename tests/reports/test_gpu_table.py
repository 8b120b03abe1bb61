"""GPUs of all plans, by card."""

from __future__ import annotations

from harness import setup
from shardlint.project import Project
from shardlint.reports.gpu_table import NOT_STATED, Row, lines, rows

POD = """apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {SELECTOR}
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: GPUS}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  maxReplicas: MOST
"""
L4 = "nvidia.com/gpu.product: NVIDIA-L4"


def pod(name: str, replicas: str, gpus: str, selector: str, most: str = "1") -> str:
    made = POD.replace("NAME", name).replace("REPLICAS", replicas).replace("GPUS", gpus)
    return made.replace("SELECTOR", selector).replace("MOST", most)


def test_cards_are_added_up_over_files() -> None:
    texts = {
        "a.yaml": pod("a", "3", "2", L4, most="5"),
        "b.yaml": pod("b", "1", "1", L4),
        "c.yaml": pod("c", "1", "8", ""),
        "d.yaml": pod("d", "'{{ .n }}'", "8", ""),
    }
    found = rows(Project.of_texts(setup(), texts))
    assert found == (
        Row("L4", plans=2, least=7, most=11),
        Row(NOT_STATED, plans=2, least=8, most=8, open=1),
    )
    assert list(lines(found)) == [
        "card             plans       GPUs",
        "L4                   2       7–11",
        "card not stated      2          8  and those of 1, which are not known",
    ]


def test_one_plan_needs_no_table() -> None:
    assert list(lines(rows(Project.of_texts(setup(), {"a.yaml": pod("a", "1", "1", L4)})))) == []


def test_shares_of_a_card_are_no_cards() -> None:
    shared = pod("a", "1", "2", L4).replace("nvidia.com/gpu:", "nvidia.com/gpu.shared:")
    texts = {"a.yaml": shared, "b.yaml": pod("b", "1", "1", L4)}
    found = rows(Project.of_texts(setup(), texts))
    assert [("L4", 1), ("L4, shares", 2)] == [(row.card, row.least) for row in found]


def test_alternatives_of_one_container_take_its_gpus_once() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: either}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.11.0
    command: [bash, -c]
    args: ['if [ "$BIG" ]; then vllm serve org/m -tp 4; else vllm serve org/m -tp 2; fi']
    resources: {limits: {nvidia.com/gpu: 4}}
"""
    (row,) = rows(Project.of_texts(setup(), {"pod.yaml": text}))
    assert (2, 4, 4) == (row.plans, row.least, row.most)
