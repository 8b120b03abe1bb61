"""KAITO: workspaces with a preset, the options in their ConfigMap, what KAITO adds."""

from __future__ import annotations

import pytest
from harness import check, places, setup
from readers.reading import (
    at,
    edited,
    fact,
    names,
    plan,
    plans,
    project,
    refused,
    stated,
    token,
    why,
)
from shardlint.project import Project

MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: params}
data:
  inference_config.yaml: |
    # settings
    max_probe_steps: 6
    vllm:
      gpu-memory-utilization: 0.9
      max-model-len: 8192
      tensor-parallel-size: 2
"""
SPACE = """\
apiVersion: kaito.sh/v1beta1
kind: Workspace
metadata: {name: ws}
resource:
  instanceType: Standard_NC24ads_A100_v4
inference:
  preset: {name: qwen3-8b}
  config: params
"""
TEXT = f"{MAP}---\n{SPACE}"


def test_facts_of_a_workspace() -> None:
    found = plan(TEXT, "w.yaml")
    wanted = {
        "model": "qwen3-8b", "tp": 2, "max_model_len": 8192, "gpu_memory_utilization": 0.9,
        "gpu_type": "Standard_NC24ads_A100_v4",
    }  # fmt: skip
    assert wanted == {name: stated(found, name) for name in wanted}
    assert ("Workspace", "kaito") == (found.kind, found.platform)


def test_the_instance_type_tells_card_and_count() -> None:
    found = plan(TEXT, "w.yaml")
    count = fact(found, "gpus_per_pod")
    assert (1, "derived") == (count.only, count.how)
    assert ["A100-PCIE-80GB"] == [device.name for device in found.placement.gpu.values]


def test_places_are_in_the_text_of_the_config_map() -> None:
    found = plan(TEXT, "w.yaml")
    assert "2" == token(TEXT, found, "tp")
    assert "8192" == token(TEXT, found, "max_model_len")


def test_more_ranks_than_the_node_has_cards() -> None:
    found = check(TEXT, "w.yaml").findings
    assert ("gpu-count-short", "warning", "Standard_NC24ads_A100_v4") in places(found, TEXT)


def test_options_are_written_into_the_config_map() -> None:
    found = plan(TEXT, "w.yaml")
    assert TEXT.replace("size: 2", "size: 1") == edited(TEXT, found, "tp", "1")
    assert "      tensor-parallel-size: 2\n      pipeline-parallel-size: 2\n" in edited(
        TEXT, found, "pp", "2"
    )


def test_a_config_map_in_another_file() -> None:
    read = Project.of_texts(setup(), {"a/map.yaml": MAP, "b/ws.yaml": SPACE})
    (found,) = read.plans
    assert ("b/ws.yaml", 2) == (found.file, stated(found, "tp"))
    origin = fact(found, "tp").origin
    assert origin is not None
    assert ("a/map.yaml", "2") == (origin.file, at(MAP, origin))
    after = read.update("a/map.yaml", MAP.replace("size: 2", "size: 1"))
    assert 1 == stated(after.plans[0], "tp")


@pytest.mark.parametrize(
    "maps",
    [
        "",
        MAP.replace("params", "other") + "---\n",
        MAP.replace("{name", "{namespace: x, name") + "---\n",
    ],
)
def test_settings_that_are_not_there_are_unknown(maps: str) -> None:
    found = plan(maps + SPACE, "w.yaml")
    reason = "ConfigMap params with inference_config.yaml is not among the files"
    assert reason in (why(found, "tp") or "")
    assert "the settings of the engine are not in these files" == refused(found, "tp")
    assert "gpu-count-short" not in names(check(maps + SPACE, "w.yaml").findings)


ALONE = SPACE.replace("  config: params\n", "")


def test_what_kaito_gives_is_not_stated() -> None:
    found = plan(ALONE, "w.yaml")
    share = found.memory.budget.share
    assert (0.84, "derived") == (share.only, share.how)
    assert "KAITO leaves the context to vLLM, which takes what fits" == why(found, "max_model_len")


@pytest.mark.parametrize(
    ("instance", "count", "layout"),
    [
        ("Standard_NC24ads_A100_v4", "", (1, 1, 1)),
        ("Standard_NC48ads_A100_v4", "", (None, 1, None)),
        ("Standard_NC48ads_A100_v4", "  count: 2\n", (2, 2, 1)),
        ("Standard_Unknown", "", (None, None, None)),
    ],
)
def test_kaito_splits_the_model(instance: str, count: str, layout: tuple[int | None, ...]) -> None:
    text = ALONE.replace("Standard_NC24ads_A100_v4\n", f"{instance}\n{count}")
    found = plan(text, "w.yaml")
    facts = tuple(getattr(found.effective, name) for name in ("tp", "pp", "dp"))
    assert layout == tuple(each.only for each in facts)
    assert found.layout.tp.is_unset


def test_a_count_of_nodes_is_told_to_be_replaced() -> None:
    text = ALONE.replace("  instanceType", "  count: 2\n  instanceType")
    found = [f for f in check(text, "w.yaml").findings if f.name == "config-ignored"]
    assert [("info", "count")] == [(f.severity, text[f.span.start : f.span.end]) for f in found]


def test_some_cards_of_a_node() -> None:
    text = ALONE.replace(
        "inference:", "  partition: {mode: accelerator, count: 2}\ninference:"
    ).replace("NC24ads", "NC96ads")
    assert 2 == fact(plan(text, "w.yaml"), "gpus_per_pod").only
    sliced = text.replace("accelerator, count: 2", "mig, profile: 1g.10gb")
    assert "the pod gets a part of a card" == why(plan(sliced, "w.yaml"), "gpus_per_pod")


def test_a_set_of_workspaces() -> None:
    text = """\
apiVersion: kaito.sh/v1beta1
kind: InferenceSet
metadata: {name: s}
spec:
  replicas: 3
  template:
    resource: {instanceType: Standard_NC24ads_A100_v4}
    inference: {preset: {name: qwen3-8b}}
"""
    found = plan(text, "s.yaml")
    assert ("InferenceSet", 3) == (found.kind, stated(found, "replicas"))


def test_another_runtime_is_not_vllm() -> None:
    text = ALONE.replace("{name: ws}", "{name: ws, annotations: {kaito.sh/runtime: transformers}}")
    assert () == plans(text, "w.yaml")


def test_a_pod_of_the_users_own() -> None:
    text = """\
apiVersion: kaito.sh/v1beta1
kind: Workspace
metadata: {name: ws}
resource: {instanceType: Standard_NC96ads_A100_v4}
inference:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        args: [Qwen/Qwen3-8B, --tensor-parallel-size=4]
        resources: {limits: {nvidia.com/gpu: 4}}
"""
    found = plan(text, "w.yaml")
    assert (4, 4) == (stated(found, "tp"), stated(found, "gpus_per_pod"))


def test_a_tuning_job_serves_nothing() -> None:
    text = ALONE.replace("inference:", "tuning:")
    assert () == plans(text, "w.yaml")


def test_settings_that_are_no_yaml_are_a_problem() -> None:
    text = TEXT.replace("max-model-len: 8192", "max-model-len: [8192")
    (problem,) = project(text, "w.yaml").problems
    assert problem.message.startswith("inference_config.yaml: ")


@pytest.mark.parametrize(
    "rest",
    [
        "inference: []\n", "inference: {preset: []}\n", "inference: {preset: {name: []}}\n",
        "inference: {template: []}\n", "resource: 5\ninference: {preset: {name: m}}\n",
        "resource: {instanceType: [], count: {}}\ninference: {preset: {name: m}, config: []}\n",
        "resource: {partition: 5}\ninference: {preset: {name: m}}\n",
    ],
)  # fmt: skip
def test_odd_input_is_survived(rest: str) -> None:
    text = f"apiVersion: kaito.sh/v1beta1\nkind: Workspace\nmetadata: []\n{rest}"
    assert () == project(text, "a.yaml").broken
