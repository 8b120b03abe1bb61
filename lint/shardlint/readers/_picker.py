"""The configuration of an endpoint picker: which scorers choose, and what they look at.

Facts of routing, section 3 (llm-d/llm-d-router, `pkg/epp/config`, and its predecessors). A plugin
without a name goes by its type; a scorer without a weight weighs 1; without profiles there is one
of all that is declared; a random picker takes no notice of scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Refusal
from shardlint.readers.edits import MadeSite, add_item
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
    "lora-affinity-scorer": frozenset(),
    "context-length-aware-scorer": frozenset(),
    "context-length-aware": frozenset(),
    "topology-affinity-scorer": frozenset(),
})  # fmt: skip
"""What known plugins look at. Of a scorer that is not here nothing is known."""

PRODUCER: Final = "precise-prefix-cache-producer"
EVENTS: Final = "endpoint-notification-source"
RANDOM: Final = "random-picker"


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
    profiles = _profiles(config, declared)
    used = [name for profile in profiles for name in profile.names]
    if not any(_is_scorer(declared.get(name, name)) or declared.get(name, name) in LOOKS
               for name in used):  # fmt: skip
        return _without_scorers(config, declared, used)
    types = [declared.get(name, name) for profile in profiles for name in profile.counted(declared)]
    scorers = list(dict.fromkeys(kind for kind in types if _is_scorer(kind)))
    aware = frozenset().union(*(LOOKS.get(kind, frozenset()) for kind in types))
    if "prefix" in aware and _by_events(config):
        aware |= {"kv"}
    words = "+".join(scorers) or RANDOM
    place = profiles[0].place(scorers[0] if scorers else RANDOM) or config
    return Picker(
        policy=Known.of(words, place.origin),
        explicit=True,
        awareness=aware,
        sure=all(kind in LOOKS for kind in scorers),
        offers=tuple(_offers(config, declared, profiles, aware)),
    )


def _without_scorers(config: Node, declared: Mapping[str, str], used: list[str]) -> Picker:
    """Nothing but a picker: it takes any; with no plugin at all the default is filled in."""
    if not declared:
        return Picker(
            policy=Known.of(DEFAULT, config.origin, how="defaulted"),
            explicit=False,
            awareness=frozenset({"prefix", "load"}),
        )
    sure = all(kind.endswith(("-picker", "-filter", "-handler")) for kind in declared.values())
    picks = next((name for name in used if declared.get(name, name).endswith("-picker")), RANDOM)
    return Picker(
        policy=Known.of(declared.get(picks, picks), config.origin),
        explicit=True,
        awareness=frozenset(),
        sure=sure,
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
    """One scheduling profile: its list of plugins, and their names in order."""

    node: Node | None
    names: tuple[str, ...]

    def counted(self, declared: Mapping[str, str]) -> tuple[str, ...]:
        """The plugins that have a say."""
        kinds = {declared.get(name, name) for name in self.names}
        if RANDOM not in kinds:
            return self.names
        return tuple(name for name in self.names if not _is_scorer(declared.get(name, name)))

    def place(self, name: str) -> Node | None:
        """Where a plugin is referred to."""
        for item in self.node.items if self.node is not None else ():
            if (found := item.get("pluginRef")) is not None and found.value == name:
                return found
        return self.node


def _profiles(config: Node, declared: Mapping[str, str]) -> list[_Profile]:
    listed = config.get("schedulingProfiles")
    found = []
    for item in listed.items if listed is not None else ():
        plugins = item.get("plugins")
        rows = plugins.items if plugins is not None else ()
        names = tuple(name for row in rows if (name := row.string("pluginRef")) is not None)
        found.append(_Profile(plugins, names))
    return found or [_Profile(config.get("plugins"), tuple(declared))]


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
    def made(_value: str) -> list[Edit] | Refusal:
        edits: list[Edit] = []
        if scorer not in declared:
            added = _added(config.get("plugins"), {"type": scorer})
            if isinstance(added, Refusal):
                return added
            edits += added
        for profile in profiles if config.get("schedulingProfiles") is not None else ():
            if scorer in profile.names or not profile.names:
                continue
            added = _added(profile.node, {"pluginRef": scorer, "weight": weight})
            if isinstance(added, Refusal):
                return added
            edits += added
        return edits or Refusal("nothing is left to add")

    return Offer(cures="routing", title=f"`{scorer}` with weight {weight}",
                 delta={"routing": word, "scorer": scorer}, site=MadeSite(made))  # fmt: skip


def _added(node: Node | None, entry: dict[str, str]) -> list[Edit] | Refusal:
    if node is None:
        return Refusal("there is no list of plugins")
    return add_item(node, dict(entry))
