"""JSON Schemas of shardlint: the config file, JSON outputs and data tables."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema called `name`, such as "config" or "check"."""
    text = files(__name__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
