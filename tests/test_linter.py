"""From rules and facts to findings: worlds, assumptions, releases, failures, order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from harness import check, project, setup
from shardlint.engines import builtin as engines
from shardlint.known import Case, Known
from shardlint.linter import lint
from shardlint.plan import LayoutFacts, ModelFacts, Releases, Router, ServingPlan
from shardlint.plugins import (
    Finding,
    Found,
    Plugins,
    Problem,
    ReadContext,
    Reader,
    ReadResult,
    Result,
    Rule,
    RunFacts,
    World,
    hookimpl,
)
from shardlint.project import Project, Setup
from shardlint.source import Origin, Source, Span

FILE = "plan.txt"
TEXT = "tp 8\npp 2\n"
TP, PP = Origin(FILE, Span(3, 4)), Origin(FILE, Span(8, 9))
HEADS_28 = {"m": {"attention_heads": 28, "kv_heads": 4, "vocab_size": 152064}}


class Extra:
    """A plugin of a test: rules, and a reader that knows the plans already."""

    name = "extra"

    def __init__(
        self, plans: Sequence[ServingPlan] = (), rules: Sequence[type[Rule]] = (), routers: int = 0
    ) -> None:
        self.plans, self.rules, self.routers = plans, rules, routers

    @hookimpl
    def shardlint_rules(self) -> Iterable[type[Rule]]:
        return self.rules

    @hookimpl
    def shardlint_readers(self) -> Iterable[Reader]:
        return (self,)

    def accepts(self, source: Source) -> bool:
        return True

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        routers = [
            Router(id=f"r{n}", name="r", kind="service", file=FILE, path="0:", origin=TP)
            for n in range(self.routers)
        ]
        return ReadResult(plans=tuple(self.plans), routers=tuple(routers))


def a_plan(number: int = 0, **facts: Any) -> ServingPlan:
    layout = LayoutFacts(tp=facts.pop("tp", Known.of(8, TP)), pp=facts.pop("pp", Known.of(2, PP)))
    versions = facts.pop("versions", Known.of(Releases("0.33.0", "0.33.0")))
    model = facts.pop("model", Known.of("m"))
    return ServingPlan(
        id=f"{FILE}#{number}", name="m", kind="test", file=FILE, path=str(number),
        origin=Origin(FILE, Span(0, 1)), engine="vllm", versions=versions, model=model,
        layout=layout, effective=engines.VLLM().effective(layout), **facts,
    )  # fmt: skip


def run(
    plans: Sequence[ServingPlan] = (),
    rules: Sequence[type[Rule]] = (),
    routers: int = 0,
    **told: Any,
) -> Result:
    base = setup(**told)
    made = Setup(
        Plugins([engines, Extra(plans or [a_plan()], rules, routers)]), base.settings, base.hardware
    )
    return lint(Project.of_texts(made, {FILE: TEXT})).result


def named(result: Result, name: str) -> list[Finding]:
    return [finding for finding in result.findings if finding.name == name]


class AtTp(Rule):
    """Something about the tensor parallel size; tests subclass it."""

    id, name, severity = "XX1", "at-tp", "error"
    needs = ("layout.tp",)

    def check(self, world: World) -> Iterator[Found]:
        yield Found(message=f"TP {world.layout.tp}", at=TP)


def two(first: Any, second: Any, choice: str = "TP") -> Known[Any]:
    """A fact with two possible values, by one choice."""
    return Known((Case(first, ((choice, "a"),)), Case(second, ((choice, "b"),))), None, TP)


# ---------------------------------------------------------------------------------- undecided


def test_undecided_rule_is_recorded_with_what_is_missing() -> None:
    hole: Known[int] = Known.unknown("the size is a template", TP)
    result = run([a_plan(tp=hole)], [AtTp])
    rows = [(row.name, row.needs, row.reason) for row in result.undecided]
    assert ("at-tp", "layout.tp", "the size is a template") in rows
    assert named(result, "at-tp") == []


def test_undecided_rule_names_the_field_that_the_model_lacks() -> None:
    result = run(models={"m": {"kv_heads": 4}})
    rows = [(row.name, row.needs) for row in result.undecided]
    assert ("tp-heads-indivisible", "model_facts.attention_heads") in rows


def test_rule_that_cannot_find_anything_leaves_no_trace() -> None:
    """With one rank there is nothing to divide, whatever the model is."""
    unknown_model = a_plan(tp=Known.of(1), pp=Known.unset(), model=Known.of("nobody/knows"))
    settled = {"tp-heads-indivisible", "tp-kv-heads-indivisible", "kv-replication"}
    assert not settled & {row.name for row in run([unknown_model]).undecided}
    with_two = a_plan(tp=Known.of(2), model=Known.of("nobody/knows"))
    assert settled <= {row.name for row in run([with_two]).undecided}


def test_facts_that_exclude_one_another_are_undecided() -> None:
    class Both(AtTp):
        needs = ("layout.tp", "layout.pp")

    here = Known((Case(8, (("X", "a"),)),), None, TP)
    there = Known((Case(2, (("X", "b"),)),), None, PP)
    result = run([a_plan(tp=here, pp=there)], [Both])
    assert named(result, "at-tp") == []
    assert "at-tp" in [row.name for row in result.undecided]


def test_engine_that_is_only_recognised_is_not_judged() -> None:
    result = check("llama-server --model m --n-gpu-layers 99")
    assert 1 == result.plans
    assert () == result.undecided
    assert [] == [f.name for f in result.findings if f.severity != "info"]


# ------------------------------------------------------------------------- worlds, assumptions


def test_error_in_every_world_is_an_error() -> None:
    (finding,) = named(run([a_plan(tp=two(8, 16))], models=HEADS_28), "tp-heads-indivisible")
    assert ("error", ()) == (finding.severity, finding.assumes)


def test_error_in_some_worlds_is_a_warning_that_names_them() -> None:
    (finding,) = named(run([a_plan(tp=two(4, 8))], models=HEADS_28), "tp-heads-indivisible")
    assert ("warning", ("TP is b",)) == (finding.severity, finding.assumes)
    assert "tensor parallel size 8" in finding.message
    assert "assumed" == finding.confidence


def test_error_in_no_world_is_no_finding() -> None:
    assert [] == named(run([a_plan(tp=two(2, 4))], models=HEADS_28), "tp-heads-indivisible")


def test_assumption_turns_an_error_into_a_warning_that_names_it() -> None:
    assumed = Known.of(8, TP, assumes=["X is unset"])
    (finding,) = named(run([a_plan(tp=assumed)], models=HEADS_28), "tp-heads-indivisible")
    assert ("warning", ("X is unset",)) == (finding.severity, finding.assumes)
    (certain,) = named(run(models=HEADS_28), "tp-heads-indivisible")
    assert ("error", "certain") == (certain.severity, certain.confidence)


def test_assumption_about_a_fact_that_a_rule_does_not_need_is_left_aside() -> None:
    plan = a_plan(pp=Known.of(2, PP, assumes=["X is unset"]))
    (finding,) = named(run([plan], models=HEADS_28), "tp-heads-indivisible")
    assert "error" == finding.severity


def test_mildest_severity_of_all_worlds_counts() -> None:
    class Graded(AtTp):
        def check(self, world: World) -> Iterator[Found]:
            severity = "error" if world.layout.tp > 4 else "info"
            yield Found(message=f"TP {world.layout.tp}", at=TP, severity=severity)

    (finding,) = named(run([a_plan(tp=two(8, 4))], [Graded]), "at-tp")
    assert ("info", "TP 4", ()) == (finding.severity, finding.message, finding.assumes)


def test_findings_of_one_world_at_one_place_stay_apart() -> None:
    class Twice(AtTp):
        def check(self, world: World) -> Iterator[Found]:
            for word in ("one", "two"):
                yield Found(message=f"{word} {world.layout.tp}", at=TP)

    found = named(run([a_plan(tp=two(4, 8))], [Twice]), "at-tp")
    assert ["one 4", "two 4"] == [finding.message for finding in found]


@pytest.mark.parametrize(
    ("confirmed", "facts", "severity"),
    [
        ((), ("attention_heads",), "warning"),
        (("attention_heads",), ("attention_heads",), "error"),
        (("attention_heads",), ("attention_heads", "vocab_size"), "warning"),
        (("attention_heads",), (), "warning"),
    ],
)
def test_doubt_about_a_model_spares_what_rests_on_confirmed_fields(
    confirmed: tuple[str, ...],
    facts: tuple[str, ...],
    severity: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OnModel(AtTp):
        needs = ("layout.tp", "model_facts")

        def check(self, world: World) -> Iterator[Found]:
            yield Found(message="x", at=TP, facts=facts)

    doubtful = ModelFacts(id="m", assumed=("guessed from the name",), confirmed=confirmed)
    monkeypatch.setattr("shardlint.models.catalogue.Catalogue.lookup", lambda *_: doubtful)
    (finding,) = named(run(rules=[OnModel]), "at-tp")
    assert severity == finding.severity
    assert finding.assumes == (("m: guessed from the name",) if severity == "warning" else ())


def test_world_has_no_fact_that_its_rule_did_not_ask_for() -> None:
    seen: list[World] = []

    class Looks(AtTp):
        def check(self, world: World) -> Iterator[Found]:
            seen.append(world)
            yield from ()

    run(rules=[Looks], models=HEADS_28)
    (world,) = seen
    assert (8, 1, None, None) == (
        world.layout.tp, world.layout.pp, world.model, world.devices,
    )  # fmt: skip
    assert world.whole is not None
    assert (8, 2, 1) == (world.whole.tp, world.whole.pp, world.whole.dp)


def test_whole_layout_is_not_there_while_a_field_is_undecided() -> None:
    seen: list[World] = []

    class Looks(AtTp):
        def check(self, world: World) -> Iterator[Found]:
            seen.append(world)
            yield from ()

    run([a_plan(pp=Known.unknown("a template"))], [Looks])
    assert [None] == [world.whole for world in seen]


# ----------------------------------------------------------------------------------- releases


@pytest.mark.parametrize(
    ("since", "until", "severity", "assumes"),
    [
        (None, None, "error", ()),
        ("0.8.0", None, "error", ()),
        ("0.9.0", None, "error", ()),
        ("0.10.0", None, "warning", ("vLLM 0.10.0 or later",)),
        ("0.12.0", None, None, ()),
        (None, "0.12.0", "error", ()),
        (None, "0.11.0", "warning", ("vLLM before 0.11.0",)),
        (None, "0.9.0", None, ()),
        ("0.10.0", "0.11.0", "warning", ("vLLM 0.10.0 up to before 0.11.0",)),
    ],
)
def test_finding_holds_in_the_releases_that_it_names(
    since: str | None, until: str | None, severity: str | None, assumes: tuple[str, ...]
) -> None:
    class Dated(AtTp):
        def check(self, world: World) -> Iterator[Found]:
            yield Found(message="x", at=TP, since=since, until=until)

    plan = a_plan(versions=Known.of(Releases("0.9.0", "0.11.0")))
    found = [(f.severity, f.assumes) for f in named(run([plan], [Dated]), "at-tp")]
    assert found == ([] if severity is None else [(severity, assumes)])


# ----------------------------------------------------------------------------------- failures


class Raises(AtTp):
    id, name = "XX2", "raises"

    def check(self, world: World) -> Iterator[Found]:
        raise ValueError("no\nmore")


class RaisesForRouters(AtTp):
    id, name, scope = "XX3", "raises-for-routers", "router"

    def check_router(self, router: Router, plans: Sequence[ServingPlan]) -> Iterator[Found]:
        raise ValueError("no")


class RaisesForRuns(AtTp):
    id, name, scope = "XX4", "raises-for-runs", "run"

    def check_run(self, run: RunFacts) -> Iterator[Found]:
        raise ValueError("no")


@pytest.mark.parametrize("rule", [Raises, RaisesForRouters, RaisesForRuns])
def test_rule_that_raises_is_a_finding_and_the_others_run(rule: type[Rule]) -> None:
    result = run(rules=[rule, AtTp], routers=1, models=HEADS_28)
    (failed,) = named(result, "plugin-failed")
    assert f"rule {rule.name}: ValueError: no" in failed.message
    assert "\n" not in failed.message
    assert named(result, "at-tp")
    assert named(result, "tp-heads-indivisible")


def test_rule_fails_once_however_many_plans_there_are() -> None:
    result = run([a_plan(0), a_plan(1)], [Raises])
    assert 1 == len(named(result, "plugin-failed"))


def test_rule_that_fails_only_over_suppressions_is_told_too() -> None:
    class Late(RaisesForRuns):
        def check_run(self, run: RunFacts) -> Iterator[Found]:
            if run.unused:
                raise ValueError("no")
            yield from ()

    text = "# shardlint: ignore[SL101]\nvllm serve Qwen/Qwen3-8B\n"
    base = setup()
    made = Setup(Plugins([engines, _readers(), Extra(rules=[Late])]), base.settings)
    result = lint(Project.of_texts(made, {"s.sh": text})).result
    assert 1 == len(named(result, "unused-suppression"))
    assert 1 == len(named(result, "plugin-failed"))


def _readers() -> Any:
    from shardlint.readers import builtin

    return builtin


def test_rule_of_a_run_speaks_once() -> None:
    class Speaks(RaisesForRuns):
        def check_run(self, run: RunFacts) -> Iterator[Found]:
            yield Found(message="here", at=TP)

    assert 1 == len(named(run(rules=[Speaks]), "raises-for-runs"))


def test_plugin_whose_hook_fails_is_told_once_in_a_run() -> None:
    class Broken:
        @hookimpl
        def shardlint_rules(self) -> Iterable[type[Rule]]:
            raise RuntimeError("out of order")

    made = Setup(Plugins([engines, Extra([a_plan()]), Broken()]))
    made.plugins.rules()
    result = lint(Project.of_texts(made, {FILE: TEXT})).result
    assert 1 == len(named(result, "plugin-failed"))
    again = lint(Project.of_texts(made, {FILE: TEXT})).result
    assert 1 == len(named(again, "plugin-failed"))


@pytest.mark.parametrize("thing", ["a text", Rule, type("NoName", (Rule,), {"id": "XX9"}), 8])
def test_thing_that_is_no_rule_is_left_out(thing: Any) -> None:
    result = run(rules=[thing, AtTp])
    assert 1 == len(named(result, "plugin-failed"))
    assert 1 == len(named(result, "at-tp"))


def test_second_rule_of_one_name_or_id_is_left_out() -> None:
    class SameId(AtTp):
        name = "another"

    class SameName(AtTp):
        id = "XX7"

    result = run(rules=[AtTp, SameId, SameName])
    assert 1 == len(named(result, "at-tp"))
    assert [] == named(result, "another")
    assert 2 == len(named(result, "plugin-failed"))


# -------------------------------------------------------------------------- order and selection


def test_findings_are_in_order_of_file_place_and_rule() -> None:
    bad = "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\n"
    texts = {"b.sh": bad, "a.sh": f"{bad}\n{bad}"}
    result = lint(Project.of_texts(setup(), texts)).result
    places = [(f.file, f.start.offset, f.rule) for f in result.findings]
    assert places == sorted(places)
    assert ["a.sh", "b.sh"] == sorted({f.file for f in result.findings})
    assert list(result.undecided) == sorted(result.undecided)


def test_fingerprint_stays_when_lines_move() -> None:
    bad = "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\n"
    before, after = check(bad), check(f"#!/bin/sh\n# a comment\n\n{bad}")
    assert [f.fingerprint for f in before.findings] == [f.fingerprint for f in after.findings]
    assert [f.start.line for f in before.findings] != [f.start.line for f in after.findings]


def test_fingerprints_of_different_findings_differ() -> None:
    bad = "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\nvllm serve microsoft/phi-4 -tp 16\n"
    prints = [f.fingerprint for f in check(bad).findings]
    assert len(prints) == len(set(prints)) > 2
    other_file = [f.fingerprint for f in check(bad, "other.sh").findings]
    assert not set(prints) & set(other_file)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"select": ("SL101",)}, {"tp-heads-indivisible"}),
        ({"select": ("tp-heads-indivisible",)}, {"tp-heads-indivisible"}),
        ({"select": ("SL1",), "ignore": ("SL102",)}, {"tp-heads-indivisible"}),
        ({"select": ("SL102",)}, set()),
        ({"ignore": ("SL1",)}, set()),
        ({"ignore": ("SL9",)}, {"tp-heads-indivisible"}),
    ],
)
def test_only_selected_rules_run(settings: Mapping[str, Any], names: set[str]) -> None:
    text = (
        "docker run --ipc=host --gpus 8 vllm/vllm-openai:v0.33.0 Qwen/Qwen2.5-7B-Instruct -tp 8\n"
    )
    result = check(text, **settings)
    assert names == {finding.name for finding in result.findings}
    assert {rule.name for rule in result.rules} >= names


def test_rule_that_is_off_by_default_runs_when_selected() -> None:
    class Off(AtTp):
        enabled = False

    assert [] == named(run(rules=[Off]), "at-tp")
    assert 1 == len(named(run(rules=[Off], select=("XX1",)), "at-tp"))


def test_problem_of_a_file_is_a_finding_of_its_own_severity() -> None:
    class Told(Extra):
        def read(self, source: Source, context: ReadContext) -> ReadResult:
            problems = (Problem(TP, "broken"), Problem(PP, "odd", "warning"))
            return ReadResult(problems=problems)

    made = Setup(Plugins([engines, Told()]))
    found = lint(Project.of_texts(made, {FILE: TEXT})).result.findings
    assert [("parse-error", "error"), ("parse-error", "warning")] == [
        (f.name, f.severity) for f in found
    ]


def test_cures_are_kept_for_the_findings_that_have_one() -> None:
    text = (
        "docker run --ipc=host --gpus 8 vllm/vllm-openai:v0.33.0 Qwen/Qwen2.5-7B-Instruct -tp 8\n"
    )
    made = lint(project(text))
    assert set(made.cures) == {finding.fingerprint for finding in made.result.findings}
    bare = lint(project("lmdeploy serve api_server internlm/internlm2_5-7b-chat --tp 1\n"))
    assert {} == bare.cures
