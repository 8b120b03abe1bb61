"""YAML and JSON as a tree: the span of every node, and the place of every character of a scalar."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML, scalarstring
from ruamel.yaml.error import YAMLError
from shardlint.readers import yaml_tree
from shardlint.readers.yaml_tree import Node, YamlError, characters, documents, integer, placeholder
from shardlint.source import Mapped, Source, Span


def root(text: str) -> Node:
    (node,) = documents(Source("a.yaml", text))
    return node


def node(text: str, *path: str | int) -> Node:
    found = root(text).get(*path)
    assert found is not None
    return found


def at(text: str, span: Span) -> str:
    return text[span.start : span.end]


def token(text: str, *path: str | int) -> str:
    """The source of a node, quotes and indicators included."""
    return at(text, node(text, *path).span)


def letters(text: str, *path: str | int) -> list[str]:
    """The source of each character of a scalar."""
    mapped = characters(node(text, *path))
    return [text[start:end] for start, end in zip(mapped.starts, mapped.ends, strict=True)]


def word(text: str, value: str, *path: str | int) -> str:
    """The source of a part of a scalar."""
    mapped = characters(node(text, *path))
    start = mapped.text.index(value)
    return at(text, mapped.span(start, start + len(value)))


def failure(text: str) -> YamlError:
    with pytest.raises(YamlError) as caught:
        documents(Source("a.yaml", text))
    return caught.value


# the parser


def test_libyaml_does_the_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser written in Python is an order of magnitude slower."""
    from _ruamel_yaml import CParser

    assert CParser.__module__.endswith("_ruamel_yaml")
    monkeypatch.setattr(yaml_tree, "_pure_events", None)
    assert "1" == node("a: 1", "a").value


def test_what_libyaml_refuses_is_parsed_again() -> None:
    text = "ports: [8000:8000, 80:80]\nb: 1\n"
    assert "8000:8000" == token(text, "ports", 0)
    assert "80:80" == token(text, "ports", 1)
    assert "1" == token(text, "b")


def test_a_long_text_is_not_parsed_again() -> None:
    text = "a: [8000:8000]\n" + "# comment\n" * (yaml_tree.PURE_LIMIT // 10 + 1)
    assert text.index(":8000") == failure(text).span.start


# spans of nodes


def test_a_plain_scalar_has_its_own_span() -> None:
    assert "b c" == token("a: b c  # d\n", "a")


def test_a_key_has_its_own_span() -> None:
    text = 'a:\n  "b c" : d\n'
    key, _ = node(text, "a").pairs[0]
    assert '"b c"' == at(text, key.span)
    assert "b c" == key.value


def test_a_quoted_scalar_includes_its_quotes() -> None:
    assert "'b'" == token("a: 'b' \n", "a")
    assert '"b"' == token('a: "b"\n', "a")


def test_an_item_of_a_list_leaves_the_dash_out() -> None:
    assert "b" == token("-   b\n", 0)


def test_a_map_ends_behind_its_last_value() -> None:
    text = "a: {b: c, d: e} # f\n"
    assert "{b: c, d: e}" == token(text, "a")


def test_a_block_scalar_starts_at_its_indicator() -> None:
    text = "a: |-  # why\n  b\n  c\nd: e\n"
    assert "|-  # why\n  b\n  c\n" == token(text, "a")
    assert "e" == token(text, "d")


def test_an_empty_value_has_an_empty_span() -> None:
    text = "- a:\n  b: 1\n"
    key, value = root(text).items[0].pairs[0]
    assert key.span.end <= value.span.start == value.span.end


@pytest.mark.parametrize("value", ["8", "'8'", '"8"', "|-\n  8"])
@pytest.mark.parametrize("before", ["&n ", "!!str ", "&n !!str ", "!!str &n  ", "&n-1 ", "!x "])
def test_anchor_and_tag_are_no_part_of_a_scalar(before: str, value: str) -> None:
    text = f"a: {before}{value}\nb: c\n"
    assert value.strip() == token(text, "a").strip()
    assert "8" == at(text, characters(node(text, "a")).span())
    assert ["8"] == letters(text, "a")


def test_an_anchor_on_the_line_before_is_no_part_of_a_scalar() -> None:
    assert "8" == token("a: &n  # the size\n  8\n", "a")


def test_an_anchored_list_starts_at_its_anchor() -> None:
    assert "&c [a, b]" == token("a: &c [a, b]\n", "a")


def test_a_list_in_brackets_is_told_from_one_with_dashes() -> None:
    assert node("a: &c [b]", "a").flow
    assert node("a: &c [b]\nd: *c", "d").flow
    assert not node("a: &c\n- b", "a").flow


def test_a_byte_order_mark_shifts_no_span() -> None:
    text = "\ufeffa: 8\nb: [x, y]\n"
    assert "8" == token(text, "a")
    assert "[x, y]" == token(text, "b")
    assert "y" == token(text, "b", 1)


def test_characters_outside_the_basic_plane_count_once() -> None:
    text = "a: 😀é\u4e2d\nb: 8\n"
    assert "😀é\u4e2d" == token(text, "a")
    assert "8" == token(text, "b")


def test_crlf_counts_as_two_characters() -> None:
    text = "a: 1\r\nb:\r\n- 2\r\n"
    assert "1" == token(text, "a")
    assert "2" == token(text, "b", 0)


def test_next_line_characters_shift_no_span() -> None:
    """U+0085 and U+2028 are line breaks of YAML 1.1."""
    text = "a: x\u0085y\nb: 'x\u2028y'\nc: 8\n"
    assert "8" == token(text, "c")


def test_tabs_count_once() -> None:
    assert "8" == token("a:\t8\t# b\n", "a")


def test_every_document_has_a_root() -> None:
    text = "a: 1\n---\n# nothing\n---\nb: 2\n...\n"
    roots = documents(Source("a.yaml", text))
    assert [None, None, "2"] == [node.string("b") for node in roots]


def test_a_text_without_a_document_has_no_root() -> None:
    assert [] == documents(Source("a.yaml", "# nothing\n"))
    assert [] == documents(Source("a.yaml", ""))


def test_json_has_spans_too() -> None:
    text = json.dumps({"a": [1, "x\ny"], "b": {"c": None}}, indent=2)
    assert "1" == token(text, "a", 0)
    assert '"x\\ny"' == token(text, "a", 1)
    assert None is root(text).get("b", "c")


# values


def test_a_missing_path_is_none() -> None:
    assert None is root("a: [b]").get("a", 3)
    assert None is root("a: b").get("a", "b")
    assert None is root("a: b").get("c")
    assert None is root("- a").get("a")


@pytest.mark.parametrize("null", ["", "~", "null", "Null", "NULL"])
def test_a_key_without_a_value_counts_as_missing(null: str) -> None:
    assert None is root(f"a: {null}\n").get("a")


@pytest.mark.parametrize("value", ["'null'", '"~"', "!!str null", "''", "nil"])
def test_a_string_that_looks_like_nothing_is_a_string(value: str) -> None:
    assert None is not root(f"a: {value}\n").string("a")


def test_of_a_repeated_key_the_last_counts() -> None:
    text = "a: 1\nb: 2\na: 3\n"
    assert "3" == root(text).string("a")
    assert ["a", "b"] == [key.value for key, _ in root(text).entries()]


def test_a_merge_key_adds_what_is_not_there() -> None:
    text = "x: &x {a: 1, b: 2}\ny:\n  b: 3\n  <<: *x\n"
    assert "1" == root(text).string("y", "a")
    assert "3" == root(text).string("y", "b")
    assert [("b", "3"), ("a", "1")] == pairs(node(text, "y"))


def pairs(of: Node) -> list[tuple[str, str]]:
    return [(key.value, value.value) for key, value in of.entries()]


def test_of_several_merged_maps_the_first_wins() -> None:
    text = "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}\n"
    assert [("a", "1"), ("b", "2")] == pairs(node(text, "z"))


def test_merges_of_merges_are_followed_before_the_next_map() -> None:
    text = "w: &w {a: 1}\nx: &x {<<: [*w]}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}\n"
    assert [("a", "1"), ("b", "2")] == pairs(node(text, "z"))


def test_a_quoted_merge_key_is_a_key() -> None:
    text = "x: &x {a: 1}\ny: {'<<': *x}\n"
    assert None is root(text).get("y", "a")
    assert None is not root(text).get("y", "<<")


def test_a_merged_value_stands_at_its_anchor() -> None:
    text = "x: &x {a: 1}\ny: {<<: *x}\n"
    assert (10, 11) == (node(text, "y", "a").span.start, node(text, "y", "a").span.end)


def test_an_own_key_without_a_value_hides_a_merged_one() -> None:
    assert None is root("x: &x {a: 1}\ny: {<<: *x, a: }\n").get("y", "a")


def test_an_alias_has_a_place_of_its_own() -> None:
    text = "a: &n 8\nb: *n\n"
    assert "8" == node(text, "b").value
    assert "*n" == token(text, "b")
    assert "8" == token(text, "a")


def test_an_alias_cannot_be_edited() -> None:
    text = "a: &n 8\nb: *n\n"
    assert None is node(text, "b").text().editable
    assert None is not node(text, "a").text().editable


def test_an_anchor_set_again_replaces_the_first() -> None:
    assert "2" == node("a: &n 1\nb: &n 2\nc: *n\n", "c").value


def test_an_anchor_ends_with_its_document() -> None:
    error = failure("a: &n 1\n---\nb: *n\n")
    assert "alias *n has no anchor" == str(error)
    assert Span(15, 17) == error.span


def test_a_map_is_no_text() -> None:
    text = node("a: {b: c}", "a").text()
    assert None is text.value
    assert "a map where a scalar is expected" == text.reason


# characters of scalars


def test_plain_characters_stand_where_they_are() -> None:
    assert ["b", " ", "c"] == letters("a: b c\n", "a")


def test_a_line_break_in_a_plain_scalar_is_one_blank() -> None:
    text = "a: b\n   c\n\n\n   d\n"
    assert "b c\n\nd" == node(text, "a").value
    assert ["b", "\n   ", "c", "\n\n\n   ", "\n\n\n   ", "d"] == letters(text, "a")


def test_blanks_before_a_line_break_vanish() -> None:
    text = "a: 'b  \n  c'\n"
    assert ["b", "\n  ", "c"] == letters(text, "a")


def test_single_quotes_are_written_twice() -> None:
    text = "a: 'it''s'\n"
    assert ["i", "t", "''", "s"] == letters(text, "a")
    assert not characters(node(text, "a")).literal
    assert characters(node("a: 'its'\n", "a")).literal


def test_an_escape_is_one_character() -> None:
    text = r'a: "\x41\u0042\U00000043\n\"\/d"'
    assert 'ABC\n"/d' == node(text, "a").value
    assert [r"\x41", r"\u0042", r"\U00000043", r"\n", r"\"", r"\/", "d"] == letters(text, "a")


def test_an_escaped_line_break_is_nothing() -> None:
    text = 'a: "--tp \\\n    8"\n'
    assert "--tp 8" == node(text, "a").value
    assert "8" == word(text, "8", "a")


def test_escapes_leave_the_characters_beside_them_in_place() -> None:
    text = r'a: "echo \"x\"; vllm serve --tp 8"'
    assert "--tp 8" == word(text, "--tp 8", "a")


def test_surrogate_pairs_in_json_shift_nothing() -> None:
    """libyaml refuses them, the other parser does not."""
    text = '{"a": "\\ud83d\\ude00", "b": 8}'
    assert "😀" == node(text, "a").value
    assert "8" == token(text, "b")


def test_half_a_surrogate_pair_is_no_character() -> None:
    assert "x\ufffd" == node(r'["x\ud83d"]', 0).value


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_literal_scalar_keeps_its_lines(end: str) -> None:
    text = end.join(["a: |", "  b c", "", "    d", "e: f", ""])
    assert "b c\n\n  d\n" == node(text, "a").value
    assert ["b", " ", "c", end, end, " ", " ", "d", end] == letters(text, "a")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_folded_scalar_joins_its_lines(end: str) -> None:
    text = end.join(["a: >", "  b", "  c", "", "  d", "   e", "  f", ""])
    assert "b c\nd\n e\nf\n" == node(text, "a").value
    assert ["b", end, "c", end, "d", end, " ", "e", end, "f", end] == letters(text, "a")


@pytest.mark.parametrize(
    ("indicator", "value"),
    [("|", "b\n"), ("|-", "b"), ("|+", "b\n\n\n"), (">", "b\n"), (">-", "b"), (">+", "b\n\n\n")],
)
def test_chomping_decides_the_last_line_breaks(indicator: str, value: str) -> None:
    text = f"a: {indicator}\n  b\n\n\nc: d\n"
    assert value == characters(node(text, "a")).text
    assert "b" == word(text, "b", "a")


@pytest.mark.parametrize("indicator", ["|2", "|2-", "|-2", "|+2", ">2", "|2 # why"])
def test_an_indentation_indicator_leaves_blanks_in_the_text(indicator: str) -> None:
    text = f"a: {indicator}\n    b\n  c\n"
    assert characters(node(text, "a")).text.startswith("  b")
    assert "c" == word(text, "c", "a")


@pytest.mark.parametrize(
    "text", ["a: |\n\n\n", "a: |2-\n     \nb: c", "a: |+\n  \n  \n", "a: >-\n"]
)
def test_a_block_scalar_of_blanks_has_places(text: str) -> None:
    mapped = characters(node(text, "a"))
    assert node(text, "a").value == mapped.text
    assert mapped.literal


def test_a_block_scalar_ends_with_the_text() -> None:
    text = "a: |\n  b"
    assert ["b"] == letters(text, "a")[:1]
    assert "b" == characters(node(text, "a")).text.rstrip()


def test_a_comment_behind_a_block_scalar_is_no_part_of_it() -> None:
    text = "a:\n  b: |\n    c\n  # d\n  e: f\n"
    assert ["c", "\n"] == letters(text, "a", "b")


def test_a_number_sign_in_a_block_scalar_is_text() -> None:
    assert "# c" == word("a: |\n  b\n  # c\n", "# c", "a")


def test_tabs_in_a_block_scalar_are_text() -> None:
    text = "a: |\n  \tb\n"
    assert ["\t", "b", "\n"] == letters(text, "a")


def test_what_cannot_be_reproduced_stands_at_the_whole_scalar() -> None:
    text = "a: |\n  b\u0085  c\n"
    mapped = characters(node(text, "a"))
    assert "b\nc\n" == mapped.text
    assert node(text, "a").span == mapped.span(0, 1)
    assert not mapped.literal


# texts that are no YAML


def test_an_error_has_a_place() -> None:
    text = "a: 1\nb: [c\nd: e\n"
    assert text.index("d:") <= failure(text).span.start <= len(text)


def test_an_error_behind_a_byte_order_mark_has_the_right_place() -> None:
    assert failure("a: b: c\n").span.start + 1 == failure("\ufeffa: b: c\n").span.start


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x7f", "\x80", "\ufffe"])
def test_a_forbidden_character_is_named_with_its_place(character: str) -> None:
    text = f"é😀: {character}\n"
    error = failure(text)
    assert f"U+{ord(character):04X} is not allowed in YAML" == str(error)
    assert Span(4, 5) == error.span


def test_deep_nesting_is_refused() -> None:
    assert "nested deeper than 200 levels" == str(failure("[" * 20_000))
    assert "nested deeper than 200 levels" == str(failure("[" * 20_000 + "]" * 20_000))
    assert "x" == node("[" * 100 + "x" + "]" * 100, *[0] * 100).value


def test_deep_maps_are_refused() -> None:
    text = "".join(f"{' ' * depth}a:\n" for depth in range(300))
    assert "nested deeper than 200 levels" == str(failure(text))


def test_an_alias_bomb_costs_what_is_written() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    assert 1 + 40 * 11 == len(list(root("\n".join(lines)).walk()))


def test_a_bomb_of_merges_costs_what_is_written() -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 40)]
    assert [("x", "1")] == pairs(node("\n".join(lines), "a39"))


def test_a_list_may_hold_itself() -> None:
    text = "a: &a [*a, b]\n"
    assert "b" == node(text, "a", 0, 0, 0, 1).value
    assert 4 == len(list(root(text).walk()))


def test_a_map_may_merge_itself() -> None:
    assert [("b", "c")] == pairs(node("a: &a {<<: *a, b: c}\n", "a"))


def test_two_maps_may_merge_each_other() -> None:
    text = "x: &x\n  a: 1\n  y: &y\n    b: 2\n    <<: *x\n"
    assert [("b", "2"), ("a", "1")] == [pair for pair in pairs(node(text, "x", "y")) if pair[1]]


# values that readers ask for


@pytest.mark.parametrize("value", ["8", "'8'", '"8"', "+8", "' 8 '", "!!str 08", "&a 8"])
def test_a_whole_number_may_be_quoted(value: str) -> None:
    assert 8 == integer(node(f"a: {value}", "a")).only


@pytest.mark.parametrize("value", ["8.0", "1e3", "0x8", "010", "8Gi", "٨", "", "x", "[8]"])
def test_what_is_no_whole_number_is_unknown(value: str) -> None:
    text = f"- {value}"
    known = integer(root(text).items[0])
    assert not known.is_known
    assert known.reason


def test_a_place_without_a_number_is_unset() -> None:
    assert integer(None).is_unset


@pytest.mark.parametrize(
    "value",
    ["{{ .Values.tp }}", "${TP}", "$(TP)", "$TP", "<your-model>", "__MODEL__", "{tp}", "x-${A}"],
)
def test_a_blank_to_fill_in_is_no_value(value: str) -> None:
    assert f"{value!r} is filled in elsewhere" == placeholder(value)


@pytest.mark.parametrize("value", ["8", "a < b", "org/model", "$5", "{a: b}", "", "__init__"])
def test_a_value_is_no_blank_to_fill_in(value: str) -> None:
    assert None is placeholder(value)


# properties

TRICKY = st.text(alphabet=" ab-\n'\"#:\\\t$[]{}&*!|>%,?0éé😀\u00a0", max_size=20)
STYLES = (
    str,
    scalarstring.SingleQuotedScalarString,
    scalarstring.DoubleQuotedScalarString,
    scalarstring.LiteralScalarString,
    scalarstring.FoldedScalarString,
)
SCALARS = st.builds(lambda style, text: style(text), st.sampled_from(STYLES), TRICKY)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY, inner, max_size=4),
    max_leaves=8,
)


def dumped(tree: Any, end: str, width: int, ascii_only: bool, flow: bool | None) -> str:
    yaml = YAML()
    yaml.line_break, yaml.width = end, width  # type: ignore[assignment]
    yaml.allow_unicode, yaml.default_flow_style = not ascii_only, flow
    out = io.StringIO()
    try:
        yaml.dump(tree, out)
    except (YAMLError, IndexError):  # not every text can be dumped in every style
        assume(False)
    return out.getvalue()


def scalars(text: str) -> Iterator[Node]:
    for top in documents(Source("a.yaml", text)):
        for found in top.walk():
            yield from (key for key, _ in found.pairs if key.kind == "scalar")
            if found.kind == "scalar":
                yield found


def check_places(text: str, found: Node, mapped: Mapped) -> None:
    """Every character comes from inside its scalar, and a literal one from itself."""
    for character, start, end in zip(mapped.text, mapped.starts, mapped.ends, strict=True):
        assert found.span.start <= start <= end <= found.span.end
        if mapped.literal:
            folded = character in " \n" and not text[start:end].strip()
            assert text[start:end] == character or folded


@settings(deadline=None, max_examples=400)
@given(
    TREES,
    st.sampled_from(["\n", "\r\n"]),
    st.integers(20, 120),
    st.booleans(),
    st.sampled_from([True, False, None]),
)
def test_every_scalar_of_a_dumped_tree_has_its_characters(
    tree: Any, end: str, width: int, ascii_only: bool, flow: bool | None
) -> None:
    text = dumped(tree, end, width, ascii_only, flow)
    try:
        found = list(scalars(text))
    except YamlError:  # the dumper writes some texts that are no YAML
        assume(False)
    for scalar in found:
        mapped = characters(scalar)
        assert scalar.value == mapped.text
        assert not mapped.text or mapped.literal or scalar.span != mapped.span(0, 1)
        check_places(text, scalar, mapped)


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=60) | st.text(alphabet="ab:-[]{}&*!|>'\"%@`#,?\n\t \\\r\u0085\ufeff"))
def test_any_text_is_yaml_or_a_yaml_error(text: str) -> None:
    try:
        found = list(scalars(text))
    except YamlError as error:
        assert 0 <= error.span.start <= error.span.end <= len(text)
        assert str(error)
        return
    for scalar in found:
        assert 0 <= scalar.span.start <= scalar.span.end <= len(text)
        mapped = characters(scalar)
        assert scalar.value == mapped.text
        check_places(text, scalar, mapped)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY, inner, max_size=4),
    max_leaves=10,
)


@settings(deadline=None, max_examples=200)
@given(JSON, st.sampled_from([None, 2]))
def test_json_strings_have_their_characters(tree: Any, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    for scalar in scalars(text):
        assert scalar.value == characters(scalar).text
        if scalar.style == '"':
            assert scalar.value == json.loads(at(text, scalar.span))


def test_definitions_in_a_long_text_are_passed_over_and_places_stay() -> None:
    schema = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n"
    schema += "".join(f"  key{at}: {{a: 'b'}}\n" for at in range(10_000))
    text = f"a: 1\n---\n{schema}---\nb: two\n"
    first, second, third = documents(Source("f.yaml", text))
    assert ("1", "two") == (first.string("a"), third.string("b"))
    assert second.is_null
    value = third.get("b")
    assert value is not None
    assert "two" == text[value.span.start : value.span.end]
    short = f"a: 1\n---\n{schema[:200]}"
    assert documents(Source("f.yaml", short))[1].string("kind") == "CustomResourceDefinition"
