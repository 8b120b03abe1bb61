"""A JSON list of PublishDiagnosticsParams (LSP 3.17), one for each file that has findings.

Positions are in UTF-16 code units. `uri` is a relative reference, so that the output is the same in
every checkout: a client joins it to the URI of its workspace folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TextIO, TypeAlias

from shardlint.plugins import Finding, Related, Result, Severity
from shardlint.reports.places import relative_uri
from shardlint.reports.words import with_help
from shardlint.source import Position, Source

name = "lsp"

Json: TypeAlias = dict[str, Any]
Uri: TypeAlias = Callable[[str], str]

_SEVERITIES: dict[Severity, int] = {"error": 1, "warning": 2, "info": 3}


def write(result: Result, out: TextIO) -> None:
    out.write(json.dumps(published(result), indent=2) + "\n")


def published(result: Result, uri: Uri = relative_uri) -> list[Json]:
    """What a server would publish for each file with findings."""
    files: dict[str, list[Json]] = {}
    for finding in result.findings:
        found = files.setdefault(finding.file, [])
        found.append(diagnostic(finding, result.sources, uri))
    return [{"uri": uri(file), "diagnostics": found} for file, found in files.items()]


def diagnostic(finding: Finding, sources: Mapping[str, Source], uri: Uri = relative_uri) -> Json:
    source = sources.get(finding.file)
    related = [_related(item, sources, uri) for item in finding.related]
    return {
        "range": _range(finding.start, finding.end, source),
        "severity": _SEVERITIES[finding.severity],
        "code": finding.rule,
        **({"codeDescription": {"href": finding.url}} if finding.url else {}),
        "source": "shardlint",
        "message": with_help(finding),
        **({"relatedInformation": related} if related else {}),
        "data": {
            "fingerprint": finding.fingerprint,
            "fixes": [fix.title for fix in finding.fixes],
        },
    }


def _related(related: Related, sources: Mapping[str, Source], uri: Uri) -> Json:
    place = _range(related.start, related.end, sources.get(related.file))
    return {"location": {"uri": uri(related.file), "range": place}, "message": related.message}


def _range(start: Position, end: Position, source: Source | None) -> Json:
    return {"start": _position(start, source), "end": _position(end, source)}


def _position(position: Position, source: Source | None) -> Json:
    """Without a text (a file that is not UTF-8) code points are the best there is."""
    column = source.utf16_column(position.offset) if source else position.column - 1
    return {"line": position.line - 1, "character": column}
