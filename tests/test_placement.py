"""The rules on what surrounds an engine: when they speak, how loudly, and when they do not."""

from __future__ import annotations

from typing import Any

import pytest
from harness import check, setup
from shardlint.fixes import apply_fixes
from shardlint.plugins import Finding
from shardlint.project import Project

GIB = 2**30
LLAMA = "meta-llama/Llama-3.1-405B-Instruct"
RULES = (
    "memory-oversubscribed",
    "tp-cross-node", "tp-slow-link", "group-spread-unpinned", "shm-missing", "p2p-risk",
    "net-iface-unset", "rdma-not-exposed", "gpu-shared", "node-group-size-mismatch",
    "replicas-exceed-capacity",
)  # fmt: skip


def found(text: str, name: str = "run.sh", **told: Any) -> list[tuple[str, str]]:
    """Name and severity of the findings of these rules."""
    findings = check(text, name, **told).findings
    return [(f.name, f.severity) for f in findings if f.name in RULES]


def only(text: str, rule: str, name: str = "run.sh", **told: Any) -> Finding:
    (one,) = [f for f in check(text, name, **told).findings if f.name == rule]
    return one


def statefulset(
    args: str, *, pods: int = 2, gpus: int = 8, spec: str = "hostIPC: true", more: str = ""
) -> str:
    return (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: llm}\nspec:\n"
        f"  replicas: {pods}\n  selector: {{matchLabels: {{app: llm}}}}\n  template:\n"
        f"    metadata: {{labels: {{app: llm}}}}\n    spec:\n      {spec}\n      containers:\n"
        f"      - name: vllm\n        image: vllm/vllm-openai:v0.33.0\n        args: [{args}]\n"
        f"        resources: {{limits: {{nvidia.com/gpu: {gpus}{more}}}}}\n"
    )


def pod(
    args: str, *, spec: str = "", image: str = "vllm/vllm-openai:v0.33.0", gpus: str = "2"
) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: llm}}\nspec:\n{spec}  containers:\n"
        f"  - name: vllm\n    image: {image}\n    args: [{args}]\n"
        f"    resources: {{limits: {{{'nvidia.com/gpu: ' + gpus if gpus.isdigit() else gpus}}}}}\n"
    )


# -------------------------------------------------------------------------------- shm-missing


@pytest.mark.parametrize(
    ("image", "severity"),
    [
        ("vllm/vllm-openai:v0.27.0", "error"),
        ("vllm/vllm-openai:v0.33.0", "error"),
        ("vllm/vllm-openai:v0.26.0", "warning"),
        ("vllm/vllm-openai:v0.8.5", "warning"),
        ("vllm/vllm-openai:latest", "warning"),
        ("vllm/vllm-openai", "warning"),
    ],
)
def test_shm_is_an_error_only_for_releases_that_look(image: str, severity: str) -> None:
    text = pod("Qwen/Qwen3-8B, -tp, '2'", image=image)
    assert [("shm-missing", severity)] == found(text, "pod.yaml")


def test_shm_of_a_container_of_docker_is_a_warning_with_a_condition() -> None:
    text = "docker run --gpus 2 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B -tp 2\n"
    finding = only(text, "shm-missing")
    assert ("warning", "assumed") == (finding.severity, finding.confidence)


@pytest.mark.parametrize(
    "text",
    [
        pod("Qwen/Qwen3-8B"),
        pod("Qwen/Qwen3-8B, -dp, '2'"),
        pod("Qwen/Qwen3-8B, -tp, '2', --distributed-executor-backend, ray"),
        pod("Qwen/Qwen3-8B, -tp, '2'", spec="  hostIPC: true\n"),
        pod("Qwen/Qwen3-8B, -tp, '2', --nnodes, '2', --master-addr, a"),
        pod("Qwen/Qwen3-8B, -tp, $(TP)"),
    ],
    ids=["one rank", "engines of one rank", "ray", "host", "one rank on each node", "unknown"],
)
def test_shm_is_enough_or_not_known_to_be_missing(text: str) -> None:
    assert "shm-missing" not in [name for name, _ in found(text, "pod.yaml")]


def test_a_size_that_the_rings_do_not_fit_into_is_told_at_its_place() -> None:
    text = "docker run --shm-size=200m --gpus 2 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B -tp 2\n"
    finding = only(text, "shm-missing")
    assert "error" == finding.severity
    assert "200m" == text[finding.span.start : finding.span.end]
    assert not found(text.replace("200m", "256m"))


@pytest.mark.parametrize(
    ("limit", "size"), [("", 16 * GIB), ("64Gi", 16 * GIB), ("20Gi", 10 * GIB), ("1Gi", None)]
)
def test_shm_stays_below_the_memory_of_the_container(limit: str, size: int | None) -> None:
    more = "2" if not limit else f"nvidia.com/gpu: 2, memory: {limit}"
    finding = only(pod("Qwen/Qwen3-8B, -tp, '2'", gpus=more), "shm-missing", "pod.yaml")
    deltas = [fix.delta for fix in finding.fixes]
    assert deltas == ([{"shm_bytes": size}] if size else [])


def test_shm_fix_clears_the_finding_and_changes_nothing_else() -> None:
    text = pod("Qwen/Qwen3-8B, -tp, '2'")
    outcome = apply_fixes(Project.of_texts(setup(), {"pod.yaml": text}), unsafe=True)
    assert [] == [f.name for f in outcome.result.findings if f.name == "shm-missing"]
    assert [{"shm_bytes": 16 * GIB}] == [dict(fix.delta) for _, fix in outcome.applied]
    after = outcome.project.sources["pod.yaml"].text
    assert set(text.split("\n")) < set(after.split("\n"))


# ------------------------------------------------------------------------------ tp-cross-node

NODES = f"vllm serve {LLAMA} --nnodes 2 --node-rank 0 --master-addr a"


@pytest.mark.parametrize(
    ("text", "told", "severity"),
    [
        (f"{NODES} -tp 16", {}, "warning"),
        (f"{NODES} -tp 16", {"network": "ethernet"}, "warning"),
        (f"{NODES} -tp 16", {"network": "rdma"}, "info"),
        (f"{NODES} -tp 8 -pp 2", {}, None),
        (f"{NODES} -tp 8 -dp 2", {}, None),
        (f"{NODES} -tp 2 -pp 3", {}, "warning"),  # three ranks on each node
        (f"{NODES} -tp 16", {"gpu": "GB200-NVL72"}, None),
        (f"{NODES} -tp 16", {"gpu": "H100-SXM-80GB"}, "warning"),
        (f"vllm serve {LLAMA} -tp 16", {"gpus_per_node": 16}, None),
        (f"vllm serve {LLAMA} -tp 16 --distributed-executor-backend ray",
         {"gpus_per_node": 8, "nodes": 2}, "warning"),
        (f"vllm serve {LLAMA} -tp 8 -pp 2 --distributed-executor-backend ray",
         {"gpus_per_node": 8, "nodes": 2}, None),
        (f"vllm serve {LLAMA} -tp 16 --distributed-executor-backend ray", {}, None),
    ],
)  # fmt: skip
def test_tp_over_nodes(text: str, told: dict[str, Any], severity: str | None) -> None:
    rows = [level for name, level in found(text + "\n", **told) if name == "tp-cross-node"]
    assert rows == ([severity] if severity else [])


def test_rdma_that_the_file_asks_for_makes_it_an_info() -> None:
    text = statefulset(f"{LLAMA}, -tp=16, --nnodes=2", more=", rdma/ib: 1")
    assert ("tp-cross-node", "info") in found(text, "s.yaml")


def test_a_device_named_to_nccl_makes_it_an_info() -> None:
    text = f"NCCL_IB_HCA=mlx5_0 {NODES} -tp 16\n"
    assert ("tp-cross-node", "info") in found(text)
    assert ("tp-cross-node", "warning") in found(text, network="ethernet")


def test_tp_is_moved_inside_a_node_and_stages_over_the_nodes() -> None:
    finding = only(f"{NODES} -tp 16\n", "tp-cross-node")
    assert "TP 16 spans 2 nodes" in finding.message
    assert [{"tp": 8, "pp": 2}] == [dict(fix.delta) for fix in finding.fixes]
    text = f"{NODES} -tp 16\n"
    outcome = apply_fixes(Project.of_texts(setup(), {"run.sh": text}), unsafe=True)
    after = outcome.project.sources["run.sh"].text
    assert f"{NODES} -tp 8 -pp 2\n" == after


# ----------------------------------------------------------------- tp-slow-link and p2p-risk


@pytest.mark.parametrize(
    ("tp", "told", "severity"),
    [
        (2, {"gpu": "L40S"}, None),
        (4, {"gpu": "L40S"}, "info"),
        (8, {"gpu": "L40S"}, "warning"),
        (8, {"gpu": "H100-SXM-80GB"}, None),
        (8, {"gpu": "H100-SXM-80GB", "link": "pcie"}, "warning"),
        (8, {"gpu": "L40S", "link": "nvlink"}, None),
        (4, {"gpu": "H200-NVL-141GB"}, None),  # a bridge of four
        (8, {"gpu": "H200-NVL-141GB"}, "warning"),
        (4, {"gpu": "H100-NVL-94GB"}, "info"),  # a bridge of two
        (8, {"gpu": "A100"}, None),  # on SXM or on PCIe
        (8, {"gpu": "A100", "link": "pcie"}, "warning"),
        (8, {}, None),
    ],
)
def test_tp_over_pcie(tp: int, told: dict[str, Any], severity: str | None) -> None:
    text = f"vllm serve Qwen/Qwen3-32B -tp {tp}\n"
    rows = [level for name, level in found(text, **told) if name == "tp-slow-link"]
    assert rows == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("before", "after", "gpu", "severity"),
    [
        ("", "-tp 2", "RTX-4090", "warning"),
        ("", "-tp 4", "RTX-4090", "warning"),
        ("", "-tp 1", "RTX-4090", None),
        ("", "-tp 2", "L40S", None),
        ("", "-tp 2", "H100-SXM-80GB", None),
        ("NCCL_P2P_DISABLE=1 ", "-tp 2", "RTX-4090", "info"),
        ("NCCL_P2P_DISABLE=1 ", "-tp 4", "RTX-4090", None),
        ("NCCL_P2P_DISABLE=0 ", "-tp 2", "RTX-4090", "warning"),
        ("NCCL_P2P_LEVEL=NVL ", "-tp 2", "RTX-4090", None),
        ("", "-tp 2 --disable-custom-all-reduce", "RTX-4090", None),
        ("NCCL_P2P_DISABLE=$OFF ", "-tp 2", "RTX-4090", None),
    ],
)
def test_copies_between_boards_that_were_reported_to_hang(
    before: str, after: str, gpu: str, severity: str | None
) -> None:
    rows = found(f"{before}vllm serve Qwen/Qwen3-14B {after}\n", gpu=gpu)
    assert [level for name, level in rows if name == "p2p-risk"] == ([severity] if severity else [])


def test_branches_that_differ_are_not_judged_by_one_of_them() -> None:
    serve = "vllm serve Qwen/Qwen3-14B -tp 2"
    script = f"if [ -e /dev/nvlink ]; then {serve}; else {serve} --disable-custom-all-reduce; fi"
    text = pod(f"-c, '{script}'", spec="  hostIPC: true\n").replace(
        "args:", "command: [sh]\n    args:"
    )
    assert "p2p-risk" not in dict(found(text, "pod.yaml", gpu="RTX-4090"))
    same = text.replace(" --disable-custom-all-reduce", "")
    assert "p2p-risk" in dict(found(same, "pod.yaml", gpu="RTX-4090"))
    set_in_one = same.replace("then vllm", "then export NCCL_P2P_DISABLE=1; vllm")
    assert "p2p-risk" not in dict(found(set_in_one, "pod.yaml", gpu="RTX-4090"))


# --------------------------------------------------------------- interfaces, RDMA, placing


@pytest.mark.parametrize(
    ("spec", "env", "spoken"),
    [
        ("hostNetwork: true", "", True),
        ("hostNetwork: false", "", False),
        ("hostNetwork: true", "NCCL_SOCKET_IFNAME", True),
        ("hostNetwork: true", "NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME", False),
    ],
)
def test_interface_is_chosen_where_there_are_several(spec: str, env: str, spoken: bool) -> None:
    rows = ", ".join(f"{{name: {name}, value: eth0}}" for name in env.split())
    text = statefulset(f"{LLAMA}, -tp=8, -pp=2, --nnodes=2", spec=spec) + (
        f"        env: [{rows}]\n"
    )
    assert spoken == ("net-iface-unset" in dict(found(text, "s.yaml")))
    one = statefulset("Qwen/Qwen3-8B, -tp=8", spec=spec)
    assert "net-iface-unset" not in dict(found(one, "s.yaml"))


def test_interface_of_a_container_on_the_hosts_network() -> None:
    text = f"docker run --network host --ipc host --gpus all vllm/vllm-openai {LLAMA} -tp 8"
    two = f"{text} -pp 2 --nnodes 2 --node-rank 0 --master-addr a\n"
    assert "net-iface-unset" in dict(found(two))
    assert "net-iface-unset" not in dict(found(two.replace(" --network host", "")))
    assert "net-iface-unset" not in dict(found(two.replace("--gpus", "--env-file nccl --gpus")))
    assert "net-iface-unset" not in dict(found(f"{text}\n"))


@pytest.mark.parametrize(
    ("told", "spec", "more", "spoken"),
    [
        ({"network": "rdma"}, "hostIPC: true", "", True),
        ({"network": "rdma"}, "hostNetwork: true", "", False),
        ({"network": "rdma"}, "hostIPC: true", ", rdma/ib: 1", False),
        ({"network": "ethernet"}, "hostIPC: true", "", False),
        ({}, "hostIPC: true", "", False),
    ],
)
def test_rdma_is_not_handed_in(told: dict[str, Any], spec: str, more: str, spoken: bool) -> None:
    text = statefulset(f"{LLAMA}, -tp=8, -pp=2, --nnodes=2", spec=spec, more=more)
    assert spoken == ("rdma-not-exposed" in dict(found(text, "s.yaml", **told)))


@pytest.mark.parametrize(
    ("value", "told", "spoken"),
    [
        ("1", {"network": "rdma"}, True),
        ("0", {"network": "rdma"}, False),
        ("1", {}, False),
        ("1", {"network": "ethernet"}, False),
    ],
)
def test_rdma_is_thrown_away(value: str, told: dict[str, Any], spoken: bool) -> None:
    text = f"NCCL_IB_DISABLE={value} {NODES} -tp 8 -pp 2\n"
    rows = [f for f in check(text, "run.sh", **told).findings if f.name == "rdma-not-exposed"]
    assert [value] * spoken == [text[f.span.start : f.span.end] for f in rows]


def test_rdma_that_a_pod_asks_for_is_thrown_away() -> None:
    text = statefulset(f"{LLAMA}, -tp=8, -pp=2, --nnodes=2", more=", rdma/ib: 1")
    off = f"{text}        env: [{{name: NCCL_IB_DISABLE, value: '1'}}]\n"
    assert "rdma-not-exposed" in dict(found(off, "s.yaml"))
    assert "rdma-not-exposed" not in dict(found(text, "s.yaml"))


@pytest.mark.parametrize(
    ("args", "spec", "told", "severity"),
    [
        ("-tp=16", "hostIPC: true", {}, "info"),
        ("-tp=16", "hostIPC: true", {"gpu": "GB200-NVL72"}, "warning"),
        ("-tp=8, -pp=2", "hostIPC: true", {}, None),
        ("-tp=16", "affinity: {podAffinity: {required: []}}", {}, None),
        ("-tp=16", "nodeSelector: {topology.kubernetes.io/zone: a}", {}, None),
        ("-tp=16", "schedulerName: volcano", {}, None),
    ],
)
def test_pods_of_a_group_are_kept_together(
    args: str, spec: str, told: dict[str, Any], severity: str | None
) -> None:
    rows = found(statefulset(f"{LLAMA}, {args}, --nnodes=2", spec=spec), "s.yaml", **told)
    assert [level for name, level in rows if name == "group-spread-unpinned"] == (
        [severity] if severity else []
    )


# --------------------------------------------------------------------------------- gpu-shared


@pytest.mark.parametrize(
    ("one", "two", "spoken"),
    [
        ("", "", "gpu-shared"),
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.4", None),
        ("--gpu-memory-utilization 0.6", "--gpu-memory-utilization 0.5", "memory-oversubscribed"),
        ("--gpu-memory-utilization 0.4", "", "gpu-shared"),
        ("--gpu-memory-utilization $SHARE", "--gpu-memory-utilization 0.5", None),
        ("", "--kv-cache-memory-bytes 2G", None),
    ],
)
def test_two_engines_on_one_gpu(one: str, two: str, spoken: str | None) -> None:
    text = f"vllm serve Qwen/Qwen3-8B {one} &\nvllm serve Qwen/Qwen3-4B {two} &\n"
    names = {"gpu-shared", "memory-oversubscribed"} & dict(found(text)).keys()
    assert ({spoken} if spoken else set()) == names


@pytest.mark.parametrize(
    ("more", "spoken"),
    [
        ("deploy: {replicas: 2}", True),
        ("scale: 2", True),
        ("scale: 1", False),
        ("", False),
    ],
)
def test_replicas_of_a_service_get_the_same_gpus(more: str, spoken: bool) -> None:
    text = (
        "services:\n  llm:\n    image: vllm/vllm-openai\n    command: --model Qwen/Qwen3-8B\n"
        f"    gpus: 1\n    {more}\n"
    )
    assert spoken == ("gpu-shared" in dict(found(text, "compose.yaml")))
    half = text.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-8B --gpu-memory-utilization 0.45")
    assert "gpu-shared" not in dict(found(half, "compose.yaml"))


def test_replicas_of_a_deployment_get_gpus_of_their_own() -> None:
    text = statefulset("Qwen/Qwen3-8B", pods=4, gpus=1)
    assert "gpu-shared" not in dict(found(text, "s.yaml"))


def test_shares_of_three_engines_are_added_up() -> None:
    text = "".join(
        f"vllm serve Qwen/Qwen3-{n}B --gpu-memory-utilization 0.4 &\n" for n in (4, 8, 14)
    )
    assert (
        "the memory shares of 3 engines add up to 1.2 of one GPU"
        == only(text, "memory-oversubscribed").message
    )


def test_shares_of_replicas_are_added_up() -> None:
    text = (
        "services:\n  llm:\n    image: vllm/vllm-openai\n    scale: 2\n    gpus: 1\n"
        "    command: --model Qwen/Qwen3-8B --gpu-memory-utilization 0.8\n"
    )
    assert (
        "the memory shares of 2 engines add up to 1.6 of one GPU"
        == only(text, "memory-oversubscribed", "compose.yaml").message
    )


@pytest.mark.parametrize(
    ("release", "share", "spoken"),
    [("0.8.5", "0.2", True), ("0.8.5", "0.5", True), ("0.10.2", "0.2", False)],
)
def test_old_releases_take_what_others_hold_off_their_share(
    release: str, share: str, spoken: bool
) -> None:
    one = f"vllm serve Qwen/Qwen3-4B --max-model-len 1024 --gpu-memory-utilization {share} &\n"
    named = dict(found(one * 2, gpu="L40S", gpus_per_node=1, engine_version={"vllm": release}))
    assert spoken == ("memory-oversubscribed" in named)


@pytest.mark.parametrize(
    ("gpus", "tp", "spoken"),
    [
        ("nvidia.com/gpu.shared: 2", 2, True),
        ("nvidia.com/mig-3g.40gb: 2", 2, True),
        ("nvidia.com/mig-3g.40gb: 1", 1, False),
        ("nvidia.com/gpu: 2", 2, False),
    ],
)
def test_tp_over_parts_of_cards(gpus: str, tp: int, spoken: bool) -> None:
    text = pod(f"Qwen/Qwen3-8B, -tp, '{tp}'", gpus=gpus, spec="  hostIPC: true\n")
    assert spoken == ("gpu-shared" in dict(found(text, "pod.yaml")))


# --------------------------------------------------------------------------- nodes and capacity


@pytest.mark.parametrize(
    ("args", "version", "severity"),
    [
        ("-tp 1 --nnodes 2", "0.33.0", "error"),
        ("-tp 4 -pp 2 --nnodes 3", "0.33.0", "error"),
        ("-tp 4 -pp 2 --nnodes 2", "0.33.0", None),
        ("-tp 1 -dp 2 --nnodes 2", "0.33.0", None),
        ("-tp 1 --nnodes 2", None, "warning"),
        ("-tp 1 --nnodes 2", "0.20.0", "error"),
        ("-tp 1 --nnodes 2", "0.11.0", None),  # the option is newer
    ],
)
def test_ranks_are_shared_out_evenly(args: str, version: str | None, severity: str | None) -> None:
    told = {"engine_version": {"vllm": version}} if version else {}
    text = f"vllm serve Qwen/Qwen3-8B --node-rank 0 --master-addr a {args}\n"
    rows = [level for name, level in found(text, **told) if name == "node-group-size-mismatch"]
    assert rows == ([severity] if severity else [])


@pytest.mark.parametrize(("pods", "spoken"), [(1, False), (2, False), (3, True), (4, False)])
def test_pods_come_in_whole_groups(pods: int, spoken: bool) -> None:
    rows = found(statefulset(f"{LLAMA}, -tp=8, -pp=2, --nnodes=2", pods=pods), "s.yaml")
    assert spoken == (("node-group-size-mismatch", "warning") in rows)


@pytest.mark.parametrize(
    ("gpus", "pods", "told", "severity"),
    [
        (8, 2, {"gpus_per_node": 8, "nodes": 2}, None),
        (8, 3, {"gpus_per_node": 8, "nodes": 2}, "error"),
        (4, 4, {"gpus_per_node": 8, "nodes": 2}, None),
        (5, 3, {"gpus_per_node": 8, "nodes": 2}, "error"),  # one on each node
        (16, 1, {"gpus_per_node": 8}, "error"),
        (8, 30, {"gpus_per_node": 8}, None),  # how many nodes is not told
        (8, 30, {}, None),
    ],
)
def test_replicas_have_room(
    gpus: int, pods: int, told: dict[str, Any], severity: str | None
) -> None:
    text = statefulset(f"Qwen/Qwen3-8B, -tp={gpus}", pods=pods, gpus=gpus)
    rows = found(text, "s.yaml", **told)
    assert [level for name, level in rows if name == "replicas-exceed-capacity"] == (
        [severity] if severity else []
    )


def test_machines_that_are_told_are_not_those_of_another_card() -> None:
    selector = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}"
    text = statefulset("Qwen/Qwen3-8B, -tp=4", pods=9, gpus=4, spec=selector)
    told = {"gpus_per_node": 8, "nodes": 1}
    assert "replicas-exceed-capacity" not in dict(found(text, "s.yaml", gpu="H100", **told))
    assert "replicas-exceed-capacity" in dict(found(text, "s.yaml", gpu="L40S", **told))


def test_slices_are_not_counted_as_cards() -> None:
    text = pod("Qwen/Qwen3-8B", gpus="nvidia.com/mig-1g.10gb: 14")
    assert "replicas-exceed-capacity" not in dict(found(text, "pod.yaml", gpus_per_node=8))
