"""The command line as a user meets it: options, exit codes, streams, and files that are broken."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result
from estimating import MODELS, SimpleMemory
from shardlint import __version__
from shardlint.cli import NO_QUESTION, main
from shardlint.engine import refuses
from shardlint.engines import builtin
from shardlint.models.catalogue import Catalogue
from shardlint.plan import Layout
from shardlint_schemas import schema

EXAMPLES = Path(__file__).parents[1] / "examples"

HEADS = "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 8\n"
"""An error: 28 heads. The number of GPUs is not stated."""

SURPLUS = """\
services:
  llm:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-8B --max-model-len 8192
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4}]}}}
"""
"""A warning, and nothing else."""

MISSPELT = (
    "docker run --ipc=host --gpus 2 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B"
    " --tensor-paralell-size 2\n"
)
"""An error with a safe fix."""

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen2.5-7B-Instruct", "--tensor-parallel-size", "8"]
    resources: {limits: {nvidia.com/gpu: 8}}
  hostIPC: true
"""
"""An error with unsafe fixes."""

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory for each test, with a configuration that says nothing."""
    (tmp_path / "shardlint.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, arguments, input=stdin)
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def write(name: str, text: str | bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def failure(*arguments: str) -> str:
    """The one line that says why there is nothing to report."""
    result = run(*arguments)
    assert 2 == result.exit_code
    assert "" == result.stdout
    (line,) = result.stderr.splitlines()
    return line


def findings(*arguments: str, stdin: str | None = None) -> list[dict[str, Any]]:
    document = json.loads(run("check", "--format", "json", *arguments, stdin=stdin).stdout)
    jsonschema.validate(document, schema("check"))
    found: list[dict[str, Any]] = document["findings"]
    return found


def names(*arguments: str) -> list[str]:
    return [item["name"] for item in findings(*arguments)]


# ------------------------------------------------------------------------------------ the whole


def test_help_lists_the_commands() -> None:
    context = click.Context(main)
    expected = [
        "check", "estimate", "explain", "gpus", "inspect", "models", "recommend", "rules",
    ]  # fmt: skip
    assert expected == main.list_commands(context)
    shown = run("--help").stdout
    assert all(f"\n  {name} " in shown for name in expected)


def test_every_option_has_a_test_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    options = {
        option
        for command in main.commands.values()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    assert set() == {option for option in options if f'"{option}"' not in text}


def test_version_is_printed() -> None:
    assert f"shardlint, version {__version__}\n" == run("--version").stdout


def test_unknown_option_is_wrong_usage() -> None:
    result = run("check", "--fromat", "json")
    assert 2 == result.exit_code
    assert "Did you mean" in result.stderr
    assert "" == result.stdout


# ---------------------------------------------------------------------------------------- paths


def test_check_without_a_path_takes_the_working_directory() -> None:
    write("deep/er/serve.sh", HEADS)
    result = run("check", "--format", "concise")
    assert result.stdout.startswith("deep/er/serve.sh:1:60: SL101 error 28 attention heads")
    assert 1 == result.exit_code


def test_ignored_files_are_left_out_of_a_folder_and_read_when_named() -> None:
    write(".gitignore", "old/\n")
    write("old/serve.sh", HEADS)
    assert [] == names()
    assert ["tp-heads-indivisible"] == names("old/serve.sh")


def test_missing_path_is_an_error() -> None:
    write("serve.sh", HEADS)
    expected = "shardlint: nope.yaml: no such file or folder"
    assert expected == failure("check", "serve.sh", "nope.yaml")
    assert expected == failure("inspect", "nope.yaml")


def test_standard_input_has_the_given_name() -> None:
    (finding,) = findings("-", "--stdin-filename", "deploy/serve.sh", stdin=HEADS)
    assert "deploy/serve.sh" == finding["file"]


def test_standard_input_is_recognised_by_its_content() -> None:
    assert ["tp-heads-indivisible"] == [item["name"] for item in findings("-", stdin=POD)]


def test_standard_input_stands_alone() -> None:
    write("serve.sh", HEADS)
    expected = "shardlint: standard input (-) cannot be linted beside files"
    assert expected == failure("check", "-", "serve.sh")


# ----------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        (HEADS, [], 1),
        (HEADS, ["--exit-zero"], 0),
        (HEADS, ["--fail-on", "error"], 1),
        (HEADS.replace("8", "4"), [], 0),
        (SURPLUS, [], 0),
        (SURPLUS, ["--fail-on", "warning"], 1),
        (SURPLUS, ["--fail-on", "info"], 1),
        (SURPLUS, ["--fail-on", "info", "--exit-zero"], 0),
        (SURPLUS, ["--strict-unknown", "--gpu", "L4"], 0),
        (SURPLUS, ["--strict-unknown"], 1),
        ("vllm serve Qwen/Qwen3-8B -tp $TP\n", [], 0),
        ("vllm serve Qwen/Qwen3-8B -tp $TP\n", ["--strict-unknown"], 1),
    ],
)
def test_exit_code(text: str, arguments: list[str], code: int) -> None:
    result = run("check", "-", *arguments, stdin=text)
    assert code == result.exit_code, result.output


def test_standard_input_has_no_revisions() -> None:
    """What is compared with a revision is tested in test_revisions.py."""
    result = run("check", "-", "--diff-base", "HEAD", stdin=HEADS)
    assert result.exit_code == 2
    assert "standard input has no revisions" in result.stderr


def test_configuration_says_what_fails_and_the_command_line_wins() -> None:
    write("shardlint.toml", 'fail-on = "warning"\n')
    write("compose.yaml", SURPLUS)
    assert 1 == run("check").exit_code
    assert 0 == run("check", "--fail-on", "error").exit_code


# ------------------------------------------------------------------------------------ selection


@pytest.mark.parametrize("selector", ["SL101", "SL1", "tp-heads-indivisible", "SL302,SL101"])
def test_selected_rules_run_alone(selector: str) -> None:
    write("a.sh", HEADS)
    write("b.sh", MISSPELT)
    assert ["tp-heads-indivisible"] == names("--select", selector)


@pytest.mark.parametrize("selector", ["SL101", "SL1", "tp-heads-indivisible", "SL302,SL101"])
def test_ignored_rules_do_not_run(selector: str) -> None:
    write("a.sh", HEADS)
    write("b.sh", MISSPELT)
    assert ["flag-unknown"] == names("--ignore", selector)


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_unknown_rule_is_an_error_with_a_guess(option: str) -> None:
    expected = "shardlint: unknown rule 'tp-head-indivisible'; did you mean 'tp-heads-indivisible'?"
    assert expected == failure("check", option, "tp-head-indivisible")


# --------------------------------------------------------------------------------------- output


def test_statistics_count_findings_by_rule() -> None:
    write("a.sh", HEADS)
    write("b.sh", HEADS)
    write("c.sh", MISSPELT)
    result = run("check", "--statistics")
    expected = "     2  SL101  tp-heads-indivisible\n     1  SL701  flag-unknown\n"
    assert expected == result.stdout
    assert 1 == result.exit_code


def test_report_goes_to_the_output_file_alone() -> None:
    write("serve.sh", HEADS)
    result = run("check", "serve.sh", "--format", "json", "--output-file", "out.json")
    assert "" == result.stdout
    assert 1 == result.exit_code
    document = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert ["tp-heads-indivisible"] == [item["name"] for item in document["findings"]]


def test_output_file_that_cannot_be_written_is_an_error() -> None:
    write("serve.sh", HEADS)
    expected = "shardlint: no/out.txt: No such file or directory"
    assert expected == failure("check", "serve.sh", "--output-file", "no/out.txt")


def test_unknown_format_is_an_error() -> None:
    line = failure("check", "--format", "jsn")
    assert "shardlint: --format jsn: known are concise, github, json, lsp, sarif, text" == line


@pytest.mark.parametrize("name", ["json", "sarif", "lsp"])
def test_json_stands_alone_on_standard_output(name: str) -> None:
    write("serve.sh", HEADS + "vllm serve Qwen/Qwen3-8B -tp $TP\n")
    result = run("check", "--format", name)
    json.loads(result.stdout)
    assert "" == result.stderr


@pytest.mark.parametrize("name", ["concise", "json", "sarif", "github", "lsp"])
def test_machine_formats_hold_no_absolute_path(name: str, folder: Path) -> None:
    write("bad/pod.yaml", POD)
    write("bad/serve.sh", HEADS)
    text = run("check", str(folder / "bad"), "--format", name).stdout
    assert "bad/pod.yaml" in text
    assert str(folder) not in text


def test_inspection_holds_no_absolute_path(folder: Path) -> None:
    write("bad/pod.yaml", POD)
    text = run("inspect", str(folder / "bad"), "--format", "json", "--origins").stdout
    assert "bad/pod.yaml" in text
    assert str(folder) not in text


def test_output_is_the_same_for_any_order_of_paths() -> None:
    write("a.sh", HEADS)
    write("b.sh", MISSPELT)
    texts = {
        run("check", *paths, "--format", "json").stdout
        for paths in (("a.sh", "b.sh"), ("b.sh", "a.sh"), (".",), ("b.sh", ".", "a.sh"))
    }
    assert 1 == len(texts)


# -------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[hardwre]\ngpu = "H100"\n',
            "c.toml:1:2: unknown key 'hardwre'; did you mean 'hardware'?",
        ),
        ('[engines]\nvlm = "1"\n', "c.toml:2:1: unknown engine 'vlm'"),
        ('[platforms]\nkserv = "1"\n', "c.toml:2:1: unknown platform 'kserv'"),
        ('[[overlay]]\nfiles = ["a.yaml"]\n', "c.toml:2:10: no such file: a.yaml"),
        ('[[pool]]\ngpu = "H100x"\n', "c.toml:2:7: unknown card 'H100x'; did you mean 'H100'?"),
        ('select = ["SL999"]\n', "c.toml:1:11: unknown rule 'SL999'"),
        ('fail-on = "eror"\n', "c.toml:1:11: 'fail-on' must be error, warning or info"),
        ("a = \n", "c.toml:1:5: not TOML"),
    ],
)
def test_mistake_in_the_configuration_has_its_place(text: str, message: str) -> None:
    write("c.toml", text)
    assert failure("check", "--config", "c.toml").startswith(f"shardlint: {message}")


def test_missing_configuration_is_an_error() -> None:
    expected = "shardlint: nope.toml: cannot be read: No such file or directory"
    assert expected == failure("check", "--config", "nope.toml")


def test_nearest_configuration_counts(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    write("shardlint.toml", 'ignore = ["SL101"]\n')
    write("team/serve.sh", HEADS)
    monkeypatch.chdir(folder / "team")
    assert [] == names()
    write("pyproject.toml", '[tool.shardlint]\nignore = ["SL302"]\n')
    assert ["tp-heads-indivisible"] == names()


# ------------------------------------------------------------------------------------- machines


def test_gpu_count_of_the_command_line_decides_what_a_script_leaves_open() -> None:
    write("serve.sh", "vllm serve Qwen/Qwen3-32B -tp 8\n")
    assert [] == names("serve.sh")
    assert ["gpu-count-short"] == names("serve.sh", "--gpu", "H100:4")
    assert [] == names("serve.sh", "--gpu", "H100:8")


def test_card_that_the_table_lacks_needs_its_memory() -> None:
    write("serve.sh", HEADS)
    line = failure("check", "--gpu", "H1000")
    assert line.startswith("shardlint: --gpu: unknown card 'H1000'; did you mean 'H100'?")
    found = names("--gpu", "H1000:8,mem=32GiB,link=pcie")
    assert ["tp-heads-indivisible", "tp-slow-link"] == found


@pytest.mark.parametrize(
    "arguments", [["--nodes", "0"], ["--network", "wifi"], ["--gpu", "H100:none"]]
)
def test_machine_that_cannot_be_is_wrong_usage(arguments: list[str]) -> None:
    result = run("check", *arguments)
    assert 2 == result.exit_code
    assert "" == result.stdout


def test_machines_are_accepted() -> None:
    write("serve.sh", HEADS)
    arguments = ["--gpu", "H100:8", "--nodes", "4", "--network", "rdma"]
    assert ["tp-heads-indivisible"] == names(*arguments)


def test_engine_version_fills_in_where_no_tag_says_it() -> None:
    """An option that went in some release is certainly refused by a release without it."""
    write("serve.sh", "vllm serve Qwen/Qwen3-32B --swap-space 2\n")
    severities = [
        findings("serve.sh", *arguments)[0]["severity"]
        for arguments in ([], ["--engine-version", "vllm=0.33.0"])
    ]
    assert ["warning", "error"] == severities


GROUP = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      runtime: kserve-huggingfaceserver-multinode
      storageUri: pvc://models/qwen
    workerSpec: {tensorParallelSize: 8, pipelineParallelSize: 2}
"""


@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [((), 16), (("--engine-version", "kserve=0.15.1"), 16), (("--config", "old.toml"), 2),
     (("--config", "old.toml", "--engine-version", "kserve=0.16.0"), 16)],
)  # fmt: skip
def test_release_of_a_platform_is_told_like_that_of_an_engine(
    arguments: tuple[str, ...], nodes: int
) -> None:
    write("old.toml", '[platforms]\nkserve = "0.15.0"\n')
    write("isvc.yaml", GROUP)
    result = run("inspect", "isvc.yaml", "--format", "json", *arguments)
    assert nodes == json.loads(result.stdout)["plans"][0]["effective"]["nodes"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("vlm=0.33.0", "--engine-version vlm=0.33.0: unknown engine or platform 'vlm'; known are"),
        ("vllm", "--engine-version vllm: write NAME=VERSION, such as vllm=0.33.0"),
    ],
)
def test_engine_that_is_not_known_is_an_error(value: str, message: str) -> None:
    assert failure("check", "--engine-version", value).startswith(f"shardlint: {message}")


# ---------------------------------------------------------------------------------------- fixes


def test_safe_fixes_are_written_and_unsafe_ones_are_not() -> None:
    write("serve.sh", MISSPELT)
    write("pod.yaml", POD)
    result = run("check", "--fix", "--format", "concise")
    assert MISSPELT.replace("paralell", "parallel") == Path("serve.sh").read_text(encoding="utf-8")
    assert POD == Path("pod.yaml").read_text(encoding="utf-8")
    assert result.stdout.startswith("pod.yaml:8:67: SL101 error")
    told = "fixed serve.sh: `--tensor-paralell-size` → `--tensor-parallel-size`\n"
    assert told == result.stderr
    assert 1 == result.exit_code


def test_unsafe_fixes_change_the_layout_on_the_same_gpus() -> None:
    write("pod.yaml", POD)
    result = run("check", "--unsafe-fixes")
    expected = POD.replace('"8"]', '"4", "--data-parallel-size", "2"]')
    assert expected == Path("pod.yaml").read_text(encoding="utf-8")
    assert "fixed pod.yaml: TP 8 → TP 4 × DP 2 on the same 8 GPUs\n" == result.stderr
    assert 0 == result.exit_code


def test_fixed_file_keeps_its_byte_order_mark_and_line_ends() -> None:
    write("pod.yaml", b"\xef\xbb\xbf" + POD.replace("\n", "\r\n").encode())
    run("check", "--unsafe-fixes")
    expected = POD.replace('"8"]', '"4", "--data-parallel-size", "2"]').replace("\n", "\r\n")
    assert b"\xef\xbb\xbf" + expected.encode() == Path("pod.yaml").read_bytes()


def test_diff_shows_all_fixes_and_writes_nothing() -> None:
    write("serve.sh", MISSPELT)
    write("pod.yaml", POD)
    result = run("check", "--diff")
    assert "--- a/pod.yaml\n+++ b/pod.yaml\n" in result.stdout
    assert "--- a/serve.sh\n+++ b/serve.sh\n" in result.stdout
    assert (MISSPELT, POD) == tuple(
        Path(name).read_text(encoding="utf-8") for name in ("serve.sh", "pod.yaml")
    )
    assert 1 == result.exit_code
    assert 0 == run("check", "--diff", "--exit-zero").exit_code


def test_diff_of_safe_fixes_leaves_the_layout_alone() -> None:
    write("serve.sh", MISSPELT)
    write("pod.yaml", POD)
    text = run("check", "--diff", "--fix").stdout
    assert "serve.sh" in text
    assert "pod.yaml" not in text


def test_diff_with_nothing_to_change_is_empty() -> None:
    write("serve.sh", HEADS.replace("8", "4"))
    result = run("check", "--diff")
    assert ("", 0) == (result.stdout, result.exit_code)


def test_diff_is_a_patch(folder: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    write("pod.yaml", POD)
    patch = run("check", "--diff").stdout
    subprocess.run(["git", "apply", "-"], input=patch, encoding="utf-8", check=True, cwd=folder)
    assert [] == names("pod.yaml")


# ---------------------------------------------------------------------------------- estimate

ASKED = {
    "--model": "acme/tiny-1b", "--gpu": "H100-SXM-80GB", "--gpu-mem-gib": "70", "--engine": "vllm",
    "--engine-version": "0.33.0", "--tp": "2", "--pp": "2", "--dp": "2", "--attention-dp": "2",
    "--ep": "1", "--dcp": "1", "--dtype": "bfloat16", "--quantization": "fp8",
    "--kv-cache-dtype": "auto", "--gpu-memory-utilization": "0.8", "--mem-fraction-static": "0.8",
    "--max-model-len": "4096", "--max-num-seqs": "64", "--max-num-batched-tokens": "8192",
    "--isl": "1000", "--osl": "200", "--concurrency": "16", "--replicas": "3",
}  # fmt: skip
ONE = ("estimate", "--model", "acme/tiny-1b", "--gpu", "H100-SXM-80GB")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose matrices are known, and an engine with simple rules of memory."""
    known = Catalogue.lookup
    monkeypatch.setattr(Catalogue, "lookup", lambda shelf, id: MODELS.get(id) or known(shelf, id))
    monkeypatch.setattr("shardlint.engines.vllm.VLLMMemory", SimpleMemory)


def batch_of(text: str, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    result = run("estimate", "--batch", "-", *arguments, stdin=text)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("tiny")
def test_estimate_takes_every_option_and_a_batch_the_same_keys() -> None:
    options = [word for pair in ASKED.items() for word in pair]
    result = run("estimate", *options, "--enforce-eager", "--format", "json")
    document = json.loads(result.stdout)
    jsonschema.validate(document, schema("estimate"))
    keys = {name.removeprefix("--").replace("-", "_"): value for name, value in ASKED.items()}
    line = json.dumps({**keys, "enforce_eager": True, "id": None})
    assert (0, [document]) == batch_of(line)
    assert math.isclose(70, sum(document["breakdown"].values()), abs_tol=1e-3)


@pytest.mark.usefixtures("tiny")
def test_estimate_for_people_adds_up_to_the_card() -> None:
    text = run(*ONE, "--dp", "2", "--isl", "100", "--osl", "28", "--concurrency", "9",
               "--replicas", "3").stdout  # fmt: skip
    assert text.startswith("acme/tiny-1b on H100-SXM-80GB, vLLM ")
    assert "TP 1 × DP 2 = 2 GPUs\n3 replicas = 6 GPUs, " in text
    parts = re.findall(r"^. \S.{10} +([\d.]+) GiB$", text, re.M)
    (card,) = re.findall(r"One GPU, ([\d.]+) GiB", text)
    assert round(100 * float(card)) == sum(round(100 * float(part)) for part in parts)
    assert "workload  9 × 128 = 1,152 tokens; a replica holds " in text
    assert "\nverdict   fits\n" in text
    assert "\x1b" not in text


@pytest.mark.usefixtures("tiny")
def test_estimate_that_does_not_fit_is_an_answer_too() -> None:
    result = run(*ONE, "--gpu-mem-gib", "3")
    assert 0 == result.exit_code
    assert "verdict   does not fit: " in result.stdout
    assert "GiB may be used" in " ".join(result.stdout.split())


@pytest.mark.usefixtures("tiny")
def test_estimate_takes_the_whole_card_of_the_configuration() -> None:
    """Its memory and link, too, as the option of the command line says them."""
    write("c.toml", '[hardware]\ngpu = "H1000:8,mem=32GiB"\nlink = "pcie"\n')
    asked = ("estimate", "--model", "acme/tiny-1b", "--config", "c.toml", "--format", "json")
    document = json.loads(run(*asked).stdout)
    assert math.isclose(32, sum(document["breakdown"].values()), abs_tol=1e-3)
    write("c.toml", '[hardware]\ngpu = "H100-SXM-80GB"\nlink = "pcie"\n')
    two = json.loads(run(*asked, "--tp", "2", *LOAD).stdout)
    assert "not_modelled" == two["class"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "H100"], "estimate: model is not stated"),
        (["--model", "acme/x"], "estimate: gpu is not stated"),
        (["--model", "acme/x", "--gpu", "H100", "--tp", "x"], "estimate: tp: 'x' is not a whole"),
        (["--model", "acme/x", "--gpu", "H100"], "estimate: model: 'acme/x' is neither in the"),
        (["--batch", "nope.jsonl"], "nope.jsonl: No such file or directory"),
    ],
)
def test_estimate_of_nothing_is_an_error(arguments: list[str], message: str) -> None:
    assert failure("estimate", *arguments).startswith(f"shardlint: {message}")


@pytest.mark.usefixtures("tiny")
def test_batch_answers_every_line_and_tells_of_broken_ones() -> None:
    good = '{"id": "a", "model": "acme/tiny-1b", "gpu": "H100"}'
    code, (first, broken, last) = batch_of(f"{good}\n{{\n\n{good}\n")
    assert 1 == code
    assert {"schema_version", "id", "error"} == set(broken)
    assert first == last
    assert (0, [first]) == batch_of(good)
    write("lines.jsonl", good)
    assert [first] == [json.loads(run("estimate", "--batch", "lines.jsonl").stdout)]


def test_batch_of_nothing_is_answered_with_nothing() -> None:
    assert (0, []) == batch_of("\n\n")


def test_batch_answers_while_it_is_asked(folder: Path) -> None:
    """The answer to a line does not wait for the next one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "shardlint.cli", "estimate", "--batch", "-"],
        cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for id in range(3):
            process.stdin.write(f'{{"id": {id}}}\n')
            process.stdin.flush()
            assert id == json.loads(process.stdout.readline())["id"]
        process.stdin.close()
    assert 1 == process.returncode


# ---------------------------------------------------------------------------------- recommend

QWEN = ("recommend", "--model", "Qwen/Qwen3-32B", "--gpu", "H100-SXM-80GB:8")
LOAD = ("--isl", "1024", "--osl", "256")


def recommendation(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--format", "json")
    assert 0 == result.exit_code, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(document, schema("recommend"))
    return document


def best(*arguments: str) -> dict[str, Any]:
    first: dict[str, Any] = recommendation(*arguments)["candidates"][0]
    return first


SERVED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 1
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-32B", "--tensor-parallel-size", "8"]
        resources: {limits: {nvidia.com/gpu: 8}}
"""
"""A plan that can be changed to smaller replicas, and more of them."""


@pytest.mark.usefixtures("tiny")
def test_recommend_takes_every_option_of_a_question_but_the_layout() -> None:
    asked = {name: value for name, value in ASKED.items() if name not in NO_QUESTION}
    options = [word for pair in {**asked, "--gpu": "H100-SXM-80GB:4"}.items() for word in pair]
    found = recommendation("recommend", *options, "--enforce-eager")
    assert found["candidates"]
    for option in NO_QUESTION:
        assert re.search(f"No such option:? '?{option}\\b", run("recommend", option, "2").stderr)


def test_recommend_takes_the_memory_of_a_card_that_is_not_known() -> None:
    asked = ("recommend", "--model", "Qwen/Qwen3-8B", "--gpu", "FOO:8", "--isl", "512")
    told = recommendation(*asked, "--osl", "512", "--gpu-mem-gib", "80")["candidates"]
    assert told[0]["fits"]
    assert {"not_modelled"} == {item["class"] for item in told}
    assert "unknown card 'FOO'" in run(*asked).stderr


def test_requests_of_a_shorter_context_are_told_by_their_length() -> None:
    asked = ("recommend", "--model", "Qwen/Qwen3-32B-AWQ", "--gpu", "RTX-3090:2")
    out = run(*asked, "--isl", "4096", "--osl", "1024").stdout
    (line,) = (line for line in out.splitlines() if line[3:7] == "TP 1")
    assert re.search(r" \d+\.\d of 5,120 ", line)


def test_recommend_for_people_names_layout_wall_fleet_and_options() -> None:
    large = ("recommend", "--model", "meta-llama/Llama-3.1-70B-Instruct", *QWEN[3:])
    text = run(*large, *LOAD, "--concurrency", "64").stdout
    assert text.startswith("meta-llama/Llama-3.1-70B-Instruct on 1 node of 8 GPUs, for")
    assert re.search(r"^1  TP \d +\d+ +8 ", text, re.M)
    for label in ("wall", "fleet", "options", "1", "rejected", "assumes"):
        assert re.search(rf"^{label} ", text, re.M), label
    assert max(map(len, text.splitlines())) <= 120
    assert "\x1b" not in text


def test_recommend_says_the_same_for_machines() -> None:
    found = recommendation(*QWEN, *LOAD, "--nodes", "2")
    assert (16, None) == (found["gpus"], found["diff"])
    assert list(range(1, 6)) == [item["rank"] for item in found["candidates"]]
    for item in found["candidates"]:
        sizes = item["layout"]
        each = math.prod(sizes[name] for name in ("tp", "pp", "dp", "attention_dp"))
        assert each * item["replicas"] == item["gpus"]
        assert 16 == item["gpus"] + item["unused_gpus"]
        assert math.isclose(1 / item["replicas"], item["blast_radius"], abs_tol=1e-4)
        low, high = item["range"]
        assert low < item["output_tok_s"] < high


def test_recommend_without_a_workload_says_nothing_of_speed() -> None:
    found = recommendation(*QWEN)
    for item in found["candidates"]:
        assert (None, None, None) == (item["output_tok_s"], item["tpot_ms"], item["range"])
        assert "not_modelled" == item["class"]
    assert "tok/s" not in run(*QWEN).stdout


def test_recommend_counts_replicas_for_a_target_with_headroom() -> None:
    target = (*QWEN, *LOAD, "--nodes", "4", "--target-tok-s", "9000", "--tpot", "100")
    plain, spare = (best(*target, "--headroom", share) for share in ("0", "0.5"))
    assert plain["needed"] == plain["replicas"]
    assert math.ceil(1.5 * spare["needed"]) == spare["replicas"]
    assert f"{spare['needed']} for the target and" in run(*target, "--headroom", "0.5").stdout


def test_recommend_takes_a_rate_of_requests_for_one_of_tokens() -> None:
    by_tokens = best(*QWEN, *LOAD, "--nodes", "4", "--target-tok-s", "2560")
    assert by_tokens == best(*QWEN, *LOAD, "--nodes", "4", "--request-rate", "10")


@pytest.mark.parametrize(("goal", "field"), [("--ttft", "ttft_ms"), ("--tpot", "tpot_ms")])
def test_recommend_holds_to_a_goal(goal: str, field: str) -> None:
    free = best(*QWEN, *LOAD)[field]
    found = best(*QWEN, *LOAD, goal, str(free / 2))
    assert found["reaches_goals"]
    assert found[field] <= free / 2


def test_recommend_ranks_by_the_objective() -> None:
    latency = best(*QWEN, *LOAD, "--objective", "latency", "--concurrency", "8")
    assert 8 == latency["layout"]["tp"]
    throughput = best(*QWEN, *LOAD, "--objective", "throughput")
    assert throughput["layout"]["tp"] < 8


def test_recommend_tells_the_price_of_tokens() -> None:
    found = best(*QWEN, *LOAD, "--price", "2.5")
    expected = 2.5 * 8 / 3600 / found["output_tok_s"] * 1e6
    assert math.isclose(expected, found["usd_per_million_tokens"], rel_tol=1e-3)
    low, high = found["usd_per_million_tokens_range"]
    assert low < expected < high
    text = run(*QWEN, *LOAD, "--price", "2.5").stdout
    assert f"20.00 USD an hour, {expected:,.2f} USD" in " ".join(text.split())
    assert best(*QWEN, *LOAD)["usd_per_million_tokens"] is None
    assert best(*QWEN, "--price", "2.5")["usd_per_million_tokens"] is None


def test_recommend_tells_the_price_as_a_range_where_the_speed_is_one() -> None:
    found = ("recommend", "--model", "Qwen/Qwen3-30B-A3B", "--gpu", "L40S:4", *LOAD, "--price", "1")
    low, high = best(*found)["usd_per_million_tokens_range"]
    text = " ".join(run(*found).stdout.split())
    assert f"{low:,.2f} to {high:,.2f} USD for a million output tokens" in text


def test_recommend_tells_what_a_session_leaves() -> None:
    found = best(*QWEN, *LOAD, "--session", "40000")["session"]
    assert (40_000, True, 40_960) == (found["tokens"], found["fits"], found["longest"])
    assert 0 < found["cache_share"] < 1
    text = " ".join(run(*QWEN, *LOAD, "--session", "40000").stdout.split())
    assert f"takes {found['cache_share']:.0%} of a KV cache and leaves room for" in text
    long = " ".join(run(*QWEN, *LOAD, "--session", "200000").stdout.split())
    assert "one of 200,000 tokens does not run: model and KV cache take 40,960 at most" in long


def test_recommend_tells_of_idle_stages_and_shared_prefixes() -> None:
    write("c.toml", "[workload]\nisl = 1000\nosl = 200\nconcurrency = 1\nprefix_share = 0.6\n")
    huge = ("recommend", "--model", "meta-llama/Llama-3.1-405B-Instruct", "--config", "c.toml")
    found = best(*huge, "--gpu", "H100-SXM-80GB:8", "--nodes", "2")
    stages = found["layout"]["pp"]
    assert stages > 1
    assert found["pipeline"] == {
        "stages": stages, "requests": 1, "idle_stages": stages - 1,
        "bubble": round((stages - 1) / stages, 4),
    }  # fmt: skip
    assert {"caches": 1, "aware": 0.6, "blind": 0.6} == found["prefix_hits"]
    text = " ".join(run(*huge, "--gpu", "H100-SXM-80GB:8", "--nodes", "2").stdout.split())
    assert f"{stages - 1} of {stages} stages are always idle" in text
    assert "prefixes 60% of the input was there before" in text


def test_recommend_takes_the_workload_and_the_goals_of_the_configuration() -> None:
    write("c.toml", "[workload]\nisl = 1024\nosl = 256\ntarget_tok_s = 9000\ntpot_ms = 100\n")
    told = best(*QWEN, "--nodes", "4", "--config", "c.toml")
    stated = (*LOAD, "--target-tok-s", "9000", "--tpot", "100")
    assert best(*QWEN, "--nodes", "4", *stated) == told
    rate = best(*QWEN, "--nodes", "4", "--config", "c.toml", "--request-rate", "4")
    assert rate["needed"] < told["needed"]


def test_recommend_takes_machines_and_price_of_the_only_pool_with_the_card() -> None:
    pool = '[[pool]]\ngpu = "{}"\nper_node = 4\nnodes = 2\nprice = 3\n'
    write("c.toml", pool.format("H100-SXM-80GB") + pool.format("L4"))
    named = ("recommend", "--model", "Qwen/Qwen3-32B", "--config", "c.toml", *LOAD)
    found = recommendation(*named, "--gpu", "H100-SXM-80GB")
    assert 8 == found["gpus"]
    first = found["candidates"][0]
    price = 3 * first["gpus"] / 3600 / first["output_tok_s"] * 1e6
    assert math.isclose(price, first["usd_per_million_tokens"], rel_tol=1e-3)
    assert 6 == recommendation(*named, "--gpu", "H100-SXM-80GB:6", "--nodes", "1")["gpus"]
    write("c.toml", pool.format("H100-SXM-80GB") * 2)
    assert "how many GPUs a node has is not known" in failure(*named, "--gpu", "H100-SXM-80GB")


def test_recommend_takes_the_machine_of_the_configuration() -> None:
    write("c.toml", '[hardware]\ngpu = "H100-SXM-80GB:4"\nnodes = 2\nlink = "pcie"\n')
    found = recommendation("recommend", "--model", "Qwen/Qwen3-32B", *LOAD, "--config", "c.toml")
    assert 8 == found["gpus"]
    two = next(item for item in found["candidates"] if item["layout"]["tp"] == 2)
    assert "not_modelled" == two["class"]  # how fast that link is, is not known


def test_recommend_says_which_gpus_are_not_used() -> None:
    large = ("recommend", "--model", "meta-llama/Llama-3.1-70B-Instruct", *LOAD)
    found = recommendation(*large, "--gpu", "H100-SXM-80GB:5")
    four = next(item for item in found["candidates"] if item["layout"]["tp"] == 4)
    assert (4, 1) == (four["gpus"], four["unused_gpus"])
    text = run(*large, "--gpu", "H100-SXM-80GB:5").stdout
    if found["candidates"][0]["unused_gpus"]:
        assert "of 5, and 1 are not used" in text


MEASURED = """\
- {tp: 2, output_tok_s: 400, tpot_ms: 40}
- {tp: 4, output_tok_s: 550, tpot_ms: 30, hit_rate: 0.5}
"""


def test_recommend_counts_on_what_was_measured() -> None:
    write("m.yaml", MEASURED)
    target = ("--nodes", "3", "--target-tok-s", "2000", "--tpot", "50")
    found = recommendation(*QWEN, *LOAD, *target, "--measured", "m.yaml")
    first = found["candidates"][0]
    assert (5, 6, 12, 200) == tuple(
        first[name] for name in ("needed", "replicas", "gpus", "output_tok_s_per_gpu")
    )
    assert ("measured", None) == (first["class"], first["range"])
    assert any("one warm replica" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- [", "m.yaml: "),
        (b"\xff\xfe\x00", "m.yaml: "),
        ("tp: 2\n", "recommend: a list of measurements is needed"),
        ("- {tp: 2}\n", "recommend: row 1: output_tok_s is missing"),
        ("- {tp: 2, output_tok_s: fast}\n", "recommend: row 1: output_tok_s is no number"),
    ],
)
def test_recommend_names_the_mistake_in_measurements(text: str | bytes, message: str) -> None:
    write("m.yaml", text)
    assert failure(*QWEN, "--measured", "m.yaml").startswith(f"shardlint: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "H100:8"], "model is not stated"),
        (["--model", "acme/x"], "gpu is not stated"),
        (["--model", "Qwen/Qwen3-8B", "--gpu", "H100"], "how many GPUs a node has is not known"),
        (["--model", "acme/x", "--gpu", "H100:8"], "model: 'acme/x' is neither in the catalogue"),
        ([*QWEN[1:], "--engine", "nope"], "engine: 'nope' is not known"),
        ([*QWEN[1:], "--isl", "x"], "isl: 'x' is not a whole number"),
        ([*QWEN[1:], "--diff"], "--diff needs a manifest"),
        ([*QWEN[1:], "--plan", "llm"], "--plan needs a manifest"),
        ([*QWEN[1:], "--request-rate", "3"], "--request-rate needs --osl"),
        ([*QWEN[1:], "--request-rate", "3", "--target-tok-s", "9"], "--target-tok-s and"),
    ],
)
def test_recommend_of_nothing_is_an_error(arguments: list[str], message: str) -> None:
    assert failure("recommend", *arguments).startswith(f"shardlint: recommend: {message}")


def test_recommend_needs_files_that_are_there() -> None:
    assert "shardlint: no.yaml: No such file or directory" == failure(
        *QWEN, "--measured", "no.yaml"
    )
    assert "shardlint: no.yaml: no such file or folder" == failure("recommend", "no.yaml")
    assert "no.toml" in failure(*QWEN, "--config", "no.toml")
    assert failure(*QWEN, "--gpu", "H1000:8").startswith("shardlint: --gpu: unknown card 'H1000'")


@pytest.mark.parametrize(
    "arguments",
    [("--nodes", "0"), ("--headroom", "-1"), ("--objective", "speed"), ("--price", "x"),
     ("--target-tok-s", "0"), ("--session", "0"), ("--tpot", "-2"), ("--format", "xml")],
)  # fmt: skip
def test_recommend_with_a_value_that_cannot_be_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    result = run(*QWEN, *arguments)
    assert (2, "") == (result.exit_code, result.stdout)


def test_recommend_that_finds_nothing_is_an_answer() -> None:
    large = ("recommend", "--model", "meta-llama/Llama-3.1-405B-Instruct", "--gpu", "L4:1")
    found = recommendation(*large)
    assert ("fit", []) == (found["wall"], found["candidates"])
    assert "No layout holds the model." in run(*large).stdout


def test_recommend_reads_the_question_from_a_manifest() -> None:
    write("llm.yaml", SERVED)
    told = ("--gpu", "H100-SXM-80GB:8")
    by_plan = recommendation("recommend", "llm.yaml", *told, *LOAD)
    by_hand = recommendation(*QWEN, *LOAD, "--engine-version", "0.33.0")
    assert by_hand == by_plan
    shorter = recommendation("recommend", "llm.yaml", *told, "--max-model-len", "4096")
    held, more = (
        next(item["max_concurrency"] for item in found["candidates"] if item["layout"]["tp"] == 2)
        for found in (by_plan, shorter)
    )
    assert math.isclose(10 * held, more, rel_tol=0.01)  # requests of 4,096 tokens, not 40,960


def test_recommend_takes_a_release_from_those_that_a_manifest_can_mean() -> None:
    write("llm.yaml", SERVED.replace("v0.33.0", "latest"))
    asked = ("recommend", "llm.yaml", "--gpu", "H100-SXM-80GB:8", *LOAD)
    taken = [note for note in recommendation(*asked)["notes"] if "is taken for" in note]
    assert re.fullmatch(r"vLLM [\d.]+ is taken for 0\.6\.0 to 0\.33\.0", taken[0])
    stated = recommendation(*asked, "--engine-version", "0.33.0")["notes"]
    assert not [note for note in stated if "is taken" in note]


def test_recommend_takes_the_link_and_the_price_of_the_pool_of_a_manifest() -> None:
    pool = '[[pool]]\ngpu = "H100-SXM-80GB:8"\nprice = 2\n'
    write("llm.yaml", SERVED)
    write("shardlint.toml", pool)
    first = best("recommend", "llm.yaml", *LOAD)
    assert first["usd_per_million_tokens"] is not None
    write("shardlint.toml", pool + 'link = "pcie"\n')
    two = next(
        item for item in recommendation("recommend", "llm.yaml", *LOAD)["candidates"]
        if item["layout"]["tp"] == 2
    )  # fmt: skip
    assert "not_modelled" == two["class"]


def test_recommend_shows_the_change_of_a_manifest_and_writes_nothing(folder: Path) -> None:
    """The patch gives a manifest that needs no change."""
    write("llm.yaml", SERVED)
    asked = ("recommend", "llm.yaml", "--gpu", "H100-SXM-80GB:8", *LOAD)
    patch = run(*asked, "--diff").stdout
    assert SERVED == Path("llm.yaml").read_text(encoding="utf-8")
    first = best(*asked)
    size, replicas = first["layout"]["tp"], first["replicas"]
    assert (size, replicas) != (8, 1)
    assert f'+        args: ["Qwen/Qwen3-32B", "--tensor-parallel-size", "{size}"]' in patch
    assert patch == recommendation(*asked, "--diff")["diff"]
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "apply", "-"], input=patch, encoding="utf-8", check=True, cwd=folder)
    (plan,) = json.loads(run("inspect", "llm.yaml", "--format", "json").stdout)["plans"]
    effective = plan["effective"]
    assert (size, replicas) == (effective["tp"], effective["replicas"])
    assert first["gpus"] == size * first["layout"]["pp"] * effective["replicas"]
    assert "" == run(*asked, "--diff").stdout


def test_recommend_says_how_often_to_start_what_has_no_place_for_replicas() -> None:
    """A script starts one engine: smaller ranks alone would leave GPUs idle."""
    write("serve.sh", "vllm serve Qwen/Qwen3-8B -tp 4\n")
    asked = ("recommend", "serve.sh", "--gpu", "H100-SXM-80GB:4", *LOAD)
    assert best(*asked)["replicas"] > 1
    count = best(*asked)["replicas"]
    for form in ("text", "json"):
        shown = run(*asked, "--diff", "--format", form)
        assert "-vllm serve Qwen/Qwen3-8B -tp 4" in shown.stdout
        assert f"not in the change: {count} replicas: serve.sh is one of them" in shown.stderr
    one = ("--objective", "latency", "--concurrency", "1")
    write("serve.sh", "vllm serve Qwen/Qwen3-8B -tp 2\n")
    assert "+vllm serve Qwen/Qwen3-8B -tp 4" in run(*asked, *one, "--diff").stdout


def test_recommend_cannot_show_a_change_where_nothing_fits() -> None:
    write("llm.yaml", SERVED.replace("Qwen/Qwen3-32B", "meta-llama/Llama-3.1-405B-Instruct"))
    line = failure("recommend", "llm.yaml", "--gpu", "L4:1", "--diff")
    assert "shardlint: recommend: no layout holds the model" == line


def test_recommend_does_not_give_a_pod_more_gpus_than_a_node_has() -> None:
    write("llm.yaml", SERVED.replace("Qwen/Qwen3-32B", "meta-llama/Llama-3.1-405B-Instruct"))
    asked = ("recommend", "llm.yaml", "--gpu", "H100-SXM-80GB:8", "--nodes", "2")
    assert 16 == best(*asked)["gpus"]
    assert "a replica of 16 GPUs cannot be written: it has 1 × 8 GPUs now" in failure(
        *asked, "--diff"
    )


GROUPED = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          command: [sh, -c]
          args: ["vllm serve meta-llama/Llama-3.1-405B-Instruct -tp 4 -pp 4 --nnodes 2
            --node-rank $LWS_WORKER_INDEX --master-addr $LWS_LEADER_ADDRESS"]
          resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_recommend_keeps_the_pods_of_a_group() -> None:
    """Two nodes stay two nodes: what changes is what runs on them."""
    write("llm.yaml", GROUPED)
    asked = ("recommend", "llm.yaml", "--gpu", "H100-SXM-80GB:8", "--nodes", "2", *LOAD)
    first = best(*asked, "--objective", "latency", "--concurrency", "8")
    assert (8, 2, 16) == (first["layout"]["tp"], first["layout"]["pp"], first["gpus"])
    patch = run(*asked, "--objective", "latency", "--concurrency", "8", "--diff").stdout
    assert "-tp 8 -pp 2" in patch
    assert "+            size" not in patch
    small = ("--model", "Qwen/Qwen3-8B")
    assert "cannot be written: it has 2 × 8 GPUs now" in failure(*asked, *small, "--diff")


def test_recommend_shows_no_change_that_leads_to_an_error() -> None:
    """Two ranks share a /dev/shm that is too small for them; one has none to share."""
    alone = SERVED.replace(', "--tensor-parallel-size", "8"', "").replace("gpu: 8", "gpu: 1")
    write("llm.yaml", alone.replace("      hostIPC: true\n", ""))
    asked = ("recommend", "llm.yaml", "--gpu", "H100-SXM-80GB:8", *LOAD)
    assert best(*asked)["layout"]["tp"] > 1
    assert "the change leads to shm-missing: " in failure(*asked, "--diff")
    write("llm.yaml", alone)
    assert "--tensor-parallel-size" in run(*asked, "--diff").stdout


def test_recommend_of_several_plans_needs_the_name_of_one() -> None:
    write("a.yaml", SERVED)
    write("b.yaml", SERVED.replace("name: llm", "name: chat").replace("32B", "8B"))
    told = ("recommend", ".", "--gpu", "H100-SXM-80GB:8")
    assert "several plans were read, name one with --plan: " in failure(*told)
    named = {name: recommendation(*told, "--plan", name) for name in ("llm/vllm", "chat/vllm")}
    assert named["llm/vllm"] != named["chat/vllm"]
    assert "no plan 'x' was read" in failure(*told, "--plan", "x")
    write("empty/a.yaml", "a: b\n")
    assert "no plan was read" in failure("recommend", "empty", "--gpu", "H100-SXM-80GB:8")


@pytest.mark.parametrize(
    ("options", "release", "written"),
    [
        ("--tp 8", "0.5.23", "--tp 8 --attn-dp-size {}"),
        ("--tp 8", "0.5.10", "--tp 8 --dp-size {} --enable-dp-attention"),
        ("--tp 8 --dp-size 1", "0.5.10", "--tp 8 --enable-dp-attention"),
    ],
)
def test_recommend_spells_attention_dp_as_the_release_takes_it(
    options: str, release: str, written: str
) -> None:
    start = "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1"
    write("serve.sh", f"{start} {options}\n")
    asked = ("recommend", "serve.sh", "--gpu", "H200-SXM-141GB:8", "--engine-version", release)
    groups = best(*asked, *LOAD)["layout"]["attention_dp"]
    assert groups > 1
    (line,) = (row for row in run(*asked, *LOAD, "--diff").stdout.splitlines() if row[:2] == "+p")
    assert f" {written.format(groups)} " in line
    assert "--dp-size 1" not in line


def test_recommend_does_not_guess_what_a_manifest_leaves_open() -> None:
    write("serve.sh", "vllm serve $MODEL -tp 2\n")
    assert "the model of " in failure("recommend", "serve.sh", "--gpu", "H100-SXM-80GB:8")
    write("serve.sh", "vllm serve Qwen/Qwen3-8B --max-model-len $LENGTH\n")
    line = failure("recommend", "serve.sh", "--gpu", "H100-SXM-80GB:8")
    assert "the longest request is not decided" in line


# ------------------------------------------------------------------------------ memory in inspect


@pytest.mark.usefixtures("tiny")
def test_memory_of_a_plan_is_that_of_an_estimate() -> None:
    write("serve.sh", "vllm serve acme/tiny-1b -tp 2 --max-model-len 4096\n")
    told = ["--gpu", "H100-SXM-80GB:2", "--engine-version", "vllm=0.33.0"]
    document = json.loads(run("inspect", "--format", "json", *told).stdout)
    jsonschema.validate(document, schema("inspect"))
    (plan,) = document["plans"]
    asked = ["--tp", "2", "--max-model-len", "4096", "--engine-version", "0.33.0"]
    estimate = json.loads(run(*ONE, *asked, "--format", "json").stdout)
    assert {name: estimate[name] for name in plan["memory"]} == plan["memory"]
    assert [] == [item for item in plan["unknown"] if item["field"] == "memory"]
    text = run("inspect", *told).stdout
    assert re.search(r"^  memory    weights [\d.]+ GiB and KV cache [\d.]+ GiB of 79", text, re.M)
    assert re.search(r"^            [\d,]+ tokens, [\d,.]+ requests of 4,096; fits$", text, re.M)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("command", "gpu", "reason"),
    [
        ("vllm serve acme/tiny-1b", None, "the card is not stated"),
        ("vllm serve acme/tiny-1b", "A100", "not decided: the card"),
        ("vllm serve acme/tiny-1b -tp $N", "L40S", "N"),
        ("vllm serve acme/tiny-1b --max-model-len $N", "L40S", "N"),
        ("vllm serve acme/bare-1b", "L40S", "the weights of acme/bare-1b are not known"),
        ("vllm serve acme/nobody", "L40S", "acme/nobody is not in the model catalogue"),
        ("llama-server --model acme/tiny-1b", "L40S", "options of llama.cpp are not read"),
    ],
)  # fmt: skip
def test_memory_of_a_plan_that_is_not_decided_is_null(
    command: str, gpu: str | None, reason: str
) -> None:
    write("serve.sh", command + "\n")
    told = ["--gpu", gpu] if gpu else []
    document = json.loads(run("inspect", "--format", "json", *told).stdout)
    jsonschema.validate(document, schema("inspect"))
    (plan,) = document["plans"]
    assert plan["memory"] is None
    (told,) = [item["reason"] for item in plan["unknown"] if item["field"] == "memory"]
    assert reason in told
    assert "\n  memory" not in run("inspect", *told).stdout


@pytest.mark.usefixtures("tiny")
def test_release_that_is_a_range_is_taken_from_its_middle_and_said() -> None:
    write("serve.sh", "vllm serve acme/tiny-1b\n")
    document = json.loads(run("inspect", "--format", "json", "--gpu", "H200-SXM-141GB").stdout)
    assumed = document["plans"][0]["memory"]["assumptions"]
    assert any("is taken for 0.6.0 to 0.33.0" in sentence for sentence in assumed)


# ------------------------------------------------------------------------- explain, rules, lists


def test_explain_prints_the_page_of_a_rule() -> None:
    by_id, by_name = (run("explain", rule).stdout for rule in ("SL101", "tp-heads-indivisible"))
    assert by_id == by_name
    assert by_id.startswith("SL101 tp-heads-indivisible (error)\n\nAttention heads do not divide")


def test_explain_prints_every_page() -> None:
    listed = [line.split()[0] for line in run("rules").stdout.splitlines()]
    pages = run("explain", "--all").stdout
    assert listed == re.findall(r"^(SL\d{3}) [a-z0-9-]+ \(", pages, re.M)
    assert len(listed) <= len(re.findall(r"^```\w+ fails( --.+)?$", pages, re.M))


def test_explain_as_json() -> None:
    (page,) = json.loads(run("explain", "SL101", "--format", "json").stdout)
    assert ("SL101", "tp-heads-indivisible") == (page["rule"], page["name"])
    assert page["page"].startswith("Attention heads")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SL9044"], "unknown rule 'SL9044'; did you mean 'SL904'?"),
        ([], "explain: name a rule, or use --all"),
    ],
)
def test_explain_needs_a_rule(arguments: list[str], message: str) -> None:
    assert f"shardlint: {message}" == failure("explain", *arguments)


def test_rules_are_listed_in_order_of_their_ids() -> None:
    lines = run("rules").stdout.splitlines()
    assert lines[0].startswith("SL101  error    tp-heads-indivisible       Attention heads")
    assert sorted(lines) == lines
    rows = json.loads(run("rules", "--format", "json").stdout)
    assert [line.split()[0] for line in lines] == [row["rule"] for row in rows]
    assert {"rule", "name", "severity", "summary", "fix", "enabled", "url"} == set(rows[0])


def test_models_are_listed() -> None:
    listed = run("models").stdout.splitlines()
    assert "Qwen/Qwen2.5-7B-Instruct" in listed
    assert listed == json.loads(run("models", "--format", "json").stdout)


def test_model_is_shown_by_its_id() -> None:
    shown = json.loads(run("models", "show", "Qwen/Qwen2.5-7B-Instruct", "--format", "json").stdout)
    assert (28, 4, 28) == (shown["attention_heads"], shown["kv_heads"], shown["num_layers"])
    assert [1, 2, 4] == shown["valid_tp"]["vllm"]
    assert [] == shown["unknown"]
    text = run("models", "show", "Qwen/Qwen2.5-7B-Instruct").stdout
    assert "attention_heads          28\n" in text


def test_valid_sizes_are_those_that_each_engine_takes() -> None:
    shown = json.loads(run("models", "show", "Qwen/Qwen3-30B-A3B", "--format", "json").stdout)
    facts = Catalogue().lookup("Qwen/Qwen3-30B-A3B")
    checked = [engine for engine in builtin.shardlint_engines() if engine.checked]
    assert {
        engine.name: [n for n in range(1, 65) if refuses(engine, Layout(tp=n), facts) is None]
        for engine in checked
    } == shown["valid_tp"]
    assert 1 in shown["valid_tp"]["vllm"]
    assert 3 not in shown["valid_tp"]["vllm"]


def test_sizes_are_null_where_the_heads_are_not_known() -> None:
    write("own/config.json", '{"model_type": "llama"}')
    shown = json.loads(run("models", "show", "own", "--format", "json").stdout)
    assert {None} == set(shown["valid_tp"].values())
    assert {"the number of attention heads is not known"} == {
        item["reason"] for item in shown["unknown"]
    }


@pytest.mark.parametrize(
    "reference", ["Qwen/Qwen3-30B-A3B", "acme/Qwen3-8B-AWQ", "openai/gpt-oss-120b", "own"]
)
def test_model_is_shown_as_its_schema_says(reference: str) -> None:
    write("own/config.json", "{}")
    shown = json.loads(run("models", "show", reference, "--format", "json").stdout)
    jsonschema.validate(shown, schema("models_show"))


def test_cache_of_the_hub_is_looked_into_when_told(tmp_path: Path) -> None:
    """Offline, only the snapshot that main points to is read, and nothing is written."""
    model, commit = tmp_path / "models--acme--own", "c" * 40
    for folder, heads in ((commit, 12), ("d" * 40, 24)):
        (model / "snapshots" / folder).mkdir(parents=True)
        config = json.dumps({"model_type": "llama", "num_attention_heads": heads})
        (model / "snapshots" / folder / "config.json").write_text(config)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commit)
    before = sorted(tmp_path.rglob("*"))
    told = ["models", "show", "acme/own", "--format", "json"]
    for online, code in (([], 2), (["--online"], 0)):
        done = subprocess.run(
            [sys.executable, "-m", "shardlint.cli", *told, *online],
            capture_output=True, text=True, check=False,
            env={**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert code == done.returncode
    shown = json.loads(done.stdout)
    assert (12, "hub") == (shown["attention_heads"], shown["provenance"])
    assert before == sorted(tmp_path.rglob("*"))


def test_guess_is_shown_as_assumed() -> None:
    shown = json.loads(run("models", "show", "acme/Qwen3-8B-AWQ", "--format", "json").stdout)
    assert ("assumed", "name", None) == (
        shown["confidence"], shown["provenance"], shown["quantization"],
    )  # fmt: skip
    text = run("models", "show", "acme/Qwen3-8B-AWQ").stdout
    assert "assumes                  the shape of Qwen/Qwen3-8B" in text
    assert "[" not in text
    assert "{" not in text


def test_model_is_shown_by_a_path_to_its_config() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 768,
        "num_attention_heads": 12, "num_key_value_heads": 3, "num_hidden_layers": 2,
        "intermediate_size": 3072, "vocab_size": 32000,
    }  # fmt: skip
    write("own/config.json", json.dumps(config))
    for reference in ("own", "own/config.json"):
        shown = json.loads(run("models", "show", reference, "--format", "json").stdout)
        assert (12, 3) == (shown["attention_heads"], shown["kv_heads"])


def test_model_of_the_configuration_is_listed() -> None:
    write("c.toml", '[models."acme/chat"]\nbase = "Qwen/Qwen2.5-7B-Instruct"\n')
    assert "acme/chat" in run("models", "--config", "c.toml").stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "models show: name a model or a path to its config.json"),
        (["show", "no/model"], "models show: no/model is neither in the catalogue nor a path"),
    ],
)
def test_model_that_is_not_known_is_an_error(arguments: list[str], message: str) -> None:
    assert f"shardlint: {message}" == failure("models", *arguments)


def test_gpus_are_listed() -> None:
    lines = run("gpus").stdout.splitlines()
    assert any(line.startswith("H100-SXM-80GB ") for line in lines)
    rows = json.loads(run("gpus", "--format", "json").stdout)
    assert [line.split()[0] for line in lines] == [row["name"] for row in rows]


def test_card_of_the_configuration_is_listed() -> None:
    write("c.toml", "[gpus.MyCard]\nmem_gb = 96\n")
    assert "MyCard" in run("gpus", "--config", "c.toml").stdout


# -------------------------------------------------------------------------------------- inspect


def test_inspect_writes_the_product_out() -> None:
    write("serve.sh", "vllm serve meta-llama/Llama-3.1-405B-Instruct -tp 8 -pp 2 -dp 4\n")
    result = run("inspect", "serve.sh")
    assert "TP 8 × PP 2 × DP 4 = 64 GPUs" in result.stdout
    assert 0 == result.exit_code


def test_inspect_as_json_holds_to_its_schema() -> None:
    shutil.copytree(EXAMPLES, "examples")
    document = json.loads(run("inspect", "examples", "--format", "json").stdout)
    jsonschema.validate(document, schema("inspect"))
    plan = next(plan for plan in document["plans"] if plan["file"].endswith("bad/pod.yaml"))
    assert (8, 2, 4, 8) == tuple(plan["stated"][key] for key in ("tp", "pp", "dp", "gpus_per_pod"))
    assert (64, 64) == (plan["gpus_per_replica"], plan["gpus_total"])
    assert 16 == plan["ranks"]["world_size"]


def test_inspect_tells_where_each_value_was_read() -> None:
    write("pod.yaml", POD)
    document = json.loads(run("inspect", "--format", "json", "--origins").stdout)
    jsonschema.validate(document, schema("inspect"))
    origins = document["plans"][0]["origins"]
    assert {"file": "pod.yaml", "line": 8, "column": 67, "how": "stated"} == origins["tp"]


def test_inspect_tells_which_values_are_defaults() -> None:
    write("pod.yaml", POD)
    document = json.loads(run("inspect", "--format", "json", "--origins").stdout)
    origins = document["plans"][0]["origins"]
    assert {"file": None, "line": None, "column": None, "how": "defaulted"} == origins["pp"]


def test_inspect_reads_standard_input() -> None:
    arguments = ["-", "--stdin-filename", "a.sh", "--format", "json"]
    document = json.loads(run("inspect", *arguments, stdin=HEADS).stdout)
    assert ["a.sh"] == [plan["file"] for plan in document["plans"]]


def test_check_as_json_holds_to_its_schema() -> None:
    shutil.copytree(EXAMPLES, "examples")
    found = findings("examples")
    assert {"error", "warning", "info"} == {item["severity"] for item in found}
    assert any(fix["edits"] for item in found for fix in item["fixes"])


# ---------------------------------------------------------------------------------- broken input


BOMB = "".join(f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))

BROKEN: dict[str, tuple[bytes, str]] = {
    "bad-yaml.yaml": (
        POD.encode() + b"  foo: [vllm\n bar: }\n",
        "error this file was not read: while parsing a flow sequence",
    ),
    "binary.yaml": (b"vllm\x00\x01\x02" * 99, "warning this file was not read: a binary file"),
    "fifty-mb.yaml": (
        b"# vllm\n" + b"a: b\n" * 10_000_000,
        "warning this file was not read: larger than the 8 MiB that are read",
    ),
    "deep.yaml": (
        b"# vllm\nkind: Pod\nargs: " + b"[" * 100_000 + b"]" * 100_000 + b"\n",
        "error this file was not read: nested deeper than 200 levels",
    ),
    "tabs.yaml": (
        POD.replace("  - name", "\t- name").encode(),
        "error this file was not read: while scanning for the next token",
    ),
    "latin-1.yaml": (
        POD.replace("{name: llm}", "{name: café}").encode("latin-1"),
        "warning this file was not read: byte 0xe9 is not UTF-8",
    ),
}
"""Files that are not read, with what is said of them."""

ODD: dict[str, bytes] = {
    "crlf.yaml": POD.replace("\n", "\r\n").encode(),
    "bom.yaml": b"\xef\xbb\xbf" + POD.encode(),
}
"""Files that are read as if nothing were odd about them."""

QUIET: dict[str, bytes] = {
    "empty.yaml": b"",
    "blank.yaml": b"\n# vllm\n---\n---\n",
    "scalar.yaml": b"vllm\n",
    "alias-bomb.yaml": f"kind: Pod\nx:\n- &a0 [vllm]\n{BOMB}spec: {{containers: *a29}}\n".encode(),
    "endless.yaml": b"kind: Pod\nspec: &a\n  containers: &b [*b, *a]\n",
}
"""Files without a plan, of which nothing is said."""

TEMPLATE = POD.replace("spec:\n", "{{- if .Values.on }}\nspec:\n", 1) + "{{- end }}\n"


@pytest.fixture
def broken_folder() -> None:
    for name, (data, _) in BROKEN.items():
        write(name, data)
    for name, data in (*ODD.items(), *QUIET.items()):
        write(name, data)
    write("template.yaml", TEMPLATE)
    write("z-bad.yaml", POD)


@pytest.mark.usefixtures("broken_folder")
def test_broken_files_are_told_and_the_others_linted() -> None:
    result = run("check", "--format", "json")
    document = json.loads(result.stdout)
    jsonschema.validate(document, schema("check"))
    found = {item["file"]: f"{item['severity']} {item['message']}" for item in document["findings"]}
    for name, (_, expected) in BROKEN.items():
        assert found.pop(name).startswith(expected), name
    for name in ("z-bad.yaml", *ODD):
        assert found.pop(name).startswith("error 28 attention heads"), name
    assert {} == found
    assert 1 == document["summary"]["skipped"]
    assert (1, "") == (result.exit_code, result.stderr)


@pytest.mark.usefixtures("broken_folder")
@pytest.mark.parametrize("name", ["text", "concise", "github", "sarif", "lsp"])
def test_broken_files_can_be_reported_in_every_format(name: str) -> None:
    result = run("check", "--format", name)
    assert 1 == result.exit_code
    assert "z-bad.yaml" in result.stdout


@pytest.mark.parametrize("name", sorted(QUIET))
def test_file_without_a_plan_is_quiet(name: str) -> None:
    write(name, QUIET[name])
    result = run("check", name)
    assert ("No findings; 1 file, no plans\n", 0) == (result.stdout, result.exit_code)


def test_template_is_skipped_and_counted() -> None:
    write("template.yaml", TEMPLATE)
    result = run("check", "template.yaml")
    assert "skipped template.yaml: a Go template" in result.stdout
    assert 0 == result.exit_code


def test_json_with_comments_does_not_stop_the_others() -> None:
    write("settings.json", '{\n  // vllm\n  "kind": "Pod", "args": ["a"],\n}\n')
    write("z-bad.yaml", POD)
    assert "tp-heads-indivisible" in names()


def test_problem_of_a_file_shows_in_inspection_of_the_others() -> None:
    write("bad.yaml", BROKEN["tabs.yaml"][0])
    write("pod.yaml", POD)
    document = json.loads(run("inspect", "--format", "json").stdout)
    assert ["pod.yaml"] == [plan["file"] for plan in document["plans"]]


def test_output_that_cannot_be_encoded_is_escaped(folder: Path) -> None:
    """A terminal without Unicode gets the report with escapes, not a traceback."""
    write("pod.yaml", POD)
    done = subprocess.run(
        [sys.executable, "-m", "shardlint.cli", "check", "pod.yaml"],
        cwd=folder,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert (1, b"") == (done.returncode, done.stderr)
    assert b"TP 8 \\u2192 TP 4 \\xd7 DP 2" in done.stdout


def test_recommend_writes_nothing_of_experts_that_a_model_does_not_have() -> None:
    Path("d.yaml").write_text(
        """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: v}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: v
        image: lmsysorg/sglang:v0.5.5
        command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --tp, "8"]
        resources: {limits: {nvidia.com/gpu: 8}}
""",
        encoding="utf-8",
    )
    shown = run("recommend", "d.yaml", "--gpu", "H100-SXM-80GB:8", "--diff")
    assert 0 == shown.exit_code, shown.output
    assert '--tp, "1"]' in shown.stdout


@pytest.mark.parametrize("word", ["nan", "inf"])
def test_a_goal_is_a_number(word: str) -> None:
    asked = ("--model", "Qwen/Qwen3-8B", "--gpu", "H100-SXM-80GB:8", "--ttft", word)
    result = run("recommend", *asked)
    assert 2 == result.exit_code
    assert "is not a number" in result.stderr
