"""What is read of real routing configurations, beside what a person read of them.

    python benchmarks/routing_facts.py --corpus FOLDER [--rows]

FOLDER holds `index.yaml`: a list `samples` with a `file`, its `kind` and under `expect` the
`policy`, whether it is `explicit`, the `awareness` and the `findings`. A fact is

- right: one router of the file has it;
- missed: nothing was read of the file's routers, or it is said to be undecided;
- wrong: the routers of the file say something else.

Findings are compared as sets of the names that the index has, with those that the file must not
have above info. The exit code is 1 if a fact is wrong.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ruamel.yaml import YAML
from shardlint.engines import builtin as engines
from shardlint.linter import lint
from shardlint.plugins import Plugins
from shardlint.project import Project, Setup
from shardlint.readers import builtin as readers
from shardlint.reports import builtin as reports
from shardlint.reports.inspection import as_json

FACTS = ("policy", "explicit", "awareness")
RULES = ("routing-blind", "routing-load-only", "routing-prefix-only", "routing-kv-events-missing",
         "routing-prefix-caching-off")  # fmt: skip
"""The rules that the index has a word for."""

Verdict: TypeAlias = Literal["right", "missed", "wrong"]
VERDICTS: tuple[Verdict, ...] = ("right", "missed", "wrong")
Entry: TypeAlias = Mapping[str, Any]


class Fact(NamedTuple):
    """One fact of one file: what the index says, and what was read."""

    kind: str
    file: str
    name: str
    wanted: Any
    read: Any
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.file}: {self.name} is {self.wanted!r}, read {self.read!r}"


def built_in() -> Setup:
    import shardlint_rules as rules

    return Setup(Plugins([engines, readers, reports, rules], discover=False))


def entries(corpus: Path) -> tuple[Entry, ...]:
    text = (corpus / "index.yaml").read_text(encoding="utf-8")
    return tuple(YAML(typ="safe").load(text)["samples"])


def facts(entry: Entry, corpus: Path, setup: Setup) -> Iterator[Fact]:
    """The facts of one file: those of the router that has most of them right."""
    project = Project.discover(setup, [str(corpus / entry["file"])], corpus)
    found = [_comparable(router) for router in as_json(project)["routers"]]
    wanted = _comparable(entry["expect"])
    best = max(found, key=lambda item: sum(item[n] == wanted[n] for n in FACTS), default=None)
    for name in FACTS:
        read = None if best is None else best[name]
        undecided = read is None or read == []  # an awareness that is known names something
        verdict: Verdict = "missed" if undecided else "right" if read == wanted[name] else "wrong"
        yield Fact(entry["kind"], entry["file"], name, wanted[name], read, verdict)
    yield _findings(entry, project)


def _comparable(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in FACTS} | {"awareness": sorted(record["awareness"])}


def _findings(entry: Entry, project: Project) -> Fact:
    result = lint(project).result
    about = [item for item in result.findings if item.name in RULES]
    wanted = sorted(entry["expect"]["findings"])
    names = {item.name for item in about}
    read = sorted(name for name in names if name in wanted) + sorted(
        f"{item.name} {item.severity}"
        for item in about
        if item.name not in wanted and item.severity != "info"
    )
    verdict: Verdict = "right" if read == wanted else "missed" if not read else "wrong"
    return Fact(entry["kind"], entry["file"], "findings", wanted, read, verdict)


# --------------------------------------------------------------------------------------- table


def table(rows: list[Fact]) -> str:
    """A line for each fact, with the number of files of each verdict."""
    counts = Counter((fact.name, fact.verdict) for fact in rows)
    lines = [f"{'fact':<12}" + "".join(f"{word:>8}" for word in VERDICTS)]
    for name in (*FACTS, "findings"):
        numbers = "".join(f"{counts[name, verdict]:>8}" for verdict in VERDICTS)
        lines.append(f"{name:<12}{numbers}")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--corpus", type=Path, required=True, help="a folder with index.yaml")
    parser.add_argument("--rows", action="store_true", help="list the facts that differ")
    options = parser.parse_args(arguments)
    setup = built_in()
    corpus = options.corpus.resolve()
    found = [fact for entry in entries(corpus) for fact in facts(entry, corpus, setup)]
    print(table(found), end="")
    if options.rows:
        for verdict in VERDICTS[1:]:
            for fact in found:
                if fact.verdict == verdict:
                    print(f"{verdict:<7} {fact}")
    return int(any(fact.verdict == "wrong" for fact in found))


if __name__ == "__main__":
    raise SystemExit(main())
