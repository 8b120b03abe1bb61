"""What Grove makes of a PodCliqueSet.

A set is copied `replicas` times, none by default. Each copy has the pods of its cliques, and of a
scaling group as many copies of the group's cliques as the group says. Variables tell a container
its place: the name of the set, the number of the group's copy, the number of the pod in its clique.

Sources: platforms, section 5; ai-dynamo/grove, `operator/api/core/v1alpha1/podcliqueset.go`,
`podclique.go`, and `operator/api/common/constants`.
"""

from __future__ import annotations

GROUP = "grove.io"
KIND = "PodCliqueSet"
OLDER_KIND = "PodGangSet"

DEFAULT_SETS = 0
DEFAULT_COPIES = 1

SET_NAME = "GROVE_PCS_NAME"
PLACES = ("GROVE_PCSG_INDEX", "GROVE_PCLQ_POD_INDEX", "GROVE_HEADLESS_SERVICE")
"""Variables whose values differ from pod to pod, or that a name of the operator's own makes up."""


def copies(sets: int, groups: int, pods: int) -> int:
    """Pods of one clique in all copies of the set."""
    return sets * groups * pods
