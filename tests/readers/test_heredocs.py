"""Files that a script writes and a command of it names."""

from __future__ import annotations

from textwrap import indent

import pytest
from readers.reading import edited, plan
from shardlint.readers.heredocs import written
from shardlint.source import Mapped, Source, Span

BODY = "tensor-parallel-size: 4\nmax-model-len: 8192\n"
RUN = "vllm serve Qwen/Qwen3-8B --config /tmp/c.yaml\n"


def names(script: str) -> dict[str, str]:
    mapped = Mapped.slice_of(script, Span(0, len(script)))
    found = written(mapped, Source("s.sh", script))
    return {name: file.text.text for name, file in found.items() if file.text is not None}


@pytest.mark.parametrize(
    "script",
    [
        f"cat <<EOF > /tmp/c.yaml\n{BODY}EOF\n",
        f"cat > /tmp/c.yaml <<'EOF'\n{BODY}EOF\n",
        f'cat >"/tmp/c.yaml" <<"END"\n{BODY}END\n',
        f"tee /tmp/c.yaml <<EOF >/dev/null 2>&1\n{BODY}EOF\n",
        f"C=/tmp/c.yaml\ncat <<EOF > $C\n{BODY}EOF\n",
        f'export C="/tmp/c.yaml"\ncat <<EOF > "${{C}}"\n{BODY}EOF\n',
        f"mkdir -p /tmp && cat <<-EOF > /tmp/c.yaml\n{BODY}\tEOF\n",
    ],
)
def test_the_text_of_a_file_is_found(script: str) -> None:
    assert {"/tmp/c.yaml": BODY} == names(script)


@pytest.mark.parametrize(
    "script",
    [
        f"cat <<EOF >> /tmp/c.yaml\n{BODY}EOF\n",
        f"tee -a /tmp/c.yaml <<EOF\n{BODY}EOF\n",
        f"cat <<EOF > /tmp/$NAME.yaml\n{BODY}EOF\n",
        f"C=/a\nC=/b\ncat <<EOF > $C\n{BODY}EOF\n",
        f"cat <<EOF > /tmp/c.yaml\n{BODY}EOF\ncat <<EOF > /tmp/c.yaml\n{BODY}EOF\n",
        f"cat <<EOF > /tmp/c.yaml\n{BODY}",
        f"cat <<EOF\n{BODY}EOF\n",
        f"# cat <<EOF > /tmp/c.yaml\n{BODY}EOF\n",
    ],
)
def test_what_is_not_plain_is_left_alone(script: str) -> None:
    assert {} == names(script)


def test_a_value_is_edited_in_the_text_that_is_written() -> None:
    script = f"cat <<EOF > /tmp/c.yaml\n{BODY}EOF\n{RUN}"
    found = plan(script, "s.sh")
    assert (4, 8192) == (found.layout.tp.only, found.memory.max_model_len.only)
    assert script.replace("size: 4", "size: 2") == edited(script, found, "tp", "2")


def test_a_script_in_a_manifest_writes_files_too() -> None:
    script = f"cat <<EOF > /tmp/c.yaml\n{BODY}EOF\n{RUN}"
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n"
        '    image: vllm/vllm-openai:v0.27.0\n    command: [bash, "-c"]\n    args:\n    - |\n'
        f"{indent(script, '      ')}"
    )
    found = plan(text, "pod.yaml")
    assert 4 == found.layout.tp.only
    assert text.replace("size: 4", "size: 2") == edited(text, found, "tp", "2")


def test_a_variable_in_the_text_is_not_known() -> None:
    script = f"cat <<EOF > /tmp/c.yaml\ntensor-parallel-size: $TP\nmax-num-seqs: 8\nEOF\n{RUN}"
    found = plan(script, "s.sh")
    assert not found.layout.tp.is_known
    assert 8 == found.memory.max_num_seqs.only


def test_a_long_text_takes_no_long_time() -> None:
    script = "cat tee > x " * 20_000 + "<<EOF\n" + "cat <<EOF > a\n" * 20_000
    assert {} == names(script)
