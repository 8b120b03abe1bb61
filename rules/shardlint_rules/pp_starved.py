"""Fewer requests run at a time than a pipeline has stages, so that some stages always wait.

A pipeline is full when each stage has a batch of its own. Engines split the requests that run into
as many batches as there are stages; with fewer requests, the other stages compute nothing, and
their GPUs only hold weights. A pass of m batches over p stages leaves each stage idle for
(p - 1) ÷ (m + p - 1) of the time (the bubble of GPipe).

Reported only with a `concurrency` in `[workload]`, which is shared out over replicas and
data-parallel ranks. An info where the stages stand in one node, where another rule says more.

```toml told
[workload]
concurrency = 2
```

```sh fails --gpu H100-SXM-80GB:8 --nodes 4
vllm serve meta-llama/Llama-3.1-405B-Instruct-FP8 --distributed-executor-backend ray \\
  --tensor-parallel-size 8 --pipeline-parallel-size 4 --max-model-len 16384  # pp-starved
```

```sh passes --gpu H100-SXM-80GB:8 --nodes 2
vllm serve meta-llama/Llama-3.1-405B-Instruct --nnodes 2 --node-rank 0 --master-addr node0 \\
  --tensor-parallel-size 8 --pipeline-parallel-size 2
```

Fix: fewer stages and wider tensor parallelism inside of a node, or more requests at a time (fewer
replicas).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.api import Engine, Found, Layout, Repair, Rule, ServingPlan, World

from shardlint_rules.pp_latency import few, one_node


class PpStarved(Rule):
    id, name = "SL405", "pp-starved"
    severity = "warning"
    told = ("concurrency",)
    needs = ("layout.pp",)
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and (plan.effective.pp.only or 1) > 1

    def check(self, world: World) -> Iterator[Found]:
        layout = world.whole
        if layout is None or not (each := few(world, layout)):
            return
        stages, idle = layout.pp, layout.pp - each
        bubble = (stages - 1) / (each + stages - 1)
        requests = "request" if each == 1 else "requests"
        yield Found(
            message=(
                f"{each} {requests} at a time for {stages} stages: {idle} of {stages} always wait"
                f" (a pass fills and drains for {stages - 1} ÷ {each + stages - 1} ="
                f" {bubble:.0%} of its time)"
            ),
            at=world.origin("layout.pp"),
            severity="info" if one_node(world, layout) else None,
            help="fewer stages, or more requests at a time for each pipeline",
            repair=_fewer(layout, each),
        )


def _fewer(layout: Layout, each: int) -> Repair | None:
    """No more stages than requests, where so many hold the model; not of pods that are counted."""
    if layout.nnodes > 1:
        return None
    sizes = [pp for pp in range(each, 0, -1) if layout.pp % pp == 0]
    ways = [Repair("fields", values=(("pp", pp),), fits=True) for pp in sizes]
    return replace(ways[0], also=tuple(ways[1:]))
