"""LMDeploy: two backends, whose ranks differ as soon as there is more than tensor parallelism.

Facts: lmdeploy, sections 1 to 4. Read in the wheels 0.7.0 to 0.18.0 (of each minor release one):
turbomind/turbomind.py and turbomind/deploy, later turbomind/parallel_config.py and
turbomind/builders; pytorch/config.py, pytorch/configurations/builder.py, pytorch/nn; messages.py.
Without `--backend`, TurboMind runs the models that it knows and PyTorch all others.

With data parallelism, TurboMind looks at the number of GPUs to decide what it means; the PyTorch
backend never multiplies by it. What is not the same for all that may run is not judged.

How scales are cut was read in 0.4.2, 0.5.3 and 0.6.0 (turbomind/deploy/target_model) and in 0.7.0,
0.10.0 and 0.11.1 (pytorch/nn/moe).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Any, ClassVar, Final

from shardlint.engines.lmdeploy_memory import LMDeployMemory
from shardlint.engines.tabled import TabledEngine, shares
from shardlint.engines.widths import in_full_precision, rest, scaled, whole_if_cut, with_scales
from shardlint.footprint import MemoryRules
from shardlint.known import Known
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    Flag,
    Launch,
    Layout,
    ModelFacts,
    Options,
    Ranks,
    Reading,
    Refused,
    Releases,
    ServingPlan,
    at_most,
    divides,
    divides_either,
)

HEADS, KV_HEADS = "tp-heads-indivisible", "tp-kv-heads-indivisible"
EXPERTS, CONFLICT = "experts-indivisible", "flag-conflict"
GROUPS, BLOCKS = "quant-group-misaligned", "quant-block-misaligned"
REFUSAL, DEATH = "refuses to start", "dies while it starts"

TURBOMIND, PYTORCH = "turbomind", "pytorch"
SOLVED_SINCE: Final = "0.16.0"
"""The first release that was read with parallel_config.py."""
SHARE_CHECKED_SINCE: Final = "0.16.0"
"""turbomind.cc refuses a number of blocks in place of a share; older releases may take one."""
GROUPS_PADDED_SINCE: Final = "0.6.0"
"""deploy/target_model: the MLP is padded to whole groups on each rank; 0.4.2 and 0.5.3 assert."""
BLOCKS_ALIGNED_SINCE: Final = "0.11.0"
"""pytorch/nn/moe: ranks get whole blocks, more or fewer of them; 0.7.0 and 0.10.0 do not load."""
AWQ: Final = ("awq", "auto_awq", "gptq", "auto_gptq")

_SIZES = ("tp", "dp", "ep", "pcp", "nnodes", "executor")
_SIXTEEN = ("float16", "bfloat16", "auto")


class LMDeploy(TabledEngine):
    """The engine as shardlint asks it; `Layout.executor` is the backend that is asked for."""

    judged: ClassVar = {
        HEADS: _SIZES,
        KV_HEADS: _SIZES,
        "kv-replication": _SIZES,
        EXPERTS: _SIZES,
        GROUPS: _SIZES,
        BLOCKS: _SIZES,
        CONFLICT: _SIZES,
        "gpu-count-short": _SIZES,
        "gpu-count-surplus": _SIZES,
        "gpu-count-unknown": (),
    }

    def __init__(self) -> None:
        super().__init__("lmdeploy", "LMDeploy", "lmdeploy")

    def read(self, launch: Launch, releases: Known[Releases]) -> Reading | None:
        found = super().read(launch, releases)
        if found is None:
            return None
        backend = found.options.get("backend", Known.unset())
        policy = found.options.get("quant_policy", Known.unset())
        memory = replace(found.memory, kv_cache_dtype=policy.map(_policy))
        if memory.quantization.is_unset:
            memory = replace(memory, quantization=found.options.get("model_format", Known.unset()))
        return replace(
            found,
            memory=replace(memory, quantization=_quantization(memory.quantization)),
            layout=replace(found.layout, executor=backend),
            refused=(*found.refused, *_share(found.flags, self.flags_of("share"), backend,
                                             releases)),
        )  # fmt: skip

    # --------------------------------------------------------------------------------- ranks

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        """With TP alone both backends do the same; for the rest see `world_of`."""
        world = world_of(layout, devices)
        attention = attention_of(layout, world)
        inside = layout.ep is not False and int(layout.ep) > 1
        ep = int(layout.ep) if inside else 1
        wide = world or _wide(layout, devices) or max(layout.tp, ep)
        return Ranks(
            gpus=wide,
            gpus_per_pod=None if world is None else -(-world // layout.nnodes),
            world_size=wide,
            engines=1,
            attention_tp=attention or layout.tp,
            attention_dp=1,
            dense_tp=layout.tp,
            moe_tp=1 if inside else layout.tp,
            ep=ep,
            pp=1,
            kv_copies=_kv_copies(attention, model),
            coupled=1,
            visible_devices=devices,
        )

    def flag_name(
        self, field: str, like: str = "", releases: Known[Releases] | None = None
    ) -> str | None:
        """Data and expert parallelism are left alone: another backend means something else."""
        return None if field in ("dp", "ep") else super().flag_name(field, like, releases)

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        return Layout(tp=tp * attention_dp, pp=pp, dp=dp, ep=ep)

    def releases(self) -> tuple[str, ...]:
        return self.table.releases

    def memory(self, release: str) -> MemoryRules | None:
        return LMDeployMemory(release)

    def dtype_bytes(self, plan: ServingPlan, model: ModelFacts) -> int | None:
        plain = plan.memory.kv_cache_dtype.is_unset and model.quantization == {}
        return 2 if plain and model.torch_dtype in (*_SIXTEEN, None) else None

    def constraints(
        self,
        model: ModelFacts | None,
        ranks: Ranks,
        layout: Layout,
        options: Options = NO_OPTIONS,
        device: Device | None = None,
    ) -> Iterator[Constraint]:
        found = _constraints(model, ranks, layout, options)
        return (item for item in found if options.reaches(item.since, item.until))


# ------------------------------------------------------------------------------------- reading


def _policy(word: Any) -> str:
    """What `--quant-policy` makes of the KV cache."""
    kinds = {"0": "auto", "4": "int4", "8": "int8", "16": "fp8", "17": "fp8_e5m2"}
    return kinds.get(str(word), str(word))


def _quantization(word: Known[Any]) -> Known[str]:
    """`hf` is how the checkpoint is laid out, and says nothing of its numbers."""
    return Known.unset() if word.only == "hf" else word.map(str)


def _share(
    flags: Sequence[Flag],
    names: Sequence[str],
    backend: Known[Any],
    releases: Known[Releases],
) -> Iterator[Refused]:
    """A share of 1 or more is refused, but for older releases that took a number of blocks."""
    checked = any(each.meets(SHARE_CHECKED_SINCE, None) for each in releases.values)
    if releases.values and not checked and backend.only != PYTORCH:
        return
    newer = all(each.within(SHARE_CHECKED_SINCE, None) for each in releases.values)
    certain = backend.only == PYTORCH or (newer and bool(releases.values))
    yield from shares(flags, names, most=1, below=True, certain=certain,
                      says="invalid cache_max_entry_count")  # fmt: skip


# --------------------------------------------------------------------------------------- ranks


def _alone(layout: Layout) -> bool:
    """Nothing but tensor parallelism is asked for."""
    return layout.dp == 1 and layout.pcp == 1 and _ep(layout) == 1


def _ep(layout: Layout) -> int:
    return layout.tp if layout.ep is True else max(1, int(layout.ep))


def world_of(layout: Layout, devices: int | None) -> int | None:
    """All GPUs of one server; None where it hangs on what is not known.

    PyTorch: DistConfig. TurboMind: the largest number of GPUs that is there and gives a layout.
    """
    if _alone(layout):
        return layout.tp
    if layout.executor == PYTORCH:
        return _ep(layout) if _ep(layout) > 1 else layout.tp
    if layout.executor == TURBOMIND and devices is not None:
        return solved(layout, devices * layout.nnodes)
    return None


def _wide(layout: Layout, devices: int | None) -> int | None:
    """GPUs of TurboMind, the default, where only the model decides between the backends."""
    if layout.executor is not None and layout.executor != TURBOMIND:
        return None
    return solved(layout, None if devices is None else devices * layout.nnodes)


MOST_GPUS = 2**16
"""No machine has so many: nothing is looked for among them."""


def solved(layout: Layout, available: int | None) -> int | None:
    """parallel_config.py: the number of GPUs that TurboMind takes, None if there is no layout."""
    ep = _ep(layout)
    total = layout.dp * layout.tp * gcd(layout.pcp, ep)
    most = total if available is None else min(total, available)
    if total > MOST_GPUS:
        return None
    for count in range(most, 0, -1):
        if total % count == 0 and _lays_out(layout, ep, count):
            return count
    return None


def _lays_out(layout: Layout, ep: int, count: int) -> bool:
    """Attention takes DP × TP × CP ranks, experts outer DP × EP × TP, and one TP is whole."""
    attention, rest = divmod(count, layout.dp * layout.pcp)
    if rest or not attention or layout.tp % attention:
        return False
    for outer in range(1, layout.dp + 1):
        if layout.dp % outer or count % (outer * ep):
            continue
        inner = count // (outer * ep)
        if layout.tp % inner == 0 and layout.tp in (attention, inner):
            return True
    return False


def attention_of(layout: Layout, world: int | None) -> int | None:
    """Ranks that share the heads of one layer."""
    if world is None:
        return None
    return max(1, world // (layout.dp * layout.pcp))


def _kv_copies(attention: int | None, model: ModelFacts | None) -> int | None:
    if attention is None or model is None or not model.kv_heads or model.mla:
        return None
    return max(1, attention // model.kv_heads)


# ---------------------------------------------------------------------------------- constraints


def _constraints(
    model: ModelFacts | None, ranks: Ranks, layout: Layout, options: Options
) -> Iterator[Constraint]:
    world = world_of(layout, ranks.visible_devices)
    attention = attention_of(layout, world)
    if model is not None and attention is not None:
        yield from _heads(model, attention)
        yield from _scales(model, ranks, layout, attention)
    if model is not None and model.num_experts and _ep(layout) > 1:
        yield Constraint(
            rule=EXPERTS, subject="experts", left=model.num_experts, right=_ep(layout),
            test=divides, refusal="must be divisible by", consequence=DEATH, cures=(),
            refusal_since=SOLVED_SINCE, places=("layout.ep",), facts=("num_experts",),
            since=SOLVED_SINCE if layout.executor != PYTORCH else None,
            sentence="{left} experts do not divide over {right} ranks of expert parallelism",
        )  # fmt: skip
    yield from _parallel(ranks, layout, options)
    yield from _own(layout, options)
    if ranks.visible_devices is not None and ranks.gpus_per_pod is not None:
        yield Constraint(
            rule="gpu-count-short", subject="GPUs", left=ranks.gpus_per_pod,
            right=ranks.visible_devices, test=at_most, refusal="", consequence=DEATH,
            cures=("tp",),
        )  # fmt: skip


def _heads(model: ModelFacts, attention: int) -> Iterator[Constraint]:
    """Both backends ask the same in every release that was opened, mostly without any words."""
    if model.attention_heads:
        yield Constraint(
            rule=HEADS, subject="attention heads", left=model.attention_heads, right=attention,
            test=divides, refusal="", consequence=DEATH, cures=("tp",), facts=("attention_heads",),
        )  # fmt: skip
    if model.kv_heads and not model.mla:
        yield Constraint(
            rule=KV_HEADS, subject="KV heads", left=model.kv_heads, right=attention,
            test=divides_either, refusal="", consequence=DEATH, cures=("tp",), facts=("kv_heads",),
        )  # fmt: skip


def _scales(
    model: ModelFacts, ranks: Ranks, layout: Layout, attention: int
) -> Iterator[Constraint]:
    """Older releases cut scales as evenly as the weights that they belong to."""
    quantization = model.quantization or {}
    block, group = quantization.get("weight_block_size"), quantization.get("group_size")
    grouped = quantization.get("method") in AWQ and isinstance(group, int) and group > 0
    for item in scaled(model):
        if in_full_precision(model, item.part):
            continue
        if grouped and isinstance(group, int) and layout.executor != PYTORCH and not model.moe:
            yield Constraint(
                rule=GROUPS, subject=item.subject, left=item.size, right=attention * group,
                test=whole_if_cut(attention), refusal="", consequence=DEATH, cures=("tp",),
                facts=with_scales(item.facts), until=GROUPS_PADDED_SINCE,
                sentence=rest(item, attention, group, f"quantization groups of {group}"),
            )  # fmt: skip
        if block and item.split == "experts" and layout.executor == PYTORCH:
            parts, rows = ranks.moe_tp, block[0]
            yield Constraint(
                rule=BLOCKS, subject=item.subject, left=item.size, right=parts * rows,
                test=whole_if_cut(parts), refusal="", consequence=DEATH, cures=("tp",),
                facts=with_scales(item.facts), until=BLOCKS_ALIGNED_SINCE,
                sentence=rest(item, parts, rows, f"quantization blocks of {rows}"),
            )  # fmt: skip


def _parallel(ranks: Ranks, layout: Layout, options: Options) -> Iterator[Constraint]:
    ep = _ep(layout)
    if layout.executor == TURBOMIND and not _alone(layout):
        devices = ranks.visible_devices
        there = None if devices is None else devices * layout.nnodes
        yield Constraint(
            rule=CONFLICT, subject="layouts", left=int(solved(layout, there) is None), right=0,
            test=at_most, refusal="no valid parallel config", since=SOLVED_SINCE,
            consequence=REFUSAL, cures=(), places=("layout.ep", "layout.dp", "layout.pcp"),
            sentence=f"no number of GPUs gives a layout for DP {layout.dp}, TP {layout.tp},"
            f" EP {ep} and CP {layout.pcp}",
            remedy=f"TP {ep} and EP {ep}" if layout.tp == 1 and layout.dp == 1 else None,
        )  # fmt: skip
        if ep > 1:
            yield Constraint(
                rule=CONFLICT, subject="nodes", left=layout.nnodes, right=1, test=at_most,
                refusal="ep > 1 is only supported in single-node mode", since=SOLVED_SINCE,
                consequence=REFUSAL, cures=(), places=("layout.ep", "layout.nnodes"),
                sentence="expert parallelism is asked for on {left} nodes",
            )  # fmt: skip
    if layout.executor == TURBOMIND and layout.nnodes > 1 and options.sure("dist_init_addr"):
        yield Constraint(
            rule=CONFLICT, subject="nodes", left=1, right=int("dist_init_addr" in options.values),
            test=at_most, refusal="", consequence=REFUSAL, cures=(), places=("layout.nnodes",),
            sentence=f"{layout.nnodes} nodes do not find each other without `--dist-init-addr`",
        )  # fmt: skip
    if layout.executor == PYTORCH and ep > 1 and layout.dp > 1:
        yield Constraint(
            rule=CONFLICT, subject="ranks", left=ep, right=layout.dp, test=divides,
            refusal="ep>1 requires ep % dp == 0", consequence=REFUSAL, cures=(),
            since=SOLVED_SINCE, places=("layout.ep", "layout.dp"),
            sentence="EP {left} does not divide over DP {right}",
        )  # fmt: skip


def _own(layout: Layout, options: Options) -> Iterator[Constraint]:
    """Options against options."""
    values: Mapping[str, Any] = options.values
    if values.get("enable_eplb") is True and _ep(layout) == 1:
        yield Constraint(
            rule=CONFLICT, subject="balancing", left=1, right=0, test=at_most,
            refusal="Enable eplb requires ep > 1", consequence=REFUSAL, cures=(),
            places=("options.enable_eplb",), since=SOLVED_SINCE,
            advisory=layout.executor != PYTORCH or not options.sure("enable_eplb"),
            sentence="experts are to be balanced, and there is no expert parallelism",
        )  # fmt: skip
    if layout.executor == TURBOMIND and str(values.get("quant_policy")) in ("16", "17"):
        yield Constraint(
            rule=CONFLICT, subject="types", left=1, right=0, test=at_most,
            refusal="invalid quant_policy for TurboMind", since=SOLVED_SINCE, consequence=REFUSAL,
            cures=(), places=("options.quant_policy",),
            sentence="TurboMind has no KV cache in FP8",
        )  # fmt: skip
