"""Prefill and decode of one service do not go together.

A prefill worker computes the KV cache of a prompt and hands it to a decode worker. The cache means
something to the same model only, stored in the same type. And it is large: where prefill has an
RDMA device and decode has none, it goes over TCP.

```yaml fails
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: llm}
spec:
  model: {uri: hf://Qwen/Qwen3-8B, name: Qwen/Qwen3-8B}
  template:
    containers:
    - name: main
      args: ["--kv-cache-dtype=fp8"]  # pd-mismatch
      resources: {limits: {nvidia.com/gpu: 1}}
  prefill:
    template:
      containers:
      - name: main
        args: ["--kv-cache-dtype=bfloat16"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

```yaml passes
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: llm}
spec:
  model: {uri: hf://Qwen/Qwen3-8B, name: Qwen/Qwen3-8B}
  template:
    containers:
    - name: main
      args: ["--kv-cache-dtype=fp8"]
      resources: {limits: {nvidia.com/gpu: 1}}
  prefill:
    template:
      containers:
      - name: main
        args: ["--kv-cache-dtype=fp8"]
        resources: {limits: {nvidia.com/gpu: 1}}
```

Fix: the same model, type of the KV cache and network in both.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Known, Note, Partner, Rule, ServingPlan, World


class PdMismatch(Rule):
    id, name = "SL516", "pd-mismatch"
    severity = "warning"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return plan.role == "decode" and bool(plan.partners)

    def check_plan(self, world: World) -> Iterator[Found]:
        plan = world.plan
        for other in plan.partners:
            if other.role != "prefill":
                continue
            yield from _unlike(world, other, "model", plan.model, other.model, "serves")
            yield from _unlike(
                world, other, "memory.kv_cache_dtype", plan.memory.kv_cache_dtype,
                other.kv_cache_dtype, "keeps its KV cache as",
            )  # fmt: skip
            ours, theirs = plan.placement.rdma, other.rdma
            if theirs.only is not None and ours.is_known and ours.values == (None,):
                yield Found(
                    message=f"prefill has an RDMA device ({theirs.only}) and decode has none: the"
                    " KV cache goes over TCP",
                    at=plan.origin,
                    related=_there(theirs, other),
                )


def _unlike(
    world: World, other: Partner, fact: str, ours: Known[str], theirs: Known[str], what: str
) -> Iterator[Found]:
    one, two = ours.only, theirs.only
    if one is None or two is None or ours.assumes or theirs.assumes or _same(one, two):
        return
    yield Found(
        message=f"decode {what} {one} and prefill {two}",
        at=world.origin(fact),
        related=_there(theirs, other),
    )


def _same(one: str, two: str) -> bool:
    """Equal, or names of which one may be a path to the other."""
    if one.startswith("/") or two.startswith("/"):
        return True
    return one.lower() == two.lower()


def _there(fact: Known[str] | Known[str | None], other: Partner) -> tuple[Note, ...]:
    return (Note(fact.origin or other.origin, f"prefill: {other.name}"),)
