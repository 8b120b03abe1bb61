"""From a question, or a plan, to what one GPU holds of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from shardlint.demands import Demand, demand_of, is_online
from shardlint.engine import Engine, refuses
from shardlint.estimates.asked import Asked, EstimateError, shown
from shardlint.estimates.lookups import Said, card_of, model_of, release_of, release_within
from shardlint.footprint import Band, Footprint, MemoryRules, Settings
from shardlint.models.names import pools
from shardlint.plan import Device, Layout, ModelFacts, Options, Ranks, Releases, ServingPlan
from shardlint.project import Setup
from shardlint.record import record
from shardlint.sizing.bands import band
from shardlint.sizing.loads import Load, NotModelled, load, work
from shardlint.sizing.memory import capacity, footprint
from shardlint.sizing.storage import PLAIN, WIDE, Scheme, Storage, record_of, storage
from shardlint.sizing.throughput import Throughput, Workload, throughput

Verdict: TypeAlias = Literal["fits", "tight", "does_not_fit"]

DEFAULT_ENGINE: Final = "vllm"
SIXTEEN_BITS: Final = ("auto", "half", "float16", "fp16", "bfloat16", "bf16")
WIDE_TYPES: Final = ("float", "float32", "fp32")
KV_TYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "none": "auto"}
"""Other words for the types of a KV cache."""
LARGE_PARTS: Final = frozenset({"attention", "dense_ffn", "expert", "linear_attention"})
"""Parts of a model without which its weights say nothing."""
NO_WORKLOAD: Final = NotModelled(why="isl and osl are not stated")
USUAL_LENGTH: Final = 8192
"""Tokens of the longest request of a question that says nothing of it, for a model that neither."""
MOST_KEPT: Final = 4096
"""Answers to look-ups that are kept for the next line of a batch."""

SHARES: Final[Mapping[str, tuple[str, ...]]] = {
    "total": ("gpu_memory_utilization",),
    "free_before_load": ("mem_fraction_static", "gpu_memory_utilization"),
    "free_after_load": ("gpu_memory_utilization", "mem_fraction_static"),
}
"""Keys that state the share of memory, by what it is a share of; the first that is stated counts.
A share of what is left after loading goes by either name."""


@record(kw_only=True)
class Estimate:
    """What one GPU holds, the fullest of its replica.

    `gpus` are those of one replica, `dp_ranks` its KV caches. `max_context` is the longest request,
    in tokens, that the cache holds and the model takes; None where the cache is not known.
    `refused`: the engine does not start so. `load` is what one GPU does, `speed` how fast that is
    under the workload that is asked for.
    """

    asked: Asked | None
    model: ModelFacts
    device: Device
    engine: str
    release: str
    layout: Layout
    ranks: Ranks
    made: Footprint
    band: Band
    fits: bool
    verdict: Verdict
    max_context: int | None
    refused: bool
    load: Load | NotModelled
    speed: Throughput | NotModelled
    assumptions: tuple[str, ...]

    @property
    def replicas(self) -> int:
        return (self.asked.replicas if self.asked is not None else None) or 1

    @property
    def gpus(self) -> int:
        return self.ranks.gpus

    @property
    def dp_ranks(self) -> int:
        return self.layout.dp * self.layout.attention_dp

    def requests(self, tokens: int) -> float | None:
        """Requests of that many tokens that one replica holds at the same time."""
        if self.made.cache is None or tokens < 1:
            return None
        return self.made.cache.concurrency(max(0, self.made.kv), tokens) * self.dp_ranks


class Estimator:
    """Answers questions one after the other; what they share is looked up once."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._kept: dict[Any, Any] = {}

    def estimate(self, asked: Asked) -> Estimate:
        """Raises EstimateError for what cannot be answered."""
        engine = self._engine(asked.engine or DEFAULT_ENGINE)
        release, said_release = self._once(
            release_of, engine.releases(), asked.engine_version, engine.label
        )
        rules = self._rules(engine, release)
        facts, said_model = self._once(model_of, self.setup, asked.model)
        device, total, said_card = self._once(card_of, self.setup, asked.gpu, asked.gpu_mem_gib)
        layout = _layout(asked, engine, facts)
        settings, said_settings = _settings(asked, rules, facts)
        if pools(asked.model):
            settings = replace(settings, pooling=True)
            said_settings += ("by its name, the model samples no tokens",)
        said_layout = _said_layout(asked, layout, engine.ranks(layout, facts, None))
        said = (*said_release, *said_card, *said_model, *said_settings, *said_layout)
        made = self._sized(engine, release, facts, layout, settings, device, total, said)
        return self._timed(replace(made, asked=asked), engine.name)

    def of_demand(self, engine: Engine, demand: Demand, said: Said = ()) -> Estimate:
        """The same for what a plan demands."""
        total = capacity(demand.device)
        if total is None:
            raise EstimateError(f"the memory of {demand.device.name} is not known")
        if not engine.releases():
            raise EstimateError(f"memory of {engine.label} is not modelled")
        release, said_release = release_within(
            engine.releases(), (demand.releases,), engine.label
        )  # fmt: skip
        said = (*said, *said_release, *sorted(demand.model.doubts(())))
        return self._sized(
            engine, release, demand.model, demand.layout, demand.settings, demand.device, total,
            said, demand.online,
        )  # fmt: skip

    # --------------------------------------------------------------------------------- parts

    def _once(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a look-up gives, kept for the next question; a mistake is kept too."""
        key = (function, *arguments[1:]) if arguments[0] is self.setup else (function, *arguments)
        if key not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            try:
                self._kept[key] = function(*arguments)
            except EstimateError as error:
                self._kept[key] = error
        found = self._kept[key]
        if isinstance(found, EstimateError):
            raise EstimateError(str(found))
        return found

    def _engine(self, name: str) -> Engine:
        engine = self.setup.engine(name.lower())
        if engine is None:
            known = ", ".join(item.name for item in self.setup.engines if item.releases())
            raise EstimateError(f"engine: {shown(name)} is not known; known are {known}")
        if not engine.releases():
            raise EstimateError(f"memory of {engine.label} is not modelled")
        return engine

    def _rules(self, engine: Engine, release: str) -> MemoryRules:
        key = (engine.name, release)
        if key not in self._kept:
            self._kept[key] = engine.memory(release)
        rules: MemoryRules | None = self._kept[key]
        if rules is None:
            raise EstimateError(f"memory of {engine.label} is not modelled")
        return rules

    def _sized(
        self,
        engine: Engine,
        release: str,
        facts: ModelFacts,
        layout: Layout,
        settings: Settings,
        device: Device,
        total: int,
        said: Said,
        online: bool = False,
    ) -> Estimate:
        rules = self._rules(engine, release)
        settings, said_length = _with_length(settings, facts)
        stored = _Stored(facts, settings.quantization, settings.dtype)
        key = (id(facts), stored.word, stored.dtype)
        online = online or is_online(facts.quantization, settings.quantization)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not facts:
            kept = self._kept[key] = (facts, *stored.made())
        model, storage_, said_storage = kept[1:]
        if model.quantization == facts.quantization:  # the words say what the checkpoint says
            settings = replace(settings, quantization=None)
        ranks = engine.ranks(layout, model, None)
        raw = storage({}, stored.plain) if online else None
        made = footprint(model, ranks, layout, settings, rules, storage_, device, total, raw=raw)
        if made is None:
            what = f"model: the weights of {facts.id} are not known matrix by matrix"
            share = f"the share of memory that {engine.label} {release} uses is not known"
            raise EstimateError(share if facts.weights and facts.num_layers else what)
        if lost := LARGE_PARTS & made.weights.unknown:
            parts = ", ".join(sorted(lost))
            raise EstimateError(f"how these weights of {facts.id} are stored is not known: {parts}")
        margin = band(model, made)
        said_refusal = _said_refusal(engine, release, layout, model, device)
        return Estimate(
            asked=None,
            model=model,
            device=device,
            engine=engine.label,
            release=release,
            layout=layout,
            ranks=ranks,
            made=made,
            band=margin,
            fits=_slack(made) >= 0,
            verdict=_verdict(made, margin),
            max_context=_longest(made, model),
            refused=bool(said_refusal),
            load=NO_WORKLOAD,
            speed=NO_WORKLOAD,
            assumptions=tuple(
                dict.fromkeys(
                    (*said, *said_length, *said_storage, *made.assumes, *_said_of(made),
                     *said_refusal)
                )
            ),
        )  # fmt: skip

    def _timed(self, found: Estimate, engine: str) -> Estimate:
        """With the speed under the workload that is asked for."""
        asked = found.asked
        if asked is None or not (asked.isl and asked.osl):
            return found
        made, model = found.made, found.model
        key = ("work", id(model))
        kept = self._kept.get(key)
        if kept is None or kept[0] is not model:
            kept = self._kept[key] = (model, work(model))
        length, longest = asked.isl + asked.osl, made.settings.max_model_len
        if longest is not None and length > longest:
            why = f"requests of {length:,} tokens are longer than the longest of {longest:,}"
            return _without(found, why)
        verdict, said = found.verdict, found.assumptions
        if asked.max_model_len is None and verdict != "fits":
            # a shorter longest request could be asked for: that of the workload
            short = replace(made, settings=replace(made.settings, max_model_len=length))
            verdict = _verdict(short, found.band)
            said += (f"for throughput, the longest request is taken to have {length:,} tokens",)
        if found.refused:
            return _without(found, "the engine does not take this layout")
        if verdict == "does_not_fit":
            return _without(found, "it does not fit")
        # where it is doubtful whether it fits, so much is left as in the best case
        free = made.kv + found.band.above if verdict == "tight" else None
        one = load(model, kept[1], found.ranks, found.layout, made, found.device, engine, free)
        if isinstance(one, NotModelled):
            return _without(found, one.why)
        speed = throughput(one, Workload(asked.isl, asked.osl, asked.concurrency))
        if asked.concurrency is None:
            said += ("concurrency is not stated: as many requests as fit are taken",)
        return replace(found, load=one, speed=speed, assumptions=said)


def _without(found: Estimate, why: str) -> Estimate:
    none = NotModelled(why=why)
    return replace(found, load=none, speed=none)


def estimate(setup: Setup, asked: Asked) -> Estimate:
    """The answer to one question; raises EstimateError where there is none."""
    return Estimator(setup).estimate(asked)


def estimate_plan(plan: ServingPlan, setup: Setup) -> Estimate:
    """The memory of a plan, from what is decided of it; raises EstimateError with what is not."""
    engine = setup.engine(plan.engine)
    if engine is None:
        raise EstimateError("memory of no engine is not modelled")
    if not engine.checked:
        raise EstimateError(f"options of {engine.label} are not read")
    demand = demand_of(plan)
    if not demand.is_known:
        raise EstimateError(demand.reason or "not decided")
    only = demand.only
    if only is None:
        raise EstimateError(_open(demand.values))
    return Estimator(setup).of_demand(engine, only, tuple(sorted(demand.assumes)))


OPEN: Final = {
    "model": "the model", "layout": "the layout", "device": "the card",
    "releases": "the release", "settings": "the settings of memory",
}  # fmt: skip


def _open(demands: Sequence[Demand]) -> str:
    """What has several possible values."""
    first = demands[0]
    names = [
        word
        for name, word in OPEN.items()
        if any(getattr(demand, name) != getattr(first, name) for demand in demands)
    ]
    return f"not decided: {', '.join(names)}"


# ------------------------------------------------------------------------------------ the question


def _layout(asked: Asked, engine: Engine, facts: ModelFacts) -> Layout:
    pp = asked.pp or 1
    if facts.num_layers is not None and pp > facts.num_layers:
        raise EstimateError(f"pp: {pp:,} stages for {facts.num_layers} layers")
    return engine.spread(
        tp=asked.tp or 1,
        pp=pp,
        dp=asked.dp or 1,
        attention_dp=asked.attention_dp or 1,
        ep=1 if asked.ep is None else asked.ep,
        dcp=asked.dcp or 1,
    )


def _settings(asked: Asked, rules: MemoryRules, facts: ModelFacts) -> tuple[Settings, Said]:
    names = SHARES[rules.share_of]
    shares = {name: getattr(asked, name) for name in SHARES["free_after_load"]}
    share = next((shares[name] for name in names if shares[name] is not None), None)
    unused = [name for name in shares if name not in names and shares[name] is not None]
    kv = asked.kv_cache_dtype.lower() if asked.kv_cache_dtype else None
    settings = Settings(
        share=share,
        max_model_len=asked.max_model_len,
        max_num_seqs=asked.max_num_seqs,
        max_num_batched_tokens=asked.max_num_batched_tokens,
        dtype=asked.dtype.lower() if asked.dtype else None,
        quantization=asked.quantization,
        kv_cache_dtype=KV_TYPES.get(kv, kv) if kv else None,
        enforce_eager=asked.enforce_eager,
    )
    said = tuple(f"{name} means nothing to this engine" for name in unused)
    if asked.concurrency and not (asked.isl or asked.osl):
        said += ("concurrency says nothing without isl and osl",)
    if asked.max_model_len or facts.default_context or _positions(facts):
        return settings, said
    length = max(USUAL_LENGTH, (asked.isl or 0) + (asked.osl or 0))
    more = f"the longest request is not known: {length:,} tokens are taken"
    return replace(settings, max_model_len=length), (*said, more)


def _with_length(settings: Settings, facts: ModelFacts) -> tuple[Settings, Said]:
    """What the model states, where the engine's own default is not known."""
    positions = _positions(facts)
    if settings.max_model_len or facts.default_context or positions is None:
        return settings, ()
    said = f"the longest request is taken to have the model's {positions:,} positions"
    return replace(settings, max_model_len=positions), (said,)


def _positions(facts: ModelFacts) -> int | None:
    return facts.least_context or facts.max_position_embeddings


def _said_layout(asked: Asked, layout: Layout, ranks: Ranks) -> Said:
    """What an engine cannot be asked for, and what is sized in its place."""
    said = []
    experts = asked.ep
    if isinstance(experts, int) and not isinstance(experts, bool) and max(experts, 1) != ranks.ep:
        there = "experts are not shared out" if ranks.ep == 1 else f"EP reaches {ranks.ep} ranks"
        said.append(f"{there}, not EP {experts}")
    if ranks.attention_tp != (asked.tp or 1):
        said.append(f"attention is cut over {ranks.attention_tp} ranks, not {asked.tp or 1}")
    if layout.dcp != (asked.dcp or 1):
        said.append("decode context parallelism is left out")
    return tuple(said)


# --------------------------------------------------------------------------------------- weights


class _Stored:
    """How the weights are stored, by the checkpoint's record and the words of the question."""

    def __init__(self, facts: ModelFacts, word: str | None, dtype: str | None) -> None:
        self.facts, self.word = facts, (word or "")[:200]
        self.dtype = (dtype or "auto").lower().removeprefix("torch.")

    def made(self) -> tuple[ModelFacts, Storage, Said]:
        record_, said = record_of(self.word, self.facts.quantization)
        model = replace(self.facts, quantization=record_)
        more: Said = () if said is None else (said,)
        if self.dtype not in (*SIXTEEN_BITS, *WIDE_TYPES):
            more += (f"dtype {shown(self.dtype)} is not known: 16 bits are taken",)
        return model, storage(record_, self.plain), more

    @property
    def plain(self) -> Scheme:
        return WIDE if self.dtype in WIDE_TYPES else PLAIN


# --------------------------------------------------------------------------------------- verdict


def _slack(made: Footprint) -> int:
    """Bytes that are left when one request of the longest length is in the cache.

    A cache of a stated size takes no notice of what is left: then that counts, too.
    """
    loads = made.total - made.at_load - made.beside.context
    spare = min(made.kv - (made.need or 1), loads)
    if made.settings.kv_bytes is None or spare < 0:
        return spare
    return made.total - made.needed - made.kv


def _verdict(made: Footprint, margin: Band) -> Verdict:
    slack = _slack(made)
    if made.settings.kv_bytes is not None and made.kv < (made.need or 1):
        return "does_not_fit"  # both sizes are exact
    if slack - margin.below >= 0:
        return "fits"
    most = slack + margin.above + made.beside.doubtful
    return "tight" if most >= 0 else "does_not_fit"


def _longest(made: Footprint, model: ModelFacts) -> int | None:
    """The longest request that fits, and that the engine may be asked for."""
    if made.cache is None:
        return None
    asked = made.settings.max_model_len or 0
    longest = model.longest_context or model.max_position_embeddings
    found = made.cache.longest(max(0, made.kv))
    return found if longest is None else min(found, max(asked, longest))


def _said_of(made: Footprint) -> Said:
    said = []
    if made.weights.unknown:
        parts = ", ".join(sorted(made.weights.unknown))
        said.append(f"how these weights are stored is not known, and they are left out: {parts}")
    if made.cache is None:
        said.append("the layout of the KV cache is not known: its tokens are not counted")
    elif made.settings.max_model_len is None:
        said.append("the longest request is not known: tokens and requests are not counted")
    return tuple(said)


def _said_refusal(
    engine: Engine, release: str, layout: Layout, model: ModelFacts, device: Device
) -> Said:
    """A layout that the engine refuses is sized all the same, and that is said."""
    options = Options(releases=(Releases(release, release),))
    found = refuses(engine, layout, model, options=options, device=device)
    if found is None or found.advisory:
        return ()
    return (
        f"{engine.label} {release} does not take this layout ({found.rule}:"
        f" {found.subject}, {found.left:,} and {found.right:,})",
    )
