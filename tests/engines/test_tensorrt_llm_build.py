"""Commands that cut a model for TensorRT-LLM: their layout is judged, the machine is not."""

from __future__ import annotations

import pytest
from harness import check, project

BUILD = "trtllm-build --checkpoint_dir cut --output_dir engine"
CONVERT = "python3 examples/llama/convert_checkpoint.py --output_dir cut"
QWEN = "Qwen/Qwen2.5-7B-Instruct"


def found(text: str, file: str = "script.sh", **told: object) -> dict[str, str]:
    return {f.name: f.severity for f in check(text, file, **told).findings}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "tp", "pp"),
    [
        (f"{BUILD} --tp_size 2 --pp_size 2", 2, 2),
        (f"{BUILD} --tp_size=4", 4, None),
        (f"{CONVERT} --model_dir m --pp_size 2 --moe_tp_size -1", None, 2),
        (
            "python build.py --model_dir m --output_dir e --world_size 8 --tp_size 4 --pp_size 2",
            4,
            2,
        ),
        ("python quantize.py --model_dir m --output_dir e --qformat fp8 --tp_size 8", 8, None),
    ],
)
def test_the_layout_is_read(command: str, tp: int | None, pp: int | None) -> None:
    (plan,) = project(command).plans
    assert ("trtllm", tp, pp, True) == (
        plan.engine, plan.layout.tp.only, plan.layout.pp.only, plan.builds,
    )  # fmt: skip
    assert plan.layout.moe_tp.is_unset


@pytest.mark.parametrize(
    "command",
    [
        BUILD,
        "python build.py --tp_size 2",
        "python build.py --output_dir e --tp_size 2",
        "python convert_checkpoint.py --tp_size 2",
        "python tools/quantize.py --output_dir e --bits 4",
    ],
)
def test_other_commands_are_no_plans(command: str) -> None:
    assert not project(command).plans


def test_stages_in_one_node_are_told() -> None:
    text = f"{BUILD} --tp_size 2 --pp_size 2"
    assert {"pp-latency": "info"} == found(text, gpus_per_node=4, gpu="A100-SXM-40GB", nodes=1)
    assert {} == found(text, gpus_per_node=2, gpu="A100-SXM-40GB", nodes=2)


def test_the_machine_that_builds_needs_no_gpu_for_each_rank() -> None:
    text = f"{BUILD} --tp_size 8"
    assert {} == found(text, gpus_per_node=1, gpu="A100-SXM-40GB", nodes=1)
    pod = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: build}\nspec:\n  template:\n    spec:\n"
        "      containers:\n      - name: build\n        image: nvcr.io/nvidia/tensorrt-llm:1.0\n"
        "        command: [trtllm-build, --checkpoint_dir, a, --output_dir, b, --tp_size, '4']\n"
        "        resources: {limits: {nvidia.com/gpu: 1}}\n"
    )
    assert not set(found(pod, "job.yaml")) & {"gpu-count-short", "shm-missing", "gpu-count-surplus"}


def test_heads_that_do_not_divide_stop_the_build() -> None:
    assert "error" == found(f"{CONVERT} --model_dir {QWEN} --tp_size 8")["tp-heads-indivisible"]
    assert {} == found(f"{CONVERT} --model_dir {QWEN} --tp_size 4")


def test_only_copies_of_kv_heads_are_asserted_everywhere() -> None:
    model = {"attention_heads": 48, "kv_heads": 12, "num_layers": 4}

    def of(tp: int) -> str | None:
        text = f"{CONVERT} --model_dir my/model --tp_size {tp}"
        return found(text, models={"my/model": model}).get("tp-kv-heads-indivisible")

    assert (None, "error", "warning") == (of(24), of(16), of(8))


def test_inspect_counts_no_gpus() -> None:
    from shardlint.reports.inspection import as_json

    (plan,) = as_json(project(f"{BUILD} --tp_size 2 --pp_size 2"))["plans"]
    assert (0, {"tp": 2, "pp": 2}) == (
        plan["gpus_per_replica"], {name: plan["stated"][name] for name in ("tp", "pp")},
    )  # fmt: skip
