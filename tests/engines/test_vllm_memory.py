"""Weights of a rank against vLLM 0.33.0's own classes, and the rules that they follow from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
from shardlint.engines import vllm_kernels
from shardlint.engines.vllm import VLLM
from shardlint.engines.vllm_memory import VLLMMemory
from shardlint.footprint import Part, Settings
from shardlint.matrices import Block, Weight
from shardlint.models.catalogue import Catalogue
from shardlint.models.config_json import facts_from_config
from shardlint.plan import Device, Layout, ModelFacts, Ranks
from shardlint.sizing.memory import stage_weights, weights
from shardlint.sizing.storage import Storage, storage

RELEASE: Final = "0.33.0"


class Registered(VLLMMemory):
    """What parameters are made for: nothing that is added behind loading."""

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        return replace(super().part(weight, model, ranks, settings), unpacked=0)


RULES: Final = Registered(RELEASE)
TABLE: Final = Path(__file__).parent / "data" / "vllm_memory.json"
CLOSE: Final = 0.001
CATALOGUE: Final = Catalogue()


@lru_cache(maxsize=1)
def table() -> Mapping[str, Any]:
    """What vLLM's own classes hold, by model."""
    loaded: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    models: dict[str, Any] = loaded["models"]
    return models


@lru_cache(maxsize=512)
def facts(id: str) -> ModelFacts | None:
    return CATALOGUE.lookup(id)


def layout_of(row: Mapping[str, Any]) -> Layout:
    return Layout(
        tp=row.get("tp", 1), pp=row.get("pp", 1), dp=row.get("dp", 1), ep=bool(row.get("ep"))
    )


def errors(id: str, model: ModelFacts, stored: Storage) -> Iterator[tuple[str, float]]:
    """Layout and relative error of the first and of the last stage."""
    for row in table()[id]["rows"]:
        if "weights" not in row or "quantization" in row.get("options", {}):
            continue
        layout = layout_of(row)
        settings = Settings(compute_capability=str(row.get("capability", "9.0")))
        ranks = VLLM().ranks(layout, model, None)
        stages = stage_weights(model, ranks, layout, settings, RULES, stored)
        for at, held in zip((0, -1), row["weights"], strict=False):
            label = f"{layout.tp}.{layout.pp}.{layout.dp}.{int(layout.ep)}"
            yield label, stages[at].bytes / held - 1


def comparable(quantized: bool) -> list[str]:
    """Models whose weights and way of storing are known on both sides."""
    found = []
    for id, entry in table().items():
        model = facts(id)
        if model is None or not model.weights or bool(entry["quant"]) is not quantized:
            continue
        if bool(model.quantization) is quantized and not is_silent(model):
            found.append(id)
    return found


SIXTEEN_BITS: Final = frozenset({"vision", "router"})


def is_silent(model: ModelFacts) -> bool:
    """Its record skips no tower and no router, as those of published checkpoints do."""
    record = model.quantization or {}
    parts = {weight.part for block in model.weights for weight in block.weights}
    return bool(record and parts & SIXTEEN_BITS) and set(record.get("ignore", ())) <= {"lm_head"}


PLAIN: Final = {
    "BAAI/bge-reranker-large": (0.03, "the head that classifies is not counted"),
    "bigcode/gpt_bigcode-santacoder": (0.012, "its class builds the positions on every stage"),
    "inclusionAI/Ling-mini-2.0": (0.005, "its own config class keeps the router in float32"),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": (0.004, "the config leaves the tower out"),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (0.018, "the config leaves the tower out"),
    "mistralai/Mistral-Small-4-119B-2603": (0.027, "shared experts by the class of the text"),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (0.002, "float32 routers on 8.0"),
    "stepfun-ai/Step-3.5-Flash": (0.022, "the config leaves the heads of windows out"),
}
"""Reviewed: the largest error, and where it comes from."""

QUANTIZED: Final = {
    "mistralai/Devstral-Small-2-24B-Instruct-2512": (0.034, "FP8 does not match its skipped tower"),
    "nvidia/Gemma-4-26B-A4B-NVFP4": (0.0033, "scales of a width that is no whole group"),
    "nvidia/GLM-5.1-NVFP4": (0.002, "layers that are left alone are counted, not named"),
    "nvidia/GLM-5.2-NVFP4": (0.002, "layers that are left alone are counted, not named"),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4": (0.0056, "layers are counted, not named"),
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": (0.0034, "scales of no whole group"),
    "nvidia/Qwen3.5-122B-A10B-NVFP4": (0.004, "layers that are left alone are counted, not named"),
    "nvidia/Qwen3.5-397B-A17B-NVFP4": (0.0021, "layers are counted, not named"),
    "nvidia/Qwen3.6-27B-NVFP4": (0.0012, "one small matrix of a quantized class stays in 16 bits"),
}


@pytest.mark.parametrize("id", comparable(False))
def test_plain_weights_are_those_of_the_classes(id: str) -> None:
    model = facts(id)
    assert model is not None
    most, _ = PLAIN.get(id, (CLOSE, ""))
    found = dict(errors(id, model, storage({})))
    assert all(abs(error) <= most for error in found.values()), found


@pytest.mark.parametrize("id", comparable(True))
def test_quantized_weights_are_those_of_the_classes(id: str) -> None:
    model = facts(id)
    assert model is not None
    most, _ = QUANTIZED.get(id, (CLOSE, ""))
    found = dict(errors(id, model, storage(model.quantization or {})))
    assert all(abs(error) <= most for error in found.values()), found


def test_reviewed_errors_are_still_there() -> None:
    for known, quantized in ((PLAIN, False), (QUANTIZED, True)):
        for id in known:
            model = facts(id)
            assert model is not None
            assert id in comparable(quantized)
            stored = storage(model.quantization or {})
            assert max(abs(error) for _, error in errors(id, model, stored)) > CLOSE, id


def test_schemes_where_only_a_name_tells_the_quantization(shared: Path) -> None:
    """Such configs do not say what is skipped: there vLLM quantizes towers, routers and heads.

    What remains is dropped behind loading: zero points of symmetric GPTQ, biases of its experts.
    """
    seen: Counter[str] = Counter()
    worst: dict[str, float] = {}
    for id, entry in table().items():
        path = shared / "models" / f"{id.replace('/', '__')}.json"
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if not entry["quant"] or not config.get("_quantization_inferred"):
            continue
        model = facts_from_config(config, id, None)
        stored = storage(model.quantization or {})
        whole = ("vision", "router", "lm_head")
        readings = [
            replace(stored, parts={**dict.fromkeys(some, stored.main), **stored.parts})
            for size in range(len(whole) + 1)
            for some in combinations(whole, size)
        ]
        least = min(
            max(abs(error) for _, error in errors(id, model, reading)) for reading in readings
        )
        seen[entry["quant"]] += 1
        worst[id] = least
    assert len(seen) >= 5
    assert {
        id: error
        for id, error in worst.items()
        if error > (DROPPED if table()[id]["quant"] == "auto_gptq" else ODD.get(id, LITTLE))
    } == {}


LITTLE: Final = 0.0015
DROPPED: Final = 0.006
ODD: Final = {
    "nvidia/Qwen3-8B-NVFP4": 0.0121,  # scales of a head that is tied all the same
    "RedHatAI/gemma-3-12b-it-FP8-dynamic": 0.018,  # half of the tower is quantized
    "RedHatAI/gemma-3-12b-it-quantized.w4a16": 0.04,
    "RedHatAI/gemma-3-12b-it-quantized.w8a8": 0.018,
    "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w4a16": 0.0035,  # as is the projector
    "RedHatAI/Mistral-Small-3.2-24B-Instruct-2506-NVFP4": 0.0035,
}


# ------------------------------------------------------------------------------- by the layout


def of(id: str) -> ModelFacts:
    found = CATALOGUE.lookup(id)
    assert found is not None
    return found


def held(model: ModelFacts, release: str = RELEASE, **more: Any) -> tuple[int, ...]:
    layout = Layout(**{key: more.pop(key) for key in ("tp", "pp", "dp", "ep") if key in more})
    ranks = VLLM().ranks(layout, model, None)
    stored = storage(model.quantization or {})
    rules = VLLMMemory(release)
    stages = stage_weights(model, ranks, layout, Settings(**more), rules, stored)
    return tuple(stage.bytes for stage in stages)


def test_some_classes_build_the_head_on_every_stage() -> None:
    model = of("Qwen/Qwen3-30B-A3B")
    head = (model.vocab_size or 0) * (model.hidden_size or 0) * 2
    first, last = held(model, pp=2)
    assert first == last > held(model)[0] // 2 + head * 0.9
    plain = of("Qwen/Qwen3-32B")
    assert sum(held(plain, pp=2)) == held(plain)[0]


def test_towers_stand_on_every_stage_unless_only_text_is_served() -> None:
    model = of("Qwen/Qwen2.5-VL-7B-Instruct")
    with_tower, without = held(model, pp=2), held(model, pp=2, text_only=True)
    assert with_tower[0] - without[0] == with_tower[1] - without[1] > 2**30


def test_a_tower_is_whole_where_it_is_asked_for_or_its_heads_do_not_divide() -> None:
    model = of("Qwen/Qwen2.5-VL-7B-Instruct")
    assert held(model, tp=4, whole_tower=True)[0] > held(model, tp=4)[0] + 2**29
    odd = replace(model, vision_heads=15)
    assert held(odd, tp=4) == held(model, tp=4, whole_tower=True)


def test_shared_experts_are_whole_where_ranks_have_parts_of_a_sequence() -> None:
    cut, whole = of("zai-org/GLM-4.5"), of("deepseek-ai/DeepSeek-V3")
    for model, grows in ((cut, False), (whole, True)):
        shared = [
            VLLMMemory(RELEASE).part(weight, model, VLLM().ranks(layout, model, None), Settings())
            for layout in (Layout(tp=2, ep=True), Layout(tp=2, dp=4, ep=True))
            for block in model.weights[:-1]
            for weight in block.weights
            if weight.part == "shared_expert" and weight.split == "rows"
        ]
        assert (len({part.outputs for part in shared}) > 1) is grows


def test_places_for_adapters_are_cut_as_their_matrices_are() -> None:
    """A pair for each of q, k, v, o, gate, up and down: 36 layers of Qwen3-8B at TP 2."""
    model = of("Qwen/Qwen3-8B")
    both = [held(model, tp=2, max_loras=n, max_lora_rank=16)[0] for n in (0, 2)]
    h, q, kv, width = 4096, 4096, 1024, 12288
    pairs = (h + q // 2) + 2 * (h + kv // 2) + (q // 2 + h) + 3 * (h + width // 2)
    assert both[1] - both[0] == 36 * 2 * 16 * pairs * 2


def test_what_only_the_checkpoint_has_is_not_loaded() -> None:
    model = of("Qwen/Qwen3-32B")
    idle = Block("first", (Weight("unused", "attention", 1 << 20, 1 << 10, where="checkpoint"),))
    more = replace(model, weights=(*model.weights, idle))
    layout = Layout()
    ranks = VLLM().ranks(layout, model, None)
    both = [weights(m, ranks, layout, Settings(), RULES, storage({})) for m in (model, more)]
    assert both[0] == both[1]


def test_latent_attention_keeps_a_quantized_matrix_unpacked_too() -> None:
    """61 layers of 128 heads with 128 and 128 elements for each of 512 latent ones."""
    model, layout = of("deepseek-ai/DeepSeek-V3"), Layout(tp=8)
    ranks, stored = VLLM().ranks(layout, model, None), storage(model.quantization or {})
    bare, whole = (
        stage_weights(model, ranks, layout, Settings(), rules, stored)[0].bytes
        for rules in (RULES, VLLMMemory(RELEASE))
    )
    assert whole - bare == 61 * 128 // 8 * (128 + 128) * 512 * 2
    plain = storage({})
    assert stage_weights(model, ranks, layout, Settings(), RULES, plain) == stage_weights(
        model, ranks, layout, Settings(), VLLMMemory(RELEASE), plain
    )


# ----------------------------------------------------------------------------- kernels of MXFP4


@pytest.mark.parametrize(
    ("release", "card", "gpt_oss", "kernel"),
    [
        ("0.11.0", "9.0", True, vllm_kernels.TRITON),
        ("0.33.0", "9.0", True, vllm_kernels.TRITON),
        ("0.33.0", "9.0", False, vllm_kernels.MARLIN),
        ("0.11.0", "8.0", True, vllm_kernels.MARLIN),
        ("0.33.0", "8.9", True, vllm_kernels.MARLIN),
        ("0.33.0", "12.0", True, vllm_kernels.MARLIN),
        ("0.11.2", "12.0", True, vllm_kernels.REGISTERED),
        ("0.18.1", "10.0", True, vllm_kernels.TRTLLM),
        ("0.33.0", "10.3", False, vllm_kernels.NARROW_TRTLLM),
        ("0.33.0", "gfx942", True, vllm_kernels.ROCM),
        ("0.33.0", None, True, vllm_kernels.REGISTERED),
    ],
)
def test_kernels_by_release_and_card(
    release: str, card: str | None, gpt_oss: bool, kernel: vllm_kernels.Kernel
) -> None:
    assert vllm_kernels.mxfp4(release, card, gpt_oss) == kernel


def test_releases_with_equal_keys_choose_the_same_kernels() -> None:
    assert VLLMMemory("0.33.0").key == VLLMMemory("0.33.1").key
    assert vllm_kernels.alike("0.12.0") != vllm_kernels.alike("0.13.0")


@pytest.mark.parametrize(
    ("id", "card", "printed"),
    [
        ("openai/gpt-oss-120b", "9.0", 64.38),
        ("openai/gpt-oss-120b", "8.0", 65.97),
        ("openai/gpt-oss-20b", "9.0", 13.47),
    ],
)
def test_printed_sizes_of_gpt_oss(id: str, card: str, printed: float) -> None:
    """GiB that vLLM 0.11.0 and 0.14.1 print behind loading: with Triton, and with Marlin."""
    model, device, layout = of(id), Device(name="", vendor="", compute_capability=card), Layout()
    rules = VLLMMemory("0.11.0")
    settings = rules.settled(Settings(), model, layout, device)
    ranks = VLLM().ranks(layout, model, device)
    beside = rules.beside(model, ranks, layout, settings, device)
    found = held(model, "0.11.0", compute_capability=card)[0] + beside.loaded
    assert found / 2**30 == pytest.approx(printed, rel=0.005)
