"""Objects of llmaz: claimed models, flavors, backends and templates."""

from __future__ import annotations

import pytest
from harness import setup
from readers.reading import block, edited, fact, plan, plans, project, refused, stated, token, why
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.project import Project

FILE = "llmaz.yaml"


def model(name: str = "m", id: str = "Qwen/Qwen3-8B", flavors: str = "") -> str:
    text = f"apiVersion: llmaz.io/v1alpha1\nkind: OpenModel\nmetadata: {{name: {name}}}\nspec:\n"
    text += f"  source:\n    modelHub: {{modelID: {id}}}\n"
    return text + (("  inferenceConfig:\n    flavors:\n" + block(flavors, 4)) if flavors else "")


FLAVORS = """
- name: t4
  limits:
    nvidia.com/gpu: 2
- name: a100
  limits: {nvidia.com/gpu: 4}
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
"""


def playground(spec: str = "", claim: str = "modelClaim: {modelName: m}") -> str:
    text = "---\napiVersion: inference.llmaz.io/v1alpha1\nkind: Playground\n"
    text += "metadata: {name: chat}\nspec:\n  replicas: 2\n" + block(claim, 2)
    return text + (block(spec, 2) if spec else "")


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


def argv(of: ServingPlan) -> list[str | None]:
    return [word.value for word in of.argv]


ARGS = "backendRuntimeConfig:\n  args:\n  - --tensor-parallel-size\n  - '2'\n"


def test_a_playground_runs_the_claimed_model() -> None:
    text = model(flavors=FLAVORS) + playground(ARGS)
    of = read(text)
    assert ("Playground", "chat", "llmaz", "vllm") == (of.kind, of.name.split("/")[0], of.platform,
                                                       of.engine)  # fmt: skip
    assert "1:/spec/backendRuntimeConfig" == of.path
    assert ("Qwen/Qwen3-8B", 2, 2, 2, "t4") == tuple(
        stated(of, name) for name in ("model", "tp", "gpus_per_pod", "replicas", "gpu_type")
    )
    assert ("Qwen/Qwen3-8B", "2", "2", "t4") == tuple(
        token(text, of, name) for name in ("model", "tp", "gpus_per_pod", "gpu_type")
    )
    assert argv(of)[2:5] == [
        "vllm.entrypoints.openai.api_server", "--model", "/workspace/models/models--Qwen--Qwen3-8B",
    ]  # fmt: skip
    assert 2 * 2**30 == of.placement.shm_bytes.only and of.placement.shm_bytes.assumes


def test_places_are_edited() -> None:
    text = model(flavors=FLAVORS) + playground(ARGS)
    of = read(text)
    assert text.replace("- '2'", "- '4'") == edited(text, of, "tp", "4")
    assert text.replace("gpu: 2", "gpu: 1") == edited(text, of, "gpus_per_pod", "1")
    assert text.replace("replicas: 2", "replicas: 3") == edited(text, of, "replicas", "3")
    bare = model() + playground()
    assert "no arguments" in refused(read(bare), "tp")


def test_the_flavor_of_the_claim_counts() -> None:
    claim = "modelClaim: {modelName: m, inferenceFlavors: [a100]}"
    of = read(model(flavors=FLAVORS) + playground(claim=claim))
    assert (4, "NVIDIA-H100-80GB-HBM3") == (stated(of, "gpus_per_pod"), stated(of, "gpu_type"))


def test_the_main_model_of_several_is_served() -> None:
    claim = "modelClaims:\n  models:\n  - {name: d, role: draft}\n  - {name: m, role: main}"
    text = model() + "---\n" + model("d", "org/draft") + playground(claim=claim)
    of = read(text)
    assert "Qwen/Qwen3-8B" == of.model.only
    assert "speculative-decoding" in (of.open_ended or "")


@pytest.mark.parametrize(("backend", "engine"), [("sglang", "sglang"), ("tgi", "tgi")])
def test_other_backends(backend: str, engine: str) -> None:
    of = read(
        model() + playground(f"backendRuntimeConfig: {{backendName: {backend}, version: v1}}")
    )
    assert (engine, "v1", "Qwen/Qwen3-8B") == (of.engine, of.tag.only, of.model.only)


def test_a_backend_that_is_not_known_has_no_plan() -> None:
    assert () == plans(model() + playground("backendRuntimeConfig: {backendName: own}"), FILE)


def test_settings_of_the_backend() -> None:
    config = "backendRuntimeConfig: {version: v0.9.0, sharedMemorySize: 4Gi,"
    config += " envs: [{name: NCCL_DEBUG, value: INFO}]}"
    elastic = "elasticConfig: {minReplicas: 1, maxReplicas: 5}"
    of = read(model() + playground(f"{config}\n{elastic}"))
    assert ("v0.9.0", 4 * 2**30, 5) == (of.tag.only, of.placement.shm_bytes.only,
                                        stated(of, "max_replicas"))  # fmt: skip
    assert "INFO" == of.placement.env["NCCL_DEBUG"].only


def test_the_model_may_be_in_another_file() -> None:
    texts = {"model.yaml": model(flavors=FLAVORS), FILE: playground()}
    (of,) = Project.of_texts(setup(), texts).plans
    assert ("Qwen/Qwen3-8B", 2) == (of.model.only, stated(of, "gpus_per_pod"))
    assert "another file" in refused(of, "gpus_per_pod")


def test_a_model_that_is_not_there_is_unknown() -> None:
    of = read(playground())
    assert "the model m is not in this run" == why(of, "model")
    assert why(read(model(id="'${ID}'") + playground()), "model")


def test_a_model_by_its_address() -> None:
    text = model().replace("modelHub: {modelID: Qwen/Qwen3-8B}", "uri: oss://bucket/models/x")
    of = read(text + playground())
    assert "oss://bucket/models/x" == stated(of, "model")
    assert "/workspace/models/models--x" in argv(of)


# services


def service(path: str, name: str = "model-runner", gpus: int = 8) -> str:
    return f"""---
apiVersion: inference.llmaz.io/v1alpha1
kind: Service
metadata: {{name: big}}
spec:
  modelClaims: {{models: [{{name: m}}]}}
  replicas: 3
  workloadTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - name: {name}
          image: vllm/vllm-openai:v0.13.0
          args: [--model, {path}, --nnodes, $(LWS_GROUP_SIZE), -tp, "16"]
          resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
"""


RIGHT = "/workspace/models/models--Qwen--Qwen3-8B"


def test_the_template_of_a_service_is_one_of_groups() -> None:
    text = model() + service(RIGHT)
    of = read(text)
    assert ("llmaz Service", "llmaz") == (of.kind, of.platform)
    assert "1:/spec/workloadTemplate/workerTemplate/spec/containers/0" == of.path
    assert (2, 3, 16, 8, "Qwen/Qwen3-8B") == tuple(
        stated(of, n) for n in ("nodes", "replicas", "tp", "gpus_per_pod", "model")
    )
    assert () == of.remarks


def test_a_flavor_takes_the_place_of_the_devices() -> None:
    text = model(flavors=FLAVORS) + service(RIGHT)
    assert (2, "t4") == (stated(read(text), "gpus_per_pod"), stated(read(text), "gpu_type"))
    other = read(model(flavors=FLAVORS) + service(RIGHT, "engine"))
    assert 8 == stated(other, "gpus_per_pod")


def test_a_folder_that_nothing_fills_is_reported() -> None:
    text = model() + service("/workspace/models/models--org--other")
    assert "/workspace/models/models--org--other" == fact(read(text), "model").only
    found = lint(project(text, FILE)).result.findings
    (one,) = (item for item in found if item.name == "value-conflict")
    assert "none of the claimed models (Qwen/Qwen3-8B)" in one.message
    assert "warning" == one.severity
    unknown = lint(project(service("/workspace/models/models--org--other"), FILE)).result.findings
    assert "value-conflict" not in [item.name for item in unknown]


@pytest.mark.parametrize(
    "text",
    [
        playground(claim="modelClaim: 5"),
        playground(claim="modelClaims: {models: [5]}"),
        "apiVersion: inference.llmaz.io/v1alpha1\nkind: Playground\nspec: 5\n",
        "apiVersion: inference.llmaz.io/v1alpha1\nkind: Service\nspec: {workloadTemplate: 5}\n",
        model(),
    ],
)
def test_what_claims_no_model_has_no_plan(text: str) -> None:
    assert () == plans(text, FILE)
