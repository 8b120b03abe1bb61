"""The weights of one GPU need more memory than the card has.

Every rank loads its part of the model before anything else. Tensor and pipeline parallel size
divide it, data parallelism and replicas do not; norms, routers, and KV projections with fewer
heads than ranks are copied, the vocabulary is padded, and the fullest pipeline stage decides. vLLM
stops in `load_model` with "CUDA out of memory".

The weights are added up matrix by matrix in the scheme that each is stored in. With `--enable-lora`
they have room for `--max-loras` adapters of rank `--max-lora-rank` beside each matrix. Before 0.16
`--quantization fp8` on a checkpoint in 16 bits loads all of it first and quantizes afterwards
(`layers/quantization/fp8.py`, `create_weights`), so that the card has to hold the 16 bits. An error
only where they exceed the card by more than such sums were ever off from what engines print; else a
warning.

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

from shardlint.api import Footprint, Found, MemoryRule, Repair, Sized, World, gib, ranks_of


class WeightsDoNotFit(MemoryRule):
    id, name = "SL601", "weights-do-not-fit"
    fix = "unsafe"

    def short(self, sized: Sized) -> tuple[int, int] | None:
        made = sized.made
        held = made.at_load
        least = int(held * (1 - sized.band.weights))
        return held + made.beside.context - made.total, least - sized.generous.total

    def said(self, world: World, sized: Sized, sure: bool) -> Found:
        made = sized.made
        about = "" if sure else " about"
        rooms = made.weights.parts.get("adapters", 0)
        whole = made.at_load > made.held
        cure = FEWER if rooms > made.weights.bytes - rooms else WHOLE if whole else USUAL
        return Found(
            message=(
                f"the weights take{about} {gib(made.at_load)}{_of_which(made, rooms)} on each"
                f" GPU{ranks_of(world)}, and {world.card} has {gib(made.total)}"
            ),
            at=world.origin("layout.tp", "layout.pp", "model"),
            help=cure,
            repair=Repair("memory"),
        )


USUAL = "more ranks for one copy of the model, fewer bits per weight, or larger cards"
WHOLE = "a checkpoint that is stored in FP8, more ranks for one copy of the model, or larger cards"
FEWER = "fewer or smaller adapters (--max-loras, --max-lora-rank), or more ranks"


def _of_which(made: Footprint, rooms: int) -> str:
    """What is no usual part of weights, where it is a good deal of them."""
    settings = made.settings
    if made.at_load > made.held:
        return f" in 16 bits while they are loaded ({gib(made.held)} once they are quantized)"
    if rooms * 4 < made.weights.bytes:
        return ""
    many = f"{settings.max_loras} adapters" if settings.max_loras > 1 else "one adapter"
    return f", {gib(rooms)} of that room for {many} of rank {settings.max_lora_rank},"
