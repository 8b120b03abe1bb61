"""The tables of flags by release: what was read from each package, put together.

One flag has one record for each run of releases in which it takes the same words; what else
changed within the run is in the record's `earlier`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class UnsupportedSourceError(Exception):
    """The package registers flags in a way that a script does not follow."""


@dataclass(frozen=True)
class Release:
    """What was read from one package."""

    flags: list[Record]  # in the order of their names
    grammar: Record


def spellings(row: Record) -> list[str]:
    """Every spelling that selects a record, inverses and --no- forms included."""
    found = [row["flag"], *row["aliases"], *([row["inverse"]] if "inverse" in row else [])]
    return found + (["--no-" + row["flag"][2:]] if row["negatable"] else [])


def no_spelling_twice(rows: Iterable[Record]) -> None:
    seen: set[str] = set()
    for spelling in (spelling for row in rows for spelling in spellings(row)):
        if spelling in seen:
            raise UnsupportedSourceError(f"{spelling} is registered twice")
        seen.add(spelling)


def version_key(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))


Dated = list[tuple[str, Record]]
VARYING = (
    "aliases", "choices", "nullable", "negatable", "inverse", "default", "deprecated", "refused",
    "successor", "file",
)  # fmt: skip


def merge(releases: dict[str, Release]) -> list[Record]:
    """One record for each run of neighbouring releases in which a flag takes the same words."""
    runs: dict[str, list[Dated]] = {}
    before = ""
    for release, made in releases.items():
        for row in made.flags:
            known = runs.setdefault(row["flag"], [])
            if known and _goes_on(known[-1], before, row):
                known[-1].append((release, row))
            else:
                known.append([(release, row)])
        before = release
    return [_dated(run) for flag in sorted(runs) for run in runs[flag]]


def _goes_on(run: Dated, before: str, row: Record) -> bool:
    release, last = run[-1]
    return release == before and (last["takes"], last["type"]) == (row["takes"], row["type"])


def _dated(run: Dated) -> Record:
    """The newest state of a run, and what was different earlier."""
    made = run[-1][1] | {"first_seen": run[0][0], "last_seen": run[-1][0]}
    earlier = {key: spans for key in VARYING if (spans := _spans(run, key)[:-1])}
    return made | ({"earlier": earlier} if earlier else {})


def _spans(rows: Dated, key: str) -> list[Record]:
    """Neighbouring releases with the same value as one span; a span without one has no value."""
    spans: list[Record] = []
    for release, row in rows:
        value = {"value": row[key]} if key in row else {}
        if spans and _value(spans[-1]) == value:
            spans[-1]["last_seen"] = release
        else:
            spans.append({"first_seen": release, "last_seen": release} | value)
    return spans


def _value(span: Record) -> Record:
    return {"value": span["value"]} if "value" in span else {}


def grammars(releases: dict[str, Release]) -> list[Record]:
    """One record for each run of releases whose parsers read words alike."""
    rows: Dated = [(release, {"grammar": made.grammar}) for release, made in releases.items()]
    return [span.pop("value") | span for span in _spans(rows, "grammar")]


def removed(
    releases: dict[str, Release], replaced_by: dict[str, str], instead: dict[str, str]
) -> list[Record]:
    """Flags and aliases that the newest release refuses, with the releases around their end."""
    order = list(releases)
    names = {release: {name for row in made.flags for name in spellings(row)}
             for release, made in releases.items()}  # fmt: skip
    ever = {name for made in releases.values() for row in made.flags
            for name in (row["flag"], *row["aliases"])}  # fmt: skip
    last = {name: max(i for i, release in enumerate(order) if name in names[release])
            for name in ever - names[order[-1]]}  # fmt: skip
    if undead := sorted(names[order[-1]] & replaced_by.keys()):
        raise UnsupportedSourceError(f"listed as replaced, but accepted by {order[-1]}: {undead}")
    return [
        {"flag": name, "last_seen": order[i], "first_gone": order[i + 1]}
        | {"replaced_by": replaced_by.get(name)}
        | ({"instead": instead[name]} if name in instead else {})
        for name, i in sorted(last.items())
    ]


def table(
    engine: str,
    source: str,
    supported: Record,
    releases: dict[str, Release],
    reviewed: Record,
) -> Record:
    ordered = {release: releases[release] for release in sorted(releases, key=version_key)}
    return {
        "schema_version": 3,
        "engine": engine,
        "source": source,
        "releases": list(ordered),
        "supported": supported,
        "grammars": grammars(ordered),
        "flags": merge(ordered),
        "removed": removed(ordered, reviewed["replaced_by"], reviewed.get("instead", {})),
        "known_elsewhere": reviewed["known_elsewhere"],
    }


def render(made: Record) -> str:
    """JSON with one record a line, so that a diff shows one flag a line."""
    parts = []
    for key, value in made.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in value)
            text = f"[\n{rows}\n  ]"
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write(path: Path, root: Path, made: Record, check: bool) -> int:
    """Write a table, or say whether the one on disk is the same."""
    text = render(made)
    if check:
        same = path.is_file() and path.read_text("utf-8") == text
        print(f"{path.relative_to(root)}: {'up to date' if same else 'differs from the packages'}")
        return 0 if same else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    flags, releases = len(made["flags"]), len(made["releases"])
    print(f"{path.relative_to(root)}: {flags} records of {releases} releases")
    return 0
