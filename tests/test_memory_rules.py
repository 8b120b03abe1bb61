"""What rules about memory say, and when they are silent."""

from __future__ import annotations

import time
from typing import Any

import pytest
from harness import check, project
from shardlint.demands import Sizer, demand_of
from shardlint.engines.vllm import VLLM
from shardlint.footprint import Sized
from shardlint.memory_rule import parts_of
from shardlint.plugins import Finding

RULES = {"SL601", "SL602", "SL603", "SL604", "SL605"}
LLAMA = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"
QWEN = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"


def found(text: str, release: str, gpu: str = "L4", **told: Any) -> list[Finding]:
    result = check(f"{text}\n", gpu=gpu, engine_version={"vllm": release}, **told)
    return [finding for finding in result.findings if finding.rule in RULES]


def named(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.name, finding.severity) for finding in findings]


def sized(text: str, release: str, gpu: str = "L4") -> Sized:
    (plan,) = project(f"{text}\n", gpu=gpu, engine_version={"vllm": release}).plans
    demand = demand_of(plan).only
    assert demand is not None
    return Sizer(VLLM()).sized(demand)[-1]


# ------------------------------------------------------------------------------ what is certain

DEEPSEEK = (
    "vllm serve deepseek-ai/DeepSeek-V3-0324 --data-parallel-size 32 --data-parallel-size-local 8"
    " --enable-expert-parallel --max-model-len 16384"
)


@pytest.mark.parametrize("release", ["0.14.0", "0.18.0", "0.25.0", "0.33.0"])
def test_tokens_that_are_sent_are_not_gathered(release: str) -> None:
    told: dict[str, Any] = {"gpu": "H100-SXM-80GB", "gpus_per_node": 8, "nodes": 4}
    assert [] == found(f"{DEEPSEEK} --all2all-backend deepep_low_latency", release, **told)
    usual = found(DEEPSEEK, release, **told)
    assert all(finding.severity == "warning" for finding in usual)


@pytest.mark.parametrize("gpu", ["L4", "A10G"])
@pytest.mark.parametrize("release", ["0.8.0", "0.8.2", "0.8.5", "0.8.5.post1", "0.9.0", "0.9.2"])
def test_a_sampler_that_may_be_there_leaves_no_error(release: str, gpu: str) -> None:
    findings = found(LLAMA, release, gpu)
    assert all(finding.severity == "warning" for finding in findings)


def test_a_sampler_that_is_switched_off_is_none() -> None:
    switched = f"export VLLM_USE_FLASHINFER_SAMPLER=0\n{LLAMA} --max-num-seqs 1024"
    assert [("kv-too-small", "error")] == named(found(switched, "0.9.2"))
    assert "error" not in {one.severity for one in found(switched.partition("\n")[2], "0.9.2")}


def test_a_release_between_two_is_judged_by_both() -> None:
    """Up to 0.8.4 the batch has 1024 sequences on any card, from 0.8.5 on 256 on a small one."""
    for release, expected in (("0.8.0", True), ("0.8.3", False), ("0.8.5", False)):
        assert bool(found(LLAMA, release)) is expected


def test_offloaded_layers_leave_the_weights_undecided() -> None:
    text = "vllm serve Qwen/Qwen2.5-14B-Instruct --max-model-len 2048"
    assert [("weights-do-not-fit", "error")] == named(found(text, "0.33.0"))
    assert [] == found(f"{text} --offload-group-size 4 --offload-num-in-group 2", "0.33.0")


@pytest.mark.parametrize("share", ["nan", "0", "-1", "1.5", "inf"])
def test_a_share_that_is_none_says_nothing_of_memory(share: str) -> None:
    assert [] == found(f"{QWEN} --gpu-memory-utilization {share}", "0.33.0")


# -------------------------------------------------------------------------------------- loading


@pytest.mark.parametrize(
    ("release", "loads_whole"), [("0.6.0", True), ("0.12.0", True), ("0.15.1", True),
                                 ("0.16.0", False), ("0.33.0", False)],
)  # fmt: skip
def test_weights_that_are_quantized_later_are_loaded_in_16_bits(
    release: str, loads_whole: bool
) -> None:
    text = "vllm serve Qwen/Qwen2.5-14B-Instruct --max-model-len 2048 --quantization fp8"
    findings = [one for one in found(text, release) if one.name == "weights-do-not-fit"]
    assert bool(findings) is loads_whole
    if findings:
        assert findings[0].severity == "error"
        assert "27.5 GiB in 16 bits while they are loaded (15.2 GiB" in findings[0].message


def test_a_checkpoint_in_fp8_is_loaded_as_it_is() -> None:
    made = sized("vllm serve Qwen/Qwen3-8B-FP8 --quantization fp8", "0.12.0").made
    assert made.at_load == made.held


def test_adapters_are_named_where_they_are_the_main_part() -> None:
    (one,) = found(f"{QWEN} --enable-lora --max-loras 64 --max-lora-rank 256", "0.33.0")
    assert "room for 64 adapters of rank 256" in one.message
    assert one.help is not None and "--max-loras" in one.help
    text = "vllm serve Qwen/Qwen2.5-32B-Instruct --enable-lora"
    (plain, *_) = found(text, "0.33.0")
    assert "adapters" not in plain.message


# ------------------------------------------------------------------------- a cache that is stated


@pytest.mark.parametrize(
    ("bytes", "expected"),
    [
        ("20G", [("no-kv-space", "error")]),
        ("5600M", [("no-kv-space", "warning")]),
        ("4G", []),
        ("0", []),
    ],
)
@pytest.mark.parametrize("release", ["0.11.0", "0.33.0"])
def test_a_stated_cache_has_to_fit_beside_the_weights(
    bytes: str, expected: list[tuple[str, str]], release: str
) -> None:
    assert expected == named(found(f"{QWEN} --kv-cache-memory-bytes {bytes}", release))


def test_what_fixes_a_small_cache_is_said() -> None:
    text = "vllm serve Qwen/Qwen3-8B --max-model-len 32768 --kv-cache-memory-bytes 1G"
    (one,) = found(text, "0.33.0")
    assert ("kv-too-small", "error") == (one.name, one.severity)
    assert "--kv-cache-memory-bytes fixes 1.0 GiB for it" in one.message
    assert one.help is not None and one.help.startswith("a larger --kv-cache-memory-bytes")


# ------------------------------------------------------------------------ shares of all the card


@pytest.mark.parametrize(
    ("release", "share", "expected"),
    [
        ("0.33.0", "1.0", [("memory-oversubscribed", "error")]),
        ("0.9.1", "1.0", [("memory-oversubscribed", "error")]),
        ("0.33.0", "0.9995", [("memory-oversubscribed", "error")]),
        ("0.33.0", "0.998", [("memory-oversubscribed", "warning")]),
        ("0.33.0", "0.98", []),
        ("0.7.3", "1.0", [("graph-memory-risk", "warning")]),
    ],
)
def test_all_of_a_card_is_never_free(
    release: str, share: str, expected: list[tuple[str, str]]
) -> None:
    text = (
        f"vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192 --gpu-memory-utilization {share}"
    )
    assert expected == named(found(text, release, "H100-SXM-80GB"))


def test_of_a_card_whose_driver_was_not_seen_nothing_is_sure() -> None:
    text = "vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 1.0"
    assert [("memory-oversubscribed", "warning")] == named(found(text, "0.33.0", "MI300X"))


COMPOSE = """\
services:
  one:
    image: vllm/vllm-openai:v{release}
    command: --model Qwen/Qwen3-0.6B --gpu-memory-utilization {first}
    runtime: nvidia
    environment: [NVIDIA_VISIBLE_DEVICES=0]
  other:
    image: vllm/vllm-openai:v{release}
    command: --model Qwen/Qwen3-0.6B --gpu-memory-utilization {second}
    runtime: nvidia
    environment: [NVIDIA_VISIBLE_DEVICES=0]
"""


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [("0.5", "0.5", "all of one GPU"), ("0.6", "0.6", "add up to 1.2"), ("0.5", "0.45", None)],
)
def test_two_shares_leave_room_for_two_contexts(first: str, second: str, words: str | None) -> None:
    text = COMPOSE.format(release="0.27.0", first=first, second=second)
    result = check(text, "compose.yaml", gpu="H100-SXM-80GB")
    messages = [
        (one.severity, one.message)
        for one in result.findings if one.name == "memory-oversubscribed"
    ]  # fmt: skip
    assert bool(messages) is (words is not None)
    assert all(severity == "warning" and (words or "") in said for severity, said in messages)


# --------------------------------------------------------------------------------------- the words


@pytest.mark.parametrize("release", ["0.10.2", "0.27.0", "0.33.0"])
def test_parts_add_up_to_what_is_needed(release: str) -> None:
    made = sized(QWEN, release).made
    words = parts_of(made)
    numbers = [float(word.removeprefix("(")) for word in words.split() if word.startswith("(")]
    assert sum(numbers) == pytest.approx(made.needed / 2**30, abs=0.051)
    assert ("graphs" in words) is (release == "0.33.0")


SGLANG_V3 = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8"
VLLM_V3 = "vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8"


@pytest.mark.parametrize(
    ("command", "gpu", "found"),
    [
        # the weights are about the card: what certainly is too much is what the share leaves them
        (f"{SGLANG_V3}", "H100-SXM-80GB", {"weights-do-not-fit": "error"}),
        (
            f"{VLLM_V3} --kv-cache-memory-bytes 1G",
            "H100-SXM-80GB",
            {"weights-do-not-fit": "warning"},
        ),
        # they fit the card, and are more than the share
        (f"{SGLANG_V3} --mem-fraction-static 0.5", "H200-SXM-141GB", {"no-kv-space": "error"}),
        (f"{VLLM_V3} --gpu-memory-utilization 0.5", "H200-SXM-141GB", {"no-kv-space": "error"}),
        (f"{SGLANG_V3} --mem-fraction-static 0.57", "H200-SXM-141GB", {"no-kv-space": "warning"}),
    ],
)
def test_weights_are_held_against_the_share(command: str, gpu: str, found: dict[str, str]) -> None:
    result = check(command, gpu=gpu, gpus_per_node=8)
    named = ("weights-do-not-fit", "no-kv-space")
    assert found == {f.name: f.severity for f in result.findings if f.name in named}


# -------------------------------------------------------------------- weights stored by the engine


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve Qwen/Qwen2.5-14B-Instruct --max-model-len 8192 --quantization {}",
        "python -m sglang.launch_server --model-path Qwen/Qwen2.5-14B-Instruct {}",
    ],
)
def test_nothing_is_said_where_it_is_not_known_how_weights_are_stored(command: str) -> None:
    """In 16 bits they are larger than the card, and the engine makes something else of them."""
    plain = ("bf16", "rtn") if "vllm" in command else ("", "--torchao-config int4wo-128")
    told: dict[str, Any] = {"gpu": "L4", "engine_version": {"vllm": "0.11.2", "sglang": "0.5.5"}}
    wide, other = (check(f"{command.format(word)}\n", **told) for word in plain)
    undecided = {item.rule for item in other.undecided} & RULES
    assert "SL601" in {finding.rule for finding in wide.findings}
    assert not RULES & {finding.rule for finding in other.findings}
    assert "SL601" in undecided


@pytest.mark.parametrize("size", ["--pipeline-parallel-size 99999", "-tp 4096", "-dp 999999999"])
def test_a_size_beyond_all_reason_costs_no_time(size: str) -> None:
    started = time.process_time()
    check(f"{LLAMA} {size} -pp 1000000\n", gpu="L4", engine_version={"vllm": "0.11.2"})
    check(f"{LLAMA} {size}\n", gpu="L4", engine_version={"vllm": "0.11.2"})
    assert time.process_time() - started < 10
