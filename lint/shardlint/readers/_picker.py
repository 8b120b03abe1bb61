"""The configuration of an endpoint picker: which scorers choose, and what they look at.

Facts of routing, section 3 (llm-d/llm-d-router, `pkg/epp/config`, and its predecessors). A plugin
without a name goes by its type; a scorer without a weight weighs 1, one with a weight of 0 has no
say; without profiles there is one of all that is declared; a random picker takes no notice of
scores. What reads requests, admits them or fetches data is no part of a profile's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Refusal
from shardlint.readers.edits import MadeSite, TextSite, add_item
from shardlint.readers.keyed import KeySite
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Edit

KIND: Final = "EndpointPickerConfig"
DEFAULT: Final = "epp-default"
"""What is chosen by where nothing is configured: queue, use of the KV cache, prefixes."""

LOOKS: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "prefix-cache-scorer": frozenset({"prefix"}),
    "precise-prefix-cache-scorer": frozenset({"prefix", "kv"}),
    "prefix-cache-affinity-filter": frozenset({"prefix"}),
    "no-hit-lru-scorer": frozenset({"prefix", "load"}),
    "queue-scorer": frozenset({"load"}),
    "kv-cache-utilization-scorer": frozenset({"load"}),
    "running-requests-size-scorer": frozenset({"load"}),
    "active-request-scorer": frozenset({"load"}),
    "load-aware-scorer": frozenset({"load"}),
    "token-load-scorer": frozenset({"load"}),
    "latency-scorer": frozenset({"load"}),
    "session-affinity-scorer": frozenset({"session"}),
    "session-affinity-filter": frozenset({"session"}),
    "utilization-filter": frozenset({"load"}),
    "slo-headroom-tier-filter": frozenset({"load"}),
    "mm-embeddings-cache-scorer": frozenset(),
    "header-label-affinity-scorer": frozenset(),
    "lora-affinity-scorer": frozenset(),
    "context-length-aware-scorer": frozenset(),
    "context-length-aware": frozenset(),
    "topology-affinity-scorer": frozenset(),
    "dyn-decode-scorer": frozenset({"prefix", "kv", "load"}),
    "dyn-prefill-scorer": frozenset({"prefix", "kv", "load"}),
})  # fmt: skip
"""What known plugins look at. Of a scorer that is not here nothing is known.

The last two are Dynamo's, whose KV router chooses there (ai-dynamo/dynamo, recipes with `gaie`).
"""

PRODUCER: Final = "precise-prefix-cache-producer"
EVENTS: Final = "endpoint-notification-source"
RANDOM: Final = "random-picker"
DEFAULT_PICKER: Final = "max-score-picker"
PICKERS: Final = (RANDOM, DEFAULT_PICKER, "weighted-random-picker")
"""Without scores, each of them takes any."""


@record(kw_only=True)
class Picker:
    """How an endpoint picker chooses; `sure` is False where a scorer is not known."""

    policy: Known[str]
    explicit: bool
    awareness: frozenset[str]
    sure: bool = True
    offers: tuple[Offer, ...] = ()


def picker(config: Node) -> Picker:
    """What a map of kind EndpointPickerConfig says."""
    declared = dict(_declared(config))
    if not declared:
        return Picker(
            policy=Known.of(DEFAULT, config.origin, how="defaulted"),
            explicit=False,
            awareness=frozenset({"prefix", "load"}),
        )
    profiles = _profiles(config, declared)
    types = [declared.get(name, name) for profile in profiles for name in profile.counted(declared)]
    scorers = list(dict.fromkeys(kind for kind in types if _is_scorer(kind)))
    aware = frozenset().union(*(LOOKS.get(kind, frozenset()) for kind in types))
    if "prefix" in aware and _by_events(config):
        aware |= {"kv"}
    picks = next((kind for kind in types if kind.endswith("-picker")), DEFAULT_PICKER)
    place = profiles[0].place(scorers[0] if scorers else picks) or config
    # A scorer that is not known takes nothing from those that look at both.
    both = {"prefix", "load"} <= aware
    return Picker(
        policy=Known.of("+".join(scorers) or picks, place.origin),
        explicit=True,
        awareness=aware,
        sure=both or (picks in PICKERS and all(kind in LOOKS for kind in scorers)),
        offers=tuple(_offers(config, declared, profiles, aware)),
    )


def _is_scorer(kind: str) -> bool:
    return kind.endswith("-scorer")


def _declared(config: Node) -> Iterator[tuple[str, str]]:
    listed = config.get("plugins")
    for item in listed.items if listed is not None else ():
        if (kind := item.string("type")) is not None:
            yield item.string("name") or kind, kind


@record
class _Profile:
    """One scheduling profile: its list of plugins, their names in order, and those that weigh 0."""

    node: Node | None
    names: tuple[str, ...]
    weightless: frozenset[str] = frozenset()

    def counted(self, declared: Mapping[str, str]) -> tuple[str, ...]:
        """The plugins that have a say."""
        kinds = {declared.get(name, name) for name in self.names}
        mute = set(self.names) if RANDOM in kinds else self.weightless
        return tuple(name for name in self.names
                     if name not in mute or not _is_scorer(declared.get(name, name)))  # fmt: skip

    def place(self, name: str) -> Node | None:
        """Where a plugin is referred to."""
        row = self.row(name)
        return row.get("pluginRef") if row is not None else self.node

    def row(self, name: str) -> Node | None:
        """The entry that refers to a plugin."""
        rows = self.node.items if self.node is not None else ()
        return next((row for row in rows if row.string("pluginRef") == name), None)


def _profiles(config: Node, declared: Mapping[str, str]) -> list[_Profile]:
    listed = config.get("schedulingProfiles")
    found = []
    for item in listed.items if listed is not None else ():
        plugins = item.get("plugins")
        rows = plugins.items if plugins is not None else ()
        named = [(name, row) for row in rows if (name := row.string("pluginRef")) is not None]
        weightless = frozenset(name for name, row in named if _is_zero(row.string("weight")))
        found.append(_Profile(plugins, tuple(name for name, _ in named), weightless))
    return found or [_Profile(config.get("plugins"), tuple(declared))]


def _is_zero(weight: str | None) -> bool:
    return weight is not None and re.fullmatch(r"0+(\.0*)?", weight) is not None


def _by_events(config: Node) -> bool:
    """Prefixes are matched with what engines report: a precise producer that is told of events."""
    listed = config.get("plugins")
    rows = listed.items if listed is not None else []
    kinds = {row.string("type") for row in rows}
    for row in rows:
        if row.string("type") == PRODUCER:
            return EVENTS in kinds or row.get("parameters", "kvEventsConfig") is not None
    return "precise-prefix-cache-scorer" in kinds


# -------------------------------------------------------------------------------------- offers


def _offers(
    config: Node, declared: Mapping[str, str], profiles: list[_Profile], aware: frozenset[str]
) -> Iterator[Offer]:
    """A load scorer beside the prefix scorer, or the other way round."""
    if "load" not in aware and "prefix" in aware:
        word = "kv-aware" if "kv" in aware else "prefix-aware"
        yield _with_scorer(config, declared, profiles, "queue-scorer", "1", word)
    elif "prefix" not in aware:
        name = "prefix-cache-scorer"
        yield _with_scorer(config, declared, profiles, name, "3", "prefix-aware")


def _with_scorer(
    config: Node,
    declared: Mapping[str, str],
    profiles: list[_Profile],
    scorer: str,
    weight: str,
    word: str,
) -> Offer:
    deaf = RANDOM in {declared.get(name, name) for profile in profiles for name in profile.names}

    def made(_value: str) -> list[Edit] | Refusal:
        steps: list[list[Edit] | Refusal] = []
        if scorer not in declared:
            steps.append(_added(config.get("plugins"), {"type": scorer}))
        for profile in profiles if config.get("schedulingProfiles") is not None else ():
            if profile.names and (row := profile.row(scorer)) is None:
                steps.append(_added(profile.node, {"pluginRef": scorer, "weight": weight}))
            elif profile.names and row is not None and scorer in profile.weightless:
                steps.append(KeySite(row, "weight").set(weight))
        if deaf:
            steps.append(_listening(config, profiles))
        edits: list[Edit] = []
        for step in steps:
            if isinstance(step, Refusal):
                return step
            edits += step
        return edits or Refusal("nothing is left to add")

    instead = f", and `{DEFAULT_PICKER}` for `{RANDOM}`, which takes no notice of scores"
    return Offer(cures="routing", title=f"`{scorer}` with weight {weight}{instead * deaf}",
                 delta={"routing": word, "scorer": scorer}, site=MadeSite(made))  # fmt: skip


def _listening(config: Node, profiles: list[_Profile]) -> list[Edit] | Refusal:
    """The picker that goes by the scores in place of the random one, also where it is named."""
    listed = config.get("plugins")
    texts = []
    for row in listed.items if listed is not None else ():
        kind = row.get("type")
        if kind is not None and kind.value == RANDOM:
            texts.append(kind.text())
            if row.get("name") is None:
                refs = [found.get("pluginRef") for profile in profiles
                        if (found := profile.row(RANDOM)) is not None]  # fmt: skip
                texts += [ref.text() for ref in refs if ref is not None]
    return TextSite(tuple(texts)).set(DEFAULT_PICKER)


def _added(node: Node | None, entry: dict[str, str]) -> list[Edit] | Refusal:
    if node is None:
        return Refusal("there is no list of plugins")
    return add_item(node, dict(entry))
