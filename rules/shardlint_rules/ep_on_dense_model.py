"""Expert parallelism is on for a model without experts.

The option places whole experts on different ranks. A dense model has none, and vLLM refuses it:
"Number of experts in the model must be greater than 0 when expert parallelism is enabled"
(`config/model.py`, from 0.8.0 on).

```sh fails
vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4 --enable-expert-parallel  # ep-on-dense-model
```

```sh passes
vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4
```

Fix: leave the option out.
"""  # noqa: E501

from __future__ import annotations

from shardlint.api import ConstraintRule, ModelFacts


class EpOnDenseModel(ConstraintRule):
    id, name = "SL109", "ep-on-dense-model"
    model = ("dense_ffn",)
    gate = True
    fix = "unsafe"

    def lacks(self, model: ModelFacts) -> str | None:
        return None if model.moe else super().lacks(model)
