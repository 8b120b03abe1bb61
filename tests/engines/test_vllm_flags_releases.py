"""The options of vLLM's releases: facts that were read in their packages, and the parser."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from typing import Any

import pytest
from engines.commands import words
from shardlint.engines import flags
from shardlint.engines.flags import FlagTable, FlagView
from shardlint.plan import Flag

TABLE = FlagTable("vllm")
OLD, MIDDLE, NEW = "0.6.0", "0.11.2", "0.33.0"


def view(release: str) -> FlagView:
    found = TABLE.of(release)
    assert found is not None
    return found


# ------------------------------------------------------------------- what releases accept


@pytest.mark.parametrize(
    ("spelling", "release", "accepted"),
    [
        ("--swap-space", "0.16.0", True),
        ("--swap-space", "0.18.0", False),
        ("--task", "0.11.2", True),
        ("--task", "0.13.0", False),
        ("--cuda-graph-sizes", "0.11.2", True),
        ("--cuda-graph-sizes", "0.13.0", False),
        ("--guided-decoding-backend", "0.11.2", True),
        ("--guided-decoding-backend", "0.13.0", False),
        ("--num-redundant-experts", "0.11.2", True),
        ("--eplb-window-size", "0.13.0", False),
        ("--enable-multimodal-encoder-data-parallel", "0.11.2", True),
        ("--lora-extra-vocab-size", "0.13.0", False),
        ("--disable-mm-preprocessor-cache", "0.11.2", True),
        ("--override-pooler-config", "0.13.0", False),
        ("--logits-processor-pattern", "0.16.0", True),
        ("--calculate-kv-scales", "0.24.0", True),
        ("--calculate-kv-scales", "0.28.0", False),
        ("--max-num-partial-prefills", "0.24.0", True),
        ("--max-long-partial-prefills", "0.28.0", False),
        ("--override-attention-dtype", "0.24.0", True),
        ("-pcp", "0.11.2", False),
        ("-pcp", "0.13.0", True),
        ("--data-parallel-multi-port-external-lb", "0.21.0", False),
        ("--data-parallel-multi-port-external-lb", "0.24.0", True),
        ("--device-ids", "0.21.0", False),
        ("--device-ids", "0.24.0", True),
        ("--dp-sync-interval", "0.28.0", False),
        ("--dp-sync-interval", "0.33.0", True),
        ("--device-memory-utilization", "0.30.0", False),
        ("--device-memory-utilization", "0.32.0", True),
        ("--device-memory-utilization", "0.33.0", True),
        ("--disable-prefix-caching", "0.32.0", False),
        ("--disable-prefix-caching", "0.33.0", True),
        ("--enable-custom-all-reduce", "0.32.0", False),
        ("--no-enable-prefix-caching", "0.32.0", True),
        ("--worker-use-ray", "0.6.0", True),
        ("--worker-use-ray", "0.33.0", False),
        ("--num-scheduler-steps", "0.6.0", True),
        ("--use-v2-block-manager", "0.6.0", True),
        ("--rope-scaling", "0.33.0", False),
        ("--max-seq-len-to-capture", "0.33.0", False),
        ("--preemption-mode", "0.33.0", False),
        ("--data-parallel-size", "0.6.0", False),
        ("--data-parallel-size", "0.11.2", True),
    ],
)
def test_release_accepts(spelling: str, release: str, accepted: bool) -> None:
    assert accepted == (spelling in view(release).by_name)


@pytest.mark.parametrize(
    ("flag", "release", "default"),
    [
        ("--gpu-memory-utilization", "0.11.2", 0.9),
        ("--gpu-memory-utilization", "0.13.0", 0.9),
        ("--gpu-memory-utilization", "0.16.0", 0.9),
        ("--gpu-memory-utilization", "0.18.0", 0.9),
        ("--gpu-memory-utilization", "0.19.0", 0.9),
        ("--gpu-memory-utilization", "0.20.0", 0.92),
        ("--gpu-memory-utilization", "0.33.0", 0.92),
        ("--swap-space", "0.6.0", 4),
        ("--swap-space", "0.16.0", 4),
        ("--master-port", "0.12.0", 29501),
        ("--master-port", "0.33.0", 29501),
        ("--block-size", "0.6.0", 16),
        ("--block-size", "0.11.2", None),
        ("--max-num-seqs", "0.6.0", 256),
        ("--enable-prefix-caching", "0.6.0", False),
        ("--enable-prefix-caching", "0.11.2", None),
        ("--model", "0.6.0", "facebook/opt-125m"),
        ("--model", "0.11.2", "Qwen/Qwen3-0.6B"),
        ("--uvicorn-log-level", "0.6.0", "info"),
        ("--kv-cache-dtype", "0.6.0", "auto"),
    ],
)
def test_default(flag: str, release: str, default: object) -> None:
    assert default == view(release).by_name[flag][0].default


def test_default_of_a_field() -> None:
    values = [view(release).default("gpu_memory_utilization") for release in ("0.19.0", "0.20.0")]
    assert [0.9, 0.92, 0.92] == [*values, TABLE.default("gpu_memory_utilization")]
    assert view(OLD).default("dp") is None


@pytest.mark.parametrize(
    ("flag", "release", "takes", "kind"),
    [
        ("--enable-chunked-prefill", "0.6.0", "optional_value", "bool"),
        ("--enable-chunked-prefill", "0.11.2", "none", "bool"),
        ("--limit-mm-per-prompt", "0.6.0", "value", "str"),
        ("--limit-mm-per-prompt", "0.11.2", "value", "json"),
        ("--compilation-config", "0.8.0", "value", "json"),
        ("--api-key", "0.9.0", "value", "str"),
        ("--api-key", "0.11.2", "many", "str"),
        ("--max-model-len", "0.6.0", "value", "int"),
        ("--max-model-len", "0.9.0", "value", "human_int"),
        ("--max-num-batched-tokens", "0.9.0", "value", "int"),
        ("--max-num-batched-tokens", "0.16.0", "value", "human_int"),
        ("--kv-cache-memory-bytes", "0.16.0", "value", "human_int"),
        ("--hf-token", "0.11.2", "optional_value", "str"),
    ],
)
def test_words_that_an_option_takes(flag: str, release: str, takes: str, kind: str) -> None:
    option, _ = view(release).by_name[flag]
    assert (takes, kind) == (option.takes, option.type)


@pytest.mark.parametrize(
    ("flag", "release", "choices"),
    [
        ("--block-size", "0.6.0", (8, 16, 32)),
        ("--block-size", "0.16.0", (1, 8, 16, 32, 64, 128, 256)),
        ("--block-size", "0.18.0", None),
        ("--kv-cache-dtype", "0.6.0", ("auto", "fp8", "fp8_e5m2", "fp8_e4m3")),
        ("--distributed-executor-backend", "0.6.0", ("ray", "mp")),
        ("--dcp-comm-backend", "0.30.0", ("a2a", "ag_rs")),  # appended the word, not the value
        ("--dcp-comm-backend", "0.31.0", ("a2a", "ag_rs", None)),
        ("--model-impl", "0.9.2", ("auto", "vllm", "transformers")),
    ],
)
def test_choices(flag: str, release: str, choices: tuple[Any, ...] | None) -> None:
    assert choices == view(release).by_name[flag][0].choices


def test_quantization_of_an_old_release_is_one_of_a_list() -> None:
    option, _ = view("0.6.0").by_name["-q"]
    assert ("--quantization", "choice") == (option.name, option.type)
    assert {"awq", "squeezellm", None} <= set(option.choices or ())
    assert view("0.11.2").by_name["-q"][0].choices is None


@pytest.mark.parametrize(
    ("alias", "release", "flag"),
    [
        ("-O", "0.11.2", "--compilation-config"),
        ("-O", "0.12.0", "--optimization-level"),
        ("-cc", "0.11.2", None),
        ("-cc", "0.12.0", "--compilation-config"),
        ("-ep", "0.13.0", None),
        ("-ep", "0.14.0", "--enable-expert-parallel"),
        ("-dpr", "0.9.0", "--data-parallel-start-rank"),
        ("-spec-draft-tp", "0.8.0", "--speculative-draft-tensor-parallel-size"),
    ],
)
def test_alias(alias: str, release: str, flag: str | None) -> None:
    found = view(release).by_name.get(alias)
    assert flag == (found[0].name if found else None)


def test_deprecated() -> None:
    assert view("0.12.0").by_name["--task"][0].deprecated
    assert not view("0.9.2").by_name["--task"][0].deprecated
    assert view("0.6.0").by_name["--worker-use-ray"][0].deprecated


@pytest.mark.parametrize(
    ("release", "grammar"),
    [
        ("0.6.0", {"model_required"}),
        ("0.9.0", {"dotted", "pairs"}),
        ("0.10.0", {"dotted", "module_model"}),
        ("0.11.2", {"dotted", "module_model", "model_option"}),
        ("0.33.0", {"dotted", "module_model", "model_option", "name_behind_model"}),
    ],
)
def test_grammar(release: str, grammar: set[str]) -> None:
    assert grammar == {name for name, is_so in asdict(view(release).grammar).items() if is_so}


# ---------------------------------------------------------------------------- which release


@pytest.mark.parametrize(
    ("asked", "release", "exact"),
    [
        ("0.6.0", "0.6.0", True),
        ("0.6.3.post1", "0.6.0", False),
        ("0.8.4", "0.8.0", False),
        ("0.12.0", "0.12.0", True),
        ("0.12.0rc1", "0.11.2", False),
        ("0.33.0", "0.33.0", True),
        ("0.33.0+cu130", "0.33.0", True),
    ],
)
def test_view_is_of_the_nearest_release_that_is_not_newer(
    asked: str, release: str, exact: bool
) -> None:
    assert (release, exact) == (view(asked).release, view(asked).exact)


@pytest.mark.parametrize("release", ["0.5.5", "0.33.1", "0.34.0", "latest", "", "25.09"])
def test_there_is_no_view_of_other_releases(release: str) -> None:
    assert TABLE.of(release) is None


def test_table_is_the_view_of_the_newest_release() -> None:
    assert (NEW, True) == (TABLE.release, TABLE.exact)
    assert view(NEW).by_name == TABLE.by_name


def test_view_is_made_once() -> None:
    assert view("0.8.4") is view("0.8.3")
    assert view("0.8.4") is not view("0.8.0")


def test_what_the_releases_around_do_not_agree_about_is_undecided() -> None:
    undecided = view("0.8.4").undecided
    assert {"--speculative-model", "--data-parallel-size", "-dp"} <= undecided
    assert "--enable-chunked-prefill" in undecided  # first it took a value, then none
    assert "--tensor-parallel-size" not in undecided


def test_what_the_next_release_has_can_be_asked() -> None:
    later = view("0.8.4").later
    assert later is not None
    assert ("0.8.5.post1", "--swap-space" in later.by_name) == (later.release, True)


def test_nothing_is_undecided_in_a_release_that_was_opened() -> None:
    assert (frozenset(), None) == (view("0.8.0").undecided, view("0.8.0").later)


# ------------------------------------------------------------------------------- history


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("--swap-space", ("0.6.0", "0.17.1", "0.18.0", None)),
        ("--swap_space", ("0.6.0", "0.17.1", "0.18.0", None)),
        ("--tensor-parallel-size", ("0.6.0", "0.33.0", None, None)),
        ("-pcp", ("0.12.0", "0.33.0", None, None)),
        ("--disable-prefix-caching", ("0.33.0", "0.33.0", None, None)),
        ("--task", ("0.6.6.post1", "0.12.0", "0.13.0", None)),
        (
            "--worker-use-ray",
            ("0.6.0", "0.6.6.post1", "0.7.0", "--distributed-executor-backend ray"),
        ),
        (
            "-spec-draft-tp",
            ("0.6.0", "0.8.0", "0.8.5.post1", "--speculative-config.draft_tensor_parallel_size"),
        ),
        ("--no-calculate-kv-scales", ("0.8.5.post1", "0.27.1", "0.28.0", None)),
        ("--no-such-thing", None),
        ("-tp4", None),
    ],
)
def test_history(name: str, history: tuple[str | None, ...] | None) -> None:
    assert history == TABLE.history(name)


def test_option_of_another_release_is_listed_elsewhere() -> None:
    assert "--data-parallel-size" in view(OLD).listed_elsewhere
    assert "--worker-use-ray" not in view(OLD).listed_elsewhere
    assert "--worker-use-ray" in TABLE.listed_elsewhere
    assert "--tensor-parallel-size" not in TABLE.listed_elsewhere


# -------------------------------------------------------------------------------- parser


def parsed(release: str, line: str) -> Flag:
    """The only option of a line."""
    (flag,) = view(release).parse(words(line)).flags
    return flag


REFUSED = "unrecognized arguments"
EXPLICIT = "ignored explicit argument"


@pytest.mark.parametrize(
    ("line", "old", "middle", "new"),
    [
        ("--tensor-parallel-size 2", None, None, None),
        ("--tensor_parallel_size=2", None, None, None),
        ("--tensor-par 2", None, None, None),
        ("-tp=2", None, None, None),
        ("-tp2", REFUSED, REFUSED, REFUSED),
        ("--tp 2", REFUSED, REFUSED, REFUSED),
        ("-dp 2", REFUSED, None, None),
        ("--swap-space 4", None, None, REFUSED),
        ("--worker-use-ray", None, REFUSED, REFUSED),
        ("--task embed", REFUSED, None, REFUSED),
        ("--device cuda", None, REFUSED, "ambiguous option"),
        ("--device-memory-utilization 0.9", REFUSED, REFUSED, None),
        ("--enable-prefix-caching", None, None, None),
        ("--enable-prefix-caching=true", EXPLICIT, EXPLICIT, EXPLICIT),
        ("--no-enable-prefix-caching", REFUSED, None, None),
        ("--disable-prefix-caching", REFUSED, REFUSED, None),
        ("--enable-chunked-prefill=false", None, EXPLICIT, EXPLICIT),
        ("-ep", REFUSED, REFUSED, None),
        ("-O3", REFUSED, None, None),
        ("-q awq", None, None, None),
        ("--hf-overrides.rope_theta 1", REFUSED, None, None),
        ("--speculative-model m", None, REFUSED, REFUSED),
    ],
)
def test_parser_of_three_releases(
    line: str, old: str | None, middle: str | None, new: str | None
) -> None:
    releases = (OLD, MIDDLE, NEW)
    assert [old, middle, new] == [parsed(release, line).problem for release in releases]


def test_short_level_sets_another_option_by_release() -> None:
    assert "--compilation-config" == parsed(MIDDLE, "-O3").flag
    assert "--optimization-level" == parsed(NEW, "-O3").flag


@pytest.mark.parametrize(
    ("line", "on"),
    [
        ("--enable-chunked-prefill", True),
        ("--enable-chunked-prefill true", True),
        ("--enable-chunked-prefill False", False),
        ("--enable-chunked-prefill=FALSE", False),
    ],
)
def test_old_switch_can_have_a_value(line: str, on: bool) -> None:
    assert (on,) == flags.switch(parsed(OLD, line)).values


def test_old_switch_with_another_word_is_unknown() -> None:
    assert not flags.switch(parsed(OLD, "--enable-chunked-prefill maybe")).is_known


def test_word_after_a_switch_of_a_new_release_is_positional() -> None:
    found = view(MIDDLE).parse(words("m --enable-chunked-prefill False"))
    assert ["m", "False"] == [word.value for word in found.positionals]


def test_option_without_keys_keeps_its_dot() -> None:
    found = parsed(OLD, "--model.name x")
    assert (None, REFUSED) == (found.flag, found.problem)


def test_guess_is_an_option_of_the_release() -> None:
    assert ("--tensor-parallel-size",) == parsed(OLD, "--tensor-paralell-size 2").candidates
    assert () == parsed(OLD, "--data-parallel-size 2").candidates
    assert () == parsed(NEW, "--worker-use-ray").candidates


# ---------------------------------------------------------------------------------- cost


def test_table_is_read_late() -> None:
    code = (
        "import sys; from shardlint.engines.flags import FlagTable; table = FlagTable('vllm');"
        "print('raw' in vars(vars(table)['_data']))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False" == out.stdout.strip()
