"""A rank's part of a matrix is no whole number of quantization groups.

AWQ, GPTQ and compressed-tensors store one scale for a group of 32, 64 or 128 inputs. Tensor
parallelism cuts the input of the second matrix of each FFN, and a group that straddles two ranks
cannot be cut. vLLM: "The input size is not aligned with the quantized weight shape", "Weight
input_size_per_partition=... is not divisible by group_size" or, from the Marlin kernel, "... is not
divisible by min_thread_k = 128". Experts are cut too unless expert parallelism is on; there vLLM
falls back to another kernel, which dies at the first request ("size_k must divisible by
BLOCK_SIZE_K"). Shapes that only miss a tile of the Marlin kernel are filled up with zeros since
vLLM 0.24.

```toml told
[models."our/qwen2-72b-awq"]
attention_heads = 64
kv_heads = 8
intermediate_size = 29568
quantization = { method = "awq", bits = 4, group_size = 128 }
```

```sh fails
vllm serve our/qwen2-72b-awq --tensor-parallel-size 2  # quant-group-misaligned
```

```sh passes
vllm serve our/qwen2-72b-awq --pipeline-parallel-size 2
```

29,568 inputs are 231 groups of 128, which do not halve.

Fix: a tensor parallel size that keeps groups whole, pipeline stages, or a checkpoint whose FFN was
padded before it was quantized; for experts, expert parallelism.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule


class QuantGroupMisaligned(ConstraintRule):
    id, name = "SL106", "quant-group-misaligned"
    model = ("quantization",)
    gate = True
    fix = "unsafe"
