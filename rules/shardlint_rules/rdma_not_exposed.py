"""The network between the nodes is RDMA, and the containers do not get its device.

NCCL talks RDMA only through a device that the container can open (/dev/infiniband). Without it NCCL
says nothing and uses TCP over the pod's network: a tenth of the speed or less. A pod gets the
device by a resource of its device plugin (`rdma/ib`, `vpc.amazonaws.com/efa`, an SR-IOV resource),
by a further network in an annotation, or as a privileged pod.

Reported when the user says that there is such a network (`--network rdma`) and the engine spans
several nodes; and, also where only the file asks for such a device, when `NCCL_IB_DISABLE=1` throws
it away again.

```yaml fails --network rdma
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
        command: [sh, -c]
        args:
        - >-
          vllm serve meta-llama/Llama-3.1-405B-Instruct -tp 8 -pp 2 --nnodes 2
          --node-rank $RANK --master-addr llm-0.llm
        resources:
          limits:
            nvidia.com/gpu: 8  # rdma-not-exposed
```

```yaml passes --network rdma
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
        command: [sh, -c]
        args:
        - >-
          vllm serve meta-llama/Llama-3.1-405B-Instruct -tp 8 -pp 2 --nnodes 2
          --node-rank $RANK --master-addr llm-0.llm
        resources: {limits: {nvidia.com/gpu: 8, rdma/ib: 1}}
```

Fix: ask for the device beside the GPUs, on every pod of the group.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, LayoutRule, Origin, ServingPlan, World

from shardlint_rules.net_iface_unset import joined_nodes

OFF = "NCCL_IB_DISABLE"


class RdmaNotExposed(LayoutRule):
    id, name = "SL208", "rdma-not-exposed"
    severity = "warning"
    needs = ("placement.rdma", "placement.host_network")

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return super().applies(plan, engine) and plan.placement.network.only == "rdma"

    def check(self, world: World) -> Iterator[Found]:
        nodes, given = joined_nodes(world), world.values["placement.rdma"]
        if nodes < 2:
            return
        off = world.plan.placement.env.get(OFF)
        if off is not None and off.only == "1" and not off.assumes:
            yield _thrown_away(world, nodes, off.origin)
        elif given is None and not world.values["placement.host_network"]:
            yield Found(
                message=(
                    f"ranks on {nodes} nodes fall back to TCP: the container asks for no device of"
                    " the RDMA network"
                ),
                at=world.origin("placement.gpus_per_pod", "layout.nnodes", "layout.tp"),
                help="an RDMA resource beside the GPUs, such as rdma/ib or vpc.amazonaws.com/efa",
            )


def _thrown_away(world: World, nodes: int, at: Origin | None) -> Found:
    return Found(
        message=f"ranks on {nodes} nodes use TCP although there is RDMA: {OFF} is 1",
        at=at or world.origin("layout.nnodes", "layout.tp"),
        help=f"leave {OFF} out",
    )
