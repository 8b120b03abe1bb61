"""Data-parallel ranks of a mixture of experts run in step: one lost GPU stops all of them.

For a dense model data parallelism means independent copies. For a mixture of experts vLLM spreads
the experts over all ranks and synchronises every forward pass (`v1/engine/core.py`): idle ranks run
dummy batches, and when one rank dies, none can go on. The whole group is one failure domain, and
one unit when it is scaled or updated.

```sh fails
vllm serve Qwen/Qwen3-30B-A3B --data-parallel-size 4 --enable-expert-parallel  # dp-coupled
```

```sh passes
vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 4
```

Fix: nothing, where the experts do not fit otherwise. For availability, run more than one such
group, or replicas without data parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, LayoutRule, ModelFacts, World


class DpCoupled(LayoutRule):
    id, name = "SL503", "dp-coupled"
    severity = "info"
    model = ("num_experts",)

    def lacks(self, model: ModelFacts) -> str | None:
        return None if model.dense_ffn and not model.moe else super().lacks(model)

    def check(self, world: World) -> Iterator[Found]:
        ranks = world.ranks
        if ranks is None or ranks.coupled < 2 or not world.starts:
            return
        yield Found(
            message=(
                f"{ranks.coupled} data-parallel ranks of a mixture of experts run in step: one lost"
                f" GPU of {ranks.gpus} stops all of them"
            ),
            at=world.origin("layout.dp"),
        )
