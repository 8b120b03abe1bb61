"""The KV cache does not hold one request of the full context.

An engine checks that before it serves: with too little memory for a single request of
`--max-model-len` tokens, vLLM stops with "To serve at least one request with the models's max seq
len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory
(13.40 GiB)" (`v1/core/kv_cache_utils.py`; before 0.8 "The model's max seq len (131072) is larger
than the maximum number of tokens that can be stored in KV cache"). Without the option, the length
is that of the model's config, which for many models is 128k or more.

SGLang does not check that: it starts, and cuts or refuses longer requests, so that it is a warning
there.

With a `[workload]` in the configuration, also a warning where the cache does not hold its
`concurrency` requests of `isl` + `osl` tokens, shared out over replicas and data-parallel ranks:
the engine then preempts requests and computes them again. Where only `concurrency` is stated, an
info says how many requests of the full length are held.

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

from collections.abc import Iterator

from shardlint.api import Found, MemoryRule, Repair, Sized, World, gib, ranks_of

from shardlint_rules.no_kv_space import loads_not


class KvTooSmall(MemoryRule):
    id, name = "SL603", "kv-too-small"
    fix = "unsafe"

    def short(self, sized: Sized) -> tuple[int, int] | None:
        made, need = sized.made, sized.made.need
        if need is None or loads_not(sized):
            return None
        known = made.settings.kv_bytes is not None and sized.band.kind in EXACT
        sure = need - sized.generous.kv - (0 if known else sized.band.above)
        return need - made.kv, 0 if made.beside.cuts_requests else sure

    def said(self, world: World, sized: Sized, sure: bool) -> Found:
        made = next(item.made for item in reversed(world.sized()) if item.made.kv > 0)
        assert made.need is not None and made.cache is not None
        longest, most = made.settings.max_model_len, made.cache.longest(made.kv)
        stated = world.plan.fact("memory.max_model_len").origin is not None
        which = f"{longest:,} tokens" if stated else f"the model's {longest:,} tokens"
        option = world.engine.flag_name("max_model_len") or "a context of"
        return Found(
            message=(
                f"one request of {which} takes {gib(made.need)} of KV cache on each"
                f" GPU{ranks_of(world)}, and {_left(world, sized)} ({most:,} tokens)"
            ),
            at=world.origin("memory.max_model_len", "layout.tp", "model"),
            help=(
                f"{LARGER if made.settings.kv_bytes is not None else ''}"
                f"{option} up to about {most:,}, an FP8 KV cache, or more ranks"
            ),
            repair=Repair("memory"),
        )

    def check(self, world: World) -> Iterator[Found]:
        if all(item.made.kv <= 0 for item in world.sized()):
            return  # another rule says that nothing is left
        found = list(super().check(world))
        yield from found
        if not found:
            yield from _crowded(world)


EXACT = ("plain", "latent")
"""Classes of models whose cache has one kind of layer: what a request takes of it is exact."""
LARGER = "a larger --kv-cache-memory-bytes, "


def _left(world: World, sized: Sized) -> str:
    made = sized.made
    if made.settings.kv_bytes is not None:
        return f"--kv-cache-memory-bytes fixes {gib(made.kv)} for it"
    return f"about {gib(made.kv)} of {world.card} is left for it"


def _crowded(world: World) -> Iterator[Found]:
    """The load that the user states, against the tokens of one rank."""
    load, replicas = world.workload, world.plan.fleet.replicas
    asked = load.get("concurrency")
    tokens = load.get("isl", 0) + load.get("osl", 0)
    copies = 1 if replicas.is_unset else replicas.only
    longest = {item.made.settings.max_model_len for item in world.sized()}
    if tokens and longest and all(length is not None and length < tokens for length in longest):
        limit = max(length for length in longest if length is not None)
        yield Found(
            message=f"requests of {tokens:,} tokens are longer than the longest of {limit:,}",
            at=world.origin("memory.max_model_len", "model"),
            severity="warning",
            help=f"a longer {world.engine.flag_name('max_model_len') or 'context'}",
        )
        return
    if not tokens:
        yield from _at_full_length(world, asked, copies)
        return
    if not asked or not copies:
        return
    ranks = copies * world.layout.dp * world.layout.attention_dp
    each = -(-asked // ranks)
    held = [_held(sized, tokens) for sized in world.sized()]
    if not held or max(held) >= each:
        return
    most = max(held)
    each_is = "ranks" if ranks > copies else "replicas"
    over = f" over {ranks} {each_is}" if ranks > 1 else ""
    yield Found(
        message=(
            f"{asked} requests of {tokens:,} tokens{over} are {each} at a time, and the KV cache of"
            f" one{ranks_of(world)} holds about {int(most)}; the rest waits or is computed again"
        ),
        at=world.origin("memory.max_num_seqs", "layout.tp", "model"),
        severity="warning",
        help="more replicas, an FP8 KV cache, or more ranks for one copy of the model",
        repair=_room(each, tokens),
    )


def _at_full_length(world: World, asked: int | None, copies: int | None) -> Iterator[Found]:
    """Requests of which only the number is stated, as long as the engine lets them be."""
    lengths = {item.made.settings.max_model_len for item in world.sized()}
    longest = next(iter(lengths)) if len(lengths) == 1 else None
    if not asked or not copies or longest is None:
        return
    each = -(-asked // (copies * world.layout.dp * world.layout.attention_dp))
    most = max(_held(sized, longest) for sized in world.sized())
    limits = {item.made.settings.max_num_seqs for item in world.sized()}
    running = min(each, *(limit or each for limit in limits))
    if most >= running:
        return  # the others wait by what the user states
    yield Found(
        message=(
            f"of {running} requests at a time the KV cache{ranks_of(world)} holds about"
            f" {int(most)}, if all of them have the full {longest:,} tokens; the rest waits or is"
            " computed again"
        ),
        at=world.origin("memory.max_num_seqs", "memory.max_model_len", "layout.tp", "model"),
        severity="info",
        help="isl and osl in [workload] say how long requests are",
        repair=_room(running, longest, int(most)),
    )


def _room(requests: int, tokens: int, most: int = 0) -> Repair:
    """A cache that holds all of them, or no more of them at a time than it holds."""
    fewer = (Repair("fields", values=(("max_num_seqs", most),)),) if most else ()
    return Repair("memory", values=(("requests", requests), ("tokens", tokens)), also=fewer)


def _held(sized: Sized, tokens: int) -> float:
    """Requests at the far end of the band."""
    made = sized.made
    if made.cache is None:
        return float("inf")
    return made.cache.concurrency(max(0, sized.generous.kv + sized.band.above), tokens)
