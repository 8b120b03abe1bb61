"""The project of the engine has stopped, or takes nothing but small fixes.

What its own maintainers say of it is kept with the engine's other facts, with the place and the
date. TGI (text-generation-inference) is in maintenance mode since December 2025: its README says
that it takes minor bug fixes and documentation, and recommends other engines
(huggingface/text-generation-inference#3344). New models, cards and ways to quantize will not be
added. What runs goes on running, so that this is a hint and no more.

```sh fails
docker run --gpus all ghcr.io/huggingface/text-generation-inference:3.3.5 --model-id Qwen/Qwen2.5-7B-Instruct --num-shard 4  # engine-eol
```

```sh passes
vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4
```

Fix: plan the move to an engine that is kept up.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World

KIND = "upkeep"


class EngineEol(Rule):
    id, name = "SL709", "engine-eol"
    severity = "info"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return any(remark.kind == KIND for remark in plan.remarks)

    def check(self, world: World) -> Iterator[Found]:
        for remark in world.plan.remarks:
            if remark.kind == KIND:
                yield Found(
                    message=remark.message,
                    at=remark.at,
                    severity=remark.severity,
                    help=remark.help,
                )
