"""The whole result as JSON, under the schema `check`; ASCII, so that any stream can carry it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO, TypeAlias

from shardlint.plugins import Finding, Fix, Related, Result, UndecidedRule
from shardlint.reports.places import ends
from shardlint.source import Edit, Position, Source

name = "json"
SCHEMA_VERSION = 1

Json: TypeAlias = dict[str, Any]


def write(result: Result, out: TextIO) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        "findings": [_finding(finding, result.sources) for finding in result.findings],
        "undecided": [_undecided(item) for item in result.undecided],
        "summary": result.summary(),
    }
    out.write(json.dumps(document, indent=2, default=dict) + "\n")  # default: read-only mappings


def _finding(finding: Finding, sources: Mapping[str, Source]) -> Json:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "assumes": list(finding.assumes),
        "message": finding.message,
        "plan": finding.plan,
        "path": finding.path,
        "file": finding.file,
        "start": _position(finding.start),
        "end": _position(finding.end),
        "related": [_related(item) for item in finding.related],
        "help": finding.help,
        "url": finding.url,
        "fingerprint": finding.fingerprint,
        "fixes": [_fix(fix, sources) for fix in finding.fixes],
    }


def _position(position: Position) -> Json:
    return {"line": position.line, "column": position.column, "offset": position.offset}


def _related(related: Related) -> Json:
    return {
        "file": related.file,
        "start": _position(related.start),
        "end": _position(related.end),
        "message": related.message,
    }


def _fix(fix: Fix, sources: Mapping[str, Source]) -> Json:
    return {
        "title": fix.title,
        "applicability": fix.applicability,
        "delta": fix.delta,
        "edits": [_edit(edit, sources) for edit in fix.edits],
        "estimate": fix.estimate,
    }


def _edit(edit: Edit, sources: Mapping[str, Source]) -> Json:
    start, end = map(_position, ends(edit, sources))
    return {"file": edit.file, "start": start, "end": end, "text": edit.text}


def _undecided(item: UndecidedRule) -> Json:
    return {"rule": item.rule, "plan": item.plan, "needs": item.needs, "reason": item.reason}
