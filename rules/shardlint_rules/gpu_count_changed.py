"""The GPUs of a plan are more or fewer than at the revision that the files are compared with.

Only with `--diff-base`: a change of one number in a pull request can multiply what a deployment
reserves, and the product (tensor × pipeline × data parallel size × replicas) is written nowhere.
Said as info, with both counts and the degrees that changed: whether that is meant, nobody but the
author knows. Where the plan runs in a `[[pool]]` of the configuration that has a `price`, the price
of one GPU for one hour, what all of them cost in an hour is said too.

The file at the revision:

```yaml before
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.27.0
        args: [Qwen/Qwen3-8B, --max-num-seqs, "64", --data-parallel-size, "1"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

Said of it with `--diff-base`, 2 → 8 GPUs (DP 1 → 4):

```yaml fails
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.27.0
        args: [Qwen/Qwen3-8B, --max-num-seqs, "64", --data-parallel-size, "4"]  # gpu-count-changed
        resources: {limits: {nvidia.com/gpu: 4}}
```

```yaml passes
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.27.0
        args: [Qwen/Qwen3-8B, --max-num-seqs, "128", --data-parallel-size, "1"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: none is needed where the change is meant. Otherwise the change to take back is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Known, Layout, Origin, Rule, ServingPlan, World

DEGREES = (("TP", "tp"), ("PP", "pp"), ("DP", "dp"), ("PCP", "pcp"))


class GpuCountChanged(Rule):
    id, name = "SL310", "gpu-count-changed"
    severity = "info"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return plan.before is not None and engine.checked

    def check_plan(self, world: World) -> Iterator[Found]:
        plan, before = world.plan, world.plan.before
        if before is None or before.engine != plan.engine:
            return
        now, was = _decided(plan, world.engine), _decided(before, world.engine)
        if now is None or was is None or now[2] == was[2]:
            return
        degrees = [(name, getattr(was[0], field), getattr(now[0], field))
                   for name, field in DEGREES]  # fmt: skip
        changes = [*degrees, ("replicas", was[1], now[1])]
        told = [f"{name} {old} → {new}" for name, old, new in changes if old != new]
        why = f" ({', '.join(told)})" if told else ""
        cost = _cost(before, plan, was[2], now[2])
        yield Found(message=f"{was[2]} → {now[2]} GPUs{why}{cost}", at=_place(world, was, now))


def _cost(before: ServingPlan, plan: ServingPlan, was: int, now: int) -> str:
    """What the GPUs of the pools cost in an hour, before and now; nothing where that is open."""
    old, new = before.placement.price.only, plan.placement.price.only
    if old is None or new is None:
        return ""
    first, last = was * old, now * new
    return f"; {first:,.2f} → {last:,.2f} per hour ({last - first:+,.2f}) by the price of the pool"


def _decided(plan: ServingPlan, engine: Engine) -> tuple[Layout, int, int] | None:
    """The layout, the replicas and the GPUs of all of them, where they are decided."""
    layout = plan.effective.world().only
    replicas = plan.fleet.replicas.or_default(Known.of(1)).only
    if layout is None or replicas is None:
        return None
    ranks = engine.ranks(layout, plan.model_facts.only, plan.placement.devices.only)
    return layout, replicas, ranks.gpus * replicas


def _place(world: World, was: tuple[Layout, int, int], now: tuple[Layout, int, int]) -> Origin:
    changed = [f"layout.{field}" for _, field in DEGREES
               if getattr(was[0], field) != getattr(now[0], field)]  # fmt: skip
    return world.origin(*changed, *(["fleet.replicas"] if was[1] != now[1] else []))
