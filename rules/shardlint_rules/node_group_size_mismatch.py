"""The ranks of an engine cannot be shared out evenly over its nodes.

Every node of a group takes the same number of ranks. vLLM refuses `--nnodes` that does not divide
tensor × pipeline × data parallel size ("--nnodes 3 must evenly divide the total world size (16)",
`config/parallel.py`). And the pods of a StatefulSet that are the nodes of one engine come in whole
groups: with three pods for `--nnodes 2` the third waits for a partner that never comes. Where an
operator makes the group of pods, all of them together need as many GPUs as the engine has ranks:
the group that KServe makes follows from `data` and `dataLocal`, and not from `tensor`.

```sh fails
vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1 --node-rank 0 --master-addr node0 \\
  --nnodes 2  # node-group-size-mismatch
```

```sh passes
vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --node-rank 0 --master-addr node0 --nnodes 2
```

Fix: as many nodes as divide the product, or one engine on each node behind a router.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.api import Constraint, ConstraintRule, Found, Note, World

from shardlint_rules.gpu_count_short import short_group


class NodeGroupSizeMismatch(ConstraintRule):
    id, name = "SL305", "node-group-size-mismatch"
    message = "{left} {subject} do not divide over {right} nodes; {says}"

    def check(self, world: World) -> Iterator[Found]:
        yield from super().check(world)
        if (short := short_group(world)) is not None:
            yield _too_small(world, short)
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


def _too_small(world: World, devices: int) -> Found:
    ranks, pods = world.ranks, world.plan.placement.pods_per_group
    assert ranks is not None
    group = f"a group of {pods.only} {'pod' if pods.only == 1 else 'pods'}"
    gpus = f"{devices} {'GPU' if devices == 1 else 'GPUs'}"
    return Found(
        message=f"the engine has {ranks.gpus} ranks, and {group} has {gpus}",
        at=world.origin("layout.tp", "layout.pp", "layout.dp", "placement.gpus_per_pod"),
        help="as many GPUs as ranks in the pods of the group, or a smaller product",
        related=(Note(pods.origin, group),) if pods.origin is not None else (),
    )


def _help(constraint: Constraint) -> str:
    most = range(min(constraint.left, constraint.right), 0, -1)
    nodes = next(count for count in most if constraint.left % count == 0)
    return (
        f"{nodes} {'node' if nodes == 1 else 'nodes'}, or a product that {constraint.right} divides"
    )
