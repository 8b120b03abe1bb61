"""LeaderWorkerSet: groups of pods as one engine, what the operator sets, edits of all pods."""

from __future__ import annotations

import pytest
from readers.reading import (
    block,
    edited,
    fact,
    names,
    plan,
    plans,
    project,
    stated,
    token,
    why,
)
from shardlint.linter import lint
from shardlint.plan import ServingPlan
from shardlint.plugins import Finding

FILE = "lws.yaml"
BOTH = "--model org/m --nnodes $(LWS_GROUP_SIZE) --node-rank $(LWS_WORKER_INDEX)"


def pods(name: str, command: str, gpus: int | None = 8, more: str = "") -> str:
    """A pod template whose container runs a command."""
    text = f"spec:\n  containers:\n  - name: {name}\n    image: vllm/vllm-openai:v0.11.2\n"
    text += f'    command: [sh, -c, "{command}"]\n'
    text += block(more, 4) if more else ""
    return text + (f"    resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n" if gpus else "")


def group(
    worker: str, leader: str = "", size: str = "size: 2", spec: str = "replicas: 3", meta: str = ""
) -> str:
    text = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n"
    text += f"metadata: {{name: big, namespace: ml{meta}}}\nspec:\n" + block(spec, 2)
    text += "  leaderWorkerTemplate:\n" + (block(size, 4) if size else "")
    if leader:
        text += "    leaderTemplate:\n" + block(leader, 6)
    return text + "    workerTemplate:\n" + block(worker, 6)


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


def found(text: str) -> tuple[Finding, ...]:
    return lint(project(text, FILE)).result.findings


RAY = group(
    pods("worker", "ray start --address=$LWS_LEADER_ADDRESS:6379 --block"),
    pods("leader", "ray start --head && vllm serve org/m -tp 8 -pp 2"),
)


def test_a_group_is_one_replica() -> None:
    of = read(RAY)
    assert ("LeaderWorkerSet", "ml/big/leader", "lws") == (of.kind, of.name, of.platform)
    assert "0:/spec/leaderWorkerTemplate/leaderTemplate/spec/containers/0" == of.path
    assert (3, 2, 8) == tuple(stated(of, name) for name in ("replicas", "nodes", "gpus_per_pod"))
    assert ("3", "2") == (token(RAY, of, "replicas"), token(RAY, of, "nodes"))
    assert 16 == of.placement.group_devices.only


def test_pods_that_join_a_cluster_for_nothing_are_told() -> None:
    few = RAY.replace("-tp 8 -pp 2", "-tp 8")
    (finding,) = (item for item in found(few) if item.name == "gpu-count-surplus")
    assert "TP 8 uses 8 of the 16 GPUs that the 2 pods of a group have" in finding.message
    told = RAY.replace("-pp 2", "-pp 2 --distributed-executor-backend ray")
    assert "gpu-count-surplus" not in names(found(told))
    alone = group(pods("worker", "vllm serve org/m -tp 8"))
    assert "gpu-count-surplus" not in names(found(alone))


def test_devices_of_leader_and_workers_are_edited_together() -> None:
    assert RAY.replace("gpu: 8", "gpu: 4") == edited(RAY, read(RAY), "gpus_per_pod", "4")


def test_without_a_template_for_the_leader_all_pods_are_alike() -> None:
    text = group(pods("vllm", f"vllm serve {BOTH} -tp 16"))
    of = read(text)
    assert "0:/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0" == of.path
    assert (2, 2) == (stated(of, "nodes"), stated(of, "nnodes"))
    assert 16 == of.placement.group_devices.only
    assert "2" == token(text, of, "nodes")


def test_leader_and_workers_with_one_line_are_one_plan() -> None:
    line = f"vllm serve {BOTH} --tensor-parallel-size 16"
    text = group(pods("worker", line), pods("leader", line))
    of = read(text)
    assert text.replace("size 16", "size 8") == edited(text, of, "tp", "8")
    assert text.replace("gpu: 8", "gpu: 4") == edited(text, of, "gpus_per_pod", "4")


def test_ranks_of_data_parallelism_are_one_plan() -> None:
    line = "vllm serve org/m -dp 2 --data-parallel-address $LWS_LEADER_ADDRESS"
    text = group(
        pods("worker", f"{line} --data-parallel-rank 1", 1),
        pods("leader", f"{line} --data-parallel-rank 0", 1),
    )
    of = read(text)
    assert (2, 2, 1) == tuple(stated(of, name) for name in ("dp", "nodes", "gpus_per_pod"))
    assert 3 == stated(of, "replicas")


def test_a_wrong_word_of_the_workers_is_reported() -> None:
    text = group(
        pods("worker", f"vllm serve {BOTH} -tp 16 --no-such-thing"),
        pods("leader", f"vllm serve {BOTH} -tp 16"),
    )
    (one,) = (item for item in found(text) if item.name == "flag-unknown")
    assert "--no-such-thing" == text[one.span.start : one.span.end]


def test_workers_that_are_told_something_else_are_reported() -> None:
    text = group(
        pods("worker", f"vllm serve {BOTH} -tp 4"), pods("leader", f"vllm serve {BOTH} -tp 16")
    )
    (one,) = (item for item in found(text) if item.name == "value-conflict")
    assert ("warning", "4") == (one.severity, text[one.span.start : one.span.end])
    assert "tp is 4 for the workers and 16 for their leader" in one.message


def test_different_engines_in_a_group_are_plans_of_their_own() -> None:
    text = group(pods("worker", "vllm serve org/b"), pods("leader", "vllm serve org/a"))
    one, other = plans(text, FILE)
    assert ("org/a", "org/b") == (one.model.only, other.model.only)
    assert "different engines" in (why(one, "nodes") or "")
    assert "how many pods" in (why(other, "replicas") or "")


def test_a_leader_without_an_engine_leaves_the_number_of_nodes_open() -> None:
    text = group(pods("worker", "vllm serve org/m"), pods("leader", "sleep infinity", None))
    of = read(text)
    assert "the leader of a group runs no engine" in (why(of, "nodes") or "")


def test_the_template_of_the_workers_of_a_group_of_one_is_not_used() -> None:
    text = group(pods("worker", "vllm serve org/b"), pods("leader", "vllm serve org/a"), "size: 1")
    assert ("org/a", 1) == (read(text).model.only, stated(read(text), "nodes"))


# what the operator sets


def test_variables_of_the_operator_are_known() -> None:
    text = group(
        pods(
            "vllm",
            "vllm serve org/m --nnodes $LWS_GROUP_SIZE --node-rank ${LWS_WORKER_INDEX}"
            " --master-addr $LWS_LEADER_ADDRESS -tp $((LWS_GROUP_SIZE * 8))",
        )
    )
    of = read(text)
    words = [word.value for word in of.argv]
    assert ["2", "0", "big-0.big.ml", "16"] == [words[at] for at in (4, 6, 8, 10)]


def test_own_values_of_those_variables_are_dropped() -> None:
    env = "env: [{name: LWS_GROUP_SIZE, value: '4'}]"
    text = group(pods("vllm", f"vllm serve {BOTH} -tp 16", more=env))
    assert 2 == stated(read(text), "nnodes")
    (one,) = (item for item in found(text) if item.name == "config-ignored")
    assert ("warning", "'4'") == (one.severity, text[one.span.start : one.span.end])


def test_pods_carry_the_name_of_their_set() -> None:
    labels = read(RAY).labels
    assert "big" == labels["leaderworkerset.sigs.k8s.io/name"]
    assert "0" == labels["leaderworkerset.sigs.k8s.io/worker-index"]


def test_a_service_finds_the_leaders() -> None:
    text = RAY + (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: front, namespace: ml}\nspec:\n"
        "  selector: {leaderworkerset.sigs.k8s.io/name: big}\n"
    )
    (router,) = project(text, FILE).routers
    assert (read(text).id,) == router.backends


# what is not stated


def test_a_group_is_one_pod_by_default() -> None:
    of = read(group(pods("vllm", "vllm serve org/m"), size=""))
    assert (1, "derived") == (fact(of, "nodes").only, fact(of, "nodes").how)


def test_a_fragment_does_not_tell_the_size() -> None:
    worker = "spec:\n  containers:\n  - name: vllm\n    args: [--model, org/m, -tp, '16']\n"
    assert "not in this file" in (why(read(group(worker, size="")), "nodes") or "")


@pytest.mark.parametrize("size", ["size: ${SIZE}", "size: '{{ size }}'", "size: 0", "size: [2]"])
def test_a_size_that_is_no_number_is_unknown(size: str) -> None:
    of = read(group(pods("vllm", f"vllm serve {BOTH} -tp 16"), size=size))
    assert why(of, "nodes") and why(of, "nnodes")


def test_a_missing_size_and_missing_replicas_can_be_written() -> None:
    text = group(pods("vllm", "vllm serve org/m"), size="", spec="startupPolicy: LeaderCreated")
    assert 2 == stated(read(edited(text, read(text), "nodes", "2")), "nodes")
    assert 2 == stated(read(edited(text, read(text), "replicas", "2")), "replicas")


def test_stated_ones_are_edited_where_they_stand() -> None:
    of = read(RAY)
    assert RAY.replace("size: 2", "size: 4") == edited(RAY, of, "nodes", "4")
    assert RAY.replace("replicas: 3", "replicas: 1") == edited(RAY, of, "replicas", "1")


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n",
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nspec: []\n",
        group("5"),
        group("spec: text"),
        group("spec: {containers: {a: b}}"),
        RAY.replace("LeaderWorkerSet", "Other"),
    ],
)
def test_what_is_no_group_has_no_plan(text: str) -> None:
    assert () == plans(text, FILE)


# what the rules make of it


def test_ray_in_older_releases_takes_the_whole_group() -> None:
    old = RAY.replace("v0.11.2", "v0.10.2")
    assert not {"gpu-count-short", "node-group-size-mismatch"} & set(names(found(old)))


def test_newer_releases_take_ray_only_where_they_are_told_to() -> None:
    assert "gpu-count-short" in names(found(RAY))
    told = RAY.replace("-pp 2", "-pp 2 --distributed-executor-backend ray")
    assert "gpu-count-short" not in names(found(told))
    assert "gpu-count-surplus" in names(found(RAY.replace("-tp 8 -pp 2", "-tp 8")))


def test_without_ray_an_engine_stays_in_its_pod() -> None:
    text = group(pods("vllm", "vllm serve org/m -tp 16"))
    assert "gpu-count-short" in names(found(text))


def test_a_script_may_start_a_cluster() -> None:
    text = group(pods("vllm", "/scripts/join.sh; vllm serve org/m -tp 16"))
    assert "gpu-count-short" not in names(found(text.replace("v0.11.2", "v0.10.2")))


def short(text: str) -> Finding | None:
    return next((one for one in found(text) if one.name == "node-group-size-mismatch"), None)


def test_more_ranks_than_the_group_has_devices() -> None:
    ray = "--distributed-executor-backend ray"
    text = group(pods("vllm", f"vllm serve org/m -tp 8 -pp 3 {ray}"))
    one = short(text)
    assert one is not None
    assert ("error", "2") == (one.severity, text[one.span.start : one.span.end])
    assert "24 ranks, and the 2 pods of a group have 16 GPUs" in one.message
    assert short(text.replace("-pp 3", "-pp 2")) is None


def test_pods_of_other_objects_may_be_in_a_ray_cluster_that_is_there() -> None:
    ray = "--distributed-executor-backend ray"
    line = f"ray start --address=$HEAD:6379 && vllm serve org/m -tp 8 -pp 4 {ray}"
    one = short(group(pods("vllm", line)))
    assert one is not None and one.severity == "warning"
    assert "no pod outside of the group is in its Ray cluster" in one.assumes


def test_a_cluster_that_the_leader_starts_is_that_of_its_group() -> None:
    ray = "--distributed-executor-backend ray"
    for text in (RAY.replace("-pp 2", f"-pp 4 {ray}"), RAY.replace("-pp 2", "-pp 4")):
        one = short(text.replace("v0.11.2", "v0.10.2"))
        assert one is not None and (one.severity, one.assumes) == ("error", ())
    script = "bash multi-node-serving.sh leader --ray_cluster_size=$LWS_GROUP_SIZE"
    one = short(RAY.replace("ray start --head &&", f"{script};").replace("-pp 2", f"-pp 4 {ray}"))
    assert one is not None and (one.severity, one.assumes) == ("error", ())


def test_nodes_are_the_pods_of_a_group() -> None:
    text = group(pods("vllm", "vllm serve org/m -tp 32 --nnodes 4 --node-rank $LWS_WORKER_INDEX"))
    one = short(text)
    assert one is not None
    assert ("warning", "4") == (one.severity, text[one.span.start : one.span.end])
    assert "--nnodes 4 in a group of 2 pods" in one.message
    assert short(text.replace("size: 2", "size: 4")) is None


def test_data_parallel_ranks_are_those_of_the_group() -> None:
    text = group(pods("vllm", "vllm serve org/m -dp 32 --data-parallel-size-local 8"))
    one = short(text)
    assert one is not None
    assert ("warning", "32") == (one.severity, text[one.span.start : one.span.end])
    assert "2 pods with 8 data-parallel ranks each start 16 of 32" in one.message
    assert short(text.replace("-dp 32", "-dp 16")) is None


def test_leaders_and_workers_may_have_different_devices() -> None:
    text = group(
        pods("worker", "ray start --address=$LWS_LEADER_ADDRESS:6379 --block", 4),
        pods("leader", "ray start --head && vllm serve org/m -tp 4 -pp 3", 8),
    )
    assert 12 == read(text).placement.group_devices.only
    assert short(text) is None


def test_a_topology_that_a_group_has_for_itself_keeps_it_together() -> None:
    note = ", annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}"
    line = f"vllm serve {BOTH} -tp 16"
    text = group(pods("vllm", line), meta=note)
    assert "group-spread-unpinned" in names(found(group(pods("vllm", line))))
    assert "group-spread-unpinned" not in names(found(text))
