"""The configuration: found, read, checked with places, overridden; and which rules it selects."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from shardlint import config
from shardlint.config import ConfigError, Machines, Settings
from shardlint.models.override import NOT_STATED_BY_HAND
from shardlint.plan import KvGroup, ModelFacts
from shardlint.plugins import Rule
from shardlint_schemas import schema

FULL = """\
select = ["SL1", "tp-cross-node"]
ignore = ["SL104"]
fail-on = "warning"
exclude = ["vendor/", "*.tmpl.yaml"]
online = true

[per-file-ignores]
"tests/**" = ["SL3", "tp-slow-link"]

[engines]
vllm = "0.8.5"

[platforms]
kserve = "0.14"

[hardware]
gpu = "H100-SXM-80GB"
gpus_per_node = 8
nodes = 2
network = "rdma"
link = "nvlink"

[gpus."H100-SXM-64GB"]
mem_gib = 63.4
base = "H100-SXM-80GB"

[models."acme/tiny"]
config = "models/tiny"

[models."acme/tuned"]
base = "Qwen/Qwen2.5-7B-Instruct"
max_position_embeddings = 131072

[models."acme/own"]
attention_heads = 28
kv_heads = 4
other_kv_heads = [2]
quantization = { method = "fp8", weight_block_size = [128, 128], activation_scheme = "dynamic" }
kv_groups = [{ layers = 28, heads = 4, bytes_per_head = 512, window = 4096, shared = false }]

[workload]
kind = "agent"
isl = 8000
osl = 500
concurrency = 32
prefix_share = 0.8
ttft_ms = 1500
tpot_ms = 40.5
target_tok_s = 20000

[[pool]]
match = { "nvidia.com/gpu.product" = "NVIDIA-H100-80GB-HBM3" }
gpu = "H100-SXM-80GB"
per_node = 8
nodes = 4
network = "ethernet"
link = "nvlink"
price = 2.49

[[overlay]]
files = ["base.yaml", "prod.yaml"]
"""

Load = Callable[[str], Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_load(text: str) -> Settings:
        path = tmp_path / "shardlint.toml"
        path.write_bytes(text.encode())
        return config.load(path, "shardlint.toml")

    return write_and_load


@pytest.fixture
def refusal(load: Load) -> Callable[[str], str]:
    def message(text: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load(text)
        return str(caught.value)

    return message


Refusal = Callable[[str], str]


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


# -------------------------------------------------------------------------------------- find


def test_nearest_file_wins(tmp_path: Path) -> None:
    write(tmp_path, "shardlint.toml", "")
    near = write(tmp_path / "a", "shardlint.toml", "")
    (tmp_path / "a/b").mkdir()
    assert near == config.find(tmp_path / "a/b")


def test_nearer_pyproject_wins_over_farther_shardlint_toml(tmp_path: Path) -> None:
    write(tmp_path, "shardlint.toml", "")
    near = write(tmp_path / "a", "pyproject.toml", "[tool.shardlint]\n")
    assert near == config.find(tmp_path / "a")


def test_shardlint_toml_wins_within_one_folder(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "[tool.shardlint]\n")
    own = write(tmp_path, "shardlint.toml", "")
    assert own == config.find(tmp_path)


def test_pyproject_without_our_table_is_passed_over(tmp_path: Path) -> None:
    own = write(tmp_path, "shardlint.toml", "")
    write(tmp_path / "a", "pyproject.toml", '[project]\ndependencies = ["shardlint"]\n')
    assert own == config.find(tmp_path / "a")


def test_dotted_table_in_pyproject_is_ours(tmp_path: Path) -> None:
    own = write(tmp_path, "pyproject.toml", "[tool]\nshardlint.online = true\n")
    assert own == config.find(tmp_path)


def test_broken_pyproject_with_our_header_is_found_so_that_load_can_say_so(tmp_path: Path) -> None:
    own = write(tmp_path, "pyproject.toml", "[tool.shardlint]\nselect = [\n")
    assert own == config.find(tmp_path)


def test_broken_pyproject_without_our_header_is_passed_over(tmp_path: Path) -> None:
    own = write(tmp_path, "shardlint.toml", "")
    write(tmp_path / "a", "pyproject.toml", "[project]\nname = shardlint\n")
    assert own == config.find(tmp_path / "a")


def test_folder_named_like_the_file_is_passed_over(tmp_path: Path) -> None:
    own = write(tmp_path, "shardlint.toml", "")
    (tmp_path / "a/shardlint.toml").mkdir(parents=True)
    assert own == config.find(tmp_path / "a")


def test_start_may_be_a_file(tmp_path: Path) -> None:
    own = write(tmp_path, "shardlint.toml", "")
    manifest = write(tmp_path / "a", "deploy.yaml", "")
    assert own == config.find(manifest)


def test_dots_in_start_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "a", "shardlint.toml", "")
    own = write(tmp_path, "shardlint.toml", "")
    assert own == config.find(tmp_path / "a" / "..")


def test_nothing_upward_is_none(tmp_path: Path) -> None:
    found = config.find(tmp_path / "a/b")
    assert found is None or tmp_path not in found.parents


# -------------------------------------------------------------------------------------- load


def test_nothing_said_is_nothing_known() -> None:
    said = Settings()
    assert ((), (), None) == (said.select, said.ignore, said.fail_on)
    assert Machines() == said.hardware
    assert Path() == said.folder


def test_empty_file_says_nothing(load: Load) -> None:
    said = load("")
    assert Settings(path=said.path) == said


def test_rule_selection_is_read(load: Load) -> None:
    said = load(FULL)
    assert ("SL1", "tp-cross-node") == said.select
    assert ("SL104",) == said.ignore
    assert "warning" == said.fail_on
    assert ("vendor/", "*.tmpl.yaml") == said.exclude
    assert {"tests/**": ("SL3", "tp-slow-link")} == dict(said.per_file_ignores)


def test_releases_are_read(load: Load) -> None:
    said = load(FULL)
    assert {"vllm": "0.8.5"} == dict(said.engines)
    assert {"kserve": "0.14"} == dict(said.platforms)


def test_unknown_engine_is_kept_for_the_engines_to_judge(load: Load) -> None:
    assert {"vlm": "1"} == dict(load('[engines]\nvlm = "1"').engines)


def test_hardware_is_read(load: Load) -> None:
    assert (
        Machines(gpu="H100-SXM-80GB", gpus_per_node=8, nodes=2, network="rdma", link="nvlink")
        == load(FULL).hardware
    )


def test_hardware_left_out_stays_unknown(load: Load) -> None:
    assert Machines(nodes=2) == load("hardware.nodes = 2").hardware


def test_gpus_are_read(load: Load) -> None:
    card = load(FULL).gpus["H100-SXM-64GB"]
    assert {"mem_gib": 63.4, "base": "H100-SXM-80GB"} == dict(card)


def test_model_config_is_a_path_from_the_folder_of_the_file(load: Load, tmp_path: Path) -> None:
    assert {"config": tmp_path / "models/tiny"} == dict(load(FULL).models["acme/tiny"])


def test_model_base_takes_facts_beside_it(load: Load) -> None:
    facts = load(FULL).models["acme/tuned"]
    assert "Qwen/Qwen2.5-7B-Instruct" == facts["base"]
    assert 131072 == facts["max_position_embeddings"]


def test_model_facts_fit_the_dataclass(load: Load) -> None:
    facts = dict(load(FULL).models["acme/own"])
    facts["kv_groups"] = tuple(KvGroup(**group) for group in facts["kv_groups"])
    made = ModelFacts(id="acme/own", **facts)
    assert (28, 4, (2,)) == (made.attention_heads, made.kv_heads, made.other_kv_heads)
    assert 512 == made.kv_groups[0].bytes_per_head


def test_further_keys_of_a_quantization_are_kept(load: Load) -> None:
    assert "dynamic" == load(FULL).models["acme/own"]["quantization"]["activation_scheme"]


def test_workload_pools_and_overlays_are_kept(load: Load) -> None:
    said = load(FULL)
    assert "agent" == said.workload["kind"]
    assert {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} == dict(said.pools[0]["match"])
    assert ("base.yaml", "prod.yaml") == said.overlays[0]["files"]


def test_settings_cannot_be_changed(load: Load) -> None:
    said = load(FULL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        said.online = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        said.models["acme/own"]["kv_heads"] = 8  # type: ignore[index]


def test_pyproject_is_read_from_its_table(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n[tool.shardlint]\nignore = ["SL2"]\n[[tool.shardlint.pool]]\n'
    path = write(tmp_path, "pyproject.toml", text)
    said = config.load(path, "pyproject.toml")
    assert ("SL2",) == said.ignore
    assert 1 == len(said.pools)


def test_file_of_another_name_is_read_from_the_top(tmp_path: Path) -> None:
    path = write(tmp_path, "ci.toml", 'ignore = ["SL2"]')
    assert ("SL2",) == config.load(path, "ci.toml").ignore


def test_byte_order_mark_and_crlf_are_read(load: Load) -> None:
    assert 2 == load("\ufeff[hardware]\r\nnodes = 2\r\n").hardware.nodes


# ------------------------------------------------------------------------- errors and places


def test_unknown_key_in_an_array_of_tables_has_a_place_and_a_guess(refusal: Refusal) -> None:
    text = (
        "[[pool]]\n"
        'match = {"nvidia.com/gpu.product" = "NVIDIA-H100-80GB-HBM3"}\n'
        'gpu = "H100-SXM-80GB"\n'
        'netwrok = "rdma"\n'
    )
    assert (
        "shardlint.toml:4:1: unknown key 'netwrok' in [[pool]]; did you mean 'network'?"
        == refusal(text)
    )


def test_unknown_key_in_the_second_table_of_an_array(refusal: Refusal) -> None:
    text = "[[pool]]\nnodes = 1\n\n[[pool]]\n  nodez = 1\n"
    assert "shardlint.toml:5:3: unknown key 'nodez' in [[pool]]; did you mean 'nodes'?" == refusal(
        text
    )


def test_unknown_key_at_the_top(refusal: Refusal) -> None:
    text = '# select\nonline = true\nselct = ["SL1"]\n'
    assert "shardlint.toml:3:1: unknown key 'selct'; did you mean 'select'?" == refusal(text)


def test_unknown_table_points_at_its_name(refusal: Refusal) -> None:
    text = '\n[enginez]\nvllm = "0.8.5"\n'
    assert "shardlint.toml:2:2: unknown key 'enginez'; did you mean 'engines'?" == refusal(text)


def test_unknown_key_in_an_inline_table(refusal: Refusal) -> None:
    text = "hardware = { nodes = 2, gpu_per_node = 8 }\n"
    assert (
        "shardlint.toml:1:25: unknown key 'gpu_per_node' in [hardware];"
        " did you mean 'gpus_per_node'?" == refusal(text)
    )


def test_unknown_key_in_a_table_with_a_quoted_name(refusal: Refusal) -> None:
    text = '[models."org/name"]\nkv_heads = 8\natention_heads = 64\n'
    assert (
        "shardlint.toml:3:1: unknown key 'atention_heads' in [models.\"org/name\"];"
        " did you mean 'attention_heads'?" == refusal(text)
    )


def test_unknown_dotted_key_points_at_its_last_part(refusal: Refusal) -> None:
    assert (
        "shardlint.toml:1:10: unknown key 'nods' in [hardware]; did you mean 'nodes'?"
        == refusal("hardware.nods = 2")
    )


def test_unknown_key_in_pyproject_names_the_whole_table(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n\n[tool.shardlint.hardware]\nnetwrok = "rdma"\n'
    path = write(tmp_path, "pyproject.toml", text)
    with pytest.raises(ConfigError) as caught:
        config.load(path, "py/pyproject.toml")
    assert (
        "py/pyproject.toml:5:1: unknown key 'netwrok' in [tool.shardlint.hardware];"
        " did you mean 'network'?" == str(caught.value)
    )


def test_key_like_no_other_lists_a_few_known_ones(refusal: Refusal) -> None:
    assert (
        "shardlint.toml:2:1: unknown key 'xyz' in [hardware];"
        " known: gpu, gpus_per_node, link, network, nodes" == refusal("[hardware]\nxyz = 1\n")
    )


def test_key_like_no_other_among_many_lists_nothing(refusal: Refusal) -> None:
    assert "shardlint.toml:1:1: unknown key 'xyz'" == refusal("xyz = 1\n")


def test_key_with_control_characters_is_printed_on_one_line(refusal: Refusal) -> None:
    assert r"shardlint.toml:1:1: unknown key 'x\n\x1b[31m'" == refusal(r'"x\n\u001b[31m" = 1')


def test_first_problem_of_the_text_is_told(refusal: Refusal) -> None:
    text = '[hardware]\nnodes = "2"\n[engines]\nvllm = 1\n[workload]\nkind = "x"\n'
    assert refusal(text).startswith("shardlint.toml:2:9: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[pool]]\nper_node = "8"\n',
            "2:12: 'per_node' in [[pool]] must be a whole number, not a string",
        ),
        (
            "[hardware]\nnodes = 8.0\n",
            "2:9: 'nodes' in [hardware] must be a whole number, not a float",
        ),
        (
            "[hardware]\nnodes = true\n",
            "2:9: 'nodes' in [hardware] must be a whole number, not a boolean",
        ),
        ("[engines]\nvllm = 0.8\n", "2:8: 'vllm' in [engines] must be a string, not a float"),
        ('select = "SL1"\n', "1:10: 'select' must be an array, not a string"),
        (
            'ignore = [\n  "SL1",\n  2,\n]\n',
            "3:3: item 2 of 'ignore' must be a string, not an integer",
        ),
        ("hardware = 3\n", "1:12: 'hardware' must be a table, not an integer"),
        ("[pool]\nnodes = 1\n", "1:1: 'pool' must be an array, not a table"),
        ("[[select]]\n", "1:1: item 1 of 'select' must be a string, not a table"),
        (
            "online = 2024-01-01 07:00:00\n",
            "1:10: 'online' must be true or false, not a date or time",
        ),
        (
            "[[pool]]\nmatch.count = 8\n",
            "2:15: 'count' in [pool.match] must be a string, not an integer",
        ),
        (
            '[per-file-ignores]\n"a b" = "SL1"\n',
            "2:9: 'a b' in [per-file-ignores] must be an array, not a string",
        ),
        (
            '[models.x]\nother_kv_heads = [2, "x"]\n',
            "2:22: item 2 of 'other_kv_heads' in [models.x] must be a whole number, not a string",
        ),
        (
            "[[models.x.kv_groups]]\nlayers = 1\nheads = 0\nbytes_per_head = 1\n",
            "3:9: 'heads' in [[models.x.kv_groups]] must be at least 1, not 0",
        ),
    ],
)
def test_wrong_type_points_at_the_value(text: str, message: str, refusal: Refusal) -> None:
    assert f"shardlint.toml:{message}" == refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('fail-on = "critical"', "1:11: 'fail-on' must be error, warning or info, not 'critical'"),
        (
            "[hardware]\nlink = 3",
            "2:8: 'link' in [hardware] must be nvlink or pcie, not an integer",
        ),
        ("[hardware]\nnodes = 0", "2:9: 'nodes' in [hardware] must be at least 1, not 0"),
        (
            "workload.prefix_share = 80",
            "1:25: 'prefix_share' in [workload] must be at most 1, not 80",
        ),
        ("workload.ttft_ms = 0", "1:20: 'ttft_ms' in [workload] must be more than 0, not 0"),
        (
            "workload.prefix_share = nan",
            "1:25: 'prefix_share' in [workload] must be a finite number",
        ),
        ("[[pool]]\nprice = inf", "2:9: 'price' in [[pool]] must be a finite number"),
        ("hardware.nodes = 0x8000000000000000", "1:18: number out of range"),
        ('[hardware]\ngpu = ""', "2:7: 'gpu' in [hardware] must not be empty"),
        ("[[overlay]]\nfiles = []", "2:9: 'files' in [[overlay]] must not be empty"),
        ("\n[[overlay]]\n", "2:1: missing key 'files' in [[overlay]]"),
        ("overlay = [{}]", "1:12: missing key 'files' in [[overlay]]"),
        ("[gpus.x]", "1:1: 'x' in [gpus] must not be empty"),
        (
            "[gpus.x]\nmem_gb = 80\nmem_gib = 79.6",
            "3:1: 'mem_gb' and 'mem_gib' in [gpus.x] exclude each other",
        ),
        (
            '[models.x]\nbase = "a"\nconfig = "b"',
            "2:1: 'config' and 'base' in [models.x] exclude each other",
        ),
        ('exclude = ["a", "[z-a]"]', "1:17: '[z-a]' is no pattern of .gitignore"),
        ('[per-file-ignores]\n"!" = ["SL1"]', "2:1: '!' is no pattern of .gitignore"),
    ],
)
def test_wrong_value_points_at_the_value(text: str, message: str, refusal: Refusal) -> None:
    assert f"shardlint.toml:{message}" == refusal(text)


def test_syntax_error_has_the_place_of_the_parser(refusal: Refusal) -> None:
    text = "[hardware]\nnodes = 2\ngpu H100\n"
    assert "shardlint.toml:3:5: not TOML: expected '=' after a key in a key/value pair" == refusal(
        text
    )


def test_release_without_quotes_is_a_syntax_error_with_a_place(refusal: Refusal) -> None:
    assert refusal("[engines]\nvllm = 0.8.5\n").startswith("shardlint.toml:2:11: not TOML: ")


def test_syntax_error_at_the_end_is_placed_at_the_end(refusal: Refusal) -> None:
    assert refusal("a = 1\nb = [1,").startswith("shardlint.toml:2:8: not TOML: ")


def test_place_counts_lines_with_crlf(refusal: Refusal) -> None:
    assert refusal("a = 1\r\n\r\nb\r\n").startswith("shardlint.toml:3:2: not TOML: ")


def test_bytes_that_are_not_utf8_have_a_place(tmp_path: Path) -> None:
    path = tmp_path / "shardlint.toml"
    path.write_bytes(b'online = true\ngpu = "\xff"\n')
    with pytest.raises(ConfigError) as caught:
        config.load(path, "shardlint.toml")
    assert "shardlint.toml:2:8: byte 0xff is not UTF-8" == str(caught.value)


def test_number_with_too_many_digits_has_a_place(refusal: Refusal) -> None:
    text = f"hardware.nodes = {'9' * 5000}\n"
    assert "shardlint.toml:1:18: number out of range" == refusal(text)


def test_endless_nesting_of_brackets_has_a_place(refusal: Refusal) -> None:
    assert "shardlint.toml:1:37: nested too deeply" == refusal(f"a = {'[' * 100_000}")


def test_endless_nesting_of_dotted_keys_has_a_place(refusal: Refusal) -> None:
    text = f"{'.'.join('a' * 5000)} = 1"
    assert "shardlint.toml:1:65: nested too deeply" == refusal(text)


def test_missing_file_is_told_without_a_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "none.toml", "none.toml")
    assert "none.toml: cannot be read: No such file or directory" == str(caught.value)
    assert caught.value.line is None


def test_pyproject_without_our_table_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "pyproject.toml", "tool = 3")
    with pytest.raises(ConfigError) as caught:
        config.load(path, "pyproject.toml")
    assert "pyproject.toml: there is no table [tool.shardlint] here" == str(caught.value)


def test_error_carries_its_parts(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load("x = 1")
    error = caught.value
    assert ("unknown key 'x'", "shardlint.toml", 1, 1) == (
        error.message,
        error.file,
        error.line,
        error.column,
    )


def test_later_rooms_can_place_an_error_at_a_key(load: Load) -> None:
    error = load('[engines]\n  vlm = "0.8.5"\n').error(("engines", "vlm"), "no engine", key=True)
    assert "shardlint.toml:2:3: no engine" == str(error)


def test_later_rooms_can_place_an_error_at_a_value(load: Load) -> None:
    error = load('[engines]\n  vllm = "0.8.5"\n').error(("engines", "vllm"), "no release")
    assert "shardlint.toml:2:10: no release" == str(error)


def test_key_that_cannot_be_found_is_placed_at_its_table(load: Load) -> None:
    said = load("online = true\n[hardware]\nnodes = 1\n")
    assert "shardlint.toml:2:1: x" == str(said.error(("hardware", "gpu", 0), "x", key=True))


# ----------------------------------------------------------------------------------- locator

LOCATED = '''\
# [not.a.table]
plain = "# no comment = x"
multi = """
[hardware]
nodes = \\""" 1 """  # [hardware]
raw = \'\'\'it''s = [x]\'\'\'
date = 1979-05-27 07:32:00
list = [
  "a,b", # , ]
  [1, 2],
  { deep = { er = 1 }, "q.k" = 'v' },
]
a . "b.c" . d = 1
[ x . 'y z' ]
k = 1
[[t]]
k = 1
[t.sub]
k = 2
[[t.more]]
k = 3
[[t]]
k = 4
[t.sub]
k = 5
[[t.more]]
k = 6
'''


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        (("plain",), (2, 1), (2, 9)),
        (("multi",), (3, 1), (3, 9)),
        (("raw",), (6, 1), (6, 7)),
        (("date",), (7, 1), (7, 8)),
        (("list",), (8, 1), (8, 8)),
        (("list", 0), (9, 3), (9, 3)),
        (("list", 1), (10, 3), (10, 3)),
        (("list", 1, 1), (10, 7), (10, 7)),
        (("list", 2), (11, 3), (11, 3)),
        (("list", 2, "deep"), (11, 5), (11, 12)),
        (("list", 2, "deep", "er"), (11, 14), (11, 19)),
        (("list", 2, "q.k"), (11, 24), (11, 32)),
        (("a",), (13, 1), (13, 5)),
        (("a", "b.c"), (13, 5), (13, 13)),
        (("a", "b.c", "d"), (13, 13), (13, 17)),
        (("x",), (14, 3), (14, 1)),
        (("x", "y z"), (14, 7), (14, 1)),
        (("x", "y z", "k"), (15, 1), (15, 5)),
        (("t",), (16, 3), (16, 1)),
        (("t", 0), (16, 1), (16, 1)),
        (("t", 0, "k"), (17, 1), (17, 5)),
        (("t", 0, "sub"), (18, 4), (18, 1)),
        (("t", 0, "sub", "k"), (19, 1), (19, 5)),
        (("t", 0, "more", 0, "k"), (21, 1), (21, 5)),
        (("t", 1), (22, 1), (22, 1)),
        (("t", 1, "k"), (23, 1), (23, 5)),
        (("t", 1, "sub", "k"), (25, 1), (25, 5)),
        (("t", 1, "more", 0, "k"), (27, 1), (27, 5)),
    ],
)  # fmt: skip
def test_locator_finds(where: config.Where, key: tuple[int, int], value: tuple[int, int]) -> None:
    found = config.locate(LOCATED)[where]
    assert (key, value) == (
        line_and_column(LOCATED, found.key),
        line_and_column(LOCATED, found.value),
    )


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset].split("\n")
    return len(before), len(before[-1]) + 1


def test_locator_finds_nothing_in_strings_and_comments() -> None:
    assert ("not",) not in config.locate(LOCATED)
    assert ("hardware",) not in config.locate(LOCATED)


LINES = st.sampled_from(
    [
        "a = 1", 'b = "x = [1] # y"', "c.d = [1, [2, {e = 3}],\n 4]", "f = {g = 1, h = {i = 'j'}}",
        '"k l" = """\n[a]\nm = 1\n"""', "n = '''\n[[t]]\n'''", "[t]", "[u.v]", "[[w]]", "[[w.x]]",
        "[w.y]", "# z = 1", "", '["a.b"]', "o . p = 2020-01-01 00:00:00 # [q]", "r = [\n# ]\n1,\n]",
        's = """a""""', "é = 1", '"\\u00e9" = [{}, []]', "\t v=-1.5e3\r",
    ]
)  # fmt: skip


def paths(value: Any, where: config.Where = ()) -> Iterator[config.Where]:
    yield where
    items: Any = value.items() if isinstance(value, dict) else []
    items = enumerate(value) if isinstance(value, list) else items
    for key, item in items:
        yield from paths(item, (*where, key))


@given(st.lists(LINES, max_size=12).map("\n".join))
@settings(deadline=None)
def test_locator_finds_all_that_the_parser_finds_and_no_more(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(paths(data)) == set(config.locate(text))


# ----------------------------------------------------------------------------------- any text

PIECES = st.sampled_from(
    [
        "[", "]", "[[", "{", "}", "=", ",", ".", "\n", '"', "'", '"""', "#", " ", "\\", "\r",
        "pool", "hardware", "models", "select", "per-file-ignores", "nodes", "match",
        "quantization", "1", "nan", "-inf", "1e999", "0x" + "f" * 40, "true", "07:32:00", '"x"',
        "é", "\x00", "\u2028", "select = ", "exclude = ", '"[z-a]"', '"!"', "[tool.shardlint]\n",
    ]
)  # fmt: skip


@given(st.text() | st.lists(PIECES, max_size=30).map("".join) | st.text("[]{}=\n\"'a.#, "))
@settings(deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    assert_read_or_refused(tmp_path_factory, text.encode("utf-8", "surrogatepass"))


@given(st.binary())
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    assert_read_or_refused(tmp_path_factory, data)


VALUES = st.recursive(
    st.sampled_from(
        ["1", "-1", "0.5", "nan", '"x"', '""', "true", "2020-01-01", '"SL1"', '"rdma"']
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(
            st.sampled_from(["match", "gpu", "nodes", "files", "base", "kv_heads", "x", "'é'"]),
            inner,
            max_size=3,
        ).map(lambda it: "{" + ", ".join(f"{key} = {value}" for key, value in it.items()) + "}")
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*schema("config")["properties"], "x"]), VALUES, max_size=5))
@settings(deadline=None)
def test_any_values_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, str]
) -> None:
    text = "\n".join(f"{name} = {value}" for name, value in tables.items())
    tomllib.loads(text)
    assert_read_or_refused(tmp_path_factory, text.encode())


def assert_read_or_refused(factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = factory.mktemp("config")
    for name in ("shardlint.toml", "pyproject.toml"):
        (folder / name).write_bytes(data)
        config.find(folder)
        try:
            said = config.load(folder / name, name)
        except ConfigError as error:
            assert "\n" not in str(error)
            assert error.line is None or error.line <= data.count(b"\n") + 1
        else:
            assert isinstance(said, Settings)


# ------------------------------------------------------------------------------- command line


def test_command_line_wins_over_the_file(load: Load) -> None:
    said = config.overridden(
        load(FULL), gpu="A100-SXM-80GB", nodes=1, network="none", fail_on="info", online=False
    )
    assert (
        Machines(gpu="A100-SXM-80GB", gpus_per_node=8, nodes=1, network="none", link="nvlink")
        == said.hardware
    )
    assert ("info", False) == (said.fail_on, said.online)


def test_silent_command_line_changes_nothing(load: Load) -> None:
    said = load(FULL)
    assert said == config.overridden(said)


def test_select_on_the_command_line_starts_afresh(load: Load) -> None:
    said = config.overridden(load(FULL), select=["SL104"])
    assert (("SL104",), ()) == (said.select, said.ignore)


def test_ignore_on_the_command_line_adds(load: Load) -> None:
    said = config.overridden(load(FULL), ignore=["SL2"])
    assert (("SL1", "tp-cross-node"), ("SL104", "SL2")) == (said.select, said.ignore)


def test_exclude_on_the_command_line_adds(load: Load) -> None:
    said = config.overridden(load(FULL), exclude=["old/"])
    assert ("vendor/", "*.tmpl.yaml", "old/") == said.exclude


def test_release_on_the_command_line_wins_for_its_engine_alone() -> None:
    file = Settings(engines={"vllm": "0.8.5", "sglang": "0.5.0"})
    said = config.overridden(file, engines={"vllm": "0.33.0"})
    assert {"vllm": "0.33.0", "sglang": "0.5.0"} == dict(said.engines)


def test_card_of_the_command_line_joins_those_of_the_file(load: Load) -> None:
    said = config.overridden(load(FULL), gpu="X1", gpus={"X1": {"mem_gib": 32.0}})
    assert {"H100-SXM-64GB", "X1"} == set(said.gpus)


# ---------------------------------------------------------------------------------- selectors


@pytest.mark.parametrize(
    ("select", "ignore", "runs"),
    [
        ([], [], True),
        (["SL101"], [], True),
        (["SL102"], [], False),
        (["SL"], [], True),
        (["SL1"], [], True),
        (["SL10"], [], True),
        (["SL11"], [], False),
        (["sl101"], [], False),
        (["tp-heads-indivisible"], [], True),
        (["tp-heads"], [], False),
        ([""], [], False),
        ([], ["SL101"], False),
        ([], ["SL1"], False),
        ([], ["tp-heads-indivisible"], False),
        ([], ["SL102"], True),
        (["SL1"], ["SL10"], False),
        (["SL10"], ["SL1"], True),
        (["SL101"], ["SL10"], True),
        (["tp-heads-indivisible"], ["SL10"], True),
        (["SL1"], ["tp-heads-indivisible"], False),
        (["SL1"], ["SL1"], False),
        (["tp-heads-indivisible"], ["SL101"], False),
        (["SL2", "SL101"], ["SL1"], True),
    ],
)
def test_more_specific_selector_wins_and_ignore_wins_a_tie(
    select: list[str], ignore: list[str], runs: bool
) -> None:
    assert runs == config.selected("SL101", "tp-heads-indivisible", select, ignore)


@pytest.mark.parametrize(("select", "runs"), [([], False), (["SL7"], True), (["SL1"], False)])
def test_rule_that_is_off_by_default_runs_once_selected(select: list[str], runs: bool) -> None:
    assert runs == config.selected("SL710", "model-revision-unpinned", select, (), enabled=False)


class Heads(Rule):
    id, name = "SL101", "tp-heads-indivisible"


class Cross(Rule):
    id, name = "SL201", "tp-cross-node"


RULES = (Heads, Cross)


def test_known_selectors_pass() -> None:
    assert {} == config.check_selectors(["SL1", "SL201", "tp-cross-node", "SL"], RULES)


def test_unknown_selectors_come_with_a_guess() -> None:
    assert {
        "SL301": "unknown rule 'SL301'; did you mean 'SL201'?",
        "tp-cross-nodes": "unknown rule 'tp-cross-nodes'; did you mean 'tp-cross-node'?",
        "sl101": "unknown rule 'sl101'; did you mean 'SL101'?",
        "xyz": "unknown rule 'xyz'",
    } == config.check_selectors(["SL301", "SL1", "tp-cross-nodes", "sl101", "xyz"], RULES)


def test_unknown_selector_in_a_list_has_a_place(load: Load) -> None:
    said = load('ignore = [\n  "SL1",\n  "tp-cross-nod",\n]\n')
    with pytest.raises(ConfigError) as caught:
        config.check_rules(said, RULES)
    assert "shardlint.toml:3:3: unknown rule 'tp-cross-nod'; did you mean 'tp-cross-node'?" == str(
        caught.value
    )


def test_unknown_selector_in_per_file_ignores_has_a_place(load: Load) -> None:
    said = load('[per-file-ignores]\n"*.yaml" = ["SL1", "SL9"]\n')
    with pytest.raises(ConfigError) as caught:
        config.check_rules(said, RULES)
    assert str(caught.value).startswith("shardlint.toml:2:20: unknown rule 'SL9'")


def test_known_selectors_in_the_file_pass(load: Load) -> None:
    config.check_rules(load('select = ["SL1"]\n[per-file-ignores]\n"*" = ["SL2"]\n'), RULES)


# -------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("file", "selectors"),
    [
        ("tests/a.yaml", ("SL3", "SL1")),
        ("tests/deep/b.sh", ("SL3",)),
        ("deploy/a.yaml", ("SL1",)),
        ("deploy/a.sh", ()),
        ("../tests/a.yaml", ()),
    ],
)
def test_per_file_ignores_match_from_the_folder_of_the_file(
    file: str, selectors: tuple[str, ...], load: Load, tmp_path: Path
) -> None:
    said = load('[per-file-ignores]\n"/tests/**" = ["SL3"]\n"*.yaml" = ["SL1"]\n')
    assert selectors == config.ignored_in(said, tmp_path / file)


@pytest.mark.parametrize(
    ("file", "skipped"),
    [
        ("vendor/chart/values.yaml", True),
        ("deploy/vendor/values.yaml", True),
        ("deploy/values.yaml", False),
        ("keep.tmpl.yaml", False),
        ("a.tmpl.yaml", True),
        ("../vendor/values.yaml", False),
    ],
)
def test_exclude_follows_gitignore(file: str, skipped: bool, load: Load, tmp_path: Path) -> None:
    said = load('exclude = ["vendor/", "*.tmpl.yaml", "!keep.tmpl.yaml"]')
    assert skipped == config.excluded(said, tmp_path / file)


def test_patterns_without_a_file_start_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.excluded(Settings(exclude=("/a/",)), Path("a/b.yaml"))
    assert not config.excluded(Settings(exclude=("/a/",)), Path("b/a/b.yaml"))


# ------------------------------------------------------------------------------------- schema


def test_schema_is_valid() -> None:
    assert "https://json-schema.org/draft/2020-12/schema" == schema("config")["$schema"]
    Draft202012Validator.check_schema(schema("config"))


def test_full_example_validates() -> None:
    assert [] == list(Draft202012Validator(schema("config")).iter_errors(tomllib.loads(FULL)))


def test_full_example_says_everything_that_the_schema_knows() -> None:
    assert set(schema("config")["properties"]) == set(tomllib.loads(FULL))
    for name in ("hardware", "workload"):
        assert set(schema("config")["properties"][name]["properties"]) == set(
            tomllib.loads(FULL)[name]
        )


def test_models_take_every_field_of_model_facts_that_a_user_can_know() -> None:
    fields = {item.name for item in dataclasses.fields(ModelFacts)}
    given = fields - set(NOT_STATED_BY_HAND) | {"config", "base"}
    assert given == set(schema("config")["$defs"]["model"]["properties"])


def test_kv_groups_take_every_field() -> None:
    group = schema("config")["$defs"]["model"]["properties"]["kv_groups"]["items"]
    assert {item.name for item in dataclasses.fields(KvGroup)} == set(group["properties"])


def test_hardware_takes_every_field_of_machines() -> None:
    hardware = schema("config")["properties"]["hardware"]["properties"]
    assert {item.name for item in dataclasses.fields(Machines)} == set(hardware)


def properties(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        yield from node.get("properties", {}).items()
        for item in node.values():
            yield from properties(item)


def test_schema_describes_every_key() -> None:
    whole = schema("config")
    described = {
        name: "description" in it
        or "description" in whole["$defs"][it["$ref"].removeprefix("#/$defs/")]
        for name, it in properties(whole)
    }
    assert [] == [name for name, has in described.items() if not has]


def tables(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        for item in node.values():
            yield from tables(item)


def test_schema_refuses_unknown_keys_everywhere_but_in_a_checkpoints_own_table() -> None:
    loose = [
        it["description"] for it in tables(schema("config")) if "additionalProperties" not in it
    ]
    assert 1 == len(loose)
    assert "quantization_config" in loose[0]


def test_import_is_light() -> None:
    code = "import sys, json, shardlint.config; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set() == {"difflib", "jsonschema", "pathspec", "rich", "tomllib"} & set(
        json.loads(run.stdout)
    )
