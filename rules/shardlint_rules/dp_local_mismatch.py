"""More data-parallel ranks are asked of one node than there are in all.

vLLM: "data_parallel_size_local (4) must be <= data_parallel_size (2)" (`config/parallel.py`, from
0.9.0 on).

```sh fails
vllm serve Qwen/Qwen3-30B-A3B -dp 2 --data-parallel-size-local 4  # dp-local-mismatch
```

```sh passes
vllm serve Qwen/Qwen3-30B-A3B -dp 4 --data-parallel-size-local 4
```

Fix: a data parallel size that counts the ranks of all nodes.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule


class DpLocalMismatch(ConstraintRule):
    id, name = "SL501", "dp-local-mismatch"
    gate = True
