"""What the benchmarks share: commands beside this interpreter, timed in turns."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Sample:
    seconds: float
    peak_mib: float


def script(name: str) -> str:
    """A command that was installed beside this interpreter."""
    path = Path(sys.executable).with_name(name)
    if not path.is_file():
        raise SystemExit(f"{name} is not installed beside {Path(sys.executable).name}")
    return str(path)


def run(command: Sequence[str], folder: Path) -> Sample:
    """One run, with bytecode files in use, whatever this shell says about them."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)}")
    return Sample(seconds, usage.ru_maxrss / 2**10)


def in_turns(
    commands: Mapping[str, Sequence[str]], folder: Path, count: int
) -> dict[str, list[Sample]]:
    """Samples of each command, one after another in every round, after one that is not counted."""
    found: dict[str, list[Sample]] = {name: [] for name in commands}
    for command in commands.values():
        run(command, folder)
    for _ in range(count):
        for name, command in commands.items():
            found[name].append(run(command, folder))
    return found


def times(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """Median, least and most seconds."""
    seconds = [sample.seconds for sample in samples]
    return median(seconds), min(seconds), max(seconds)


def machine() -> str:
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
