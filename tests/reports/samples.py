"""Results built by hand, over real texts: what every format has to cope with."""

from __future__ import annotations

import io
from typing import Any

from shardlint.plugins import Finding, Fix, Related, Report, Result, Rule, UndecidedRule
from shardlint.source import Edit, Source, Span

SCRIPT = Source(
    "serve.sh",
    "#!/bin/sh\n"
    "# one node\n"
    "vllm serve '🦙/Qwen2.5-7B' --tensor-parallel-size 8 \\\n"
    "\t--max-model-len 32768\n",
)
VALUES = Source(
    "helm/größe 1.yaml",
    "modelSpec:\r\n- name: chat\r\n  requestGPU: 4\r\n  replicaCount: 2\r\n",
)
URL = "https://example.org/rules/tp-heads-indivisible"


class TpHeadsIndivisible(Rule):
    id, name, severity = "SL101", "tp-heads-indivisible", "error"

    @classmethod
    def page(cls) -> str:
        return (
            "Attention heads do not divide over\nthe tensor parallel ranks.\n\n"
            "A rank computes whole heads.\n"
            "```sh fails\nvllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\n```\n"
        )


class RoutingBlind(Rule):
    id, name, scope, enabled = "SL504", "routing-blind", "router", False

    @classmethod
    def page(cls) -> str:
        return "\n"


def span_of(source: Source, words: str) -> Span:
    """The span of the brackets in words that stand in one place only: "size [8]"."""
    before, _, rest = words.partition("[")
    inside, _, after = rest.partition("]")
    assert source.text.count(before + inside + after) == 1
    start = source.text.index(before + inside + after) + len(before)
    return Span(start, start + len(inside))


def finding(source: Source, span: Span | str, **fields: Any) -> Finding:
    """A finding at some words, or at a span, of a source."""
    at = span_of(source, span) if isinstance(span, str) else span
    ends = {"start": source.position(at.start), "end": source.position(at.end), "span": at}
    told = {
        "rule": "SL504",
        "name": "routing-blind",
        "severity": "warning",
        "message": "it is blind",
    }
    return Finding(**{"file": source.name, **ends, **told, **fields})


def related(source: Source, words: str, message: str) -> Related:
    at = span_of(source, words)
    return Related(source.name, source.position(at.start), source.position(at.end), message)


def result(*findings: Finding, **fields: Any) -> Result:
    """A result over both sample files."""
    known = {"undecided": (), "suppressed": 0, "files": 2, "plans": 2}
    sources = {"sources": {source.name: source for source in (SCRIPT, VALUES)}}
    rules = {"rules": (TpHeadsIndivisible, RoutingBlind)}
    return Result(findings=findings, **{**known, **sources, **rules, **fields})


def waits(plan: str, name: str, needs: str, reason: str) -> UndecidedRule:
    return UndecidedRule(plan, "SL102", name, needs, reason)


HEADS = finding(
    SCRIPT,
    "size [8]",
    rule="SL101",
    name="tp-heads-indivisible",
    severity="error",
    message="28 attention heads do not divide over tensor parallel size 8",
    plan="serve.sh:3",
    path="0:/3",
    assumes=("Qwen2.5-7B is Qwen/Qwen2.5-7B",),
    related=(
        related(SCRIPT, "['🦙/Qwen2.5-7B']", "28 heads"),
        related(VALUES, "GPU: [4]", "4 GPUs"),
    ),
    help="tensor parallel size 4, 2 or 1",
    url=URL,
    fingerprint="5f2a",
    fixes=(
        Fix(
            title="TP 8 → TP 4 × DP 2 on the same 8 GPUs",
            applicability="unsafe",
            delta={"tp": 4, "dp": 2},
            edits=(
                Edit("serve.sh", span_of(SCRIPT, "size [8]"), "4 --data-parallel-size 2"),
                Edit("helm/größe 1.yaml", span_of(VALUES, "GPU: [4]"), "8"),
            ),
            estimate={"kv_cache_tokens": {"before": 120000, "after": 480000}, "gpus": 8},
        ),
    ),
)
BLIND = finding(
    VALUES, "[replicaCount: 2]", message="round robin over 2 replicas", fingerprint="77b0"
)

MIXED = result(
    HEADS,
    BLIND,
    suppressed=1,
    undecided=(waits("chat", "tp-kv-heads-indivisible", "layout.tp", "{{ .Values.tp }}"),),
)
CLEAN = result()


def written(report: Report, of: Result) -> str:
    """What a report writes."""
    out = io.StringIO()
    report.write(of, out)
    return out.getvalue()
