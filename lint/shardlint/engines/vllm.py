"""vLLM: what its options mean, how they become ranks, what it refuses.

Read in vllm 0.33.0 (config/parallel.py, config/model.py, linear.py, vocab_parallel_embedding.py,
fused_moe/config.py) and in the sdists from 0.11.2 on. The constraints without `since` held in every
release that was opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, Literal

from shardlint.engines import flags, launchers
from shardlint.engines.flags import FlagTable, ParsedWords
from shardlint.known import Case, Known, Text
from shardlint.plan import (
    Constraint,
    Flag,
    KvBudget,
    Launch,
    Layout,
    LayoutFacts,
    Memory,
    ModelFacts,
    Ranks,
    Reading,
    Releases,
    ServingPlan,
    at_most,
    divides,
    divides_either,
    version,
)

VOCABULARY_PADDING = 64
"""vllm 0.33.0, vocab_parallel_embedding.py: rows are padded to this, whatever the TP size."""

CHECKED_FLAGS = "0.33"
"""The release whose options are in the table; only for it is an unknown option certain."""

TELLTALE = frozenset(
    {"--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size",
     "--max-model-len", "--gpu-memory-utilization", "--enable-expert-parallel", "--max-num-seqs",
     "--max-num-batched-tokens", "--enforce-eager", "--served-model-name"}
)  # fmt: skip
"""Options that tell a vLLM argument list where neither image nor command does."""

_PARALLEL = ("tp", "pp", "pcp", "dp", "dp_local", "dp_rank", "nnodes", "executor")

READS: dict[str, tuple[str, ...]] = {
    "tp-heads-indivisible": ("tp",),
    "tp-kv-heads-indivisible": ("tp",),
    "kv-replication": ("tp", "dcp"),
    "mla-kv-duplication": ("tp", "dcp"),
    "shard-dim-indivisible": ("tp",),
    "gpu-count-short": _PARALLEL,
    "gpu-count-surplus": _PARALLEL,
    "gpu-count-unknown": _PARALLEL,
}

DEATH = "stops while it builds the model"


class VLLM:
    """The engine as shardlint asks it."""

    name = "vllm"
    label = "vLLM"
    aliases: tuple[str, ...] = ()
    checked = True

    def __init__(self) -> None:
        self.table = FlagTable(self.name)

    # ------------------------------------------------------------------ reading a command line

    def read(self, launch: Launch) -> Reading | None:
        start = self._start(launch)
        if start is None:
            return None
        command, words = launch.argv[:start], launch.argv[start:]
        parsed = self.table.parse(words)
        return Reading(
            engine=self.name,
            command=command,
            flags=parsed.flags,
            model=_model(parsed),
            served_name=flags.converted(parsed.last("--served-model-name"), str),
            layout=_sealed(self._doubted(_layout(parsed, launch), parsed), _ending(parsed)),
            memory=_sealed(_memory(parsed), _ending(parsed)),
            open_ended=_ending(parsed),
        )

    def _start(self, launch: Launch) -> int | None:
        """Index of the first option: after the launcher, or 0 if the image starts the engine."""
        after = launchers.after_launcher(self.name, launch.argv)
        if after is not None:
            return after
        image = launch.image.only
        if launch.argv_complete or (image and launchers.excluded(image)):
            return None
        if launchers.image_matches(self.name, image):
            return 0 if self._looks_like_options(launch.argv) else None
        return 0 if self._telltale(launch.argv) else None

    def _looks_like_options(self, argv: tuple[Text, ...]) -> bool:
        """Options, a model, or nothing: not a command of its own, such as `bash` or `sleep`."""
        first = argv[0].value if argv else "--"
        return first is None or first.startswith("-") or "/" in first or len(argv) > 1

    def _telltale(self, argv: tuple[Text, ...]) -> bool:
        """The words are vLLM's options although nothing names the engine."""
        parsed = self.table.parse(argv)
        used = flags.names(parsed.flags)
        has_model = "--model" in used or bool(parsed.positionals)
        refused = sum(1 for flag in parsed.flags if flag.flag is None)
        known = TELLTALE & used
        return (
            has_model
            and len(parsed.positionals) <= 1
            and len(known) > min(refused, 1) >= 0
            and (bool(known) and len(used) >= 2)
        )

    def _doubted(self, layout: LayoutFacts, parsed: ParsedWords) -> LayoutFacts:
        """A field is not at its default while a refused option was probably meant to set it."""
        changed: dict[str, Any] = {}
        for flag in parsed.flags:
            for guess in flag.candidates if flag.flag is None else ():
                option = self.table.by_name[guess][0]
                known = option.field and hasattr(layout, option.field)
                if known and getattr(layout, str(option.field)).is_unset:
                    reason = f"`{flag.written.value}` was probably meant to set it"
                    changed[str(option.field)] = Known.unknown(reason, flag.written.place)
        return replace(layout, **changed)

    # ------------------------------------------------------------------------------- versions

    def versions(self, tag: Known[str]) -> Known[Releases]:
        """The release in a tag such as "v0.11.0-x86_64"; else every supported release."""
        match = re.match(r"v?(\d+\.\d+\.\d+(?:\.?(?:rc|post)\d+)?)(?:$|[-+.])", tag.only or "")
        if match and version(match.group(1)):
            return tag.map(lambda _: Releases(match.group(1), match.group(1)))
        span = Releases(self.table.first_release, self.table.last_release)
        reason = "the release is not stated"
        return Known((Case(span),), reason, tag.origin, how="defaulted")

    # ---------------------------------------------------------------------------------- layout

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        filled: dict[str, Known[Any]] = {}
        defaults = Layout()
        for item in fields(LayoutFacts):
            default = getattr(defaults, item.name)
            fact: Known[Any] = getattr(layout, item.name)
            filled[item.name] = fact.or_default(Known.of(default, how="defaulted"))
        return LayoutFacts(**filled)

    def reads(self, rule: str) -> tuple[str, ...]:
        return READS.get(rule, ())

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        """config/parallel.py: world size is PP × TP × PCP; DCP and EP add no GPUs."""
        world = layout.tp * layout.pp * layout.pcp
        wide = layout.tp * layout.pcp * layout.dp  # DP splits expert weights too, even without EP
        return Ranks(
            gpus=world * layout.dp,
            gpus_per_pod=_gpus_per_pod(layout, world),
            world_size=world,
            engines=layout.dp,
            attention_tp=layout.tp,
            attention_dp=layout.dp,
            dense_tp=layout.tp,
            moe_tp=1 if layout.ep else wide,
            ep=wide if layout.ep else 1,
            pp=layout.pp,
            kv_copies=_kv_copies(layout, model),
            coupled=layout.dp if model is not None and model.moe else 1,
            visible_devices=devices,
        )

    def constraints(
        self, model: ModelFacts | None, ranks: Ranks, layout: Layout
    ) -> Iterator[Constraint]:
        if model is not None:
            yield from _heads(model, ranks)
            yield from _kv_heads(model, ranks)
            yield from _widths(model, ranks)
        if ranks.visible_devices is not None and ranks.gpus_per_pod is not None:
            yield _gpus(ranks, layout)

    # --------------------------------------------------------------------------------- options

    def flag_name(self, field: str, like: str = "") -> str:
        return self.table.spelling(field, like)

    def flag_refused(self, flag: Flag, plan: ServingPlan) -> Literal["error", "warning"] | None:
        """Certain for the release in the table; a guess for the others, unless they had it.

        An image that is not vLLM's own may bring plugins with further options.
        """
        image = plan.image.only
        own = plan.image.is_unset or launchers.image_tells_version(self.name, image)
        if flag.flag is not None or not own:
            return None
        if _is_checked_release(plan.versions):
            return "error"
        name = (flag.written.value or "").split("=", 1)[0].split(".", 1)[0].replace("_", "-")
        return None if name in self.table.listed_elsewhere else "warning"

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        """`auto` is the model's own type, unless the checkpoint can declare another one."""
        dtype = plan.memory.kv_cache_dtype
        asked = "auto" if dtype.is_unset else dtype.only
        if asked is not None and asked.startswith("fp8"):
            return 1
        sixteen = model.torch_dtype in ("bfloat16", "float16", None)
        plain = model.quantization == {} and sixteen
        return 2 if asked in ("bfloat16", "float16") or (asked == "auto" and plain) else None


# ------------------------------------------------------------------------------------- options


def _model(parsed: ParsedWords) -> Known[str]:
    """The positional model wins over `--model`."""
    if parsed.positionals:
        return parsed.positionals[0].known()
    found = flags.converted(parsed.last("--model"), str)
    if found.is_unset and (ending := _ending(parsed)):
        return Known.unknown(ending)
    return found


def _ending(parsed: ParsedWords) -> str | None:
    """Why further options can exist that the words do not show."""
    config = parsed.last("--config")
    if config is not None:
        return f"{config.value.value if config.value else '--config'} holds more options"
    return parsed.open_ended


def _layout(parsed: ParsedWords, launch: Launch) -> LayoutFacts:
    def number(flag: str) -> Known[Any]:
        return flags.converted(parsed.last(flag), flags.whole)

    dp = number("--data-parallel-size")
    if dp.is_unset and (size := launch.env.get("VLLM_DP_SIZE")) is not None:
        dp = Known.unknown("VLLM_DP_SIZE is set", size.place)  # read for offline use only
    backend: Known[Any] = flags.converted(parsed.last("--data-parallel-backend"), str)
    executor: Known[Any] = flags.converted(parsed.last("--distributed-executor-backend"), str)
    expert: Known[Any] = flags.switch(parsed.last("--enable-expert-parallel"))
    return LayoutFacts(
        tp=number("--tensor-parallel-size"),
        pp=number("--pipeline-parallel-size"),
        dp=dp,
        dp_local=number("--data-parallel-size-local"),
        dp_rank=number("--data-parallel-rank"),
        ep=expert,
        pcp=number("--prefill-context-parallel-size"),
        dcp=number("--decode-context-parallel-size"),
        nnodes=number("--nnodes"),
        executor=backend if backend.only == "ray" else executor,
    )


def _memory(parsed: ParsedWords) -> Memory:
    def read(flag: str, convert: Callable[[str], Any]) -> Known[Any]:
        return flags.converted(parsed.last(flag), convert)

    return Memory(
        budget=KvBudget(
            share=read("--gpu-memory-utilization", flags.fraction),
            of="total",
            bytes=read("--kv-cache-memory-bytes", flags.human),
        ),
        max_model_len=read("--max-model-len", _length),
        max_num_seqs=read("--max-num-seqs", flags.whole),
        max_num_batched_tokens=read("--max-num-batched-tokens", flags.human),
        kv_cache_dtype=read("--kv-cache-dtype", str),
        quantization=read("--quantization", str),
        block_size=read("--block-size", flags.whole),
        enforce_eager=flags.switch(parsed.last("--enforce-eager")),
        prefix_caching=flags.switch(parsed.last("--enable-prefix-caching")),
    )


def _length(text: str) -> int:
    if text.strip() in ("auto", "-1"):
        raise ValueError(f"{text.strip()!r} lets the engine choose")
    return flags.human(text)


def _sealed(facts: Any, ending: str | None) -> Any:
    """With an open end, an absent option may yet come, and a stated one may be overridden."""
    if ending is None:
        return facts
    changed: dict[str, Any] = {}
    for item in fields(facts):
        fact = getattr(facts, item.name)
        if isinstance(fact, KvBudget):
            changed[item.name] = _sealed(fact, ending)
        elif isinstance(fact, Known) and fact.is_unset:
            changed[item.name] = Known.unknown(ending)
        elif isinstance(fact, Known):
            changed[item.name] = fact.assuming(f"nothing overrides it ({ending})")
    return replace(facts, **changed)


def _is_checked_release(releases: Known[Releases]) -> bool:
    values = releases.values
    prefix = CHECKED_FLAGS + "."
    return bool(values) and all(
        item.first.startswith(prefix) and item.last.startswith(prefix) for item in values
    )


# --------------------------------------------------------------------------------------- ranks


def _gpus_per_pod(layout: Layout, world: int) -> int | None:
    """GPUs that the process in one pod must see; None where Ray places the ranks.

    A DP rank of its own (external load balancing) is one world; several nodes share the whole.
    """
    if layout.executor == "ray":
        return None
    if layout.nnodes > 1:
        return max(1, world * layout.dp // layout.nnodes)
    if layout.dp_rank is not None:
        return world * (layout.dp_local or 1)
    return world * (layout.dp if layout.dp_local is None else layout.dp_local)


def _kv_copies(layout: Layout, model: ModelFacts | None) -> int | None:
    """Ranks that hold the same KV entry: MLA has one KV head, whatever the model says."""
    if model is None or (model.kv_heads is None and not model.mla):
        return None
    heads = 1 if model.mla else model.kv_heads
    assert heads is not None
    return max(1, layout.tp // (heads * layout.dcp))


# --------------------------------------------------------------------------------- constraints


def _heads(model: ModelFacts, ranks: Ranks) -> Iterator[Constraint]:
    """config/model.py: the same words in every release opened, for MLA too."""
    heads = (model.attention_heads, *model.other_attention_heads)
    for count in dict.fromkeys(value for value in heads if value):
        yield Constraint(
            rule="tp-heads-indivisible", subject="attention heads",
            left=count, right=ranks.attention_tp, test=divides,
            refusal="must be divisible by tensor parallel size",
            consequence="refuses to start", cures=("tp",),
        )  # fmt: skip


def _kv_heads(model: ModelFacts, ranks: Ranks) -> Iterator[Constraint]:
    """linear.py, QKVParallelLinear: heads are split evenly, or copied evenly."""
    if model.mla:
        return
    for count in dict.fromkeys(v for v in (model.kv_heads, *model.other_kv_heads) if v):
        yield Constraint(
            rule="tp-kv-heads-indivisible", subject="KV heads",
            left=count, right=ranks.attention_tp, test=divides_either,
            refusal="is not divisible by", consequence=DEATH, cures=("tp",),
        )  # fmt: skip


def _widths(model: ModelFacts, ranks: Ranks) -> Iterator[Constraint]:
    """linear.py and vocab_parallel_embedding.py: what is split must divide."""
    if model.dense_ffn and model.intermediate_size:
        yield _width("FFN width", model.intermediate_size, ranks.dense_tp, refusal="")
        group = _group(model)
        if group:
            shard = model.intermediate_size // ranks.dense_tp
            yield _width("FFN shard", shard, group, refusal="", advisory=True)
    if model.vocab_size:
        padded = -(-model.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
        yield _width("padded vocabulary", padded, ranks.dense_tp, refusal="is not divisible by")
    if model.moe and model.moe_intermediate_size and ranks.ep == 1:
        yield _width(
            "expert width", model.moe_intermediate_size, ranks.moe_tp, refusal="", advisory=True
        )


def _width(
    subject: str, left: int, right: int, *, refusal: str, advisory: bool = False
) -> Constraint:
    return Constraint(
        rule="shard-dim-indivisible", subject=subject, left=left, right=right, test=divides,
        refusal=refusal, consequence=DEATH, cures=("tp",), advisory=advisory,
    )  # fmt: skip


def _group(model: ModelFacts) -> int | None:
    """Input columns that share a scale: a shard must hold whole groups."""
    quantization = model.quantization or {}
    block = quantization.get("weight_block_size")
    size = block[0] if isinstance(block, list | tuple) and block else quantization.get("group_size")
    return size if isinstance(size, int) and size > 1 else None


def _gpus(ranks: Ranks, layout: Layout) -> Constraint:
    """config/parallel.py checks the world size, v1/worker/gpu_worker.py each rank of DP."""
    assert ranks.gpus_per_pod is not None and ranks.visible_devices is not None
    world_fits = ranks.world_size <= ranks.visible_devices or layout.nnodes > 1
    return Constraint(
        rule="gpu-count-short", subject="GPUs",
        left=ranks.gpus_per_pod, right=ranks.visible_devices, test=at_most,
        refusal="out of bounds" if world_fits else "larger than the number of available GPUs",
        refusal_since="0.16.0",
        consequence="dies while it starts" if world_fits else "refuses to start",
        cures=("dp", "pp", "tp", "pcp"),
    )  # fmt: skip
