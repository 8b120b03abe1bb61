"""Services of Knative: one pod template between two annotations."""

from __future__ import annotations

import pytest
from readers.reading import block, edited, fact, plan, plans, refused, stated, token, why

FILE = "service.yaml"
KEY = "autoscaling.knative.dev/"


def service(notes: str = "", kind: str = "Service") -> str:
    text = f"apiVersion: serving.knative.dev/v1\nkind: {kind}\nmetadata: {{name: llm}}\nspec:\n"
    text += "  template:\n    metadata:\n      labels: {app: llm}\n"
    text += ("      annotations:\n" + block(notes, 8)) if notes else ""
    text += "    spec:\n      containers:\n      - image: vllm/vllm-openai:v0.11.2\n"
    return (
        text + "        args: [--model, org/m]\n        resources: {limits: {nvidia.com/gpu: 1}}\n"
    )


def test_a_service_has_one_pod_for_each_replica() -> None:
    text = service(f'{KEY}min-scale: "2"\n{KEY}max-scale: "5"')
    of = plan(text, FILE)
    assert ("KnativeService", "knative", "0:/spec/template/spec/containers/0") == (
        of.kind, of.platform, of.path,
    )  # fmt: skip
    assert (2, 5, 1) == tuple(stated(of, n) for n in ("replicas", "max_replicas", "gpus_per_pod"))
    assert ("2", "5") == (token(text, of, "replicas"), token(text, of, "max_replicas"))
    assert (1, "derived") == (fact(of, "nodes").only, fact(of, "nodes").how)
    assert {"app": "llm"} == of.labels


def test_older_names_of_the_annotations() -> None:
    of = plan(service(f'{KEY}minScale: "3"\n{KEY}maxScale: "3"'), FILE)
    assert (3, 3) == (stated(of, "replicas"), stated(of, "max_replicas"))


def test_no_limit_and_what_is_filled_in() -> None:
    of = plan(service(f'{KEY}min-scale: "${{MIN}}"\n{KEY}max-scale: "0"'), FILE)
    assert "filled in elsewhere" in (why(of, "replicas") or "")
    assert "no limit" in (why(of, "max_replicas") or "")


def test_annotations_are_written_as_strings() -> None:
    text = service(f'{KEY}min-scale: "2"')
    of = plan(text, FILE)
    assert text.replace('"2"', '"4"') == edited(text, of, "replicas", "4")
    after = edited(text, of, "max_replicas", "4")
    assert f'{KEY}max-scale: "4"\n' in after
    assert 4 == stated(plan(after, FILE), "max_replicas")


def test_there_may_be_no_place_for_an_annotation() -> None:
    assert "no annotations" in refused(plan(service(), FILE), "replicas")
    flow = service("x: y").replace("annotations:\n        x: y\n", "annotations: {x: y}\n")
    assert "braces" in refused(plan(flow, FILE), "replicas")


@pytest.mark.parametrize(
    "text",
    [
        service(kind="Route"),
        "apiVersion: serving.knative.dev/v1\nkind: Service\nspec: {template: {spec: []}}\n",
        "apiVersion: serving.knative.dev/v1\nkind: Service\n",
    ],
)
def test_other_objects_have_no_plan(text: str) -> None:
    assert () == plans(text, FILE)
