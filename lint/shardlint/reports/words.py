"""Counts, numbers and names as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from shardlint.plugins import Finding

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_ACRONYMS = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "kv": "KV",
    "mib": "MiB",
    "gib": "GiB",
    "tok/s": "tok/s",
} | {name: name.upper() for name in ("tp", "pp", "dp", "ep", "dcp", "pcp")}


def printable(text: str) -> str:
    """One line that moves neither the cursor nor the reading direction of a terminal."""
    return _UNSAFE.sub("\ufffd", text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def counted(count: int, noun: str) -> str:
    """no plans, 1 plan, 2,000 plans."""
    number = f"{count:,}" if count else "no"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def listed(items: Sequence[str], limit: int) -> str:
    """a, b and c; or the first ones and how many more there are."""
    shown = list(items[:limit])
    if rest := len(items) - len(shown):
        shown.append(f"{rest:,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def with_help(finding: Finding) -> str:
    """The message, and the ways out on a line of their own."""
    return finding.message + (f"\nhelp: {finding.help}" if finding.help else "")


def estimated(estimate: Mapping[str, Any]) -> str:
    """`{"kv_copies": {"before": 2, "after": 1}, "gpus": 8}`: "KV copies 2 → 1, GPUs 8"."""
    return ", ".join(_change(name, value) for name, value in estimate.items())


LARGE = 2**28
"""Bytes from which on GiB are easier to read."""


def _change(name: str, value: Any) -> str:
    sizes = value.values() if isinstance(value, Mapping) else ()
    if name.endswith("_bytes") and max(sizes, default=0) >= LARGE:
        shown = " → ".join(f"{value[at] / 2**30:,.1f}" for at in ("before", "after"))
        return f"{_quantity(name.removesuffix('_bytes'))} {shown} GiB"
    return f"{_quantity(name)} {_amount(value)}"


def _quantity(name: str) -> str:
    words = name.replace("tok_s", "tok/s").split("_")
    return " ".join(_ACRONYMS.get(word, word) for word in words)


def _amount(value: Any) -> str:
    match value:
        case {"before": before, "after": after}:
            return f"{_amount(before)} → {_amount(after)}"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case None:
            return "not known"
        case _:
            return str(value)
