"""What vLLM builds of a model: matrices and their sizes, and what its class does otherwise.

One `Shape` per model holds what does not depend on the layout, so that one more layout costs
little. Exceptions by class come from data/vllm_architectures.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from shardlint.engines.cuts import VOCABULARY_PADDING
from shardlint.engines.widths import Scaled, Width, known, latent_outputs, scaled
from shardlint.matrices import Place
from shardlint.plan import ModelFacts, Ranks
from shardlint.record import record

MOST_MODELS = 512

OLDEST_READ = "0.11.2"
"""What is known of classes and defaults was read from this release on."""

DEATH = "stops while it builds the model"
KEEP_WHOLE = "expert parallelism (`--enable-expert-parallel`), which keeps experts whole"
REFUSAL = "refuses to start"


@record(kw_only=True)
class Special:
    """What the class of a model does otherwise; `row` is an exception of the table."""

    key: str
    value: Any
    since: str | None
    until: str | None
    platform: str | None
    text: str
    certain: bool


@record(kw_only=True)
class Shape:
    """The parts of one model that a layout cuts."""

    widths: tuple[Width, ...]
    shared: Width | None
    experts: Width | None
    vision: tuple[Width, ...]
    scaled: tuple[Scaled, ...]
    latent: tuple[Scaled, ...]
    special: Mapping[str, tuple[Special, ...]]
    no_pipeline: tuple[tuple[str | None, str | None], ...]
    encoder: str | None
    dense: bool
    """No config class adds experts to it."""
    encoder_whole: bool
    """The tower can be kept whole on every rank (`--mm-encoder-tp-mode data`)."""
    every_stage: frozenset[Place]
    """What the class builds on each pipeline stage, whichever of them needs it."""
    first: str | None
    whole_for_sequences: frozenset[str]
    """FFNs that are whole on each rank where ranks have parts of a sequence."""


@cache
def _table() -> dict[str, Any]:
    path = Path(__file__).parent / "data" / "vllm_architectures.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


_shapes: dict[int, tuple[ModelFacts, Shape]] = {}


def shape(model: ModelFacts) -> Shape:
    """The shape of a model, worked out once for each object."""
    found = _shapes.get(id(model))
    if found is None:
        if len(_shapes) >= MOST_MODELS:
            _shapes.clear()
        found = _shapes[id(model)] = (model, _shape(model))
    return found[1]


def _shape(model: ModelFacts) -> Shape:
    row = _row(model)
    built = row or _table()["architectures"].get(_table()["built_as"].get(model.model_type), {})
    special = _special(model, row)
    padded = "pads_mlp" in special
    return Shape(
        widths=tuple(_widths(model, padded)),
        shared=known(
            "shared expert width", model, "shared_expert_intermediate_size", certain=not padded
        ),
        experts=_experts(model, "pads_experts" in special),
        vision=tuple(_vision(model)),
        scaled=tuple(item for item in scaled(model) if not (padded and item.part in PADDED)),
        latent=tuple(latent_outputs(model)),
        special=special,
        no_pipeline=tuple((span.get("since"), span.get("until")) for span in row.get("no_pp", ())),
        encoder=row.get("encoder_heads") or _encoder_told(model),
        dense=not model.moe
        and (model.dense_ffn is True or model.moe_layers == ())
        and model.model_type not in _table()["experts_by_default"],
        encoder_whole=bool(row.get("encoder_data_mode")),
        first=row.get("first"),
        every_stage=frozenset({"tower", *built.get("every_stage", ())}),
        whole_for_sequences=frozenset(built.get("whole_for_sequences", ())),
    )


def _row(model: ModelFacts) -> dict[str, Any]:
    """The entry of the model's class; by its type where the config names no class."""
    table = _table()
    name = model.architecture or table["of_model_type"].get(model.model_type)
    row: dict[str, Any] = table["architectures"].get(name, {})
    return row


def no_stages(architecture: str) -> tuple[tuple[str | None, str | None], ...]:
    """The releases in which a class is not written for pipeline stages."""
    row = _table()["architectures"].get(architecture, {})
    return tuple((span.get("since", row.get("first")), span.get("until"))
                 for span in row.get("no_pp", ()))  # fmt: skip


TOLD = "override"
"""Provenance of what the user says of a model."""


def _encoder_told(model: ModelFacts) -> str | None:
    """Of a class that nobody names, vision heads in the user's words are heads that are cut."""
    return "error" if model.provenance == TOLD and model.architecture is None else None


def _special(model: ModelFacts, row: Mapping[str, Any]) -> dict[str, tuple[Special, ...]]:
    found: dict[str, tuple[Special, ...]] = {}
    for name in row.get("exceptions", ()):
        entry = _table()["exceptions"][name]
        only = entry.get("only", {})
        quantization = model.quantization or {}
        alike = all(quantization.get(key) == value for key, value in only.items())
        shaped = all(getattr(model, key) == v for key, v in entry.get("shape", {}).items())
        if not (alike and shaped):
            continue
        special = Special(
            key=entry["key"], value=entry["value"], since=entry.get("since"),
            until=entry.get("until"), platform=entry.get("platform"), text=entry.get("text", ""),
            certain=entry.get("certain", True),
        )  # fmt: skip
        found[special.key] = (*found.get(special.key, ()), special)
    return found


# ------------------------------------------------------------------------------------- widths


def _widths(model: ModelFacts, padded: bool) -> Iterator[Width]:
    """linear.py: what tensor parallelism cuts, beside heads and experts."""
    if model.dense_ffn and (width := known("FFN width", model, "intermediate_size")):
        yield Width(width.subject, width.size, ("dense_ffn", *width.facts), not padded)
    if model.vocab_size:
        padded_size = -(-model.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
        yield Width("padded vocabulary", padded_size, ("vocab_size",))
    for width in (
        known("Mamba heads", model, "mamba_heads"),
        known("Mamba width", model, "mamba_width"),
        known("linear attention value heads", model, "linear_num_value_heads"),
        known("linear attention key heads", model, "linear_num_key_heads", certain=False),
    ):
        if width is not None:
            yield width
    yield from _convolution(model)


def _convolution(model: ModelFacts) -> Iterator[Width]:
    """Gated delta nets: queries, keys and values go through one convolution."""
    keys = known("", model, "linear_num_key_heads", "linear_key_head_dim")
    values = known("", model, "linear_num_value_heads", "linear_value_head_dim")
    if keys and values:
        size = 2 * keys.size + values.size
        yield Width("linear attention convolution", size, (*keys.facts, *values.facts))


PADDED = ("dense_ffn", "shared_expert")
"""Classes of matrices that a class of model fills up with zeros where they do not divide."""


def _experts(model: ModelFacts, padded: bool) -> Width | None:
    """fused_moe/config.py: the width of one expert; some kernels pad it first."""
    if not model.moe:
        return None
    method = (model.quantization or {}).get("method")
    padded = padded or method in ("mxfp4", "gpt_oss_mxfp4")
    return known(
        "expert width", model, "moe_intermediate_size",
        certain=not padded and model.quantization is not None,
    )  # fmt: skip


def _vision(model: ModelFacts) -> Iterator[Width]:
    for width in (
        known("vision heads", model, "vision_heads"),
        known("vision FFN width", model, "vision_intermediate_size", certain=False),
    ):
        if width is not None:
            yield width


# -------------------------------------------------------------------------------------- scales


def may_be_whole(ranks: Ranks) -> bool:
    """Whether shared experts are copied to each rank, for parts of a sequence of its own.

    config/parallel.py, use_sequence_parallel_moe: some ways of exchange do so where expert and data
    parallelism meet.
    """
    return ranks.ep > 1 and ranks.attention_dp > 1


# ----------------------------------------------------------------- parts of a constraint


def of(special: Special, consequence: str) -> dict[str, Any]:
    """The part of a constraint that an exception of a class gives."""
    return {
        "since": special.since, "until": special.until, "refusal": _plain(special.text),
        "refusal_since": special.since, "consequence": consequence,
        "advisory": not special.certain,
    }  # fmt: skip


def _plain(text: str) -> str:
    """The longest piece of an engine's text without its numbers."""
    pieces = [piece.strip() for part in text.split("{") for piece in part.split("}")[-1:]]
    return max(pieces, key=len, default="").rstrip(".,:= ")
