"""What the operator of LeaderWorkerSet makes of its object.

A replica is a group of pods: a leader and `size` - 1 workers. Without a template for the leader,
all pods are made from that of the workers. Every container gets three variables, which take the
place of its own of the same names, and every pod gets labels that tell its group and its place
there.

Sources: platforms, section 3; kubernetes-sigs/lws, `pkg/utils/pod/pod_utils.go` and
`api/leaderworkerset/v1/leaderworkerset_types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

GROUP = "leaderworkerset.x-k8s.io"
KIND = "LeaderWorkerSet"

ROLLING = "rollingUpdateConfiguration"
ROLLOUT = ("0", "1")
"""maxSurge and maxUnavailable, in groups, where the set does not state them."""

DEFAULT_SIZE = 1
"""Pods of a group where the object does not say how many."""

LEADER_ADDRESS = "LWS_LEADER_ADDRESS"
GROUP_SIZE = "LWS_GROUP_SIZE"
WORKER_INDEX = "LWS_WORKER_INDEX"
VARIABLES = (LEADER_ADDRESS, GROUP_SIZE, WORKER_INDEX)

_LABELS = "leaderworkerset.sigs.k8s.io"


def leader_address(name: str, namespace: str | None) -> str:
    """Where the leader of the first group is reached, by the usual subdomain of the set."""
    return f"{name}-0.{name}.{namespace or 'default'}"


def labels(name: str, index: int) -> Mapping[str, str]:
    """Labels of a pod that selectors look at; those that differ from group to group are left out.

    Workers have other indices, so that only the leader's is of use.
    """
    found = {f"{_LABELS}/name": name} if name else {}
    return {**found, f"{_LABELS}/worker-index": "0"} if index == 0 else found
