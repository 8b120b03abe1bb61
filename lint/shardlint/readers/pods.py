"""Containers of pods as engines: shared by all objects that hold a pod spec somewhere.

A reader of a kind of objects makes an `Owner`, which says what the object decides, and asks for the
plans of a pod spec or of one container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from shardlint.known import Case, Known, Text
from shardlint.plan import (
    Asked,
    Device,
    Fleet,
    Launch,
    Placement,
    Refused,
    Remark,
    ServingPlan,
    Site,
)
from shardlint.plugins import ReadContext
from shardlint.readers import claims as claimed
from shardlint.readers._pod import (
    SHARE_COUNT,
    SHARE_NOTES,
    Pod,
    amount,
    indexed,
    surroundings,
    texts,
)
from shardlint.readers._probes import ready_probe, startup_budget
from shardlint.readers.claims import Claims
from shardlint.readers.config_maps import ConfigMaps, Mounts, listed, referred
from shardlint.readers.edits import TextSite
from shardlint.readers.holes import Holes, concat
from shardlint.readers.named_files import scripts_in, written
from shardlint.readers.plans import Host, around, distinct, during, plan_of, processes, ray_in
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Mapped, Origin, Span

RESOURCES = re.compile(
    r"(nvidia\.com/(gpu|mig-[\w.]+)|amd\.com/gpu|habana\.ai/gaudi|"
    r"huawei\.com/ascend(?!.*-memory$).*|gpu\.intel\.com/(i915|xe)|"
    r"aws\.amazon\.com/neuroncore|volcano\.sh/v?gpu-number|cambricon\.com/v?mlu|"
    r"hygon\.com/dcunum|metax-tech\.com/s?gpu|iluvatar\.ai/[\w.-]*vgpu|mthreads\.com/v?gpu|"
    r"kunlunxin\.com/v?xpu|rebellions\.ai/atom|furiosa\.ai/.*|qualcomm\.com/.*)$",
    re.IGNORECASE,
)
"""Resources of which one unit is one device that a rank can use."""

GPUS = re.compile(r"(nvidia|amd)\.com/")
"""Resources of which a unit is a GPU; of others it is taken for one device."""

SHARED = re.compile(r"nvidia\.com/gpu\..+")
NEURON = re.compile(r"aws\.amazon\.com/neuron(?!core).*")
TPU = re.compile(r"google\.com/tpu|cloud-tpus\.google\.com/.*")
UNCOUNTED = re.compile(
    rf"({NEURON.pattern}|{TPU.pattern}|ibm\.com/(spyre|aiu).*|{SHARED.pattern})$"
)
"""Resources whose units are not ranks: a Neuron device has several cores, and so may a TPU chip; a
share is no card."""

SUPPRESS = "shardlint/ignore"


@record(kw_only=True)
class Owner:
    """An object and what it decides for all of its containers.

    `path` is the object's JSON Pointer, `pod` the keys from there to what becomes the pod, whose
    metadata the pod has. With `whole` the pod spec is all of it, and not a fragment.

    What the object's operator adds: `command` and `arguments` run where a container has no command,
    before its own arguments, `more` behind them; `env` are variables, which win over those of the
    container; `image` stands in for one that is not stated, and `engine` says what runs where image
    and command do not; `mounted` are paths in the container with the models that are found there.
    `nodes` are the pods of one replica, `placement` further fields of Placement that the object
    decides, `devices` the devices of a container that does not ask for any itself, `effective`
    fields of the layout as the operator makes them, whatever is asked; `remarks` is what it passes
    over, `refused` what it refuses. `sites` write what the object states, `words` are further
    places of options than command and arguments, `extend` is a map in which arguments can be
    written that are not there. `release` is the engine's, where the object states it. `role` is
    that of its containers, `kind` how the plan is called, `labels` are those that the pods get
    beside their own.
    """

    node: Node
    kind: str
    path: str
    pod: tuple[str | int, ...] = ()
    whole: bool = True
    title: str | None = None
    role: str | None = None
    fleet: Fleet = Fleet()
    nodes: Known[int] = Known.unset()
    devices: Known[Any] = Known.unset()
    placement: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    command: tuple[Text, ...] = ()
    arguments: tuple[Text, ...] = ()
    more: tuple[Text, ...] = ()
    env: Mapping[str, Text] = field(default_factory=lambda: MappingProxyType({}))
    image: Known[str] = Known.unset()
    engine: str | None = None
    mounted: Mapping[str, Known[str]] = field(default_factory=lambda: MappingProxyType({}))
    effective: Mapping[str, Known[Any]] = field(default_factory=lambda: MappingProxyType({}))
    remarks: tuple[Remark, ...] = ()
    refused: tuple[Refused, ...] = ()
    sites: Mapping[str, Site] = field(default_factory=lambda: MappingProxyType({}))
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    written: Mapping[str, Site] = field(default_factory=lambda: MappingProxyType({}))
    words: tuple[Node, ...] = ()
    extend: Node | None = None
    release: Known[str] = Known.unset()
    platform: str | None = None

    @property
    def name(self) -> str:
        return self.title if self.title is not None else self.node.string("metadata", "name") or ""

    @property
    def namespace(self) -> str | None:
        return self.node.string("metadata", "namespace")

    def pod_labels(self) -> Mapping[str, str]:
        """Labels of the pods, which is where selectors look."""
        own = string_map(self.node.get(*self.pod, "metadata", "labels"))
        return MappingProxyType({**own, **self.labels}) if self.labels else own

    def notes(self) -> Mapping[str, Node]:
        """Annotations of the object and of its pods."""
        found = (self.node.get(*path, "metadata", "annotations") for path in ((), self.pod))
        return {name: node for each in found for name, node in texts(each).items()}

    def suppressed(self) -> Mapping[str, Origin]:
        found: dict[str, Origin] = {}
        for path in ((), self.pod):
            note = self.node.get(*path, "metadata", "annotations", SUPPRESS)
            if note is not None and note.is_string:
                for selector in note.value.split(":", 1)[0].split(","):
                    if selector.strip():
                        found[selector.strip()] = note.origin
        return MappingProxyType(found)


def added(word: str, origin: Origin) -> Text:
    """A word that an operator adds because of what stands there; it is not written itself."""
    return Text(Mapped.all_at(word, origin.span), origin)


def string_map(node: Node | None) -> Mapping[str, str]:
    if node is None:
        return MappingProxyType({})
    return MappingProxyType({k.value: v.value for k, v in node.entries() if v.kind == "scalar"})


def pod_plans(owner: Owner, spec: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    """Plans of the containers, and of init containers that go on running beside them."""
    elsewhere = ray_in(spec)
    for key in ("containers", "initContainers"):
        found = spec.get(key)
        for index, node in enumerate(found.items if found is not None else []):
            runs = key == "containers" or node.string("restartPolicy") == "Always"
            if node.kind == "map" and runs:
                where = f"{path}/{key}/{index}"
                yield from container_plans(owner, spec, node, where, context, elsewhere)


def container_plans(
    owner: Owner,
    spec: Node | None,
    node: Node,
    path: str,
    context: ReadContext,
    elsewhere: str | None = None,
) -> Iterator[ServingPlan]:
    holes = holes_of(node)
    maps = ConfigMaps(node.source, owner.namespace, context)
    env = environment(node, holes, owner.env, maps)
    command, args = _words(node.get("command"), env, holes), _words(node.get("args"), env, holes)
    if not command:
        command = tuple(holes.item(expanded(w, env, holes)) for w in owner.command)
        args = (*(holes.item(expanded(w, env, holes)) for w in owner.arguments), *args)
    args = (*args, *(holes.item(expanded(word, env, holes)) for word in owner.more))
    image = node.get("image")
    scripts = scripts_in(node.get("command"), node.get("args"))
    find = written(scripts, Mounts(spec, node, maps).find)
    host = replace(host_of(owner, spec, node, path, context, maps), find=find)
    started = processes((*command, *args), env, _argv_node(node).origin, find)
    host = around(host, started, elsewhere)
    plans: list[ServingPlan] = []
    for process, during_it in during(host, started):
        launch = Launch(
            origin=process.origin,
            argv=holes.restore(process.argv),
            image=_image(image, holes).or_default(owner.image),
            env=MappingProxyType({k: holes.restored(v) for k, v in process.env.items()}),
            argv_complete=bool(command) or process.of_script,
            engine=owner.engine,
        )
        plan = plan_of(launch, during_it, context)
        if plan is not None:
            plans.append(_mounted(plan, owner))
    yield from distinct(plans)


def holes_of(node: Node) -> Holes:
    """Holes that no text of a container looks like."""
    return Holes("\n".join(part.source.text for part in node.parts or (node,)))


def _mounted(plan: ServingPlan, owner: Owner) -> ServingPlan:
    """With the model that is found at the path which the engine is given."""
    found = owner.mounted.get((plan.model.only or "").rstrip("/"))
    return plan if found is None else replace(plan, model=found)


def _argv_node(node: Node) -> Node:
    """What holds the command line of a container, or the end of it."""
    for key in ("args", "command"):
        found = node.get(key)
        if found is not None and (node.parts or found.source is node.source):
            return found
    return node


def _image(node: Node | None, holes: Holes) -> Known[str]:
    if node is None:
        return Known.unset()
    reason = placeholder(node.value)
    return Known.unknown(reason, node.origin) if reason else holes.restored(node.text()).known()


NVLINK_RACK = 72
"""GPUs of a rack whose NVLink reaches over its nodes."""


def _compute_domain(spec: Node | None) -> Node | None:
    """The claim of a channel between nodes of such a rack (NVIDIA k8s-dra-driver-gpu)."""
    claims = spec.get("resourceClaims") if spec is not None else None
    for claim in claims.items if claims is not None else ():
        names = (claim.string("name"), claim.string("resourceClaimTemplateName"))
        if any("compute-domain" in name for name in names if name):
            return claim
    return None


def _words(node: Node | None, env: Mapping[str, Text], holes: Holes) -> tuple[Text, ...]:
    if node is None:
        return ()
    items = node.items if node.kind == "list" else [node]
    return tuple(holes.item(expanded(item.text(), env, holes)) for item in items)


# ----------------------------------------------------------------------- what surrounds a container


def host_of(
    owner: Owner,
    spec: Node | None,
    node: Node,
    path: str,
    context: ReadContext,
    maps: ConfigMaps | None = None,
) -> Host:
    """What an owner's container is to an engine in it."""
    claims = Claims(spec, node.source, owner.namespace, context)
    count, sites, resource = devices(node, claims)
    uncounted = None
    if resource is None and count.reason is not None and (units := _units(node)) is not None:
        count, sites, uncounted = units
    count = count.or_default(owner.devices).or_default(_fraction(owner.notes()))
    label, device = card(spec, resource, context)
    whole = owner.whole and (node.get("image") is not None or not owner.image.is_unset)
    pod = Pod(spec=spec, notes=owner.notes(), whole=whole)
    startup = startup_budget(node)
    fields, more = surroundings(pod, node)
    requests = claims.requests(node)
    if resource is None and requests.is_known:
        fields["device_kind"] = fields["device_kind"].or_default(claimed.kind(requests))
        if label.is_unset:
            label, device = claimed.card(requests, context)
    if (domain := _compute_domain(spec)) is not None:
        fields["link_domain"] = Known.of(NVLINK_RACK, domain.origin, how="derived")
    kinds = {item.kind for item in device.values}
    if kinds == {"mig"} or kinds == {"shared"}:
        fields["device_kind"] = device.map(lambda item: item.kind)
    if maps is not None and listed(node, maps)[1]:
        fields["env_open"] = None
    placement = Placement(
        pods_per_group=owner.nodes,
        gpus_per_pod=count,
        gpu_label=label,
        gpu=device,
        gpus_per_node=_node_size(spec, context),
        node_labels=wanted_labels(spec),
        device_ids=indexed(count),
        scope=path,
        scheduled=whole,
        uncounted=uncounted,
        claim=claims.shared(node),
        asked=asked(node),
        startup_seconds=startup.seconds,
        probe=startup.probe,
        ready_probe=ready_probe(node),
        **fields,
    )
    placement = replace(placement, **owner.placement)
    name = node.string("name")
    full = "/".join(part for part in (owner.namespace, owner.name, name) if part)
    return Host(
        source=_argv_node(node).source,
        kind=owner.kind,
        name=full or "container",
        path=path,
        origin=_place(node),
        anchors=tuple(_anchors(owner, node)),
        namespace=owner.namespace,
        labels=owner.pod_labels(),
        placement=placement,
        fleet=owner.fleet,
        owner=(owner.kind, owner.name) if owner.name else None,
        role=owner.role,
        platform=owner.platform,
        effective=owner.effective,
        remarks=owner.remarks,
        refused=owner.refused,
        release=owner.release,
        written=owner.written,
        extend=owner.extend,
        suppressed=owner.suppressed(),
        sites={**sites, **more, **owner.sites},
        nodes=_places_of_words(owner, node),
    )


def _places_of_words(owner: Owner, node: Node) -> tuple[Node, ...]:
    """Where options stand; without such a place, nothing is written behind words that are added."""
    found = (node.get(key) for key in ("command", "args"))
    return (*(item for item in found if item is not None), *owner.words) or (node,)


def _place(node: Node) -> Origin:
    """The image, else the first key: one line that stands for the container."""
    image = node.get("image")
    if image is not None and image.source is node.source:
        return image.origin
    own = (key.origin for key, _ in node.pairs if key.source is node.source)
    return next(own, node.origin)


def _anchors(owner: Owner, node: Node) -> Iterator[Span]:
    yield owner.node.span
    yield node.span
    for key in ("command", "args"):
        found = node.get(key)
        for item in (found.items or [found]) if found is not None else []:
            if item.style in ("|", ">") and item.source is node.source:
                yield item.span


def devices(
    node: Node, claims: Claims | None = None
) -> tuple[Known[Any], Mapping[str, Site], Node | None]:
    """Devices that the container asks for, the sites of the number, the key of the resource."""
    asked = _asked(node)
    if not asked:
        return _claimed(node, claims)
    name, entries = next(iter(asked.items()))
    key, value = entries[0]
    if len(asked) > 1 or UNCOUNTED.match(name):
        mixed = len(asked) > 1
        why = f"{' and '.join(asked)} do not add up" if mixed else f"{name} does not count devices"
        return Known.unknown(why, value.origin), {}, None
    count = _assuming(integer(value), name, node, claims)
    site = TextSite(tuple(value.text() for _, value in entries))
    return count, {"gpus_per_pod": site} if count.is_known else {}, key


def _asked(node: Node) -> dict[str, list[tuple[Node, Node]]]:
    """Resources that stand for devices, with their entries in limits and requests."""
    asked: dict[str, list[tuple[Node, Node]]] = {}
    for part in ("limits", "requests"):
        for key, value in _entries(node.get("resources", part)):
            name = key.value.strip()
            if RESOURCES.match(name) or UNCOUNTED.match(name):
                asked.setdefault(name, []).append((key, value))
    return asked


def _claimed(
    node: Node, claims: Claims | None
) -> tuple[Known[Any], Mapping[str, Site], Node | None]:
    """Devices of a container that asks for none by the name of a resource."""
    listed = node.get("resources", "claims")
    if listed is None:
        return Known.unset(), {}, None
    requests = claims.requests(node) if claims is not None else Known.unset()
    if claims is None or not requests.is_known:
        return Known.unknown(claimed.OPEN, listed.origin), {}, None
    site = claimed.site(requests, node.source)
    return claimed.count(requests), {"gpus_per_pod": site} if site is not None else {}, None


def _units(node: Node) -> tuple[Known[Any], Mapping[str, Site], str | None] | None:
    """Units of a resource that are no ranks, the site of their number, and why they are none."""
    asked = _asked(node)
    name, entries = next(iter(asked.items()), ("", []))
    if len(asked) != 1 or not any(unit.match(name) for unit in (SHARED, NEURON, TPU)):
        return None
    count = integer(entries[0][1])
    if (count.only or 0) < 0 or not count.is_known:
        return None
    site = TextSite(tuple(value.text() for _, value in entries))
    if SHARED.match(name):
        why = None if count.only == 1 else "several shares can be of one card"
    elif TPU.match(name):
        why = "a TPU chip has one core or two, and each is one of the ranks"
    else:
        why = "a Neuron device has several cores, and each is one of the ranks"
    return count, {"gpus_per_pod": site}, why


def _fraction(notes: Mapping[str, Node]) -> Known[Any]:
    """Devices of a pod that asks for parts of them by annotation, and by no resource."""
    stated = [notes[name] for name in SHARE_NOTES if name in notes]
    if not stated:
        return Known.unset()
    count = integer(notes.get(SHARE_COUNT))
    return count.or_default(Known.of(1, stated[0].origin, how="derived"))


def asked(node: Node) -> Mapping[str, Asked]:
    """Limit and request of each resource that stands for devices."""
    parts = {
        part: {
            key.value.strip(): amount(value) for key, value in _entries(node.get("resources", part))
        }
        for part in ("limits", "requests")
    }
    names = dict.fromkeys(name for part in parts.values() for name in part)
    unset: Known[Fraction] = Known.unset()
    return MappingProxyType(
        {
            name: Asked(parts["limits"].get(name, unset), parts["requests"].get(name, unset))
            for name in names
            if RESOURCES.match(name) or UNCOUNTED.match(name)
        }
    )


def _assuming(
    count: Known[int], resource: str, node: Node, claims: Claims | None = None
) -> Known[int]:
    """A count with what must hold for it to be what the engine sees."""
    if (count.only or 0) < 0:
        return Known.unknown(f"{count.only} is no number of devices", count.origin)
    if node.get("resources", "claims") is not None:
        requests = claims.requests(node) if claims is not None else Known.unset()
        more = claimed.count(requests).only if requests.is_known else None
        if more:
            why = f"{resource} and the devices of a resource claim do not add up"
            return Known.unknown(why, count.origin)
        if more is None:
            count = count.assuming("the resource claim adds no device")
    count = of_units(count, resource)
    variables = node.get("env")
    for item in variables.items if variables is not None else []:
        shown = item.string("name"), item.string("value")
        if shown == ("NVIDIA_VISIBLE_DEVICES", "all"):
            count = count.assuming("the runtime does not show the other GPUs of the node")
    return count


def of_units(count: Known[int], resource: str) -> Known[int]:
    """A number of units as a number of devices."""
    if TPU.match(resource):
        return Known.unknown("a TPU chip has one core or two", count.origin)
    return count if GPUS.match(resource) else count.assuming(f"each {resource} is one device")


def _entries(node: Node | None) -> Iterable[tuple[Node, Node]]:
    return () if node is None else node.entries()


def card(
    spec: Node | None, resource: Node | None, context: ReadContext
) -> tuple[Known[str], Known[Device]]:
    """The literal that names the card and the card: a MIG resource, a selector, an affinity."""
    name = resource.value.strip() if resource is not None else ""
    if resource is not None and "/mig-" in name:
        profile = name.split("/", 1)[1]
        return Known.of(profile, resource.origin), context.device(profile)
    labels = _node_labels(spec) if spec is not None else {}
    key, device = context.labels(
        {name: tuple(node.value for node in nodes) for name, nodes in labels.items()}
    )
    if key is None:
        return _family(labels, context) if device.is_unset else (Known.unset(), device)
    nodes = labels[key]
    if len(nodes) == 1:
        return Known.of(nodes[0].value, nodes[0].origin), device
    cases = tuple(Case(node.value, (("label", node.value),)) for node in nodes)
    return Known(cases, None, nodes[0].origin), device


def _family(
    labels: Mapping[str, list[Node]], context: ReadContext
) -> tuple[Known[str], Known[Device]]:
    """The card of a pool of nodes that is named after its instances: "g5-gpu-karpenter"."""
    for name, nodes in labels.items():
        words = re.split(r"[-_.]", nodes[0].value) if len(nodes) == 1 else []
        for word in words if "gpu" in words else ():
            _, device = context.labels({FAMILY: (word,)})
            if device.is_known:
                said = f"label {name}={nodes[0].value} names the family of the instances"
                return Known.of(nodes[0].value, nodes[0].origin), device.assuming(said)
    return Known.unset(), Known.unset()


FAMILY = "karpenter.k8s.aws/instance-family"

PARTED = ("shar", "replicas", "mps.", "mig", "partition")
"""Parts of the labels of nodes whose cards are handed out in parts."""


def _node_size(spec: Node | None, context: ReadContext) -> Known[int]:
    """Devices of a node that the pod can be on, where its labels count them."""
    labels = _node_labels(spec) if spec is not None else {}
    values = {name: tuple(node.value for node in nodes) for name, nodes in labels.items()}
    said = [word.lower() for name, words in values.items() for word in (name, *words)]
    if any(sign in word for word in said for sign in PARTED):
        return Known.unset()  # such a node hands out more devices than it has cards
    size = context.node_size({k: words for k, words in values.items() if "instance" not in k})
    if size.is_known:
        return size
    size = context.node_size(values)
    if not size.is_known:
        return Known.unset()
    return size.assuming("the machine hands out its cards whole, each once")


def _node_labels(spec: Node) -> dict[str, list[Node]]:
    """Labels that the node must have, with the values that are allowed."""
    found = {
        key.value: [value] for key, value in _entries(spec.get("nodeSelector")) if value.is_string
    }
    terms = _node_terms(spec)
    for term in terms if len(terms) == 1 else []:
        rows = term.get("matchExpressions")
        for row in rows.items if rows is not None else []:
            values = row.get("values")
            nodes = [item for item in values.items if item.is_string] if values is not None else []
            if row.string("operator") == "In" and nodes:
                found.setdefault(row.string("key") or "", nodes)
    return {
        key: nodes
        for key, nodes in found.items()
        if not any(placeholder(node.value) for node in nodes)
    }


def _node_terms(spec: Node) -> list[Node]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = spec.get("affinity", "nodeAffinity", required, "nodeSelectorTerms")
    return terms.items if terms is not None else []


def wanted_labels(spec: Node | None) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """The labels of `Placement.node_labels`: those of the selector with those of each term."""
    if spec is None:
        return ()
    own = {key.value: _allowed([value]) for key, value in _entries(spec.get("nodeSelector"))}
    found = [{**own, **dict(_in_term(term))} for term in _node_terms(spec)] or [own]
    return tuple(MappingProxyType(labels) for labels in found if labels)


def _in_term(term: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of what is no list of values, only that the label is asked for is known."""
    rows = term.get("matchExpressions")
    for row in rows.items if rows is not None else []:
        key, values = row.string("key"), row.get("values")
        if key is not None and row.string("operator") != "DoesNotExist":
            listed = values.items if values is not None else []
            yield key, _allowed(listed) if row.string("operator") == "In" else ()


def _allowed(values: list[Node]) -> tuple[str, ...]:
    """The values, none if one of them is not known."""
    known = all(node.kind == "scalar" and placeholder(node.value) is None for node in values)
    return tuple(node.value for node in values) if known else ()


# -------------------------------------------------------------------------------- environment


def environment(
    node: Node,
    holes: Holes,
    given: Mapping[str, Text] = MappingProxyType({}),
    maps: ConfigMaps | None = None,
) -> dict[str, Text]:
    """Variables of a container, beside those that its operator gives; each may use those before."""
    env: dict[str, Text] = {**(listed(node, maps)[0] if maps is not None else {}), **given}
    items = node.get("env")
    for item in items.items if items is not None and items.kind == "list" else []:
        name, value = item.string("name"), item.get("value")
        if name is None or name in given:
            continue
        if value is not None:
            env[name] = expanded(value.text(), env, holes)
        elif maps is not None and (referred_to := referred(item, maps)) is not None:
            env[name] = referred_to
        elif item.get("valueFrom") is not None:
            env[name] = Text.unknown(item.origin, f"{name} comes from another object")
        else:
            env[name] = Text(Mapped("", range(0), range(0)), item.origin)
    return env


MOST_CHARACTERS = 100_000
"""Variables that repeat each other would fill the memory: longer values are not expanded."""

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")


def expanded(text: Text, env: Mapping[str, Text], holes: Holes) -> Text:
    """`$(NAME)` replaced as Kubernetes does; a name that is not set stays as it is written."""
    mapped = text.mapped
    if mapped is None or "$" not in mapped.text:
        return text
    parts: list[Mapped] = []
    used: list[Text] = []
    at = 0
    for match in _REFERENCE.finditer(mapped.text):
        value = env.get(match.group(1) or "")
        if value is not None:
            used.append(value)
            replacement = _replacement(value, mapped.span(match.start(), match.end()), holes)
        elif match.group() == "$$":
            replacement = mapped.cut(match.start(), match.start() + 1)
        else:
            continue
        parts += mapped.cut(at, match.start()), replacement
        at = match.end()
    return _joined(text, [*parts, mapped.cut(at)], used) if parts else text


def _replacement(value: Text, span: Span, holes: Holes) -> Mapped:
    if value.value is None:
        return holes.make(value.reason or "unresolved", span)
    return Mapped.all_at(value.value, span)


def _joined(text: Text, parts: list[Mapped], used: list[Text]) -> Text:
    """The text with its variables replaced; nothing but one variable is edited where that is."""
    if sum(len(part) for part in parts) > MOST_CHARACTERS:
        return Text.unknown(text.origin, f"expands to more than {MOST_CHARACTERS:,} characters")
    joined = concat(parts)
    if not used:
        return replace(text, mapped=joined)
    alone = len(used) == 1 and sum(len(part) for part in parts) == len(used[0].mapped or " ")
    definition = used[0].editable if alone else None
    related = tuple(value.place for value in used)
    assumes = text.assumes.union(*(value.assumes for value in used))
    return Text(replace(joined, literal=False), text.origin, None, related, definition, assumes)
