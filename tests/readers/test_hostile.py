"""Damaged manifests: readers say what they can and never fail."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers.reading import EDITABLE, corpus, project, text_of
from shardlint.linter import lint
from shardlint.plan import Refusal
from shardlint.readers.yaml_tree import Node, documents
from shardlint.source import Source, Span, apply

pytestmark = pytest.mark.skipif(not corpus(), reason="the shared evidence folder is not there")

FRAGMENTS = (
    *"\n\t\r '\"\\$`{}[]()<>|&;#*!%@:,-=?~\0\u0085\u2028\ue000\ufeffé😀",
    *(
        "$(",
        "${",
        "$((",
        "$@",
        "$$",
        "\\\n",
        "\r\n",
        "<<EOF\n",
        "{{",
        "}}",
        "{{- if }}",
        "||",
        "&&",
    ),
    *("if ", "then ", "fi\n", "do ", "done\n", "case ", "esac\n", "f() {", "eval ", "bash -c "),
    *(
        "<<: ",
        "&a ",
        "*a ",
        "- ",
        "---\n",
        "| ",
        ">- ",
        "? ",
        "!!str ",
        "x: ",
        "\n    ",
        "#SBATCH\n",
    ),
    *("docker run ", "vllm serve ", "--gpus ", "-tp ", "--", "\nservices:\n", "\nkind: List\n"),
)

VALUES = (
    "{}", "[]", "5", "-1", "1e3", "null", "~", "true", "text", "''", "{a: b}", "[x]", "[[x]]",
    "[{a: b}]", "[null]", "{name: x, value: y, valueFrom: {}}", "{<<: {a: b}}", "{<<: 5}", "*a",
    "!!binary aa", "!!int x", "{{ .Values.x }}", "${X:-${Y}}", "$(X)", "&a [*a]",
)  # fmt: skip


@cache
def nodes_of(name: str) -> tuple[Node, ...]:
    return tuple(node for root in documents(Source(name, text_of(name))) for node in root.walk())


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """A real file after some characters were lost, doubled, moved or added."""
    name = draw(st.sampled_from(corpus()))
    text = text_of(name)
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        part = text[start : start + draw(st.integers(0, 40))]
        rest = text[start + len(part) :]
        how = draw(st.sampled_from(["drop", "double", "move", "add", "cut"]))
        if how == "drop":
            text = text[:start] + rest
        elif how == "double":
            text = text[:start] + part + part + rest
        elif how == "move":
            to = draw(st.integers(0, len(text)))
            text = text[:to] + part + text[to:]
        elif how == "add":
            text = text[:start] + draw(st.sampled_from(FRAGMENTS)) + text[start:]
        else:
            text = text[: start + len(part)]
    return name, text


@st.composite
def mistyped(draw: st.DrawFn) -> tuple[str, str]:
    """A real YAML file in which some values are of another type."""
    yaml = [
        name
        for name in corpus()
        if not name.startswith(("shell", "slurm", "systemd", "helm-template"))
    ]
    name = draw(st.sampled_from(yaml))
    text, nodes = text_of(name), nodes_of(name)
    chosen = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=3, unique=True))
    for node in sorted((nodes[at] for at in chosen), key=lambda node: -node.span.start):
        old = text[node.span.start : node.span.end]
        new = draw(st.sampled_from(VALUES)) + ("\n" if old.endswith("\n") else "")
        text = text[: node.span.start] + new + text[node.span.end :]
    return name, text


def check(name: str, text: str) -> None:
    read = project(text, name)
    assert () == read.broken
    result = lint(read).result
    assert not [f for f in result.findings if f.name == "plugin-failed"]
    whole = Span(0, len(text))
    assert all(whole.covers(finding.span) for finding in result.findings)
    assert all(whole.covers(problem.origin.span) for problem in read.problems)
    assert len(read.plans) == len({plan.id for plan in read.plans})
    for plan in read.plans:
        assert whole.covers(plan.origin.span)
        for field in EDITABLE:
            made = plan.sites[field].set("2") if field in plan.sites else []
            if isinstance(made, Refusal):
                assert made.reason
            else:
                apply(text, made)


@settings(deadline=None, max_examples=500)
@given(damaged())
def test_a_damaged_file_is_survived(file: tuple[str, str]) -> None:
    check(*file)


@settings(deadline=None, max_examples=300)
@given(mistyped())
def test_a_value_of_another_type_is_survived(file: tuple[str, str]) -> None:
    check(*file)


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(["a.yaml", "a.json", "a.sh", "a"]),
    st.lists(st.sampled_from([*FRAGMENTS, *VALUES, "a", "\n", " ", "command: "]), max_size=30),
)
def test_rubbish_is_survived(name: str, parts: list[str]) -> None:
    check(name, "".join(parts))


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.sh"])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "{a: " * 50_000,
        "- " * 50_000,
        "$(" * 20_000,
        "(" * 20_000,
        "${A:-" * 20_000,
        '"$(' * 10_000,
        "if true; then\n" * 5_000,
        "kind: Pod\nspec: &a\n  containers: [{args: [" + "x, " * 20_000 + "]}]\n",
        "services: {a: {command: '" + "${A:-" * 5_000 + "}" * 5_000 + "'}}\n",
        "services: {a: {image: vllm/vllm-openai, command: '" + "x " * 50_000 + "'}}\n",
        "services: {a: {image: vllm/vllm-openai, command: '" + "$$ " * 20_000 + "'}}\n",
        "services: {a: {image: vllm/vllm-openai, command: '" + "${A:-1} " * 20_000 + "'}}\n",
        "#!/bin/sh\n" + "vllm serve m -tp 8\n" * 3_000,
    ],
)
def test_a_text_that_grows_without_end_is_survived(name: str, text: str) -> None:
    check(name, text)
