"""CUDA graphs need more memory than the share leaves free.

Before vLLM 0.20, and up to 0.28 for models that a V2 model runner serves (from 0.25 on all dense
ones), the KV cache is given all that the share (`--gpu-memory-utilization`) leaves after
weights and activations, and CUDA graphs are captured afterwards, out of the rest of the card:
"Graph capturing finished in 23 secs, took 0.60 GiB". With a share near 1 nothing is left for them,
nor for what the driver and NCCL allocate later, and the engine dies of "CUDA out of memory" while
it captures or under load.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.10.2
    args:
    - Qwen/Qwen3-8B
    - --max-model-len=8192
    - --gpu-memory-utilization=0.99  # graph-memory-risk
    resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.10.2
    args: ["Qwen/Qwen3-8B", "--max-model-len=8192", "--gpu-memory-utilization=0.9"]
    resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: a share of 0.9 to 0.95, or `--enforce-eager` at the cost of latency.
"""

from __future__ import annotations

from shardlint.api import Found, MemoryRule, Sized, World, gib


class GraphMemoryRisk(MemoryRule):
    id, name = "SL605", "graph-memory-risk"
    severity = "warning"
    gate = False

    def short(self, sized: Sized) -> tuple[int, int] | None:
        made = sized.made
        if not made.beside.graphs_outside or made.kv <= 0 or made.settings.kv_bytes is not None:
            return None
        if made.beside.checks_free and made.settings.share == 1:
            return None  # it does not start, which another rule says
        left = made.total - made.budget
        return made.beside.graphs - left, made.beside.graphs - left

    def said(self, world: World, sized: Sized, sure: bool) -> Found:
        made = sized.made
        return Found(
            message=(
                f"CUDA graphs take about {gib(made.beside.graphs)} beside the share, and"
                f" {made.settings.share:g} of {world.card} leaves {gib(made.total - made.budget)}"
            ),
            at=world.origin("memory.budget.share", "model"),
            help="a share of 0.9 to 0.95, or `--enforce-eager`",
        )
