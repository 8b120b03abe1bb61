"""Instance types: the cards they hold and the network they offer."""

from __future__ import annotations

import pytest
from shardlint.hardware.table import Devices

DEVICES = Devices()


@pytest.mark.parametrize(
    ("card", "count", "name"),
    [
        ("H100-SXM-80GB", 8, "p5.48xlarge"),
        ("A10G", 4, "g5.12xlarge"),
        ("A100-SXM-40GB", 16, "a2-megagpu-16g"),
        ("H100-SXM-80GB", 8, "Standard_ND96isr_H100_v5"),
        ("H100-SXM-80GB", 8, "standard_nd96isr_h100_v5"),
        ("A10", 2, "VM.GPU.A10.2"),
        ("GB200-NVL72", 4, "a4x-highgpu-4g"),
        ("TPU-v5e", 8, "ct5lp-hightpu-8t"),
        ("H100-SXM-80GB", None, "gpu-h100-sxm"),
    ],
)
def test_instance_type_holds_cards(card: str, count: int | None, name: str) -> None:
    found = DEVICES.instance(name)
    assert found is not None
    assert ([card], count) == ([device.name for device in found[0].values], found[1])


@pytest.mark.parametrize("name", ["m5.large", "p5", "", "H100"])
def test_unknown_instance_type_is_none(name: str) -> None:
    assert DEVICES.instance(name) is None


@pytest.mark.parametrize(
    ("fabric", "name"),
    [("efa", "p5.48xlarge"), ("none", "g5.xlarge"), ("tcpx", "a3-highgpu-8g")],
)
def test_fabric_that_was_read_is_a_fact(fabric: str, name: str) -> None:
    found = DEVICES.fabric(name)
    assert (fabric, frozenset()) == (found.only, found.assumes)


def test_fabric_that_was_recalled_is_an_assumption() -> None:
    found = DEVICES.fabric("Standard_ND96isr_H100_v5")
    assert "infiniband" == found.only
    assert {"Standard_ND96isr_H100_v5 offers infiniband"} == found.assumes


def test_fabric_of_an_unknown_type_is_unknown() -> None:
    expected = "instance type m5.large is not in the hardware table"
    assert expected == DEVICES.fabric("m5.large").reason
