"""Kubernetes does not accept what the container asks of its devices.

Devices are handed out whole. An extended resource such as `nvidia.com/gpu` takes whole numbers
only, a limit must be there, and a request beside it must be the same ("Invalid value: must be an
integer", "must be equal to nvidia.com/gpu limit", "Limit must be set for non overcommitable
resources"). The API server refuses such a pod, so that a Deployment never gets one.

Resources of other makers than NVIDIA, AMD and Intel are left aside: some platforms take fractions
of them through a scheduler of their own.

```yaml fails
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: 0.5}}  # gpu-limit-invalid
```

```yaml passes
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: whole devices as limits; leave the request out, or write the same number.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Asked, Engine, Found, Note, Rule, ServingPlan, World

STRICT = ("nvidia.com/", "amd.com/", "gpu.intel.com/")


class GpuLimitInvalid(Rule):
    id, name = "SL311", "gpu-limit-invalid"
    severity = "error"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return plan.placement.scheduled and bool(plan.placement.asked)

    def check_plan(self, world: World) -> Iterator[Found]:
        placement = world.plan.placement
        for name, asked in placement.asked.items():
            found = _problem(name, asked) if name.startswith(STRICT) else None
            if found is not None:
                yield found


def _problem(name: str, asked: Asked) -> Found | None:
    limit, request = asked.limit, asked.request
    for fact in (limit, request):
        value = fact.only
        if value is not None and fact.origin is not None and value.denominator != 1:
            return Found(
                message=f"{name}: {float(value):g} is refused: devices are handed out whole",
                at=fact.origin,
                help="a whole number",
            )
    if limit.is_unset and request.only is not None and request.origin is not None:
        return Found(
            message=f"{name} is requested without a limit, which is refused",
            at=request.origin,
            help=f"the same number under limits: {name}: {request.only}",
        )
    if None in (limit.only, request.only, limit.origin, request.origin) or (
        limit.only == request.only
    ):
        return None
    assert limit.origin is not None and request.origin is not None
    return Found(
        message=(
            f"{name}: the limit is {limit.only} and the request {request.only}; they must be equal"
        ),
        at=limit.origin,
        related=(Note(request.origin, "the request"),),
        help="leave the request out",
    )
