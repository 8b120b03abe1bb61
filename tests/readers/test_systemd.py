"""systemd units: commands, containers, environments."""

from __future__ import annotations

import pytest
from readers import reading
from readers.reading import plan, plans, stated, token
from shardlint.plan import ServingPlan

UNIT = """[Unit]
Description=An engine
ExecStart=/bin/no

[Service]
User=llm
Environment="CUDA_VISIBLE_DEVICES=0,1" MODEL=org/m
Environment=HOME=%h
EnvironmentFile=-/etc/llm.env
ExecStartPre=/bin/true
ExecStart=COMMAND
Restart=always

[Install]
WantedBy=multi-user.target
"""


def unit(command: str) -> str:
    return UNIT.replace("COMMAND", command)


def read(command: str) -> ServingPlan:
    return plan(unit(command), "llm.service")


@pytest.mark.parametrize(
    "command",
    [
        "/opt/venv/bin/vllm serve org/m --tensor-parallel-size 2",
        "-/opt/venv/bin/vllm serve ${MODEL} --tensor-parallel-size=2",
        "/opt/vllm serve $MODEL \\\n  # no comment\n  --tensor-parallel-size 2 \\\n  --port 80",
        "/bin/bash -c 'exec vllm serve org/m \\\n  --tensor-parallel-size 2'",
        '/bin/bash -lc "cd /x && vllm serve $MODEL -tp 2"',
    ],
)
def test_a_command_is_read(command: str) -> None:
    text, found = unit(command), read(command)
    assert (found.engine, found.kind, found.name) == ("vllm", "systemd", "llm.service")
    assert (stated(found, "model"), stated(found, "tp")) == ("org/m", 2)
    assert stated(found, "gpus_per_pod") == 2
    assert token(text, found, "tp") == "2"
    assert found.refused == ()
    assert "llm.env" in (found.placement.env_open or "")


def test_a_container_is_read() -> None:
    found = read(
        "/usr/bin/docker run --rm --gpus all --ipc=host \\\n  vllm/vllm-openai:v0.11.0 \\\n"
        "  --model org/m -tp 2"
    )
    assert (stated(found, "model"), stated(found, "gpus_per_pod")) == ("org/m", "all")
    assert found.tag.only == "v0.11.0"


@pytest.mark.parametrize("model", ["%h/models/x", "$OTHER", "${OTHER}/x", "__MODEL__"])
def test_what_is_filled_in_is_unknown(model: str) -> None:
    assert reading.why(read(f"/bin/vllm serve {model} -tp 2"), "model")


def test_an_option_is_written_and_changed() -> None:
    text = unit("/bin/vllm serve org/m -tp 2")
    found = plan(text, "llm.service")
    assert reading.edited(text, found, "tp", "1") == text.replace("-tp 2", "-tp 1")
    assert reading.edited(text, found, "pp", "2") == text.replace("-tp 2", "-tp 2 -pp 2")


@pytest.mark.parametrize(
    "command", ["/usr/bin/python3 app.py", "/opt/start.sh", "", "'", "/bin/bash -c", "\\"]
)
def test_other_commands_are_no_plans(command: str) -> None:
    assert plans(unit(command), "llm.service") == ()
    assert reading.project(unit(command), "llm.service").broken == ()


def test_other_sections_do_not_count() -> None:
    text = "[Service]\nUser=a\n[Other]\nExecStart=/bin/vllm serve org/m -tp 2\n"
    assert plans(text, "llm.service") == ()
