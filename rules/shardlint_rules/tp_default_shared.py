"""One value is the tensor parallel size of several models, and wrong for one of them.

An anchor, a variable or a default that feeds several engines fits the model that it was written
for; another model has other heads. Changing the value to suit one changes all others too, so that
the cure is a value of its own for each.

```yaml fails
x-tp: &tp "--tensor-parallel-size=8"
services:
  large:
    image: vllm/vllm-openai:v0.27.0
    ipc: host
    command: [--model, Qwen/Qwen3-32B, *tp]
    gpus: all
  small:
    image: vllm/vllm-openai:v0.27.0
    ipc: host
    command: [--model, Qwen/Qwen2.5-7B-Instruct, *tp]  # tp-default-shared
    gpus: all
```

```yaml passes
services:
  large:
    image: vllm/vllm-openai:v0.27.0
    ipc: host
    command: [--model, Qwen/Qwen3-32B, --tensor-parallel-size=8]
    gpus: all
```

Fix: a tensor parallel size for each model.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, LayoutRule, ServingPlan, World

HEADS = "tp-heads-indivisible"
"""The constraint that a size for another model breaks first."""


class TpDefaultShared(LayoutRule):
    id, name = "SL112", "tp-default-shared"
    severity = "warning"
    model = ("attention_heads",)

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and bool(plan.tp_shared)

    def fields(self, engine: Engine) -> tuple[str, ...]:
        return ("layout.tp", "model_facts")

    def check(self, world: World) -> Iterator[Found]:
        broken = [item for item in world.constraints(HEADS) if item.refuses]
        if not broken:
            return
        others = world.plan.tp_shared
        named = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        yield Found(
            message=f"TP {world.layout.tp} from here is also that of {named}, and does not suit"
            f" {world.plan.model.only} with {broken[0].left} heads",
            at=world.origin("layout.tp"),
            help="a tensor parallel size of its own for each model",
        )
