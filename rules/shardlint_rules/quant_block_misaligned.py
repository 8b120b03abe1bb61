"""A rank's part of a matrix is no whole number of quantization blocks.

FP8 checkpoints of DeepSeek, Qwen3 and others hold one scale for a block of 128 × 128 weights, NVFP4
one for 16. vLLM refuses a layout that cuts through a block: "Weight input_size_per_partition = 576
is not divisible by weight quantization block_k = 128" (`fp8_utils.py`). Experts are cut by tensor ×
data parallel size unless expert parallelism is on: "The output_size of gate's and up's weight = 192
is not divisible by weight quantization block_n = 128". Since vLLM 0.29 the scales of experts are
refined to smaller blocks, down to 32, which works and leaves only slower Triton kernels: a warning.

```sh fails
docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B-FP8 --tensor-parallel-size 16  # quant-block-misaligned
```

```sh passes
docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B-FP8 --tensor-parallel-size 8
```

25,600 columns over 16 ranks are 1,600 each, which is 12.5 blocks.

Fix: a smaller tensor parallel size with data parallelism beside it; for experts, expert
parallelism, which keeps each of them whole.
"""  # noqa: E501

from __future__ import annotations

from shardlint.api import ConstraintRule


class QuantBlockMisaligned(ConstraintRule):
    id, name = "SL107", "quant-block-misaligned"
    model = ("quantization",)
    gate = True
    fix = "unsafe"
