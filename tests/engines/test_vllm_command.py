"""One command line through the releases that it can be meant for: facts, refusals, remarks."""

from __future__ import annotations

from typing import Any

import pytest
from engines.commands import ENGINE, launch
from harness import check, places, project
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlint.engines.vllm import ANY_RELEASE
from shardlint.known import Known
from shardlint.plan import Reading, Releases

RANGE = Known.of(Releases("0.8.0", "0.12.0"))


def read(
    line: str, release: str | Known[Releases] = ANY_RELEASE, image: str | None = None, **env: str
) -> Reading:
    if isinstance(release, str):
        release = ENGINE.versions(Known.of(release))
    reading = ENGINE.read(launch(line, image, **env), release)
    assert reading is not None
    return reading


def refused(line: str, release: str | Known[Releases] = ANY_RELEASE, **more: Any) -> list[str]:
    """Kind, severity, the word and since when, of what is refused."""
    return [
        " ".join(filter(None, (item.kind, item.severity, item.written.value, item.when)))
        for item in read(line, release, **more).refused
    ]


# ---------------------------------------------------------------------------------- by release


@pytest.mark.parametrize(
    ("line", "release", "field", "value"),
    [
        ("--data-parallel 2", "0.8.0", "dp", None),
        ("--data-parallel-size 2", "0.8.5.post1", "dp", 2),
        ("--max-model-len 8k", "0.33.0", "max_model_len", 8000),
        ("--enable-chunked-prefill False", "0.8.0", "enable_chunked_prefill", False),
        ("--enable-chunked-prefill", "0.33.0", "enable_chunked_prefill", True),
        ("--disable-prefix-caching", "0.33.0", "enable_prefix_caching", False),
        ("--no-enable-prefix-caching", "0.33.0", "enable_prefix_caching", False),
    ],
)
def test_option_is_read_with_the_table_of_the_stated_release(
    line: str, release: str, field: str, value: object
) -> None:
    reading = read(f"vllm serve m {line}", release)
    parts = (reading.layout, reading.memory)
    fact = next((getattr(part, field) for part in parts if hasattr(part, field)), None)
    assert value == (reading.options.get(field, Known.unset()) if fact is None else fact).only


def test_what_some_releases_refuse_names_them() -> None:
    line = "vllm serve m --max-model-len 8192 -tp 4 --enable-chunked-prefill=False"
    reading = read(line, RANGE)
    assert 8192 == reading.memory.max_model_len.only
    assert 4 == reading.layout.tp.only
    assert ["value warning --enable-chunked-prefill=False since 0.8.5.post1"] == refused(
        line, RANGE
    )


def test_releases_that_refuse_do_not_decide_what_is_read() -> None:
    reading = read("vllm serve m --max-model-len 8k -tp 2", Known.of(Releases("0.8.0", "0.9.0")))
    assert 8000 == reading.memory.max_model_len.only


def test_release_between_two_opened_ones_is_what_both_are() -> None:
    when = "in 0.18.0 (the one checked after 0.17.2)"
    assert [f"unknown warning --swap-space {when}"] == refused(
        "vllm serve m --swap-space 4", "0.17.2"
    )
    assert ["unknown error --no-such"] == refused("vllm serve m --no-such 4", "0.17.2")


def test_post_release_is_its_release() -> None:
    line = "vllm serve m --speculative-config {}"
    assert [] == refused(line, "0.8.5") == refused(line, "0.8.5.post1")
    assert ["unknown error --speculative-config"] == refused(line, "0.8.0")


@pytest.mark.parametrize("release", ["0.34.0", "0.5.4", "1.0.0"])
def test_nothing_is_certain_of_a_release_that_is_not_in_the_table(release: str) -> None:
    assert [] == refused("vllm serve m --no-such 1", release)
    assert ["unknown warning --max-modl-len"] == refused("vllm serve m --max-modl-len 1", release)
    assert ["value warning --dtype"] == refused("vllm serve m --dtype float7", release)


def test_plugins_may_bring_options() -> None:
    line = "vllm serve m --no-such 1"
    assert ["unknown error --no-such"] == refused(line, "0.33.0")
    assert ["unknown warning --no-such"] == refused(line, "0.33.0", VLLM_PLUGINS="mine")
    assert [] == refused(f"{line} --omni", "0.33.0")
    assert [] == refused("vllm serve m --omni --max-modl-len 1", "0.33.0")


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("m --enable-prefix-caching=true", ["value error --enable-prefix-caching=true"]),
        ("m --enable-prefix-caching True", ["unknown error True"]),
        ("--enable-prefix-caching True", []),
        ("m -tp", ["value error -tp"]),
        ("m -tp --enforce-eager", ["value error -tp"]),
        ("m -tp two", ["value error -tp"]),
        ("m -tp 1.5", ["value error -tp"]),
        ("m -tp 0", ["value error -tp"]),
        ("m -tp ?", []),
        ("m -tp ${TP}", []),
        ("m -tp -dp", ["value error -tp", "value error -dp"]),
        ("m --dtype float8", ["value error --dtype"]),
        ("m --dtype half", []),
        ("m --max-model-len 1.5K", ["value error --max-model-len"]),
        ("m --max-model-len 1.5k", []),
        ("m --max-model-len auto", []),
        ("m --max-num-batched-tokens auto", ["value error --max-num-batched-tokens"]),
        ("m --limit-mm-per-prompt image=2", ["value error --limit-mm-per-prompt"]),
        ('m --limit-mm-per-prompt {"image":2}', []),
        ('m --compilation-config {"cudagraph_capture_sizes":[1,16k]}', []),
        ("m --hf-overrides my.function", []),
        ("m --seed None", ["value error --seed"]),
        ("m --kv-cache-memory-bytes None", []),
        ("m n", ["unknown error n"]),
        ("?* n", []),
        ("m --tp 4", ["unknown error --tp"]),
        ("m -tp4", ["unknown error -tp4"]),
        ("m -n4 -q4", []),
        ("m --speculative-config.num_speculative_tokens", [
            "value error --speculative-config.num_speculative_tokens"]),
        ("m --dtype.a 1", ["value error --dtype.a"]),
        ("m --served-model-name", ["value error --served-model-name"]),
        ("-tp 2 m --served-model-name s", ["value error --served-model-name"]),
        ("--model m --served-model-name s", []),
        ("m --config f.json", ["value error --config"]),
        ("m --config f.yaml --config g.yaml", ["value error --config"]),
        ("m --config f.yaml", []),
        ("m --model n", ["unknown error m"]),
        ("m -- --tensor-parallel-size 2", ["misplaced error --tensor-parallel-size",
                                           "unknown error 2"]),
    ],
)  # fmt: skip
def test_parser_of_the_newest_release_refuses(line: str, found: list[str]) -> None:
    assert found == refused(f"vllm serve {line}", "0.33.0")


@pytest.mark.parametrize(
    ("command", "release", "found"),
    [
        ("vllm serve --model m", "0.8.0", ["value error --model"]),
        ("vllm serve n --model m", "0.8.0", []),
        ("vllm serve --model m", "0.11.0", ["value error --model"]),
        ("vllm serve --model=m", "0.11.0", []),
        ("vllm serve --model m", "0.11.2", []),
        ("vllm serve --model m", ANY_RELEASE, []),
        ("python -m vllm.entrypoints.openai.api_server --model m", "0.11.0", []),
        ("python -m vllm.entrypoints.openai.api_server m", "0.9.2", ["unknown error m"]),
        ("python -m vllm.entrypoints.openai.api_server m", "0.10.0", []),
        ("vllm serve m --max-model-len auto", "0.13.0", ["value error --max-model-len"]),
        ("vllm serve m --max-model-len auto", "0.14.0", []),
        ("vllm serve m -tp 0", "0.22.1", []),
        ("vllm --tensor-parallel-size 2 serve m", "0.33.0",
         ["misplaced error --tensor-parallel-size"]),
    ],
)  # fmt: skip
def test_where_the_model_may_stand_depends_on_release_and_command(
    command: str, release: str | Known[Releases], found: list[str]
) -> None:
    assert found == refused(command, release)


def test_image_decides_whether_the_model_may_be_an_option() -> None:
    for line in ("--model o/m", "o/m"):
        assert [] == refused(line, "0.10.0", image="vllm/vllm-openai:v0.10.0")


@pytest.mark.parametrize("word", ["true", "1", "True"])
@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--enable-prefix-caching", "--enable-prefix-caching"),
        ("--enforce-eager", "--enforce-eager"),
        ("--no-enable-prefix-caching", "--no-enable-prefix-caching"),
    ],
)
def test_switch_with_a_value_is_written_as_it_was_meant(word: str, option: str, meant: str) -> None:
    (item,) = read(f"vllm serve m {option}={word}", "0.33.0").refused
    assert meant == item.replaced_by


def test_switch_that_was_meant_to_be_off() -> None:
    (item,) = read("vllm serve m --enable-prefix-caching=false", "0.33.0").refused
    assert "--no-enable-prefix-caching" == item.replaced_by


# ------------------------------------------------------------------------------------- remarks


@pytest.mark.parametrize(
    ("line", "release", "found"),
    [
        ("m --tensor-parallel 2", ANY_RELEASE, ["abbreviated info --tensor-parallel"]),
        ("m --disable-log-request", "0.9.2", ["abbreviated info --disable-log-request"]),
        ("m -tp 2 --tensor-parallel-size 4", ANY_RELEASE, ["redundant warning -tp"]),
        ("m -tp 4 --tensor-parallel-size 4", ANY_RELEASE, ["redundant info -tp"]),
        ("m -ep --no-enable-expert-parallel", ANY_RELEASE, ["redundant warning -ep"]),
        ("m --config=f.yaml", ANY_RELEASE, ["ignored warning --config=f.yaml"]),
        ("m --config f.yaml", ANY_RELEASE, []),
        ("m --speculative-config {} --speculative-config.method ngram", ANY_RELEASE,
         ["ignored warning --speculative-config"]),
        ("m --swap-space 4", "0.17.1", ["deprecated info --swap-space"]),
        ("m --disable-cascade-attn", "0.33.0", ["deprecated info --disable-cascade-attn"]),
        ("m --disable-cascade-attn", ANY_RELEASE, []),
        ("--model m", "0.33.0", ["deprecated info --model"]),
        ("n --model m", "0.8.0", ["conflict warning --model"]),
    ],
)  # fmt: skip
def test_remark_on_what_the_parser_accepts(
    line: str, release: str | Known[Releases], found: list[str]
) -> None:
    text = f"vllm serve {line}"
    remarks = [
        f"{item.kind} {item.severity} {text[item.at.span.start : item.at.span.end]}"
        for item in read(text, release).remarks
    ]
    assert found == remarks


@pytest.mark.parametrize(
    ("line", "release", "model"),
    [
        ("vllm serve n --model m", "0.33.0", "m"),
        ("vllm serve n --model=m", "0.10.2", "n"),
        ("vllm serve n", "0.33.0", "n"),
        ("python3 -m vllm.entrypoints.openai.api_server n --model m", "0.33.0", "m"),
        ("python3 -m vllm.entrypoints.openai.api_server n", "0.33.0", None),
    ],
)
def test_which_model_is_served(line: str, release: str, model: str | None) -> None:
    assert model == read(line, release).model.only


def test_module_ignores_a_positional_model() -> None:
    (remark,) = read("python3 -m vllm.entrypoints.openai.api_server n", "0.33.0").remarks
    assert ("ignored", "warning") == (remark.kind, remark.severity)


def test_option_and_value_in_one_word_are_no_option() -> None:
    line = "--tensor-parallel-size\\s2"
    (item,) = read(f"vllm serve m {line}", "0.33.0").refused
    assert "write `--tensor-parallel-size` and `2` as two words" == item.remedy
    reading = read(f"--model o/m {line} --seed 1", "0.11.0", image="vllm/vllm-openai:v0.11.0")
    assert [("ignored", item.remedy)] == [(mark.kind, mark.help) for mark in reading.remarks]
    assert reading.layout.tp.is_unset


def test_refused_value_is_told_though_the_layout_is_not_decided() -> None:
    text = "vllm serve Qwen/Qwen3-8B -tp two\n"
    assert [("flag-conflict", "error", "two")] == places(check(text).findings, text)


def test_module_has_the_model_option_for_good() -> None:
    line = "python3 -m vllm.entrypoints.openai.api_server --model m"
    assert () == read(line, "0.33.0").remarks


# --------------------------------------------------------------------------------- what is told


def test_release_that_is_told_is_known_before_the_file_is_read() -> None:
    text = "vllm serve Qwen/Qwen3-8B --swap-space 4\n"
    assert [("flag-unknown", "error", "--swap-space")] == [
        row for row in places(check(text, engine_version={"vllm": "0.20.0"}).findings, text)
        if row[0] == "flag-unknown"
    ]  # fmt: skip
    told = check(text, engine_version={"vllm": "0.17.0"})
    assert ["flag-deprecated"] == [f.name for f in told.findings if f.name.startswith("flag")]


def test_tag_counts_more_than_what_is_told_and_the_difference_is_named() -> None:
    text = "docker run --gpus 1 vllm/vllm-openai:v0.17.1 Qwen/Qwen3-8B --swap-space 4\n"
    (plan,) = project(text, engine_version={"vllm": "0.33.0"}).plans
    assert (Releases("0.17.1", "0.17.1"),) == plan.versions.values
    found = check(text, engine_version={"vllm": "0.33.0"}).findings
    assert ["the file states vLLM 0.17.1, the command line or the configuration 0.33.0"] == [
        finding.message for finding in found if finding.name == "value-conflict"
    ]
    same = check(text, engine_version={"vllm": "0.17.1"}).findings
    assert "value-conflict" not in {finding.name for finding in same}


def test_card_that_is_told_and_another_that_is_stated() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  nodeSelector:\n"
        "    nvidia.com/gpu.product: NVIDIA-H200\n  containers:\n  - name: a\n"
        "    image: vllm/vllm-openai:v0.33.0\n    args: [Qwen/Qwen3-8B]\n"
        "    resources: {limits: {nvidia.com/gpu: 1}}\n"
    )
    found = check(text, "pod.yaml", gpu="H100-SXM-80GB").findings
    assert [6] == [f.start.line for f in found if f.name == "value-conflict"]
    same = check(text, "pod.yaml", gpu="H200-SXM-141GB").findings
    assert "value-conflict" not in {finding.name for finding in same}


# ---------------------------------------------------------------------------------- any words

parts = st.lists(
    st.sampled_from(
        ["-tp", "4", "--max-model-len", "8k", "--", "-O3", "--swap-space", "?", "?*", "--a.b", "m",
         "--enable-prefix-caching=true", "--model", "--config", "--served-model-name", "-", "--=",
         "--dtype", "half", "-n4", "--data-parallel", "--speculative-config.x", "{}", "-1.5"]
    ),
    max_size=8,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(parts)
def test_any_words_are_read_without_an_error(words: list[str]) -> None:
    """What every release refuses is refused by each of them, and the other way round."""
    line = " ".join(["vllm serve", *words])
    each = [refused(line, release) for release in ("0.6.0", "0.9.2", "0.18.0", "0.33.0")]
    reading = read(line, Known.of(Releases("0.6.0", "0.33.0")))
    if any(item.when is None and item.certain for item in reading.refused):
        assert all(each)
    assert len(reading.refused) == len({(item.kind, item.at) for item in reading.refused})


def test_what_releases_read_differently_is_unknown() -> None:
    """-O was the compilation configuration up to 0.11 and is the optimization level since 0.12."""
    span = Known.of(Releases("0.11.0", "0.13.0"))
    read_alike = read("vllm serve m -O 3 -tp 2", span)
    assert [] == list(read_alike.refused)
    for name in ("optimization_level", "compilation_config"):
        assert () == read_alike.options[name].values
        assert "differently" in (read_alike.options[name].reason or "")
    assert 2 == read_alike.layout.tp.only
