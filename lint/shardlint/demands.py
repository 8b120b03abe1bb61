"""What a plan asks of a GPU's memory, in every world that its facts allow.

The bridge from a `ServingPlan`, whose facts are `Known`, to the terms of `footprint` and `sizing`,
which are numbers of one world. For rules and reports alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from shardlint.footprint import Settings
from shardlint.known import Known, combine
from shardlint.plan import Device, Layout, ModelFacts, Releases, ServingPlan
from shardlint.record import record

DIRECT: Final = (
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "dtype", "quantization",
    "kv_cache_dtype", "block_size", "enforce_eager", "prefix_caching", "chunked_prefill", "draft",
    "draft_tokens", "offload", "max_loras", "max_lora_rank", "whole_tower", "text_only",
    "capture_sizes",
)  # fmt: skip
"""Facts of `Memory` that `Settings` has by the same name."""
DEFAULTS: Final = Settings()


@record(kw_only=True)
class Demand:
    """All that decides the memory of a plan, in one world."""

    settings: Settings
    layout: Layout
    model: ModelFacts
    device: Device
    releases: Releases


def settings_of(plan: ServingPlan) -> Known[Settings]:
    """The settings that a plan states; what is not stated is at the default of `Settings`.

    Unknown as soon as one of them is stated and its value is not known.
    """
    memory = plan.memory
    facts: dict[str, Known[Any]] = {name: getattr(memory, name) for name in DIRECT}
    facts |= {"share": memory.budget.share, "kv_bytes": memory.budget.bytes}
    variables = sorted(memory.variables)
    filled = [_or(fact, getattr(DEFAULTS, name)) for name, fact in facts.items()]

    def made(*values: Any) -> Settings:
        own = dict(zip(facts, values[: len(facts)], strict=True))
        extra: Mapping[str, str] = dict(zip(variables, values[len(facts) :], strict=True))
        return Settings(**own, extra=MappingProxyType(extra))

    return combine(made, *filled, *(memory.variables[name] for name in variables))


def demand_of(plan: ServingPlan) -> Known[Demand]:
    """What decides the memory of a plan; unknown with the reason for the first that is missing."""
    return combine(
        lambda model, layout, device, releases, settings: Demand(
            settings=settings, layout=layout, model=model, device=device, releases=releases
        ),
        plan.model_facts,
        plan.effective.world(),
        _because(plan.placement.gpu, "the card is not stated"),
        _because(plan.versions, "the release is not known"),
        settings_of(plan),
    )


def _or(fact: Known[Any], default: Any) -> Known[Any]:
    return fact.or_default(Known.of(default, how="defaulted"))


def _because(fact: Known[Any], reason: str) -> Known[Any]:
    """A fact that is not stated, with words that say which one."""
    return Known.unknown(reason) if fact.is_unset else fact
