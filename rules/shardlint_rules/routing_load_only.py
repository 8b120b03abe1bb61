"""A balancer sends requests where there is least to do, whatever the caches hold.

Least connections, least requests or the better of two keep replicas evenly busy, and are right
where requests have nothing in common. Where they share a system prompt, documents or the turns of
a conversation, the least busy replica is mostly not the one that holds the prefix. Reported as a
warning for `[workload] kind = "chat"`, `"agent"` or `"rag"` and where what is served is called
`chat`, `assistant` or `agent` and the model is not, as info where nothing is said of the requests,
and not at all for `"batch"`. The ranks inside of one engine, which has no other policy
to offer, are only reported where the requests are said to share. One published measurement of
KubeAI found only 11 % more input tokens/s by prefixes, and a longer tail; others found twice the
output.

```yaml fails
apiVersion: kubeai.org/v1
kind: Model
metadata: {name: llama}
spec:
  features: [TextGeneration]
  url: hf://meta-llama/Llama-3.1-8B-Instruct
  engine: VLLM
  resourceProfile: nvidia-gpu-l4:1
  minReplicas: 8
  maxReplicas: 8
  loadBalancing:
    strategy: LeastLoad  # routing-load-only
```

```yaml passes
apiVersion: kubeai.org/v1
kind: Model
metadata: {name: llama}
spec:
  features: [TextGeneration]
  url: hf://meta-llama/Llama-3.1-8B-Instruct
  engine: VLLM
  resourceProfile: nvidia-gpu-l4:1
  minReplicas: 8
  maxReplicas: 8
  loadBalancing:
    strategy: PrefixHash
```

Fix: a policy that looks at both prefixes and load; with data-parallel ranks inside of one engine,
one endpoint for each rank (external load balancing) behind such a router.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import (
    Choice,
    Found,
    Router,
    RouterWorld,
    RoutingRule,
    matters,
    policy_words,
)


class RoutingLoadOnly(RoutingRule):
    id, name = "SL505", "routing-load-only"
    fix = "unsafe"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        if not world.router.within or matters(world.workload) != "info":
            yield from super().check_routing(world)

    def meets(self, router: Router) -> bool:
        return router.awareness == {"load"} and not any(
            remark.at == router.policy.origin for remark in router.remarks
        )

    def says(self, router: Router, found: Choice) -> str:
        return (
            f"{policy_words(router)} looks at the load of {found.among} and not at their prefix"
            " caches"
        )
