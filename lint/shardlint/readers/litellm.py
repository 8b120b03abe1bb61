"""The LiteLLM proxy: entries of one `model_name` are replicas, and `routing_strategy` chooses.

Facts of routing, sections 1 and 4 (BerriAI/litellm, litellm/types/router.py at 0044fbe). No
strategy looks at prefixes; `optional_pre_call_checks` can make requests stick. Of entries with an
`order` only those of the lowest get requests, as long as one of them is healthy; two entries with
one `api_base` are one server with two keys. A configuration is a file, an entry of a ConfigMap, or
`proxy_config` in the values of LiteLLM's chart or of one that has it as a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from shardlint.known import Known
from shardlint.links import host_of
from shardlint.models.names import pools
from shardlint.plan import Offer, Refusal, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import MadeSite, Tree, add_entry
from shardlint.readers.inner_yaml import inner
from shardlint.readers.objects import elsewhere, read_objects, siblings
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.source import Edit, Source

_KEY = re.compile(r"^[ \t]*[\"']?model_list[\"']?:", re.MULTILINE)
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
CHART: Final = "proxy_config"
STICKY: Final = "session_affinity"
OWN: Final = frozenset(
    {"openai", "custom_openai", "openai_like", "text-completion-openai", "hosted_vllm", "vllm",
     "huggingface", "ollama", "ollama_chat", "llamafile", "lm_studio", "xinference", "nvidia_nim",
     "docker_model_runner", "triton", "litellm_proxy"}
)  # fmt: skip
"""Providers that stand for a server of one's own, where an address is given."""

HOSTED: Final = re.compile(
    r"(?:^|\.)(openai\.(?:com|azure\.com)|(?:azure|anthropic|googleapis|deepseek|groq|minimax|cohere|"
    r"databricks|deepinfra|nvidia|aliyuncs|volces|baidubce|siliconflow|snowflakecomputing)\.com|"
    r"(?:openrouter|fireworks|mistral|cohere|x|perplexity|novita|cerebras|sambanova|together|"
    r"nebius|replicate|anyscale)\.(?:ai|com)|together\.xyz|hyperbolic\.xyz|huggingface\.co|"
    r"(?:moonshot|bigmodel|siliconflow)\.cn)$"
)
"""Hosts of providers, whose caches are their own affair."""

TALKING: Final = ("chat", "completion", "responses")
"""Modes of models that go on with a text; others keep no prefixes."""


class LiteLLMReader:
    """`model_list` of LiteLLM."""

    name = "litellm"
    kinds = ()
    look: bytes | None = b"litellm_params"

    def accepts(self, source: Source) -> bool:
        return _KEY.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        if "ConfigMap" in source.text:
            return read_objects(self, source, context)
        roots, _ = read_yaml(source)
        return ReadResult(
            routers=tuple(router for at, root in enumerate(roots)
                          for part in _parts(root, f"{at}:") for router in _routers(*part))
        )  # fmt: skip

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        """A configuration by itself, or entries of a ConfigMap."""
        data = node.get("data") if node.string("kind") == "ConfigMap" else None
        if data is None:
            parts = list(_parts(node, path))
        else:
            parts = [
                (root, f"{path}/data/{key.value}", None)
                for key, value in data.entries()
                if "model_list" in value.value and (root := inner(value)) is not None
            ]
        found = (router for part in parts for router in _routers(*part))
        pods = _pods(node, context) if data is not None else Known[int].unset()
        return ReadResult(
            routers=tuple(router if pods.is_unset else replace(router, replicas=pods)
                          for router in found)
        )  # fmt: skip


def _pods(node: Node, context: ReadContext) -> Known[int]:
    """The replicas of the one Deployment that mounts a ConfigMap for LiteLLM."""
    name = node.string("metadata", "name") or ""
    beside = [item.node for item in siblings(context, "Deployment")]
    found = [
        item.get("spec", "replicas")
        for item in beside or [far.node for far in elsewhere(context, "Deployment", name=name)]
        if (pod := item.get("spec", "template", "spec")) is not None
        and any("litellm" in (each.string("image") or "") for each in _items(pod, "containers"))
        and any(each.string("configMap", "name") == name for each in _items(pod, "volumes"))
    ]
    return integer(found[0]) if len(found) == 1 and found[0] is not None else Known.unset()


def _items(node: Node, key: str) -> list[Node]:
    found = node.get(key)
    return found.items if found is not None else []


def _parts(root: Node, path: str) -> Iterator[tuple[Node, str, Node | None]]:
    """The configuration, and those in values of charts, with these values."""
    yield root, path, None
    if root.kind != "map" or root.string("kind") is not None:
        return
    for key, value in root.entries():
        if key.value == CHART:
            yield value, f"{path}/{CHART}", root
        elif value.kind == "map" and (found := value.get(CHART)) is not None:
            yield found, f"{path}/{key.value}/{CHART}", value


def _routers(root: Node, path: str, values: Node | None = None) -> Iterator[Router]:
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
    most = max((_first_in_order(items) for items in hosted.values()), key=len)
    router = _router(root, path, most, next(iter(groups.values()))[0])
    place = values.pair("replicaCount") if values is not None else None
    count: Known[int] = Known.unset()
    if place is not None:
        count = integer(place[1]).at(place[0].origin)
    yield replace(router, replicas=count)


def _base(item: Node) -> str | None:
    """The address of a server of one's own that goes on with texts."""
    found = item.string("litellm_params", "api_base")
    model = item.string("litellm_params", "model") or ""
    provider = item.string("litellm_params", "custom_llm_provider") or model.partition("/")[0]
    talks = (item.string("model_info", "mode") or TALKING[0]) in TALKING and not pools(model)
    if found is None or provider not in OWN or not talks or HOSTED.search(host_of(found)):
        return None
    return found


def _first_in_order(items: list[Node]) -> list[Node]:
    """Those that get requests, one for each address: the lowest `order` comes first."""
    orders = [_order(item) for item in items]
    first = min((order for order in orders if order is not None), default=None)
    kept = [item for item, order in zip(items, orders, strict=True) if order == first]
    by_address = {(_base(item) or "").rstrip("/"): item for item in reversed(kept)}
    return list(reversed(by_address.values()))


def _order(item: Node) -> int | None:
    word = item.string("litellm_params", "order") or ""
    return int(word) if word.isdigit() and len(word) < 10 else None


def _is_spare(item: Node) -> bool:
    return item.string("litellm_params", "weight") in ("0", "0.0")


def _count(group: list[Node]) -> Known[int]:
    """What a weight of 0 does depends on the strategy and the release."""
    zero = next((item for item in group if _is_spare(item)), None)
    if zero is not None:
        return Known.unknown("an entry has a weight of 0", zero.origin)
    return Known.of(len(group), how="derived")


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
    count = _count(group)
    used = [item for item in group if not _is_spare(item)]
    targets = tuple(base for item in used if (base := _base(item)) is not None)
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
        choices=count,
        state=_state(root, AWARE.get(word, frozenset())),
        targets=tuple(dict.fromkeys(targets)),
        engines=True,
        serves=tuple(
            (item.string("model_name") or "", item.string("litellm_params", "model") or "")
            for item in used[:1]
        ),
        names=("litellm", "litellm-proxy"),
        anchors=((root.get("router_settings") or shown).span,),
        offers=() if more else (_sticky(root, settings),),
    )


def _state(root: Node, looks: frozenset[str]) -> Literal["process"] | None:
    """Loads are counted by each instance for itself, unless they share a Redis (docs.litellm.ai,
    proxy/load_balancing)."""
    text = root.source.text.lower()
    return "process" if "load" in looks and "redis" not in text else None


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
