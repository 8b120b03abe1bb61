"""The ranks of an engine cannot be shared out evenly over its nodes.

Every node of a group takes the same number of ranks. vLLM refuses `--nnodes` that does not divide
tensor × pipeline × data parallel size ("--nnodes 3 must evenly divide the total world size (16)",
`config/parallel.py`). And the pods of a StatefulSet that are the nodes of one engine come in whole
groups: with three pods for `--nnodes 2` the third waits for a partner that never comes. Where an
operator makes the group of pods, all of them together need as many GPUs as the engine has ranks:
the group that KServe makes follows from `data` and `dataLocal`, and not from `tensor`.

Where Ray places the ranks of a group of pods (a LeaderWorkerSet, say), all pods of the group must
have as many GPUs together as there are ranks. Ray waits for the missing ones for ever. Without Ray,
`--nnodes` is the size of the group, and the data-parallel ranks of its pods are all there are.

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

from shardlint.api import Constraint, ConstraintRule, Found, Note, Repair, World

from shardlint_rules.gpu_count_short import product, short_group

PLACED = ("placement.group_devices", "layout.executor", "layout.dp_local", "layout.dp_rank")
"""What decides whether all ranks are to be placed in one group of pods."""

USUAL_NODE = 8
"""GPUs of a node whose size nobody states: no fix asks one pod for more."""


class NodeGroupSizeMismatch(ConstraintRule):
    id, name = "SL305", "node-group-size-mismatch"
    fix = "unsafe"
    message = "{left} {subject} do not divide over {right} nodes; {says}"
    wants = PLACED

    def check(self, world: World) -> Iterator[Found]:
        yield from super().check(world)
        if (short := short_group(world)) is not None:
            yield _too_small(world, short)
            return
        yield from _short(world)
        yield from _apart(world)
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
        told = constraint.remedy or _help(constraint)
        return replace(super().found(constraint, world), help=told)

    def text(self, constraint: Constraint, world: World) -> str:
        text = super().text(constraint, world)
        return text.replace("1 GPUs do not", "1 GPU does not", 1) if constraint.left == 1 else text


def _short(world: World) -> Iterator[Found]:
    """Ranks that are placed in a group of pods which has fewer devices than there are ranks."""
    layout, ranks = world.layout, world.ranks
    decided = all(name in world.values for name in PLACED)
    if ranks is None or layout.executor != "ray" or not decided:
        return
    wanted = ranks.gpus if layout.one_group else ranks.world_size
    there = world.values["placement.group_devices"]
    if layout.nnodes > 1 or wanted <= there:
        return
    pods = world.plan.placement.pods_per_group.only or 1
    inside = layout.pp * there // wanted
    yield Found(
        message=(
            f"{product(world)} is {wanted} ranks, and the {counted(pods, 'pod')} of a group"
            f" {'has' if pods == 1 else 'have'} {there} GPUs: Ray waits for the others for ever"
        ),
        at=world.origin("placement.pods_per_group", "layout.pp", "layout.tp"),
        help=_more(wanted, there, pods, inside),
        repair=Repair("fields", values=(("pp", inside),)) if inside else None,
    )


def _apart(world: World) -> Iterator[Found]:
    """Nodes or data-parallel ranks that are not as many as the pods of a group bring."""
    layout, group = world.layout, world.plan.placement.pods_per_group
    pods = group.only
    if pods is None or group.how == "defaulted" or group.assumes:
        return
    if layout.nnodes not in (1, pods):
        yield Found(
            message=f"--nnodes {layout.nnodes} in a group of {counted(pods, 'pod')}: nodes wait for"
            " one another until all are there",
            at=world.origin("layout.nnodes", "placement.pods_per_group"),
            severity="warning",
            help=f"--nnodes {pods}, or groups of {counted(layout.nnodes, 'pod')}",
        )
    local = layout.dp_local
    decided = "layout.dp_local" in world.values and layout.nnodes == 1
    if decided and pods > 1 and local and local * pods < layout.dp:
        yield Found(
            message=f"{counted(pods, 'pod')} with {local} data-parallel ranks each start"
            f" {local * pods} of {layout.dp} ranks: they wait for the others",
            at=world.origin("layout.dp", "placement.pods_per_group"),
            severity="warning",
            help=f"--data-parallel-size {local * pods}, or groups of {-(-layout.dp // local)} pods",
        )


def _more(wanted: int, there: int, pods: int, stages: int) -> str | None:
    each = there // pods
    size = -(-wanted // each) if each else 0
    ways = [f"groups of {size} pods whose workers join the Ray cluster"] if size else []
    return "; or ".join([*ways, *([f"PP {stages}"] if stages else [])]) or None


def counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _too_small(world: World, devices: int) -> Found:
    ranks, pods = world.ranks, world.plan.placement.pods_per_group
    assert ranks is not None
    group = f"a group of {pods.only} {'pod' if pods.only == 1 else 'pods'}"
    gpus = f"{devices} {'GPU' if devices == 1 else 'GPUs'}"
    return Found(
        message=f"the engine has {ranks.gpus} ranks, and {group} has {gpus}",
        at=world.origin("layout.tp", "layout.pp", "layout.dp", "placement.gpus_per_pod"),
        help="as many GPUs as ranks in the pods of the group, or a smaller product",
        repair=_larger_pods(world, ranks.gpus, pods.only or 1),
        related=(Note(pods.origin, group),) if pods.origin is not None else (),
    )


def _larger_pods(world: World, ranks: int, pods: int) -> Repair | None:
    """Pods with as many GPUs as there are ranks, where a node is not known to have fewer."""
    each, rest = divmod(ranks, pods)
    node = world.plan.placement.gpus_per_node.only
    if rest or each > (node or USUAL_NODE):
        return None
    return Repair("fields", values=(("gpus_per_pod", each),))


def _help(constraint: Constraint) -> str:
    most = range(min(constraint.left, constraint.right), 0, -1)
    nodes = next(count for count in most if constraint.left % count == 0)
    return (
        f"{nodes} {'node' if nodes == 1 else 'nodes'}, or a product that {constraint.right} divides"
    )
