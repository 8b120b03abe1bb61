"""The number of replicas is given a range, and nothing ever changes it.

Ray Serve scales by the requests that are on their way to one replica, `target_ongoing_requests`.
Ray Serve LLM sets that to 1e9 where nobody states it, so that the number of replicas stays at
`min_replicas` under any load (`ray/llm/_internal/serve`, the default of the autoscaling
configuration).

```yaml fails
applications:
- name: llm
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-8B}
      deployment_config:
        autoscaling_config:
          min_replicas: 1
          max_replicas: 4  # autoscale-inert
```

```yaml passes
applications:
- name: llm
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-8B}
      deployment_config:
        autoscaling_config:
          min_replicas: 1
          max_replicas: 4
          target_ongoing_requests: 32
```

Fix: state `target_ongoing_requests`: about as many as one replica serves at a good latency.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class AutoscaleInert(Rule):
    id, name = "SL514", "autoscale-inert"
    severity = "warning"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return any(remark.kind == "autoscale" for remark in plan.remarks)

    def check_plan(self, world: World) -> Iterator[Found]:
        for remark in world.plan.remarks:
            if remark.kind == "autoscale":
                yield Found(message=remark.message, at=remark.at, help=remark.help)
