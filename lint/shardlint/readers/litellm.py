"""The LiteLLM proxy: entries of one `model_name` are replicas, and `routing_strategy` chooses.

Facts of routing, sections 1 and 4 (BerriAI/litellm, litellm/types/router.py at 0044fbe). No
strategy looks at prefixes; `optional_pre_call_checks` can make requests stick.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Refusal, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import MadeSite, Tree, add_entry
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.source import Edit, Source

_KEY = re.compile(r"^[\"']?model_list[\"']?:", re.MULTILINE)
DEFAULT: Final = "simple-shuffle"
AWARE: Final[dict[str, frozenset[str]]] = {
    "simple-shuffle": frozenset(), "cost-based-routing": frozenset(),
    "least-busy": frozenset({"load"}), "usage-based-routing": frozenset({"load"}),
    "usage-based-routing-v2": frozenset({"load"}), "latency-based-routing": frozenset({"load"}),
}  # fmt: skip
CHECKS: Final[dict[str, frozenset[str]]] = {
    "prompt_caching": frozenset({"prefix"}), "session_affinity": frozenset({"session"}),
    "deployment_affinity": frozenset({"session"}),
    "responses_api_deployment_check": frozenset(),
}  # fmt: skip
STICKY: Final = "session_affinity"


class LiteLLMReader:
    """`model_list` of LiteLLM."""

    name = "litellm"
    kinds = ()
    look: bytes | None = b"litellm_params"

    def accepts(self, source: Source) -> bool:
        return _KEY.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, _ = read_yaml(source)
        return ReadResult(
            routers=tuple(router for at, root in enumerate(roots)
                          for router in _routers(root, f"{at}:"))
        )  # fmt: skip


def _routers(root: Node, path: str) -> Iterator[Router]:
    listed = root.get("model_list")
    if listed is None or listed.kind != "list":
        return
    groups: dict[str, list[Node]] = {}
    for item in listed.items:
        if item.get("litellm_params") is not None and (name := item.string("model_name")):
            groups.setdefault(name, []).append(item)
    if not groups:
        return
    # Entries without an address are of a provider, whose caches are its own affair.
    hosted = {name: [item for item in items if _base(item) is not None]
              for name, items in groups.items()}  # fmt: skip
    most = max(hosted.values(), key=len)
    yield _router(root, path, most, next(iter(groups.values()))[0])


def _base(item: Node) -> str | None:
    found = item.string("litellm_params", "api_base")
    return None if found is None or "api.openai.com" in found else found


def _router(root: Node, path: str, group: list[Node], first: Node) -> Router:
    settings = root.get("router_settings")
    stated = settings.get("routing_strategy") if settings is not None else None
    word = stated.value if stated is not None else DEFAULT
    shown = group[0] if group else first
    origin = stated.origin if stated is not None else (shown.get("model_name") or shown).origin
    policy: Known[str] = Known.of(word, origin, how="stated" if stated else "defaulted")
    reason = placeholder(word) or (
        f"the strategy is {word}" if word.startswith("os.environ/") else None
    )
    if reason is not None:
        policy = Known.unknown(reason, origin)
    checks = settings.get("optional_pre_call_checks") if settings is not None else None
    named = [item.value for item in checks.items] if checks is not None else []
    more = frozenset().union(*(CHECKS.get(name, frozenset()) for name in named))
    targets = tuple(base for item in group if (base := _base(item)) is not None)
    return Router(
        id=f"{root.source.name}#{path}/router_settings",
        name="litellm",
        kind="litellm",
        file=root.source.name,
        path=f"{path}/router_settings",
        origin=origin,
        policy=policy,
        explicit=stated is not None,
        awareness=AWARE.get(word, frozenset()) | more,
        sure=reason is None and word in AWARE,
        choices=Known.of(len(targets), how="derived"),
        targets=tuple(dict.fromkeys(targets)),
        engines=True,
        names=("litellm", "litellm-proxy"),
        anchors=((root.get("router_settings") or shown).span,),
        offers=() if more else (_sticky(root, settings),),
    )


def _sticky(root: Node, settings: Node | None) -> Offer:
    def made(_value: str) -> list[Edit] | Refusal:
        entry: Tree = [STICKY]
        if settings is None:
            return add_entry(root, "router_settings", {"optional_pre_call_checks": entry})
        return add_entry(settings, "optional_pre_call_checks", entry)

    return Offer(
        cures="routing", title=f"`optional_pre_call_checks: [{STICKY}]`, in releases that have it",
        delta={"routing": "session-hash"}, site=MadeSite(made),
    )  # fmt: skip
