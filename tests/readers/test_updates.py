"""What an update of an object starts before it stops anything, as its operator does it."""

from __future__ import annotations

import pytest
from harness import check
from readers.reading import plan, plans

GROUPS = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm}
spec:
  replicas: 2
  STRATEGY
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args: [Qwen/Qwen3-8B, --tensor-parallel-size, "16"]
          resources: {limits: {nvidia.com/gpu: 8}}
"""


@pytest.mark.parametrize(
    ("numbers", "surge"),
    [
        (None, 0),
        ("maxSurge: 1", 0),
        ("maxSurge: 1, maxUnavailable: 0", 1),
        ("maxSurge: 60%, maxUnavailable: 0", 2),
        ("maxSurge: 1, maxUnavailable: 40%", 1),
        ("maxSurge: '${N}', maxUnavailable: 0", None),
    ],
)
def test_groups_of_pods_are_replaced_one_by_one_unless_it_is_stated(
    numbers: str | None, surge: int | None
) -> None:
    strategy = f"rolloutStrategy: {{rollingUpdateConfiguration: {{{numbers}}}}}"
    text = GROUPS.replace("STRATEGY", strategy if numbers else "startupPolicy: LeaderCreated")
    assert surge == plan(text, "l.yaml").fleet.surge.only


VALUES = """\
modelArtifacts: {uri: "hf://Qwen/Qwen3-8B", name: Qwen/Qwen3-8B}
decode:
  replicas: 2
  containers:
  - name: vllm
    image: ghcr.io/llm-d/llm-d-cuda:v0.3.0
    modelCommand: vllmServe
    resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.mark.parametrize(
    ("text", "surge"),
    [
        (VALUES, 1),
        (VALUES.replace("  replicas", "  strategy: {type: Recreate}\n  replicas"), 0),
        (f"multinode: true\n{VALUES}", None),
        (f"multinode: '{{{{ .many }}}}'\n{VALUES}", None),
    ],
)
def test_parts_of_the_chart_of_llmd_are_deployments(text: str, surge: int | None) -> None:
    assert surge == plan(text, "values.yaml").fleet.surge.only


RAY = """\
apiVersion: ray.io/v1
kind: RayService
metadata: {name: chat}
spec:
  STRATEGY
  serveConfigV2: |
    applications:
    - name: llm
      import_path: ray.serve.llm:build_openai_app
      args:
        llm_configs:
        - model_loading_config: {model_id: Qwen/Qwen3-8B}
          engine_kwargs: {tensor_parallel_size: 8}
          deployment_config: {num_replicas: 2}
  rayClusterConfig:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers: [{name: head, image: "rayproject/ray-llm:2.50.0"}]
    workerGroupSpecs:
    - replicas: 2
      groupName: gpu
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: worker
            image: "rayproject/ray-llm:2.50.0"
            resources: {limits: {nvidia.com/gpu: 8}}
"""


def said(text: str, nodes: int) -> list[str]:
    found = check(text, "r.yaml", gpu="H100-SXM-80GB", gpus_per_node=8, nodes=nodes).findings
    return [item.message for item in found if item.name == "rollout-needs-spare-gpus"]


@pytest.mark.parametrize(
    ("strategy", "renewed"),
    [
        ("rayClusterDeletionDelaySeconds: 60", True),
        ("upgradeStrategy: {type: NewCluster}", True),
        ("upgradeStrategy: {type: None}", False),
        ("upgradeStrategy: {type: NewClusterWithIncrementalUpgrade}", False),
    ],
)
def test_a_ray_service_is_updated_by_a_second_cluster(strategy: str, renewed: bool) -> None:
    text = RAY.replace("STRATEGY", strategy)
    assert renewed == plan(text, "r.yaml").fleet.renewed
    words = "an update starts a second cluster of 16 GPUs before the first one stops, and"
    assert ([f"{words} no GPU is free: it hangs"] if renewed else []) == said(text, 2)
    assert ([f"{words} 8 GPUs are free: it hangs"] if renewed else []) == said(text, 3)
    assert [] == said(text, 4)


def test_a_cluster_alone_is_not_renewed() -> None:
    text = RAY[: RAY.index("  STRATEGY")].replace("RayService", "RayCluster")
    text += "  headGroupSpec:\n    template:\n      spec:\n        containers:\n"
    text += "        - name: head\n          image: vllm/vllm-openai:v0.33.0\n"
    text += "          command: [sh, -c, 'ray start --head; vllm serve Qwen/Qwen3-8B']\n"
    text += "          resources: {limits: {nvidia.com/gpu: 1}}\n"
    assert not plan(text, "r.yaml").fleet.renewed


MODEL = """\
apiVersion: kubeai.org/v1
kind: Model
metadata: {name: qwen}
spec:
  url: hf://Qwen/Qwen3-8B
  engine: VLLM
  args: [--tensor-parallel-size=8]
  minReplicas: 2
  resourceProfile: nvidia-gpu-h100:8
"""


def test_kubeai_starts_one_more() -> None:
    found = plan(MODEL, "m.yaml").fleet
    assert (1, "`modelRollouts.surge: 0` in the values of KubeAI") == (
        found.surge.only, found.at_once,
    )  # fmt: skip
    assert ["an update starts 1 more pod of 8 GPUs before an old one stops, and no GPU is free: it"
            " hangs"] == said(MODEL, 2)  # fmt: skip


SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: llm
  annotations: {serving.kserve.io/deploymentMode: RawDeployment, serving.kserve.io/autoscalerClass: none}
spec:
  predictor:
    STRATEGY
    model:
      modelFormat: {name: huggingface}
      runtime: kserve-huggingfaceserver-multinode
      storageUri: pvc://models/qwen
      resources: {limits: {nvidia.com/gpu: 4}, requests: {nvidia.com/gpu: 4}}
    workerSpec:
      pipelineParallelSize: 2
      tensorParallelSize: 4
      containers:
      - name: worker-container
        resources: {limits: {nvidia.com/gpu: 4}, requests: {nvidia.com/gpu: 4}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("strategy", "surge"),
    [
        ("minReplicas: 1", 1),
        ("deploymentStrategy: {type: RollingUpdate}", 1),
        ("deploymentStrategy: {type: Recreate}", None),
    ],
)
def test_workers_of_kserve_are_started_once_more(strategy: str, surge: int | None) -> None:
    (found,) = plans(SERVICE.replace("STRATEGY", strategy), "s.yaml")
    assert surge == found.fleet.surge.only


def test_a_service_on_one_node_depends_on_the_configuration_of_kserve() -> None:
    alone = SERVICE[: SERVICE.index("    workerSpec")].replace("-multinode", "")
    (found,) = plans(alone.replace("STRATEGY", "minReplicas: 1"), "s.yaml")
    assert found.fleet.surge.is_unset
