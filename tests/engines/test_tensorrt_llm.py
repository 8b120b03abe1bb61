"""TensorRT-LLM: ranks, what is started from outside, files of options, what it is refused for."""

from __future__ import annotations

from typing import Any

import pytest
from harness import check, places, project
from shardlint.engines.tensorrt_llm import TensorRTLLM
from shardlint.plan import Layout, ModelFacts

ENGINE = TensorRTLLM()
SERVE = "trtllm-serve"
R1, QWEN, MOE = "deepseek-ai/DeepSeek-R1", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-30B-A3B"


def findings(text: str, *names: str, file: str = "script.sh", **told: Any) -> list[tuple[str, str]]:
    return [(f.name, f.severity) for f in check(text, file, **told).findings if f.name in names]


# ---------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("layout", "gpus", "attention", "moe_tp", "ep"),
    [
        (Layout(tp=8), 8, 8, 8, 1),
        (Layout(tp=8, pp=2), 16, 8, 8, 1),
        (Layout(tp=4, pcp=2), 8, 8, 4, 1),
        (Layout(tp=8, ep=4), 8, 8, 2, 4),
        (Layout(tp=8, moe_tp=4), 8, 8, 4, 2),
        (Layout(tp=8, ep=8, attention_dp=8), 8, 1, 1, 8),
    ],
)
def test_what_multiplies_gpus(
    layout: Layout, gpus: int, attention: int, moe_tp: int, ep: int
) -> None:
    ranks = ENGINE.ranks(layout, None, None)
    assert (gpus, attention, moe_tp, ep) == (
        ranks.gpus, ranks.attention_tp, ranks.moe_tp, ranks.ep,
    )  # fmt: skip


def test_attention_dp_keeps_a_latent_cache_once() -> None:
    model = ModelFacts(id="m", kv_lora_rank=512, attention_heads=128)
    assert 8 == ENGINE.ranks(Layout(tp=8), model, None).kv_copies
    assert 1 == ENGINE.ranks(Layout(tp=8, attention_dp=8), model, None).kv_copies


def test_the_switch_makes_as_many_groups_as_there_are_ranks() -> None:
    for command in (
        f"{SERVE} {R1} --tp_size 8 --enable_attention_dp",
        f"{SERVE} {R1} --tensor_parallel_size=8 --enable_attention_dp=true",
    ):
        assert 8 == project(command).plans[0].effective.attention_dp.only
    off = project(f"{SERVE} {R1} --tp_size 8").plans[0]
    assert 1 == off.effective.attention_dp.only


def test_a_latent_cache_is_copied_without_it() -> None:
    names = ("mla-kv-duplication",)
    assert [("mla-kv-duplication", "warning")] == findings(f"{SERVE} {R1} --tp_size 8", *names)
    assert [] == findings(f"{SERVE} {R1} --tp_size 8 --enable_attention_dp", *names)
    (finding,) = [f for f in check(f"{SERVE} {R1} --tp_size 8").findings if f.name in names]
    assert "attention data parallelism" in (finding.help or "")


# ------------------------------------------------------------------------- started from outside


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (f"mpirun -n 8 trtllm-llmapi-launch {SERVE} {R1} --tp_size 8 --pp_size 2", "error"),
        (f"mpirun -np 16 -H a:8,b:8 trtllm-llmapi-launch {SERVE} {R1} --tp_size 8", "warning"),
        (f"mpirun -n 16 trtllm-llmapi-launch {SERVE} {R1} --tp_size 8 --pp_size 2", None),
        (f"srun --ntasks=8 --mpi=pmix trtllm-llmapi-launch {SERVE} {R1} --tp_size 16", "error"),
        (f"srun -n 16 trtllm-llmapi-launch {SERVE} {R1} --tp_size 16", None),
        (f"mpirun -n $RANKS trtllm-llmapi-launch {SERVE} {R1} --tp_size 16", None),
        (f"{SERVE} {R1} --tp_size 8", None),
    ],
)
def test_as_many_ranks_are_started_as_there_are(command: str, wanted: str | None) -> None:
    found = findings(command, "node-group-size-mismatch")
    assert ([] if wanted is None else [("node-group-size-mismatch", wanted)]) == found


def test_a_job_states_its_tasks() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=8\n#SBATCH --gpus-per-node=8\n"
        f"srun --mpi=pmix trtllm-llmapi-launch {SERVE} {R1} --tp_size 16\n"
    )
    assert [("node-group-size-mismatch", "error")] == findings(script, "node-group-size-mismatch")
    right = script.replace("--ntasks=8", "--ntasks=16")
    assert [] == findings(right, "node-group-size-mismatch", "gpu-count-short")


def test_one_process_has_the_gpus_of_its_host() -> None:
    told: dict[str, Any] = {"gpus_per_node": 8}
    assert [("gpu-count-short", "error")] == findings(
        f"{SERVE} {R1} --tp_size 16", "gpu-count-short", **told
    )
    started = f"mpirun -n 16 trtllm-llmapi-launch {SERVE} {R1} --tp_size 16"
    assert [] == findings(started, "gpu-count-short", **told)


# ---------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    ("options", "rule", "severity"),
    [
        (f"{QWEN} --tp_size 8", "tp-heads-indivisible", "error"),
        ("microsoft/phi-4 --tp_size 4", "tp-kv-heads-indivisible", "warning"),
        (f"{MOE} --tp_size 8 --ep_size 3", "flag-conflict", "error"),
        (f"{MOE} --tp_size 6 --ep_size 6", "experts-indivisible", "warning"),
        (f"{QWEN} --pp_size 99", "pp-exceeds-layers", "warning"),
        (f"{QWEN} --cp_size 2", "flag-conflict", "error"),
        (f"{QWEN} --max_batch_size 64 --max_num_tokens 32", "flag-conflict", "warning"),
        (f"{QWEN} --free_gpu_memory_fraction 1.2", "flag-conflict", "error"),
        ("google/gemma-2b-it --tp_size 8", "kv-replication", "warning"),
    ],
)
def test_what_does_not_fit_is_told(options: str, rule: str, severity: str) -> None:
    assert (rule, severity) in findings(f"{SERVE} {options}", rule)


@pytest.mark.parametrize(
    "options",
    [
        f"{QWEN} --tp_size 4",
        f"{MOE} --tp_size 8 --ep_size 4",
        f"{MOE} --tp_size 8 --ep_size 8 --enable_attention_dp",
        f"{QWEN} --backend tensorrt --tp_size 8",
        f"{QWEN} --tp_size 8 --enable_attention_dp",
        "/engines/llama --tp_size 3",
        f"{QWEN} --tp_size 2 --moe_cluster_parallel_size 2 --ep_size 1",
    ],
)
def test_what_may_run_is_no_error(options: str) -> None:
    result = check(f"{SERVE} {options}")
    assert [] == [f.message for f in result.findings if f.severity == "error"]


def test_before_the_default_changed_the_backend_must_be_stated() -> None:
    told: dict[str, Any] = {"engine_version": {"trtllm": "0.19.0"}}
    command = f"{SERVE} {QWEN} --tp_size 8"
    assert [] == findings(command, "tp-heads-indivisible", **told)
    stated = f"{command} --backend pytorch"
    found = findings(stated, "tp-heads-indivisible", **told)
    assert [("tp-heads-indivisible", "error")] == found


def test_no_data_parallelism_is_offered_as_a_cure() -> None:
    found = check(f"{SERVE} google/gemma-2b-it --tp_size 8").findings
    assert [None] == [f.help for f in found if f.name == "kv-replication"]


def test_no_cure_leads_to_heads_that_nobody_checks() -> None:
    """TP 7 suits 28 attention heads, and neither 4 KV heads nor the MLP."""
    found = check(f"docker run --gpus all x/tensorrt-llm/release:1.1.0 {SERVE} {QWEN} --tp_size 8")
    (finding,) = [f for f in found.findings if f.name == "tp-heads-indivisible"]
    assert "tensor parallel size 4, 2 or 1" == finding.help


@pytest.mark.parametrize("command", ["disaggregated -c c.yaml", f"mm_embedding_serve {QWEN}"])
def test_other_commands_start_no_server(command: str) -> None:
    assert () == project(f"{SERVE} {command}").plans


def test_a_server_of_another_protocol_is_one() -> None:
    assert QWEN == project(f"{SERVE} grpc {QWEN} --tp_size 4").plans[0].model.only


# ------------------------------------------------------------------------------------ AutoDeploy

AUTO = "model: Qwen/Qwen3-30B-A3B\nworld_size: {ranks}\n"


@pytest.mark.parametrize(
    ("ranks", "release", "wanted"),
    [
        (8, "0.19.0", [("tp-kv-heads-indivisible", "error")]),
        (4, "0.19.0", []),
        (8, "1.2.0", []),
        (8, None, []),
    ],
)
def test_autodeploy_split_kv_heads(ranks: int, release: str | None, wanted: list[Any]) -> None:
    told: dict[str, Any] = {"engine_version": {"trtllm": release}} if release else {}
    text = AUTO.format(ranks=ranks)
    assert wanted == findings(text, "tp-kv-heads-indivisible", file="llm.yaml", **told)


def test_the_world_size_is_edited_where_it_stands() -> None:
    text = AUTO.format(ranks=8)
    told: dict[str, Any] = {"engine_version": {"trtllm": "0.19.0"}}
    (finding,) = [
        f for f in check(text, "llm.yaml", **told).findings if f.name == "tp-kv-heads-indivisible"
    ]
    edits = [edit for fix in finding.fixes for edit in fix.edits]
    assert edits
    assert {"8"} == {text[edit.span.start : edit.span.end] for edit in edits}


# ------------------------------------------------------------------------------ files of options

SCRIPT = """\
cat <<EOF > /tmp/options.yaml
tensor_parallel_size: {tp}
enable_attention_dp: {switch}
kv_cache_config:
  free_gpu_memory_fraction: 0.85
EOF
trtllm-serve deepseek-ai/DeepSeek-R1 {more} --extra_llm_api_options /tmp/options.yaml
"""


def test_options_that_the_script_writes_are_read() -> None:
    plan = project(SCRIPT.format(tp=8, switch="true", more="")).plans[0]
    assert (8, 8, 0.85, "free_after_load") == (
        plan.layout.tp.only, plan.effective.attention_dp.only, plan.memory.budget.share.only,
        plan.memory.budget.of,
    )  # fmt: skip
    assert (None, ()) == (plan.open_ended, plan.joined)


def test_findings_point_into_the_text_that_is_written() -> None:
    text = SCRIPT.format(tp=8, switch="false", more="")
    found = [f for f in check(text).findings if f.name == "mla-kv-duplication"]
    assert [("mla-kv-duplication", "warning", "8")] == places(found, text)
    assert [2] == [f.start.line for f in found]


def test_a_value_that_is_stated_twice_and_differs_is_told_and_not_taken() -> None:
    text = SCRIPT.format(tp=4, switch="true", more="--tp_size 8")
    found = [f for f in check(text).findings if f.name == "value-conflict"]
    assert [("value-conflict", "warning", "8")] == places(found, text)
    assert not project(text).plans[0].layout.tp.is_known
    same = SCRIPT.format(tp=8, switch="true", more="--tp_size 8")
    assert [] == findings(same, "value-conflict")
    assert 8 == project(same).plans[0].layout.tp.only


def test_a_misspelt_key_is_told() -> None:
    text = SCRIPT.format(tp=8, switch="true", more="").replace("enable_", "enabel_")
    found = [f for f in check(text).findings if f.name == "flag-unknown"]
    assert [("flag-unknown", "warning")] == [(f.name, f.severity) for f in found]
    assert "did you mean `--enable_attention_dp`?" == found[0].help
    other = SCRIPT.format(tp=8, switch="true", more="").replace("enable_attention_dp", "some_key")
    assert [] == findings(other, "flag-unknown")


def test_a_file_that_is_not_there_leaves_everything_open() -> None:
    plan = project(f"{SERVE} {R1} --config /etc/options.yaml").plans[0]
    assert not plan.effective.tp.is_known
    assert [] == [f.message for f in check(f"{SERVE} {R1} --config /etc/o.yaml").findings]


# ---------------------------------------------------------------------------------------- Dynamo

GRAPH = """\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {{name: graph}}
spec:
  services:
    TRTLLMDecodeWorker:
      componentType: worker
      replicas: 1
      multinode: {{nodeCount: {nodes}}}
      resources: {{limits: {{gpu: "8"}}}}
      extraPodSpec:
        mainContainer:
          args: ["--model-path", "{model}", "--tensor-parallel-size", "{tp}"]
"""


def test_tensor_parallelism_over_the_pods_of_a_replica_crosses_nodes() -> None:
    text = GRAPH.format(nodes=2, tp=16, model=R1)
    assert [("tp-cross-node", "warning")] == findings(text, "tp-cross-node", file="g.yaml")
    inside = GRAPH.format(nodes=2, tp=8, model=R1).replace('"8"]', '"8", "--pp_size", "2"]')
    assert [] == findings(inside, "tp-cross-node", file="g.yaml")


@pytest.mark.parametrize(
    ("nodes", "tp", "known", "wanted"),
    [
        (4, 8, {}, [("gpu-count-surplus", "warning")]),
        (4, 8, {"nodes": 2, "gpus_per_node": 8}, [("gpu-count-surplus", "error")]),
        (2, 16, {"nodes": 2, "gpus_per_node": 8}, []),
        (2, 32, {}, [("gpu-count-short", "error")]),
    ],
)
def test_the_operator_starts_ranks_on_all_pods_of_a_replica(
    nodes: int, tp: int, known: dict[str, int], wanted: list[tuple[str, str]]
) -> None:
    text = GRAPH.format(nodes=nodes, tp=tp, model=R1)
    rules = ("gpu-count-surplus", "gpu-count-short", "node-group-size-mismatch")
    assert wanted == findings(text, *rules, file="g.yaml", **known)
