"""The layers do not divide over the pipeline stages.

An engine that needs equal stages refuses this. vLLM does not: it gives the stages in the middle one
layer more ("Hidden layers were unevenly partitioned"), and the longest stage sets the pace of all:
an info that lists the layers of each stage.

```sh fails
vllm serve meta-llama/Llama-3.3-70B-Instruct --pipeline-parallel-size 3  # pp-layers-indivisible
```

```sh passes
vllm serve meta-llama/Llama-3.3-70B-Instruct --pipeline-parallel-size 4
```

Fix: a number of stages that divides the layers, if there is a choice.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule


class PpLayersIndivisible(ConstraintRule):
    id, name = "SL402", "pp-layers-indivisible"
    model = ("num_layers",)
    gate = True
