"""docker-compose: which services serve, and what interpolation, anchors and devices mean there."""

from __future__ import annotations

import json

import pytest
from harness import check
from readers import reading
from readers.reading import (
    at,
    block,
    edited,
    fact,
    plan,
    plans,
    refused,
    stated,
    token,
    why,
)
from shardlint.linter import lint
from shardlint.plan import ServingPlan

FILE = "compose.yaml"


def service(rest: str, image: str = "vllm/vllm-openai:v0.11.2") -> str:
    """A compose file with one service."""
    return f"services:\n  llm:\n    image: {image}\n" + block(rest, 4)


def read(text: str) -> ServingPlan:
    return plan(text, FILE)


def argv(of: ServingPlan) -> list[str | None]:
    return [word.value for word in of.argv]


# services


def test_a_service_is_a_plan() -> None:
    text = service("command: --model org/m -tp 2")
    found = read(text)
    assert ("compose", "llm", "0:/services/llm") == (found.kind, found.name, found.path)
    assert "compose.yaml#0:/services/llm" == found.id
    assert "llm" == at(text, found.origin)


def test_every_engine_is_a_plan_and_nothing_else_is() -> None:
    text = (
        "services:\n  a: {image: vllm/vllm-openai, command: org/m}\n"
        "  b: {image: vllm/vllm-openai, command: org/n}\n  proxy: {image: nginx}\n  c: 5\n"
    )
    assert ["org/m", "org/n"] == [stated(item, "model") for item in plans(text, FILE)]


def test_json_is_read() -> None:
    file = {"services": {"llm": {"image": "vllm/vllm-openai", "command": ["org/m", "-tp", "2"]}}}
    assert 2 == stated(plan(json.dumps(file), "compose.json"), "tp")


@pytest.mark.parametrize(
    "text",
    [
        "services: [a]",
        "services: 5",
        "services:",
        "apiVersion: v1\nservices: {a: {image: vllm/vllm-openai}}",
    ],
)
def test_other_services_are_none(text: str) -> None:
    assert () == plans(text, FILE)


def test_extension_fields_are_no_services() -> None:
    text = "x-llm: {image: vllm/vllm-openai, command: org/m}\nservices:\n  a: {image: nginx}\n"
    assert () == plans(text, FILE)


def test_an_override_without_an_image_is_told_by_its_options() -> None:
    text = "services:\n  llm:\n    command: --model org/m --tensor-parallel-size 2\n"
    assert 2 == stated(read(text), "tp")


def test_an_override_of_something_else_is_no_plan() -> None:
    assert () == plans("services:\n  llm:\n    ports: ['80:80']\n    scale: 2\n", FILE)


def test_what_extends_another_service_is_not_known() -> None:
    text = service("extends: {service: base, file: base.yaml}")
    found = read(text)
    assert "the service extends another one, which is not read" == why(found, "gpus_per_pod")
    assert not fact(found, "tp").is_known and not fact(found, "tp").is_unset


# commands


def test_a_string_is_split_into_words() -> None:
    text = service("command: --model 'org/m' --tensor-parallel-size 8")
    assert ["--model", "org/m", "--tensor-parallel-size", "8"] == argv(read(text))
    assert "8" == token(text, read(text), "tp")


STRINGS = [
    "--model org/m --tensor-parallel-size 8 --port 80",
    "'--model org/m --tensor-parallel-size 8'",
    '"--model org/m --tensor-parallel-size 8"',
    ">\n  --model org/m\n  --tensor-parallel-size 8\n  --port 80\n",
    "|\n  --model org/m\n  --tensor-parallel-size 8\n",
    "--model org/m\n  --tensor-parallel-size 8",
    '"--model org/m \\\n  --tensor-parallel-size 8 --served-model-name \\"a b\\""',
    "[--model, org/m, --tensor-parallel-size, '8']",
    '\n- --model=org/m\n- "--tensor-parallel-size"\n- "8"\n',
]


@pytest.mark.parametrize("command", STRINGS)
def test_a_command_is_read_with_places(command: str) -> None:
    text = service(f"command: {command}")
    found = read(text)
    assert ("org/m", 8) == (stated(found, "model"), stated(found, "tp"))
    assert "8" == token(text, found, "tp")
    assert "org/m" == token(text, found, "model")
    after = edited(text, found, "tp", "16")
    assert 16 == stated(read(after), "tp")
    assert len(text) + 1 == len(after)


def test_a_script_in_the_command_is_read() -> None:
    text = service("""\
    entrypoint: ["/bin/bash", "-c"]
    command:
      - |
        export VLLM_USE_V1=1
        exec vllm serve org/m --tensor-parallel-size 8
    """)
    assert "8" == token(text, read(text), "tp")


def test_a_script_in_a_string_is_read() -> None:
    text = service('command: bash -c "vllm serve org/m --tensor-parallel-size 8"')
    assert "8" == token(text, read(text), "tp")


def test_all_arguments_of_a_script_are_its_own() -> None:
    text = service("""\
    entrypoint: ["bash", "-c", 'exec vllm serve "$$@"', "--"]
    command:
      - org/m
      - --tensor-parallel-size
      - "8"
    """)
    assert ("org/m", 8) == (stated(read(text), "model"), stated(read(text), "tp"))


@pytest.mark.parametrize("operator", [";", "&&", "|", "> log", "2> log"])
def test_compose_drops_what_stands_behind_an_operator(operator: str) -> None:
    text = service(f"command: '--model org/m -tp 2 {operator} -pp 4'")
    assert (2, ()) == (stated(read(text), "tp"), fact(read(text), "pp").values)
    text = service("command: '--model org/m -tp 2 --served-model-name \"a|b\" -pp 4'")
    assert 2 == stated(read(text), "tp")
    assert 4 == stated(read(text), "pp")


def test_a_number_sign_is_a_word() -> None:
    text = service("command: |\n  org/m\n  --served-model-name # -tp 8\n")
    assert ["org/m", "--served-model-name", "#", "-tp", "8"] == argv(read(text))


# entrypoints


@pytest.mark.parametrize(
    "entrypoint",
    ["[vllm, serve]", "vllm serve", "['python3', '-m', 'vllm.entrypoints.openai.api_server']"],
)
def test_an_entrypoint_comes_before_the_command(entrypoint: str) -> None:
    text = service(f"entrypoint: {entrypoint}\ncommand: [--model, org/m, -tp, '2']")
    assert 2 == stated(read(text), "tp")
    assert "vllm" in (argv(read(text))[0] or "") + (argv(read(text))[2] or "")


@pytest.mark.parametrize("entrypoint", ["sleep", "[]", "''", "[/opt/start.sh]"])
def test_another_entrypoint_takes_the_engine_away(entrypoint: str) -> None:
    text = service(f"entrypoint: {entrypoint}\ncommand: [--model, org/m, -tp, '2']")
    assert () == plans(text, FILE)


def test_an_empty_entrypoint_leaves_the_command() -> None:
    text = service("entrypoint: []\ncommand: vllm serve org/m -tp 2")
    assert 2 == stated(read(text), "tp")


def test_an_entrypoint_without_a_value_is_the_images() -> None:
    assert 2 == stated(read(service("entrypoint:\ncommand: org/m -tp 2")), "tp")


# interpolation


def test_a_default_is_the_value_on_an_assumption() -> None:
    text = service("command: [--model, org/m, --tensor-parallel-size, '${TP:-8}']")
    found = read(text)
    assert 8 == stated(found, "tp")
    assert frozenset({"TP is not set"}) == fact(found, "tp").assumes
    assert "'${TP:-8}'" == token(text, found, "tp")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${A:-m}", "org/m"),
        ("${A-m}", "org/m"),
        ("${A:-${B:-m}}", "org/m"),
        ("${A:-${B-${C:-m}}}", "org/m"),
        ("${A:-m}${B-}", "org/m"),
        ("${A:-m-${B:-x}-y}", "org/m-x-y"),
        ("$$A", "org/$A"),
        ("$${A}", "org/${A}"),
        ("m$$", "org/m$"),
    ],
)
def test_variables_are_interpolated(written: str, value: str) -> None:
    text = service(f"command: [--model, 'org/{written}', -tp, '2']")
    assert value == argv(read(text))[1]


@pytest.mark.parametrize(
    "written",
    ["$A", "${A}", "${A:?say which}", "${A?}", "${A:+m}", "${A+m}", "${A:-${B}}", "${A:-m", "${1}"],
)
def test_a_variable_without_a_default_is_unknown(written: str) -> None:
    text = service(f"command: [--model, 'org/{written}', -tp, '2']")
    found = read(text)
    assert "is set outside this file" in (why(found, "model") or "")
    assert (2, None) == (stated(found, "tp"), found.open_ended)


@pytest.mark.parametrize("command", ["['org/m', -tp, '${TP}']", "org/m -tp ${TP} --port 80"])
def test_an_unknown_value_is_the_value_of_its_option(command: str) -> None:
    found = read(service(f"command: {command}"))
    assert "TP is set outside this file" == why(found, "tp")


def test_an_unknown_bare_word_in_a_string_can_be_many() -> None:
    found = read(service("command: org/m -tp 2 ${MORE}"))
    assert "MORE is set outside this file" == found.open_ended


def test_the_shell_expands_what_two_dollars_leave() -> None:
    text = service("""\
    environment: {TP: 8}
    command: bash -c "vllm serve org/m -tp $$TP"
    """)
    assert 8 == stated(read(text), "tp")


def test_an_unknown_value_in_a_script_is_unknown() -> None:
    found = read(service("command: bash -c 'vllm serve org/m -tp \"${TP}\" -pp 2'"))
    assert "TP is set outside this file" == why(found, "tp")
    assert (2, None) == (stated(found, "pp"), found.open_ended)


def test_an_assumption_covers_only_what_rests_on_it() -> None:
    found = read(service("command: --model ${M:-org/m} -tp 8 --port ${PORT:-80}"))
    assert frozenset({"M is not set"}) == fact(found, "model").assumes
    assert frozenset() == fact(found, "tp").assumes


def test_an_assumption_reaches_into_a_script() -> None:
    found = read(service("command: bash -c 'vllm serve ${M:-org/m} -tp 8 --port ${PORT:-80}'"))
    assert frozenset({"M is not set"}) == fact(found, "model").assumes
    assert frozenset() == fact(found, "tp").assumes
    found = read(service("command: bash -c 'N=${TP:-8}; vllm serve org/m -tp $$N'"))
    assert (8, frozenset({"TP is not set"})) == (stated(found, "tp"), fact(found, "tp").assumes)


def test_the_image_is_interpolated() -> None:
    found = read(service("command: org/m -tp 2", image="vllm/vllm-openai:${TAG:-v0.11.2}"))
    assert "v0.11.2" == found.tag.only
    assert frozenset({"TAG is not set"}) == found.tag.assumes


def test_a_default_is_edited_in_its_braces() -> None:
    text = service("command: [--model, org/m, -tp, '${TP:-8}']")
    assert text.replace("8}", "2}") == edited(text, read(text), "tp", "2")


@pytest.mark.parametrize("written", ["${TP:-${N:-8}}", "${TP:-8}${X-}"])
def test_a_value_that_is_put_together_is_not_edited(written: str) -> None:
    text = service(f"command: [--model, org/m, -tp, '{written}']")
    assert 8 == stated(read(text), "tp")
    assert "put together elsewhere" in refused(read(text), "tp")


# environment


@pytest.mark.parametrize(
    "environment",
    [
        "{CUDA_VISIBLE_DEVICES: '0,1'}",
        "[CUDA_VISIBLE_DEVICES=0,1]".replace("[", "['").replace("]", "']"),
        "\n- A=b=c\n- CUDA_VISIBLE_DEVICES=0,1\n",
        "\n  CUDA_VISIBLE_DEVICES: ${CVD:-0,1}\n",
        "\n- CUDA_VISIBLE_DEVICES=${CVD:-0,1}\n",
    ],
)
def test_variables_are_a_list_or_a_map(environment: str) -> None:
    text = service(f"command: org/m\ngpus: all\nenvironment: {environment}")
    assert 2 == stated(read(text), "gpus_per_pod")


@pytest.mark.parametrize(
    "environment", ["[CUDA_VISIBLE_DEVICES]", "{CUDA_VISIBLE_DEVICES: }", "5", "[5, {a: b}]"]
)
def test_a_variable_without_a_value_is_not_set(environment: str) -> None:
    text = service(f"command: org/m\ngpus: 4\nenvironment: {environment}")
    assert 4 == stated(read(text), "gpus_per_pod")


def test_a_variable_from_outside_is_unknown() -> None:
    text = service("command: org/m\ngpus: 4\nenvironment: ['CUDA_VISIBLE_DEVICES=${GPUS}']")
    assert "GPUS is set outside this file" == why(read(text), "gpus_per_pod")


# devices


def reservation(device: str) -> str:
    return service(
        "command: org/m -tp 2\ndeploy:\n  resources:\n    reservations:\n      devices:\n"
        + block(device, 6)
    )


@pytest.mark.parametrize(
    ("device", "count"),
    [
        ("- {driver: nvidia, count: 2, capabilities: [gpu]}", 2),
        ("- {driver: nvidia, count: '2', capabilities: [gpu]}", 2),
        ("- {driver: nvidia, count: all, capabilities: [gpu]}", "all"),
        ("- {driver: nvidia, count: -1, capabilities: [gpu]}", "all"),
        ("- {driver: nvidia, capabilities: [gpu]}", "all"),
        ("- {capabilities: [gpu, utility]}", "all"),
        ("- {capabilities: [[gpu]], count: 1}", 1),
        ("- {driver: nvidia, device_ids: ['0', '3'], capabilities: [gpu]}", 2),
        ("- {driver: nvidia, device_ids: ['0,1,2'], capabilities: [gpu]}", 3),
        ("- {driver: nvidia, device_ids: '0,1', capabilities: [gpu]}", 2),
        ("- {driver: nvidia, device_ids: [all], capabilities: [gpu]}", "all"),
        ("- {driver: cdi, device_ids: ['nvidia.com/gpu=all']}", "all"),
        ("- {driver: cdi, device_ids: ['nvidia.com/gpu=0', 'nvidia.com/gpu=1']}", 2),
        ("- {driver: nvidia, device_ids: ['${A:-0}', '${B:-1}'], capabilities: [gpu]}", 2),
        ("- {driver: nvidia, count: '${N:-4}', capabilities: [gpu]}", 4),
    ],
)
def test_a_reservation_counts_devices(device: str, count: int | str) -> None:
    assert count == stated(read(reservation(device)), "gpus_per_pod")


@pytest.mark.parametrize(
    "device",
    [
        "- {driver: nvidia, count: '${N}', capabilities: [gpu]}",
        "- {driver: nvidia, device_ids: ['${N}'], capabilities: [gpu]}",
        "- {driver: nvidia, count: x, capabilities: [gpu]}",
        "- {driver: nvidia, count: [1], capabilities: [gpu]}",
        "- {driver: nvidia, count: -3, capabilities: [gpu]}",
        "- {driver: nvidia, device_ids: [[0]], capabilities: [gpu]}",
        "- {driver: nvidia, count: 1, capabilities: [gpu]}\n"
        "- {driver: nvidia, count: 2, capabilities: [gpu]}",
    ],
)
def test_a_reservation_that_is_not_clear_is_unknown(device: str) -> None:
    assert why(read(reservation(device)), "gpus_per_pod")


@pytest.mark.parametrize(
    "device", ["- {capabilities: [tpu], count: 2}", "- 5", "a: b", "- {count: 2}"]
)
def test_a_reservation_of_something_else_counts_nothing(device: str) -> None:
    assert fact(read(reservation(device)), "gpus_per_pod").is_unset


def test_a_count_is_edited() -> None:
    text = reservation('- {driver: nvidia, count: "2", capabilities: [gpu]}')
    assert text.replace('"2"', '"4"') == edited(text, read(text), "gpus_per_pod", "4")


def test_the_default_of_a_count_is_edited() -> None:
    text = reservation("- {driver: nvidia, count: '${N:-2}', capabilities: [gpu]}")
    assert text.replace("-2}", "-4}") == edited(text, read(text), "gpus_per_pod", "4")


def test_named_devices_are_not_edited() -> None:
    text = reservation("- {driver: nvidia, device_ids: ['0', '3'], capabilities: [gpu]}")
    assert "device_ids names the GPUs" == refused(read(text), "gpus_per_pod")


@pytest.mark.parametrize(
    ("gpus", "count"),
    [
        ("all", "all"),
        ("2", 2),
        ("'2'", 2),
        ("-1", "all"),
        ("[{driver: nvidia, count: 2}]", 2),
        ("[{count: all}]", "all"),
        ("[{device_ids: ['0', '1']}]", 2),
        ("[{capabilities: [gpu]}]", "all"),
    ],
)
def test_gpus_count_devices(gpus: str, count: int | str) -> None:
    assert count == stated(read(service(f"command: org/m\ngpus: {gpus}")), "gpus_per_pod")


@pytest.mark.parametrize("gpus", ["some", "{a: b}", "[{count: 1}, {count: 2}]", "${GPUS}"])
def test_gpus_that_are_not_clear_are_not_counted(gpus: str) -> None:
    assert not fact(read(service(f"command: org/m\ngpus: {gpus}")), "gpus_per_pod").is_known


@pytest.mark.parametrize(
    ("devices", "count"),
    [
        ("[/dev/kfd, /dev/dri]", "all"),
        ("['/dev/kfd:/dev/kfd', '/dev/dri:/dev/dri']", "all"),
        ("[/dev/kfd, /dev/dri/renderD128]", 1),
        ("['/dev/kfd', '/dev/dri/renderD128', '/dev/dri/renderD129:/dev/dri/renderD129']", 2),
        ("['nvidia.com/gpu=all']", "all"),
        ("['nvidia.com/gpu=0', 'nvidia.com/gpu=1']", 2),
        ("['/dev/fuse']", None),
        ("[5, {a: b}]", None),
    ],
)
def test_mapped_devices_count(devices: str, count: int | str | None) -> None:
    assert count == stated(read(service(f"command: org/m\ndevices: {devices}")), "gpus_per_pod")


def test_a_device_from_outside_is_unknown() -> None:
    found = read(service("command: org/m\ndevices: ['${DEVICE}']"))
    assert "DEVICE is set outside this file" == why(found, "gpus_per_pod")


@pytest.mark.parametrize(
    ("visible", "count"), [("all", "all"), ("'0,1'", 2), ("none", None), ("void", None), ("0", 1)]
)
def test_the_runtime_of_nvidia_hands_in_what_a_variable_names(
    visible: str, count: int | str | None
) -> None:
    rest = f"command: org/m\nruntime: nvidia\nenvironment: {{NVIDIA_VISIBLE_DEVICES: {visible}}}"
    assert count == stated(read(service(rest)), "gpus_per_pod")


def test_without_the_runtime_the_variable_hands_in_nothing() -> None:
    rest = "command: org/m\nenvironment: {NVIDIA_VISIBLE_DEVICES: all}"
    assert fact(read(service(rest)), "gpus_per_pod").is_unset


def test_the_runtime_of_gaudi_hands_in_what_its_variable_names() -> None:
    rest = "command: org/m\nruntime: habana\nenvironment: ['HABANA_VISIBLE_DEVICES=all']"
    assert "all" == stated(read(service(rest)), "gpus_per_pod")


def test_a_variable_narrows_a_reservation() -> None:
    text = reservation("- {count: all, capabilities: [gpu]}") + block(
        "environment: ['CUDA_VISIBLE_DEVICES=0,1']", 4
    )
    assert 2 == stated(read(text), "gpus_per_pod")
    assert "CUDA_VISIBLE_DEVICES chooses among the devices" == refused(read(text), "gpus_per_pod")


def test_shared_memory_is_read() -> None:
    assert 16 * 2**30 == stated(read(service("command: org/m\nshm_size: 16gb")), "shm_bytes")
    assert 2**20 == stated(read(service("command: org/m\nshm_size: ${S:-1m}")), "shm_bytes")


# copies


@pytest.mark.parametrize(
    ("rest", "count"),
    [("deploy: {replicas: 3}", 3), ("scale: 2", 2), ("deploy: {replicas: '${N:-4}'}", 4)],
)
def test_copies_are_replicas(rest: str, count: int) -> None:
    assert count == stated(read(service(f"command: org/m\n{rest}")), "replicas")


def test_copies_from_outside_are_unknown() -> None:
    found = read(service("command: org/m\ndeploy: {replicas: '${N}'}"))
    assert "N is set outside this file" == why(found, "replicas")


# anchors

SHARED = """\
x-llm: &llm
  image: vllm/vllm-openai
  command: &cmd [--model, org/m, --tensor-parallel-size, "8"]
  deploy: {resources: {reservations: {devices: [{count: 8, capabilities: [gpu]}]}}}
services:
  a:
    <<: *llm
"""


def test_a_merged_service_is_read_at_its_anchor() -> None:
    found = read(SHARED)
    assert (8, 8) == (stated(found, "tp"), stated(found, "gpus_per_pod"))
    assert SHARED.replace('"8"', '"2"') == edited(SHARED, found, "tp", "2")
    assert SHARED.replace("count: 8", "count: 2") == edited(SHARED, found, "gpus_per_pod", "2")


def test_an_aliased_list_grows_at_its_anchor() -> None:
    text = SHARED.replace("<<: *llm", "image: vllm/vllm-openai\n    command: *cmd")
    after = text.replace('"8"]', '"8", --pipeline-parallel-size, "2"]')
    assert after == edited(text, read(text), "pp", "2")


def test_what_two_services_share_is_not_edited() -> None:
    text = SHARED + "  b:\n    <<: *llm\n"
    for found in plans(text, FILE):
        for field in ("tp", "pp", "dp", "gpus_per_pod"):
            assert "is read there too" in refused(found, field)


def test_what_one_of_two_services_has_for_itself_is_edited() -> None:
    text = SHARED + "  b:\n    <<: *llm\n    command: [--model, org/n, -tp, '4']\n"
    first, second = plans(text, FILE)
    assert text.replace("'4'", "'2'") == edited(text, second, "tp", "2")
    assert text.replace('"8"', '"2"') == edited(text, first, "tp", "2")


def test_an_aliased_word_is_not_edited() -> None:
    text = 'x-tp: &tp "8"\n' + service("command: [--model, org/m, --tensor-parallel-size, *tp]")
    assert 8 == stated(read(text), "tp")
    assert "put together elsewhere" in refused(read(text), "tp")
    assert "*tp, --pipeline-parallel-size," in edited(text, read(text), "pp", "2")


def test_an_aliased_script_is_not_edited() -> None:
    text = "x-run: &run vllm serve org/m -tp 8\n" + service("command: [bash, -c, *run]")
    assert 8 == stated(read(text), "tp")
    assert refused(read(text), "tp")
    assert "no place was found" in refused(read(text), "pp")


def test_an_anchored_value_is_edited() -> None:
    text = service("command: [--model, org/m, -tp, &tp '8']\nlabels: {tp: *tp}")
    assert text.replace("'8'", "'2'") == edited(text, read(text), "tp", "2")


# suppressions


@pytest.mark.parametrize("line", ["  llm:", "    command: |", "      --tensor-parallel-size 8"])
def test_a_comment_suppresses_at_the_service_its_script_and_the_value(line: str) -> None:
    text = service("command: |\n  --model Qwen/Qwen2.5-7B-Instruct\n  --tensor-parallel-size 8\n")
    assert "tp-heads-indivisible" in found_in(text)
    if line.endswith("8"):
        return  # a comment there would be an argument
    text = text.replace(line, f"{line}  # shardlint: ignore[SL101]")
    assert "tp-heads-indivisible" not in found_in(text)


def found_in(text: str) -> list[str]:
    return reading.names(lint(reading.project(text, FILE)).result.findings)


# wrong types


@pytest.mark.parametrize(
    "rest",
    [
        "command: {a: b}",
        "command: [[--model], {a: b}, 5, null]",
        "entrypoint: {a: b}",
        "command: org/m\ndeploy: [a]",
        "command: org/m\ndeploy: {resources: {reservations: {devices: {a: b}}}}",
        "command: org/m\ndeploy: {resources: {reservations: {devices: [{device_ids: }]}}}",
        "command: org/m\nshm_size: [1]",
        "command: org/m\nscale: {a: b}",
        "command: org/m\ngpus: []",
        "command: org/m\nruntime: [nvidia]",
        "command: org/m\nenvironment: [[A=b]]",
        "image: {a: b}\ncommand: org/m",
    ],
)
def test_a_wrong_type_is_survived(rest: str) -> None:
    text = service(rest) if "image" not in rest else "services:\n  a:\n" + block(rest, 4)
    assert () == reading.project(text, FILE).broken


def test_a_variable_that_hides_devices_is_where_they_are_few() -> None:
    text = """\
services:
  v:
    image: vllm/vllm-openai:v0.12.0
    command: --model Qwen/Qwen3-8B -tp 2
    environment: {CUDA_VISIBLE_DEVICES: "0"}
    deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}
"""
    (short,) = (f for f in check(text, "compose.yaml").findings if f.name == "gpu-count-short")
    assert 5 == short.start.line
