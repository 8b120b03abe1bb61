"""What the chart of the vLLM production stack makes of an entry of `modelSpec`.

The chart makes options of the keys of `vllmConfig`, with `extraArgs` behind them, and with
`tensorParallelSize` a memory volume of 20Gi on /dev/shm. Its keys are ignored outside `vllmConfig`,
and so is a `requestGPU` below 1.

Read in vllm-project/production-stack at a6c01db (chart 0.1.12): `helm/templates/
{deployment-vllm-multi,ray-cluster,deployment-router}.yaml`, `_helpers.tpl`, `helm/values.yaml`.
Before chart 0.1.11 any `raySpec` made a RayCluster, since then only one with `enabled: true`;
before 0.1.3 there was none (`deployment-vllm-multi.yaml` at each change of the version).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

GPU = "nvidia.com/gpu"
"""The resource that is asked for unless `requestGPUType` names another."""

SHM = "20Gi"
"""The size of the volume on /dev/shm, which there is only with `tensorParallelSize`."""

OPTIONS: Mapping[str, str] = MappingProxyType({
    "enableChunkedPrefill": "--enable-chunked-prefill",
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "maxLoras": "--max-loras",
    "runner": "--runner",
    "convert": "--convert",
})  # fmt: skip
"""Keys of `vllmConfig` that become options of a Deployment's command."""

RAY_OPTIONS: Mapping[str, str] = MappingProxyType(
    {k: v for k, v in OPTIONS.items() if k not in ("runner", "convert")}
    | {"pipelineParallelSize": "--pipeline-parallel-size"}
)
"""The same of a RayCluster."""

INSIDE = frozenset({*OPTIONS, "pipelineParallelSize", "enablePrefixCaching", "extraArgs"})
"""Keys that are read inside `vllmConfig` and nowhere else."""

RELEASES = ("0.1.3", "0.1.12")
CHART = "vllm-stack"
RAY_SINCE, RAY_ALWAYS_UNTIL = "0.1.3", "0.1.11"

PROBES: Mapping[str, Mapping[str, int]] = MappingProxyType({
    "startupProbe": {"initialDelaySeconds": 15, "periodSeconds": 10, "failureThreshold": 60},
    "livenessProbe": {"initialDelaySeconds": 15, "periodSeconds": 10, "failureThreshold": 3},
    "readinessProbe": {"initialDelaySeconds": 15, "periodSeconds": 5, "failureThreshold": 3},
})  # fmt: skip
"""Probes of a Deployment's pods, as they are in the chart's own values."""

ROUTING: Mapping[str, frozenset[str]] = MappingProxyType({
    "roundrobin": frozenset(),
    "session": frozenset({"session"}),
    "prefixaware": frozenset({"prefix"}),
    "kvaware": frozenset({"kv", "prefix"}),
})  # fmt: skip
"""What the choice of a replica looks at; of other words nothing is said."""

DEFAULT_ROUTING = "roundrobin"

_DECIMAL = re.compile(r"([+-]?\d{1,18})(?:\.(\d*))?")
_ZEROS = re.compile(r"0*")


def asked_gpus(request: str, quoted: bool) -> int | None:
    """The number of GPUs that the chart compares with 0; None if that is not known.

    A number is cut to an integer; a quoted text with a fraction is no integer, and counts as 0.
    """
    match = _DECIMAL.fullmatch(request.strip())
    if match is None:
        return None
    if quoted and not _ZEROS.fullmatch(match[2] or ""):
        return 0
    return int(match[1])


def is_dropped(request: str, quoted: bool) -> bool:
    """A share of a GPU is asked for, and the chart writes no GPU at all into the pod."""
    match = _DECIMAL.fullmatch(request.strip())
    fraction = match is not None and not _ZEROS.fullmatch(match[2] or "")
    return fraction and (asked_gpus(request, quoted) or 0) == 0


def ray_gpus(head: int, worker: int, workers: int) -> int:
    """The GPUs of a RayCluster: those of its head and of its workers."""
    return head + workers * worker


def ray_nodes(workers: int) -> int:
    """`replicaCount` counts the workers of a RayCluster; the head is one node more."""
    return workers + 1
