from __future__ import annotations

from reports.samples import CLEAN, MIXED, SCRIPT, finding, result, written
from shardlint.reports import concise


def test_finding_takes_one_line_and_the_counts_one() -> None:
    expected = """\
serve.sh:3:50: SL101 error 28 attention heads do not divide over tensor parallel size 8
helm/größe 1.yaml:4:3: SL504 warning round robin over 2 replicas
1 error, 1 warning, 1 rule undecided in 1 plan (use inspect to see why), 1 suppressed; \
2 files, 2 plans
"""
    assert expected == written(concise, MIXED)


def test_clean_run_leaves_the_counts_alone() -> None:
    expected = "No findings; 2 files, 2 plans\n"
    assert expected == written(concise, CLEAN)


def test_line_break_in_a_message_does_not_break_the_line() -> None:
    report = written(concise, result(finding(SCRIPT, "[# one]", message="a\nb")))
    expected = "serve.sh:2:1: SL504 warning a b\n1 warning; 2 files, 2 plans\n"
    assert expected == report
