"""Files of options: which word of a command line names one, and which options its keys are.

vLLM: utils/argparse_utils.py (`_pull_args_from_config`, `load_config_file`). SGLang:
server_args_config_parser.py. TensorRT-LLM: llmapi/llm_args.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shardlint.known import Text
from shardlint.record import record


@record(kw_only=True)
class ConfigFiles:
    """How one engine reads a file of options.

    `named_by` are the options that name it, as words of their own; with `joined`, also as
    `--option=FILE`. `option` makes an option of a key. Its words stand before those of the command
    line, which win; so does a model that is named there. `negates`: false is an option of its own.
    """

    engine: str
    named_by: tuple[str, ...]
    option: Callable[[str], str | None]
    joined: bool = False
    negates: bool = False
    nested: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Keys of maps whose own keys are options, with what stands before their names."""
    launcher: tuple[str, ...]
    """A command that starts the engine, for a file that nobody names."""


def vllm_option(key: str) -> str:
    """`_` is `-`, up to the first dot: `speculative_config.num_tokens`."""
    head, dot, rest = key.partition(".")
    return f"--{head.replace('_', '-')}{dot}{rest}"


def verbatim(key: str) -> str:
    """The key is pasted behind two dashes as it is written."""
    return f"--{key}"


def trtllm_option(key: str) -> str:
    """The name of a field; recipes write one of them shorter."""
    return f"--{'kv_cache_free_gpu_memory_fraction' if key == RECIPE_SHARE else key}"


RECIPE_SHARE = "kv_cache_free_gpu_mem_fraction"
"""AI-Hypercomputer/gpu-recipes: options of trtllm-serve on top, fields in `llm_api_args`."""

FORMATS: Mapping[str, ConfigFiles] = {
    found.engine: found
    for found in (
        ConfigFiles(
            engine="vllm", named_by=("--config",), option=vllm_option, negates=True,
            launcher=("vllm", "serve"),
        ),
        ConfigFiles(
            engine="sglang", named_by=("--config",), option=verbatim,
            launcher=("python3", "-m", "sglang.launch_server"),
        ),
        ConfigFiles(
            engine="trtllm", named_by=("--config", "--extra_llm_api_options"),
            option=trtllm_option, joined=True,
            nested={"llm_api_args": "", "kv_cache_config": "kv_cache_config."},
            launcher=("trtllm-serve", "serve"),
        ),
    )
}  # fmt: skip


def named(format: ConfigFiles, words: Sequence[Text]) -> Text | None:
    """The word that names the file of options; None without one, or with several."""
    found = [
        words[at + 1]
        for at, word in enumerate(words[:-1])
        if word.value in format.named_by and not words[at + 1].many
    ]
    if format.joined:
        for word in words:
            name, equals, _ = (word.value or "").partition("=")
            if equals and name in format.named_by:
                found.append(word.part(len(name) + 1))
    return found[0] if len(found) == 1 else None


COMMAND = "serve"
"""A word between a launcher and the model: `trtllm-serve serve`."""


def with_file(words: Sequence[Text], config: Sequence[Text]) -> tuple[Text, ...]:
    """The words of an engine, behind its launcher, with those of its file.

    The model may stand first, or second behind a command; the words of the file stand behind it.
    """
    at = 1 if words and words[0].value == COMMAND else 0
    at += len(words) > at and not (words[at].value or "-").startswith("-")
    return (*words[:at], *config, *words[at:])


# ------------------------------------------------------------------------- whose keys they are


@cache
def _data() -> Any:
    path = Path(__file__).parent / "data" / "config_keys.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _own_keys(engine: str) -> frozenset[str]:
    return frozenset(_data()["engines"][engine]["keys"])


def keys_of(engine: str) -> list[str]:
    """The keys that some release of an engine has, in order."""
    return sorted(_own_keys(engine))


def knows(engine: str, key: str) -> bool:
    """Whether some release of an engine has an option of this name."""
    if engine == "vllm":
        from shardlint.engines.flags import FlagTable

        return FlagTable(engine).ever(vllm_option(key))
    return key.replace("-", "_") in _own_keys(engine)


def whose(keys: Sequence[str]) -> str | None:
    """The engine of a file with these keys: the only one that knows all of them.

    Two keys at the least, and one of them must be about ranks, memory or lengths: a host, a port
    and a model stand in the configuration of many programs.
    """
    if len(keys) < 2 or not any(_telling(key) for key in keys):
        return None
    found = [engine for engine in FORMATS if all(knows(engine, key) for key in keys)]
    return found[0] if len(found) == 1 else None


TELLING = re.compile(
    r"(tensor|pipeline|data|expert|context)_parallel_size|(tp|pp|dp|ep|world)_size|max_model_len|"
    r"gpu_memory_utilization|mem_fraction_static|context_length|max_num_(seqs|tokens)|"
    r"max_num_batched_tokens|max_seq_len|max_batch_size|kv_cache_config|cuda_graph_config|"
    r"enable_expert_parallel|enable_attention_dp|moe_expert_parallel_size|max_running_requests|"
    r"(kv_cache_)?free_gpu_mem(ory)?_fraction"
)


def _telling(key: str) -> bool:
    return TELLING.fullmatch(key.replace("-", "_")) is not None
