"""The goal for the time of a token fails at any number of replicas.

A token cannot come sooner than one step of the engine takes with nobody else there: the weights are
read once, every layer is launched, the ranks exchange their sums. More replicas share out the
requests, and do not shorten the step. Where even three quarters of the estimated step are more than
`[workload] tpot_ms`, only another layout, fewer bytes of weights or a faster card reaches the goal:
of 252 measured replicas with up to eight requests none took less than 0.757 of it.

Reported only where layouts of this kind were measured (dense models on cards and engines of the
fit), with `isl`, `osl` and `tpot_ms` in `[workload]`.

```toml told
[workload]
isl = 1024
osl = 256
tpot_ms = 15
```

```sh fails --gpu H100-SXM-80GB:4
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 1 --max-model-len 4096  # slo-latency-unmet
```

```sh passes --gpu H100-SXM-80GB:4
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4 --max-model-len 4096
```

Fix: wider tensor parallelism inside of a node, weights of fewer bytes (FP8), a faster card, or
another goal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.api import (
    Engine,
    Found,
    Layout,
    Repair,
    Rule,
    ServingPlan,
    World,
    fits,
    ranks_of,
    refuses,
)

BEST = 0.75
"""The share of an estimated step that no measured one was below, with few requests."""
NODE = 8
"""GPUs of a node whose size nobody states."""


class SloLatencyUnmet(Rule):
    id, name = "SL517", "slo-latency-unmet"
    severity = "warning"
    told = ("isl", "osl", "tpot_ms")
    needs = ("demand",)
    anywhere = False
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and plan.placement.wants_gpu and plan.role is None

    def check(self, world: World) -> Iterator[Found]:
        goal = world.workload["tpot_ms"]
        if not world.starts or not fits(world.sized()):
            return
        least = fastest_step(world)
        if least is None or least[0] <= goal:
            return
        yield Found(
            message=(
                f"a token takes about {least[1]:.1f} ms{ranks_of(world)} on {world.card} with one"
                f" request at a time, at best {least[0]:.1f} ms; the goal of {goal:g} ms fails at"
                " any number of replicas"
            ),
            at=world.origin("layout.tp", "model"),
            help="wider tensor parallelism inside of a node, fewer bits per weight, a faster card",
            repair=_wider(world, goal),
        )


def _wider(world: World, goal: float) -> Repair | None:
    """The least tensor parallelism in a node with which a step takes no longer by the estimate:
    on the GPUs of some copies, else on more GPUs."""
    layout, placement = world.layout, world.plan.placement
    stated, node = placement.gpus_per_pod.only, placement.gpus_per_node.only or NODE
    if not isinstance(stated, int):
        stated, node = None, placement.devices.only or node
    if not layout.one_group:
        return None
    tp = layout.tp
    while (tp := 2 * tp) * layout.pp <= node:
        after = replace(layout, tp=tp, dp=max(1, layout.dp * layout.tp // tp))
        step = None if _refused(world, after) else fastest_step(world, after)
        gpus = tp * layout.pp * after.dp
        if step is None or step[1] > goal or gpus > node:
            continue
        values = [("tp", tp)]
        if after.dp != layout.dp:
            values.append(("dp", after.dp))
        if stated is not None and stated != gpus:
            values.append(("gpus_per_pod", gpus))
        return Repair("fields", values=tuple(values))
    return None


def _refused(world: World, layout: Layout) -> bool:
    options, device = world.options, world.device
    return refuses(world.engine, layout, world.model, options=options, device=device) is not None


def fastest_step(world: World, layout: Layout | None = None) -> tuple[float, float] | None:
    """Milliseconds of a step with one request: at best, and about; of the fastest release.

    Of this layout or of another one. None where that is not known well enough.
    """
    isl, osl = world.workload.get("isl"), world.workload.get("osl")
    if isl is None or osl is None:
        return None
    speeds = world.speeds(layout, isl=isl, osl=osl, concurrency=1)
    if not speeds or not all(speed.measured for speed in speeds):
        return None
    return min((BEST * speed.step_ms, speed.step_ms) for speed in speeds)
