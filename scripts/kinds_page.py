"""The page of kinds: which facts each kind can state, which are edited, what platforms make of it.

The examples in examples/kinds are read, each alone, and edited: a cell of the table is what comes
out. `examples/kinds/READER/KIND.yaml` is an example of one of the reader's `kinds`, with `-` for a
blank; so is a folder of that name, and a further one with a word between, as `KIND.scaled.yaml`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from shardlint import platforms
from shardlint.known import Known
from shardlint.plan import Refusal, ServingPlan
from shardlint.plugins import Plugins, Reader
from shardlint.project import Project, Setup
from shardlint.reports.inspection import FIELDS
from shardlint.source import Edit, apply

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = "examples/kinds"
UNREAD = f"{EXAMPLES}/unread"
OTHERS: Mapping[str, tuple[str, ...]] = {
    "max_model_len": ("16384",),
    "kv_cache_dtype": ("auto",),
    "gpu_memory_utilization": ("0.5",),
    "shm_bytes": (str(32 * 2**30),),
    "model": ("Qwen/Qwen3-8B",),
    "gpu_type": ("NVIDIA-L40S",),
}
"""Values that the examples do not have, to be set in them."""
SIZES = ("4", "1", "8", "3", "2", "16")
FACTS = (
    "engine_version", "model", "tp", "pp", "dp", "ep", "gpus_per_pod", "nodes", "replicas",
    "max_replicas", "gpu_type", "max_model_len", "quantization", "kv_cache_dtype",
    "gpu_memory_utilization", "shm_bytes",
)  # fmt: skip
EDITED, WRITTEN, READ, DERIVED, NOTHING = "✎", "+", "✓", "=", ""
RANK = (EDITED, READ, WRITTEN, DERIVED, NOTHING)
"""Of several examples the most that one of them shows."""
FILLED = ("derived", "defaulted")
SOURCES = re.compile(r"Sources:|Facts:|Read in ")

Texts = Mapping[str, str]


# ---------------------------------------------------------------------------------- examples


def kinds(reader: Reader) -> tuple[str, ...]:
    """What a reader reads; a third party's need not say it."""
    return tuple(getattr(reader, "kinds", ()))


def examples(reader: Reader, kind: str) -> Iterator[Path]:
    """Files and folders with examples of one kind."""
    folder, stem = ROOT / EXAMPLES / reader.name, kind.replace(" ", "-")
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.partition(".")[0] == stem:
            yield path


def texts(path: Path) -> Texts:
    """The texts of an example by their names."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for file in files
        if file.is_file()
    }


def cells(setup: Setup, found: Texts) -> dict[str, str]:
    """What an example shows of each fact."""
    plans = Project.of_texts(setup, found).plans
    shown = {name: [_cell(setup, found, plan, name) for plan in plans] for name in FACTS}
    return {name: best(signs) for name, signs in shown.items()}


def best(signs: Iterable[str]) -> str:
    return min(signs, key=RANK.index, default=NOTHING)


def _cell(setup: Setup, found: Texts, plan: ServingPlan, name: str) -> str:
    fact = _fact(plan, name)
    stated = fact.is_known and fact.how == "stated"
    if can_be_set(setup, found, plan, name):
        return EDITED if stated else WRITTEN
    if stated:
        return READ
    return DERIVED if fact.is_known and fact.how in FILLED and fact.only is not None else NOTHING


def _fact(plan: ServingPlan, name: str) -> Known[object]:
    if name == "engine_version":
        return plan.tag
    return plan.fact(FIELDS[name])


def can_be_set(setup: Setup, found: Texts, plan: ServingPlan, name: str) -> bool:
    """The field was given another value, and reads as that value."""
    site = plan.sites.get(name)
    if site is None:
        return False
    before = _fact(plan, name).only
    for value in OTHERS.get(name, SIZES):
        if value == str(before):
            continue
        edits = site.set(value)
        if isinstance(edits, Refusal):
            continue
        after = Project.of_texts(setup, edited(found, edits)).plans
        if any(other.id == plan.id and str(_fact(other, name).only) == value for other in after):
            return True
    return False


def edited(found: Texts, edits: Iterable[Edit]) -> Texts:
    made = list(edits)
    return {
        name: apply(text, [edit for edit in made if edit.file == name])
        for name, text in found.items()
    }


# -------------------------------------------------------------------------------------- page

INTRODUCTION = """\
# Kinds

What can be read of each kind of file or object, as found out by reading an example of it: the files
in [examples/kinds](../examples/kinds). The facts go by their names in `inspect --format json`.

- ✎ the file states it, and it is edited there: the example reads as another value afterwards
- ✓ the file states it
- \\+ the example does not state it; it can be written there
- = it follows from what the kind means or from what the platform does
- nothing: it cannot be stated there, or it is not read

What an engine itself is asked (`tp` to `ep` and `max_model_len` to `gpu_memory_utilization`) is
read wherever its command line, its variables or its file of options stand. Services, gateways and
other objects that choose among replicas are read as routers, autoscalers as bounds of the replicas.
"""

REFUSED = """\
## Not read

Such a file gives no plan and no finding; each has an example as well.
"""


def page(plugins: Plugins) -> Iterator[str]:
    """The parts of the page."""
    setup = Setup(plugins)
    yield INTRODUCTION
    yield _table(list(_rows(plugins, setup)))
    yield "## What platforms make of it\n"
    yield "".join(f"{line}\n" for line in _platforms())
    yield REFUSED
    yield "".join(f"- {line}\n" for line in _unread())


def _table(rows: list[list[str]]) -> str:
    head = ["reader", "kind", *(name.replace("_", "_<br>") for name in FACTS)]
    lines = [head, ["---"] * 2 + [":-:"] * len(FACTS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _rows(plugins: Plugins, setup: Setup) -> Iterator[list[str]]:
    for reader in sorted(plugins.readers(), key=lambda reader: reader.name):
        for kind in kinds(reader):
            paths = list(examples(reader, kind))
            shown = [cells(setup, texts(path)) for path in paths]
            place = paths[0].relative_to(ROOT).as_posix()
            signs = (best(each[name] for each in shown) for name in FACTS)
            yield [reader.name, f"[{kind}](../{place})", *(_escaped(sign) for sign in signs)]


def _escaped(sign: str) -> str:
    return f"\\{sign}" if sign == WRITTEN else sign


def _platforms() -> Iterator[str]:
    """Each platform by the docstring of its module: the first sentence, and what it does."""
    for info in pkgutil.iter_modules(platforms.__path__):
        module = importlib.import_module(f"{platforms.__name__}.{info.name}")
        what, does = paragraphs(module.__doc__ or "")[:2]
        assert not SOURCES.match(does), f"{info.name} does not say what the platform does"
        yield f"- **`{info.name}`** {what} {does}"


def paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.strip().split("\n\n")]


def _unread() -> Iterator[str]:
    for path in unread():
        about = path.read_text(encoding="utf-8")
        said = re.search(r'^(?:# |\s*"//": ")(.+?)(?:",)?$', about, re.MULTILINE)
        assert said is not None, f"{path} does not say what it is"
        yield f"[{path.name}](../{path.relative_to(ROOT).as_posix()}): {said[1]}"


def unread() -> list[Path]:
    """Files of kinds that are not read."""
    return sorted((ROOT / UNREAD).iterdir(), key=lambda path: path.name.lower())
