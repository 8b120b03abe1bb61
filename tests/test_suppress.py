"""Where a suppression may stand, what it names, and when it is told that it does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import pytest
from harness import check, plugins, setup
from shardlint.linter import lint
from shardlint.plugins import Plugins, Result, Rule, World, hookimpl
from shardlint.project import Project, Setup
from shardlint.source import Source
from shardlint.suppress import Suppressions, matches

BAD = "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8"
RULE = "tp-heads-indivisible"

POD = """\
apiVersion: v1{first}
kind: Pod
metadata:
  name: llm{name}
spec:
  hostIPC: true
  containers:
  - name: vllm{container}
    image: vllm/vllm-openai:v0.33.0{image}
    command: ["bash", "-c"]
    args:
    - |{scalar}
      {inside}
      exec vllm serve Qwen/Qwen2.5-7B-Instruct \\
        --max-model-len 4096 \\
        --tensor-parallel-size 8
    resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
PLACES = ("first", "name", "container", "image", "scalar", "inside")

COMPOSE = """\
services:
  llm:{service}
    image: vllm/vllm-openai:v0.33.0
    command: {command}
      Qwen/Qwen2.5-7B-Instruct
      --tensor-parallel-size 8
    ipc: host
    deploy:
      resources: {{reservations: {{devices: [{{driver: nvidia, count: 8, capabilities: [gpu]}}]}}}}
"""


def pod(**comments: str) -> str:
    return POD.format(**{place: comments.get(place, "") for place in PLACES})


def names(result: Result) -> list[str]:
    return [finding.name for finding in result.findings if finding.severity != "info"]


def selectors(result: Result, text: str) -> list[str]:
    """The selectors at which an unused suppression is reported."""
    return [
        text[finding.span.start : finding.span.end]
        for finding in result.findings
        if finding.name == "unused-suppression"
    ]


# ------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    "text",
    [
        f"{BAD}  # shardlint: ignore[SL101] one GPU only in the test cluster\n",
        f"{BAD}  # a reason. # shardlint: ignore[SL101]\n",
        f"# shardlint: ignore[SL101]\n{BAD}\n",
        f"#shardlint:ignore[SL101]\n{BAD}\n",
        f"# shardlint: ignore[SL101] a reason\n# and more of it\n{BAD}\n",
        f"if true; then\n  # shardlint: ignore[SL101]\n  {BAD}\nfi\n",
        "# shardlint: ignore[SL101]\nvllm serve Qwen/Qwen2.5-7B-Instruct \\\n  -tp 8\n",
        f"echo\n{BAD}\n# shardlint: ignore-file[SL101]\n",
    ],
)
def test_comment_in_a_script_covers_its_command(text: str) -> None:
    result = check(text)
    assert ([], 1) == (names(result), result.suppressed)


@pytest.mark.parametrize(
    "text",
    [
        f"{BAD}\n# shardlint: ignore[SL101]\n",
        f"# shardlint: ignore[SL101]\n\n{BAD}\n",
        f"true  # shardlint: ignore[SL101]\n{BAD}\n",
    ],
)
def test_comment_elsewhere_in_a_script_covers_nothing(text: str) -> None:
    result = check(text)
    assert {RULE, "unused-suppression"} == set(names(result))
    assert 0 == result.suppressed


@pytest.mark.parametrize("place", ["first", "container", "scalar"])
def test_comment_on_a_line_of_the_object_covers_its_plan(place: str) -> None:
    assert [RULE] == names(check(pod(), "pod.yaml"))
    text = pod(**{place: "  # shardlint: ignore[SL101] a reason"})
    result = check(text, "pod.yaml")
    assert ([], 1) == (names(result), result.suppressed)


def test_comment_above_the_object_covers_its_plan() -> None:
    result = check("# shardlint: ignore[SL101]\n" + pod(), "pod.yaml")
    assert ([], 1) == (names(result), result.suppressed)


def test_comment_inside_a_block_scalar_covers_the_command_below_it() -> None:
    result = check(pod(inside="# shardlint: ignore[SL101]"), "pod.yaml")
    assert ([], 1) == (names(result), result.suppressed)


@pytest.mark.parametrize("place", ["name", "image"])
def test_comment_on_another_line_of_the_object_covers_nothing(place: str) -> None:
    text = pod(**{place: "  # shardlint: ignore[SL101]"})
    assert {RULE, "unused-suppression"} == set(names(check(text, "pod.yaml")))


@pytest.mark.parametrize(
    ("service", "command"),
    [("  # shardlint: ignore[SL101]", ">-"), ("", ">-  # shardlint: ignore[SL101]")],
)
def test_comment_covers_a_compose_service(service: str, command: str) -> None:
    result = check(COMPOSE.format(service=service, command=command), "compose.yaml")
    assert ([], 1) == (names(result), result.suppressed)
    assert [RULE] == names(check(COMPOSE.format(service="", command=">-"), "compose.yaml"))


@pytest.mark.parametrize(
    "note",
    ["SL101: a reason", "SL101", "SL504, SL101: a reason: with a colon", "tp-heads-indivisible"],
)
def test_annotation_covers_the_object(note: str) -> None:
    text = pod(name=f"\n  annotations: {{shardlint/ignore: '{note}'}}")
    result = check(text, "pod.yaml")
    assert RULE not in names(result)
    assert 1 == result.suppressed


def test_annotation_of_one_object_does_not_cover_another() -> None:
    one = pod(name="\n  annotations: {shardlint/ignore: SL101}")
    result = check(f"{one}---\n{pod()}", "pod.yaml")
    assert ([RULE], 1) == (names(result), result.suppressed)


def test_file_can_be_ignored_as_a_whole() -> None:
    text = f"{BAD}\n{BAD}\n"
    assert [RULE, RULE] == names(check(text))
    assert [] == names(check(f"# shardlint: ignore-file[SL101]\n{text}"))


def test_setting_ignores_rules_in_the_files_of_a_pattern(tmp_path: Path) -> None:
    for name in ("a.sh", "old/b.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(BAD + "\n", encoding="utf-8")
    ignores = MappingProxyType({"old/**": ("SL1",)})
    told = setup(per_file_ignores=ignores, path=tmp_path / "shardlint.toml")
    result = lint(Project.discover(told, ["."], tmp_path)).result
    assert [("a.sh", RULE)] == [(f.file, f.name) for f in result.findings if f.severity == "error"]
    assert 1 == result.suppressed


# ---------------------------------------------------------------------------------- selectors


@pytest.mark.parametrize(
    "selector", ["SL101", "SL1", "SL10", "tp-heads-indivisible", "SL999, SL101", " SL101 "]
)
def test_rule_is_named_by_id_prefix_or_name(selector: str) -> None:
    assert RULE not in names(check(f"{BAD}  # shardlint: ignore[{selector}]\n"))


@pytest.mark.parametrize("selector", ["SL", "101", "sl101", "tp-heads", "SL1011", "*", ""])
def test_other_word_names_no_rule(selector: str) -> None:
    assert RULE in names(check(f"{BAD}  # shardlint: ignore[{selector}]\n"))
    (rule,) = [rule for rule in plugins().rules() if rule.name == RULE]
    assert not matches(selector, rule)


def test_one_comment_can_name_several_rules() -> None:
    text = "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 7 --no-such 1"
    assert {"tp-kv-heads-indivisible", "shard-dim-indivisible", "flag-unknown"} == set(
        names(check(text + "\n"))
    )
    comments = "# shardlint: ignore[SL102,shard-dim-indivisible] # shardlint: ignore[SL7]"
    result = check(f"{text}  {comments}\n")
    assert [] == names(result)


# ----------------------------------------------------------------------- unused and unknown


def test_suppression_of_nothing_is_reported_at_its_selector() -> None:
    text = "vllm serve Qwen/Qwen3-8B -tp 2  # shardlint: ignore[SL1, SL301]\n"
    result = check(text, gpu="H100", gpus_per_node=8)
    assert ["SL1", "SL301"] == selectors(result, text)
    assert all("nothing of it was found" in f.message for f in result.findings)


def test_suppression_that_is_needed_is_not_reported() -> None:
    text = f"{BAD}  # shardlint: ignore[SL101]\n"
    assert [] == selectors(check(text), text)


def test_each_selector_is_judged_by_itself() -> None:
    text = f"{BAD}  # shardlint: ignore[SL101, SL102]\n"
    assert ["SL102"] == selectors(check(text), text)


def test_selector_of_no_rule_is_reported_whatever_runs() -> None:
    text = f"{BAD}  # shardlint: ignore[SL99, SL101, no-such-rule]\n"
    for told in ({}, {"select": ("SL9",)}):
        result = check(text, **told)
        assert ["SL99", "no-such-rule"] == selectors(result, text)
        assert all("names no rule" in f.message for f in result.findings)


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("SL101", {"ignore": ("SL101",)}),
        ("SL1", {"ignore": ("SL103",)}),
        ("SL101", {"select": ("SL9",)}),
        ("SL1", {"select": ("SL101", "SL902")}),
    ],
)
def test_suppression_of_rules_that_did_not_all_run_is_not_reported(
    selector: str, told: dict[str, tuple[str, ...]]
) -> None:
    text = f"vllm serve Qwen/Qwen3-8B -tp 2  # shardlint: ignore[{selector}]\n"
    assert [selector] == selectors(check(text), text)
    assert [] == selectors(check(text, **told), text)


def test_suppression_of_a_rule_that_was_undecided_is_not_reported() -> None:
    text = "vllm serve $MODEL -tp 8  # shardlint: ignore[SL101]\n"
    assert [] == selectors(check(text), text)
    text = "vllm serve Qwen/Qwen3-8B -tp 8  # shardlint: ignore[SL101]\n"
    assert ["SL101"] == selectors(check(text), text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.yaml", "{{- if .Values.x }}\nkind: Pod  # shardlint: ignore[SL101]\n{{- end }}\n"),
        ("p.yaml", "kind: Pod  # shardlint: ignore[SL101]\napiVersion: {v1\n"),
    ],
)
def test_suppression_in_a_file_that_was_not_read_is_not_reported(name: str, text: str) -> None:
    result = check(text, name)
    assert result.skipped or "parse-error" in names(result)
    assert [] == selectors(result, text)


def test_suppression_of_a_rule_that_failed_is_not_reported() -> None:
    class Fails(Rule):
        id, name = "XX1", "fails"

        def check(self, world: World) -> Iterator[object]:
            raise ValueError("no")

    class Extra:
        @hookimpl
        def shardlint_rules(self) -> list[type[Rule]]:
            return [Fails]

    from shardlint.engines import builtin as engines
    from shardlint.readers import builtin as readers

    text = "vllm serve Qwen/Qwen3-8B  # shardlint: ignore[XX1]\n"
    made = Setup(Plugins([engines, readers, Extra()]))
    result = lint(Project.of_texts(made, {"s.sh": text})).result
    assert ["plugin-failed"] == names(result)


def test_rule_that_is_off_by_default_need_not_run_for_a_prefix() -> None:
    class Off(Rule):
        id, name, enabled = "SL199", "off", False

    class Extra:
        @hookimpl
        def shardlint_rules(self) -> list[type[Rule]]:
            return [Off]

    from shardlint.engines import builtin as engines
    from shardlint.readers import builtin as readers

    text = "vllm serve Qwen/Qwen3-8B -tp 2  # shardlint: ignore[SL1, SL199]\n"
    made = Setup(Plugins([engines, readers, Extra()]))
    result = lint(Project.of_texts(made, {"s.sh": text})).result
    assert ["SL1"] == selectors(result, text)


def test_unused_annotation_is_reported_once_for_all_containers() -> None:
    text = pod(name="\n  annotations: {shardlint/ignore: 'SL103: a reason'}")
    result = check(text.replace("-size 8", "-size 4"), "pod.yaml", gpu="H100")
    assert 1 == len([f for f in result.findings if f.name == "unused-suppression"])


def test_unused_suppression_can_be_suppressed() -> None:
    text = "vllm serve Qwen/Qwen3-8B -tp 2  # shardlint: ignore[SL101, SL902]\n"
    assert [] == selectors(check(text), text)


def test_comment_in_a_file_with_a_byte_order_mark_and_crlf_is_found() -> None:
    data = b"\xef\xbb\xbf# shardlint: ignore[SL101]\r\n" + BAD.encode() + b"\r\n"
    found = Suppressions.of({"s.sh": Source.from_bytes("s.sh", data)}).comments["s.sh"]
    assert [("SL101", (1, 2))] == [(comment.selector, comment.lines) for comment in found]
