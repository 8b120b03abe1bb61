"""The frontend of a Dynamo graph as a router: its mode, and the events that the mode lives on.

Facts of routing, section 4 (ai-dynamo/dynamo, docs/components/router at 02a5f28; ai-dynamo 1.6.1).
In mode `kv` a frontend follows what workers report of their caches, and does not fall back to
prediction where none does. A worker reports only if it is told to; images before 1.0 did by
themselves. Each frontend process has an index of its own unless they are told to share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from shardlint.known import Known, Text
from shardlint.plan import Offer, Refusal, Remark, Router, ServingPlan, version
from shardlint.platforms import dynamo
from shardlint.readers.edits import MadeSite, TextSite, add_entry, add_item, insert_items
from shardlint.readers.keyed import KeySite
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Edit, Origin

EVENTS: Final = "--kv-events-config"
PUBLISHING: Final = (EVENTS, "--publish-events-and-metrics", "--publish-events")
PREDICTS: Final = ("--no-router-kv-events", "--no-kv-events")
SYNCS: Final = ("--router-replica-sync", "DYN_ROUTER_REPLICA_SYNC")
BY_THEMSELVES_BEFORE: Final = "1.0"
EVENT_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": (EVENTS, '\'{"enable_kv_cache_events":true,"publisher":"zmq","topic":"kv-events",'
                     '"endpoint":"tcp://*:5557"}\''),
    "sglang": (EVENTS, '\'{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557"}\''),
    "trtllm": ("--publish-events-and-metrics",),
}  # fmt: skip
"""What a worker is told, so that it publishes; see the examples of the project."""

BEHIND_OTHERS = ("prefill", "encode")
"""Roles of workers that other workers call, and not the frontend."""


class Part(Protocol):
    """What is asked of a component of a graph (`readers.dynamo.Component`)."""

    @property
    def object(self) -> Node: ...

    @property
    def node(self) -> Node: ...

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def older(self) -> bool: ...

    @property
    def place(self) -> Origin: ...

    def main(self) -> tuple[Node, str] | None: ...


@record(kw_only=True)
class Frontend:
    """A frontend with its words, the stated mode, and the plans and containers behind it."""

    of: Part
    policy: Known[str]
    stated: Text | None
    words: frozenset[str]
    plans: Sequence[ServingPlan]
    workers: Mapping[str, Node]
    """The containers of the plans, by the id of each."""

    def router(self) -> Router:
        of, policy = self.of, self.policy
        known = policy.only in dynamo.ROUTING
        behind = [plan for plan in self.plans if plan.role not in BEHIND_OTHERS] if known else []
        return Router(
            id=f"{of.object.source.name}#{of.path}",
            name="/".join(part for part in (of.object.string("metadata", "name"), of.name) if part),
            kind="dynamo-frontend",
            file=of.object.source.name,
            path=of.path,
            origin=policy.origin or of.place,
            namespace=of.object.string("metadata", "namespace"),
            policy=policy,
            explicit=policy.how == "stated" and policy.is_known,
            awareness=self._looks(),
            ranks=policy.only == "kv",
            sure=known,
            chooses="elsewhere" if policy.only == "direct" else "replicas",
            backends=tuple(plan.id for plan in behind),
            engines=bool(behind),
            state="process" if policy.only == "kv" and not self.words & {*SYNCS} else None,
            replicas=self._replicas(),
            remarks=tuple(self._silent()),
            offers=tuple(self._offers()),
            anchors=(of.object.span, of.node.span),
        )

    def _looks(self) -> frozenset[str]:
        """What the mode looks at: without events it goes by what it has routed itself."""
        looks = dynamo.ROUTING.get(self.policy.only or "", frozenset())
        if self.policy.only == "kv" and "--load-aware" in self.words:
            return frozenset({"load"})
        return looks - {"kv"} if self.words & {*PREDICTS} else looks

    def _replicas(self) -> Known[int]:
        place = self.of.node.pair("replicas")
        return integer(place[1]).at(place[0].origin) if place is not None else Known.unset()

    # ------------------------------------------------------------------------------- events

    def _silent(self) -> Iterator[Remark]:
        """A remark where no worker publishes what the mode lives on."""
        plans = self._mute()
        if self.policy.only != "kv" or self.words & {*PREDICTS} or not plans:
            return
        first = plans[0]
        yield Remark(
            kind="kv-events",
            at=self.policy.origin or self.of.place,
            severity="warning",
            message="mode kv follows the events of the workers' caches, and no worker publishes"
            " any: its index stays empty, and it does not predict instead",
            help=f"`{self._flag}` on every worker, or `{PREDICTS[0]}` on the frontend",
            related=((first.origin, f"{first.name} publishes nothing"),),
        )

    def _mute(self) -> list[ServingPlan]:
        """The plans, where it is certain that none of them publishes."""
        if any(self._publishes(plan) for plan in self.plans):
            return []
        return list(self.plans)

    def _publishes(self, plan: ServingPlan) -> bool:
        if any(word.value is None for word in plan.argv):
            return True
        words = {(word.value or "").partition("=")[0] for word in plan.argv}
        found = re.match(r"v?(\d+\.\d+)", plan.tag.only or plan.image.only or "")
        tag = version(found[1]) if found else None
        least = version(BY_THEMSELVES_BEFORE)
        older = tag is not None and least is not None and tag < least
        return bool(words & {*PUBLISHING}) or older

    # ------------------------------------------------------------------------------- offers

    @property
    def _flag(self) -> str:
        """The option by which a worker is told to publish."""
        engine = self.plans[0].engine if self.plans else None
        return EVENT_WORDS.get(engine or "", (EVENTS,))[0]

    def _offers(self) -> Iterator[Offer]:
        replicas = self.of.node.get("replicas")
        if replicas is not None:
            yield Offer(cures="state", title="1 frontend", delta={"router_replicas": 1},
                        site=KeySite(self.of.node, "replicas"), value="1")  # fmt: skip
        if not self.plans:
            return
        yield Offer(
            cures="kv_events", title=f"`{self._flag}` on every worker",
            delta={"add_flag": self._flag}, site=MadeSite(self._published),
        )  # fmt: skip
        if self.policy.only != "kv":
            yield Offer(
                cures="routing", title=f"mode kv, and `{self._flag}` on every worker",
                delta={"routing": "kv-aware"}, site=MadeSite(self._by_events),
            )  # fmt: skip

    def _published(self, _value: str) -> list[Edit] | Refusal:
        edits: list[Edit] = []
        for plan in self._mute():
            node = self.workers.get(plan.id)
            words = EVENT_WORDS.get(plan.engine or "")
            arguments = node.get("args") if node is not None else None
            if words is None or arguments is None or not arguments.items:
                return Refusal(f"{plan.name} has no list of arguments to write into")
            if len(arguments.items) == 1 and " " in arguments.items[0].value:
                return Refusal(f"{plan.name} is started by a script")
            made = insert_items(arguments, arguments.items[-1], words)
            if isinstance(made, Refusal):
                return made
            edits += made
        return edits

    def _by_events(self, _value: str) -> list[Edit] | Refusal:
        mode = self._mode()
        if isinstance(mode, Refusal):
            return mode
        if any(self._publishes(plan) for plan in self.plans):
            return mode
        events = self._published("")
        return events if isinstance(events, Refusal) else [*mode, *events]

    def _mode(self) -> list[Edit] | Refusal:
        if self.stated is not None:
            return TextSite((self.stated,)).set("kv")
        entry = {"name": dynamo.ROUTER_VARIABLE, "value": "kv"}
        found = self.of.main()
        for node, key in ((self.of.node, "envs"), (found[0] if found else None, "env")):
            listed = node.get(key) if node is not None else None
            if listed is not None and listed.items:
                return add_item(listed, dict(entry))
        if self.of.older:
            return add_entry(self.of.node, "envs", [dict(entry)])
        return add_entry(found[0], "env", [dict(entry)]) if found else Refusal("no container")
