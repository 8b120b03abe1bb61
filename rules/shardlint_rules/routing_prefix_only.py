"""A router follows the prefix and never looks at the load.

Requests that share a system prompt all have the same longest match: they queue at the replica that
met it first, and the others stay idle. The production stack's `prefixaware` compares no load unless
`prefixMinMatchLength` is set, an endpoint picker without a load scorer has nothing else to go by,
and Ray's PrefixCacheAffinityRouter has an `imbalanced_threshold` of infinity since Ray 2.54 unless
it is given.
Reported as a warning for `[workload] kind = "chat"`, `"agent"` or `"rag"`, as info where nothing is
said of the requests.

```yaml fails
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: max-score-picker
  - pluginRef: prefix-cache-scorer  # routing-prefix-only
    weight: 2
```

```yaml passes
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: max-score-picker
  - pluginRef: prefix-cache-scorer
    weight: 2
  - pluginRef: queue-scorer
    weight: 1
```

Fix: a load scorer beside the prefix scorer (`queue-scorer`, `kv-cache-utilization-scorer`), a
finite `imbalanced_threshold`, `prefixMinMatchLength` above 0, or a policy that weighs both.
"""

from __future__ import annotations

from shardlint.api import Choice, Router, RoutingRule, policy_words


class RoutingPrefixOnly(RoutingRule):
    id, name = "SL506", "routing-prefix-only"
    fix = "unsafe"

    def meets(self, router: Router) -> bool:
        follows = router.awareness - {"kv"} == {"prefix"} and not router.spills
        return follows and not any(remark.kind == "prefix-caching-off" for remark in router.remarks)

    def says(self, router: Router, found: Choice) -> str:
        return (
            f"{policy_words(router)} follows prefixes and never looks at the load of"
            f" {found.among}: a shared prefix makes one of them hot"
        )

    def cure(self, router: Router) -> str:
        return "weigh the load too"
