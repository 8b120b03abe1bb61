"""YAML inside strings: places in the outer text, and what can be edited there."""

from __future__ import annotations

import pytest
from shardlint.plan import Refusal
from shardlint.readers.inner_yaml import inner
from shardlint.readers.keyed import KeySite
from shardlint.readers.yaml_tree import Node, documents
from shardlint.source import Source, apply

TEXT = """data:
  x.yaml: |
    # a comment
    tensor-parallel-size: 4
    names: &n [a, "b"]
    more: *n
    script: |
      one
      two
  end: true
"""


def outer(text: str) -> Node:
    found = documents(Source("o.yaml", text))[0].get("data", "x.yaml")
    assert found is not None
    return found


def read(text: str = TEXT) -> Node:
    found = inner(outer(text))
    assert found is not None
    return found


def test_places_are_those_of_the_outer_text() -> None:
    for key, value in read().entries():
        assert TEXT[key.span.start : key.span.end] == key.value
        assert value.source.text == TEXT
    size, script = read().get("tensor-parallel-size"), read().get("script")
    assert size is not None and script is not None
    assert TEXT[size.span.start : size.span.end] == "4"
    text = script.text()
    assert text.value == "one\ntwo\n" and text.mapped is not None
    at = text.mapped.span(4, 7)
    assert TEXT[at.start : at.end] == "two"


def test_aliases_keep_their_content() -> None:
    more = read().get("more")
    assert more is not None and [item.value for item in more.items] == ["a", "b"]


@pytest.mark.parametrize(
    ("key", "value", "after"),
    [
        ("tensor-parallel-size", "2", TEXT.replace(": 4", ": 2")),
        ("pp", "2", TEXT.replace("    script:", "    pp: 2\n    script:")),
    ],
)
def test_a_literal_block_is_edited_where_it_stands(key: str, value: str, after: str) -> None:
    edits = KeySite(read(), key).set(value)
    assert not isinstance(edits, Refusal)
    assert apply(TEXT, edits) == after


@pytest.mark.parametrize(
    "written",
    ['"a: 4\\nb: 5\\n"', ">\n    a: 4\n\n    b: 5\n", '"{\\"a\\": 4}"'],
)
def test_in_other_strings_values_are_shown_and_not_edited(written: str) -> None:
    text = f"data:\n  x.yaml: {written}\n"
    found = read(text)
    value = found.get("a")
    assert value is not None and value.value == "4"
    assert text[value.span.start : value.span.end] == "4"
    assert isinstance(KeySite(found, "a").set("2"), Refusal)
    assert isinstance(KeySite(found, "c").set("2"), Refusal)


@pytest.mark.parametrize(
    "written", ["|\n    a: [\n", "|\n    just words\n", "4", "", "[a, b]", "|\n"]
)
def test_what_holds_no_map_and_no_list_is_nothing(written: str) -> None:
    found = documents(Source("o.yaml", f"data:\n  x.yaml: {written}\n"))[0].pairs[0][1].pairs[0][1]
    assert inner(found) is None


def test_line_ends_of_windows_are_kept() -> None:
    text = TEXT.replace("\n", "\r\n")
    edits = KeySite(read(text), "tensor-parallel-size").set("16")
    assert not isinstance(edits, Refusal)
    assert apply(text, edits) == text.replace(": 4", ": 16")
