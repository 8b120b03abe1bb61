"""NVIDIA Dynamo: components of a graph, what its operator makes of them."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from readers.reading import (
    at,
    edited,
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
from shardlint.linter import lint
from shardlint.plan import Remark
from shardlint.platforms import dynamo
from shardlint.platforms.dynamo import Asked

FILE = "graph.yaml"

OLDER = dedent(
    """\
    apiVersion: nvidia.com/v1alpha1
    kind: DynamoGraphDeployment
    metadata: {name: llm, namespace: inference}
    spec:
      envs:
      - {name: HF_HOME, value: /models}
      - {name: NCCL_DEBUG, value: WARN}
      services:
        Frontend:
          componentType: frontend
          extraPodSpec:
            mainContainer:
              image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.0
        Decode:
          componentType: worker
          subComponentType: decode
          replicas: 3
          multinode:
            nodeCount: 2
          envs:
          - {name: NCCL_DEBUG, value: INFO}
          resources:
            limits:
              gpu: "8"
          extraPodSpec:
            nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
            mainContainer:
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.0
              command: [python3, -m, dynamo.vllm]
              args:
              - --model
              - Qwen/Qwen3-32B
              - --tensor-parallel-size
              - "16"
              - --migration-limit
              - "3"
    """
)

NEWER = dedent(
    """\
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
      name: llm
    spec:
      components:
      - name: prefill
        type: prefill
        replicas: 1
        sharedMemorySize: 16Gi
        podTemplate:
          metadata:
            labels: {app: prefill}
          spec:
            containers:
            - name: sidecar
              image: busybox
            - name: main
              image: registry/sglang-runtime:1.0
              command: [sh, -c]
              args:
              - >-
                python3 -m dynamo.sglang --model-path org/m
                --tp 4 --mem-fraction-static 0.8
              resources:
                limits:
                  nvidia.com/gpu: "4"
    """
)


def with_words(*words: str) -> str:
    """The older shape with these arguments behind the model."""
    start, _, _ = OLDER.partition("args:")
    shown = json.dumps(["--model", "Qwen/Qwen3-32B", *words])
    return f"{start}args: {shown}\n"


def with_key(text: str, line: str) -> str:
    """With one more key in the main container of the older shape."""
    return text.replace("command: [", f"{line}\n          command: [")


def remarks(text: str) -> list[Remark]:
    return [remark for remark in plan(text, FILE).remarks if remark.kind == "ignored"]


def effective(text: str, field: str) -> object:
    return getattr(plan(text, FILE).effective, field).only


# --------------------------------------------------------------------------------------- facts


def test_services_of_the_older_shape() -> None:
    found = plan(OLDER, FILE)
    assert "0:/spec/services/Decode/extraPodSpec/mainContainer" == found.path
    assert ("DynamoGraphDeployment", "inference/llm/Decode") == (found.kind, found.name)
    assert ("vllm", "decode", "dynamo") == (found.engine, found.role, found.platform)
    facts = ("model", "tp", "gpus_per_pod", "nodes", "replicas", "gpu_type")
    wanted = ["Qwen/Qwen3-32B", 16, 8, 2, 3, "NVIDIA-H200"]
    assert wanted == [stated(found, fact) for fact in facts]
    assert ("8", "2", "3") == tuple(
        token(OLDER, found, fact) for fact in ("gpus_per_pod", "nodes", "replicas")
    )
    assert "1.3.0" == found.tag.only
    assert "gpu" == found.placement.device_kind.only


def test_components_of_the_newer_shape() -> None:
    found = plan(NEWER, FILE)
    assert "0:/spec/components/0/podTemplate/spec/containers/1" == found.path
    assert ("sglang", "prefill") == (found.engine, found.role)
    facts = ("model", "tp", "gpus_per_pod", "nodes", "gpu_memory_utilization", "shm_bytes")
    assert ["org/m", 4, 4, 1, 0.8, 16 * 2**30] == [stated(found, fact) for fact in facts]
    assert {"app": "prefill"} == dict(found.labels)


def test_one_component_is_an_object_of_its_own_too() -> None:
    text = dedent(
        """\
        apiVersion: nvidia.com/v1alpha1
        kind: DynamoComponentDeployment
        metadata: {name: decode}
        spec:
          backendFramework: vllm
          componentType: worker
          replicas: 2
          resources: {limits: {gpu: "1"}}
          extraPodSpec:
            mainContainer:
              image: registry/vllm-runtime:1.0
              args: [--model, Qwen/Qwen3-8B]
        """
    )
    found = plan(text, FILE)
    assert ("vllm", "worker") == (found.engine, found.role)
    facts = [stated(found, fact) for fact in ("model", "gpus_per_pod", "replicas")]
    assert ["Qwen/Qwen3-8B", 1, 2] == facts


def test_variables_of_the_graph_count_less_than_those_of_the_component() -> None:
    found = plan(OLDER, FILE)
    assert "INFO" == found.placement.env["NCCL_DEBUG"].only
    own = with_key(OLDER, "env: [{name: NCCL_DEBUG, value: TRACE}]")
    assert "TRACE" == plan(own, FILE).placement.env["NCCL_DEBUG"].only
    other = OLDER.replace("value: INFO", "value: $(HF_HOME)")
    assert not plan(other, FILE).placement.env["NCCL_DEBUG"].is_known


def test_the_role_is_told_by_an_option_where_the_component_does_not() -> None:
    for words, role in (
        ((), "worker"),
        (("--disaggregation-mode", "prefill"), "prefill"),
        (("--disaggregation-mode=decode",), "decode"),
        (("--is-prefill-worker",), "prefill"),
    ):
        text = with_words(*words).replace("      subComponentType: decode\n", "")
        assert role == plan(text, FILE).role


def test_other_resources_of_the_older_shape() -> None:
    neuron = OLDER.replace('gpu: "8"', 'gpu: "8"\n          gpuType: aws.amazon.com/neuron')
    said = "aws.amazon.com/neuron does not count devices"
    assert said == why(plan(neuron, FILE), "gpus_per_pod")
    xe = OLDER.replace('gpu: "8"', 'gpu: "8"\n          gpuType: gpu.intel.com/xe')
    cards = plan(xe, FILE).placement.gpus_per_pod
    assert (8, {"each gpu.intel.com/xe is one device"}) == (cards.only, set(cards.assumes))
    mig = OLDER.replace('gpu: "8"', "custom: {nvidia.com/mig-1g.10gb: 2}")
    assert 2 == stated(plan(mig, FILE), "gpus_per_pod")
    claims = OLDER.replace('limits:\n          gpu: "8"', "claims: [{name: gpu}]")
    assert "claim" in (why(plan(claims, FILE), "gpus_per_pod") or "")
    assert "'{{ gpus }}'" in (
        why(plan(OLDER.replace('"8"', '"{{ gpus }}"'), FILE), "gpus_per_pod") or ""
    )


# ----------------------------------------------------------------------------- files of options

MOUNTED = dedent(
    """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: options}
    data:
      decode.yaml: |
        # sizes
        tensor_parallel_size: 8
        kv_cache_config:
          free_gpu_memory_fraction: 0.7
          dtype: fp8
        max_seq_len: 4096
    ---
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata: {name: llm}
    spec:
      components:
      - name: decode
        type: decode
        podTemplate:
          spec:
            containers:
            - name: main
              image: registry/tensorrtllm-runtime:1.0
              workingDir: /workspace
              command: [python3, -m, dynamo.trtllm]
              args: [--model-path, org/m, --extra-engine-args, conf/decode.yaml]
              volumeMounts:
              - {name: conf, mountPath: /workspace/conf}
            volumes:
            - {name: conf, configMap: {name: options}}
    """
)


def test_options_in_a_mounted_config_map() -> None:
    found = plan(MOUNTED, FILE)
    facts = ("model", "tp", "gpu_memory_utilization", "kv_cache_dtype", "max_model_len")
    assert ["org/m", 8, 0.7, "fp8", 4096] == [stated(found, fact) for fact in facts]
    assert "8" == token(MOUNTED, found, "tp")
    assert "0.7" == token(MOUNTED, found, "gpu_memory_utilization")
    assert found.open_ended is not None


def test_switches_in_a_file_are_no_model() -> None:
    text = MOUNTED.replace(
        "    # sizes\n", "    trust_remote_code: true\n    a: false\n    b: []\n"
    )
    text = text.replace("--model-path, org/m, ", "")
    found = plan(text, FILE)
    assert (None, 8) == (stated(found, "model"), stated(found, "tp"))


def test_one_file_of_a_config_map() -> None:
    text = MOUNTED.replace(
        "mountPath: /workspace/conf}",
        "mountPath: /workspace/conf/decode.yaml, subPath: decode.yaml}",
    )
    assert 8 == stated(plan(text, FILE), "tp")
    renamed = MOUNTED.replace(
        "configMap: {name: options}",
        "configMap: {name: options, items: [{key: decode.yaml, path: decode.yaml}]}",
    )
    assert 8 == stated(plan(renamed, FILE), "tp")


def test_what_file_and_command_line_say_differently_is_not_known() -> None:
    both = "--tensor-parallel-size, '4', --extra-engine-args"
    text = MOUNTED.replace("--extra-engine-args", both)
    assert "it is given twice, with different values" == why(plan(text, FILE), "tp")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{name: options}\ndata", "{name: others}\ndata"),
        ("mountPath: /workspace/conf", "mountPath: /elsewhere"),
        ("conf/decode.yaml]", "conf/prefill.yaml]"),
        ("tensor_parallel_size: 8", "tensor_parallel_size: ["),
    ],
)
def test_a_file_that_is_not_there_says_nothing(old: str, new: str) -> None:
    found = plan(MOUNTED.replace(old, new), FILE)
    assert (None, "org/m") == (stated(found, "tp"), stated(found, "model"))


# ------------------------------------------------------------------------------- several pods each


def test_what_the_operator_reads() -> None:
    line = "python3 -m dynamo.vllm --tensor-parallel-size 4 --data-parallel-size 2"
    assert Asked(tp=4, dp=2, elastic=True) == dynamo.seen([f"{line} --enable-elastic-ep"])
    assert Asked(tp=4) == dynamo.seen(["--tensor-parallel-size", "4", "-pp", "2"])
    assert Asked() == dynamo.seen(["--tensor-parallel-size=4", "--data-parallel-size", "$(DP)"])


@pytest.mark.parametrize(
    ("asked", "gpus", "how"),
    [
        (Asked(tp=16), 8, "nodes"),
        (Asked(tp=8, pp=2), 8, "nodes"),
        (Asked(tp=8, dp=2), 8, "hybrid"),
        (Asked(tp=1, dp=16, elastic=True), 8, "elastic"),
        (Asked(tp=8), 8, "apart"),
        (Asked(tp=8), 0, "apart"),
    ],
)
def test_how_the_operator_joins_pods(asked: Asked, gpus: int, how: str) -> None:
    assert how == dynamo.spread(asked, gpus)


def test_ranks_of_one_engine_over_all_pods() -> None:
    assert (2, "mp") == (effective(OLDER, "nnodes"), effective(OLDER, "executor"))
    assert dynamo.MULTIPROCESSING in plan(OLDER, FILE).effective.nnodes.assumes
    note = 'metadata: {name: llm, annotations: {nvidia.com/vllm-distributed-executor-backend: "X"}'
    by_mp = OLDER.replace("metadata: {name: llm", note.replace("X", "mp"))
    assert {dynamo.AS_READ} == plan(by_mp, FILE).effective.nnodes.assumes
    by_ray = OLDER.replace("metadata: {name: llm", note.replace("X", "ray"))
    assert (1, "ray") == (effective(by_ray, "nnodes"), effective(by_ray, "executor"))
    assert remarks(OLDER) == []


def test_the_executor_that_the_operator_adds_may_be_written_as_well() -> None:
    text = with_words("--tensor-parallel-size", "16", "--distributed-executor-backend", "mp")
    assert (2, "mp") == (effective(text, "nnodes"), effective(text, "executor"))
    result = lint(project(text, FILE)).result
    assert "gpu-count-short" not in names(result.findings)


def test_data_parallel_ranks_in_each_pod() -> None:
    text = with_words("--tensor-parallel-size", "4", "--data-parallel-size", "4")
    assert (2, 4) == (effective(text, "dp_local"), effective(text, "dp"))
    assert remarks(text) == []


def test_sglang_is_told_the_number_of_nodes() -> None:
    text = NEWER.replace("replicas: 1", "replicas: 1\n    multinode: {nodeCount: 2}")
    found = plan(text, FILE)
    assert (2, "derived") == (found.effective.nnodes.only, found.effective.nnodes.how)


@pytest.mark.parametrize("words", [("-tp", "16"), ("--tensor-parallel-size=16",)])
def test_an_option_that_the_operator_does_not_know(words: tuple[str, ...]) -> None:
    text = with_words(*words)
    (remark,) = remarks(text)
    assert "16" == at(text, remark.at)
    assert "each of the 2 pods starts an engine of its own" in remark.message
    assert "write `--tensor-parallel-size 16` in `args`" == remark.help
    found = plan(text, FILE)
    assert (1, {dynamo.AS_READ}) == (found.effective.nnodes.only, found.effective.nnodes.assumes)
    result = lint(project(text, FILE)).result
    assert [] == [f for f in result.findings if f.severity == "error"]
    assert "config-ignored" in names(result.findings)


def test_options_in_the_command_are_not_read_by_the_operator() -> None:
    text = with_words().replace("dynamo.vllm]", "dynamo.vllm, --tensor-parallel-size, '16']")
    (remark,) = remarks(text)
    assert "16" == at(text, remark.at)
    shell = with_words().replace("command: [python3, -m, dynamo.vllm]", "command: [sh, -c]")
    line = "python3 -m dynamo.vllm --model m --tensor-parallel-size 16"
    shell = shell[: shell.index("args:")] + f"args: [{line}]\n"
    assert (2, []) == (effective(shell, "nnodes"), remarks(shell))


def test_a_command_line_may_join_the_pods_itself() -> None:
    own = ("-tp", "16", "--nnodes", "2", "--node-rank", "$(RANK)", "--master-addr", "x")
    assert [] == remarks(with_words(*own))
    local = ("-dp", "16", "--data-parallel-size-local", "8")
    assert [] == remarks(with_words(*local))


def test_pods_that_nothing_joins() -> None:
    text = OLDER.replace('- "16"', '- "8"')
    (remark,) = remarks(text)
    assert ("2", "warning") == (at(text, remark.at), remark.severity)
    assert "TP 8 fits into one pod of 8 GPUs" in remark.message


def test_nothing_is_said_of_what_is_not_certain() -> None:
    assert [] == remarks(OLDER.replace('- "16"', '- "{{ tp }}"'))
    assert [] == remarks(OLDER.replace('gpu: "8"', 'cpu: "8"'))
    assert [] == remarks(OLDER.replace("nodeCount: 2", "nodeCount: ${NODES}"))
    assert [] == remarks(OLDER.replace("nodeCount: 2", "nodeCount: 1"))
    text = OLDER.replace("nodeCount: 2", "nodeCount: 0")
    assert "0 is no number of nodes" == why(plan(text, FILE), "nodes")


# ------------------------------------------------------------------------------- shared memory


def test_the_operator_mounts_shared_memory() -> None:
    found = plan(OLDER, FILE)
    assert (8 * 2**30, "defaulted") == (
        found.placement.shm_bytes.only, found.placement.shm_bytes.how,
    )  # fmt: skip
    text = edited(OLDER, found, "shm_bytes", str(32 * 2**30))
    assert 32 * 2**30 == stated(plan(text, FILE), "shm_bytes")
    assert len(text.splitlines()) == len(OLDER.splitlines()) + 2
    again = edited(text, plan(text, FILE), "shm_bytes", str(2**30))
    assert again == text.replace("32Gi", "1Gi")


def test_a_mount_of_its_own_is_dropped() -> None:
    text = with_key(OLDER, "volumeMounts: [{name: shm, mountPath: /dev/shm}]")
    (remark,) = remarks(text)
    assert ("/dev/shm", "warning") == (at(text, remark.at), remark.severity)
    off = text.replace("replicas: 3", "replicas: 3\n      sharedMemory: {disabled: true}")
    assert [] == remarks(off)


def test_no_volume_is_mounted_where_it_is_switched_off() -> None:
    text = NEWER.replace("sharedMemorySize: 16Gi", "sharedMemorySize: 0")
    assert 64 * 2**20 == plan(text, FILE).placement.shm_bytes.only


def test_autoscaling_of_the_older_shape_does_nothing() -> None:
    text = OLDER.replace("replicas: 3", "replicas: 3\n      autoscaling: {enabled: true}")
    (remark,) = remarks(text)
    assert "autoscaling" == at(text, remark.at)


# --------------------------------------------------------------------------------------- sites


@pytest.mark.parametrize(
    ("field", "value", "old", "new"),
    [
        ("gpus_per_pod", "4", 'gpu: "8"', 'gpu: "4"'),
        ("nodes", "4", "nodeCount: 2", "nodeCount: 4"),
        ("replicas", "1", "replicas: 3", "replicas: 1"),
        ("tp", "8", '- "16"', '- "8"'),
    ],
)
def test_what_stands_there_is_replaced(field: str, value: str, old: str, new: str) -> None:
    assert OLDER.replace(old, new) == edited(OLDER, plan(OLDER, FILE), field, value)


def test_what_is_absent_is_written() -> None:
    text = OLDER.replace("      multinode:\n        nodeCount: 2\n", "")
    text = text.replace('      resources:\n        limits:\n          gpu: "8"\n', "")
    text = text.replace("      replicas: 3\n", "")
    for field, value in (("nodes", "4"), ("replicas", "2"), ("gpus_per_pod", "8")):
        made = edited(text, plan(text, FILE), field, value)
        assert int(value) == stated(plan(made, FILE), field)
        assert set(text.splitlines()) <= set(made.splitlines())


# ------------------------------------------------------------------------------------- routers


@pytest.mark.parametrize(
    ("keys", "policy", "explicit", "awareness"),
    [
        ("", "round-robin", False, set()),
        ("env: [{name: DYN_ROUTER_MODE, value: kv}]", "kv", True, {"prefix", "kv", "load"}),
        (
            "args: [--router-mode, least-loaded]\n"
            "          env: [{name: DYN_ROUTER_MODE, value: kv}]",
            "least-loaded", True, {"load"},
        ),
        (
            "command: [sh, -c]\n          args: [DYN_ROUTER_MODE=kv python3 -m dynamo.frontend]",
            "kv", True, {"prefix", "kv", "load"},
        ),
        (
            "command: [sh, -c]\n          args: [python3 -m dynamo.frontend --router-mode=random]",
            "random", True, set(),
        ),
        ("args: [--router-mode, direct]", "direct", True, set()),
        ("env: [{name: DYN_ROUTER_MODE, value: '{{ mode }}'}]", None, False, set()),
    ],
)  # fmt: skip
def test_a_frontend_is_a_router(
    keys: str, policy: str | None, explicit: bool, awareness: set[str]
) -> None:
    image = "image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.0"
    text = OLDER.replace(image, f"{image}\n          {keys}".rstrip())
    (router,) = routers(text, FILE)
    assert (policy, explicit) == (router.policy.only, router.explicit)
    assert awareness == router.awareness
    known = policy not in (None, "direct")
    assert router.backends == ((plan(text, FILE).id,) if known else ())


def test_the_older_variables_of_a_component_choose_the_mode_too() -> None:
    text = OLDER.replace(
        "componentType: frontend",
        "componentType: frontend\n      envs: [{name: DYN_ROUTER_MODE, value: random}]",
    )
    (router,) = routers(text, FILE)
    assert ("random", "random") == (router.policy.only, at(text, router.origin))


# ------------------------------------------------------------------------------------ odd input


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("nvidia.com/v1alpha1", "null"),
        ("nvidia.com/v1alpha1", "[]"),
        ("nvidia.com/v1alpha1", "{services: {a: {extraPodSpec: []}}}"),
        ("nvidia.com/v1alpha1", "{services: [a], envs: a, components: {}}"),
        ("nvidia.com/v1beta1", "{components: {a: 1}}"),
        ("nvidia.com/v1beta1", "{components: [1, [], {}, {podTemplate: {spec: 1}}]}"),
        ("other/v1", "{services: {}}"),
    ],
)
def test_odd_objects_have_no_plan(version: str, spec: str) -> None:
    text = f"apiVersion: {version}\nkind: DynamoGraphDeployment\nspec: {spec}\n"
    assert () == plans(text, FILE)
    assert () == project(text, FILE).broken
    assert () == lint(project(text, FILE)).result.findings


def test_odd_values_are_no_failure() -> None:
    for old in ('"8"', "3\n", "2\n", "DynamoGraph", "[python3, -m, dynamo.vllm]", "decode\n"):
        for new in ("{}", "[]", "[x]", "{a: b}", "null", "-1", "1e3", "{{ x }}"):
            end = "\n" if old.endswith("\n") else ""
            assert () == project(OLDER.replace(old, new + end), FILE).broken


def test_nothing_is_written_beside_a_key_without_a_value_or_into_an_anchor() -> None:
    empty = OLDER.replace("      multinode:\n        nodeCount: 2\n", "      multinode:\n")
    assert "multinode is written without a value" == refused(plan(empty, FILE), "nodes")
    merged = OLDER.replace("      multinode:\n        nodeCount: 2\n", "      <<: *shared\n")
    merged = merged.replace(
        "  services:", "  pvcs: &shared {multinode: {nodeCount: 2}}\n  services:"
    )
    assert 2 == stated(plan(merged, FILE), "nodes")
    assert "multinode is merged from elsewhere" == refused(plan(merged, FILE), "nodes", "4")


def test_the_container_may_ask_for_devices_itself() -> None:
    text = OLDER.replace('      resources:\n        limits:\n          gpu: "8"\n', "")
    text = with_key(text, "resources: {limits: {nvidia.com/gpu: 4}}")
    found = plan(text, FILE)
    assert 4 == stated(found, "gpus_per_pod")
    assert text.replace("gpu: 4", "gpu: 8") == edited(text, found, "gpus_per_pod", "8")
