"""What is known of a value: the values it can have, where they were read, what they rest on.

A `Known` holds cases. A case is a value and the choices it is `given` by, such as
("gpu", "A100-SXM-40GB"); cases that rest on different alternatives of one choice never meet in one
world. No case at all means unknown, and `reason` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from shardlint.record import record
from shardlint.source import Mapped, Origin

T = TypeVar("T")
U = TypeVar("U")

Choice: TypeAlias = tuple[str, str]
How: TypeAlias = Literal["stated", "derived", "defaulted"]

NOT_STATED = "not stated"
CONTRADICTION = "the values that it rests on exclude one another"
MAX_WORLDS = 4096
"""More combinations than this are not enumerated: the result is unknown, and says so."""


@record
class Case(Generic[T]):
    value: T
    given: tuple[Choice, ...] = ()


@record
class Known(Generic[T]):
    """Possible values of one fact.

    `how` tells a stated value from a derived or defaulted one; `related` are further places that
    the value depends on (the definition of a variable); `assumes` are sentences that must hold for
    the value to be right.
    """

    cases: tuple[Case[T], ...] = ()
    reason: str | None = None
    origin: Origin | None = None
    related: tuple[Origin, ...] = ()
    assumes: frozenset[str] = frozenset()
    how: How = "stated"

    @classmethod
    def of(
        cls,
        value: T,
        origin: Origin | None = None,
        *,
        how: How = "stated",
        related: tuple[Origin, ...] = (),
        assumes: Iterable[str] = (),
    ) -> Known[T]:
        return cls((Case(value),), None, origin, related, frozenset(assumes), how)

    @classmethod
    def unknown(
        cls, reason: str, origin: Origin | None = None, related: tuple[Origin, ...] = ()
    ) -> Known[T]:
        return cls((), reason, origin, related)

    @classmethod
    def unset(cls) -> Known[T]:
        """Nothing was written: a default may stand in for it."""
        return cls((), NOT_STATED)

    @property
    def is_unset(self) -> bool:
        return not self.cases and self.reason == NOT_STATED

    @property
    def is_known(self) -> bool:
        return bool(self.cases)

    @property
    def values(self) -> tuple[T, ...]:
        """Distinct values, in order of their cases."""
        seen: list[T] = []
        for case in self.cases:
            if case.value not in seen:
                seen.append(case.value)
        return tuple(seen)

    @property
    def only(self) -> T | None:
        """The value when there is just one, else None."""
        values = self.values
        return values[0] if len(values) == 1 else None

    def map(self, function: Callable[[T], U], how: How | None = None) -> Known[U]:
        cases = tuple(Case(function(case.value), case.given) for case in self.cases)
        return Known(cases, self.reason, self.origin, self.related, self.assumes, how or self.how)

    def or_default(self, default: Known[T]) -> Known[T]:
        """`default` where nothing is stated; an unknown value stays unknown."""
        return default if self.is_unset else self

    def assuming(self, *sentences: str) -> Known[T]:
        return replace(self, assumes=self.assumes | set(sentences))

    def at(self, origin: Origin | None) -> Known[T]:
        return replace(self, origin=origin)


def consistent(world: Iterable[Case[Any]]) -> bool:
    """No two cases of a world rest on different alternatives of one choice."""
    made: dict[str, str] = {}
    return all(made.setdefault(key, value) == value for case in world for key, value in case.given)


def worlds(*facts: Known[Any]) -> Iterator[tuple[Case[Any], ...]]:
    """Every combination of cases that can hold together."""
    return (world for world in product(*(fact.cases for fact in facts)) if consistent(world))


def _too_many(facts: Iterable[Known[Any]]) -> bool:
    count = 1
    for fact in facts:
        count *= max(1, len(fact.cases))
    return count > MAX_WORLDS


def combine(function: Callable[..., U], *facts: Known[Any], how: How = "derived") -> Known[U]:
    """Apply a function in every world; unknown as soon as one fact is unknown."""
    related = tuple(fact.origin for fact in facts if fact.origin)
    for fact in facts:
        if not fact.cases:
            return Known((), fact.reason, fact.origin, related)
    if _too_many(facts):
        return Known((), "too many combinations", None, related)
    cases = []
    for world in worlds(*facts):
        given = dict(choice for case in world for choice in case.given)
        cases.append(Case(function(*(case.value for case in world)), tuple(given.items())))
    if not cases:
        return Known((), CONTRADICTION, None, related)
    assumes = frozenset().union(*(fact.assumes for fact in facts))
    return Known(tuple(cases), None, related[0] if related else None, related, assumes, how)


@record
class Always:
    """The test holds in every world."""


@record
class Never:
    """The test holds in no world."""


@record
class Sometimes:
    """The test holds in some worlds: those given by these choices."""

    given: tuple[tuple[Choice, ...], ...]


@record
class Undecided:
    """A fact is missing."""

    reasons: tuple[str, ...]


Verdict: TypeAlias = Always | Never | Sometimes | Undecided


def decide(test: Callable[..., bool], *facts: Known[Any]) -> Verdict:
    """Judge every world that the facts allow together."""
    missing = tuple(fact.reason or NOT_STATED for fact in facts if not fact.cases)
    if missing:
        return Undecided(missing)
    if _too_many(facts):
        return Undecided(("too many combinations",))
    all_worlds = list(worlds(*facts))
    if not all_worlds:
        return Undecided((CONTRADICTION,))
    true = [world for world in all_worlds if test(*(case.value for case in world))]
    if not true:
        return Never()
    if len(true) == len(all_worlds):
        return Always()
    choices = (dict(choice for case in world for choice in case.given) for world in true)
    return Sometimes(tuple(tuple(given.items()) for given in choices))


@record
class Text:
    """A word or scalar as read from a file.

    `mapped` is its value with the place of every character, None if the value is not known (then
    `reason` says why). `origin` is the whole token, quotes included. `related` are the definitions
    of variables in it; `definition` is the one place to edit when the word is nothing but one
    variable. `many` marks a place where any number of words may stand, such as `"$@"`.
    """

    mapped: Mapped | None
    origin: Origin
    reason: str | None = None
    related: tuple[Origin, ...] = ()
    definition: Origin | None = None
    assumes: frozenset[str] = frozenset()
    many: bool = False
    perhaps: tuple[str, ...] = ()

    @classmethod
    def unknown(
        cls,
        origin: Origin,
        reason: str,
        *,
        related: tuple[Origin, ...] = (),
        many: bool = False,
    ) -> Text:
        return cls(None, origin, reason, related, many=many)

    @property
    def value(self) -> str | None:
        return None if self.mapped is None else self.mapped.text

    @property
    def place(self) -> Origin:
        """The token that carries the value, without quotes where it stands literally."""
        if self.mapped is None or not self.mapped.text or not self.mapped.literal:
            return self.origin
        return Origin(self.origin.file, self.mapped.span())

    @property
    def editable(self) -> Origin | None:
        """The span to replace so that the value changes; None when no single span carries it."""
        if self.mapped is None:
            return None
        return self.place if self.mapped.literal and self.mapped.text else self.definition

    def part(self, start: int, end: int | None = None) -> Text:
        """Some characters of a known value, as a text of their own."""
        assert self.mapped is not None
        cut = self.mapped.cut(start, end)
        origin = Origin(self.origin.file, cut.span()) if cut.text else self.origin
        return Text(cut, origin, None, self.related, None, self.assumes)

    def known(self) -> Known[str]:
        if self.mapped is None:
            return Known.unknown(self.reason or "unresolved", self.origin, self.related)
        return Known.of(self.mapped.text, self.place, related=self.related, assumes=self.assumes)
