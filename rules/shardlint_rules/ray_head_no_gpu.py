"""The engine is started on a Ray head that offers no GPU.

With Ray as its executor, vLLM asks Ray for one GPU on the node where it is started, because the
engine runs a worker itself: "Current node has no GPU available. [...] vLLM engine cannot start
without GPU" (`v1/executor/ray_utils.py`). A head whose pod has no GPU, or with `num-gpus: "0"`, has
none to give, however many the workers have. Engines that Ray Serve starts are not concerned: Ray
puts them where their devices are.

A warning: the sources were not opened release by release.

```yaml fails
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: llm}
spec:
  headGroupSpec:
    rayStartParams: {num-gpus: "0"}  # ray-head-no-gpu
    template:
      spec:
        containers:
        - name: head
          image: vllm/vllm-openai:v0.11.0
          command: ["bash", "-c"]
          args:
          - >-
            vllm serve Qwen/Qwen3-8B --pipeline-parallel-size 2 --distributed-executor-backend ray
  workerGroupSpecs:
  - groupName: gpu
    replicas: 2
    rayStartParams: {}
    template:
      spec:
        containers:
        - name: worker
          image: vllm/vllm-openai:v0.11.0
          resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: llm}
spec:
  headGroupSpec:
    rayStartParams: {}
    template:
      spec:
        containers:
        - name: head
          image: vllm/vllm-openai:v0.11.0
          command: ["bash", "-c"]
          args:
          - >-
            vllm serve Qwen/Qwen3-8B --pipeline-parallel-size 2 --distributed-executor-backend ray
          resources: {limits: {nvidia.com/gpu: 1}}
  workerGroupSpecs:
  - groupName: gpu
    replicas: 1
    rayStartParams: {}
    template:
      spec:
        containers:
        - name: worker
          image: vllm/vllm-openai:v0.11.0
          resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: give the head pod GPUs like those of the workers, or start the engine on a worker or through
Ray Serve.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class RayHeadNoGpu(Rule):
    id, name = "SL307", "ray-head-no-gpu"
    severity = "warning"
    needs = ("placement.driver_devices", "layout.executor")

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        placement = plan.placement
        known = placement.driver_devices.is_known and placement.wants_gpu
        return super().applies(plan, engine) and known

    def check(self, world: World) -> Iterator[Found]:
        if world.layout.executor != "ray" or world.values["placement.driver_devices"] != 0:
            return
        yield Found(
            message=(
                f"{world.engine.label} is started on the Ray head, which offers no GPU: with Ray as"
                " its executor it refuses to start ('Current node has no GPU available')"
            ),
            at=world.origin("placement.driver_devices"),
            help="GPUs for the head pod, or the engine on a worker",
        )
