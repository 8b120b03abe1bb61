"""Numbers of layers as a short text."""

from __future__ import annotations

from collections.abc import Iterable


def ranges(numbers: Iterable[int]) -> str:
    """0, 1, 2, 5 as "0-2,5"; every second one up to 9 as "1-9:2"."""
    parts: list[str] = []
    rest = list(numbers)
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 1
        end = 1
        while end < len(rest) and rest[end] - rest[end - 1] == step:
            end += 1
        if end < 3:
            step, end = 1, 1
        tail = f"-{rest[end - 1]}" + (f":{step}" if step > 1 else "")
        parts.append(f"{rest[0]}" + (tail if end > 1 else ""))
        rest = rest[end:]
    return ",".join(parts)


def numbers(ranges: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in filter(None, ranges.split(",")):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return tuple(found)
