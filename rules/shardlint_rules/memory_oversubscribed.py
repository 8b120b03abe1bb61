"""Engines on one GPU take more of its memory together than it has.

`--gpu-memory-utilization` is a share of the whole card, whatever else runs there. Two engines whose
shares add up to 1 or more do not both get them, since the driver keeps a context of 0.1 to 0.5 GiB
for each of them: since 0.9.1 vLLM looks first ("Free memory on device ... on startup is less than
desired GPU memory utilization"), before that the second one runs out of memory while it loads. For
the same reason an engine that looks first never starts with a share of 1 (`v1/worker/utils.py`,
`request_memory`): that is an error.

Other engines take a share of what the weights leave free, for the KV cache alone. Then the peak of
a batch, images and what the driver allocates later have to do with the rest: with LMDeploy's
`--cache-max-entry-count 0.99` that is 1 % of it, and a request with a few images is the end of the
server (InternLM/lmdeploy#3280).

The V1 engine up to 0.9.0 takes what other processes hold off its own share too
(`v1/worker/gpu_worker.py`, `non_torch_allocations`), so that there even small shares collide: a
second server with a share of 0.2 beside one with 0.2 has nothing left.

```yaml fails
services:
  chat:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B --gpu-memory-utilization 0.6
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, count: 1, capabilities: [gpu]}
  code:
    image: vllm/vllm-openai:v0.27.0
    command:
    - --model=Qwen/Qwen2.5-Coder-7B-Instruct
    - --gpu-memory-utilization=0.6  # memory-oversubscribed
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, count: 1, capabilities: [gpu]}
```

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: pictures}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}
  containers:
  - name: lmdeploy
    image: openmmlab/lmdeploy:v0.7.1
    command: [lmdeploy, serve, api_server, Qwen/Qwen2.5-VL-7B-Instruct, --session-len, "32768"]
    args: [--cache-max-entry-count, "0.99"]  # memory-oversubscribed
    resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes
services:
  chat:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B --gpu-memory-utilization 0.45
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, count: 1, capabilities: [gpu]}
  code:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen2.5-Coder-7B-Instruct --gpu-memory-utilization 0.45
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, count: 1, capabilities: [gpu]}
```

Fix: shares that add up to less than 1, or other devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Note, Repair, Rule, ServingPlan, Sized, World, gib

AFTER_LOAD = "free_after_load"
MOST = 1.0
NEAR = 0.97
"""A smaller share leaves room for a context on any card."""
LEAST_CONTEXT, USUAL_CONTEXT = 64 * 2**20, 256 * 2**20
"""What the driver keeps for a process: of an idle card, 0.1 to 0.5 GiB are not free."""


class MemoryOversubscribed(Rule):
    id, name = "SL604", "memory-oversubscribed"
    anywhere = False
    severity = "warning"
    fix = "unsafe"
    needs = ("memory.budget.share",)
    wants = ("demand",)

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        share = plan.memory.budget.share
        near = any(value > NEAR for value in share.values)
        return not share.is_unset and (near or _shared(plan))

    def check(self, world: World) -> Iterator[Found]:
        yield from _alone(world)
        yield from _behind(world)
        if _shared(world.plan) and world.plan.memory.budget.of != AFTER_LOAD:
            yield from self._together(world)

    def _together(self, world: World) -> Iterator[Found]:
        own: float = world.values["memory.budget.share"]
        others = world.plan.placement.neighbours
        shares = [other.share.only for other in others]
        known = [share for share in shares if share is not None]
        known += [own] * (copies(world.plan) - 1)
        if len(known) < len(shares):
            return
        together = round(own + sum(known), 6)
        sized = world.sized()
        if together > MOST:
            yield _found(world, len(known), f"add up to {together:g} of one GPU")
        elif together == MOST:
            what = "add up to all of one GPU, and the driver keeps some of it for each of them"
            yield _found(world, len(known), what)
        elif sized and all(_collide(one, known) for one in sized):
            what = (
                f"are {own:g} and {sum(known):g} of one GPU, and this release of"
                f" {world.engine.label} takes what the other holds off its own share"
            )
            yield _found(world, len(known), what)


def _shared(plan: ServingPlan) -> bool:
    return bool(plan.placement.neighbours) or copies(plan) > 1


def _alone(world: World) -> Iterator[Found]:
    """A share that is never free, whoever else is on the card."""
    found, whole = world.sized(), world.plan.placement.device_kind.only in (None, "gpu", "gcd")
    if not found or not whole or not all(one.made.beside.checks_free for one in found):
        return
    own: float = world.values["memory.budget.share"]
    left = int(max(one.generous.total for one in found) * (MOST - own))
    if left >= USUAL_CONTEXT:
        return
    sure = left < LEAST_CONTEXT and world.device is not None and world.device.vendor == "nvidia"
    yield Found(
        message=(
            f"a share of {own:g} of {world.card} leaves {left // 2**20} MiB free, and the driver"
            f" {'' if sure else 'usually '}keeps more than that for the process:"
            f" {world.engine.label} does not start where less than its share is free"
        ),
        at=world.origin("memory.budget.share"),
        severity="error" if sure else "warning",
        help="a share of 0.9 to 0.95",
        repair=Repair("fields", values=(("gpu_memory_utilization", 0.95),)),
    )


def _behind(world: World) -> Iterator[Found]:
    """A share for the KV cache alone that leaves less than a batch needs."""
    own: float = world.values["memory.budget.share"]
    found = world.sized()
    if world.plan.memory.budget.of != AFTER_LOAD or not found or own >= MOST:
        return
    if not all(one.made.kv > 0 and one.made.beside.activations_outside for one in found):
        return
    left = max(one.generous.total - one.generous.budget for one in found)
    peak = min(one.made.beside.activations for one in found)
    if left >= peak:
        return
    yield Found(
        message=(
            f"a share of {own:g} gives the KV cache all but {gib(left)} of what the weights leave"
            f" free, and a batch takes about {gib(peak)} beside it"
        ),
        at=world.origin("memory.budget.share"),
        help="a share of 0.8",
        repair=Repair("fields", values=(("gpu_memory_utilization", 0.8),)) if own > 0.8 else None,
    )


def copies(plan: ServingPlan) -> int:
    """Containers that are started with the same devices; a scheduler gives each its own.

    So does one that is asked by a part of a pod, of which it is not known what is around it.
    """
    placement = plan.placement
    if placement.scheduled or placement.asked or not placement.device_ids.is_known:
        return 1
    return plan.fleet.replicas.only or 1


def _collide(sized: Sized, others: list[float]) -> bool:
    """Nothing is left of a share once the memory of the others is taken off."""
    made = sized.made
    return made.beside.counts_others and made.kv - sum(others) * made.total < (made.need or 1)


def _found(world: World, others: int, what: str) -> Found:
    neighbours = world.plan.placement.neighbours
    return Found(
        message=f"the memory shares of {1 + others} engines {what}",
        at=world.origin("memory.budget.share"),
        related=tuple(
            Note(other.share.origin or other.origin, "runs at the same time")
            for other in neighbours
        ),
        help="shares that add up to less than 1, or other devices",
    )
