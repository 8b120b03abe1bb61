"""Files of options that a script writes itself, from a heredoc, before it starts an engine."""

from __future__ import annotations

from textwrap import indent

import pytest
from harness import check
from readers.reading import edited, plan, plans, stated, token

SCRIPT = """\
cat <<'EOF' > /tmp/config.yaml
kv_cache_config:
  free_gpu_memory_fraction: 0.85
tensor_parallel_size: 2
EOF

trtllm-serve serve /models/Qwen3-8B \\
  --port 8000 \\
  --extra_llm_api_options /tmp/config.yaml
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: trt
    image: nvcr.io/nvidia/tensorrt-llm/release:1.1.0
    command: [bash, -c]
    args:
    - |
"""
IN_POD = POD + indent(SCRIPT, "      ")


@pytest.mark.parametrize(("text", "name"), [(SCRIPT, "run.sh"), (IN_POD, "pod.yaml")])
def test_options_are_read_where_they_are_written(text: str, name: str) -> None:
    found = plan(text, name)
    assert (0.85, 2) == (stated(found, "gpu_memory_utilization"), stated(found, "tp"))
    assert "0.85" == token(text, found, "gpu_memory_utilization")
    assert [] == [item for item in check(text, name).findings if item.severity == "error"]


VLLM = """\
cat > vllm.yaml <<'EOF'
tensor-parallel-size: 2  # both cards
max-model-len: 8192
EOF
vllm serve Qwen/Qwen3-8B --config ./vllm.yaml
"""
VLLM_IN_POD = POD.replace("nvcr.io/nvidia/tensorrt-llm/release:1.1.0", "vllm/vllm-openai:v0.33.0")


@pytest.mark.parametrize(
    ("text", "name"), [(VLLM, "run.sh"), (VLLM_IN_POD + indent(VLLM, "      "), "pod.yaml")]
)
def test_options_are_edited_where_they_are_written(text: str, name: str) -> None:
    found = plan(text, name)
    changed = edited(text, found, "tp", "4")
    assert text.replace("size: 2", "size: 4") == changed
    assert 4 == stated(plan(changed, name), "tp")
    more = edited(text, found, "pp", "2")
    assert (2, 2) == tuple(stated(plan(more, name), field) for field in ("tp", "pp"))


@pytest.mark.parametrize(
    "line",
    [
        "cat > /tmp/config.yaml <<EOF",
        "cat >/tmp/config.yaml <<'EOF'",
        'cat << "EOF" >/tmp/config.yaml',
        "cat <<EOF | tee /tmp/config.yaml",
        "tee /tmp/config.yaml <<EOF > /dev/null",
        "cat <<EOF > /tmp/../tmp/config.yaml",
    ],
)
def test_ways_to_write_a_file(line: str) -> None:
    text = SCRIPT.replace("cat <<'EOF' > /tmp/config.yaml", line)
    assert 2 == stated(plan(text, "run.sh"), "tp")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cat <<'EOF' > /tmp/config.yaml", "cat <<'EOF' > /tmp/other.yaml"),
        ("cat <<'EOF' > /tmp/config.yaml", "cat /tmp/config.yaml <<'EOF'"),
        ("cat <<'EOF' > /tmp/config.yaml", "cat <<'EOF' >> /tmp/config.yaml"),
        ("cat <<'EOF' > /tmp/config.yaml", "  cat <<'EOF' > /tmp/config.yaml"),
        ("\nEOF\n", "\nEOF\necho 'max_seq_len: 4096' >> /tmp/config.yaml\n"),
        ("\nEOF\n", "\nEOF\nsed -i s/2/4/ /tmp/config.yaml\n"),
        ("\nEOF\n", "\nEOF\ncat <<'EOF' > /tmp/config.yaml\ntensor_parallel_size: 4\nEOF\n"),
        ("'EOF' > /tmp/config.yaml\n", "EOF > /tmp/config.yaml\nmodel: $MODEL\n"),
        ("\nEOF\n", "\n"),
    ],
)
def test_a_file_whose_text_is_not_certain_is_not_read(before: str, after: str) -> None:
    text = SCRIPT.replace(before, after, 1)
    assert text != SCRIPT
    assert [] == [found for found in plans(text, "run.sh") if stated(found, "tp") is not None]


def test_a_script_of_another_service_does_not_write_it() -> None:
    text = """\
services:
  trt:
    image: nvcr.io/nvidia/tensorrt-llm/release:1.1.0
    command: [bash, -c, "trtllm-serve serve m --extra_llm_api_options /tmp/config.yaml"]
  other:
    image: alpine
    command:
    - sh
    - -c
    - |
      cat <<EOF > /tmp/config.yaml
      tensor_parallel_size: 2
      EOF
"""
    assert stated(plan(text, "compose.yaml"), "tp") is None


def test_the_model_stands_before_the_options_of_the_file() -> None:
    text = SCRIPT.replace("tensor_parallel_size: 2", "return_perf_metrics: true")
    assert "/models/Qwen3-8B" == stated(plan(text, "run.sh"), "model")
