"""The weights of one GPU need more memory than the card has.

Every rank loads its part of the model before anything else. Tensor and pipeline parallel size
divide it, data parallelism and replicas do not; norms, routers, and KV projections with fewer
heads than ranks are copied, the vocabulary is padded, and the fullest pipeline stage decides. vLLM
stops in `load_model` with "CUDA out of memory".

The weights are added up matrix by matrix in the scheme that each is stored in. An error only where
they exceed the card by more than such sums were ever off from what engines print; else a warning.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.0
    args: ["meta-llama/Llama-3.3-70B-Instruct", "--max-model-len=8192"]  # weights-do-not-fit
    resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
  hostIPC: true
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.0
    args: ["meta-llama/Llama-3.3-70B-Instruct", "--max-model-len=8192", "-tp=4"]
    resources: {limits: {nvidia.com/gpu: 4}}
```

Fix: more ranks for one copy of the model (tensor or pipeline parallel), a checkpoint with fewer
bits, or larger cards. More replicas do not help: each holds the whole model.
"""

from __future__ import annotations

from shardlint.api import Found, MemoryRule, Repair, Sized, World, gib, ranks_of


class WeightsDoNotFit(MemoryRule):
    id, name = "SL601", "weights-do-not-fit"
    fix = "unsafe"

    def short(self, sized: Sized) -> tuple[int, int] | None:
        made = sized.made
        held = made.weights.bytes - made.offloaded
        least = int(held * (1 - sized.band.weights))
        return held + made.beside.context - made.total, least - sized.generous.total

    def said(self, world: World, sized: Sized, sure: bool) -> Found:
        held = sized.made.weights.bytes - sized.made.offloaded
        about = "" if sure else " about"
        return Found(
            message=(
                f"the weights take{about} {gib(held)} on each GPU{ranks_of(world)}, and"
                f" {world.card} has {gib(sized.made.total)}"
            ),
            at=world.origin("layout.tp", "layout.pp", "model"),
            help="more ranks for one copy of the model, fewer bits per weight, or larger cards",
            repair=Repair("memory"),
        )
