"""Two engines run on one GPU, or tensor parallelism on shares of one.

An engine sizes its KV cache as if the whole GPU were its own. A second one on the same GPU finds
the memory taken: vLLM stops with "Free memory on device ... is less than desired GPU memory
utilization", or both wait for each other's kernels. Docker hands out a `count` of N as the devices
0 to N-1, to every container the same ones, and `all` as all of them; a process takes the first GPUs
that it sees; replicas of one service get the same devices. Nothing is said where the shares that
the engines state leave room for both.

A `ResourceClaim` that a pod names itself (`resourceClaimName`) is one claim, with the same devices
for every pod that names it; a `ResourceClaimTemplate` gives each pod a claim of its own.

Shares of a card (`nvidia.com/gpu.shared`, vGPU) and MIG slices cannot be added up by tensor
parallelism: two shares may be the same card, and NCCL does not join slices of one.

```yaml fails
services:
  chat:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, count: 1, capabilities: [gpu]}
  code:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen2.5-Coder-7B-Instruct
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, count: 1, capabilities: [gpu]}  # gpu-shared
```

```yaml passes
services:
  chat:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen3-8B
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, device_ids: ["0"], capabilities: [gpu]}
  code:
    image: vllm/vllm-openai:v0.27.0
    command: --model Qwen/Qwen2.5-Coder-7B-Instruct
    deploy:
      resources:
        reservations:
          devices:
          - {driver: nvidia, device_ids: ["1"], capabilities: [gpu]}
```

Fix: name other devices (`device_ids`, `--gpus '"device=1"'`, `CUDA_VISIBLE_DEVICES`), or give each
engine a share of the memory so that together they stay below 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Known, LayoutRule, Neighbour, Note, ServingPlan, World

from shardlint_rules.memory_oversubscribed import copies

PARTS = {"shared": "shares of cards", "mig": "MIG slices"}


class GpuShared(LayoutRule):
    id, name = "SL304", "gpu-shared"
    severity = "warning"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        placement = plan.placement
        parts = placement.device_kind.only in PARTS
        said = parts or bool(placement.neighbours) or copies(plan) > 1 or _claimed(plan) > 1
        return super().applies(plan, engine) and placement.wants_gpu and said

    def check(self, world: World) -> Iterator[Found]:
        plan, kind = world.plan, world.plan.placement.device_kind.only
        if kind in PARTS and world.layout.tp > 1:
            yield Found(
                message=(
                    f"TP {world.layout.tp} over {PARTS[kind]}: they are no GPUs that can be added"
                    " up"
                ),
                at=world.origin("layout.tp"),
                help="whole GPUs, or TP 1",
            )
        others = plan.placement.neighbours
        if others and not _leave_room(plan, *(other.share for other in others)):
            yield _together(world, others)
        if (pods := _claimed(plan)) > 1 and not _leave_room(plan):
            yield Found(
                message=f"{pods} replicas are given the same GPUs by one resource claim",
                at=world.origin("placement.claim"),
                help="a ResourceClaimTemplate, which gives each pod a claim of its own",
            )
        count = copies(plan)
        if count > 1 and not _leave_room(plan):
            yield Found(
                message=f"{count} replicas are given the same GPUs",
                at=world.origin("fleet.replicas"),
                help="a service of its own for each, with other devices",
            )


def _claimed(plan: ServingPlan) -> int:
    """Replicas that share the devices of one claim."""
    return (plan.fleet.replicas.only or 1) if plan.placement.claim.is_known else 1


def _leave_room(plan: ServingPlan, *others: Known[float]) -> bool:
    """They state how much of the memory they take; whether it is too much, another rule says."""
    if not plan.memory.budget.bytes.is_unset:
        return True
    return not any(share.is_unset for share in (plan.memory.budget.share, *others))


def _together(world: World, others: tuple[Neighbour, ...]) -> Found:
    devices = sorted({device for other in others for device in other.devices})
    words = ("GPUs" if len(devices) > 1 else "GPU") + " " + ", ".join(devices[:8])
    own = world.plan.name
    named = ("another engine of this file" if o.name == own else o.name for o in others)
    names = ", ".join(dict.fromkeys(named))
    return Found(
        message=f"{words} {'are' if len(devices) > 1 else 'is'} in use by {names} too",
        at=world.origin("placement.gpus_per_pod", "layout.tp"),
        related=tuple(Note(other.origin, "runs at the same time") for other in others),
        help="other devices, or shares of the memory that leave room for each other",
    )
