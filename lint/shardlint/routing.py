"""What rules about the choice of a replica share: how much it matters, and the words for it.

What published measurements found (facts of routing, section 6) is a range over models, loads and
shares of common prefixes: no single number of it is promised for another service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from shardlint.plan import Remark, Router, ServingPlan
from shardlint.plugins import Found, Note, Repair, RouterWorld, Rule, Scope, Severity
from shardlint.record import record

SHARING: Final = ("chat", "agent", "rag")
"""Kinds of requests that repeat each other's beginnings."""

PUBLISHED: Final = (
    "published gains of looking at prefixes range from none at low load, or where prompts share"
    " little, to 2.3 times the output tokens/s and a mean TTFT 40 to 99 % shorter; the time"
    " between tokens or the tail got worse in some of them"
)


def word(router: Router) -> str:
    """The policy in one of the words that a fix is told by."""
    aware, policy = router.awareness, router.policy.only or ""
    if "kv" in aware:
        return "kv-aware"
    if "prefix" in aware:
        return "prefix-aware"
    if "session" in aware:
        by_address = router.kind == "service" or policy in CLIENT_IP
        return "client-ip" if by_address else "session-hash"
    if "load" in aware:
        return "load-aware"
    return "random" if "random" in policy or "shuffle" in policy else "round-robin"


CLIENT_IP: Final = ("ip_hash", "source", "client-ip", "useSourceIp", "client_ip")
"""Policies that take the address of a connection for its client, normalised or as written."""


def matters(workload: Mapping[str, Any]) -> Severity | None:
    """How much it matters that a prefix meets its cache; None: the requests share none."""
    kind, share = workload.get("kind"), workload.get("prefix_share")
    if share is not None:
        return "warning" if share > 0 else None
    if kind is None:
        return "info"
    return "warning" if kind in SHARING else None


TALKING: Final = frozenset(
    {"chat", "chats", "chatbot", "assistant", "assistants", "agent", "agents", "copilot"}
)
"""Words in a name under which a model is served, by which its requests are turns."""


def conversation(router: Router, plans: Sequence[ServingPlan] = ()) -> str | None:
    """The name that clients ask for, where it says that they hold conversations.

    A word that is also in the name of the model says how that was trained, and not what is asked.
    """
    asked = list(router.serves)
    asked += [
        (plan.served_name.only or "", plan.model.only or "")
        for plan in plans
        if plan.served_name.how == "stated"
    ]
    said = (name for name, model in asked if TALKING & (_words(name) - _words(model)))
    return next(said, None)


def _words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z0-9]+", name.lower()))


@record
class Choice:
    """What a router chooses among: so many replicas of one model, as far as that is known."""

    count: int | None
    plans: tuple[ServingPlan, ...]
    unit: str = "replicas"

    @property
    def among(self) -> str:
        if self.count is None:
            return f"its {self.unit}"
        most = "up to " if self.unit == "replicas" and any(map(_is_scaled, self.plans)) else ""
        return f"{most}{self.count} {self.unit}"

    @property
    def notes(self) -> tuple[Note, ...]:
        found: list[Note] = []
        for plan in self.plans if self.unit == "replicas" else ():
            scaled = _is_scaled(plan)
            fact = plan.fleet.max_replicas if scaled else plan.fleet.replicas
            if fact.origin is not None and fact.only is not None:
                number = f"{fact.only} {'replica' if fact.only == 1 else 'replicas'}"
                found.append(Note(fact.origin, f"up to {number}" if scaled else number))
        return tuple(found)


def _is_scaled(plan: ServingPlan) -> bool:
    """An autoscaler may make more replicas than are stated."""
    return (plan.fleet.max_replicas.only or 0) > (plan.fleet.replicas.only or 0)


def choice(world: RouterWorld) -> Choice | None:
    """What there is to choose among, each with a prefix cache; None: nothing, or not known."""
    router = world.router
    if router.chooses != "replicas" or not router.sure or _decided_elsewhere(world):
        return None
    listed = router.choices.only
    unit = "data-parallel ranks" if router.within else "replicas"
    if not world.plans and router.backends:
        return None  # it leads to routers, which choose by themselves
    if not world.plans:
        if not router.engines or (router.choices.is_known and (listed or 0) < 2):
            return None
        if listed is None and not router.choices.is_unset:
            return None
        return Choice(listed, (), unit)
    plans = _most([plan for plan in world.plans if plan.id not in world.turnless])
    if not plans or (router.within and _part(plans[0]) == "decode"):
        return None  # ranks that go on with what others have computed meet no prefix
    count = (listed or 0) if router.within else sum(map(replicas, plans))
    if router.choices.is_known and router.engines:
        count = max(count, listed or 0)
    return Choice(count, plans, unit) if count > 1 else None


BYPASSING: Final = ("ingress-nginx", "istio", "gateway-policy")
"""What sends requests to the pods of a Service itself, and leaves the choice to nobody."""


OPEN: Final = ("ingress", "gateway", "gateway-policy")
"""What may send to the pods of a Service itself: so it is taken to, where it is not sure."""


def _decided_elsewhere(world: RouterWorld) -> bool:
    """Another router chooses among the same replicas: this one is there for something else."""
    if world.router.within:
        return any(item.ranks for item in world.beside)
    if world.router.kind != "service":
        return False
    if any(item.chooses == "replicas" and item.kind in BYPASSING for item in world.before):
        return True
    if any(item.kind in OPEN and not item.sure for item in world.before):
        return True
    return any(item.awareness or item.chooses == "elsewhere" for item in world.beside)


def _most(plans: Sequence[ServingPlan]) -> tuple[ServingPlan, ...]:
    """Those that serve one model: a request for it has no other choice. The model with most.

    What computes prompts for others is no replica of what goes on with them.
    """
    models: dict[tuple[str, str], list[ServingPlan]] = {}
    for plan in plans:
        if caches(plan):
            models.setdefault((plan.model.only or "", _part(plan)), []).append(plan)
    found = list(models.values())
    return tuple(max(found, key=lambda group: sum(map(replicas, group)), default=[]))


PARTS: Final = {"kv_producer": "prefill", "kv_consumer": "decode", "prefill": "prefill",
                "decode": "decode"}  # fmt: skip
"""Parts of a request, as an option says which of them is done."""


def _part(plan: ServingPlan) -> str:
    """The part of each request that it does: "prefill" or "decode"; empty: the whole, as far as
    is said."""
    if plan.role in PARTS:
        return PARTS[plan.role]
    for flag in plan.flags:
        if flag.flag in ("--kv-transfer-config", "--disaggregation-mode") and flag.value:
            said = flag.value.value or ""
            return next((part for word, part in PARTS.items() if word in said), "")
    return ""


def replicas(plan: ServingPlan) -> int:
    """How many there are, where an autoscaler adds some at its most; one where nothing is said."""
    stated = 1 if plan.fleet.replicas.is_unset else plan.fleet.replicas.only or 0
    return max(stated, plan.fleet.max_replicas.only or 0)


def caches(plan: ServingPlan) -> bool:
    """Prefix caching is on unless it is switched off."""
    return plan.memory.prefix_caching.only is not False


class RoutingRule(Rule):
    """A rule about one router, whose severity hangs on what the requests share."""

    scope: ClassVar[Scope] = "router"
    severity: ClassVar[Severity] = "warning"

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        severity = matters(world.workload)
        found = choice(world) if severity is not None else None
        if found is not None and self.meets(world.router):
            name = conversation(world.router, found.plans) if severity == "info" else None
            turns = f"; by its name, `{name}` is asked in conversations" if name else ""
            severity = "warning" if name else severity
            yield Found(
                message=f"{self.says(world.router, found)}{turns}",
                at=world.router.policy.origin or world.router.origin,
                severity=severity,
                help=self.cure(world.router),
                related=found.notes,
                repair=Repair("router", "routing"),
            )

    def meets(self, router: Router) -> bool:
        raise NotImplementedError

    def says(self, router: Router, found: Choice) -> str:
        raise NotImplementedError

    def cure(self, router: Router) -> str:
        if router.within:
            first = (
                "a router that looks at prefixes, over one endpoint for each rank (external load"
                " balancing) or over engines of their own"
            )
        elif router.kind == "service":
            first = "an InferencePool with an endpoint picker, or another prefix-aware router"
        else:
            first = "a policy that looks at prefixes and load, or at sessions"
        return f"{first}; {PUBLISHED}"


def remarks(router: Router, kind: str) -> Iterator[Remark]:
    """What a router's reader, or its links, say of it."""
    return (remark for remark in router.remarks if remark.kind == kind)


def told(router: Router, kind: str, field: str, severity: Severity | None) -> Iterator[Found]:
    """The remarks of one kind as findings; `severity` in place of their own."""
    for remark in remarks(router, kind):
        yield Found(
            message=remark.message,
            at=remark.at,
            severity=severity or remark.severity,
            help=remark.help,
            related=tuple(Note(origin, text) for origin, text in remark.related),
            repair=Repair("router", field),
        )


def policy_words(router: Router) -> str:
    """The policy for people: its name, and whether it is a default."""
    policy = router.policy.only
    if policy is None or policy == "kubernetes-service":
        return "a Service" if router.kind == "service" else "this router"
    return policy if router.explicit else f"{policy}, the default,"
