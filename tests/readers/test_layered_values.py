"""Files of values that are laid over each other: the tables [[overlay]]."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from harness import plugins, setup
from shardlint import fixes
from shardlint.config import Settings
from shardlint.linter import lint
from shardlint.project import Project, Setup
from shardlint.source import apply

BASE = """\
engine:
  image: {repository: vllm/vllm-openai, tag: v0.27.0}
  command: [vllm, serve, Qwen/Qwen2.5-7B-Instruct, --tensor-parallel-size, "8"]
  resources: {limits: {nvidia.com/gpu: 8}}
  replicaCount: 2
"""
PROD = "engine:\n  replicaCount: 4\n  resources: {limits: {nvidia.com/gpu: 4}}\n"
NAMES = ("values.yaml", "values-prod.yaml")


def run(texts: Mapping[str, str], *overlays: tuple[str, ...]) -> Project:
    made = setup(overlays=tuple({"files": files} for files in overlays))
    return Project.of_texts(made, texts)


def layered(base: str = BASE, late: str = PROD) -> Project:
    return run(dict(zip(NAMES, (base, late), strict=True)), NAMES)


def the_only(project: Project) -> Any:
    (plan,) = project.plans
    return plan


def test_a_later_file_wins_and_each_value_keeps_its_place() -> None:
    plan = the_only(layered())
    assert (8, 4, 4) == (
        plan.layout.tp.only, plan.placement.gpus_per_pod.only, plan.fleet.replicas.only,
    )  # fmt: skip
    places = [plan.layout.tp.origin, plan.placement.gpus_per_pod.origin, plan.fleet.replicas.origin]
    assert ["values.yaml", "values-prod.yaml", "values-prod.yaml"] == [at.file for at in places]
    assert ("values-prod.yaml", "values-prod.yaml#0:/engine") == (plan.file, plan.id)


def test_lists_are_replaced_and_null_takes_away() -> None:
    late = "engine:\n  command: [vllm, serve, org/other]\n  replicaCount: null\n"
    plan = the_only(layered(late=late))
    assert ("org/other", True) == (plan.model.only, plan.layout.tp.is_unset)
    assert plan.fleet.replicas.is_unset


def test_three_files_are_laid_in_order() -> None:
    texts = {
        "a.yaml": BASE, "b.yaml": "engine: {replicaCount: 5}", "c.yaml": "engine: {replicaCount: 6}"
    }  # fmt: skip
    assert 6 == the_only(run(texts, ("a.yaml", "b.yaml", "c.yaml"))).fleet.replicas.only
    assert 5 == the_only(run(texts, ("a.yaml", "c.yaml", "b.yaml"))).fleet.replicas.only


def test_an_empty_file_changes_nothing() -> None:
    for empty in ("", "# nothing\n", "{}\n"):
        assert 2 == the_only(layered(late=empty)).fleet.replicas.only


def test_findings_are_told_where_the_values_stand() -> None:
    result = lint(layered()).result
    found = {item.name: item.file for item in result.findings}
    assert "values.yaml" == found["tp-heads-indivisible"]


def test_what_is_wrong_in_a_base_is_told_once_for_all_overlays() -> None:
    texts = {"values.yaml": BASE, "prod.yaml": "engine: {replicaCount: 3}", "dev.yaml": "a: 1"}
    made = run(texts, ("values.yaml", "prod.yaml"), ("values.yaml", "dev.yaml"))
    assert {"prod.yaml", "dev.yaml"} == {plan.file for plan in made.plans}
    said = [it.message for it in lint(made).result.findings if it.name == "tp-heads-indivisible"]
    assert [True] == [item.endswith("(in 2 overlays)") for item in said]


def test_a_value_is_edited_in_its_file() -> None:
    made = layered(late="engine:\n  replicaCount: 4\n")
    edits = the_only(made).sites["tp"].set("4")
    assert ["values.yaml"] == [edit.file for edit in edits]
    changed = made.update("values.yaml", apply(BASE, edits))
    assert (4, 4) == (the_only(changed).layout.tp.only, the_only(changed).fleet.replicas.only)
    again = changed.update("values-prod.yaml", "engine:\n  replicaCount: 7\n")
    assert 7 == the_only(again).fleet.replicas.only


def test_fixes_of_an_overlay_are_written_into_its_files() -> None:
    outcome = fixes.apply_fixes(layered(late="engine:\n  replicaCount: 4\n"), unsafe=True)
    assert {"values.yaml"} == set(outcome.changed)
    names = {item.name for item in lint(outcome.project).result.findings}
    assert "tp-heads-indivisible" not in names


def test_a_suppression_in_the_base_is_heard() -> None:
    hushed = BASE.replace("[vllm, serve", "[vllm, serve").replace(
        '"8"]', '"8"]  # shardlint: ignore[tp-heads-indivisible]'
    )
    names = {item.name for item in lint(layered(hushed)).result.findings}
    assert not {"tp-heads-indivisible", "unused-suppression"} & names


def test_without_all_of_its_files_each_is_read_alone() -> None:
    made = run({"values.yaml": BASE}, NAMES)
    assert ("values.yaml", 2) == (the_only(made).file, the_only(made).fleet.replicas.only)
    texts = {"values.yaml": BASE, "values-prod.yaml": PROD}
    made = run(texts, ("values.yaml", "values-eu.yaml", "values-prod.yaml"))
    assert "values.yaml" == the_only(made).file


def test_a_base_that_is_deployed_by_itself_is_still_read() -> None:
    texts = {"values.yaml": BASE, "values-prod.yaml": PROD}
    made = run(texts, ("values.yaml",), NAMES)
    assert {"values.yaml": 2, "values-prod.yaml": 4} == {
        plan.file: plan.fleet.replicas.only for plan in made.plans
    }


def test_two_overlays_with_one_last_file_are_two_plans() -> None:
    texts = {"a.yaml": BASE, "b.yaml": BASE.replace("v0.27.0", "v0.20.0"), "c.yaml": PROD}
    made = run(texts, ("a.yaml", "c.yaml"), ("b.yaml", "c.yaml"))
    assert {"v0.27.0", "v0.20.0"} == {plan.tag.only for plan in made.plans}
    assert 2 == len({plan.id for plan in made.plans})


@pytest.mark.parametrize(
    "late",
    ["- a\n", "a: 1\n---\nb: 2\n", "{{ if .Values.x }}\na: 1\n", "engine: 3\n", "a: [\n", "text\n",
     "apiVersion: v1\nkind: Service\n", "engine: &a\n  b: *a\n", "engine: {command: {a: 1}}\n"],
)  # fmt: skip
def test_odd_files_are_survived(late: str) -> None:
    made = layered(late=late)
    assert not made.broken
    lint(made)


def test_values_of_the_production_stack_keep_their_router() -> None:
    base = """\
servingEngineSpec:
  modelSpec:
  - {name: q, repository: vllm/vllm-openai, tag: v0.20.0, modelURL: Qwen/Qwen3-8B, requestGPU: 1}
"""
    made = layered(base, "routerSpec: {routingLogic: session}\n")
    (router,) = made.routers
    assert (frozenset({"session"}), "values-prod.yaml") == (router.awareness, router.file)
    assert (the_only(made).id,) == router.backends


def test_files_are_named_from_the_folder_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of values need not look like one to be read."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "values.yaml").write_text(BASE, encoding="utf-8")
    (tmp_path / "envs" / "prod.yaml").write_text("engine: {replicaCount: 9}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    overlays: Any = ({"files": ("values.yaml", "envs/prod.yaml")},)
    told = Settings(overlays=overlays, path=tmp_path / "shardlint.toml")
    plan = the_only(Project.discover(Setup(plugins(), told), ["."]))
    assert ("envs/prod.yaml", 9) == (plan.file, plan.fleet.replicas.only)
