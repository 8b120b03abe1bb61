"""What surrounds an engine: shared memory, network, devices, variables, and their sites."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers.reading import at, block, edited, plan, plans, project
from readers.test_sites import check_site
from shardlint.plan import Refusal, ServingPlan
from shardlint.source import apply

MIB, GIB = 2**20, 2**30
POD, RUN, COMPOSE = "pod.yaml", "run.sh", "compose.yaml"


def pod(container: str = "", spec: str = "", notes: str = "") -> str:
    """A pod with more keys of its container, of its spec and of its annotations."""
    meta = "metadata:\n  name: llm\n" + ("  annotations:\n" + block(notes, 4) if notes else "")
    return (
        f"apiVersion: v1\nkind: Pod\n{meta}spec:\n{block(spec, 2) if spec else ''}"
        "  containers:\n  - name: vllm\n    image: vllm/vllm-openai:v0.33.0\n"
        "    args: [org/m, -tp, '2']\n" + (block(container, 4) if container else "")
    )


def service(text: str = "", image: str = "image: vllm/vllm-openai") -> str:
    return f"services:\n  llm:\n    {image}\n    command: org/m -tp 2\n" + (
        block(text, 4) if text else ""
    )


def of_pod(*parts: str) -> ServingPlan:
    return plan(pod(*parts), POD)


def of_service(text: str = "", **more: str) -> ServingPlan:
    return plan(service(text, **more), COMPOSE)


def of_run(options: str = "", before: str = "") -> ServingPlan:
    text = f"{before}docker run {options} vllm/vllm-openai org/m -tp 2\n"
    return plan(text, RUN)


def shm(of: ServingPlan) -> Any:
    """Bytes, "ample", or None where it is not known."""
    placement = of.placement
    return "ample" if placement.shm_ample else placement.shm_bytes.only


# ------------------------------------------------------------------------------ shared memory

MOUNT = "volumeMounts:\n- {name: s, mountPath: /dev/shm}"


def volume(source: str) -> str:
    return f"volumes:\n- name: s\n  {source}"


@pytest.mark.parametrize(
    ("container", "spec", "size"),
    [
        ("", "", 64 * MIB),
        ("", "hostIPC: true", "ample"),
        ("", "hostIPC: false", 64 * MIB),
        (MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: 2Gi}"), 2 * GIB),
        (MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: '1.5G'}"), 1_500_000_000),
        (MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: 1e9}"), 10**9),
        (MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: 1500m}"), 2),
        (MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: 12345}"), 12345),
        (MOUNT, volume("emptyDir: {medium: Memory}"), "ample"),
        (MOUNT, volume("emptyDir: {}"), "ample"),
        (MOUNT, volume("hostPath: {path: /dev/shm}"), "ample"),
        (MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: much}"), None),
        (MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: $SIZE}"), None),
        (MOUNT, "", None),
        ("volumeMounts:\n- {name: s, mountPath: /dev/shm/}", volume("emptyDir: {}"), "ample"),
        # a volume that is not mounted here, and a mount of another place
        ("", volume("emptyDir: {medium: Memory, sizeLimit: 2Gi}"), 64 * MIB),
        ("volumeMounts:\n- {name: s, mountPath: /data}", volume("emptyDir: {}"), 64 * MIB),
        ("volumeMounts: $MOUNTS", "", None),
    ],
)
def test_shared_memory_of_a_pod(container: str, spec: str, size: Any) -> None:
    assert size == shm(of_pod(container, spec))


def test_the_default_is_no_statement_and_a_limit_is_one() -> None:
    text = pod(MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: 2Gi}"))
    stated = plan(text, POD).placement.shm_bytes
    default = of_pod().placement.shm_bytes
    assert ("stated", "2Gi") == (stated.how, at(text, stated.origin))
    assert ("defaulted", None) == (default.how, default.origin)
    assert not default.assumes


def test_a_part_of_a_pod_leaves_shared_memory_open() -> None:
    container = "image: vllm/vllm-openai\nargs: [org/m, -tp, '2']\n"
    assert shm(plan(container, POD)) is None
    fragment = plan("containers:\n- " + block(container, 2).lstrip(), POD)
    assert shm(fragment) == 64 * MIB
    assert fragment.placement.shm_bytes.assumes
    patch = (
        pod()
        .replace("    image: vllm/vllm-openai:v0.33.0\n", "")
        .replace("[org/m", "[vllm, serve, org/m")
    )
    assert shm(plan(patch.replace("args", "command"), POD)) is None


def test_the_mount_of_a_sidecar_is_none_of_the_engine() -> None:
    sidecar = "- name: side\n  image: busybox\n" + block(MOUNT, 2)
    text = pod(spec=volume("emptyDir: {medium: Memory}")) + block(sidecar, 2)
    assert 64 * MIB == shm(plan(text, POD))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 64 * MIB),
        ("ipc: host", "ample"),
        ("ipc: private", 64 * MIB),
        ("ipc: service:other", None),
        ("shm_size: 16gb", 16 * GIB),
        ("shm_size: 8589934592", 8 * GIB),
        ("shm_size: ${SHM:-2g}", 2 * GIB),
        ("shm_size: ${SHM}", None),
        ("volumes: ['/dev/shm:/dev/shm']", "ample"),
        ("tmpfs: ['/dev/shm:size=4g']", "ample"),
        ("volumes:\n- {type: tmpfs, target: /dev/shm}", "ample"),
        ("volumes: ['./data:/data']", 64 * MIB),
        ("extends: {service: base}", None),
        ("build: {context: ., shm_size: 4g}", 64 * MIB),
    ],
)
def test_shared_memory_of_a_service(text: str, size: Any) -> None:
    assert size == shm(of_service(text))


def test_a_service_without_an_image_is_a_part_of_one() -> None:
    found = of_service("entrypoint: [vllm, serve]", image="ipc: private")
    assert shm(found) is None
    assert found.placement.variable("NCCL_DEBUG").only is None
    assert not found.placement.variable("NCCL_DEBUG").is_known


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ("", 64 * MIB),
        ("--ipc=host", "ample"),
        ("--ipc host --shm-size 1g", "ample"),
        ("--ipc=container:x", None),
        ("--shm-size 16g", 16 * GIB),
        ("--shm-size=1g --shm-size=2g", 2 * GIB),
        ("--shm-size $SIZE", None),
        ("-v /dev/shm:/dev/shm", "ample"),
        ("-v $HOME/.cache:/root/.cache", 64 * MIB),
        ("-v $SHM:/dev/shm", "ample"),
        ("-v $MOUNT", None),
        ("--tmpfs /dev/shm:size=4g", "ample"),
        ("--mount type=tmpfs,destination=/dev/shm", "ample"),
    ],
)
def test_shared_memory_of_a_container(options: str, size: Any) -> None:
    assert size == shm(of_run(options))


def test_the_default_of_docker_is_an_assumption() -> None:
    for found in (of_run(), of_service()):
        assert found.placement.shm_bytes.assumes


def test_a_host_has_no_size_of_its_own() -> None:
    found = plan("vllm serve org/m -tp 2\n", RUN).placement
    assert found.shm_bytes.is_unset
    assert found.on_host


# --------------------------------------------------------------------------- sites of /dev/shm


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("docker run --gpus 2 vllm/vllm-openai org/m -tp 2\n", RUN,
         "docker run --shm-size=16g --gpus 2 vllm/vllm-openai org/m -tp 2\n"),
        ("docker run --shm-size 64m vllm/vllm-openai org/m -tp 2\n", RUN,
         "docker run --shm-size 16g vllm/vllm-openai org/m -tp 2\n"),
        (service("shm_size: '64m'"), COMPOSE, service("shm_size: '16gb'")),
        (service("shm_size: ${S:-64m}"), COMPOSE, service("shm_size: ${S:-16gb}")),
        (service("restart: always"), COMPOSE, service("restart: always\nshm_size: 16gb")),
        (service("# the port\nports: [1]"), COMPOSE,
         service("# the port\nports: [1]\nshm_size: 16gb")),
        (service("command: |-\n  org/m -tp 2"), COMPOSE,
         service("shm_size: 16gb\ncommand: |-\n  org/m -tp 2")),
        ("services: {llm: {image: vllm/vllm-openai, command: org/m -tp 2}}\n", COMPOSE,
         "services: {llm: {shm_size: 16gb, image: vllm/vllm-openai, command: org/m -tp 2}}\n"),
        (pod(MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: 64Mi}")), POD,
         pod(MOUNT, volume("emptyDir: {medium: Memory, sizeLimit: 16Gi}"))),
        (pod("resources:\n  limits: {nvidia.com/gpu: 2}"), POD,
         pod("resources:\n  limits: {nvidia.com/gpu: 2}\n"
             "volumeMounts:\n- name: dshm\n  mountPath: /dev/shm")
         + "  volumes:\n  - name: dshm\n    emptyDir:\n      medium: Memory\n"
           "      sizeLimit: 16Gi\n"),
        (pod("volumeMounts:\n- name: data\n  mountPath: /data",
             "volumes:\n  - name: data\n    emptyDir: {}"), POD,
         pod("volumeMounts:\n- name: dshm\n  mountPath: /dev/shm\n- name: data\n"
             "  mountPath: /data",
             "volumes:\n  - name: dshm\n    emptyDir:\n      medium: Memory\n"
             "      sizeLimit: 16Gi\n  - name: data\n    emptyDir: {}")),
        (pod("volumeMounts: [{name: dshm, mountPath: /data}]",
             "volumes: [{name: dshm, emptyDir: {}}]"), POD,
         pod("volumeMounts: [{name: dshm-2, mountPath: /dev/shm}, "
             "{name: dshm, mountPath: /data}]",
             "volumes: [{name: dshm-2, emptyDir: {medium: Memory, sizeLimit: 16Gi}}, "
             "{name: dshm, emptyDir: {}}]")),
    ],
)  # fmt: skip
def test_shared_memory_is_written_in_the_style_of_the_file(
    before: str, name: str, after: str
) -> None:
    assert after == edited(before, plan(before, name), "shm_bytes", str(16 * GIB))
    assert check_site(before, name, 0, "shm_bytes", 16 * GIB) is None


def test_json_stays_json() -> None:
    text = (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm"}, "spec": {"containers":'
        ' [{"name": "vllm", "image": "vllm/vllm-openai", "args": ["org/m", "-tp", "2"]}]}}\n'
    )
    after = json.loads(edited(text, plan(text, "pod.json"), "shm_bytes", str(2 * GIB)))
    assert {"name": "dshm", "mountPath": "/dev/shm"} in after["spec"]["containers"][0][
        "volumeMounts"
    ]
    assert after["spec"]["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}


@pytest.mark.parametrize(
    ("text", "name", "field"),
    [
        (service("<<: *c").replace("services:", "x-c: &c {restart: always}\nservices:"), COMPOSE,
         None),
        ("x: &s\n  image: vllm/vllm-openai\n  command: org/m -tp 2\nservices:\n  llm: *s\n",
         COMPOSE, "map"),
        (pod("<<: &m {volumeMounts: [{name: d, mountPath: /data}]}"), POD, "merged"),
        (pod("volumeMounts:"), POD, "without a value"),
        (pod("ports:\n-"), POD, None),
        (pod("lifecycle:"), POD, None),
        (pod("stdin: true  # the last line"), POD, None),
        ("SIZE=64m\ndocker run --shm-size $SIZE vllm/vllm-openai org/m -tp 2\n", RUN, None),
    ],
)  # fmt: skip
def test_shared_memory_is_written_only_where_nothing_else_is_read(
    text: str, name: str, field: str | None
) -> None:
    """Where it cannot be written, the reason is said; where it can, nothing else changes."""
    refused = check_site(text, name, 0, "shm_bytes", 16 * GIB)
    assert (refused is None) == (field is None)
    assert field is None or field in (refused or "")


def test_one_variable_for_two_services_is_not_changed_for_one() -> None:
    text = (
        "services:\n  a: &a\n    image: vllm/vllm-openai\n    command: org/m -tp 2\n"
        "    shm_size: 64m\n  b:\n    <<: *a\n"
    )
    sites = [each.sites["shm_bytes"] for each in plans(text, COMPOSE)]
    assert all(isinstance(site.set(str(GIB)), Refusal) for site in sites)


STYLES = st.tuples(
    st.sampled_from(["", "  "]),  # lists below their keys
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),  # a list of mounts that is there
    st.booleans(),  # a list of volumes that is there
    st.booleans(),  # in brackets
    st.sampled_from(["", "# what follows\n", "\n"]),
    st.sampled_from(["Deployment", "StatefulSet"]),
    st.integers(1, 64),
)


@given(STYLES)
@settings(max_examples=150, deadline=None)
def test_shared_memory_is_added_in_any_style(style: tuple[Any, ...]) -> None:
    pad, end, mounts, volumes, flow, between, kind, size = style
    item = "- {name: d, mountPath: /d}" if flow else f"- name: d\n{pad}  mountPath: /d"
    container = (
        f"name: vllm\nimage: vllm/vllm-openai\nargs:\n{pad}- org/m\n{pad}- -tp=2\n"
        + (f"volumeMounts:\n{pad}{item}\n" if mounts else "")
        + f"{between}resources: {{limits: {{nvidia.com/gpu: 2}}}}\n"
    )
    lines = container.rstrip("\n").split("\n")
    inner = "\n".join(f"{'- ' if at == 0 else '  ' if line else ''}{line}"
                      for at, line in enumerate(lines))  # fmt: skip
    spec = f"containers:\n{block(inner, len(pad))}" + (
        f"volumes:\n{pad}- name: d\n{pad}  emptyDir: {{}}\n" if volumes else ""
    )
    text = (
        f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: llm}}\nspec:\n  template:\n"
        f"    spec:\n{block(spec, 6)}"
    ).replace("\n", end)
    assert check_site(text, POD, 0, "shm_bytes", size * GIB) is None
    made = plan(text, POD).sites["shm_bytes"].set(str(size * GIB))
    assert not isinstance(made, Refusal)
    after = apply(text, made)
    assert after.count("\r\n") == (after.count("\n") if end == "\r\n" else 0)


# ------------------------------------------------------------------------------------ network


@pytest.mark.parametrize(
    ("container", "spec", "notes", "given_by"),
    [
        ("", "", "", None),
        ("resources: {limits: {rdma/ib: 1}}", "", "", "rdma/ib"),
        ("resources: {limits: {rdma/hca_shared_a: 1}}", "", "", "rdma/hca_shared_a"),
        ("resources: {requests: {vpc.amazonaws.com/efa: 8}}", "", "", "vpc.amazonaws.com/efa"),
        ("resources: {limits: {nvidia.com/sriov-rdma-vf: 4}}", "", "", "nvidia.com/sriov-rdma-vf"),
        ("resources: {limits: {nvidia.com/gpu: 4}}", "", "", None),
        ("resources: {limits: {networking.gke.io.networks/rdma-0: '0'}}", "", "", None),
        ("", "", "k8s.v1.cni.cncf.io/networks: roce", "annotation k8s.v1.cni.cncf.io/networks"),
        ("securityContext: {privileged: true}", "", "", "a privileged container"),
        ("securityContext: {privileged: false}", "", "", None),
        ("", "volumes:\n- {name: ib, hostPath: {path: /dev/infiniband}}", "",
         "hostPath /dev/infiniband"),
    ],
)  # fmt: skip
def test_rdma_device_of_a_pod(container: str, spec: str, notes: str, given_by: str | None) -> None:
    found = of_pod(container, spec, notes).placement.rdma
    assert found.is_known
    assert given_by == found.only


def test_a_resource_claim_may_bring_anything() -> None:
    found = of_pod("resources: {claims: [{name: nic}]}").placement.rdma
    assert not found.is_known


@pytest.mark.parametrize(
    ("spec", "notes", "why"),
    [
        ("", "", None),
        ("hostNetwork: true", "", "hostNetwork"),
        ("hostNetwork: false", "", None),
        ("", "networking.gke.io/interfaces: '[]'", "annotation networking.gke.io/interfaces"),
    ],
)
def test_interfaces_of_a_pod(spec: str, notes: str, why: str | None) -> None:
    text = pod("", spec, notes)
    found = plan(text, POD).placement.interfaces
    assert found.is_known
    assert why == found.only
    if why == "hostNetwork":
        assert "hostNetwork" == at(text, found.origin)


def test_network_of_a_service_and_of_a_container() -> None:
    assert "the host's network" == of_service("network_mode: host").placement.interfaces.only
    assert "several networks" == of_service("networks: [a, b]").placement.interfaces.only
    alone = of_service().placement.interfaces
    assert (True, None) == (alone.is_known, alone.only)
    assert "the host's network" == of_run("--network host").placement.interfaces.only
    assert of_run("--net=host").placement.host_network.only is True
    assert "/dev/infiniband" == of_run("--device /dev/infiniband").placement.rdma.only
    assert "--privileged" == of_run("--privileged").placement.rdma.only
    assert "privileged" == of_service("privileged: true").placement.rdma.only
    assert (True, None) == (of_run().placement.rdma.is_known, of_run().placement.rdma.only)


@pytest.mark.parametrize(
    ("spec", "notes", "why"),
    [
        ("", "", None),
        ("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: []}}", "",
         "podAffinity"),
        ("nodeSelector: {cloud.google.com/gke-placement-group: g}", "",
         "node label cloud.google.com/gke-placement-group"),
        ("nodeSelector: {disk: ssd}", "", None),
        ("", "kueue.x-k8s.io/podset-required-topology: block",
         "annotation kueue.x-k8s.io/podset-required-topology"),
    ],
)  # fmt: skip
def test_what_keeps_pods_together(spec: str, notes: str, why: str | None) -> None:
    found = of_pod("", spec, notes).placement.packed
    assert found.is_known
    assert why == found.only


def test_another_scheduler_may_keep_pods_together() -> None:
    assert not of_pod("", "schedulerName: volcano").placement.packed.is_known


# ------------------------------------------------------------------------------------ devices


@pytest.mark.parametrize(
    ("resources", "kind"),
    [
        ("nvidia.com/gpu: 2", "gpu"),
        ("amd.com/gpu: 2", "gpu"),
        ("nvidia.com/mig-3g.40gb: 2", "mig"),
        ("nvidia.com/gpu.shared: 2", "shared"),
        ("nvidia.com/gpu: 1, nvidia.com/gpumem: 3000", "shared"),
        ("volcano.sh/vgpu-number: 2", "shared"),
        ("memory: 1Gi", None),
    ],
)
def test_kind_of_a_device(resources: str, kind: str | None) -> None:
    assert kind == of_pod(f"resources: {{limits: {{{resources}}}}}").placement.device_kind.only


@pytest.mark.parametrize("devices", ["MIG-1c2d,MIG-3e4f", "0:0,0:1"])
def test_slices_are_known_by_their_names(devices: str) -> None:
    text = f"CUDA_VISIBLE_DEVICES={devices} vllm serve org/m -tp 2\n"
    assert "mig" == plan(text, RUN).placement.device_kind.only
    assert "mig" == of_run(f"--gpus '\"device={devices}\"'").placement.device_kind.only
    by_id = f"gpus: [{{driver: nvidia, device_ids: ['{devices}']}}]"
    assert "mig" == of_service(by_id).placement.device_kind.only


def test_a_fraction_by_annotation_is_a_share() -> None:
    assert "shared" == of_pod("", "", "gpu-fraction: '0.5'").placement.device_kind.only


@pytest.mark.parametrize(
    ("notes", "count"),
    [
        ("gpu-fraction: '0.5'", 1),
        ("gpu-memory: '2000'", 1),
        ("gpu-fraction: '0.5'\ngpu-fraction-num-devices: '2'", 2),
        ("other: '0.5'", None),
    ],
)
def test_a_fraction_by_annotation_is_of_one_card_unless_it_says_more(
    notes: str, count: int | None
) -> None:
    assert count == of_pod("", "", notes).placement.gpus_per_pod.only


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ("--gpus all", ("all",)),
        ("--gpus 2", ("0", "1")),
        ("""--gpus '"device=1,3"'""", ("1", "3")),
        ("""--gpus '"device=1,3"' -e CUDA_VISIBLE_DEVICES=1""", ("3",)),
        ("--gpus all -e CUDA_VISIBLE_DEVICES=4,5", ("4", "5")),
        ("--runtime nvidia -e NVIDIA_VISIBLE_DEVICES=1", ("1",)),
        ("--gpus 2 -e CUDA_VISIBLE_DEVICES=7", None),
        ("", None),
    ],
)
def test_devices_of_a_container(options: str, ids: tuple[str, ...] | None) -> None:
    assert ids == of_run(options).placement.device_ids.only


def test_devices_of_a_service_and_of_a_host() -> None:
    by_id = "deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ['2']}]}}}"
    assert ("2",) == of_service(by_id).placement.device_ids.only
    assert ("0", "1") == of_service("gpus: [{driver: nvidia, count: 2}]").placement.device_ids.only
    assert ("all",) == of_service("gpus: all").placement.device_ids.only
    assert ("all",) == plan("vllm serve org/m\n", RUN).placement.device_ids.only
    narrowed = plan("CUDA_VISIBLE_DEVICES=2,3 vllm serve org/m -tp 2\n", RUN)
    assert ("2", "3") == narrowed.placement.device_ids.only


# ---------------------------------------------------------------------------------- variables


def test_variables_of_collectives_are_kept_with_their_places() -> None:
    text = pod("env:\n- {name: NCCL_SOCKET_IFNAME, value: eth0}\n- {name: SECRET, value: x}")
    placement = plan(text, POD).placement
    assert ["NCCL_SOCKET_IFNAME"] == list(placement.env)
    assert "eth0" == at(text, placement.env["NCCL_SOCKET_IFNAME"].origin)
    unset = placement.variable("GLOO_SOCKET_IFNAME")
    assert (True, None) == (unset.is_known, unset.only)


@pytest.mark.parametrize(
    "found",
    [
        of_pod("envFrom: [{configMapRef: {name: nccl}}]"),
        of_service("env_file: .env"),
        of_service("environment: [NCCL_DEBUG]"),
        of_run("--env-file nccl.env"),
        of_pod("env: [{name: NCCL_DEBUG, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]"),
    ],
    ids=["envFrom", "env_file", "bare name", "--env-file", "valueFrom"],
)
def test_a_variable_that_may_be_set_elsewhere_is_not_known(found: ServingPlan) -> None:
    assert not found.placement.variable("NCCL_DEBUG").is_known


def test_a_host_may_hand_on_a_variable_that_the_script_does_not_set() -> None:
    found = plan("export NCCL_DEBUG=INFO\nvllm serve org/m -tp 2\n", RUN).placement
    assert "INFO" == found.variable("NCCL_DEBUG").only
    assert found.variable("NCCL_P2P_DISABLE").assumes


# --------------------------------------------------------------------------------- neighbours


def beside(text: str, name: str) -> list[list[str]]:
    """The devices that each plan shares with those before it."""
    return [
        [",".join(other.devices) for other in each.placement.neighbours]
        for each in project(text, name).plans
    ]


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("vllm serve a/a &\nvllm serve b/b &\n", [[], ["0"]]),
        ("vllm serve a/a -tp 2 &\nCUDA_VISIBLE_DEVICES=1 vllm serve b/b\n", [[], ["1"]]),
        ("CUDA_VISIBLE_DEVICES=0 vllm serve a/a &\nCUDA_VISIBLE_DEVICES=1 vllm serve b/b &\n",
         [[], []]),
        ("vllm serve a/a\nvllm serve b/b\n", [[], []]),
        ("vllm serve a/a &\nkill $!\nvllm serve b/b &\n", [[], []]),
        ("vllm serve a/a > log 2>&1 &\nsleep 5\nvllm serve b/b\n", [[], ["0"]]),
        ("if [ $1 = a ]; then vllm serve a/a & else vllm serve b/b & fi\n", [[], []]),
        ("docker run -d --gpus all vllm/vllm-openai a/a\n"
         "docker run -d --gpus 1 vllm/vllm-openai b/b\n", [[], ["0"]]),
        ("docker run -d --gpus all vllm/vllm-openai a/a\ndocker stop llm\n"
         "docker run -d --gpus all vllm/vllm-openai b/b\n", [[], []]),
        ("docker run --gpus all vllm/vllm-openai a/a\n"
         "docker run --gpus all vllm/vllm-openai b/b\n", [[], []]),
        ("docker run -d --gpus '\"device=0\"' vllm/vllm-openai a/a\n"
         "docker run -d --gpus '\"device=1\"' vllm/vllm-openai b/b\n", [[], []]),
        ("vllm serve a/a -tp $TP &\nvllm serve b/b &\n", [[], []]),
    ],
)  # fmt: skip
def test_engines_of_a_script_on_the_same_devices(text: str, shared: list[list[str]]) -> None:
    assert shared == beside(text, RUN)


def test_engines_of_services_on_the_same_devices() -> None:
    def services(*devices: str) -> str:
        rows = "".join(
            f"  s{at}:\n    image: vllm/vllm-openai\n    command: org/m{at}\n    {text}\n"
            for at, text in enumerate(devices)
        )
        return f"services:\n{rows}"

    assert [[], ["0"]] == beside(services("gpus: 1", "gpus: all"), COMPOSE)
    assert [[], []] == beside(services("gpus: 1", "gpus: 1\n    profiles: [other]"), COMPOSE)
    assert [[], []] == beside(services("gpus: 1", "runtime: runc"), COMPOSE)


def test_engines_of_one_container_share_its_devices_and_pods_do_not() -> None:
    script = (
        "command: [sh, -c, 'vllm serve a/a & vllm serve b/b']\n"
        "resources: {limits: {nvidia.com/gpu: 2}}"
    )
    text = pod(script).replace("    args: [org/m, -tp, '2']\n", "")
    assert [[], ["0"]] == beside(text, POD)
    two = pod("resources: {limits: {nvidia.com/gpu: 2}}")
    assert [[], []] == beside(f"{two}---\n{two}", POD)
