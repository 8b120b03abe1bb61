"""Write what SGLang's own parser says of many command lines, for a test to hold ours against.

    python scripts/check_sglang_parser.py DIR    an unpacked wheel of sglang

Development only: it runs `ServerArgs.add_cli_args` of DIR, so its Python needs msgspec. Everything
else that server_args.py imports is stood in for, but for the functions that convert a word; an
option whose choices come from what is stood in for is left out. Each release gives one table,
tests/engines/data/sglang_parser_RELEASE.json.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import io
import json
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from check_vllm_parser import class_of, holds, put, state, valid
from extract_sglang_flags import release_of

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "lint/shardlint/engines/data/sglang_flags.json"
DATA = ROOT / "tests/engines/data"
MUTATIONS = 150
EVERY = 4
"""Of the options of a release, each so many-th is tried in every way."""
SIZES = {"tp": ("tp_size",), "pp": ("pp_size",), "dp": ("dp_size",), "ep": ("ep_size",),
         "attention_dp": ("attn_dp_size",), "nnodes": ("nnodes",),
         "max_model_len": ("context_length",)}  # fmt: skip
REAL = ("sglang.srt.server_args", "sglang.srt.arg_groups")
PLAIN = ("sglang.srt.arg_groups.arg_utils", "sglang.srt.arg_groups.argparse_actions",
         "sglang.srt.arg_groups.choices", "sglang.srt.arg_groups.fields",
         "sglang.srt.arg_groups.field_order")  # fmt: skip
CONVERTERS = ("human_readable_int", "nullable_str", "json_list_type")
STOOD_IN = frozenset(
    {"torch", "torch_memory_saver", "transformers", "huggingface_hub", "zmq", "orjson", "requests",
     "psutil", "numpy", "fastapi", "uvicorn", "triton", "sgl_kernel", "pydantic", "tqdm", "PIL",
     "setproctitle", "einops", "openai", "IPython", "aiohttp", "xgrammar", "outlines"}
)  # fmt: skip


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages and modules whose place in the table of options is only a name."""

    def __init__(self, converters: dict[str, Any]) -> None:
        self.converters = converters

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        del path, target
        inside = name.startswith("sglang.srt.arg_groups")
        kept = name in ("sglang", "sglang.srt", *REAL) or name.startswith(PLAIN)
        top = name.partition(".")[0]
        stood = (top == "sglang" and not kept) or top in STOOD_IN
        if stood or (inside and not kept):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        for name, function in self.converters.items():
            setattr(module, name, function)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        del module


def _converters(package: Path) -> dict[str, Any]:
    """The functions that convert a word, each by itself."""
    found: dict[str, Any] = {"argparse": argparse, "json": json, "orjson": json}
    prelude = "import argparse, json, re\nfrom decimal import Decimal\nfrom typing import *\n"
    exec(prelude, found)
    for path in (package / "sglang/srt").rglob("*.py"):
        text = path.read_text("utf-8")
        if not any(f"def {name}(" in text for name in CONVERTERS):
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name in CONVERTERS:
                exec(ast.unparse(node), found)
    return {name: found[name] for name in CONVERTERS if name in found}


class Parser:
    """The server's parser, as one release builds it."""

    def __init__(self, package: Path) -> None:
        sys.meta_path.insert(0, _StandIn(_converters(package)))
        root = types.ModuleType("sglang")
        root.__path__ = [str(package / "sglang")]
        srt = types.ModuleType("sglang.srt")
        srt.__path__ = [str(package / "sglang/srt")]
        sys.modules |= {"sglang": root, "sglang.srt": srt}
        import sglang.srt.server_args as module  # type: ignore[import-not-found]

        self.parser = argparse.ArgumentParser(prog="sglang serve")
        module.ServerArgs.add_cli_args(self.parser)
        self.unknown = {
            option
            for action in self.parser._actions
            if isinstance(action.choices, MagicMock) or action.choices == []
            or any(isinstance(one, MagicMock) for one in action.choices or ())
            or isinstance(action.type, MagicMock)
            for option in action.option_strings
        }  # fmt: skip

    def verdict(self, words: list[str]) -> dict[str, Any]:
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
                found = self.parser.parse_args(words)
        except SystemExit as error:
            if error.code == 0:
                return {"exit": 0, "error": "help"}
            return {"exit": error.code, "error": class_of(errors.getvalue())}
        except Exception as error:
            return {"exit": 1, "error": type(error).__name__}
        values = vars(found)
        sizes = {
            name: values[field] for name, fields in SIZES.items() for field in fields
            if isinstance(values.get(field), int)
        }  # fmt: skip
        return {"exit": 0, "model": values.get("model_path"), "sizes": sizes}


# ---------------------------------------------------------------------------- command lines

MODEL = ["--model-path", "M"]
TEXTS = """
--tp 4|--tp=4|--dp 2|--pp 2|--ep 8|--ep-size 8|--expert-parallel-size 8|--tensor-parallel-size 4
--tensor_parallel_size 4|--tp_size 4|-tp 4|--tensor-parallel 4|--data-parallel 2|--pipeline 2
--attn-dp 8|--attn-dp-size 8|--attn-cp 2|--moe-dp 2|--dp-size 8 --enable-dp-attention|--enable-dp
--tp 8 --dp 8 --enable-dp-attention|--mem-fraction 0.8|--mem-fraction-static 0.8|--mem 0.8
--mem-fraction-static x|--context 4096|--context-length 4096|--context-length 32k
--context-length 32K|--context-length 32Ki|--context-length 1.5k|--context-length 1.5Ki
--quant fp8|--quantization fp8|--quantization no_such|--page 64|--page-size 64|--dcp 2
--cuda-graph-max-bs 16|--cuda-graph-max-bs-decode 16|--cuda-graph-bs 1 2 4|--disable-cuda-graph
--trust-remote-code|--trust-remote-code true|--trust-remote-code=true|--host 0.0.0.0 --port 1
--port 80a|--kv-cache-dtype auto|--kv-cache-dtype fp8_e5m2|--kv-cache-dtype fp4|--dtype half
--dtype float8|--tp-size two|--tp-size 1.0|--tp-size|--tp-size=|--tp-size -1|--tp-size 0|M|-- M|--
--tp 8 --tp 4|--chunked-prefill-size -1|--chunked-prefill-size 8k|--max-total-tokens 1M
--enable-ep-moe|--enable-deepep-moe|--moe-a2a-backend deepep|--moe-a2a-backend pplx|--enable-eplb
--moe-a2a-backend no_such|--deepep-mode auto|--deepep-mode fast|--nnodes 2 --node-rank 1
--dist-init-addr a:1|--nccl-init-addr a:1|--served-model-name a b|--served-model-name a
--lora-paths a=b c=d|--lora-paths|--enable-torch-compile|--no-enable-torch-compile
--disable-radix-cache|--enable-prefix-caching|--max-model-len 4096|--gpu-memory-utilization 0.9
--max-num-seqs 8|--max-running-requests 8|--attention-backend fa3|--attention-backend no_such
--load-balance-method round_robin|--load-balance-method random|--schedule-policy lpm
--speculative-algorithm EAGLE|--speculative-algo EAGLE|--speculative-algorithm eagle
--enable-p2p-check|--disable-overlap|--disable-overlap-schedule|--enable-mixed-chunk True|--help
--json-model-override-args {}|--json-model-override-args text|--config c.yaml|--model N|--model=N
--enable-flashinfer-mla|--enable-flashmla|--disable-mla|--enable-nan-detection|--stream-output
"""
EXAMPLES = [
    text.split(" ") for line in TEXTS.strip().split("\n") for text in line.split("|")
]  # fmt: skip


def lines(table: dict[str, Any], release: str, left_out: set[str]) -> Iterator[list[str]]:
    """Command lines for a release, the same at each run."""
    rows = [state(row, release, table["releases"]) for row in table["flags"]
            if holds(row, release, table["releases"])]  # fmt: skip
    rows = [row for row in rows if row["flag"] not in {"--help", "--config", "--model-path",
                                                        *left_out}]  # fmt: skip
    for row in rows[::EVERY]:
        value = valid(row)
        yield [row["flag"], *value]
        yield [row["flag"]]
        if value:
            yield [f"{row['flag']}={value[0]}"]
            yield [row["flag"], "no such thing"]
    yield from EXAMPLES
    chance = random.Random(hashlib.sha256(release.encode()).hexdigest())
    for number in range(MUTATIONS):
        words = [word for row in chance.sample(rows, 2) for word in (row["flag"], *valid(row))]
        yield MUTATE[number % len(MUTATE)](words, chance)


def _misspelt(words: list[str], chance: random.Random) -> list[str]:
    name = words[0]
    at = chance.randrange(3, len(name) - 1)
    return [name[:at] + name[at + 1] + name[at] + name[at + 2 :], *words[1:]]


def _shortened(words: list[str], chance: random.Random) -> list[str]:
    return [words[0][: chance.randrange(4, len(words[0]) + 1)], *words[1:]]


def _underscored(words: list[str], chance: random.Random) -> list[str]:
    del chance
    return [words[0].replace("-", "_").replace("__", "--", 1), *words[1:]]


def _one_dash(words: list[str], chance: random.Random) -> list[str]:
    del chance
    return [words[0][1:], *words[1:]]


def _joined(words: list[str], chance: random.Random) -> list[str]:
    return [f"{words[0]}={chance.choice(['', '1', 'true', '{}', '1.5K', '2k', 'auto'])}"]


def _again(words: list[str], chance: random.Random) -> list[str]:
    del chance
    return [*words, *words, "--tp", "2", "--tensor-parallel-size", "4"]


def _negated(words: list[str], chance: random.Random) -> list[str]:
    name = words[0].removeprefix("--")
    for prefix in ("enable-", "disable-"):
        name = name.removeprefix(prefix) if chance.random() < 0.5 else name
    return [f"--{chance.choice(['no-', 'disable-', 'enable-'])}{name}"]


def _extra(words: list[str], chance: random.Random) -> list[str]:
    return chance.choice([[*words, "--", "--tp", "2"], [*words, "True"], ["True", *words]])


MUTATE = (
    _misspelt, _shortened, _underscored, _one_dash, _joined, _again, _negated, _extra
)  # fmt: skip


def render(package: Path, release: str) -> str:
    """The table of one release: JSON with one command line on each line."""
    table = json.loads(TABLE.read_text("utf-8"))
    parser, rows = Parser(package), dict[str, str]()
    for words in lines(table, release, parser.unknown):
        argv = [*MODEL, *words]
        rows[json.dumps(argv)] = json.dumps(
            {"argv": argv} | parser.verdict(argv), ensure_ascii=False
        )
    python = ".".join(map(str, sys.version_info[:2]))
    body = ",\n".join(rows.values())
    return f'{{"release": "{release}", "python": "{python}", "rows": [\n{body}\n]}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description="Write what SGLang's own parser says.")
    parser.add_argument("package", type=Path, help="unpacked wheel of one release")
    parser.add_argument("--check", action="store_true", help="exit 1 if the table on disk differs")
    args = parser.parse_args()
    release = release_of(args.package)
    text = render(args.package, release)
    return put(DATA / f"sglang_parser_{release}.json", text, args.check)


if __name__ == "__main__":
    sys.exit(main())
