from __future__ import annotations

import io

import pytest
from reports.samples import CLEAN, HEADS, MIXED, SCRIPT, finding, result, waits, written
from shardlint.plugins import Fix
from shardlint.reports import text


@pytest.fixture(autouse=True)
def _no_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal() -> str:
    out = Terminal()
    text.write(MIXED, out)
    return out.getvalue()


def test_finding_shows_lines_marks_and_notes() -> None:
    expected = """\
error[SL101] tp-heads-indivisible: 28 attention heads do not divide over tensor parallel size 8
 --> serve.sh:3:50
  |
2 | # one node
3 | vllm serve '🦙/Qwen2.5-7B' --tensor-parallel-size 8 \\
  |                                                   ^
  |
 ::: serve.sh:3:12
  |
3 | vllm serve '🦙/Qwen2.5-7B' --tensor-parallel-size 8 \\
  |            ^^^^^^^^^^^^^^^ 28 heads
  |
 ::: helm/größe 1.yaml:3:15
  |
3 |   requestGPU: 4
  |               ^ 4 GPUs
  |
  = help: tensor parallel size 4, 2 or 1
  = assumes: Qwen2.5-7B is Qwen/Qwen2.5-7B
  = fix (unsafe): TP 8 → TP 4 × DP 2 on the same 8 GPUs (KV cache tokens 120,000 → 480,000, GPUs 8)
  = see: https://example.org/rules/tp-heads-indivisible

warning[SL504] routing-blind: round robin over 2 replicas
 --> helm/größe 1.yaml:4:3
  |
3 |   requestGPU: 4
4 |   replicaCount: 2
  |   ^^^^^^^^^^^^^^^

undecided in chat: tp-kv-heads-indivisible (layout.tp: {{ .Values.tp }})
1 error, 1 warning, 1 rule undecided in 1 plan (use inspect to see why), 1 suppressed; \
2 files, 2 plans
"""
    assert expected == written(text, MIXED)


def test_clean_run_says_what_was_looked_at() -> None:
    expected = "No findings; 2 files, 2 plans\n"
    assert expected == written(text, CLEAN)


def test_nothing_read_is_said_in_words() -> None:
    expected = "No findings; no files, no plans\n"
    assert expected == written(text, result(files=0, plans=0))


def test_undecided_rules_of_one_reason_share_a_line() -> None:
    names = (
        "tp-heads-indivisible",
        "kv-replication",
        "gpu-count-short",
        "pp-starved",
        "dp-coupled",
    )
    undecided = tuple(waits("chat", name, "layout.tp", "$TP is not set here") for name in names)
    expected = """\
undecided in chat: tp-heads-indivisible, kv-replication, gpu-count-short and 2 more \
(layout.tp: $TP is not set here)
No findings, 5 rules undecided in 1 plan (use inspect to see why); 2 files, 2 plans
"""
    assert expected == written(text, result(undecided=undecided))


def test_undecided_lines_end_with_how_many_more_there_are() -> None:
    undecided = tuple(waits(f"plan-{n}", "gpu-count-short", "layout.tp", "$TP") for n in range(7))
    expected = """\
undecided in plan-0: gpu-count-short (layout.tp: $TP)
undecided in plan-1: gpu-count-short (layout.tp: $TP)
undecided in plan-2: gpu-count-short (layout.tp: $TP)
undecided in plan-3: gpu-count-short (layout.tp: $TP)
undecided in plan-4: gpu-count-short (layout.tp: $TP)
and 2 more
No findings, 7 rules undecided in 7 plans (use inspect to see why); 2 files, 2 plans
"""
    assert expected == written(text, result(undecided=undecided))


def test_skipped_file_is_named_with_its_reason() -> None:
    expected = """\
skipped t.yaml: a Go template
No findings, 1 file skipped; 2 files, 2 plans
"""
    assert expected == written(text, result(skipped=(("t.yaml", "a Go template"),)))


def test_finding_in_a_file_without_text_has_no_snippet() -> None:
    expected = """\
warning[SL504] routing-blind: byte 0xff is not UTF-8
 --> serve.sh:2:1

1 warning; 2 files, 2 plans
"""
    broken = finding(SCRIPT, "[# one]", message="byte 0xff is not UTF-8")
    assert expected == written(text, result(broken, sources={}))


def test_fix_without_numbers_has_no_brackets() -> None:
    fix = Fix("delete --swap-space", "safe", {"remove_flag": "--swap-space"}, ())
    report = written(text, result(finding(SCRIPT, "[# one]", fixes=(fix,))))
    assert "  = fix (safe): delete --swap-space\n" in report


def test_message_cannot_steer_the_terminal() -> None:
    report = written(text, result(finding(SCRIPT, "[# one]", message="model \x1b[2J\nis set")))
    expected = "warning[SL504] routing-blind: model \ufffd[2J is set\n"
    assert expected == report.splitlines(True)[0]


def test_terminal_gets_colour() -> None:
    assert "\x1b[1;31merror[SL101] tp-heads-indivisible\x1b[0m" in on_a_terminal()


def test_colours_taken_away_leave_the_plain_text() -> None:
    import re

    assert written(text, MIXED) == re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal())


def test_file_gets_no_colour() -> None:
    assert "\x1b" not in written(text, MIXED)


def test_no_color_keeps_the_terminal_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_a_terminal()


def test_dumb_terminal_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in on_a_terminal()


@pytest.mark.parametrize("name", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_force_gives_colour_to_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert "\x1b[1;31merror" in written(text, result(HEADS))


def test_force_of_zero_is_no_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "0")
    assert "\x1b" not in written(text, result(HEADS))
