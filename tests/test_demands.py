"""What a command line asks of memory, in the worlds that it allows."""

from __future__ import annotations

from typing import Any

import pytest
from harness import project
from shardlint.demands import Sizer, demand_of, settings_of, within
from shardlint.engines.vllm import VLLM
from shardlint.engines.vllm_settings import up_to
from shardlint.footprint import Settings
from shardlint.plan import Releases, ServingPlan

GIB = 2**30


def plan(arguments: str, before: str = "") -> ServingPlan:
    text = f"{before}vllm serve Qwen/Qwen3-8B {arguments}\n"
    (found,) = project(text, gpu="H100-SXM-80GB", engine_version={"vllm": "0.33.0"}).plans
    return found


def stated(arguments: str) -> dict[str, Any]:
    """What is not at its default."""
    settings = settings_of(plan(arguments)).only
    assert settings is not None
    default = Settings()
    names = [name for name in Settings.__dataclass_fields__ if name != "extra"]
    return {
        name: getattr(settings, name)
        for name in names
        if getattr(settings, name) != getattr(default, name)
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("--max-model-len 32k", {"max_model_len": 32000}),
        ("--gpu-memory-utilization 0.8 --max-num-seqs 64", {"share": 0.8, "max_num_seqs": 64}),
        ("--kv-cache-memory-bytes 4G", {"kv_bytes": 4 * GIB}),
        ("--cpu-offload-gb 1.5", {"offload": 3 * GIB // 2}),
        ("--dtype half --kv-cache-dtype fp8 --block-size 32",
         {"dtype": "half", "kv_cache_dtype": "fp8", "block_size": 32}),
        ("--enforce-eager --no-enable-prefix-caching",
         {"enforce_eager": True, "prefix_caching": False}),
        ("--no-enable-chunked-prefill", {"chunked_prefill": False}),
        ("""--speculative-config '{"method": "deepseek_mtp", "num_speculative_tokens": 2}'""",
         {"draft": "mtp", "draft_tokens": 2}),
        ("""--speculative-config '{"model": "a/b", "num_speculative_tokens": 3}'""",
         {"draft": "draft_model", "draft_tokens": 3}),
        ("--max-loras 4", {}),
        ("--enable-lora --max-loras 4 --max-lora-rank 64", {"max_loras": 4, "max_lora_rank": 64}),
        ("--enable-lora", {"max_loras": 1, "max_lora_rank": 16}),
        ("--mm-encoder-tp-mode data", {"whole_tower": True}),
        ("--language-model-only", {"text_only": True}),
        ("""--limit-mm-per-prompt '{"image": 0, "video": 0}'""", {"text_only": True}),
        ("""--limit-mm-per-prompt '{"image": 0}'""", {"text_only": False}),
        ("--skip-mm-profiling", {"skip_tower": True}),
        ("""--mm-processor-kwargs '{"max_pixels": 1003520}'""", {"max_pixels": 1003520}),
        ("""--mm-processor-kwargs '{"images_kwargs": {"size": {"longest_edge": 4096}}}'""",
         {"max_pixels": 4096}),
        ("""--mm-processor-kwargs '{"num_crops": 4}'""", {}),
        ("--cudagraph-capture-sizes 1 2 4", {"capture_sizes": (1, 2, 4)}),
        ("""--compilation-config '{"cudagraph_capture_sizes": [8, 16]}'""",
         {"capture_sizes": (8, 16)}),
        ("""--compilation-config '{"cudagraph_mode": "NONE"}'""", {"capture_sizes": ()}),
        ("--max-cudagraph-capture-size 16", {"capture_sizes": (1, 2, 4, 8, 16)}),
    ],
)  # fmt: skip
def test_options_are_settings(arguments: str, expected: dict[str, Any]) -> None:
    assert expected == stated(arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--gpu-memory-utilization nan", "no share of memory"),
        ("--gpu-memory-utilization 0", "no share of memory"),
        ("--gpu-memory-utilization 1.01", "no share of memory"),
        ("--gpu-memory-utilization inf", "no share of memory"),
        ("--cpu-offload-gb nan", "no size in GiB"),
        ("--cpu-offload-gb -1", "no size in GiB"),
        ("--cpu-offload-gb 1e300", "no size in GiB"),
        ("--cpu-offload-gb 4 --cpu-offload-params mlp", "picks the weights"),
        ("--offload-group-size 8", "layer by layer"),
        ("--offload-backend prefetch --offload-group-size 8 --offload-num-in-group 2",
         "layer by layer"),
        ("--kv-cache-memory-bytes 1G --num-gpu-blocks-override 100", "--num-gpu-blocks-override"),
    ],
)  # fmt: skip
def test_what_no_size_follows_from_is_unknown(arguments: str, reason: str) -> None:
    settings = settings_of(plan(arguments))
    assert not settings.is_known
    assert reason in (settings.reason or "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--offload-backend uva --offload-group-size 8 --cpu-offload-gb 2", {"offload": 2 * GIB}),
        ("--offload-backend auto --offload-group-size 0", {}),
        ("--cpu-offload-gb 0 --cpu-offload-params mlp", {}),
        ("--kv-cache-memory-bytes 0", {}),
        ("--gpu-memory-utilization 1", {"share": 1.0}),
    ],
)
def test_options_without_effect(arguments: str, expected: dict[str, Any]) -> None:
    assert expected == stated(arguments)


KNOWN = ("0.6.0", "0.8.0", "0.8.5.post1", "0.9.0")


@pytest.mark.parametrize(
    ("first", "last", "judged"),
    [
        ("0.8.0", "0.8.0", ["0.8.0"]),
        ("0.8.3", "0.8.3", ["0.8.3", "0.8.5.post1"]),
        ("0.8.5", "0.8.5", ["0.8.5", "0.8.5.post1"]),
        ("0.9.0.dev4", "0.9.0.dev4", ["0.9.0.dev4", "0.9.0"]),
        ("0.6.0", "0.8.3", ["0.6.0", "0.8.0", "0.8.5.post1"]),
        ("0.9.0", "0.9.9", ["0.9.0"]),
        ("0.9.5", "0.9.5", ["0.9.5"]),
        ("0.5.0", "0.5.0", []),
        ("0.5.0", "0.8.0", ["0.6.0", "0.8.0"]),
    ],
)
def test_releases_that_judge_a_span(first: str, last: str, judged: list[str]) -> None:
    assert judged == list(within(Releases(first, last), KNOWN))


def test_a_cut_between_two_opened_releases_is_honoured() -> None:
    """0.8.5 chooses its batch by the card's memory, as 0.8.5.post1, which was opened."""
    text = "vllm serve Qwen/Qwen3-8B\n"
    (found,) = project(text, gpu="H100-SXM-80GB", engine_version={"vllm": "0.8.5"}).plans
    demand = demand_of(found).only
    assert demand is not None
    sized = Sizer(VLLM()).sized(demand)
    assert {8192} == {one.made.settings.max_num_batched_tokens for one in sized}


def test_sizes_of_graphs_up_to_one() -> None:
    assert (1, 2, 4) == up_to(7)
    assert (1, 2, 4, 8) == up_to(8)
    assert (240, 248, 256, 272) == up_to(272)[-4:]


def test_variables_that_matter_are_kept() -> None:
    before = "export VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0\nexport VLLM_API_KEY=x\n"
    settings = settings_of(plan("--all2all-backend deepep_low_latency", before)).only
    assert settings is not None
    assert dict(settings.extra) == {
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0",
        "all2all_backend": "deepep_low_latency",
    }


def test_setting_that_is_not_known_leaves_all_unknown() -> None:
    settings = settings_of(plan("--max-model-len $LENGTH"))
    assert not settings.is_known
    assert "LENGTH" in (settings.reason or "")


def test_demand_joins_what_decides_memory() -> None:
    found = demand_of(plan("-tp 2 --max-model-len 4096")).only
    assert found is not None
    assert ("Qwen/Qwen3-8B", 2, "H100-SXM-80GB", "0.33.0", 4096) == (
        found.model.id, found.layout.tp, found.device.name, found.releases.first,
        found.settings.max_model_len,
    )  # fmt: skip


def test_demand_says_what_is_missing() -> None:
    text = "vllm serve Qwen/Qwen3-8B\n"
    (bare,) = project(text).plans
    assert "the card is not stated" == demand_of(bare).reason
