"""What changes the number of replicas: HorizontalPodAutoscaler, and ScaledObject of KEDA."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.plan import Scaler
from shardlint.readers.yaml_tree import Node, integer

KINDS = {
    "HorizontalPodAutoscaler": ("autoscaling", "minReplicas", "maxReplicas"),
    "ScaledObject": ("keda.sh", "minReplicaCount", "maxReplicaCount"),
}


def scalers_of(node: Node, path: str) -> Iterator[Scaler]:
    kind = node.string("kind") or ""
    group = (node.string("apiVersion") or "").rpartition("/")[0]
    if kind not in KINDS or KINDS[kind][0] != group:
        return
    _, least, most = KINDS[kind]
    spec = node.get("spec")
    name = spec.string("scaleTargetRef", "name") if spec is not None else None
    if spec is None or name is None:
        return
    default = "Deployment" if kind == "ScaledObject" else ""
    target = spec.string("scaleTargetRef", "kind") or default
    signals = list(_signals(spec, kind))
    low, high = integer(spec.get(least)), integer(spec.get(most))
    pair = node.pair("kind")
    yield Scaler(
        file=node.source.name,
        path=path,
        origin=pair[1].origin if pair is not None else node.origin,
        kind=kind,
        target=(node.string("metadata", "namespace") or "default", target, name),
        minimum=low,
        maximum=high,
        signals=tuple(signal for signal in signals if signal),
        decided=all(signals),
    )


def _signals(spec: Node, kind: str) -> Iterator[str | None]:
    """What it looks at; None for what is not told here."""
    if kind == "HorizontalPodAutoscaler":
        yield from _metrics(spec)
        return
    triggers = spec.get("triggers")
    for trigger in triggers.items if triggers is not None else ():
        yield trigger.string("type")


def _metrics(spec: Node) -> Iterator[str | None]:
    if spec.get("targetCPUUtilizationPercentage") is not None:
        yield "cpu"
    metrics = spec.get("metrics")
    if metrics is None or not metrics.items:
        if spec.get("targetCPUUtilizationPercentage") is None:
            yield "cpu"  # what an autoscaler without metrics looks at: 80 % of it
        return
    for metric in metrics.items:
        kind = metric.string("type") or ""
        key = kind[:1].lower() + kind[1:]
        named = metric.string(key, "metric", "name") or metric.string(key, "name")
        yield named
