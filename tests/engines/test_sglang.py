"""SGLang: its command lines, what they mean for ranks, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from engines.commands import launch
from harness import check
from shardlint.engine import refuses
from shardlint.engines.sglang import SGLang
from shardlint.known import Known
from shardlint.plan import (
    Constraint,
    Layout,
    ModelFacts,
    Options,
    Reading,
    Refused,
    Releases,
    Remark,
)

ENGINE = SGLang()
START = "python3 -m sglang.launch_server --model-path org/m"
IMAGE = "lmsysorg/sglang:v0.5.23-cu130"
DENSE = ModelFacts(
    id="dense", attention_heads=40, kv_heads=8, intermediate_size=13824, dense_ffn=True,
    vocab_size=152064, longest_context=32768, quantization={},
)  # fmt: skip
BLOCKS = {"method": "fp8", "weight_block_size": [128, 128]}
LATENT = ModelFacts(
    id="latent", attention_heads=128, kv_heads=128, kv_lora_rank=512, qk_nope_head_dim=128,
    qk_rope_head_dim=64, v_head_dim=128, num_experts=256, moe_intermediate_size=2048,
    vocab_size=129280, quantization=BLOCKS,
)  # fmt: skip


def read(words: str, release: str | None = None, **env: str) -> Reading:
    releases = ENGINE.versions(Known.unset() if release is None else Known.of(release))
    reading = ENGINE.read(launch(f"{START} {words}", **env), releases)
    assert reading is not None
    return reading


def effective(words: str, release: str = "0.5.23") -> Layout:
    layout = ENGINE.effective(read(words, release).layout).world().only
    assert layout is not None
    return layout


def found(
    layout: Layout, model: ModelFacts | None = None, release: str = "0.5.23", **options: Any
) -> list[Constraint]:
    """The certain constraints that do not hold."""
    asked = Options(values=options, releases=(Releases(release, release),))
    ranks = ENGINE.ranks(layout, model, None)
    made = ENGINE.constraints(model, ranks, layout, asked)
    return [item for item in made if not item.holds and not item.advisory]


def rules(*args: Any, **more: Any) -> list[str]:
    return sorted({item.rule for item in found(*args, **more)})


# --------------------------------------------------------------------------------------- layout


@pytest.mark.parametrize(
    ("words", "release", "wanted"),
    [
        ("--tp 8 --dp-size 8 --enable-dp-attention", "0.5.10", {"dp": 1, "attention_dp": 8}),
        ("--tp 8 --dp-size 8 --enable-dp-attention", "0.5.23", {"dp": 1, "attention_dp": 8}),
        ("--tp 8 --attn-dp-size 8", "0.5.23", {"dp": 1, "attention_dp": 8}),
        ("--tp 16 --enable-dp-attention", "0.4.3", {"dp": 1, "attention_dp": 16}),
        ("--tp 16 --enable-dp-attention", "0.5.10", {"dp": 1, "attention_dp": 1}),
        ("--tp 4 --dp 2", "0.5.10", {"dp": 2, "attention_dp": 1}),
        ("--tp 8 --ep-size 4", "0.5.10", {"ep": 4, "moe_tp": None}),
        ("--tp 8 --ep 4 --moe-a2a-backend deepep", "0.5.10", {"ep": 8, "moe_tp": 1}),
        ("--tp 8 --ep 4 --moe-a2a-backend none", "0.5.10", {"ep": 4, "moe_tp": None}),
        ("--tp 8 --enable-deepep-moe", "0.4.6", {"ep": 8, "moe_tp": 1}),
        ("--tp 8 --attn-cp-size 2 --dcp-size 4", "0.5.23", {"pcp": 2, "dcp": 4}),
        ("--tp 8 --use-ray", "0.5.23", {"executor": "ray"}),
    ],
)
def test_layout(words: str, release: str, wanted: Mapping[str, Any]) -> None:
    layout = effective(words, release)
    assert wanted == {name: getattr(layout, name) for name in wanted}


def test_what_is_overridden_stays_what_is_stated() -> None:
    reading = read("--tp 8 --ep 4 --moe-a2a-backend deepep", "0.5.10")
    assert 4 == reading.layout.ep.only
    assert {"ep"} == set(reading.tied)


def test_releases_that_split_attention_otherwise_leave_it_open() -> None:
    reason = read("--tp 16 --enable-dp-attention").layout.attention_dp.reason
    assert "releases that are possible here read it differently" == reason


def test_context_parallelism_of_prompts_leaves_groups_open() -> None:
    layout = read("--tp 8 --dp-size 2 --enable-prefill-cp --cp-strategy zigzag", "0.5.23").layout
    assert not layout.attention_dp.is_known
    assert not layout.dp.is_known
    assert 8 == layout.tp.only


def test_ranks() -> None:
    ranks = ENGINE.ranks(effective("--tp 16 --attn-dp-size 4 --nnodes 2"), LATENT, None)
    assert (16, 8, 16, 4) == (ranks.gpus, ranks.gpus_per_pod, ranks.dense_tp, ranks.attention_tp)
    assert (4, 4) == (ranks.kv_copies, ranks.engines)
    ranks = ENGINE.ranks(effective("--tp 2 --pp-size 2 --dp 2"), DENSE, None)
    assert (8, 8, 4) == (ranks.gpus, ranks.gpus_per_pod, ranks.world_size)
    assert ENGINE.ranks(effective("--tp 8 --use-ray"), DENSE, None).gpus_per_pod is None
    assert 2 == ENGINE.ranks(effective("--tp 8 --attn-cp-size 4"), DENSE, None).attention_tp


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        ("--tp 16 --nnodes 2", 2),
        ("--tp 8 --pp-size 2 --nnodes 2", 1),
        ("--tp 16 --pp-size 2 --nnodes 4", 2),
        ("--tp 16 --attn-dp-size 16 --nnodes 2", 1),
        ("--tp 16 --attn-dp-size 2 --nnodes 4", 2),
        ("--tp 8", 1),
    ],
)
def test_nodes_of_a_group(words: str, nodes: int) -> None:
    layout = effective(words)
    assert nodes == ENGINE.group_nodes(layout, ENGINE.ranks(layout, None, None), 8)


# --------------------------------------------------------------------------------------- memory


def test_memory() -> None:
    memory = read(
        "--mem-fraction-static 0.85 --context-length 32k --max-running-requests 64"
        " --chunked-prefill-size 4096 --kv-cache-dtype fp8_e5m2 --page-size 64"
        " --disable-radix-cache --disable-cuda-graph --cpu-offload-gb 2",
        "0.5.23",
    ).memory
    assert ("free_before_load", 0.85) == (memory.budget.of, memory.budget.share.only)
    assert (32000, 64, 4096) == (
        memory.max_model_len.only, memory.max_num_seqs.only, memory.max_num_batched_tokens.only
    )  # fmt: skip
    assert ("fp8_e5m2", 64) == (memory.kv_cache_dtype.only, memory.block_size.only)
    assert (False, True, 2 << 30) == (
        memory.prefix_caching.only, memory.enforce_eager.only, memory.offload.only
    )  # fmt: skip


def test_a_count_with_a_suffix_hangs_on_the_release() -> None:
    assert [] == list(read("--context-length 32k", "0.5.23").refused)
    assert ["invalid int value: '32k'"] == [
        item.problem for item in read("--context-length 32k", "0.4.6").refused
    ]


@pytest.mark.parametrize("words", ["--disaggregation-mode prefill", "--moe-a2a-backend deepep"])
def test_a_default_that_is_not_modelled_is_not_known(words: str) -> None:
    assert "the default of --mem-fraction-static is another one" == (
        read(words, "0.5.10").memory.budget.share.reason
    )
    assert 0.8 == read(f"{words} --mem-fraction-static 0.8", "0.5.10").memory.budget.share.only


def test_graphs_up_to_a_batch() -> None:
    sizes = read("--cuda-graph-max-bs 16", "0.5.10").memory.capture_sizes.only
    assert (1, 2, 4, 8, 12, 16) == sizes
    assert (1, 3) == read("--cuda-graph-bs 1 3", "0.5.10").memory.capture_sizes.only


# -------------------------------------------------------------------------------------- refused


def refused(words: str, release: str | None, image: str | None = None) -> list[Refused]:
    releases = ENGINE.versions(Known.unset() if release is None else Known.of(release))
    reading = ENGINE.read(launch(f"{START} {words}", image), releases)
    assert reading is not None
    return list(reading.refused)


@pytest.mark.parametrize(
    ("words", "release", "problem", "replaced_by"),
    [
        ("--tensor_parallel_size 4", "0.5.23", "unrecognized arguments", None),
        ("--pp 2", "0.5.23", "ambiguous option", None),
        ("--cuda-graph-max-bs 8", "0.5.23", "ambiguous option", "--cuda-graph-max-bs-decode"),
        ("--stream-output", "0.5.23", "unrecognized arguments", "--incremental-streaming-output"),
        ("--enable-deepep-moe", "0.5.23", "unrecognized arguments", "--moe-a2a-backend deepep"),
        ("--enable-flashmla", "0.4.6", "--enable-flashmla is deprecated. Please use"
         " '--attention-backend flashmla' instead.", "--attention-backend flashmla"),
    ],
)  # fmt: skip
def test_options_that_a_release_does_not_take(
    words: str, release: str, problem: str, replaced_by: str | None
) -> None:
    (item,) = refused(words, release)
    assert ("unknown", problem, replaced_by) == (item.kind, item.problem, item.replaced_by)
    assert "error" == item.severity


def test_an_underscored_name_is_the_one_with_dashes() -> None:
    (item,) = refused("--tensor_parallel_size 4", "0.5.23")
    assert ("--tensor-parallel-size",) == item.candidates


def test_an_option_of_some_release_is_no_finding_where_none_is_stated() -> None:
    assert [] == refused("--attn-dp-size 8", None)
    assert ["warning"] == [item.severity for item in refused("--enable-ep-moe", None)]


@pytest.mark.parametrize(
    ("image", "severity"),
    [
        ("lmsysorg/sglang:v0.5.23-cu130", "error"),
        ("lmsysorg/sglang:v0.5.23-rocm700-mi35x", None),
        ("lmsysorg/sglang:dev", None),
        ("example.org/fork/sglang:v0.5.23", None),
    ],
)
def test_other_builds_may_have_options_of_their_own(image: str, severity: str | None) -> None:
    found = refused("--zz-other-thing 1", "0.5.23", image)
    assert ([] if severity is None else [severity]) == [item.severity for item in found]


def test_serve_starts_other_servers_too() -> None:
    releases = ENGINE.versions(Known.of("0.5.23"))

    def unknown(line: str) -> list[bool] | None:
        reading = ENGINE.read(launch(line), releases)
        return [item.certain for item in reading.refused] if reading is not None else None

    assert unknown("sglang serve org/m --num-gpus 2") is None
    assert unknown("sglang serve org/m --model-type diffusion --num-gpus 2") is None
    assert [True] == unknown("sglang serve org/m --model-type llm --num-gpus 2")
    assert [True] == unknown("sglang serve org/m --context-length 4096 --num-gpus 2")


def test_serve_takes_the_model_in_front() -> None:
    reading = ENGINE.read(launch("sglang serve org/m --tp 2"), ENGINE.versions(Known.unset()))
    assert reading is not None
    assert ("org/m", 2, ()) == (reading.model.only, reading.layout.tp.only, reading.refused)


def test_a_file_sets_only_plain_options() -> None:
    asked = launch(f"{START} --enable-dp-attention --disable-cuda-graph --tp-size 8")
    asked = replace(asked, config=asked.argv[5:])
    for release, count in (("0.5.10", 0), ("0.5.23", 2)):
        reading = ENGINE.read(asked, ENGINE.versions(Known.of(release)))
        assert reading is not None
        assert count == len(reading.refused)


# -------------------------------------------------------------------------------------- remarks


def remarks(words: str, release: str | None = None) -> list[Remark]:
    return list(read(words, release).remarks)


def test_the_old_spelling_of_attention_groups_is_deprecated_where_the_new_one_is_there() -> None:
    words = "--tp 8 --dp-size 8 --enable-dp-attention"
    assert [] == remarks(words, "0.5.21")
    assert [] == remarks(words)
    new = [(remark.kind, remark.replaced_by) for remark in remarks(words, "0.5.22")]
    assert [("deprecated", "--attn-dp-size"), ("deprecated", None)] == new
    (remark,) = remarks("--tp 8 --attn-dp-size 8 --enable-dp-attention", "0.5.23")
    assert ("deprecated", "") == (remark.kind, remark.replaced_by)


def test_a_size_that_the_exchange_overrides() -> None:
    (remark,) = remarks("--tp 8 --ep-size 4 --moe-a2a-backend deepep", "0.5.10")
    assert "ignored" == remark.kind
    assert "all 8 ranks of TP" in remark.message
    assert [] == remarks("--tp 8 --ep-size 8 --moe-a2a-backend deepep", "0.5.10")


def test_usual_prefixes_are_passed_over() -> None:
    assert [] == remarks("--tp 8 --dp 2", "0.5.10")
    assert ["abbreviated"] == [one.kind for one in remarks("--mem-fraction 0.8", "0.5.10")]


# ---------------------------------------------------------------------------------- constraints


def test_heads_are_those_of_the_ranks_that_share_an_attention() -> None:
    assert ["tp-heads-indivisible"] == rules(Layout(tp=16), replace(DENSE, kv_heads=4))
    assert [] == rules(Layout(tp=8), DENSE)
    latent = replace(LATENT, quantization={})
    assert "tp-heads-indivisible" in rules(Layout(tp=24), latent)
    assert "tp-heads-indivisible" not in rules(Layout(tp=24, attention_dp=24), latent)
    assert [] == rules(Layout(tp=16), DENSE, device="cpu")


def test_kv_heads_are_split_or_copied() -> None:
    assert "tp-kv-heads-indivisible" in rules(Layout(tp=5), DENSE)
    assert [] == rules(Layout(tp=8), LATENT)


def test_the_vocabulary_is_padded_since_0_5_22() -> None:
    odd = ModelFacts(id="odd", vocab_size=32000)
    assert ["shard-dim-indivisible"] == rules(Layout(tp=3), odd, "0.5.21")
    assert [] == rules(Layout(tp=3), odd, "0.5.22")


def test_blocks_of_scales() -> None:
    assert [] == rules(Layout(tp=16), LATENT)
    assert "quant-block-misaligned" in rules(Layout(tp=32), LATENT)
    narrow = replace(LATENT, moe_intermediate_size=1536)
    assert "quant-block-misaligned" in rules(Layout(tp=8), narrow)
    assert [] == rules(Layout(tp=8, ep=8), narrow)
    assert [] == rules(Layout(tp=32), LATENT, quantization="w8a8_fp8")


def test_experts_over_ranks_of_expert_parallelism() -> None:
    plain = replace(LATENT, quantization={})
    layout = Layout(tp=24, attention_dp=24, ep=24, moe_tp=1)
    assert ["experts-indivisible"] == rules(layout, plain)
    assert [] == rules(layout, plain, ep_num_redundant_experts=8)


@pytest.mark.parametrize(
    ("layout", "options", "release", "rule", "text"),
    [
        (Layout(dp=2, nnodes=2, tp=8), {}, "0.5.23", "flag-conflict",
         "multi-node data-parallel replicas are not supported"),
        (Layout(tp=8, dp=2, attention_dp=8), {}, "0.5.23", "flag-conflict",
         "data-parallel replicas combined with attention data parallelism are not supported"),
        (Layout(tp=8, attention_dp=3), {}, "0.5.23", "dp-mode-invalid", ""),
        (Layout(tp=8, pcp=3), {}, "0.5.23", "flag-conflict", "tp_size must be divisible by attn_"),
        (Layout(tp=8, dcp=3), {}, "0.5.23", "dcp-invalid",
         "must be divisible by decode_context_parallel_size"),
        (Layout(tp=1, nnodes=2), {}, "0.5.23", "node-group-size-mismatch",
         "tp_size must be divisible by number of nodes"),
        (Layout(tp=8), {"moe_dense_tp_size": 2}, "0.5.23", "flag-conflict",
         "moe_dense_tp_size only support"),
        (Layout(tp=8, ep=4), {"moe_runner_backend": "flashinfer_cutlass"}, "0.5.23",
         "flag-conflict",
         "The expert parallel size must be 1 or the same as the tensor parallel size"),
        (Layout(tp=8), {"enable_eplb": True}, "0.5.23", "flag-conflict", ""),
        (Layout(), {"chunked_prefill_size": 1000, "page_size": 64}, "0.5.23", "flag-conflict",
         "chunked_prefill_size must be divisible by page_size"),
        (Layout(tp=8), {"enable_prefill_cp": True}, "0.5.23", "flag-conflict",
         "--cp-strategy must be set when --enable-prefill-cp is enabled"),
    ],
)  # fmt: skip
def test_what_it_refuses(
    layout: Layout, options: Mapping[str, Any], release: str, rule: str, text: str
) -> None:
    (item,) = found(layout, None, release, **options)
    assert (rule, text) == (item.rule, item.refusal)


def test_a_check_is_not_older_than_its_release() -> None:
    assert [] == found(Layout(tp=8, dcp=3), None, "0.5.14")
    assert [] == found(Layout(tp=8, dp=2, attention_dp=2), None, "0.5.21")


def test_a_context_beyond_the_model() -> None:
    (item,) = found(Layout(), DENSE, context_length=65536)
    assert ("context-len-exceeds-model", "error") == (item.rule, item.severity)
    (item,) = found(
        Layout(), DENSE, context_length=65536, SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN="1"
    )
    assert "warning" == item.severity
    assert [] == found(Layout(), DENSE, context_length=65536, json_model_override_args="{}")


def test_a_way_to_store_weights_that_is_not_that_of_the_checkpoint() -> None:
    awq = replace(DENSE, quantization={"method": "awq", "bits": 4, "group_size": 128})
    assert ["flag-conflict"] == rules(Layout(), awq, quantization="fp8")
    assert [] == rules(Layout(), awq, quantization="awq_marlin")
    assert [] == rules(Layout(tp=8, nnodes=1), LATENT, quantization="fp8")


def test_the_first_that_refuses() -> None:
    item = refuses(ENGINE, Layout(tp=3), DENSE)
    assert item is not None
    assert "tp-heads-indivisible" == item.rule


# ------------------------------------------------------------------------------ what is around


def test_shared_memory_and_peers() -> None:
    layout = effective("--tp 4")
    need = ENGINE.shared_memory(layout, ENGINE.ranks(layout, None, None))
    assert need is not None
    assert (4, None) == (need.processes, need.since)
    one = effective("")
    assert ENGINE.shared_memory(one, ENGINE.ranks(one, None, None)) is None


def test_names_of_options_follow_the_release() -> None:
    assert "--context-length" == ENGINE.flag_name("max_model_len")
    before, since = (Known.of(Releases(one, one)) for one in ("0.5.21", "0.5.22"))
    assert ENGINE.flag_name("attention_dp", releases=before) is None
    assert "--attn-dp-size" == ENGINE.flag_name("attention_dp", releases=since)
    assert ENGINE.flag_name("dp_local") is None


def test_what_another_launcher_takes_out_is_not_refused() -> None:
    words = "--model-path org/m --disaggregation-mode encode --load-format gms --no-such 1"
    own = check(f"python3 -m sglang.launch_server {words}\n")
    assert {"flag-unknown", "flag-conflict"} <= {item.name for item in own.findings}
    other = check(f"python3 -m dynamo.sglang {words}\n")
    assert not {"flag-unknown", "flag-conflict"} & {item.name for item in other.findings}


@pytest.mark.parametrize("words", ["--num-gpus 4 --ulysses-degree 2", "--model-type diffusion"])
def test_a_server_of_diffusion_models_is_another_one(words: str) -> None:
    assert 0 == check(f"sglang serve --model-path Qwen/Qwen-Image {words}\n").plans
    assert 1 == check("sglang serve --model-path Qwen/Qwen3-8B --mem-fraction-static 0.8\n").plans


@pytest.mark.parametrize(
    "command",
    ["lmdeploy serve proxy --routing-strategy random", "lmdeploy lite auto_awq m --work-dir x",
     "sglang generate --model-path m --prompt x", "trtllm-bench --model m throughput"],
)  # fmt: skip
@pytest.mark.parametrize("image", ["openmmlab/lmdeploy:v0.9.2", "lmsysorg/sglang:v0.5.5"])
def test_another_program_of_an_engine_is_no_server(image: str, command: str) -> None:
    assert 0 == check(f"docker run --gpus all {image} {command}\n").plans


# -------------------------------------------------------------------------------------- stages


@pytest.mark.parametrize(
    ("options", "release", "refused"),
    [
        ("--speculative-algorithm EAGLE", "0.5.2", True),
        ("--speculative-algorithm EAGLE", "0.5.20", True),
        ("--speculative-algorithm EAGLE", "0.5.23", True),
        ("--speculative-algorithm EAGLE --disaggregation-mode prefill", "0.5.20", True),
        ("--speculative-algorithm EAGLE --disaggregation-mode prefill", "0.5.23", False),
        ("--speculative-algorithm EAGLE $MORE", "0.5.23", False),
        ("--enable-mixed-chunk", "0.5.2", True),
        ("--enable-mixed-chunk", "0.5.12", False),
        ("", "0.5.2", False),
    ],
)
def test_what_does_not_go_with_stages(options: str, release: str, refused: bool) -> None:
    text = f"python3 -m sglang.launch_server --model-path m --tp 2 --pp-size 2 {options}"
    found = check(text, engine_version={"sglang": release}).findings
    assert refused == any(f.name == "flag-conflict" and f.severity == "error" for f in found)


def test_a_variable_lets_stages_draft() -> None:
    text = (
        "SGLANG_ENABLE_PP_SPEC=1 python3 -m sglang.launch_server --model-path m --pp-size 2"
        " --speculative-algorithm EAGLE"
    )
    found = check(text, engine_version={"sglang": "0.5.23"}).findings
    assert "flag-conflict" not in [f.name for f in found]


# ---------------------------------------------------------------------------- successors of options


@pytest.mark.parametrize(
    ("option", "release", "written"),
    [
        ("--nsa-prefill x", "0.5.23", "`--dsa-prefill-backend` takes its place"),
        ("--nsa-prefill x", "0.4.9", "other releases have `--dsa-prefill-backend` in its place"),
        ("--nsa-prefill x", None, "other releases have `--dsa-prefill-backend` in its place"),
        ("--disable-flashinfer", "0.5.23", "`--attention-backend triton` takes its place"),
    ],
)
def test_a_successor_is_written_where_each_possible_release_has_it(
    option: str, release: str | None, written: str
) -> None:
    text = f"python3 -m sglang.launch_server --model-path m {option}"
    told = {"engine_version": {"sglang": release}} if release else {}
    (found,) = (f for f in check(text, **told).findings if f.name == "flag-unknown")
    assert written == found.help


# ------------------------------------------------------------------------------------------ towers

TOWER = {
    "attention_heads": 48, "kv_heads": 8, "head_dim": 128, "num_layers": 4, "hidden_size": 6144,
    "intermediate_size": 16384, "vocab_size": 92544, "dense_ffn": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "heads", "options", "release", "refused"),
    [
        ("internvl_chat", 25, "--tp 2", "0.4.8", True),
        ("internvl_chat", 25, "--tp 1", "0.4.8", False),
        ("internvl_chat", 25, "--tp 2", "0.4.7", False),  # whole on each rank
        ("internvl_chat", 25, "--tp 2", "0.5.2", False),  # heads are added
        ("qwen3_vl", 16, "--tp 24", "0.5.9", True),
        ("qwen3_vl", 16, "--tp 8", "0.5.9", False),
        ("qwen3_vl", 16, "--tp 24 --mm-enable-dp-encoder", "0.5.9", False),
        ("own", 25, "--tp 2", "0.4.8", False),
    ],
)
def test_heads_of_a_tower_are_cut_too(
    kind: str, heads: int, options: str, release: str, refused: bool
) -> None:
    model = {**TOWER, "model_type": kind, "vision_heads": heads}
    text = f"python3 -m sglang.launch_server --model-path a/m {options}"
    found = check(text, models={"a/m": model}, engine_version={"sglang": release}).findings
    assert refused == any("heads of the vision tower" in f.message for f in found)
