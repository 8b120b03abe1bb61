"""Options that vLLM refuses beside a layout or a model, at the releases that refuse them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from engines.commands import ENGINE
from harness import check, project
from shardlint.linter import certain_options
from shardlint.plan import Constraint

DENSE, MOE, MLA = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-R1"
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"


def failed(
    words: str, release: str = "0.33.0", model: str = DENSE, before: str = "", **told: Any
) -> list[Constraint]:
    """The constraints that a command line breaks."""
    text = f"{before} vllm serve {model} {words}\n"
    (plan,) = project(text, engine_version={"vllm": release}, **told).plans
    layout, facts = plan.effective.world().only, plan.model_facts.only
    assert layout is not None
    ranks = ENGINE.ranks(layout, facts, None)
    device = plan.placement.gpu.only
    found = ENGINE.constraints(facts, ranks, layout, certain_options(plan), device)
    return [item for item in found if not item.holds and not item.advisory]


def refused(words: str, release: str = "0.33.0", model: str = DENSE, before: str = "",
            **told: Any) -> list[tuple[str, str]]:  # fmt: skip
    """Rule and the engine's words, of what certainly refuses."""
    items = failed(words, release, model, before, **told)
    return [(item.rule, item.refusal) for item in items if item.severity == "error"]


CONFLICTS = [
    ("--enable-eplb -tp 2", MOE, "enable_expert_parallel must be True to use EPLB"),
    ("--enable-eplb -ep", MOE, "EPLB requires tensor"),
    ("""-tp 2 -ep --eplb-config '{"num_redundant_experts": 4}'""", MOE,
     "Either enable EPLB or unset num_redundant_experts"),
    ("--max-num-batched-tokens 128 --max-num-seqs 256", DENSE,
     "must be greater than or equal to max_num_seqs"),
    ("--max-num-batched-tokens 2k --max-model-len 4096 --no-enable-chunked-prefill", DENSE,
     "is smaller than max_model_len"),
    ("--max-num-active-seqs 9 --max-num-seqs 8", DENSE, "cannot be greater than max_num_seqs"),
    ("--gpu-memory-utilization 1.2", DENSE, ""),
    ("--gpu-memory-utilization 0", DENSE, ""),
    ("""-tp 4 --speculative-config '{"model": "m", "draft_tensor_parallel_size": 2}'""", DENSE,
     "cannot be other value than 1 or target model tensor_parallel_size"),
    ("-tp 4 -sc.model m --speculative-config.draft_tensor_parallel_size 2", DENSE,
     "cannot be other value than 1 or target model tensor_parallel_size"),
    ("""--speculative-config '{"model": "m", "tensor_parallel_size": 1}'""", DENSE,
     "Please pass 'draft_tensor_parallel_size' instead"),
    ("""--spec-tokens 3 --speculative-config '{"num_speculative_tokens": 3}'""", DENSE,
     "are mutually exclusive"),
    ("--enable-lora --max-loras 4 --max-cpu-loras 2", DENSE, "must be >= max_loras"),
    ("--dtype half", "google/gemma-3-12b-it", "does not support float16"),
    ("--quantization awq", MLA, "does not match the quantization method"
     " specified in the `quantization` argument"),
    ("--nnodes 2 --node-rank 2 -tp 2", DENSE, "must be between 0 and"),
    ("-pp 2 --distributed-executor-backend uni", DENSE, ""),
    ("--nnodes 2 -tp 2 --data-parallel-backend ray", DENSE, "--data-parallel-backend mp"),
    ("--nnodes 2 -tp 2 --distributed-executor-backend ray", DENSE,
     "nnodes > 1 can only be set when distributed"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "model", "text"), CONFLICTS)
def test_a_conflict_is_refused(words: str, model: str, text: str) -> None:
    assert [("flag-conflict", text)] == refused(words, model=model)


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("--enable-eplb -ep -tp 2", MOE),
        ("""-tp 2 -ep --enable-eplb --eplb-config '{"num_redundant_experts": 2}'""", MOE),
        ("--max-num-batched-tokens 256 --max-num-seqs 256", DENSE),
        ("--max-num-batched-tokens 2k --max-model-len 4096", DENSE),
        ("--gpu-memory-utilization 1.0", DENSE),
        ("""-tp 4 --speculative-config '{"model": "m", "draft_tensor_parallel_size": 1}'""", DENSE),
        ("""-tp 4 --speculative-config '{"model": "m", "draft_tensor_parallel_size": 4}'""", DENSE),
        ("--enable-lora --max-loras 4 --max-cpu-loras 4", DENSE),
        ("--max-loras 4 --max-cpu-loras 2", DENSE),
        ("--dtype half", DENSE),
        ("--dtype bfloat16", "google/gemma-3-12b-it"),
        ("--quantization fp8", MLA),
        ("--nnodes 2 --node-rank 1 -tp 2", DENSE),
        ("--node-rank 1 -tp 2", DENSE),
        ("-tp 16 -pp 2 --nnodes 4 --node-rank 3 --headless", MLA),
        ("--max-num-batched-tokens ${TOKENS:-128} --max-num-seqs 256", DENSE),
    ],
)
def test_what_is_right_or_not_certain_is_not_refused(words: str, model: str) -> None:
    assert [] == [item for item in refused(words, model=model) if item[0] == "flag-conflict"]


@pytest.mark.parametrize(
    ("words", "model", "release", "rule"),
    [
        ("-dp 2 --data-parallel-size-local 4", MOE, "0.9.2", "dp-local-mismatch"),
        ("-dp 2 --data-parallel-rank 2", MOE, "0.33.0", "dp-mode-invalid"),
        ("-dp 2 --data-parallel-rank 1", DENSE, "0.21.0", "dp-mode-invalid"),
        ("-dp 2 --data-parallel-rank 1", DENSE, "0.20.0", None),
        ("-dp 2 --data-parallel-rank 1", MOE, "0.33.0", None),
        ("-dp 2 --data-parallel-external-lb", MOE, "0.33.0", "dp-mode-invalid"),
        ("-dp 2 -dpe --nnodes 2 --node-rank 1", MOE, "0.33.0", None),
        ("-dp 2 --data-parallel-rank 1 -dpl 2", MOE, "0.33.0", "dp-mode-invalid"),
        ("--data-parallel-external-lb", MOE, "0.33.0", "dp-mode-invalid"),
        ("-dp 4 -dph", MOE, "0.33.0", "dp-mode-invalid"),
        ("-dp 4 -dpl 2 -dph", MOE, "0.33.0", None),
        ("-dp 4 -dpl 2 -dph -dpe", MOE, "0.33.0", "dp-mode-invalid"),
        ("-dp 4 -dpl 2 -dpr 2 --headless --api-server-count 2", MOE, "0.33.0", "dp-mode-invalid"),
        ("-dp 4 -dpl 2 -dpr 2 --headless --api-server-count 1", MOE, "0.12.0", None),
        ("-ep -tp 2", DENSE, "0.33.0", "ep-on-dense-model"),
        ("--enable-expert-parallel -tp 2", DENSE, "0.7.3", None),
        ("-tp 8 -dcp 2", LLAMA, "0.33.0", "dcp-invalid"),
        ("-tp 16 -dcp 2", LLAMA, "0.33.0", None),
        ("-tp 16 -dcp 4", LLAMA, "0.33.0", "dcp-invalid"),
        ("-tp 8 -dcp 3", MLA, "0.33.0", "dcp-invalid"),
        ("-tp 8 -dcp 8", MLA, "0.33.0", None),
        ("-tp 4 -pcp 2 -dcp 2", "meta-llama/Llama-3.1-8B-Instruct", "0.33.0", "dcp-invalid"),
        ("-tp 4 -pcp 2 -dcp 4", MLA, "0.33.0", "dcp-invalid"),
        ("-tp 4 -pcp 2 -dcp 8", MLA, "0.33.0", None),
        ("--max-model-len 131072", DENSE, "0.33.0", "context-len-exceeds-model"),
        ("--max-model-len 32k", DENSE, "0.33.0", None),
        ("--max-model-len auto", DENSE, "0.33.0", None),
        ("""--max-model-len 131072 --hf-overrides '{"rope_scaling": {}}'""", DENSE, "0.33.0", None),
        ("-dp 3 -ep --enable-eplb", MOE, "0.33.0", "experts-indivisible"),
        ("-dp 3 -ep", MOE, "0.33.0", None),
        ("""-dp 3 -ep --enable-eplb --eplb-config '{"num_redundant_experts": 1}'""", MOE, "0.33.0",
         None),
        ("""-dp 3 -ep --enable-eplb --eplb-config.num_redundant_experts 1""", MOE, "0.33.0", None),
    ],
)  # fmt: skip
def test_a_refusal_depends_on_model_and_release(
    words: str, model: str, release: str, rule: str | None
) -> None:
    assert ([rule] if rule else []) == [name for name, _ in refused(words, release, model)]


@pytest.mark.parametrize(
    ("words", "model", "release", "found"),
    [
        ("-tp 8", "Qwen/Qwen3-235B-A22B-FP8", "0.8.5", [("quant-block-misaligned", "error")]),
        ("-tp 8", "Qwen/Qwen3-235B-A22B-FP8", "0.28.0", [("quant-block-misaligned", "error")]),
        ("-tp 8", "Qwen/Qwen3-235B-A22B-FP8", "0.29.0", [("quant-block-misaligned", "warning")]),
        ("-tp 8 -ep", "Qwen/Qwen3-235B-A22B-FP8", "0.28.0", []),
        ("-tp 4", "Qwen/Qwen3-235B-A22B-FP8", "0.28.0", []),
        ("-tp 1 -dp 8", "Qwen/Qwen3-235B-A22B-FP8", "0.28.0",
         [("quant-block-misaligned", "error")]),
        ("-pp 3", LLAMA, "0.33.0", [("pp-layers-indivisible", "info")]),
    ],
)  # fmt: skip
def test_severity_by_release(
    words: str, model: str, release: str, found: list[tuple[str, str]]
) -> None:
    assert found == [(item.rule, item.severity) for item in failed(words, release, model)]


def test_vision_heads_that_the_user_names_are_cut() -> None:
    facts = {"attention_heads": 24, "kv_heads": 24, "vision_heads": 16}
    assert [("shard-dim-indivisible", "is not divisible by")] == refused(
        "-tp 3", model="my/model", models={"my/model": facts}
    )
    facts["architecture"] = "InternVLChatModel"
    assert [] == refused("-tp 3", model="my/model", models={"my/model": facts})


TOWER = "Qwen/Qwen3-VL-8B-Instruct"


@pytest.mark.parametrize(
    ("words", "refused_here"),
    [
        ("-tp 32", True),
        ("-tp 32 --mm-encoder-tp-mode weights", True),
        ("-tp 32 --mm-encoder-tp-mode data", False),
        ("-tp 32 --language-model-only", False),
        ("-tp 32 --limit-mm-per-prompt.image 0", False),
        ("-tp 32 --mm-encoder-tp-mode $MODE", False),
        ("-tp 16", False),
    ],
)
def test_a_vision_tower_is_cut_unless_an_option_keeps_it_whole(
    words: str, refused_here: bool
) -> None:
    found = [item.subject for item in failed(words, model=TOWER) if item.severity == "error"]
    assert ("vision heads" in found) is refused_here


@pytest.mark.parametrize(
    ("variable", "words", "texts"),
    [
        ("VLLM_PP_LAYER_PARTITION=26,27,26", "-pp 3", ["does not match num_hidden_layers"]),
        ("VLLM_PP_LAYER_PARTITION=26,27,27", "-pp 3", []),
        ("VLLM_PP_LAYER_PARTITION=40,40", "-pp 3", ["does not match pp_size"]),
        ("VLLM_PP_LAYER_PARTITION=a,b", "-pp 2", ["Invalid partition string"]),
        ("VLLM_PP_LAYER_PARTITION=$P", "-pp 2", []),
        ("VLLM_DP_SIZE=2", "-dp 1", ["Offline data parallel mode is not supported/useful for dense"
                                " models"]),
        ("VLLM_DP_SIZE=2", "-dp 2", []),
        ("VLLM_DP_SIZE=1", "-dp 1", []),
    ],
)  # fmt: skip
def test_variables(variable: str, words: str, texts: list[str]) -> None:
    assert texts == [text for _, text in refused(words, model=LLAMA, before=variable)]


@pytest.mark.parametrize("value", ["1", "true"])
def test_a_long_context_may_be_allowed(value: str) -> None:
    (item,) = failed("--max-model-len 131072", before=f"VLLM_ALLOW_LONG_MAX_MODEL_LEN={value}")
    assert ("context-len-exceeds-model", "warning") == (item.rule, item.severity)


@pytest.mark.parametrize(
    ("words", "model", "gpu", "found"),
    [
        ("--dtype bfloat16", DENSE, "T4", True),
        ("--dtype half", DENSE, "T4", False),
        ("", DENSE, "T4", False),
        ("--dtype bfloat16", DENSE, "A100-SXM-80GB", False),
        ("", "openai/gpt-oss-20b", "T4", True),
        ("", "openai/gpt-oss-20b", "H100-SXM-80GB", False),
        ("--quantization awq", LLAMA, "V100-SXM2-32GB", True),
        ("--dtype bfloat16", DENSE, "MI300X", False),
    ],
)
def test_types_need_a_card(words: str, model: str, gpu: str, found: bool) -> None:
    rules = [name for name, _ in refused(words, model=model, gpu=gpu)]
    assert found is ("dtype-unsupported-gpu" in rules)


GROUPED: Mapping[str, Any] = {
    "attention_heads": 64, "kv_heads": 8, "head_dim": 128, "intermediate_size": 29568,
    "vocab_size": 152064, "quantization": {"method": "awq", "bits": 4, "group_size": 128},
}  # fmt: skip
CHANNELS = {"method": "compressed-tensors", "bits": 8, "group_size": -1}
EXPERTS: Mapping[str, Any] = {
    "attention_heads": 64, "kv_heads": 4, "num_experts": 128, "moe_intermediate_size": 1536,
    "hidden_size": 4096, "quantization": {"method": "gptq", "bits": 4, "group_size": 128},
}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "words", "release", "found"),
    [
        (GROUPED, "-tp 2", "0.7.3", True),
        (GROUPED, "-tp 2", "0.33.0", True),
        (GROUPED, "-tp 1", "0.33.0", False),
        (GROUPED | {"intermediate_size": 29696}, "-tp 4", "0.33.0", False),
        (GROUPED | {"quantization": CHANNELS}, "-tp 4", "0.6.0", True),
        (GROUPED | {"quantization": CHANNELS}, "-tp 4", "0.33.0", False),
        (GROUPED | {"quantization": {"method": "awq", "bits": 4}}, "-tp 2", "0.33.0", False),
        (EXPERTS, "-tp 8", "0.9.2", True),
        (EXPERTS, "-tp 8 --enable-expert-parallel", "0.9.2", False),
        (EXPERTS, "-tp 4", "0.9.2", False),
    ],
)
def test_groups(facts: Mapping[str, Any], words: str, release: str, found: bool) -> None:
    rules = [name for name, _ in refused(words, release, "my/model", models={"my/model": facts})]
    assert found is ("quant-group-misaligned" in rules)


MTP = """ --speculative-config '{"method":"mtp"}'"""


@pytest.mark.parametrize(
    ("release", "line", "found"),
    [
        ("0.26.0", "Qwen/Qwen3.5-27B -pp 4" + MTP, True),
        ("0.30.0", "Qwen/Qwen3.5-27B -pp 4" + MTP, False),
        ("0.26.0", "Qwen/Qwen3.5-27B -tp 4" + MTP, False),
        ("0.26.0", "Qwen/Qwen3.5-27B -pp 4" + MTP.replace("mtp", "ngram"), False),
        ("0.12.0", "deepseek-ai/DeepSeek-V3 -pp 2" + MTP, False),
        ("0.16.0", "deepseek-ai/DeepSeek-V3 -pp 2" + MTP, True),
        ("0.7.3", "deepseek-ai/DeepSeek-R1 -tp 8 -pp 2 --num-speculative-tokens 1", True),
        ("0.7.3", "deepseek-ai/DeepSeek-R1 -tp 8 -pp 2", False),
    ],
)
def test_what_drafts_must_have_stages_too(release: str, line: str, found: bool) -> None:
    result = check(f"vllm serve {line}\n", "run.sh", engine_version={"vllm": release})
    severities = [one.severity for one in result.findings if one.name == "pp-unsupported"]
    assert (["error"] if found else []) == severities


@pytest.mark.parametrize(
    ("words", "release", "found"),
    [
        ("--enable-auto-tool-choice", "0.33.0", ["flag-conflict"]),
        ("--enable-auto-tool-choice", "0.6.0", ["flag-conflict"]),
        ("--enable-auto-tool-choice --tool-call-parser hermes", "0.33.0", []),
        ("--tool-call-parser hermes", "0.33.0", []),
        ("--enable-auto-tool-choice --tool-call-parser $PARSER", "0.33.0", []),
        ("--enable-log-outputs", "0.12.0", ["flag-conflict"]),
        ("--enable-log-outputs --enable-log-requests", "0.12.0", []),
    ],
)
def test_options_that_need_another_one(words: str, release: str, found: list[str]) -> None:
    assert found == [item.rule for item in failed(words, release)]


@pytest.mark.parametrize(
    ("words", "release", "model", "found"),
    [
        ("--quantization awq --dtype bfloat16", "0.12.0", "Qwen/Qwen3-8B-AWQ", ["flag-conflict"]),
        ("--quantization awq --dtype half", "0.12.0", "Qwen/Qwen3-8B-AWQ", []),
        ("--quantization awq --dtype bfloat16", "0.24.0", "Qwen/Qwen3-8B-AWQ", []),
        ("--quantization awq_marlin --dtype bfloat16", "0.12.0", "Qwen/Qwen3-8B-AWQ", []),
        ("--dtype bfloat16", "0.12.0", "Qwen/Qwen3-8B-AWQ", []),
        ("--kv-cache-dtype fp8_e5m2", "0.12.0", "Qwen/Qwen3-8B-FP8", ["flag-conflict"]),
        ("--kv-cache-dtype fp8", "0.12.0", "Qwen/Qwen3-8B-FP8", []),
        ("--kv-cache-dtype fp8_e5m2", "0.12.0", "Qwen/Qwen3-8B", []),
    ],
)
def test_types_that_do_not_go_with_a_way_to_store_weights(
    words: str, release: str, model: str, found: list[str]
) -> None:
    assert found == [item.rule for item in failed(words, release, model)]
