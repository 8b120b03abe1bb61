"""The autoscaler looks at something that says nothing of an engine's load.

CPU use of an engine hangs on its sampling and tokenizing threads and stays about the same, memory
is taken when it starts. An autoscaler that decides by them (a HorizontalPodAutoscaler without
metrics takes CPU, at 80 %) never scales, or at the wrong time. What fills up is the queue and the
KV cache: `vllm:num_requests_waiting`, `vllm:kv_cache_usage_perc`, `sglang:num_queue_reqs`, through
an adapter for Prometheus, or KEDA.

Nor can an autoscaler change the number of pods that are the nodes of one engine: it starts ranks
that nobody waits for, or stops some that all others need.

```yaml fails
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler  # autoscale-wrong-signal
metadata: {name: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}
  minReplicas: 1
  maxReplicas: 4
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}
  minReplicas: 1
  maxReplicas: 4
  metrics:
  - type: Pods
    pods:
      metric: {name: vllm:num_requests_waiting}
      target: {type: AverageValue, averageValue: "5"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: requests that wait, or the use of the KV cache, as the metric.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Note, Rule, ServingPlan, World

BLIND = frozenset({"cpu", "memory"})


class AutoscaleWrongSignal(Rule):
    id, name = "SL515", "autoscale-wrong-signal"
    severity = "warning"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return plan.fleet.scaler is not None and plan.placement.wants_gpu

    def check_plan(self, world: World) -> Iterator[Found]:
        scaler = world.plan.fleet.scaler
        assert scaler is not None
        related = (Note(world.plan.origin, "what it scales"),)
        if world.plan.owner is not None and world.plan.owner[0] != "LeaderWorkerSet":
            pods = world.plan.placement.pods_per_group
            if pods.only is not None and pods.only > 1 and not pods.assumes:
                yield Found(
                    message=f"{scaler.kind} changes the number of pods, {pods.only} of which are"
                    " the nodes of one engine",
                    at=scaler.origin,
                    related=related,
                )
                return
        if scaler.decided and scaler.signals and BLIND.issuperset(scaler.signals):
            words = " and ".join(dict.fromkeys(name.upper() if name == "cpu" else name
                                               for name in scaler.signals))  # fmt: skip
            yield Found(
                message=f"{scaler.kind} decides by {words}, which does not follow the load of an"
                " engine",
                at=scaler.origin,
                related=related,
                help="requests that wait, or the use of the KV cache, as the metric",
            )
