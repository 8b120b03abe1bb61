"""The model cannot be split over pipeline stages.

A model class must be written for it. vLLM: "Pipeline parallelism is not supported for this model.
Supported models implement the `SupportsPP` interface" (`config/model.py`), for encoder-decoder
models, for embeddings and for some others. Which classes were written for it differs by release.

```sh fails
docker run --gpus all vllm/vllm-openai:v0.33.0 google/gemma-3n-E4B-it --pipeline-parallel-size 2  # pp-unsupported
```

```sh passes
docker run --gpus all vllm/vllm-openai:v0.33.0 google/gemma-3n-E4B-it --tensor-parallel-size 2
```

Fix: tensor parallelism for a model that does not fit one GPU, copies for more requests.
"""  # noqa: E501

from __future__ import annotations

from shardlint.api import ConstraintRule


class PpUnsupported(ConstraintRule):
    id, name = "SL401", "pp-unsupported"
    model = ("architecture",)
    gate = True
    fix = "unsafe"
