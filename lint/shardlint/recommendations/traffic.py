"""What unusual traffic does to a fleet: a very long session, too few requests, shared prefixes.

Facts: performance model, section 5, for stages that have nothing to do; routing, sections 2 and 6,
for what engines and routers look at.
"""

from __future__ import annotations

from typing import Final

from shardlint.estimates import Estimate
from shardlint.record import record

LARGE: Final = 0.5
"""A share of a cache that one session takes, from which on it is told without being asked for."""


@record(kw_only=True)
class Session:
    """One session in the cache of one data-parallel rank.

    `share` of the cache is taken, above 1 where it does not fit; `left` are the requests of the
    workload that still run beside it in that cache, None where no workload is stated. `most` is
    the longest session that fits.
    """

    tokens: int
    share: float
    left: int | None
    most: int

    @property
    def fits(self) -> bool:
        return self.tokens <= self.most


@record(kw_only=True)
class Pipeline:
    """Stages with fewer requests than there are stages.

    `idle` stages have nothing to do at any time; `bubble` is the share of the stages' time that is
    lost while the requests pass once, each as a batch of its own.
    """

    stages: int
    requests: int

    @property
    def idle(self) -> int:
        return max(0, self.stages - self.requests)

    @property
    def bubble(self) -> float:
        return (self.stages - 1) / (self.requests + self.stages - 1)


@record(kw_only=True)
class Prefixes:
    """The share of input tokens that a cache has: at most `aware` where the choice of a cache looks
    at prefixes, about `blind` where it does not and each prefix is one conversation's own."""

    aware: float
    caches: int

    @property
    def blind(self) -> float:
        return self.aware / self.caches


def session(made: Estimate, tokens: int, each: int | None) -> Session | None:
    """None where the layout of the cache is not known."""
    cache, most = made.made.cache, made.max_context
    if cache is None or most is None:
        return None
    pool, taken = cache.pool(max(0, made.made.kv)), cache.blocks(tokens)
    if not pool:
        return None
    beside = max(0, pool - cache.spare - taken)
    return Session(
        tokens=tokens,
        share=taken / pool,
        left=None if not each else beside // max(1, cache.blocks(each)),
        most=most,
    )


def pipeline(stages: int, users: int | None, replicas: int) -> Pipeline | None:
    """None where nothing is lost, or it is not known how many requests there are.

    With as many requests as stages, batches of other requests fill what one leaves empty.
    """
    if users is None or stages < 2:
        return None
    requests = -(-users // replicas)
    return Pipeline(stages=stages, requests=requests) if requests < stages else None


def prefixes(share: float | None, caches: int) -> Prefixes | None:
    """None where nothing is shared, or that is not stated."""
    return Prefixes(aware=share, caches=caches) if share else None
