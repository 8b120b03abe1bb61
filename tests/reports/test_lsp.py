from __future__ import annotations

import json
from typing import Any

from lsprotocol import converters, types
from reports.samples import CLEAN, MIXED, SCRIPT, finding, result, written
from shardlint.reports import lsp


def published() -> list[dict[str, Any]]:
    return list(json.loads(written(lsp, MIXED)))


def at(line: int, start: int, end: int) -> dict[str, Any]:
    return {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": end},
    }


def test_list_is_what_the_protocol_expects() -> None:
    structured = converters.get_converter().structure(
        published(), list[types.PublishDiagnosticsParams]
    )
    expected = ["serve.sh", "helm/gr%C3%B6%C3%9Fe%201.yaml"]
    assert expected == [params.uri for params in structured]


def test_diagnostic_counts_utf16_units() -> None:
    expected = {
        "range": at(2, 50, 51),
        "severity": 1,
        "code": "SL101",
        "codeDescription": {"href": "https://example.org/rules/tp-heads-indivisible"},
        "source": "shardlint",
        "message": "28 attention heads do not divide over tensor parallel size 8\n"
        "help: tensor parallel size 4, 2 or 1",
        "relatedInformation": [
            {"location": {"uri": "serve.sh", "range": at(2, 11, 26)}, "message": "28 heads"},
            {
                "location": {"uri": "helm/gr%C3%B6%C3%9Fe%201.yaml", "range": at(2, 14, 15)},
                "message": "4 GPUs",
            },
        ],
        "data": {"fingerprint": "5f2a", "fixes": ["TP 8 → TP 4 × DP 2 on the same 8 GPUs"]},
    }
    assert [expected] == published()[0]["diagnostics"]


def test_diagnostic_without_a_page_has_no_link() -> None:
    expected = {
        "range": at(3, 2, 17),
        "severity": 2,
        "code": "SL504",
        "source": "shardlint",
        "message": "round robin over 2 replicas",
        "data": {"fingerprint": "77b0", "fixes": []},
    }
    assert [expected] == published()[1]["diagnostics"]


def test_advice_is_information() -> None:
    (params,) = lsp.published(result(finding(SCRIPT, "[# one]", severity="info")))
    expected = 3
    assert expected == params["diagnostics"][0]["severity"]


def test_file_without_text_keeps_its_code_points() -> None:
    (params,) = lsp.published(result(finding(SCRIPT, "size [8]"), sources={}))
    assert at(2, 49, 50) == params["diagnostics"][0]["range"]


def test_server_may_bring_its_own_uris() -> None:
    (params,) = lsp.published(result(finding(SCRIPT, "[# one]")), lambda file: f"file:///w/{file}")
    expected = "file:///w/serve.sh"
    assert expected == params["uri"]


def test_clean_run_publishes_nothing() -> None:
    expected = "[]\n"
    assert expected == written(lsp, CLEAN)
