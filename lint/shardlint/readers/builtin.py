"""The built-in readers, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.plugins import Reader, hookimpl
from shardlint.readers.compose import ComposeReader
from shardlint.readers.gitops import GitopsReader
from shardlint.readers.helm_templates import HelmTemplateReader
from shardlint.readers.helm_values import HelmValuesReader
from shardlint.readers.kubernetes import KubernetesReader
from shardlint.readers.llmd import LlmdReader
from shardlint.readers.production_stack import ProductionStackReader
from shardlint.readers.shell import ShellReader


@hookimpl
def shardlint_readers() -> Iterable[Reader]:
    return (
        KubernetesReader(),
        ComposeReader(),
        GitopsReader(),
        HelmTemplateReader(),
        HelmValuesReader(),
        LlmdReader(),
        ProductionStackReader(),
        ShellReader(),
    )
