"""What Knative Serving makes of a Service: pods of one revision, as many as its annotations allow.

Every pod is a whole engine, and nothing is added to its command.

Sources: manifests, section 0 (table of kinds); knative/serving, `pkg/apis/autoscaling/register.go`.
"""

from __future__ import annotations

GROUP = "serving.knative.dev"
KIND = "Service"

LEAST = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
MOST = ("autoscaling.knative.dev/max-scale", "autoscaling.knative.dev/maxScale")
"""Annotations of the pods by their present and their older name."""
