"""What ranks cut of a model, by its shape alone: widths, and matrices with scales.

Alike in engines that took over vLLM's layers (linear.py, fused_moe, fp8_utils.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from shardlint.plan import ModelFacts, divides
from shardlint.record import record

Split: TypeAlias = Literal["tp", "experts"]

INT4 = ("awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "compressed-tensors")
"""Methods that store weights in groups along the input."""


@record
class Width:
    """A size that is cut in equal parts, and the fields of ModelFacts that it comes from."""

    subject: str
    size: int
    facts: tuple[str, ...]
    certain: bool = True

    @property
    def counted(self) -> bool:
        """It is a number of things, not the width of one."""
        return self.subject.endswith(("heads", "groups"))


@record
class Scaled:
    """A width whose parts must hold whole quantization scales.

    `split` says by what it is cut. `part` is the class of matrices, as in the record of skipped
    ones.
    """

    subject: str
    size: int
    part: str
    split: Split
    facts: tuple[str, ...]


def known(subject: str, model: ModelFacts, *fields: str, certain: bool = True) -> Width | None:
    size = 1
    for name in fields:
        value = getattr(model, name)
        if not value:
            return None
        size *= value
    return Width(subject, size, fields, certain)


def scaled(model: ModelFacts) -> Iterator[Scaled]:
    """Matrices that are cut along their input, and single ones that are cut along their output."""
    value = "v_head_dim" if model.v_head_dim else "head_dim"
    candidates = [
        ("attention output", "attention", "tp", ("attention_heads", value)),
        ("linear attention output", "linear_attention", "tp",
         ("linear_num_value_heads", "linear_value_head_dim")),
        ("shared expert width", "shared_expert", "tp", ("shared_expert_intermediate_size",)),
    ]  # fmt: skip
    if model.dense_ffn:
        candidates.append(("FFN width", "dense_ffn", "tp", ("intermediate_size",)))
    if model.moe and "expert_dtype" not in (model.quantization or {}):
        candidates.append(("expert width", "expert", "experts", ("moe_intermediate_size",)))
    for subject, part, split, fields in candidates:
        if (width := known(subject, model, *fields)) is not None:
            yield Scaled(subject, width.size, part, "tp" if split == "tp" else "experts", fields)


def latent_outputs(model: ModelFacts) -> Iterator[Scaled]:
    """Latent attention: the matrices from the compressed queries and KV entries to the heads."""
    heads, nope = model.attention_heads, model.qk_nope_head_dim
    if not model.mla or not heads or not nope:
        return
    for subject, more in (("query projection", model.qk_rope_head_dim),
                          ("KV projection", model.v_head_dim)):  # fmt: skip
        if more:
            size = heads * (nope + more)
            yield Scaled(subject, size, "attention", "tp", ("attention_heads", "qk_nope_head_dim"))


def in_full_precision(model: ModelFacts, part: str) -> bool:
    """Whether all matrices of a class are left out of the quantization, or may be."""
    quantization = model.quantization or {}
    skipped, layers = quantization.get("ignore", ()), quantization.get("ignore_layers", {})
    return part in skipped and part not in layers


def rest(item: Scaled, parts: int, unit: int, units: str) -> str | None:
    """What is left to each rank, where it is no whole number of units."""
    if item.size % (parts * unit) == 0:
        return None
    each = item.size / parts
    over = f"TP {parts}" if item.split == "tp" else f"{parts} ranks"
    return f"{item.subject} {item.size:,} over {over} leaves {each:g} a rank, no whole {units}"


def whole_if_cut(parts: int) -> Callable[[int, int], bool]:
    """With one part nothing is cut, and a last block may be shorter."""
    return divides if parts > 1 else _always


def _always(_left: int, _right: int) -> bool:
    return True


def with_scales(facts: tuple[str, ...]) -> tuple[str, ...]:
    return (*facts, "quantization")


def weights_only(model: ModelFacts) -> bool:
    """Whole numbers of few bits, multiplied by 16-bit activations."""
    quantization = model.quantization or {}
    return "activation_bits" not in quantization and quantization.get("type", "int") == "int"
