"""Facts that are read of real manifests, beside those that a person read of them.

    python benchmarks/corpus_facts.py --corpus FOLDER [--rows]

FOLDER holds `index.yaml`: a list `files` with a `file`, its `kind` and under `expect` the
`workloads`, each with its `engine` and what the file states; null is what it does not state.
A workload is set beside the plan of the same engine at the same place in the file. A fact is

- right: read as it is stated;
- missed: stated and not read;
- wrong: another value was read than the one that is stated;
- extra: read though it is not stated; so is a plan to which no workload belongs.

The exit code is 1 if a fact is wrong or extra.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ruamel.yaml import YAML
from shardlint.engines import builtin as engines
from shardlint.platforms import builtin as platforms
from shardlint.plugins import Plugins
from shardlint.project import Project, Setup
from shardlint.readers import builtin as readers
from shardlint.reports import builtin as reports
from shardlint.reports.inspection import as_json

FACTS = (
    "engine", "engine_version", "model", "tp", "pp", "dp", "ep", "gpus_per_pod", "nodes",
    "replicas", "gpu_type", "max_model_len", "quantization", "kv_cache_dtype",
    "gpu_memory_utilization",
)  # fmt: skip
PLAN = "plan"
"""The name of the row for a plan to which no workload belongs; its value is the engine's."""

Verdict: TypeAlias = Literal["right", "missed", "wrong", "extra"]
VERDICTS: tuple[Verdict, ...] = ("right", "missed", "wrong", "extra")
Entry: TypeAlias = Mapping[str, Any]


class Fact(NamedTuple):
    """One fact of one workload: what the index says, and what was read."""

    kind: str
    file: str
    engine: str | None
    name: str
    wanted: Any
    read: Any

    @property
    def verdict(self) -> Verdict | None:
        """None where nothing is stated and nothing was read."""
        if self.read is None:
            return None if self.wanted is None else "missed"
        if self.wanted is None:
            return "extra"
        return "right" if same(self.wanted, self.read) else "wrong"

    def __str__(self) -> str:
        return f"{self.file}: {self.name} is {self.wanted!r}, read {self.read!r}"


def built_in() -> Setup:
    return Setup(Plugins([engines, platforms, readers, reports]))


def entries(corpus: Path) -> tuple[Entry, ...]:
    """The files of the index."""
    text = (corpus / "index.yaml").read_text(encoding="utf-8")
    return tuple(YAML(typ="safe").load(text)["files"])


def facts(entry: Entry, corpus: Path, setup: Setup) -> Iterator[Fact]:
    """Each fact of the workloads of one file, the unstated ones too."""
    project = Project.discover(setup, [str(corpus / entry["file"])], corpus)
    found = [plan["stated"] for plan in as_json(project)["plans"]]
    workloads = (entry.get("expect") or {}).get("workloads") or []
    for engine in dict.fromkeys(item["engine"] for item in [*workloads, *found]):
        plans = [plan for plan in found if plan["engine"] == engine]
        stated = [row for row in workloads if row["engine"] == engine]
        for name, wanted, read in _beside(stated, plans):
            yield Fact(entry["kind"], entry["file"], engine, name, wanted, read)


def _beside(stated: list[Entry], plans: list[Entry]) -> Iterator[tuple[str, Any, Any]]:
    for index, workload in enumerate(stated):
        read = plans[index] if index < len(plans) else {}
        for name in FACTS:
            yield name, workload.get(name), read.get(name)
    for extra in plans[len(stated) :]:
        yield PLAN, None, extra["engine"]


def same(wanted: Any, read: Any) -> bool:
    if isinstance(wanted, str) and isinstance(read, str) and wanted.startswith("/home/"):
        # User names were replaced in the files after some of the facts had been written down.
        wanted, read = (re.sub(r"^/home/[^/]+/", "/home/user/", path) for path in (wanted, read))
    if isinstance(wanted, str) and "/" in wanted and wanted.rpartition(":")[2] == read:
        return True  # an image whose tag is no release of its engine is given in full
    if isinstance(wanted, str) and wanted.startswith("*"):
        return isinstance(read, str) and read.endswith(wanted[1:])
    return bool(wanted == read)


# --------------------------------------------------------------------------------------- table


def table(rows: Iterable[Fact], files: Mapping[str, int]) -> str:
    """A line for each kind, with its files and the number of facts of each verdict."""
    counts = Counter((fact.kind, fact.verdict) for fact in rows)
    kinds = sorted(files)
    lines = [_line(kind, files[kind], [counts[kind, verdict] for verdict in VERDICTS])
             for kind in kinds]  # fmt: skip
    sums = [sum(counts[kind, verdict] for kind in kinds) for verdict in VERDICTS]
    head = f"{'kind':<28}{'files':>6}" + "".join(f"{word:>8}" for word in VERDICTS)
    return "\n".join([head, *lines, _line("all", sum(files.values()), sums)]) + "\n"


def _line(kind: str, files: int, counts: list[int]) -> str:
    return f"{kind:<28}{files:>6}" + "".join(f"{count:>8}" for count in counts)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--corpus", type=Path, required=True, help="a folder with index.yaml")
    parser.add_argument("--rows", action="store_true", help="list the facts that differ")
    options = parser.parse_args(arguments)
    setup = built_in()
    corpus = options.corpus.resolve()
    listed = entries(corpus)
    found = [fact for entry in listed for fact in facts(entry, corpus, setup)]
    print(table(found, Counter(entry["kind"] for entry in listed)), end="")
    if options.rows:
        for verdict in VERDICTS[1:]:
            for fact in found:
                if fact.verdict == verdict:
                    print(f"{verdict:<7} {fact}")
    return int(any(fact.verdict in ("wrong", "extra") for fact in found))


if __name__ == "__main__":
    raise SystemExit(main())
