"""AIBrix: what its controllers add to pods, and how they count them.

A StormService has all of a role's replicas in each of its copies, and the pods of a PodSet are one
group. Their containers get variables that tell their place; what a container sets under the same
names is dropped.

Read in vllm-project/aibrix (e3e10f9: api/orchestration/v1alpha1/*_types.go,
pkg/controller/stormservice/utils, pkg/controller/podset/podset_controller.go).
"""

from __future__ import annotations

GROUP_SIZE = "POD_GROUP_SIZE"

OF_GROUPS = ("PODSET_NAME", "POD_GROUP_INDEX", GROUP_SIZE)
"""Variables of the pods of a PodSet."""

OF_ROLES = ("STORM_SERVICE_NAME", "ROLESET_NAME", "ROLE_NAME", "ROLE_REPLICA_INDEX")
"""Variables of the pods of a StormService."""


def variables(roles: bool, groups: bool) -> tuple[str, ...]:
    """Names that the controllers set; what a container sets under them is dropped."""
    return (*(OF_ROLES if roles else ()), *(OF_GROUPS if groups else ()))


def replicas(services: int, roles: int) -> int:
    """Engines of one role: each copy of the service has all of the role's."""
    return services * roles
