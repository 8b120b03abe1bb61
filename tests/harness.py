"""What several tests share: a project from texts, with what a situation says of the machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from shardlint import fixes
from shardlint.config import Machines, Settings
from shardlint.engines import builtin as engines
from shardlint.known import Known
from shardlint.linter import lint
from shardlint.platforms import builtin as platform_builtins
from shardlint.plugins import Finding, Hardware, Plugins, Result
from shardlint.project import Project, Setup
from shardlint.readers import builtin as readers
from shardlint.reports import builtin as reports


def plugins() -> Plugins:
    return Plugins([engines, platform_builtins, readers, reports])


def setup(
    *,
    gpu: str | None = None,
    gpu_mem_gb: float | None = None,
    gpus_per_node: int | None = None,
    nodes: int | None = None,
    network: str | None = None,
    link: str | None = None,
    engine_version: Mapping[str, str] | None = None,
    platforms: Mapping[str, str] | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> Setup:
    """A setup as the command line would make it."""

    def known(value: Any) -> Known[Any]:
        return Known.unset() if value is None else Known.of(value, how="derived")

    told = Settings(
        models=MappingProxyType(dict(models or {})),
        engines=MappingProxyType(dict(engine_version or {})),
        platforms=MappingProxyType(dict(platforms or {})),
        hardware=Machines(),
        **settings,
    )
    made = Setup(plugins(), told)
    device = made.devices.find(gpu) if gpu else Known.unset()
    if gpu and not device.is_known and gpu_mem_gb:
        option = made.devices.parse_gpu_option(f"{gpu},mem={gpu_mem_gb:g}GB")
        device = made.devices.device(option)
    hardware = Hardware(
        gpu=device if device.is_known else Known.unset(),
        gpus_per_node=known(gpus_per_node),
        nodes=known(nodes),
        network=known(network),
        link=known(link),
    )
    return Setup(made.plugins, told, hardware)


def project(text: str, name: str = "script.sh", **told: Any) -> Project:
    return Project.of_texts(setup(**told), {name: text})


def check(text: str, name: str = "script.sh", **told: Any) -> Result:
    """Lint one text; findings come with their fixes."""
    return fixes.with_fixes(lint(project(text, name, **told)))


def places(findings: Iterable[Finding], text: str) -> list[tuple[str, str, str]]:
    """Rule, severity and the token under the carets of each finding."""
    return [
        (finding.name, finding.severity, text[finding.span.start : finding.span.end])
        for finding in findings
    ]
