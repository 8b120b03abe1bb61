"""What a vLLM command line says of memory, in the terms that all engines share.

Read in vllm 0.33.0: config/speculative.py, config/multimodal.py, config/compilation.py,
config/vllm.py, config/lora.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from shardlint.engines import flags
from shardlint.engines.flags import ParsedWords
from shardlint.known import Known, combine
from shardlint.plan import KvBudget, Memory

GIB: Final = 2**30
MOST_GIB: Final = 1 << 20
DEFAULT_LORAS: Final = 1
DEFAULT_LORA_RANK: Final = 16
VARIABLES: Final = (
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "VLLM_USE_V1",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_MLA_DISABLE",
    "VLLM_ALLREDUCE_USE_SYMM_MEM",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    "VLLM_ALL2ALL_BACKEND",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_USE_V2_MODEL_RUNNER",
    "all2all_backend",
)
"""Variables of the environment that change what memory is used for, and an option of that kind."""
MODALITIES: Final = ("image", "video")
"""With none of these, no vision tower is loaded."""


def memory(parsed: ParsedWords, options: Mapping[str, Known[Any]]) -> Memory:
    """`options` are those of the command line and the variables, by their names."""
    read, told = parsed.read, _Told(parsed, options)
    return Memory(
        budget=KvBudget(
            share=read("--gpu-memory-utilization", _share),
            of="total",
            bytes=told.cache_bytes(),
        ),
        max_model_len=read("--max-model-len", _length),
        max_num_seqs=read("--max-num-seqs", flags.whole),
        max_num_batched_tokens=read("--max-num-batched-tokens", flags.human),
        kv_cache_dtype=read("--kv-cache-dtype", str),
        quantization=read("--quantization", str),
        block_size=read("--block-size", flags.whole),
        enforce_eager=parsed.switched("--enforce-eager"),
        prefix_caching=parsed.switched("--enable-prefix-caching"),
        chunked_prefill=parsed.switched("--enable-chunked-prefill"),
        dtype=read("--dtype", str),
        offload=told.offload(),
        draft=told.any(_draft, "speculative_config", "spec_method", "spec_model",
                       "speculative_model"),
        draft_tokens=told.any(_draft_tokens, "speculative_config", "spec_tokens",
                              "num_speculative_tokens"),
        max_loras=told.any(_loras, "enable_lora", "max_loras"),
        max_lora_rank=told.any(_lora_rank, "enable_lora", "max_lora_rank"),
        whole_tower=told.any(_whole_tower, "mm_encoder_tp_mode",
                             "enable_multimodal_encoder_data_parallel"),
        text_only=told.any(_text_only, "language_model_only", "limit_mm_per_prompt"),
        skip_tower=parsed.switched("--skip-mm-profiling"),
        max_pixels=told.any(_max_pixels, "mm_processor_kwargs"),
        capture_sizes=told.capture_sizes(),
        variables=MappingProxyType(
            {name: options[name] for name in VARIABLES if name in options}
        ),
    )  # fmt: skip


def _share(text: str) -> float:
    found = flags.fraction(text)
    if not 0 < found <= 1:  # also what is no number
        raise ValueError(f"{text!r} is no share of memory")
    return found


def _gib(text: str) -> int:
    found = flags.fraction(text)
    if not 0 <= found <= MOST_GIB:
        raise ValueError(f"{text!r} is no size in GiB")
    return int(found * GIB)


def _length(text: str) -> int:
    if text.strip().lower() in ("auto", "-1"):
        raise ValueError(f"{text.strip()!r} lets the engine choose")
    return flags.human(text)


class _Told:
    """Options by their names; what is not stated is None, or unknown where it may yet come."""

    def __init__(self, parsed: ParsedWords, options: Mapping[str, Known[Any]]) -> None:
        self.parsed, self.options = parsed, options

    def one(self, name: str) -> Known[Any]:
        if name in self.options:
            return self.options[name]
        if self.parsed.incomplete:
            return Known.unknown(self.parsed.incomplete)
        return Known.of(None, how="defaulted")

    def any(self, function: Any, *names: str) -> Known[Any]:
        """What some options say together; unset where none of them is stated."""
        facts = [self.one(name) for name in names]
        if all(fact.how == "defaulted" and fact.is_known for fact in facts):
            return Known.unset()
        return combine(function, *facts, how="stated")

    def cache_bytes(self) -> Known[int]:
        """The size of the KV cache (0: none is stated), unless a number of blocks replaces it."""
        stated = self.parsed.read("--kv-cache-memory-bytes", flags.human)
        if stated.values == (0,):
            return Known.unset()
        if stated.is_unset or self.parsed.last("--num-gpu-blocks-override") is None:
            return stated
        return Known.unknown("--num-gpu-blocks-override sets the size of the KV cache")

    def offload(self) -> Known[int]:
        """Bytes of weights in host memory; not known where only some layers or matrices may go."""
        stated = self.parsed.read("--cpu-offload-gb", _gib)
        if stated.values != (0,) and self.parsed.last("--cpu-offload-params") is not None:
            return Known.unknown("--cpu-offload-params picks the weights that may be offloaded")
        by_layer: Known[bool] = self.any(_prefetches, "offload_backend", "offload_group_size")
        if by_layer.is_unset or by_layer.values == (False,):
            return stated
        reason = "how much is offloaded layer by layer is not known"
        return Known.unknown(by_layer.reason or reason, by_layer.origin)

    def capture_sizes(self) -> Known[tuple[int, ...] | None]:
        sizes: Known[Any] = self._many("--cudagraph-capture-sizes")
        if not sizes.is_unset:
            return sizes
        old: Known[Any] = self._many("--cuda-graph-sizes").map(
            lambda given: up_to(given[0]) if len(given) == 1 else given or None
        )
        if not old.is_unset:
            return old
        return self.any(_captured, "compilation_config", "max_cudagraph_capture_size")

    def _many(self, name: str) -> Known[tuple[int, ...]]:
        """The numbers of an option that takes many."""
        flag = self.parsed.last(name)
        if flag is None:
            why = self.parsed.incomplete
            return Known.unknown(why) if why else Known.unset()
        texts = (*((flag.value,) if flag.value else ()), *flag.more)
        facts = [text.known() for text in texts]
        try:
            return combine(
                lambda *words: tuple(flags.whole(word) for word in words), *facts, how="stated"
            )
        except ValueError as error:
            return Known.unknown(str(error), flag.written.place)


# ------------------------------------------------------------------------- several options at once


def _config(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _prefetches(backend: Any, group: Any) -> bool:
    """config/offload.py: layers are offloaded in groups, whose weights are fetched ahead."""
    if backend in (None, "auto"):
        return bool(group)
    return bool(backend == "prefetch")


def _draft(config: Any, method: Any, model: Any, old: Any) -> str | None:
    """The method; with a model and no method, a model of its own that drafts."""
    told = _config(config)
    word = str(told.get("method") or method or "").lower()
    if word:
        return "mtp" if word.endswith("mtp") else word
    return "draft_model" if told.get("model") or model or old else None


def _draft_tokens(config: Any, tokens: Any, old: Any) -> int:
    for value in (_config(config).get("num_speculative_tokens"), tokens, old):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0


def _loras(enabled: Any, count: Any) -> int:
    return (count or DEFAULT_LORAS) if enabled else 0


def _lora_rank(enabled: Any, rank: Any) -> int:
    return int(rank or DEFAULT_LORA_RANK) if enabled else 0


def _whole_tower(mode: Any, old: Any) -> bool:
    return mode == "data" or bool(old)


def _text_only(asked: Any, limits: Any) -> bool:
    """No tower is loaded where every modality is limited to none."""
    limit = _config(limits)
    none = all(_limit(value) == 0 for value in limit.values())
    return bool(asked) or (none and all(name in limit for name in MODALITIES))


def _max_pixels(config: Any) -> int | None:
    """The largest image that the processor makes, stated at the top or for images alone."""
    told = _config(config)
    for place in (told, _config(told.get("images_kwargs"))):
        edge = _config(place.get("size")).get("longest_edge")
        for value in (place.get("max_pixels"), edge):
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _limit(value: Any) -> Any:
    return value.get("count") if isinstance(value, Mapping) else value


def _captured(config: Any, most: Any) -> tuple[int, ...] | None:
    told = _config(config)
    sizes, largest = told.get("cudagraph_capture_sizes"), told.get("max_cudagraph_capture_size")
    if str(told.get("cudagraph_mode", "")).upper() == "NONE":
        return ()
    if isinstance(sizes, list) and all(isinstance(size, int) for size in sizes):
        return tuple(sizes)
    found = most if most is not None else largest
    return up_to(found) if isinstance(found, int) and found > 0 else None


def up_to(largest: int) -> tuple[int, ...]:
    """config/vllm.py: 1, 2, 4, then steps of 8, from 256 on of 16."""
    sizes = (1, 2, 4, *range(8, min(largest + 1, 256), 8), *range(256, min(largest, 8192) + 1, 16))
    return tuple(size for size in sizes if size <= largest)
