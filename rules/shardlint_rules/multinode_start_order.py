"""Pods that start one after the other are the nodes of one engine.

A StatefulSet starts a pod when the one before it is ready (`podManagementPolicy: OrderedReady`, the
default). The first rank of an engine over several pods waits for all others before it answers, so
that a readiness or startup probe on it does not succeed, the second pod is not started, and nothing
ever is.

```yaml fails
apiVersion: apps/v1
kind: StatefulSet  # multinode-start-order
metadata: {name: llm}
spec:
  serviceName: llm
  replicas: 2
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        command: [sh, -c]
        args:
        - vllm serve Qwen/Qwen3-235B-A22B --tensor-parallel-size 8 --pipeline-parallel-size 2
          --nnodes 2 --node-rank ${HOSTNAME##*-} --master-addr llm-0.llm
        resources: {limits: {nvidia.com/gpu: 8}}
        readinessProbe:
          httpGet: {path: /health, port: 8000}
```

```yaml passes
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: llm}
spec:
  serviceName: llm
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        command: [sh, -c]
        args:
        - vllm serve Qwen/Qwen3-235B-A22B --tensor-parallel-size 8 --pipeline-parallel-size 2
          --nnodes 2 --node-rank ${HOSTNAME##*-} --master-addr llm-0.llm
        resources: {limits: {nvidia.com/gpu: 8}}
        readinessProbe:
          httpGet: {path: /health, port: 8000}
```

Fix: `podManagementPolicy: Parallel`, or a LeaderWorkerSet, which starts its pods together.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class MultinodeStartOrder(Rule):
    id, name = "SL210", "multinode-start-order"
    severity = "warning"
    needs = ("placement.ordered", "placement.pods_per_group")

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        placement = plan.placement
        waits = placement.ready_probe is not None and True in placement.ordered.values
        return engine.checked and waits

    def check(self, world: World) -> Iterator[Found]:
        ordered, pods = (world.values[name] for name in self.needs)
        probe = world.plan.placement.ready_probe
        if ordered and pods > 1 and probe is not None:
            yield Found(
                message=(
                    f"the second of {pods} pods starts when the {probe} of the first succeeds, and"
                    " the first waits for all"
                ),
                at=world.origin("placement.ordered"),
                help="podManagementPolicy: Parallel",
            )
