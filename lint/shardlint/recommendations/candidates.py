"""From all layouts to the few that are worth a look, in order, with the reason for each.

A layout is dropped where the engine refuses it or one GPU does not hold its part. What is left is
sized as a fleet and ranked by the objective among those that reach the goals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from shardlint.engine import Engine, refuses
from shardlint.estimates import Asked, Estimate, EstimateError, Estimator
from shardlint.plan import Constraint, Layout, Options, Releases
from shardlint.plugins import filled
from shardlint.recommendations.fleet import Fleet, Pace, blur, fleet_of, low
from shardlint.recommendations.layouts import Shape, shapes
from shardlint.recommendations.measured import Measured, scale
from shardlint.recommendations.question import Wanted
from shardlint.recommendations.traffic import (
    LARGE,
    Pipeline,
    Prefixes,
    Session,
    pipeline,
    prefixes,
    session,
)
from shardlint.record import record
from shardlint.sizing.loads import NotModelled
from shardlint.sizing.throughput import Throughput, Workload, throughput

Wall: TypeAlias = Literal["fit", "latency", "throughput"]

SHOWN: Final = 5
"""Candidates of one answer."""
STEP: Final = 1024
"""Lengths of a context that is shortened so that a layout fits are multiples of this."""
FARTHEST: Final = 2
"""Fleets that need so many times the GPUs there are, are not shown beside others."""
NOISE: Final = 0.97
"""A share of the best rate that is as good: the model of speed is not that sharp."""
ROOM: Final = 0.9
"""A share of the most requests that is as good: nor is that of memory."""


@record(kw_only=True)
class Rejected:
    """A layout that cannot be had, and the rule that says so."""

    layout: Mapping[str, int]
    rule: str
    message: str


@record(kw_only=True)
class Candidate:
    """A layout with its fleet. `reaches`: all goals that are set; `why` is one sentence.

    `settings` are options beside the layout without which it does not fit.
    """

    shape: Shape
    estimate: Estimate
    fleet: Fleet
    why: str
    settings: Mapping[str, Any]
    arguments: tuple[str, ...]
    session: Session | None = None
    pipeline: Pipeline | None = None
    prefixes: Prefixes | None = None

    @property
    def layout(self) -> Mapping[str, int]:
        return layout_of(self.shape)

    @property
    def gpus(self) -> int:
        return self.fleet.replicas * self.estimate.gpus

    @property
    def blast_radius(self) -> float:
        """The share of the fleet that one lost GPU stops."""
        return 1 / self.fleet.replicas


@record(kw_only=True)
class Recommendation:
    """The answer; `found` is empty where no layout fits. `notes` hold for all of it."""

    wanted: Wanted
    wall: Wall
    found: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]


def layout_of(shape: Shape) -> dict[str, int]:
    """The sizes of a layout by their names; `ep` and `attention_dp` are 1 where they are off."""
    return {
        "tp": shape.tp, "pp": shape.pp, "dp": 1, "attention_dp": shape.attention_dp,
        "ep": shape.ep, "dcp": shape.dcp,
    }  # fmt: skip


def recommend(estimator: Estimator, wanted: Wanted) -> Recommendation:
    """Raises EstimateError for what cannot be answered."""
    return _Search(estimator, wanted).answer()


class _Search:
    """One question."""

    def __init__(self, estimator: Estimator, wanted: Wanted) -> None:
        self.estimator, self.wanted = estimator, wanted
        single = estimator.estimate(_alone(wanted.asked))
        self.model, self.device, self.release = single.model, single.device, single.release
        self.said = single.assumptions
        name = wanted.asked.engine or "vllm"
        engine = estimator.setup.engine(name.lower())
        assert engine is not None  # the estimate was made
        self.engine: Engine = engine
        self.rejected: list[Rejected] = []
        self.too_small: set[int] = set()
        """GPUs of the replicas that do not hold the model."""
        self.doubtful: set[int] = set()
        """GPUs of replicas of which the estimate cannot tell."""
        self.undecided = False
        """Ranks come before stages, though the model of speed says the other."""

    def answer(self) -> Recommendation:
        sized = [pair for shape in self._shapes() if (pair := self._sized(shape)) is not None]
        factor = self._factor(sized)
        sure = [made.gpus for _, made in sized if self._as_asked(made)]
        self.least = min(sure or [made.gpus for _, made in sized], default=0)
        found = [self._candidate(shape, made, factor) for shape, made in sized]
        ranked = self._ranked(found)
        return Recommendation(
            wanted=self.wanted,
            wall=self._wall(ranked),
            found=tuple(ranked[:SHOWN]),
            rejected=tuple(self.rejected),
            notes=tuple(self._notes(factor, [shape for shape, _ in sized])),
        )

    # ------------------------------------------------------------------------------- layouts

    def _shapes(self) -> Iterator[Shape]:
        for shape in shapes(self.model, self.device, self.wanted):
            layout = _layout(self.engine, shape)
            told = self.engine.arguments(layout, self.release)
            if told is not None and _means(self.engine, layout, shape):
                refusal = self._refusal(layout)
                if refusal is None:
                    yield shape
                else:
                    self.rejected.append(_refused(self.engine, shape, refusal))

    def _refusal(self, layout: Layout) -> Constraint | None:
        options = Options(releases=(Releases(self.release, self.release),))
        return refuses(self.engine, layout, self.model, options=options, device=self.device)

    def _sized(self, shape: Shape) -> tuple[Shape, Estimate] | None:
        """What one GPU holds; with a shorter context where only that does not fit."""
        asked = _of_shape(self.wanted.asked, shape)
        made = self.estimator.estimate(asked)
        if made.verdict != "fits":
            self.too_small.add(shape.gpus)
            if made.verdict == "tight":
                self.doubtful.add(shape.gpus)
            shorter = self._shorter(asked) if asked.max_model_len is None else None
            made = shorter or made
        runs = made.verdict == "fits" or (made.verdict == "tight" and made.fits)
        if runs or self._measured(shape):
            return shape, made
        self.rejected.append(_too_small(shape, made))
        return None

    def _measured(self, shape: Shape) -> list[Measured]:
        return [row for row in self.wanted.measured if _same(row, shape)]

    def _as_asked(self, made: Estimate) -> bool:
        """It surely fits, and not only with a shorter context."""
        given = made.asked.max_model_len if made.asked is not None else None
        return made.verdict == "fits" and given == self.wanted.asked.max_model_len

    def _shorter(self, asked: Asked) -> Estimate | None:
        """The same with room for the requests that are asked for, and not for longer ones."""
        if not asked.isl or not asked.osl:
            return None
        length = -(-(asked.isl + asked.osl) // STEP) * STEP
        made = self.estimator.estimate(replace(asked, max_model_len=length))
        return made if made.verdict == "fits" else None

    # --------------------------------------------------------------------------------- speed

    def _factor(self, sized: list[tuple[Shape, Estimate]]) -> float | None:
        """By how much the measurements exceed the model of speed."""

        def told(row: Measured) -> float | None:
            for shape, made in sized:
                if _same(row, shape):
                    speed = _speed(made, row.concurrency or self.wanted.asked.concurrency)
                    return speed.tok_s if isinstance(speed, Throughput) else None
            return None

        return scale(self.wanted.measured, told)

    def _candidate(self, shape: Shape, made: Estimate, factor: float | None) -> Candidate:
        pace = Pace(made, self._measured(shape), 1.0 if factor is None else factor)
        fleet = fleet_of(pace, self.wanted)
        length = made.asked.max_model_len if made.asked is not None else None
        settings = {} if length == self.wanted.asked.max_model_len else {"max_model_len": length}
        layout = _layout(self.engine, shape)
        return Candidate(
            shape=shape,
            estimate=made,
            fleet=fleet,
            why=self._why(shape, made, fleet, settings),
            settings=settings,
            arguments=(
                *(self.engine.arguments(layout, self.release) or ()),
                *_written(self.engine, settings),
            ),
            session=self._session(made),
            pipeline=pipeline(shape.pp, self.wanted.asked.concurrency, fleet.replicas),
            prefixes=prefixes(self.wanted.prefix_share, fleet.replicas * made.dp_ranks),
        )

    def _session(self, made: Estimate) -> Session | None:
        """The one that is asked for, else one of the longest length where that is a large one."""
        asked = self.wanted.asked
        each = (asked.isl or 0) + (asked.osl or 0)
        tokens = self.wanted.session or made.made.settings.max_model_len
        found = session(made, tokens, each) if tokens else None
        if found is None or self.wanted.session is not None or found.share >= LARGE:
            return found
        return None

    # ---------------------------------------------------------------------------------- order

    def _ranked(self, found: list[Candidate]) -> list[Candidate]:
        """First what reaches the goals with the GPUs there are, and is known to be fast.

        What differs by less than the model of speed can tell is ordered by how much one lost GPU
        stops.
        """
        there = [item for item in found if item.gpus <= FARTHEST * self.wanted.gpus]
        left = sorted(there or found, key=self._order)
        ranked: list[Candidate] = []
        while left:
            head = left[0]
            alike = [item for item in left if self._alike(head, item)]
            ranked += sorted(alike, key=lambda item: (item.estimate.gpus, item.shape.pp))
            left = [item for item in left if not any(item is one for one in alike)]
        return self._pairs_first(ranked)

    def _pairs_first(self, ranked: list[Candidate]) -> list[Candidate]:
        """Two ranks over PCIe before two stages, unless these are faster by more than the doubt.

        Engines have a sum of their own for two boards, which none of the rows is of, and stages
        make every request wait.
        """
        found: list[Candidate] = []
        left = list(ranked)
        while left:
            head = left[0]
            pair = next((item for item in left[1:] if self._instead(head, item)), head)
            found.append(pair)
            self.undecided = self.undecided or pair is not head
            left = [item for item in left if item is not pair]
        return found

    def _instead(self, staged: Candidate, pair: Candidate) -> bool:
        same = (staged.shape.tp, 2 * pair.shape.pp) == (1, staged.shape.pp)
        if not same or pair.shape != replace(staged.shape, tp=2, pp=pair.shape.pp):
            return False
        first, second = staged.fleet.speed, pair.fleet.speed
        if first is None or second is None or self.device.link != "pcie":
            return False
        told = first.yours or second.yours or self.wanted.objective != "throughput"
        if told or self._status(staged) != self._status(pair):
            return False
        return _rate(pair) * blur() >= _rate(staged)

    def _alike(self, head: Candidate, item: Candidate) -> bool:
        if item is head:
            return True
        if self._status(item) != self._status(head):
            return False
        if self.wanted.objective == "context":
            same = item.estimate.max_context == head.estimate.max_context
            return same and _longest(item) >= ROOM * _longest(head)
        fast = item.fleet.speed is not None and head.fleet.speed is not None
        if self.wanted.objective != "throughput" or not fast:
            return False
        return _rate(item) >= NOISE * _rate(head)

    def _status(self, item: Candidate) -> tuple[bool, ...]:
        fleet = item.fleet
        ran = fleet.speed is not None and fleet.speed.yours
        tight = item.estimate.verdict != "fits" and not ran
        return (not fleet.affordable, not fleet.reaches, tight, bool(item.settings))

    def _order(self, item: Candidate) -> tuple[Any, ...]:
        made, speed, status = item.estimate, item.fleet.speed, self._status(item)
        small = (made.gpus, item.shape.pp, item.shape.dcp, item.shape.ep > 1)
        if self.wanted.objective == "context":
            most = (-(made.max_context or 0), -_longest(item))
            return (*status, *most, speed is None, -_rate(item), *small)
        if speed is None:
            return (*status, True, 0.0, *small)
        if self.wanted.objective == "latency":
            return (*status, speed.tpot_ms is None, speed.tpot_ms or 0.0, *small)
        return (*status, False, -_rate(item), *small)

    def _wall(self, ranked: list[Candidate]) -> Wall:
        """What keeps the first one from being smaller or faster."""
        if not ranked:
            return "fit"
        first = ranked[0]
        slower = [item for item in ranked if item.estimate.gpus < first.estimate.gpus]
        if first.fleet.waits:
            return "fit"
        if first.fleet.held_by_goal or any(item.fleet.late for item in (first, *slower)):
            return "latency"
        return "fit" if self._least(first.estimate) else "throughput"

    def _why(self, shape: Shape, made: Estimate, fleet: Fleet, settings: Mapping[str, Any]) -> str:
        if not fleet.affordable:
            return f"{fleet.replicas * made.gpus} GPUs are needed, {self.wanted.gpus} are there"
        if fleet.missed:
            return fleet.missed
        said = []
        if made.verdict != "fits":
            yours = fleet.speed is not None and fleet.speed.yours
            doubt = "it was measured, though by the estimate it hardly fits or does not"
            said.append(doubt if yours else "it is doubtful whether it fits")
        if settings:
            said.append(f"fits only with requests of {settings['max_model_len']:,} tokens at most")
        if self._least(made):
            unsure = any(gpus < made.gpus for gpus in self.doubtful)
            fewer = "fewer GPUs do not hold the model"
            said.append("it is doubtful whether fewer GPUs hold the model" if unsure else fewer)
        if shape.pp > 1:
            said.append("stages add latency")
        if fleet.speed is None and fleet.why and self.wanted.asked.isl:
            said.append(f"speed is not modelled: {fleet.why}")
        elif fleet.speed is not None and not fleet.speed.yours:
            said.append(f"bound by {fleet.speed.bound_by.replace('_', ' ')}")
        return "; ".join(filter(None, said))

    def _least(self, made: Estimate) -> bool:
        """The smallest replica that holds the model, where a smaller one was tried."""
        return made.gpus == self.least and any(gpus < made.gpus for gpus in self.too_small)

    def _notes(self, factor: float | None, there: Sequence[Shape]) -> Iterator[str]:
        yield from self.wanted.said
        yield from self.said
        if not (self.wanted.asked.isl and self.wanted.asked.osl):
            yield "isl and osl are not stated: nothing is said of speed"
        rows = self.wanted.measured
        if lost := [row for row in rows if not any(_same(row, shape) for shape in there)]:
            yield f"{len(lost)} of {len(rows)} measurements are of layouts that cannot be had here"
        if self.undecided:
            yield (
                "two ranks over PCIe come before two stages: few of both were measured, and by less"
                f" than {blur():.1f} times one is not told to be faster"
            )
        if factor is None and len(lost) < len(rows):
            yield "nothing is told of the speed of what was measured: others are not scaled by it"
        if factor is not None:
            yield f"speeds are × {factor:.2f}, by what was measured"
        if any(row.one_warm_worker for row in self.wanted.measured):
            yield (
                "a measured hit rate is that of one warm replica: several share the prefixes out,"
                " and hit less often where requests are not routed by prefix"
            )


# ---------------------------------------------------------------------------------------- parts


def _alone(asked: Asked) -> Asked:
    """The question without a layout and a workload."""
    return replace(
        asked, tp=1, pp=1, dp=1, attention_dp=1, ep=1, dcp=1, replicas=None, isl=None, osl=None,
        concurrency=None,
    )  # fmt: skip


def _of_shape(asked: Asked, shape: Shape) -> Asked:
    return replace(
        asked, tp=shape.tp, pp=shape.pp, dp=1, attention_dp=shape.attention_dp, ep=shape.ep,
        dcp=shape.dcp, concurrency=None, replicas=None,
    )  # fmt: skip


def _layout(engine: Engine, shape: Shape) -> Layout:
    return engine.spread(
        tp=shape.tp, pp=shape.pp, dp=1, attention_dp=shape.attention_dp, ep=shape.ep, dcp=shape.dcp
    )  # fmt: skip


def _means(engine: Engine, layout: Layout, shape: Shape) -> bool:
    """The engine can be asked for exactly this."""
    try:
        ranks = engine.ranks(layout, None, None)
    except LookupError as error:
        raise EstimateError(str(error)) from None
    return (ranks.attention_tp, ranks.ep, layout.dcp, ranks.gpus) == (
        shape.tp, shape.ep, shape.dcp, shape.gpus,
    )  # fmt: skip


def _refused(engine: Engine, shape: Shape, found: Constraint) -> Rejected:
    """With the engine's own words where it has some."""
    own = f" ('{found.refusal}')" if found.refusal else ""
    if found.sentence is not None:
        what = filled(found.sentence, found)
    else:
        what = f"{found.left:,} {found.subject} do not suit {found.right:,}"
    message = f"{what}; {engine.label} {found.consequence}{own}"
    return Rejected(layout=layout_of(shape), rule=found.rule, message=message)


def _too_small(shape: Shape, made: Estimate) -> Rejected:
    """Which of the memory rules says it."""
    held, layout, gib = made.made, layout_of(shape), 2**30
    if held.at_load + held.beside.context > held.total or held.kv < 0:
        message = (
            f"one GPU holds {held.held / gib:,.1f} GiB of weights and has {held.total / gib:,.1f}"
        )
        return Rejected(layout=layout, rule="weights-do-not-fit", message=message)
    room = max(0, held.kv) / gib
    message = f"{room:,.1f} GiB are left for the KV cache, less than one longest request takes"
    if made.verdict == "tight":
        message = f"{room:,.1f} GiB are left for the KV cache, which may be too few"
    return Rejected(layout=layout, rule="no-kv-space", message=message)


def _same(row: Measured, shape: Shape) -> bool:
    wide = shape.attention_dp
    return (row.tp, row.pp, row.dp) == (shape.tp, shape.pp, wide) and row.ep in (None, shape.ep)


def _speed(made: Estimate, concurrency: int | None) -> Throughput | NotModelled:
    asked, load = made.asked, made.load
    if asked is None or isinstance(load, NotModelled) or not (asked.isl and asked.osl):
        return NotModelled(why="isl and osl are not stated")
    return throughput(load, Workload(asked.isl, asked.osl, concurrency))


def _rate(item: Candidate) -> float:
    """Output tokens a second for each GPU: of those there are, or of those that are needed.

    Of what is only roughly known it is the lower end of its range.
    """
    speed = item.fleet.speed
    if speed is None:
        return 0.0
    return item.fleet.tok_s * low(speed.grade) / item.fleet.counted_gpus


def _longest(item: Candidate) -> float:
    """The longest requests that run at the same time in all replicas."""
    each = item.estimate.made.concurrency or 0.0
    return each * item.estimate.dp_ranks * item.fleet.replicas


def _written(engine: Engine, settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        flag = engine.flag_name(name)
        if flag is not None:
            yield from (flag, str(value))
