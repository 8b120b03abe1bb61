"""The pod or container reserves more GPUs than the layout uses.

An engine uses exactly tensor × pipeline × data parallel size devices. The others stay reserved,
idle and paid for: Kubernetes hands a GPU to one container only, and on a machine of one's own they
are what another engine could use. So it is with the GPUs of pods that join a Ray cluster for one
engine, when the layout has fewer ranks than the cluster has GPUs, and with the pods of a replica
that is to run on several nodes and fits into fewer of them. Where the cluster does not even have so
many nodes, no replica ever starts, which is an error.

```yaml fails
services:
  llm:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B --max-model-len 8192
    deploy:
      resources:
        reservations:
          devices:
          - driver: nvidia
            count: 4  # gpu-count-surplus
            capabilities: [gpu]
```

```yaml passes
services:
  llm:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B --max-model-len 8192 --tensor-parallel-size 4
    deploy:
      resources:
        reservations:
          devices:
          - driver: nvidia
            count: 4
            capabilities: [gpu]
```

Fix: raise a parallel size so that all of them work, or reserve fewer. `count: all` is not reported:
it reserves nothing for the engine alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shardlint.api import Engine, Found, Known, LayoutRule, Repair, ServingPlan, World

from shardlint_rules.gpu_count_short import product


class GpuCountSurplus(LayoutRule):
    id, name = "SL302", "gpu-count-surplus"
    severity = "warning"
    needs = ("placement.devices", "placement.pods_per_group")
    wants = ("placement.group_devices",)
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        stated = plan.placement.gpus_per_pod
        whole = plan.placement.wants_gpu and not plan.placement.shared
        counted = stated.is_known and "all" not in stated.values
        return super().applies(plan, engine) and whole and counted

    def settled(self, facts: Mapping[str, Known[Any]]) -> bool:
        return False  # one GPU used of several is just what this is about

    def check(self, world: World) -> Iterator[Found]:
        ranks, devices = world.ranks, world.devices
        if ranks is None or devices is None:
            return
        placement = world.plan.placement
        joined = placement.joined is not None and (placement.pods_per_group.only or 1) > 1
        if ranks.gpus_per_pod is None or joined:
            yield from _of_group(world)
            return
        if (pods := _fewer_pods(world)) is not None:
            yield _group(world, pods)
            return
        idle = devices - ranks.gpus_per_pod
        if idle <= 0:
            return
        used = f"{product(world)} uses {ranks.gpus_per_pod} of its {devices} GPUs"
        yield Found(
            message=f"{used}; {idle} {'stays' if idle == 1 else 'stay'} idle",
            at=world.origin("placement.gpus_per_pod"),
            help=_help(world, devices),
            repair=Repair("layout"),
        )


def _fewer_pods(world: World) -> int | None:
    """How many of the pods of a replica are enough, where those are fewer than it has."""
    ranks, devices, pods = world.ranks, world.devices, world.plan.placement.pods_per_group.only
    if ranks is None or not devices or pods is None or world.layout.nnodes != pods:
        return None
    enough = -(-ranks.gpus // devices)
    return enough if enough < pods else None


def _group(world: World, enough: int) -> Found:
    """An error where there are not so many nodes as one replica asks for."""
    ranks, devices, placement = world.ranks, world.devices, world.plan.placement
    assert ranks is not None and devices is not None
    pods, nodes, node = (
        fact.only or 0
        for fact in (placement.pods_per_group, placement.nodes, placement.gpus_per_node)
    )
    each = node // devices
    never = placement.scheduled and 0 < nodes * each < pods
    total = pods * devices
    used = f"{product(world)} uses {ranks.gpus} of the {total} GPUs of {pods} pods"
    rest = (
        f"and no more than {nodes * each} such pods find a place: a replica never starts"
        if never
        else f"{total - ranks.gpus} stay idle"
    )
    return Found(
        message=f"{used}; {rest}",
        at=world.origin("placement.pods_per_group", "placement.gpus_per_pod"),
        severity="error" if never else None,
        help=f"{enough} {'pod' if enough == 1 else 'pods'} for a replica",
        repair=Repair("layout"),
    )


def _of_group(world: World) -> Iterator[Found]:
    """Pods of a group that is one engine, and that together have more GPUs than it has ranks."""
    ranks, layout = world.ranks, world.layout
    there = world.values.get("placement.group_devices")
    placement = world.plan.placement
    pods = placement.pods_per_group.only
    if ranks is None or there is None or placement.joined is None or layout.nnodes > 1:
        return
    idle = there - ranks.gpus
    if layout.one_group and idle > 0 and pods is not None and pods > 1:
        yield Found(
            message=(
                f"{product(world)} uses {ranks.gpus} of the {there} GPUs that the {pods} pods of"
                f" a group have; {idle} {'stays' if idle == 1 else 'stay'} idle"
            ),
            at=world.origin("placement.pods_per_group", "placement.gpus_per_pod"),
            help=f"a layout of {there} GPUs, or groups of fewer pods",
        )


def _help(world: World, devices: int) -> str:
    ranks = world.ranks
    assert ranks is not None
    more = world.engine.flag_name("dp") is not None
    if more and devices % ranks.world_size == 0 and world.layout.one_group:
        return f"DP {devices // ranks.world_size} uses them all; or ask for {ranks.gpus_per_pod}"
    return f"ask for {ranks.gpus_per_pod}"
