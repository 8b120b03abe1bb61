"""How long a container may take to start before a probe of its pod ends it.

Kubernetes' own defaults: a probe that is there fails after three misses, ten seconds apart, from
the start on. While a startup probe has not succeeded, the liveness probe does not run.
"""

from __future__ import annotations

from shardlint.known import Known, combine
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record

DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "failureThreshold": 3}


@record
class Startup:
    """Seconds until the probe of that name ends the container; None: none does."""

    seconds: Known[int] = Known.unset()
    probe: str | None = None


def startup_budget(container: Node) -> Startup:
    for name in ("startupProbe", "livenessProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        numbers = (
            integer(probe.get(key)).or_default(Known.of(default, how="defaulted"))
            for key, default in DEFAULTS.items()
        )
        seconds = combine(lambda delay, period, misses: delay + period * misses, *numbers)
        key = container.pair(name)
        origin = key[0].origin if key is not None else probe.origin
        return Startup(seconds.at(origin), name)
    return Startup()


def ready_probe(container: Node) -> str | None:
    """The probe that must succeed first of those without which a pod is ready once it runs."""
    return next((name for name in ("startupProbe", "readinessProbe") if container.get(name)), None)
