"""Pipeline stages inside one node make every token wait for all of them.

The stages of a pipeline work one after the other: a token takes as long as through all layers on
one GPU, and with few requests most stages wait. Tensor parallelism on the same GPUs computes every
layer with all of them. On LLaMA 13B over four A100, PP 2 × TP 2 took 10.2 s at the 90th percentile
where TP 4 took 6.4 s (NVIDIA/TensorRT-LLM issue 1144; a maintainer: pipeline parallelism does not
improve latency). Stages are for what one node does not hold, and for boards without NVLink, where
they serve many requests at less traffic between the GPUs.

Commands that build an engine ahead (`trtllm-build`, `convert_checkpoint.py`) are told, too: the
layout of the server is decided there.

An info where all stages stand in one node and the engine takes the same GPUs without stages, or one
of them holds the model. A warning where the model fits without stages and `[workload]` says that
fewer requests than stages run at a time (`concurrency`), or sets a goal for the time of a token
(`tpot_ms`). Stages over several nodes are not reported, nor those of boards without NVLink for a
batch (`kind = "batch"`).

```sh fails --gpu H100-SXM-80GB:4
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --pipeline-parallel-size 2  # pp-latency
```

```sh passes --gpu H100-SXM-80GB:4
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4
```

```sh passes --gpu H100-SXM-80GB:8 --nodes 2
vllm serve meta-llama/Llama-3.1-405B-Instruct --nnodes 2 --node-rank 0 --master-addr node0 \\
  --tensor-parallel-size 8 --pipeline-parallel-size 2
```

Fix: tensor parallelism on the same GPUs, or fewer GPUs for one copy of the model and more copies.
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
    refuses,
)

from shardlint_rules.tp_cross_node import per_node
from shardlint_rules.tp_oversharded import holds
from shardlint_rules.tp_slow_link import SLOW


class PpLatency(Rule):
    id, name = "SL404", "pp-latency"
    severity = "info"
    needs = ("layout.tp", "layout.pp")
    wants = ("model_facts", "placement.gpu", "placement.link", "demand")
    anywhere = False
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        stages = plan.effective.pp.only or 1
        runs = plan.placement.wants_gpu or plan.builds
        return engine.checked and stages > 1 and runs

    def check(self, world: World) -> Iterator[Found]:
        layout = world.whole
        if layout is None or not world.starts or not one_node(world, layout):
            return
        flat, slow = without_stages(world, layout), world.values.get("placement.link") in SLOW
        if flat is None or (slow and world.workload.get("kind") == "batch"):
            return
        stages, held = layout.pp, holds(world, flat, 1)
        low, goal = few(world, layout), "tpot_ms" in world.workload
        idle = f" ({low} at a time leave {stages - low} of them idle)" if low else ""
        other = f"TP {flat.tp} computes every layer with all {flat.tp} GPUs"
        yield Found(
            message=(
                f"PP {stages} inside one node: requests pass {stages} stages one after the"
                f" other{idle}; {other if flat.tp > layout.tp else 'the GPUs of one stage hold it'}"
            ),
            at=world.origin("layout.pp"),
            severity="warning" if held and (low or goal) else "info",
            help=(
                f"TP {flat.tp} without stages{'' if held else ', where one GPU holds its part'};"
                " stages pay where the GPUs have no fast link and many requests run at a time"
            ),
            repair=_repair(world, layout, flat),
        )


def one_node(world: World, layout: Layout) -> bool:
    """All ranks of one copy certainly stand in one node."""
    there, pods = per_node(world), world.plan.placement.pods_per_group
    alone = layout.nnodes == 1 and (pods.is_unset or pods.only == 1)
    return alone and there is not None and layout.tp * layout.pp * layout.pcp <= there


def few(world: World, layout: Layout) -> int:
    """The stated requests at a time of one pipeline, if they are fewer than its stages; else 0."""
    asked, replicas = world.workload.get("concurrency"), world.plan.fleet.replicas
    copies = 1 if replicas.is_unset else replicas.only
    if asked is None or not copies:
        return 0
    each = -(-asked // (copies * layout.dp))
    return each if each < layout.pp else 0


def without_stages(world: World, layout: Layout) -> Layout | None:
    """The same GPUs without stages; else those of one stage, where they hold the model."""
    wide, narrow = replace(layout, tp=layout.tp * layout.pp, pp=1), replace(layout, pp=1)
    if _taken(world, wide):
        return wide  # as much on each GPU as with stages
    return narrow if _taken(world, narrow) and holds(world, narrow, 1) else None


def _taken(world: World, layout: Layout) -> bool:
    options, device = world.options, world.device
    return refuses(world.engine, layout, world.model, options=options, device=device) is None


def _repair(world: World, layout: Layout, flat: Layout) -> Repair | None:
    """None where the shape of the model is not known, and with it what sizes it can be cut to."""
    if world.model is None or not layout.one_group:
        return None
    sizes = (("tp", flat.tp), ("pp", 1))
    return Repair("fields", values=sizes if flat.tp != layout.tp else sizes[1:])
