from __future__ import annotations

import json
from types import MappingProxyType

import jsonschema
import pytest
from reports.samples import CLEAN, HEADS, MIXED, SCRIPT, finding, result, written
from shardlint.plugins import Fix
from shardlint.reports import json_
from shardlint_schemas import schema

CHECK = jsonschema.Draft202012Validator(schema("check"))


def test_document_follows_the_contract() -> None:
    expected = {
        "schema_version": 1,
        "findings": [
            {
                "rule": "SL101",
                "name": "tp-heads-indivisible",
                "severity": "error",
                "confidence": "assumed",
                "assumes": ["Qwen2.5-7B is Qwen/Qwen2.5-7B"],
                "message": "28 attention heads do not divide over tensor parallel size 8",
                "plan": "serve.sh:3",
                "path": "0:/3",
                "file": "serve.sh",
                "start": {"line": 3, "column": 50, "offset": 70},
                "end": {"line": 3, "column": 51, "offset": 71},
                "related": [
                    {
                        "file": "serve.sh",
                        "start": {"line": 3, "column": 12, "offset": 32},
                        "end": {"line": 3, "column": 26, "offset": 46},
                        "message": "28 heads",
                    },
                    {
                        "file": "helm/größe 1.yaml",
                        "start": {"line": 3, "column": 15, "offset": 40},
                        "end": {"line": 3, "column": 16, "offset": 41},
                        "message": "4 GPUs",
                    },
                ],
                "help": "tensor parallel size 4, 2 or 1",
                "url": "https://example.org/rules/tp-heads-indivisible",
                "fingerprint": "5f2a",
                "fixes": [
                    {
                        "title": "TP 8 → TP 4 × DP 2 on the same 8 GPUs",
                        "applicability": "unsafe",
                        "delta": {"tp": 4, "dp": 2},
                        "edits": [
                            {
                                "file": "serve.sh",
                                "start": {"line": 3, "column": 50, "offset": 70},
                                "end": {"line": 3, "column": 51, "offset": 71},
                                "text": "4 --data-parallel-size 2",
                            },
                            {
                                "file": "helm/größe 1.yaml",
                                "start": {"line": 3, "column": 15, "offset": 40},
                                "end": {"line": 3, "column": 16, "offset": 41},
                                "text": "8",
                            },
                        ],
                        "estimate": {
                            "kv_cache_tokens": {"before": 120000, "after": 480000},
                            "gpus": 8,
                        },
                    }
                ],
            }
        ],
        "undecided": [
            {
                "rule": "SL102",
                "plan": "chat",
                "needs": "layout.tp",
                "reason": "{{ .Values.tp }}",
            }
        ],
        "summary": {
            "files": 2,
            "plans": 2,
            "errors": 1,
            "warnings": 0,
            "infos": 0,
            "suppressed": 1,
            "undecided": 1,
            "skipped": 0,
        },
    }
    mixed = result(HEADS, suppressed=1, undecided=MIXED.undecided)
    assert expected == json.loads(written(json_, mixed))


@pytest.mark.parametrize("of", [MIXED, CLEAN], ids=["mixed", "clean"])
def test_document_is_valid_under_its_schema(of: object) -> None:
    CHECK.validate(json.loads(written(json_, of)))


def test_schema_refuses_a_key_that_is_not_in_the_contract() -> None:
    document = json.loads(written(json_, CLEAN)) | {"elapsed": 1}
    assert not CHECK.is_valid(document)


def test_finding_without_a_plan_says_null() -> None:
    document = json.loads(written(json_, result(finding(SCRIPT, "[# one]"))))
    expected = [None] * 4
    assert expected == [document["findings"][0][key] for key in ("plan", "path", "help", "url")]


def test_read_only_delta_is_written_like_any_other() -> None:
    fix = Fix("TP 4", "unsafe", MappingProxyType({"tp": 4}), (), MappingProxyType({"gpus": 8}))
    document = json.loads(written(json_, result(finding(SCRIPT, "[# one]", fixes=(fix,)))))
    expected = {"tp": 4}
    assert expected == document["findings"][0]["fixes"][0]["delta"]


def test_output_is_ascii_with_one_final_line_end() -> None:
    report = written(json_, MIXED)
    expected = (True, "}\n")
    assert expected == (report.isascii(), report[-2:])


def test_clean_run_keeps_every_key() -> None:
    expected = """\
{
  "schema_version": 1,
  "findings": [],
  "undecided": [],
  "summary": {
    "files": 2,
    "plans": 2,
    "errors": 0,
    "warnings": 0,
    "infos": 0,
    "suppressed": 0,
    "undecided": 0,
    "skipped": 0
  }
}
"""
    assert expected == written(json_, CLEAN)
