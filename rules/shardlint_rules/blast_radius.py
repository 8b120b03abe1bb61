"""One lost GPU or node stops all there is.

The ranks of a replica compute every layer together: one that is lost stops them all, on all nodes,
until the whole group has started again. Where the only replica spans several nodes, a single fault
in any of them stops the service.

```yaml fails
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2  # blast-radius
    workerTemplate:
      spec:
        hostIPC: true
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          command: [sh, -c]
          args:
          - vllm serve Qwen/Qwen3-235B-A22B --tensor-parallel-size 8 --pipeline-parallel-size 2
            --nnodes $(LWS_GROUP_SIZE) --node-rank $(LWS_WORKER_INDEX)
            --master-addr $(LWS_LEADER_ADDRESS)
          resources: {limits: {nvidia.com/gpu: 8}}
```

```yaml passes
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        hostIPC: true
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          command: [sh, -c]
          args:
          - vllm serve Qwen/Qwen3-235B-A22B --tensor-parallel-size 8 --pipeline-parallel-size 2
            --nnodes $(LWS_GROUP_SIZE) --node-rank $(LWS_WORKER_INDEX)
            --master-addr $(LWS_LEADER_ADDRESS)
          resources: {limits: {nvidia.com/gpu: 8}}
```

Fix: a second replica, or smaller ones where the model fits.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class BlastRadius(Rule):
    id, name = "SL209", "blast-radius"
    severity = "info"
    needs = ("placement.pods_per_group", "fleet.replicas")

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        pods, replicas = plan.placement.pods_per_group, plan.fleet.replicas
        several = pods.is_known and pods.how != "defaulted" and pods.only != 1
        return engine.checked and several and replicas.is_known and plan.role is None

    def check(self, world: World) -> Iterator[Found]:
        pods, replicas = (world.values[name] for name in self.needs)
        if pods > 1 and replicas == 1 and not _apart(world):
            yield Found(
                message=f"one replica over {pods} nodes is all there is: one lost GPU or node stops"
                " the service",
                at=world.origin("placement.pods_per_group"),
                help="a second replica, or smaller ones where the model fits",
            )


def _apart(world: World) -> bool:
    """Its data-parallel ranks go on without each other, or may do so."""
    layout, model = world.plan.effective.world().only, world.plan.model_facts.only
    if layout is None:
        return True
    return layout.dp > 1 and world.engine.ranks(layout, model, None).coupled <= 1
