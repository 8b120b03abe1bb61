"""Nothing of the GPU's memory share is left for the KV cache.

What the engine may use is the card's memory × `--gpu-memory-utilization`. Weights, the peak of a
full batch, communication buffers and, from vLLM 0.20 on, CUDA graphs come out of it first; the KV
cache gets the rest. vLLM stops with "No available memory for the cache blocks. Try increasing
`gpu_memory_utilization` when initializing the engine" (`v1/core/kv_cache_utils.py`). Models that a
V2 model runner serves are an exception from 0.22 to 0.28 (from 0.25 on all dense ones): there
graphs do not come out of the share.

A cache of a stated size (`--kv-cache-memory-bytes`, from 0.10.2 on) is not measured against the
share: vLLM allocates it after the profile run, and runs out of memory where it does not fit beside
the weights.

SGLang takes its share (`--mem-fraction-static`) of what is free before the weights are loaded, and
stops with "Loaded weights leave no GPU memory for the KV cache".

An error where not one request of the full context fits (in an engine that starts without: not one
token) even at the far end of the band that the class of models has by real logs, or where the
weights alone are more than the share; a warning where only the estimate says so.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.0
    args:
    - Qwen/Qwen2.5-14B-Instruct
    - --quantization=fp8
    - --gpu-memory-utilization=0.6  # no-kv-space
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
    image: vllm/vllm-openai:v0.27.0
    args: ["Qwen/Qwen2.5-7B-Instruct", "--quantization=fp8", "--max-model-len=8192"]
    resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: more ranks for one copy of the model, fewer bits per weight, or a larger share where it is
below 0.9; smaller batches (`--max-num-batched-tokens`, `--max-num-seqs`) lower the peak.
"""

from __future__ import annotations

from shardlint.api import Found, MemoryRule, Repair, Sized, World, gib, parts_of, ranks_of


class NoKvSpace(MemoryRule):
    id, name = "SL602", "no-kv-space"
    fix = "unsafe"

    def short(self, sized: Sized) -> tuple[int, int] | None:
        made, band = sized.made, sized.band
        if loads_not(sized):
            return None
        if made.settings.kv_bytes is not None:
            return _beyond(sized)
        most = sized.generous.kv + band.above
        least = 1 if made.beside.cuts_requests else made.need or 1
        beyond = max(least - most, _of_weights(sized))
        return 1 - made.kv, beyond if made.kv <= 0 else 0

    def said(self, world: World, sized: Sized, sure: bool) -> Found:
        made = sized.made
        if made.settings.kv_bytes is not None:
            return _fixed(world, sized, sure)
        share = made.settings.share
        return Found(
            message=(
                f"nothing is left for the KV cache{ranks_of(world)}: {parts_of(made)} need"
                f" {gib(made.needed)} of the {gib(made.budget)} that a share of {share:g} of"
                f" {world.card} gives"
            ),
            at=world.origin("memory.budget.share", "layout.tp", "layout.pp", "model"),
            help="more ranks for one copy of the model, fewer bits per weight, or a larger share",
            repair=Repair("memory"),
        )


def loads_not(sized: Sized) -> bool:
    """The weights alone are too much, which another rule says."""
    made = sized.made
    return made.at_load + made.beside.context > made.total


def _of_weights(sized: Sized) -> int:
    """What the weights alone are more than the share, whatever else takes of it."""
    share = sized.generous.budget + sized.made.beside.doubtful
    return int(sized.made.held * (1 - sized.band.weights)) - share


def _beyond(sized: Sized) -> tuple[int, int]:
    """What a cache of a stated size lacks; surely only what weights and cache do not have."""
    made, cache = sized.made, sized.made.cache
    assert cache is not None
    kept = cache.pool(made.kv) * cache.bytes_per_block
    held = int(made.held * (1 - sized.band.weights))
    return made.needed + kept - made.total, held + kept - sized.generous.total


def _fixed(world: World, sized: Sized, sure: bool) -> Found:
    made = sized.made
    room, beside = made.total - made.needed, "the weights" if sure else parts_of(made)
    most = f" (up to about {gib(room)})" if room > 0 else ""
    return Found(
        message=(
            f"a KV cache of {gib(made.kv)} does not fit beside {beside}{ranks_of(world)}:"
            f" {gib(made.held if sure else made.needed)} and the cache are more than the"
            f" {gib(made.total)} of {world.card}"
        ),
        at=world.origin("memory.budget.bytes", "layout.tp", "model"),
        help=f"a smaller --kv-cache-memory-bytes{most}, or the share instead of it",
        repair=Repair("memory"),
    )
