"""nginx: each `upstream` block is a router among its servers.

Facts of routing, section 1 (nginx/documentation, HTTP load balancing, at 76d2906): without a method
servers take turns. In `stream` no requests are seen, nor any headers. A configuration is a file,
a template of one, or an entry of a ConfigMap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Remark, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers._nginx_text import Directive, NginxError, Word, directives
from shardlint.readers.edits import MadeSite
from shardlint.readers.objects import read_objects
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node
from shardlint.source import Edit, Mapped, Origin, Source, Span

UPSTREAM: Final = re.compile(
    r"(?:^|[{;])[ \t]*upstream[ \t]+[^\s{;]+[ \t\r\n]*\{(?!\{)", re.MULTILINE
)
SERVING: Final = re.compile(
    r"vllm|sglang|\btgi|llm|ollama|lmdeploy|openai|inference|trt-?llm|llama|qwen|\bgpt|mistral|"
    r"deepseek|gemma|chat[/_-]?completions|/v1/(chat|completions)",
    re.IGNORECASE,
)
"""Words in the names of upstreams, servers and paths that serve language models."""

NO_TURNS: Final = re.compile(
    r"embed|rerank|whisper|transcri|(?<![a-z0-9])(?:tei|asr|tts|stt)(?![a-z0-9])", re.IGNORECASE
)
"""Words in the names of servers of vectors, scores and speech, whose requests share no prefix."""

OTHER_PORTS: Final = frozenset(
    {21, 22, 25, 53, 110, 123, 143, 389, 465, 514, 587, 636, 993, 995, 1433, 1521, 1883, 2181, 2379,
     3306, 4222, 5432, 5672, 6379, 6432, 6443, 9042, 9092, 11211, 26379, 27017}
)  # fmt: skip
"""Ports of databases, queues, mail and names, at which nobody speaks HTTP."""

PAGES: Final = ("root", "index", "try_files", "fastcgi_pass", "uwsgi_pass", "scgi_pass")
"""Directives of servers of pages: what they pass on is taken for no engine, unless its name says
so. A file with one upstream and nothing else is taken for one."""

GUESSED: Final = "the servers of the file's one upstream are engines"

METHODS: Final = ("least_conn", "least_time", "ip_hash", "hash", "random", "sticky")
LONG: Final = 600
"""Seconds without a server, from which the others are said to do its work: a limit of ours; nginx
takes 10 by itself."""

SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d{1,9})([smhd]?)")
ADDRESS: Final = ("$remote_addr", "$binary_remote_addr", "$realip_remote_addr")
HEADER: Final = "$http_x_session_id"


class NginxReader:
    """`upstream` blocks of nginx."""

    name = "nginx"
    kinds = ()
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        return UPSTREAM.search(source.text) is not None

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        if yaml_like(source) and "ConfigMap" in source.text:
            return read_objects(self, source, context)
        suffix = PurePosixPath(source.name.lower().replace("\\", "/")).suffix
        if suffix in (".yaml", ".yml", ".json", ".md", ".rst", ".py", ".sh", ".html", ".ipynb"):
            return ReadResult()
        whole = Mapped.slice_of(source.text, Span(0, len(source.text)))
        return ReadResult(routers=tuple(_routers(source, whole, "0:")))

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        """Entries of a ConfigMap."""
        data = node.get("data") if node.string("kind") == "ConfigMap" else None
        found: list[Router] = []
        for key, value in data.entries() if data is not None else ():
            mapped = value.text().mapped if value.kind == "scalar" else None
            if mapped is not None and UPSTREAM.search(mapped.text):
                found += _routers(value.source, mapped, f"{path}/data/{key.value}")
        return ReadResult(routers=tuple(found))


def _routers(source: Source, text: Mapped, path: str) -> Iterator[Router]:
    try:
        found = directives(text)
    except NginxError:
        return
    every = list(_walk(found))
    workers = next((item for item in every if item.name == "worker_processes"), None)
    blocks = [item for item in every if item.name == "upstream" and item.inside is not None]
    pages = any(item.name in PAGES for item in every)
    streams = [item for item in found if item.name == "stream"]
    raw = {item.words[0].span for item in _walk(streams) if item.name == "upstream"}
    for block in blocks:
        http = block.words[0].span not in raw and not any(map(speaks_otherwise, _names(block)[1:]))
        names = _names(block)
        named = http and serve_models(names)
        alone = http and len(blocks) == 1 and not pages
        engines = named or (alone and not any(map(NO_TURNS.search, names)))
        router = _Upstream(source, text, block, workers, path, engines, http).router()
        yield router if named else replace(router, assumes=(GUESSED,))


SAME_PATH: Final = "all requests have the path of the API, so that one server gets them all"


def _is_path(key: str) -> bool:
    """The key of a hash that looks at the path of a request alone."""
    return "uri" in key and "http" not in key and "arg" not in key


def serve_models(names: Iterable[str]) -> bool:
    """By their names, these are servers of models that go on with texts."""
    found = list(names)
    return any(map(SERVING.search, found)) and not any(map(NO_TURNS.search, found))


def speaks_otherwise(address: str) -> bool:
    """The port is that of another protocol than HTTP."""
    port = address.rpartition(":")[2]
    return port.isdigit() and len(port) < 6 and int(port) in OTHER_PORTS


def _walk(found: Sequence[Directive]) -> Iterator[Directive]:
    for item in found:
        yield item
        yield from _walk(item.block)


def _names(block: Directive) -> list[str]:
    servers = [item for item in block.block if item.name == "server"]
    return [word.text for item in (block, *servers) for word in item.arguments[:1]]


class _Upstream:
    def __init__(
        self, source: Source, text: Mapped, block: Directive, workers: Directive | None,
        path: str, engines: bool, http: bool,
    ) -> None:  # fmt: skip
        self.source, self.text, self.block, self.workers = source, text, block, workers
        self.path, self.engines, self.http = path, engines, http
        self.name = block.arguments[0].text if block.arguments else ""
        self.servers = [item for item in block.block if item.name == "server"]
        self.methods = [item for item in block.block if item.name in METHODS and not item.maybe]

    def router(self) -> Router:
        policy, awareness = self._policy()
        count = self._count()
        return Router(
            id=f"{self.source.name}#{self.path}/upstream/{self.name}",
            name=self.name,
            kind="nginx",
            file=self.source.name,
            path=f"{self.path}/upstream/{self.name}",
            origin=self._at(self.block.words[0].span),
            policy=policy,
            explicit=bool(self.methods),
            awareness=awareness,
            sure=not self._included(),
            chooses="one" if count.only == 1 else "replicas",
            targets=tuple(
                item.arguments[0].text
                for item in self.servers
                if item.arguments and not item.arguments[0].filled
            ),
            choices=count,
            engines=self.engines,
            remarks=(*self._skews(policy.only or ""), *self._keys()) if count.only != 1 else (),
            offers=tuple(self._offers(awareness)),
            anchors=(self.block.words[0].span,),
        )

    def _at(self, span: Span) -> Origin:
        return Origin(self.source.name, span)

    def _policy(self) -> tuple[Known[str], frozenset[str]]:
        if not self.methods:
            return Known.of("round_robin", how="defaulted"), frozenset()
        method = self.methods[-1]  # which nginx takes, with a warning
        words = [word.text for word in method.arguments]
        known = Known.of(method.name, self._at(method.words[0].span))
        if method.name in ("least_conn", "least_time"):
            return known, frozenset({"load"})
        if method.name == "random":
            two = "two" in words and any("least" in word for word in words)
            return known, frozenset({"load"}) if two else frozenset()
        if method.name == "hash":
            return self._hashed(known, words[0] if words else "")
        return known, frozenset({"session"})

    def _hashed(self, known: Known[str], key: str) -> tuple[Known[str], frozenset[str]]:
        if any(variable in key for variable in ADDRESS):
            return known.map(lambda _: "ip_hash", how="stated"), frozenset({"session"})
        return known, frozenset() if _is_path(key) else frozenset({"session"})

    def _keys(self) -> Iterator[Remark]:
        """A hash of what is the same in all requests."""
        for method in self.methods[-1:]:
            keys = [word for word in method.arguments[:1] if _is_path(word.text)]
            if method.name == "hash" and keys:
                yield Remark(
                    kind="session-key", at=self._at(keys[0].span), severity="warning",
                    message=f"`hash {keys[0].text}`: {SAME_PATH}",
                    help=f"`hash {HEADER} consistent`, of a header that your clients send",
                )  # fmt: skip

    def _count(self) -> Known[int]:
        holes = [item for item in self.block.block if item.words[0].filled]
        open_ended = holes or any(
            item.maybe or item.repeated or (item.arguments and item.arguments[0].filled)
            for item in self.servers
        )
        if self._included():
            return Known.unknown("another file holds some of the block", self._at(self.block.span))
        if open_ended:
            return Known.unknown("a template fills in the servers", self._at(self.block.span))
        live = [item for item in self.servers if not _words(item) & {"down", "backup"}]
        addresses = {item.arguments[0].text for item in live if item.arguments}
        return Known.of(len(addresses), self._at(self.block.span), how="derived")

    # -------------------------------------------------------------------------------- skew

    def _skews(self, policy: str) -> Iterator[Remark]:
        if (word := self._long()) is not None:
            yield Remark(
                kind="skew", at=self._at(word.span), severity="warning",
                message=f"{word.text}: a server that fails as often as `max_fails` says gets"
                f" nothing for {_told(word.text)}, and the others do its work",
                help="a `fail_timeout` of some seconds, such as the default of 10",
            )  # fmt: skip
            return
        if policy in ("least_conn", "least_time") and self._many() and not self._zone():
            yield Remark(
                kind="skew", at=self._at(self.methods[-1].words[0].span), severity="warning",
                message=f"{policy} without a `zone`: each worker process counts its own connections"
                " only, so that all of them may choose the same server",
                help=f"`zone {self.name} 64k;` in the upstream, or one worker process",
            )  # fmt: skip

    def _long(self) -> Word | None:
        words = [word for item in self.servers if not _off(item) for word in item.arguments[1:]]
        return next((word for word in words if _seconds(word.text) >= LONG), None)

    def _many(self) -> bool:
        found = self.workers.arguments[0].text if self.workers and self.workers.arguments else "1"
        return found == "auto" or (found.isdigit() and int(found[:9]) > 1)

    def _zone(self) -> bool:
        return any(item.name == "zone" for item in self.block.block)

    # ------------------------------------------------------------------------------ offers

    def _offers(self, awareness: frozenset[str]) -> Iterator[Offer]:
        if not self.text.literal:
            return
        if self.http and "session" not in awareness and not self._hashless():
            constant = any(True for _ in self._keys())
            yield Offer(
                cures="session_key" if constant else "routing",
                site=MadeSite(lambda _: self._method(f"hash {HEADER} consistent")),
                title=f"`hash {HEADER} consistent`, of the header that your clients send",
                delta={"routing": "session-hash", "session_key": "x-session-id"},
            )  # fmt: skip
        if self._long() is not None:
            yield Offer(cures="skew", title="`fail_timeout=10s`", delta={"fail_timeout": "10s"},
                        site=MadeSite(lambda _: self._shorter()))  # fmt: skip
        elif not self._zone():
            zone = f"zone {self.name} 64k"
            yield Offer(cures="skew", title=f"`{zone};`", delta={"add_flag": zone},
                        site=MadeSite(lambda _: self._first(zone)))  # fmt: skip

    def _included(self) -> bool:
        """Another file may hold servers, and the method."""
        return any(item.name == "include" for item in self.block.block)

    def _hashless(self) -> bool:
        """What nginx refuses beside a hash: spare servers, and those that start slowly.

        Of several methods, and in another file, it is not clear what to replace.
        """
        if len(self.methods) > 1 or self._included():
            return True
        words = [word.text for item in self.servers for word in item.arguments]
        return any(word == "backup" or word.startswith("slow_start=") for word in words)

    def _method(self, words: str) -> list[Edit]:
        if not self.methods:
            return self._first(words)
        old = self.methods[0].span
        return [Edit(self.source.name, old, f"{words};")]

    def _first(self, words: str) -> list[Edit]:
        """A directive at the head of the block, on a line of its own where the others are."""
        at = self.block.inside or 0
        first = next((item.span.start for item in self.block.block), at)
        between = self.source.text[at:first]
        line, _, indent = between.rpartition("\n")
        if "\n" in between and not indent.strip():
            end = "\r\n" if line.endswith("\r") else "\n"
            return [Edit(self.source.name, Span(first, first), f"{words};{end}{indent}")]
        return [Edit(self.source.name, Span(at, at), f" {words};")]

    def _shorter(self) -> list[Edit]:
        return [
            Edit(self.source.name, word.span, "fail_timeout=10s")
            for item in self.servers
            for word in item.arguments[1:]
            if _seconds(word.text) >= LONG
        ]


def _words(item: Directive) -> set[str]:
    return {word.text for word in item.arguments}


def _off(item: Directive) -> bool:
    """Failures of the server are not counted."""
    return "max_fails=0" in _words(item)


def _seconds(word: str) -> int:
    """The seconds of `fail_timeout=...`; 0 for another word."""
    name, _, value = word.partition("=")
    found = _TIME.fullmatch(value) if name == "fail_timeout" else None
    return int(found[1]) * SECONDS[found[2]] if found else 0


def _told(word: str) -> str:
    seconds = _seconds(word)
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds // 60} minutes"
