"""What decides the size of vLLM's KV cache, release by release: data and what it takes to read it.

Read in the packages from 0.6.0 to 0.33.0: worker/cache_engine.py (V0), v1/kv_cache_interface.py,
v1/core/kv_cache_utils.py and kv_cache_planning.py, models/config.py, platforms/interface.py,
platforms/cuda.py, layers/attention, layers/mamba. A cut that lies between two packages that were
read is put at the later one.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final, Literal

from shardlint.footprint import Settings
from shardlint.plan import Device, KvGroup, ModelFacts
from shardlint.record import record

PLAIN_BLOCK: Final = 16
KERNEL_BLOCK: Final = 16
"""The smallest block of most attention kernels, in tokens."""
SIXTEEN_BITS: Final = 2
ALIGNED_ROW: Final = 256
"""V0, worker/cache_engine.py: bytes that a row of a latent cache is filled up to."""

Version = tuple[int, ...]
Element = Literal["plain", "byte", "nvfp4", "token_head", "half_token_head", "ds", "nvfp4_ds"]


@lru_cache(maxsize=512)
def number(release: str) -> Version:
    """The digits of a release, to compare with: "0.8.5.post1" is (0, 8, 5)."""
    return tuple(int(part) for part in re.findall(r"\d+", release)[:3])


@record(kw_only=True)
class Rules:
    """How one release lays out the cache.

    `managed`: layers that keep less than every token have blocks of their own (the hybrid KV cache
    manager); `chunked` is the same for chunks. `evened` is the ratio of the counts of two kinds up
    to which the larger one is the size of a group. `in_flight`: tokens of all batches under way
    count beside a window, not those of one batch. `v2_runner` needs one batch more than stages.
    `concurrency_line` says how tokens are printed. `state_pages`: states live in the pool.
    `spare_block`: the test of the longest request leaves one block out.
    """

    v1: bool
    managed: bool
    chunked: bool
    evened: float
    in_flight: bool
    v2_runner: bool
    concurrency_line: bool
    spare_block: bool
    state_pages: bool
    state_modes: bool
    """A state has blocks for drafts and, with prefix caching, a copy."""
    prefix_caching: bool
    """On for hybrids where nobody says anything."""
    every_block: bool
    """Some classes keep a state for every block when prefixes are cached."""
    every_block_and_drafts: bool
    checkpoints: frozenset[str]
    """Kinds of states with one block more for a checkpoint inside of a prefill."""
    draft_columns: frozenset[str]
    """Kinds of states whose convolution keeps a column for each draft."""
    block_from_backend: bool
    """The block of a hybrid starts from that of the attention backend."""
    latent_alignment: int
    """Blocks of latent attention beside states are multiples of this."""
    latent: bool
    """Latent attention keeps a latent cache."""
    aligned_rows: bool
    checkpoint_dtype: bool
    """The type of the cache may come from a ModelOpt checkpoint."""
    scheme_dtype: bool
    """The same for the scheme of compressed-tensors."""
    sparse_auto: bool
    """Sparse latent attention takes its packed type without being asked."""
    packed: bool
    """Pages of different sizes stand side by side in a block (DeepSeek-V4)."""


LATENT_SINCE: Final = "0.7.0"
SINCE: Final[dict[str, str]] = {
    "v1": "0.8.0",
    "managed": "0.9.1",
    "in_flight": "0.26.0",
    "v2_runner": "0.29.0",
    "spare_block": "0.29.0",
    "concurrency_line": "0.20.2",
    "state_pages": "0.10.0",
    "state_modes": "0.15.0",
    "prefix_caching": "0.26.0",
    "block_from_backend": "0.20.0",
    "latent": LATENT_SINCE,
    "checkpoint_dtype": "0.14.0",
    "scheme_dtype": "0.15.0",
    "packed": "0.24.0",
    "every_block_and_drafts": "0.22.0",
}
SPANS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "chunked": (("0.10.0", "0.10.2"), ("0.14.0", "999")),
    "every_block": (("0.11.2", "0.32.0"),),
    "aligned_rows": (("0.7.1", "0.8.0"),),
    "sparse_auto": (("0.11.0", "0.11.2"),),
}
"""From the first (included) to the second (excluded)."""
EVENED: Final = (("0.18.0", 1.5), ("0.12.0", 1.25), ("0", 1.0))
LATENT_ALIGNMENT: Final = (("0.27.0", 128), ("0.20.0", 1), ("0.11.2", 64), ("0", 16))
CHECKPOINTS: Final = (
    ("0.33.0", ("mamba2", "delta", "kda")),
    ("0.32.0", ("mamba2", "kda")),
    ("0.29.0", ("kda",)),
    ("0", ()),
)
DRAFT_COLUMNS: Final = (
    ("0.29.0", ("mamba2", "delta", "kda", "conv")),
    ("0.17.0", ("mamba2", "delta", "kda")),
    ("0.11.2", ("delta", "kda")),
    ("0.10.2", ("delta",)),
    ("0", ()),
)
EVERY_BLOCK: Final = ("mamba", "mamba2")
"""Kinds whose classes declared SupportsMambaPrefixCaching (Bamba, Nemotron-H, Jamba, ...)."""


def _of(table: tuple[tuple[str, object], ...], release: Version) -> object:
    return next(value for since, value in table if release >= number(since))


@cache
def rules(release: str) -> Rules:
    this = number(release)
    flags = {name: this >= number(since) for name, since in SINCE.items()}
    for name, spans in SPANS.items():
        flags[name] = any(number(a) <= this < number(b) for a, b in spans)
    evened, alignment = _of(EVENED, this), _of(LATENT_ALIGNMENT, this)
    checkpoints, columns = _of(CHECKPOINTS, this), _of(DRAFT_COLUMNS, this)
    assert isinstance(evened, float) and isinstance(alignment, int)
    assert isinstance(checkpoints, tuple) and isinstance(columns, tuple)
    return Rules(
        **flags, evened=evened, latent_alignment=alignment, checkpoints=frozenset(checkpoints),
        draft_columns=frozenset(columns),
    )  # fmt: skip


# ------------------------------------------------------------------------------------- devices


def capability(device: Device | None) -> tuple[int, int] | None:
    """Compute capability of an NVIDIA device."""
    found = re.match(r"(\d+)\.(\d+)", (device and device.compute_capability) or "")
    return (int(found.group(1)), int(found.group(2))) if found else None


GDN_CHECKPOINT: Final = 64
"""v1/attention/backends/gdn_attn.py, FLASHINFER_GDN_CHECKPOINT_ALIGNMENT, in tokens."""
OTHER_VENDORS: Final = ("amd", "intel", "google")
FLASHINFER_GDN: Final = (9, 10, 12)
"""Major compute capabilities with FlashInfer's prefill of gated delta nets."""


def exports_checkpoints(kind: str, model: ModelFacts, device: Device | None) -> bool:
    """Whether the kernel of a state hands out states inside of a prefill (0.33.0).

    Mamba-2 always; gated delta nets with FlashInfer's kernel, which is the one of Hopper and, for
    keys 128 wide, of Blackwell; KDA with FlashKDA, which only the class of Kimi K3 takes.
    A device that is not known counts as one of these.
    """
    major = (capability(device) or (9, 0))[0]
    nvidia = device is None or device.vendor not in OTHER_VENDORS
    if kind == "delta":
        wide = major == 9 or model.linear_key_head_dim in (None, 128)
        return nvidia and major in FLASHINFER_GDN and wide
    if kind == "kda":
        return nvidia and major in FLASHINFER_GDN and (model.model_type or "").startswith("kimi_k3")
    return True


WIDE_KERNEL_SPAN: Final = ("0.11.2", "0.18.0")
"""models/config.py: FlashInfer on Blackwell took 32 tokens for heads 256 wide."""


def kernel_block(model: ModelFacts, release: str, device: Device | None) -> int:
    """The smallest block of the attention kernel, in tokens."""
    since, until = map(number, WIDE_KERNEL_SPAN)
    blackwell = (capability(device) or (9, 0))[0] == 10
    wide = blackwell and model.head_dim == 256 and since <= number(release) < until
    return 2 * KERNEL_BLOCK if wide else KERNEL_BLOCK


LATENT_BLOCKS: Final[tuple[tuple[str, dict[int, int]], ...]] = (
    ("0.18.0", {10: 32}),
    ("0.10.0", {9: 64, 10: 128}),
    ("0.8.0", {9: 64}),
    ("0", {}),
)
"""Block size of latent attention by major compute capability: FlashMLA 64, CUTLASS 128, then
FlashInfer 32 on Blackwell and FlashAttention's 16 on Hopper."""
LATENT_BYTE_BLOCKS: Final = {9: 64}
"""Of a cache in FP8: Hopper's FlashAttention does not take it, FlashMLA does."""
SPARSE_BLOCK: Final = 64
"""v1/attention/backends/mla/indexer.py."""
SPARSE_GROUPED_BLOCK: Final = 128
"""models/minimax_m3/common/indexer.py."""


def first_block(
    groups: tuple[KvGroup, ...], asked: int | None, release: str, device: Device | None,
    stored: Element,
) -> int:  # fmt: skip  # fmt: skip
    """Tokens of one block before other kinds of layers are looked at."""
    if any(group.ratio > 1 for group in groups):
        return 256
    if any(group.index for group in groups):
        least = SPARSE_BLOCK if groups[0].shared else SPARSE_GROUPED_BLOCK
        return -(-asked // least) * least if asked else least
    if asked:
        return asked
    if groups and groups[0].shared:
        blocks = _of(LATENT_BLOCKS, number(release))
        assert isinstance(blocks, dict)
        major = (capability(device) or (9, 0))[0]
        more = LATENT_BYTE_BLOCKS if stored == "byte" and rules(release).v1 else {}
        return int({**more, **blocks}.get(major, PLAIN_BLOCK))
    return PLAIN_BLOCK


# ------------------------------------------------------------------------------- element types

NAMES: Final[tuple[tuple[str, Element], ...]] = (
    ("fp8_ds_mla", "ds"),
    ("nvfp4_ds_mla", "nvfp4_ds"),
    ("nvfp4", "nvfp4"),
    ("int4_per_token_head", "half_token_head"),
    ("int8_per_token_head", "token_head"),
    ("fp8_per_token_head", "token_head"),
    ("fp8", "byte"),
    ("int8", "byte"),
    ("auto", "plain"),
    ("bfloat16", "plain"),
    ("float16", "plain"),
    ("half", "plain"),
)
"""What a type of the cache begins with, and how it stores an element."""
DECLARED: Final = {"FP8": "fp8", "NVFP4": "nvfp4"}
SPARSE_FP8_AS_IT_IS: Final = "0.18.0"
"""From here on FlashInfer's sparse kernel of data-centre Blackwell reads plain FP8."""
SPARSE_SM120: Final = "0.24.0"
GLM_FP8: Final = "0.32.0"
TOKEN_HEAD_SCALES: Final = 8
"""A float32 for K and one for V."""
PACKED_LATENT: Final = {"ds": 656, "nvfp4_ds": 352}
"""Bytes of one token: 512 elements in FP8 or FP4 with scales, 64 in 16 bits."""


def element(
    model: ModelFacts, settings: Settings, release: str, device: Device | None
) -> Element | None:
    """How the cache stores elements; None: not known here."""
    found = rules(release)
    name = (settings.kv_cache_dtype or "auto").lower()
    if name == "auto":
        name = _declared(model, found) or name
    sparse = any(group.index and group.shared for group in model.kv_groups)
    if sparse:
        name = _sparse(name, model, release, device)
    return next((kind for start, kind in NAMES if name.startswith(start)), None)


def _declared(model: ModelFacts, found: Rules) -> str | None:
    """utils/torch_utils.py, resolve_kv_cache_dtype_string; layers/attention/attention.py."""
    quantization = model.quantization or {}
    method = str(quantization.get("method", ""))
    named = DECLARED.get(str(quantization.get("kv_cache_quant_algo", "")).upper())
    if method.startswith("modelopt"):
        read = quantization.get("beside") != "unnamed"
        return named if found.checkpoint_dtype and read else None
    return named if found.scheme_dtype and method == "compressed-tensors" else None


def _sparse(name: str, model: ModelFacts, release: str, device: Device | None) -> str:
    """Sparse latent attention: models/config.py, then layers/attention/mla_attention.py."""
    major, this = (capability(device) or (9, 0))[0], number(release)
    if name == "bfloat16":
        return "auto"
    if name == "auto" and rules(release).sparse_auto:
        return "fp8_ds_mla"
    if name == "auto" and major == 10 and (model.model_type or "") == "glm_moe_dsa":
        name = "fp8" if this >= number(GLM_FP8) else name
    if major == 12 and this >= number(SPARSE_SM120) and name in ("auto", "fp8", "fp8_e4m3"):
        return "fp8_ds_mla"
    plain = major == 10 and this >= number(SPARSE_FP8_AS_IT_IS)
    return "fp8_ds_mla" if name.startswith("fp8") and not plain else name


def sixteen_bits(settings: Settings) -> int:
    """Bytes of one element of the model's own type; float32 checkpoints run in 16 bits."""
    return 4 if settings.dtype in ("float32", "float") else SIXTEEN_BITS


PACKED: Final[dict[Element, tuple[int, int]]] = {
    "byte": (16, 0),
    "nvfp4": (9, 0),
    "token_head": (16, TOKEN_HEAD_SCALES),
    "half_token_head": (8, TOKEN_HEAD_SCALES),
}
"""Sixteenths of a byte for one element, and bytes of scales for one head."""


def bytes_of_token(group: KvGroup, tp: int, kind: Element, plain: int, aligned: bool) -> int:
    """What one token costs in one layer of one rank."""
    elements = group.bytes_per_head // SIXTEEN_BITS
    heads = 1 if group.shared else max(1, group.heads // tp)
    if kind in PACKED_LATENT:
        return PACKED_LATENT[kind] if group.shared else heads * elements
    if kind == "plain":
        row = heads * elements * plain
        return -(-row // ALIGNED_ROW) * ALIGNED_ROW if aligned and group.shared else row
    sixteenths, scales = PACKED[kind]
    return heads * (elements * sixteenths // 16 + scales)


def bytes_of_key(group: KvGroup) -> int:
    """What one token costs in the indexer of one layer: FP8 with a scale for 128, or 16 bits."""
    if group.shared:
        return group.index + 4 * max(1, group.index // 128)
    return group.index * SIXTEEN_BITS
