"""Whole answers: what is first, how many replicas, which wall, and what is said."""

from __future__ import annotations

import math
from typing import Any

import pytest
from recommendations.asking import CARD, EXPERTS, HUGE, LARGE, ask, by_size, layouts, real, wanted
from shardlint.estimates import EstimateError
from shardlint.recommendations import Recommendation, recommend
from shardlint.recommendations.fleet import Pace, blur

MEASURED = [
    {"tp": 2, "output_tok_s": 400, "tpot_ms": 40},
    {"tp": 4, "output_tok_s": 550, "tpot_ms": 30},
]


def test_measured_replicas_are_counted_for_the_target_with_headroom() -> None:
    """Smaller replicas give more for each GPU, and both reach the goal."""
    found = ask(gpus=8, nodes=3, measured=MEASURED, target_tok_s=2000, tpot_ms=50, headroom=0.2)
    first, second = found.found[:2]
    assert [{"tp": 2}, {"tp": 4}] == layouts(found)[:2]
    assert (5, 6, 12) == (first.fleet.needed, first.fleet.replicas, first.gpus)
    assert (200, 137.5) == tuple(item.fleet.tok_s / item.gpus for item in (first, second))
    assert (4, 5, 20) == (second.fleet.needed, second.fleet.replicas, second.gpus)
    assert math.isclose(1 / 6, first.blast_radius)


def test_measured_latency_that_misses_the_goal_makes_larger_replicas_first() -> None:
    found = ask(measured=MEASURED, nodes=3, target_tok_s=2000, tpot_ms=35)
    assert {"tp": 4} == layouts(found)[0]
    assert "TPOT is 40 ms, 35 are wanted" == by_size(found, tp=2).why
    assert "latency" == found.wall


def test_measurement_within_the_goal_counts_not_the_fastest() -> None:
    rows = [
        {"tp": 2, "concurrency": 64, "output_tok_s": 900, "tpot_ms": 80},
        {"tp": 2, "concurrency": 16, "output_tok_s": 400, "tpot_ms": 40},
    ]
    item = by_size(ask(measured=rows, nodes=3, target_tok_s=2000, tpot_ms=50), tp=2)
    assert item.fleet.speed is not None
    assert (400, 5) == (item.fleet.speed.tok_s, item.fleet.needed)
    item = by_size(ask(measured=rows, nodes=3, target_tok_s=2000), tp=2)
    assert item.fleet.speed is not None
    assert (900, 3) == (item.fleet.speed.tok_s, item.fleet.needed)


def test_other_layouts_are_scaled_by_what_was_measured() -> None:
    plain = by_size(ask(nodes=3), tp=4).fleet.speed
    told = by_size(ask(nodes=3), tp=2).fleet.speed
    assert plain is not None
    assert told is not None
    rows = [{"tp": 2, "output_tok_s": told.tok_s / 2}]
    found = ask(nodes=3, measured=rows)
    scaled = by_size(found, tp=4).fleet.speed
    assert scaled is not None
    assert math.isclose(plain.tok_s / 2, scaled.tok_s)
    assert math.isclose(2 * (plain.tpot_ms or 0), scaled.tpot_ms or 0)
    assert "speeds are × 0.50, by what was measured" in found.notes


def test_one_warm_worker_is_told() -> None:
    def warned(**row: Any) -> bool:
        notes = ask(measured=[{"tp": 2, "output_tok_s": 400, **row}]).notes
        return any("one warm replica" in note for note in notes)

    assert warned(hit_rate=0.8)
    assert warned(hit_rate=0.8, replicas=1)
    assert not warned(hit_rate=0.8, replicas=4)
    assert not warned(hit_rate=0)


def test_70b_in_16_bits_does_not_fit_on_two_cards_of_80_gb() -> None:
    """Its weights alone are 131 GiB: memory decides, and the least that holds it is told."""
    found = ask(LARGE)
    rules = {(item.layout["tp"], item.layout["pp"]): item.rule for item in found.rejected}
    assert "weights-do-not-fit" == rules[1, 1]
    assert "fit" == found.wall
    assert {"tp": 4} == layouts(found)[0]
    held = [item for item in found.found if not item.settings]
    assert 4 == min(item.estimate.gpus for item in held)
    least = [item for item in held if item.estimate.gpus == 4]
    assert all("fewer GPUs do not hold the model" in item.why for item in least)


def test_70b_on_one_card_has_no_layout() -> None:
    found = ask(LARGE, gpus=1)
    assert ("fit", ()) == (found.wall, found.found)
    (only,) = found.rejected
    assert "one GPU holds 131.4 GiB of weights and has 79.2" == only.message


def test_four_replicas_of_eight_by_two_are_64_gpus() -> None:
    item = by_size(ask(HUGE, nodes=8), tp=8, pp=2)
    assert (16, 4, 64) == (item.estimate.gpus, item.fleet.replicas, item.gpus)


def test_ten_times_the_replicas_give_ten_times_the_tokens_and_no_shorter_time() -> None:
    one, ten = (by_size(ask(nodes=n, concurrency=64 * n), tp=8) for n in (1, 10))
    assert (1, 10) == (one.fleet.replicas, ten.fleet.replicas)
    assert one.fleet.speed is not None
    assert ten.fleet.speed is not None
    assert one.fleet.speed.tpot_ms == ten.fleet.speed.tpot_ms
    assert one.fleet.speed.ttft_ms == ten.fleet.speed.ttft_ms
    assert math.isclose(10 * one.fleet.tok_s, ten.fleet.tok_s)


@pytest.fixture(scope="module")
def two_small_cards() -> Recommendation:
    """A model that leaves little of a card, for 64 users of 2,048 tokens."""
    return ask(
        "google/gemma-3-12b-it", gpus=2, gpu="RTX-5090", max_model_len=2048, isl=1024, osl=1024,
        concurrency=64,
    )  # fmt: skip


def test_ranks_share_the_kv_cache_where_replicas_each_hold_the_weights(
    two_small_cards: Recommendation,
) -> None:
    """One replica over both cards holds far more than two with all weights each."""
    ranks, alone = by_size(two_small_cards, tp=2), by_size(two_small_cards)
    assert (1, 2) == (ranks.fleet.replicas, alone.fleet.replicas)
    kept, each = ranks.estimate.made.tokens, alone.estimate.made.tokens
    assert kept is not None
    assert each is not None
    assert 70_000 < kept < 100_000
    assert 8_000 < each < 16_000
    assert kept > 3 * 2 * each
    heads = ranks.estimate.ranks.kv_copies
    assert 1 == heads  # each rank holds its own KV heads


def test_users_that_find_no_room_are_counted(two_small_cards: Recommendation) -> None:
    ranks, alone = by_size(two_small_cards, tp=2), by_size(two_small_cards)
    most = [int(item.why.split()[0]) for item in (ranks, alone)]
    assert 35 <= most[0] <= 48
    assert 8 <= most[1] <= 20
    assert all(item.why.endswith("of 64 requests run at the same time, the others wait")
               for item in (ranks, alone))  # fmt: skip
    assert "fit" == two_small_cards.wall


def test_context_that_only_fits_shortened_is_told_as_an_option() -> None:
    found = ask(gpus=1, isl=2000, osl=500)
    (item,) = found.found
    assert {"max_model_len": 3072} == item.settings
    assert ("--tensor-parallel-size", "1", "--max-model-len", "3072") == item.arguments


def test_length_that_is_stated_is_not_shortened() -> None:
    found = ask(gpus=1, isl=2000, osl=500, max_model_len=40960)
    assert () == found.found


def test_price_and_speed_of_unknown_workload_are_not_told() -> None:
    found = ask(isl=None, osl=None)
    assert all(item.fleet.speed is None for item in found.found)
    assert "isl and osl are not stated: nothing is said of speed" in found.notes
    assert 4 == by_size(found, tp=2).fleet.replicas


def test_latency_puts_the_shortest_time_between_tokens_first() -> None:
    found = ask(objective="latency", concurrency=16)
    times = [item.fleet.speed.tpot_ms or 0 for item in found.found if item.fleet.speed]
    assert times == sorted(times)
    assert {"tp": 8} == layouts(found)[0]


def test_context_puts_the_longest_request_first() -> None:
    found = ask("Qwen/Qwen2.5-72B-Instruct", objective="context")
    longest = [item.estimate.max_context or 0 for item in found.found if not item.settings]
    assert longest == sorted(longest, reverse=True)


def test_target_beyond_the_gpus_is_told() -> None:
    item = by_size(ask(target_tok_s=20_000, tpot_ms=100), tp=4)
    assert not item.fleet.affordable
    assert f"{item.gpus} GPUs are needed, 8 are there" == item.why


@pytest.mark.parametrize("goal", [{"tpot_ms": 1e-3}, {"ttft_ms": 1e-3}])
def test_goal_that_nothing_reaches_is_the_wall(goal: dict[str, float]) -> None:
    found = ask(target_tok_s=1000, **goal)
    assert "latency" == found.wall
    assert not any(item.fleet.reaches for item in found.found)


@pytest.mark.parametrize(("users", "target"), [(300, 6000), (3000, 6000), (3000, 60_000)])
def test_users_of_a_target_are_spread_over_the_fewest_replicas(users: int, target: float) -> None:
    """All fewer ones are too slow, or do not hold the users."""
    told = wanted(nodes=64, concurrency=users, target_tok_s=target, headroom=0, tpot_ms=90)
    item = by_size(recommend(real(), told), tp=4)
    pace = Pace(item.estimate, (), 1.0)
    most = pace.most()
    assert most is not None

    def enough(replicas: int) -> bool:
        speed = pace.at(math.ceil(users / replicas))
        assert speed is not None
        fits = math.ceil(users / replicas) <= most
        return fits and (speed.tpot_ms or 0) <= 90 and replicas * speed.tok_s >= target

    assert item.fleet.needed == next(n for n in range(1, users + 1) if enough(n))


def test_few_users_cannot_reach_a_high_target() -> None:
    found = ask(concurrency=2, target_tok_s=50_000)
    assert all("users get" in item.why for item in found.found if item.fleet.affordable)
    assert not any(item.fleet.reaches for item in found.found)


def test_rate_of_requests_is_one_of_tokens() -> None:
    one = by_size(ask(nodes=4, request_rate=10), tp=4)
    two = by_size(ask(nodes=4, target_tok_s=2560), tp=4)
    assert one.fleet == two.fleet


def test_experts_are_shared_out_with_attention_for_each_rank() -> None:
    found = ask(EXPERTS, concurrency=512)
    shared = [item for item in found.found if item.shape.attention_dp > 1]
    assert shared
    for item in shared:
        assert "--enable-expert-parallel" in item.arguments
        assert item.layout["ep"] == item.estimate.gpus


def test_weak_speeds_are_ranked_by_their_lower_end() -> None:
    """A rough guess of a little more does not beat what was measured."""
    found = ask(LARGE)
    grades = [item.fleet.speed.grade for item in found.found if item.fleet.speed is not None]
    assert "measured" == grades[0]
    assert "weak" in grades


def test_unknown_model_is_an_error() -> None:
    with pytest.raises(EstimateError, match="neither in the catalogue nor a path"):
        ask("acme/nobody")


def test_headroom_is_a_share_of_the_replicas() -> None:
    for headroom, replicas in ((0, 5), (0.2, 6), (0.21, 7), (1, 10)):
        item = ask(nodes=5, measured=MEASURED, target_tok_s=2000, headroom=headroom).found[0]
        assert (5, replicas) == (item.fleet.needed, item.fleet.replicas)


def test_room_counts_whole_nodes() -> None:
    told = wanted(gpus=6, nodes=3)
    assert [18, 9, 6, 3, 3, 1, 1] == [told.room(gpus) for gpus in (1, 2, 3, 4, 6, 12, 18)]


def test_gpus_that_no_replica_gets_are_counted() -> None:
    item = by_size(ask(LARGE, gpus=6), tp=4)
    assert (1, 4) == (item.fleet.replicas, item.gpus)
    assert 6 == item.fleet.counted_gpus  # its rate is shared over all of them


def test_pcie_in_place_of_nvlink_is_not_taken_for_it() -> None:
    found = ask(gpu=f"{CARD}:8,link=pcie")
    ranked = by_size(found, tp=2)
    assert ranked.fleet.speed is None
    assert "the link between cards of" in ranked.why
    assert "pcie" == ranked.estimate.device.link
    same = by_size(ask(gpu=f"{CARD}:8,link=nvlink"), tp=2).fleet
    assert by_size(ask(), tp=2).fleet == same


def test_refusals_have_numbers_and_the_engine_s_own_words() -> None:
    found = ask("Qwen/Qwen2.5-7B-Instruct")
    (heads,) = [item.message for item in found.rejected if item.layout["tp"] == 8]
    assert "28 attention heads do not suit 8; vLLM refuses to start ('must be divisible" in heads
    assert all("{" not in item.message for item in found.rejected)


def test_what_was_measured_runs_whatever_the_estimate_says() -> None:
    """70B in 16 bits on one card: someone must have cut it otherwise."""
    found = ask(LARGE, measured=[{"tp": 1, "output_tok_s": 900}])
    item = by_size(found)
    assert "does_not_fit" == item.estimate.verdict
    assert "it was measured, though by the estimate" in item.why
    assert 8 == item.fleet.replicas
    assert 7200 == item.fleet.tok_s


def test_measurements_of_layouts_that_cannot_be_had_are_told() -> None:
    rows = [{"tp": 3, "output_tok_s": 100}, {"tp": 2, "output_tok_s": 400}]
    notes = ask(measured=rows).notes
    assert "1 of 2 measurements are of layouts that cannot be had here" in notes
    assert any(note.startswith("speeds are ×") for note in notes)
    assert any("others are not scaled" in note for note in ask(measured=rows, isl=None).notes)


# --------------------------------------------------------------------------- what is not known


def test_two_ranks_over_pcie_come_before_two_stages_that_are_not_sure_to_be_faster() -> None:
    two = {"gpus": 2, "gpu": "RTX-3090", "isl": 1024, "osl": 1024}
    found = ask("Qwen/Qwen3-32B-AWQ", **two)
    assert [{"tp": 2}, {"pp": 2}] == layouts(found)[:2]
    pair, staged = found.found[:2]
    assert pair.fleet.tok_s < staged.fleet.tok_s < blur() * pair.fleet.tok_s
    assert any("two ranks over PCIe come before two stages" in note for note in found.notes)
    asked = {**two, "max_model_len": 16384, "concurrency": 4}
    found = ask("Qwen/Qwen3.6-35B-A3B-FP8", **asked)
    assert {"pp": 2} == layouts(found)[0]  # by far
    assert not any("two stages" in note for note in found.notes)
    assert blur() * by_size(found, tp=2).fleet.tok_s < by_size(found, pp=2).fleet.tok_s


def test_where_every_layout_has_the_longest_context_more_of_them_come_first() -> None:
    found = ask(objective="context", isl=None, osl=None)
    assert 1 == len({item.estimate.max_context for item in found.found})
    held = [(item.estimate.made.concurrency or 0) * item.fleet.replicas for item in found.found]
    assert held[0] >= 0.9 * max(held)
    assert {"tp": 8} == layouts(found)[0]


def test_it_is_not_said_that_less_does_not_hold_what_it_may_hold() -> None:
    asked = {"isl": 300, "osl": 200, "max_model_len": 32768}
    item = by_size(ask("openai/gpt-oss-120b", **asked), tp=2)
    assert item.why.startswith("it is doubtful whether fewer GPUs hold the model")
    assert by_size(ask(LARGE), tp=4).why.startswith("fewer GPUs do not hold the model")
