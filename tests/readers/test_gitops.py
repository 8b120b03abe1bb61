"""Releases of charts in objects of Argo CD and Flux."""

from __future__ import annotations

import pytest
from readers import reading
from readers.reading import block, edited, refused, stated, token
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.readers.gitops import overridden, unquoted
from shardlint.readers.yaml_tree import Node, documents
from shardlint.source import Source

FILE = "app.yaml"
VALUES = """servingEngineSpec:
  modelSpec:
  - name: qwen
    repository: vllm/vllm-openai
    tag: v0.10.0
    modelURL: Qwen/Qwen3-8B
    replicaCount: 1
    requestGPU: 2
    vllmConfig:
      tensorParallelSize: 3
routerSpec:
  routingLogic: session
"""
HEAD = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: llm}
spec:
  destination: {namespace: serving}
  source:
    chart: vllm-stack
    helm:
"""
FLUX = """apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: llm, namespace: ml}
spec:
"""


def in_string(more: str = "") -> str:
    return f"{HEAD}{more}      values: |\n{block(VALUES, 8)}"


def as_map(more: str = "") -> str:
    return f"{HEAD}{more}      valuesObject:\n{block(VALUES, 8)}"


def flux(more: str = "") -> str:
    return f"{FLUX}{more}  values:\n{block(VALUES, 4)}"


def read(source: str) -> ServingPlan:
    return reading.plan(source, FILE)


def test_values_in_a_string_have_their_places_in_the_object() -> None:
    for source in (in_string(), as_map(), flux()):
        plan = read(source)
        assert ("3", "2", "Qwen/Qwen3-8B") == tuple(
            token(source, plan, name) for name in ("tp", "gpus_per_pod", "model")
        )
        changed = source.replace("Size: 3", "Size: 2")
        assert changed == edited(source, plan, "tp", "2")
        (router,) = reading.routers(source, FILE)
        assert "session" == router.policy.only


def test_a_new_key_is_indented_like_those_in_the_string() -> None:
    after = edited(in_string(), read(in_string()), "max_model_len", "4096")
    assert "            tensorParallelSize: 3\n".replace("   ", "  ", 0) in after
    assert 4096 == stated(read(after), "max_model_len")


def test_namespaces_and_paths() -> None:
    assert "serving" == read(in_string()).namespace
    assert "ml" == read(flux()).namespace
    assert "0:/spec/source/helm/values/servingEngineSpec/modelSpec/0" == read(in_string()).path


def test_a_parameter_wins() -> None:
    name = "servingEngineSpec.modelSpec[0].replicaCount"
    rows = f'      parameters:\n      - {{name: "{name}", value: "4"}}\n'
    source = as_map(rows)
    plan = read(source)
    assert (4, "4") == (stated(plan, "replicas"), token(source, plan, "replicas"))
    assert source.replace('"4"', '"5"') == edited(source, plan, "replicas", "5")
    assert "no map" in refused(plan, "shm_bytes", "1024")


def test_a_string_beside_a_map_has_no_effect() -> None:
    source = as_map("      values: |\n        a: b\n")
    assert "`values` has no effect" in read(source).remarks[-1].message


def test_further_files_leave_nothing_certain() -> None:
    source = as_map("      valueFiles: [prod.yaml]\n")
    found = lint(reading.project(source, FILE)).result.findings
    assert {"warning"} == {f.severity for f in found if f.name.startswith(("tp-", "gpu-"))}
    certain = lint(reading.project(as_map(), FILE)).result.findings
    assert "error" in {f.severity for f in certain}


def test_sources_and_templates_of_several_applications() -> None:
    many = HEAD.replace("  source:\n    chart: vllm-stack\n    helm:\n", "  sources:\n  - helm:\n")
    source = f"{many}      valuesObject:\n{block(VALUES, 8)}"
    assert "0:/spec/sources/0/helm/valuesObject/servingEngineSpec/modelSpec/0" == read(source).path
    rows = HEAD.partition("spec:\n")[2]
    kind = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: a}\nspec:\n"
    head = f"{kind}  template:\n    spec:\n{block(rows, 6)}"
    body = VALUES.replace("replicaCount: 1", "replicaCount: '{{ .count }}'")
    plan = read(f"{head}          valuesObject:\n{block(body, 12)}")
    assert (3, None) == (stated(plan, "tp"), stated(plan, "replicas"))


def test_values_of_any_chart() -> None:
    source = f"{FLUX}  values:\n    cli: vllm serve org/m -tp 2\n"
    assert ("helm-values", 2) == (read(source).kind, stated(read(source), "tp"))


def test_flux_takes_a_path_from_elsewhere() -> None:
    target = "servingEngineSpec.modelSpec[0].vllmConfig.tensorParallelSize"
    rows = f"  valuesFrom:\n  - {{kind: ConfigMap, name: x, targetPath: '{target}'}}\n"
    assert stated(read(flux(rows)), "tp") is None


def test_an_annotation_on_the_object_suppresses() -> None:
    note = 'metadata: {name: llm, annotations: {shardlint/ignore: "SL101: known"}}'
    source = as_map().replace("metadata: {name: llm}", note)
    found = lint(reading.project(source, FILE)).result.findings
    assert "tp-heads-indivisible" not in {finding.name for finding in found}


@pytest.mark.parametrize(
    "odd",
    [
        "spec: x\n", "spec: {source: []}\n", "spec: {source: {helm: {values: '{{ x }}'}}}\n",
        "spec: {source: {helm: {parameters: [{name: a, value: []}, x]}}}\n",
        'spec: {sources: [{helm: {values: "a: [", parameters: [{name: "", value: x}]}}]}\n',
    ],
)  # fmt: skip
def test_odd_objects_are_survived(odd: str) -> None:
    text = f"apiVersion: argoproj.io/v1alpha1\nkind: Application\n{odd}"
    assert () == reading.project(text, FILE).broken


# ----------------------------------------------------------------------------- single values


def tree(text: str) -> Node:
    return documents(Source("x.yaml", text))[0]


def test_a_value_is_set_by_its_name() -> None:
    root, value = tree("a: {b: [{c: 1}, {c: 2}]}\nd: e\n"), tree("9")
    assert "9" == overridden(root, "a.b[1].c", value).string("a", "b", 1, "c")
    assert "2" == root.string("a", "b", 1, "c")
    assert "9" == overridden(root, r"x\.y.z", value).string("x.y", "z")
    assert "9" == overridden(root, "a.b[2].n", value).string("a", "b", 2, "n")
    assert "e" == overridden(root, "a.b[7]", value).string("d")


def test_a_quoted_word_is_what_set_takes_it_for() -> None:
    assert ("false", None) == (unquoted(tree('"false"')).value, unquoted(tree('"false"')).style)
