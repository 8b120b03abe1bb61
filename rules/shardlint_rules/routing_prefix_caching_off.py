"""The router looks at prefixes, and the engines behind it keep none.

With prefix caching switched off (`--no-enable-prefix-caching`, `--disable-radix-cache`) a replica
computes every prompt from the start, so that there is nothing to follow: the router's choice costs
balance and gains nothing.

```yaml fails
servingEngineSpec:
  modelSpec:
  - name: llama3
    repository: vllm/vllm-openai
    tag: v0.11.2
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 4
    requestGPU: 1
    vllmConfig: {enablePrefixCaching: false}
routerSpec:
  routingLogic: prefixaware  # routing-prefix-caching-off
  prefixMinMatchLength: 512
```

```yaml passes
servingEngineSpec:
  modelSpec:
  - name: llama3
    repository: vllm/vllm-openai
    tag: v0.11.2
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 4
    requestGPU: 1
    vllmConfig: {enablePrefixCaching: true}
routerSpec:
  routingLogic: prefixaware
  prefixMinMatchLength: 512
```

Fix: prefix caching on in the engines (`enablePrefixCaching: true` in the chart), or a policy that
looks at the load alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Note, Repair, RouterWorld, Rule, matters, policy_words, told


class RoutingPrefixCachingOff(Rule):
    id, name = "SL510", "routing-prefix-caching-off"
    fix = "unsafe"
    severity = "warning"
    scope = "router"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        router, severity = world.router, matters(world.workload)
        if severity is None or router.chooses != "replicas":
            return
        if any(remark.kind == "prefix-caching-off" for remark in router.remarks):
            yield from told(router, "prefix-caching-off", "prefix_caching", severity)
            return
        off = [plan for plan in world.plans if plan.memory.prefix_caching.only is False]
        looks = router.awareness & {"prefix", "kv"} and not router.within
        if not looks or not off or len(off) < len(world.plans):
            return
        if any(plan.partners for plan in off):
            return  # others compute the prompts
        yield Found(
            message=f"{policy_words(router)} looks at prefixes, and prefix caching is off in the"
            " engines behind it: there is nothing to follow",
            at=router.policy.origin or router.origin,
            severity=severity,
            related=tuple(
                Note(plan.memory.prefix_caching.origin, f"off in {plan.name}")
                for plan in off
                if plan.memory.prefix_caching.origin is not None
            ),
            help="prefix caching on in the engines, or a policy that looks at the load alone",
            repair=Repair("router", "prefix_caching"),
        )
