"""The vLLM production stack: what its chart makes of values, and its operator of a VLLMRuntime.

The chart makes options of the keys of `vllmConfig`, with `extraArgs` behind them, and with
`tensorParallelSize` a memory volume of 20Gi on /dev/shm. Its keys are ignored outside `vllmConfig`,
and so is a `requestGPU` below 1. The operator makes a Deployment, with an option for every switch
that is off, and mounts /dev/shm only where `shmSize` is stated.

Read in vllm-project/production-stack at a6c01db (chart 0.1.12): `helm/templates/
{deployment-vllm-multi,ray-cluster,deployment-router}.yaml`, `_helpers.tpl`, `helm/values.yaml`.
Before chart 0.1.11 any `raySpec` made a RayCluster, since then only one with `enabled: true`;
before 0.1.3 there was none (`deployment-vllm-multi.yaml` at each change of the version).
The operator at the same commit: `operator/api/v1alpha1/{vllmruntime,vllmrouter}_types.go`,
`operator/internal/controller/{vllmruntime,vllmrouter}_controller.go`; in its first weeks (5b7af2b)
the sections of a VLLMRuntime but `model` were keys of `spec` itself.
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

AT_ONCE = "`servingEngineSpec.strategy` with maxSurge: 0 and maxUnavailable: 1"
"""How an update takes no more GPUs: the chart's own strategy starts all new pods first."""

RECREATE = "`deploymentStrategy: Recreate`"
"""The same of a VLLMRuntime, which knows no numbers of its own."""

ROUTING: Mapping[str, frozenset[str]] = MappingProxyType({
    "roundrobin": frozenset(),
    "session": frozenset({"session"}),
    "prefixaware": frozenset({"prefix"}),
    "kvaware": frozenset({"kv", "prefix"}),
    "disaggregated_prefill": frozenset(),
    "disaggregated_prefill_orchestrated": frozenset(),
})  # fmt: skip
"""What the choice of a replica looks at; of other words nothing is said.

Of the servers of a part, `disaggregated_prefill` takes the first that it finds, the other one each
in its turn.
"""

SPILLS = ("kvaware",)
"""Policies that go by the load where fewer tokens are held than all but a threshold."""

FIRST = "disaggregated_prefill"
PARTED = (FIRST, "disaggregated_prefill_orchestrated")
"""Policies by which each request goes to a server that computes prompts and to one that goes on."""

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


# ------------------------------------------------------------------------------ the operator

GROUP = "production-stack.vllm.ai"
RUNTIME, ROUTER = "VLLMRuntime", "VLLMRouter"

SECTIONS: Mapping[str, frozenset[str]] = MappingProxyType({
    "model": frozenset({
        "modelURL", "hfTokenSecret", "enableLoRA", "enableTool", "toolCallParser", "maxModelLen",
        "dtype", "maxNumSeqs", "chatTemplate",
    }),
    "vllmConfig": frozenset({
        "enableChunkedPrefill", "enablePrefixCaching", "tensorParallelSize",
        "gpuMemoryUtilization", "maxLoras", "extraArgs", "v1", "port", "env",
    }),
    "deploymentConfig": frozenset({
        "replicas", "nodeSelectorTerms", "toleration", "deploymentStrategy", "runtimeClass",
        "shmSize", "resources", "image", "podAnnotations", "sidecarConfig",
    }),
})  # fmt: skip
"""Sections of a VLLMRuntime's spec, and the keys of each."""

ELSEWHERE: Mapping[str, str] = MappingProxyType({
    "pipelineParallelSize": "--pipeline-parallel-size",
    "dataParallelSize": "--data-parallel-size",
})  # fmt: skip
"""Keys that a VLLMRuntime does not have, and the options that `extraArgs` can hold instead."""

RUNTIME_OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("model", "maxModelLen", "--max-model-len"),
    ("model", "dtype", "--dtype"),
    ("vllmConfig", "tensorParallelSize", "--tensor-parallel-size"),
    ("model", "maxNumSeqs", "--max-num-seqs"),
    ("vllmConfig", "gpuMemoryUtilization", "--gpu-memory-utilization"),
    ("vllmConfig", "maxLoras", "--max-loras"),
)
"""Section, key and option, in the order of the command; 0 and an empty word are left out."""

SWITCHES: Mapping[str, str] = MappingProxyType({
    "enableChunkedPrefill": "enable-chunked-prefill",
    "enablePrefixCaching": "enable-prefix-caching",
})  # fmt: skip
"""Keys of `vllmConfig` that are told to the engine either way: unless they are on, they are off."""

RUNTIME_PROBES: Mapping[str, Mapping[str, int]] = MappingProxyType({
    "startupProbe": {"initialDelaySeconds": 120, "periodSeconds": 20, "failureThreshold": 100},
    "livenessProbe": {"initialDelaySeconds": 10, "periodSeconds": 20, "failureThreshold": 10},
    "readinessProbe": {"initialDelaySeconds": 10, "periodSeconds": 20, "failureThreshold": 10},
})  # fmt: skip

CONNECTORS = {True: "LMCacheConnectorV1", False: "LMCacheConnector"}
"""The connector of LMCache, with and without `v1`."""

SHM_SINCE = "the operator reads shmSize: it does from the end of July 2026 on"
DEFAULT_RUNTIME_CLASS = "nvidia"


def selector(text: str) -> Mapping[str, str] | None:
    """The labels of a selector such as "app=a,model=b"; None where it is more than equalities."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        value = value.removeprefix("=")
        if not equals or name.strip().endswith("!") or not name.strip():
            return None
        found[name.strip()] = value.strip()
    return MappingProxyType(found)
