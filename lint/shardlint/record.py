"""Records: dataclasses that cost little to define.

`dataclasses` writes and compiles six functions for each frozen class. With some eighty classes
that was a quarter of the time of linting one file. A record gets only its `__init__` that way;
comparison, hash and repr are shared, and mypy, not the interpreter, refuses to assign to a field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


def _values(item: Any) -> tuple[Any, ...]:
    fields = item.__dataclass_fields__
    return tuple([getattr(item, name) for name in fields if fields[name].compare])


def _eq(self: Any, other: Any) -> Any:
    if self is other:
        return True
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _lt(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) < _values(other)


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{self.__class__.__name__}({shown})"


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool = False, order: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T] | None = None, /, *, kw_only: bool = False, order: bool = False) -> Any:
    """Make a class a record; `order` compares field by field, in the order they are written."""

    def made(plain: type[T]) -> type[T]:
        methods: dict[str, Any] = {"__eq__": _eq, "__hash__": _hash, "__repr__": _repr}
        if order:
            methods["__lt__"] = _lt
        for name, method in methods.items():
            if name not in plain.__dict__ or name == "__hash__":
                setattr(plain, name, method)
        options: dict[str, Any] = {"repr": False, "eq": False, "match_args": False}
        return dataclass(kw_only=kw_only, **options)(plain)

    return made if cls is None else made(cls)
