"""The built-in rules, one file each, registered like a third party's."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from shardlint.api import Rule, hookimpl


@hookimpl
def shardlint_rules() -> Iterable[type[Rule]]:
    """Every rule class of this package: a new rule is a new file, and no list grows."""
    for info in iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Rule)
                and value.__module__ == module.__name__
            ):
                yield value
