"""TensorRT-LLM's disaggregated server: a router among context servers and one among generation
servers.

Facts of routing, sections 1 and 4 (NVIDIA/TensorRT-LLM, tensorrt_llm/serve/router.py at 00895e3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shardlint.known import Known
from shardlint.plan import Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.yaml_files import read_yaml, yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.source import Source

_KEY = re.compile(r"^(?:context_servers|generation_servers):", re.MULTILINE)
PARTS: Final = ("context_servers", "generation_servers")
DEFAULT: Final = "round_robin"
AWARE: Final[dict[str, frozenset[str]]] = {
    "round_robin": frozenset(), "load_balancing": frozenset({"load"}),
    "kv_cache_aware": frozenset({"prefix", "kv", "load"}),
    "conversation": frozenset({"session", "prefix"}),
}  # fmt: skip


class TrtllmDisaggReader:
    """`context_servers` and `generation_servers`."""

    name = "trtllm-disagg"
    kinds = ()
    look: bytes | None = b"context_servers"

    def accepts(self, source: Source) -> bool:
        return _KEY.search(source.text) is not None and yaml_like(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, _ = read_yaml(source)
        return ReadResult(
            routers=tuple(router for at, root in enumerate(roots)
                          for router in _routers(root, f"{at}:"))
        )  # fmt: skip


def _routers(root: Node, path: str) -> Iterator[Router]:
    for part in PARTS:
        pair = root.pair(part)
        if pair is not None and pair[1].kind == "map":
            yield _router(root, *pair, f"{path}/{part}")


def _router(root: Node, key: Node, node: Node, path: str) -> Router:
    stated = node.get("router", "type")
    word = stated.value if stated is not None else DEFAULT
    origin = stated.origin if stated is not None else key.origin
    urls = node.get("urls")
    count = integer(node.get("num_instances"))
    if count.is_unset and urls is not None:
        count = Known.of(len(urls.items), urls.origin, how="derived")
    if count.is_unset:
        count = Known.of(1, how="defaulted")
    return Router(
        id=f"{root.source.name}#{path}/router",
        name=key.value,
        kind="trtllm-disagg-config",
        file=root.source.name,
        path=f"{path}/router",
        origin=origin,
        policy=Known.of(word, origin, how="stated" if stated is not None else "defaulted"),
        explicit=stated is not None,
        awareness=AWARE.get(word, frozenset()),
        sure=word in AWARE,
        choices=count,
        engines=True,
        anchors=(key.span,),
    )
