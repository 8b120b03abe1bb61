"""A plugin: the module that the entry point names, with the hooks that it implements."""

from __future__ import annotations

from shardlint.api import Engine, Platform, Reader, Report, Rule, hookimpl


@hookimpl
def shardlint_rules() -> list[type[Rule]]:
    from shardlint_toy.rule import ModelNotOurs

    return [ModelNotOurs]


@hookimpl
def shardlint_engines() -> list[Engine]:
    from shardlint_toy.engine import ToyEngine

    return [ToyEngine()]


@hookimpl
def shardlint_readers() -> list[Reader]:
    from shardlint_toy.reader import ToyReader

    return [ToyReader()]


@hookimpl
def shardlint_platforms() -> list[Platform]:
    from shardlint_toy.platform import ToyBox

    return [ToyBox()]


@hookimpl
def shardlint_reports() -> list[Report]:
    from shardlint_toy.report import PlacesReport

    return [PlacesReport()]
