"""What the operator of NVIDIA NIM makes of a NIMService.

A service runs one container. With `multiNode` a replica is a group of `parallelism.pipeline` pods
with `parallelism.tensor` GPUs each, so that tensor parallelism never leaves a pod; the engine is
told both by variables. A service that asks for no GPU gets as many as the tensor parallelism of the
profile that its cache holds, or one. /dev/shm is a memory volume, without a limit of its own unless
the storage has one. A service with `replicas` or `multiNode` beside `scale.enabled` is refused.

Sources: platforms, section 12; manifests, section 9; NVIDIA/k8s-nim-operator,
`api/apps/v1alpha1/nimservice_types.go`, `api/apps/v1alpha1/dra_types.go` and
`internal/controller/platform/standalone/nimservice.go`.
"""

from __future__ import annotations

GROUP = "apps.nvidia.com"
SERVICE = "NIMService"
PIPELINE = "NIMPipeline"
CACHE = "NIMCache"

DEFAULT_DEVICES = 1
"""GPUs of a service that asks for none, and whose cache names no tensor parallelism."""

ONE_PROFILE = "the profile that the cache names is the one that runs"
AS_READ = "the operator does what it did at commit f63f74d"


def nodes(pipeline: int) -> int:
    """Pods of one replica."""
    return pipeline
