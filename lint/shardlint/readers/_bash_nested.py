"""Where a command line carries a script: `exec env A=b timeout 5 bash -lc 'script' name args`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from posixpath import basename

from shardlint.known import Text
from shardlint.record import record

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})

PREFIXES: dict[str, tuple[frozenset[str], int]] = {
    "exec": (frozenset({"-a"}), 0),
    "nohup": (frozenset(), 0),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "sudo": (frozenset({"-u", "--user", "-g", "--group", "-h", "-p", "-D", "-C"}), 0),
    "timeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}), 1),
    "nice": (frozenset({"-n"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "setsid": (frozenset(), 0),
    "time": (frozenset({"-o", "-f"}), 0),
    "command": (frozenset(), 0),
    "tini": (frozenset({"-p", "-e"}), 0),
    "dumb-init": (frozenset({"-r", "--rewrite"}), 0),
}
"""Commands that run another: their options with a value, and how many words stand before it."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)


@record
class Nested:
    """The index of the script's word, and variables that the words before it set."""

    script: int
    env: Mapping[str, Text]


def nested(argv: Sequence[Text]) -> Nested | None:
    """The script that these words give to a shell, or None."""
    env: dict[str, Text] = {}
    at = 0
    while at < len(argv):
        name = basename(argv[at].value or "")
        if name in SHELLS:
            script = _script(argv, at + 1)
            return None if script is None else Nested(script, env)
        if name not in PREFIXES:
            return None
        at = _behind_prefix(argv, at + 1, name, env)
    return None


def _behind_prefix(argv: Sequence[Text], at: int, name: str, env: dict[str, Text]) -> int:
    valued, before = PREFIXES[name]
    while at < len(argv):
        value = argv[at].value or ""
        if value == "--":
            return at + 1 + before
        if value.startswith("-"):
            at += 2 if value in valued else 1
        elif assignment := _ASSIGNMENT.match(value):
            env[assignment[1]] = argv[at].part(assignment.end())
            at += 1
        else:
            break
    return at + before


def _script(argv: Sequence[Text], at: int) -> int | None:
    """Index of the word after a shell's options, when `-c` is among them."""
    command = False
    while at < len(argv):
        value = argv[at].value
        if value is None or len(value) < 2 or value[0] not in "-+":
            return at if command else None
        short = not value.startswith("--")
        command = command or (short and value[0] == "-" and "c" in value)
        at += 2 if short and value.endswith(("o", "O")) else 1
    return None


def script_word(argv: Sequence[Text]) -> int | None:
    """Index of the script file that these words run: `exec bash -e start.sh args`, `./start.sh`."""
    env: dict[str, Text] = {}
    at = 0
    while at < len(argv):
        value = argv[at].value or ""
        name = basename(value)
        if name in SHELLS:
            return _file(argv, at + 1)
        if name not in PREFIXES:
            return at if "/" in value or value.endswith(".sh") else None
        at = _behind_prefix(argv, at + 1, name, env)
    return None


def _file(argv: Sequence[Text], at: int) -> int | None:
    """Index of the word behind a shell's options, which are short ones without `-c`."""
    while at < len(argv):
        value = argv[at].value
        if value is None or ("c" in value[:4].lstrip("-+") and value[:1] == "-" != value[1:2]):
            return None
        if len(value) < 2 or value[0] not in "-+":
            return at
        at += 2 if value.endswith(("o", "O")) and not value.startswith("--") else 1
    return None
