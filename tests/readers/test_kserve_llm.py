"""LLMInferenceServices, their roles, groups, bases and schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent, indent

import pytest
from readers.reading import (
    a_setup,
    at,
    edited,
    fact,
    names,
    plan,
    plans,
    project,
    refused,
    routers,
    stated,
    token,
    why,
)
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.plugins import Finding
from shardlint.project import Project

NAME = "llm.yaml"
MAIN = """\
template:
  containers:
  - name: main
    resources: {limits: {nvidia.com/gpu: "2"}}
"""


def service(spec: str, *, name: str = "chat", notes: str = "", version: str = "v1alpha2") -> str:
    head = dedent(
        f"""\
        apiVersion: serving.kserve.io/{version}
        kind: LLMInferenceService
        metadata:
          name: {name}
        """
    )
    if notes:
        head += "  annotations:\n" + indent(dedent(notes), "    ")
    return head + "spec:\n" + indent(dedent(spec), "  ")


def qwen(spec: str, **more: str) -> str:
    return service("model: {uri: hf://Qwen/Qwen3-32B, name: qwen}\n" + dedent(spec), **more)


def findings(text: str) -> tuple[Finding, ...]:
    return fixes.with_fixes(lint(project(text, NAME))).findings


def run_of(texts: Mapping[str, str]) -> tuple[ServingPlan, ...]:
    found = Project.of_texts(a_setup(), texts)
    assert found.broken == ()
    return found.plans


# ------------------------------------------------------------------------------------ one node


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_a_service_on_one_node(version: str) -> None:
    text = qwen(f"replicas: 3\nparallelism: {{tensor: 2}}\n{MAIN}", version=version)
    found = plan(text, NAME)
    assert (found.engine, found.kind, found.role) == ("vllm", "LLMInferenceService", None)
    assert stated(found, "model") == "Qwen/Qwen3-32B"
    assert stated(found, "tp") == 2
    assert token(text, found, "tp") == "2"
    assert stated(found, "replicas") == 3
    assert stated(found, "gpus_per_pod") == 2
    assert found.tag.is_unset
    assert found.placement.shm_bytes.only == 2**30
    assert found.placement.shm_bytes.how == "derived"
    assert names(findings(text)) == ["routing-blind"]


def test_a_service_without_a_template_has_that_of_the_preset() -> None:
    found = plan(qwen("parallelism: {tensor: 2}\n"), NAME)
    assert stated(found, "tp") == 2
    assert fact(found, "gpus_per_pod").is_unset


WORDS = """\
template:
  containers:
  - name: main
    args: ["--max-num-seqs", "64 --block-size 32"]
    env:
    - {name: SIZE, value: "4"}
    - name: VLLM_ADDITIONAL_ARGS
      value: >-
        --max-model-len=8192 --tensor-parallel-size ${SIZE}
        --kv-transfer-config '{"kv_connector": "NixlConnector"}'
    resources: {limits: {nvidia.com/gpu: 4}}
"""


def test_words_of_the_variable_and_of_the_arguments_are_read_as_the_shell_does() -> None:
    text = qwen(f"parallelism: {{tensor: 2}}\n{WORDS}")
    found = plan(text, NAME)
    assert stated(found, "tp") == 4
    assert stated(found, "max_model_len") == 8192
    assert token(text, found, "max_model_len") == "8192"
    assert stated(found, "max_num_seqs") == 64
    assert stated(found, "block_size") == 32
    assert edited(text, found, "max_model_len", "4096") == text.replace("8192", "4096")
    (said,) = (item for item in findings(text) if item.name == "value-conflict")
    assert text[said.start.offset : said.end.offset] == "2"


def test_an_option_is_written_into_the_variable() -> None:
    text = qwen(
        """
        template:
          containers:
          - name: main
            env:
            - name: VLLM_ADDITIONAL_ARGS
              value: "--max-model-len 8192"
        """
    )
    found = plan(text, NAME)
    after = edited(text, found, "pp", "2")
    assert after == text.replace("8192", "8192 --pipeline-parallel-size 2")
    assert stated(plan(after, NAME), "pp") == 2


def test_an_option_is_written_into_arguments_that_are_not_there() -> None:
    text = qwen(MAIN)
    after = edited(text, plan(text, NAME), "max_model_len", "4096")
    assert after == text + '      args: ["--max-model-len=4096"]\n'
    assert stated(plan(after, NAME), "max_model_len") == 4096


def test_tensor_parallelism_is_written_under_its_key() -> None:
    text = qwen(MAIN)
    after = edited(text, plan(text, NAME), "tp", "2")
    assert after == text + "  parallelism:\n    tensor: 2\n"
    assert stated(plan(after, NAME), "tp") == 2
    text = qwen(f"parallelism:\n  expert: true\n{MAIN}")
    after = edited(text, plan(text, NAME), "tp", "2")
    assert after == text.replace("expert: true\n", "expert: true\n    tensor: 2\n")


def test_shared_memory_is_a_volume_by_the_name_of_the_preset() -> None:
    text = qwen(MAIN)
    after = edited(text, plan(text, NAME), "shm_bytes", str(16 * 2**30))
    again = plan(after, NAME)
    assert stated(again, "shm_bytes") == 16 * 2**30
    volumes = "  volumes:\n  - name: dshm\n    emptyDir: {medium: Memory, sizeLimit: 4Gi}\n"
    assert stated(plan(qwen(MAIN + volumes), NAME), "shm_bytes") == 4 * 2**30


def test_keys_that_one_node_does_not_read_are_told_of() -> None:
    text = qwen(f"parallelism: {{tensor: 2, data: 4, dataLocal: 4, expert: true}}\n{MAIN}")
    found = plan(text, NAME)
    assert fact(found, "dp").is_unset
    said = [item for item in findings(text) if item.name == "config-ignored"]
    marked = [text[item.start.offset : item.end.offset] for item in said]
    assert marked == ["data", "dataLocal", "expert"]
    assert {item.severity for item in said} == {"warning"}


def test_a_command_of_its_own_takes_the_place_of_the_presets() -> None:
    text = qwen(
        """
        parallelism: {tensor: 4}
        template:
          containers:
          - name: main
            image: vllm/vllm-openai:v0.12.0
            command: [vllm, serve, Qwen/Qwen3-8B]
            args: [--tensor-parallel-size, "2"]
            resources: {limits: {nvidia.com/gpu: 2}}
        """
    )
    found = plan(text, NAME)
    assert (stated(found, "tp"), stated(found, "model")) == (2, "Qwen/Qwen3-8B")
    said = [item for item in findings(text) if item.name == "config-ignored"]
    assert [text[item.start.offset : item.end.offset] for item in said] == ["tensor"]


def test_devices_that_an_annotation_claims() -> None:
    notes = """\
        serving.kserve.io/exp-dra-device-class: gpu.nvidia.com
        serving.kserve.io/exp-dra-device-count: "2"
        serving.kserve.io/exp-dra-cel-selector: |
          device.attributes['gpu.nvidia.com']['productName'] == 'NVIDIA-L40S'
        """
    text = qwen("template:\n  containers:\n  - name: main\n    env: []\n", notes=notes)
    found = plan(text, NAME)
    assert stated(found, "gpus_per_pod") == 2
    assert stated(found, "gpu_type") == "NVIDIA-L40S"
    assert token(text, found, "gpu_type") == "NVIDIA-L40S"
    assert [item.name for item in found.placement.gpu.values] == ["L40S"]
    assert edited(text, found, "gpus_per_pod", "4") == text.replace('count: "2"', 'count: "4"')
    other = text.replace("  annotations:", "  annotations:\n    serving.kserve.io/"
                         "exp-dra-container-name: other")  # fmt: skip
    assert why(plan(other, NAME), "gpus_per_pod") == "the devices are for container other"


# --------------------------------------------------------------------------------------- groups


def grouped(sizes: str, gpus: int = 8, more: str = "") -> str:
    main = f"containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]"
    return qwen(f"parallelism: {{{sizes}}}\ntemplate:\n  {main}\nworker:\n  {main}\n{more}")


def test_a_group_has_as_many_pods_as_data_needs() -> None:
    found = plan(grouped("data: 16, dataLocal: 8, expert: true", more="replicas: 2\n"), NAME)
    assert (stated(found, "dp"), stated(found, "dp_local")) == (16, 8)
    assert stated(found, "ep") is True
    assert stated(found, "nodes") == 2
    assert stated(found, "replicas") == 2
    assert found.placement.group_devices.only == 16
    assert found.placement.shm_bytes.only == 8 * 2**30
    assert "follows" in refused(found, "dp")


def test_a_group_that_is_too_small_is_found() -> None:
    text = grouped("tensor: 2, data: 1, dataLocal: 1", gpus=1)
    said = [item for item in findings(text) if item.severity == "error"]
    assert [item.name for item in said] == ["node-group-size-mismatch"]
    assert text[said[0].start.offset : said[0].end.offset] == "2"


def test_what_does_not_divide_leaves_ranks_without_a_pod() -> None:
    text = grouped("data: 12, dataLocal: 8")
    found = plan(text, NAME)
    assert stated(found, "nodes") == 1
    assert [item.name for item in findings(text) if item.severity == "error"] == [
        "node-group-size-mismatch"
    ]


def test_a_group_of_the_right_size_is_no_finding() -> None:
    text = grouped("tensor: 2, data: 8, dataLocal: 4")
    assert [item for item in findings(text) if item.severity != "info"] == []


def test_a_preset_for_pipelines_is_missing() -> None:
    text = grouped("tensor: 8, pipeline: 2")
    assert stated(plan(text, NAME), "nodes") == 2
    said = [item for item in findings(text) if item.name == "config-ignored"]
    assert [text[item.start.offset : item.end.offset] for item in said] == ["2"]
    own = dedent(
        """\
        ---
        apiVersion: serving.kserve.io/v1alpha2
        kind: LLMInferenceServiceConfig
        metadata: {name: kserve-config-llm-worker-pipeline-parallel}
        spec:
          template: {containers: [{name: main, command: [sh, -c, ./start.sh]}]}
        """
    )
    assert "config-ignored" not in names(findings(text + own))


@pytest.mark.parametrize(
    ("sizes", "key"),
    [
        ("tensor: 8", "worker"),
        ("data: 2, dataLocal: 1, pipeline: 2", "pipeline"),
        ("data: 2", "data"),
        ("dataLocal: 2", "dataLocal"),
        ("data: 0, dataLocal: 1", "data"),
    ],
)
def test_what_admission_refuses(sizes: str, key: str) -> None:
    text = grouped(sizes)
    said = [item for item in findings(text) if item.message.startswith("KServe refuses")]
    assert [text[item.start.offset : item.end.offset] for item in said] == [key]
    assert (said[0].name, said[0].severity) == ("flag-conflict", "error")


# ---------------------------------------------------------------------------------------- roles


def test_decode_and_prefill_are_two_plans() -> None:
    one = indent(MAIN.replace('"2"', '"1"'), "  ")
    prefilling = f"prefill:\n  replicas: 4\n  parallelism: {{tensor: 1}}\n{one}"
    text = qwen(f"replicas: 1\nparallelism: {{tensor: 2}}\n{MAIN}{prefilling}")
    decode, prefill = plans(text, NAME)
    assert (decode.role, prefill.role) == ("decode", "prefill")
    assert [stated(each, "tp") for each in (decode, prefill)] == [2, 1]
    assert [stated(each, "replicas") for each in (decode, prefill)] == [1, 4]
    assert [stated(each, "gpus_per_pod") for each in (decode, prefill)] == [2, 1]
    assert prefill.path == "0:/spec/prefill/template/containers/0"


# ---------------------------------------------------------------------------------------- bases

BASE = """\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceServiceConfig
metadata: {name: base}
spec:
  parallelism: {tensor: 4}
  template:
    containers:
    - name: main
      env:
      - {name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 8192"}
      resources: {limits: {nvidia.com/gpu: 4}}
"""
ON_IT = qwen("baseRefs: [{name: base}]\nreplicas: 2\n")


def test_a_base_is_laid_under_the_object() -> None:
    (found,) = run_of({"a/llm.yaml": ON_IT, "b/base.yaml": BASE})
    assert found.file == "a/llm.yaml"
    assert (stated(found, "tp"), stated(found, "max_model_len")) == (4, 8192)
    assert stated(found, "gpus_per_pod") == 4
    origin = fact(found, "tp").origin
    assert origin is not None
    assert (origin.file, at(BASE, origin)) == ("b/base.yaml", "4")
    own = qwen("baseRefs: [{name: base}]\nparallelism: {tensor: 2}\n")
    (found,) = run_of({"a/llm.yaml": own, "b/base.yaml": BASE})
    assert stated(found, "tp") == 2


def test_without_its_base_an_object_has_an_open_end() -> None:
    found = plan(ON_IT, NAME)
    assert why(found, "tp") == "base is not among the files"
    assert why(found, "nodes") == "base is not among the files"
    assert stated(found, "replicas") == 2
    assert [item for item in findings(ON_IT) if item.severity != "info"] == []


def test_a_config_on_its_own_is_a_part_of_what_runs() -> None:
    found = plan(BASE, NAME)
    assert found.kind == "LLMInferenceServiceConfig"
    assert stated(found, "tp") == 4
    assert why(found, "pp") == "an LLMInferenceService may add options"
    routes = BASE.split("spec:")[0] + "spec: {router: {route: {}, scheduler: {}}}\n"
    assert plans(routes, NAME) == ()


# -------------------------------------------------------------------------------------- routers


def test_the_scheduler_looks_at_prefixes_and_load() -> None:
    text = qwen(f"replicas: 3\nrouter: {{scheduler: {{}}, route: {{}}}}\n{MAIN}")
    (found,) = routers(text, NAME)
    assert (found.policy.only, found.explicit) == ("epp-default", False)
    assert found.awareness == {"prefix", "load"}
    assert [item.split("#")[1] for item in found.backends] == ["0:/spec/template/containers/0"]
    assert "routing-blind" not in names(findings(text))


def test_a_service_without_a_scheduler_is_blind() -> None:
    text = qwen(f"replicas: 3\nrouter: {{route: {{}}}}\n{MAIN}")
    (found,) = routers(text, NAME)
    assert (found.policy.only, found.awareness) == ("kubernetes-service", frozenset())
    assert len(found.backends) == 1


INLINE = """\
router:
  scheduler:
    config:
      inline:
        kind: EndpointPickerConfig
        plugins: [{type: queue-scorer}, {type: max-score-picker}]
        schedulingProfiles:
        - name: default
          plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: max-score-picker}]
"""


def test_scorers_that_are_written_are_the_policy() -> None:
    (found,) = routers(qwen(INLINE + MAIN), NAME)
    assert (found.policy.only, found.explicit) == ("queue-scorer", True)
    assert found.awareness == {"load"}


def test_a_configuration_elsewhere_is_not_called_blind() -> None:
    text = qwen(f"replicas: 3\nrouter: {{scheduler: {{config: {{ref: {{name: c}}}}}}}}\n{MAIN}")
    (found,) = routers(text, NAME)
    assert found.policy.only is None
    assert found.awareness


# ------------------------------------------------------------------------------------ odd input


@pytest.mark.parametrize(
    "text",
    [
        service("model: {name: x}\n"),
        service("model: hf://a/b\n"),
        qwen("parallelism: [1]\n" + MAIN),
        qwen("parallelism: {tensor: '{{ .Values.tp }}'}\n" + MAIN),
        qwen("parallelism: {tensor: 0}\n" + MAIN),
        qwen("template: {containers: main}\n"),
        qwen("template: {containers: [{name: main, env: 1, args: x}]}\n"),
        qwen("baseRefs: base\n"),
        qwen("worker: {}\n" + MAIN),
        qwen("prefill: {}\n" + MAIN),
        qwen("router: {scheduler: {config: {inline: 'plugins: []'}}}\n" + MAIN),
        grouped("data: many, dataLocal: 8"),
        grouped("data: 8, dataLocal: 0"),
        grouped("data: -8, dataLocal: -1"),
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nspec: []\n",
    ],
)
def test_odd_objects_end_in_no_failure(text: str) -> None:
    found = project(text, NAME)
    assert found.plans is not None
    assert found.broken == ()
    assert [item for item in findings(text) if item.name == "plugin-failed"] == []


def test_a_size_that_is_filled_in_elsewhere_is_unknown() -> None:
    found = plan(qwen("parallelism: {tensor: '{{ .Values.tp }}'}\n" + MAIN), NAME)
    assert stated(found, "tp") is None
    assert [item for item in findings(qwen("parallelism: {tensor: '${TP}'}\n" + MAIN))
            if item.severity == "error"] == []  # fmt: skip
