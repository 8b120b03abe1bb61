"""The tables [[pool]]: which of them a plan takes, and what it is told by them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
from harness import check, project, setup
from shardlint.config import ConfigError, Settings
from shardlint.known import Known
from shardlint.linter import lint
from shardlint.plugins import Hardware
from shardlint.project import Project, Setup
from shardlint.reports import gpu_table, inspection

H100 = {
    "match": {"gpu-type": "h100"}, "gpu": "H100-SXM-80GB", "per_node": 8, "nodes": 2,
    "network": "rdma", "price": 2.5,
}  # fmt: skip
A100 = {
    "match": {"gpu-type": "a100"}, "gpu": "A100-SXM-80GB", "per_node": 4, "nodes": 1, "price": 1.2
}  # fmt: skip
OTHERS = {"gpu": "L40S", "per_node": 2, "nodes": 3}

NOWHERE = ""
SELECTOR = "nodeSelector: {gpu-type: h100}"


def affinity(*terms: str) -> str:
    listed = ", ".join(f"{{matchExpressions: [{term}]}}" for term in terms)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return f"affinity: {{nodeAffinity: {{{required}: {{nodeSelectorTerms: [{listed}]}}}}}}"


def deployment(
    where: str,
    gpus: int = 8,
    replicas: int = 1,
    resource: str = "nvidia.com/gpu",
    name: str = "llm",
) -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm}}
spec:
  replicas: {replicas}
  strategy: {{type: Recreate}}
  selector: {{matchLabels: {{app: llm}}}}
  template:
    metadata: {{labels: {{app: llm}}}}
    spec:
      hostIPC: true
      {where}
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-32B", "--tensor-parallel-size={gpus}"]
        resources: {{limits: {{{resource}: {gpus}}}}}
"""


def placed(text: str, *pools: Mapping[str, Any], name: str = "pod.yaml") -> Any:
    return project(text, name, pools=pools).plans[0].placement


def found(text: str, *pools: Mapping[str, Any], **told: Any) -> list[tuple[str, str, str]]:
    result = check(text, "pod.yaml", pools=pools, **told)
    return [(item.name, item.severity, item.message) for item in result.findings]


# ------------------------------------------------------------------------------------ which one


@pytest.mark.parametrize(
    ("where", "pools"),
    [
        (SELECTOR, ("gpu-type=h100",)),
        ("nodeSelector: {gpu-type: h100, zone: a}", ("gpu-type=h100",)),
        (affinity("{key: gpu-type, operator: In, values: [a100]}"), ("gpu-type=a100",)),
        (affinity("{key: gpu-type, operator: In, values: [h100, a100]}"),
         ("gpu-type=h100", "gpu-type=a100")),
        (affinity("{key: gpu-type, operator: In, values: [h100]}",
                  "{key: gpu-type, operator: In, values: [a100]}"),
         ("gpu-type=h100", "gpu-type=a100")),
        ("nodeSelector: {gpu-type: b200}", ("L40S",)),
        ("nodeSelector: {zone: a}", ("L40S",)),
        (NOWHERE, ("L40S",)),
    ],
)  # fmt: skip
def test_a_plan_takes_the_pools_whose_labels_it_asks_for(
    where: str, pools: tuple[str, ...]
) -> None:
    pool = placed(deployment(where), H100, A100, OTHERS).pool
    assert (pools, frozenset()) == (pool.values, pool.assumes)


@pytest.mark.parametrize(
    "where",
    [
        affinity("{key: gpu-type, operator: In, values: [h100, b200]}"),
        affinity("{key: gpu-type, operator: In, values: [h100]}",
                 "{key: gpu-type, operator: In, values: [b200]}"),
        affinity("{key: gpu-type, operator: NotIn, values: [b200]}"),
        affinity("{key: gpu-type, operator: Exists}"),
        "nodeSelector: {gpu-type: '{{ .Values.gpu }}'}",
    ],
)  # fmt: skip
def test_where_another_node_would_do_the_pool_is_an_assumption(where: str) -> None:
    pool = placed(deployment(where), H100).pool
    expected = {"it runs in the pool gpu-type=h100"}
    assert (("gpu-type=h100",), expected) == (pool.values, pool.assumes)


def test_a_pool_with_more_labels_than_are_asked_for_is_possible_and_no_more() -> None:
    narrow = {**A100, "match": {"gpu-type": "h100", "zone": "b"}}
    pool = placed(deployment(SELECTOR), narrow).pool
    assert pool.assumes
    pool = placed(deployment(SELECTOR), H100, narrow).pool
    assert (("gpu-type=h100", "gpu-type=h100, zone=b"), frozenset()) == (pool.values, pool.assumes)


def test_a_label_with_another_value_rules_a_pool_out() -> None:
    other = {**H100, "match": {"gpu-type": "h100", "zone": "b"}}
    where = "nodeSelector: {gpu-type: h100, zone: a}"
    assert placed(deployment(where), other).pool.is_unset


@pytest.mark.parametrize(
    ("resource", "pool"), [("amd.com/gpu", "resource=amd.com/gpu"), ("nvidia.com/gpu", "L40S")]
)
def test_the_name_of_a_resource_can_be_matched(resource: str, pool: str) -> None:
    amd = {"match": {"resource": "amd.com/gpu"}, "gpu": "MI300X", "per_node": 8}
    assert (pool,) == placed(deployment(NOWHERE, resource=resource), amd, OTHERS).pool.values


def test_a_pool_of_another_vendor_is_not_taken() -> None:
    assert placed(deployment(NOWHERE, resource="amd.com/gpu"), OTHERS).pool.is_unset


def test_the_card_of_the_file_chooses_among_pools() -> None:
    where = "nodeSelector: {pool: gpu, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}"
    pools = [{**item, "match": {"pool": "gpu"}} for item in (H100, A100)]
    placement = placed(deployment(where), *pools)
    assert (("pool=gpu (number 2)",), 4) == (placement.pool.values, placement.gpus_per_node.only)


def test_nodes_that_kaito_asks_for_are_matched() -> None:
    text = """\
apiVersion: kaito.sh/v1beta1
kind: Workspace
metadata: {name: w}
resource:
  instanceType: Standard_NC24ads_A100_v4
  labelSelector: {matchLabels: {apps: llm}}
inference: {preset: {name: phi-4}}
"""
    kind = "node.kubernetes.io/instance-type"
    for match in ({"apps": "llm"}, {kind: "Standard_NC24ads_A100_v4"}):
        placement = placed(text, {"match": match, "nodes": 2, "price": 3.0})
        assert (2, 3.0) == (placement.nodes.only, placement.price.only)


# -------------------------------------------------------------------------------- what it fills


def test_what_the_file_leaves_open_is_filled() -> None:
    placement = placed(deployment(SELECTOR), H100)
    facts = (placement.gpus_per_node, placement.nodes, placement.network, placement.price)
    assert [8, 2, "rdma", 2.5] == [fact.only for fact in facts]
    assert ("H100-SXM-80GB",) == tuple(device.name for device in placement.gpu.values)
    assert not placement.gpu.assumes


def test_a_scripts_machine_is_that_of_the_pool_without_a_match() -> None:
    placement = placed("vllm serve Qwen/Qwen3-32B -tp 2\n", H100, OTHERS, name="serve.sh")
    assert (2, "L40S") == (placement.devices.only, placement.gpu.only.name)


def test_of_several_pools_only_what_goes_together_is_possible() -> None:
    where = affinity("{key: gpu-type, operator: In, values: [h100, a100]}")
    placement = placed(deployment(where), H100, A100)
    pairs = {
        (dict(card.given)["pool"], card.value.name, size.value)
        for card in placement.gpu.cases
        for size in placement.gpus_per_node.cases
        if card.given == size.given
    }
    expected = {("gpu-type=h100", "H100-SXM-80GB", 8), ("gpu-type=a100", "A100-SXM-80GB", 4)}
    assert expected == pairs
    assert "the pool gpu-type=a100 does not say it" == placement.network.reason


def test_hardware_counts_where_no_pool_is_taken() -> None:
    told = Hardware(nodes=Known.of(7), network=Known.of("ethernet"))
    made = Setup(setup().plugins, Settings(pools=(H100,)), told)
    texts = {"a.yaml": deployment(SELECTOR), "b.yaml": deployment(NOWHERE)}
    here, other = (plan.placement for plan in Project.of_texts(made, texts).plans)
    assert (2, "rdma") == (here.nodes.only, here.network.only)
    assert (7, "ethernet") == (other.nodes.only, other.network.only)


def test_the_command_line_wins_over_a_pool() -> None:
    told = Hardware(nodes=Known.of(7))
    made = Setup(setup().plugins, Settings(pools=(H100,)), told, told)
    plan = Project.of_texts(made, {"a.yaml": deployment(SELECTOR)}).plans[0]
    assert (7, 8) == (plan.placement.nodes.only, plan.placement.gpus_per_node.only)


def test_a_pool_has_not_the_card_of_the_command_line_and_is_not_taken() -> None:
    made = setup(gpu="A100-SXM-80GB")
    told = Setup(made.plugins, Settings(pools=(H100,)), made.hardware, made.hardware)
    text = deployment("nodeSelector: {gpu-type: h100}")
    plan = Project.of_texts(told, {"a.yaml": text}).plans[0]
    assert plan.placement.pool.is_unset
    assert plan.placement.nodes.is_unset


# ------------------------------------------------------------------------------------- findings


def test_replicas_are_held_against_the_nodes_of_the_pool() -> None:
    said = "3 pods of 8 GPUs on 2 nodes of 8 GPUs: 1 never starts"
    expected = ("replicas-exceed-capacity", "error", said)
    assert expected in found(deployment(SELECTOR, replicas=3), H100, A100)
    assert expected not in found(deployment(SELECTOR, replicas=2), H100, A100)


def test_a_pool_with_another_card_than_the_file_names_is_a_conflict() -> None:
    where = "nodeSelector: {gpu-type: h100, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}"
    text = deployment(where, gpus=1)
    assert placed(text, H100).nodes.is_unset
    said = "the file names A100-SXM-80GB, the command line or the configuration H100-SXM-80GB"
    assert ("value-conflict", "info", said) in found(text, H100)


def test_nodes_of_another_size_are_a_conflict_and_the_file_counts() -> None:
    where = "nodeSelector: {gpu-type: h100, nvidia.com/gpu.count: '4'}"
    said = "the file names nodes of 4 GPUs, the pool in the configuration 8"
    assert ("value-conflict", "info", said) in found(deployment(where, gpus=4), H100)
    assert 4 == placed(deployment(where), H100).gpus_per_node.only


def test_the_pools_word_wins_over_a_label_that_only_seems_to_name_a_card() -> None:
    where = "nodeSelector: {gpu-type: h100}"
    assert placed(deployment(where)).gpu.assumes
    other = {**H100, "gpu": "H200-SXM-141GB"}
    assert "H200-SXM-141GB" == placed(deployment(where), other).gpu.only.name
    assert "value-conflict" not in {name for name, *_ in found(deployment(where), other)}


def test_an_unknown_card_is_told_at_its_place(tmp_path: Any) -> None:
    from shardlint import config
    from shardlint.hardware.pools import pools

    path = tmp_path / "shardlint.toml"
    path.write_text('[[pool]]\nnodes = 1\n[[pool]]\ngpu = "H100x"\n', encoding="utf-8")
    settings = config.load(path, "shardlint.toml")
    with pytest.raises(ConfigError, match=r"shardlint\.toml:4:7: unknown card 'H100x'; did you"):
        pools(settings, setup().devices)


# -------------------------------------------------------------------------------------- reports


def test_the_table_of_gpus_is_by_pool() -> None:
    texts = {"a.yaml": deployment(SELECTOR, replicas=2), "b.yaml": deployment(NOWHERE, gpus=2)}
    made = Project.of_texts(setup(pools=(H100, {"gpu": "L40S"})), texts)
    assert [
        "pool           card           plans       GPUs",
        "L40S           L40S               1          2",
        "gpu-type=h100  H100-SXM-80GB      1         16 of 16, 40.00 per hour",
    ] == list(gpu_table.lines(gpu_table.rows(made)))


def test_inspection_shows_the_pool() -> None:
    made = project(deployment(SELECTOR), "pod.yaml", pools=(H100,))
    out = io.StringIO()
    inspection.write_text(made, out)
    line = "  pool      gpu-type=h100, H100-SXM-80GB, 2 nodes × 8 GPUs, 2.50 per GPU-hour\n"
    assert line in out.getvalue()
    around = inspection.as_json(made)["plans"][0]["surroundings"]
    assert ("gpu-type=h100", 2.5) == (around["pool"], around["price_per_gpu_hour"])


def test_a_changed_count_says_what_it_costs() -> None:
    old, new = (deployment(SELECTOR, replicas=count) for count in (2, 1))
    before = project(old, "pod.yaml", pools=(H100,))
    after = Project(before.setup, project(new, "pod.yaml").readings, before=before)
    said = [item.message for item in lint(after).result.findings if item.rule == "SL310"]
    assert [
        "16 → 8 GPUs (replicas 2 → 1); 40.00 → 20.00 per hour (-20.00) by the price of the pool"
    ] == said


def test_of_several_pools_a_pod_takes_the_one_that_has_room() -> None:
    where = affinity("{key: gpu-type, operator: In, values: [h100, a100]}")
    result = check(deployment(where), "pod.yaml", pools=(H100, A100))
    assert "replicas-exceed-capacity" not in {item.name for item in result.findings}
    alone = affinity("{key: gpu-type, operator: In, values: [a100]}")
    result = check(deployment(alone), "pod.yaml", pools=(H100, A100))
    assert "replicas-exceed-capacity" in {item.name for item in result.findings}
