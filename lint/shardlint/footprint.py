"""What one rank holds in memory: the terms in which engines and `sizing` speak of it.

Engines give `MemoryRules`: what their share of memory means, their defaults, how they cut weights,
how they lay out the KV cache, what they need beside both. `sizing` adds up; it names no engine.
All sizes are bytes of one GPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol, TypeAlias

from shardlint.matrices import Place, Weight
from shardlint.plan import Device, Layout, ModelFacts, Ranks
from shardlint.record import record

ShareOf: TypeAlias = Literal["total", "free_before_load", "free_after_load"]
CacheKind: TypeAlias = Literal["full", "window", "chunked", "state"]


@record(kw_only=True)
class Settings:
    """What decides memory beside model and layout; None (or 0) where it is not stated.

    `share` is what may be used, from 0 to 1, in the engine's terms; `kv_bytes` a KV cache of that
    size instead. `draft_tokens` are the tokens drafted per step, `draft` the method ("mtp",
    "eagle", ...). `offload` are bytes of weights kept in host memory per GPU; `whole_tower`: the
    vision tower is not cut; `skip_tower`: it takes no part in the run that memory is measured in;
    `max_pixels`: those of the largest image; `pooling`: no tokens are sampled. `capture_sizes` are
    the batch sizes of CUDA graphs, if stated. `compute_capability` is the card's: kernels, and with
    them the layout of weights, depend on it.
    """

    share: float | None = None
    kv_bytes: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    block_size: int | None = None
    enforce_eager: bool | None = None
    prefix_caching: bool | None = None
    chunked_prefill: bool | None = None
    draft: str | None = None
    draft_tokens: int = 0
    offload: int = 0
    max_loras: int = 0
    max_lora_rank: int = 0
    whole_tower: bool | None = None
    compute_capability: str | None = None
    text_only: bool | None = None
    skip_tower: bool | None = None
    max_pixels: int | None = None
    pooling: bool | None = None
    capture_sizes: tuple[int, ...] | None = None
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Variables of the engine, and options that only it has, by name."""


@record(kw_only=True)
class CacheGroup:
    """Layers whose blocks are handed out together.

    A request of L tokens takes `fixed` blocks, or ceil(min(L, limit) / (block × context)) + extra.
    """

    kind: CacheKind
    layers: int
    block: int
    """Tokens of one block on one rank."""
    context: int = 1
    """Ranks over which the tokens of one request are spread (decode context parallelism)."""
    limit: int | None = None
    extra: int = 0
    fixed: int | None = None

    def blocks(self, tokens: int) -> int:
        if self.fixed is not None:
            return self.fixed
        kept = tokens if self.limit is None else min(tokens, self.limit)
        return -(-kept // (self.block * self.context)) + self.extra


@record(kw_only=True)
class Cache:
    """The KV cache of one rank: a pool of equal blocks that all groups draw from.

    `bytes_per_token` is what one more token costs in the layers that keep every token.
    `spare` blocks are held back. `line` says how the engine's log counts tokens: "concurrency":
    concurrency × longest request; "blocks": blocks ÷ groups × the smallest block.
    """

    bytes_per_block: int
    bytes_per_token: float
    groups: tuple[CacheGroup, ...]
    spare: int = 0
    line: Literal["concurrency", "blocks"] = "concurrency"

    def blocks(self, tokens: int) -> int:
        """Blocks that one request of that many tokens takes."""
        return sum(group.blocks(tokens) for group in self.groups)

    def need(self, tokens: int) -> int:
        """Bytes that one request of that many tokens takes."""
        return self.blocks(tokens) * self.bytes_per_block

    def pool(self, bytes: int) -> int:
        """Blocks in so many bytes."""
        return max(0, bytes // max(1, self.bytes_per_block))

    def concurrency(self, bytes: int, tokens: int) -> float:
        """Requests of that many tokens that so many bytes hold, as the engine prints it."""
        return self.pool(bytes) / self.blocks(tokens)

    def tokens(self, bytes: int, longest: int) -> int:
        """Tokens as the engine's log counts them, where requests may have `longest` tokens."""
        if self.line == "concurrency":
            return int(self.concurrency(bytes, longest) * longest)
        smallest = min(group.block * group.context for group in self.groups)
        return self.pool(bytes) // len(self.groups) * smallest

    def longest(self, bytes: int, most: int = 1 << 31) -> int:
        """The longest request, in tokens, that so many bytes hold; 0: none."""
        room = self.pool(bytes) - self.spare
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.blocks(middle) <= room else (low, middle - 1)
        return low


@record
class Part:
    """What one rank holds of a weight: `count` matrices of `outputs` × `inputs`.

    `block` is the size of the blocks that share a scale where the engine chooses another one than
    the checkpoint has. `unpacked` elements in the type of the model are added behind loading where
    the weight is quantized.
    """

    outputs: int
    inputs: int
    count: int = 1
    block: tuple[int, int] | None = None
    unpacked: int = 0


@record(kw_only=True)
class Beside:
    """What a rank needs beside weights and KV cache, in bytes.

    `context`: the driver and its libraries; `collectives`: NCCL and all-reduce buffers;
    `activations`: the peak while a full batch runs; `graphs`: CUDA graphs; `loaded`: buffers that
    are made with the model, which the engine's log counts as weights; `rest`: what is none of
    these. `graphs_outside`: graphs are captured after the KV cache was sized, out of what the share
    leaves free; `activations_outside`: activations, too. `doubtful`: so much of all that may not be
    needed, since the engine can do with less in a way that cannot be ruled out. `counts_others`:
    what other processes hold of the card is taken off the share. `checks_free`: the engine does not
    start where less than its share is free. `cuts_requests`: it starts although the cache does not
    hold one request of the longest length, and refuses those that are too long. `assumes`: what is
    not modelled, for people.
    """

    context: int = 0
    collectives: int = 0
    activations: int = 0
    graphs: int = 0
    loaded: int = 0
    rest: int = 0
    graphs_outside: bool = False
    activations_outside: bool = False
    doubtful: int = 0
    counts_others: bool = False
    checks_free: bool = False
    cuts_requests: bool = False
    assumes: tuple[str, ...] = ()

    @property
    def before_load(self) -> int:
        """What is taken before the first weight is loaded."""
        return self.context + self.collectives


@record(kw_only=True)
class Weights:
    """Bytes of the weights of one rank by part; `unknown` are parts whose storage is not known."""

    parts: Mapping[str, int]
    unknown: frozenset[str] = frozenset()
    stage: int = 0

    @property
    def bytes(self) -> int:
        return sum(self.parts.values())


@record(kw_only=True)
class Footprint:
    """What one GPU holds, in bytes.

    `total` is the card's memory, `budget` what the engine may use of it; `kv` is what is left of
    that for the KV cache, below zero where nothing is. `offloaded` bytes of the weights are kept in
    host memory. `loading` are the bytes of weights that are held while they are loaded, where those
    are more than what remains. `cache` is None where the layers of the model are not known.
    """

    total: int
    budget: int
    weights: Weights
    beside: Beside
    kv: int
    cache: Cache | None
    settings: Settings
    offloaded: int = 0
    loading: int = 0
    assumes: tuple[str, ...] = ()

    @property
    def held(self) -> int:
        """Bytes of weights on the card once they are loaded."""
        return self.weights.bytes - self.offloaded

    @property
    def at_load(self) -> int:
        """The most bytes of weights that are on the card at the same time."""
        return max(self.held, self.loading - self.offloaded)

    @property
    def needed(self) -> int:
        """Bytes before the first token is kept."""
        return sum(self.parts.values())

    @property
    def parts(self) -> Mapping[str, int]:
        """What is needed before the first token is kept, by name."""
        beside = self.beside
        return {
            "weights": self.held,
            "context": beside.context,
            "collectives": beside.collectives,
            "activations": 0 if beside.activations_outside else beside.activations,
            "graphs": 0 if beside.graphs_outside else beside.graphs,
            "rest": beside.loaded + beside.rest,
        }

    @property
    def tokens(self) -> int | None:
        """Tokens that the KV cache holds, as the engine's log counts them."""
        longest = self.settings.max_model_len
        if self.cache is None or longest is None:
            return None
        return self.cache.tokens(max(0, self.kv), longest)

    @property
    def concurrency(self) -> float | None:
        """Requests of the longest length that fit at the same time."""
        longest = self.settings.max_model_len
        if self.cache is None or longest is None:
            return None
        return self.cache.concurrency(max(0, self.kv), longest)

    @property
    def need(self) -> int | None:
        """Bytes of KV cache that one request of the longest length takes."""
        longest = self.settings.max_model_len
        if self.cache is None or longest is None:
            return None
        return self.cache.need(longest) + self.cache.spare * self.cache.bytes_per_block

    @property
    def breakdown(self) -> Mapping[str, int]:
        """Parts that add up to `total`; what the share leaves to others is "unused"."""
        beside = self.beside
        used = {
            "weights": self.held,
            "context": beside.context,
            "collectives": beside.collectives,
            "activations": beside.activations,
            "graphs": beside.graphs,
            "rest": beside.loaded + beside.rest,
            "kv_cache": max(0, self.kv),
        }
        return {**used, "unused": self.total - sum(used.values())}


@record(kw_only=True)
class Band:
    """Bytes by which the memory left for the KV cache may be smaller or larger than estimated.

    `weights` is the relative error of the weights alone; `rows` the logs that it rests on.
    """

    FEW: ClassVar[int] = 8
    """Logs below which a class takes the widest band."""

    kind: str
    rows: int
    weights: float
    below: int
    above: int

    @property
    def few(self) -> bool:
        return self.rows < self.FEW


@record(kw_only=True)
class Sized:
    """The memory of one GPU for one release and card, with how far the estimate may be off.

    `made` is the estimate; `generous` the same on the largest card that the name can mean, without
    what is doubtful.
    """

    release: str
    made: Footprint
    generous: Footprint
    band: Band


class MemoryRules(Protocol):
    """How one release of an engine uses memory.

    Releases with equal `key` do it alike, those with equal `cuts` hold the same weights. `adapted`
    are the parts of a model whose matrices have room for adapters (LoRA). `loads_whole`: weights
    that it is asked to quantize itself are all loaded first as the checkpoint has them.
    """

    share_of: ShareOf
    key: Hashable
    cuts: Hashable
    adapted: frozenset[str]
    loads_whole: bool

    def serves(self, model: ModelFacts) -> bool:
        """Whether the release knows the class of the model; True where that was not read."""
        ...

    def settled(
        self, asked: Settings, model: ModelFacts, layout: Layout, device: Device | None
    ) -> Settings:
        """The settings with the engine's defaults; what stays None is not known."""
        ...

    def stages(self, layers: int, layout: Layout) -> tuple[range, ...]:
        """The layers of each pipeline stage."""
        ...

    def everywhere(self, model: ModelFacts) -> frozenset[Place]:
        """Places whose weights each pipeline stage holds, though one of them alone needs them."""
        ...

    def part(self, weight: Weight, model: ModelFacts, ranks: Ranks, settings: Settings) -> Part:
        """A weight as the fullest rank holds it."""
        ...

    def cache(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Cache | None:
        """The KV cache of the fullest rank; None where the layers of the model are not known."""
        ...

    def beside(
        self,
        model: ModelFacts,
        ranks: Ranks,
        layout: Layout,
        settings: Settings,
        device: Device | None,
    ) -> Beside: ...
