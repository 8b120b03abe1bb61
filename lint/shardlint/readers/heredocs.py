"""Files that a script writes itself, as in `cat <<EOF > /tmp/config.yaml`.

Only what is plain to see is read: one command, one name, written once. A name in a variable is that
of its only assignment. Variables inside of the text stay what they are, so that a value with one of
them is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType

from shardlint.readers.named_files import Find, NamedFile
from shardlint.source import Mapped, Source

BEGIN = re.compile(r"<<(?P<dash>-?)[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")
WRITES = re.compile(r"\b(?:cat|tee)\b")
TARGET = re.compile(
    r"(?:(?<![>\d&])>(?!>)|\btee\b(?![ \t]+-))[ \t]*"
    r"(?P<name>\"[^\"\n]+\"|'[^'\n]+'|[^\s;|&<>]+)"
)
NOWHERE = "/dev/null"
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
MOST = 50
"""Heredocs that are looked at in one script."""
LONGEST = 1000
"""Characters of a line with a command that is still plain to see."""


def written(script: Mapped, source: Source) -> Mapping[str, NamedFile]:
    """The files that a script writes, by the name that it gives them."""
    if "<<" not in script.text:
        return MappingProxyType({})
    found: dict[str, list[NamedFile]] = {}
    for name, body in _bodies(script):
        text = _plain(body)
        found.setdefault(name, []).append(NamedFile(source, text=text))
    return MappingProxyType({name: files[0] for name, files in found.items() if len(files) == 1})


def first_in(files: Mapping[str, NamedFile], find: Find) -> Find:
    """Looks among these files, and then where it was looked before."""
    if not files:
        return find

    def found(path: str) -> NamedFile | None:
        return files[path] if path in files else find(path)

    return found


def _bodies(script: Mapped) -> Iterator[tuple[str, Mapped]]:
    text = script.text
    for match in islice(BEGIN.finditer(text), MOST):
        start = text.rfind("\n", 0, match.start()) + 1
        stop = text.find("\n", match.end())
        if stop < 0 or stop - start > LONGEST:
            continue
        before = text[start : match.start()]
        around = f"{before} {text[match.end() : stop]}"
        if "#" in before or WRITES.search(around) is None:
            continue
        targets = [found["name"] for found in TARGET.finditer(around) if found["name"] != NOWHERE]
        name = _name(targets[0], text) if len(targets) == 1 else None
        blanks = r"[ \t]*" if match["dash"] else ""
        end = re.compile(rf"^{blanks}{match['end']}[ \t\r]*$", re.MULTILINE)
        closing = end.search(text, stop + 1)
        if name is not None and closing is not None:
            yield name, script.cut(stop + 1, closing.start())


def _name(word: str, text: str) -> str | None:
    name = word.strip("\"'")
    variable = VARIABLE.fullmatch(name)
    if variable is None:
        return None if "$" in name or "`" in name else name
    assigned = re.compile(rf"^[ \t]*(?:export[ \t]+)?{variable[1]}=(\S+)[ \t\r]*$", re.MULTILINE)
    values = assigned.findall(text)
    value = values[0].strip("\"'") if len(values) == 1 else None
    return value if value is not None and "$" not in value else None


def _plain(body: Mapped) -> Mapped:
    """The text, to be edited only where each line stands in the file as it is."""
    ends, starts = body.ends, body.starts
    whole = all(
        body.text[at] == "\n" or starts[at + 1] == ends[at] for at in range(len(body.text) - 1)
    )
    return body if whole else Mapped(body.text, starts, ends, literal=False)
