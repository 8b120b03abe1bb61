"""Shell scripts: which commands serve, with which environment, and where an option can be added."""

from __future__ import annotations

import pytest
from readers.reading import at, edited, fact, plan, plans, refused, stated, token, why
from shardlint.plan import ServingPlan
from shardlint.source import Source

FILE = "serve.sh"


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


# files


@pytest.mark.parametrize("name", ["run.sh", "run.bash", "RUN.SH", "run.zsh", "run.ksh", "a/b.sh"])
def test_a_script_is_known_by_its_name(name: str) -> None:
    assert 2 == stated(plan("vllm serve org/m -tp 2\n", name), "tp")


@pytest.mark.parametrize("name", ["start", "start.txt", "Makefile"])
@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\ncd /work; vllm serve org/m -tp 2\n",
        "#!/usr/bin/env bash\n:\nvllm serve org/m -tp 2",
        "vllm serve org/m -tp 2\n",
        "set -e\n  CUDA_VISIBLE_DEVICES=0,1 exec /opt/bin/vllm serve org/m -tp 2\n",
        "python3 -m vllm.entrypoints.openai.api_server --model org/m -tp 2\n",
        "docker run vllm/vllm-openai org/m -tp 2\n",
        "sudo nerdctl run vllm/vllm-openai org/m -tp 2\n",
    ],
)
def test_a_script_is_known_by_its_text(name: str, text: str) -> None:
    assert 2 == stated(plan(text, name), "tp")


@pytest.mark.parametrize(
    "name", ["README.md", "serve.py", "notes.rst", "a.json", "a.yaml", "a.toml"]
)
def test_a_text_of_another_kind_is_no_script(name: str) -> None:
    assert () == plans("vllm serve org/m -tp 2\n", name)


def test_a_text_without_a_command_is_no_script() -> None:
    assert () == plans("We use vllm serve org/m -tp 2 here.\n", "notes")


# commands


def test_a_command_is_a_plan() -> None:
    text = "cd /work\nvllm serve org/m \\\n  --tensor-parallel-size 8 \\\n  --port 80\n"
    found = read(text)
    assert ("shell", FILE, "0:/commands/1") == (found.kind, found.name, found.path)
    assert ("org/m", 8) == (stated(found, "model"), stated(found, "tp"))
    assert "8" == token(text, found, "tp")
    assert "vllm serve org/m \\" == at(text, found.origin)


def test_every_engine_is_a_plan() -> None:
    text = "vllm serve org/m -tp 2 &\nvllm serve org/n -tp 4 > log 2>&1 &\nwait\n"
    assert [("org/m", 2), ("org/n", 4)] == [
        (stated(item, "model"), stated(item, "tp")) for item in plans(text, FILE)
    ]


def test_the_name_of_a_file_has_no_folders() -> None:
    assert "b.sh" == plan("vllm serve org/m\n", "a/b.sh").name
    assert "b.sh" == plan("vllm serve org/m\n", "a\\b.sh").name


def test_comments_are_no_commands() -> None:
    text = "# vllm serve org/m -tp 8\nvllm serve org/m -tp 2  # -tp 4 --port 80\n"
    assert 2 == stated(read(text), "tp")


def test_text_is_no_command() -> None:
    text = 'echo "vllm serve org/m -tp 8"\ncat <<EOF\nvllm serve org/m -tp 4\nEOF\n'
    assert () == plans(text, FILE)


def test_a_script_that_hands_on_its_arguments_is_open() -> None:
    found = read('exec vllm serve "$@"\n')
    assert "arguments" in (found.open_ended or "")
    assert not fact(found, "model").is_known
    assert not fact(found, "tp").is_known
    assert not fact(found, "tp").is_unset
    assert refused(found, "tp")


def test_options_before_an_open_end_are_read() -> None:
    text = 'vllm serve org/m -tp 2 "$@"\n'
    found = read(text)
    assert 2 == stated(found, "tp")
    assert text.replace("-tp 2", "-tp 2 -pp 4") == edited(text, found, "pp", "4")


def test_a_script_in_a_script_is_read() -> None:
    text = "nohup bash -c 'vllm serve org/m --tensor-parallel-size 8' > log &\n"
    assert "8" == token(text, read(text), "tp")


def test_crlf_ends_lines() -> None:
    text = "vllm serve org/m \\\r\n  --tensor-parallel-size 8 \\\r\n  --port 80\r\n"
    found = read(text)
    assert "8" == token(text, found, "tp")
    assert text.replace("size 8", "size 8 --data-parallel-size 2") == edited(text, found, "dp", "2")


# environment


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m\n",
        "export CUDA_VISIBLE_DEVICES=0,1\nvllm serve org/m\n",
        "CUDA_VISIBLE_DEVICES=0,1\nexport CUDA_VISIBLE_DEVICES\nvllm serve org/m\n",
        "env CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m\n",
        "A=0,1; CUDA_VISIBLE_DEVICES=$A vllm serve org/m\n",
        "CUDA_VISIBLE_DEVICES=0,1 nohup vllm serve org/m &\n",
    ],
)
def test_visible_devices_are_counted(text: str) -> None:
    assert 2 == stated(read(text), "gpus_per_pod")


def test_visible_devices_have_a_place() -> None:
    text = "CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m\n"
    assert "0,1" == token(text, read(text), "gpus_per_pod")


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1\nvllm serve org/m\n",
        "CUDA_VISIBLE_DEVICES=0,1 true\nvllm serve org/m\n",
        "(export CUDA_VISIBLE_DEVICES=0,1)\nvllm serve org/m\n",
        "export CUDA_VISIBLE_DEVICES=0,1\nunset CUDA_VISIBLE_DEVICES\nvllm serve org/m\n",
    ],
)
def test_a_variable_that_does_not_reach_the_engine_hides_nothing(text: str) -> None:
    assert fact(read(text), "gpus_per_pod").is_unset


@pytest.mark.parametrize("value", ["$GPUS", '"$GPUS"', "$(seq -s, 0 7)", "''", "-1"])
def test_visible_devices_that_are_not_clear_are_unknown(value: str) -> None:
    assert why(read(f"CUDA_VISIBLE_DEVICES={value} vllm serve org/m\n"), "gpus_per_pod")


def test_a_default_of_a_variable_is_an_assumption() -> None:
    found = read("vllm serve org/m -tp ${TP:-8}\n")
    assert (8, frozenset({"TP is not set in the environment"})) == (
        stated(found, "tp"),
        fact(found, "tp").assumes,
    )


# several hosts


@pytest.mark.parametrize(
    "text",
    [
        "ray start --head\nvllm serve org/m -tp 16\n",
        "ray start --address=$HEAD\nvllm serve org/m -tp 16\n",
        "bash multi-node-serving.sh leader; vllm serve org/m -tp 16\n",
        "bash -c 'ray start --head; vllm serve org/m -tp 16'\n",
        "docker run --entrypoint sh vllm/vllm-openai -c 'ray start; vllm serve org/m -tp 16'\n",
    ],
)
def test_a_ray_cluster_joins_more_than_one_host(text: str) -> None:
    assert "joins several hosts" in (why(read(text), "nodes") or "")


def test_other_uses_of_ray_join_nothing() -> None:
    assert 1 == stated(read("ray status; ray stop\nvllm serve org/m -tp 8\n"), "nodes")


# edits


def test_a_value_is_replaced_in_place() -> None:
    text = "vllm serve org/m --tensor-parallel-size 8 --port 80\n"
    assert text.replace("size 8", "size 16") == edited(text, read(text), "tp", "16")


def test_a_variable_is_edited_where_it_is_set() -> None:
    text = "TP=8\nvllm serve org/m -tp $TP\n"
    assert text.replace("TP=8", "TP=2") == edited(text, read(text), "tp", "2")


def test_a_default_is_edited_in_its_braces() -> None:
    text = "vllm serve org/m -tp ${TP:-8}\n"
    assert text.replace("-8}", "-2}") == edited(text, read(text), "tp", "2")


def test_a_word_in_an_array_is_edited_there() -> None:
    text = 'ARGS=(--tensor-parallel-size 8\n  --port 80)\nvllm serve org/m "${ARGS[@]}"\n'
    found = read(text)
    assert text.replace("size 8", "size 2") == edited(text, found, "tp", "2")
    after = text.replace("size 8", "size 8 --pipeline-parallel-size 2")
    assert after == edited(text, found, "pp", "2")


def test_a_word_in_a_string_of_options_is_edited_there() -> None:
    text = 'ARGS="--tensor-parallel-size 8 --port 80"\nvllm serve org/m $ARGS\n'
    assert text.replace("size 8", "size 2") == edited(text, read(text), "tp", "2")


def test_a_word_in_a_command_string_is_edited_there() -> None:
    text = 'M=org/m\nCMD="vllm serve $M --tensor-parallel-size 8"\n$CMD\n'
    found = read(text)
    assert ("org/m", 8) == (stated(found, "model"), stated(found, "tp"))
    assert text.replace("size 8", "size 2") == edited(text, found, "tp", "2")


def test_a_word_of_a_command_that_is_evaluated_is_not_edited() -> None:
    text = 'CMD="vllm serve org/m --tensor-parallel-size 8"\neval "$CMD --port 80"\n'
    assert 8 == stated(read(text), "tp")
    assert "8 is put together elsewhere" == refused(read(text), "tp")
    after = text.replace("$CMD", "$CMD --pipeline-parallel-size 2")
    assert after == edited(text, read(text), "pp", "2")


def test_a_variable_of_two_engines_is_not_edited() -> None:
    text = "TP=8\nvllm serve org/m -tp $TP &\nvllm serve org/n -tp $TP &\n"
    assert ["`8` is read there too"] * 2 == [refused(item, "tp") for item in plans(text, FILE)]


def test_a_variable_inside_another_option_is_not_edited() -> None:
    text = "TP=8\nvllm serve org/m-tp$TP -tp $TP\n"
    assert "`org/m-tp8` is read there too" == refused(read(text), "tp")


def test_the_words_of_a_function_that_is_called_twice_are_not_edited() -> None:
    text = "serve() { vllm serve $1 -tp 8; }\nserve org/m\nserve org/n\n"
    for found in plans(text, FILE):
        assert refused(found, "tp")
        assert refused(found, "pp")


def test_a_size_that_is_computed_is_not_edited() -> None:
    text = "vllm serve org/m -tp $((4 * 2))\n"
    assert 8 == stated(read(text), "tp")
    assert "8 is put together elsewhere" == refused(read(text), "tp")


def test_an_unknown_size_is_not_edited() -> None:
    assert "put together elsewhere" in refused(read('vllm serve org/m -tp "$TP"\n'), "tp")


def test_an_option_without_a_value_is_not_edited() -> None:
    assert "has no value" in refused(read("vllm serve org/m --tensor-parallel-size\n"), "tp")


# options that are not there


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("vllm serve org/m", "vllm serve org/m --tensor-parallel-size 4"),
        ("vllm serve org/m --port 80", "vllm serve org/m --port 80 --tensor-parallel-size 4"),
        ("vllm serve org/m --port=80", "vllm serve org/m --port=80 --tensor-parallel-size=4"),
        ("vllm serve org/m -pp 2", "vllm serve org/m -pp 2 -tp 4"),
        ("vllm serve org/m -pp=2 --port 80", "vllm serve org/m -pp=2 -tp=4 --port 80"),
        (
            "vllm serve org/m --data-parallel-size 2 --port 80",
            "vllm serve org/m --data-parallel-size 2 --tensor-parallel-size 4 --port 80",
        ),
        (
            "vllm serve org/m --enforce-eager",
            "vllm serve org/m --enforce-eager --tensor-parallel-size 4",
        ),
        (
            "vllm serve org/m --port 80 --served-model-name a b",
            "vllm serve org/m --port 80 --tensor-parallel-size 4 --served-model-name a b",
        ),
        (
            "vllm serve org/m --port 80 --host $HOST",
            "vllm serve org/m --port 80 --tensor-parallel-size 4 --host $HOST",
        ),
        (
            "vllm serve org/m --port 80 > log 2>&1 &",
            "vllm serve org/m --port 80 --tensor-parallel-size 4 > log 2>&1 &",
        ),
        (
            "vllm serve org/m --port '80' | tee log",
            "vllm serve org/m --port '80' --tensor-parallel-size 4 | tee log",
        ),
        ("vllm serve --port 80 org/m", "vllm serve --port 80 org/m --tensor-parallel-size 4"),
        (
            'bash -c "vllm serve org/m"',
            'bash -c "vllm serve org/m --tensor-parallel-size 4"',
        ),
        (
            "docker run vllm/vllm-openai --model org/m",
            "docker run vllm/vllm-openai --model org/m --tensor-parallel-size 4",
        ),
    ],
)
def test_an_option_is_added_in_the_style_of_its_neighbour(command: str, after: str) -> None:
    text = f"set -e\n{command}\necho done\n"
    assert f"set -e\n{after}\necho done\n" == edited(text, read(text), "tp", "4")


def test_an_option_is_added_on_the_line_of_its_neighbour() -> None:
    text = "vllm serve org/m \\\n  -pp 2 \\\n  --port 80 \\\n  # done\n"
    assert text.replace("-pp 2", "-pp 2 -tp 4") == edited(text, read(text), "tp", "4")


@pytest.mark.parametrize("value", ["", "4 --port 80", "$(rm -rf /)", "4;", "'4'", "a\nb", "x:"])
def test_a_value_that_needs_quotes_is_refused(value: str) -> None:
    text = "vllm serve org/m -tp 8\n"
    for field in ("tp", "pp"):
        assert "cannot be written without quoting" in refused(read(text), field, value)


def test_edits_name_the_file() -> None:
    text = "vllm serve org/m -tp 8\n"
    for field in ("tp", "pp"):
        (edit,) = read(text).sites[field].set("2")  # type: ignore[misc]
        assert FILE == edit.file


def test_a_reader_is_asked_by_name_and_text_alone() -> None:
    from shardlint.readers.shell import ShellReader

    assert ShellReader().accepts(Source("run.sh", ""))
    assert not ShellReader().accepts(Source("run", ""))
