"""What `inspect` says of plans."""

from __future__ import annotations

from io import StringIO

from harness import project
from shardlint.reports.inspection import as_json, write_text


def test_a_build_for_cpus_takes_no_gpu() -> None:
    text = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: small}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai-cpu:v0.23.0
          args: [--model, facebook/opt-125m]
"""
    (plan,) = as_json(project(text, "cpu.yaml"))["plans"]
    assert (0, 0) == (plan["gpus_per_replica"], plan["gpus_total"])
    out = StringIO()
    write_text(project(text, "cpu.yaml"), out)
    assert "TP 1 × PP 1 on CPUs" in out.getvalue()
    assert "GPU" not in out.getvalue()


def test_all_gpus_that_the_pods_of_a_group_take_are_counted() -> None:
    pod = """\
      spec:
        containers:
          - name: vllm
            image: vllm/vllm-openai:v0.20.0
            args: [--model, Qwen/Qwen3-32B, --tensor-parallel-size, "4"]
            resources: {limits: {nvidia.com/gpu: 4}}
"""
    text = f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: apart}}
spec:
  replicas: 3
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
{pod}"""
    found = project(text, "lws.yaml")
    (plan,) = as_json(found)["plans"]
    assert (4, 24) == (plan["gpus_per_replica"], plan["gpus_total"])
    out = StringIO()
    write_text(found, out)
    assert "3 replicas × 2 pods × 4 GPUs = 24 GPUs" in out.getvalue()
