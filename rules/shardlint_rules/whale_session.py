"""Sessions stick to a replica whatever its load, and the prompts are long.

A hash of the session keeps every turn on one replica. One conversation of a hundred thousand tokens
weighs there as one short one does, and the sessions that hash to the same replica wait behind its
prefill. Reported where `[workload] isl` says that prompts are of 32,768 tokens or more (a threshold
of ours: where a prefill takes seconds on one GPU) and the policy has no bound on the load.

```toml told
[workload]
kind = "agent"
isl = 100000
```

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
  routingLogic: session  # whale-session
  sessionKey: x-user-id
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

Fix: a policy with a bound on the load (consistent hashing with bounded loads), or one that looks at
queued tokens and the use of the KV cache beside the prefix.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Repair, RouterWorld, Rule, choice, policy_words

LONG = 32_768


class WhaleSession(Rule):
    id, name = "SL512", "whale-session"
    severity = "warning"
    scope = "router"
    fix = "unsafe"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        router, length = world.router, world.workload.get("isl")
        if length is None or length < LONG or router.awareness != {"session"}:
            return
        beside = (router, *world.before)
        if any(remark.kind == "skew" for item in beside for remark in item.remarks):
            return
        if (found := choice(world)) is not None:
            yield Found(
                message=f"{policy_words(router)} sticks to sessions whatever the load of"
                f" {found.among}, and prompts have {length:,} tokens: one session fills a replica"
                " that others are tied to",
                at=router.policy.origin or router.origin,
                help="a policy with a bound on the load, or one that weighs queued tokens",
                repair=Repair("router", "routing"),
            )
