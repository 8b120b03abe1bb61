"""YAML inside a scalar: places in the outer file, edits there, refusals where it is not literal."""

from __future__ import annotations

import pytest
from shardlint.plan import Refusal
from shardlint.readers.edits import TextSite, add_entry
from shardlint.readers.inner_yaml import inner_yaml
from shardlint.readers.keyed import KeySite
from shardlint.readers.yaml_tree import Node, YamlError, documents
from shardlint.source import Source, apply


def outer(text: str) -> Node:
    (root,) = documents(Source("a.yaml", text))
    found = root.get("text")
    assert found is not None
    return found


def inner(text: str) -> Node:
    return inner_yaml(outer(text))[0]


def token(text: str, node: Node | None) -> str:
    assert node is not None
    return text[node.span.start : node.span.end]


BLOCK = """\
text: |
  apps:
  - name: 'one'
    size: 8  # of it
    args: [a, "b"]
    script: |
      run --x 2 \\
        --y 3
    folded: >-
      several
      words
after: 1
"""


def test_nodes_have_their_places_in_the_outer_file() -> None:
    root = inner(BLOCK)
    assert "8" == token(BLOCK, root.get("apps", 0, "size"))
    assert "'one'" == token(BLOCK, root.get("apps", 0, "name"))
    assert '[a, "b"]' == token(BLOCK, root.get("apps", 0, "args"))
    assert ["a", '"b"'] == [token(BLOCK, n) for n in root.get("apps", 0, "args").items]  # type: ignore[union-attr]


def test_words_of_a_script_inside_are_found_by_their_characters() -> None:
    script = inner(BLOCK).get("apps", 0, "script")
    assert script is not None
    text = script.text()
    assert text.mapped is not None
    assert text.mapped.literal
    at = text.mapped.text.index("--y")
    span = text.mapped.span(at, at + 5)
    assert "--y 3" == BLOCK[span.start : span.end]


def test_a_folded_scalar_inside_is_read() -> None:
    assert "several words" == inner(BLOCK).string("apps", 0, "folded")


def test_a_value_is_edited_where_it_stands() -> None:
    root = inner(BLOCK)
    app = root.get("apps", 0)
    assert app is not None
    made = KeySite(app, "size").set("4")
    assert not isinstance(made, Refusal)
    assert BLOCK.replace("size: 8  #", "size: 4  #") == apply(BLOCK, made)


def test_a_key_is_added_with_the_indentation_of_the_outer_file() -> None:
    text = "text: |\n    a:\n      b: 1\nafter: 1\n"
    node = inner(text).get("a")
    assert node is not None
    made = add_entry(node, "c", "2")
    assert not isinstance(made, Refusal)
    assert "text: |\n    a:\n      b: 1\n      c: 2\nafter: 1\n" == apply(text, made)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_ends_of_windows_keep_the_places(line_end: str) -> None:
    text = "text: |\n  a: 1\n  b: {c: 2}\n".replace("\n", line_end)
    assert "2" == token(text, inner(text).get("b", "c"))


@pytest.mark.parametrize(
    "text",
    [
        'text: "a: 1\\nb: 2"\n',  # escapes
        "text: >\n  a: 1\n\n  b: 2\n",  # folded lines
        "text: 'a: 1\n\n  b: 2'\n",  # a flow scalar over several lines
        "old: &x |\n  a: 1\n  b: 2\ntext: *x\n",  # an alias
    ],
)
def test_what_is_not_literal_is_read_and_not_edited(text: str) -> None:
    root = inner(text)
    assert "2" == root.string("b")
    found = root.get("b")
    assert found is not None
    assert isinstance(TextSite((found.text(),)).set("4"), Refusal)
    assert isinstance(add_entry(root, "c", "4"), Refusal)


def test_json_in_a_quoted_scalar_is_literal() -> None:
    text = """text: '{"a": {"b": 2}}'\n"""
    made = KeySite(inner(text).get("a"), "b").set("4")  # type: ignore[arg-type]
    assert not isinstance(made, Refusal)
    assert """text: '{"a": {"b": 4}}'\n""" == apply(text, made)


def test_an_anchor_inside_is_followed() -> None:
    text = "text: |\n  base: &b {n: 1}\n  one: *b\n  two: {<<: *b, m: 2}\n"
    root = inner(text)
    assert "1" == root.string("one", "n")
    assert "1" == token(text, root.get("two", "n"))


def test_a_mistake_is_told_at_its_place() -> None:
    text = "a: 1\ntext: |\n  b: [1, 2\n  c: 3\n"
    with pytest.raises(YamlError) as raised:
        inner(text)
    assert text.index("c: 3") <= raised.value.span.start + 3
    assert raised.value.span.end <= len(text)


def test_a_node_that_is_no_scalar_has_nothing_inside() -> None:
    assert [] == inner_yaml(outer("text: [1]\n"))
