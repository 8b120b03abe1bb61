"""Real routers: what is read of them, what is said of them, and what their fixes lead to."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from evidence import scoring
from harness import plugins, setup
from ruamel.yaml import YAML
from shardlint import fixes, routing
from shardlint.linter import lint
from shardlint.project import Project
from shardlint.source import apply

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    import routing_facts
finally:
    del sys.path[0]

CHOICE = ("routing-blind", "routing-load-only", "routing-prefix-only", "routing-kv-events-missing",
          "routing-prefix-caching-off", "session-key-missing", "whale-session")  # fmt: skip
"""Rules about how a router chooses, of which at most one has something to say."""
ROUTING = (*CHOICE, "routing-skew", "routing-state-not-shared")

UNREAD = {
    "castai-sglang-router-deployment.tpl": "its policy stands in the values of a chart, which are"
    " not beside it",
    "llmd-chart-istio-destinationrule.tpl": "parts of it are filled in by a template",
}
UNSAID = {
    "sched-benchmark-service.yaml": "a Service by itself: nothing says that it leads to engines",
}
"""Files of which less is said than a person knows, and why."""


@cache
def _samples() -> tuple[Any, ...]:
    corpus = SHARED / "corpus" / "routing"
    return routing_facts.entries(corpus) if (corpus / "index.yaml").is_file() else ()


@cache
def _cases() -> tuple[Mapping[str, Any], ...]:
    path = SHARED / "cases" / "cases.yaml"
    if not path.is_file():
        return ()
    found = YAML(typ="safe").load(path.read_text(encoding="utf-8"))["cases"]
    return tuple(case for case in found if case["class"] == "routing")


@pytest.mark.parametrize("entry", _samples(), ids=lambda entry: entry["file"])
def test_what_is_read_of_a_router(entry: Mapping[str, Any], shared: Path) -> None:
    found = list(routing_facts.facts(entry, shared / "corpus" / "routing", setup()))
    wrong = {fact.name for fact in found if fact.verdict == "wrong"}
    assert wrong == set()
    missed = {fact.name for fact in found if fact.verdict == "missed"}
    allowed = set(routing_facts.FACTS) if entry["file"] in UNREAD else set()
    allowed |= {"findings"} if entry["file"] in UNSAID else set()
    assert missed <= allowed


def test_nearly_all_samples_are_read(shared: Path) -> None:
    assert shared.is_dir()
    assert len(UNREAD) <= 0.05 * len(_samples())


# -------------------------------------------------------------------------------------- cases


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_a_case_is_met(case: Mapping[str, Any], shared: Path) -> None:
    assert shared.is_dir()
    result = scoring.result_of(case)
    assert scoring.forbidden(case, result) == []
    assert scoring.rejected(case, result) == []
    if case.get("optional"):
        return
    missed = scoring.missed(case, result, {rule.name for rule in plugins().rules()})
    assert missed == []


@pytest.mark.parametrize(
    "case",
    [case for case in _cases() if case["polarity"] == "positive"],
    ids=lambda case: case["id"],
)
def test_what_is_offered_is_what_a_case_accepts(case: Mapping[str, Any], shared: Path) -> None:
    assert shared.is_dir()
    result = scoring.result_of(case)
    found = [fix for item in result.findings if item.name in ROUTING for fix in item.fixes]
    accepted = case["expect"].get("accept", [])
    assert all(any(scoring.fits(fix.delta, entry) for entry in accepted) for fix in found)


# ------------------------------------------------------------------------------- whole corpus


@cache
def _everything() -> tuple[Project, Any]:
    corpus = SHARED / "corpus"
    project = Project.discover(setup(), [str(corpus)], corpus)
    return project, fixes.with_fixes(lint(project))


def test_a_router_has_at_most_one_finding_about_its_choice(shared: Path) -> None:
    assert shared.is_dir()
    _, result = _everything()
    counts = Counter(item.plan for item in result.findings if item.name in CHOICE)
    assert [name for name, count in counts.items() if count > 1] == []


def test_nothing_is_more_than_advice_where_nothing_is_said_of_the_requests(shared: Path) -> None:
    assert shared.is_dir()
    _, result = _everything()
    found = [item for item in result.findings if item.name in CHOICE]
    assert found
    assert {item.severity for item in found} == {"info"}


@pytest.mark.parametrize(("kind", "severity"), [("chat", {"warning"}), ("batch", set())])
def test_the_severity_follows_the_requests(kind: str, severity: set[str], shared: Path) -> None:
    corpus = shared / "corpus" / "routing"
    project = Project.discover(setup(workload={"kind": kind}), [str(corpus)], corpus)
    found = [item for item in lint(project).result.findings if item.name in CHOICE]
    assert {item.severity for item in found} == severity


def _fixed() -> list[Any]:
    return [
        pytest.param(finding, fix, id=f"{finding.file}-{finding.name}-{fix.title[:30]}")
        for finding in (_everything()[1].findings if SHARED.is_dir() else ())
        if finding.name in ROUTING
        for fix in finding.fixes
    ]


@pytest.mark.parametrize(("finding", "fix"), _fixed())
def test_a_fix_is_read_as_what_it_says(finding: Any, fix: Any, shared: Path) -> None:
    """The texts after the edits hold the policy that the fix names, and no longer the finding."""
    before = shared / "corpus" / finding.file
    text = apply(before.read_text(encoding="utf-8"), fix.edits)
    after = Project.of_texts(setup(), {finding.file: text})
    again = [item for item in lint(after).result.findings if item.name == finding.name]
    assert finding.plan not in {item.plan for item in again}
    wanted = fix.delta.get("routing")
    if wanted is not None:
        read = {router.id: routing.word(router) for router in after.routers}
        assert read[finding.plan] == wanted
