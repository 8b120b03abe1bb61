"""Replicas of one layout: no more requests run than there are users."""

from __future__ import annotations

from recommendations.asking import ask


def test_a_fleet_is_no_faster_than_its_users() -> None:
    found = ask(concurrency=3, isl=4000, osl=500)
    for item in found.found:
        speed = item.fleet.speed
        assert speed is not None and speed.tpot_ms is not None
        assert item.fleet.tok_s <= 3 * 1000 / speed.tpot_ms * 1.001


def test_a_target_that_cannot_be_reached_gets_no_spare_replicas() -> None:
    found = ask(concurrency=8, target_tok_s=1e9)
    for item in found.found:
        assert item.fleet.replicas == item.fleet.needed <= 8
        assert "tokens a second at most" in item.fleet.waits
