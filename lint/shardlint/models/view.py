"""Typed access to a mapping that somebody else wrote.

A value of another type, or a number that cannot be a count, is treated as not stated. Keys may be
dotted paths into nested mappings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MOST: Final = 1 << 31
"""No count of a model is larger; what is larger is not a count."""


def is_count(value: object, most: int = MOST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most


class View:
    """A mapping with getters that never raise."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def get(self, key: str) -> Any:
        """The value at a dotted key, or None."""
        value: Any = self.raw
        for part in key.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(part)
        return value

    def stated(self, *keys: str) -> bool:
        """Whether one of the keys has a value, of whatever type."""
        return any(self.get(key) is not None for key in keys)

    def count(self, *keys: str, most: int = MOST) -> int | None:
        """The first positive integer."""
        return next((value for key in keys if is_count(value := self.get(key), most)), None)

    def width(self, *keys: str) -> int | None:
        """The first positive integer, or the one that a list repeats for every layer."""
        for key in keys:
            value = self.get(key)
            if isinstance(value, list) and value and all(item == value[0] for item in value):
                value = value[0]
            if is_count(value):
                return int(value)
        return None

    def word(self, *keys: str) -> str | None:
        """The first string that is not empty."""
        values = (self.get(key) for key in keys)
        return next((value for value in values if isinstance(value, str) and value), None)

    def flag(self, *keys: str) -> bool | None:
        values = (self.get(key) for key in keys)
        return next((value for value in values if isinstance(value, bool)), None)

    def items(self, *keys: str) -> list[Any]:
        """The first list that is not empty, else an empty one."""
        values = (self.get(key) for key in keys)
        return next((value for value in values if isinstance(value, list) and value), [])

    def part(self, *keys: str) -> View | None:
        """The first nested mapping that is not empty."""
        values = (self.get(key) for key in keys)
        return next((View(value) for value in values if isinstance(value, Mapping) and value), None)
