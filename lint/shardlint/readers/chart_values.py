"""Values of a chart, read as those of the chart that they fit."""

from __future__ import annotations

from shardlint.known import Known
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers import helm_values, llmd, production_stack
from shardlint.readers.yaml_tree import Node


def chart_values(
    values: Node, path: str, context: ReadContext, release: Known[str] | None = None
) -> ReadResult:
    """The engines and routers of one installation; `release` is that of the chart."""
    if production_stack.is_ours(values):
        return production_stack.values(values, path, context, release)
    if llmd.is_ours(values):
        return llmd.values(values, path, context, release)
    return helm_values.values(values, path, context)
