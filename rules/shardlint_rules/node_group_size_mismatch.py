"""The ranks of an engine cannot be shared out evenly over its nodes.

Every node of a group takes the same number of ranks. vLLM refuses `--nnodes` that does not divide
tensor × pipeline × data parallel size ("--nnodes 3 must evenly divide the total world size (16)",
`config/parallel.py`). And the pods of a StatefulSet that are the nodes of one engine come in whole
groups: with three pods for `--nnodes 2` the third waits for a partner that never comes. A cluster
whose nodes are stated, such as the RayCluster of a chart, must have a GPU for every rank: with
fewer, the placement group of the ranks is never ready, and the engine waits for it until it fails.

```sh fails
vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1 --node-rank 0 --master-addr node0 \\
  --nnodes 2  # node-group-size-mismatch
```

```sh passes
vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --node-rank 0 --master-addr node0 --nnodes 2
```

```yaml passes
servingEngineSpec:
  modelSpec:
  - name: llama
    repository: lmcache/vllm-openai
    tag: latest
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 1  # workers of the RayCluster, beside its head
    requestGPU: 1
    vllmConfig: {tensorParallelSize: 1, pipelineParallelSize: 2}
    raySpec: {enabled: true, headNode: {requestGPU: 1}}
```

Fix: as many nodes as divide the product, or one engine on each node behind a router.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.api import Constraint, ConstraintRule, Found, World


class NodeGroupSizeMismatch(ConstraintRule):
    id, name = "SL305", "node-group-size-mismatch"
    wants = ("placement.group_devices",)
    message = "{left} {subject} do not divide over {right} nodes; {says}"

    def check(self, world: World) -> Iterator[Found]:
        yield from super().check(world)
        yield from _cluster(world)
        pods, nodes = world.plan.placement.pods, world.layout.nnodes
        count = pods.only
        if nodes > 1 and count is not None and count > 1 and count % nodes:
            yield Found(
                message=f"{count} pods are no groups of {nodes} nodes",
                at=world.origin("placement.pods", "layout.nnodes"),
                severity="warning",
                help=f"{-(-count // nodes) * nodes} pods, or --nnodes that divides {count}",
            )

    def found(self, constraint: Constraint, world: World) -> Found:
        return replace(super().found(constraint, world), repair=None, help=_help(constraint))

    def text(self, constraint: Constraint, world: World) -> str:
        text = super().text(constraint, world)
        return text.replace("1 GPUs do not", "1 GPU does not", 1) if constraint.left == 1 else text


def _cluster(world: World) -> Iterator[Found]:
    """The ranks of one replica against all GPUs that its nodes have together."""
    devices, ranks = world.values.get("placement.group_devices"), world.ranks
    if devices is None or ranks is None or ranks.gpus <= devices:
        return
    nodes = world.plan.placement.pods_per_group.only
    where = f"{nodes} nodes" if nodes is not None else "the nodes"
    yield Found(
        message=(
            f"{ranks.gpus} ranks need a GPU each, and {where} have {devices} together;"
            f" {world.engine.label} waits for GPUs that never come"
        ),
        at=world.origin(*_largest(world), "placement.group_devices"),
        help=f"{ranks.gpus} GPUs, or a product of at most {devices}",
    )


def _largest(world: World) -> list[str]:
    """The factors of the product above 1, the largest first."""
    sizes = {name: getattr(world.layout, name) for name in ("pp", "tp", "dp")}
    names = sorted((n for n, size in sizes.items() if size > 1), key=lambda n: -sizes[n])
    return [f"layout.{name}" for name in names]


def _help(constraint: Constraint) -> str:
    most = range(min(constraint.left, constraint.right), 0, -1)
    nodes = next(count for count in most if constraint.left % count == 0)
    return (
        f"{nodes} {'node' if nodes == 1 else 'nodes'}, or a product that {constraint.right} divides"
    )
