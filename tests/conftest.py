"""Where the tests find the shared evidence: the one place that knows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("SHARDLINT_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with corpus, cases, models and schemas; without it tests are skipped."""
    if not SHARED.is_dir():
        pytest.skip("the shared evidence folder is not beside this checkout")
    return SHARED
