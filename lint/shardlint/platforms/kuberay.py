"""KubeRay and Ray Serve LLM: what they make of a cluster and of an application.

A container without a command gets `ray start`, and a memory volume on /dev/shm as large as its
memory where it mounts none. Ray Serve LLM makes options of `engine_kwargs` and leaves it to Ray
where the ranks run; devices that KubeRay does not hand to Ray are ignored.

Read in ray-project/kuberay (feeaf72, ray-operator: controllers/ray/common/pod.go,
controllers/ray/utils/{resources,validation}.go, apis/ray/v1) and in ray-project/ray
(python/ray/llm/_internal/serve: core/configs, core/server, serving_patterns; of several commits).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Literal, TypeAlias

Place: TypeAlias = Literal["resources", "rayStartParams", "limits"]

OFFERED = re.compile(r".*gpu$|nvidia\.com/mig-\d+g\.\d+gb$", re.IGNORECASE)
"""Resources of a container that become GPUs of the Ray node."""

PASSED_OVER = re.compile(
    r"habana\.ai/.+|huawei\.com/ascend.*|gpu\.intel\.com/(i915|xe)|nvidia\.com/gpu\.shared"
)
"""Devices that KubeRay does not hand to Ray: Ray then sees no GPU."""

START_GPUS = "num-gpus"

NEW_CLUSTER = "NewCluster"
"""How a RayService is updated by default: a second cluster, then the first one is deleted."""

BUILDERS = re.compile(r"ray\.serve\.llm\b.*")
"""Import paths of applications that Ray Serve LLM builds."""

NAMED_APART = ("model", "served_model_name")
"""Keys that are refused in `engine_kwargs`: `model_loading_config` names the model."""

EXECUTOR = "distributed_executor_backend"

FRACTION = "VLLM_RAY_PER_WORKER_GPUS"
"""The variable by which a rank takes a part of a GPU."""

ONE_NODE = "STRICT_PACK"
"""The strategy that keeps a replica on one node; the default, PACK, takes more if it must."""


APART = ("SPREAD", "STRICT_SPREAD")
"""Strategies that put the bundles of a replica on different nodes, if they can or at any rate."""

RANKS_APART = re.compile(r"ray\.serve\.llm(\.\w+)*:build_dp\w*")
"""Builders that start each data parallel rank as a replica; all of one group together, or none."""

RENAMED = ("num_router_replicas", "num_ingress_replicas")
"""A key of `experimental_configs` that is refused under its old name."""


def strategy_key(keys: Iterable[str]) -> str | None:
    """The key of the strategy in `placement_group_config`."""
    return next((key for key in keys if key in ("strategy", "placement_strategy")), None)


OWN_VARIABLES = MappingProxyType(
    {
        "TENSOR_PARALLELISM": "--tensor-parallel-size",
        "TENSOR_PARALLEL_SIZE": "--tensor-parallel-size",
        "PIPELINE_PARALLELISM": "--pipeline-parallel-size",
        "PIPELINE_PARALLEL_SIZE": "--pipeline-parallel-size",
        "MAX_MODEL_LEN": "--max-model-len",
        "GPU_MEMORY_UTILIZATION": "--gpu-memory-utilization",
        "MAX_NUM_SEQS": "--max-num-seqs",
        "MAX_NUM_SEQ": "--max-num-seqs",
        "MAX_NUM_BATCHED_TOKENS": "--max-num-batched-tokens",
        "QUANTIZATION": "--quantization",
        "KV_CACHE_DTYPE": "--kv-cache-dtype",
        "DTYPE": "--dtype",
    }
)
"""Variables by which applications of somebody's own are mostly told what to ask of the engine."""


MODEL_VARIABLES = ("MODEL_ID", "HF_MODEL_ID", "LLM_MODEL_ID", "MODEL_NAME")
"""Variables that name the model, the plainest first."""


def gpus_from(resources: Iterable[str], start: Iterable[str]) -> Place:
    """Where the number of GPUs of a Ray node is taken from, given the names in each place."""
    if any(OFFERED.fullmatch(name) for name in resources):
        return "resources"
    return "rayStartParams" if START_GPUS in start else "limits"


RESOURCE_PARAMETERS = ("num-cpus", START_GPUS, "memory", "resources")


def told_twice(resources: Iterable[str], start: Iterable[str]) -> str | None:
    """The parameter that is refused because the group states its resources itself."""
    names = [name for name in RESOURCE_PARAMETERS if name in set(start)]
    return names[0] if names and any(resources) else None


def shm_bytes(limit: int | None, request: int | None) -> int | None:
    """The memory volume that KubeRay mounts on /dev/shm where nothing is mounted there."""
    return request if limit is None else limit


def card(accelerator: str) -> str:
    """The card of an accelerator type: Ray leaves the B out of sizes, and means A10G by A10."""
    if accelerator == "A10":
        return "A10G"
    return re.sub(r"-(\d+)G$", r"-\1GB", accelerator)


def policy(router_class: str | None) -> tuple[str, frozenset[str] | None]:
    """The policy by which Serve chooses a replica, and what it looks at.

    Without a class it is the shorter queue of two; of a class of somebody's own that is not known.
    Prefix affinity gives way to load where `imbalanced_threshold` is finite, which it is by itself
    in older releases only.
    """
    name = (router_class or "PowerOfTwoChoices").rpartition(".")[2].rpartition(":")[2]
    for known, looks in AWARENESS.items():
        if known in name:
            return known, frozenset(looks)
    return name, None


AFFINITY = "ray.serve.llm.request_router.PrefixCacheAffinityRouter"

UNBOUNDED_SINCE = "2.54"
UNBOUNDED_NOTE = f"Ray is of release {UNBOUNDED_SINCE} or newer, in which nothing bounds affinity"
BOUND = "10"
"""`imbalanced_threshold` as it was by default before 2.54 (ray 2.51.0, 2.53.0 and 2.54.0, PyPI:
`ray/llm/_internal/serve/routing_policies/prefix_aware/prefix_aware_router.py`)."""

AWARENESS = MappingProxyType(
    {
        "PrefixCacheAffinityRouter": ("prefix",),
        "KVAwareRouter": ("prefix", "kv", "load"),
        "ConsistentHashRouter": ("session",),
        "PowerOfTwoChoices": ("load",),
        "RoundRobinRouter": (),
    }
)
