"""Labels of nodes: which card they name together, and how sure that is."""

from __future__ import annotations

import pytest
from shardlint.hardware.labels import Labels
from shardlint.hardware.table import Devices
from shardlint.known import Known
from shardlint.plan import Device

DEVICES = Devices()

PRODUCT = "nvidia.com/gpu.product"
GKE = "cloud.google.com/gke-accelerator"
TYPE = "node.kubernetes.io/instance-type"
KARPENTER = "karpenter.k8s.aws/instance-gpu-name"


def names(labels: Labels) -> list[str]:
    return [device.name for device in DEVICES.from_labels(labels).values]


def only(labels: Labels) -> Device:
    found = DEVICES.from_labels(labels).only
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("H200-SXM-141GB", PRODUCT, "NVIDIA-H200"),
        ("H100-SXM-80GB", PRODUCT, "NVIDIA-H100-SXM4-80GB"),
        ("L4", GKE, "nvidia-l4"),
        ("A100-SXM-80GB", GKE, "nvidia-a100-80gb"),
        ("H100-SXM-80GB", GKE, "nvidia-h100-80gb"),
        ("T4", GKE, "nvidia-tesla-t4"),
        ("TPU-v5e", "cloud.google.com/gke-tpu-accelerator", "tpu-v5-lite-podslice"),
        ("TPU-v6e", "cloud.google.com/gke-tpu-accelerator", "tpu-v6e-slice"),
        ("L40S", "gpu.nvidia.com/class", "L40S"),
        ("H100-SXM-80GB", TYPE, "BM.GPU.H100.8"),
        ("A100-PCIE-80GB", TYPE, "Standard_NC48ads_A100_v4"),
        ("H100-SXM-80GB", TYPE, "gpu-h100-sxm"),
        ("L4", KARPENTER, "l4"),
        ("RTX-PRO-6000-Blackwell-SE", KARPENTER, "rtx-pro-server-6000"),
        ("A10G", "eks.amazonaws.com/instance-gpu-name", "a10g"),
        ("T4", "karpenter.azure.com/sku-gpu-name", "T4"),
        ("MI300X", "amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"),
        ("MI300X", "amd.com/gpu.device-id", "74a1"),
        ("H100-SXM-80GB", "skypilot.co/accelerator", "nvidia-h100-80gb"),
        ("A10G", "karpenter.k8s.aws/instance-family", "g5"),
    ],
)
def test_label_names_a_card(name: str, key: str, value: str) -> None:
    assert [name] == names({key: value})


def test_label_that_names_a_card_is_a_fact() -> None:
    found = DEVICES.from_labels({GKE: "nvidia-h100-80gb"})
    assert (frozenset(), "stated") == (found.assumes, found.how)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"app": "vllm"},
        {"gpu-node": "true"},
        {"nvidia.com/gpu.present": "true"},
        {"kubernetes.azure.com/accelerator": "nvidia"},
        {"cloud.google.com/gke-nodepool": "g4-384-np-0"},
        {"NodeGroupType": "g5-gpu-karpenter"},
        {"nvidia.com/gpu.sharing-strategy": "none"},
        {"app": "h100"},
    ],
)
def test_labels_without_a_card_leave_it_unset(labels: dict[str, str]) -> None:
    assert DEVICES.from_labels(labels).is_unset


def test_card_that_the_table_lacks_is_unknown_and_not_unset() -> None:
    found = DEVICES.from_labels({"gpu.nvidia.com/class": "RTX_A9999"})
    assert (False, False) == (found.is_known, found.is_unset)
    assert "RTX_A9999 is not in the hardware table" == found.reason


def test_instance_type_that_the_table_lacks_is_unknown() -> None:
    found = DEVICES.from_labels({TYPE: "m5.large"})
    assert "instance type m5.large is not in the hardware table" == found.reason


def test_device_id_means_two_cards() -> None:
    assert ["MI250", "MI250X"] == names({"amd.com/gpu.device-id": "740c"})


def test_device_id_is_none_in_another_label() -> None:
    assert [] == names({"amd.com/gpu.product-name": "740c"})


# ---------------------------------------------------------------------------- several labels


def test_instance_type_settles_an_ambiguous_name() -> None:
    assert ["A100-SXM-80GB"] == names({KARPENTER: "a100", TYPE: "p4de.24xlarge"})


def test_name_means_only_what_the_provider_has() -> None:
    assert ["A100-SXM-40GB", "A100-SXM-80GB"] == names({KARPENTER: "a100"})
    assert ["H100-SXM-80GB"] == names({KARPENTER: "h100"})


def test_name_without_a_provider_keeps_all_meanings() -> None:
    assert 4 == len(names({PRODUCT: "NVIDIA-A100"}))


def test_instance_type_decides_against_another_label() -> None:
    found = DEVICES.from_labels({GKE: "nvidia-tesla-a100", TYPE: "a2-ultragpu-8g"})
    assert ["A100-SXM-80GB"] == [device.name for device in found.values]
    sentence = "instance type a2-ultragpu-8g names the card, not the labels beside it"
    assert {sentence} == found.assumes


def test_labels_that_agree_assume_nothing() -> None:
    found = DEVICES.from_labels({GKE: "nvidia-tesla-a100", TYPE: "a2-highgpu-8g"})
    assert frozenset() == found.assumes


def test_labels_that_contradict_decide_nothing() -> None:
    found = DEVICES.from_labels({PRODUCT: "NVIDIA-H200", "gpu.nvidia.com/class": "A100"})
    expected = f"{PRODUCT}=NVIDIA-H200 and gpu.nvidia.com/class=A100 name different cards"
    assert expected == found.reason


def test_recalled_instance_type_is_an_assumption() -> None:
    found = DEVICES.from_labels({TYPE: "p3.2xlarge"})
    assert {"p3.2xlarge has V100-SXM2-16GB cards"} == found.assumes


def test_family_must_be_named_in_full() -> None:
    assert ["L4"] == names({"karpenter.k8s.aws/instance-family": "gr6"})
    assert [] == names({"karpenter.k8s.aws/instance-family": "gr"})


# ---------------------------------------------------------------------------- several values


def test_any_of_several_values_is_possible() -> None:
    found = DEVICES.from_labels({PRODUCT: ("NVIDIA-H200", "NVIDIA-H100-80GB-HBM3")})
    assert [(("gpu", "H200-SXM-141GB"),), (("gpu", "H100-SXM-80GB"),)] == [
        case.given for case in found.cases
    ]


def test_one_unknown_value_leaves_the_card_unknown() -> None:
    assert [] == names({PRODUCT: ("NVIDIA-H200", "NVIDIA-H400")})


def test_whole_cards_and_slices_in_one_label_are_unknown() -> None:
    found = DEVICES.from_labels({PRODUCT: ("NVIDIA-H200", "NVIDIA-H200-MIG-1g.18gb")})
    assert f"{PRODUCT} allows different parts of cards" == found.reason


# ---------------------------------------------------------------------------- parts of cards


def test_product_with_a_mig_suffix_is_a_slice() -> None:
    found = only({PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"})
    assert ("A100-SXM-40GB mig-1g.5gb", "mig", 5) == (found.name, found.kind, found.mem_gb)


def test_instance_type_beside_a_slice_agrees_with_it() -> None:
    labels = {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", TYPE: "p4d.24xlarge"}
    assert "A100-SXM-40GB mig-1g.5gb" == only(labels).name


def test_partition_size_cuts_the_card_of_another_label() -> None:
    labels = {GKE: "nvidia-tesla-a100", "cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
    assert ("mig", 5) == (only(labels).kind, only(labels).mem_gb)


def test_partition_size_alone_is_a_slice() -> None:
    assert ["mig-1g.5gb"] == names({"cloud.google.com/gke-gpu-partition-size": "1g.5gb"})


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("shared", "cloud.google.com/gke-gpu-sharing-strategy", "time-sharing"),
        ("shared", "nvidia.com/gpu.sharing-strategy", "mps"),
        ("gpu", "nvidia.com/gpu.sharing-strategy", "none"),
    ],
)
def test_sharing_strategy_shares_the_card(kind: str, key: str, value: str) -> None:
    assert kind == only({GKE: "nvidia-l4", key: value}).kind


def test_product_with_a_shared_suffix_is_shared() -> None:
    assert "shared" == only({PRODUCT: "NVIDIA-H100-NVL-SHARED"}).kind


# ---------------------------------------------------------------------------- private labels


@pytest.mark.parametrize(
    ("expected", "key", "value"),
    [
        (["H100-SXM-80GB", "H100-PCIE-80GB", "H100-NVL-94GB"], "accelerator", "h100"),
        (["A30"], "accelerator", "nvidia-a30"),
        (["A100-SXM-40GB", "A100-PCIE-40GB"], "gpuspecs", "A100_40GB"),
        (["L4"], "gpu-tier", "l4"),
        (["H200-SXM-141GB", "H200-NVL-141GB"], "fleet.llm-d.ai/hardware", "H200"),
        (["T4"], "k8s.amazonaws.com/accelerator", "nvidia-tesla-t4"),
    ],
)
def test_private_label_names_a_card(expected: list[str], key: str, value: str) -> None:
    assert expected == names({key: value})


def test_private_label_is_an_assumption() -> None:
    found = DEVICES.from_labels({"accelerator": "h100"})
    assert {"label accelerator=h100 names the card"} == found.assumes


@pytest.mark.parametrize("value", ["h100-pool", "my-l4", "nvidia-gpu-l4", "5", ""])
def test_private_label_must_be_a_name_and_nothing_else(value: str) -> None:
    assert DEVICES.from_labels({"accelerator": value}).is_unset


def test_fact_wins_over_a_private_label() -> None:
    found = DEVICES.from_labels({"accelerator": "h100", GKE: "nvidia-l4"})
    assert (["L4"], frozenset()) == ([d.name for d in found.values], found.assumes)


def test_private_label_helps_where_a_fact_is_unknown() -> None:
    assert ["L4"] == names({TYPE: "m5.large", "gpu": "l4"})


# -------------------------------------------------------------------------- keys and counts


def test_label_keys_name_cards() -> None:
    keys = DEVICES.label_keys()
    assert PRODUCT == keys[0]
    assert {GKE, TYPE, KARPENTER, "gpu.nvidia.com/class"} <= set(keys)


def test_label_keys_leave_out_counts() -> None:
    assert "nvidia.com/gpu.count" not in DEVICES.label_keys()


@pytest.mark.parametrize(
    ("key", "labels"),
    [
        (GKE, {"app": "vllm", GKE: "nvidia-l4"}),
        ("gpu", {TYPE: "m5.large", "gpu": "l4"}),
        ("gpu.nvidia.com/class", {"gpu.nvidia.com/class": "RTX_A9999"}),
        ("accelerator", {"accelerator": "a30"}),
        (None, {"app": "vllm"}),
    ],
)
def test_naming_label_is_the_one_to_point_at(key: str | None, labels: dict[str, str]) -> None:
    assert key == DEVICES.naming_label(labels)


@pytest.mark.parametrize(
    ("count", "labels"),
    [
        (4, {"karpenter.k8s.aws/instance-gpu-count": "4"}),
        (8, {TYPE: "p5.48xlarge"}),
        (8, {TYPE: "p5.48xlarge", "nvidia.com/gpu.count": "8"}),
        (8, {TYPE: ("p5.48xlarge", "p4d.24xlarge")}),
    ],
)
def test_labels_state_the_size_of_a_node(count: int, labels: Labels) -> None:
    assert Known.of(count) == DEVICES.count_from_labels(labels)


@pytest.mark.parametrize(
    "labels",
    [
        {GKE: "nvidia-l4"},
        {TYPE: "gpu-h100-sxm"},
        {TYPE: ("p5.48xlarge", "m5.large")},
        {"nvidia.com/gpu.count": "all"},
    ],
)
def test_labels_without_a_count_leave_it_unset(labels: Labels) -> None:
    assert DEVICES.count_from_labels(labels).is_unset


def test_counts_that_differ_are_unknown() -> None:
    found = DEVICES.count_from_labels({TYPE: ("p5.4xlarge", "p5.48xlarge")})
    assert "labels allow nodes of 1 or 8 GPUs" == found.reason
