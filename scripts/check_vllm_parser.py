"""Write what vLLM's own parser says of many command lines, for a test to hold ours against.

    python scripts/check_vllm_parser.py DIR    an unpacked sdist or wheel of vLLM

Development only: it imports vllm from DIR, so its Python needs torch, transformers and the other
packages that this release of vLLM imports. What decides no option (compiled code, Ray, kernels) is
stood in for. Each release gives one table, tests/engines/data/vllm_parser_RELEASE.json: command
lines made from the options of the release, misspelt and malformed in ways that are the same at each
run, with the verdict, the class of the error, and the sizes that were parsed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import io
import json
import os
import random
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "lint/shardlint/engines/data/vllm_flags.json"
DATA = ROOT / "tests/engines/data"
MUTATIONS = 200
SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "max_model_len")

STOOD_IN = frozenset(
    {"diskcache", "ray", "xgrammar", "llguidance", "outlines", "numba", "compressed_tensors",
     "depyf",
     "xformers", "pynvml", "triton_kernels", "flashinfer", "gguf", "cv2", "anthropic", "mcp",
     "openai_harmony", "model_hosting_container_standards", "lmformatenforcer", "watchfiles"}
)  # fmt: skip
COMPILED = ("vllm._C", "vllm._moe_C", "vllm._rocm_C", "vllm._version", "vllm.cumem_allocator",
            "vllm.vllm_flash_attn")  # fmt: skip


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "__file__":
            return "stood_in.py"
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that are not installed and decide no option."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        del path, target
        if name.partition(".")[0] in STOOD_IN or name.startswith(COMPILED):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        del module


class Parsers:
    """`vllm serve` and the module that it wraps, as one release builds them."""

    def __init__(self, package: Path, release: str) -> None:
        os.environ |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "ERROR"}
        sys.meta_path.append(_StandIn())
        sys.path.insert(0, str(package))
        version = importlib.metadata.version
        importlib.metadata.version = (  # type: ignore[assignment]
            lambda name: f"{release}+cpu" if name == "vllm" else version(name)
        )
        import vllm.entrypoints.cli.serve as serve  # type: ignore[import-not-found]

        try:
            from vllm.utils.argparse_utils import (  # type: ignore[import-not-found]
                FlexibleArgumentParser,
            )
        except ImportError:
            from vllm.utils import FlexibleArgumentParser  # type: ignore[import-not-found]
        try:
            from vllm.entrypoints.common.cli_args import (  # type: ignore[import-not-found]
                make_arg_parser,
            )
        except ImportError:
            from vllm.entrypoints.openai.cli_args import (  # type: ignore[import-not-found]
                make_arg_parser,
            )
        self.serve = FlexibleArgumentParser(description="vLLM CLI")
        self.serve.add_argument("-v", "--version", action="version", version=release)
        commands = self.serve.add_subparsers(required=False, dest="subparser")
        for command in serve.cmd_init():
            command.subparser_init(commands)
        self.module = make_arg_parser(FlexibleArgumentParser())

    def verdict(self, mode: str, words: list[str]) -> dict[str, Any]:
        """What the parser says; the first line of its error decides the class."""
        parser, given = (self.serve, ["serve", *words]) if mode == "serve" else (self.module, words)
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
                found = parser.parse_args(given)
        except SystemExit as error:
            return {"exit": error.code, "error": class_of(errors.getvalue())}
        except Exception as error:
            return {"exit": 1, "error": type(error).__name__}
        values = vars(found)
        model = values.get("model_tag") or values.get("model")
        sizes = {name: values.get(name) for name in SIZES}
        return {"exit": 0, "model": model, "sizes": sizes}


CLASSES = (
    "unrecognized arguments", "ambiguous option", "expected one argument",
    "expected at least one argument", "ignored explicit argument", "invalid choice",
    "arguments are required", "Decimals are not allowed", "cannot be converted",
)  # fmt: skip


def class_of(text: str) -> str:
    last = text.strip().rpartition("error: ")[2]
    return next((name for name in CLASSES if name in last), "invalid value")


# ---------------------------------------------------------------------------- command lines


def lines(table: dict[str, Any], release: str) -> Iterator[tuple[str, list[str]]]:
    """Command lines for a release, the same at each run."""
    rows = [state(row, release, table["releases"]) for row in table["flags"]
            if holds(row, release, table["releases"])]  # fmt: skip
    rows = [row for row in rows if row["flag"] not in ("--help", "--config")]
    for row in rows:
        value = valid(row)
        yield "serve", ["M", row["flag"], *value]
        yield "serve", ["M", row["flag"]]
        if value:
            yield "serve", ["M", f"{row['flag']}={value[0]}"]
            yield "serve", ["M", row["flag"], "no such thing"]
    yield from (("serve", words) for words in EXAMPLES)
    yield from (("module", words) for words in EXAMPLES)
    chance = random.Random(hashlib.sha256(release.encode()).hexdigest())
    for number in range(MUTATIONS):
        mutate = MUTATE[number % len(MUTATE)]
        words = [word for row in chance.sample(rows, 2) for word in (row["flag"], *valid(row))]
        yield "serve", ["M", *mutate(words, chance)]


def holds(span: dict[str, Any], release: str, releases: list[str]) -> bool:
    at = releases.index(release)
    return releases.index(span["first_seen"]) <= at <= releases.index(span["last_seen"])


def state(row: dict[str, Any], release: str, releases: list[str]) -> dict[str, Any]:
    found = dict(row)
    for key, spans in row.get("earlier", {}).items():
        for span in spans:
            if holds(span, release, releases):
                found.pop(key, None)
                found.update({key: span["value"]} if "value" in span else {})
    return found


def valid(row: dict[str, Any]) -> list[str]:
    if row["takes"] == "none":
        return []
    if row.get("choices"):
        return [str(row["choices"][0])]
    kinds = {"int": "7", "float": "0.5", "human_int": "8k", "human_int_auto": "8k", "json": "{}",
             "json_or_text": "{}", "bool": "true"}  # fmt: skip
    return [kinds.get(row["type"], "text")]


def _misspelt(words: list[str], chance: random.Random) -> list[str]:
    name = words[0]
    at = chance.randrange(3, len(name) - 1)
    return [name[:at] + name[at + 1] + name[at] + name[at + 2 :], *words[1:]]


def _shortened(words: list[str], chance: random.Random) -> list[str]:
    return [words[0][: chance.randrange(5, len(words[0]) + 1)], *words[1:]]


def _underscored(words: list[str], chance: random.Random) -> list[str]:
    del chance
    return [words[0].replace("-", "_").replace("__", "--", 1), *words[1:]]


def _one_dash(words: list[str], chance: random.Random) -> list[str]:
    del chance
    return [words[0][1:], *words[1:]]


def _glued(words: list[str], chance: random.Random) -> list[str]:
    short = chance.choice(["-tp", "-pp", "-dp", "-q", "-n", "-r", "-O", "-asc", "-ep"])
    return [*words, short + chance.choice(["4", "=4", "2x", "=true"])]


def _joined(words: list[str], chance: random.Random) -> list[str]:
    return [f"{words[0]}={chance.choice(['', '1', 'true', '{}', '1.5K', '2k', 'auto'])}"]


def _cut(words: list[str], chance: random.Random) -> list[str]:
    return [*words, chance.choice(["-tp", "--max-model-len", "--dtype", "--served-model-name"])]


def _mistyped(words: list[str], chance: random.Random) -> list[str]:
    names = [
        "-tp",
        "--max-model-len",
        "--max-num-batched-tokens",
        "--gpu-memory-utilization",
        "--dtype",
        "--block-size",
        "--limit-mm-per-prompt",
        "--kv-cache-dtype",
        "--seed",
    ]
    values = ["1.5", "1.5K", "1.5k", "32K", "four", "-1", "auto", "None", "image=2", "1e3", "1_000",
              "fp8", '{"image": 2}', "0.9"]  # fmt: skip
    return [*words, chance.choice(names), chance.choice(values)]


def _again(words: list[str], chance: random.Random) -> list[str]:
    del chance
    return [*words, *words, "-tp", "2", "--tensor-parallel-size", "4"]


def _negated(words: list[str], chance: random.Random) -> list[str]:
    name = words[0].removeprefix("--")
    for prefix in ("enable-", "disable-"):
        name = name.removeprefix(prefix) if chance.random() < 0.5 else name
    return [f"--{chance.choice(['no-', 'disable-', 'enable-', 'no-enable-'])}{name}"]


def _dotted(words: list[str], chance: random.Random) -> list[str]:
    name = chance.choice(
        ["--hf-overrides", "--speculative-config", words[0], "--kv-transfer-config"]
    )
    return [f"{name}.some_key", chance.choice(["1", "a,b", "2k", '{"a": 1}'])]


def _extra(words: list[str], chance: random.Random) -> list[str]:
    return chance.choice([[*words, "--", "-tp", "2"], [*words, "True"], ["True", *words]])


MUTATE = (_misspelt, _shortened, _underscored, _one_dash, _glued, _joined, _cut, _mistyped, _again,
          _negated, _dotted, _extra)  # fmt: skip

TEXTS = """
M --tensor_parallel_size 4|M --tensor-parallel_size 4|M --tensor_parallel_size=4|M -tp 4|M -tp=4
M -tp4|M -pp2|M --tp 4|M --dp 4|M --pp 4|M --tensor-parallel 4|M --device cuda|M --data-parallel 2
M --tensor-parallel-size 2 --tensor-parallel-size 4|M -tp 2 --tensor-parallel-size 4
M --enable-prefix-caching|M --no-enable-prefix-caching|M --disable-prefix-caching
M --enable-hybrid-kv-cache-manager|M --disable-expert-parallel|M --enable-custom-all-reduce
M --enable-prefix-caching=true|M --enable-prefix-caching False|--enable-prefix-caching False
M --enable-expert-parallel true|M -ep|M -no-ep|M --expert-parallel-size 2
M --speculative-config {"a":1}|M --speculative-config.a 1|M --speculative-config.b+ v
M -sc.a 1|M -cc.a 1|M -O3|M -O=3|M -O 3|M -O|M --max-model-len 32k|M --max-model-len 32K
M --max-model-len 1.5K|M --max-model-len 1.5k|M --max-model-len auto|M --max-model-len -1
M --max-num-batched-tokens 8k|M --kv-cache-memory-bytes 2G|M --max-num-seqs 8k
--model M|--model=M|-tp 2 --model M|M --model N|M --model=N|N|M N|--served-model-name s
M --served-model-name s|-tp 2 M --served-model-name s|--model M --served-model-name s
--served-model-name s -tp 2|--served-model-name s t -- M
M --gpu-memory-utilization 1.2|M --tensor-parallel-size 0|M --max-loras 0|M --kv-cache-dtype fp4
M --data-parallel-backend foo|M --quantization gguf|M --quantization no_such
M --all2all-backend pplx|M --all2all-backend naive|M --task embed|M --max-lora-rank 7
M --data-parallel-size 4 -dpl 2 -dpr 2|M -dph|M -dpe|M -dpn 1|M --api-server-count 2|M --headless
M -n 2|M -n2|M -r 1|M -r1|M -q awq|M -qawq|M --nnodes 2|M --prefill-context-parallel-size 2
M -pcp 2|M -dcp 2|M --swap-space 4|M --calculate-kv-scales|M --max-num-partial-prefills 2
M --override-attention-dtype x|M --logits-processor-pattern x|M --cuda-graph-sizes 1 2
M --num-redundant-experts 2|M --eplb-window-size 2|M --enable-multimodal-encoder-data-parallel
M --lora-extra-vocab-size 256|M --num-lookahead-slots 2|M --disable-mm-preprocessor-cache
M --override-pooler-config {}|M --num-scheduler-steps 8|M --worker-use-ray|M --rope-scaling {}
M --max-seq-len-to-capture 8192|M --preemption-mode swap|M --use-v2-block-manager
M --disable-log-requests|M --disable-log-request|M --max-num-batched-token 8192
M --disable-cascade-attn|M --mamba-cache-mode none|M --log-config-file f
M --limit-mm-per-prompt image=2|M --limit-mm-per-prompt {"image":2}|M --limit-mm-per-prompt.image 2
M --enable-reasoning --reasoning-parser x|M --enable-chunked-prefill
M --enable-chunked-prefill=False
M --enable-chunked-prefill True|M --no-enable-chunked-prefill|M --lora-modules a=b c=d
M --lora-modules|M --dtype float8|M --dtype half|M --tensor-parallel-size|M --tensor-parallel-size=
M --tensor-parallel-size two|M --tensor-parallel-size 1.0|M --|M -- N|-- M|M -tp 2 -- --pp 3
M --hf-overrides {"a":1}|M --hf-overrides text|M --additional-config text|M --compilation-config 3
M --kv-transfer-config not-json|M --eplb-config {}|M --block-size 16|M --block-size 13
M --generation-config None|M --max-model-len None|M --kv-cache-memory-bytes None|M --seed None
M --rope-theta 1e4|M --disable-frontend-multiprocessing|M --guided-decoding-backend xgrammar
M --enable-auto-tool-choice --tool-call-parser hermes|M --chat-template t.jinja|M --api-key a b
M --trust-remote-code true|M --enforce-eager 1|M --uvicorn-log-level loud|M --port 80a
"""
EXAMPLES = [text.split(" ") for line in TEXTS.strip().split("\n") for text in line.split("|")]


def release_of(package: Path) -> str:
    infos = (package / "PKG-INFO", *package.glob("*.dist-info/METADATA"))
    text = next(file for file in infos if file.is_file()).read_text("utf-8")
    found = re.search(r"^Version: (\S+)$", text, re.M)
    assert found is not None
    return found[1]


def render(package: Path, release: str) -> str:
    """The table of one release: JSON with one command line on each line."""
    table = json.loads(TABLE.read_text("utf-8"))
    parsers, rows = Parsers(package, release), dict[str, str]()
    for mode, words in lines(table, release):
        row = {"mode": mode, "argv": words} | parsers.verdict(mode, words)
        rows[json.dumps([mode, words])] = json.dumps(row, ensure_ascii=False)
    python = ".".join(map(str, sys.version_info[:2]))
    body = ",\n".join(rows.values())
    return f'{{"release": "{release}", "python": "{python}", "rows": [\n{body}\n]}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description="Write what vLLM's own parser says.")
    parser.add_argument("package", type=Path, help="unpacked sdist or wheel of one release")
    parser.add_argument("--check", action="store_true", help="exit 1 if the table on disk differs")
    args = parser.parse_args()
    release = release_of(args.package)
    text = render(args.package, release)
    return put(DATA / f"vllm_parser_{release}.json", text, args.check)


def put(path: Path, text: str, check: bool) -> int:
    """Write the table, or say whether it is what stands there; the exit code."""
    if check:
        same = path.is_file() and path.read_text("utf-8") == text
        print(f"{path.relative_to(ROOT)}: {'up to date' if same else 'differs from the parser'}")
        return 0 if same else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {text.count(chr(10)) - 2} command lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
