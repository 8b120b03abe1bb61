"""`docker run`: where its options end, and what they give to the engine in the image."""

from __future__ import annotations

import pytest
from readers.reading import edited, fact, plan, plans, refused, stated, token, why
from shardlint.plan import ServingPlan

FILE = "run.sh"
IMAGE = "vllm/vllm-openai:v0.11.2"


def run(options: str = "", words: str = "--model org/m -tp 2") -> ServingPlan:
    return plan(f"docker run {options} {IMAGE} {words}\n", FILE)


def argv(of: ServingPlan) -> list[str | None]:
    return [word.value for word in of.argv]


# the command


@pytest.mark.parametrize(
    "program",
    [
        "docker run",
        "docker container run",
        "podman run",
        "nerdctl run",
        "/usr/bin/docker run",
        "sudo docker run",
        "sudo -E docker run",
        "exec docker run",
        "nohup docker run",
        "env A=b docker run",
        "A=b docker run",
        "docker --context gpu run",
        "docker -H ssh://host run",
        "time sudo docker run",
    ],
)
def test_a_container_is_started(program: str) -> None:
    found = plan(f"{program} --rm {IMAGE} org/m -tp 2\n", FILE)
    assert ("org/m", 2) == (stated(found, "model"), stated(found, "tp"))
    assert IMAGE == found.image.only


@pytest.mark.parametrize(
    "program",
    [
        "docker pull",
        "docker compose run",
        "docker exec llm",
        "docker build",
        "echo docker run",
        "kubectl run",
        "run",
        "docker",
    ],
)
def test_another_command_starts_no_container(program: str) -> None:
    assert () == plans(f"{program} {IMAGE} org/m -tp 2\n", FILE)


def test_the_program_may_be_a_variable() -> None:
    text = f"DOCKER=podman\n$DOCKER run {IMAGE} org/m -tp 2\n"
    assert 2 == stated(plan(text, FILE), "tp")
    text = f'DOCKER="${{DOCKER:-docker}}"\n$DOCKER run {IMAGE} org/m -tp 2\n'
    assert 2 == stated(plan(text, FILE), "tp")


def test_a_program_that_is_not_known_is_none() -> None:
    assert () == plans(f"$DOCKER run {IMAGE} org/m -tp 2\n", FILE)


def test_a_command_without_an_image_is_none() -> None:
    assert () == plans("docker run --rm --gpus all\n", FILE)
    assert () == plans("docker run\n", FILE)


# options before the image


@pytest.mark.parametrize(
    "options",
    [
        "-it",
        "-itd",
        "-d -i -t --rm",
        "-dp 80:80",
        "-p80:80 -p=81:81",
        "-itp 80:80",
        "-v /a:/b -v/c:/d",
        "-itv/a:/b",
        "-e A=b -eC=d -e=E=f",
        "-ite A=b",
        "--env A=b --env=C=d",
        "--name llm --network=host --ipc host",
        "--privileged --init --read-only --quiet",
        "--ulimit memlock=-1 --shm-size 16g",
        "-u 1000:1000 -w /work -h name -m 64g -l a=b",
        "--systemd always --tls-verify=false --replace",
        "--restart unless-stopped --pull always",
        "--",
        "-it --",
        "--runtime nvidia --gpus all",
        "--security-opt label=disable --cap-add SYS_PTRACE --group-add video",
    ],
)
def test_the_image_is_found_behind_options(options: str) -> None:
    found = run(options)
    assert IMAGE == found.image.only
    assert ["--model", "org/m", "-tp", "2"] == argv(found)


def test_options_behind_the_image_are_the_engines() -> None:
    assert ["org/m", "-tp", "2", "--gpus", "8"] == argv(run("", "org/m -tp 2 --gpus 8"))
    assert fact(run("", "org/m -tp 2 --gpus 8"), "gpus_per_pod").is_unset


def test_options_that_are_not_known_hide_the_image() -> None:
    assert () == plans(f"docker run $OPTIONS {IMAGE} org/m -tp 2\n", FILE)
    assert () == plans(f'docker run "$@" {IMAGE} org/m -tp 2\n', FILE)


def test_an_option_with_an_unknown_value_does_not() -> None:
    text = f"docker run -p $PORT:80 --name=$NAME -v $PWD:/w {IMAGE} org/m -tp 2\n"
    assert 2 == stated(plan(text, FILE), "tp")


# images


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("vllm/vllm-openai:v0.11.2", "v0.11.2"),
        ("localhost:5000/vllm/vllm-openai:v0.11.2", "v0.11.2"),
        ("localhost:5000/vllm/vllm-openai", None),
        ("vllm/vllm-openai@sha256:abc", "sha256:abc"),
        ("vllm/vllm-openai:v0.11.2@sha256:abc", "sha256:abc"),
        ("docker.io/vllm/vllm-openai:latest", "latest"),
    ],
)
def test_an_image_has_a_tag_or_a_digest(image: str, tag: str | None) -> None:
    found = plan(f"docker run {image} org/m -tp 2\n", FILE)
    assert (image, tag) == (found.image.only, found.tag.only)


def test_an_unknown_image_is_told_by_the_options() -> None:
    found = plan('docker run "$IMAGE" --model org/m --tensor-parallel-size 2\n', FILE)
    assert "IMAGE is not set in this file" == found.image.reason
    assert 2 == stated(found, "tp")


def test_another_image_is_no_engine() -> None:
    assert () == plans("docker run -p 80:80 nginx -g 'daemon off;'\n", FILE)


# entrypoints


@pytest.mark.parametrize(
    "entrypoint", ["--entrypoint vllm", "--entrypoint=vllm", "--entrypoint 'vllm'"]
)
def test_an_entrypoint_comes_first(entrypoint: str) -> None:
    assert ["vllm", "serve", "org/m", "-tp", "2"] == argv(run(entrypoint, "serve org/m -tp 2"))


def test_a_script_as_entrypoint_is_read() -> None:
    text = f"docker run --entrypoint /bin/bash {IMAGE} -c 'vllm serve org/m -tp 8'\n"
    found = plan(text, FILE)
    assert "8" == token(text, found, "tp")
    assert text.replace("-tp 8", "-tp 8 -pp 2") == edited(text, found, "pp", "2")


def test_another_entrypoint_takes_the_engine_away() -> None:
    text = f"docker run -it --entrypoint /bin/bash {IMAGE}\n"
    assert () == plans(text, FILE)
    assert () == plans(f"docker run --entrypoint sleep {IMAGE} --model org/m -tp 2\n", FILE)


@pytest.mark.parametrize("entrypoint", ['--entrypoint ""', "--entrypoint ''", "--entrypoint="])
def test_an_empty_entrypoint_leaves_the_words(entrypoint: str) -> None:
    assert 2 == stated(run(entrypoint, "vllm serve org/m -tp 2"), "tp")
    assert () == plans(f"docker run {entrypoint} {IMAGE} --model org/m -tp 2\n", FILE)


# devices


@pytest.mark.parametrize(
    ("option", "count"),
    [
        ("--gpus all", "all"),
        ("--gpus=all", "all"),
        ("--gpus all,capabilities=utility", "all"),
        ("--gpus 4", 4),
        ("--gpus=4", 4),
        ("--gpus count=4", 4),
        ("--gpus -1", "all"),
        ("--gpus '\"device=2,3\"'", 2),
        ("--gpus '\"device=0,1,2\"'", 3),
        ('--gpus "\\"device=2,3\\""', 2),
        ("--gpus device=0", 1),
        ("--gpus device=GPU-3a23c669-1f69,", 1),
        ('--gpus=\'"device=0,1","capabilities=utility"\'', 2),
        ("--device nvidia.com/gpu=all", "all"),
        ("--device=nvidia.com/gpu=0 --device nvidia.com/gpu=1", 2),
        ("--device /dev/kfd --device /dev/dri", "all"),
        ("--device=/dev/kfd:/dev/kfd --device=/dev/dri/renderD128", 1),
        ("--runtime nvidia -e NVIDIA_VISIBLE_DEVICES=0,1", 2),
        ("--gpus all -e CUDA_VISIBLE_DEVICES=0,1", 2),
        ("--gpus all --env=CUDA_VISIBLE_DEVICES=0,1", 2),
        ("--gpus 8 -e CUDA_VISIBLE_DEVICES=all", 8),
    ],
)
def test_options_count_devices(option: str, count: int | str) -> None:
    assert count == stated(run(option), "gpus_per_pod")


@pytest.mark.parametrize(
    "option",
    [
        "--gpus some",
        "--gpus 0",
        '--gpus "$GPUS"',
        "--gpus=$GPUS",
        '--gpus "device=$GPUS"',
        "--gpus 1 --gpus 2",
        '--device "$DEVICE"',
        "--gpus 8 -e CUDA_VISIBLE_DEVICES=$DEVICES",
        '--gpus 8 -e "CUDA_VISIBLE_DEVICES=$DEVICES"',
        "--gpus 8 -e CUDA_VISIBLE_DEVICES",
        "--gpus 8 --env=CUDA_VISIBLE_DEVICES=$DEVICES",
    ],
)
def test_devices_that_are_not_clear_are_unknown(option: str) -> None:
    assert why(run(option), "gpus_per_pod")


@pytest.mark.parametrize("option", ["", "--device /dev/fuse", "-e HF_TOKEN=$HF_TOKEN", "-e A"])
def test_no_devices_are_unset(option: str) -> None:
    assert fact(run(option), "gpus_per_pod").is_unset


def test_a_variable_of_the_script_is_handed_on() -> None:
    text = (
        "export CUDA_VISIBLE_DEVICES=0,1\n"
        f"docker run --gpus all -e CUDA_VISIBLE_DEVICES {IMAGE} org/m\n"
    )
    assert 2 == stated(plan(text, FILE), "gpus_per_pod")


def test_a_variable_of_the_script_stays_outside() -> None:
    text = f"export CUDA_VISIBLE_DEVICES=0,1\ndocker run --gpus 4 {IMAGE} org/m\n"
    assert 4 == stated(plan(text, FILE), "gpus_per_pod")


def test_the_last_value_of_a_variable_counts() -> None:
    options = "--gpus 8 -e CUDA_VISIBLE_DEVICES=0 -e CUDA_VISIBLE_DEVICES=0,1,2"
    assert 3 == stated(run(options), "gpus_per_pod")


def test_a_count_is_edited() -> None:
    text = f"docker run --gpus 4 {IMAGE} org/m -tp 4\n"
    found = plan(text, FILE)
    assert "4" == token(text, found, "gpus_per_pod")
    assert text.replace("--gpus 4", "--gpus 2") == edited(text, found, "gpus_per_pod", "2")


def test_a_count_in_a_variable_is_edited_where_it_is_set() -> None:
    text = f"N=4\ndocker run --gpus $N {IMAGE} org/m -tp 2\n"
    assert text.replace("N=4", "N=2") == edited(text, plan(text, FILE), "gpus_per_pod", "2")


def test_a_count_that_is_also_the_size_is_not_edited() -> None:
    text = f"N=4\ndocker run --gpus $N {IMAGE} org/m -tp $N\n"
    found = plan(text, FILE)
    assert "`4` is read there too" == refused(found, "gpus_per_pod")
    assert "gpus_per_pod is read there too" == refused(found, "tp")


def test_all_devices_have_no_count_to_edit() -> None:
    assert "gpus_per_pod" not in run("--gpus all").sites


# memory


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("64", 64),
        ("64b", 64),
        ("16k", 16 * 2**10),
        ("512m", 512 * 2**20),
        ("16g", 16 * 2**30),
        ("16gb", 16 * 2**30),
        ("16GiB", 16 * 2**30),
        ("1.5g", 3 * 2**29),
        ("1t", 2**40),
    ],
)
def test_shared_memory_is_read(size: str, count: int) -> None:
    assert count == stated(run(f"--shm-size {size}"), "shm_bytes")
    assert count == stated(run(f"--shm-size={size}"), "shm_bytes")


@pytest.mark.parametrize("size", ["much", "'$SHM'", '"$SHM"', "-1g"])
def test_shared_memory_that_is_no_size_is_unknown(size: str) -> None:
    assert why(run(f"--shm-size {size}"), "shm_bytes")
