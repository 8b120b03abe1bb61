"""The KV cache does not hold one request of the full context.

An engine checks that before it serves: with too little memory for a single request of
`--max-model-len` tokens, vLLM stops with "To serve at least one request with the models's max seq
len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory
(13.40 GiB)" (`v1/core/kv_cache_utils.py`; before 0.8 "The model's max seq len (131072) is larger
than the maximum number of tokens that can be stored in KV cache"). Without the option, the length
is that of the model's config, which for many models is 128k or more.

With data parallelism every rank keeps the whole KV cache of its own requests. Layers with a latent
cache keep it on every tensor-parallel rank.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.0
    args: ["meta-llama/Llama-3.1-8B-Instruct"]  # kv-too-small
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
    args: ["meta-llama/Llama-3.1-8B-Instruct", "--max-model-len=16384"]
    resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: a shorter context, an FP8 KV cache (`--kv-cache-dtype fp8`), or more ranks for one copy of the
model.
"""

from __future__ import annotations

from shardlint.api import Found, MemoryRule, Repair, Sized, World, gib, ranks_of


class KvTooSmall(MemoryRule):
    id, name = "SL603", "kv-too-small"
    fix = "unsafe"

    def short(self, sized: Sized) -> tuple[int, int] | None:
        made, need = sized.made, sized.made.need
        if need is None or made.kv <= 0:
            return None
        return need - made.kv, need - sized.generous.kv - sized.band.above

    def said(self, world: World, sized: Sized, sure: bool) -> Found:
        made = sized.made
        assert made.need is not None and made.cache is not None
        longest, most = made.settings.max_model_len, made.cache.longest(made.kv)
        stated = world.plan.fact("memory.max_model_len").origin is not None
        which = f"{longest:,} tokens" if stated else f"the model's {longest:,} tokens"
        return Found(
            message=(
                f"one request of {which} takes {gib(made.need)} of KV cache on each"
                f" GPU{ranks_of(world)}, and about {gib(made.kv)} of {world.card} is left for it"
                f" ({most:,} tokens)"
            ),
            at=world.origin("memory.max_model_len", "layout.tp", "model"),
            help=f"--max-model-len up to about {most:,}, an FP8 KV cache, or more ranks",
            repair=Repair("memory"),
        )
