"""`docker run`, `podman run`, `nerdctl run`: the container that a shell command starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from posixpath import basename
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Placement, Site
from shardlint.readers.edits import TextSite
from shardlint.record import record

PROGRAMS = frozenset({"docker", "podman", "nerdctl"})

SWITCHES = frozenset(
    [
        "--detach",
        "--interactive",
        "--tty",
        "--rm",
        "--privileged",
        "--init",
        "--read-only",
        "--oom-kill-disable",
        "--no-healthcheck",
        "--publish-all",
        "--sig-proxy",
        "--disable-content-trust",
        "--help",
        "--quiet",
        "--replace",
        "--tls-verify",
        "--no-hosts",
        "--systemd",
    ]
)
"""Options of `run` without a value; every other long option takes one."""

SHORT_SWITCHES = frozenset("ditPq")

SIZES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}


@record
class Container:
    """What `run` is told: image, command, environment, devices."""

    image: Text
    entrypoint: Text | None
    words: tuple[Text, ...]
    env: Mapping[str, Text]
    placement: Placement
    sites: Mapping[str, Site]

    @property
    def argv(self) -> tuple[Text, ...]:
        return (self.entrypoint, *self.words) if self.entrypoint is not None else self.words


def container(argv: Sequence[Text]) -> Container | None:
    """The container that these words run, None if they are no such command."""
    start = _after_run(argv)
    if start is None:
        return None
    options: list[tuple[str, Text | None]] = []
    at = start
    while at < len(argv):
        value = argv[at].value
        if value is None or not value.startswith("-"):
            break
        name, text, at = _option(argv, at, value)
        options.append((name, text))
    if at >= len(argv) or argv[at].many:
        return None
    return _container(argv[at], tuple(argv[at + 1 :]), options)


def _after_run(argv: Sequence[Text]) -> int | None:
    words = [word.value or "" for word in argv[:8]]
    for at, word in enumerate(words):
        if basename(word) in PROGRAMS:
            rest = words[at + 1 : at + 4]
            return at + 2 + rest.index("run") if "run" in rest else None
        if at == 0 and basename(word) not in ("sudo", "exec", "nohup", "env", "time", "srun"):
            return None
    return None


def _option(argv: Sequence[Text], at: int, value: str) -> tuple[str, Text | None, int]:
    """Name, value and the index after one option."""
    name, equals, _ = value.partition("=")
    if not value.startswith("--"):
        if set(value[1:]) <= SHORT_SWITCHES:
            return value, None, at + 1
        head = value[1:].lstrip("".join(SHORT_SWITCHES))
        if len(head) > 1:
            return f"-{head[0]}", argv[at].part(len(value) - len(head) + 1), at + 1
        return f"-{head}", argv[at + 1] if at + 1 < len(argv) else None, at + 2
    if equals:
        return name, argv[at].part(len(name) + 1), at + 1
    if name in SWITCHES:
        return name, None, at + 1
    return name, argv[at + 1] if at + 1 < len(argv) else None, at + 2


def _container(
    image: Text, words: tuple[Text, ...], options: Sequence[tuple[str, Text | None]]
) -> Container:
    entrypoint = None
    env: dict[str, Text] = {}
    for name, text in options:
        if text is None:
            continue
        if name in ("-e", "--env"):
            key, value = variable(text)
            env[key] = value
        elif name == "--entrypoint":
            entrypoint = text
    placement, sites = _devices(options, env)
    return Container(image, entrypoint, words, env, placement, sites)


def variable(text: Text) -> tuple[str, Text]:
    """Name and value of `NAME=value`; `NAME` alone hands on a value from outside."""
    value = text.value or ""
    name, equals, _ = value.partition("=")
    if not equals:
        return name, Text.unknown(text.origin, f"{name} is set outside this file")
    part = text.part(len(name) + 1)
    return name, part if part.value else Text(part.mapped, text.origin)


def _devices(
    options: Sequence[tuple[str, Text | None]], env: Mapping[str, Text]
) -> tuple[Placement, Mapping[str, Site]]:
    placement, sites = Placement(), dict[str, Site]()
    for name, text in options:
        if text is None:
            continue
        if name == "--gpus":
            placement = replace(placement, gpus_per_pod=gpus_option(text))
            if re.fullmatch(r"\d+", text.value or ""):
                sites["gpus_per_pod"] = TextSite((text,))
        elif name == "--device" and placement.gpus_per_pod.is_unset:
            placement = replace(placement, gpus_per_pod=device_option(text))
        elif name == "--shm-size":
            placement = replace(placement, shm_bytes=size(text))
    if placement.gpus_per_pod.is_unset and (seen := env.get("NVIDIA_VISIBLE_DEVICES")):
        placement = replace(placement, gpus_per_pod=listed_devices(seen))
    return placement, sites


def gpus_option(text: Text) -> Known[Any]:
    """`--gpus`: all, a number, count=N, or "device=0,1" with quotes of its own."""
    known = text.known()
    value = (known.only or "").strip().strip("\"'")
    if value == "all":
        return known.map(lambda _: "all")
    if counted := re.fullmatch(r"(?:count=)?(\d{1,4})(?:,.*)?", value):
        count = int(counted.group(1))
        return known.map(lambda _: count)
    if listed := re.match(r"device=([\w.,:/-]+)", value):
        devices = len(listed.group(1).split(","))
        return known.map(lambda _: devices)
    return Known.unknown(known.reason or f"--gpus {value} is not understood", known.origin)


def device_option(text: Text) -> Known[Any]:
    """`--device`: the kernel driver of AMD or all CDI devices mean every GPU of the host."""
    value = text.value or ""
    if value.startswith("/dev/kfd") or re.fullmatch(r"(nvidia|amd)\.com/gpu=all", value):
        return text.known().map(lambda _: "all")
    return Known.unset()


def listed_devices(text: Text) -> Known[Any]:
    """A list of devices, or all of them."""
    known = text.known()
    if known.only in ("all",):
        return known.map(lambda _: "all")
    if known.only in ("none", "void", ""):
        return Known.unset()
    return known.map(lambda value: len([item for item in value.split(",") if item.strip()]))


def size(text: Text) -> Known[int]:
    """Bytes of a Docker size such as 16g, 1.5GB or 64m."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmg]?)i?b?", (text.value or "").strip().lower())
    if match is None:
        return Known.unknown(text.reason or f"{text.value!r} is not a size", text.place)
    return Known.of(int(float(match[1]) * SIZES[match[2]]), text.place)
