"""The context length asked for exceeds what the model was made for.

The longest context follows from the model's config: its length, times the factor of a RoPE scaling
that the length does not hold yet. vLLM refuses more: "User-specified max_model_len (16384) is
greater than the derived max_model_len". `VLLM_ALLOW_LONG_MAX_MODEL_LEN=1` turns that into a warning
in the log, and positions beyond the limit give garbage or a crash: a warning here.

```sh fails
vllm serve Qwen/Qwen3-8B --max-model-len 131072  # context-len-exceeds-model
```

```sh passes
vllm serve Qwen/Qwen3-8B --max-model-len 32768
```

Fix: a length within the model's, or a RoPE scaling that the model was trained for
(`--hf-overrides`), which this rule then leaves alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardlint.api import Constraint, ConstraintRule, Engine, Known, Repair, ServingPlan, World


class ContextLenExceedsModel(ConstraintRule):
    id, name = "SL606", "context-len-exceeds-model"
    anywhere = True
    model = ("longest_context",)
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return super().applies(plan, engine) and not plan.memory.max_model_len.is_unset

    def repair(self, constraint: Constraint, world: World) -> Repair | None:
        return Repair("fields", values=(("max_model_len", constraint.right),))

    def settled(self, facts: Mapping[str, Known[Any]]) -> bool:
        return False
