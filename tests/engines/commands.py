"""Command lines for engines, with the place of every word."""

from __future__ import annotations

from types import MappingProxyType

from shardlint.engines.vllm import VLLM
from shardlint.known import Known, Text
from shardlint.plan import Launch, Reading
from shardlint.source import Mapped, Origin, Span

FILE = "script.sh"
ENGINE = VLLM()


def words(line: str) -> tuple[Text, ...]:
    """The words of a line: `?` is an unknown one, `?*` any number; `\\s` stands for a blank."""
    found, at = [], 0
    for part in line.split():
        start = line.index(part, at)
        at = start + len(part)
        origin = Origin(FILE, Span(start, at))
        if part.startswith("?"):
            found.append(Text.unknown(origin, "X is not set", many=part == "?*"))
        elif "\\s" in part:
            text = part.replace("\\s", " ")
            found.append(Text(Mapped.all_at(text, origin.span), origin))
        else:
            found.append(Text(Mapped.slice_of(line, origin.span), origin))
    return tuple(found)


def launch(line: str, image: str | None = None, **env: str) -> Launch:
    """A process; with an image, the words follow the image's own entrypoint."""
    texts = {name: Text(Mapped.all_at(value, Span(0, 0)), NOWHERE) for name, value in env.items()}
    return Launch(
        origin=NOWHERE,
        argv=words(line),
        image=Known.unset() if image is None else Known.of(image),
        env=MappingProxyType(texts),
        argv_complete=image is None,
    )


def read(line: str, image: str | None = None, **env: str) -> Reading:
    """What vLLM makes of a process that must be its own."""
    reading = ENGINE.read(launch(line, image, **env))
    assert reading is not None
    return reading


NOWHERE = Origin(FILE, Span(0, 0))
