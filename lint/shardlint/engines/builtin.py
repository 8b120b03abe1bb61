"""The built-in engines, registered by the same hook as a third party's."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.engine import Engine
from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.huggingfaceserver import HuggingFaceServer
from shardlint.engines.lmdeploy import LMDeploy
from shardlint.engines.sglang import SGLang
from shardlint.engines.tensorrt_llm import TensorRTLLM
from shardlint.engines.tgi import TGI
from shardlint.engines.vllm import VLLM
from shardlint.plugins import hookimpl


@hookimpl
def shardlint_engines() -> Iterable[Engine]:
    return (
        VLLM(),
        SGLang(),
        TensorRTLLM(),
        TGI(),
        LMDeploy(),
        RecognisedEngine("nim", "NIM"),
        RecognisedEngine("ollama", "Ollama"),
        RecognisedEngine("llamacpp", "llama.cpp"),
        HuggingFaceServer(),
    )
