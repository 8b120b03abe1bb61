"""Texts, places in them, and edits."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shardlint.source import (
    DecodeError,
    Edit,
    EditConflict,
    Mapped,
    Position,
    Source,
    Span,
    apply,
)

# --------------------------------------------------------------------------------- positions


@pytest.mark.parametrize(
    ("offset", "line", "column"),
    [(0, 1, 1), (2, 1, 3), (3, 2, 1), (5, 2, 3), (6, 3, 1), (7, 4, 1), (9, 4, 3)],
)
def test_offset_has_a_line_and_a_column(offset: int, line: int, column: int) -> None:
    source = Source("f", "ab\ncd\n\nef")
    assert Position(line, column, offset) == source.position(offset)
    assert offset == source.offset(line, column)


def test_offset_outside_the_text_is_clamped() -> None:
    source = Source("f", "ab\ncd")
    assert Position(2, 3, 5) == source.position(99)
    assert Position(1, 1, 0) == source.position(-1)
    assert 5 == source.offset(99, 99)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line(character: str) -> None:
    source = Source("f", f"a{character}b\nc")
    assert 2 == source.line_count
    assert Position(1, 3, 2) == source.position(2)
    assert f"a{character}b" == source.line_text(1)


def test_carriage_return_belongs_to_the_line_end() -> None:
    source = Source("f", "ab\r\ncd\r\nef")
    assert ["ab", "cd", "ef"] == [source.line_text(line) for line in (1, 2, 3)]
    assert Span(4, 6) == source.line_span(2)
    assert Position(2, 1, 4) == source.position(4)


def test_last_line_is_there_with_and_without_a_line_end() -> None:
    assert ("ab", 1) == (Source("f", "ab").line_text(1), Source("f", "ab").line_count)
    assert ("", 2) == (Source("f", "ab\n").line_text(2), Source("f", "ab\n").line_count)
    assert Span(0, 0) == Source("f", "").line_span(1)


def test_column_counts_code_points_and_utf16_its_own_units() -> None:
    source = Source("f", "x\n🦙é: 8")
    assert Position(2, 5, 6) == source.position(6)
    assert 5 == source.utf16_column(6)
    assert 0 == source.utf16_column(2)
    assert 1 == source.utf16_column(1)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet="ab\n\r\u2028🦙", max_size=30), st.integers(0, 30))
def test_position_and_offset_are_inverse(text: str, offset: int) -> None:
    source = Source("f", text)
    position = source.position(offset)
    assert position.offset == min(offset, len(text))
    assert position.offset == source.offset(position.line, position.column)
    assert text[: position.offset].count("\n") + 1 == position.line


# ------------------------------------------------------------------------------------- bytes


@pytest.mark.parametrize("text", ["a\r\nb\n", "", "🦙", "\u2028\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_bytes_come_back_as_they_were(text: str, mark: bytes) -> None:
    data = mark + text.encode()
    source = Source.from_bytes("f", data)
    assert (text, bool(mark), data) == (source.text, source.bom, source.to_bytes())


def test_byte_order_mark_is_no_column() -> None:
    source = Source.from_bytes("f", b"\xef\xbb\xbfab")
    assert Position(1, 1, 0) == source.position(0)


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b"ab\n\xff", 2, 1),
        (b"\xe9", 1, 1),
        ("é".encode() + b"\xff", 1, 2),
        (b"\xef\xbb\xbfa\xff", 1, 2),
        (b"a\xe2\x80", 1, 2),
    ],
)
def test_byte_that_is_no_utf8_has_a_place(data: bytes, line: int, column: int) -> None:
    with pytest.raises(DecodeError, match="is not UTF-8") as caught:
        Source.from_bytes("f", data)
    assert (line, column) == (caught.value.line, caught.value.column)


# ------------------------------------------------------------------------------------- edits


def edit(start: int, end: int, text: str) -> Edit:
    return Edit("f", Span(start, end), text)


def test_edits_are_applied_together_in_the_order_of_their_places() -> None:
    assert "a4 x 8b" == apply("a1 2b", [edit(3, 4, "x 8"), edit(1, 2, "4")])


def test_text_outside_the_spans_stays() -> None:
    text = "k: 8\r\n# 🦙\u2028\r\n"
    assert "k: 4\r\n# 🦙\u2028\r\n" == apply(text, [edit(3, 4, "4")])
    assert text == apply(text, [])


def test_insertions_at_one_place_keep_their_order() -> None:
    assert "a12b" == apply("ab", [edit(1, 1, "1"), edit(1, 1, "2")])


def test_insertion_beside_a_replacement_does_not_touch_it() -> None:
    assert "4 -dp 2" == apply("8", [edit(1, 1, " -dp 2"), edit(0, 1, "4")])
    assert "-dp 2 4" == apply("8", [edit(0, 1, "4"), edit(0, 0, "-dp 2 ")])


@pytest.mark.parametrize(
    "edits",
    [
        [edit(0, 2, "x"), edit(1, 3, "y")],
        [edit(0, 2, "x"), edit(0, 2, "x")],
        [edit(0, 3, "x"), edit(1, 1, "y")],
    ],
)
def test_edits_of_the_same_text_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(EditConflict, match="f: two edits meet at offset"):
        apply("abcd", edits)


# ------------------------------------------------------------------------------------- mapped


def test_slice_knows_the_place_of_its_characters() -> None:
    mapped = Mapped.slice_of("a: 'xyz'", Span(4, 7))
    assert ("xyz", Span(4, 7), Span(5, 6)) == (mapped.text, mapped.span(), mapped.span(1, 2))
    assert Span(6, 7) == mapped.cut(2).span()
    assert mapped.literal


def test_empty_range_is_an_empty_span_where_it_stands() -> None:
    mapped = Mapped.slice_of("abcdef", Span(2, 4))
    assert [Span(2, 2), Span(3, 3), Span(4, 4)] == [mapped.span(n, n) for n in (0, 1, 2)]
    assert Span(0, 0) == Mapped("", range(0), range(0)).span()


def test_expansion_stands_where_it_was_written() -> None:
    mapped = Mapped.all_at("eight", Span(3, 6))
    assert (Span(3, 6), Span(3, 6)) == (mapped.span(), mapped.span(1, 2))
    assert not mapped.literal


def test_adjacent_slices_join_to_one() -> None:
    text = "abcdef"
    joined = Mapped.slice_of(text, Span(0, 2)) + Mapped.slice_of(text, Span(2, 4))
    assert Mapped.slice_of(text, Span(0, 4)) == joined


def test_joined_pieces_keep_their_places() -> None:
    text = "ab$Xcd"
    joined = (
        Mapped.slice_of(text, Span(0, 2))
        + Mapped.all_at("12", Span(2, 4))
        + Mapped.slice_of(text, Span(4, 6))
    )
    assert "ab12cd" == joined.text
    assert [Span(1, 2), Span(2, 4), Span(2, 4), Span(4, 5)] == [
        joined.span(n, n + 1) for n in range(1, 5)
    ]
    assert not joined.literal
    assert not (Mapped.slice_of(text, Span(0, 1)) + Mapped.all_at("x", Span(2, 4))).literal


def test_nothing_added_changes_nothing() -> None:
    empty, some = Mapped("", range(0), range(0)), Mapped.slice_of("ab", Span(0, 1))
    assert some == some + empty == empty + some


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1, max_size=8), st.data())
def test_every_slice_maps_back_to_its_own_characters(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    at = data.draw(st.integers(start, end))
    whole = Mapped.slice_of(text, Span(start, at)) + Mapped.slice_of(text, Span(at, end))
    assert text[start:end] == whole.text
    for index in range(len(whole)):
        span = whole.span(index, index + 1)
        assert whole.text[index] == text[span.start : span.end]
