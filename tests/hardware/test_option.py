"""`--gpu NAME[:PER_NODE][,mem=SIZE][,link=LINK]`."""

from __future__ import annotations

import pytest
from shardlint.hardware.errors import HardwareError
from shardlint.hardware.option import GpuOption
from shardlint.hardware.table import Devices

DEVICES = Devices()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (GpuOption("H100"), "H100"),
        (GpuOption("H100", 8), "H100:8"),
        (GpuOption("RTX 4090", 2, link="pcie"), "RTX 4090:2,link=pcie"),
        (GpuOption("RTX 3060", 2, 11.6), "RTX 3060:2,mem=11.6GiB"),
        (GpuOption("RTX 3060", mem_gib=12.0), "RTX 3060,mem=12288MiB"),
        (GpuOption("RTX 3060", mem_gb=12.0), "RTX 3060,mem=12GB"),
        (GpuOption("X", 4, 32.0, "nvlink"), "X:4, mem=32gib, link=NVLink"),
        (GpuOption("mig-1g.10gb", 7), "mig-1g.10gb:7"),
        (GpuOption("p5.48xlarge"), "p5.48xlarge"),
    ],
)
def test_option_is_read(option: GpuOption, text: str) -> None:
    assert option == DEVICES.parse_gpu_option(text)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("--gpu needs the name of a card, such as --gpu H100:8", ":8"),
        ("--gpu: '0' is not a number of GPUs per node", "H100:0"),
        ("--gpu: 'eight' is not a number of GPUs per node", "H100:eight"),
        ("--gpu: unknown setting 'lnik'; did you mean 'link'?", "H100,lnik=pcie"),
        ("--gpu: link 'infiniband' is none of nvlink, pcie", "H100,link=infiniband"),
        ("--gpu: mem=32 is not a size such as 32GiB, 32GB or 32768MiB", "X,mem=32"),
        ("--gpu: mem=0GiB is not a size such as 32GiB, 32GB or 32768MiB", "X,mem=0GiB"),
        (
            "--gpu: unknown card 'H1000'; did you mean 'H100'? "
            "A card that is not in the table needs its memory: H1000,mem=32GiB",
            "H1000:8",
        ),
        (
            "--gpu: unknown card 'zzzzz'. "
            "A card that is not in the table needs its memory: zzzzz,mem=32GiB",
            "zzzzz",
        ),
    ],
)
def test_wrong_option_says_what_is_wrong(message: str, text: str) -> None:
    with pytest.raises(HardwareError) as error:
        DEVICES.parse_gpu_option(text)
    assert message == str(error.value)


def test_card_of_the_config_needs_no_memory() -> None:
    devices = Devices(custom={"RTX 3060": {"mem_gb": 12}})
    assert GpuOption("RTX 3060", 2) == devices.parse_gpu_option("RTX 3060:2")


def test_known_card_is_taken_from_the_table() -> None:
    assert DEVICES.find("H100") == DEVICES.device(GpuOption("H100", 8))


def test_stated_memory_replaces_that_of_a_known_card() -> None:
    found = DEVICES.device(GpuOption("L4", mem_gib=20)).only
    assert found is not None
    assert ("L4", 20480, None, "8.9") == (
        found.name,
        found.memory_mib,
        found.mem_gb,
        found.compute_capability,
    )


def test_unknown_card_has_the_stated_memory() -> None:
    found = DEVICES.device(GpuOption("RTX 3060", mem_gb=12)).only
    assert found is not None
    assert ("RTX 3060", "unknown", 12, None) == (
        found.name,
        found.vendor,
        found.mem_gb,
        found.memory_mib,
    )


def test_unknown_card_without_memory_stays_unknown() -> None:
    assert not DEVICES.device(GpuOption("RTX 3060")).is_known
