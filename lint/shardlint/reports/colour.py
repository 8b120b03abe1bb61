"""Whether a stream wants colour, and the few colours there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, TextIO, TypeAlias

Style: TypeAlias = Literal["error", "warning", "info", "bold", "gutter"]
Paint: TypeAlias = Callable[[str, Style], str]

_CODES: dict[Style, str] = {
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "bold": "1",
    "gutter": "1;34",
}


def painter(out: TextIO) -> Paint:
    """A function that puts a style on a text for this stream."""
    return _ansi if _wanted(out) else _plain


def _wanted(out: TextIO) -> bool:
    """FORCE_COLOR and CLICOLOR_FORCE say yes, else NO_COLOR no, else it is up to the terminal."""
    if any(
        os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")
    ):
        return True
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return out.isatty()


def _ansi(text: str, style: Style) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text else text


def _plain(text: str, style: Style) -> str:  # noqa: ARG001
    return text
