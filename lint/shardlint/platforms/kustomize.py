"""What kustomize does with an object: lists that it merges, fields of labels, names of images.

Bases, components and patches are laid over each other, then images, replicas, names, namespaces and
labels are set; nothing else is added.

The order of the steps, the keys of lists and the fields of each step are those of
kubernetes-sigs/kustomize: api/internal/target/kusttarget.go and kusttarget_configplugin.go,
kyaml/yaml/walk/associative_sequence.go, api/internal/konfig/builtinpluginconsts,
api/filters/imagetag. A kustomization is looked for under three file names, and says what becomes
of the objects that it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
GROUP = "kustomize.config.k8s.io"

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod")
GROUPS = ("apps", "batch", "")

MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "schedulingGates": ("name",),
}
"""Lists of built-in kinds whose items are merged, by the key that tells them apart (the first that
an item has). All other lists, and all lists of other kinds, are replaced as a whole."""

REPLICATED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
"""Kinds of which `replicas` sets the count."""

UNPREFIXED = ("CustomResourceDefinition", "APIService", "Namespace")
"""Kinds whose names get no prefix and no suffix."""

CLUSTER_WIDE = (
    "Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "StorageClass",
    "PersistentVolume", "PriorityClass", "IngressClass", "RuntimeClass", "APIService",
    "ClusterServingRuntime", "ClusterStorageContainer", "ClusterBaseModel",
)  # fmt: skip
"""Kinds that are in no namespace."""

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("spec", "template", "metadata"),
    "StatefulSet": ("spec", "template", "metadata"),
    "DaemonSet": ("spec", "template", "metadata"),
    "ReplicaSet": ("spec", "template", "metadata"),
    "ReplicationController": ("spec", "template", "metadata"),
    "Job": ("spec", "template", "metadata"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "metadata"),
}
"""Where the metadata of the pods of an object is."""

SELECTORS: Mapping[str, tuple[str, ...]] = {
    "Service": ("spec", "selector"),
    "ReplicationController": ("spec", "selector"),
    "Deployment": ("spec", "selector", "matchLabels"),
    "ReplicaSet": ("spec", "selector", "matchLabels"),
    "DaemonSet": ("spec", "selector", "matchLabels"),
    "StatefulSet": ("spec", "selector", "matchLabels"),
}
"""Where the labels are by which an object selects pods; they are made where they are missing."""

REFERENCES: Mapping[str, str] = {
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "configMap": "ConfigMap",
}
"""Maps whose `name` is that of another object of a kind."""

NAMED_IN: Mapping[str, str] = {
    "serviceAccountName": "ServiceAccount",
    "resourceClaimTemplateName": "ResourceClaimTemplate",
    "claimName": "PersistentVolumeClaim",
    "serviceName": "Service",
}
"""Keys whose value is the name of another object of a kind."""

RUN_BY_OTHERS = ("transformers", "generators", "helmCharts", "helmChartInflationGenerator")
"""Steps of programs and charts beside: what they do to the objects cannot be told."""


def merges_lists(group: str, kind: str) -> bool:
    """Kustomize knows the schema of the kind, and so the keys of its lists."""
    return group in GROUPS and (kind in WORKLOADS or kind in TEMPLATES or kind == "Service")


def selected(pattern: str, value: str) -> bool:
    """Selectors are regular expressions for the whole word; an empty one selects everything."""
    if not pattern or pattern == value:
        return True
    if len(pattern) > 200 or re.search(r"[*+}][)]*[*+{]", pattern):
        return False  # such a pattern can take forever
    try:
        return re.fullmatch(pattern, value) is not None
    except (re.error, OverflowError, RecursionError):
        return False


_IMAGE = re.compile(r"(?P<name>[^@]*?)(?P<tag>:[\w.{}-]*)?(?P<digest>@.*)?")


def image_name(image: str) -> str:
    """The name of an image without its tag and digest."""
    match = _IMAGE.fullmatch(image)
    return match["name"] if match else image


def renamed(image: str, new_name: str | None, tag: str | None, digest: str | None) -> str:
    """The image with another name, and with a tag or a digest in place of its own."""
    match = _IMAGE.fullmatch(image)
    if match is None:
        return image
    end = f"{match['tag'] or ''}{match['digest'] or ''}"
    if tag and digest:
        end = f":{tag}@{digest}"
    elif tag:
        end = f":{tag}"
    elif digest:
        end = f"@{digest}"
    return f"{new_name or match['name']}{end}"
