"""What somebody met who tried it: each is right, and was not understood."""

from __future__ import annotations

import pytest
from harness import check

TOLD = {"engine_version": {"vllm": "0.33.0"}}


def errors(text: str, name: str = "script.sh", **told: object) -> list[str]:
    found = check(text, name, **(TOLD | told))  # type: ignore[arg-type]
    return [finding.name for finding in found.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve Qwen/Qwen3-8B --port <p> \\\n  --served-model-name Qwen/Qwen3-8B",
        "vllm serve Qwen/Qwen3-8B -tp <number of GPUs> --gpu-memory-utilization 0.9",
        "vllm serve <your-model> -tp 8 --host <ip>",
        "vllm serve Qwen/Qwen3-8B ... --port 80",
    ],
)
def test_what_is_to_be_filled_in_is_no_redirection(line: str) -> None:
    assert [] == errors(f"{line}\n")


def test_a_redirection_is_still_one() -> None:
    result = check("vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8 < in > out\n", **TOLD)  # type: ignore[arg-type]
    assert "tp-heads-indivisible" in [finding.name for finding in result.findings]


def pod(metadata: str, spec: str, gpus: int, tp: int) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a{metadata}}}\nspec:\n{spec}"
        "  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.33.0\n"
        f"    args: [--model=Qwen/Qwen3-32B, -tp={tp}]\n"
        f"    resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"
    )


@pytest.mark.parametrize(
    ("metadata", "spec", "found"),
    [
        ("", "", ["shm-missing"]),
        (", annotations: {io.kubernetes.cri-o.ShmSize: 16Gi}", "", []),
        ("", "  runtimeClassName: kata-qemu-nvidia-gpu-snp\n", []),
        ("", "  runtimeClassName: kata\n", []),
        ("", "  runtimeClassName: nvidia\n", ["shm-missing"]),
    ],
)
def test_a_runtime_may_give_more_shared_memory(metadata: str, spec: str, found: list[str]) -> None:
    assert found == errors(pod(metadata, spec, 4, 4), "pod.yaml")


def test_the_file_knows_its_nodes_better_than_the_command_line() -> None:
    large = '  nodeSelector: {nvidia.com/gpu.count: "16"}\n  hostIPC: true\n'
    told = {"gpu": "H100-SXM-80GB", "gpus_per_node": 8}
    assert [] == errors(pod("", large, 16, 16), "pod.yaml", **told)
    small = "  hostIPC: true\n"
    assert ["replicas-exceed-capacity"] == errors(pod("", small, 16, 16), "pod.yaml", **told)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("vllm serve zai-org/GLM-4.7 --max-model-len 200000", []),
        ("vllm serve moonshotai/Kimi-K2-Thinking --max-model-len 262144", []),
        ("vllm serve 01-ai/Yi-34B-200K --max-model-len 200000", []),
        ("vllm serve Qwen/Qwen3-8B --max-model-len 200000", ["context-len-exceeds-model"]),
        ("vllm serve Qwen/Qwen3-8B --max-model-len 200000 --rope-scaling '{}'", ["flag-unknown"]),
    ],
)
def test_the_longest_context_is_known_from_the_models_own_config_alone(
    line: str, found: list[str]
) -> None:
    assert found == errors(f"{line}\n")


def test_a_length_in_the_users_own_words_is_the_longest_one() -> None:
    models = {"org/m": {"max_position_embeddings": 8192}}
    line = "vllm serve org/m --max-model-len {}\n"
    assert ["context-len-exceeds-model"] == errors(line.format(16384), models=models)
    assert [] == errors(line.format(8192), models=models)


def test_a_number_of_stages_without_end_is_judged_at_once() -> None:
    result = check("vllm serve Qwen/Qwen3-8B -pp 100000000000\n", **TOLD)  # type: ignore[arg-type]
    assert ["pp-exceeds-layers"] == [finding.name for finding in result.findings]


def test_one_dash_is_guessed_for_a_short_option_that_begins_others() -> None:
    line = "CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-30B-A3B --dp 2\n"
    result = check(line, **TOLD)  # type: ignore[arg-type]
    (finding,) = result.findings
    assert ("flag-unknown", "did you mean `-dp`?") == (finding.name, finding.help)


def test_no_key_is_written_beside_the_object_that_it_would_take_away() -> None:
    line = "vllm serve Qwen/Qwen3-8B --num-speculative-tokens 5"
    (finding,) = check(f"{line}\n", **TOLD).findings  # type: ignore[arg-type]
    assert ["safe"] == [fix.applicability for fix in finding.fixes]
    whole = f'{line} --speculative-config \'{{"method":"ngram","prompt_lookup_max":4}}\'\n'
    (finding,) = check(whole, **TOLD).findings  # type: ignore[arg-type]
    assert () == finding.fixes
    assert finding.help is not None
    assert "in the object of `--speculative-config`" in finding.help


def test_an_option_is_not_removed_whose_meaning_would_be_lost() -> None:
    (finding,) = check("vllm serve Qwen/Qwen3-8B --task embed\n", **TOLD).findings  # type: ignore[arg-type]
    assert () == finding.fixes
    assert finding.help is not None
    assert "--runner pooling" in finding.help


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("u() {\n  cat <<EOF 1>&2\n  vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\nEOF\n}\n", []),
        ("cat <<EOF>/etc/notes.txt\n  vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\nEOF\n", []),
        (
            "cat <<USAGE 1>&2\ndon't\nUSAGE\nvllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\n",
            ["tp-heads-indivisible"],
        ),
        (
            "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8 <in.txt 2>err.log\n",
            ["tp-heads-indivisible"],
        ),
        ("vllm serve Qwen/Qwen3-8B --chat-template <path/to/a.jinja> --enforce-eager\n", []),
        ("vllm serve Qwen/Qwen3-8B --chat-template <$HOME/models> --enforce-eager\n", []),
        ("vllm serve Qwen/Qwen3-8B --port <1|2> --enforce-eager\n", []),
        ("vllm serve Qwen/Qwen3-8B --port <yours, e.g. 8000> --enforce-eager\n", []),
        ("vllm serve Qwen/Qwen3-8B --max-model-len <n>k -tp 2\n", []),
        ("vllm serve <org/model> -tp 8 --trust-remote-code\n", []),
    ],
)
def test_a_here_document_a_redirection_and_a_hole_are_told_apart(
    script: str, found: list[str]
) -> None:
    assert found == errors(script)


LONG = "--model Qwen/Qwen3-8B --max-model-len 131072"
COMPOSE = f"services:\n  a:\n    image: vllm/vllm-openai:v0.33.0\n    command: {LONG}\n"
DOCKER = "docker run --gpus all {} vllm/vllm-openai:v0.33.0 " + LONG + "\n"
TOO_LONG = ["context-len-exceeds-model"]


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-len 131072\n", "s.sh", TOO_LONG),
        ("source env.sh\nvllm serve Qwen/Qwen3-8B --max-model-len 131072\n", "s.sh", []),
        (
            ". .venv/bin/activate\nvllm serve Qwen/Qwen3-8B --max-model-len 131072\n",
            "s.sh",
            TOO_LONG,
        ),
        (
            "source a.sh\n. .venv/bin/activate\nvllm serve Qwen/Qwen3-8B --max-model-len 131072\n",
            "s.sh",
            [],
        ),
        (
            "source a.sh\nbash -c 'vllm serve Qwen/Qwen3-8B --max-model-len 131072; true'\n",
            "s.sh",
            [],
        ),
        (DOCKER.format("-e A=b"), "s.sh", TOO_LONG),
        (DOCKER.format("--env-file x.env"), "s.sh", []),
        (DOCKER.format("-e VLLM_ALLOW_LONG_MAX_MODEL_LEN"), "s.sh", []),
        (COMPOSE + "    environment: {A: b}\n", "compose.yaml", TOO_LONG),
        (COMPOSE + "    environment: [A]\n", "compose.yaml", TOO_LONG),
        (COMPOSE + "    environment: [VLLM_ALLOW_LONG_MAX_MODEL_LEN]\n", "compose.yaml", []),
        (COMPOSE + "    environment: {VLLM_ALLOW_LONG_MAX_MODEL_LEN: }\n", "compose.yaml", []),
        (COMPOSE + "    env_file: [.env]\n", "compose.yaml", []),
    ],
)
def test_a_variable_that_allows_it_may_be_set_elsewhere(
    text: str, name: str, found: list[str]
) -> None:
    assert found == errors(text, name)


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ('nvidia.com/gpu.count: "4"', []),
        ('nvidia.com/gpu.count: "1"', ["replicas-exceed-capacity"]),
        ('nvidia.com/gpu.count: "1", nvidia.com/gpu.replicas: "4"', []),
        ('nvidia.com/gpu.count: "1", nvidia.com/gpu.product: NVIDIA-L4-SHARED', []),
        ('nvidia.com/gpu.count: "1", nvidia.com/mps.capable: "true"', []),
        (
            'cloud.google.com/gke-accelerator-count: "1",'
            " cloud.google.com/gke-gpu-sharing-strategy: time-sharing",
            [],
        ),
    ],
)
def test_a_shared_card_is_more_than_one(label: str, found: list[str]) -> None:
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: 4\n"
        "  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n"
        f"    spec:\n      nodeSelector: {{{label}}}\n      containers:\n      - name: v\n"
        "        image: vllm/vllm-openai:v0.33.0\n        args: [--model=Qwen/Qwen3-0.6B]\n"
        "        resources: {limits: {nvidia.com/gpu: 1}}\n"
    )
    told = {"gpu": "L4", "gpus_per_node": 4, "nodes": 1}
    assert found == errors(deployment, "d.yaml", **told)


@pytest.mark.parametrize(
    ("line", "release", "found"),
    [
        # before 0.11.2 the option to switch chunked prefill off was not listened to
        ("Qwen/Qwen3-8B --no-enable-chunked-prefill --max-num-batched-tokens 2048"
         " --max-model-len 8192", "0.9.2", []),
        ("Qwen/Qwen3-8B --no-enable-chunked-prefill --max-num-batched-tokens 2048"
         " --max-model-len 8192", "0.33.0", ["flag-conflict"]),
        # nothing is split that is no model
        ("Qwen/Qwen3-32B -tp 4 --speculative-config '{\"method\":\"ngram\","
         "\"num_speculative_tokens\":3,\"draft_tensor_parallel_size\":2}'", "0.33.0", []),
        ("Qwen/Qwen3-32B -tp 4 --speculative-config '{\"model\":\"Qwen/Qwen3-0.6B\","
         "\"num_speculative_tokens\":3,\"draft_tensor_parallel_size\":2}'", "0.33.0",
         ["flag-conflict"]),
        # a node whose rank is stated runs that rank alone
        ("deepseek-ai/DeepSeek-V3 -tp 16 -dp 4 --enable-expert-parallel -dph -dpn 1"
         " -dpa 1.2.3.4", "0.17.0", []),
        # the short form of another release says what was meant
        ("Qwen/Qwen3-235B-A22B-FP8 -tp 8 -ep", "0.11.0", ["flag-unknown"]),
    ],
)  # fmt: skip
def test_what_vllm_itself_does_not_refuse(line: str, release: str, found: list[str]) -> None:
    assert found == errors(f"vllm serve {line}\n", engine_version={"vllm": release})


def test_no_successor_is_written_beside_a_short_form_of_it() -> None:
    line = 'vllm serve Qwen/Qwen3-8B -sc \'{"method":"ngram","prompt_lookup_max":3}\''
    (finding,) = check(f"{line} --num-speculative-tokens 5\n", **TOLD).findings  # type: ignore[arg-type]
    assert ("flag-unknown", ()) == (finding.name, finding.fixes)


@pytest.mark.parametrize(
    ("image", "words", "message"),
    [
        # older than every release that was read: what it accepts is not known
        ("vllm/vllm-openai:v0.5.5", "--use-v2-block-manager --speculative-model a/b", None),
        ("vllm/vllm-openai:v0.5.5", "--tensor-paralel 2", "any vLLM release that was checked"),
        # a release between two that were read, of which one has the option
        ("vllm/vllm-openai:v0.6.4", "--config_format mistral", "in 0.6.0 (the one checked before"),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1_20250702", "--swap-space 16", "since 0.18.0"),
    ],
)
def test_an_option_is_not_taken_from_a_release_that_may_have_it(
    image: str, words: str, message: str | None
) -> None:
    line = f"docker run --gpus all --ipc=host {image} --model Qwen/Qwen2.5-7B-Instruct {words}\n"
    found = [one for one in check(line, "s.sh").findings if one.name == "flag-unknown"]
    if message is None:
        assert [] == found
        return
    (finding,) = found
    assert "warning" == finding.severity
    assert message in finding.message
    assert all("tensor-parallel-size" in fix.title for fix in finding.fixes)


def test_braces_in_a_name_are_no_place_for_a_number() -> None:
    own = {"acme/a{b}": {"base": "Qwen/Qwen3-8B"}}
    line = "vllm serve 'acme/a{b}' -dp 2 -dpr 1 --data-parallel-external-lb\n"
    found = check(line, models=own, **TOLD).findings  # type: ignore[arg-type]
    assert "plugin-failed" not in [one.name for one in found]
    assert any("acme/a{b} is dense" in one.message for one in found)


TWICE = "behind an entrypoint that starts the engine already"
IMAGE = "vllm/vllm-openai:v0.12.0"


@pytest.mark.parametrize("words", ["vllm serve {}", "serve {}", "python3 -m vllm serve {}"])
def test_an_image_that_starts_the_engine_takes_no_second_launcher(words: str) -> None:
    line = f"docker run --gpus all {{}}{IMAGE} {words.format('Qwen/Qwen3-8B')}\n"
    assert ["flag-unknown"] == errors(line.format("")), TWICE
    service = f"services:\n  a:\n    image: {IMAGE}\n    command: {words.format('Qwen/Qwen3-8B')}\n"
    assert ["flag-unknown"] == errors(service, "compose.yaml"), TWICE
    own = service.replace("    command", "    entrypoint: []\n    command")
    assert [] == errors(own, "compose.yaml")


@pytest.mark.parametrize(
    "line",
    [
        f"docker run --entrypoint vllm {IMAGE} serve Qwen/Qwen3-8B",
        f"docker run --entrypoint '' {IMAGE} vllm serve Qwen/Qwen3-8B",
        "docker run registry.example.com/own-vllm:v0.12.0 vllm serve Qwen/Qwen3-8B",
        f"apptainer exec --nv docker://{IMAGE} vllm serve Qwen/Qwen3-8B",
        f"docker run {IMAGE} Qwen/Qwen3-8B",
    ],
)
def test_a_launcher_is_right_where_no_entrypoint_stands_before_it(line: str) -> None:
    assert [] == errors(f"{line}\n")


def test_latent_attention_is_told_of_where_a_release_has_it() -> None:
    line = "vllm serve deepseek-ai/DeepSeek-V3 -tp 8\n"
    for release, found in (("0.6.6", False), ("0.8.5", True)):
        told = {"engine_version": {"vllm": release}}
        names = [one.name for one in check(line, **told).findings]  # type: ignore[arg-type]
        assert found == ("mla-kv-duplication" in names)


def test_options_that_contradict_one_another_do_so_for_any_model() -> None:
    line = "vllm serve acme/Qwen3-8B-tuned -tp 2 --nnodes 2 --distributed-executor-backend ray\n"
    assert "flag-conflict" in errors(line)
