"""A request for GPUs that never reaches the pod.

The chart of the vLLM production stack writes a GPU into the pod only if `requestGPU`, cut to an
integer, is above 0. `requestGPU: 0.5`, meant to let two replicas share one card, becomes 0: the pod
asks for no GPU at all. It sees every GPU of its node, and both replicas take the first one, or it
lands on a node without any. And `resources` of an entry stands in for all of its `request…` keys.

```yaml fails
servingEngineSpec:
  modelSpec:
  - name: opt
    repository: vllm/vllm-openai
    tag: v0.28.0
    modelURL: facebook/opt-125m
    replicaCount: 2
    requestGPU: 0.5  # gpu-request-ignored
```

```yaml passes
servingEngineSpec:
  modelSpec:
  - name: opt
    repository: vllm/vllm-openai
    tag: v0.28.0
    modelURL: facebook/opt-125m
    replicaCount: 2
    requestGPU: 1
```

Fix: ask for whole GPUs; to share one, name a resource that the cluster cuts cards into (MIG,
time-slicing) as `requestGPUType` and ask for one of those.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Note, Repair, Rule, ServingPlan, World


class GpuRequestIgnored(Rule):
    id, name = "SL308", "gpu-request-ignored"
    severity = "warning"
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return any(remark.kind == "gpu-request" for remark in plan.remarks)

    def check_plan(self, world: World) -> Iterator[Found]:
        for remark in world.plan.remarks:
            if remark.kind == "gpu-request":
                yield Found(
                    message=remark.message,
                    at=remark.at,
                    severity=remark.severity,
                    help=remark.help,
                    related=tuple(Note(origin, text) for origin, text in remark.related),
                    repair=_repair(world),
                )


def _repair(world: World) -> Repair | None:
    """As many GPUs as the layout needs."""
    layout = world.plan.effective.world().only
    if layout is None or not world.engine.checked:
        return None
    count = world.engine.ranks(layout, None, None).gpus_per_pod
    return None if count is None else Repair("fields", values=(("gpus_per_pod", count),))
