"""Several router processes each learn for themselves what the replicas hold.

A router that keeps in its own memory where a prefix or a session went knows only the requests that
it has seen. With two of them behind a Service, which picks one at random, each learns half, and
sessions scatter. Instances of LiteLLM that count loads without a Redis choose the same replica at
one time. Reported where the number of router processes is stated and nothing says that they tell
each other: SMG's mesh, a Redis, an endpoint picker that elects a leader, `--router-replica-sync`.

```yaml fails
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: agent}
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 2  # routing-state-not-shared
      envs:
      - {name: DYN_ROUTER_MODE, value: kv}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
    SglangWorker:
      componentType: worker
      replicas: 8
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
          command: [python3, -m, dynamo.sglang]
          args:
          - --model-path
          - Qwen/Qwen3-8B
          - --kv-events-config
          - '{"publisher":"zmq","topic":"kv-events"}'
```

```yaml passes
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: agent}
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 1
      envs:
      - {name: DYN_ROUTER_MODE, value: kv}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
    SglangWorker:
      componentType: worker
      replicas: 8
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
          command: [python3, -m, dynamo.sglang]
          args:
          - --model-path
          - Qwen/Qwen3-8B
          - --kv-events-config
          - '{"publisher":"zmq","topic":"kv-events"}'
```

Fix: one router process, something sticky in front of them, or the router's own way to share
(`--router-replica-sync` in Dynamo).
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Repair, RouterWorld, Rule


class RoutingStateNotShared(Rule):
    id, name = "SL508", "routing-state-not-shared"
    fix = "unsafe"
    severity = "warning"
    scope = "router"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        router, count = world.router, world.router.replicas.only
        if router.state != "process" or count is None or count < 2 or not router.awareness:
            return
        if router.choices.is_known and (router.choices.only or 0) < 2:
            return
        if any("session" in item.awareness or "prefix" in item.awareness for item in world.before):
            return
        policy = router.policy.only or "its policy"
        scatters = "sessions and prefixes scatter"
        if router.awareness == {"load"}:
            scatters = "all of them may choose the same replica"
        yield Found(
            message=f"{count} router processes with {policy}, each of which knows only the requests"
            f" that it has seen itself: {scatters}",
            at=router.replicas.origin or router.origin,
            help="one router process, a session hash in front of them, or state that they share",
            repair=Repair("router", "state"),
        )
