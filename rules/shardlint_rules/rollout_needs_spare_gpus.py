"""A rolling update needs GPUs that are not there.

A Deployment replaces its pods one after the other, and by default starts new ones before it stops
old ones: 25 % more, rounded up, while 25 % fewer, rounded down, may be missing. With one to three
replicas that is one more pod, and no old one may stop first. Where all GPUs are taken, the new pod
stays Pending and the old one is kept: the update hangs, until `progressDeadlineSeconds` reports it
as failed. Some charts and operators start all new pods first, and a RayService is updated by a
second cluster beside the first one, which takes as many GPUs once more.

Reported when the user says what there is (`--gpu H100:8 --nodes 2`, or the configuration), and the
replicas fit without the update.

```yaml fails --gpu H100-SXM-80GB:8 --nodes 2
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2  # rollout-needs-spare-gpus
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B", "--tensor-parallel-size=8"]
        resources: {limits: {nvidia.com/gpu: 8}}
```

```yaml passes --gpu H100-SXM-80GB:8 --nodes 2
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2
  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B", "--tensor-parallel-size=8"]
        resources: {limits: {nvidia.com/gpu: 8}}
```

Fix: `maxSurge: 0` with `maxUnavailable: 1`, or `strategy: {type: Recreate}`; or free GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class RolloutNeedsSpareGpus(Rule):
    id, name = "SL309", "rollout-needs-spare-gpus"
    severity = "warning"
    needs = (
        "placement.gpus_per_pod",
        "placement.gpus_per_node",
        "placement.nodes",
        "placement.pods_per_group",
        "fleet.surge",
    )

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        placement = plan.placement
        told = placement.gpus_per_node.is_known and placement.nodes.is_known
        surge = any(extra > 0 for extra in plan.fleet.surge.values)
        placed = placement.scheduled or plan.fleet.renewed
        return placed and told and surge and placement.device_kind.only == "gpu"

    def check(self, world: World) -> Iterator[Found]:
        each, node, nodes, pods, surge = (world.values[name] for name in self.needs)
        fleet = world.plan.fleet
        one = fleet.renewed or fleet.replicas.is_unset
        replicas = 1 if one else fleet.replicas.only
        if replicas is None or each == "all" or not 0 < each <= node or surge < 1:
            return
        room, running, more = nodes * (node // each), replicas * pods, surge * pods
        if running <= room < running + more:
            what = f"{_pods(more)} of {each} GPUs before an old one stops"
            if fleet.renewed:
                what = f"a second cluster of {more * each} GPUs before the first one stops"
            yield Found(
                message=f"an update starts {what}, and {_free(room - running, each)}: it hangs",
                at=world.origin("fleet.surge", "fleet.replicas", "placement.gpus_per_pod"),
                help=fleet.at_once,
            )


def _pods(count: int) -> str:
    return "1 more pod" if count == 1 else f"{count} more pods"


def _free(pods: int, each: int) -> str:
    return "no GPU is free" if pods == 0 else f"{pods * each} GPUs are free"
