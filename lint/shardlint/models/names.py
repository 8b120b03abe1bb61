"""What the name of a checkpoint says of the model that it was made from. Guesses, never facts.

The name of the base must be there whole, sizes and variants included; around it only words for
ways of storing weights may stand, or behind it a few words of a fine-tune.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

STORED: Final = re.compile(
    r"[-_.](?:quantized|awq|gptq|autoround|auto[-_]round|smoothquant|marlin|hqq|exl[23]|mlx|gguf|ggml|"
    r"imatrix|i1|ud|bnb|unsloth|torchao|compressed[-_]tensors|modelopt|quark|ptpc|"
    r"(?:u?int|fp|bf|nvfp|mxfp|nf)[48](?:a16)?|[fb]f?p?(?:16|32)|[48][-_]?bits?|w(?:4|8)a(?:4|8|16)(?:[-_]fp8)?|"
    r"g(?:32|64|128)|gs?(?:32|64|128)|dynamic|static|block|channelwise|tensorwise|per[-_]tensor|"
    r"kv|sym|asym|optimized|i?q[1-8](?:_(?:k|0|1|xxs|xs|nl|s|m|l|xl))*)$",
    re.IGNORECASE,
)
"""A word at the end that says how the weights are stored, or who packed them so."""

SIZE: Final = re.compile(r"(?<![a-z0-9])(?:\d+x)?\d+(?:\.\d+)?[bm](?![a-z])", re.IGNORECASE)
"""A number of parameters, such as 8B, 0.5b or 8x7B."""

OTHER_SHAPE: Final = re.compile(
    r"distil|draft|eagle|medusa|specul|mtp|prun|sparse|2of4|merge|moe|lora|adapter|upscal|expand|"
    r"frank|stack|half|small|slim|tiny|mini|nano|lite|flash|air|max|plus|pro|turbo|super|ultra|"
    r"omni|vl|vision|visual|audio|video|image|speech|ocr|embed|rerank|reward|layer|depth|width|"
    r"reap|pass|base64|mamba|linear|next|exp|thinker|long|"
    r"qwen|llama|gemma|mistral|phi|deepseek|glm|kimi|gpt|falcon|nemotron|mixtral|yi|internlm",
    re.IGNORECASE,
)
"""Words of a name that mean another shape, or that another model had a part in it."""
MOST_WORDS: Final = 4


POOLS: Final = re.compile(
    r"(?<![a-z0-9])(embed|embeddings?|reranker?|bge|gte|e5)(?![a-z0-9])", re.IGNORECASE
)
"""Words of models that give vectors or scores, whose architecture may be that of a generator."""


def pools(id: str) -> bool:
    """By its name, the model samples no tokens."""
    return POOLS.search(last_part(id)) is not None


SPEAKS_NOT: Final = re.compile(
    r"whisper|reward|parakeet|minilm|mpnet|[a-z]*bert(?![a-z])|(?<![a-z0-9])(asr|tts|stt)(?![a-z0-9])",
    re.IGNORECASE,
)
"""Words of models of speech, scores and vectors."""


def converses(id: str) -> bool:
    """By its name, the model may go on with a text; others have no turns of a conversation."""
    return not pools(id) and SPEAKS_NOT.search(last_part(id)) is None


def last_part(id: str) -> str:
    """The name of a checkpoint without its owner, in lower case."""
    return id.rstrip("/").rsplit("/", 1)[-1].lower()


def stripped(name: str) -> Iterator[str]:
    """The name, and the same with one word after the other taken off that tells of storage."""
    yield name
    while (shorter := STORED.sub("", name)) != name and shorter:
        name = shorter
        yield name


def is_packed(name: str) -> bool:
    """The name says how the weights are stored."""
    return len(list(stripped(name))) > 1


def is_fine_tune(name: str, base: str) -> bool:
    """The name goes on behind that of a base, with words that leave the shape as it is."""
    if not name.startswith((f"{base}-", f"{base}_")) or not SIZE.search(base):
        return False
    rest = name[len(base) :]
    words = [word for word in re.split("[-_.]", rest) if word]
    return (
        0 < len(words) <= MOST_WORDS
        and not SIZE.search(rest)
        and not any(OTHER_SHAPE.match(word) for word in words)
    )


VARIANTS: Final = re.compile(
    r"instruct|chat|it|hf|base|thinking|preview|text|v\d(\.\d)?|\d{4}", re.IGNORECASE
)
"""Words behind the name of a family and a size, of models that have one shape."""


def is_variant(name: str, family: str) -> bool:
    """The name goes on behind that of a family with words for a way of training, or a date."""
    if not name.startswith(f"{family}-"):
        return False
    words = name[len(family) + 1 :].split("-")
    return all(VARIANTS.fullmatch(word) for word in words)


def without_remarks(name: str) -> str:
    """What stands before a bracket or a space: "Qwen2.5-7B (AWQ)" is Qwen2.5-7B."""
    return re.split(r"[\s(\[]", name.strip(), maxsplit=1)[0]


# ---------------------------------------------------------------------------------- quantization

FOUR, EIGHT = {"bits": 4}, {"bits": 8}
SCHEMES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (r"nvfp4a16", {"method": "compressed-tensors", "type": "float", "bits": 4, "group_size": 16}),
    (r"nvfp4|fp4", {"method": "modelopt", "quant_algo": "NVFP4", "bits": 4, "group_size": 16}),
    (r"mxfp4", {"method": "mxfp4", "bits": 4, "group_size": 32}),
    (r"mxfp8", {"method": "modelopt", "quant_algo": "MXFP8", "bits": 8, "group_size": 32}),
    (r"awq", {"method": "awq", "bits": 4, "group_size": 128}),
    (r"(?:gptq|auto[-_]?round).*(?:8[-_]?bits?|int8)", {"method": "gptq", **EIGHT}),
    (r"gptq|auto[-_]?round", {"method": "gptq", **FOUR}),
    (r"w4a16", {"method": "compressed-tensors", "type": "int", **FOUR}),
    (r"w8a16", {"method": "compressed-tensors", "type": "int", **EIGHT}),
    (r"w8a8", {"method": "compressed-tensors", "type": "int", **EIGHT, "activation_bits": 8}),
    (r"bnb[-_]8[-_]?bits?|8[-_]?bits?[-_]bnb", {"method": "bitsandbytes", **EIGHT}),
    (r"bnb", {"method": "bitsandbytes", **FOUR}),
    (r"fp8", {"method": "fp8", **EIGHT}),
    (r"i?q([1-8])(?:_[a-z0-9]+)*", {"method": "gguf"}),
    (r"gguf", {"method": "gguf"}),
    (r"int4|4[-_]?bits?", {"method": "unknown", **FOUR}),
    (r"int8|8[-_]?bits?", {"method": "unknown", **EIGHT}),
    (r"bf16|fp16|f16|bfloat16|float16", {}),
)
"""Words of a name and the scheme that they mean; the first match decides. An empty one means
weights of 16 bits, which some make of a base that is published with fewer."""


def quantization_of(id: str) -> Mapping[str, Any] | None:
    """How the weights seem to be stored; None if the name does not say."""
    name = last_part(id)
    *_, shortest = stripped(name)
    words = name[len(shortest) :]
    for pattern, scheme in SCHEMES:
        found = re.search(rf"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])", words)
        if found is None:
            continue
        bits = {"bits": int(found.group(1))} if found.groups() and found.group(1) else {}
        return {**scheme, **bits}
    return None
