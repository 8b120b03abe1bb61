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

```sh fails --gpu H100-SXM-80GB:1
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

from shardlint.api import Engine, Found, Rule, ServingPlan, World, fits, ranks_of

BEST = 0.75
"""The share of an estimated step that no measured one was below, with few requests."""


class SloLatencyUnmet(Rule):
    id, name = "SL517", "slo-latency-unmet"
    severity = "warning"
    told = ("isl", "osl", "tpot_ms")
    needs = ("demand",)
    anywhere = False

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
        )


def fastest_step(world: World) -> tuple[float, float] | None:
    """Milliseconds of a step with one request: at best, and about; of the fastest release.

    None where that is not known well enough.
    """
    isl, osl = world.workload.get("isl"), world.workload.get("osl")
    if isl is None or osl is None:
        return None
    speeds = world.speeds(isl=isl, osl=osl, concurrency=1)
    if not speeds or not all(speed.measured for speed in speeds):
        return None
    return min((BEST * speed.step_ms, speed.step_ms) for speed in speeds)
