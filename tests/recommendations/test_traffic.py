"""Long sessions, too few requests for the stages, and prefixes that requests share."""

from __future__ import annotations

import math

import pytest
from recommendations.asking import DENSE, EXPERTS, HUGE, ask, by_size
from shardlint.recommendations.traffic import Pipeline, pipeline, prefixes


def test_session_takes_its_part_of_a_cache_and_leaves_the_rest() -> None:
    item = by_size(ask(session=40_000, isl=1000, osl=1000), tp=2)
    found, made = item.session, item.estimate.made
    assert found is not None
    assert made.cache is not None
    blocks = made.cache.pool(made.kv)
    assert math.isclose(made.cache.blocks(40_000) / blocks, found.share)
    assert (blocks - made.cache.blocks(40_000)) // made.cache.blocks(2000) == found.left
    assert found.fits
    assert 40_960 == found.most


def test_session_beyond_the_longest_does_not_fit() -> None:
    found = by_size(ask(session=41_000), tp=2).session
    assert found is not None
    assert not found.fits


def test_session_beside_no_workload_leaves_no_requests_to_count() -> None:
    found = by_size(ask(session=1000, isl=None, osl=None), tp=2).session
    assert found is not None
    assert found.left is None


def test_longest_request_is_told_where_it_takes_half_of_a_cache() -> None:
    """Two cards of 80 GB hold its 40,960 tokens several times, two of 48 GB hardly once."""
    assert by_size(ask(), tp=2).session is None
    tight = by_size(ask(gpus=2, gpu="L40S"), tp=2).session
    assert tight is not None
    assert 0.5 <= tight.share <= 1
    assert 40_960 == tight.tokens


def test_session_lies_in_the_cache_of_one_rank() -> None:
    """Attention DP has a cache for each group: the others do not help."""
    shared = [
        item for item in ask(EXPERTS, session=30_000, concurrency=512).found
        if item.shape.attention_dp == item.estimate.gpus == 8
    ]  # fmt: skip
    for item in shared:
        assert item.session is not None
        held = item.estimate.made.concurrency or 0
        assert math.isclose(item.session.share, 30_000 / (held * 40_960), rel_tol=0.01)
    assert shared


@pytest.mark.parametrize(
    ("stages", "requests", "idle", "bubble"),
    [(4, 1, 3, 3 / 4), (4, 2, 2, 3 / 5), (2, 1, 1, 1 / 2), (8, 7, 1, 7 / 14)],
)
def test_few_requests_leave_stages_idle(
    stages: int, requests: int, idle: int, bubble: float
) -> None:
    found = pipeline(stages, requests, 1)
    assert Pipeline(stages=stages, requests=requests) == found
    assert (idle, bubble) == (found.idle, found.bubble)


@pytest.mark.parametrize(
    ("stages", "users", "replicas"), [(1, 1, 1), (4, None, 1), (4, 4, 1), (2, 64, 8)]
)
def test_stages_with_requests_enough_lose_nothing(
    stages: int, users: int | None, replicas: int
) -> None:
    assert pipeline(stages, users, replicas) is None


def test_users_are_spread_over_the_replicas() -> None:
    found = pipeline(4, 6, 3)
    assert found is not None
    assert 2 == found.requests


def test_low_traffic_is_told_of_layouts_with_stages() -> None:
    item = by_size(ask(HUGE, nodes=2, concurrency=1), tp=4, pp=4)
    assert Pipeline(stages=4, requests=1) == item.pipeline


def test_blind_choice_meets_a_prefix_on_one_of_all_caches() -> None:
    found = prefixes(0.6, 4)
    assert found is not None
    assert (0.6, 0.15) == (found.aware, found.blind)
    assert prefixes(None, 4) is None
    assert prefixes(0.0, 4) is None


def test_caches_are_those_of_all_replicas_and_ranks() -> None:
    found = by_size(ask(DENSE, prefix_share=0.5), tp=2).prefixes
    assert found is not None
    assert (4, 0.125) == (found.caches, found.blind)
    ranks = next(
        item for item in ask(EXPERTS, prefix_share=0.5, concurrency=512).found
        if item.shape.attention_dp > 1
    )  # fmt: skip
    assert ranks.prefixes is not None
    assert ranks.fleet.replicas * ranks.shape.attention_dp == ranks.prefixes.caches
