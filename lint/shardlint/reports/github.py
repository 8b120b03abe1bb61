"""Workflow commands of GitHub Actions, worst first: GitHub shows ten of each level per step.

A column is given only for a span on one line; on more lines GitHub refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from shardlint.plugins import SEVERITIES, Finding, Result, Severity
from shardlint.reports.summary import summary
from shardlint.reports.words import counted, with_help

name = "github"
SHOWN = 10

_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}


def write(result: Result, out: TextIO) -> None:
    for finding in result.worst_first():
        properties = ",".join(f"{key}={_property(value)}" for key, value in _properties(finding))
        out.write(f"::{_LEVELS[finding.severity]} {properties}::{_data(with_help(finding))}\n")
    out.write(summary(result) + "\n")
    if hidden := list(_hidden(result)):
        out.write(f"GitHub shows {SHOWN} annotations of a level per step and leaves out ")
        out.write(f"{', '.join(hidden)} of the lines above\n")


def _properties(finding: Finding) -> Iterator[tuple[str, str]]:
    start, end = finding.start, finding.end
    yield "file", finding.file
    yield "line", str(start.line)
    yield "endLine", str(end.line)
    if start.line == end.line:
        yield "col", str(start.column)
        yield "endColumn", str(end.column)
    yield "title", f"shardlint {finding.rule} {finding.name}"


def _hidden(result: Result) -> Iterator[str]:
    for severity in SEVERITIES:
        if (rest := result.count(severity) - SHOWN) > 0:
            yield counted(rest, _LEVELS[severity])


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
