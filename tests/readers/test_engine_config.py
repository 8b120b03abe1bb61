"""Files of options: whose they are, what they say, and the commands that name them."""

from __future__ import annotations

from pathlib import Path

import pytest
from readers import reading
from shardlint.engines.config_files import whose
from shardlint.linter import lint
from shardlint.plan import Refusal, ServingPlan
from shardlint.project import Project
from shardlint.source import apply

VLLM = """# how it is started: vllm serve --config serve.yaml
model: Qwen/Qwen2.5-72B-Instruct
tensor-parallel-size: 4
max_model_len: 8k
enable-expert-parallel: false
enable-prefix-caching: no
served-model-name: [big, "biggest"]
compilation-config: {level: 3}
gpu-memory-utilization: "0.85"
"""


def plan(text: str = VLLM, name: str = "serve.yaml") -> ServingPlan:
    return reading.plan(text, name)


def test_a_file_is_read_by_its_keys() -> None:
    found = plan()
    assert (found.engine, found.kind, found.path) == ("vllm", "vllm-config", "0:")
    assert reading.stated(found, "model") == "Qwen/Qwen2.5-72B-Instruct"
    assert reading.stated(found, "tp") == 4
    assert reading.stated(found, "max_model_len") == 8000
    assert reading.stated(found, "gpu_memory_utilization") == 0.85
    assert reading.token(VLLM, found, "tp") == "4"
    assert reading.token(VLLM, found, "gpu_memory_utilization") == "0.85"
    assert found.refused == ()
    assert found.memory.prefix_caching.only is False
    assert found.fact("placement.gpus_per_pod").is_unset


@pytest.mark.parametrize(
    ("keys", "engine"),
    [
        ("model tensor_parallel_size max_model_len", "vllm"),
        ("tensor-parallel-size gpu-memory-utilization", "vllm"),
        ("model-path tp-size context-length", "sglang"),
        ("tp_size mem_fraction_static", "sglang"),
        ("tensor_parallel_size moe_expert_parallel_size", "trtllm"),
        ("kv_cache_config max_batch_size", "trtllm"),
        ("tensor-parallel-size quantization", None),  # two engines have both
        ("host port model", None),
        ("max_model_len", None),
        ("tensor_parallel_size max_model_len learning_rate", None),
        ("", None),
    ],
)
def test_whose_a_file_is(keys: str, engine: str | None) -> None:
    assert whose(keys.split()) == engine


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (VLLM, "serve.json"),
        (VLLM + "learning_rate: 3\n", "serve.yaml"),
        (VLLM + "---\na: b\n", "serve.yaml"),
        ("- tensor_parallel_size: 3\n", "serve.yaml"),
        ("tensor_parallel_size: [\n", "serve.yaml"),
        ("{{- if x }}\ntensor_parallel_size: 3\nmax_model_len: 4\n{{- end }}\n", "serve.yaml"),
    ],
)
def test_other_files_are_no_files_of_options(text: str, name: str) -> None:
    assert reading.plans(text, name) == ()


def test_values_that_are_filled_in_are_unknown() -> None:
    found = plan("tensor-parallel-size: ${TP}\nmax-model-len: 4096\nmodel: <your-model>\n")
    assert "filled in" in (reading.why(found, "model") or "")
    assert reading.why(found, "tp")
    assert not found.refused


def test_nothing_is_certain_of_what_a_command_line_may_add() -> None:
    found = plan()
    assert found.placement.pods_per_group.assumes


@pytest.mark.parametrize(
    ("field", "value", "after"),
    [
        ("tp", "2", VLLM.replace("size: 4", "size: 2")),
        ("max_model_len", "4096", VLLM.replace("8k", "4096")),
        ("pp", "2", VLLM + "pipeline-parallel-size: 2\n"),
    ],
)
def test_options_are_written_into_the_file(field: str, value: str, after: str) -> None:
    assert reading.edited(VLLM, plan(), field, value) == after


def test_a_new_key_is_spelled_like_the_others() -> None:
    text = "tensor_parallel_size: 4\nmax_model_len: 4096\n"
    assert reading.edited(text, plan(text), "pp", "2") == text + "pipeline_parallel_size: 2\n"


def test_a_key_is_renamed_and_removed() -> None:
    text = "max_num_seqs: 8\nmax_model_len: 4096  # short\ntensor_parallel_size: 4\n"
    found = plan(text)
    at = next(at for at, flag in enumerate(found.flags) if flag.flag == "--max-model-len")
    renamed, removed = found.sites[f"flag:{at}"], found.sites[f"option:{at}"]
    edits = renamed.set("--max-num-batched-tokens")
    assert not isinstance(edits, Refusal)
    assert apply(text, edits) == text.replace("max_model_len", "max_num_batched_tokens")
    edits = removed.set("")
    assert not isinstance(edits, Refusal)
    assert apply(text, edits) == "max_num_seqs: 8\ntensor_parallel_size: 4\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("max_model_len:\n  4096\nseed: 4\n", "seed: 4\n"),
        ("seed: 4\nmax_model_len: 4096", "seed: 4"),
        ("max_model_len: 4096\nseed: 4", "seed: 4"),
    ],
)
def test_a_key_is_removed_with_its_lines(text: str, after: str) -> None:
    found = plan(text)
    at = next(at for at, flag in enumerate(found.flags) if flag.flag == "--max-model-len")
    edits = found.sites[f"option:{at}"].set("")
    assert not isinstance(edits, Refusal)
    assert apply(text, edits) == after


def test_what_has_no_line_of_its_own_is_not_removed() -> None:
    text = "{seed: 4,\nmax_model_len: 4096}\n"
    assert isinstance(plan(text).sites["option:0"].set(""), Refusal)


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_other_engines_are_recognised(engine: str) -> None:
    text = {
        "sglang": "tp-size: '8'\ncontext-length: 9000\ndisaggregation-mode: decode\n",
        "trtllm": "tensor_parallel_size: 8\nenable_attention_dp: true\n",
    }[engine]
    found = plan(text)
    assert found.engine == engine
    assert found.role == ("decode" if engine == "sglang" else None)


def test_fields_in_fields_are_options() -> None:
    text = (
        "tp_size: 8\nkv_cache_free_gpu_mem_fraction: 0.9\nllm_api_args: &a\n"
        "  kv_cache_config: {dtype: fp8}\n  llm_api_args: *a\n"
    )
    words = [word.value for word in plan(text).argv]
    assert words[2:] == [
        "--tp_size", "8", "--kv_cache_free_gpu_memory_fraction", "0.9",
        "--kv_cache_config.dtype", "fp8", "--llm_api_args", None,
    ]  # fmt: skip


# ------------------------------------------------------------------------ named by a command

K8S = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: one
    image: vllm/vllm-openai:v0.11.0
    args: [--config, /etc/vllm/serve.yaml, --port, "80"]
"""
COMPOSE = """services:
  a:
    image: vllm/vllm-openai:v0.11.0
    command: --config /c/serve.yaml -pp 2
    volumes: [VOLUME]
"""


def together(**texts: str) -> Project:
    named = {name.replace("__", "/").replace("_", "."): text for name, text in texts.items()}
    return Project.of_texts(reading.a_setup(), named)


def test_a_script_is_read_with_the_file_that_it_names() -> None:
    project = together(d__run_sh="vllm serve --config serve.yaml -pp 2\n", d__serve_yaml=VLLM)
    (found,) = project.plans
    assert (found.file, found.joined) == ("d/run.sh", ("d/serve.yaml",))
    assert reading.stated(found, "tp") == 4 and reading.stated(found, "pp") == 2
    assert found.open_ended is None
    origin = reading.fact(found, "tp").origin
    assert origin is not None and origin.file == "d/serve.yaml"
    edits = found.sites["tp"].set("8")
    assert not isinstance(edits, Refusal)
    assert [edit.file for edit in edits] == ["d/serve.yaml"]
    edits = found.sites["pp"].set("8")
    assert not isinstance(edits, Refusal)
    assert [edit.file for edit in edits] == ["d/run.sh"]


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("vllm serve --config serve.yaml -tp 8", "tp", 8),
        ("vllm serve org/other --config serve.yaml", "model", "org/other"),
        ("vllm serve --config serve.yaml", "model", "Qwen/Qwen2.5-72B-Instruct"),
        ("vllm serve --model org/x --config serve.yaml", "model", "org/x"),
    ],
)
def test_the_command_line_wins(line: str, field: str, value: object) -> None:
    project = together(run_sh=f"{line}\n", serve_yaml=VLLM)
    (found,) = project.plans
    assert reading.stated(found, field) == value


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m --config=serve.yaml",
        "vllm serve m --config other.yaml",
        "vllm serve m --config $FILE",
        "vllm serve m --config /serve.yaml",
    ],
)
def test_a_file_that_is_not_read_is_not_joined(line: str) -> None:
    found = together(run_sh=f"{line}\n", serve_yaml=VLLM).plans
    assert {plan.file for plan in found} == {"run.sh", "serve.yaml"}
    assert reading.stated(found[0], "tp") is None


def test_a_script_that_changes_its_folder_may_mean_another_file() -> None:
    (found,) = together(run_sh="cd x\nvllm serve --config serve.yaml\n", serve_yaml=VLLM).plans
    assert any("as seen from" in why for why in reading.fact(found, "tp").assumes)


@pytest.mark.parametrize(
    "volume", ['"./serve.yaml:/c/serve.yaml:ro"', '".:/c"', "{source: ./, target: /c}"]
)
def test_compose_mounts_the_file(volume: str) -> None:
    project = together(compose_yaml=COMPOSE.replace("VOLUME", volume), serve_yaml=VLLM)
    (found,) = project.plans
    assert (reading.stated(found, "tp"), reading.stated(found, "pp")) == (4, 2)


def test_docker_mounts_the_file() -> None:
    run = (
        'docker run -v "$(pwd)/serve.yaml:/c/s.yaml" vllm/vllm-openai:v0.11.0 --config /c/s.yaml\n'
    )
    (found,) = together(run_sh=run, serve_yaml=VLLM).plans
    assert reading.stated(found, "tp") == 4


def test_without_the_file_the_options_stay_open() -> None:
    (found,) = together(a_yaml=K8S).plans
    assert "holds more options" in (found.open_ended or "")


def test_a_repeated_release_reads_the_file_like_the_newest() -> None:
    """A model in the file is taken by releases that refuse it on the command line."""
    for tag in ("v0.6.6.post1", "v0.8.5", "v0.33.0"):
        compose = COMPOSE.replace("VOLUME", '".:/c"').replace("v0.11.0", tag)
        (found,) = together(compose_yaml=compose, serve_yaml=VLLM.replace("8k", "8000")).plans
        assert reading.stated(found, "model") == "Qwen/Qwen2.5-72B-Instruct"
        assert [refused.problem for refused in found.refused] == []


def test_the_file_is_read_again_when_it_changes() -> None:
    project = together(run_sh="vllm serve --config serve.yaml\n", serve_yaml=VLLM)
    project = project.update("serve.yaml", VLLM.replace("size: 4", "size: 2"))
    assert [reading.stated(found, "tp") for found in project.plans] == [2]


def test_a_file_that_is_not_looked_at_by_itself_is_joined(tmp_path: Path) -> None:
    """Findings stand in it, and it can be edited."""
    (tmp_path / "run.sh").write_text("vllm serve Qwen/Qwen2.5-72B-Instruct --config few.yaml\n")
    (tmp_path / "few.yaml").write_text("pipeline_parallel_size: 2\nno_such_option: 3\n")
    project = Project.discover(reading.a_setup(), [str(tmp_path)], tmp_path)
    (found,) = project.plans
    assert reading.stated(found, "pp") == 2
    findings = lint(project).result.findings
    assert [f.file for f in findings if f.name == "flag-unknown"] == ["few.yaml"]
    project = project.update("few.yaml", "pipeline_parallel_size: 4\n")
    assert [reading.stated(item, "pp") for item in project.plans] == [4]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("0x1000", "4096"), ("0b11", "3"), ("1:30", "90"), ("1_000", "1000"), ("010", "8"),
     ("+16", "16"), ("'0x10'", "0x10"), ("1e3", "1e3"), ("4.0", "4.0"), ("08", "08")],
)  # fmt: skip
def test_whole_numbers_are_those_of_yaml(written: str, meant: str) -> None:
    text = f"model: org/m\nmax-num-seqs: {written}\ntensor-parallel-size: 2\n"
    found = reading.plan(text, "c.yaml")
    (value,) = (flag.value for flag in found.flags if flag.flag == "--max-num-seqs")
    assert value is not None
    assert meant == value.value
