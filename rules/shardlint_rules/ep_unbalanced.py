"""So few requests run at a time that ranks of experts have nothing to compute.

With expert parallelism each rank computes the tokens that chose one of its experts, and all wait
for the rank that has most. A step of m tokens makes m × k choices; even if all experts were chosen
alike, a rank of E experts over p ranks gets none of them with a chance of about
(1 - 1 ÷ p) to the power of m × k. Tensor parallelism cuts every expert over all ranks instead, and
keeps all of them busy: with two experts on each of four A100, Mixtral 8x7B gave 0.55 to 0.60 times
the tokens a second that it gave with each cut into four, at one request at a time and four lengths
(TensorRT-LLM; argonne-lcf/LLM-Inference-Bench).

Reported only with a `concurrency` in `[workload]`, as an info, where a quarter of the ranks or more
is idle on average in a step. Real routers prefer some experts, which makes it worse.

```toml told
[workload]
concurrency = 1
```

```sh fails --gpu H100-SXM-80GB:8
vllm serve mistralai/Mixtral-8x7B-Instruct-v0.1 --tensor-parallel-size 8 --enable-expert-parallel  # ep-unbalanced
```

```sh passes --gpu H100-SXM-80GB:4
vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 4 --enable-expert-parallel
```

Fix: without expert parallelism at so few requests, or more requests at a time.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Repair, Rule, ServingPlan, World

IDLE = 0.25
"""A share of idle ranks that is worth a word: by less, other parts of a step decide."""


class EpUnbalanced(Rule):
    id, name = "SL111", "ep-unbalanced"
    severity = "info"
    told = ("concurrency",)
    needs = ("layout.tp", "layout.dp", "layout.ep", "model_facts")
    model = ("num_experts", "experts_per_token")
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        experts = plan.effective.ep.only
        return engine.checked and experts is not None and (experts is True or experts > 1)

    def check(self, world: World) -> Iterator[Found]:
        model, asked, layout = world.model, world.workload["concurrency"], world.whole
        if model is None or not model.moe or layout is None or not world.starts:
            return
        replicas = world.plan.fleet.replicas
        copies, ranks = (
            1 if replicas.is_unset else replicas.only,
            world.engine.ranks(layout, model, None).ep,
        )
        experts, chosen = model.num_experts, model.experts_per_token
        if not copies or ranks < 2 or not experts or not chosen:
            return
        each = -(-asked // copies)
        idle = _idle(experts, chosen, ranks, each)
        if idle < IDLE:
            return
        requests = "request" if each == 1 else "requests"
        yield Found(
            message=(
                f"{each} {requests} at a time make {each * chosen} choices of {experts} experts on"
                f" {ranks} ranks: on average {idle * ranks:.1f} ranks have nothing to compute in a"
                " step, even if all experts are chosen alike"
            ),
            at=world.origin("layout.ep", "layout.tp"),
            help="without expert parallelism every rank computes its part of each chosen expert",
            repair=Repair("fields", values=(("ep", False if layout.ep is True else 1),)),
        )


def _idle(experts: int, chosen: int, ranks: int, tokens: int) -> float:
    """The chance that no token of a step chose an expert of one rank; a token chooses distinct
    ones."""
    own = experts // ranks
    none = 1.0
    for at in range(chosen):
        none *= max(0, experts - own - at) / (experts - at)
    return float(none**tokens)
