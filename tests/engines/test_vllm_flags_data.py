"""The vLLM flag table: its shape, and facts of vLLM 0.33.0 that it must hold.

The releases before it: test_vllm_flags_releases.py.
"""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from packaging.version import Version
from shardlint_schemas import schema

Row = dict[str, Any]
PATH = Path(__file__).parents[2] / "lint/shardlint/engines/data/vllm_flags.json"
REVIEWED = Path(__file__).parents[2] / "scripts/vllm_replaced_flags.json"
TABLE: Row = json.loads(PATH.read_text(encoding="utf-8"))
FLAGS: dict[str, Row] = {
    row["flag"]: row for row in TABLE["flags"] if row["last_seen"] == TABLE["supported"]["last"]
}
REMOVED: dict[str, Row] = {row["flag"]: row for row in TABLE["removed"]}
ORDER: dict[str, int] = {release: index for index, release in enumerate(TABLE["releases"])}
FIELDS = """
    tp pp dp dp_local dp_rank dp_start_rank ep pcp dcp nnodes node_rank executor headless hybrid_lb
    external_lb max_model_len max_num_seqs max_num_batched_tokens gpu_memory_utilization
    kv_cache_memory_bytes kv_cache_dtype block_size enforce_eager quantization dtype model
    served_model_name enable_prefix_caching config cpu_offload_gb enable_lora mm_encoder_tp_mode
    language_model_only speculative_config device_ids trust_remote_code hf_overrides load_format
"""


SPAN = {"first_seen": "0.6.0", "last_seen": "0.8.0"}


def errors(table: Row) -> list[str]:
    return [
        error.json_path for error in Draft202012Validator(schema("engine_flags")).iter_errors(table)
    ]


def spellings(row: Row) -> list[str]:
    negated = ["--no-" + row["flag"].removeprefix("--")] if row["negatable"] else []
    inverse = [row["inverse"]] if "inverse" in row else []
    return [row["flag"], *row["aliases"], *negated, *inverse]


# shape


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema("engine_flags"))


def test_table_is_valid() -> None:
    assert errors(TABLE) == []


@pytest.mark.parametrize(
    ("flag", "change"),
    [
        ("--tensor-parallel-size", {"alias": ["-tp"]}),
        ("--tensor-parallel-size", {"type": "integer"}),
        ("--tensor-parallel-size", {"negatable": True}),
        ("--tensor-parallel-size", {"aliases": ["tp"]}),
        ("--tensor-parallel-size", {"last_seen": "latest"}),
        ("--headless", {"inverse": "--enable-headless"}),
        ("--enforce-eager", {"type": "str"}),
        ("--dtype", {"type": "int"}),
        ("--dtype", {"earlier": {}}),
        ("--dtype", {"earlier": {"takes": [SPAN | {"value": "many"}]}}),
        ("--dtype", {"earlier": {"default": []}}),
        ("--dtype", {"earlier": {"default": [SPAN | {"was": 1}]}}),
        ("--dtype", {"earlier": {"default": [{"first_seen": "0.6.0", "value": 1}]}}),
        ("--dtype", {"earlier": {"choices": [SPAN | {"value": []}]}}),
        ("--dtype", {"earlier": {"aliases": [SPAN]}}),
        ("--dtype", {"earlier": {"negatable": [SPAN | {"value": "no"}]}}),
        ("--dtype", {"earlier": {"inverse": [SPAN | {"value": "-x"}]}}),
        ("--dtype", {"earlier": {"deprecated": [SPAN | {"value": False}]}}),
    ],
)
def test_schema_refuses(flag: str, change: Row) -> None:
    table = copy.deepcopy(TABLE)
    next(row for row in table["flags"] if row["flag"] == flag).update(change)
    assert errors(table) != []


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("grammars", {"dotted": 1}),
        ("grammars", {"prefix": True}),
        ("removed", {"last_seen": None}),
        ("removed", {"replaced_by": "something else"}),
    ],
)
def test_schema_refuses_elsewhere(key: str, change: Row) -> None:
    table = copy.deepcopy(TABLE)
    table[key][0].update(change)
    assert errors(table) != []


def test_schema_wants_the_choices_of_a_choice() -> None:
    table = copy.deepcopy(TABLE)
    del next(row for row in table["flags"] if row["flag"] == "--dtype")["choices"]
    assert errors(table) != []


def test_flags_stand_in_order() -> None:
    names = [row["flag"] for row in TABLE["flags"]]
    assert sorted(names) == names


def test_a_spelling_selects_one_flag() -> None:
    every = [spelling for row in FLAGS.values() for spelling in spellings(row)]
    assert sorted(set(every)) == sorted(every)


def test_file_is_small() -> None:
    assert PATH.stat().st_size < 400_000


def test_releases_stand_in_order() -> None:
    assert sorted(TABLE["releases"], key=Version) == TABLE["releases"]


def test_records_of_a_flag_follow_each_other() -> None:
    for one, two in pairwise(TABLE["flags"]):
        if one["flag"] == two["flag"]:
            assert ORDER[one["last_seen"]] < ORDER[two["first_seen"]]


def test_spans_fill_the_time_before_the_record_became_what_it_says() -> None:
    for row in TABLE["flags"]:
        for spans in row.get("earlier", {}).values():
            ends = [ORDER[row["first_seen"]] - 1]
            for span in spans:
                assert ends[-1] + 1 == ORDER[span["first_seen"]] <= ORDER[span["last_seen"]]
                ends.append(ORDER[span["last_seen"]])
            assert ends[-1] < ORDER[row["last_seen"]]


def test_neighbouring_spans_differ() -> None:
    for row in TABLE["flags"]:
        for key, spans in row.get("earlier", {}).items():
            now = {"value": row[key]} if key in row else {}
            for one, two in pairwise([*spans, now]):
                assert one.get("value", ...) != two.get("value", ...)


def test_grammars_cover_all_releases() -> None:
    ends = [(ORDER[row["first_seen"]], ORDER[row["last_seen"]]) for row in TABLE["grammars"]]
    assert [0, *(last + 1 for _, last in ends)] == [*(first for first, _ in ends), len(ORDER)]


def test_what_is_removed_follows_from_the_records() -> None:
    for name, row in REMOVED.items():
        last = max(ORDER[found["last_seen"]] for found in TABLE["flags"] if name in _once(found))
        assert (last, last + 1) == (ORDER[row["last_seen"]], ORDER[row["first_gone"]])


def test_every_flag_is_there_or_removed() -> None:
    accepted = {spelling for row in FLAGS.values() for spelling in spellings(row)}
    ever = {name for row in TABLE["flags"] for name in _once(row)}
    assert ever - accepted == REMOVED.keys()


def _once(row: Row) -> set[str]:
    """The flag, and the aliases that it had at some time."""
    spans = row.get("earlier", {}).get("aliases", [])
    return {row["flag"], *row["aliases"], *(name for span in spans for name in span["value"])}


def test_a_removed_flag_is_no_flag() -> None:
    accepted = {spelling for row in FLAGS.values() for spelling in spellings(row)}
    assert accepted & REMOVED.keys() == set()


def test_what_is_listed_as_replaced_is_removed() -> None:
    listed = json.loads(REVIEWED.read_text(encoding="utf-8"))["replaced_by"]
    assert listed == {name: row["replaced_by"] for name, row in REMOVED.items() if name in listed}


def test_a_replacement_is_accepted() -> None:
    named = {row["replaced_by"] for row in REMOVED.values() if row["replaced_by"]}
    assert {text.split()[0].partition(".")[0] for text in named} <= FLAGS.keys()


def test_a_dotted_replacement_belongs_to_a_json_flag() -> None:
    dotted = {row["replaced_by"] for row in REMOVED.values() if "." in (row["replaced_by"] or "")}
    assert {FLAGS[text.partition(".")[0]]["type"] for text in dotted} == {"json"}


def test_each_field_has_one_flag() -> None:
    assert sorted(FIELDS.split()) == sorted(
        row["field"] for row in FLAGS.values() if "field" in row
    )


# what vLLM 0.33.0 accepts


@pytest.mark.parametrize(
    ("alias", "flag"),
    [
        ("-tp", "--tensor-parallel-size"),
        ("-pp", "--pipeline-parallel-size"),
        ("-dp", "--data-parallel-size"),
        ("-dpl", "--data-parallel-size-local"),
        ("-dpn", "--data-parallel-rank"),
        ("-dpr", "--data-parallel-start-rank"),
        ("-dpb", "--data-parallel-backend"),
        ("-dph", "--data-parallel-hybrid-lb"),
        ("-dpe", "--data-parallel-external-lb"),
        ("-pcp", "--prefill-context-parallel-size"),
        ("-dcp", "--decode-context-parallel-size"),
        ("-ep", "--enable-expert-parallel"),
        ("-n", "--nnodes"),
        ("-r", "--node-rank"),
        ("-q", "--quantization"),
        ("-sc", "--speculative-config"),
        ("-cc", "--compilation-config"),
        ("-asc", "--api-server-count"),
        ("-O", "--optimization-level"),
        ("--device-memory-utilization", "--gpu-memory-utilization"),
    ],
)
def test_alias(alias: str, flag: str) -> None:
    assert [alias] == FLAGS[flag]["aliases"]


@pytest.mark.parametrize("spelling", ["--tp", "--pp", "--dp", "--expert-parallel-size", "-tp4"])
def test_spelling_does_not_exist(spelling: str) -> None:
    assert spelling not in {known for row in FLAGS.values() for known in spellings(row)}


@pytest.mark.parametrize(
    ("flag", "default"),
    [
        ("--tensor-parallel-size", 1),
        ("--data-parallel-size-local", None),
        ("--gpu-memory-utilization", 0.92),
        ("--kv-cache-memory-bytes", None),
        ("--kv-cache-dtype", "auto"),
        ("--block-size", None),
        ("--max-model-len", None),
        ("--max-num-seqs", None),
        ("--enable-prefix-caching", None),
        ("--enable-expert-parallel", False),
        ("--enforce-eager", False),
        ("--cpu-offload-gb", 0),
        ("--nnodes", 1),
        ("--master-port", 29501),
        ("--dp-sync-interval", 16),
        ("--max-lora-rank", 16),
        ("--mm-encoder-tp-mode", "weights"),
        ("--scheduler-reserve-full-isl", True),
        ("--model", "Qwen/Qwen3-0.6B"),
    ],
)
def test_default(flag: str, default: object) -> None:
    assert default == FLAGS[flag]["default"]


def test_ep_is_a_switch() -> None:
    row = FLAGS["--enable-expert-parallel"]
    assert (row["takes"], row["type"], row["negatable"]) == ("none", "bool", True)


def test_six_flags_take_human_integers() -> None:
    assert {
        "--max-model-len",
        "--max-num-batched-tokens",
        "--max-num-scheduled-tokens",
        "--kv-cache-memory-bytes",
        "--max-num-queued-tokens",
        "--safetensors-prefetch-block-size",
    } == {flag for flag, row in FLAGS.items() if row["type"] in ("human_int", "human_int_auto")}


@pytest.mark.parametrize(
    ("flag", "inverse"),
    [
        ("--enable-prefix-caching", "--disable-prefix-caching"),
        ("--enable-expert-parallel", "--disable-expert-parallel"),
        ("--disable-hybrid-kv-cache-manager", "--enable-hybrid-kv-cache-manager"),
        ("--disable-custom-all-reduce", "--enable-custom-all-reduce"),
        ("--enable-log-requests", "--disable-log-requests"),
    ],
)
def test_inverse(flag: str, inverse: str) -> None:
    assert inverse == FLAGS[flag]["inverse"]


@pytest.mark.parametrize("flag", ["--enforce-eager", "--disable-log-stats", "--headless"])
def test_no_inverse(flag: str) -> None:
    assert "inverse" not in FLAGS[flag]


def test_a_plain_switch_is_not_negatable() -> None:
    assert not FLAGS["--headless"]["negatable"]


@pytest.mark.parametrize(
    ("flag", "takes", "kind"),
    [
        ("--served-model-name", "many", "str"),
        ("--cudagraph-capture-sizes", "many", "int"),
        ("--hf-token", "optional_value", "str"),
        ("--device-ids", "value", "str"),
        ("--speculative-config", "value", "json"),
        ("--limit-mm-per-prompt", "value", "json"),
        ("--dtype", "value", "choice"),
        ("--kv-cache-dtype", "value", "str"),
        ("--quantization", "value", "str"),
        ("--distributed-executor-backend", "value", "str"),
    ],
)
def test_value(flag: str, takes: str, kind: str) -> None:
    assert (takes, kind) == (FLAGS[flag]["takes"], FLAGS[flag]["type"])


def test_choices_are_in_full() -> None:
    assert FLAGS["--max-lora-rank"]["choices"] == [1, 8, 16, 32, 64, 128, 256, 320, 512]


def test_the_word_none_is_a_choice_of_an_optional_flag() -> None:
    assert FLAGS["--dcp-comm-backend"]["choices"] == ["a2a", "ag_rs", None]


def test_all2all_backend_hides_what_only_the_engine_sets() -> None:
    choices = FLAGS["--all2all-backend"]["choices"]
    assert "allgather_reducescatter" in choices
    assert "passthrough" not in choices


def test_deprecated_flags() -> None:
    assert {
        "--disable-cascade-attn",
        "--ir-op-priority",
        "--log-config-file",
        "--mamba-cache-mode",
        "--model",
    } == {flag for flag, row in FLAGS.items() if row.get("deprecated")}


# what it refuses


@pytest.mark.parametrize(
    ("flag", "last_seen", "first_gone"),
    [
        ("--swap-space", "0.17.1", "0.18.0"),
        ("--calculate-kv-scales", "0.27.1", "0.28.0"),
        ("--task", "0.12.0", "0.13.0"),
        ("--guided-decoding-backend", "0.11.2", "0.12.0"),
        ("--num-scheduler-steps", "0.10.0", "0.10.2"),
        ("--worker-use-ray", "0.6.6.post1", "0.7.0"),
    ],
)
def test_removed(flag: str, last_seen: str, first_gone: str) -> None:
    assert (last_seen, first_gone) == (REMOVED[flag]["last_seen"], REMOVED[flag]["first_gone"])
