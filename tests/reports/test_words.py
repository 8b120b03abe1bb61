from __future__ import annotations

import pytest
from shardlint.reports.words import counted, estimated, listed, printable


@pytest.mark.parametrize(("count", "said"), [(0, "no plans"), (1, "1 plan"), (2000, "2,000 plans")])
def test_count_and_noun_agree(count: int, said: str) -> None:
    assert said == counted(count, "plan")


@pytest.mark.parametrize(
    ("items", "said"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and 1 more")],
)
def test_list_is_joined_and_cut(items: list[str], said: str) -> None:
    assert said == listed(items, 2)


def test_estimate_reads_as_words() -> None:
    estimate = {
        "kv_copies": {"before": 2, "after": 1},
        "weights_gib": 31.04,
        "fits": {"before": False, "after": True},
        "ttft_ms": {"before": None, "after": 250},
    }
    expected = "KV copies 2 → 1, weights GiB 31.0, fits no → yes, ttft ms not known → 250"
    assert expected == estimated(estimate)


@pytest.mark.parametrize("harmful", ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\udcff"])
def test_printable_drops_what_a_terminal_obeys(harmful: str) -> None:
    expected = "a\ufffdb"
    assert expected == printable(f"a{harmful}b")


def test_printable_keeps_letters_of_all_scripts() -> None:
    expected = "größe 模型 🦙 e\u0301"
    assert expected == printable("größe 模型 🦙 e\u0301")
