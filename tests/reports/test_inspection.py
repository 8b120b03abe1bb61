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
