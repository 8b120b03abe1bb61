"""Objects of kthena: roles as groups of pods, workers whose options are a map."""

from __future__ import annotations

import pytest
from readers.reading import (
    block,
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
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.plugins import Finding

FILE = "kthena.yaml"


def found(text: str) -> tuple[Finding, ...]:
    return lint(project(text, FILE)).result.findings


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


def argv(of: ServingPlan) -> list[str | None]:
    return [word.value for word in of.argv]


# roles


def role(name: str, command: str, more: str = "", worker: str = "", gpus: int = 8) -> str:
    def template(line: str) -> str:
        return (
            "  spec:\n    containers:\n    - name: engine\n      image: vllm/vllm-openai:v0.13.0\n"
            f'      command: [sh, -c, "{line}"]\n'
            f"      resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"
        )

    text = f"- name: {name}\n" + block(more, 2) + "  entryTemplate:\n" + block(template(command), 4)
    return text + (("  workerTemplate:\n" + block(template(worker), 4)) if worker else "")


def serving(*roles: str, spec: str = "replicas: 2") -> str:
    text = "apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: ModelServing\n"
    text += "metadata: {name: big, namespace: ml}\nspec:\n" + block(spec, 2)
    return text + "  template:\n    roles:\n" + "".join(block(each, 4) for each in roles)


LINE = "vllm serve org/m -tp 16 --nnodes $GROUP_SIZE --node-rank $WORKER_INDEX"
ROLE = role("leader", LINE, "replicas: 3\nworkerReplicas: 1", LINE)


def test_an_entry_with_its_workers_is_one_replica() -> None:
    text = serving(ROLE)
    of = read(text)
    assert ("ModelServing", "ml/big/engine", "kthena") == (of.kind, of.name, of.platform)
    assert "0:/spec/template/roles/0/entryTemplate/spec/containers/0" == of.path
    assert (6, 2, 2, 8) == tuple(
        stated(of, name) for name in ("replicas", "nodes", "nnodes", "gpus_per_pod")
    )
    assert ("3", "1") == (token(text, of, "replicas"), token(text, of, "nodes"))
    assert 16 == of.placement.group_devices.only
    assert text.replace("-tp 16", "-tp 8") == edited(text, of, "tp", "8")


def test_a_role_alone_is_one_pod() -> None:
    of = read(serving(role("leader", "vllm serve org/m"), spec="schedulerName: volcano"))
    assert (None, 1, "derived") == (
        stated(of, "replicas"), fact(of, "nodes").only, fact(of, "nodes").how,
    )  # fmt: skip


def test_prefill_and_decode_are_roles_of_their_own() -> None:
    one, other = plans(
        serving(role("prefill", "vllm serve org/m"), role("decode", "vllm serve org/m")), FILE
    )
    assert ("prefill", "decode") == (one.role, other.role)
    assert "prefill" == one.labels["modelserving.volcano.sh/role"]


def test_the_factor_that_can_be_written_is_written() -> None:
    one = serving(role("leader", "vllm serve org/m", "replicas: 1"))
    assert one.replace("replicas: 2", "replicas: 5") == edited(one, read(one), "replicas", "5")
    two = serving(role("leader", "vllm serve org/m", "replicas: 2"), spec="replicas: 1")
    assert two.replace("replicas: 2", "replicas: 5") == edited(two, read(two), "replicas", "5")
    both = serving(ROLE)
    assert "product" in refused(read(both), "replicas")
    assert both.replace("workerReplicas: 1", "workerReplicas: 3") == edited(
        both, read(both), "nodes", "4"
    )


def test_the_scheduler_may_keep_a_group_together() -> None:
    assert "volcano" in (read(serving(ROLE)).placement.packed.reason or "")
    text = serving(ROLE, spec="schedulerName: default-scheduler")
    assert read(text).placement.packed.is_known


def test_what_is_filled_in_is_unknown() -> None:
    text = serving(ROLE.replace("workerReplicas: 1", "workerReplicas: ${N}"), spec="replicas: x")
    of = read(text)
    assert why(of, "nodes") and why(of, "nnodes") and why(of, "replicas")
    assert why(read(serving(ROLE.replace("Replicas: 1", "Replicas: -1"))), "nodes")


def test_a_downloaded_model_gives_the_shape() -> None:
    start = """
    initContainers:
    - image: ghcr.io/volcano-sh/downloader:v0.2.0
      args: [--source, "hf://Qwen/Qwen3-8B", --output-dir, /cache/m/]
    """
    text = serving(role("leader", "vllm serve /cache/m")) + block(start, 10)
    of = read(text)
    assert ("/cache/m", "Qwen/Qwen3-8B") == (of.model.only, of.shape_of.only)
    assert 36 == of.model_facts.only.num_layers  # type: ignore[union-attr]
    assert read(text.replace("/cache/m/", "/cache/n")).model_facts.only is None


# workers of a backend


def booster(worker: str, kind: str = "vLLM", backend: str = "replicas: 2") -> str:
    text = "apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: ModelBooster\n"
    text += "metadata: {name: chat}\nspec:\n  backend:\n    name: chat\n"
    text += f"    type: {kind}\n    modelURI: hf://org/m\n    cacheURI: hostpath://tmp/cache\n"
    return text + block(backend, 4) + "    workers:\n" + block(worker, 4)


def worker(config: str = "", more: str = "", gpus: int = 4, kind: str = "server") -> str:
    text = f"- type: {kind}\n  image: vllm/vllm-openai:v0.13.0\n" + (block(more, 2) if more else "")
    text += f"  resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"
    return text + (("  config:\n" + block(config, 4)) if config else "")


def test_the_keys_of_a_config_are_options() -> None:
    text = booster(
        worker('tensor-parallel-size: 4\nmax_model_len: "8192"\nenforce-eager: ""', "replicas: 3")
    )
    of = read(text)
    assert ("ModelBooster", "chat/server", "org/m") == (of.kind, of.name, of.model.only)
    assert "0:/spec/backend/workers/0" == of.path
    assert (4, 8192, 6, 4, True) == tuple(
        stated(of, n) for n in ("tp", "max_model_len", "replicas", "gpus_per_pod", "enforce_eager")
    )
    assert ("4", "8192", "hf://org/m") == (
        token(text, of, "tp"), token(text, of, "max_model_len"), token(text, of, "model"),
    )  # fmt: skip
    assert argv(of)[:4] == ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model"]


def test_keys_are_written_in_the_config() -> None:
    text = booster(worker("tensor_parallel_size: 4"))
    of = read(text)
    assert text.replace("size: 4", "size: 2") == edited(text, of, "tp", "2")
    assert text + "        pipeline-parallel-size: 2\n" == edited(text, of, "pp", "2")
    assert "no config" in refused(read(booster(worker())), "tp")
    assert text.replace("gpu: 4", "gpu: 8") == edited(text, of, "gpus_per_pod", "8")
    assert "key of a map" in refused(of, "option:1", "")


def test_values_that_are_handed_on_in_another_way() -> None:
    text = booster(
        worker("max-model-len: 1048576\nenable-expert-parallel: true\ncompilation-config: {a: b}")
    )
    of = read(text)
    assert "exponent" in (why(of, "max_model_len") or "")
    assert "true" == argv(of)[argv(of).index("--enable-expert-parallel") + 1]
    assert argv(of)[-1] is None


def test_several_pods_of_a_server_are_joined_by_ray() -> None:
    text = booster(worker("tensor-parallel-size: 4\npipeline-parallel-size: 2", "pods: 2"))
    of = read(text)
    assert (2, 8, "ray") == (stated(of, "nodes"), of.placement.group_devices.only,
                             of.layout.executor.only)  # fmt: skip
    assert not {"gpu-count-short", "node-group-size-mismatch"} & set(names(found(text)))
    short = found(text.replace("pipeline-parallel-size: 2", "pipeline-parallel-size: 4"))
    (one,) = (item for item in short if item.name == "node-group-size-mismatch")
    assert ("error", ()) == (one.severity, one.assumes)


def test_no_pod_is_one_pod() -> None:
    assert 1 == fact(read(booster(worker("", "pods: 0"))), "nodes").only


def test_prefill_and_decode_have_one_pod_each() -> None:
    text = booster(
        worker(kind="prefill", more="pods: 2") + worker(kind="decode"), "vLLMDisaggregated"
    )
    one, other = plans(text, FILE)
    assert ("prefill", "decode", 1) == (one.role, other.role, one.placement.pods_per_group.only)
    assert "eth0" == other.placement.env["GLOO_SOCKET_IFNAME"].only
    (told,) = (item for item in found(text) if item.name == "config-ignored")
    assert ("warning", "2") == (told.severity, text[told.span.start : told.span.end])


def test_workers_that_a_backend_does_not_have_are_reported() -> None:
    text = booster(worker() + worker(kind="prefill"))
    assert "server" == read(text).name.rpartition("/")[2]
    (told,) = (item for item in found(text) if item.name == "config-ignored")
    assert "makes no pods of a prefill worker" in told.message


def test_variables_of_a_backend_reach_the_engine() -> None:
    env = "env:\n- {name: NCCL_DEBUG, value: INFO}\n- {name: NCCL_X, valueFrom: {}}"
    of = read(booster(worker(), backend=env))
    assert ("INFO", None) == tuple(of.placement.env[name].only for name in ("NCCL_DEBUG", "NCCL_X"))
    assert of.placement.shm_ample


@pytest.mark.parametrize("uri", ["${MODEL}", "'{{ model }}'", "[a]", ""])
def test_a_model_that_is_no_text_is_unknown(uri: str) -> None:
    assert read(booster(worker()).replace("hf://org/m", uri)).model.only is None


@pytest.mark.parametrize(
    "text",
    [
        booster(worker(), "MindIE"),
        booster("- 5"),
        booster(worker()).replace("ModelBooster", "ModelRoute"),
        "apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: ModelBooster\nspec: []\n",
        "apiVersion: workload.serving.volcano.sh/v1\nkind: ModelServing\nspec: {template: 5}\n",
    ],
)
def test_what_runs_no_engine_has_no_plan(text: str) -> None:
    assert () == plans(text, FILE)
