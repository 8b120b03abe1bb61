"""The shape of the model is not known, so that rules about it say nothing.

Heads, KV heads and widths come from the embedded catalogue, from a model folder that is named in a
script, or from the configuration. Without them the rules that need them are *undecided*: this
finding says so, because silence must not look like "fine".

```sh fails
vllm serve example-org/private-model --tensor-parallel-size 8  # model-unresolved
```

```sh passes
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 8
```

Fix: give the facts in `shardlint.toml`, as `[models."example-org/private-model"]` with
`config = "path/to/config.json"`, `base = "Qwen/Qwen3-32B"`, or the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class ModelUnresolved(Rule):
    id, name = "SL903", "model-unresolved"
    severity = "info"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and plan.model.is_known and not plan.model_facts.is_known

    def check(self, world: World) -> Iterator[Found]:
        plan = world.plan
        yield Found(
            message=f"the shape of this model is not known: {plan.model_facts.reason}",
            at=plan.model.origin or plan.origin,
            help='state it in shardlint.toml, as [models."..."] with config, base or numbers',
        )
