"""Objects of every family of operators, changed by an overlay: read once, as what they become."""

from __future__ import annotations

from textwrap import dedent

import pytest
from readers.reading import a_setup, stated, why
from shardlint.plan import Refusal, ServingPlan
from shardlint.project import Project
from shardlint.source import apply

OVERLAY = "over/kustomization.yaml"
PATCH = "over/patch.yaml"


def project(base: str, kustomization: str = "", patch: str = "") -> Project:
    """A base of one file, and an overlay with a patch in a file of its own."""
    return Project.of_texts(
        a_setup(),
        {
            "base/kustomization.yaml": "resources: [all.yaml]\n",
            "base/all.yaml": dedent(base),
            OVERLAY: "resources: [../base]\n" + dedent(kustomization),
            PATCH: dedent(patch),
        },
    )


def patched(base: str, patch: str) -> Project:
    return project(base, "patches: [{path: patch.yaml}]\n", patch)


def operated(base: str, *operations: str) -> Project:
    """With the operations of a JSON patch for every object."""
    rows = "".join(f"      - {row}\n" for row in operations)
    return project(base, f"patches:\n  - target: {{name: chat}}\n    patch: |-\n{rows}")


def only(of: Project) -> ServingPlan:
    """The one plan: nothing is read twice, and the base is seen through the overlay."""
    (plan,) = of.plans
    assert plan.file == OVERLAY
    return plan


def place(of: Project, plan: ServingPlan, path: str) -> tuple[str, str]:
    """The file and the characters that a fact was read from."""
    origin = plan.fact(path).origin
    assert origin is not None
    text = of.sources[origin.file].text
    return origin.file, text[origin.span.start : origin.span.end]


def after(of: Project, plan: ServingPlan, field: str, value: str) -> Project:
    """The project with a field edited."""
    edits = plan.sites[field].set(value)
    assert not isinstance(edits, Refusal), edits.reason
    for file in {edit.file for edit in edits}:
        own = [edit for edit in edits if edit.file == file]
        of = of.update(file, apply(of.sources[file].text, own))
    return of


# ------------------------------------------------------------------------------ LeaderWorkerSet

LWS = """\
    apiVersion: leaderworkerset.x-k8s.io/v1
    kind: LeaderWorkerSet
    metadata: {name: chat}
    spec:
      replicas: 2
      leaderWorkerTemplate:
        size: 2
        workerTemplate:
          spec:
            containers:
              - name: vllm
                image: vllm/vllm-openai:v0.11.2
                command: [vllm, serve, Qwen/Qwen2.5-7B-Instruct]
                args: [--tensor-parallel-size=8, --pipeline-parallel-size=2]
                resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_the_size_of_a_leader_worker_set() -> None:
    found = patched(
        LWS,
        """\
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata: {name: chat}
        spec:
          leaderWorkerTemplate:
            size: 4
        """,
    )
    plan = only(found)
    assert place(found, plan, "placement.pods_per_group") == (PATCH, "4")
    assert place(found, plan, "layout.tp") == ("base/all.yaml", "8")
    assert stated(plan, "replicas") == 2
    assert stated(only(after(found, plan, "nodes", "2")), "nodes") == 2


def test_the_arguments_of_a_leader_worker_set() -> None:
    path = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/args/1"
    found = operated(LWS, f'{{op: replace, path: {path}, value: "--pipeline-parallel-size=4"}}')
    plan = only(found)
    assert place(found, plan, "layout.pp") == (OVERLAY, "4")
    assert stated(plan, "nodes") == 2


# -------------------------------------------------------------------------------------- KServe

RUNTIME = """\
    apiVersion: serving.kserve.io/v1alpha1
    kind: ServingRuntime
    metadata: {name: rt}
    spec:
      supportedModelFormats: [{name: vllm}]
      containers:
        - name: kserve-container
          image: vllm/vllm-openai:v0.11.2
          command: [vllm, serve, /mnt/models]
          args: [--max-model-len=8192]
"""
SERVICE = """\
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: chat}
    spec:
      predictor:
        minReplicas: 1
        model:
          modelFormat: {name: vllm}
          runtime: rt
          storageUri: hf://Qwen/Qwen2.5-7B-Instruct
          args: [--tensor-parallel-size=2]
          resources: {limits: {nvidia.com/gpu: 2}}
"""
ISVC = f"{RUNTIME}    ---\n{SERVICE}"
ISVC_PATCH = """\
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: chat}
    spec:
      predictor:
        minReplicas: 3
        model:
          args: [--tensor-parallel-size=4]
"""
RUNTIME_PATCH = """\
    - target: {kind: ServingRuntime}
      patch: |-
        - {op: replace, path: /spec/containers/0/args/0, value: --max-model-len=4096}
"""


def test_the_arguments_of_an_inference_service() -> None:
    found = patched(ISVC, ISVC_PATCH)
    plan = only(found)
    assert place(found, plan, "layout.tp") == (PATCH, "4")
    assert place(found, plan, "fleet.replicas") == (PATCH, "3")
    assert place(found, plan, "memory.max_model_len") == ("base/all.yaml", "8192")
    assert plan.model.only == "Qwen/Qwen2.5-7B-Instruct"
    again = only(after(found, plan, "tp", "2"))
    assert stated(again, "tp") == 2


def test_the_runtime_of_an_inference_service_is_the_one_that_is_built() -> None:
    found = project(ISVC, "patches:\n" + dedent(RUNTIME_PATCH))
    plan = only(found)
    assert place(found, plan, "memory.max_model_len") == (OVERLAY, "4096")


def test_a_runtime_with_another_name_is_not_the_one_that_is_meant() -> None:
    rename = """\
    patches:
      - target: {kind: ServingRuntime}
        options: {allowNameChange: true}
        patch: |-
          - {op: replace, path: /metadata/name, value: other}
    """
    found = project(ISVC, rename)
    by_kind = {plan.kind: plan for plan in found.plans}
    assert all(plan.file == OVERLAY for plan in found.plans)
    assert why(by_kind["InferenceService"], "max_model_len") == "runtime rt is not among the files"


LLM = """\
    apiVersion: serving.kserve.io/v1alpha1
    kind: LLMInferenceServiceConfig
    metadata: {name: big}
    spec:
      parallelism: {tensor: 4}
    ---
    apiVersion: serving.kserve.io/v1alpha1
    kind: LLMInferenceService
    metadata: {name: chat}
    spec:
      model: {uri: hf://Qwen/Qwen2.5-7B-Instruct, name: qwen}
      baseRefs: [{name: big}]
      replicas: 1
      template:
        containers:
          - name: main
            image: vllm/vllm-openai:v0.11.2
            resources: {limits: {nvidia.com/gpu: 4}}
"""


def test_the_parallelism_of_an_llm_inference_service() -> None:
    found = patched(
        LLM,
        """\
        apiVersion: serving.kserve.io/v1alpha1
        kind: LLMInferenceService
        metadata: {name: chat}
        spec:
          replicas: 2
          parallelism: {tensor: 2}
        """,
    )
    plan = only(found)
    assert place(found, plan, "layout.tp") == (PATCH, "2")
    assert place(found, plan, "fleet.replicas") == (PATCH, "2")
    assert {router.file for router in found.routers} == {OVERLAY}


def test_the_config_of_an_llm_inference_service_is_the_one_that_is_built() -> None:
    config = """\
    patches:
      - target: {kind: LLMInferenceServiceConfig}
        patch: |-
          - {op: replace, path: /spec/parallelism/tensor, value: 8}
    """
    found = project(LLM, config)
    assert place(found, only(found), "layout.tp") == (OVERLAY, "8")


# ------------------------------------------------------------------------------------- Knative

KNATIVE = """\
    apiVersion: serving.knative.dev/v1
    kind: Service
    metadata: {name: chat}
    spec:
      template:
        metadata:
          annotations:
            autoscaling.knative.dev/min-scale: "1"
        spec:
          containers:
            - image: vllm/vllm-openai:v0.11.2
              args: [--model=Qwen/Qwen2.5-7B-Instruct, --tensor-parallel-size=2]
              resources: {limits: {nvidia.com/gpu: 2}}
"""


def test_the_scale_of_a_service_of_knative() -> None:
    found = patched(
        KNATIVE,
        """\
        apiVersion: serving.knative.dev/v1
        kind: Service
        metadata: {name: chat}
        spec:
          template:
            metadata:
              annotations:
                autoscaling.knative.dev/min-scale: "3"
        """,
    )
    plan = only(found)
    assert stated(plan, "replicas") == 3
    assert place(found, plan, "fleet.replicas")[0] == PATCH
    more = found.sources[PATCH].text + '        autoscaling.knative.dev/max-scale: "5"\n'
    assert after(found, plan, "max_replicas", "5").sources[PATCH].text == more


# ----------------------------------------------------------------------------------------- Ray

RAY = """\
    apiVersion: ray.io/v1
    kind: RayService
    metadata: {name: chat}
    spec:
      serveConfigV2: |
        applications:
          - name: llm
            import_path: ray.serve.llm:build_openai_app
            args:
              llm_configs:
                - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen2.5-7B-Instruct}
                  engine_kwargs: {tensor_parallel_size: 2}
      rayClusterConfig:
        headGroupSpec:
          rayStartParams: {}
          template:
            spec:
              containers: [{name: ray-head, image: "rayproject/ray-llm:2.46.0"}]
        workerGroupSpecs:
          - groupName: gpu
            replicas: 1
            rayStartParams: {}
            template:
              spec:
                containers:
                  - name: ray-worker
                    image: rayproject/ray-llm:2.46.0
                    resources: {limits: {nvidia.com/gpu: 4}}
"""
RAY_PATCH = """\
    apiVersion: ray.io/v1
    kind: RayService
    metadata: {name: chat}
    spec:
      serveConfigV2: |
        applications:
          - name: llm
            import_path: ray.serve.llm:build_openai_app
            args:
              llm_configs:
                - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen2.5-7B-Instruct}
                  engine_kwargs:
                    tensor_parallel_size: 4
"""


def test_another_configuration_of_a_ray_service() -> None:
    found = patched(RAY, RAY_PATCH)
    plan = only(found)
    assert place(found, plan, "layout.tp") == (PATCH, "4")
    assert place(found, plan, "placement.gpus_per_pod") == ("base/all.yaml", "4")
    (router,) = found.routers
    assert (router.file, router.backends) == (OVERLAY, (plan.id,))
    assert stated(only(after(found, plan, "tp", "2")), "tp") == 2


def test_an_operation_on_the_workers_of_a_ray_service() -> None:
    path = "/spec/rayClusterConfig/workerGroupSpecs/0/replicas"
    found = operated(RAY, f"{{op: replace, path: {path}, value: 2}}")
    plan = only(found)
    assert place(found, plan, "placement.pods_per_group") == (OVERLAY, "2")
    assert place(found, plan, "layout.tp") == ("base/all.yaml", "2")


# -------------------------------------------------------------------------------------- Dynamo

DYNAMO = """\
    apiVersion: nvidia.com/v1alpha1
    kind: DynamoGraphDeployment
    metadata: {name: chat}
    spec:
      services:
        Frontend:
          componentType: frontend
          replicas: 1
          extraPodSpec: {mainContainer: {image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.0"}}
        Worker:
          componentType: worker
          replicas: 1
          resources: {limits: {gpu: "2"}}
          extraPodSpec:
            mainContainer:
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.0
              command: [python3, -m, dynamo.vllm]
              args: [--model, Qwen/Qwen2.5-7B-Instruct, --tensor-parallel-size, "2"]
"""


def test_the_replicas_of_a_dynamo_graph() -> None:
    found = patched(
        DYNAMO,
        """\
        apiVersion: nvidia.com/v1alpha1
        kind: DynamoGraphDeployment
        metadata: {name: chat}
        spec:
          services:
            Worker:
              replicas: 4
        """,
    )
    plan = only(found)
    assert place(found, plan, "fleet.replicas") == (PATCH, "4")
    assert place(found, plan, "layout.tp") == ("base/all.yaml", "2")
    (router,) = found.routers
    assert (router.file, router.kind) == (OVERLAY, "dynamo-frontend")
    edits = plan.sites["shm_bytes"].set(str(2**34))
    assert not isinstance(edits, Refusal)
    assert {edit.file for edit in edits} == {PATCH}
    assert stated(only(after(found, plan, "shm_bytes", str(2**34))), "shm_bytes") == 2**34


# ----------------------------------------------------------------------------------------- NIM

NIM = """\
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMCache
    metadata: {name: cache}
    spec:
      source:
        hf: {namespace: Qwen, modelName: Qwen2.5-7B-Instruct}
    ---
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMService
    metadata: {name: chat}
    spec:
      image: {repository: nvcr.io/nim/nvidia/llm-nim, tag: 1.13.0}
      replicas: 1
      storage: {nimCache: {name: cache}}
      resources:
        limits:
          nvidia.com/gpu: 2
"""


def test_a_nim_service() -> None:
    found = patched(
        NIM,
        """\
        apiVersion: apps.nvidia.com/v1alpha1
        kind: NIMService
        metadata: {name: chat}
        spec:
          replicas: 3
          resources:
            limits:
              nvidia.com/gpu: 4
        """,
    )
    plan = only(found)
    assert place(found, plan, "fleet.replicas") == (PATCH, "3")
    assert place(found, plan, "placement.gpus_per_pod") == (PATCH, "4")
    assert plan.model.only == "Qwen/Qwen2.5-7B-Instruct"
    assert stated(only(after(found, plan, "gpus_per_pod", "8")), "gpus_per_pod") == 8


def test_the_cache_of_a_nim_service_is_the_one_that_is_built() -> None:
    cache = """\
    patches:
      - target: {kind: NIMCache}
        patch: |-
          - {op: replace, path: /spec/source/hf/modelName, value: Qwen2.5-14B-Instruct}
    """
    found = project(NIM, cache)
    assert only(found).model.only == "Qwen/Qwen2.5-14B-Instruct"
    assert place(found, only(found), "model") == (OVERLAY, "Qwen2.5-14B-Instruct")


# --------------------------------------------------------------------------- the other families

CONTAINER = (
    "{name: vllm, image: 'vllm/vllm-openai:v0.11.2', args: [--model=Qwen/Qwen2.5-7B-Instruct,"
    " --tensor-parallel-size=2], resources: {limits: {nvidia.com/gpu: 2}}}"
)
OTHERS = {
    "PodCliqueSet": (
        f"""\
        apiVersion: grove.io/v1alpha1
        kind: PodCliqueSet
        metadata: {{name: chat}}
        spec:
          replicas: 1
          template:
            cliques:
              - name: w
                spec: {{replicas: 2, podSpec: {{containers: [{CONTAINER}]}}}}
        """,
        "/spec/template/cliques/0/spec/replicas",
    ),
    "StormService": (
        f"""\
        apiVersion: orchestration.aibrix.ai/v1alpha1
        kind: StormService
        metadata: {{name: chat}}
        spec:
          template:
            spec:
              roles:
                - name: w
                  replicas: 2
                  template: {{spec: {{containers: [{CONTAINER}]}}}}
        """,
        "/spec/template/spec/roles/0/replicas",
    ),
    "ModelServing": (
        f"""\
        apiVersion: workload.serving.volcano.sh/v1alpha1
        kind: ModelServing
        metadata: {{name: chat}}
        spec:
          replicas: 1
          template:
            roles:
              - name: w
                replicas: 2
                entryTemplate: {{spec: {{containers: [{CONTAINER}]}}}}
        """,
        "/spec/template/roles/0/replicas",
    ),
    "Model": (
        """\
        apiVersion: kubeai.org/v1
        kind: Model
        metadata: {name: chat}
        spec:
          engine: VLLM
          url: hf://Qwen/Qwen2.5-7B-Instruct
          resourceProfile: nvidia-gpu-l4:2
          args: [--tensor-parallel-size=2]
          minReplicas: 2
        """,
        "/spec/minReplicas",
    ),
    "InferenceSet": (
        """\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: options}
        data:
          inference_config.yaml: |
            vllm:
              tensor-parallel-size: 2
        ---
        apiVersion: kaito.sh/v1alpha1
        kind: InferenceSet
        metadata: {name: chat}
        spec:
          replicas: 2
          template:
            resource: {instanceType: Standard_NC48ads_A100_v4}
            inference: {preset: {name: phi-4-mini-instruct}, config: options}
        """,
        "/spec/replicas",
    ),
    "Playground": (
        """\
        apiVersion: llmaz.io/v1alpha1
        kind: OpenModel
        metadata: {name: qwen}
        spec:
          source: {modelHub: {modelID: Qwen/Qwen2.5-7B-Instruct}}
        ---
        apiVersion: inference.llmaz.io/v1alpha1
        kind: Playground
        metadata: {name: chat}
        spec:
          replicas: 2
          modelClaim: {modelName: qwen}
          backendRuntimeConfig:
            backendName: vllm
            args: [--tensor-parallel-size, "2"]
        """,
        "/spec/replicas",
    ),
    "ClusterServingRuntime": (
        f"""\
        apiVersion: ome.io/v1beta1
        kind: ClusterServingRuntime
        metadata: {{name: rt}}
        spec:
          engineConfig:
            runner: {CONTAINER}
        ---
        apiVersion: ome.io/v1beta1
        kind: InferenceService
        metadata: {{name: chat}}
        spec:
          runtime: {{name: rt}}
          engine: {{minReplicas: 2}}
        """,
        "/spec/engine/minReplicas",
    ),
    "RayClusterFleet": (
        """\
        apiVersion: orchestration.aibrix.ai/v1alpha1
        kind: RayClusterFleet
        metadata: {name: chat}
        spec:
          replicas: 2
          template:
            spec:
              headGroupSpec:
                rayStartParams: {}
                template:
                  spec:
                    containers:
                      - name: head
                        image: vllm/vllm-openai:v0.11.2
                        command: [sh, -c]
                        args:
                          - |
                            ray start --head
                            vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 2
                        resources: {limits: {nvidia.com/gpu: 2}}
        """,
        "/spec/replicas",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_an_operation_on_an_object_of_another_family(kind: str) -> None:
    base, path = OTHERS[kind]
    found = operated(base, f"{{op: replace, path: {path}, value: 5}}")
    plan = only(found)
    assert plan.kind == kind
    assert place(found, plan, "fleet.replicas") == (OVERLAY, "5")
    assert stated(plan, "tp") == 2
    assert all(router.file == OVERLAY for router in found.routers)


def test_the_options_of_kaito_are_those_of_the_config_map_that_is_built() -> None:
    new = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: options}
    data:
      inference_config.yaml: |
        vllm:
          tensor-parallel-size: 1
    """
    found = patched(OTHERS["InferenceSet"][0], new)
    assert place(found, only(found), "layout.tp") == (PATCH, "1")


def test_the_model_of_llmaz_is_the_one_that_is_built() -> None:
    new = """\
    apiVersion: llmaz.io/v1alpha1
    kind: OpenModel
    metadata: {name: qwen}
    spec:
      source: {modelHub: {modelID: Qwen/Qwen2.5-14B-Instruct}}
    """
    found = patched(OTHERS["Playground"][0], new)
    assert place(found, only(found), "model") == (PATCH, "Qwen/Qwen2.5-14B-Instruct")


def test_the_runtime_of_ome_is_the_one_that_is_built() -> None:
    runtime = """\
    patches:
      - target: {kind: ClusterServingRuntime}
        patch: |-
          - op: replace
            path: /spec/engineConfig/runner/args/1
            value: --tensor-parallel-size=1
    """
    found = project(OTHERS["ClusterServingRuntime"][0], runtime)
    assert place(found, only(found), "layout.tp") == (OVERLAY, "1")


def test_values_of_a_release() -> None:
    base = f"""\
    apiVersion: helm.toolkit.fluxcd.io/v2
    kind: HelmRelease
    metadata: {{name: chat}}
    spec:
      values:
        engine: {CONTAINER}
    """
    found = patched(
        base,
        """\
        apiVersion: helm.toolkit.fluxcd.io/v2
        kind: HelmRelease
        metadata: {name: chat}
        spec:
          values:
            engine:
              args: [--model=Qwen/Qwen2.5-7B-Instruct, --tensor-parallel-size=1]
        """,
    )
    plan = only(found)
    assert place(found, plan, "layout.tp") == (PATCH, "1")
    assert place(found, plan, "placement.gpus_per_pod") == ("base/all.yaml", "2")
    assert stated(only(after(found, plan, "tp", "2")), "tp") == 2


def test_families_beside_each_other_are_each_read_once() -> None:
    base = "---\n".join([dedent(LWS), dedent(NIM), dedent(ISVC), dedent(DYNAMO)])
    kinds = ["DynamoGraphDeployment", "InferenceService", "LeaderWorkerSet", "NIMService"]
    found = project(base, "namespace: prod\n")
    assert sorted(plan.kind for plan in found.plans) == kinds
    assert {(plan.file, plan.namespace) for plan in found.plans} == {(OVERLAY, "prod")}
    alone = project(base).plans
    assert [stated(plan, "tp") for plan in alone] == [stated(p, "tp") for p in found.plans]


# ---------------------------------------------------------------------------------- ConfigMaps

MOUNTED = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: scripts}
    data:
      run.sh: |
        exec vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 2
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: chat}
    spec:
      template:
        spec:
          containers:
            - name: vllm
              image: vllm/vllm-openai:v0.11.2
              command: [bash, /scripts/run.sh]
              resources: {limits: {nvidia.com/gpu: 2}}
              volumeMounts: [{name: scripts, mountPath: /scripts}]
          volumes: [{name: scripts, configMap: {name: scripts}}]
"""


def test_a_script_is_that_of_the_config_map_that_is_built() -> None:
    new = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: scripts}
    data:
      run.sh: |
        exec vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 1
    """
    found = patched(MOUNTED, new)
    assert place(found, only(found), "layout.tp") == (PATCH, "1")


def test_a_script_of_a_renamed_config_map() -> None:
    found = project(MOUNTED, "namePrefix: big-\n")
    assert stated(only(found), "tp") == 2


# --------------------------------------------------------------------------------------- edits

FAMILIES = {
    "leaderworkerset": (LWS, "/spec/leaderWorkerTemplate/size"),
    "kserve": (ISVC, "/spec/predictor/minReplicas"),
    "kserve-llm": (LLM, "/spec/replicas"),
    "knative": (KNATIVE, None),
    "ray": (RAY, "/spec/rayClusterConfig/workerGroupSpecs/0/replicas"),
    "dynamo": (DYNAMO, "/spec/services/Worker/replicas"),
    "nim": (NIM, "/spec/replicas"),
    **OTHERS,
}
FIELDS = ("tp", "pp", "dp", "gpus_per_pod", "nodes", "replicas", "max_replicas", "shm_bytes",
          "max_model_len", "kv_cache_dtype")  # fmt: skip
LABELS = "commonAnnotations: {owner: me}\n"


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("field", FIELDS)
def test_an_edit_of_what_is_built_reads_back_or_is_refused(name: str, field: str) -> None:
    base, path = FAMILIES[name]
    found = project(base, LABELS)
    if path is not None:
        found = operated(base, f"{{op: replace, path: {path}, value: 3}}")
    plan = only(found)
    wanted = {"shm_bytes": 2**34, "kv_cache_dtype": "fp8", "max_model_len": 2048}.get(field, 4)
    made = plan.sites[field].set(str(wanted)) if field in plan.sites else Refusal("no site")
    if not isinstance(made, Refusal):
        again = only(after(found, plan, field, str(wanted)))
        assert stated(again, field) == wanted
        assert all(edit.file in (OVERLAY, "base/all.yaml") for edit in made)


def test_nothing_is_added_to_a_map_of_several_files() -> None:
    base = """\
    apiVersion: helm.toolkit.fluxcd.io/v2
    kind: HelmRelease
    metadata: {name: chat}
    spec:
      values:
        servingEngineSpec:
          modelSpec:
            - name: qwen
              repository: vllm/vllm-openai
              tag: v0.11.2
              modelURL: Qwen/Qwen2.5-7B-Instruct
              replicaCount: 1
              requestGPU: 2
              vllmConfig:
                tensorParallelSize: 2
    """
    path = "/spec/values/servingEngineSpec/modelSpec/0"
    found = operated(
        base,
        f"{{op: replace, path: {path}/requestGPU, value: 4}}",
        f"{{op: add, path: {path}/vllmConfig/maxModelLen, value: 8192}}",
    )
    plan = only(found)
    assert place(found, plan, "memory.max_model_len") == (OVERLAY, "8192")
    for field in FIELDS:
        made = plan.sites[field].set("4") if field in plan.sites else Refusal("no site")
        if not isinstance(made, Refusal):
            assert str(stated(only(after(found, plan, field, "4")), field)) == "4"
