"""Numbers of weights, and what is raised when a number that they rest on is missing."""

from __future__ import annotations

from shardlint.record import record


class NotCounted(Exception):
    """The config does not state everything that the count needs."""


@record
class Size:
    """Weights that there are, and those that one token passes through."""

    total: int = 0
    active: int = 0

    @classmethod
    def of(cls, number: int) -> Size:
        """Weights that every token passes through."""
        return cls(number, number)

    def __add__(self, other: Size) -> Size:
        return Size(self.total + other.total, self.active + other.active)


def linear(inputs: int, outputs: int, bias: bool = False) -> int:
    """A matrix and its bias."""
    return inputs * outputs + (outputs if bias else 0)


def sure(number: int | None) -> int:
    """The number, which must be known."""
    if number is None:
        raise NotCounted
    return number
