"""SARIF 2.1.0 as GitHub code scanning takes it: all rules that ran, `results` even when clean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO, TypeAlias

from shardlint import __version__
from shardlint.plugins import Finding, Fix, Related, Result, Rule, Severity
from shardlint.reports.places import ends, relative_uri
from shardlint.reports.words import with_help
from shardlint.source import Edit, Position, Source

name = "sarif"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MAX_TEXT = 1024

Json: TypeAlias = dict[str, Any]

_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_PRECISION: dict[Severity, str] = {"error": "very-high", "warning": "high", "info": "medium"}
_PROBLEMS: dict[Severity, str] = {
    "error": "error",
    "warning": "warning",
    "info": "recommendation",
}


def write(result: Result, out: TextIO) -> None:
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(result)]}
    out.write(json.dumps(document, indent=2) + "\n")


def _run(result: Result) -> Json:
    urls = {finding.rule: finding.url for finding in result.findings if finding.url}
    indices = {rule.id: index for index, rule in enumerate(result.rules)}
    rules = [_rule(rule, urls.get(rule.id)) for rule in result.rules]
    return {
        "tool": {"driver": {"name": "shardlint", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, indices, result.sources) for finding in result.findings],
        "properties": {"summary": result.summary()},
    }


def _rule(rule: type[Rule], url: str | None) -> Json:
    page = rule.page().strip() or rule.name
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": (rule.summary() or rule.name)[:MAX_TEXT]},
        "fullDescription": {"text": _prose(page)[:MAX_TEXT]},
        "help": {"text": page, "markdown": page},
        **({"helpUri": url} if url else {}),
        "defaultConfiguration": {"enabled": rule.enabled, "level": _LEVELS[rule.severity]},
        "properties": {
            "precision": _PRECISION[rule.severity],
            "problem.severity": _PROBLEMS[rule.severity],
            "tags": ["inference-serving", rule.scope],
        },
    }


def _prose(page: str) -> str:
    """A page up to its first example, on one line."""
    return " ".join(page.split("```", 1)[0].split()) or page


def _result(finding: Finding, indices: Mapping[str, int], sources: Mapping[str, Source]) -> Json:
    index, marks = indices.get(finding.rule), finding.fingerprint
    related = [_related(item, number) for number, item in enumerate(finding.related, 1)]
    fixes = [_fix(fix, sources) for fix in finding.fixes if fix.edits]
    return {
        "ruleId": finding.rule,
        **({} if index is None else {"ruleIndex": index}),
        "level": _LEVELS[finding.severity],
        "message": {"text": with_help(finding)},
        "locations": [_location(finding.file, finding.start, finding.end)],
        **({"relatedLocations": related} if related else {}),
        **({"partialFingerprints": {"primaryLocationLineHash": marks}} if marks else {}),
        **({"fixes": fixes} if fixes else {}),
        "properties": {"confidence": finding.confidence, "assumes": list(finding.assumes)},
    }


def _related(related: Related, number: int) -> Json:
    place = _location(related.file, related.start, related.end)
    return {"id": number, **place, "message": {"text": related.message}}


def _location(file: str, start: Position, end: Position) -> Json:
    return {
        "physicalLocation": {"artifactLocation": _artifact(file), "region": _region(start, end)}
    }


def _artifact(file: str) -> Json:
    return {"uri": relative_uri(file)}


def _region(start: Position, end: Position) -> Json:
    return {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    }


def _fix(fix: Fix, sources: Mapping[str, Source]) -> Json:
    return {
        "description": {"text": fix.title},
        "artifactChanges": list(_changes(fix.edits, sources)),
    }


def _changes(edits: Iterable[Edit], sources: Mapping[str, Source]) -> Iterator[Json]:
    by_file: dict[str, list[Edit]] = {}
    for edit in edits:
        by_file.setdefault(edit.file, []).append(edit)
    for file, group in by_file.items():
        replacements = [_replacement(edit, sources) for edit in group]
        yield {"artifactLocation": _artifact(file), "replacements": replacements}


def _replacement(edit: Edit, sources: Mapping[str, Source]) -> Json:
    region = _region(*ends(edit, sources))
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}
