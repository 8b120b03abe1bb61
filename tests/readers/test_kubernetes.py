"""Kubernetes objects: which containers serve, with which words, devices, labels and copies."""

from __future__ import annotations

import json

import pytest
from readers import reading
from readers.reading import (
    at,
    block,
    edited,
    fact,
    plan,
    plans,
    refused,
    routers,
    stated,
    token,
    why,
)
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.source import Span

FILE = "pod.yaml"

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llm, namespace: ml}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.11.2
"""


def pod(container: str, spec: str = "") -> str:
    """A pod with more keys of its container and of its spec."""
    return POD + block(container, 4) + block(spec, 2)


def workload(kind: str, container: str, spec: str = "") -> str:
    """A workload with one container, and more keys of its spec."""
    group = "batch" if kind in ("Job", "CronJob") else "apps"
    return (
        f"apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: llm}}\nspec:\n"
        + block(spec, 2)
        + "  template:\n    metadata:\n      labels: {app: llm}\n    spec:\n      containers:\n"
        + "      - name: vllm\n        image: vllm/vllm-openai:v0.11.2\n"
        + block(container, 8)
    )


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


def argv(of: ServingPlan) -> list[str | None]:
    return [word.value for word in of.argv]


# objects


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"])
def test_a_pod_template_is_found(kind: str) -> None:
    found = read(workload(kind, 'args: [--model, org/m, -tp, "4"]'))
    assert (kind, "llm/vllm", 4) == (found.kind, found.name, stated(found, "tp"))
    assert "0:/spec/template/spec/containers/0" == found.path


def test_a_pod_is_found() -> None:
    found = read(pod("args: [--model, org/m]"))
    assert ("Pod", "ml/llm/vllm", "ml") == (found.kind, found.name, found.namespace)
    assert "0:/spec/containers/0" == found.path


def test_a_cron_job_is_found() -> None:
    text = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  jobTemplate:
    spec:
      template:
        metadata: {labels: {app: llm}}
        spec:
          containers:
          - {image: vllm/vllm-openai, args: [--model, org/m]}
"""
    found = read(text)
    assert "0:/spec/jobTemplate/spec/template/spec/containers/0" == found.path
    assert {"app": "llm"} == found.labels


def test_documents_are_counted() -> None:
    text = "---\n# nothing\n---\nkind: ConfigMap\napiVersion: v1\n---\n" + pod(
        "args: [--model, o/m]"
    )
    assert "2:/spec/containers/0" == read(text).path


def test_the_items_of_a_list_are_objects() -> None:
    items = [json.loads(json.dumps(OBJECT)), {"kind": "ConfigMap"}, OBJECT]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
    found = plans(text, "all.json")
    assert ["0:/items/0/spec/containers/0", "0:/items/2/spec/containers/0"] == [
        item.path for item in found
    ]


def test_the_items_of_a_list_of_one_kind_are_objects() -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [OBJECT]})
    assert "0:/items/0/spec/containers/0" == plan(text, "all.json").path


OBJECT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "llm"},
    "spec": {
        "containers": [
            {
                "image": "vllm/vllm-openai:v0.11.2",
                "args": ["--model", "org/m", "--tensor-parallel-size", "4"],
                "resources": {"limits": {"nvidia.com/gpu": 4}},
            }
        ]
    },
}


@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_read_with_places(indent: int | None) -> None:
    text = json.dumps(OBJECT, indent=indent)
    found = plan(text, "pod.json")
    assert 4 == stated(found, "tp") == stated(found, "gpus_per_pod")
    assert "4" == token(text, found, "tp")
    assert text.index('"4"') + 1 == fact(found, "tp").origin.span.start  # type: ignore[union-attr]
    assert text.replace('"4"', '"2"') == edited(text, found, "tp", "2")
    assert text.replace('gpu": 4', 'gpu": 2') == edited(text, found, "gpus_per_pod", "2")


def test_yaml_in_braces_is_read() -> None:
    text = (
        "{apiVersion: v1, kind: Pod, spec: {containers: [{image: vllm/vllm-openai, "
        "args: [--model, org/m, -tp=2]}]}}"
    )
    assert 2 == stated(read(text), "tp")


@pytest.mark.parametrize("group", ["serving.knative.dev/v1", "example.com/v1"])
def test_a_kind_of_another_group_is_no_workload(group: str) -> None:
    text = workload("Deployment", "args: [--model, org/m]").replace("apps/v1", group)
    assert () == plans(text, FILE)


def test_a_pod_spec_alone_is_a_fragment() -> None:
    text = "containers:\n- image: vllm/vllm-openai\n  args: [--model, org/m, -tp, '2']\n"
    assert ("k8s-fragment", 2) == (read(text).kind, stated(read(text), "tp"))


def test_a_container_alone_is_a_fragment() -> None:
    text = (
        "image: vllm/vllm-openai\nargs: [--model, org/m]\n"
        "resources:\n  limits: {nvidia.com/gpu: 8}\n"
    )
    assert ("k8s-fragment", 8) == (read(text).kind, stated(read(text), "gpus_per_pod"))


def test_containers_that_start_first_are_left_out() -> None:
    spec = """\
    initContainers:
    - name: load
      image: vllm/vllm-openai
      args: [--model, org/other]
    """
    assert "org/m" == stated(read(pod("args: [--model, org/m]", spec)), "model")


def test_a_sidecar_that_is_no_engine_is_left_out() -> None:
    spec = (
        "- name: router\n  image: ghcr.io/llm-d/llm-d-routing-sidecar:v0.2\n  args: [--port=8000]\n"
    )
    text = pod("args: [--model, org/m]") + block(spec, 2)
    assert "ml/llm/vllm" == read(text).name


def test_two_engines_in_one_pod_are_two_plans() -> None:
    more = "- name: second\n  image: vllm/vllm-openai\n  args: [--model, org/n]\n"
    found = plans(pod("args: [--model, org/m]") + block(more, 2), FILE)
    assert ["org/m", "org/n"] == [stated(item, "model") for item in found]


def test_go_templates_are_skipped_with_a_reason() -> None:
    text = "kind: Pod\n{{- if .Values.gpu }}\nspec: {}\n{{- end }}\n"
    assert (("pod.yaml", "a Go template"),) == reading.project(text, FILE).skipped


def test_a_manifest_that_does_not_parse_is_a_problem_with_a_place() -> None:
    text = pod("args: [--model, org/m\nports: []")
    (problem,) = reading.project(text, FILE).problems
    assert text.index("args") < problem.origin.span.start


# command lines


def test_command_and_arguments_are_one_line() -> None:
    found = read(pod("command: [vllm, serve]\nargs: [org/m, --tensor-parallel-size=8]"))
    assert ["vllm", "serve", "org/m", "--tensor-parallel-size=8"] == argv(found)
    assert ("org/m", 8) == (stated(found, "model"), stated(found, "tp"))


def test_arguments_alone_go_to_the_image() -> None:
    assert 8 == stated(read(pod("args: [org/m, --tensor-parallel-size=8]")), "tp")


def test_a_command_of_its_own_is_not_the_images() -> None:
    assert () == plans(pod("command: [sleep, infinity]\nargs: [--model, org/m, -tp, '8']"), FILE)


def test_an_empty_command_is_the_images() -> None:
    assert 8 == stated(read(pod("command: []\nargs: [--model, org/m, -tp, '8']")), "tp")


def test_an_item_on_a_line_has_its_place() -> None:
    text = pod("""\
    args:
    - --model
    - org/m
    - --tensor-parallel-size  # as many as there are
    - "8"
    """)
    assert "8" == token(text, read(text), "tp")
    assert "org/m" == token(text, read(text), "model")


def test_an_inline_value_has_its_place() -> None:
    text = pod('args: [--model=org/m, "--tensor-parallel-size=8"]')
    assert "8" == token(text, read(text), "tp")


@pytest.mark.parametrize("size", ["8", '"8"', "'8'"])
def test_a_number_may_be_quoted(size: str) -> None:
    text = pod(f"args:\n- --model=org/m\n- -tp\n- {size}")
    assert 8 == stated(read(text), "tp")
    assert "8" == token(text, read(text), "tp")


SCRIPTS = [
    "|\n  export A=1\n  vllm serve org/m \\\n    --tensor-parallel-size 8 \\\n    --port 80\n",
    "|-\n  exec vllm serve org/m --tensor-parallel-size 8",
    ">-\n  vllm serve org/m\n  --tensor-parallel-size 8\n",
    ">\n  cd /work &&\n  vllm serve org/m\n  --tensor-parallel-size 8 > log 2>&1\n",
    '"vllm serve org/m \\\n  --tensor-parallel-size 8"',
    '"echo \\"hi\\"; vllm serve org/m --tensor-parallel-size 8"',
    "'echo ''hi''; vllm serve org/m --tensor-parallel-size 8'",
    "vllm serve org/m\n  --tensor-parallel-size 8",
]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("shell", ["[sh, -c]", "[/bin/bash, -lc]", "[tini, --, sh, -ec]"])
def test_a_script_is_read_with_places(shell: str, script: str) -> None:
    text = pod(f"command: {shell}\nargs:\n- {script}")
    found = read(text)
    assert ("org/m", 8) == (stated(found, "model"), stated(found, "tp"))
    assert "8" == token(text, found, "tp")
    assert "org/m" == token(text, found, "model")
    assert text.replace("size 8", "size 2") == edited(text, found, "tp", "2")


def test_a_script_in_place_of_a_list_is_read() -> None:
    text = pod("command: [sh, -c]\nargs: |\n  vllm serve org/m -tp 8\n")
    assert 8 == stated(read(text), "tp")


def test_all_arguments_of_a_script_are_its_own() -> None:
    text = pod("""\
    command: [bash, -c, 'exec vllm serve "$@"', --]
    args:
    - org/m
    - --tensor-parallel-size
    - "8"
    """)
    found = read(text)
    assert ("org/m", 8) == (stated(found, "model"), stated(found, "tp"))
    assert '- "2"' in edited(text, found, "tp", "2")


def test_a_numbered_argument_of_a_script_is_its_own() -> None:
    text = pod("command: [bash, -c, 'vllm serve $1 -tp $2', serve, org/m, '8']")
    assert ("org/m", 8) == (stated(read(text), "model"), stated(read(text), "tp"))


def test_branches_that_say_the_same_are_one_plan() -> None:
    text = pod("""\
    command: [sh, -c]
    args:
    - |
      if [ "$RANK" = 0 ]; then
        vllm serve org/m -tp 8
      else
        vllm serve org/m -tp 8 --headless
      fi
    """)
    found = read(text)
    assert text.replace("-tp 8", "-tp 2") == edited(text, found, "tp", "2")
    assert text.replace("-tp 8", "-tp 8 -pp 2") == edited(text, found, "pp", "2")


def test_branches_that_differ_are_plans_with_ids_of_their_own() -> None:
    text = pod("""\
    command: [sh, -c]
    args:
    - |
      if [ -n "$BIG" ]; then vllm serve org/m -tp 8; else vllm serve org/n; fi
    """)
    found = plans(text, FILE)
    assert ["pod.yaml#0:/spec/containers/0", "pod.yaml#0:/spec/containers/0#2"] == [
        item.id for item in found
    ]


def test_a_branch_with_an_unknown_size_is_a_plan_of_its_own() -> None:
    text = pod("""\
    command: [sh, -c]
    args:
    - |
      if [ -n "$TP" ]; then vllm serve org/m -tp "$TP"; else vllm serve org/m; fi
    """)
    first, second = plans(text, FILE)
    assert why(first, "tp")
    assert fact(second, "tp").is_unset


def test_a_command_that_only_hands_on_its_arguments_is_open() -> None:
    found = read(pod("""command: [bash, -c, 'exec vllm serve org/m "$@"', --]\nargs: [$(MORE)]"""))
    assert "org/m" == stated(found, "model")


# variables


def env(*rows: str) -> str:
    return "env:\n" + "".join(f"- {row}\n" for row in rows)


def test_a_variable_of_the_container_is_expanded() -> None:
    text = pod(
        env('{name: TP, value: "8"}') + "args: [--model, org/m, --tensor-parallel-size, $(TP)]"
    )
    found = read(text)
    assert 8 == stated(found, "tp")
    assert "$(TP)" == token(text, found, "tp")
    assert ["8"] == [at(text, origin) for origin in fact(found, "tp").related]


def test_a_variable_is_edited_where_it_is_set() -> None:
    text = pod(
        env('{name: TP, value: "8"}') + "args: [--model, org/m, --tensor-parallel-size, $(TP)]"
    )
    assert text.replace('"8"', '"2"') == edited(text, read(text), "tp", "2")


def test_a_variable_with_text_beside_it_is_not_edited() -> None:
    text = pod(
        env('{name: TP, value: "8"}') + "args: [--model, org/m, --tensor-parallel-size=$(TP)]"
    )
    assert 8 == stated(read(text), "tp")
    assert "put together elsewhere" in refused(read(text), "tp")


def test_a_variable_that_feeds_two_options_is_not_edited() -> None:
    text = pod(env('{name: N, value: "8"}') + "args: [--model, org/m, -tp, $(N), -dp, $(N)]")
    assert "is read there too" in refused(read(text), "tp")


def test_variables_are_expanded_in_variables_that_follow() -> None:
    rows = "{name: ORG, value: org}", "{name: MODEL, value: $(ORG)/m}", "{name: LATE, value: $(TP)}"
    text = pod(env(*rows) + "args: [--model, $(MODEL)]")
    assert "org/m" == stated(read(text), "model")


def test_a_variable_that_is_set_later_is_not_expanded() -> None:
    rows = "{name: MODEL, value: $(ORG)/m}", "{name: ORG, value: org}"
    text = pod(env(*rows) + "args: [--model, $(MODEL)]")
    assert "'$(ORG)/m' is filled in elsewhere" == why(read(text), "model")


def test_the_last_value_of_a_variable_counts() -> None:
    text = pod(env('{name: A, value: "1"}', '{name: A, value: "2"}') + "args: [org/m, -tp, $(A)]")
    assert 2 == stated(read(text), "tp")


def test_a_variable_without_a_value_is_empty() -> None:
    text = pod(env("{name: A}") + "args: [org/m$(A), -tp, '2']")
    assert "org/m" == stated(read(text), "model")


def test_a_variable_from_another_object_is_unknown() -> None:
    row = "{name: TP, valueFrom: {configMapKeyRef: {name: c, key: tp}}}"
    text = pod(env(row) + "args: [--model, org/m, --tensor-parallel-size, $(TP), --port, '80']")
    found = read(text)
    assert "TP comes from another object" == why(found, "tp")
    assert "org/m" == stated(found, "model")
    assert not found.open_ended


@pytest.mark.parametrize("item", ["$(TP)", '"$(TP)"', "'$(TP)'"])
def test_an_unknown_item_of_a_list_is_one_word(item: str) -> None:
    row = "{name: TP, valueFrom: {fieldRef: {fieldPath: x}}}"
    found = read(pod(env(row) + f"args:\n- org/m\n- --tensor-parallel-size\n- {item}\n"))
    assert None is found.open_ended
    assert why(found, "tp")


def test_a_variable_that_is_not_set_stays_as_it_is_written() -> None:
    text = pod("envFrom: [{configMapRef: {name: c}}]\nargs: [--model, $(MODEL), -tp, $(TP)]")
    assert "'$(MODEL)' is filled in elsewhere" == why(read(text), "model")
    assert why(read(text), "tp")


def test_two_dollars_are_one() -> None:
    text = pod(env('{name: TP, value: "8"}') + "args: [org/m, --served-model-name, $$(TP)]")
    assert "$(TP)" == argv(read(text))[-1]


def test_two_dollars_before_a_command_are_for_the_shell() -> None:
    script = "vllm serve org/$$(cat name) -tp 2"
    found = read(pod(f"command: [sh, -c, '{script}']"))
    assert not fact(found, "model").is_known
    assert 2 == stated(found, "tp")


def test_braces_are_for_the_shell() -> None:
    text = pod(env('{name: TP, value: "8"}') + "args: [org/m, -tp, '${TP}']")
    assert "'${TP}' is not a whole number" == why(read(text), "tp")


def test_the_shell_expands_variables_of_the_container() -> None:
    text = pod(env('{name: TP, value: "8"}') + "command: [sh, -c, 'vllm serve org/m -tp ${TP}']")
    assert 8 == stated(read(text), "tp")
    assert text.replace('"8"', '"2"') == edited(text, read(text), "tp", "2")


def test_a_script_expands_what_kubernetes_left_over() -> None:
    text = pod(
        env('{name: TP, value: "8"}') + "command: [sh, -c, 'N=$(TP); vllm serve org/m -tp $N']"
    )
    assert 8 == stated(read(text), "tp")


def test_an_unknown_variable_in_a_script_is_unknown() -> None:
    row = "{name: TP, valueFrom: {secretKeyRef: {name: s, key: k}}}"
    text = pod(env(row) + 'command: [sh, -c, "vllm serve org/m -tp \\"$(TP)\\" --port 80"]')
    assert "TP comes from another object" == why(read(text), "tp")
    assert None is read(text).open_ended


def test_an_unknown_bare_word_in_a_script_can_be_many() -> None:
    row = "{name: MORE, valueFrom: {secretKeyRef: {name: s, key: k}}}"
    text = pod(env(row) + 'command: [sh, -c, "vllm serve org/m $(MORE)"]')
    assert "MORE comes from another object" == read(text).open_ended


def test_private_use_characters_of_the_file_are_not_taken_for_holes() -> None:
    text = pod(env("{name: M, value: '\ue000'}") + "args: [--model, $(M), -tp, '2']")
    assert "it holds a private-use character" == why(read(text), "model")
    assert 2 == stated(read(text), "tp")


def test_variables_that_multiply_are_not_expanded_for_ever() -> None:
    rows = ["{name: A0, value: 'xxxxxxxxxx'}"]
    rows += [f"{{name: A{n}, value: '{f'$(A{n - 1})' * 10}'}}" for n in range(1, 30)]
    found = read(pod(env(*rows) + "args: [--model, org/m, -tp, $(A29)]"))
    assert "expands to more than" in (why(found, "tp") or "")


def test_a_mistyped_value_of_a_variable_is_unknown() -> None:
    text = pod(env("{name: TP, value: {a: b}}") + "args: [org/m, -tp, $(TP)]")
    assert "a map where a scalar is expected" == why(read(text), "tp")


# devices


def limits(resources: str, args: str = "args: [--model, org/m]") -> str:
    return pod(args + "\nresources:\n" + block(resources, 2))


@pytest.mark.parametrize("number", ["8", '"8"', "'8'", "!!str 8", "&n 8"])
def test_limits_count_devices(number: str) -> None:
    text = limits(f"limits:\n  cpu: 4\n  nvidia.com/gpu: {number}\n")
    assert 8 == stated(read(text), "gpus_per_pod")
    assert "8" == token(text, read(text), "gpus_per_pod")


def test_a_blank_before_the_colon_changes_nothing() -> None:
    assert 2 == stated(read(limits("limits: {nvidia.com/gpu : 2}")), "gpus_per_pod")


def test_a_quoted_key_is_a_key() -> None:
    assert 2 == stated(read(limits('limits: {"nvidia.com/gpu": 2}')), "gpus_per_pod")


def test_requests_count_where_there_are_no_limits() -> None:
    assert 2 == stated(read(limits("requests: {nvidia.com/gpu: 2}")), "gpus_per_pod")


def test_limits_and_requests_are_set_together() -> None:
    text = limits('limits:\n  nvidia.com/gpu: "2"\nrequests:\n  nvidia.com/gpu: 2\n')
    after = text.replace('"2"', '"4"').replace("gpu: 2", "gpu: 4")
    assert after == edited(text, read(text), "gpus_per_pod", "4")


@pytest.mark.parametrize(
    "resource",
    [
        "amd.com/gpu",
        "habana.ai/gaudi",
        "google.com/tpu",
        "huawei.com/ascend-1980",
        "NVIDIA.com/gpu",
        "huawei.com/Ascend910B3",
        "aws.amazon.com/neuroncore",
        "volcano.sh/vgpu-number",
        "hygon.com/dcunum",
        "iluvatar.ai/BI-V150-vgpu",
        "rebellions.ai/ATOM",
    ],
)
def test_devices_of_other_vendors_count(resource: str) -> None:
    assert 4 == stated(read(limits(f"limits: {{{resource}: 4}}")), "gpus_per_pod")


@pytest.mark.parametrize(
    ("resource", "why"),
    [
        ("aws.amazon.com/neuron", "a Neuron device has several cores"),
        ("aws.amazon.com/neurondevice", "a Neuron device has several cores"),
        ("nvidia.com/gpu.shared", "several shares can be of one card"),
    ],
)
def test_units_that_are_no_ranks_are_stated_and_not_counted(resource: str, why: str) -> None:
    text = limits(f"limits: {{{resource}: 4}}")
    found = read(text)
    assert 4 == stated(found, "gpus_per_pod")
    assert "4" == token(text, found, "gpus_per_pod")
    assert not found.placement.devices.is_known
    assert why in (found.placement.devices.reason or "")
    assert text.replace(": 4}", ": 8}") == edited(text, found, "gpus_per_pod", "8")


def test_one_share_is_one_device() -> None:
    found = read(limits("limits: {nvidia.com/gpu.shared: 1}")).placement
    assert (1, "shared") == (found.devices.only, found.device_kind.only)


def test_units_of_other_makers_are_taken_for_devices() -> None:
    found = fact(read(limits("limits: {gpu.intel.com/i915: 2}")), "gpus_per_pod")
    assert (2, {"each gpu.intel.com/i915 is one device"}) == (found.only, set(found.assumes))


@pytest.mark.parametrize(
    "beside", ["gpu.intel.com/memory.max: 4G", "gpu.intel.com/millicores: 500"]
)
def test_parts_of_a_card_beside_it_make_a_share(beside: str) -> None:
    found = read(limits(f"limits: {{gpu.intel.com/i915: 1, {beside}}}")).placement
    assert (1, "shared") == (found.gpus_per_pod.only, found.device_kind.only)
    assert ["gpu.intel.com/i915"] == list(found.asked)


@pytest.mark.parametrize("value", ["${GPUS}", "x", "1.5", '"{{ .Values.gpus }}"', "0x2", "{a: b}"])
def test_a_number_that_is_filled_in_elsewhere_is_unknown(value: str) -> None:
    found = read(limits(f"limits:\n  nvidia.com/gpu: {value}\n"))
    assert why(found, "gpus_per_pod")
    assert "gpus_per_pod" not in found.sites


def test_no_devices_at_all_are_unset() -> None:
    assert fact(read(limits("limits: {cpu: 4, memory: 8Gi}")), "gpus_per_pod").is_unset


def test_a_mig_slice_is_a_device_with_a_name() -> None:
    text = limits("limits: {nvidia.com/mig-3g.40gb: 2}")
    found = read(text)
    assert (2, "mig-3g.40gb") == (stated(found, "gpus_per_pod"), stated(found, "gpu_type"))
    assert "nvidia.com/mig-3g.40gb" == token(text, found, "gpu_type")


def test_devices_of_two_kinds_do_not_add_up() -> None:
    found = read(limits("limits: {nvidia.com/gpu: 1, nvidia.com/mig-1g.5gb: 2}"))
    assert "nvidia.com/gpu and nvidia.com/mig-1g.5gb do not add up" == why(found, "gpus_per_pod")


def test_a_claim_does_not_say_how_many() -> None:
    found = read(limits("claims: [{name: gpu}]"))
    assert "the devices come from a resource claim" == why(found, "gpus_per_pod")


def test_a_claim_beside_devices_is_for_something_else() -> None:
    assert 8 == stated(
        read(limits("claims: [{name: nic}]\nlimits: {nvidia.com/gpu: 8}")), "gpus_per_pod"
    )


@pytest.mark.parametrize(
    ("variable", "count"),
    [
        ("CUDA_VISIBLE_DEVICES", 2),
        ("HIP_VISIBLE_DEVICES", 2),
        ("ROCR_VISIBLE_DEVICES", 2),
        ("NVIDIA_DRIVER_CAPABILITIES", 8),
    ],
)
def test_a_variable_hides_devices(variable: str, count: int) -> None:
    row = f'{{name: {variable}, value: "0,1"}}'
    found = read(limits("limits: {nvidia.com/gpu: 8}", env(row) + "args: [--model, org/m]"))
    assert count == stated(found, "gpus_per_pod")


def test_more_visible_devices_than_there_are_give_no_more() -> None:
    row = '{name: CUDA_VISIBLE_DEVICES, value: "0,1,2,3"}'
    found = read(limits("limits: {nvidia.com/gpu: 2}", env(row) + "args: [--model, org/m]"))
    assert 2 == stated(found, "gpus_per_pod")
    assert "CUDA_VISIBLE_DEVICES chooses among the devices" == refused(found, "gpus_per_pod")


@pytest.mark.parametrize("value", ['""', '"-1"', "NoDevFiles"])
def test_a_variable_that_hides_everything_is_no_count(value: str) -> None:
    row = f"{{name: CUDA_VISIBLE_DEVICES, value: {value}}}"
    found = read(limits("limits: {nvidia.com/gpu: 2}", env(row) + "args: [--model, org/m]"))
    assert "CUDA_VISIBLE_DEVICES hides every device" == why(found, "gpus_per_pod")


def test_visible_devices_from_elsewhere_are_unknown() -> None:
    row = "{name: CUDA_VISIBLE_DEVICES, valueFrom: {fieldRef: {fieldPath: x}}}"
    found = read(limits("limits: {nvidia.com/gpu: 2}", env(row) + "args: [--model, org/m]"))
    assert "CUDA_VISIBLE_DEVICES comes from another object" == why(found, "gpus_per_pod")


def test_a_script_hides_devices_by_what_it_exports() -> None:
    args = "command: [sh, -c, 'export CUDA_VISIBLE_DEVICES=0,1; vllm serve org/m']"
    assert 2 == stated(read(limits("limits: {nvidia.com/gpu: 8}", args)), "gpus_per_pod")
    args = "command: [sh, -c, 'CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m']"
    assert 2 == stated(read(limits("limits: {nvidia.com/gpu: 8}", args)), "gpus_per_pod")
    args = "command: [env, 'CUDA_VISIBLE_DEVICES=0,1', vllm, serve, org/m]"
    assert 2 == stated(read(limits("limits: {nvidia.com/gpu: 8}", args)), "gpus_per_pod")


def test_a_variable_that_stays_in_the_shell_hides_nothing() -> None:
    args = "command: [sh, -c, 'CUDA_VISIBLE_DEVICES=0,1; vllm serve org/m']"
    assert 8 == stated(read(limits("limits: {nvidia.com/gpu: 8}", args)), "gpus_per_pod")


def test_an_image_for_cpus_wants_no_gpu() -> None:
    text = pod("args: [--model, org/m]").replace("vllm-openai:", "vllm-openai-cpu:")
    assert not read(text).placement.wants_gpu
    assert read(pod("args: [--model, org/m]")).placement.wants_gpu


# cards


def test_a_node_selector_names_the_card() -> None:
    spec = "nodeSelector:\n  zone: a\n  nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n"
    text = pod("args: [--model, org/m]", spec)
    found = read(text)
    assert "NVIDIA-H100-80GB-HBM3" == stated(found, "gpu_type") == token(text, found, "gpu_type")
    assert "H100-SXM-80GB" == found.placement.gpu.only.name  # type: ignore[union-attr]


AFFINITY = """\
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: cloud.google.com/gke-accelerator, operator: OPERATOR, values: VALUES}
"""


def affinity(operator: str, values: str) -> str:
    spec = AFFINITY.replace("OPERATOR", operator).replace("VALUES", values)
    return pod("args: [--model, org/m]", spec)


def test_an_affinity_names_the_card() -> None:
    assert "nvidia-l4" == stated(read(affinity("In", "[nvidia-l4]")), "gpu_type")


def test_an_affinity_to_several_cards_leaves_them_open() -> None:
    found = read(affinity("In", "[nvidia-l4, nvidia-h100-80gb]"))
    assert ("nvidia-l4", "nvidia-h100-80gb") == fact(found, "gpu_type").values
    assert ("L4", "H100-SXM-80GB") == tuple(card.name for card in found.placement.gpu.values)


@pytest.mark.parametrize(
    ("operator", "values"), [("NotIn", "[nvidia-l4]"), ("Exists", "[]"), ("In", "x")]
)
def test_an_affinity_without_a_card_says_nothing(operator: str, values: str) -> None:
    assert fact(read(affinity(operator, values)), "gpu_type").is_unset


def test_an_affinity_that_is_only_preferred_says_nothing() -> None:
    text = affinity("In", "[nvidia-l4]").replace("required", "preferred")
    assert fact(read(text), "gpu_type").is_unset


def test_terms_of_which_one_is_enough_say_nothing() -> None:
    text = affinity("In", "[nvidia-l4]") + block("- matchExpressions: []", 8)
    assert fact(read(text), "gpu_type").is_unset


def test_a_label_that_is_filled_in_elsewhere_says_nothing() -> None:
    spec = "nodeSelector: {nvidia.com/gpu.product: '${GPU}'}"
    assert fact(read(pod("args: [--model, org/m]", spec)), "gpu_type").is_unset


# copies


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_replicas_are_read(kind: str) -> None:
    text = workload(kind, "args: [--model, org/m]", "replicas: 3")
    assert 3 == stated(read(text), "replicas")
    assert "3" == token(text, read(text), "replicas")


def test_replicas_that_are_not_stated_are_unset() -> None:
    assert fact(read(workload("Deployment", "args: [--model, org/m]")), "replicas").is_unset
    assert fact(read(pod("args: [--model, org/m]", "replicas: 3")), "replicas").is_unset


NODES = 'args: [--model, org/m, --nnodes, "2", -tp, "16"]'


def test_the_pods_of_a_stateful_set_are_the_nodes_of_an_engine() -> None:
    found = read(workload("StatefulSet", NODES, "replicas: 4"))
    assert (2, 2) == (stated(found, "nodes"), stated(found, "replicas"))


def test_pods_that_make_no_whole_groups_are_no_replicas() -> None:
    found = read(workload("StatefulSet", NODES, "replicas: 3"))
    assert "3 pods are no groups of 2" == why(found, "replicas")


def test_the_pods_of_a_deployment_are_no_group() -> None:
    assert 4 == stated(read(workload("Deployment", NODES, "replicas: 4")), "replicas")


def test_a_ray_cluster_joins_more_than_one_pod() -> None:
    script = "'ray start --head; vllm serve org/m -tp 16'"
    text = pod(f"command: [bash, -c, {script}]\nresources: {{limits: {{nvidia.com/gpu: 8}}}}")
    found = read(text.replace("v0.11.2", "v0.10.2"))
    assert "`ray start` starts a cluster that joins several hosts" == why(found, "nodes")
    assert 8 == stated(found, "gpus_per_pod")
    assert 1 == fact(read(text), "nodes").only  # it does not use the cluster unasked


# suppressions

BAD = 'args: [--model, Qwen/Qwen2.5-7B-Instruct, --tensor-parallel-size, "8"]'


def found_in(text: str) -> list[str]:
    return reading.names(lint(reading.project(text, FILE)).result.findings)


def test_an_annotation_of_the_object_suppresses() -> None:
    text = workload("Deployment", BAD)
    assert "tp-heads-indivisible" in found_in(text)
    note = '{name: llm, annotations: {shardlint/ignore: "SL101: tried and measured"}}'
    assert "tp-heads-indivisible" not in found_in(text.replace("{name: llm}", note))


def test_an_annotation_of_the_pod_template_suppresses() -> None:
    note = "annotations: {shardlint/ignore: tp-heads-indivisible}"
    text = workload("Deployment", BAD).replace("labels: {app: llm}", note)
    assert "tp-heads-indivisible" not in found_in(text)


def test_an_annotation_of_the_template_of_a_cron_job_suppresses() -> None:
    text = """\
apiVersion: batch/v1
kind: CronJob
spec:
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {shardlint/ignore: "SL101, SL102"}}
        spec:
          containers:
          - image: vllm/vllm-openai
            ARGS
""".replace("ARGS", BAD)
    assert {"SL101", "SL102"} == read(text).suppressed.keys()
    assert "tp-heads-indivisible" not in found_in(text)


def test_an_annotation_of_another_object_does_not_suppress() -> None:
    other = POD.replace("namespace: ml", "annotations: {shardlint/ignore: SL101}")
    assert "tp-heads-indivisible" in found_in(workload("Deployment", BAD) + "---\n" + other)


def test_a_comment_suppresses_where_the_object_starts() -> None:
    comment = "# shardlint: ignore[SL101] measured\n"
    assert "tp-heads-indivisible" not in found_in(comment + workload("Deployment", BAD))


def test_a_comment_suppresses_where_the_container_starts() -> None:
    text = pod(BAD).replace("  - name: vllm", "  - name: vllm  # shardlint: ignore[SL101]")
    assert "tp-heads-indivisible" not in found_in(text)


def test_a_comment_suppresses_at_the_key_that_opens_a_script() -> None:
    script = (
        "command: [sh, -c]\nargs:\n- |  # shardlint: ignore[SL101]\n  cd /\n"
        "  vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\n"
    )
    assert "tp-heads-indivisible" not in found_in(pod(script))
    assert "tp-heads-indivisible" in found_in(pod(script.replace("SL101", "SL102")))


# routers

SERVICE = """\
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: NAMESPACE}
spec:
  selector: {app: llm}
"""


def test_a_service_is_a_blind_router() -> None:
    text = SERVICE.replace("NAMESPACE", "ml")
    (router,) = routers(text, "svc.yaml")
    assert ("service", "ml/front", "kubernetes-service") == (
        router.kind,
        router.name,
        router.policy.only,
    )
    assert (frozenset(), False) == (router.awareness, router.explicit)
    assert "front" == at(text, router.origin)


def test_a_sticky_service_looks_at_the_session() -> None:
    text = SERVICE + "  sessionAffinity: ClientIP\n"
    (router,) = routers(text, "svc.yaml")
    assert (frozenset({"session"}), True) == (router.awareness, router.explicit)


@pytest.mark.parametrize("selector", ["", "  selector: {}\n", "  selector:\n"])
def test_a_service_without_a_selector_is_no_router(selector: str) -> None:
    text = SERVICE.replace("  selector: {app: llm}\n", selector) + "  type: ExternalName\n"
    assert () == routers(text, "svc.yaml")


def test_a_service_of_knative_is_no_router() -> None:
    text = SERVICE.replace("apiVersion: v1", "apiVersion: serving.knative.dev/v1")
    assert () == routers(text, "svc.yaml")


@pytest.mark.parametrize(("namespace", "behind"), [("ml", 1), ("other", 0)])
def test_a_service_finds_the_pods_of_its_namespace(namespace: str, behind: int) -> None:
    workloads = workload("Deployment", "args: [--model, org/m]").replace(
        "{name: llm}", "{name: llm, namespace: ml}"
    )
    (router,) = routers(workloads + SERVICE.replace("NAMESPACE", namespace), FILE)
    assert behind == len(router.backends)


@pytest.mark.parametrize(
    ("version", "selector"),
    [
        ("inference.networking.k8s.io/v1", "{matchLabels: {app: llm}}"),
        ("inference.networking.x-k8s.io/v1alpha2", "{app: llm}"),
    ],
)
def test_an_inference_pool_looks_at_prefix_and_load(version: str, selector: str) -> None:
    text = (
        f"apiVersion: {version}\nkind: InferencePool\nmetadata: {{name: p}}\n"
        f"spec: {{selector: {selector}}}\n"
    )
    (router,) = routers(text, "pool.yaml")
    assert (frozenset({"prefix", "load"}), {"app": "llm"}) == (
        router.awareness,
        dict(router.selector),
    )


# wrong types


@pytest.mark.parametrize(
    "container",
    [
        "args: {a: b}",
        "args: 5",
        "args: [[--model], {a: b}, null, 5]",
        "command: true",
        "env: {TP: 8}\nargs: [--model, org/m]",
        "env: [8, null, [x], {value: 8}]\nargs: [--model, org/m]",
        "resources: 8\nargs: [--model, org/m]",
        "resources: {limits: [8]}\nargs: [--model, org/m]",
        "image: [vllm/vllm-openai]\nargs: [--model, org/m, -tp, '2']",
        "name: {a: b}\nargs: [--model, org/m]",
    ],
)
def test_a_wrong_type_is_survived(container: str) -> None:
    assert () == reading.project(pod(container), FILE).broken


def test_an_item_that_is_no_word_is_unknown() -> None:
    found = read(pod("args: [--model, org/m, -tp, {a: 8}]"))
    assert "a map where a scalar is expected" == why(found, "tp")


def test_the_origin_of_a_plan_is_its_image() -> None:
    text = pod("args: [--model, org/m]")
    assert "vllm/vllm-openai:v0.11.2" == at(text, read(text).origin)
    assert Span(0, 0) != read(text).origin.span


def test_an_expression_that_is_yaml_by_chance_is_filled_in_elsewhere() -> None:
    text = pod("args: [--model, org/m]\nresources: {limits: {nvidia.com/gpu: {{ .Values.gpus }} }}")
    assert "'{{ .Values.gpus }}' is filled in elsewhere" == why(read(text), "gpus_per_pod")


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("tgi-cu121.2-1.ubuntu2204.py310", "2-1"),
        ("tgi-cu121.2-1.ubuntu2204.py310:v3", "v3"),
        ("huggingface-text-generation-inference-cu121.2-1.ubuntu2204.py310", "2-1"),
        ("huggingface-text-generation-inference", None),
    ],
)
def test_a_release_in_the_name_of_an_image(image: str, tag: str | None) -> None:
    from shardlint.engines.launchers import release_in_name, tag_of

    whole = f"us-docker.pkg.dev/deeplearning-platform-release/gcr.io/{image}"
    assert tag == (tag_of(whole) or release_in_name(whole))
    assert release_in_name(f"example.com/{image}") is None


def test_a_text_whose_lines_are_filled_in_is_skipped() -> None:
    text = "apiVersion: v1\nkind: Pod\nspec:\n${IMAGE_PULL_SECRETS_BLOCK}\n  containers: []\n"
    found = reading.project(text + "# vllm nvidia.com/gpu\n", "t.yaml")
    assert [("t.yaml", "a template")] == list(found.skipped)
    broken = text.replace("${IMAGE_PULL_SECRETS_BLOCK}", "oops")
    assert reading.project(broken, "t.yaml").problems
