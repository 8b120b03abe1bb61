"""What a plan asks of a GPU's memory, in every world that its facts allow.

The bridge from a `ServingPlan`, whose facts are `Known`, to the terms of `footprint` and `sizing`,
which are numbers of one world. For rules and reports alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from shardlint.engine import Engine
from shardlint.footprint import MemoryRules, Settings, Sized, Weights
from shardlint.known import Known, combine
from shardlint.models.names import pools
from shardlint.plan import SHAPE_KEPT, Device, Layout, ModelFacts, Releases, ServingPlan, version
from shardlint.record import record
from shardlint.sizing.bands import band
from shardlint.sizing.memory import capacity, footprint, most, on_more
from shardlint.sizing.storage import PLAIN, WIDE, Storage, names_storing, record_of, storage
from shardlint.speeds import Speed

if TYPE_CHECKING:
    from shardlint.sizing.loads import Load, Work
    from shardlint.sizing.throughput import Throughput

DIRECT: Final = (
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "dtype", "quantization",
    "kv_cache_dtype", "block_size", "enforce_eager", "prefix_caching", "chunked_prefill", "draft",
    "draft_tokens", "offload", "max_loras", "max_lora_rank", "whole_tower", "text_only",
    "skip_tower", "max_pixels", "capture_sizes",
)  # fmt: skip
"""Facts of `Memory` that `Settings` has by the same name."""
DEFAULTS: Final = Settings()
ONLINE: Final = ("fp8",)
"""Ways of storing that an engine makes of 16-bit weights while it loads them, all alike."""
MOST_KEPT: Final = 1024


@record(kw_only=True)
class Demand:
    """All that decides the memory of a plan, in one world.

    `online`: the engine is to quantize the weights itself, which the checkpoint has in 16 bits.
    """

    settings: Settings
    layout: Layout
    model: ModelFacts
    device: Device
    releases: Releases
    online: bool = False


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
    """What decides the memory of a plan; unknown with the reason for the first that is missing.

    Rests on how the weights seem to be stored, where only the name of the checkpoint tells it.
    """
    for said in plan.model.assumes:
        if said.endswith(SHAPE_KEPT):
            what = said.removesuffix(SHAPE_KEPT).strip()
            return Known.unknown(f"{what} may give the model another shape", plan.model.origin)
    if plan.placement.device_kind.only == "shared":
        at = plan.placement.device_kind.origin
        return Known.unknown("how much of the card a share has is not known", at)
    if plan.foreign is not None:
        return Known.unknown(f"how an engine uses the memory of {plan.foreign} was not read")
    found = _demanded(plan)
    for demand in found.values:
        model, word = demand.model, demand.settings.quantization
        if model.quantization is None and plan.stored_as is None and not word:
            reason = f"how the weights of {model.id} are stored is not known"
            return Known.unknown(reason, plan.model.origin)
        if model.quantization == {} and word and not names_storing(word):
            reason = f"how the engine stores weights as `{word}` is not known"
            return Known.unknown(reason, plan.memory.quantization.origin)
        for said in _stored(plan, demand)[1]:
            found = found.assuming(said)
    if revision := _branch(plan):
        found = found.assuming(f"revision {revision} is stored as the usual one is")
    return found.map(lambda demand: _completed(plan, demand))


def _branch(plan: ServingPlan) -> str | None:
    """A revision that is stated: branches often hold weights that are stored otherwise."""
    for flag in plan.flags:
        if flag.flag == "--revision" and flag.value is not None:
            word = flag.value.value or "that is not known"
            return None if word == "main" else word
    return None


def _completed(plan: ServingPlan, demand: Demand) -> Demand:
    settings = demand.settings
    if settings.pooling is None and pools(demand.model.id):
        settings = replace(settings, pooling=True)
    online = is_online(demand.model.quantization, settings.quantization)
    model = _stored(plan, demand)[0]
    return replace(demand, model=model, settings=settings, online=online)


def is_online(own: Mapping[str, Any] | None, word: str | None) -> bool:
    """Whether an engine is asked to quantize weights that the checkpoint has in 16 bits."""
    return own == {} and (word or "").lower() in ONLINE


def _stored_as(demand: Demand, word: str) -> Demand:
    """The demand with an engine that quantizes weights which the checkpoint has in 16 bits."""
    own = demand.model.quantization
    model = replace(demand.model, quantization=record_of(word, own)[0])
    return replace(demand, model=model, online=is_online(own, word))


def _stored(plan: ServingPlan, demand: Demand) -> tuple[ModelFacts, tuple[str, ...]]:
    """The model as its weights are stored, and what that rests on."""
    model, word = demand.model, demand.settings.quantization
    said: tuple[str, ...] = ()
    own = model.quantization
    if own is None and plan.stored_as is not None:
        own, said = plan.stored_as, (f"the weights of {model.id} are stored as its name says",)
    record_, more = record_of(word, own)
    told = (more,) if more and not is_online(own, word) else ()
    return replace(model, quantization=record_), (*said, *told)


def _demanded(plan: ServingPlan) -> Known[Demand]:
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


# --------------------------------------------------------------------------------------- sizes

WIDE_TYPES: Final = ("float", "float32", "fp32")


class Sizer:
    """What one GPU holds of a demand, by possible release; what was asked before is kept."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._rules: dict[str, MemoryRules | None] = {}
        self._kept: dict[Hashable, tuple[Sized, ...]] = {}
        self._works: dict[int, tuple[ModelFacts, Work]] = {}

    def sized(
        self, demand: Demand, layout: Layout | None = None, changes: Mapping[str, Any] | None = None
    ) -> tuple[Sized, ...]:
        """One for each span of releases that use memory alike; empty where something is unknown."""
        layout = layout or demand.layout
        settings = replace(demand.settings, **changes) if changes else demand.settings
        if changes and "quantization" in changes:
            demand = _stored_as(demand, changes["quantization"])
        key = (_key(demand), layout, _key_of(settings))
        if key not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = tuple(self._made(demand, layout, settings))
        return self._kept[key]

    def speeds(
        self, demand: Demand, layout: Layout, isl: int, osl: int, concurrency: int | None
    ) -> tuple[Speed, ...]:
        """One for each of `sized`; empty where one of them is not modelled."""
        from shardlint.sizing.loads import Load, load
        from shardlint.sizing.throughput import Throughput, Workload, throughput

        model, ranks = demand.model, self.engine.ranks(layout, demand.model, None)
        own, found = self._work(model), []
        for sized in self.sized(demand, layout):
            longest = sized.made.settings.max_model_len
            if longest is not None and isl + osl > longest:
                return ()
            one = load(model, own, ranks, layout, sized.made, demand.device, self.engine.name)
            given = Workload(isl, osl, concurrency)
            speed = throughput(one, given) if isinstance(one, Load) else None
            if not isinstance(one, Load) or not isinstance(speed, Throughput):
                return ()
            found.append(_speed(sized.release, one, speed, osl))
        return tuple(found)

    def _work(self, model: ModelFacts) -> Work:
        """What a model computes, put together once."""
        from shardlint.sizing.loads import work

        kept = self._works.get(id(model))
        if kept is None or kept[0] is not model:
            kept = self._works[id(model)] = (model, work(model))
        return kept[1]

    def _made(self, demand: Demand, layout: Layout, settings: Settings) -> Iterator[Sized]:
        device, model = demand.device, demand.model
        total, largest = capacity(device), most(device)
        if total is None or largest is None or not model.weights:
            return
        if layout.pp > (model.num_layers or layout.pp):
            return  # stages that hold nothing: no engine is set up like that
        ranks = self.engine.ranks(layout, model, None)
        plain = WIDE if (settings.dtype or "").lower() in WIDE_TYPES else PLAIN
        stored: Storage = storage(model.quantization, plain)
        raw = storage({}, plain) if demand.online else None
        found: list[Sized] = []
        held: dict[Hashable, Weights] = {}
        for release, rules in self._releases(demand.releases, model):
            made = footprint(
                model, ranks, layout, settings, rules, stored, device, total,
                held.get(rules.cuts), raw,
            )  # fmt: skip
            if made is None or made.weights.unknown or made.cache is None:
                return
            held[rules.cuts] = made.weights
            margin, generous = band(model, made), on_more(made, largest)
            found.append(Sized(release=release, made=made, generous=generous, band=margin))
        yield from found

    def _releases(self, span: Releases, model: ModelFacts) -> Iterator[tuple[str, MemoryRules]]:
        """The first release of each row of releases with the same rules, of those that know the
        class of the model."""
        known = [
            (release, rules)
            for release in within(span, self.engine.releases())
            if (rules := self._of(release)) is not None
        ]
        serving = [item for item in known if item[1].serves(model)]
        last: Any = None
        for release, rules in serving:
            if rules.key != last:
                last = rules.key
                yield release, rules

    def _of(self, release: str) -> MemoryRules | None:
        if release not in self._rules:
            self._rules[release] = self.engine.memory(release)
        return self._rules[release]


def _speed(release: str, of: Load, speed: Throughput, osl: int) -> Speed:
    low, high = speed.range
    steps = sum(seconds for name, seconds in speed.parts.items() if name != "prefill")
    return Speed(
        release=release, gpus=of.gpus, batch=speed.batch, tok_s=speed.tok_s, tpot_ms=speed.tpot_ms,
        step_ms=1e3 * steps / osl, measured=speed.grade == "measured", why=speed.why,
        low=low / speed.tok_s, high=high / speed.tok_s,
    )  # fmt: skip


def _key(demand: Demand) -> Hashable:
    """Equal for demands that come to the same, whichever plan they are of."""
    model, device = demand.model, demand.device
    shape = (model.id, model.params_total, model.kv_groups, model.vocab_size, model.hidden_size)
    lengths = (model.default_context, model.least_context)
    card = (device.name, device.memory_mib, device.mem_gb, device.link)
    return shape, lengths, str(model.quantization), demand.online, card, demand.releases


def _key_of(settings: Settings) -> Hashable:
    plain = [item.name for item in fields(Settings) if item.name != "extra"]
    values = tuple(getattr(settings, name) for name in plain)
    return values, tuple(sorted(settings.extra.items()))


def within(span: Releases, known: tuple[str, ...]) -> Iterator[str]:
    """Releases that judge a span: its first one, those opened in it, and one that closes it.

    A change is known to be no later than the release that it was read in. One that was not opened
    is therefore judged by itself, with what is surely older, and by the next that was opened.
    """
    low, high = version(span.first), version(span.last)
    assert low is not None and high is not None
    opened = [(one, found) for one in known if (found := version(one)) is not None]
    if any(found <= low for _, found in opened):
        yield next((one for one, found in opened if found == low), span.first)
    yield from (one for one, found in opened if low < found <= high)
    older = [found for _, found in opened if found <= high]
    if older and high not in older:
        yield from [one for one, found in opened if found > high][:1]
