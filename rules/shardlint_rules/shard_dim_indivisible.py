"""A width that tensor parallelism splits is no multiple of the tensor parallel size.

Not only heads are split. Each rank takes an equal part of the feed-forward layers and of the
vocabulary. vLLM pads the vocabulary to a multiple of 64 and nothing else, so a size such as 3 or 6
can suit every head count and still fail: "{size} is not divisible by {TP}"
(`distributed/utils.py`), or a bare AssertionError where several matrices are fused (`linear.py`).

The same holds for the heads of a vision tower, unless it is kept whole on every rank
(`--mm-encoder-tp-mode data`) or its class does so by itself; for the groups of Mamba layers ("If
tensor parallel world size does not divide num_groups, then num_groups must equal 1"); for the value
heads of linear attention; and for the width of experts, which are cut by tensor × data parallel
size unless expert parallelism is on.

```sh fails
vllm serve Qwen/Qwen3-Coder-480B-A35B-Instruct --tensor-parallel-size 6  # shard-dim-indivisible
```

```sh passes
vllm serve Qwen/Qwen3-Coder-480B-A35B-Instruct --tensor-parallel-size 8
```

96 attention heads and 8 KV heads aside, 151,936 rows of vocabulary do not divide by 6.

Fix: a power of two almost always divides the padded vocabulary; check the FFN width with it.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule


class ShardDimIndivisible(ConstraintRule):
    id, name = "SL105", "shard-dim-indivisible"
    message = "{subject} {left:,} does not divide over tensor parallel size {right}; {says}"
    model = ("vocab_size",)
    gate = True
    fix = "unsafe"
