"""The replicas do not give what the workload asks of them.

What one replica gives is bounded by its card and layout. Where the fast end of what was measured
for such layouts, times the replicas, stays below `[workload] target_tok_s`, or where the stated
requests, shared out over the replicas, make three quarters of an estimated step longer than
`tpot_ms`, the fleet is too small (99 of 100 measured replicas took more than that). A scaler counts
with the most replicas it may start.

Reported only where layouts of this kind were measured (dense models on cards and engines of the
fit), with `isl` and `osl` and one of these goals in `[workload]`. A goal that no number of replicas
reaches is another rule's, and nothing is said where other plans serve the same model.

```toml told
[workload]
isl = 1024
osl = 1024
target_tok_s = 40000
```

```yaml fails --gpu H100-SXM-80GB:8
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2  # fleet-undersized
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B", "--max-model-len=8192"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes --gpu H100-SXM-80GB:8
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 8
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B", "--max-model-len=8192"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: more replicas, or a layout that gives more on each GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Repair, Rule, ServingPlan, Speed, World, fits

from shardlint_rules.slo_latency_unmet import BEST, fastest_step

MOST = 64
"""Times as many replicas as there are, beyond which none are proposed."""


class FleetUndersized(Rule):
    id, name = "SL518", "fleet-undersized"
    severity = "warning"
    told = ("isl", "osl")
    needs = ("demand",)
    anywhere = False
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and plan.placement.wants_gpu and plan.role is None

    def check(self, world: World) -> Iterator[Found]:
        told, copies = world.workload, _copies(world.plan)
        if not copies or world.peers or not {"target_tok_s", "tpot_ms"} & told.keys():
            return
        if not world.starts or not fits(world.sized()):
            return
        asked = told.get("concurrency")
        speeds = _speeds(world, None if asked is None else -(-asked // copies))
        if not speeds:
            return
        target, goal = told.get("target_tok_s"), told.get("tpot_ms")
        if target is not None:
            yield from _too_few(world, max(speeds, key=lambda item: item.tok_s), copies, target)
        if goal is not None and asked is not None:
            yield from _too_slow(world, min(speeds, key=lambda item: item.tpot_ms), copies, goal)


def _copies(plan: ServingPlan) -> int | None:
    """Replicas at the most; None where that is not known. One process is one."""
    fleet = plan.fleet
    if fleet.scaler is not None or not fleet.max_replicas.is_unset:
        return fleet.max_replicas.only
    return 1 if fleet.replicas.is_unset else fleet.replicas.only


def _speeds(world: World, concurrency: int | None) -> tuple[Speed, ...]:
    isl, osl = world.workload["isl"], world.workload["osl"]
    found = world.speeds(isl=isl, osl=osl, concurrency=concurrency)
    return found if all(speed.measured for speed in found) else ()


def _too_few(world: World, speed: Speed, copies: int, target: float) -> Iterator[Found]:
    """By the fast end of the range of the fastest release."""
    if copies * speed.tok_s * speed.high >= target:
        return
    needed = -int(-target // speed.tok_s)
    yield Found(
        message=(
            f"{_replicas(copies)} × about {speed.tok_s:,.0f} = {copies * speed.tok_s:,.0f} tokens a"
            f" second (at most {copies * speed.tok_s * speed.high:,.0f}), and {target:,.0f} are"
            " asked for"
        ),
        at=world.origin("fleet.replicas", "layout.tp", "model"),
        help=f"{target:,.0f} ÷ {speed.tok_s:,.0f} = {needed} replicas of this layout, and headroom",
        repair=_more(world, needed),
    )


def _too_slow(world: World, speed: Speed, copies: int, goal: float) -> Iterator[Found]:
    """Of a goal that fewer requests for each replica could reach."""
    alone = fastest_step(world)
    best = BEST * speed.step_ms
    if alone is None or alone[0] > goal or best <= goal:
        return
    yield Found(
        message=(
            f"{world.workload['concurrency']:,} requests over {_replicas(copies)}: a token takes"
            f" about {speed.tpot_ms:.0f} ms, at best {best:.0f} ms, and the goal is {goal:g} ms"
        ),
        at=world.origin("fleet.replicas", "layout.tp", "model"),
        help="more replicas, each of which gets fewer requests at a time",
        repair=_more(world, _reaching(world, copies, goal)),
    )


def _reaching(world: World, copies: int, goal: float) -> int | None:
    """The fewest replicas of which the fastest release reaches the goal, by the estimate."""
    asked = world.workload["concurrency"]
    for more in range(copies + 1, min(asked, MOST * copies) + 1):
        speeds = _speeds(world, -(-asked // more))
        if speeds and min(speed.tpot_ms for speed in speeds) <= goal:
            return more
    return None


def _more(world: World, needed: int | None) -> Repair | None:
    """So many replicas, where there are GPUs for them; of scalers, the most that they may start."""
    if needed is None:
        return None
    placement, fleet, layout = world.plan.placement, world.plan.fleet, world.layout
    nodes, node = placement.nodes.only, placement.gpus_per_node.only
    if nodes and node and needed * layout.tp * layout.pp * layout.dp > nodes * node:
        return None
    scaled = fleet.scaler is not None or not fleet.max_replicas.is_unset
    return Repair("fields", values=(("max_replicas" if scaled else "replicas", needed),))


def _replicas(copies: int) -> str:
    return "1 replica" if copies == 1 else f"{copies:,} replicas"
