"""The processes of one container share a /dev/shm that is too small for them.

An engine with several ranks in one container passes work to them, and NCCL copies between GPUs
without peer access, through files in /dev/shm. A container gets 64 MiB there unless the file asks
for more. vLLM makes one ring of 240 MiB for every worker (`v1/executor/multiproc_executor.py`) and,
from 0.27.0 on, refuses to start where that much is not free ("Insufficient space in /dev/shm for
shared-memory allocation: 160 MiB required, 64 MiB free"). Older releases start, and are killed with
SIGBUS once more is written than there is room for, often with the first images; NCCL stops with
"failed to extend /dev/shm/nccl-XXXX".

TGI and TensorRT-LLM are told of what NCCL asks for, unless the GPUs are known to have NVLink.

An error in a Kubernetes object whose image is a release that checks; else a warning. On a host,
with `hostIPC` or `ipc: host`, and with a volume without a limit on /dev/shm nothing is missing.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args:
    - Qwen/Qwen3-8B
    - --tensor-parallel-size=2  # shm-missing
    resources:
      limits: {nvidia.com/gpu: 2}
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args:
    - Qwen/Qwen3-8B
    - --tensor-parallel-size=2
    resources:
      limits: {nvidia.com/gpu: 2}
    volumeMounts:
    - name: dshm
      mountPath: /dev/shm
  volumes:
  - name: dshm
    emptyDir: {medium: Memory, sizeLimit: 16Gi}
```

```sh passes
docker run --gpus all --ipc=host vllm/vllm-openai:v0.20.0 Qwen/Qwen3-8B -tp 2
```

Fix: a memory volume on /dev/shm (Kubernetes), `shm_size: 16gb` (Compose), `--shm-size=16g`
(docker), or the host's own: `hostIPC: true`, `ipc: host`, `--ipc=host`. What is written there
counts as memory of the container, so stay below its limit."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import (
    Engine,
    Found,
    LayoutRule,
    Repair,
    ServingPlan,
    SharedMemory,
    World,
)

MIB, GIB = 2**20, 2**30
NO_PEERS = " unless their GPUs reach each other's memory"


class ShmMissing(LayoutRule):
    id, name = "SL205", "shm-missing"
    severity = "warning"
    needs = ("placement.shm_bytes", "placement.pods_per_group")
    wants = ("placement.link",)
    fix = "unsafe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        placement = plan.placement
        inside = placement.wants_gpu and not placement.on_host and not placement.shm_ample
        return super().applies(plan, engine) and inside and not placement.shm_bytes.is_unset

    def check(self, world: World) -> Iterator[Found]:
        assert world.ranks is not None
        need = world.engine.shared_memory(world.layout, world.ranks)
        have = world.values["placement.shm_bytes"]
        if need is None or have >= need.least:
            return
        if need.only_without_peers and world.values.get("placement.link") == "nvlink":
            return
        enough = need.enough(world.plan.placement.memory_bytes.only)
        yield Found(
            message=(
                f"{need.processes} processes share {_size(have)} of /dev/shm and ask for"
                f" {_size(need.least)} at once{NO_PEERS if need.only_without_peers else ''};"
                f" {_outcome(world, need)}"
            ),
            at=world.origin(
                "placement.shm_bytes", "layout.tp", "layout.pp", "placement.gpus_per_pod"
            ),
            severity="error" if _checked(world, need) else None,
            help=f"{_size(enough)} of shared memory" if enough else None,
            repair=Repair("fields", values=(("shm_bytes", enough),)) if enough else None,
        )


def _checked(world: World, need: SharedMemory) -> bool:
    """Every release that the plan can mean looks before it starts."""
    releases = world.plan.versions.values
    return bool(need.since and releases) and all(item.within(need.since, None) for item in releases)


def _outcome(world: World, need: SharedMemory) -> str:
    if need.consequence:
        return need.consequence
    label, releases = world.engine.label, world.plan.versions.values
    killed = "can be killed (SIGBUS) when it writes more"
    if _checked(world, need):
        return f"{label} refuses to start ('{need.refusal}')"
    if need.since and any(item.meets(need.since, None) for item in releases):
        return f"{label} refuses to start from {need.since} on, and before {killed}"
    return f"{label} starts, and {killed}"


def _size(count: int) -> str:
    return f"{count // GIB} GiB" if count % GIB == 0 and count else f"{count / MIB:.3g} MiB"
