"""Slurm batch scripts: what a job gets, its variables, its steps."""

from __future__ import annotations

import pytest
from readers import reading
from readers.reading import names, plan, plans, stated, token, why
from shardlint.linter import lint
from shardlint.plan import Refusal, ServingPlan
from shardlint.platforms import slurm

FILE = "serve.sbatch"


def script(options: str, *commands: str) -> str:
    lines = "".join(f"#SBATCH {option}\n" for option in options.split(";"))
    return "#!/bin/bash\n" + lines + "\nset -e\n" + "".join(f"{line}\n" for line in commands)


def read(options: str, *commands: str) -> ServingPlan:
    return plan(script(options, *(commands or ("vllm serve org/m -tp 4",))), FILE)


@pytest.mark.parametrize(
    ("options", "gpus", "card"),
    [
        ("--gpus-per-node=4", 4, None),
        ("--gpus-per-node h100:4  # four of them", 4, "h100"),
        ("--gres=gpu:8", 8, None),
        ("--gres gpu:a100:2", 2, "a100"),
        ("--gres=nvme:1,gpu:h200:4(S:0-1)", 4, "h200"),
        ("--gres=gpu", 1, None),
        ("--nodes=1;--gpus=8", 8, None),
        ("-N1;-G h100:8", 8, "h100"),
        ("--ntasks-per-node=2;--gpus-per-task=2", 4, None),
        ("--gres=gpu:8;--constraint=h100", 8, "h100"),
        ("--gres=gpu:8;-C 'ib&h100'", 8, "h100"),
        ("-p h200;--gres=gpu:8", 8, "h200"),
        ("--partition=gpu;--gres=gpu:8", 8, None),
        ("--constraint='h100|a100';--gres=gpu:8", 8, None),
        ("--gpus-per-node=2;--gpus-per-node=4", 4, None),
        ("--time=1:00:00", None, None),
        ("--gres=nvme:1", None, None),
    ],
)
def test_devices_of_a_node(options: str, gpus: int | None, card: str | None) -> None:
    found = read(options)
    assert (stated(found, "gpus_per_pod"), stated(found, "gpu_type")) == (gpus, card)


def test_places() -> None:
    text = script("--nodes=2;--gpus-per-node=h100:8", "vllm serve org/m -tp 8 --nnodes 2")
    found = plan(text, FILE)
    assert token(text, found, "gpu_type") == "h100"
    assert "8" in token(text, found, "gpus_per_pod")
    assert found.kind == "shell"
    assert isinstance(found.sites["gpus_per_pod"].set("4"), Refusal)
    assert reading.edited(text, found, "tp", "4") == text.replace("-tp 8", "-tp 4")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ("--nodes=2;--gpus=8", "gpus_per_pod"),
        ("--gpus-per-task=1", "gpus_per_pod"),
        ("--gpus-per-node=<number>", "gpus_per_pod"),
        ("--gpus-per-node=${N}", "gpus_per_pod"),
        ("--gres=gpu:four:x", "gpus_per_pod"),
        ("--gpus-per-node=4;hetjob;--gpus-per-node=8", "gpus_per_pod"),
    ],
)
def test_what_is_not_certain_is_unknown(options: str, field: str) -> None:
    assert why(read(options), field)


@pytest.mark.parametrize(
    ("options", "command", "tp"),
    [
        ("--nodes=2;--gpus-per-node=8", "$((SLURM_NNODES * SLURM_GPUS_ON_NODE))", 16),
        ("-N 2;--gres=gpu:h100:4", "$(( $SLURM_JOB_NUM_NODES * ${SLURM_GPUS_ON_NODE} ))", 8),
        ("--nodes=2-2;--gpus-per-node=8", "$SLURM_NNODES", 2),
        ("--ntasks-per-node=4;--nodes=2", "$SLURM_NTASKS", 8),
        ("--gpus-per-node=8", "$SLURM_GPUS_PER_NODE", 8),
        ("--gpus-per-node=8", "${SLURM_NNODES:-1}", None),
        ("--nodes=1-4", "$SLURM_NNODES", None),
        ("--nodes=2", "$SLURM_GPUS_ON_NODE", None),
    ],
)
def test_variables_of_the_job(options: str, command: str, tp: int | None) -> None:
    found = read(options, f"vllm serve org/m --tensor-parallel-size {command}")
    assert stated(found, "tp") == tp
    if tp is not None:  # what stands there decides more than this option
        assert isinstance(found.sites["tp"].set("2"), Refusal)


def test_directives_end_with_the_first_command() -> None:
    text = script("--nodes=1", "#SBATCH --gpus-per-node=8", "vllm serve org/m")
    assert stated(plan(text, FILE), "gpus_per_pod") is None


def test_a_ray_cluster_of_the_job_is_one_engine() -> None:
    found = read(
        "--nodes=4;--gpus-per-node=4",
        "srun -N 1 -n 1 ray start --head --block &",
        "for i in 1 2 3; do srun -N 1 -n 1 ray start --address=$A --block & done",
        "vllm serve org/m -tp 16",
    )
    assert (stated(found, "nodes"), stated(found, "gpus_per_pod")) == (4, 4)
    assert found.effective.executor.only == "ray"
    assert found.effective.executor.assumes


def test_a_job_on_one_node_stays_one_node() -> None:
    found = read("--nodes=2;--gpus-per-node=8", "vllm serve org/m -tp 16")
    assert stated(found, "nodes") in (None, 1)
    assert found.placement.nodes.only == 2


def test_nodes_that_the_engine_joins() -> None:
    found = read("--nodes=2;--gpus-per-node=8", "srun vllm serve org/m -tp 16 --nnodes 2")
    assert stated(found, "nodes") == 2


def test_a_step_has_options_of_its_own() -> None:
    found = read(
        "--nodes=2;--gpus-per-node=8",
        "srun --nodes=1 --gpus-per-node=2 -w n1 --container-image=vllm/vllm-openai:v0.11.0 "
        "vllm serve org/m -tp 2",
    )
    assert stated(found, "gpus_per_pod") == 2
    assert (found.engine, found.tag.only) == ("vllm", "v0.11.0")
    assert not found.placement.certain


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("vllm/vllm-openai:v0.11.0", "v0.11.0"),
        ("docker://vllm/vllm-openai:v0.11.0", "v0.11.0"),
        ("docker://registry.example#vllm/vllm-openai:v0.11.0", "v0.11.0"),
        ("/images/vllm.sqsh", None),
        ("$IMAGE", None),
    ],
)
def test_the_container_of_the_job(value: str, tag: str | None) -> None:
    found = read(f"--gres=gpu:8;--container-image={value}")
    assert found.tag.only == tag
    assert not found.placement.scheduled


def test_two_steps_share_no_device() -> None:
    text = script(
        "--nodes=2;--gpus-per-node=1",
        *(f"srun -N1 -w n{at} vllm serve org/m --port 80{at} &" for at in (1, 2)),
        "wait",
    )
    assert len(plans(text, FILE)) == 2
    assert "gpu-shared" not in names(lint(reading.project(text, FILE)).result.findings)


def test_more_ranks_than_the_node_has() -> None:
    text = script("--nodes=2;--gpus-per-node=8", "vllm serve deepseek-ai/DeepSeek-R1 -tp 16")
    project = reading.project(text, FILE)
    found = {finding.name: finding for finding in lint(project).result.findings}
    assert found["gpu-count-short"].severity == "warning"  # of old releases it is not certain
    assert found["tp-cross-node"].start.line == 6
    assert found["gpu-count-short"].start.line == 6


def test_a_training_job_is_no_plan() -> None:
    assert plans(script("--nodes=2;--gres=gpu:8", "srun torchrun train.py -tp 4"), FILE) == ()


@pytest.mark.parametrize(
    "options",
    ["--nodes", "--gres=", "-N", "--gpus-per-node='4", "-G", "=", "--nodes=99999999999", "-", "--"],
)
def test_odd_options_are_survived(options: str) -> None:
    text = script(options, "srun", "srun -", "srun --nodes", "vllm serve org/m -tp 2")
    project = reading.project(text, FILE)
    assert project.broken == () and len(project.plans) == 1


@pytest.mark.parametrize(
    ("value", "found"),
    [("4", (4, None)), ("h100:4", (4, "h100")), ("h100", (1, "h100")), ("x:y", None), ("", None)],
)
def test_gpus(value: str, found: tuple[int, str | None] | None) -> None:
    assert slurm.gpus(value) == found
