"""SGLang: what its options mean, how they become ranks, what it refuses.

Read in sglang 0.5.23 (server_args.py, runtime_context.py, distributed/parallel_state.py,
entrypoints/engine.py) and in the packages from 0.4.0 on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from shardlint.engines import (
    agreed,
    balancing,
    command_lines,
    flags,
    inner_ranks,
    launchers,
    sglang_command,
    sglang_constraints,
    sglang_settings,
)
from shardlint.engines.command_lines import Command, Version, with_file
from shardlint.engines.flags import FlagTable, ParsedWords
from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.sglang_command import SGLangDialect
from shardlint.engines.sglang_memory import SGLangMemory
from shardlint.engines.sglang_releases import table
from shardlint.footprint import MemoryRules
from shardlint.known import Known, Text
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
    Releases,
    Router,
    ServingPlan,
    SharedMemory,
)
from shardlint.record import record

DIALECT: Final = SGLangDialect()
HELP: Final = ("-h", "--help")
OTHER_BUILDS: Final = re.compile(
    r"rocm|hip|npu|cann|xpu|cpu|musa|dev|nightly|latest", re.IGNORECASE
)
"""In a tag: built from another state of the source than the package of that release."""
KIND: Final = "--model-type"
"""cli/serve.py takes it out before anything is parsed; with "diffusion" another server reads on."""
TEXT_ONLY: Final = frozenset(
    {"--mem-fraction-static", "--context-length", "--reasoning-parser", "--tool-call-parser",
     "--chunked-prefill-size", "--max-running-requests", "--kv-cache-dtype", "--schedule-policy",
     "--ep-size", "--enable-dp-attention", "--attn-dp-size", "--disable-radix-cache",
     "--attention-backend", "--moe-a2a-backend", "--speculative-algorithm"}
)  # fmt: skip
"""Options that tell a server of language models, where `sglang serve` starts others too."""
DIFFUSION: Final = frozenset(
    {"--num-gpus", "--ulysses-degree", "--ring-degree", "--sp-degree", "--enable-cfg-parallel",
     "--dit-cpu-offload", "--dit-layerwise-offload", "--vae-cpu-offload"}
)  # fmt: skip
"""Options of that other server (multimodal_gen/runtime/server_args.py)."""
MIB: Final = 2**20
QUEUE: Final = 24 * MIB
"""distributed/parallel_state.py: a message queue for each group of ranks."""
PEER_OPTION: Final = "--enable-p2p-check"


class SGLang(RecognisedEngine):
    """The engine as shardlint asks it; `Layout.tp` are all ranks of a stage, `--tp-size`."""

    checked = True
    latent_since: str | None = None

    def __init__(self) -> None:
        super().__init__("sglang", "SGLang")
        self.table = FlagTable("sglang")

    # ------------------------------------------------------------------ reading a command line

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        start = self._start(launch)
        if start is None or any(word.value in HELP for word in launch.argv[start:]):
            return None
        if _makes_pictures(launch.argv[:start], launch.argv[start:]):
            return None
        releases = self.versions(Known.unset()) if not releases.values else releases
        command, model = self._command(launch, start)
        found = command_lines.versions_of(self.table, command, releases, DIALECT)
        chosen = command_lines.chosen(found, releases)
        alike = {one.says: one for one in chosen}
        facts = [_facts(one, launch, model) for one in alike.values()]
        layout = agreed.of_fields([item.layout for item in facts])
        return Reading(
            engine=self.name,
            command=launch.argv[:start],
            flags=chosen[-1].parsed.flags,
            model=agreed.fact([item.model for item in facts]),
            served_name=agreed.fact([item.served_name for item in facts]),
            layout=layout,
            memory=agreed.of_memory([item.memory for item in facts]),
            open_ended=next((why for item in facts if (why := item.open_ended)), None),
            options=agreed.of_options([item.options for item in facts]),
            refused=()  # a launcher of others takes options out, and adds some
            if command.wrapped
            else command_lines.refused(self.table, found, command, releases),
            remarks=sglang_command.remarks(self.table, chosen, command, releases),
            releases=agreed.taking(found),
            tied=_tied(layout),
        )

    def _command(self, launch: Launch, start: int) -> tuple[Command, Text | None]:
        """The words that reach the parser, and the model that `serve` takes in front of them."""
        before = [word.value or "" for word in launch.argv[:start]]
        serve = before[-1] == "serve" if before else None
        words, kind = _without_kind(launch.argv[start:]) if serve else (launch.argv[start:], None)
        model: Text | None = None
        if serve and words and not (words[0].value or "").startswith("-") and not words[0].many:
            model, words = words[0], words[1:]
        wrapped = bool(before) and not re.fullmatch(r"serve|sglang\.launch_server", before[-1])
        text = not serve or kind == "llm" or any(
            (word.value or "").partition("=")[0] in TEXT_ONLY for word in words
        )  # fmt: skip
        return Command(
            words=words,
            serve=serve,
            wrapped=wrapped,
            floating=not launch.image.is_unset,
            own=text and not wrapped and self._released(launch.image),
            plugins=bool(launch.env.get("SGLANG_PLUGINS")),
            file=launch.config,
        ), model

    def _released(self, image: Known[str]) -> bool:
        """Nothing but a release of the engine can be in the image."""
        if image.is_unset:
            return True
        name = image.only
        tag = launchers.tag_of(name) if name else None
        return launchers.image_tells_version(self.name, name) and not OTHER_BUILDS.search(tag or "")

    # ------------------------------------------------------------------------------- versions

    def versions(self, tag: Known[str]) -> Known[Releases]:
        return self.table.stated(tag)

    # ---------------------------------------------------------------------------------- layout

    def effective(self, layout: LayoutFacts) -> LayoutFacts:
        return sglang_settings.effective(layout)

    def reads(self, rule: str) -> tuple[str, ...] | None:
        return sglang_constraints.READS.get(rule)

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        """parallel_state.py: world size is TP × PP; attention CP lies inside of TP too."""
        found = inner_ranks.ranks(layout, model, devices)
        attention = max(1, found.attention_tp // layout.pcp)
        local = found.gpus // layout.nnodes if found.gpus % layout.nnodes == 0 else None
        return replace(
            found,
            gpus_per_pod=None if layout.executor is not None else local,
            attention_tp=attention,
            moe_tp=layout.moe_tp or found.moe_tp,
            kv_copies=inner_ranks.kv_copies(attention, layout.dcp, model),
        )

    def releases(self) -> tuple[str, ...]:
        return tuple(table()["releases"])

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        return Layout(
            tp=tp * attention_dp, pp=pp, dp=dp, attention_dp=attention_dp, ep=ep, dcp=dcp
        )  # fmt: skip

    def balancing(self, plan: ServingPlan) -> Router | None:
        return balancing.of_sglang(plan)

    def publishes(self, plan: ServingPlan) -> bool | None:
        return balancing.publishes(plan)

    def memory(self, release: str) -> MemoryRules | None:
        return SGLangMemory(release)

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        found = sglang_constraints.constraints(model, ranks, layout, options, device)
        return (item for item in found if options.reaches(item.since, item.until))

    # --------------------------------------------------------------------------------- options

    def flag_name(
        self, field: str, like: str = "", releases: Known[Releases] | None = None
    ) -> str | None:
        field = {"gpu_memory_utilization": "share"}.get(field, field)
        return self.table.option_for(field, like, releases)

    def arguments(self, layout: Layout, release: str) -> tuple[str, ...] | None:
        """Before attention DP had an option of its own, a switch made it of --dp-size."""
        one = Releases(release, release)
        if layout.attention_dp == 1 or self.flag_name("attention_dp", releases=Known.of(one)):
            return super().arguments(layout, release)
        rest = super().arguments(replace(layout, attention_dp=1), release)
        if rest is None or layout.dp > 1 or not one.meets(sglang_settings.OWN_WIDTH_SINCE, None):
            return None
        return (*rest, "--dp-size", str(layout.attention_dp), sglang_settings.DP_SWITCH)

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        return None

    # ------------------------------------------------------------------------ what is around it

    def group_nodes(self, layout: Layout, ranks: Ranks, per_node: int | None) -> int | None:
        """entrypoints/engine.py: a node takes whole stages, or a part of one.

        Attention is shared by consecutive ranks, fewer than those of TP where it is data parallel.
        """
        if layout.executor is not None:
            return None
        stage = max(1, layout.nnodes // layout.pp)
        each = max(1, layout.tp // stage)
        group = layout.tp if layout.attention_dp == 1 else ranks.attention_tp
        return max(1, -(-group // each))

    def shared_memory(self, layout: Layout, ranks: Ranks) -> SharedMemory | None:
        """A message queue for the ranks of one node; their collectives need more."""
        if layout.executor is not None or ranks.world_size == 1:
            return None
        local = ranks.gpus_per_pod
        if local is None or local < 2:
            return None
        return SharedMemory(processes=local, least=QUEUE * 4, ample=QUEUE * 4 * local)

    def peer_option(self, plan: ServingPlan) -> str | None:
        """custom_all_reduce.py believes the driver, unless it is asked to try."""
        tried = any(flag.flag == PEER_OPTION for flag in plan.flags)
        off = any(flag.flag == "--disable-custom-all-reduce" for flag in plan.flags)
        return None if tried or off else PEER_OPTION


@record(kw_only=True)
class _Facts:
    """What one reading of a command line says."""

    model: Known[str]
    served_name: Known[str]
    layout: LayoutFacts
    memory: Memory
    options: dict[str, Known[Any]]
    open_ended: str | None


def _tied(layout: LayoutFacts) -> Mapping[str, str]:
    """Options of sizes that mean another one."""
    found: dict[str, str] = {}
    if layout.attention_dp.how == "derived":
        found["dp"] = f"with {sglang_settings.DP_SWITCH} it is the number of attention groups"
    if layout.moe_tp.how == "derived":
        found["ep"] = "experts are spread over all ranks of TP here"
    return MappingProxyType(found)


def _facts(version: Version, launch: Launch, model: Text | None) -> _Facts:
    parsed = version.parsed if launch.config is not None else with_file(version.parsed)
    view = version.view
    options = flags.options(parsed, view)
    options |= {
        name: text.known() for name, text in launch.env.items() if name.startswith("SGLANG_")
    }
    return _Facts(
        model=_reshaped(_model(parsed, model), parsed),
        served_name=parsed.read("--served-model-name", str),
        layout=agreed.doubted(sglang_settings.layout(parsed, view), parsed, view),
        memory=agreed.doubted(sglang_settings.memory(parsed, view), parsed, view),
        options=options,
        open_ended=parsed.incomplete,
    )


def _model(parsed: ParsedWords, model: Text | None) -> Known[str]:
    """Behind `serve` a word takes the place of --model-path, which wins where it comes later."""
    if model is not None and parsed.last("--model-path") is None:
        return model.known()
    return parsed.read("--model-path", str)


def _reshaped(model: Known[str], parsed: ParsedWords) -> Known[str]:
    """The model's name, on the assumption that options do not give it another shape."""
    for flag in parsed.flags:
        if flag.flag == "--json-model-override-args":
            return model.assuming(f"`{flag.flag}` {SHAPE_KEPT}")
    return model


def _makes_pictures(command: tuple[Text, ...], words: tuple[Text, ...]) -> bool:
    """`sglang serve` starts another server for diffusion models, by its kind or its options."""
    if not command or command[-1].value != "serve":
        return False
    kind = _without_kind(words)[1]
    named = {(word.value or "").partition("=")[0] for word in words}
    guessed = not DIFFUSION.isdisjoint(named) and TEXT_ONLY.isdisjoint(named)
    return kind == "diffusion" or (kind is None and guessed)


def _without_kind(words: tuple[Text, ...]) -> tuple[tuple[Text, ...], str | None]:
    """`serve` takes out which kind of server it is to be."""
    kept: list[Text] = []
    kind: str | None = None
    at = 0
    while at < len(words):
        value = words[at].value or ""
        if value == KIND and at + 1 < len(words):
            kind, at = words[at + 1].value, at + 1
        elif value.startswith(f"{KIND}="):
            kind = value.partition("=")[2]
        else:
            kept.append(words[at])
        at += 1
    return tuple(kept), kind
