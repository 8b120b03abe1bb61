"""Tensor parallelism reaches over several pods, and nothing keeps them near each other.

Each step of a group waits for the slowest pair of its pods. The scheduler puts every pod wherever
GPUs are free: in another rack, zone or block of the network. Kubernetes itself knows only single
pods. Podaffinity, a topology of the queue (Kueue, KAI), the exclusive topology of a LeaderWorkerSet
or a node label of one block or rack keep them together.

Reported as an info; as a warning where the cards' NVLink joins the nodes of one rack only.

```yaml fails
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: llm}
spec:
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
        args:
        - meta-llama/Llama-3.1-405B-Instruct
        - --tensor-parallel-size=16  # group-spread-unpinned
        - --nnodes=2
        - --master-addr=llm-0.llm
        resources: {limits: {nvidia.com/gpu: 8}}
```

```yaml passes
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: llm}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      hostIPC: true
      affinity:
        podAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: topology.kubernetes.io/zone
            labelSelector: {matchLabels: {app: llm}}
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args:
        - meta-llama/Llama-3.1-405B-Instruct
        - --tensor-parallel-size=16
        - --nnodes=2
        - --master-addr=llm-0.llm
        resources: {limits: {nvidia.com/gpu: 8}}
```

Fix: an affinity of the pods for each other with the label of the network block or rack as its
topology key, or tensor parallelism inside one pod and pipeline stages over the pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, LayoutRule, ServingPlan, World

from shardlint_rules.tp_cross_node import RACK, spanned


class GroupSpreadUnpinned(LayoutRule):
    id, name = "SL204", "group-spread-unpinned"
    severity = "info"
    needs = ("placement.pods_per_group", "placement.packed")

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        pods = plan.placement.pods_per_group.values
        several = bool(pods) and max(pods) > 1
        return super().applies(plan, engine) and several and plan.placement.scheduled

    def check(self, world: World) -> Iterator[Found]:
        pods, packed = (world.values[name] for name in self.needs)
        if pods < 2 or packed is not None or spanned(world) < 2:
            return
        rack = (world.plan.placement.link_domain.only or 1) > RACK
        yield Found(
            message=(
                f"TP {world.layout.tp} reaches over {spanned(world)} of {pods} pods, and nothing"
                " keeps them near each other"
            ),
            at=world.origin("layout.tp", "placement.pods_per_group"),
            severity="warning" if rack else None,
            help="a podAffinity on the label of the network block or rack",
        )
