"""How wide vLLM's kernels want the experts of MXFP4 to be, by release and card.

Read in layers/quantization/mxfp4.py (0.10.1 to 0.19) and layers/fused_moe/oracle/mxfp4.py (0.20 to
0.33): which kernel is taken where nobody asks for one, and what it rounds up to. Triton's layout of
values on Hopper fills up 32 bytes of inputs (triton_kernels, layout_details/hopper_value.py), which
what is registered has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shardlint.engines.vllm_cache_rules import Version, number
from shardlint.record import record


@record
class Kernel:
    """What the width of an expert and the hidden size are rounded up to, in elements."""

    width: int
    hidden: int = 1


REGISTERED: Final = Kernel(64)
"""What parameters are made for where no kernel asks for more."""
TRITON: Final = Kernel(64)
MARLIN: Final = Kernel(128, 256)
TRTLLM: Final = Kernel(256, 256)
NARROW_TRTLLM: Final = Kernel(128, 256)
ROCM: Final = Kernel(256, 256)

OTHERS: Final = "others"
"""Models beside gpt-oss, which have a choice of their own since 0.20.0."""


@record
class Row:
    """From `since` on, cards from `least` to below `below`; `only` gpt-oss, or the others."""

    since: Version
    least: Version
    below: Version
    kernel: Kernel
    only: str = ""


ROWS: Final = (
    Row((0, 27, 0), (10, 0), (11, 0), NARROW_TRTLLM),
    Row((0, 10, 1), (10, 0), (11, 0), TRTLLM),
    Row((0, 20, 0), (9, 0), (10, 0), MARLIN, OTHERS),
    Row((0, 10, 1), (9, 0), (10, 0), TRITON),
    Row((0, 13, 0), (11, 0), (99, 0), MARLIN),
    Row((0, 10, 1), (11, 0), (99, 0), REGISTERED),
    Row((0, 10, 1), (0, 0), (9, 0), MARLIN),
)
"""The first row that holds decides."""


def alike(release: str) -> tuple[bool, ...]:
    """Releases with equal answers choose alike."""
    known = number(release)
    return tuple(row.since <= known for row in ROWS)


def mxfp4(release: str, capability: str | None, gpt_oss: bool) -> Kernel:
    """The kernel for experts; without a card nothing is rounded but what always is."""
    if capability is None:
        return REGISTERED
    if not capability[:1].isdigit():
        return ROCM
    known, card = number(release), number(capability)
    for row in ROWS:
        held = row.since <= known and row.least <= card < row.below
        if held and not (row.only == OTHERS and gpt_oss):
            return row.kernel
    return REGISTERED


def is_mxfp4(quantization: Mapping[str, Any]) -> bool:
    """Whether the experts of a model are stored as MXFP4."""
    own: Any = (quantization.get("parts") or {}).get("expert")
    if own is not None:
        return str(own.get("quant_algo")) == "MXFP4"
    named = [str(quantization.get(key)) for key in ("method", "format", "expert_dtype")]
    return named[0] == "mxfp4" or named[1].startswith("mxfp4") or named[2] == "fp4"
