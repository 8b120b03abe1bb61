"""Tensor parallelism inside a node runs over PCIe.

Tensor parallelism adds up the parts of every layer twice for every token. Boards without NVLink do
that over PCIe, at a fraction of the speed, and with every further rank the parts get smaller and
the sums do not. A bridge joins two or four boards; a larger group crosses PCIe again. vLLM turns
its own all-reduce off for more than two such boards (`custom_all_reduce.py`: "Custom allreduce is
disabled because it's not supported on more than two PCIe-only GPUs") and leaves it to NCCL.

Reported where the link is known: told (`--gpu L40S:8`, `--gpu A100:8,link=pcie`) or named by a node
label. An info above two ranks, a warning from eight on.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
  hostIPC: true
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen3-32B", "--tensor-parallel-size=4"]  # tp-slow-link
    resources: {limits: {nvidia.com/gpu: 4}}
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
  hostIPC: true
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen3-32B", "--tensor-parallel-size=4"]
    resources: {limits: {nvidia.com/gpu: 4}}
```

Fix: where the model fits, smaller groups and more of them (data parallelism or replicas), or
pipeline stages, which hand on one activation per step: of Llama 3.1 70B on eight L4, stages of two
ranks gave more requests a second than stages of four. Stages are no help to fewer requests than
there are stages, nor to a goal for the time of a token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.api import Engine, Found, Layout, LayoutRule, Repair, ServingPlan, World, fits

from shardlint_rules.tp_cross_node import sent, sent_bytes, spanned

FEW, MANY = 2, 8
SLOW = ("pcie", "none", "nvlink-bridge", "nvlink-c2c")
"""Links that join only some boards of a node, or none."""


class TpSlowLink(LayoutRule):
    id, name = "SL202", "tp-slow-link"
    severity = "info"
    fix = "unsafe"
    needs = ("placement.link", "placement.link_domain")
    wants = ("demand",)

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        placement = plan.placement
        known = placement.link.only in SLOW and placement.link_domain.is_known
        return super().applies(plan, engine) and placement.wants_gpu and known

    def check(self, world: World) -> Iterator[Found]:
        tp, domain = world.layout.tp, world.values["placement.link_domain"]
        if tp <= max(FEW, domain) or spanned(world) > 1:
            return
        joined = f" joins {domain} boards" if domain > 1 else ""
        link = f"their bridge{joined}" if joined else "they have no NVLink"
        yield Found(
            message=f"TP {tp} sums every layer over PCIe: {link}{_least(world)}",
            at=world.origin("layout.tp"),
            severity="warning" if tp >= MANY else None,
            help="where the model fits, smaller groups and more replicas; else pipeline stages",
            repair=_smaller(world, max(FEW, domain)),
        )


def _smaller(world: World, most: int) -> Repair | None:
    """The same GPUs in groups that are no wider than what is fast: copies, else stages."""
    layout = world.whole
    if layout is None or not layout.one_group:
        return None
    sizes = [tp for tp in range(most, 0, -1) if layout.tp % tp == 0]
    ways = [
        Repair("fields", values=(("tp", tp), ("dp", layout.dp * layout.tp // tp)), fits=True)
        for tp in sizes
    ]
    stages = layout.pp * layout.tp // sizes[0]
    copies = replace(layout, tp=sizes[0], dp=layout.dp * layout.tp // sizes[0])
    if not fits(world.sized(copies)) and _stages_pay(world, layout, stages):
        values = (("tp", sizes[0]), ("pp", stages))
        ways.append(Repair("fields", values=values, fits=True))
    return replace(ways[0], also=tuple(ways[1:]))


def _stages_pay(world: World, layout: Layout, stages: int) -> bool:
    """Nothing that is stated speaks for fewer stages, and the layers can be shared out evenly."""
    told, model = world.workload, world.plan.model_facts.only
    if "tpot_ms" in told or model is None or not model.num_layers or model.num_layers % stages:
        return False
    copies = (world.plan.fleet.replicas.only or 1) * layout.dp
    asked = told.get("concurrency")
    return asked is None or asked >= stages * copies


def _least(world: World) -> str:
    """What is sent for one token, and the milliseconds that this takes at the link's full rate."""
    device, bytes = world.plan.placement.gpu.only, sent_bytes(world)
    if bytes is None:
        return ""
    rate = device.link_gbps if device is not None and device.link == "pcie" else None
    if not rate or world.plan.placement.link.only != "pcie":
        return sent(world)
    return f"{sent(world)}, at least {bytes / rate / 1e6:.2f} ms at its {rate:g} GB/s"
