"""An engine on several nodes is left to guess which network interface to use.

Ranks on several nodes find each other by NCCL and Gloo. Both take an interface of their choice when
`NCCL_SOCKET_IFNAME` and `GLOO_SOCKET_IFNAME` name none. A pod with its own network has one, and the
guess is right. With the host's network, or with further interfaces by an annotation, there are
bridges, virtual and loopback interfaces to pick from, and the ranks wait for each other until
"Gloo connectFullMesh failed". Both variables belong on every node.

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
      hostNetwork: true  # net-iface-unset
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        command: [sh, -c]
        args:
        - >-
          vllm serve meta-llama/Llama-3.1-405B-Instruct -tp 8 -pp 2 --nnodes 2
          --node-rank $RANK --master-addr llm-0.llm
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
      hostNetwork: true
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        command: [sh, -c]
        args:
        - >-
          vllm serve meta-llama/Llama-3.1-405B-Instruct -tp 8 -pp 2 --nnodes 2
          --node-rank $RANK --master-addr llm-0.llm
        env:
        - {name: NCCL_SOCKET_IFNAME, value: eth0}
        - {name: GLOO_SOCKET_IFNAME, value: eth0}
        resources: {limits: {nvidia.com/gpu: 8}}
```

Fix: set both variables to the interface that leads to the other nodes, on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, LayoutRule, ServingPlan, World

from shardlint_rules.tp_cross_node import per_node

NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


class NetIfaceUnset(LayoutRule):
    id, name = "SL207", "net-iface-unset"
    severity = "warning"
    needs = ("placement.interfaces", *(f"env.{name}" for name in NAMES))

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        several = any(value is not None for value in plan.placement.interfaces.values)
        return super().applies(plan, engine) and several

    def check(self, world: World) -> Iterator[Found]:
        nodes, why = joined_nodes(world), world.values["placement.interfaces"]
        missing = [name for name in NAMES if world.values[f"env.{name}"] is None]
        if nodes < 2 or why is None or not missing:
            return
        words = " and ".join(missing)
        yield Found(
            message=(
                f"ranks on {nodes} nodes choose among several interfaces ({why}):"
                f" {words} {'is' if len(missing) == 1 else 'are'} not set"
            ),
            at=world.origin("placement.interfaces", "layout.nnodes", "layout.tp"),
            help=f"set {words} to the interface that leads to the other nodes",
        )


def joined_nodes(world: World) -> int:
    """Nodes or pods that one engine takes, 1 where it is not known that there are several."""
    layout, ranks = world.layout, world.ranks
    pods = world.plan.placement.pods_per_group.only or 1
    if layout.nnodes > 1 or pods > 1:
        return max(layout.nnodes, pods)
    local = per_node(world)
    if ranks is None or ranks.gpus_per_pod is not None or not local:
        return 1
    return -(-ranks.gpus // local)
