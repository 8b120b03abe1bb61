"""What goes wrong with words of the user, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


class HardwareError(ValueError):
    """What the user says of the hardware cannot be used; the message is for the user."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message: "; did you mean 'x'?", or nothing."""
    from difflib import get_close_matches

    words = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), words, n=1, cutoff=0.6)
    return f"; did you mean {words[close[0]]!r}?" if close else ""
