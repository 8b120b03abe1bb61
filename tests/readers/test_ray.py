"""Ray: what is read of clusters, services and applications, where, and what can be written."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from harness import check, places, setup
from readers.reading import (
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
from shardlint.project import Project


def service(app: str, cluster: str = "") -> str:
    """A RayService with one application of Ray Serve LLM, and its cluster."""
    inner = indent(dedent(app).strip("\n"), "    ")
    outer = indent(dedent(cluster or WORKERS).strip("\n"), "    ")
    return (
        "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: svc, namespace: ns}\nspec:\n"
        f"  serveConfigV2: |\n{inner}\n  rayClusterConfig:\n{outer}\n"
    )


WORKERS = """
headGroupSpec:
  rayStartParams: {num-gpus: "0"}
  template: {spec: {containers: [{name: h, image: "rayproject/ray-llm:2.52.0"}]}}
workerGroupSpecs:
- groupName: gpu
  replicas: 2
  maxReplicas: 3
  rayStartParams: {}
  template:
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      containers:
      - name: w
        image: rayproject/ray-llm:2.52.0
        resources:
          limits: {memory: 32Gi, nvidia.com/gpu: "4"}
          requests: {nvidia.com/gpu: "4"}
"""

APP = """
applications:
- name: llms
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config:
        model_id: qwen
        model_source: Qwen/Qwen3-8B
      engine_kwargs:
        tensor_parallel_size: 2
        max_model_len: 8192
        gpu_memory_utilization: 0.8
        enable_prefix_caching: false
      deployment_config:
        autoscaling_config: {min_replicas: 1, max_replicas: 4}
"""
TEXT = service(APP)


# ----------------------------------------------------------------------------- Ray Serve LLM


def test_facts_of_a_service() -> None:
    found = plan(TEXT, "svc.yaml")
    assert "vllm" == found.engine
    assert "RayService" == found.kind
    assert "ns/svc/qwen" == found.name
    wanted = {
        "model": "Qwen/Qwen3-8B", "tp": 2, "pp": None, "gpus_per_pod": 4, "nodes": 2,
        "replicas": 1, "max_replicas": 4, "max_model_len": 8192, "gpu_type": "nvidia-l4",
        "gpu_memory_utilization": 0.8,
    }  # fmt: skip
    assert wanted == {name: stated(found, name) for name in wanted}
    assert "2.52.0" == found.tag.only
    assert "qwen" == found.served_name.only
    assert found.memory.prefix_caching.only is False


def test_places_are_those_of_the_outer_file() -> None:
    found = plan(TEXT, "svc.yaml")
    assert "2" == token(TEXT, found, "tp")
    assert TEXT.index("tensor_parallel_size: 2") + 22 == fact(found, "tp").origin.span.start  # type: ignore[union-attr]
    assert "Qwen/Qwen3-8B" == token(TEXT, found, "model")
    assert "4" == token(TEXT, found, "max_replicas")
    assert "0.8" == token(TEXT, found, "gpu_memory_utilization")
    assert "Qwen/Qwen3-8B" == at(TEXT, found.origin)


def test_ray_places_the_ranks() -> None:
    found = plan(TEXT, "svc.yaml")
    assert "ray" == found.effective.executor.only
    assert found.effective.executor.how == "derived"
    assert not found.placement.scheduled


def test_kuberay_makes_dev_shm_as_large_as_the_memory() -> None:
    found = plan(TEXT, "svc.yaml")
    assert 32 * 2**30 == found.placement.shm_bytes.only
    assert "derived" == found.placement.shm_bytes.how


def test_a_stated_option_is_written_where_it_stands() -> None:
    found = plan(TEXT, "svc.yaml")
    after = edited(TEXT, found, "tp", "4")
    assert TEXT.replace("tensor_parallel_size: 2", "tensor_parallel_size: 4") == after
    assert 4 == stated(plan(after, "svc.yaml"), "tp")


def test_an_option_that_is_not_there_becomes_a_key() -> None:
    after = edited(TEXT, plan(TEXT, "svc.yaml"), "pp", "2")
    assert 2 == stated(plan(after, "svc.yaml"), "pp")
    assert "        enable_prefix_caching: false\n            pipeline_parallel_size: 2\n" in after


def test_engine_kwargs_are_made_where_there_are_none() -> None:
    text = service("""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {model_id: Qwen/Qwen3-8B}
              accelerator_type: L4
    """)
    found = plan(text, "svc.yaml")
    assert ("Qwen/Qwen3-8B", "L4") == (stated(found, "model"), stated(found, "gpu_type"))
    assert ["L4"] == [device.name for device in found.placement.gpu.values]
    after = edited(text, found, "tp", "2")
    assert 2 == stated(plan(after, "svc.yaml"), "tp")


def test_gpus_of_a_pod_are_written_in_limits_and_requests() -> None:
    after = edited(TEXT, plan(TEXT, "svc.yaml"), "gpus_per_pod", "8")
    assert 2 == after.count('nvidia.com/gpu: "8"')


def test_replicas_have_sites() -> None:
    found = plan(TEXT, "svc.yaml")
    assert "max_replicas: 2}" in edited(TEXT, found, "max_replicas", "2")
    assert "{min_replicas: 2," in edited(TEXT, found, "replicas", "2")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("engine_kwargs: {model: x}", "Ray Serve LLM refuses model in engine_kwargs"),
        (
            "engine_kwargs: {distributed_executor_backend: mp}",
            "Ray Serve LLM refuses distributed_executor_backend mp on GPUs",
        ),
        (
            "deployment_config: {placement_group_strategy: PACK}",
            "Ray Serve LLM refuses placement_group_strategy in deployment_config",
        ),
        (
            "placement_group_config: {strategy: PACK}",
            "placement_group_config without bundles is refused",
        ),
        (
            "placement_group_config: {bundles: [{GPU: 1}, {GPU: 1}]}",
            "the bundles hold 2 GPUs, TP 1 × PP 1 is 1",
        ),
        (
            "placement_group_config: {bundles: [{GPU: 1}], bundle_per_worker: {GPU: 1}}",
            "bundles and bundle_per_worker exclude one another",
        ),
        (
            "placement_group_config: {bundles: [{CPU: 4}]}",
            "no bundle asks for a GPU: older releases of Ray Serve LLM give each of them one,"
            " newer ones none, and the engine then looks for CPUs",
        ),
        (
            "experimental_configs: {num_router_replicas: 2}",
            "Ray Serve LLM refuses num_router_replicas: it is called num_ingress_replicas now",
        ),
        (
            "engine_kwargs: {disable_log_stats: true}",
            "Ray Serve LLM refuses disable_log_stats while it logs the metrics of the engine",
        ),
        (
            "engine_kwargs: {tensor_parallel_size: 2}\n              placement_group_config:"
            " {bundle_per_worker: {GPU: 1}, strategy: SPREAD}",
            "SPREAD asks for the 2 ranks of tensor parallelism on different nodes: every layer"
            " then waits for the network",
        ),
    ],
)
def test_what_ray_serve_llm_refuses_is_told(config: str, message: str) -> None:
    text = service(f"""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {{model_id: Qwen/Qwen3-8B}}
              {config}
    """)
    found = [f for f in check(text, "svc.yaml").findings if f.name == "value-conflict"]
    assert [message] == [f.message for f in found]
    assert ["warning"] == [f.severity for f in found]


def test_a_replica_that_must_stay_on_one_small_node_is_told() -> None:
    text = service("""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {model_id: Qwen/Qwen3-8B}
              engine_kwargs: {tensor_parallel_size: 8}
              placement_group_config: {bundle_per_worker: {GPU: 1}, strategy: STRICT_PACK}
    """)
    found = [f for f in check(text, "svc.yaml").findings if f.name == "value-conflict"]
    assert ["STRICT_PACK keeps 8 GPUs on one node, a pod has 4: it never finds one"] == [
        f.message for f in found
    ]


@pytest.mark.parametrize(("ranks", "told"), [(4, False), (8, True)])
def test_a_group_of_data_parallel_ranks_needs_a_place_for_all_of_them(
    ranks: int, told: bool
) -> None:
    text = service(f"""
        applications:
        - import_path: ray.serve.llm:build_dp_openai_app
          args:
            llm_configs:
            - model_loading_config: {{model_id: Qwen/Qwen3-8B}}
              engine_kwargs: {{tensor_parallel_size: 2, data_parallel_size: {ranks}}}
    """)
    said = (
        "one group of 8 data parallel ranks takes 16 GPUs, the Ray cluster has 12 at most: it is"
        " never placed"
    )
    assert told == (said in [finding.message for finding in check(text, "svc.yaml").findings])


def test_logs_of_the_engine_may_be_off_where_its_metrics_are() -> None:
    text = service("""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {model_id: Qwen/Qwen3-8B}
              engine_kwargs: {disable_log_stats: true}
              log_engine_metrics: false
    """)
    assert "value-conflict" not in names(check(text, "svc.yaml").findings)


def test_bundles_that_hold_the_ranks_are_no_finding() -> None:
    text = service("""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {model_id: Qwen/Qwen3-8B}
              engine_kwargs: {tensor_parallel_size: 2}
              placement_group_config: {bundles: [{GPU: 1}, {GPU: 1, CPU: 2}]}
    """)
    assert "value-conflict" not in names(check(text, "svc.yaml").findings)


def test_a_misspelt_argument_is_told_and_not_an_error() -> None:
    text = TEXT.replace("max_model_len", "max_model_lenn")
    found = [f for f in check(text, "svc.yaml").findings if f.name == "flag-unknown"]
    assert ["warning"] == [f.severity for f in found]


def test_names_of_arguments_are_not_short() -> None:
    text = TEXT.replace("gpu_memory_utilization", "gpu_memory_util")
    found = names(check(text, "svc.yaml").findings)
    assert "flag-unknown" in found
    assert "flag-abbreviated" not in found


def test_an_argument_that_only_some_releases_have_is_left_alone() -> None:
    text = TEXT.replace("gpu_memory_utilization: 0.8", "device: auto")
    assert "flag-unknown" not in names(check(text, "svc.yaml").findings)


@pytest.mark.parametrize(
    ("source", "model"),
    [
        ("{model_id: a/b}", "a/b"),
        ("{model_id: a, model_source: org/m}", "org/m"),
        ("{model_id: a, model_source: {bucket_uri: s3://b/m}}", "s3://b/m"),
    ],
)
def test_where_the_model_comes_from(source: str, model: str) -> None:
    text = service(f"""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args: {{llm_configs: [{{model_loading_config: {source}}}]}}
    """)
    assert model == stated(plan(text, "svc.yaml"), "model")


def test_prefill_and_decode_are_two_plans() -> None:
    text = service("""
        applications:
        - import_path: ray.serve.llm:build_pd_openai_app
          args:
            prefill_config:
              model_loading_config: {model_id: Qwen/Qwen3-8B}
            decode_config:
              model_loading_config: {model_id: Qwen/Qwen3-8B}
              engine_kwargs: {tensor_parallel_size: 2}
    """)
    found = plans(text, "svc.yaml")
    assert ["prefill", "decode"] == [each.role for each in found]
    assert [None, 2] == [stated(each, "tp") for each in found]


def test_another_engine_is_not_read() -> None:
    text = service("""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {model_id: a/b}
              server_cls: my.module:SGLangServer
    """)
    assert () == plans(text, "svc.yaml")


def test_values_that_are_filled_in_elsewhere_are_unknown() -> None:
    text = TEXT.replace("tensor_parallel_size: 2", "tensor_parallel_size: ${TP}")
    found = plan(text, "svc.yaml")
    assert stated(found, "tp") is None
    assert "${TP}" in (why(found, "tp") or "")


def test_replicas_that_serve_chooses_itself_are_unknown() -> None:
    text = TEXT.replace(
        "autoscaling_config: {min_replicas: 1, max_replicas: 4}", "num_replicas: auto"
    )
    assert "'auto' is not a whole number" == why(plan(text, "svc.yaml"), "replicas")


def test_inner_text_that_is_no_yaml_is_a_problem_at_its_place() -> None:
    text = TEXT.replace("- name: llms", "- name: [llms")
    (problem,) = project(text, "svc.yaml").problems
    assert problem.message.startswith("serveConfigV2: ")
    assert problem.origin.span.start > text.index("applications")


def test_a_template_in_the_text_is_no_problem() -> None:
    text = TEXT.replace("- name: llms", "- name: {{ name }}{{ x }}")
    assert () == project(text, "svc.yaml").problems


def test_a_comment_in_the_text_suppresses() -> None:
    text = service("""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {model_id: Qwen/Qwen3-8B}
              engine_kwargs:
                tensor_parallel_size: 3  # shardlint: ignore[tp-heads-indivisible] to try it
    """)
    assert "tp-heads-indivisible" not in names(check(text, "svc.yaml").findings)
    assert "tp-heads-indivisible" in names(
        check(text.replace("shardlint", "x"), "svc.yaml").findings
    )


# ----------------------------------------------------------------------------------- routers


@pytest.mark.parametrize(
    ("config", "policy", "explicit", "awareness"),
    [
        ("{}", "PowerOfTwoChoices", False, {"load"}),
        (
            "{request_router_config: {request_router_class: "
            "ray.serve.llm.request_router.PrefixCacheAffinityRouter,"
            " request_router_kwargs: {imbalanced_threshold: .inf}}}",
            "PrefixCacheAffinityRouter", True, {"prefix"},
        ),
        (
            "{request_router_config: {request_router_class: "
            "ray.serve.llm.request_router.PrefixCacheAffinityRouter,"
            " request_router_kwargs: {imbalanced_threshold: 10}}}",
            "PrefixCacheAffinityRouter", True, {"prefix", "load"},
        ),
    ],
)  # fmt: skip
def test_the_policy_of_the_router(
    config: str, policy: str, explicit: bool, awareness: set[str]
) -> None:
    text = service(f"""
        applications:
        - import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {{model_id: Qwen/Qwen3-8B}}
              deployment_config: {config}
    """)
    (router,) = routers(text, "svc.yaml")
    assert (policy, explicit) == (router.policy.only, router.explicit)
    assert awareness == set(router.awareness)
    assert (plan(text, "svc.yaml").id,) == router.backends


@pytest.mark.parametrize(
    ("tag", "awareness"),
    [("2.53.0-py311-cu128", {"prefix", "load"}), ("2.54.0", {"prefix"}), ("nightly", {"prefix"})],
)
def test_affinity_gives_way_to_load_by_itself_in_older_releases(
    tag: str, awareness: set[str]
) -> None:
    text = (
        "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: llm}\nspec:\n"
        "  serveConfigV2: |\n    applications:\n"
        "    - import_path: ray.serve.llm:build_openai_app\n      args:\n        llm_configs:\n"
        "        - model_loading_config: {model_id: Qwen/Qwen3-8B}\n"
        "          deployment_config: {num_replicas: 4, request_router_config:"
        " {request_router_class: ray.serve.llm.request_router.PrefixCacheAffinityRouter}}\n"
        "  rayClusterConfig:\n    headGroupSpec:\n      template: {spec: {containers:"
        f" [{{name: head, image: 'rayproject/ray-llm:{tag}'}}]}}}}\n"
    )
    (router,) = routers(text, "svc.yaml")
    assert set(router.awareness) == awareness
    assert bool(router.assumes) == (tag == "nightly")


# ----------------------------------------------------------------------------------- clusters


@pytest.mark.parametrize(
    ("group", "gpus"),
    [
        ("rayStartParams: {}", 4),
        ('rayStartParams: {num-gpus: "2"}', 2),
        ('rayStartParams: {}, resources: {GPU: "1"}', 1),
        ('rayStartParams: {num-gpus: "2"}, resources: {GPU: "1"}', 1),
    ],
)
def test_devices_of_a_ray_node(group: str, gpus: int) -> None:
    cluster = f"""
        workerGroupSpecs:
        - {{groupName: g, replicas: 2, numOfHosts: 2, {group}, template: {{spec: {{containers:
            [{{name: w, image: i, resources: {{limits: {{nvidia.com/gpu: 4}}}}}}]}}}}}}
    """
    found = plan(service(APP, cluster), "svc.yaml")
    assert gpus == stated(found, "gpus_per_pod")
    assert 4 == stated(found, "nodes")


def test_devices_that_ray_does_not_see() -> None:
    cluster = """
        workerGroupSpecs:
        - groupName: g
          replicas: 1
          template: {spec: {containers: [{name: w, image: i, command: [vllm, serve, a/b],
            resources: {limits: {habana.ai/gaudi: 8}}}]}}
    """
    text = service(APP, cluster)
    found = [f for f in check(text, "svc.yaml").findings if f.name == "config-ignored"]
    assert ["KubeRay does not hand habana.ai/gaudi to Ray, which then sees no GPU"] == [
        f.message for f in found
    ]


def test_another_count_than_the_container_gets_is_told() -> None:
    cluster = WORKERS.replace("rayStartParams: {}", 'rayStartParams: {num-gpus: "8"}')
    found = check(service(APP, cluster), "svc.yaml").findings
    assert "Ray is told of 8 GPUs, the container gets 4" in [f.message for f in found]


def test_groups_of_different_pods_leave_the_count_open() -> None:
    other = """
- groupName: big
  replicas: 1
  template: {spec: {containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}
"""
    found = plan(service(APP, WORKERS + other), "svc.yaml")
    assert "the groups of the Ray cluster have different devices" == why(found, "gpus_per_pod")
    assert 3 == stated(found, "nodes")


def test_the_card_that_is_asked_for_chooses_the_group() -> None:
    other = """
- groupName: big
  replicas: 1
  template:
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}
      containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]
"""
    app = APP.replace("  deployment_config", "  accelerator_type: H100\n      deployment_config")
    found = plan(service(app, WORKERS + other), "svc.yaml")
    assert 8 == stated(found, "gpus_per_pod")


def test_more_replicas_than_the_cluster_holds() -> None:
    app = APP.replace("autoscaling_config: {min_replicas: 1, max_replicas: 4}", "num_replicas: 7")
    text = service(app)
    found = check(text, "svc.yaml").findings
    assert ("replicas-exceed-capacity", "error", "7") in places(found, text)
    (exceeds,) = [f for f in found if f.name == "replicas-exceed-capacity"]
    assert exceeds.message == "7 replicas × 2 GPUs, the cluster has 12 at most: 1 never starts"
    assert ["replicas 6"] == [fix.title for fix in exceeds.fixes]


def test_an_upper_bound_out_of_reach_is_a_warning() -> None:
    text = service(APP.replace("max_replicas: 4", "max_replicas: 9"))
    found = check(text, "svc.yaml").findings
    assert ("replicas-exceed-capacity", "warning", "9") in places(found, text)


@pytest.mark.parametrize(
    "change",
    [
        ("replicas: 2\n  maxReplicas: 3", "replicas: ${N}"),
        ("tensor_parallel_size: 2", "tensor_parallel_size: ${TP}"),
        (
            "engine_kwargs:",
            "placement_group_config: {bundles: [{CPU: 1}]}\n          engine_kwargs:",
        ),
    ],
)
def test_nothing_is_said_of_a_cluster_that_is_not_known(change: tuple[str, str]) -> None:
    text = service(APP.replace("max_replicas: 4", "max_replicas: 90")).replace(*change)
    if "${N}" in change[1]:
        text = text.replace("replicas: 2\n      maxReplicas: 3", "replicas: ${N}")
    assert "replicas-exceed-capacity" not in names(check(text, "svc.yaml").findings)


def test_an_autoscaled_group_without_a_bound_holds_anything() -> None:
    cluster = "enableInTreeAutoscaling: true\n" + WORKERS.replace("  maxReplicas: 3\n", "")
    text = service(APP.replace("max_replicas: 4", "max_replicas: 90"), cluster)
    assert "replicas-exceed-capacity" not in names(check(text, "svc.yaml").findings)


def test_tensor_parallelism_over_small_pods_crosses_nodes() -> None:
    text = service(APP.replace("tensor_parallel_size: 2", "tensor_parallel_size: 8"))
    found = check(text, "svc.yaml").findings
    assert ("tp-cross-node", "warning", "8") in places(found, text)
    assert "gpu-count-short" not in names(found)


# ---------------------------------------------------------------- engines in the pods themselves

HEAD = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: c}
spec:
  headGroupSpec:
    rayStartParams: {%s}
    template:
      spec:
        containers:
        - name: head
          image: vllm/vllm-openai:v0.11.0
          command: [bash, -c]
          args: ["ray start; vllm serve Qwen/Qwen3-8B -pp 2 --distributed-executor-backend=ray"]
          %s
  workerGroupSpecs:
  - groupName: gpu
    replicas: 2
    template:
      spec:
        containers:
        - {name: w, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: 1}}}
"""


def test_an_engine_of_the_head() -> None:
    text = HEAD % ("", "resources: {limits: {nvidia.com/gpu: 1}}")
    found = plan(text, "c.yaml")
    assert (2, 1, 3) == tuple(stated(found, name) for name in ("pp", "gpus_per_pod", "nodes"))
    assert "ray-head-no-gpu" not in names(check(text, "c.yaml").findings)


def test_a_head_without_gpus_cannot_start_an_engine() -> None:
    text = HEAD % ("num-gpus: '0'", "")
    found = plan(text, "c.yaml")
    assert (1, 2) == (stated(found, "gpus_per_pod"), stated(found, "nodes"))
    result = check(text, "c.yaml").findings
    assert ("ray-head-no-gpu", "warning", "0") in places(result, text)


def test_serve_needs_no_gpu_on_the_head() -> None:
    assert "ray-head-no-gpu" not in names(check(TEXT, "svc.yaml").findings)


def test_a_job_that_starts_an_engine() -> None:
    text = HEAD % ("", "resources: {limits: {nvidia.com/gpu: 1}}")
    cluster = (
        indent(text.split("spec:\n", 1)[1], "  ").replace("command:", "x:").replace("args:", "y:")
    )
    job = (
        "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: j}\nspec:\n"
        "  entrypoint: vllm serve Qwen/Qwen3-8B -tp 2 --distributed-executor-backend ray\n"
        f"  rayClusterSpec:\n{cluster}"
    )
    found = plan(job, "j.yaml")
    assert ("j", 2, 3) == (found.name, stated(found, "tp"), stated(found, "nodes"))
    assert "-tp 4 " in edited(job, found, "tp", "4")


# ------------------------------------------------------------- applications of somebody's own

OWN = service("""
    applications:
    - name: mistral
      import_path: "app:model"
      runtime_env:
        pip: ["vllm==0.8.5", "transformers"]
        env_vars:
          MODEL_ID: org/m
          TENSOR_PARALLELISM: "2"
          MAX_MODEL_LEN: "8192"
      deployments:
      - name: VLLMDeployment
        num_replicas: 1
""")


def test_variables_of_an_own_application_are_read_on_an_assumption() -> None:
    found = plan(OWN, "svc.yaml")
    assert ("org/m", 2, 8192) == tuple(stated(found, n) for n in ("model", "tp", "max_model_len"))
    assert "0.8.5" == found.tag.only
    assert ["0.8.5"] == [item.first for item in found.versions.values]
    said = "the application gives TENSOR_PARALLELISM to the engine as --tensor-parallel-size"
    assert {said} <= fact(found, "tp").assumes


def test_an_own_application_is_no_ground_for_an_error() -> None:
    text = OWN.replace("org/m", "Qwen/Qwen3-8B").replace('ISM: "2"', 'ISM: "3"')
    found = [f for f in check(text, "svc.yaml").findings if f.name == "tp-heads-indivisible"]
    assert ["warning"] == [f.severity for f in found]


def test_a_variable_is_edited_where_it_stands() -> None:
    found = plan(OWN, "svc.yaml")
    assert OWN.replace('ISM: "2"', 'ISM: "4"') == edited(OWN, found, "tp", "4")
    assert "the application decides what to ask of the engine" == refused(found, "pp")


def test_an_application_that_does_not_name_the_engine_is_not_read() -> None:
    text = OWN.replace("vllm==0.8.5", "torch").replace("VLLMDeployment", "Deployment")
    assert () == plans(text, "svc.yaml")


# ---------------------------------------------------------- a configuration without a cluster


def test_a_configuration_by_itself() -> None:
    text = dedent(APP).lstrip()
    found = plan(text, "serve.yaml")
    assert ("ray-serve", 2, None) == (
        found.kind,
        stated(found, "tp"),
        stated(found, "gpus_per_pod"),
    )
    assert 4 == stated(plan(edited(text, found, "tp", "4"), "serve.yaml"), "tp")


def test_an_engine_in_a_file_of_its_own() -> None:
    text = "applications:\n- {import_path: ray.serve.llm:x, args: {llm_configs: [./m.yaml]}}\n"
    other = "model_loading_config: {model_id: org/m}\nengine_kwargs: {tensor_parallel_size: 2}\n"
    read = Project.of_texts(setup(), {"d/serve.yaml": text, "d/m.yaml": other})
    (found,) = read.plans
    assert ("d/serve.yaml", 2) == (found.file, stated(found, "tp"))
    origin = fact(found, "tp").origin
    assert origin is not None
    assert ("d/m.yaml", "2") == (origin.file, at(other, origin))


SERVICE = "apiVersion: ray.io/v1\nkind: RayService\n"
CLUSTER = SERVICE.replace("Service", "Cluster")


@pytest.mark.parametrize(
    "text",
    [
        SERVICE,
        f"{SERVICE}spec: []\n",
        f"{SERVICE}spec: {{serveConfigV2: [], rayClusterConfig: 5}}\n",
        f"{SERVICE}spec: {{serveConfigV2: '5'}}\n",
        f"{SERVICE}spec: {{serveConfigV2: 'applications: [5, {{args: []}}]'}}\n",
        f"{CLUSTER}spec: {{headGroupSpec: {{template: []}}, workerGroupSpecs: [1]}}\n",
        f"{SERVICE.replace('Service', 'Job')}spec: {{entrypoint: vllm serve m}}\n",
        "applications: [{import_path: ray.serve.llm:x, args: {llm_configs: [[], 5, {}]}}]\n",
        "applications: [{import_path: x, args: {llm_configs: [{engine_kwargs: 5}]}}]\n",
    ],
)
def test_odd_input_is_survived(text: str) -> None:
    assert () == project(text, "a.yaml").broken
    assert () == plans(text, "a.yaml")


def test_one_replica_that_the_whole_cluster_does_not_hold() -> None:
    text = service(APP.replace("tensor_parallel_size: 2", "tensor_parallel_size: 16"))
    found = check(text, "svc.yaml").findings
    assert ("gpu-count-short", "error", "16") in places(found, text)
    assert "replicas-exceed-capacity" not in names(found)


def test_a_replica_that_fits_the_cluster_at_its_largest_is_no_finding() -> None:
    text = service(APP.replace("tensor_parallel_size: 2", "pipeline_parallel_size: 12"))
    assert "gpu-count-short" not in names(check(text, "svc.yaml").findings)


def test_the_engine_of_a_head_has_its_whole_cluster() -> None:
    text = HEAD % ("", "resources: {limits: {nvidia.com/gpu: 1}}")
    assert "gpu-count-short" not in names(check(text.replace("-pp 2", "-pp 3"), "c.yaml").findings)
    found = check(text.replace("-pp 2", "-pp 4"), "c.yaml").findings
    assert "gpu-count-short" in names(found)
    assert "replicas-exceed-capacity" not in names(found)


def test_arguments_of_an_own_application_are_read_like_its_variables() -> None:
    text = service("""
        applications:
        - import_path: "vllm_app:build"
          args: {model: org/m, tensor-parallel-size: 2, accelerator: GPU}
    """)
    found = plan(text, "svc.yaml")
    assert ("org/m", 2) == (stated(found, "model"), stated(found, "tp"))
    assert text.replace("size: 2", "size: 4") == edited(text, found, "tp", "4")


def test_a_part_of_a_cluster_does_not_tell_its_size() -> None:
    workers = WORKERS[WORKERS.index("workerGroupSpecs") :]
    text = service(APP.replace("max_replicas: 4", "max_replicas: 90"), workers)
    assert "replicas-exceed-capacity" not in names(check(text, "svc.yaml").findings)


def test_unsafe_fixes_lead_to_a_service_that_fits() -> None:
    from shardlint.fixes import apply_fixes

    text = service(APP.replace("max_replicas: 4", "max_replicas: 9"))
    after = apply_fixes(project(text, "svc.yaml"), unsafe=True)
    fixed = after.project.sources["svc.yaml"].text
    assert text.replace("max_replicas: 9", "max_replicas: 6") == fixed


def test_the_card_is_that_of_the_pods_with_devices() -> None:
    wanted = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}"
    head, _, workers = (HEAD % ("num-gpus: '0'", "")).rpartition("        containers:\n")
    text = f"{head}        {wanted}\n        containers:\n{workers}"
    found = plan(text, "c.yaml")
    assert ("NVIDIA-L40S", "NVIDIA-L40S") == (
        stated(found, "gpu_type"), token(text, found, "gpu_type"),
    )  # fmt: skip
    other = workers.replace("name: w", "name: o").replace("gpu: 1", "gpu: 2")
    two = f"{text}  - groupName: other\n    template:\n      spec:\n        containers:\n{other}"
    assert fact(plan(two, "c.yaml"), "gpu_type").is_unset
