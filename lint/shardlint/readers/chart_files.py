"""The chart that a file of values lies in: its Chart.yaml, where that is one of the run's files."""

from __future__ import annotations

from shardlint.known import Known
from shardlint.plugins import ReadContext
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import placeholder
from shardlint.source import Source


def chart_release(source: Source, context: ReadContext, name: str) -> Known[str]:
    """The version of the chart, if it is the one of this name."""
    beside = context.files.beside(source, "Chart.yaml")
    roots = read_yaml(beside)[0] if beside is not None else ()
    if len(roots) != 1 or roots[0].string("name") != name:
        return Known.unset()
    found = roots[0].get("version")
    if found is None or found.kind != "scalar" or placeholder(found.value) is not None:
        return Known.unset()
    return found.text().known()
