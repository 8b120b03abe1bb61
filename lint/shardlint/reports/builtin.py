"""The formats that come with shardlint, registered like a third party's."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from shardlint.plugins import hookimpl

if TYPE_CHECKING:
    from shardlint.plugins import Report, Result

MODULES = {
    "text": "text",
    "concise": "concise",
    "json": "json_",
    "github": "github",
    "sarif": "sarif",
    "lsp": "lsp",
}
"""Format names and the modules that write them."""


class LazyReport:
    """A format whose module is imported when it writes: one run needs one of them."""

    def __init__(self, name: str, module: str) -> None:
        self.name = name
        self._module = module

    def write(self, result: Result, out: TextIO) -> None:
        report: Report = import_module(f"shardlint.reports.{self._module}")
        report.write(result, out)


@hookimpl
def shardlint_reports() -> tuple[LazyReport, ...]:
    return tuple(LazyReport(name, module) for name, module in MODULES.items())
