"""Grove: cliques of a set, and how many engines they make up."""

from __future__ import annotations

from textwrap import dedent

import pytest
from readers.reading import edited, plan, plans, project, stated, token, why
from shardlint.platforms import grove

FILE = "set.yaml"

SET = dedent(
    """\
    apiVersion: grove.io/v1alpha1
    kind: PodCliqueSet
    metadata: {name: llm}
    spec:
      replicas: 2
      template:
        cliques:
        - name: router
          spec:
            replicas: 1
            podSpec:
              containers:
              - {name: router, image: nginx}
        - name: decode
          spec:
            replicas: 3
            podSpec:
              containers:
              - name: main
                image: vllm/vllm-openai:v0.27.0
                args: [--model, Qwen/Qwen3-8B, --tensor-parallel-size, "2"]
                resources: {limits: {nvidia.com/gpu: 2}}
        podCliqueScalingGroups:
        - name: group
          replicas: 4
          cliqueNames: [decode]
    """
)


def test_a_clique_is_a_plan() -> None:
    found = plan(SET, FILE)
    assert "0:/spec/template/cliques/1/spec/podSpec/containers/0" == found.path
    assert ("vllm", "PodCliqueSet", "llm/decode/main") == (found.engine, found.kind, found.name)
    facts = ("model", "tp", "gpus_per_pod", "replicas")
    assert ["Qwen/Qwen3-8B", 2, 2, 24] == [stated(found, fact) for fact in facts]
    assert "3" == token(SET, found, "replicas")
    assert SET.replace("replicas: 3", "replicas: 5") == edited(SET, found, "replicas", "5")


def test_a_set_has_no_copies_by_default() -> None:
    text = SET.replace("  replicas: 2\n  template", "  template")
    found = plan(text, FILE)
    assert (0, "derived") == (found.fleet.replicas.only, found.fleet.replicas.how)


def test_pods_of_one_engine_in_a_clique() -> None:
    text = SET.replace('"2"]', '"2", --nnodes, "3", --node-rank, $(GROVE_PCLQ_POD_INDEX)]')
    found = plan(text, FILE)
    assert [3, 8] == [stated(found, fact) for fact in ("nodes", "replicas")]
    uneven = text.replace('--nnodes, "3"', '--nnodes, "5"')
    assert "24 pods are no groups of 5" == why(plan(uneven, FILE), "replicas")


def test_cliques_that_are_scaled_together() -> None:
    text = SET.replace("[decode]", "[router, decode]")
    found = plan(text, FILE)
    assert "one engine" in (why(found, "replicas") or "")
    assert "one engine" in (why(found, "nodes") or "")
    joined = text.replace('"2"]', '"2", --nnodes, "4"]')
    assert [4, 8] == [stated(plan(joined, FILE), fact) for fact in ("nodes", "replicas")]


def test_variables_of_the_operator() -> None:
    text = SET.replace("Qwen/Qwen3-8B", "$(GROVE_PCS_NAME)")
    assert "llm" == stated(plan(text, FILE), "model")
    index = SET.replace("Qwen/Qwen3-8B", "$(GROVE_PCSG_INDEX)")
    assert "Grove sets GROVE_PCSG_INDEX" in (why(plan(index, FILE), "model") or "")


def test_copies() -> None:
    assert 24 == grove.copies(2, 4, 3)


@pytest.mark.parametrize("old", ["2\n", "3\n", "4\n", "[decode]", "decode", "grove.io/v1alpha1"])
@pytest.mark.parametrize("new", ["{}", "[]", "[x]", "{a: b}", "null", "-1", "'{{ x }}'"])
def test_odd_values_are_no_failure(old: str, new: str) -> None:
    end = "\n" if old.endswith("\n") else ""
    assert () == project(SET.replace(old, new + end), FILE).broken


@pytest.mark.parametrize("spec", ["null", "[]", "{template: {cliques: [1, {}, {spec: []}]}}"])
def test_odd_objects_have_no_plan(spec: str) -> None:
    text = f"apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nspec: {spec}\n"
    assert () == plans(text, FILE)
