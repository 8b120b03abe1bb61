"""Our constraints against vLLM's own verdicts on 57 published shapes and 13 test shapes.

The verdicts come from vLLM 0.33.0, run without GPUs: GPU counts are not in them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from harness import setup
from shardlint.engines.vllm import VLLM
from shardlint.linter import lint
from shardlint.models.config_json import from_folder
from shardlint.plan import Constraint, Layout, ModelFacts, Options, Releases, ServingPlan
from shardlint.plugins import World, accepted
from shardlint.project import Project
from shardlint.source import Origin, Span

Row = Mapping[str, Any]
ENGINE = VLLM()
TOLD = Options(releases=(Releases("0.33.0", "0.33.0"),))
SMALL_WIDTH = 512
"""No vocabulary and no FFN is narrower: a smaller number in an error counts heads."""


def _judged(row: Row) -> bool:
    """Only the first stage of a layout was built: with more stages than layers that says little."""
    return row["pp"] <= (model(row["model"]).num_layers or row["pp"])


@cache
def rows() -> tuple[Row, ...]:
    path = SHARED / "evidence" / "vllm_oracle.jsonl"
    if not path.is_file():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(row for row in map(json.loads, lines) if _judged(row))


def folder(name: str) -> Path:
    """Where the config of a model lies."""
    folders = SHARED / "evidence" / "oracle_models"
    own = folders / name.replace("/", "--")
    return own if own.is_dir() else folders / f"ipex--{name.rpartition('/')[2]}"


@cache
def model(name: str) -> ModelFacts:
    facts = from_folder(folder(name), name)
    assert facts is not None
    return facts


def layout(row: Row) -> Layout:
    return Layout(tp=row["tp"], pp=row["pp"], dp=row["dp"], ep=row["ep"])


def refusals(row: Row) -> list[Constraint]:
    """What would be reported of a row."""
    facts, asked = model(row["model"]), layout(row)
    found = ENGINE.constraints(facts, ENGINE.ranks(asked, facts, None), asked, TOLD)
    return [item for item in found if item.refuses and not item.advisory]


def cause(row: Row) -> str:
    """What stopped vLLM, by its own words and the place of an assertion without any."""
    error, where = row["error"], row.get("where", "")
    if "attention heads" in error:
        return "heads"
    if number := re.fullmatch(r"(\d+) is not divisible by \d+", error):
        return "width" if int(number[1]) > SMALL_WIDTH else "vision or linear attention heads"
    if "minimax_m2.py" in where:
        return "KV heads"
    if "modulo by zero" in error:
        return "KV heads that are not copied"
    for words, name in (
        ("num_groups", "Mamba groups"),
        ("weight quantization block", "FP8 block"),
        ("layer found", "stage without a mixture layer"),
        ("(empty message)", "stage without a mixture layer"),
    ):
        if words in error:
            return name
    return error


def show(title: str, counted: Iterable[str]) -> None:
    """Print a table of counts; `pytest -rP` shows it."""
    lines = [f"{count:5} {name}" for name, count in Counter(counted).most_common()]
    print("\n".join([title, *lines]))  # noqa: T201


def errors() -> list[Row]:
    return [row for row in rows() if row["verdict"] == "error"]


def test_the_evidence_is_there(shared: Any) -> None:
    assert len(rows()) > 1300
    assert len({row["model"] for row in rows()}) == 70
    assert len(errors()) > 500


def test_what_is_refused_here_is_refused_by_vllm(shared: Any) -> None:
    false = [
        (row["model"], layout(row), refusals(row))
        for row in rows()
        if row["verdict"] == "ok" and refusals(row)
    ]
    assert [] == false


B200 = ("NVFP4", "V4-", "Kimi-K3")
"""Names of models that were tried on that card, all others on an H100."""


def said(row: Row) -> bool:
    """Whether linting a command line with this layout gives an error."""
    card = "B200-SXM-180GB" if any(mark in row["model"] for mark in B200) else "H100-SXM-80GB"
    told = setup(
        gpu=card,
        gpus_per_node=4096,
        engine_version={"vllm": "0.33.0"},
        models={"org/model": {"config": str(folder(row["model"]))}},
    )
    experts = " --enable-expert-parallel" if row["ep"] else ""
    line = f"vllm serve org/model -tp {row['tp']} -pp {row['pp']} -dp {row['dp']}{experts}\n"
    result = lint(Project.of_texts(told, {"serve.sh": line})).result
    return any(f.severity == "error" and f.name not in MEMORY for f in result.findings)


MEMORY = ("weights-do-not-fit", "no-kv-space", "kv-too-small")
"""The oracle builds models without a GPU."""


@pytest.mark.parametrize("verdict", ["ok", "error"])
def test_linting_a_command_line_gives_the_verdict_too(verdict: str, shared: Any) -> None:
    """One row in five, through reader, catalogue and rules."""
    tried = [row for row in rows()[::5] if row["verdict"] == verdict]
    assert len(tried) > 80
    assert [] == [(row["model"], layout(row)) for row in tried if said(row) is (verdict == "ok")]


def test_every_refusal_is_found(shared: Any) -> None:
    missed = [row for row in errors() if not refusals(row)]
    show("refused by vLLM", map(cause, errors()))
    show("of them missed", map(cause, missed))
    assert [] == [(row["model"], layout(row), row["error"]) for row in missed]


RULES = {
    "heads": "tp-heads-indivisible",
    "KV heads": "tp-kv-heads-indivisible",
    "KV heads that are not copied": "tp-kv-heads-indivisible",
    "width": "shard-dim-indivisible",
    "vision or linear attention heads": "shard-dim-indivisible",
    "Mamba groups": "shard-dim-indivisible",
    "FP8 block": "quant-block-misaligned",
    "stage without a mixture layer": "pp-uneven-stages",
}


def test_every_refusal_has_the_cause_that_vllm_names(shared: Any) -> None:
    """An error about heads is not reported as one about widths."""
    rules = RULES | {row["error"]: "" for row in errors() if cause(row) not in RULES}
    wrong = [
        (row["model"], layout(row), row["error"], refusals(row))
        for row in errors()
        if rules[cause(row)] not in {item.rule for item in refusals(row)}
    ]
    assert [] == wrong


NOWHERE = Origin("f", Span(0, 0))
PLAN = ServingPlan(id="p", name="p", kind="shell", file="f", path="0:", origin=NOWHERE)


def offered(name: str) -> list[int]:
    """Sizes that a message about this model would offer."""
    largest = max(row["tp"] for row in rows())
    asked = Layout(tp=largest)
    world = World(plan=PLAN, engine=ENGINE, layout=asked, model=model(name), options=TOLD)
    return accepted(world, "tp", range(largest, 0, -1))


def test_no_offered_size_is_refused(shared: Any) -> None:
    sweep = [row for row in rows() if (row["pp"], row["dp"], row["ep"]) == (1, 1, False)]
    sizes = {name: offered(name) for name in {row["model"] for row in sweep}}
    tried = [row for row in sweep if row["tp"] in sizes[row["model"]]]
    assert [] == [(row["model"], row["tp"]) for row in tried if row["verdict"] == "error"]
    assert len(tried) > 300


@pytest.mark.parametrize("verdict", ["ok", "error"])
def test_offered_sizes_include_what_vllm_accepts(verdict: str, shared: Any) -> None:
    """Sizes that run are left out only where advice says so."""
    sweep = [row for row in rows() if (row["pp"], row["dp"], row["ep"]) == (1, 1, False)]
    tried = [row for row in sweep if row["verdict"] == verdict]
    share = sum(row["tp"] in offered(row["model"]) for row in tried) / len(tried)
    show(f"{share:.1%} of the sizes that vLLM calls {verdict} are offered", ())
    assert share > 0.95 if verdict == "ok" else share < 0.1
