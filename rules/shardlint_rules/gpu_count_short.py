"""The layout needs more GPUs than the pod, container or host has.

The engine starts one process per GPU: tensor × pipeline × data parallel size in one pod, or each
node's part of it. With fewer devices it stops while it starts. vLLM: "World size (16) is larger
than the number of available GPUs (8) in this node" when one replica does not fit
(`config/parallel.py`, from 0.16.0 on), "DP adjusted local rank 4 is out of bounds for 4 devices"
when the data-parallel ranks do not (`v1/worker/gpu_worker.py`). With Ray, a replica waits for GPUs
that its cluster does not have, however far that may grow.

```yaml fails
services:
  llm:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B --tensor-parallel-size 4 --data-parallel-size 4
    deploy:
      resources:
        reservations:
          devices:
          - driver: nvidia
            count: 4  # gpu-count-short
            capabilities: [gpu]
```

```yaml passes
services:
  llm:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B --tensor-parallel-size 2 --data-parallel-size 2
    deploy:
      resources:
        reservations:
          devices:
          - driver: nvidia
            count: 4
            capabilities: [gpu]
```

Fix: ask for as many GPUs as the product, or lower one of its factors. Where several hosts share one
engine, say so: `--nnodes`, or `--distributed-executor-backend ray`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.api import (
    Constraint,
    ConstraintRule,
    Engine,
    Found,
    Note,
    ServingPlan,
    World,
    says,
)


class GpuCountShort(ConstraintRule):
    id, name = "SL301", "gpu-count-short"
    anywhere = True
    message = "{product} needs {left} {gpus}, {given}; {says}"
    needs = ("placement.devices", "placement.pods_per_group")
    gate = True
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return super().applies(plan, engine) and plan.placement.wants_gpu

    def check(self, world: World) -> Iterator[Found]:
        """A group of pods that has too few GPUs in all is told of as a whole."""
        if short_group(world) is None:
            yield from super().check(world)
            yield from _of_one_pod(world)

    def check_plan(self, world: World) -> Iterator[Found]:
        """One replica and the whole of the cluster that Ray finds places in."""
        plan = world.plan
        asked, capacity = plan.effective.world(), plan.placement.capacity
        if asked.only is None or capacity.only is None or asked.only.executor != "ray":
            return
        one = replace(world, layout=replace(asked.only, dp=1, dp_local=None))
        need = world.engine.ranks(one.layout, plan.model_facts.only, None).gpus
        if need > capacity.only:
            sure = not (asked.assumes or capacity.assumes)
            yield Found(
                message=(
                    f"{product(one)} needs {need} {'GPU' if need == 1 else 'GPUs'}, the Ray cluster"
                    f" has {capacity.only} at most: it never starts"
                ),
                at=world.origin("layout.tp", "layout.pp"),
                severity="error" if sure else "warning",
                help=f"{need} GPUs in the groups of workers, or a smaller product",
            )

    def found(self, constraint: Constraint, world: World) -> Found:
        found = super().found(constraint, world)
        count = world.plan.placement.gpus_per_pod.origin
        factors = [
            origin
            for name in ("dp", "pp", "tp")
            if getattr(world.layout, name) > 1
            and (origin := world.plan.fact(f"layout.{name}").origin) is not None
        ]
        stated = world.plan.placement.on_host and factors  # what a machine has is no mistake
        at = factors[0] if stated else count or (factors[0] if factors else world.plan.origin)
        notes = tuple(Note(origin, "asked for here") for origin in factors if origin != at)
        return Found(
            message=found.message, at=at, related=notes, repair=found.repair, help=_help(world)
        )

    def text(self, constraint: Constraint, world: World) -> str:
        given = "this host has" if world.plan.placement.on_host else "this container gets"
        return self.message.format(
            product=product(world), left=constraint.left, says=says(world, constraint),
            gpus="GPU" if constraint.left == 1 else "GPUs", given=f"{given} {constraint.right}",
        )  # fmt: skip


def _of_one_pod(world: World) -> Iterator[Found]:
    """Ranks that Ray places, where no other pod is seen to join its cluster."""
    placement, ranks, devices = world.plan.placement, world.ranks, world.devices
    ray = world.layout.executor == "ray" and placement.joined is None
    alone = placement.scheduled and placement.pods_per_group.only == 1
    if not (ray and alone) or placement.capacity.is_known or ranks is None or devices is None:
        return
    if ranks.gpus_per_pod is None and ranks.world_size > devices:
        gpus = "GPU" if devices == 1 else "GPUs"
        yield Found(
            message=(
                f"{product(world)} needs {ranks.world_size} GPUs, and Ray finds the {devices}"
                f" {gpus} of this pod: nothing here joins it to other pods"
            ),
            at=world.origin("placement.gpus_per_pod", "layout.tp"),
            severity="warning",
            help=f"{ranks.world_size} GPUs, or pods that join one Ray cluster",
        )


def short_group(world: World) -> int | None:
    """The devices of all pods that an operator makes for one engine, where they are too few.

    Where Ray places the ranks, it looks for them itself.
    """
    plan, layout, ranks = world.plan, world.whole, world.ranks
    given = plan.placement.group_devices
    if not plan.fleet.groups or given.only is None or given.assumes or ranks is None:
        return None
    if layout is None or layout.executor == "ray" or given.only >= ranks.gpus:
        return None
    return given.only


def product(world: World) -> str:
    """The factors of the GPU count, written out: "TP 8 × PP 2 × DP 4"."""
    layout = world.layout
    local = layout.dp if layout.dp_local is None else layout.dp_local
    factors = [("TP", layout.tp), ("PP", layout.pp), ("PCP", layout.pcp)]
    factors.append(("DP", layout.dp) if local == layout.dp else ("local DP", local))
    shown = [f"{name} {value}" for name, value in factors if value > 1] or ["TP 1"]
    nodes = f" on {layout.nnodes} nodes" if layout.nnodes > 1 else ""
    return " × ".join(shown) + nodes


def _help(world: World) -> str:
    ranks = world.ranks
    assert ranks is not None and world.devices is not None
    asked = f"{ranks.gpus_per_pod} GPUs"
    copies = world.devices // ranks.world_size
    ways = [asked]
    if world.engine.flag_name("dp") is not None and copies and world.layout.one_group:
        ways.insert(0, f"DP {copies}")
    if world.plan.placement.joined is not None and (option := world.engine.flag_name("executor")):
        ways.append(f"`{option} ray`, without which the Ray cluster is not used")
    return ", or ".join(ways)
