"""Attention heads do not divide over the tensor parallel ranks.

A rank computes whole attention heads, so their number must be a multiple of the tensor parallel
size. vLLM stops before it loads a weight: "Total number of attention heads (28) must be divisible
by tensor parallel size (8)." (`config/model.py`; the same words in every release from 0.11.2 to
0.33.0, and reported on releases before.)

```sh fails
vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 8  # tp-heads-indivisible
```

```sh passes
vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4
```

Fix: a size that divides the attention heads and fits the KV heads, the FFN and the vocabulary too.
With 28 attention heads and 4 KV heads that is 1, 2 or 4, never 7. To use all GPUs of the node,
serve several data-parallel copies: TP 4 × DP 2 on 8 GPUs.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule


class TpHeadsIndivisible(ConstraintRule):
    id, name = "SL101", "tp-heads-indivisible"
    anywhere = True
    message = "{left} {subject} do not divide over tensor parallel size {right}; {says}"
    model = ("attention_heads",)
    gate = True
    fix = "unsafe"
