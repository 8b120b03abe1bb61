"""Which engine a process is: launcher words and image names, as data in `data/launchers.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from posixpath import basename
from typing import Any

from shardlint.known import Text

LONGEST_PREFIX = 40
"""Words that may stand before a launcher: options of `numactl`, `srun`, `nsys profile`."""


@cache
def _data() -> dict[str, Any]:
    path = Path(__file__).parent / "data" / "launchers.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


@cache
def _patterns(engine: str, key: str) -> re.Pattern[str] | None:
    patterns = _data()["engines"].get(engine, {}).get(key, [])
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)) if patterns else None


@cache
def _launchers(engine: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(words) for words in _data()["engines"].get(engine, {}).get("launchers", ()))


def after_launcher(engine: str, argv: Sequence[Text]) -> int | None:
    """Index of the first word after the launcher of an engine, or None."""
    words = [word.value for word in argv]
    if not words:
        return None
    for start in range(_longest_prefix(words) + 1):
        for launcher in _launchers(engine):
            end = _match(words, start, launcher)
            if end is not None:
                return end
    return None


@cache
def _prefixes() -> frozenset[str]:
    return frozenset(_data()["prefixes"])


def _longest_prefix(words: Sequence[str | None]) -> int:
    """How many words may be skipped: none, unless the first only starts what follows."""
    first = words[0] or ""
    wraps = basename(first) in _prefixes() or re.match(r"[A-Za-z_]\w*=", first)
    return min(LONGEST_PREFIX, len(words) - 1) if wraps else 0


def _match(words: Sequence[str | None], start: int, launcher: tuple[str, ...]) -> int | None:
    """End of a launcher that starts here; "python" stands for any Python and its own options.

    A variable may hold the interpreter: `$PYTHON -m` can be followed by modules only.
    """
    at = start
    for index, pattern in enumerate(launcher):
        if pattern == "-m":
            while at < len(words) and re.fullmatch(r"-[uOBIsSE]+", words[at] or ""):
                at += 1
        word = words[at] if at < len(words) else None
        if word is None and not (index == at == 0 and "-m" in launcher):
            return None
        name = basename(word) if index == 0 and word else word
        if name is not None and not re.fullmatch(pattern, name):
            return None
        at += 1
    return at


@cache
def _wrappers() -> dict[str, tuple[frozenset[str], frozenset[str], frozenset[str]]]:
    keys = ("values", "lists", "switches")
    return {
        pattern: tuple(frozenset(row[key]) for key in keys)  # type: ignore[misc]
        for pattern, row in _data()["wrappers"].items()
    }


def wrapper(launcher: Sequence[Text]) -> str | None:
    """The program that starts the engine in its own process, by the last word of its launcher."""
    last = launcher[-1].value or "" if launcher else ""
    return next((pattern for pattern in _wrappers() if re.fullmatch(pattern, last)), None)


def handed_on(wrapper: str, words: Sequence[Text]) -> tuple[Text, ...]:
    """The words that reach the engine: a wrapper takes its own options out."""
    values, lists, switches = _wrappers()[wrapper]
    kept: list[Text] = []
    at = 0
    while at < len(words):
        name, equals, _ = (words[at].value or "").partition("=")
        at += 1
        if name in values | lists:
            most = 0 if equals else len(words) if name in lists else 1
            while most and at < len(words) and not (words[at].value or "").startswith("--"):
                most, at = most - 1, at + 1
        elif name not in switches and name.replace("--no-", "--", 1) not in switches:
            kept.append(words[at - 1])
    return tuple(kept)


def image_matches(engine: str, image: str | None) -> bool:
    """The repository of an image, without registry, tag and digest, is one of this engine's."""
    pattern = _patterns(engine, "images")
    return bool(image and pattern and pattern.search(repository(image)) and not excluded(image))


def image_tells_version(engine: str, image: str | None) -> bool:
    """Tags of this image are releases of the engine."""
    pattern = _patterns(engine, "version_images")
    return bool(image and pattern and pattern.search(repository(image)))


def image_starts(engine: str, image: str | None) -> bool:
    """The entrypoint of this image is the engine itself: words that are given are its own."""
    pattern = _patterns(engine, "engine_entrypoints")
    return bool(image and pattern and pattern.search(repository(image)))


def another(engine: str, image: str | None) -> bool:
    """The image is one of another engine."""
    return any(name != engine and image_matches(name, image) for name in _data()["engines"])


@cache
def _any_of(key: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _data()[key]))


def is_command(argv: Sequence[Text]) -> bool:
    """The words start a program of their own, such as `bash run.sh` or `sleep infinity`."""
    name = basename(argv[0].value or "") if argv else ""
    return bool(_any_of("commands").fullmatch(name))


def excluded(image: str) -> bool:
    """Images named after an engine that are none: simulators, routers, benchmarks."""
    return bool(_any_of("not_engines").search(repository(image)))


def bundled(image: str) -> bool:
    """The image is of a distribution with releases of its own, of which its tag is one."""
    return bool(_any_of("bundles").search(repository(image)))


def release_in_name(image: str) -> str | None:
    """The release in the name of an image that has no tag: `...-cu121.2-1.ubuntu2204.py310`."""
    match = _any_of("named_releases").search(image)
    return next((group for group in match.groups() if group), None) if match else None


def cpu_build(image: str | None, variables: Iterable[str], argv: Sequence[Text] = ()) -> bool:
    """The image, a variable or `--device` says that the engine runs on CPUs and needs no GPU."""
    named = any(re.search(pattern, (image or "").lower()) for pattern in _data()["cpu_images"])
    told = not set(_data()["cpu_variables"]).isdisjoint(variables)
    return named or told or device_option(argv) == "cpu"


DEVICE_OPTION = "--device"


def device_option(argv: Sequence[Text]) -> str | None:
    """What `--device` says, the last time that it is given."""
    found: str | None = None
    for at, word in enumerate(argv):
        name, equals, value = (word.value or "").partition("=")
        if name == DEVICE_OPTION:
            following = argv[at + 1].value if at + 1 < len(argv) else None
            found = value if equals else following
    return found


def accelerator(
    image: str | None,
    variables: Iterable[str],
    resources: Iterable[str],
    argv: Sequence[Text] = (),
) -> str | None:
    """The accelerator on which an engine runs other code than on GPUs of NVIDIA and AMD."""
    named, names, units = (image or "").lower(), tuple(variables), tuple(resources)
    device = device_option(argv)
    for name, row in _data()["accelerators"].items():
        if device is not None and device in row["devices"]:
            return str(name)
        if any(re.search(pattern, named) for pattern in row["images"]):
            return str(name)
        if _full(row["variables"], names) or _full(row["resources"], units):
            return str(name)
    return None


def _full(patterns: Iterable[str], texts: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, text) for text in texts for pattern in patterns)


def repository(image: str) -> str:
    """The image without its tag and digest, in lower case."""
    name = image.split("@", 1)[0].lower()
    head, colon, tail = name.rpartition(":")
    return head if colon and "/" not in tail else name


def tag_of(image: str) -> str | None:
    """The digest or tag of an image, as written; with a digest, its tag is not looked at."""
    name, at, digest = image.partition("@")
    if at:
        return digest
    head, colon, tail = name.rpartition(":")
    return tail if colon and head and "/" not in tail else None
