"""HAProxy: each `backend` or `listen` section is a router among its servers.

Facts of routing, section 1 (haproxy/haproxy, doc/configuration.txt at 50872da): without `balance`
servers took turns before release 3.3, and the better of two drawn at random is taken since; which
one it is no configuration says. A section begins with a keyword at the start of a line; words end
at blanks, quotes and backslashes hold them, `#` begins a comment. A section without `mode`, whose
`defaults` have none either, is in tcp mode: no request is seen there, so that a hash of a header or
path is none; HAProxy falls back to turns, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from shardlint.known import Known
from shardlint.plan import Offer, Remark, Router
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.edits import MadeSite
from shardlint.readers.inner_yaml import is_literal
from shardlint.readers.nginx import SAME_PATH, serve_models, speaks_otherwise
from shardlint.readers.objects import read_objects
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Edit, Mapped, Origin, Source, Span

SECTIONS: Final = ("global", "defaults", "frontend", "backend", "listen", "peers", "resolvers",
                   "userlist", "cache", "program", "ring", "mailers", "http-errors")  # fmt: skip
_SECTION = re.compile(
    r"^[ \t]*(?:backend|listen)[ \t]+\S+(?:[ \t]+from[ \t]+\S+)?[ \t]*(?:#.*)?\r?$", re.MULTILINE
)
_SERVER = re.compile(r"^[ \t]+(?:server|server-template|balance)[ \t]+\S", re.MULTILINE)
_WORD = re.compile(r'(?:"(?:\\.|[^"\\])*"|\'[^\']*\'|\\.|[^\s#"\'\\])+')
OTHER_TEXTS = (".yaml", ".yml", ".json", ".md", ".rst", ".py", ".sh", ".html", ".ipynb")

AWARE: Final[dict[str, frozenset[str]]] = {
    "roundrobin": frozenset(), "static-rr": frozenset(), "first": frozenset({"load"}),
    "leastconn": frozenset({"load"}), "source": frozenset({"session"}), "uri": frozenset(),
    "hash": frozenset({"session"}), "url_param": frozenset({"session"}),
    "hdr": frozenset({"session"}), "rdp-cookie": frozenset({"session"}),
    "random": frozenset({"load"}), "sticky": frozenset({"session"}),
}  # fmt: skip
"""What an algorithm looks at; a random draw of one looks at nothing."""

OF_REQUESTS: Final = ("hash", "hdr", "uri", "url_param")
"""Algorithms that look into a request."""

CHECKS: Final = ("pgsql-check", "mysql-check", "redis-check", "smtpchk", "ldap-check",
                 "spop-check")  # fmt: skip
"""Options of backends that speak something else than HTTP."""

DEFAULT_OPEN: Final = "roundrobin before HAProxy 3.3, the better of two at random since"
HEADER: Final = "x-session-id"
MOST_LINES: Final = 20_000
"""Longer files are made by no person and no controller that is known; they are not read."""


class HaproxyReader:
    """`backend` and `listen` sections of HAProxy."""

    name = "haproxy"
    kinds = ()
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        in_object = yaml_like(source) and "ConfigMap" in source.text
        if (_is_other(source) and not in_object) or _SECTION.search(source.text) is None:
            return False
        return _SERVER.search(source.text) is not None

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        if source.line_count > MOST_LINES:
            return ReadResult(skipped=f"more than {MOST_LINES:,} lines")
        if _is_other(source):
            return read_objects(self, source, context)
        whole = Mapped.slice_of(source.text, Span(0, len(source.text)))
        return ReadResult(routers=tuple(_routers(source, whole, "0:")))

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        """Entries of a ConfigMap."""
        data = node.get("data") if node.string("kind") == "ConfigMap" else None
        found: list[Router] = []
        for key, value in data.entries() if data is not None else ():
            mapped = value.text().mapped if value.kind == "scalar" else None
            if mapped is not None and _SECTION.search(mapped.text):
                mapped = replace(mapped, literal=is_literal(value, mapped))
                found += _routers(value.source, mapped, f"{path}/data/{key.value}")
        return ReadResult(routers=tuple(found))


def _is_other(source: Source) -> bool:
    suffix = PurePosixPath(source.name.lower().replace("\\", "/")).suffix
    return suffix in OTHER_TEXTS


def _routers(source: Source, text: Mapped, path: str) -> Iterator[Router]:
    sections = list(_sections(source, text))
    last, named = NO_DEFAULTS, {}
    for section in sections:
        if section.kind == "defaults":
            last = named[section.title] = section
        elif section.kind in ("backend", "listen") and list(
            section.named("server", "server-template")
        ):
            defaults = named.get(section.parent, NO_DEFAULTS) if section.parent else last
            yield _Balanced(source, section, defaults, path, text.literal).router()


# ---------------------------------------------------------------------------------------- text


@record
class _Line:
    """One line: its words with their places, and what stands before the first."""

    words: tuple[tuple[str, Span], ...]
    lead: str

    @property
    def name(self) -> str:
        return self.words[0][0]

    @property
    def span(self) -> Span:
        return Span(self.words[0][1].start, self.words[-1][1].end)


@record
class _Section:
    head: _Line
    lines: tuple[_Line, ...]

    @property
    def kind(self) -> str:
        return self.head.name

    @property
    def title(self) -> str:
        return self.head.words[1][0] if len(self.head.words) > 1 else ""

    @property
    def parent(self) -> str:
        """The name of the `defaults` that it is `from`."""
        words = [word for word, _ in self.head.words]
        return words[3] if len(words) > 3 and words[2] == "from" else ""

    def named(self, *names: str) -> Iterator[_Line]:
        return (line for line in self.lines if line.name in names)


NO_DEFAULTS: Final = _Section(_Line((("defaults", Span(0, 0)),), ""), ())


def _sections(source: Source, text: Mapped) -> Iterator[_Section]:
    head: _Line | None = None
    lines: list[_Line] = []
    start = 0
    for row in text.text.splitlines(keepends=True):
        line = _line(source, text, start, start + len(row))
        start += len(row)
        if line is None:
            continue
        if line.name in SECTIONS:
            if head is not None:
                yield _Section(head, tuple(lines))
            head, lines = line, []
        else:
            lines.append(line)
    if head is not None:
        yield _Section(head, tuple(lines))


def _line(source: Source, text: Mapped, at: int, end: int) -> _Line | None:
    words = []
    while at < end:
        found = _WORD.match(text.text, at, end)
        if found is not None:
            words.append((found.group().strip("\"'"), text.span(*found.span())))
            at = found.end()
        elif text.text[at] == "#":
            break
        else:
            at += 1
    if not words:
        return None
    before = source.text[: words[0][1].start].rpartition("\n")[2]
    return _Line(tuple(words), before)


# -------------------------------------------------------------------------------------- router


class _Balanced:
    """A section with servers, and the `defaults` that it takes what it does not say from."""

    def __init__(
        self, source: Source, section: _Section, defaults: _Section, path: str, literal: bool
    ) -> None:
        self.source, self.section, self.defaults = source, section, defaults
        self.path, self.literal = path, literal
        self.own = next(section.named("balance"), None)
        self.servers = [line for line in section.named("server") if len(line.words) > 2]
        self.sticks = any(True for _ in section.named("stick", "stick-table", "cookie"))
        self.mode = self._said("mode")
        self.http = self.mode == "http"

    def _said(self, *names: str) -> str:
        """The last word that the section, else its defaults, give to a keyword."""
        for part in (self.section, self.defaults):
            for line in reversed(list(part.named(*names))):
                return line.words[1][0] if len(line.words) > 1 else ""
        return ""

    def router(self) -> Router:
        section = self.section
        stated = self.own or next(self.defaults.named("balance"), None)
        policy, awareness, sure = self._policy(stated)
        live = [line for line in self.servers if not {"backup", "disabled"} & _words(line)]
        template = any(True for _ in section.named("server-template"))
        count: Known[int] = Known.of(len(live), how="derived")
        if template:
            count = Known.unknown("server-template fills in the servers")
        path = f"{self.path}/{section.kind}/{section.title}"
        return Router(
            id=f"{self.source.name}#{path}",
            name=section.title,
            kind="haproxy",
            file=self.source.name,
            path=path,
            origin=Origin(self.source.name, section.head.words[0][1]),
            policy=policy,
            explicit=stated is not None,
            awareness=awareness | ({"session"} if self.sticks else frozenset()),
            sure=sure or self.sticks,
            chooses="one" if count.only == 1 else "replicas",
            targets=tuple(line.words[2][0] for line in self.servers),
            choices=count,
            engines=self.mode in ("", "http") and self._serves(),
            anchors=(section.head.span,),
            remarks=tuple(self._keys(policy)) if count.only != 1 and not self.sticks else (),
            offers=tuple(self._offers(awareness)),
        )

    def _serves(self) -> bool:
        """By the names, unless it speaks another protocol."""
        section = self.section
        options = {line.words[1][0] for line in section.named("option") if len(line.words) > 1}
        if options & set(CHECKS) or any(speaks_otherwise(line.words[2][0]) for line in
                                        self.servers):  # fmt: skip
            return False
        lines = section.named("server", "server-template")
        names = [section.title, *(word for line in lines for word, _ in line.words)]
        return serve_models(names)

    def _policy(self, line: _Line | None) -> tuple[Known[str], frozenset[str], bool]:
        if line is None or len(line.words) < 2:
            return Known.unknown(DEFAULT_OPEN), frozenset(), False
        word = line.words[1][0]
        name, _, inside = word.partition("(")
        awareness = AWARE.get(name)
        if name == "random" and inside.rstrip(")") == "1":
            awareness = frozenset()
        if awareness and "session" in awareness and self._bounded():
            awareness |= {"load"}
        sure = awareness is not None and (self.http or name not in OF_REQUESTS)
        origin = Origin(self.source.name, line.words[0][1])
        return Known.of(name, origin), awareness or frozenset(), sure

    def _bounded(self) -> bool:
        """Consistent hashing with bounded loads: no server gets far more than the mean."""
        factor = self._said("hash-balance-factor")
        return self._said("hash-type") == "consistent" and factor not in ("", "0")

    def _keys(self, policy: Known[str]) -> Iterator[Remark]:
        """A hash of what is the same in all requests."""
        if policy.only == "uri" and policy.origin is not None and self.http:
            yield Remark(
                kind="session-key", at=policy.origin, severity="warning",
                message=f"`balance uri`: {SAME_PATH}",
                help=f"`balance hdr({HEADER})`, `hash-type consistent`: a header of your clients",
            )  # fmt: skip

    def _offers(self, awareness: frozenset[str]) -> Iterator[Offer]:
        hashed = any(self.section.named("hash-type"))
        if not (self.http and self.literal) or "session" in awareness or self.sticks or hashed:
            return
        constant = self.own is not None and _first(self.own) == "uri"
        yield Offer(
            cures="session_key" if constant else "routing", site=MadeSite(lambda _: self._hash()),
            title=f"`balance hdr({HEADER})` with `hash-type consistent`, of the header that your"
            " clients send",
            delta={"routing": "session-hash", "session_key": HEADER},
        )  # fmt: skip

    def _hash(self) -> list[Edit]:
        line = self.own or self.section.lines[0]
        end = "\r\n" if "\r\n" in self.source.text else "\n"
        words = f"balance hdr({HEADER}){end}{line.lead}hash-type consistent"
        if self.own is not None:
            return [Edit(self.source.name, self.own.span, words)]
        at = line.words[0][1].start
        return [Edit(self.source.name, Span(at, at), f"{words}{end}{line.lead}")]


def _words(line: _Line) -> set[str]:
    return {word for word, _ in line.words}


def _first(line: _Line) -> str:
    """The algorithm of a `balance` line."""
    return line.words[1][0].partition("(")[0] if len(line.words) > 1 else ""
