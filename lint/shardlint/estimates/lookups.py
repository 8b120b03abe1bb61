"""From the words of a question to a release, a card and a model, and what had to be assumed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from shardlint.estimates.asked import EstimateError, shown
from shardlint.hardware.errors import HardwareError
from shardlint.known import Known
from shardlint.models.errors import ModelError
from shardlint.plan import Device, ModelFacts, Releases, version
from shardlint.project import Setup
from shardlint.sizing.memory import GIB, MIB, capacity

Said = tuple[str, ...]

RELEASE: Final = re.compile(
    r"\s*v?(\d{1,4}(?:\.\d{1,4}){1,3})[-.]?(?:(post)(\d{1,3}))?((?:[-.]?(?:rc|dev|a|b)\d*)*)"
    r"(?:[-+_.](?!\d).*|[-+_\s].*)?\s*",
    re.IGNORECASE | re.DOTALL,
)
"""A release with what builds, platforms and images write behind it."""


# -------------------------------------------------------------------------------------- releases


def release_of(known: Sequence[str], text: str | None, label: str) -> tuple[str, Said]:
    """The release that a version is; a build: the opened one before it; else a middle one.

    A release between two opened ones is sized with all that is known to be as old.
    """
    if text is None:
        middle = known[len(known) // 2]
        return middle, (f"the release of {label} is not stated: {middle} is taken",)
    found = RELEASE.fullmatch(text)
    name = "" if found is None else found[1] + (f".post{found[3]}" if found[2] else "")
    asked, versions = version(name), [version(release) for release in known]
    first, last = versions[0], versions[-1]
    assert first is not None and last is not None
    built = bool(found and found[4]) and asked is not None and asked < first
    if asked is None or built or asked.major > last.major:
        middle = known[len(known) // 2]
        return middle, (f"{label} {shown(text)} is not known: {middle} is taken",)
    before = [at for at, one in enumerate(versions) if one is not None and one <= asked]
    nearest = known[before[-1] if before else 0]
    built = bool(found and found[4])
    if not built and first < asked < last and version(nearest) != asked:
        return name, (f"{label} {name} was not opened: it lies behind {nearest}",)
    exact = version(nearest) == asked and not built
    return nearest, () if exact else (f"{label} {nearest} is taken for {text.strip()}",)


def release_within(known: Sequence[str], spans: Sequence[Releases], label: str) -> tuple[str, Said]:
    """One release for all that a plan can mean: the middle one of those that were opened."""
    if len(spans) == 1 and spans[0].first == spans[0].last:
        return release_of(known, spans[0].first, label)
    inside = [
        release for release in known if any(_in(span, release) for span in spans)
    ] or list(known)  # fmt: skip
    middle = inside[len(inside) // 2]
    return middle, (f"{label} {middle} is taken for {' or '.join(map(str, spans))}",)


def _in(span: Releases, release: str) -> bool:
    low, high, one = version(span.first), version(span.last), version(release)
    return low is not None and high is not None and one is not None and low <= one <= high


# ----------------------------------------------------------------------------------------- cards


def card_of(setup: Setup, name: str | None, gib: float | None) -> tuple[Device, int, Said]:
    """A card with its memory in bytes as engines see it."""
    if name is None:
        assert gib is not None
        return _bare("a card", gib), int(gib * GIB), ()
    found = setup.devices.find(name)
    if not found.is_known and re.search("[:,]", name):
        try:
            option = setup.devices.parse_gpu_option(name)
        except HardwareError as error:
            raise EstimateError(f"gpu: {str(error).removeprefix('--gpu: ')}") from None
        name, found = option.name, _linked(setup.devices.device(option), option.link)
    if not found.is_known and (other := setup.devices.alike(name)):
        found = setup.devices.find(other)
    if not found.is_known:
        if gib is None:
            reason = "its memory is not known, and gpu_mem_gib is not stated"
            raise EstimateError(f"gpu: {shown(name)} is not in the hardware table; {reason}")
        bare = f"nothing but its memory is known of the card {shown(name)}"
        return _bare(name, gib), int(gib * GIB), (bare,)
    device = found.only or _usual(setup, name, found.values, gib)
    said: Said = tuple(sorted(found.assumes))
    if len(found.values) > 1:
        shown_as = device.name if gib is not None else _described(device)
        said += (f"{name} is read as {shown_as}",)
    total = int(gib * GIB) if gib is not None else capacity(device)
    if total is None:
        raise EstimateError(f"gpu: the memory of {device.name} is not known: state gpu_mem_gib")
    stated = replace(device, memory_mib=total // MIB, memory_kind=None)
    return stated if gib is None else replace(stated, driver_mib=None), total, said


def _linked(found: Known[Device], link: str | None) -> Known[Device]:
    """With the link that is stated. How fast another kind is than the card's own, is not known."""

    def own(device: Device) -> Device:
        if link is None or (device.link or "").startswith(link):
            return device
        domain = 1 if link == "pcie" else device.link_domain
        return replace(device, link=link, link_domain=domain, link_gbps=None)

    return found.map(own)


def _usual(setup: Setup, name: str, values: Sequence[Device], gib: float | None) -> Device:
    """The card whose memory comes nearest to what is stated, else the usual one."""
    if gib is not None:
        return min(values, key=lambda card: abs((capacity(card) or 0) - gib * GIB))
    usual = setup.devices.usual(name)
    return usual if usual is not None and usual in values else values[0]


def _described(device: Device) -> str:
    size = capacity(device)
    return device.name if size is None else f"{device.name} of {size / GIB:.1f} GiB"


def _bare(name: str, gib: float) -> Device:
    return Device(name=name, vendor="unknown", memory_mib=int(gib * GIB) // MIB)


# ---------------------------------------------------------------------------------------- models


def model_of(setup: Setup, name: str) -> tuple[ModelFacts, Said]:
    """The facts of an id, a path, a bare name, or what a name seems to say."""
    try:
        facts = setup.catalogue.lookup(name) or _at_path(name)
        if facts is None and "/" not in name:
            facts = setup.catalogue.named(name) or setup.catalogue.named(f"{name}{CONVERTED}")
        if facts is None and (plain := _plain_name(name)) != name:
            return model_of(setup, plain)
        reference = name if facts is None or facts.provenance == "config.json" else facts.id
        facts = setup.resolved(reference, facts) or setup.catalogue.variant(name)
    except ModelError as error:
        raise EstimateError(f"model: {error}") from None
    if facts is None:
        if _is_folder(name):
            raise EstimateError(f"model: {shown(name)} has no config.json")
        raise EstimateError(
            f"model: {shown(name)} is neither in the catalogue nor a path; --online asks the Hub"
        )
    said: Said = tuple(sorted(facts.doubts(())))
    if facts.provenance != "config.json" and name.lower() != facts.id.lower():
        said = (f"{name} is read as {facts.id}", *said)
    return _stored(setup, name, facts, said)


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):
        return False


CONVERTED: Final = "-hf"
"""Behind the name of a model whose weights were brought into another format."""


def _plain_name(name: str) -> str:
    """Without remarks in brackets, with dashes between words, as ids are written."""
    return "-".join(re.sub(r"\(.*\)", " ", name).split())


def _at_path(name: str) -> ModelFacts | None:
    from shardlint.models.config_json import from_config_file, from_folder

    path = Path(name)
    try:
        if path.is_dir():
            return from_folder(path)
        return from_config_file(path) if path.is_file() else None
    except (OSError, ValueError):  # a name that is no path at all
        return None


def _stored(setup: Setup, name: str, facts: ModelFacts, said: Said) -> tuple[ModelFacts, Said]:
    """With the storage that the name tells of, where nothing else does."""
    if facts.quantization is not None:
        return facts, said
    guess = setup.catalogue.assumed_quantization(name)
    if guess is None:
        return facts, said
    return replace(facts, quantization=guess), (*said, "the weights are stored as the name says")
