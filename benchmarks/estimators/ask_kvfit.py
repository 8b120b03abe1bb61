"""kvfit: state by architecture and an ideal split of the weights; no overhead of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from asked import GIB, Answer, Question, answer_all, budget_known, kv_bytes
from kvfit.architectures import estimate_cache
from kvfit.hardware import Hardware
from kvfit.planner import plan_topologies


def answer(question: Question) -> Iterator[Answer]:
    if question["bytes"] is None:
        yield {"refused": "no size of the checkpoint"}
        return
    length = question["max_model_len"] or 4096
    config = json.loads((Path(question["folder"]) / "config.json").read_text(encoding="utf-8"))
    known = budget_known(question)
    (layout,) = plan_topologies(
        estimate_cache(config, context_tokens=length, kv_bytes=kv_bytes(question)),
        weight_bytes=question["bytes"],
        hardware=Hardware("asked", "asked", question["gpu_gib"] if known else 1.0),
        gpus=question["tp"],
        utilization=question["utilization"] if known else 1.0,
        tensor_parallel=question["tp"],
    )
    yield {"weights_gib": layout.weights_per_rank_bytes / GIB}
    need = layout.kv_per_sequence_per_rank_bytes
    if not known or not math.isfinite(need):
        return
    pool = layout.budget_per_rank_bytes - layout.weights_per_rank_bytes
    pool -= layout.fixed_cache_per_rank_bytes
    requests = max(0.0, pool / need)
    yield {
        "kv_gib": pool / GIB,
        "kv_tokens": requests * length,
        "concurrency": requests if question["max_model_len"] else None,
    }


answer_all(answer)
