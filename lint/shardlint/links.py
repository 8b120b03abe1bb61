"""What stands behind a router: plans by their labels or hosts, other routers, endpoint pickers.

Labels and names repeat in a repository of many clusters: what is in the same file is meant, else
in the same folder, else in one file alone; matches in several far files say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeVar

from shardlint.engine import Balancer, Engine
from shardlint.models.names import converses
from shardlint.plan import Remark, Router, ServingPlan
from shardlint.record import record

Owned = TypeVar("Owned", bound="ServingPlan | Router")
MOST_STEPS = 20
"""Longer chains of routers are not followed."""


def resolved(
    routers: Sequence[Router],
    plans: Sequence[ServingPlan],
    engine: Callable[[str | None], Engine | None],
) -> tuple[Router, ...]:
    """The routers of a run, and those inside of engines, with what stands behind each."""
    found = _picked(routers)
    names = _Names(found, plans)
    by_id = {plan.id: plan for plan in plans}
    linked = _opened([_counted(_linked(router, names), by_id) for router in found])
    inner = [router for plan in plans if (router := _inside(plan, engine)) is not None]
    heard = [_deaf(router, by_id, engine) for router in linked]
    return (*_behind_proxies(heard), *inner)


def _inside(plan: ServingPlan, engine: Callable[[str | None], Engine | None]) -> Router | None:
    """The choice of a data-parallel rank in one engine."""
    own = engine(plan.engine)
    return own.balancing(plan) if isinstance(own, Balancer) else None


def _deaf(
    router: Router,
    plans: dict[str, ServingPlan],
    engine: Callable[[str | None], Engine | None],
) -> Router:
    """With a remark where a picker follows events that none of its engines publishes."""
    behind = [plans[name] for name in router.backends if name in plans]
    if router.kind not in PICKERS or "kv" not in router.awareness or not behind:
        return router
    for plan in behind:
        own = engine(plan.engine)
        if not isinstance(own, Balancer) or own.publishes(plan) is not False:
            return router
    remark = Remark(
        kind="kv-events",
        at=router.policy.origin or router.origin,
        severity="warning",
        message="the endpoint picker follows the events of the engines' caches, and no engine"
        " behind it publishes any: it finds no prefix",
        help="`--kv-events-config` on every engine, or the picker's own estimate of prefixes",
        related=((behind[0].origin, f"{behind[0].name} publishes nothing"),),
    )
    return replace(router, remarks=(*router.remarks, remark))


PICKERS = ("epp-config", "llm-d-router-values", "kserve-scheduler")
"""Kinds of routers that are endpoint pickers."""


# --------------------------------------------------------------------------- endpoint pickers


def _picked(routers: Sequence[Router]) -> list[Router]:
    """Pools leave the choice to the endpoint picker that is configured beside them.

    A pool names the Service of its picker; a picker whose pods are known belongs to no other pool
    than the one whose Service finds them.
    """
    pickers = [router for router in routers if router.picks is not None]
    services = [router for router in routers if router.kind == "service" and router.selector]
    pools = [router for router in routers if router.picker is not None]
    given: dict[str, Router] = {}
    asking: dict[str, Router] = {}
    for pool in pools:
        ways = [item for item in services if pool.picker in item.names
                and _namespace(item) == _namespace(pool)]  # fmt: skip
        named = [item for item in pickers if (item.picks and item.picks == pool.picker)
                 or any(_finds(way, item) for way in ways)]  # fmt: skip
        loose = [item for item in pickers if not (item.labels and ways)]
        chosen = _nearest(pool.file, named or loose)
        if len(chosen) == 1 and (chosen[0].id not in given):
            given[chosen[0].id], asking[pool.id] = pool, chosen[0]
    return [_as_picked(router, given, asking) for router in routers]


def _finds(service: Router, picker: Router) -> bool:
    """The Service selects the pods of the picker."""
    near = _namespace(service) == _namespace(picker)
    return near and all(picker.labels.get(key) == value for key, value in service.selector.items())


def _as_picked(router: Router, given: dict[str, Router], asking: dict[str, Router]) -> Router:
    if (picker := asking.get(router.id)) is not None:
        return replace(router, chooses="elsewhere", awareness=frozenset(), selector={},
                       targets=(), backends=(picker.id,))  # fmt: skip
    if (pool := given.get(router.id)) is not None:
        return replace(router, selector=pool.selector, namespace=pool.namespace)
    return router


# ------------------------------------------------------------------------- labels and hosts

POOL, ROUTE, GATEWAY = ".inferencepool", ".httproute", ".gateway"
"""The ends of names of pools, routes, and routes of a gateway, which are no hosts."""

POLICY = "gateway-policy"
"""The kind of what is attached to routes and Services, and may say how to choose."""

_ORDINAL = re.compile(r"(.+)-\d+")


class _Names:
    """Plans and routers by the labels of their pods, and by the hosts that they are reached by."""

    def __init__(self, routers: Sequence[Router], plans: Sequence[ServingPlan]) -> None:
        self.labelled: dict[tuple[str, str, str], list[ServingPlan | Router]] = {}
        self.hosts: dict[str, list[ServingPlan]] = {}
        self.fronts: dict[str, list[Router]] = {}
        owners: list[ServingPlan | Router] = [*plans, *routers]
        for owner in owners:
            for key, value in owner.labels.items():
                self.labelled.setdefault((_namespace(owner), key, value), []).append(owner)
        for plan in plans:
            for name in dict.fromkeys((plan.name, plan.name.rpartition("/")[2])):
                self.hosts.setdefault(name.lower(), []).append(plan)
            if plan.owner is not None:
                self.hosts.setdefault(plan.owner[1].lower(), []).append(plan)
        for router in routers:
            for name in router.names:
                self.fronts.setdefault(name.lower(), []).append(router)

    def by_labels(self, router: Router) -> Sequence[ServingPlan | Router]:
        items = list(router.selector.items())
        first = self.labelled.get((_namespace(router), *items[0]), []) if items else []
        found = [item for item in first if all(item.labels.get(k) == v for k, v in items)]
        return _nearest(router.file, [item for item in found if item.id != router.id])

    def by_host(self, router: Router, target: str) -> Sequence[Router | ServingPlan]:
        """A Service or router of this name, else the plan; of a StatefulSet's pod, the set."""
        host = host_of(target)
        label = host.split(".")[0]
        if host.startswith("*"):
            return self._matching(router, host[1:])
        if host.endswith((POOL, ROUTE, GATEWAY)):
            return _nearest(router.file, self.fronts.get(host, ()))
        for name in dict.fromkeys((host, label)):
            others = [item for item in self.fronts.get(name, ()) if item.id != router.id]
            if found := _nearest(router.file, others):
                return found
        ordinal = _ORDINAL.fullmatch(label)
        for name in (label, ordinal[1] if ordinal else ""):
            if near := _nearest(router.file, self.hosts.get(name, ())):
                return near
        return ()

    def _matching(self, router: Router, end: str) -> Sequence[Router]:
        """Services whose name in the cluster ends so: those of the folder, or of one other file."""
        found = {item.id: item for name, items in self.fronts.items() if name.endswith(end)
                 for item in items if item.kind == "service"}  # fmt: skip
        folder = _folder(router.file)
        beside = [item for item in found.values() if _folder(item.file) == folder]
        return beside or _nearest(router.file, list(found.values()))


def host_of(target: str) -> str:
    """The host of an address or URL, in lower case."""
    rest = target.partition("://")[2] or target
    return rest.partition("/")[0].rpartition("@")[2].partition(":")[0].lower()


def _linked(router: Router, names: _Names) -> Router:
    found: dict[str, None] = dict.fromkeys(router.backends)
    if router.selector:
        found |= dict.fromkeys(item.id for item in names.by_labels(router))
    for target in router.targets:
        found |= dict.fromkeys(item.id for item in names.by_host(router, target))
    return replace(router, backends=tuple(found)) if found else router


def _opened(routers: list[Router]) -> list[Router]:
    """Routes that a policy is attached to; a rule for many hosts yields to that for one."""
    attached = {name for item in routers if item.kind == POLICY for name in item.backends}
    exact = {name for item in routers if item.kind == "istio" and not _is_wild(item)
             for name in item.backends}  # fmt: skip
    found = [replace(item, sure=False) if item.id in attached and item.kind == "gateway" else item
             for item in routers]  # fmt: skip
    return [
        replace(item, backends=tuple(name for name in item.backends if name not in exact))
        if item.kind == "istio" and _is_wild(item) else item
        for item in found
    ]  # fmt: skip


def _is_wild(router: Router) -> bool:
    return any(target.startswith("*") for target in router.targets)


def _counted(router: Router, plans: dict[str, ServingPlan]) -> Router:
    """The one host that a proxy lists is the name of all replicas of a service."""
    if router.chooses != "one":
        return router
    counts = [plans[name].fleet.replicas.only or 0 for name in router.backends if name in plans]
    return replace(router, chooses="replicas") if max(counts, default=0) > 1 else router


def _nearest(file: str, found: Sequence[Owned]) -> Sequence[Owned]:
    """Those of a file, else of its folder, else of one other file."""
    near = [item for item in found if item.file == file]
    beside = [item for item in found if _folder(item.file) == _folder(file)]
    for chosen in (near, beside, list(found)):
        if chosen and len({item.file for item in chosen}) == 1:
            return chosen
    return ()


def _namespace(owner: ServingPlan | Router) -> str:
    """The namespace, as kubectl fills it in where none is stated."""
    return owner.namespace or "default"


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


# ------------------------------------------------------------------------------ behind proxies


def _behind_proxies(routers: Sequence[Router]) -> Iterator[Router]:
    """Proxies that send to a Service which sticks to addresses: it sees none but the proxy's.

    Most proxies send to the pods by themselves; what is told to send to the Service says so, and
    can be told otherwise.
    """
    sticky = {item.id: item for item in routers
              if item.kind == "service" and "session" in item.awareness}  # fmt: skip
    for router in routers:
        through = router.kind == "ingress" and router.explicit
        remarks = [_skewed(sticky[name], router) for name in router.backends if name in sticky]
        yield replace(router, remarks=(*router.remarks, *remarks)) if through else router


def _skewed(service: Router, before: Router) -> Remark:
    return Remark(
        kind="skew",
        at=service.policy.origin or service.origin,
        severity="warning",
        message="the Service sticks to the client's address, and all requests come from one"
        f" {before.kind}: the replica of its address gets them all",
        help="a hash of a session header in the proxy, or an InferencePool with an endpoint picker",
        related=((before.origin, "what the requests come through"),),
    )


# ------------------------------------------------------------------------------------ around


@record(kw_only=True)
class Around:
    """A router, all plans behind it, the routers before it, and those beside it.

    `turnless` are the ids of plans whose requests are no turns of a conversation.
    """

    router: Router
    plans: tuple[ServingPlan, ...]
    before: tuple[Router, ...]
    beside: tuple[Router, ...]
    turnless: frozenset[str] = frozenset()


def around(plans: Iterable[ServingPlan], routers: Sequence[Router]) -> Iterator[Around]:
    """Each router with what stands around it."""
    by_id = {plan.id: plan for plan in plans}
    fronts = {router.id: router for router in routers}
    turnless = frozenset(plan.id for plan in by_id.values() if not has_turns(plan))
    senders: dict[str, list[Router]] = {}
    for router in routers:
        for name in router.backends:
            senders.setdefault(name, []).append(router)
    for router in routers:
        reached = _reached(router, fronts)
        beside = {
            item.id: item
            for name in router.backends
            for item in senders.get(name, ())
            if item.id != router.id and name in by_id and not item.within
        }
        yield Around(
            router=router,
            plans=tuple(by_id[name] for name in reached if name in by_id),
            before=tuple(senders.get(router.id, ())),
            beside=tuple(beside.values()),
            turnless=turnless,
        )


TASKS: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "--task": frozenset({"embed", "embedding", "classify", "score", "reward", "rerank", "encode",
                         "pooling", "plugin", "transcription"}),
    "--runner": frozenset({"pooling"}),
    "--convert": frozenset({"embed", "classify", "reward"}),
})  # fmt: skip
"""Options, and their values that ask for vectors, scores or transcripts."""

ENDS: Final = ("ForSequenceClassification", "ForTokenClassification", "ForRewardModel",
               "ForProcessRewardModel", "ForMaskedLM", "BertModel")  # fmt: skip
"""Ends of architectures that sample no tokens."""


def has_turns(plan: ServingPlan) -> bool:
    """Its requests may be turns of a conversation: not of vectors, scores, transcripts."""
    for flag in plan.flags:
        asked = TASKS.get(flag.flag or "", frozenset())
        if flag.value is not None and flag.value.value in asked:
            return False
        if flag.flag == "--is-embedding" and not flag.negated:
            return False
    facts = plan.model_facts.only
    if facts is not None and (facts.architecture or "").endswith(ENDS):
        return False
    name = plan.model.only or (facts.id if facts is not None else "")
    return converses(name)


def _reached(router: Router, fronts: dict[str, Router]) -> dict[str, None]:
    """The ids of all that stands behind a router, up to the next one that chooses itself."""
    found: dict[str, None] = {}
    todo, steps = list(router.backends), 0
    while todo and steps < MOST_STEPS * max(1, len(router.backends)):
        name, steps = todo.pop(0), steps + 1
        if name not in found:
            found[name] = None
            todo += fronts[name].backends if name in fronts and _passes(fronts[name]) else ()
    return found


def _passes(router: Router) -> bool:
    """It chooses among nothing but the replicas of one name, or leaves that to another."""
    return router.kind == "service" or router.chooses != "replicas"
