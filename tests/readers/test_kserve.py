"""InferenceServices and the runtimes that they are joined with."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

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
    stated,
    token,
    why,
)
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.plugins import Finding
from shardlint.project import Project
from shardlint.source import apply

NAME = "isvc.yaml"

RUNTIME = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata:
  name: my-vllm
  annotations:
    opendatahub.io/runtime-version: v0.11.2
spec:
  supportedModelFormats:
  - {name: vLLM, autoSelect: true}
  containers:
  - name: kserve-container
    image: $(vllm-image)
    command: [python, -m, vllm.entrypoints.openai.api_server]
    args:
    - --port=8080
    - --model=/mnt/models
    - --max-model-len=8192
    env:
    - {name: HF_HOME, value: /tmp}
    - {name: NCCL_DEBUG, value: INFO}
    volumeMounts:
    - {name: shm, mountPath: /dev/shm}
  volumes:
  - name: shm
    emptyDir: {medium: Memory, sizeLimit: 2Gi}
"""

SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: chat
spec:
  predictor:
    minReplicas: 2
    maxReplicas: 5
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    model:
      modelFormat: {name: vLLM}
      runtime: my-vllm
      storageUri: hf://Qwen/Qwen3-8B
      args:
      - --tensor-parallel-size=2
      env:
      - {name: NCCL_DEBUG, value: WARN}
      resources:
        limits: {nvidia.com/gpu: "2"}
"""


def service(model: str, *, predictor: str = "", metadata: str = "") -> str:
    """A service whose model has these lines."""
    lines = [
        "apiVersion: serving.kserve.io/v1beta1",
        "kind: InferenceService",
        "metadata:",
        "  name: chat",
        *(f"  {line}" for line in dedent(metadata).strip("\n").splitlines()),
        "spec:",
        "  predictor:",
        *(f"    {line}" for line in dedent(predictor).strip("\n").splitlines()),
        "    model:",
        *(f"      {line}" for line in dedent(model).strip("\n").splitlines()),
    ]
    return "\n".join(lines) + "\n"


def findings(texts: Mapping[str, str] | str) -> tuple[Finding, ...]:
    given = {NAME: texts} if isinstance(texts, str) else texts
    return fixes.with_fixes(lint(Project.of_texts(a_setup(), given))).findings


def run_of(texts: Mapping[str, str]) -> tuple[ServingPlan, ...]:
    found = Project.of_texts(a_setup(), texts)
    assert found.broken == ()
    return found.plans


# ---------------------------------------------------------------------------- a joined runtime


def test_a_service_has_what_its_runtime_says() -> None:
    (found,) = plans(f"{RUNTIME}---\n{SERVICE}", NAME)
    assert found.engine == "vllm"
    assert found.kind == "InferenceService"
    assert found.platform == "kserve"
    assert found.name == "chat/kserve-container"
    assert stated(found, "model") == "Qwen/Qwen3-8B"
    assert stated(found, "tp") == 2
    assert stated(found, "max_model_len") == 8192
    assert stated(found, "gpus_per_pod") == 2
    assert stated(found, "replicas") == 2
    assert stated(found, "max_replicas") == 5
    assert stated(found, "shm_bytes") == 2 * 2**30
    assert stated(found, "gpu_type") == "NVIDIA-H100-80GB-HBM3"
    assert found.tag.only == "v0.11.2"
    assert [str(item) for item in found.versions.values] == ["0.11.2"]
    assert found.versions.assumes
    assert found.placement.env["NCCL_DEBUG"].only == "WARN"


def test_a_runtime_in_another_file_is_joined_and_seen_through_its_service() -> None:
    texts = {"a/isvc.yaml": SERVICE, "b/runtime.yaml": RUNTIME}
    (found,) = run_of(texts)
    assert found.file == "a/isvc.yaml"
    origin = fact(found, "max_model_len").origin
    assert origin is not None
    assert origin.file == "b/runtime.yaml"
    assert at(RUNTIME, origin) == "8192"
    assert at(SERVICE, found.origin) in SERVICE


def test_an_option_of_the_runtime_is_edited_where_it_stands() -> None:
    texts = {"a/isvc.yaml": SERVICE, "b/runtime.yaml": RUNTIME}
    (found,) = run_of(texts)
    (edit,) = found.sites["max_model_len"].set("4096")  # type: ignore[union-attr]
    assert edit.file == "b/runtime.yaml"
    after = apply(RUNTIME, [edit])
    assert after == RUNTIME.replace("8192", "4096")
    (again,) = run_of({**texts, "b/runtime.yaml": after})
    assert stated(again, "max_model_len") == 4096


def test_another_option_is_written_behind_those_of_the_service() -> None:
    texts = {"a/isvc.yaml": SERVICE, "b/runtime.yaml": RUNTIME}
    (found,) = run_of(texts)
    after = edited(SERVICE, found, "pp", "2")
    assert after == SERVICE.replace(
        "--tensor-parallel-size=2\n",
        "--tensor-parallel-size=2\n      - --pipeline-parallel-size=2\n",
    )


def test_arguments_are_written_where_the_service_has_none() -> None:
    text = SERVICE.replace("      args:\n      - --tensor-parallel-size=2\n", "")
    (found,) = run_of({"a/isvc.yaml": text, "b/runtime.yaml": RUNTIME.replace(
        "    - --max-model-len=8192\n", "")})  # fmt: skip
    after = edited(text, found, "tp", "2")
    assert after == text + '      args: ["--tensor-parallel-size=2"]\n'
    (again,) = run_of({"a/isvc.yaml": after, "b/runtime.yaml": RUNTIME})
    assert stated(again, "tp") == 2


def test_the_nearest_runtime_of_a_name_is_taken() -> None:
    near, far = RUNTIME, RUNTIME.replace("8192", "1024")
    texts = {"a/isvc.yaml": SERVICE, "a/runtime.yaml": near, "b/runtime.yaml": far}
    joined = [item for item in run_of(texts) if item.file == "a/isvc.yaml"]
    assert [stated(item, "max_model_len") for item in joined] == [8192]


def test_of_two_far_runtimes_none_is_taken() -> None:
    texts = {"a/isvc.yaml": SERVICE, "b/r.yaml": RUNTIME, "c/r.yaml": RUNTIME}
    joined = [item for item in run_of(texts) if item.file == "a/isvc.yaml"]
    assert [why(item, "max_model_len") for item in joined] == [
        "several files hold a runtime my-vllm"
    ]


def test_a_runtime_of_another_namespace_is_another_one() -> None:
    text = SERVICE.replace("  name: chat\n", "  name: chat\n  namespace: one\n", 1)
    runtime = RUNTIME.replace("  name: my-vllm\n", "  name: my-vllm\n  namespace: two\n", 1)
    found = run_of({"a.yaml": f"{text}---\n{runtime}"})
    assert [item.kind for item in found] == ["InferenceService", "ServingRuntime"]


def test_objects_of_an_openshift_template_are_read() -> None:
    body = f"{RUNTIME}---\n{SERVICE}".split("---\n")
    rows = []
    for text in body:
        first, *rest = text.rstrip("\n").splitlines()
        rows += [f"- {first}", *(f"  {line}" for line in rest)]
    head = "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: t}\nobjects:\n"
    (found,) = plans(head + "\n".join(rows) + "\n", NAME)
    assert found.path == "0:/objects/1/spec/predictor/model"
    assert stated(found, "tp") == 2


# ---------------------------------------------------------------- a runtime that is not there


def test_without_its_runtime_a_service_of_vllm_has_an_open_end() -> None:
    found = plan(SERVICE, NAME)
    assert found.engine == "vllm"
    assert stated(found, "model") == "Qwen/Qwen3-8B"
    assert stated(found, "tp") == 2
    assert fact(found, "tp").assumes == frozenset()
    assert why(found, "max_model_len") == "runtime my-vllm is not among the files"
    assert names(findings(SERVICE)) == []


def test_an_unknown_runtime_of_another_format_says_no_engine() -> None:
    text = service("modelFormat: {name: huggingface}\nruntime: ours\nstorageUri: pvc://a/b\n")
    assert plans(text, NAME) == ()


@pytest.mark.parametrize("name", ["sklearn", "triton", "pytorch"])
def test_other_formats_are_no_engines(name: str) -> None:
    assert plans(service(f"modelFormat: {{name: {name}}}\nstorageUri: gs://a/b\n"), NAME) == ()


def test_options_in_a_variable_rest_on_the_runtime() -> None:
    text = service(
        """
        runtime: vllm
        storageUri: s3://models/chat/
        env:
        - name: VLLM_ARGS
          value: "--max-model-len 4096 --gpu-memory-utilization 0.8"
        resources: {limits: {nvidia.com/gpu: 1}}
        """,
        metadata="annotations: {autoscaling.knative.dev/minScale: '0'}",
    )
    found = plan(text, NAME)
    assert stated(found, "model") == "s3://models/chat/"
    assert stated(found, "max_model_len") == 4096
    assert token(text, found, "max_model_len") == "4096"
    assert fact(found, "max_model_len").assumes
    assert stated(found, "replicas") == 0


def test_a_nim_is_recognised_by_its_runtime() -> None:
    text = service(
        """
        modelFormat: {name: nvidia-nim-llama-3.1-8b-instruct}
        runtime: nvidia-nim-llama-3.1-8b-instruct-1.3.3
        storageUri: pvc://nim-pvc/
        resources: {limits: {nvidia.com/gpu: "1"}}
        """
    )
    found = plan(text, NAME)
    assert (found.engine, found.tag.only, found.model.only) == ("nim", "1.3.3", "pvc://nim-pvc/")
    assert not found.image.is_known


def test_a_service_with_containers_has_its_model_in_a_variable() -> None:
    text = dedent(
        """\
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: own}
        spec:
          predictor:
            containers:
            - name: kserve-container
              image: vllm/vllm-openai:v0.12.0
              args: [--model, /mnt/models, --tensor-parallel-size, "4"]
              env:
              - {name: STORAGE_URI, value: "hf://Qwen/Qwen3-32B"}
              resources: {limits: {nvidia.com/gpu: 4}}
        """
    )
    found = plan(text, NAME)
    assert stated(found, "model") == "Qwen/Qwen3-32B"
    assert stated(found, "tp") == 4
    assert found.path == "0:/spec/predictor/containers/0"


# -------------------------------------------------------------------------- huggingfaceserver


def hugging_face(gpus: int, args: str = "") -> str:
    return service(
        f"""
        modelFormat: {{name: huggingface}}
        args:
        - --model_name=chat
        - --model_id=Qwen/Qwen2.5-7B-Instruct
        {args}
        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
        """
    )


def test_the_server_takes_the_gpus_that_it_sees_for_tensor_parallelism() -> None:
    text = hugging_face(2)
    found = plan(text, NAME)
    assert found.engine == "huggingfaceserver"
    assert stated(found, "model") == "Qwen/Qwen2.5-7B-Instruct"
    assert fact(found, "tp").is_unset
    assert found.effective.tp.only == 2
    assert found.effective.tp.how == "derived"
    assert "number of its GPUs" in refused(found, "tp")


def test_an_option_that_differs_is_passed_over() -> None:
    text = hugging_face(4, "- --tensor-parallel-size=2")
    found = plan(text, NAME)
    assert stated(found, "tp") == 2
    assert found.effective.tp.only == 4
    (said,) = (item for item in findings(text) if item.name == "config-ignored")
    assert said.severity == "warning"
    assert text[said.start.offset : said.end.offset] == "2"
    assert "gpu-count-short" not in names(findings(text))


def test_an_option_that_agrees_is_no_finding() -> None:
    assert names(findings(hugging_face(2, "- --tensor-parallel-size=2"))) == []


def test_gpus_that_do_not_divide_the_heads_are_found_where_they_are_asked_for() -> None:
    text = hugging_face(8)
    said = [item for item in findings(text) if item.severity == "error"]
    assert [item.name for item in said] == ["tp-heads-indivisible"]
    assert text[said[0].start.offset : said[0].end.offset] == "8"


def test_own_options_are_not_taken_for_vllms() -> None:
    more = ("- --max_length", "- '4096'", "- --http_port", "- '80'", "- --backend=vllm",
            "- --what_is_this")  # fmt: skip
    text = hugging_face(1, "\n        ".join(more))
    found = plan(text, NAME)
    assert stated(found, "max_model_len") == 4096
    assert stated(found, "model") == "Qwen/Qwen2.5-7B-Instruct"
    assert names(findings(text)) == []


def test_another_backend_has_no_layout() -> None:
    found = plan(hugging_face(2, "- --backend=huggingface"), NAME)
    assert found.effective.tp.only is None
    assert "not vLLM" in (why(found, "tp") or "")


def test_the_folder_of_the_server_is_where_the_model_is() -> None:
    text = service("modelFormat: {name: huggingface}\nstorageUri: hf://Qwen/Qwen3-8B:main\n")
    found = plan(text, NAME)
    assert stated(found, "model") == "Qwen/Qwen3-8B"
    assert found.effective.tp.only is None


# ------------------------------------------------------------------------------- several nodes


def multinode(
    tp: str = "tensorParallelSize: 8",
    *,
    head: str = "resources: {requests: {nvidia.com/gpu: 8}, limits: {nvidia.com/gpu: 8}}",
    worker: str = "resources: {requests: {nvidia.com/gpu: 8}, limits: {nvidia.com/gpu: 8}}",
    uri: str = "pvc://models/qwen",
    more: str = "",
) -> str:
    return service(
        f"""
        modelFormat: {{name: huggingface}}
        runtime: kserve-huggingfaceserver-multinode
        storageUri: {uri}
        {head}
        """,
        predictor=f"""
        workerSpec:
          pipelineParallelSize: 2
          {tp}
          containers:
          - name: worker-container
            {worker}
        {more}
        """,
        metadata="annotations: {serving.kserve.io/autoscalerClass: none}",
    )


def test_ray_counts_the_nodes_by_the_gpus_of_a_worker() -> None:
    text = multinode()
    found = plan(text, NAME)
    assert (found.engine, found.role) == ("huggingfaceserver", "head")
    assert (stated(found, "tp"), stated(found, "pp")) == (8, 2)
    assert token(text, found, "tp") == "8"
    assert found.placement.pods_per_group.only == 2
    assert found.placement.pods_per_group.how == "derived"
    assert found.placement.group_devices.only == 16
    assert found.effective.executor.only == "ray"
    assert not found.effective.tp.assumes
    assert stated(found, "model") == "pvc://models/qwen"
    assert edited(text, found, "tp", "4") == text.replace(
        "tensorParallelSize: 8", "tensorParallelSize: 4"
    )


def test_a_size_that_is_not_stated_is_written_under_the_worker() -> None:
    text = multinode(tp="")
    found = plan(text, NAME)
    assert fact(found, "tp").is_unset
    after = edited(text, found, "tp", "8")
    assert "      tensorParallelSize: 8\n" in after
    assert stated(plan(after, NAME), "tp") == 8


@pytest.mark.parametrize(
    ("head", "worker", "nodes", "gpus"),
    [(8, 8, 2, 8), (8, 4, 4, 8), (16, 8, 1, 16), (0, 4, 4, 4), (4, 0, 13, 4), (0, 0, 16, 1)],
)
def test_the_group_that_ray_gets(head: int, worker: int, nodes: int, gpus: int) -> None:
    def asks(count: int) -> str:
        return f"resources: {{requests: {{nvidia.com/gpu: {count}}}}}" if count else "env: []"

    found = plan(multinode(head=asks(head), worker=asks(worker)), NAME)
    assert found.placement.pods_per_group.only == nodes
    assert found.placement.gpus_per_pod.only == gpus


def test_gpus_in_limits_alone_are_not_counted() -> None:
    limits = "resources: {limits: {nvidia.com/gpu: 8}}"
    text = multinode(head=limits, worker=limits)
    found = plan(text, NAME)
    assert found.placement.pods_per_group.only == 16
    said = [item for item in findings(text) if item.name == "config-ignored"]
    assert [item.severity for item in said] == ["warning"]
    assert "16 pods" in said[0].message


def test_several_replicas_share_the_workers_of_one() -> None:
    text = multinode(more="minReplicas: 3")
    said = [item for item in findings(text) if item.name == "config-ignored"]
    assert [text[item.start.offset : item.end.offset] for item in said] == ["3"]


def test_a_model_of_the_hub_is_refused_on_several_nodes() -> None:
    text = multinode(uri="hf://Qwen/Qwen3-32B")
    said = [item for item in findings(text) if item.severity == "error"]
    assert [item.name for item in said] == ["flag-conflict"]
    assert said[0].message.startswith("KServe refuses `hf://Qwen/Qwen3-32B`")


def test_a_size_in_a_variable_is_refused_and_moved() -> None:
    text = service(
        """
        modelFormat: {name: huggingface}
        storageUri: pvc://models/qwen
        env:
        - name: TENSOR_PARALLEL_SIZE
          value: '2'
        """,
        predictor="workerSpec:\n  pipelineParallelSize: 2",
        metadata="annotations: {serving.kserve.io/autoscalerClass: none}",
    )
    (said,) = (item for item in findings(text) if item.name == "flag-misplaced")
    assert said.severity == "error"
    assert text[said.start.offset : said.end.offset] == "TENSOR_PARALLEL_SIZE"
    assert [fix.delta for fix in said.fixes] == [{"tp": 2}]
    outcome = fixes.apply_fixes(project(text, NAME), True)
    after = outcome.project.sources[NAME].text
    assert "env:" not in after
    assert "      tensorParallelSize: 2\n" in after
    assert "flag-misplaced" not in names(outcome.result.findings)


MULTINODE_RUNTIME = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: two-nodes}
spec:
  annotations: {multinode/executor-backend: mp}
  supportedModelFormats: [{name: vLLM}]
  containers:
  - name: kserve-container
    image: vllm/vllm-openai:v0.12.0
    command: [bash, -c]
    args:
    - |
      ray start --head
      exec vllm serve /mnt/models --tensor-parallel-size=${TENSOR_PARALLEL_SIZE} \\
        --pipeline-parallel-size=${PIPELINE_PARALLEL_SIZE}
  workerSpec:
    tensorParallelSize: 4
    pipelineParallelSize: 2
    containers:
    - name: worker-container
      image: vllm/vllm-openai:v0.12.0
"""

OF_TWO_NODES = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: wide}
spec:
  predictor:
    model:
      modelFormat: {name: vLLM}
      runtime: two-nodes
      storageUri: pvc://models/qwen
    workerSpec: {pipelineParallelSize: 3}
"""


def test_sizes_come_from_the_service_and_else_from_the_runtime() -> None:
    (found,) = run_of({"isvc.yaml": OF_TWO_NODES, "runtime.yaml": MULTINODE_RUNTIME})
    assert (stated(found, "tp"), stated(found, "pp")) == (4, 3)
    assert found.effective.executor.only == "mp"
    assert found.effective.nnodes.only == 3
    assert found.placement.pods_per_group.only == 3
    assert found.placement.gpus_per_pod.only == 4
    assert found.placement.group_devices.only == 12


def test_a_runtime_on_its_own_is_a_part_of_what_runs() -> None:
    found = plan(MULTINODE_RUNTIME, NAME)
    assert (found.kind, found.role) == ("ClusterServingRuntime", "head")
    assert (stated(found, "tp"), stated(found, "pp")) == (4, 2)
    assert why(found, "nodes") == "the InferenceService decides how many nodes there are"
    assert why(plan(RUNTIME, NAME), "tp") == "an InferenceService may add options"


def test_a_runtime_that_only_sleeps_is_known_by_its_image() -> None:
    text = RUNTIME.replace("$(vllm-image)", "vllm/vllm-openai:v0.12.0").replace(
        "[python, -m, vllm.entrypoints.openai.api_server]", "[sleep, infinity]"
    )
    found = plan(text, NAME)
    assert found.engine == "vllm"
    assert why(found, "max_model_len") == "an InferenceService may add options"


# ------------------------------------------------------------------------------------ odd input


@pytest.mark.parametrize(
    "text",
    [
        SERVICE.replace("predictor:", "predictor: []\n  other:"),
        SERVICE.replace("my-vllm", "{{ .Values.runtime }}"),
        SERVICE.replace("hf://Qwen/Qwen3-8B", "hf://${MODEL}"),
        SERVICE.replace("minReplicas: 2", "minReplicas: many"),
        f"{RUNTIME.replace('containers:', 'containers: none')}---\n{SERVICE}",
        f"{RUNTIME.replace('command:', 'command: {}')}---\n{SERVICE}".replace("{} [", "["),
        multinode(tp="tensorParallelSize: 0"),
        multinode(tp="tensorParallelSize: ${TP}"),
        multinode(head="resources: {requests: {nvidia.com/gpu: many}}"),
        multinode().replace("workerSpec:", "workerSpec: []\n    other:"),
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\n",
        "apiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\nspec: [1, 2]\n",
    ],
)
def test_odd_objects_end_in_no_failure(text: str) -> None:
    found = project(text, NAME)
    assert found.plans is not None
    assert found.broken == ()
    assert [item for item in findings(text) if item.name == "plugin-failed"] == []


def test_a_placeholder_is_no_model() -> None:
    text = SERVICE.replace("hf://Qwen/Qwen3-8B", "hf://${MODEL}")
    assert "filled in elsewhere" in (why(plan(text, NAME), "model") or "")
