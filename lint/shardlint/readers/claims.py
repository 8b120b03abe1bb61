"""Devices that a pod claims: ResourceClaim and ResourceClaimTemplate, by name within the run.

A template gives every pod a claim of its own, a claim that is named directly is one for all pods
that name it. A container gets the requests of the claims that it lists, each once; a request is for
one device unless it says how many. Facts: kubernetes-runtime.md, section 6.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from shardlint.known import Known, Text, combine
from shardlint.plan import Device, Site
from shardlint.plugins import ReadContext
from shardlint.readers.edits import RefusedSite, TextSite
from shardlint.readers.named_objects import NamedObjects
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Source

GROUP = "resource.k8s.io/"
TEMPLATE, CLAIM = "ResourceClaimTemplate", "ResourceClaim"
GPUS = {"gpu.nvidia.com": "gpu", "gpu.intel.com": "gpu", "mig.nvidia.com": "mig"}
"""Classes of devices that ranks run on, and the kind of device that each is."""

NOT_GPUS = re.compile(r".*(\bnet|netdev|rdma|roce|sriov|\bnics?\b|compute-domain|imex|channel).*")
"""Classes of network devices and channels, of which no claim brings a GPU."""

OPEN = "the devices come from a resource claim"
DEFAULT_COUNT = 1

_PRODUCT = re.compile(r"productName['\"\]]*\s*==\s*['\"]([^'\"]+)['\"]")
_PROFILE = re.compile(r"\bprofile['\"\]]*\s*==\s*['\"]([\w.+]+)['\"]")
_BRANCHES = re.compile(r"\|\||!|\?")


def is_gpu(name: str) -> bool:
    return name in GPUS


@record
class Request:
    """One request of a claim: how many devices of a class, chosen by which expressions."""

    node: Node
    exact: Node

    @property
    def kind(self) -> str | None:
        """What a device is; None where it is no GPU."""
        return GPUS.get(self.exact.string("deviceClassName") or "")

    @property
    def is_other(self) -> bool:
        """It is certainly for no GPU."""
        return bool(NOT_GPUS.fullmatch(self.exact.string("deviceClassName") or ""))

    @cached_property
    def count(self) -> Known[int]:
        if self.is_other:
            return Known.of(0, self.node.origin, how="derived")
        if self.node.get("firstAvailable") is not None:
            return Known.unknown("the claim leaves a choice of devices", self.node.origin)
        name = self.exact.get("deviceClassName")
        if name is None or self.kind is None:
            word = name.value if name is not None and name.value else "it"
            at = (name or self.node).origin
            return Known.unknown(f"{word} is no class of devices that is known", at)
        mode = self.exact.string("allocationMode")
        if mode not in (None, "ExactCount"):
            return Known.unknown(f"the claim takes devices by allocationMode {mode}", name.origin)
        stated = integer(self.exact.get("count"))
        return stated.or_default(Known.of(DEFAULT_COUNT, name.origin, how="derived"))

    def expressions(self) -> Iterator[Text]:
        rows = self.exact.get("selectors")
        for row in rows.items if rows is not None else ():
            if (found := row.get("cel", "expression")) is not None and found.kind == "scalar":
                yield found.text()


def _request(node: Node) -> Request:
    """Newer shapes of the object have a level more."""
    return Request(node, node.get("exactly") or node)


@record
class Claims:
    """The claims that the pod of a container names."""

    spec: Node | None
    source: Source
    namespace: str | None
    context: ReadContext

    @cached_property
    def _lookups(self) -> dict[str, NamedObjects]:
        own = (self.source, self.namespace, self.context)
        return {kind: NamedObjects(kind, *own) for kind in (TEMPLATE, CLAIM)}

    def requests(self, container: Node) -> Known[tuple[Request, ...]]:
        """What a container gets; unset where it lists no claim."""
        listed = container.get("resources", "claims")
        if listed is None:
            return Known.unset()
        found: dict[tuple[str, str], Request] = {}
        for row in listed.items:
            name = row.string("name") or ""
            rows = self._of(name)
            if rows is None:
                return Known.unknown(OPEN, listed.origin)
            wanted = row.string("request")
            for at, node in enumerate(rows):
                own = node.string("name") or str(at)
                if wanted in (None, own):
                    found[name, own] = _request(node)
        if not found:
            return Known.unknown(OPEN, listed.origin)
        return Known.of(tuple(found.values()), listed.origin)

    def shared(self, container: Node) -> Known[str]:
        """The name of a claim that is the same one for every pod."""
        listed = container.get("resources", "claims")
        for row in listed.items if listed is not None else ():
            claim = self._claim(row.string("name") or "")
            node = claim.get("resourceClaimName") if claim is not None else None
            if node is not None and node.is_string and not placeholder(node.value):
                rows = self._of(row.string("name") or "")
                if rows is None or not all(_request(row).is_other for row in rows):
                    return node.text().known()
        return Known.unset()

    def _claim(self, name: str) -> Node | None:
        """The entry of the pod's `resourceClaims`."""
        rows = self.spec.get("resourceClaims") if self.spec is not None else None
        found = [row for row in (rows.items if rows is not None else ()) if row.kind == "map"]
        return next((row for row in found if row.string("name") == name), None)

    def _of(self, name: str) -> list[Node] | None:
        """The requests of a claim; None where the object is not among the files."""
        claim = self._claim(name)
        if claim is None:
            return None
        older = claim.get("source") or claim
        template, direct = older.string("resourceClaimTemplateName"), older.string(
            "resourceClaimName"
        )  # fmt: skip
        path: tuple[str, ...] = ("spec", "spec") if template else ("spec",)
        found = self._lookups[TEMPLATE if template else CLAIM].get(template or direct or "")
        if found is None or not (found.string("apiVersion") or "").startswith(GROUP):
            return None
        rows = found.get(*path, "devices", "requests")
        return [row for row in rows.items if row.kind == "map"] if rows is not None else None


# -------------------------------------------------------------------------------- what they are


def count(requests: Known[tuple[Request, ...]]) -> Known[int]:
    """GPUs of all requests together."""
    rows = requests.only
    if rows is None:
        return Known.unknown(requests.reason or OPEN, requests.origin)
    asked = [row for row in rows if not row.is_other]
    if len(asked) == 1:
        return asked[0].count
    return combine(lambda *each: sum(each), *(row.count for row in rows))


def site(requests: Known[tuple[Request, ...]], source: Source) -> Site | None:
    """The number of the one request that is for GPUs."""
    rows = [row for row in requests.only or () if not row.is_other]
    if len(rows) != 1 or not rows[0].count.is_known:
        return None
    node = rows[0].exact.get("count")
    if node is None:
        return RefusedSite("the claim does not say how many devices it is for")
    if node.source.name != source.name:
        return RefusedSite("the claim is in another file")
    return TextSite((node.text(),))


def kind(requests: Known[tuple[Request, ...]]) -> Known[str]:
    """What the devices are, where all are the same."""
    rows = [row for row in requests.only or () if row.kind is not None]
    kinds = {row.kind for row in rows}
    if len(kinds) != 1:
        return Known.unset()
    return Known.of(kinds.pop(), rows[0].node.origin)  # type: ignore[arg-type]


def card(
    requests: Known[tuple[Request, ...]], context: ReadContext
) -> tuple[Known[str], Known[Device]]:
    """The card, or the slice of one, that the one request for GPUs selects."""
    rows = [row for row in requests.only or () if row.kind is not None]
    unset: tuple[Known[Any], Known[Any]] = Known.unset(), Known.unset()
    for text in rows[0].expressions() if len(rows) == 1 else ():
        word = text.value or ""
        pattern, before = (_PROFILE, "mig-") if rows[0].kind == "mig" else (_PRODUCT, "")
        match = pattern.search(word)
        if match is not None and not _BRANCHES.search(word):
            label = text.part(*match.span(1))
            return label.known(), context.device(before + match[1])
    return unset
