"""How many replicas of one layout, and how fast they are together."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from shardlint.estimates import Estimate
from shardlint.recommendations.measured import Measured
from shardlint.recommendations.question import Wanted
from shardlint.record import record
from shardlint.sizing.loads import Grade, NotModelled
from shardlint.sizing.parameters import table
from shardlint.sizing.throughput import Bound, Throughput, Workload, requests, throughput

MOST_REPLICAS: Final = 4096
"""Replicas beyond which nobody counts on."""
SHARP: Final = 1e-9


@record(kw_only=True)
class Speed:
    """One replica: `yours` where it was measured by the one who asks."""

    tok_s: float
    tpot_ms: float | None
    ttft_ms: float | None
    batch: float | None
    bound_by: Bound
    grade: Grade
    why: str
    yours: bool = False


@record(kw_only=True)
class Fleet:
    """`replicas` of one layout. `late` says which goal a request does not reach, `waits` that the
    caches do not hold all requests or that the target is not reached, `why` why nothing is known of
    their speed. `needed` replicas reach the target, the others are headroom.

    `counted_gpus` are those that the fleet's rate is shared over to rank it: all there are where
    they are to be filled, those of the fleet where a target says how many are needed.
    `held_by_goal`: more requests would run at once if no goal was set.
    """

    replicas: int
    needed: int
    speed: Speed | None
    affordable: bool
    late: str
    why: str
    counted_gpus: int
    waits: str = ""
    held_by_goal: bool = False
    users: int | None = None

    @property
    def missed(self) -> str:
        return self.late or self.waits

    @property
    def reaches(self) -> bool:
        return not self.missed

    @property
    def tok_s(self) -> float:
        return rate(self.speed, self.replicas, self.users) if self.speed is not None else 0.0


def rate(speed: Speed, replicas: int, users: int | None) -> float:
    """Tokens a second of all replicas: no more requests run than there are users."""
    if users is None or speed.yours or not speed.batch:
        return replicas * speed.tok_s
    return speed.tok_s * min(replicas, users / speed.batch)


class Pace:
    """The speed of one replica of a layout at any number of requests at the same time.

    What was measured counts as it is; the model of speed is taken × `factor`.
    """

    def __init__(self, made: Estimate, rows: Sequence[Measured], factor: float) -> None:
        self.made, self.rows, self.factor = made, rows, factor

    @property
    def why(self) -> str:
        load = self.made.load
        return load.why if isinstance(load, NotModelled) else ""

    def most(self) -> int | None:
        """Requests that one replica holds at the same time, at most."""
        asked, load = self.made.asked, self.made.load
        if asked is None or isinstance(load, NotModelled) or not (asked.isl and asked.osl):
            return None
        held = requests(load, asked.isl + asked.osl)
        return max(1, min(held, load.slots * load.groups))

    def at(self, concurrency: int | None) -> Speed | None:
        """None where nothing is known of it."""
        row = self._row(concurrency)
        if row is not None:
            return _of_row(row)
        asked, load = self.made.asked, self.made.load
        if asked is None or isinstance(load, NotModelled) or not (asked.isl and asked.osl):
            return None
        found = throughput(load, Workload(asked.isl, asked.osl, concurrency))
        return self._scaled(found) if isinstance(found, Throughput) else None

    def best_of_yours(self, good: Callable[[Speed], bool]) -> Speed | None:
        """The fastest measurement that is good."""
        found = [speed for speed in map(_of_row, self.rows) if good(speed)]
        return max(found, key=lambda speed: speed.tok_s, default=None)

    def _scaled(self, found: Throughput) -> Speed:
        return Speed(
            tok_s=found.tok_s * self.factor,
            tpot_ms=found.tpot_ms / self.factor,
            ttft_ms=found.ttft_ms / self.factor,
            batch=found.batch,
            bound_by=found.bound_by,
            grade=found.grade,
            why=found.why,
        )

    def _row(self, concurrency: int | None) -> Measured | None:
        """The measurement at the nearest number of requests."""
        if not self.rows:
            return None
        if concurrency is None:
            return max(self.rows, key=lambda row: row.output_tok_s or 0.0)
        return min(self.rows, key=lambda row: abs((row.concurrency or concurrency) - concurrency))


def _of_row(row: Measured) -> Speed:
    return Speed(
        tok_s=row.output_tok_s or 0.0, tpot_ms=row.tpot_ms, ttft_ms=row.ttft_ms,
        batch=row.concurrency, bound_by="overhead", grade="measured", why="", yours=True,
    )  # fmt: skip


def low(grade: Grade) -> float:
    """The lower end of the range of what is measured where one token a second is told.

    Plain models on one link domain are taken as they are told.
    """
    return 1.0 if grade == "measured" else float(table()["error"][grade]["range"][0])


def blur() -> float:
    """How far apart two rates of what was hardly measured can be, and mean the same."""
    least, most = table()["error"]["weak"]["range"]
    return float(most) / float(least)


def fleet_of(pace: Pace, wanted: Wanted) -> Fleet:
    """As many replicas as the target needs, and headroom; without a target all GPUs."""
    room = max(1, wanted.room(pace.made.gpus))
    target, users = wanted.rate, wanted.asked.concurrency
    if target is None:
        return _filled(pace, wanted, room, users)
    if users is None:
        return _for_target(pace, wanted, room, target)
    return _for_users(pace, wanted, room, target, users)


def _filled(pace: Pace, wanted: Wanted, room: int, users: int | None) -> Fleet:
    """All GPUs that there are, as far as there are requests for them."""
    replicas = room if users is None else min(room, users)
    held = False
    if users is None:
        speed, held = _within_goals(pace, wanted)
    else:
        speed = pace.at(-(-users // replicas))
    return Fleet(
        replicas=replicas, needed=replicas, speed=speed, affordable=True,
        late=_missed(speed, wanted), waits=_waiting(pace, speed, users, replicas),
        why=pace.why, counted_gpus=wanted.gpus, held_by_goal=held, users=users,
    )  # fmt: skip


def _for_target(pace: Pace, wanted: Wanted, room: int, target: float) -> Fleet:
    """Replicas that are filled as far as the goals let them."""
    speed, held = _within_goals(pace, wanted)
    if speed is None or not speed.tok_s:
        return _unknown(pace, wanted, room)
    needed = min(MOST_REPLICAS, math.ceil(target / speed.tok_s - SHARP))
    replicas = _with_headroom(needed, wanted)
    return Fleet(
        replicas=replicas, needed=needed, speed=speed, affordable=replicas <= room,
        late=_missed(speed, wanted), why="", counted_gpus=replicas * pace.made.gpus,
        held_by_goal=held,
    )  # fmt: skip


def _for_users(pace: Pace, wanted: Wanted, room: int, target: float, users: int) -> Fleet:
    """The fewest replicas over which the users get the target within the goals."""

    def enough(replicas: int) -> bool:
        speed = pace.at(-(-users // replicas))
        if speed is None or rate(speed, replicas, users) < target - SHARP:
            return False
        return not (_missed(speed, wanted) or _waiting(pace, speed, users, replicas))

    # more replicas have fewer requests each, so that halving finds the fewest
    most = min(users, MOST_REPLICAS)
    needed = 1 + bisect_left(range(1, most + 1), True, hi=most - 1, key=enough)
    speed = pace.at(-(-users // needed))
    if speed is None or not speed.tok_s:
        return _unknown(pace, wanted, room)
    most_tok_s = rate(speed, needed, users)
    short = most_tok_s < target - SHARP
    waits = f"{users} users get {most_tok_s:,.0f} tokens a second at most" if short else ""
    replicas = needed if short else _with_headroom(needed, wanted)
    return Fleet(
        replicas=replicas, needed=needed, speed=speed, affordable=replicas <= room,
        late=_missed(speed, wanted), waits=waits, why="",
        counted_gpus=replicas * pace.made.gpus, users=users,
    )  # fmt: skip


def _unknown(pace: Pace, wanted: Wanted, room: int) -> Fleet:
    return Fleet(
        replicas=room, needed=room, speed=None, affordable=True, late="", why=pace.why,
        counted_gpus=wanted.gpus,
    )  # fmt: skip


def _with_headroom(needed: int, wanted: Wanted) -> int:
    return math.ceil(needed * (1 + wanted.headroom) - SHARP)


def _within_goals(pace: Pace, wanted: Wanted) -> tuple[Speed | None, bool]:
    """The most requests at the same time with which the goals are reached.

    More requests make every one of them slower, so that halving finds it.
    """
    full = pace.at(None)
    if full is None or not _missed(full, wanted):
        return full, False
    if full.yours:
        return pace.best_of_yours(lambda speed: not _missed(speed, wanted)) or full, False
    low, high = 0, pace.most() or 1
    while high - low > 1:
        middle = (low + high) // 2
        speed = pace.at(middle)
        if speed is not None and not _missed(speed, wanted):
            low = middle
        else:
            high = middle
    return (pace.at(low) if low else pace.at(1)), bool(low)


def _missed(speed: Speed | None, wanted: Wanted) -> str:
    """The goal that one request does not reach; empty: all that are set are reached."""
    if speed is None:
        return ""
    for name, goal, value in (
        ("TPOT", wanted.tpot_ms, speed.tpot_ms),
        ("TTFT", wanted.ttft_ms, speed.ttft_ms),
    ):
        if goal is not None and value is not None and value > goal * (1 + SHARP):
            return f"{name} is {value:,.3g} ms, {goal:,.3g} are wanted"
    return ""


def _waiting(pace: Pace, speed: Speed | None, users: int | None, replicas: int) -> str:
    """Requests that find no room in the caches."""
    most = pace.most()
    if speed is None or users is None or most is None or speed.yours:
        return ""
    if -(-users // replicas) <= most:
        return ""
    return f"{most * replicas:,} of {users:,} requests run at the same time, the others wait"
