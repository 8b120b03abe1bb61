from __future__ import annotations

import subprocess
import sys

from shardlint.plugins import Plugins
from shardlint.reports import builtin


def test_formats_come_in_by_the_hook() -> None:
    reports = Plugins([builtin], discover=False).reports()
    expected = ["text", "concise", "json", "github", "sarif", "lsp"]
    assert expected == list(reports)


def test_formats_need_nothing_heavy() -> None:
    code = (
        "import sys, shardlint.reports.builtin; "
        "print(*sorted({'rich', 'jsonschema', 'pygls', 'lsprotocol'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = "\n"
    assert expected == run.stdout
