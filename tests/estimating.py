"""A small model with its matrices, and an engine whose memory can be added up by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardlint.engine import Engine
from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.vllm import VLLM
from shardlint.engines.vllm_memory import VLLMMemory
from shardlint.estimates import Estimator
from shardlint.footprint import Beside, Cache, CacheGroup, MemoryRules, Settings
from shardlint.matrices import Block, Weight
from shardlint.models.catalogue import Catalogue
from shardlint.plan import Device, KvGroup, Layout, ModelFacts, Ranks
from shardlint.plugins import Plugins, hookimpl
from shardlint.project import Setup

MIB = 2**20
GIB = 2**30
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, VOCAB = 4096, 4, 32, 8, 128, 32000
SHARE, LENGTH, BLOCK = 0.9, 8192, 16
BESIDE = Beside(context=300 * MIB, collectives=100 * MIB, activations=1000 * MIB, graphs=500 * MIB,
                rest=10 * MIB)  # fmt: skip

LAYER = (
    Weight("qkv", "attention", (HEADS + 2 * KV_HEADS) * HEAD, HIDDEN, "rows"),
    Weight("o", "attention", HIDDEN, HEADS * HEAD, "columns"),
    Weight("gate_up", "dense_ffn", 2 * 4 * HIDDEN, HIDDEN, "rows"),
    Weight("down", "dense_ffn", HIDDEN, 4 * HIDDEN, "columns"),
    Weight("norms", "norm", HIDDEN, 1, count=2),
)
MODEL = ModelFacts(
    id="acme/tiny-1b",
    architecture="LlamaForCausalLM",
    model_type="llama",
    num_layers=LAYERS,
    hidden_size=HIDDEN,
    attention_heads=HEADS,
    kv_heads=KV_HEADS,
    head_dim=HEAD,
    vocab_size=VOCAB,
    intermediate_size=4 * HIDDEN,
    dense_ffn=True,
    tie_word_embeddings=False,
    quantization={},
    kv_groups=(KvGroup(LAYERS, KV_HEADS, 2 * HEAD * 2),),
    default_context=LENGTH,
    longest_context=4 * LENGTH,
    provenance="catalogue",
    weights=(
        Block("first", (Weight("embed", "embedding", VOCAB, HIDDEN, "vocabulary"),)),
        Block("layers", LAYER, tuple(range(LAYERS))),
        Block("last", (Weight("head", "lm_head", VOCAB, HIDDEN, "vocabulary"),)),
    ),
)
FP8 = replace(MODEL, id="acme/tiny-1b-FP8", quantization={"method": "fp8", "bits": 8})
GUESSED = replace(MODEL, id="acme/guessed-1b", assumed=("its width is a guess",))
ALIKE = replace(GUESSED, id="aaa/tiny-1b")
BARE = replace(MODEL, id="acme/bare-1b", weights=())
ENDLESS = replace(MODEL, id="acme/endless-1b", default_context=None, longest_context=None)
POSITIONS = replace(ENDLESS, id="acme/positions-1b", max_position_embeddings=4096)
MODELS = {facts.id: facts for facts in (MODEL, FP8, GUESSED, ALIKE, BARE, ENDLESS, POSITIONS)}


class SimpleMemory(VLLMMemory):
    """Defaults, a cache of blocks, and a fixed need beside both."""

    def settled(
        self, asked: Settings, model: ModelFacts, layout: Layout, device: Device | None
    ) -> Settings:
        return replace(
            asked,
            share=asked.share or SHARE,
            max_model_len=asked.max_model_len or model.default_context,
        )

    def cache(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Cache | None:
        if settings.kv_cache_dtype == "mystery":
            return None
        per = sum(group.bytes_per_token(ranks.attention_tp) for group in model.kv_groups)
        group = CacheGroup(kind="full", layers=LAYERS, block=BLOCK, context=layout.dcp)
        return Cache(bytes_per_block=per * BLOCK, bytes_per_token=per, groups=(group,))

    def beside(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Beside:
        return replace(BESIDE, graphs=0) if settings.enforce_eager else BESIDE


class SimpleEngine(VLLM):
    def memory(self, release: str) -> MemoryRules | None:
        return SimpleMemory(release)


class Hooks:
    @hookimpl
    def shardlint_engines(self) -> list[Engine]:
        return [SimpleEngine(), RecognisedEngine("sglang", "SGLang")]


class Shelf(Catalogue):
    """The catalogue with these models before its own."""

    def lookup(self, reference: str) -> ModelFacts | None:
        return MODELS.get(reference) or super().lookup(reference)

    def ids(self) -> tuple[str, ...]:
        return (*super().ids(), *MODELS)


def setup() -> Setup:
    made = Setup(Plugins([Hooks()], discover=False))
    made.__dict__["catalogue"] = Shelf()
    return made


def estimator() -> Estimator:
    return Estimator(setup())


def question(**changed: Any) -> dict[str, Any]:
    return {"model": "acme/tiny-1b", "gpu": "H100-SXM-80GB", "engine_version": "0.11.2", **changed}
