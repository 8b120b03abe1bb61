"""A pipeline stage gets layers that the model class cannot start with.

Several mixture-of-experts classes of vLLM need one such layer in every stage: "No Glm4MoE layer
found in model.layers". A stage without layers fails, and so does one with dense layers only, as the
first layers of many models are. Qwen3-VL needs a first stage at least as long as the layers that
its vision tower feeds ("start_layer should be greater than or equal to
len(deepstack_visual_indexes)"). A list of stages in `VLLM_PP_LAYER_PARTITION` that makes one much
longer than the others is an info.

```sh fails
docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen3-VL-4B-Instruct --pipeline-parallel-size 16  # pp-uneven-stages
```

```sh passes
docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen3-VL-4B-Instruct --pipeline-parallel-size 4
```

Fix: fewer stages.
"""  # noqa: E501

from __future__ import annotations

from shardlint.api import ConstraintRule


class PpUnevenStages(ConstraintRule):
    id, name = "SL406", "pp-uneven-stages"
    model = ("num_layers",)
    gate = True
    fix = "unsafe"
