"""ConfigMaps: variables of containers, scripts and files of options that are mounted."""

from __future__ import annotations

import pytest
from readers import reading
from shardlint.plan import Refusal, ServingPlan
from shardlint.project import Project
from shardlint.source import apply

MAP = """apiVersion: v1
kind: ConfigMap
metadata: {name: cfg}
data:
  TP: "4"
  MODEL: org/m
  serve.yaml: |
    # options
    tensor-parallel-size: 4
    max-model-len: 4096
  start.sh: |
    #!/bin/bash
    export MODE=fast
    exec vllm serve org/m \\
      --tensor-parallel-size 4 --port "$1"
  both.sh: |
    vllm serve $MODEL --config /etc/vllm/serve.yaml
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: one
    image: vllm/vllm-openai:v0.11.0
    COMMAND
    resources: {limits: {nvidia.com/gpu: 4}}
    volumeMounts:
    - {name: s, mountPath: /scripts}
    - {name: c, mountPath: /etc/vllm/serve.yaml, subPath: serve.yaml}
  volumes:
  - {name: s, configMap: {name: cfg, items: [{key: start.sh, path: run/go.sh},
                                             {key: both.sh, path: both.sh}]}}
  - {name: c, projected: {sources: [{secret: {name: x}}, {configMap: {name: cfg}}]}}
"""


def pod(command: str) -> str:
    return POD.replace("COMMAND", command)


def together(**texts: str) -> Project:
    named = {name.replace("__", "/") + ".yaml": text for name, text in texts.items()}
    return Project.of_texts(reading.a_setup(), named)


def one(command: str) -> tuple[str, ServingPlan]:
    text = f"{MAP}---\n{pod(command)}"
    return text, reading.plan(text, "a.yaml")


@pytest.mark.parametrize(
    "command",
    [
        'command: [bash, /scripts/run/go.sh, "80"]',
        'command: [/scripts/run/go.sh, "80"]',
        'command: [sh, -c, "exec /scripts/run/go.sh 80"]',
        'command: [bash, -ex]\n    args: [/scripts/run/go.sh, "80"]',
        'workingDir: /scripts\n    command: [bash, ./run/go.sh, "80"]',
    ],
)
def test_a_mounted_script_is_read(command: str) -> None:
    text, found = one(command)
    assert (reading.stated(found, "model"), reading.stated(found, "tp")) == ("org/m", 4)
    assert reading.token(text, found, "tp") == "4"
    assert [flag.value.value for flag in found.flags if flag.flag == "--port" and flag.value] == [
        "80"
    ]
    assert reading.edited(text, found, "tp", "2") == text.replace("l-size 4 -", "l-size 2 -")
    assert reading.edited(text, found, "pp", "2") == text.replace(
        "l-size 4 -", "l-size 4 --pipeline-parallel-size 2 -"
    )


def test_an_option_of_a_mounted_script_is_removed() -> None:
    text, found = one('command: [bash, /scripts/run/go.sh, "80"]')
    edits = found.sites["option:0"].set("")
    assert not isinstance(edits, Refusal)
    assert apply(text, edits) == text.replace(" \\\n      --tensor-parallel-size 4 -", " -")


@pytest.mark.parametrize(
    "command",
    [
        "args: [org/m, --config, /etc/vllm/serve.yaml]",
        "command: [vllm, serve, org/m, --config, /etc/vllm/serve.yaml]",
        "env: [{name: MODEL, value: org/m}]\n    command: [bash, /scripts/both.sh]",
    ],
)
def test_mounted_options_are_joined(command: str) -> None:
    text, found = one(command)
    assert (reading.stated(found, "model"), reading.stated(found, "tp")) == ("org/m", 4)
    assert reading.stated(found, "max_model_len") == 4096
    assert found.joined == ()  # nothing of the file is hidden
    assert reading.edited(text, found, "tp", "2") == text.replace("-size: 4", "-size: 2")
    assert reading.edited(text, found, "pp", "2") == text.replace(
        "len: 4096\n", "len: 4096\n    pipeline-parallel-size: 2\n"
    )


@pytest.mark.parametrize(
    ("env", "tp"),
    [
        ("env: [{name: TP, valueFrom: {configMapKeyRef: {name: cfg, key: TP}}}]", 4),
        ("envFrom: [{configMapRef: {name: cfg}}]", 4),
        ("envFrom: [{configMapRef: {name: cfg}}]\n    env: [{name: TP, value: '8'}]", 8),
        ("env: [{name: TP, valueFrom: {configMapKeyRef: {name: cfg, key: NO}}}]", None),
        ("env: [{name: TP, valueFrom: {configMapKeyRef: {name: other, key: TP}}}]", None),
        ("env: [{name: TP, valueFrom: {secretKeyRef: {name: cfg, key: TP}}}]", None),
        ("envFrom: [{configMapRef: {name: other}}]", None),
    ],
)
def test_variables_come_from_a_config_map(env: str, tp: int | None) -> None:
    text, found = one(f"{env}\n    args: [org/m, --tensor-parallel-size, $(TP)]")
    assert reading.stated(found, "tp") == tp
    if "TP: " not in env and tp == 4:
        assert reading.edited(text, found, "tp", "2") == text.replace('TP: "4"', 'TP: "2"')


def test_variables_with_a_prefix() -> None:
    _, found = one("envFrom: [{prefix: A_, configMapRef: {name: cfg}}]\n    args: [$(A_MODEL)]")
    assert reading.stated(found, "model") == "org/m"
    assert found.placement.env_open is None


@pytest.mark.parametrize("refs", ["[{configMapRef: {name: no}}]", "[{secretRef: {name: cfg}}]"])
def test_what_is_not_here_leaves_the_environment_open(refs: str) -> None:
    _, found = one(f"envFrom: {refs}\n    args: [org/m]")
    assert found.placement.env_open == "envFrom adds more"


def test_another_file_of_the_run_holds_the_config_map() -> None:
    project = together(k__pod=pod("args: [org/m, --config, /etc/vllm/serve.yaml]"), k__cfg=MAP)
    (found,) = project.plans
    origin = reading.fact(found, "tp").origin
    assert origin is not None and origin.file == "k/cfg.yaml"
    edits = found.sites["tp"].set("2")
    assert not isinstance(edits, Refusal)
    assert [edit.file for edit in edits] == ["k/cfg.yaml"]
    assert apply(MAP, edits) == MAP.replace("-size: 4", "-size: 2")


def test_a_script_in_another_file_is_edited_there() -> None:
    project = together(k__pod=pod('command: [bash, /scripts/run/go.sh, "80"]'), k__cfg=MAP)
    (found,) = project.plans
    for field, after in (
        ("tp", MAP.replace("l-size 4", "l-size 2")),
        ("pp", MAP.replace("l-size 4", "l-size 4 --pipeline-parallel-size 2")),
    ):
        edits = found.sites[field].set("2")
        assert not isinstance(edits, Refusal)
        assert apply(MAP, edits) == after


def test_the_config_map_of_the_same_folder_is_meant() -> None:
    other = MAP.replace("tensor-parallel-size: 4", "tensor-parallel-size: 2")
    command = pod("args: [org/m, --config, /etc/vllm/serve.yaml]")
    (found,) = together(k__pod=command, k__cfg=MAP, l__cfg=other).plans
    assert reading.stated(found, "tp") == 4
    (found,) = together(k__pod=command, l__cfg=MAP, m__cfg=other).plans
    assert reading.stated(found, "tp") is None
    assert "holds more options" in (found.open_ended or "")


def test_a_config_map_of_another_namespace_is_not_meant() -> None:
    command = pod("args: [org/m, --config, /etc/vllm/serve.yaml]")
    theirs = MAP.replace("{name: cfg}", "{name: cfg, namespace: a}", 1)
    ours = command.replace("{name: a}", "{name: a, namespace: b}", 1)
    (found,) = together(pod=ours, cfg=theirs).plans
    assert reading.stated(found, "tp") is None


def test_a_change_of_the_config_map_is_seen() -> None:
    project = together(pod=pod("args: [org/m, --config, /etc/vllm/serve.yaml]"), cfg=MAP)
    project = project.update("cfg.yaml", MAP.replace("-size: 4", "-size: 2"))
    assert [reading.stated(found, "tp") for found in project.plans] == [2]


@pytest.mark.parametrize(
    "command",
    [
        "command: [bash, /other/go.sh]",
        "command: [bash, /scripts]",
        "command: [bash, /scripts/start.sh]",
        "command: [python3, /scripts/run/go.sh]",
        "args: [--config, /scripts/run/go.sh]",
    ],
)
def test_what_is_not_mounted_there_is_not_read(command: str) -> None:
    text = f"{MAP}---\n{pod(command)}"
    for found in reading.plans(text, "a.yaml"):
        assert reading.stated(found, "tp") is None


@pytest.mark.parametrize(
    "damage",
    [
        ("data:", "data: 5 #"),
        ("serve.yaml: |", "serve.yaml: [a] #"),
        ("    tensor-parallel-size: 4", "   - tensor: [\n"),
        ("volumes:", "volumes: {a: b}\n  more:"),
        ("volumeMounts:", "volumeMounts: 7\n    more:"),
        ("items: [", "items: ["),
        ("{name: cfg, items", "{name: [cfg], items"),
    ],
)
def test_odd_input_is_survived(damage: tuple[str, str]) -> None:
    text = f"{MAP}---\n{pod('args: [org/m, --config, /etc/vllm/serve.yaml]')}".replace(*damage)
    assert reading.project(text, "a.yaml").broken == ()


def test_a_script_that_runs_itself_ends() -> None:
    text = MAP.replace("exec vllm serve org/m", "/scripts/run/go.sh; vllm serve org/m")
    project = reading.project(f"{text}---\n{pod('command: [/scripts/run/go.sh]')}", "a.yaml")
    assert project.broken == () and len(project.plans) >= 1
