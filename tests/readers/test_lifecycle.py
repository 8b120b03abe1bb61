"""How replicas come and go: surge, probes, order of start, autoscalers, limits and requests."""

from __future__ import annotations

from fractions import Fraction

import pytest
from harness import setup
from readers.reading import plan, plans
from shardlint.linter import lint
from shardlint.project import Project

DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: ml}
spec:
  replicas: REPLICAS
  strategy: STRATEGY
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: RESOURCES
"""


def deployment(
    replicas: str = "1", strategy: str = "{}", resources: str = "{limits: {nvidia.com/gpu: 1}}"
) -> str:
    made = DEPLOYMENT.replace("REPLICAS", replicas).replace("STRATEGY", strategy)
    return made.replace("RESOURCES", resources)


@pytest.mark.parametrize(
    ("replicas", "strategy", "surge"),
    [
        ("1", "{}", 1),
        ("3", "{}", 1),
        ("4", "{}", 0),  # one old pod may stop first
        ("2", "{type: Recreate}", 0),
        ("2", "{rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}", 0),
        ("2", "{rollingUpdate: {maxSurge: 100%, maxUnavailable: 0}}", 2),
        ("10", "{rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}", 3),
        ("10", "{rollingUpdate: {maxSurge: '{{ .Values.surge }}', maxUnavailable: 0}}", None),
    ],
)
def test_what_an_update_starts_before_an_old_pod_stops(
    replicas: str, strategy: str, surge: int | None
) -> None:
    assert plan(deployment(replicas, strategy), "d.yaml").fleet.surge.only == surge


@pytest.mark.parametrize(
    ("probes", "seconds", "probe"),
    [
        ("", None, None),
        ("livenessProbe: {httpGet: {port: 1}}", 30, "livenessProbe"),
        ("livenessProbe: {initialDelaySeconds: 60, periodSeconds: 5}", 75, "livenessProbe"),
        ("startupProbe: {failureThreshold: 60}, livenessProbe: {periodSeconds: 1}", 600,
         "startupProbe"),
        ("startupProbe: {failureThreshold: '{{ .x }}'}", None, "startupProbe"),
    ],
)  # fmt: skip
def test_how_long_it_may_take_to_start(probes: str, seconds: int | None, probe: str | None) -> None:
    text = deployment(resources="{limits: {nvidia.com/gpu: 1}}").rstrip()
    lines = "".join(f"        {line.strip()}\n" for line in _split(probes))
    placement = plan(f"{text}\n{lines}", "d.yaml").placement
    assert (placement.startup_seconds.only, placement.probe) == (seconds, probe)


def _split(probes: str) -> list[str]:
    return probes.replace("}, liveness", "}|liveness").split("|") if probes else []


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        ("{limits: {nvidia.com/gpu: 500m}}", (Fraction(1, 2), None)),
        ("{limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: '1'}}", (2, 1)),
        ("{requests: {nvidia.com/gpu: 1}}", (None, 1)),
    ],
)
def test_limits_and_requests_as_they_are_asked(
    resources: str, asked: tuple[Fraction | None, Fraction | None]
) -> None:
    found = plan(deployment(resources=resources), "d.yaml").placement.asked["nvidia.com/gpu"]
    assert (found.limit.only, found.request.only) == asked


HPA = """apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: llm, namespace: NAMESPACE}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}
  minReplicas: 2
  maxReplicas: 8
  metrics: METRICS
"""
KEDA = """apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: llm, namespace: ml}
spec:
  scaleTargetRef: {name: llm}
  maxReplicaCount: 5
  triggers:
  - {type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)"}}
"""


def hpa(metrics: str, namespace: str = "ml") -> str:
    return HPA.replace("NAMESPACE", namespace).replace("METRICS", metrics)


@pytest.mark.parametrize(
    ("scaler", "signals"),
    [
        (hpa("[]"), ("cpu",)),
        (hpa("[{type: Resource, resource: {name: memory}}]"), ("memory",)),
        (hpa("[{type: Pods, pods: {metric: {name: waiting}}}]"), ("waiting",)),
        (hpa("[]", "other"), None),
        (KEDA, ("prometheus",)),
    ],
)
def test_the_autoscaler_of_a_workload(scaler: str, signals: tuple[str, ...] | None) -> None:
    texts = {"apps/llm.yaml": deployment(), "apps/scaler.yaml": scaler}
    (found,) = Project.of_texts(setup(), texts).plans
    assert (found.fleet.scaler.signals if found.fleet.scaler else None) == signals


def test_an_autoscaler_in_another_folder_is_not_taken() -> None:
    texts = {"a/llm.yaml": deployment(), "b/scaler.yaml": hpa("[]")}
    (found,) = Project.of_texts(setup(), texts).plans
    assert found.fleet.scaler is None


def test_an_autoscaler_is_judged_where_it_stands() -> None:
    texts = {"llm.yaml": deployment(), "scaler.yaml": hpa("[]")}
    findings = lint(Project.of_texts(setup(), texts)).result.findings
    places = [(item.file, item.start.line) for item in findings if item.rule == "SL515"]
    assert places == [("scaler.yaml", 2)]


@pytest.mark.parametrize(("policy", "count"), [("", 1), ("  podManagementPolicy: Parallel\n", 0)])
def test_ordered_pods_of_one_engine(policy: str, count: int) -> None:
    text = deployment("2").replace("kind: Deployment", "kind: StatefulSet")
    text = text.replace("  strategy: {}\n", policy).replace(
        "resources:", "readinessProbe: {httpGet: {port: 8000}}\n        resources:"
    )
    text = text.replace(
        '["Qwen/Qwen3-8B"]',
        "[Qwen/Qwen3-8B, -tp, '2', --nnodes, '2', --node-rank, $(RANK), --master-addr, llm-0]",
    )
    assert len(plans(text, "s.yaml")) == 1
    result = lint(Project.of_texts(setup(), {"s.yaml": text})).result
    assert sum(item.name == "multinode-start-order" for item in result.findings) == count
