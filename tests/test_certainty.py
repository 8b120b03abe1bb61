"""What keeps a finding from being certain: other hosts, other files, other shapes."""

from __future__ import annotations

import pytest
from harness import check, project

HEADS = "vllm serve Qwen/Qwen2.5-7B-Instruct"

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:%s
    args: ["meta-llama/Llama-3.1-405B-Instruct", "-tp", "16"]
    env: [{name: X, value: "1"}%s]
    resources: {limits: {%s}}
%s"""


def pod(
    tag: str = "v0.33.0", env: str = "", limits: str = "nvidia.com/gpu: 8", more: str = ""
) -> str:
    return POD % (tag, env, limits, more)


def severities(text: str, rule: str, name: str = "script.sh", **told: object) -> list[str]:
    result = check(text, name, **told)
    return [finding.severity for finding in result.findings if finding.name == rule]


def test_too_few_gpus_in_one_pod_are_an_error() -> None:
    assert ["error"] == severities(pod(), "gpu-count-short", "pod.yaml")


@pytest.mark.parametrize(
    "text",
    [
        pod(env=", {name: RAY_ADDRESS, value: head:6379}"),
        pod(more="  - {name: ray, image: r, command: [ray, start, --head]}\n"),
        pod(more='  - {name: ray, image: r, command: [sh, -c, "ray start --head"]}\n'),
    ],
)
def test_a_ray_cluster_can_bring_more_gpus_where_it_is_used_unasked(text: str) -> None:
    """config/parallel.py: since 0.11.2 an unset executor refuses before it looks at Ray."""
    assert [] == severities(text.replace("v0.33.0", "v0.10.2"), "gpu-count-short", "pod.yaml")
    assert ["error"] == severities(text, "gpu-count-short", "pod.yaml")
    told = text.replace('"16"]', '"16", --distributed-executor-backend, ray]')
    assert ["error"] != severities(told, "gpu-count-short", "pod.yaml")


@pytest.mark.parametrize(
    ("version", "gpu", "expected"),
    [
        ("0.8.5", "H100-SXM-80GB", "warning"),
        ("0.33.0", "H100-SXM-80GB", "error"),
        ("0.8.5", "MI300X", "error"),
    ],
)
def test_an_unset_executor_took_ray_before_016_on_nvidia_cards(
    version: str, gpu: str, expected: str
) -> None:
    told = {"gpu": gpu, "gpus_per_node": 8, "nodes": 2, "engine_version": {"vllm": version}}
    text = "vllm serve meta-llama/Llama-3.1-405B-Instruct -tp 16\n"
    assert [expected] == severities(text, "gpu-count-short", **told)


def test_a_cpu_build_needs_no_gpu() -> None:
    text = pod(limits="nvidia.com/gpu: 0").replace("vllm-openai:", "vllm-openai-cpu:")
    assert [] == severities(text, "gpu-count-short", "pod.yaml")


def test_a_tpu_chip_may_be_several_devices() -> None:
    text = pod(limits="google.com/tpu: 8")
    assert [] == severities(text, "gpu-count-short", "pod.yaml")
    assert any(row.name == "gpu-count-short" for row in check(text, "pod.yaml").undecided)


def test_a_sourced_file_can_set_a_variable_again() -> None:
    script = f"TP=8\nsource ./env.sh\n{HEADS} -tp $TP\n"
    assert ["warning"] == severities(script, "tp-heads-indivisible")


def test_activating_an_environment_sets_no_size() -> None:
    script = f"TP=8\nsource .venv/bin/activate\n{HEADS} -tp $TP\n"
    assert ["error"] == severities(script, "tp-heads-indivisible")


def test_a_variable_taken_away_hides_no_device() -> None:
    script = f"export CUDA_VISIBLE_DEVICES=0\nenv -u CUDA_VISIBLE_DEVICES {HEADS} -tp 4\n"
    assert [] == severities(script, "gpu-count-short")


def test_an_option_can_give_the_model_another_shape() -> None:
    option = "--hf-overrides '{\"num_attention_heads\": 32}'"
    assert ["warning"] == severities(f"{HEADS} -tp 8 {option}\n", "tp-heads-indivisible")


@pytest.mark.parametrize(
    ("config", "found"), [("/x", []), ("Qwen/Qwen3-8B", []), ("Qwen/Qwen2.5-7B", ["error"])]
)
def test_the_shape_is_that_of_the_config_that_is_named(config: str, found: list[str]) -> None:
    line = f"vllm serve model.gguf -tp 8 --hf-config-path {config}\n"
    assert found == severities(line, "tp-heads-indivisible")


def test_a_script_that_installs_packages_runs_no_certain_release() -> None:
    script = 'command: [sh, -c, "pip install -U vllm; vllm serve m --brand-new-flag 3"]'
    text = pod().replace('args: ["meta-llama/Llama-3.1-405B-Instruct", "-tp", "16"]', script)
    assert ["warning"] == severities(text, "flag-unknown", "pod.yaml")


def test_pods_of_one_engine_are_no_replicas() -> None:
    text = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: llm}
spec:
  replicas: 4
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: [m, -tp, "8", -pp, "4", --distributed-executor-backend, ray]
        resources: {limits: {nvidia.com/gpu: 8}}
---
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {selector: {app: llm}}
"""
    assert [] == severities(text, "routing-blind", "set.yaml")
    assert ["info"] == severities(
        text.replace(", --distributed-executor-backend, ray", "").replace('"4"', '"1"'),
        "routing-blind",
        "set.yaml",
    )


def test_a_fix_offers_no_option_that_the_release_lacks() -> None:
    text = pod(tag="v0.6.3").replace('Llama-3.1-405B-Instruct", "-tp", "16"', 'X", "-tp", "8"')
    text = text.replace("meta-llama/X", "Qwen/Qwen2.5-7B-Instruct")
    fixes = [fix.delta for finding in check(text, "pod.yaml").findings for fix in finding.fixes]
    assert fixes
    assert all("dp" not in delta for delta in fixes)


FOREIGN = [
    ("", "google.com/tpu: 8", "v0.33.0"),
    ("", "habana.ai/gaudi: 8", "v0.33.0"),
    ("", "aws.amazon.com/neuron: 8", "v0.33.0"),
    (", {name: PJRT_DEVICE, value: TPU}", "nvidia.com/gpu: 8", "v0.33.0"),
    ("", "nvidia.com/gpu: 8", "gaudi-2.1"),
]


@pytest.mark.parametrize(("env", "limits", "tag"), FOREIGN)
def test_of_other_accelerators_only_what_holds_there_is_said(
    env: str, limits: str, tag: str
) -> None:
    text = pod(tag, env, limits).replace('"-tp", "16"', '"-tp", "8"')
    result = check(text, "pod.yaml")
    assert {"gpu-count-unknown"} >= {item.name for item in result.findings}
    undecided = {item.name for item in result.undecided if "was not read" in item.reason}
    assert {"tp-kv-heads-indivisible", "shm-missing"} <= undecided
    assert "no-kv-space" in undecided or "neuron" in limits
    heads = text.replace("meta-llama/Llama-3.1-405B-Instruct", "Qwen/Qwen2.5-7B-Instruct")
    assert ["error"] == severities(heads, "tp-heads-indivisible", "pod.yaml")


def test_a_card_of_another_maker_told_on_the_command_line() -> None:
    text = pod().replace('"-tp", "16"', '"-tp", "8"')
    assert ["error"] == severities(text, "shm-missing", "pod.yaml", gpu="H100-SXM-80GB")
    assert [] == severities(text, "shm-missing", "pod.yaml", gpu="Gaudi3")


STARTED = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    command: [bash, -c]
    args:
    - |
%s
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
    resources: {limits: {nvidia.com/gpu: 4}}
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""
WIDE = "vllm serve Qwen/Qwen3-32B -tp 8"
FITS = "vllm serve Qwen/Qwen3-32B -tp 4"


def started(*lines: str) -> str:
    return STARTED % "\n".join(f"      {line}" for line in lines)


@pytest.mark.parametrize(
    "lines",
    [
        (f'if [ "$ROLE" = big ]; then {WIDE}; else {FITS}; fi',),
        (f'case "$ROLE" in big) {WIDE};; *) {FITS};; esac',),
        (f"{WIDE} || {FITS}",),
        (f'[ "$ROLE" = big ] && exec {WIDE}', f"exec {FITS}"),
        (f"test -f /big && {WIDE}", FITS),
        (f"false && {WIDE}", FITS),
        (f"while [ -f /big ]; do {WIDE}; done", FITS),
        (f"big() {{ {WIDE}; }}", FITS),
        (f"exec {FITS}", WIDE),
        (f"{FITS}", "exit 0", WIDE),
    ],
)
def test_what_a_script_may_never_get_to_is_no_error(lines: tuple[str, ...]) -> None:
    assert ["warning"] == severities(started(*lines), "gpu-count-short", "pod.yaml")


@pytest.mark.parametrize(
    "lines",
    [
        (f"cd /models && {WIDE}",),
        (f"pip install -q x && exec {WIDE}",),
        (f"serve() {{ exec {WIDE}; }}", "serve"),
        (f"while true; do {WIDE}; sleep 5; done",),
        (f"{WIDE} || exit 1",),
        ("(exit 0)", WIDE),
        ("exec > /tmp/log", WIDE),
        ("if [ -f /x ]; then exit 1; fi", f"exec {WIDE}"),
    ],
)
def test_what_a_script_gets_to_where_nothing_fails_is_an_error(lines: tuple[str, ...]) -> None:
    assert ["error"] == severities(started(*lines), "gpu-count-short", "pod.yaml")


def test_servers_that_run_beside_each_other_are_plans_of_their_own() -> None:
    one = "CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-32B -tp 2 --port 8000 &"
    other = "CUDA_VISIBLE_DEVICES=2,3 vllm serve Qwen/Qwen3-32B -tp 2 --port 8001"
    assert 2 == check(started(one, other), "pod.yaml").plans
    assert 1 == check(started(one.removesuffix("&"), other), "pod.yaml").plans
    branch = f"if [ -f /x ]; then {one} else {other}; fi"
    assert 1 == check(started(branch), "pod.yaml").plans


def test_ray_in_a_pod_by_itself_has_the_gpus_of_that_pod() -> None:
    text = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        args: [Qwen/Qwen3-32B, --tensor-parallel-size=4, --distributed-executor-backend=ray]
        resources: {limits: {nvidia.com/gpu: "1"}}
"""
    assert ["warning"] == severities(text, "gpu-count-short", "d.yaml")
    assert [] == severities(text, "tp-cross-node", "d.yaml")
    joined = text.replace(
        "resources:", "env: [{name: RAY_ADDRESS, value: a:1}]\n        resources:"
    )
    assert [] == severities(joined, "gpu-count-short", "d.yaml")


def test_an_option_of_which_every_mention_counts_is_not_redundant() -> None:
    script = f"{HEADS} --middleware a.Auth --middleware b.Log --max-num-seqs 8 --max-num-seqs 9\n"
    found = [item for item in check(script).findings if item.name == "flag-redundant"]
    assert ["--max-num-seqs"] == [script[f.span.start : f.span.end] for f in found]


PERHAPS = """\
services:
  v:
    image: vllm/vllm-openai:v0.11.0
    entrypoint: [bash, -c]
    command: ['exec vllm serve %s Qwen/Qwen3-8B --tensor-parallel-size 2']
"""


def test_what_a_variable_may_add_is_not_known_and_the_rest_is() -> None:
    words = "${EAGER:+--enforce-eager} ${LEN:+--max-model-len $LEN}"
    (plan,) = project(PERHAPS % words, "compose.yaml").plans
    assert (2, 1) == (plan.effective.tp.only, plan.effective.pp.only)
    for fact in (plan.memory.enforce_eager, plan.memory.max_model_len):
        assert not (fact.is_known or fact.is_unset)
    assert plan.open_ended is None


@pytest.mark.parametrize(
    "word", ["${MORE:+$MORE}", "${MORE:+--max-model-len $@}", "${MORE:+--no-such-option}"]
)
def test_what_may_be_any_option_leaves_all_of_them_open(word: str) -> None:
    (plan,) = project(PERHAPS % word, "compose.yaml").plans
    assert not plan.effective.pp.is_known


@pytest.mark.parametrize(
    "command",
    ["trtllm-serve Qwen/Qwen3-8B --tp_size 0 --pp_size -3 --ep_size 0",
     "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 0 --dp -2",
     "lmdeploy serve api_server Qwen/Qwen3-8B --tp 0", "vllm serve Qwen/Qwen3-8B -tp 0 -dp -1",
     "text-generation-launcher --model-id Qwen/Qwen3-8B --num-shard 0"],
)  # fmt: skip
def test_numbers_that_are_no_sizes_make_nothing_fail(command: str) -> None:
    result = check(f"{command}\n", gpu="H100-SXM-80GB", gpus_per_node=8)
    assert 1 == result.plans
    assert "plugin-failed" not in {item.name for item in result.findings}


def test_a_device_option_tells_that_no_gpu_is_needed() -> None:
    line = "python -m sglang.launch_server --model-path meta-llama/Llama-3.2-3B-Instruct --tp 3"
    assert ["error"] == severities(f"{line}\n", "gpu-count-short", gpus_per_node=1)
    assert [] == severities(f"{line} --device cpu\n", "gpu-count-short", gpus_per_node=1)
    (plan,) = project(f"{line} --device=npu\n").plans
    assert "Ascend" == plan.foreign


def test_a_compute_domain_joins_the_nodes_by_nvlink() -> None:
    text = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: l}
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        resourceClaims: [{name: compute-domain-channel, resourceClaimTemplateName: c}]
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.20.0
          args: [Qwen/Qwen3-32B, -tp, "8", --nnodes, "2", --node-rank, $(LWS_WORKER_INDEX)]
          resources: {limits: {nvidia.com/gpu: 4}, claims: [{name: compute-domain-channel}]}
"""
    assert [] == severities(text, "tp-cross-node", "l.yaml")
    other = text.replace("compute-domain-channel", "network")
    assert ["warning"] == severities(other, "tp-cross-node", "l.yaml")
