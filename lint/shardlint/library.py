"""The files of a run as texts: what one file names in another is looked up here, and nowhere else.

Only files below the given paths are opened, each once, and only when somebody asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from posixpath import dirname, join, normpath
from types import MappingProxyType

from shardlint.source import DecodeError, Source

_WORDS = (
    rb"vllm|sglang|trtllm|tensorrt|text-generation|lmdeploy|huggingfaceserver|ollama|llama[-.]|"
    rb"nvcr\.io/nim|nvidia\.com/|amd\.com/gpu|tensor[-_]parallel|InferencePool|"
    rb"max[-_]model[-_]len|mem[-_]fraction"
)
SERVING = re.compile(_WORDS, re.IGNORECASE)
"""Words of engines, their devices and what stands before them."""

LOOK = re.compile(_WORDS + rb"|kind[\"']?:\s*[\"']?Service\b", re.IGNORECASE)
"""What a file must hold to be read when a folder is searched."""

KIND = re.compile(rb"""^[ \t-]*["']?kind["']?:[ \t]*["']?(\w+)""", re.MULTILINE)
MANIFEST = (".yaml", ".yml", ".json")
MAX_BYTES = 8 * 2**20
"""Larger files are not read: no manifest comes near, and a generated dump would take minutes."""


class Library:
    """Texts by the names of their files; an immutable view with a cache behind it."""

    def __init__(
        self,
        paths: Mapping[str, Path] = MappingProxyType({}),
        texts: Mapping[str, Source] = MappingProxyType({}),
    ) -> None:
        self._paths = paths
        self._texts: dict[str, Source | None] = dict(texts)
        self._kinds: dict[str, list[str]] | None = None

    def source(self, name: str) -> Source | None:
        """The text of a file; None where it is not among those of the run, or cannot be read."""
        if name not in self._texts:
            path = self._paths.get(name)
            self._texts[name] = _read(name, path) if path is not None else None
        return self._texts[name]

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """The names of files that hold Kubernetes objects of a kind, in order."""
        if self._kinds is None:
            self._kinds = {}
            for name in sorted({*self._paths, *self._texts}):
                for found in sorted(self._kinds_in(name)):
                    self._kinds.setdefault(found, []).append(name)
        return tuple(self._kinds.get(kind, ()))

    def below(self, folder: str) -> Iterator[str]:
        """The names of files in a folder and below it."""
        start = f"{folder}/" if folder else ""
        yield from (name for name in sorted({*self._paths, *self._texts}) if name.startswith(start))

    def replaced(self, source: Source) -> Library:
        """The same files with one text replaced."""
        return Library(
            self._paths, {**{k: v for k, v in self._texts.items() if v}, source.name: source}
        )

    def changed(self, texts: Mapping[str, Source | None]) -> Library:
        """The same files with other texts in some of them; None: the file is not there."""
        kept = {name: path for name, path in self._paths.items() if name not in texts}
        own = {name: text for name, text in self._texts.items() if text and name not in texts}
        return Library(kept, own | {name: text for name, text in texts.items() if text})

    def _kinds_in(self, name: str) -> Iterable[str]:
        if not name.lower().endswith(MANIFEST):
            return ()
        known = self._texts.get(name)
        data = known.text.encode("utf-8", "replace") if known is not None else b""
        if known is None and name in self._paths:
            data = _bytes(self._paths[name])
        return kinds(data)


def kinds(data: bytes) -> frozenset[str]:
    """Kinds of the objects in a text, by a cheap look."""
    return frozenset(found.decode() for found in KIND.findall(data))


def relative(name: str, path: str) -> str:
    """The name of the file at a path that stands in another file."""
    return normpath(join(dirname(name), path))


def _read(name: str, path: Path) -> Source | None:
    data = _bytes(path)
    if b"\0" in data[:8192] or not data:
        return None
    try:
        return Source.from_bytes(name, data)
    except DecodeError:
        return None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_BYTES else b""
    except OSError:
        return b""


class Asked:
    """A library as one file uses it: what it asked for is noted."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.names: set[str] = set()
        self.kinds: set[str] = set()

    def beside(self, source: Source, path: str) -> Source | None:
        """The file at a path relative to that of `source`; None where it is not to be read."""
        name = relative(source.name, path)
        self.names.add(name)
        return self._library.source(name)

    def holding(self, kind: str) -> Iterator[Source]:
        """Files that hold Kubernetes objects of a kind."""
        self.kinds.add(kind)
        for name in self._library.of_kind(kind):
            self.names.add(name)
            if (found := self._library.source(name)) is not None:
                yield found

    def below(self, source: Source, path: str) -> tuple[str, ...]:
        """The names of files in a folder that is named relative to `source`, and below it."""
        folder = relative(source.name, path)
        return tuple(self._library.below("" if folder == "." else folder))
