"""A tensor parallel group reaches over more than one node.

Tensor parallelism adds up the parts of every layer twice for every token (all-reduce). Inside a
node this goes over NVLink; between nodes it goes over the network, which is slower by a factor of
several up to hundreds. Pipeline stages hand on one activation per step and stand the network well.
vLLM numbers tensor parallel peers consecutively (`config/model.py`), so a group fits into a node
when its size divides what a node takes. With `--nnodes` it says nothing; with Ray it warns "tensor
parallel workers can be spread out to 2+ nodes which can degrade the performance unless you have
fast interconnect across nodes" (`v1/executor/ray_utils.py`).

A warning; with an RDMA network, which a file asks for or the user tells of, an info. Racks whose
NVLink joins many nodes (GB200 NVL72) are not reported.

```sh fails
vllm serve meta-llama/Llama-3.1-405B-Instruct --nnodes 2 --node-rank 0 --master-addr node0 \\
  --tensor-parallel-size 16  # tp-cross-node
```

```sh passes
vllm serve meta-llama/Llama-3.1-405B-Instruct --nnodes 2 --node-rank 0 --master-addr node0 \\
  --tensor-parallel-size 8 --pipeline-parallel-size 2
```

Fix: tensor parallelism up to the GPUs of a node, and pipeline stages over the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, LayoutRule, Repair, World

RACK = 16
"""A link domain of more devices joins several nodes: no node has so many."""


class TpCrossNode(LayoutRule):
    id, name = "SL201", "tp-cross-node"
    severity = "warning"
    fix = "unsafe"

    def check(self, world: World) -> Iterator[Found]:
        nodes, placement = crossed(world), world.plan.placement
        if nodes < 2:
            return
        rdma = placement.network.only == "rdma"
        network = "an RDMA network" if rdma else "the network between them"
        cure = _inside(world)
        yield Found(
            message=(
                f"TP {world.layout.tp} spans {nodes} nodes: the all-reduces of every layer cross"
                f" {network}{sent(world)}"
            ),
            at=world.origin("layout.tp", "layout.nnodes"),
            severity="info" if rdma else None,
            help=f"TP {cure[0]} × PP {cure[1]} keeps each group inside a node" if cure else None,
            repair=Repair("fields", values=(("tp", cure[0]), ("pp", cure[1])))
            if cure and spanned(world) > 1
            else None,
        )


def crossed(world: World) -> int:
    """Nodes between which the sums of one group go over the network; 1 where they do not."""
    nodes, domain = max(spanned(world), needed(world)), world.plan.placement.link_domain.only or 1
    return nodes if domain < max(RACK, world.layout.tp) else 1


def sent(world: World) -> str:
    """What each rank of a group sends for one token, where the model is known: ", 2.0 MB ...".

    Two sums for each layer, each of which sends 2 × (p - 1) ÷ p of the 16-bit hidden state.
    """
    bytes = sent_bytes(world)
    return "" if bytes is None else f", {bytes / 1e6:.1f} MB from each rank for every token"


def sent_bytes(world: World) -> int | None:
    tp, model, layout = world.layout.tp, world.plan.model_facts.only, world.plan.effective
    stages = layout.pp.only
    if model is None or not model.num_layers or not model.hidden_size or not stages:
        return None
    if layout.attention_dp.only not in (None, 1):
        return None  # other exchanges take the place of these sums
    return 2 * model.num_layers * 2 * (tp - 1) * model.hidden_size * 2 // (tp * stages)


def spanned(world: World) -> int:
    """Nodes that one tensor parallel group touches, 1 where that is not known."""
    assert world.ranks is not None
    if in_one_pod(world):
        return 1
    return world.engine.group_nodes(world.layout, world.ranks, per_node(world)) or 1


def in_one_pod(world: World) -> bool:
    """Ray is asked for in a pod that nothing joins with others: its cluster is that pod."""
    placement = world.plan.placement
    alone = placement.joined is None and not placement.capacity.is_known and placement.scheduled
    return world.layout.executor == "ray" and alone and placement.pods_per_group.only == 1


def needed(world: World) -> int:
    """Nodes that a group cannot do without, where there are as many for one engine; else 1.

    Whoever asks one node for so many ranks, and has more nodes, has yet to join them.
    """
    local, there = per_node(world), world.plan.placement.nodes.only or 1
    alone = world.layout.executor is None and world.layout.nnodes == 1
    nodes = -(-world.layout.tp // local) if local and alone else 1
    return nodes if nodes <= there else 1


def per_node(world: World) -> int | None:
    """The devices of one node or pod, if that is certain."""
    devices = world.plan.placement.devices
    return None if devices.assumes else devices.only


def _inside(world: World) -> tuple[int, int] | None:
    """TP and PP of the same product with groups that fit into a node."""
    layout, ranks, model = world.layout, world.ranks, world.plan.model_facts.only
    assert ranks is not None
    local = ranks.gpus_per_pod if layout.nnodes > 1 else per_node(world)
    if not local or layout.tp % local or layout.tp == local or model is None:
        return None
    stages = layout.pp * (layout.tp // local)
    return (local, stages) if model.num_layers and stages <= model.num_layers else None
