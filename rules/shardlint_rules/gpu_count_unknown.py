"""The file does not fix how many GPUs the engine gets.

A container that asks for no GPU is scheduled to a node without one, and the engine finds no device;
or another mechanism hands GPUs in, and the count is not in this file. Whether the layout fits
cannot be told then. Info for a container that asks for none, a warning where the GPUs come from a
resource claim or from a value that is filled in elsewhere.

```yaml fails
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0  # gpu-count-unknown
        args: ["Qwen/Qwen3-8B", "--tensor-parallel-size", "2"]
```

```yaml passes
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B", "--tensor-parallel-size", "2"]
        resources: {limits: {nvidia.com/gpu: 2}}
```

Fix: state the devices beside the engine, as `resources.limits` or as a device reservation.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class GpuCountUnknown(Rule):
    id, name = "SL303", "gpu-count-unknown"
    severity = "info"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        stated = plan.placement.gpus_per_pod
        inside = not plan.placement.on_host and not plan.image.is_unset
        asked = inside and plan.placement.wants_gpu and plan.placement.certain
        return engine.reads(self.name) is not None and asked and not stated.is_known

    def check(self, world: World) -> Iterator[Found]:
        stated = world.plan.placement.gpus_per_pod
        if stated.is_unset:
            message = "no GPU is asked for here: how many the engine gets is not in this file"
        else:
            message = f"how many GPUs the engine gets is not fixed: {stated.reason}"
        yield Found(
            message=message,
            at=stated.origin or world.plan.origin,
            severity="info" if stated.is_unset else "warning",
        )
