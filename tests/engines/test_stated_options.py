"""Engines that are only recognised: which facts their options and variables state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from engines.commands import launch
from shardlint.engines.builtin import shardlint_engines
from shardlint.engines.stated_options import _data
from shardlint.known import Known
from shardlint.plan import Launch, Reading
from shardlint_schemas import schema

ANY: Known[Any] = Known.unset()
SGLANG = "python3 -m sglang.launch_server --model-path org/m"
TRTLLM = "trtllm-serve org/m"
LMDEPLOY = "lmdeploy serve api_server org/m"


def read_by_any(of: Launch) -> Reading | None:
    """The first reading that an engine makes, as plans are made."""
    for engine in shardlint_engines():
        if (reading := engine.read(of, ANY)) is not None:
            return reading
    return None


def facts(line: str, image: str | None = None, **env: str) -> dict[str, Any]:
    """Everything that is stated, by its short name."""
    reading = read_by_any(launch(line, image, **env))
    assert reading is not None
    found = {name: getattr(reading.layout, name) for name in reading.layout.__dataclass_fields__}
    found |= {
        "model": reading.model,
        "max_model_len": reading.memory.max_model_len,
        "quantization": reading.memory.quantization,
        "kv_cache_dtype": reading.memory.kv_cache_dtype,
        "share": reading.memory.budget.share,
    }
    known = {
        name: fact.only for name, fact in found.items() if fact.is_known and fact.how == "stated"
    }
    return {"engine": reading.engine, **known}


def reason(line: str, fact: str, **env: str) -> str | None:
    reading = read_by_any(launch(line, **env))
    assert reading is not None
    found: Known[Any] = reading.model if fact == "model" else getattr(reading.layout, fact)
    assert not found.is_known
    return found.reason


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            f"{SGLANG} --tp 8 --pp-size=2 --ep-size 4 --mem-fraction-static 0.85"
            " --context-length 32768 --quantization fp8 --kv-cache-dtype fp8_e5m2 --nnodes 2",
            {"engine": "sglang", "model": "org/m", "tp": 8, "pp": 2, "ep": 4, "share": 0.85,
             "max_model_len": 32768, "quantization": "fp8", "kv_cache_dtype": "fp8_e5m2",
             "nnodes": 2},
        ),
        ("sglang serve --model org/m --tp-size 2", {"engine": "sglang", "model": "org/m", "tp": 2}),
        (
            "trtllm-serve serve org/m --tp_size 4 --ep_size 2 --max_seq_len 8192"
            " --kv_cache_free_gpu_memory_fraction 0.9",
            {"engine": "trtllm", "model": "org/m", "tp": 4, "ep": 2, "max_model_len": 8192,
             "share": 0.9},
        ),
        (
            "trtllm-serve --backend pytorch org/m --tensor_parallel_size 4",
            {"engine": "trtllm", "model": "org/m", "tp": 4},
        ),
        (
            "python3 -m dynamo.trtllm --model-path org/m --tensor-parallel-size 4"
            " --expert-parallel-size 2 --free-gpu-memory-fraction 0.8",
            {"engine": "trtllm", "model": "org/m", "tp": 4, "ep": 2, "share": 0.8},
        ),
        (
            'trtllm-serve org/m --kv_cache_config {"free_gpu_memory_fraction":0.7,"dtype":"fp8"}',
            {"engine": "trtllm", "model": "org/m", "share": 0.7, "kv_cache_dtype": "fp8"},
        ),
        (
            "text-generation-launcher --model-id org/m --num-shard 2 --max-total-tokens 4096",
            {"engine": "tgi", "model": "org/m", "tp": 2, "max_model_len": 4096},
        ),
        (
            "lmdeploy serve api_server org/m --tp 2 --session-len 8192"
            " --cache-max-entry-count 0.5",
            {"engine": "lmdeploy", "model": "org/m", "tp": 2, "max_model_len": 8192, "share": 0.5},
        ),
        (
            "python -m huggingfaceserver --model_id=org/m --tensor-parallel-size=2",
            {"engine": "huggingfaceserver", "model": "org/m", "tp": 2},
        ),
        ("llama-server -m /models/m.gguf", {"engine": "llamacpp", "model": "/models/m.gguf"}),
        ("ollama serve", {"engine": "ollama"}),
    ],
)  # fmt: skip
def test_options_are_read(line: str, wanted: dict[str, Any]) -> None:
    assert wanted == facts(line)


def test_variables_count_where_no_option_is_given() -> None:
    env = {"MODEL_ID": "org/other", "NUM_SHARD": "4", "QUANTIZE": "awq", "CUDA_MEMORY_FRACTION": ""}
    found = facts("text-generation-launcher --model-id org/m", **env)
    assert {"engine": "tgi", "model": "org/m", "tp": 4, "quantization": "awq"} == found


def test_an_image_of_one_model_names_it() -> None:
    image = "nvcr.io/nim/meta/llama-3.2-1b-instruct:1.12.0"
    assert {"engine": "nim", "model": image} == facts("", image)
    assert {"engine": "nim"} == facts("", "nvcr.io/nim/nvidia/llm-nim:1.12")
    named = facts("", image, NIM_MODEL_NAME="hf://org/m", NIM_TENSOR_PARALLEL_SIZE="2")
    assert {"engine": "nim", "model": "org/m", "tp": 2} == named


def test_the_last_of_a_repeated_option_counts() -> None:
    assert 4 == facts(f"{SGLANG} --tp 8 --tp 4")["tp"]


def test_what_depends_on_the_release_is_not_taken() -> None:
    """Releases differ in whether the file or the command line wins."""
    assert 4 == facts(f"{TRTLLM} --tp_size 4 --tensor_parallel_size 4")["tp"]
    line = f"{TRTLLM} --tp_size 4 --tensor_parallel_size 8"
    assert "it is given twice, with different values" == reason(line, "tp")


@pytest.mark.parametrize("word", ["${TP}", "<tp>", "{{tp}}", "__TP__"])
def test_what_is_filled_in_later_is_not_known(word: str) -> None:
    assert "it is filled in before the engine sees it" == reason(f"{LMDEPLOY} --tp {word}", "tp")


def test_words_that_are_no_values() -> None:
    assert "`four` is no number" == reason(f"{LMDEPLOY} --tp four", "tp")
    assert "X is not set" == reason(f"{LMDEPLOY} --tp ?", "tp")
    assert "tp" not in facts(f"{LMDEPLOY} --tp --trust-remote-code")
    assert "tp" not in facts(f"{LMDEPLOY} --tp ?*")
    assert "tp" not in facts(f"{LMDEPLOY} --tp")


def test_a_word_that_may_be_a_value_is_no_model() -> None:
    why = "it is not certain which word names it"
    assert why == reason("trtllm-serve --future_option org/m --tp_size 2", "model")
    assert why == reason("trtllm-serve --backend pytorch a b", "model")
    assert "model" not in facts("trtllm-serve --tp_size 2")


def test_a_file_of_options_leaves_it_open() -> None:
    for option in ("--config", "--extra_llm_api_options"):
        reading = read_by_any(launch(f"{TRTLLM} {option} /etc/o.yaml"))
        assert reading is not None
        assert "options may stand in /etc/o.yaml" == reading.open_ended
    more = read_by_any(launch(f"{LMDEPLOY} ?*"))
    assert more is not None
    assert "more options may follow" == more.open_ended


def test_ranks_that_attention_splits_are_no_further_ones() -> None:
    reading = read_by_any(launch(f"{SGLANG} --tp 16 --dp 16 --enable-dp-attention"))
    assert reading is not None
    (engine,) = (one for one in shardlint_engines() if one.name == "sglang")
    effective = engine.effective(reading.layout)
    assert (16, 16, "derived") == (
        reading.layout.dp.only, reading.layout.attention_dp.only, reading.layout.attention_dp.how,
    )  # fmt: skip
    assert (1, 16, 16) == (effective.dp.only, effective.attention_dp.only, effective.tp.only)
    plain = read_by_any(launch(f"{SGLANG} --tp 2 --dp 4"))
    assert plain is not None
    assert 4 == engine.effective(plain.layout).dp.only


def test_something_else_may_say_which_engine_it_is() -> None:
    of = launch("--model-path org/m --tp 2", "registry/custom:1")
    assert read_by_any(of) is None
    reading = read_by_any(replace(of, engine="sglang"))
    assert reading is not None
    assert ("sglang", 2) == (reading.engine, reading.layout.tp.only)
    served = read_by_any(replace(launch("--model org/m", "registry/custom:1"), engine="vllm"))
    assert served is not None
    assert ("vllm", "org/m") == (served.engine, served.model.only)
    assert read_by_any(replace(launch("sleep infinity", "registry/c:1"), engine="sglang")) is None
    assert read_by_any(replace(launch("vllm serve org/m"), engine="sglang")) is None


@pytest.mark.parametrize("name", ["vllm-runtime", "sglang-runtime", "tensorrtllm-runtime"])
def test_images_of_dynamo_start_no_engine_by_themselves(name: str) -> None:
    assert read_by_any(launch("", f"nvcr.io/nvidia/ai-dynamo/{name}:1.3.0")) is None


def test_vllm_inside_of_another_program() -> None:
    """It takes its own options out and hands on the rest."""
    line = (
        "python3 -m dynamo.vllm --model org/m --migration-limit 3 --tensor-parallel-size 2"
        " --dyn-tool-call-parser hermes --is-prefill-worker --connector nixl lmcache"
        " --disaggregation-mode decode --no-enable-multimodal --some-new-option 7 word"
    )
    reading = read_by_any(launch(line, "my-registry/vllm-runtime:my-tag"))
    assert reading is not None
    assert ("vllm", "org/m", 2) == (reading.engine, reading.model.only, reading.layout.tp.only)
    assert () == reading.refused
    wrong = read_by_any(launch("python3 -m dynamo.vllm --model org/m --max-model-len many"))
    assert wrong is not None
    (refused,) = wrong.refused
    assert ("value", "warning") == (refused.kind, refused.severity)


def test_the_data_has_its_schema() -> None:
    jsonschema.validate(_data(), schema("engine_options"))


def test_odd_words_are_read_without_a_failure() -> None:
    for line in (
        "",
        "-",
        "--",
        "=",
        "--=",
        "--tp=",
        "-m",
        "? ?* --tp",
        "{ }",
        "--kv_cache_config [",
    ):
        for engine in shardlint_engines():
            engine.read(replace(launch(line, "x/y:1"), engine=engine.name), ANY)
