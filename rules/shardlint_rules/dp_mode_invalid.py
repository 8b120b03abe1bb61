"""The way in which data-parallel ranks share requests is refused.

vLLM balances itself over all ranks, over those of each node (hybrid), or leaves it to a balancer in
front (external: `--data-parallel-external-lb`, or a rank of its own for each process). It refuses
two ways at once ("Cannot use more than one data parallel load balancing mode"), hybrid balancing
without the number of local ranks, a rank beyond the size and, since 0.21, external balancing of a
dense model: "Non-MoE models do not support external data parallel mode. For external load
balancing, launch independent vLLM instances without --data-parallel-* arguments".

```sh fails
docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B -dp 4 --data-parallel-rank 0  # dp-mode-invalid
```

```sh passes
docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B
```

Fix: independent servers for a dense model; one way of balancing for the others.
"""  # noqa: E501

from __future__ import annotations

from shardlint.api import ConstraintRule


class DpModeInvalid(ConstraintRule):
    id, name = "SL502", "dp-mode-invalid"
    wants = ("model_facts",)
    gate = True
