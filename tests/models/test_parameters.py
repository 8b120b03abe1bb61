"""Counts of parameters and KV bytes against the shared index and published counts.

`pytest -rP tests/models/test_parameters.py` prints the table.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from shardlint.models.config_json import facts_from_config, parameters_of
from shardlint.models.params.traits import TRAITS
from shardlint.models.show import show
from shardlint.plan import ModelFacts

EXACT = 1e-6
REAL = ("config.json", "embedded")
"""Kinds of entries that are a published config.json, so that the count was not fitted to them."""

DIFFERS_FROM_INDEX: dict[str, tuple[str, ...]] = {
    "the index does not follow per_layer_config; our count is the published one where there is one "
    "without an audio tower": (
        "google/gemma-4-26B-A4B-it",
        "google/gemma-4-31B-it",
        "google/gemma-4-E2B-it",
        "google/gemma-4-E4B-it",
    ),
    "the index counts the tower of Kimi-K2.5; ours is within 1e-6 of the published count": (
        "moonshotai/Kimi-K3",
        "nvidia/Kimi-K3-NVFP4",
    ),
    "the index leaves the tower out": (
        "MiniMaxAI/MiniMax-M3-MXFP8",
        "nvidia/MiniMax-M3-NVFP4",
        "zai-org/AutoGLM-Phone-9B",
        "mistralai/Voxtral-Mini-3B-2507",
    ),
    "the index has the projector of LLaVA; that of Mistral 3 is exact for every other size": (
        "mistralai/Ministral-3-3B-Instruct-2512",
    ),
    "the config has no tower although the architecture has one: unknown": (
        "mistralai/Mistral-Large-3-675B-Instruct-2512",
    ),
    "the norms of Orion have biases": ("OrionStarAI/Orion-14B-Chat",),
    "the index leaves biases out of the active weights": (
        "microsoft/Phi-3.5-MoE-instruct",
        "microsoft/Phi-mini-MoE-instruct",
    ),
}
"""Reviewed: our count differs from that of the index by more than 1e-6."""

OFF_THE_PUBLISHED: dict[str, tuple[str, ...]] = {
    "the checkpoint ships a block that drafts tokens, and no key says so": (
        "baidu/ERNIE-4.5-21B-A3B-PT",
    ),
    "the config has no audio tower": ("google/gemma-4-E2B-it", "google/gemma-4-E4B-it"),
    "the config is abridged: no tower": (
        "stepfun-ai/Step-3.7-Flash",
        "stepfun-ai/Step-3.7-Flash-FP8",
    ),
    "the published count holds the scales of the quantization": (
        "MiniMaxAI/MiniMax-M3-MXFP8",
        "nvidia/DeepSeek-V4-Flash-0731-NVFP4",
        "nvidia/GLM-5.2-NVFP4",
        "nvidia/Kimi-K2-Thinking-NVFP4",
        "RedHatAI/Llama-4-Scout-17B-16E-Instruct-quantized.w4a16",
        "RedHatAI/Qwen2.5-VL-72B-Instruct-FP8-dynamic",
        "RedHatAI/Qwen3-0.6B-quantized.w4a16",
        "RedHatAI/Qwen3-30B-A3B-quantized.w4a16",
        "RedHatAI/Qwen3-32B-quantized.w4a16",
        "RedHatAI/Qwen3-4B-quantized.w4a16",
        "RedHatAI/Qwen3-8B-quantized.w4a16",
        "RedHatAI/gemma-3-12b-it-quantized.w4a16",
        "RedHatAI/gemma-3-27b-it-quantized.w4a16",
    ),
    "the count of these packed checkpoints is 0.8 % below that of the plain one, which is met": (
        "RedHatAI/Qwen3-Coder-Next-NVFP4",
        "RedHatAI/Qwen3-Next-80B-A3B-Instruct-NVFP4",
        "nvidia/Qwen3-Next-80B-A3B-Instruct-NVFP4",
    ),
}
"""Reviewed: our count is more than 0.5 % off one that was published as exact."""

CACHE_DIFFERS: dict[str, tuple[str, ...]] = {
    "the index does not follow per_layer_config": (
        "google/gemma-4-26B-A4B-it",
        "google/gemma-4-31B-it",
        "google/gemma-4-E2B-it",
        "google/gemma-4-E4B-it",
    ),
    "the index counts layers that read the cache of another one": ("google/gemma-3n-E4B-it",),
    "the index does not follow sliding_window_attention_size": ("google/gemma-3-1b-it",),
    "the index does not use the window that is the default of the class": (
        "BAAI/bge-multilingual-gemma2",
        "RedHatAI/gemma-2-9b-it-FP8",
        "allenai/Olmo-3-1025-7B",
        "allenai/Olmo-3-1125-32B",
        "allenai/Olmo-3-32B-Think-SFT",
        "allenai/Olmo-3-7B-Instruct-DPO",
        "allenai/Olmo-3-7B-Instruct-SFT",
        "allenai/Olmo-3-7B-Think",
        "allenai/Olmo-3-7B-Think-DPO",
        "allenai/Olmo-3-7B-Think-SFT",
        "allenai/Olmo-3.1-32B-Think",
        "hugging-quants/gemma-2-9b-it-AWQ-INT4",
    ),
    "the class slides or not, and these abridged configs do not say which: unknown": (
        "LGAI-EXAONE/EXAONE-4.0-1.2B",
        "LGAI-EXAONE/EXAONE-4.0-32B-AWQ",
        "LGAI-EXAONE/EXAONE-4.0-32B-FP8",
        "LGAI-EXAONE/EXAONE-4.0.1-32B",
        "stepfun-ai/Step-3.5-Flash",
        "unsloth/gemma-3-270m-it",
    ),
}
"""Reviewed: our KV bytes differ from those of the index."""


def ids(table: Mapping[str, tuple[str, ...]]) -> list[str]:
    return sorted(id for listed in table.values() for id in listed)


@dataclass
class Row:
    """One model: our facts beside the entry of the index."""

    entry: dict[str, Any]
    config: dict[str, Any]
    facts: ModelFacts

    @property
    def id(self) -> str:
        return str(self.entry["id"])

    @property
    def kind(self) -> str:
        return str(self.entry["provenance"]["kind"])

    def error(self, name: str) -> float | None:
        """Of one of our counts against the index; None if we have none."""
        ours = getattr(self.facts, f"params_{name}")
        return None if ours is None else float(ours / self.entry["computed"][name] - 1)

    def exact(self, *names: str) -> bool:
        errors = [self.error(name) for name in names]
        return all(error is not None and abs(error) <= EXACT for error in errors)

    def off_the_published(self) -> float | None:
        """Distance of the exact published count from the nearest of ours.

        A checkpoint may leave out the towers or the blocks that draft, and may hold a second copy
        of a tied embedding.
        """
        published = self.entry.get("published") or {}
        parts = parameters_of(self.config, self.facts)
        if not published.get("exact") or parts.text is None:
            return None
        towers, drafts = parts.towers or 0, parts.drafts or 0
        copy = (self.facts.vocab_size or 0) * (self.facts.hidden_size or 0)
        sums = [parts.text + more for more in (0, towers, drafts, towers + drafts)]
        sums += [count + copy for count in sums if self.facts.tie_word_embeddings]
        return min((count / published["total"] - 1 for count in sums), key=abs)


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[Row]:
    from ruamel.yaml import YAML

    found = []
    for entry in YAML(typ="safe").load(shared / "models" / "index.yaml")["models"]:
        config = json.loads((shared / "models" / entry["file"]).read_text(encoding="utf-8"))
        beside = config.get("_hf_quant_config_json")
        found.append(Row(entry, config, facts_from_config(config, entry["id"], beside)))
    return found


# ---------------------------------------------------------------------------------- parameters


def tell(*lines: str) -> None:
    print("\n".join(lines))  # noqa: T201


def table(rows: list[Row]) -> Iterator[str]:
    yield f"{'kind':22} {'n':>4} {'total':>6} {'text':>6} {'active':>6}    median   largest"
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row.kind].append(row)
    for kind, own in [*sorted(kinds.items()), ("all", rows)]:
        counts = [sum(row.exact(name) for row in own) for name in ("total", "text", "active")]
        errors = [abs(error) for row in own if (error := row.error("total")) is not None]
        yield (
            f"{kind:22} {len(own):4} {counts[0]:6} {counts[1]:6} {counts[2]:6} "
            f"{median(errors):9.1e} {max(errors):9.1e}"
        )


def test_counts_are_those_of_the_index(rows: list[Row]) -> None:
    tell("models whose count equals that of the index to 1e-6", *table(rows))
    real = [row for row in rows if row.kind in REAL]
    assert len(real) > 180
    for name in ("total", "text", "active"):
        assert sum(row.exact(name) for row in real) >= 0.95 * len(real)
        assert sum(row.exact(name) for row in rows) >= 0.98 * len(rows)


def test_every_other_count_was_reviewed(rows: list[Row]) -> None:
    differing = sorted(row.id for row in rows if not row.exact("total", "text", "active"))
    assert ids(DIFFERS_FROM_INDEX) == differing


def test_counts_far_off_the_published_were_reviewed(rows: list[Row]) -> None:
    errors = {row.id: error for row in rows if (error := row.off_the_published()) is not None}
    near = [error for error in errors.values() if abs(error) <= EXACT]
    tell(f"{len(errors)} exact published counts, {len(near)} met to 1e-6")
    assert len(near) >= 0.75 * len(errors)
    assert ids(OFF_THE_PUBLISHED) == sorted(i for i, e in errors.items() if abs(e) > 0.005)


def test_every_type_of_the_index_has_a_formula(rows: list[Row]) -> None:
    assert [] == [row.id for row in rows if row.facts.params_text is None]


def test_active_weights_are_all_weights_of_a_dense_model(rows: list[Row]) -> None:
    dense = [row.facts for row in rows if row.facts.num_experts is None]
    assert [] == [facts.id for facts in dense if facts.params_active != facts.params_text]


# -------------------------------------------------------------------------------------- KV cache


def test_cache_is_that_of_the_index(rows: list[Row]) -> None:
    differing, total = set(), 0
    for row in rows:
        stated = row.entry.get("kv_cache_bf16") or {}
        ours = show(row.facts)["kv_cache_bf16"]
        for name in ("full_bytes_per_token", "full_layers"):
            if stated.get(name) is not None:
                total += 1
                if stated[name] != ours[name]:
                    differing.add(row.id)
    tell(f"{total} numbers compared, {len(differing)} models differ")
    assert ids(CACHE_DIFFERS) == sorted(differing)


# ------------------------------------------------------- types that the index has no config of


def decoder(model_type: str, layers: int, hidden: int, heads: int, **keys: Any) -> dict[str, Any]:
    return {
        "model_type": model_type, "num_hidden_layers": layers, "hidden_size": hidden,
        "num_attention_heads": heads, "tie_word_embeddings": False, **keys,
    }  # fmt: skip


PUBLISHED = {
    "dbrx-base": (
        131_596_523_520,
        {
            "model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48,
            "attn_config": {"kv_n_heads": 8}, "vocab_size": 100352, "tie_word_embeddings": False,
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
    ),
    "Phi-3-small": (
        7_392_272_384,
        decoder("phi3small", 32, 4096, 32, num_key_value_heads=8, ff_intermediate_size=14336,
                vocab_size=100352) | {"tie_word_embeddings": True},
    ),
    "MiniMax-Text-01": (
        456_089_655_296,
        decoder("minimax_text_01", 80, 6144, 64, num_key_value_heads=8, head_dim=128,
                intermediate_size=9216, num_local_experts=32, num_experts_per_tok=2,
                vocab_size=200064, attn_type_list=([0] * 7 + [1]) * 10),
    ),
    "Qwen1.5-MoE-A2.7B": (
        14_315_784_192,
        decoder("qwen2_moe", 24, 2048, 16, num_key_value_heads=16, intermediate_size=5632,
                moe_intermediate_size=1408, shared_expert_intermediate_size=5632, num_experts=60,
                num_experts_per_tok=4, vocab_size=151936, decoder_sparse_step=1),
    ),
    "Seed-OSS-36B": (
        36_151_104_512,
        decoder("seed_oss", 64, 5120, 80, num_key_value_heads=8, head_dim=128,
                intermediate_size=27648, vocab_size=155136, attention_bias=True),
    ),
    "chatglm3-6b": (
        6_243_584_000,
        decoder("chatglm", 28, 4096, 32, multi_query_attention=True, multi_query_group_num=2,
                kv_channels=128, ffn_hidden_size=13696, padded_vocab_size=65024),
    ),
    "gpt-j-6b": (
        6_050_882_784,
        {"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "vocab_size": 50400,
         "tie_word_embeddings": False},
    ),
    "whisper-large-v3": (
        1_543_490_560,
        {"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
         "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120,
         "num_mel_bins": 128, "vocab_size": 51866},
    ),
    "Kimi-Linear-48B": (
        49_122_681_728,
        decoder("kimi_linear", 27, 2304, 32, kv_lora_rank=512, q_lora_rank=None,
                qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, intermediate_size=9216,
                moe_intermediate_size=1024, num_experts=256, num_experts_per_token=8,
                num_shared_experts=1, first_k_dense_replace=1, vocab_size=163840,
                linear_attn_config={"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
                                    "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]}),
    ),
    "gemma-3n-E2B": (
        5_439_438_272,
        {"model_type": "gemma3n", "text_config": {
            "model_type": "gemma3n_text", "vocab_size": 262400, "hidden_size": 2048,
            "intermediate_size": [8192] * 30, "num_hidden_layers": 30, "num_attention_heads": 8,
            "num_key_value_heads": 2, "head_dim": 256, "hidden_size_per_layer_input": 256,
            "vocab_size_per_layer_input": 262144, "altup_num_inputs": 4, "laurel_rank": 64}},
    ),
    "Hunyuan-A13B": (
        80_393_183_232,
        decoder("hunyuan_v1_moe", 32, 4096, 32, num_key_value_heads=8, head_dim=128,
                intermediate_size=3072, moe_intermediate_size=[3072] * 32, num_experts=64,
                moe_topk=[8] * 32, num_shared_expert=[1] * 32, vocab_size=128167)
        | {"tie_word_embeddings": True},
    ),
    "OLMoE-1B-7B": (
        6_919_161_856,
        decoder("olmoe", 16, 2048, 16, num_key_value_heads=16, intermediate_size=1024,
                num_experts=64, num_experts_per_tok=8, vocab_size=50304),
    ),
    "Mamba-Codestral-7B": (
        7_285_403_648,
        {"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128,
         "head_dim": 64, "state_size": 128, "n_groups": 8, "conv_kernel": 4, "vocab_size": 32768,
         "tie_word_embeddings": False},
    ),
    "LFM2-1.2B": (
        1_170_340_608,
        decoder("lfm2", 16, 2048, 32, num_key_value_heads=8, block_ff_dim=12288,
                block_auto_adjust_ff_dim=True, block_multiple_of=256, conv_L_cache=3,
                vocab_size=65536, layer_types=["conv"] * 10 + ["full_attention"] * 6)
        | {"tie_word_embeddings": True},
    ),
}  # fmt: skip
"""Counts of tensors that their publishers state, of types without a config in the index."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_count_is_the_published_one(name: str) -> None:
    published, config = PUBLISHED[name]
    assert published == facts_from_config(config, name).params_total


@pytest.mark.parametrize(
    ("file", "published"),
    [("google__gemma-4-E2B-it", 5_123_178_051), ("google__gemma-4-E4B-it", 7_996_156_490)],
)
def test_audio_tower_is_counted_where_the_config_has_one(
    shared: Path, file: str, published: int
) -> None:
    config = json.loads((shared / "models" / f"{file}.json").read_text(encoding="utf-8"))
    config["audio_config"] = {"model_type": "gemma4_audio", "hidden_size": 1024}
    assert published == facts_from_config(config, file).params_total


LLAMA = decoder("llama", 2, 64, 4, num_key_value_heads=2, intermediate_size=128, vocab_size=100)


def test_count_follows_from_the_shape() -> None:
    each = 64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    assert 2 * 100 * 64 + 2 * each + 64 == facts_from_config(LLAMA, "x").params_total


@pytest.mark.parametrize(
    "keys",
    [
        {"model_type": "no-such-type"},
        {"vocab_size": None},
        {"intermediate_size": None},
        {"num_attention_heads": None},
        {"hidden_size": 2**31, "intermediate_size": 2**31},
        {"architectures": ["X"], "model_type": "nemotron-nas"},
    ],
    ids=["type", "vocabulary", "width", "heads", "too large", "blocks"],
)
def test_what_is_not_known_is_not_counted(keys: dict[str, Any]) -> None:
    facts = facts_from_config(LLAMA | keys, "x")
    assert (None, None, None) == (facts.params_total, facts.params_text, facts.params_active)


def test_tower_without_a_formula_leaves_the_total_open() -> None:
    config = {
        "model_type": "no-such-vlm",
        "text_config": LLAMA,
        "vision_config": {"hidden_size": 64, "num_attention_heads": 4},
    }
    facts = facts_from_config(config, "x")
    assert facts.params_text is not None
    assert facts.params_total is None


@pytest.mark.parametrize("model_type", sorted(TRAITS))
def test_a_type_without_its_numbers_is_unknown(model_type: str) -> None:
    config = decoder(model_type.replace("*", ""), 2, 64, 4)
    assert facts_from_config(config, "x").params_text is None
