"""Boards on which copies from GPU to GPU are known to hang, with nothing set against it.

NCCL and the engine's own all-reduce copy straight from one GPU to another where the driver says
that they can. On PCIe boards of workstations the IOMMU or PCIe access control (ACS) can redirect
such copies, and then the server hangs after "NCCL init" or at the first all-reduce, without an
error. vLLM believes the driver (`VLLM_SKIP_P2P_CHECK` is 1 by default), and its own kernel is used
with two PCIe boards even when NCCL is told not to (`custom_all_reduce.py`). Reported for boards of
which such hangs were published (RTX 4090 and 5090, RTX A6000 and 6000 Ada, RTX PRO 6000), when the
card is known and none of the usual variables or options is there. With `NCCL_P2P_DISABLE=1` alone
and two boards, an info remains.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-GeForce-RTX-4090}
  hostIPC: true
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen3-14B", "--tensor-parallel-size=2"]  # p2p-risk
    resources: {limits: {nvidia.com/gpu: 2}}
```

```sh fails --gpu RTX-4090:2
NCCL_P2P_DISABLE=1 vllm serve Qwen/Qwen3-14B --tensor-parallel-size 2  # p2p-risk
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-GeForce-RTX-4090}
  hostIPC: true
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen3-14B", "--tensor-parallel-size=2", "--disable-custom-all-reduce"]
    env:
    - {name: NCCL_P2P_DISABLE, value: "1"}
    resources: {limits: {nvidia.com/gpu: 2}}
```

Fix: IOMMU and ACS off in the machine's firmware, which keeps the speed; else `NCCL_P2P_DISABLE=1`
together with `--disable-custom-all-reduce`. On a machine where it is known to work, suppress the
finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Device, Engine, Found, LayoutRule, Repair, ServingPlan, World

from shardlint_rules.tp_cross_node import spanned

PAIR = 2
LEVEL, OFF = "env.NCCL_P2P_LEVEL", "env.NCCL_P2P_DISABLE"


class P2pRisk(LayoutRule):
    id, name = "SL206", "p2p-risk"
    severity = "warning"
    fix = "unsafe"
    needs = ("placement.gpu", OFF, LEVEL)

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        cards = plan.placement.gpu.values
        known = bool(cards) and all(card.peer_report for card in cards)
        placement = plan.placement
        here = known and placement.link.only != "nvlink" and not placement.varied
        return super().applies(plan, engine) and here

    def check(self, world: World) -> Iterator[Found]:
        tp, device = world.layout.tp, world.values["placement.gpu"]
        assert isinstance(device, Device)
        option = world.engine.peer_option(world.plan)
        set_off = world.values[OFF] not in (None, "0")
        known = set_off or world.values[LEVEL] is not None
        if tp < PAIR or option is None or spanned(world) > 1 or (known and tp > PAIR):
            return
        if known and not set_off:
            return
        yield Found(
            message=_message(tp, device, option if set_off else None),
            at=world.origin(OFF, "layout.tp") if set_off else world.origin("layout.tp"),
            severity="info" if set_off else None,
            help=f"IOMMU and ACS off, or NCCL_P2P_DISABLE=1 with {option}",
            repair=Repair("add", value=option) if set_off else None,
        )


def _message(tp: int, device: Device, option: str | None) -> str:
    if option is not None:
        return (
            f"NCCL_P2P_DISABLE leaves the engine's own kernel on the direct copies between 2"
            f" {device.name}: {option} is not given"
        )
    return (
        f"TP {tp} copies directly between {device.name} boards, which is known to hang behind an"
        f" IOMMU or ACS ({device.peer_report})"
    )
