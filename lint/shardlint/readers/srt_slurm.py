"""Recipes of NVIDIA/srt-slurm: a frontend before workers of one engine.

The keys are those of the recipes at c88ef73: `frontend.args` are options of the frontend,
`backend.ENGINE_config.ROLE` options of the workers of a role, `resources` how many there are. A
`frontend` is Dynamo's and a `backend` SGLang's where no `type` is stated; the frontend `sglang` is
SGLang's router (`src/srtctl/core/schema.py`, `src/srtctl/frontends`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from shardlint.engines import balancing
from shardlint.known import How, Known
from shardlint.plan import Offer, Refusal, Remark, Router
from shardlint.platforms import dynamo
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers import gateways
from shardlint.readers.edits import MadeSite
from shardlint.readers.keyed import KeySite
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer, placeholder
from shardlint.record import record
from shardlint.source import Edit, Source

_KEYS = tuple(re.compile(rf"^ {{0,4}}{key}:", re.MULTILINE) for key in ("frontend", "backend"))
BASE: Final = "base"
"""The key of what all variants of a recipe have."""

ENGINES: Final = ("vllm", "sglang", "trtllm")
ROLES: Final = ("prefill", "decode", "aggregated")
OFF: Final[dict[str, str]] = {
    "no-enable-prefix-caching": "true", "enable-prefix-caching": "false",
    "disable-radix-cache": "true",
}  # fmt: skip
"""Keys that switch prefix caching off, with the value that does."""

ON: Final[dict[str, str]] = {"true": "false", "false": "true"}


DEFAULT: Final = "sglang"


@record
class _Front:
    """A kind of frontend: the option of its policy, the default, and what policies look at."""

    option: str
    default: str
    looks: Mapping[str, frozenset[str]]


FRONTENDS: Final[Mapping[str, _Front]] = MappingProxyType({
    "dynamo": _Front("router-mode", dynamo.DEFAULT_ROUTING, dynamo.ROUTING),
    "sglang": _Front("policy", gateways.DEFAULT, gateways.POLICIES),
})  # fmt: skip


class SrtSlurmReader:
    """Recipes with `frontend` and `backend`."""

    name = "srt-slurm"
    kinds = ()
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return all(key.search(source.text) for key in _KEYS) and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, _ = read_yaml(source)
        return ReadResult(
            routers=tuple(router for at, root in enumerate(roots)
                          for part, path in ((root, f"{at}:"), (root.get(BASE), f"{at}:/{BASE}"))
                          if part is not None for router in _routers(part, path))
        )  # fmt: skip


def _routers(root: Node, path: str) -> Iterator[Router]:
    frontend, backend = root.get("frontend"), root.get("backend")
    kind = (backend.string("type") or DEFAULT) if backend is not None else None
    if frontend is None or frontend.kind != "map" or kind not in ENGINES or backend is None:
        return
    configs = {
        role: found
        for role in ROLES
        if (found := backend.get(f"{kind}_config", role)) is not None and found.kind == "map"
    }
    if (front := FRONTENDS.get(frontend.string("type") or "dynamo")) is not None:
        yield _frontend(root, frontend, front, configs, path)
    for role, config in configs.items():
        where = f"{path}/backend/{kind}_config/{role}"
        if _is(config, "data-parallel-hybrid-lb", "true"):
            yield _hybrid(root, config, where, role)
        if kind == "sglang" and (ranks := _in_turn(root, config, where, role)) is not None:
            yield ranks


def _is(config: Node, key: str, value: str) -> bool:
    found = config.get(key) or config.get(key.replace("-", "_"))
    return found is not None and found.value.lower() == value


def _frontend(
    root: Node, frontend: Node, front: _Front, configs: dict[str, Node], path: str
) -> Router:
    stated = frontend.get("args", front.option)
    word = stated.value if stated is not None else front.default
    key = root.pair("frontend")
    origin = stated.origin if stated is not None else (key[0] if key else frontend).origin
    policy: Known[str] = Known.of(word, origin, how="stated" if stated else "defaulted")
    if (reason := placeholder(word)) is not None:
        policy = Known.unknown(reason, origin)
    aware = front.looks.get(word, frozenset())
    off = tuple(_off(configs))
    workers = _workers(root.get("resources"))
    return Router(
        id=f"{root.source.name}#{path}/frontend",
        name="frontend",
        kind="srt-slurm-frontend",
        file=root.source.name,
        path=f"{path}/frontend",
        origin=origin,
        policy=policy,
        explicit=stated is not None,
        awareness=aware,
        sure=word in front.looks,
        chooses="elsewhere" if word == "direct" else "replicas",
        choices=workers,
        engines="prefix" in aware or not off,  # without caches there is nothing to look at
        remarks=off if "prefix" in aware and workers.only != 1 else (),
        anchors=(frontend.span,),
        offers=(_caching(configs),),
    )


def _workers(resources: Node | None) -> Known[int]:
    """The workers of the role that computes prompts."""
    for key in ("prefill_workers", "agg_workers"):
        found = integer(resources.get(key)) if resources is not None else Known.unset()
        if not found.is_unset:
            return found
    return Known.unknown("the number of workers is not stated")


def _off(configs: dict[str, Node]) -> Iterator[Remark]:
    """Prefix caching is off where prompts are computed."""
    role = "prefill" if "prefill" in configs else "aggregated"
    config = configs.get(role)
    found = _switch(config) if config is not None else None
    if found is not None:
        key, _ = found
        yield Remark(
            kind="prefix-caching-off", at=key.origin, severity="warning",
            message="the router looks at prefixes, and prefix caching is off in the"
            f" {role} workers: there is nothing to follow",
            help="prefix caching on in the workers, or a mode that looks at the load alone",
        )  # fmt: skip


def _switch(config: Node) -> tuple[Node, Node] | None:
    """The key that switches prefix caching off."""
    for key, value in config.entries():
        if OFF.get(key.value.replace("_", "-")) == value.value.lower():
            return key, value
    return None


def _caching(configs: dict[str, Node]) -> Offer:
    def made(_value: str) -> list[Edit] | Refusal:
        edits: list[Edit] = []
        for config in configs.values():
            found = _switch(config)
            if found is None:
                continue
            edit = KeySite(config, found[0].value).set(ON[found[1].value.lower()])
            if isinstance(edit, Refusal):
                return edit
            edits += edit
        return edits or Refusal("prefix caching is on")

    return Offer(cures="prefix_caching", title="prefix caching on in the workers",
                 delta={"prefix_caching": True}, site=MadeSite(made))  # fmt: skip


def _in_turn(root: Node, config: Node, path: str, role: str) -> Router | None:
    """The choice of a rank inside of SGLang, where it has several, or says how it chooses."""
    pairs = [config.pair(name) for name in ("load-balance-method", "load_balance_method")]
    stated = next((pair for pair in pairs if pair is not None), None)
    ranks = next((found for name in SIZES if (found := config.pair(name)) is not None), None)
    one: Known[int] = Known.of(1, how="defaulted")
    count = integer(ranks[1]) if ranks is not None else one
    word = stated[1].value if stated is not None else "auto"
    if word == "auto":
        if (count.only or 0) < 2 or ranks is None:
            return None
        word = "follow_bootstrap_room" if role == "prefill" else balancing.SGLANG_DEFAULT
    place = (stated or ranks or (config, config))[1].origin
    how: How = "stated" if stated is not None and stated[1].value == word else "defaulted"
    off = _switch(config) is not None
    return replace(
        _hybrid(root, config, path, role),
        origin=place,
        policy=Known.of(word, place, how=how),
        explicit=how == "stated",
        awareness=balancing.SGLANG_METHODS.get(word, frozenset()),
        sure=word in balancing.SGLANG_METHODS,
        choices=count,
        chooses="one" if count.only == 1 and how != "stated" else "replicas",
        engines=role != "decode" and not off,
    )


SIZES: Final = ("data-parallel-size", "data_parallel_size", "dp-size", "dp_size", "dp")


def _hybrid(root: Node, config: Node, path: str, role: str) -> Router:
    pair = config.pair("data-parallel-hybrid-lb") or config.pair("data_parallel_hybrid_lb")
    origin = pair[0].origin if pair is not None else config.origin
    return Router(
        id=f"{root.source.name}#{path}/ranks",
        name=f"{role} ranks",
        kind="data-parallel",
        file=root.source.name,
        path=path,
        origin=origin,
        policy=Known.of("hybrid-lb", origin),
        explicit=True,
        awareness=frozenset({"load"}),
        choices=Known.unknown("the ranks of a node are not stated"),
        engines=True,
        within=True,
        anchors=(config.span,),
    )
