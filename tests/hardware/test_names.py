"""Names of cards: what labels, logs and people call them, and what that means."""

from __future__ import annotations

import subprocess
import sys

import pytest
from shardlint.hardware.names import normal
from shardlint.hardware.table import Devices
from shardlint.known import Case, Known
from shardlint.plan import Device

DEVICES = Devices()


def names(found: Known[Device]) -> list[str]:
    return [device.name for device in found.values]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("H100-SXM-80GB", "H100-SXM-80GB"),
        ("H100-SXM-80GB", "nvidia-h100-80gb"),
        ("H100-SXM-80GB", "NVIDIA-H100-SXM4-80GB"),
        ("H100-SXM-80GB", "NVIDIA-H100-80GB-HBM3"),
        ("H200-SXM-141GB", "NVIDIA-H200"),
        ("A100-SXM-80GB", "nvidia-a100-80gb"),
        ("A100-SXM-40GB", "nvidia-tesla-a100"),
        ("L4", "nvidia-l4"),
        ("A30", "a30"),
        ("B200-SXM-180GB", "B200 SXM"),
        ("GB200-NVL72", "gb200"),
        ("TPU-v5e", "tpu-v5-lite-podslice"),
        ("TPU-v6e", "tpu-v6e-slice"),
        ("MI300X", "AMD_Instinct_MI300X_VF"),
        ("RTX-4090", "NVIDIA GeForce RTX 4090"),
        ("RTX-A6000", "RTX_A6000"),
        ("H100-SXM-80GB", "p5.48xlarge"),
        ("H100-SXM-80GB", "Standard_ND96isr_H100_v5"),
        ("A100-PCIE-80GB", "Standard_NC24ads_A100_v4"),
        ("A10", "VM.GPU.A10.2"),
    ],
)
def test_name_means_one_card(name: str, written: str) -> None:
    assert [name] == names(DEVICES.find(written))


@pytest.mark.parametrize("written", ["h100 nvl", "H100_NVL", "h100-nvl", " H100  NVL "])
def test_case_and_separators_do_not_matter(written: str) -> None:
    assert ["H100-NVL-94GB"] == names(DEVICES.find(written))


def test_a_dash_is_not_nothing() -> None:
    assert [] == names(DEVICES.find("RTXA6000"))


def test_one_card_rests_on_no_choice() -> None:
    assert [()] == [case.given for case in DEVICES.find("nvidia-l4").cases]


def test_ambiguous_name_gives_a_case_for_each_card() -> None:
    found = DEVICES.find("a100")
    assert ["A100-SXM-40GB", "A100-SXM-80GB", "A100-PCIE-40GB", "A100-PCIE-80GB"] == names(found)
    assert (("gpu", "A100-SXM-40GB"),) == found.cases[0].given


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        (["A100-SXM-40GB", "A100-PCIE-40GB"], "A100_40GB"),
        (["H100-SXM-80GB", "H100-PCIE-80GB", "H100-NVL-94GB"], "H100"),
        (["H200-SXM-141GB", "H200-NVL-141GB"], "h200"),
        (["MI250", "MI250X"], "AMD_Instinct_MI250X_/_MI250"),
        (["MI250", "MI250X"], "MI250"),
    ],
)
def test_ambiguous_name_is_not_decided(expected: list[str], written: str) -> None:
    assert expected == names(DEVICES.find(written))


@pytest.mark.parametrize("written", ["RTX_A9999", "rtx-pro-4500", "Ampere", "nonsense", ""])
def test_unknown_name_says_so(written: str) -> None:
    assert f"{written} is not in the hardware table" == DEVICES.find(written).reason


def test_vendor_word_may_stand_before_a_name() -> None:
    assert ["V100-SXM2-32GB"] == names(DEVICES.find("NVIDIA Tesla V100-SXM2-32GB"))
    assert ["MI300X"] == names(DEVICES.find("amd-mi300x"))


def test_vendor_word_of_another_vendor_is_no_match() -> None:
    assert [] == names(DEVICES.find("nvidia-mi300x"))
    assert [] == names(DEVICES.find("amd-l40s"))


def test_vendor_word_alone_is_no_card() -> None:
    assert [] == names(DEVICES.find("nvidia"))


@pytest.mark.parametrize("written", ["740c", "74a1", "7408"])
def test_device_id_is_no_name(written: str) -> None:
    assert [] == names(DEVICES.find(written))


def test_recalled_alias_is_an_assumption() -> None:
    assert {"HL-225 names Gaudi2"} == DEVICES.find("HL-225").assumes


def test_alias_that_was_seen_is_none() -> None:
    assert set() == DEVICES.find("gaudi2").assumes


def test_shared_card_keeps_its_facts() -> None:
    found = DEVICES.find("Tesla-T4-SHARED").only
    assert found is not None
    assert ("T4", "shared", 14909) == (found.name, found.kind, found.memory_mib)


@pytest.mark.parametrize(
    ("gigabytes", "written"),
    [
        (96, "nvidia.com/mig-4g.96gb"),
        (96, "mig-4g.96gb"),
        (10, "mig-1g.10gb"),
        (10, "nvidia.com/mig-1g.10gb.me"),
        (23, "nvidia.com/mig-1g.23gb-me"),
        (20, "mig-1c.3g.20gb"),
    ],
)
def test_mig_profile_has_the_memory_of_its_name(gigabytes: float, written: str) -> None:
    found = DEVICES.find(written).only
    assert found is not None
    assert ("mig", gigabytes, None) == (found.kind, found.mem_gb, found.memory_mib)


def test_mig_profile_alone_has_no_other_facts() -> None:
    expected = Device(name="mig-1g.10gb", vendor="nvidia", kind="mig", mem_gb=10)
    assert expected == DEVICES.find("mig-1g.10gb").only


def test_mig_slice_of_a_card_has_its_architecture_and_not_its_memory() -> None:
    found = DEVICES.find("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb").only
    assert found is not None
    assert ("A100-SXM-40GB mig-1g.5gb", "mig") == (found.name, found.kind)
    assert (5, None, "8.0", None) == (
        found.mem_gb,
        found.memory_mib,
        found.compute_capability,
        found.link,
    )


def test_shared_mig_slice_is_a_slice() -> None:
    found = DEVICES.find("A100-SXM4-40GB-MIG-1g.5gb-SHARED").only
    assert found is not None
    assert ("mig", 5) == (found.kind, found.mem_gb)


def test_mig_slice_of_an_ambiguous_card_stays_ambiguous() -> None:
    found = DEVICES.find("NVIDIA-A100-MIG-3g.20gb")
    assert "A100-SXM-40GB mig-3g.20gb" == found.values[0].name
    assert 4 == len(found.cases)


def test_mig_slice_of_an_unknown_card_is_a_slice() -> None:
    assert ["mig-1g.6gb"] == names(DEVICES.find("NVIDIA-A31-MIG-1g.6gb"))


def test_gpu_resource_names_no_card() -> None:
    assert [] == names(DEVICES.find("nvidia.com/gpu"))


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        ("H100-SXM-80GB", "H100"),
        ("A100-SXM-80GB", "a100_80gb"),
        ("RTX-A6000", "A6000"),
        ("A100-SXM-40GB", "A100"),
        ("RTX-6000-Ada", "RTX 6000"),
        ("L4", "nvidia-l4"),
    ],
)
def test_usual_meaning_is_the_likely_one_else_the_smallest(expected: str, written: str) -> None:
    found = DEVICES.usual(written)
    assert found is not None
    assert expected == found.name


def test_unknown_name_has_no_usual_meaning() -> None:
    assert DEVICES.usual("nonsense") is None


def test_facts_hold_what_a_device_has_no_field_for() -> None:
    facts = DEVICES.facts("h100-sxm-80gb")
    assert facts is not None
    assert (450, 81559, "engine") == (
        facts["link_gbps_per_dir"],
        facts["driver_mib"],
        facts["memory_kind"],
    )


def test_facts_are_those_of_cards_and_not_of_aliases() -> None:
    assert DEVICES.facts("nvidia-h100-80gb") is None


def test_normal_form_is_what_is_compared() -> None:
    assert "nvidia-rtx-6000-ada" == normal(" NVIDIA RTX_6000-Ada")


def test_device_is_built_from_its_record() -> None:
    expected = Device(
        name="TPU-v6e",
        vendor="google",
        kind="tpu",
        mem_gb=32,
        link="ici-2d-torus",
        link_domain=256,
        link_gbps=400,
        bf16_tflops=918,
        fp8_tflops=0,
        fp4_tflops=0,
        mem_gbps=1638,
        aliases=("tpu-v6e-slice", "v6e", "Trillium"),
    )
    assert (Case(expected),) == DEVICES.find("Trillium").cases


def test_import_reads_no_table() -> None:
    code = (
        "import shardlint.hardware.table as h, shardlint.hardware.cards as c; h.Devices();"
        "print(c.load.cache_info().currsize)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "0" == ran.stdout.strip()
