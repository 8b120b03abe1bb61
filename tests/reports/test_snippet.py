from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from shardlint.reports.snippet import columns, snippet
from shardlint.source import Source, Span


def drawn(text: str, start: int, end: int, label: str = "here") -> str:
    """The rows of a snippet, a bar before the text."""
    rows = snippet(Source("a.yaml", text), Span(start, end), label)
    return "".join(f"{row.number or ' '}|{row.text}\n" for row in rows)


def test_marks_stand_under_the_span() -> None:
    expected = "1|tp: 8\n |    ^ here\n"
    assert expected == drawn("tp: 8\n", 4, 5)


def test_line_before_is_shown_without_a_label() -> None:
    expected = '1|- --tp\n2|- "8"\n |  ^^^\n'
    assert expected == drawn('- --tp\n- "8"\n', 9, 12, label="")


def test_blank_line_before_is_left_out() -> None:
    expected = "2|tp: 8\n |    ^\n"
    assert expected == drawn("\ntp: 8\n", 5, 6, label="")


def test_tab_takes_four_columns() -> None:
    expected = "1|    tp:    8\n |           ^ here\n"
    assert expected == drawn("\ttp:\t8\n", 5, 6)


def test_wide_characters_take_two_columns() -> None:
    expected = "1|模型: 🦙 8\n |      ^^ here\n"
    assert expected == drawn("模型: 🦙 8\n", 4, 5)


def test_combining_characters_take_none() -> None:
    expected = "1|e\u0301 8\n |  ^ here\n"
    assert expected == drawn("e\u0301 8\n", 3, 4)


def test_carriage_return_is_not_shown() -> None:
    expected = "2|tp: 8\n |    ^ here\n"
    assert expected == drawn("a: 1\r\ntp: 8\r\n", 10, 11)


def test_line_end_in_the_span_is_not_marked() -> None:
    expected = "1|tp: 8\n |    ^ here\n"
    assert expected == drawn("tp: 8\r\nb\n", 4, 7)


def test_empty_span_gets_one_mark() -> None:
    expected = "1|tp: 8\n |    ^ here\n"
    assert expected == drawn("tp: 8\n", 4, 4)


def test_end_of_file_is_marked_behind_the_last_character() -> None:
    expected = "1|tp: 8\n |     ^ here\n"
    assert expected == drawn("tp: 8", 5, 5)


def test_end_of_file_after_a_line_end_is_an_empty_line() -> None:
    expected = "2|\n |^ here\n"
    assert expected == drawn("tp: 8\n", 6, 6)


def test_empty_file_has_a_line_to_mark() -> None:
    expected = "1|\n |^ here\n"
    assert expected == drawn("", 0, 0)


def test_several_lines_get_a_bar() -> None:
    expected = """\
1|/ a:
2|| b: 1
 ||___^ here
"""
    assert expected == drawn("a:\nb: 1\nc\n", 0, 6)


def test_bar_starts_with_an_arm_in_the_middle_of_a_line() -> None:
    expected = """\
1|  a: |
 | ____^
2||   b
 ||___^ here
"""
    assert expected == drawn("a: |\n  b\n", 3, 8)


def test_many_lines_are_cut_in_the_middle() -> None:
    text = "".join(f"- {letter}\n" for letter in "abcdefgh")
    expected = """\
1|/ - a
2|| - b
3|| - c
 ||
7|| - g
8|| - h
 ||___^ here
"""
    assert expected == drawn(text, 0, len(text))


def test_long_line_is_cut_around_the_span() -> None:
    expected = f"""\
1|...{"x" * 40}8{"y" * 59}...
 |{" " * 43}^ here
"""
    assert expected == drawn("x" * 300 + "8" + "y" * 300, 300, 301)


def test_long_span_is_cut_with_its_line() -> None:
    expected = f"""\
1|{"x" * 10}{"8" * 90}...
 |{" " * 10}{"^" * 90} here
"""
    assert expected == drawn("x" * 10 + "8" * 300, 10, 310)


def test_control_characters_are_not_passed_on() -> None:
    expected = "1|\ufffd[2J8\n |    ^ here\n"
    assert expected == drawn("\x1b[2J8\n", 4, 5)


@given(st.text(st.sampled_from("ab\t\r\U0001f999\u0301\x1b\u2028"), max_size=80), st.data())
def test_marks_start_where_the_text_before_ends(line: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(line.rstrip("\r"))))
    end = data.draw(st.integers(start, len(line)))
    expected = columns(line[:start].replace("\t", "    "))
    _, marks = snippet(Source("a", f"{line}\n"), Span(start, end), "here")
    assert expected == marks.text.index("^")


@given(st.text(st.sampled_from("ab\r\n\t"), max_size=40), st.data())
def test_any_span_gets_a_mark(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert snippet(Source("a", text), Span(start, end))[-1].text.endswith("^")
