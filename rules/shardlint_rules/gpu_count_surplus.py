"""The pod or container reserves more GPUs than the layout uses.

An engine uses exactly tensor × pipeline × data parallel size devices. The others stay reserved,
idle and paid for: Kubernetes hands a GPU to one container only, and on a machine of one's own they
are what another engine could use.

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

from shardlint.api import Engine, Found, Known, LayoutRule, ServingPlan, World

from shardlint_rules.gpu_count_short import product


class GpuCountSurplus(LayoutRule):
    id, name = "SL302", "gpu-count-surplus"
    severity = "warning"
    needs = ("placement.devices", "placement.pods_per_group")

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        stated = plan.placement.gpus_per_pod
        whole = plan.placement.wants_gpu and not plan.placement.shared
        counted = stated.is_known and "all" not in stated.values
        return super().applies(plan, engine) and whole and counted

    def settled(self, facts: Mapping[str, Known[Any]]) -> bool:
        return False  # one GPU used of several is just what this is about

    def check(self, world: World) -> Iterator[Found]:
        ranks, devices = world.ranks, world.devices
        if ranks is None or devices is None or ranks.gpus_per_pod is None:
            return
        idle = devices - ranks.gpus_per_pod
        if idle <= 0:
            return
        used = f"{product(world)} uses {ranks.gpus_per_pod} of its {devices} GPUs"
        yield Found(
            message=f"{used}; {idle} {'stays' if idle == 1 else 'stay'} idle",
            at=world.origin("placement.gpus_per_pod"),
            help=_help(world, devices),
        )


def _help(world: World, devices: int) -> str:
    ranks = world.ranks
    assert ranks is not None
    more = world.engine.flag_name("dp") is not None
    if more and devices % ranks.world_size == 0 and world.layout.one_group:
        return f"DP {devices // ranks.world_size} uses them all; or ask for {ranks.gpus_per_pod}"
    return f"ask for {ranks.gpus_per_pod}"
