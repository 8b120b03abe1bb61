"""AIBrix: fleets of Ray clusters, roles of a StormService, sets of pods."""

from __future__ import annotations

import pytest
from harness import check, places
from readers.reading import edited, names, plan, plans, project, stated, token, why

FLEET = """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: RayClusterFleet
metadata: {name: f}
spec:
  replicas: 2
  template:
    metadata: {annotations: {ray.io/overwrite-container-cmd: "true"}}
    spec:
      headGroupSpec:
        rayStartParams: {dashboard-host: 0.0.0.0}
        template:
          spec:
            containers:
            - name: head
              image: vllm/vllm-openai:v0.11.0
              command: [bash, -c]
              args:
              - ray start --head; vllm serve Qwen/Qwen3-8B -tp 2 --distributed-executor-backend ray
              resources: {limits: {nvidia.com/gpu: 1}}
            - name: runtime
              image: aibrix/runtime:v0.3.0
      workerGroupSpecs:
      - groupName: small
        replicas: 1
        template:
          spec:
            containers:
            - {name: w, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: 1}}}
"""


def test_a_fleet_is_read_as_its_clusters() -> None:
    found = plan(FLEET, "f.yaml")
    assert ("RayClusterFleet", "aibrix") == (found.kind, found.platform)
    wanted = {"model": "Qwen/Qwen3-8B", "tp": 2, "gpus_per_pod": 1, "nodes": 2, "replicas": 2}
    assert wanted == {name: stated(found, name) for name in wanted}
    assert "0:/spec/template/spec/headGroupSpec/template/spec/containers/0" == found.path


def test_tensor_parallelism_over_pods_of_a_fleet() -> None:
    found = check(FLEET, "f.yaml").findings
    assert ("tp-cross-node", "warning", "2") in places(found, FLEET)
    assert "gpu-count-short" not in names(found)


def test_a_fleet_is_edited_in_its_command() -> None:
    found = plan(FLEET, "f.yaml")
    assert FLEET.replace("-tp 2", "-tp 4") == edited(FLEET, found, "tp", "4")
    assert FLEET.replace("  replicas: 2", "  replicas: 3") == edited(FLEET, found, "replicas", "3")


def test_workers_without_a_command_start_no_engine() -> None:
    assert 1 == len(plans(FLEET, "f.yaml"))


STORM = """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {name: s, namespace: ns}
spec:
  replicas: 2
  template:
    spec:
      roles:
      - name: prefill
        replicas: 3
        template:
          metadata: {labels: {model.aibrix.ai/name: qwen}}
          spec:
            containers:
            - name: engine
              image: vllm/vllm-openai:v0.33.0
              args: [Qwen/Qwen3-8B]
              resources: {limits: {nvidia.com/gpu: 1}}
      - name: decode
        podGroupSize: 2
        template:
          spec:
            containers:
            - name: engine
              image: vllm/vllm-openai:v0.33.0
              args: [Qwen/Qwen3-8B, -tp=2, --nnodes=$(POD_GROUP_SIZE), --master-addr=a,
                     --node-rank, $(POD_GROUP_INDEX)]
              env: [{name: POD_GROUP_SIZE, value: "8"}]
              resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_roles_are_plans_of_their_own() -> None:
    prefill, decode = plans(STORM, "s.yaml")
    assert ("prefill", "decode") == (prefill.role, decode.role)
    assert (6, 2) == (stated(prefill, "replicas"), stated(decode, "replicas"))
    assert {"model.aibrix.ai/name": "qwen"} == dict(prefill.labels)
    assert "0:/spec/template/spec/roles/1/template/spec/containers/0" == decode.path


def test_the_pods_of_a_group_are_one_engine() -> None:
    _, decode = plans(STORM, "s.yaml")
    assert (2, 2) == (stated(decode, "nodes"), stated(decode, "nnodes"))


def test_a_variable_that_aibrix_sets_itself() -> None:
    (found,) = [f for f in check(STORM, "s.yaml").findings if f.name == "config-ignored"]
    assert "AIBrix sets POD_GROUP_SIZE itself and drops this value" == found.message


def test_a_set_of_pods() -> None:
    text = """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: PodSet
metadata: {name: p}
spec:
  podGroupSize: 2
  template:
    spec:
      containers:
      - name: engine
        image: vllm/vllm-openai:v0.33.0
        args: [Qwen/Qwen3-8B, -tp=2, --nnodes=2, --master-addr=a, --node-rank=$(POD_GROUP_INDEX)]
        resources: {limits: {nvidia.com/gpu: 1}}
"""
    found = plan(text, "p.yaml")
    assert ("PodSet", 2, None) == (found.kind, stated(found, "nodes"), stated(found, "replicas"))
    assert "2" == token(text, found, "tp")


def test_replicas_that_are_filled_in_elsewhere_are_unknown() -> None:
    text = STORM.replace("  replicas: 2", "  replicas: ${N}")
    prefill, _ = plans(text, "s.yaml")
    assert "'${N}' is filled in elsewhere" == why(prefill, "replicas")


@pytest.mark.parametrize("kind", ["RayClusterFleet", "StormService", "PodSet", "Other"])
@pytest.mark.parametrize(
    "spec", ["[]", "{}", "{template: {spec: [1]}}", "{template: {spec: {roles: [1]}}}"]
)
def test_odd_input_is_survived(kind: str, spec: str) -> None:
    text = f"apiVersion: orchestration.aibrix.ai/v1alpha1\nkind: {kind}\nspec: {spec}\n"
    assert () == project(text, "a.yaml").broken
    assert () == plans(text, "a.yaml")
