"""Sites: setting one field of a plan changes that fact of that plan, and no other text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers.reading import EDITABLE, block, corpus, edited, plan, project, refused, text_of
from shardlint.plan import Refusal, ServingPlan
from shardlint.reports.inspection import FIELDS
from shardlint.source import Edit, apply

# ------------------------------------------------------------------------ what must hold


def facts(of: ServingPlan) -> dict[str, Any]:
    """What is stated: what follows from it changes with it."""
    stated = {name: of.fact(path) for name, path in FIELDS.items()}
    read = {name: () if fact.how == "derived" else fact.values for name, fact in stated.items()}
    return {"id": of.id, "engine": of.engine, "image": of.image.values, **read}


def check_kept(text: str, after: str, edits: Sequence[Edit]) -> None:
    """Outside of the edits the text is the same."""
    at, new = 0, 0
    for edit in sorted(edits, key=lambda edit: edit.span):
        kept = text[at : edit.span.start]
        assert kept + edit.text == after[new : new + len(kept) + len(edit.text)]
        at, new = edit.span.end, new + len(kept) + len(edit.text)
    assert text[at:] == after[new:]


def check_site(text: str, name: str, index: int, field: str, value: int) -> str | None:
    """Set one field and read again; returns why it was refused."""
    before = project(text, name).plans
    site = before[index].sites.get(field)
    made = site.set(str(value)) if site is not None else Refusal("there is no site")
    if isinstance(made, Refusal):
        assert made.reason
        return made.reason
    after = apply(text, made)
    check_kept(text, after, made)
    wanted = [facts(each) for each in before]
    wanted[index][field] = (value,)
    again = project(after, name)
    assert () == again.problems
    assert wanted == [facts(each) for each in again.plans]
    return None


# -------------------------------------------------------------------------- real manifests


@pytest.mark.parametrize("name", corpus())
@pytest.mark.parametrize("value", [1, 16])
def test_a_site_of_a_real_manifest_changes_its_fact_alone(name: str, value: int) -> None:
    text = text_of(name)
    for index, _ in enumerate(project(text, name).plans):
        for field in EDITABLE:
            check_site(text, name, index, field, value)


SETTINGS: tuple[tuple[str, Any], ...] = (
    ("ep", True), ("dcp", 2), ("max_model_len", 4096), ("kv_cache_dtype", "fp8"),
    ("max_num_seqs", 16), ("max_num_batched_tokens", 8192), ("gpu_memory_utilization", 0.5),
    ("quantization", "fp8"),
)  # fmt: skip
"""Options beside the sizes of a layout, each with a value that vLLM takes."""


@pytest.mark.parametrize("name", corpus())
def test_an_option_of_a_real_manifest_is_set_alone(name: str) -> None:
    text = text_of(name)
    for index, each in enumerate(project(text, name).plans):
        for field, value in SETTINGS if each.engine == "vllm" else ():
            check_site(text, name, index, field, value)


@pytest.mark.parametrize("name", corpus())
def test_replicas_of_a_real_manifest_are_set_alone(name: str) -> None:
    text = text_of(name)
    for index, each in enumerate(project(text, name).plans):
        if each.fleet.max_replicas.is_unset:
            check_site(text, name, index, "replicas", 3)


@pytest.mark.parametrize("name", corpus())
def test_shared_memory_of_a_real_manifest_is_changed_alone(name: str) -> None:
    text = text_of(name)
    for index, each in enumerate(project(text, name).plans):
        if "shm_bytes" in each.sites:
            assert check_site(text, name, index, "shm_bytes", 16 * 2**30) is None


PLAIN = ("k8s-", "docker-compose", "shell")


@pytest.mark.parametrize(("plain", "least", "most"), [(True, 60, 0.1), (False, 150, 0.25)])
def test_nearly_every_layout_of_a_real_manifest_can_be_set(
    plain: bool, least: int, most: float, shared: Path
) -> None:
    """Where nothing can be written there is nothing to fix.

    In a chart or an operator's object more refuse: a key that is not there would do something else
    too, or an application decides what to ask of the engine.
    """
    assert shared.is_dir()
    refusals = []
    count = 0
    for name in corpus():
        if name.startswith(PLAIN) is not plain:
            continue
        text = text_of(name)
        for index, each in enumerate(project(text, name).plans):
            if each.engine == "vllm":
                found = [check_site(text, name, index, field, 16) for field in EDITABLE[:3]]
                count += len(found)
                refusals += [(name, reason) for reason in found if reason]
    assert count > least
    assert len(refusals) <= most * count, refusals


# ------------------------------------------------------------------------- lists of words

HEAD = "image: vllm/vllm-openai\n"


def grown(text: str, field: str = "pp") -> str:
    """The container after an option was added."""
    return edited(HEAD + text, plan(HEAD + text, "pod.yaml"), field, "2").removeprefix(HEAD)


@pytest.mark.parametrize(
    ("args", "after"),
    [
        (  # one item on a line: quotes as the words beside have them
            "args:\n- org/m\n- --tensor-parallel-size\n- '8'\n- --port=80\n",
            "args:\n- org/m\n- --tensor-parallel-size\n- '8'\n- --pipeline-parallel-size\n- '2'\n"
            "- --port=80\n",
        ),
        (
            'args:\n  - "org/m"\n  - "--tensor-parallel-size"\n  - "8"  # all of them\n',
            'args:\n  - "org/m"\n  - "--tensor-parallel-size"\n  - "8"  # all of them\n'
            '  - "--pipeline-parallel-size"\n  - "2"\n',
        ),
        (
            "args:\n- org/m\n- -tp\n- 8\n",
            'args:\n- org/m\n- -tp\n- 8\n- -pp\n- "2"\n',
        ),
        (  # option and value in one word
            "args:\n- org/m\n- --tensor-parallel-size=8\n- --port=80\n",
            "args:\n- org/m\n- --tensor-parallel-size=8\n- --pipeline-parallel-size=2\n"
            "- --port=80\n",
        ),
        (
            'args:\n- org/m\n- "--tensor-parallel-size=8"\n',
            'args:\n- org/m\n- "--tensor-parallel-size=8"\n- "--pipeline-parallel-size=2"\n',
        ),
        ("args:\n- org/m\n- -tp=8\n", "args:\n- org/m\n- -tp=8\n- -pp=2\n"),
        (  # an option without a value
            "args:\n- org/m\n- --enforce-eager\n",
            'args:\n- org/m\n- --enforce-eager\n- --pipeline-parallel-size\n- "2"\n',
        ),
        (  # no option at all
            "args:\n- org/m\n",
            'args:\n- org/m\n- --pipeline-parallel-size\n- "2"\n',
        ),
        (  # an option with many values stays whole
            "args:\n- org/m\n- --port=80\n- --served-model-name\n- a\n- b\n",
            "args:\n- org/m\n- --port=80\n- --pipeline-parallel-size=2\n- --served-model-name\n"
            "- a\n- b\n",
        ),
        (  # other ways to write a dash
            "args:\n    -   org/m\n    -   -tp\n    -   '8'\n",
            "args:\n    -   org/m\n    -   -tp\n    -   '8'\n    -   -pp\n    -   '2'\n",
        ),
        (
            "args:\n- org/m\n- -tp\n- &n !!str '8'\n",
            "args:\n- org/m\n- -tp\n- &n !!str '8'\n- -pp\n- '2'\n",
        ),
        (
            "args:\n- org/m\n- --port=80\n- -tp\n- '8'",
            "args:\n- org/m\n- --port=80\n- -tp\n- '8'\n- -pp\n- '2'",
        ),
        (
            "args:\n- org/m\n- -tp\n- >-\n  8\n\nenv: []\n",
            'args:\n- org/m\n- -tp\n- >-\n  8\n- -pp\n- "2"\n\nenv: []\n',
        ),
        (  # brackets
            "args: [org/m, -tp, '8', --port=80]\n",
            "args: [org/m, -tp, '8', -pp, '2', --port=80]\n",
        ),
        (
            'args: ["org/m", "--tensor-parallel-size=8"]\n',
            'args: ["org/m", "--tensor-parallel-size=8", "--pipeline-parallel-size=2"]\n',
        ),
        ("args: [org/m, -tp, 8]\n", 'args: [org/m, -tp, 8, -pp, "2"]\n'),
        ("args: &a [org/m, -tp=8]\n", "args: &a [org/m, -tp=8, -pp=2]\n"),
        (
            'args: [\n  "org/m",\n  "-tp", "8",  # all\n]\n',
            'args: [\n  "org/m",\n  "-tp", "8", "-pp", "2",  # all\n]\n',
        ),
        (  # the command holds the options
            "command: [vllm, serve, org/m, -tp, '8']\n",
            "command: [vllm, serve, org/m, -tp, '8', -pp, '2']\n",
        ),
        (  # scripts
            "command: [sh, -c, 'vllm serve org/m -tp 8']\n",
            "command: [sh, -c, 'vllm serve org/m -tp 8 -pp 2']\n",
        ),
        (
            'command: [sh, -c, "vllm serve \\"org/m\\" -tp \\"8\\""]\n',
            'command: [sh, -c, "vllm serve \\"org/m\\" -tp \\"8\\" -pp 2"]\n',
        ),
        (
            "command: [sh, -c]\nargs:\n- |\n  vllm serve org/m \\\n    -tp 8 \\\n    --port 80\n",
            "command: [sh, -c]\nargs:\n- |\n  vllm serve org/m \\\n    -tp 8 -pp 2 \\\n"
            "    --port 80\n",
        ),
        (
            "command: [sh, -c]\nargs:\n- >-\n  vllm serve org/m\n  -tp=8\n  --port 80",
            "command: [sh, -c]\nargs:\n- >-\n  vllm serve org/m\n  -tp=8 -pp=2\n  --port 80",
        ),
        (
            "command: [sh, -c]\nargs:\n- vllm serve org/m\n  -tp 8\n- --port\n",
            "command: [sh, -c]\nargs:\n- vllm serve org/m\n  -tp 8 -pp 2\n- --port\n",
        ),
        (
            "command: [bash, -c, 'vllm serve \"$@\"', --]\nargs:\n- org/m\n- -tp=8\n",
            "command: [bash, -c, 'vllm serve \"$@\"', --]\nargs:\n- org/m\n- -tp=8\n- -pp=2\n",
        ),
    ],
)
def test_an_option_is_added_in_the_style_of_its_neighbour(args: str, after: str) -> None:
    assert after == grown(args)


@pytest.mark.parametrize("end", ["\n", ""])
def test_an_option_is_added_with_the_line_ends_of_the_file(end: str) -> None:
    text = "args:\r\n- org/m\r\n- -tp\r\n- '8'" + end.replace("\n", "\r\n")
    after = "args:\r\n- org/m\r\n- -tp\r\n- '8'\r\n- -pp\r\n- '2'" + end.replace("\n", "\r\n")
    assert after == grown(text)


def test_a_variable_may_be_the_neighbour() -> None:
    text = "env: [{name: TP, value: '8'}]\nargs:\n- org/m\n- -tp\n- $(TP)\n"
    assert text + '- -pp\n- "2"\n' == grown(text)
    text = "env: [{name: TP, value: '8'}]\nargs:\n- org/m\n- --tensor-parallel-size=$(TP)\n"
    assert text + "- --pipeline-parallel-size=2\n" == grown(text)


def test_a_list_with_dashes_of_its_own_lines_is_refused() -> None:
    text = HEAD + "args:\n- org/m\n- -tp\n-\n  '8'\n"
    assert "one item on each line" in refused(plan(text, "pod.yaml"), "pp")


def test_a_text_with_old_line_ends_is_refused() -> None:
    text = HEAD + "args:\r- org/m\r- -tp\r- '8'\r"
    assert "one item on each line" in refused(plan(text, "pod.yaml"), "pp")


COMPOSE = "services:\n  llm:\n    image: vllm/vllm-openai\n"


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("command: org/m -tp 8 --port 80", "command: org/m -tp 8 -pp 2 --port 80"),
        ("command: 'org/m -tp=8'", "command: 'org/m -tp=8 -pp=2'"),
        ('command: "org/m -tp 8"', 'command: "org/m -tp 8 -pp 2"'),
        ("command: >\n  org/m\n  -tp 8\n", "command: >\n  org/m\n  -tp 8 -pp 2\n"),
        ("command: |\n  org/m\n  -tp 8", "command: |\n  org/m\n  -tp 8 -pp 2"),
        ("command: org/m\n  -tp 8", "command: org/m\n  -tp 8 -pp 2"),
        (
            "command: org/m -tp 8 --port ${PORT:-80}",
            "command: org/m -tp 8 -pp 2 --port ${PORT:-80}",
        ),
        ("command: org/m -tp ${TP:-8}", "command: org/m -tp ${TP:-8} -pp 2"),
        ("command: [org/m, -tp, '${TP:-8}']", "command: [org/m, -tp, '${TP:-8}', -pp, '2']"),
        (
            "command: bash -c 'vllm serve org/m -tp 8'",
            "command: bash -c 'vllm serve org/m -tp 8 -pp 2'",
        ),
        (
            "entrypoint: [bash, -c]\ncommand:\n- exec vllm serve org/m -tp 8\n",
            "entrypoint: [bash, -c]\ncommand:\n- exec vllm serve org/m -tp 8 -pp 2\n",
        ),
        (
            "entrypoint: vllm serve\ncommand: [org/m, -tp=8]\n",
            "entrypoint: vllm serve\ncommand: [org/m, -tp=8, -pp=2]\n",
        ),
    ],
)
def test_an_option_is_added_to_a_compose_command(command: str, after: str) -> None:
    text = COMPOSE + block(command, 4)
    found = plan(text, "compose.yaml")
    assert COMPOSE + block(after, 4) == edited(text, found, "pp", "2")


# --------------------------------------------------------------------- generated manifests

OPTIONS = (
    ("--tensor-parallel-size", "8"),
    ("-tp", "4"),
    ("-pp", "2"),
    ("--data-parallel-size", "3"),
    ("--port", "80"),
    ("--max-model-len", "4096"),
    ("--gpu-memory-utilization", "0.9"),
    ("--enforce-eager", None),
    ("--served-model-name", "a b"),
    ("--trust-remote-code", None),
)


@st.composite
def words(draw: st.DrawFn) -> list[str]:
    """A model and some options, joined with their values or not."""
    options = draw(st.lists(st.sampled_from(OPTIONS), max_size=5, unique_by=lambda row: row[0]))
    found = ["org/m"]
    for name, value in options:
        if value is None:
            found.append(name)
        elif " " not in value and draw(st.booleans()):
            found.append(f"{name}={value}")
        else:
            found += [name, *value.split()]
    return found


def quoted(word: str, quote: str) -> str:
    bare = not quote and word.replace(".", "").isdecimal()
    return f'"{word}"' if bare else f"{quote}{word}{quote}"


@st.composite
def listed(draw: st.DrawFn, key: str, indent: int) -> str:
    """The words as a YAML list, each with quotes of its own."""
    items = [quoted(word, draw(st.sampled_from(["", "'", '"']))) for word in draw(words())]
    pad = " " * indent
    if draw(st.booleans()):
        comment = draw(st.sampled_from(["", "  # why"]))
        return f"{pad}{key}:\n" + "".join(f"{pad}- {item}{comment}\n" for item in items)
    if draw(st.booleans()):
        return f"{pad}{key}: [{', '.join(items)}]\n"
    return f"{pad}{key}: [\n" + "".join(f"{pad}  {item},\n" for item in items) + f"{pad}]\n"


@st.composite
def line(draw: st.DrawFn, indent: int, start: str) -> str:
    """The words as one command line, as a YAML scalar of some style."""
    joined = draw(st.sampled_from([" ", " \\\n"]))
    parts = [start, *draw(words())] if start else draw(words())
    style = draw(st.sampled_from(["plain", "'", '"', "|", ">", "|-", ">-"]))
    pad = "\n" + " " * (indent + 2)
    if style in ("plain", "'", '"'):
        return style.strip("plain") + " ".join(parts) + style.strip("plain") + "\n"
    if style.startswith("|"):
        text = parts[0] + "".join(joined.replace("\n", pad) + part for part in parts[1:])
        return style + pad + text + "\n"
    return style + pad + pad.join(parts) + "\n"


@st.composite
def manifests(draw: st.DrawFn) -> tuple[str, str]:
    kind = draw(st.sampled_from(["pod", "script", "compose", "string", "shell"]))
    if kind == "pod":
        text = "image: vllm/vllm-openai\n" + draw(listed("args", 0)) + "resources: {}\n"
    elif kind == "script":
        text = "command: [sh, -c]\nargs:\n- " + draw(line(0, "vllm serve")) + "name: llm\n"
    elif kind == "compose":
        text = COMPOSE + draw(listed("command", 4)) + "    gpus: 8\n"
    elif kind == "string":
        text = COMPOSE + "    command: " + draw(line(4, "")) + "    gpus: 8\n"
    else:
        joined = draw(st.sampled_from([" ", " \\\n  "]))
        text = "set -e\nexec vllm serve " + joined.join(draw(words())) + "\necho done\n"
    ends = draw(st.sampled_from(["\n", "\r\n"]))
    name = {"shell": "run.sh", "compose": "compose.yaml", "string": "compose.yaml"}
    return name.get(kind, "pod.yaml"), text.replace("\n", ends)


@settings(deadline=None, max_examples=300)
@given(manifests(), st.sampled_from(EDITABLE), st.sampled_from([1, 2, 16]))
def test_a_site_changes_its_fact_alone(manifest: tuple[str, str], field: str, value: int) -> None:
    name, text = manifest
    assert 1 == len(project(text, name).plans)
    refusal = check_site(text, name, 0, field, value)
    assert not refusal or field == "gpus_per_pod"


@settings(deadline=None, max_examples=100)
@given(manifests())
def test_fields_can_be_set_together(manifest: tuple[str, str]) -> None:
    name, text = manifest
    (found,) = project(text, name).plans
    values: Mapping[str, str] = {"tp": "16", "pp": "3", "dp": "5"}
    made = [found.sites[field].set(value) for field, value in values.items()]
    edits = [each for each in made if not isinstance(each, Refusal)]
    assert len(made) == len(edits)
    (after,) = project(apply(text, chain.from_iterable(edits)), name).plans
    wanted = facts(found) | {field: (int(value),) for field, value in values.items()}
    assert wanted == facts(after)
