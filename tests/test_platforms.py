"""Releases of platforms: as a file pins them, as the user tells of them, as they were read."""

from __future__ import annotations

import io
from types import MappingProxyType

import pytest
from harness import project, setup
from readers.test_dynamo import OLDER
from readers.test_gitops import VALUES, flux
from readers.test_kserve import multinode
from readers.test_llmd import text as llmd_values
from readers.test_production_stack import ray
from shardlint.known import Case, Known
from shardlint.linter import lint
from shardlint.plan import Releases, ServingPlan, by_release, series
from shardlint.project import Project
from shardlint.reports import inspection

STACK, LLMD = "production-stack", "llm-d-modelservice"
OLD_OVERRIDE = "the chart before 0.3.17 asks for 4 GPUs (tensor × dataLocal), whatever stands here"


def plan(text: str, name: str = "values.yaml", **platforms: str) -> ServingPlan:
    told = {key.replace("_", "-"): value for key, value in platforms.items()}
    (found,) = project(text, name, platforms=told).plans
    return found


def said(found: ServingPlan) -> list[str]:
    return [remark.message for remark in found.remarks]


# ------------------------------------------------------------------------------------ releases


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("0.14.1", "0.14.1", "0.14.1"),
        ("v0.14.1", "0.14.1", "0.14.1"),
        ("0.14", "0.14", "0.14.999"),
        ("0.14.x", "0.14", "0.14.999"),
        ("0.14.*", "0.14", "0.14.999"),
        ("1.0rc1", "1.0rc1", "1.0rc1"),
    ],
)
def test_a_version_means_one_release_or_a_series(text: str, first: str, last: str) -> None:
    assert Releases(first, last) == series(text)


@pytest.mark.parametrize("text", ["main", "", "1", "0.x", ">=0.1.0", "~0.1", "*", "0.1.0+cu12"])
def test_what_is_no_version_means_no_release(text: str) -> None:
    assert series(text) is None


NEW, OLD = Known.of(2), Known.of(1)


@pytest.mark.parametrize(
    ("first", "last", "values"),
    [("0.1.0", "0.1.9", (1,)), ("0.2.0", "0.3.0", (2,)), ("0.1.0", "0.2.0", (2, 1))],
)
def test_what_differs_by_release_is_one_value_or_both(
    first: str, last: str, values: tuple[int, ...]
) -> None:
    releases = Known.of(Releases(first, last))
    assert values == by_release("It", releases, "0.2.0", NEW, OLD).values


def test_both_values_name_the_releases() -> None:
    found = by_release("It", Known.of(Releases("0.1.0", "0.3.0")), "0.2.0", NEW, OLD)
    expected = (Case(2, (("It", "0.2.0 or newer"),)), Case(1, (("It", "older than 0.2.0"),)))
    assert expected == found.cases
    unknown: Known[int] = Known.unknown("why")
    assert "why" == by_release("It", Known.of(Releases("0.1", "0.3")), "0.2", NEW, unknown).reason


# --------------------------------------------------------------------------------------- KServe


@pytest.mark.parametrize(
    ("told", "nodes", "gpus"),
    [
        ({}, (16,), (1,)),
        ({"kserve": "0.15.1"}, (16,), (1,)),
        ({"kserve": "0.15.0"}, (2,), (8,)),
        ({"kserve": "0.15"}, (16, 2), (1, 8)),
    ],
)
def test_how_kserve_counts_a_group(
    told: dict[str, str], nodes: tuple[int, ...], gpus: tuple[int, ...]
) -> None:
    found = plan(multinode(head="env: []", worker="env: []"), "isvc.yaml", **told)
    assert nodes == found.placement.pods_per_group.values
    assert gpus == found.placement.gpus_per_pod.values
    remarks = [item for item in said(found) if "no GPU is requested" in item]
    assert (told.get("kserve") != "0.15.0") == bool(remarks)
    assert (told.get("kserve") == "0.15") == any("from 0.15.1 on" in item for item in remarks)


def test_kserve_without_groups_is_unknown() -> None:
    found = plan(multinode(), "isvc.yaml", kserve="0.14")
    assert "KServe knows `workerSpec` from 0.15.0 on" == found.placement.pods_per_group.reason


def test_a_group_that_both_formulas_count_alike_is_one() -> None:
    found = plan(multinode(), "isvc.yaml", kserve="0.15")
    assert 2 == found.placement.pods_per_group.only


# ------------------------------------------------------------------------- the production stack


@pytest.mark.parametrize(
    ("release", "nodes", "assumed", "remark"),
    [
        (None, 3, True, True),
        ("0.1.10", 3, False, False),
        ("0.1.11", 1, False, True),
        ("0.1.2", 1, False, False),
    ],
)
def test_which_ray_spec_the_chart_heeds(
    release: str | None, nodes: int, assumed: bool, remark: bool
) -> None:
    told = {} if release is None else {"production_stack": release}
    found = plan(ray(2, 3, ""), **told)
    pods = found.placement.pods_per_group
    assert (nodes, assumed) == (pods.only, bool(pods.assumes))
    assert remark == any("from chart 0.1.11 on" in item for item in said(found))


def test_an_older_chart_does_not_read_that_ray_is_off() -> None:
    off = ray(2, 3, "enabled: false, ")
    assert 1 == plan(off).placement.pods_per_group.only
    old = plan(off, production_stack="0.1.9")
    assert 3 == old.placement.pods_per_group.only
    assert any("does not read `enabled`" in item for item in said(old))


def ray_release(version: str) -> str:
    release = flux(f"  chart: {{spec: {{chart: vllm-stack, version: {version}}}}}\n")
    head = release.replace("requestGPU: 2", "requestGPU: 1\n        raySpec: {headNode: {}}")
    return head.replace("tensorParallelSize: 3", "tensorParallelSize: 2")


@pytest.mark.parametrize(("version", "nodes"), [("0.1.9", 2), ("0.1.11", 1), ("v0.1.12", 1)])
def test_the_version_of_a_release_of_flux_counts(version: str, nodes: int) -> None:
    found = plan(ray_release(version), "app.yaml")
    assert (nodes, "stated") == (
        found.placement.pods_per_group.only, found.platform_releases.how,
    )  # fmt: skip


@pytest.mark.parametrize("version", ["'*'", "'>=0.1.0'", "'0.x'"])
def test_a_range_of_versions_says_nothing(version: str) -> None:
    assert "defaulted" == plan(ray_release(version), "app.yaml").platform_releases.how


def test_the_revision_of_an_application_counts_where_it_is_that_of_a_chart() -> None:
    head = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: llm}\nspec:\n"
    values = "".join(f"        {line}\n" for line in VALUES.splitlines())
    for chart, how in (("chart: vllm-stack", "stated"), ("path: helm", "defaulted")):
        source = f"  source:\n    {chart}\n    targetRevision: 0.1.9\n    helm:\n"
        found = plan(f"{head}{source}      valuesObject:\n{values}", "app.yaml")
        assert how == found.platform_releases.how


def test_the_version_of_the_chart_that_the_values_lie_in_counts() -> None:
    for name, nodes in (("vllm-stack", 1), ("mine", 3)):
        texts = {
            "helm/values.yaml": ray(2, 3, ""),
            "helm/Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: 0.1.11\n",
        }
        (found,) = Project.of_texts(setup(), texts).plans
        assert nodes == found.placement.pods_per_group.only


def test_a_pinned_version_wins_over_what_is_told_and_that_is_said() -> None:
    made = project(ray_release("0.1.9"), "app.yaml", platforms={STACK: "0.1.12"})
    assert 2 == made.plans[0].placement.pods_per_group.only
    found = [item for item in lint(made).result.findings if item.name == "value-conflict"]
    expected = (
        "the file states production-stack 0.1.9, the command line or the configuration 0.1.12"
    )
    assert [expected] == [item.message for item in found]
    same = project(ray_release("0.1.9"), "app.yaml", platforms={STACK: "0.1"})
    assert "value-conflict" not in {item.name for item in lint(same).result.findings}


# ----------------------------------------------------------------------------- llm-d, Dynamo


@pytest.mark.parametrize(
    ("release", "gpus", "remark"),
    [
        (None, (8,), False), ("0.3.17", (8,), False), ("0.3.16", (4,), True), ("0.3", (8, 4), True),
        ("0.2.9", (4,), True),
    ],
)  # fmt: skip
def test_whose_number_of_gpus_the_chart_of_llmd_takes(
    release: str | None, gpus: tuple[int, ...], remark: bool
) -> None:
    own = ("modelCommand: vllmServe", "resources: {limits: {nvidia.com/gpu: 8}}")
    values = llmd_values("parallelism: {tensor: 4, data: 1, dataLocal: 1}", container=own)
    told = {} if release is None else {"llm_d": release}
    found = plan(values, **told)
    assert gpus == found.placement.gpus_per_pod.values
    assert remark == (OLD_OVERRIDE in said(found))


def test_an_older_chart_of_llmd_counts_other_ranks() -> None:
    own = ("modelCommand: vllmServe", "resources: {limits: {nvidia.com/gpu: 1}}")
    sizes = "parallelism: {tensor: 4, data: 2, dataLocal: 2, workers: 1}"
    values = llmd_values(sizes, container=own)
    assert 8 == plan(values, llm_d="0.3.10").placement.gpus_per_pod.only
    assert 4 == plan(values, llm_d="0.3.0").placement.gpus_per_pod.only


def test_how_an_operator_of_dynamo_joins_pods() -> None:
    assert "ray" == plan(OLDER, "graph.yaml", dynamo="0.9.0").effective.executor.only
    for told in ({}, {"dynamo": "1.5.0"}):
        found = plan(OLDER, "graph.yaml", **told)
        rests = any("release 1.5.0" in item for item in found.effective.nnodes.assumes)
        assert ("mp", not told) == (found.effective.executor.only, rests)


# ------------------------------------------------------------------------------------- shown


@pytest.mark.parametrize(
    ("told", "line", "value"),
    [
        ({}, "  platform  kserve (taken to be 0.15.1 to 0.20.0)\n", "0.15.1 to 0.20.0"),
        ({"kserve": "0.15"}, "  platform  kserve 0.15.x\n", "0.15.x"),
    ],
)
def test_inspection_shows_the_release(told: dict[str, str], line: str, value: str) -> None:
    made = project(multinode(), "isvc.yaml", platforms=MappingProxyType(told))
    out = io.StringIO()
    inspection.write_text(made, out)
    assert line in out.getvalue()
    assert value == inspection.as_json(made)["plans"][0]["platform_version"]
