"""What surrounds a container of a pod: shared memory, network, devices of its own kind, placing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Any

from shardlint.known import Known
from shardlint.plan import Refusal, Site
from shardlint.readers.edits import SizeSite, TextSite, Tree, add_entry, add_item
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Edit

RUNTIMES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
"""Runtime classes that hand out GPUs and leave the rest to the usual runtime."""

SHM = "/dev/shm"
DEFAULT_SHM = 64 * 2**20
"""What a container runtime mounts on /dev/shm when nobody asks for more."""

UNITS = ("Gi", "Mi", "Ki", "")

RDMA_RESOURCE = re.compile(
    r"rdma/.+|vpc\.amazonaws\.com/efa|.*(?:rdma|roce|infiniband|mlnx|mlx5).*|[\w.]+/.*(?:sriov|nic).*",
    re.IGNORECASE,
)
RDMA_NOTES = re.compile(r"rdma\.ome\.io/.*|devices\.gke\.io/container\.tcpxo?-daemon")
NETWORKS = ("k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces")
"""Annotations that give a pod further network interfaces, mostly those of an RDMA fabric."""

SHARES = re.compile(
    r"nvidia\.com/gpu\..+|nvidia\.com/gpu(mem|cores)\b.*|volcano\.sh/(v?gpu)-.*|"
    r"gpu\.intel\.com/(millicores|memory\.max|tiles)|"
    r".*/(v?gpu-?mem\w*|gpumem|vgpu\w*|[\w.-]+-vgpu|sgpu|vmlu)$",
    re.IGNORECASE,
)
"""Resources of which one unit is a share of a card, or that turn the cards beside into shares."""

SHARE_NOTES = ("gpu-fraction", "gpu-memory")
SHARE_COUNT = "gpu-fraction-num-devices"
PACKING_NOTES = re.compile(
    r"leaderworkerset\.sigs\.k8s\.io/(subgroup-)?exclusive-topology|"
    r"kueue\.x-k8s\.io/podset-(required|preferred|slice-required)-topology|"
    r"kai\.scheduler/(topology.*)|scheduling\.k8s\.io/group-name"
)
PACKING_LABELS = re.compile(
    r"cloud\.google\.com/(gke-placement-group|gce-topology-.*|gke-nodepool)|placement-policy-name|"
    r"topology\.kubernetes\.io/.*|.*(rack|block|nvlink|clique|superpod|leaf|spine|hostname).*"
)
"""Labels of nodes that stand near each other."""


# ------------------------------------------------------------------------------- quantities

_QUANTITY = re.compile(
    r"(\d{0,18})(?:\.(\d{0,18}))?(?:[eE]([+-]?\d{1,2})|(Ki|Mi|Gi|Ti|Pi|Ei|[mkMGTPE]))?"
)
_FACTORS: Mapping[str, int] = {
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip


def amount(node: Node) -> Known[Fraction]:
    """A Kubernetes quantity: 16Gi, 1.5G, 1e9, 500m."""
    text = node.text()
    match = _QUANTITY.fullmatch((text.value or "").strip())
    digits = (match[1] + (match[2] or "")) if match else ""
    if match is None or not digits:
        reason = placeholder(node.value) or f"{node.value!r} is no quantity"
        return Known.unknown(reason, text.place)
    exponent = int(match[3] or 0) - (3 if match[4] == "m" else 0) - len(match[2] or "")
    value = int(digits) * _FACTORS.get(match[4] or "", 1)
    scale = 10 ** abs(exponent)
    return Known.of(Fraction(value * scale if exponent > 0 else Fraction(value, scale)), text.place)


def quantity(node: Node) -> Known[int]:
    """A Kubernetes quantity, rounded up to a whole number."""
    return amount(node).map(ceil)


# ------------------------------------------------------------------------------- surroundings


@record(kw_only=True)
class Pod:
    """A pod spec with the annotations and labels of the pod; None where it is not in the file."""

    spec: Node | None
    notes: Mapping[str, Node] = field(default_factory=lambda: MappingProxyType({}))
    whole: bool = True
    """It is the spec of an object, not a fragment that may leave something out."""

    def flag(self, name: str) -> Known[bool]:
        if self.spec is None:
            return Known.unknown("the pod is not in this file")
        node = self.spec.get(name)
        if node is None:
            return Known.of(False, how="defaulted")
        value = {"true": True, "false": False}.get(node.value.lower())
        if value is None:
            return Known.unknown(placeholder(node.value) or "no truth value", node.origin)
        return Known.of(value, node.origin)

    def volume(self, name: str) -> Node | None:
        return next((row for row in self.volumes() if row.string("name") == name), None)

    def volumes(self) -> Iterator[Node]:
        found = self.spec.get("volumes") if self.spec is not None else None
        yield from found.items if found is not None else ()


def surroundings(pod: Pod, container: Node) -> tuple[dict[str, Any], dict[str, Site]]:
    """Fields of `Placement`, and the sites of those that can be written."""
    shm, ample, sites = _shm(pod, container)
    limit = container.get("resources", "limits", "memory")
    fields = {
        "shm_bytes": shm,
        "shm_ample": ample,
        "memory_bytes": quantity(limit) if limit is not None else Known.unset(),
        "host_ipc": pod.flag("hostIPC"),
        "host_network": pod.flag("hostNetwork"),
        "rdma": _rdma(pod, container),
        "interfaces": _interfaces(pod),
        "packed": _packed(pod),
        "device_kind": _device_kind(pod, container),
        "env_open": "envFrom adds more" if container.get("envFrom") is not None else None,
    }
    return fields, sites


# ------------------------------------------------------------------------------ shared memory


def _shm(pod: Pod, container: Node) -> tuple[Known[int], bool, dict[str, Site]]:
    """The size of /dev/shm, whether it is as good as unlimited, and the site of its size."""
    if pod.flag("hostIPC").only is True:
        return Known.unknown("/dev/shm is the host's"), True, {}
    mount = _mount(container)
    if mount is None:
        return _without_mount(pod, container)
    name = mount.string("name") or ""
    volume = pod.volume(name)
    if volume is None or placeholder(name):
        return Known.unknown(f"volume {name} is not in this file", mount.origin), False, {}
    memory = volume.get("emptyDir")
    if memory is None or memory.string("medium") != "Memory":
        return Known.unknown(f"volume {name} is no memory volume", volume.origin), True, {}
    size = memory.get("sizeLimit")
    if size is None:
        why = f"volume {name} has no sizeLimit: the memory of the pod is the limit"
        return Known.unknown(why, volume.origin), True, {}
    site = SizeSite(TextSite((size.text(),)), UNITS)
    return quantity(size), False, {"shm_bytes": site}


def _mount(container: Node) -> Node | None:
    mounts = container.get("volumeMounts")
    for row in mounts.items if mounts is not None else ():
        if (row.string("mountPath") or "").rstrip("/") == SHM:
            return row
    return None


def mounts_shm(container: Node) -> bool:
    """Whether the container mounts something on /dev/shm itself."""
    return _mount(container) is not None


def _without_mount(pod: Pod, container: Node) -> tuple[Known[int], bool, dict[str, Site]]:
    mounts = container.get("volumeMounts")
    if pod.spec is None:
        return Known.unknown("the pod is not in this file"), False, {}
    if container.get("image") is None:
        return Known.unknown("the container has no image here: it is a part of one"), False, {}
    if mounts is not None and (mounts.kind != "list" or any(not row.pairs for row in mounts.items)):
        return Known.unknown("the mounts are filled in elsewhere", mounts.origin), False, {}
    for name, note in pod.notes.items():
        if "shmsize" in name.lower().replace("-", ""):
            return (
                Known.unknown(f"{name} tells the runtime how large it is", note.origin),
                False,
                {},
            )
    size = Known.of(DEFAULT_SHM, how="defaulted")
    runtime = pod.spec.string("runtimeClassName")
    if runtime is not None and runtime not in RUNTIMES:
        size = size.assuming(f"runtime class {runtime} mounts 64 MiB on /dev/shm")
    if not pod.whole:
        size = size.assuming("nothing else of the pod mounts /dev/shm")
    if container.alias or pod.spec.alias:
        return size, False, {}  # it is put together of several, or stands elsewhere too
    return size, False, {"shm_bytes": SizeSite(ShmSite(pod, container), UNITS)}


@record
class ShmSite:
    """A memory volume that is not there, and its mount in the container."""

    pod: Pod
    container: Node

    def set(self, value: str) -> list[Edit] | Refusal:
        spec = self.pod.spec
        if spec is None:
            return Refusal("the pod is not in this file")
        name = self._name()
        volume: Tree = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": value}}
        mount: Tree = {"name": name, "mountPath": SHM}
        edits: list[Edit] = []
        for node, key, item in ((self.container, "volumeMounts", mount), (spec, "volumes", volume)):
            made = _added(node, key, item, spec)
            if isinstance(made, Refusal):
                return made
            edits += made
        return _joined(edits)

    def _name(self) -> str:
        taken = {row.string("name") for row in self.pod.volumes()}
        names = ("dshm", *(f"dshm-{number}" for number in range(2, len(taken) + 3)))
        return next(name for name in names if name not in taken)


def _joined(edits: list[Edit]) -> list[Edit]:
    """Insertions at one place as one edit, so that nobody has to know their order."""
    first, *rest = edits
    if rest and (rest[0].file, rest[0].span) == (first.file, first.span):
        return [Edit(first.file, first.span, first.text + rest[0].text), *rest[1:]]
    return edits


def _added(node: Node, key: str, item: Tree, like: Node) -> list[Edit] | Refusal:
    """One more item of a list that may not be there yet."""
    found = node.pair(key)
    if found is None:
        if any(own.value == key for own, _ in node.pairs):
            return Refusal(f"{key} is written without a value")
        return add_entry(node, key, [item], like)
    if not any(value is found[1] for _, value in node.pairs):
        return Refusal(f"{key} is merged from elsewhere")
    return add_item(found[1], item)


# ------------------------------------------------------------------------------------ network


def _resources(container: Node) -> Iterator[tuple[Node, Node]]:
    for part in ("limits", "requests"):
        found = container.get("resources", part)
        yield from found.entries() if found is not None else ()


def _rdma(pod: Pod, container: Node) -> Known[str | None]:
    """What hands the container an RDMA device; a quantity of 0 asks for none."""
    for key, value in _resources(container):
        if RDMA_RESOURCE.fullmatch(key.value.strip()) and value.value.strip() != "0":
            return Known.of(key.value.strip(), key.origin)
    if pod.spec is None or not pod.whole:
        return Known.unknown("the pod is not in this file")
    for name, node in pod.notes.items():
        if RDMA_NOTES.fullmatch(name) or name in NETWORKS:
            return Known.of(f"annotation {name}", node.origin, how="derived")
    privileged = container.get("securityContext", "privileged")
    if privileged is not None and privileged.value.lower() == "true":
        return Known.of("a privileged container", privileged.origin, how="derived")
    for volume in pod.volumes():
        if (volume.string("hostPath", "path") or "").startswith("/dev/infiniband"):
            return Known.of("hostPath /dev/infiniband", volume.origin)
    if (claims := container.get("resources", "claims")) is not None:
        return Known.unknown("a resource claim may bring a device", claims.origin)
    return Known.of(None, how="defaulted")


def _interfaces(pod: Pod) -> Known[str | None]:
    """What gives the pod more network interfaces than one."""
    if pod.flag("hostNetwork").only is True:
        assert pod.spec is not None
        key, _ = pod.spec.pair("hostNetwork") or (pod.spec, None)
        return Known.of("hostNetwork", key.origin)
    for name in NETWORKS:
        if (node := pod.notes.get(name)) is not None:
            return Known.of(f"annotation {name}", node.origin)
    if pod.spec is None or not pod.whole:
        return Known.unknown("the pod is not in this file")
    return Known.of(None, how="defaulted")


# ------------------------------------------------------------------------------------ placing


def _packed(pod: Pod) -> Known[str | None]:
    """What keeps the pods of a group near each other."""
    spec = pod.spec
    if spec is None or not pod.whole:
        return Known.unknown("the pod is not in this file")
    if (affinity := spec.get("affinity", "podAffinity")) is not None:
        return Known.of("podAffinity", affinity.origin)
    for name, node in pod.notes.items():
        if PACKING_NOTES.fullmatch(name):
            return Known.of(f"annotation {name}", node.origin)
    selector = spec.get("nodeSelector")
    for key, _ in selector.entries() if selector is not None else ():
        if PACKING_LABELS.fullmatch(key.value):
            return Known.of(f"node label {key.value}", key.origin)
    if (wanted := spec.get("affinity", "nodeAffinity")) is not None:
        return Known.unknown("a node affinity may keep them together", wanted.origin)
    scheduler = spec.get("schedulerName")
    if scheduler is not None and scheduler.value != "default-scheduler":
        return Known.unknown(f"{scheduler.value} may keep them together", scheduler.origin)
    return Known.of(None, how="defaulted")


# ------------------------------------------------------------------------------------ devices


def _device_kind(pod: Pod, container: Node) -> Known[str]:
    """What one unit of the devices is: a card, a slice in hardware, a share."""
    found: Known[str] = Known.unset()
    for key, value in _resources(container):
        name = key.value.strip()
        if SHARES.fullmatch(name):
            return Known.of("shared", key.origin)
        if found.is_unset and re.fullmatch(r"nvidia\.com/mig-.+", name):
            found = Known.of("mig", key.origin)
        elif found.is_unset and re.fullmatch(r"aws\.amazon\.com/neuron(?!core).*", name):
            found = Known.of("neuron", key.origin)
        elif found.is_unset and re.fullmatch(r"[\w.]+/gpu", name) and value.value != "0":
            found = Known.of("gpu", key.origin)
    for note in SHARE_NOTES:
        if (node := pod.notes.get(note)) is not None:
            return Known.of("shared", node.origin)
    return found


def texts(node: Node | None) -> Mapping[str, Node]:
    """The entries of a map of words by their names."""
    if node is None:
        return MappingProxyType({})
    return MappingProxyType({key.value: value for key, value in node.entries()})


def indexed(count: Known[Any]) -> Known[tuple[str, ...]]:
    """The devices of a container by the numbers that it sees them under."""
    number = count.only
    if not isinstance(number, int) or not 0 <= number <= 64:
        return Known.unset()
    return Known.of(tuple(str(at) for at in range(number)), count.origin, how="derived")
