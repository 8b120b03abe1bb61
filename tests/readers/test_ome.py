"""Runtimes and services of OME: parts of an object, groups of pods, what the operator sets."""

from __future__ import annotations

import pytest
from readers.reading import (
    block,
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
from shardlint.linter import lint
from shardlint.plan import ServingPlan

FILE = "ome.yaml"


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


def runner(args: str, gpus: int = 4, more: str = "") -> str:
    text = "runner:\n  name: ome-container\n  image: vllm/vllm-openai:v0.13.0\n"
    text += f"  command: [vllm, serve, $(MODEL_PATH)]\n  args: [{args}]\n" + block(
        more or "tty: no", 2
    )
    return text + f"  resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"


def runtime(engine: str, decoder: str = "", kind: str = "ClusterServingRuntime") -> str:
    text = f"apiVersion: ome.io/v1beta1\nkind: {kind}\nmetadata: {{name: rt}}\nspec:\n"
    text += "  engineConfig:\n" + block(engine, 4)
    return text + (("  decoderConfig:\n" + block(decoder, 4)) if decoder else "")


def service(spec: str) -> str:
    text = (
        "---\napiVersion: ome.io/v1beta1\nkind: InferenceService\nmetadata: {name: chat}\nspec:\n"
    )
    return text + block(spec, 2)


MODEL = """---
apiVersion: ome.io/v1beta1
kind: ClusterBaseModel
metadata: {name: m}
spec: {storage: {storageUri: "hf://Qwen/Qwen3-8B", path: /models/m}}
"""

PLAIN = runtime(runner('--tensor-parallel-size, "4"'))


@pytest.mark.parametrize("kind", ["ServingRuntime", "ClusterServingRuntime"])
def test_the_engine_of_a_runtime_is_read(kind: str) -> None:
    text = PLAIN.replace("ClusterServingRuntime", kind)
    of = read(text)
    assert (kind, "rt/ome-container", "ome") == (of.kind, of.name, of.platform)
    assert "0:/spec/engineConfig/runner" == of.path
    assert (4, 4, "$(MODEL_PATH)") == tuple(
        stated(of, name) for name in ("tp", "gpus_per_pod", "model")
    )
    assert ("4", "$(MODEL_PATH)") == (token(text, of, "tp"), token(text, of, "model"))
    assert (None, None) == (stated(of, "replicas"), of.role)
    assert "a service names" in (of.model_facts.reason or "")
    assert text.replace('"4"', '"2"') == edited(text, of, "tp", "2")


def test_a_runtime_with_a_decoder_has_two_roles() -> None:
    one, other = plans(runtime(runner(""), runner("")), FILE)
    assert ("prefill", "decode") == (one.role, other.role)
    assert "0:/spec/decoderConfig/runner" == other.path


def test_a_service_uses_the_runtime_of_its_file() -> None:
    text = PLAIN + MODEL + service(
        "model: {name: m}\nruntime: {name: rt}\nengine:\n  minReplicas: 2\n  maxReplicas: 3"
    )  # fmt: skip
    of = read(text)
    assert ("chat/ome-container", "Qwen/Qwen3-8B", 2, 3) == (
        of.name, of.model.only, stated(of, "replicas"), stated(of, "max_replicas"),
    )  # fmt: skip
    assert ("2", "hf://Qwen/Qwen3-8B") == (token(text, of, "replicas"), token(text, of, "model"))
    assert text.replace("minReplicas: 2", "minReplicas: 4") == edited(text, of, "replicas", "4")


def test_a_service_may_run_an_engine_of_its_own() -> None:
    text = PLAIN + service("engine:\n" + block(runner('-tp, "2"', 2), 2))
    found = {plan.name: plan for plan in plans(text, FILE)}
    assert {"chat/ome-container", "rt/ome-container"} == set(found)
    assert 2 == stated(found["chat/ome-container"], "tp")


def test_without_a_runtime_nothing_is_known_of_a_service() -> None:
    assert () == plans(service("model: {name: m}\nengine: {minReplicas: 1}"), FILE)


# groups


GROUP = runtime(
    "leader:\n" + block(runner('-tp, "$(PARALLELISM_SIZE)", --nnodes, $(LWS_GROUP_SIZE)'), 2)
    + "worker:\n  size: 1\n"
    + block(runner('-tp, "$(PARALLELISM_SIZE)", --nnodes, $(LWS_GROUP_SIZE)'), 2)
)  # fmt: skip


def test_a_leader_and_its_workers_are_one_engine() -> None:
    of = read(GROUP)
    assert "0:/spec/engineConfig/leader/runner" == of.path
    assert (2, 2, 8) == (stated(of, "nodes"), stated(of, "nnodes"), of.placement.group_devices.only)
    assert "1" == token(GROUP, of, "nodes")


def test_tp_that_follows_from_the_group_is_derived() -> None:
    of = read(GROUP)
    assert (8, "derived") == (of.effective.tp.only, of.effective.tp.how)
    assert "no accelerator class is chosen" in of.effective.tp.assumes
    assert "derived" == fact(of, "tp").how
    assert "read there too" in refused(of, "gpus_per_pod")


def test_with_an_accelerator_class_it_is_not_set() -> None:
    text = GROUP + service("runtime: {name: rt}\nacceleratorSelector: {acceleratorClass: h100}")
    assert why(read(text), "tp")


@pytest.mark.parametrize("size", ["", "size: ${N}", "size: -1"])
def test_workers_that_are_not_counted(size: str) -> None:
    assert why(read(GROUP.replace("size: 1", size)), "nodes")


def test_sizes_of_an_accelerator_may_replace_those_of_the_command() -> None:
    formats = "  supportedModelFormats: [{acceleratorConfig: {h100: {}}}]\n"
    of = read(PLAIN + formats)
    assert of.effective.tp.assumes and 4 == stated(of, "tp")


def test_a_container_may_set_the_folder_itself() -> None:
    env = "env: [{name: MODEL_PATH, value: org/other}]"
    text = runtime(runner("", more=env)) + MODEL + service("model: {name: m}\nruntime: {name: rt}")
    assert "org/other" == read(text).model.only


def test_an_annotation_may_bring_rdma() -> None:
    text = runtime('annotations: {rdma.ome.io/auto-inject: "true"}\n' + runner(""))
    assert "annotation rdma.ome.io/auto-inject" == read(text).placement.rdma.only


def test_rules_judge_a_runtime() -> None:
    text = PLAIN.replace("gpu: 4", "gpu: 2")
    assert "gpu-count-short" in names(lint(project(text, FILE)).result.findings)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("ome.io/v1beta1", "serving.kserve.io/v1beta1"),
        runtime("runner: 5"),
        runtime("leader: 5"),
        runtime("5"),
        service("5"),
        service("engine: [runner]"),
    ],
)
def test_what_is_no_part_has_no_plan(text: str) -> None:
    assert () == plans(text, FILE)
