"""There are more pipeline stages than layers.

Some stages hold nothing. vLLM does not check it (`distributed/utils.py`): most model classes start
with empty stages, whose GPUs only pass data on, and several mixture-of-experts classes die on them
(that is reported as pp-uneven-stages).

```sh fails
vllm serve Qwen/Qwen3-0.6B --pipeline-parallel-size 32  # pp-exceeds-layers
```

```sh passes
vllm serve Qwen/Qwen3-0.6B --pipeline-parallel-size 4
```

Fix: fewer stages.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule


class PpExceedsLayers(ConstraintRule):
    id, name = "SL403", "pp-exceeds-layers"
    model = ("num_layers",)
    gate = True
