"""Maps of options as words, and their sites."""

from __future__ import annotations

import pytest
from shardlint.plan import Refusal
from shardlint.readers.keyed import Keyed, KeySite
from shardlint.readers.yaml_tree import Node, documents
from shardlint.source import Source, apply

TEXT = """tensor_parallel_size: 4
enable_expert_parallel: true
enforce_eager: false
trust-remote-code:
names: [a, "b"]
compilation_config: {level: 3, sizes: [1, 2]}
quoted: "true"
"""


def node(text: str = TEXT) -> Node:
    return documents(Source("x.yaml", text))[0]


@pytest.mark.parametrize(("off", "eager"), [("drop", []), ("negate", ["--no-enforce-eager"])])
def test_keys_become_options(off: str, eager: list[str]) -> None:
    assert [word.value for word in Keyed(off=off).words(node())] == [
        "--tensor-parallel-size", "4", "--enable-expert-parallel", *eager, "--names", "a", "b",
        "--compilation-config", '{"level": 3, "sizes": [1, 2]}', "--quoted", "true",
    ]  # fmt: skip


def test_keys_that_are_no_options_are_passed_over() -> None:
    known = Keyed(option={"quoted": "--q"}.get)
    assert [word.value for word in known.words(node())] == ["--q", "true"]
    assert known.words(None) == known.words(node("[1]")) == ()


@pytest.mark.parametrize(
    ("key", "after"),
    [
        ("tensor_parallel_size", TEXT.replace(": 4", ": 2")),
        ("quoted", TEXT.replace('"true"', '"2"')),
        ("pipeline_parallel_size", TEXT + "pipeline_parallel_size: 2\n"),
    ],
)
def test_a_value_is_written_where_it_stands_or_as_a_new_key(key: str, after: str) -> None:
    edits = KeySite(node(), key).set("2")
    assert not isinstance(edits, Refusal)
    assert apply(TEXT, edits) == after


def test_anchors_that_repeat_each_other_end() -> None:
    rows = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    assert 81 == len(Keyed().words(node("\n".join(rows))))
    assert 2 == len(Keyed().words(node("a: &a [*a]")))


def test_a_map_is_no_value() -> None:
    assert isinstance(KeySite(node(), "compilation_config").set("2"), Refusal)


@pytest.mark.parametrize(
    "text", ["a: &a [*a]\n", "a: &a {b: [x], c: *a}\n", "a: &a [[" + "x, " * 20_000 + "]]\n"]
)
def test_a_value_without_an_end_is_unknown(text: str) -> None:
    _, value = Keyed().words(node(text))
    assert value.value is None and value.reason


def test_a_template_is_no_map() -> None:
    _, value = Keyed().words(node("a: {{ size }}\n"))
    assert value.value is None and "filled in" in (value.reason or "")


def test_an_empty_list_gives_nothing() -> None:
    assert Keyed().words(node("a: []\n")) == ()
