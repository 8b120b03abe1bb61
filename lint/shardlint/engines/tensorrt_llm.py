"""TensorRT-LLM: what its options mean, how a layout becomes ranks, and what it refuses.

Facts: tensorrt-llm, sections 1 to 6. Read in NVIDIA/TensorRT-LLM (2026 and one older copy):
mapping.py, llmapi/llm_args.py, commands/serve.py, _torch/modules/attention.py,
_torch/auto_deploy/llm_args.py and transformations/library/sharding.py. What holds for a model was
read of the PyTorch backend, the default from 1.0 on; engines that are built ahead have their layout
from the build (`tensorrt_llm_build`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import basename
from typing import Any, ClassVar, Final

from shardlint.engines import collectives, config_files, inner_ranks, launchers, tensorrt_llm_build
from shardlint.engines.tabled import TabledEngine, equal, number, shares
from shardlint.engines.tensorrt_llm_memory import TensorRTLLMMemory
from shardlint.footprint import MemoryRules
from shardlint.known import Known, Text, combine
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    Flag,
    Launch,
    Layout,
    LayoutFacts,
    ModelFacts,
    Options,
    Ranks,
    Reading,
    Refused,
    Releases,
    Remark,
    SharedMemory,
    at_most,
    divides,
    divides_either,
)

HEADS, KV_HEADS = "tp-heads-indivisible", "tp-kv-heads-indivisible"
EXPERTS, CONFLICT = "experts-indivisible", "flag-conflict"
STAGES, GROUP = "pp-exceeds-layers", "node-group-size-mismatch"
REFUSAL, DEATH = "refuses to start", "dies while it starts"

PYTORCH, AUTODEPLOY = "pytorch", "_autodeploy"
PYTORCH_SINCE: Final = "1.0.0"
"""From here on the PyTorch backend is the default."""
WHOLE_KV_UNTIL: Final = "0.20.0"
"""AutoDeploy split single KV heads up to 0.19.0 (#4308); the next releases were not read."""

MPI: Final = "mpi"
"""The executor whose ranks are started from outside, on as many hosts as there are."""
STARTERS: Final = ("mpirun", "mpiexec", "srun")
COUNTS: Final = ("-n", "-np", "--np", "--n", "--ntasks")
OWN_LAUNCHERS: Final = ("trtllm-serve", "trtllm-serve serve", "dynamo.trtllm")
"""Last words of commands that start the ranks themselves where nothing else does."""

OTHER_COMMANDS: Final = ("disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve")
"""Commands of trtllm-serve: a router in front of servers, its workers, and an encoder."""

EVERY_RANK: Final = 0
"""Attention DP as a switch states it: as many groups as there are ranks of TP."""

WIDE_ATTENTION: Final = "--enable_attention_dp"

_SIZES = ("tp", "pp", "pcp", "dp", "nnodes", "executor")


class TensorRTLLM(TabledEngine):
    """The engine as shardlint asks it; `Layout.tp` are all ranks of a stage."""

    judged: ClassVar = {
        HEADS: ("tp", "pcp", "attention_dp"),
        KV_HEADS: ("tp", "pcp", "attention_dp"),
        "kv-replication": ("tp", "pcp", "attention_dp"),
        "mla-kv-duplication": ("tp", "pcp", "attention_dp"),
        EXPERTS: ("tp", "pcp", "ep", "moe_tp"),
        STAGES: ("pp",),
        CONFLICT: ("tp", "pcp", "ep", "moe_tp", "attention_dp"),
        GROUP: _SIZES,
        "tp-cross-node": _SIZES,
        "gpu-count-short": _SIZES,
        "gpu-count-surplus": _SIZES,
        "gpu-count-unknown": (),
        "shm-missing": _SIZES,
    }

    def __init__(self) -> None:
        super().__init__("trtllm", "TensorRT-LLM", "tensorrt_llm", ("tensorrt-llm",))

    # ------------------------------------------------------------------------------- reading

    def _start(self, launch: Launch) -> int | None:
        """Behind `mpirun` and its options, too."""
        found = super()._start(launch)
        words = [basename(word.value or "") for word in launch.argv[: launchers.LONGEST_PREFIX]]
        if found or not words or words[0] not in STARTERS or launch.engine not in (None, self.name):
            return found
        for at in range(1, len(words)):
            after = launchers.after_launcher(self.name, launch.argv[at:])
            if after is not None:
                return at + after
        return found

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        if (built := tensorrt_llm_build.read(self.name, launch)) is not None:
            return built
        found = super().read(launch, releases)
        if found is None or _is_another_command(launch, len(found.command)):
            return None
        options = dict(found.options)
        started = _started(found.command, launch.env)
        if started is not None:
            options["mpi_ranks"] = number(started)
        for name in ("max_batch_size", "max_num_tokens"):
            if name in options:
                options[name] = number(options[name])
        return replace(
            found,
            options=options,
            layout=_layout(found.layout, options, found.command, found.open_ended),
            refused=(*found.refused, *self._shares(found), *_misspelt(found.flags, launch.config)),
            remarks=(*found.remarks, *_twice(found.flags, launch.config)),
        )

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        """The switch of attention DP counts the ranks of TP."""
        filled = super().effective(layout)
        switch = filled.attention_dp
        groups = combine(lambda each, tp: tp if each == EVERY_RANK else each, switch, filled.tp)
        counted = EVERY_RANK in switch.values
        return replace(filled, attention_dp=groups.at(switch.origin) if counted else switch)

    def _shares(self, found: Reading) -> Iterator[Refused]:
        """llm_args.py; of two that differ, it is not certain which one counts."""
        certain = found.memory.budget.share.is_known
        yield from shares(
            found.flags, self.flags_of("share"), most=1, certain=certain,
            says="must be a float between 0 and 1",
        )  # fmt: skip

    # --------------------------------------------------------------------------------- ranks

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        """mapping.py: only TP, PP and context parallelism multiply GPUs.

        Attention DP gives every rank of TP an attention of its own; replicas are other processes.
        """
        world = layout.tp * layout.pp * layout.pcp
        made = inner_ranks.ranks(layout, model, devices)
        moe_tp, ep = _experts(layout)
        return replace(
            made,
            gpus=world * layout.dp,
            gpus_per_pod=_per_pod(layout, world),
            world_size=world,
            attention_tp=max(1, layout.tp * layout.pcp // layout.attention_dp),
            moe_tp=moe_tp,
            ep=min(ep, layout.tp),
        )

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        """Attention DP is a switch: every rank of TP then has an attention of its own."""
        ranks = tp * attention_dp
        wide = ranks if attention_dp > 1 else 1
        return Layout(tp=ranks, pp=pp, dp=dp, attention_dp=wide, ep=ep)

    def arguments(self, layout: Layout, release: str) -> tuple[str, ...] | None:
        """Attention DP is a switch, and experts whole on each rank have a size."""
        if layout.attention_dp not in (1, layout.tp):
            return None
        rest = super().arguments(replace(layout, attention_dp=1, ep=1), release)
        if rest is None:
            return None
        experts = (self.flags_of("ep")[0], str(layout.ep)) if layout.ep > 1 else ()
        return (*rest, *experts, *((WIDE_ATTENTION,) if layout.attention_dp > 1 else ()))

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        """mapping.py: ranks of one stage are consecutive, and so are those of a node."""
        if layout.nnodes == 1 and layout.executor is None:
            return 1
        local = ranks.gpus_per_pod if layout.nnodes > 1 else per_node
        if not local or (layout.nnodes > 1 and ranks.gpus % layout.nnodes):
            return None
        wide = layout.tp * layout.pcp
        starts = range(0, min(ranks.world_size, wide * min(local, 1024)), wide)
        return max((first + wide - 1) // local - first // local + 1 for first in starts)

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        return collectives.through_files(ranks)

    def releases(self) -> tuple[str, ...]:
        return self.table.releases

    def memory(self, release: str) -> MemoryRules | None:
        return TensorRTLLMMemory()

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        if tensorrt_llm_build.BUILDS in options.values:
            found = tensorrt_llm_build.constraints(model, layout)
        else:
            found = _constraints(model, ranks, layout, options)
        return (item for item in found if options.reaches(item.since, item.until))


# ------------------------------------------------------------------------------------- reading


def _is_another_command(launch: Launch, after: int) -> bool:
    """serve.py: the first word can be a command that serves no model by itself."""
    first = launch.argv[after].value if after < len(launch.argv) else None
    return first in OTHER_COMMANDS


def _started(command: Sequence[Text], env: Mapping[str, Text]) -> Known[Any] | None:
    """How many ranks `mpirun` or `srun` starts; None without one of them."""
    names = [basename(word.value or "") for word in command]
    at = next((at for at, name in enumerate(names) if name in STARTERS), None)
    if at is None:
        return None
    for index in range(at + 1, len(command)):
        name, equals, _ = (command[index].value or "").partition("=")
        if name in COUNTS:
            if equals:
                return command[index].part(len(name) + 1).known()
            return command[index + 1].known() if index + 1 < len(command) else None
    tasks = env.get("SLURM_NTASKS") if names[at] == "srun" else None
    return tasks.known() if tasks is not None else Known.unknown("how many ranks it starts")


def _layout(
    layout: LayoutFacts,
    options: Mapping[str, Known[Any]],
    command: Sequence[Text],
    open_ended: str | None,
) -> LayoutFacts:
    return replace(
        layout,
        attention_dp=_attention(options, open_ended),
        executor=_executor(options, command),
    )


def _attention(options: Mapping[str, Known[Any]], open_ended: str | None) -> Known[int]:
    """With the switch, as many groups as there are ranks of TP."""
    switch = options.get("enable_attention_dp", Known.unset())
    if switch.is_unset:
        return Known.unknown(open_ended) if open_ended is not None else Known.unset()
    if not switch.is_known:
        return Known.unknown(switch.reason or "", switch.origin)
    off = str(switch.only).lower() in ("false", "0", "no")
    return Known.of(1 if off else EVERY_RANK, switch.origin)


def _executor(options: Mapping[str, Known[Any]], command: Sequence[Text]) -> Known[str | None]:
    """Who starts the ranks: the process itself, or something around it."""
    told = options.get("orchestrator_type", Known.unset())
    if not told.is_unset:
        return told
    names = [basename(word.value or "") for word in command]
    outside = any(name in STARTERS or name == "trtllm-llmapi-launch" for name in names)
    own = not command or (names[-1] in (*OWN_LAUNCHERS, "serve"))
    return Known.unset() if own and not outside else Known.of(MPI, how="derived")


def _twice(flags: Sequence[Flag], config: Sequence[Text] | None) -> Iterator[Remark]:
    """llm_utils.py, update_llm_args_with_extra_dict: the file won, in newer releases it does not.

    Which release changed it was not read.
    """
    inside = {id(word) for word in config or ()}
    stated = {flag.flag: flag for flag in flags if id(flag.written) in inside and flag.value}
    for flag in flags:
        other = stated.get(flag.flag)
        if id(flag.written) in inside or other is None or flag.value is None:
            continue
        ours, theirs = flag.value.value, other.value.value if other.value is not None else None
        if ours is not None and theirs is not None and ours != theirs:
            yield Remark(
                kind="conflict", severity="warning", at=flag.value.place,
                message=f"{(flag.written.value or '').partition('=')[0]} is {ours} here and"
                f" {theirs} in the file of options: which of them counts depends on the release",
                help="state it once",
                related=((other.written.origin, f"{theirs} in the file"),),
            )  # fmt: skip


def _misspelt(flags: Sequence[Flag], config: Sequence[Text] | None) -> Iterator[Refused]:
    """llm_args.py refuses keys that it does not know; those of all releases were not read."""
    from difflib import get_close_matches

    inside = {id(word) for word in config or ()}
    for at, flag in enumerate(flags):
        name = (flag.written.value or "").removeprefix("--")
        if id(flag.written) not in inside or "." in name or config_files.knows("trtllm", name):
            continue
        meant = get_close_matches(name, config_files.keys_of("trtllm"), n=1, cutoff=0.9)
        if meant:
            yield Refused(
                kind="unknown", written=flag.written, at=flag.written.origin, flag=at,
                problem="Extra inputs are not permitted", candidates=(f"--{meant[0]}",),
                certain=False,
            )  # fmt: skip


# --------------------------------------------------------------------------------------- ranks


def _experts(layout: Layout) -> tuple[int, int]:
    """mapping.py: what is not stated of the two is what the other one leaves."""
    world = layout.tp
    if layout.ep is True:
        return 1, world
    if layout.ep:
        ep = int(layout.ep)
        return layout.moe_tp or max(1, world // ep), ep
    if layout.moe_tp:
        return layout.moe_tp, max(1, world // layout.moe_tp)
    return world, 1


def _per_pod(layout: Layout, world: int) -> int | None:
    """One process starts all ranks on its host, unless they are started from outside."""
    if layout.nnodes > 1:
        return -(-world // layout.nnodes)
    return None if layout.executor is not None else world


# ---------------------------------------------------------------------------------- constraints


def _constraints(
    model: ModelFacts | None, ranks: Ranks, layout: Layout, options: Options
) -> Iterator[Constraint]:
    backend = options.get("backend")
    if "world_size" in options.values:
        backend = AUTODEPLOY
    if model is not None and backend == AUTODEPLOY:
        yield from _autodeploy(model, layout)
    elif model is not None and backend in (None, PYTORCH) and options.sure("backend"):
        since = None if backend == PYTORCH else PYTORCH_SINCE
        yield from _of_model(model, ranks, layout, since)
    yield from _sizes(layout, options)
    yield from _started_ranks(ranks, layout, options)
    if ranks.visible_devices is not None and ranks.gpus_per_pod is not None:
        yield Constraint(
            rule="gpu-count-short", subject="GPUs", left=ranks.gpus_per_pod,
            right=ranks.visible_devices, test=at_most, refusal="", consequence=DEATH,
            cures=("pp", "tp"),
        )  # fmt: skip


def _of_model(
    model: ModelFacts, ranks: Ranks, layout: Layout, since: str | None
) -> Iterator[Constraint]:
    if model.attention_heads:
        yield Constraint(
            rule=HEADS, subject="attention heads", left=model.attention_heads,
            right=ranks.attention_tp, test=divides, refusal="", consequence=DEATH, cures=("tp",),
            facts=("attention_heads",), since=since,
        )  # fmt: skip
    if model.kv_heads and not model.mla:
        told = Constraint(
            rule=KV_HEADS, subject="KV heads", left=model.kv_heads, right=ranks.attention_tp,
            test=divides_either, refusal="", severity="warning", cures=("tp",), since=since,
            consequence="does not look at it: ranks hold more heads than they need, or the weights"
            " do not load", facts=("kv_heads",),
        )  # fmt: skip
        yield told
        yield replace(told, severity="error", advisory=True)  # no cure leads there
    if model.intermediate_size and model.dense_ffn is not False:
        yield Constraint(
            rule="shard-dim-indivisible", subject="MLP width", left=model.intermediate_size,
            right=layout.tp, test=divides, refusal="", consequence=DEATH, cures=("tp",),
            facts=("intermediate_size",), since=since, advisory=True,
        )  # fmt: skip
    if model.num_experts and ranks.ep > 1:
        yield Constraint(
            rule=EXPERTS, subject="experts", left=model.num_experts, right=ranks.ep, test=divides,
            refusal="", severity="warning", cures=(), places=("layout.ep", "layout.tp"),
            consequence="does not look at it, and gives each rank the same number", since=since,
            sentence="{left} experts do not divide over {right} ranks of expert parallelism",
            facts=("num_experts",),
        )  # fmt: skip
    if model.num_layers:
        yield Constraint(
            rule=STAGES, subject="layers", left=layout.pp, right=model.num_layers, test=at_most,
            refusal="pp size cannot be larger than num_hidden_layers", severity="warning",
            consequence=REFUSAL, cures=("pp",), facts=("num_layers",), since=since,
            sentence="{left} stages have {right} layers",
        )  # fmt: skip


def _autodeploy(model: ModelFacts, layout: Layout) -> Iterator[Constraint]:
    """sharding.py: the rows of a projection are split evenly, whatever is a head in them."""
    if model.kv_heads and not model.mla:
        yield Constraint(
            rule=KV_HEADS, subject="KV heads", left=model.kv_heads, right=layout.tp, test=divides,
            refusal="", consequence=DEATH, cures=("tp",), facts=("kv_heads",),
            until=WHOLE_KV_UNTIL, remedy="the backend pytorch, which copies KV heads",
            sentence="{left} KV heads do not divide over a world size of {right}, and AutoDeploy"
            " splits the heads themselves",
        )  # fmt: skip


def _sizes(layout: Layout, options: Options) -> Iterator[Constraint]:
    """mapping.py: degrees of experts and of context."""
    moe_tp, ep = _experts(layout)
    clusters = {"moe_cluster_parallel_size", "cluster_size"} & options.values.keys()
    if not clusters and layout.pcp == 1 and (layout.ep or layout.moe_tp):
        yield Constraint(
            rule=CONFLICT, subject="ranks", left=moe_tp * ep, right=layout.tp, test=equal,
            refusal="must equal to", consequence=REFUSAL, cures=(),
            places=("layout.ep", "layout.moe_tp", "layout.tp"),
            sentence=f"experts over {ep} ranks, each of them cut in {moe_tp}, take {moe_tp * ep}"
            f" ranks, and there are {layout.tp} of tensor parallelism",
            remedy=f"an expert parallel size that divides {layout.tp}",
        )  # fmt: skip
    if layout.pcp > 1 and "cp_config" not in options.values and options.sure("cp_config"):
        yield Constraint(
            rule=CONFLICT, subject="context parallelism", left=1, right=0, test=at_most,
            refusal="CP type must be HELIX for Attention", consequence=DEATH, cures=(),
            places=("layout.pcp",), since=PYTORCH_SINCE,
            advisory=options.get("backend") not in (None, PYTORCH),
            sentence=f"context parallelism over {layout.pcp} ranks is of the type ULYSSES unless"
            " `cp_config` says otherwise, which attention does not take",
        )  # fmt: skip
    if options.get("enable_lm_head_tp_in_adp") and layout.attention_dp == 1 and layout.tp > 1:
        yield Constraint(
            rule=CONFLICT, subject="attention DP", left=1, right=0, test=at_most,
            refusal="enable_lm_head_tp_in_adp requires enable_attention_dp", consequence=REFUSAL,
            cures=(), places=("options.enable_lm_head_tp_in_adp",),
            advisory=not options.sure("enable_attention_dp"),
            sentence="the head is to be cut inside of attention DP, which is off",
        )  # fmt: skip
    batch, tokens = options.get("max_batch_size"), options.get("max_num_tokens")
    if isinstance(batch, int) and isinstance(tokens, int):
        yield Constraint(
            rule=CONFLICT, subject="requests", left=batch, right=tokens, test=at_most,
            refusal="should be less than or equal to max_num_tokens", severity="warning",
            consequence="warns of it", cures=(), places=("options.max_batch_size",),
            sentence="a batch of {left:,} requests has {right:,} tokens at most",
        )  # fmt: skip


def _started_ranks(ranks: Ranks, layout: Layout, options: Options) -> Iterator[Constraint]:
    """What `mpirun -n` starts is what the engine must find, no more and no less."""
    started = options.get("mpi_ranks")
    if not isinstance(started, int):
        return
    few = started < ranks.world_size
    product = " × ".join(
        f"{name} {size}"
        for name, size in (("TP", layout.tp), ("PP", layout.pp), ("CP", layout.pcp))
        if size > 1
    )
    yield Constraint(
        rule=GROUP, subject="ranks", left=started, right=ranks.world_size, test=equal,
        refusal="", consequence=REFUSAL if few else "leaves some of them without work",
        severity="error" if few else "warning", cures=(),
        places=("options.mpi_ranks", "layout.tp"),
        sentence=f"{{left}} ranks are started, and {product or 'TP 1'} is {{right}}",
        remedy=f"start {ranks.world_size}",
    )  # fmt: skip
