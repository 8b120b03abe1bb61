from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from reports.samples import BLIND, CLEAN, HEADS, MIXED, SCRIPT, finding, result, written
from shardlint import __version__
from shardlint.plugins import Result
from shardlint.reports import sarif
from shardlint.source import Span


def run(of: Result) -> dict[str, Any]:
    (only,) = json.loads(written(sarif, of))["runs"]
    return dict(only)


@pytest.mark.parametrize("of", [MIXED, CLEAN], ids=["mixed", "clean"])
def test_log_is_valid_under_the_standards_schema(of: Result, shared: Path) -> None:
    standard = json.loads((shared / "schemas/sarif-2.1.0.json").read_text(encoding="utf-8"))
    log = json.loads(written(sarif, of))
    jsonschema.Draft4Validator(standard, format_checker=jsonschema.FormatChecker()).validate(log)


def test_log_names_its_version() -> None:
    log = json.loads(written(sarif, CLEAN))
    expected = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0"}
    assert expected == {key: value for key, value in log.items() if key != "runs"}


def test_clean_run_has_an_empty_list_of_results() -> None:
    expected = []
    assert expected == run(CLEAN)["results"]


def test_columns_count_code_points() -> None:
    expected = "unicodeCodePoints"
    assert expected == run(MIXED)["columnKind"]


def test_driver_is_this_release() -> None:
    driver = run(CLEAN)["tool"]["driver"]
    assert ("shardlint", __version__) == (driver["name"], driver["version"])


def test_rule_carries_its_page() -> None:
    page = (
        "Attention heads do not divide over\nthe tensor parallel ranks.\n\n"
        "A rank computes whole heads.\n"
        "```sh fails\nvllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\n```"
    )
    expected = {
        "id": "SL101",
        "name": "tp-heads-indivisible",
        "shortDescription": {
            "text": "Attention heads do not divide over the tensor parallel ranks."
        },
        "fullDescription": {
            "text": "Attention heads do not divide over the tensor parallel ranks. "
            "A rank computes whole heads."
        },
        "help": {"text": page, "markdown": page},
        "helpUri": "https://example.org/rules/tp-heads-indivisible",
        "defaultConfiguration": {"enabled": True, "level": "error"},
        "properties": {
            "precision": "very-high",
            "problem.severity": "error",
            "tags": ["inference-serving", "plan"],
        },
    }
    assert expected == run(MIXED)["tool"]["driver"]["rules"][0]


def test_rule_without_a_page_has_no_empty_text() -> None:
    rule = run(CLEAN)["tool"]["driver"]["rules"][1]
    texts = [rule[key]["text"] for key in ("shortDescription", "fullDescription", "help")]
    expected = ["routing-blind"] * 3
    assert expected == texts


def test_rule_that_is_off_by_default_says_so() -> None:
    rule = run(CLEAN)["tool"]["driver"]["rules"][1]
    expected = {"enabled": False, "level": "warning"}
    assert expected == rule["defaultConfiguration"]


def test_result_carries_places_fingerprint_and_fix() -> None:
    chat = {"uri": "helm/gr%C3%B6%C3%9Fe%201.yaml"}
    eight = {"startLine": 3, "startColumn": 50, "endLine": 3, "endColumn": 51}
    four = {"startLine": 3, "startColumn": 15, "endLine": 3, "endColumn": 16}
    name = {"startLine": 3, "startColumn": 12, "endLine": 3, "endColumn": 26}
    script = {"uri": "serve.sh"}
    expected = {
        "ruleId": "SL101",
        "ruleIndex": 0,
        "level": "error",
        "message": {
            "text": "28 attention heads do not divide over tensor parallel size 8\n"
            "help: tensor parallel size 4, 2 or 1"
        },
        "locations": [{"physicalLocation": {"artifactLocation": script, "region": eight}}],
        "relatedLocations": [
            {
                "id": 1,
                "physicalLocation": {"artifactLocation": script, "region": name},
                "message": {"text": "28 heads"},
            },
            {
                "id": 2,
                "physicalLocation": {"artifactLocation": chat, "region": four},
                "message": {"text": "4 GPUs"},
            },
        ],
        "partialFingerprints": {"primaryLocationLineHash": "5f2a"},
        "fixes": [
            {
                "description": {"text": "TP 8 → TP 4 × DP 2 on the same 8 GPUs"},
                "artifactChanges": [
                    {
                        "artifactLocation": script,
                        "replacements": [
                            {
                                "deletedRegion": eight,
                                "insertedContent": {"text": "4 --data-parallel-size 2"},
                            }
                        ],
                    },
                    {
                        "artifactLocation": chat,
                        "replacements": [{"deletedRegion": four, "insertedContent": {"text": "8"}}],
                    },
                ],
            }
        ],
        "properties": {"confidence": "assumed", "assumes": ["Qwen2.5-7B is Qwen/Qwen2.5-7B"]},
    }
    assert expected == run(result(HEADS))["results"][0]


def test_bare_result_leaves_out_what_it_does_not_have() -> None:
    (only,) = run(result(BLIND))["results"]
    expected = [
        "ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "properties"
    ]  # fmt: skip
    assert expected == list(only)


def test_empty_span_ends_where_it_starts() -> None:
    (only,) = run(result(finding(SCRIPT, Span(10, 10))))["results"]
    expected = {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 1}
    assert expected == only["locations"][0]["physicalLocation"]["region"]


def test_result_of_an_unlisted_rule_has_no_index() -> None:
    (only,) = run(result(BLIND, rules=()))["results"]
    expected = ("SL504", False)
    assert expected == (only["ruleId"], "ruleIndex" in only)


def test_undecided_rules_are_counted_in_the_run() -> None:
    expected = 1
    assert expected == run(MIXED)["properties"]["summary"]["undecided"]
