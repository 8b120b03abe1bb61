"""How a linter's answer is held against a case: the vocabulary of the cases' header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from harness import setup
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plugins import Finding, Result
from shardlint.project import Project

FILENAMES = {"shell": "script.sh", "compose": "compose.yaml"}


def result_of(case: Mapping[str, Any]) -> Result:
    """The result of linting a case, told what its situation says."""
    run = case.get("run", {})
    facts = dict(run.get("model_facts") or {})
    model = facts.pop("id", None)
    version = run.get("engine_version")
    told = setup(
        gpu=run.get("gpu"),
        gpu_mem_gb=run.get("gpu_mem_gb"),
        gpus_per_node=run.get("gpus_per_node"),
        nodes=run.get("nodes"),
        network=run.get("network"),
        link=run.get("link"),
        engine_version={_engine(case): str(version)} if version else {},
        models={model: facts} if model and facts else {},
        workload=run.get("workload") or {},
    )
    kind = case["input"]["kind"]
    name = case["input"].get("filename") or FILENAMES.get(kind, "manifest.yaml")
    texts = {name: case["input"]["text"]}
    texts |= {item["filename"]: item["text"] for item in case.get("files", [])}
    return fixes.with_fixes(lint(Project.of_texts(told, texts)))


ENGINES = {"sglang": "sglang", "tensorrt-llm": "trtllm", "tgi": "tgi", "lmdeploy": "lmdeploy"}


def _engine(case: Mapping[str, Any]) -> str:
    """The engine whose release a case states; launchers and platforms start vLLM."""
    told = case["engine"]
    return next((name for word, name in ENGINES.items() if word in told), "vllm")


def missed(case: Mapping[str, Any], result: Result, rules: Iterable[str]) -> list[str]:
    """Expected findings of these rules that are not there, on the right line and severity."""
    return [
        f"{expected['finding']} {expected['severity']} at line {expected['line']}"
        for expected in case["expect"].get("findings", [])
        if expected["finding"] in rules and not any(_meets(f, expected) for f in result.findings)
    ]


def _meets(finding: Finding, expected: Mapping[str, Any]) -> bool:
    names = {expected["finding"], *_many(expected.get("also_finding"))}
    severities = {expected["severity"], *_many(expected.get("also_severity"))}
    lines = {expected["line"], *(place["line"] for place in expected.get("also_accept", []))}
    return finding.name in names and finding.severity in severities and finding.start.line in lines


def _many(value: Any) -> list[str]:
    return value if isinstance(value, list) else [] if value is None else [value]


def forbidden(case: Mapping[str, Any], result: Result) -> list[str]:
    """Findings that must not be there: errors of a negative case, and what it forbids."""
    levels = ("info", "warning", "error")
    found = [
        f"{finding.name} {finding.severity}"
        for finding in result.findings
        if case["polarity"] == "negative" and finding.severity == "error"
    ]
    for row in case["expect"].get("forbid", []):
        least = 0 if row["severity"] == "any" else levels.index(row["severity"])
        found += [
            f"{finding.name} {finding.severity} is forbidden"
            for finding in result.findings
            if finding.name == row["finding"] and levels.index(finding.severity) >= least
        ]
    return found


def rejected(case: Mapping[str, Any], result: Result) -> list[str]:
    """Fixes offered that the case says are wrong."""
    rejects = case["expect"].get("reject", [])
    return [
        f"{finding.name}: {fix.title}"
        for finding in result.findings
        for fix in finding.fixes
        if any(fits(fix.delta, entry) for entry in rejects)
    ]


def fits(delta: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether a fix has all that an entry of `accept` or `reject` names."""
    return all(
        (_flag_fits if key in FLAGS else _value_fits)(delta.get(key), wanted)
        for key, wanted in entry.items()
    )


FLAGS = ("remove_flag", "replace_flag", "add_flag")


def _flag_fits(value: Any, wanted: Any) -> bool:
    """Flags are compared by name, and by value if the entry gives one."""
    if wanted is None or value is None:
        return wanted is value
    ours, theirs = (item if isinstance(item, list) else [item] for item in (value, wanted))
    return len(ours) == len(theirs) and all(
        _words(one)[: len(_words(two))] == _words(two)
        for one, two in zip(ours, theirs, strict=True)
    )


def _words(text: str) -> list[str]:
    name, _, value = text.partition(" ")
    return [name.replace("_", "-"), *([value] if value else [])]


def _value_fits(value: Any, wanted: Any) -> bool:
    if wanted is None:
        return value is None
    if isinstance(wanted, list):
        return any(_value_fits(value, item) for item in wanted)
    if isinstance(wanted, str):
        return _text_fits(value, wanted)
    return value is not None and value == wanted


def _text_fits(value: Any, wanted: str) -> bool:
    if wanted == "*":
        return value not in (None, False, "none")
    if match := re.fullmatch(r"([<>]=?)(\d+(?:\.\d+)?)", wanted):
        if not isinstance(value, int | float):
            return False
        limit = float(match[2])
        return {"<": value < limit, "<=": value <= limit, ">": value > limit,
                ">=": value >= limit}[match[1]]  # fmt: skip
    if match := re.fullmatch(r"(\d+)\.\.(\d+)", wanted):
        return isinstance(value, int) and int(match[1]) <= value <= int(match[2])
    return str(value) == wanted
