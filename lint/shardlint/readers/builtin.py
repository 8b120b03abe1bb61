"""The built-in readers, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.plugins import Reader, hookimpl
from shardlint.readers.compose import ComposeReader
from shardlint.readers.engine_config import EngineConfigReader
from shardlint.readers.kubernetes import KubernetesReader
from shardlint.readers.shell import ShellReader
from shardlint.readers.skypilot import SkyPilotReader
from shardlint.readers.slurm import SlurmReader
from shardlint.readers.systemd import SystemdReader


@hookimpl
def shardlint_readers() -> Iterable[Reader]:
    return (
        KubernetesReader(), ComposeReader(), ShellReader(), SlurmReader(), EngineConfigReader(),
        SkyPilotReader(), SystemdReader(),
    )  # fmt: skip
