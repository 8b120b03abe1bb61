"""What vLLM needs beside weights and KV cache: against printed logs, and rule by rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from shardlint.engines import vllm_beside
from shardlint.engines.vllm import VLLM
from shardlint.engines.vllm_beside import INTERVALS, beside, defaults, rules, table
from shardlint.footprint import Beside, Settings
from shardlint.models.config_json import facts_from_config
from shardlint.plan import Device, Layout, ModelFacts, Releases
from shardlint_schemas import schema

GIB, MIB = 1 << 30, 1 << 20


def card(name: str, gib: float, capability: str, link: str = "nvlink") -> Device:
    return Device(
        name=name, vendor="nvidia", memory_mib=int(gib * 1024),
        compute_capability=capability, link=link,
    )  # fmt: skip


H100 = card("H100-SXM", 79.18, "9.0")
H200 = card("H200", 139.8, "9.0")
B200 = card("B200", 178.3, "10.0")
A100 = card("A100-SXM4-80GB", 79.25, "8.0")
A100_40 = card("A100-SXM4-40GB", 39.38, "8.0")
GB10 = card("GB10", 121.69, "12.1", "none")
T4 = card("T4", 14.56, "7.5", "pcie")
A5000 = card("RTX A5000", 23.55, "8.6", "pcie")
RTX_4060 = card("RTX 4060", 8.0, "8.9", "pcie")
RTX_4080 = card("RTX 4080", 15.99, "8.9", "pcie")
RTX_PRO = card("RTX PRO 6000", 94.97, "12.0", "pcie")

DENSE = ModelFacts(
    id="dense", architecture="Qwen3ForCausalLM", num_layers=36, hidden_size=4096,
    attention_heads=32, kv_heads=8, head_dim=128, intermediate_size=12288, vocab_size=151936,
    default_context=40960, torch_dtype="bfloat16",
)  # fmt: skip
MIXTURE = ModelFacts(
    id="mixture", architecture="Qwen3MoeForCausalLM", num_layers=48, hidden_size=2048,
    attention_heads=32, kv_heads=4, head_dim=128, vocab_size=151936, num_experts=128,
    experts_per_token=8, moe_intermediate_size=768, intermediate_size=6144, dense_ffn=False,
    default_context=40960, torch_dtype="bfloat16",
)  # fmt: skip


def sized(
    model: ModelFacts,
    asked: Settings,
    device: Device | None,
    release: str,
    layout: Layout | None = None,
) -> tuple[Settings, Beside]:
    layout = layout or Layout()
    settings = defaults(asked, model, layout, device, release)
    ranks = VLLM().ranks(layout, model, None)
    return settings, beside(model, ranks, layout, settings, device, release)


# ------------------------------------------------------------------------------ printed logs


@dataclass(frozen=True)
class Log:
    """A start of vLLM in the shared evidence; GiB.

    `supposed` is a release where the log names none, `total_off` what the total may be off.
    """

    id: str
    config: str
    device: Device
    supposed: str | None = None
    pooling: bool | None = None
    text_only: bool = True
    total_off: float = 0.12


LOGS = (
    Log("mem-025", "meta-llama/Llama-3.1-8B-Instruct", A100_40),
    Log("mem-028", "Qwen/Qwen2.5-14B-Instruct-AWQ", A5000),
    Log("mem-045", "Qwen/Qwen2.5-7B-Instruct", RTX_4060, supposed="0.6.6"),
    Log("mem-046", "Qwen/Qwen3-32B", H100),
    Log("mem-048", "Qwen/Qwen3-8B", T4),
    Log("mem-049", "Qwen/Qwen3-8B", T4),
    Log("mem-050", "Qwen/Qwen3-8B", T4),
    Log("mem-051", "Qwen/Qwen3-Embedding-8B", H100, pooling=True),
    Log("mem-053", "meta-llama/Llama-3.3-70B-Instruct", H100),
    Log("mem-063", "meta-llama/Llama-3.1-8B-Instruct", A100),
    Log("mem-072", "meta-llama/Meta-Llama-3-8B-Instruct", H200),
    Log("mem-078", "Qwen/Qwen2.5-3B-Instruct", A100),
    Log("mem-155", "Qwen/Qwen3-30B-A3B-Instruct-2507", H200),
    Log("mem-158", "Qwen/Qwen3-235B-A22B-FP8", H100),
    Log("mem-160", "Qwen/Qwen3-30B-A3B", H100),
    Log("mem-163", "Qwen/Qwen3-Coder-30B-A3B-Instruct", A100),
    Log("mem-177", "openai/gpt-oss-20b", H100),
    Log("mem-206", "llava-hf/llava-1.5-7b-hf", RTX_4080, text_only=False),
)


@pytest.fixture(scope="module")
def printed(shared: Path) -> Mapping[str, Mapping[str, Any]]:
    lines = (shared / "evidence" / "memory.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def start(log: Log, row: Mapping[str, Any], shared: Path) -> tuple[Settings, Beside]:
    path = shared / "models" / f"{log.config.replace('/', '__')}.json"
    model = facts_from_config(json.loads(path.read_text(encoding="utf-8")), log.config)
    asked = Settings(
        share=row["gpu_memory_utilization"], max_model_len=row["max_model_len"],
        max_num_seqs=row["max_num_seqs"], max_num_batched_tokens=row["max_num_batched_tokens"],
        enforce_eager=row["enforce_eager"], pooling=log.pooling, text_only=log.text_only,
    )  # fmt: skip
    layout = Layout(tp=row["tp"] or 1, pp=row["pp"] or 1, dp=row["dp"] or 1, ep=bool(row["ep"]))
    return sized(model, asked, log.device, log.supposed or row["version"], layout)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.id)
def test_total_beside_weights_and_cache(
    log: Log, printed: Mapping[str, Mapping[str, Any]], shared: Path
) -> None:
    """What the share leaves after weights and KV cache, to 0.12 GiB.

    These rows are not held out: the constants marked with rows in the table were fitted to them.
    """
    row = printed[log.id]
    settings, made = start(log, row, shared)
    total = made.activations + made.context + made.collectives + made.rest
    total += 0 if made.graphs_outside else made.graphs
    assert settings.share is not None and log.device.memory_mib is not None
    card_gib = row["gpu_memory_gib"] or log.device.memory_mib / 1024
    implied = settings.share * card_gib - row["weights_gib_per_gpu"] - row["available_kv_gib"]
    assert total / GIB == pytest.approx(implied, abs=log.total_off)


PEAKS = (
    Log("mem-045", "Qwen/Qwen2.5-7B-Instruct", RTX_4060, supposed="0.6.6"),
    Log("mem-053", "meta-llama/Llama-3.3-70B-Instruct", H100),
    Log("mem-068", "meta-llama/Meta-Llama-3-8B-Instruct", A100, supposed="0.6.6"),
    Log("mem-069", "meta-llama/Meta-Llama-3-8B-Instruct", A100, supposed="0.6.6"),
    Log("mem-138", "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct", A100, supposed="0.7.3"),
    Log("mem-173", "openai/gpt-oss-120b", H100),
    Log("mem-177", "openai/gpt-oss-20b", H100),
    Log("mem-206", "llava-hf/llava-1.5-7b-hf", RTX_4080, text_only=False),
)


@pytest.mark.parametrize("log", PEAKS, ids=lambda log: log.id)
def test_printed_peak(log: Log, printed: Mapping[str, Mapping[str, Any]], shared: Path) -> None:
    row = printed[log.id]
    _, made = start(log, row, shared)
    assert made.activations / GIB == pytest.approx(row["activation_gib"], abs=0.03)


def test_a_small_batch_leaves_the_peak_to_the_layers(
    printed: Mapping[str, Mapping[str, Any]], shared: Path
) -> None:
    """mem-047 prints 0.59; the default of 1024 sequences would make it 5.6.

    The log does not say how many were asked: supposed are so few that the layers are the peak.
    """
    row = {**printed["mem-047"], "max_num_seqs": 32}
    _, made = start(Log("mem-047", "Qwen/Qwen3-4B", RTX_PRO), row, shared)
    assert made.activations / GIB == pytest.approx(0.59, abs=0.01)


@pytest.mark.parametrize(("id", "card_of", "off"), [
    ("mem-053", H100, 0.03), ("mem-173", H100, 0.01), ("mem-177", H100, 0.01),
    ("mem-211", H100, 0.02), ("mem-045", RTX_4060, 0.02),
])  # fmt: skip
def test_printed_memory_outside_of_torch(
    id: str, card_of: Device, off: float, printed: Mapping[str, Mapping[str, Any]]
) -> None:
    row = printed[id]
    release = row["version"] or "0.6.6"
    _, made = sized(DENSE, Settings(), card_of, release, Layout(tp=row["tp"]))
    outside = (made.context + made.collectives) / GIB
    assert outside == pytest.approx(row["non_torch_gib"], abs=off)


GRAPHS = (
    Log("mem-063", "meta-llama/Llama-3.1-8B-Instruct", A100),
    Log("mem-078", "Qwen/Qwen2.5-3B-Instruct", A100),
    Log("mem-080", "Qwen/Qwen3-8B", A100),
    Log("mem-163", "Qwen/Qwen3-Coder-30B-A3B-Instruct", A100),
)


@pytest.mark.parametrize("log", GRAPHS, ids=lambda log: log.id)
def test_printed_graphs(log: Log, printed: Mapping[str, Mapping[str, Any]], shared: Path) -> None:
    row = printed[log.id]
    _, made = start(log, row, shared)
    assert made.graphs / GIB == pytest.approx(row["cudagraph_gib"], abs=0.05)


# --------------------------------------------------------------------------------- the table


def test_data_follows_its_schema() -> None:
    jsonschema.validate(table(), schema("vllm_memory"))


def spans() -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    for name in INTERVALS:
        yield name, table()[name]
    for name, rows in table()["sampler"].items():
        yield name, rows


@pytest.mark.parametrize(("name", "rows"), list(spans()))
def test_each_release_has_one_row(name: str, rows: list[Mapping[str, Any]]) -> None:
    """Spans follow one another without gaps: each starts where the one before ends."""
    del name
    assert "since" not in rows[0] and "until" not in rows[-1]
    for before, after in pairwise(rows):
        assert before["until"] == after["since"]


def test_each_release_read_has_rules() -> None:
    for release in table()["releases"]:
        assert rules(release)["share"]["value"] in (0.9, 0.92)


def test_releases_in_between_are_known() -> None:
    built = "0.26.1rc1.dev156+g0eec856cc.d20260731"
    assert rules(built)["persistent_counted"]["value"] is True


# ------------------------------------------------------------------------------------ defaults


@pytest.mark.parametrize(("release", "device", "tokens", "seqs"), [
    ("0.7.3", H100, 2048, 256),
    ("0.8.0", A100, 2048, 1024), ("0.8.0", H100, 8192, 1024), ("0.8.5.post1", A100, 8192, 1024),
    ("0.9.0", A100, 2048, 256), ("0.9.0", H100, 8192, 1024), ("0.16.0", T4, 2048, 256),
    ("0.27.1", B200, 8192, 1024), ("0.28.0", B200, 16384, 1024),
    ("0.32.0", GB10, 8192, 1024), ("0.33.0", GB10, 2048, 256), ("0.33.0", H100, 8192, 1024),
])  # fmt: skip
def test_batch_defaults(release: str, device: Device, tokens: int, seqs: int) -> None:
    made = defaults(Settings(), DENSE, Layout(), device, release)
    assert (made.max_num_batched_tokens, made.max_num_seqs) == (tokens, seqs)


def test_a_batch_is_no_larger_than_all_sequences_together() -> None:
    made = defaults(Settings(max_num_seqs=2, max_model_len=1000), DENSE, Layout(), H100, "0.33.0")
    assert made.max_num_batched_tokens == 2000
    made = defaults(Settings(max_num_batched_tokens=512), DENSE, Layout(), H100, "0.33.0")
    assert made.max_num_seqs == 512


def test_without_a_card_the_batch_is_not_known() -> None:
    made = defaults(Settings(), DENSE, Layout(), None, "0.33.0")
    assert made.max_num_batched_tokens is None and made.max_num_seqs is None


def test_v0_takes_short_prompts_whole() -> None:
    made = defaults(Settings(max_model_len=16384), DENSE, Layout(), H100, "0.7.3")
    assert (made.chunked_prefill, made.max_num_batched_tokens) == (False, 16384)
    made = defaults(Settings(max_model_len=40960), DENSE, Layout(), H100, "0.6.0")
    assert (made.chunked_prefill, made.max_num_batched_tokens) == (True, 512)


@pytest.mark.parametrize(("release", "asked", "device", "count", "most"), [
    ("0.7.3", Settings(max_model_len=8192), H100, 35, 256),
    ("0.9.2", Settings(), T4, 35, 256),
    ("0.11.0", Settings(), H100, 67, 512), ("0.11.2", Settings(), H100, 51, 512),
    ("0.16.0", Settings(max_num_seqs=16), H100, 7, 32),
    ("0.33.0", Settings(), B200, 83, 1024),
    ("0.33.0", Settings(max_num_seqs=16, draft_tokens=3), H100, 19, 128),
])  # fmt: skip
def test_capture_sizes(
    release: str, asked: Settings, device: Device, count: int, most: int
) -> None:
    sizes = defaults(asked, DENSE, Layout(), device, release).capture_sizes
    assert sizes is not None and (len(sizes), sizes[-1]) == (count, most)


def test_share_is_larger_from_0_20_on() -> None:
    for release, share in (("0.19.1", 0.9), ("0.20.0", 0.92)):
        assert defaults(Settings(), DENSE, Layout(), H100, release).share == share


# ---------------------------------------------------------------------------------- the memory


def sampled(release: str, device: Device = H100, **asked: Any) -> float:
    """Bytes for each sequence and vocabulary entry of the peak, with next to no tokens."""
    model = replace(DENSE, hidden_size=0, attention_heads=0, kv_heads=0, intermediate_size=0)
    settings = Settings(max_num_batched_tokens=4096, max_model_len=4096, **asked)
    made, need = sized(model, settings, device, release)
    assert made.max_num_seqs is not None and model.vocab_size is not None
    blas = 32 * MIB if device is H100 else 8.125 * MIB
    return (need.activations - blas) / made.max_num_seqs / model.vocab_size


@pytest.mark.parametrize(("release", "each"), [
    ("0.6.0", 38), ("0.8.5", 38), ("0.16.0", 38), ("0.21.0", 14), ("0.24.0", 6), ("0.27.0", 2),
    ("0.32.0", 2), ("0.33.0", 14),
])  # fmt: skip
def test_sampler(release: str, each: float) -> None:
    """Measured with each release's own sampler, plus what the sort takes on a GPU."""
    kept = 0.5 if release == "0.21.0" else 0  # a buffer for 128 of 1024 rows
    assert sampled(release) == pytest.approx(each + kept, rel=0.001)


def test_few_sequences_are_sorted_in_one_piece() -> None:
    assert sampled("0.16.0", max_num_seqs=64) == pytest.approx(50, rel=0.001)


def test_pooling_models_do_not_sample() -> None:
    _, made = sized(DENSE, Settings(pooling=True), H100, "0.16.0")
    assert made.activations < GIB


def test_tensor_parallelism_does_not_divide_the_sampler() -> None:
    _, one = sized(DENSE, Settings(), H100, "0.16.0")
    _, four = sized(DENSE, Settings(), H100, "0.16.0", Layout(tp=4))
    assert four.activations == one.activations


def test_layers_written_out() -> None:
    """mem-048 to mem-050: 0.45 GiB more for 6144 tokens more, TP 2."""
    few, many = (
        sized(DENSE, Settings(max_num_seqs=1, max_num_batched_tokens=tokens, enforce_eager=True),
              T4, "0.22.1", Layout(tp=2))[1].activations
        for tokens in (2048, 8192)
    )  # fmt: skip
    assert (many - few) / GIB == pytest.approx(0.45, abs=0.01)


def test_experts_keep_their_buffers_while_tokens_are_sampled() -> None:
    before, after = (sized(MIXTURE, Settings(), H100, r)[1].activations for r in ("0.13.0", "0.14"))
    assert after - before == 8192 * 8 * (2048 + 2048) * 2


def test_the_largest_image_can_be_the_peak() -> None:
    seeing = replace(DENSE, model_type="qwen2_5_vl", vision_tower=True, vision_heads=16)
    asked = Settings(max_num_seqs=8, max_num_batched_tokens=2048)
    _, text = sized(seeing, replace(asked, text_only=True), H100, "0.33.0")
    _, made = sized(seeing, asked, H100, "0.33.0")
    outputs, patches = 16384 * 4096 * 2, 65536 * 1280 * (9 + 3) * 2
    assert made.activations == outputs + patches + 32 * MIB > text.activations


def test_latent_attention_makes_room_for_cached_context() -> None:
    latent = ModelFacts(
        id="latent", architecture="DeepseekV3ForCausalLM", num_layers=61, hidden_size=7168,
        attention_heads=128, kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128, vocab_size=129280, default_context=131072,
    )  # fmt: skip
    asked = Settings(max_num_seqs=8)
    before, after = (
        sized(latent, asked, H200, release, Layout(tp=8))[1].activations
        for release in ("0.10.2", "0.11.0")
    )
    assert after > 65536 * 16 * 256 * 2 > before - after


@pytest.mark.parametrize(("release", "layout", "mib"), [
    ("0.16.0", Layout(tp=2), 0), ("0.17.0", Layout(tp=2), 512), ("0.17.0", Layout(tp=8), 16),
    ("0.17.0", Layout(tp=2, pp=2), 0), ("0.21.0", Layout(tp=2, pp=2), 512),
])  # fmt: skip
def test_fused_all_reduce_takes_a_workspace(release: str, layout: Layout, mib: int) -> None:
    _, made = sized(DENSE, Settings(), H100, release, layout)
    _, eager = sized(DENSE, Settings(enforce_eager=True), H100, release, layout)
    assert made.collectives - eager.collectives == mib * MIB


def test_runners_by_release() -> None:
    def runner(model: ModelFacts, release: str, **extra: str) -> str:
        return vllm_beside._runner(rules(release), model, Settings(extra=extra), H100)

    assert runner(DENSE, "0.21.0") == "v1" and runner(DENSE, "0.22.0") == "v2"
    assert runner(replace(DENSE, quantization={"method": "fp8"}), "0.22.0") == "v1"
    assert runner(MIXTURE, "0.28.0") == "v1" and runner(MIXTURE, "0.29.0") == "v2"
    assert runner(MIXTURE, "0.29.0", VLLM_USE_V2_MODEL_RUNNER="0") == "v1"
    assert runner(DENSE, "0.7.3") == "v0" and runner(DENSE, "0.7.3", VLLM_USE_V1="1") == "v1"
    assert vllm_beside._runner(rules("0.9.2"), DENSE, Settings(), T4) == "v0"


def test_the_first_v2_runners_leave_graphs_out() -> None:
    for release, outside in (("0.22.0", True), ("0.28.0", True), ("0.29.0", False)):
        assert sized(DENSE, Settings(), H100, release)[1].graphs_outside is outside
    assert not sized(MIXTURE, Settings(), H100, "0.28.0")[1].graphs_outside


def test_graphs_come_out_of_the_share_from_0_20_on() -> None:
    for release, outside in (("0.19.1", True), ("0.20.0", False)):
        assert sized(DENSE, Settings(), H100, release)[1].graphs_outside is outside
    off = Settings(extra={"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"})
    assert sized(DENSE, off, H100, "0.33.0")[1].graphs_outside
    assert sized(DENSE, Settings(enforce_eager=True), H100, "0.33.0")[1].graphs == 0


def test_counts_for_penalties_are_seen_from_0_27_on() -> None:
    before, after = (sized(DENSE, Settings(), H100, r)[1].rest for r in ("0.26.0", "0.27.0"))
    assert before == 0 and after > 1024 * 151936 * 4


def test_one_release_of_each_row_works_for_any_model() -> None:
    bare = ModelFacts(id="bare")
    for release in table()["releases"]:
        for device in (None, H100, T4):
            _, made = sized(bare, Settings(), device, release, Layout(tp=2, dp=2, ep=True))
            assert made.activations >= 0 and made.context > 0


def test_releases_are_in_order() -> None:
    listed = table()["releases"]
    assert Releases(listed[0], listed[-1]) == Releases("0.6.0", "0.33.0")
