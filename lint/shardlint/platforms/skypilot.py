"""SkyPilot: what a task asks for, and what its nodes find in their environment.

Every node of a task runs its script, with variables that tell the number of nodes, its own rank and
its GPUs; nothing is added to the commands.

Facts: manifests §1.2 and §11, platforms §15.
"""

from __future__ import annotations

import re
from typing import Final

NODES: Final = "SKYPILOT_NUM_NODES"
PER_NODE: Final = "SKYPILOT_NUM_GPUS_PER_NODE"
EACH: Final = ("SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", "SKYPILOT_TASK_ID")
"""Variables that differ between the nodes or the runs of a task."""

ACCELERATOR: Final = re.compile(r"\s*([A-Za-z][\w.-]*)(?:\s*:\s*(\d{1,4}))?\s*")
"""`H100:8`; without a number it is one."""

PINNED: Final = re.compile(r"(?<![\w.-])(vllm|sglang)(?:\[[\w,.-]*\])?==([\w.+!-]+)")
"""A package of an engine with its release, as pip installs it."""


def docker_image(image: str) -> str | None:
    """The container that a task runs in; None for the image of a machine."""
    return image.removeprefix("docker:") if image.startswith("docker:") else None
