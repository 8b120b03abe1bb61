"""One line per finding, for editors and grep, and one with the counts."""

from __future__ import annotations

from typing import TextIO

from shardlint.plugins import Finding, Result
from shardlint.reports.summary import summary
from shardlint.reports.words import printable

name = "concise"


def write(result: Result, out: TextIO) -> None:
    for finding in result.findings:
        out.write(_line(finding) + "\n")
    out.write(summary(result) + "\n")


def _line(finding: Finding) -> str:
    place = f"{finding.file}:{finding.start.line}:{finding.start.column}"
    return printable(f"{place}: {finding.rule} {finding.severity} {finding.message}")
