"""What an SGLang command line says of layout and memory, in the terms that all engines share.

Read in sglang 0.4.0 to 0.5.23: server_args.py and, from 0.5.20 on, arg_groups/parallel_hook.py,
moe_hook.py and memory_hook.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from shardlint.engines import flags, sglang_defaults
from shardlint.engines.flags import FlagView, ParsedWords
from shardlint.known import Known
from shardlint.plan import KvBudget, Layout, LayoutFacts, Memory, version

GIB: Final = 2**30
MOST_GIB: Final = 1 << 20
RAY: Final = "ray"

DP_SWITCH: Final = "--enable-dp-attention"
OWN_WIDTH_SINCE: Final = "0.4.4.post1"
"""server_args.py: before, the switch made every rank of TP a group of its own."""

EXCHANGE: Final = "--moe-a2a-backend"
APART: Final = ("none", "ascend_tp")
"""Ways of exchange that leave the size of EP as it is asked; all others take every rank of TP."""
WIDE_SWITCHES: Final = ("--enable-ep-moe", "--enable-deepep-moe")
"""Before 0.5.4 (0.5.2 for the first) they set the size of EP to that of TP."""
PREFILL_CP: Final = (
    "--enable-prefill-cp", "--enable-prefill-context-parallel",
    "--enable-dsa-prefill-context-parallel", "--enable-nsa-prefill-context-parallel",
)  # fmt: skip
LORA: Final = ("--enable-lora", "--lora-paths")
DEFAULT_LORAS: Final = 8
"""--max-loras-per-batch."""
OFFLOAD_BY_LAYER: Final = ("--offload-group-size", "--offload-num-in-group", "--offload-mode")


def layout(parsed: ParsedWords, view: FlagView) -> LayoutFacts:
    read = parsed.read
    tp, dp = read("--tp-size", flags.size), read("--dp-size", flags.size)
    found = LayoutFacts(
        tp=tp,
        pp=read("--pp-size", flags.size),
        dp=dp,
        attention_dp=_attention_dp(parsed, view, tp, dp),
        ep=read("--ep-size", flags.size),
        moe_tp=_whole_experts(parsed),
        pcp=read("--attn-cp-size", flags.size),
        dcp=read("--dcp-size", flags.size),
        nnodes=read("--nnodes", flags.size),
        executor=_executor(parsed),
    )
    return _of_prefill(parsed, _with_copies(parsed, found))


def _attention_dp(
    parsed: ParsedWords, view: FlagView, tp: Known[int], dp: Known[int]
) -> Known[int]:
    """handle_deprecated_dp_attention: with the switch, DP is that of attention."""
    own = parsed.read("--attn-dp-size", flags.size)
    switch = parsed.switched(DP_SWITCH)
    if switch.is_unset or switch.only is False or not (own.is_unset or own.only == 1):
        return own
    if not switch.is_known:
        return Known.unknown(switch.reason or "not known", switch.origin)
    width = dp if splits_by_dp(view) else tp
    return replace(width.or_default(Known.of(1, switch.origin)), how="derived")


def splits_by_dp(view: FlagView) -> bool:
    """The number of attention groups is that of --dp-size."""
    ours, theirs = version(view.release), version(OWN_WIDTH_SINCE)
    return ours is not None and theirs is not None and ours >= theirs


def spans_group(parsed: ParsedWords) -> Known[bool]:
    """Whether experts are spread over all ranks of TP, whatever the size of EP says."""
    for name in WIDE_SWITCHES:
        switch = parsed.switched(name)
        if switch.only is True:
            return switch
    return parsed.read(EXCHANGE, str).map(lambda word: word not in APART)


def _executor(parsed: ParsedWords) -> Known[Any]:
    return parsed.switched("--use-ray").map(lambda on: RAY if on else None)


def _whole_experts(parsed: ParsedWords) -> Known[int | None]:
    """moe_hook.py: a way of exchange that spans the group leaves every expert whole."""
    told = spans_group(parsed)
    if told.is_unset or told.only is False:
        return Known.unset()
    if not told.is_known:
        return Known.unknown(told.reason or "not known", told.origin)
    return Known.of(1, told.origin, how="derived")


def _with_copies(parsed: ParsedWords, found: LayoutFacts) -> LayoutFacts:
    """How experts are cut beside copies of them is not modelled."""
    copies = parsed.read("--moe-dp-size", flags.size)
    if copies.is_unset or copies.only == 1:
        return found
    unknown: Known[Any] = Known.unknown("experts are copied by --moe-dp-size", copies.origin)
    return replace(found, moe_tp=unknown)


def _of_prefill(parsed: ParsedWords, found: LayoutFacts) -> LayoutFacts:
    """Context parallelism for prompts reads DP in a way that hangs on the class of the model."""
    given = next((flag for name in PREFILL_CP if (flag := parsed.last(name))), None)
    if given is None:
        return found
    reason = f"`{given.written.value}` sets it by the class of the model"
    unknown: Known[Any] = Known.unknown(reason, given.written.place)
    dp = found.dp if found.dp.is_unset else unknown
    return replace(found, attention_dp=unknown, pcp=unknown, dp=dp)


def effective(found: LayoutFacts) -> LayoutFacts:
    """With defaults. Ranks that attention splits among them are no further ones; whole experts are
    spread over all ranks of TP, whatever is asked."""
    defaults = Layout()
    filled: dict[str, Known[Any]] = {}
    for name in LayoutFacts.__dataclass_fields__:
        fact: Known[Any] = getattr(found, name)
        filled[name] = fact.or_default(Known.of(getattr(defaults, name), how="defaulted"))
    if found.attention_dp.how == "derived":
        filled["dp"] = Known.of(1, found.attention_dp.origin, how="derived")
    if found.moe_tp.how == "derived":
        filled["ep"] = replace(filled["tp"], how="derived", origin=found.moe_tp.origin)
    return LayoutFacts(**filled)


# -------------------------------------------------------------------------------------- memory


def memory(parsed: ParsedWords, view: FlagView) -> Memory:
    read = parsed.read
    radix = parsed.switched("--disable-radix-cache")
    eager = parsed.switched("--disable-cuda-graph")
    return Memory(
        budget=KvBudget(share=_share(parsed), of="free_before_load"),
        max_model_len=read("--context-length", _number(view, "--context-length")),
        max_num_seqs=read("--max-running-requests", flags.whole),
        max_num_batched_tokens=read("--chunked-prefill-size", _chunk),
        kv_cache_dtype=read("--kv-cache-dtype", str),
        quantization=_quantization(parsed),
        block_size=read("--page-size", flags.size),
        enforce_eager=eager,
        prefix_caching=radix.map(lambda off: not off),
        dtype=read("--dtype", str),
        offload=_offload(parsed),
        draft=read("--speculative-algorithm", str.lower),
        draft_tokens=read("--speculative-num-draft-tokens", flags.count),
        max_loras=_loras(parsed),
        max_lora_rank=_lora_rank(parsed),
        whole_tower=parsed.switched("--mm-enable-dp-encoder"),
        capture_sizes=_capture_sizes(parsed),
    )


def _quantization(parsed: ParsedWords) -> Known[str]:
    """torchao makes other weights of those that were loaded; what they take then was not read."""
    asked, torchao = (parsed.read(name, str) for name in ("--quantization", "--torchao-config"))
    if torchao.is_unset or torchao.only == "":
        return asked
    return Known.unknown("how torchao stores the weights is not known", torchao.origin)


def _number(view: FlagView, name: str) -> Callable[[str], int]:
    """Releases differ in whether a count of tokens may end in k."""
    option = view.named(name)
    return flags.si if option is not None and option.type == "si_int" else flags.whole


def _fraction(text: str) -> float:
    found = flags.fraction(text)
    if not 0 < found <= 1 or math.isnan(found):
        raise ValueError(f"{text!r} is no share of memory")
    return found


def _share(parsed: ParsedWords) -> Known[float]:
    """Where it is not stated, what the server makes of it hangs on more than is modelled."""
    stated = parsed.read("--mem-fraction-static", _fraction)
    if not stated.is_unset:
        return stated
    role: Known[str] = parsed.read("--disaggregation-mode", str)
    exchange: Known[str] = parsed.read(EXCHANGE, str)
    for fact, usual in ((role, ("null",)), (exchange, APART)):
        if not fact.is_unset and fact.only not in usual:
            return Known.unknown("the default of --mem-fraction-static is another one", fact.origin)
    return stated


def _chunk(text: str) -> int:
    if (number := flags.whole(text)) < 1:
        raise ValueError("prompts are not cut into chunks")
    return number


def _gib(text: str) -> int:
    found = flags.fraction(text)
    if not 0 <= found <= MOST_GIB:
        raise ValueError(f"{text!r} is no size in GiB")
    return int(found * GIB)


def _offload(parsed: ParsedWords) -> Known[int]:
    for name in OFFLOAD_BY_LAYER:
        if (flag := parsed.last(name)) is not None:
            reason = "how much is offloaded layer by layer is not known"
            return Known.unknown(reason, flag.written.place)
    return parsed.read("--cpu-offload-gb", _gib)


def _adapted(parsed: ParsedWords) -> bool:
    return any(parsed.last(name) is not None for name in LORA)


def _loras(parsed: ParsedWords) -> Known[int]:
    if not _adapted(parsed):
        return Known.unset()
    stated = parsed.read("--max-loras-per-batch", flags.count)
    return stated.or_default(Known.of(DEFAULT_LORAS, how="defaulted"))


def _lora_rank(parsed: ParsedWords) -> Known[int]:
    if not _adapted(parsed):
        return Known.unset()
    stated = parsed.read("--max-lora-rank", flags.count)
    return Known.unknown("the rank of the adapters is not stated") if stated.is_unset else stated


def _capture_sizes(parsed: ParsedWords) -> Known[tuple[int, ...] | None]:
    for name in ("--cuda-graph-bs-decode", "--cuda-graph-bs"):
        if (flag := parsed.last(name)) is not None:
            texts = [text for text in (flag.value, *flag.more) if text is not None]
            words = [text.value for text in texts]
            if all(word is not None and word.isdecimal() for word in words):
                sizes = tuple(int(word) for word in words if word is not None)
                return Known.of(sizes, flag.written.place)
            return Known.unknown("the sizes of graphs are not known", flag.written.place)
    for name in ("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"):
        most = parsed.read(name, flags.size)
        if not most.is_unset:
            return most.map(sglang_defaults.captured)
    return Known.unset()
