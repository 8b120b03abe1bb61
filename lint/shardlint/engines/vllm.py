"""vLLM: what its options mean, how they become ranks, what it refuses.

Read in vllm 0.33.0 (config/parallel.py, config/model.py, linear.py, vocab_parallel_embedding.py,
fused_moe/config.py) and in the sdists from 0.11.2 on. The constraints without `since` held in every
release that was opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from posixpath import basename
from typing import Any

from shardlint.engine import by_options
from shardlint.engines import (
    agreed,
    balancing,
    command_lines,
    flags,
    launchers,
    vllm_constraints,
    vllm_remarks,
    vllm_settings,
)
from shardlint.engines.command_lines import Command, Version, with_file
from shardlint.engines.flags import FlagTable, FlagView, ParsedWords
from shardlint.engines.vllm_cache_rules import LATENT_SINCE
from shardlint.engines.vllm_command import VLLMDialect
from shardlint.engines.vllm_memory import VLLMMemory
from shardlint.footprint import MemoryRules
from shardlint.known import Case, Known, Text, combine
from shardlint.plan import (
    NO_OPTIONS,
    SHAPE_KEPT,
    Constraint,
    Device,
    Launch,
    Layout,
    LayoutFacts,
    Memory,
    ModelFacts,
    Options,
    Ranks,
    Reading,
    Refused,
    Releases,
    Router,
    ServingPlan,
    SharedMemory,
)
from shardlint.record import record

TELLTALE = frozenset(
    {"--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size",
     "--max-model-len", "--gpu-memory-utilization", "--enable-expert-parallel", "--max-num-seqs",
     "--max-num-batched-tokens", "--enforce-eager", "--served-model-name"}
)  # fmt: skip
"""Options that tell a vLLM argument list where neither image nor command does."""


RAY_UNASKED_UNTIL = "0.11.2"
"""config/parallel.py: 0.11.2 refuses a world that is larger than the GPUs of the node."""

RAY = "ray"
OWN_PROCESSES = (None, "mp", "uni")
"""Executors whose ranks are children of the process that is started."""

SIXTEEN = ("half", "float16", "bfloat16")
BYTES = {"float16": 2, "bfloat16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
"""Values of --kv-cache-dtype that store elements and nothing beside them."""

OMNI = "--omni"
"""entrypoints/cli/main.py: with this word, another package reads the command line."""
_ALL = ("tp", "pp", "pcp", "dp", "dp_local", "dp_rank", "nnodes", "executor")
PLACED: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("tp-cross-node", "tp-slow-link", "group-spread-unpinned", "shm-missing", "p2p-risk",
     "net-iface-unset", "rdma-not-exposed", "gpu-shared", "replicas-exceed-capacity"),
    _ALL,
)  # fmt: skip
"""Rules about what surrounds the ranks: they need to know where each of them is."""

MIB = 2**20
RING = 160 * MIB
"""shm_broadcast.py and multiproc_executor.py of 0.11.2 to 0.33.0: 10 chunks of 16 MiB."""
RESPONSE_RING = 240 * MIB
"""The same: 10 chunks of 24 MiB for each worker. It is the largest that is created at once."""
GROUP_RING = 24 * MIB
SHM_CHECKED_SINCE = "0.27.0"
"""The first release whose ring compares its size with what is free; 0.26.0 does not."""

HELP = ("-h", "--help")
"""With one of these the parser prints its options and ends."""

ANY_RELEASE: Known[Releases] = Known((Case(Releases("0.6.0", "0.33.0")),), how="defaulted")

DIALECT = VLLMDialect()


class VLLM:
    """The engine as shardlint asks it."""

    name = "vllm"
    label = "vLLM"
    aliases: tuple[str, ...] = ()
    checked = True
    latent_since: str | None = LATENT_SINCE

    def __init__(self) -> None:
        self.table = FlagTable(VLLM.name)

    # ------------------------------------------------------------------ reading a command line

    def read(self, launch: Launch, releases: Known[Releases] = ANY_RELEASE) -> Reading | None:
        start = self._start(launch)
        if start is None or any(word.value in HELP for word in launch.argv[start:]):
            return None
        command = self._command(launch, start)
        found = command_lines.versions_of(self.table, command, releases, DIALECT)
        chosen = command_lines.chosen(found, releases)
        alike = {one.says: one for one in chosen}
        facts = [self._facts(one, launch, command.serve) for one in alike.values()]
        newest = chosen[-1].parsed
        omni = any(word.value == OMNI for word in command.words)
        refused = command_lines.refused(self.table, found, command, releases)
        if start and self._started_twice(launch):
            refused = (_twice(launch.argv[0], launch), *refused)
        return Reading(
            engine=self.name,
            command=launch.argv[:start],
            flags=newest.flags,
            model=agreed.fact([item.model for item in facts]),
            shape_of=agreed.fact([item.shape_of for item in facts]),
            served_name=agreed.fact([item.served_name for item in facts]),
            layout=agreed.of_fields([item.layout for item in facts]),
            memory=agreed.of_memory([item.memory for item in facts]),
            open_ended=next((why for item in facts if (why := item.open_ended)), None),
            options=agreed.of_options([item.options for item in facts]),
            refused=() if omni else refused,
            remarks=vllm_remarks.remarks(self.table, chosen, command, releases),
            releases=agreed.taking(found),
        )

    def _started_twice(self, launch: Launch) -> bool:
        """Words that start the engine, behind an entrypoint that starts it already."""
        image = launch.image.only
        return not launch.argv_complete and launchers.image_starts(self.name, image)

    def _command(self, launch: Launch, start: int) -> Command:
        image = launch.image.only
        words = [word.value for word in launch.argv[:start]]
        before = _before_serve(launch.argv)
        own = launch.image.is_unset or launchers.image_tells_version(self.name, image)
        wrapper = launchers.wrapper(launch.argv[:start])
        argv = launch.argv[start:]
        return Command(
            words=argv if wrapper is None else launchers.handed_on(wrapper, argv),
            wrapped=wrapper is not None,
            serve=words[-1] == "serve" if words else None,
            before=launch.argv[1 : start - 1] if before is not None else (),
            floating=not launch.image.is_unset,
            own=own and wrapper is None,
            plugins=bool(launch.env.get("VLLM_PLUGINS")),
            file=launch.config,
        )

    def _facts(self, version: Version, launch: Launch, serve: bool | None) -> _Facts:
        parsed = version.parsed if launch.config is not None else with_file(version.parsed)
        options = _options(parsed, version.view, launch)
        return _Facts(
            model=_reshaped(_model(parsed, version.view, serve), parsed),
            shape_of=_reshaped(_shape_of(parsed), parsed),
            served_name=parsed.read("--served-model-name", str),
            layout=agreed.doubted(_layout(parsed, launch), parsed, version.view),
            memory=agreed.doubted(vllm_settings.memory(parsed, options), parsed, version.view),
            options=options,
            open_ended=parsed.incomplete,
        )

    def _start(self, launch: Launch) -> int | None:
        """Index of the first option: after the launcher, or 0 if the image starts the engine."""
        if launch.engine is not None and launch.engine != self.name:
            return None
        after = launchers.after_launcher(self.name, launch.argv)
        if after is None:
            after = _before_serve(launch.argv)
        if after is None and launch.argv and launch.argv[0].value == "serve":
            after = 1 if self._started_twice(launch) else None
        if after is not None:
            return after
        image = launch.image.only
        if launch.argv_complete or launchers.is_command(launch.argv):
            return None
        if launch.engine is not None:
            return 0
        if image and launchers.excluded(image):
            return None
        if launchers.image_matches(self.name, image):
            return 0 if self._looks_like_options(launch.argv) else None
        telling = _telltale(self.table.parse(launch.argv))
        return 0 if telling and not launchers.another(self.name, image) else None

    def _looks_like_options(self, argv: tuple[Text, ...]) -> bool:
        """Options, a model, or nothing; one bare word, or several, can be a command."""
        first = argv[0].value if argv else "--"
        bare = len(self.table.parse(argv[:2]).positionals) == len(argv[:2])
        return (
            first is None or first.startswith("-") or not bare or (len(argv) == 1 and "/" in first)
        )

    # ------------------------------------------------------------------------------- versions

    def versions(self, tag: Known[str]) -> Known[Releases]:
        return self.table.stated(tag)

    # ---------------------------------------------------------------------------------- layout

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        filled: dict[str, Known[Any]] = {}
        defaults = Layout()
        for item in fields(LayoutFacts):
            default = getattr(defaults, item.name)
            fact: Known[Any] = getattr(layout, item.name)
            filled[item.name] = fact.or_default(Known.of(default, how="defaulted"))
        return LayoutFacts(**filled)

    def reads(self, rule: str) -> tuple[str, ...] | None:
        return vllm_constraints.READS.get(rule, PLACED.get(rule))

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

    def releases(self) -> tuple[str, ...]:
        return self.table.releases

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        """Every data-parallel rank has an attention of its own; the size of EP follows."""
        return Layout(tp=tp, pp=pp, dp=dp * attention_dp, ep=ep is True or ep > 1, dcp=dcp)

    def memory(self, release: str) -> MemoryRules | None:
        return VLLMMemory(release)

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        found = vllm_constraints.constraints(model, ranks, layout, options, device)
        return (item for item in found if options.reaches(item.since, item.until))

    # --------------------------------------------------------------------------------- options

    def flag_name(
        self, field: str, like: str = "", releases: Known[Releases] | None = None
    ) -> str | None:
        return self.table.option_for(field, like, releases)

    def arguments(self, layout: Layout, release: str) -> tuple[str, ...] | None:
        """Attention DP is data parallelism here."""
        if layout.attention_dp > 1:
            return None
        return by_options(self, layout, release)

    def joins_hosts(self, plan: ServingPlan) -> str | None:
        """Before it refused them, too few CUDA devices made an unset executor Ray."""
        asked = plan.layout.executor.is_unset and plan.layout.nnodes.is_unset
        old = any(item.meets(None, RAY_UNASKED_UNTIL) for item in plan.versions.values)
        amd = any(device.vendor == "amd" for device in plan.placement.gpu.values)
        nodes = plan.placement.nodes.only or 1
        if not (asked and old and plan.placement.on_host) or amd or nodes < 2:
            return None
        return f"no Ray cluster joins the {nodes} nodes, which vLLM before 0.11.2 would use unasked"

    def unasked_ray(self, plan: ServingPlan) -> bool | None:
        """config/parallel.py: since 0.11.2 too few devices are refused, whatever Ray has."""
        spans = plan.versions.values
        if not plan.layout.executor.is_unset or not plan.layout.nnodes.is_unset or not spans:
            return None
        if all(one.within(RAY_UNASKED_UNTIL, None) for one in spans):
            return False
        cuda = not any(device.vendor == "amd" for device in plan.placement.gpu.values)
        old = all(one.within(None, RAY_UNASKED_UNTIL) for one in spans)
        return True if old and cuda else None

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        """`auto` is the model's own type, unless the checkpoint can declare another one."""
        dtype = plan.memory.kv_cache_dtype
        asked = "auto" if dtype.is_unset else dtype.only
        if asked in BYTES:
            return BYTES[asked]
        own = [flag for flag in plan.flags if flag.flag == "--dtype"]
        words = {flag.value.value if flag.value else None for flag in own[-1:]}
        sixteen = model.torch_dtype in (*SIXTEEN, "float32", None) and words <= {*SIXTEEN, "auto"}
        return 2 if asked == "auto" and sixteen and model.quantization == {} else None

    # ------------------------------------------------------------------------ what is around it

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        """config/model.py: TP peers are consecutive ranks, and a node takes consecutive ranks."""
        if layout.nnodes == 1 and layout.executor in OWN_PROCESSES:
            return 1
        local = ranks.gpus_per_pod if layout.nnodes > 1 else per_node
        if local is None or local < 1 or (layout.nnodes > 1 and ranks.gpus % layout.nnodes):
            return None
        total = ranks.gpus if layout.nnodes > 1 else ranks.world_size
        starts = range(0, min(total, layout.tp * min(local, 1024)), layout.tp)
        return max((first + layout.tp - 1) // local - first // local + 1 for first in starts)

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        """Rings between the engine and its workers; an engine of one process has none."""
        if layout.executor not in (None, "mp") or ranks.gpus_per_pod is None:
            return None
        workers = ranks.gpus_per_pod
        rings = ranks.world_size > 1 and workers > 1
        if not rings:
            return None
        return SharedMemory(
            processes=workers,
            least=RESPONSE_RING,
            ample=RING + RESPONSE_RING * workers + GROUP_RING,
            since=SHM_CHECKED_SINCE,
            refusal="Insufficient space in /dev/shm",
        )

    def peer_option(self, plan: ServingPlan) -> str | None:
        """custom_all_reduce.py believes the driver when it says that two boards have access."""
        name = "--disable-custom-all-reduce"
        given = [flag for flag in plan.flags if flag.flag == name]
        return None if given and not given[-1].negated else name

    def balancing(self, plan: ServingPlan) -> Router | None:
        return balancing.of_vllm(plan)

    def publishes(self, plan: ServingPlan) -> bool | None:
        return balancing.publishes(plan)


# ------------------------------------------------------------------------------------- options


def _twice(word: Text, launch: Launch) -> Refused:
    return Refused(
        kind="unknown", written=word, at=word.place, problem="unrecognized arguments",
        certain=not (word.assumes or launch.image.assumes), known=True,
        remedy="begin with the model: the image's entrypoint starts the server already",
    )  # fmt: skip


def _before_serve(argv: Sequence[Text]) -> int | None:
    """Index behind `serve` where options stand between it and `vllm`."""
    words = [word.value for word in argv]
    if len(words) < 3 or basename(words[0] or "") != "vllm" or "serve" not in words:
        return None
    return words.index("serve") + 1 if (words[1] or "").startswith("--") else None


@record(kw_only=True)
class _Facts:
    """What one reading of a command line says."""

    model: Known[str]
    shape_of: Known[str]
    served_name: Known[str]
    layout: LayoutFacts
    memory: Memory
    options: dict[str, Known[Any]]
    open_ended: str | None


def _telltale(parsed: ParsedWords) -> bool:
    """The words are vLLM's options although nothing names the engine."""
    used = flags.names(parsed.flags)
    has_model = "--model" in used or len(parsed.positionals) == 1
    refused = any(flag.flag is None for flag in parsed.flags)
    return (
        has_model
        and len(parsed.positionals) < 2
        and len(used) > 1
        and len(TELLTALE & used) > (1 if refused else 0)
    )


def _model(parsed: ParsedWords, view: FlagView, serve: bool | None) -> Known[str]:
    """`serve` takes the positional one, for which later releases take `--model`; the module never.

    entrypoints/cli/serve.py: args.model = args.model_tag.
    """
    option, words = parsed.last("--model"), parsed.positionals
    if words and serve is False and option is None:
        return Known.unknown("the module reads no model without --model", words[0].place)
    if words and (option is None or (serve and not view.grammar.model_option)):
        return words[0].known()
    return parsed.read("--model", str)


def _shape_of(parsed: ParsedWords) -> Known[str]:
    """A config that stands in for the one of the model; with an open end, it may yet come."""
    stated = parsed.last("--hf-config-path") is not None
    return parsed.read("--hf-config-path", str) if stated else Known.unset()


def _reshaped(model: Known[str], parsed: ParsedWords) -> Known[str]:
    """The model's name, on the assumption that options do not give it another shape."""
    for flag in parsed.flags:
        if flag.flag == "--hf-overrides":
            return model.assuming(f"`{flag.flag}` {SHAPE_KEPT}")
    return model


def _layout(parsed: ParsedWords, launch: Launch) -> LayoutFacts:
    read = parsed.read
    dp = read("--data-parallel-size", flags.size)
    if dp.is_unset and (size := launch.env.get("VLLM_DP_SIZE")) is not None:
        dp = Known.unknown("VLLM_DP_SIZE is set", size.place)  # read for offline use only
    local: Known[Any] = read("--data-parallel-size-local", flags.count)
    rank: Known[Any] = read("--data-parallel-rank", flags.count)
    expert: Known[Any] = parsed.switched("--enable-expert-parallel")
    return LayoutFacts(
        tp=read("--tensor-parallel-size", flags.size),
        pp=read("--pipeline-parallel-size", flags.size),
        dp=dp,
        dp_local=local,
        dp_rank=rank,
        ep=expert,
        pcp=read("--prefill-context-parallel-size", flags.size),
        dcp=read("--decode-context-parallel-size", flags.size),
        nnodes=read("--nnodes", flags.size),
        executor=_executor(parsed),
    )


def _options(parsed: ParsedWords, table: FlagView, launch: Launch) -> dict[str, Known[Any]]:
    """Options by their names, variables that vLLM reads by theirs."""
    found = flags.options(parsed, table)
    found |= {name: text.known() for name, text in launch.env.items() if name.startswith("VLLM_")}
    return found


def _executor(parsed: ParsedWords) -> Known[Any]:
    """Ray places the ranks if it starts the workers or the data-parallel engines."""
    executor: Known[Any] = parsed.read("--distributed-executor-backend", str)
    backend = parsed.read("--data-parallel-backend", str)
    if backend.is_unset:
        return executor
    stated = executor.or_default(Known.of(None))
    return combine(lambda one, two: one if one == RAY else two, backend, stated, how="stated")


# --------------------------------------------------------------------------------------- ranks


def _gpus_per_pod(layout: Layout, world: int) -> int | None:
    """GPUs that the process in one pod must see; None where Ray or another launcher places ranks.

    A DP rank of its own (external load balancing) is one world; several nodes share the whole.
    """
    if layout.executor not in OWN_PROCESSES:
        return None
    if layout.nnodes > 1:
        return max(1, world * layout.dp // layout.nnodes)
    if layout.dp_rank is not None:
        return world
    return world * (layout.dp if layout.dp_local is None else layout.dp_local)


def _kv_copies(layout: Layout, model: ModelFacts | None) -> int | None:
    """Ranks that hold the same KV entry: MLA has one KV head, whatever the model says."""
    if model is None or (model.kv_heads is None and not model.mla):
        return None
    heads = 1 if model.mla else model.kv_heads
    assert heads is not None
    return max(1, layout.tp // max(1, heads * layout.dcp))
