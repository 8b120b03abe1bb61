"""The examples hold what their comments say, and the pages show what the commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import build_docs
import pytest
from harness import check

ROOT = Path(__file__).parents[1]
GOOD = sorted((ROOT / "examples/good").iterdir())
BAD = sorted((ROOT / "examples/bad").iterdir())
EXPECT = re.compile(r"# expect: ([a-z0-9-]+)")


def _expected(text: str) -> Iterator[tuple[int, str]]:
    """Line and rule of each comment; one that stands alone means the next line."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in EXPECT.finditer(line):
            alone = line.lstrip().startswith("#")
            yield number + alone, match[1]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_good_example_has_a_plan_and_nothing_above_info(path: Path) -> None:
    result = check(path.read_text(encoding="utf-8"), path.name, gpu="H100-SXM-80GB")
    assert 1 == result.plans
    assert [] == [item.name for item in result.findings if item.severity != "info"]
    assert () == result.undecided


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name)
def test_bad_example_has_the_findings_that_its_comments_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = sorted((item.start.line, item.name) for item in check(text, path.name).findings)
    assert sorted(_expected(text)) == found
    assert found


def test_seven_is_not_offered_for_28_heads() -> None:
    text = (ROOT / "examples/bad/deployment.yaml").read_text(encoding="utf-8")
    finding = next(f for f in check(text, "d.yaml").findings if f.name == "tp-heads-indivisible")
    assert "28 attention heads" in finding.message
    assert "tensor parallel size 4, 2 or 1" == finding.help


def test_product_of_64_gpus_is_spelled_out() -> None:
    text = (ROOT / "examples/bad/pod.yaml").read_text(encoding="utf-8")
    (finding,) = check(text, "pod.yaml").findings
    assert finding.message.startswith("TP 8 × PP 2 × DP 4 needs 64 GPUs, this container gets 8;")


def test_page_that_was_changed_by_hand_or_left_behind_is_noticed() -> None:
    wanted = build_docs.pages()
    name = "docs/rules/tp-heads-indivisible.md"
    assert name in build_docs.stale({**wanted, name: wanted[name] + "by hand\n"})
    assert name in build_docs.stale({key: text for key, text in wanted.items() if key != name})


def test_every_rule_has_a_page() -> None:
    names = {f"docs/rules/{rule.name}.md" for rule in build_docs.rules()}
    assert names <= set(build_docs.pages())
    assert "docs/rules/gpu-count-short.md" in names


def test_page_of_a_rule_has_a_head_line_and_both_examples() -> None:
    page = build_docs.pages()["docs/rules/flag-unknown.md"]
    assert "`SL701` · error · on by default · fix: safe\n" in page
    assert 1 == page.count("Reported:\n\n```sh\n") == page.count("Not reported:\n\n```sh\n")
