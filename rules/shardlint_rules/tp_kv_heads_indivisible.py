"""KV heads neither divide over the tensor parallel ranks nor can be copied to them evenly.

With grouped-query attention a rank holds whole KV heads. If the tensor parallel size is smaller
than their number, it must divide it; if it is larger, it must be a multiple of it, and every KV
head is copied. vLLM checks this only when it builds the model: an AssertionError "{a} is not
divisible by {b}", in many model classes without any text (`linear.py`, QKVParallelLinear).

```sh fails
vllm serve microsoft/phi-4 --tensor-parallel-size 4  # tp-kv-heads-indivisible
```

```sh passes
vllm serve microsoft/phi-4 --tensor-parallel-size 2
```

Phi-4 has 40 attention heads, which four ranks could share, and 10 KV heads, which they cannot.

Fix: a size that suits attention heads and KV heads alike.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule, ModelFacts


class TpKvHeadsIndivisible(ConstraintRule):
    id, name = "SL102", "tp-kv-heads-indivisible"
    message = "{left} {subject} and tensor parallel size {right} do not divide one another; {says}"
    model = ("kv_heads",)
    gate = True
    fix = "unsafe"

    def lacks(self, model: ModelFacts) -> str | None:
        return None if model.mla else super().lacks(model)
