"""The replicas ask for more GPUs than the machines have.

A scheduler starts a pod only on a node that has all of its GPUs free. Pods that fit nowhere stay
Pending, with "Insufficient nvidia.com/gpu", for as long as they exist. A pod never spans nodes: one
that asks for 16 GPUs waits for ever where nodes have 8, and two pods of 5 do not share a node of 8.

Reported when the user says what there is (`--gpu H100:8 --nodes 2`, or the configuration) and one
workload alone asks for more.

Ray finds places for its replicas in a cluster of its own. What its groups of pods hold at most is
in the file: replicas beyond that are never started. A warning where only the upper bound of the
replicas is out of reach.

```yaml fails --gpu H100-SXM-80GB:8 --nodes 2
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 3  # replicas-exceed-capacity
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

Fix: fewer replicas, fewer GPUs for each, or more nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shardlint.api import Engine, Found, Known, Repair, Rule, ServingPlan, World


class ReplicasExceedCapacity(Rule):
    id, name = "SL306", "replicas-exceed-capacity"
    severity = "error"
    fix = "unsafe"
    needs = ("placement.gpus_per_pod", "placement.gpus_per_node")

    def settled(self, facts: Mapping[str, Known[Any]]) -> bool:
        """What is missing is not asked for where the cluster is in the file."""
        return True

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        placement = plan.placement
        if placement.capacity.is_known and not placement.scheduled:
            return engine.checked
        one = len(placement.pool.values) < 2  # of several pools, a pod takes the one that has room
        told = placement.scheduled and placement.gpus_per_node.is_known and one
        return told and placement.device_kind.only == "gpu" and placement.gpus_per_pod.is_known

    def check_plan(self, world: World) -> Iterator[Found]:
        if not world.plan.placement.scheduled:
            yield from _in_cluster(world)

    def check(self, world: World) -> Iterator[Found]:
        if not world.plan.placement.scheduled:
            return
        each, node = (world.values[name] for name in self.needs)
        if each == "all" or each < 1:
            return
        if each > node:
            yield Found(
                message=f"a pod of {each} GPUs never finds a node: nodes have {node}",
                at=world.origin("placement.gpus_per_pod"),
            )
            return
        yield from _many(world, each, node)


def _many(world: World, each: int, node: int) -> Iterator[Found]:
    """More pods than all nodes together take."""
    plan = world.plan
    replicas, nodes = plan.fleet.replicas.only, plan.placement.nodes.only
    pods = plan.placement.pods_per_group.only
    if replicas is None or nodes is None or pods is None or plan.fleet.replicas.assumes:
        return
    room, wanted = nodes * (node // each), replicas * pods
    if wanted > room:
        total = f"{nodes} {'node' if nodes == 1 else 'nodes'} of {node} GPUs"
        yield Found(
            message=f"{wanted} pods of {each} GPUs on {total}: {_never(wanted - room)}",
            at=world.origin("fleet.replicas", "placement.gpus_per_pod"),
            help=f"{room // pods} replicas",
            repair=Repair("fields", values=(("replicas", room // pods),)) if room >= pods else None,
        )


def _in_cluster(world: World) -> Iterator[Found]:
    """More replicas than a cluster of its own holds."""
    plan = world.plan
    layout, capacity = plan.effective.world().only, plan.placement.capacity.only
    least, most = plan.fleet.replicas, plan.fleet.max_replicas
    if layout is None or capacity is None or layout.dp > 1:
        return
    each = world.engine.ranks(layout, plan.model_facts.only, None).gpus
    room = capacity // each
    if not room:  # not even one has a place, which is said elsewhere
        return
    for name, count in (("replicas", least), ("max_replicas", most)):
        wanted = count.only
        if wanted is not None and wanted > room:
            certain = name == "replicas" and not count.assumes
            yield Found(
                message=(
                    f"{wanted} replicas × {each} {'GPU' if each == 1 else 'GPUs'}, the cluster has"
                    f" {capacity} at most: {_never(wanted - room)}"
                ),
                at=world.origin(f"fleet.{name}"),
                severity="error" if certain else "warning",
                help=f"{room} {'replica' if room == 1 else 'replicas'}, or more workers",
                repair=Repair("fields", values=((name, room),)),
            )
            return


def _never(count: int) -> str:
    return "1 never starts" if count == 1 else f"{count} never start"
