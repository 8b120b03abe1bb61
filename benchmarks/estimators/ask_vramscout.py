"""vramscout: plan_inference in its vLLM mode, its own reserves included."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import vramscout.model
from asked import Answer, Question, answer_all, budget_known
from vramscout.planner import plan_inference
from vramscout.types import GPUInfo


def answer(question: Question) -> Iterator[Answer]:
    if question["bytes"] is None:
        yield {"refused": "no size of the checkpoint"}
        return
    config = str(Path(question["folder"]) / "config.json")
    info = SimpleNamespace(
        safetensors=SimpleNamespace(total=question["parameters"]),
        siblings=[SimpleNamespace(rfilename="model.safetensors", size=question["bytes"])],
    )
    # It asks the Hub for both; the same facts stand in for the Hub.
    vramscout.model.hf_hub_download = lambda **_: config
    vramscout.model.HfApi = lambda: SimpleNamespace(model_info=lambda *_, **__: info)
    # Its longest context is what one request finds, up to the model's own limit; without that
    # limit it is what the pool holds.
    model = dataclasses.replace(vramscout.model.inspect_model(question["model"]), max_context=None)
    known = budget_known(question)
    size = question["gpu_gib"] if known else 1024.0
    plan = plan_inference(
        GPUInfo(0, question["gpu"] or "GPU", size, 0.0, size),
        model,
        context=question["max_model_len"] or 4096,
        kv_dtype="fp8" if question["kv_dtype"] == "fp8" else "bf16",
        tp_size=question["tp"],
        engine="vllm",
        gpu_memory_utilization=question["utilization"] if known else 1.0,
    )
    parts = plan.breakdown
    yield {"weights_gib": parts.weights_gib}
    if not known:
        return
    other = parts.total_gib - parts.kv_cache_gib
    length = question["max_model_len"]
    yield {
        "kv_gib": plan.memory_budget_gib - other,
        "kv_tokens": plan.max_context_vram,
        "concurrency": plan.max_context_vram / length if length else None,
    }


answer_all(answer)
