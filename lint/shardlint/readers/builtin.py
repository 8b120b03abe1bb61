"""The built-in readers, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.plugins import Reader, hookimpl
from shardlint.readers.compose import ComposeReader
from shardlint.readers.kubernetes import KubernetesReader
from shardlint.readers.kustomize import KustomizeReader
from shardlint.readers.shell import ShellReader


@hookimpl
def shardlint_readers() -> Iterable[Reader]:
    return (KubernetesReader(), ComposeReader(), ShellReader(), KustomizeReader())
