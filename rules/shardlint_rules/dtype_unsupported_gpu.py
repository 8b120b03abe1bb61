"""The card cannot compute in the type that is asked for, or read the checkpoint's quantization.

bfloat16 needs compute capability 8.0 (Ampere). vLLM: "Bfloat16 is only supported on GPUs with
compute capability of at least 8.0". Each quantization method needs a capability too: "The
quantization method awq is not supported for the current GPU. Minimum capability: 75".

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-t4}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.11.2
    args: [--model=Qwen/Qwen2.5-3B-Instruct, --dtype=bfloat16]  # dtype-unsupported-gpu
    resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-t4}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.11.2
    args: [--model=Qwen/Qwen2.5-3B-Instruct, --dtype=half]
    resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: `--dtype half`, another quantization of the model, or a newer card.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardlint.api import ConstraintRule, Engine, Known, ServingPlan


class DtypeUnsupportedGpu(ConstraintRule):
    id, name = "SL607", "dtype-unsupported-gpu"
    needs = ("model_facts", "placement.gpu")
    gate = True
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        """Without a card there is something to decide only where weights are quantized."""
        model = plan.model_facts.only
        quantized = model is not None and bool(model.quantization)
        known = plan.placement.gpu.is_known or quantized
        return super().applies(plan, engine) and plan.placement.wants_gpu and known

    def settled(self, facts: Mapping[str, Known[Any]]) -> bool:
        return False
