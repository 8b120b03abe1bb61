"""`docker run`, `podman run`, `nerdctl run`: the container that a shell command starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import basename
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Placement, Site
from shardlint.readers.edits import SizeSite, TextSite, WordSite
from shardlint.record import record
from shardlint.source import Source

PROGRAMS = frozenset({"docker", "podman", "nerdctl"})

SWITCHES = frozenset(
    {"--detach", "--disable-content-trust", "--env-host", "--help", "--http-proxy", "--init",
     "--interactive", "--no-healthcheck", "--no-hostname", "--no-hosts", "--oom-kill-disable",
     "--passwd", "--privileged", "--publish-all", "--quiet", "--read-only", "--read-only-tmpfs",
     "--replace", "--rm", "--rmi", "--rootfs", "--sig-proxy", "--tls-verify", "--tty",
     "--unsetenv-all", "--use-api-socket"}
)  # fmt: skip
"""Options of `run` without a value; every other long option takes one."""

SHORT_SWITCHES = frozenset("ditPq")

STARTERS = frozenset(
    {"sudo", "exec", "nohup", "env", "time", "srun", "command", "nice", "setsid", "timeout"}
)
"""Commands that may stand before the program."""

SIZES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@record
class Container:
    """What `run` is told: image, command, environment, devices."""

    image: Text
    entrypoint: Text | None
    words: tuple[Text, ...]
    env: Mapping[str, Text]
    placement: Placement
    sites: Mapping[str, Site]
    mounts: tuple[tuple[str, str], ...] = ()
    """Paths of the host and where they are in the container."""

    @property
    def argv(self) -> tuple[Text, ...]:
        """What runs; an empty entrypoint only takes the image's own away."""
        if self.entrypoint is None or self.entrypoint.value == "":
            return self.words
        return (self.entrypoint, *self.words)


def container(
    argv: Sequence[Text], source: Source, outside: Mapping[str, Text]
) -> Container | None:
    """The container that these words run, None if they are no such command.

    `outside` are variables of the shell, which `-e NAME` hands on.
    """
    at = _after_run(argv)
    if at is None:
        return None
    options: list[tuple[str, Text | None]] = []
    while at < len(argv):
        value = argv[at].value
        if value is None or not value.startswith("-"):
            break
        if value == "--":
            at += 1
            break
        name, text, at = _option(argv, at, value)
        options.append((name, text))
    if at >= len(argv) or argv[at].many:
        return None
    env = _environment(options, source, outside)
    run = next(word for word in argv if word.value == "run")
    return _container(argv[at], tuple(argv[at + 1 :]), Options(options, run, source), env)


def _after_run(argv: Sequence[Text]) -> int | None:
    words = [word.value or "" for word in argv[:8]]
    for at, word in enumerate(words):
        if basename(word) in PROGRAMS:
            rest = words[at + 1 : at + 4]
            before = rest[: rest.index("run")] if "run" in rest else ["compose"]
            return None if "compose" in before else at + 2 + len(before)
        if at == 0 and basename(word) not in STARTERS:
            return None
    return None


def _option(argv: Sequence[Text], at: int, value: str) -> tuple[str, Text | None, int]:
    """Name, value and the index after one option."""
    name, equals, _ = value.partition("=")
    following = argv[at + 1] if at + 1 < len(argv) else None
    if not value.startswith("--"):
        return _short(argv[at], following, at, value)
    if equals:
        return name, argv[at].part(len(name) + 1), at + 1
    if name in SWITCHES:
        return name, None, at + 1
    return name, following, at + 2


def _short(word: Text, following: Text | None, at: int, value: str) -> tuple[str, Text | None, int]:
    """Letters such as -itd; the first one that takes a value has it behind it: -eA=b, -e=A=b."""
    for index, letter in enumerate(value[1:], start=2):
        if letter in SHORT_SWITCHES:
            continue
        if index == len(value):
            return f"-{letter}", following, at + 2
        return f"-{letter}", word.part(index + value.startswith("=", index)), at + 1
    return value, None, at + 1


@record
class Options:
    """The options between `run` and the image."""

    given: Sequence[tuple[str, Text | None]]
    run: Text
    source: Source

    def values(self, *names: str) -> list[Text]:
        return [text for name, text in self.given if name in names and text is not None]

    def last(self, *names: str) -> Text | None:
        return next(reversed(self.values(*names)), None)

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.given)

    def switched(self, letter: str, name: str) -> bool:
        """A switch, alone or among other letters: -d, -itd, --detach."""
        short = re.compile(rf"-[a-zA-Z]*{letter}[a-zA-Z]*")
        return any(given == name or short.fullmatch(given) for given, _ in self.given)


def _container(
    image: Text, words: tuple[Text, ...], options: Options, env: Mapping[str, Text]
) -> Container:
    entrypoint = options.last("--entrypoint")
    placement, sites = _devices(options, env)
    shm, ample, site = _shm(options)
    limit, file = options.last("-m", "--memory"), options.last("--env-file")
    network, ipc = options.last("--network", "--net"), options.last("--ipc")
    placement = replace(
        placement,
        shm_bytes=shm,
        shm_ample=ample,
        memory_bytes=size(limit) if limit is not None else Known.unset(),
        host_ipc=_is_host(ipc),
        host_network=_is_host(network),
        interfaces=_interfaces(network),
        rdma=_rdma(options),
        env_open=f"{file.value or 'a file'} adds more" if file is not None else None,
        detached=options.switched("d", "--detach"),
    )
    mounts = tuple(_mounts(options))
    return Container(image, entrypoint, words, env, placement, {**sites, **site}, mounts)


def _mounts(options: Options) -> Iterator[tuple[str, str]]:
    """`-v HOST:PATH[:ro]`; a path that holds a variable is taken as it is written."""
    for text in options.values("-v", "--volume"):
        span = text.origin.span
        written = options.source.text[span.start : span.end].strip("\"'")
        parts = (written if text.value is None else text.value).split(":")
        if len(parts) > 1:
            yield parts[0], parts[1]


# --------------------------------------------------------------------------- surroundings

SHM = "/dev/shm"
DEFAULT_SHM = 64 * 2**20
DAEMON = "the container engine's default for /dev/shm is 64 MiB, as it comes"
UNITS = ("g", "m", "k", "b")


def default_shm() -> Known[int]:
    """What a container gets on /dev/shm: a daemon can be told to give more."""
    return Known.of(DEFAULT_SHM, how="defaulted").assuming(DAEMON)


def _shm(options: Options) -> tuple[Known[int], bool, dict[str, Site]]:
    """The size of /dev/shm, whether it is as good as unlimited, and its site."""
    stated, ipc = options.last("--shm-size"), options.last("--ipc")
    mode = ipc.value if ipc is not None else "private"
    if mode == "host":
        return Known.unknown("/dev/shm is the host's"), True, {}
    if stated is not None:
        return size(stated), False, {"shm_bytes": SizeSite(TextSite((stated,)), UNITS)}
    if mode not in ("private", "shareable"):
        assert ipc is not None
        return Known.unknown(f"--ipc is {mode or 'not known'}", ipc.place), False, {}
    for text in options.values("-v", "--volume", "--mount", "--tmpfs"):
        written = options.source.text[text.origin.span.start : text.origin.span.end]
        if SHM in (text.value or written):
            return Known.unknown(f"{SHM} is mounted", text.place), True, {}
        if text.value is None and ":" not in written and "=" not in written:
            return Known.unknown(f"a mount may be {SHM}: {text.reason}", text.place), False, {}
    site = SizeSite(WordSite(options.run, "--shm-size="), UNITS)
    return default_shm(), False, {"shm_bytes": site}


def _is_host(text: Text | None) -> Known[bool]:
    if text is None:
        return Known.of(False, how="defaulted")
    return text.known().map(lambda value: value == "host")


def _interfaces(network: Text | None) -> Known[str | None]:
    """The host's network has whatever interfaces the host has; a bridge is one."""
    if network is None:
        return Known.of(None, how="defaulted")
    return network.known().map(lambda value: "the host's network" if value == "host" else None)


def _rdma(options: Options) -> Known[str | None]:
    if options.has("--privileged"):
        return Known.of("--privileged", how="derived")
    for text in options.values("--device", "-v", "--volume"):
        if text.value is None:
            return Known.unknown(text.reason or "unresolved", text.origin)
        if "/dev/infiniband" in text.value:
            return Known.of(text.value, text.place)
    return Known.of(None, how="defaulted")


def _environment(
    options: Sequence[tuple[str, Text | None]], source: Source, outside: Mapping[str, Text]
) -> dict[str, Text]:
    env: dict[str, Text] = {}
    for name, text in options:
        if name in ("-e", "--env") and text is not None:
            key, value = variable(text, source, outside)
            env[key] = value
    return env


_NAMED = re.compile(r"""["']*([A-Za-z_]\w*)=""")


def variable(text: Text, source: Source, outside: Mapping[str, Text]) -> tuple[str, Text]:
    """Name and value of `NAME=value`; `NAME` alone hands on a value from outside."""
    if text.value is None:
        span = text.origin.span
        named = _NAMED.match(source.text, span.start, span.end)
        return (named.group(1) if named else "", text)
    name, equals, _ = text.value.partition("=")
    if not equals:
        handed = Text.unknown(text.origin, f"{name} is set outside this file")
        return name, outside.get(name, handed)
    part = text.part(len(name) + 1)
    return name, part if part.value else Text(part.mapped, text.origin)


def _devices(options: Options, env: Mapping[str, Text]) -> tuple[Placement, Mapping[str, Site]]:
    sites: dict[str, Site] = {}
    asked = options.values("--gpus")
    count = given_devices(options.values("--device"))
    if asked:
        several: Known[Any] = Known.unknown("--gpus is given more than once", asked[-1].place)
        count = gpus_option(asked[0]) if len(asked) == 1 else several
        if count.is_known and re.fullmatch(r"\d+", asked[0].value or ""):
            sites["gpus_per_pod"] = TextSite((asked[0],))
    listed = named_devices(asked[0].value or "") if len(asked) == 1 else None
    if count.is_unset and (seen := env.get("NVIDIA_VISIBLE_DEVICES")):
        count, listed = listed_devices(seen), items(seen.value or "")
    return Placement(gpus_per_pod=count, device_ids=identified(count, listed)), sites


MOST_DEVICES = 64
"""More devices are not told apart by number."""


def identified(count: Known[Any], listed: tuple[str, ...] | None = None) -> Known[tuple[str, ...]]:
    """The devices of the host that a container sees: those listed, else the first of the count.

    Docker hands out the devices 0 to N-1 for a count of N, the same ones to every container
    (moby, daemon/nvidia_linux.go: `countToDevices`).
    """
    number = count.only
    if number == "all":
        return Known.of(("all",), count.origin, assumes=count.assumes)
    if not isinstance(number, int):
        return Known.unset()
    ids = listed or tuple(str(at) for at in range(min(number, MOST_DEVICES)))
    return Known.of(ids, count.origin, assumes=count.assumes)


def named_devices(value: str) -> tuple[str, ...] | None:
    """The devices that `--gpus '"device=0,1"'` names."""
    match = re.match(r"device=([\w.,:/-]+)", value.strip().strip("\"'"))
    return items(match.group(1)) if match else None


def items(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def gpus_option(text: Text) -> Known[Any]:
    """`--gpus`: all, a number, count=N, or "device=0,1" with quotes of its own."""
    known = text.known()
    value = (known.only or "").strip().strip("\"'")
    if re.fullmatch(r"(count=)?(all|-1)(,.*)?", value):
        return known.map(lambda _: "all")
    if counted := re.fullmatch(r"(?:count=)?([1-9]\d{0,3})(?:,.*)?", value):
        count = int(counted.group(1))
        return known.map(lambda _: count)
    if listed := re.match(r"device=([\w.,:/-]+)", value):
        devices = len([item for item in listed.group(1).split(",") if item])
        return known.map(lambda _: devices)
    return Known.unknown(known.reason or f"--gpus {value} is not understood", known.origin)


_CDI = re.compile(r"(?:nvidia|amd)\.com/gpu=(.+)")
_RENDERER = re.compile(r"/dev/dri/renderD\d+(:.*)?")


def given_devices(texts: Sequence[Text]) -> Known[Any]:
    """`--device` and `devices:`: GPUs by their CDI names, or the kernel driver of AMD.

    The driver comes with every card of the host, unless single ones are named.
    """
    for text in texts:
        if text.mapped is None:
            return Known.unknown(text.reason or "unresolved", text.origin, text.related)
    named = [(text, match.group(1)) for text in texts if (match := _CDI.match(text.value or ""))]
    if named:
        first = named[0][0].known()
        everything = any(name == "all" for _, name in named)
        return first.map(lambda _: "all" if everything else len(named))
    driver = [text for text in texts if (text.value or "").startswith("/dev/kfd")]
    cards = [text for text in texts if _RENDERER.fullmatch(text.value or "")]
    return driver[0].known().map(lambda _: len(cards) or "all") if driver else Known.unset()


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
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?", (text.value or "").strip().lower())
    if match is None:
        return Known.unknown(text.reason or f"{text.value!r} is not a size", text.place)
    return Known.of(int(float(match[1]) * SIZES[match[2]]), text.place)
