"""A balancer that knows nothing of the KV caches stands in front of several replicas.

Each replica keeps its own prefix cache. A Kubernetes Service picks a replica at random for every
connection, so the next turn of a conversation, or the next request with the same system prompt,
meets its cache on one of N replicas only; the others compute the prefix again. Reported as info:
how much it costs depends on how much the prompts share.

```yaml fails
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 4
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Service
metadata:
  name: llm  # routing-blind
spec:
  selector: {app: llm}
  ports: [{port: 80, targetPort: 8000}]
```

```yaml passes
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 1
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Service
metadata:
  name: llm
spec:
  selector: {app: llm}
  ports: [{port: 80, targetPort: 8000}]
```

Fix: put a router in front that looks at prefixes or sessions (an InferencePool with an endpoint
picker, the vLLM production stack's router, SGLang's router), or at least `sessionAffinity:
ClientIP` where every client has an address of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardlint.api import Found, Note, Router, Rule, ServingPlan


class RoutingBlind(Rule):
    id, name = "SL504", "routing-blind"
    severity = "info"
    scope = "router"

    def check_router(self, router: Router, plans: Sequence[ServingPlan]) -> Iterator[Found]:
        if router.awareness:
            return
        plans = _most(plans)
        total = sum(_replicas(plan) for plan in plans)
        if total < 2:
            return
        what = "this Service" if router.kind == "service" else "this router"
        yield Found(
            message=(
                f"{what} spreads requests over {total} replicas without looking at their"
                f" prefix caches: the next turn of a conversation meets its own on 1 of {total}"
            ),
            at=router.origin,
            related=tuple(_note(plan) for plan in plans if plan.fleet.replicas.origin),
            help="an InferencePool with an endpoint picker, or another prefix-aware router",
        )


def _most(plans: Sequence[ServingPlan]) -> list[ServingPlan]:
    """Those that serve one model: a request for it has no other choice. The model with most."""
    models: dict[str, list[ServingPlan]] = {}
    for plan in plans:
        if _caches(plan):
            models.setdefault(plan.model.only or "", []).append(plan)
    found = list(models.values())
    return max(found, key=lambda group: sum(map(_replicas, group)), default=[])


def _replicas(plan: ServingPlan) -> int:
    return plan.fleet.replicas.only or 0


def _caches(plan: ServingPlan) -> bool:
    """Prefix caching is on unless it is switched off."""
    return plan.memory.prefix_caching.only is not False


def _note(plan: ServingPlan) -> Note:
    assert plan.fleet.replicas.origin is not None
    return Note(plan.fleet.replicas.origin, f"{plan.fleet.replicas.only} replicas")
