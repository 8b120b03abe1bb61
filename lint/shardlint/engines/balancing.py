"""How engines choose among data-parallel ranks of their own: facts of routing, section 2.

vLLM 0.33.0 (`v1/engine/core_client.py`): requests that wait or run, more where the cache is full;
SGLang 0.5.23 (`managers/data_parallel_controller.py`): in turn, unless another method is given. No
method of either looks at prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from shardlint.known import Known, Text
from shardlint.plan import Flag, Offer, Router, ServingPlan

SGLANG_METHODS: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "round_robin": frozenset(),
    "follow_bootstrap_room": frozenset(),
    "total_requests": frozenset({"load"}),
    "total_tokens": frozenset({"load"}),
    "shortest_queue": frozenset({"load"}),
    "minimum_tokens": frozenset({"load"}),
})  # fmt: skip
"""What a method looks at; the last two are names of older releases."""

SGLANG_DEFAULT: Final = "round_robin"


def of_vllm(plan: ServingPlan) -> Router | None:
    """Balanced inside, or inside of each node; with one endpoint for each rank, not at all."""
    names = {flag.flag for flag in plan.flags if not flag.negated}
    if names & {"--data-parallel-external-lb", "--data-parallel-multi-port-external-lb"}:
        return None
    if "--headless" in names or plan.layout.dp_rank.only is not None:
        return None
    hybrid = _last(plan, "--data-parallel-hybrid-lb") or _last(
        plan, "--data-parallel-start-rank"
    )  # which implies it on a node with API servers
    dp = plan.effective.dp
    if hybrid is not None and not hybrid.negated:
        policy = Known.of("hybrid-lb", hybrid.written.origin)
        return _router(plan, policy, frozenset({"load"}), plan.effective.dp_local)
    if dp.only is None or dp.only < 2 or plan.layout.dp.is_unset:
        return None
    policy = Known.of("internal-lb", plan.layout.dp.origin, how="defaulted")
    return _router(plan, policy, frozenset({"load"}), dp)


def of_sglang(plan: ServingPlan) -> Router | None:
    """The method that is stated, else each rank in its turn.

    The launcher of the router starts a server for each rank, and balances them itself.
    """
    if any((word.value or "").startswith("sglang_router") for word in plan.argv):
        return None
    stated = option(plan.argv, "--load-balance-method")
    ranks = plan.layout.dp
    word = stated.value if stated is not None else None
    if stated is None or word == "auto":
        if ranks.only is None or ranks.only < 2:
            return None
        prefill = plan.role == "prefill"
        word = "follow_bootstrap_room" if prefill else SGLANG_DEFAULT
        policy = Known.of(word, ranks.origin, how="defaulted")
        found = _router(plan, policy, SGLANG_METHODS[word], ranks)
        return replace(found, offers=tuple(_apart(plan)))
    if word is None or word not in SGLANG_METHODS:
        return None
    policy = Known.of(word, stated.origin)
    return _router(plan, policy, SGLANG_METHODS[word], ranks.or_default(Known.of(1)))


SERVER: Final = "sglang.launch_server"
ROUTED: Final = "sglang_router.launch_server"
ONE_ENGINE: Final = ("--enable-dp-attention", "--attn-dp-size", "--attention-data-parallel-size",
                     "--nnodes", "--dist-init-addr", "--disaggregation-mode")  # fmt: skip
"""Options of ranks that are parts of one engine, of one that spans nodes, of half a request."""


def _apart(plan: ServingPlan) -> Iterator[Offer]:
    """The router's own launcher, which takes the same options and starts a server for each rank.

    sgl-project/sglang, sgl-router/README.md: "a drop-in replacement for the existing `--dp-size`".
    """
    words = [word.value for word in plan.argv]
    names = {(word or "").partition("=")[0].replace("_", "-") for word in words}
    site = plan.sites.get("module")
    if site is None or SERVER not in words or None in words or names & {*ONE_ENGINE}:
        return
    yield Offer(
        cures="routing", value=ROUTED, site=site,
        title=f"`{ROUTED}`, where sglang-router is installed: a server for each rank behind a"
        " router that looks at prefixes and load",
        delta={"routing": "prefix-aware"},
    )  # fmt: skip


def option(argv: Sequence[Text], name: str) -> Text | None:
    """The value of an option among words, the last that is given; None without one."""
    found: Text | None = None
    for at, word in enumerate(argv):
        written, equals, _ = (word.value or "").partition("=")
        if written == name and equals:
            found = word.part(len(name) + 1)
        elif written == name and at + 1 < len(argv):
            found = argv[at + 1]
    return found


def _last(plan: ServingPlan, name: str) -> Flag | None:
    found = [flag for flag in plan.flags if flag.flag == name]
    return found[-1] if found else None


def _router(
    plan: ServingPlan, policy: Known[str], awareness: frozenset[str], ranks: Known[Any]
) -> Router:
    return Router(
        id=f"{plan.id}/ranks",
        name=f"{plan.name} ranks",
        kind="data-parallel",
        file=plan.file,
        path=plan.path,
        origin=policy.origin or plan.origin,
        namespace=plan.namespace,
        policy=policy,
        explicit=policy.how == "stated",
        awareness=awareness,
        backends=(plan.id,),
        choices=ranks.map(int) if ranks.only is not None else Known.unknown("it is not decided"),
        engines=True,
        within=True,
        anchors=plan.anchors,
        elsewhere=plan.elsewhere,
        suppressed=plan.suppressed,
    )


# -------------------------------------------------------------------------------------- events

EVENTS: Final = "--kv-events-config"


def publishes(plan: ServingPlan) -> bool | None:
    """Whether the engine tells a router what its cache holds; None: that is not certain."""
    words = [word.value for word in plan.argv]
    if any((word or "").partition("=")[0].replace("_", "-") == EVENTS for word in words):
        return True
    told = [fact.only for fact in plan.placement.env.values()]
    known = None not in words and plan.open_ended is None and plan.placement.env_open is None
    return False if known and None not in told and not any("kv-events" in text for text in told
                                                           if text) else None  # fmt: skip
