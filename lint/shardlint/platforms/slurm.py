"""Slurm: what a batch script asks for, and what a job finds in its environment.

A job finds what its `#SBATCH` lines ask for in variables such as SLURM_NNODES; nothing is added to
its commands.

Facts: manifests §11, platforms §15; sbatch(1) and srun(1) of Slurm for the forms of the options.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LONG: Final = {
    "N": "nodes",
    "n": "ntasks",
    "G": "gpus",
    "C": "constraint",
    "p": "partition",
    "c": "cpus-per-task",
}
"""Options of one letter that are read here; all others have a value as well."""

SWITCHES: Final = frozenset(
    {"exclusive", "no-container-entrypoint", "no-container-mount-home", "container-mount-home",
     "container-writable", "overcommit", "oversubscribe", "overlap", "contiguous", "requeue",
     "no-requeue", "hold", "parsable", "wait", "unbuffered", "label", "no-kill", "exact",
     "spread-job", "quiet", "verbose", "pty", "test-only", "reboot", "use-min-nodes",
     "kill-on-bad-exit", "multi-prog", "preserve-env", "ignore-pbs", "get-user-env"}
)  # fmt: skip
"""Options without a value, or with one that must stand behind `=`."""

SHORT_SWITCHES: Final = frozenset("HIOQkKlsuvWXZ")


class Gpus(NamedTuple):
    """A number of GPUs and the name of their type, as far as they are told."""

    number: int
    type: str | None


def gpus(value: str) -> Gpus | None:
    """`4`, `h100:4` or `h100`; None for what is neither."""
    found = re.fullmatch(r"(?:([A-Za-z][\w.-]*):)?(\d{1,4})", value)
    if found:
        return Gpus(int(found[2]), found[1])
    return Gpus(1, value) if re.fullmatch(r"[A-Za-z][\w.-]*", value) else None


def gres(value: str) -> Gpus | None:
    """The GPUs among generic resources: `gpu`, `gpu:4`, `gpu:h100:4(S:0-1)`, `nvme,gpu:2`."""
    for item in value.split(","):
        found = re.fullmatch(
            r"(?:gres[:/])?gpu(?::([A-Za-z][\w.-]*))?(?::(\d{1,4}))?(?:\([^)]*\))?", item.strip()
        )
        if found:
            return Gpus(int(found[2] or 1), found[1])
    return None


def count(value: str) -> int | None:
    """A number of nodes or tasks; a range is none."""
    found = re.fullmatch(r"(\d{1,6})(?:-\1)?", value)
    return int(found[1]) if found else None


def features(value: str) -> tuple[str, ...]:
    """The features that a node must have; of alternatives, none is certain."""
    if re.search(r"[|\[\]]", value):
        return ()
    return tuple(re.sub(r"\*\d+$", "", item.strip("() ")) for item in re.split("[&,]", value))


def image(value: str) -> str | None:
    """A container image as Pyxis names it: `docker://REGISTRY#IMAGE:TAG`; None for a file."""
    if value.endswith((".sqsh", ".sif")) or value.startswith(("/", "./")):
        return None
    return re.sub(r"^\w+://", "", value).replace("#", "/")
