"""Rooms that vLLM makes for sparse attention, streams, adapters and tables, formula by formula.

The sizes on the right are worked out from the shapes that the releases named here allocate.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from shardlint.engines import vllm_sparse
from shardlint.engines.cuts import cut
from shardlint.engines.vllm import VLLM
from shardlint.engines.vllm_beside import beside, defaults, rules
from shardlint.engines.vllm_kernels import is_mxfp4
from shardlint.engines.vllm_run import Run
from shardlint.footprint import Beside, Footprint, Settings
from shardlint.matrices import Block, StateGroup, Weight
from shardlint.models.config_json import facts_from_config
from shardlint.plan import Device, KvGroup, Layout, ModelFacts
from shardlint.sizing.memory import footprint, weights
from shardlint.sizing.storage import PLAIN, storage

GIB, MIB = 1 << 30, 1 << 20
H100 = Device(
    name="H100-SXM", vendor="nvidia", memory_mib=81080, compute_capability="9.0", link="nvlink"
)
A100 = replace(H100, name="A100-SXM4-80GB", compute_capability="8.0")
B200 = replace(H100, name="B200", memory_mib=182600, compute_capability="10.0")


def block(*weights: Weight, layers: int = 1) -> Block:
    return Block("layers", weights, tuple(range(layers)))


STREAMS = ModelFacts(
    id="streams", model_type="deepseek_v4", architecture="DeepseekV4ForCausalLM", num_layers=43,
    hidden_size=4096, attention_heads=64, kv_heads=1, head_dim=512, q_lora_rank=1024,
    qk_rope_head_dim=64, vocab_size=129280, default_context=1048576,
    max_position_embeddings=1048576, torch_dtype="bfloat16",
    kv_groups=(
        KvGroup(21, 1, 1024, shared=True, ratio=4, index=128, indexers=tuple(range(21))),
        KvGroup(20, 1, 1024, shared=True, ratio=128),
        KvGroup(43, 1, 1024, shared=True, window=128),
    ),
    weights=(
        block(Weight("indexer.wq_b", "indexer", 64 * 128, 1024), layers=21),
        Block("last", (Weight("hc_head_fn", "norm", 4, 4 * 4096, element=4),)),
    ),
)  # fmt: skip
SPARSE = ModelFacts(
    id="sparse", model_type="deepseek_v32", architecture="DeepseekV32ForCausalLM", num_layers=61,
    hidden_size=7168, attention_heads=128, kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128,
    qk_rope_head_dim=64, v_head_dim=128, vocab_size=129280, default_context=163840,
    max_position_embeddings=163840, torch_dtype="bfloat16",
    kv_groups=(KvGroup(61, 1, 1152, shared=True, index=128, indexers=tuple(range(61))),),
    weights=(block(Weight("indexer.wq_b", "indexer", 64 * 128, 1536), layers=61),),
)  # fmt: skip
DENSE = ModelFacts(
    id="dense", architecture="LlamaForCausalLM", num_layers=32, hidden_size=4096,
    attention_heads=32, kv_heads=8, head_dim=128, intermediate_size=14336, vocab_size=128256,
    default_context=131072, max_position_embeddings=131072, torch_dtype="bfloat16",
)  # fmt: skip


def run_of(
    model: ModelFacts, release: str, device: Device = H100, tp: int = 1, **asked: Any
) -> Run:
    layout = Layout(tp=tp)
    settings = defaults(Settings(**asked), model, layout, device, release)
    return Run(
        model=model, ranks=VLLM().ranks(layout, model, None), layout=layout, settings=settings,
        told=rules(release), runner="v1", capability=device.compute_capability,
        tokens=settings.max_num_batched_tokens or 0, seqs=settings.max_num_seqs or 0, element=2,
    )  # fmt: skip


def made(
    model: ModelFacts, release: str, device: Device = H100, tp: int = 1, **asked: Any
) -> Beside:
    layout = Layout(tp=tp)
    settings = defaults(Settings(**asked), model, layout, device, release)
    return beside(
        model, VLLM().ranks(layout, model, None), layout, settings, device, release
    )  # fmt: skip


# --------------------------------------------------------------------------- sparse attention


def test_an_indexer_gathers_the_keys_of_forty_requests() -> None:
    """indexer.py, get_max_prefill_buffer_size: 825 MiB for DeepSeek-V3.2 by its own words."""
    assert vllm_sparse.workspace(run_of(SPARSE, "0.13.0")) == 40 * 163840 * 132
    assert vllm_sparse.workspace(run_of(SPARSE, "0.12.0")) == 0
    assert vllm_sparse.workspace(run_of(DENSE, "0.33.0")) == 0


def test_flashmla_gathers_keys_in_16_bits() -> None:
    """flashmla_sparse.py: five requests, about 900 MiB, where the cache is in 8 bits."""
    run = run_of(SPARSE, "0.20.0", kv_cache_dtype="fp8")
    assert vllm_sparse.workspace(run) == 5 * 163840 * 576 * 2


def test_long_requests_take_a_smaller_factor_since_0_32() -> None:
    before, after = (
        vllm_sparse.workspace(run_of(SPARSE, release, max_model_len=524288))
        for release in ("0.31.0", "0.32.0")
    )
    assert before == 524288 * 40 * 132 + MIB and after == 524288 * 16 * 132 + MIB


def test_pressed_tokens_need_a_part_of_the_room() -> None:
    """One key for four tokens; a short request leaves the prompts' own keys as the largest."""
    assert vllm_sparse.workspace(run_of(STREAMS, "0.26.0")) == 1048576 * 10 * 132 + MIB
    short = run_of(STREAMS, "0.26.0", max_model_len=16384, max_num_batched_tokens=8192)
    assert vllm_sparse.workspace(short) == 4 * (4096 + 128 + 8192) * 512 * 2


@pytest.mark.parametrize(("release", "extra"), [("0.16.0", 0), ("0.19.0", 512 * MIB)])
def test_scores_of_an_indexer_are_stood_for_since_0_19(release: str, extra: int) -> None:
    assert vllm_sparse.scores(run_of(SPARSE, release)) == extra


def test_latent_room_of_a_sparse_model_since_0_16() -> None:
    """The class of sparse kernels asked for none before (flashmla_sparse.py of 0.15)."""
    before, after = (
        made(SPARSE, release, tp=8, max_num_seqs=8, max_num_batched_tokens=2048).activations
        for release in ("0.15.0", "0.16.0")
    )
    assert after - before == 65536 * 16 * 256 * 2


def test_chosen_tokens_and_streams_are_kept_with_the_weights() -> None:
    tokens = {"max_num_batched_tokens": 8192}
    chosen, streams = 8192 * 512 * 4, 8192 * 4 * 4096 * 2
    assert vllm_sparse.kept(run_of(STREAMS, "0.26.0", **tokens)) == chosen + streams
    assert vllm_sparse.kept(run_of(STREAMS, "0.28.0", **tokens)) == chosen
    drafts = run_of(STREAMS, "0.28.0", draft="mtp", draft_tokens=1, **tokens)
    assert vllm_sparse.kept(drafts) == chosen + streams
    assert vllm_sparse.kept(run_of(SPARSE, "0.28.0", **tokens)) == 8192 * 2048 * 4


# -------------------------------------------------------------------------- streams, attention


@pytest.mark.parametrize(("heads", "capability", "padded"), [
    (64, "9.0", 64), (8, "9.0", 64), (128, "10.0", 128), (65, "9.0", 128),
    (8, "12.0", 16), (32, "12.0", 32), (8, None, 64),
])  # fmt: skip
def test_queries_have_as_many_heads_as_the_kernel_knows(
    heads: int, capability: str | None, padded: int
) -> None:
    assert vllm_sparse.padded_heads(heads, capability) == padded


def test_attention_of_streams_at_the_scores() -> None:
    """8192 tokens: output and queries 512 MiB each, projections 48, gates in float32 80, the
    indexer's queries 64 and its scores 512."""
    run = run_of(STREAMS, "0.26.0", tp=2, max_num_batched_tokens=8192)
    assert vllm_sparse.pressed_attention(run) == (512 + 512 + 48 + 80 + 64 + 512) * MIB
    assert vllm_sparse.carried(run) * 8192 * 2 == (2 * 256 + 2 * 64) * MIB


def test_tensor_parallelism_leaves_the_padded_heads() -> None:
    few = {"max_num_seqs": 16, "max_num_batched_tokens": 8192}
    assert made(STREAMS, "0.26.0", tp=8, **few).activations == pytest.approx(
        made(STREAMS, "0.26.0", tp=1, **few).activations, rel=0.01
    )


def test_the_room_of_kernels_stays_through_the_sampler() -> None:
    asked = {"max_num_seqs": 1024, "max_num_batched_tokens": 2048, "enforce_eager": True}
    short, long = (
        made(STREAMS, "0.21.0", max_model_len=length, **asked).activations
        for length in (262144, 1048576)
    )
    assert long - short == (1048576 - 262144) * 10 * 132


# ------------------------------------------------------------------- layers with a fixed state


def test_layers_with_a_state_count_what_prepares_them() -> None:
    """Their kernels get no tokens in the profile run: projections, copies and outputs alone."""
    from shardlint.engines.vllm_beside import _recurrent

    delta = StateGroup(layers=30, kind="delta", channels=8192, conv=3, heads=32, state=128 * 128)
    assert _recurrent(delta, "qwen3_5_moe") == 8192 + 3 * 4096
    assert _recurrent(delta, "qwen3_next") == 8192 + 3 * 4096 + 2 * 8192
    mamba = StateGroup(
        layers=23, kind="mamba2", channels=4096, groups=8, group_channels=256, conv=3, heads=64,
        state=8192,
    )  # fmt: skip
    mixed = 4096 + 8 * 256
    assert _recurrent(mamba, "nemotron_h") == (4096 + mixed + 64) + 2 * mixed + 2 * 4096


# ----------------------------------------------------------------------------------- the tower


SEEING = replace(DENSE, model_type="qwen3_vl", vision_tower=True, vision_heads=16)


def peak(model: ModelFacts, **asked: Any) -> int:
    asked = {"max_num_seqs": 8, "max_num_batched_tokens": 2048, "max_model_len": 16384, **asked}
    return made(model, "0.28.0", **asked).activations


def test_a_tower_that_is_not_run_needs_nothing() -> None:
    assert peak(SEEING, skip_tower=True) == peak(SEEING, text_only=True) < peak(SEEING)


def test_smaller_images_make_a_smaller_peak() -> None:
    """1024 pixels for a token of Qwen3-VL, four patches each; two images fill the batch."""
    outputs, patches = 2048 * 4096 * 2, 2048 * 4 * 1280 * (9 + 3) * 2
    assert peak(SEEING, max_pixels=1024 * 1024, max_num_seqs=1) == (
        outputs + patches + 32 * MIB
    )  # fmt: skip


def test_few_requests_can_hold_many_images() -> None:
    """encoder_budget.py: a request takes as many as its length holds; LLaVA has 576 tokens each."""
    llava = replace(SEEING, model_type="llava")
    short, long = (peak(llava, max_num_seqs=1, max_model_len=n) for n in (600, 16384))
    assert long > short


# ---------------------------------------------------------------------------- tables of positions


def test_tables_of_positions() -> None:
    """Llama 3.1: 32 MiB, the difference between its matrices and the 14.99 GiB of mem-063."""
    assert made(DENSE, "0.17.0").loaded == 131072 * 128 * 2
    turned = replace(DENSE, model_type="qwen3_5", head_dim=256, max_position_embeddings=262144)
    assert made(turned, "0.26.0").loaded == 4 * 262144 * 64 * 2
    assert made(replace(DENSE, model_type="nemotron_h"), "0.26.0").loaded == 0
    streams = made(STREAMS, "0.28.0", max_num_batched_tokens=8192).loaded
    assert streams == 2 * 1048576 * 64 * 4 + 8192 * 512 * 4


# ------------------------------------------------------------------------------------- adapters

H, F, Q, KV = 4096, 14336, 4096, 1024
LAYER = block(
    Weight("q_proj", "attention", Q, H, "rows"),
    Weight("kv_proj", "attention", KV, H, "heads", count=2, heads=8),
    Weight("o_proj", "attention", H, Q, "columns"),
    Weight("gate_up", "dense_ffn", F, H, "rows", count=2),
    Weight("down", "dense_ffn", H, F, "columns"),
    Weight("q_norm", "norm", 128, 1),
    Weight("router", "router", 8, H),
    layers=32,
)
EXPERTS = block(
    Weight("w13", "expert", 768, 2048, "rows", count=256),
    Weight("w2", "expert", 2048, 768, "columns", count=128),
    layers=48,
)


def adapters(model: ModelFacts, release: str, tp: int = 1, **asked: Any) -> int:
    layout, memory = Layout(tp=tp), VLLM().memory(release)
    assert memory is not None
    settings = Settings(**asked)
    ranks = VLLM().ranks(layout, model, None)
    made = weights(model, ranks, layout, settings, memory, storage({}, PLAIN))
    assert made is not None
    return made.parts.get("adapters", 0)


def test_adapters_of_linear_layers() -> None:
    """base_linear.py: rank × inputs and outputs × rank for each, and for each part of a fused."""
    model = replace(DENSE, weights=(LAYER,))
    sides = (H + Q) + 2 * (H + KV) + (Q + H) + 2 * (H + F) + (F + H)
    assert adapters(model, "0.33.0", max_loras=2, max_lora_rank=16) == 32 * 2 * 16 * sides * 2


def test_tensor_parallelism_cuts_one_side_of_an_adapter() -> None:
    """column_parallel_linear.py cuts the outputs, row_parallel_linear.py the inputs."""
    model = replace(DENSE, weights=(LAYER,))
    sides = (H + Q // 2) + 2 * (H + KV // 2) + (Q // 2 + H) + 2 * (H + F // 2) + (F // 2 + H)
    assert adapters(model, "0.33.0", 2, max_loras=1, max_lora_rank=64) == 32 * 64 * sides * 2


def test_experts_have_adapters_since_0_11_1() -> None:
    model = replace(
        DENSE, weights=(EXPERTS,), num_layers=48,
        num_experts=128, experts_per_token=8, moe_intermediate_size=768,
    )  # fmt: skip
    asked = {"max_loras": 1, "max_lora_rank": 16}
    assert adapters(model, "0.11.0", **asked) == 0
    sides = 3 * 128 * (2048 + 768)
    assert adapters(model, "0.11.2", **asked) == 48 * 16 * sides * 2


def test_without_adapters_there_is_no_room() -> None:
    assert adapters(replace(DENSE, weights=(LAYER,)), "0.33.0") == 0


# -------------------------------------------------------------------------------- MXFP4 scales


@cache
def gpt_oss(shared: Path) -> ModelFacts:
    path = shared / "models" / "openai__gpt-oss-20b.json"
    return facts_from_config(json.loads(path.read_text(encoding="utf-8")), "openai/gpt-oss-20b")


def test_triton_has_scales_of_its_own(shared: Path) -> None:
    """mem-177 prints 13.47 GiB of weights; its matrices and their scales are 12.81."""
    model = gpt_oss(shared)
    assert is_mxfp4(model.quantization or {})
    up, down = 2 * 3072 * 90, 3072 * 90  # rows of 32 elements, padded to 256 rows
    assert made(model, "0.24.0").loaded - made(model, "0.25.0").loaded == 24 * 32 * (up + down)
    assert made(model, "0.24.0", device=A100).loaded == made(model, "0.25.0").loaded


def test_triton_keeps_no_room_for_experts(shared: Path) -> None:
    """gpt_oss_triton_kernels_moe.py: one activated product and the output, while a layer runs."""
    asked = {"max_num_seqs": 4, "max_num_batched_tokens": 8192}
    hopper = made(gpt_oss(shared), "0.28.0", **asked).activations - 32 * MIB
    other = made(gpt_oss(shared), "0.28.0", device=A100, **asked).activations
    assert other - hopper > 8192 * 4 * 2880 * 2


@pytest.mark.parametrize(("device", "outputs", "inputs"), [
    (H100, 2880, 2880), (A100, 2944, 3072), (B200, 3072, 3072),
])  # fmt: skip
def test_experts_in_mxfp4_are_as_wide_as_kernels_want_them(
    device: Device, outputs: int, inputs: int, shared: Path
) -> None:
    model, layout = gpt_oss(shared), Layout()
    memory = VLLM().memory("0.24.0")
    assert memory is not None
    settings = memory.settled(Settings(), model, layout, device)
    weight = Weight("gate", "expert", 2880, 2880, "rows", count=32)
    part = memory.part(weight, model, VLLM().ranks(layout, model, None), settings)
    assert (part.outputs, part.inputs) == (outputs, inputs)


def test_a_cut_of_a_matrix() -> None:
    assert cut(Weight("k", "attention", 1024, 4096, "heads", heads=2), 8).outputs == 512
    assert cut(Weight("o", "attention", 4096, 4096, "columns"), 8).inputs == 512


# --------------------------------------------------------------------------------------- drafts


@pytest.mark.parametrize("draft", ["eagle", "eagle3", "draft_model", "dflash"])
def test_a_draft_of_its_own_is_said_and_never_makes_room(draft: str, shared: Path) -> None:
    """Its weights are not known: what is left is too much, so that an error stays true."""
    path = shared / "models" / "Qwen__Qwen3-8B.json"
    model = facts_from_config(json.loads(path.read_text(encoding="utf-8")), "Qwen/Qwen3-8B")
    memory = VLLM().memory("0.33.0")
    assert memory is not None
    stored = storage({}, PLAIN)

    def sized(**asked: Any) -> Footprint:
        layout = Layout()
        found = footprint(
            model, VLLM().ranks(layout, model, None), layout, Settings(**asked), memory, stored,
            H100, 81080 * MIB,
        )  # fmt: skip
        assert found is not None
        return found

    plain, drafting = sized(), sized(draft=draft, draft_tokens=3)
    assert not plain.assumes and draft in drafting.assumes[0]
    assert drafting.kv <= plain.kv and sized(draft="ngram", draft_tokens=3).assumes == ()
