"""The router waits for events of the workers' caches, and no worker sends any.

Dynamo's `kv` mode, and a precise prefix scorer of an endpoint picker, know what a worker holds by
the events that it publishes. A worker publishes only if it is told to. Without events the router's
index stays empty: it does not fall back to prediction, and chooses by load alone.

```yaml fails
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: agent}
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 1
      envs:
      - {name: DYN_ROUTER_MODE, value: kv}  # routing-kv-events-missing
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
    SglangWorker:
      componentType: worker
      replicas: 8
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
          command: [python3, -m, dynamo.sglang]
          args: [--model-path, Qwen/Qwen3-8B]
```

```yaml passes
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: agent}
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 1
      envs:
      - {name: DYN_ROUTER_MODE, value: kv}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
    SglangWorker:
      componentType: worker
      replicas: 8
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
          command: [python3, -m, dynamo.sglang]
          args:
          - --model-path
          - Qwen/Qwen3-8B
          - --kv-events-config
          - '{"publisher":"zmq","topic":"kv-events"}'
```

Fix: `--kv-events-config` on every worker (`--publish-events-and-metrics` for TensorRT-LLM), or
`--no-router-kv-events` on the frontend, which predicts from the requests that it routed.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, RouterWorld, Rule, choice, matters, told


class RoutingKvEventsMissing(Rule):
    id, name = "SL509", "routing-kv-events-missing"
    fix = "unsafe"
    severity = "warning"
    scope = "router"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        severity, router = matters(world.workload), world.router
        apart = router.state == "process" and (router.replicas.only or 0) > 1
        if severity is not None and not apart and choice(world) is not None:
            yield from told(world.router, "kv-events", "kv_events", severity)
