"""The formats that come with shardlint, registered like a third party's."""

from __future__ import annotations

from shardlint.plugins import Report, hookimpl
from shardlint.reports import concise, github, json_, lsp, sarif, text

BUILTIN: tuple[Report, ...] = (text, concise, json_, github, sarif, lsp)


@hookimpl
def shardlint_reports() -> tuple[Report, ...]:
    return BUILTIN
