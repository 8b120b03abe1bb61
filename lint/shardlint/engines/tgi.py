"""TGI, text-generation-inference: one number of shards, which is everything about its layout.

Facts: tgi, sections 1 to 3. Read in huggingface/text-generation-inference 0.8.2 to 3.3.7:
launcher/src/main.rs (`find_num_shards`, checks of lengths), server/text_generation_server:
models/__init__.py, models/custom_modeling, models/flash_causal_lm.py, utils/weights.py,
utils/dist.py, cli.py. Where no number of shards is given, it takes every GPU that it sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from shardlint.engines import collectives
from shardlint.engines.tabled import TabledEngine, number
from shardlint.engines.tgi_memory import TGIMemory
from shardlint.footprint import MemoryRules
from shardlint.known import Known
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    Launch,
    Layout,
    LayoutFacts,
    ModelFacts,
    Options,
    Ranks,
    Reading,
    Releases,
    Remark,
    SharedMemory,
    at_most,
    divides,
)

HEADS, KV_HEADS = "tp-heads-indivisible", "tp-kv-heads-indivisible"
WIDTHS, CONFLICT = "shard-dim-indivisible", "flag-conflict"
REFUSAL, DEATH = "refuses to start", "dies while it starts"

GROUPED: Final = frozenset(
    {"llama", "phi3", "granite", "mistral", "mixtral", "qwen2", "gemma", "gemma2", "gemma3_text",
     "cohere", "dbrx", "phi", "starcoder2", "baichuan"}
)  # fmt: skip
"""Types of models whose own classes hand `KV heads // shards` to each shard, and copy none."""

OWN: Final = GROUPED | {
    "bloom", "deepseek_v2", "deepseek_v3", "falcon", "RefinedWeb", "RefinedWebModel", "gpt2",
    "gptj", "gpt_neox", "gpt_bigcode", "mpt", "opt", "t5",
}  # fmt: skip
"""All types with classes of its own; others run on those of transformers, which were not read."""

PER_HEAD_TEXT: Final = "0.9.2"
WITH_TWO_LENGTHS: Final = "2.0.0"
SHARDED_VOCABULARY: Final = ("0.8.2", "0.9.2")
"""Builds of these releases split the embedding evenly; the check came a few days after the tag
0.8.2, and builds between that and 0.9.0 go by its name (#507). From 0.9.2 on, the last shard has
fewer rows (#583)."""

LENGTHS: Final = (
    "max_input_tokens", "max_input_length", "max_total_tokens", "max_batch_total_tokens"
)  # fmt: skip
TOLD: Final = (*LENGTHS, "sharded", "num_shard", "quantize", "dtype")
FREE_DTYPES: Final = ("bitsandbytes", "bitsandbytes-nf4", "bitsandbytes-fp4")
"""Ways to quantize beside which --dtype may stand."""


class TGI(TabledEngine):
    """The engine as shardlint asks it; `Layout.tp` is the number of shards."""

    judged: ClassVar = {
        HEADS: ("tp",),
        KV_HEADS: ("tp",),
        WIDTHS: ("tp",),
        "kv-replication": ("tp",),
        CONFLICT: (),
        "gpu-count-short": ("tp",),
        "gpu-count-surplus": ("tp",),
        "gpu-count-unknown": (),
        "shm-missing": ("tp",),
    }

    def __init__(self) -> None:
        super().__init__("tgi", "TGI", "tgi")

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        found = super().read(launch, releases)
        if found is None:
            return None
        options = dict(found.options)
        for name in TOLD:
            text = launch.env.get(name.upper())
            if name not in options and text is not None and text.value != "":
                options[name] = text.known()
        numbers = (*LENGTHS, "num_shard")
        options |= {name: number(options[name]) for name in numbers if name in options}
        counted = _sees_all(found.layout, options.get("sharded", Known.unset()))
        return replace(
            found,
            options=options,
            counted=("tp",) if counted else (),
            remarks=(*found.remarks, *_both(found.layout, options)),
        )

    # ---------------------------------------------------------------------------------- ranks

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        """One process for each GPU, on one host."""
        return Ranks(
            gpus=layout.tp,
            gpus_per_pod=layout.tp,
            world_size=layout.tp,
            engines=1,
            attention_tp=layout.tp,
            attention_dp=1,
            dense_tp=layout.tp,
            moe_tp=layout.tp,
            ep=1,
            pp=1,
            kv_copies=_kv_copies(layout, model),
            coupled=1,
            visible_devices=devices,
        )

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        return collectives.through_files(ranks)

    def releases(self) -> tuple[str, ...]:
        return self.table.releases

    def memory(self, release: str) -> MemoryRules | None:
        return TGIMemory(OWN)

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        found = _constraints(model, ranks, layout, options)
        return (item for item in found if options.reaches(item.since, item.until))


def _sees_all(layout: LayoutFacts, sharded: Known[Any]) -> bool:
    """main.rs, find_num_shards: without a number, all GPUs, unless it is told not to shard."""
    return layout.tp.is_unset and str(sharded.only).lower() != "false"


def _both(layout: LayoutFacts, options: dict[str, Known[Any]]) -> Iterator[Remark]:
    sharded, shards = options.get("sharded", Known.unset()), layout.tp
    told = str(sharded.only).lower()
    if told == "false" and (shards.only or 1) > 1 and sharded.origin is not None:
        yield Remark(
            kind="conflict", severity="warning", at=sharded.origin,
            message=f"sharding is off and there are {shards.only} shards: the number counts, and"
            " the model is split",
            help="leave one of them out",
            related=((shards.origin, f"{shards.only} shards"),) if shards.origin else (),
        )  # fmt: skip


def _kv_copies(layout: Layout, model: ModelFacts | None) -> int | None:
    """A single KV head is kept whole by every shard."""
    if model is None or model.kv_heads is None or model.mla:
        return None
    return layout.tp if model.kv_heads == 1 else 1


# --------------------------------------------------------------------------------- constraints


def _constraints(
    model: ModelFacts | None, ranks: Ranks, layout: Layout, options: Options
) -> Iterator[Constraint]:
    if model is not None:
        yield from _heads(model, layout.tp)
        yield from _kv_heads(model, layout.tp)
        yield from _widths(model, layout.tp)
    yield from _lengths(options)
    yield from _options(options)
    if ranks.visible_devices is not None:
        yield Constraint(
            rule="gpu-count-short", subject="GPUs", left=layout.tp, right=ranks.visible_devices,
            test=at_most, refusal="Each process is one gpu", consequence=DEATH, cures=("tp",),
        )  # fmt: skip


def _heads(model: ModelFacts, shards: int) -> Iterator[Constraint]:
    if model.attention_heads:
        yield Constraint(
            rule=HEADS, subject="attention heads", left=model.attention_heads, right=shards,
            test=divides, refusal="`num_heads` must be divisible by `num_shards`",
            refusal_since=PER_HEAD_TEXT, consequence=REFUSAL, cures=("tp",),
            facts=("attention_heads",), advisory=_elsewhere(model),
            severity="warning" if model.model_type is None else "error",
        )  # fmt: skip


def _elsewhere(model: ModelFacts) -> bool:
    """The class of the model is one that was not read."""
    return model.model_type is not None and model.model_type not in OWN


def _kv_heads(model: ModelFacts, shards: int) -> Iterator[Constraint]:
    """Llama asks by name since 2.1.0; others are left with no head, or with a wrong shape."""
    heads = model.kv_heads
    if not heads or heads == 1 or model.mla or model.model_type not in GROUPED:
        return
    yield Constraint(
        rule=KV_HEADS, subject="KV heads", left=heads, right=shards, test=divides, refusal="",
        consequence=DEATH, cures=("tp",), facts=("kv_heads",),
        sentence="{left} KV heads do not divide over {right} shards, and none of them is copied",
    )  # fmt: skip


def _widths(model: ModelFacts, shards: int) -> Iterator[Constraint]:
    """weights.py, get_sharded: what is cut must divide."""
    refusal = "is not compatible with sharding on"
    if model.intermediate_size and model.dense_ffn is not False and model.model_type in OWN:
        yield Constraint(
            rule=WIDTHS, subject="MLP width", left=model.intermediate_size, right=shards,
            test=divides, refusal=refusal, consequence=REFUSAL, cures=("tp",),
            refusal_since="0.9.0", facts=("intermediate_size", "dense_ffn"),
        )  # fmt: skip
    if model.vocab_size:
        since, until = SHARDED_VOCABULARY
        yield Constraint(
            rule=WIDTHS, subject="vocabulary", left=model.vocab_size, right=shards, test=divides,
            refusal=refusal, consequence=REFUSAL, cures=("tp",), since=since, until=until,
            facts=("vocab_size",), sentence="a vocabulary of {left:,} does not divide over {right}"
            " shards, and is not padded",
        )  # fmt: skip


def _lengths(options: Options) -> Iterator[Constraint]:
    """main.rs: a request has room for at least one token of answer."""
    asked = options.get("max_input_tokens", options.get("max_input_length"))
    whole, batch = options.get("max_total_tokens"), options.get("max_batch_total_tokens")
    if isinstance(asked, int) and isinstance(whole, int):
        name = "max_input_tokens" if "max_input_tokens" in options.values else "max_input_length"
        yield Constraint(
            rule=CONFLICT, subject="tokens", left=asked + 1, right=whole, test=at_most,
            refusal="must be < `max_total_tokens`", consequence=REFUSAL, cures=(),
            places=(f"options.{name}",), sentence=f"an input of {asked:,} tokens leaves no room for"
            f" an answer within {whole:,}",
        )  # fmt: skip
    if isinstance(whole, int) and isinstance(batch, int):
        yield Constraint(
            rule=CONFLICT, subject="tokens", left=whole, right=batch, test=at_most,
            refusal="`max_total_tokens` must be <= `max_batch_total_tokens`", since="0.9.0",
            consequence=REFUSAL, cures=(), places=("options.max_batch_total_tokens",),
            sentence="a request may have {left:,} tokens, and a whole batch {right:,}",
        )  # fmt: skip
    if {"max_input_tokens", "max_input_length"} <= options.values.keys():
        yield Constraint(
            rule=CONFLICT, subject="names", left=2, right=1, test=at_most,
            refusal="Please define only `max_input_tokens`", since=WITH_TWO_LENGTHS,
            consequence=REFUSAL, cures=(), places=("options.max_input_length",),
            sentence="the longest input is given by its new name and by its old one",
        )  # fmt: skip


def _options(options: Options) -> Iterator[Constraint]:
    sharded = str(options.get("sharded", "")).lower() == "true"
    shards, quantize = options.get("num_shard"), options.get("quantize")
    if sharded and isinstance(shards, int):
        yield Constraint(
            rule=CONFLICT, subject="shards", left=2, right=shards, test=at_most,
            refusal="`sharded` is true but `num_shard` <= 1", consequence=REFUSAL, cures=(),
            places=("options.sharded",), sentence="sharding is on, with {right} shard",
        )  # fmt: skip
    if quantize == "exl2" and isinstance(shards, int):
        yield Constraint(
            rule=CONFLICT, subject="shards", left=shards, right=1, test=at_most,
            refusal="Sharding is currently not supported with `exl2` quantization", since="2.1.0",
            consequence=REFUSAL, cures=(), places=("options.num_shard",),
            sentence="weights in the format exl2 cannot be split into {left} shards",
        )  # fmt: skip
    if quantize and quantize not in FREE_DTYPES and "dtype" in options.values:
        yield Constraint(
            rule=CONFLICT, subject="options", left=2, right=1, test=at_most,
            refusal="Only 1 can be set between `dtype` and `quantize`", since="0.9.2",
            consequence=DEATH, cures=(), places=("options.dtype",),
            sentence=f"a type is given beside `{quantize}`, which decides it",
        )  # fmt: skip
