"""A balancer that knows nothing of the KV caches stands in front of several replicas.

Each replica keeps its own prefix cache. A Kubernetes Service picks a replica at random for every
connection, so the next turn of a conversation, or the next request with the same system prompt,
meets its cache on one of N replicas only; the others compute the prefix again. The same holds for
round robin and random in nginx, HAProxy, Envoy, LiteLLM or a router of an engine, and for the
data-parallel ranks inside one engine that takes turns.

How much that costs depends on what the prompts share. With `[workload] kind = "chat"`, `"agent"`
or `"rag"` in the configuration, or a `prefix_share` above 0, this is a warning, and so where what
is served is called `chat`, `assistant` or `agent` and the model is not; without a word about the
requests it is info; with `kind = "batch"` nothing is said. Published measurements of
prefix-aware routing range from no gain, at low load or with little in common, to 2.3 times the
output.

```yaml fails
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
  routingLogic: roundrobin  # routing-blind
```

```yaml passes
servingEngineSpec:
  modelSpec:
  - name: llama3
    repository: vllm/vllm-openai
    tag: v0.11.2
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 1
    requestGPU: 1
    vllmConfig: {enablePrefixCaching: true}
routerSpec:
  routingLogic: roundrobin
```

Fix: another policy of the same router where it has one that looks at prefixes or sessions
(`routingLogic: prefixaware`, `--policy cache_aware`, `hash $http_x_session_id consistent`, a hash
of a session header in Istio's `consistentHash`), else such a router in front: an InferencePool
with an endpoint picker, the vLLM production stack's router, SGLang's router.
"""

from __future__ import annotations

from shardlint.api import Choice, Router, RoutingRule, policy_words


class RoutingBlind(RoutingRule):
    id, name = "SL504", "routing-blind"
    fix = "unsafe"

    def meets(self, router: Router) -> bool:
        keyless = any(remark.kind == "session-key" for remark in router.remarks)
        return not router.awareness and not keyless

    def says(self, router: Router, found: Choice) -> str:
        who = "this Service" if router.kind == "service" else policy_words(router)
        if found.count is None:
            return (
                f"{who} spreads requests over the replicas without looking at their prefix caches"
            )
        return (
            f"{who} spreads requests over {found.among} without looking at their prefix caches:"
            f" the next turn of a conversation meets its own on 1 of {found.count}"
        )
