"""There is one replica, and nothing else serves while it starts.

A restart of an engine takes minutes: weights are read, kernels compiled, graphs captured. With one
replica nobody is served in that time, at every update, at every drained node, at every lost GPU.
That can be meant, so this rule is off by default: `--select single-replica`.

```yaml fails
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 1  # single-replica
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
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2
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

Fix: a second replica, on another node.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class SingleReplica(Rule):
    id, name = "SL513", "single-replica"
    severity = "info"
    enabled = False
    needs = ("fleet.replicas",)

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        scaler = plan.fleet.scaler
        more = scaler is not None and scaler.minimum.only not in (None, 0, 1)
        return plan.placement.scheduled and plan.fleet.replicas.is_known and not more

    def check(self, world: World) -> Iterator[Found]:
        if world.values["fleet.replicas"] == 1:
            yield Found(
                message="one replica: nobody serves while it starts again",
                at=world.origin("fleet.replicas"),
            )
