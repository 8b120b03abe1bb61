"""Possible values: which belong together, and what a test says of them."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shardlint.known import (
    CONTRADICTION,
    MAX_WORLDS,
    NOT_STATED,
    Always,
    Case,
    Known,
    Never,
    Sometimes,
    Text,
    Undecided,
    combine,
    consistent,
    decide,
    worlds,
)
from shardlint.source import Mapped, Origin, Span

SMALL, LARGE = ("gpu", "A100-40GB"), ("gpu", "A100-80GB")
A100_GIB = Known((Case(40, (SMALL,)), Case(80, (LARGE,))))
A100_PRICE = Known((Case(1.1, (SMALL,)), Case(1.6, (LARGE,))))
NODE = Known((Case(4, (("PER_NODE", "4"),)), Case(8, (("PER_NODE", "8"),))))


def at(start: int, end: int) -> Origin:
    return Origin("f.yaml", Span(start, end))


# ------------------------------------------------------------------------------------- worlds


def test_cards_never_meet_the_price_of_another() -> None:
    pairs = combine(lambda gib, price: (gib, price), A100_GIB, A100_PRICE)
    assert ((40, 1.1), (80, 1.6)) == pairs.values


def test_independent_choices_meet_in_every_combination() -> None:
    total = combine(operator.mul, A100_GIB, NODE)
    assert (160, 320, 320, 640) == tuple(case.value for case in total.cases)
    assert (160, 320, 640) == total.values
    assert (SMALL, ("PER_NODE", "8")) == total.cases[1].given


def test_choice_is_carried_through_a_combination() -> None:
    per_node = combine(operator.mul, A100_GIB, NODE)
    both = combine(lambda gib, price: (gib, price), per_node, A100_PRICE)
    assert {1.1} == {price for gib, price in both.values if gib == 160}
    assert {1.6} == {price for gib, price in both.values if gib == 640}


def test_world_holds_one_alternative_of_each_choice() -> None:
    assert consistent((Case(1, (SMALL,)), Case(2, (SMALL, ("PER_NODE", "4")))))
    assert not consistent((Case(1, (SMALL,)), Case(2, (LARGE,))))
    assert 2 == len(list(worlds(A100_GIB, A100_PRICE)))
    assert 4 == len(list(worlds(A100_GIB, NODE)))
    assert [()] == list(worlds())


def test_combination_of_something_unknown_is_unknown_for_its_reason() -> None:
    hole = Known.unknown("a template", at(3, 7))
    total = combine(operator.mul, A100_GIB, hole)
    assert ((), "a template", at(3, 7)) == (total.cases, total.reason, total.origin)


def test_values_that_exclude_one_another_are_no_value() -> None:
    only_small = Known((Case(1, (SMALL,)),))
    only_large = Known((Case(2, (LARGE,)),))
    total = combine(operator.add, only_small, only_large)
    assert (False, CONTRADICTION) == (total.is_known, total.reason)
    assert not total.is_unset
    assert Undecided((CONTRADICTION,)) == decide(operator.lt, only_small, only_large)


def test_too_many_worlds_are_not_counted_out() -> None:
    many = [
        Known(tuple(Case(n, ((f"v{index}", str(n)),)) for n in range(MAX_WORLDS // 32)))
        for index in range(2)
    ]
    assert "too many combinations" == combine(operator.add, *many).reason
    assert Undecided(("too many combinations",)) == decide(operator.lt, *many)
    assert combine(lambda one: one, many[0]).is_known


def test_assumptions_and_places_are_united() -> None:
    one = Known.of(2, at(0, 1), assumes=["A is unset"])
    two = Known.of(3, at(5, 6), assumes=["B is unset"])
    total = combine(operator.mul, one, two)
    assert frozenset({"A is unset", "B is unset"}) == total.assumes
    assert (at(0, 1), (at(0, 1), at(5, 6))) == (total.origin, total.related)
    assert "derived" == total.how
    assert frozenset({"A is unset", "C"}) == one.assuming("C").assumes
    assert frozenset({"A is unset"}) == one.map(str).assumes


# ------------------------------------------------------------------------------------- decide


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [
        (100, Always()),
        (60, Sometimes(((SMALL,),))),
        (10, Never()),
    ],
)
def test_test_holds_always_sometimes_or_never(limit: int, verdict: Any) -> None:
    assert verdict == decide(operator.lt, A100_GIB, Known.of(limit))


def test_test_on_something_missing_is_undecided_with_every_reason() -> None:
    verdict = decide(operator.lt, Known.unknown("a template"), Known.unset())
    assert Undecided(("a template", NOT_STATED)) == verdict


def test_test_without_facts_is_judged_once() -> None:
    assert Always() == decide(lambda: True)
    assert Never() == decide(lambda: False)


def test_sometimes_names_each_choice_of_a_world_once() -> None:
    cheap = decide(lambda gib, price: gib + price < 60, A100_GIB, A100_PRICE)
    assert Sometimes(((SMALL,),)) == cheap


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=6))
def test_verdict_agrees_with_a_look_at_each_world(rows: list[tuple[str, int]]) -> None:
    one = Known(tuple(Case(number, (("k", name),)) for name, number in rows))
    two = Known(tuple(Case(name, (("k", name),)) for name, _ in rows))
    holds = [a > 2 for name, a in rows for other, _ in rows if name == other]
    verdict = decide(lambda number, _: number > 2, one, two)
    wanted = Always if all(holds) else Sometimes if any(holds) else Never
    assert isinstance(verdict, wanted)


# -------------------------------------------------------------------------------------- facts


def test_unset_is_not_unknown() -> None:
    assert Known.unset().is_unset
    assert not Known.unset().is_known
    assert not Known.unknown("a template").is_unset
    assert not Known.of(None).is_unset
    assert Known.of(None).is_known


def test_default_stands_in_for_nothing_but_what_is_not_stated() -> None:
    default = Known.of(1, how="defaulted")
    hole: Known[int] = Known.unknown("a template")
    assert default is Known.unset().or_default(default)
    assert hole is hole.or_default(default)
    assert (4,) == Known.of(4).or_default(default).values


def test_only_value_is_that_of_all_cases() -> None:
    assert 8 == Known((Case(8, (SMALL,)), Case(8, (LARGE,)))).only
    assert A100_GIB.only is None
    assert Known.unknown("x").only is None


def test_map_keeps_choices_and_place() -> None:
    doubled = Known(A100_GIB.cases, None, at(1, 3)).map(lambda gib: gib * 2, "derived")
    assert (Case(80, (SMALL,)), Case(160, (LARGE,))) == doubled.cases
    assert (at(1, 3), "derived") == (doubled.origin, doubled.how)


# --------------------------------------------------------------------------------------- text

LINE = 'args: ["--tensor-parallel-size=8"]'


def quoted() -> Text:
    """The item of LINE, whose origin has the quotes."""
    return Text(Mapped.slice_of(LINE, Span(8, 32)), at(7, 33))


def test_text_is_placed_at_its_characters_and_not_its_quotes() -> None:
    assert "--tensor-parallel-size=8" == quoted().value
    assert at(8, 32) == quoted().place == quoted().editable


def test_part_of_a_text_has_its_own_place() -> None:
    part = quoted().part(23)
    assert ("8", at(31, 32), at(31, 32)) == (part.value, part.place, part.editable)


def test_expanded_text_is_edited_where_it_is_defined() -> None:
    text = Text(Mapped.all_at("8", Span(20, 25)), at(20, 25), related=(at(3, 4),),
                definition=at(3, 4))  # fmt: skip
    assert (at(20, 25), at(3, 4)) == (text.place, text.editable)
    assert (8,) == text.known().map(int).values
    assert (at(3, 4),) == text.known().related


def test_text_made_of_several_pieces_has_no_place_to_edit() -> None:
    assert Text(Mapped.all_at("8", Span(20, 25)), at(20, 25)).editable is None
    assert Text.unknown(at(0, 1), "a template").editable is None


def test_unknown_text_is_an_unknown_fact_with_its_reason() -> None:
    known = Text.unknown(at(0, 4), "a template", related=(at(9, 10),)).known()
    assert ("a template", at(0, 4), (at(9, 10),)) == (known.reason, known.origin, known.related)
