"""Inventories of weights against vLLM's own classes, and where they are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from shardlint.matrices import Block, StateGroup, Weight
from shardlint.models import inventories
from shardlint.models.catalogue import Catalogue
from shardlint.models.config_json import facts_from_config
from shardlint.plan import ModelFacts
from shardlint_schemas import schema

CATALOGUE = Catalogue()


@lru_cache(maxsize=1)
def known() -> list[ModelFacts]:
    """Every model of the catalogue."""
    found = [CATALOGUE.lookup(id) for id in CATALOGUE.ids()]
    return [facts for facts in found if facts is not None]


def of(id: str) -> ModelFacts:
    found = CATALOGUE.lookup(id)
    assert found is not None
    return found


def elements(blocks: tuple[Block, ...], *places: str) -> int:
    return sum(block.elements for block in blocks if not places or block.place in places)


def named(facts: ModelFacts, name: str) -> list[Weight]:
    return [weight for block in facts.weights for weight in block.weights if weight.name == name]


# ------------------------------------------------------------------------------- against vLLM


def part(weight: Weight, tp: int) -> tuple[int, int, int]:
    """Outputs, inputs and count on one rank of vllm 0.33.0 without data or expert parallelism."""
    outputs, inputs, count = weight.outputs, weight.inputs, weight.count
    if weight.where == "checkpoint":
        count = 0
    if weight.split == "rows":
        outputs //= tp
    elif weight.split == "columns":
        inputs //= tp
    elif weight.split == "heads":
        outputs = outputs // weight.heads * max(1, weight.heads // tp)
    elif weight.split == "vocabulary":
        outputs = -(-outputs // 64) * 64 // tp
    return outputs, inputs, count


def bytes_of_rank(facts: ModelFacts, tp: int) -> int:
    total = 0
    for block in facts.weights:
        for weight in block.weights if block.place != "draft" else ():
            outputs, inputs, count = part(weight, tp)
            size = outputs * inputs * count * (weight.element or 2)
            total += size * max(1, len(block.layers))
    return total


def unquantized(shared: Path) -> Iterator[dict[str, Any]]:
    text = (shared / "evidence" / "vllm_oracle.jsonl").read_text(encoding="utf-8")
    for row in map(json.loads, text.splitlines()):
        plain = row.get("quant") is None and row.get("weights_bytes_per_rank")
        if plain and (row["pp"], row["dp"], row["ep"]) == (1, 1, False):
            yield row


def test_weights_of_a_rank_are_those_of_vllm(shared: Path) -> None:
    rows = list(unquantized(shared))
    assert len(rows) >= 25
    assert [] == [
        (row["model"], row["tp"])
        for row in rows
        if bytes_of_rank(of(row["model"]), row["tp"]) != row["weights_bytes_per_rank"]
    ]


PARAMETERS: list[tuple[str, int, int]] = [
    ("ai21labs/AI21-Jamba-Mini-1.6", 8, 6_447_447_936),
    ("allenai/OLMo-1B-hf", 8, 147_095_552),
    ("allenai/OLMo-2-1124-7B-Instruct", 8, 912_789_504),
    ("allenai/Olmo-3-7B-Instruct", 8, 912_723_968),
    ("arcee-ai/AFM-4.5B-Base", 4, 1_155_013_120),
    ("baidu/ERNIE-4.5-0.3B-PT", 8, 48_665_600),
    ("baidu/ERNIE-4.5-21B-A3B-Thinking", 4, 5_459_787_968),
    ("bigcode/gpt_bigcode-santacoder", 8, 860_372_992),
    ("bigcode/starcoder2-7b", 4, 1_794_151_424),
    ("bigscience/bloom-560m", 8, 70_034_432),
    ("CohereLabs/aya-23-8B", 8, 1_003_622_400),
    ("CohereLabs/c4ai-command-r7b-12-2024", 8, 1_003_622_400),
    ("deepseek-ai/deepseek-moe-16b-chat", 8, 2_050_164_736),
    ("deepseek-ai/DeepSeek-V2-Lite", 8, 1_994_272_256),
    ("deepseek-ai/DeepSeek-V3.2", 8, 85_631_881_984),
    ("deepseek-ai/DeepSeek-V4-Flash", 1, 284_334_567_511),
    ("facebook/opt-125m", 4, 32_539_392),
    ("google/gemma-2-2b-it", 8, 342_339_840),
    ("google/gemma-2b-it", 8, 329_852_928),
    ("google/gemma-3-1b-it", 4, 261_573_760),
    ("google/gemma-4-E2B-it", 8, 783_836_416),
    ("HuggingFaceTB/SmolLM-135M-Instruct", 1, 134_515_008),
    ("HuggingFaceTB/SmolLM3-3B", 8, 393_955_328),
    ("ibm-granite/granite-3.0-1b-a400m-instruct", 8, 167_568_384),
    ("ibm-granite/granite-3.3-8b-instruct", 8, 1_021_677_568),
    ("ibm-granite/granite-4.0-h-1b", 4, 376_129_296),
    ("ibm-granite/granite-embedding-125m-english", 4, 31_087_872),
    ("ibm-granite/granite-embedding-278m-multilingual", 4, 69_438_720),
    ("internlm/internlm2-chat-7b", 8, 967_446_528),
    ("LGAI-EXAONE/EXAONE-4.0-32B", 8, 4_000_994_304),
    ("LGAI-EXAONE/EXAONE-4.5-33B", 8, 4_229_655_040),
    ("llava-hf/llava-1.5-7b-hf", 8, 882_760_320),
    ("microsoft/bitnet-b1.58-2B-4T-bf16", 1, 2_412_820_480),
    ("microsoft/Phi-3.5-mini-instruct", 8, 477_809_664),
    ("microsoft/Phi-3.5-vision-instruct", 8, 549_690_496),
    ("microsoft/Phi-mini-MoE-instruct", 8, 958_369_704),
    ("MiniMaxAI/MiniMax-M2.5", 8, 28_629_234_432),
    ("mistralai/Devstral-2-123B-Instruct-2512", 8, 15_630_151_680),
    ("mistralai/Devstral-Small-2-24B-Instruct-2512", 8, 3_006_024_704),
    ("mistralai/Mistral-7B-v0.1", 8, 905_449_472),
    ("mistralai/Mixtral-8x7B-v0.1", 8, 5_838_999_552),
    ("moonshotai/Kimi-K2-Instruct", 8, 129_254_471_168),
    ("nvidia/Nemotron-4-340B-Instruct", 8, 42_634_874_880),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 8, 3_957_390_632),
    ("openai-community/gpt2", 4, 31_751_424),
    ("openai/whisper-small", 4, 93_009_408),
    ("openbmb/MiniCPM-2B-sft-bf16", 4, 681_396_480),
    ("OrionStarAI/Orion-14B-Chat", 8, 1_813_063_680),
    ("Qwen/Qwen2-0.5B-Instruct", 2, 247_038_336),
    ("Qwen/Qwen2-VL-2B-Instruct", 4, 559_137_024),
    ("Qwen/Qwen2.5-VL-7B-Instruct", 4, 2_074_450_368),
    ("Qwen/Qwen3-0.6B", 8, 74_563_584),
    ("Qwen/Qwen3-30B-A3B", 8, 3_840_292_864),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 8, 10_013_045_536),
    ("Qwen/Qwen3-VL-2B-Instruct", 8, 269_650_944),
    ("Qwen/Qwen3-VL-30B-A3B-Instruct", 8, 3_911_690_190),
    ("Qwen/Qwen3.5-35B-A3B", 8, 4_418_875_646),
    ("Qwen/Qwen3.5-9B", 8, 1_188_895_182),
    ("Snowflake/snowflake-arctic-embed-m", 4, 27_278_592),
    ("stabilityai/stablelm-2-zephyr-1_6b", 8, 205_740_032),
    ("tencent/Hunyuan-1.8B-Instruct", 8, 232_400_896),
    ("tiiuae/Falcon-H1-0.5B-Instruct", 8, 77_090_884),
    ("tiiuae/falcon-mamba-7b-instruct", 8, 909_316_096),
    ("togethercomputer/RedPajama-INCITE-Base-3B-v1", 8, 347_417_600),
    ("unsloth/gpt-oss-20b-BF16", 8, 2_618_400_000),
    ("XiaomiMiMo/MiMo-7B-Base", 8, 953_089_024),
    ("XiaomiMiMo/MiMo-V2-Flash", 8, 38_646_726_712),
    ("zai-org/GLM-4-9B-0414", 8, 1_207_076_864),
    ("zai-org/GLM-4.5", 8, 44_164_385_696),
    ("zai-org/GLM-5.2", 8, 94_298_907_648),
]  # fmt: skip
"""Elements of all parameters that vllm 0.33.0 makes for one rank: model, TP, elements.

Counted in its own classes, built without memory, one model for each class.
"""


@pytest.mark.parametrize(("id", "tp", "total"), PARAMETERS)
def test_parameters_of_a_rank_are_those_of_vllm(id: str, tp: int, total: int) -> None:
    """Scales are left out; Gemma 4 keeps the scalars of its layers as buffers."""
    found = 0
    for block in of(id).weights:
        for weight in block.weights if block.place != "draft" else ():
            outputs, inputs, count = part(weight, tp)
            if weight.name != "layer_scalar":
                found += outputs * inputs * count * max(1, len(block.layers))
    assert total == found


# -------------------------------------------------------------------------------------- inside


def test_weights_add_up_to_the_counts() -> None:
    assert [] == [
        facts.id
        for facts in known()
        if elements(facts.weights, "first", "layers", "last") != facts.params_text
        or facts.params_total not in (None, elements(facts.weights))
    ]


def test_every_layer_has_one_block() -> None:
    assert [] == [facts.id for facts in known() if layers(facts) != all_layers(facts)]


def layers(facts: ModelFacts) -> list[int]:
    return sorted(
        layer for block in facts.weights if block.place == "layers" for layer in block.layers
    )


def all_layers(facts: ModelFacts) -> list[int]:
    return list(range(facts.num_layers or 0))


def test_layers_that_differ_are_blocks_of_their_own() -> None:
    blocks = [block.layers for block in of("deepseek-ai/DeepSeek-V3").weights if block.layers]
    assert [(0, 1, 2), tuple(range(3, 61)), (61,)] == blocks


def test_experts_are_those_of_the_facts() -> None:
    for facts in known():
        counts = {w.count for block in facts.weights for w in block.weights if w.part == "expert"}
        assert ({facts.num_experts} if facts.num_experts else set()) == counts, facts.id


def test_kinds_of_weights() -> None:
    v3, next_ = of("deepseek-ai/DeepSeek-V3"), of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert {"whole"} == {weight.split for weight in named(v3, "kv_a_proj")}
    assert {"rows"} == {weight.split for weight in named(v3, "kv_b_proj")}
    assert {4} == {weight.element for weight in named(v3, "correction_bias")}
    assert {4} == {weight.element for weight in named(next_, "A_log")}
    assert {"heads"} == {weight.split for weight in named(next_, "k_proj")}
    assert [] == named(of("Qwen/Qwen3-0.6B"), "lm_head")


# -------------------------------------------------------------------------------------- states


@pytest.mark.parametrize(
    ("id", "state"),
    [
        (
            "Qwen/Qwen3.5-9B",
            StateGroup(
                layers=24, kind="delta", channels=8192, conv=3, heads=32, state=128 * 128,
                state_element=4,
            ),
        ),
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            StateGroup(layers=36, kind="delta", channels=8192, conv=3, heads=32, state=128 * 128),
        ),
        (
            "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            StateGroup(
                layers=23, kind="mamba2", channels=4096, groups=8, group_channels=256, conv=3,
                heads=64, state=64 * 128, state_element=4,
            ),
        ),
        (
            "ai21labs/Jamba-v0.1",
            StateGroup(layers=28, kind="mamba", channels=8192, conv=3, heads=8192, state=16),
        ),
    ],
)  # fmt: skip
def test_state_of_layers_without_attention(id: str, state: StateGroup) -> None:
    assert (state,) == of(id).states


def test_layers_with_attention_keep_no_state() -> None:
    assert () == of("Qwen/Qwen3-8B").states


# ---------------------------------------------------------------------------- names and tables


def test_alias_and_guess_have_the_weights_of_the_model() -> None:
    guessed = CATALOGUE.guess("someone/Qwen3-8B-AWQ-mine")
    assert guessed is not None
    assert of("Qwen/Qwen3-8B").weights == guessed.weights


def stated(**table: Any) -> ModelFacts:
    found = Catalogue({"org/mine": table}).lookup("org/mine")
    assert found is not None
    return found


def test_table_that_changes_no_weight_keeps_them() -> None:
    facts = stated(base="Qwen/Qwen3-8B", quantization={"method": "fp8"}, num_layers=36)
    assert of("Qwen/Qwen3-8B").weights == facts.weights


def test_table_that_changes_a_width_changes_the_weights() -> None:
    facts = stated(base="Qwen/Qwen3-8B", num_layers=40)
    base = of("Qwen/Qwen3-8B")
    assert all_layers(facts) == layers(facts)
    assert elements(base.weights, "layers") * 40 == elements(facts.weights, "layers") * 36
    assert elements(base.weights, "first", "last") == elements(facts.weights, "first", "last")


def test_tower_stays_unless_it_may_differ() -> None:
    base = of("Qwen/Qwen3-VL-2B-Instruct")
    longer = stated(base=base.id, num_layers=30)
    wider = stated(base=base.id, hidden_size=4096)
    assert elements(base.weights, "tower") == elements(longer.weights, "tower") > 0
    assert 0 == elements(wider.weights, "tower")


def test_states_go_with_what_they_rest_on() -> None:
    base = of("Qwen/Qwen3.5-9B")
    assert base.states == stated(base=base.id, vocab_size=1000).states
    facts = stated(base=base.id, num_layers=8)
    assert ((), ()) == (facts.states, facts.weights)


PLAIN = {
    "num_layers": 32, "hidden_size": 4096, "attention_heads": 32, "kv_heads": 8, "head_dim": 128,
    "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip


def test_plain_decoder_follows_from_its_facts() -> None:
    assert of("meta-llama/Llama-3.1-8B").weights == stated(**PLAIN).weights


@pytest.mark.parametrize("missing", ["num_layers", "hidden_size", "vocab_size",
                                     "intermediate_size", "attention_heads"])  # fmt: skip
def test_without_a_number_there_are_no_weights(missing: str) -> None:
    assert () == stated(**{k: v for k, v in PLAIN.items() if k != missing}).weights


@pytest.mark.parametrize(
    "id", ["mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"]
)
def test_weights_made_of_facts_are_those_of_the_config(id: str) -> None:
    facts, base = stated(base=id, vocab_size=1000), of(id)
    for place in ("layers",):
        assert elements(base.weights, place) == elements(facts.weights, place)


def test_tables_cannot_state_weights() -> None:
    with pytest.raises(Exception, match="unknown key 'weights'"):
        stated(weights=[])


# ------------------------------------------------------------------------------------ the file


def test_lines_are_as_their_schema_says() -> None:
    validator = Draft202012Validator(schema("weights"))
    Draft202012Validator.check_schema(schema("weights"))
    for line in inventories.DATA.read_text(encoding="utf-8").splitlines():
        assert [] == [error.message for error in validator.iter_errors(json.loads(line))]


def test_schema_refuses_an_unknown_split() -> None:
    block = ["layers", "0-3", [["q_proj", "attention", 1, 1, "sideways"]]]
    assert not Draft202012Validator(schema("weights")).is_valid([block] * 3)


def test_file_is_small_and_has_each_line_once() -> None:
    text = inventories.DATA.read_text(encoding="utf-8")
    assert len(text) < 600_000
    assert len(set(text.splitlines())) == len(text.splitlines())


def test_line_is_read_back() -> None:
    weights = (
        Weight("a", "attention", 4, 2, "heads", heads=2),
        Weight("b", "norm", 4, 1, element=4, where="engine"),
    )
    blocks = (Block("layers", weights, (0, 1, 2, 5)), Block("last", ()))
    assert blocks == inventories.unpacked(inventories.packed(blocks))


# ------------------------------------------------------------------------------------- configs


def test_unknown_tower_is_left_out() -> None:
    config = {
        "model_type": "no-such-vlm",
        "text_config": {
            "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
        },
        "vision_config": {"hidden_size": 64, "num_attention_heads": 4},
    }  # fmt: skip
    facts = facts_from_config(config, "x")
    assert (None, 0) == (facts.params_total, elements(facts.weights, "tower"))
    assert elements(facts.weights) == facts.params_text
