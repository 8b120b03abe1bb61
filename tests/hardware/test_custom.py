"""Cards of the config and of plugins, beside and over the table."""

from __future__ import annotations

from typing import Any

import pytest
from shardlint.hardware.errors import HardwareError
from shardlint.hardware.table import Devices
from shardlint.plan import Device


def only(devices: Devices, name: str) -> Device:
    found = devices.find(name).only
    assert found is not None
    return found


def test_card_with_a_labels_memory() -> None:
    card = only(Devices(custom={"RTX 3060": {"mem_gb": 12}}), "rtx-3060")
    assert Device(name="RTX 3060", vendor="unknown", mem_gb=12) == card


def test_card_with_an_engines_memory() -> None:
    card = only(Devices(custom={"A800-40GB": {"mem_gib": 39.5}}), "A800-40GB")
    assert (40448, None) == (card.memory_mib, card.mem_gb)


def test_base_gives_the_other_facts() -> None:
    devices = Devices(custom={"A800-40GB": {"base": "A800-SXM-80GB", "mem_gb": 40}})
    card = only(devices, "a800 40gb")
    assert ("A800-40GB", 40, "nvlink", "8.0") == (
        card.name,
        card.mem_gb,
        card.link,
        card.compute_capability,
    )


def test_memory_of_the_base_is_forgotten() -> None:
    devices = Devices(custom={"H20-141GB": {"base": "H20", "mem_gb": 141}})
    assert only(devices, "H20-141GB").memory_mib is None


def test_base_alone_keeps_the_memory() -> None:
    devices = Devices(custom={"house-card": {"base": "nvidia-h100-80gb"}})
    assert 81080 == only(devices, "house-card").memory_mib


def test_aliases_of_the_base_stay_with_it() -> None:
    devices = Devices(custom={"house-card": {"base": "L4", "mem_gb": 20}})
    assert ("L4", ()) == (only(devices, "nvidia-l4").name, only(devices, "house-card").aliases)


def test_base_may_be_a_card_of_the_config_that_stands_before() -> None:
    custom: dict[str, dict[str, Any]] = {
        "one": {"base": "L4", "mem_gb": 20},
        "two": {"base": "one"},
    }
    assert ("two", 20, "8.9") == (
        only(Devices(custom=custom), "two").name,
        only(Devices(custom=custom), "two").mem_gb,
        only(Devices(custom=custom), "two").compute_capability,
    )


def test_config_settles_an_ambiguous_name() -> None:
    devices = Devices(custom={"H100": {"base": "H100-SXM-80GB"}})
    assert 81080 == only(devices, "h100").memory_mib


def test_config_replaces_a_card_behind_its_aliases_and_instance_types() -> None:
    devices = Devices(custom={"H100-SXM-80GB": {"base": "H100-SXM-80GB", "mem_gib": 70}})
    assert 71680 == only(devices, "nvidia-h100-80gb").memory_mib
    found = devices.instance("p5.48xlarge")
    assert found is not None
    assert 71680 == found[0].values[0].memory_mib


def test_vendor_word_may_stand_before_a_card_of_the_config() -> None:
    devices = Devices(custom={"RTX 3060": {"mem_gb": 12}})
    assert "RTX 3060" == only(devices, "NVIDIA-GeForce-RTX-3060").name


def test_label_may_name_a_card_of_the_config() -> None:
    devices = Devices(custom={"RTX_A9999": {"mem_gb": 24}})
    assert 24 == devices.from_labels({"gpu.nvidia.com/class": "RTX_A9999"}).values[0].mem_gb


@pytest.mark.parametrize(
    ("message", "table"),
    [
        ('[gpus."X"] needs mem_gb, mem_gib or base', {}),
        (
            "[gpus.\"X\"]: base 'H200' can be H200-SXM-141GB or H200-NVL-141GB",
            {"base": "H200"},
        ),
        (
            "[gpus.\"X\"]: base 'L40T' is not in the hardware table; did you mean 'L40'?",
            {"base": "L40T"},
        ),
        ("[gpus.\"X\"]: base 'X' is not in the hardware table", {"base": "X"}),
    ],
)
def test_wrong_table_is_an_error_at_once(message: str, table: dict[str, Any]) -> None:
    with pytest.raises(HardwareError) as error:
        Devices(custom={"X": table})
    assert message == str(error.value)


PLUGIN = Device(name="BR100", vendor="biren", mem_gb=64, aliases=("Biren-BR100",))


def test_plugin_adds_a_card_with_its_aliases() -> None:
    assert PLUGIN == only(Devices(extra=[PLUGIN]), "biren br100")


def test_plugin_replaces_a_card_of_the_table() -> None:
    card = Device(name="L4", vendor="nvidia", mem_gb=24, memory_mib=22000)
    assert 22000 == only(Devices(extra=[card]), "nvidia-l4").memory_mib


def test_config_wins_over_a_plugin() -> None:
    devices = Devices(extra=[PLUGIN], custom={"BR100": {"mem_gb": 32}})
    assert 32 == only(devices, "Biren-BR100").mem_gb


def test_without_plugin_or_config_the_card_is_unknown() -> None:
    assert not Devices().find("BR100").is_known
