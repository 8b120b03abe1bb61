"""The places of all findings, for a shell loop."""

from __future__ import annotations

from typing import TextIO

from shardlint.api import Result


class PlacesReport:
    name = "places"

    def write(self, result: Result, out: TextIO) -> None:
        for finding in result.findings:
            out.write(
                f"{finding.file}:{finding.start.line}:{finding.start.column} {finding.name}\n"
            )
