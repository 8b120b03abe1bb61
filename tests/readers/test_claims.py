"""Devices that a pod claims: templates and claims by name, requests, what is left open."""

from __future__ import annotations

from typing import Any

import pytest
from harness import check
from readers.reading import a_setup, edited, fact, names, plan, refused, stated, token, why
from shardlint.plan import ServingPlan
from shardlint.project import Project

FILE = "d.yaml"


def deployment(
    claims: str = "{name: gpus, resourceClaimTemplateName: four}",
    listed: str = "{name: gpus}",
    more: str = "",
    replicas: int = 1,
) -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: llm}}}}
  template:
    metadata: {{labels: {{app: llm}}}}
    spec:
      hostIPC: true
      resourceClaims: [{claims}]
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: [Qwen/Qwen3-8B, --tensor-parallel-size, "4"]
        resources: {{claims: [{listed}]{more}}}
"""


def template(requests: str, version: str = "v1", kind: str = "ResourceClaimTemplate") -> str:
    spec = "spec: {devices: {requests: [" + requests + "]}}"
    spec = f"spec: {{{spec}}}" if kind == "ResourceClaimTemplate" else spec
    return (
        f"apiVersion: resource.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: four}}\n{spec}\n"
    )


FOUR = "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 4}}"


def together(requests: str, **of: Any) -> str:
    return deployment(**of) + "---\n" + template(requests)


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


def test_a_template_says_how_many_devices_each_pod_gets() -> None:
    text = together(FOUR)
    found = read(text)
    assert (4, "gpu") == (stated(found, "gpus_per_pod"), found.placement.device_kind.only)
    assert ("4", "count: 4") == (
        token(text, found, "gpus_per_pod"),
        text[text.index("count: 4") :][:8],
    )
    assert [] == [f for f in check(text, FILE).findings if f.severity == "error"]


def test_the_number_is_edited_in_the_template() -> None:
    text = together(FOUR)
    assert text.replace("count: 4", "count: 8") == edited(text, read(text), "gpus_per_pod", "8")


def test_too_few_devices_of_a_claim_are_too_few() -> None:
    found = check(together(FOUR.replace("count: 4", "count: 2")), FILE).findings
    assert "gpu-count-short" in names(found)


@pytest.mark.parametrize(
    ("requests", "count", "kind"),
    [
        ("{name: a, exactly: {deviceClassName: gpu.nvidia.com}}", 1, "gpu"),
        ("{name: a, deviceClassName: gpu.nvidia.com, count: 2}", 2, "gpu"),
        ("{name: a, deviceClassName: gpu.intel.com, count: 2}", 2, "gpu"),
        ("{name: a, exactly: {deviceClassName: mig.nvidia.com, count: 2}}", 2, "mig"),
        (f"{FOUR}, {{name: nic, exactly: {{deviceClassName: netdev.google.com}}}}", 4, "gpu"),
        (f"{FOUR}, {{name: b, exactly: {{deviceClassName: gpu.nvidia.com, count: 2}}}}", 6, "gpu"),
        ("{name: nic, exactly: {deviceClassName: rdma.example.com}}", 0, None),
    ],
)
def test_requests_add_up(requests: str, count: int, kind: str | None) -> None:
    found = read(together(requests)).placement
    assert (count, kind) == (found.gpus_per_pod.only, found.device_kind.only)


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ("{name: a, firstAvailable: [{name: b}]}", "the claim leaves a choice of devices"),
        (
            "{name: a, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}}",
            "the claim takes devices by allocationMode All",
        ),
        (
            "{name: a, exactly: {deviceClassName: h100}}",
            "h100 is no class of devices that is known",
        ),
        ("{name: a, exactly: {deviceClassName: gpu.nvidia.com, count: '${N}'}}", "${N}"),
        ("{name: a}", "it is no class of devices that is known"),
        ("", "the devices come from a resource claim"),
    ],
)
def test_what_a_claim_leaves_open_is_not_known(requests: str, reason: str) -> None:
    assert reason in (why(read(together(requests)), "gpus_per_pod") or "")


def test_a_container_can_take_one_request_of_a_claim() -> None:
    both = f"{FOUR}, {{name: b, exactly: {{deviceClassName: gpu.nvidia.com, count: 2}}}}"
    one = together(both, listed="{name: gpus, request: b}")
    assert 2 == stated(read(one), "gpus_per_pod")
    twice = together(both, listed="{name: gpus, request: b}, {name: gpus, request: b}")
    assert 2 == stated(read(twice), "gpus_per_pod")
    none = together(both, listed="{name: gpus, request: c}")
    assert "the devices come from a resource claim" == why(read(none), "gpus_per_pod")


@pytest.mark.parametrize(
    "claims",
    [
        "{name: other, resourceClaimTemplateName: four}",
        "{name: gpus, resourceClaimTemplateName: five}",
        "{name: gpus, resourceClaimName: four}",
        "{name: gpus, resourceClaimTemplateName: '${NAME}'}",
        "{name: gpus}",
        "x",
    ],
)
def test_a_claim_that_is_not_among_the_files_is_not_known(claims: str) -> None:
    found = read(together(FOUR, claims=claims))
    assert "the devices come from a resource claim" == why(found, "gpus_per_pod")


def test_an_object_of_another_group_is_no_template() -> None:
    text = together(FOUR).replace("resource.k8s.io", "example.com")
    assert "the devices come from a resource claim" == why(read(text), "gpus_per_pod")


def test_the_older_way_to_name_a_template() -> None:
    claims = "{name: gpus, source: {resourceClaimTemplateName: four}}"
    assert 4 == stated(read(together(FOUR, claims=claims)), "gpus_per_pod")


def test_a_claim_for_a_network_leaves_the_devices_as_they_are() -> None:
    nic = "{name: nic, exactly: {deviceClassName: netdev.google.com}}"
    text = together(nic, more=", limits: {nvidia.com/gpu: 8}")
    found = fact(read(text), "gpus_per_pod")
    assert (8, frozenset()) == (found.only, found.assumes)


def test_devices_of_both_kinds_do_not_add_up() -> None:
    text = together(FOUR, more=", limits: {nvidia.com/gpu: 8}")
    assert "do not add up" in (why(read(text), "gpus_per_pod") or "")


def test_a_card_that_a_request_selects() -> None:
    cel = """{cel: {expression: 'device.attributes["gpu.nvidia.com"].productName == "H100"'}}"""
    one = f"{{name: a, exactly: {{deviceClassName: gpu.nvidia.com, count: 4, selectors: [{cel}]}}}}"
    text = together(one)
    assert "H100" == stated(read(text), "gpu_type") == token(text, read(text), "gpu_type")
    either = one.replace('== "H100"', '== "H100" || true')
    assert stated(read(together(either)), "gpu_type") is None


def test_a_slice_that_a_request_selects() -> None:
    cel = """{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}"""
    one = f"{{name: a, exactly: {{deviceClassName: mig.nvidia.com, selectors: [{cel}]}}}}"
    found = read(together(one)).placement
    assert ("1g.10gb", "mig") == (found.gpu_label.only, found.device_kind.only)
    assert ["mig-1g.10gb"] == [device.name for device in found.gpu.values]


# ------------------------------------------------------------------------------ over several files


def of_files(texts: dict[str, str]) -> ServingPlan:
    (found,) = Project.of_texts(a_setup(), texts).plans
    return found


def test_a_template_in_another_file_is_read_and_not_edited() -> None:
    found = of_files({"a/d.yaml": deployment(), "a/claims.yaml": template(FOUR)})
    assert 4 == found.placement.gpus_per_pod.only
    assert "the claim is in another file" == refused(found, "gpus_per_pod")


def test_of_two_templates_the_one_in_the_same_folder_is_meant() -> None:
    other = template(FOUR.replace("4", "2"))
    texts = {"a/d.yaml": deployment(), "a/c.yaml": template(FOUR), "b/c.yaml": other}
    assert 4 == of_files(texts).placement.gpus_per_pod.only
    texts = {"a/d.yaml": deployment(), "b/c.yaml": template(FOUR), "c/c.yaml": other}
    assert not of_files(texts).placement.gpus_per_pod.is_known


# --------------------------------------------------------------------------- one claim for all

NAMED = "{name: gpus, resourceClaimName: four}"


def shared(replicas: int, requests: str = FOUR) -> str:
    claim = template(requests, kind="ResourceClaim")
    return deployment(claims=NAMED, replicas=replicas) + "---\n" + claim


def test_a_claim_that_is_named_itself_is_one_for_all_pods() -> None:
    assert 4 == stated(read(shared(1)), "gpus_per_pod")
    said = [f.message for f in check(shared(3), FILE).findings if f.name == "gpu-shared"]
    assert ["3 replicas are given the same GPUs by one resource claim"] == said


@pytest.mark.parametrize(
    "text",
    [
        shared(1),
        shared(3, "{name: nic, exactly: {deviceClassName: netdev.google.com}}"),
        together(FOUR, replicas=3),
    ],
)
def test_claims_that_are_not_shared_are_left_alone(text: str) -> None:
    assert "gpu-shared" not in names(check(text, FILE).findings)


def test_a_claim_that_is_not_among_the_files_is_shared_all_the_same() -> None:
    text = deployment(claims=NAMED, replicas=2)
    assert "gpu-shared" in names(check(text, FILE).findings)


GROUP = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm}
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        resourceClaims: [{name: gpus, resourceClaimTemplateName: four}]
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args: [Qwen/Qwen3-8B, --tensor-parallel-size, "8"]
          resources: {claims: [{name: gpus}]}
---
""" + template(FOUR)


def test_the_pods_of_a_group_claim_devices_each() -> None:
    found = read(GROUP).placement
    assert (4, 8) == (found.gpus_per_pod.only, found.group_devices.only)
