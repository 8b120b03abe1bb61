from __future__ import annotations

from dataclasses import replace

from reports.samples import BLIND, CLEAN, HEADS, MIXED, SCRIPT, finding, result, written
from shardlint.reports import github


def test_annotation_carries_place_title_and_help() -> None:
    expected = """\
::error file=serve.sh,line=3,endLine=3,col=50,endColumn=51,title=shardlint SL101 \
tp-heads-indivisible::28 attention heads do not divide over tensor parallel size 8\
%0Ahelp: tensor parallel size 4, 2 or 1
::warning file=helm/größe 1.yaml,line=4,endLine=4,col=3,endColumn=18,title=shardlint SL504 \
routing-blind::round robin over 2 replicas
1 error, 1 warning, 1 rule undecided in 1 plan (use inspect to see why), 1 suppressed; \
2 files, 2 plans
"""
    assert expected == written(github, MIXED)


def test_worst_finding_comes_first() -> None:
    advice = replace(BLIND, severity="info")
    lines = written(github, result(advice, BLIND, HEADS)).splitlines()
    expected = ["::error", "::warning", "::notice"]
    assert expected == [line.split()[0] for line in lines[:3]]


def test_message_is_escaped() -> None:
    lines = written(github, result(finding(SCRIPT, "[# one]", message="50 %\r\na: b, c")))
    assert "::50 %25%0D%0Aa: b, c\n" in lines


def test_property_is_escaped() -> None:
    lines = written(github, result(replace(BLIND, file="a,b:100%.yaml")))
    assert "file=a%2Cb%3A100%25.yaml,line=4," in lines


def test_span_over_lines_has_no_columns() -> None:
    lines = written(github, result(finding(SCRIPT, "[# one node\nvllm]")))
    assert "file=serve.sh,line=2,endLine=3,title=" in lines


def test_annotations_beyond_ten_are_printed_and_counted() -> None:
    lines = written(github, result(*[HEADS] * 12, *[BLIND] * 11)).splitlines()
    expected = (
        "GitHub shows 10 annotations of a level per step and leaves out "
        "2 errors, 1 warning of the lines above"
    )
    assert (23, expected) == (sum(line.startswith("::") for line in lines), lines[-1])


def test_ten_of_a_level_are_all_shown() -> None:
    lines = written(github, result(*[HEADS] * 10, *[BLIND] * 10)).splitlines()
    expected = "10 errors, 10 warnings; 2 files, 2 plans"
    assert expected == lines[-1]


def test_clean_run_has_no_annotation() -> None:
    expected = "No findings; 2 files, 2 plans\n"
    assert expected == written(github, CLEAN)
