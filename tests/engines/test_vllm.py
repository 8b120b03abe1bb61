"""vLLM: options to ranks, ranks to constraints, tags to releases, processes to plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engines.commands import ENGINE, NOWHERE, launch, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shardlint.engines import builtin, launchers
from shardlint.engines.vllm_constraints import READS
from shardlint.known import Case, Known
from shardlint.plan import Constraint, Layout, ModelFacts, Options, Reading, Releases, ServingPlan

DENSE = ModelFacts(id="dense", attention_heads=32, kv_heads=8, dense_ffn=True,
                   intermediate_size=14336, vocab_size=128256)  # fmt: skip
MLA = ModelFacts(id="mla", attention_heads=128, kv_heads=128, kv_lora_rank=512, num_experts=256)
MOE = ModelFacts(id="moe", attention_heads=32, kv_heads=4, num_experts=128, dense_ffn=False,
                 moe_intermediate_size=768, vocab_size=151936)  # fmt: skip


def constraints(model: ModelFacts, layout: Layout, devices: int | None = None) -> list[Constraint]:
    return list(ENGINE.constraints(model, ENGINE.ranks(layout, model, devices), layout))


def broken(model: ModelFacts, layout: Layout, devices: int | None = None) -> list[str]:
    """Subject, both numbers, and the engine's words, of what certainly does not hold."""
    return [
        f"{item.subject} {item.left} {item.right}: {item.consequence} ({item.refusal})"
        for item in constraints(model, layout, devices)
        if not item.holds and not item.advisory
    ]


# -------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("asked", "gpus", "per_pod", "world"),
    [
        ({}, 1, 1, 1),
        ({"tp": 8}, 8, 8, 8),
        ({"tp": 8, "pp": 2, "dp": 4}, 64, 64, 16),
        ({"tp": 8, "pp": 2, "dp": 4, "dp_local": 1}, 64, 16, 16),
        ({"tp": 8, "pp": 2, "dp": 4, "dp_local": 2}, 64, 32, 16),
        ({"tp": 8, "pp": 2, "dp": 4, "dp_local": 0}, 64, 0, 16),
        ({"tp": 8, "pp": 2, "dp": 4, "dp_rank": 0}, 64, 16, 16),
        ({"tp": 8, "pp": 2, "dp": 4, "dp_rank": 3, "dp_local": 1}, 64, 16, 16),
        ({"tp": 8, "pp": 2, "dp": 4, "nnodes": 8}, 64, 8, 16),
        ({"tp": 16, "nnodes": 2}, 16, 8, 16),
        ({"tp": 8, "pp": 2, "dp": 4, "executor": "ray"}, 64, None, 16),
        ({"tp": 8, "executor": "external_launcher"}, 8, None, 8),
        ({"tp": 8, "executor": "my.Executor"}, 8, None, 8),
        ({"tp": 8, "executor": "mp"}, 8, 8, 8),
        ({"tp": 4, "pcp": 2}, 8, 8, 8),
        ({"tp": 8, "dcp": 8}, 8, 8, 8),
        ({"tp": 8, "ep": True}, 8, 8, 8),
    ],
)
def test_layout_needs_so_many_gpus(
    asked: dict[str, Any], gpus: int, per_pod: int | None, world: int
) -> None:
    ranks = ENGINE.ranks(Layout(**asked), DENSE, None)
    assert (gpus, per_pod, world) == (ranks.gpus, ranks.gpus_per_pod, ranks.world_size)


@pytest.mark.parametrize(
    ("asked", "moe_tp", "ep"),
    [
        ({"tp": 8}, 8, 1),
        ({"tp": 2, "dp": 4}, 8, 1),
        ({"tp": 2, "dp": 4, "pp": 2}, 8, 1),
        ({"tp": 2, "pcp": 2, "dp": 4}, 16, 1),
        ({"tp": 2, "dp": 4, "ep": True}, 1, 8),
        ({"tp": 2, "pp": 2, "dp": 4, "ep": True}, 1, 8),
        ({"ep": True}, 1, 1),
    ],
)
def test_experts_are_split_over_dp_too(asked: dict[str, Any], moe_tp: int, ep: int) -> None:
    ranks = ENGINE.ranks(Layout(**asked), MOE, None)
    assert (moe_tp, ep) == (ranks.moe_tp, ranks.ep)
    assert asked.get("tp", 1) == ranks.attention_tp == ranks.dense_tp


def test_only_data_parallel_ranks_of_a_mixture_step_together() -> None:
    layout = Layout(tp=2, dp=4)
    assert 4 == ENGINE.ranks(layout, MOE, None).coupled
    assert 1 == ENGINE.ranks(layout, DENSE, None).coupled
    assert 1 == ENGINE.ranks(layout, None, None).coupled
    assert 4 == ENGINE.ranks(layout, DENSE, None).engines


@pytest.mark.parametrize(
    ("heads", "tp", "dcp", "copies"),
    [
        (8, 4, 1, 1),
        (8, 8, 1, 1),
        (8, 16, 1, 2),
        (4, 16, 1, 4),
        (4, 16, 2, 2),
        (4, 16, 4, 1),
        (1, 8, 1, 8),
        (1, 8, 8, 1),
        (1, 1, 1, 1),
    ],
)
def test_kv_heads_are_copied_where_tp_exceeds_them(
    heads: int, tp: int, dcp: int, copies: int
) -> None:
    model = replace(DENSE, kv_heads=heads)
    assert copies == ENGINE.ranks(Layout(tp=tp, dcp=dcp), model, None).kv_copies


@pytest.mark.parametrize(("dcp", "copies"), [(1, 8), (2, 4), (8, 1)])
def test_dcp_spreads_the_one_latent_cache(dcp: int, copies: int) -> None:
    assert copies == ENGINE.ranks(Layout(tp=8, dcp=dcp), MLA, None).kv_copies


def test_copies_are_not_known_without_the_kv_heads() -> None:
    assert ENGINE.ranks(Layout(tp=8), None, None).kv_copies is None
    assert ENGINE.ranks(Layout(tp=8), ModelFacts(id="m"), None).kv_copies is None


# -------------------------------------------------------------------------------- constraints


def test_heads_are_refused_before_the_model_is_built() -> None:
    model = replace(DENSE, attention_heads=28, kv_heads=4)
    assert broken(model, Layout(tp=8)) == [
        "attention heads 28 8: refuses to start (must be divisible by tensor parallel size)"
    ]
    assert broken(model, Layout(tp=4)) == []


def test_heads_of_other_layers_are_refused_by_other_code() -> None:
    model = ModelFacts(id="m", attention_heads=96, other_attention_heads=(64, 40), kv_heads=8)
    assert broken(model, Layout(tp=16)) == [
        "attention heads 40 16: stops while it builds the model (is not divisible by)"
    ]
    assert broken(model, Layout(tp=8)) == []


@pytest.mark.parametrize(("heads", "tp"), [(10, 4), (8, 3), (8, 12), (4, 6), (2, 7)])
def test_kv_heads_that_share_no_multiple_with_tp_are_refused(heads: int, tp: int) -> None:
    model = ModelFacts(id="m", attention_heads=heads * tp, kv_heads=heads)
    assert broken(model, Layout(tp=tp)) == [
        f"KV heads {heads} {tp}: stops while it builds the model ()"
    ]


@pytest.mark.parametrize(("heads", "tp"), [(8, 1), (8, 2), (8, 8), (8, 16), (1, 64), (12, 6)])
def test_kv_heads_that_are_split_or_copied_evenly_are_accepted(heads: int, tp: int) -> None:
    assert (
        broken(ModelFacts(id="m", attention_heads=heads * tp, kv_heads=heads), Layout(tp=tp)) == []
    )


def test_kv_heads_of_other_layers_count_too() -> None:
    model = ModelFacts(id="m", attention_heads=48, kv_heads=12, other_kv_heads=(8,))
    assert broken(model, Layout(tp=3)) == ["KV heads 8 3: stops while it builds the model ()"]
    assert broken(model, Layout(tp=4)) == []


def test_latent_attention_has_no_kv_heads_to_divide() -> None:
    model = replace(MLA, attention_heads=96, kv_heads=10)
    assert broken(model, Layout(tp=3)) == []


def test_vocabulary_is_padded_to_64_and_not_to_tp() -> None:
    model = replace(DENSE, attention_heads=96, kv_heads=96, vocab_size=151_936, dense_ffn=False)
    assert broken(model, Layout(tp=3)) == [
        "padded vocabulary 151936 3: stops while it builds the model (is not divisible by)"
    ]
    assert broken(replace(model, vocab_size=128_001), Layout(tp=3)) == []  # padded to 128,064
    assert broken(model, Layout(tp=32)) == []


def test_ffn_is_judged_only_where_a_dense_layer_exists() -> None:
    model = replace(DENSE, attention_heads=96, kv_heads=96, vocab_size=192 * 64)
    assert broken(model, Layout(tp=6)) == ["FFN width 14336 6: stops while it builds the model ()"]
    assert broken(replace(model, dense_ffn=None), Layout(tp=6)) == []
    assert broken(replace(model, dense_ffn=False), Layout(tp=6)) == []


@pytest.mark.parametrize(
    ("asked", "devices", "words"),
    [
        ({"tp": 8}, 4, ["GPUs 8 4: refuses to start (larger than the number of available GPUs)"]),
        ({"tp": 2, "dp": 4}, 4, ["GPUs 8 4: dies while it starts (out of bounds)"]),
        ({"tp": 8, "executor": "mp"}, 4, ["GPUs 8 4: dies while it starts (out of bounds)"]),
        ({"tp": 16, "nnodes": 2}, 4, ["GPUs 8 4: dies while it starts (out of bounds)"]),
        ({"tp": 16, "nnodes": 2}, 8, []),
        ({"tp": 8}, 8, []),
        ({"tp": 8}, 16, []),
        ({"tp": 8, "executor": "ray"}, 4, []),
        ({"tp": 8}, None, []),
        ({"tp": 8, "dp": 2, "dp_local": 0}, 0, []),
    ],
)
def test_ranks_need_their_gpus(
    asked: dict[str, Any], devices: int | None, words: list[str]
) -> None:
    assert words == broken(DENSE, Layout(**asked), devices)


def test_refusal_of_gpus_is_quoted_from_the_release_that_has_it() -> None:
    found = [item for item in constraints(DENSE, Layout(tp=8), 4) if item.rule == "gpu-count-short"]
    assert ["0.16.0"] == [item.refusal_since for item in found]


@pytest.mark.parametrize(
    ("model", "asked", "subject"),
    [
        (replace(MOE, quantization=None), {"tp": 2, "dp": 5}, "expert width"),
        (replace(DENSE, vision_heads=16), {"tp": 32}, "vision heads"),
        (replace(DENSE, linear_num_key_heads=16), {"tp": 32}, "linear attention key heads"),
        (replace(MOE, shared_expert_intermediate_size=24), {"tp": 16, "dp": 2, "ep": True},
         "shared expert width"),
    ],
)  # fmt: skip
def test_what_is_not_certain_is_advice_and_never_reported(
    model: ModelFacts, asked: dict[str, Any], subject: str
) -> None:
    layout = Layout(**asked)
    failed = [item for item in constraints(model, layout) if not item.holds]
    assert subject in [item.subject for item in failed if item.advisory]
    assert subject not in [item.subject for item in failed if not item.advisory]


def test_experts_kept_whole_are_not_split() -> None:
    layout = Layout(tp=2, dp=5, ep=True)
    assert [] == [item for item in constraints(MOE, layout) if item.subject == "expert width"]


sizes = st.integers(1, 64)
counts = st.none() | st.integers(1, 200)
layouts = st.builds(
    Layout, tp=sizes, pp=sizes, dp=sizes, dp_local=st.none() | st.integers(0, 8),
    dp_rank=st.none() | st.integers(0, 8), ep=st.booleans(), attention_dp=sizes, pcp=sizes,
    dcp=sizes, moe_tp=st.none() | sizes, nnodes=sizes,
    executor=st.sampled_from([None, "mp", "uni", "ray"]),
)  # fmt: skip
models = st.builds(
    ModelFacts, id=st.just("m"), attention_heads=counts, kv_heads=counts,
    other_attention_heads=st.lists(st.integers(1, 200), max_size=2).map(tuple),
    other_kv_heads=st.lists(st.integers(1, 200), max_size=2).map(tuple),
    dense_ffn=st.none() | st.booleans(), intermediate_size=counts, vocab_size=counts,
    num_experts=counts, moe_intermediate_size=counts, shared_expert_intermediate_size=counts,
    kv_lora_rank=st.none() | st.just(512), vision_heads=counts, linear_num_value_heads=counts,
    quantization=st.sampled_from([None, {}, {"group_size": 128}, {"weight_block_size": [64, 32]}]),
)  # fmt: skip


stated = st.fixed_dictionaries(
    {},
    optional={
        "node_rank": st.integers(0, 4), "api_server_count": st.integers(0, 4),
        "headless": st.booleans(), "enable_eplb": st.booleans(), "enable_lora": st.booleans(),
        "enable_elastic_ep": st.booleans(), "fully_sharded_loras": st.booleans(),
        "data_parallel_external_lb": st.booleans(), "data_parallel_hybrid_lb": st.booleans(),
        "data_parallel_multi_port_external_lb": st.booleans(),
        "data_parallel_start_rank": st.integers(0, 4),
        "data_parallel_backend": st.sampled_from(["mp", "ray"]),
        "distributed_executor_backend": st.sampled_from(["mp", "ray", "uni"]),
        "max_num_batched_tokens": st.integers(1, 9), "max_num_seqs": st.integers(1, 9),
        "max_model_len": st.integers(1, 9), "gpu_memory_utilization": st.floats(0, 2),
        "speculative_config": st.fixed_dictionaries(
            {"draft_tensor_parallel_size": st.integers(1, 4)}
        ),
        "eplb_config": st.fixed_dictionaries({"num_redundant_experts": st.integers(0, 4)}),
        "moe_backend": st.just("deep_gemm_mega_moe"), "quantization": st.just("awq"),
        "dtype": st.sampled_from(["half", "bfloat16"]),
        "VLLM_PP_LAYER_PARTITION": st.sampled_from(["1,2", "3", "x"]),
        "VLLM_DP_SIZE": st.sampled_from(["1", "2"]),
    },
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(models, layouts, layouts, st.none() | st.integers(0, 64), stated)
def test_constraints_of_a_rule_depend_on_the_declared_fields_alone(
    model: ModelFacts, one: Layout, other: Layout, devices: int | None, values: dict[str, Any]
) -> None:
    told = Options(values=values)

    def constraints(model: ModelFacts, layout: Layout, devices: int | None) -> list[Constraint]:
        ranks = ENGINE.ranks(layout, model, devices)
        return list(ENGINE.constraints(model, ranks, layout, told))

    seen = {item.rule for item in constraints(model, one, devices)}
    assert seen <= READS.keys()
    for rule, names in READS.items():
        changed = replace(other, **{name: getattr(one, name) for name in names})
        kept, after = (
            [item for item in constraints(model, layout, devices) if item.rule == rule]
            for layout in (one, changed)
        )
        assert kept == after


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(models, layouts)
def test_every_layout_has_ranks_that_multiply(model: ModelFacts, layout: Layout) -> None:
    ranks = ENGINE.ranks(layout, model, None)
    assert ranks.gpus == ranks.world_size * layout.dp
    assert ranks.kv_copies is None or ranks.kv_copies >= 1
    assert ranks.moe_tp * ranks.ep == (layout.tp * layout.pcp * layout.dp)


# ----------------------------------------------------------------------------------- releases


@pytest.mark.parametrize(
    ("tag", "release"),
    [
        ("v0.11.0", "0.11.0"),
        ("0.11.0", "0.11.0"),
        ("v0.11.0-x86_64", "0.11.0"),
        ("v0.11.0-cu128", "0.11.0"),
        ("v0.6.4.post1", "0.6.4.post1"),
        ("v0.6.4.post1-aarch64", "0.6.4.post1"),
        ("v0.12.0rc1", "0.12.0rc1"),
        ("0.9.2.dev26+g0b407479e", "0.9.2.dev26"),
    ],
)
def test_tag_states_a_release(tag: str, release: str) -> None:
    found = ENGINE.versions(Known.of(tag))
    assert (Releases(release, release),) == found.values
    assert "stated" == found.how


@pytest.mark.parametrize(
    "tag",
    ["latest", "nightly", "nightly-0b407479e", "sha256:0123456789abcdef", "25.09-py3", "v1", "",
     "main", "cu128", "v0.11.0foo"],
)  # fmt: skip
def test_other_tag_leaves_every_supported_release(tag: str) -> None:
    found = ENGINE.versions(Known.of(tag))
    assert (Releases("0.6.0", "0.33.0"),) == found.values
    assert "defaulted" == found.how


def test_unstated_release_is_the_supported_range() -> None:
    assert (Releases("0.6.0", "0.33.0"),) == ENGINE.versions(Known.unset()).values
    assert (Releases("0.6.0", "0.33.0"),) == ENGINE.versions(Known.unknown("a hole")).values


def test_two_possible_tags_are_two_possible_releases() -> None:
    tags = Known((Case("v0.8.5", (("TAG", "a"),)), Case("v0.9.0", (("TAG", "b"),))))
    assert ["0.8.5", "0.9.0"] == [item.first for item in ENGINE.versions(tags).values]


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("vllm/vllm-openai:v0.8.5", "v0.8.5"),
        ("host:5000/vllm/vllm-openai:v0.8.5", "v0.8.5"),
        ("host:5000/vllm/vllm-openai", None),
        ("vllm/vllm-openai@sha256:01ab", "sha256:01ab"),
        ("vllm/vllm-openai:v0.8.5@sha256:01ab", "sha256:01ab"),
    ],
)
def test_image_has_a_tag_or_a_digest(image: str, tag: str | None) -> None:
    assert tag == launchers.tag_of(image)
    assert launchers.image_tells_version("vllm", image)


@pytest.mark.parametrize(
    "image", ["nvcr.io/nvidia/vllm:25.09.1-py3", "rocm/vllm:0.8.5", "example/vllm-cuda:v0.11.0"]
)
def test_tags_of_other_images_are_no_releases(image: str) -> None:
    assert not launchers.image_tells_version("vllm", image)


# ------------------------------------------------------------------- which process is an engine


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m",
        "/opt/venv/bin/vllm serve m",
        "python -m vllm.entrypoints.openai.api_server --model m",
        "python3.12 -u -m vllm.entrypoints.openai.api_server --model m",
        "python3 -m vllm.entrypoints.api_server --model m",
        "python3 -m vllm.entrypoints.cli.main serve m",
        "python -m vllm serve m",
        "python /opt/vllm/entrypoints/openai/api_server.py --model m",
        "? -m vllm.entrypoints.openai.api_server --model m",
        "exec vllm serve m",
        "numactl --cpunodebind=0 --membind=0 vllm serve m",
        "CUDA_VISIBLE_DEVICES=0 vllm serve m",
        "nsys profile -o out vllm serve m",
        "timeout 600 vllm serve m",
        "uv run vllm serve m",
    ],
)
def test_launcher_is_recognised(line: str) -> None:
    reading = read(line)
    assert ("m",) == reading.model.values
    assert "m" not in [word.value for word in reading.command]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "vllm",
        "vllm bench serve --model m",
        "vllm chat",
        "serve m",
        "echo vllm serve m",
        "python serve.py --model m --tensor-parallel-size 2",
        "python -m vllm.benchmarks.serve --model m",
        "? serve m",
        "vllm ? m",
        "ray start --head",
        "grep vllm serve",
        "python -m sglang.launch_server --model m",
    ],
)
def test_other_command_is_no_engine(line: str) -> None:
    assert ENGINE.read(launch(line)) is None


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai:v0.11.0",
        "docker.io/vllm/vllm-openai@sha256:0123",
        "registry.example:5000/mirror/vllm-openai-rocm",
        "rocm/vllm:latest",
        "nvcr.io/nvidia/vllm:25.09-py3",
        "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.11.0",
        "quay.io/ascend/vllm-ascend:v0.11.0",
        "ghcr.io/llm-d/llm-d-cuda:v0.4.0",
        "workbench/vllm:1",
    ],
)
def test_image_starts_the_engine(image: str) -> None:
    assert ("org/m",) == read("org/m -tp 2", image).model.values
    assert read("", image).model.is_unset


@pytest.mark.parametrize(
    "image",
    [
        "ghcr.io/llm-d/llm-d-inference-sim:v0.5.0",
        "example/vllm-sim:1",
        "example/vllm-simulator:1",
        "lmcache/lmstack-router:latest",
        "example/vllm-router:1",
        "example/vllm-benchmark:1",
        "example/vllm-bench",
        "example/vllm-exporter:1",
        "example/vllm-gateway",
        "ghcr.io/llm-d/llm-d-inference-scheduler:v0.3.0",
    ],
)
def test_image_beside_the_engine_is_none(image: str) -> None:
    line = "--model org/m --tensor-parallel-size 2 --max-model-len 4096"
    assert ENGINE.read(launch(line, image)) is None


def test_name_that_only_sounds_like_a_simulator_is_an_engine() -> None:
    assert not launchers.excluded("example/vllm-simple")
    assert launchers.excluded("example/vllm-sim-gpu")


@pytest.mark.parametrize(
    "line",
    ["sleep infinity", "bash run.sh", "/bin/bash run.sh", "/opt/start.sh --port 8000",
     "python3 serve.py --model m", "ray start --head --port=6379", "tail -f /dev/null", "serving"],
)  # fmt: skip
def test_other_command_in_the_engines_image_is_no_engine(line: str) -> None:
    assert ENGINE.read(launch(line, "vllm/vllm-openai:v0.33.0")) is None


@pytest.mark.parametrize(
    "line", ["gpt2 -tp 2", "? --port 8000", "/models/llama", "org/m", "org/m -ep True -tp 2"]
)
def test_model_in_the_engines_image_is_served(line: str) -> None:
    assert ENGINE.read(launch(line, "vllm/vllm-openai:v0.33.0")) is not None


@pytest.mark.parametrize(
    "line",
    [
        "--model m --max-model-len 4096",
        "--model m -tp 2",
        "m --enforce-eager --gpu-memory-utilization 0.9",
        "--model m --tensor-parallel-size 2 --max-num-seqs 8 --no-such 1",
    ],
)
def test_options_tell_the_engine_in_an_image_of_any_name(line: str) -> None:
    assert ENGINE.read(launch(line, "example/llm-server:1")) is not None


@pytest.mark.parametrize(
    ("line", "image"),
    [
        ("--port 8000 --host 0.0.0.0", "example/server"),
        ("--max-model-len 4096 --enforce-eager", "example/server"),
        ("--model m --port 8000", "example/server"),
        ("--model m --max-model-len 4096 --no-such 1", "example/server"),
        ("run it --model m -tp 2", "example/server"),
        ("main.py --model m --tensor-parallel-size 2", "example/server"),
        ("--model m --tensor-parallel-size 2", "lmsysorg/sglang:latest"),
        ("--model m --tensor-parallel-size 2", "nvcr.io/nim/meta/llama"),
        ("--model m --tensor-parallel-size 2", "openmmlab/lmdeploy:v0.9"),
    ],
)
def test_options_that_could_be_anybodys_tell_nothing(line: str, image: str) -> None:
    assert ENGINE.read(launch(line, image)) is None


@pytest.mark.parametrize(
    ("line", "image", "engine"),
    [
        ("python3 -m sglang.launch_server --tp 8", None, "sglang"),
        ("--model-path m", "lmsysorg/sglang:v0.5.3", "sglang"),
        ("--model-id m", "ghcr.io/huggingface/text-generation-inference:3.0", "tgi"),
        ("", "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8", "nim"),
        ("sleep infinity", "lmsysorg/sglang:v0.5.3", None),
        ("bash run.sh", "lmsysorg/sglang:v0.5.3", None),
        ("vllm serve m", None, "vllm"),
    ],
)
def test_first_engine_that_knows_a_process_reads_it(
    line: str, image: str | None, engine: str | None
) -> None:
    every = Known[Releases].unset()
    readings = (engine.read(launch(line, image), every) for engine in builtin.shardlint_engines())
    found = [reading.engine for reading in readings if reading is not None]
    assert found == ([engine] if engine else [])


# -------------------------------------------------------------------------- reading of options


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("vllm serve org/m -tp 2", "org/m"),
        ("vllm serve -tp 2 org/m", "org/m"),
        ("vllm serve --model org/m", "org/m"),
        ("vllm serve --model=org/m", "org/m"),
        ("vllm serve --served-model-name a b --model org/m", "org/m"),
        ("vllm serve --model a --model org/m", "org/m"),
    ],
)
def test_model_is_read(line: str, model: str) -> None:
    assert (model,) == read(line).model.values


def test_served_name_swallows_what_follows() -> None:
    reading = read("vllm serve --served-model-name a b org/m")
    assert ("a",) == reading.served_name.values
    assert reading.model.is_unset


def test_layout_is_read() -> None:
    layout = read(
        "vllm serve m -tp 8 -pp 2 -dp 4 -dpl 2 -dpn 1 -ep -pcp 2 -dcp 4 -n 3"
        " --distributed-executor-backend mp"
    ).layout
    names = ("tp", "pp", "dp", "dp_local", "dp_rank", "ep", "pcp", "dcp", "nnodes", "executor")
    values = (8, 2, 4, 2, 1, True, 2, 4, 3, "mp")
    assert values == tuple(getattr(layout, name).only for name in names)


def test_memory_is_read() -> None:
    memory = read(
        "vllm serve m --gpu-memory-utilization 0.9 --kv-cache-memory-bytes 2G --max-model-len 32k"
        " --max-num-seqs 64 --max-num-batched-tokens 8K --kv-cache-dtype fp8 -q awq"
        " --block-size 32 --enforce-eager --no-enable-prefix-caching"
    ).memory
    assert (0.9, 2 * 2**30) == (memory.budget.share.only, memory.budget.bytes.only)
    assert (32_000, 64, 8192) == (
        memory.max_model_len.only, memory.max_num_seqs.only, memory.max_num_batched_tokens.only,
    )  # fmt: skip
    assert ("fp8", "awq", 32) == (
        memory.kv_cache_dtype.only, memory.quantization.only, memory.block_size.only,
    )  # fmt: skip
    assert (True, False) == (memory.enforce_eager.only, memory.prefix_caching.only)


@pytest.mark.parametrize("text", ["auto", "-1", "AUTO"])
def test_length_that_the_engine_chooses_is_not_known(text: str) -> None:
    known = read(f"vllm serve m --max-model-len {text}").memory.max_model_len
    assert not known.is_known
    assert known.reason is not None and "lets the engine choose" in known.reason


@pytest.mark.parametrize("text", ["0", "-1", "two", "2.0", "1.5K"])
def test_impossible_size_is_not_known(text: str) -> None:
    layout = read(f"vllm serve m -tp {text}").layout
    assert not layout.tp.is_known
    assert not layout.tp.is_unset


@pytest.mark.parametrize(
    ("options", "executor"),
    [
        ("", None),
        ("--data-parallel-backend ray", "ray"),
        ("--data-parallel-backend mp", None),
        ("--data-parallel-backend mp --distributed-executor-backend ray", "ray"),
        ("--data-parallel-backend ray --distributed-executor-backend mp", "ray"),
        ("--distributed-executor-backend uni", "uni"),
    ],
)
def test_ray_for_either_purpose_places_the_ranks(options: str, executor: str | None) -> None:
    effective = ENGINE.effective(read(f"vllm serve m {options}").layout)
    assert (executor,) == effective.executor.values


def test_unknown_backend_leaves_the_executor_open() -> None:
    assert not read("vllm serve m -dpb ?").layout.executor.is_known


def test_environment_of_offline_use_leaves_dp_open() -> None:
    assert not read("vllm serve m", VLLM_DP_SIZE="4").layout.dp.is_known
    assert not read("vllm serve m", VLLM_DP_SIZE="4").layout.dp.is_unset
    assert (2,) == read("vllm serve m -dp 2", VLLM_DP_SIZE="4").layout.dp.values


def test_file_of_options_leaves_open_what_is_absent_and_overrides_nothing() -> None:
    reading = read("vllm serve m --config f.yaml -tp 4")
    assert ((4,), frozenset()) == (reading.layout.tp.values, reading.layout.tp.assumes)
    assert "f.yaml holds more options" == reading.layout.dp.reason == reading.open_ended
    assert not reading.memory.max_model_len.is_unset
    assert ("m",) == reading.model.values
    assert "f.yaml holds more options" == read("vllm serve --config f.yaml").model.reason


@pytest.mark.parametrize("line", ["vllm serve m --config=f.yaml", "vllm serve m --conf f.yaml"])
def test_file_that_the_engine_never_opens_leaves_nothing_open(line: str) -> None:
    reading = read(line)
    assert reading.layout.tp.is_unset
    assert reading.open_ended is None


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("vllm serve m --tensor-paralell-size 4", "tp"),
        ("vllm serve m -tp4", "tp"),
        ("vllm serve m --tp 4", "tp"),
        ("vllm serve m --data-parallel 4", "dp"),
    ],
)
def test_field_is_open_where_a_misspelt_option_was_meant_to_set_it(line: str, field: str) -> None:
    fact = getattr(read(line).layout, field)
    assert not fact.is_known
    assert "was probably meant to set it" in fact.reason
    assert read(line).layout.pcp.is_unset


def test_stated_option_stands_beside_a_misspelt_one() -> None:
    assert (2,) == read("vllm serve m -tp 2 --tp 4").layout.tp.values


def test_misspelt_length_is_not_at_its_default() -> None:
    assert not read("vllm serve m --max-model-length 4096").memory.max_model_len.is_unset


def test_defaults_stand_in_for_what_is_not_stated() -> None:
    effective = ENGINE.effective(read("vllm serve m -tp 4").layout)
    assert (4, 1, 1, None) == (
        effective.tp.only, effective.dp.only, effective.nnodes.only, effective.executor.only,
    )  # fmt: skip
    assert ("stated", "defaulted") == (effective.tp.how, effective.dp.how)


# ------------------------------------------------------------------------------------- options


def versions_of(image: str | None) -> Known[Releases]:
    tag = launchers.tag_of(image) if image else None
    return ENGINE.versions(Known.of(tag) if tag else Known.unset())


def reading_of(line: str, image: str | None = None) -> Reading:
    reading = ENGINE.read(launch(line, image), versions_of(image))
    assert reading is not None
    return reading


def plan_of(line: str, image: str | None = None) -> ServingPlan:
    reading = reading_of(line, image)
    return ServingPlan(
        id="p", name="p", kind="shell", file="f", path="0:", origin=NOWHERE,
        engine="vllm", image=Known.unset() if image is None else Known.of(image),
        versions=versions_of(image), flags=reading.flags, memory=reading.memory,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "image", "found"),
    [
        ("--no-such 1", "vllm/vllm-openai:v0.33.0", ["error"]),
        ("--no-such 1", "vllm/vllm-openai:v0.8.5", ["error"]),
        ("--no-such 1", "vllm/vllm-openai:v0.33.1", []),
        ("--no-such 1", "vllm/vllm-openai:latest", ["warning"]),
        ("--no-such 1", None, ["warning"]),
        ("--no-such 1", "example/vllm:v0.33.0", []),
        ("--max-modl-len 1", None, ["error"]),
        ("--max-modl-len 1", "vllm/vllm-openai:v0.33.1", ["warning"]),
        ("--max-modl-len 1", "example/vllm:v0.33.0", ["warning"]),
        ("--swap-space 1", "vllm/vllm-openai:v0.33.0", ["error"]),
        ("--swap-space 1", "vllm/vllm-openai:v0.17.1", []),
        (
            "--swap-space 1",
            "vllm/vllm-openai:v0.17.2",
            ["warning in 0.18.0 (the one checked after 0.17.2)"],
        ),
        ("--swap_space=1", "vllm/vllm-openai:latest", ["warning since 0.18.0"]),
        ("--nnodes 1", "vllm/vllm-openai:v0.8.5", ["error"]),
        ("--nnodes 1", "vllm/vllm-openai:latest", []),
        ("--tensor-parallel 1", "vllm/vllm-openai:v0.33.0", []),
        ("--enforce-eager=1", "vllm/vllm-openai:v0.33.0", ["error"]),
    ],
)
def test_what_is_refused_is_certain_as_far_as_releases_are_known(
    option: str, image: str | None, found: list[str]
) -> None:
    refused = reading_of(f"{'' if image else 'vllm serve '}org/m {option}", image).refused
    assert found == [" ".join(filter(None, (item.severity, item.when))) for item in refused]


def test_option_that_rests_on_an_assumption_is_not_certainly_refused() -> None:
    process = launch("org/m --no-such", "vllm/vllm-openai:v0.33.0")
    argv = (*process.argv[:1], replace(process.argv[1], assumes=frozenset({"X is unset"})))
    releases = ENGINE.versions(Known.of("v0.33.0"))
    refused = [ENGINE.read(each, releases) for each in (process, replace(process, argv=argv))]
    assert ["error", "warning"] == [item.refused[0].severity for item in refused if item]


BF16 = ModelFacts(id="m", torch_dtype="bfloat16", quantization={})


@pytest.mark.parametrize(
    ("options", "model", "size"),
    [
        ("", BF16, 2),
        ("--kv-cache-dtype auto", BF16, 2),
        ("--kv-cache-dtype auto --dtype half", BF16, 2),
        ("", replace(BF16, torch_dtype="float32"), 2),
        ("", replace(BF16, torch_dtype=None), 2),
        ("--kv-cache-dtype bfloat16", replace(BF16, quantization=None), 2),
        ("--kv-cache-dtype fp8", BF16, 1),
        ("--kv-cache-dtype fp8_e5m2", BF16, 1),
        ("--kv-cache-dtype fp8_ds_mla", BF16, None),
        ("--kv-cache-dtype fp8_per_token_head", BF16, None),
        ("--kv-cache-dtype nvfp4", BF16, None),
        ("--kv-cache-dtype ?", BF16, None),
        ("--dtype float32", BF16, None),
        ("--dtype ?", BF16, None),
        ("", replace(BF16, quantization={"quant_method": "modelopt"}), None),
        ("", replace(BF16, quantization=None), None),
    ],
)
def test_bytes_of_a_cache_element_are_certain_or_not_known(
    options: str, model: ModelFacts, size: int | None
) -> None:
    assert size == ENGINE.dtype_bytes(plan_of(f"vllm serve m {options}"), model)
