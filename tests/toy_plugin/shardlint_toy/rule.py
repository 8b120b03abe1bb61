"""The model is not one that this house has approved.

```sh fails
vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 8  # model-not-ours
```

```sh passes
vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4
```

Fix: serve an approved model.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Rule, World

APPROVED = ("Qwen",)


class ModelNotOurs(Rule):
    id, name = "TOY001", "model-not-ours"
    severity = "warning"
    needs = ("model",)

    def check(self, world: World) -> Iterator[Found]:
        model: str = world.values["model"]
        owner = model.split("/")[0]
        if owner not in APPROVED:
            yield Found(
                message=f"models of {owner} are not approved; {', '.join(APPROVED)} is",
                at=world.origin("model"),
            )
