"""Tensor parallelism is wider than the model needs, and smaller groups would serve more.

Every rank that is added to a group makes the parts of a layer smaller and the sums between them no
smaller. Where fewer GPUs hold the model and its requests, several small groups on the same GPUs
give more tokens a second; maintainers of vLLM advise one GPU and several replicas for small models
(vllm-project/vllm issues 293 and 367). A wide group answers a single request sooner: with a goal
for latency in `[workload]` (`tpot_ms`, `ttft_ms`) nothing is said, nor with fewer requests at a
time than there would be groups.

A smaller size is one that the engine accepts and that holds the weights and twice the longest
request, by the memory model less its band; once is enough where no length is stated and a request
may take all positions of the model. It is reported

- where the group crosses nodes, and a smaller one stays inside of a node: a warning, with an RDMA
  network an info;
- where the ranks have no link but PCIe: an info, a warning above two ranks where one GPU (or the
  boards that a bridge joins) holds it;
- inside an NVLink domain only where the model of throughput was measured for such layouts, and the
  smaller group gives a twentieth more tokens a second for each GPU: an info. The requests are those
  of `[workload]`; else of 1,024 + 1,024 tokens, 32 for each GPU and as many as fit;
- elsewhere with `[workload] kind = "batch"` where one GPU holds it: an info, a warning where the
  group also keeps four or more copies of the KV cache.

```sh fails --gpu H100-SXM-80GB:8
vllm serve Qwen/Qwen3-8B --tensor-parallel-size 8 --max-model-len 8192  # tp-oversharded
```

```sh passes --gpu H100-SXM-80GB:8
vllm serve Qwen/Qwen3-8B --data-parallel-size 8 --max-model-len 8192
```

```sh passes --gpu L40S:4
vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4 --max-model-len 8192
```

Fix: a smaller tensor parallel size, and replicas or data-parallel ranks on the other GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from shardlint.api import (
    Engine,
    Found,
    Layout,
    Origin,
    Repair,
    Rule,
    ServingPlan,
    Severity,
    World,
    fits,
    refuses,
    roomy,
)

from shardlint_rules.tp_cross_node import crossed, per_node
from shardlint_rules.tp_slow_link import FEW, SLOW

ROOM = 2
"""Longest requests that the cache must hold at the same time, so that nothing gets tight."""
GAIN = 1.05
"""From here on, of measured pairs of layouts, 98 in 100 were in the order that was estimated."""
COPIES = 4


class _Smaller(NamedTuple):
    """A smaller group, and why it is better."""

    tp: int
    why: str
    severity: Severity = "info"
    nodes: int = 1


class TpOversharded(Rule):
    id, name = "SL203", "tp-oversharded"
    severity = "info"
    needs = ("layout.tp", "model_facts", "placement.gpu")
    wants = ("demand", "placement.link", "placement.link_domain")
    anywhere = False
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        layout, placement = plan.effective.world().only, plan.placement
        if not engine.checked or layout is None or layout.tp < 2 or plan.role is not None:
            return False
        plain = layout.dcp == layout.pcp == layout.attention_dp == 1 and layout.moe_tp is None
        decided = placement.gpu.only is not None and plan.model_facts.only is not None
        return plain and decided and placement.wants_gpu

    def check(self, world: World) -> Iterator[Found]:
        goal = {"tpot_ms", "ttft_ms"} & world.workload.keys()
        whole = world.whole
        if goal or whole is None:
            return
        world = replace(world, layout=whole, ranks=world.engine.ranks(whole, world.model, None))
        if not world.starts or not holds(world, whole, 1):
            return
        smaller = _across(world) or _over_pcie(world) or _inside(world)
        if smaller is None:
            return
        copies = f" × DP {world.layout.dp}" if world.layout.dp > 1 else ""
        several = f"{world.layout.tp // smaller.tp} groups of TP {smaller.tp} in place of one"
        yield Found(
            message=(
                f"TP {world.layout.tp}{copies} is wider than needed: {world.card} holds the model"
                f" and its requests{ranks_of_size(smaller.tp)}, {smaller.why}"
            ),
            at=_place(world),
            severity=smaller.severity,
            help=f"{several} serve more requests; a wide group answers a single one sooner",
            repair=_repair(world, smaller),
        )


def ranks_of_size(tp: int) -> str:
    return " alone" if tp == 1 else f" at TP {tp}"


def _place(world: World) -> Origin:
    """Where the size is written: for a variable, the place that gives it its value."""
    definition = world.plan.fact("layout.tp").related
    return definition[0] if len(definition) == 1 else world.origin("layout.tp")


# ---------------------------------------------------------------------------------- which size


def _sizes(world: World) -> list[int]:
    """Smaller sizes, largest first, that the engine takes, that hold the requests and of which as
    many groups as there is room for all get some."""
    tp, asked = world.layout.tp, world.workload.get("concurrency")
    found = []
    for size in range(tp // 2, 0, -1):
        if tp % size or (asked is not None and asked < _groups(world) * tp // size):
            continue
        if _held(world, size):
            found.append(size)
    return found


def _held(world: World, size: int) -> bool:
    layout = replace(world.layout, tp=size, nnodes=1)
    if refuses(world.engine, layout, world.model, options=world.options, device=world.device):
        return False
    room = 1 if world.plan.memory.max_model_len.is_unset else ROOM
    return holds(world, layout, room) and _serves(world, layout)


def _serves(world: World, layout: Layout) -> bool:
    """The caches of the smaller groups hold the stated requests, where those are stated."""
    told = world.workload
    asked, tokens = told.get("concurrency"), told.get("isl", 0) + told.get("osl", 0)
    if not asked or not tokens:
        return True
    each = asked * layout.tp / (_groups(world) * world.layout.tp)
    rooms = ((sized.made.cache, sized.made.kv - sized.band.below) for sized in world.sized(layout))
    return all(cache is None or cache.concurrency(max(0, room), tokens) >= each
               for cache, room in rooms)  # fmt: skip


def holds(world: World, layout: Layout, requests: int) -> bool:
    """The weights and so many of the longest requests are sure to fit.

    Where the memory of the release, or the storage of the weights, is not known, with much room.
    """
    model, device = world.model, world.device
    if found := world.sized(layout):
        if model is not None and all(sized.made.need is None for sized in found):
            found = world.sized(layout, max_model_len=model.max_position_embeddings)
        return fits(found, requests)
    if model is None or device is None:
        return False
    return roomy(world.plan, model, device, layout, requests)


def _groups(world: World) -> int:
    replicas = world.plan.fleet.replicas
    return (replicas.only or 1) * world.layout.dp


def _across(world: World) -> _Smaller | None:
    """The largest group that stays inside of a node."""
    nodes, local = crossed(world), per_node(world)
    if world.layout.nnodes > 1 and world.ranks is not None:
        local = world.ranks.gpus_per_pod
    if nodes < 2 or not local:
        return None
    size = next((size for size in _sizes(world) if size <= local), None)
    if size is None:
        return None
    rdma = world.plan.placement.network.only == "rdma"
    why = f"and a group of {world.layout.tp} sums every layer over {nodes} nodes"
    return _Smaller(tp=size, why=why, severity="info" if rdma else "warning", nodes=nodes)


def _over_pcie(world: World) -> _Smaller | None:
    """As few ranks as hold it, where there is no other link between them."""
    tp, domain = world.layout.tp, world.values.get("placement.link_domain")
    slow = world.values.get("placement.link") in SLOW and domain is not None and tp > domain
    sizes = _sizes(world) if slow and crossed(world) < 2 else []
    if not sizes or domain is None:
        return None
    joined = [size for size in sizes if size <= domain]
    size = joined[0] if joined else sizes[-1]
    why = f"and a group of {tp} sums every layer over PCIe"
    return _Smaller(tp=size, why=why, severity="warning" if joined and tp > FEW else "info")


def _inside(world: World) -> _Smaller | None:
    """What gives more for each GPU; without an answer, one GPU for a batch."""
    if crossed(world) > 1 or world.values.get("placement.link") in SLOW:
        return None
    sizes = _sizes(world)
    faster = [(gain, size) for size in sizes if (gain := _gain(world, size)) is not None]
    if faster:
        gain, size = max(faster)
        return _Smaller(tp=size, why=_rates(world, size)) if gain >= GAIN else None
    if world.workload.get("kind") != "batch" or 1 not in sizes or world.ranks is None:
        return None
    copies = world.ranks.kv_copies or 1
    kept = f", which keep {copies} copies of each KV entry" if copies >= COPIES else ""
    why = f"and one token of a batch need not wait for the sums of {world.layout.tp} ranks{kept}"
    return _Smaller(tp=1, why=why, severity="warning" if kept else "info")


# ------------------------------------------------------------------------------------- how fast


def _gain(world: World, size: int) -> float | None:
    """How many times the tokens a second for each GPU, in the worst of the loads; None: not known
    well enough."""
    gains = []
    for load in world.loads:
        before = world.rate(world.layout, load)
        after = world.rate(replace(world.layout, tp=size), load)
        if before is None or after is None:
            return None
        gains.append(after[0] / before[1])
    return min(gains)


def _rates(world: World, size: int) -> str:
    """The two rates under the first load, for people."""
    load, (isl, osl) = world.loads[0], world.lengths
    before, after = world.rate(world.layout, load), world.rate(replace(world.layout, tp=size), load)
    assert before is not None and after is not None and load is not None
    return (
        f"and gives about {after[0]:,.0f} instead of {before[1]:,.0f} tokens a second for each GPU"
        f" ({load:g} requests of {isl:,} + {osl:,} tokens for each)"
    )


# ------------------------------------------------------------------------------------------ fix


def _repair(world: World, smaller: _Smaller) -> Repair | None:
    """The same GPUs with data-parallel ranks, else one small group: replicas are the user's."""
    layout, size = world.layout, smaller.tp
    if layout.nnodes > 1 or layout.dp_local is not None or layout.dp_rank is not None:
        return None
    if smaller.nodes == 1 and (wider := _on_the_same(world, layout, size)) is not None:
        return Repair("fields", values=(("tp", size), ("dp", wider.dp)))
    stated, used = world.plan.placement.gpus_per_pod.only, layout.tp * layout.pp
    if stated == used and layout.dp == 1 and smaller.nodes == 1:
        return Repair("fields", values=(("tp", size), ("gpus_per_pod", size * layout.pp)))
    return Repair("fields", values=(("tp", size),))


def _on_the_same(world: World, layout: Layout, size: int) -> Layout | None:
    if world.engine.flag_name("dp", releases=world.plan.versions) is None:
        return None
    wider = replace(layout, tp=size, dp=layout.dp * layout.tp // size)
    refused = refuses(world.engine, wider, world.model, options=world.options)
    return wider if refused is None and holds(world, wider, 1) else None
