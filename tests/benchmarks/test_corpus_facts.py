"""The table of facts that are read of a folder with an index: each verdict, and the exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
INDEX = """\
files:
  - file: a.sh
    kind: script
    expect:
      workloads:
      - engine: vllm
        model: "*/Qwen3-8B"
        tp: {tp}
        gpus_per_pod: 2
        pp: null
  - file: b.txt
    kind: nothing
    expect: {{workloads: []}}
"""


@pytest.fixture(scope="module")
def corpus_facts() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import corpus_facts as module
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


@pytest.mark.parametrize(("tp", "code", "row"), [(2, 0, ""), (4, 1, "wrong"), ("null", 1, "extra")])
def test_verdicts(
    corpus_facts: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tp: object,
    code: int,
    row: str,
) -> None:
    (tmp_path / "index.yaml").write_text(INDEX.format(tp=tp), encoding="utf-8")
    (tmp_path / "a.sh").write_text("vllm serve Qwen/Qwen3-8B -tp 2\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("nothing\n", encoding="utf-8")
    assert corpus_facts.main(["--corpus", str(tmp_path), "--rows"]) == code
    told = capsys.readouterr().out
    right = 2 + (row == "")
    assert f"{'script':<28}{1:>6}{right:>8}{1:>8}" in told
    assert f"{'nothing':<28}{1:>6}{0:>8}{0:>8}{0:>8}{0:>8}" in told
    assert "missed  a.sh: gpus_per_pod is 2, read None" in told
    assert row == "" or f"{row:<7} a.sh: tp is " in told


def test_plan_without_a_workload_is_extra(corpus_facts: Any, tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("vllm serve Qwen/Qwen3-8B\n", encoding="utf-8")
    entry = {"file": "a.sh", "kind": "script", "expect": {"workloads": []}}
    setup = corpus_facts.built_in()
    (fact,) = corpus_facts.facts(entry, tmp_path, setup)
    assert (fact.verdict, fact.name, fact.read) == ("extra", corpus_facts.PLAN, "vllm")
