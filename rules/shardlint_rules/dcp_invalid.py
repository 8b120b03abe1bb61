"""Decode context parallelism does not suit the layout or the model.

It spreads the KV cache of one request over tensor parallel ranks that would otherwise hold copies.
So there must be copies: with grouped-query attention the tensor parallel size must exceed the KV
heads, and the decode context parallel size be no larger than the number of copies of each head.
vLLM: "Decode context parallelism for GQA/MQA requires --tensor-parallel-size (8) to be greater than
the model's total number of KV heads (8)" (`config/model.py`; an assertion with other words before
0.27). With latent attention every rank holds a copy, and the size only has to divide the tensor
parallel size. Layers with a sliding window are refused.

```sh fails
vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 8 \\
  --decode-context-parallel-size 2  # dcp-invalid
```

```sh passes
vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 8 --decode-context-parallel-size 8
```

Fix: leave the option out, or use as many tensor parallel ranks as KV heads × its value.
"""

from __future__ import annotations

from shardlint.api import ConstraintRule


class DcpInvalid(ConstraintRule):
    id, name = "SL110", "dcp-invalid"
    model = ("kv_heads",)
    gate = True
    fix = "unsafe"
