"""Experts do not suit the number of ranks.

With expert parallelism each rank holds some of the experts. vLLM gives the first ranks one more
where they do not divide, which is accepted (info). It refuses where load balancing is on: "EPLB
currently only supports even distribution of experts across ranks" (redundant experts included), and
where a kernel or a model class asks for equal parts. Many mixture-of-experts classes also refuse
more tensor parallel ranks than experts, whatever expert parallelism says: "Tensor parallel size 16
is greater than the number of experts 8".

```sh fails
vllm serve Qwen/Qwen3-30B-A3B --data-parallel-size 3 --enable-expert-parallel --enable-eplb  # experts-indivisible
```

```sh passes
vllm serve Qwen/Qwen3-30B-A3B --data-parallel-size 4 --enable-expert-parallel --enable-eplb
```

Fix: a number of ranks that divides the experts, or redundant experts
(`--eplb-config '{"num_redundant_experts": 1}'`) that fill the last rank.
"""  # noqa: E501

from __future__ import annotations

from shardlint.api import ConstraintRule, ModelFacts


class ExpertsIndivisible(ConstraintRule):
    id, name = "SL108", "experts-indivisible"
    model = ("num_experts",)
    gate = True

    def lacks(self, model: ModelFacts) -> str | None:
        return None if model.dense_ffn and not model.moe else super().lacks(model)
