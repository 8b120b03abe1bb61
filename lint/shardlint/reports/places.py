"""Places as machine formats want them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from urllib.parse import quote

from shardlint.source import Edit, Position, Source


def relative_uri(file: str) -> str:
    """A file name as a URI reference: forward slashes, percent-encoded UTF-8."""
    path = PurePath(file).as_posix()
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def ends(edit: Edit, sources: Mapping[str, Source]) -> tuple[Position, Position]:
    """Where the text that an edit replaces starts and ends."""
    source = sources[edit.file]
    return source.position(edit.span.start), source.position(edit.span.end)
