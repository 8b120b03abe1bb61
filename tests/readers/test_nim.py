"""NVIDIA NIM: services, what their caches say, what the operator adds."""

from __future__ import annotations

from textwrap import dedent

import pytest
from readers.reading import (
    a_setup,
    at,
    block,
    edited,
    names,
    plan,
    plans,
    project,
    stated,
    token,
    why,
)
from shardlint.linter import lint
from shardlint.project import Project

FILE = "service.yaml"

SERVICE = dedent(
    """\
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMService
    metadata: {name: llama, namespace: nim}
    spec:
      image:
        repository: nvcr.io/nim/meta/llama-3.1-8b-instruct
        tag: "1.8.0"
      env:
      - {name: NIM_LOG_LEVEL, value: INFO}
      storage:
        nimCache: {name: llama-cache, profile: ''}
      replicas: 2
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
      resources:
        limits:
          nvidia.com/gpu: 2
    """
)

CACHE = dedent(
    """\
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMCache
    metadata: {name: llama-cache}
    spec:
      source:
        ngc:
          modelPuller: nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.0
          model: {engine: tensorrt_llm, tensorParallelism: "2"}
    """
)

FROM_HUB = dedent(
    """\
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMCache
    metadata: {name: llama-cache}
    spec:
      source:
        hf:
          namespace: meta-llama
          modelName: Llama-3.1-8B-Instruct
    """
)

NO_GPU = SERVICE.replace("  resources:\n    limits:\n      nvidia.com/gpu: 2\n", "")
ANY_MODEL = SERVICE.replace("meta/llama-3.1-8b-instruct", "nvidia/llm-nim")
GROUPED = SERVICE + "  multiNode:\n    parallelism:\n      pipeline: 2\n      tensor: 8\n"


def both(service: str, cache: str) -> str:
    return f"{cache}---\n{service}"


def test_facts_of_a_service() -> None:
    found = plan(SERVICE, FILE)
    image = "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.0"
    assert ("nim", "NIMService", "nim") == (found.engine, found.kind, found.platform)
    assert ("nim/llama", "1.8.0") == (found.name, found.tag.only)
    facts = ("model", "gpus_per_pod", "replicas", "gpu_type", "tp")
    assert [image, 2, 2, "NVIDIA-L40S", None] == [stated(found, fact) for fact in facts]
    assert "nvcr.io/nim/meta/llama-3.1-8b-instruct" == at(SERVICE, found.origin)
    assert "nvcr.io/nim/meta/llama-3.1-8b-instruct" == token(SERVICE, found, "model")
    assert found.placement.gpu.is_known


def test_an_image_of_any_registry_is_the_engine() -> None:
    text = SERVICE.replace("nvcr.io/nim/meta", "registry.example/mirror")
    assert "nim" == plan(text, FILE).engine


def test_the_model_of_an_image_that_loads_any() -> None:
    assert stated(plan(ANY_MODEL, FILE), "model") is None
    named = ANY_MODEL.replace("NIM_LOG_LEVEL, value: INFO", "NIM_MODEL_NAME, value: hf://org/m")
    assert "org/m" == stated(plan(named, FILE), "model")
    text = both(ANY_MODEL, FROM_HUB)
    found = plan(text, FILE)
    assert "meta-llama/Llama-3.1-8B-Instruct" == stated(found, "model")
    assert "Llama-3.1-8B-Instruct" == token(text, found, "model")
    assert "org/m" == stated(plan(both(named, FROM_HUB), FILE), "model")


def test_a_cache_in_another_file_of_the_run() -> None:
    texts = {"cache.yaml": FROM_HUB, "service.yaml": ANY_MODEL}
    (found,) = Project.of_texts(a_setup(), texts).plans
    assert "meta-llama/Llama-3.1-8B-Instruct" == found.model.only
    again = {**texts, "other.yaml": FROM_HUB}
    (found,) = Project.of_texts(a_setup(), again).plans
    assert not found.model.is_known


def test_the_profile_of_a_cache() -> None:
    text = both(SERVICE, CACHE)
    assert (2, "2") == (stated(plan(text, FILE), "tp"), at(text, plan(text, FILE).layout.tp.origin))
    filled = plan(both(NO_GPU, CACHE), FILE)
    assert (2, "derived") == (stated(filled, "gpus_per_pod"), filled.placement.gpus_per_pod.how)
    assert filled.placement.gpus_per_pod.assumes
    assert "the profile in the cache" in (why(plan(NO_GPU, FILE), "gpus_per_pod") or "")
    alone = NO_GPU.replace("    nimCache: {name: llama-cache, profile: ''}", "    pvc: {name: x}")
    assert plan(alone, FILE).placement.gpus_per_pod.is_unset


def test_a_group_of_pods() -> None:
    found = plan(GROUPED, FILE)
    assert [8, 2, 2] == [stated(found, fact) for fact in ("tp", "pp", "nodes")]
    assert ("8", "2") == (token(GROUPED, found, "tp"), token(GROUPED, found, "nodes"))
    assert GROUPED.replace("tensor: 8", "tensor: 4") == edited(GROUPED, found, "tp", "4")
    without = GROUPED.replace("  resources:\n    limits:\n      nvidia.com/gpu: 2\n", "")
    assert 8 == stated(plan(without, FILE), "gpus_per_pod")


CLAIMED = NO_GPU + block(
    """
    draResources:
    - claimCreationSpec:
        devices:
        - name: gpu
          count: 4
          deviceClassName: gpu.nvidia.com
          attributeSelectors:
          - key: productName
            op: Equal
            value: {stringValue: NVIDIA-L40S}
    """,
    2,
)


def test_devices_of_a_claim() -> None:
    text = CLAIMED.replace("nodeSelector:", "labels:")
    found = plan(text, FILE)
    assert [4, "NVIDIA-L40S"] == [stated(found, fact) for fact in ("gpus_per_pod", "gpu_type")]
    assert found.placement.gpu.is_known
    family = plan(text.replace("productName", "architecture"), FILE)
    assert ("NVIDIA-L40S", False) == (stated(family, "gpu_type"), family.placement.gpu.is_known)
    one = text.replace("        count: 4\n", "")
    assert 1 == stated(plan(one, FILE), "gpus_per_pod")
    net = CLAIMED.replace("deviceClassName: gpu.nvidia.com", "deviceClassName: roce.example.com")
    assert "roce.example.com does not count GPUs" == why(plan(net, FILE), "gpus_per_pod")
    other = NO_GPU + "  draResources: [{resourceClaimName: mine}]\n"
    assert "claim" in (why(plan(other, FILE), "gpus_per_pod") or "")


def test_scaling() -> None:
    scale = "  scale:\n    enabled: true\n    hpa: {minReplicas: 1, maxReplicas: 4}\n"
    found = plan(SERVICE + scale, FILE)
    assert (1, 4) == (found.fleet.replicas.only, found.fleet.max_replicas.only)
    (remark,) = found.remarks
    assert ("replicas", "conflict") == (at(SERVICE, remark.at), remark.kind)
    assert () == plan((SERVICE + scale).replace("  replicas: 2\n", ""), FILE).remarks
    off = plan(SERVICE + scale.replace("true", "false"), FILE)
    assert (2, ()) == (off.fleet.replicas.only, off.remarks)


def test_shared_memory_has_the_limit_of_the_storage() -> None:
    assert plan(SERVICE, FILE).placement.shm_ample
    text = edited(SERVICE, plan(SERVICE, FILE), "shm_bytes", str(2**30))
    assert 2**30 == stated(plan(text, FILE), "shm_bytes")
    assert not plan(text, FILE).placement.shm_ample


def test_sites() -> None:
    found = plan(SERVICE, FILE)
    made = edited(SERVICE, found, "gpus_per_pod", "4")
    assert SERVICE.replace("gpu: 2", "gpu: 4") == made
    assert SERVICE.replace("replicas: 2", "replicas: 3") == edited(SERVICE, found, "replicas", "3")
    absent = plan(NO_GPU.replace("  replicas: 2\n", ""), FILE)
    text = edited(absent_text := NO_GPU.replace("  replicas: 2\n", ""), absent, "gpus_per_pod", "1")
    assert 1 == stated(plan(text, FILE), "gpus_per_pod")
    assert 3 == stated(plan(edited(absent_text, absent, "replicas", "3"), FILE), "replicas")


def test_services_of_a_pipeline() -> None:
    inner = "\n".join(f"      {line}" for line in SERVICE.splitlines()[4:])
    text = (
        "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMPipeline\nmetadata: {name: rag}\nspec:\n"
        f"  services:\n  - name: llm\n    enabled: true\n    spec:\n{inner}\n"
    )
    found = plan(text, FILE)
    assert ("rag/llm", 2, "0:/spec/services/0/spec") == (
        found.name, stated(found, "gpus_per_pod"), found.path,
    )  # fmt: skip
    assert () == plans(text.replace("enabled: true", "enabled: false"), FILE)


def test_values_that_are_filled_in_elsewhere() -> None:
    tag = SERVICE.replace('"1.8.0"', "{{ tag }}").replace("{{ tag }}", "'{{ tag }}'")
    assert not plan(tag, FILE).image.is_known
    gpus = SERVICE.replace("gpu: 2", "gpu: ${GPUS}")
    assert "filled in elsewhere" in (why(plan(gpus, FILE), "gpus_per_pod") or "")


def test_nothing_is_judged() -> None:
    assert [] == names(lint(project(both(SERVICE, CACHE), FILE)).result.findings)


@pytest.mark.parametrize("old", ["2\n", "llama-cache", '"1.8.0"', "INFO", "nvcr.io/nim/meta"])
@pytest.mark.parametrize("new", ["{}", "[]", "[x]", "{a: b}", "null", "-1", "1e3", "'{{ x }}'"])
def test_odd_values_are_no_failure(old: str, new: str) -> None:
    for text in (both(SERVICE, CACHE), GROUPED, CLAIMED):
        end = "\n" if old.endswith("\n") else ""
        assert () == project(text.replace(old, new + end), FILE).broken


@pytest.mark.parametrize("spec", ["null", "[]", "{}", "{image: x}", "{services: [1, {spec: 1}]}"])
def test_odd_objects_have_no_facts(spec: str) -> None:
    for kind in ("NIMService", "NIMPipeline", "NIMCache"):
        text = f"apiVersion: apps.nvidia.com/v1alpha1\nkind: {kind}\nspec: {spec}\n"
        found = project(text, FILE)
        assert () == found.broken
        assert all(not fact.model.is_known for fact in found.plans)
