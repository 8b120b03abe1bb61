"""What a matrix costs in the scheme that it is stored in: elements, scales, zero points.

Formulas follow the parameters that vllm 0.33.0 registers for each method (quantization/*.py). A
scheme that is not known costs what is not known: None, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final

from shardlint.footprint import Part
from shardlint.matrices import Weight
from shardlint.record import record

SIXTEEN: Final = 2
"""Bytes of an element of the model's own type; engines load float32 checkpoints in 16 bits too."""

NEVER: Final = frozenset({"norm", "embedding", "lm_head", "router", "vision"})
"""Parts that stay in the model's own type whatever the method."""


def _ceil(number: int, unit: int) -> int:
    return -(-number // unit)


@record(kw_only=True)
class Scheme:
    """How the elements of one class of matrices are stored.

    `bits` of one element; `scale` bytes for each `block` (outputs × inputs; 0: all of them), `zero`
    bytes of a zero point beside it, `once` bytes for each matrix, `each_input` for each input.
    """

    name: str
    bits: float
    block: tuple[int, int] = (0, 0)
    scale: float = 0
    zero: float = 0
    once: int = 0
    each_input: int = 0
    kept_block: bool = False
    """Scales are refined where a rank's part is no whole number of blocks."""
    symmetric: bool = False
    """Zero points say nothing, and are kept only while scales are not refined."""

    def bytes(self, part: Part) -> int:
        """Bytes of a part of a weight."""
        block = part.block if part.block and self.kept_block else self.block
        outputs, inputs = part.outputs, part.inputs
        total = outputs * inputs * self.bits / 8 + self.once + self.each_input * inputs
        if self.scale or self.zero:
            rows, columns = block[0] or outputs, block[1] or inputs
            zero = 0 if self.symmetric and block != self.block else self.zero
            total += _ceil(outputs, rows) * _ceil(inputs, columns) * (self.scale + zero)
        return int(total) * part.count

    def scales(self, outputs: int, inputs: int) -> int:
        """Scales of one matrix; 0 where there are none, or one for all of it."""
        if not self.scale or self.block == (0, 0):
            return 0
        return _ceil(outputs, self.block[0] or outputs) * _ceil(inputs, self.block[1] or inputs)


PLAIN: Final = Scheme(name="16 bit", bits=16)
WIDE: Final = Scheme(name="32 bit", bits=32)

# ------------------------------------------------------------------------------ from a record

Record = Mapping[str, Any]


def _fp8(record: Record) -> Scheme:
    block = record.get("weight_block_size")
    small = record.get("expert_dtype") == "fp4"  # DeepSeek-V4: scales are exponents alone
    if small and block is None:
        block = (128, 128)
    if isinstance(block, list | tuple) and len(block) == 2:
        return Scheme(
            name="FP8 block", bits=8, block=(block[0], block[1]), scale=1 if small else 4,
            kept_block=True,
        )  # fmt: skip
    if record.get("method") == "compressed-tensors" and record.get("strategy") != "tensor":
        return Scheme(name="FP8 channel", bits=8, block=(1, 0), scale=4)
    return Scheme(name="FP8", bits=8, once=8)


def _int8(record: Record) -> Scheme:
    if record.get("method") == "compressed-tensors" and "activation_bits" in record:
        if record.get("strategy") == "tensor":
            return Scheme(name="INT8", bits=8, once=8)
        return Scheme(name="INT8", bits=8, block=(1, 0), scale=4)
    return _grouped(record, 8)


def _grouped(record: Record, bits: int) -> Scheme:
    """Groups along the input; the index of groups of GPTQ is kept where they are not in order.

    AWQ always has zero points. Those of a symmetric GPTQ checkpoint are dropped behind loading, and
    compressed-tensors has them where it is not symmetric.
    """
    group, method = record.get("group_size"), str(record.get("method", ""))
    inputs = group if isinstance(group, int) and group > 0 else 0
    symmetric = record.get("symmetric")
    without = symmetric is not False if method == "compressed-tensors" else symmetric is True
    return Scheme(
        name=f"INT{bits}", bits=bits, block=(1, inputs), scale=2, zero=0.0 if without else bits / 8,
        each_input=4 if record.get("act_order") else 0, kept_block=True,
    )  # fmt: skip


def _small(name: str, group: int, bits: int = 4) -> Scheme:
    return Scheme(name=name, bits=bits, block=(1, group), scale=1)


NVFP4: Final = _small("NVFP4", 16)
MXFP4: Final = _small("MXFP4", 32)
MXFP8: Final = _small("MXFP8", 32, 8)
NF4: Final = Scheme(name="NF4", bits=4, block=(1, 64), scale=4)
"""bitsandbytes: one float32 for 64 weights."""
NF4_TWICE: Final = replace(NF4, scale=1)
"""With scales that are themselves stored in 8 bits."""

ALGORITHMS: Final[dict[str, Callable[[Record], Scheme]]] = {
    "NVFP4": lambda _record: NVFP4,
    "MXFP4": lambda _record: MXFP4,
    "MXFP8": lambda _record: MXFP8,
    "FP8": _fp8,
    "FP8_PB_WO": lambda record: _fp8({"weight_block_size": (128, 128), **record}),
    "W4A16_AWQ": lambda record: _grouped({"group_size": 128, **record}, 4),
}
"""ModelOpt's words."""


def family(record: Record | None) -> str | None:
    """One word for the way of storing: "plain", "fp8", "int4", "int8", "nvfp4", "mxfp4", ..."""
    if record is None:
        return None
    if not record:
        return "plain"
    algorithm = str(record.get("quant_algo", ""))
    method, bits = str(record.get("method", "")), record.get("bits")
    if algorithm in ALGORITHMS:
        return algorithm.lower().removesuffix("_pb_wo").removeprefix("w4a16_awq") or "int4"
    if "mxfp4" in method or str(record.get("format", "")).startswith("mxfp4"):
        return "mxfp4"
    if record.get("type") == "float" and bits == 4:
        return "nvfp4" if record.get("group_size") == 16 else "mxfp4"
    if method == "fp8" or (record.get("type") == "float" and bits == 8):
        return "fp8"
    if "bitsandbytes" in method:
        return "int8bnb" if bits == 8 else "nf4"
    if bits in (4, 8) and method not in ("unknown", "gguf"):
        return f"int{bits}"
    return None


FAMILIES: Final[dict[str, Callable[[Record], Scheme]]] = {
    "plain": lambda _record: PLAIN,
    "fp8": _fp8,
    "int4": lambda record: _grouped(record, 4),
    "int8": _int8,
    "nvfp4": lambda _record: NVFP4,
    "mxfp4": lambda _record: MXFP4,
    "mxfp8": lambda _record: MXFP8,
    "nf4": lambda record: NF4_TWICE if record.get("double_quant") else NF4,
    "int8bnb": lambda _record: Scheme(name="INT8", bits=8, block=(1, 0), scale=4),
}


def scheme_of(record: Record | None) -> Scheme | None:
    """The scheme that a record of a quantization means; None: it is not known."""
    word = family(record)
    return FAMILIES[word](record or {}) if word in FAMILIES else None


# ------------------------------------------------------------------------------- by the matrix


@record(kw_only=True)
class Storage:
    """How the weights of one checkpoint are stored.

    `main` is for the matrices that nothing else is said of; None: not known. `parts` are classes
    stored otherwise, `skipped` the classes left in the model's own type, each with the number of
    layers in which it is (None: in all); of a class in `only`, just these matrices are skipped.
    `first_layers` are left alone whole.
    """

    main: Scheme | None
    plain: Scheme = PLAIN
    parts: Mapping[str, Scheme | None]
    skipped: Mapping[str, int | None]
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first_layers: int = 0

    def bytes(self, weight: Weight, part: Part, layers: tuple[int, ...], of: int) -> int | None:
        """Bytes of a weight in all of `layers`; `of`: layers of the model that have its class."""
        count = max(1, len(layers))
        plain = WIDE if weight.element == 4 else self.plain
        own = self.scheme(weight)
        first = self.first_layers
        left = sum(layer < first for layer in layers) if first else 0
        if self.skips(weight):
            some, others = self.skipped[weight.part], of - self.first_layers
            share = 1.0 if some is None or others <= 0 else min(1.0, some / others)
            left += round((count - left) * share) if layers else 1
        if weight.element and weight.element != 4:
            return part.outputs * part.inputs * part.count * weight.element * count
        if own is None and left < count:
            return None
        quantized = 0 if own is None else own.bytes(part) * (count - left)
        if own not in (None, self.plain, WIDE):
            quantized += int(part.unpacked * self.plain.bits / 8) * (count - left)
        return quantized + plain.bytes(part) * left

    def skips(self, weight: Weight) -> bool:
        only = self.only.get(weight.part)
        return weight.part in self.skipped and (only is None or weight.name in only)

    def scheme(self, weight: Weight) -> Scheme | None:
        """What the weight is stored in where it is not skipped."""
        if weight.part in NEVER - self.parts.keys() or weight.element or weight.inputs == 1:
            return WIDE if weight.element == 4 else self.plain
        if weight.part in self.parts:
            return self.parts[weight.part]
        return self.main


def storage(record: Record | None, plain: Scheme = PLAIN) -> Storage:
    """The storage of a checkpoint by its record; of one without a record nothing is known."""
    if not record:
        main = plain if record is not None else None
        return Storage(main=main, plain=plain, parts={}, skipped={})
    parts = {part: scheme_of(own) for part, own in (record.get("parts") or {}).items()}
    some = record.get("ignore_layers") or {}
    skipped = {name: some.get(name) for name in record.get("ignore", ())}
    first = skipped.pop("layer", None) or 0
    if record.get("expert_dtype") == "fp4" and "expert" not in parts:
        parts["expert"] = NVFP4 if record.get("group_size") == 16 else MXFP4
    if "attention" in skipped and "attention" not in (record.get("ignore_only") or {}):
        skipped.setdefault("indexer", skipped["attention"])  # it is a module of the attention
    main = scheme_of(record)
    if "gptq" in str(record.get("method")) and record.get("symmetric"):
        kept = scheme_of({**record, "symmetric": False})
        parts.setdefault("expert", kept and replace(kept, symmetric=True))
    if main is None and parts:
        main = plain  # each class that is not plain is named
    only = {of: tuple(names) for of, names in (record.get("ignore_only") or {}).items()}
    return Storage(
        main=main, plain=plain, parts=parts, skipped=skipped, only=only, first_layers=first
    )


# ------------------------------------------------------------------------------- by a word

NO_WORD: Final = frozenset({"", "auto", "none", "null", "default", "checkpoint"})
"""Words that leave the checkpoint as it is."""
CONTAINERS: Final = frozenset(
    {"modelopt", "compressed tensors", "quark", "torchao", "marlin", "triton", "quantized",
     "inc", "autoquant"}
)  # fmt: skip
"""Tools and formats that hold weights of more than one family: alone they name none."""
NVIDIA_FP4: Final = {"method": "modelopt", "quant_algo": "NVFP4", "bits": 4, "group_size": 16}
INTEGER: Final = {"method": "compressed-tensors", "type": "int"}

WORDS: Final[tuple[tuple[str, tuple[str, ...], Record], ...]] = (
    (r"bf16|bfloat16|[fb]p16|float16|half|16 ?bits?|fp32|float32|unquantized", ("plain",), {}),
    (r"nvfp4|modelopt fp4", ("nvfp4", "mixed"), NVIDIA_FP4),
    (r"modelopt mixed|mixed precision|mixed", ("mixed",), {}),
    (r"mxfp4", ("mxfp4",), {"method": "mxfp4", "bits": 4, "group_size": 32}),
    (r"mxfp8", ("mxfp8",),
     {"method": "modelopt", "quant_algo": "MXFP8", "bits": 8, "group_size": 32}),
    (r"fp4|float4|w4a4", ("nvfp4", "mxfp4", "mixed"), NVIDIA_FP4),
    (r"fp8 .*block.*|.*block fp8|fp8 128x128|deepgemm", ("fp8",),
     {"method": "fp8", "bits": 8, "weight_block_size": (128, 128)}),
    (r"fp8( .*)?|.* fp8|float8.*|ptpc fp8|fbgemm fp8|fp8 e4m3|fp8wo|float8wo", ("fp8",),
     {"method": "fp8", "bits": 8}),
    (r"(bitsandbytes|bnb).*(8 ?bits?|int8)|llm int8", ("int8bnb",),
     {"method": "bitsandbytes", "bits": 8}),
    (r"bitsandbytes (nf4|fp4)", ("nf4",),
     {"method": "bitsandbytes", "bits": 4, "double_quant": True}),
    (r"bitsandbytes.*|bnb.*|nf4|qlora", ("nf4",), {"method": "bitsandbytes", "bits": 4}),
    (r"w8a8.*|smoothquant|int8dq|int8 dynamic", ("int8",),
     {**INTEGER, "bits": 8, "activation_bits": 8}),
    (r"(gptq|auto ?round).*(8 ?bits?|int8).*", ("int8",),
     {"method": "gptq", "bits": 8, "group_size": 128}),
    (r"awq.*", ("int4",), {"method": "awq", "bits": 4, "group_size": 128}),
    (r"gptq.*", ("int4",), {"method": "gptq", "bits": 4, "group_size": 128}),
    (r"auto ?round.*", ("int4",), {"method": "auto-round", "bits": 4, "group_size": 128}),
    (r"w4a16.*|w4a8.*|int4.*|[ui]?int4|4 ?bits?", ("int4",),
     {**INTEGER, "bits": 4, "group_size": 128}),
    (r"w8a16.*|int8.*|8 ?bits?", ("int8",), {**INTEGER, "bits": 8}),
)  # fmt: skip
"""Patterns of a word, the families that it can mean, and the record where a checkpoint has none of
them. The first match decides; a whole text is tried before its single words."""


def record_of(word: str | None, own: Record | None) -> tuple[Record, str | None]:
    """The record of the weights that free text asks for, and what had to be assumed.

    `own` is what the checkpoint says of itself. It holds wherever the text does not clearly name
    another family: then it knows what stays in 16 bits, and the text does not.
    """
    text = _words(word)
    if text in NO_WORD:
        return _own(own)
    row = _row_of(text)
    if row is None:
        record, more = _own(own)
        named = "names no way of storing" if text in CONTAINERS else "is not known"
        said = f"quantization {_short(word)} {named}: the checkpoint's own is taken"
        return record, f"{said}; {more}" if more else said
    _, families, made = row
    if own is not None and set(families) & _families(own):
        return own, None
    if families == ("mixed",):
        record, more = _own(own)
        return record, more or f"quantization {_short(word)}: the checkpoint's own is taken"
    if families == ("plain",):
        asked = "16 bits are taken as asked, and the checkpoint's own record says otherwise"
        return {}, asked if own else None
    return made, f"all matrices that can be are taken to be stored as {_short(word)} says"


def names_storing(word: str) -> bool:
    """Whether free text names a way of storing weights, or leaves them as they are."""
    text = _words(word)
    return text in NO_WORD or _row_of(text) is not None


def _words(word: str | None) -> str:
    return " ".join(re.sub(r"[^a-z0-9]+", " ", (word or "").lower()).split())


def _own(own: Record | None) -> tuple[Record, str | None]:
    if own is not None:
        return own, None
    return {}, "how the weights are stored is not known: 16 bits are taken"


def _row_of(text: str) -> tuple[str, tuple[str, ...], Record] | None:
    """The row that the whole text means, else the first row that one of its words means."""
    for row in WORDS:
        if re.fullmatch(row[0], text):
            return row
    words = text.split()
    return next((row for row in WORDS if any(re.fullmatch(row[0], word) for word in words)), None)


def _families(record: Record) -> set[str]:
    """Every family that is in a checkpoint."""
    found = {family(record), *(family(part) for part in (record.get("parts") or {}).values())}
    if record.get("expert_dtype") == "fp4":
        found |= {"nvfp4" if record.get("group_size") == 16 else "mxfp4", "fp8"}
    if record.get("quant_algo") == "MIXED_PRECISION":
        found.add("mixed")
    return {word for word in found if word is not None}


def _short(word: str | None) -> str:
    return repr(word if word is None or len(word) <= 40 else f"{word[:39]}…")
