"""What is proposed for a finding: same GPUs first, what fits, the faster, the smaller change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from harness import check, setup
from shardlint.cli import main
from shardlint.fixes import apply_fixes
from shardlint.plugins import Fix
from shardlint.project import Project
from shardlint.source import apply

NAME = "script.sh"
H100, L40S, A100 = "H100-SXM-80GB", "L40S", "A100-SXM-80GB"


def run(options: str, gpus: int = 8, release: str = "0.33.0") -> str:
    return f"docker run --ipc=host --gpus {gpus} vllm/vllm-openai:v{release} {options}\n"


def fixes_of(text: str, rule: str, name: str = NAME, **told: Any) -> list[Fix]:
    result = check(text, name, **told)
    (finding,) = (item for item in result.findings if item.name == rule)
    return list(finding.fixes)


def deltas(text: str, rule: str, **told: Any) -> list[dict[str, Any]]:
    return [dict(fix.delta) for fix in fixes_of(text, rule, **told)]


def after(text: str, rule: str, **told: Any) -> str:
    """The text after the first fix of a rule alone."""
    project = Project.of_texts(setup(select=(rule,), **told), {NAME: text})
    outcome = apply_fixes(project, unsafe=True)
    assert [finding.name for finding, _ in outcome.applied] == [rule]
    return outcome.project.sources[NAME].text


SEVEN = "Qwen/Qwen2.5-7B-Instruct -tp 8 --max-model-len 8192"


def test_faster_layouts_come_first_where_they_were_measured() -> None:
    """28 heads go into 4, 2 and 1 ranks: the largest is the smallest change."""
    unknown = deltas(run(SEVEN), "tp-heads-indivisible")
    assert unknown == [{"tp": 4, "dp": 2}, {"tp": 4, "gpus_per_pod": 4}]
    measured = deltas(run(SEVEN), "tp-heads-indivisible", gpu=H100)
    assert measured == [{"tp": 2, "dp": 4}, {"tp": 4, "gpus_per_pod": 4}]
    assert deltas(run(SEVEN), "tp-heads-indivisible", gpu=L40S) == unknown  # PCIe: weak


def test_layouts_that_do_not_fit_are_not_proposed() -> None:
    """70B in 16 bits on 80 GB: two ranks at least; data-parallel copies of one rank do not fit."""
    text = run("meta-llama/Llama-3.1-70B-Instruct -tp 3 --max-model-len 8192", gpus=3)
    held = deltas(text, "tp-heads-indivisible", gpu=H100)
    assert held == [{"tp": 2, "gpus_per_pod": 2}, {"tp": 4, "gpus_per_pod": 4}]
    unknown = deltas(text, "tp-heads-indivisible")
    assert unknown[0] == {"tp": 1, "dp": 3}
    small = deltas(text, "tp-heads-indivisible", gpu="A100-SXM-40GB")
    assert small == [{"tp": 4, "gpus_per_pod": 4}]


def test_sizes_of_a_model_that_is_not_known_whole_are_those_that_divide_the_present_one() -> None:
    blocks = {"method": "fp8", "weight_block_size": [128, 128]}
    models = {"org/m": {"moe_intermediate_size": 640, "num_experts": 512, "quantization": blocks}}
    text = run("org/m -tp 8", release="0.28.0")
    found = deltas(text, "quant-block-misaligned", models=models)
    assert found[0] == {"ep": True}
    assert all(delta.get("tp", 1) in (1, 2, 4) for delta in found)


def test_whole_experts_are_written_as_a_switch_and_read_back() -> None:
    text = run("Qwen/Qwen3-235B-A22B-FP8 -tp 8 --max-model-len 8192", release="0.11.2")
    first, second = fixes_of(text, "quant-block-misaligned", gpu=H100)
    assert first.title == "TP 8 → TP 8 × EP on the same 8 GPUs"
    assert dict(second.delta) == {"tp": 4, "gpus_per_pod": 4}
    written = after(text, "quant-block-misaligned", gpu=H100)
    assert written == text.replace("-tp 8", "-tp 8 --enable-expert-parallel")


def test_a_layout_that_fits_nowhere_gets_all_the_gpus_there_are() -> None:
    """Neither one GPU nor copies on each of four, where one does not hold the model."""
    text = run("Qwen/Qwen3-14B --max-model-len 8192", gpus=4)
    assert deltas(text, "gpu-count-surplus", gpu="RTX-4090") == [{"tp": 4}]
    roomy = deltas(text, "gpu-count-surplus", gpu=H100)
    assert roomy == [{"gpus_per_pod": 1}, {"tp": 4}]  # a batch of four reads the weights once


def test_idle_pods_of_a_replica_are_left_out() -> None:
    text = """\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: d}
spec:
  services:
    Worker:
      componentType: worker
      replicas: 1
      multinode: {nodeCount: 4}
      resources: {limits: {gpu: "8"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:0.9.0
          command: [python3, -m, dynamo.trtllm]
          args: [--model-path, Qwen/Qwen3-32B, --tensor-parallel-size, "8"]
"""
    (fix,) = fixes_of(text, "gpu-count-surplus", "d.yaml")
    assert (dict(fix.delta), fix.title) == ({"nodes": 1}, "1 pod for the same layout")


def test_stages_on_a_ray_cluster_become_ranks_of_a_group() -> None:
    text = (
        "vllm serve meta-llama/Llama-3.2-90B-Vision-Instruct -pp 4"
        " --distributed-executor-backend ray\n"
    )
    told = {"gpus_per_node": 2, "nodes": 2, "engine_version": {"vllm": "0.6.2"}}
    found = deltas(text, "pp-unsupported", gpu=A100, **told)
    assert found[0] == {"tp": 4, "pp": 1}
    assert not [delta for delta in found if "dp" in delta]


def test_sizes_of_old_releases_are_edited_where_they_stand_alone() -> None:
    text = run("openai-community/gpt2-xl -tp 2", gpus=2, release="0.4.1")
    assert deltas(text, "tp-heads-indivisible") == [{"tp": 1, "gpus_per_pod": 1}]


# ------------------------------------------------------------------------------------ memory


def test_weights_are_quantized_where_the_card_computes_in_fp8() -> None:
    text = run("meta-llama/Llama-3.1-70B-Instruct -tp 2", gpus=2)
    wider, last = fixes_of(text, "kv-too-small", gpu=H100)
    assert dict(wider.delta) == {"tp": 4, "gpus_per_pod": 4}
    assert dict(last.delta) == {"quantization": "fp8"}
    before, later = (last.estimate["weights_bytes"][name] for name in ("before", "after"))
    assert before / 2 < later < 0.55 * before  # the embedding and the head stay as they are
    assert apply(text, last.edits) == text.replace("-tp 2", "-tp 2 -q fp8")
    older = deltas(text, "kv-too-small", gpu=A100)
    assert not any("quantization" in delta for delta in older)


def test_weights_that_are_quantized_already_stay_as_they_are() -> None:
    text = run("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", gpus=1)
    found = [delta for rule in ("kv-too-small", "no-kv-space", "weights-do-not-fit")
             for item in check(text, gpu=H100).findings if item.name == rule
             for delta in (fix.delta for fix in item.fixes)]  # fmt: skip
    assert found
    assert not any("quantization" in delta for delta in found)


def test_more_ranks_come_with_the_shared_memory_that_they_ask_for() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector:
    nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.33.0
      args:
        - --model=meta-llama/Llama-3.1-70B-Instruct
        - --max-model-len=8192
      resources: {limits: {nvidia.com/gpu: 1}}
"""
    first, *_ = fixes_of(text, "weights-do-not-fit", "pod.yaml")
    assert dict(first.delta) == {"tp": 4, "gpus_per_pod": 4, "shm_bytes": 16 * 2**30}
    assert first.title == "TP 1 → TP 4 on 4 GPUs instead of 1, with 16 GiB for /dev/shm"
    outcome = apply_fixes(Project.of_texts(setup(), {"pod.yaml": text}), unsafe=True)
    assert [] == [item.message for item in outcome.result.findings if item.severity == "error"]
    assert "sizeLimit: 16Gi" in outcome.project.sources["pod.yaml"].text


def test_copies_give_their_gpus_to_one_of_them() -> None:
    text = run("Qwen/Qwen3-14B -dp 4 --max-model-len 8192", gpus=4)
    found = deltas(text, "weights-do-not-fit", gpu="RTX-4090")
    assert {"tp": 2, "dp": 2} in found


def test_a_load_that_finds_no_room_is_cut_or_given_room() -> None:
    text = "vllm serve google/gemma-3-12b-it --max-model-len 2048\n"
    told: dict[str, Any] = {"gpu": "RTX-5090", "engine_version": {"vllm": "0.9.1"}}
    assert {"quantization": "fp8"} in deltas(
        text, "kv-too-small", workload={"concurrency": 12}, **told
    )
    found = deltas(text, "kv-too-small", workload={"concurrency": 64}, **told)
    (limit,) = (delta["max_num_seqs"] for delta in found if "max_num_seqs" in delta)
    limited = text.replace("2048", f"2048 --max-num-seqs {limit}")
    again = check(limited, workload={"concurrency": 64}, **told)
    assert "kv-too-small" not in {item.name for item in again.findings}


def test_a_type_that_the_card_lacks_becomes_one_that_it_has() -> None:
    text = run("Qwen/Qwen2.5-3B-Instruct --dtype bfloat16", gpus=1, release="0.11.2")
    assert after(text, "dtype-unsupported-gpu", gpu="T4") == text.replace("bfloat16", "half")


# ------------------------------------------------------------------------------------ advice


def test_a_latent_cache_is_spread_or_each_rank_keeps_its_own_requests() -> None:
    text = run("deepseek-ai/DeepSeek-R1 -tp 8 --max-model-len 8192")
    found = deltas(text, "mla-kv-duplication", gpu="H200-SXM-141GB")
    assert found == [{"dcp": 8}, {"tp": 1, "dp": 8, "ep": True}]
    spread = after(text, "mla-kv-duplication", gpu="H200-SXM-141GB")
    assert spread == text.replace("-tp 8", "-tp 8 -dcp 8")
    assert deltas(text, "mla-kv-duplication", gpu=H100)[1:] == []  # one GPU does not hold it


def test_advice_is_written_only_where_it_is_known_to_fit() -> None:
    text = run("google/gemma-2b-it -tp 8")
    assert deltas(text, "kv-replication") == []
    assert deltas(text, "kv-replication", gpu=A100) == [{"tp": 1, "dp": 8}]


@pytest.mark.parametrize(("model", "expected"), [
    ("Qwen/Qwen3-32B", [{"tp": 2, "dp": 4}]),
    ("Qwen/Qwen2.5-72B-Instruct", [{"tp": 2, "pp": 4}]),  # two do not hold a copy
    ("someone/model", []),
])  # fmt: skip
def test_groups_without_nvlink_get_smaller_where_they_can(
    model: str, expected: list[dict[str, int]]
) -> None:
    text = run(f"{model} -tp 8 --max-model-len 8192")
    assert deltas(text, "tp-slow-link", gpu=L40S) == expected


# ---------------------------------------------------------------------------- other settings


def test_a_shorter_context_is_looked_for_until_its_batch_fits_too() -> None:
    """Up to 32k tokens 0.6 takes a whole context for a batch, whose activations need room."""
    text = run("meta-llama/Llama-3.1-8B-Instruct", gpus=1, release="0.6.4")
    (delta, *_) = deltas(text, "kv-too-small", gpu="RTX-3090")
    assert delta == {"max_model_len": 16384}
    left = check(after(text, "kv-too-small", gpu="RTX-3090"), gpu="RTX-3090")
    assert [] == [item.message for item in left.findings if item.severity == "error"]


def test_devices_that_a_variable_names_are_left_and_fewer_are_used() -> None:
    text = (
        "CUDA_VISIBLE_DEVICES=0,1 python -m vllm.entrypoints.openai.api_server"
        " --model openai-community/gpt2-xl --tensor-parallel-size 2\n"
    )
    told = {"vllm": "0.6.6"}
    assert deltas(text, "tp-heads-indivisible", engine_version=told) == [{"tp": 1}]


def test_devices_that_a_list_names_get_fewer() -> None:
    text = """\
services:
  llm:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen2.5-7B-Instruct -tp 3 --max-model-len 8192
    ipc: host
    deploy: {resources: {reservations: {devices: [
      {driver: nvidia, device_ids: ["0", "3", "5"], capabilities: [gpu]}]}}}
"""
    found = fixes_of(text, "tp-heads-indivisible", "compose.yaml")
    fewer = next(fix for fix in found if fix.delta == {"tp": 2, "gpus_per_pod": 2})
    written = apply(text, fewer.edits)
    assert written == text.replace("-tp 3", "-tp 2").replace(', "5"', "")


def test_a_list_of_devices_that_others_use_is_left_alone() -> None:
    service = """\
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen2.5-7B-Instruct -tp 3 --max-model-len 8192
    ipc: host
    deploy: {resources: {reservations: {devices: [
      {driver: nvidia, device_ids: IDS, capabilities: [gpu]}]}}}
"""
    one, other = (service.replace("IDS", ids) for ids in ('&ids ["0", "1", "2"]', "*ids"))
    text = f"services:\n  a:\n{one}  b:\n{other}"
    found = check(text, "compose.yaml").findings
    offered = [fix.delta for item in found for fix in item.fixes]
    assert offered
    assert not [delta for delta in offered if "gpus_per_pod" in delta]


def test_a_batch_becomes_as_long_as_a_context() -> None:
    options = "--no-enable-chunked-prefill --max-num-batched-tokens 8192 --max-model-len 32768"
    text = run(f"Qwen/Qwen3-8B {options}", gpus=1, release="0.11.2")
    assert after(text, "flag-conflict") == text.replace("8192", "32768")


def test_a_vision_tower_is_kept_whole_by_one_more_option() -> None:
    text = run("Qwen/Qwen3-VL-32B-Instruct -tp 32", gpus=32)
    found = fixes_of(text, "shard-dim-indivisible")
    assert dict(found[0].delta) == {"add_flag": "--mm-encoder-tp-mode data"}
    written = after(text, "shard-dim-indivisible")
    assert "--mm-encoder-tp-mode data" in written


def test_replicas_over_nodes_become_groups_of_attention() -> None:
    text = (
        "docker run --ipc=host lmsysorg/sglang:v0.5.23 python3 -m sglang.launch_server"
        " --model-path Qwen/Qwen3-235B-A22B --tp 8 --dp-size 2 --nnodes 2 --node-rank 0"
        " --dist-init-addr node0:20000\n"
    )
    assert deltas(text, "flag-conflict") == [{"attention_dp": 2, "dp": 1}]
    assert "--attn-dp-size 2 --dp-size 1" in after(text, "flag-conflict")


def test_what_is_left_of_an_option_that_is_removed_is_said() -> None:
    text = run("Qwen/Qwen3-8B -tp 2 --enable-expert-parallel", gpus=2)
    (delta,) = deltas(text, "ep-on-dense-model")
    assert delta == {"remove_flag": "--enable-expert-parallel", "ep": False}


# ----------------------------------------------------------------------------- what is shown


def test_fixes_of_routers_are_shown_without_any_other(tmp_path: Any) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text(
        "events {}\nhttp {\n  upstream vllm {\n    server vllm-0:8000;\n    server vllm-1:8000;\n"
        "  }\n  server { location /v1/chat/completions { proxy_pass http://vllm; } }\n}\n"
    )
    done = CliRunner().invoke(main, ["check", "--format", "json", str(conf)])
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["name"] == "routing-blind"
    assert finding["fixes"]
